//! Cache marks in the Messages dialect, in the order in which the provider reads: tools, system, messages.

use serde_json::Value;

use super::rules::{A27, A28, A29, A30};
use super::{At, Findings, Request, kind, list};

const MOST_MARKS: usize = 4;

/// One `cache_control`, with the element that carries it.
struct Mark<'v> {
    at: At,
    control: &'v Value,
    holder: &'v Value,
}

pub(super) fn check(request: &Request, findings: &mut Findings) {
    let marks = marks(request);
    if let Some(fifth) = marks.get(MOST_MARKS) {
        let message = format!("there are {} cache marks: at most 4 are taken", marks.len());
        findings.report(&A27, fifth.at, message);
    }
    let mut short = false;
    for mark in &marks {
        let long = mark.control["ttl"] == "1h";
        if long && short {
            findings.report(
                &A28,
                mark.at,
                "a 1h cache mark comes after a 5m one: give the earlier ones 1h too",
            );
        }
        short |= !long;
        placement(mark, findings);
    }
    strays(request, findings);
}

fn marks<'v>(request: &Request<'v>) -> Vec<Mark<'v>> {
    let mut marks = Vec::new();
    let mut note = |at: At, holder: &'v Value| {
        if let Some(control) = holder.get("cache_control").filter(|control| !control.is_null()) {
            marks.push(Mark { at: at / "cache_control", control, holder });
        }
    };
    for (t, tool) in request.tools() {
        note(At::BODY / "tools" / t, tool);
    }
    for (s, block) in list(&request.envelope["system"]) {
        note(At::BODY / "system" / s, block);
    }
    for (i, message) in request.messages.iter().enumerate() {
        for (b, block) in list(&message["content"]) {
            let at = request.at(i) / "content" / b;
            for (p, part) in list(&block["content"]).filter(|_| kind(block) == "tool_result") {
                note(at / "content" / p, part);
            }
            note(at, block);
        }
    }
    note(At::BODY, request.envelope);
    marks
}

fn placement(mark: &Mark, findings: &mut Findings) {
    let blank = mark.holder["text"].as_str().is_some_and(|text| text.trim().is_empty());
    if kind(mark.holder) == "text" && blank {
        findings.report(&A29, mark.at, "a cache mark stands on empty text: move it to a block with text");
    }
    if ["thinking", "redacted_thinking"].contains(&kind(mark.holder)) {
        findings.report(
            &A30,
            mark.at,
            "a cache mark stands on thinking: move it to the block before or after",
        );
    }
    if kind(mark.control) != "ephemeral" {
        findings.report(&A30, mark.at / "type", "the type of a cache mark must be `ephemeral`");
    }
    let ttl = &mark.control["ttl"];
    if !(ttl.is_null() || *ttl == "5m" || *ttl == "1h") {
        findings.report(&A30, mark.at / "ttl", "the ttl of a cache mark must be `5m` or `1h`");
    }
}

/// Marks where none are read: on a message as a whole, or on a part of a block.
fn strays(request: &Request, findings: &mut Findings) {
    for (i, message) in request.messages.iter().enumerate() {
        let at = request.at(i);
        if !message["cache_control"].is_null() {
            findings.report(
                &A30,
                at / "cache_control",
                "a cache mark stands on a message: put it on a block",
            );
        }
        for (b, block) in list(&message["content"]) {
            for (c, _) in
                list(&block["citations"]).filter(|(_, citation)| !citation["cache_control"].is_null())
            {
                let at = at / "content" / b / "citations" / c / "cache_control";
                findings.report(&A30, at, "a cache mark stands on a citation: put it on the block");
            }
        }
    }
}
