//! What stands where and what it costs: measured once, before anything is decided.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Wish;
use super::engine::Load;
use super::keep::Kept;
use super::ours::{Ours, Vouched};
use crate::Tokens;
use crate::known::Known;
use crate::meter::Meter;
use crate::policy::Policy;
use crate::seat::{Takes, gone_messages};
use crate::transcript::{
    Block, BlockAt, BlockKind, ElementId, Exchange, Part, PartKind, Place, Seal, Speaker, Status, Transcript,
    Unit, UnitKind,
};
use crate::wire::{self, Role};

/// A transcript with the tokens of each unit, and what is asked of it.
pub(super) struct Survey<'t, 'b> {
    pub(super) policy: &'t Policy,
    pub(super) wish: &'t Wish,
    pub(super) transcript: &'t Transcript<'b>,
    pub(super) meter: Meter,
    /// The whole request.
    pub(super) total: Tokens,
    /// Each unit, framing included.
    pub(super) units: Vec<Tokens>,
    /// What belongs to none.
    outside: Tokens,
    /// Each block, by unit.
    blocks: Vec<Vec<Tokens>>,
    /// How the newest prompt begins: what the task is about.
    pub(super) about: Vec<String>,
    /// On whose word the checkpoint in it is one.
    pub(super) vouched: Vouched,
    /// What stays because the user wants it so.
    pub(super) kept: Kept,
    /// Messages that look like a checkpoint and are none of ours.
    others: &'t BTreeSet<usize>,
}

/// How much of a prompt or reply says what it is about.
pub(super) const FOCUS_BYTES: usize = 2_000;

/// A result inside a transcript.
#[derive(Clone, Copy)]
pub(super) struct ResultAt<'t, 'b> {
    pub(super) at: BlockAt,
    pub(super) exchange: &'t Exchange<'b>,
    pub(super) block: &'t Block<'b>,
}

impl<'t, 'b> Survey<'t, 'b> {
    pub(super) fn new(policy: &'t Policy, wish: &'t Wish, known: &mut Known, ours: &'t Ours<'_, 'b>) -> Self {
        let (transcript, vouched) = (&*ours.transcript, ours.vouched);
        let meter = Meter::of(&policy.model);
        let counts = meter.blocks(known, transcript.blocks());
        let besides = meter.besides(known, &transcript.units, transcript.message_count());
        let total = counts.iter().copied().sum::<Tokens>() + besides;
        let mut counts = counts.into_iter().skip(transcript.preamble.len());
        let of_unit = |unit: &Unit<'_>| counts.by_ref().take(unit.blocks().count()).collect();
        let blocks: Vec<Vec<Tokens>> = transcript.units.iter().map(of_unit).collect();
        let units = transcript.units.iter().zip(&blocks);
        let units =
            units.map(|(unit, blocks)| blocks.iter().copied().sum::<Tokens>() + meter.around(known, unit));
        let units: Vec<Tokens> = units.collect();
        let outside = meter.outside(known, transcript);
        let about = Vec::new();
        let (kept, others) = (Kept::of(policy, wish, transcript, &units), &ours.others);
        let mut survey = Self {
            policy,
            wish,
            transcript,
            meter,
            total,
            units,
            outside,
            blocks,
            about,
            vouched,
            kept,
            others,
        };
        survey.about = survey.newest_prompt().map_or_else(Vec::new, |at| {
            let words = transcript.units[at].blocks().filter(|block| block.kind == BlockKind::Text);
            words.map(|block| block.opening(FOCUS_BYTES).into_owned()).collect()
        });
        survey
    }

    /// What a block costs.
    pub(super) fn tokens(&self, at: BlockAt) -> Tokens {
        self.blocks[at.unit][at.block]
    }

    /// What says whether a compaction is due.
    pub(super) fn load(&self) -> Load {
        let (tokens, bytes) = (self.total, self.transcript.body.len());
        let minimum = self.with_only(&self.must_stay());
        Load { tokens, reply: self.reply(), minimum, bytes, in_loop: self.in_loop() }
    }

    /// What the reply may have, where it shares the window with the request.
    pub(super) fn reply(&self) -> Tokens {
        self.policy.reply_room(self.transcript.longest_reply)
    }

