//! `longhaul cost`: a session, replayed on every course, and what each would have cost.

mod page;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use longhaul_engine::cache::{Ends, FIVE_MINUTES, Provider, Route, Rules};
use longhaul_engine::cost::{self, Course, Marks, Replay, Sent, Session, Turn, Verdict};
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use longhaul_engine::policy::{CacheStrategy, Config, Policy};
use longhaul_engine::prices::{Dollars, Prices};
use longhaul_engine::tokens::percent;
use longhaul_engine::{Dialect, Refused, Tokens};
use serde::Serialize;

use crate::body::{self, Body};
use crate::cli::{CostArgs, Strategies, caching_flags};
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{input, output, parallel, route};

#[derive(Serialize)]
struct Answer {
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
    cached: Tokens,
    written: Tokens,
    fresh: Tokens,
    output: Tokens,
    usd: Dollars,
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
    let body = Body::read(&args.body)?;
    let (transcript, notes) = body.parse(&args.told)?;
    let mut notes = body::note_lines(&transcript, &notes);
    let asked_model = body::model(&args.told, &transcript);
    let is_known = asked_model.row.is_some();
    let told = route::provider(args.cached.provider, &args.told, &transcript);
    let provider = told.or_else(|| route::vendor(transcript.dialect).filter(|_| !is_known));
    let model = route::model(&args.told, &transcript, provider, &mut notes);
    let mut flags = args.policy.flags(&model.name);
    flags.extend(caching_flags(args.cached.ttl, args.strategy.and_then(Strategies::one)));
    let settings = Settings::load(args.config.config.as_deref(), environment, flags)?;
    let (policy, warnings) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.refused(&invalid))?;
    notes.extend(settings.note_lines(&warnings));
    let Some(prices) = &policy.prices else {
        let name = &model.name;
        return Err(Failure::Wrong(format!(
            "no prices are known for {name}; name a model with --model, or state models.{name}.prices in the configuration"
        )));
    };
    let priced_as = PricedAs::new(&asked_model, &model, provider, prices);
    notes.extend(priced_as.iter().map(|p| format!("{} is priced as {}: {}", p.asked, p.row, p.why)));
    let route = Route::new(&policy.caching, &policy.model, provider, transcript.dialect);
    let session = Session::of(&transcript, &policy.model, &mut Known::default());
    let mut requests = session.requests();
    requests.truncate(args.requests.map_or(usize::MAX, |most| most as usize));
    if requests.is_empty() {
        return Err(Failure::Wrong(format!("{} holds no request that a reply could follow", body.shown)));
    }
    let (pauses, by) = pauses(args, &requests)?;
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
    let policies = asked.rows(if several { &CacheStrategy::ALL } else { &[] })?;
    let answer = Answer {
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
fn pauses(args: &CostArgs, requests: &[Sent]) -> Result<(Vec<Duration>, Pauses), Failure> {
    let seconds = |typed: f64, place: &str| {
        let pause = Duration::try_from_secs_f64(typed).ok().filter(|pause| *pause <= LONGEST_PAUSE);
        let wrong = || format!("{place} is {typed}; a pause is a number of seconds, from 0 to a year");
        pause.ok_or_else(|| Failure::Wrong(wrong()))
    };
    let (pauses, by, seed) = match (&args.pauses, args.pause) {
        (Some(path), _) => (recorded(path, requests.len(), seconds)?, "recorded", None),
        (None, Some(typed)) => (vec![seconds(typed, "--pause")?; requests.len()], "constant", None),
        (None, None) => (cost::pauses(requests, args.seed), "drawn", Some(args.seed)),
    };
    let over_five_minutes = pauses.iter().skip(1).filter(|pause| **pause > FIVE_MINUTES).count();
    Ok((pauses, Pauses { by, seed, over_five_minutes }))
}

/// The pauses of a file, one a line, before every request but the first.
fn recorded(
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
                notes.push("the provider caches by itself, so marks alone change nothing".to_owned());
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
    let minute = |turn: &Turn| turn.at.as_secs_f64() / 60.0;
    let compaction = |(at, turn): (usize, &Turn)| {
        let done = turn.compacted.as_ref()?;
        Some(Compaction {
            request: at + 1,
            minute: minute(turn),
            before: done.before,
            after: done.after,
            reason: done.reason.clone(),
            verdict: done.verdict,
        })
    };
    let compacted: Vec<Compaction> = turns.iter().enumerate().filter_map(compaction).collect();
    let window = policy.window;
    Row {
        name: course.to_string(),
        strategy: marks.map(|marks| marks.strategy).filter(|_| course != Course::Nothing),
        compactions: compacted.len(),
        cached: usage.read.unwrap_or_default(),
        written: usage.written.unwrap_or_default(),
        fresh: usage.fresh(),
        output: usage.output.unwrap_or_default(),
        usd,
        hit_rate: usage.hit_rate(),
        largest: turns.iter().map(|turn| turn.tokens).max().unwrap_or_default(),
        over_window: turns.iter().filter(|turn| turn.tokens > window).count(),
        compacted,
        course,
        turns,
    }
}

fn give(args: &CostArgs, answer: &Answer, shown: &str) -> Result<(), Failure> {
    let is_page = |path: &&Path| path.extension().is_some_and(|e| e == "html" || e == "htm");
    let to = args.answer.output.as_deref();
    let page = to.filter(is_page);
    if let Some(path) = page {
        output::write(Some(path), page::page(answer, &name(shown))?.as_bytes())?;
    }
    let to = to.filter(|_| page.is_none());
    if args.answer.json {
        return output::write_json(to, answer);
    }
    answer.notes.iter().for_each(|note| output::say(&format!("{shown}: {note}")));
    output::write(to, table(answer).as_bytes())
}

/// A body's name without the folders that it is in.
fn name(shown: &str) -> String {
    Path::new(shown).file_name().map_or_else(|| shown.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The table for people.
fn table(answer: &Answer) -> String {
    let nothing = answer.policies.first().map_or(0.0, |row| row.usd.0);
    let head =
        ["policy", "compactions", "cached", "written", "fresh", "hit rate", "largest", "cost", "saved", ""];
    let mut rows = vec![head.map(str::to_owned)];
    let dearest = answer.policies.iter().map(|row| row.usd.0).fold(0.0, f64::max);
    let cheapest = answer.policies.iter().map(|row| row.usd.0).fold(f64::INFINITY, f64::min);
    let several =
        answer.policies.iter().filter_map(|row| row.strategy).any(|s| Some(s) != answer.policies[1].strategy);
    for row in &answer.policies {
        let saved = percent(nothing - row.usd.0, nothing);
        let mut marks = Vec::new();
        if let Some(strategy) = row.strategy.filter(|_| several) {
            marks.push(strategy.name().to_owned());
        }
        if row.over_window > 0 {
            marks.push(format!("{} requests over the window", row.over_window));
        }
        if row.usd.0 <= cheapest && cheapest < dearest {
            marks.push("cheapest".to_owned());
        }
        rows.push([
            row.name.clone(),
            format!("{:>11}", row.compactions),
            format!("{:>12}", row.cached.to_string()),
            format!("{:>12}", row.written.to_string()),
            format!("{:>12}", row.fresh.to_string()),
            row.hit_rate.map_or_else(|| "       -".to_owned(), |rate| format!("{:>6.1} %", 100.0 * rate)),
            format!("{:>9}", row.largest.to_string()),
            format!("{:>9}", row.usd.to_string()),
            saved.map_or_else(|| "      -".to_owned(), |saved| format!("{saved:>5.1} %")),
            marks.join(", "),
        ]);
    }
    // Numbers stand under the ends of their names.
    for (at, width) in [(2, 12), (3, 12), (4, 12), (5, 8), (6, 9), (7, 9), (8, 7)] {
        rows[0][at] = format!("{:>width$}", rows[0][at]);
    }
    format!("{}\n{}", output::table(&rows), summary(answer))
}

/// What the figures rest on.
fn summary(answer: &Answer) -> String {
    let by = match answer.pauses.seed {
        Some(seed) => format!("drawn with seed {seed}"),
        None => answer.pauses.by.to_owned(),
    };
    format!(
        "{} {} over {:.0} minutes (pauses {by}; {} over five minutes) for {}: window {}, threshold {}\n{}; prices of {}, {} ({})\n",
        answer.requests,
        if answer.requests == 1 { "request" } else { "requests" },
        answer.minutes,
        answer.pauses.over_five_minutes,
        answer.model,
        answer.window,
        answer.threshold,
        answer.status,
        answer.prices.row.as_deref().unwrap_or(&answer.model),
        if answer.prices.date.is_empty() { "undated" } else { &answer.prices.date },
        answer.prices.source,
    )
}
