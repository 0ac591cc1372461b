//! A compaction of a session that lies in the store, asked for by somebody who has no request of it at hand: a page, a tool.
//!
//! What is planned about is the history as it was kept, and what was decided is replayed with the client's next request. The store
//! keeps no secrets, so decisions about messages that had some would not be known again as being about the client's: that is
//! refused, and said. No model is asked: checkpoints are made by code.

use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Handles, Keep, Outcome, Plan, Report, Trigger, Wish};
use longhaul_engine::{Transcript, known::Known, wire};
use serde_json::Value;

use super::command::{Compress, Preview};
use super::compact::newest;
use super::settings::Settings;
use super::windows::{self, Learned};
use crate::agents::Moment;
use crate::store::{At, Committed, Keeping, Recorded, Session, State, Store, Tenant, View};

/// So often it is tried again because somebody else compacted the session meanwhile.
const TRIES: usize = 3;

/// What came of it.
#[derive(Debug, Clone)]
pub struct StoredCompaction {
    /// The session; a new one where the old one was archived for it.
    pub session: Session,
    /// All of it as the client sent it, without secrets: what the report is about,
    pub original: String,
    /// what a model was to be shown next,
    pub before: String,
    /// and what it is shown with this compaction: the same where nothing changed.
    pub after: String,
    /// The report, as JSON.
    pub report: Value,
    /// The checkpoint that stands in place of what was folded.
    pub checkpoint: Option<String>,
    /// Whether it is in force.
    pub became: Became,
    /// Why it could not be kept, where a preview finds that out.
    pub obstacle: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It is in force, as this epoch of the session.
    Epoch(usize),
    /// It was only looked at.
    Preview,
    /// Nothing: the report says why.
    Nothing,
}

impl StoredCompaction {
    /// Whether it is in force.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self.became, Became::Epoch(_))
    }
}

/// Compacts a session of the store once, whatever the threshold. The error is one line. It takes processor time: whoever has others
/// waiting runs it in a [`Pool`](crate::pool::Pool).
///
/// # Errors
/// A session that is archived or deleted, that has secrets in what would be compacted, or that others keep compacting; a store that fails.
pub async fn compact_stored(
    store: &Store,
    tenant: &Tenant,
    session: &Session,
    settings: &Settings,
    compress: &Compress,
    now: Moment,
) -> Result<StoredCompaction, String> {
    let asked = Asked {
        store: store.clone(),
        tenant: tenant.clone(),
        settings: settings.clone(),
        compress: compress.clone(),
        now,
    };
    asked.run(session.clone()).await
}

/// All that was asked.
struct Asked {
    store: Store,
    tenant: Tenant,
    settings: Settings,
    compress: Compress,
    now: Moment,
}

impl Asked {
    async fn run(&self, session: Session) -> Result<StoredCompaction, String> {
        let name = session.name.clone();
        for _ in 0..TRIES {
            let current = self.store.session_now(&self.tenant, session.id).await.map_err(told)?;
            let current = current.ok_or_else(|| format!("session {name} is gone"))?;
            if let Some(done) = self.once(current).await? {
                return Ok(done);
            }
        }
        Err(format!("others keep compacting session {name}; try again"))
    }

