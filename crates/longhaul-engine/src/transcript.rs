//! A request body as turns that no pass can take apart.
//!
//! ```text
//! body ──▶ preamble   tools, system prompt
//!          turns      Prompt │ Assistant (reply, each tool call with its results) │ Checkpoint │ Opaque
//! ```
//!
//! A transcript copies no text: a [`Block`] stores where its bytes are in the body and how its text is
//! encoded there. A tool call and its results are always in the same turn, even if they were sent in
//! different messages. So every index into [`Transcript::turns`] is a legal place to cut.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ApiFormat;
use crate::json::{Span, unescape, unescape_end, unescape_start};

/// A parsed request body.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript<'b> {
    /// The bytes that every span points into.
    pub body: &'b str,
    /// The API format in which the body is read.
    pub api_format: ApiFormat,
    /// Whether the caller named the API format or the body allows no other. If not, only edits that are valid
    /// in both Chat Completions and Messages are safe.
    pub is_api_format_certain: bool,
    /// The model that the body names.
    pub model: Option<Cow<'b, str>>,
    /// The largest number of tokens that the request allows for the reply, if it sets a limit.
    pub max_reply_tokens: Option<u64>,
    /// The tool definitions and the system prompt, in the order of the body.
    pub preamble: Vec<Block<'b>>,
    /// The turns of the conversation, oldest first.
    pub turns: Vec<Turn<'b>>,
    /// The arrays whose elements a rewrite may remove, replace or add to.
    pub(crate) arrays: JsonArrays,
    /// The list of messages or items. It is `None` if the body has no list, or only a string as its input.
    pub(crate) message_array: Option<ArrayId>,
    /// The role of each element of `message_array`; `None` for a role that is not known.
    pub(crate) roles: Vec<Option<Role>>,
    /// The span of the outermost JSON value.
    pub(crate) root: Span,
}

/// The largest number of messages that a request may have. A larger request is not a conversation: even with
/// the shortest real messages it would have about ten million bytes, and no provider accepts more messages
/// either.
pub const MAX_MESSAGES: usize = 100_000;

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The system prompt, or an instruction that the host sends in the middle of a conversation.
    System,
    /// The user. In the Messages format this includes messages that contain tool results.
    User,
    /// The model.
    Assistant,
    /// A tool result that is a message of its own.
    Tool,
}

/// The smallest part of a transcript that a compaction may keep or remove: a user message, or an assistant
/// message with its tool results.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn<'b> {
    /// The kind of turn, with its blocks.
    pub kind: TurnKind<'b>,
    /// The elements that belong to this turn alone: whole messages, or single blocks of messages that it
    /// shares with other turns. Removing them removes the turn and nothing else.
    pub owned_elements: Vec<ElementId>,
}

/// The kind of a turn, with its blocks.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnKind<'b> {
    /// Input for the model that is not a tool result.
    Prompt {
        /// The author of the input.
        speaker: Speaker,
        /// The content of the input.
        blocks: Vec<Block<'b>>,
    },
    /// A reply of the model, with its tool calls and their results.
    Assistant {
        /// Text, reasoning, and tools that the provider ran.
        reply: Vec<Block<'b>>,
        /// The tool calls, in order.
        tool_calls: Vec<ToolCall<'b>>,
    },
    /// A checkpoint of an earlier compaction, or a text that somebody wrote in the same form.
    Checkpoint(Block<'b>),
    /// A message that is not understood. It is never edited, but it may be removed as a whole.
    Opaque(Block<'b>),
}

/// The author of a prompt. Rules and tasks are only taken from users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// A person.
    User,
    /// The program that runs the model: reminders, facts about the environment, instructions in the middle of
    /// a conversation.
    Host,
    /// Either a person or a tool. The text is protected like a user's, but no rule or task is taken from it.
    Unsure,
}

