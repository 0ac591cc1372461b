//! Summaries that a model writes: the prompts for the model, and the audit of its reply.
//!
//! ```text
//! turns ──SummaryJob──▶ prompts ──▶ (a model) ──▶ ModelSummary ──audit──▶ Notes
//! ```
//!
//! Nothing here waits for a model: a job is a value, and a summary is an input of a later plan. A summary is
//! used only for the turns that it was written for, if they are unchanged, and without the parts that the
//! transcript contradicts.
//!
//! It may use `checkpoint`, `evidence` and the modules below them.

mod append;
mod audit;
mod job;
mod render_turns;
mod scope;

pub use audit::{AuditAction, AuditFinding};
pub(crate) use audit::{AuditedSummary, MAX_SUMMARY_BYTES, SummaryRejection, audit};
pub use job::{MAX_PROMPT_FRAME, Material, SummaryJob, SummaryPrompt, required_window};
pub(crate) use render_turns::{escape_markers, render_turn};
pub use scope::SummaryScope;

/// A summary as a model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSummary {
    /// The turns that the summary is about.
    pub scope: SummaryScope,
    /// The text, unchanged.
    pub text: String,
    /// The name of the author, as it is shown to people.
    pub author: String,
    /// Whether the model finished the text.
    pub completeness: Completeness,
}

/// Whether a model finished its summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// The model finished the summary.
    Complete,
    /// The reply reached its token limit, so the last statement may be incomplete.
    Truncated,
}
