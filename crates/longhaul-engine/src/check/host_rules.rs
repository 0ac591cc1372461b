//! Rules that single hosts add to their API format. Each applies only if the host's row lists it.

use serde_json::Value;

use super::rules::{B2, B7, B10, Ge10, Ge12, X3, X4, X6, X7, X8, X10, X11, X13};
use super::{CheckedRequest, Findings, JsonPath, indexed, is_identifier, quote, role, type_of};

pub(super) fn check_chat(request: &CheckedRequest, findings: &mut Findings) {
    check_alternation(request, findings);
    check_system_role(request, findings);
    check_reasoning_returned(request, findings);
    check_thinking_conflicts(request, findings);
    check_thought_signatures(request, findings);
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.message_path(i);
        if role(message) == "assistant" {
            check_assistant_fields(message, at, findings);
        }
        if message["content"] == "" && indexed(&message["tool_calls"]).next().is_none() && role(message) != "tool" {
            findings.report(&X4, at / "content", "the content is empty: leave the message out");
        }
        for (c, call) in indexed(&message["tool_calls"]) {
            check_gemini_name(&call["function"]["name"], at / "tool_calls" / c / "function" / "name", findings);
        }
    }
    for (t, tool) in request.tools() {
        check_gemini_name(&tool["function"]["name"], JsonPath::ROOT / "tools" / t / "function" / "name", findings);
        if tool.get("function").is_some_and(|f| !f["parameters"].is_object()) {
            let message = "this function has no `parameters`: send an empty object schema";
            findings.report(&X4, JsonPath::ROOT / "tools" / t / "function", message);
        }
    }
}

pub(super) fn check_messages(request: &CheckedRequest, findings: &mut Findings) {
    check_reasoning_returned(request, findings);
    if ![&B2, &B7, &B10, &X3].iter().any(|rule| findings.target.host.lists_rule(rule.number)) {
        return;
    }
    for (i, pair) in request.messages.windows(2).enumerate() {
        if role(&pair[0]) == role(&pair[1]) {
            let message = format!("two {} messages follow each other: join them into one", role(&pair[0]));
            findings.report(&B2, request.message_path(i + 1), message);
        }
    }
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.message_path(i);
        let results = indexed(&message["content"]).filter(|(_, b)| type_of(b) == "tool_result").count();
        if results > 0 && results < indexed(&message["content"]).count() {
            findings.report(&X3, at, "there is other content beside the results: send it in a message of its own");
        }
        for (b, block) in indexed(&message["content"]) {
            let at = at / "content" / b;
            if type_of(block) == "tool_result" && block["is_error"] == true && is_empty_content(&block["content"]) {
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

fn is_empty_content(content: &Value) -> bool {
    match content {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => false,
    }
}

/// Checks X7 and X10: the chat templates of some models require that user and assistant messages alternate.
fn check_alternation(request: &CheckedRequest, findings: &mut Findings) {
    if findings.target.requires_alternation != Some(true) {
        return;
    }
    let rule = if findings.target.host.lists_rule(X7.number) { &X7 } else { &X10 };
    for (i, pair) in request.messages.windows(2).enumerate() {
        let speaker = role(&pair[1]);
        if ["user", "assistant"].contains(&speaker) && speaker == role(&pair[0]) {
            let message = format!("two {speaker} messages follow each other, which this model refuses: join them");
            findings.report(rule, request.message_path(i + 1), message);
        }
    }
    let spoken = request.messages.iter().position(|m| !["system", "developer"].contains(&role(m)));
    if let Some(first) = spoken.filter(|&i| role(&request.messages[i]) != "user") {
        findings.report(
            rule,
            request.message_path(first),
            "the first message after the system message must be a user message",
        );
    }
    if let Some((last, message)) = request.last_message()
        && rule.number == X7.number
        && role(message) == "assistant"
    {
        findings.report(rule, request.message_path(last), "the last message must be a user message");
    }
}

fn check_system_role(request: &CheckedRequest, findings: &mut Findings) {
    if findings.target.accepts_system_role == Some(false) {
        for (i, _) in request.messages.iter().enumerate().filter(|(_, m)| role(m) == "system") {
            findings.report(
                &X10,
                request.message_path(i),
                "this model takes no system message: put its text in a user message",
            );
        }
    }
}

fn is_reasoning_required(request: &CheckedRequest, findings: &Findings) -> bool {
    findings.target.requires_reasoning == Some(true) && type_of(&request.body["thinking"]) != "disabled"
}

/// Checks X6 and X8: some models require that replies are sent back with their reasoning.
fn check_reasoning_returned(request: &CheckedRequest, findings: &mut Findings) {
    if !is_reasoning_required(request, findings) {
        return;
    }
    let has_tools = request.tools().next().is_some();
    for (i, message) in request.messages.iter().enumerate() {
        let brings = message["reasoning_content"].is_string()
            || indexed(&message["content"]).any(|(_, block)| type_of(block) == "thinking");
        if role(message) != "assistant" || brings {
            continue;
        }
        let wanted = "this reply lost its reasoning, which the model requires: keep it";
        if has_tools {
            findings.report(&X6, request.message_path(i), wanted);
        }
        if indexed(&message["tool_calls"]).next().is_some() {
            findings.report(&X8, request.message_path(i), wanted);
        }
    }
}

fn check_thinking_conflicts(request: &CheckedRequest, findings: &mut Findings) {
    let envelope = request.body;
    if !envelope["thinking"].is_null() && !envelope["reasoning_effort"].is_null() {
        findings.report(&X8, "/reasoning_effort", "`thinking` and `reasoning_effort` exclude each other: send one");
    }
    let forced = envelope["tool_choice"] == "required" || envelope["tool_choice"].is_object();
    if forced && type_of(&envelope["thinking"]) == "enabled" {
        findings.report(&X8, "/tool_choice", "a forced `tool_choice` is refused with thinking on: send auto");
    }
}

/// Checks Ge12: since the newest user message, the first call of each step must keep its signature.
fn check_thought_signatures(request: &CheckedRequest, findings: &mut Findings) {
    if findings.target.requires_reasoning != Some(true) {
        return;
    }
    let turn = request.messages.iter().rposition(|m| role(m) == "user").map_or(0, |i| i + 1);
    for (i, message) in request.messages.iter().enumerate().skip(turn) {
        let call = &message["tool_calls"][0];
        if call.is_object() && !call["extra_content"]["google"]["thought_signature"].is_string() {
            let message = "the first call of this turn lost its `thought_signature`: keep it unchanged";
            findings.report(&Ge12, request.message_path(i) / "tool_calls" / "0", message);
        }
    }
}

fn check_assistant_fields(message: &Value, at: JsonPath, findings: &mut Findings) {
    if message.get("content") == Some(&Value::Null) && indexed(&message["tool_calls"]).next().is_some() {
        findings.report(&X11, at / "content", "content is null: leave the key out");
    }
    for field in ["reasoning", "reasoning_content"] {
        if !message[field].is_null() {
            findings.report(&X13, at / field, format!("the field `{field}` may be refused: leave it out"));
        }
    }
}

fn check_gemini_name(name: &Value, at: JsonPath, findings: &mut Findings) {
    let Some(name) = name.as_str() else { return };
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !is_identifier(name, "_.:-", 1, 64) {
        let message =
            format!("the function name {} must start with a letter or `_` and be at most 64 long", quote(name));
        findings.report(&Ge10, at, message);
    }
}