/// A tool call with its results.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall<'b> {
    /// The name of the tool; empty if it is not known.
    pub tool: Cow<'b, str>,
    /// The call. It is `None` for a result without a call, and for a call that is only text inside the reply.
    pub call: Option<Block<'b>>,
    /// The content blocks of all results, in order.
    pub results: Vec<Block<'b>>,
    /// The elements that contain the results, one for each result. A result without content is listed here
    /// too.
    pub result_elements: Vec<ElementId>,
    /// How far the call got.
    pub status: CallStatus,
    /// Whether the call failed, if the API reported it. Most results do not.
    pub failed: Option<bool>,
}

/// How far a tool call got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// The call has exactly one result.
    Answered,
    /// The call is in the last turn and has no result yet.
    Open,
    /// The conversation continued without a result.
    Aborted,
    /// The call has more than one result.
    Duplicate,
    /// The result has no call.
    Orphan,
}

/// One piece of content, for example a text, an image or a tool call.
#[derive(Debug, Clone)]
pub struct Block<'b> {
    /// The kind of content.
    pub kind: BlockKind,
    /// The array element or object field that contains the block. Edits that remove the block, or set a field
    /// next to it, need it.
    pub slot: JsonSlot,
    /// The span of the whole block.
    pub at: Span,
    /// The text of the block, if it has a text that can be read and replaced.
    pub text: Option<TextSpan>,
    pub(crate) body: &'b str,
}

/// Compares two blocks of the same body by their spans, without comparing the body, which may have megabytes.
impl PartialEq for Block<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.slot, self.at, self.text) == (other.kind, other.slot, other.at, other.text)
            && (std::ptr::eq(self.body, other.body) || self.body == other.body)
    }
}

/// The position of a block: the index of its turn, and its index in [`Turn::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockPosition {
    /// The index of the turn in [`Transcript::turns`].
    pub unit: usize,
    /// The index of the block in [`Turn::blocks`].
    pub block: usize,
}

impl<'t, 'b> BlockRole<'t, 'b> {
    /// Returns the tool call that the block belongs to, if it belongs to one.
    #[must_use]
    pub fn tool_call(self) -> Option<&'t ToolCall<'b>> {
        match self {
            Self::Content => None,
            Self::Call(tool_call) | Self::Result { tool_call, .. } => Some(tool_call),
        }
    }
}

impl BlockPosition {
    /// Returns the range of all positions in a turn, for searches in sorted lists of positions.
    pub(crate) fn range_of_turn(turn: usize) -> Range<Self> {
        Self { unit: turn, block: 0 }..Self { unit: turn + 1, block: 0 }
    }
}

/// A block with its position and its role in its turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnBlock<'t, 'b> {
    /// The position of the block.
    pub position: BlockPosition,
    /// The block.
    pub block: &'t Block<'b>,
    /// The role of the block in its turn.
    pub role: BlockRole<'t, 'b>,
}

/// The role of a block in its turn.
#[derive(Debug, Clone, Copy)]
pub enum BlockRole<'t, 'b> {
    /// Content of a prompt or a reply, or the only block of its turn.
    Content,
    /// A tool call.
    Call(&'t ToolCall<'b>),
    /// A block of a tool result.
    Result {
        /// The index of the tool call in its turn.
        call_index: usize,
        /// The tool call that the result belongs to.
        tool_call: &'t ToolCall<'b>,
    },
}

/// The kind of content in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Text.
    Text,
    /// An image, with the span of its base64 data, data URL or URL.
    Image(Option<Span>),
    /// A document, with the span of its data or URL.
    Document(Option<Span>),
    /// An audio recording.
    Audio,
    /// The text with which the model refused to answer.
    Refusal,
    /// Reasoning of the model. Sealed reasoning is signed or encrypted, so its bytes are kept unchanged or
    /// removed.
    Reasoning(Seal),
    /// A tool call. Its text is the arguments.
    Call,
    /// A call or a result of a tool that the provider ran.
    ServerTool,
    /// A tool definition.
    Tool,
    /// A part of the system prompt.
    System,
    /// Content of an unknown kind.
    Unknown,
}

/// Whether the bytes of a reasoning block may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// The provider signed or encrypted the reasoning, so its bytes must not change.
    Sealed,
    /// The reasoning is plain text.
    Unsealed,
}

