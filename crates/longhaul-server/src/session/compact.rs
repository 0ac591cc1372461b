//! One compaction: a model's summary if one is ready, the plan, the hook, the commit, the event.

use longhaul_engine::cost::LastCompaction;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{
    CountFacts, Handles, Keep, Outcome, Plan, Report, StateReport, Trigger, Wish, WrittenBy,
};
use longhaul_engine::redact::Redacted;
use longhaul_engine::summary::Answer;
use longhaul_engine::{Tokens, Transcript};

use super::background::Basis;
use super::command::Preview;
use super::due::{Cause, Need};
use super::hooks::{self, Compacted, Going};
use super::recorder::Kept;
use super::scene::{Request, Scene, Wanted, hash, prompts, replayed};
use super::turn::Said;
use super::{Session, breaker, said as words};
use crate::agents::Moment;
use crate::store::StoreError;

/// Two compactions with at most so many requests from one to the next are close.
const CLOSE_REQUESTS: usize = 3;
/// After so many close ones in a row the session is said to be compacted nearly every request.
const CLOSE_COMPACTIONS: u32 = 3;

/// What came of it.
pub(super) enum Compaction {
    /// Nothing new.
    Left { reason: String, report: Option<Report> },
    /// Somebody else's, of which this is the view.
    Overtaken { body: String },
    /// One that is only looked at.
    Planned(Outcome),
    /// One that is in force.
    Done(Outcome),
}

/// Why there is nothing new.
struct Nothing {
    reason: String,
    report: Option<Report>,
}

/// What is wanted beyond the policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Extra {
    pub(super) focus: Option<String>,
    keep_from: Option<usize>,
    preview: Preview,
    /// What the host wants kept.
    kept: Option<Redacted>,
}

impl Extra {
    pub(super) fn of(wanted: &Wanted, seen: &Transcript<'_>) -> Self {
        let Wanted::Compress(compress) = wanted else { return Self::default() };
        let keep_from = compress.here.and_then(|exchanges| newest(seen, exchanges));
        Self { focus: compress.focus.clone(), keep_from, preview: compress.preview, kept: None }
    }
}

/// The message with which so many newest exchanges begin: what a person said, and all that followed.
pub(super) fn newest(seen: &Transcript<'_>, exchanges: usize) -> Option<usize> {
    let first = prompts(seen).rev().take(exchanges.max(1)).last()?;
    first.owns.iter().filter_map(|id| seen.message_of(*id)).min()
}

/// Whether a compaction at the threshold saves enough; nearer to the window anything does.
fn is_worth_its_cache(scene: Scene<'_, '_>, report: &Report) -> bool {
    let is_forced = scene.size.measured.tokens >= scene.request.policy.safety;
    is_forced || StateReport::after(0, report.ratio).ineffective_in_a_row == 0
}

