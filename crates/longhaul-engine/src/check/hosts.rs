//! Rules that one host adds to its dialect. Each asks the host's row whether it holds.

use serde_json::Value;

use super::rules::{B2, B7, B10, Ge10, Ge12, X3, X4, X6, X7, X8, X10, X11, X13};
use super::{At, Findings, Request, is_word, kind, list, quoted, role};

pub(super) fn check_chat(request: &Request, findings: &mut Findings) {
    alternation(request, findings);
    system_role(request, findings);
    reasoning_wanted(request, findings);
    conflicts_with_thinking(request, findings);
    thought_signatures(request, findings);
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        if role(message) == "assistant" {
            assistant_fields(message, at, findings);
        }
        if message["content"] == ""
            && list(&message["tool_calls"]).next().is_none()
            && role(message) != "tool"
        {
            findings.report(&X4, at / "content", "the content is empty: leave the message out");
        }
        for (c, call) in list(&message["tool_calls"]) {
            gemini_name(&call["function"]["name"], at / "tool_calls" / c / "function" / "name", findings);
        }
    }
    for (t, tool) in request.tools() {
        gemini_name(&tool["function"]["name"], At::BODY / "tools" / t / "function" / "name", findings);
        if tool.get("function").is_some_and(|f| !f["parameters"].is_object()) {
            let message = "this function has no `parameters`: send an empty object schema";
            findings.report(&X4, At::BODY / "tools" / t / "function", message);
        }
    }
}

pub(super) fn check_messages(request: &Request, findings: &mut Findings) {
    reasoning_wanted(request, findings);
    if ![&B2, &B7, &B10, &X3].iter().any(|rule| findings.target.host.lists(rule.number)) {
        return;
    }
    for (i, pair) in request.messages.windows(2).enumerate() {
        if role(&pair[0]) == role(&pair[1]) {
            let message = format!("two {} messages follow each other: join them into one", role(&pair[0]));
            findings.report(&B2, request.at(i + 1), message);
        }
    }
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        let results = list(&message["content"]).filter(|(_, b)| kind(b) == "tool_result").count();
        if results > 0 && results < list(&message["content"]).count() {
            findings.report(&X3, at, "something stands beside the results: send it in a message of its own");
        }
        for (b, block) in list(&message["content"]) {
            let at = at / "content" / b;
            if kind(block) == "tool_result" && block["is_error"] == true && is_empty(&block["content"]) {
                findings.report(&B7, at, "a failed result has no content: say what failed");
            }
            for field in ["id", "tool_use_id"] {
                if block[field].as_str().is_some_and(|id| id.len() > 64) {
                    findings.report(&B10, at / field, "this id is longer than 64 characters");
                }
            }
        }
    }
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => false,
    }
}

/// X7 and X10: models whose template insists on user and assistant taking turns.
fn alternation(request: &Request, findings: &mut Findings) {
    if findings.target.alternates != Some(true) {
        return;
    }
    let rule = if findings.target.host.lists(X7.number) { &X7 } else { &X10 };
    for (i, pair) in request.messages.windows(2).enumerate() {
        let speaker = role(&pair[1]);
        if ["user", "assistant"].contains(&speaker) && speaker == role(&pair[0]) {
            let message =
                format!("two {speaker} messages follow each other, which this model refuses: join them");
            findings.report(rule, request.at(i + 1), message);
        }
    }
    let spoken = request.messages.iter().position(|m| !["system", "developer"].contains(&role(m)));
    if let Some(first) = spoken.filter(|&i| role(&request.messages[i]) != "user") {
        findings.report(rule, request.at(first), "the first message behind the system's must be the user's");
    }
    if let Some((last, message)) = request.last()
        && rule.number == X7.number
        && role(message) == "assistant"
    {
        findings.report(rule, request.at(last), "the last message must be the user's");
    }
}

fn system_role(request: &Request, findings: &mut Findings) {
    if findings.target.system_role == Some(false) {
        for (i, _) in request.messages.iter().enumerate().filter(|(_, m)| role(m) == "system") {
            findings.report(
                &X10,
                request.at(i),
                "this model takes no system message: put its text in a user message",
            );
        }
    }
}

fn thinking_is_on(request: &Request, findings: &Findings) -> bool {
    findings.target.wants_reasoning == Some(true) && kind(&request.envelope["thinking"]) != "disabled"
}

/// X6 and X8: replies that must come back with the reasoning they were sent with.
fn reasoning_wanted(request: &Request, findings: &mut Findings) {
    if !thinking_is_on(request, findings) {
        return;
    }
    let has_tools = request.tools().next().is_some();
    for (i, message) in request.messages.iter().enumerate() {
        let brings = message["reasoning_content"].is_string()
            || list(&message["content"]).any(|(_, block)| kind(block) == "thinking");
        if role(message) != "assistant" || brings {
            continue;
        }
        let wanted = "this reply comes without its reasoning, which the model wants back: keep it";
        if has_tools {
            findings.report(&X6, request.at(i), wanted);
        }
        if list(&message["tool_calls"]).next().is_some() {
            findings.report(&X8, request.at(i), wanted);
        }
    }
}

fn conflicts_with_thinking(request: &Request, findings: &mut Findings) {
    let envelope = request.envelope;
    if !envelope["thinking"].is_null() && !envelope["reasoning_effort"].is_null() {
        findings.report(
            &X8,
            "/reasoning_effort",
            "`thinking` and `reasoning_effort` exclude each other: send one",
        );
    }
    let forced = envelope["tool_choice"] == "required" || envelope["tool_choice"].is_object();
    if forced && kind(&envelope["thinking"]) == "enabled" {
        findings.report(&X8, "/tool_choice", "a forced `tool_choice` is refused with thinking on: send auto");
    }
}

/// Ge12: since the newest user message, the first call of each step carries the signature it came with.
fn thought_signatures(request: &Request, findings: &mut Findings) {
    if findings.target.wants_reasoning != Some(true) {
        return;
    }
    let turn = request.messages.iter().rposition(|m| role(m) == "user").map_or(0, |i| i + 1);
    for (i, message) in request.messages.iter().enumerate().skip(turn) {
        let call = &message["tool_calls"][0];
        if call.is_object() && !call["extra_content"]["google"]["thought_signature"].is_string() {
            let message = "the first call of this step lost its `thought_signature`: keep it as it came";
            findings.report(&Ge12, request.at(i) / "tool_calls" / "0", message);
        }
    }
}

fn assistant_fields(message: &Value, at: At, findings: &mut Findings) {
    if message.get("content") == Some(&Value::Null) && list(&message["tool_calls"]).next().is_some() {
        findings.report(&X11, at / "content", "content is null: leave the key out");
    }
    for field in ["reasoning", "reasoning_content"] {
        if !message[field].is_null() {
            findings.report(&X13, at / field, format!("the field `{field}` may be refused: leave it out"));
        }
    }
}

fn gemini_name(name: &Value, at: At, findings: &mut Findings) {
    let Some(name) = name.as_str() else { return };
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !is_word(name, "_.:-", 1, 64) {
        let message = format!(
            "the function name {} must start with a letter or `_` and be at most 64 long",
            quoted(name)
        );
        findings.report(&Ge10, at, message);
    }
}
