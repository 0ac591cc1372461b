//! A compaction that the store keeps: what was decided before about the same history is decided again, and what is new is committed.

use longhaul_engine::Transcript;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Outcome, Plan, Report};
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_server::store::{Committed, Keeping, Recorded, Tenant};
use serde::Serialize;

use crate::failure::Failure;
use crate::store::{Kept, Whereabouts, now};

/// So often a compaction is made again because another was committed meanwhile.
const TRIES: usize = 5;

/// The store of a call.
pub(super) enum Recording {
    /// Bodies and compactions are written to it.
    On(Kept),
    /// A preview only looks at it, if it is there.
    Looking(Option<Kept>),
}

impl Recording {
    pub(super) fn open(whereabouts: &Whereabouts, is_preview: bool) -> Result<Self, Failure> {
        Ok(if is_preview { Self::Looking(whereabouts.look()?) } else { Self::On(whereabouts.open()?) })
    }
}

/// What a plan has to know of the session that it is for.
pub(super) struct History {
    pub(super) key: SessionKey,
    pub(super) name: Option<String>,
    pub(super) ledger: Ledger,
    /// Whether somebody took a compaction back, so that none is made that need not be.
    pub(super) held: bool,
}

impl History {
    fn of(recorded: &Recorded) -> Self {
        let session = &recorded.session;
        let (key, name, ledger) =
            (session.key.clone(), Some(session.name.clone()), recorded.view.ledger.clone());
        Self { key, name, ledger, held: session.held }
    }

    /// Of a body that no session is known of.
    fn none(transcript: &Transcript<'_>) -> Self {
        let key = SessionKey::new(*blake3::hash(transcript.body.as_bytes()).as_bytes());
        Self { key, name: None, ledger: Ledger::default(), held: false }
    }
}

/// Where a compaction is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Whose {
    /// The session; nothing in a preview of a new one.
    pub(super) session: Option<String>,
    /// The view in force, where there is one.
    pub(super) epoch: Option<usize>,
}

/// What became of a body.
pub(super) struct Settled {
    pub(super) report: Report,
    /// The body to send; nothing where it stays as it is.
    pub(super) text: Option<String>,
    pub(super) whose: Whose,
    /// Whether older decisions were made again and no new ones.
    pub(super) is_replay: bool,
}

impl Settled {
    fn left(report: Report, whose: Whose) -> Self {
        Self { report, text: None, whose, is_replay: false }
    }

    fn replayed(outcome: Outcome, whose: Whose) -> Self {
        let Outcome { mut report, body, .. } = outcome;
        let number = whose.epoch.unwrap_or_default();
        report.reason =
            format!("epoch {number} is replayed and nothing new was compacted: {}", report.reason);
        Self { report, text: Some(body), whose, is_replay: true }
    }
}

/// Records a body, plans with what was decided about it before, and commits what is new. A body of a session that somebody has stays
/// theirs.
pub(super) fn settle(
    recording: &Recording,
    owner: Option<&Tenant>,
    transcript: &Transcript<'_>,
    rules: &Rules,
    mut plan: impl FnMut(&History) -> Result<Plan, Failure>,
) -> Result<Settled, Failure> {
    let kept = match recording {
        Recording::On(kept) => kept,
        Recording::Looking(kept) => {
            let find = |kept: &Kept| kept.run(kept.store.find(owner.unwrap_or(&kept.tenant), transcript));
            let found = kept.as_ref().map(find).transpose()?.flatten();
            return preview(transcript, found.as_ref(), plan);
        }
    };
    let tenant = owner.unwrap_or(&kept.tenant);
    let mut session = String::new();
    for _ in 0..TRIES {
        let recorded = kept.run(kept.store.record(tenant, transcript, rules, now()))?;
        session.clone_from(&recorded.session.name);
        let whose = Whose { session: Some(session.clone()), epoch: recorded.view.number };
        let outcome = match plan(&History::of(&recorded))? {
            Plan::Leave(report) => return Ok(Settled::left(report, whose)),
            Plan::Ready(outcome) if outcome.ledger == recorded.view.ledger => {
                return Ok(Settled::replayed(outcome, whose));
            }
            Plan::Ready(outcome) => outcome,
        };
        let how = Keeping { rules, lease: None, at: now() };
        let keep = kept.store.keep(tenant, &recorded, transcript, &outcome, how);
        let whose = match kept.run(keep)? {
            Committed::Done { session, number } => Whose { session: Some(session.name), epoch: Some(number) },
            Committed::Behind => Whose { session: None, epoch: None },
            Committed::Overtaken | Committed::Fenced => continue,
        };
        let Outcome { mut report, body, .. } = outcome;
        if transcript.message_count() - transcript.lead() < recorded.session.length {
            let note =
                format!("session {session} has gone on from here, so this compaction is no epoch of it");
            report.notes.push(note);
        }
        return Ok(Settled { report, text: Some(body), whose, is_replay: false });
    }
    Err(Failure::World(format!("others keep compacting session {session}; try again")))
}

/// The same with nothing written.
fn preview(
    transcript: &Transcript<'_>,
    found: Option<&Recorded>,
    mut plan: impl FnMut(&History) -> Result<Plan, Failure>,
) -> Result<Settled, Failure> {
    let history = found.map_or_else(|| History::none(transcript), History::of);
    // What does not go on from the session's end would become one of its own.
    let goes_on = |found: &&Recorded| {
        let said = transcript.message_count() - transcript.lead();
        found.new == 0 || said - found.new == found.session.length
    };
    let session = found.filter(goes_on).map(|found| found.session.name.clone());
    let epoch = found.and_then(|found| found.view.number);
    Ok(match plan(&history)? {
        Plan::Leave(report) => Settled::left(report, Whose { session, epoch }),
        Plan::Ready(outcome) if outcome.ledger == history.ledger => {
            Settled::replayed(outcome, Whose { session, epoch })
        }
        Plan::Ready(Outcome { report, body, .. }) => {
            let whose = Whose { session, epoch: None };
            Settled { report, text: Some(body), whose, is_replay: false }
        }
    })
}
