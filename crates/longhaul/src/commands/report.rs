//! `longhaul report`: writes an HTML page that shows one compaction, before and after side by side.

mod replay;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::CachingMode;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{CompactOptions, CompactedRequest, CompactionReport, Engine, Plan};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::Redactor;
use longhaul_engine::{Tokens, Transcript};
use longhaul_server::pages::compaction::{CompactionInput, CompactionView, ParsedReport, SecretHandling};
use longhaul_server::pages::report::{self, ReportPage as Page};

use crate::body_planner::{self, BodyPlanner};
use crate::cli::ReportArgs;
use crate::config::{Environment, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::output::{FileAccess, OutputWriter};
use crate::progress::Progress;
use crate::request_body::{self, RequestBody};
use crate::{output, provider_choice};

/// The number of steps that the progress bar counts.
const PROGRESS_STEPS: usize = 4;

pub(crate) fn run(args: &ReportArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let inputs = [Some(&args.body), args.summary.as_ref(), args.input.store_flags.config.as_ref()];
    output::refuse_overwriting_inputs(args.output_file(), inputs.into_iter().flatten().map(PathBuf::as_path))?;
    let mut progress = if args.quiet { Progress::hidden() } else { Progress::new(Some(PROGRESS_STEPS), "steps") };
    let body = RequestBody::read(&args.body, &args.input)?;
    let (transcript, notes) = body.parse(&args.input)?;
    body_planner::check_keep_from(args.compaction.keep_from, &transcript, &body.label)?;
    let mut notes = request_body::parse_note_lines(&transcript, &notes);
    let model = request_body::stated_model(&args.input, &transcript);
    let settings =
        Settings::load(args.input.store_flags.config.as_deref(), environment, args.policy.config_flags(&model.name))?;
    let (policy, warnings) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.invalid_value_failure(&invalid))?;
    let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
    let engine = &*available.engines.find_or_compressor(&policy.engine);
    notes.extend(settings.note_lines(&warnings));
    if policy.model.is_assumed("window") {
        notes.push(format!("the window of {} is assumed to be {} tokens", model.name, policy.window));
    }
    notes.extend(body.session_notes());
    progress.step();

    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let (settings, policy, body, transcript) = (&settings, &policy, &body, &transcript);
    let input = ReportInput { args, settings, engine, policy, body, transcript };
    let mut cache = BlockCache::default().with_threads(threads);
    let (mut compaction, notices) = input.compact(&mut cache)?;
    compaction.report.notes.extend(notes);
    progress.step();

    let view = input.compaction_view(&compaction, &mut cache)?;
    progress.step();
    let replay = replay::replay_session(&input, &mut cache);
    progress.step();
    drop(progress);

    let page = report::render_page(&Page { subject: &body.label, notices: &notices, compaction: &view, replay });
    input.write_page(&page)?;
    if !args.quiet {
        input.print_summary(&compaction.report, &page, &notices);
    }
    let reached = compaction.report.reached || !settings.app.compression.enabled && !args.compaction.force;
    Ok(ExitCode::from(u8::from(!reached)))
}

/// The request that the page is about, with its settings.
struct ReportInput<'a> {
    args: &'a ReportArgs,
    settings: &'a Settings,
    engine: &'a dyn Engine,
    policy: &'a Policy,
    body: &'a RequestBody,
    transcript: &'a Transcript<'a>,
}

/// The result of a compaction.
struct ReportCompaction {
    report: CompactionReport,
    /// The new request body, or nothing if the request is unchanged.
    text: Option<String>,
}

impl From<Plan> for ReportCompaction {
    fn from(plan: Plan) -> Self {
        match plan {
            Plan::Unchanged(report) => Self { report, text: None },
            Plan::Ready(CompactedRequest { report, body, .. }) => Self { report, text: Some(body) },
        }
    }
}

impl ReportInput<'_> {
    /// Makes the compaction that is triggered now. If none is triggered, it shows what `--force` would do: a
    /// page with the same request on both sides would be useless.
    fn compact(&self, cache: &mut BlockCache) -> Result<(ReportCompaction, Vec<String>), Failure> {
        let Self { args, engine, policy, transcript, .. } = *self;
        let options = CompactOptions {
            force: args.compaction.force,
            to_tokens: args.compaction.to_tokens.map(Tokens),
            keep_from: args.compaction.keep_from,
            focus: args.compaction.focus.clone(),
            summary: args.summary.as_deref().map(body_planner::read_given_summary).transpose()?,
            redaction_rules: super::redact::load_rules(self.settings)?,
            ..CompactOptions::default()
        };
        let (ledger, shown) = (&Ledger::default(), &self.body.label);
        let mut planner = BodyPlanner { engine, policy, block_cache: cache, transcript, ledger, label: shown };
        let triggered = ReportCompaction::from(planner.plan(&options)?);
        if triggered.text.is_some() || options.is_requested() {
            return Ok((triggered, Vec::new()));
        }
        let forced = ReportCompaction::from(planner.plan(&CompactOptions { force: true, ..options })?);
        let notice = match forced.text {
            Some(_) => {
                format!(
                    "No compaction is triggered: {}. The page shows what --force would do.",
                    triggered.report.reason
                )
            }
            None => {
                format!("No compaction is triggered: {}. --force would change nothing either.", triggered.report.reason)
            }
        };
        Ok((forced, vec![notice]))
    }

    fn compaction_view(
        &self,
        compaction: &ReportCompaction,
        cache: &mut BlockCache,
    ) -> Result<CompactionView, Failure> {
        let internal_error = || Failure::System(format!("internal error, {} cannot be shown", self.body.label));
        let provider = provider_choice::choose_provider(None, &self.args.input, self.transcript);
        let mode = CachingMode::new(&self.policy.caching, &self.policy.model, provider, self.transcript.api_format);
        let sides = CompactionInput {
            before: &self.body.text,
            after: compaction.text.as_deref().unwrap_or(&self.body.text),
            api_format: Some(self.transcript.api_format),
            report: ParsedReport::from_report(&compaction.report).map_err(|_| internal_error())?,
            model: &self.policy.model,
            caching_status: mode.status_line(&self.policy.model, provider),
            caching_mode: mode,
        };
        let mut secrets = if self.args.no_redact {
            SecretHandling::Keep
        } else {
            SecretHandling::Redact(Box::new(Redactor::numbered(super::redact::load_rules(self.settings)?)))
        };
        CompactionView::new(sides, &mut secrets, cache).ok_or_else(internal_error)
    }

    /// Writes the page. A page with secrets is readable only by its owner.
    fn write_page(&self, page: &str) -> Result<(), Failure> {
        let readers = if self.args.no_redact { FileAccess::OwnerOnly } else { FileAccess::Default };
        let mut sink = OutputWriter::open_with_access(self.args.output_file(), readers)?;
        sink.write(page.as_bytes())?;
        sink.close()
    }

    fn print_summary(&self, report: &CompactionReport, page: &str, notices: &[String]) {
        for notice in notices {
            output::print_message(notice);
        }
        let (before, after, saved) = (report.tokens.before, report.tokens.after, 100.0 * report.ratio);
        let size = output::group_digits(page.len().div_ceil(1000) as u64);
        let destination =
            self.args.output_file().map_or_else(|| "standard output".to_owned(), |to| to.display().to_string());
        output::print_message(&format!(
            "{before} → {after} tokens ({saved:.0} % smaller); the page is in {destination}, {size} kB"
        ));
    }
}
