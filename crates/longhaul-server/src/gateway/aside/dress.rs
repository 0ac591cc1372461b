//! A request as the model is to see it: with our tools behind the client's own, and with earlier asides where they were.

use longhaul_engine::identity::{Identities, Identity};
use longhaul_engine::transcript::{ElementId, Role};
use longhaul_engine::{Dialect, Edit, Rewrite, Tokens, Transcript, wire};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::sieve::arguments;
use crate::gateway::body::about;
use crate::recall::Tool;
use crate::store::SessionId;

/// So many asides are remembered of a session; what is older has long been folded.
const MOST: usize = 64;
/// In a smaller window the tools and what they fetch would take more room than they are worth.
pub(in crate::gateway) const SMALLEST_WINDOW: Tokens = Tokens(16_000);

/// What stands in a request for what a client has of a reply.
pub(in crate::gateway) struct Aside {
    /// The message that was answered.
    pub(super) after: Identity,
    /// What the client has of the reply, by its hash.
    pub(super) shown: Identity,
    /// The messages or items that stand in its place.
    pub(super) instead: Vec<String>,
    /// The results that stand with the client's own, in the message behind it.
    pub(super) beside: Vec<String>,
    /// Whether the store has it.
    pub(super) is_stored: bool,
}

/// What a client has of a reply, however it writes it.
pub(super) struct Shown {
    /// All words, without blanks.
    text: String,
    /// The calls: id and arguments.
    calls: Vec<(Value, Value)>,
}

impl Shown {
    /// Of messages or items as they stand in a request.
    pub(super) fn of(elements: &[Value]) -> Self {
        let mut shown = Self { text: String::new(), calls: Vec::new() };
        for element in elements {
            shown.say(&element["content"]);
            shown.call(element);
            element["tool_calls"].as_array().into_iter().flatten().for_each(|call| shown.call(call));
        }
        shown
    }

    /// The hash that it is compared by: the words themselves need not be kept.
    pub(super) fn hash(&self, identities: &Identities) -> Identity {
        let calls = serde_json::to_vec(&self.calls).unwrap_or_default();
        identities.of(&[b"shown of a reply", self.text.as_bytes(), &calls])
    }

