//! Tool calls and results in the Messages dialect.
//!
//! The provider joins neighbouring messages of one role into a turn (not confirmed). So a result that stands in the right
//! turn but not in the very next message is a warning, and one that stands elsewhere an error.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::block::Block;
use super::rules::{A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11};
use super::{At, Findings, Request, Severity, is_word, quoted};

const LONGEST_NAME: usize = 128;

/// A block, as far as pairing is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Call,
    Result,
    ServerCall,
    ServerResult,
    Text,
    Other,
}

struct Entry<'v> {
    what: What,
    id: &'v str,
    message: usize,
    at: At,
}

/// A run of messages of one role.
struct Turn<'v> {
    role: &'v str,
    entries: Range<usize>,
}

/// The blocks of all messages in turns, gathered while the messages are walked.
#[derive(Default)]
pub(super) struct Turns<'v> {
    runs: Vec<Turn<'v>>,
    entries: Vec<Entry<'v>>,
    ids: HashSet<&'v str>,
}

impl<'v> Turns<'v> {
    pub(super) fn message(&mut self, role: &'v str) {
        if self.runs.last().is_none_or(|turn| turn.role != role) {
            self.runs.push(Turn { role, entries: self.entries.len()..self.entries.len() });
        }
    }

    /// Takes a block in, and judges its id and name (A4, A9, A11).
    pub(super) fn block(&mut self, message: usize, block: &Block<'v>, findings: &mut Findings) {
        let (what, field) = match block.kind {
            "tool_use" => (What::Call, "id"),
            "server_tool_use" | "mcp_tool_use" => (What::ServerCall, "id"),
            "tool_result" => (What::Result, "tool_use_id"),
            kind if kind.ends_with("_tool_result") => (What::ServerResult, "tool_use_id"),
            "text" => (What::Text, ""),
            _ => (What::Other, ""),
        };
        let mut id = "";
        if !field.is_empty() {
            id = block.value[field].as_str().unwrap_or_default();
            if !is_word(id, "_-", 1, usize::MAX) {
                let message =
                    format!("the id {} has other characters than letters, digits, `_` and `-`", quoted(id));
                findings.report(&A9, block.at / field, message);
            }
        }
        if [What::Call, What::ServerCall].contains(&what) {
            if !self.ids.insert(id) {
                let message = format!("the id {} was used by an earlier call: make them differ", quoted(id));
                findings.report(&A4, block.at / "id", message);
            }
            call_shape(block.value, block.at, findings);
        }
        self.entries.push(Entry { what, id, message, at: block.at });
        if let Some(turn) = self.runs.last_mut() {
            turn.entries.end = self.entries.len();
        }
    }

    fn of(&self, turn: Option<&Turn>) -> &[Entry<'v>] {
        turn.map_or(&[], |turn| &self.entries[turn.entries.clone()])
    }

    pub(super) fn check(&self, request: &Request, findings: &mut Findings) {
        for (t, turn) in self.runs.iter().enumerate() {
            let before = t.checked_sub(1).map(|b| &self.runs[b]);
            match turn.role {
                "assistant" => {
                    let next = self.runs.get(t + 1).filter(|next| next.role == "user");
                    answered(self.of(Some(turn)), self.of(next), findings);
                }
                "user" => {
                    let before = before.filter(|before| before.role == "assistant");
                    answers(self.of(Some(turn)), self.of(before), findings);
                }
                _ => {}
            }
        }
        for message in self.entries.chunk_by(|a, b| a.message == b.message) {
            results_first(message, request.messages.len(), findings);
        }
        self.server_tools(findings);
        let tools = [What::Call, What::Result];
        let has_tools = self.entries.iter().any(|entry| tools.contains(&entry.what));
        if has_tools && !request.bare && request.tools().next().is_none() {
            let message = "the messages hold tool blocks but no `tools` are defined: define them";
            findings.report(&A10, At::BODY / "tools", message);
        }
    }

