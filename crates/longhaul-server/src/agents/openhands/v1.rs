//! Events of the software agent SDK.

use std::collections::BTreeMap;

use longhaul_engine::Dialect;
use serde_json::{Value, json};

use super::super::draft::{Drafts, Unanswered, wire, words};
use super::super::{Agent, Asked, Moment, Origin, Piece, Place, Reported, Role, Session, Turn, Unread};
use super::{Condensed, Entry, Event, Recorded, command_output, content, text, usage, view};

/// What is said before the output of a tool that failed.
const FAILED: &str = "[An error occurred during execution.]\n";

/// Kinds of events that are sent.
const SENT: [&str; 6] = [
    "SystemPromptEvent",
    "MessageEvent",
    "ActionEvent",
    "ObservationEvent",
    "UserRejectObservation",
    "AgentErrorEvent",
];

/// Kinds that are known and never sent.
const NOT_SENT: [&str; 9] = [
    "Condensation",
    "CondensationRequest",
    "CondensationSummaryEvent",
    "ConversationStateUpdateEvent",
    "ConversationErrorEvent",
    "PauseEvent",
    "TokenEvent",
    "LLMCompletionLogEvent",
    "StreamingDeltaEvent",
];

/// `event-<n>-<id>.json`.
pub(super) fn number(name: &str) -> Option<u64> {
    name.strip_prefix("event-")?.strip_suffix(".json")?.split('-').next()?.parse().ok()
}

pub(super) fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let Recorded { events, damage } = Recorded::read(&place.path, number)?;
    let state = super::beside(&place.path, "base_state.json");
    let dialect = asked.dialect.unwrap_or(Dialect::Chat);
    let branch = branch(&events);
    let is = |value: &Value, kind: &str| value["kind"] == kind;
    let condensed = |value: &Value| is(value, "Condensation").then(|| Condensed::of(value));
    let sent = |value: &Value| value["kind"].as_str().is_some_and(|kind| SENT.contains(&kind));
    let (entries, compactions) = view(&branch, asked.extent, condensed, sent);

    let mut unknown = BTreeMap::new();
    for kind in events.iter().map(|event| event.value["kind"].as_str().unwrap_or("event without a kind")) {
        if !SENT.contains(&kind) && !NOT_SENT.contains(&kind) {
            *unknown.entry(kind.to_owned()).or_default() += 1;
        }
    }
    let (mut requests, responses) = reported(&state, &events);
    let mut drafts = turns(&entries, dialect, &responses);
    drafts.pair(Unanswered::Dropped);
    let prompt = events.iter().find(|event| is(&event.value, "SystemPromptEvent"));
    let newest = requests.iter().rev().find_map(|request| request.model.clone());
    let folder =
        || events.iter().find_map(|event| text(&event.value["observation"]["metadata"]["working_dir"]));
    Ok(Session {
        agent: Agent::OpenHands,
        id: text(&state["id"]).or(place.id.clone()).unwrap_or_else(|| super::folder_name(&place.path)),
        project: text(&state["workspace"]["working_dir"]).or_else(folder),
        title: text(&state["title"]),
        model: asked.model.clone().or(text(&state["agent"]["llm"]["model"])).or(newest),
        dialect,
        system: prompt.and_then(|event| system(&event.value)),
        tools: prompt.and_then(|event| tools(&event.value)),
        turns: drafts.settle(dialect, &mut requests),
        compactions,
        started: events.first().and_then(Event::at),
        updated: events.last().and_then(Event::at),
        requests,
        unknown,
        damage,
    })
}

/// The events on the way from the newest to the first. Events that say nothing of their parents follow one another.
fn branch(events: &[Event]) -> Vec<&Event> {
    let place: BTreeMap<&str, usize> =
        events.iter().enumerate().map(|(at, event)| (event.id.as_str(), at)).collect();
    let mut branch = Vec::new();
    let mut next = events.len().checked_sub(1);
    while let Some(at) = next {
        branch.push(&events[at]);
        next = match events[at].value.get("parent_id") {
            Some(Value::String(parent)) => place.get(parent.as_str()).copied().filter(|parent| *parent < at),
            Some(_) => None,
            None => at.checked_sub(1),
        };
    }
    branch.reverse();
    branch
}

fn system(value: &Value) -> Option<String> {
    let parts = ["system_prompt", "dynamic_context"].map(|name| text(&value[name]["text"]));
    let said: Vec<String> = parts.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join("\n\n"))
}

