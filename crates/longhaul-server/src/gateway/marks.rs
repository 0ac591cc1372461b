//! Cache marks, and whether what the provider has cached will be found again.

use longhaul_engine::cache::{self, Chain, Landmarks, Marking, Prefix, Provider, Route, Weights};
use longhaul_engine::config::{CacheTtl, Config};
use longhaul_engine::known::Known;
use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::Policy;
use longhaul_engine::wire::{self, Lifetime, Reading};
use longhaul_engine::{Dialect, Rewrite, Tokens, Transcript};

/// How the requests of one model get into the cache of one upstream.
#[derive(Debug, Clone)]
pub(super) struct Caching {
    pub(super) route: Route,
    pub(super) model: Model,
}

/// A body with its marks.
pub(super) struct Marked {
    /// The body; nothing where it stays as it is.
    pub(super) body: Option<String>,
    /// What the provider reads, piece by piece.
    pub(super) chain: Chain,
    /// Whether there is anything long enough to be cached.
    pub(super) reaches: bool,
}

/// What was found in a body that does not move while it grows.
#[derive(Clone, Copy)]
pub(super) struct Found {
    landmarks: Landmarks,
    /// The first piece with which the prefix is long enough.
    first: Option<usize>,
    /// The piece up to which all must be the same; nothing where that is more than there was.
    until: Option<(usize, Prefix)>,
}

impl Found {
    fn holds_for(&self, chain: &Chain) -> bool {
        self.until.is_some_and(|(at, prefix)| chain.links.get(at).is_some_and(|link| link.prefix == prefix))
    }
}

impl Caching {
    /// For a model as it is served by an upstream of this name. A model that nobody knows is taken to be one of those that the
    /// provider serves.
    pub(super) fn of(config: &Config, model: &str, upstream: &str, dialect: Dialect) -> Option<Self> {
        let provider = Provider::named(upstream);
        let named = models::find(model);
        let usual = provider.and_then(Provider::usual_model).filter(|_| named.row.is_none());
        let known = usual.filter(|_| dialect == Dialect::Messages).map_or(named, models::find);
        let served =
            provider.map_or_else(|| known.clone(), |provider| known.clone().served_by(provider.name()));
        let (policy, _) = Policy::new(config, &served).ok()?;
        let route = Route::new(&policy.caching, &policy.model, provider, dialect);
        Some(Self { route, model: policy.model })
    }

    /// The fewest tokens that are cached.
    pub(super) fn minimum(&self) -> Tokens {
        match self.route {
            Route::Marks { minimum, .. } => minimum,
            Route::Key | Route::Automatic | Route::Off(_) => self.model.facts.cache_minimum,
        }
    }

    /// How long what is marked lives, where the pace of the session would have it so.
    pub(super) fn lifetime(&self, by_pace: Lifetime) -> Lifetime {
        match self.route {
            Route::Marks { ttl: CacheTtl::OneHour, .. } => Lifetime::OneHour,
            Route::Marks { ttl: CacheTtl::Auto, .. } => by_pace,
            _ => Lifetime::FiveMinutes,
        }
    }

    /// Sets the marks. Where a client's own are enough, or the provider needs none, the body stays as it is.
    pub(super) fn mark(
        &self,
        transcript: &Transcript<'_>,
        by_pace: Lifetime,
        found: &mut Option<Found>,
    ) -> Option<Marked> {
        let reading = wire::reading(transcript);
        let chain = Chain::of(&reading);
        let places = match found.take().filter(|found| found.holds_for(&chain)) {
            Some(same) => same,
            None => self.look(transcript, &reading, &chain),
        };
        let Found { landmarks, first, .. } = *found.insert(places);
        let edits = match self.route {
            Route::Marks { carrier, strategy, .. } => {
                let marking = Marking { strategy, lifetime: self.lifetime(by_pace), carrier, first };
                let marks = cache::marks(&landmarks, &reading, &marking);
                cache::edits(transcript.body, &reading, &marks)
            }
            Route::Key => {
                let key = cache::session_key(&chain);
                key.and_then(|key| cache::cache_key(&reading, &key)).into_iter().collect()
            }
            Route::Automatic | Route::Off(_) => Vec::new(),
        };
        let body = if edits.is_empty() {
            None
        } else {
            Some(Rewrite::new(transcript, edits).ok()?.apply(transcript.body))
        };
        Some(Marked { body, chain, reaches: first.is_some() })
    }

    fn look(&self, transcript: &Transcript<'_>, reading: &Reading, chain: &Chain) -> Found {
        let weights = Weights::new(transcript, reading, &self.model);
        let first = weights.first_reaching(&mut Known::default(), self.minimum());
        let landmarks = Landmarks::of(transcript, reading);
        let reach = landmarks.reach().max(first.unwrap_or(usize::MAX));
        let until = chain.links.get(reach).map(|link| (reach, link.prefix));
        Found { landmarks, first, until }
    }
}
