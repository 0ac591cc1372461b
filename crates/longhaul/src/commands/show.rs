//! `longhaul show`: prints one session of the store.

use longhaul_server::session::UNDO_PROMISE;
use longhaul_server::store::{
    Compaction, LOCAL_TENANT, Lineage, LoggedRequest, StoredSession, Tenant, TrafficRecord, TrafficTotals,
};
use serde::Serialize;
use serde_json::Value;

use crate::cli::ShowArgs;
use crate::commands::show_traffic::ShowTraffic;
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, Page, SECONDARY_STYLE, SUCCESS_STYLE, StyledLine};
use crate::store::{self, ConfiguredStore, OpenStore, OwnedSession};

#[derive(Serialize)]
struct ShowOutput<'a> {
    session: &'a str,
    /// The tenant that owns the session.
    tenant: &'a str,
    title: Option<&'a str>,
    model: Option<&'a str>,
    dialect: &'static str,
    state: &'static str,
    /// The event that created the session, such as a fork.
    reason: &'static str,
    created: String,
    updated: String,
    messages: usize,
    /// The number of messages that the session shares with its parent.
    shared: usize,
    /// Whether automatic compaction waits for the safety threshold, because the user undid a compaction.
    #[serde(rename = "held")]
    is_undone: bool,
    /// The number of the active compaction.
    #[serde(rename = "epoch")]
    active_compaction: Option<usize>,
    requests: Vec<ShowRequestRow>,
    /// The ancestors, from the parent to the first session.
    ancestors: Vec<RelatedSession<'a>>,
    children: Vec<RelatedSession<'a>>,
    #[serde(rename = "epochs")]
    compactions: Vec<ShowCompactionRow<'a>>,
    /// The traffic through the gateway, if there was any.
    traffic: Option<ShowTraffic<'a>>,
}

#[derive(Serialize)]
struct ShowRequestRow {
    number: usize,
    messages: usize,
    at: String,
}

#[derive(Serialize)]
struct RelatedSession<'a> {
    session: &'a str,
    title: Option<&'a str>,
    reason: &'static str,
    begins: usize,
}

#[derive(Serialize)]
struct ShowCompactionRow<'a> {
    #[serde(rename = "epoch")]
    number: usize,
    at: String,
    messages: usize,
    #[serde(rename = "in_force")]
    is_active: bool,
    /// The report as it was written when the compaction was made.
    report: &'a Value,
}

/// The JSON output for a single compaction.
#[derive(Serialize)]
struct ShowCompactionOutput<'a> {
    session: &'a str,
    #[serde(rename = "epoch")]
    number: usize,
    at: String,
    messages: usize,
    #[serde(rename = "in_force")]
    is_active: bool,
    report: &'a Value,
    checkpoint: Option<&'a str>,
}

/// Everything that the store has about one session.
struct SessionDetails {
    /// The `--store` option for suggested commands, so that they use the same store.
    store_option: String,
    tenant: Tenant,
    session: StoredSession,
    lineage: Lineage,
    requests: Vec<LoggedRequest>,
    compactions: Vec<Compaction>,
    totals: TrafficTotals,
    traffic: Vec<TrafficRecord>,
}

impl SessionDetails {
    fn load(
        open_store: &OpenStore,
        OwnedSession { tenant, session }: OwnedSession,
        store_option: String,
    ) -> Result<Self, Failure> {
        let store = &open_store.store;
        let lineage = open_store.run(store.lineage(&tenant, &session))?;
        let requests = open_store.run(store.requests(&tenant, &session))?;
        let compactions = open_store.run(store.compactions(&tenant, &session))?;
        let totals = open_store.run(store.session_totals(&tenant, session.id))?;
        let traffic = open_store.run(store.traffic(&tenant, session.id))?;
        Ok(Self { store_option, tenant, session, lineage, requests, compactions, totals, traffic })
    }

    fn traffic_summary(&self) -> Option<ShowTraffic<'_>> {
        ShowTraffic::new(&self.totals, &self.traffic)
    }

    fn is_active(&self, compaction: &Compaction) -> bool {
        self.session.head == Some(compaction.id)
    }

    fn compaction_row<'a>(&self, compaction: &'a Compaction) -> ShowCompactionRow<'a> {
        ShowCompactionRow {
            number: compaction.number,
            at: compaction.at.to_string(),
            messages: self.session.system_message_count + compaction.path_length,
            is_active: self.is_active(compaction),
            report: &compaction.report,
        }
    }
}

pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let store = ConfiguredStore::from_flags(&args.store_flags)?.open_existing()?;
    let details = SessionDetails::load(
        &store,
        store.find_session(&args.id)?,
        store::store_option(args.store_flags.store.as_deref()),
    )?;
    if let Some(number) = args.epoch {
        return show_compaction(args, &details, number);
    }
    if args.output.json {
        return output::write_json(args.output.file(), &build_output(&details));
    }
    output::write_page(args.output.file(), &page(&details))
}

fn build_output(details: &SessionDetails) -> ShowOutput<'_> {
    let SessionDetails { session, lineage, requests, compactions, .. } = details;
    let request_row = |request: &LoggedRequest| ShowRequestRow {
        number: request.number,
        messages: session.system_message_count + request.path_length,
        at: request.at.to_string(),
    };
    ShowOutput {
        session: &session.name,
        tenant: details.tenant.name(),
        title: session.title.as_deref(),
        model: session.model.as_deref(),
        dialect: session.api_format.name(),
        state: session.status.name(),
        reason: session.origin.name(),
        created: session.created.to_string(),
        updated: session.updated.to_string(),
        messages: session.body_message_count(),
        shared: session.first_own_message,
        is_undone: session.is_undone,
        active_compaction: compactions
            .iter()
            .find(|compaction| details.is_active(compaction))
            .map(|compaction| compaction.number),
        requests: requests.iter().map(request_row).collect(),
        ancestors: lineage.ancestors.iter().map(related_session).collect(),
        children: lineage.children.iter().map(related_session).collect(),
        compactions: compactions.iter().map(|compaction| details.compaction_row(compaction)).collect(),
        traffic: details.traffic_summary(),
    }
}

fn related_session(session: &StoredSession) -> RelatedSession<'_> {
    let (title, reason) = (session.title.as_deref(), session.origin.name());
    RelatedSession { session: &session.name, title, reason, begins: session.first_own_message }
}

/// Prints the report of one compaction, or its checkpoint.
fn show_compaction(args: &ShowArgs, details: &SessionDetails, number: usize) -> Result<(), Failure> {
    let (name, to) = (&details.session.name, args.output.file());
    let compaction =
        details.compactions.iter().rev().find(|compaction| compaction.number == number).ok_or_else(|| {
            let last = details.compactions.iter().map(|compaction| compaction.number).max();
            let newest = last.map_or_else(|| "it has none".to_owned(), |last| format!("the newest is {last}"));
            Failure::Negative(format!("session {name} has no compaction {number}; {newest}"))
        })?;
    let checkpoint = compaction.ledger.checkpoint();
    if args.checkpoint && checkpoint.is_none() {
        return Err(Failure::Negative(format!(
            "compaction {number} of session {name} has no checkpoint: nothing was summarized"
        )));
    }
    if args.output.json {
        let (at, report, messages) = (
            compaction.at.to_string(),
            &compaction.report,
            details.session.system_message_count + compaction.path_length,
        );
        let is_active = details.is_active(compaction);
        return output::write_json(
            to,
            &ShowCompactionOutput { session: name, number, at, messages, is_active, report, checkpoint },
        );
    }
    if let Some(checkpoint) = checkpoint.filter(|_| args.checkpoint) {
        return output::write(to, format!("{}\n", checkpoint.trim_end()).as_bytes());
    }
    output::write_page(to, &compaction_page(details, compaction))
}

/// Adds a line with a label in front.
fn add_row(page: &mut Page, label: &str, text: &str) {
    page.add_line(StyledLine::default().styled(EMPHASIS_STYLE, format!("{label:<10}")).plain(" ").plain(text));
}

