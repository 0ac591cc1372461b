//! Decisions already made about a session, to be replayed word for word.
//!
//! A client sends its original history again with every request. Unless the same cuts are made again, byte for byte, the
//! provider's cache is lost with each turn. So what a compaction decides is kept here, in terms of the *original* units, and
//! [`Ledger::edits`] is the only place where decisions become edits: the first time and every time after.
//!
//! ```text
//! original   u0 u1 u2 u3 u4 u5 u6      gone: u1 to u3, texts: u4
//! view       u0 [checkpoint] u4' u5 u6
//! ```
//!
//! It may use `passes`, `seat` and what is below them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cache;
use crate::json::Span;
use crate::passes::NewText;
use crate::redact::Redactor;
use crate::rewrite::{Edit, Refused, Rewrite};
use crate::seat::{self, Takes};
use crate::transcript::{Block, BlockAt, Part, PartKind, Place, Role, Transcript, UnitKind};
use crate::wire::{self, ClientMark};

/// What was decided about the units of a session so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// How many compactions made it.
    pub epoch: u32,
    /// How many units of the original it is about,
    covers: usize,
    /// and what they were: a hash of their contents.
    prefix: String,
    /// Units that are not in the view.
    gone: BTreeSet<usize>,
    /// Blocks with another text.
    texts: Vec<(BlockAt, NewText)>,
    /// Blocks that were taken out of units that stay.
    removed: BTreeSet<BlockAt>,
    /// Results for calls that had none.
    #[serde(default)]
    stubs: Vec<(BlockAt, String)>,
    /// What stands in place of the units that are gone.
    checkpoint: Option<Placed>,
}

/// A text of ours and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The unit before which it stands.
    pub before: usize,
    /// All of it.
    pub text: String,
    /// What the provider takes, for its seat.
    #[serde(default)]
    pub takes: Takes,
}

/// The decisions of one compaction, in terms of the transcript that it looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Units that go.
    pub gone: BTreeSet<usize>,
    /// Blocks that change.
    pub texts: BTreeMap<BlockAt, NewText>,
    /// Blocks that go from units that stay.
    pub removed: BTreeSet<BlockAt>,
    /// Results for calls that have none.
    pub stubs: BTreeMap<BlockAt, String>,
    /// What comes in place of what goes.
    pub checkpoint: Option<Placed>,
}

impl Decisions {
    /// The first compaction of a session.
    #[must_use]
    pub fn first(self, transcript: &Transcript<'_>) -> Ledger {
        let covers = self.reach().min(transcript.units.len());
        let prefix = prefix(transcript, covers);
        let Self { gone, texts, removed, stubs, checkpoint } = self;
        let (texts, stubs) = (texts.into_iter().collect(), stubs.into_iter().collect());
        Ledger { epoch: 1, covers, prefix, gone, texts, removed, stubs, checkpoint }
    }

    /// How many units the decisions are about.
    fn reach(&self) -> usize {
        let blocks = self.texts.keys().chain(self.stubs.keys()).chain(&self.removed).map(|at| at.unit + 1);
        let units = self.gone.iter().map(|unit| unit + 1);
        blocks.chain(units).max().unwrap_or(0)
    }
}

