//! The rules of Responses (R).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::chat::{check_arguments, check_string_length, mentions_json, report_last_reply};
use super::rules::{G1, G2, G3, R1, R2, R3, R5, R6, R7, R9, R10, R11, R12, R13, R14, R15, R16};
use super::{CheckedRequest, Findings, JsonPath, Severity, indexed, media, quote, role, type_of};

/// The maximum length of an ID, in characters (R11).
const MAX_ID_CHARS: usize = 64;

/// The types of calls that the client answers, each with the type of its output.
const CLIENT_CALLS: [(&str, &str); 7] = [
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("local_shell_call", "local_shell_call_output"),
    ("shell_call", "shell_call_output"),
    ("apply_patch_call", "apply_patch_call_output"),
    ("computer_call", "computer_call_output"),
    ("tool_search_call", "tool_search_output"),
];

/// The prefix of an item's ID, by the type of the item.
const ID_PREFIXES: [(&str, &str); 6] = [
    ("reasoning", "rs"),
    ("function_call", "fc"),
    ("function_call_output", "fc"),
    ("custom_tool_call", "ctc"),
    ("web_search_call", "ws"),
    ("message", "msg"),
];

pub(super) fn check(request: &CheckedRequest, findings: &mut Findings) {
    let mut ids = HashSet::new();
    for (i, item) in request.messages.iter().enumerate() {
        let at = request.message_path(i);
        if !item.is_object() {
            findings.report(&G1, at, "this is not an item: send an object");
            continue;
        }
        check_id(item, at, &mut ids, findings);
        check_message(item, at, findings);
        check_images(item, at, findings);
        if type_of(item) == "function_call" {
            check_arguments(&item["arguments"], at / "arguments", findings);
        }
    }
    check_pairing(request, findings);
    check_reasoning(request, findings);
    check_stored_items(request, findings);
    check_json_mode(request, findings);
    if let Some((i, last)) = request.last_message()
        && is_reply(last)
    {
        report_last_reply(request.message_path(i), findings);
    }
}

/// Returns the type of an item. An item that has only a role is a message.
pub(super) fn item_type(item: &Value) -> &str {
    match type_of(item) {
        "" if !role(item).is_empty() => "message",
        kind => kind,
    }
}

/// Returns whether an item calls a tool of the client.
pub(super) fn is_client_call(item: &Value) -> bool {
    CLIENT_CALLS.iter().any(|(call, _)| *call == type_of(item))
}

/// Returns whether an item is the output of a call.
pub(super) fn is_call_output(item: &Value) -> bool {
    CLIENT_CALLS.iter().any(|(_, output)| *output == type_of(item))
}

/// Returns whether the model wrote an item.
fn is_reply(item: &Value) -> bool {
    role(item) == "assistant" || type_of(item) == "reasoning" || type_of(item).ends_with("_call")
}

fn check_id<'v>(item: &'v Value, at: JsonPath, ids: &mut HashSet<&'v str>, findings: &mut Findings) {
    if item["call_id"].as_str().is_some_and(|id| id.chars().count() > MAX_ID_CHARS) {
        let message = "this call id is longer than 64 characters: shorten it in the call and in its result";
        findings.report_with_severity(Severity::Warning, &R11, at / "call_id", message);
    }
    let Some(id) = item["id"].as_str() else { return };
    let at = at / "id";
    if id.chars().count() > MAX_ID_CHARS {
        findings.report(&R11, at, "this id is longer than 64 characters: leave it out");
    }
    if type_of(item) == "item_reference" {
        return;
    }
    if !ids.insert(id) {
        findings.report(&R12, at, format!("the id {} belongs to an earlier item: keep one of them", quote(id)));
    }
    let prefix = ID_PREFIXES.iter().find(|(kind, _)| *kind == item_type(item));
    if let Some((kind, prefix)) = prefix.filter(|(_, prefix)| !id.starts_with(prefix)) {
        let message = format!("the id {} of a {kind} does not begin with {prefix}: leave it out", quote(id));
        findings.report(&R10, at, message);
    }
}

/// Checks R13 and R14: the roles, and the parts that each may have.
fn check_message(item: &Value, at: JsonPath, findings: &mut Findings) {
    if item_type(item) != "message" {
        return;
    }
    let allowed: &[&str] = match role(item) {
        "assistant" => &["output_text", "refusal"],
        "user" | "developer" | "system" => &["input_text", "input_image", "input_file", "input_audio"],
        other => {
            let message = format!("the role {} does not exist: use user, assistant, developer", quote(other));
            findings.report(&R14, at / "role", message);
            return;
        }
    };
    if role(item) == "system" {
        findings.report(&R13, at / "role", "system messages are refused here: use developer");
    }
    if let Some(text) = item["content"].as_str() {
        check_string_length(text, at / "content", findings);
    }
    for (p, part) in indexed(&item["content"]) {
        let at = at / "content" / p;
        if !allowed.contains(&type_of(part)) {
            let message = format!("a part of type {} does not fit the role: use {}", quote(type_of(part)), allowed[0]);
            findings.report(&R14, at / "type", message);
        }
        check_string_length(part["text"].as_str().unwrap_or_default(), at / "text", findings);
    }
}