    /// The most that the request may hold: the window, less the room of the reply.
    pub(super) fn limit(&self) -> Tokens {
        self.policy.window - self.reply()
    }

    /// What is too large for the window, however it was made smaller.
    pub(super) fn too_large(&self) -> Tokens {
        self.policy.digest_all.min(self.limit())
    }

    /// The size from which on a request is all but refused, so that even results which the model has not read are made shorter.
    pub(super) fn does_not_fit(&self) -> Tokens {
        self.policy.drop_oldest.min(self.limit()).max(self.too_large())
    }

    /// What the provider takes, for the seat of a checkpoint.
    pub(super) fn takes(&self) -> Takes {
        let takes_it = self.policy.model.facts.user_after_tool;
        if takes_it { Takes::UserAfterTool } else { Takes::ReplyAfterTool }
    }

    /// Whether the transcript ends in a tool loop with reasoning that is bound to it: nobody has spoken since it began, and the
    /// reply to the last results is still to come.
    pub(super) fn in_loop(&self) -> bool {
        let in_loop = self.transcript.units.iter().rev().map_while(|unit| match &unit.kind {
            UnitKind::Step { reply, exchanges } if !exchanges.is_empty() => Some(reply),
            _ => None,
        });
        self.policy.model.facts.thinking_bound
            && in_loop.flatten().any(|block| block.kind == BlockKind::Reasoning(Seal::Sealed))
    }

    /// The results with words in a unit that may be replaced.
    pub(super) fn results(&self, unit: usize) -> Vec<ResultAt<'t, 'b>> {
        let parts = self.transcript.parts_of(unit).filter(|part| part.block.is_editable_text());
        let results = parts.filter_map(|part| match part.kind {
            PartKind::Result { exchange, .. } if !self.policy.keep.tool(&exchange.tool) => {
                Some(ResultAt { at: part.at, exchange, block: part.block })
            }
            _ => None,
        });
        results.collect()
    }

    /// The tokens that pruning could take off a unit at most: of results, arguments and pictures about as much stays as the
    /// shortest line or pointer takes, and a little of what is long.
    pub(super) fn prunable(&self, unit: usize) -> Tokens {
        const LINE: Tokens = Tokens(12);
        const SHARE: u64 = 32;
        let off = |tokens: &Tokens| *tokens - LINE - Tokens(tokens.number() / SHARE);
        let is_prompt = matches!(self.transcript.units[unit].kind, UnitKind::Prompt { .. });
        let could_shrink = |part: &Part<'_, '_>| match part.kind {
            PartKind::Said => is_prompt && part.block.kind != BlockKind::Text,
            PartKind::Call(_) | PartKind::Result { .. } => true,
        };
        let parts = self.transcript.parts_of(unit).zip(&self.blocks[unit]);
        parts.filter(|(part, _)| could_shrink(part)).map(|(_, tokens)| off(tokens)).sum()
    }

    /// The message that holds a block of a unit.
    pub(super) fn message_of(&self, unit: usize, block: &Block<'b>) -> usize {
        let transcript = self.transcript;
        let holding = match block.place {
            Place::Element(id) => Some(id),
            Place::Field { of, .. } => {
                let owns = &transcript.units[unit].owns;
                let holds = |id: &&ElementId| transcript.span_of(**id).contains(of);
                // They stand in order, but for what was put together from several places.
                let before = owns.partition_point(|id| transcript.span_of(*id).start <= of.start);
                let likely = before.checked_sub(1).map(|at| &owns[at]).filter(holds);
                likely.or_else(|| owns.iter().find(holds)).or(owns.first()).copied()
            }
        };
        holding.and_then(|id| transcript.message_of(id)).unwrap_or(0)
    }

    /// The newest thing that a person said.
    pub(super) fn newest_prompt(&self) -> Option<usize> {
        self.newest_prompt_but(&BTreeSet::new())
    }

    fn newest_prompt_but(&self, others: &BTreeSet<usize>) -> Option<usize> {
        let units = &self.transcript.units;
        let said_by = |wanted: &[Speaker]| {
            (0..units.len()).rev().filter(|at| !others.contains(at)).find(|at| {
                matches!(&units[*at].kind, UnitKind::Prompt { by, .. } if wanted.contains(by))
                    && says_something(&units[*at])
            })
        };
        said_by(&[Speaker::User]).or_else(|| said_by(&[Speaker::Unsure]))
    }

