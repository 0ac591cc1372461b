//! `longhaul summarize`: shows what a compaction asks a model, the model's summary, and the corrections that
//! the audit makes.

use longhaul_engine::Tokens;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{CheckpointReport, CompactOptions, CompactedRequest, CompactionReport, Plan};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::{Redacted, RedactionMode, Redactor, Rules};
use longhaul_engine::summary::{self, AuditFinding, Completeness, SummaryJob};
use serde::Serialize;

use crate::body_planner::{self, BodyPlanner};
use crate::cli::SummarizeArgs;
use crate::config::{Environment, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::output;
use crate::request_body::{self, RequestBody};
use crate::summarizer::{self, Announcement, Summarizer, SummarySubject, WriterChoice};

mod text_page;

/// The text in place of the random tag, if nothing is sent to a model.
const TAG_PLACEHOLDER: &str = "drawn-for-each-call";
/// The text in place of a reply that does not exist yet.
const REPLY_PLACEHOLDER: &str = "(the reply to the previous question)";

#[derive(Serialize)]
struct SummarizeOutput {
    body: String,
    /// The configured model, if there is one.
    model: Option<String>,
    /// The URL of the model, if it was asked.
    #[serde(rename = "address")]
    url: Option<String>,
    /// The environment variable with the key for the model, if it was asked.
    key_env: Option<String>,
    /// The reason why there is nothing to ask.
    reason: Option<String>,
    #[serde(rename = "ask")]
    questions: Option<SummarizeQuestions>,
    #[serde(rename = "answer")]
    summary: Option<GivenSummary>,
    failed: Vec<FailedModel>,
    findings: Vec<AuditFinding>,
    checkpoint: Option<SummarizeCheckpoint>,
    notes: Vec<String>,
}

/// The questions to the model: as many as its context window makes necessary.
#[derive(Serialize)]
struct SummarizeQuestions {
    /// The tokens of the turns to summarize.
    tokens: Tokens,
    /// The intended length of the summary.
    budget: Tokens,
    /// The context window that the questions fit into.
    window: Tokens,
    questions: Vec<SummarizeQuestion>,
}

#[derive(Serialize)]
struct SummarizeQuestion {
    system: String,
    user: String,
    max_tokens: Tokens,
}

/// The summary that was given by a model or a file, without secrets.
#[derive(Serialize)]
struct GivenSummary {
    #[serde(rename = "by")]
    author: String,
    text: String,
    #[serde(rename = "cut")]
    is_truncated: bool,
}

#[derive(Serialize)]
struct FailedModel {
    model: String,
    #[serde(rename = "why")]
    reason: String,
}

#[derive(Serialize)]
struct SummarizeCheckpoint {
    #[serde(flatten)]
    report: CheckpointReport,
    text: String,
}

pub(crate) fn run(args: &SummarizeArgs, environment: &Environment) -> Result<(), Failure> {
    let to = args.output.file();
    let inputs = [Some(&args.body), args.given_summary.as_ref(), args.input.store_flags.config.as_ref()];
    output::refuse_overwriting_inputs(to, inputs.into_iter().flatten().map(std::path::PathBuf::as_path))?;
    let body = RequestBody::read(&args.body, &args.input)?;
    body.print_session_notes(&args.output);
    let output = build_output(args, environment, &body)?;
    if args.output.json {
        return output::write_json(to, &output);
    }
    output::write_page(to, &text_page::page(&output))
}

fn build_output(
    args: &SummarizeArgs,
    environment: &Environment,
    body: &RequestBody,
) -> Result<SummarizeOutput, Failure> {
    let (transcript, notes) = body.parse(&args.input)?;
    body_planner::check_keep_from(args.keep_from, &transcript, &body.label)?;
    let model = request_body::stated_model(&args.input, &transcript);
    let flags = args.policy.config_flags(&model.name);
    let settings = Settings::load(args.input.store_flags.config.as_deref(), environment, flags)?;
    let (policy, warnings) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.invalid_value_failure(&invalid))?;
    let rules = super::redact::load_rules(&settings)?;
    let options = CompactOptions {
        force: true,
        to_tokens: args.to_tokens.map(Tokens),
        keep_from: args.keep_from,
        focus: args.focus.clone(),
        redaction_rules: rules.clone(),
        ..CompactOptions::default()
    };
    let (cache, ledger) = (&mut BlockCache::default(), &Ledger::default());
    let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
    let engine = &*available.engines.find_or_compressor(&policy.engine);
    let (shown, transcript, policy) = (&body.label, &transcript, &policy);
    let mut planner = BodyPlanner { engine, policy, block_cache: cache, transcript, ledger, label: shown };
    let mut notes = request_body::parse_note_lines(transcript, &notes);
    notes.extend(settings.note_lines(&warnings));
    let writer = summarizer::configured_policy(&settings)?;
    let by_code = planner.plan(&options)?;
    let mut output = SummarizeOutput {
        body: body.label.clone(),
        model: writer.as_ref().map(|writer| writer.model.name.clone()),
        url: None,
        key_env: None,
        reason: None,
        questions: None,
        summary: None,
        failed: Vec::new(),
        findings: Vec::new(),
        checkpoint: None,
        notes,
    };
    let report = match &by_code {
        Plan::Ready(CompactedRequest { report, .. }) | Plan::Unchanged(report) => report,
    };
    let job = planner.summary_job(&options, report)?.filter(|_| report.checkpoint.is_some());
    let Some(job) = job else {
        output.reason = Some(no_question_reason(report));
        return Ok(output);
    };
    let writer = writer.as_ref().unwrap_or(policy);
    if let Some(path) = &args.given_summary {
        output.questions = Some(SummarizeQuestions::new(&job, writer, TAG_PLACEHOLDER));
        let given = body_planner::read_given_summary(path)?;
        let plan = planner.plan(&CompactOptions { summary: Some(given.clone()), ..options })?;
        return Ok(output.with_summary(plan, &rules, Some(given)));
    }
    let new_summarizer = || Summarizer::new(&settings, environment, Announcement::Print, WriterChoice::Configured);
    let summarizer = if args.ask { None } else { new_summarizer()? };
    let Some(summarizer) = summarizer else {
        if !args.ask {
            let key = "auxiliary.compression.model";
            output::print_message(&format!("no model is configured in {key}; this is the prompt that one would get"));
        }
        output.questions = Some(SummarizeQuestions::new(&job, writer, TAG_PLACEHOLDER));
        return Ok(output);
    };
    let tag = summarizer::random_tag()?;
    output.questions = Some(SummarizeQuestions::new(&job, writer, &tag));
    output.ask_model(&summarizer, job, tag, &mut planner, &options, by_code)
}

