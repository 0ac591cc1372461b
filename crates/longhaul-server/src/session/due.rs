//! Whether a request is compacted, and why: all triggers in one place, in the order in which they count.

use longhaul_engine::cost::{Band, CacheState, LastCompaction};
use longhaul_engine::plan::{Due, Engine, Load, Trigger, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::transcript::{BlockKind, Seal, UnitKind};
use longhaul_engine::{Tokens, Transcript};

use super::breaker::Breaker;
use super::settings::{Automatic, Settings};
use crate::agents::Moment;

/// Hygiene leaves shorter sessions alone.
const FEWEST_MESSAGES: usize = 4;
/// A request over this share of the window is all but refused.
const FULL: f64 = 0.95;
/// Where a compaction leaves nearly as much as the threshold, this share of what room there is up to hygiene is used before the next:
/// else each turn would be another compaction, and nothing would ever be read from the cache.
const ROOM: f64 = 1.0 / 3.0;
/// What is asked of a request that was refused without a word about how much would do.
const AFTER_REFUSAL: f64 = 2.0 / 3.0;

/// The promise of every undo, in the same words wherever one is made or shown.
pub const UNDO_HOLDS: &str =
    "it stays undone until you ask for a compaction or the safety threshold is reached";

/// What is known of a request when that is decided.
#[derive(Clone, Copy)]
pub(super) struct Standing<'s> {
    pub(super) settings: &'s Settings,
    pub(super) policy: &'s Policy,
    pub(super) engine: &'s dyn Engine,
    pub(super) breaker: &'s Breaker,
    /// The size of the request as it would be sent.
    pub(super) load: Load,
    /// The threshold of this request.
    pub(super) threshold: Tokens,
    /// How many messages it has.
    pub(super) messages: usize,
    /// The size that the provider has just refused.
    pub(super) refused: Option<Tokens>,
    /// What sets a compaction off where the threshold is reached.
    pub(super) at_threshold: Trigger,
    /// What the last compaction left and removed.
    pub(super) last: Option<LastCompaction>,
    /// Whether the user has undone a compaction and asked for none since.
    pub(super) is_undone: bool,
    /// Whether what was cached has expired.
    pub(super) cache: CacheState,
    pub(super) now: Moment,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Nothing, for this reason.
    Leave(String),
    /// A compaction.
    Compact(Cause),
}

/// What sets a compaction off.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cause {
    pub(super) trigger: Trigger,
    /// In words.
    pub(super) reason: String,
    pub(super) need: Need,
    /// The largest result that would do.
    pub(super) to_tokens: Option<Tokens>,
}

impl Cause {
    /// One that is due.
    pub(super) fn due(trigger: Trigger, reason: String) -> Self {
        Self { trigger, reason, need: Need::Due, to_tokens: None }
    }

    /// Whether it is only the threshold that sets it off, so that it can be left undone.
    pub(super) fn spares_cache(&self) -> bool {
        self.need == Need::Due && matches!(self.trigger, Trigger::Preflight | Trigger::Reply)
    }

    /// Whether nobody asked for it, and no provider forced it.
    pub(super) fn is_automatic(&self) -> bool {
        !matches!(self.trigger, Trigger::Manual | Trigger::Error)
    }
}

/// How much it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It is due.
    Due,
    /// Only if it is cheaper than none.
    IfItPays,
}

impl Standing<'_> {
    /// What is to be done.
    pub(super) fn verdict(&self) -> Verdict {
        let Self { policy, load, threshold, .. } = *self;
        let tokens = load.tokens;
        let due = |trigger, reason| Verdict::Compact(Cause::due(trigger, reason));
        let if_it_pays = |trigger, reason: &str| {
            Verdict::Compact(Cause { need: Need::IfItPays, ..Cause::due(trigger, reason.to_owned()) })
        };
        if let Some(refused) = self.refused {
            let to_tokens = self.after_refusal(refused);
            let reason = format!("the provider refused {refused} tokens as too long or too large");
            return Verdict::Compact(Cause { to_tokens, ..Cause::due(Trigger::Error, reason) });
        }
        if self.settings.automatic == Automatic::Off {
            return Verdict::Leave("automatic compaction is off".to_owned());
        }
        let hygiene = policy.safety;
        if let Err(pause) = self.breaker.allows(tokens, self.now) {
            // A pause is to spare what is in vain, and not to run into a refusal.
            let is_forced = tokens > policy.window.share(FULL)
                || (tokens >= hygiene && pause.why == super::breaker::Why::TooOften);
            if !is_forced {
                return Verdict::Leave(pause.to_string());
            }
        }
        let overflows = tokens + load.reply > policy.window;
        if load.in_loop && tokens <= policy.drop_oldest && !overflows {
            return Verdict::Leave(
                "a tool loop with reasoning bound to its prefix is open; it is compacted when the loop ends"
                    .to_owned(),
            );
        }
        if tokens >= hygiene && self.messages >= FEWEST_MESSAGES {
            let share = 100.0 * self.settings.hygiene;
            return due(Trigger::Hygiene, format!("it reached {share:.0} % of the window, {hygiene} tokens"));
        }
        if self.is_undone && !overflows {
            return Verdict::Leave(format!("a compaction was undone; {UNDO_HOLDS}"));
        }
        let wish = Wish { trigger: self.at_threshold, ..Wish::default() };
        let is_due = self.engine.due(policy, &wish, &load);
        if let Due::Now(reason) = is_due {
            let after = |last: LastCompaction| last.left + (hygiene - last.left).share(ROOM);
            let not_before = self.last.map_or(Tokens::ZERO, after);
            if tokens < not_before && !overflows {
                return Verdict::Leave(format!(
                    "the last compaction left nearly as much as the threshold; the next is due at {not_before} tokens"
                ));
            }
            let reached = format!("the threshold of {threshold} is reached");
            return due(self.at_threshold, if tokens >= threshold { reached } else { reason });
        }
        if let Due::NotYet(reason) = is_due
            && self.engine.decides_when()
        {
            return Verdict::Leave(reason);
        }
        if tokens < Band::new(policy, threshold, self.cache, self.last).comfortable {
            return Verdict::Leave(format!("{tokens} tokens are comfortable"));
        }
        if self.cache == CacheState::Expired {
            return if_it_pays(Trigger::Idle, "the cache has lapsed, so that all is read anew anyway");
        }
        if policy.prices.is_some() {
            return if_it_pays(Trigger::Preflight, "it costs less in the end");
        }
        Verdict::Leave(format!("{tokens} tokens are below the threshold of {threshold}"))
    }

    /// How small a request has to be after one of this size was refused: where the window is known to be smaller, the policy's own
    /// numbers do.
    fn after_refusal(&self, refused: Tokens) -> Option<Tokens> {
        (refused <= self.policy.window).then(|| refused.share(AFTER_REFUSAL))
    }
}

/// Whether a request ends in a tool loop whose reasoning is bound to what stands before it.
pub(super) fn in_loop(policy: &Policy, view: &Transcript<'_>) -> bool {
    let open = view.units.iter().rev().map_while(|unit| match &unit.kind {
        UnitKind::Step { reply, exchanges } if !exchanges.is_empty() => Some(reply),
        _ => None,
    });
    let is_sealed = |kind: &BlockKind| *kind == BlockKind::Reasoning(Seal::Sealed);
    policy.model.facts.thinking_bound && open.flatten().any(|block| is_sealed(&block.kind))
}
