//! From the store to what is shown: every question goes through [`Whose`], so that nobody sees another's sessions.

use std::collections::HashMap;

use http::StatusCode;
use longhaul_engine::Tokens;
use longhaul_engine::policy::Policy;
use serde_json::value::RawValue;

use super::frame::Problem;
use super::model::{
    Added, EpochRow, EpochView, Found, Opened, Overview, Point, Range, Request, Requests, Row, SessionView,
    Shifted, Span, Squeezed, Threshold, Warning,
};
use crate::agents::Moment;
use crate::gateway::Gateway;
use crate::session::{Became, Compress, Learned, Preview, State as Kept, compact_stored, policy_of};
use crate::store::{
    Action, At, Moved, Owned, Result, Scope, Standing, State, StoreError, Tenant, Traffic, Whose,
};

/// A session that was written within so many milliseconds is live.
const LIVE: i64 = 10 * 60 * 1000;
/// So many sessions are listed,
const SESSIONS: usize = 200;
/// into so many stretches time is divided,
const STRETCHES: usize = 160;
/// so many requests stand on a page,
const PAGE: usize = 50;
/// so many things are found,
const HITS: usize = 20;
/// and so many warnings are listed.
const WARNINGS: usize = 50;

/// Which way a head is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Undo,
    Redo,
}

/// The numbers that hold for the models of tenants, each found once.
#[derive(Default)]
struct Policies(HashMap<(String, String), Option<Policy>>);

impl Gateway {
    pub(super) async fn overview(&self, whose: &Whose, range: Range) -> Result<Overview> {
        let now = self.now();
        let lately = Moment(now.0 - LIVE);
        let seen = self.store.overview(whose, range.since(now), lately, STRETCHES, SESSIONS).await?;
        let sessions = self.rows(&seen.standings, now).await?;
        let warn = |row: &Row| {
            let said = row.paused.iter().chain(&row.warnings).cloned();
            said.map(|said| Warning { session: row.name.clone(), said }).collect::<Vec<_>>()
        };
        let mut thresholds: Vec<Threshold> = Vec::new();
        for row in &sessions {
            let known = row.model.clone().zip(row.threshold);
            let threshold = known.map(|(model, tokens)| Threshold { model, tokens });
            thresholds.extend(threshold.filter(|threshold| !thresholds.contains(threshold)));
        }
        Ok(Overview {
            at: now,
            range,
            tenant: match whose {
                Whose::One(tenant) => Some(tenant.name().to_owned()),
                Whose::Everybody => None,
            },
            sessions_live: seen.live,
            sessions_all: seen.sessions,
            totals: (&seen.totals).into(),
            added_ms: Added::of(seen.median, seen.p95),
            paused: sessions.iter().filter(|row| row.paused.is_some()).count(),
            warnings: sessions.iter().flat_map(warn).take(WARNINGS).collect(),
            thresholds,
            course: seen.course.iter().map(Span::from).collect(),
            sessions,
        })
    }

    /// The sessions that were written last, the live ones first.
    pub(super) async fn listed(&self, whose: &Whose) -> Result<Vec<Row>> {
        let standings = self.store.standings(whose, SESSIONS).await?;
        self.rows(&standings, self.now()).await
    }

    async fn rows(&self, standings: &[Standing], now: Moment) -> Result<Vec<Row>> {
        let mut policies = Policies::default();
        let mut rows = Vec::with_capacity(standings.len());
        for standing in standings {
            rows.push(self.row(standing, &mut policies, now).await?);
        }
        rows.sort_by_key(|row: &Row| !row.live);
        Ok(rows)
    }

    async fn row(&self, standing: &Standing, policies: &mut Policies, now: Moment) -> Result<Row> {
        let Standing { owned: Owned { tenant, session }, totals, newest, .. } = standing;
        let policy = self.policy(tenant, session.model.as_deref(), policies).await?;
        let tokens = newest.as_ref().map(|newest| newest.after).filter(|tokens| *tokens > Tokens::ZERO);
        let threshold = policy.map(|policy| policy.threshold);
        // What another version wrote and this one cannot read says nothing.
        let kept = standing.state.as_deref().and_then(|state| serde_json::from_str::<Kept>(state).ok());
        let pause = kept.as_ref().and_then(|kept| kept.breaker.paused()).filter(|pause| pause.until() > now);
        Ok(Row {
            name: session.name.clone(),
            tenant: tenant.name().to_owned(),
            title: session.title.clone(),
            model: session.model.clone(),
            dialect: session.dialect.name(),
            live: session.state == State::Live && session.updated.0 >= now.0 - LIVE,
            state: session.state.name(),
            messages: session.messages(),
            tokens,
            window: policy.map(|policy| policy.window),
            threshold,
            compactions: standing.compactions,
            epoch: standing.epoch,
            totals: totals.into(),
            created: session.created,
            updated: session.updated,
            paused: pause.map(ToString::to_string),
            warnings: warnings(standing, kept.as_ref(), tokens.zip(threshold)),
        })
    }

