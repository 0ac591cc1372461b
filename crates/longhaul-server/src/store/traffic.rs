//! The traffic of the gateway: one row for each request, with what Longhaul did to it, the provider's usage,
//! and its cost.
//!
//! The rows are for people; no decision depends on them. A client can send any text as a model's name, and an
//! explanation may quote a request, so both are stored without secrets, on one line and with a limited
//! length. The rows are deleted with their session.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::redact::{RedactionMode, Redactor, Rules};

use super::UtcDay;
use super::error::Result;
use super::session::SessionId;
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// The characters of a model's name that are stored at most. Chosen by hand.
const MAX_MODEL_NAME_CHARS: usize = 200;

/// The characters of an explanation that are stored at most. Chosen by hand.
const MAX_EXPLANATION_CHARS: usize = 500;

/// The nanodollars of a dollar: the database stores costs as whole nanodollars.
const NANODOLLARS_PER_DOLLAR: f64 = 1e9;

/// The dollars of one request that are stored at most. No request costs as much; the limit keeps sums within
/// 64 bits.
const MAX_DOLLARS: f64 = 1e6;

/// The prefix before the reason of a bypass.
const BYPASSED_PREFIX: &str = "bypassed:";

/// The action that Longhaul took on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrafficAction {
    /// No decision applied, so the request was not compacted.
    Unchanged,
    /// The recorded decisions of an earlier compaction were replayed.
    Replayed,
    /// The request was newly compacted.
    Compacted,
    /// The request was passed through unchanged, for this reason.
    Bypassed(String),
    /// It is a request of Longhaul's own, for a summary. No request of a client is counted for it.
    Summary,
}

/// The stored word for [`TrafficAction::Summary`].
pub(super) const SUMMARY_ACTION: &str = "summary";

/// Formats the action as the response header `x-longhaul-action` has it.
impl fmt::Display for TrafficAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("none"),
            Self::Replayed => f.write_str("replayed"),
            Self::Compacted => f.write_str("compacted"),
            Self::Summary => f.write_str(SUMMARY_ACTION),
            Self::Bypassed(reason) => write!(f, "{BYPASSED_PREFIX}{reason}"),
        }
    }
}

impl TrafficAction {
    /// Parses a stored action. An unknown word is the reason of a bypass.
    fn parse(word: &str) -> Self {
        match word {
            "none" => Self::Unchanged,
            "replayed" => Self::Replayed,
            "compacted" => Self::Compacted,
            SUMMARY_ACTION => Self::Summary,
            other => Self::Bypassed(other.strip_prefix(BYPASSED_PREFIX).unwrap_or(other).to_owned()),
        }
    }
}

/// One request that went through the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficRecord {
    /// The time when it arrived.
    pub at: Timestamp,
    /// The model that the request named.
    pub model: Option<String>,
    /// The action that Longhaul took.
    pub action: TrafficAction,
    /// The tokens as the client sent it, by our count.
    pub tokens_before: Tokens,
    /// The tokens as it was forwarded, by our count.
    pub tokens_after: Tokens,
    /// The usage that the provider reported.
    pub usage: Usage,
    /// The reason why the provider's cache missed the prefix of the request before, or was expected to.
    pub cache_miss_reason: Option<String>,
    /// The time that the gateway added.
    pub added_time: Duration,
    /// The time that the request took in total.
    pub total_time: Duration,
    /// The cost in dollars, if the price is known.
    pub usd: Option<Dollars>,
    /// The estimated cost in dollars without Longhaul.
    pub usd_without_longhaul: Option<Dollars>,
}

/// The totals of several requests. A field is `None` if no request has a value for it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrafficTotals {
    /// The number of requests of clients.
    pub requests: usize,
    /// The number of requests for summaries that models answered. Their usage and cost are part of the other totals.
    pub summaries: usize,
    /// The number of requests that were newly compacted.
    pub compacted: usize,
    /// The number of requests that were passed through unchanged although they should have been processed.
    pub bypassed: usize,
    /// The tokens as the clients sent them, by our count.
    pub tokens_before: Tokens,
    /// The tokens as they were forwarded, by our count.
    pub tokens_after: Tokens,
    /// The usage that the provider reported.
    pub usage: Usage,
    /// The input tokens of those requests for which the provider reported cache reads.
    pub cacheable_tokens: Option<Tokens>,
    /// The time that the gateway added.
    pub added_time: Duration,
    /// The cost in dollars.
    pub usd: Option<Dollars>,
    /// The dollars saved, for those requests for which both costs are known; a negative number is a loss.
    pub usd_saved: Option<Dollars>,
    /// The dollars spent on summaries, which are part of `usd`.
    pub usd_on_summaries: Option<Dollars>,
}

