//! The records of Gemini CLI as messages.

use std::collections::{BTreeMap, HashMap};

use longhaul_engine::Dialect;
use serde_json::{Value, json};

use super::super::{Extent, Origin, Piece, Role, Turn};
use super::{Record, moment};

/// How texts begin that are the user's to the program, or the program's own.
const NOT_SENT: &[&str] = &["/", "?", "<session_context>", "<hook_context>"];

/// Where a call has no result in the file; an OpenAI-like endpoint takes no call without one.
const NO_RESULT: &str = "no result was recorded";

/// What came out.
pub(super) struct Written {
    pub(super) turns: Vec<Turn>,
    /// The turn that the reply of a record became.
    pub(super) replies: HashMap<String, usize>,
}

pub(super) fn write(
    records: &[&Record],
    (extent, dialect): (Extent, Dialect),
    unknown: &mut BTreeMap<String, usize>,
) -> Written {
    let written = Written { turns: Vec::new(), replies: HashMap::new() };
    let mut writer = Writer { written, dialect, unknown };
    for record in records {
        let value = match extent {
            Extent::Next => &record.value,
            Extent::Whole => record.before.as_ref().unwrap_or(&record.value),
        };
        match value["type"].as_str().unwrap_or_default() {
            "user" => writer.user(record, value),
            "gemini" => writer.model(record, value),
            "info" | "error" | "warning" => {}
            kind => *writer.unknown.entry(kind.to_owned()).or_default() += 1,
        }
    }
    writer.written
}

struct Writer<'u> {
    written: Written,
    dialect: Dialect,
    unknown: &'u mut BTreeMap<String, usize>,
}

/// A call of a reply, and what came of it.
struct Call<'c> {
    id: String,
    name: String,
    arguments: Value,
    /// The program's own record of it.
    done: Option<&'c Value>,
}

impl Writer<'_> {
    fn push(&mut self, role: Role, record: &Record, value: &Value, pieces: Vec<Piece>) {
        if pieces.is_empty() {
            return;
        }
        let pieces = pieces.into_iter().map(|piece| (piece, record.origin.clone())).collect();
        self.written.turns.push(Turn { role, pieces, at: moment(value) });
    }

    fn user(&mut self, record: &Record, value: &Value) {
        let parts = parts(&value["content"]);
        let words: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        if NOT_SENT.iter().any(|start| words.trim_start().starts_with(start)) {
            return;
        }
        let pieces: Vec<Piece> = parts.iter().filter_map(|part| self.said(part)).collect();
        self.push(Role::User, record, value, pieces);
    }

    /// Words and pictures; what is neither is counted.
    fn said(&mut self, part: &Value) -> Option<Piece> {
        if let Some(words) = part["text"].as_str() {
            return (!words.is_empty()).then(|| Piece::Text(words.to_owned()));
        }
        if let Some(picture) = picture(part) {
            return Some(picture);
        }
        let kind = part.as_object().and_then(|part| part.keys().next()).map_or("part", String::as_str);
        *self.unknown.entry(format!("part of {kind}")).or_default() += 1;
        None
    }

    /// Content that holds calls or thoughts itself is the whole reply; otherwise they stand beside it.
    fn model(&mut self, record: &Record, value: &Value) {
        let parts = parts(&value["content"]);
        let done = value["toolCalls"].as_array().map_or(&[][..], Vec::as_slice);
        let holds = |name: &str| parts.iter().any(|part| !part[name].is_null());
        let is_whole = holds("functionCall") || parts.iter().any(|part| part["thought"] == true);
        let mut pieces = Vec::new();
        if !is_whole {
            let thoughts = value["thoughts"].as_array().map_or(&[][..], Vec::as_slice);
            pieces.extend(
                thoughts
                    .iter()
                    .map(|thought| Piece::Thinking { text: thought_words(thought), signature: None }),
            );
        }
        for part in parts.iter().filter(|part| part["functionCall"].is_null()) {
            match part["text"].as_str().filter(|_| part["thought"] == true) {
                Some(thought) => pieces.push(Piece::Thinking { text: thought.to_owned(), signature: None }),
                None => pieces.extend(self.said(part)),
            }
        }
        let calls = if is_whole { calls_in(&parts, done, record) } else { calls_beside(done, record) };
        // Thoughts alone say nothing in this form.
        if calls.is_empty() && pieces.iter().all(|piece| matches!(piece, Piece::Thinking { .. })) {
            return;
        }
        pieces.extend(calls.iter().map(|call| {
            let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            Piece::Call { id, name, arguments }
        }));
        self.written.replies.insert(record.id.clone(), self.written.turns.len());
        self.push(Role::Assistant, record, value, pieces);
        self.results(&calls, record, value);
    }

    /// A message for each result, or one for all in Messages; pictures among them follow as the user's, because a result is words here.
    fn results(&mut self, calls: &[Call<'_>], record: &Record, value: &Value) {
        let mut pictures = Vec::new();
        let mut together = Vec::new();
        for call in calls {
            let result = call.done.map(|done| &done["result"]).filter(|result| !result.is_null());
            let origin = if result.is_some() { record.origin.clone() } else { Origin::Client };
            let (words, failed) = result.map_or((NO_RESULT.to_owned(), true), outcome);
            pictures.extend(result.into_iter().flat_map(parts).filter_map(|part| picture(&part)));
            let piece = Piece::Result { id: call.id.clone(), content: vec![Piece::Text(words)], failed };
            let at = call.done.and_then(moment).or_else(|| moment(value));
            match self.dialect {
                Dialect::Messages => together.push((piece, origin)),
                Dialect::Chat | Dialect::Responses => {
                    self.written.turns.push(Turn { role: Role::Tool, pieces: vec![(piece, origin)], at });
                }
            }
        }
        if !together.is_empty() {
            self.written.turns.push(Turn { role: Role::User, pieces: together, at: moment(value) });
        }
        self.push(Role::User, record, value, pictures);
    }
}

