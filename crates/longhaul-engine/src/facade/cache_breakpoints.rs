//! Cache breakpoints for one request.

use crate::block_cache::BlockCache;
use crate::cache::{self, BreakpointCarrier, BreakpointOptions, CachingMode, PieceTokens, PrefixChain, StablePieces};
use crate::config::CacheTtl;
use crate::policy::Policy;
use crate::rewrite::{Rewrite, RewriteError};
use crate::transcript::Transcript;
use crate::wire::{self, CacheLifetime};

/// Sets the breakpoints, or the cache key, with which the provider caches the longest stable prefix. Returns
/// the request unchanged if the provider needs nothing.
pub(super) fn set(
    policy: &Policy,
    block_cache: &mut BlockCache,
    transcript: &Transcript<'_>,
) -> Result<String, RewriteError> {
    let order = wire::prompt_order(transcript);
    let edits = match CachingMode::new(&policy.caching, &policy.model, None, transcript.api_format) {
        CachingMode::Breakpoints { carrier, strategy, ttl, minimum } => {
            let lifetime = match ttl {
                CacheTtl::OneHour => CacheLifetime::OneHour,
                CacheTtl::FiveMinutes | CacheTtl::Auto => CacheLifetime::FiveMinutes,
            };
            // If the API format is uncertain, write only the form that both candidates understand.
            let carrier = if transcript.is_api_format_certain { carrier } else { BreakpointCarrier::Content };
            let tokens = PieceTokens::new(transcript, &order, &policy.model);
            let first_cacheable = tokens.first_piece_reaching(block_cache, minimum);
            let options = BreakpointOptions { strategy, lifetime, carrier, first_cacheable };
            let breakpoints = cache::place_breakpoints(&StablePieces::find(transcript, &order), &order, &options);
            cache::breakpoint_edits(transcript.body, &order, &breakpoints)
        }
        CachingMode::CacheKey => {
            let key = cache::session_cache_key(&PrefixChain::new(&order));
            key.and_then(|key| cache::set_cache_key_edit(&order, &key)).into_iter().collect()
        }
        CachingMode::Automatic | CachingMode::Off(_) => Vec::new(),
    };
    Ok(Rewrite::new(transcript, edits)?.apply(transcript.body))
}
