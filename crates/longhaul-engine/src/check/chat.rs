//! The rules of Chat Completions (O).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::rules::{G1, G4, G7, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10, O11, O12, X1};
use super::{
    CheckedRequest, Findings, JsonPath, Severity, host_rules, indexed, is_identifier, mistral, quote, role, type_of,
};

const KNOWN_ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];
/// The maximum length of a string, in characters (O10).
const MAX_STRING_CHARS: usize = 1_048_576;
/// The maximum length of a call ID, in characters (O4).
const MAX_ID_CHARS: usize = 40;
/// The maximum number of tools in a request (O9).
const MAX_TOOLS: usize = 128;

pub(super) fn check(request: &CheckedRequest, findings: &mut Findings) {
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.message_path(i);
        if !message.is_object() {
            findings.report(&G1, at, "this is not a message: send an object with a role and content");
            continue;
        }
        check_shape(message, at, findings);
        check_content(message, at, findings);
        check_calls(message, at, findings);
    }
    if request.messages.is_empty() {
        findings.report(&O5, request.messages_path, "there are no messages: send at least one");
    }
    check_pairing(request, findings);
    check_tools(request, findings);
    check_json_mode(request, findings);
    if let Some((i, last)) = request.last_message()
        && role(last) == "assistant"
    {
        report_last_reply(request.message_path(i), findings);
    }
    host_rules::check_chat(request, findings);
    mistral::check(request, findings);
}

/// Reports G7 for the API formats whose hosts differ on it.
pub(super) fn report_last_reply(at: JsonPath, findings: &mut Findings) {
    let message = "the last message is a reply, which some models cannot continue: end with a user message or a result";
    let severity = if findings.target.supports_prefill == Some(false) { Severity::Error } else { Severity::Warning };
    findings.report_with_severity(severity, &G7, at, message);
}

/// Returns the texts of a message's content, each with its path.
pub(super) fn message_texts(message: &Value, at: JsonPath) -> Vec<(JsonPath, &str)> {
    match &message["content"] {
        Value::String(text) => vec![(at / "content", text.as_str())],
        parts => {
            indexed(parts).filter_map(|(p, part)| Some((at / "content" / p / "text", part["text"].as_str()?))).collect()
        }
    }
}

fn check_shape(message: &Value, at: JsonPath, findings: &mut Findings) {
    let role = role(message);
    if !KNOWN_ROLES.contains(&role) {
        let message = format!("the role {} is not a known one: use one of {}", quote(role), KNOWN_ROLES.join(", "));
        findings.report(&O12, at / "role", message);
    }
    if let Some(name) = message["name"].as_str()
        && (name.is_empty() || name.contains(|c: char| c.is_whitespace() || "<|\\/>".contains(c)))
    {
        let message = format!("the name {} has characters that names may not have", quote(name));
        findings.report(&O12, at / "name", message);
    }
    if role == "tool" && message["tool_call_id"].as_str().is_none() {
        findings.report(&O7, at, "this tool message names no call: set `tool_call_id`");
    }
}

fn check_content(message: &Value, at: JsonPath, findings: &mut Findings) {
    let role = role(message);
    match &message["content"] {
        Value::Null => {
            let excused = ["tool_calls", "function_call", "refusal", "audio"];
            if role != "assistant" || excused.iter().all(|field| message[field].is_null()) {
                let message = "content is null without tool calls beside it: send a string";
                findings.report(&O6, at / "content", message);
            }
        }
        Value::Array(parts) if parts.is_empty() => {
            findings.report(&O5, at / "content", "the content list is empty: send null or a string");
        }
        _ => {}
    }
    for (at, text) in message_texts(message, at) {
        check_string_length(text, at, findings);
    }
    for (p, part) in indexed(&message["content"]) {
        if role != "user" && type_of(part) == "image_url" {
            let message = "only user messages may contain images: move it to a user message after all results";
            findings.report(&O8, at / "content" / p, message);
        }
    }
}

/// Checks O10, the length of a string. Characters are counted only if there are enough bytes.
pub(super) fn check_string_length(text: &str, at: JsonPath, findings: &mut Findings) {
    if text.len() > MAX_STRING_CHARS && text.chars().count() > MAX_STRING_CHARS {
        findings.report(&O10, at, "this string is longer than 1,048,576 characters: cut it or split it");
    }
}

fn check_calls(message: &Value, at: JsonPath, findings: &mut Findings) {
    if message["tool_calls"].as_array().is_some_and(Vec::is_empty) {
        findings.report(&O7, at / "tool_calls", "`tool_calls` is empty: leave it out");
    }
    for (c, call) in indexed(&message["tool_calls"]) {
        let at = at / "tool_calls" / c;
        check_id_length(&call["id"], at, "id", findings);
        if let Some(function) = call.get("function") {
            check_function_name(&function["name"], at / "function" / "name", findings);
            check_arguments(&function["arguments"], at / "function" / "arguments", findings);
        }
    }
    check_id_length(&message["tool_call_id"], at, "tool_call_id", findings);
}

