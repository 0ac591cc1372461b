//! Decides whether a request is compacted, and why: all triggers in one place, in order of precedence.

use longhaul_engine::plan::{CompactOptions, Engine, RequestSize, Trigger, TriggerDecision};
use longhaul_engine::policy::Policy;
use longhaul_engine::schedule::{CacheState, LastCompaction, PriceBand};
use longhaul_engine::transcript::{BlockKind, Seal, TurnKind};
use longhaul_engine::{Tokens, Transcript};

use super::breaker::Breaker;
use super::settings::{AutoCompaction, SessionSettings};
use longhaul_engine::Timestamp;

/// The fewest messages at which the safety threshold compacts. Chosen by hand: fewer leave too little to
/// summarize.
const MIN_MESSAGES_FOR_SAFETY: usize = 4;
/// At this share of the window and above, a request will probably be refused, so a pause of the breaker no
/// longer applies. Chosen by hand.
const NEARLY_FULL_SHARE: f64 = 0.95;
/// After a compaction that left nearly as much as the threshold, the request must use up this share of the
/// room to the safety threshold before the next one. Otherwise every request would compact again and nothing
/// would stay cached. Chosen by hand.
const MIN_GROWTH_SHARE: f64 = 1.0 / 3.0;
/// The target size, as a share of the refused size, if the provider did not report its maximum. Chosen by
/// hand.
const TARGET_SHARE_AFTER_REFUSAL: f64 = 2.0 / 3.0;

/// The promise of every undo, worded the same wherever one is made or shown.
pub const UNDO_PROMISE: &str = "it stays undone until you ask for a compaction or the safety threshold is reached";

/// Everything that the triggers look at.
#[derive(Clone, Copy)]
pub(super) struct TriggerInput<'s> {
    pub(super) settings: &'s SessionSettings,
    pub(super) policy: &'s Policy,
    pub(super) engine: &'s dyn Engine,
    pub(super) breaker: &'s Breaker,
    /// The size of the request as it would be sent.
    pub(super) request_size: RequestSize,
    /// The threshold of this request.
    pub(super) threshold: Tokens,
    /// The number of messages in the request.
    pub(super) messages: usize,
    /// The size that the provider has just refused.
    pub(super) refused_size: Option<Tokens>,
    /// The trigger to report if the threshold is reached.
    pub(super) threshold_trigger: Trigger,
    /// The sizes that the last compaction left and removed.
    pub(super) last_compaction: Option<LastCompaction>,
    /// Whether the newest change of the session's head was an undo, by the user or after a refusal.
    pub(super) is_undone: bool,
    /// Whether the cached prompt has expired.
    pub(super) cache_state: CacheState,
    pub(super) now: Timestamp,
}

/// The decision about one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CompactionDecision {
    /// Do not compact, for this reason.
    Leave(String),
    /// Compact, for this cause.
    Compact(CompactionCause),
}

/// The cause of a compaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompactionCause {
    pub(super) trigger: Trigger,
    /// The reason in words.
    pub(super) reason: String,
    pub(super) urgency: Urgency,
    /// The maximum size of the result, if the policy's own numbers are not enough.
    pub(super) to_tokens: Option<Tokens>,
}

impl CompactionCause {
    /// Creates the cause of a compaction that is required.
    pub(super) fn required(trigger: Trigger, reason: String) -> Self {
        Self { trigger, reason, urgency: Urgency::Required, to_tokens: None }
    }

    /// Whether only the threshold triggered it, so that it can be skipped if it saves too little.
    pub(super) fn can_be_skipped(&self) -> bool {
        self.urgency == Urgency::Required && matches!(self.trigger, Trigger::Preflight | Trigger::Reply)
    }

    /// Whether the breaker counts it: it is automatic, and meant to make the request smaller.
    pub(super) fn counts_as_attempt(&self) -> bool {
        self.is_automatic() && self.urgency != Urgency::WhileFree
    }

    /// Whether neither a person asked for it nor a provider's refusal forced it.
    pub(super) fn is_automatic(&self) -> bool {
        !matches!(self.trigger, Trigger::Manual | Trigger::Error)
    }
}

/// Whether a compaction must be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It must be made.
    Required,
    /// It is made only if it costs less than leaving the request unchanged.
    IfItPays,
    /// It only replaces the text of the active checkpoint, at a moment when that costs nothing.
    WhileFree,
}

