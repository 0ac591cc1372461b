//! Many sessions at a glance, for whoever looks at a gateway: what went through in all and over time, and how each session stands.
//!
//! All of it is read in one transaction, so that the sums and what they are sums of belong to the same moment. Nothing here is asked
//! without saying whose it is; everybody's is only for who owns the whole store.

use std::collections::HashMap;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Dollars;

use super::epochs::{self, Epoch};
use super::error::Result;
use super::export;
use super::session::{SESSION, Session};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::traffic::{self, TRAFFIC, Totals, Traffic};
use super::{Store, work};
use crate::agents::Moment;

/// Whose sessions are looked at.
#[derive(Debug, Clone)]
pub enum Whose {
    /// Those of one tenant.
    One(Tenant),
    /// All that there are, for who owns the store.
    Everybody,
}

impl Whose {
    /// A condition on the column of the tenant, for the first parameter of a statement.
    fn condition(&self) -> &'static str {
        match self {
            Self::One(_) => "tenant = $1",
            Self::Everybody => "CAST($1 AS BIGINT) = 0",
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::One(tenant) => tenant.id.into(),
            Self::Everybody => 0_i64.into(),
        }
    }
}

/// A session, and whose it is.
#[derive(Debug, Clone)]
pub struct Owned {
    /// Whose.
    pub tenant: Tenant,
    /// Which.
    pub session: Session,
}

/// How one session stands.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Which it is.
    pub owned: Owned,
    /// The sums over what went through of it.
    pub totals: Totals,
    /// What went through of it last.
    pub newest: Option<Traffic>,
    /// How many compactions there are, those among them that it has from a session before it.
    pub compactions: usize,
    /// The one that is in force.
    pub epoch: Option<usize>,
    /// Its state, as it was kept.
    pub state: Option<String>,
}

/// What went through in a stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// When it begins.
    pub at: Moment,
    /// How many requests.
    pub requests: usize,
    /// The largest of them as it came,
    pub before: Tokens,
    /// and the largest as it went on.
    pub after: Tokens,
    /// How many of them were compacted anew.
    pub compacted: usize,
    /// What they cost, over those of which both are known,
    pub usd: Option<Dollars>,
    /// and what they would have cost as they came.
    pub usd_without: Option<Dollars>,
}

/// All of it.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The sums over what went through.
    pub totals: Totals,
    /// What half of the requests were held up for at most,
    pub median: Option<Duration>,
    /// and what all but a twentieth were.
    pub p95: Option<Duration>,
    /// Over time; stretches in which nothing went through are left out.
    pub course: Vec<Stretch>,
    /// How many sessions there are,
    pub sessions: usize,
    /// and how many of them were written lately.
    pub live: usize,
    /// The ones that were written last, newest first.
    pub standings: Vec<Standing>,
}

/// What an overview is to be of.
struct Asked {
    whose: Whose,
    since: Moment,
    lately: Moment,
    stretches: u32,
    most: usize,
}

async fn overview(sql: &mut dyn Sql, asked: &Asked) -> Result<Overview> {
    let Asked { whose, since, .. } = asked;
    let condition = format!("{} AND at >= $2", whose.condition());
    let values = [whose.value(), since.0.into()];
    let ask = format!("SELECT {}, min(at), max(at) FROM traffic WHERE {condition}", traffic::sums());
    let row = sql.row(&ask, &values).await?;
    let totals = row.as_ref().map_or_else(|| Ok(Totals::default()), Totals::of)?;
    let ends = row.as_ref().map(|row| Ok((row.maybe_int(14)?, row.maybe_int(15)?))).transpose()?;
    let course = match ends {
        Some((Some(first), Some(last))) => {
            course(sql, &condition, &values, (first, last), asked.stretches).await?
        }
        _ => Vec::new(),
    };
    let mut at_rank = async |share: f64| -> Result<Option<Duration>> {
        let Some(last) = totals.requests.checked_sub(1) else { return Ok(None) };
        let rank = (last as f64 * share).round() as i64;
        let ask = format!("SELECT added FROM traffic WHERE {condition} ORDER BY added LIMIT 1 OFFSET $3");
        let row = sql.row(&ask, &[values[0].clone(), values[1].clone(), rank.into()]).await?;
        row.map(|row| traffic::duration(&row, 0)).transpose()
    };
    let (median, p95) = (at_rank(0.5).await?, at_rank(0.95).await?);
    let count = format!(
        "SELECT count(*), count(CASE WHEN state = 'live' AND updated >= $2 THEN 1 END) FROM sessions \
         WHERE {} AND state <> 'deleted'",
        whose.condition()
    );
    let row = sql.row(&count, &[whose.value(), asked.lately.0.into()]).await?;
    let (sessions, live) =
        row.map_or(Ok((0, 0)), |row| Ok::<_, super::StoreError>((row.count(0)?, row.count(1)?)))?;
    let standings = standings(sql, whose, None, asked.most).await?;
    Ok(Overview { totals, median, p95, course, sessions, live, standings })
}

