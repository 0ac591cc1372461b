//! What comes back from the provider: what a request came to, or why it was refused.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::Trigger;
use longhaul_engine::prices::Usage;

use super::gauge::Errors;
use super::scene::hash;
use super::settings::Automatic;
use super::turn::Said;
use super::{Sent, Session, windows};
use crate::agents::Moment;
use crate::upstream::Trouble;

/// A request that is not smaller by at least this share than one that was refused is no progress.
const PROGRESS: f64 = 0.05;

/// What a reply says about the session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct After {
    /// Why a compaction is due before the next request, if it is.
    pub due: Option<String>,
    /// How far counts are off, before and after they are corrected, once that can be said.
    pub errors: Option<Errors>,
    /// Lines for people.
    pub said: Vec<String>,
}

/// What is to be done about a request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Ask [`Session::before`] again, and send what it gives: it will be smaller.
    Retry,
    /// The same, because the compaction was refused: it gives the original. The compaction is taken back once that is accepted.
    SendOriginal,
    /// Send the same later, after so long if the provider said it.
    Wait(Option<Duration>),
    /// Nothing helps, for this reason.
    GiveUp(String),
}

impl Session {
    /// A reply came to the request that was sent last, with the provider's own counts.
    pub async fn after(&mut self, usage: &Usage) -> After {
        let host = Arc::clone(&self.host);
        let mut said = Said::to(&*host);
        self.accept(&mut said).await;
        let model = self.model.clone();
        let learned = self.learned.entry(model.clone()).or_default();
        let factor = learned.calibration.factor();
        let whole = self.gauge.reported(usage, &mut learned.calibration);
        if let Some(input) = usage.input {
            self.state.cached.counted(input);
        }
        let learned = learned.clone();
        if learned.calibration.factor().to_bits() != factor.to_bits() {
            self.keep_learned(&mut said).await;
        }
        let policy = windows::policy(&self.settings.config, &model, &learned);
        let threshold = policy.ok().map(|policy| {
            self.settings.engines.of(&policy.engine).told_usage(&model, usage);
            self.threshold
        });
        let due = whole.zip(threshold).filter(|(whole, threshold)| whole >= threshold);
        let due = due.map(|(whole, threshold)| {
            self.at_threshold = Trigger::Reply;
            format!("{whole} tokens by the provider's count reach the threshold of {threshold}")
        });
        After { due, errors: learned.calibration.errors(), said: said.lines }
    }

    /// The provider accepted the request that was sent last: the status of its reply says so, before anything of it is read. An original
    /// that is accepted in place of a compaction shows that the compaction was refused for its own sake, and it is taken back.
    pub async fn accepted(&mut self) -> Vec<String> {
        let host = Arc::clone(&self.host);
        let mut said = Said::to(&*host);
        self.accept(&mut said).await;
        said.lines
    }

    async fn accept(&mut self, said: &mut Said<'_>) {
        self.state.refused = None;
        match (self.sent, self.suspect.take()) {
            (Sent::Rewritten(rewrite), _) => self.state.accepted = Some(rewrite),
            (Sent::Original, Some(refused)) => {
                said.say(
                    "the original was accepted: the refused compaction is taken back and not tried again",
                );
                self.take_back(refused, said).await;
            }
            (Sent::Original, None) => {}
        }
    }

    /// The request that was sent last was neither accepted nor refused: it says nothing about a compaction.
    pub fn unresolved(&mut self) {
        self.suspect = None;
    }

    /// Whether the request that was sent last carries a compaction that no provider has accepted yet.
    #[must_use]
    pub fn has_new_compaction(&self) -> bool {
        matches!(self.sent, Sent::Rewritten(rewrite) if self.state.accepted != Some(rewrite))
    }

