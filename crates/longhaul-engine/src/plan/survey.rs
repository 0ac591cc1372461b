//! Measures a transcript once, before anything is decided: the tokens of every turn and block, and which
//! turns have to stay.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;

use super::CompactOptions;
use super::engine::RequestSize;
use super::own_checkpoint::{CheckpointTrust, VerifiedTranscript};
use super::protected_turns::ProtectedTurns;
use crate::Tokens;
use crate::block_cache::BlockCache;
use crate::check::{self, Violation};
use crate::insertion_point::{RoleOrder, removed_messages};
use crate::meter::Meter;
use crate::policy::Policy;
use crate::transcript::{
    Block, BlockKind, BlockPosition, BlockRole, CallStatus, ElementId, JsonSlot, Seal, Speaker, ToolCall, Transcript,
    Turn, TurnBlock, TurnKind,
};
use crate::wire::{self, Role};

/// A transcript with its token counts, and the options of the compaction.
pub(super) struct Survey<'t, 'b> {
    pub(super) policy: &'t Policy,
    pub(super) options: &'t CompactOptions,
    pub(super) transcript: &'t Transcript<'b>,
    pub(super) meter: Meter,
    /// The tokens of the whole request.
    pub(super) total: Tokens,
    /// The tokens of each turn, with the framing of its messages.
    pub(super) turn_tokens: Vec<Tokens>,
    /// The tokens that belong to no turn: the system prompt and the tools.
    tokens_outside_turns: Tokens,
    /// The turn with the checkpoint of the last compaction.
    pub(super) newest_checkpoint: Option<usize>,
    /// The tokens of each block, by turn.
    block_tokens: Vec<Vec<Tokens>>,
    /// The beginnings of the texts that say what the task is about: the newest prompt, and
    /// for `sacred-zone` the focus of the options.
    pub(super) task_openings: Vec<String>,
    /// Whether the checkpoint in the transcript is confirmed as ours.
    pub(super) checkpoint_trust: CheckpointTrust,
    /// The turns that the user protects.
    pub(super) user_protected: ProtectedTurns,
    /// The turns that look like a checkpoint but are not ours.
    lookalikes: &'t BTreeSet<usize>,
    /// The rules that the request breaks already, found on first use: most compactions do not need them.
    violations: OnceCell<Vec<Violation>>,
}

/// The number of bytes of a prompt or reply that are read to find its topic. Chosen by hand.
pub(super) const MAX_FOCUS_BYTES: usize = 2_000;

/// A result in a transcript, with the call that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct EditableResult<'t, 'b> {
    pub(super) position: BlockPosition,
    pub(super) tool_call: &'t ToolCall<'b>,
    pub(super) block: &'t Block<'b>,
}

impl<'t, 'b> Survey<'t, 'b> {
    pub(super) fn new(
        policy: &'t Policy,
        options: &'t CompactOptions,
        cache: &mut BlockCache,
        verified: &'t VerifiedTranscript<'_, 'b>,
    ) -> Self {
        let (transcript, trust) = (&*verified.transcript, verified.trust);
        let meter = Meter::for_model(&policy.model);
        let counts = meter.count_blocks(cache, transcript.blocks());
        let overhead = meter.turns_overhead(cache, &transcript.turns, transcript.message_count());
        let total = counts.iter().copied().sum::<Tokens>() + overhead;
        let mut counts = counts.into_iter().skip(transcript.preamble.len());
        let counts_of_turn = |turn: &Turn<'_>| counts.by_ref().take(turn.blocks().count()).collect();
        let blocks: Vec<Vec<Tokens>> = transcript.turns.iter().map(counts_of_turn).collect();
        let turns = transcript.turns.iter().zip(&blocks);
        let turns =
            turns.map(|(turn, blocks)| blocks.iter().copied().sum::<Tokens>() + meter.turn_overhead(cache, turn));
        let turns: Vec<Tokens> = turns.collect();
        let tokens_outside_turns = meter.count_outside_turns(cache, transcript);
        let (user_protected, lookalikes) =
            (ProtectedTurns::new(policy, options, transcript, &turns), &verified.lookalikes);
        let mut survey = Self {
            policy,
            options,
            transcript,
            meter,
            total,
            turn_tokens: turns,
            tokens_outside_turns,
            newest_checkpoint: transcript.turns.iter().rposition(|turn| matches!(turn.kind, TurnKind::Checkpoint(_))),
            block_tokens: blocks,
            task_openings: Vec::new(),
            checkpoint_trust: trust,
            user_protected,
            lookalikes,
            violations: OnceCell::new(),
        };
        survey.task_openings = survey.newest_prompt().map_or_else(Vec::new, |at| {
            let words = transcript.turns[at].blocks().filter(|block| block.kind == BlockKind::Text);
            words.map(|block| block.opening(MAX_FOCUS_BYTES).into_owned()).collect()
        });
        survey
    }

