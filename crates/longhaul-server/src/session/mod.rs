//! The session: the one state machine behind the gateway and any agent loop in Rust.
//!
//! ```text
//! request ──before──▶ replay what was decided ──▶ measure ──▶ due? ──▶ compact: hook, plan, commit, event ──▶ Turn: the body to send
//!    reply ──after──▶ the provider's count: calibrates, says what is due
//!  refusal ──failed──▶ compress and retry, send the original, wait, or give up
//!           command, idle, switch, reset
//! ```
//!
//! A tour:
//!
//! - `incoming` is a request that was read, `request` takes it to a `turn`; `scene` is all that is known of it on the way.
//! - `gauge` measures: the provider's count, corrected by what was added since, else a calibrated estimate. `windows` learns what a
//!   model takes from those who refused more. `cached` knows what the provider still has.
//! - `due` has all triggers, in order; `weigh` asks the scheduler where it is a matter of price; `breaker` pauses what is in vain, too
//!   frequent or too dear.
//! - `compact` makes one compaction; `hooks` is what the host is shown and told; `recorder` keeps it in the store, where there is one.
//! - `stored` compacts a session of the store for who has no request of it at hand.
//! - `prepare` begins a model's summary before it is needed, `summarize` asks for it, `background` holds it, `cooldown` spares the
//!   next turns a model that failed. By default no model is asked.
//!
//! Nothing here reads a clock or rolls dice: the moment and the random marks are handed in. What waits, waits by the runtime's clock.
//! Nothing fails either: whatever goes wrong, a body comes back that can be sent, and it is said.

mod background;
mod breaker;
mod cached;
mod command;
mod compact;
mod cooldown;
mod due;
mod gauge;
mod hooks;
mod incoming;
mod once;
mod prepare;
mod pressure;
mod recorder;
mod reply;
mod request;
mod said;
mod scene;
mod settings;
mod state;
mod stored;
mod summarize;
mod turn;
mod weigh;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::cache::{self, Rhythm};
use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::Trigger;
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Price;
use longhaul_engine::redact::SessionKey;
use longhaul_engine::wire::Lifetime;
use longhaul_engine::{Stop, Tokens};

pub use breaker::{Breaker, Pause, Why};
pub use command::{Command, Compress, Preview};
pub use cooldown::Cooldowns;
pub use due::UNDO_HOLDS;
pub use gauge::{By, Calibration, Errors, Measured};
pub use hooks::{Compacted, Going, Host, MOST_KEPT, Quiet};
pub use incoming::Incoming;
pub use once::{Once, ask_once};
pub use reply::{After, Reaction};
pub use request::Touch;
pub use scene::replay;
pub use settings::{Automatic, First, Limits, Settings, Summarizer, Writer};
pub use state::State;
pub use stored::{Became, StoredCompaction, compact_stored};
pub use summarize::Failure;
pub use turn::{Action, Context, Sizes, Turn};
pub use windows::{Learned, Window, policy as policy_of};

use background::Prepared;
use gauge::{Count, Gauge};
use recorder::Recorder;

use crate::agents::Moment;
use crate::store::{SessionId, Store, StoreError, Tenant};
use crate::upstream::Models;

