//! Chat Completions.

use serde_json::Value;

use super::draft::{Draft, Odd, is_there, without_error};

pub(super) fn whole(value: &Value, draft: &mut Draft) -> Result<(), Odd> {
    without_error(value)?;
    let choice = &value["choices"][0];
    if !choice["message"].is_object() {
        return Err(Odd::Unknown);
    }
    choose(choice, &choice["message"], draft)?;
    around(value, draft);
    Ok(())
}

/// A piece has a delta in place of the message; the last one has only the usage.
pub(super) fn event(value: &Value, draft: &mut Draft) -> Result<(), Odd> {
    without_error(value)?;
    let choice = &value["choices"][0];
    choose(choice, &choice["delta"], draft)?;
    around(value, draft);
    Ok(())
}

fn choose(choice: &Value, message: &Value, draft: &mut Draft) -> Result<(), Odd> {
    without_error(choice)?;
    match &message["content"] {
        Value::Array(parts) => parts.iter().for_each(|part| draft.say(&part["text"])),
        text => draft.say(text),
    }
    draft.refused |= is_there(&message["refusal"]);
    draft.called |= is_there(&message["tool_calls"]) || is_there(&message["function_call"]);
    draft.stop(&choice["finish_reason"]);
    Ok(())
}

fn around(value: &Value, draft: &mut Draft) {
    draft.by(&value["model"]);
    draft.use_up(&value["usage"]);
}
