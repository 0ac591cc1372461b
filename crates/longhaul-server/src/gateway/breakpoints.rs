//! Sets the cache breakpoints of a request, and finds out which prefixes are long enough to be cached.

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    self, BreakpointOptions, CacheProvider, CachingMode, PieceTokens, PrefixChain, PrefixHash, StablePieces,
};
use longhaul_engine::config::{CacheTtl, Config};
use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::Policy;
use longhaul_engine::wire::{self, CacheLifetime, PromptOrder};
use longhaul_engine::{ApiFormat, Rewrite, Tokens, Transcript};

/// How one upstream caches the requests of one model.
#[derive(Debug, Clone)]
pub(super) struct UpstreamCaching {
    pub(super) mode: CachingMode,
    pub(super) model: Model,
}

/// The outcome of setting breakpoints in a body.
pub(super) struct BreakpointOutcome {
    /// The changed body; none if it stays unchanged.
    pub(super) body: Option<String>,
    /// The hash of each prefix that the provider reads, piece by piece.
    pub(super) chain: PrefixChain,
    /// Whether a prefix is long enough to be cached.
    pub(super) is_cacheable: bool,
}

/// Positions in a body that stay the same while the session grows.
#[derive(Clone, Copy)]
pub(super) struct BreakpointPositions {
    stable_pieces: StablePieces,
    /// The first piece with which the prefix is long enough to be cached.
    first_cacheable: Option<usize>,
    /// The piece up to which a body must be unchanged for these positions to apply; none if the body has no
    /// such piece yet, so that the positions are searched again next time.
    valid_until: Option<(usize, PrefixHash)>,
}

impl BreakpointPositions {
    fn is_valid_for(&self, chain: &PrefixChain) -> bool {
        self.valid_until.is_some_and(|(at, prefix)| chain.links.get(at).is_some_and(|link| link.prefix == prefix))
    }
}

impl UpstreamCaching {
    /// Creates the caching of a model on the upstream with this name. In the Messages format, an unknown
    /// model is treated like the provider's usual model.
    pub(super) fn new(config: &Config, model: &str, upstream: &str, api_format: ApiFormat) -> Option<Self> {
        let provider = CacheProvider::find(upstream);
        let requested_model = models::find(model);
        let fallback_model = provider.and_then(CacheProvider::default_model).filter(|_| requested_model.row.is_none());
        let model = fallback_model.filter(|_| api_format == ApiFormat::Messages).map_or(requested_model, models::find);
        let served_model = provider.map_or_else(|| model.clone(), |provider| model.clone().served_by(provider.name()));
        let (policy, _) = Policy::new(config, &served_model).ok()?;
        let mode = CachingMode::new(&policy.caching, &policy.model, provider, api_format);
        Some(Self { mode, model: policy.model })
    }

    /// Returns the fewest tokens that the provider caches.
    pub(super) fn min_cacheable_tokens(&self) -> Tokens {
        match self.mode {
            CachingMode::Breakpoints { minimum, .. } => minimum,
            CachingMode::CacheKey | CachingMode::Automatic | CachingMode::Off(_) => self.model.facts.cache_minimum,
        }
    }

    /// Returns how long a cached prefix lives. The pace of the session decides if the configuration says
    /// `auto`.
    pub(super) fn lifetime(&self, by_pace: CacheLifetime) -> CacheLifetime {
        match self.mode {
            CachingMode::Breakpoints { ttl: CacheTtl::OneHour, .. } => CacheLifetime::OneHour,
            CachingMode::Breakpoints { ttl: CacheTtl::Auto, .. } => by_pace,
            _ => CacheLifetime::FiveMinutes,
        }
    }

    /// Sets the breakpoints. The body stays unchanged if the client's own are sufficient or the provider
    /// needs none.
    pub(super) fn set_breakpoints(
        &self,
        transcript: &Transcript<'_>,
        by_pace: CacheLifetime,
        known_positions: &mut Option<BreakpointPositions>,
    ) -> Option<BreakpointOutcome> {
        let prompt_order = wire::prompt_order(transcript);
        let chain = PrefixChain::new(&prompt_order);
        let positions = match known_positions.take().filter(|positions| positions.is_valid_for(&chain)) {
            Some(positions) => positions,
            None => self.find_positions(transcript, &prompt_order, &chain),
        };
        let BreakpointPositions { stable_pieces, first_cacheable, .. } = *known_positions.insert(positions);
        let edits = match self.mode {
            CachingMode::Breakpoints { carrier, strategy, .. } => {
                let options =
                    BreakpointOptions { strategy, lifetime: self.lifetime(by_pace), carrier, first_cacheable };
                let breakpoints = cache::place_breakpoints(&stable_pieces, &prompt_order, &options);
                cache::breakpoint_edits(transcript.body, &prompt_order, &breakpoints)
            }
            CachingMode::CacheKey => {
                let key = cache::session_cache_key(&chain);
                key.and_then(|key| cache::set_cache_key_edit(&prompt_order, &key)).into_iter().collect()
            }
            CachingMode::Automatic | CachingMode::Off(_) => Vec::new(),
        };
        let body =
            if edits.is_empty() { None } else { Some(Rewrite::new(transcript, edits).ok()?.apply(transcript.body)) };
        Some(BreakpointOutcome { body, chain, is_cacheable: first_cacheable.is_some() })
    }

    fn find_positions(
        &self,
        transcript: &Transcript<'_>,
        prompt_order: &PromptOrder,
        chain: &PrefixChain,
    ) -> BreakpointPositions {
        let piece_tokens = PieceTokens::new(transcript, prompt_order, &self.model);
        let first_cacheable =
            piece_tokens.first_piece_reaching(&mut BlockCache::default(), self.min_cacheable_tokens());
        let stable_pieces = StablePieces::find(transcript, prompt_order);
        let last_needed_piece = stable_pieces.last_piece().max(first_cacheable.unwrap_or(usize::MAX));
        let valid_until = chain.links.get(last_needed_piece).map(|link| (last_needed_piece, link.prefix));
        BreakpointPositions { stable_pieces, first_cacheable, valid_until }
    }
}
