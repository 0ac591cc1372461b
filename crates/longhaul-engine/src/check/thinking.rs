//! Checks thinking in Messages, as far as one body shows it. `compare` checks that a rewrite left it
//! unchanged.

use serde_json::Value;

use super::block::LocatedBlock;
use super::rules::{A19, A20, A23, A24, A26};
use super::{CheckedRequest, Findings, indexed, role, type_of};

/// The minimum thinking budget, in tokens (A26).
const MIN_BUDGET_TOKENS: u64 = 1_024;

pub(super) fn check(request: &CheckedRequest, findings: &mut Findings) {
    if !request.is_bare_list {
        check_last_messages(request, findings);
        check_settings(request.body, findings);
    }
}

fn is_thinking(block: &Value) -> bool {
    ["thinking", "redacted_thinking"].contains(&type_of(block))
}

/// Checks A23: a thinking block has its signature.
pub(super) fn check_signature(block: &LocatedBlock, findings: &mut Findings) {
    if block.kind == "thinking" && block.value["signature"].as_str().is_none_or(str::is_empty) {
        findings.report(&A23, block.path, "this thinking has no signature: remove the block");
    }
}

/// Checks A19 and A20: the last messages, with thinking on or off.
fn check_last_messages(request: &CheckedRequest, findings: &mut Findings) {
    let Some((last, message)) = request.last_message() else { return };
    let mode = type_of(&request.body["thinking"]);
    let off = ["", "disabled"].contains(&mode) && role(message) == "assistant";
    if let Some((b, _)) = indexed(&message["content"]).find(|(_, block)| off && is_thinking(block)) {
        let message = "the last message has thinking while thinking is off: remove it or switch thinking on";
        findings.report(&A20, request.message_path(last) / "content" / b, message);
    }
    let in_loop = indexed(&message["content"]).any(|(_, block)| type_of(block) == "tool_result");
    let reply = request.messages.iter().rposition(|m| role(m) == "assistant");
    if let Some(i) = reply.filter(|_| mode == "enabled" && role(message) == "user" && in_loop) {
        let content = &request.messages[i]["content"];
        let calls = indexed(content).any(|(_, block)| type_of(block) == "tool_use");
        if calls && !is_thinking(&content[0]) {
            let message = "the last reply of an open tool loop must start with its thinking: restore it";
            findings.report(&A19, request.message_path(i) / "content" / "0", message);
        }
    }
}

/// Checks A24 and A26: the fields beside the messages.
fn check_settings(envelope: &Value, findings: &mut Findings) {
    let thinking = &envelope["thinking"];
    let enabled = type_of(thinking) == "enabled";
    let forced = ["any", "tool"].contains(&type_of(&envelope["tool_choice"]));
    if forced && (enabled || findings.target.accepts_forced_choice == Some(false)) {
        findings.report(&A24, "/tool_choice", "a forced `tool_choice` is refused here: send auto");
    }
    if !enabled {
        return;
    }
    if findings.target.accepts_thinking_budget == Some(false) {
        findings.report(&A26, "/thinking", "this model takes no thinking budget: use adaptive thinking");
        return;
    }
    let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
    if budget < MIN_BUDGET_TOKENS {
        findings.report(&A26, "/thinking/budget_tokens", "the thinking budget is under 1,024 tokens: raise it");
    }
    if envelope["max_tokens"].as_u64().is_some_and(|most| most <= budget) {
        findings.report(&A26, "/max_tokens", "`max_tokens` is not above the thinking budget: raise it");
    }
    if envelope["temperature"].as_f64().is_some_and(|t| (t - 1.0).abs() > f64::EPSILON) {
        findings.report(&A26, "/temperature", "with thinking on the temperature must be 1: leave it out");
    }
}
