//! One request on its way: read, recorded, replayed, measured; then left or compacted.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::cost::CacheState;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{self, Load, Outcome, Trigger};
use longhaul_engine::policy::Policy;
use longhaul_engine::{Tokens, Transcript, wire};
use tokio::task::yield_now;

use super::compact::{Compaction, Extra};
use super::due::{Cause, Need, Standing, Verdict, in_loop};
use super::gauge::{Count, Gauge};
use super::recorder::Stood;
use super::scene::{Request, Scene, Size, Wanted, hash, replayed, replayed_on};
use super::turn::{Action, Context, Said, Turn};
use super::{Incoming, Recorder, Sent, Session, windows};
use crate::agents::Moment;
use crate::store::StoreError;

/// From this share of an engine's own threshold on the minimum size is counted: pressure is told and summaries are begun near it.
const NEAR_THRESHOLD: f64 = 0.5;

/// A last touch of what is sent, by whoever sends it.
pub type Touch<'t> = dyn FnMut(&Session, &Transcript<'_>, &Policy) -> Option<String> + Send + 't;

/// How a request stands to what came before it.
#[derive(Debug, Clone, Copy, Default)]
struct Recalled {
    /// Whether the user has undone a compaction and asked for none since.
    is_undone: bool,
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
        if self.trouble.is_some() {
            return;
        }
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.flush().await
        {
            self.is_alone(&error, said);
        } else if let Err(error) = self.keep_state().await {
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
        // Between two heavy steps others have their turn, and a request that nobody waits for any more ends.
        yield_now().await;
        // On the heap: the state of a decision is large, and everybody who awaits a session would carry it.
        let turn = Box::pin(self.decide(request, wanted, now, touch, &mut said)).await;
        Turn { said: said.lines, ..turn }
    }

