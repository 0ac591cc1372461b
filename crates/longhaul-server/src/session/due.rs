//! Whether a request is compacted, and why: all triggers in one place, in the order in which they count.

use longhaul_engine::plan::{Due, Engine, Load, Trigger, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::transcript::{BlockKind, Seal, UnitKind};
use longhaul_engine::{Tokens, Transcript};

use super::breaker::Breaker;
use super::gauge::Measured;
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

/// What is known of a request when that is decided.
#[derive(Clone, Copy)]
pub(super) struct Standing<'s> {
    pub(super) settings: &'s Settings,
    pub(super) policy: &'s Policy,
    pub(super) engine: &'s dyn Engine,
    pub(super) breaker: &'s Breaker,
    pub(super) measured: Measured,
    /// The request as it would be sent.
    pub(super) view: &'s Transcript<'s>,
    /// The size that the provider has just refused.
    pub(super) refused: Option<Tokens>,
    /// What sets a compaction off where the threshold is reached.
    pub(super) at_threshold: Trigger,
    /// What the last compaction left.
    pub(super) left: Option<Tokens>,
    /// Whether somebody took a compaction back, and nobody has said anything since.
    pub(super) held: bool,
    /// Whether what was cached has lapsed.
    pub(super) lapsed: bool,
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
        let Self { policy, measured, .. } = *self;
        let tokens = measured.tokens;
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
        let hygiene = policy.window.share(self.settings.hygiene);
        if let Err(pause) = self.breaker.allows(tokens, self.now) {
            // A pause is to spare what is in vain, and not to run into a refusal.
            let is_forced = tokens > policy.window.share(FULL)
                || (tokens >= hygiene && pause.why == super::breaker::Why::TooOften);
            if !is_forced {
                return Verdict::Leave(pause.to_string());
            }
        }
        let overflows = tokens + self.reply() > policy.window;
        if self.in_loop() && tokens <= policy.drop_oldest && !overflows {
            return Verdict::Leave(
                "a tool loop with reasoning bound to its prefix is open; it is compacted when the loop ends"
                    .to_owned(),
            );
        }
        if tokens >= hygiene && self.view.message_count() >= FEWEST_MESSAGES {
            let share = 100.0 * self.settings.hygiene;
            return due(Trigger::Hygiene, format!("it reached {share:.0} % of the window, {hygiene} tokens"));
        }
        if self.held && !overflows {
            return Verdict::Leave(
                "a compaction was taken back, and nobody has said anything since".to_owned(),
            );
        }
        let wish = Wish { trigger: self.at_threshold, ..Wish::default() };
        let load = Load { tokens, reply: self.reply(), bytes: self.view.body.len(), in_loop: self.in_loop() };
        let starts_at = self.engine.starts_at(policy);
        let is_due = self.engine.due(policy, &wish, &load);
        if let Due::Now(reason) = is_due {
            let not_before = self.left.map_or(Tokens::ZERO, |left| left + (hygiene - left).share(ROOM));
            if tokens < not_before && !overflows {
                return Verdict::Leave(format!(
                    "the last compaction left nearly as much as the threshold; the next is due at {not_before} tokens"
                ));
            }
            let reached = format!("the threshold of {starts_at} is reached");
            return due(self.at_threshold, if tokens >= starts_at { reached } else { reason });
        }
        if let Due::NotYet(reason) = is_due
            && self.engine.decides_when()
        {
            return Verdict::Leave(reason);
        }
        if tokens < policy.goal {
            return Verdict::Leave(format!("{tokens} tokens are comfortable"));
        }
        if self.lapsed {
            return if_it_pays(Trigger::Idle, "the cache has lapsed, so that all is read anew anyway");
        }
        if policy.prices.is_some() {
            return if_it_pays(Trigger::Preflight, "it costs less in the end");
        }
        Verdict::Leave(format!("{tokens} tokens are below the threshold of {starts_at}"))
    }

    /// How small a request has to be after one of this size was refused: where the window is known to be smaller, the policy's own
    /// numbers do.
    fn after_refusal(&self, refused: Tokens) -> Option<Tokens> {
        (refused <= self.policy.window).then(|| refused.share(AFTER_REFUSAL))
    }

    /// What the reply may have, where it shares the window with the request.
    fn reply(&self) -> Tokens {
        let (facts, window) = (&self.policy.model.facts, self.policy.window);
        let asked = self.view.longest_reply.map_or(Tokens::ZERO, Tokens);
        let most = if self.policy.model.is_assumed("max_output") { asked } else { facts.max_output };
        let room = asked.min(most);
        if facts.input_limit.is_none() && room < window { room } else { Tokens::ZERO }
    }

    /// Whether the request ends in a tool loop whose reasoning is bound to what stands before it.
    fn in_loop(&self) -> bool {
        let open = self.view.units.iter().rev().map_while(|unit| match &unit.kind {
            UnitKind::Step { reply, exchanges } if !exchanges.is_empty() => Some(reply),
            _ => None,
        });
        let is_sealed = |kind: &BlockKind| *kind == BlockKind::Reasoning(Seal::Sealed);
        self.policy.model.facts.thinking_bound && open.flatten().any(|block| is_sealed(&block.kind))
    }
}
