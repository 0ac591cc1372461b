//! The entries of a branch as the messages that pi makes of them.
//!
//! Replies that failed or were broken off are left out, and a call that nothing came back for gets a stub of a result. What
//! another model thought goes out as words, and what only that one can read not at all. Neighbouring prompts stay apart;
//! neighbouring results share a message where the dialect wants that.

use std::collections::{BTreeMap, HashMap, HashSet};

use longhaul_engine::Dialect;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::lines::Line;
use super::super::{Moment, Origin, Piece, Role, Turn};
use super::Speaker;

/// What pi puts around the summary of a compaction,
const COMPACTED: (&str, &str) = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
);
/// and around the one of a branch that was left.
const LEFT: (&str, &str) = (
    "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n",
    "</summary>",
);
/// In place of a result that never came.
const STUB: &str = "No result provided";
/// Before the pictures of results, where a result can only be words,
const PICTURES: &str = "Attached image(s) from tool result:";
/// and in place of a result that is pictures only.
const PICTURE: &str = "(see attached image)";

/// The turns as they are made.
pub(super) struct Turns {
    dialect: Dialect,
    model: Option<String>,
    written: Written,
    /// Calls whose results may still come,
    open: Vec<String>,
    /// and those that are there.
    answered: HashSet<String>,
    /// What ids became that another provider would refuse.
    renamed: HashMap<String, String>,
    /// Whether a result would join the last turn.
    in_results: bool,
    /// Pictures of results that wait for the last of them.
    pictures: Vec<(Piece, Origin)>,
    unknown: BTreeMap<String, usize>,
}

/// What came out.
#[derive(Default)]
pub(super) struct Written {
    pub(super) turns: Vec<Turn>,
    /// The first turn that the reply on a line became.
    pub(super) replies: HashMap<usize, usize>,
}

/// Where something stands, and when it was said.
#[derive(Clone, Copy)]
struct At {
    line: usize,
    time: Option<Moment>,
}

