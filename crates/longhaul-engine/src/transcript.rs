//! A request body as units that no pass can take apart.
//!
//! ```text
//! body ──▶ preamble   tools, system prompt
//!          units      Prompt │ Step (reply, each call beside its results) │ Checkpoint │ Opaque
//! ```
//!
//! Nothing is copied: a [`Block`] knows where its bytes are and how its text is written there. Any index into
//! [`Transcript::units`] is a legal place to cut, because a call and its results are always in one unit, whatever messages
//! they came in.
//!
//! It may use `json` and `dialect`.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::Dialect;
use crate::json::{Span, unescape, unescape_end, unescape_start};

/// A request body, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript<'b> {
    /// The bytes that every span points into.
    pub body: &'b str,
    /// How the body is written.
    pub dialect: Dialect,
    /// Whether the dialect was told or follows from the body; if not, only edits that chat and messages both take are safe.
    pub dialect_sure: bool,
    /// The model that the body names.
    pub model: Option<Cow<'b, str>>,
    /// The most tokens that the request lets the reply have, where it says so.
    pub longest_reply: Option<u64>,
    /// Tool definitions and the system prompt, in the body's order.
    pub preamble: Vec<Block<'b>>,
    /// What was said and done, oldest first.
    pub units: Vec<Unit<'b>>,
    /// The arrays whose elements a rewrite may remove, replace or add to.
    pub(crate) arrays: Arrays,
    /// The list of messages or items; absent where the body has none or holds a lone string.
    pub(crate) messages: Option<ArrayId>,
    /// Under whose name each of them stands.
    pub(crate) roles: Vec<Option<Role>>,
    /// The outermost value.
    pub(crate) root: Span,
}

/// A request with more messages is no conversation: at the shortest that real messages are, it would have some ten million bytes,
/// and the provider with the highest limit takes no more either.
pub const MAX_MESSAGES: usize = 100_000;

/// Under whose name a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The system prompt, or the host in mid-conversation.
    System,
    /// The user, tool results in messages bodies included.
    User,
    /// The model.
    Assistant,
    /// A tool's result that is a message of its own.
    Tool,
}

/// A part of a transcript that stays or goes as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit<'b> {
    /// What it is.
    pub kind: UnitKind<'b>,
    /// The whole messages, or blocks inside shared ones, that hold it: removing these removes the unit and nothing else.
    pub owns: Vec<ElementId>,
}

/// What a unit is.
#[derive(Debug, Clone, PartialEq)]
pub enum UnitKind<'b> {
    /// Something said to the model.
    Prompt {
        /// Who said it.
        by: Speaker,
        /// What was said.
        blocks: Vec<Block<'b>>,
    },
    /// A reply, and each tool call in it beside its results.
    Step {
        /// Text, reasoning and work done on the provider's side.
        reply: Vec<Block<'b>>,
        /// The calls, in order.
        exchanges: Vec<Exchange<'b>>,
    },
    /// What an earlier compaction left in place of older units, or what somebody wrote in its form.
    Checkpoint(Block<'b>),
    /// Not understood: never edited, but may be removed whole.
    Opaque(Block<'b>),
}

/// Who said the words of a prompt. Rules and tasks are taken from users alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// A person.
    User,
    /// The program around the model: reminders, surroundings, instructions in mid-conversation.
    Host,
    /// Perhaps a person, perhaps the output of a tool: protected like a user's words, but no rule or task comes from it.
    Unsure,
}

/// A tool call beside its results.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange<'b> {
    /// The tool's name; empty where none is known.
    pub tool: Cow<'b, str>,
    /// The call. Absent for a result without one, and where the call is only words inside the reply.
    pub call: Option<Block<'b>>,
    /// What the results hold, in order.
    pub results: Vec<Block<'b>>,
    /// The elements that carry the results, one for each: a result with nothing in it is still a result.
    pub answers: Vec<ElementId>,
    /// Whether it came to its end.
    pub status: Status,
    /// What the wire itself says about success; most results say nothing.
    pub failed: Option<bool>,
}

/// How far an exchange came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// One call, one result.
    Answered,
    /// The last step's call still waits for its result.
    Open,
    /// The transcript went on without a result.
    Aborted,
    /// More than one result for one call.
    Duplicate,
    /// A result without a call.
    Orphan,
}

