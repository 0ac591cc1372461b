//! What of a reply a client may see: all but the calls of tools that it did not offer.

use longhaul_engine::Dialect;
use longhaul_engine::prices::Usage;
use serde_json::{Map, Value};

use super::{chat, messages, responses};
use crate::gateway::events::Event;
use crate::recall::Tool;

/// A call of one of our tools.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: Value,
    pub(super) tool: Tool,
    pub(super) arguments: Value,
}

/// What one answer came to.
#[derive(Debug)]
pub(super) struct Heard {
    /// The reply as the upstream is told it again: messages or items.
    pub(super) reply: Vec<Value>,
    /// The calls of our tools that can be answered: none of a reply that broke off in the midst of one.
    pub(super) calls: Vec<Call>,
    /// Whether the reply calls our tools at all.
    pub(super) has_ours: bool,
    /// Whether the client has calls to answer.
    pub(super) has_others: bool,
    pub(super) usage: Option<Usage>,
}

/// One reply to one request of a client's, over as many answers as it takes. Each dialect has its own.
pub(super) trait Sieve: Send + Sync {
    /// An event of the answer: what may be shown of it at once.
    fn event(&mut self, event: Event, out: &mut Vec<u8>);

    /// The answer, where it is one document.
    fn whole(&mut self, document: Value);

    /// Whether its last event has come.
    fn is_over(&self) -> bool;

    /// What the answer came to, once that is known.
    fn heard(&self) -> Option<Heard>;

    /// The answer was only for us: another follows.
    fn again(&mut self);

    /// There is no other: how the answer ended, where that was held back.
    fn close(&mut self, out: &mut Vec<u8>);

    /// All that was shown as one document.
    fn document(&self) -> Value;

    /// All that was shown as the client sends it back.
    fn shown(&self) -> Vec<Value>;
}

/// The sieve of a dialect.
pub(super) fn sieve(dialect: Dialect) -> Box<dyn Sieve> {
    match dialect {
        Dialect::Chat => Box::<chat::Chat>::default(),
        Dialect::Messages => Box::<messages::Messages>::default(),
        Dialect::Responses => Box::<responses::Responses>::default(),
    }
}

/// Which of our tools a name is, if it is one's.
pub(super) fn ours(name: &Value) -> Option<Tool> {
    name.as_str().and_then(Tool::named)
}

/// Adds to a text in a field, which may not be there yet.
pub(super) fn push(object: &mut Value, field: &str, more: &Value) {
    if let (Some(more), Some(object)) = (more.as_str(), object.as_object_mut()) {
        match object.get_mut(field) {
            Some(Value::String(text)) => text.push_str(more),
            _ => drop(object.insert(field.to_owned(), more.into())),
        }
    }
}

/// Arguments as a model wrote them.
pub(super) fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// How the fields of a dialect's count are called.
pub(super) struct Fields {
    pub(super) input: &'static str,
    pub(super) output: &'static str,
    /// The sum of both, where the dialect has one.
    pub(super) total: Option<&'static str>,
}

/// What was used in all answers.
#[derive(Default)]
pub(super) struct Used {
    /// What the first answer said.
    first: Option<Map<String, Value>>,
    /// The output of the answers before this one.
    before: u64,
    /// What this one says.
    pub(super) now: Map<String, Value>,
}

impl Used {
    /// What comes later says more: an opening has the input, an end the output.
    pub(super) fn note(&mut self, usage: &Value) {
        let fields = usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        self.now.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
    }

    pub(super) fn again(&mut self, fields: &Fields) {
        self.before += self.output(fields);
        let now = std::mem::take(&mut self.now);
        self.first.get_or_insert(now);
    }

    fn output(&self, fields: &Fields) -> u64 {
        self.now.get(fields.output).and_then(Value::as_u64).unwrap_or_default()
    }

    /// What the client is told: its own request is the one that it sent, and what was said is all that was.
    pub(super) fn told(&self, fields: &Fields) -> Map<String, Value> {
        let mut usage = self.first.as_ref().unwrap_or(&self.now).clone();
        let output = self.before + self.output(fields);
        usage.insert(fields.output.to_owned(), output.into());
        if let Some(total) = fields.total {
            let input = usage.get(fields.input).and_then(Value::as_u64).unwrap_or_default();
            usage.insert(total.to_owned(), (input + output).into());
        }
        usage
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        Usage::read(&Value::Object(self.now.clone()))
    }
}

/// An event with its name before its data.
pub(super) fn named(value: &Value) -> Vec<u8> {
    let name = value["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {value}\n\n").into_bytes()
}
