//! Mistral's own message order, as its validator (mistral-common, tokenizer versions 3 to 11) has it. In one thing the hosted API
//! is stricter: it refuses a user's message right behind a tool's (code 3230), as users of many programs reported until 2026.

use std::collections::HashMap;

use serde_json::Value;

use super::rules::{M1, M2, M3, M4, M5, M6, M7, M8, M9};
use super::{At, Findings, Request, is_word, kind, list, quoted, role};

pub(super) fn check(request: &Request, findings: &mut Findings) {
    if !findings.target.host.lists(M1.number) {
        return;
    }
    order(request, findings);
    tail(request, findings);
    pairing(request, findings);
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        ids(message, at, findings);
        names(message, at, findings);
        content(message, at, findings);
    }
    for (t, tool) in request.tools() {
        name(&tool["function"]["name"], At::BODY / "tools" / t / "function" / "name", findings);
    }
}

fn order(request: &Request, findings: &mut Findings) {
    match request.messages {
        [] => findings.report(&M1, request.root, "there is no message: send at least one"),
        [only] if !["user", "system"].contains(&role(only)) => {
            findings.report(&M1, request.at(0), "a lone message must be the user's or the system's");
        }
        _ => {}
    }
    for (i, pair) in request.messages.windows(2).enumerate() {
        let (before, after) = (role(&pair[0]), role(&pair[1]));
        let allowed: &[&str] = match before {
            "system" => &["user", "assistant", "system"],
            "user" => &["assistant", "system", "user"],
            "assistant" => &["assistant", "user", "tool"],
            "tool" => &["assistant", "tool"],
            _ => continue,
        };
        if !allowed.contains(&after) {
            let message =
                format!("the role {after} may not follow {before}: move the message or change its role");
            findings.report(&M2, request.at(i + 1), message);
        }
    }
}

fn tail(request: &Request, findings: &mut Findings) {
    let Some((last, message)) = request.last() else { return };
    if last > 0 && role(message) == "assistant" && message["prefix"] != true {
        let message = "the last message is an assistant's without `prefix`: end with the user or a result";
        findings.report(&M3, request.at(last), message);
    }
    for (i, message) in request.messages[..last].iter().enumerate() {
        if role(message) == "assistant" && message["prefix"] == true {
            findings.report(
                &M4,
                request.at(i) / "prefix",
                "`prefix` is for the last message only: remove it",
            );
        }
    }
}

/// M5. Results are counted until the next assistant message, whatever else comes between. The vendor's validator passes
/// over the very first message here, so that even a well-formed pair at the start is refused.
fn pairing(request: &Request, findings: &mut Findings) {
    let mut open: HashMap<&str, bool> = HashMap::new();
    let mut opened_at = 0;
    for (i, message) in request.messages.iter().enumerate().skip(1) {
        match role(message) {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let fault = match open.insert(id, true) {
                    Some(false) => continue,
                    Some(true) => "is answered twice",
                    None => "was not called right before",
                };
                findings.report(
                    &M5,
                    request.at(i),
                    format!("call {} {fault}: remove this result", quoted(id)),
                );
            }
            "assistant" => {
                close(request, &mut open, opened_at, findings);
                opened_at = i;
                for (c, call) in list(&message["tool_calls"]) {
                    let id = call["id"].as_str().unwrap_or_default();
                    if open.insert(id, false).is_some() {
                        let at = request.at(i) / "tool_calls" / c;
                        findings.report(
                            &M5,
                            at,
                            format!("two calls have the id {}: make them differ", quoted(id)),
                        );
                    }
                }
            }
            _ => {}
        }
    }
    close(request, &mut open, opened_at, findings);
}

fn close(request: &Request, open: &mut HashMap<&str, bool>, opened_at: usize, findings: &mut Findings) {
    let unanswered = open.drain().filter(|(_, answered)| !answered).count();
    if unanswered > 0 {
        let message = format!("{unanswered} of its calls have no result before the next reply: add them");
        findings.report(&M5, request.at(opened_at), message);
    }
}

fn ids(message: &Value, at: At, findings: &mut Findings) {
    let Some(shape) = findings.target.host.call_id() else { return };
    let of_calls = list(&message["tool_calls"]).map(|(c, call)| (at / "tool_calls" / c / "id", &call["id"]));
    let of_result = (role(message) == "tool").then(|| (at / "tool_call_id", &message["tool_call_id"]));
    for (at, id) in of_calls.chain(of_result) {
        let id = id.as_str().unwrap_or_default();
        if !is_word(id, &shape.extra, shape.min, shape.max) {
            let message =
                format!("the call id {} is not 9 letters and digits: rename both ends alike", quoted(id));
            findings.report(&M6, at, message);
        }
    }
}

fn names(message: &Value, at: At, findings: &mut Findings) {
    for (c, call) in list(&message["tool_calls"]) {
        name(&call["function"]["name"], at / "tool_calls" / c / "function" / "name", findings);
    }
    if role(message) == "tool" && !message["name"].is_null() {
        name(&message["name"], at / "name", findings);
    }
}

fn name(name: &Value, at: At, findings: &mut Findings) {
    let name = name.as_str().unwrap_or_default();
    if !is_word(name, "_-", 1, 64) {
        let message =
            format!("the function name {} is not 1 to 64 letters, digits, `_` or `-`", quoted(name));
        findings.report(&M7, at, message);
    }
}

fn content(message: &Value, at: At, findings: &mut Findings) {
    let content = &message["content"];
    let at = at / "content";
    match role(message) {
        "system" if content.is_null() => findings.report(&M9, at, "a system message needs content"),
        "assistant" => {
            let says = content.as_str().is_some_and(|t| !t.is_empty()) || list(content).next().is_some();
            if !says && list(&message["tool_calls"]).next().is_none() {
                findings.report(&M8, at, "an assistant message needs content or calls: remove it");
            }
            chunks(content, at, &["text", "thinking"], findings);
        }
        "tool" => chunks(content, at, &["text"], findings),
        _ => {}
    }
}

fn chunks(content: &Value, at: At, allowed: &[&str], findings: &mut Findings) {
    for (p, part) in list(content) {
        if !allowed.contains(&kind(part)) {
            let message = format!("a part of type {} may not stand here: send text", quoted(kind(part)));
            findings.report(&M9, at / p, message);
        }
    }
}