    /// Checks a form of the request against the rules of its provider.
    pub(super) fn check(&self, body: &str) -> Vec<Violation> {
        let api_format = self.transcript.api_format;
        check::check(body, api_format, &self.policy.model.target(api_format))
    }

    /// Returns what a provider would object to in the request as it is.
    pub(super) fn violations(&self) -> &[Violation] {
        self.violations.get_or_init(|| self.check(self.transcript.body))
    }

    /// Whether the request breaks this rule as it is.
    pub(super) fn already_breaks(&self, rule: &str) -> bool {
        self.violations().iter().any(|violation| violation.rule == rule)
    }

    /// Returns the tokens of a block.
    pub(super) fn tokens_of_block(&self, at: BlockPosition) -> Tokens {
        self.block_tokens[at.unit][at.block]
    }

    /// Returns the size of the request, from which engines decide whether to compact.
    pub(super) fn request_size(&self) -> RequestSize {
        let (tokens, bytes) = (self.total, self.transcript.body.len());
        let minimum = self.tokens_with_only(&self.required_turns());
        RequestSize {
            tokens,
            reply_reserve: self.reply_reserve(),
            minimum_size: minimum,
            bytes,
            is_in_bound_loop: self.is_in_bound_loop(),
        }
    }

    /// Returns the tokens to reserve for the reply, if it shares the window with the request.
    pub(super) fn reply_reserve(&self) -> Tokens {
        self.policy.reply_reserve(self.transcript.max_reply_tokens)
    }

    /// Returns the largest size of a request: the window minus the reserve for the reply.
    pub(super) fn max_request_tokens(&self) -> Tokens {
        self.policy.window - self.reply_reserve()
    }

    /// Returns the number of tokens that a checkpoint may have if it replaces these turns.
    pub(super) fn checkpoint_budget(&self, gone: &BTreeSet<usize>) -> Tokens {
        let tokens = |turn: &usize| self.turn_tokens[*turn];
        let earlier = self.newest_checkpoint.filter(|turn| gone.contains(turn));
        let turns = gone.iter().filter(|turn| Some(**turn) != earlier).map(tokens).sum();
        self.policy.checkpoint.for_update(turns, earlier.as_ref().map_or(Tokens::ZERO, tokens))
    }

    /// Returns the largest size of a compacted request.
    pub(super) fn max_compacted_tokens(&self) -> Tokens {
        self.policy.digest_all_above.min(self.max_request_tokens())
    }

    /// Returns the size from which on a provider is likely to refuse the request, so that even results which
    /// the model has not read are shortened.
    pub(super) fn overflow_tokens(&self) -> Tokens {
        self.policy.drop_oldest_above.min(self.max_request_tokens()).max(self.max_compacted_tokens())
    }

    /// Returns the order of roles that the provider accepts, for the position of a checkpoint.
    pub(super) fn role_order(&self) -> RoleOrder {
        if self.policy.model.facts.user_after_tool { RoleOrder::UserAfterTool } else { RoleOrder::ReplyAfterTool }
    }

    /// Whether the transcript ends in a tool loop with reasoning that is bound to it: nobody has spoken since
    /// the loop began, and the reply to the last results is still to come.
    pub(super) fn is_in_bound_loop(&self) -> bool {
        let in_loop = self.transcript.turns.iter().rev().map_while(|turn| match &turn.kind {
            TurnKind::Assistant { reply, tool_calls } if !tool_calls.is_empty() => Some(reply),
            _ => None,
        });
        self.policy.model.facts.thinking_bound
            && in_loop.flatten().any(|block| block.kind == BlockKind::Reasoning(Seal::Sealed))
    }