/// The tools, where they are kept in the form in which they are sent; mostly only their names and classes are.
fn tools(value: &Value) -> Option<Value> {
    let list = value["tools"].as_array()?;
    let is_wire = |tool: &&Value| tool["type"] == "function" && tool["function"]["name"].is_string();
    let found: Vec<Value> = list.iter().filter(is_wire).cloned().collect();
    (!found.is_empty()).then_some(Value::Array(found))
}

fn turns(entries: &[Entry<'_>], dialect: Dialect, responses: &BTreeMap<String, usize>) -> Drafts {
    let mut drafts = Drafts::default();
    let mut before: Option<&str> = None;
    let mut batch: Vec<&Event> = Vec::new();
    for entry in entries {
        let response = match entry {
            Entry::Event(event) if event.value["kind"] == "ActionEvent" => {
                Some(event.value["llm_response_id"].as_str().unwrap_or_default())
            }
            _ => None,
        };
        if response.is_none() || response != before {
            action(&std::mem::take(&mut batch), dialect, responses, &mut drafts);
        }
        before = response;
        match entry {
            Entry::Event(event) if response.is_some() => batch.push(event),
            Entry::Event(event) => said(event, dialect, responses, &mut drafts),
            Entry::Summary { id, text, at } => {
                let pieces = vec![(Piece::Text(text.clone()), Origin::Id(id.clone()))];
                drafts.push(Turn { role: Role::User, pieces, at: *at }, None);
            }
        }
    }
    action(&batch, dialect, responses, &mut drafts);
    drafts
}

/// Calls of one reply: what was thought and said is with the first of them.
fn action(batch: &[&Event], dialect: Dialect, responses: &BTreeMap<String, usize>, drafts: &mut Drafts) {
    let Some(first) = batch.first() else { return };
    let of_first = || Origin::Id(first.id.clone());
    let mut pieces: Vec<(Piece, Origin)> =
        thoughts(&first.value, dialect).into_iter().map(|piece| (piece, of_first())).collect();
    pieces.extend(content(&first.value["thought"], dialect).into_iter().map(|piece| (piece, of_first())));
    for event in batch {
        let call = &event.value["tool_call"];
        let function = if call["function"].is_object() { &call["function"] } else { call };
        let named = text(&call["id"]).or(text(&event.value["tool_call_id"])).zip(text(&function["name"]));
        if let Some((id, name)) = named {
            let arguments = match &function["arguments"] {
                Value::Null => json!({}),
                wire => wire.clone(),
            };
            pieces.push((Piece::Call { id, name, arguments }, Origin::Id(event.id.clone())));
        }
    }
    let answers = first.value["llm_response_id"].as_str().and_then(|id| responses.get(id)).copied();
    drafts.push(Turn { role: Role::Assistant, pieces, at: first.at() }, answers);
}

/// Thinking with its signature, or, where there is none, the words of it.
fn thoughts(value: &Value, dialect: Dialect) -> Vec<Piece> {
    let block = |block: &Value| match block["type"].as_str() {
        Some("thinking") => {
            Some(Piece::Thinking { text: text(&block["thinking"])?, signature: text(&block["signature"]) })
        }
        Some("redacted_thinking") if dialect == Dialect::Messages => wire(block),
        _ => None,
    };
    let blocks: Vec<Piece> =
        value["thinking_blocks"].as_array().into_iter().flatten().filter_map(block).collect();
    if !blocks.is_empty() {
        return blocks;
    }
    text(&value["reasoning_content"])
        .map(|text| Piece::Thinking { text, signature: None })
        .into_iter()
        .collect()
}

/// Any event that is sent, but for calls.
fn said(event: &Event, dialect: Dialect, responses: &BTreeMap<String, usize>, drafts: &mut Drafts) {
    let value = &event.value;
    let (role, pieces) = match value["kind"].as_str() {
        Some("MessageEvent") => message(value, dialect),
        Some("ObservationEvent") => {
            let (mut shown, failed) = observed(&value["observation"], dialect);
            shown.extend(content(&value["extended_content"], dialect));
            (Role::Tool, result(value, shown, failed))
        }
        Some("UserRejectObservation") => {
            let reason = value["rejection_reason"].as_str().unwrap_or("User rejected the action");
            (Role::Tool, result(value, vec![Piece::Text(format!("Action rejected: {reason}"))], true))
        }
        Some("AgentErrorEvent") => {
            let error = words(value["error"].as_str().unwrap_or_default());
            (Role::Tool, result(value, error.into_iter().collect(), true))
        }
        _ => return,
    };
    let answers = value["llm_response_id"].as_str().and_then(|id| responses.get(id)).copied();
    let pieces = pieces.into_iter().map(|piece| (piece, Origin::Id(event.id.clone()))).collect();
    drafts.push(Turn { role, pieces, at: event.at() }, answers);
}

fn message(value: &Value, dialect: Dialect) -> (Role, Vec<Piece>) {
    let message = &value["llm_message"];
    let mut pieces = content(&message["content"], dialect);
    pieces.extend(content(&value["extended_content"], dialect));
    match message["role"].as_str() {
        Some("assistant") => {
            let thought = thoughts(message, dialect);
            (Role::Assistant, thought.into_iter().chain(pieces).collect())
        }
        Some("system") => (Role::System, pieces),
        _ => (Role::User, pieces),
    }
}

fn result(value: &Value, content: Vec<Piece>, failed: bool) -> Vec<Piece> {
    text(&value["tool_call_id"]).map(|id| Piece::Result { id, content, failed }).into_iter().collect()
}

/// What a tool gave, as `OpenHands` shows it to the model, and whether it failed.
fn observed(observation: &Value, dialect: Dialect) -> (Vec<Piece>, bool) {
    let failed = observation["is_error"] == true;
    let mut shown = content(&observation["content"], dialect);
    if observation["metadata"].is_object() {
        let printed: String = shown
            .iter()
            .filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None })
            .collect();
        shown.retain(|piece| !matches!(piece, Piece::Text(_)));
        shown.insert(0, Piece::Text(command_output(&printed, &observation["metadata"])));
    }
    if failed {
        match shown.first_mut() {
            Some(Piece::Text(text)) => text.insert_str(0, FAILED),
            _ => shown.insert(0, Piece::Text(FAILED.to_owned())),
        }
    }
    (shown, failed)
}

