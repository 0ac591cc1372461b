//! Cache marks in the Messages dialect, in the order in which the provider reads: tools, system, messages.

use serde_json::Value;

use super::block::Block;
use super::rules::{A27, A28, A29, A30};
use super::{At, Findings, Request, kind, list};

const MOST_MARKS: usize = 4;

/// One `cache_control`, with the element that carries it.
struct Mark<'v> {
    at: At,
    control: &'v Value,
    holder: &'v Value,
}

/// Every mark in reading order.
pub(super) struct Marks<'v>(Vec<Mark<'v>>);

impl<'v> Marks<'v> {
    /// The marks on tools and system; those of the messages are noted as they are walked.
    pub(super) fn before_messages(request: &Request<'v>) -> Self {
        let mut marks = Self(Vec::new());
        for (t, tool) in request.tools() {
            marks.on(At::BODY / "tools" / t, tool);
        }
        for (s, block) in list(&request.envelope["system"]) {
            marks.on(At::BODY / "system" / s, block);
        }
        marks
    }

    pub(super) fn note(&mut self, block: &Block<'v>) {
        self.on(block.at, block.value);
    }

    fn on(&mut self, at: At, holder: &'v Value) {
        if let Some(control) = holder.get("cache_control").filter(|control| !control.is_null()) {
            self.0.push(Mark { at: at / "cache_control", control, holder });
        }
    }

    pub(super) fn check(mut self, request: &Request<'v>, findings: &mut Findings) {
        self.on(At::BODY, request.envelope);
        if let Some(fifth) = self.0.get(MOST_MARKS) {
            let message = format!("there are {} cache breakpoints: at most 4 are taken", self.0.len());
            findings.report(&A27, fifth.at, message);
        }
        let mut short = false;
        for mark in &self.0 {
            let long = mark.control["ttl"] == "1h";
            if long && short {
                findings.report(
                    &A28,
                    mark.at,
                    "a 1h cache breakpoint comes after a 5m one: give the earlier ones 1h too",
                );
            }
            short |= !long;
            placement(mark, findings);
        }
    }
}

fn placement(mark: &Mark, findings: &mut Findings) {
    let blank = mark.holder["text"].as_str().is_some_and(|text| text.trim().is_empty());
    if kind(mark.holder) == "text" && blank {
        findings.report(
            &A29,
            mark.at,
            "a cache breakpoint stands on empty text: move it to a block with text",
        );
    }
    if ["thinking", "redacted_thinking"].contains(&kind(mark.holder)) {
        findings.report(
            &A30,
            mark.at,
            "a cache breakpoint stands on thinking: move it to the block before or after",
        );
    }
    if kind(mark.control) != "ephemeral" {
        findings.report(&A30, mark.at / "type", "the type of a cache breakpoint must be `ephemeral`");
    }
    let ttl = &mark.control["ttl"];
    if !(ttl.is_null() || *ttl == "5m" || *ttl == "1h") {
        findings.report(&A30, mark.at / "ttl", "the ttl of a cache breakpoint must be `5m` or `1h`");
    }
}

/// A30: a mark on a message as a whole, where none is read.
pub(super) fn on_message(message: &Value, at: At, findings: &mut Findings) {
    if !message["cache_control"].is_null() {
        findings.report(
            &A30,
            at / "cache_control",
            "a cache breakpoint stands on a message: put it on a block",
        );
    }
}

/// A30: a mark on a part of a block.
pub(super) fn on_citations(block: &Block, findings: &mut Findings) {
    if block.kind != "text" {
        return;
    }
    for (c, _) in list(&block.value["citations"]).filter(|(_, citation)| !citation["cache_control"].is_null())
    {
        let at = block.at / "citations" / c / "cache_control";
        findings.report(&A30, at, "a cache breakpoint stands on a citation: put it on the block");
    }
}