async fn course(
    sql: &mut dyn Sql,
    condition: &str,
    values: &[Value; 2],
    (first, last): (i64, i64),
    stretches: u32,
) -> Result<Vec<Stretch>> {
    let width = (last - first) / i64::from(stretches.max(1)) + 1;
    let known = |what: &str| {
        format!("CAST(sum(CASE WHEN usd_without IS NULL OR usd IS NULL THEN NULL ELSE {what} END) AS BIGINT)")
    };
    let ask = format!(
        "SELECT (at - {first}) / {width}, count(*), max(tokens_before), max(tokens_after), \
         CAST(sum(CASE action WHEN 'compacted' THEN 1 ELSE 0 END) AS BIGINT), {}, {} \
         FROM traffic WHERE {condition} GROUP BY 1 ORDER BY 1",
        known("usd"),
        known("usd_without")
    );
    let stretch = |row: &Row| {
        Ok(Stretch {
            at: Moment(first + row.int(0)? * width),
            requests: row.count(1)?,
            before: row.tokens(2)?,
            after: row.tokens(3)?,
            compacted: row.count(4)?,
            usd: traffic::dollars(row, 5)?,
            usd_without: traffic::dollars(row, 6)?,
        })
    };
    sql.rows(&ask, values).await?.iter().map(stretch).collect()
}

/// The sessions that were written last, or the one of a name.
async fn standings(
    sql: &mut dyn Sql,
    whose: &Whose,
    name: Option<&str>,
    most: usize,
) -> Result<Vec<Standing>> {
    let named = if name.is_some() { " AND name = $3" } else { "" };
    let list = format!(
        "{SESSION} WHERE {} AND state <> 'deleted'{named} ORDER BY updated DESC, id DESC LIMIT $2",
        whose.condition()
    );
    let mut values = vec![whose.value(), most.into()];
    values.extend(name.map(Value::from));
    let sessions =
        sql.rows(&list, &values).await?.iter().map(Session::of).collect::<Result<Vec<Session>>>()?;
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = |numbers: &mut dyn Iterator<Item = i64>| {
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
    };
    let ids = numbers(&mut sessions.iter().map(|session| session.id.0));
    let owners = format!(
        "SELECT t.id, t.name, t.key, s.id FROM sessions s JOIN tenants t ON t.id = s.tenant WHERE s.id IN ({ids})"
    );
    let owners = by_session(sql, &owners, 3, |row| Tenant::of(row, 0)).await?;
    // What is asked for goes by the index, which is by tenant and session.
    let tenants = numbers(&mut owners.values().map(|tenant| tenant.id));
    let of_these = format!("FROM traffic WHERE tenant IN ({tenants}) AND session IN ({ids})");
    let sums = format!("SELECT {}, session {of_these} GROUP BY session", traffic::sums());
    let mut totals = by_session(sql, &sums, 14, Totals::of).await?;
    let newest = format!(
        "SELECT {TRAFFIC}, session FROM traffic WHERE id IN (SELECT max(id) {of_these} GROUP BY session)"
    );
    let mut newest = by_session(sql, &newest, 15, Traffic::of).await?;
    let made = format!("SELECT max(number), session FROM epochs WHERE session IN ({ids}) GROUP BY session");
    let made = by_session(sql, &made, 1, |row| row.count(0)).await?;
    let heads =
        format!("SELECT e.number, s.id FROM sessions s JOIN epochs e ON e.id = s.head WHERE s.id IN ({ids})");
    let heads = by_session(sql, &heads, 1, |row| row.count(0)).await?;
    let states = format!("SELECT state, session FROM states WHERE session IN ({ids})");
    let mut states = by_session(sql, &states, 1, |row| row.text(0)).await?;
    let standing = |session: Session| {
        let id = session.id.0;
        let epoch = heads.get(&id).copied();
        Some(Standing {
            totals: totals.remove(&id).unwrap_or_default(),
            newest: newest.remove(&id),
            compactions: made.get(&id).copied().max(epoch).unwrap_or(0),
            epoch,
            state: states.remove(&id),
            owned: Owned { tenant: owners.get(&id)?.clone(), session },
        })
    };
    Ok(sessions.into_iter().filter_map(standing).collect())
}

