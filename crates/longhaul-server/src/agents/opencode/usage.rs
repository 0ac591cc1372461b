//! What providers reported: for each step of a reply, or, where no step says so, for the reply.

use std::collections::BTreeMap;

use longhaul_engine::{Tokens, prices::Usage};
use serde_json::Value;

use super::super::{Moment, Reported};
use super::named;
use super::store::{Message, Part};

/// Which reported request a step of a reply answers, by the reply's id and the step's number.
pub(super) type Steps = BTreeMap<(String, usize), usize>;

/// Every request, in order.
pub(super) fn reported(messages: &[Message]) -> (Vec<Reported>, Steps) {
    let mut requests = Vec::new();
    let mut found = Steps::new();
    for message in messages.iter().filter(|message| message.info["role"] == "assistant") {
        let steps = steps(&message.parts);
        let finished: Vec<(usize, &Value)> = steps
            .iter()
            .enumerate()
            .filter_map(|(number, step)| Some((number, &step.iter().find(|part| is_finish(part))?.data)))
            .collect();
        let told = if finished.is_empty() { vec![(0, &message.info)] } else { finished };
        for (number, told) in told {
            if let Some(usage) = usage(&told["tokens"]) {
                // A summary answers another prompt than the one that it stands in.
                if message.info["summary"] != true {
                    found.insert((message.id.clone(), number), requests.len());
                }
                requests.push(report(message, told, usage));
            }
        }
    }
    (requests, found)
}

/// The steps of a reply: what stands behind each of its starts. What stands before the first belongs to it.
pub(super) fn steps(parts: &[Part]) -> Vec<Vec<&Part>> {
    let mut steps: Vec<Vec<&Part>> = Vec::new();
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

fn is_finish(part: &Part) -> bool {
    part.data["type"] == "step-finish" && part.data["tokens"].is_object()
}

fn report(message: &Message, told: &Value, usage: Usage) -> Reported {
    let time = &message.info["time"];
    let at = time["completed"].as_i64().or(time["created"].as_i64()).map(Moment);
    let model = named(&message.info).map(|(_, model)| model);
    // opencode writes 0 where it knows no price.
    let dollars = told["cost"].as_f64().filter(|cost| *cost > 0.0);
    Reported { at, model, usage, reply: None, dollars }
}

/// opencode counts what was cached apart from the input, and newer versions what was thought apart from the output; the
/// total says which. A request without any was never answered.
fn usage(tokens: &Value) -> Option<Usage> {
    let count = |value: &Value| value.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64);
    let fresh = count(&tokens["input"])?;
    let read = count(&tokens["cache"]["read"]);
    let written = count(&tokens["cache"]["write"]);
    let input = fresh + read.unwrap_or(0) + written.unwrap_or(0);
    let output =
        count(&tokens["total"]).and_then(|total| total.checked_sub(input)).or(count(&tokens["output"]));
    let usage = Usage {
        input: Some(Tokens(input)),
        read: read.map(Tokens),
        written: written.map(Tokens),
        written_1h: None,
        output: output.map(Tokens),
    };
    (input > 0).then_some(usage)
}
