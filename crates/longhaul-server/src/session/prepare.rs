//! A model's summary for the next compaction: begun early, so that nobody waits for it.

use std::borrow::Cow;
use std::time::Duration;

use longhaul_engine::plan::{Plan, Trigger};
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Dollars;
use longhaul_engine::seat::Takes;
use longhaul_engine::summary::{self, Ask};

use super::Session;
use super::background::{Basis, Beginning};
use super::compact::Extra;
use super::due::Cause;
use super::scene::{Request, Scene, Size};
use super::settings::{Automatic, First, Summarizer, Writer};
use super::summarize::{Attempt, Task, Way, extension_price, small_price};
use super::turn::Said;
use crate::agents::Moment;

/// From this share of the threshold on.
const EARLY: f64 = 0.80;
/// A checkpoint by code that keeps less than this of what it found is short of room: the evidence is dense.
const DENSE: f64 = 0.50;

impl Session {
    /// What is to be known of who writes the checkpoints; nothing where that is code.
    pub(super) fn summarizer_line(&self, policy: &Policy) -> Option<String> {
        let Summarizer::Model { auxiliary, .. } = &self.settings.summarizer else { return None };
        let (name, window) = (&auxiliary.model.name, auxiliary.window());
        let asked = format!(
            "summaries are asked of {name} at {}, whose bill they go on",
            auxiliary.upstream.provider().name()
        );
        let wanted = summary::room(policy.threshold, policy.checkpoint.most);
        Some(if self.models.is_none() {
            format!("{name} is named for summaries, but nobody can be asked: checkpoints are made by code")
        } else if window < wanted {
            format!(
                "{asked}; its window of {window} tokens is smaller than the {wanted} that a whole one takes, so it \
                 is asked in parts"
            )
        } else {
            asked
        })
    }

    /// Begins one, if it is time for it and none is on its way.
    pub(super) fn begin_early(&mut self, scene: Scene<'_, '_>, said: &mut Said<'_>) {
        let Scene { size, now, .. } = scene;
        let (tokens, starts_at) = (size.measured.tokens, scene.threshold);
        // Without automatic compactions there is none that it would be for.
        let rests =
            self.settings.automatic == Automatic::Off || self.state.breaker.allows(tokens, now).is_err();
        if tokens >= starts_at.share(EARLY) && !rests && !self.prepared.is_on_its_way(None) {
            let cause = Cause::due(Trigger::Preflight, String::new());
            self.begin(scene, &cause, &Extra::default(), said);
        }
    }

    /// A compaction is due: waits for a summary as long as a turn may wait.
    pub(super) async fn await_summary(
        &mut self,
        scene: Scene<'_, '_>,
        cause: &Cause,
        extra: &Extra,
        said: &mut Said<'_>,
    ) {
        // Who was refused wants an answer before all else.
        if cause.trigger == Trigger::Error {
            return;
        }
        // One that nobody waits for is of use to the compaction after this one, and only if the client sends these units again.
        // One with a focus is of use to nothing but this.
        let focus = extra.focus.as_deref();
        let comes_again = matches!(scene.request.view, Cow::Owned(_)) && focus.is_none();
        let is_of_use = !self.settings.max_wait.is_zero() || comes_again;
        if is_of_use && !self.prepared.is_on_its_way(focus) {
            self.begin(scene, cause, extra, said);
        }
        if self.prepared.is_running(focus) {
            self.collect(self.settings.max_wait, scene.now, said).await;
        }
        if self.prepared.is_running(focus) && focus.is_some() {
            self.prepared.end();
            said.say("the model's summary is not ready: the checkpoint is made by code");
        } else if self.prepared.is_running(focus) {
            said.say(
                "the model's summary is not ready: the checkpoint is made by code, and its words come with the next compaction",
            );
        }
    }

