//! Events of the server before the SDK.
//!
//! A reply stands whole in each event that came of it. What the server's prompt builder added around the events (instructions
//! of a repository, what it recalled) is in no event, so the request is the events alone.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_engine::Dialect;
use serde_json::Value;

use super::super::draft::{Drafts, Unanswered, calls, words};
use super::super::{Agent, Asked, Moment, Origin, Piece, Place, Reported, Role, Session, Turn, Unread};
use super::{Condensed, Entry, Event, Recorded, command_output, pictures, text, usage, view};

/// What the server said behind an output that told of an error.
const ERROR: &str = "\n[Error occurred in processing last action]";
/// What it said behind one that the user did not allow.
const REJECTED: &str = "\n[Last action has been rejected by the user]";

/// Events that are known and never sent.
const NOT_SENT: [&str; 6] =
    ["agent_state_changed", "change_agent_state", "recall", "null", "condensation_request", "system"];

/// `<n>.json`.
pub(super) fn number(name: &str) -> Option<u64> {
    name.strip_suffix(".json")?.parse().ok()
}

pub(super) fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let Recorded { events, damage } = Recorded::read(&place.path, number)?;
    let metadata = super::beside(&place.path, "metadata.json");
    let dialect = asked.dialect.unwrap_or(Dialect::Chat);
    let is = |value: &Value, action: &str| value["action"] == action;
    let condensed = |value: &Value| is(value, "condensation").then(|| Condensed::of(&value["args"]));
    let all: Vec<&Event> = events.iter().collect();
    let (entries, compactions) = view(&all, asked.extent, condensed, |_| true);
    let (mut requests, responses) = reported(&events);
    let mut maker = Maker {
        dialect,
        responses,
        replied: BTreeSet::new(),
        drafts: Drafts::default(),
        unknown: BTreeMap::new(),
    };
    for entry in &entries {
        match entry {
            Entry::Event(event) => maker.push(event),
            Entry::Summary { id, text, at } => {
                let pieces = vec![(Piece::Text(text.clone()), Origin::Id(id.clone()))];
                maker.drafts.push(Turn { role: Role::User, pieces, at: *at }, None);
            }
        }
    }
    let Maker { mut drafts, unknown, .. } = maker;
    drafts.pair(Unanswered::Dropped);
    let system = events.iter().find(|event| is(&event.value, "system")).map(|event| &event.value["args"]);
    let newest = requests.iter().rev().find_map(|request| request.model.clone());
    let moment = |name: &str| metadata[name].as_str().and_then(Moment::parse);
    Ok(Session {
        agent: Agent::OpenHands,
        id: text(&metadata["conversation_id"])
            .or(place.id.clone())
            .unwrap_or_else(|| super::folder_name(&place.path)),
        project: text(&metadata["selected_repository"]),
        title: text(&metadata["title"]),
        model: asked.model.clone().or(newest).or(text(&metadata["llm_model"])),
        dialect,
        system: system.and_then(|args| text(&args["content"])),
        tools: system.and_then(|args| {
            args["tools"].as_array().filter(|tools| !tools.is_empty()).map(|_| args["tools"].clone())
        }),
        turns: drafts.settle(dialect, &mut requests),
        compactions,
        started: moment("created_at").or(events.first().and_then(Event::at)),
        updated: moment("last_updated_at").max(events.last().and_then(Event::at)),
        requests,
        unknown,
        damage,
    })
}

/// Makes turns of events.
struct Maker {
    dialect: Dialect,
    responses: BTreeMap<String, usize>,
    /// Replies that were met: each stands in the events of all its calls.
    replied: BTreeSet<String>,
    drafts: Drafts,
    unknown: BTreeMap<String, usize>,
}

impl Maker {
    fn push(&mut self, event: &Event) {
        let value = &event.value;
        let kind = value["action"].as_str().or(value["observation"].as_str());
        match kind {
            Some(kind) if NOT_SENT.contains(&kind) => {}
            Some("message") => self.message(event),
            Some(_) if value["action"].is_string() => self.action(event),
            Some(kind) => self.observation(event, kind),
            None => *self.unknown.entry("event without a kind".to_owned()).or_default() += 1,
        }
    }

