//! Builds messages from records: joins the records of one reply, puts results after their calls, and merges
//! neighboring user records.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::file_reader;
use super::super::{MessagePart, Origin, RecordedMessage, Role, SessionReadError, Timestamp};
use super::record_index::{HashedId, RecordIndex, RecordKind};

/// The messages of a branch.
pub(super) struct BuiltMessages {
    pub(super) messages: Vec<RecordedMessage>,
    /// The position of each reply's message.
    pub(super) message_of_reply: HashMap<HashedId, usize>,
    /// Notes for the user about parts that were left out.
    pub(super) warnings: Vec<String>,
}

/// A content block of a record.
struct ContentBlock {
    kind: String,
    /// The ID of the call that this block is, or whose result it is.
    call_id: Option<HashedId>,
    part: MessagePart,
    /// Whether the block is a text of white space only.
    is_blank: bool,
}

/// The content of a record, from the second pass over the file.
struct RecordContent {
    time: Option<Timestamp>,
    blocks: Vec<ContentBlock>,
}

/// Builds the messages of a branch, for a request to `model`.
pub(super) fn build_messages(
    file: &Path,
    index: &RecordIndex,
    path: &[usize],
    model: Option<&str>,
) -> Result<BuiltMessages, SessionReadError> {
    let replies = records_of_replies(index, path);
    let mut wanted: BTreeSet<usize> = path.iter().copied().collect();
    wanted.extend(replies.values().flatten());
    let mut contents = read_contents(file, index, &wanted, model)?;
    let calls = tool_call_ids(&replies, &contents);
    // Results are looked up by their call, because many of them are not on the branch.
    let mut results: BTreeSet<usize> =
        calls.iter().filter_map(|call| index.results_by_call.get(call)).flatten().copied().collect();
    results.retain(|at| !wanted.contains(at));
    contents.extend(read_contents(file, index, &results, model)?);
    Ok(MessageBuilder {
        index,
        contents,
        result_of_call: HashMap::new(),
        placed_results: HashSet::new(),
        messages: Vec::new(),
        unanswered_calls: 0,
    }
    .build(path, &replies))
}

/// Returns the records of every reply on the branch: first those on the branch, then those beside it.
fn records_of_replies(index: &RecordIndex, path: &[usize]) -> HashMap<HashedId, Vec<usize>> {
    let mut replies: HashMap<HashedId, Vec<usize>> = HashMap::new();
    for at in path {
        if let Some(reply) = index.records[*at].1.reply_id {
            replies.entry(reply).or_default().push(*at);
        }
    }
    for (reply, on_path) in &mut replies {
        let listed: HashSet<usize> = on_path.iter().copied().collect();
        let sidechain = index.records[on_path[0]].1.is_sidechain;
        let beside = index.records_by_reply.get(reply).into_iter().flatten();
        on_path.extend(beside.filter(|at| !listed.contains(at) && index.records[**at].1.is_sidechain == sidechain));
    }
    replies
}

fn tool_call_ids(replies: &HashMap<HashedId, Vec<usize>>, said: &BTreeMap<usize, RecordContent>) -> HashSet<HashedId> {
    let blocks = replies.values().flatten().filter_map(|at| said.get(at)).flat_map(|said| &said.blocks);
    blocks.filter(|block| block.kind == "tool_use").filter_map(|block| block.call_id).collect()
}

struct MessageBuilder<'i> {
    index: &'i RecordIndex,
    contents: BTreeMap<usize, RecordContent>,
    /// The position of each call's result: the record, and the block in it.
    result_of_call: HashMap<HashedId, (usize, usize)>,
    /// The results that are already part of a message.
    placed_results: HashSet<(usize, usize)>,
    messages: Vec<(RecordedMessage, Option<HashedId>)>,
    unanswered_calls: usize,
}