/// One piece of content.
#[derive(Debug, Clone)]
pub struct Block<'b> {
    /// What it holds.
    pub kind: BlockKind,
    /// What it hangs on, for those who remove it or set a field beside it.
    pub place: Place,
    /// All of its bytes.
    pub at: Span,
    /// Its text, if it has one that may be read and replaced.
    pub text: Option<TextSpan>,
    pub(crate) body: &'b str,
}

/// Two blocks of one body are told apart by their places, without a look at its megabytes.
impl PartialEq for Block<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.place, self.at, self.text) == (other.kind, other.place, other.at, other.text)
            && (std::ptr::eq(self.body, other.body) || self.body == other.body)
    }
}

/// A block, by its unit and by its place in [`Unit::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockAt {
    /// The unit.
    pub unit: usize,
    /// The place among its blocks.
    pub block: usize,
}

impl<'t, 'b> PartKind<'t, 'b> {
    /// The exchange that the block belongs to.
    #[must_use]
    pub fn exchange(self) -> Option<&'t Exchange<'b>> {
        match self {
            Self::Said => None,
            Self::Call(exchange) | Self::Result { exchange, .. } => Some(exchange),
        }
    }
}

impl BlockAt {
    /// All places of a unit, for those who look for them in an ordered list.
    pub(crate) fn all_of(unit: usize) -> Range<Self> {
        Self { unit, block: 0 }..Self { unit: unit + 1, block: 0 }
    }
}

/// A block of a unit, where it stands, and what it is there.
#[derive(Debug, Clone, Copy)]
pub struct Part<'t, 'b> {
    /// Where.
    pub at: BlockAt,
    /// The block.
    pub block: &'t Block<'b>,
    /// What it is.
    pub kind: PartKind<'t, 'b>,
}

/// What a block is in its unit.
#[derive(Debug, Clone, Copy)]
pub enum PartKind<'t, 'b> {
    /// Of a prompt or reply, or all that there is.
    Said,
    /// The call of an exchange.
    Call(&'t Exchange<'b>),
    /// One of the results of an exchange.
    Result {
        /// The place of the exchange among those of its unit.
        place: usize,
        /// The exchange.
        exchange: &'t Exchange<'b>,
    },
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Words.
    Text,
    /// A picture; the span of its base64, data URL or address.
    Image(Option<Span>),
    /// A document; the span of its data or address.
    Document(Option<Span>),
    /// Sound.
    Audio,
    /// The model's words for no.
    Refusal,
    /// The model's thinking. Sealed: signed or encrypted, so either these very bytes or none.
    Reasoning(Seal),
    /// A tool call; its text is the arguments.
    Call,
    /// A tool that the provider ran, or what came of it.
    ServerTool,
    /// A tool's definition.
    Tool,
    /// Part of the system prompt.
    System,
    /// A kind that is not known here.
    Unknown,
}

/// Whether reasoning is bound to its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// Signed or encrypted by the provider.
    Sealed,
    /// Plain text.
    Unsealed,
}

/// What a block hangs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An element of an array: can be removed or replaced.
    Element(ElementId),
    /// The value of a field.
    Field {
        /// The object.
        of: Span,
        /// The field's name.
        key: &'static str,
    },
}

/// An array of the body, as [`Transcript`] numbers them.
pub type ArrayId = u32;

/// An element of an array of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId {
    /// The array.
    pub array: ArrayId,
    /// The place in it.
    pub index: u32,
}

/// Where the arrays of a body and their elements are, in two lists: real bodies have thousands of arrays of one element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Arrays {
    arrays: Vec<Array>,
    spans: Vec<Span>,
}

/// One array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Array {
    /// From bracket to bracket.
    pub(crate) at: Span,
    first: u32,
    count: u32,
    /// The element that the array is a field of.
    pub(crate) owner: Option<ElementId>,
    /// Whether it is the content of a message, which goes when its last block goes.
    pub(crate) is_message_content: bool,
}

