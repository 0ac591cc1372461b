//! Replaces the compactions in a request by the messages that they stand for, so that the request has the
//! history as it was when the client received the compaction, followed by the newer messages.

use longhaul_engine::texts::has_checkpoint_frame;
use longhaul_engine::transcript::{ElementId, Role, Transcript};
use longhaul_engine::{ApiFormat, Edit, Rewrite, wire};
use memchr::memmem;
use serde_json::{Value, json};

use super::COMPACTION_TYPE;
use super::signed_compaction::{CompactionSigner, SignedCompaction};

/// The result of expanding the compactions of a request.
#[derive(Default)]
pub(super) struct ExpandedRequest {
    /// The new request body; none if nothing changed.
    pub(super) body: Option<String>,
    /// Whether the gateway signed one of the compactions.
    pub(super) has_own_compaction: bool,
    /// The number of compactions that the gateway cannot read. They stay in the request.
    pub(super) unreadable_count: usize,
}

/// Replaces the compactions in a request by their messages.
pub(super) fn expand_compactions(api_format: ApiFormat, text: &str, signer: &CompactionSigner) -> ExpandedRequest {
    if memmem::find(text.as_bytes(), b"\"compaction\"").is_none() {
        return ExpandedRequest::default();
    }
    let Ok((transcript, _)) = wire::parse(api_format, text) else { return ExpandedRequest::default() };
    let mut expanded = ExpandedRequest::default();
    let edits = match api_format {
        ApiFormat::Responses => expand_items(&transcript, signer, &mut expanded),
        ApiFormat::Messages => expand_blocks(&transcript, signer, &mut expanded),
        ApiFormat::Chat => Vec::new(),
    };
    if !edits.is_empty() {
        expanded.body = Rewrite::new(&transcript, edits).ok().map(|rewrite| rewrite.apply(text));
    }
    expanded
}

fn parsed_messages(transcript: &Transcript<'_>) -> impl Iterator<Item = (ElementId, Value)> {
    (0..transcript.message_count())
        .filter_map(|at| Some((transcript.message_id(at)?, serde_json::from_str(transcript.message_json(at)?).ok()?)))
}

/// Returns the edits for items (Responses). Each of our compactions becomes its messages. Items before it
/// that it covers are removed; other items before it stay, because the provider reads those too.
fn expand_items(transcript: &Transcript<'_>, signer: &CompactionSigner, expanded: &mut ExpandedRequest) -> Vec<Edit> {
    let items: Vec<(ElementId, Value)> = parsed_messages(transcript).collect();
    let mut compactions: Vec<(usize, SignedCompaction)> = Vec::new();
    for (at, (_, item)) in items.iter().enumerate().filter(|(_, (_, item))| item["type"] == COMPACTION_TYPE) {
        let compaction = item["encrypted_content"].as_str().and_then(|text| signer.verify(ApiFormat::Responses, text));
        match compaction {
            Some(compaction) => compactions.push((at, compaction)),
            None => expanded.unreadable_count += 1,
        }
    }
    expanded.has_own_compaction = !compactions.is_empty();
    let is_covered = |at: usize, item: &Value| {
        let hash = signer.content_hash(item);
        compactions
            .iter()
            .any(|(compaction_index, compaction)| *compaction_index > at && compaction.covers.contains(&hash))
    };
    let mut edits = Vec::new();
    for (at, (element, item)) in items.iter().enumerate() {
        let own_compaction = compactions.iter().find(|(index, _)| *index == at).map(|(_, compaction)| compaction);
        let is_removed = !compactions.is_empty() && is_covered(at, item);
        if let Some(compaction) = own_compaction.filter(|_| !is_removed) {
            let insert = |json: &String| Edit::Insert { before: *element, json: json.clone() };
            edits.extend(compaction.messages.iter().map(insert));
        }
        if own_compaction.is_some() || is_removed {
            edits.push(Edit::Remove(*element));
        }
    }
    edits
}

/// The content of a compaction block.
enum CompactionContent {
    /// A compaction that the gateway signed.
    Signed(SignedCompaction),
    /// The text of another program, or our own text without its signature.
    Text(String),
    /// No content: the compaction failed.
    Empty,
}

