//! Filters a reply for the client: everything is visible except calls of tools that the client did not offer.

use longhaul_engine::ApiFormat;
use longhaul_engine::prices::Usage;
use serde_json::{Map, Value};

use super::{chat, messages, responses};
use crate::recall::RecallTool;
use crate::upstream::SseEvent;

/// A call of a recall tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecallCall {
    pub(super) id: Value,
    pub(super) tool: RecallTool,
    pub(super) arguments: Value,
}

/// The outcome of one reply of the model.
#[derive(Debug)]
pub(super) struct ReplyOutcome {
    /// The reply as messages or items that can be sent back to the upstream.
    pub(super) reply: Vec<Value>,
    /// The recall calls that can be answered; empty if the reply broke off within one.
    pub(super) calls: Vec<RecallCall>,
    /// Whether the reply contains recall calls.
    pub(super) has_recall_calls: bool,
    /// Whether the reply contains calls that the client must answer.
    pub(super) has_client_calls: bool,
    pub(super) usage: Option<Usage>,
}

/// Filters one reply to a client, over all rounds of the recall loop. Each API format has its own filter.
pub(super) trait StreamFilter: Send + Sync {
    /// Reads one event and writes what the client may see of it at once.
    fn feed_event(&mut self, event: SseEvent, out: &mut Vec<u8>);

    /// Reads a reply that is one document.
    fn feed_document(&mut self, document: Value);

    /// Returns whether the last event of the reply has arrived.
    fn has_ended(&self) -> bool;

    /// Returns the outcome of the reply; none until it is known.
    fn outcome(&self) -> Option<ReplyOutcome>;

    /// Prepares for the next reply, after one that only called recall tools.
    fn start_next_round(&mut self);

    /// Writes the ending of the last reply, if it was held back.
    fn write_ending(&mut self, out: &mut Vec<u8>);

    /// Returns everything visible as one document.
    fn shown_document(&self) -> Value;

    /// Returns everything visible as the messages or items that the client will send back.
    fn shown_messages(&self) -> Vec<Value>;
}

/// Creates the filter for an API format.
pub(super) fn new_filter(api_format: ApiFormat) -> Box<dyn StreamFilter> {
    match api_format {
        ApiFormat::Chat => Box::<chat::ChatFilter>::default(),
        ApiFormat::Messages => Box::<messages::MessagesFilter>::default(),
        ApiFormat::Responses => Box::<responses::ResponsesFilter>::default(),
    }
}

/// Returns the recall tool with this name; none if it is another tool.
pub(super) fn find_recall_tool(name: &Value) -> Option<RecallTool> {
    name.as_str().and_then(RecallTool::from_name)
}

/// Appends to the text in a field, and creates the field if it is missing.
pub(super) fn append_text(object: &mut Value, field: &str, more: &Value) {
    if let (Some(more), Some(object)) = (more.as_str(), object.as_object_mut()) {
        match object.get_mut(field) {
            Some(Value::String(text)) => text.push_str(more),
            _ => drop(object.insert(field.to_owned(), more.into())),
        }
    }
}

/// Parses the arguments that a model wrote. Invalid JSON becomes a string.
pub(super) fn parse_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// The names of the usage fields in an API format.
pub(super) struct UsageFields {
    pub(super) input: &'static str,
    pub(super) output: &'static str,
    /// The field for the sum of both, if the API format has one.
    pub(super) total: Option<&'static str>,
}

/// The usage over all rounds of one reply.
#[derive(Default)]
pub(super) struct RoundUsage {
    /// The usage of the first round.
    first_round: Option<Map<String, Value>>,
    /// The output tokens of the rounds before the current one.
    earlier_output: u64,
    /// The usage of the current round.
    pub(super) current: Map<String, Value>,
}

impl RoundUsage {
    /// Merges the fields of an event. Later values replace earlier ones: the first event has the input, the
    /// last the output.
    pub(super) fn merge(&mut self, usage: &Value) {
        let fields = usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        self.current.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
    }

    pub(super) fn start_next_round(&mut self, fields: &UsageFields) {
        self.earlier_output += self.current_output(fields);
        let ended_round = std::mem::take(&mut self.current);
        self.first_round.get_or_insert(ended_round);
    }

    fn current_output(&self, fields: &UsageFields) -> u64 {
        self.current.get(fields.output).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns the usage for the client: the input of its own request, and the output of all rounds.
    pub(super) fn client_usage(&self, fields: &UsageFields) -> Map<String, Value> {
        let mut usage = self.first_round.as_ref().unwrap_or(&self.current).clone();
        let output = self.earlier_output + self.current_output(fields);
        usage.insert(fields.output.to_owned(), output.into());
        if let Some(total) = fields.total {
            let input = usage.get(fields.input).and_then(Value::as_u64).unwrap_or_default();
            usage.insert(total.to_owned(), (input + output).into());
        }
        usage
    }

    pub(super) fn current_usage(&self) -> Option<Usage> {
        Usage::parse(&Value::Object(self.current.clone()))
    }
}

/// Formats a value as an event that is named by its `type`.
pub(super) fn write_named_event(value: &Value) -> Vec<u8> {
    let name = value["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {value}\n\n").into_bytes()
}
