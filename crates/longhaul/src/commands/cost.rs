//! `longhaul cost`: a session, replayed on every course, and what each would have cost.

mod page;
mod recorded;
mod table;
mod words;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_engine::cache::{Ends, FIVE_MINUTES, Provider, Route, Rules};
use longhaul_engine::cost::{self, Course, Marks, Replay, Sent, Session, Turn, Verdict};
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use longhaul_engine::policy::{CacheStrategy, Config, Policy};
use longhaul_engine::prices::{Dollars, Prices};
use longhaul_engine::{Dialect, Refused, Tokens};
use longhaul_server::agents;
use serde::Serialize;

use crate::body;
use crate::cli::{CostArgs, Strategies, caching_flags};
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{input, output, paid, parallel, route};
use recorded::Recorded;

#[derive(Serialize)]
struct Answer {
    /// What it comes to, in sentences.
    summary: Vec<String>,
    /// What is known of the session itself, where an agent's was given.
    recorded: Option<Recorded>,
    requests: usize,
    policies: Vec<Row>,
    model: String,
    dialect: Dialect,
    dialect_sure: bool,
    status: String,
    window: Tokens,
    threshold: Tokens,
    minutes: f64,
    pauses: Pauses,
    prices: Prices,
    priced_as: Option<PricedAs>,
    notes: Vec<String>,
}

/// Whose prices were taken where the model's own are not known.
#[derive(Serialize)]
struct PricedAs {
    asked: String,
    row: String,
    why: String,
}

impl PricedAs {
    /// What is to be said of the prices that were taken; nothing where they are the model's own.
    fn new(asked: &Model, taken: &Model, provider: Option<Provider>, prices: &Prices) -> Option<Self> {
        let row = prices.row.clone()?;
        let why = match provider {
            Some(provider) if taken.name != asked.name => {
                let (taken, provider) = (&taken.name, provider.name());
                format!("no model of that name is known, and {taken} is the usual one of {provider}")
            }
            _ if prices.nearest => "it is not on the list of prices, and this is the nearest".to_owned(),
            _ => return None,
        };
        Some(Self { asked: asked.name.clone(), row, why })
    }
}

/// Where the pauses come from, and how many of them the shortest cache does not outlive.
#[derive(Serialize)]
struct Pauses {
    by: &'static str,
    seed: Option<u64>,
    over_five_minutes: usize,
}

/// What one course came to.
#[derive(Serialize)]
struct Row {
    name: String,
    strategy: Option<CacheStrategy>,
    compactions: usize,
    /// Steps that had to be taken again, because a compaction took away what they brought,
    forgotten: usize,
    /// and what these steps cost; it is in `usd`.
    forgotten_usd: Dollars,
    cached: Tokens,
    written: Tokens,
    fresh: Tokens,
    output: Tokens,
    usd: Dollars,
    /// How much less it costs than `marks`, as a share; nothing for `marks` itself.
    saved: Option<f64>,
    hit_rate: Option<f64>,
    largest: Tokens,
    over_window: usize,
    compacted: Vec<Compaction>,
    #[serde(skip)]
    course: Course,
    #[serde(skip)]
    turns: Vec<Turn>,
}

#[derive(Serialize)]
struct Compaction {
    request: usize,
    minute: f64,
    before: Tokens,
    after: Tokens,
    /// Steps that had to be taken again before the next compaction,
    forgotten: usize,
    /// and the tokens that they brought back.
    fetched: Tokens,
    reason: String,
    #[serde(flatten)]
    verdict: Option<Verdict>,
}