/// The place in the JSON body that contains a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonSlot {
    /// An element of an array, which can be removed or replaced.
    Element(ElementId),
    /// The value of an object's field.
    Field {
        /// The span of the object.
        object: Span,
        /// The name of the field.
        key: &'static str,
    },
}

/// The number of an array of the body, in the order in which [`Transcript`] counts them.
pub type ArrayId = u32;

/// The array and index of an array element of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId {
    /// The array.
    pub array: ArrayId,
    /// The index in the array.
    pub index: u32,
}

/// The spans of the body's arrays and of their elements. The elements of all arrays share one list, because
/// real bodies have thousands of arrays with one element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JsonArrays {
    arrays: Vec<JsonArray>,
    spans: Vec<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonArray {
    /// The span from bracket to bracket.
    pub(crate) at: Span,
    first: u32,
    count: u32,
    /// The element that has this array as a field.
    pub(crate) owner: Option<ElementId>,
    /// Whether the array is the content of a message. Such a message is removed together with its last block.
    pub(crate) is_message_content: bool,
}

impl JsonArray {
    /// Returns the indices of this array's elements in the shared list of spans.
    pub(crate) fn range(self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

impl JsonArrays {
    pub(crate) fn count(&self) -> usize {
        self.arrays.len()
    }

    pub(crate) fn array(&self, id: ArrayId) -> JsonArray {
        self.arrays[id as usize]
    }

    pub(crate) fn elements(&self, id: ArrayId) -> &[Span] {
        &self.spans[self.array(id).range()]
    }

    /// Starts an array and returns its number. Arrays inside it get higher numbers.
    pub(crate) fn open(&mut self) -> ArrayId {
        let at = Span { start: 0, end: 0 };
        self.arrays.push(JsonArray { at, first: 0, count: 0, owner: None, is_message_content: false });
        self.arrays.len() as ArrayId - 1
    }

    /// Finishes an array. All arrays inside it must be finished.
    pub(crate) fn close(&mut self, id: ArrayId, at: Span, elements: impl Iterator<Item = Span>) {
        let first = self.spans.len() as u32;
        self.spans.extend(elements);
        let count = self.spans.len() as u32 - first;
        self.arrays[id as usize] = JsonArray { at, first, count, ..self.arrays[id as usize] };
    }

    /// Sets the owner of every array from number `since` on that has no owner yet.
    pub(crate) fn set_owner_since(&mut self, since: usize, owner: ElementId) {
        for array in &mut self.arrays[since..] {
            array.owner.get_or_insert(owner);
        }
    }

    /// Returns the array that is the content of a message.
    pub(crate) fn message_content(&self, message: ElementId) -> Option<ArrayId> {
        let is_it = |array: &JsonArray| array.is_message_content && array.owner == Some(message);
        self.arrays.iter().position(is_it).map(|id| id as ArrayId)
    }

    pub(crate) fn mark_message_content(&mut self, id: ArrayId) {
        self.arrays[id as usize].is_message_content = true;
    }
}

/// The span of a text, and its encoding in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSpan {
    /// The span inside the quotes of a string, or the span of a whole JSON value.
    pub at: Span,
    /// The encoding of the text.
    pub encoding: TextEncoding,
}

/// How a text is encoded in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// A JSON string that contains plain text.
    String,
    /// A JSON value, used as it is.
    Json,
    /// A JSON string that contains JSON.
    JsonInString,
    /// A JSON string with an unpaired surrogate. It can be read, but it is never edited.
    Damaged,
}

