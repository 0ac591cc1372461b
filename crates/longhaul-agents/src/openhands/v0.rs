//! Events of the server before the SDK.
//!
//! Each event of a reply contains the whole reply. The texts that the server's prompt builder added
//! (instructions of a repository, recalled knowledge) are in no event, so the request lacks them.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_engine::ApiFormat;
use serde_json::Value;

use super::super::message_drafts::{MessageDrafts, UnansweredCalls, chat_tool_calls, text_part};
use super::super::{
    Agent, AgentSession, MessagePart, Origin, ReadOptions, RecordedMessage, RequestUsage, Role, SessionLocation,
    SessionReadError, Timestamp,
};
use super::{
    Condensation, Event, EventLog, ViewEntry, command_output, images_from_urls, nonempty_text, request_usage,
    sent_entries,
};

/// The text that the server appended to an output that reports an error.
const ERROR_NOTE: &str = "\n[Error occurred in processing last action]";
/// The text that the server appended to an output of an action that the user rejected.
const REJECTED_NOTE: &str = "\n[Last action has been rejected by the user]";

/// The kinds of events that are known and never sent.
const UNSENT_EVENT_KINDS: [&str; 6] =
    ["agent_state_changed", "change_agent_state", "recall", "null", "condensation_request", "system"];

/// Parses the number of an event from its file name, `<n>.json`.
pub(super) fn event_number(name: &str) -> Option<u64> {
    name.strip_suffix(".json")?.parse().ok()
}

pub(super) fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let EventLog { events, warnings: damage } = EventLog::read(&location.path, event_number)?;
    let metadata = super::read_json_beside(&location.path, "metadata.json");
    let api_format = options.api_format.unwrap_or(ApiFormat::Chat);
    let is = |value: &Value, action: &str| value["action"] == action;
    let condensed = |value: &Value| is(value, "condensation").then(|| Condensation::parse(&value["args"]));
    let all: Vec<&Event> = events.iter().collect();
    let (entries, compactions) = sent_entries(&all, options.extent, condensed, |_| true);
    let (mut requests, responses) = reported_requests(&events);
    let mut maker = MessageBuilder {
        api_format,
        request_of_response: responses,
        seen_responses: BTreeSet::new(),
        drafts: MessageDrafts::default(),
        unknown_records: BTreeMap::new(),
    };
    for entry in &entries {
        match entry {
            ViewEntry::Event(event) => maker.add_event(event),
            ViewEntry::Summary { id, text, at } => {
                let pieces = vec![(MessagePart::Text(text.clone()), Origin::Id(id.clone()))];
                maker.drafts.push(RecordedMessage { role: Role::User, parts: pieces, time: *at }, None);
            }
        }
    }
    let MessageBuilder { mut drafts, unknown_records: unknown, .. } = maker;
    drafts.pair_results(UnansweredCalls::Drop);
    let system = events.iter().find(|event| is(&event.value, "system")).map(|event| &event.value["args"]);
    let newest = requests.iter().rev().find_map(|request| request.model.clone());
    let moment = |name: &str| metadata[name].as_str().and_then(Timestamp::parse);
    Ok(AgentSession {
        agent: Agent::OpenHands,
        id: nonempty_text(&metadata["conversation_id"])
            .or(location.id.clone())
            .unwrap_or_else(|| super::session_folder_name(&location.path)),
        project: nonempty_text(&metadata["selected_repository"]),
        title: nonempty_text(&metadata["title"]),
        model: options.model.clone().or(newest).or(nonempty_text(&metadata["llm_model"])),
        api_format,
        system_prompt: system.and_then(|args| nonempty_text(&args["content"])),
        tools: system
            .and_then(|args| args["tools"].as_array().filter(|tools| !tools.is_empty()).map(|_| args["tools"].clone())),
        messages: drafts.finish(api_format, &mut requests),
        compactions,
        started: moment("created_at").or(events.first().and_then(Event::time)),
        updated: moment("last_updated_at").max(events.last().and_then(Event::time)),
        requests,
        unknown_records: unknown,
        warnings: damage,
    })
}

/// Builds messages from events.
struct MessageBuilder {
    api_format: ApiFormat,
    request_of_response: BTreeMap<String, usize>,
    /// The IDs of the replies that were added. Each reply is repeated in the events of all its calls.
    seen_responses: BTreeSet<String>,
    drafts: MessageDrafts,
    unknown_records: BTreeMap<String, usize>,
}

impl MessageBuilder {
    fn add_event(&mut self, event: &Event) {
        let value = &event.value;
        let kind = value["action"].as_str().or(value["observation"].as_str());
        match kind {
            Some(kind) if UNSENT_EVENT_KINDS.contains(&kind) => {}
            Some("message") => self.add_message(event),
            Some(_) if value["action"].is_string() => self.add_action(event),
            Some(kind) => self.add_observation(event, kind),
            None => *self.unknown_records.entry("event without a kind".to_owned()).or_default() += 1,
        }
    }

