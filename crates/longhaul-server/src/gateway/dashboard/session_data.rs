//! Loads one session from the store, and carries out undo, redo, search, recall and compress on it.

use http::StatusCode;
use longhaul_engine::models::Model;
use serde_json::value::RawValue;

use super::middleware::DashboardError;
use super::model::{
    AddedLatency, CompactionDetails, CompactionRow, CompressResult, DiffBase, MoveResult, OpenedBlock, RequestPage,
    RequestRow, SearchResults, SessionDetails, TimelinePoint,
};
use super::overview_data::PolicyCache;
use crate::gateway::Gateway;
use crate::session::{CompressRequest, Preview, StoredOutcome, compact_stored};
use crate::store::{
    HeadMove, HistoryPoint, Result, SearchScope, SessionOverview, StoreError, Tenant, TenantScope, TenantSession,
    TrafficRecord,
};

/// The number of requests on one page of the table. Chosen by hand.
const REQUESTS_PER_PAGE: usize = 50;
/// The most results of a search. Chosen by hand.
const MAX_SEARCH_HITS: usize = 20;

/// A move of the session's head, which is the compaction that is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UndoRedo {
    Undo,
    Redo,
}

impl Gateway {
    /// Finds a session by its name or the beginning of it, among the sessions that the viewer may see.
    pub(super) async fn find_session(&self, scope: &TenantScope, name: &str) -> Result<SessionOverview> {
        let unknown = || StoreError::NotFound("there is no such session".to_owned());
        self.store.session_overview(scope, name).await?.ok_or_else(unknown)
    }

    pub(super) async fn load_session(&self, scope: &TenantScope, name: &str, page: usize) -> Result<SessionDetails> {
        let overview = self.find_session(scope, name).await?;
        let TenantSession { tenant, session } = &overview.tenant_session;
        let traffic = self.store.traffic(tenant, session.id).await?;
        let compactions = self.store.compactions(tenant, session).await?;
        let lineage = self.store.lineage(tenant, session).await?;
        let pages = traffic.len().div_ceil(REQUESTS_PER_PAGE).max(1);
        let page = page.clamp(1, pages);
        let newest = traffic.iter().enumerate().rev().skip((page - 1) * REQUESTS_PER_PAGE).take(REQUESTS_PER_PAGE);
        let point = |one: &TrafficRecord| TimelinePoint {
            at: one.at,
            tokens_before: one.tokens_before,
            tokens_after: one.tokens_after,
            cache_read: one.usage.read,
        };
        let compaction_row = |compaction| CompactionRow::new(compaction, session, &traffic);
        Ok(SessionDetails {
            row: self.session_row(&overview, &mut PolicyCache::default(), self.now()).await?,
            added_ms: AddedLatency::from_traffic(&traffic),
            is_undone: session.is_undone,
            reason: session.origin.name(),
            parent: lineage.ancestors.into_iter().next().map(|parent| parent.name),
            children: lineage.children.into_iter().map(|child| child.name).collect(),
            timeline: traffic.iter().map(point).collect(),
            compaction_rows: compactions.iter().map(compaction_row).collect(),
            requests: RequestPage { page, pages, rows: newest.map(|(at, one)| RequestRow::new(at, one)).collect() },
        })
    }

    pub(super) async fn load_compaction(
        &self,
        scope: &TenantScope,
        (name, number): (&str, usize),
        against: DiffBase,
    ) -> Result<CompactionDetails> {
        let SessionOverview { tenant_session, .. } = self.find_session(scope, name).await?;
        let TenantSession { tenant, session } = &tenant_session;
        let compactions = self.store.compactions(tenant, session).await?;
        let unknown = || StoreError::NotFound("there is no such compaction of this session".to_owned());
        let compaction = compactions.iter().rev().find(|compaction| compaction.number == number).ok_or_else(unknown)?;
        let traffic = self.store.traffic(tenant, session.id).await?;
        let [original, shown] = self.store.bodies_before(&tenant_session, compaction).await?;
        let before = match against {
            DiffBase::Original => original,
            DiffBase::Shown => shown,
        };
        let after = self.store.body_at(tenant, session, HistoryPoint::Compaction(number)).await?;
        Ok(CompactionDetails {
            session: session.name.clone(),
            compaction: CompactionRow::new(compaction, session, &traffic),
            dialect: session.api_format,
            model: session.model.clone(),
            token_model: self.token_model(tenant, session.model.as_deref()).await?,
            has_before: compaction.parent.is_some(),
            report: compaction.report.clone(),
            against,
            before: raw_json(before)?,
            after: raw_json(after)?,
        })
    }

