//! Chat Completions: a reply is one message, which grows by pieces; calls have a list of their own in it.

use serde_json::{Map, Value, json};

use super::sieve::{Call, Fields, Heard, Sieve, Used, arguments, ours, push};
use crate::gateway::events::Event;

const FIELDS: Fields =
    Fields { input: "prompt_tokens", output: "completion_tokens", total: Some("total_tokens") };
const DONE: &[u8] = b"[DONE]";
const PLAIN: [&str; 4] = ["role", "content", "tool_calls", "tool_call_id"];
/// What parts the words of two answers, which become one text.
const BETWEEN: &str = "\n\n";
/// The words for having called a tool. Some upstreams call and say that they just stopped.
const CALLED: [&str; 3] = ["tool_calls", "function_call", "stop"];

#[derive(Default)]
pub(super) struct Chat {
    is_later: bool,
    /// What all chunks are known by.
    id: Option<(Value, Value)>,
    /// What was shown of the answers before.
    text: String,
    /// How many calls were shown.
    opened: usize,
    used: Used,
    /// The answer that is read: its message without its calls,
    message: Map<String, Value>,
    calls: Vec<Draft>,
    /// why it stopped,
    finish: Option<String>,
    /// whether it has ended,
    is_over: bool,
    /// how it ended, as far as that is held back,
    closing: Vec<Value>,
    /// and all of it, where it came as one document; of the first answer, where there are more.
    document: Option<Value>,
}

/// A call, as far as it has come.
struct Draft {
    index: Value,
    value: Value,
    /// Where the client sees it, if it does.
    at: Option<usize>,
}

/// What is done with a chunk.
enum Shown {
    AsItCame,
    Changed,
    Not,
}

impl Chat {
    fn has_ours(&self) -> bool {
        self.calls.iter().any(|call| call.at.is_none())
    }

    fn has_others(&self) -> bool {
        self.calls.iter().any(|call| call.at.is_some())
    }

    /// The call that a piece belongs to: a new one where it has a name, or an id that none at its place has.
    fn draft(&mut self, piece: &Value) -> usize {
        let (index, id) = (&piece["index"], &piece["id"]);
        let is_its = |call: &Draft| {
            call.index == *index && (id.as_str().is_none_or(str::is_empty) || call.value["id"] == *id)
        };
        if let Some(known) = self.calls.iter().rposition(is_its) {
            return known;
        }
        let at = ours(&piece["function"]["name"]).is_none().then_some(self.opened);
        self.opened += usize::from(at.is_some());
        self.calls.push(Draft { index: index.clone(), value: json!({}), at });
        self.calls.len() - 1
    }