impl TrafficTotals {
    /// Returns the share of the input tokens that was read from the provider's cache, from 0 to 1.
    #[must_use]
    pub fn cache_read_share(&self) -> Option<f64> {
        let prompts = self.cacheable_tokens.filter(|prompts| prompts.number() > 0)?;
        Some(self.usage.read?.number() as f64 / prompts.number() as f64)
    }
}

fn dollars_to_value(dollars: Option<Dollars>) -> Value {
    let to_nanodollars = |Dollars(amount): Dollars| {
        amount.is_finite().then(|| (amount.clamp(-MAX_DOLLARS, MAX_DOLLARS) * NANODOLLARS_PER_DOLLAR).round() as i64)
    };
    dollars.and_then(to_nanodollars).into()
}

pub(super) fn dollars_at(row: &Row, column: usize) -> Result<Option<Dollars>> {
    Ok(row.maybe_int(column)?.map(|parts| Dollars(parts as f64 / NANODOLLARS_PER_DOLLAR)))
}

fn duration_to_value(duration: Duration) -> Value {
    // Longer durations are stored as 90 minutes: nobody waits that long, and sums stay small.
    let max_duration = Duration::from_mins(90);
    i64::try_from(duration.min(max_duration).as_micros()).unwrap_or(i64::MAX).into()
}

pub(super) fn duration_at(row: &Row, column: usize) -> Result<Duration> {
    Ok(Duration::from_micros(row.int(column)?.max(0).unsigned_abs()))
}

/// Reads the provider's usage from a row, starting at a column.
fn usage_at(row: &Row, column: usize) -> Result<Usage> {
    Ok(Usage {
        input: row.maybe_tokens(column)?,
        read: row.maybe_tokens(column + 1)?,
        written: row.maybe_tokens(column + 2)?,
        written_1h: row.maybe_tokens(column + 3)?,
        output: row.maybe_tokens(column + 4)?,
    })
}

impl TrafficRecord {
    pub(super) fn from_row(row: &Row) -> Result<Self> {
        Ok(Self {
            at: Timestamp(row.int(0)?),
            model: row.maybe_text(1)?,
            action: TrafficAction::parse(&row.text(2)?),
            tokens_before: row.tokens(3)?,
            tokens_after: row.tokens(4)?,
            usage: usage_at(row, 5)?,
            cache_miss_reason: row.maybe_text(10)?,
            added_time: duration_at(row, 11)?,
            total_time: duration_at(row, 12)?,
            usd: dollars_at(row, 13)?,
            usd_without_longhaul: dollars_at(row, 14)?,
        })
    }

    /// Returns the record without secrets, with texts of limited length.
    fn redacted(&self, tenant: &Tenant) -> Self {
        let mut redactor = Redactor::keyed(Rules::default(), tenant.shared_redaction_key());
        let mut clean = |text: &str, max_chars: usize| {
            redactor.redact(text, RedactionMode::Text).text.one_line(max_chars).as_str().to_owned()
        };
        let action = match &self.action {
            TrafficAction::Bypassed(reason) => TrafficAction::Bypassed(clean(reason, MAX_EXPLANATION_CHARS)),
            other => other.clone(),
        };
        let model = self.model.as_deref().map(|name| clean(name, MAX_MODEL_NAME_CHARS));
        let cache_miss_reason = self.cache_miss_reason.as_deref().map(|text| clean(text, MAX_EXPLANATION_CHARS));
        Self { model, action, cache_miss_reason, ..self.clone() }
    }
}

/// Inserts a record, and returns false without inserting if the session was deleted.
async fn insert_record(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: SessionId,
    traffic: &TrafficRecord,
) -> Result<bool> {
    let insert = "INSERT INTO traffic (session, tenant, at, model, action, tokens_before, tokens_after, input, cache_read, \
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
        traffic.tokens_before.into(),
        traffic.tokens_after.into(),
        input.into(),
        read.into(),
        written.into(),
        written_1h.into(),
        output.into(),
        traffic.cache_miss_reason.clone().into(),
        duration_to_value(traffic.added_time),
        duration_to_value(traffic.total_time),
        dollars_to_value(traffic.usd),
        dollars_to_value(traffic.usd_without_longhaul),
    ];
    Ok(sql.run(insert, &values).await? > 0)
}

/// The columns that [`TrafficRecord::from_row`] reads, in its order.
pub(super) const TRAFFIC_COLUMNS: &str = "at, model, action, tokens_before, tokens_after, input, cache_read, cache_written, cache_written_1h, \
                                  output, broke, added, took, usd, usd_without";

