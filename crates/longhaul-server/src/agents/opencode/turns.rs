//! Which messages are sent, and what each part becomes.

use std::collections::BTreeMap;

use longhaul_engine::Dialect;
use serde_json::{Value, json};

use super::super::draft::{Drafts, data_url, picture, wire, words};
use super::super::{Extent, Moment, Origin, Piece, Role, Turn};
use super::store::{Message, Part};
use super::usage::{Steps, steps};
use super::{Target, text};

/// What stands in place of a part that asks for a compaction.
const QUESTION: &str = "What did we do so far?";
/// What stands in place of work that the user gave to a subagent.
const SUBTASK: &str = "The following tool was executed by the user";
/// What stands in place of an output that was cleared.
const CLEARED: &str = "[Old tool result content cleared]";
/// What stands in place of an output that never came.
const INTERRUPTED: &str = "[Tool execution was interrupted]";
/// What stands before pictures of results, where a result cannot hold them.
const ATTACHED: &str = "Attached image(s) from tool result:";

/// Parts that are not sent: marks, snapshots, and what has become text of its own.
const NOT_SENT: [&str; 8] =
    ["step-start", "step-finish", "patch", "snapshot", "retry", "agent", "compaction", "subtask"];

/// A compaction that was finished: where it was asked for, and from which message on the newest were kept.
pub(super) struct Compaction {
    asked: usize,
    summary: usize,
    kept_from: Option<String>,
}

/// The compactions that were finished, oldest first.
pub(super) fn compactions(messages: &[Message]) -> Vec<Compaction> {
    messages
        .iter()
        .enumerate()
        .filter(|(_, message)| is_summary(message))
        .filter_map(|(summary, message)| {
            let asked = messages.iter().position(|other| message.info["parentID"] == other.id.as_str())?;
            let prompt = Some(&messages[asked]).filter(|prompt| prompt.info["role"] == "user")?;
            let part = prompt.parts.iter().find(|part| part.data["type"] == "compaction")?;
            Some(Compaction { asked, summary, kept_from: text(&part.data["tail_start_id"]) })
        })
        .collect()
}

/// A summary that was finished.
fn is_summary(message: &Message) -> bool {
    let info = &message.info;
    info["summary"] == true && info["finish"].is_string() && info["error"].is_null()
}

/// The messages that are sent, in order.
pub(super) fn chosen(messages: Vec<Message>, revert: &Value, extent: Extent) -> Vec<Message> {
    let left = not_reverted(messages, revert);
    match extent {
        Extent::Whole => left.into_iter().filter(|message| message.info["summary"] != true).collect(),
        Extent::Next => after_compaction(left),
    }
}

/// The question, the summary, what was kept, what follows.
fn after_compaction(messages: Vec<Message>) -> Vec<Message> {
    let Some(last) = compactions(&messages).pop() else { return messages };
    let kept_from = last.kept_from.and_then(|id| messages.iter().position(|message| message.id == id));
    let kept = kept_from.filter(|from| *from < last.asked).unwrap_or(last.asked)..last.asked;
    let place = |at: usize| match at {
        at if at == last.asked => Some(0),
        at if at == last.summary => Some(1),
        at if kept.contains(&at) => Some(2),
        at if at > last.asked => Some(3),
        _ => None,
    };
    let mut sent: Vec<(u8, Message)> =
        messages.into_iter().enumerate().filter_map(|(at, message)| Some((place(at)?, message))).collect();
    sent.sort_by_key(|(place, _)| *place);
    sent.into_iter().map(|(_, message)| message).collect()
}

/// What was taken back is deleted with the next prompt; of a message in whose midst that was, the parts before stay.
fn not_reverted(mut messages: Vec<Message>, revert: &Value) -> Vec<Message> {
    let Some(cut) = messages.iter().position(|message| revert["messageID"] == message.id.as_str()) else {
        return messages;
    };
    messages.truncate(cut + 1);
    match revert["partID"].as_str() {
        Some(part) => messages[cut].parts.retain(|kept| kept.id.as_str() < part),
        None => messages.truncate(cut),
    }
    messages
}

