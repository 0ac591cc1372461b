//! One request on its way: read, recorded, replayed, measured; then left or compacted.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{self, Trigger};
use longhaul_engine::policy::Policy;
use longhaul_engine::{Transcript, wire};

use super::compact::{Compaction, Extra};
use super::due::{Cause, Need, Standing, Verdict};
use super::gauge::{Count, Gauge};
use super::recorder::Stood;
use super::scene::{Request, Scene, Size, Wanted, hash, prompts, replayed};
use super::turn::{Action, Said, Sizes, Turn};
use super::{Incoming, Recorder, Sent, Session, windows};
use crate::agents::Moment;

impl Session {
    /// A request is about to be sent: the body to send in its place, which may be the same. It never fails; what cannot be read is
    /// handed back.
    pub async fn before<'b>(&mut self, body: &'b str, now: Moment) -> Turn<'b> {
        self.read_and_settle(body, &Wanted::Send, now).await
    }

    /// Nobody waits at the moment. Where the cache has gone cold, compacting costs nothing, and is done now.
    pub async fn idle<'b>(&mut self, body: &'b str, now: Moment) -> Turn<'b> {
        self.read_and_settle(body, &Wanted::Idle, now).await
    }

    /// The same for a request that was read already, with nothing written that can wait until the request is on its way: see
    /// [`write`](Self::write).
    pub async fn before_read<'b>(&mut self, incoming: &Incoming<'b>, now: Moment) -> Turn<'b> {
        self.settle(incoming, &Wanted::Send, now).await
    }

    /// Writes what has waited: the newest messages, and how the session stands. What could not be written is said, and comes again
    /// with the next request.
    pub async fn write(&mut self) -> Vec<String> {
        let host = Arc::clone(&self.host);
        let mut said = Said::to(&*host);
        self.write_to(&mut said).await;
        said.lines
    }

    async fn write_to(&mut self, said: &mut Said<'_>) {
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.flush().await
        {
            said.say(format!("the store did not record the request: {error}"));
        }
        if let Err(error) = self.keep_state().await {
            said.say(format!("the store did not keep how the session stands: {error}"));
        }
    }

    pub(super) async fn read_and_settle<'b>(
        &mut self,
        body: &'b str,
        wanted: &Wanted,
        now: Moment,
    ) -> Turn<'b> {
        let tenant = self.recorder.as_ref().map(Recorder::tenant);
        let mut turn = match Incoming::read(None, body, tenant) {
            Ok(incoming) => self.settle(&incoming, wanted, now).await,
            Err(problem) => {
                let host = Arc::clone(&self.host);
                Turn::as_it_came(body, &problem, &mut Said::to(&*host))
            }
        };
        turn.said.extend(self.write().await);
        turn
    }

    pub(super) async fn settle<'b>(
        &mut self,
        incoming: &Incoming<'b>,
        wanted: &Wanted,
        now: Moment,
    ) -> Turn<'b> {
        let host = Arc::clone(&self.host);
        let mut said = Said::to(&*host);
        self.collect(Duration::ZERO, now, &mut said).await;
        let request = match self.open(incoming, now, &mut said).await {
            Ok(request) => request,
            Err(problem) => return Turn::as_it_came(incoming.transcript.body, &problem, &mut said),
        };
        let turn = self.decide(request, wanted, now, &mut said).await;
        Turn { said: said.lines, ..turn }
    }

    /// Takes a request up, records it, and replays what was decided about it.
    async fn open<'r, 'b>(
        &mut self,
        incoming: &'r Incoming<'b>,
        now: Moment,
        said: &mut Said<'_>,
    ) -> Result<Request<'r, 'b>, String> {
        let Incoming { transcript, chain } = incoming;
        let named = transcript.model.as_deref().unwrap_or(&self.settings.model).to_owned();
        self.turn_to(&named, said).await;
        let held = self.record(incoming, now, said).await;
        let learned = self.learned.get(&self.model).cloned().unwrap_or_default();
        let policy = windows::policy(&self.settings.config, &self.model, &learned)
            .map_err(|error| error.to_string())?;
        self.introduce(&policy, &learned, said);
        let view = replayed(&self.ledger, transcript).map_err(|error| error.to_string())?;
        let engine = plan::engine(policy.engine);
        Ok(Request { transcript, chain, policy, engine, view, held })
    }

    /// The session goes on with a model: with another, what was counted and cached says nothing any more.
    async fn turn_to(&mut self, model: &str, said: &mut Said<'_>) {
        if self.model == model {
            return;
        }
        if !self.model.is_empty() {
            said.say(format!("the session goes on with {model} instead of {}", self.model));
            self.gauge = Gauge::default();
            self.state.cached.forget();
        }
        model.clone_into(&mut self.model);
        if let Some(recorder) = &self.recorder
            && !self.learned.contains_key(model)
        {
            match recorder.learned(model).await {
                Ok(learned) => drop(self.learned.insert(model.to_owned(), learned.unwrap_or_default())),
                Err(error) => {
                    said.say(format!("the store does not say what was learned of {model}: {error}"));
                }
            }
        }
    }

    /// Records a request, and takes over what the store knows of it. Whether a compaction was taken back, and nobody has said anything
    /// since.
    async fn record(&mut self, incoming: &Incoming<'_>, now: Moment, said: &mut Said<'_>) -> bool {
        let Some(recorder) = &mut self.recorder else { return false };
        let Incoming { transcript, chain } = incoming;
        match recorder.record(transcript, chain, &self.settings.rules, now).await {
            Ok(found) => {
                match found.stood {
                    Stood::AtHand => {}
                    Stood::Kept(state) => self.state = *state,
                    Stood::New => self.state = self.state.for_another(),
                }
                let is_forgotten = found.epoch.is_some() && found.epoch == self.state.forgotten;
                self.decided(if is_forgotten { Ledger::default() } else { found.ledger });
                let prompts = prompts(transcript).count();
                let since = found.held.then(|| self.state.held_at.unwrap_or(prompts));
                self.state.held_at = since;
                since.is_some_and(|since| prompts <= since)
            }
            Err(error) => {
                said.say(format!("the store did not record the request: {error}"));
                false
            }
        }
    }

    /// What is to be known of a model before its first request.
    fn introduce(&mut self, policy: &Policy, learned: &windows::Learned, said: &mut Said<'_>) {
        let lines = windows::assumption(policy, learned).into_iter().chain(self.summarizer_line(policy));
        for line in lines {
            if self.told.insert(line.clone()) {
                said.say(line);
            }
        }
    }

    async fn decide<'b>(
        &mut self,
        request: Request<'_, 'b>,
        wanted: &Wanted,
        now: Moment,
        said: &mut Said<'_>,
    ) -> Turn<'b> {
        let own;
        let seen = match &request.view {
            Cow::Borrowed(_) => request.transcript,
            Cow::Owned(view) => {
                own = wire::parse(request.transcript.dialect, view);
                own.as_ref().map_or(request.transcript, |(seen, _)| seen)
            }
        };
        let scene = Scene { request: &request, seen, size: self.measure(&request, seen), now };
        let Size { count, measured } = scene.size;
        let threshold = request.engine.starts_at(&request.policy);
        if let Some(line) = self.state.pressure.of(measured.tokens, threshold) {
            said.say(line);
        }
        self.prepared.keep_only_for(request.transcript);
        let compaction = match self.verdict(scene, wanted) {
            Verdict::Leave(reason) => Compaction::Left { reason, report: None },
            Verdict::Compact(cause) => {
                let extra = Extra::of(wanted, seen);
                self.compact(scene, &cause, &extra, said).await
            }
        };
        if *wanted == Wanted::Send && matches!(compaction, Compaction::Left { .. }) {
            self.begin_early(scene, said);
        }
        let sent = match &compaction {
            Compaction::Left { .. } | Compaction::Planned(_) => count,
            Compaction::Overtaken { body } => wire::parse(request.transcript.dialect, body)
                .map_or(count, |(other, _)| self.count(&request, &other)),
            Compaction::Done(outcome) => {
                Count { tokens: outcome.report.tokens.after, view: self.view, ..count }
            }
        };
        let whole = match &request.view {
            Cow::Borrowed(_) => count.tokens,
            Cow::Owned(_) => self.count(&request, request.transcript).tokens,
        };
        let Request { view, policy, .. } = request;
        let mut turn = match compaction {
            Compaction::Left { reason, report } => {
                if let Wanted::Compress(_) = wanted {
                    said.say(format!("nothing changed: {reason}"));
                }
                let action = if matches!(view, Cow::Owned(_)) { Action::Replayed } else { Action::None };
                Turn::new(view, action, reason, report, measured)
            }
            Compaction::Overtaken { body } => {
                let reason = "another compaction of the session was faster; its view is used".to_owned();
                Turn::new(Cow::Owned(body), Action::Replayed, reason, None, measured)
            }
            Compaction::Planned(outcome) => {
                let reason = "a preview: nothing was changed".to_owned();
                Turn::new(Cow::Owned(outcome.body), Action::None, reason, Some(outcome.report), measured)
            }
            Compaction::Done(outcome) => {
                let reason = outcome.report.reason.clone();
                Turn::new(Cow::Owned(outcome.body), Action::Compacted, reason, Some(outcome.report), measured)
            }
        };
        turn.sizes = Some(Sizes { whole, sent: sent.tokens });
        if *wanted == Wanted::Send {
            self.note_sent(&turn, sent, &policy, now);
        }
        turn
    }

    fn count(&mut self, request: &Request<'_, '_>, seen: &Transcript<'_>) -> Count {
        let calibration = self.learned.entry(self.model.clone()).or_default().calibration;
        let tokens = request.engine.look(&request.policy, &mut self.known, seen);
        let factor = if calibration.is_learned() { calibration.factor() } else { 1.0 };
        Count { tokens, factor, view: self.view }
    }

    fn measure(&mut self, request: &Request<'_, '_>, seen: &Transcript<'_>) -> Size {
        let count = self.count(request, seen);
        let calibration = self.learned.entry(self.model.clone()).or_default().calibration;
        Size { count, measured: self.gauge.measure(count, &calibration) }
    }

    fn verdict(&self, scene: Scene<'_, '_>, wanted: &Wanted) -> Verdict {
        let Scene { request, seen, now, size: Size { measured, .. } } = scene;
        if let Wanted::Compress(_) = wanted {
            let reason = format!("asked for at {} tokens", measured.tokens);
            return Verdict::Compact(Cause::due(Trigger::Manual, reason));
        }
        let standing = Standing {
            settings: &self.settings,
            policy: &request.policy,
            engine: request.engine,
            breaker: &self.state.breaker,
            measured,
            view: seen,
            refused: self.retry,
            at_threshold: self.at_threshold,
            left: self.state.left,
            held: request.held,
            lapsed: self.state.cached.lapsed(now),
            now,
        };
        match (standing.verdict(), wanted) {
            (Verdict::Compact(Cause { need: Need::IfItPays, .. }), _)
                if measured.tokens < self.not_before =>
            {
                Verdict::Leave(format!("it would not pay at {} tokens", measured.tokens))
            }
            (Verdict::Compact(_), Wanted::Idle) if !standing.lapsed => {
                Verdict::Leave("the cache is still warm".to_owned())
            }
            (verdict, _) => verdict,
        }
    }

    fn note_sent(&mut self, turn: &Turn<'_>, count: Count, policy: &Policy, now: Moment) {
        self.sent = match turn.action {
            Action::None => Sent::Original,
            Action::Replayed | Action::Compacted => Sent::Rewritten(hash(&self.ledger)),
        };
        (self.retry, self.at_threshold) = (None, Trigger::Preflight);
        self.gauge.sent(count);
        self.state.cached.sent(count.tokens, policy, now);
    }

    pub(super) async fn keep_state(&mut self) -> crate::store::Result<()> {
        match &mut self.recorder {
            Some(recorder) => recorder.keep_state(&self.state).await,
            None => Ok(()),
        }
    }
}
