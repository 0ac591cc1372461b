//! What a session needs again: what its replies use that stood in it before.
//!
//! ```text
//! m1 result   … def parse(body): …          ◀─┐ the newest message that has the line
//! m2 … m7                                     │
//! m8 reply    edit: "def parse(body):"      ──┘ needs it: a view without it has forgotten something
//! ```
//!
//! All that replies use is looked for in the session once, at the same time, and in what a compaction left once more. It is
//! there where its letters are, whatever they stand in: the text itself, a digest, a checkpoint. It can be fetched from where
//! somebody wrote it down: a result, a call, a person's words. What the model only said on the way it would say again unasked.

use std::borrow::Cow;
use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

use super::uses::{lines, values};
use crate::Transcript;
use crate::json::{Strings, unescape};
use crate::transcript::{Block, Form, Status, Unit, UnitKind};

/// What the replies of a session use of what stood before them.
#[derive(Debug, Clone)]
pub(super) struct Needs {
    /// Finds what is used; none where nothing is.
    finder: Option<AhoCorasick>,
    /// For each thing that is used, the places that have it, in order.
    stands: Vec<Vec<Stands>>,
    /// For each request, what its reply uses.
    used: Vec<Vec<usize>>,
    /// For each unit, what it has.
    held: Vec<Vec<usize>>,
}

/// Where something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stands {
    message: usize,
    unit: usize,
    /// Whether it can be fetched from there.
    fetchable: bool,
}

/// What a view has of all that is used, beside the session's own newest messages.
#[derive(Debug, Clone)]
pub(super) struct Kept(Vec<bool>);

