//! What follows an answer: the counts, the session's own account, and what is written down of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};
use tracing::{Instrument as _, Span};

use super::Gateway;
use super::aside::Spent;
use super::door::Guest;
use super::memory::Miss;
use super::prepare::Ready;
use super::relay::{Aftermath, Ending};
use crate::agents::Moment;
use crate::store::{Action as TrafficAction, Day, Traffic};

/// The request that was answered.
pub(super) struct Request {
    pub(super) gateway: Arc<Gateway>,
    pub(super) guest: Guest,
    pub(super) dialect: Dialect,
    pub(super) status: u16,
    pub(super) started: Instant,
    /// What its lines in the log are found by.
    pub(super) span: Span,
}

/// A request of which nothing is known.
pub(super) fn nothing(at: Moment) -> Traffic {
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

/// What follows an answer to a request that passed as it came.
pub(super) struct Passed {
    pub(super) request: Request,
    pub(super) action: TrafficAction,
    /// How large it was, about.
    pub(super) sent: Tokens,
}

impl Aftermath for Passed {
    fn over(self: Box<Self>, ending: Ending) {
        let Self { request, action, sent } = *self;
        let usage = match ending {
            Ending::Whole(reply) => reply.and_then(|reply| reply.usage).unwrap_or_default(),
            Ending::Cut | Ending::Left => Usage::default(),
        };
        let traffic =
            Traffic { action, usage, took: request.started.elapsed(), ..nothing(request.gateway.now()) };
        request.gateway.tally.answered(request.dialect, request.status, &traffic, None);
        if request.guest.granted.is_some() && request.status < 300 {
            let span = request.span.clone();
            tokio::spawn(async move { request.charge(&usage, sent).await }.instrument(span));
        }
    }
}

/// What follows an answer to a request of a session.
pub(super) struct Turned {
    pub(super) request: Request,
    /// How long it took to be made ready.
    pub(super) added: Duration,
    pub(super) ready: Box<Ready>,
    /// What it came to where the model was answered in between.
    pub(super) spent: Arc<Mutex<Spent>>,
}

impl Aftermath for Turned {
    fn over(mut self: Box<Self>, ending: Ending) {
        // The next request may line up at once; what follows is written while it comes.
        self.ready.claim.free();
        let (begun, span) = (self.request.gateway.pending.begin(), self.request.span.clone());
        let settled = async move {
            self.settle(ending).await;
            drop(begun);
        };
        tokio::spawn(settled.instrument(span));
    }
}

impl Turned {
    async fn settle(self: Box<Self>, ending: Ending) {
        let Self { request, added, ready, spent } = *self;
        let spent = std::mem::take(&mut *spent.lock().unwrap_or_else(PoisonError::into_inner));
        let Ready { mut claim, action, sizes, model, expected, before, .. } = *ready;
        let (gateway, status) = (&request.gateway, request.status);
        let (now, took) = (gateway.now(), request.started.elapsed());
        let usage = match ending {
            Ending::Whole(Some(reply)) if status < 300 => {
                // What the request itself came to; what was said in between is only billed.
                let usage = spent.first.or(reply.usage).unwrap_or_default();
                for line in claim.session().after(&usage).await.said {
                    tracing::info!("{line}");
                }
                usage
            }
            Ending::Whole(_) | Ending::Cut | Ending::Left => Usage::default(),
        };
        let held = claim.held();
        if let Some(aside) = spent.aside {
            held.memory.asides.keep(aside);
        }
        let miss = held.memory.missed(&expected, before, &usage).filter(|_| status < 300);
        if let Some(miss) = &miss {
            tracing::info!("cache miss: {miss}");
        }
        for line in held.session.write().await {
            tracing::warn!("{line}");
        }
        let prices = held.session.policy().and_then(|policy| policy.prices);
        let usd = prices.as_ref().filter(|_| usage.input.is_some());
        let billed = spent.first.map_or(usage, |_| spent.all);
        let usd = usd.map(|prices| billed.bill(&prices.price).total());
        let usd_without = prices
            .as_ref()
            .zip(usd)
            .map(|(prices, _)| held.memory.without(&usage, sizes, &expected).bill(&prices.price).total());
        let traffic = Traffic {
            at: now,
            model: Some(model).filter(|model| !model.is_empty()),
            action,
            before: sizes.whole,
            after: sizes.sent,
            usage: billed,
            broke: miss.as_ref().map(ToString::to_string),
            added,
            took,
            usd,
            usd_without,
        };
        gateway.tally.answered(request.dialect, status, &traffic, miss.as_ref().map(Miss::name));
        tracing::info!(
            session = held.session.name(),
            status,
            action = %traffic.action,
            before = sizes.whole.number(),
            after = sizes.sent.number(),
            input = usage.input.map(Tokens::number),
            read = usage.read.map(Tokens::number),
            added_ms = added.as_secs_f64() * 1e3,
            took_ms = took.as_secs_f64() * 1e3,
            "answered"
        );
        if let (Some(id), Some(tenant)) = (held.session.id(), &request.guest.tenant)
            && let Err(error) = gateway.store.note_traffic(tenant, id, &traffic).await
        {
            tracing::warn!("the store did not keep what a request came to: {error}");
        }
        if let Some(tenant) = &request.guest.tenant {
            gateway.dashboard.pulse.beat(tenant);
        }
        if status < 300 {
            request.charge(&billed, sizes.sent).await;
        }
    }
}

impl Request {
    /// Counts what its key used. Where nobody heard the provider's count, because who asked left before it came, it is what was sent.
    async fn charge(&self, usage: &Usage, sent: Tokens) {
        let Some(granted) = &self.guest.granted else { return };
        let tokens = usage.input.unwrap_or(sent) + usage.output.unwrap_or_default();
        if let Err(error) = self.gateway.store.use_key(granted.id, tokens, Day::of(self.gateway.now())).await
        {
            tracing::warn!("the store did not count what a key used: {error}");
        }
    }
}