    fn push_message(&mut self, event: &Event, role: Role, pieces: Vec<MessagePart>, answers: Option<usize>) {
        let pieces = pieces.into_iter().map(|piece| (piece, Origin::Id(event.id.clone()))).collect();
        self.drafts.push(RecordedMessage { role, parts: pieces, time: event.time() }, answers);
    }

    fn add_message(&mut self, event: &Event) {
        let args = &event.value["args"];
        let mut pieces: Vec<MessagePart> =
            text_part(args["content"].as_str().unwrap_or_default()).into_iter().collect();
        pieces.extend(images_from_urls(&args["image_urls"], self.api_format));
        let role = if event.value["source"] == "user" { Role::User } else { Role::Assistant };
        self.push_message(event, role, pieces, None);
    }

    /// Adds a reply with all its calls. If the reply is not stored, adds the event's thought or message as
    /// text. The final `finish` action is sent as text, because it has no result.
    fn add_action(&mut self, event: &Event) {
        let response = &event.value["tool_call_metadata"]["model_response"];
        let message = &response["choices"][0]["message"];
        let thought = event.value["args"]["thought"].as_str().unwrap_or_default();
        let Some(id) = nonempty_text(&response["id"]) else {
            let said = text_part(if thought.is_empty() {
                event.value["message"].as_str().unwrap_or_default()
            } else {
                thought
            });
            let role = if event.value["source"] == "user" { Role::User } else { Role::Assistant };
            return self.push_message(event, role, said.into_iter().collect(), None);
        };
        if !self.seen_responses.insert(id.clone()) {
            return;
        }
        let content = message["content"].as_str().unwrap_or_default();
        let mut pieces: Vec<MessagePart> = text_part(content).into_iter().collect();
        if event.value["action"] == "finish" {
            if pieces.is_empty() {
                pieces.extend(text_part(thought));
            }
        } else {
            pieces.extend(chat_tool_calls(&message["tool_calls"]));
        }
        let answers = self.request_of_response.get(&id).copied();
        self.push_message(event, Role::Assistant, pieces, answers);
    }

    fn add_observation(&mut self, event: &Event, kind: &str) {
        let value = &event.value;
        let printed = value["content"].as_str().unwrap_or_default();
        let said = match kind {
            "run" => command_output(printed, &value["extras"]["metadata"]),
            "error" => format!("{printed}{ERROR_NOTE}"),
            "user_rejected" => format!("{printed}{REJECTED_NOTE}"),
            _ => printed.to_owned(),
        };
        let failed = value["success"] == false || matches!(kind, "error" | "user_rejected");
        let mut content: Vec<MessagePart> = text_part(&said).into_iter().collect();
        content.extend(images_from_urls(&value["extras"]["image_urls"], self.api_format));
        match nonempty_text(&value["tool_call_metadata"]["tool_call_id"]) {
            Some(id) => {
                self.push_message(event, Role::Tool, vec![MessagePart::ToolResult { id, content, failed }], None);
            }
            None => self.push_message(event, Role::User, content, None),
        }
    }
}

/// Returns the usage of each reply once, and the index of each response's request. The cost of a request is
/// the increase of the accumulated cost.
fn reported_requests(events: &[Event]) -> (Vec<RequestUsage>, BTreeMap<String, usize>) {
    let mut requests = Vec::new();
    let mut places = BTreeMap::new();
    let mut spent = 0.0;
    for event in events {
        let response = &event.value["tool_call_metadata"]["model_response"];
        let told = &response["usage"];
        let Some((id, prompt)) = nonempty_text(&response["id"]).zip(told["prompt_tokens"].as_u64()) else {
            continue;
        };
        if places.contains_key(&id) {
            continue;
        }
        let count = |name: &str| told[name].as_u64();
        let read = count("cache_read_input_tokens").or(told["prompt_tokens_details"]["cached_tokens"].as_u64());
        let written = count("cache_creation_input_tokens").unwrap_or(0);
        let sum = event.value["llm_metrics"]["accumulated_cost"].as_f64();
        let dollars = sum.map(|sum| sum - spent).filter(|dollars| *dollars > 0.0);
        spent = sum.unwrap_or(spent);
        places.insert(id, requests.len());
        requests.push(RequestUsage {
            time: event.time(),
            model: nonempty_text(&response["model"]),
            usage: request_usage(prompt, count("completion_tokens"), read.unwrap_or(0), written),
            reply_index: None,
            dollars,
        });
    }
    (requests, places)
}
