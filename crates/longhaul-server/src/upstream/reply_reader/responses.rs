//! Reads replies in the Responses format.

use serde_json::Value;

use super::partial_reply::{PartialReply, UnexpectedValue, is_present, reject_error};

pub(super) fn read_document(value: &Value, draft: &mut PartialReply) -> Result<(), UnexpectedValue> {
    reject_error(value)?;
    let items = value["output"].as_array().ok_or(UnexpectedValue::Unrecognized)?;
    if items.iter().any(|item| item["type"] == "message") {
        // This message repeats the text of the earlier deltas in full.
        draft.text.clear();
    }
    for item in items {
        let kind = item["type"].as_str().unwrap_or_default();
        draft.has_tool_call |= kind.ends_with("_call");
        for part in item["content"].as_array().into_iter().flatten().filter(|_| kind == "message") {
            draft.push_text(&part["text"]);
            draft.is_refused |= is_present(&part["refusal"]);
        }
    }
    draft.set_model(&value["model"]);
    draft.merge_usage(&value["usage"]);
    let reason = &value["incomplete_details"]["reason"];
    draft.set_finish(if is_present(reason) { reason } else { &value["status"] });
    Ok(())
}

pub(super) fn read_event(value: &Value, draft: &mut PartialReply) -> Result<(), UnexpectedValue> {
    reject_error(value)?;
    match value["type"].as_str().unwrap_or_default() {
        "response.created" => draft.set_model(&value["response"]["model"]),
        "response.output_text.delta" => draft.push_text(&value["delta"]),
        "response.refusal.delta" => draft.is_refused = true,
        "response.completed" | "response.incomplete" | "response.failed" => {
            read_document(&value["response"], draft)?;
            draft.has_ended = true;
        }
        _ => {}
    }
    Ok(())
}
