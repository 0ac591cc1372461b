//! A model that writes summaries, for a command that waits for it. Who is asked stands in the configuration; by default nobody is.
//!
//! ```text
//! auxiliary.compression ──▶ Seat ──┐
//! upstreams.DIALECT ──▶ Seat ──────┴─ who pays is said ──ask──▶ Asked: the answer, or why there is none
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_engine::Dialect;
use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::{Report, WrittenBy};
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Dollars;
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::summary::{Answer, Ask};
use longhaul_server::session::{First, Host, Once, Quiet, Summarizer as SessionSummarizer, ask_once};
use longhaul_server::upstream::Client;
use tokio::runtime::{Builder, Runtime};

use crate::config::{AuxiliaryModel, Environment, Settings, UpstreamsSettings};
use crate::failure::Failure;
use crate::{output, upstreams};
pub(crate) use seat::Seat;

mod seat;

/// What is said where summaries are wanted of a model and none is configured.
pub(crate) const NONE: &str = "no model is configured for summaries; our own code writes them";

/// The model that is configured for summaries, with what the user stated about it.
pub(crate) fn configured(settings: &Settings) -> Result<Option<Policy>, Failure> {
    let Some(name) = &settings.shell.auxiliary.compression.model else { return Ok(None) };
    let policy = Policy::new(&settings.engine, &models::find(name));
    policy.map(|(policy, _)| Some(policy)).map_err(|invalid| settings.refused(&invalid))
}

/// Who writes the summaries of sessions that a gateway keeps, and the same in words. The session's own model is asked where the
/// requests of the session go.
pub(crate) fn of_sessions(
    settings: &Settings,
    environment: &Environment,
) -> Result<(SessionSummarizer, String), Failure> {
    let Some(policy) = configured(settings)? else {
        return Ok((SessionSummarizer::Code, "by our own code; no model is asked".to_owned()));
    };
    let seat = Seat::auxiliary(&settings.shell.auxiliary.compression, &policy, environment);
    let seat = seat.map_err(Failure::Wrong)?;
    let said = format!("by {} at {}, {}", seat.model(), seat.address(), seat.payer());
    let auxiliary = seat.writer;
    Ok((SessionSummarizer::Model { auxiliary, main: None, first: First::Auxiliary }, said))
}

/// Whether the person at the terminal is told who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    Aloud,
    Nothing,
}

/// The one who is asked for summaries, and who is asked if that fails.
pub(crate) struct Summarizer {
    auxiliary: Seat,
    settings: AuxiliaryModel,
    upstreams: UpstreamsSettings,
    environment: Environment,
    runtime: Runtime,
    client: Arc<Client>,
    telling: Telling,
    /// The lines that need no second telling.
    told: Mutex<BTreeSet<String>>,
}

/// The session that a summary is of.
pub(crate) struct About<'a> {
    /// The policy of its own model.
    pub(crate) policy: &'a Policy,
    pub(crate) dialect: Dialect,
    pub(crate) rules: &'a Rules,
    pub(crate) key: Option<SessionKey>,
}

/// What came of asking.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) answer: Option<Answer>,
    /// Who failed, and why.
    pub(crate) failed: Vec<(String, String)>,
    paid: Option<Dollars>,
    /// Which of them is the model that is meant for it.
    auxiliary: String,
}