impl TriggerInput<'_> {
    /// Evaluates the triggers in order of precedence.
    pub(super) fn evaluate(&self) -> CompactionDecision {
        let Self { policy, request_size, threshold, .. } = *self;
        let tokens = request_size.tokens;
        let required = |trigger, reason| CompactionDecision::Compact(CompactionCause::required(trigger, reason));
        let if_it_pays = |trigger, reason: &str| {
            CompactionDecision::Compact(CompactionCause {
                urgency: Urgency::IfItPays,
                ..CompactionCause::required(trigger, reason.to_owned())
            })
        };
        if let Some(refused) = self.refused_size {
            let to_tokens = self.target_after_refusal(refused);
            let reason = format!("the provider refused {refused} tokens as too long or too large");
            return CompactionDecision::Compact(CompactionCause {
                to_tokens,
                ..CompactionCause::required(Trigger::Error, reason)
            });
        }
        if self.settings.auto_compaction == AutoCompaction::Off {
            return CompactionDecision::Leave("automatic compaction is off".to_owned());
        }
        let safety_threshold = policy.safety_threshold;
        if let Err(pause) = self.breaker.allows(tokens, self.now) {
            // A pause avoids useless compactions; it must not cause a refusal.
            let is_forced = tokens > policy.window.share(NEARLY_FULL_SHARE)
                || (tokens >= safety_threshold && pause.reason == super::breaker::PauseReason::TooOften);
            if !is_forced {
                return CompactionDecision::Leave(pause.to_string());
            }
        }
        let overflows = tokens + request_size.reply_reserve > policy.window;
        if request_size.is_in_bound_loop && tokens <= policy.drop_oldest_above && !overflows {
            return CompactionDecision::Leave(
                "a tool loop with reasoning bound to its prefix is open; it is compacted when the loop ends".to_owned(),
            );
        }
        if tokens >= safety_threshold && self.messages >= MIN_MESSAGES_FOR_SAFETY {
            let share = 100.0 * self.settings.safety_share;
            return required(
                Trigger::Hygiene,
                format!("the request reached {share:.0} % of the window, {safety_threshold} tokens"),
            );
        }
        if self.is_undone && !overflows {
            return CompactionDecision::Leave(format!("a compaction was undone; {UNDO_PROMISE}"));
        }
        let options = CompactOptions { trigger: self.threshold_trigger, ..CompactOptions::default() };
        let trigger_decision = self.engine.check_trigger(policy, &options, &request_size);
        if let TriggerDecision::Compact(reason) = trigger_decision {
            let after = |last: LastCompaction| last.left + (safety_threshold - last.left).share(MIN_GROWTH_SHARE);
            let not_before = self.last_compaction.map_or(Tokens::ZERO, after);
            if tokens < not_before && !overflows {
                return CompactionDecision::Leave(format!(
                    "the last compaction left nearly as much as the threshold; the next one is triggered at {not_before} tokens"
                ));
            }
            let reached = format!("the threshold of {threshold} is reached");
            return required(self.threshold_trigger, if tokens >= threshold { reached } else { reason });
        }
        if let TriggerDecision::Wait(reason) = trigger_decision
            && self.engine.has_own_trigger()
        {
            return CompactionDecision::Leave(reason);
        }
        if tokens < PriceBand::new(policy, threshold, self.cache_state, self.last_compaction).comfortable {
            return CompactionDecision::Leave(format!("{tokens} tokens need no compaction yet"));
        }
        if self.cache_state == CacheState::Expired {
            return if_it_pays(Trigger::Idle, "the cache has expired, so the whole request is uncached anyway");
        }
        if policy.prices.is_some() {
            return if_it_pays(Trigger::Preflight, "it lowers the cost of the next requests");
        }
        CompactionDecision::Leave(format!("{tokens} tokens are below the threshold of {threshold}"))
    }

    /// Returns the target size after a request of `refused` tokens was refused. If the window is now known to
    /// be smaller than that, the policy's own numbers are enough.
    fn target_after_refusal(&self, refused: Tokens) -> Option<Tokens> {
        (refused <= self.policy.window).then(|| refused.share(TARGET_SHARE_AFTER_REFUSAL))
    }
}

/// Whether a request ends in an open tool loop whose reasoning is bound to the prefix before it, so that a
/// change of the prefix makes it invalid.
pub(super) fn is_in_bound_loop(policy: &Policy, view: &Transcript<'_>) -> bool {
    let open = view.turns.iter().rev().map_while(|turn| match &turn.kind {
        TurnKind::Assistant { reply, tool_calls } if !tool_calls.is_empty() => Some(reply),
        _ => None,
    });
    let is_sealed = |kind: &BlockKind| *kind == BlockKind::Reasoning(Seal::Sealed);
    policy.model.facts.thinking_bound && open.flatten().any(|block| is_sealed(&block.kind))
}
