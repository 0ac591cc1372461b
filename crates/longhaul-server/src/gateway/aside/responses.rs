//! Responses: a reply is a list of items, each with events of its own, between an opening and an end that hold all of it.
//!
//! Reasoning belongs to the item behind it, and is refused without it. So it is held back until it is known whose it is, and goes with
//! a call of ours.

use std::collections::BTreeMap;

use serde_json::Value;

use super::sieve::{Call, Fields, Heard, Sieve, Used, arguments, named, ours};
use crate::gateway::events::Event;

const FIELDS: Fields = Fields { input: "input_tokens", output: "output_tokens", total: Some("total_tokens") };
const CALL: &str = "function_call";
/// What a client has to answer.
const OTHERS: [&str; 7] = [
    CALL,
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
];
/// The events that open an answer.
const OPENINGS: [&str; 3] = ["response.created", "response.in_progress", "response.queued"];
/// Those that end one.
const ENDS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

#[derive(Default)]
pub(super) struct Responses {
    is_later: bool,
    /// What the response is known by.
    id: Option<(Value, Value)>,
    /// The items that were shown, of all answers.
    shown: Vec<Value>,
    /// How many were opened,
    opened: usize,
    /// and how many events there were.
    events: u64,
    used: Used,
    /// The answer that is read: its items by their places,
    items: BTreeMap<u64, Item>,
    /// the events of reasoning of which it is not known yet whose it is,
    held: Vec<Value>,
    /// how it stands,
    status: Option<String>,
    /// how it ended, where that is held back,
    closing: Option<Value>,
    /// and all of it, where it came as one document; of the first answer, where there are more.
    document: Option<Value>,
}

struct Item {
    value: Value,
    whose: Whose,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A call of ours, or the reasoning that led to it.
    Ours,
    /// The client sees it, at this place.
    Theirs(usize),
    /// Reasoning, before what it led to.
    Open,
}

fn is_ours(item: &Value) -> bool {
    item["type"] == CALL && ours(&item["name"]).is_some()
}

impl Responses {
    fn has_ours(&self) -> bool {
        self.items.values().any(|item| is_ours(&item.value))
    }

    fn has_others(&self) -> bool {
        let is_other = |item: &Item| OTHERS.iter().any(|kind| item.value["type"] == *kind);
        self.items.values().any(|item| !is_ours(&item.value) && is_other(item))
    }

    fn is_plain(&self) -> bool {
        !self.is_later && !self.has_ours()
    }

    /// An item begins: reasoning that was open goes the same way.
    fn open(&mut self, index: u64, value: &Value, out: &mut Vec<u8>) {
        let whose = if value["type"] == "reasoning" {
            Whose::Open
        } else if is_ours(value) {
            self.held.clear();
            self.items
                .values_mut()
                .filter(|item| item.whose == Whose::Open)
                .for_each(|item| item.whose = Whose::Ours);
            Whose::Ours
        } else {
            self.release(out);
            Whose::Theirs(self.place())
        };
        self.items.insert(index, Item { value: value.clone(), whose });
    }

    fn place(&mut self) -> usize {
        self.opened += 1;
        self.opened - 1
    }

    /// Reasoning that was held back is the client's.
    fn release(&mut self, out: &mut Vec<u8>) {
        let open: Vec<u64> =
            self.items.iter().filter(|(_, item)| item.whose == Whose::Open).map(|(at, _)| *at).collect();
        for index in open {
            let place = self.place();
            if let Some(item) = self.items.get_mut(&index) {
                item.whose = Whose::Theirs(place);
            }
        }
        for event in std::mem::take(&mut self.held) {
            self.show(event, None, out);
        }
    }

    /// Shows an event, under its number and at the place that the client sees its item at.
    fn show(&mut self, mut event: Value, raw: Option<Vec<u8>>, out: &mut Vec<u8>) {
        let mut is_changed = raw.is_none();
        if let Some(index) = event["output_index"].as_u64()
            && let Some(Whose::Theirs(at)) = self.items.get(&index).map(|item| item.whose)
            && at as u64 != index
        {
            event["output_index"] = at.into();
            is_changed = true;
        }
        if event["sequence_number"].as_u64().is_some_and(|number| number != self.events) {
            event["sequence_number"] = self.events.into();
            is_changed = true;
        }
        self.events += 1;
        if let Some(tools) = event["response"]["tools"].as_array_mut() {
            let all = tools.len();
            tools.retain(|tool| ours(&tool["name"]).is_none());
            is_changed |= tools.len() < all;
        }
        match raw {
            Some(raw) if !is_changed => out.extend(raw),
            _ => out.extend(named(&event)),
        }
    }

    fn ends(&mut self, response: &Value) {
        self.used.note(&response["usage"]);
        self.status = Some(response["status"].as_str().unwrap_or("completed").to_owned());
    }