impl Ledger {
    /// Whether nothing was decided yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.covers == 0
    }

    /// How many units of the original it is about.
    #[must_use]
    pub fn covers(&self) -> usize {
        self.covers
    }

    /// The words of the checkpoint that it puts in place of what is gone.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&str> {
        self.checkpoint.as_ref().map(|placed| placed.text.as_str())
    }

    /// The blocks of the original that have another text, with that text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (BlockAt, &str)> {
        self.texts.iter().map(|(at, NewText::Text(text) | NewText::Mark(text))| (*at, text.as_str()))
    }

    /// The same without secrets in what it shortens, as it is kept: made for a host that keeps originals, it has none already. The
    /// checkpoint is made of text that was redacted before.
    #[must_use]
    pub fn redacted(&self, redactor: &mut Redactor) -> Self {
        let texts = self.texts.iter().map(|(at, text)| (*at, text.clone().redacted(redactor))).collect();
        Self { texts, ..self.clone() }
    }

    /// The texts that it puts into the view.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.texts().map(|(_, text)| text).chain(self.checkpoint())
    }

    /// Which messages of the original stand in the view as they are.
    #[must_use]
    pub fn untouched(&self, transcript: &Transcript<'_>) -> Vec<bool> {
        let mut untouched = vec![true; transcript.message_count()];
        let gone =
            self.gone.iter().filter_map(|unit| transcript.units.get(*unit)).flat_map(|unit| &unit.owns);
        let gone = gone.filter_map(|id| transcript.message_of(*id));
        let texts = self.texts.iter().map(|(at, _)| at).chain(&self.removed);
        let changed = texts.filter_map(|at| transcript.message_at(transcript.block(*at)?.at));
        for message in gone.chain(changed) {
            untouched[message] = false;
        }
        untouched
    }

    /// Whether every message and block stays where it is.
    pub(crate) fn only_changes_texts(&self) -> bool {
        self.gone.is_empty() && self.removed.is_empty() && self.stubs.is_empty() && self.checkpoint.is_none()
    }

    /// Whether this transcript begins with the units that the decisions are about.
    #[must_use]
    pub fn matches(&self, transcript: &Transcript<'_>) -> bool {
        self.covers <= transcript.units.len() && prefix(transcript, self.covers) == self.prefix
    }

    /// What the decisions make of a transcript; nothing where there are none, or they are about another.
    ///
    /// # Errors
    /// Edits that cannot be made, which would be a mistake of ours.
    pub fn replay(&self, transcript: &Transcript<'_>) -> Result<Option<Rewrite>, Refused> {
        if self.is_empty() || !self.matches(transcript) {
            return Ok(None);
        }
        Rewrite::new(transcript, self.edits(transcript)).map(Some)
    }

    /// The same of a transcript that goes on from one that they were about, which is not asked again.
    ///
    /// # Errors
    /// Edits that cannot be made.
    pub fn replay_on(&self, transcript: &Transcript<'_>) -> Result<Option<Rewrite>, Refused> {
        if self.is_empty() || self.covers > transcript.units.len() {
            return Ok(None);
        }
        Rewrite::new(transcript, self.edits(transcript)).map(Some)
    }

    /// The decisions as edits of the original, which must [match](Self::matches).
    #[must_use]
    pub fn edits(&self, transcript: &Transcript<'_>) -> Vec<Edit> {
        let mut edits = Vec::new();
        let stays = |at: &BlockAt| !self.gone.contains(&at.unit);
        for (at, to) in self.texts.iter().filter(|(at, _)| stays(at) && !self.removed.contains(at)) {
            edits.extend(to.edit(transcript, *at));
        }
        edits.extend(
            self.removed.iter().filter(|at| stays(at)).filter_map(|at| transcript.block(*at)).map(remove),
        );
        edits.extend(
            self.stubs
                .iter()
                .filter(|(at, _)| stays(at))
                .filter_map(|(at, text)| wire::answer(transcript, *at, text)),
        );
        for unit in self.gone.iter().filter_map(|unit| transcript.units.get(*unit)) {
            edits.extend(unit.owns.iter().map(|id| Edit::Remove(*id)));
        }
        if let Some(placed) = &self.checkpoint {
            edits.extend(
                seat::find(transcript, placed.before, &self.gone, placed.takes).put(transcript, &placed.text),
            );
        }
        edits.extend(self.surplus_marks(transcript).iter().map(cache::unset));
        edits
    }

    /// The client's cache marks in what stays that are more than a provider takes: a request with them would be refused.
    #[must_use]
    pub fn surplus_marks(&self, transcript: &Transcript<'_>) -> Vec<ClientMark> {
        let named = memchr::memmem::find_iter(transcript.body.as_bytes(), wire::MARK);
        // Nearly every body has few, and need not be read once more in the provider's order.
        if self.is_empty() || named.take(cache::MOST_MARKS + 1).count() <= cache::MOST_MARKS {
            return Vec::new();
        }
        let units = self.gone.iter().filter_map(|unit| transcript.units.get(*unit));
        let elements = units.flat_map(|unit| unit.owns.iter().map(|id| transcript.span_of(*id)));
        let blocks = self.removed.iter().filter_map(|at| transcript.block(*at)).map(|block| block.at);
        let mut going: Vec<Span> = elements.chain(blocks).collect();
        going.sort_unstable();
        let goes = |mark: &ClientMark| {
            let before = going.partition_point(|span| span.start <= mark.holder.start);
            before > 0 && going[before - 1].contains(mark.holder)
        };
        let reading = wire::reading(transcript);
        let stay = reading.marks.iter().filter(|mark| !goes(mark)).copied().collect();
        cache::most_valuable(&reading, stay).1
    }

    /// The ledger after another compaction, whose decisions are about the view that this one gives; nothing if the view's units
    /// are not the original's that are left.
    #[must_use]
    pub fn then(&self, later: &Self, view: &Transcript<'_>, original: &Transcript<'_>) -> Option<Self> {
        let origin = self.origins(view, original)?;
        let of = |unit: usize| origin.get(unit).copied().flatten();
        let mut texts: BTreeMap<BlockAt, NewText> = self.texts.iter().cloned().collect();
        let placed =
            |at: &BlockAt| of(at.unit).map(|unit| BlockAt { unit, block: self.with_removed(unit, at.block) });
        for (at, to) in &later.texts {
            texts.insert(placed(at)?, to.clone());
        }
        let mut removed = self.removed.clone();
        for at in &later.removed {
            removed.insert(placed(at)?);
        }
        let mut stubs: BTreeMap<BlockAt, String> = self.stubs.iter().cloned().collect();
        for (at, text) in &later.stubs {
            stubs.insert(placed(at)?, text.clone());
        }
        let gone: BTreeSet<usize> =
            self.gone.iter().copied().chain(later.gone.iter().filter_map(|unit| of(*unit))).collect();
        // What was decided about the inside of a unit that is gone by now says nothing any more.
        texts.retain(|at, _| !gone.contains(&at.unit));
        removed.retain(|at| !gone.contains(&at.unit));
        stubs.retain(|at, _| !gone.contains(&at.unit));
        let checkpoint = match &later.checkpoint {
            Some(placed) => Some(Placed {
                before: (placed.before..origin.len()).find_map(of).unwrap_or(original.units.len()),
                ..placed.clone()
            }),
            None => self.checkpoint.clone(),
        };
        let decided = Decisions { gone, texts, removed, stubs, checkpoint };
        Some(Self { epoch: self.epoch + 1, ..decided.first(original) })
    }

    /// The blocks of the view that are not what the client sent, with what they are instead; nothing where the view is not this
    /// ledger's.
    #[must_use]
    pub fn ours(&self, view: &Transcript<'_>, original: &Transcript<'_>) -> Option<BTreeMap<BlockAt, Ours>> {
        let mut ours = BTreeMap::new();
        let texts: BTreeSet<BlockAt> = self.texts.iter().map(|(at, _)| *at).collect();
        let stubs: BTreeSet<BlockAt> = self.stubs.iter().map(|(at, _)| *at).collect();
        for (unit, origin) in self.origins(view, original)?.into_iter().enumerate() {
            let stubbed = origin.is_some_and(|origin| stubs.range(BlockAt::all_of(origin)).next().is_some());
            for part in view.parts_of(unit) {
                let was = origin.map(|unit| BlockAt { unit, block: self.with_removed(unit, part.at.block) });
                let of = match was {
                    None => Ours::Checkpoint,
                    Some(was) if texts.contains(&was) => Ours::Digest,
                    Some(_) if stubbed && is_stub(&part, &self.stubs) => Ours::Stub,
                    Some(_) => continue,
                };
                ours.insert(part.at, of);
            }
        }
        Some(ours)
    }

    /// Which block of the original unit the block of the view is: one that was taken out before is not counted there.
    fn with_removed(&self, unit: usize, block: usize) -> usize {
        let before = self.removed.range(BlockAt::all_of(unit));
        before.fold(block, |block, removed| block + usize::from(removed.block <= block))
    }

    /// For each unit of the view, which unit of the original it is; none for the checkpoint.
    fn origins(&self, view: &Transcript<'_>, original: &Transcript<'_>) -> Option<Vec<Option<usize>>> {
        let mut left = (0..original.units.len()).filter(|unit| !self.gone.contains(unit)).peekable();
        let mut placed = self.checkpoint.as_ref();
        let mut origins = Vec::with_capacity(view.units.len());
        for unit in &view.units {
            // The first of its words: whoever says them again stands behind it.
            let ours = placed.take_if(
                |placed| matches!(&unit.kind, UnitKind::Checkpoint(block) if block.text() == placed.text),
            );
            let origin = if ours.is_some() { None } else { Some(left.next()?) };
            let same = |at: usize| {
                std::mem::discriminant(&original.units[at].kind) == std::mem::discriminant(&unit.kind)
            };
            if !origin.is_none_or(same) {
                return None;
            }
            origins.push(origin);
        }
        left.peek().is_none().then_some(origins)
    }
}