impl Array {
    /// Which of the elements of all arrays are this one's.
    pub(crate) fn range(self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

impl Arrays {
    pub(crate) fn count(&self) -> usize {
        self.arrays.len()
    }

    pub(crate) fn array(&self, id: ArrayId) -> Array {
        self.arrays[id as usize]
    }

    pub(crate) fn elements(&self, id: ArrayId) -> &[Span] {
        &self.spans[self.array(id).range()]
    }

    /// Begins an array; arrays inside it get higher numbers.
    pub(crate) fn open(&mut self) -> ArrayId {
        let at = Span { start: 0, end: 0 };
        self.arrays.push(Array { at, first: 0, count: 0, owner: None, is_message_content: false });
        self.arrays.len() as ArrayId - 1
    }

    /// Ends an array, all of whose inner arrays have ended.
    pub(crate) fn close(&mut self, id: ArrayId, at: Span, elements: impl Iterator<Item = Span>) {
        let first = self.spans.len() as u32;
        self.spans.extend(elements);
        let count = self.spans.len() as u32 - first;
        self.arrays[id as usize] = Array { at, first, count, ..self.arrays[id as usize] };
    }

    /// Gives every array from number `since` on that has no owner yet to this element.
    pub(crate) fn own_since(&mut self, since: usize, owner: ElementId) {
        for array in &mut self.arrays[since..] {
            array.owner.get_or_insert(owner);
        }
    }

    /// The array that is the content of this message.
    pub(crate) fn content_of(&self, message: ElementId) -> Option<ArrayId> {
        let is_it = |array: &Array| array.is_message_content && array.owner == Some(message);
        self.arrays.iter().position(is_it).map(|id| id as ArrayId)
    }

    pub(crate) fn mark_message_content(&mut self, id: ArrayId) {
        self.arrays[id as usize].is_message_content = true;
    }
}

/// Where a text is, and how it is written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSpan {
    /// Between the quotes of a string, or all of a JSON value.
    pub at: Span,
    /// How it is written.
    pub form: Form,
}

/// How a text is written in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A JSON string that holds words.
    String,
    /// A JSON value that is part of the body.
    Json,
    /// A JSON string that holds JSON.
    JsonInString,
    /// A string with half a surrogate pair in it: can be read, but is never edited.
    Damaged,
}

impl<'b> Block<'b> {
    /// The text, unescaped now: until somebody asks, a body is only scanned.
    #[must_use]
    pub fn text(&self) -> Cow<'b, str> {
        match self.text {
            None => Cow::Borrowed(""),
            Some(TextSpan { at, form: Form::Json }) => Cow::Borrowed(&self.body[at.range()]),
            Some(TextSpan { at, .. }) => unescape(&self.body[at.range()]),
        }
    }

    /// At least `len` bytes from the start of the text, for those who look at openings only.
    pub(crate) fn opening(&self, len: usize) -> Cow<'b, str> {
        self.text.map_or(Cow::Borrowed(""), |text| unescape_start(&self.body[text.at.range()], len))
    }

    /// At least `len` bytes from the end of the text.
    pub(crate) fn ending(&self, len: usize) -> Cow<'b, str> {
        self.text.map_or(Cow::Borrowed(""), |text| unescape_end(&self.body[text.at.range()], len))
    }

    /// Whether it is words that may be read and replaced.
    pub(crate) fn is_editable_text(&self) -> bool {
        self.kind == BlockKind::Text && self.text.is_some_and(|text| text.form == Form::String)
    }

    /// The bytes of the block as they stand in the body.
    #[must_use]
    pub fn raw(&self) -> &'b str {
        &self.body[self.at.range()]
    }
}

impl<'b> Unit<'b> {
    /// Every block of the unit: what is said, then the calls, then the results.
    pub fn blocks(&self) -> impl Iterator<Item = &Block<'b>> {
        self.kinds().map(|(block, _)| block)
    }

    /// The exchanges of a step; none of anything else.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange<'b>] {
        match &self.kind {
            UnitKind::Step { exchanges, .. } => exchanges,
            UnitKind::Prompt { .. } | UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => &[],
        }
    }

    /// The blocks that belong to no exchange.
    fn said(&self) -> &[Block<'b>] {
        match &self.kind {
            UnitKind::Prompt { blocks, .. } => blocks,
            UnitKind::Step { reply, .. } => reply,
            UnitKind::Checkpoint(block) | UnitKind::Opaque(block) => std::slice::from_ref(block),
        }
    }

    fn kinds(&self) -> impl Iterator<Item = (&Block<'b>, PartKind<'_, 'b>)> {
        let said = self.said().iter().map(|block| (block, PartKind::Said));
        let calls = self.exchanges().iter().filter_map(|e| Some((e.call.as_ref()?, PartKind::Call(e))));
        let results = self.exchanges().iter().enumerate().flat_map(|(place, exchange)| {
            exchange.results.iter().map(move |block| (block, PartKind::Result { place, exchange }))
        });
        said.chain(calls).chain(results)
    }

    /// Each exchange with the place of its first result among the unit's blocks; of its call, where nothing came back.
    pub(crate) fn placed_exchanges(&self) -> impl Iterator<Item = (usize, &Exchange<'b>)> {
        let first_call = self.said().len();
        let calls = self.exchanges().iter().filter(|exchange| exchange.call.is_some()).count();
        self.exchanges().iter().scan((first_call, first_call + calls), |(call, result), exchange| {
            let place = if exchange.results.is_empty() { *call } else { *result };
            *call += usize::from(exchange.call.is_some());
            *result += exchange.results.len();
            Some((place, exchange))
        })
    }
}