    /// The numbers that hold for a model, with what was learned of it.
    async fn policy<'p>(
        &self,
        tenant: &Tenant,
        model: Option<&str>,
        policies: &'p mut Policies,
    ) -> Result<Option<&'p Policy>> {
        let Some(model) = model else { return Ok(None) };
        let key = (tenant.name().to_owned(), model.to_owned());
        if !policies.0.contains_key(&key) {
            let learned = self.store.learned(tenant, model).await?;
            let learned: Option<Learned> = learned.and_then(|learned| serde_json::from_str(&learned).ok());
            let config = &self.settings.session.config;
            let policy = policy_of(config, model, &learned.unwrap_or_default()).ok();
            policies.0.insert(key.clone(), policy);
        }
        Ok(policies.0.get(&key).and_then(Option::as_ref))
    }

    /// The session of that name.
    pub(super) async fn standing(&self, whose: &Whose, name: &str) -> Result<Standing> {
        let unknown = || StoreError::Unknown("there is no such session".to_owned());
        self.store.standing(whose, name).await?.ok_or_else(unknown)
    }

    pub(super) async fn view(&self, whose: &Whose, name: &str, page: usize) -> Result<SessionView> {
        let standing = self.standing(whose, name).await?;
        let Owned { tenant, session } = &standing.owned;
        let traffic = self.store.traffic(tenant, session.id).await?;
        let epochs = self.store.epochs(tenant, session).await?;
        let lineage = self.store.lineage(tenant, session).await?;
        let pages = traffic.len().div_ceil(PAGE).max(1);
        let page = page.clamp(1, pages);
        let newest = traffic.iter().enumerate().rev().skip((page - 1) * PAGE).take(PAGE);
        let point = |one: &Traffic| Point {
            at: one.at,
            tokens_before: one.before,
            tokens_after: one.after,
            cache_read: one.usage.read,
        };
        let epoch_row = |epoch| EpochRow::of(epoch, session.head == Some(epoch.id), &traffic);
        Ok(SessionView {
            row: self.row(&standing, &mut Policies::default(), self.now()).await?,
            added_ms: Added::over(&traffic),
            held: session.held,
            reason: session.reason.name(),
            parent: lineage.ancestors.into_iter().next().map(|parent| parent.name),
            children: lineage.children.into_iter().map(|child| child.name).collect(),
            course: traffic.iter().map(point).collect(),
            epochs: epochs.iter().map(epoch_row).collect(),
            requests: Requests { page, pages, rows: newest.map(|(at, one)| Request::of(at, one)).collect() },
        })
    }

    pub(super) async fn epoch(&self, whose: &Whose, name: &str, number: usize) -> Result<EpochView> {
        let Standing { owned, .. } = self.standing(whose, name).await?;
        let Owned { tenant, session } = &owned;
        let epochs = self.store.epochs(tenant, session).await?;
        let unknown = || StoreError::Unknown("there is no such compaction of this session".to_owned());
        let epoch = epochs.iter().rev().find(|epoch| epoch.number == number).ok_or_else(unknown)?;
        let traffic = self.store.traffic(tenant, session.id).await?;
        let [before, _] = self.store.before(&owned, epoch).await?;
        let after = self.store.body(tenant, session, At::Epoch(number)).await?;
        Ok(EpochView {
            session: session.name.clone(),
            epoch: EpochRow::of(epoch, session.head == Some(epoch.id), &traffic),
            report: epoch.report.clone(),
            before: raw(before)?,
            after: raw(after)?,
        })
    }

    pub(super) async fn search(&self, whose: &Whose, name: &str, query: &str) -> Result<Found> {
        let Standing { owned: Owned { tenant, session }, .. } = self.standing(whose, name).await?;
        let hits = match query.trim() {
            "" => Vec::new(),
            query => self.store.search(&tenant, &session, Scope::Family, query, HITS).await?,
        };
        let hits = hits.into_iter().map(Into::into).collect();
        Ok(Found { session: session.name, query: query.to_owned(), hits })
    }

    /// What a handle leads to, among the sessions that a session belongs to, or among all that may be looked at.
    pub(super) async fn open(&self, whose: &Whose, within: Option<&str>, handle: &str) -> Result<Opened> {
        if let Some(name) = within {
            let Standing { owned: Owned { tenant, session }, .. } = self.standing(whose, name).await?;
            return self.store.recall(&tenant, Some(&session), handle).await.map(Into::into);
        }
        let tenants = match whose {
            Whose::One(tenant) => vec![tenant.clone()],
            Whose::Everybody => self.store.tenants().await?,
        };
        for tenant in &tenants {
            match self.store.recall(tenant, None, handle).await {
                Err(StoreError::Unknown(_)) => {}
                other => return other.map(Into::into),
            }
        }
        Err(StoreError::Unknown("this handle leads nowhere".to_owned()))
    }

    /// Moves the head of a session. Whoever holds the session in memory reads the head before it goes on.
    pub(super) async fn shift(&self, whose: &Whose, name: &str, way: Way) -> Result<Shifted> {
        let Standing { owned: Owned { tenant, session }, epoch, .. } = self.standing(whose, name).await?;
        let moved = match way {
            Way::Undo => self.store.undo(&tenant, session.id).await?,
            Way::Redo => self.store.redo(&tenant, session.id).await?,
        };
        self.dashboard.pulse.beat(&tenant);
        let (moved, epoch) = match moved {
            Moved::To(to) => (true, to.map(|epoch| epoch.number)),
            Moved::Nowhere => (false, epoch),
        };
        Ok(Shifted { session: session.name, moved, epoch })
    }

    /// Compacts a session now, or says what that would do.
    pub(super) async fn squeeze(
        &self,
        whose: &Whose,
        name: &str,
        compress: Compress,
    ) -> std::result::Result<Squeezed, Problem> {
        let Standing { owned: Owned { tenant, session }, .. } = self.standing(whose, name).await?;
        let settings = &self.settings.session;
        let (_room, now) = (self.workers.acquire().await, self.now());
        let done = compact_stored(&self.store, &tenant, &session, settings, &compress, now).await;
        let done = done.map_err(|said| Problem::new(StatusCode::CONFLICT, said))?;
        self.dashboard.pulse.beat(&tenant);
        Ok(Squeezed {
            session: done.session.name,
            epoch: match done.became {
                Became::Epoch(number) => Some(number),
                Became::Preview | Became::Nothing => None,
            },
            preview: compress.preview == Preview::Yes,
            changed: done.became != Became::Nothing,
            reason: done.report["reason"].as_str().map(ToOwned::to_owned),
            obstacle: done.obstacle,
            report: done.report,
            before: raw(done.before)?,
            after: raw(done.after)?,
        })
    }
}