/// What a block of a view is that the client did not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ours {
    /// The handover, or the count of what is missing.
    Checkpoint,
    /// A shorter text in the place of another.
    Digest,
    /// A result for a call that had none.
    Stub,
}

fn is_stub(part: &Part<'_, '_>, stubs: &[(BlockAt, String)]) -> bool {
    matches!(part.kind, PartKind::Result { .. }) && stubs.iter().any(|(_, text)| *text == part.block.text())
}

/// The edit that takes a block out.
fn remove(block: &Block<'_>) -> Edit {
    match block.place {
        Place::Element(id) => Edit::Remove(id),
        Place::Field { of, key } => Edit::Unset { object: of, key },
    }
}

/// A hash of what the first units say, however it is written: neither cache marks nor a string that became a list of one block
/// change it.
fn prefix(transcript: &Transcript<'_>, units: usize) -> String {
    // The hash is several times faster over long pieces than over as many bytes in short ones.
    const PIECE: usize = 128 * 1024;
    let mut hasher = blake3::Hasher::new();
    let mut piece: Vec<u8> = Vec::with_capacity(2 * PIECE);
    for unit in transcript.units.iter().take(units) {
        // What looks like a checkpoint may be a message like any other to one reader and not to the next.
        let is_reply = || transcript.role_of(unit) == Some(Role::Assistant);
        piece.push(match &unit.kind {
            UnitKind::Prompt { .. } => 0u8,
            UnitKind::Step { .. } => 1,
            UnitKind::Checkpoint(_) => u8::from(is_reply()),
            UnitKind::Opaque(_) => 3,
        });
        for block in unit.blocks() {
            let bytes = block.text.map_or(block.raw(), |text| &block.body[text.at.range()]);
            piece.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            piece.extend_from_slice(bytes.as_bytes());
            if piece.len() >= PIECE {
                hasher.update(&piece);
                piece.clear();
            }
        }
    }
    hasher.update(&piece).finalize().to_hex()[..32].to_owned()
}
