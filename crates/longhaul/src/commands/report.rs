//! `longhaul report`: a page that shows one compaction, before and after side by side.

mod story;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use longhaul_engine::cache::Route;
use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Engine, Outcome, Plan, Report, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::Redactor;
use longhaul_engine::{Tokens, Transcript};
use longhaul_server::pages::compaction::{Account, Compaction, Secrets, Sides};
use longhaul_server::pages::report::{self, Report as Page};

use crate::body::{self, Body};
use crate::cli::ReportArgs;
use crate::config::{Environment, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::folding::{self, Folding};
use crate::output::{Readers, Sink};
use crate::progress::Progress;
use crate::{output, route};

/// What is done for a page, one after the other.
const STEPS: usize = 4;

pub(crate) fn run(args: &ReportArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let inputs = [Some(&args.body), args.summary.as_ref(), args.told.place.config.as_ref()];
    output::refuse_inputs(args.to(), inputs.into_iter().flatten().map(PathBuf::as_path))?;
    let mut progress = if args.quiet { Progress::hidden() } else { Progress::of(Some(STEPS), "steps") };
    let body = Body::read(&args.body, &args.told)?;
    let (transcript, notes) = body.parse(&args.told)?;
    folding::refuse_behind(args.wanted.keep_from, &transcript, &body.shown)?;
    let mut notes = body::note_lines(&transcript, &notes);
    let model = body::model(&args.told, &transcript);
    let settings =
        Settings::load(args.told.place.config.as_deref(), environment, args.policy.flags(&model.name))?;
    let (policy, warnings) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.refused(&invalid))?;
    let available = Available::new(&settings, environment, Waiting::User)?;
    let engine = &*available.engines.of(&policy.engine);
    notes.extend(settings.note_lines(&warnings));
    if policy.model.is_assumed("window") {
        notes.push(format!("the window of {} is assumed to be {} tokens", model.name, policy.window));
    }
    notes.extend(body.session_notes());
    progress.step();

    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let (settings, policy, body, transcript) = (&settings, &policy, &body, &transcript);
    let asked = Asked { args, settings, engine, policy, body, transcript };
    let mut known = Known::default().on_threads(threads);
    let (mut made, notices) = asked.compact(&mut known)?;
    made.report.notes.extend(notes);
    progress.step();

    let compaction = asked.compaction(&made, &mut known)?;
    progress.step();
    let story = story::story(&asked, &mut known);
    progress.step();
    drop(progress);

    let page = report::page(&Page { of: &body.shown, notices: &notices, compaction: &compaction, story });
    asked.write(&page)?;
    if !args.quiet {
        asked.say(&made.report, &page, &notices);
    }
    let reached = made.report.reached || !settings.shell.compression.enabled && !args.wanted.force;
    Ok(ExitCode::from(u8::from(!reached)))
}

/// A body that a page is asked of.
struct Asked<'a> {
    args: &'a ReportArgs,
    settings: &'a Settings,
    engine: &'a dyn Engine,
    policy: &'a Policy,
    body: &'a Body,
    transcript: &'a Transcript<'a>,
}

/// What a compaction gave.
struct Made {
    report: Report,
    /// The new body; nothing where the old one stays.
    text: Option<String>,
}

impl From<Plan> for Made {
    fn from(plan: Plan) -> Self {
        match plan {
            Plan::Leave(report) => Self { report, text: None },
            Plan::Ready(Outcome { report, body, .. }) => Self { report, text: Some(body) },
        }
    }
}

impl Asked<'_> {
    /// The compaction that is due. Where none is, what one would be that somebody asked for: a page that shows the body twice
    /// helps nobody.
    fn compact(&self, known: &mut Known) -> Result<(Made, Vec<String>), Failure> {
        let Self { args, engine, policy, transcript, .. } = *self;
        let wish = Wish {
            force: args.wanted.force,
            to_tokens: args.wanted.to_tokens.map(Tokens),
            keep_from: args.wanted.keep_from,
            focus: args.wanted.focus.clone(),
            summary: args.summary.as_deref().map(folding::handed_in).transpose()?,
            rules: super::redact::rules(self.settings)?,
            ..Wish::default()
        };
        let (ledger, shown) = (&Ledger::default(), &self.body.shown);
        let mut folding = Folding { engine, policy, known, transcript, ledger, shown };
        let due = Made::from(folding.plan(&wish)?);
        if due.text.is_some() || wish.is_asked() {
            return Ok((due, Vec::new()));
        }
        let forced = Made::from(folding.plan(&Wish { force: true, ..wish })?);
        let notice = match forced.text {
            Some(_) => format!("Nothing is due: {}. This is what --force would do.", due.report.reason),
            None => format!("Nothing is due: {}. --force would change nothing either.", due.report.reason),
        };
        Ok((forced, vec![notice]))
    }

    fn compaction(&self, made: &Made, known: &mut Known) -> Result<Compaction, Failure> {
        let ours = || Failure::World(format!("a mistake of ours kept {} from being shown", self.body.shown));
        let provider = route::provider(None, &self.args.told, self.transcript);
        let route = Route::new(&self.policy.caching, &self.policy.model, provider, self.transcript.dialect);
        let sides = Sides {
            before: &self.body.text,
            after: made.text.as_deref().unwrap_or(&self.body.text),
            dialect: Some(self.transcript.dialect),
            account: Account::of(&made.report).map_err(|_| ours())?,
            model: &self.policy.model,
            status: route.status(&self.policy.model, provider),
            route,
        };
        let mut secrets = if self.args.no_redact {
            Secrets::AsTheyStand
        } else {
            Secrets::Out(Box::new(Redactor::numbered(super::redact::rules(self.settings)?)))
        };
        Compaction::of(sides, &mut secrets, known).ok_or_else(ours)
    }

    /// Writes the page; with secrets in it, for its owner alone.
    fn write(&self, page: &str) -> Result<(), Failure> {
        let readers = if self.args.no_redact { Readers::Owner } else { Readers::Usual };
        let mut sink = Sink::open_for(self.args.to(), readers)?;
        sink.write(page.as_bytes())?;
        sink.close()
    }

    fn say(&self, report: &Report, page: &str, notices: &[String]) {
        for notice in notices {
            output::say(notice);
        }
        let (before, after, saved) = (report.tokens.before, report.tokens.after, 100.0 * report.ratio);
        let size = output::grouped(page.len().div_ceil(1000) as u64);
        let place =
            self.args.to().map_or_else(|| "standard output".to_owned(), |to| to.display().to_string());
        output::say(&format!(
            "{before} → {after} tokens ({saved:.0} % smaller); the page is in {place}, {size} kB"
        ));
    }
}
