//! What an engine is: it says when a compaction is due, and makes one.

use super::report::Trigger;
use super::{Outcome, Plan, Wish};
use crate::config::EngineName;
use crate::known::Known;
use crate::ledger::Ledger;
use crate::meter::Meter;
use crate::passes::ByteLimits;
use crate::policy::Policy;
use crate::prices::Usage;
use crate::summary::Ask;
use crate::transcript::Transcript;
use crate::{Refused, Rewrite, Tokens, wire};

/// A way to make a transcript smaller.
pub trait Engine: Send + Sync {
    /// What the configuration calls it.
    fn name(&self) -> EngineName;

    /// What it does, in a line.
    fn about(&self) -> &str;

    /// Where it is from.
    fn source(&self) -> Source {
        Source::Host
    }

    /// From how many tokens on a compaction is due without being asked for.
    fn starts_at(&self, policy: &Policy) -> Tokens {
        policy.threshold
    }

    /// Whether a request of this size is to be compacted now.
    fn due(&self, policy: &Policy, wish: &Wish, load: &Load) -> Due {
        load.due_at(load.threshold(self.starts_at(policy), policy), policy, wish)
    }

    /// Whether it alone says when, so that nothing but the window makes it compact earlier or later.
    fn decides_when(&self) -> bool {
        false
    }

    /// It is told what a reply came to, by the provider's own counts.
    fn told_usage(&self, _model: &str, _usage: &Usage) {}

    /// Looks at a request that is left as it is, so that a later compaction finds known what stood there already: it costs what
    /// is new since the last look. To be called for each request that is not compacted; [`compact`](Self::compact) counts it,
    /// but reads nothing ahead. Gives the tokens of the request.
    fn look(&self, policy: &Policy, known: &mut Known, transcript: &Transcript<'_>) -> Tokens {
        Meter::of(&policy.model).parts(known, transcript).total()
    }

    /// What a model would be asked about the units that a compaction of this transcript would fold; nothing where it would fold
    /// none, and for engines that fold nothing.
    fn would_ask(
        &self,
        _policy: &Policy,
        _wish: &Wish,
        _known: &mut Known,
        _transcript: &Transcript<'_>,
    ) -> Option<Ask> {
        None
    }

    /// One compaction of a transcript as it stands, if it is due.
    ///
    /// # Errors
    /// Edits that cannot be made, which would be a mistake of ours.
    fn compact(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Plan, Refused>;

    /// For a client that sends its original history again: first what was decided before is decided again, word for word; then,
    /// if what that leaves is still too large, more. The report compares with the original; its units and blocks are those of
    /// what was left.
    ///
    /// # Errors
    /// Edits that cannot be made, which would be a mistake of ours.
    fn plan(
        &self,
        policy: &Policy,
        wish: &Wish,
        ledger: &Ledger,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Plan, Refused> {
        let Some(replay) = ledger.replay(transcript)? else {
            return self.compact(policy, wish, known, transcript);
        };
        let body = replay.apply(transcript.body);
        let (view, _) = wire::parse(transcript.dialect, &body)?;
        let settled = match self.compact(policy, &wish.after(ledger, transcript), known, &view)? {
            Plan::Leave(report) => {
                let ledger = ledger.clone();
                Outcome { rewrite: replay, body: body.clone(), ledger, report, originals: Vec::new() }
            }
            Plan::Ready(outcome) => {
                let Some(ledger) = ledger.then(&outcome.ledger, &view, transcript) else {
                    return self.compact(policy, wish, known, transcript);
                };
                let rewrite = Rewrite::new(transcript, ledger.edits(transcript))?;
                let body = rewrite.apply(transcript.body);
                Outcome { rewrite, body, ledger, ..outcome }
            }
        };
        let before = Meter::of(&policy.model).parts(known, transcript).total();
        let report = settled.report.about(before, transcript, &settled.body);
        Ok(Plan::Ready(Outcome { report, ..settled }))
    }

    /// What a model would be asked, where what was decided before is decided again first.
    ///
    /// # Errors
    /// Edits that cannot be made, which would be a mistake of ours.
    fn ask(
        &self,
        policy: &Policy,
        wish: &Wish,
        ledger: &Ledger,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Option<Ask>, Refused> {
        let Some(replay) = ledger.replay(transcript)? else {
            return Ok(self.would_ask(policy, wish, known, transcript));
        };
        let body = replay.apply(transcript.body);
        let (view, _) = wire::parse(transcript.dialect, &body)?;
        Ok(self.would_ask(policy, &wish.after(ledger, transcript), known, &view))
    }
}

/// Where an engine is from. Of several with one name the first of these is taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A program, which lies there.
    Plugin(String),
    /// The host program registered it.
    Host,
    /// This crate.
    BuiltIn,
}

/// How large a request is, and whether anything is in the way of changing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// What it holds.
    pub tokens: Tokens,
    /// What the reply may have, where that has to fit the window too.
    pub reply: Tokens,
    /// The tokens that no compaction can remove: the system prompt, the tools and the newest turn.
    pub minimum: Tokens,
    /// How long its body is.
    pub bytes: usize,
    /// Whether it ends in a tool loop whose reasoning is bound to what stands before it.
    pub in_loop: bool,
}

/// Whether a compaction is due, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// It is.
    Now(String),
    /// It is not.
    NotYet(String),
}

