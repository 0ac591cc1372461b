//! A request on its way out: its session found, what was decided replayed, what is due done, its cache marks set. All of it is work for
//! threads that may block, and none of it can fail: what goes wrong is a reason to send the original.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use longhaul_engine::cache::{Chain, FIVE_MINUTES, ONE_HOUR, Route};
use longhaul_engine::identity::Identity;
use longhaul_engine::policy::Policy;
use longhaul_engine::wire::{self, Lifetime};
use longhaul_engine::{Dialect, Tokens, Transcript};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Gateway;
use super::aside::{self, Asides};
use super::commands::{self, Asked};
use super::live::{Claim, Held};
use super::marks::Caching;
use super::memory::{Expected, Memory, Next};
use super::settings::Recall;
use crate::session::{Action, Incoming, Session, Sizes, replay};
use crate::store::{Action as TrafficAction, Tenant};

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
    /// What the provider had counted of the request before this one.
    pub(super) before: Tokens,
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

    /// Makes it ready, in the time there is for it.
    pub(super) async fn run(self: &Arc<Self>, claim: Option<Claim>) -> Prepared {
        let prepared = self.at_work(|job| async move { job.prepare(claim).await }).await;
        prepared.unwrap_or_else(Prepared::Bypass)
    }

    /// Does something on a thread that may block, in the time there is for it. The error says why it was not done.
    pub(super) async fn at_work<T, F>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>) -> F + Send + 'static,
    ) -> Result<T, &'static str>
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let gateway = &self.gateway;
        let limit = gateway.settings.limits.deadline + gateway.settings.session.max_wait;
        let Ok(room) = timeout(limit, Arc::clone(&gateway.workers).acquire_owned()).await else {
            return Err("busy");
        };
        let (job, runtime) = (Arc::clone(self), Handle::current());
        let work = tokio::task::spawn_blocking(move || {
            let done = runtime.block_on(work(job));
            drop(room);
            done
        });
        match timeout(limit, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err("engine"),
            Err(_) => Err("deadline"),
        }
    }

    async fn prepare(&self, claim: Option<Claim>) -> Prepared {
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
        let Held { session, memory } = claim.held();
        let before = memory.counted();
        let beside = |asides: &Asides| aside::tools_tokens(*dialect) + asides.tokens(&incoming.chain);
        let wants_tools = self.wants_tools(session, memory);
        session.beside(if wants_tools { beside(&memory.asides) } else { Tokens::ZERO });
        let mut touched = Touched::default();
        let mut touch = |session: &Session, sent: &Transcript<'_>, policy: &Policy| {
            touched = self.touch(session, memory, sent, policy, &incoming);
            touched.body.take()
        };
        let turn = session.before_read(&incoming, now, &mut touch).await;
        let Held { session, memory } = claim.held();
        session.went_beside(if touched.has_tools { beside(&memory.asides) } else { Tokens::ZERO });
        for line in &turn.said {
            tracing::info!(session = claim.session().name(), "{line}");
        }
        gateway.live.ends_with(&claim, incoming.chain.last());
        let action = match turn.action {
            Action::None if !claim.session().is_recorded() => TrafficAction::Bypassed("store".to_owned()),
            Action::None if turn.measured.is_none() => TrafficAction::Bypassed("engine".to_owned()),
            Action::None => TrafficAction::None,
            Action::Replayed => TrafficAction::Replayed,
            Action::Compacted => TrafficAction::Compacted,
        };
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
            before,
            chain,
        }))
    }

    /// What the decisions so far make of it; nothing where that is the body itself.
    pub(super) async fn replayed(&self) -> Option<String> {
        let text = self.text();
        let is_on = self.gateway.settings.commands.is_on();
        let stripped = is_on.then(|| commands::find(self.dialect, text)).flatten().map(|found| found.body);
        let incoming = self.read(stripped.as_deref().unwrap_or(text)).ok()?;
        let Incoming { transcript, chain } = &incoming;
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
        let dressed = wants_tools.then(|| aside::dressed(sent, &incoming.chain, &memory.asides)).flatten();
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
        is_wanted
            && !memory.is_untooled
            && session.is_recorded()
            && session.id().is_some()
            && session.policy().is_some_and(has_room)
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
        self.live.claim(&incoming.chain, || self.session(tenant)).await
    }

    fn session(&self, tenant: &Tenant) -> Session {
        Session::new(self.settings.session.clone())
            .with_host(Arc::clone(&self.host))
            .with_models(Arc::clone(&self.models))
            .with_store(self.store.clone(), tenant.clone())
    }
}