/// What rows say, by the number of the session in a column of theirs.
async fn by_session<T>(
    sql: &mut dyn Sql,
    statement: &str,
    column: usize,
    read: impl Fn(&Row) -> Result<T> + Send,
) -> Result<HashMap<i64, T>> {
    let rows = sql.rows(statement, &[]).await?;
    rows.iter().map(|row| Ok((row.int(column)?, read(row)?))).collect()
}

/// What a session came to as its client sent it, when a view of it was made, and what it was shown as until then.
async fn before(sql: &mut dyn Sql, tenant: &Tenant, session: &Session, epoch: &Epoch) -> Result<[String; 2]> {
    let body = export::original(sql, tenant, session, epoch.length).await?;
    let parent = match epoch.parent {
        Some(parent) => epochs::epoch(sql, tenant, parent).await?,
        None => None,
    };
    let whole = export::shown(session.dialect, &body, None)?;
    let shown = match &parent {
        Some(parent) => export::shown(session.dialect, &body, Some(&parent.ledger))?,
        None => whole.clone(),
    };
    Ok([whole, shown])
}

impl Store {
    /// What went through since a moment, in so many stretches of time at most, and how the sessions stand that were written last.
    /// Those that were written since another moment count as live.
    pub async fn overview(
        &self,
        whose: &Whose,
        since: Moment,
        lately: Moment,
        stretches: u32,
        most: usize,
    ) -> Result<Overview> {
        let asked = Asked { whose: whose.clone(), since, lately, stretches, most };
        self.read(work(asked, |sql, asked| Box::pin(overview(sql, asked)))).await
    }

    /// The sessions that were written last, newest first.
    pub async fn standings(&self, whose: &Whose, most: usize) -> Result<Vec<Standing>> {
        let with = (whose.clone(), most);
        self.read(work(with, |sql, (whose, most)| Box::pin(standings(sql, whose, None, *most)))).await
    }

    /// The session of exactly that name; nothing, where there is none among those that may be looked at.
    pub async fn standing(&self, whose: &Whose, name: &str) -> Result<Option<Standing>> {
        let with = (whose.clone(), name.to_owned());
        let found = self
            .read(work(with, |sql, (whose, name)| Box::pin(standings(sql, whose, Some(name), 1))))
            .await?;
        Ok(found.into_iter().next())
    }

    /// A session as its client sent it when a view of it was made, and as it was shown until then.
    pub async fn before(&self, owned: &Owned, epoch: &Epoch) -> Result<[String; 2]> {
        let with = (owned.clone(), epoch.clone());
        self.read(work(with, |sql, (owned, epoch)| {
            Box::pin(before(sql, &owned.tenant, &owned.session, epoch))
        }))
        .await
    }
}
