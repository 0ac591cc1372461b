//! What the gateway remembers about a session: the last request, and so what the provider should still have
//! cached.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::cache::{PrefixChain, PrefixChange, compare_chains};
use longhaul_engine::prices::Usage;
use longhaul_engine::wire::PromptPart;

use super::baseline::Baseline;
use super::breakpoints::{BreakpointPositions, UpstreamCaching};
use super::cache_keep_alive::RepeatableRequest;
use super::recall_loop::HiddenToolTurns;
use longhaul_engine::Timestamp;

/// The smallest share of the previous request's tokens that a provider with an intact cache is expected to
/// read from it. Less is a miss. Chosen by hand.
const MIN_CACHE_READ_SHARE: f64 = 0.5;

/// The gateway's memory of one session.
#[derive(Default)]
pub(super) struct SessionMemory {
    /// How requests are cached, with the model and the upstream that this applies to.
    pub(super) caching: Option<(String, String, UpstreamCaching)>,
    /// The breakpoint positions of the last request.
    pub(super) breakpoint_positions: Option<BreakpointPositions>,
    /// Whether requests omit our breakpoints, because the provider refused one that had them.
    pub(super) omits_breakpoints: bool,
    /// The recall calls and results that the client does not see.
    pub(super) hidden_turns: HiddenToolTurns,
    /// Whether requests omit the recall tools, because the provider refused one that had them.
    pub(super) omits_tools: bool,
    /// The modelled cost of the same client without Longhaul.
    pub(super) baseline: Baseline,
    last_request: Option<PreviousRequest>,
    request_count: usize,
    /// The newest request, if it may be repeated to refresh the cache.
    repeatable: Option<RepeatableRequest>,
}

/// The request that was sent last.
struct PreviousRequest {
    chain: PrefixChain,
    sent_at: Timestamp,
    /// The tokens of the request, by the provider's count if it is known.
    tokens: Tokens,
}

/// The prediction of what the provider's cache contains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum CacheExpectation {
    /// The first request of a session: nothing is cached yet.
    #[default]
    First,
    /// All of the previous request is cached.
    Cached,
    /// Some of the previous request is not cached, for this reason.
    Miss(CacheMiss),
}

/// The reason why a provider did not read a prefix from its cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CacheMiss {
    /// The client changed a part of the request.
    Changed { what: &'static str, message: Option<u32>, compared_with: usize },
    /// Longhaul compacted the history.
    Compacted,
    /// The cache expired after a pause of this length. With caching off its lifetime is zero, so that this is
    /// reported too.
    Expired { after: Duration },
    /// The prefix is shorter than the provider's minimum.
    BelowMinimum { minimum: Tokens },
    /// The prefix should have been cached, but the provider read less.
    Lost { read: Tokens, of: Tokens },
}

impl CacheMiss {
    /// Returns the label in the metrics.
    pub(super) fn metric_label(&self) -> &'static str {
        match self {
            Self::Changed { .. } => "changed",
            Self::Compacted => "compacted",
            Self::Expired { .. } => "expired",
            Self::BelowMinimum { .. } => "below_minimum",
            Self::Lost { .. } => "lost",
        }
    }
}

impl fmt::Display for CacheMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { what, message: Some(message), compared_with: since } => {
                write!(f, "changed: {what} of message {message} differs from request {since}")
            }
            Self::Changed { what, message: None, compared_with: since } => {
                write!(f, "changed: {what} differs from request {since}")
            }
            Self::Compacted => f.write_str("compacted: this request was compacted"),
            Self::Expired { after } => write!(f, "expired: the last request was {} s ago", after.as_secs()),
            Self::BelowMinimum { minimum } => {
                write!(f, "below_minimum: prefixes under {minimum} tokens are not cached")
            }
            Self::Lost { read, of } => {
                write!(f, "lost: the provider read {read} of the {of} tokens that it had been sent before")
            }
        }
    }
}

impl CacheExpectation {
    /// Returns the prediction for a request that was compacted: a change is then our own.
    pub(super) fn after_compaction(self) -> Self {
        match self {
            Self::Miss(CacheMiss::Changed { .. }) => Self::Miss(CacheMiss::Compacted),
            other => other,
        }
    }
}

