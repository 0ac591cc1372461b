//! `longhaul sessions`: lists the sessions of the coding agents on this machine, and those in the store.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anstyle::Style;
use longhaul_agents::{Agent, AgentSession, ReadOptions, SessionLocation, SessionReadError, Timestamp};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::config::Config;
use longhaul_engine::meter::Meter;
use longhaul_engine::models::{self, Model};
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::store::HistoryPoint;
use serde::Serialize;

use crate::agent_session::{self, LoadedSession};
use crate::cli::{SessionSource, SessionsArgs};
use crate::config::{Environment, Settings, StoreConfig};
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, Page, SECONDARY_STYLE, StyledLine};
use crate::parallel;
use crate::progress::Progress;
use crate::recorded_cost::{CostSource, sum_recorded_cost};
use crate::request_body::RequestBody;
use crate::store::{ConfiguredStore, OpenStore, OwnedSession};

/// A limit that no store reaches. It is half of the maximum, so that it also fits a signed SQL integer.
const NO_LIMIT: usize = usize::MAX >> 1;

#[derive(Serialize)]
struct SessionsOutput {
    sessions: Vec<SessionsRow>,
    /// The number of sessions beyond `--limit`.
    more: usize,
    failed: Vec<SessionsFailure>,
}

#[derive(Serialize)]
struct SessionsRow {
    /// The name that other commands accept: `AGENT:ID`, or `store:ID`.
    name: String,
    agent: &'static str,
    id: String,
    /// The tenant of a stored session.
    tenant: Option<String>,
    path: PathBuf,
    project: Option<String>,
    title: Option<String>,
    started: Option<String>,
    updated: Option<String>,
    model: Option<String>,
    messages: usize,
    tokens: Tokens,
    tokens_by: CountSource,
    window: Option<Tokens>,
    share: Option<f64>,
    compactions: usize,
    requests: usize,
    usd: Option<f64>,
    usd_by: Option<CostSource>,
    /// The parent of a stored session.
    parent: Option<String>,
    reason: Option<&'static str>,
    notes: Vec<String>,
    #[serde(skip)]
    last_change: Option<Timestamp>,
    /// The name with only as much of the ID as distinguishes it from the others.
    #[serde(skip)]
    short_name: String,
}

/// The source of a token count.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CountSource {
    Provider,
    Longhaul,
}

#[derive(Serialize)]
struct SessionsFailure {
    path: PathBuf,
    message: String,
}

/// A session that was found but not read yet.
enum FoundSession {
    Agent(SessionLocation),
    Stored(Box<OwnedSession>),
}

impl FoundSession {
    fn last_change(&self) -> Option<Timestamp> {
        match self {
            Self::Agent(location) => location.modified,
            Self::Stored(owned) => Some(owned.session.updated),
        }
    }
}

pub(crate) fn run(args: &SessionsArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.store_flags.config.as_deref(), environment, Vec::new())?;
    let user_environment = agent_session::current_machine();
    let now = Timestamp::from(SystemTime::now());
    let agents = match args.agent {
        None => longhaul_agents::list_sessions(&user_environment, None),
        Some(SessionSource::Agent(agent)) => longhaul_agents::list_sessions(&user_environment, Some(agent)),
        Some(SessionSource::Store) => Vec::new(),
    };
    let ids: Vec<(Agent, String)> =
        agents.iter().map(|location| (location.agent, location.id.clone().unwrap_or_default())).collect();
    let mut failed = Vec::new();
    let store = open_store(args, &settings, environment, &mut failed)?;
    let mut found: Vec<FoundSession> = agents.into_iter().map(FoundSession::Agent).collect();
    if let Some(open) = &store {
        found.extend(stored_sessions(open)?.into_iter().map(|owned| FoundSession::Stored(Box::new(owned))));
    }
    if let Some(since) = args.since {
        let since = since.earliest(now);
        found.retain(|found| found.last_change().is_none_or(|touched| touched >= since));
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.last_change()));
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let more = found.len().saturating_sub(limit);
    found.truncate(limit);
    let mut sessions = read_rows(&settings.engine, store.as_ref(), &ids, found, &mut failed);
    sessions.sort_by_key(|row| std::cmp::Reverse(row.last_change));
    let output = SessionsOutput { sessions, more, failed };
    if args.output.json {
        return output::write_json(args.output.file(), &output);
    }
    for SessionsFailure { message, .. } in &output.failed {
        output::print_message(message);
    }
    if output.sessions.is_empty() {
        let whose = args.agent.map_or(String::new(), |whose| match whose {
            SessionSource::Agent(agent) => format!(" of {agent}"),
            SessionSource::Store => " of the store".to_owned(),
        });
        let since = if args.since.is_some() { " in that time" } else { "" };
        output::print_message(&format!(
            "no sessions{whose} found{since}; longhaul sessions --help lists the agents that are searched"
        ));
        return Ok(());
    }
    let store_option = crate::store::store_option(args.store_flags.store.as_deref());
    output::write_page(args.output.file(), &page(&output, &store_option, &user_environment.home, now))
}

