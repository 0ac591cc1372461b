//! `longhaul show`: one session of the store.

use longhaul_server::session::UNDO_HOLDS;
use longhaul_server::store::{Epoch, LOCAL_TENANT, Lineage, Request, Session, Tenant, Totals, Traffic};
use serde::Serialize;
use serde_json::Value;

use crate::cli::ShowArgs;
use crate::commands::traffic::Passed;
use crate::failure::Failure;
use crate::output::{self, FAINT, GOOD, Line, Page, STRONG};
use crate::store::{self, Kept, Owned, Whereabouts};

#[derive(Serialize)]
struct Answer<'a> {
    session: &'a str,
    /// Whose it is.
    tenant: &'a str,
    title: Option<&'a str>,
    model: Option<&'a str>,
    dialect: &'static str,
    state: &'static str,
    /// How it came to be.
    reason: &'static str,
    created: String,
    updated: String,
    messages: usize,
    /// How many of them it shares with its parent.
    shared: usize,
    /// Whether an undo keeps it from being compacted by itself.
    held: bool,
    /// The epoch in force.
    epoch: Option<usize>,
    requests: Vec<Asked>,
    /// From its parent up to the first.
    ancestors: Vec<Relative<'a>>,
    children: Vec<Relative<'a>>,
    epochs: Vec<View<'a>>,
    /// What went through the gateway, where anything did.
    traffic: Option<Passed<'a>>,
}

#[derive(Serialize)]
struct Asked {
    number: usize,
    messages: usize,
    at: String,
}

#[derive(Serialize)]
struct Relative<'a> {
    session: &'a str,
    title: Option<&'a str>,
    reason: &'static str,
    begins: usize,
}

#[derive(Serialize)]
struct View<'a> {
    epoch: usize,
    at: String,
    messages: usize,
    in_force: bool,
    /// The report, as it was made then.
    report: &'a Value,
}

/// One epoch by itself.
#[derive(Serialize)]
struct One<'a> {
    session: &'a str,
    epoch: usize,
    at: String,
    messages: usize,
    in_force: bool,
    report: &'a Value,
    checkpoint: Option<&'a str>,
}

/// All that is known of one session.
struct Told {
    /// The option that names its store again.
    place: String,
    tenant: Tenant,
    session: Session,
    lineage: Lineage,
    requests: Vec<Request>,
    epochs: Vec<Epoch>,
    totals: Totals,
    traffic: Vec<Traffic>,
}

impl Told {
    fn of(kept: &Kept, Owned { tenant, session }: Owned, place: String) -> Result<Self, Failure> {
        let store = &kept.store;
        let lineage = kept.run(store.lineage(&tenant, &session))?;
        let requests = kept.run(store.requests(&tenant, &session))?;
        let epochs = kept.run(store.epochs(&tenant, &session))?;
        let totals = kept.run(store.session_totals(&tenant, session.id))?;
        let traffic = kept.run(store.traffic(&tenant, session.id))?;
        Ok(Self { place, tenant, session, lineage, requests, epochs, totals, traffic })
    }

    fn passed(&self) -> Option<Passed<'_>> {
        Passed::of(&self.totals, &self.traffic)
    }

    fn in_force(&self, epoch: &Epoch) -> bool {
        self.session.head == Some(epoch.id)
    }

    fn view<'a>(&self, epoch: &'a Epoch) -> View<'a> {
        View {
            epoch: epoch.number,
            at: epoch.at.to_string(),
            messages: self.session.lead + epoch.length,
            in_force: self.in_force(epoch),
            report: &epoch.report,
        }
    }
}

pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let kept = Whereabouts::of(&args.place)?.existing()?;
    let told = Told::of(&kept, kept.session(&args.id)?, store::option(args.place.store.as_deref()))?;
    if let Some(number) = args.epoch {
        return one(args, &told, number);
    }
    if args.answer.json {
        return output::write_json(args.answer.to(), &answer(&told));
    }
    output::give(args.answer.to(), &page(&told))
}

