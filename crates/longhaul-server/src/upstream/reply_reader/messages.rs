//! Reads replies in the Messages format.

use serde_json::Value;

use super::partial_reply::{PartialReply, UnexpectedValue, reject_error};

pub(super) fn read_document(value: &Value, draft: &mut PartialReply) -> Result<(), UnexpectedValue> {
    reject_error(value)?;
    let blocks = value["content"].as_array().ok_or(UnexpectedValue::Unrecognized)?;
    for block in blocks {
        read_block(block, draft);
    }
    read_metadata(value, draft);
    draft.set_finish(&value["stop_reason"]);
    Ok(())
}

pub(super) fn read_event(value: &Value, draft: &mut PartialReply) -> Result<(), UnexpectedValue> {
    reject_error(value)?;
    match value["type"].as_str().unwrap_or_default() {
        "message_start" => read_metadata(&value["message"], draft),
        "content_block_start" => read_block(&value["content_block"], draft),
        "content_block_delta" => draft.push_text(&value["delta"]["text"]),
        "message_delta" => {
            draft.set_finish(&value["delta"]["stop_reason"]);
            draft.merge_usage(&value["usage"]);
        }
        "message_stop" => draft.has_ended = true,
        _ => {}
    }
    Ok(())
}

fn read_metadata(message: &Value, draft: &mut PartialReply) {
    draft.set_model(&message["model"]);
    draft.merge_usage(&message["usage"]);
}

fn read_block(block: &Value, draft: &mut PartialReply) {
    match block["type"].as_str().unwrap_or_default() {
        "text" => draft.push_text(&block["text"]),
        "tool_use" => draft.has_tool_call = true,
        _ => {}
    }
}