/// Returns the edits for blocks (Messages). The history begins at the newest compaction, and everything
/// before it is removed.
fn expand_blocks(transcript: &Transcript<'_>, signer: &CompactionSigner, expanded: &mut ExpandedRequest) -> Vec<Edit> {
    let first_index = transcript.system_message_count();
    let mut edits = Vec::new();
    let mut newest = None;
    for (message, value) in parsed_messages(transcript) {
        let blocks = value["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(array) = transcript.content_array(message) else { continue };
        for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block["type"] == COMPACTION_TYPE) {
            edits.push(Edit::Remove(ElementId { array, index: index as u32 }));
            let follows_other_content = message.index as usize > first_index || index > 0;
            match block_content(block, signer) {
                CompactionContent::Empty => {}
                // Our own checkpoint without its signed messages: if the client still sends the history, that
                // is better.
                CompactionContent::Text(text) if follows_other_content && has_checkpoint_frame(&text) => {}
                content => newest = Some((message, array, index, blocks.len(), content)),
            }
        }
    }
    let Some((message, array, index, blocks, content)) = newest else { return edits };
    let before = (first_index..message.index as usize).filter_map(|at| transcript.message_id(at));
    edits.extend(before.map(Edit::Remove));
    edits.extend((0..index as u32).map(|index| Edit::Remove(ElementId { array, index })));
    expanded.has_own_compaction = matches!(content, CompactionContent::Signed(_));
    let compaction_messages = match content {
        CompactionContent::Signed(compaction) => compaction.messages,
        CompactionContent::Text(text) => vec![json!({"role": "user", "content": text}).to_string()],
        CompactionContent::Empty => Vec::new(),
    };
    // The blocks of the message after the compaction follow its messages; if there are none, the next message
    // does.
    let first = if index + 1 < blocks { message.index as usize } else { message.index as usize + 1 };
    edits.extend(insert_before(transcript, first, message, compaction_messages));
    edits
}

fn block_content(block: &Value, signer: &CompactionSigner) -> CompactionContent {
    let compaction = block["encrypted_content"].as_str().and_then(|text| signer.verify(ApiFormat::Messages, text));
    match (compaction, block["content"].as_str().filter(|text| !text.trim().is_empty())) {
        (Some(compaction), _) => CompactionContent::Signed(compaction),
        (None, Some(text)) => CompactionContent::Text(text.to_owned()),
        (None, None) => CompactionContent::Empty,
    }
}

/// Returns the edits that insert the compaction's messages at `place`; `first` is the message that will follow
/// them. Left out are those at their end that the client sends too. Two user messages that would then meet are
/// merged.
fn insert_before(
    transcript: &Transcript<'_>,
    first: usize,
    place: ElementId,
    mut compaction_messages: Vec<String>,
) -> Vec<Edit> {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let following: Vec<Value> = (first..transcript.message_count())
        .take(compaction_messages.len())
        .filter_map(|at| transcript.message_json(at))
        .map(value)
        .collect();
    let messages: Vec<Value> = compaction_messages.iter().map(|text| value(text)).collect();
    let repeats = |count: &usize| {
        messages[messages.len() - count..].iter().zip(&following[..*count]).all(|(a, b)| has_same_content(a, b))
    };
    let repeated = (1..=messages.len().min(following.len())).rev().find(repeats).unwrap_or(0);
    compaction_messages.truncate(messages.len() - repeated);
    let mut edits = Vec::new();
    let is_user = |message: Option<&Value>| message.is_some_and(|message| message["role"] == "user");
    let next = transcript.message_id(first).filter(|_| transcript.role(first) == Some(Role::User));
    if let Some(next) = next.filter(|_| repeated == 0 && is_user(messages.last())) {
        compaction_messages.pop();
        edits.extend(merge_messages(transcript, next, &messages[messages.len() - 1], &following[0]));
    }
    edits.splice(0..0, compaction_messages.into_iter().map(|json| Edit::Insert { before: place, json }));
    edits
}

/// Returns whether two messages have the same content.
fn has_same_content(one: &Value, other: &Value) -> bool {
    let content = |message: &Value| {
        let mut content = Vec::new();
        collect_content(message, &mut content);
        content
    };
    content(one) == content(other)
}

/// Returns the edits that put the blocks of one message before those of the next.
fn merge_messages(transcript: &Transcript<'_>, next: ElementId, last: &Value, next_message: &Value) -> Vec<Edit> {
    let blocks = |message: &Value| match &message["content"] {
        Value::Array(blocks) => blocks.clone(),
        text => vec![json!({"type": "text", "text": text})],
    };
    let Some(array) = transcript.content_array(next) else {
        let both: Vec<Value> = blocks(last).into_iter().chain(blocks(next_message)).collect();
        let object = transcript.span_of(next);
        return vec![Edit::Set { object, key: "content", json: Value::from(both).to_string() }];
    };
    let before = ElementId { array, index: 0 };
    blocks(last).iter().map(|block| Edit::Insert { before, json: block.to_string() }).collect()
}

/// Collects the texts and numbers of a message or item. It skips fields that clients add, change or leave
/// out, such as IDs, states and cache breakpoints.
pub(super) fn collect_content(value: &Value, texts: &mut Vec<String>) {
    const SKIPPED_FIELDS: [&str; 6] = ["id", "status", "type", "annotations", "cache_control", "logprobs"];
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect_content(value, texts)),
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().filter(|(name, _)| !SKIPPED_FIELDS.contains(&name.as_str())).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (_, value) in fields {
                collect_content(value, texts);
            }
        }
        Value::Number(number) => texts.push(number.to_string()),
        Value::Bool(_) | Value::Null => {}
    }
}
