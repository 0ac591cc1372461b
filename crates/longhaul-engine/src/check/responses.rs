//! The rules of Responses.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::chat::{arguments, ends_with_a_reply, says_json, string_length};
use super::rules::{G1, G2, G3, R1, R2, R3, R5, R6, R7, R9, R10, R11, R12, R13, R14, R15, R16};
use super::{At, Findings, Request, Severity, kind, list, media, quoted, role};

const LONGEST_ID: usize = 64;

/// Calls that the client answers, with the type of their output.
const CALLS: [(&str, &str); 7] = [
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("local_shell_call", "local_shell_call_output"),
    ("shell_call", "shell_call_output"),
    ("apply_patch_call", "apply_patch_call_output"),
    ("computer_call", "computer_call_output"),
    ("tool_search_call", "tool_search_output"),
];

/// How the id of an item begins.
const PREFIXES: [(&str, &str); 6] = [
    ("reasoning", "rs"),
    ("function_call", "fc"),
    ("function_call_output", "fc"),
    ("custom_tool_call", "ctc"),
    ("web_search_call", "ws"),
    ("message", "msg"),
];

pub(super) fn check(request: &Request, findings: &mut Findings) {
    let mut ids = HashSet::new();
    for (i, item) in request.messages.iter().enumerate() {
        let at = request.at(i);
        if !item.is_object() {
            findings.report(&G1, at, "this is no item: send an object");
            continue;
        }
        id(item, at, &mut ids, findings);
        message(item, at, findings);
        images(item, at, findings);
        if kind(item) == "function_call" {
            arguments(&item["arguments"], at / "arguments", findings);
        }
    }
    pairing(request, findings);
    reasoning(request, findings);
    stored_items(request, findings);
    json_mode(request, findings);
    if let Some((i, last)) = request.last()
        && is_reply(last)
    {
        ends_with_a_reply(request.at(i), findings);
    }
}

/// The type of an item; one with only a role is a message.
pub(super) fn item_kind(item: &Value) -> &str {
    match kind(item) {
        "" if !role(item).is_empty() => "message",
        kind => kind,
    }
}

/// Whether an item calls a tool of the client.
pub(super) fn is_call(item: &Value) -> bool {
    CALLS.iter().any(|(call, _)| *call == kind(item))
}

/// Whether an item answers a call.
pub(super) fn is_output(item: &Value) -> bool {
    CALLS.iter().any(|(_, output)| *output == kind(item))
}

/// Whether the model wrote an item.
fn is_reply(item: &Value) -> bool {
    role(item) == "assistant" || kind(item) == "reasoning" || kind(item).ends_with("_call")
}

fn id<'v>(item: &'v Value, at: At, ids: &mut HashSet<&'v str>, findings: &mut Findings) {
    if item["call_id"].as_str().is_some_and(|id| id.chars().count() > LONGEST_ID) {
        let message = "this call id is longer than 64 characters: shorten both ends alike";
        findings.report_as(Severity::Warning, &R11, at / "call_id", message);
    }
    let Some(id) = item["id"].as_str() else { return };
    let at = at / "id";
    if id.chars().count() > LONGEST_ID {
        findings.report(&R11, at, "this id is longer than 64 characters: leave it out");
    }
    if kind(item) == "item_reference" {
        return;
    }
    if !ids.insert(id) {
        findings.report(
            &R12,
            at,
            format!("the id {} belongs to an earlier item: keep one of them", quoted(id)),
        );
    }
    let prefix = PREFIXES.iter().find(|(kind, _)| *kind == item_kind(item));
    if let Some((kind, prefix)) = prefix.filter(|(_, prefix)| !id.starts_with(prefix)) {
        let message = format!("the id {} of a {kind} does not begin with {prefix}: leave it out", quoted(id));
        findings.report(&R10, at, message);
    }
}

/// R13 and R14: roles and the parts they may hold.
fn message(item: &Value, at: At, findings: &mut Findings) {
    if item_kind(item) != "message" {
        return;
    }
    let allowed: &[&str] = match role(item) {
        "assistant" => &["output_text", "refusal"],
        "user" | "developer" | "system" => &["input_text", "input_image", "input_file", "input_audio"],
        other => {
            let message =
                format!("the role {} does not exist: use user, assistant, developer", quoted(other));
            findings.report(&R14, at / "role", message);
            return;
        }
    };
    if role(item) == "system" {
        findings.report(&R13, at / "role", "system messages are refused here: use developer");
    }
    if let Some(text) = item["content"].as_str() {
        string_length(text, at / "content", findings);
    }
    for (p, part) in list(&item["content"]) {
        let at = at / "content" / p;
        if !allowed.contains(&kind(part)) {
            let message =
                format!("a part of type {} does not fit the role: use {}", quoted(kind(part)), allowed[0]);
            findings.report(&R14, at / "type", message);
        }
        string_length(part["text"].as_str().unwrap_or_default(), at / "text", findings);
    }
}