/// What is worth a look at a session.
fn warnings(standing: &Standing, kept: Option<&Kept>, size: Option<(Tokens, Tokens)>) -> Vec<String> {
    let mut said = Vec::new();
    if let Some((tokens, threshold)) = size.filter(|(tokens, threshold)| tokens >= threshold) {
        said.push(format!("the newest request is over the threshold: {tokens} of {threshold} tokens"));
    }
    if let Some(error) = kept.and_then(|kept| kept.last_error.as_ref()) {
        said.push(format!("the last summary failed: {error}"));
    }
    if let Some(model) = kept.and_then(|kept| kept.auxiliary_failed.as_ref()) {
        said.push(format!("the model for summaries does not answer: {model}"));
    }
    match standing.totals.bypassed {
        0 => {}
        1 => said.push("1 request went through as it came".to_owned()),
        count => said.push(format!("{count} requests went through as they came")),
    }
    if let Some(newest) = &standing.newest {
        if let Action::Bypassed(reason) = &newest.action {
            said.push(format!("the newest request went through as it came: {reason}"));
        }
        if let Some(broke) = &newest.broke {
            said.push(format!("the newest request missed the cache: {broke}"));
        }
    }
    if let Some(saved) = standing.totals.saved.filter(|saved| saved.0 < 0.0) {
        said.push(format!("so far it costs more than it saves: {saved}"));
    }
    said
}

/// A body as it stands in an answer.
fn raw(body: String) -> Result<Box<RawValue>> {
    RawValue::from_string(body)
        .map_err(|error| StoreError::Damaged(format!("the session is no JSON: {error}")))
}