impl<'b> Block<'b> {
    /// Returns the unescaped text. Unescaping happens on each call, because most texts of a body are never
    /// read.
    #[must_use]
    pub fn text(&self) -> Cow<'b, str> {
        match self.text {
            None => Cow::Borrowed(""),
            Some(TextSpan { at, encoding: TextEncoding::Json }) => Cow::Borrowed(&self.body[at.range()]),
            Some(TextSpan { at, .. }) => unescape(&self.body[at.range()]),
        }
    }

    /// Returns at least the first `len` bytes of the text, without unescaping the rest.
    pub(crate) fn opening(&self, len: usize) -> Cow<'b, str> {
        self.text.map_or(Cow::Borrowed(""), |text| unescape_start(&self.body[text.at.range()], len))
    }

    /// Returns at least the last `len` bytes of the text, without unescaping the rest.
    pub(crate) fn ending(&self, len: usize) -> Cow<'b, str> {
        self.text.map_or(Cow::Borrowed(""), |text| unescape_end(&self.body[text.at.range()], len))
    }

    /// Returns whether the block is text that can be read and replaced.
    pub(crate) fn is_editable_text(&self) -> bool {
        self.kind == BlockKind::Text && self.text.is_some_and(|text| text.encoding == TextEncoding::String)
    }

    /// Returns the bytes of the block as they are in the body.
    #[must_use]
    pub fn raw(&self) -> &'b str {
        &self.body[self.at.range()]
    }
}

impl<'b> Turn<'b> {
    /// Returns every block of the turn: the message itself, then the tool calls, then the results.
    pub fn blocks(&self) -> impl Iterator<Item = &Block<'b>> {
        self.blocks_with_roles().map(|(block, _)| block)
    }

    /// Returns the tool calls of an assistant turn, and an empty slice for other turns.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall<'b>] {
        match &self.kind {
            TurnKind::Assistant { tool_calls, .. } => tool_calls,
            TurnKind::Prompt { .. } | TurnKind::Checkpoint(_) | TurnKind::Opaque(_) => &[],
        }
    }

    /// Whether the turn consists only of results without calls.
    pub(crate) fn has_only_orphaned_results(&self) -> bool {
        matches!(&self.kind, TurnKind::Assistant { reply, tool_calls }
            if reply.is_empty() && tool_calls.iter().all(|tool_call| tool_call.status == CallStatus::Orphan))
    }

    /// Returns the blocks that belong to no tool call.
    fn message_blocks(&self) -> &[Block<'b>] {
        match &self.kind {
            TurnKind::Prompt { blocks, .. } => blocks,
            TurnKind::Assistant { reply, .. } => reply,
            TurnKind::Checkpoint(block) | TurnKind::Opaque(block) => std::slice::from_ref(block),
        }
    }

    fn blocks_with_roles(&self) -> impl Iterator<Item = (&Block<'b>, BlockRole<'_, 'b>)> {
        let said = self.message_blocks().iter().map(|block| (block, BlockRole::Content));
        let calls = self.tool_calls().iter().filter_map(|e| Some((e.call.as_ref()?, BlockRole::Call(e))));
        let results = self.tool_calls().iter().enumerate().flat_map(|(place, tool_call)| {
            tool_call.results.iter().map(move |block| (block, BlockRole::Result { call_index: place, tool_call }))
        });
        said.chain(calls).chain(results)
    }

    /// Returns each tool call with the index, among the turn's blocks, of its first result, or of the call if
    /// it has no result.
    pub(crate) fn tool_calls_with_block_index(&self) -> impl Iterator<Item = (usize, &ToolCall<'b>)> {
        let first_call = self.message_blocks().len();
        let calls = self.tool_calls().iter().filter(|tool_call| tool_call.call.is_some()).count();
        self.tool_calls().iter().scan((first_call, first_call + calls), |(call, result), tool_call| {
            let place = if tool_call.results.is_empty() { *call } else { *result };
            *call += usize::from(tool_call.call.is_some());
            *result += tool_call.results.len();
            Some((place, tool_call))
        })
    }
}

/// A request body without its conversation. The system messages at the start of the list belong to the
/// envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// Everything up to the end of the last leading system message, or up to the first message if there is
    /// none.
    pub before: &'b str,
    /// The bytes between `before` and the first message of the conversation.
    pub first_separator: &'b str,
    /// The bytes between two messages.
    pub separator: &'b str,
    /// Everything after the last message.
    pub after: &'b str,
}