/// R15: data URLs of images in messages and outputs.
fn images(item: &Value, at: At, findings: &mut Findings) {
    for field in ["content", "output"] {
        for (p, part) in list(&item[field]) {
            let Some(rest) = part["image_url"].as_str().and_then(|url| url.strip_prefix("data:")) else {
                continue;
            };
            let data = rest.split_once(";base64,").filter(|(mime, _)| mime.starts_with("image/"));
            if !data.is_some_and(|(_, data)| media::is_base64(data)) {
                let message =
                    "this image is not whole base64 with an image type: remove it or restore its data";
                findings.report(&R15, at / field / p / "image_url", message);
            }
        }
    }
}

/// R1, R2, and the generic rules for what the dialect has no words of its own for.
fn pairing(request: &Request, findings: &mut Findings) {
    let elsewhere = ["previous_response_id", "conversation"].iter().any(|f| !request.envelope[f].is_null());
    let mut calls: HashMap<&str, (usize, usize)> = HashMap::new();
    for (i, item) in request.messages.iter().enumerate() {
        let Some(id) = item["call_id"].as_str() else { continue };
        if is_call(item) {
            match calls.insert(id, (i, 0)) {
                Some((earlier, 0)) => unanswered(request, earlier, findings),
                Some(_) => {
                    let message = format!("the call id {} was used by an earlier call", quoted(id));
                    findings.report(&G3, request.at(i) / "call_id", message);
                }
                None => {}
            }
        } else if is_output(item) {
            match calls.get_mut(id) {
                Some((_, answers)) => {
                    *answers += 1;
                    if *answers == 2 {
                        let message = format!("call {} is answered twice: keep one output", quoted(id));
                        findings.report(&G2, request.at(i), message);
                    }
                }
                None if elsewhere || kind(item) == "tool_search_output" => {}
                None => {
                    let message = format!("no call {} stands before this output: remove it", quoted(id));
                    findings.report(&R1, request.at(i), message);
                }
            }
        }
    }
    let mut open: Vec<usize> =
        calls.into_values().filter(|(_, answers)| *answers == 0).map(|(i, _)| i).collect();
    open.sort_unstable();
    for i in open {
        unanswered(request, i, findings);
    }
}

/// A shell or search that the provider ran itself says so by its execution or needs no output.
fn unanswered(request: &Request, index: usize, findings: &mut Findings) {
    let item = &request.messages[index];
    if item["execution"] == "server" {
        return;
    }
    let message = format!(
        "call {} has no output: add it or remove the call",
        quoted(item["call_id"].as_str().unwrap_or_default())
    );
    findings.report(&R2, request.at(index), message);
}

/// R3 and R5 to R7: a reasoning item and what it led to.
fn reasoning(request: &Request, findings: &mut Findings) {
    let stored = request.envelope["store"] != false;
    for (i, item) in request.messages.iter().enumerate().filter(|(_, item)| kind(item) == "reasoning") {
        let at = request.at(i);
        if !item["summary"].is_array() {
            findings.report(&R6, at, "this reasoning item has no `summary`: send an empty list");
        }
        if !stored && item["encrypted_content"].as_str().is_none_or(str::is_empty) {
            findings.report(
                &R6,
                at,
                "with `store` false a reasoning item needs `encrypted_content`: remove it",
            );
        }
        if list(&item["content"]).next().is_some() {
            findings.report(&R7, at / "content", "the content of a reasoning item must be empty on input");
        }
        if item["id"].is_null() {
            continue;
        }
        match request.messages.get(i + 1) {
            Some(next) if is_reply(next) => {
                if next["id"].is_null() {
                    let message =
                        "the item behind reasoning lost its id: keep it, or drop the reasoning item's id too";
                    findings.report(&R5, request.at(i + 1), message);
                }
            }
            _ => findings.report(&R3, at, "this reasoning item is not followed by what it led to: remove it"),
        }
    }
}

fn stored_items(request: &Request, findings: &mut Findings) {
    if request.envelope["store"] != false {
        return;
    }
    for (i, item) in request.messages.iter().enumerate() {
        if ["item_reference", "image_generation_call"].contains(&kind(item)) && item["id"].is_string() {
            let message = "this refers to a stored item although `store` is false: send the item itself";
            findings.report(&R9, request.at(i), message);
        }
    }
}

fn json_mode(request: &Request, findings: &mut Findings) {
    if kind(&request.envelope["text"]["format"]) != "json_object" {
        return;
    }
    let says = |value: &Value| value.as_str().is_some_and(says_json);
    let mentioned = says(&request.envelope["input"])
        || request.messages.iter().filter(|item| item_kind(item) == "message").any(|item| {
            says(&item["content"]) || list(&item["content"]).any(|(_, part)| says(&part["text"]))
        });
    if !mentioned {
        findings.report(
            &R16,
            "/text/format",
            "`json_object` is asked for but no message says json: mention it",
        );
    }
}