    fn identify(&mut self, response: &Value) {
        if !response["id"].is_null() {
            self.id.get_or_insert_with(|| (response["id"].clone(), response["created_at"].clone()));
        }
    }

    /// A response as the client is to see it.
    fn told(&self, mut response: Value) -> Value {
        if let Some((id, created)) = &self.id {
            (response["id"], response["created_at"]) = (id.clone(), created.clone());
        }
        response["output"] = self.shown.clone().into();
        if response["usage"].is_object() {
            response["usage"] = self.used.told(&FIELDS).into();
        }
        if let Some(tools) = response["tools"].as_array_mut() {
            tools.retain(|tool| ours(&tool["name"]).is_none());
        }
        response
    }

    /// Keeps what the client sees of this answer.
    fn keep_shown(&mut self) {
        let theirs = self.items.values().filter(|item| matches!(item.whose, Whose::Theirs(_)));
        self.shown.extend(theirs.map(|item| item.value.clone()));
    }
}

impl Sieve for Responses {
    fn event(&mut self, event: Event, out: &mut Vec<u8>) {
        let Event { raw, data } = event;
        let value = data.and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        let Some(value) = value else { return out.extend(raw) };
        let kind = value["type"].as_str().unwrap_or_default().to_owned();
        let index = value["output_index"].as_u64();
        if OPENINGS.contains(&kind.as_str()) {
            self.identify(&value["response"]);
            if !self.is_later {
                self.show(value, Some(raw), out);
            }
            return;
        }
        if ENDS.contains(&kind.as_str()) {
            self.ends(&value["response"]);
            self.release(out);
            if self.is_plain() {
                self.show(value, Some(raw), out);
            } else {
                self.closing = Some(value);
            }
            return;
        }
        let Some(index) = index else { return self.show(value, Some(raw), out) };
        match kind.as_str() {
            "response.output_item.added" => self.open(index, &value["item"], out),
            "response.output_item.done" => match self.items.get_mut(&index) {
                Some(item) => item.value = value["item"].clone(),
                None => self.open(index, &value["item"], out),
            },
            _ => {}
        }
        match self.items.get(&index).map(|item| item.whose) {
            Some(Whose::Ours) => {}
            Some(Whose::Open) => self.held.push(value),
            Some(Whose::Theirs(_)) | None => self.show(value, Some(raw), out),
        }
    }

    fn whole(&mut self, document: Value) {
        self.identify(&document);
        for (index, item) in document["output"].as_array().into_iter().flatten().enumerate() {
            self.open(index as u64, item, &mut Vec::new());
        }
        self.release(&mut Vec::new());
        self.ends(&document);
        self.document.get_or_insert(document);
    }

    fn is_over(&self) -> bool {
        self.status.is_some()
    }

    fn heard(&self) -> Option<Heard> {
        let status = self.status.as_deref()?;
        let call = |item: &Item| {
            let value = &item.value;
            let tool = ours(&value["name"]).filter(|_| is_ours(value) && status == "completed")?;
            let arguments = arguments(value["arguments"].as_str().unwrap_or_default());
            Some(Call { id: value["call_id"].clone(), tool, arguments })
        };
        Some(Heard {
            reply: self.items.values().map(|item| item.value.clone()).collect(),
            calls: self.items.values().filter_map(call).collect(),
            has_ours: self.has_ours(),
            has_others: self.has_others(),
            usage: self.used.usage(),
        })
    }

    fn again(&mut self) {
        self.keep_shown();
        self.used.again(&FIELDS);
        self.items.clear();
        self.held.clear();
        (self.is_later, self.status, self.closing) = (true, None, None);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.keep_shown();
        if let Some(mut closing) = self.closing.take() {
            closing["response"] = self.told(closing["response"].take());
            self.show(closing, None, out);
        }
    }

    fn document(&self) -> Value {
        let mut document = self.told(self.document.clone().unwrap_or_default());
        if let Some(status) = &self.status {
            document["status"] = status.as_str().into();
        }
        document
    }

    fn shown(&self) -> Vec<Value> {
        self.shown.clone()
    }
}

/// Items as they are sent again: reasoning that the provider does not keep comes back sealed, or not at all.
pub(super) fn sent_again(items: Vec<Value>, is_kept: bool) -> Vec<Value> {
    let can_go = |item: &Value| {
        item["type"] != "reasoning"
            || is_kept
            || item["encrypted_content"].as_str().is_some_and(|sealed| !sealed.is_empty())
    };
    items.into_iter().filter(can_go).collect()
}

/// Whether the provider keeps what it answers to a request.
pub(super) fn keeps(request: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Opening {
        store: Option<bool>,
    }
    serde_json::from_slice::<Opening>(request).is_ok_and(|opening| opening.store != Some(false))
}
