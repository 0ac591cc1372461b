//! The rules of Messages (A) about roles, empty content and the last message. The other A rules have files of
//! their own.

use serde_json::Value;

use super::block::LocatedBlock;
use super::breakpoints::{self, CacheControls};
use super::media::Images;
use super::pairing::{self, RoleRuns};
use super::rules::{A12, A13, A14, A15, A16, A17, A34, G1, G7};
use super::{CheckedRequest, Findings, JsonPath, host_rules, indexed, quote, role, thinking};

/// The maximum size of a request body, in bytes (A34).
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// The maximum number of messages in a request (A16).
const MAX_MESSAGES: usize = 100_000;

pub(super) fn check(request: &CheckedRequest, findings: &mut Findings) {
    if request.body_bytes > MAX_BODY_BYTES {
        findings.report(&A34, "", format!("the body has {} bytes, more than 32 MB: send less", request.body_bytes));
    }
    check_message_count(request, findings);
    let mut turns = RoleRuns::default();
    let mut marks = CacheControls::from_tools_and_system(request);
    let mut images = Images::default();
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.message_path(i);
        if !message.is_object() {
            findings.report(&G1, at, "this is not a message: send an object with a role and content");
            continue;
        }
        let role = role(message);
        turns.start_message(role);
        check_role(role, i, at, findings);
        check_emptiness(&message["content"], at, i + 1 == request.messages.len() && role == "assistant", findings);
        breakpoints::check_message(message, at, findings);
        if message["content"].is_string() {
            let block = LocatedBlock { path: at / "content", kind: "text", value: &Value::Null };
            turns.add_block(i, &block, findings);
        }
        for (b, block) in indexed(&message["content"]) {
            let block = LocatedBlock::new(at / "content" / b, block);
            check_text_block(&block, findings);
            turns.add_block(i, &block, findings);
            thinking::check_signature(&block, findings);
            for inner in block.inner_blocks() {
                check_text_block(&inner, findings);
                marks.add_block(&inner);
                images.add_block(&inner, findings);
            }
            marks.add_block(&block);
            images.add_block(&block, findings);
            breakpoints::check_citations(&block, findings);
        }
    }
    check_system(request, findings);
    check_last_message(request, findings);
    turns.check(request, findings);
    for (t, tool) in request.tools() {
        pairing::check_tool_name(&tool["name"], JsonPath::ROOT / "tools" / t / "name", findings);
    }
    thinking::check(request, findings);
    marks.check(request, findings);
    images.check(findings);
    host_rules::check_messages(request, findings);
}

fn check_message_count(request: &CheckedRequest, findings: &mut Findings) {
    if request.messages.is_empty() {
        findings.report(&A16, request.messages_path, "there are no messages: send at least one");
    }
    if request.messages.len() > MAX_MESSAGES {
        findings.report(&A16, request.messages_path, "there are more than 100,000 messages: send fewer");
    }
}

fn check_role(role: &str, index: usize, at: JsonPath, findings: &mut Findings) {
    match role {
        "user" | "assistant" => {}
        "system" => {
            let refused = findings.target.accepts_mid_system.map(|taken| !taken);
            let message = "there is a system message in `messages`: use `system` or the user role";
            findings.report_if_model(refused, &A17, at / "role", message);
        }
        other => {
            let message = format!("the role {} does not exist here: use user or assistant", quote(other));
            findings.report(&A17, at / "role", message);
        }
    }
    if index == 0 && role != "user" {
        findings.report(&A16, at, "the first message is not a user message: put one first");
    }
}

/// Checks A16, and A15 for a message whose content is a string. A last assistant message may be empty.
fn check_emptiness(content: &Value, at: JsonPath, optional: bool, findings: &mut Findings) {
    let at = at / "content";
    let empty = match content {
        Value::String(text) => text.is_empty(),
        Value::Array(blocks) => blocks.is_empty(),
        Value::Null => true,
        _ => return,
    };
    match content {
        _ if empty && optional => {}
        _ if empty => findings.report(&A16, at, "this message is empty: remove it"),
        Value::String(text) => check_blank_text(text, at, findings),
        _ => {}
    }
}

/// Checks A14 and A15 for a text block.
fn check_text_block(block: &LocatedBlock, findings: &mut Findings) {
    if block.kind == "text" {
        check_blank_text(block.value["text"].as_str().unwrap_or_default(), block.path, findings);
    }
}

fn check_system(request: &CheckedRequest, findings: &mut Findings) {
    for (s, block) in indexed(&request.body["system"]) {
        check_text_block(&LocatedBlock::new(JsonPath::ROOT / "system" / s, block), findings);
    }
}

fn check_blank_text(text: &str, at: JsonPath, findings: &mut Findings) {
    if text.is_empty() {
        findings.report(&A14, at, "this text is empty: remove it");
    } else if text.trim().is_empty() {
        findings.report(&A15, at, "this text is only whitespace: remove it");
    }
}

fn check_last_message(request: &CheckedRequest, findings: &mut Findings) {
    let Some((last, message)) = request.last_message() else { return };
    if role(message) != "assistant" {
        return;
    }
    let at = request.message_path(last);
    let message_g7 = "the last message is an assistant's, which models without prefill refuse: end with the user";
    findings.report(&G7, at, message_g7);
    if findings.target.supports_prefill == Some(false) {
        findings.report(&A12, at, "this model cannot continue an assistant message: end with a user message");
        return;
    }
    let end = match &message["content"] {
        Value::String(text) => Some(text.as_str()),
        blocks => indexed(blocks).last().and_then(|(_, block)| block["text"].as_str()),
    };
    if end.is_some_and(|text| text.ends_with(char::is_whitespace) && !text.trim().is_empty()) {
        findings.report(&A13, at / "content", "the last assistant text ends in whitespace: trim it");
    }
}
