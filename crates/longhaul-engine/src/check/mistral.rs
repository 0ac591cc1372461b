//! The rules of Mistral (M), as in its validator (mistral-common, tokenizer versions 3 to 11). The hosted API
//! is stricter in one point: it refuses a user message directly after a tool message (code 3230), as users of
//! many programs reported until 2026.

use std::collections::HashMap;

use serde_json::Value;

use super::rules::{M1, M2, M3, M4, M5, M6, M7, M8, M9};
use super::{CheckedRequest, Findings, JsonPath, indexed, is_identifier, quote, role, type_of};

pub(super) fn check(request: &CheckedRequest, findings: &mut Findings) {
    if !findings.target.host.lists_rule(M1.number) {
        return;
    }
    check_role_order(request, findings);
    check_last_message(request, findings);
    check_pairing(request, findings);
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.message_path(i);
        check_call_ids(message, at, findings);
        check_names(message, at, findings);
        check_content(message, at, findings);
    }
    for (t, tool) in request.tools() {
        check_name(&tool["function"]["name"], JsonPath::ROOT / "tools" / t / "function" / "name", findings);
    }
}

fn check_role_order(request: &CheckedRequest, findings: &mut Findings) {
    match request.messages {
        [] => findings.report(&M1, request.messages_path, "there is no message: send at least one"),
        [only] if !["user", "system"].contains(&role(only)) => {
            findings.report(&M1, request.message_path(0), "a single message must be a user or system message");
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
            let message = format!("the role {after} may not follow {before}: move the message or change its role");
            findings.report(&M2, request.message_path(i + 1), message);
        }
    }
}

fn check_last_message(request: &CheckedRequest, findings: &mut Findings) {
    let Some((last, message)) = request.last_message() else { return };
    if last > 0 && role(message) == "assistant" && message["prefix"] != true {
        let message = "the last message is an assistant's without `prefix`: end with the user or a result";
        findings.report(&M3, request.message_path(last), message);
    }
    for (i, message) in request.messages[..last].iter().enumerate() {
        if role(message) == "assistant" && message["prefix"] == true {
            findings.report(
                &M4,
                request.message_path(i) / "prefix",
                "`prefix` is for the last message only: remove it",
            );
        }
    }
}

/// Checks M5. Results are counted until the next assistant message, whatever comes between. The validator
/// skips the first message here, so it refuses even a well-formed call and result at the start.
fn check_pairing(request: &CheckedRequest, findings: &mut Findings) {
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
                    request.message_path(i),
                    format!("call {} {fault}: remove this result", quote(id)),
                );
            }
            "assistant" => {
                report_unanswered(request, &mut open, opened_at, findings);
                opened_at = i;
                for (c, call) in indexed(&message["tool_calls"]) {
                    let id = call["id"].as_str().unwrap_or_default();
                    if open.insert(id, false).is_some() {
                        let at = request.message_path(i) / "tool_calls" / c;
                        findings.report(&M5, at, format!("two calls have the id {}: make them differ", quote(id)));
                    }
                }
            }
            _ => {}
        }
    }
    report_unanswered(request, &mut open, opened_at, findings);
}

fn report_unanswered(
    request: &CheckedRequest,
    open: &mut HashMap<&str, bool>,
    opened_at: usize,
    findings: &mut Findings,
) {
    let unanswered = open.drain().filter(|(_, answered)| !answered).count();
    if unanswered > 0 {
        let message = format!("{unanswered} of its calls have no result before the next reply: add them");
        findings.report(&M5, request.message_path(opened_at), message);
    }
}

fn check_call_ids(message: &Value, at: JsonPath, findings: &mut Findings) {
    let Some(shape) = findings.target.host.call_id_pattern() else { return };
    let of_calls = indexed(&message["tool_calls"]).map(|(c, call)| (at / "tool_calls" / c / "id", &call["id"]));
    let of_result = (role(message) == "tool").then(|| (at / "tool_call_id", &message["tool_call_id"]));
    for (at, id) in of_calls.chain(of_result) {
        let id = id.as_str().unwrap_or_default();
        if !is_identifier(id, &shape.extra, shape.min, shape.max) {
            let message = format!(
                "the call id {} is not 9 letters and digits: rename it in the call and in its result",
                quote(id)
            );
            findings.report(&M6, at, message);
        }
    }
}

fn check_names(message: &Value, at: JsonPath, findings: &mut Findings) {
    for (c, call) in indexed(&message["tool_calls"]) {
        check_name(&call["function"]["name"], at / "tool_calls" / c / "function" / "name", findings);
    }
    if role(message) == "tool" && !message["name"].is_null() {
        check_name(&message["name"], at / "name", findings);
    }
}

fn check_name(name: &Value, at: JsonPath, findings: &mut Findings) {
    let name = name.as_str().unwrap_or_default();
    if !is_identifier(name, "_-", 1, 64) {
        let message = format!("the function name {} is not 1 to 64 letters, digits, `_` or `-`", quote(name));
        findings.report(&M7, at, message);
    }
}

fn check_content(message: &Value, at: JsonPath, findings: &mut Findings) {
    let content = &message["content"];
    let at = at / "content";
    match role(message) {
        "system" if content.is_null() => findings.report(&M9, at, "a system message needs content"),
        "assistant" => {
            let says = content.as_str().is_some_and(|t| !t.is_empty()) || indexed(content).next().is_some();
            if !says && indexed(&message["tool_calls"]).next().is_none() {
                findings.report(&M8, at, "an assistant message needs content or calls: remove it");
            }
            check_part_types(content, at, &["text", "thinking"], findings);
        }
        "tool" => check_part_types(content, at, &["text"], findings),
        _ => {}
    }
}

fn check_part_types(content: &Value, at: JsonPath, allowed: &[&str], findings: &mut Findings) {
    for (p, part) in indexed(content) {
        if !allowed.contains(&type_of(part)) {
            let message = format!("a part of type {} may not stand here: send text", quote(type_of(part)));
            findings.report(&M9, at / p, message);
        }
    }
}