/// A body without what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// All before the first message, the system prompt among the messages included,
    pub before: &'b str,
    /// what parts that from the first,
    pub first: &'b str,
    /// what parts them,
    pub between: &'b str,
    /// and all behind the last.
    pub behind: &'b str,
}

impl<'b> Transcript<'b> {
    /// Every block, preamble first.
    pub fn blocks(&self) -> impl Iterator<Item = &Block<'b>> {
        self.preamble.iter().chain(self.units.iter().flat_map(Unit::blocks))
    }

    /// Every block of the units, oldest first.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_, 'b>> {
        (0..self.units.len()).flat_map(|unit| self.parts_of(unit))
    }

    /// The blocks of a unit, in the order of [`Unit::blocks`].
    pub fn parts_of(&self, unit: usize) -> impl Iterator<Item = Part<'_, 'b>> {
        let blocks = self.units.get(unit).into_iter().flat_map(Unit::kinds).enumerate();
        blocks.map(move |(place, (block, kind))| Part { at: BlockAt { unit, block: place }, block, kind })
    }

    /// The block at a place, if there is one.
    #[must_use]
    pub fn block(&self, at: BlockAt) -> Option<&Block<'b>> {
        self.units.get(at.unit)?.blocks().nth(at.block)
    }

    /// How many messages (or items) the body's list has.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.messages.map_or(0, |id| self.arrays.elements(id).len())
    }

    /// Under whose name a message or item stands; none where that is not understood.
    #[must_use]
    pub fn role(&self, message: usize) -> Option<Role> {
        self.roles.get(message).copied().flatten()
    }

    /// Under whose name a unit begins.
    pub(crate) fn role_of(&self, unit: &Unit<'_>) -> Option<Role> {
        let message = unit.owns.first().and_then(|id| self.message_of(*id));
        message.and_then(|message| self.role(message))
    }

    /// Which message an element is, or is part of.
    #[must_use]
    pub fn message_of(&self, element: ElementId) -> Option<usize> {
        if Some(element.array) == self.messages {
            return Some(element.index as usize);
        }
        self.arrays.array(element.array).owner.and_then(|owner| self.message_of(owner))
    }

    /// The content list of a message, where its content is a list.
    #[must_use]
    pub fn content_array(&self, message: ElementId) -> Option<ArrayId> {
        self.arrays.content_of(message)
    }

    /// Where an element is.
    #[must_use]
    pub fn span_of(&self, element: ElementId) -> Span {
        self.arrays.elements(element.array)[element.index as usize]
    }

    /// The body as it was when its list had this many messages.
    #[must_use]
    pub fn first_messages(&self, count: usize) -> String {
        let Some(id) = self.messages else { return self.body.to_owned() };
        let (list, elements) = (self.arrays.array(id).at, self.arrays.elements(id));
        let end =
            count.checked_sub(1).and_then(|last| elements.get(last)).map_or(list.start + 1, |span| span.end);
        [&self.body[..end as usize], &self.body[list.end as usize - 1..]].concat()
    }

    /// How many messages at the beginning of the list are the system prompt's: they belong to the host, not to what was said.
    #[must_use]
    pub fn lead(&self) -> usize {
        self.roles.iter().take_while(|role| **role == Some(Role::System)).count()
    }

    /// The body around what was said; nothing where there is no list of messages.
    #[must_use]
    pub fn envelope(&self) -> Option<Envelope<'b>> {
        let list = self.arrays.array(self.messages?).at;
        let (lead, said) = self.arrays.elements(self.messages?).split_at(self.lead());
        let open = list.start as usize + 1;
        let begin = said.first().map(|first| first.start as usize);
        let start = lead.last().map(|last| last.end as usize).or(begin).unwrap_or(open);
        let first = &self.body[start..begin.unwrap_or(start)];
        let between = match said {
            [one, two, ..] => &self.body[one.end as usize..two.start as usize],
            _ => ",",
        };
        let end = said.last().map_or(start, |last| last.end as usize);
        Some(Envelope { before: &self.body[..start], first, between, behind: &self.body[end..] })
    }

    /// A message as an element of its list.
    #[must_use]
    pub fn message_id(&self, index: usize) -> Option<ElementId> {
        let array = self.messages?;
        (index < self.message_count()).then_some(ElementId { array, index: index as u32 })
    }

    /// One message as it stands in the body.
    #[must_use]
    pub fn message(&self, index: usize) -> Option<&'b str> {
        let elements = self.arrays.elements(self.messages?);
        elements.get(index).map(|span| &self.body[span.range()])
    }

    /// The message that a place in the body is in.
    #[must_use]
    pub fn message_at(&self, at: Span) -> Option<usize> {
        let elements = self.arrays.elements(self.messages?);
        let message = elements.partition_point(|span| span.start <= at.start).checked_sub(1)?;
        elements[message].contains(at).then_some(message)
    }

    /// Whether the first thing in a message is a tool's result.
    #[must_use]
    pub fn begins_with_result(&self, message: usize) -> bool {
        let first = |unit: &Unit<'b>| {
            let parts = unit.exchanges().iter().flat_map(|exchange| &exchange.answers);
            parts
                .filter(|id| self.message_of(**id) == Some(message))
                .any(|id| Some(id.array) == self.messages || id.index == 0)
        };
        // The unit of a result begins with its call, a little before it.
        let near = self.units.partition_point(|unit| {
            unit.owns.first().and_then(|id| self.message_of(*id)).is_some_and(|first| first <= message)
        });
        self.units[near.saturating_sub(4)..near].iter().any(first)
    }

    /// The blocks of each message of a range, in the order in which they stand in it, with what they are.
    #[must_use]
    pub fn parts_by_message(&self, messages: Range<usize>) -> Vec<Vec<Part<'_, 'b>>> {
        let elements = self.messages.map_or(&[][..], |id| self.arrays.elements(id));
        let within = elements.get(messages).unwrap_or_default();
        let mut parts: Vec<Vec<Part<'_, 'b>>> = vec![Vec::new(); within.len()];
        let (Some(first), Some(last)) = (within.first(), within.last()) else { return parts };
        // Units stand in order, but their ends may interleave, so those before the range are passed by and none is left out.
        for part in self.parts() {
            let start = part.block.at.start;
            if start >= first.start && start < last.end {
                let at = within.partition_point(|span| span.start <= start) - 1;
                parts[at].push(part);
            }
        }
        for parts in &mut parts {
            parts.sort_by_key(|part| part.block.at.start);
        }
        parts
    }

    /// Some messages as they stand in the body, with what stands between them.
    #[must_use]
    pub fn messages_between(&self, from: usize, to: usize) -> &'b str {
        let elements = self.messages.map_or(&[][..], |id| self.arrays.elements(id));
        match elements.get(from..to) {
            Some([first, .., last]) => &self.body[first.start as usize..last.end as usize],
            Some([only]) => &self.body[only.range()],
            _ => "",
        }
    }

    /// The body with more messages, as they are written, at the end of its list.
    #[must_use]
    pub fn with_messages(&self, messages: &str) -> String {
        let Some(id) = self.messages.filter(|_| !messages.is_empty()) else { return self.body.to_owned() };
        let (list, elements) = (self.arrays.array(id).at, self.arrays.elements(id));
        let (end, comma) =
            elements.last().map_or((list.start as usize + 1, ""), |last| (last.end as usize, ","));
        [&self.body[..end], comma, messages, &self.body[list.end as usize - 1..]].concat()
    }

    /// The outermost object, for those who set a field of the request.
    #[must_use]
    pub fn root(&self) -> Span {
        self.root
    }
}

#[cfg(test)]
mod tests {
    use crate::wire;

    #[test]
    fn a_call_that_nothing_came_back_for_is_not_placed_at_the_result_of_another() {
        let call = |id: &str| {
            format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#)
        };
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":"well","tool_calls":[{},{}]}},{{"role":"tool","tool_call_id":"b","content":"done"}}]}}"#,
            call("a"),
            call("b"),
        );
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let unit = &transcript.units[1];
        let placed = unit.placed_exchanges().map(|(place, _)| unit.blocks().nth(place).unwrap().text());
        assert_eq!(placed.collect::<Vec<_>>(), ["{}", "done"]);
    }
}