    fn begin(&mut self, scene: Scene<'_, '_>, cause: &Cause, extra: &Extra, said: &mut Said<'_>) {
        let Some(models) = self.models.clone() else { return };
        let Summarizer::Model { auxiliary, main, .. } = &self.settings.summarizer else { return };
        let Scene { request, now, .. } = scene;
        let Request { policy, engine, transcript, .. } = request;
        let rests = |model: &str| self.state.cooldowns.left(model, now).is_some();
        if rests(&auxiliary.model.name) && (main.is_none() || rests(&policy.model.name)) {
            return;
        }
        let asked = engine.ask(policy, &self.wish(cause, extra), &self.ledger, &mut self.known, transcript);
        let Ok(Some(ask)) = asked else { return };
        if self.prepared.was_asked(&ask.covers, extra.focus.as_deref()) {
            return;
        }
        let attempts = self.attempts(scene, &ask, cause, said);
        let (attempts, expected) = match self.affordable(attempts, now) {
            Ok(affordable) => affordable,
            Err(reason) => {
                if self.told.insert(reason.clone()) {
                    said.say(reason);
                }
                return;
            }
        };
        let (Some(first), Some(mark)) = (attempts.first(), self.host.mark()) else { return };
        said.say(format!(
            "{} writes a summary of what the next compaction will fold",
            first.writer.model.name
        ));
        self.state.breaker.spend(expected, now);
        let beginning = Beginning::of(transcript, policy.protect_last);
        let basis = Basis { ledger: self.ledger.clone(), beginning, focus: extra.focus.clone() };
        let (rules, key) = (self.settings.rules.clone(), self.key());
        self.prepared.begin(models, Task { ask, attempts, mark, rules, key }, basis, expected);
    }

    /// Those who are to be asked, in order: one model, and another if that fails. Who has failed of late is spared.
    fn attempts(
        &mut self,
        scene: Scene<'_, '_>,
        ask: &Ask,
        cause: &Cause,
        said: &mut Said<'_>,
    ) -> Vec<Attempt> {
        let Scene { request, now, .. } = scene;
        let Summarizer::Model { auxiliary, main, first } = self.settings.summarizer.clone() else {
            return Vec::new();
        };
        let own = main.map(|upstream| {
            let price = request.policy.prices.as_ref().map(|prices| prices.price);
            let (model, patience) = (request.policy.model.clone(), auxiliary.patience);
            self.own(scene, ask, Writer { model, price, upstream, patience })
        });
        let auxiliary = Attempt { price: small_price(ask, &auxiliary), writer: auxiliary, way: Way::Small };
        let Some(own) = own else {
            return self.rested(vec![auxiliary], now);
        };
        let is_cheaper = own.price.zip(auxiliary.price).is_some_and(|(own, other)| own < other);
        let is_dense = first == First::Auto && self.is_dense(request, cause);
        if is_dense {
            said.say(format!(
                "the evidence is dense, so the session's own model {} is asked for the summary",
                own.writer.model.name
            ));
        }
        let order = if is_dense || is_cheaper { vec![own, auxiliary] } else { vec![auxiliary, own] };
        self.rested(order, now)
    }

    /// The session's own model, asked in the cheaper way.
    fn own(&self, scene: Scene<'_, '_>, ask: &Ask, writer: Writer) -> Attempt {
        let Scene { request, seen, now, size: Size { measured, .. }, .. } = scene;
        let dialect = request.transcript.dialect;
        let small = small_price(ask, &writer);
        let extended = extension_price(ask, &writer, measured.tokens, self.state.cached.warm(now));
        let is_cheaper = extended.zip(small).is_some_and(|(extended, small)| extended < small);
        let takes =
            if writer.model.facts.user_after_tool { Takes::UserAfterTool } else { Takes::ReplyAfterTool };
        let fits = summary::room(measured.tokens, ask.budget) <= request.policy.window;
        if is_cheaper
            && fits
            && writer.upstream.provider().speaks(dialect)
            && let Ok(body) = ask.extend(seen, takes)
        {
            return Attempt { writer, way: Way::Extension { dialect, body }, price: extended };
        }
        Attempt { writer, way: Way::Small, price: small }
    }

