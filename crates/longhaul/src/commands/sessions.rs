//! `longhaul sessions`: the sessions of the coding agents on this machine, and those of the store.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anstyle::Style;
use longhaul_engine::config::Config;
use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::models::{self, Model};
use longhaul_engine::{Dialect, Tokens};
use longhaul_server::agents::{self, Agent, Asked, Moment, Place, Session, Unread};
use longhaul_server::store::At;
use serde::Serialize;

use crate::body::Body;
use crate::cli::{SessionsArgs, Whose};
use crate::config::{Environment, Settings, StoreSettings};
use crate::failure::Failure;
use crate::output::{self, FAINT, Line, Page, STRONG};
use crate::paid::{By, paid};
use crate::parallel;
use crate::progress::Progress;
use crate::session::{self, Read};
use crate::store::{Kept, Owned, Whereabouts};

/// More sessions than any store has.
const MOST: usize = usize::MAX >> 1;

#[derive(Serialize)]
struct Answer {
    sessions: Vec<Row>,
    /// How many more there are than the limit lets through.
    more: usize,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Row {
    /// What commands take: the agent and the id.
    name: String,
    agent: &'static str,
    id: String,
    /// Of the store: whose it is.
    tenant: Option<String>,
    path: PathBuf,
    project: Option<String>,
    title: Option<String>,
    started: Option<String>,
    updated: Option<String>,
    model: Option<String>,
    messages: usize,
    tokens: Tokens,
    tokens_by: Counted,
    window: Option<Tokens>,
    share: Option<f64>,
    compactions: usize,
    requests: usize,
    usd: Option<f64>,
    usd_by: Option<By>,
    /// Of the store: the session that it comes from, and how.
    parent: Option<String>,
    reason: Option<&'static str>,
    notes: Vec<String>,
    #[serde(skip)]
    at: Option<Moment>,
    /// The name with as much of the id as tells it from the others.
    #[serde(skip)]
    short: String,
}

/// Who counted.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Counted {
    Provider,
    Longhaul,
}

#[derive(Serialize)]
struct Failed {
    path: PathBuf,
    message: String,
}

/// A session that was found and not read yet.
enum Found {
    Agents(Place),
    Stored(Box<Owned>),
}

impl Found {
    fn touched(&self) -> Option<Moment> {
        match self {
            Self::Agents(place) => place.touched,
            Self::Stored(owned) => Some(owned.session.updated),
        }
    }
}

pub(crate) fn run(args: &SessionsArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.place.config.as_deref(), environment, Vec::new())?;
    let machine = session::machine();
    let now = Moment::of_system(SystemTime::now());
    let agents = match args.agent {
        None => agents::sessions(&machine, None),
        Some(Whose::Agent(agent)) => agents::sessions(&machine, Some(agent)),
        Some(Whose::Store) => Vec::new(),
    };
    let ids: Vec<(Agent, String)> =
        agents.iter().map(|place| (place.agent, place.id.clone().unwrap_or_default())).collect();
    let mut failed = Vec::new();
    let kept = open(args, &settings, environment, &mut failed)?;
    let mut found: Vec<Found> = agents.into_iter().map(Found::Agents).collect();
    if let Some(kept) = &kept {
        found.extend(stored(kept)?.into_iter().map(|owned| Found::Stored(Box::new(owned))));
    }
    if let Some(since) = args.since {
        let since = since.moment(now);
        found.retain(|found| found.touched().is_none_or(|touched| touched >= since));
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.touched()));
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let more = found.len().saturating_sub(limit);
    found.truncate(limit);
    let mut sessions = read_all(&settings.engine, kept.as_ref(), &ids, found, &mut failed);
    sessions.sort_by_key(|row| std::cmp::Reverse(row.at));
    let answer = Answer { sessions, more, failed };
    if args.answer.json {
        return output::write_json(args.answer.to(), &answer);
    }
    for Failed { message, .. } in &answer.failed {
        output::say(message);
    }
    if answer.sessions.is_empty() {
        let whose = args.agent.map_or(String::new(), |whose| match whose {
            Whose::Agent(agent) => format!(" of {agent}"),
            Whose::Store => " of the store".to_owned(),
        });
        let since = if args.since.is_some() { " in that time" } else { "" };
        output::say(&format!(
            "no sessions{whose} found{since}; longhaul sessions --help says whose are looked for"
        ));
        return Ok(());
    }
    let place = crate::store::option(args.place.store.as_deref());
    output::give(args.answer.to(), &page(&answer, &place, &machine.home, now))
}

