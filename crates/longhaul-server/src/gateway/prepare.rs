//! A request on its way out: its session found, what was decided replayed, what is due done, its cache marks set. All of it is work for
//! the pool, and none of it can fail: what goes wrong is a reason to send the original.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use longhaul_engine::cache::{Chain, FIVE_MINUTES, ONE_HOUR, Route};
use longhaul_engine::identity::{Chains, Identity};
use longhaul_engine::policy::Policy;
use longhaul_engine::wire::{self, Lifetime};
use longhaul_engine::{Dialect, Stop, Tokens, Transcript};
use tokio::time::timeout;

use super::Gateway;
use super::aside::{self, Asides};
use super::baseline::OwnRequest;
use super::commands::{self, Asked};
use super::live::{Claim, Held};
use super::marks::Caching;
use super::memory::{Expected, Memory, Next};
use super::settings::Recall;
use crate::session::{Action, Incoming, Session, Sizes, replay};
use crate::store::{Action as TrafficAction, StoreError, Tenant};

/// A request to be made ready.
pub(super) struct Job {
    pub(super) gateway: Arc<Gateway>,
    pub(super) tenant: Tenant,
    pub(super) dialect: Dialect,
    /// The body as text.
    pub(super) text: Bytes,
    /// What the client calls its session by, if it does.
    pub(super) scope: Vec<u8>,
    /// Whether it goes on from a compaction that the client was handed.
    pub(super) is_continued: bool,
}

/// A request that can be sent.
pub(super) struct Ready {
    pub(super) claim: Claim,
    /// The body; nothing where the client's own goes on as it came.
    pub(super) body: Option<Bytes>,
    /// Whether marks of ours are in it,
    pub(super) is_marked: bool,
    /// and tools.
    pub(super) has_tools: bool,
    /// What its newest message is known by.
    pub(super) tip: Option<Identity>,
    pub(super) action: TrafficAction,
    pub(super) sizes: Sizes,
    pub(super) model: String,
    pub(super) expected: Expected,
    /// Why the session is in memory only, in a word or two.
    pub(super) store_trouble: Option<&'static str>,
    /// What the provider had counted of the request before this one.
    pub(super) before: Tokens,
    /// The request as the client sent it, where its price is known.
    pub(super) own: Option<OwnRequest>,
    chain: Option<Chain>,
}

