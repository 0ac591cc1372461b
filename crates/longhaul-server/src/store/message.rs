//! The messages of a path, as they are stored.
//!
//! ```text
//! session 1   m0 ── m1 ── m2 ── m3 ── m4            its own messages: 0 to 4
//! session 2               └──── m3'── m4'           a fork: begins at 3, and shares 0 to 2
//! ```
//!
//! A path is a session's own messages behind the beginning that it shares with its parent, and that one's with its own. Fork or
//! not, a message is stored once; what is stored is never changed.

use std::ops::Range;

use longhaul_engine::identity::Identity;
use longhaul_engine::redact::Redacted;

use super::error::{Result, StoreError};
use super::schema::{number, session_and_place};
use super::session::{self, Session};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;

/// One message on its way into the log.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As it was sent, secrets taken out.
    pub text: Redacted,
    /// Whether any were.
    pub redacted: bool,
    /// The place of the message that its step begins with: the reply whose results it holds, or itself.
    pub step: usize,
    /// Its blocks, in the order in which they stand in it.
    pub blocks: Vec<BlockRow>,
    /// What it can be found by.
    pub(super) terms: String,
}

/// What is known of a block without reading its message: its handle, what it is, and the tool that it has to do with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRow {
    /// What fetches it.
    pub handle: String,
    /// What it is: `prompt`, `reply`, `call`, `result`, ….
    pub what: String,
    /// The tool, where there is one.
    pub tool: Option<String>,
}

impl BlockRow {
    fn line(&self) -> String {
        // A tool's name is one word, or it would be two blocks.
        let word = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
        let tool: Option<String> = self.tool.as_ref().map(|tool| tool.chars().map(word).collect());
        [Some(self.handle.as_str()), Some(self.what.as_str()), tool.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The blocks of a message, as the log keeps them.
    pub(super) fn read(lines: &str) -> Vec<Self> {
        let block = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let (handle, what) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            Self { handle, what, tool: words.next() }
        };
        lines.lines().map(block).collect()
    }
}

/// A part of a path that is one session's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) session: i64,
    pub(super) places: Range<usize>,
}

impl Stretch {
    /// The numbers of its messages, both ends included.
    pub(super) fn numbers(&self) -> Option<(i64, i64)> {
        let last = self.places.end.checked_sub(1).filter(|last| *last >= self.places.start)?;
        Some((number(self.session, self.places.start), number(self.session, last)))
    }
}

/// A message of the log.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) number: i64,
    pub(super) place: usize,
    pub(super) step: i64,
    pub(super) text: Redacted,
    pub(super) blocks: Vec<BlockRow>,
    pub(super) redacted: bool,
}

/// The stretches of a session's path, first to last, as far as `length` messages.
pub(super) async fn path(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    length: usize,
) -> Result<Vec<Stretch>> {
    let mut stretches = Vec::new();
    let mut end = length;
    let mut at = Some(session.clone());
    while let Some(session) = at {
        if session.begins < end {
            stretches.push(Stretch { session: session.id.0, places: session.begins..end });
        }
        end = end.min(session.begins);
        at = match session.parent.filter(|_| end > 0) {
            Some(parent) => session::session(sql, tenant, parent).await?,
            None => None,
        };
    }
    stretches.reverse();
    Ok(stretches)
}