    fn say(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.text.extend(text.chars().filter(|letter| !letter.is_whitespace())),
            Value::Array(blocks) => {
                for block in blocks {
                    self.say(&block["text"]);
                    self.call(block);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, value: &Value) {
        let written = [&value["input"], &value["arguments"], &value["function"]["arguments"]];
        let Some(given) = written.into_iter().find(|given| !given.is_null()) else { return };
        let id = if value["call_id"].is_null() { &value["id"] } else { &value["call_id"] };
        let given = given.as_str().map_or_else(|| given.clone(), arguments);
        self.calls.push((id.clone(), given));
    }
}

impl Aside {
    fn tokens(&self) -> Tokens {
        let bytes: usize = self.instead.iter().chain(&self.beside).map(String::len).sum();
        about(bytes)
    }

    /// The edits that put it where it was; none where the client has something else there now, or what was there is folded.
    fn edits(&self, sent: &Transcript<'_>, chain: &[Identity], identities: &Identities) -> Option<Vec<Edit>> {
        let answered = chain.iter().rposition(|message| *message == self.after)?;
        // What is kept of a history ends as it does, so places are counted from the end.
        let from_end = chain.len() - (answered + 1);
        let first = sent.message_count().checked_sub(from_end).filter(|_| from_end > 0)?;
        let behind = (first..sent.message_count()).find(|at| sent.role(*at) != Some(Role::Assistant));
        let behind = behind.unwrap_or(sent.message_count());
        let there = (first..behind).map(|at| serde_json::from_str(sent.message(at)?).ok());
        let there: Vec<Value> = there.collect::<Option<_>>()?;
        if there.is_empty() || Shown::of(&there).hash(identities) != self.shown {
            return None;
        }
        let place = sent.message_id(first)?;
        let insert = |json: &String| Edit::Insert { before: place, json: json.clone() };
        let mut edits: Vec<Edit> = self.instead.iter().map(insert).collect();
        edits.extend((first..behind).filter_map(|at| sent.message_id(at)).map(Edit::Remove));
        if !self.beside.is_empty() {
            let content = sent.content_array(sent.message_id(behind)?)?;
            let before = ElementId { array: content, index: 0 };
            edits.extend(self.beside.iter().map(|json| Edit::Insert { before, json: json.clone() }));
        }
        Some(edits)
    }
}

/// The asides of a session, oldest first.
#[derive(Default)]
pub(in crate::gateway) struct Asides {
    pub(super) all: Vec<Aside>,
    /// The view of the session that they were in; unknown of those that come from the store.
    view: Option<u64>,
    /// Whether the store was asked for those that it has.
    pub(super) is_loaded: bool,
    /// The session whose rows in the store are these.
    pub(super) stored_as: Option<SessionId>,
    /// Whether those rows are out of date.
    pub(super) is_changed: bool,
}

impl Asides {
    pub(in crate::gateway) fn keep(&mut self, aside: Aside) {
        // A request that is made again is answered again.
        self.all.retain(|known| known.after != aside.after);
        self.all.push(aside);
        self.is_changed = true;
        self.only_newest(MOST);
    }

    /// Another view is in force, which has room for what the model works with now, and for nothing older.
    pub(in crate::gateway) fn turn_to(&mut self, view: u64) {
        if self.view.replace(view).is_some_and(|before| before != view) {
            self.only_newest(1);
        }
    }

    fn only_newest(&mut self, most: usize) {
        let surplus = self.all.len().saturating_sub(most);
        self.is_changed |= surplus > 0;
        self.all.drain(..surplus);
    }

    /// About how many tokens they add to a request of this history.
    pub(in crate::gateway) fn tokens(&self, chain: &[Identity]) -> Tokens {
        let is_in = |aside: &&Aside| chain.contains(&aside.after);
        self.all.iter().filter(is_in).fold(Tokens::ZERO, |sum, aside| sum + aside.tokens())
    }
}

/// Whether our tools can be offered beside what a request asks for.
pub(in crate::gateway) fn offers(body: &str) -> bool {
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
        name.and_then(Value::as_str).and_then(Tool::named).is_some()
    };
    serde_json::from_str::<Opening>(body).is_ok_and(|opening| {
        opening.n.is_none_or(|replies| replies == 1)
            && opening.functions.is_none()
            && opening.background != Some(true)
            && opening.conversation.is_none()
            && !opening.tools.iter().flatten().any(is_ours)
    })
}

/// Our tools as a dialect defines tools.
fn definitions(dialect: Dialect) -> Vec<String> {
    let define = |tool: Tool| {
        let (name, description, schema) = (tool.name(), tool.description(), tool.schema());
        match dialect {
            Dialect::Messages => json!({"name": name, "description": description, "input_schema": schema}),
            Dialect::Chat => {
                let function = json!({"name": name, "description": description, "parameters": schema});
                json!({"type": "function", "function": function})
            }
            Dialect::Responses => {
                json!({"type": "function", "name": name, "description": description, "parameters": schema, "strict": false})
            }
        }
    };
    Tool::ALL.into_iter().map(|tool| define(tool).to_string()).collect()
}

/// About how many tokens the tools add to a request.
pub(in crate::gateway) fn tools_tokens(dialect: Dialect) -> Tokens {
    about(definitions(dialect).iter().map(String::len).sum())
}

/// The body with our tools and with what was said aside. Nothing, where something of it has no place.
pub(in crate::gateway) fn dressed(
    sent: &Transcript<'_>,
    chain: &[Identity],
    asides: &Asides,
    identities: &Identities,
) -> Option<String> {
    let mut edits = wire::offer(sent, &definitions(sent.dialect));
    edits.extend(asides.all.iter().filter_map(|aside| aside.edits(sent, chain, identities)).flatten());
    Some(Rewrite::new(sent, edits).ok()?.apply(sent.body))
}
