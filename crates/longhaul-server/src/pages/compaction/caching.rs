//! The cache breakpoints of a request, and the point from which on the provider has nothing cached.

use longhaul_engine::Tokens;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    self, Breakpoint, BreakpointOptions, BreakpointOwner, CachingMode, PieceTokens, StablePieces,
};
use longhaul_engine::models::Model;
use longhaul_engine::policy::CacheTtl;
use longhaul_engine::wire::{CacheLifetime, PromptPart};

use super::side::ParsedSide;

/// The provider's cache before and after a compaction.
#[derive(Debug, Clone, Default)]
pub struct CacheView {
    /// The way in which a prefix gets into the cache, as a sentence.
    pub status: String,
    /// The breakpoints before the compaction.
    pub before: Vec<BreakpointRow>,
    /// The breakpoints after the compaction.
    pub after: Vec<BreakpointRow>,
    /// The first message after the compaction that is not cached; none if nothing changed.
    pub first_uncached_message: Option<usize>,
}

/// One cache breakpoint: the end of a prefix that the provider stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakpointRow {
    /// The place of the breakpoint, in words.
    pub location: String,
    /// The index of its message; none if it is not in a message.
    pub message: Option<usize>,
    /// The tokens of the prefix up to the breakpoint.
    pub tokens: Tokens,
    /// Whether the client set it; otherwise the gateway would set it.
    pub is_set_by_client: bool,
    /// The lifetime of the prefix, in words.
    pub lifetime: &'static str,
}

/// Lists the breakpoints of a request: those of the client, and those that the gateway would set in this
/// caching mode.
pub(super) fn list_breakpoints(
    side: &ParsedSide<'_>,
    mode: &CachingMode,
    model: &Model,
    cache: &mut BlockCache,
) -> Vec<BreakpointRow> {
    let prompt_order = &side.prompt_order;
    let prefix_tokens = PieceTokens::new(&side.transcript, prompt_order, model).prefix_sums(cache);
    let breakpoints: Vec<Breakpoint> = match *mode {
        CachingMode::Breakpoints { carrier, strategy, ttl, minimum } => {
            let lifetime = if ttl == CacheTtl::OneHour { CacheLifetime::OneHour } else { CacheLifetime::FiveMinutes };
            let first_cacheable = prefix_tokens.iter().position(|size| *size >= minimum);
            let options = BreakpointOptions { strategy, lifetime, carrier, first_cacheable };
            cache::place_breakpoints(&StablePieces::find(&side.transcript, prompt_order), prompt_order, &options)
        }
        CachingMode::CacheKey | CachingMode::Automatic | CachingMode::Off(_) => {
            prompt_order.breakpoints.iter().map(Breakpoint::from).collect()
        }
    };
    let row = |breakpoint: &Breakpoint| {
        let piece = breakpoint.piece.and_then(|at| prompt_order.pieces.get(at));
        let message = piece.filter(|piece| piece.part == PromptPart::Messages).and_then(|piece| piece.message);
        let location = match (piece.map(|piece| piece.part), message) {
            (Some(PromptPart::Tools), _) => "the tool definitions".to_owned(),
            (Some(PromptPart::System), _) => "the system prompt".to_owned(),
            (_, Some(message)) => format!("message {message}"),
            _ => "the end of the messages".to_owned(),
        };
        let total = prefix_tokens.last().copied().unwrap_or_default();
        BreakpointRow {
            location,
            message: message.map(|message| message as usize),
            tokens: breakpoint.piece.and_then(|at| prefix_tokens.get(at)).copied().unwrap_or(total),
            is_set_by_client: breakpoint.owner == BreakpointOwner::Client,
            lifetime: match breakpoint.lifetime {
                CacheLifetime::FiveMinutes => "5 min",
                CacheLifetime::OneHour => "1 h",
            },
        }
    };
    breakpoints.iter().map(row).collect()
}