    fn add(&mut self, event: &Event, role: Role, pieces: Vec<Piece>, answers: Option<usize>) {
        let pieces = pieces.into_iter().map(|piece| (piece, Origin::Id(event.id.clone()))).collect();
        self.drafts.push(Turn { role, pieces, at: event.at() }, answers);
    }

    fn message(&mut self, event: &Event) {
        let args = &event.value["args"];
        let mut pieces: Vec<Piece> =
            words(args["content"].as_str().unwrap_or_default()).into_iter().collect();
        pieces.extend(pictures(&args["image_urls"], self.dialect));
        let role = if event.value["source"] == "user" { Role::User } else { Role::Assistant };
        self.add(event, role, pieces, None);
    }

    /// A reply with all its calls. Without calls of the provider's kind the words around it are what was said. The last one,
    /// which ends the work, is sent as words: nothing comes back for it.
    fn action(&mut self, event: &Event) {
        let response = &event.value["tool_call_metadata"]["model_response"];
        let message = &response["choices"][0]["message"];
        let thought = event.value["args"]["thought"].as_str().unwrap_or_default();
        let Some(id) = text(&response["id"]) else {
            let said = words(if thought.is_empty() {
                event.value["message"].as_str().unwrap_or_default()
            } else {
                thought
            });
            let role = if event.value["source"] == "user" { Role::User } else { Role::Assistant };
            return self.add(event, role, said.into_iter().collect(), None);
        };
        if !self.replied.insert(id.clone()) {
            return;
        }
        let content = message["content"].as_str().unwrap_or_default();
        let mut pieces: Vec<Piece> = words(content).into_iter().collect();
        if event.value["action"] == "finish" {
            if pieces.is_empty() {
                pieces.extend(words(thought));
            }
        } else {
            pieces.extend(calls(&message["tool_calls"]));
        }
        let answers = self.responses.get(&id).copied();
        self.add(event, Role::Assistant, pieces, answers);
    }

    fn observation(&mut self, event: &Event, kind: &str) {
        let value = &event.value;
        let printed = value["content"].as_str().unwrap_or_default();
        let said = match kind {
            "run" => command_output(printed, &value["extras"]["metadata"]),
            "error" => format!("{printed}{ERROR}"),
            "user_rejected" => format!("{printed}{REJECTED}"),
            _ => printed.to_owned(),
        };
        let failed = value["success"] == false || matches!(kind, "error" | "user_rejected");
        let mut content: Vec<Piece> = words(&said).into_iter().collect();
        content.extend(pictures(&value["extras"]["image_urls"], self.dialect));
        match text(&value["tool_call_metadata"]["tool_call_id"]) {
            Some(id) => self.add(event, Role::Tool, vec![Piece::Result { id, content, failed }], None),
            None => self.add(event, Role::User, content, None),
        }
    }
}

/// What was used, once for each reply; what it cost is how much the sum grew.
fn reported(events: &[Event]) -> (Vec<Reported>, BTreeMap<String, usize>) {
    let mut requests = Vec::new();
    let mut places = BTreeMap::new();
    let mut spent = 0.0;
    for event in events {
        let response = &event.value["tool_call_metadata"]["model_response"];
        let told = &response["usage"];
        let Some((id, prompt)) = text(&response["id"]).zip(told["prompt_tokens"].as_u64()) else { continue };
        if places.contains_key(&id) {
            continue;
        }
        let count = |name: &str| told[name].as_u64();
        let read =
            count("cache_read_input_tokens").or(told["prompt_tokens_details"]["cached_tokens"].as_u64());
        let written = count("cache_creation_input_tokens").unwrap_or(0);
        let sum = event.value["llm_metrics"]["accumulated_cost"].as_f64();
        let dollars = sum.map(|sum| sum - spent).filter(|dollars| *dollars > 0.0);
        spent = sum.unwrap_or(spent);
        places.insert(id, requests.len());
        requests.push(Reported {
            at: event.at(),
            model: text(&response["model"]),
            usage: usage(prompt, count("completion_tokens"), read.unwrap_or(0), written),
            reply: None,
            dollars,
        });
    }
    (requests, places)
}