impl<'b> Transcript<'b> {
    /// Returns every block, the preamble first.
    pub fn blocks(&self) -> impl Iterator<Item = &Block<'b>> {
        self.preamble.iter().chain(self.turns.iter().flat_map(Turn::blocks))
    }

    /// Returns every block of the turns with its position and role, oldest first.
    pub fn turn_blocks(&self) -> impl Iterator<Item = TurnBlock<'_, 'b>> {
        (0..self.turns.len()).flat_map(|turn| self.blocks_of_turn(turn))
    }

    /// Returns the blocks of one turn with their positions and roles, in the order of [`Turn::blocks`].
    pub fn blocks_of_turn(&self, turn: usize) -> impl Iterator<Item = TurnBlock<'_, 'b>> {
        let blocks = self.turns.get(turn).into_iter().flat_map(Turn::blocks_with_roles).enumerate();
        blocks.map(move |(place, (block, kind))| TurnBlock {
            position: BlockPosition { unit: turn, block: place },
            block,
            role: kind,
        })
    }

    /// Returns the block at a position, if there is one.
    #[must_use]
    pub fn block(&self, at: BlockPosition) -> Option<&Block<'b>> {
        self.turns.get(at.unit)?.blocks().nth(at.block)
    }

    /// Returns the number of messages or items in the body's list.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.message_array.map_or(0, |id| self.arrays.elements(id).len())
    }

    /// Returns the role of a message or item, or `None` if the role is not known.
    #[must_use]
    pub fn role(&self, message: usize) -> Option<Role> {
        self.roles.get(message).copied().flatten()
    }

    /// Returns the role of the first message of a turn.
    pub(crate) fn role_of_turn(&self, turn: &Turn<'_>) -> Option<Role> {
        let message = turn.owned_elements.first().and_then(|id| self.message_of(*id));
        message.and_then(|message| self.role(message))
    }

    /// Returns the index of the message that contains an element, or that is the element.
    #[must_use]
    pub fn message_of(&self, element: ElementId) -> Option<usize> {
        if Some(element.array) == self.message_array {
            return Some(element.index as usize);
        }
        self.arrays.array(element.array).owner.and_then(|owner| self.message_of(owner))
    }

    /// Returns the content array of a message, if its content is an array.
    #[must_use]
    pub fn content_array(&self, message: ElementId) -> Option<ArrayId> {
        self.arrays.message_content(message)
    }

    /// Returns the span of an element.
    #[must_use]
    pub fn span_of(&self, element: ElementId) -> Span {
        self.arrays.elements(element.array)[element.index as usize]
    }

    /// Returns the body with only the first `count` messages.
    #[must_use]
    pub fn body_with_first_messages(&self, count: usize) -> String {
        let Some(id) = self.message_array else { return self.body.to_owned() };
        let (list, elements) = (self.arrays.array(id).at, self.arrays.elements(id));
        let end = count.checked_sub(1).and_then(|last| elements.get(last)).map_or(list.start + 1, |span| span.end);
        [&self.body[..end as usize], &self.body[list.end as usize - 1..]].concat()
    }

    /// Counts the system messages at the start of the list. They belong to the host, not to the conversation.
    #[must_use]
    pub fn system_message_count(&self) -> usize {
        self.roles.iter().take_while(|role| **role == Some(Role::System)).count()
    }

    /// Returns the body without its conversation, or `None` if the body has no list of messages.
    #[must_use]
    pub fn envelope(&self) -> Option<Envelope<'b>> {
        let list = self.arrays.array(self.message_array?).at;
        let (lead, said) = self.arrays.elements(self.message_array?).split_at(self.system_message_count());
        let open = list.start as usize + 1;
        let begin = said.first().map(|first| first.start as usize);
        let start = lead.last().map(|last| last.end as usize).or(begin).unwrap_or(open);
        let first = &self.body[start..begin.unwrap_or(start)];
        let between = match said {
            [one, two, ..] => &self.body[one.end as usize..two.start as usize],
            _ => ",",
        };
        let end = said.last().map_or(start, |last| last.end as usize);
        Some(Envelope {
            before: &self.body[..start],
            first_separator: first,
            separator: between,
            after: &self.body[end..],
        })
    }

    /// Returns the element of a message in the list.
    #[must_use]
    pub fn message_id(&self, index: usize) -> Option<ElementId> {
        let array = self.message_array?;
        (index < self.message_count()).then_some(ElementId { array, index: index as u32 })
    }

    /// Returns the JSON of one message as it is in the body.
    #[must_use]
    pub fn message_json(&self, index: usize) -> Option<&'b str> {
        let elements = self.arrays.elements(self.message_array?);
        elements.get(index).map(|span| &self.body[span.range()])
    }

    /// Returns the index of the message that contains a span of the body.
    #[must_use]
    pub fn message_at(&self, at: Span) -> Option<usize> {
        let elements = self.arrays.elements(self.message_array?);
        let message = elements.partition_point(|span| span.start <= at.start).checked_sub(1)?;
        elements[message].contains(at).then_some(message)
    }

    /// Returns whether a message starts with a tool result.
    #[must_use]
    pub fn begins_with_result(&self, message: usize) -> bool {
        let first = |turn: &Turn<'b>| {
            let parts = turn.tool_calls().iter().flat_map(|tool_call| &tool_call.result_elements);
            parts
                .filter(|id| self.message_of(**id) == Some(message))
                .any(|id| Some(id.array) == self.message_array || id.index == 0)
        };
        // The turn of a result starts with its call, which is at most a few turns earlier.
        let near = self.turns.partition_point(|turn| {
            turn.owned_elements.first().and_then(|id| self.message_of(*id)).is_some_and(|first| first <= message)
        });
        self.turns[near.saturating_sub(4)..near].iter().any(first)
    }

    /// Returns the blocks of each message in a range, in the order of the body.
    #[must_use]
    pub fn blocks_by_message(&self, messages: Range<usize>) -> Vec<Vec<TurnBlock<'_, 'b>>> {
        let elements = self.message_array.map_or(&[][..], |id| self.arrays.elements(id));
        let within = elements.get(messages).unwrap_or_default();
        let mut parts: Vec<Vec<TurnBlock<'_, 'b>>> = vec![Vec::new(); within.len()];
        let (Some(first), Some(last)) = (within.first(), within.last()) else { return parts };
        // Turns are ordered by their start, but they may overlap at their ends, so all of them are searched.
        for part in self.turn_blocks() {
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

    /// Returns the JSON of the messages `from..to`, with the bytes between them.
    #[must_use]
    pub fn messages_json(&self, from: usize, to: usize) -> &'b str {
        let elements = self.message_array.map_or(&[][..], |id| self.arrays.elements(id));
        match elements.get(from..to) {
            Some([first, .., last]) => &self.body[first.start as usize..last.end as usize],
            Some([only]) => &self.body[only.range()],
            _ => "",
        }
    }

    /// Returns the body with more messages appended to its list. `messages` is JSON, separated by commas.
    #[must_use]
    pub fn body_with_appended(&self, messages: &str) -> String {
        let Some(id) = self.message_array.filter(|_| !messages.is_empty()) else {
            return self.body.to_owned();
        };
        let (list, elements) = (self.arrays.array(id).at, self.arrays.elements(id));
        let (end, comma) = elements.last().map_or((list.start as usize + 1, ""), |last| (last.end as usize, ","));
        [&self.body[..end], comma, messages, &self.body[list.end as usize - 1..]].concat()
    }

    /// Returns the span of the outermost object, for edits that set a field of the request.
    #[must_use]
    pub fn root(&self) -> Span {
        self.root
    }
}

#[cfg(test)]
mod tests {
    use crate::wire;

    #[test]
    fn a_call_without_a_result_is_not_placed_at_the_result_of_another() {
        let call =
            |id: &str| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":"well","tool_calls":[{},{}]}},{{"role":"tool","tool_call_id":"b","content":"done"}}]}}"#,
            call("a"),
            call("b"),
        );
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let turn = &transcript.turns[1];
        let placed = turn.tool_calls_with_block_index().map(|(place, _)| turn.blocks().nth(place).unwrap().text());
        assert_eq!(placed.collect::<Vec<_>>(), ["{}", "done"]);
    }
}