/// The store, if there is one and its sessions are wanted. That it cannot be read is said, unless it is all that was asked for.
fn open(
    args: &SessionsArgs,
    settings: &Settings,
    environment: &Environment,
    failed: &mut Vec<Failed>,
) -> Result<Option<Kept>, Failure> {
    if matches!(args.agent, Some(Whose::Agent(_))) {
        return Ok(None);
    }
    let typed = args.place.store.as_deref();
    let is_asked = typed.is_some() || args.agent == Some(Whose::Store);
    let whereabouts = match Whereabouts::new(typed, &settings.shell.store, environment) {
        // Without a home there is no store to list.
        Err(_) if !is_asked && settings.shell.store == StoreSettings::default() => return Ok(None),
        other => other?,
    };
    if typed.is_some() {
        return whereabouts.existing().map(Some);
    }
    match whereabouts.look() {
        Err(failure) if !is_asked => {
            let (path, message) = (PathBuf::from(whereabouts.shown()), failure.to_string());
            failed.push(Failed { path, message });
            Ok(None)
        }
        opened => opened,
    }
}

/// The sessions of the store, whosever they are.
fn stored(kept: &Kept) -> Result<Vec<Owned>, Failure> {
    let mut all = Vec::new();
    for tenant in kept.tenants()? {
        let sessions = kept.run(kept.store.sessions(&tenant, MOST))?;
        all.extend(sessions.into_iter().map(|session| Owned { tenant: tenant.clone(), session }));
    }
    Ok(all)
}

/// Reads them on all cores. One that cannot be read is no reason to be silent about the others.
fn read_all(
    config: &Config,
    kept: Option<&Kept>,
    ids: &[(Agent, String)],
    found: Vec<Found>,
    failed: &mut Vec<Failed>,
) -> Vec<Row> {
    let mut progress = Progress::of(Some(found.len()), "sessions");
    let mut rows = Vec::new();
    let work = |known: &mut Known, found: Found| match (found, kept) {
        (Found::Agents(place), _) => match agents::read(&place, &Asked::default()) {
            Ok(session) => {
                let mut row = row(config, known, &place, session);
                row.short = short(place.agent, &row.id, ids);
                Ok(row)
            }
            Err(Unread::Wrong(message) | Unread::World(message)) => Err(Failed { path: place.path, message }),
        },
        (Found::Stored(owned), Some(kept)) => stored_row(kept, known, &owned).map_err(|failure| {
            let (path, message) = (PathBuf::from(kept.shown()), failure.to_string());
            Failed { path, message }
        }),
        (Found::Stored(owned), None) => {
            Err(Failed { path: PathBuf::new(), message: format!("session {} is gone", owned.session.name) })
        }
    };
    let _: ControlFlow<()> = parallel::in_order(found.into_iter(), work, |read: Result<Row, Failed>| {
        progress.step();
        match read {
            Ok(row) => rows.push(row),
            Err(failure) => failed.push(failure),
        }
        ControlFlow::Continue(())
    });
    rows
}

/// The row of a session of the store: what would be sent now, by our own count.
fn stored_row(kept: &Kept, known: &mut Known, owned: &Owned) -> Result<Row, Failure> {
    let (store, Owned { tenant, session }) = (&kept.store, owned);
    let body = kept.body(owned, At::Now)?;
    let epochs = kept.run(store.epochs(tenant, session))?;
    let requests = kept.run(store.requests(tenant, session))?;
    let parent = match session.parent {
        Some(_) => kept.run(store.lineage(tenant, session))?.ancestors.into_iter().next(),
        None => None,
    };
    let model = models::find(session.model.as_deref().unwrap_or("unknown"));
    let tokens = tokens_of(known, &model, session.dialect, &body);
    let name = crate::store::name(&session.name);
    let mut row = Row {
        short: name.clone(),
        name,
        agent: Whose::Store.name(),
        id: session.name.clone(),
        tenant: Some(tenant.name().to_owned()),
        path: PathBuf::from(kept.shown()),
        project: None,
        title: session.title.clone(),
        started: Some(session.created.to_string()),
        updated: Some(session.updated.to_string()),
        model: session.model.clone(),
        messages: session.messages(),
        tokens,
        tokens_by: Counted::Longhaul,
        window: session.model.as_ref().map(|_| model.facts.input_window()),
        share: None,
        compactions: epochs.len(),
        requests: requests.len(),
        usd: None,
        usd_by: None,
        parent: parent.map(|parent| parent.name),
        reason: Some(session.reason.name()),
        notes: Vec::new(),
        at: Some(session.updated),
    };
    row.share = share(&row);
    Ok(row)
}

