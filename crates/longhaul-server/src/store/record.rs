//! Turns a request into rows of the log, and a compaction into a row of its own: the link between the
//! engine's types and the store's.

use std::collections::BTreeSet;
use std::ops::Range;

use longhaul_engine::Transcript;
use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{CompactedRequest, CompactionReport, ContentKind, RecallIds};
use longhaul_engine::redact::{Redacted, RedactionMode, Redactor, Rules, SessionKey};
use longhaul_engine::transcript::{Role, Speaker, TurnBlock, TurnKind};
use serde::Serialize;

use super::compactions::{CommitOutcome, CompactionId, NewCompaction};
use super::envelope::Envelope;
use super::error::{Result, StoreError};
use super::message::{self, BlockRow, MessageEntry};
use super::message_log::{AppendBatch, AppendOutcome, KnownPrefix};
use super::search_terms;
use super::session::{self, SessionId, StoredSession};
use super::sql::Sql;
use super::tenant::{self, Tenant};
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// The number of times that a batch is prepared and appended before a record gives up, if other processes
/// keep writing to the same session. Chosen by hand.
const MAX_APPEND_TRIES: usize = 20;

/// The characters of the first user message that become the title of a session. Chosen by hand.
const MAX_TITLE_CHARS: usize = 80;

/// The session that a request belongs to.
#[derive(Debug, Clone)]
pub struct SessionMatch {
    /// The session.
    pub session: StoredSession,
    /// The number of messages of the request that the log did not have.
    pub new_messages: usize,
    /// The decisions that apply to the request.
    pub view: CurrentView,
}

/// The options for recording a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordOptions<'r> {
    /// The rules that say what is a secret.
    pub(crate) rules: &'r Rules,
    /// The key for a session that starts with this request; `None` makes a random one.
    pub(crate) new_session_key: Option<&'r SessionKey>,
    /// The time when the request arrived.
    pub(crate) at: Timestamp,
}

/// Returns a random key for a new session.
pub(crate) fn random_session_key() -> Result<SessionKey> {
    Ok(SessionKey::new(tenant::random_bytes()?))
}

/// The options for storing a compaction.
#[derive(Debug, Clone)]
pub struct CommitOptions<'r> {
    /// The rules that say what is a secret.
    pub rules: &'r Rules,
    /// The time when it was made.
    pub at: Timestamp,
}

/// The decisions that apply to a history now.
#[derive(Debug, Clone, Default)]
pub struct CurrentView {
    /// The ledger of the newest compaction that fits the history; empty if there is none.
    pub ledger: Ledger,
    /// The number of that compaction within its session.
    pub compaction_number: Option<usize>,
    /// The head of the session, from which the next compaction continues. It differs from the
    /// ledger's compaction if the client went back in its history.
    pub base: Option<CompactionId>,
}

impl Store {
    /// Records a request: finds its session, forks one or starts one, and writes the new messages without
    /// their secrets.
    pub async fn record(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        rules: &Rules,
        at: Timestamp,
    ) -> Result<SessionMatch> {
        let options = RecordOptions { rules, new_session_key: None, at };
        self.record_by_hashes(tenant, transcript, &tenant.hasher().hash_chain(transcript), options).await
    }

    /// Records a request whose messages have these keyed hashes.
    pub(crate) async fn record_by_hashes(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        chain: &[KeyedHash],
        options: RecordOptions<'_>,
    ) -> Result<SessionMatch> {
        for _ in 0..MAX_APPEND_TRIES {
            let batch = self.prepare_batch(tenant, transcript, chain, options).await?;
            if let AppendOutcome::Done { session, new_messages: new } = self.append(tenant, batch).await? {
                let view = self.current_view(tenant, &session, transcript).await?;
                return Ok(SessionMatch { session, new_messages: new, view });
            }
        }
        Err(StoreError::Busy("other processes keep writing to this session; try again".to_owned()))
    }

