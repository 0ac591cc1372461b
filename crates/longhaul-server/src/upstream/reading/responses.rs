//! Responses.

use serde_json::Value;

use super::draft::{Draft, Odd, is_there, without_error};

pub(super) fn whole(value: &Value, draft: &mut Draft) -> Result<(), Odd> {
    without_error(value)?;
    let items = value["output"].as_array().ok_or(Odd::Unknown)?;
    if items.iter().any(|item| item["type"] == "message") {
        // What was said piece by piece before is said here again, in full.
        draft.text.clear();
    }
    for item in items {
        let kind = item["type"].as_str().unwrap_or_default();
        draft.called |= kind.ends_with("_call");
        for part in item["content"].as_array().into_iter().flatten().filter(|_| kind == "message") {
            draft.say(&part["text"]);
            draft.refused |= is_there(&part["refusal"]);
        }
    }
    draft.by(&value["model"]);
    draft.use_up(&value["usage"]);
    let reason = &value["incomplete_details"]["reason"];
    draft.stop(if is_there(reason) { reason } else { &value["status"] });
    Ok(())
}

pub(super) fn event(value: &Value, draft: &mut Draft) -> Result<(), Odd> {
    without_error(value)?;
    match value["type"].as_str().unwrap_or_default() {
        "response.created" => draft.by(&value["response"]["model"]),
        "response.output_text.delta" => draft.say(&value["delta"]),
        "response.refusal.delta" => draft.refused = true,
        "response.completed" | "response.incomplete" | "response.failed" => {
            whole(&value["response"], draft)?;
            draft.ended = true;
        }
        _ => {}
    }
    Ok(())
}
