//! A compaction as a page shows it, before there is any markup.

use std::collections::{BTreeMap, HashMap};

use longhaul_engine::action::Actions;
use longhaul_engine::cache::{self, Route};
use longhaul_engine::known::Known;
use longhaul_engine::meter::{Meter, Parts};
use longhaul_engine::models::Model;
use longhaul_engine::plan::What;
use longhaul_engine::transcript::{BlockKind, UnitKind};
use longhaul_engine::wire::Role;
use longhaul_engine::{Dialect, Tokens};

use super::account::{Account, Changed};
use super::align::{self, Became, Same};
use super::caching::{Caching, breakpoints};
use super::checkpoint::{Carriers, Checkpoint, Gone};
use super::side::{Messages, Side};
use super::texts::Secrets;
use crate::pages::Fate;

/// What a compaction is shown from.
pub struct Sides<'s> {
    /// The body before,
    pub before: &'s str,
    /// and after; the same, where nothing changed.
    pub after: &'s str,
    /// How both are written, where that is known.
    pub dialect: Option<Dialect>,
    /// What the compaction said about itself.
    pub account: Account,
    /// Whose tokens are counted.
    pub model: &'s Model,
    /// How its provider caches.
    pub route: Route,
    /// The same, in words.
    pub status: String,
}

/// One compaction.
pub struct Compaction {
    /// What it said about itself.
    pub account: Account,
    /// Tokens by part, before and after.
    pub parts: [Parts; 2],
    /// What stands before the messages.
    pub preamble: Preamble,
    /// The messages in order: those that were there, and what is new where it stands now.
    pub messages: Vec<Message>,
    /// What speaks for the folded ones.
    pub checkpoint: Option<Checkpoint>,
    /// What a provider's cache keeps.
    pub caching: Caching,
}

/// What stands before the messages, which no compaction changes.
#[derive(Debug, Clone, Default)]
pub struct Preamble {
    /// The system prompt, block by block.
    pub system: Vec<String>,
    /// How many tools are defined.
    pub tools: usize,
}

/// A message on both sides.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its place before; none, if it is new.
    pub before: Option<usize>,
    /// Its place after; none, if it is gone.
    pub after: Option<usize>,
    /// Under whose name it stands.
    pub who: Who,
    /// What became of it.
    pub fate: Fate,
    /// Its blocks as they were.
    pub pieces: Vec<Piece>,
    /// What is new in it.
    pub added: Vec<Added>,
}

/// Under whose name a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The system prompt, or the host.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// Not understood.
    Unknown,
}

/// A block, and what became of it.
#[derive(Debug, Clone)]
pub struct Piece {
    /// What it is.
    pub what: What,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// What became of it.
    pub fate: Fate,
    /// Its tokens before and after.
    pub tokens: [Tokens; 2],
    /// What it said.
    pub before: String,
    /// What stands in its place, where that is something else.
    pub after: Option<String>,
    /// Which decision changed it.
    pub why: Option<String>,
    /// What fetches the original.
    pub handle: Option<String>,
    /// The item of the checkpoint that speaks for it.
    pub carried_by: Option<usize>,
}

/// Something that was not there before.
#[derive(Debug, Clone)]
pub enum Added {
    /// The checkpoint.
    Checkpoint,
    /// Another text.
    Text(String),
}

impl Compaction {
    /// The compaction between two bodies; none, where one of them cannot be read.
    #[must_use]
    pub fn of(sides: Sides<'_>, secrets: &mut Secrets, known: &mut Known) -> Option<Self> {
        let before = Side::read(sides.dialect, sides.before)?;
        let after = Side::read(Some(before.transcript.dialect), sides.after)?;
        let meter = Meter::of(sides.model);
        let parts = [&before, &after].map(|side| meter.parts(known, &side.transcript));
        let warm = cache::warm(&before.reading, &after.transcript, &after.reading, sides.model, known);
        let cold = warm.difference.map(|difference| difference.message.unwrap_or(0) as usize);
        let caching = Caching {
            status: sides.status,
            before: breakpoints(&before, &sides.route, sides.model, known),
            after: breakpoints(&after, &sides.route, sides.model, known),
            cold_from: cold,
        };
        let (old, new) = (before.messages(), after.messages());
        let became = align::messages(&old, &new);
        let mut builder = Builder {
            rows: rows_of(&sides.account),
            old: &old,
            new: &new,
            secrets,
            known,
            meter,
            checkpoint: None,
            // What an earlier compaction folded is folded still, though this one wrote nothing about it.
            folded: sides.account.checkpoint.is_some()
                || (has_checkpoint(&after) && !has_checkpoint(&before)),
        };
        let mut messages = builder.messages(&became);
        let checkpoint = builder.checkpoint.take();
        let checkpoint = checkpoint.map(|made| carried(made, &before, &mut messages));
        let checkpoint = checkpoint.map(|made| Checkpoint {
            tokens: sides.account.checkpoint.as_ref().map_or(made.tokens, |said| said.tokens),
            stands_for: messages.iter().filter(|(message, _)| message.fate == Fate::Folded).count(),
            ..made
        });
        let messages = messages.into_iter().map(|(message, _)| message).collect();
        let preamble = preamble(&before, secrets);
        Some(Self { account: sides.account, parts, preamble, messages, checkpoint, caching })
    }

