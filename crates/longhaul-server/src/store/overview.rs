//! Overviews of many sessions for the dashboard: the traffic in total and over time, and the state of each
//! session.
//!
//! An overview is read in one transaction, so that its totals and its sessions belong to the same moment.
//! Every query names a [`TenantScope`]; all tenants together are only for the owner of the store.

use std::collections::HashMap;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Dollars;

use super::compactions::{self, Compaction};
use super::error::Result;
use super::export;
use super::session::{SELECT_SESSION, StoredSession};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::traffic::{self, TRAFFIC_COLUMNS, TrafficRecord, TrafficTotals};
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// The tenants whose sessions a query covers.
#[derive(Debug, Clone)]
pub enum TenantScope {
    /// One tenant.
    One(Tenant),
    /// All tenants, for the owner of the store.
    All,
}

impl TenantScope {
    /// Returns a condition on the column `tenant`, which uses the first parameter of the statement.
    fn condition(&self) -> &'static str {
        match self {
            Self::One(_) => "tenant = $1",
            Self::All => "CAST($1 AS BIGINT) = 0",
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::One(tenant) => tenant.id.into(),
            Self::All => 0_i64.into(),
        }
    }
}

/// A session with its tenant.
#[derive(Debug, Clone)]
pub struct TenantSession {
    /// The tenant that owns the session.
    pub tenant: Tenant,
    /// The session.
    pub session: StoredSession,
}

/// The current state of one session.
#[derive(Debug, Clone)]
pub struct SessionOverview {
    /// The session with its tenant.
    pub tenant_session: TenantSession,
    /// The totals of its requests.
    pub totals: TrafficTotals,
    /// Its newest request.
    pub newest_request: Option<TrafficRecord>,
    /// The number of its compactions, including those that it inherited from its parent.
    pub compaction_count: usize,
    /// The number of the active compaction.
    pub active_compaction: Option<usize>,
    /// Its saved state, as the JSON of `session::SessionState`.
    pub state: Option<String>,
}

/// The traffic of one interval of time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeBucket {
    /// The time when the interval starts.
    pub start: Timestamp,
    /// The number of requests.
    pub requests: usize,
    /// The tokens of the largest request as the client sent it.
    pub max_tokens_before: Tokens,
    /// The tokens of the largest request as it was forwarded.
    pub max_tokens_after: Tokens,
    /// The number of requests that were newly compacted.
    pub compacted: usize,
    /// The cost of those requests for which both costs are known.
    pub usd: Option<Dollars>,
    /// The cost that the same requests would have had without Longhaul.
    pub usd_without_longhaul: Option<Dollars>,
}

/// The traffic of a gateway and its most recent sessions.
#[derive(Debug, Clone)]
pub struct StoreOverview {
    /// The totals of all requests.
    pub totals: TrafficTotals,
    /// The median of the time that the gateway added to a request.
    pub median_added_time: Option<Duration>,
    /// The 95th percentile of the time that the gateway added to a request.
    pub p95_added_time: Option<Duration>,
    /// The traffic over time, without the intervals that have no requests.
    pub buckets: Vec<TimeBucket>,
    /// The number of sessions.
    pub session_count: usize,
    /// The number of live sessions that were written recently.
    pub active_sessions: usize,
    /// The sessions that were written last, newest first.
    pub recent_sessions: Vec<SessionOverview>,
}

/// The parameters of an overview.
struct OverviewQuery {
    scope: TenantScope,
    since: Timestamp,
    active_since: Timestamp,
    max_buckets: u32,
    max_sessions: usize,
}

