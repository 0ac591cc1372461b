//! Adds the recall tools to a request, after the client's own, and puts earlier hidden tool turns back in
//! their places.

use longhaul_engine::keyed_hash::{KeyedHash, KeyedHasher};
use longhaul_engine::transcript::{ElementId, Role};
use longhaul_engine::{ApiFormat, Edit, Rewrite, Tokens, Transcript, wire};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::stream_filter::parse_arguments;
use crate::gateway::body::estimate_tokens;
use crate::recall::RecallTool;
use crate::store::SessionId;

/// The largest number of hidden turns that are kept for a session. Chosen by hand: older ones have long been
/// summarized.
const MAX_HIDDEN_TURNS: usize = 64;
/// The smallest window in which recall tools are offered (docs/gateway-reference.md). In a smaller one, the
/// tools and what they fetch would take more space than they are worth.
pub(in crate::gateway) const MIN_WINDOW: Tokens = Tokens(16_000);

/// A hidden tool turn: in later requests it replaces the visible reply that the client repeats in its history.
pub(in crate::gateway) struct HiddenToolTurn {
    /// The hash of the message that was answered.
    pub(super) answered_message: KeyedHash,
    /// The hash of the visible part of the reply.
    pub(super) shown_hash: KeyedHash,
    /// The messages or items, as JSON, that replace the visible part.
    pub(super) replacement: Vec<String>,
    /// The results, as JSON, that are added to the client's own results in the next message.
    pub(super) extra_results: Vec<String>,
    /// Whether the store has this turn.
    pub(super) is_stored: bool,
}

/// The visible part of a reply in a form that does not depend on how the client writes it.
pub(super) struct ShownReply {
    /// The text of all blocks without white space.
    text: String,
    /// The ID and the arguments of each call.
    calls: Vec<(Value, Value)>,
}

impl ShownReply {
    /// Collects the text and the calls of messages or items of a request.
    pub(super) fn from_messages(elements: &[Value]) -> Self {
        let mut shown = Self { text: String::new(), calls: Vec::new() };
        for element in elements {
            shown.add_text(&element["content"]);
            shown.add_call(element);
            element["tool_calls"].as_array().into_iter().flatten().for_each(|call| shown.add_call(call));
        }
        shown
    }

    /// Returns the hash by which replies are compared, so that their text need not be kept.
    pub(super) fn hash(&self, hasher: &KeyedHasher) -> KeyedHash {
        let calls = serde_json::to_vec(&self.calls).unwrap_or_default();
        hasher.hash(&[b"shown of a reply", self.text.as_bytes(), &calls])
    }

    fn add_text(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.text.extend(text.chars().filter(|c| !c.is_whitespace())),
            Value::Array(blocks) => {
                for block in blocks {
                    self.add_text(&block["text"]);
                    self.add_call(block);
                }
            }
            _ => {}
        }
    }

    fn add_call(&mut self, value: &Value) {
        let candidates = [&value["input"], &value["arguments"], &value["function"]["arguments"]];
        let Some(arguments) = candidates.into_iter().find(|arguments| !arguments.is_null()) else { return };
        let id = if value["call_id"].is_null() { &value["id"] } else { &value["call_id"] };
        let arguments = arguments.as_str().map_or_else(|| arguments.clone(), parse_arguments);
        self.calls.push((id.clone(), arguments));
    }
}

impl HiddenToolTurn {
    fn tokens(&self) -> Tokens {
        let bytes: usize = self.replacement.iter().chain(&self.extra_results).map(String::len).sum();
        estimate_tokens(bytes)
    }

    /// Returns the edits that put the turn back in its place; none if the client has other content there now,
    /// or if that part was summarized.
    fn edits(&self, sent: &Transcript<'_>, chain: &[KeyedHash], hasher: &KeyedHasher) -> Option<Vec<Edit>> {
        let answered = chain.iter().rposition(|message| *message == self.answered_message)?;
        // Compaction keeps the end of a history, so positions are counted from the end.
        let from_end = chain.len() - (answered + 1);
        let first = sent.message_count().checked_sub(from_end).filter(|_| from_end > 0)?;
        let end = (first..sent.message_count()).find(|at| sent.role(*at) != Some(Role::Assistant));
        let end = end.unwrap_or(sent.message_count());
        let repeated_reply = (first..end).map(|at| serde_json::from_str(sent.message_json(at)?).ok());
        let repeated_reply: Vec<Value> = repeated_reply.collect::<Option<_>>()?;
        if repeated_reply.is_empty() || ShownReply::from_messages(&repeated_reply).hash(hasher) != self.shown_hash {
            return None;
        }
        let place = sent.message_id(first)?;
        let insert = |json: &String| Edit::Insert { before: place, json: json.clone() };
        let mut edits: Vec<Edit> = self.replacement.iter().map(insert).collect();
        edits.extend((first..end).filter_map(|at| sent.message_id(at)).map(Edit::Remove));
        if !self.extra_results.is_empty() {
            let content = sent.content_array(sent.message_id(end)?)?;
            let before = ElementId { array: content, index: 0 };
            edits.extend(self.extra_results.iter().map(|json| Edit::Insert { before, json: json.clone() }));
        }
        Some(edits)
    }
}

