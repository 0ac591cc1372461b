//! Checks tool calls and their results in Messages.
//!
//! The provider probably joins neighbouring messages of one role into a run (not confirmed). So a result in
//! the right run but not in the very next message is a warning, and a result anywhere else is an error.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::block::LocatedBlock;
use super::rules::{A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11};
use super::{CheckedRequest, Findings, JsonPath, Severity, is_identifier, quote};

/// The maximum length of a tool name, in characters (A11).
const MAX_NAME_CHARS: usize = 128;

/// The kind of a block, as far as pairing is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PairingKind {
    Call,
    Result,
    ServerCall,
    ServerResult,
    Text,
    Other,
}

/// A block with the facts that pairing needs.
struct PairingEntry<'v> {
    kind: PairingKind,
    id: &'v str,
    message: usize,
    path: JsonPath,
}

/// A run of neighbouring messages of one role.
struct RoleRun<'v> {
    role: &'v str,
    entries: Range<usize>,
}

/// The blocks of all messages in runs, collected while the messages are walked.
#[derive(Default)]
pub(super) struct RoleRuns<'v> {
    runs: Vec<RoleRun<'v>>,
    entries: Vec<PairingEntry<'v>>,
    ids: HashSet<&'v str>,
}

impl<'v> RoleRuns<'v> {
    pub(super) fn start_message(&mut self, role: &'v str) {
        if self.runs.last().is_none_or(|turn| turn.role != role) {
            self.runs.push(RoleRun { role, entries: self.entries.len()..self.entries.len() });
        }
    }

    /// Adds a block, and checks its ID and name (A4, A9, A11).
    pub(super) fn add_block(&mut self, message: usize, block: &LocatedBlock<'v>, findings: &mut Findings) {
        let (what, field) = match block.kind {
            "tool_use" => (PairingKind::Call, "id"),
            "server_tool_use" | "mcp_tool_use" => (PairingKind::ServerCall, "id"),
            "tool_result" => (PairingKind::Result, "tool_use_id"),
            kind if kind.ends_with("_tool_result") => (PairingKind::ServerResult, "tool_use_id"),
            "text" => (PairingKind::Text, ""),
            _ => (PairingKind::Other, ""),
        };
        let mut id = "";
        if !field.is_empty() {
            id = block.value[field].as_str().unwrap_or_default();
            if !is_identifier(id, "_-", 1, usize::MAX) {
                let message = format!("the id {} has other characters than letters, digits, `_` and `-`", quote(id));
                findings.report(&A9, block.path / field, message);
            }
        }
        if [PairingKind::Call, PairingKind::ServerCall].contains(&what) {
            if !self.ids.insert(id) {
                let message = format!("the id {} was used by an earlier call: make them differ", quote(id));
                findings.report(&A4, block.path / "id", message);
            }
            check_call_shape(block.value, block.path, findings);
        }
        self.entries.push(PairingEntry { kind: what, id, message, path: block.path });
        if let Some(turn) = self.runs.last_mut() {
            turn.entries.end = self.entries.len();
        }
    }

    fn entries_of(&self, turn: Option<&RoleRun>) -> &[PairingEntry<'v>] {
        turn.map_or(&[], |turn| &self.entries[turn.entries.clone()])
    }

    pub(super) fn check(&self, request: &CheckedRequest, findings: &mut Findings) {
        for (t, turn) in self.runs.iter().enumerate() {
            let before = t.checked_sub(1).map(|b| &self.runs[b]);
            match turn.role {
                "assistant" => {
                    let next = self.runs.get(t + 1).filter(|next| next.role == "user");
                    check_calls_answered(self.entries_of(Some(turn)), self.entries_of(next), findings);
                }
                "user" => {
                    let before = before.filter(|before| before.role == "assistant");
                    check_results_match(self.entries_of(Some(turn)), self.entries_of(before), findings);
                }
                _ => {}
            }
        }
        for message in self.entries.chunk_by(|a, b| a.message == b.message) {
            check_results_first(message, request.messages.len(), findings);
        }
        self.check_server_tools(findings);
        let tools = [PairingKind::Call, PairingKind::Result];
        let has_tools = self.entries.iter().any(|entry| tools.contains(&entry.kind));
        if has_tools && !request.is_bare_list && request.tools().next().is_none() {
            let message = "the messages contain tool blocks but no `tools` are defined: define them";
            findings.report(&A10, JsonPath::ROOT / "tools", message);
        }
    }