/// What of the window it takes.
fn share(row: &Row) -> Option<f64> {
    let window = row.window.filter(|window| window.number() > 0)?;
    Some(row.tokens.number() as f64 / window.number() as f64)
}

fn row(config: &Config, known: &mut Known, place: &Place, session: Session) -> Row {
    let paid = paid(&session, config);
    let (tokens, tokens_by) = match recorded(&session) {
        Some(tokens) => (tokens, Counted::Provider),
        None => (Tokens::ZERO, Counted::Longhaul),
    };
    let model = session.model.as_deref().map(models::find);
    let read = Read { shown: place.path.display().to_string(), session };
    let session = &read.session;
    // What it is found by.
    let id = place.id.clone().unwrap_or_else(|| session.id.clone());
    let mut row = Row {
        name: format!("{}:{id}", session.agent),
        agent: session.agent.name(),
        id,
        tenant: None,
        path: place.path.clone(),
        project: session.project.clone(),
        title: session.title.clone(),
        started: session.started.map(|moment| moment.to_string()),
        updated: session.updated.or(place.touched).map(|moment| moment.to_string()),
        model: session.model.clone(),
        messages: session.turns.len(),
        tokens,
        tokens_by,
        window: model.as_ref().map(|model| model.facts.input_window()),
        share: None,
        compactions: session.compactions,
        requests: session.requests.len(),
        usd: paid.as_ref().map(|paid| paid.usd.0),
        usd_by: paid.as_ref().map(|paid| paid.by),
        parent: None,
        reason: None,
        notes: session.damage.clone(),
        at: session.updated.or(place.touched),
        short: String::new(),
    };
    if row.tokens_by == Counted::Longhaul {
        row.tokens = count(known, read);
    }
    row.share = share(&row);
    row
}

/// The size of the last request and its reply, as the provider counted, where that is still what would be sent.
fn recorded(session: &Session) -> Option<Tokens> {
    let last = session.requests.iter().rev().find(|request| request.reply.is_some())?;
    Some(last.usage.input? + last.usage.output.unwrap_or_default())
}

fn count(known: &mut Known, read: Read) -> Tokens {
    let name = read.session.model.clone();
    let dialect = read.session.dialect;
    let body = Body::of_session(read);
    let model = models::find(name.as_deref().unwrap_or("unknown"));
    tokens_of(known, &model, dialect, &body.text)
}

fn tokens_of(known: &mut Known, model: &Model, dialect: Dialect, body: &str) -> Tokens {
    match longhaul_engine::wire::parse(Some(dialect), body) {
        Ok((transcript, _)) => Meter::of(model).parts(known, &transcript).total(),
        Err(_) => Tokens::ZERO,
    }
}

const HEAD: [&str; 9] =
    ["session", "project", "when", "messages", "tokens", "window", "compacted", "cost", "tenant"];

/// The columns of numbers.
const NUMBERS: std::ops::Range<usize> = 3..8;

fn page(answer: &Answer, place: &str, home: &Path, now: Moment) -> Page {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(answer.sessions.iter().map(|row| cells(row, home, now)));
    let tenants: BTreeSet<&str> = answer.sessions.iter().filter_map(|row| row.tenant.as_deref()).collect();
    if tenants.len() < 2 {
        // The column is the last one, so that nobody sees it where it says nothing.
        for row in &mut rows {
            row[HEAD.len() - 1].clear();
        }
    }
    let widths: [usize; 9] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let mut page = Page::default();
    page.table(rows.into_iter().enumerate().map(|(line, row)| {
        let style = if line == 0 { STRONG } else { Style::new() };
        let mut columns = widths.into_iter().enumerate();
        row.map(|cell| {
            // Numbers stand under the ends of their names.
            let cell = match columns.next() {
                Some((column, width)) if NUMBERS.contains(&column) => format!("{cell:>width$}"),
                _ => cell,
            };
            Line::default().styled(style, cell)
        })
    }));
    page.blank();
    for line in remarks(answer, place) {
        page.line(Line::default().styled(FAINT, line));
    }
    page
}