    /// The request that was sent last was refused, or got no answer. What is to be said of it comes with it.
    pub async fn failed(&mut self, trouble: &Trouble, now: Moment) -> (Reaction, Vec<String>) {
        let host = Arc::clone(&self.host);
        let mut said = Said::to(&*host);
        let reaction = match trouble {
            Trouble::TooLong { maximum, sent } => {
                self.learn(*maximum, *sent, now, &mut said).await;
                self.retry(trouble)
            }
            Trouble::TooLarge(_) => self.retry(trouble),
            Trouble::BadRequest(_) => match self.sent {
                Sent::Rewritten(rewrite) if self.has_new_compaction() => {
                    said.say(format!(
                        "the compacted request was refused, so the original is sent: {trouble}"
                    ));
                    self.suspect = Some(rewrite);
                    Reaction::SendOriginal
                }
                Sent::Original | Sent::Rewritten(_) => {
                    // The original is refused as well: it is not the compaction that is wrong.
                    self.suspect = None;
                    Reaction::GiveUp(trouble.to_string())
                }
            },
            Trouble::RateLimited { delay } | Trouble::Overloaded { delay } => Reaction::Wait(*delay),
            _ => Reaction::GiveUp(trouble.to_string()),
        };
        if let Err(error) = self.keep_state().await {
            said.say(format!("the store did not keep how the session stands: {error}"));
        }
        (reaction, said.lines)
    }

    /// The provider said how much it takes, and how much there was.
    async fn learn(
        &mut self,
        maximum: Option<Tokens>,
        sent: Option<Tokens>,
        now: Moment,
        said: &mut Said<'_>,
    ) {
        let learned = self.learned.entry(self.model.clone()).or_default();
        if let Some(sent) = sent {
            let usage = Usage { input: Some(sent), ..Usage::default() };
            let _ = self.gauge.reported(&usage, &mut learned.calibration);
        }
        if let Some(maximum) = maximum {
            learned.hear(maximum, sent.or(self.gauge.last()), now);
            if let Some(window) = &learned.window {
                said.say(format!("{}: the window is now {window}", self.model));
            }
        }
        if maximum.or(sent).is_some() {
            self.keep_learned(said).await;
        }
    }

    async fn keep_learned(&self, said: &mut Said<'_>) {
        if let (Some(recorder), Some(learned)) = (&self.recorder, self.learned.get(&self.model))
            && let Err(error) = recorder.keep_learned(&self.model, learned).await
        {
            said.say(format!("the store did not keep what was learned of {}: {error}", self.model));
        }
    }

    /// Once per distinct progress: a request that is hardly smaller than one that was refused is not made again.
    fn retry(&mut self, trouble: &Trouble) -> Reaction {
        if self.settings.automatic == Automatic::Off {
            return Reaction::GiveUp(format!("{trouble}; automatic compaction is off"));
        }
        let Some(size) = self.gauge.last() else {
            return Reaction::GiveUp(format!("{trouble}; how large it was is not known"));
        };
        // Where the request takes less than a quarter of the window, the reply that it asks for is too long, and no compaction helps.
        if let Trouble::TooLong { maximum: Some(maximum), .. } = trouble
            && size < *maximum / 4
        {
            return Reaction::GiveUp(format!("{trouble}; ask for a shorter reply"));
        }
        let smaller = |before: Tokens| size <= before.share(1.0 - PROGRESS);
        if self.state.refused.is_some_and(|before| !smaller(before)) {
            return Reaction::GiveUp(format!("{trouble}; it could not be made smaller"));
        }
        (self.state.refused, self.retry) = (Some(size), Some(size));
        Reaction::Retry
    }

    /// Goes back to what was decided before.
    async fn take_back(&mut self, rewrite: u64, said: &mut Said<'_>) {
        const MOST: usize = 16;
        self.state.refused_rewrites.push(rewrite);
        let surplus = self.state.refused_rewrites.len().saturating_sub(MOST);
        self.state.refused_rewrites.drain(..surplus);
        let previous = std::mem::take(&mut self.previous);
        let was_refused = self.state.refused_rewrites.contains(&hash(&previous));
        self.decided(if was_refused { Ledger::default() } else { previous });
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.take_back().await
        {
            said.say(format!("the store did not take the compaction back: {error}"));
        }
    }
}