pub(crate) fn run(args: &CostArgs, environment: &Environment) -> Result<(), Failure> {
    if args.policy.engine.is_some() {
        return Err(Failure::Wrong(
            "cost compares the engines with each other; leave --engine out".to_owned(),
        ));
    }
    let inputs = [Some(&args.body), args.pauses.as_ref(), args.told.place.config.as_ref()];
    output::refuse_inputs(args.answer.to(), inputs.into_iter().flatten().map(PathBuf::as_path))?;
    let mut body = recorded::body(args)?;
    let model = body::model(&args.told, &body.parse(&args.told)?.0);
    let unseen = recorded::fill(&mut body, &model);
    let (transcript, notes) = body.parse(&args.told)?;
    let mut notes = body::note_lines(&transcript, &notes);
    let asked_model = body::model(&args.told, &transcript);
    let is_known = asked_model.row.is_some();
    let told = route::provider(args.cached.provider, &args.told, &transcript);
    let provider = told.or_else(|| route::vendor(transcript.dialect).filter(|_| !is_known));
    let model = route::model(&args.told, &transcript, provider, &mut notes);
    let mut flags = args.policy.flags(&model.name);
    flags.extend(caching_flags(
        args.cached.ttl.or_else(|| recorded::ttl(&body)),
        args.strategy.and_then(Strategies::one),
    ));
    let settings = Settings::load(args.told.place.config.as_deref(), environment, flags)?;
    let (policy, warnings) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.refused(&invalid))?;
    notes.extend(settings.note_lines(&warnings));
    let Some(prices) = &policy.prices else {
        let name = &model.name;
        let paid = body.session.as_ref().and_then(|read| paid::paid(&read.session, &settings.engine));
        let paid = paid.map_or(String::new(), |paid| format!("the session cost {}, as recorded; ", paid.usd));
        return Err(Failure::Wrong(format!(
            "{paid}no prices are known for {name}; name a model with --model, or state models.{name}.prices in the configuration"
        )));
    };
    let priced_as = PricedAs::new(&asked_model, &model, provider, prices);
    notes.extend(priced_as.iter().map(|p| format!("{} is priced as {}: {}", p.asked, p.row, p.why)));
    let route = Route::new(&policy.caching, &policy.model, provider, transcript.dialect);
    let session = Session::of(&transcript, &policy.model, &mut Known::default());
    let mut requests = session.requests();
    let agents_own = body.session.as_ref().map(|read| &read.session);
    requests.truncate(agents_own.map_or(usize::MAX, recorded::answered));
    requests.truncate(args.requests.map_or(usize::MAX, |most| most as usize));
    if requests.is_empty() {
        return Err(Failure::Wrong(format!("{} holds no request that a reply could follow", body.shown)));
    }
    let (pauses, by) = pauses(args, &requests, agents_own)?;
    let recorded = agents_own.map(|session| Recorded { unseen, ..Recorded::of(session, &settings.engine) });
    notes.extend(body.session_notes());
    let asked = Asked {
        config: &settings.engine,
        policy: &policy,
        replay: Replay {
            session: &session,
            requests: &requests,
            pauses: &pauses,
            rules: rules(&route, &policy),
            price: &prices.price,
            marks: marks(&route),
        },
    };
    let several = args.strategy == Some(Strategies::All);
    let mut policies = asked.rows(if several { &CacheStrategy::ALL } else { &[] })?;
    table::measure(&mut policies);
    let mut answer = Answer {
        summary: Vec::new(),
        recorded,
        requests: requests.len(),
        policies,
        model: model.name.clone(),
        dialect: transcript.dialect,
        dialect_sure: transcript.dialect_sure,
        status: route.status(&policy.model, provider),
        window: policy.window,
        threshold: policy.threshold,
        minutes: pauses.iter().skip(1).sum::<Duration>().as_secs_f64() / 60.0,
        pauses: by,
        prices: prices.clone(),
        priced_as,
        notes: [notes, asked.notes(&route)].concat(),
    };
    answer.summary = words::summary(&answer);
    give(args, &answer, &body.shown)
}

/// Marks are no use where nothing is known to take them; what a provider keeps by itself it keeps all the same.
fn rules(route: &Route, policy: &Policy) -> Rules {
    match route {
        Route::Off(_) => Rules { ends: Ends::Nowhere, ..Rules::of(&policy.model) },
        _ => Rules::of(&policy.model),
    }
}

fn marks(route: &Route) -> Option<Marks> {
    match *route {
        Route::Marks { carrier, strategy, ttl, .. } => Some(Marks { strategy, ttl, carrier }),
        _ => None,
    }
}