fn answer(told: &Told) -> Answer<'_> {
    let Told { session, lineage, requests, epochs, .. } = told;
    let ask = |request: &Request| Asked {
        number: request.number,
        messages: session.lead + request.length,
        at: request.at.to_string(),
    };
    Answer {
        session: &session.name,
        tenant: told.tenant.name(),
        title: session.title.as_deref(),
        model: session.model.as_deref(),
        dialect: session.dialect.name(),
        state: session.state.name(),
        reason: session.reason.name(),
        created: session.created.to_string(),
        updated: session.updated.to_string(),
        messages: session.messages(),
        shared: session.begins,
        held: session.held,
        epoch: epochs.iter().find(|epoch| told.in_force(epoch)).map(|epoch| epoch.number),
        requests: requests.iter().map(ask).collect(),
        ancestors: lineage.ancestors.iter().map(relative).collect(),
        children: lineage.children.iter().map(relative).collect(),
        epochs: epochs.iter().map(|epoch| told.view(epoch)).collect(),
        traffic: told.passed(),
    }
}

fn relative(session: &Session) -> Relative<'_> {
    let (title, reason) = (session.title.as_deref(), session.reason.name());
    Relative { session: &session.name, title, reason, begins: session.begins }
}

/// One epoch's report, or its checkpoint.
fn one(args: &ShowArgs, told: &Told, number: usize) -> Result<(), Failure> {
    let (name, to) = (&told.session.name, args.answer.to());
    let epoch = told.epochs.iter().rev().find(|epoch| epoch.number == number).ok_or_else(|| {
        let last = told.epochs.iter().map(|epoch| epoch.number).max();
        let there = last.map_or_else(|| "it has none".to_owned(), |last| format!("the newest is {last}"));
        Failure::No(format!("session {name} has no epoch {number}; {there}"))
    })?;
    let checkpoint = epoch.ledger.checkpoint();
    if args.checkpoint && checkpoint.is_none() {
        return Err(Failure::No(format!(
            "epoch {number} of session {name} has no checkpoint: nothing was folded"
        )));
    }
    if args.answer.json {
        let (at, report, messages) = (epoch.at.to_string(), &epoch.report, told.session.lead + epoch.length);
        let in_force = told.in_force(epoch);
        return output::write_json(
            to,
            &One { session: name, epoch: number, at, messages, in_force, report, checkpoint },
        );
    }
    if let Some(checkpoint) = checkpoint.filter(|_| args.checkpoint) {
        return output::write(to, format!("{}\n", checkpoint.trim_end()).as_bytes());
    }
    output::give(to, &report_page(told, epoch))
}

/// How a label stands before what it is about.
fn row(page: &mut Page, label: &str, text: &str) {
    page.line(Line::default().styled(STRONG, format!("{label:<10}")).plain(" ").plain(text));
}

fn page(told: &Told) -> Page {
    let Told { session, lineage, requests, epochs, .. } = told;
    let mut page = Page::default();
    row(&mut page, "session", &store::name(&session.name));
    if told.tenant.name() != LOCAL_TENANT {
        row(&mut page, "tenant", told.tenant.name());
    }
    row(&mut page, "title", session.title.as_deref().unwrap_or("-"));
    let (model, dialect) = (session.model.as_deref().unwrap_or("not named"), session.dialect.name());
    row(&mut page, "model", &format!("{model} ({dialect})"));
    row(&mut page, "made", &format!("{}, last written {}", session.created, session.updated));
    let shared = match session.begins {
        0 => String::new(),
        shared => format!(", the first {shared} shared with its parent"),
    };
    let requests =
        if requests.len() == 1 { "1 request".to_owned() } else { format!("{} requests", requests.len()) };
    row(&mut page, "messages", &format!("{}{shared}, in {requests}", session.messages()));
    if session.state.name() != "live" {
        row(&mut page, "state", session.state.name());
    }
    if let Some(parent) = lineage.ancestors.first() {
        row(&mut page, "parent", &format!("{} ({})", parent.name, came(session)));
    }
    for child in &lineage.children {
        row(&mut page, "child", &format!("{} ({})", child.name, came(child)));
    }
    if session.held {
        row(&mut page, "held", &format!("a compaction was undone; {UNDO_HOLDS}"));
    }
    if session.head.is_none() {
        row(&mut page, "in force", "the history as the client sent it");
    }
    if let Some(passed) = told.passed() {
        passed.tell(&mut page);
    }
    if epochs.is_empty() {
        return page;
    }
    page.blank();
    let head = ["epoch", "when", "tokens", "trigger", "reason", ""];
    let mut rows = vec![head.map(|name| Line::default().styled(STRONG, name))];
    rows.extend(epochs.iter().map(|epoch| {
        let word = |key: &str| epoch.report[key].as_str().unwrap_or("-").to_owned();
        let force = if told.in_force(epoch) { "in force" } else { "" };
        [
            Line::from(epoch.number.to_string()),
            Line::from(epoch.at.to_string()),
            Line::from(sizes(&epoch.report)),
            Line::from(word("trigger")),
            Line::from(word("reason")),
            Line::default().styled(GOOD, force),
        ]
    }));
    page.table(rows);
    page.blank();
    let last = epochs.last().map_or(1, |epoch| epoch.number);
    let more = format!("what one did: longhaul show {} --epoch {last}{}", session.name, told.place);
    page.line(Line::default().styled(FAINT, more));
    page
}