impl fmt::Display for CacheExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::Cached => f.write_str("cached"),
            Self::Miss(miss) => write!(f, "miss: {miss}"),
        }
    }
}

/// The request that is about to be sent.
pub(super) struct NextRequest<'c> {
    pub(super) chain: &'c PrefixChain,
    /// The time for which a prefix stays cached; zero if nothing is cached.
    pub(super) cache_lifetime: Duration,
    /// The provider's minimum of tokens, if the request does not reach it.
    pub(super) unreached_minimum: Option<Tokens>,
}

impl SessionMemory {
    /// Predicts what the provider has cached of the next request.
    pub(super) fn predict_cache(&self, next: &NextRequest<'_>, now: Timestamp) -> CacheExpectation {
        let Some(last) = &self.last_request else { return CacheExpectation::First };
        if let Some(minimum) = next.unreached_minimum {
            return CacheExpectation::Miss(CacheMiss::BelowMinimum { minimum });
        }
        if let Some(difference) = compare_chains(&last.chain, next.chain) {
            let what = match (difference.change, difference.part) {
                (PrefixChange::Model, _) => "the model",
                (PrefixChange::ToolChoice, _) => "tool_choice",
                (PrefixChange::Thinking, _) => "thinking",
                (_, PromptPart::Tools) => "a tool",
                (_, PromptPart::System) => "the system prompt",
                (_, PromptPart::Messages) => "the text",
            };
            let message = difference.message.filter(|_| difference.part == PromptPart::Messages);
            return CacheExpectation::Miss(CacheMiss::Changed { what, message, compared_with: self.request_count });
        }
        let pause = Duration::from_millis(now.0.saturating_sub(last.sent_at.0).max(0).cast_unsigned());
        if pause > next.cache_lifetime {
            return CacheExpectation::Miss(CacheMiss::Expired { after: pause });
        }
        CacheExpectation::Cached
    }

    /// Keeps the newest request, so that it can be repeated.
    pub(super) fn set_repeatable(&mut self, request: RepeatableRequest) {
        self.repeatable = Some(request);
    }

    /// Returns the request that can be repeated.
    pub(super) fn repeatable(&self) -> Option<&RepeatableRequest> {
        self.repeatable.as_ref()
    }

    /// Records that the request was repeated, unless the session has sent another one since.
    pub(super) fn record_refresh(&mut self, repeated: &RepeatableRequest, now: Timestamp) {
        if let Some(repeatable) = self.repeatable.as_mut().filter(|repeatable| repeatable.is_same(repeated)) {
            repeatable.sent_at = now;
            if let Some(last) = &mut self.last_request {
                last.sent_at = now;
            }
        }
    }

    /// Records that the provider accepted a request.
    pub(super) fn record_accepted(&mut self, chain: PrefixChain, tokens: Tokens, now: Timestamp) {
        self.request_count += 1;
        self.last_request = Some(PreviousRequest { chain, sent_at: now, tokens });
    }

    /// Returns the token count of the last request, for [`SessionMemory::record_usage_and_explain_miss`].
    pub(super) fn last_token_count(&self) -> Tokens {
        self.last_request.as_ref().map_or(Tokens::ZERO, |last| last.tokens)
    }

    /// Records the provider's token count. Returns the expected miss or, if none was expected, a miss that
    /// the usage shows.
    pub(super) fn record_usage_and_explain_miss(
        &mut self,
        expected: &CacheExpectation,
        previous_tokens: Tokens,
        usage: &Usage,
    ) -> Option<CacheMiss> {
        if let (Some(last), Some(input)) = (&mut self.last_request, usage.input) {
            last.tokens = input;
        }
        match expected {
            CacheExpectation::First => None,
            CacheExpectation::Miss(miss) => Some(miss.clone()),
            CacheExpectation::Cached => {
                let read = usage.read?;
                (read < previous_tokens.share(MIN_CACHE_READ_SHARE))
                    .then_some(CacheMiss::Lost { read, of: previous_tokens })
            }
        }
    }
}