/// Opens the store, if it exists and its sessions are wanted. If it cannot be read, that is only reported,
/// unless the user asked for the store.
fn open_store(
    args: &SessionsArgs,
    settings: &Settings,
    environment: &Environment,
    failed: &mut Vec<SessionsFailure>,
) -> Result<Option<OpenStore>, Failure> {
    if matches!(args.agent, Some(SessionSource::Agent(_))) {
        return Ok(None);
    }
    let typed = args.store_flags.store.as_deref();
    let is_asked = typed.is_some() || args.agent == Some(SessionSource::Store);
    let whereabouts = match ConfiguredStore::new(typed, &settings.app.store, environment) {
        // Without a home directory there is no default store to list.
        Err(_) if !is_asked && settings.app.store == StoreConfig::default() => return Ok(None),
        other => other?,
    };
    if typed.is_some() {
        return whereabouts.open_existing().map(Some);
    }
    match whereabouts.open_if_exists() {
        Err(failure) if !is_asked => {
            let (path, message) = (PathBuf::from(whereabouts.label()), failure.to_string());
            failed.push(SessionsFailure { path, message });
            Ok(None)
        }
        opened => opened,
    }
}

/// Lists the stored sessions of all tenants.
fn stored_sessions(store: &OpenStore) -> Result<Vec<OwnedSession>, Failure> {
    let mut all = Vec::new();
    for tenant in store.tenants()? {
        let sessions = store.run(store.store.sessions(&tenant, NO_LIMIT))?;
        all.extend(sessions.into_iter().map(|session| OwnedSession { tenant: tenant.clone(), session }));
    }
    Ok(all)
}

/// Reads the sessions on all cores. A session that cannot be read is added to `failed`, and the others are
/// still listed.
fn read_rows(
    config: &Config,
    store: Option<&OpenStore>,
    ids: &[(Agent, String)],
    found: Vec<FoundSession>,
    failed: &mut Vec<SessionsFailure>,
) -> Vec<SessionsRow> {
    let mut progress = Progress::new(Some(found.len()), "sessions");
    let mut rows = Vec::new();
    let work = |cache: &mut BlockCache, found: FoundSession| match (found, store) {
        (FoundSession::Agent(location), _) => match longhaul_agents::read(&location, &ReadOptions::default()) {
            Ok(session) => {
                let mut row = agent_row(config, cache, &location, session);
                row.short_name = short_name(location.agent, &row.id, ids);
                Ok(row)
            }
            Err(SessionReadError::Invalid(message) | SessionReadError::Io(message)) => {
                Err(SessionsFailure { path: location.path, message })
            }
        },
        (FoundSession::Stored(owned), Some(store)) => stored_row(store, cache, &owned).map_err(|failure| {
            let (path, message) = (PathBuf::from(store.label()), failure.to_string());
            SessionsFailure { path, message }
        }),
        (FoundSession::Stored(owned), None) => Err(SessionsFailure {
            path: PathBuf::new(),
            message: format!("session {} no longer exists", owned.session.name),
        }),
    };
    let _: ControlFlow<()> =
        parallel::map_in_order(found.into_iter(), work, |row: Result<SessionsRow, SessionsFailure>| {
            progress.step();
            match row {
                Ok(row) => rows.push(row),
                Err(failure) => failed.push(failure),
            }
            ControlFlow::Continue(())
        });
    rows
}

