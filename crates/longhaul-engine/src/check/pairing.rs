//! Tool calls and results in the Messages dialect.
//!
//! The provider joins neighbouring messages of one role into a turn (not confirmed). So a result that stands in the right
//! turn but not in the very next message is a warning, and one that stands elsewhere an error.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::rules::{A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11};
use super::{At, Findings, Request, Severity, is_word, kind, list, quoted, role};

const LONGEST_NAME: usize = 128;

pub(super) fn check(request: &Request, findings: &mut Findings) {
    let turns = turns(request.messages);
    for (t, turn) in turns.iter().enumerate() {
        let before = t.checked_sub(1).map(|b| turns[b].clone());
        match role(&request.messages[turn.start]) {
            "assistant" => answered(request, turn, turns.get(t + 1), findings),
            "user" => answers(request, turn, before, findings),
            _ => {}
        }
    }
    server_tools(request, &turns, findings);
    ids_and_names(request, findings);
    for i in 0..request.messages.len() {
        results_first(request, i, findings);
    }
    tools_defined(request, findings);
}

/// Runs of messages of one role.
fn turns(messages: &[Value]) -> Vec<Range<usize>> {
    let mut turns: Vec<Range<usize>> = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        match turns.last_mut() {
            Some(turn) if role(&messages[turn.start]) == role(message) => turn.end = i + 1,
            _ => turns.push(i..i + 1),
        }
    }
    turns
}

/// The blocks of a kind in a turn: message index, block index, block.
fn blocks<'v>(
    request: &Request<'v>,
    turn: Range<usize>,
    wanted: &'static str,
) -> impl Iterator<Item = (usize, usize, &'v Value)> {
    let messages = request.messages;
    turn.flat_map(move |i| list(&messages[i]["content"]).map(move |(b, block)| (i, b, block)))
        .filter(move |(_, _, block)| kind(block) == wanted)
}

fn at(request: &Request, message: usize, block: usize) -> At {
    request.at(message) / "content" / block
}

/// A1: every call of an assistant turn has its result in the user turn behind it.
fn answered(request: &Request, turn: &Range<usize>, next: Option<&Range<usize>>, findings: &mut Findings) {
    let next = next.filter(|n| role(&request.messages[n.start]) == "user").cloned().unwrap_or(0..0);
    let mut results: HashMap<&str, usize> = HashMap::new();
    for (i, _, block) in blocks(request, next.clone(), "tool_result") {
        results.entry(block["tool_use_id"].as_str().unwrap_or_default()).or_insert(i);
    }
    for (i, b, call) in blocks(request, turn.clone(), "tool_use") {
        let id = call["id"].as_str().unwrap_or_default();
        match results.get(id) {
            None => {
                let message = format!(
                    "call {} has no result in the next message: add it or remove the call",
                    quoted(id)
                );
                findings.report(&A1, at(request, i, b), message);
            }
            Some(&result) if result != i + 1 => {
                let message = format!(
                    "the result of call {} is not in the very next message: move it there",
                    quoted(id)
                );
                findings.report_as(Severity::Warning, &A1, at(request, i, b), message);
            }
            Some(_) => {}
        }
    }
}

/// A2 and A3: every result of a user turn answers a call of the assistant turn before, once.
fn answers(request: &Request, turn: &Range<usize>, before: Option<Range<usize>>, findings: &mut Findings) {
    let before = before.filter(|b| role(&request.messages[b.start]) == "assistant").unwrap_or(0..0);
    let calls: HashSet<&str> = blocks(request, before.clone(), "tool_use")
        .chain(blocks(request, before, "server_tool_use"))
        .filter_map(|(_, _, call)| call["id"].as_str())
        .collect();
    let mut answered = HashSet::new();
    for (i, b, result) in blocks(request, turn.clone(), "tool_result") {
        let id = result["tool_use_id"].as_str().unwrap_or_default();
        if !calls.contains(id) {
            let message = format!("no call {} stands in the message before: remove this result", quoted(id));
            findings.report(&A2, at(request, i, b), message);
        } else if !answered.insert(id) {
            let message = format!("call {} is answered twice: keep one result", quoted(id));
            findings.report(&A3, at(request, i, b), message);
        }
    }
}

/// A5 and A6: the order inside a message that answers calls.
fn results_first(request: &Request, index: usize, findings: &mut Findings) {
    let mut other = None;
    let mut results = 0;
    for (b, block) in list(&request.messages[index]["content"]) {
        if kind(block) != "tool_result" {
            other = other.or(Some(b));
        } else if other.is_some() {
            findings.report(
                &A5,
                at(request, index, b),
                "a result stands behind other content: results come first",
            );
            return;
        } else {
            results += 1;
        }
    }
    if let Some(b) = other
        && results > 0
        && index + 1 == request.messages.len()
        && kind(&request.messages[index]["content"][b]) == "text"
    {
        findings.report(&A6, at(request, index, b), "text right behind results can make the reply empty");
    }
}

