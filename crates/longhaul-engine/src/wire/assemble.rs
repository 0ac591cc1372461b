//! Assembles the blocks of a body, in order, into turns. Every call gets its results, even if they are in
//! different messages.

use std::borrow::Cow;
use std::collections::HashMap;

use super::detect::CallChannel;
use super::user_text::{self, TextCall, TextOrigin};
use super::{ParseNote, ParseNoteKind};
use crate::host_text::{self, RelayAuthor};
use crate::json::Span;
use crate::texts::{CHECKPOINT_OPENING, has_checkpoint_frame};
use crate::transcript::{Block, BlockKind, CallStatus, ElementId, JsonSlot, Speaker, ToolCall, Turn, TurnKind};

/// Builds turns while the reader of an API format walks over the messages.
#[derive(Default)]
pub(super) struct Assembler<'b> {
    turns: Vec<Turn<'b>>,
    notes: Vec<ParseNote>,
    /// The turn and index of the latest call with each ID. Real models reuse IDs, and a result belongs to the
    /// latest call.
    call_by_id: HashMap<Cow<'b, str>, (usize, usize)>,
    /// The message that is being read.
    message: Option<ElementId>,
    /// For each block of this message, the turn that got it and the element that contains it.
    claims: Vec<(usize, Option<ElementId>)>,
    /// Whether the last turn is an assistant turn that more blocks of the reply or more calls can join.
    is_reply_open: bool,
    /// The index of the assistant turn before this message, if that turn has no calls yet. With it, the call
    /// that its text seems to end with, if any.
    text_call: Option<(usize, Option<TextCall>)>,
    /// The newest text of a reply: the index of its turn, and its index among the blocks of the reply.
    newest_reply_text: Option<(usize, usize)>,
    /// Whether the previous block of this message was tool output sent as text.
    is_tool_output_open: bool,
    prompt_openings: Vec<String>,
    channel: CallChannel,
}

/// How many first lines of prompts are kept to recognize templates. A template repeats within a few prompts
/// or not at all.
const MAX_PROMPT_OPENINGS: usize = 32;

impl<'b> Assembler<'b> {
    pub(super) fn new(channel: CallChannel) -> Self {
        Self { channel, ..Self::default() }
    }

    /// Starts a message. Its blocks follow.
    pub(super) fn begin_message(&mut self, message: Option<ElementId>) {
        self.message = message;
        self.claims.clear();
        self.is_tool_output_open = false;
        self.text_call = None;
        let last = self.turns.len().wrapping_sub(1);
        if let Some(Turn { kind: TurnKind::Assistant { reply, tool_calls }, .. }) = self.turns.last()
            && tool_calls.is_empty()
        {
            // The newest text is remembered, not searched for: a reply may have thousands of blocks, and each
            // may start a message.
            let newest = self.newest_reply_text.filter(|(turn, _)| *turn == last);
            let call = newest.and_then(|(_, at)| reply.get(at)).and_then(user_text::parse_call_at_end);
            self.text_call = Some((last, call));
        }
    }

    /// Ends a message. If one turn got all of its blocks, the turn owns the message; otherwise each turn owns
    /// its blocks.
    pub(super) fn end_message(&mut self) {
        let Some(&(first, _)) = self.claims.first() else { return };
        if self.claims.iter().all(|(turn, _)| *turn == first) {
            self.message.into_iter().for_each(|message| push_exact(&mut self.turns[first].owned_elements, message));
        } else {
            for (turn, element) in &self.claims {
                if let Some(element) = element {
                    push_exact(&mut self.turns[*turn].owned_elements, *element);
                }
            }
        }
        self.claims.clear();
    }

    pub(super) fn add_note(&mut self, at: Span, kind: ParseNoteKind) {
        self.notes.push(ParseNote { at, kind });
    }

    fn claim(&mut self, turn: usize, slot: JsonSlot) {
        let element = match slot {
            JsonSlot::Element(id) => Some(id),
            JsonSlot::Field { .. } => self.message,
        };
        self.claims.push((turn, element));
    }