    /// Takes in what a chunk adds to a call. What is known of it stays, and its arguments grow.
    fn add(&mut self, piece: &Value) -> Option<usize> {
        let at = self.draft(piece);
        let draft = &mut self.calls[at];
        for (name, value) in piece.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "index" => {}
                "function" => {
                    let function = draft.value.as_object_mut();
                    let function = function.map(|call| call.entry("function").or_insert_with(|| json!({})));
                    if let Some(function) = function {
                        push(function, "arguments", &value["arguments"]);
                        if value["name"].as_str().is_some_and(|name| !name.is_empty()) {
                            function["name"] = value["name"].clone();
                        }
                    }
                }
                _ if value == "" => {}
                _ => draft.value[name] = value.clone(),
            }
        }
        draft.at
    }

    /// Takes in what a chunk adds to the message: texts and lists grow.
    fn grow(&mut self, delta: &Map<String, Value>) {
        for (name, value) in delta {
            match (name.as_str(), value) {
                ("role" | "tool_calls", _) | (_, Value::Null) => {}
                (_, Value::Array(more)) if more.is_empty() => {}
                (_, Value::String(more)) => match self.message.get_mut(name) {
                    Some(Value::String(text)) => text.push_str(more),
                    _ => drop(self.message.insert(name.clone(), value.clone())),
                },
                (_, Value::Array(more)) => match self.message.get_mut(name) {
                    Some(Value::Array(list)) => list.extend(more.iter().cloned()),
                    _ => drop(self.message.insert(name.clone(), value.clone())),
                },
                _ => drop(self.message.insert(name.clone(), value.clone())),
            }
        }
    }

    /// Takes in a chunk, and takes out of it what is not the client's.
    fn read(&mut self, chunk: &mut Value) -> Shown {
        self.used.note(&chunk["usage"]);
        let mut shown = Shown::AsItCame;
        let said_before =
            self.message.get("content").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let mut is_blank = false;
        if let Some(choice) = chunk["choices"].get_mut(0).and_then(Value::as_object_mut) {
            if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
                self.finish = Some(finish.to_owned());
            }
            if let Some(Value::Object(delta)) = choice.get_mut("delta") {
                self.grow(delta);
                if let Some(Value::Array(pieces)) = delta.get_mut("tool_calls") {
                    let all = pieces.len();
                    pieces.retain_mut(|piece| {
                        let at = self.add(piece);
                        if let Some(at) = at.filter(|at| piece["index"] != json!(*at)) {
                            piece["index"] = at.into();
                            shown = Shown::Changed;
                        }
                        at.is_some()
                    });
                    let (left, is_empty) = (pieces.len(), pieces.is_empty());
                    if left < all {
                        shown = Shown::Changed;
                    }
                    if is_empty {
                        delta.remove("tool_calls");
                    }
                }
                if self.is_later {
                    delta.remove("role");
                    shown = Shown::Changed;
                    let content =
                        delta.get("content").and_then(Value::as_str).filter(|text| !text.is_empty());
                    if let Some(content) = content.filter(|_| !said_before && !self.text.is_empty()) {
                        let parted = format!("{BETWEEN}{content}");
                        delta.insert("content".to_owned(), parted.into());
                    }
                }
                is_blank = delta.values().all(|value| value.is_null() || *value == "");
            }
            is_blank &= choice.get("finish_reason").is_none_or(Value::is_null);
        }
        if is_blank && matches!(shown, Shown::Changed) && chunk["usage"].is_null() {
            Shown::Not
        } else {
            shown
        }
    }

    /// The chunks of all answers are known by the first one's id.
    fn name(&mut self, chunk: &mut Value) {
        let (id, created) = (chunk["id"].clone(), chunk["created"].clone());
        let (id, created) = self.id.get_or_insert((id, created)).clone();
        if self.is_later {
            (chunk["id"], chunk["created"]) = (id, created);
        }
    }

    /// The words of all answers.
    fn said(&self) -> String {
        let now = self.message.get("content").and_then(Value::as_str).unwrap_or_default();
        let between = if self.text.is_empty() || now.is_empty() { "" } else { BETWEEN };
        format!("{}{between}{now}", self.text)
    }

    fn told_finish(&self) -> Option<&str> {
        let is_only_ours = self.has_ours() && !self.has_others();
        self.finish.as_deref().map(|word| if CALLED.contains(&word) && is_only_ours { "stop" } else { word })
    }

    fn shown_calls(&self) -> Vec<Value> {
        self.calls.iter().filter(|call| call.at.is_some()).map(|call| call.value.clone()).collect()
    }

    /// The message with these words and calls.
    fn message_of(&self, said: &str, calls: Vec<Value>) -> Value {
        let mut message = self.message.clone();
        message.remove("content");
        let content = if said.is_empty() { Value::Null } else { said.into() };
        let mut whole = json!({"role": "assistant", "content": content});
        if let Value::Object(whole) = &mut whole {
            whole.extend(message);
            if !calls.is_empty() {
                whole.insert("tool_calls".to_owned(), calls.into());
            }
        }
        whole
    }
}

/// A message with what every server takes: some send fields that they refuse to be sent.
pub(super) fn plain(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some(fields) = message.as_object_mut() {
        fields.retain(|name, _| PLAIN.contains(&name.as_str()));
    }
    message
}

fn written(chunk: &Value) -> Vec<u8> {
    format!("data: {chunk}\n\n").into_bytes()
}

impl Sieve for Chat {
    fn event(&mut self, event: Event, out: &mut Vec<u8>) {
        let Event { raw, data } = event;
        let Some(data) = data else { return out.extend(raw) };
        if data.trim_ascii() == DONE {
            self.is_over = true;
            if self.closing.is_empty() {
                out.extend(raw);
            }
            return;
        }
        let Ok(mut chunk) = serde_json::from_slice::<Value>(&data) else { return out.extend(raw) };
        if !chunk.is_object() || chunk["choices"].is_null() {
            return out.extend(raw);
        }
        self.name(&mut chunk);
        let shown = self.read(&mut chunk);
        if self.finish.is_some() && (self.is_later || self.has_ours()) {
            return self.closing.push(chunk);
        }
        match shown {
            Shown::AsItCame => out.extend(raw),
            Shown::Changed => out.extend(written(&chunk)),
            Shown::Not => {}
        }
    }

