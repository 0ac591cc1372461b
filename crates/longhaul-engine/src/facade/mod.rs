//! The types and functions at the root of the library. They only combine the other modules and decide nothing
//! themselves.
//!
//! This module may use every other module.

mod cache_breakpoints;
mod error;
mod options;
mod proposals;
mod session;
mod summary_request;

pub use error::Error;
pub use options::Options;
pub use session::{Compacted, Session};
pub use summary_request::{Prompt, SummaryRequest};

use crate::Tokens;
use crate::digest::{self, Focus, ToolOutput};
use crate::redact::{RedactionMode, Redactor, Rules};

/// Replaces the secrets of a text, such as passwords and API keys, by tags. The built-in rules apply;
/// [`Session::redact`] applies the rules of a session.
///
/// ```
/// let line = "login with password=hunter2-correct-horse";
/// assert_eq!(longhaul_engine::redact_text(line), "login with password=[REDACTED:password:1]");
/// ```
#[must_use]
pub fn redact_text(text: &str) -> String {
    Redactor::numbered(Rules::default()).redact(text, RedactionMode::Text).text.into_string()
}

/// Shortens one tool output: the outcome, the errors, the counts and the paths stay, repetition goes. The
/// name and the arguments (JSON) of the tool call help to recognize the kind of output. Without
/// `max_tokens`, the short form has at most 220 tokens or a twentieth of the output, whichever is more.
///
/// ```
/// let output = (1..=300).map(|n| format!("test case_{n} ... ok\n")).collect::<String>()
///     + "test result: ok. 300 passed; 0 failed; finished in 0.42s\n";
/// let short = longhaul_engine::digest_tool_output(&output, Some("bash"), Some(r#"{"command": "cargo test"}"#), None);
/// assert!(short.len() < output.len() / 10);
/// assert!(short.contains("300 passed"));
/// ```
#[must_use]
pub fn digest_tool_output(
    output: &str,
    tool: Option<&str>,
    arguments: Option<&str>,
    max_tokens: Option<Tokens>,
) -> String {
    let focus = Focus::none();
    let source = ToolOutput {
        text: output,
        original_bytes: None,
        tool,
        arguments,
        kind: None,
        failed: None,
        focus: &focus,
        recall_id: None,
    };
    digest::digest(&source, max_tokens.unwrap_or_else(|| digest::default_budget(output))).text
}
