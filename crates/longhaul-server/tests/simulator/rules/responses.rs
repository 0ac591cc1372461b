//! The essential rules of Responses.

use std::collections::HashSet;

use serde_json::Value;

use super::super::prompt::list;
use super::super::refusal::Refusal;

/// Calls that the client answers, and what answers them.
const PAIRS: [(&str, &str); 2] =
    [("function_call", "function_call_output"), ("custom_tool_call", "custom_tool_call_output")];

pub(super) fn judge(request: &Value) -> Result<(), Refusal> {
    if !request["input"].is_string() && !request["input"].is_array() {
        return Err(Refusal::invalid("Missing required parameter: 'input'.").param("input"));
    }
    let (mut calls, mut open, mut ids) = (HashSet::new(), Vec::new(), HashSet::new());
    for (i, item) in list(&request["input"]) {
        let kind = item["type"].as_str().unwrap_or_default();
        // Who lacks what another provider has does not know its items.
        if kind == "compaction" {
            return Err(Refusal::invalid("Invalid value: 'compaction'.").param(format!("input[{i}]")));
        }
        let call = item["call_id"].as_str().unwrap_or_default();
        if PAIRS.iter().any(|(calls, _)| *calls == kind) {
            calls.insert(call);
            open.push(call);
        }
        if PAIRS.iter().any(|(_, outputs)| *outputs == kind) {
            if !calls.contains(call) && request["conversation"].is_null() {
                let message = format!("No tool call found for function call output with call_id {call}.");
                return Err(Refusal::invalid(message).param("input"));
            }
            open.retain(|waiting| *waiting != call);
        }
        if kind == "reasoning" && !item["summary"].is_array() {
            let message = format!("Missing required parameter: 'input[{i}].summary'.");
            return Err(Refusal::invalid(message).param(format!("input[{i}].summary")));
        }
        let id = item["id"].as_str().filter(|_| kind != "item_reference");
        if let Some(id) = id.filter(|id| !ids.insert(*id)) {
            return Err(Refusal::invalid(format!("Duplicate item found with id {id}.")).param("input"));
        }
    }
    match open.first() {
        Some(call) => Err(Refusal::invalid(format!("No tool output found for function call {call}.")).param("input")),
        None => Ok(()),
    }
}
