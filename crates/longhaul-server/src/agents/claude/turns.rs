//! Records as messages: what one reply was written in is joined, results go behind their calls, neighbours become one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::lines;
use super::super::{Moment, Origin, Piece, Role, Turn, Unread};
use super::index::{Id, Index, Kind};

/// What a path became.
pub(super) struct Made {
    pub(super) turns: Vec<Turn>,
    /// The turn of each reply.
    pub(super) replies: HashMap<Id, usize>,
    /// What was left out and is worth a word.
    pub(super) notes: Vec<String>,
}

/// A block of a record, as it was written.
struct Block {
    kind: String,
    /// The call that it is, or that it answers.
    call: Option<Id>,
    piece: Piece,
    /// White space alone.
    blank: bool,
}

/// A record, read again.
struct Said {
    at: Option<Moment>,
    blocks: Vec<Block>,
}

/// The turns of a path, for a request to `model`.
pub(super) fn of(file: &Path, index: &Index, path: &[usize], model: Option<&str>) -> Result<Made, Unread> {
    let replies = replies(index, path);
    let mut wanted: BTreeSet<usize> = path.iter().copied().collect();
    wanted.extend(replies.values().flatten());
    let mut said = read(file, index, &wanted, model)?;
    let calls = calls(&replies, &said);
    // Results are looked up by their call, for many of them are not on the path.
    let mut results: BTreeSet<usize> =
        calls.iter().filter_map(|call| index.results.get(call)).flatten().copied().collect();
    results.retain(|at| !wanted.contains(at));
    said.extend(read(file, index, &results, model)?);
    Ok(Maker { index, said, results: HashMap::new(), taken: HashSet::new(), made: Vec::new(), unanswered: 0 }
        .make(path, &replies))
}

/// The records of every reply on the path: those on it first, then those that hang beside it.
fn replies(index: &Index, path: &[usize]) -> HashMap<Id, Vec<usize>> {
    let mut replies: HashMap<Id, Vec<usize>> = HashMap::new();
    for at in path {
        if let Some(reply) = index.entries[*at].1.reply {
            replies.entry(reply).or_default().push(*at);
        }
    }
    for (reply, on_path) in &mut replies {
        let known: HashSet<usize> = on_path.iter().copied().collect();
        let sidechain = index.entries[on_path[0]].1.sidechain;
        let beside = index.parts.get(reply).into_iter().flatten();
        on_path
            .extend(beside.filter(|at| !known.contains(at) && index.entries[**at].1.sidechain == sidechain));
    }
    replies
}

fn calls(replies: &HashMap<Id, Vec<usize>>, said: &BTreeMap<usize, Said>) -> HashSet<Id> {
    let blocks = replies.values().flatten().filter_map(|at| said.get(at)).flat_map(|said| &said.blocks);
    blocks.filter(|block| block.kind == "tool_use").filter_map(|block| block.call).collect()
}

struct Maker<'i> {
    index: &'i Index,
    said: BTreeMap<usize, Said>,
    /// Where the result of a call is: the record and the block in it.
    results: HashMap<Id, (usize, usize)>,
    /// Results that have their place.
    taken: HashSet<(usize, usize)>,
    made: Vec<(Turn, Option<Id>)>,
    unanswered: usize,
}

impl Maker<'_> {
    fn make(mut self, path: &[usize], replies: &HashMap<Id, Vec<usize>>) -> Made {
        self.find_results(path);
        let mut done = HashSet::new();
        for at in path {
            let record = self.index.entries[*at].1;
            match (record.kind, record.reply) {
                (Kind::Assistant, Some(reply)) if done.insert(reply) => {
                    self.reply(reply, replies.get(&reply).map_or(&[], Vec::as_slice));
                }
                (Kind::User | Kind::Attachment, _) => self.user(*at),
                _ => {}
            }
        }
        let notes = match self.unanswered {
            0 => Vec::new(),
            1 => vec!["1 call without a result is left out".to_owned()],
            more => vec![format!("{more} calls without a result are left out")],
        };
        let replies = self
            .made
            .iter()
            .enumerate()
            .filter_map(|(at, (_, reply))| reply.map(|reply| (reply, at)))
            .collect();
        Made { turns: self.made.into_iter().map(|(turn, _)| turn).collect(), replies, notes }
    }

    /// A call has one result: the one on the path, or the newest.
    fn find_results(&mut self, path: &[usize]) {
        let on_path: HashSet<usize> = path.iter().copied().collect();
        for (at, said) in &self.said {
            for (b, block) in said.blocks.iter().enumerate() {
                if let (Some(call), "tool_result") = (block.call, block.kind.as_str()) {
                    let known = self.results.get(&call).is_some_and(|(known, _)| on_path.contains(known));
                    if !known || on_path.contains(at) {
                        self.results.insert(call, (*at, b));
                    }
                }
            }
        }
    }

    fn reply(&mut self, reply: Id, records: &[usize]) {
        let mut turn = Turn { role: Role::Assistant, pieces: Vec::new(), at: None };
        let mut answers = Vec::new();
        let mut speaks = false;
        for at in records {
            let Some(said) = self.said.get(at) else { continue };
            turn.at = turn.at.max(said.at);
            let origin = Origin::Line(self.index.entries[*at].1.at.number);
            for block in said.blocks.iter().filter(|block| !block.blank) {
                if block.kind == "tool_use" {
                    match block.call.and_then(|call| self.results.get(&call)) {
                        Some(answer) if self.taken.insert(*answer) => answers.push(*answer),
                        _ => {
                            self.unanswered += 1;
                            continue;
                        }
                    }
                }
                speaks |= !block.kind.ends_with("thinking");
                turn.pieces.push((block.piece.clone(), origin.clone()));
            }
        }
        // A thought that nothing came of is not sent.
        if !speaks {
            return;
        }
        self.made.push((turn, Some(reply)));
        answers.sort_unstable();
        for (at, block) in answers {
            if let Some(said) = self.said.get(&at) {
                let origin = Origin::Line(self.index.entries[at].1.at.number);
                let (piece, moment) = (said.blocks[block].piece.clone(), said.at);
                self.add(piece, origin, moment);
            }
        }
    }

    fn user(&mut self, at: usize) {
        let Some(said) = self.said.remove(&at) else { return };
        let origin = Origin::Line(self.index.entries[at].1.at.number);
        // A result without a call that is sent would be refused; the others have their place already.
        for block in said.blocks.iter().filter(|block| !block.blank && block.kind != "tool_result") {
            self.add(block.piece.clone(), origin.clone(), said.at);
        }
        self.said.insert(at, said);
    }

    /// Neighbouring records of the user are one message.
    fn add(&mut self, piece: Piece, origin: Origin, at: Option<Moment>) {
        match self.made.last_mut() {
            Some((turn, _)) if turn.role == Role::User => {
                turn.pieces.push((piece, origin));
                turn.at = turn.at.max(at);
            }
            _ => self.made.push((Turn { role: Role::User, pieces: vec![(piece, origin)], at }, None)),
        }
    }
}

