//! A request in flight: a value that settles its accounts when it is dropped, whatever ended it.
//!
//! ```text
//! admit: tokens are reserved ──▶ called ──▶ answered ──▶ relayed ──▶ dropped: the reservation is replaced by what was spent,
//!    └── client gone, error, panic ───────────────────────────────▶          the session, the log, the metrics and the store are told
//! ```
//!
//! There is one way to settle, and no caller can forget it: whoever holds the value last drops it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};
use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};

use super::Gateway;
use super::aside::Spent;
use super::baseline::Reported;
use super::door::{Closed, Guest};
use super::memory::Miss;
use super::prepare::Ready;
use super::relay::{Ending, How};
use crate::agents::Moment;
use crate::store::{Action as TrafficAction, Day, Traffic};
use crate::upstream::Trouble;

/// The output that is reserved for an answer where the request does not say how long it may be: a short one. Longer answers are
/// charged when they end.
pub(super) const OUTPUT_RESERVE: Tokens = Tokens(1_000);
/// The status in the log of a request whose client left before there was one, as nginx writes it.
const CLIENT_LEFT: u16 = 499;

/// The kinds of request that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request to a model, on a route that Longhaul reads.
    Model,
    /// A request on any other route.
    Other,
}

/// How far a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The upstream was not asked.
    Admitted,
    /// The upstream has the request, and has not answered yet.
    Called,
    /// The upstream answered with this status.
    Answered(u16),
    /// The upstream gave no answer, and the client was told so with this status.
    Unanswered(u16),
    /// The upstream could not be reached, and the client was told so with this status.
    Unreached(u16),
}

/// A request that was admitted. Dropping it settles its accounts.
pub(super) struct InFlight(Option<Box<Account>>);

/// All that a settlement needs.
struct Account {
    gateway: Arc<Gateway>,
    guest: Guest,
    dialect: Dialect,
    span: Span,
    kind: Kind,
    started: Instant,
    added: Duration,
    reserved: Reservation,
    stage: Stage,
    /// The tokens of the request as it was sent, by our count.
    sent: Tokens,
    action: TrafficAction,
    /// The session's part, for a request that belongs to one.
    ready: Option<Box<Ready>>,
    spent: Arc<Mutex<Spent>>,
    ending: Ending,
}

/// Tokens that were counted for a key before they were spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reservation {
    tokens: Tokens,
    day: Day,
    /// Whether the store counts it; else this process alone does.
    is_stored: bool,
}

impl Gateway {
    /// Admits a request of so many tokens, with the output that it may ask for. A key with a limit of tokens a day has an estimate counted before anything is spent, so that
    /// requests made at once count against each other, at every gateway of the store.
    pub(super) async fn admit(
        self: &Arc<Self>,
        guest: &Guest,
        (dialect, kind): (Dialect, Kind),
        (tokens, output): (Tokens, Tokens),
    ) -> Result<InFlight, Closed> {
        let reserved = self.reserve(guest, tokens + output).await?;
        Ok(InFlight(Some(Box::new(Account {
            gateway: Arc::clone(self),
            guest: guest.clone(),
            dialect,
            span: Span::current(),
            kind,
            started: Instant::now(),
            added: Duration::ZERO,
            reserved,
            stage: Stage::Admitted,
            sent: tokens,
            action: TrafficAction::None,
            ready: None,
            spent: Arc::default(),
            ending: Ending::default(),
        }))))
    }

    async fn reserve(&self, guest: &Guest, tokens: Tokens) -> Result<Reservation, Closed> {
        let now = self.now();
        let day = Day::of(now);
        let none = Reservation { tokens: Tokens::ZERO, day, is_stored: false };
        let limited =
            guest.granted.as_ref().and_then(|granted| Some((granted.id, granted.limits.tokens_per_day?)));
        let Some((key, most)) = limited else { return Ok(none) };
        let is_stored = match self.store.reserve_for_key(key, tokens, most, day).await {
            Ok(true) => true,
            Ok(false) => {
                self.uses.set(key, day, most);
                return Err(Closed::daily_limit(most, day.left(now)));
            }
            Err(error) => {
                tracing::warn!("the store did not count what a key is about to use: {error}");
                if self.uses.used(key, day) >= most {
                    return Err(Closed::daily_limit(most, day.left(now)));
                }
                false
            }
        };
        self.uses.replace(key, day, Tokens::ZERO, tokens);
        Ok(Reservation { tokens, day, is_stored })
    }
}

impl InFlight {
    fn account(&mut self) -> Option<&mut Account> {
        self.0.as_deref_mut()
    }

    /// Notes what was done with a request that belongs to no session.
    pub(super) fn acted(&mut self, action: &TrafficAction) {
        if let Some(account) = self.account() {
            account.action = action.clone();
        }
    }

    /// Takes over a request of a session that is about to be sent.
    pub(super) fn hold(&mut self, ready: Box<Ready>) {
        if let Some(account) = self.account() {
            account.ready = Some(ready);
        }
    }

