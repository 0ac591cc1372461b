//! A session as a body again: as the client sent it, as a view shows it, or as examples to learn from.

use longhaul_engine::ledger::{Ledger, Ours};
use longhaul_engine::transcript::UnitKind;
use longhaul_engine::{Dialect, Rewrite, Transcript, cache, wire};
use serde::Serialize;
use serde_json::value::RawValue;

use super::envelope;
use super::epochs::{self, Epoch};
use super::error::{Result, StoreError};
use super::log::{self, Request};
use super::message;
use super::session::{self, Session};
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, work};

/// A moment of a session's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// All of it, with the view in force: what would be sent next.
    Now,
    /// All of it, as the client sent it.
    Original,
    /// Right after a compaction, by the number of its epoch.
    Epoch(usize),
    /// A request, by its number, with the newest view that is in force and was made by then.
    Request(usize),
}

/// What a model was shown between two compactions, as an example to learn from.
#[derive(Debug, Serialize)]
pub struct Example {
    /// The session.
    pub session: String,
    /// The view; nothing before the first compaction.
    pub epoch: Option<usize>,
    /// How the messages are written.
    pub dialect: Dialect,
    /// The messages.
    pub messages: Vec<Box<RawValue>>,
    /// Which of their blocks we wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ours: Vec<Trace>,
}

/// A block that we wrote.
#[derive(Debug, Serialize)]
pub struct Trace {
    /// Its message.
    pub message: usize,
    /// Its place among the blocks of that message.
    pub block: usize,
    /// What it is.
    pub kind: Ours,
}

/// The messages of a session in the envelope of its newest request that was no longer than that.
pub(super) async fn original(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    length: usize,
) -> Result<String> {
    let stored = message::messages(sql, tenant, session, 0..length).await?;
    let texts: Vec<&str> = stored.iter().map(|message| message.text.as_str()).collect();
    let request = request_of(sql, tenant, session, length).await?;
    envelope::filled(sql, tenant, request.envelope, &texts).await
}

/// The request of that many messages, or the newest before it, else the first: of the session, or of one that it descends from.
async fn request_of(sql: &mut dyn Sql, tenant: &Tenant, session: &Session, length: usize) -> Result<Request> {
    let mut at = Some(session.clone());
    while let Some(session) = at {
        for (test, order) in [("length <= $3", "DESC"), ("length > $3", "ASC")] {
            let find = format!(
                "SELECT number, length, envelope, at FROM requests WHERE session = $1 AND tenant = $2 AND {test} \
                 ORDER BY number {order} LIMIT 1"
            );
            let values = [session.id.0.into(), tenant.id.into(), length.into()];
            if let Some(row) = sql.row(&find, &values).await? {
                return log::request(&row);
            }
        }
        at = match session.parent {
            Some(parent) => session::session(sql, tenant, parent).await?,
            None => None,
        };
    }
    Err(StoreError::Damaged(format!("session {} has no request", session.name)))
}

/// A body as a ledger shows it, with no more cache marks than a provider takes: a history has those of all its requests.
pub(super) fn shown(dialect: Dialect, body: &str, ledger: Option<&Ledger>) -> Result<String> {
    let damaged = |what: &dyn std::fmt::Display| {
        StoreError::Damaged(format!("the session cannot be put together: {what}"))
    };
    let (transcript, _) = wire::parse(dialect, body).map_err(|error| damaged(&error))?;
    let edits = match ledger {
        Some(ledger) if ledger.covers() > transcript.units.len() => {
            return Err(damaged(&"the view is of more than there is"));
        }
        Some(ledger) => ledger.edits(&transcript),
        None => cache::surplus(&wire::reading(&transcript)).iter().map(cache::unset).collect(),
    };
    let rewrite = Rewrite::new(&transcript, edits).map_err(|error| damaged(&error))?;
    Ok(rewrite.apply(body))
}

