//! The usage that providers reported: for each step of a reply or, if no step has it, for the whole reply.

use std::collections::BTreeMap;

use longhaul_engine::{Tokens, prices::Usage};
use serde_json::Value;

use super::super::{RequestUsage, Timestamp};
use super::provider_and_model;
use super::saved_session::{SavedMessage, SavedPart};

/// The index of the request that each step of a reply answers, by the reply's ID and the step's number.
pub(super) type StepRequests = BTreeMap<(String, usize), usize>;

/// Returns the usage of every request in order, and the request of each step.
pub(super) fn reported_requests(messages: &[SavedMessage]) -> (Vec<RequestUsage>, StepRequests) {
    let mut requests = Vec::new();
    let mut found = StepRequests::new();
    for message in messages.iter().filter(|message| message.info["role"] == "assistant") {
        let steps = split_steps(&message.parts);
        let finished: Vec<(usize, &Value)> = steps
            .iter()
            .enumerate()
            .filter_map(|(number, step)| Some((number, &step.iter().find(|part| is_finish(part))?.data)))
            .collect();
        let told = if finished.is_empty() { vec![(0, &message.info)] } else { finished };
        for (number, told) in told {
            if let Some(usage) = parse_usage(&told["tokens"]) {
                // A summary answers the compaction request, not the prompt before it.
                if message.info["summary"] != true {
                    found.insert((message.id.clone(), number), requests.len());
                }
                requests.push(to_request_usage(message, told, usage));
            }
        }
    }
    (requests, found)
}

/// Splits the parts of a reply into steps. A step begins at a `step-start` part; parts before the first one
/// belong to the first step.
pub(super) fn split_steps(parts: &[SavedPart]) -> Vec<Vec<&SavedPart>> {
    let mut steps: Vec<Vec<&SavedPart>> = Vec::new();
    for part in parts {
        let starts = part.data["type"] == "step-start";
        match steps.last_mut() {
            Some(step) if !starts || step.iter().all(|part| part.data["type"] == "step-start") => {
                step.push(part);
            }
            _ => steps.push(vec![part]),
        }
    }
    steps
}

fn is_finish(part: &SavedPart) -> bool {
    part.data["type"] == "step-finish" && part.data["tokens"].is_object()
}

fn to_request_usage(message: &SavedMessage, reported: &Value, usage: Usage) -> RequestUsage {
    let time = &message.info["time"];
    let at = time["completed"].as_i64().or(time["created"].as_i64()).map(Timestamp);
    let model = provider_and_model(&message.info).map(|(_, model)| model);
    // opencode writes 0 if it does not know the price.
    let dollars = reported["cost"].as_f64().filter(|cost| *cost > 0.0);
    RequestUsage { time: at, model, usage, reply_index: None, dollars }
}

/// Parses the usage of a request. opencode excludes cached tokens from the input, and newer versions exclude
/// thinking from the output, so the output is computed from the total if there is one. A request without
/// input was never answered.
fn parse_usage(tokens: &Value) -> Option<Usage> {
    let count = |value: &Value| value.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64);
    let fresh = count(&tokens["input"])?;
    let read = count(&tokens["cache"]["read"]);
    let written = count(&tokens["cache"]["write"]);
    let input = fresh + read.unwrap_or(0) + written.unwrap_or(0);
    let output = count(&tokens["total"]).and_then(|total| total.checked_sub(input)).or(count(&tokens["output"]));
    let usage = Usage {
        input: Some(Tokens(input)),
        read: read.map(Tokens),
        written: written.map(Tokens),
        written_1h: None,
        output: output.map(Tokens),
    };
    (input > 0).then_some(usage)
}
