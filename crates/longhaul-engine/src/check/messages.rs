//! The rules of Messages: roles, empties and the tail here; the rest in files of their own.

use serde_json::Value;

use super::rules::{A12, A13, A14, A15, A16, A17, A34, G1, G7};
use super::{At, Findings, Request, hosts, kind, list, marks, media, pairing, quoted, role, thinking};

const LARGEST_BODY: usize = 32 * 1024 * 1024;
const MOST_MESSAGES: usize = 100_000;

pub(super) fn check(request: &Request, findings: &mut Findings) {
    if request.bytes > LARGEST_BODY {
        findings.report(
            &A34,
            "",
            format!("the body has {} bytes, more than 32 MB: send less", request.bytes),
        );
    }
    count(request, findings);
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        if message.is_object() {
            roles(message, i, at, findings);
            let optional = i + 1 == request.messages.len() && role(message) == "assistant";
            emptiness(message, at, optional, findings);
        } else {
            findings.report(&G1, at, "this is no message: send an object with a role and content");
        }
    }
    texts(&request.envelope["system"], At::BODY / "system", findings);
    tail(request, findings);
    pairing::check(request, findings);
    thinking::check(request, findings);
    marks::check(request, findings);
    media::check(request, findings);
    hosts::check_messages(request, findings);
}

fn count(request: &Request, findings: &mut Findings) {
    if request.messages.is_empty() {
        findings.report(&A16, request.root, "there are no messages: send at least one");
    }
    if request.messages.len() > MOST_MESSAGES {
        findings.report(&A16, request.root, "there are more than 100,000 messages: send fewer");
    }
}

fn roles(message: &Value, index: usize, at: At, findings: &mut Findings) {
    match role(message) {
        "user" | "assistant" => {}
        "system" => {
            let refused = findings.target.mid_system.map(|taken| !taken);
            let message = "a system message stands among the messages: use `system`, or the user's role";
            findings.report_if(refused, &A17, at / "role", message);
        }
        other => {
            let message = format!("the role {} does not exist here: use user or assistant", quoted(other));
            findings.report(&A17, at / "role", message);
        }
    }
    if index == 0 && role(message) != "user" {
        findings.report(&A16, at, "the first message is not the user's: put one in front");
    }
}

fn emptiness(message: &Value, at: At, optional: bool, findings: &mut Findings) {
    let content = &message["content"];
    let empty = match content {
        Value::String(text) => text.is_empty(),
        Value::Array(blocks) => blocks.is_empty(),
        Value::Null => true,
        _ => {
            findings.report(&G1, at / "content", "content is neither text nor a list of blocks");
            false
        }
    };
    if empty {
        if !optional {
            findings.report(&A16, at / "content", "this message is empty: remove it");
        }
        return;
    }
    texts(content, at / "content", findings);
    for (b, block) in list(content) {
        if kind(block) == "tool_result" && block["content"].is_array() {
            texts(&block["content"], at / "content" / b / "content", findings);
        }
    }
}

/// A14 and A15, for a string or for the text blocks of a list.
fn texts(content: &Value, at: At, findings: &mut Findings) {
    match content {
        Value::String(text) => blank(text, at, findings),
        blocks => {
            for (b, block) in list(blocks).filter(|(_, block)| kind(block) == "text") {
                blank(block["text"].as_str().unwrap_or_default(), at / b, findings);
            }
        }
    }
}

fn blank(text: &str, at: At, findings: &mut Findings) {
    if text.is_empty() {
        findings.report(&A14, at, "this text is empty: remove it");
    } else if text.trim().is_empty() {
        findings.report(&A15, at, "this text is only whitespace: remove it");
    }
}

fn tail(request: &Request, findings: &mut Findings) {
    let Some((last, message)) = request.last() else { return };
    if role(message) != "assistant" {
        return;
    }
    let at = request.at(last);
    let message_g7 =
        "the last message is an assistant's, which models without prefill refuse: end with the user";
    findings.report(&G7, at, message_g7);
    if findings.target.prefill == Some(false) {
        findings.report(&A12, at, "this model does not go on from an assistant message: end with the user");
        return;
    }
    let end = match &message["content"] {
        Value::String(text) => Some(text.as_str()),
        blocks => list(blocks).last().and_then(|(_, block)| block["text"].as_str()),
    };
    if end.is_some_and(|text| text.ends_with(char::is_whitespace) && !text.trim().is_empty()) {
        findings.report(&A13, at / "content", "the last assistant text ends in whitespace: trim it");
    }
}
