//! One compaction: a body goes in, and everything that a call may want to write comes out.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::models::Model;
use longhaul_engine::plan::{Engine, Handles, Keep, Original, Outcome, Plan, Report, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::summary::Answer as Summary;
use longhaul_engine::{Tokens, Transcript};
use longhaul_server::session::UNDO_HOLDS;
use longhaul_server::store::At;
use serde::Serialize;

use super::asked::Asking;
use super::diff::Difference;
use super::recorded::{self, History, Recording, Settled, Whose};
use crate::body::{self, Body};
use crate::cli::{self, CompressArgs};
use crate::config::{self, Environment, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::folding::{self, Folding};
use crate::originals::{self, Secrets};
use crate::store::{self, Whereabouts};
use crate::summarizer::{self, Summarizer, Telling};

/// What a call says about each of its bodies.
pub(super) struct Call<'a> {
    pub(super) args: &'a CompressArgs,
    environment: &'a Environment,
    /// The configuration.
    files: config::Files,
    /// Where what is removed is kept.
    pub(super) originals: Option<(&'a Path, Secrets)>,
    /// The store in its place.
    pub(super) recording: Option<Recording>,
    /// The engines there are.
    available: Available,
    /// What somebody wrote about what goes.
    summary: Option<Summary>,
    /// The model that is asked for that, where one is wanted and configured.
    pub(super) summarizer: Option<Summarizer>,
}

/// What a worker remembers from body to body.
#[derive(Default)]
pub(super) struct Memory {
    known: Known,
    policies: BTreeMap<String, Prepared>,
}

impl Memory {
    /// For a body that has all cores to itself.
    pub(super) fn for_one_body() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { known: Known::default().on_threads(threads), ..Self::default() }
    }
}

/// The policy for one model.
#[derive(Clone)]
struct Prepared {
    engine: Arc<dyn Engine>,
    policy: Policy,
    /// `compression.enabled`.
    enabled: bool,
    notes: Vec<String>,
    /// What counts as a secret: the user's own rules hold for all that is written.
    rules: Rules,
}

/// The report, with what only the caller knows.
#[derive(Serialize)]
pub(super) struct Answer {
    pub(super) body: String,
    /// Where it is kept, if the store has it.
    #[serde(flatten)]
    pub(super) whose: Option<Whose>,
    #[serde(flatten)]
    pub(super) report: Report,
    elapsed_ms: f64,
}

/// What one compaction gave.
pub(super) struct Done {
    pub(super) answer: Answer,
    pub(super) window: Tokens,
    /// Whether compaction is switched off, so that any size will do.
    rests: bool,
    /// The new body; nothing where the old one stays.
    pub(super) text: Option<String>,
    /// Rows for the file of originals.
    pub(super) originals: String,
    /// Whether what was decided before was only decided again.
    pub(super) is_replay: bool,
    /// What changed step by step, where somebody wants to see it.
    pub(super) difference: Option<Difference>,
}

impl Done {
    /// What is to be said of a result that is larger than it had to be.
    pub(super) fn shortfall(&self) -> Option<String> {
        let (body, report) = (&self.answer.body, &self.answer.report);
        if report.reached || self.rests {
            return None;
        }
        let tokens = &report.tokens;
        let over = if tokens.after > self.window {
            format!("the window of {}", self.window)
        } else {
            "the size that was asked for".to_owned()
        };
        let after = tokens.after;
        Some(format!("{body}: still {after} tokens, more than {over}; it is given all the same"))
    }
}

/// Any body is small enough for the largest size there is, and stays as it is.
const ANY_SIZE: Tokens = Tokens(u64::MAX);

impl<'a> Call<'a> {
    /// Reads the configuration, so that a mistake in it is said once and not for each body.
    pub(super) fn new(args: &'a CompressArgs, environment: &'a Environment) -> Result<Self, Failure> {
        let files = config::Files::read(args.told.place.config.as_deref(), environment)?;
        let kept = |file: &'a Option<PathBuf>, secrets| Some((file.as_deref()?, secrets));
        let originals = kept(&args.originals, Secrets::Out);
        let originals = originals.or_else(|| kept(&args.originals_raw, Secrets::AsTheyWere));
        let summary = args.summary.as_deref().map(folding::handed_in).transpose()?;
        let settings = Settings::from_layers(&files, environment, args.policy.flags("unknown"))?;
        let available = Available::new(&settings, environment, Waiting::User)?;
        let telling = if args.quiet { Telling::Nothing } else { Telling::Aloud };
        let summarizer = match args.summarizer {
            Some(cli::Summarizer::Auto) => Summarizer::new(&settings, environment, telling)?,
            Some(cli::Summarizer::None) | None => None,
        };
        let open = |typed: &String| {
            let whereabouts = Whereabouts::new(Some(typed), &settings.shell.store, environment)?;
            Recording::open(&whereabouts, args.is_preview())
        };
        let recording = args.told.place.store.as_ref().map(open).transpose()?;
        Ok(Self { args, environment, files, originals, recording, available, summary, summarizer })
    }

    /// Reads a body. What is recorded is what the client sent, and not what became of it.
    pub(super) fn read(&self, path: &Path) -> Result<Body, Failure> {
        match (store::named(path), &self.recording) {
            (Some(id), Some(_)) => {
                let body = Body::of_store(id, &self.args.told, At::Original)?;
                // A history is known by its words, and without some of them it is another one.
                if body.text.contains("[REDACTED:") {
                    return Err(Failure::Wrong(format!(
                        "session {id} holds marks in the place of secrets, so it cannot be recorded again; give the client's own body"
                    )));
                }
                Ok(body)
            }
            _ => Body::read(path, &self.args.told),
        }
    }

    /// Compacts one body.
    pub(super) fn compress(&self, memory: &mut Memory, body: &Body) -> Result<Done, Failure> {
        let start = Instant::now();
        let (transcript, notes) = body.parse(&self.args.told)?;
        let model = body::model(&self.args.told, &transcript);
        if !memory.policies.contains_key(&model.name) {
            memory.policies.insert(model.name.clone(), self.prepare(&model)?);
        }
        let prepared = &memory.policies[&model.name];
        let Prepared { engine, policy, notes: more, rules, .. } = prepared;
        folding::refuse_behind(self.args.wanted.keep_from, &transcript, &body.shown)?;
        let rests = self.rests(prepared);
        let (settled, removed) = match &self.recording {
            Some(recording) => {
                let mut asking = Asking::default();
                let plan = |history: &History| {
                    let folding = Folding {
                        engine: &**engine,
                        policy,
                        known: &mut memory.known,
                        transcript: &transcript,
                        ledger: &history.ledger,
                        shown: &body.shown,
                    };
                    self.go_on(prepared, folding, history, &mut asking)
                };
                (recorded::settle(recording, body.tenant(), &transcript, rules, plan)?, Vec::new())
            }
            None => self.by_itself(prepared, &mut memory.known, body, &transcript)?,
        };
        let Settled { mut report, text, whose, is_replay } = settled;
        if rests {
            let reason = "compression.enabled is false in the configuration; --force compacts all the same";
            report.reason = reason.into();
        }
        let after = text.as_deref().filter(|_| self.args.diff);
        let difference = after.map(|after| Difference::of(&transcript, after, &report));
        let originals = match self.originals.filter(|_| !self.args.is_preview()) {
            Some((_, secrets)) => originals::rows(removed, secrets, rules.clone())?,
            None => String::new(),
        };
        report.notes.extend(body::note_lines(&transcript, &notes));
        report.notes.extend(more.iter().cloned());
        let elapsed_ms = start.elapsed().as_secs_f64() * 1_000.0;
        let whose = self.recording.as_ref().map(|_| whose);
        let answer = Answer { body: body.shown.clone(), whose, report, elapsed_ms };
        Ok(Done { answer, window: policy.window, rests, text, originals, is_replay, difference })
    }

    /// Whether compaction is switched off.
    fn rests(&self, prepared: &Prepared) -> bool {
        !prepared.enabled && !self.args.wanted.force
    }

    /// What is wanted beyond the policy.
    fn wish(&self, prepared: &Prepared) -> Wish {
        let asked = self.args.wanted.to_tokens.map(Tokens);
        Wish {
            force: self.args.wanted.force,
            to_tokens: if self.rests(prepared) { Some(ANY_SIZE) } else { asked },
            focus: self.args.wanted.focus.clone(),
            rules: prepared.rules.clone(),
            keep_from: self.args.wanted.keep_from,
            summary: self.summary.clone(),
            ..Wish::default()
        }
    }

    /// A compaction of a body that nothing else is known of.
    fn by_itself(
        &self,
        prepared: &Prepared,
        known: &mut Known,
        body: &Body,
        transcript: &Transcript<'_>,
    ) -> Result<(Settled, Vec<Original>), Failure> {
        let key = || SessionKey::new(*blake3::hash(body.text.as_bytes()).as_bytes());
        let keep = self.originals.map_or(Keep::Nothing, |_| Keep::Originals(Handles::new(key())));
        let wish = Wish { keep, ..self.wish(prepared) };
        let (policy, shown, ledger) = (&prepared.policy, &body.shown, &Ledger::default());
        let engine = &*prepared.engine;
        let mut folding = Folding { engine, policy, known, transcript, ledger, shown };
        let (report, text, removed) = match self.plan(&mut folding, &wish, &mut Asking::default())? {
            Plan::Leave(report) => (report, None, Vec::new()),
            Plan::Ready(outcome) => (outcome.report, Some(outcome.body), outcome.originals),
        };
        Ok((Settled { report, text, whose: Whose::default(), is_replay: false }, removed))
    }

    /// A compaction that goes on from what was decided about a session.
    fn go_on(
        &self,
        prepared: &Prepared,
        mut folding: Folding<'_, '_>,
        history: &History,
        asking: &mut Asking,
    ) -> Result<Plan, Failure> {
        let (policy, wish) = (&prepared.policy, self.wish(prepared));
        let keep = Keep::Originals(Handles::new(history.key.clone()));
        let (key, session) = (Some(history.key.clone()), history.name.clone());
        let wish = Wish { keep, key, session, ..wish };
        if history.held && !wish.is_asked() {
            // Somebody took a compaction back: none is made while there is room without.
            let mut left = folding.plan(&Wish { to_tokens: Some(ANY_SIZE), ..wish.clone() })?;
            let (Plan::Leave(report) | Plan::Ready(Outcome { report, .. })) = &mut left;
            if report.tokens.after < policy.safety {
                report.reason = format!("a compaction of it was undone; {UNDO_HOLDS} (--force)");
                return Ok(left);
            }
        }
        self.plan(&mut folding, &wish, asking)
    }

    fn settings(&self, model: &str) -> Result<Settings, Failure> {
        Settings::from_layers(&self.files, self.environment, self.args.policy.flags(model))
    }

    fn prepare(&self, model: &Model) -> Result<Prepared, Failure> {
        let settings = self.settings(&model.name)?;
        let (policy, warnings) =
            Policy::new(&settings.engine, model).map_err(|invalid| settings.refused(&invalid))?;
        let mut notes = settings.note_lines(&warnings);
        if policy.model.is_assumed("window") {
            let window = policy.window;
            notes.push(format!("the window of {} is assumed to be {window} tokens", model.name));
        }
        if self.args.summarizer == Some(cli::Summarizer::Auto) && self.summarizer.is_none() {
            notes.push(summarizer::NONE.to_owned());
        }
        let rules = super::super::redact::rules(&settings)?;
        let engine = self.available.engines.of(&policy.engine);
        Ok(Prepared { engine, policy, enabled: settings.shell.compression.enabled, notes, rules })
    }
}