/// How a session came to be.
fn came(session: &Session) -> String {
    match session.reason.name() {
        "fork" => format!("fork from message {}", session.lead + session.begins),
        other => other.to_owned(),
    }
}

/// The tokens of a report, before and after.
pub(super) fn sizes(report: &Value) -> String {
    let tokens = |key: &str| report["tokens"][key].as_u64().map_or_else(|| "?".to_owned(), output::grouped);
    format!("{} → {} tokens", tokens("before"), tokens("after"))
}

fn report_page(told: &Told, epoch: &Epoch) -> Page {
    let (mut page, report) = (Page::default(), &epoch.report);
    let force = if told.in_force(epoch) { ", in force" } else { "" };
    row(&mut page, "session", &store::name(&told.session.name));
    row(&mut page, "epoch", &format!("{}, made {}{force}", epoch.number, epoch.at));
    let count = |section: &str, key: &str| report[section][key].as_u64().unwrap_or_default();
    let messages = [count("messages", "before"), count("messages", "after")];
    row(&mut page, "tokens", &format!("{}, {} → {} messages", sizes(report), messages[0], messages[1]));
    let text = |key: &str| report[key].as_str().unwrap_or("-");
    row(&mut page, "why", &format!("{} ({})", text("reason"), text("trigger")));
    let units =
        [("kept", "kept"), ("digested", "digested"), ("summarized", "folded"), ("dropped", "removed")];
    let units = units.map(|(key, word)| format!("{} {word}", count("units", key)));
    row(&mut page, "steps", &units.join(", "));
    let evidence = ["kept", "recallable", "lost"].map(|key| format!("{} {key}", count("evidence", key)));
    row(&mut page, "evidence", &format!("{} found: {}", count("evidence", "found"), evidence.join(", ")));
    if epoch.ledger.checkpoint().is_some() {
        let (name, number, place) = (&told.session.name, epoch.number, &told.place);
        let how = format!("longhaul show {name} --epoch {number} --checkpoint{place} prints it");
        row(&mut page, "checkpoint", &format!("{} tokens; {how}", count("checkpoint", "tokens")));
    }
    for note in report["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        row(&mut page, "note", note);
    }
    let blocks = report["blocks"].as_array().map_or(&[][..], Vec::as_slice);
    if !blocks.is_empty() {
        page.blank();
        let head = ["handle", "message", "what", "tool", "fate"];
        let mut rows = vec![head.map(|name| Line::default().styled(STRONG, name))];
        rows.extend(blocks.iter().map(|block| {
            let word = |key: &str| block[key].as_str().unwrap_or("-").to_owned();
            let at = block["at"].as_u64().unwrap_or_default().to_string();
            [word("handle"), at, word("what"), word("tool"), word("fate")].map(Line::from)
        }));
        page.table(rows);
    }
    page
}
