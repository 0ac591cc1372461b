//! Thinking and reasoning that were issued here, known again by what they are signed with.
//!
//! A signature holds the prefix that the thinking was issued behind and what it said, so nothing has to be kept to verify one.
//! Signatures of another form are from elsewhere, and are taken as they are.

use serde_json::Value;

use super::content::{print_text, then};
use super::prompt::{Part, Prompt, list};
use super::refusal::Refusal;
use super::settings::Binding;

const SIGNED: &str = "c2lt";
const ENCRYPTED: &str = "gAAAAc2lt";
/// What the setting that lets such blocks be dropped asks for.
const CONTROLS: &str = "thinking-binding-controls-2026-08-01";

/// What thinking that is issued behind a prefix is signed with.
pub(super) fn signature(prefix: u64, thinking: &str) -> String {
    format!("{SIGNED}{prefix:016x}{:016x}", print_text(thinking))
}

/// What reasoning that is issued behind a prefix is sent back as.
pub(super) fn encrypted(prefix: u64) -> String {
    format!("{ENCRYPTED}{prefix:016x}{:016x}", then(prefix, 0))
}

/// Whether signed thinking comes back as it was issued, and behind what it was issued behind.
pub(super) fn judge(request: &Value, prompt: &Prompt, binding: Binding, betas: &str) -> Result<(), Refusal> {
    let messages = &request["messages"];
    let controls = &request["thinking"]["block_binding"];
    if !controls.is_null() && !betas.contains(CONTROLS) {
        return Err(Refusal::invalid("thinking.block_binding: Extra inputs are not permitted"));
    }
    let dropped = controls["prefix_mismatch_behavior"] == "drop_block";
    let open = open_loop(messages);
    let latest = list(messages).filter(|(_, message)| message["role"] == "assistant").map(|(m, _)| m).last();
    for block in prompt.blocks.iter().filter(|block| block.part == Part::Messages) {
        let (m, b) = block.place;
        let value = &messages[m]["content"][b];
        let Some(signed) = value["signature"].as_str().and_then(|text| text.strip_prefix(SIGNED)) else {
            continue;
        };
        let at = format!("messages.{m}.content.{b}");
        let said = print_text(value["thinking"].as_str().unwrap_or_default());
        let (behind, saying) = signed.split_at_checked(16).unwrap_or_default();
        if saying != format!("{said:016x}") && latest == Some(m) {
            return Err(Refusal::invalid(format!(
                "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
                 blocks must remain as they were in the original response."
            )));
        }
        if saying != format!("{said:016x}") {
            return Err(Refusal::invalid(format!("{at}: Invalid `signature` in `thinking` block")));
        }
        let bound = binding == Binding::Everywhere || open.is_some_and(|first| m >= first);
        if bound && !dropped && behind != format!("{:016x}", block.before) {
            return Err(Refusal::invalid(format!(
                "{at}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the \
                 block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
            )));
        }
    }
    Ok(())
}

/// The first message behind the user's last words, where the request goes on with a tool loop.
fn open_loop(messages: &Value) -> Option<usize> {
    let answers = |message: &Value| list(&message["content"]).any(|(_, block)| block["type"] == "tool_result");
    let (_, last) = list(messages).last()?;
    let words = list(messages).filter(|(_, message)| message["role"] == "user" && !answers(message)).last();
    answers(last).then(|| words.map_or(0, |(m, _)| m + 1))
}

/// Whether encrypted reasoning comes back as it was issued.
pub(super) fn judge_reasoning(request: &Value) -> Result<(), Refusal> {
    for (i, item) in list(&request["input"]) {
        let whole = item["encrypted_content"].as_str().unwrap_or_default();
        let Some(sealed) = whole.strip_prefix(ENCRYPTED) else { continue };
        let prefix = sealed.get(..16).and_then(|prefix| u64::from_str_radix(prefix, 16).ok());
        if prefix.is_none_or(|prefix| encrypted(prefix) != whole) {
            let message = format!(
                "The encrypted content {}... could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
                &ENCRYPTED[..4]
            );
            return Err(Refusal::invalid(message).code("invalid_encrypted_content").param(format!("input[{i}]")));
        }
    }
    Ok(())
}