impl MessageBuilder<'_> {
    fn build(mut self, path: &[usize], replies: &HashMap<HashedId, Vec<usize>>) -> BuiltMessages {
        self.index_results(path);
        let mut done = HashSet::new();
        for at in path {
            let record = self.index.records[*at].1;
            match (record.kind, record.reply_id) {
                (RecordKind::Assistant, Some(reply)) if done.insert(reply) => {
                    self.add_reply(reply, replies.get(&reply).map_or(&[], Vec::as_slice));
                }
                (RecordKind::User | RecordKind::Attachment, _) => self.add_user_record(*at),
                _ => {}
            }
        }
        let notes = match self.unanswered_calls {
            0 => Vec::new(),
            1 => vec!["left out 1 call without a result".to_owned()],
            more => vec![format!("left out {more} calls without a result")],
        };
        let replies =
            self.messages.iter().enumerate().filter_map(|(at, (_, reply))| reply.map(|reply| (reply, at))).collect();
        BuiltMessages {
            messages: self.messages.into_iter().map(|(turn, _)| turn).collect(),
            message_of_reply: replies,
            warnings: notes,
        }
    }

    /// Finds the result of each call: the one on the branch, else the newest.
    fn index_results(&mut self, path: &[usize]) {
        let on_path: HashSet<usize> = path.iter().copied().collect();
        for (at, said) in &self.contents {
            for (b, block) in said.blocks.iter().enumerate() {
                if let (Some(call), "tool_result") = (block.call_id, block.kind.as_str()) {
                    let has_result_on_path =
                        self.result_of_call.get(&call).is_some_and(|(record, _)| on_path.contains(record));
                    if !has_result_on_path || on_path.contains(at) {
                        self.result_of_call.insert(call, (*at, b));
                    }
                }
            }
        }
    }

    fn add_reply(&mut self, reply: HashedId, records: &[usize]) {
        let mut turn = RecordedMessage { role: Role::Assistant, parts: Vec::new(), time: None };
        let mut answers = Vec::new();
        let mut speaks = false;
        for at in records {
            let Some(content) = self.contents.get(at) else { continue };
            turn.time = turn.time.max(content.time);
            let origin = Origin::Line(self.index.records[*at].1.position.number);
            for block in content.blocks.iter().filter(|block| !block.is_blank) {
                if block.kind == "tool_use" {
                    match block.call_id.and_then(|call| self.result_of_call.get(&call)) {
                        Some(answer) if self.placed_results.insert(*answer) => answers.push(*answer),
                        _ => {
                            self.unanswered_calls += 1;
                            continue;
                        }
                    }
                }
                speaks |= !block.kind.ends_with("thinking");
                turn.parts.push((block.part.clone(), origin.clone()));
            }
        }
        // A reply that contains only thinking is not sent.
        if !speaks {
            return;
        }
        self.messages.push((turn, Some(reply)));
        answers.sort_unstable();
        for (at, block) in answers {
            if let Some(content) = self.contents.get(&at) {
                let origin = Origin::Line(self.index.records[at].1.position.number);
                let (piece, time) = (content.blocks[block].part.clone(), content.time);
                self.add_user_part(piece, origin, time);
            }
        }
    }

    fn add_user_record(&mut self, at: usize) {
        let Some(content) = self.contents.remove(&at) else { return };
        let origin = Origin::Line(self.index.records[at].1.position.number);
        // Results of calls on the branch are already placed, and providers reject other results.
        for block in content.blocks.iter().filter(|block| !block.is_blank && block.kind != "tool_result") {
            self.add_user_part(block.part.clone(), origin.clone(), content.time);
        }
        self.contents.insert(at, content);
    }

    /// Adds a part to the user message. Neighboring user records become one message.
    fn add_user_part(&mut self, piece: MessagePart, origin: Origin, at: Option<Timestamp>) {
        match self.messages.last_mut() {
            Some((turn, _)) if turn.role == Role::User => {
                turn.parts.push((piece, origin));
                turn.time = turn.time.max(at);
            }
            _ => {
                self.messages
                    .push((RecordedMessage { role: Role::User, parts: vec![(piece, origin)], time: at }, None));
            }
        }
    }
}