async fn list_records(sql: &mut dyn Sql, tenant: &Tenant, session: SessionId) -> Result<Vec<TrafficRecord>> {
    let list = format!(
        "SELECT {TRAFFIC_COLUMNS} FROM traffic WHERE tenant = $1 AND session = $2 AND action <> '{SUMMARY_ACTION}' ORDER BY id"
    );
    let rows = sql.rows(&list, &[tenant.id.into(), session.0.into()]).await?;
    rows.iter().map(TrafficRecord::from_row).collect()
}

/// Returns the columns that [`TrafficTotals::from_row`] reads, in its order.
pub(super) fn totals_columns() -> String {
    // PostgreSQL's sum of integers is not an integer.
    let sum = |what: &str| format!("CAST(sum({what}) AS BIGINT)");
    let columns = [
        "CASE action WHEN 'summary' THEN 1 ELSE 0 END",
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
        "CASE action WHEN 'summary' THEN usd ELSE NULL END",
    ];
    format!("count(*), {}", columns.map(sum).join(", "))
}

impl TrafficTotals {
    /// Reads the totals from a row that starts with [`totals_columns`].
    pub(super) fn from_row(row: &Row) -> Result<Self> {
        if row.int(0)? == 0 {
            return Ok(Self::default());
        }
        let summaries = row.count(1)?;
        Ok(Self {
            requests: row.count(0)?.saturating_sub(summaries),
            summaries,
            compacted: row.count(2)?,
            bypassed: row.count(3)?,
            tokens_before: row.tokens(4)?,
            tokens_after: row.tokens(5)?,
            usage: usage_at(row, 6)?,
            cacheable_tokens: row.maybe_tokens(11)?,
            added_time: duration_at(row, 12)?,
            usd: dollars_at(row, 13)?,
            usd_saved: dollars_at(row, 14)?,
            usd_on_summaries: dollars_at(row, 15)?,
        })
    }
}

/// Reads the totals of one session, or of all sessions of the tenant.
async fn read_totals(sql: &mut dyn Sql, tenant: &Tenant, session: Option<SessionId>) -> Result<TrafficTotals> {
    let condition = if session.is_some() { " AND session = $2" } else { "" };
    let select = format!("SELECT {} FROM traffic WHERE tenant = $1{condition}", totals_columns());
    let mut values = vec![tenant.id.into()];
    values.extend(session.map(|session| Value::from(session.0)));
    sql.row(&select, &values).await?.map_or_else(|| Ok(TrafficTotals::default()), |row| TrafficTotals::from_row(&row))
}

impl Store {
    /// Records a request, and returns false if its session was deleted.
    pub async fn record_traffic(&self, tenant: &Tenant, session: SessionId, traffic: &TrafficRecord) -> Result<bool> {
        let arguments = (tenant.clone(), session, traffic.redacted(tenant));
        self.write(in_transaction(arguments, |sql, (tenant, session, traffic)| {
            Box::pin(insert_record(sql, tenant, *session, traffic))
        }))
        .await
    }

    /// Lists the requests of clients in a session, in order.
    pub async fn traffic(&self, tenant: &Tenant, session: SessionId) -> Result<Vec<TrafficRecord>> {
        let with = (tenant.clone(), session);
        self.read(in_transaction(with, |sql, (tenant, session)| Box::pin(list_records(sql, tenant, *session)))).await
    }

    /// Reads the totals of a session.
    pub async fn session_totals(&self, tenant: &Tenant, session: SessionId) -> Result<TrafficTotals> {
        let with = (tenant.clone(), session);
        self.read(in_transaction(with, |sql, (tenant, session)| Box::pin(read_totals(sql, tenant, Some(*session)))))
            .await
    }

    /// Returns what all tenants together spent on summaries on a day.
    pub async fn summary_spending(&self, day: UtcDay) -> Result<Dollars> {
        self.read(in_transaction(day, |sql, day| {
            let (from, to) = (day.start(), UtcDay(day.0 + 1).start());
            Box::pin(async move {
                let select = format!(
                    "SELECT CAST(sum(usd) AS BIGINT) FROM traffic WHERE action = '{SUMMARY_ACTION}' AND at >= $1 AND at < $2"
                );
                let row = sql.row(&select, &[from.0.into(), to.0.into()]).await?;
                Ok(row.as_ref().map(|row| dollars_at(row, 0)).transpose()?.flatten().unwrap_or_default())
            })
        }))
        .await
    }

    /// Reads the totals of all sessions of a tenant.
    pub async fn tenant_totals(&self, tenant: &Tenant) -> Result<TrafficTotals> {
        self.read(in_transaction(tenant.clone(), |sql, tenant| Box::pin(read_totals(sql, tenant, None)))).await
    }
}