/// Whether a session is the tenant's, and there.
async fn must_be_there(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<()> {
    let unknown = || StoreError::Unknown(format!("the store has no session {}", session.name));
    session::session(sql, tenant, session.id).await?.map(drop).ok_or_else(unknown)
}

async fn body(sql: &mut dyn Sql, tenant: &Tenant, session: &Session, moment: Moment) -> Result<String> {
    must_be_there(sql, tenant, session).await?;
    let name = &session.name;
    let (length, epoch): (usize, Option<Epoch>) = match moment {
        Moment::Original => (session.length, None),
        Moment::Now => match session.head {
            Some(head) => (session.length, epochs::epoch(sql, tenant, head).await?),
            None => (session.length, None),
        },
        Moment::Epoch(number) => {
            let all = epochs::epochs(sql, tenant, session).await?;
            let last = all.iter().map(|epoch| epoch.number).max().unwrap_or(0);
            let found = all.into_iter().rev().find(|epoch| epoch.number == number);
            let epoch = found.ok_or_else(|| {
                StoreError::Unknown(format!("session {name} has no epoch {number}; it has {last}"))
            })?;
            (epoch.length, Some(epoch))
        }
        Moment::Request(number) => {
            let find = "SELECT number, length, envelope, at FROM requests WHERE session = $1 AND tenant = $2 AND number = $3";
            let row = sql.row(find, &[session.id.0.into(), tenant.id.into(), number.into()]).await?;
            let row =
                row.ok_or_else(|| StoreError::Unknown(format!("session {name} has no request {number}")))?;
            let request = log::request(&row)?;
            // What was taken back since is no more shown of then than of now.
            let all = in_force(sql, tenant, session).await?;
            (request.length, all.into_iter().rev().find(|epoch| epoch.length <= request.length))
        }
    };
    let body = original(sql, tenant, session, length).await?;
    shown(session.dialect, &body, epoch.as_ref().map(|epoch| &epoch.ledger))
}

/// One example for each stretch between two compactions, as the model saw it at the end of the stretch.
async fn training(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<Vec<Example>> {
    let mut views = vec![None];
    let in_force = in_force(sql, tenant, session).await?;
    views.extend(in_force.into_iter().map(Some));
    let mut examples = Vec::with_capacity(views.len());
    for (at, epoch) in views.iter().enumerate() {
        let end = views.get(at + 1).and_then(Option::as_ref).map_or(session.length, |next| next.length);
        let body = original(sql, tenant, session, end).await?;
        let ledger = epoch.as_ref().map(|epoch| &epoch.ledger);
        let view = shown(session.dialect, &body, ledger)?;
        let parse = |body| wire::parse(session.dialect, body).map(|(transcript, _)| transcript);
        let damaged = |_| StoreError::Damaged("a view of the session is no JSON".to_owned());
        let (before, after) = (parse(&body).map_err(damaged)?, parse(&view).map_err(damaged)?);
        let ours = ledger.map_or_else(Vec::new, |ledger| traces(ledger, &after, &before));
        let ours = if ledger.is_some() { ours } else { sent_checkpoints(&after) };
        let number = epoch.as_ref().map(|epoch| epoch.number);
        examples.push(example(session, number, &after, ours, &[])?);
    }
    Ok(examples)
}

/// All that was said, in one example, with none of our words in it.
async fn natural(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<Vec<Example>> {
    let body = original(sql, tenant, session, session.length).await?;
    let body = shown(session.dialect, &body, None)?;
    let parsed = wire::parse(session.dialect, &body);
    let (transcript, _) = parsed.map_err(|error| StoreError::Damaged(error.to_string()))?;
    let left_out: Vec<usize> = sent_checkpoints(&transcript).iter().map(|trace| trace.message).collect();
    Ok(vec![example(session, None, &transcript, Vec::new(), &left_out)?])
}

/// The epochs from the first to the one in force.
pub(super) async fn in_force(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<Vec<Epoch>> {
    let (mut chain, mut at) = (Vec::new(), session.head);
    while let Some(id) = at {
        let Some(epoch) = epochs::epoch(sql, tenant, id).await? else { break };
        at = epoch.parent;
        chain.push(epoch);
    }
    chain.reverse();
    Ok(chain)
}

fn traces(ledger: &Ledger, view: &Transcript<'_>, original: &Transcript<'_>) -> Vec<Trace> {
    let Some(ours) = ledger.ours(view, original) else { return Vec::new() };
    let mut traces = Vec::new();
    for (message, parts) in view.parts_by_message(0..view.message_count()).iter().enumerate() {
        for (block, part) in parts.iter().enumerate() {
            traces.extend(ours.get(&part.at).map(|kind| Trace { message, block, kind: *kind }));
        }
    }
    traces
}

/// Checkpoints that the client sent itself, because it went on from a compacted body.
fn sent_checkpoints(transcript: &Transcript<'_>) -> Vec<Trace> {
    let mut traces = Vec::new();
    for (message, parts) in transcript.parts_by_message(0..transcript.message_count()).iter().enumerate() {
        for (block, part) in parts.iter().enumerate() {
            if matches!(transcript.units[part.at.unit].kind, UnitKind::Checkpoint(_)) {
                traces.push(Trace { message, block, kind: Ours::Checkpoint });
            }
        }
    }
    traces
}

fn example(
    session: &Session,
    epoch: Option<usize>,
    transcript: &Transcript<'_>,
    ours: Vec<Trace>,
    without: &[usize],
) -> Result<Example> {
    let kept = (0..transcript.message_count()).filter(|index| !without.contains(index));
    let messages = kept.filter_map(|index| transcript.message(index));
    let messages = messages
        // A line break in JSON stands between values only, and would end the line that the example is.
        .map(|message| RawValue::from_string(message.replace(['\n', '\r'], " ")))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| StoreError::Damaged(format!("a message is no JSON: {error}")))?;
    Ok(Example { session: session.name.clone(), epoch, dialect: session.dialect, messages, ours })
}

/// What examples are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// What the model saw, with what we wrote marked.
    AsShown,
    /// What was said, without anything that we wrote.
    Natural,
}

async fn examples(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    words: Words,
) -> Result<Vec<Example>> {
    must_be_there(sql, tenant, session).await?;
    match words {
        Words::AsShown => training(sql, tenant, session).await,
        Words::Natural => natural(sql, tenant, session).await,
    }
}

impl Store {
    /// The body of a session at a moment of its history.
    pub async fn body(&self, tenant: &Tenant, session: &Session, moment: Moment) -> Result<String> {
        let with = (tenant.clone(), session.clone(), moment);
        self.read(work(with, |sql, (tenant, session, moment)| Box::pin(body(sql, tenant, session, *moment))))
            .await
    }

    /// A session as examples to learn from.
    pub async fn examples(&self, tenant: &Tenant, session: &Session, words: Words) -> Result<Vec<Example>> {
        let with = (tenant.clone(), session.clone(), words);
        self.read(work(with, |sql, (tenant, session, words)| {
            Box::pin(examples(sql, tenant, session, *words))
        }))
        .await
    }
}