/// Who pauses longer has another session; and sums of pauses stay numbers.
const LONGEST_PAUSE: Duration = Duration::from_hours(24 * 366);

/// The pauses before the requests, and where they come from.
fn pauses(
    args: &CostArgs,
    requests: &[Sent],
    session: Option<&agents::Session>,
) -> Result<(Vec<Duration>, Pauses), Failure> {
    let own = session.and_then(|session| recorded::pauses(session, requests.len()));
    let seconds = |typed: f64, place: &str| {
        let pause = Duration::try_from_secs_f64(typed).ok().filter(|pause| *pause <= LONGEST_PAUSE);
        let wrong = || format!("{place} is {typed}; a pause is a number of seconds, from 0 to a year");
        pause.ok_or_else(|| Failure::Wrong(wrong()))
    };
    let (pauses, by, seed) = match (&args.pauses, args.pause, own) {
        (Some(path), ..) => (listed(path, requests.len(), seconds)?, "recorded", None),
        (None, Some(typed), _) => (vec![seconds(typed, "--pause")?; requests.len()], "constant", None),
        (None, None, Some(own)) => (own, "recorded", None),
        (None, None, None) => (cost::pauses(requests, args.seed), "drawn", Some(args.seed)),
    };
    let over_five_minutes = pauses.iter().skip(1).filter(|pause| **pause > FIVE_MINUTES).count();
    Ok((pauses, Pauses { by, seed, over_five_minutes }))
}

/// The pauses of a file, one a line, before every request but the first.
fn listed(
    path: &Path,
    requests: usize,
    seconds: impl Fn(f64, &str) -> Result<Duration, Failure>,
) -> Result<Vec<Duration>, Failure> {
    let shown = input::shown(path);
    let text = input::read_text(path)?;
    let mut pauses = vec![Duration::ZERO];
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("line {} of {shown}", at + 1);
        let typed = line.trim().parse().map_err(|_| {
            Failure::Wrong(format!(
                "{place} is no number; give the seconds before each request but the first"
            ))
        })?;
        pauses.push(seconds(typed, &place)?);
    }
    if pauses.len() < requests {
        let (there, wanted) = (pauses.len() - 1, requests - 1);
        return Err(Failure::Wrong(format!(
            "{shown} has {there} pauses, and {wanted} are needed: one before each request but the first"
        )));
    }
    pauses.truncate(requests);
    Ok(pauses)
}

/// A session that is to be replayed on every course.
struct Asked<'a> {
    config: &'a Config,
    policy: &'a Policy,
    replay: Replay<'a, 'a, 'a>,
}

impl Asked<'_> {
    /// Every course with each of these strategies; without any, with the one that is in force.
    fn rows(&self, strategies: &[CacheStrategy]) -> Result<Vec<Row>, Failure> {
        let with = |marks: Marks| {
            let marks = strategies.iter().map(move |strategy| Marks { strategy: *strategy, ..marks });
            marks.map(|marks| Replay { marks: Some(marks), ..self.replay }).collect()
        };
        let mut replays: Vec<Replay<'_, '_, '_>> = self.replay.marks.map_or_else(Vec::new, with);
        if replays.is_empty() {
            replays.push(self.replay);
        }
        let mut items = Vec::new();
        for (at, replay) in replays.iter().enumerate() {
            // Without marks one strategy is like the other.
            let courses = Course::ALL.into_iter().filter(|course| at == 0 || *course != Course::Nothing);
            for course in courses {
                let policy = course
                    .policy(self.config, &self.policy.model)
                    .map_err(|invalid| Failure::Wrong(invalid.to_string()))?;
                items.push((replay, course, policy));
            }
        }
        let mut progress = Progress::of(Some(items.len()), "policies");
        let mut rows = Vec::new();
        let work = |known: &mut Known, (replay, course, policy): (&Replay<'_, '_, '_>, Course, Policy)| {
            Ok(row(course, replay.marks, &policy, replay.run(course, &policy, known)?))
        };
        let broken = parallel::in_order(items.into_iter(), work, |row: Result<Row, Refused>| {
            progress.step();
            match row {
                Ok(row) => rows.push(row),
                Err(refused) => return ControlFlow::Break(refused),
            }
            ControlFlow::Continue(())
        });
        match broken {
            ControlFlow::Break(refused) => Err(Failure::World(format!(
                "a mistake of ours kept the session from being replayed: {refused}"
            ))),
            ControlFlow::Continue(()) => Ok(rows),
        }
    }

    /// What a reader of the figures should know.
    fn notes(&self, route: &Route) -> Vec<String> {
        let mut notes = Vec::new();
        match route {
            Route::Off(reason) => {
                notes.push(format!("without a cache every policy pays for every token: {reason}"));
            }
            Route::Key | Route::Automatic => {
                notes.push("the provider caches by itself, so breakpoints change nothing".to_owned());
            }
            Route::Marks { .. } => {}
        }
        if let Some(prices) = self.policy.prices.as_ref().filter(|prices| !prices.assumed.is_empty()) {
            let assumed: Vec<&str> = prices.assumed.iter().map(String::as_str).collect();
            notes.push(format!("some prices are assumed: {}", assumed.join(", ")));
        }
        if self.policy.model.is_assumed("window") {
            let window = self.policy.window;
            notes.push(format!("the window of {} is assumed to be {window} tokens", self.policy.model.name));
        }
        notes
    }
}

