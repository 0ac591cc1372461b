//! The rules of Messages: roles, empties and the tail here; the rest in files of their own.

use serde_json::Value;

use super::block::Block;
use super::marks::{self, Marks};
use super::media::Images;
use super::pairing::{self, Turns};
use super::rules::{A12, A13, A14, A15, A16, A17, A34, G1, G7};
use super::{At, Findings, Request, hosts, list, quoted, role, thinking};

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
    let mut turns = Turns::default();
    let mut marks = Marks::before_messages(request);
    let mut images = Images::default();
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        if !message.is_object() {
            findings.report(&G1, at, "this is no message: send an object with a role and content");
            continue;
        }
        let role = role(message);
        turns.message(role);
        roles(role, i, at, findings);
        emptiness(&message["content"], at, i + 1 == request.messages.len() && role == "assistant", findings);
        marks::on_message(message, at, findings);
        if message["content"].is_string() {
            let block = Block { at: at / "content", kind: "text", value: &Value::Null };
            turns.block(i, &block, findings);
        }
        for (b, block) in list(&message["content"]) {
            let block = Block::new(at / "content" / b, block);
            text(&block, findings);
            turns.block(i, &block, findings);
            thinking::signature(&block, findings);
            for inner in block.inner() {
                text(&inner, findings);
                marks.note(&inner);
                images.note(&inner, findings);
            }
            marks.note(&block);
            images.note(&block, findings);
            marks::on_citations(&block, findings);
        }
    }
    system(request, findings);
    tail(request, findings);
    turns.check(request, findings);
    for (t, tool) in request.tools() {
        pairing::name(&tool["name"], At::BODY / "tools" / t / "name", findings);
    }
    thinking::check(request, findings);
    marks.check(request, findings);
    images.check(findings);
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

fn roles(role: &str, index: usize, at: At, findings: &mut Findings) {
    match role {
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
    if index == 0 && role != "user" {
        findings.report(&A16, at, "the first message is not the user's: put one in front");
    }
}

/// A16, and A15 for a message that is a string. A last assistant message may be empty.
fn emptiness(content: &Value, at: At, optional: bool, findings: &mut Findings) {
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
        Value::String(text) => blank(text, at, findings),
        _ => {}
    }
}

/// A14 and A15, for a text block.
fn text(block: &Block, findings: &mut Findings) {
    if block.kind == "text" {
        blank(block.value["text"].as_str().unwrap_or_default(), block.at, findings);
    }
}

fn system(request: &Request, findings: &mut Findings) {
    for (s, block) in list(&request.envelope["system"]) {
        text(&Block::new(At::BODY / "system" / s, block), findings);
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
