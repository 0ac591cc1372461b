//! What passed through the gateway: one row a request, with what was done to it, what the provider counted, and what it cost.
//!
//! It is told to people and decides nothing. A client can write anything where its model's name stands, and an explanation may quote
//! a body: both are kept without secrets, on one line, and of a bounded length. It goes with its session.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::redact::{Content, Redactor, Rules};

use super::error::Result;
use super::session::SessionId;
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::{Store, work};
use crate::agents::Moment;

/// The most characters that are kept of a model's name,
const LONGEST_NAME: usize = 200;

/// and of what is said about a request.
const LONGEST_WORDS: usize = 500;

/// How many parts a dollar is kept in.
const PARTS: f64 = 1e9;

/// More dollars than any request costs, so that sums stay numbers that both databases can hold.
const MOST_DOLLARS: f64 = 1e6;

/// What stands before the reason of a bypass.
const BYPASSED: &str = "bypassed:";

/// What was done to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing was decided about it.
    None,
    /// What was decided before was done again.
    Replayed,
    /// It was compacted anew.
    Compacted,
    /// It went through as it came, for this reason.
    Bypassed(String),
}

/// As a response header has it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Replayed => f.write_str("replayed"),
            Self::Compacted => f.write_str("compacted"),
            Self::Bypassed(reason) => write!(f, "{BYPASSED}{reason}"),
        }
    }
}

impl Action {
    /// Of what was kept; a word that is not known is one that a bypass gave.
    fn of(word: &str) -> Self {
        match word {
            "none" => Self::None,
            "replayed" => Self::Replayed,
            "compacted" => Self::Compacted,
            other => Self::Bypassed(other.strip_prefix(BYPASSED).unwrap_or(other).to_owned()),
        }
    }
}

/// One request that went through.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// When.
    pub at: Moment,
    /// The model that it named.
    pub model: Option<String>,
    /// What was done to it.
    pub action: Action,
    /// Its tokens as it came,
    pub before: Tokens,
    /// and as it went on, by our count.
    pub after: Tokens,
    /// What the provider counted.
    pub usage: Usage,
    /// Why the provider's cache did not have what it could have had.
    pub broke: Option<String>,
    /// How much longer it took for having gone through us,
    pub added: Duration,
    /// of how long it took in all.
    pub took: Duration,
    /// What it cost,
    pub usd: Option<Dollars>,
    /// and what it would have cost as it came.
    pub usd_without: Option<Dollars>,
}

/// The sums over several requests. What is nothing was said of none of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// How many they are.
    pub requests: usize,
    /// How many of them were compacted anew,
    pub compacted: usize,
    /// and how many went through as they came, though more was meant to be done.
    pub bypassed: usize,
    /// Their tokens as they came,
    pub before: Tokens,
    /// and as they went on.
    pub after: Tokens,
    /// What the provider counted.
    pub usage: Usage,
    /// The prompts of which the provider said how much of them was in its cache.
    pub cacheable: Option<Tokens>,
    /// How much longer they took for having gone through us.
    pub added: Duration,
    /// What they cost.
    pub usd: Option<Dollars>,
    /// How much more they would have cost as they came, over those of which both are known; less than nothing is a loss.
    pub saved: Option<Dollars>,
}

impl Totals {
    /// What share of the prompts was read from the provider's cache.
    #[must_use]
    pub fn read_share(&self) -> Option<f64> {
        let prompts = self.cacheable.filter(|prompts| prompts.number() > 0)?;
        Some(self.usage.read?.number() as f64 / prompts.number() as f64)
    }
}

fn parts(dollars: Option<Dollars>) -> Value {
    let kept = |Dollars(amount): Dollars| {
        amount.is_finite().then(|| (amount.clamp(-MOST_DOLLARS, MOST_DOLLARS) * PARTS).round() as i64)
    };
    dollars.and_then(kept).into()
}

pub(super) fn dollars(row: &Row, column: usize) -> Result<Option<Dollars>> {
    Ok(row.maybe_int(column)?.map(|parts| Dollars(parts as f64 / PARTS)))
}

fn micros(duration: Duration) -> Value {
    // Longer than an hour is as good as an hour and a half: nobody waits for it, and sums stay small.
    let most = Duration::from_mins(90);
    i64::try_from(duration.min(most).as_micros()).unwrap_or(i64::MAX).into()
}

pub(super) fn duration(row: &Row, column: usize) -> Result<Duration> {
    Ok(Duration::from_micros(row.int(column)?.max(0).unsigned_abs()))
}

/// Of a row that has what the provider counted from a column on.
fn usage(row: &Row, column: usize) -> Result<Usage> {
    Ok(Usage {
        input: row.maybe_tokens(column)?,
        read: row.maybe_tokens(column + 1)?,
        written: row.maybe_tokens(column + 2)?,
        written_1h: row.maybe_tokens(column + 3)?,
        output: row.maybe_tokens(column + 4)?,
    })
}

impl Traffic {
    pub(super) fn of(row: &Row) -> Result<Self> {
        Ok(Self {
            at: Moment(row.int(0)?),
            model: row.maybe_text(1)?,
            action: Action::of(&row.text(2)?),
            before: row.tokens(3)?,
            after: row.tokens(4)?,
            usage: usage(row, 5)?,
            broke: row.maybe_text(10)?,
            added: duration(row, 11)?,
            took: duration(row, 12)?,
            usd: dollars(row, 13)?,
            usd_without: dollars(row, 14)?,
        })
    }

