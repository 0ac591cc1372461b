//! Puts what compactions stand for in their place: a request that comes with one is what it was when the client was handed it, and
//! what was said since.

use longhaul_engine::texts::is_framed;
use longhaul_engine::transcript::{ElementId, Role, Transcript};
use longhaul_engine::{Dialect, Edit, Rewrite, wire};
use memchr::memmem;
use serde_json::{Value, json};

use super::COMPACTION;
use super::seal::{Seal, Sealed};

/// A body without compactions in it, as far as they can be read.
#[derive(Default)]
pub(super) struct Unfolded {
    /// The body; nothing where it stays as it is.
    pub(super) body: Option<String>,
    /// Whether one of them was signed here.
    pub(super) is_ours: bool,
    /// How many cannot be read.
    pub(super) foreign: usize,
}

/// Puts what compactions stand for in their place.
pub(super) fn unfold(dialect: Dialect, text: &str, seal: &Seal) -> Unfolded {
    if memmem::find(text.as_bytes(), b"\"compaction\"").is_none() {
        return Unfolded::default();
    }
    let Ok((transcript, _)) = wire::parse(dialect, text) else { return Unfolded::default() };
    let mut found = Unfolded::default();
    let edits = match dialect {
        Dialect::Responses => of_items(&transcript, seal, &mut found),
        Dialect::Messages => of_blocks(&transcript, seal, &mut found),
        Dialect::Chat => Vec::new(),
    };
    if !edits.is_empty() {
        found.body = Rewrite::new(&transcript, edits).ok().map(|rewrite| rewrite.apply(text));
    }
    found
}

fn messages(transcript: &Transcript<'_>) -> impl Iterator<Item = (ElementId, Value)> {
    (0..transcript.message_count()).filter_map(|at| {
        Some((transcript.message_id(at)?, serde_json::from_str(transcript.message(at)?).ok()?))
    })
}

/// Items: each of ours becomes what it stands for. What stands before it and is in it goes; anything else before it stays, for the
/// provider reads that too.
fn of_items(transcript: &Transcript<'_>, seal: &Seal, found: &mut Unfolded) -> Vec<Edit> {
    let items: Vec<(ElementId, Value)> = messages(transcript).collect();
    let mut opened: Vec<(usize, Sealed)> = Vec::new();
    for (at, (_, item)) in items.iter().enumerate().filter(|(_, (_, item))| item["type"] == COMPACTION) {
        let sealed = item["encrypted_content"].as_str().and_then(|text| seal.open(Dialect::Responses, text));
        match sealed {
            Some(sealed) => opened.push((at, sealed)),
            None => found.foreign += 1,
        }
    }
    found.is_ours = !opened.is_empty();
    let is_covered = |at: usize, item: &Value| {
        let known = seal.known_by(item);
        opened.iter().any(|(behind, sealed)| *behind > at && sealed.covers.contains(&known))
    };
    let mut edits = Vec::new();
    for (at, (element, item)) in items.iter().enumerate() {
        let own = opened.iter().find(|(own, _)| *own == at).map(|(_, sealed)| sealed);
        let is_gone = !opened.is_empty() && is_covered(at, item);
        if let Some(sealed) = own.filter(|_| !is_gone) {
            let insert = |json: &String| Edit::Insert { before: *element, json: json.clone() };
            edits.extend(sealed.messages.iter().map(insert));
        }
        if own.is_some() || is_gone {
            edits.push(Edit::Remove(*element));
        }
    }
    edits
}

/// What a block of a compaction says.
enum Said {
    /// Ours.
    Sealed(Sealed),
    /// Somebody's words.
    Text(String),
    /// Nothing: it failed.
    Nothing,
}