/// What became of it.
pub(super) enum Prepared {
    Ready(Box<Ready>),
    /// It is not for a model: somebody asked us something.
    Command(Asked),
    /// It goes through as it came, for this reason.
    Bypass(&'static str),
}

impl Job {
    fn text(&self) -> &str {
        // It was looked at when it was unpacked.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// The same request with another text.
    pub(super) fn with_text(&self, text: Bytes) -> Self {
        let (gateway, tenant, scope) = (Arc::clone(&self.gateway), self.tenant.clone(), self.scope.clone());
        Self { gateway, tenant, dialect: self.dialect, text, scope, is_continued: self.is_continued }
    }

    /// Makes it ready, in the time there is for it.
    pub(super) async fn run(self: &Arc<Self>, claim: Option<Claim>) -> Prepared {
        let prepared = self.at_work(|job, stop| async move { job.prepare(claim, stop).await }).await;
        prepared.unwrap_or_else(Prepared::Bypass)
    }

    /// Does something on the threads for work, in the time there is for it. The error says why it was not done. What is not done in
    /// time ends.
    pub(super) async fn at_work<T, F>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>, Stop) -> F,
    ) -> Result<T, &'static str>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let gateway = &self.gateway;
        let limit = gateway.settings.limits.deadline + gateway.settings.session.max_wait;
        let mut late = StopOnDrop(Stop::new());
        let work = gateway
            .pool
            .run(self.tenant.owner().of_bytes(self.text.len()), work(Arc::clone(self), late.0.clone()));
        let done = timeout(limit, work).await;
        if done.is_ok() {
            late.0 = Stop::default();
        }
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(reason)) => Err(reason.name()),
            Err(_) => Err("deadline"),
        }
    }

    async fn prepare(&self, claim: Option<Claim>, stop: Stop) -> Prepared {
        let Self { gateway, tenant, dialect, .. } = self;
        let mut text = self.text();
        let stripped;
        if gateway.settings.commands.is_on()
            && let Some(found) = commands::find(*dialect, text)
        {
            if let Some(command) = found.newest {
                return Prepared::Command(Asked { command, text: found.body });
            }
            stripped = found.body;
            text = &stripped;
        }
        let is_stripped = text.len() != self.text.len();
        let Ok(incoming) = self.read(text) else { return Prepared::Bypass("unreadable") };
        if incoming.chain.is_empty() {
            return Prepared::Bypass("unreadable");
        }
        let mut claim = match claim {
            Some(claim) => claim,
            None => gateway.claim(tenant, &incoming).await,
        };
        let now = gateway.now();
        let model = model_of(&incoming).to_owned();
        gateway.load_hidden_turns(tenant, &incoming.chain, &mut claim.held().memory.asides).await;
        claim.begins(stop);
        let Held { session, memory } = claim.held();
        let before = memory.counted();
        let beside = |asides: &Asides| aside::tools_tokens(*dialect) + asides.tokens(&incoming.chain);
        // Of a session that comes from the store, decisions are not known yet.
        let has_hidden = memory.asides.tokens(&incoming.chain) > Tokens::ZERO;
        let wants_tools = has_hidden || self.wants_tools(session, memory);
        session.beside(if wants_tools { beside(&memory.asides) } else { Tokens::ZERO });
        let mut touched = Touched::default();
        let mut touch = |session: &Session, sent: &Transcript<'_>, policy: &Policy| {
            touched = self.touch(session, memory, sent, policy, &incoming);
            touched.body.take()
        };
        let turn = session.before_read(&incoming, now, &mut touch).await;
        claim.ends();
        let Held { session, memory } = claim.held();
        session.went_beside(if touched.has_tools { beside(&memory.asides) } else { Tokens::ZERO });
        let policy = session.policy().filter(|policy| policy.known_prices().is_some());
        let own = policy.map(|policy| memory.baseline.read(&incoming.transcript, &policy));
        for line in &turn.said {
            tracing::info!(session = claim.session().name(), "{line}");
        }
        gateway.live.ends_with(&claim, incoming.chain.last());
        let action = match turn.action {
            Action::None if turn.measured.is_none() => TrafficAction::Bypassed("engine".to_owned()),
            Action::None => TrafficAction::None,
            Action::Replayed => TrafficAction::Replayed,
            Action::Compacted => TrafficAction::Compacted,
        };
        let store_trouble = claim.session().store_trouble().map(StoreError::kind);
        let sizes = turn.sizes.unwrap_or(Sizes { whole: Tokens::ZERO, sent: Tokens::ZERO });
        let Touched { is_marked, has_tools, chain, expected, .. } = touched;
        let expected = if turn.action == Action::Compacted { expected.once_compacted() } else { expected };
        let is_bypassed = matches!(action, TrafficAction::Bypassed(_));
        let body = match turn.body {
            _ if is_bypassed => None,
            Cow::Owned(body) => Some(Bytes::from(body)),
            Cow::Borrowed(body) if is_stripped => Some(Bytes::from(body.to_owned())),
            Cow::Borrowed(_) => None,
        };
        let (is_marked, has_tools) = (is_marked && body.is_some(), has_tools && body.is_some());
        Prepared::Ready(Box::new(Ready {
            claim,
            body,
            is_marked,
            has_tools,
            tip: incoming.chain.last().copied(),
            action,
            sizes,
            model,
            expected,
            store_trouble,
            before,
            own,
            chain,
        }))
    }

    /// What the decisions so far make of it; nothing where that is the body itself.
    pub(super) async fn replayed(&self) -> Option<String> {
        let text = self.text();
        let is_on = self.gateway.settings.commands.is_on();
        let stripped = is_on.then(|| commands::find(self.dialect, text)).flatten().map(|found| found.body);
        let incoming = self.read(stripped.as_deref().unwrap_or(text)).ok()?;
        let Incoming { transcript, chain, .. } = &incoming;
        let found = self.gateway.store.find_chain(&self.tenant, transcript, chain).await.ok().flatten();
        let replayed = found.and_then(|found| replay(&found.view.ledger, transcript));
        replayed.or_else(|| stripped.clone())
    }

    pub(super) fn read<'b>(&self, text: &'b str) -> Result<Incoming<'b>, String> {
        Incoming::read_within(self.dialect, text, (&self.tenant, &self.scope), &self.gateway.chains)
    }

    /// The last that is done to a body: our tools and what was said aside go in, and the cache marks are set.
    fn touch(
        &self,
        session: &Session,
        memory: &mut Memory,
        sent: &Transcript<'_>,
        policy: &Policy,
        incoming: &Incoming<'_>,
    ) -> Touched {
        memory.asides.turn_to(session.view());
        let wants_tools = self.wants_tools(session, memory) && aside::offers(sent.body);
        let dressed = wants_tools
            .then(|| aside::dressed(sent, &incoming.chain, &memory.asides, &self.tenant.identities()))
            .flatten();
        let marked = {
            let read = dressed.as_deref().and_then(|body| wire::parse(self.dialect, body).ok());
            let sent = read.as_ref().map_or(sent, |(sent, _)| sent);
            self.mark(session, memory, sent, policy, model_of(incoming))
        };
        let has_tools = dressed.is_some();
        let Some((marked, Outgoing { chain, expected })) = marked else {
            return Touched { body: dressed, has_tools, ..Touched::default() };
        };
        let is_marked = marked.is_some();
        Touched { body: marked.or(dressed), is_marked, has_tools, chain, expected }
    }

    /// Whether the model is to be offered the recall tools.
    fn wants_tools(&self, session: &Session, memory: &Memory) -> bool {
        let is_wanted = match self.gateway.settings.recall {
            Recall::Off => false,
            Recall::Auto => self.is_continued || !session.ledger().is_empty(),
            Recall::On => true,
        };
        let has_room = |policy: Policy| policy.window >= aside::SMALLEST_WINDOW;
        is_wanted && !memory.is_untooled && session.id().is_some() && session.policy().is_some_and(has_room)
    }

    /// Sets the cache marks, and says what is to be expected of the cache.
    fn mark(
        &self,
        session: &Session,
        memory: &mut Memory,
        sent: &Transcript<'_>,
        policy: &Policy,
        model: &str,
    ) -> Option<(Option<String>, Outgoing)> {
        let now = self.gateway.now();
        let upstream = self.gateway.settings.upstreams.of(self.dialect).provider().name();
        let is_same = |(known, at, _): &(String, String, Caching)| known == model && at == upstream;
        if !memory.caching.as_ref().is_some_and(is_same) {
            let caching = Caching::of(&self.gateway.settings.session.config, model, upstream, self.dialect);
            memory.caching = caching.map(|caching| (model.to_owned(), upstream.to_owned(), caching));
            memory.places = None;
        }
        let (_, _, caching) = memory.caching.as_ref()?;
        let pace = session.lifetime(policy.prices.as_ref().map(|prices| &prices.price), now);
        let marked = caching.mark(sent, pace, &mut memory.places)?;
        let lives = match caching.route {
            Route::Off(_) => Duration::ZERO,
            _ if caching.lifetime(pace) == Lifetime::OneHour => ONE_HOUR,
            _ => FIVE_MINUTES,
        };
        let too_short = (!marked.reaches).then(|| caching.minimum());
        let expected = memory.expect(&Next { chain: &marked.chain, lives, too_short }, now);
        let body = marked.body.filter(|_| !memory.is_unmarked);
        Some((body, Outgoing { chain: Some(marked.chain), expected }))
    }
}