    /// Returns the results of a turn that have text and may be replaced.
    pub(super) fn editable_results(&self, turn: usize) -> Vec<EditableResult<'t, 'b>> {
        let parts = self.transcript.blocks_of_turn(turn).filter(|part| part.block.is_editable_text());
        let results = parts.filter_map(|part| match part.role {
            BlockRole::Result { tool_call, .. } if !self.policy.user_protections.protects_tool(&tool_call.tool) => {
                Some(EditableResult { position: part.position, tool_call, block: part.block })
            }
            _ => None,
        });
        results.collect()
    }

    /// Returns the most tokens that pruning could remove from a turn. Of each result, argument and image it
    /// leaves about as much as the shortest line or reference, and a small share of long ones. Both constants
    /// are estimates.
    pub(super) fn max_prunable_tokens(&self, turn: usize) -> Tokens {
        const MIN_LEFT_TOKENS: Tokens = Tokens(12);
        const LEFT_DIVISOR: u64 = 32;
        let off = |tokens: &Tokens| *tokens - MIN_LEFT_TOKENS - Tokens(tokens.number() / LEFT_DIVISOR);
        let is_prompt = matches!(self.transcript.turns[turn].kind, TurnKind::Prompt { .. });
        let could_shrink = |part: &TurnBlock<'_, '_>| match part.role {
            BlockRole::Content => is_prompt && part.block.kind != BlockKind::Text,
            BlockRole::Call(_) | BlockRole::Result { .. } => true,
        };
        let parts = self.transcript.blocks_of_turn(turn).zip(&self.block_tokens[turn]);
        parts.filter(|(part, _)| could_shrink(part)).map(|(_, tokens)| off(tokens)).sum()
    }

    /// Returns the message that contains a block of a turn.
    pub(super) fn message_of_block(&self, turn: usize, block: &Block<'b>) -> usize {
        let transcript = self.transcript;
        let holding = match block.slot {
            JsonSlot::Element(id) => Some(id),
            JsonSlot::Field { object: of, .. } => {
                let owns = &transcript.turns[turn].owned_elements;
                let holds = |id: &&ElementId| transcript.span_of(**id).contains(of);
                // The elements are in order, except in turns that were joined from several places.
                let before = owns.partition_point(|id| transcript.span_of(*id).start <= of.start);
                let likely = before.checked_sub(1).map(|at| &owns[at]).filter(holds);
                likely.or_else(|| owns.iter().find(holds)).or(owns.first()).copied()
            }
        };
        holding.and_then(|id| transcript.message_of(id)).unwrap_or(0)
    }

    /// Returns the newest prompt of a person.
    pub(super) fn newest_prompt(&self) -> Option<usize> {
        self.newest_prompt_except(&BTreeSet::new())
    }

    fn newest_prompt_except(&self, except: &BTreeSet<usize>) -> Option<usize> {
        let turns = &self.transcript.turns;
        let said_by = |wanted: &[Speaker]| {
            (0..turns.len()).rev().filter(|at| !except.contains(at)).find(|at| {
                matches!(&turns[*at].kind, TurnKind::Prompt { speaker, .. } if wanted.contains(speaker))
                    && has_content(&turns[*at])
            })
        };
        said_by(&[Speaker::User]).or_else(|| said_by(&[Speaker::Unsure]))
    }

    /// Returns the turns with a part in the newest message of role user. A message with only structured tool
    /// results does not count, but one with results sent as text does. Providers take it for
    /// the newest prompt, whoever wrote it.
    fn turns_of_newest_message(&self, except: &BTreeSet<usize>) -> Vec<usize> {
        let elements_of = |(at, turn): (usize, &Turn<'b>)| match &turn.kind {
            _ if except.contains(&at) => Vec::new(),
            TurnKind::Prompt { .. } => turn.owned_elements.clone(),
            TurnKind::Assistant { tool_calls, .. } => {
                let text_results = tool_calls
                    .iter()
                    .filter(|tool_call| tool_call.call.is_none() && tool_call.status == CallStatus::Answered);
                text_results.flat_map(|tool_call| tool_call.result_elements.clone()).collect()
            }
            TurnKind::Checkpoint(_) | TurnKind::Opaque(_) => Vec::new(),
        };
        let messages = self
            .transcript
            .turns
            .iter()
            .enumerate()
            .flat_map(elements_of)
            .filter_map(|id| self.transcript.message_of(id));
        let is_user = |message: &usize| self.transcript.role(*message) == Some(Role::User);
        let newest = messages.collect::<BTreeSet<_>>().into_iter().rev().find(is_user);
        let is_in_newest =
            |turn: &Turn<'b>| turn.owned_elements.iter().any(|id| self.transcript.message_of(*id) == newest);
        let turns = self.transcript.turns.iter().enumerate().filter(|(_, turn)| newest.is_some() && is_in_newest(turn));
        turns.map(|(at, _)| at).collect()
    }