    /// Takes a request up, records it, and replays what was decided about it.
    async fn open<'r, 'b>(
        &mut self,
        incoming: &'r Incoming<'b>,
        now: Moment,
        said: &mut Said<'_>,
    ) -> Result<Request<'r, 'b>, String> {
        let Incoming { transcript, chain, .. } = incoming;
        let named = transcript.model.as_deref().unwrap_or(&self.settings.model).to_owned();
        self.turn_to(&named, said).await;
        let Recalled { is_undone, goes_on } = self.record(incoming, now, said).await;
        let learned = self.learned.get(&self.model).cloned().unwrap_or_default();
        let mut policy = windows::policy(&self.settings.config, &self.model, &learned)
            .map_err(|error| error.to_string())?;
        policy.safety = policy.window.share(self.settings.hygiene);
        self.introduce(&policy, &learned, said);
        let is_about_it = goes_on && self.replayed == Some(self.view);
        let replay = if is_about_it { replayed_on } else { replayed };
        let view = if self.is_suspect() {
            Cow::Borrowed(transcript.body)
        } else {
            replay(&self.ledger, transcript).map_err(|error| error.to_string())?
        };
        self.replayed = matches!(view, Cow::Owned(_)).then_some(self.view);
        let engine = self.settings.engines.of(&policy.engine);
        Ok(Request { transcript, chain, policy, engine, view, is_undone })
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
                Err(error) => self.is_alone(&error, said),
            }
        }
    }

    /// Records a request, and takes over what the store knows of it.
    async fn record(&mut self, incoming: &Incoming<'_>, now: Moment, said: &mut Said<'_>) -> Recalled {
        let Some(recorder) = &mut self.recorder else { return Recalled::default() };
        let Incoming { transcript, chain, .. } = incoming;
        let found = recorder.record(transcript, chain, &self.settings.rules, now).await;
        self.is_recorded = found.is_ok();
        match found {
            Ok(found) => {
                if self.trouble.take().is_some() {
                    said.say("the store answers again: the session is recorded from here on");
                }
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
                self.state.is_undone = found.held;
                Recalled { is_undone: found.held, goes_on }
            }
            Err(error) => {
                self.is_alone(&error, said);
                Recalled { is_undone: self.state.is_undone, goes_on: false }
            }
        }
    }

    /// The store does not keep what happens now: the session goes on from memory. That is said once.
    pub(super) fn is_alone(&mut self, error: &StoreError, said: &mut Said<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.is_alone();
        }
        self.is_recorded = false;
        if self.trouble.replace(error.clone()).is_none() {
            said.say(format!("the store is unavailable, so the session goes on from memory: {error}"));
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
        let view = request.parsed_view();
        let seen = view.as_ref().unwrap_or(request.transcript);
        let size = self.measure(&request, seen);
        let Size { count, measured } = size;
        let load = self.load(&request, seen, measured.tokens);
        let threshold = load.threshold(request.engine.starts_at(&request.policy), &request.policy);
        self.threshold = threshold;
        let scene = Scene { request: &request, load, threshold, seen, size, now };
        let pressure = self.state.pressure.of(measured.tokens, threshold);
        for line in self.fixed_threshold_line(scene).into_iter().chain(pressure) {
            said.say(line);
        }
        self.prepared.keep_only_for(request.transcript);
        yield_now().await;
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
        let whole = self.whole(&request, count);
        self.whole = Some((whole, sent));
        let sizes = size.scale(self.gauge.beside_next()).sizes(whole, sent.tokens);
        yield_now().await;
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
        turn.sizes = Some(sizes);
        if let Some(touched) = touched {
            turn.body = Cow::Owned(touched);
        }
        if *wanted == Wanted::Send {
            self.note_sent(&turn, sent, &policy, now);
        }
        turn
    }

    /// How full the window is: what the newest request of this history would come to, by the same measure as when it is sent.
    ///
    /// # Errors
    /// A request that cannot be read, or a configuration that cannot be used.
    pub async fn context(&mut self, incoming: &Incoming<'_>, now: Moment) -> Result<Context, String> {
        let host = Arc::clone(&self.host);
        let mut said = Said::to(&*host);
        let request = self.open(incoming, now, &mut said).await?;
        let view = request.parsed_view();
        let seen = view.as_ref().unwrap_or(request.transcript);
        let size = self.measure(&request, seen);
        let load = self.load(&request, seen, size.measured.tokens);
        let threshold = load.threshold(request.engine.starts_at(&request.policy), &request.policy);
        let whole = self.whole(&request, size.count);
        let sizes = size.scale(self.gauge.beside_next()).sizes(whole, size.count.tokens);
        Ok(Context { sizes, by: size.measured.by, window: request.policy.window, threshold })
    }

    /// Our count of all that the client sent, for a view that counts so much.
    fn whole(&mut self, request: &Request<'_, '_>, count: Count) -> Tokens {
        match (&request.view, self.whole) {
            (Cow::Borrowed(_), _) => count.tokens,
            // What the view has grown by, the whole has.
            (Cow::Owned(_), Some((before, view))) if view.is_of(&count) => {
                before + (count.tokens - view.tokens)
            }
            (Cow::Owned(_), _) => self.count(request, request.transcript).tokens,
        }
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

    /// Whether the decisions in force were refused, and the original is tried in their place.
    fn is_suspect(&mut self) -> bool {
        self.suspect.is_some_and(|suspect| suspect == self.hash())
    }

    /// What the triggers go by. The minimum size matters only near the threshold, so that small requests are spared the count.
    fn load(&mut self, request: &Request<'_, '_>, seen: &Transcript<'_>, tokens: Tokens) -> Load {
        let policy = &request.policy;
        let is_near = tokens >= request.engine.starts_at(policy).share(NEAR_THRESHOLD);
        let minimum = if is_near { plan::minimum_size(policy, &mut self.known, seen) } else { Tokens::ZERO };
        let (reply, bytes) = (policy.reply_room(seen.longest_reply), seen.body.len());
        Load { tokens, reply, minimum, bytes, in_loop: in_loop(policy, seen) }
    }

    /// A warning, once, where a threshold that the user set in tokens leaves a session hardly any room to grow.
    fn fixed_threshold_line(&mut self, scene: Scene<'_, '_>) -> Option<String> {
        let Scene { request: Request { policy, .. }, load, threshold, .. } = scene;
        let least = policy.least_threshold(load.minimum, load.reply);
        if !policy.is_threshold_fixed || least <= threshold || load.minimum == Tokens::ZERO {
            return None;
        }
        let line = format!(
            "threshold_tokens of {threshold} is close to the minimum size of this session, so that it is compacted often; without it the \
             threshold would be {least}"
        );
        self.told.insert("threshold_tokens".to_owned()).then_some(line)
    }

    fn verdict(&mut self, scene: Scene<'_, '_>, wanted: &Wanted) -> Verdict {
        let Scene { request, load, threshold, seen, now, size: Size { measured, .. } } = scene;
        if self.is_suspect() && *wanted == Wanted::Send {
            return Verdict::Leave("the provider refused this very rewrite before".to_owned());
        }
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
            load,
            threshold,
            messages: seen.message_count(),
            refused: self.retry,
            at_threshold: self.at_threshold,
            last: self.state.last,
            is_undone: request.is_undone,
            cache: self.state.cached.state(now),
            now,
        };
        match (standing.verdict(), wanted) {
            (Verdict::Compact(Cause { need: Need::IfItPays, .. }), _)
                if measured.tokens < self.not_before =>
            {
                Verdict::Leave(format!("it would not pay at {} tokens", measured.tokens))
            }
            (Verdict::Compact(_), Wanted::Idle) if standing.cache == CacheState::Kept => {
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
