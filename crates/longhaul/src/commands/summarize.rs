//! `longhaul summarize`: what a model is asked about what a compaction folds, its answer, and what the audit mended of it.

use longhaul_engine::Tokens;
use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{CheckpointReport, Outcome, Plan, Report, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::{Content, Redacted, Redactor, Rules};
use longhaul_engine::summary::{self, Ask, End, Finding};
use serde::Serialize;

use crate::body::{self, Body};
use crate::cli::SummarizeArgs;
use crate::config::{Environment, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::folding::{self, Folding};
use crate::output;
use crate::summarizer::{self, About, Summarizer, Telling};

mod show;

/// What stands in the place of the mark where nothing is sent.
const NO_MARK: &str = "drawn-for-each-call";
/// What stands in the place of an answer that is not there yet.
const NO_ANSWER: &str = "(the answer to the question before this one)";

#[derive(Serialize)]
struct Account {
    body: String,
    /// The model that is asked; nothing where none is configured.
    model: Option<String>,
    /// Where, and the name of the variable with the key; nothing where nobody was asked.
    address: Option<String>,
    key_env: Option<String>,
    /// Why there is nothing to ask.
    reason: Option<String>,
    ask: Option<Asked>,
    answer: Option<Given>,
    failed: Vec<Failed>,
    findings: Vec<Finding>,
    checkpoint: Option<Checkpoint>,
    notes: Vec<String>,
}

/// What is asked, in as many questions as the model's window needs.
#[derive(Serialize)]
struct Asked {
    /// What the turns come to.
    tokens: Tokens,
    /// About how long the summary is to be.
    budget: Tokens,
    /// The window that the questions are made for.
    window: Tokens,
    questions: Vec<Question>,
}

#[derive(Serialize)]
struct Question {
    system: String,
    user: String,
    max_tokens: Tokens,
}

/// What was answered, without secrets.
#[derive(Serialize)]
struct Given {
    by: String,
    text: String,
    cut: bool,
}

#[derive(Serialize)]
struct Failed {
    model: String,
    why: String,
}

#[derive(Serialize)]
struct Checkpoint {
    #[serde(flatten)]
    report: CheckpointReport,
    text: String,
}

pub(crate) fn run(args: &SummarizeArgs, environment: &Environment) -> Result<(), Failure> {
    let to = args.answer.to();
    let inputs = [Some(&args.body), args.handed_in.as_ref(), args.told.place.config.as_ref()];
    output::refuse_inputs(to, inputs.into_iter().flatten().map(std::path::PathBuf::as_path))?;
    let body = Body::read(&args.body, &args.told)?;
    body.say_session(&args.answer);
    let account = account(args, environment, &body)?;
    if args.answer.json {
        return output::write_json(to, &account);
    }
    output::give(to, &show::page(&account))
}

fn account(args: &SummarizeArgs, environment: &Environment, body: &Body) -> Result<Account, Failure> {
    let (transcript, notes) = body.parse(&args.told)?;
    folding::refuse_behind(args.keep_from, &transcript, &body.shown)?;
    let model = body::model(&args.told, &transcript);
    let flags = args.policy.flags(&model.name);
    let settings = Settings::load(args.told.place.config.as_deref(), environment, flags)?;
    let (policy, warnings) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.refused(&invalid))?;
    let rules = super::redact::rules(&settings)?;
    let wish = Wish {
        force: true,
        to_tokens: args.to_tokens.map(Tokens),
        keep_from: args.keep_from,
        focus: args.focus.clone(),
        rules: rules.clone(),
        ..Wish::default()
    };
    let (known, ledger) = (&mut Known::default(), &Ledger::default());
    let available = Available::new(&settings, environment, Waiting::User)?;
    let engine = &*available.engines.of(&policy.engine);
    let (shown, transcript, policy) = (&body.shown, &transcript, &policy);
    let mut folding = Folding { engine, policy, known, transcript, ledger, shown };
    let mut notes = body::note_lines(transcript, &notes);
    notes.extend(settings.note_lines(&warnings));
    let writer = summarizer::configured(&settings)?;
    let by_code = folding.plan(&wish)?;
    let mut account = Account {
        body: body.shown.clone(),
        model: writer.as_ref().map(|writer| writer.model.name.clone()),
        address: None,
        key_env: None,
        reason: None,
        ask: None,
        answer: None,
        failed: Vec::new(),
        findings: Vec::new(),
        checkpoint: None,
        notes,
    };
    let report = match &by_code {
        Plan::Ready(Outcome { report, .. }) | Plan::Leave(report) => report,
    };
    let ask = folding.ask(&wish, report)?.filter(|_| report.checkpoint.is_some());
    let Some(ask) = ask else {
        account.reason = Some(why_not(report));
        return Ok(account);
    };
    let writer = writer.as_ref().unwrap_or(policy);
    if let Some(path) = &args.handed_in {
        account.ask = Some(Asked::of(&ask, writer, NO_MARK));
        let given = folding::handed_in(path)?;
        let plan = folding.plan(&Wish { summary: Some(given.clone()), ..wish })?;
        return Ok(account.with(plan, &rules, Some(given)));
    }
    let asks = || Summarizer::new(&settings, environment, Telling::Aloud);
    let summarizer = if args.ask { None } else { asks()? };
    let Some(summarizer) = summarizer else {
        if !args.ask {
            let key = "auxiliary.compression.model";
            output::say(&format!("no model is configured in {key}; this is what one would be asked"));
        }
        account.ask = Some(Asked::of(&ask, writer, NO_MARK));
        return Ok(account);
    };
    let mark = summarizer::mark()?;
    account.ask = Some(Asked::of(&ask, writer, &mark));
    account.asked(&summarizer, ask, mark, &mut folding, &wish, by_code)
}

/// Why there is nothing to ask.
fn why_not(report: &Report) -> String {
    match (report.changed, report.checkpoint.is_some()) {
        (false, _) => format!("nothing would be folded: {}", report.reason),
        (true, false) => {
            "nothing would be folded: shorter tool outputs are enough; --to-tokens N or --keep-from MESSAGE folds"
                .to_owned()
        }
        (true, true) => "what would be folded is nothing to ask a model about".to_owned(),
    }
}

impl Account {
    /// Asks the model, and makes the checkpoint of what it says.
    fn asked(
        mut self,
        summarizer: &Summarizer,
        ask: Ask,
        mark: String,
        folding: &mut Folding<'_, '_>,
        wish: &Wish,
        by_code: Plan,
    ) -> Result<Self, Failure> {
        let seat = summarizer.seat();
        (self.address, self.key_env) = (Some(seat.address()), seat.key_env().map(str::to_owned));
        let (policy, dialect) = (folding.policy, folding.transcript.dialect);
        let about = About { policy, dialect, rules: &wish.rules, key: None };
        let asked = summarizer.ask(ask, mark, &about);
        let mut plan = match &asked.answer {
            Some(answer) => folding.plan(&Wish { summary: Some(answer.clone()), ..wish.clone() })?,
            None => by_code,
        };
        let (Plan::Leave(report) | Plan::Ready(Outcome { report, .. })) = &mut plan;
        asked.enter(report);
        self.failed = asked.failed.into_iter().map(|(model, why)| Failed { model, why }).collect();
        Ok(self.with(plan, &wish.rules, asked.answer))
    }

    /// With an answer, and the compaction that was made of it.
    fn with(mut self, plan: Plan, rules: &Rules, given: Option<summary::Answer>) -> Self {
        self.answer = given.map(|given| {
            // A model may say a secret again that it saw, or one of its own making.
            let text =
                Redactor::numbered(rules.clone()).redact(&given.text, Content::Text).text.into_string();
            Given { by: given.by, text, cut: given.end == End::Cut }
        });
        if let Plan::Ready(Outcome { report, ledger, .. }) = plan {
            let text = ledger.checkpoint().map(str::to_owned);
            self.checkpoint = report.checkpoint.zip(text).map(|(report, text)| Checkpoint { report, text });
            self.findings = report.findings;
            self.notes.extend(report.notes);
        }
        self
    }
}

impl Asked {
    fn of(ask: &Ask, writer: &Policy, mark: &str) -> Self {
        let window = writer.model.facts.input_window();
        let ask = ask.clone().counted_by(writer.model.counter());
        let before = Redacted::own(NO_ANSWER);
        let question = |(at, part): (usize, &Redacted)| {
            let asked = ask.question(part, (at > 0).then_some(&before), mark, window);
            let (system, user) = (asked.system.into_string(), asked.user.into_string());
            Question { system, user, max_tokens: asked.most }
        };
        let questions = ask.parts(window).iter().enumerate().map(question).collect();
        Self { tokens: ask.tokens(), budget: ask.budget, window, questions }
    }
}