/// Makes turns of messages.
pub(super) struct Maker<'m> {
    pub(super) target: &'m Target,
    pub(super) extent: Extent,
    pub(super) steps: Steps,
    pub(super) unknown: BTreeMap<String, usize>,
    pub(super) drafts: Drafts,
}

impl Maker<'_> {
    /// Adds what a message becomes.
    pub(super) fn push(&mut self, message: &Message) {
        match message.info["role"].as_str() {
            Some("user") => self.prompt(message),
            Some("assistant") if was_lost(message) => {}
            Some("assistant") => self.reply(message),
            other => self.skip(&format!("role {}", other.unwrap_or("unnamed"))),
        }
    }

    fn skip(&mut self, kind: &str) {
        *self.unknown.entry(kind.to_owned()).or_default() += 1;
    }

    fn prompt(&mut self, message: &Message) {
        let mut pieces = Vec::new();
        for part in &message.parts {
            let data = &part.data;
            let piece = match data["type"].as_str().unwrap_or_default() {
                "text" if data["ignored"] == true => None,
                "text" => words(data["text"].as_str().unwrap_or_default()),
                "compaction" if self.extent == Extent::Next => words(QUESTION),
                "subtask" => words(SUBTASK),
                "file" => file(data, self.target.dialect).unwrap_or_else(|kind| {
                    self.skip(kind);
                    None
                }),
                kind if NOT_SENT.contains(&kind) => None,
                kind => {
                    self.skip(&format!("part {kind}"));
                    None
                }
            };
            pieces.extend(piece.map(|piece| (piece, Origin::Id(part.id.clone()))));
        }
        self.drafts.push(Turn { role: Role::User, pieces, at: created(message) }, None);
    }

    /// Each step of a reply is a message, with the results of its calls behind it.
    fn reply(&mut self, message: &Message) {
        let at = created(message);
        let mut pictures: Vec<(Piece, Origin)> = Vec::new();
        for (number, step) in steps(&message.parts).into_iter().enumerate() {
            let (said, results) = self.step(message, &step, &mut pictures);
            let answers = self.steps.get(&(message.id.clone(), number)).copied();
            self.drafts.push(Turn { role: Role::Assistant, pieces: said, at }, answers);
            for result in results {
                self.drafts.push(Turn { role: Role::Tool, pieces: vec![result], at }, None);
            }
        }
        if !pictures.is_empty() {
            pictures.insert(0, (Piece::Text(ATTACHED.to_owned()), Origin::Client));
            self.drafts.push(Turn { role: Role::User, pieces: pictures, at }, None);
        }
    }

    /// What is said in a step, and what came back.
    fn step(
        &mut self,
        message: &Message,
        step: &[&Part],
        pictures: &mut Vec<(Piece, Origin)>,
    ) -> (Pieces, Pieces) {
        let dialect = self.target.dialect;
        let own = self.target.wrote(&message.info);
        let (mut said, mut results) = (Vec::new(), Vec::new());
        for part in step {
            let data = &part.data;
            let origin = Origin::Id(part.id.clone());
            match data["type"].as_str().unwrap_or_default() {
                "text" => {
                    said.extend(
                        words(data["text"].as_str().unwrap_or_default()).map(|piece| (piece, origin)),
                    );
                }
                "reasoning" => said.extend(thought(data, own, dialect).map(|piece| (piece, origin))),
                "tool" => match tool(data, dialect, self.extent) {
                    Some(Tool { call, result, shown }) => {
                        said.push((call, origin.clone()));
                        results.push((result, origin.clone()));
                        pictures.extend(shown.into_iter().map(|piece| (piece, origin.clone())));
                    }
                    None => self.skip("tool without a name or an id"),
                },
                kind if NOT_SENT.contains(&kind) || kind == "file" => {}
                kind => self.skip(&format!("part {kind}")),
            }
        }
        (said, results)
    }
}

type Pieces = Vec<(Piece, Origin)>;

fn created(message: &Message) -> Option<Moment> {
    message.info["time"]["created"].as_i64().map(Moment)
}