    /// Finds the session that [`record`](Self::record) would continue, fork or use as a parent, and the
    /// decisions that apply to the request, without writing anything. Returns `None` if a new session without
    /// a parent would start.
    pub async fn find_match(&self, tenant: &Tenant, transcript: &Transcript<'_>) -> Result<Option<SessionMatch>> {
        self.find_match_by_hashes(tenant, transcript, &tenant.hasher().hash_chain(transcript)).await
    }

    /// Finds the session of a request whose messages have these keyed hashes, as
    /// [`find_match`](Self::find_match) does.
    pub(crate) async fn find_match_by_hashes(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        chain: &[KeyedHash],
    ) -> Result<Option<SessionMatch>> {
        if let Some(KnownPrefix { session, known_messages }) = self.find_known_prefix(tenant, chain).await? {
            let view = self.current_view(tenant, &session, transcript).await?;
            return Ok(Some(SessionMatch { session, new_messages: chain.len() - known_messages, view }));
        }
        let parent = self.find_by_checkpoints(tenant, transcript).await?;
        Ok(parent.map(|session| SessionMatch { session, new_messages: chain.len(), view: CurrentView::default() }))
    }

    async fn prepare_batch(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        chain: &[KeyedHash],
        RecordOptions { rules, new_session_key: key, at }: RecordOptions<'_>,
    ) -> Result<AppendBatch> {
        let envelope = Envelope::from_transcript(tenant, transcript).ok_or_else(no_messages_error)?;
        let (prefix, is_known) = self.find_known_prefix_and_envelope(tenant, chain, &envelope).await?;
        let envelope = if is_known {
            envelope
        } else {
            envelope.with_template(tenant, transcript, rules).ok_or_else(no_messages_error)?
        };
        let known_messages = prefix.as_ref().map_or(0, |prefix| prefix.known_messages);
        let continued_session =
            if known_messages < chain.len() { self.find_by_checkpoints(tenant, transcript).await? } else { None };
        let key = match (&prefix, &continued_session) {
            (Some(prefix), _) => prefix.session.key.clone(),
            (None, Some(session)) => session.key.clone(),
            (None, None) => key.cloned().map_or_else(random_session_key, Ok)?,
        };
        let continued_session = continued_session.filter(|session| session.key == key).map(|session| session.id);
        let extends_session = prefix.as_ref().is_some_and(|prefix| known_messages == prefix.session.path_length);
        let target = BatchTarget { session_key: key, known_messages, extends_session, continued_session };
        build_batch(transcript, chain, envelope, target, rules, at)
    }

    /// Prepares the new messages of a request that continues a session, to be appended later. Returns `None`
    /// if there are none. `known_envelope` is the hash of the envelope of the session's newest request.
    pub(crate) fn unrecorded_batch(
        tenant: &Tenant,
        session: &StoredSession,
        transcript: &Transcript<'_>,
        chain: &[KeyedHash],
        known_envelope: Option<KeyedHash>,
        options: &CommitOptions<'_>,
    ) -> Result<Option<AppendBatch>> {
        if chain.len() <= session.path_length {
            return Ok(None);
        }
        let envelope = Envelope::from_transcript(tenant, transcript).ok_or_else(no_messages_error)?;
        let envelope = if known_envelope == Some(envelope.hash) {
            envelope
        } else {
            envelope.with_template(tenant, transcript, options.rules).ok_or_else(no_messages_error)?
        };
        let target = BatchTarget {
            session_key: session.key.clone(),
            known_messages: session.path_length,
            extends_session: true,
            continued_session: None,
        };
        build_batch(transcript, chain, envelope, target, options.rules, options.at).map(Some)
    }