#[derive(Deserialize)]
struct ContentRecord {
    timestamp: Option<String>,
    message: Option<ContentMessage>,
    attachment: Option<Value>,
}

#[derive(Deserialize)]
struct ContentMessage {
    model: Option<String>,
    content: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct BlockFields {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    tool_use_id: Option<String>,
    text: Option<String>,
}

/// Rereads the lines of records, and returns their contents by position.
fn read_contents(
    file: &Path,
    index: &RecordIndex,
    wanted: &BTreeSet<usize>,
    model: Option<&str>,
) -> Result<BTreeMap<usize, RecordContent>, SessionReadError> {
    let mut lines: Vec<_> = wanted.iter().map(|at| index.records[*at].1.position).collect();
    let by_line: HashMap<usize, usize> = wanted.iter().map(|at| (index.records[*at].1.position.number, *at)).collect();
    let mut found = BTreeMap::new();
    file_reader::reread_lines(file, &mut lines, |line| {
        let record: ContentRecord = serde_json::from_str(line.text)?;
        let at = record.timestamp.as_deref().and_then(Timestamp::parse);
        let mut blocks = Vec::new();
        if let Some(text) = record.attachment.as_ref().and_then(attachment_text) {
            blocks.push(ContentBlock {
                kind: "text".to_owned(),
                call_id: None,
                part: MessagePart::Text(text),
                is_blank: false,
            });
        }
        if let Some(message) = record.message {
            // Signed thinking belongs to the model that wrote it; other models reject it.
            let other = model.is_some_and(|model| message.model.as_deref().is_some_and(|own| own != model));
            let content = message.content.as_deref().map(self::parse_blocks).transpose()?.unwrap_or_default();
            blocks.extend(content.into_iter().filter(|block| !(other && block.kind.ends_with("thinking"))));
        }
        if let Some(position) = by_line.get(&line.position.number) {
            found.insert(*position, RecordContent { time: at, blocks });
        }
        Ok::<(), serde_json::Error>(())
    })?;
    Ok(found)
}

/// Parses the content of a message. A typed prompt is a string and becomes one text block.
fn parse_blocks(content: &RawValue) -> Result<Vec<ContentBlock>, serde_json::Error> {
    if content.get().starts_with('"') {
        let text: String = serde_json::from_str(content.get())?;
        let blank = text.trim().is_empty();
        return Ok(vec![ContentBlock {
            kind: "text".to_owned(),
            call_id: None,
            part: MessagePart::Text(text),
            is_blank: blank,
        }]);
    }
    let raw: Vec<Box<RawValue>> = serde_json::from_str(content.get())?;
    let block = |raw: Box<RawValue>| {
        let fields: BlockFields = serde_json::from_str(raw.get())?;
        let kind = fields.kind.unwrap_or_default();
        let call = if kind == "tool_result" { fields.tool_use_id } else { fields.id };
        let blank = kind == "text" && fields.text.is_none_or(|text| text.trim().is_empty());
        Ok(ContentBlock {
            call_id: call.as_deref().map(HashedId::new),
            kind,
            part: MessagePart::Raw(raw),
            is_blank: blank,
        })
    };
    raw.into_iter().map(block).collect()
}

/// The JSON pointer to the text of each kind of attachment. The client adds a frame around the text, which is
/// not in the file.
const ATTACHMENT_TEXT_POINTERS: [(&str, &str); 9] = [
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

/// Returns the text of an attachment as far as it is in the file, marked as the client's text and not the
/// user's.
fn attachment_text(attachment: &Value) -> Option<String> {
    let kind = attachment["type"].as_str()?;
    let (_, at) = ATTACHMENT_TEXT_POINTERS.iter().find(|(name, _)| *name == kind)?;
    let words = match attachment.pointer(at)? {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
        _ => return None,
    };
    let name = attachment["filename"].as_str().map(|name| format!("{name}:\n")).unwrap_or_default();
    (!words.trim().is_empty()).then(|| format!("<system-reminder>\n{name}{words}\n</system-reminder>"))
}
