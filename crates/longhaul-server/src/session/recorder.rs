//! Saves a session in the store: its requests, its compactions, its state, and what was learned about its
//! models.

use longhaul_engine::Transcript;
use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::CompactedRequest;
use longhaul_engine::redact::{Redacted, Redactor, Rules, SessionKey};
use serde::Serialize;

use super::LearnedModel;
use super::state::SessionState;
use crate::store::{
    AppendBatch, AppendOutcome, CommitOptions, CommitOutcome, CompactionId, RecordOptions, Result, SessionId,
    SessionMatch, SessionStatus, Store, StoreError, StoredSession, Tenant, random_session_key,
};
use longhaul_engine::Timestamp;

/// The maximum number of requests after which a state with a new timing is saved. Chosen by hand: a lost
/// timing costs little.
const MAX_REQUESTS_BETWEEN_SAVES: usize = 16;

/// One session in a store.
pub(super) struct Recorder {
    store: Store,
    tenant: Tenant,
    /// The newest request as the store has it.
    recorded: Option<SessionMatch>,
    /// The hash of its last message.
    last_message_hash: Option<KeyedHash>,
    /// The hash of everything outside its messages, once it is known.
    envelope_hash: Option<KeyedHash>,
    /// The new messages of the newest request, which are not in the store yet.
    pending: Option<AppendBatch>,
    /// The state that was saved last, as JSON without the timing.
    saved_state: Option<String>,
    /// The number of requests since the state was saved.
    requests_since_save: usize,
    /// Whether the store has the newest request.
    has_newest_request: bool,
    /// The error because of which the session is in memory only.
    store_error: Option<StoreError>,
    /// Whether the store did not accept the last write. Until it does, no request counts as recorded.
    has_failed_write: bool,
    /// The key of a session that began while the store did not answer.
    temporary_key: Option<SessionKey>,
    /// The newest compaction, while it is in memory only.
    unsaved: Option<UnsavedCompaction>,
}

/// A compaction that the store could not save yet.
struct UnsavedCompaction {
    outcome: CompactedRequest,
    /// The session's newest compaction in the store when this one was made. If another process changed it
    /// since, this one is dropped.
    base: Option<CompactionId>,
}

/// The result of committing a compaction.
pub(super) enum CommitResult {
    /// It applies from now on, as the compaction with this number. It is saved, unless there is no store or the
    /// store is down.
    Saved(usize),
    /// It was not saved, because the session has continued and no request would replay it.
    Outdated,
    /// It was not saved, because another process compacted the session first.
    Overtaken,
}

/// The ledger that applies to a recorded request.
pub(super) enum RecordedLedger {
    /// The request continues the last one, whose ledger still applies.
    Unchanged,
    /// The store has this ledger for it.
    Replaced(Ledger),
}

/// The store's knowledge of a request.
pub(super) struct RecordResult {
    pub(super) ledger: RecordedLedger,
    /// The number of the compaction that this ledger belongs to.
    pub(super) compaction_number: Option<usize>,
    /// Whether the user has undone a compaction and asked for none since.
    pub(super) is_undone: bool,
    /// The session's saved state.
    pub(super) restored: Restored,
}

/// Where the state of a session comes from when one of its requests is recorded.
pub(super) enum Restored {
    /// The state in memory applies: it is the same session as before, or the first one.
    InMemory,
    /// This state was in the store.
    FromStore(Box<SessionState>),
    /// The store has no state, and the one in memory belongs to another session.
    Nothing,
}

impl Recorder {
    pub(super) fn new(store: Store, tenant: Tenant) -> Self {
        Self {
            store,
            tenant,
            recorded: None,
            last_message_hash: None,
            envelope_hash: None,
            pending: None,
            saved_state: None,
            requests_since_save: 0,
            has_newest_request: false,
            store_error: None,
            has_failed_write: false,
            temporary_key: None,
            unsaved: None,
        }
    }

    /// Returns a recorder for the same store and tenant that knows no request.
    pub(super) fn restarted(&self) -> Self {
        Self::new(self.store.clone(), self.tenant.clone())
    }

    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Returns the session's key; a temporary one if the session is not in the store yet.
    pub(super) fn key(&self) -> Option<SessionKey> {
        self.recorded.as_ref().map(|recorded| recorded.session.key.clone()).or_else(|| self.temporary_key.clone())
    }

    pub(super) fn has_newest_request(&self) -> bool {
        self.has_newest_request
    }

    pub(super) fn store_error(&self) -> Option<&StoreError> {
        self.store_error.as_ref()
    }

    /// Notes that the store has the newest request. Returns whether it was unavailable before.
    pub(super) fn continue_with_store(&mut self) -> bool {
        self.has_newest_request = true;
        self.store_error.take().is_some()
    }

    /// Continues in memory because the store does not work; a new session gets a temporary key. Returns whether
    /// the store worked before.
    pub(super) fn continue_without_store(&mut self, error: &StoreError) -> bool {
        if self.recorded.is_none() && self.temporary_key.is_none() {
            self.temporary_key = random_session_key().ok();
        }
        self.has_newest_request = false;
        self.store_error.replace(error.clone()).is_none()
    }

