//! The store behind a session: its requests, its compactions, how it stands, and what was learned of its models.

use longhaul_engine::Transcript;
use longhaul_engine::identity::Identity;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::Outcome;
use longhaul_engine::redact::{Redacted, Redactor, Rules, SessionKey};
use serde::Serialize;

use super::Learned;
use super::state::State as Standing;
use crate::agents::Moment;
use crate::store::{
    Appended, Batch, Committed, EpochId, Keeping, Recorded, Recording, Result, Session, SessionId, State,
    Store, StoreError, Tenant, fresh_key,
};

/// After so many requests at the latest the pace of a session is kept.
const PACE_KEPT: usize = 16;

/// A session in a store.
pub(super) struct Recorder {
    store: Store,
    tenant: Tenant,
    /// The newest request, as it is in the log,
    recorded: Option<Recorded>,
    /// what its last message is known by,
    tip: Option<Identity>,
    /// and what stood around its messages, once that is known.
    envelope: Option<Identity>,
    /// What is new of the newest request, and not in the log yet.
    pending: Option<Batch>,
    /// The state as it was kept last,
    kept: Option<String>,
    /// and how many requests ago that is.
    since: usize,
    /// Whether the store did not take what was written last: nothing counts as recorded before it does.
    is_behind: bool,
    /// The key of a session that began while the store did not answer.
    own_key: Option<SessionKey>,
    /// The newest compaction, while it is in memory only.
    unsaved: Option<Unsaved>,
}

/// A compaction that the store could not keep yet.
struct Unsaved {
    outcome: Outcome,
    /// The head of the session in the store when it was made: where somebody moved it since, theirs counts.
    base: Option<EpochId>,
}

/// Where a compaction is kept.
pub(super) enum Kept {
    /// As this epoch of the session.
    Epoch(usize),
    /// Nowhere: the session has gone on from here, so that nobody would see it again.
    Nowhere,
    /// Nowhere, because another was faster.
    Overtaken,
}

/// What a request is in the store.
pub(super) struct Found {
    /// What was decided about it before; nothing where that is what was decided about the request before it, from which it goes on.
    pub(super) ledger: Option<Ledger>,
    /// The epoch of that.
    pub(super) epoch: Option<usize>,
    /// Whether somebody took a compaction back.
    pub(super) held: bool,
    /// How the session stood.
    pub(super) stood: Stood,
}

/// How a session stood when a request of it came.
pub(super) enum Stood {
    /// As is known: it is the same session as before, or the first.
    AtHand,
    /// As it was kept.
    Kept(Box<Standing>),
    /// Nothing is known, and what is at hand is another's.
    New,
}

impl Recorder {
    pub(super) fn new(store: Store, tenant: Tenant) -> Self {
        Self {
            store,
            tenant,
            recorded: None,
            tip: None,
            envelope: None,
            pending: None,
            kept: None,
            since: 0,
            is_behind: false,
            own_key: None,
            unsaved: None,
        }
    }

    /// The same store and tenant, and nothing known of any request.
    pub(super) fn restarted(&self) -> Self {
        Self::new(self.store.clone(), self.tenant.clone())
    }

    /// Whose session it is.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The session's key.
    pub(super) fn key(&self) -> Option<SessionKey> {
        self.recorded.as_ref().map(|recorded| recorded.session.key.clone()).or_else(|| self.own_key.clone())
    }

    /// The store did not record the newest request: what is decided now is in memory only.
    pub(super) fn is_alone(&mut self) {
        if self.recorded.is_none() && self.own_key.is_none() {
            self.own_key = fresh_key().ok();
        }
    }

    /// Holds a compaction in memory until the store can keep it.
    pub(super) fn hold(&mut self, outcome: &Outcome) {
        let base = match &self.unsaved {
            Some(unsaved) => unsaved.base,
            None => self.recorded.as_ref().and_then(|recorded| recorded.view.base),
        };
        let outcome = Outcome { body: String::new(), ..outcome.clone() };
        self.unsaved = Some(Unsaved { outcome, base });
    }

    /// The same session for another name of the same tenant.
    pub(super) fn hand_over(&mut self, tenant: Tenant) {
        self.tenant = tenant;
    }