    /// How many blocks met this fate.
    #[must_use]
    pub fn blocks(&self, fate: Fate) -> usize {
        self.messages.iter().flat_map(|message| &message.pieces).filter(|piece| piece.fate == fate).count()
    }

    /// How many messages did.
    #[must_use]
    pub fn count(&self, fate: Fate) -> usize {
        self.messages.iter().filter(|message| message.before.is_some() && message.fate == fate).count()
    }
}

fn has_checkpoint(side: &Side<'_>) -> bool {
    side.transcript.units.iter().any(|unit| matches!(unit.kind, UnitKind::Checkpoint(_)))
}

/// A message with the units that its blocks belong to.
type Placed = (Message, Vec<usize>);

/// The rows of a report by message and kind of block, the first one last.
fn rows_of(account: &Account) -> HashMap<(usize, String), Vec<Changed>> {
    let mut rows: HashMap<(usize, String), Vec<Changed>> = HashMap::new();
    for row in account.blocks.iter().rev() {
        rows.entry((row.at, row.what.clone())).or_default().push(row.clone());
    }
    rows
}

struct Builder<'p, 't, 'b> {
    rows: HashMap<(usize, String), Vec<Changed>>,
    old: &'p Messages<'t, 'b>,
    new: &'p Messages<'t, 'b>,
    secrets: &'p mut Secrets,
    known: &'p mut Known,
    meter: Meter,
    checkpoint: Option<Checkpoint>,
    /// Whether a checkpoint was made of what is gone.
    folded: bool,
}