    /// The same without secrets, in bounded room.
    fn redacted(&self, tenant: &Tenant) -> Self {
        let mut redactor = Redactor::keyed(Rules::default(), tenant.shared_key());
        let mut clean = |text: &str, most: usize| {
            redactor.redact(text, Content::Text).text.on_one_line(most).as_str().to_owned()
        };
        let action = match &self.action {
            Action::Bypassed(reason) => Action::Bypassed(clean(reason, LONGEST_WORDS)),
            other => other.clone(),
        };
        let model = self.model.as_deref().map(|name| clean(name, LONGEST_NAME));
        let broke = self.broke.as_deref().map(|words| clean(words, LONGEST_WORDS));
        Self { model, action, broke, ..self.clone() }
    }
}

/// Nothing is kept of a session that is gone.
async fn note(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId, traffic: &Traffic) -> Result<bool> {
    let note = "INSERT INTO traffic (session, tenant, at, model, action, tokens_before, tokens_after, input, cache_read, \
                cache_written, cache_written_1h, output, broke, added, took, usd, usd_without) \
                SELECT id, tenant, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17 \
                FROM sessions WHERE id = $1 AND tenant = $2 AND state <> 'deleted'";
    let Usage { input, read, written, written_1h, output } = traffic.usage;
    let values = [
        session.0.into(),
        tenant.id.into(),
        traffic.at.0.into(),
        traffic.model.clone().into(),
        traffic.action.to_string().into(),
        traffic.before.into(),
        traffic.after.into(),
        input.into(),
        read.into(),
        written.into(),
        written_1h.into(),
        output.into(),
        traffic.broke.clone().into(),
        micros(traffic.added),
        micros(traffic.took),
        parts(traffic.usd),
        parts(traffic.usd_without),
    ];
    Ok(sql.run(note, &values).await? > 0)
}

/// What [`Traffic::of`] reads, in its order.
pub(super) const TRAFFIC: &str = "at, model, action, tokens_before, tokens_after, input, cache_read, cache_written, cache_written_1h, \
                                  output, broke, added, took, usd, usd_without";

async fn noted(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId) -> Result<Vec<Traffic>> {
    let list = format!("SELECT {TRAFFIC} FROM traffic WHERE tenant = $1 AND session = $2 ORDER BY id");
    let rows = sql.rows(&list, &[tenant.id.into(), session.0.into()]).await?;
    rows.iter().map(Traffic::of).collect()
}

/// What [`Totals::of`] reads, in its order.
pub(super) fn sums() -> String {
    // PostgreSQL adds whole numbers up to something that is none.
    let sum = |what: &str| format!("CAST(sum({what}) AS BIGINT)");
    let sums = [
        "CASE action WHEN 'compacted' THEN 1 ELSE 0 END",
        "CASE WHEN action LIKE 'bypassed:%' THEN 1 ELSE 0 END",
        "tokens_before",
        "tokens_after",
        "input",
        "cache_read",
        "cache_written",
        "cache_written_1h",
        "output",
        "CASE WHEN cache_read IS NULL THEN NULL ELSE input END",
        "added",
        "usd",
        "usd_without - usd",
    ];
    format!("count(*), {}", sums.map(sum).join(", "))
}

impl Totals {
    /// Of a row of [`sums`] alone, or with more behind them.
    pub(super) fn of(row: &Row) -> Result<Self> {
        if row.int(0)? == 0 {
            return Ok(Self::default());
        }
        Ok(Self {
            requests: row.count(0)?,
            compacted: row.count(1)?,
            bypassed: row.count(2)?,
            before: row.tokens(3)?,
            after: row.tokens(4)?,
            usage: usage(row, 5)?,
            cacheable: row.maybe_tokens(10)?,
            added: duration(row, 11)?,
            usd: dollars(row, 12)?,
            saved: dollars(row, 13)?,
        })
    }
}

/// Over one session of a tenant's, or over all.
async fn totals(sql: &mut dyn Sql, tenant: &Tenant, session: Option<SessionId>) -> Result<Totals> {
    let which = if session.is_some() { " AND session = $2" } else { "" };
    let ask = format!("SELECT {} FROM traffic WHERE tenant = $1{which}", sums());
    let mut values = vec![tenant.id.into()];
    values.extend(session.map(|session| Value::from(session.0)));
    sql.row(&ask, &values).await?.map_or_else(|| Ok(Totals::default()), |row| Totals::of(&row))
}

impl Store {
    /// Notes a request that went through; false if its session is gone.
    pub async fn note_traffic(&self, tenant: &Tenant, session: SessionId, traffic: &Traffic) -> Result<bool> {
        let with = (tenant.clone(), session, traffic.redacted(tenant));
        self.write(work(with, |sql, (tenant, session, traffic)| {
            Box::pin(note(sql, tenant, *session, traffic))
        }))
        .await
    }

    /// What went through of a session, in order.
    pub async fn traffic(&self, tenant: &Tenant, session: SessionId) -> Result<Vec<Traffic>> {
        let with = (tenant.clone(), session);
        self.read(work(with, |sql, (tenant, session)| Box::pin(noted(sql, tenant, *session)))).await
    }

    /// The sums over a session.
    pub async fn session_totals(&self, tenant: &Tenant, session: SessionId) -> Result<Totals> {
        let with = (tenant.clone(), session);
        self.read(work(with, |sql, (tenant, session)| Box::pin(totals(sql, tenant, Some(*session))))).await
    }

    /// The sums over all sessions of a tenant.
    pub async fn tenant_totals(&self, tenant: &Tenant) -> Result<Totals> {
        self.read(work(tenant.clone(), |sql, tenant| Box::pin(totals(sql, tenant, None)))).await
    }
}