impl Session {
    pub(super) async fn compact(
        &mut self,
        scene: Scene<'_, '_>,
        cause: &Cause,
        extra: &Extra,
        said: &mut Said<'_>,
    ) -> Compaction {
        let Scene { request, size, now, .. } = scene;
        let left = |reason: String| Compaction::Left { reason, report: None };
        let is_due = cause.need == Need::Due && extra.preview == Preview::No;
        if cause.need == Need::IfItPays && !self.could_pay(scene) {
            return left(self.waits(scene));
        }
        if is_due {
            said.say(words::begins(&size.measured, &request.policy, &cause.reason));
            self.await_summary(scene, cause, extra, said).await;
        }
        let (mut base, mut summary) = self.basis(request.transcript, cause, extra);
        let mut planned = self.plan(scene, cause, extra, &base, summary.clone());
        if planned.is_err() && base != self.ledger {
            // Nothing comes of the summary that was late: it goes on without.
            self.prepared.used();
            (base, summary) = (self.ledger.clone(), None);
            planned = self.plan(scene, cause, extra, &base, None);
        }
        let mut outcome = match planned {
            Ok(outcome) => outcome,
            Err(nothing) => {
                let Nothing { reason, report } = *nothing;
                if is_due && cause.is_automatic() {
                    self.tried(scene, size.count.tokens, report.as_ref(), said);
                }
                if cause.need == Need::IfItPays {
                    self.waits(scene);
                }
                return Compaction::Left { reason, report };
            }
        };
        if cause.spares_cache() && !is_worth_its_cache(scene, &outcome.report) {
            self.tried(scene, outcome.report.tokens.after, Some(&outcome.report), said);
            let reason = "it would save under a tenth, which is not worth what is cached".to_owned();
            return Compaction::Left { reason, report: Some(outcome.report) };
        }
        if self.state.refused_rewrites.contains(&hash(&outcome.ledger)) {
            return left("the provider refused this very rewrite before".to_owned());
        }
        if cause.need == Need::IfItPays && !self.pays(scene, &outcome.report) {
            return left(self.waits(scene));
        }
        if extra.preview == Preview::Yes {
            said.say(format!("a preview: {}", self.done_line(scene, &outcome.report)));
            return Compaction::Planned(outcome);
        }
        if cause.need == Need::IfItPays {
            said.say(words::begins(&size.measured, &request.policy, &cause.reason));
        }
        let kept = self.show_going(request, &outcome);
        if kept.is_some()
            && let Ok(with_it) = self.plan(scene, cause, &Extra { kept, ..extra.clone() }, &base, summary)
        {
            outcome = with_it;
            outcome.report.notes.push("the checkpoint quotes what the host handed in".to_owned());
        }
        let mut kept = self.commit(request.transcript, &outcome, now).await;
        if let Err(error) = &kept {
            // It is made once more, from memory: what leads to the store would lead nowhere.
            self.is_alone(error, said);
            outcome = match self.plan(scene, cause, extra, &base, None) {
                Ok(outcome) => outcome,
                Err(nothing) => return Compaction::Left { reason: nothing.reason, report: nothing.report },
            };
            kept = self.commit(request.transcript, &outcome, now).await;
        }
        match kept {
            Ok(Kept::Overtaken) => self.overtaken(request, now, said).await,
            Ok(Kept::Epoch(epoch)) => self.in_force(scene, cause, outcome, Some(epoch), said),
            Ok(Kept::Nowhere) => self.in_force(scene, cause, outcome, None, said),
            Err(error) => left(format!("the store did not keep the compaction: {error}")),
        }
    }

    /// A compaction is kept, and holds from now on.
    fn in_force(
        &mut self,
        scene: Scene<'_, '_>,
        cause: &Cause,
        mut outcome: Outcome,
        epoch: Option<usize>,
        said: &mut Said<'_>,
    ) -> Compaction {
        self.decided(outcome.ledger.clone());
        // What this compaction did not ask for is folded: it need not be remembered beyond the next.
        self.known.turn();
        self.not_before = Tokens::ZERO;
        let (before, left) = (scene.size.count.tokens, outcome.report.tokens.after);
        self.state.last = Some(LastCompaction { left, removed: before - left });
        self.state.is_undone = false;
        if let Some(line) = self.thrashing_line(scene, cause) {
            said.say(line);
        }
        let by = outcome.report.checkpoint.as_ref().map(|checkpoint| checkpoint.by);
        // Where pruning was enough, the summary is still to come.
        if by.is_some() && self.prepared.ready().is_some() {
            self.prepared.used();
            if by != Some(WrittenBy::Model) {
                said.say(
                    "the model's summary was not taken: it is not about what was folded, or did not hold",
                );
            }
        }
        if cause.is_automatic() {
            self.tried(scene, outcome.report.tokens.after, Some(&outcome.report), said);
        }
        if cause.trigger != Trigger::Manual {
            outcome.report.reason.clone_from(&cause.reason);
        }
        let fallback_used = by == Some(WrittenBy::Fallback);
        outcome.report.state = StateReport { fallback_used, ..self.state_report(scene.now) };
        said.say(self.done_line(scene, &outcome.report));
        if let Some(epoch) = epoch {
            let name = self.recorder.as_ref().and_then(super::Recorder::name);
            self.host.compacted(&Compacted::new(name, epoch, &outcome.report));
        }
        Compaction::Done(outcome)
    }