    /// One try; nothing where somebody else was faster.
    async fn once(&self, session: Session) -> Result<Option<StoredCompaction>, String> {
        let Self { store, tenant, .. } = self;
        if session.state != State::Live {
            return Err(format!(
                "session {} is {}, and is not compacted any more",
                session.name,
                session.state.name()
            ));
        }
        let original = store.body(tenant, &session, At::Original).await.map_err(told)?;
        let (transcript, _) = wire::parse(session.dialect, &original).map_err(told)?;
        let before = store.body(tenant, &session, At::Now).await.map_err(told)?;
        let recorded = self.recorded(session).await?;
        let outcome = match self.plan(&recorded, &transcript, &before).await? {
            Plan::Ready(outcome) if outcome.ledger != recorded.view.ledger => outcome,
            Plan::Leave(report) | Plan::Ready(Outcome { report, .. }) => {
                let report = json(&report)?;
                let checkpoint = recorded.view.ledger.checkpoint().map(str::to_owned);
                let (after, became, session) = (before.clone(), Became::Nothing, recorded.session);
                let obstacle = None;
                return Ok(Some(StoredCompaction {
                    session,
                    original,
                    before,
                    after,
                    report,
                    checkpoint,
                    became,
                    obstacle,
                }));
            }
        };
        let obstacle = self.obstacle(&recorded.session, &transcript, &outcome.ledger).await?;
        let (session, became) = match (self.compress.preview, &obstacle) {
            (Preview::Yes, _) => (recorded.session, Became::Preview),
            (Preview::No, Some(obstacle)) => return Err(obstacle.clone()),
            (Preview::No, None) => {
                let how = Keeping { rules: &self.settings.rules, lease: None, at: self.now };
                match store.keep(tenant, &recorded, &transcript, &outcome, how).await.map_err(told)? {
                    Committed::Done { session, number } => (session, Became::Epoch(number)),
                    Committed::Overtaken | Committed::Fenced | Committed::Behind => return Ok(None),
                }
            }
        };
        let report = json(&outcome.report)?;
        let (after, checkpoint) = (outcome.body, outcome.ledger.checkpoint().map(str::to_owned));
        Ok(Some(StoredCompaction { session, original, before, after, report, checkpoint, became, obstacle }))
    }

    /// The session as if a request with all of it had just come.
    async fn recorded(&self, session: Session) -> Result<Recorded, String> {
        let epoch = match session.head {
            Some(head) => self.store.epoch(&self.tenant, head).await.map_err(told)?,
            None => None,
        };
        let (number, base) = (epoch.as_ref().map(|epoch| epoch.number), session.head);
        let ledger = epoch.map(|epoch| epoch.ledger).unwrap_or_default();
        Ok(Recorded { session, new: 0, view: View { ledger, number, base } })
    }

    async fn plan(
        &self,
        recorded: &Recorded,
        transcript: &Transcript<'_>,
        before: &str,
    ) -> Result<Plan, String> {
        let Recorded { session, view, .. } = recorded;
        let named = transcript.model.as_deref().unwrap_or(&self.settings.model);
        let learned = Learned::kept(&self.store, &self.tenant, named).await.map_err(told)?;
        let policy =
            windows::policy(&self.settings.config, named, &learned.unwrap_or_default()).map_err(told)?;
        let keep_from = match self.compress.here {
            Some(exchanges) => {
                let (seen, _) = wire::parse(session.dialect, before).map_err(told)?;
                newest(&seen, exchanges)
            }
            None => None,
        };
        let wish = Wish {
            trigger: Trigger::Manual,
            force: true,
            focus: self.compress.focus.clone(),
            keep: Keep::Originals(Handles::new(session.key.clone())),
            session: Some(session.name.clone()),
            rules: self.settings.rules.clone(),
            key: Some(session.key.clone()),
            checkpoints: view.ledger.checkpoint().map(str::to_owned).into_iter().collect(),
            keep_from,
            ..Wish::default()
        };
        let engine = self.settings.engines.of(&policy.engine);
        engine
            .plan(&policy, &wish, &view.ledger, &mut Known::default(), transcript)
            .map_err(|error| format!("a compaction could not be written: {error}"))
    }

    /// What keeps decisions from being replayed with the client's next request.
    async fn obstacle(
        &self,
        session: &Session,
        transcript: &Transcript<'_>,
        ledger: &Ledger,
    ) -> Result<Option<String>, String> {
        let hidden = self.store.withheld(&self.tenant, session, transcript, ledger).await.map_err(told)?;
        Ok(hidden.map(|at| {
            format!(
                "message {at} of session {} held secrets, which the store does not keep, so what is decided here about it would not \
                 fit what its client sends; type /compress in the client, through the gateway",
                session.name
            )
        }))
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn json(report: &Report) -> Result<Value, String> {
    serde_json::to_value(report).map_err(told)
}
