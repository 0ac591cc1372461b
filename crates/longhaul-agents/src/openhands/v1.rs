//! Events of the software agent SDK.

use std::collections::BTreeMap;

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use super::super::message_drafts::{MessageDrafts, UnansweredCalls, raw_part, text_part};
use super::super::{
    Agent, AgentSession, MessagePart, Origin, ReadOptions, RecordedMessage, RequestUsage, Role, SessionLocation,
    SessionReadError, Timestamp,
};
use super::{
    Condensation, Event, EventLog, ViewEntry, command_output, content_parts, nonempty_text, request_usage, sent_entries,
};

/// The text that precedes the output of a tool that failed.
const FAILURE_PREFIX: &str = "[An error occurred during execution.]\n";

/// The kinds of events that are sent.
const SENT_EVENT_KINDS: [&str; 6] = [
    "SystemPromptEvent",
    "MessageEvent",
    "ActionEvent",
    "ObservationEvent",
    "UserRejectObservation",
    "AgentErrorEvent",
];

/// The kinds of events that are known and never sent.
const UNSENT_EVENT_KINDS: [&str; 9] = [
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

/// Parses the number of an event from its file name, `event-<n>-<id>.json`.
pub(super) fn event_number(name: &str) -> Option<u64> {
    name.strip_prefix("event-")?.strip_suffix(".json")?.split('-').next()?.parse().ok()
}

pub(super) fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let EventLog { events, warnings: damage } = EventLog::read(&location.path, event_number)?;
    let state = super::read_json_beside(&location.path, "base_state.json");
    let api_format = options.api_format.unwrap_or(ApiFormat::Chat);
    let branch = active_branch(&events);
    let is = |value: &Value, kind: &str| value["kind"] == kind;
    let condensed = |value: &Value| is(value, "Condensation").then(|| Condensation::parse(value));
    let sent = |value: &Value| value["kind"].as_str().is_some_and(|kind| SENT_EVENT_KINDS.contains(&kind));
    let (entries, compactions) = sent_entries(&branch, options.extent, condensed, sent);

    let mut unknown = BTreeMap::new();
    for kind in events.iter().map(|event| event.value["kind"].as_str().unwrap_or("event without a kind")) {
        if !SENT_EVENT_KINDS.contains(&kind) && !UNSENT_EVENT_KINDS.contains(&kind) {
            *unknown.entry(kind.to_owned()).or_default() += 1;
        }
    }
    let (mut requests, responses) = reported_requests(&state, &events);
    let mut drafts = build_drafts(&entries, api_format, &responses);
    drafts.pair_results(UnansweredCalls::Drop);
    let prompt = events.iter().find(|event| is(&event.value, "SystemPromptEvent"));
    let newest = requests.iter().rev().find_map(|request| request.model.clone());
    let folder =
        || events.iter().find_map(|event| nonempty_text(&event.value["observation"]["metadata"]["working_dir"]));
    Ok(AgentSession {
        agent: Agent::OpenHands,
        id: nonempty_text(&state["id"])
            .or(location.id.clone())
            .unwrap_or_else(|| super::session_folder_name(&location.path)),
        project: nonempty_text(&state["workspace"]["working_dir"]).or_else(folder),
        title: nonempty_text(&state["title"]),
        model: options.model.clone().or(nonempty_text(&state["agent"]["llm"]["model"])).or(newest),
        api_format,
        system_prompt: prompt.and_then(|event| system_prompt(&event.value)),
        tools: prompt.and_then(|event| tool_definitions(&event.value)),
        messages: drafts.finish(api_format, &mut requests),
        compactions,
        started: events.first().and_then(Event::time),
        updated: events.last().and_then(Event::time),
        requests,
        unknown_records: unknown,
        warnings: damage,
    })
}

/// Returns the events of the active branch, oldest first. The parent of an event without a `parent_id` is the
/// event before it.
fn active_branch(events: &[Event]) -> Vec<&Event> {
    let place: BTreeMap<&str, usize> = events.iter().enumerate().map(|(at, event)| (event.id.as_str(), at)).collect();
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

fn system_prompt(value: &Value) -> Option<String> {
    let parts = ["system_prompt", "dynamic_context"].map(|name| nonempty_text(&value[name]["text"]));
    let said: Vec<String> = parts.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join("\n\n"))
}

/// Returns the tool definitions that are stored in the form in which they are sent. Most sessions store only
/// names and classes.
fn tool_definitions(value: &Value) -> Option<Value> {
    let list = value["tools"].as_array()?;
    let is_wire = |tool: &&Value| tool["type"] == "function" && tool["function"]["name"].is_string();
    let found: Vec<Value> = list.iter().filter(is_wire).cloned().collect();
    (!found.is_empty()).then_some(Value::Array(found))
}

