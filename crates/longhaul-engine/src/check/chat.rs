//! The rules of Chat Completions.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::rules::{G1, G4, G7, O1, O2, O3, O4, O5, O6, O7, O8, O9, O10, O11, O12, X1};
use super::{At, Findings, Request, Severity, hosts, is_word, kind, list, mistral, quoted, role};

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];
const LONGEST_STRING: usize = 1_048_576;
const LONGEST_ID: usize = 40;
const MOST_TOOLS: usize = 128;

pub(super) fn check(request: &Request, findings: &mut Findings) {
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        if !message.is_object() {
            findings.report(&G1, at, "this is no message: send an object with a role and content");
            continue;
        }
        shape(message, at, findings);
        content(message, at, findings);
        calls(message, at, findings);
    }
    if request.messages.is_empty() {
        findings.report(&O5, request.root, "there are no messages: send at least one");
    }
    pairing(request, findings);
    tools(request, findings);
    json_mode(request, findings);
    if let Some((i, last)) = request.last()
        && role(last) == "assistant"
    {
        ends_with_a_reply(request.at(i), findings);
    }
    hosts::check_chat(request, findings);
    mistral::check(request, findings);
}

/// G7, for the dialects whose hosts differ on it.
pub(super) fn ends_with_a_reply(at: At, findings: &mut Findings) {
    let message =
        "the last message is a reply, which some models refuse to go on from: end with the user or a result";
    let severity = if findings.target.prefill == Some(false) { Severity::Error } else { Severity::Warning };
    findings.report_as(severity, &G7, at, message);
}

/// The texts of a message's content, each with its pointer.
pub(super) fn texts(message: &Value, at: At) -> Vec<(At, &str)> {
    match &message["content"] {
        Value::String(text) => vec![(at / "content", text.as_str())],
        parts => list(parts)
            .filter_map(|(p, part)| Some((at / "content" / p / "text", part["text"].as_str()?)))
            .collect(),
    }
}

fn shape(message: &Value, at: At, findings: &mut Findings) {
    let role = role(message);
    if !ROLES.contains(&role) {
        let message =
            format!("the role {} is not a known one: use one of {}", quoted(role), ROLES.join(", "));
        findings.report(&O12, at / "role", message);
    }
    if let Some(name) = message["name"].as_str()
        && (name.is_empty() || name.contains(|c: char| c.is_whitespace() || "<|\\/>".contains(c)))
    {
        let message = format!("the name {} has characters that names may not have", quoted(name));
        findings.report(&O12, at / "name", message);
    }
    if role == "tool" && message["tool_call_id"].as_str().is_none() {
        findings.report(&O7, at, "this tool message names no call: set `tool_call_id`");
    }
}

fn content(message: &Value, at: At, findings: &mut Findings) {
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
    for (at, text) in texts(message, at) {
        string_length(text, at, findings);
    }
    for (p, part) in list(&message["content"]) {
        if role != "user" && kind(part) == "image_url" {
            let message =
                "only user messages may hold images: move it to one behind the whole group of results";
            findings.report(&O8, at / "content" / p, message);
        }
    }
}

/// O10: the length of one string, counted only where it can matter.
pub(super) fn string_length(text: &str, at: At, findings: &mut Findings) {
    if text.len() > LONGEST_STRING && text.chars().count() > LONGEST_STRING {
        findings.report(&O10, at, "this string is longer than 1,048,576 characters: cut it or split it");
    }
}

fn calls(message: &Value, at: At, findings: &mut Findings) {
    if message["tool_calls"].as_array().is_some_and(Vec::is_empty) {
        findings.report(&O7, at / "tool_calls", "`tool_calls` is empty: leave it out");
    }
    for (c, call) in list(&message["tool_calls"]) {
        let at = at / "tool_calls" / c;
        id_length(&call["id"], at, "id", findings);
        if let Some(function) = call.get("function") {
            name(&function["name"], at / "function" / "name", findings);
            arguments(&function["arguments"], at / "function" / "arguments", findings);
        }
    }
    id_length(&message["tool_call_id"], at, "tool_call_id", findings);
}