async fn read_overview(sql: &mut dyn Sql, query: &OverviewQuery) -> Result<StoreOverview> {
    let OverviewQuery { scope, since, .. } = query;
    let condition = format!("{} AND at >= $2", scope.condition());
    let values = [scope.value(), since.0.into()];
    let select = format!("SELECT {}, min(at), max(at) FROM traffic WHERE {condition}", traffic::totals_columns());
    let row = sql.row(&select, &values).await?;
    let totals = row.as_ref().map_or_else(|| Ok(TrafficTotals::default()), TrafficTotals::from_row)?;
    let ends = row.as_ref().map(|row| Ok((row.maybe_int(16)?, row.maybe_int(17)?))).transpose()?;
    let buckets = match ends {
        Some((Some(first), Some(last))) => {
            read_time_buckets(sql, &condition, &values, (first, last), query.max_buckets).await?
        }
        _ => Vec::new(),
    };
    let mut at_rank = async |share: f64| -> Result<Option<Duration>> {
        let Some(last) = totals.requests.checked_sub(1) else { return Ok(None) };
        let rank = (last as f64 * share).round() as i64;
        let select = format!(
            "SELECT added FROM traffic WHERE {condition} AND action <> 'summary' ORDER BY added LIMIT 1 OFFSET $3"
        );
        let row = sql.row(&select, &[values[0].clone(), values[1].clone(), rank.into()]).await?;
        row.map(|row| traffic::duration_at(&row, 0)).transpose()
    };
    let (median_added_time, p95_added_time) = (at_rank(0.5).await?, at_rank(0.95).await?);
    let count = format!(
        "SELECT count(*), count(CASE WHEN state = 'live' AND updated >= $2 THEN 1 END) FROM sessions \
         WHERE {} AND state <> 'deleted'",
        scope.condition()
    );
    let row = sql.row(&count, &[scope.value(), query.active_since.0.into()]).await?;
    let (session_count, active_sessions) =
        row.map_or(Ok((0, 0)), |row| Ok::<_, super::StoreError>((row.count(0)?, row.count(1)?)))?;
    let recent_sessions = read_session_overviews(sql, scope, None, query.max_sessions).await?;
    Ok(StoreOverview {
        totals,
        median_added_time,
        p95_added_time,
        buckets,
        session_count,
        active_sessions,
        recent_sessions,
    })
}

async fn read_time_buckets(
    sql: &mut dyn Sql,
    condition: &str,
    values: &[Value; 2],
    (first, last): (i64, i64),
    max_buckets: u32,
) -> Result<Vec<TimeBucket>> {
    let width = (last - first) / i64::from(max_buckets.max(1)) + 1;
    let sum_if_priced = |what: &str| {
        format!("CAST(sum(CASE WHEN usd_without IS NULL OR usd IS NULL THEN NULL ELSE {what} END) AS BIGINT)")
    };
    let select = format!(
        "SELECT (at - {first}) / {width}, count(CASE action WHEN 'summary' THEN NULL ELSE 1 END), max(tokens_before), max(tokens_after), \
         CAST(sum(CASE action WHEN 'compacted' THEN 1 ELSE 0 END) AS BIGINT), {}, {} \
         FROM traffic WHERE {condition} GROUP BY 1 ORDER BY 1",
        sum_if_priced("usd"),
        sum_if_priced("usd_without")
    );
    let bucket = |row: &Row| {
        Ok(TimeBucket {
            start: Timestamp(first + row.int(0)? * width),
            requests: row.count(1)?,
            max_tokens_before: row.tokens(2)?,
            max_tokens_after: row.tokens(3)?,
            compacted: row.count(4)?,
            usd: traffic::dollars_at(row, 5)?,
            usd_without_longhaul: traffic::dollars_at(row, 6)?,
        })
    };
    sql.rows(&select, values).await?.iter().map(bucket).collect()
}

/// Reads the sessions that were written last, or the one with the given name.
async fn read_session_overviews(
    sql: &mut dyn Sql,
    scope: &TenantScope,
    name: Option<&str>,
    max_sessions: usize,
) -> Result<Vec<SessionOverview>> {
    let by_name = if name.is_some() { " AND name = $3" } else { "" };
    let list = format!(
        "{SELECT_SESSION} WHERE {} AND state <> 'deleted'{by_name} ORDER BY updated DESC, id DESC LIMIT $2",
        scope.condition()
    );
    let mut values = vec![scope.value(), max_sessions.into()];
    values.extend(name.map(Value::from));
    let sessions =
        sql.rows(&list, &values).await?.iter().map(StoredSession::from_row).collect::<Result<Vec<StoredSession>>>()?;
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    let id_list = |ids: &mut dyn Iterator<Item = i64>| ids.map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
    let ids = id_list(&mut sessions.iter().map(|session| session.id.0));
    let owners = format!(
        "SELECT t.id, t.name, t.key, s.id FROM sessions s JOIN tenants t ON t.id = s.tenant WHERE s.id IN ({ids})"
    );
    let owners = rows_by_session(sql, &owners, 3, |row| Tenant::from_row(row, 0)).await?;
    // The condition on the tenant lets the queries use the index on tenant and session.
    let tenants = id_list(&mut owners.values().map(|tenant| tenant.id));
    let from_traffic = format!("FROM traffic WHERE tenant IN ({tenants}) AND session IN ({ids})");
    let sums = format!("SELECT {}, session {from_traffic} GROUP BY session", traffic::totals_columns());
    let mut totals = rows_by_session(sql, &sums, 16, TrafficTotals::from_row).await?;
    let newest = format!(
        "SELECT {TRAFFIC_COLUMNS}, session FROM traffic WHERE id IN (SELECT max(id) {from_traffic} AND action <> 'summary' GROUP BY session)"
    );
    let mut newest = rows_by_session(sql, &newest, 15, TrafficRecord::from_row).await?;
    let compaction_counts =
        format!("SELECT max(number), session FROM epochs WHERE session IN ({ids}) GROUP BY session");
    let compaction_counts = rows_by_session(sql, &compaction_counts, 1, |row| row.count(0)).await?;
    let heads = format!("SELECT e.number, s.id FROM sessions s JOIN epochs e ON e.id = s.head WHERE s.id IN ({ids})");
    let heads = rows_by_session(sql, &heads, 1, |row| row.count(0)).await?;
    let states = format!("SELECT state, session FROM states WHERE session IN ({ids})");
    let mut states = rows_by_session(sql, &states, 1, |row| row.text(0)).await?;
    let overview = |session: StoredSession| {
        let id = session.id.0;
        let compaction = heads.get(&id).copied();
        Some(SessionOverview {
            totals: totals.remove(&id).unwrap_or_default(),
            newest_request: newest.remove(&id),
            compaction_count: compaction_counts.get(&id).copied().max(compaction).unwrap_or(0),
            active_compaction: compaction,
            state: states.remove(&id),
            tenant_session: TenantSession { tenant: owners.get(&id)?.clone(), session },
        })
    };
    Ok(sessions.into_iter().filter_map(overview).collect())
}

