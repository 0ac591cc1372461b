//! Messages.

use serde_json::Value;

use super::draft::{Draft, Odd, without_error};

pub(super) fn whole(value: &Value, draft: &mut Draft) -> Result<(), Odd> {
    without_error(value)?;
    let blocks = value["content"].as_array().ok_or(Odd::Unknown)?;
    for block in blocks {
        begin(block, draft);
    }
    open(value, draft);
    draft.stop(&value["stop_reason"]);
    Ok(())
}

pub(super) fn event(value: &Value, draft: &mut Draft) -> Result<(), Odd> {
    without_error(value)?;
    match value["type"].as_str().unwrap_or_default() {
        "message_start" => open(&value["message"], draft),
        "content_block_start" => begin(&value["content_block"], draft),
        "content_block_delta" => draft.say(&value["delta"]["text"]),
        "message_delta" => {
            draft.stop(&value["delta"]["stop_reason"]);
            draft.use_up(&value["usage"]);
        }
        "message_stop" => draft.ended = true,
        _ => {}
    }
    Ok(())
}

fn open(message: &Value, draft: &mut Draft) {
    draft.by(&message["model"]);
    draft.use_up(&message["usage"]);
}

fn begin(block: &Value, draft: &mut Draft) {
    match block["type"].as_str().unwrap_or_default() {
        "text" => draft.say(&block["text"]),
        "tool_use" => draft.called = true,
        _ => {}
    }
}