/// Makes the row of a stored session. Its tokens are our own count of the request that would be sent now.
fn stored_row(open_store: &OpenStore, cache: &mut BlockCache, owned: &OwnedSession) -> Result<SessionsRow, Failure> {
    let (store, OwnedSession { tenant, session }) = (&open_store.store, owned);
    let body = open_store.session_body(owned, HistoryPoint::Now)?;
    let compactions = open_store.run(store.compactions(tenant, session))?;
    let requests = open_store.run(store.requests(tenant, session))?;
    let parent = match session.parent {
        Some(_) => open_store.run(store.lineage(tenant, session))?.ancestors.into_iter().next(),
        None => None,
    };
    let model = models::find(session.model.as_deref().unwrap_or("unknown"));
    let tokens = count_tokens(cache, &model, session.api_format, &body);
    let name = crate::store::qualified_name(&session.name);
    let mut row = SessionsRow {
        short_name: name.clone(),
        name,
        agent: SessionSource::Store.name(),
        id: session.name.clone(),
        tenant: Some(tenant.name().to_owned()),
        path: PathBuf::from(open_store.label()),
        project: None,
        title: session.title.clone(),
        started: Some(session.created.to_string()),
        updated: Some(session.updated.to_string()),
        model: session.model.clone(),
        messages: session.body_message_count(),
        tokens,
        tokens_by: CountSource::Longhaul,
        window: session.model.as_ref().map(|_| model.facts.input_window()),
        share: None,
        compactions: compactions.len(),
        requests: requests.len(),
        usd: None,
        usd_by: None,
        parent: parent.map(|parent| parent.name),
        reason: Some(session.origin.name()),
        notes: Vec::new(),
        last_change: Some(session.updated),
    };
    row.share = window_share(&row);
    Ok(row)
}

/// Returns the share of the context window that the session uses.
fn window_share(row: &SessionsRow) -> Option<f64> {
    let window = row.window.filter(|window| window.number() > 0)?;
    Some(row.tokens.number() as f64 / window.number() as f64)
}

fn agent_row(
    config: &Config,
    cache: &mut BlockCache,
    location: &SessionLocation,
    session: AgentSession,
) -> SessionsRow {
    let cost = sum_recorded_cost(&session, config);
    let (tokens, tokens_by) = match reported_tokens(&session) {
        Some(tokens) => (tokens, CountSource::Provider),
        None => (Tokens::ZERO, CountSource::Longhaul),
    };
    let model = session.model.as_deref().map(models::find);
    let loaded = LoadedSession { label: location.path.display().to_string(), session };
    let session = &loaded.session;
    // Use the ID by which other commands find the session.
    let id = location.id.clone().unwrap_or_else(|| session.id.clone());
    let mut row = SessionsRow {
        name: format!("{}:{id}", session.agent),
        agent: session.agent.name(),
        id,
        tenant: None,
        path: location.path.clone(),
        project: session.project.clone(),
        title: session.title.clone(),
        started: session.started.map(|time| time.to_string()),
        updated: session.updated.or(location.modified).map(|time| time.to_string()),
        model: session.model.clone(),
        messages: session.messages.len(),
        tokens,
        tokens_by,
        window: model.as_ref().map(|model| model.facts.input_window()),
        share: None,
        compactions: session.compactions,
        requests: session.requests.len(),
        usd: cost.as_ref().map(|cost| cost.usd.0),
        usd_by: cost.as_ref().map(|cost| cost.by),
        parent: None,
        reason: None,
        notes: session.warnings.clone(),
        last_change: session.updated.or(location.modified),
        short_name: String::new(),
    };
    if row.tokens_by == CountSource::Longhaul {
        row.tokens = count_session(cache, loaded);
    }
    row.share = window_share(&row);
    row
}

