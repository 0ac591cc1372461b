//! Builds the overview and the rows of sessions from the store. Every query names the visible tenants, so
//! that nobody sees the sessions of another tenant.

use std::collections::HashMap;

use longhaul_engine::Tokens;
use longhaul_engine::policy::Policy;

use super::model::{AddedLatency, ChartBucket, ModelThreshold, Overview, SessionRow, SessionWarning, TimeRange};
use crate::gateway::Gateway;
use crate::session::{LearnedModel, SessionState, policy_for_model};
use crate::store::{Result, SessionOverview, SessionStatus, Tenant, TenantScope, TenantSession, TrafficAction};
use longhaul_engine::Timestamp;

/// The age of the last write, in milliseconds, up to which a session is shown as live. Chosen by hand: ten
/// minutes.
const LIVE_WITHIN_MS: i64 = 10 * 60 * 1000;
/// The most sessions that a list shows. Chosen by hand.
const MAX_LISTED_SESSIONS: usize = 200;
/// The number of intervals into which the charts divide their time range. Chosen by hand.
const TIME_BUCKETS: u32 = 160;
/// The most warnings that the overview lists. Chosen by hand.
const MAX_WARNINGS: usize = 50;

/// The policies already found while one page is built, by the name of the tenant and of the model. A model
/// whose policy is invalid has `None`.
#[derive(Default)]
pub(super) struct PolicyCache(HashMap<(String, String), Option<Policy>>);

impl Gateway {
    pub(super) async fn load_overview(&self, scope: &TenantScope, range: TimeRange) -> Result<Overview> {
        let now = self.now();
        let live_since = Timestamp(now.0 - LIVE_WITHIN_MS);
        let stored =
            self.store.overview(scope, range.start(now), live_since, TIME_BUCKETS, MAX_LISTED_SESSIONS).await?;
        let sessions = self.session_rows(&stored.recent_sessions, now).await?;
        let warn = |row: &SessionRow| {
            let texts = row.paused.iter().chain(&row.warnings).cloned();
            texts.map(|text| SessionWarning { session: row.name.clone(), text }).collect::<Vec<_>>()
        };
        let mut thresholds: Vec<ModelThreshold> = Vec::new();
        for row in &sessions {
            let threshold_of_model = row.model.clone().zip(row.threshold);
            let threshold = threshold_of_model.map(|(model, tokens)| ModelThreshold { model, tokens });
            thresholds.extend(threshold.filter(|threshold| !thresholds.contains(threshold)));
        }
        Ok(Overview {
            at: now,
            range,
            tenant: match scope {
                TenantScope::One(tenant) => Some(tenant.name().to_owned()),
                TenantScope::All => None,
            },
            sessions_live: stored.active_sessions,
            sessions_all: stored.session_count,
            totals: (&stored.totals).into(),
            added_ms: AddedLatency::new(stored.median_added_time, stored.p95_added_time),
            paused: sessions.iter().filter(|row| row.paused.is_some()).count(),
            warnings: sessions.iter().flat_map(warn).take(MAX_WARNINGS).collect(),
            store: self.store.health_error().map(|error| error.to_string()),
            thresholds,
            chart_buckets: stored.buckets.iter().map(ChartBucket::from).collect(),
            sessions,
        })
    }

    /// Lists the sessions that were written last, live ones first.
    pub(super) async fn list_sessions(&self, scope: &TenantScope) -> Result<Vec<SessionRow>> {
        let overviews = self.store.session_overviews(scope, MAX_LISTED_SESSIONS).await?;
        self.session_rows(&overviews, self.now()).await
    }

    async fn session_rows(&self, overviews: &[SessionOverview], now: Timestamp) -> Result<Vec<SessionRow>> {
        let mut policies = PolicyCache::default();
        let mut rows = Vec::with_capacity(overviews.len());
        for overview in overviews {
            rows.push(self.session_row(overview, &mut policies, now).await?);
        }
        rows.sort_by_key(|row: &SessionRow| !row.live);
        Ok(rows)
    }

