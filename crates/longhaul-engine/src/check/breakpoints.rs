//! Checks cache breakpoints in Messages, in the order in which the provider reads them: tools, system,
//! messages.

use serde_json::Value;

use super::block::LocatedBlock;
use super::rules::{A27, A28, A29, A30};
use super::{CheckedRequest, Findings, JsonPath, indexed, type_of};

/// The maximum number of cache breakpoints in a request (A27).
const MAX_BREAKPOINTS: usize = 4;

/// A `cache_control` field, with the element that has it.
struct CacheControl<'v> {
    path: JsonPath,
    control: &'v Value,
    element: &'v Value,
}

/// All cache breakpoints of a body, in the order in which the provider reads them.
pub(super) struct CacheControls<'v>(Vec<CacheControl<'v>>);

impl<'v> CacheControls<'v> {
    /// Collects the breakpoints of the tools and the system prompt. Those of the messages are added while the
    /// messages are walked.
    pub(super) fn from_tools_and_system(request: &CheckedRequest<'v>) -> Self {
        let mut marks = Self(Vec::new());
        for (t, tool) in request.tools() {
            marks.add_from(JsonPath::ROOT / "tools" / t, tool);
        }
        for (s, block) in indexed(&request.body["system"]) {
            marks.add_from(JsonPath::ROOT / "system" / s, block);
        }
        marks
    }

    pub(super) fn add_block(&mut self, block: &LocatedBlock<'v>) {
        self.add_from(block.path, block.value);
    }

    fn add_from(&mut self, at: JsonPath, holder: &'v Value) {
        if let Some(control) = holder.get("cache_control").filter(|control| !control.is_null()) {
            self.0.push(CacheControl { path: at / "cache_control", control, element: holder });
        }
    }

    pub(super) fn check(mut self, request: &CheckedRequest<'v>, findings: &mut Findings) {
        self.add_from(JsonPath::ROOT, request.body);
        if let Some(fifth) = self.0.get(MAX_BREAKPOINTS) {
            let message = format!("there are {} cache breakpoints: at most 4 are accepted", self.0.len());
            findings.report(&A27, fifth.path, message);
        }
        let mut short = false;
        for mark in &self.0 {
            let long = mark.control["ttl"] == "1h";
            if long && short {
                findings.report(
                    &A28,
                    mark.path,
                    "a 1h cache breakpoint comes after a 5m one: give the earlier ones 1h too",
                );
            }
            short |= !long;
            check_placement(mark, findings);
        }
    }
}

fn check_placement(mark: &CacheControl, findings: &mut Findings) {
    let blank = mark.element["text"].as_str().is_some_and(|text| text.trim().is_empty());
    if type_of(mark.element) == "text" && blank {
        findings.report(&A29, mark.path, "a cache breakpoint is on empty text: move it to a block with text");
    }
    if ["thinking", "redacted_thinking"].contains(&type_of(mark.element)) {
        findings.report(&A30, mark.path, "a cache breakpoint is on thinking: move it to the block before or after");
    }
    if type_of(mark.control) != "ephemeral" {
        findings.report(&A30, mark.path / "type", "the type of a cache breakpoint must be `ephemeral`");
    }
    let ttl = &mark.control["ttl"];
    if !(ttl.is_null() || *ttl == "5m" || *ttl == "1h") {
        findings.report(&A30, mark.path / "ttl", "the ttl of a cache breakpoint must be `5m` or `1h`");
    }
}

/// Checks A30: a breakpoint on a message as a whole, which the provider does not read.
pub(super) fn check_message(message: &Value, at: JsonPath, findings: &mut Findings) {
    if !message["cache_control"].is_null() {
        findings.report(&A30, at / "cache_control", "a cache breakpoint is on a message: put it on a block");
    }
}

/// Checks A30: a breakpoint on a citation of a text block.
pub(super) fn check_citations(block: &LocatedBlock, findings: &mut Findings) {
    if block.kind != "text" {
        return;
    }
    for (c, _) in indexed(&block.value["citations"]).filter(|(_, citation)| !citation["cache_control"].is_null()) {
        let at = block.path / "citations" / c / "cache_control";
        findings.report(&A30, at, "a cache breakpoint is on a citation: put it on the block");
    }
}
