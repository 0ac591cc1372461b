//! Distinguishes a person's text from tool output and from notes of the host, when all three are sent as user
//! text.
//!
//! The evidence is a call, written as text, at the end of the reply before, and phrases that only a program
//! writes. If the origin stays uncertain, the text is protected like a user's.

use serde::Deserialize;

use crate::host_text;
use crate::transcript::Block;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTextTable {
    result_openers: Vec<String>,
    result_first_lines: Vec<FirstLine>,
    result_closers: Vec<String>,
    host_openers: Vec<String>,
    relayed_openers: Vec<String>,
    call_tags: Vec<String>,
}

#[derive(Deserialize)]
struct FirstLine {
    begins: String,
    ends: String,
}

table! {
    static TABLE: UserTextTable = "user_text.toml";
}

/// How many bytes at the start or end of a text are examined. Chosen by hand.
const PEEK_BYTES: usize = 400;

/// A tool call, written as text, at the end of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextCall {
    pub(super) tool: String,
    certainty: Certainty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// Only a call of a tool ends like this.
    Sure,
    /// The ending may also be meant for a person, for example a shell command in a code fence.
    Likely,
}

/// The origin of a text that was sent as user text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextOrigin {
    User,
    Host,
    ToolOutput,
    Unsure,
}

/// Parses the call, written as text, that a reply ends with.
pub(super) fn parse_call_at_end(reply: &Block<'_>) -> Option<TextCall> {
    let ending = reply.ending(PEEK_BYTES);
    let ending = ending.trim_end();
    let call = |tool: &str, certainty| Some(TextCall { tool: tool.to_owned(), certainty });
    if let Some(tag) = closing_tag(ending) {
        let is_listed = TABLE.call_tags.iter().any(|name| name == tag);
        return match is_listed {
            true => call(tag, Certainty::Sure),
            // HTML tags have no underscores, but names of tools often do.
            false if tag.contains('_') => call(tag, Certainty::Likely),
            false => None,
        };
    }
    if let Some(line) = ending.lines().rev().take(4).find_map(|l| l.trim().strip_prefix("Action:")) {
        let tool = line.split(['(', '[', ' ']).find(|w| !w.is_empty()).unwrap_or_default();
        return call(tool, Certainty::Sure);
    }
    if ends_with_shell_fence(ending) { call("shell", Certainty::Likely) } else { None }
}

/// Returns whether a reply certainly ends with a call that is written as text.
pub(crate) fn ends_with_text_call(reply: &Block<'_>) -> bool {
    parse_call_at_end(reply).is_some_and(|call| call.certainty == Certainty::Sure)
}

/// Returns whether a text ends with a code fence for shell commands.
fn ends_with_shell_fence(ending: &str) -> bool {
    let Some(inside) = ending.strip_suffix("\n```") else { return false };
    let opener = inside.rfind("```").map(|at| inside[at + 3..].lines().next().unwrap_or_default().trim());
    matches!(opener, Some("" | "bash" | "sh" | "shell" | "console" | "cmd"))
}

/// Returns the name in the closing tag at the end of a text: `read_file` for `… </read_file>`.
fn closing_tag(ending: &str) -> Option<&str> {
    let inside = ending.strip_suffix('>')?;
    let name = &inside[inside.rfind("</")? + 2..];
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
    is_name.then_some(name)
}

/// Classifies a user text by its content, by the call at the end of the reply before it, and by the first
/// lines of earlier prompts.
pub(super) fn classify(block: &Block<'_>, after: Option<&TextCall>, earlier_openings: &[String]) -> TextOrigin {
    let table = &*TABLE;
    let opening = block.opening(PEEK_BYTES);
    let opening = opening.trim_start();
    let opens = |with: &[String]| with.iter().any(|o| opening.starts_with(o.as_str()));
    let first_line = opening.lines().next().unwrap_or_default().trim_end();
    if opens(&table.host_openers) {
        return TextOrigin::Host;
    }
    if opens(&table.relayed_openers) {
        return if after.is_some() { TextOrigin::Unsure } else { TextOrigin::User };
    }
    let is_result_line = |l: &FirstLine| first_line.starts_with(&l.begins) && first_line.ends_with(&l.ends);
    if opens(&table.result_openers) || table.result_first_lines.iter().any(is_result_line) {
        return TextOrigin::ToolOutput;
    }
    let Some(call) = after else { return TextOrigin::User };
    if earlier_openings.iter().any(|earlier| earlier == first_line) {
        return TextOrigin::User;
    }
    let closes = || {
        let ending = block.ending(PEEK_BYTES);
        table.result_closers.iter().any(|c| ending.trim_end().ends_with(c.as_str()))
    };
    match call.certainty {
        Certainty::Sure => TextOrigin::ToolOutput,
        Certainty::Likely if closes() => TextOrigin::ToolOutput,
        Certainty::Likely => TextOrigin::Unsure,
    }
}

/// Returns whether a block of a user message may contain text that a host passes on.
pub(super) fn may_contain_relayed(block: &Block<'_>) -> bool {
    host_text::may_end_with_relayed(&block.ending(PEEK_BYTES))
        || host_text::may_be_relayed_message(block.opening(PEEK_BYTES).trim_start())
}

/// Returns whether the host program wrote the block.
pub(super) fn is_host_text(block: &Block<'_>) -> bool {
    let opening = block.opening(PEEK_BYTES);
    TABLE.host_openers.iter().any(|opener| opening.trim_start().starts_with(opener.as_str()))
}

/// Returns the first line of a prompt, if it is long enough to recognize a template by.
pub(super) fn opening_line(block: &Block<'_>) -> Option<String> {
    let opening = block.opening(PEEK_BYTES);
    let line = opening.trim_start().lines().next().unwrap_or_default().trim_end();
    (line.len() >= 24).then(|| line.to_owned())
}