    /// What a compaction came to, by the same measure as what set it off.
    fn done_line(&self, scene: Scene<'_, '_>, report: &Report) -> String {
        let after = scene.size.scale(self.gauge.beside_next()).sent(report.tokens.after);
        words::done(scene.size.measured.tokens, after, report)
    }

    /// Counts compactions that follow one another closely. Where several do, this says so once, with what would help.
    fn thrashing_line(&mut self, scene: Scene<'_, '_>, cause: &Cause) -> Option<String> {
        let turns = self.state.cached.turns();
        let since = self.state.compacted_at.replace(turns).map(|before| turns.saturating_sub(before));
        let is_close = cause.is_automatic() && since.is_some_and(|since| since <= CLOSE_REQUESTS);
        self.state.close_in_a_row = if is_close { self.state.close_in_a_row + 1 } else { 0 };
        if self.state.close_in_a_row < CLOSE_COMPACTIONS || !self.told.insert("thrashing".to_owned()) {
            return None;
        }
        let (window, load) = (scene.request.policy.window, scene.load);
        let reply = if load.reply > Tokens::ZERO {
            format!(", and the reply may take {}", load.reply)
        } else {
            String::new()
        };
        Some(format!(
            "this session is compacted nearly every request: {} of the {window} tokens of its window always stay{reply}. A larger \
             window, fewer tools or shorter results would help",
            load.minimum
        ))
    }

    /// What the engine makes of it; where that is nothing new, why.
    fn plan(
        &mut self,
        scene: Scene<'_, '_>,
        cause: &Cause,
        extra: &Extra,
        base: &Ledger,
        summary: Option<Answer>,
    ) -> Result<Outcome, Box<Nothing>> {
        let Scene { request, size, .. } = scene;
        let policy = match cause.need {
            Need::Due => request.policy.clone(),
            Need::IfItPays => request.policy.early(size.count.tokens),
        };
        let wish = Wish { summary, ..self.wish(cause, extra) };
        let plan = request.engine.plan(&policy, &wish, base, &mut self.known, request.transcript);
        let nothing =
            |report: Report| Box::new(Nothing { reason: report.reason.clone(), report: Some(report) });
        match plan {
            // Decisions of which nothing new came are not gone back to.
            Ok(Plan::Ready(mut outcome)) if outcome.ledger != self.ledger && outcome.ledger != *base => {
                outcome.ledger.epoch = self.ledger.epoch + 1;
                Ok(outcome)
            }
            Ok(Plan::Leave(report) | Plan::Ready(Outcome { report, .. })) => Err(nothing(report)),
            Err(error) => {
                let reason = format!("a compaction could not be written: {error}");
                Err(Box::new(Nothing { reason, report: None }))
            }
        }
    }

    /// What is wanted of a compaction of this session.
    pub(super) fn wish(&self, cause: &Cause, extra: &Extra) -> Wish {
        let key = self.key();
        let keep = match (&self.recorder, &key) {
            (Some(_), Some(key)) if self.is_recorded => Keep::Originals(Handles::new(key.clone())),
            _ => Keep::Nothing,
        };
        Wish {
            trigger: cause.trigger,
            force: true,
            to_tokens: cause.to_tokens,
            focus: extra.focus.clone(),
            keep,
            session: self.recorder.as_ref().and_then(super::Recorder::name),
            facts: CountFacts::No,
            rules: self.settings.rules.clone(),
            key,
            checkpoints: self.checkpoints.clone(),
            keep_from: extra.keep_from,
            kept: extra.kept.clone(),
            summary: None,
            stop: self.stop.clone(),
        }
    }

