//! One compaction: a body goes in, and everything that a call may want to write comes out.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use longhaul_engine::Tokens;
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use longhaul_engine::plan::{self, Handles, Keep, Plan, Report, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::{Rules, SessionKey};
use serde::Serialize;

use super::diff::Difference;
use crate::body::{self, Body};
use crate::cli::{CompressArgs, Summarizer};
use crate::config::{self, Environment, Settings};
use crate::failure::Failure;
use crate::originals::{self, Secrets};

/// What a call says about each of its bodies.
pub(super) struct Call<'a> {
    pub(super) args: &'a CompressArgs,
    environment: &'a Environment,
    /// The configuration.
    file: Option<config::File>,
    /// Where what is removed is kept.
    pub(super) originals: Option<(&'a Path, Secrets)>,
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

impl<'a> Call<'a> {
    /// Reads the configuration, so that a mistake in it is said once and not for each body.
    pub(super) fn new(args: &'a CompressArgs, environment: &'a Environment) -> Result<Self, Failure> {
        let file = config::File::read(args.config.config.as_deref(), environment)?;
        let kept = |file: &'a Option<PathBuf>, secrets| Some((file.as_deref()?, secrets));
        let originals = kept(&args.originals, Secrets::Out);
        let originals = originals.or_else(|| kept(&args.originals_raw, Secrets::AsTheyWere));
        let call = Self { args, environment, file, originals };
        call.settings("unknown")?;
        Ok(call)
    }

    /// Compacts one body.
    pub(super) fn compress(&self, memory: &mut Memory, body: &Body) -> Result<Done, Failure> {
        let start = Instant::now();
        let (transcript, notes) = body.parse(&self.args.told)?;
        let model = body::model(&self.args.told, &transcript);
        if !memory.policies.contains_key(&model.name) {
            memory.policies.insert(model.name.clone(), self.prepare(&model)?);
        }
        let Prepared { policy, enabled, notes: more, rules } = &memory.policies[&model.name];
        let last = transcript.message_count().saturating_sub(1);
        if let Some(from) = self.args.keep_from.filter(|from| *from > last) {
            return Err(Failure::Wrong(format!(
                "--keep-from {from} is behind the end of {}, whose messages are 0 to {last}",
                body.shown
            )));
        }
        let rests = !enabled && !self.args.force;
        let key = || SessionKey::new(*blake3::hash(body.text.as_bytes()).as_bytes());
        let wish = Wish {
            force: self.args.force,
            // Any body is small enough for the largest size there is, and stays as it is.
            to_tokens: if rests { Some(Tokens(u64::MAX)) } else { self.args.to_tokens.map(Tokens) },
            focus: self.args.focus.clone(),
            rules: rules.clone(),
            keep_from: self.args.keep_from,
            keep: self.originals.map_or(Keep::Nothing, |_| Keep::Originals(Handles::new(key()))),
            ..Wish::default()
        };
        let compacted = plan::engine(policy.engine).compact(policy, &wish, &mut memory.known, &transcript);
        let plan = compacted.map_err(|refused| {
            Failure::World(format!("a mistake of ours kept {} as it is: {refused}", body.shown))
        })?;
        let (mut report, text, removed) = match plan {
            Plan::Leave(report) => (report, None, Vec::new()),
            Plan::Ready(outcome) => (outcome.report, Some(outcome.body), outcome.originals),
        };
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
        let answer = Answer { body: body.shown.clone(), report, elapsed_ms };
        Ok(Done { answer, window: policy.window, rests, text, originals, difference })
    }

    fn settings(&self, model: &str) -> Result<Settings, Failure> {
        Settings::from_layers(self.file.as_ref(), self.environment, self.args.policy.flags(model))
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
        if self.args.summarizer == Some(Summarizer::Auto) {
            notes.push(match &settings.shell.auxiliary.compression.model {
                None => "no model is configured for summaries; our own code writes them".to_owned(),
                Some(model) => {
                    format!("{model} is configured for summaries, but compress calls no model; our own code writes them")
                }
            });
        }
        let rules = super::super::redact::rules(&settings)?;
        Ok(Prepared { policy, enabled: settings.shell.compression.enabled, notes, rules })
    }
}