/// Explains why there is nothing to ask.
fn no_question_reason(report: &CompactionReport) -> String {
    match (report.changed, report.checkpoint.is_some()) {
        (false, _) => format!("nothing would be summarized: {}", report.reason),
        (true, false) => {
            "nothing would be summarized: shorter tool outputs are enough; --to-tokens N or --keep-from MESSAGE summarizes"
                .to_owned()
        }
        (true, true) => "the turns contain nothing for a model to summarize".to_owned(),
    }
}

impl SummarizeOutput {
    /// Asks the model, and plans the compaction with its summary.
    fn ask_model(
        mut self,
        summarizer: &Summarizer,
        job: SummaryJob,
        tag: String,
        planner: &mut BodyPlanner<'_, '_>,
        options: &CompactOptions,
        by_code: Plan,
    ) -> Result<Self, Failure> {
        if let Some(model) = summarizer.auxiliary_model() {
            (self.url, self.key_env) = (Some(model.url()), model.key_variable().map(str::to_owned));
        }
        let (policy, api_format) = (planner.policy, planner.transcript.api_format);
        let subject = SummarySubject { policy, api_format, rules: &options.redaction_rules, key: None };
        let attempt = summarizer.request_summary(job, tag, &subject);
        let mut plan = match &attempt.summary {
            Some(summary) => planner.plan(&CompactOptions { summary: Some(summary.clone()), ..options.clone() })?,
            None => by_code,
        };
        let (Plan::Unchanged(report) | Plan::Ready(CompactedRequest { report, .. })) = &mut plan;
        attempt.add_to_report(report);
        self.failed = attempt.failures.into_iter().map(|(model, reason)| FailedModel { model, reason }).collect();
        Ok(self.with_summary(plan, &options.redaction_rules, attempt.summary))
    }

    /// Adds the summary and the compaction that was planned with it.
    fn with_summary(mut self, plan: Plan, rules: &Rules, given: Option<summary::ModelSummary>) -> Self {
        self.summary = given.map(|given| {
            // A model may repeat a secret or make one up.
            let text = Redactor::numbered(rules.clone()).redact(&given.text, RedactionMode::Text).text.into_string();
            GivenSummary { author: given.author, text, is_truncated: given.completeness == Completeness::Truncated }
        });
        if let Plan::Ready(CompactedRequest { report, ledger, .. }) = plan {
            let text = ledger.checkpoint().map(str::to_owned);
            self.checkpoint = report.checkpoint.zip(text).map(|(report, text)| SummarizeCheckpoint { report, text });
            self.findings = report.findings;
            self.notes.extend(report.notes);
        }
        self
    }
}

impl SummarizeQuestions {
    fn new(job: &SummaryJob, writer: &Policy, tag: &str) -> Self {
        let window = writer.model.facts.input_window();
        let job = job.clone().with_counter(writer.model.counter());
        let previous_reply = Redacted::literal(REPLY_PLACEHOLDER);
        let question = |(at, part): (usize, &Redacted)| {
            let prompt = job.prompt(part, (at > 0).then_some(&previous_reply), tag, window);
            let (system, user) = (prompt.system.into_string(), prompt.user.into_string());
            SummarizeQuestion { system, user, max_tokens: prompt.max_reply_tokens }
        };
        let questions = job.split_for_window(window).iter().enumerate().map(question).collect();
        Self { tokens: job.tokens(), budget: job.budget, window, questions }
    }
}
