//! A model's summary: what a model would be asked, and what of its answer is believed.
//!
//! ```text
//! units that will go ──Ask──▶ questions ──▶ (a model, elsewhere) ──▶ Answer ──read──▶ statements ──audit──▶ what a checkpoint may say
//! ```
//!
//! Nobody here waits: an ask is a value, and an answer is an input of a later plan. It is taken for the very units that it was asked
//! for, if they are unchanged; and of what it says, only what the transcript bears out.
//!
//! It may use `checkpoint`, `evidence` and what is below them.

mod ask;
mod audit;
mod covers;
mod extend;
mod read;
mod turns;

pub use ask::{Ask, FRAME, Material, Question, room};
pub(crate) use audit::{Audited, LONGEST, NoSummary, audit};
pub use audit::{Finding, Mended};
pub use covers::Covers;
pub(crate) use turns::{harmless, turn};

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// For which units.
    pub covers: Covers,
    /// Its words, as they came.
    pub text: String,
    /// Who wrote it, as a person would name it.
    pub by: String,
    /// Whether it came to its end.
    pub end: End,
}

/// Whether an answer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It did.
    Whole,
    /// The model had no room for more: the last thing that it says may be half of one.
    Cut,
}