    /// Finds the session whose compaction wrote a checkpoint that is in this request, trying the newest
    /// checkpoint first.
    async fn find_by_checkpoints(&self, tenant: &Tenant, transcript: &Transcript<'_>) -> Result<Option<StoredSession>> {
        for turn in transcript.turns.iter().rev() {
            if let TurnKind::Checkpoint(block) = &turn.kind {
                let found = self.find_by_checkpoint_hash(tenant, checkpoint_hash(tenant, &block.text())).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    async fn find_by_checkpoint_hash(
        &self,
        tenant: &Tenant,
        checkpoint_hash: [u8; 32],
    ) -> Result<Option<StoredSession>> {
        self.read(in_transaction((tenant.clone(), checkpoint_hash), |sql, (tenant, checkpoint_hash)| {
            Box::pin(find_by_checkpoint_hash(sql, tenant, *checkpoint_hash))
        }))
        .await
    }

    /// Returns those of the recall IDs that are linked to a message of the session, its parents or its
    /// forks. Some may not be:
    /// the client can write the same message in a different way than when it was logged, and our own
    /// checkpoints are never logged.
    async fn filter_logged(
        &self,
        tenant: &Tenant,
        session: &StoredSession,
        recall_ids: Vec<String>,
    ) -> Result<BTreeSet<String>> {
        let arguments = (tenant.clone(), session.clone(), recall_ids);
        self.read(in_transaction(arguments, |sql, (tenant, session, recall_ids)| {
            Box::pin(filter_logged(sql, tenant, session, recall_ids))
        }))
        .await
    }

    /// Finds the newest compaction whose ledger fits this history. The active one does not fit if the client
    /// went back to a shorter history.
    async fn current_view(
        &self,
        tenant: &Tenant,
        session: &StoredSession,
        transcript: &Transcript<'_>,
    ) -> Result<CurrentView> {
        let base = session.head;
        let mut at = base;
        while let Some(id) = at {
            let Some(compaction) = self.compaction(tenant, id).await? else { break };
            if compaction.ledger.matches(transcript) {
                return Ok(CurrentView { ledger: compaction.ledger, compaction_number: Some(compaction.number), base });
            }
            at = compaction.parent;
        }
        Ok(CurrentView { base, ..CurrentView::default() })
    }

    /// Finds the first message that the ledger covers and whose secrets were redacted in the log, and returns its
    /// index in the newest request.
    pub async fn first_redacted_message(
        &self,
        tenant: &Tenant,
        session: &StoredSession,
        transcript: &Transcript<'_>,
        ledger: &Ledger,
    ) -> Result<Option<usize>> {
        let arguments = (tenant.clone(), session.clone(), count_covered_messages(transcript, ledger));
        let position = self.read(in_transaction(arguments, |sql, (tenant, session, covered_messages)| {
            Box::pin(message::find_first_redacted(sql, tenant, session, *covered_messages))
        }));
        Ok(position.await?.map(|position| position + session.system_message_count))
    }

    /// Stores a compaction of a recorded request as the session's next one.
    pub async fn commit_compaction(
        &self,
        tenant: &Tenant,
        recorded: &SessionMatch,
        transcript: &Transcript<'_>,
        outcome: &CompactedRequest,
        options: CommitOptions<'_>,
    ) -> Result<CommitOutcome> {
        let CommitOptions { rules, at } = options;
        let path_length = transcript.message_count() - transcript.system_message_count();
        if path_length < recorded.session.path_length {
            return Ok(CommitOutcome::Outdated);
        }
        let key = recorded.session.key.clone();
        let mut redactor = Redactor::keyed(rules.clone(), key.clone());
        let recall_ids: Vec<String> = outcome.originals.iter().map(|original| original.recall_id.clone()).collect();
        let logged = self.filter_logged(tenant, &recorded.session, recall_ids).await?;
        let originals = outcome.originals.iter().filter(|original| !logged.contains(&original.recall_id));
        let originals = originals
            .map(|original| {
                let text = redactor.redact(&original.text, RedactionMode::Text).text;
                (original.recall_id.clone(), original.kind.name(), text)
            })
            .collect();
        let restart_name = outcome.report.restart.as_ref().map(|_| tenant::random_session_name()).transpose()?;
        let commit = NewCompaction {
            base: recorded.view.base,
            path_length,
            ledger: Redacted::assume_redacted(to_json(&outcome.ledger.redacted(&mut redactor))?),
            report: redact_report(&outcome.report, key)?,
            covered_messages: count_covered_messages(transcript, &outcome.ledger),
            unchanged: outcome.ledger.unchanged_messages(transcript).split_off(transcript.system_message_count()),
            checkpoint_hash: outcome.ledger.checkpoint().map(|text| checkpoint_hash(tenant, text)),
            originals,
            restart_name,
            at,
        };
        self.insert_compaction(tenant, recorded.session.id, commit).await
    }
}

/// The session to which a batch will be appended.
struct BatchTarget {
    session_key: SessionKey,
    known_messages: usize,
    extends_session: bool,
    continued_session: Option<SessionId>,
}

/// Prepares the new messages of a request for the log.
fn build_batch(
    transcript: &Transcript<'_>,
    chain: &[KeyedHash],
    envelope: Envelope,
    target: BatchTarget,
    rules: &Rules,
    at: Timestamp,
) -> Result<AppendBatch> {
    let BatchTarget { session_key: key, known_messages, extends_session, continued_session } = target;
    let mut redactor = Redactor::keyed(rules.clone(), key.clone());
    let model = transcript.model.as_deref().map(|model| redactor.redact(model, RedactionMode::Text).text);
    // Only a new session needs a title.
    let title = if extends_session { None } else { build_title(transcript, &mut redactor) };
    let new_messages = build_entries(transcript, known_messages, &RecallIds::new(key.clone()), &mut redactor);
    let (chain, api_format, session_name) = (chain.to_owned(), transcript.api_format, tenant::random_session_name()?);
    let system_message_count = transcript.system_message_count();
    Ok(AppendBatch {
        hash_chain: chain,
        system_message_count,
        new_messages,
        known_messages,
        envelope,
        session_key: key,
        api_format,
        model,
        title,
        session_name,
        continued_session,
        at,
    })
}

fn no_messages_error() -> StoreError {
    StoreError::InvalidInput("a request without messages has no session".to_owned())
}

/// Counts the messages that the decisions of a ledger cover. The decisions stay valid if later messages
/// change.
fn count_covered_messages(transcript: &Transcript<'_>, ledger: &Ledger) -> usize {
    let owned = transcript.turns.iter().take(ledger.covers()).flat_map(|turn| &turn.owned_elements);
    let last = owned.filter_map(|id| transcript.message_of(*id)).max();
    last.map_or(0, |last| (last + 1).saturating_sub(transcript.system_message_count()))
}

async fn filter_logged(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    recall_ids: &[String],
) -> Result<BTreeSet<String>> {
    let find = "SELECT b.handle FROM blocks b JOIN messages m ON m.id = b.message \
                WHERE b.family = $1 AND b.handle = $2 AND m.tenant = $3";
    let mut logged = BTreeSet::new();
    for recall_id in recall_ids {
        let values = [session.family.into(), recall_id.as_str().into(), tenant.id.into()];
        if sql.row(find, &values).await?.is_some() {
            logged.insert(recall_id.clone());
        }
    }
    Ok(logged)
}

/// Finds the session whose checkpoint has this keyed hash.
async fn find_by_checkpoint_hash(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    checkpoint_hash: [u8; 32],
) -> Result<Option<StoredSession>> {
    let find = "SELECT session FROM epochs WHERE mark = $1 AND tenant = $2 ORDER BY id DESC LIMIT 1";
    match sql.row(find, &[checkpoint_hash.as_slice().into(), tenant.id.into()]).await? {
        Some(row) => session::find_session(sql, tenant, SessionId(row.int(0)?)).await,
        None => Ok(None),
    }
}

/// Returns the keyed hash by which a checkpoint is recognized.
fn checkpoint_hash(tenant: &Tenant, text: &str) -> [u8; 32] {
    tenant.hasher().hash(&[b"checkpoint", text.trim_end().as_bytes()]).0
}

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| serialize_error(&error))
}

fn serialize_error(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("cannot serialize a compaction: {error}"))
}