    /// Those who have not failed of late.
    fn rested(&self, attempts: Vec<Attempt>, now: Moment) -> Vec<Attempt> {
        let rests = |attempt: &Attempt| self.state.cooldowns.left(&attempt.writer.model.name, now).is_some();
        let mut attempts: Vec<Attempt> = attempts.into_iter().filter(|attempt| !rests(attempt)).collect();
        attempts.dedup_by(|a, b| {
            let is_small = |attempt: &Attempt| matches!(attempt.way, Way::Small);
            a.writer.model.name == b.writer.model.name && is_small(a) && is_small(b)
        });
        attempts
    }

    /// Whether a checkpoint by code would have to leave out most of what it could say.
    fn is_dense(&mut self, request: &Request<'_, '_>, cause: &Cause) -> bool {
        let wish = self.wish(cause, &Extra::default());
        let Request { policy, engine, transcript, .. } = request;
        match engine.plan(policy, &wish, &self.ledger, &mut self.known, transcript) {
            Ok(Plan::Ready(outcome)) if outcome.report.checkpoint.is_some() => {
                let evidence = outcome.report.evidence;
                (evidence.kept as f64) < DENSE * evidence.found as f64
            }
            _ => false,
        }
    }

    /// Those for whom the day's money is enough even if all before them fail, and what they are counted as.
    fn affordable(&self, attempts: Vec<Attempt>, now: Moment) -> Result<(Vec<Attempt>, Dollars), String> {
        let Some(most) = self.settings.limits.a_day else {
            let expected = attempts.first().and_then(|first| first.price).unwrap_or_default();
            return Ok((attempts, expected));
        };
        let spent = self.state.breaker.spent(now);
        let (mut able, mut expected, mut unable) = (Vec::new(), Dollars::ZERO, None);
        for attempt in attempts {
            let name = &attempt.writer.model.name;
            match attempt.price {
                Some(price) if spent + expected + price <= most => {
                    expected += price;
                    able.push(attempt);
                }
                Some(_) => {
                    unable.get_or_insert(format!(
                        "the day's limit of {most} for summaries is reached: checkpoints are made by code until tomorrow"
                    ));
                }
                None => {
                    unable.get_or_insert(format!(
                        "what {name} costs is not known, so the day's limit could not be kept: checkpoints are made by code"
                    ));
                }
            }
        }
        match unable {
            Some(reason) if able.is_empty() => Err(reason),
            _ => Ok((able, expected)),
        }
    }

    /// Takes what came of a summary that was begun, if that is over, or is within so long.
    pub(super) async fn collect(&mut self, wait: Duration, now: Moment, said: &mut Said<'_>) {
        let Some((done, expected)) = self.prepared.collect(wait).await else { return };
        if let Some(paid) = done.paid {
            self.state.breaker.spend(paid - expected, now);
        }
        let auxiliary = match &self.settings.summarizer {
            Summarizer::Model { auxiliary, .. } => Some(auxiliary.model.name.clone()),
            Summarizer::Code => None,
        };
        for (n, (model, failure)) in done.failed.iter().enumerate() {
            // Who was asked in two ways has failed once.
            if done.failed[n + 1..].iter().all(|(later, _)| later != model) {
                self.state.cooldowns.failed(model, failure, now);
            }
            self.state.last_error = Some(format!("{model}: {failure}"));
            if Some(model) == auxiliary.as_ref() {
                self.state.auxiliary_failed = Some(model.clone());
            }
            said.say(format!("no summary by {model}: {failure}"));
        }
        match &done.answer {
            Some(answer) => {
                self.state.cooldowns.answered(&answer.by);
                if Some(&answer.by) == auxiliary.as_ref() {
                    (self.state.auxiliary_failed, self.state.last_error) = (None, None);
                }
                said.say(format!("{} has written the summary", answer.by));
            }
            None => said.say("the checkpoint is made by code"),
        }
    }
}
