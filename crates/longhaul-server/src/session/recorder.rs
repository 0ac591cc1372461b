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
    Appended, Batch, Committed, Keeping, Recorded, Result, Session, SessionId, State, Store, StoreError,
    Tenant,
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
        Self { store, tenant, recorded: None, tip: None, envelope: None, pending: None, kept: None, since: 0 }
    }

    /// Whose session it is.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The session's key.
    pub(super) fn key(&self) -> Option<SessionKey> {
        self.recorded.as_ref().map(|recorded| recorded.session.key.clone())
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
        if let Some(found) = self.go_on(transcript, chain, rules, now).await? {
            return Ok(found);
        }
        let before = self.id();
        self.pending = None;
        let recorded = self.store.record_chain(&self.tenant, transcript, chain, rules, now).await?;
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
        match self.store.append(&self.tenant, batch).await? {
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

    /// Takes the newest compaction back.
    pub(super) async fn undo(&mut self) -> Result<()> {
        if let Some(id) = self.id() {
            self.store.undo(&self.tenant, id).await?;
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
