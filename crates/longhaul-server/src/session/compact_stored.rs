//! Compacts a session in the store for a caller that has no request of it, such as the dashboard or an MCP
//! tool.
//!
//! The plan uses the stored history, and its ledger is replayed with the client's next request. The store
//! contains no secrets. So a ledger about messages that had some would not match the client's messages: such
//! a compaction is refused, with a reason. No model is asked: code writes the checkpoint.

use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{
    CompactOptions, CompactedRequest, CompactionReport, Originals, Plan, PlanInput, RecallIds, Trigger,
};
use longhaul_engine::{Transcript, block_cache::BlockCache, wire};
use serde_json::Value;

use super::command::{CompressRequest, Preview};
use super::compact::start_of_newest_exchanges;
use super::learned_model::{self, LearnedModel};
use super::settings::SessionSettings;
use crate::store::{
    CommitOptions, CommitOutcome, CurrentView, HistoryPoint, SessionMatch, SessionStatus, Store, StoredSession, Tenant,
};
use longhaul_engine::Timestamp;

/// The number of tries, if other processes keep compacting the session meanwhile. Chosen by hand.
const MAX_TRIES: usize = 3;

/// The result of compacting a stored session.
#[derive(Debug, Clone)]
pub struct StoredCompaction {
    /// The session after it; a new one if the compaction archived the old one.
    pub session: StoredSession,
    /// The whole history as the client sent it, without secrets. The report refers to it.
    pub original: String,
    /// The request before the compaction: the history after the earlier compactions.
    pub before: String,
    /// The request after the compaction; equal to `before` if nothing changed.
    pub after: String,
    /// The report, as JSON.
    pub report: Value,
    /// The checkpoint that replaces the summarized turns.
    pub checkpoint: Option<String>,
    /// Whether the compaction was applied.
    pub outcome: StoredOutcome,
    /// The reason why a previewed compaction could not be applied.
    pub obstacle: Option<String>,
}

/// Whether a compaction of a stored session was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredOutcome {
    /// It is active, as the compaction with this number.
    Committed(usize),
    /// It was only previewed.
    Previewed,
    /// Nothing changed; the report has the reason.
    Unchanged,
}

impl StoredCompaction {
    /// Whether the compaction is active.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self.outcome, StoredOutcome::Committed(_))
    }
}

/// Compacts a stored session once, whatever the threshold. The error is one line. This needs much processor
/// time: a server runs it in a [`Pool`](crate::pool::Pool).
///
/// # Errors
/// The session is archived or deleted, has secrets in the messages to compact, or is compacted by others all
/// the time; or the store fails.
pub async fn compact_stored(
    store: &Store,
    tenant: &Tenant,
    session: &StoredSession,
    settings: &SessionSettings,
    compress: &CompressRequest,
    now: Timestamp,
) -> Result<StoredCompaction, String> {
    let job = StoredCompactionJob {
        store: store.clone(),
        tenant: tenant.clone(),
        settings: settings.clone(),
        compress: compress.clone(),
        now,
    };
    job.run(session.clone()).await
}

/// One request to compact a stored session.
struct StoredCompactionJob {
    store: Store,
    tenant: Tenant,
    settings: SessionSettings,
    compress: CompressRequest,
    now: Timestamp,
}

impl StoredCompactionJob {
    async fn run(&self, session: StoredSession) -> Result<StoredCompaction, String> {
        let name = session.name.clone();
        for _ in 0..MAX_TRIES {
            let current = self.store.session_by_id(&self.tenant, session.id).await.map_err(error_line)?;
            let current = current.ok_or_else(|| format!("session {name} no longer exists"))?;
            if let Some(compaction) = self.try_once(current).await? {
                return Ok(compaction);
            }
        }
        Err(format!("other processes keep compacting session {name}; try again"))
    }