/// Ends a plan whose request nobody waits for any more, because it took too long or the client left.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A body that was touched last.
#[derive(Default)]
struct Touched {
    /// The body; nothing where it stays as it is.
    body: Option<String>,
    is_marked: bool,
    has_tools: bool,
    chain: Option<Chain>,
    expected: Expected,
}

/// The model that a request is for.
fn model_of<'i>(incoming: &'i Incoming<'_>) -> &'i str {
    incoming.transcript.model.as_deref().unwrap_or_default()
}

/// What is known of a body that goes out.
struct Outgoing {
    chain: Option<Chain>,
    expected: Expected,
}

impl Ready {
    /// It was sent, and the provider took it.
    pub(super) fn is_sent(&mut self, gateway: &Gateway) {
        if let Some(chain) = self.chain.take() {
            let (now, sent) = (gateway.now(), self.sizes.sent);
            self.claim.held().memory.sent(chain, sent, now);
        }
    }
}

impl Gateway {
    /// The session that a request goes on from.
    pub(super) async fn claim(&self, tenant: &Tenant, incoming: &Incoming<'_>) -> Claim {
        if let Some(interim) = tenant.as_interim()
            && !self.live.has(&incoming.chain)
        {
            let Incoming { transcript, scope, .. } = incoming;
            let chain = interim.identities().chain_within(scope, transcript, &mut Chains::default());
            if let Some(mut claim) = self.live.claim_held(&chain).await {
                claim.session().hand_over(tenant.clone());
                return claim;
            }
        }
        self.live.claim(&incoming.chain, || self.session(tenant)).await
    }

    fn session(&self, tenant: &Tenant) -> Session {
        Session::new(self.settings.session.clone())
            .with_host(Arc::clone(&self.host))
            .with_models(Arc::clone(&self.models))
            .with_store(self.store.clone(), tenant.clone())
    }
}