fn row(course: Course, marks: Option<Marks>, policy: &Policy, turns: Vec<Turn>) -> Row {
    let (usage, usd) = cost::total(&turns);
    let forgotten = || turns.iter().flat_map(|turn| &turn.forgotten);
    let compacted = compactions(&turns);
    let window = policy.window;
    Row {
        name: course.to_string(),
        strategy: marks.map(|marks| marks.strategy).filter(|_| course != Course::Nothing),
        compactions: compacted.len(),
        forgotten: forgotten().count(),
        forgotten_usd: forgotten().fold(Dollars::ZERO, |sum, step| sum + step.bill.total()),
        cached: usage.read.unwrap_or_default(),
        written: usage.written.unwrap_or_default(),
        fresh: usage.fresh(),
        output: usage.output.unwrap_or_default(),
        usd,
        saved: None,
        hit_rate: usage.hit_rate(),
        largest: turns.iter().map(|turn| turn.tokens).max().unwrap_or_default(),
        over_window: turns.iter().filter(|turn| turn.tokens > window).count(),
        compacted,
        course,
        turns,
    }
}

/// The compactions of a replay, each with what was forgotten up to the next.
fn compactions(turns: &[Turn]) -> Vec<Compaction> {
    let mut compactions: Vec<Compaction> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        compactions.extend(turn.compacted.as_ref().map(|done| Compaction {
            request: at + 1,
            minute: turn.at.as_secs_f64() / 60.0,
            before: done.before,
            after: done.after,
            forgotten: 0,
            fetched: Tokens::ZERO,
            reason: done.reason.clone(),
            verdict: done.verdict,
        }));
        if let Some(last) = compactions.last_mut() {
            last.forgotten += turn.forgotten.len();
            last.fetched += turn.forgotten.iter().map(|step| step.tokens).sum::<Tokens>();
        }
    }
    compactions
}

fn give(args: &CostArgs, answer: &Answer, shown: &str) -> Result<(), Failure> {
    let is_page = |path: &&Path| path.extension().is_some_and(|e| e == "html" || e == "htm");
    let to = args.answer.to();
    let page = to.filter(is_page);
    if let Some(path) = page {
        output::write(Some(path), page::page(answer, &name(shown)).as_bytes())?;
    }
    let to = to.filter(|_| page.is_none());
    if args.answer.json {
        return output::write_json(to, answer);
    }
    answer.notes.iter().for_each(|note| output::say(&format!("{shown}: {note}")));
    output::give(to, &table::page(answer))
}

/// A body's name without the folders that it is in.
fn name(shown: &str) -> String {
    Path::new(shown).file_name().map_or_else(|| shown.to_owned(), |name| name.to_string_lossy().into_owned())
}