    fn push_turn(&mut self, kind: TurnKind<'b>, slot: JsonSlot) {
        self.turns.push(Turn { kind, owned_elements: Vec::new() });
        self.claim(self.turns.len() - 1, slot);
        self.is_reply_open = false;
    }

    /// Adds a text, reasoning or provider-run tool of a reply.
    pub(super) fn add_reply(&mut self, block: Block<'b>) {
        if is_checkpoint(&block) {
            let slot = block.slot;
            return self.push_turn(TurnKind::Checkpoint(block), slot);
        }
        let is_text = block.kind == BlockKind::Text;
        let Some((reply, _)) = self.open_assistant_turn(block.slot) else { return };
        let at = reply.len();
        push_exact(reply, block);
        if is_text {
            self.newest_reply_text = Some((self.turns.len() - 1, at));
        }
    }

    /// Adds a call of one of the client's tools.
    pub(super) fn add_call(&mut self, id: Option<Cow<'b, str>>, tool: Cow<'b, str>, block: Block<'b>) {
        let (slot, at) = (block.slot, block.at);
        let Some((_, tool_calls)) = self.open_assistant_turn(slot) else { return };
        let tool_call = tool_calls.len();
        let (results, result_elements, status) = (Vec::new(), Vec::new(), CallStatus::Open);
        push_exact(tool_calls, ToolCall { tool, call: Some(block), results, result_elements, status, failed: None });
        let Some(id) = id else { return };
        if self.call_by_id.insert(id, (self.turns.len() - 1, tool_call)).is_some() {
            self.add_note(at, ParseNoteKind::ReusedCallId);
        }
    }

    /// Returns the assistant turn that replies and calls are added to: the last turn while it has no results,
    /// otherwise a new one.
    fn open_assistant_turn(&mut self, slot: JsonSlot) -> Option<(&mut Vec<Block<'b>>, &mut Vec<ToolCall<'b>>)> {
        self.turn_checkpoint_into_reply();
        if self.is_reply_open {
            self.claim(self.turns.len() - 1, slot);
        } else {
            self.push_turn(TurnKind::Assistant { reply: Vec::new(), tool_calls: Vec::new() }, slot);
            self.is_reply_open = true;
        }
        match &mut self.turns.last_mut()?.kind {
            TurnKind::Assistant { reply, tool_calls } => Some((reply, tool_calls)),
            _ => None,
        }
    }

    /// Turns a checkpoint into a reply if the same message continues after it. Our own checkpoints are
    /// messages or blocks of their own.
    fn turn_checkpoint_into_reply(&mut self) {
        let of_this_message = self.claims.last().is_some_and(|(turn, _)| *turn + 1 == self.turns.len());
        let Some(last) = self.turns.last_mut().filter(|_| of_this_message) else { return };
        if let TurnKind::Checkpoint(block) = &last.kind {
            last.kind = TurnKind::Assistant { reply: vec![block.clone()], tool_calls: Vec::new() };
            self.is_reply_open = true;
            self.newest_reply_text = Some((self.turns.len() - 1, 0));
        }
    }