    /// Returns the turns that always stay: the newest prompt of a person, the newest message of role user,
    /// the last turn, the last turn that we can interpret, lasting instructions, and the turns that the user
    /// protects.
    pub(super) fn required_turns(&self) -> BTreeSet<usize> {
        let understood = |turn: &Turn<'_>| !matches!(turn.kind, TurnKind::Opaque(_));
        let last = [self.turn_tokens.len().checked_sub(1), self.transcript.turns.iter().rposition(understood)];
        // A later reader without the key, such as `check`, takes a lookalike for a checkpoint, and the message
        // before it for the newest; so that message stays too.
        let lookalikes = (!self.lookalikes.is_empty()).then_some(self.lookalikes);
        let none = BTreeSet::new();
        let newest = [Some(&none), lookalikes].into_iter().flatten();
        let newest: Vec<usize> = newest.flat_map(|except| self.turns_of_newest_message(except)).collect();
        let prompts = newest.into_iter().chain(self.newest_prompt()).chain(self.newest_prompt_except(self.lookalikes));
        let user_protected = self.user_protected.turns();
        let required = prompts.chain(last.into_iter().flatten()).chain(self.instruction_turns()).chain(user_protected);
        required.flat_map(|turn| self.prompts_of_same_message(turn)).collect()
    }

    /// Returns the topics that the checkpoint should keep first: from the options and from the policy.
    pub(super) fn focus(&self) -> Option<String> {
        let wishes = [self.options.focus.as_deref(), self.policy.instructions.as_deref()];
        let wishes: Vec<&str> = wishes.into_iter().flatten().collect();
        (!wishes.is_empty()).then(|| wishes.join("\n"))
    }

    /// Returns the tokens of all prompts in the message of this turn, which stay or go together.
    pub(super) fn message_tokens(&self, turn: usize) -> Tokens {
        self.prompts_of_same_message(turn).map(|turn| self.turn_tokens[turn]).sum()
    }

    /// Returns the prompts in the same message as this turn, and the turn itself.
    pub(super) fn prompts_of_same_message(&self, turn: usize) -> impl Iterator<Item = usize> {
        let turns = &self.transcript.turns;
        let message = |turn: usize| turns[turn].owned_elements.first().and_then(|id| self.transcript.message_of(*id));
        let own = message(turn);
        let is_prompt = |turn: usize| matches!(turns[turn].kind, TurnKind::Prompt { .. });
        let others = (0..turns.len()).filter(move |other| is_prompt(*other) && message(*other) == own);
        others.chain((!is_prompt(turn)).then_some(turn))
    }

    /// Returns the last turn, if it is an assistant turn with complete results: the model has not read them
    /// yet.
    pub(super) fn unread_last_turn(&self) -> Option<usize> {
        let understood = |turn: &Turn<'_>| !matches!(turn.kind, TurnKind::Opaque(_));
        let last = self.transcript.turns.iter().rposition(understood)?;
        match &self.transcript.turns[last].kind {
            TurnKind::Assistant { tool_calls, .. } => {
                tool_calls.iter().all(|tool_call| tool_call.status != CallStatus::Open).then_some(last)
            }
            _ => None,
        }
    }