impl Summarizer {
    /// The one that is configured; nothing where none is. What is wrong with how it is reached is a wrong call.
    pub(crate) fn new(
        settings: &Settings,
        environment: &Environment,
        telling: Telling,
    ) -> Result<Option<Self>, Failure> {
        let Some(policy) = configured(settings)? else { return Ok(None) };
        let shell = &settings.shell;
        let auxiliary = Seat::auxiliary(&shell.auxiliary.compression, &policy, environment);
        let auxiliary = auxiliary.map_err(Failure::Wrong)?;
        let client = upstreams::client([auxiliary.address().as_str()])?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::World(format!("cannot begin to talk to a model: {error}")))?;
        Ok(Some(Self {
            auxiliary,
            settings: shell.auxiliary.compression.clone(),
            upstreams: shell.upstreams.clone(),
            environment: environment.clone(),
            runtime,
            client: Arc::new(client),
            telling,
            told: Mutex::default(),
        }))
    }

    /// The model that is meant for it.
    pub(crate) fn seat(&self) -> &Seat {
        &self.auxiliary
    }

    /// Asks for a summary with a mark of its own, and waits for the answer.
    pub(crate) fn ask(&self, ask: Ask, mark: String, about: &About<'_>) -> Asked {
        let mut failed = Vec::new();
        let main = match self.main(about) {
            Some(Ok(seat)) => Some(seat),
            Some(Err(why)) => {
                failed.push((about.policy.model.name.clone(), why));
                None
            }
            None => None,
        };
        self.tell(&ask, main.as_ref());
        let seats = std::iter::once(&self.auxiliary).chain(&main);
        let writers = seats.map(|seat| seat.writer.clone()).collect();
        let (rules, key) = (about.rules.clone(), about.key.clone());
        let once = self.runtime.block_on(ask_once(self.client.clone(), writers, ask, mark, rules, key));
        let Once { answer, failed: first, paid } = once;
        let first = first.into_iter().map(|(model, failure)| (model, failure.to_string()));
        let mut all: Vec<(String, String)> = first.collect();
        // Who could not be asked is of interest only to one who got no answer.
        all.extend(failed.into_iter().filter(|_| answer.is_none()));
        Asked { answer, failed: all, paid, auxiliary: self.auxiliary.model().to_owned() }
    }

    /// The session's own model, unless it is the same again.
    fn main(&self, about: &About<'_>) -> Option<Result<Seat, String>> {
        let Model { name, row, .. } = &about.policy.model;
        if row.is_none() && name == "unknown" {
            return None;
        }
        let upstream = self.upstreams.of(about.dialect);
        let seat = Seat::main(upstream, &self.settings, (about.policy, about.dialect), &self.environment)?;
        let is_the_same = |seat: &Seat| {
            seat.model() == self.auxiliary.model() && seat.address() == self.auxiliary.address()
        };
        Some(seat).filter(|seat| !seat.as_ref().is_ok_and(is_the_same))
    }

    /// Says who is asked, where, and whose key pays, before anything is sent; for several bodies once.
    fn tell(&self, ask: &Ask, main: Option<&Seat>) {
        let seat = &self.auxiliary;
        let (model, address, seconds) = (seat.model(), seat.address(), self.settings.timeout_seconds);
        let next = main.map_or_else(String::new, |main| {
            let (model, address) = (main.model(), main.address());
            format!("; if it fails, {model} at {address} is asked once, {}", main.payer())
        });
        let line = format!("{model} at {address} is asked for summaries, {}{next}", seat.payer());
        let is_new = self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone());
        if is_new && self.telling == Telling::Aloud {
            let tokens = ask.tokens();
            output::say(&format!("{line}; {tokens} tokens of turns, at most {seconds} s a request"));
        }
    }
}

/// A mark that nobody who wrote the turns can know.
pub(crate) fn mark() -> Result<String, Failure> {
    let none = || Failure::World("the system gives no random bytes, so no model is asked".to_owned());
    Quiet.mark().ok_or_else(none)
}

impl Asked {
    /// What it cost, where an answer came and that is known.
    fn paid(&self) -> String {
        let paid = self.paid.filter(|_| self.answer.is_some());
        paid.map_or_else(String::new, |paid| format!(" for {paid}"))
    }

    /// Enters into the report of a compaction who was asked, and what became of it.
    pub(crate) fn enter(&self, report: &mut Report) {
        let mut failed = self.failed.clone();
        let is_used = report.checkpoint.as_ref().is_some_and(|made| made.by == WrittenBy::Model);
        for (model, why) in &failed {
            report.notes.push(format!("no summary by {model}: {why}"));
        }
        match &self.answer {
            Some(answer) if is_used => {
                report.notes.push(format!("the summary was written by {}{}", answer.by, self.paid()));
            }
            // Why it is not used, the engine says.
            Some(answer) => failed.push((answer.by.clone(), "its summary was not used".to_owned())),
            None => report.notes.push("the checkpoint is made by code".to_owned()),
        }
        if let Some((model, why)) = failed.last() {
            report.state.last_error = Some(format!("{model}: {why}"));
        }
        if failed.iter().any(|(model, _)| *model == self.auxiliary) {
            report.state.auxiliary_failed = Some(self.auxiliary.clone());
        }
    }
}
