//! An index of the content that a session may use again: lines and values of its replies. Those that occurred
//! earlier in the session are reused.
//!
//! ```text
//! m1 result   … def parse(body): …          ◀─┐ the newest message with the line
//! m2 … m7                                     │
//! m8 reply    edit: "def parse(body):"      ──┘ uses it: a request without the line lacks something
//! ```
//!
//! One search finds all used items in the session, and a second one in the result of a compaction. An item
//! counts as present wherever its characters occur: in the original text, in a short form or in a checkpoint.
//! It can be fetched again from a result, a call or a person's message. Text that the model only wrote by the
//! way is not fetched; the model would write it again unasked.

use std::borrow::Cow;
use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

use super::reusable_text::{exact_values, quotable_lines};
use crate::Transcript;
use crate::json::{StringScanner, unescape};
use crate::transcript::{Block, CallStatus, TextEncoding, Turn, TurnKind};

/// The items of a session: lines and values of its replies, with all places where they occur. An item is
/// identified by its index.
#[derive(Debug, Clone)]
pub(super) struct ReuseIndex {
    /// Searches for all items at once; `None` if there are no items.
    finder: Option<AhoCorasick>,
    /// The places where each item occurs, sorted by message.
    occurrences: Vec<Vec<Occurrence>>,
    /// The items that the reply to each request uses.
    items_by_request: Vec<Vec<usize>>,
    /// The items that each turn contains.
    items_by_turn: Vec<Vec<usize>>,
}

/// A place where an item occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Occurrence {
    message: usize,
    turn: usize,
    /// Whether the item can be fetched again from there.
    is_fetchable: bool,
}

/// For each item, whether the compacted part of a view contains it, or it was fetched since.
#[derive(Debug, Clone)]
pub(super) struct KeptItems(Vec<bool>);