    /// The decisions that a compaction goes on from, and the summary for it. A summary that came too late for the last compaction is
    /// about the view before that, in which its units still stand; what somebody points at stands in the newest, so that it does not
    /// serve who asks for a compaction.
    fn basis(&self, transcript: &Transcript<'_>, cause: &Cause, extra: &Extra) -> (Ledger, Option<Answer>) {
        let serves = |basis: &Basis| {
            let holds = basis.ledger.is_empty() || basis.ledger.matches(transcript);
            let is_late = basis.ledger != self.ledger;
            basis.focus == extra.focus && (!is_late || (holds && cause.is_automatic()))
        };
        match self.prepared.ready().filter(|ready| serves(&ready.basis)) {
            Some(ready) => (ready.basis.ledger.clone(), Some(ready.answer.clone())),
            None => (self.ledger.clone(), None),
        }
    }

    /// Shows the host what goes, and gives what it hands in to be kept.
    fn show_going(&self, request: &Request<'_, '_>, outcome: &Outcome) -> Option<Redacted> {
        let transcript = request.transcript;
        let text = self.host.going(&Going::between(&self.ledger, &outcome.ledger, transcript))?;
        hooks::kept(&text, &self.settings.rules, self.key().as_ref())
    }

    async fn commit(
        &mut self,
        transcript: &Transcript<'_>,
        outcome: &Outcome,
        now: Moment,
    ) -> Result<Kept, StoreError> {
        match &mut self.recorder {
            Some(recorder) if self.is_recorded => {
                recorder.commit(transcript, outcome, &self.settings.rules, now).await
            }
            Some(recorder) => {
                recorder.hold(outcome);
                Ok(Kept::Epoch(outcome.ledger.epoch as usize))
            }
            None => Ok(Kept::Epoch(outcome.ledger.epoch as usize)),
        }
    }

    async fn overtaken(&mut self, request: &Request<'_, '_>, now: Moment, said: &mut Said<'_>) -> Compaction {
        let transcript = request.transcript;
        if let Some(recorder) = &mut self.recorder {
            match recorder.record(transcript, request.chain, &self.settings.rules, now).await {
                Ok(found) => self.decided(found.ledger.unwrap_or_default()),
                Err(error) => said.say(format!("the store did not record the request: {error}")),
            }
        }
        match replayed(&self.ledger, transcript) {
            Ok(body) => Compaction::Overtaken { body: body.into_owned() },
            Err(error) => Compaction::Left { reason: error.to_string(), report: None },
        }
    }

    /// A compaction of its own accord was tried.
    fn tried(&mut self, scene: Scene<'_, '_>, after: Tokens, report: Option<&Report>, said: &mut Said<'_>) {
        let Scene { request, size, now, .. } = scene;
        let checkpoint =
            report.and_then(|report| report.checkpoint.as_ref()).map_or(Tokens::ZERO, |made| made.tokens);
        let floor = report.map_or(Tokens::ZERO, |report| report.tokens.floor);
        let outcome = breaker::Outcome { before: size.count.tokens, after, checkpoint, floor };
        let (most, window) = (self.settings.limits.an_hour, request.policy.window);
        if let Some(pause) = self.state.breaker.tried(outcome, most, window, now) {
            said.say(pause.to_string());
        }
    }

    /// How the session's compactions are going.
    fn state_report(&self, now: Moment) -> StateReport {
        let state = &self.state;
        StateReport {
            fallback_used: false,
            last_error: state.last_error.clone(),
            auxiliary_failed: state.auxiliary_failed.clone(),
            ineffective_in_a_row: state.breaker.in_vain(),
            paused_until: state.breaker.paused().map(|pause| pause.until().to_string()),
            cooldown_seconds: state.cooldowns.longest(now).as_secs(),
        }
    }
}