/// Returns the provider's count of the last request whose reply is still part of the session, plus that
/// reply.
fn reported_tokens(session: &AgentSession) -> Option<Tokens> {
    let last = session.requests.iter().rev().find(|request| request.reply_index.is_some())?;
    Some(last.usage.input? + last.usage.output.unwrap_or_default())
}

fn count_session(cache: &mut BlockCache, loaded: LoadedSession) -> Tokens {
    let name = loaded.session.model.clone();
    let api_format = loaded.session.api_format;
    let body = RequestBody::from_agent_session(loaded);
    let model = models::find(name.as_deref().unwrap_or("unknown"));
    count_tokens(cache, &model, api_format, &body.text)
}

fn count_tokens(cache: &mut BlockCache, model: &Model, api_format: ApiFormat, body: &str) -> Tokens {
    match longhaul_engine::wire::parse(Some(api_format), body) {
        Ok((transcript, _)) => Meter::for_model(model).breakdown(cache, &transcript).total(),
        Err(_) => Tokens::ZERO,
    }
}

const COLUMNS: [&str; 9] =
    ["session", "project", "when", "messages", "tokens", "window", "compacted", "cost", "tenant"];

/// The columns that contain numbers, which are aligned to the right.
const NUMBER_COLUMNS: std::ops::Range<usize> = 3..8;

fn page(output: &SessionsOutput, store_option: &str, home: &Path, now: Timestamp) -> Page {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(output.sessions.iter().map(|row| row_cells(row, home, now)));
    let tenants: BTreeSet<&str> = output.sessions.iter().filter_map(|row| row.tenant.as_deref()).collect();
    if tenants.len() < 2 {
        // With one tenant the column says nothing. It is the last one, so empty cells hide it.
        for row in &mut rows {
            row[COLUMNS.len() - 1].clear();
        }
    }
    let widths: [usize; 9] = std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let mut page = Page::default();
    page.add_table(rows.into_iter().enumerate().map(|(line, row)| {
        let style = if line == 0 { EMPHASIS_STYLE } else { Style::new() };
        let mut columns = widths.into_iter().enumerate();
        row.map(|cell| {
            // Align numbers with the right edge of their heading.
            let cell = match columns.next() {
                Some((column, width)) if NUMBER_COLUMNS.contains(&column) => format!("{cell:>width$}"),
                _ => cell,
            };
            StyledLine::default().styled(style, cell)
        })
    }));
    page.add_blank();
    for line in footnotes(output, store_option) {
        page.add_line(StyledLine::default().styled(SECONDARY_STYLE, line));
    }
    page
}

fn row_cells(row: &SessionsRow, home: &Path, now: Timestamp) -> [String; 9] {
    let estimate_sign = if row.tokens_by == CountSource::Longhaul { "~" } else { "" };
    let project = match (&row.parent, row.reason) {
        (Some(parent), Some(reason)) => {
            truncate_title(&format!("{} {parent}: {}", origin_text(reason), title_or_dash(row)))
        }
        (None, Some(_)) => truncate_title(title_or_dash(row)),
        _ => shorten_path(row.project.as_deref().unwrap_or(title_or_dash(row)), home),
    };
    let cost_sign = if row.usd_by == Some(CostSource::Agent) { "*" } else { "" };
    [
        row.short_name.clone(),
        project,
        row.last_change.map_or_else(|| "-".to_owned(), |at| format_age(at, now)),
        row.messages.to_string(),
        format!("{estimate_sign}{}", row.tokens),
        row.share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
        row.compactions.to_string(),
        row.usd.map_or_else(|| "-".to_owned(), |usd| format!("{}{cost_sign}", longhaul_engine::prices::Dollars(usd))),
        row.tenant.clone().unwrap_or_default(),
    ]
}