impl Builder<'_, '_, '_> {
    /// All messages in the order before; what is new stands where it stands after, before those that it took the place of.
    fn messages(&mut self, became: &[Option<usize>]) -> Vec<Placed> {
        let mut behind = vec![self.new.count(); became.len()];
        became.iter().enumerate().rev().fold(self.new.count(), |next, (at, after)| {
            behind[at] = after.unwrap_or(next);
            behind[at]
        });
        let mut messages = Vec::with_capacity(became.len() + 1);
        let mut next = 0;
        for (before, after) in became.iter().enumerate() {
            messages.extend((next..behind[before]).map(|after| self.added(after)));
            next = after.map_or(behind[before], |after| after + 1);
            // The system prompt stands above all messages, wherever a dialect puts it.
            if !self.old.parts[before].is_empty() || self.old.role(before) != Some(Role::System) {
                messages.push(self.message(before, *after));
            }
        }
        messages.extend((next..self.new.count()).map(|after| self.added(after)));
        messages
    }

    fn message(&mut self, before: usize, after: Option<usize>) -> Placed {
        let old = self.old.blocks(before);
        let new = after.map(|after| self.new.blocks(after)).unwrap_or_default();
        let became = align::blocks(&old, &new);
        let mut pieces = Vec::with_capacity(old.len());
        for (at, block) in old.iter().enumerate() {
            pieces.push(self.piece(before, at, block.what, block.tool.as_deref(), after.zip(became[at])));
        }
        let is_used = |at: usize| became.iter().flatten().any(|found| found.block == at);
        let fresh: Vec<usize> = (0..new.len()).filter(|at| !is_used(*at)).collect();
        let added = fresh.into_iter().filter_map(|at| self.fresh(after?, at, new[at].what)).collect();
        let units = self.old.parts[before].iter().map(|part| part.at.unit).collect();
        let who = who(self.old.role(before));
        let fate = fate_of(&pieces, after);
        (Message { before: Some(before), after, who, fate, pieces, added }, units)
    }

    /// A message that was not there before.
    fn added(&mut self, after: usize) -> Placed {
        let whats: Vec<What> = self.new.blocks(after).iter().map(|block| block.what).collect();
        let added =
            whats.into_iter().enumerate().filter_map(|(at, what)| self.fresh(after, at, what)).collect();
        let who = who(self.new.role(after));
        (
            Message { before: None, after: Some(after), who, fate: Fate::Kept, pieces: Vec::new(), added },
            Vec::new(),
        )
    }

    fn fresh(&mut self, after: usize, at: usize, what: What) -> Option<Added> {
        let block = self.new.parts.get(after)?.get(at)?.block;
        let text = self.secrets.block(block);
        if what == What::Checkpoint && self.checkpoint.is_none() {
            let tokens = self.meter.block(self.known, block).number();
            self.checkpoint = Some(Checkpoint { tokens, ..Checkpoint::read(&text) });
            return Some(Added::Checkpoint);
        }
        Some(Added::Text(text))
    }

    fn piece(
        &mut self,
        message: usize,
        at: usize,
        what: What,
        tool: Option<&str>,
        became: Option<(usize, Became)>,
    ) -> Piece {
        let block = self.old.parts[message][at].block;
        let before = self.secrets.block(block);
        let size = self.meter.block(self.known, block);
        let after = became.and_then(|(after, found)| {
            Some((self.new.parts.get(after)?.get(found.block)?.block, found.same))
        });
        let row = match after {
            Some((_, Same::Yes)) => None,
            _ => self.rows.get_mut(&(message, what.name().to_owned())).and_then(Vec::pop),
        };
        let (fate, size_after, text) = match after {
            Some((_, Same::Yes)) => (Fate::Kept, size, None),
            Some((after, Same::No)) => {
                (Fate::Digested, self.meter.block(self.known, after), Some(self.secrets.block(after)))
            }
            // What is bound to something that changed goes without being said anywhere.
            None if self.folded && what != What::Reasoning => (Fate::Folded, Tokens::ZERO, None),
            None => (Fate::Removed, Tokens::ZERO, None),
        };
        Piece {
            what,
            tool: tool.filter(|tool| !tool.is_empty()).map(str::to_owned),
            fate,
            tokens: [size, size_after],
            before,
            after: text,
            why: row.as_ref().map(|row| row.why.clone()).filter(|why| !why.is_empty()),
            handle: row.and_then(|row| row.handle),
            carried_by: None,
        }
    }
}

/// What became of a message, by what became of its blocks.
fn fate_of(pieces: &[Piece], after: Option<usize>) -> Fate {
    let any = |fate: Fate| pieces.iter().any(|piece| piece.fate == fate);
    match after {
        Some(_) if pieces.iter().all(|piece| piece.fate == Fate::Kept) => Fate::Kept,
        Some(_) => Fate::Digested,
        None if any(Fate::Folded) => Fate::Folded,
        None => Fate::Removed,
    }
}

/// Finds the line for each block that was folded.
fn carried(made: Checkpoint, before: &Side<'_>, messages: &mut [Placed]) -> Checkpoint {
    let folded = |piece: &Piece| piece.fate == Fate::Folded;
    let mut calls: BTreeMap<usize, String> = BTreeMap::new();
    for (message, units) in messages.iter() {
        for (piece, unit) in message.pieces.iter().zip(units).filter(|(piece, _)| folded(piece)) {
            let said = calls.entry(*unit).or_default();
            if piece.what == What::Call {
                said.push_str(&piece.before);
            }
        }
    }
    let gone: Vec<Gone> = calls.into_iter().map(|(unit, calls)| Gone { unit, calls }).collect();
    let carriers = Carriers::new(&made, &Actions::of(&before.transcript), &gone);
    for (message, units) in messages {
        for (piece, unit) in message.pieces.iter_mut().zip(units).filter(|(piece, _)| folded(piece)) {
            piece.carried_by = carriers.of(*unit, piece.what, piece.handle.as_deref(), &piece.before);
        }
    }
    made
}

fn preamble(before: &Side<'_>, secrets: &mut Secrets) -> Preamble {
    let blocks = &before.transcript.preamble;
    let is_tool = |kind: BlockKind| kind == BlockKind::Tool;
    let system =
        blocks.iter().filter(|block| !is_tool(block.kind)).map(|block| secrets.block(block)).collect();
    Preamble { system, tools: blocks.iter().filter(|block| is_tool(block.kind)).count() }
}

fn who(role: Option<Role>) -> Who {
    match role {
        Some(Role::System) => Who::System,
        Some(Role::User) => Who::User,
        Some(Role::Assistant) => Who::Assistant,
        Some(Role::Tool) => Who::Tool,
        None => Who::Unknown,
    }
}