    /// Returns the newest visible answer of the model, to which the newest prompt replies.
    pub(super) fn answer_before_newest_prompt(&self) -> Option<usize> {
        let newest = self.newest_prompt()?;
        let mut before = self.transcript.turns[..newest].iter();
        let at = before.rposition(|turn| !matches!(turn.kind, TurnKind::Prompt { speaker: Speaker::Host, .. }))?;
        match &self.transcript.turns[at].kind {
            TurnKind::Assistant { reply, tool_calls } if tool_calls.is_empty() => {
                reply.iter().any(|block| block.kind == BlockKind::Text).then_some(at)
            }
            _ => None,
        }
    }

    /// Returns the turns that the host or the provider added for good: instructions, and a provider's own
    /// compaction.
    pub(super) fn instruction_turns(&self) -> impl Iterator<Item = usize> {
        let transcript = self.transcript;
        let turns = transcript.turns.iter().enumerate();
        turns.filter(move |(_, turn)| wire::is_lasting_instruction(transcript, turn)).map(|(at, _)| at)
    }

    /// Keeps every prompt whose message has another prompt that stays, because a message stays or goes as a
    /// whole. (Results and the next prompt may share a message and are still separate.)
    pub(super) fn keep_messages_whole(&self, gone: &mut BTreeSet<usize>) {
        let transcript = self.transcript;
        let is_prompt = |turn: &usize| matches!(transcript.turns[*turn].kind, TurnKind::Prompt { .. });
        let message =
            |turn: usize| transcript.turns[turn].owned_elements.first().and_then(|id| transcript.message_of(*id));
        let prompts = (0..transcript.turns.len()).filter(is_prompt);
        let stays: BTreeSet<usize> = prompts.filter(|turn| !gone.contains(turn)).filter_map(message).collect();
        gone.retain(|turn| !is_prompt(turn) || message(*turn).is_none_or(|message| !stays.contains(&message)));
        // A checkpoint needs at least one message that it replaces.
        if !removed_messages(transcript, gone).contains(&true) {
            gone.clear();
        }
    }

    /// Returns the first prompt of a person.
    pub(super) fn first_prompt(&self) -> Option<usize> {
        let by_user = |turn: &Turn<'_>| matches!(turn.kind, TurnKind::Prompt { speaker: Speaker::User, .. });
        self.transcript.turns.iter().position(|turn| by_user(turn) && has_content(turn))
    }

    /// Whether a turn is newer than the newest checkpoint.
    pub(super) fn is_after_checkpoint(&self, turn: usize) -> bool {
        self.newest_checkpoint.is_none_or(|checkpoint| turn > checkpoint)
    }

    /// Returns the required turns, the first prompt and the newest checkpoint. An engine that writes no
    /// checkpoint keeps all three.
    pub(super) fn pinned_turns(&self) -> BTreeSet<usize> {
        self.required_turns().into_iter().chain(self.first_prompt()).chain(self.newest_checkpoint).collect()
    }

    /// Returns the tokens of the request with only these turns; with the required turns, that is what no step
    /// can remove.
    pub(super) fn tokens_with_only(&self, turns: &BTreeSet<usize>) -> Tokens {
        self.tokens_outside_turns + turns.iter().map(|turn| self.turn_tokens[*turn]).sum::<Tokens>()
    }

    /// Returns the opening: the first prompt, everything before the first assistant turn, and that turn.
    pub(super) fn opening_turns(&self) -> Range<usize> {
        let is_step = |turn: &Turn<'_>| matches!(turn.kind, TurnKind::Assistant { .. });
        let first_step = self.transcript.turns.iter().position(is_step);
        0..first_step.map_or(self.transcript.turns.len(), |at| at + 1)
    }

    /// Returns the newest whole turns within this many tokens, but at least one.
    pub(super) fn newest_within(&self, tokens: Tokens) -> Range<usize> {
        let mut left = tokens;
        let mut start = self.turn_tokens.len();
        for (index, cost) in self.turn_tokens.iter().enumerate().rev() {
            if *cost > left && start < self.turn_tokens.len() {
                break;
            }
            left = left - *cost;
            start = index;
        }
        start..self.turn_tokens.len()
    }
}

/// Whether a turn contains more than white space.
fn has_content(turn: &Turn<'_>) -> bool {
    let is_blank = |block: &Block<'_>| block.opening(MAX_FOCUS_BYTES).trim().is_empty();
    turn.blocks().any(|block| block.kind != BlockKind::Text || !is_blank(block))
}
