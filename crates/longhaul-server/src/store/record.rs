//! From a request to the log, and from a compaction to an epoch: where the engine's types meet the store's.

use std::collections::BTreeSet;
use std::ops::Range;

use longhaul_engine::Transcript;
use longhaul_engine::identity::Identity;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Handles, Outcome, Report, What};
use longhaul_engine::redact::{Content, Redacted, Redactor, Rules, SessionKey};
use longhaul_engine::transcript::{Part, Role, Speaker, UnitKind};
use serde::Serialize;

use super::envelope::Envelope;
use super::epochs::{Commit, Committed, EpochId, Lease};
use super::error::{Result, StoreError};
use super::log::{Appended, Batch, Located};
use super::message::{self, BlockRow, Entry};
use super::session::{self, Session, SessionId};
use super::sql::Sql;
use super::tenant::{self, Tenant};
use super::terms;
use super::{Store, work};
use crate::agents::Moment;

/// How often a batch is made ready again because another was faster.
const TRIES: usize = 20;

/// How much of what was said first names a session.
const TITLE: usize = 80;

/// A request that is in the log.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The session that it belongs to.
    pub session: Session,
    /// How many of its messages were new.
    pub new: usize,
    /// What was decided about it before.
    pub view: View,
}

/// How a request is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recording<'r> {
    /// What counts as a secret.
    pub(crate) rules: &'r Rules,
    /// The key of a session that begins with it, where it has one already.
    pub(crate) key: Option<&'r SessionKey>,
    /// When it came.
    pub(crate) at: Moment,
}

/// A key for a new session.
pub(crate) fn fresh_key() -> Result<SessionKey> {
    Ok(SessionKey::new(tenant::random()?))
}

/// How a compaction is kept.
#[derive(Debug, Clone)]
pub struct Keeping<'r> {
    /// What counts as a secret.
    pub rules: &'r Rules,
    /// The lease under which it was made.
    pub lease: Option<Lease>,
    /// When.
    pub at: Moment,
}

/// What was decided about a history so far.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The decisions; empty where there are none.
    pub ledger: Ledger,
    /// The number of the epoch that made them.
    pub number: Option<usize>,
    /// The head that the next compaction goes on from.
    pub base: Option<EpochId>,
}

impl Store {
    /// Records a request: finds its session, forks one or begins one, and writes what is new, secrets taken out.
    pub async fn record(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        rules: &Rules,
        at: Moment,
    ) -> Result<Recorded> {
        let how = Recording { rules, key: None, at };
        self.record_chain(tenant, transcript, &tenant.identities().chain(transcript), how).await
    }

    /// The same, for a request whose messages are known by these identities.
    pub(crate) async fn record_chain(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        chain: &[Identity],
        how: Recording<'_>,
    ) -> Result<Recorded> {
        for _ in 0..TRIES {
            let batch = self.prepare(tenant, transcript, chain, how).await?;
            if let Appended::Done { session, new } = self.append(tenant, batch).await? {
                let view = self.view(tenant, &session, transcript).await?;
                return Ok(Recorded { session, new, view });
            }
        }
        Err(StoreError::Busy("others keep writing to the same session; try again".to_owned()))
    }

    /// What [`record`](Self::record) would find of a request, with nothing written: the session that it goes on from or forks, and
    /// what was decided about it. Nothing where a session would begin.
    pub async fn find(&self, tenant: &Tenant, transcript: &Transcript<'_>) -> Result<Option<Recorded>> {
        self.find_chain(tenant, transcript, &tenant.identities().chain(transcript)).await
    }

    /// The same, for a request whose messages are known by these identities.
    pub(crate) async fn find_chain(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        chain: &[Identity],
    ) -> Result<Option<Recorded>> {
        if let Some(Located { session, known }) = self.locate(tenant, chain).await? {
            let view = self.view(tenant, &session, transcript).await?;
            return Ok(Some(Recorded { session, new: chain.len() - known, view }));
        }
        let parent = self.of_checkpoint(tenant, transcript).await?;
        Ok(parent.map(|session| Recorded { session, new: chain.len(), view: View::default() }))
    }

