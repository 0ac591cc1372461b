//! The views that compactions made of a session, and who may make the next one.
//!
//! ```text
//! (nothing) ◀── epoch 1 ◀── epoch 2 ◀── epoch 3        undo moves the head one to the left, redo to the newest on the right
//!                              ▲ head
//! ```
//!
//! A commit is one transaction: the epoch is written, and the head moves to it if it still is where the compaction began. Who was
//! slower is told so, and nothing of its work is kept.
//!
//! A lease only spares two from doing the same work at once; no clock is asked for it. It has a fence and a beat: the holder beats
//! while it works, and who has watched both stand still for long enough, by its own stopwatch, takes over, which raises the fence.
//! A commit under a fence that was passed is refused, however long the holder had slept and whatever the time of day is.

use std::ops::RangeInclusive;
use std::time::Duration;

use longhaul_engine::ledger::Ledger;
use longhaul_engine::redact::Redacted;
use serde_json::Value as Json;

use super::error::{Result, StoreError};
use super::session::{self, Birth, Newborn, Reason, Session, SessionId};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::{Store, work};
use crate::agents::Moment;

/// The number of an epoch in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochId(pub(super) i64);

/// One view.
#[derive(Debug, Clone)]
pub struct Epoch {
    /// Its number in the store.
    pub id: EpochId,
    /// The view before it.
    pub parent: Option<EpochId>,
    /// Its number in its session, from 1.
    pub number: usize,
    /// How many messages the session had.
    pub length: usize,
    /// The decisions.
    pub ledger: Ledger,
    /// What was said about them.
    pub report: Json,
    /// When it was made.
    pub at: Moment,
    /// The messages that stand in it as they were sent.
    pub(super) kept: Vec<RangeInclusive<usize>>,
}

impl Epoch {
    /// Whether a message stands in the view as it was sent: it was left alone, or came later.
    pub(super) fn shows(&self, place: usize) -> bool {
        place >= self.length || self.kept.iter().any(|range| range.contains(&place))
    }
}

/// A compaction on its way into the store.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The view that it began with.
    pub base: Option<EpochId>,
    /// Under which lease, if it has one.
    pub lease: Option<Lease>,
    /// How many messages it looked at.
    pub length: usize,
    /// The decisions, which hold no secrets.
    pub ledger: Redacted,
    /// What is said about them.
    pub report: Redacted,
    /// How many of them the decisions are about.
    pub(super) reach: usize,
    /// Which messages stand in the view as they were sent.
    pub(super) kept: Vec<bool>,
    /// What a checkpoint that it wrote is known by.
    pub(super) mark: Option<[u8; 32]>,
    /// What it removed that the log has not, since it was ours: handle, what it was, text.
    pub(super) remains: Vec<(String, &'static str, Redacted)>,
    /// The name of the session that begins with it, where the old one is archived.
    pub(super) restart: Option<String>,
    /// When.
    pub at: Moment,
}

/// What became of a commit. There is one at a time, so its size does not matter.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
pub enum Committed {
    /// It is the view in force.
    Done {
        /// The session that it belongs to: a new one, if the old one was archived.
        session: Session,
        /// Its number.
        number: usize,
    },
    /// Somebody else moved the head meanwhile.
    Overtaken,
    /// Its lease was taken over.
    Fenced,
    /// The session has gone on, and this was a view of an earlier moment, which nobody would see again.
    Behind,
}

/// The right to work on the next view of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    session: SessionId,
    holder: String,
    fence: i64,
}

/// What is seen of somebody else's lease: while it changes, its holder lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Who holds it.
    pub holder: String,
    fence: i64,
    beat: i64,
}

/// Whether a lease was to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leased {
    /// It was.
    Granted(Lease),
    /// Another has it.
    Held(Seen),
}

/// Where a head was moved to. There is one at a time, so its size does not matter.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
pub enum Moved {
    /// To this view; nothing means the history as the client sent it.
    To(Option<Epoch>),
    /// There is nothing on that side.
    Nowhere,
}

const EPOCH: &str = "SELECT id, parent, number, length, ledger, report, at, kept FROM epochs";

