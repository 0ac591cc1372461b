//! Thinking in the Messages dialect, as far as one body shows it. That it was not touched is for `compare` to see.

use serde_json::Value;

use super::block::Block;
use super::rules::{A19, A20, A23, A24, A26};
use super::{Findings, Request, kind, list, role};

const SMALLEST_BUDGET: u64 = 1_024;

pub(super) fn check(request: &Request, findings: &mut Findings) {
    if !request.bare {
        tail(request, findings);
        settings(request.envelope, findings);
    }
}

fn is_thinking(block: &Value) -> bool {
    ["thinking", "redacted_thinking"].contains(&kind(block))
}

/// A23.
pub(super) fn signature(block: &Block, findings: &mut Findings) {
    if block.kind == "thinking" && block.value["signature"].as_str().is_none_or(str::is_empty) {
        findings.report(&A23, block.at, "this thinking has no signature: remove the block");
    }
}

/// A19 and A20: what the end of the messages looks like with thinking on or off.
fn tail(request: &Request, findings: &mut Findings) {
    let Some((last, message)) = request.last() else { return };
    let mode = kind(&request.envelope["thinking"]);
    let off = ["", "disabled"].contains(&mode) && role(message) == "assistant";
    if let Some((b, _)) = list(&message["content"]).find(|(_, block)| off && is_thinking(block)) {
        let message = "the last message has thinking while thinking is off: remove it or switch thinking on";
        findings.report(&A20, request.at(last) / "content" / b, message);
    }
    let in_loop = list(&message["content"]).any(|(_, block)| kind(block) == "tool_result");
    let reply = request.messages.iter().rposition(|m| role(m) == "assistant");
    if let Some(i) = reply.filter(|_| mode == "enabled" && role(message) == "user" && in_loop) {
        let content = &request.messages[i]["content"];
        let calls = list(content).any(|(_, block)| kind(block) == "tool_use");
        if calls && !is_thinking(&content[0]) {
            let message = "the last reply of an open tool loop must start with its thinking: restore it";
            findings.report(&A19, request.at(i) / "content" / "0", message);
        }
    }
}

/// A24 and A26: the fields beside the messages.
fn settings(envelope: &Value, findings: &mut Findings) {
    let thinking = &envelope["thinking"];
    let enabled = kind(thinking) == "enabled";
    let forced = ["any", "tool"].contains(&kind(&envelope["tool_choice"]));
    if forced && (enabled || findings.target.forced_choice == Some(false)) {
        findings.report(&A24, "/tool_choice", "a forced `tool_choice` is refused here: send auto");
    }
    if !enabled {
        return;
    }
    if findings.target.thinking_budget == Some(false) {
        findings.report(&A26, "/thinking", "this model takes no thinking budget: use adaptive thinking");
        return;
    }
    let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
    if budget < SMALLEST_BUDGET {
        findings.report(
            &A26,
            "/thinking/budget_tokens",
            "the thinking budget is under 1,024 tokens: raise it",
        );
    }
    if envelope["max_tokens"].as_u64().is_some_and(|most| most <= budget) {
        findings.report(&A26, "/max_tokens", "`max_tokens` is not above the thinking budget: raise it");
    }
    if envelope["temperature"].as_f64().is_some_and(|t| (t - 1.0).abs() > f64::EPSILON) {
        findings.report(&A26, "/temperature", "with thinking on the temperature must be 1: leave it out");
    }
}