    fn whole(&mut self, document: Value) {
        self.used.note(&document["usage"]);
        let choice = &document["choices"][0];
        self.finish = Some(choice["finish_reason"].as_str().unwrap_or("stop").to_owned());
        if let Some(message) = choice["message"].as_object() {
            self.grow(message);
            for (index, call) in
                message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate()
            {
                let mut piece = call.clone();
                piece["index"] = index.into();
                self.add(&piece);
            }
        }
        self.document.get_or_insert(document);
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn heard(&self) -> Option<Heard> {
        let finish = self.finish.as_deref()?;
        let call = |draft: &Draft| {
            let function = &draft.value["function"];
            let tool = ours(&function["name"]).filter(|_| draft.at.is_none() && CALLED.contains(&finish))?;
            let arguments = arguments(function["arguments"].as_str().unwrap_or_default());
            Some(Call { id: draft.value["id"].clone(), tool, arguments })
        };
        let said = self.message.get("content").and_then(Value::as_str).unwrap_or_default();
        let calls = self.calls.iter().map(|call| call.value.clone()).collect();
        Some(Heard {
            reply: vec![self.message_of(said, calls)],
            calls: self.calls.iter().filter_map(call).collect(),
            has_ours: self.has_ours(),
            has_others: self.has_others(),
            usage: self.used.usage(),
        })
    }

    fn again(&mut self) {
        self.text = self.said();
        self.used.again(&FIELDS);
        self.message.clear();
        self.calls.clear();
        self.closing.clear();
        (self.is_later, self.is_over, self.finish) = (true, false, None);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let closing = std::mem::take(&mut self.closing);
        let is_held = !closing.is_empty();
        for mut chunk in closing {
            if let Some(choice) = chunk["choices"].get_mut(0)
                && !choice["finish_reason"].is_null()
            {
                choice["finish_reason"] = self.told_finish().into();
            }
            if chunk["usage"].is_object() {
                chunk["usage"] = self.used.told(&FIELDS).into();
            }
            out.extend(written(&chunk));
        }
        if is_held {
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
    }

    fn document(&self) -> Value {
        let mut document = self.document.clone().unwrap_or_default();
        let choice = &mut document["choices"][0];
        choice["message"] = self.message_of(&self.said(), self.shown_calls());
        choice["finish_reason"] = self.told_finish().into();
        document["usage"] = self.used.told(&FIELDS).into();
        document
    }

    fn shown(&self) -> Vec<Value> {
        vec![self.message_of(&self.said(), self.shown_calls())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of chunks, and what is heard.
    fn read(chunks: &[Value]) -> (String, Option<Heard>) {
        let (mut chat, mut out) = (Chat::default(), Vec::new());
        for chunk in chunks {
            let data = chunk.to_string().into_bytes();
            chat.event(Event { raw: written(chunk), data: Some(data) }, &mut out);
        }
        let heard = chat.heard();
        chat.close(&mut out);
        (String::from_utf8(out).unwrap(), heard)
    }

    fn chunk(delta: &Value, finish: Option<&str>) -> Value {
        json!({"id": "a", "created": 1, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }

    #[test]
    fn calls_that_come_whole_without_a_place_and_with_the_end_are_told_apart() {
        let ours =
            json!({"id": "1", "type": "function", "function": {"name": "recall_outline", "arguments": "{}"}});
        let theirs = json!({"id": "2", "type": "function", "function": {"name": "ls", "arguments": "{}"}});
        let (shown, heard) =
            read(&[chunk(&json!({"role": "assistant", "tool_calls": [ours.clone()]}), Some("stop"))]);
        let heard = heard.unwrap();
        assert_eq!((heard.calls.len(), heard.has_others), (1, false));
        assert!(!shown.contains("recall_"), "{shown}");
        let (shown, heard) = read(&[
            chunk(&json!({"role": "assistant", "tool_calls": [ours]}), None),
            chunk(&json!({"tool_calls": [theirs]}), Some("tool_calls")),
        ]);
        let heard = heard.unwrap();
        assert_eq!((heard.calls.len(), heard.has_others), (1, true));
        assert!(!shown.contains("recall_") && shown.contains(r#""name":"ls""#), "{shown}");
        assert_eq!(heard.reply[0]["tool_calls"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_was_thought_goes_back_to_who_thought_it() {
        let call = json!({"index": 0, "id": "1", "function": {"name": "recall_outline", "arguments": ""}, "extra_content": {"sealed": "x"}});
        let (_, heard) = read(&[
            chunk(&json!({"role": "assistant", "reasoning_content": "I do "}), None),
            chunk(&json!({"reasoning_content": "not know.", "reasoning_details": [{"text": "a"}]}), None),
            chunk(&json!({"reasoning_details": [{"text": "b"}], "tool_calls": [call]}), None),
            chunk(
                &json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
                Some("tool_calls"),
            ),
        ]);
        let reply = heard.unwrap().reply.remove(0);
        assert_eq!(reply["reasoning_content"], "I do not know.");
        assert_eq!(reply["reasoning_details"], json!([{"text": "a"}, {"text": "b"}]));
        assert_eq!(reply["tool_calls"][0]["extra_content"]["sealed"], "x");
        assert_eq!(reply["tool_calls"][0]["function"]["arguments"], "{}");
    }

    #[test]
    fn a_reply_without_calls_of_ours_is_handed_on_to_the_last_byte() {
        let chunks = [
            chunk(&json!({"role": "assistant", "content": ""}), None),
            chunk(&json!({"content": "well"}), None),
            chunk(
                &json!({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "ls", "arguments": ""}}]}),
                None,
            ),
            chunk(&json!({}), Some("tool_calls")),
            json!({"id": "a", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}),
        ];
        let all: Vec<u8> = chunks.iter().flat_map(written).collect();
        assert_eq!(read(&chunks).0.into_bytes(), all);
    }
}