fn build_drafts(
    entries: &[ViewEntry<'_>],
    api_format: ApiFormat,
    responses: &BTreeMap<String, usize>,
) -> MessageDrafts {
    let mut drafts = MessageDrafts::default();
    let mut before: Option<&str> = None;
    let mut batch: Vec<&Event> = Vec::new();
    for entry in entries {
        let response = match entry {
            ViewEntry::Event(event) if event.value["kind"] == "ActionEvent" => {
                Some(event.value["llm_response_id"].as_str().unwrap_or_default())
            }
            _ => None,
        };
        if response.is_none() || response != before {
            push_reply(&std::mem::take(&mut batch), api_format, responses, &mut drafts);
        }
        before = response;
        match entry {
            ViewEntry::Event(event) if response.is_some() => batch.push(event),
            ViewEntry::Event(event) => push_event(event, api_format, responses, &mut drafts),
            ViewEntry::Summary { id, text, at } => {
                let pieces = vec![(MessagePart::Text(text.clone()), Origin::Id(id.clone()))];
                drafts.push(RecordedMessage { role: Role::User, parts: pieces, time: *at }, None);
            }
        }
    }
    push_reply(&batch, api_format, responses, &mut drafts);
    drafts
}

/// Adds the calls of one reply as one message. The thinking and the text of the reply are in the first event.
fn push_reply(
    batch: &[&Event],
    api_format: ApiFormat,
    responses: &BTreeMap<String, usize>,
    drafts: &mut MessageDrafts,
) {
    let Some(first) = batch.first() else { return };
    let of_first = || Origin::Id(first.id.clone());
    let mut pieces: Vec<(MessagePart, Origin)> =
        thinking_parts(&first.value, api_format).into_iter().map(|piece| (piece, of_first())).collect();
    pieces.extend(content_parts(&first.value["thought"], api_format).into_iter().map(|piece| (piece, of_first())));
    for event in batch {
        let call = &event.value["tool_call"];
        let function = if call["function"].is_object() { &call["function"] } else { call };
        let named = nonempty_text(&call["id"])
            .or(nonempty_text(&event.value["tool_call_id"]))
            .zip(nonempty_text(&function["name"]));
        if let Some((id, name)) = named {
            let arguments = match &function["arguments"] {
                Value::Null => json!({}),
                wire => wire.clone(),
            };
            pieces.push((MessagePart::ToolCall { id, name, arguments }, Origin::Id(event.id.clone())));
        }
    }
    let answers = first.value["llm_response_id"].as_str().and_then(|id| responses.get(id)).copied();
    drafts.push(RecordedMessage { role: Role::Assistant, parts: pieces, time: first.time() }, answers);
}

/// Returns the thinking blocks with their signatures or, if there are none, the text of the thinking.
fn thinking_parts(value: &Value, api_format: ApiFormat) -> Vec<MessagePart> {
    let block = |block: &Value| match block["type"].as_str() {
        Some("thinking") => Some(MessagePart::Thinking {
            text: nonempty_text(&block["thinking"])?,
            signature: nonempty_text(&block["signature"]),
        }),
        Some("redacted_thinking") if api_format == ApiFormat::Messages => raw_part(block),
        _ => None,
    };
    let blocks: Vec<MessagePart> =
        value["thinking_blocks"].as_array().into_iter().flatten().filter_map(block).collect();
    if !blocks.is_empty() {
        return blocks;
    }
    nonempty_text(&value["reasoning_content"])
        .map(|text| MessagePart::Thinking { text, signature: None })
        .into_iter()
        .collect()
}

/// Adds an event that is sent and is not a call.
fn push_event(event: &Event, api_format: ApiFormat, responses: &BTreeMap<String, usize>, drafts: &mut MessageDrafts) {
    let value = &event.value;
    let (role, pieces) = match value["kind"].as_str() {
        Some("MessageEvent") => message_parts(value, api_format),
        Some("ObservationEvent") => {
            let (mut shown, failed) = observation_parts(&value["observation"], api_format);
            shown.extend(content_parts(&value["extended_content"], api_format));
            (Role::Tool, result_parts(value, shown, failed))
        }
        Some("UserRejectObservation") => {
            let reason = value["rejection_reason"].as_str().unwrap_or("User rejected the action");
            (Role::Tool, result_parts(value, vec![MessagePart::Text(format!("Action rejected: {reason}"))], true))
        }
        Some("AgentErrorEvent") => {
            let error = text_part(value["error"].as_str().unwrap_or_default());
            (Role::Tool, result_parts(value, error.into_iter().collect(), true))
        }
        _ => return,
    };
    let answers = value["llm_response_id"].as_str().and_then(|id| responses.get(id)).copied();
    let pieces = pieces.into_iter().map(|piece| (piece, Origin::Id(event.id.clone()))).collect();
    drafts.push(RecordedMessage { role, parts: pieces, time: event.time() }, answers);
}

fn message_parts(value: &Value, api_format: ApiFormat) -> (Role, Vec<MessagePart>) {
    let message = &value["llm_message"];
    let mut pieces = content_parts(&message["content"], api_format);
    pieces.extend(content_parts(&value["extended_content"], api_format));
    match message["role"].as_str() {
        Some("assistant") => {
            let thought = thinking_parts(message, api_format);
            (Role::Assistant, thought.into_iter().chain(pieces).collect())
        }
        Some("system") => (Role::System, pieces),
        _ => (Role::User, pieces),
    }
}

fn result_parts(value: &Value, content: Vec<MessagePart>, failed: bool) -> Vec<MessagePart> {
    nonempty_text(&value["tool_call_id"])
        .map(|id| MessagePart::ToolResult { id, content, failed })
        .into_iter()
        .collect()
}

/// Returns the output of a tool as `OpenHands` shows it to the model, and whether the tool failed.
fn observation_parts(observation: &Value, api_format: ApiFormat) -> (Vec<MessagePart>, bool) {
    let failed = observation["is_error"] == true;
    let mut shown = content_parts(&observation["content"], api_format);
    if observation["metadata"].is_object() {
        let printed: String = shown
            .iter()
            .filter_map(|piece| if let MessagePart::Text(text) = piece { Some(text.as_str()) } else { None })
            .collect();
        shown.retain(|piece| !matches!(piece, MessagePart::Text(_)));
        shown.insert(0, MessagePart::Text(command_output(&printed, &observation["metadata"])));
    }
    if failed {
        match shown.first_mut() {
            Some(MessagePart::Text(text)) => text.insert_str(0, FAILURE_PREFIX),
            _ => shown.insert(0, MessagePart::Text(FAILURE_PREFIX.to_owned())),
        }
    }
    (shown, failed)
}

/// Returns the usage of each response that the state lists, or the totals if it lists none, and the index of
/// each response's request.
fn reported_requests(state: &Value, events: &[Event]) -> (Vec<RequestUsage>, BTreeMap<String, usize>) {
    let mut times: BTreeMap<&str, Option<Timestamp>> = BTreeMap::new();
    for event in events {
        if let Some(response) = event.value["llm_response_id"].as_str() {
            times.entry(response).or_insert_with(|| event.time());
        }
    }
    let mut requests: Vec<(Option<String>, RequestUsage)> = Vec::new();
    for metrics in state["stats"]["usage_to_metrics"].as_object().into_iter().flat_map(|map| map.values()) {
        let single = metrics["token_usages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let costs = metrics["costs"].as_array().filter(|costs| costs.len() == single.len());
        for (at, told) in single.iter().enumerate() {
            let response = nonempty_text(&told["response_id"]);
            let cost = costs.map_or(&Value::Null, |costs| &costs[at]);
            let time = response.as_deref().and_then(|id| times.get(id).copied().flatten());
            let time = time.or(cost["timestamp"].as_f64().map(Timestamp::from_seconds));
            let dollars = cost["cost"].as_f64();
            requests.extend(to_request_usage(metrics, told, time, dollars).map(|report| (response, report)));
        }
        if single.is_empty() {
            let sum = &metrics["accumulated_token_usage"];
            let dollars = metrics["accumulated_cost"].as_f64();
            requests.extend(to_request_usage(metrics, sum, None, dollars).map(|report| (None, report)));
        }
    }
    requests.sort_by_key(|(_, request)| request.time);
    let places = requests.iter().enumerate().filter_map(|(at, (response, _))| Some((response.clone()?, at))).collect();
    (requests.into_iter().map(|(_, request)| request).collect(), places)
}

fn to_request_usage(
    metrics: &Value,
    told: &Value,
    at: Option<Timestamp>,
    dollars: Option<f64>,
) -> Option<RequestUsage> {
    let count = |name: &str| told[name].as_u64();
    let prompt = count("prompt_tokens").filter(|prompt| *prompt > 0)?;
    let (read, written) = (count("cache_read_tokens").unwrap_or(0), count("cache_write_tokens").unwrap_or(0));
    let usage = request_usage(prompt, count("completion_tokens"), read, written);
    let model = nonempty_text(&told["model"]).or(nonempty_text(&metrics["model_name"]));
    Some(RequestUsage { time: at, model, usage, reply_index: None, dollars: dollars.filter(|dollars| *dollars > 0.0) })
}