    /// The units that hold part of the newest message under the user's name, tool results apart. Whoever wrote it, that is
    /// what providers take for the newest thing said.
    fn newest_message(&self, but: &BTreeSet<usize>) -> Vec<usize> {
        let said = |(at, unit): (usize, &Unit<'b>)| match &unit.kind {
            _ if but.contains(&at) => Vec::new(),
            UnitKind::Prompt { .. } => unit.owns.clone(),
            UnitKind::Step { exchanges, .. } => {
                let spoken = exchanges.iter().filter(|e| e.call.is_none() && e.status == Status::Answered);
                spoken.flat_map(|e| e.answers.clone()).collect()
            }
            UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => Vec::new(),
        };
        let messages = self
            .transcript
            .units
            .iter()
            .enumerate()
            .flat_map(said)
            .filter_map(|id| self.transcript.message_of(id));
        let is_user = |message: &usize| self.transcript.role(*message) == Some(Role::User);
        let newest = messages.collect::<BTreeSet<_>>().into_iter().rev().find(is_user);
        let holds = |unit: &Unit<'b>| unit.owns.iter().any(|id| self.transcript.message_of(*id) == newest);
        let units =
            self.transcript.units.iter().enumerate().filter(|(_, unit)| newest.is_some() && holds(unit));
        units.map(|(at, _)| at).collect()
    }

    /// The units that stay whatever happens: what a person said last, the newest message under the user's name, and the last
    /// unit, with the last that is understood.
    pub(super) fn must_stay(&self) -> BTreeSet<usize> {
        let understood = |unit: &Unit<'_>| !matches!(unit.kind, UnitKind::Opaque(_));
        let last = [self.units.len().checked_sub(1), self.transcript.units.iter().rposition(understood)];
        // Who has no key takes what looks like a checkpoint for one, and the message before it for the newest.
        let others = (!self.others.is_empty()).then_some(self.others);
        let none = BTreeSet::new();
        let newest = [Some(&none), others].into_iter().flatten();
        let newest: Vec<usize> = newest.flat_map(|but| self.newest_message(but)).collect();
        let said = newest.into_iter().chain(self.newest_prompt()).chain(self.newest_prompt_but(self.others));
        let kept = self.kept.units();
        said.chain(last.into_iter().flatten()).chain(self.instructions()).chain(kept).collect()
    }

    /// What the handover is to keep before all else: what was asked for now, and what is always wanted.
    pub(super) fn focus(&self) -> Option<String> {
        let wishes = [self.wish.focus.as_deref(), self.policy.instructions.as_deref()];
        let wishes: Vec<&str> = wishes.into_iter().flatten().collect();
        (!wishes.is_empty()).then(|| wishes.join("\n"))
    }

    /// What a unit costs with all that is said in the same message: it stays or goes with that.
    pub(super) fn with_its_message(&self, unit: usize) -> Tokens {
        self.of_its_message(unit).map(|unit| self.units[unit]).sum()
    }

    /// The prompts of a prompt's message, itself among them.
    pub(super) fn of_its_message(&self, unit: usize) -> impl Iterator<Item = usize> {
        let units = &self.transcript.units;
        let message = |unit: usize| units[unit].owns.first().and_then(|id| self.transcript.message_of(*id));
        let own = message(unit);
        let is_prompt = |unit: usize| matches!(units[unit].kind, UnitKind::Prompt { .. });
        let others = (0..units.len()).filter(move |other| is_prompt(*other) && message(*other) == own);
        others.chain((!is_prompt(unit)).then_some(unit))
    }

    /// The last step, if nothing was said since: its results are unread.
    pub(super) fn last_step(&self) -> Option<usize> {
        let understood = |unit: &Unit<'_>| !matches!(unit.kind, UnitKind::Opaque(_));
        let last = self.transcript.units.iter().rposition(understood)?;
        match &self.transcript.units[last].kind {
            UnitKind::Step { exchanges, .. } => {
                exchanges.iter().all(|e| e.status != Status::Open).then_some(last)
            }
            _ => None,
        }
    }