impl Turns {
    pub(super) fn new(dialect: Dialect, model: Option<String>) -> Self {
        Self {
            dialect,
            model,
            written: Written::default(),
            open: Vec::new(),
            answered: HashSet::new(),
            renamed: HashMap::new(),
            in_results: false,
            pictures: Vec::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// The summary that stands for what was compacted.
    pub(super) fn summary(&mut self, line: &Line<'_>) -> serde_json::Result<()> {
        let (entry, at) = parse(line)?;
        self.wrapped(COMPACTED, &entry, at);
        Ok(())
    }

    /// What an entry says to the model, if anything.
    pub(super) fn entry(&mut self, line: &Line<'_>) -> serde_json::Result<()> {
        let (entry, at) = parse(line)?;
        match text(&entry, "type") {
            "message" => self.message(&entry["message"], at),
            "custom_message" => self.prompt(&entry["content"], at),
            "branch_summary" => self.wrapped(LEFT, &entry, at),
            _ => {}
        }
        Ok(())
    }

    /// The turns, once nothing more comes, and what among them was not understood.
    pub(super) fn finish(mut self, unknown: &mut BTreeMap<String, usize>) -> Written {
        self.close();
        for (kind, count) in self.unknown {
            *unknown.entry(kind).or_default() += count;
        }
        self.written
    }

    fn message(&mut self, message: &Value, at: At) {
        match text(message, "role") {
            "user" | "custom" | "hookMessage" => self.prompt(&message["content"], at),
            "assistant" => self.reply(message, at),
            "toolResult" => self.result(message, at),
            "bashExecution" if message["excludeFromContext"] == true => {}
            "bashExecution" => self.said(vec![(Piece::Text(command(message)), Origin::Line(at.line))], at),
            role => *self.unknown.entry(format!("message of {role}")).or_default() += 1,
        }
    }

    fn wrapped(&mut self, (before, after): (&str, &str), entry: &Value, at: At) {
        let summary = text(entry, "summary");
        if !summary.is_empty() {
            self.said(vec![(Piece::Text(format!("{before}{summary}{after}")), Origin::Line(at.line))], at);
        }
    }

    fn prompt(&mut self, content: &Value, at: At) {
        let mut pieces = self.content(content);
        if self.dialect == Dialect::Messages {
            pieces.retain(|piece| !is_blank(piece));
        }
        self.said(pieces.into_iter().map(|piece| (piece, Origin::Line(at.line))).collect(), at);
    }

    /// The user says something: what was open is closed with it.
    fn said(&mut self, pieces: Vec<(Piece, Origin)>, at: At) {
        self.close();
        if !pieces.is_empty() {
            self.written.turns.push(Turn { role: Role::User, pieces, at: at.time });
        }
    }

    /// Words and pictures.
    fn content(&mut self, content: &Value) -> Vec<Piece> {
        if let Some(words) = content.as_str() {
            return vec![Piece::Text(words.to_owned())];
        }
        let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
        blocks
            .iter()
            .filter_map(|block| match text(block, "type") {
                "text" => Some(Piece::Text(text(block, "text").to_owned())),
                "image" => {
                    let (media, data) = (text(block, "mimeType").to_owned(), text(block, "data").to_owned());
                    Some(Piece::Image { media, data })
                }
                kind => {
                    *self.unknown.entry(format!("block of {kind}")).or_default() += 1;
                    None
                }
            })
            .collect()
    }

    fn reply(&mut self, message: &Value, at: At) {
        self.close();
        if matches!(text(message, "stopReason"), "error" | "aborted") {
            return;
        }
        let speaker = Speaker {
            api: message["api"].as_str().map(str::to_owned),
            provider: message["provider"].as_str().map(str::to_owned),
            model: message["model"].as_str().map(str::to_owned),
        };
        let own =
            self.model.as_deref().is_some_and(|name| speaker.is(name)) && speaker.dialect() == self.dialect;
        let voice = if own { Voice::Own } else { Voice::Other };
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let pieces: Vec<(Piece, Origin)> = blocks
            .iter()
            .filter_map(|block| self.piece(block, voice))
            .map(|piece| (piece, Origin::Line(at.line)))
            .collect();
        if pieces.is_empty() {
            return;
        }
        self.written.replies.insert(at.line, self.written.turns.len());
        let turn = |pieces| Turn { role: Role::Assistant, pieces, at: at.time };
        match self.dialect {
            Dialect::Responses => {
                self.written.turns.extend(pieces.into_iter().map(|piece| turn(vec![piece])));
            }
            Dialect::Messages | Dialect::Chat => self.written.turns.push(turn(pieces)),
        }
    }

    /// A block of a reply, as it goes to the model that is asked now.
    fn piece(&mut self, block: &Value, voice: Voice) -> Option<Piece> {
        match text(block, "type") {
            "thinking" => self.thought(block, voice),
            "text" => {
                let words = Piece::Text(text(block, "text").to_owned());
                match self.dialect {
                    Dialect::Responses => Some(signed_words(block, voice).unwrap_or(words)),
                    Dialect::Messages | Dialect::Chat => (!is_blank(&words)).then_some(words),
                }
            }
            "toolCall" => Some(self.call(block, voice)),
            kind => {
                *self.unknown.entry(format!("block of {kind}")).or_default() += 1;
                None
            }
        }
    }

    fn thought(&self, block: &Value, voice: Voice) -> Option<Piece> {
        let words = text(block, "thinking");
        let signature =
            Some(text(block, "thinkingSignature")).filter(|signature| !signature.trim().is_empty());
        let is_sealed = block["redacted"] == true;
        match (voice, self.dialect) {
            (Voice::Other, _) if is_sealed || words.trim().is_empty() => None,
            (Voice::Other, _) => Some(Piece::Text(words.to_owned())),
            // The signature is the item.
            (Voice::Own, Dialect::Responses) => wire_of(signature?),
            (Voice::Own, Dialect::Messages) if is_sealed => {
                wire_of(&json!({"type": "redacted_thinking", "data": signature?}).to_string())
            }
            (Voice::Own, _) if words.trim().is_empty() => None,
            (Voice::Own, Dialect::Messages) if signature.is_none() => Some(Piece::Text(words.to_owned())),
            (Voice::Own, _) => {
                Some(Piece::Thinking { text: words.to_owned(), signature: signature.map(str::to_owned) })
            }
        }
    }

    fn call(&mut self, block: &Value, voice: Voice) -> Piece {
        let (own, name) = (text(block, "id"), text(block, "name").to_owned());
        let arguments = match &block["arguments"] {
            Value::Null => json!({}),
            arguments => arguments.clone(),
        };
        let id = self.sent_id(own, voice);
        self.open.push(id.clone());
        self.renamed.insert(own.to_owned(), id.clone());
        let item = own.split_once('|').map(|(_, item)| item);
        if let (Dialect::Responses, Voice::Own, Some(item)) = (self.dialect, voice, item) {
            let call = json!({
                "type": "function_call", "id": item, "call_id": id, "name": name, "arguments": arguments.to_string(),
            });
            if let Some(wire) = wire_of(&call.to_string()) {
                return wire;
            }
        }
        Piece::Call { id, name, arguments }
    }

    /// Ids of Responses models are `call|item`; Messages refuses those, and all that are long.
    fn sent_id(&self, id: &str, voice: Voice) -> String {
        let call = id.split_once('|').map_or(id, |(call, _)| call);
        match (self.dialect, voice) {
            (Dialect::Messages, Voice::Own) => id.to_owned(),
            (Dialect::Messages, Voice::Other) => plain(id, 64),
            (Dialect::Responses | Dialect::Chat, Voice::Own) => call.to_owned(),
            (Dialect::Responses, Voice::Other) => plain(call, 64),
            (Dialect::Chat, Voice::Other) => plain(call, 40),
        }
    }

    fn result(&mut self, message: &Value, at: At) {
        let own = text(message, "toolCallId");
        let id = self.renamed.get(own).cloned().unwrap_or_else(|| self.sent_id(own, Voice::Own));
        self.answered.insert(id.clone());
        let origin = Origin::Line(at.line);
        let (pictures, words): (Vec<Piece>, Vec<Piece>) = self
            .content(&message["content"])
            .into_iter()
            .partition(|piece| matches!(piece, Piece::Image { .. }));
        let words: Vec<String> = words.into_iter().filter_map(words_of).collect();
        let words = match words.join("\n") {
            none if none.is_empty() && !pictures.is_empty() => PICTURE.to_owned(),
            words => words,
        };
        let mut content = vec![Piece::Text(words)];
        match self.dialect {
            Dialect::Messages => content.extend(pictures),
            Dialect::Chat | Dialect::Responses => {
                self.pictures.extend(pictures.into_iter().map(|piece| (piece, origin.clone())));
            }
        }
        let failed = message["isError"] == true;
        self.add_result((Piece::Result { id, content, failed }, origin), at.time);
    }

    fn add_result(&mut self, result: (Piece, Origin), at: Option<Moment>) {
        let role = if self.dialect == Dialect::Messages { Role::User } else { Role::Tool };
        match self.written.turns.last_mut() {
            Some(last) if self.in_results && role == Role::User => last.pieces.push(result),
            _ => self.written.turns.push(Turn { role, pieces: vec![result], at }),
        }
        self.in_results = true;
    }

    /// Results end here: stubs for those that never came, then their pictures.
    fn close(&mut self) {
        for id in std::mem::take(&mut self.open) {
            if !self.answered.contains(&id) {
                let content = vec![Piece::Text(STUB.to_owned())];
                self.add_result((Piece::Result { id, content, failed: true }, Origin::Client), None);
            }
        }
        self.answered.clear();
        self.in_results = false;
        if !self.pictures.is_empty() {
            let mut pieces = vec![(Piece::Text(PICTURES.to_owned()), Origin::Client)];
            pieces.append(&mut self.pictures);
            self.written.turns.push(Turn { role: Role::User, pieces, at: None });
        }
    }
}

/// Whose reply a block belongs to, seen from the model that is asked now.
#[derive(Clone, Copy)]
enum Voice {
    Own,
    Other,
}

fn parse(line: &Line<'_>) -> serde_json::Result<(Value, At)> {
    let entry: Value = serde_json::from_str(line.text)?;
    let time = entry["timestamp"].as_str().and_then(Moment::parse);
    Ok((entry, At { line: line.at.number, time }))
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn is_blank(piece: &Piece) -> bool {
    matches!(piece, Piece::Text(words) if words.trim().is_empty())
}

fn words_of(piece: Piece) -> Option<String> {
    match piece {
        Piece::Text(words) => Some(words),
        _ => None,
    }
}

fn wire_of(json: &str) -> Option<Piece> {
    RawValue::from_string(json.trim().to_owned()).ok().map(Piece::Wire)
}

/// Words of a Responses model are an item with an id, which its signature names, and sometimes a phase.
fn signed_words(block: &Value, voice: Voice) -> Option<Piece> {
    let signature = text(block, "textSignature");
    if signature.is_empty() || matches!(voice, Voice::Other) {
        return None;
    }
    let read: Value = serde_json::from_str(signature).unwrap_or_default();
    let id = read["id"].as_str().unwrap_or(signature);
    let content = json!([{"type": "output_text", "text": text(block, "text"), "annotations": []}]);
    let mut item =
        json!({"type": "message", "role": "assistant", "content": content, "status": "completed", "id": id});
    if let Some(phase) = read["phase"].as_str() {
        item["phase"] = phase.into();
    }
    wire_of(&item.to_string())
}

fn plain(id: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    id.chars().map(plain).take(longest).collect()
}

/// A command that the user ran, as words.
fn command(message: &Value) -> String {
    let output = match text(message, "output") {
        "" => "(no output)".to_owned(),
        output => format!("```\n{output}\n```"),
    };
    let mut words = format!("Ran `{}`\n{output}", text(message, "command"));
    if message["cancelled"] == true {
        words += "\n\n(command cancelled)";
    } else if let Some(code) = message["exitCode"].as_i64().filter(|code| *code != 0) {
        words.push_str("\n\nCommand exited with code ");
        words.push_str(&code.to_string());
    }
    if message["truncated"] == true && !text(message, "fullOutputPath").is_empty() {
        let path = text(message, "fullOutputPath");
        words.extend(["\n\n[Output truncated. Full output: ", path, "]"]);
    }
    words
}