fn parts(content: &Value) -> Vec<Value> {
    match content {
        Value::Null => Vec::new(),
        Value::Array(parts) => parts.iter().map(part).collect(),
        one => vec![part(one)],
    }
}

fn part(value: &Value) -> Value {
    match value {
        Value::String(words) => json!({"text": words}),
        other => other.clone(),
    }
}

fn picture(part: &Value) -> Option<Piece> {
    let held = &part["inlineData"];
    let (media, data) = (held["mimeType"].as_str()?, held["data"].as_str()?);
    media.starts_with("image/").then(|| Piece::Image { media: media.to_owned(), data: data.to_owned() })
}

fn thought_words(thought: &Value) -> String {
    let description = thought["description"].as_str().unwrap_or_default();
    match thought["subject"].as_str().filter(|subject| !subject.is_empty()) {
        Some(subject) => format!("**{subject}** {description}"),
        None => description.to_owned(),
    }
}

/// The calls that content holds, each with the program's record of it: the one of its id, or the one at its place.
fn calls_in<'c>(parts: &[Value], done: &'c [Value], record: &Record) -> Vec<Call<'c>> {
    let held = parts.iter().map(|part| &part["functionCall"]).filter(|call| !call.is_null());
    held.enumerate()
        .map(|(at, call)| {
            let own = call["id"].as_str();
            let of_id = done.iter().find(|done| own.is_some() && done["id"].as_str() == own);
            let done = of_id.or_else(|| done.get(at).filter(|_| own.is_none()));
            let id = own.or_else(|| done.and_then(|done| done["id"].as_str()));
            self::call(id, &call["name"], &call["args"], done, (record, at))
        })
        .collect()
}

fn calls_beside<'c>(done: &'c [Value], record: &Record) -> Vec<Call<'c>> {
    let call = |(at, done): (usize, &'c Value)| {
        self::call(done["id"].as_str(), &done["name"], &done["args"], Some(done), (record, at))
    };
    done.iter().enumerate().map(call).collect()
}

fn call<'c>(
    id: Option<&str>,
    name: &Value,
    arguments: &Value,
    done: Option<&'c Value>,
    at: (&Record, usize),
) -> Call<'c> {
    let (record, place) = at;
    // The same file gives the same ids.
    let invented = || format!("call_{}_{place}", record.id);
    let arguments = if arguments.is_null() { json!({}) } else { arguments.clone() };
    Call {
        id: id.map_or_else(invented, str::to_owned),
        name: name.as_str().unwrap_or("tool").to_owned(),
        arguments,
        done,
    }
}

/// What a result says, and whether it tells of a failure.
fn outcome(result: &Value) -> (String, bool) {
    let mut words = Vec::new();
    let mut failed = false;
    for part in parts(result) {
        let response = &part["functionResponse"]["response"];
        if let Some(said) = part["text"].as_str() {
            words.push(said.to_owned());
        } else if let Some(output) = response["output"].as_str() {
            words.push(output.to_owned());
        } else if let Some(error) = response["error"].as_str() {
            words.push(error.to_owned());
            failed = true;
        } else if !response.is_null() {
            words.push(response.to_string());
        }
    }
    (words.join("\n"), failed)
}