    async fn prepare(
        &self,
        tenant: &Tenant,
        transcript: &Transcript<'_>,
        chain: &[Identity],
        Recording { rules, key, at }: Recording<'_>,
    ) -> Result<Batch> {
        let envelope = Envelope::known(tenant, transcript).ok_or_else(without_messages)?;
        let (located, is_known) = self.look(tenant, chain, &envelope).await?;
        let envelope = if is_known {
            envelope
        } else {
            envelope.read(tenant, transcript, rules).ok_or_else(without_messages)?
        };
        let known = located.as_ref().map_or(0, |located| located.known);
        let continues =
            if known < chain.len() { self.of_checkpoint(tenant, transcript).await? } else { None };
        let key = match (&located, &continues) {
            (Some(located), _) => located.session.key.clone(),
            (None, Some(session)) => session.key.clone(),
            (None, None) => key.cloned().map_or_else(fresh_key, Ok)?,
        };
        let continues = continues.filter(|session| session.key == key).map(|session| session.id);
        let goes_on = located.as_ref().is_some_and(|located| known == located.session.length);
        let onto = Onto { key, known, goes_on, continues };
        batch(transcript, chain, envelope, onto, rules, at)
    }

    /// What is new of a request that goes on from where a session ended, to be appended later. Nothing where nothing is new. What is
    /// known of the envelope is what the newest request of the session had around its messages.
    pub(crate) fn rest(
        tenant: &Tenant,
        session: &Session,
        transcript: &Transcript<'_>,
        chain: &[Identity],
        known_envelope: Option<Identity>,
        how: &Keeping<'_>,
    ) -> Result<Option<Batch>> {
        if chain.len() <= session.length {
            return Ok(None);
        }
        let envelope = Envelope::known(tenant, transcript).ok_or_else(without_messages)?;
        let envelope = if known_envelope == Some(envelope.identity) {
            envelope
        } else {
            envelope.read(tenant, transcript, how.rules).ok_or_else(without_messages)?
        };
        let onto = Onto { key: session.key.clone(), known: session.length, goes_on: true, continues: None };
        batch(transcript, chain, envelope, onto, how.rules, how.at).map(Some)
    }

