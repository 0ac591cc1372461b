//! Pieces of a body, in its order, become units: every call finds its results, whatever messages they came in.

use std::borrow::Cow;
use std::collections::HashMap;

use super::recognise::Channel;
use super::spoken::{self, Heard, SpokenCall};
use super::{Note, NoteKind};
use crate::hosted::{self, By};
use crate::json::Span;
use crate::texts::{CHECKPOINT_OPENING, is_framed};
use crate::transcript::{Block, BlockKind, ElementId, Exchange, Place, Speaker, Status, Unit, UnitKind};

/// Builds units while a dialect walks its messages.
#[derive(Default)]
pub(super) struct Assembler<'b> {
    units: Vec<Unit<'b>>,
    notes: Vec<Note>,
    /// Where the latest call of each id is. Ids are reused by real models, so the latest is the one that is meant.
    calls: HashMap<Cow<'b, str>, (usize, usize)>,
    /// The message being read.
    message: Option<ElementId>,
    /// Which unit got which part of it.
    claims: Vec<(usize, Option<ElementId>)>,
    /// Whether the last unit is a step that may still grow by more reply or calls.
    replying: bool,
    /// The step, before this message, whose call was written as text and may be answered by text.
    spoken: Option<(usize, Option<SpokenCall>)>,
    /// The newest text of a reply: its unit, and its place among the blocks of the reply.
    newest_text: Option<(usize, usize)>,
    /// Whether the block before, in this message, was tool output as text.
    observing: bool,
    prompt_openings: Vec<String>,
    channel: Channel,
}

/// A template repeats within a few prompts or not at all.
const OPENINGS_KEPT: usize = 32;

