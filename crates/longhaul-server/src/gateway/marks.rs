//! Cache marks, and whether what the provider has cached will be found again.

use longhaul_engine::cache::{self, Chain, Landmarks, Marking, Provider, Route, Weights};
use longhaul_engine::config::{CacheTtl, Config};
use longhaul_engine::known::Known;
use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::Policy;
use longhaul_engine::wire::{self, Lifetime};
use longhaul_engine::{Dialect, Rewrite, Tokens};

/// How the requests of one model get into the cache of one upstream.
#[derive(Debug, Clone)]
pub(super) struct Caching {
    pub(super) route: Route,
    model: Model,
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

    /// Sets the marks. Where a client's own are enough, or the provider needs none, the body stays as it is.
    pub(super) fn mark(
        &self,
        dialect: Dialect,
        body: &str,
        by_pace: Lifetime,
        known: &mut Known,
    ) -> Option<Marked> {
        let (transcript, _) = wire::parse(dialect, body).ok()?;
        let reading = wire::reading(&transcript);
        let chain = Chain::of(&reading);
        let first = Weights::new(&transcript, &reading, &self.model).first_reaching(known, self.minimum());
        let edits = match self.route {
            Route::Marks { carrier, strategy, ttl, .. } => {
                let lifetime = match ttl {
                    CacheTtl::FiveMinutes => Lifetime::FiveMinutes,
                    CacheTtl::OneHour => Lifetime::OneHour,
                    CacheTtl::Auto => by_pace,
                };
                let marking = Marking { strategy, lifetime, carrier, first };
                let marks = cache::marks(&Landmarks::of(&transcript, &reading), &reading, &marking);
                cache::edits(body, &reading, &marks)
            }
            Route::Key => {
                let key = cache::session_key(&chain);
                key.and_then(|key| cache::cache_key(&reading, &key)).into_iter().collect()
            }
            Route::Automatic | Route::Off(_) => Vec::new(),
        };
        let body =
            if edits.is_empty() { None } else { Some(Rewrite::new(&transcript, edits).ok()?.apply(body)) };
        Some(Marked { body, chain, reaches: first.is_some() })
    }
}