    /// Holds a compaction in memory until the store can save it.
    pub(super) fn hold_unsaved(&mut self, outcome: &CompactedRequest) {
        let base = match &self.unsaved {
            Some(unsaved) => unsaved.base,
            None => self.recorded.as_ref().and_then(|recorded| recorded.view.base),
        };
        let outcome = CompactedRequest { body: String::new(), ..outcome.clone() };
        self.unsaved = Some(UnsavedCompaction { outcome, base });
    }

    /// Replaces a temporary tenant by the stored one, which has another ID and another key. It is still the same
    /// person's tenant.
    pub(super) fn change_tenant(&mut self, tenant: Tenant) {
        self.tenant = tenant;
    }

    /// Returns the session's readable name.
    pub(super) fn name(&self) -> Option<String> {
        self.recorded.as_ref().map(|recorded| recorded.session.name.clone())
    }

    /// Returns the number of the active compaction.
    pub(super) fn compaction_number(&self) -> Option<usize> {
        self.recorded.as_ref().and_then(|recorded| recorded.view.compaction_number)
    }

    pub(super) fn id(&self) -> Option<SessionId> {
        self.recorded.as_ref().map(|recorded| recorded.session.id)
    }

    /// Records a request. If it continues the last one, and no other process changed the session, its new
    /// messages are only prepared and wait for [`flush`](Self::flush).
    pub(super) async fn record(
        &mut self,
        transcript: &Transcript<'_>,
        chain: &[KeyedHash],
        rules: &Rules,
        now: Timestamp,
    ) -> Result<RecordResult> {
        let mut result = match self.record_continuation(transcript, chain, rules, now).await? {
            Some(result) => result,
            None => self.record_with_lookup(transcript, chain, rules, now).await?,
        };
        if self.has_failed_write {
            self.flush().await?;
        }
        self.save_held(transcript, rules, now, &mut result).await?;
        Ok(result)
    }