/// What was used, by the responses that the state lists; sums, where it lists none.
fn reported(state: &Value, events: &[Event]) -> (Vec<Reported>, BTreeMap<String, usize>) {
    let mut moments: BTreeMap<&str, Option<Moment>> = BTreeMap::new();
    for event in events {
        if let Some(response) = event.value["llm_response_id"].as_str() {
            moments.entry(response).or_insert_with(|| event.at());
        }
    }
    let mut requests: Vec<(Option<String>, Reported)> = Vec::new();
    for metrics in state["stats"]["usage_to_metrics"].as_object().into_iter().flat_map(|map| map.values()) {
        let single = metrics["token_usages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let costs = metrics["costs"].as_array().filter(|costs| costs.len() == single.len());
        for (at, told) in single.iter().enumerate() {
            let response = text(&told["response_id"]);
            let cost = costs.map_or(&Value::Null, |costs| &costs[at]);
            let moment = response.as_deref().and_then(|id| moments.get(id).copied().flatten());
            let moment = moment.or(cost["timestamp"].as_f64().map(Moment::of_seconds));
            let dollars = cost["cost"].as_f64();
            requests.extend(report(metrics, told, moment, dollars).map(|report| (response, report)));
        }
        if single.is_empty() {
            let sum = &metrics["accumulated_token_usage"];
            let dollars = metrics["accumulated_cost"].as_f64();
            requests.extend(report(metrics, sum, None, dollars).map(|report| (None, report)));
        }
    }
    requests.sort_by_key(|(_, request)| request.at);
    let places =
        requests.iter().enumerate().filter_map(|(at, (response, _))| Some((response.clone()?, at))).collect();
    (requests.into_iter().map(|(_, request)| request).collect(), places)
}

fn report(metrics: &Value, told: &Value, at: Option<Moment>, dollars: Option<f64>) -> Option<Reported> {
    let count = |name: &str| told[name].as_u64();
    let prompt = count("prompt_tokens").filter(|prompt| *prompt > 0)?;
    let (read, written) = (count("cache_read_tokens").unwrap_or(0), count("cache_write_tokens").unwrap_or(0));
    let usage = usage(prompt, count("completion_tokens"), read, written);
    let model = text(&told["model"]).or(text(&metrics["model_name"]));
    Some(Reported { at, model, usage, reply: None, dollars: dollars.filter(|dollars| *dollars > 0.0) })
}
