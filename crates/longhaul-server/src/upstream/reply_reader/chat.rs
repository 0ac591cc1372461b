//! Reads replies in the Chat Completions format.

use serde_json::Value;

use super::partial_reply::{PartialReply, UnexpectedValue, is_present, reject_error};

pub(super) fn read_document(value: &Value, draft: &mut PartialReply) -> Result<(), UnexpectedValue> {
    reject_error(value)?;
    let choice = &value["choices"][0];
    if !choice["message"].is_object() {
        return Err(UnexpectedValue::Unrecognized);
    }
    read_choice(choice, &choice["message"], draft)?;
    read_metadata(value, draft);
    Ok(())
}

/// Reads one event of a stream: it has a delta in place of the message, and the last one has only the usage.
pub(super) fn read_event(value: &Value, draft: &mut PartialReply) -> Result<(), UnexpectedValue> {
    reject_error(value)?;
    let choice = &value["choices"][0];
    read_choice(choice, &choice["delta"], draft)?;
    read_metadata(value, draft);
    Ok(())
}

fn read_choice(choice: &Value, message: &Value, draft: &mut PartialReply) -> Result<(), UnexpectedValue> {
    reject_error(choice)?;
    match &message["content"] {
        Value::Array(parts) => parts.iter().for_each(|part| draft.push_text(&part["text"])),
        text => draft.push_text(text),
    }
    draft.is_refused |= is_present(&message["refusal"]);
    draft.has_tool_call |= is_present(&message["tool_calls"]) || is_present(&message["function_call"]);
    draft.set_finish(&choice["finish_reason"]);
    Ok(())
}

fn read_metadata(value: &Value, draft: &mut PartialReply) {
    draft.set_model(&value["model"]);
    draft.merge_usage(&value["usage"]);
}