/// Serializes a report and removes its secrets. Only the default rules apply, since the user's rules are not
/// meant for Longhaul's own words.
fn redact_report(report: &CompactionReport, key: SessionKey) -> Result<Redacted> {
    let mut redactor = Redactor::keyed(Rules::default(), key);
    redactor.redact_json_for_storage(&to_json(report)?).map(|json| json.text).map_err(|error| serialize_error(&error))
}

fn build_entries(
    transcript: &Transcript<'_>,
    known_messages: usize,
    recall_ids: &RecallIds,
    redactor: &mut Redactor,
) -> Vec<MessageEntry> {
    let (first, count) = (transcript.system_message_count() + known_messages, transcript.message_count());
    let parts = transcript.blocks_by_message(first..count);
    let messages = (first..count).filter_map(|index| transcript.message_json(index)).zip(parts);
    messages
        .zip(find_turn_starts(transcript, first..count))
        .map(|((message, parts), turn_start)| {
            let (text, found) = if let Ok(json) = redactor.redact_json_for_storage(message) {
                (json.text, json.found.len())
            } else {
                // The message is nested too deeply to be parsed as JSON, so it is redacted as text.
                let redaction = redactor.redact(message, RedactionMode::Text);
                (redaction.text, redaction.found.len())
            };
            let blocks =
                parts.into_iter().map(|part| build_block_row(transcript, part, recall_ids, redactor)).collect();
            let search_terms = search_terms::index_terms(text.as_str());
            MessageEntry { text, is_redacted: found > 0, turn_start, blocks, search_terms }
        })
        .collect()
}