    /// Adds the result of a call.
    pub(super) fn add_result(&mut self, id: Option<&str>, result: ToolResult<'b>) {
        self.is_reply_open = false;
        let found = id.and_then(|id| self.call_by_id.get(id)).copied();
        let Some((turn, index)) = found else {
            self.add_note(result.at, ParseNoteKind::OrphanResult);
            let tool_call = ToolCall {
                tool: result.tool.unwrap_or_default(),
                call: None,
                results: result.blocks,
                result_elements: result.element.into_iter().collect(),
                status: CallStatus::Orphan,
                failed: result.failed,
            };
            return self.push_turn(TurnKind::Assistant { reply: Vec::new(), tool_calls: vec![tool_call] }, result.slot);
        };
        self.claim(turn, result.slot);
        if let TurnKind::Assistant { tool_calls, .. } = &mut self.turns[turn].kind {
            let tool_call = &mut tool_calls[index];
            tool_call.status =
                if tool_call.result_elements.is_empty() { CallStatus::Answered } else { CallStatus::Duplicate };
            if tool_call.results.is_empty() {
                tool_call.results = result.blocks;
            } else {
                tool_call.results.extend(result.blocks);
            }
            result.element.into_iter().for_each(|element| push_exact(&mut tool_call.result_elements, element));
            tool_call.failed = result.failed.or(tool_call.failed);
            if tool_call.status == CallStatus::Duplicate {
                self.add_note(result.at, ParseNoteKind::DuplicateResult);
            }
        }
    }

    /// Adds a block of a user message.
    pub(super) fn add_user_block(&mut self, block: Block<'b>) {
        if is_checkpoint(&block) {
            let slot = block.slot;
            // Text after a checkpoint is not the result of a call before it.
            self.text_call = None;
            return self.push_turn(TurnKind::Checkpoint(block), slot);
        }
        let origin = match (block.kind, &self.text_call) {
            (BlockKind::Text, text_call) => {
                let call = text_call.as_ref().and_then(|(_, call)| call.as_ref());
                match user_text::classify(&block, call, &self.prompt_openings) {
                    TextOrigin::Host | TextOrigin::User
                        if !self.is_tool_output_open && user_text::may_contain_relayed(&block) =>
                    {
                        // Text after a call that is written as text may be tool output, even if it looks like
                        // a wrapper.
                        relayed_origin(&block, call.is_none())
                    }
                    TextOrigin::ToolOutput if text_call.is_none() || self.channel == CallChannel::Structured => {
                        TextOrigin::Unsure
                    }
                    // Some agents send a header block that announces a result, and the result in the next
                    // block.
                    TextOrigin::User if self.is_tool_output_open => TextOrigin::ToolOutput,
                    origin => origin,
                }
            }
            (_, _) if self.is_tool_output_open => TextOrigin::ToolOutput,
            _ => TextOrigin::User,
        };
        self.is_tool_output_open = origin == TextOrigin::ToolOutput;
        match origin {
            TextOrigin::ToolOutput => self.add_text_result(block),
            TextOrigin::User => {
                if self.prompt_openings.len() < MAX_PROMPT_OPENINGS {
                    self.prompt_openings.extend(user_text::opening_line(&block));
                }
                self.add_prompt(Speaker::User, block);
            }
            TextOrigin::Host => self.add_prompt(Speaker::Host, block),
            TextOrigin::Unsure => self.add_prompt(Speaker::Unsure, block),
        }
    }

    /// Adds a block that the host sent in the middle of a conversation.
    pub(super) fn add_host_block(&mut self, block: Block<'b>) {
        self.add_prompt(Speaker::Host, block);
    }

    fn add_prompt(&mut self, by: Speaker, block: Block<'b>) {
        let slot = block.slot;
        let of_this_message = self.claims.last().is_some_and(|(turn, _)| *turn + 1 == self.turns.len());
        if of_this_message
            && let Some(Turn { kind: TurnKind::Prompt { speaker: last, blocks }, .. }) = self.turns.last_mut()
            && *last == by
        {
            push_exact(blocks, block);
            return self.claim(self.turns.len() - 1, slot);
        }
        self.push_turn(TurnKind::Prompt { speaker: by, blocks: vec![block] }, slot);
    }