/// A reply with an error is not sent, unless it was stopped after it had said something.
fn was_lost(message: &Message) -> bool {
    let error = &message.info["error"];
    let says = |part: &Part| !matches!(part.data["type"].as_str(), Some("step-start" | "reasoning"));
    let stopped = error["name"] == "MessageAbortedError";
    !error.is_null() && (!stopped || !message.parts.iter().any(says))
}

/// A file of a prompt. Texts and folders have become texts of their own.
fn file(data: &Value, dialect: Dialect) -> Result<Option<Piece>, &'static str> {
    let mime = data["mime"].as_str().unwrap_or_default();
    let url = data["url"].as_str().unwrap_or_default();
    if matches!(mime, "text/plain" | "application/x-directory") {
        return Ok(None);
    }
    if mime.starts_with("image/") {
        return picture(url, dialect).map(Some).ok_or("picture that is elsewhere");
    }
    let Some((media, held)) = data_url(url) else { return Err("file that is elsewhere") };
    let name = data["filename"].as_str().unwrap_or("file");
    let source = json!({"type": "base64", "media_type": media, "data": held});
    Ok(wire(&match dialect {
        Dialect::Messages => json!({"type": "document", "source": source, "title": name}),
        Dialect::Chat => json!({"type": "file", "file": {"filename": name, "file_data": url}}),
        Dialect::Responses => json!({"type": "input_file", "filename": name, "file_data": url}),
    }))
}

/// What was thought: words for another model; for the same one with its signature, without which Messages does not take it.
fn thought(data: &Value, own: bool, dialect: Dialect) -> Option<Piece> {
    let said = data["text"].as_str().unwrap_or_default();
    if !own {
        return if said.trim().is_empty() { None } else { words(said) };
    }
    let held = |name: &str| data["metadata"].as_object()?.values().find_map(|provider| text(&provider[name]));
    match (dialect, held("signature"), held("redactedData")) {
        (Dialect::Messages, _, Some(data)) => wire(&json!({"type": "redacted_thinking", "data": data})),
        (Dialect::Messages, None, None) => None,
        (_, signature, _) => {
            let signature = signature.or(held("reasoningEncryptedContent"));
            (!said.is_empty()).then(|| Piece::Thinking { text: said.to_owned(), signature })
        }
    }
}

/// A call and what came back, with pictures that the result cannot hold.
struct Tool {
    call: Piece,
    result: Piece,
    shown: Vec<Piece>,
}

fn tool(data: &Value, dialect: Dialect, extent: Extent) -> Option<Tool> {
    let state = &data["state"];
    let id = call_id(data["callID"].as_str()?, dialect);
    let input = if state["input"].is_object() { state["input"].clone() } else { json!({}) };
    let call = Piece::Call { id: id.clone(), name: text(&data["tool"])?, arguments: input };
    let cleared = extent == Extent::Next && !state["time"]["compacted"].is_null();
    let stopped = state["metadata"]["output"].as_str().filter(|_| state["metadata"]["interrupted"] == true);
    let (said, failed) = match (state["status"].as_str(), stopped) {
        (Some("completed"), _) if cleared => (CLEARED, false),
        (Some("completed"), _) => (state["output"].as_str().unwrap_or_default(), false),
        (Some("error"), Some(output)) => (output, false),
        (Some("error"), None) => (state["error"].as_str().unwrap_or_default(), true),
        _ => (INTERRUPTED, true),
    };
    let attached = state["attachments"].as_array().filter(|_| !cleared).into_iter().flatten();
    let mut shown: Vec<Piece> = attached
        .filter(|file| file["mime"].as_str().is_some_and(|mime| mime.starts_with("image/")))
        .filter_map(|file| picture(file["url"].as_str()?, dialect))
        .collect();
    let mut content = vec![Piece::Text(said.to_owned())];
    if dialect != Dialect::Chat {
        content.append(&mut shown);
    }
    Some(Tool { call, result: Piece::Result { id, content, failed }, shown })
}

/// Ids as Messages wants them.
fn call_id(id: &str, dialect: Dialect) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    match dialect {
        Dialect::Messages => id.chars().map(valid).collect(),
        Dialect::Chat | Dialect::Responses => id.to_owned(),
    }
}