fn page(details: &SessionDetails) -> Page {
    let SessionDetails { session, lineage, requests, compactions, .. } = details;
    let mut page = Page::default();
    add_row(&mut page, "session", &store::qualified_name(&session.name));
    if details.tenant.name() != LOCAL_TENANT {
        add_row(&mut page, "tenant", details.tenant.name());
    }
    add_row(&mut page, "title", session.title.as_deref().unwrap_or("-"));
    let (model, api_format) = (session.model.as_deref().unwrap_or("not named"), session.api_format.name());
    add_row(&mut page, "model", &format!("{model} ({api_format})"));
    add_row(&mut page, "created", &format!("{}, last written {}", session.created, session.updated));
    let shared = match session.first_own_message {
        0 => String::new(),
        shared => format!(", the first {shared} shared with its parent"),
    };
    let requests = output::pluralize(requests.len(), "request");
    add_row(&mut page, "messages", &format!("{}{shared}, in {requests}", session.body_message_count()));
    if session.status.name() != "live" {
        add_row(&mut page, "state", session.status.name());
    }
    if let Some(parent) = lineage.ancestors.first() {
        add_row(&mut page, "parent", &format!("{} ({})", parent.name, origin_text(session)));
    }
    for child in &lineage.children {
        add_row(&mut page, "child", &format!("{} ({})", child.name, origin_text(child)));
    }
    if session.is_undone {
        add_row(&mut page, "undone", &format!("a compaction was undone; {UNDO_PROMISE}"));
    }
    if session.head.is_none() {
        add_row(&mut page, "active", "none; the history is sent unchanged");
    }
    if let Some(passed) = details.traffic_summary() {
        passed.add_to_page(&mut page);
    }
    if compactions.is_empty() {
        return page;
    }
    page.add_blank();
    let head = ["compaction", "when", "tokens", "trigger", "reason", ""];
    let mut rows = vec![head.map(|name| StyledLine::default().styled(EMPHASIS_STYLE, name))];
    rows.extend(compactions.iter().map(|compaction| {
        let word = |key: &str| compaction.report[key].as_str().unwrap_or("-").to_owned();
        let active_text = if details.is_active(compaction) { "active" } else { "" };
        [
            StyledLine::from(compaction.number.to_string()),
            StyledLine::from(compaction.at.to_string()),
            StyledLine::from(token_sizes(&compaction.report)),
            StyledLine::from(word("trigger")),
            StyledLine::from(word("reason")),
            StyledLine::default().styled(SUCCESS_STYLE, active_text),
        ]
    }));
    page.add_table(rows);
    page.add_blank();
    let last = compactions.last().map_or(1, |compaction| compaction.number);
    let hint =
        format!("details of a compaction: longhaul show {} --epoch {last}{}", session.name, details.store_option);
    page.add_line(StyledLine::default().styled(SECONDARY_STYLE, hint));
    page
}

/// Describes how the session was created.
fn origin_text(session: &StoredSession) -> String {
    match session.origin.name() {
        "fork" => format!("fork from message {}", session.system_message_count + session.first_own_message),
        other => other.to_owned(),
    }
}

/// Formats the tokens of a report, before and after.
pub(super) fn token_sizes(report: &Value) -> String {
    let tokens = |key: &str| report["tokens"][key].as_u64().map_or_else(|| "?".to_owned(), output::group_digits);
    format!("{} → {} tokens", tokens("before"), tokens("after"))
}

fn compaction_page(details: &SessionDetails, compaction: &Compaction) -> Page {
    let (mut page, report) = (Page::default(), &compaction.report);
    let active_text = if details.is_active(compaction) { ", active" } else { "" };
    add_row(&mut page, "session", &store::qualified_name(&details.session.name));
    add_row(&mut page, "compaction", &format!("{}, made {}{active_text}", compaction.number, compaction.at));
    let count = |section: &str, key: &str| report[section][key].as_u64().unwrap_or_default();
    let messages = [count("messages", "before"), count("messages", "after")];
    add_row(&mut page, "tokens", &format!("{}, {} → {} messages", token_sizes(report), messages[0], messages[1]));
    let text = |key: &str| report[key].as_str().unwrap_or("-");
    add_row(&mut page, "why", &format!("{} ({})", text("reason"), text("trigger")));
    let turns = [("kept", "kept"), ("digested", "shortened"), ("summarized", "summarized"), ("dropped", "removed")];
    let turns = turns.map(|(key, word)| format!("{} {word}", count("units", key)));
    add_row(&mut page, "turns", &turns.join(", "));
    let evidence = ["kept", "recallable", "lost"].map(|key| format!("{} {key}", count("evidence", key)));
    add_row(&mut page, "evidence", &format!("{} found: {}", count("evidence", "found"), evidence.join(", ")));
    if compaction.ledger.checkpoint().is_some() {
        let (name, number, store_option) = (&details.session.name, compaction.number, &details.store_option);
        let how = format!("longhaul show {name} --epoch {number} --checkpoint{store_option} prints it");
        add_row(&mut page, "checkpoint", &format!("{} tokens; {how}", count("checkpoint", "tokens")));
    }
    for note in report["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        add_row(&mut page, "note", note);
    }
    let blocks = report["blocks"].as_array().map_or(&[][..], Vec::as_slice);
    if !blocks.is_empty() {
        page.add_blank();
        let head = ["recall ID", "message", "kind", "tool", "result"];
        let mut rows = vec![head.map(|name| StyledLine::default().styled(EMPHASIS_STYLE, name))];
        rows.extend(blocks.iter().map(|block| {
            let word = |key: &str| block[key].as_str().unwrap_or("-").to_owned();
            let at = block["at"].as_u64().unwrap_or_default().to_string();
            [word("handle"), at, word("what"), word("tool"), word("fate")].map(StyledLine::from)
        }));
        page.add_table(rows);
    }
    page
}