    /// Saves a compaction that was made while the store did not answer. If another process has compacted the
    /// session since, that compaction applies instead.
    async fn save_held(
        &mut self,
        transcript: &Transcript<'_>,
        rules: &Rules,
        now: Timestamp,
        result: &mut RecordResult,
    ) -> Result<()> {
        let Some(unsaved) = self.unsaved.take() else { return Ok(()) };
        let Some(recorded) = &self.recorded else { return Ok(()) };
        if recorded.view.base != unsaved.base || !unsaved.outcome.ledger.matches(transcript) {
            result.ledger = RecordedLedger::Replaced(recorded.view.ledger.clone());
            return Ok(());
        }
        match self.commit(transcript, &unsaved.outcome, rules, now).await {
            Ok(CommitResult::Saved(number)) => {
                if let RecordedLedger::Replaced(ledger) = &mut result.ledger {
                    *ledger = unsaved.outcome.ledger;
                }
                result.compaction_number = Some(number);
            }
            Ok(CommitResult::Outdated | CommitResult::Overtaken) => {}
            Err(error) => {
                self.unsaved = Some(unsaved);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Records a request of a session that is not in memory, or that another process changed.
    async fn record_with_lookup(
        &mut self,
        transcript: &Transcript<'_>,
        chain: &[KeyedHash],
        rules: &Rules,
        now: Timestamp,
    ) -> Result<RecordResult> {
        let previous_id = self.id();
        self.pending = None;
        let options = RecordOptions { rules, new_session_key: self.temporary_key.as_ref(), at: now };
        let recorded = self.store.record_by_hashes(&self.tenant, transcript, chain, options).await?;
        (self.last_message_hash, self.envelope_hash) = (chain.last().copied(), None);
        let id = recorded.session.id;
        let mut restored = Restored::InMemory;
        if previous_id != Some(id) {
            let saved_json = self.store.session_state(&self.tenant, id).await?;
            // A state that another version wrote and this one cannot parse is dropped.
            restored = match saved_json.as_deref().and_then(|saved_json| serde_json::from_str(saved_json).ok()) {
                Some(state) => Restored::FromStore(Box::new(state)),
                None if previous_id.is_some() => Restored::Nothing,
                None => Restored::InMemory,
            };
            self.saved_state = None;
        }
        let result = RecordResult {
            ledger: RecordedLedger::Replaced(recorded.view.ledger.clone()),
            compaction_number: recorded.view.compaction_number,
            is_undone: recorded.session.is_undone,
            restored,
        };
        self.recorded = Some(recorded);
        Ok(result)
    }

    /// Records a request that continues the last one; returns `None` if it does not.
    async fn record_continuation(
        &mut self,
        transcript: &Transcript<'_>,
        chain: &[KeyedHash],
        rules: &Rules,
        now: Timestamp,
    ) -> Result<Option<RecordResult>> {
        let Some(recorded) = &self.recorded else { return Ok(None) };
        let length = recorded.session.path_length;
        if self.last_message_hash.is_none()
            || length.checked_sub(1).and_then(|last| chain.get(last)) != self.last_message_hash.as_ref()
        {
            return Ok(None);
        }
        let Some(session) = self.store.session_by_id(&self.tenant, recorded.session.id).await? else {
            return Ok(None);
        };
        let version = |session: &StoredSession| (session.head, session.path_length, session.status);
        if version(&session) != version(&recorded.session) || session.status != SessionStatus::Live {
            return Ok(None);
        }
        let options = CommitOptions { rules, at: now };
        let batch = Store::unrecorded_batch(&self.tenant, &session, transcript, chain, self.envelope_hash, &options)?;
        self.pending = batch;
        Ok(Some(RecordResult {
            ledger: RecordedLedger::Unchanged,
            compaction_number: recorded.view.compaction_number,
            is_undone: session.is_undone,
            restored: Restored::InMemory,
        }))
    }

    /// Writes the messages that [`record`](Self::record) prepared.
    pub(super) async fn flush(&mut self) -> Result<()> {
        let Some(batch) = self.pending.take() else { return Ok(()) };
        let (last_hash, envelope) = (batch.hash_chain.last().copied(), batch.envelope.hash);
        let appended = self.store.append(&self.tenant, batch).await;
        self.has_failed_write = appended.is_err();
        match appended? {
            AppendOutcome::Done { session, .. } => {
                let version = |session: &StoredSession| (session.id, session.head);
                if let Some(recorded) =
                    self.recorded.as_mut().filter(|recorded| version(&recorded.session) == version(&session))
                {
                    recorded.session = session;
                    (self.last_message_hash, self.envelope_hash) = (last_hash, Some(envelope));
                } else {
                    // Another process changed the session meanwhile. The next request looks up which session
                    // it belongs to, and which compaction applies.
                    self.last_message_hash = None;
                }
            }
            AppendOutcome::Stale => self.last_message_hash = None,
        }
        Ok(())
    }

    /// Saves a compaction of the request that was recorded last.
    pub(super) async fn commit(
        &mut self,
        transcript: &Transcript<'_>,
        outcome: &CompactedRequest,
        rules: &Rules,
        now: Timestamp,
    ) -> Result<CommitResult> {
        let not_recorded = || StoreError::InvalidInput("the request of this compaction was not recorded".to_owned());
        self.flush().await?;
        let recorded = self.recorded.as_mut().ok_or_else(not_recorded)?;
        let options = CommitOptions { rules, at: now };
        Ok(match self.store.commit_compaction(&self.tenant, recorded, transcript, outcome, options).await? {
            CommitOutcome::Done { session, number } => {
                recorded.view.ledger = outcome.ledger.clone();
                recorded.view.compaction_number = Some(number);
                recorded.view.base = session.head;
                if session.id != recorded.session.id {
                    self.saved_state = None;
                }
                recorded.session = session;
                CommitResult::Saved(number)
            }
            CommitOutcome::Outdated => CommitResult::Outdated,
            CommitOutcome::Conflict => CommitResult::Overtaken,
        })
    }

    /// Undoes the compaction that the newest request was sent with, unless another process has compacted the
    /// session since.
    pub(super) async fn undo_refused(&mut self) -> Result<()> {
        if self.unsaved.take().is_some() {
            return Ok(());
        }
        if let Some(recorded) = &self.recorded
            && let Some(refused_compaction) = recorded.view.base
        {
            self.store.undo_if_active(&self.tenant, recorded.session.id, refused_compaction).await?;
        }
        Ok(())
    }

    /// Saves the session's state if it changed.
    pub(super) async fn save_state(&mut self, state: &SessionState) -> Result<()> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        let (json_without_timing, id) = (to_json(&state.without_timing())?, recorded.session.id);
        self.requests_since_save += 1;
        // The timing changes with every request. It need not be exact, so it alone is saved only now and
        // then.
        if self.saved_state.as_ref() == Some(&json_without_timing)
            && self.requests_since_save < MAX_REQUESTS_BETWEEN_SAVES
        {
            return Ok(());
        }
        let json = to_json(state)?;
        self.store.save_session_state(&self.tenant, id, redact_json(&json, &recorded.session.key)?).await?;
        (self.saved_state, self.requests_since_save) = (Some(json_without_timing), 0);
        Ok(())
    }

    /// Loads what was learned about a model.
    pub(super) async fn load_learned(&self, model: &str) -> Result<Option<LearnedModel>> {
        LearnedModel::load(&self.store, &self.tenant, model).await
    }

    /// Saves what was learned about a model.
    pub(super) async fn save_learned(&self, model: &str, learned: &LearnedModel) -> Result<()> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        let learned = redact_json(&to_json(learned)?, &recorded.session.key)?;
        self.store.save_learned_model(&self.tenant, model, learned).await
    }
}

/// Redacts a JSON value before it is saved. Its texts are our own, so the user's redaction rules are not
/// applied.
fn redact_json(json: &str, key: &SessionKey) -> Result<Redacted> {
    let mut redactor = Redactor::keyed(Rules::default(), key.clone());
    redactor.redact_json_for_storage(json).map(|json| json.text).map_err(|error| serialize_error(&error))
}

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| serialize_error(&error))
}

fn serialize_error(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("the session's state cannot be serialized: {error}"))
}