    /// The newest answer of the model that people can see: what the newest message replies to.
    pub(super) fn answer(&self) -> Option<usize> {
        let newest = self.newest_prompt()?;
        let mut before = self.transcript.units[..newest].iter();
        let at = before.rposition(|unit| !matches!(unit.kind, UnitKind::Prompt { by: Speaker::Host, .. }))?;
        match &self.transcript.units[at].kind {
            UnitKind::Step { reply, exchanges } if exchanges.is_empty() => {
                reply.iter().any(|block| block.kind == BlockKind::Text).then_some(at)
            }
            _ => None,
        }
    }

    /// What the host or the provider put into the conversation for good: instructions, and a provider's own compaction.
    pub(super) fn instructions(&self) -> impl Iterator<Item = usize> {
        let transcript = self.transcript;
        let units = transcript.units.iter().enumerate();
        units.filter(move |(_, unit)| wire::instructs(transcript, unit)).map(|(at, _)| at)
    }

    /// Takes out of what goes the parts of a message of which other parts stay: a message is kept whole or goes whole. (Results and
    /// the next prompt may share one, and go each with its own.)
    pub(super) fn keep_messages_whole(&self, gone: &mut BTreeSet<usize>) {
        let transcript = self.transcript;
        let is_prompt = |unit: &usize| matches!(transcript.units[*unit].kind, UnitKind::Prompt { .. });
        let message =
            |unit: usize| transcript.units[unit].owns.first().and_then(|id| transcript.message_of(*id));
        let prompts = (0..transcript.units.len()).filter(is_prompt);
        let stays: BTreeSet<usize> =
            prompts.filter(|unit| !gone.contains(unit)).filter_map(message).collect();
        gone.retain(|unit| {
            !is_prompt(unit) || message(*unit).is_none_or(|message| !stays.contains(&message))
        });
        // A checkpoint comes in the place of a message, or not at all.
        if !gone_messages(transcript, gone).contains(&true) {
            gone.clear();
        }
    }

    /// The first thing that a person said.
    pub(super) fn first_prompt(&self) -> Option<usize> {
        let by_user = |unit: &Unit<'_>| matches!(unit.kind, UnitKind::Prompt { by: Speaker::User, .. });
        self.transcript.units.iter().position(|unit| by_user(unit) && says_something(unit))
    }

    /// The newest checkpoint.
    pub(super) fn checkpoint(&self) -> Option<usize> {
        self.transcript.units.iter().rposition(|unit| matches!(unit.kind, UnitKind::Checkpoint(_)))
    }

    /// What must stay, what was said first, and the newest checkpoint: the engine that makes no checkpoint keeps all three.
    pub(super) fn pinned(&self) -> BTreeSet<usize> {
        self.must_stay().into_iter().chain(self.first_prompt()).chain(self.checkpoint()).collect()
    }

    /// What the request would cost with these units alone: what no step can take away, if they are what must stay.
    pub(super) fn with_only(&self, units: &BTreeSet<usize>) -> Tokens {
        self.outside + units.iter().map(|unit| self.units[*unit]).sum::<Tokens>()
    }

    /// The first exchange: the first prompt, what comes with it, and the step that answers it.
    pub(super) fn first_exchange(&self) -> Range<usize> {
        let is_step = |unit: &Unit<'_>| matches!(unit.kind, UnitKind::Step { .. });
        let first_step = self.transcript.units.iter().position(is_step);
        0..first_step.map_or(self.transcript.units.len(), |at| at + 1)
    }

    /// The newest whole units within so many tokens: at least one, and the newest prompt if it is among them.
    pub(super) fn newest(&self, tokens: Tokens) -> Range<usize> {
        let mut left = tokens;
        let mut start = self.units.len();
        for (index, cost) in self.units.iter().enumerate().rev() {
            if *cost > left && start < self.units.len() {
                break;
            }
            left = left - *cost;
            start = index;
        }
        start..self.units.len()
    }
}

/// Whether there is more in a unit than blanks.
fn says_something(unit: &Unit<'_>) -> bool {
    let is_blank = |block: &Block<'_>| block.opening(FOCUS_BYTES).trim().is_empty();
    unit.blocks().any(|block| block.kind != BlockKind::Text || !is_blank(block))
}