    /// What people call the session by.
    pub(super) fn name(&self) -> Option<String> {
        self.recorded.as_ref().map(|recorded| recorded.session.name.clone())
    }

    /// The epoch in force.
    pub(super) fn epoch(&self) -> Option<usize> {
        self.recorded.as_ref().and_then(|recorded| recorded.view.number)
    }

    /// Which session it is.
    pub(super) fn id(&self) -> Option<SessionId> {
        self.recorded.as_ref().map(|recorded| recorded.session.id)
    }

    /// Records a request. Of one that goes on where the last one ended, with nobody else's hand in between, what is new is made
    /// ready and waits for [`flush`](Self::flush).
    pub(super) async fn record(
        &mut self,
        transcript: &Transcript<'_>,
        chain: &[Identity],
        rules: &Rules,
        now: Moment,
    ) -> Result<Found> {
        let mut found = match self.go_on(transcript, chain, rules, now).await? {
            Some(found) => found,
            None => self.begin(transcript, chain, rules, now).await?,
        };
        if self.is_behind {
            self.flush().await?;
        }
        self.save(transcript, rules, now, &mut found).await?;
        Ok(found)
    }

    /// Writes a compaction that was made while the store did not answer. Where somebody else decided something meanwhile, that counts.
    async fn save(
        &mut self,
        transcript: &Transcript<'_>,
        rules: &Rules,
        now: Moment,
        found: &mut Found,
    ) -> Result<()> {
        let Some(unsaved) = self.unsaved.take() else { return Ok(()) };
        let Some(recorded) = &self.recorded else { return Ok(()) };
        if recorded.view.base != unsaved.base || !unsaved.outcome.ledger.matches(transcript) {
            found.ledger = Some(recorded.view.ledger.clone());
            return Ok(());
        }
        match self.commit(transcript, &unsaved.outcome, rules, now).await {
            Ok(Kept::Epoch(number)) => {
                found.ledger = found.ledger.take().map(|_| unsaved.outcome.ledger);
                found.epoch = Some(number);
            }
            Ok(Kept::Nowhere | Kept::Overtaken) => {}
            Err(error) => {
                self.unsaved = Some(unsaved);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Records a request of a session that is not at hand, or was changed by somebody else.
    async fn begin(
        &mut self,
        transcript: &Transcript<'_>,
        chain: &[Identity],
        rules: &Rules,
        now: Moment,
    ) -> Result<Found> {
        let before = self.id();
        self.pending = None;
        let how = Recording { rules, key: self.own_key.as_ref(), at: now };
        let recorded = self.store.record_chain(&self.tenant, transcript, chain, how).await?;
        (self.tip, self.envelope) = (chain.last().copied(), None);
        let id = recorded.session.id;
        let mut stood = Stood::AtHand;
        if before != Some(id) {
            let kept = self.store.state(&self.tenant, id).await?;
            // What another version wrote and this one cannot read is begun anew.
            stood = match kept.as_deref().and_then(|kept| serde_json::from_str(kept).ok()) {
                Some(state) => Stood::Kept(Box::new(state)),
                None if before.is_some() => Stood::New,
                None => Stood::AtHand,
            };
            self.kept = None;
        }
        let (ledger, epoch, held) =
            (Some(recorded.view.ledger.clone()), recorded.view.number, recorded.session.held);
        self.recorded = Some(recorded);
        Ok(Found { ledger, epoch, held, stood })
    }

    /// The same session, one request later.
    async fn go_on(
        &mut self,
        transcript: &Transcript<'_>,
        chain: &[Identity],
        rules: &Rules,
        now: Moment,
    ) -> Result<Option<Found>> {
        let Some(recorded) = &self.recorded else { return Ok(None) };
        let length = recorded.session.length;
        if self.tip.is_none() || length.checked_sub(1).and_then(|last| chain.get(last)) != self.tip.as_ref() {
            return Ok(None);
        }
        let Some(session) = self.store.session_now(&self.tenant, recorded.session.id).await? else {
            return Ok(None);
        };
        let stands = |session: &Session| (session.head, session.length, session.state);
        if stands(&session) != stands(&recorded.session) || session.state != State::Live {
            return Ok(None);
        }
        let how = Keeping { rules, lease: None, at: now };
        let rest = Store::rest(&self.tenant, &session, transcript, chain, self.envelope, &how)?;
        self.pending = rest;
        let (epoch, held) = (recorded.view.number, session.held);
        Ok(Some(Found { ledger: None, epoch, held, stood: Stood::AtHand }))
    }

    /// Writes what waits.
    pub(super) async fn flush(&mut self) -> Result<()> {
        let Some(batch) = self.pending.take() else { return Ok(()) };
        let (tip, envelope) = (batch.chain.last().copied(), batch.envelope.identity);
        let appended = self.store.append(&self.tenant, batch).await;
        self.is_behind = appended.is_err();
        match appended? {
            Appended::Done { session, .. } => {
                let stands = |session: &Session| (session.id, session.head);
                if let Some(recorded) =
                    self.recorded.as_mut().filter(|own| stands(&own.session) == stands(&session))
                {
                    recorded.session = session;
                    (self.tip, self.envelope) = (tip, Some(envelope));
                } else {
                    // Somebody went another way meanwhile, or decided something: the next request finds out which session it is, and
                    // which view of it is in force.
                    self.tip = None;
                }
            }
            Appended::Stale => self.tip = None,
        }
        Ok(())
    }

    /// Keeps a compaction of the request that was recorded last.
    pub(super) async fn commit(
        &mut self,
        transcript: &Transcript<'_>,
        outcome: &Outcome,
        rules: &Rules,
        now: Moment,
    ) -> Result<Kept> {
        let without = || StoreError::Wrong("a compaction of a request that was not recorded".to_owned());
        self.flush().await?;
        let recorded = self.recorded.as_mut().ok_or_else(without)?;
        let how = Keeping { rules, lease: None, at: now };
        Ok(match self.store.keep(&self.tenant, recorded, transcript, outcome, how).await? {
            Committed::Done { session, number } => {
                recorded.view.ledger = outcome.ledger.clone();
                recorded.view.number = Some(number);
                recorded.view.base = session.head;
                if session.id != recorded.session.id {
                    self.kept = None;
                }
                recorded.session = session;
                Kept::Epoch(number)
            }
            Committed::Behind => Kept::Nowhere,
            Committed::Overtaken | Committed::Fenced => Kept::Overtaken,
        })
    }

    /// Takes back the compaction that the newest request was sent with, unless somebody has decided something else since.
    pub(super) async fn take_back(&mut self) -> Result<()> {
        if self.unsaved.take().is_some() {
            return Ok(());
        }
        if let Some(recorded) = &self.recorded
            && let Some(refused) = recorded.view.base
        {
            self.store.take_back(&self.tenant, recorded.session.id, refused).await?;
        }
        Ok(())
    }

    /// Keeps how the session stands, if that has changed.
    pub(super) async fn keep_state(&mut self, state: &Standing) -> Result<()> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        let (essence, id) = (json(&state.without_pace())?, recorded.session.id);
        self.since += 1;
        // The pace of a session is another with every request, and as good a little later.
        if self.kept.as_ref() == Some(&essence) && self.since < PACE_KEPT {
            return Ok(());
        }
        let json = json(state)?;
        self.store.keep_state(&self.tenant, id, redacted(&json, &recorded.session.key)?).await?;
        (self.kept, self.since) = (Some(essence), 0);
        Ok(())
    }

    /// What was learned of a model.
    pub(super) async fn learned(&self, model: &str) -> Result<Option<Learned>> {
        Learned::kept(&self.store, &self.tenant, model).await
    }

    /// Keeps it.
    pub(super) async fn keep_learned(&self, model: &str, learned: &Learned) -> Result<()> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        let learned = redacted(&json(learned)?, &recorded.session.key)?;
        self.store.keep_learned(&self.tenant, model, learned).await
    }
}

/// A value as it is kept. It is in our own words, which the user's rules are not meant for.
fn redacted(json: &str, key: &SessionKey) -> Result<Redacted> {
    let mut redactor = Redactor::keyed(Rules::default(), key.clone());
    redactor.redact_json_to_keep(json).map(|json| json.text).map_err(|error| unwritten(&error))
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| unwritten(&error))
}

fn unwritten(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("the state of a session cannot be written down: {error}"))
}