    pub(super) async fn session_row(
        &self,
        overview: &SessionOverview,
        policies: &mut PolicyCache,
        now: Timestamp,
    ) -> Result<SessionRow> {
        let SessionOverview {
            tenant_session: TenantSession { tenant, session }, totals, newest_request: newest, ..
        } = overview;
        let policy = self.find_policy(tenant, session.model.as_deref(), policies).await?;
        let tokens = newest.as_ref().map(|newest| newest.tokens_after).filter(|tokens| *tokens > Tokens::ZERO);
        let threshold = policy.map(|policy| policy.threshold);
        // A state that another version wrote and this one cannot parse adds no warning.
        let state = overview.state.as_deref().and_then(|state| serde_json::from_str::<SessionState>(state).ok());
        let pause = state.as_ref().and_then(|state| state.breaker.paused()).filter(|pause| pause.until() > now);
        Ok(SessionRow {
            name: session.name.clone(),
            tenant: tenant.name().to_owned(),
            title: session.title.clone(),
            model: session.model.clone(),
            dialect: session.api_format.name(),
            live: session.status == SessionStatus::Live && session.updated.0 >= now.0 - LIVE_WITHIN_MS,
            state: session.status.name(),
            messages: session.body_message_count(),
            tokens,
            window: policy.map(|policy| policy.window),
            threshold,
            compactions: overview.compaction_count,
            active_compaction: overview.active_compaction,
            totals: totals.into(),
            created: session.created,
            updated: session.updated,
            paused: pause.map(ToString::to_string),
            warnings: session_warnings(overview, state.as_ref(), tokens.zip(threshold)),
        })
    }

    /// Returns the policy for a tenant's model, including the window and token counts learned from its
    /// provider. Returns nothing if no model is named or its policy is invalid.
    pub(super) async fn find_policy<'p>(
        &self,
        tenant: &Tenant,
        model: Option<&str>,
        policies: &'p mut PolicyCache,
    ) -> Result<Option<&'p Policy>> {
        let Some(model) = model else { return Ok(None) };
        let key = (tenant.name().to_owned(), model.to_owned());
        if !policies.0.contains_key(&key) {
            let learned = LearnedModel::load(&self.store, tenant, model).await?;
            let config = &self.settings.session.config;
            let policy = policy_for_model(config, model, &learned.unwrap_or_default()).ok();
            policies.0.insert(key.clone(), policy);
        }
        Ok(policies.0.get(&key).and_then(Option::as_ref))
    }
}

/// Collects the warnings about one session. `size` is the tokens of its newest request and its threshold.
fn session_warnings(
    overview: &SessionOverview,
    state: Option<&SessionState>,
    size: Option<(Tokens, Tokens)>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some((tokens, threshold)) = size.filter(|(tokens, threshold)| tokens >= threshold) {
        warnings.push(format!("the newest request has {tokens} tokens, at or above the threshold of {threshold}"));
    }
    if let Some(error) = state.and_then(|state| state.last_error.as_ref()) {
        warnings.push(format!("the last summary failed: {error}"));
    }
    if let Some(model) = state.and_then(|state| state.auxiliary_failed.as_ref()) {
        warnings.push(format!("the model for summaries does not answer: {model}"));
    }
    match overview.totals.bypassed {
        0 => {}
        1 => warnings.push("1 request was passed through unchanged".to_owned()),
        count => warnings.push(format!("{count} requests were passed through unchanged")),
    }
    if let Some(newest) = &overview.newest_request {
        if let TrafficAction::Bypassed(reason) = &newest.action {
            warnings.push(format!("the newest request was passed through unchanged: {reason}"));
        }
        if let Some(reason) = &newest.cache_miss_reason {
            warnings.push(format!("the newest request missed the cache: {reason}"));
        }
    }
    if let Some(saved) = overview.totals.usd_saved.filter(|saved| saved.0 < 0.0) {
        warnings.push(format!("compaction has cost more than it saved so far: {saved}"));
    }
    warnings
}