    /// Gives the session's part back, to be made ready again.
    pub(super) fn release(&mut self) -> Option<Box<Ready>> {
        self.account()?.ready.take()
    }

    /// The session's part.
    pub(super) fn ready(&mut self) -> Option<&mut Ready> {
        self.account()?.ready.as_deref_mut()
    }

    /// The usage of the answers that make up one reply.
    pub(super) fn spent(&self) -> Arc<Mutex<Spent>> {
        self.0.as_ref().map(|account| Arc::clone(&account.spent)).unwrap_or_default()
    }

    /// The upstream is about to be asked with so many tokens.
    pub(super) fn calls(&mut self, sent: Tokens) {
        if let Some(account) = self.account() {
            if account.stage == Stage::Admitted {
                account.added = account.started.elapsed();
            }
            (account.stage, account.sent) = (Stage::Called, sent);
        }
    }

    /// Corrects how many tokens were sent, once that is known.
    pub(super) fn sent(&mut self, tokens: Tokens) {
        if let Some(account) = self.account() {
            account.sent = tokens;
        }
    }

    /// The upstream answered with this status.
    pub(super) fn answered(&mut self, status: u16) {
        if let Some(account) = self.account() {
            account.stage = Stage::Answered(status);
        }
    }

    /// The client is told with this status that no answer came.
    pub(super) fn unanswered(&mut self, trouble: &Trouble, status: u16) {
        if let Some(account) = self.account() {
            account.stage = match trouble {
                Trouble::Unreachable(_) | Trouble::TimedOut(crate::upstream::Stage::Connect) => {
                    Stage::Unreached(status)
                }
                _ => Stage::Unanswered(status),
            };
        }
    }

    /// The answer ended, and the request with it.
    pub(super) fn ends(mut self, ending: Ending) {
        if let Some(account) = self.account() {
            account.ending = ending;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(mut account) = self.0.take() else { return };
        // The next request of the session may line up at once; what follows is written while it comes.
        if let Some(ready) = &mut account.ready {
            ready.claim.free();
        }
        if let Ok(runtime) = Handle::try_current() {
            let (begun, span) = (account.gateway.pending.begin(), account.span.clone());
            let settled = async move {
                account.settle().await;
                drop(begun);
            };
            runtime.spawn(settled.instrument(span));
        }
    }
}

/// What one request came to.
#[derive(Debug, Clone, PartialEq, Default)]
struct Bill {
    /// The usage of the client's own request.
    own: Usage,
    /// The usage of all answers that its reply took.
    all: Usage,
    /// The tokens that a key is charged: reported ones, and estimates for what nobody reported.
    charged: Tokens,
}

impl Account {
    /// The status that the log and the metrics show.
    fn status(&self) -> u16 {
        match self.stage {
            Stage::Answered(status) | Stage::Unanswered(status) | Stage::Unreached(status) => status,
            Stage::Admitted | Stage::Called => CLIENT_LEFT,
        }
    }

    fn bill(&self, spent: &Spent) -> Bill {
        match self.stage {
            Stage::Admitted | Stage::Unreached(_) => return Bill::default(),
            Stage::Answered(status) if !(200..300).contains(&status) => return Bill::default(),
            Stage::Answered(_) | Stage::Called | Stage::Unanswered(_) => {}
        }
        let Ending { reply, so_far, .. } = &self.ending;
        let sum = |usage: &Usage| usage.input.unwrap_or_default() + usage.output.unwrap_or_default();
        if let Some(own) = spent.first {
            // Hidden recall rounds: one of them may have ended before it was reported.
            let open = if spent.unreported > Tokens::ZERO { so_far.output } else { Tokens::ZERO };
            return Bill { own, all: spent.all, charged: sum(&spent.all) + spent.unreported + open };
        }
        let reported = reply.as_ref().and_then(|reply| reply.usage);
        let partial = || {
            let usage = so_far.usage.unwrap_or_default();
            let output = usage.output.unwrap_or_default().max(so_far.output);
            Usage { output: usage.input.map(|_| output), ..usage }
        };
        let own = reported.unwrap_or_else(partial);
        let output = own.output.unwrap_or(so_far.output);
        Bill { own, all: own, charged: own.input.unwrap_or(self.sent) + output }
    }

    async fn settle(mut self: Box<Self>) {
        let spent = std::mem::take(&mut *self.spent.lock().unwrap_or_else(PoisonError::into_inner));
        let bill = self.bill(&spent);
        match (self.kind, self.ready.take()) {
            _ if self.stage == Stage::Admitted => {}
            (Kind::Model, Some(ready)) => self.settle_session(*ready, spent, &bill).await,
            (Kind::Model, None) => {
                let traffic = Traffic {
                    action: self.action.clone(),
                    usage: bill.all,
                    added: self.added,
                    took: self.started.elapsed(),
                    ..nothing(self.gateway.now())
                };
                self.gateway.tally.answered(self.dialect, self.status(), &traffic, None);
                self.log(&traffic, None);
            }
            (Kind::Other, _) => {
                let (status, tokens) = (self.status(), bill.charged.number());
                tracing::info!(status, tokens, "passed on: {}", self.ending.how.name());
            }
        }
        self.charge(bill.charged).await;
    }