#[derive(Deserialize)]
struct Record {
    timestamp: Option<String>,
    message: Option<Message>,
    attachment: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    model: Option<String>,
    content: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    tool_use_id: Option<String>,
    text: Option<String>,
}

/// The lines of records, by their positions.
fn read(
    file: &Path,
    index: &Index,
    wanted: &BTreeSet<usize>,
    model: Option<&str>,
) -> Result<BTreeMap<usize, Said>, Unread> {
    let mut lines: Vec<_> = wanted.iter().map(|at| index.entries[*at].1.at).collect();
    let by_line: HashMap<usize, usize> =
        wanted.iter().map(|at| (index.entries[*at].1.at.number, *at)).collect();
    let mut found = BTreeMap::new();
    lines::again(file, &mut lines, |line| {
        let record: Record = serde_json::from_str(line.text)?;
        let at = record.timestamp.as_deref().and_then(Moment::parse);
        let mut blocks = Vec::new();
        if let Some(text) = record.attachment.as_ref().and_then(attached) {
            blocks.push(Block {
                kind: "text".to_owned(),
                call: None,
                piece: Piece::Text(text),
                blank: false,
            });
        }
        if let Some(message) = record.message {
            // Signed thinking belongs to its model; another would refuse it.
            let other = model.is_some_and(|model| message.model.as_deref().is_some_and(|own| own != model));
            let content = message.content.as_deref().map(self::blocks).transpose()?.unwrap_or_default();
            blocks.extend(content.into_iter().filter(|block| !(other && block.kind.ends_with("thinking"))));
        }
        if let Some(position) = by_line.get(&line.at.number) {
            found.insert(*position, Said { at, blocks });
        }
        Ok::<(), serde_json::Error>(())
    })?;
    Ok(found)
}

/// A prompt that was typed is a string, and becomes one block.
fn blocks(content: &RawValue) -> Result<Vec<Block>, serde_json::Error> {
    if content.get().starts_with('"') {
        let text: String = serde_json::from_str(content.get())?;
        let blank = text.trim().is_empty();
        return Ok(vec![Block { kind: "text".to_owned(), call: None, piece: Piece::Text(text), blank }]);
    }
    let raw: Vec<Box<RawValue>> = serde_json::from_str(content.get())?;
    let block = |raw: Box<RawValue>| {
        let fields: Fields = serde_json::from_str(raw.get())?;
        let kind = fields.kind.unwrap_or_default();
        let call = if kind == "tool_result" { fields.tool_use_id } else { fields.id };
        let blank = kind == "text" && fields.text.is_none_or(|text| text.trim().is_empty());
        Ok(Block { call: call.as_deref().map(Id::of), kind, piece: Piece::Wire(raw), blank })
    };
    raw.into_iter().map(block).collect()
}

/// Where the words of an attachment are. The client puts its own around them, which are not in the file.
const ATTACHED: [(&str, &str); 9] = [
    ("file", "/content/file/content"),
    ("nested_memory", "/content/content"),
    ("queued_command", "/prompt"),
    ("hook_success", "/content"),
    ("hook_additional_context", "/content"),
    ("skill_listing", "/content"),
    ("deferred_tools_delta", "/addedLines"),
    ("agent_listing_delta", "/addedLines"),
    ("mcp_instructions_delta", "/addedBlocks"),
];

/// What the client adds at a place, as far as the file holds it, marked as its own words and not the user's.
fn attached(attachment: &Value) -> Option<String> {
    let kind = attachment["type"].as_str()?;
    let (_, at) = ATTACHED.iter().find(|(name, _)| *name == kind)?;
    let words = match attachment.pointer(at)? {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
        _ => return None,
    };
    let name = attachment["filename"].as_str().map(|name| format!("{name}:\n")).unwrap_or_default();
    (!words.trim().is_empty()).then(|| format!("<system-reminder>\n{name}{words}\n</system-reminder>"))
}