    /// Tries once; returns `None` if another process compacted the session first.
    async fn try_once(&self, session: StoredSession) -> Result<Option<StoredCompaction>, String> {
        let Self { store, tenant, .. } = self;
        if session.status != SessionStatus::Live {
            return Err(format!("session {} is {} and cannot be compacted", session.name, session.status.name()));
        }
        let original = store.body_at(tenant, &session, HistoryPoint::Original).await.map_err(error_line)?;
        let (transcript, _) = wire::parse(session.api_format, &original).map_err(error_line)?;
        let before = store.body_at(tenant, &session, HistoryPoint::Now).await.map_err(error_line)?;
        let recorded = self.load_recorded(session).await?;
        let outcome = match self.plan(&recorded, &transcript, &before).await? {
            Plan::Ready(outcome) if outcome.ledger != recorded.view.ledger => outcome,
            Plan::Unchanged(report) | Plan::Ready(CompactedRequest { report, .. }) => {
                let report = report_json(&report)?;
                let checkpoint = recorded.view.ledger.checkpoint().map(str::to_owned);
                let (after, stored_outcome, session) = (before.clone(), StoredOutcome::Unchanged, recorded.session);
                let obstacle = None;
                return Ok(Some(StoredCompaction {
                    session,
                    original,
                    before,
                    after,
                    report,
                    checkpoint,
                    outcome: stored_outcome,
                    obstacle,
                }));
            }
        };
        let obstacle = self.find_obstacle(&recorded.session, &transcript, &outcome.ledger).await?;
        let (session, stored_outcome) = match (self.compress.preview, &obstacle) {
            (Preview::Yes, _) => (recorded.session, StoredOutcome::Previewed),
            (Preview::No, Some(obstacle)) => return Err(obstacle.clone()),
            (Preview::No, None) => {
                let options = CommitOptions { rules: &self.settings.rules, at: self.now };
                match store
                    .commit_compaction(tenant, &recorded, &transcript, &outcome, options)
                    .await
                    .map_err(error_line)?
                {
                    CommitOutcome::Done { session, number } => (session, StoredOutcome::Committed(number)),
                    CommitOutcome::Conflict | CommitOutcome::Outdated => {
                        return Ok(None);
                    }
                }
            }
        };
        let report = report_json(&outcome.report)?;
        let (after, checkpoint) = (outcome.body, outcome.ledger.checkpoint().map(str::to_owned));
        Ok(Some(StoredCompaction {
            session,
            original,
            before,
            after,
            report,
            checkpoint,
            outcome: stored_outcome,
            obstacle,
        }))
    }

    /// Loads the session with its ledger, as if a request with its whole history had just been recorded.
    async fn load_recorded(&self, session: StoredSession) -> Result<SessionMatch, String> {
        let compaction = match session.head {
            Some(head) => self.store.compaction(&self.tenant, head).await.map_err(error_line)?,
            None => None,
        };
        let (number, base) = (compaction.as_ref().map(|compaction| compaction.number), session.head);
        let ledger = compaction.map(|compaction| compaction.ledger).unwrap_or_default();
        Ok(SessionMatch { session, new_messages: 0, view: CurrentView { ledger, compaction_number: number, base } })
    }

    async fn plan(&self, recorded: &SessionMatch, transcript: &Transcript<'_>, before: &str) -> Result<Plan, String> {
        let SessionMatch { session, view, .. } = recorded;
        let model = transcript.model.as_deref().unwrap_or(&self.settings.model);
        let learned = LearnedModel::load(&self.store, &self.tenant, model).await.map_err(error_line)?;
        let policy = learned_model::policy_for_model(&self.settings.config, model, &learned.unwrap_or_default())
            .map_err(error_line)?;
        let keep_from = match self.compress.keep_newest {
            Some(exchange_count) => {
                let (view, _) = wire::parse(session.api_format, before).map_err(error_line)?;
                start_of_newest_exchanges(&view, exchange_count)
            }
            None => None,
        };
        let options = CompactOptions {
            trigger: Trigger::Manual,
            force: true,
            focus: self.compress.focus.clone(),
            originals: Originals::Stored(RecallIds::new(session.key.clone())),
            session_id: Some(session.name.clone()),
            redaction_rules: self.settings.rules.clone(),
            session_key: Some(session.key.clone()),
            known_checkpoints: view.ledger.checkpoint().map(str::to_owned).into_iter().collect(),
            keep_from,
            ..CompactOptions::default()
        };
        let (engine, cache) = (self.settings.engines.find_or_compressor(&policy.engine), &mut BlockCache::default());
        engine
            .plan(&view.ledger, PlanInput { policy: &policy, options: &options, cache, transcript })
            .map_err(|error| format!("the compaction failed: {error}"))
    }

    /// Returns the reason why the ledger could not be replayed with the client's next request, if there is
    /// one.
    async fn find_obstacle(
        &self,
        session: &StoredSession,
        transcript: &Transcript<'_>,
        ledger: &Ledger,
    ) -> Result<Option<String>, String> {
        let redacted_message =
            self.store.first_redacted_message(&self.tenant, session, transcript, ledger).await.map_err(error_line)?;
        Ok(redacted_message.map(|at| {
            format!(
                "message {at} of session {} contained secrets, which are not stored, so a compaction made here \
                 would not match the client's messages; type /compress in the client instead",
                session.name
            )
        }))
    }
}

fn error_line(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn report_json(report: &CompactionReport) -> Result<Value, String> {
    serde_json::to_value(report).map_err(error_line)
}
