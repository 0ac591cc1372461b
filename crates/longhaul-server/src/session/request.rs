//! One request on its way: read, recorded, replayed, measured; then left or compacted.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Outcome, Trigger};
use longhaul_engine::policy::Policy;
use longhaul_engine::{Transcript, wire};

use super::compact::{Compaction, Extra};
use super::due::{Cause, Need, Standing, Verdict};
use super::gauge::{Count, Gauge};
use super::recorder::Stood;
use super::scene::{Request, Scene, Size, Wanted, hash, prompts, replayed, replayed_on};
use super::turn::{Action, Said, Sizes, Turn};
use super::{Incoming, Recorder, Sent, Session, windows};
use crate::agents::Moment;

/// A last touch of what is sent, by whoever sends it.
pub type Touch<'t> = dyn FnMut(&Session, &Transcript<'_>, &Policy) -> Option<String> + Send + 't;

/// How a request stands to what came before it.
#[derive(Debug, Clone, Copy, Default)]
struct Recalled {
    /// Whether a compaction was taken back, and nobody has said anything since.
    held: bool,
    /// Whether it goes on from the request before it, with nothing decided in between.
    goes_on: bool,
}

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
    /// [`write`](Self::write). What is sent can be given a last touch that says nothing else.
    pub async fn before_read<'b>(
        &mut self,
        incoming: &Incoming<'b>,
        now: Moment,
        touch: &mut Touch<'_>,
    ) -> Turn<'b> {
        self.settle(incoming, &Wanted::Send, now, touch).await
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
            Ok(incoming) => self.settle(&incoming, wanted, now, &mut |_, _, _| None).await,
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
        touch: &mut Touch<'_>,
    ) -> Turn<'b> {
        let host = Arc::clone(&self.host);
        let mut said = Said::to(&*host);
        self.collect(Duration::ZERO, now, &mut said).await;
        let request = match self.open(incoming, now, &mut said).await {
            Ok(request) => request,
            Err(problem) => return Turn::as_it_came(incoming.transcript.body, &problem, &mut said),
        };
        let turn = self.decide(request, wanted, now, touch, &mut said).await;
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
        let Recalled { held, goes_on } = self.record(incoming, now, said).await;
        let learned = self.learned.get(&self.model).cloned().unwrap_or_default();
        let policy = windows::policy(&self.settings.config, &self.model, &learned)
            .map_err(|error| error.to_string())?;
        self.introduce(&policy, &learned, said);
        let is_about_it = goes_on && self.replayed == Some(self.view);
        let replay = if is_about_it { replayed_on } else { replayed };
        let view = replay(&self.ledger, transcript).map_err(|error| error.to_string())?;
        self.replayed = matches!(view, Cow::Owned(_)).then_some(self.view);
        let engine = self.settings.engines.of(&policy.engine);
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

    /// Records a request, and takes over what the store knows of it.
    async fn record(&mut self, incoming: &Incoming<'_>, now: Moment, said: &mut Said<'_>) -> Recalled {
        let Some(recorder) = &mut self.recorder else { return Recalled::default() };
        let Incoming { transcript, chain } = incoming;
        let found = recorder.record(transcript, chain, &self.settings.rules, now).await;
        self.is_recorded = found.is_ok();
        match found {
            Ok(found) => {
                match found.stood {
                    Stood::AtHand => {}
                    Stood::Kept(state) => self.state = *state,
                    Stood::New => self.state = self.state.for_another(),
                }
                let is_forgotten = found.epoch.is_some() && found.epoch == self.state.forgotten;
                let goes_on = found.ledger.is_none();
                if let Some(ledger) = found.ledger {
                    self.decided(if is_forgotten { Ledger::default() } else { ledger });
                }
                let prompts = prompts(transcript).count();
                let since = found.held.then(|| self.state.held_at.unwrap_or(prompts));
                self.state.held_at = since;
                Recalled { held: since.is_some_and(|since| prompts <= since), goes_on }
            }
            Err(error) => {
                said.say(format!("the store did not record the request: {error}"));
                Recalled::default()
            }
        }
    }

    /// What is to be known of a model before its first request.
    fn introduce(&mut self, policy: &Policy, learned: &windows::Learned, said: &mut Said<'_>) {
        let missing = self.settings.engines.missing(&policy.engine);
        let missing = missing.map(|missing| format!("{missing}; compressor takes its place"));
        let lines = windows::assumption(policy, learned).into_iter().chain(self.summarizer_line(policy));
        let lines = lines.chain(missing);
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
        touch: &mut Touch<'_>,
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
        let whole = match (&request.view, self.whole) {
            (Cow::Borrowed(_), _) => count.tokens,
            // What the view has grown by, the whole has.
            (Cow::Owned(_), Some((before, view))) if view.is_of(&count) => {
                before + (count.tokens - view.tokens)
            }
            (Cow::Owned(_), _) => self.count(&request, request.transcript).tokens,
        };
        self.whole = Some((whole, sent));
        let touched = match &compaction {
            Compaction::Left { .. } => touch(self, seen, &request.policy),
            Compaction::Overtaken { body } | Compaction::Done(Outcome { body, .. }) => {
                let (dialect, policy) = (request.transcript.dialect, &request.policy);
                wire::parse(dialect, body).ok().and_then(|(sent, _)| touch(self, &sent, policy))
            }
            Compaction::Planned(_) => None,
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
        if let Some(touched) = touched {
            turn.body = Cow::Owned(touched);
        }
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
        if let Wanted::Compress(compress) = wanted {
            let reason = format!("asked for at {} tokens", measured.tokens);
            let to_tokens = compress.to_tokens;
            return Verdict::Compact(Cause { to_tokens, ..Cause::due(Trigger::Manual, reason) });
        }
        let standing = Standing {
            settings: &self.settings,
            policy: &request.policy,
            engine: &*request.engine,
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
            Action::Replayed | Action::Compacted => Sent::Rewritten(self.hash()),
        };
        (self.retry, self.at_threshold) = (None, Trigger::Preflight);
        self.gauge.sent(count);
        self.state.cached.sent(count.tokens, policy, now);
    }

    /// What the decisions in force are known by.
    fn hash(&mut self) -> u64 {
        match self.hashed {
            Some((view, hash)) if view == self.view => hash,
            _ => {
                let hash = hash(&self.ledger);
                self.hashed = Some((self.view, hash));
                hash
            }
        }
    }

    pub(super) async fn keep_state(&mut self) -> crate::store::Result<()> {
        match &mut self.recorder {
            Some(recorder) => recorder.keep_state(&self.state).await,
            None => Ok(()),
        }
    }
}