/// The hidden tool turns of a session, oldest first.
#[derive(Default)]
pub(in crate::gateway) struct HiddenToolTurns {
    pub(super) turns: Vec<HiddenToolTurn>,
    /// The version of the session's ledger that the turns belong to; none if they come from the store.
    ledger_version: Option<u64>,
    /// Whether the turns in the store were loaded.
    pub(super) is_loaded: bool,
    /// The session under which the store has these turns.
    pub(super) stored_session: Option<SessionId>,
    /// Whether the turns in the store are out of date.
    pub(super) needs_save: bool,
}

impl HiddenToolTurns {
    pub(in crate::gateway) fn add(&mut self, hidden_turn: HiddenToolTurn) {
        // A repeated request is answered again, and the newer turn replaces the older one.
        self.turns.retain(|turn| turn.answered_message != hidden_turn.answered_message);
        self.turns.push(hidden_turn);
        self.needs_save = true;
        self.keep_newest(MAX_HIDDEN_TURNS);
    }

    /// Switches to another version of the session's ledger. After a compaction only the newest turn is kept.
    pub(in crate::gateway) fn use_ledger_version(&mut self, ledger_version: u64) {
        if self.ledger_version.replace(ledger_version).is_some_and(|previous| previous != ledger_version) {
            self.keep_newest(1);
        }
    }

    fn keep_newest(&mut self, max_turns: usize) {
        let surplus = self.turns.len().saturating_sub(max_turns);
        self.needs_save |= surplus > 0;
        self.turns.drain(..surplus);
    }

    /// Estimates the tokens that the turns add to a request with this history.
    pub(in crate::gateway) fn tokens(&self, chain: &[KeyedHash]) -> Tokens {
        let is_in = |hidden_turn: &&HiddenToolTurn| chain.contains(&hidden_turn.answered_message);
        self.turns.iter().filter(is_in).fold(Tokens::ZERO, |sum, hidden_turn| sum + hidden_turn.tokens())
    }
}

/// Returns whether recall tools can be offered with this request. They cannot with several replies (`n`), the
/// old `functions`, a background request, a conversation that the provider keeps, or client tools with our
/// names.
pub(in crate::gateway) fn can_offer_tools(body: &str) -> bool {
    #[derive(Deserialize)]
    struct Opening {
        n: Option<u64>,
        functions: Option<IgnoredAny>,
        background: Option<bool>,
        conversation: Option<IgnoredAny>,
        #[serde(default)]
        tools: Option<Vec<Named>>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: Option<Value>,
        function: Option<Value>,
    }
    let is_ours = |tool: &Named| {
        let name = tool.name.as_ref().or_else(|| tool.function.as_ref()?.get("name"));
        name.and_then(Value::as_str).and_then(RecallTool::from_name).is_some()
    };
    serde_json::from_str::<Opening>(body).is_ok_and(|opening| {
        opening.n.is_none_or(|replies| replies == 1)
            && opening.functions.is_none()
            && opening.background != Some(true)
            && opening.conversation.is_none()
            && !opening.tools.iter().flatten().any(is_ours)
    })
}

/// Returns the recall tools as an API format defines tools.
fn tool_definitions(api_format: ApiFormat) -> Vec<String> {
    let define = |tool: RecallTool| {
        let (name, description, schema) = (tool.name(), tool.description(), tool.schema());
        match api_format {
            ApiFormat::Messages => json!({"name": name, "description": description, "input_schema": schema}),
            ApiFormat::Chat => {
                let function = json!({"name": name, "description": description, "parameters": schema});
                json!({"type": "function", "function": function})
            }
            ApiFormat::Responses => {
                json!({"type": "function", "name": name, "description": description, "parameters": schema, "strict": false})
            }
        }
    };
    RecallTool::ALL.into_iter().map(|tool| define(tool).to_string()).collect()
}

/// Estimates the tokens that the recall tools add to a request.
pub(in crate::gateway) fn tool_definition_tokens(api_format: ApiFormat) -> Tokens {
    estimate_tokens(tool_definitions(api_format).iter().map(String::len).sum())
}

/// Returns the body with the recall tools and the hidden turns; none if the edits cannot be applied.
pub(in crate::gateway) fn inject_tools_and_turns(
    sent: &Transcript<'_>,
    chain: &[KeyedHash],
    hidden_turns: &HiddenToolTurns,
    hasher: &KeyedHasher,
) -> Option<String> {
    let mut edits = wire::add_tools_edits(sent, &tool_definitions(sent.api_format));
    edits.extend(hidden_turns.turns.iter().filter_map(|hidden_turn| hidden_turn.edits(sent, chain, hasher)).flatten());
    Some(Rewrite::new(sent, edits).ok()?.apply(sent.body))
}