impl<'b> Assembler<'b> {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, ..Self::default() }
    }

    /// Starts a message; its parts follow.
    pub(super) fn begin(&mut self, message: Option<ElementId>) {
        self.message = message;
        self.claims.clear();
        self.observing = false;
        self.spoken = None;
        let last = self.units.len().wrapping_sub(1);
        if let Some(Unit { kind: UnitKind::Step { reply, exchanges }, .. }) = self.units.last()
            && exchanges.is_empty()
        {
            // Looked up, not looked for: a reply may have thousands of blocks, and each begins a message here.
            let newest = self.newest_text.filter(|(unit, _)| *unit == last);
            let call = newest.and_then(|(_, at)| reply.get(at)).and_then(spoken::call_at_end);
            self.spoken = Some((last, call));
        }
    }

    /// Ends a message: a unit that has all of it owns the message, one that has part of it owns its blocks.
    pub(super) fn end(&mut self) {
        let Some(&(first, _)) = self.claims.first() else { return };
        if self.claims.iter().all(|(unit, _)| *unit == first) {
            self.message.into_iter().for_each(|message| push_exact(&mut self.units[first].owns, message));
        } else {
            for (unit, element) in &self.claims {
                if let Some(element) = element {
                    push_exact(&mut self.units[*unit].owns, *element);
                }
            }
        }
        self.claims.clear();
    }

    pub(super) fn note(&mut self, at: Span, kind: NoteKind) {
        self.notes.push(Note { at, kind });
    }

    fn claim(&mut self, unit: usize, place: Place) {
        let element = match place {
            Place::Element(id) => Some(id),
            Place::Field { .. } => self.message,
        };
        self.claims.push((unit, element));
    }

    fn push(&mut self, kind: UnitKind<'b>, place: Place) {
        self.units.push(Unit { kind, owns: Vec::new() });
        self.claim(self.units.len() - 1, place);
        self.replying = false;
    }

    /// Something the model said, thought or had done.
    pub(super) fn reply(&mut self, block: Block<'b>) {
        if is_checkpoint(&block) {
            let place = block.place;
            return self.push(UnitKind::Checkpoint(block), place);
        }
        let is_text = block.kind == BlockKind::Text;
        let Some((reply, _)) = self.step(block.place) else { return };
        let at = reply.len();
        push_exact(reply, block);
        if is_text {
            self.newest_text = Some((self.units.len() - 1, at));
        }
    }

    /// A call of one of the client's tools.
    pub(super) fn call(&mut self, id: Option<Cow<'b, str>>, tool: Cow<'b, str>, block: Block<'b>) {
        let (place, at) = (block.place, block.at);
        let Some((_, exchanges)) = self.step(place) else { return };
        let exchange = exchanges.len();
        let (results, answers, status) = (Vec::new(), Vec::new(), Status::Open);
        push_exact(exchanges, Exchange { tool, call: Some(block), results, answers, status, failed: None });
        let Some(id) = id else { return };
        if self.calls.insert(id, (self.units.len() - 1, exchange)).is_some() {
            self.note(at, NoteKind::ReusedCallId);
        }
    }

    /// The step that replies and calls go into: the last unit while it has no results, else a new one.
    fn step(&mut self, place: Place) -> Option<(&mut Vec<Block<'b>>, &mut Vec<Exchange<'b>>)> {
        self.reopen_checkpoint();
        if self.replying {
            self.claim(self.units.len() - 1, place);
        } else {
            self.push(UnitKind::Step { reply: Vec::new(), exchanges: Vec::new() }, place);
            self.replying = true;
        }
        match &mut self.units.last_mut()?.kind {
            UnitKind::Step { reply, exchanges } => Some((reply, exchanges)),
            _ => None,
        }
    }

    /// A reply that begins like a checkpoint and goes on is a reply: ours are messages or blocks of their own.
    fn reopen_checkpoint(&mut self) {
        let of_this_message = self.claims.last().is_some_and(|(unit, _)| *unit + 1 == self.units.len());
        let Some(last) = self.units.last_mut().filter(|_| of_this_message) else { return };
        if let UnitKind::Checkpoint(block) = &last.kind {
            last.kind = UnitKind::Step { reply: vec![block.clone()], exchanges: Vec::new() };
            self.replying = true;
            self.newest_text = Some((self.units.len() - 1, 0));
        }
    }

    /// The result of a call.
    pub(super) fn answer(&mut self, id: Option<&str>, answer: Answer<'b>) {
        self.replying = false;
        let found = id.and_then(|id| self.calls.get(id)).copied();
        let Some((unit, index)) = found else {
            self.note(answer.at, NoteKind::OrphanResult);
            let exchange = Exchange {
                tool: answer.tool.unwrap_or_default(),
                call: None,
                results: answer.blocks,
                answers: answer.element.into_iter().collect(),
                status: Status::Orphan,
                failed: answer.failed,
            };
            return self.push(UnitKind::Step { reply: Vec::new(), exchanges: vec![exchange] }, answer.place);
        };
        self.claim(unit, answer.place);
        if let UnitKind::Step { exchanges, .. } = &mut self.units[unit].kind {
            let exchange = &mut exchanges[index];
            exchange.status = if exchange.answers.is_empty() { Status::Answered } else { Status::Duplicate };
            if exchange.results.is_empty() {
                exchange.results = answer.blocks;
            } else {
                exchange.results.extend(answer.blocks);
            }
            answer.element.into_iter().for_each(|element| push_exact(&mut exchange.answers, element));
            exchange.failed = answer.failed.or(exchange.failed);
            if exchange.status == Status::Duplicate {
                self.note(answer.at, NoteKind::DuplicateResult);
            }
        }
    }

    /// Something that stands under the user's name.
    pub(super) fn user(&mut self, block: Block<'b>) {
        if is_checkpoint(&block) {
            let place = block.place;
            // What stands behind a checkpoint answers no call before it.
            self.spoken = None;
            return self.push(UnitKind::Checkpoint(block), place);
        }
        let heard = match (block.kind, &self.spoken) {
            (BlockKind::Text, spoken) => {
                let call = spoken.as_ref().and_then(|(_, call)| call.as_ref());
                match spoken::hear(&block, call, &self.prompt_openings) {
                    Heard::Host | Heard::User if !self.observing && spoken::may_relay(&block) => {
                        // What answers a call in words may be a tool's output, whatever it looks like.
                        relayed(&block, call.is_none())
                    }
                    Heard::Observation if spoken.is_none() || self.channel == Channel::Own => Heard::Unsure,
                    // A header block says "result", the next block is the result.
                    Heard::User if self.observing => Heard::Observation,
                    heard => heard,
                }
            }
            (_, _) if self.observing => Heard::Observation,
            _ => Heard::User,
        };
        self.observing = heard == Heard::Observation;
        match heard {
            Heard::Observation => self.observe(block),
            Heard::User => {
                if self.prompt_openings.len() < OPENINGS_KEPT {
                    self.prompt_openings.extend(spoken::opening_line(&block));
                }
                self.prompt(Speaker::User, block);
            }
            Heard::Host => self.prompt(Speaker::Host, block),
            Heard::Unsure => self.prompt(Speaker::Unsure, block),
        }
    }

    /// Something that the host says in mid-conversation.
    pub(super) fn host(&mut self, block: Block<'b>) {
        self.prompt(Speaker::Host, block);
    }

    fn prompt(&mut self, by: Speaker, block: Block<'b>) {
        let place = block.place;
        let of_this_message = self.claims.last().is_some_and(|(unit, _)| *unit + 1 == self.units.len());
        if of_this_message
            && let Some(Unit { kind: UnitKind::Prompt { by: last, blocks }, .. }) = self.units.last_mut()
            && *last == by
        {
            push_exact(blocks, block);
            return self.claim(self.units.len() - 1, place);
        }
        self.push(UnitKind::Prompt { by, blocks: vec![block] }, place);
    }

    /// Tool output that came as a user's text: the result of the call at the end of the reply before.
    fn observe(&mut self, block: Block<'b>) {
        let Some((unit, call)) = &self.spoken else { return self.prompt(Speaker::Unsure, block) };
        let (unit, tool) = (*unit, call.as_ref().map(|c| c.tool.clone()).unwrap_or_default());
        let place = block.place;
        self.replying = false;
        self.claim(unit, place);
        let element = self.claims.last().and_then(|(_, element)| *element);
        if let UnitKind::Step { exchanges, .. } = &mut self.units[unit].kind {
            if exchanges.is_empty() {
                let tool = Cow::Owned(tool);
                let (results, answers, status) = (Vec::new(), Vec::new(), Status::Answered);
                push_exact(exchanges, Exchange { tool, call: None, results, answers, status, failed: None });
            }
            push_exact(&mut exchanges[0].results, block);
            if let Some(element) = element {
                push_exact(&mut exchanges[0].answers, element);
            }
        }
    }

    /// Something that is not understood. Right after reasoning it stays with it: the provider wants the two together.
    pub(super) fn opaque(&mut self, block: Block<'b>, kind: NoteKind) {
        self.note(block.at, kind);
        let after_reasoning = self.replying
            && matches!(self.units.last(), Some(Unit { kind: UnitKind::Step { reply, exchanges }, .. })
                if exchanges.is_empty() && reply.last().is_some_and(|b| matches!(b.kind, BlockKind::Reasoning(_))));
        if after_reasoning {
            return self.reply(block);
        }
        let place = block.place;
        self.push(UnitKind::Opaque(block), place);
    }

    /// All units, with the calls that never got a result told apart.
    pub(super) fn finish(mut self) -> (Vec<Unit<'b>>, Vec<Note>) {
        let last = self.units.len().wrapping_sub(1);
        for (index, unit) in self.units.iter_mut().enumerate() {
            let UnitKind::Step { exchanges, .. } = &mut unit.kind else { continue };
            for exchange in exchanges.iter_mut().filter(|e| e.answers.is_empty() && e.status == Status::Open)
            {
                exchange.status = if index == last { Status::Open } else { Status::Aborted };
            }
        }
        self.units.shrink_to_fit();
        (self.units, self.notes)
    }
}