/// Blocks: the newest is where the history begins, and all before it goes.
fn of_blocks(transcript: &Transcript<'_>, seal: &Seal, found: &mut Unfolded) -> Vec<Edit> {
    let lead = transcript.lead();
    let mut edits = Vec::new();
    let mut newest = None;
    for (message, value) in messages(transcript) {
        let blocks = value["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(array) = transcript.content_array(message) else { continue };
        for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block["type"] == COMPACTION) {
            edits.push(Edit::Remove(ElementId { array, index: index as u32 }));
            let stands_behind = message.index as usize > lead || index > 0;
            match said(block, seal) {
                Said::Nothing => {}
                // Our own words without what belongs to them: as long as the client has the history itself, that says more.
                Said::Text(text) if stands_behind && is_framed(&text) => {}
                said => newest = Some((message, array, index, blocks.len(), said)),
            }
        }
    }
    let Some((message, array, index, blocks, said)) = newest else { return edits };
    let before = (lead..message.index as usize).filter_map(|at| transcript.message_id(at));
    edits.extend(before.map(Edit::Remove));
    edits.extend((0..index as u32).map(|index| Edit::Remove(ElementId { array, index })));
    found.is_ours = matches!(said, Said::Sealed(_));
    let begins = match said {
        Said::Sealed(sealed) => sealed.messages,
        Said::Text(text) => vec![json!({"role": "user", "content": text}).to_string()],
        Said::Nothing => Vec::new(),
    };
    // What is left of the message goes on from there; where nothing is, the next one does.
    let first = if index + 1 < blocks { message.index as usize } else { message.index as usize + 1 };
    edits.extend(before_message(transcript, first, message, begins));
    edits
}

fn said(block: &Value, seal: &Seal) -> Said {
    let sealed = block["encrypted_content"].as_str().and_then(|text| seal.open(Dialect::Messages, text));
    match (sealed, block["content"].as_str().filter(|text| !text.trim().is_empty())) {
        (Some(sealed), _) => Said::Sealed(sealed),
        (None, Some(text)) => Said::Text(text.to_owned()),
        (None, None) => Said::Nothing,
    }
}

/// The edits that put messages before one, which may repeat the last of them, or be by the same speaker.
fn before_message(
    transcript: &Transcript<'_>,
    first: usize,
    place: ElementId,
    mut begins: Vec<String>,
) -> Vec<Edit> {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let behind: Vec<Value> = (first..transcript.message_count())
        .take(begins.len())
        .filter_map(|at| transcript.message(at))
        .map(value)
        .collect();
    let own: Vec<Value> = begins.iter().map(|text| value(text)).collect();
    let repeats =
        |count: &usize| own[own.len() - count..].iter().zip(&behind[..*count]).all(|(a, b)| is_same(a, b));
    let repeated = (1..=own.len().min(behind.len())).rev().find(repeats).unwrap_or(0);
    begins.truncate(own.len() - repeated);
    let mut edits = Vec::new();
    let is_user = |message: Option<&Value>| message.is_some_and(|message| message["role"] == "user");
    let next = transcript.message_id(first).filter(|_| transcript.role(first) == Some(Role::User));
    if let Some(next) = next.filter(|_| repeated == 0 && is_user(own.last())) {
        begins.pop();
        edits.extend(join(transcript, next, &own[own.len() - 1], &behind[0]));
    }
    edits.splice(0..0, begins.into_iter().map(|json| Edit::Insert { before: place, json }));
    edits
}

/// Whether two messages say the same.
fn is_same(one: &Value, other: &Value) -> bool {
    let says = |message: &Value| {
        let mut says = Vec::new();
        essence(message, &mut says);
        says
    };
    says(one) == says(other)
}

/// The edits that put the blocks of one message before those of the next.
fn join(transcript: &Transcript<'_>, next: ElementId, last: &Value, own: &Value) -> Vec<Edit> {
    let blocks = |message: &Value| match &message["content"] {
        Value::Array(blocks) => blocks.clone(),
        text => vec![json!({"type": "text", "text": text})],
    };
    let Some(array) = transcript.content_array(next) else {
        let both: Vec<Value> = blocks(last).into_iter().chain(blocks(own)).collect();
        let object = transcript.span_of(next);
        return vec![Edit::Set { object, key: "content", json: Value::from(both).to_string() }];
    };
    let before = ElementId { array, index: 0 };
    blocks(last).iter().map(|block| Edit::Insert { before, json: block.to_string() }).collect()
}

/// The words of a message or item, whatever a client adds to them or leaves out: ids, states and empty fields say nothing.
pub(super) fn essence(value: &Value, says: &mut Vec<String>) {
    const NOTHING: [&str; 6] = ["id", "status", "type", "annotations", "cache_control", "logprobs"];
    match value {
        Value::String(text) => says.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| essence(value, says)),
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().filter(|(name, _)| !NOTHING.contains(&name.as_str())).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (_, value) in fields {
                essence(value, says);
            }
        }
        Value::Number(number) => says.push(number.to_string()),
        Value::Bool(_) | Value::Null => {}
    }
}