fn footnotes(output: &SessionsOutput, store_option: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    let any = |test: fn(&SessionsRow) -> bool| output.sessions.iter().any(test);
    remarks
        .push("tokens: the provider's count of the last request and its reply; window: their share of it".to_owned());
    if any(|row| row.tokens_by == CountSource::Longhaul) {
        remarks.push(
            "~ our own count; the system prompt and tools are missing if the file does not contain them".to_owned(),
        );
    }
    if any(|row| row.usd.is_some() && row.usd_by != Some(CostSource::Agent)) {
        remarks.push(
            "cost: the recorded usage, at today's prices; without the usage of subagents in their own files".to_owned(),
        );
    }
    if any(|row| row.usd_by == Some(CostSource::Agent)) {
        remarks.push("* the agent's own figure".to_owned());
    }
    let priced = output.sessions.iter().find(|row| row.usd.is_some());
    if let Some(row) = priced.or(output.sessions.first()) {
        let name = if row.short_name.contains(' ') { format!("'{}'", row.short_name) } else { row.short_name.clone() };
        let location = if row.agent == SessionSource::Store.name() { store_option } else { "" };
        remarks.push(format!("the cost of a session, and of alternatives: longhaul cost {name}{location}"));
    }
    if let Some(row) = output.sessions.iter().find(|row| row.agent == SessionSource::Store.name()) {
        remarks.push(format!("details of a session of the store: longhaul show {}{store_option}", row.id));
    }
    if output.more > 0 {
        remarks.push(format!("{} not shown; --limit 0 shows all", output::pluralize(output.more, "older session")));
    }
    remarks
}

/// Shortens the ID to the shortest prefix, of at least eight characters, that distinguishes the session from
/// all others of its agent.
fn short_name(agent: Agent, id: &str, all: &[(Agent, String)]) -> String {
    const MIN_ID_CHARS: usize = 8;
    let ends = id.char_indices().map(|(at, _)| at).skip(MIN_ID_CHARS).chain([id.len()]);
    let is_unique =
        |start: &str| all.iter().filter(|(owner, other)| *owner == agent && other.starts_with(start)).count() < 2;
    let start = ends.map(|end| &id[..end]).find(|start| is_unique(start)).unwrap_or(id);
    format!("{agent}:{start}")
}

fn title_or_dash(row: &SessionsRow) -> &str {
    row.title.as_deref().unwrap_or("-")
}

/// Describes how a session is related to its parent.
fn origin_text(reason: &str) -> &str {
    match reason {
        "fork" => "fork of",
        "restart" => "restart of",
        _ => "continues",
    }
}

/// The maximum width of the column of projects and titles, in characters. Chosen by hand for a terminal.
const MAX_PROJECT_CHARS: usize = 36;

/// Truncates a title to the width of its column.
fn truncate_title(title: &str) -> String {
    match title.char_indices().nth(MAX_PROJECT_CHARS) {
        Some(_) => title.chars().take(MAX_PROJECT_CHARS - 1).chain(['…']).collect(),
        None => title.to_owned(),
    }
}

/// Abbreviates the home directory as `~`, and cuts the start of a path that is too wide for its column.
fn shorten_path(project: &str, home: &Path) -> String {
    let home = home.to_string_lossy();
    let shown = match project.strip_prefix(home.as_ref()).filter(|_| home.len() > 1) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => project.to_owned(),
    };
    let length = shown.chars().count();
    if length <= MAX_PROJECT_CHARS {
        shown
    } else {
        format!("…{}", shown.chars().skip(length - MAX_PROJECT_CHARS + 1).collect::<String>())
    }
}

/// Formats the age in the largest useful unit, or as a date after two weeks.
fn format_age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.seconds_since(at);
    match seconds / 60.0 {
        minutes if minutes < 1.0 => "now".to_owned(),
        minutes if minutes < 60.0 => format!("{minutes:.0} min ago"),
        minutes if minutes < 48.0 * 60.0 => format!("{:.0} h ago", minutes / 60.0),
        minutes if minutes < 14.0 * 24.0 * 60.0 => format!("{:.0} d ago", minutes / 1440.0),
        _ => at.to_string().chars().take(10).collect(),
    }
}
