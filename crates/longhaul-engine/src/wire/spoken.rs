//! Tells a person's words from tool output and from the host's notes where all three come as user text.
//!
//! What is certain follows from the reply before (it ended in a call written as text) or from words that only a program
//! writes. What is not certain stays protected like a user's words.

use serde::Deserialize;

use crate::hosted;
use crate::transcript::Block;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
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
    static TABLE: Table = "spoken.toml";
}

/// How much of a text's start or end is looked at.
const GLANCE: usize = 400;

/// A call that a reply ends with, written as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpokenCall {
    pub(super) tool: String,
    certainty: Certainty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// Only a program reads such an ending.
    Sure,
    /// A person may have been shown it too, such as a shell command in a fence.
    Likely,
}

/// What a text under a user's name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    User,
    Host,
    Observation,
    Unsure,
}

/// The call that a reply's last text ends with.
pub(super) fn call_at_end(reply: &Block<'_>) -> Option<SpokenCall> {
    let ending = reply.ending(GLANCE);
    let ending = ending.trim_end();
    let call = |tool: &str, certainty| Some(SpokenCall { tool: tool.to_owned(), certainty });
    if let Some(tag) = closing_tag(ending) {
        let known = TABLE.call_tags.iter().any(|name| name == tag);
        return match known {
            true => call(tag, Certainty::Sure),
            // Markup has no underscores in its tags; the names of tools often do.
            false if tag.contains('_') => call(tag, Certainty::Likely),
            false => None,
        };
    }
    if let Some(line) = ending.lines().rev().take(4).find_map(|l| l.trim().strip_prefix("Action:")) {
        let tool = line.split(['(', '[', ' ']).find(|w| !w.is_empty()).unwrap_or_default();
        return call(tool, Certainty::Sure);
    }
    if ends_in_shell_fence(ending) { call("shell", Certainty::Likely) } else { None }
}

/// Whether a reply surely ends in a call that is written as text.
pub(crate) fn ends_in_call(reply: &Block<'_>) -> bool {
    call_at_end(reply).is_some_and(|call| call.certainty == Certainty::Sure)
}

/// Whether a text ends with a fence that holds a command rather than a program.
fn ends_in_shell_fence(ending: &str) -> bool {
    let Some(inside) = ending.strip_suffix("\n```") else { return false };
    let opener = inside.rfind("```").map(|at| inside[at + 3..].lines().next().unwrap_or_default().trim());
    matches!(opener, Some("" | "bash" | "sh" | "shell" | "console" | "cmd"))
}

/// The name in the closing tag that a text ends with: `read_file` of `… </read_file>`.
fn closing_tag(ending: &str) -> Option<&str> {
    let inside = ending.strip_suffix('>')?;
    let name = &inside[inside.rfind("</")? + 2..];
    let is_name =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
    is_name.then_some(name)
}

/// What a user's text is, given the call that the reply before it ended with and how earlier prompts began.
pub(super) fn hear(block: &Block<'_>, after: Option<&SpokenCall>, earlier_openings: &[String]) -> Heard {
    let table = &*TABLE;
    let opening = block.opening(GLANCE);
    let opening = opening.trim_start();
    let opens = |with: &[String]| with.iter().any(|o| opening.starts_with(o.as_str()));
    let first_line = opening.lines().next().unwrap_or_default().trim_end();
    if opens(&table.host_openers) {
        return Heard::Host;
    }
    if opens(&table.relayed_openers) {
        return if after.is_some() { Heard::Unsure } else { Heard::User };
    }
    let is_result_line = |l: &FirstLine| first_line.starts_with(&l.begins) && first_line.ends_with(&l.ends);
    if opens(&table.result_openers) || table.result_first_lines.iter().any(is_result_line) {
        return Heard::Observation;
    }
    let Some(call) = after else { return Heard::User };
    if earlier_openings.iter().any(|earlier| earlier == first_line) {
        return Heard::User;
    }
    let closes = || {
        let ending = block.ending(GLANCE);
        table.result_closers.iter().any(|c| ending.trim_end().ends_with(c.as_str()))
    };
    match call.certainty {
        Certainty::Sure => Heard::Observation,
        Certainty::Likely if closes() => Heard::Observation,
        Certainty::Likely => Heard::Unsure,
    }
}

/// Whether a block of a user's message may hold words that a host passes on.
pub(super) fn may_relay(block: &Block<'_>) -> bool {
    hosted::may_end(&block.ending(GLANCE)) || hosted::may_open(block.opening(GLANCE).trim_start())
}

/// Whether the program around the model says it.
pub(super) fn is_host(block: &Block<'_>) -> bool {
    let opening = block.opening(GLANCE);
    TABLE.host_openers.iter().any(|opener| opening.trim_start().starts_with(opener.as_str()))
}

/// The first line of a prompt, if it is long enough to recognise a template by.
pub(super) fn opening_line(block: &Block<'_>) -> Option<String> {
    let opening = block.opening(GLANCE);
    let line = opening.trim_start().lines().next().unwrap_or_default().trim_end();
    (line.len() >= 24).then(|| line.to_owned())
}