/// Returns, for each message of a range, the position of the first message of its turn. Tool results belong
/// to the assistant message before them, and so do further assistant messages in a row.
fn find_turn_starts(transcript: &Transcript<'_>, messages: Range<usize>) -> Vec<usize> {
    let system_message_count = transcript.system_message_count();
    let continues_turn = |message: usize| {
        message > system_message_count
            && match transcript.role(message) {
                Some(Role::Assistant) => transcript.role(message - 1) == Some(Role::Assistant),
                Some(Role::Tool) => true,
                Some(Role::User) => transcript.begins_with_result(message),
                Some(Role::System) | None => false,
            }
    };
    let mut turn_start = messages.start;
    while turn_start > system_message_count && continues_turn(turn_start) {
        turn_start -= 1;
    }
    let turn_starts = messages.map(|message| {
        if !continues_turn(message) {
            turn_start = message;
        }
        turn_start - system_message_count
    });
    turn_starts.collect()
}

fn build_block_row(
    transcript: &Transcript<'_>,
    part: TurnBlock<'_, '_>,
    recall_ids: &RecallIds,
    redactor: &mut Redactor,
) -> BlockRow {
    let tool = part.role.tool_call().map(|tool_call| &tool_call.tool).filter(|tool| !tool.is_empty());
    BlockRow {
        recall_id: recall_ids.for_block(part.block),
        kind: ContentKind::classify(&transcript.turns[part.position.unit], part).name().to_owned(),
        tool: tool.map(|tool| redactor.redact(tool, RedactionMode::Text).text.into_string()),
    }
}

/// Returns the beginning of the first user message, without secrets.
fn build_title(transcript: &Transcript<'_>, redactor: &mut Redactor) -> Option<Redacted> {
    let first_prompt = transcript.turns.iter().find_map(|turn| match &turn.kind {
        TurnKind::Prompt { speaker: Speaker::User, blocks } => {
            blocks.iter().map(longhaul_engine::transcript::Block::text).find(|text| !text.trim().is_empty())
        }
        _ => None,
    })?;
    Some(redactor.redact(&first_prompt, RedactionMode::Text).text.one_line(MAX_TITLE_CHARS))
}