    /// The session whose compaction wrote a checkpoint that stands in this body.
    async fn of_checkpoint(&self, tenant: &Tenant, transcript: &Transcript<'_>) -> Result<Option<Session>> {
        for unit in transcript.units.iter().rev() {
            if let UnitKind::Checkpoint(block) = &unit.kind {
                let found = self.by_mark(tenant, mark(tenant, &block.text())).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    async fn by_mark(&self, tenant: &Tenant, mark: [u8; 32]) -> Result<Option<Session>> {
        self.read(work((tenant.clone(), mark), |sql, (tenant, mark)| Box::pin(marked(sql, tenant, *mark))))
            .await
    }

    /// Which of these handles lead to a message of the session's family. One may not: the same message can be written in another
    /// way than when it was logged, and a checkpoint of ours never was.
    async fn logged(
        &self,
        tenant: &Tenant,
        session: &Session,
        handles: Vec<String>,
    ) -> Result<BTreeSet<String>> {
        let with = (tenant.clone(), session.clone(), handles);
        self.read(work(with, |sql, (tenant, session, handles)| {
            Box::pin(logged(sql, tenant, session, handles))
        }))
        .await
    }

    /// The newest view that is of this very history: a client that went back has less than the view in force is about.
    async fn view(&self, tenant: &Tenant, session: &Session, transcript: &Transcript<'_>) -> Result<View> {
        let base = session.head;
        let mut at = base;
        while let Some(id) = at {
            let Some(epoch) = self.epoch(tenant, id).await? else { break };
            if epoch.ledger.matches(transcript) {
                return Ok(View { ledger: epoch.ledger, number: Some(epoch.number), base });
            }
            at = epoch.parent;
        }
        Ok(View { base, ..View::default() })
    }

    /// The first message that decisions are about of which the log has not every word: its secrets were taken out. Its number is the
    /// one in the newest body.
    pub async fn withheld(
        &self,
        tenant: &Tenant,
        session: &Session,
        transcript: &Transcript<'_>,
        ledger: &Ledger,
    ) -> Result<Option<usize>> {
        let with = (tenant.clone(), session.clone(), reach(transcript, ledger));
        let place = self.read(work(with, |sql, (tenant, session, reach)| {
            Box::pin(message::first_redacted(sql, tenant, session, *reach))
        }));
        Ok(place.await?.map(|place| place + session.lead))
    }

    /// Keeps a compaction of a recorded request as the session's next epoch.
    pub async fn keep(
        &self,
        tenant: &Tenant,
        recorded: &Recorded,
        transcript: &Transcript<'_>,
        outcome: &Outcome,
        how: Keeping<'_>,
    ) -> Result<Committed> {
        let Keeping { rules, lease, at } = how;
        let length = transcript.message_count() - transcript.lead();
        if length < recorded.session.length {
            return Ok(Committed::Behind);
        }
        let key = recorded.session.key.clone();
        let mut redactor = Redactor::keyed(rules.clone(), key.clone());
        let handles: Vec<String> = outcome.originals.iter().map(|original| original.handle.clone()).collect();
        let logged = self.logged(tenant, &recorded.session, handles).await?;
        let remains = outcome.originals.iter().filter(|original| !logged.contains(&original.handle));
        let remains = remains
            .map(|original| {
                let text = redactor.redact(&original.text, Content::Text).text;
                (original.handle.clone(), original.what.name(), text)
            })
            .collect();
        let restart = outcome.report.restart.as_ref().map(|_| tenant::random_name()).transpose()?;
        let commit = Commit {
            base: recorded.view.base,
            lease,
            length,
            ledger: Redacted::from_store(json(&outcome.ledger.redacted(&mut redactor))?),
            report: kept(&outcome.report, key)?,
            reach: reach(transcript, &outcome.ledger),
            kept: outcome.ledger.untouched(transcript).split_off(transcript.lead()),
            mark: outcome.ledger.checkpoint().map(|text| mark(tenant, text)),
            remains,
            restart,
            at,
        };
        self.commit(tenant, recorded.session.id, commit).await
    }
}

/// Where a batch goes.
struct Onto {
    key: SessionKey,
    known: usize,
    goes_on: bool,
    continues: Option<SessionId>,
}

/// Makes what is new of a request ready for the log.
fn batch(
    transcript: &Transcript<'_>,
    chain: &[Identity],
    envelope: Envelope,
    onto: Onto,
    rules: &Rules,
    at: Moment,
) -> Result<Batch> {
    let Onto { key, known, goes_on, continues } = onto;
    let mut redactor = Redactor::keyed(rules.clone(), key.clone());
    let model = transcript.model.as_deref().map(|model| redactor.redact(model, Content::Text).text);
    // Only a session that is yet to be made needs a name.
    let title = if goes_on { None } else { title(transcript, &mut redactor) };
    let entries = entries(transcript, known, &Handles::new(key.clone()), &mut redactor);
    let (chain, dialect, name) = (chain.to_owned(), transcript.dialect, tenant::random_name()?);
    let lead = transcript.lead();
    Ok(Batch { chain, lead, entries, known, envelope, key, dialect, model, title, name, continues, at })
}

fn without_messages() -> StoreError {
    StoreError::Wrong("a body without a list of messages has no session".to_owned())
}

/// How many messages the decisions are about: what comes behind them may be another one, and they still hold.
fn reach(transcript: &Transcript<'_>, ledger: &Ledger) -> usize {
    let owned = transcript.units.iter().take(ledger.covers()).flat_map(|unit| &unit.owns);
    let last = owned.filter_map(|id| transcript.message_of(*id)).max();
    last.map_or(0, |last| (last + 1).saturating_sub(transcript.lead()))
}

async fn logged(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    handles: &[String],
) -> Result<BTreeSet<String>> {
    let find = "SELECT b.handle FROM blocks b JOIN messages m ON m.id = b.message \
                WHERE b.family = $1 AND b.handle = $2 AND m.tenant = $3";
    let mut logged = BTreeSet::new();
    for handle in handles {
        let values = [session.family.into(), handle.as_str().into(), tenant.id.into()];
        if sql.row(find, &values).await?.is_some() {
            logged.insert(handle.clone());
        }
    }
    Ok(logged)
}

/// The session whose checkpoint is known by this mark.
async fn marked(sql: &mut dyn Sql, tenant: &Tenant, mark: [u8; 32]) -> Result<Option<Session>> {
    let find = "SELECT session FROM epochs WHERE mark = $1 AND tenant = $2 ORDER BY id DESC LIMIT 1";
    match sql.row(find, &[mark.as_slice().into(), tenant.id.into()]).await? {
        Some(row) => session::session(sql, tenant, SessionId(row.int(0)?)).await,
        None => Ok(None),
    }
}

/// What a checkpoint is known by.
fn mark(tenant: &Tenant, text: &str) -> [u8; 32] {
    tenant.identities().of(&[b"checkpoint", text.trim_end().as_bytes()]).0
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| unwritten(&error))
}

fn unwritten(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("a compaction cannot be written down: {error}"))
}

/// A report without secrets. It is in our own words, which the user's rules are not meant for.
fn kept(report: &Report, key: SessionKey) -> Result<Redacted> {
    let mut redactor = Redactor::keyed(Rules::default(), key);
    redactor.redact_json_to_keep(&json(report)?).map(|json| json.text).map_err(|error| unwritten(&error))
}

fn entries(
    transcript: &Transcript<'_>,
    known: usize,
    handles: &Handles,
    redactor: &mut Redactor,
) -> Vec<Entry> {
    let (first, count) = (transcript.lead() + known, transcript.message_count());
    let parts = transcript.parts_by_message(first..count);
    let messages = (first..count).filter_map(|index| transcript.message(index)).zip(parts);
    messages
        .zip(steps(transcript, first..count))
        .map(|((message, parts), step)| {
            let (text, found) = if let Ok(json) = redactor.redact_json_to_keep(message) {
                (json.text, json.found.len())
            } else {
                // Nested too deep to be read as JSON: it is read as text.
                let redaction = redactor.redact(message, Content::Text);
                (redaction.text, redaction.found.len())
            };
            let blocks = parts.into_iter().map(|part| block(transcript, part, handles, redactor)).collect();
            let terms = terms::of_message(text.as_str());
            Entry { text, redacted: found > 0, step, blocks, terms }
        })
        .collect()
}

/// For each message of a range the place of the one that its step begins with: results go with the reply before them, and so do
/// replies in a row.
fn steps(transcript: &Transcript<'_>, messages: Range<usize>) -> Vec<usize> {
    let lead = transcript.lead();
    let goes_on = |message: usize| {
        message > lead
            && match transcript.role(message) {
                Some(Role::Assistant) => transcript.role(message - 1) == Some(Role::Assistant),
                Some(Role::Tool) => true,
                Some(Role::User) => transcript.begins_with_result(message),
                Some(Role::System) | None => false,
            }
    };
    let mut step = messages.start;
    while step > lead && goes_on(step) {
        step -= 1;
    }
    let steps = messages.map(|message| {
        if !goes_on(message) {
            step = message;
        }
        step - lead
    });
    steps.collect()
}

fn block(
    transcript: &Transcript<'_>,
    part: Part<'_, '_>,
    handles: &Handles,
    redactor: &mut Redactor,
) -> BlockRow {
    let tool = part.kind.exchange().map(|exchange| &exchange.tool).filter(|tool| !tool.is_empty());
    BlockRow {
        handle: handles.of_block(part.block),
        what: What::of(&transcript.units[part.at.unit], part).name().to_owned(),
        tool: tool.map(|tool| redactor.redact(tool, Content::Text).text.into_string()),
    }
}

/// The beginning of what a person said first.
fn title(transcript: &Transcript<'_>, redactor: &mut Redactor) -> Option<Redacted> {
    let said = transcript.units.iter().find_map(|unit| match &unit.kind {
        UnitKind::Prompt { by: Speaker::User, blocks } => {
            blocks.iter().map(longhaul_engine::transcript::Block::text).find(|text| !text.trim().is_empty())
        }
        _ => None,
    })?;
    Some(redactor.redact(&said, Content::Text).text.on_one_line(TITLE))
}