    async fn settle_session(&self, ready: Ready, spent: Spent, bill: &Bill) {
        let Ready { mut claim, action, sizes, model, expected, before, own, is_marked, has_tools, .. } =
            ready;
        let is_unchanged = action == TrafficAction::None && !is_marked && !has_tools;
        let (gateway, status) = (&self.gateway, self.status());
        let is_accepted = (200..300).contains(&status);
        if !is_accepted {
            claim.session().unresolved();
        }
        if is_accepted && self.ending.reply.is_some() {
            for line in claim.session().after(&bill.own).await.said {
                tracing::info!("{line}");
            }
        }
        let held = claim.held();
        if let Some(aside) = spent.aside {
            held.memory.asides.keep(aside);
        }
        let miss = held.memory.missed(&expected, before, &bill.own).filter(|_| is_accepted);
        if let Some(miss) = &miss {
            tracing::info!("cache miss: {miss}");
        }
        for line in held.session.write().await {
            tracing::warn!("{line}");
        }
        if let Some(tenant) = &self.guest.tenant {
            gateway.keep_hidden_turns(tenant, &held.session, &mut held.memory.asides).await;
        }
        let now = gateway.now();
        let prices = held.session.policy().and_then(|policy| policy.known_prices().cloned());
        let usd = prices.as_ref().filter(|_| bill.own.input.is_some());
        let usd = usd.map(|prices| bill.all.bill(&prices.price).total());
        let is_lost = matches!(miss, Some(Miss::Lost { .. }));
        let reported = Reported { usage: bill.own, sizes, is_unchanged, is_lost, at: now };
        let without = own.and_then(|own| held.memory.baseline.usage(&own, &reported));
        let usd_without =
            prices.as_ref().zip(without).map(|(prices, usage)| usage.bill(&prices.price).total());
        let traffic = Traffic {
            at: now,
            model: Some(model).filter(|model| !model.is_empty()),
            action,
            before: sizes.whole,
            after: sizes.sent,
            usage: bill.all,
            broke: miss.as_ref().map(ToString::to_string),
            added: self.added,
            took: self.started.elapsed(),
            usd,
            usd_without,
        };
        gateway.tally.answered(self.dialect, status, &traffic, miss.as_ref().map(Miss::name));
        self.log(&traffic, held.session.name().as_deref());
        if let (Some(id), Some(tenant)) = (held.session.id(), &self.guest.tenant)
            && let Err(error) = gateway.store.note_traffic(tenant, id, &traffic).await
        {
            tracing::warn!("the store did not keep what a request came to: {error}");
        }
        if let Some(tenant) = &self.guest.tenant {
            gateway.dashboard.pulse.beat(tenant);
        }
    }

    fn log(&self, traffic: &Traffic, session: Option<&str>) {
        tracing::info!(
            session,
            status = self.status(),
            action = %traffic.action,
            before = traffic.before.number(),
            after = traffic.after.number(),
            input = traffic.usage.input.map(Tokens::number),
            read = traffic.usage.read.map(Tokens::number),
            added_ms = traffic.added.as_secs_f64() * 1e3,
            took_ms = traffic.took.as_secs_f64() * 1e3,
            "{}",
            self.ending.how.name(),
        );
    }

    /// Replaces the reservation by what was spent.
    async fn charge(&self, spent: Tokens) {
        let Some(granted) = &self.guest.granted else { return };
        let Reservation { tokens, day, is_stored } = self.reserved;
        if (tokens, spent) == (Tokens::ZERO, Tokens::ZERO) {
            return;
        }
        let gateway = &self.gateway;
        gateway.uses.replace(granted.id, day, tokens, spent);
        let stored = if is_stored { tokens } else { Tokens::ZERO };
        match gateway.store.settle_key(granted.id, stored, spent, day).await {
            Ok(total) => gateway.uses.set(granted.id, day, total),
            Err(error) => tracing::warn!("the store did not count what a key used: {error}"),
        }
    }
}

impl How {
    /// How an answer ended, for the log.
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "answered",
            Self::Cut => "the answer broke off",
            Self::Left => "the client left before the end",
        }
    }
}

/// A request of which nothing is known.
fn nothing(at: Moment) -> Traffic {
    Traffic {
        at,
        model: None,
        action: TrafficAction::None,
        before: Tokens::ZERO,
        after: Tokens::ZERO,
        usage: Usage::default(),
        broke: None,
        added: Duration::ZERO,
        took: Duration::ZERO,
        usd: None,
        usd_without: None,
    }
}