/// The messages of some places of a path.
pub(super) async fn messages(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    places: Range<usize>,
) -> Result<Vec<Stored>> {
    let mut stored = Vec::new();
    for stretch in path(sql, tenant, session, places.end.min(session.length)).await? {
        let own = stretch.places.start.max(places.start)..stretch.places.end;
        if let Some((first, last)) = (Stretch { places: own, ..stretch }).numbers() {
            let find = format!("{MESSAGE} WHERE id BETWEEN $1 AND $2 AND tenant = $3 ORDER BY id");
            let rows = sql.rows(&find, &[first.into(), last.into(), tenant.id.into()]).await?;
            let missing = ((last - first + 1) as usize).saturating_sub(rows.len());
            if missing > 0 {
                let name = &session.name;
                return Err(StoreError::Damaged(format!("{missing} messages of session {name} are missing")));
            }
            stored.extend(rows.iter().map(stored_message).collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(stored)
}

/// The first place of a path, of so many, whose message lost secrets.
pub(super) async fn first_redacted(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    length: usize,
) -> Result<Option<usize>> {
    for stretch in path(sql, tenant, session, length).await? {
        let Some((first, last)) = stretch.numbers() else { continue };
        let find =
            "SELECT min(id) FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3 AND redacted <> 0";
        let row = sql.row(find, &[first.into(), last.into(), tenant.id.into()]).await?;
        if let Some(number) = row.map(|row| row.maybe_int(0)).transpose()?.flatten() {
            return Ok(Some(session_and_place(number).1));
        }
    }
    Ok(None)
}

/// What [`stored_message`] reads.
pub(super) const MESSAGE: &str = "SELECT id, step, text, blocks, redacted FROM messages";

pub(super) fn stored_message(row: &Row) -> Result<Stored> {
    let number = row.int(0)?;
    Ok(Stored {
        number,
        place: session_and_place(number).1,
        step: row.int(1)?,
        text: Redacted::from_store(row.text(2)?),
        blocks: BlockRow::read(&row.text(3)?),
        redacted: row.int(4)? != 0,
    })
}

/// A message that is new in a session.
pub(super) struct NewMessage<'a> {
    /// Its place in the session.
    pub(super) place: usize,
    /// The number of the message that its step begins with.
    pub(super) step: i64,
    pub(super) identity: &'a Identity,
    pub(super) entry: &'a Entry,
}

/// Writes new messages of a session, with what leads to their blocks and what they can be found by.
pub(super) async fn enter(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    messages: &[NewMessage<'_>],
) -> Result<()> {
    let make = "INSERT INTO messages (id, tenant, step, identity, text, blocks, redacted) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let (mut rows, mut blocks, mut terms) = (Vec::new(), Vec::new(), Vec::new());
    for NewMessage { place, step, identity, entry } in messages {
        let number = number(session.id.0, *place);
        let lines: Vec<String> = entry.blocks.iter().map(BlockRow::line).collect();
        rows.push(vec![
            number.into(),
            tenant.id.into(),
            (*step).into(),
            identity.0.as_slice().into(),
            entry.text.as_str().into(),
            lines.join("\n").into(),
            entry.redacted.into(),
        ]);
        blocks.extend(
            entry
                .blocks
                .iter()
                .enumerate()
                .map(|(at, block)| block_row(session.family, &block.handle, number, at)),
        );
        if !entry.terms.is_empty() {
            terms.push(vec![number.into(), entry.terms.as_str().into()]);
        }
    }
    sql.run_each(make, &rows).await?;
    sql.run_each(LINK_BLOCK, &blocks).await?;
    sql.run_each(sql.flavour().enter_terms, &terms).await
}

/// Links a recall ID to a block, unless it leads somewhere already.
const LINK_BLOCK: &str = "INSERT INTO blocks (family, handle, message, place) VALUES ($1, $2, $3, $4) ON CONFLICT (family, handle) DO NOTHING";

fn block_row(family: i64, handle: &str, message: i64, place: usize) -> Vec<Value> {
    vec![family.into(), handle.into(), message.into(), place.into()]
}

/// Says where a handle leads, if it leads nowhere yet.
pub(super) async fn lead(
    sql: &mut dyn Sql,
    family: i64,
    handle: &str,
    message: i64,
    place: usize,
) -> Result<()> {
    sql.run(LINK_BLOCK, &block_row(family, handle, message, place)).await.map(drop)
}

/// Values for a list of places in a statement.
pub(super) fn placeholders(first: usize, count: usize) -> String {
    (first..first + count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}