fn cells(row: &Row, home: &Path, now: Moment) -> [String; 9] {
    let ours = if row.tokens_by == Counted::Longhaul { "~" } else { "" };
    let project = match (&row.parent, row.reason) {
        (Some(parent), Some(reason)) => clipped(&format!("{} {parent}: {}", origin(reason), title(row))),
        (None, Some(_)) => clipped(title(row)),
        _ => shortened(row.project.as_deref().unwrap_or(title(row)), home),
    };
    let by = if row.usd_by == Some(By::Agent) { "*" } else { "" };
    [
        row.short.clone(),
        project,
        row.at.map_or_else(|| "-".to_owned(), |at| ago(at, now)),
        row.messages.to_string(),
        format!("{ours}{}", row.tokens),
        row.share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
        row.compactions.to_string(),
        row.usd
            .map_or_else(|| "-".to_owned(), |usd| format!("{}{by}", longhaul_engine::prices::Dollars(usd))),
        row.tenant.clone().unwrap_or_default(),
    ]
}

fn remarks(answer: &Answer, place: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    let any = |test: fn(&Row) -> bool| answer.sessions.iter().any(test);
    remarks.push(
        "tokens: the provider's count of the last request and its reply; window: their share of it"
            .to_owned(),
    );
    if any(|row| row.tokens_by == Counted::Longhaul) {
        remarks.push(
            "~ our own count, without the system prompt and tools where the file does not hold them"
                .to_owned(),
        );
    }
    if any(|row| row.usd.is_some() && row.usd_by != Some(By::Agent)) {
        remarks.push("cost: the usage that was recorded, at today's prices; without what subagents used in files of their own".to_owned());
    }
    if any(|row| row.usd_by == Some(By::Agent)) {
        remarks.push("* the agent's own figure".to_owned());
    }
    let priced = answer.sessions.iter().find(|row| row.usd.is_some());
    if let Some(row) = priced.or(answer.sessions.first()) {
        let name = if row.short.contains(' ') { format!("'{}'", row.short) } else { row.short.clone() };
        let place = if row.agent == Whose::Store.name() { place } else { "" };
        remarks.push(format!("what one cost, and what it would have cost: longhaul cost {name}{place}"));
    }
    if let Some(row) = answer.sessions.iter().find(|row| row.agent == Whose::Store.name()) {
        remarks.push(format!("more about one of the store: longhaul show {}{place}", row.id));
    }
    if answer.more > 0 {
        remarks.push(format!("{} older ones are not shown; --limit 0 shows all", answer.more));
    }
    remarks
}

/// The name with enough of the id to be told from those of all others.
fn short(agent: Agent, id: &str, all: &[(Agent, String)]) -> String {
    const LEAST: usize = 8;
    let ends = id.char_indices().map(|(at, _)| at).skip(LEAST).chain([id.len()]);
    let alone = |start: &str| {
        all.iter().filter(|(whose, other)| *whose == agent && other.starts_with(start)).count() < 2
    };
    let start = ends.map(|end| &id[..end]).find(|start| alone(start)).unwrap_or(id);
    format!("{agent}:{start}")
}

fn title(row: &Row) -> &str {
    row.title.as_deref().unwrap_or("-")
}

/// What a session is to the one that it comes from.
fn origin(reason: &str) -> &str {
    match reason {
        "fork" => "fork of",
        "restart" => "restart of",
        _ => "goes on from",
    }
}

/// How wide the column of projects and titles may be.
const WIDEST: usize = 36;

/// A title, no longer than a column may be.
fn clipped(title: &str) -> String {
    match title.char_indices().nth(WIDEST) {
        Some(_) => title.chars().take(WIDEST - 1).chain(['…']).collect(),
        None => title.to_owned(),
    }
}

/// A folder as people write it, and no longer than a column may be.
fn shortened(project: &str, home: &Path) -> String {
    let home = home.to_string_lossy();
    let shown = match project.strip_prefix(home.as_ref()).filter(|_| home.len() > 1) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => project.to_owned(),
    };
    let length = shown.chars().count();
    if length <= WIDEST {
        shown
    } else {
        format!("…{}", shown.chars().skip(length - WIDEST + 1).collect::<String>())
    }
}

/// How long ago, in the largest unit that says something; days long gone by their date.
fn ago(at: Moment, now: Moment) -> String {
    let seconds = now.seconds_since(at);
    match seconds / 60.0 {
        minutes if minutes < 1.0 => "now".to_owned(),
        minutes if minutes < 60.0 => format!("{minutes:.0} min ago"),
        minutes if minutes < 48.0 * 60.0 => format!("{:.0} h ago", minutes / 60.0),
        minutes if minutes < 14.0 * 24.0 * 60.0 => format!("{:.0} d ago", minutes / 1440.0),
        _ => at.to_string().chars().take(10).collect(),
    }
}