/// Runs a statement and collects its rows by the session ID in the given column.
async fn rows_by_session<T>(
    sql: &mut dyn Sql,
    statement: &str,
    column: usize,
    read: impl Fn(&Row) -> Result<T> + Send,
) -> Result<HashMap<i64, T>> {
    let rows = sql.rows(statement, &[]).await?;
    rows.iter().map(|row| Ok((row.int(column)?, read(row)?))).collect()
}

/// Returns two request bodies at the time of a compaction: as the client sent it, and as the compaction
/// before it showed it.
async fn read_bodies_before(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    compaction: &Compaction,
) -> Result<[String; 2]> {
    let body = export::original_body(sql, tenant, session, compaction.path_length).await?;
    let parent = match compaction.parent {
        Some(parent) => compactions::find_compaction(sql, tenant, parent).await?,
        None => None,
    };
    let original = export::apply_ledger(session.api_format, &body, None)?;
    let shown = match &parent {
        Some(parent) => export::apply_ledger(session.api_format, &body, Some(&parent.ledger))?,
        None => original.clone(),
    };
    Ok([original, shown])
}

impl Store {
    /// Reads an overview of the traffic since a time, in at most `max_buckets` intervals, and of the sessions that
    /// were written last, at most `max_sessions`. Sessions that were written since `active_since` count as active.
    pub async fn overview(
        &self,
        scope: &TenantScope,
        since: Timestamp,
        active_since: Timestamp,
        max_buckets: u32,
        max_sessions: usize,
    ) -> Result<StoreOverview> {
        let query = OverviewQuery { scope: scope.clone(), since, active_since, max_buckets, max_sessions };
        self.read(in_transaction(query, |sql, query| Box::pin(read_overview(sql, query)))).await
    }

    /// Reads the sessions that were written last, newest first.
    pub async fn session_overviews(&self, scope: &TenantScope, max_sessions: usize) -> Result<Vec<SessionOverview>> {
        let arguments = (scope.clone(), max_sessions);
        self.read(in_transaction(arguments, |sql, (scope, max_sessions)| {
            Box::pin(read_session_overviews(sql, scope, None, *max_sessions))
        }))
        .await
    }

    /// Reads the session with exactly this name; `None` if the scope has none.
    pub async fn session_overview(&self, scope: &TenantScope, name: &str) -> Result<Option<SessionOverview>> {
        let arguments = (scope.clone(), name.to_owned());
        let found = self
            .read(in_transaction(arguments, |sql, (scope, name)| {
                Box::pin(read_session_overviews(sql, scope, Some(name), 1))
            }))
            .await?;
        Ok(found.into_iter().next())
    }

    /// Returns two request bodies at the time of a compaction: as the client sent it, and as it was shown to
    /// the model until then.
    pub async fn bodies_before(&self, tenant_session: &TenantSession, compaction: &Compaction) -> Result<[String; 2]> {
        let arguments = (tenant_session.clone(), compaction.clone());
        self.read(in_transaction(arguments, |sql, (tenant_session, compaction)| {
            Box::pin(read_bodies_before(sql, &tenant_session.tenant, &tenant_session.session, compaction))
        }))
        .await
    }
}
