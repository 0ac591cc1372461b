//! From the store to what is shown: every question goes through [`Whose`], so that nobody sees another's sessions.

use std::collections::HashMap;

use longhaul_engine::Tokens;
use longhaul_engine::policy::Policy;

use super::model::{Added, Overview, Range, Row, Span, Threshold, Warning};
use crate::agents::Moment;
use crate::gateway::Gateway;
use crate::session::{Learned, State as Kept, policy_of};
use crate::store::{Action, Owned, Result, Standing, State, Tenant, Whose};

/// A session that was written within so many milliseconds is live.
const LIVE: i64 = 10 * 60 * 1000;
/// So many sessions are listed,
const SESSIONS: usize = 200;
/// into so many stretches time is divided,
const STRETCHES: u32 = 160;
/// and so many warnings are listed.
const WARNINGS: usize = 50;

/// The numbers that hold for the models of tenants, each found once.
#[derive(Default)]
pub(super) struct Policies(HashMap<(String, String), Option<Policy>>);

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
            store: self.store.trouble().map(|trouble| trouble.to_string()),
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

    pub(super) async fn row(&self, standing: &Standing, policies: &mut Policies, now: Moment) -> Result<Row> {
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
    pub(super) async fn policy<'p>(
        &self,
        tenant: &Tenant,
        model: Option<&str>,
        policies: &'p mut Policies,
    ) -> Result<Option<&'p Policy>> {
        let Some(model) = model else { return Ok(None) };
        let key = (tenant.name().to_owned(), model.to_owned());
        if !policies.0.contains_key(&key) {
            let learned = Learned::kept(&self.store, tenant, model).await?;
            let config = &self.settings.session.config;
            let policy = policy_of(config, model, &learned.unwrap_or_default()).ok();
            policies.0.insert(key.clone(), policy);
        }
        Ok(policies.0.get(&key).and_then(Option::as_ref))
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
