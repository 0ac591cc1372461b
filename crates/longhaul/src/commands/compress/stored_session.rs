//! A compaction in a stored session: replays the earlier decisions about the same history, and commits the
//! new ones.

use longhaul_engine::Transcript;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{CompactedRequest, CompactionReport, Plan};
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_server::store::{CommitOptions, CommitOutcome, SessionMatch, Tenant};
use serde::Serialize;

use crate::failure::Failure;
use crate::store::{ConfiguredStore, OpenStore, now};

/// The number of attempts to commit a compaction while other processes commit to the same session. Chosen by
/// hand.
const MAX_COMMIT_ATTEMPTS: usize = 5;

/// The store of a run.
pub(super) enum StoreAccess {
    /// Requests and compactions are written to the store.
    ReadWrite(OpenStore),
    /// A preview only reads from the store, if it exists.
    ReadOnly(Option<OpenStore>),
}

impl StoreAccess {
    pub(super) fn open_read_write(configured: &ConfiguredStore) -> Result<Self, Failure> {
        configured.open_or_create().map(Self::ReadWrite)
    }

    pub(super) fn open_read_only(configured: &ConfiguredStore) -> Result<Self, Failure> {
        configured.open_if_exists().map(Self::ReadOnly)
    }
}

/// The facts about a session that a plan needs.
pub(super) struct SessionHistory {
    pub(super) key: SessionKey,
    pub(super) name: Option<String>,
    pub(super) ledger: Ledger,
    /// Whether the user undid a compaction, so that none is made before the safety threshold or an explicit
    /// request.
    pub(super) is_undone: bool,
}

impl SessionHistory {
    fn from_match(recorded: &SessionMatch) -> Self {
        let session = &recorded.session;
        let (key, name, ledger) = (session.key.clone(), Some(session.name.clone()), recorded.view.ledger.clone());
        Self { key, name, ledger, is_undone: session.is_undone }
    }

    /// Makes the history of a request that belongs to no known session.
    fn for_new_session(transcript: &Transcript<'_>) -> Self {
        let key = SessionKey::new(*blake3::hash(transcript.body.as_bytes()).as_bytes());
        Self { key, name: None, ledger: Ledger::default(), is_undone: false }
    }
}

/// The session and number of a compaction in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct CompactionRef {
    /// The name of the session. It is empty in a preview of a new session, and if the stored session already has
    /// more messages than the request, so that the compaction was not stored.
    pub(super) session: Option<String>,
    /// The number of the active compaction, if there is one.
    #[serde(rename = "epoch")]
    pub(super) number: Option<usize>,
}

/// The planned compaction of a request, committed unless it is a preview.
pub(super) struct PlannedCompaction {
    pub(super) report: CompactionReport,
    /// The request body to send, or nothing if it is unchanged.
    pub(super) text: Option<String>,
    pub(super) compaction_ref: CompactionRef,
    /// Whether only earlier decisions were replayed, and none was added.
    pub(super) is_replay: bool,
}

impl PlannedCompaction {
    fn unchanged(report: CompactionReport, compaction_ref: CompactionRef) -> Self {
        Self { report, text: None, compaction_ref, is_replay: false }
    }

    fn replayed(outcome: CompactedRequest, compaction_ref: CompactionRef) -> Self {
        let CompactedRequest { mut report, body, .. } = outcome;
        let number = compaction_ref.number.unwrap_or_default();
        report.reason = format!("compaction {number} was replayed, and nothing new was compacted: {}", report.reason);
        Self { report, text: Some(body), compaction_ref, is_replay: true }
    }
}

/// Records a request, plans with the earlier decisions about it, and commits the new ones. A request that was
/// read from a stored session stays with the tenant of that session.
pub(super) fn plan_and_commit(
    access: &StoreAccess,
    owner: Option<&Tenant>,
    transcript: &Transcript<'_>,
    rules: &Rules,
    mut plan: impl FnMut(&SessionHistory) -> Result<Plan, Failure>,
) -> Result<PlannedCompaction, Failure> {
    let store = match access {
        StoreAccess::ReadWrite(store) => store,
        StoreAccess::ReadOnly(store) => {
            let find =
                |store: &OpenStore| store.run(store.store.find_match(owner.unwrap_or(&store.tenant), transcript));
            let found = store.as_ref().map(find).transpose()?.flatten();
            return plan_preview(transcript, found.as_ref(), plan);
        }
    };
    let tenant = owner.unwrap_or(&store.tenant);
    let mut session = String::new();
    for _ in 0..MAX_COMMIT_ATTEMPTS {
        let recorded = store.run(store.store.record(tenant, transcript, rules, now()))?;
        session.clone_from(&recorded.session.name);
        let compaction_ref = CompactionRef { session: Some(session.clone()), number: recorded.view.compaction_number };
        let outcome = match plan(&SessionHistory::from_match(&recorded))? {
            Plan::Unchanged(report) => return Ok(PlannedCompaction::unchanged(report, compaction_ref)),
            Plan::Ready(outcome) if outcome.ledger == recorded.view.ledger => {
                return Ok(PlannedCompaction::replayed(outcome, compaction_ref));
            }
            Plan::Ready(outcome) => outcome,
        };
        let options = CommitOptions { rules, at: now() };
        let commit = store.store.commit_compaction(tenant, &recorded, transcript, &outcome, options);
        let compaction_ref = match store.run(commit)? {
            CommitOutcome::Done { session, number } => {
                CompactionRef { session: Some(session.name), number: Some(number) }
            }
            CommitOutcome::Outdated => CompactionRef { session: None, number: None },
            CommitOutcome::Conflict => continue,
        };
        let CompactedRequest { mut report, body, .. } = outcome;
        if transcript.message_count() - transcript.system_message_count() < recorded.session.path_length {
            let note = format!(
                "session {session} already continues past this request, so this compaction was not added to it"
            );
            report.notes.push(note);
        }
        return Ok(PlannedCompaction { report, text: Some(body), compaction_ref, is_replay: false });
    }
    Err(Failure::System(format!("other processes keep compacting session {session}; try again")))
}

/// Does the same as [`plan_and_commit`] without writing to the store.
fn plan_preview(
    transcript: &Transcript<'_>,
    found: Option<&SessionMatch>,
    mut plan: impl FnMut(&SessionHistory) -> Result<Plan, Failure>,
) -> Result<PlannedCompaction, Failure> {
    let history = found.map_or_else(|| SessionHistory::for_new_session(transcript), SessionHistory::from_match);
    // A request that does not continue at the end of the session would start a session of its own.
    let continues_at_end = |found: &&SessionMatch| {
        let message_count = transcript.message_count() - transcript.system_message_count();
        found.new_messages == 0 || message_count - found.new_messages == found.session.path_length
    };
    let session = found.filter(continues_at_end).map(|found| found.session.name.clone());
    let compaction = found.and_then(|found| found.view.compaction_number);
    Ok(match plan(&history)? {
        Plan::Unchanged(report) => PlannedCompaction::unchanged(report, CompactionRef { session, number: compaction }),
        Plan::Ready(outcome) if outcome.ledger == history.ledger => {
            PlannedCompaction::replayed(outcome, CompactionRef { session, number: compaction })
        }
        Plan::Ready(CompactedRequest { report, body, .. }) => {
            let compaction_ref = CompactionRef { session, number: None };
            PlannedCompaction { report, text: Some(body), compaction_ref, is_replay: false }
        }
    })
}