    pub(super) async fn search_session(&self, scope: &TenantScope, name: &str, query: &str) -> Result<SearchResults> {
        let SessionOverview { tenant_session: TenantSession { tenant, session }, .. } =
            self.find_session(scope, name).await?;
        let hits = match query.trim() {
            "" => Vec::new(),
            query => self.store.search(&tenant, &session, SearchScope::Family, query, MAX_SEARCH_HITS).await?,
        };
        let hits = hits.into_iter().map(Into::into).collect();
        Ok(SearchResults { session: session.name, query: query.to_owned(), hits })
    }

    /// Opens the original that a recall ID names. With the name of a session the search covers that session
    /// and its relatives, otherwise all sessions that the viewer may see.
    pub(super) async fn open_recall_id(
        &self,
        scope: &TenantScope,
        within: Option<&str>,
        recall_id: &str,
    ) -> Result<OpenedBlock> {
        if let Some(name) = within {
            let SessionOverview { tenant_session: TenantSession { tenant, session }, .. } =
                self.find_session(scope, name).await?;
            return self.store.recall(&tenant, Some(&session), recall_id).await.map(Into::into);
        }
        let tenants = match scope {
            TenantScope::One(tenant) => vec![tenant.clone()],
            TenantScope::All => self.store.tenants().await?,
        };
        for tenant in &tenants {
            match self.store.recall(tenant, None, recall_id).await {
                Err(StoreError::NotFound(_)) => {}
                other => return other.map(Into::into),
            }
        }
        Err(StoreError::NotFound("unknown recall ID".to_owned()))
    }

    /// Returns the model with the window and token counts learned for it.
    async fn token_model(&self, tenant: &Tenant, model: Option<&str>) -> Result<Option<Model>> {
        let mut policies = PolicyCache::default();
        Ok(self.find_policy(tenant, model, &mut policies).await?.map(|policy| policy.model.clone()))
    }

    /// Undoes or redoes a compaction in the store. A gateway that has the session in memory reads the head
    /// from the store before its next request.
    pub(super) async fn move_head(&self, scope: &TenantScope, name: &str, direction: UndoRedo) -> Result<MoveResult> {
        let SessionOverview { tenant_session: TenantSession { tenant, session }, active_compaction, .. } =
            self.find_session(scope, name).await?;
        let moved = match direction {
            UndoRedo::Undo => self.store.undo(&tenant, session.id).await?,
            UndoRedo::Redo => self.store.redo(&tenant, session.id).await?,
        };
        self.dashboard.change_feed.notify(&tenant);
        let (moved, active_compaction) = match moved {
            HeadMove::To(to) => (true, to.map(|compaction| compaction.number)),
            HeadMove::NoTarget => (false, active_compaction),
        };
        Ok(MoveResult { session: session.name, moved, active_compaction })
    }

    /// Compacts a session in the store now, or previews that.
    pub(super) async fn compress_session(
        &self,
        scope: &TenantScope,
        name: &str,
        compress: CompressRequest,
    ) -> std::result::Result<CompressResult, DashboardError> {
        let SessionOverview { tenant_session: TenantSession { tenant, session }, .. } =
            self.find_session(scope, name).await?;
        let settings = &self.settings.session;
        let compacted = compact_stored(&self.store, &tenant, &session, settings, &compress, self.now()).await;
        let compacted = compacted.map_err(|message| DashboardError::new(StatusCode::CONFLICT, message))?;
        // The report compares with the request that the client sent, so the page must do so too, whatever an
        // earlier compaction removed.
        let original = self.store.body_at(&tenant, &session, HistoryPoint::Original).await?;
        self.dashboard.change_feed.notify(&tenant);
        Ok(CompressResult {
            session: compacted.session.name,
            compaction: match compacted.outcome {
                StoredOutcome::Committed(number) => Some(number),
                StoredOutcome::Previewed | StoredOutcome::Unchanged => None,
            },
            preview: compress.preview == Preview::Yes,
            changed: compacted.outcome != StoredOutcome::Unchanged,
            reason: compacted.report["reason"].as_str().map(ToOwned::to_owned),
            obstacle: compacted.obstacle,
            dialect: compacted.session.api_format,
            token_model: self.token_model(&tenant, compacted.session.model.as_deref()).await?,
            model: compacted.session.model,
            report: compacted.report,
            before: raw_json(original)?,
            after: raw_json(compacted.after)?,
        })
    }
}

/// Wraps a request body so that it is serialized as JSON without being parsed again.
fn raw_json(body: String) -> Result<Box<RawValue>> {
    RawValue::from_string(body).map_err(|error| StoreError::Damaged(format!("the stored request is not JSON: {error}")))
}
