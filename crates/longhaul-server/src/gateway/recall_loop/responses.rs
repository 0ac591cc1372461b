//! The filter for Responses: a reply is a list of items with their own events, between an opening and an
//! ending event that contain the whole response.
//!
//! Reasoning belongs to the item after it, and providers refuse it without that item. So it is held back
//! until the next item begins, and hidden if that item is a recall call.

use std::collections::BTreeMap;

use serde_json::Value;

use super::stream_filter::{
    RecallCall, ReplyOutcome, RoundUsage, StreamFilter, UsageFields, find_recall_tool, parse_arguments,
    write_named_event,
};
use crate::upstream::SseEvent;

const USAGE_FIELDS: UsageFields =
    UsageFields { input: "input_tokens", output: "output_tokens", total: Some("total_tokens") };
const FUNCTION_CALL: &str = "function_call";
/// The types of items that the client must answer.
const CLIENT_CALL_TYPES: [&str; 7] = [
    FUNCTION_CALL,
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
];
/// The events that open a response.
const OPENING_EVENTS: [&str; 3] = ["response.created", "response.in_progress", "response.queued"];
/// The events that end a response.
const ENDING_EVENTS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

#[derive(Default)]
pub(super) struct ResponsesFilter {
    is_later_round: bool,
    /// The `id` and `created_at` of the first reply, which the client sees for all rounds.
    first_id: Option<(Value, Value)>,
    /// The visible items of earlier rounds.
    shown_items: Vec<Value>,
    /// The number of visible items that were opened.
    shown_item_count: usize,
    /// The number of events that were written.
    event_count: u64,
    usage: RoundUsage,
    /// The items of the current round, by index.
    items: BTreeMap<u64, PartialItem>,
    /// The events of reasoning that are held back until the next item begins.
    held_reasoning: Vec<Value>,
    /// The status of the current round, once it has ended.
    status: Option<String>,
    /// The ending event of the current round, if it is held back.
    held_ending: Option<Value>,
    /// The document of the first round, if replies are documents.
    first_document: Option<Value>,
}

struct PartialItem {
    value: Value,
    visibility: Visibility,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    /// A recall call, or the reasoning that led to it.
    Hidden,
    /// The client sees the item under this index.
    Shown(usize),
    /// Reasoning whose next item has not begun yet.
    Undecided,
}

fn is_recall_call(item: &Value) -> bool {
    item["type"] == FUNCTION_CALL && find_recall_tool(&item["name"]).is_some()
}

impl ResponsesFilter {
    fn has_recall_calls(&self) -> bool {
        self.items.values().any(|item| is_recall_call(&item.value))
    }

    fn has_client_calls(&self) -> bool {
        let is_client_call = |item: &PartialItem| CLIENT_CALL_TYPES.iter().any(|kind| item.value["type"] == *kind);
        self.items.values().any(|item| !is_recall_call(&item.value) && is_client_call(item))
    }

    fn is_unchanged(&self) -> bool {
        !self.is_later_round && !self.has_recall_calls()
    }

    /// Opens an item. Held reasoning gets the same visibility.
    fn open_item(&mut self, index: u64, value: &Value, out: &mut Vec<u8>) {
        let visibility = if value["type"] == "reasoning" {
            Visibility::Undecided
        } else if is_recall_call(value) {
            self.held_reasoning.clear();
            self.items
                .values_mut()
                .filter(|item| item.visibility == Visibility::Undecided)
                .for_each(|item| item.visibility = Visibility::Hidden);
            Visibility::Hidden
        } else {
            self.release_reasoning(out);
            Visibility::Shown(self.next_shown_index())
        };
        self.items.insert(index, PartialItem { value: value.clone(), visibility });
    }

    fn next_shown_index(&mut self) -> usize {
        self.shown_item_count += 1;
        self.shown_item_count - 1
    }

    /// Makes held reasoning visible and writes its events.
    fn release_reasoning(&mut self, out: &mut Vec<u8>) {
        let undecided: Vec<u64> =
            self.items.iter().filter(|(_, item)| item.visibility == Visibility::Undecided).map(|(at, _)| *at).collect();
        for index in undecided {
            let shown_index = self.next_shown_index();
            if let Some(item) = self.items.get_mut(&index) {
                item.visibility = Visibility::Shown(shown_index);
            }
        }
        for event in std::mem::take(&mut self.held_reasoning) {
            self.show_event(event, None, out);
        }
    }

    /// Writes an event with its visible item index and sequence number; unchanged, byte for byte, if both are
    /// the same.
    fn show_event(&mut self, mut event: Value, raw: Option<Vec<u8>>, out: &mut Vec<u8>) {
        let mut is_changed = raw.is_none();
        if let Some(index) = event["output_index"].as_u64()
            && let Some(Visibility::Shown(at)) = self.items.get(&index).map(|item| item.visibility)
            && at as u64 != index
        {
            event["output_index"] = at.into();
            is_changed = true;
        }
        if event["sequence_number"].as_u64().is_some_and(|number| number != self.event_count) {
            event["sequence_number"] = self.event_count.into();
            is_changed = true;
        }
        self.event_count += 1;
        if let Some(tools) = event["response"]["tools"].as_array_mut() {
            let tool_count = tools.len();
            tools.retain(|tool| find_recall_tool(&tool["name"]).is_none());
            is_changed |= tools.len() < tool_count;
        }
        match raw {
            Some(raw) if !is_changed => out.extend(raw),
            _ => out.extend(write_named_event(&event)),
        }
    }