fn id_length(id: &Value, at: At, field: &'static str, findings: &mut Findings) {
    if id.as_str().is_some_and(|id| id.chars().count() > LONGEST_ID) {
        findings.report(&O4, at / field, "this id is longer than 40 characters: shorten both ends alike");
    }
}

fn name(name: &Value, at: At, findings: &mut Findings) {
    let name = name.as_str().unwrap_or_default();
    if !is_word(name, "_-", 1, 64) {
        let message =
            format!("the function name {} is not 1 to 64 letters, digits, `_` or `-`", quoted(name));
        findings.report(&O12, at, message);
    }
}

/// G4, or X1 where that is how the host words it. Also the arguments of a Responses `function_call`.
pub(super) fn arguments(arguments: &Value, at: At, findings: &mut Findings) {
    let parsed = arguments.as_str().map(serde_json::from_str::<Value>);
    if !matches!(parsed, Some(Ok(Value::Object(_)))) {
        let rule = if findings.target.host.lists("X1") { &X1 } else { &G4 };
        findings.report(rule, at, "the arguments are no JSON object in a string: send `{}` for none");
    }
}

/// O1 to O3: walks the messages once, with the calls of the latest assistant message open until another message comes.
fn pairing(request: &Request, findings: &mut Findings) {
    let mut open: HashMap<&str, Open> = HashMap::new();
    let mut seen: HashSet<&str> = HashSet::new();
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        if role(message) == "tool" {
            let Some(id) = message["tool_call_id"].as_str() else { continue };
            let Some(call) = open.get_mut(id) else {
                let message = format!("no call {} stands right before this result: remove it", quoted(id));
                findings.report(&O1, at, message);
                continue;
            };
            call.answers += 1;
            if call.answers == 2 {
                findings.report(&O3, at, format!("call {} is answered twice: keep one result", quoted(id)));
            }
            continue;
        }
        close(&mut open, findings);
        for (c, call) in list(&message["tool_calls"]) {
            let Some(id) = call["id"].as_str() else { continue };
            let at = at / "tool_calls" / c;
            if open.insert(id, Open { at, index: c, answers: 0 }).is_some() {
                let message =
                    format!("two calls of this message have the id {}: make them differ", quoted(id));
                findings.report(&O3, at, message);
            } else if !seen.insert(id) {
                let message =
                    format!("the id {} was used by an earlier call, which some hosts refuse", quoted(id));
                findings.report_as(Severity::Warning, &O3, at, message);
            }
        }
    }
    close(&mut open, findings);
}

/// A call of the latest assistant message.
struct Open {
    at: At,
    index: usize,
    answers: usize,
}

fn close(open: &mut HashMap<&str, Open>, findings: &mut Findings) {
    let mut unanswered: Vec<_> = open.drain().filter(|(_, call)| call.answers == 0).collect();
    unanswered.sort_by_key(|(_, call)| call.index);
    for (id, call) in unanswered {
        let message =
            format!("call {} has no result right behind its message: add one or remove the call", quoted(id));
        findings.report(&O2, call.at, message);
    }
}

fn tools(request: &Request, findings: &mut Findings) {
    if request.tools().count() > MOST_TOOLS {
        findings.report(&O9, "/tools", "there are more than 128 tools: send fewer");
    }
    for (t, tool) in request.tools() {
        if let Some(function) = tool.get("function") {
            name(&function["name"], At::BODY / "tools" / t / "function" / "name", findings);
        }
    }
}

fn json_mode(request: &Request, findings: &mut Findings) {
    let wanted = kind(&request.envelope["response_format"]) == "json_object";
    if wanted && !request.messages.iter().flat_map(|m| texts(m, At::BODY)).any(|(_, text)| says_json(text)) {
        let message = "`json_object` is asked for but no message says json: mention it in one";
        findings.report(&O11, "/response_format", message);
    }
}

/// Whether a text holds the word json, in any case.
pub(super) fn says_json(text: &str) -> bool {
    text.as_bytes().windows(4).any(|w| w.eq_ignore_ascii_case(b"json"))
}