/// A7 and A8: a server tool's call and its result.
fn server_tools(request: &Request, turns: &[Range<usize>], findings: &mut Findings) {
    let mut waiting: HashMap<&str, (usize, usize)> = HashMap::new();
    for (t, turn) in turns.iter().enumerate() {
        if role(&request.messages[turn.start]) != "assistant" {
            continue;
        }
        for i in turn.clone() {
            for (b, block) in list(&request.messages[i]["content"]) {
                let kind = kind(block);
                if let Some(id) =
                    block["id"].as_str().filter(|_| ["server_tool_use", "mcp_tool_use"].contains(&kind))
                {
                    waiting.insert(id, (i, b));
                } else if let Some(id) =
                    block["tool_use_id"].as_str().filter(|_| kind.ends_with("_tool_result"))
                    && waiting.remove(id).is_none()
                {
                    let message = format!(
                        "no server call {} stands before this result: keep them together",
                        quoted(id)
                    );
                    findings.report(&A8, at(request, i, b), message);
                }
            }
        }
        if waiting.is_empty() {
            continue;
        }
        let Some(next) = turns.get(t + 1) else { break };
        if blocks(request, turn.clone(), "tool_use").next().is_some() {
            only_results(request, next, findings);
            continue;
        }
        let mut unresolved: Vec<_> = waiting.drain().collect();
        unresolved.sort_by_key(|&(_, place)| place);
        for (id, (i, b)) in unresolved {
            let message = format!("server call {} has no result in its turn: keep them together", quoted(id));
            findings.report(&A8, at(request, i, b), message);
        }
    }
}

fn only_results(request: &Request, turn: &Range<usize>, findings: &mut Findings) {
    for i in turn.clone() {
        let mut others =
            list(&request.messages[i]["content"]).filter(|(_, block)| kind(block) != "tool_result");
        if request.messages[i]["content"].is_string() || others.next().is_some() {
            let message =
                "a server tool is unresolved, so this message may hold nothing but results: move the rest";
            findings.report(&A7, request.at(i), message);
        }
    }
}

fn ids_and_names(request: &Request, findings: &mut Findings) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (i, message) in request.messages.iter().enumerate() {
        for (b, block) in list(&message["content"]) {
            let at = at(request, i, b);
            let kind = kind(block);
            let is_call = ["tool_use", "server_tool_use", "mcp_tool_use"].contains(&kind);
            let field = match (is_call, kind.ends_with("tool_result")) {
                (true, _) => "id",
                (_, true) => "tool_use_id",
                _ => continue,
            };
            let id = block[field].as_str().unwrap_or_default();
            if !is_word(id, "_-", 1, usize::MAX) {
                let message =
                    format!("the id {} has other characters than letters, digits, `_` and `-`", quoted(id));
                findings.report(&A9, at / field, message);
            }
            if is_call {
                if !seen.insert(id) {
                    let message =
                        format!("the id {} was used by an earlier call: make them differ", quoted(id));
                    findings.report(&A4, at / "id", message);
                }
                call_shape(block, at, findings);
            }
        }
    }
    for (t, tool) in request.tools() {
        name(&tool["name"], At::BODY / "tools" / t / "name", findings);
    }
}

fn call_shape(call: &Value, at: At, findings: &mut Findings) {
    if !call["input"].is_object() {
        findings.report(&A11, at / "input", "`input` is not an object: send `{}` for none");
    }
    name(&call["name"], at / "name", findings);
}

fn name(name: &Value, at: At, findings: &mut Findings) {
    let Some(name) = name.as_str() else { return };
    if !is_word(name, "_-", 1, LONGEST_NAME) {
        let message = format!("the tool name {} is not 1 to 128 letters, digits, `_` or `-`", quoted(name));
        findings.report(&A11, at, message);
    }
}

fn tools_defined(request: &Request, findings: &mut Findings) {
    if request.bare || request.tools().next().is_some() {
        return;
    }
    let all = 0..request.messages.len();
    let first =
        blocks(request, all.clone(), "tool_use").next().or(blocks(request, all, "tool_result").next());
    if let Some((i, b, _)) = first {
        let message = "the messages hold tool blocks but no `tools` are defined: define them";
        findings.report(&A10, at(request, i, b), message);
    }
}