/// One session.
pub struct Session {
    settings: Settings,
    host: Arc<dyn Host>,
    models: Option<Arc<dyn Models>>,
    recorder: Option<Recorder>,
    known: Known,
    /// What was decided about it so far.
    ledger: Ledger,
    /// Which view of it is in force: another number for each set of decisions.
    view: u64,
    /// The checkpoints that it wrote, word for word: an agent may send them back as messages of its own.
    checkpoints: Vec<String>,
    /// The model that the newest request is for.
    model: String,
    learned: BTreeMap<String, Learned>,
    gauge: Gauge,
    prepared: Prepared,
    state: State,
    /// What sets off a compaction at the threshold.
    at_threshold: Trigger,
    /// The threshold of the newest request.
    threshold: Tokens,
    /// Below this size it is not weighed again whether a compaction would pay.
    not_before: Tokens,
    /// What was sent last.
    sent: Sent,
    /// The compaction that was refused, by the hash of what was decided, until the original that is sent in its place is answered.
    suspect: Option<u64>,
    /// The size that was refused, and is to be made smaller with the next request.
    retry: Option<Tokens>,
    /// What was decided before the newest decisions.
    previous: Ledger,
    /// What needs no second telling.
    told: BTreeSet<String>,
    /// Whether the store knows the newest request.
    is_recorded: bool,
    /// Ends a plan that nobody waits for any more.
    stop: Stop,
    /// Why the store does not, where it should.
    trouble: Option<StoreError>,
    /// The view that was replayed last,
    replayed: Option<u64>,
    /// what it is known by,
    hashed: Option<(u64, u64)>,
    /// and what the client had sent when this was sent.
    whole: Option<(Tokens, Count)>,
}

/// What was sent last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sent {
    /// The client's own body.
    #[default]
    Original,
    /// A rewritten one, known by the hash of what was decided.
    Rewritten(u64),
}

/// The checkpoints that are remembered: an agent sends back the newest, or goes back by one or two.
const CHECKPOINTS: usize = 4;