impl Load {
    /// The threshold of an engine that starts at so many tokens, for this request.
    #[must_use]
    pub fn threshold(&self, starts_at: Tokens, policy: &Policy) -> Tokens {
        policy.threshold_over(starts_at, self.minimum, self.reply)
    }

    /// Whether a compaction is due from so many tokens on: then, where somebody asks for one, and where the request would not be
    /// taken as it is.
    #[must_use]
    pub fn due_at(&self, threshold: Tokens, policy: &Policy, wish: &Wish) -> Due {
        let now = self.share_of(policy.window);
        if let Some(wanted) = wish.to_tokens.filter(|wanted| self.tokens <= *wanted) {
            return Due::NotYet(format!("already at or under the {wanted} tokens asked for: {now}"));
        }
        let (bytes, most) = (self.bytes, ByteLimits::default().body);
        if bytes > most {
            return Due::Now(format!("{bytes} bytes are more than the {most} that a provider takes"));
        }
        let overflows = self.overflows(policy);
        if self.tokens < threshold && !wish.is_asked() && overflows.is_none() {
            return Due::NotYet(format!("below the threshold of {threshold}: {now}"));
        }
        if let Some(later) = self.waits(policy) {
            return later;
        }
        if let Some(reason) = overflows {
            return Due::Now(reason);
        }
        if self.tokens >= threshold {
            return Due::Now(format!("{now} reach the threshold of {threshold}"));
        }
        Due::Now(match wish.trigger {
            Trigger::Manual => format!("asked for at {now}"),
            _ => format!("the time was right at {now}"),
        })
    }

    /// Its tokens, and what they are of the window.
    pub(super) fn share_of(&self, window: Tokens) -> String {
        let share = 100.0 * self.tokens.number() as f64 / window.number().max(1) as f64;
        format!("{} tokens ({share:.0} % of the window)", self.tokens)
    }

    /// Why the request and its reply would not fit the window together, where they would not.
    pub(super) fn overflows(&self, policy: &Policy) -> Option<String> {
        let (tokens, reply, window) = (self.tokens, self.reply, policy.window);
        (reply > Tokens::ZERO && tokens + reply > window).then(|| {
            format!("{tokens} tokens and the {reply} that the reply may have pass the window of {window}")
        })
    }

    /// What any engine waits for: an open loop with bound reasoning, unless the request is about to overflow.
    pub(super) fn waits(&self, policy: &Policy) -> Option<Due> {
        let reason =
            "a tool loop with reasoning bound to its prefix is open; it is compacted when the loop ends";
        let overflows = self.tokens > policy.drop_oldest || self.overflows(policy).is_some();
        (self.in_loop && !overflows).then(|| Due::NotYet(reason.to_owned()))
    }
}