impl Needs {
    /// What the replies use, given how many messages stood before each.
    pub(super) fn of(transcript: &Transcript<'_>, before: &[usize]) -> Self {
        let (things, used) = uses(transcript, before);
        let finder = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&things).ok();
        let mut needs = Self {
            finder: finder.filter(|_| !things.is_empty()),
            stands: vec![Vec::new(); things.len()],
            used,
            held: vec![Vec::new(); transcript.units.len()],
        };
        for (unit, whole) in transcript.units.iter().enumerate() {
            for (block, fetchable) in sources(whole) {
                let Some(message) = transcript.message_at(block.at) else { continue };
                for thing in needs.found(block) {
                    needs.stands[thing].push(Stands { message, unit, fetchable });
                    needs.held[unit].push(thing);
                }
            }
        }
        needs.stands.iter_mut().for_each(|stands| stands.sort_by_key(|place| place.message));
        needs
    }

    /// What a transcript has, which a compaction left.
    pub(super) fn kept_in(&self, transcript: &Transcript<'_>) -> Kept {
        let mut kept = Kept(vec![false; self.stands.len()]);
        for block in transcript.blocks() {
            self.found(block).into_iter().for_each(|thing| kept.0[thing] = true);
        }
        kept
    }

    /// The units that have to be fetched before a request can be answered as it was: those that have what the reply uses and
    /// the view lacks. The view has what was kept, and the session's messages since the compaction, from `since` to `before`.
    ///
    /// Of several units with the same the newest is fetched, and what it brings along is not fetched a second time.
    pub(super) fn missing(&self, request: usize, kept: &mut Kept, since: usize, before: usize) -> Vec<usize> {
        let mut units = Vec::new();
        for &thing in self.used.get(request).into_iter().flatten() {
            let stands = &self.stands[thing];
            let stood = &stands[..stands.partition_point(|place| place.message < before)];
            if kept.0[thing] || stood.last().is_some_and(|newest| newest.message >= since) {
                continue;
            }
            if let Some(source) = stood.iter().rev().find(|place| place.fetchable) {
                self.held[source.unit].iter().for_each(|&thing| kept.0[thing] = true);
                units.push(source.unit);
            }
        }
        units
    }

    /// What a block has, each once.
    fn found(&self, block: &Block<'_>) -> Vec<usize> {
        let Some(finder) = &self.finder else { return Vec::new() };
        let text = words(block);
        let mut found: Vec<usize> =
            finder.find_overlapping_iter(text.as_ref()).map(|hit| hit.pattern().as_usize()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// All that is used, each once, and for each request what its reply uses of it.
fn uses(transcript: &Transcript<'_>, before: &[usize]) -> (Vec<String>, Vec<Vec<usize>>) {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut used = vec![Vec::new(); before.len()];
    for (block, with_values) in transcript.units.iter().flat_map(written) {
        let message = transcript.message_at(block.at);
        let answers = |message: usize| before.partition_point(|messages| *messages <= message).checked_sub(1);
        let Some(request) = message.and_then(answers) else { continue };
        let text = words(block);
        let found = lines(&text).chain(values(&text).filter(|_| with_values));
        for thing in found {
            let number = numbers.len();
            let number = *numbers.entry(thing.to_owned()).or_insert(number);
            used[request].push(number);
        }
    }
    let mut things = vec![String::new(); numbers.len()];
    for (thing, number) in numbers {
        things[number] = thing;
    }
    for of_request in &mut used {
        of_request.sort_unstable();
        of_request.dedup();
    }
    (things, used)
}

/// The blocks of a step that the model wrote, and whether they are calls: those in words are calls as a whole.
fn written<'t, 'b>(unit: &'t Unit<'b>) -> impl Iterator<Item = (&'t Block<'b>, bool)> {
    let reply = match &unit.kind {
        UnitKind::Step { reply, .. } => reply.as_slice(),
        _ => &[],
    };
    let exchanges = unit.exchanges();
    let in_words = exchanges.iter().any(|done| done.call.is_none() && done.status != Status::Orphan);
    let calls = exchanges.iter().filter_map(|exchange| exchange.call.as_ref());
    reply.iter().map(move |block| (block, in_words)).chain(calls.map(|call| (call, true)))
}

/// All blocks of a unit, and whether something can be fetched from them.
fn sources<'t, 'b>(unit: &'t Unit<'b>) -> impl Iterator<Item = (&'t Block<'b>, bool)> {
    let written_there = written(unit).count();
    let others = unit.blocks().skip(written_there).map(|block| (block, true));
    written(unit).chain(others)
}

/// What a block says; of arguments in JSON their strings, because quotes and escapes are no part of what was said.
fn words<'b>(block: &Block<'b>) -> Cow<'b, str> {
    let text = block.text();
    if !matches!(block.text.map(|text| text.form), Some(Form::Json | Form::JsonInString)) {
        return text;
    }
    let mut said = String::with_capacity(text.len());
    for string in Strings::of(&text) {
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

    /// A result with a line; then a call that uses the line and a path of the result; before both the model said the same words.
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

    /// The needs of the body's two requests, and what a compaction left that says so much.
    fn needs(left: &str) -> (Needs, Kept) {
        let (body, left) = (body(), json!({"messages": [{"role": "user", "content": left}]}).to_string());
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let needs = Needs::of(&transcript, &[1, 3]);
        let kept = needs.kept_in(&wire::parse(None, &left).unwrap().0);
        (needs, kept)
    }

    #[test]
    fn where_a_line_stood_that_a_call_uses_is_fetched_once() {
        let (needs, mut kept) = needs("something else");
        assert_eq!(needs.missing(1, &mut kept.clone(), 3, 3), [1], "one step brings the line and the path");
        assert!(needs.missing(1, &mut kept.clone(), 2, 3).is_empty(), "the result is still there");
        needs.missing(1, &mut kept, 3, 3);
        assert!(needs.missing(1, &mut kept, 3, 3).is_empty(), "what was fetched is there");
    }

    #[test]
    fn what_a_checkpoint_tells_is_not_forgotten() {
        let (needs, mut kept) = needs(&format!("1. READ /srv/app/net.py: {LINE}"));
        assert!(needs.missing(1, &mut kept, 3, 3).is_empty());
    }

    #[test]
    fn what_the_model_only_said_is_said_again_unasked() {
        let (needs, mut kept) = needs(&format!("/srv/app/net.py: {LINE}"));
        assert_eq!(needs.used[1].len(), 4, "a path, a name, a line, and words that were said before");
        assert!(needs.missing(1, &mut kept, 3, 3).is_empty());
    }
}