/// Places as they are kept: `0-3 17 40-52`.
fn places(kept: &[bool]) -> String {
    let kept: Vec<usize> =
        kept.iter().enumerate().filter(|(_, kept)| **kept).map(|(place, _)| place).collect();
    let runs = kept.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// The ranges that [`places`] wrote.
fn ranges(places: &str) -> Vec<RangeInclusive<usize>> {
    let range = |run: &str| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    places.split(' ').filter_map(range).collect()
}

impl Epoch {
    fn of(row: &Row) -> Result<Self> {
        let damaged = |what: &str, error: serde_json::Error| {
            StoreError::Damaged(format!("the {what} of a view cannot be read: {error}"))
        };
        Ok(Self {
            id: EpochId(row.int(0)?),
            parent: row.maybe_int(1)?.map(EpochId),
            number: row.count(2)?,
            length: row.count(3)?,
            ledger: serde_json::from_str(&row.text(4)?).map_err(|error| damaged("ledger", error))?,
            report: serde_json::from_str(&row.text(5)?).map_err(|error| damaged("report", error))?,
            at: Moment(row.int(6)?),
            kept: ranges(&row.text(7)?),
        })
    }
}

pub(super) async fn epoch(sql: &mut dyn Sql, tenant: &Tenant, id: EpochId) -> Result<Option<Epoch>> {
    let find = format!("{EPOCH} WHERE id = $1 AND tenant = $2");
    sql.row(&find, &[id.0.into(), tenant.id.into()]).await?.map(|row| Epoch::of(&row)).transpose()
}

/// The views of a session, and those of its ancestors that it could go back to; oldest first.
pub(super) async fn epochs(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<Vec<Epoch>> {
    let own = format!("{EPOCH} WHERE session = $1 AND tenant = $2 ORDER BY id DESC");
    let rows = sql.rows(&own, &[session.id.0.into(), tenant.id.into()]).await?;
    let mut epochs = rows.iter().map(Epoch::of).collect::<Result<Vec<_>>>()?;
    let oldest = epochs.last().map_or(session.head, |epoch| epoch.parent);
    let mut at = oldest;
    while let Some(id) = at {
        let Some(epoch) = self::epoch(sql, tenant, id).await? else { break };
        at = epoch.parent;
        epochs.push(epoch);
    }
    epochs.sort_by_key(|epoch| epoch.id);
    Ok(epochs)
}

async fn commit(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId, commit: &Commit) -> Result<Committed> {
    let session = session::held_session(sql, tenant, id).await?;
    if session.head != commit.base || session.state != session::State::Live {
        return Ok(Committed::Overtaken);
    }
    if let Some(lease) = &commit.lease
        && (lease.session != id || fence(sql, tenant, id).await? != Some(lease.fence))
    {
        return Ok(Committed::Fenced);
    }
    if commit.length > session.length {
        return Err(StoreError::Wrong("a view of messages that are not in the log".to_owned()));
    }
    let session = match &commit.restart {
        None => session,
        Some(name) => {
            let archive = "UPDATE sessions SET state = 'archived' WHERE id = $1 AND tenant = $2";
            sql.run(archive, &[session.id.0.into(), tenant.id.into()]).await?;
            let birth = Birth {
                parent: Some(&session),
                begins: session.length,
                reason: Reason::Restart,
                head: session.head,
            };
            let (dialect, title, model) = (session.dialect, session.title.clone(), session.model.clone());
            let newborn = Newborn { name, key: &session.key, dialect, title, model, at: commit.at };
            session::born(sql, tenant, &birth, &newborn).await?
        }
    };
    let last = match commit.base {
        Some(base) => epoch(sql, tenant, base).await?.map_or(0, |base| base.number),
        None => 0,
    };
    let newest = "SELECT coalesce(max(number), 0) FROM epochs WHERE session = $1 AND tenant = $2";
    let row = sql.row(newest, &[session.id.0.into(), tenant.id.into()]).await?;
    let number = last.max(row.map_or(Ok(0), |row| row.count(0))?) + 1;
    let make = "INSERT INTO epochs (tenant, session, parent, number, length, reach, mark, kept, ledger, report, at) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id";
    let values = [
        tenant.id.into(),
        session.id.0.into(),
        commit.base.map(|EpochId(base)| base).into(),
        number.into(),
        commit.length.into(),
        commit.reach.into(),
        commit.mark.as_ref().map(<[u8; 32]>::as_slice).into(),
        places(&commit.kept).into(),
        commit.ledger.as_str().into(),
        commit.report.as_str().into(),
        commit.at.0.into(),
    ];
    let row = sql.row(make, &values).await?;
    let id = row.ok_or_else(|| StoreError::Failed("a view was not kept".to_owned()))?.int(0)?;
    let keep = "INSERT INTO remains (family, handle, session, what, text) VALUES ($1, $2, $3, $4, $5) \
                ON CONFLICT (family, handle) DO NOTHING";
    let row = |(handle, what, text): &(String, &'static str, Redacted)| -> Vec<Value> {
        let (family, session) = (session.family, session.id.0);
        vec![family.into(), handle.as_str().into(), session.into(), (*what).into(), text.as_str().into()]
    };
    let rows: Vec<Vec<Value>> = commit.remains.iter().map(row).collect();
    sql.run_each(keep, &rows).await?;
    let head = "UPDATE sessions SET head = $1, held = 0, updated = $2 WHERE id = $3 AND tenant = $4";
    sql.run(head, &[id.into(), commit.at.0.into(), session.id.0.into(), tenant.id.into()]).await?;
    let session = Session { head: Some(EpochId(id)), held: false, updated: commit.at, ..session };
    Ok(Committed::Done { session, number })
}

async fn fence(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId) -> Result<Option<i64>> {
    let find = "SELECT fence FROM sessions WHERE id = $1 AND tenant = $2";
    sql.row(find, &[session.0.into(), tenant.id.into()]).await?.map(|row| row.int(0)).transpose()
}

/// Which way a head is moved.
#[derive(Debug, Clone, Copy)]
enum Way {
    Back,
    Forth,
}

async fn shift(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId, way: Way) -> Result<Moved> {
    let session = session::held_session(sql, tenant, id).await?;
    let to = match (way, session.head) {
        (Way::Back, None) => return Ok(Moved::Nowhere),
        (Way::Back, Some(head)) => match epoch(sql, tenant, head).await?.and_then(|epoch| epoch.parent) {
            Some(parent) => epoch(sql, tenant, parent).await?,
            None => None,
        },
        (Way::Forth, head) => match next(sql, tenant, &session, head).await? {
            Some(next) => Some(next),
            None => return Ok(Moved::Nowhere),
        },
    };
    let head = to.as_ref().map(|epoch| epoch.id.0);
    let by_hand = matches!(way, Way::Back);
    let move_it = "UPDATE sessions SET head = $1, held = $2 WHERE id = $3 AND tenant = $4";
    sql.run(move_it, &[head.into(), by_hand.into(), id.0.into(), tenant.id.into()]).await?;
    Ok(Moved::To(to))
}

/// Goes back from a view to the one before it, if it is the one in force.
async fn take_back(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId, refused: EpochId) -> Result<Moved> {
    if session::held_session(sql, tenant, id).await?.head != Some(refused) {
        return Ok(Moved::Nowhere);
    }
    shift(sql, tenant, id, Way::Back).await
}

/// The newest view that was made from another: of the session itself, else of those whose beginning it shares, as long as the
/// view is of that beginning alone.
async fn next(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    from: Option<EpochId>,
) -> Result<Option<Epoch>> {
    let (mut at, mut length) = (Some(session.clone()), session.length);
    while let Some(session) = at {
        let own = format!(
            "{EPOCH} WHERE session = $1 AND tenant = $2 AND reach <= $3 AND coalesce(parent, 0) = $4 ORDER BY id DESC LIMIT 1"
        );
        let from = from.map_or(0, |EpochId(from)| from);
        let values = [session.id.0.into(), tenant.id.into(), length.into(), from.into()];
        if let Some(row) = sql.row(&own, &values).await? {
            return Epoch::of(&row).map(Some);
        }
        length = length.min(session.begins);
        at = match session.parent.filter(|_| length > 0) {
            Some(parent) => session::session(sql, tenant, parent).await?,
            None => None,
        };
    }
    Ok(None)
}

async fn lease(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    id: SessionId,
    holder: &str,
    dead: Option<&Seen>,
) -> Result<Leased> {
    let find = format!(
        "SELECT holder, fence, beat FROM sessions WHERE id = $1 AND tenant = $2{}",
        sql.flavour().for_update
    );
    let row = sql.row(&find, &[id.0.into(), tenant.id.into()]).await?;
    let row = row.ok_or_else(|| StoreError::Unknown("the session is gone".to_owned()))?;
    let fence = row.int(1)?;
    if let Some(other) = row.maybe_text(0)? {
        let seen = Seen { holder: other, fence, beat: row.int(2)? };
        if dead != Some(&seen) {
            return Ok(Leased::Held(seen));
        }
    }
    let take = "UPDATE sessions SET holder = $1, fence = fence + 1, beat = 0 WHERE id = $2 AND tenant = $3";
    sql.run(take, &[holder.into(), id.0.into(), tenant.id.into()]).await?;
    Ok(Leased::Granted(Lease { session: id, holder: holder.to_owned(), fence: fence + 1 }))
}

/// Whether a lease was still its holder's, and what was done with it.
async fn with_lease(sql: &mut dyn Sql, tenant: &Tenant, lease: &Lease, set: &str) -> Result<bool> {
    let update =
        format!("UPDATE sessions SET {set} WHERE id = $1 AND tenant = $2 AND fence = $3 AND holder = $4");
    let values = [lease.session.0.into(), tenant.id.into(), lease.fence.into(), lease.holder.as_str().into()];
    Ok(sql.run(&update, &values).await? > 0)
}

impl Store {
    /// Makes a view the one in force, if the head is where the compaction began and nobody took its lease over.
    pub async fn commit(&self, tenant: &Tenant, session: SessionId, new: Commit) -> Result<Committed> {
        let with = (tenant.clone(), new, session);
        self.write(work(with, |sql, (tenant, new, session)| Box::pin(commit(sql, tenant, *session, new))))
            .await
    }

    /// One view.
    pub async fn epoch(&self, tenant: &Tenant, id: EpochId) -> Result<Option<Epoch>> {
        self.read(work((tenant.clone(), id), |sql, (tenant, id)| Box::pin(epoch(sql, tenant, *id)))).await
    }

    /// The views of a session, oldest first.
    pub async fn epochs(&self, tenant: &Tenant, session: &Session) -> Result<Vec<Epoch>> {
        let with = (tenant.clone(), session.clone());
        self.read(work(with, |sql, (tenant, session)| Box::pin(epochs(sql, tenant, session)))).await
    }

    /// Goes back to the view before the one in force.
    pub async fn undo(&self, tenant: &Tenant, session: SessionId) -> Result<Moved> {
        self.shift(tenant, session, Way::Back).await
    }

    /// Takes a view back that a provider refused, if nobody has moved the head since.
    pub async fn take_back(&self, tenant: &Tenant, session: SessionId, refused: EpochId) -> Result<Moved> {
        let with = (tenant.clone(), session, refused);
        self.write(work(with, |sql, (tenant, session, refused)| {
            Box::pin(take_back(sql, tenant, *session, *refused))
        }))
        .await
    }

    /// Goes forth again to the newest view that was made from the one in force.
    pub async fn redo(&self, tenant: &Tenant, session: SessionId) -> Result<Moved> {
        self.shift(tenant, session, Way::Forth).await
    }

    async fn shift(&self, tenant: &Tenant, session: SessionId, way: Way) -> Result<Moved> {
        let with = (tenant.clone(), session, way);
        self.write(work(with, |sql, (tenant, session, way)| Box::pin(shift(sql, tenant, *session, *way))))
            .await
    }

    /// Asks for the right to work on the next view.
    pub async fn lease(&self, tenant: &Tenant, session: SessionId, holder: &str) -> Result<Leased> {
        self.lease_from(tenant, session, holder, None).await
    }

    /// The same, where another holds it: watches for so long, and takes over if the holder stood still all the while.
    pub async fn lease_or_wait(
        &self,
        tenant: &Tenant,
        session: SessionId,
        holder: &str,
        still: Duration,
    ) -> Result<Leased> {
        match self.lease(tenant, session, holder).await? {
            Leased::Held(seen) => {
                tokio::time::sleep(still).await;
                self.take_over(tenant, session, holder, seen).await
            }
            granted @ Leased::Granted(_) => Ok(granted),
        }
    }

    /// The same from a holder that was watched for long enough and stood still; if it has moved, it keeps its lease.
    pub async fn take_over(
        &self,
        tenant: &Tenant,
        session: SessionId,
        holder: &str,
        dead: Seen,
    ) -> Result<Leased> {
        self.lease_from(tenant, session, holder, Some(dead)).await
    }

    async fn lease_from(
        &self,
        tenant: &Tenant,
        session: SessionId,
        holder: &str,
        dead: Option<Seen>,
    ) -> Result<Leased> {
        let with = (tenant.clone(), holder.to_owned(), dead, session);
        self.write(work(with, |sql, (tenant, holder, dead, session)| {
            Box::pin(lease(sql, tenant, *session, holder, dead.as_ref()))
        }))
        .await
    }

    /// Says that the holder lives; false if it holds nothing any more.
    pub async fn beat(&self, tenant: &Tenant, lease: &Lease) -> Result<bool> {
        self.with_lease(tenant, lease, "beat = beat + 1").await
    }

    /// Gives a lease back.
    pub async fn release(&self, tenant: &Tenant, lease: &Lease) -> Result<bool> {
        self.with_lease(tenant, lease, "holder = NULL").await
    }

    async fn with_lease(&self, tenant: &Tenant, lease: &Lease, set: &'static str) -> Result<bool> {
        let with = (tenant.clone(), lease.clone(), set);
        self.write(work(with, |sql, (tenant, lease, set)| Box::pin(with_lease(sql, tenant, lease, set))))
            .await
    }
}