    /// Adds tool output that was sent as user text, as the result of the call at the end of the reply before.
    fn add_text_result(&mut self, block: Block<'b>) {
        let Some((turn, call)) = &self.text_call else { return self.add_prompt(Speaker::Unsure, block) };
        let (turn, tool) = (*turn, call.as_ref().map(|c| c.tool.clone()).unwrap_or_default());
        let slot = block.slot;
        self.is_reply_open = false;
        self.claim(turn, slot);
        let element = self.claims.last().and_then(|(_, element)| *element);
        if let TurnKind::Assistant { tool_calls, .. } = &mut self.turns[turn].kind {
            if tool_calls.is_empty() {
                let tool = Cow::Owned(tool);
                let (results, result_elements, status) = (Vec::new(), Vec::new(), CallStatus::Answered);
                push_exact(tool_calls, ToolCall { tool, call: None, results, result_elements, status, failed: None });
            }
            push_exact(&mut tool_calls[0].results, block);
            if let Some(element) = element {
                push_exact(&mut tool_calls[0].result_elements, element);
            }
        }
    }

    /// Adds a block that is not understood. Directly after reasoning it joins the same turn, because the
    /// provider requires the two together.
    pub(super) fn add_opaque(&mut self, block: Block<'b>, kind: ParseNoteKind) {
        self.add_note(block.at, kind);
        let after_reasoning = self.is_reply_open
            && matches!(self.turns.last(), Some(Turn { kind: TurnKind::Assistant { reply, tool_calls }, .. })
                if tool_calls.is_empty() && reply.last().is_some_and(|b| matches!(b.kind, BlockKind::Reasoning(_))));
        if after_reasoning {
            return self.add_reply(block);
        }
        let slot = block.slot;
        self.push_turn(TurnKind::Opaque(block), slot);
    }

    /// Returns all turns. Calls without a result are open in the last turn and aborted in earlier turns.
    pub(super) fn finish(mut self) -> (Vec<Turn<'b>>, Vec<ParseNote>) {
        let last = self.turns.len().wrapping_sub(1);
        for (index, turn) in self.turns.iter_mut().enumerate() {
            let TurnKind::Assistant { tool_calls, .. } = &mut turn.kind else { continue };
            for tool_call in tool_calls
                .iter_mut()
                .filter(|tool_call| tool_call.result_elements.is_empty() && tool_call.status == CallStatus::Open)
            {
                tool_call.status = if index == last { CallStatus::Open } else { CallStatus::Aborted };
            }
        }
        self.turns.shrink_to_fit();
        (self.turns, self.notes)
    }
}

/// One tool result.
pub(super) struct ToolResult<'b> {
    pub(super) at: Span,
    pub(super) slot: JsonSlot,
    /// The element that contains the result. Every tool result has one.
    pub(super) element: Option<ElementId>,
    pub(super) tool: Option<Cow<'b, str>>,
    pub(super) blocks: Vec<Block<'b>>,
    pub(super) failed: Option<bool>,
}

/// Pushes into a list that usually has one element. `Vec` would otherwise reserve room for four.
fn push_exact<T>(list: &mut Vec<T>, value: T) {
    if list.len() < 2 {
        list.reserve_exact(1);
    }
    list.push(value);
}

/// Returns the origin of a block that may contain a host's wrapper. If the wrapper is not the whole block,
/// the origin is uncertain: the rest may be somebody else's text, for example a quoted file.
fn relayed_origin(block: &Block<'_>, is_sure: bool) -> TextOrigin {
    let text = block.text();
    match (host_text::parse_whole(&text), host_text::find_trailing(&text)) {
        (Some(words), _) if words.author == RelayAuthor::Person && is_sure => TextOrigin::User,
        (Some(_), _) | (None, Some(_)) => TextOrigin::Unsure,
        (None, None) if user_text::is_host_text(block) => TextOrigin::Host,
        (None, None) => TextOrigin::User,
    }
}

/// Returns whether a block has the form of a checkpoint. Only a plan, with the session's key and ledger, can
/// tell whether it is one of this session.
fn is_checkpoint(block: &Block<'_>) -> bool {
    block.kind == BlockKind::Text
        && block.opening(CHECKPOINT_OPENING.len()).starts_with(CHECKPOINT_OPENING)
        && has_checkpoint_frame(&block.text())
}