/// One result.
pub(super) struct Answer<'b> {
    pub(super) at: Span,
    pub(super) place: Place,
    /// The element that carries it; a result is always one.
    pub(super) element: Option<ElementId>,
    pub(super) tool: Option<Cow<'b, str>>,
    pub(super) blocks: Vec<Block<'b>>,
    pub(super) failed: Option<bool>,
}

/// Pushes into a list that mostly stays at one element, where the usual room for four would be three wasted.
fn push_exact<T>(list: &mut Vec<T>, value: T) {
    if list.len() < 2 {
        list.reserve_exact(1);
    }
    list.push(value);
}

/// Whose words a host wrapped in a block of its own. What is not all of the block stands beside words that somebody else may have
/// written, a file that is shown, say.
fn relayed(block: &Block<'_>, is_sure: bool) -> Heard {
    let text = block.text();
    match (hosted::whole(&text), hosted::behind(&text)) {
        (Some(words), _) if words.by == By::Person && is_sure => Heard::User,
        (Some(_), _) | (None, Some(_)) => Heard::Unsure,
        (None, None) if spoken::is_host(block) => Heard::Host,
        (None, None) => Heard::User,
    }
}

/// Whether a block could be a checkpoint. Whether it is one of the session, a plan says, which has its key and its ledger.
fn is_checkpoint(block: &Block<'_>) -> bool {
    block.kind == BlockKind::Text
        && block.opening(CHECKPOINT_OPENING.len()).starts_with(CHECKPOINT_OPENING)
        && is_framed(&block.text())
}