    /// A7 and A8: a server tool's call and its result.
    fn server_tools(&self, findings: &mut Findings) {
        let mut waiting: HashMap<&str, (usize, At)> = HashMap::new();
        for (t, turn) in self.runs.iter().enumerate().filter(|(_, turn)| turn.role == "assistant") {
            let entries = self.of(Some(turn));
            for (e, entry) in entries.iter().enumerate() {
                if entry.what == What::ServerCall {
                    waiting.insert(entry.id, (e, entry.at));
                } else if entry.what == What::ServerResult && waiting.remove(entry.id).is_none() {
                    let message = format!("no server call {} stands before this result", quoted(entry.id));
                    findings.report(&A8, entry.at, message + ": keep them together");
                }
            }
            if waiting.is_empty() {
                continue;
            }
            let Some(next) = self.runs.get(t + 1) else { break };
            if entries.iter().any(|entry| entry.what == What::Call) {
                if let Some(other) = self.of(Some(next)).iter().find(|entry| entry.what != What::Result) {
                    let message =
                        "a server tool is unresolved, so only results may stand here: move the rest";
                    findings.report(&A7, other.at, message);
                }
                continue;
            }
            let mut unresolved: Vec<_> = waiting.drain().collect();
            unresolved.sort_by_key(|&(_, (e, _))| e);
            for (id, (_, at)) in unresolved {
                let message =
                    format!("server call {} has no result in its turn: keep them together", quoted(id));
                findings.report(&A8, at, message);
            }
        }
    }
}

/// A1: every call of an assistant turn has its result in the user turn behind it.
fn answered(turn: &[Entry], next: &[Entry], findings: &mut Findings) {
    let mut calls = turn.iter().filter(|entry| entry.what == What::Call).peekable();
    if calls.peek().is_none() {
        return;
    }
    let results = next.iter().filter(|entry| entry.what == What::Result);
    let results: HashMap<&str, usize> = results.rev().map(|entry| (entry.id, entry.message)).collect();
    for call in calls {
        match results.get(call.id) {
            None => {
                let message = format!("call {} has no result in the next message", quoted(call.id));
                findings.report(&A1, call.at, message + ": add it or remove the call");
            }
            Some(&result) if result != call.message + 1 => {
                let message =
                    format!("the result of call {} is not in the very next message", quoted(call.id));
                findings.report_as(Severity::Warning, &A1, call.at, message + ": move it there");
            }
            Some(_) => {}
        }
    }
}

/// A2 and A3: every result of a user turn answers a call of the assistant turn before, once.
fn answers(turn: &[Entry], before: &[Entry], findings: &mut Findings) {
    let mut results = turn.iter().filter(|entry| entry.what == What::Result).peekable();
    if results.peek().is_none() {
        return;
    }
    let is_call = |entry: &&Entry| [What::Call, What::ServerCall].contains(&entry.what);
    let mut calls: HashMap<&str, usize> = before.iter().filter(is_call).map(|call| (call.id, 0)).collect();
    for result in results {
        match calls.get_mut(result.id) {
            None => {
                let message = format!("no call {} stands in the message before", quoted(result.id));
                findings.report(&A2, result.at, message + ": remove this result");
            }
            Some(answers) => {
                *answers += 1;
                if *answers > 1 {
                    let message = format!("call {} is answered twice: keep one result", quoted(result.id));
                    findings.report(&A3, result.at, message);
                }
            }
        }
    }
}

/// A5 and A6: the order inside a message that answers calls.
fn results_first(message: &[Entry], messages: usize, findings: &mut Findings) {
    let is_result = |entry: &&Entry| entry.what == What::Result;
    let Some(other) = message.iter().position(|entry| !is_result(&entry)) else { return };
    if let Some(late) = message[other..].iter().find(is_result) {
        findings.report(&A5, late.at, "a result stands behind other content: results come first");
    } else if other > 0 && message[other].what == What::Text && message[other].message + 1 == messages {
        findings.report(&A6, message[other].at, "text right behind results can make the reply empty");
    }
}

/// A11. Of its two halves only the one about `input` was seen refused.
fn call_shape(call: &Value, at: At, findings: &mut Findings) {
    if !call["input"].is_object() {
        let message = "`input` is not an object: send `{}` for none";
        findings.report_as(Severity::Error, &A11, at / "input", message);
    }
    name(&call["name"], at / "name", findings);
}

/// A11, for a tool's definition or a call.
pub(super) fn name(name: &Value, at: At, findings: &mut Findings) {
    let Some(name) = name.as_str() else { return };
    if !is_word(name, "_-", 1, LONGEST_NAME) {
        let message = format!("the tool name {} is not 1 to 128 letters, digits, `_` or `-`", quoted(name));
        findings.report(&A11, at, message);
    }
}