fn check_id_length(id: &Value, at: JsonPath, field: &'static str, findings: &mut Findings) {
    if id.as_str().is_some_and(|id| id.chars().count() > MAX_ID_CHARS) {
        findings.report(
            &O4,
            at / field,
            "this id is longer than 40 characters: shorten it in the call and in its result",
        );
    }
}

fn check_function_name(name: &Value, at: JsonPath, findings: &mut Findings) {
    let name = name.as_str().unwrap_or_default();
    if !is_identifier(name, "_-", 1, 64) {
        let message = format!("the function name {} is not 1 to 64 letters, digits, `_` or `-`", quote(name));
        findings.report(&O12, at, message);
    }
}

/// Checks G4, or X1 on hosts that list it. Also used for the arguments of a Responses `function_call`.
pub(super) fn check_arguments(arguments: &Value, at: JsonPath, findings: &mut Findings) {
    let parsed = arguments.as_str().map(serde_json::from_str::<Value>);
    if !matches!(parsed, Some(Ok(Value::Object(_)))) {
        let rule = if findings.target.host.lists_rule("X1") { &X1 } else { &G4 };
        findings.report(rule, at, "the arguments are no JSON object in a string: send `{}` for none");
    }
}

/// Checks O1 to O3 in one pass over the messages. The calls of the latest assistant message stay open until a
/// message that is not a result follows.
fn check_pairing(request: &CheckedRequest, findings: &mut Findings) {
    let mut open: HashMap<&str, OpenCall> = HashMap::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.message_path(i);
        if role(message) == "tool" {
            let Some(id) = message["tool_call_id"].as_str() else { continue };
            let Some(call) = open.get_mut(id) else {
                let message = format!("the message before this result has no call {}: remove the result", quote(id));
                findings.report(&O1, at, message);
                continue;
            };
            call.results += 1;
            if call.results == 2 {
                findings.report(&O3, at, format!("call {} is answered twice: keep one result", quote(id)));
            }
            continue;
        }
        report_unanswered(&mut open, findings);
        for (c, call) in indexed(&message["tool_calls"]) {
            let Some(id) = call["id"].as_str() else { continue };
            let at = at / "tool_calls" / c;
            if open.insert(id, OpenCall { path: at, index: c, results: 0 }).is_some() {
                let message = format!("two calls of this message have the id {}: make them differ", quote(id));
                findings.report(&O3, at, message);
            } else if !seen.insert(id) {
                let message = format!("the id {} was used by an earlier call, which some hosts refuse", quote(id));
                findings.report_with_severity(Severity::Warning, &O3, at, message);
            }
        }
    }
    report_unanswered(&mut open, findings);
}

/// A call of the latest assistant message, with the number of its results so far.
struct OpenCall {
    path: JsonPath,
    index: usize,
    results: usize,
}

fn report_unanswered(open: &mut HashMap<&str, OpenCall>, findings: &mut Findings) {
    let mut unanswered: Vec<_> = open.drain().filter(|(_, call)| call.results == 0).collect();
    unanswered.sort_by_key(|(_, call)| call.index);
    for (id, call) in unanswered {
        let message =
            format!("call {} has no result directly after its message: add one or remove the call", quote(id));
        findings.report(&O2, call.path, message);
    }
}

fn check_tools(request: &CheckedRequest, findings: &mut Findings) {
    if request.tools().count() > MAX_TOOLS {
        findings.report(&O9, "/tools", "there are more than 128 tools: send fewer");
    }
    for (t, tool) in request.tools() {
        if let Some(function) = tool.get("function") {
            check_function_name(&function["name"], JsonPath::ROOT / "tools" / t / "function" / "name", findings);
        }
    }
}

fn check_json_mode(request: &CheckedRequest, findings: &mut Findings) {
    let wanted = type_of(&request.body["response_format"]) == "json_object";
    if wanted
        && !request.messages.iter().flat_map(|m| message_texts(m, JsonPath::ROOT)).any(|(_, text)| mentions_json(text))
    {
        let message = "`json_object` is requested, but no message contains the word json: add it in one";
        findings.report(&O11, "/response_format", message);
    }
}

/// Returns whether a text contains the word json, in any case.
pub(super) fn mentions_json(text: &str) -> bool {
    text.as_bytes().windows(4).any(|w| w.eq_ignore_ascii_case(b"json"))
}