impl ReuseIndex {
    /// Builds the index, given the number of messages before each reply.
    pub(super) fn new(transcript: &Transcript<'_>, messages_before_reply: &[usize]) -> Self {
        let (items, used) = collect_used_items(transcript, messages_before_reply);
        let finder = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&items).ok();
        let mut index = Self {
            finder: finder.filter(|_| !items.is_empty()),
            occurrences: vec![Vec::new(); items.len()],
            items_by_request: used,
            items_by_turn: vec![Vec::new(); transcript.turns.len()],
        };
        for (turn, whole) in transcript.turns.iter().enumerate() {
            for (block, fetchable) in blocks_with_fetchability(whole) {
                let Some(message) = transcript.message_at(block.at) else { continue };
                for item in index.items_in_block(block) {
                    index.occurrences[item].push(Occurrence { message, turn, is_fetchable: fetchable });
                    index.items_by_turn[turn].push(item);
                }
            }
        }
        index.occurrences.iter_mut().for_each(|occurrences| occurrences.sort_by_key(|place| place.message));
        index
    }

    /// Returns the items that the result of a compaction contains.
    pub(super) fn kept_in(&self, transcript: &Transcript<'_>) -> KeptItems {
        let mut kept = KeptItems(vec![false; self.occurrences.len()]);
        for block in transcript.blocks() {
            self.items_in_block(block).into_iter().for_each(|item| kept.0[item] = true);
        }
        kept
    }

    /// Returns the turns to fetch again before the model can reply as it did: they contain items that the
    /// reply uses and the view lacks. The view has the kept items, and the session's messages from `since` to
    /// `before`.
    ///
    /// If several turns contain an item, the newest is fetched. All items of a fetched turn count as present
    /// from then on.
    pub(super) fn turns_to_refetch(
        &self,
        request: usize,
        kept: &mut KeptItems,
        since: usize,
        before: usize,
    ) -> Vec<usize> {
        let mut turns = Vec::new();
        for &item in self.items_by_request.get(request).into_iter().flatten() {
            let occurrences = &self.occurrences[item];
            let earlier_occurrences = &occurrences[..occurrences.partition_point(|place| place.message < before)];
            if kept.0[item] || earlier_occurrences.last().is_some_and(|newest| newest.message >= since) {
                continue;
            }
            if let Some(source) = earlier_occurrences.iter().rev().find(|place| place.is_fetchable) {
                self.items_by_turn[source.turn].iter().for_each(|&thing| kept.0[thing] = true);
                turns.push(source.turn);
            }
        }
        turns
    }

    /// Returns the items in a block, each once.
    fn items_in_block(&self, block: &Block<'_>) -> Vec<usize> {
        let Some(finder) = &self.finder else { return Vec::new() };
        let text = searchable_text(block);
        let mut found: Vec<usize> =
            finder.find_overlapping_iter(text.as_ref()).map(|hit| hit.pattern().as_usize()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Collects the quotable lines and exact values of all replies, each once, and for each request those in its
/// reply.
fn collect_used_items(transcript: &Transcript<'_>, before: &[usize]) -> (Vec<String>, Vec<Vec<usize>>) {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut used = vec![Vec::new(); before.len()];
    for (block, with_values) in transcript.turns.iter().flat_map(model_written_blocks) {
        let message = transcript.message_at(block.at);
        let answers = |message: usize| before.partition_point(|messages| *messages <= message).checked_sub(1);
        let Some(request) = message.and_then(answers) else { continue };
        let text = searchable_text(block);
        let found = quotable_lines(&text).chain(exact_values(&text).filter(|_| with_values));
        for item in found {
            let number = numbers.len();
            let number = *numbers.entry(item.to_owned()).or_insert(number);
            used[request].push(number);
        }
    }
    let mut items = vec![String::new(); numbers.len()];
    for (item, number) in numbers {
        items[number] = item;
    }
    for of_request in &mut used {
        of_request.sort_unstable();
        of_request.dedup();
    }
    (items, used)
}

/// Returns the blocks of an assistant turn that the model wrote, and whether each is a call. If the turn
/// makes calls in plain text, all of them are.
fn model_written_blocks<'t, 'b>(turn: &'t Turn<'b>) -> impl Iterator<Item = (&'t Block<'b>, bool)> {
    let reply = match &turn.kind {
        TurnKind::Assistant { reply, .. } => reply.as_slice(),
        _ => &[],
    };
    let tool_calls = turn.tool_calls();
    let in_words = tool_calls.iter().any(|done| done.call.is_none() && done.status != CallStatus::Orphan);
    let calls = tool_calls.iter().filter_map(|tool_call| tool_call.call.as_ref());
    reply.iter().map(move |block| (block, in_words)).chain(calls.map(|call| (call, true)))
}

/// Returns all blocks of a turn, and whether content can be fetched again from each.
fn blocks_with_fetchability<'t, 'b>(turn: &'t Turn<'b>) -> impl Iterator<Item = (&'t Block<'b>, bool)> {
    let written_there = model_written_blocks(turn).count();
    let others = turn.blocks().skip(written_there).map(|block| (block, true));
    model_written_blocks(turn).chain(others)
}

/// Returns the text of a block; for JSON arguments only the strings in it, because quotes and escapes are not
/// content.
fn searchable_text<'b>(block: &Block<'b>) -> Cow<'b, str> {
    let text = block.text();
    if !matches!(block.text.map(|text| text.encoding), Some(TextEncoding::Json | TextEncoding::JsonInString)) {
        return text;
    }
    let mut said = String::with_capacity(text.len());
    for string in StringScanner::values(&text) {
        said.push_str(&unescape(&text[string.text]));
        said.push('\n');
    }
    Cow::Owned(said)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire;

    const LINE: &str = "retries = settings.retries or DEFAULT_RETRIES";

    /// Returns a body with a result that contains a line, and then a call that uses the line and a path of
    /// the result. The model says the same words before both.
    fn body() -> String {
        let step = |id: &str, arguments: &Value, result: &str| {
            let function = json!({"name": "edit", "arguments": arguments.to_string()});
            let call = json!({"id": id, "type": "function", "function": function});
            let said = "Let me look at what there is.";
            [
                json!({"role": "assistant", "content": said, "tool_calls": [call]}),
                json!({"role": "tool", "tool_call_id": id, "content": result}),
            ]
        };
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        messages.extend(step("a", &json!({}), &format!("in /srv/app/net.py:\n12  {LINE}")));
        messages.extend(step("b", &json!({"path": "/srv/app/net.py", "new": format!("    {LINE}\n")}), "ok"));
        json!({"model": "m", "messages": messages}).to_string()
    }

    /// Returns the index of the body's two requests, and the items in a compaction result with this text.
    fn needs(left: &str) -> (ReuseIndex, KeptItems) {
        let (body, left) = (body(), json!({"messages": [{"role": "user", "content": left}]}).to_string());
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let needs = ReuseIndex::new(&transcript, &[1, 3]);
        let kept = needs.kept_in(&wire::parse(None, &left).unwrap().0);
        (needs, kept)
    }

    #[test]
    fn where_a_line_stood_that_a_call_uses_is_fetched_once() {
        let (needs, mut kept) = needs("something else");
        assert_eq!(needs.turns_to_refetch(1, &mut kept.clone(), 3, 3), [1], "one step brings the line and the path");
        assert!(needs.turns_to_refetch(1, &mut kept.clone(), 2, 3).is_empty(), "the result is still there");
        needs.turns_to_refetch(1, &mut kept, 3, 3);
        assert!(needs.turns_to_refetch(1, &mut kept, 3, 3).is_empty(), "what was fetched is there");
    }

    #[test]
    fn what_a_checkpoint_tells_is_not_forgotten() {
        let (needs, mut kept) = needs(&format!("1. READ /srv/app/net.py: {LINE}"));
        assert!(needs.turns_to_refetch(1, &mut kept, 3, 3).is_empty());
    }

    #[test]
    fn what_the_model_only_said_is_said_again_unasked() {
        let (needs, mut kept) = needs(&format!("/srv/app/net.py: {LINE}"));
        assert_eq!(needs.items_by_request[1].len(), 4, "a path, a name, a line, and words that were said before");
        assert!(needs.turns_to_refetch(1, &mut kept, 3, 3).is_empty());
    }
}