impl Session {
    /// A session that begins, for a host without wishes. No model is asked, and nothing is kept.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            host: Arc::new(Quiet),
            models: None,
            recorder: None,
            known: Known::default(),
            ledger: Ledger::default(),
            view: 0,
            checkpoints: Vec::new(),
            model: String::new(),
            learned: BTreeMap::new(),
            gauge: Gauge::default(),
            prepared: Prepared::default(),
            state: State::default(),
            at_threshold: Trigger::Preflight,
            threshold: Tokens::ZERO,
            not_before: Tokens::ZERO,
            sent: Sent::Original,
            suspect: None,
            retry: None,
            previous: Ledger::default(),
            told: BTreeSet::new(),
            is_recorded: false,
            stop: Stop::default(),
            trouble: None,
            replayed: None,
            hashed: None,
            whole: None,
        }
    }

    /// With a host that is told and asked.
    #[must_use]
    pub fn with_host(self, host: Arc<dyn Host>) -> Self {
        Self { host, ..self }
    }

    /// With those who can be asked for summaries. Whether and who is asked stands in the settings.
    #[must_use]
    pub fn with_models(self, models: Arc<dyn Models>) -> Self {
        Self { models: Some(models), ..self }
    }

    /// With a store, which keeps the requests, the compactions, the state and what is learned.
    #[must_use]
    pub fn with_store(self, store: Store, tenant: Tenant) -> Self {
        Self { recorder: Some(Recorder::new(store, tenant)), ..self }
    }

    /// As it stood before, where no store keeps that.
    #[must_use]
    pub fn resume(self, state: State, learned: BTreeMap<String, Learned>, ledger: Ledger) -> Self {
        let checkpoints = ledger.checkpoint().map(str::to_owned).into_iter().collect();
        Self { ledger, checkpoints, learned, state, ..self }
    }

    /// The same session as after a restart: all that the store does not keep is forgotten. For one that was dropped in the middle of a
    /// request.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self {
            host: Arc::clone(&self.host),
            models: self.models.clone(),
            recorder: self.recorder.as_ref().map(Recorder::restarted),
            ..Self::new(self.settings.clone())
        }
    }

    /// From now on a plan ends as soon as this is set.
    pub fn until(&mut self, stop: Stop) {
        self.stop = stop;
    }

    /// How it stands, to be kept across restarts.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What was learned of models, by name.
    #[must_use]
    pub fn learned(&self) -> &BTreeMap<String, Learned> {
        &self.learned
    }

    /// What was decided about it so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What people call it by, where a store keeps it.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.recorder.as_ref().and_then(Recorder::name)
    }

    /// Which session of the store it is.
    #[must_use]
    pub fn id(&self) -> Option<SessionId> {
        self.recorder.as_ref().and_then(Recorder::id)
    }

    /// So many tokens go with the next request that it does not say itself: whoever sends it adds them.
    pub fn beside(&mut self, tokens: Tokens) {
        self.gauge.beside(tokens);
    }

    /// So many did go with the newest one.
    pub fn went_beside(&mut self, tokens: Tokens) {
        self.gauge.went_beside(tokens);
    }

    /// Which view of the session is in force: another number for each set of decisions.
    #[must_use]
    pub fn view(&self) -> u64 {
        self.view
    }

    /// Whether the store knows the newest request; not where there is none, or it did not answer.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Why the session is in memory only, where a store should keep it.
    #[must_use]
    pub fn store_trouble(&self) -> Option<&StoreError> {
        self.trouble.as_ref()
    }

    /// The same session for a tenant who was known by another name while the store did not answer.
    pub(crate) fn hand_over(&mut self, tenant: Tenant) {
        if let Some(recorder) = &mut self.recorder {
            recorder.hand_over(tenant);
        }
    }

    /// The numbers that hold for the model of the newest request.
    #[must_use]
    pub fn policy(&self) -> Option<Policy> {
        let learned = self.learned.get(&self.model).cloned().unwrap_or_default();
        windows::policy(&self.settings.config, &self.model, &learned).ok()
    }

    /// How long what is cached should live, by the pace of its requests.
    #[must_use]
    pub fn lifetime(&self, prices: Option<&Price>, now: Moment) -> Lifetime {
        let Some(price) = prices else { return Lifetime::FiveMinutes };
        let cached = &self.state.cached;
        let (pauses, prefix) = (cached.pauses(now), cached.warm(now));
        cache::lifetime(&Rhythm { pauses: &pauses, prefix, added: cached.growth() }, price).lifetime
    }

    /// How likely it is, by its pauses so far, that a session which has rested so long comes back within so much more; nothing where
    /// too few say it.
    #[must_use]
    pub fn returns(&self, rested: Duration, within: Duration) -> Option<f64> {
        const ENOUGH: usize = 4;
        let pauses = self.state.cached.pauses_so_far();
        let longer: Vec<Duration> = pauses.filter(|pause| *pause >= rested).collect();
        let back = longer.iter().filter(|pause| **pause < rested + within).count();
        (longer.len() >= ENOUGH).then(|| back as f64 / longer.len() as f64)
    }

    /// Begins anew: the checkpoint, the counts, the cooldowns and the errors are forgotten, and a summary that is being made is ended.
    /// What was learned of models stays, and what was spent today.
    pub fn reset(&mut self) {
        let forgotten = self.recorder.as_ref().and_then(Recorder::epoch);
        self.decided(Ledger::default());
        self.state = State { breaker: self.state.breaker.anew(), forgotten, ..State::default() };
        (self.gauge, self.prepared) = (Gauge::default(), Prepared::default());
        (self.at_threshold, self.not_before, self.sent) = (Trigger::Preflight, Tokens::ZERO, Sent::Original);
        (self.retry, self.suspect) = (None, None);
        self.previous = Ledger::default();
        self.checkpoints.clear();
        self.told.clear();
    }

    /// Another view is in force.
    fn decided(&mut self, ledger: Ledger) {
        if ledger == self.ledger {
            return;
        }
        self.view += 1;
        if let Some(checkpoint) = ledger.checkpoint() {
            self.checkpoints.retain(|own| own != checkpoint);
            self.checkpoints.push(checkpoint.to_owned());
            let surplus = self.checkpoints.len().saturating_sub(CHECKPOINTS);
            self.checkpoints.drain(..surplus);
        }
        self.previous = std::mem::replace(&mut self.ledger, ledger);
    }

    /// The key of the session: the store's own, or the host's.
    pub(crate) fn key(&self) -> Option<SessionKey> {
        let stored = self.recorder.as_ref().and_then(Recorder::key);
        stored.or_else(|| self.settings.key.clone())
    }
}