    fn record_end(&mut self, response: &Value) {
        self.usage.merge(&response["usage"]);
        self.status = Some(response["status"].as_str().unwrap_or("completed").to_owned());
    }

    fn record_first_id(&mut self, response: &Value) {
        if !response["id"].is_null() {
            self.first_id.get_or_insert_with(|| (response["id"].clone(), response["created_at"].clone()));
        }
    }

    /// Returns a response as the client may see it.
    fn shown_response(&self, mut response: Value) -> Value {
        if let Some((id, created)) = &self.first_id {
            (response["id"], response["created_at"]) = (id.clone(), created.clone());
        }
        response["output"] = self.shown_items.clone().into();
        if response["usage"].is_object() {
            response["usage"] = self.usage.client_usage(&USAGE_FIELDS).into();
        }
        if let Some(tools) = response["tools"].as_array_mut() {
            tools.retain(|tool| find_recall_tool(&tool["name"]).is_none());
        }
        response
    }

    /// Adds the visible items of the current round to the visible ones.
    fn record_shown(&mut self) {
        let shown = self.items.values().filter(|item| matches!(item.visibility, Visibility::Shown(_)));
        self.shown_items.extend(shown.map(|item| item.value.clone()));
    }
}

impl StreamFilter for ResponsesFilter {
    fn feed_event(&mut self, event: SseEvent, out: &mut Vec<u8>) {
        let SseEvent { raw, data } = event;
        let value = data.and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        let Some(value) = value else { return out.extend(raw) };
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        let index = value["output_index"].as_u64();
        if OPENING_EVENTS.contains(&kind.as_str()) {
            self.record_first_id(&value["response"]);
            if !self.is_later_round {
                self.show_event(value, Some(raw), out);
            }
            return;
        }
        if ENDING_EVENTS.contains(&kind.as_str()) {
            self.record_end(&value["response"]);
            self.release_reasoning(out);
            if self.is_unchanged() {
                self.show_event(value, Some(raw), out);
            } else {
                self.held_ending = Some(value);
            }
            return;
        }
        let Some(index) = index else { return self.show_event(value, Some(raw), out) };
        match kind.as_str() {
            "response.output_item.added" => self.open_item(index, &value["item"], out),
            "response.output_item.done" => match self.items.get_mut(&index) {
                Some(item) => item.value = value["item"].clone(),
                None => self.open_item(index, &value["item"], out),
            },
            _ => {}
        }
        match self.items.get(&index).map(|item| item.visibility) {
            Some(Visibility::Hidden) => {}
            Some(Visibility::Undecided) => self.held_reasoning.push(value),
            Some(Visibility::Shown(_)) | None => self.show_event(value, Some(raw), out),
        }
    }

    fn feed_document(&mut self, document: Value) {
        self.record_first_id(&document);
        for (index, item) in document["output"].as_array().into_iter().flatten().enumerate() {
            self.open_item(index as u64, item, &mut Vec::new());
        }
        self.release_reasoning(&mut Vec::new());
        self.record_end(&document);
        self.first_document.get_or_insert(document);
    }

    fn has_ended(&self) -> bool {
        self.status.is_some()
    }

    fn outcome(&self) -> Option<ReplyOutcome> {
        let status = self.status.as_deref()?;
        let call = |item: &PartialItem| {
            let value = &item.value;
            let tool = find_recall_tool(&value["name"]).filter(|_| is_recall_call(value) && status == "completed")?;
            let arguments = parse_arguments(value["arguments"].as_str().unwrap_or_default());
            Some(RecallCall { id: value["call_id"].clone(), tool, arguments })
        };
        Some(ReplyOutcome {
            reply: self.items.values().map(|item| item.value.clone()).collect(),
            calls: self.items.values().filter_map(call).collect(),
            has_recall_calls: self.has_recall_calls(),
            has_client_calls: self.has_client_calls(),
            usage: self.usage.current_usage(),
        })
    }

    fn start_next_round(&mut self) {
        self.record_shown();
        self.usage.start_next_round(&USAGE_FIELDS);
        self.items.clear();
        self.held_reasoning.clear();
        (self.is_later_round, self.status, self.held_ending) = (true, None, None);
    }

    fn write_ending(&mut self, out: &mut Vec<u8>) {
        self.record_shown();
        if let Some(mut ending) = self.held_ending.take() {
            ending["response"] = self.shown_response(ending["response"].take());
            self.show_event(ending, None, out);
        }
    }

    fn shown_document(&self) -> Value {
        let mut document = self.shown_response(self.first_document.clone().unwrap_or_default());
        if let Some(status) = &self.status {
            document["status"] = status.as_str().into();
        }
        document
    }

    fn shown_messages(&self) -> Vec<Value> {
        self.shown_items.clone()
    }
}

/// Returns the items of a reply that can be sent back to the upstream with this request. Reasoning that the
/// provider does not store is sent back encrypted, or not at all.
pub(super) fn resendable_items(items: Vec<Value>, request: &[u8]) -> Vec<Value> {
    let is_stored_by_provider = does_provider_store(request);
    let is_resendable = |item: &Value| {
        item["type"] != "reasoning"
            || is_stored_by_provider
            || item["encrypted_content"].as_str().is_some_and(|encrypted| !encrypted.is_empty())
    };
    items.into_iter().filter(is_resendable).collect()
}

/// Returns whether the provider stores its reply to this request.
fn does_provider_store(request: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Opening {
        store: Option<bool>,
    }
    serde_json::from_slice::<Opening>(request).is_ok_and(|opening| opening.store != Some(false))
}