    /// Checks A7 and A8: the call of a server tool and its result.
    fn check_server_tools(&self, findings: &mut Findings) {
        let mut waiting: HashMap<&str, (usize, JsonPath)> = HashMap::new();
        for (t, turn) in self.runs.iter().enumerate().filter(|(_, turn)| turn.role == "assistant") {
            let entries = self.entries_of(Some(turn));
            for (e, entry) in entries.iter().enumerate() {
                if entry.kind == PairingKind::ServerCall {
                    waiting.insert(entry.id, (e, entry.path));
                } else if entry.kind == PairingKind::ServerResult && waiting.remove(entry.id).is_none() {
                    let message = format!("there is no server call {} before this result", quote(entry.id));
                    findings.report(&A8, entry.path, message + ": keep them together");
                }
            }
            if waiting.is_empty() {
                continue;
            }
            let Some(next) = self.runs.get(t + 1) else { break };
            if entries.iter().any(|entry| entry.kind == PairingKind::Call) {
                if let Some(other) = self.entries_of(Some(next)).iter().find(|entry| entry.kind != PairingKind::Result)
                {
                    let message = "a server tool is unresolved, so only results are allowed here: move the rest";
                    findings.report(&A7, other.path, message);
                }
                continue;
            }
            let mut unresolved: Vec<_> = waiting.drain().collect();
            unresolved.sort_by_key(|&(_, (e, _))| e);
            for (id, (_, at)) in unresolved {
                let message = format!("server call {} has no result in its turn: keep them together", quote(id));
                findings.report(&A8, at, message);
            }
        }
    }
}

/// Checks A1: every call of an assistant run has its result in the user run after it.
fn check_calls_answered(turn: &[PairingEntry], next: &[PairingEntry], findings: &mut Findings) {
    let mut calls = turn.iter().filter(|entry| entry.kind == PairingKind::Call).peekable();
    if calls.peek().is_none() {
        return;
    }
    let results = next.iter().filter(|entry| entry.kind == PairingKind::Result);
    let results: HashMap<&str, usize> = results.rev().map(|entry| (entry.id, entry.message)).collect();
    for call in calls {
        match results.get(call.id) {
            None => {
                let message = format!("call {} has no result in the next message", quote(call.id));
                findings.report(&A1, call.path, message + ": add it or remove the call");
            }
            Some(&result) if result != call.message + 1 => {
                let message = format!("the result of call {} is not in the very next message", quote(call.id));
                findings.report_with_severity(Severity::Warning, &A1, call.path, message + ": move it there");
            }
            Some(_) => {}
        }
    }
}

/// Checks A2 and A3: every result of a user run answers a call of the assistant run before it, and no call is
/// answered twice.
fn check_results_match(turn: &[PairingEntry], before: &[PairingEntry], findings: &mut Findings) {
    let mut results = turn.iter().filter(|entry| entry.kind == PairingKind::Result).peekable();
    if results.peek().is_none() {
        return;
    }
    let is_call = |entry: &&PairingEntry| [PairingKind::Call, PairingKind::ServerCall].contains(&entry.kind);
    let mut calls: HashMap<&str, usize> = before.iter().filter(is_call).map(|call| (call.id, 0)).collect();
    for result in results {
        match calls.get_mut(result.id) {
            None => {
                let message = format!("the message before has no call {}", quote(result.id));
                findings.report(&A2, result.path, message + ": remove this result");
            }
            Some(answers) => {
                *answers += 1;
                if *answers > 1 {
                    let message = format!("call {} is answered twice: keep one result", quote(result.id));
                    findings.report(&A3, result.path, message);
                }
            }
        }
    }
}

/// Checks A5 and A6: the order of blocks in a message that answers calls.
fn check_results_first(message: &[PairingEntry], messages: usize, findings: &mut Findings) {
    let is_result = |entry: &&PairingEntry| entry.kind == PairingKind::Result;
    let Some(other) = message.iter().position(|entry| !is_result(&entry)) else { return };
    if let Some(late) = message[other..].iter().find(is_result) {
        findings.report(&A5, late.path, "a result is after other content: put results first");
    } else if other > 0 && message[other].kind == PairingKind::Text && message[other].message + 1 == messages {
        findings.report(&A6, message[other].path, "text directly after results can make the reply empty");
    }
}

/// Checks A11 for a call. Only a wrong `input` was seen to be refused, so only that is an error.
fn check_call_shape(call: &Value, at: JsonPath, findings: &mut Findings) {
    if !call["input"].is_object() {
        let message = "`input` is not an object: send `{}` for none";
        findings.report_with_severity(Severity::Error, &A11, at / "input", message);
    }
    check_tool_name(&call["name"], at / "name", findings);
}

/// Checks A11 for the name in a tool definition or a call.
pub(super) fn check_tool_name(name: &Value, at: JsonPath, findings: &mut Findings) {
    let Some(name) = name.as_str() else { return };
    if !is_identifier(name, "_-", 1, MAX_NAME_CHARS) {
        let message = format!("the tool name {} is not 1 to 128 letters, digits, `_` or `-`", quote(name));
        findings.report(&A11, at, message);
    }
}