/// Checks R15: the data URLs of images in messages and outputs.
fn check_images(item: &Value, at: JsonPath, findings: &mut Findings) {
    for field in ["content", "output"] {
        for (p, part) in indexed(&item[field]) {
            let Some(rest) = part["image_url"].as_str().and_then(|url| url.strip_prefix("data:")) else {
                continue;
            };
            let data = rest.split_once(";base64,").filter(|(mime, _)| mime.starts_with("image/"));
            if !data.is_some_and(|(_, data)| media::is_base64(data)) {
                let message = "this image is not whole base64 with an image type: remove it or restore its data";
                findings.report(&R15, at / field / p / "image_url", message);
            }
        }
    }
}

/// Checks R1 and R2, and the generic rules G2 and G3, for which this API format has no rules of its own.
fn check_pairing(request: &CheckedRequest, findings: &mut Findings) {
    let elsewhere = ["previous_response_id", "conversation"].iter().any(|f| !request.body[f].is_null());
    let mut calls: HashMap<&str, (usize, usize)> = HashMap::new();
    for (i, item) in request.messages.iter().enumerate() {
        let Some(id) = item["call_id"].as_str() else { continue };
        if is_client_call(item) {
            match calls.insert(id, (i, 0)) {
                Some((earlier, 0)) => report_unanswered(request, earlier, findings),
                Some(_) => {
                    let message = format!("the call id {} was used by an earlier call", quote(id));
                    findings.report(&G3, request.message_path(i) / "call_id", message);
                }
                None => {}
            }
        } else if is_call_output(item) {
            match calls.get_mut(id) {
                Some((_, answers)) => {
                    *answers += 1;
                    if *answers == 2 {
                        let message = format!("call {} is answered twice: keep one output", quote(id));
                        findings.report(&G2, request.message_path(i), message);
                    }
                }
                None if elsewhere || type_of(item) == "tool_search_output" => {}
                None => {
                    let message = format!("there is no call {} before this output: remove the output", quote(id));
                    findings.report(&R1, request.message_path(i), message);
                }
            }
        }
    }
    let mut open: Vec<usize> = calls.into_values().filter(|(_, answers)| *answers == 0).map(|(i, _)| i).collect();
    open.sort_unstable();
    for i in open {
        report_unanswered(request, i, findings);
    }
}

/// Reports R2 for a call without an output, unless the provider ran the call itself.
fn report_unanswered(request: &CheckedRequest, index: usize, findings: &mut Findings) {
    let item = &request.messages[index];
    if item["execution"] == "server" {
        return;
    }
    let message = format!(
        "call {} has no output: add it or remove the call",
        quote(item["call_id"].as_str().unwrap_or_default())
    );
    findings.report(&R2, request.message_path(index), message);
}

/// Checks R3 and R5 to R7: a reasoning item and the item that it led to.
fn check_reasoning(request: &CheckedRequest, findings: &mut Findings) {
    let stored = request.body["store"] != false;
    for (i, item) in request.messages.iter().enumerate().filter(|(_, item)| type_of(item) == "reasoning") {
        let at = request.message_path(i);
        if !item["summary"].is_array() {
            findings.report(&R6, at, "this reasoning item has no `summary`: send an empty list");
        }
        if !stored && item["encrypted_content"].as_str().is_none_or(str::is_empty) {
            findings.report(&R6, at, "with `store` false a reasoning item needs `encrypted_content`: remove it");
        }
        if indexed(&item["content"]).next().is_some() {
            findings.report(&R7, at / "content", "the content of a reasoning item must be empty on input");
        }
        if item["id"].is_null() {
            continue;
        }
        match request.messages.get(i + 1) {
            Some(next) if is_reply(next) => {
                if next["id"].is_null() {
                    let message =
                        "the item after the reasoning lost its ID: keep it, or drop the reasoning item's id too";
                    findings.report(&R5, request.message_path(i + 1), message);
                }
            }
            _ => findings.report(&R3, at, "this reasoning item is not followed by what it led to: remove it"),
        }
    }
}

fn check_stored_items(request: &CheckedRequest, findings: &mut Findings) {
    if request.body["store"] != false {
        return;
    }
    for (i, item) in request.messages.iter().enumerate() {
        if ["item_reference", "image_generation_call"].contains(&type_of(item)) && item["id"].is_string() {
            let message = "this refers to a stored item although `store` is false: send the item itself";
            findings.report(&R9, request.message_path(i), message);
        }
    }
}

fn check_json_mode(request: &CheckedRequest, findings: &mut Findings) {
    if type_of(&request.body["text"]["format"]) != "json_object" {
        return;
    }
    let says = |value: &Value| value.as_str().is_some_and(mentions_json);
    let mentioned = says(&request.body["input"])
        || request
            .messages
            .iter()
            .filter(|item| item_type(item) == "message")
            .any(|item| says(&item["content"]) || indexed(&item["content"]).any(|(_, part)| says(&part["text"])));
    if !mentioned {
        findings.report(
            &R16,
            "/text/format",
            "`json_object` is requested, but no message contains the word json: add it",
        );
    }
}
