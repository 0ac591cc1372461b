//! What the gateway remembers of a session: what it sent last, and so what the provider should still have of it.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::cache::{Chain, Change, compare};
use longhaul_engine::prices::Usage;
use longhaul_engine::wire::Part;

use super::aside::Asides;
use super::baseline::Baseline;
use super::keep_alive::Warm;
use super::marks::{Caching, Found};
use crate::agents::Moment;

/// What a provider reads of a request that goes on from the last one is at least this share of what it could.
const ENOUGH: f64 = 0.5;

/// What is remembered.
#[derive(Default)]
pub(super) struct Memory {
    /// How requests get into the cache, with the model and the upstream that this holds for.
    pub(super) caching: Option<(String, String, Caching)>,
    /// What was found of its marks.
    pub(super) places: Option<Found>,
    /// Whether requests go without marks, because the provider did not take them with some.
    pub(super) is_unmarked: bool,
    /// What was said aside from the client.
    pub(super) asides: Asides,
    /// Whether requests go without our tools, because the provider did not take them with some.
    pub(super) is_untooled: bool,
    /// The same client without us.
    pub(super) baseline: Baseline,
    last: Option<Last>,
    requests: usize,
    /// The newest request, where it may be made again to keep the cache warm.
    warm: Option<Warm>,
}

/// The request that was sent last.
struct Last {
    chain: Chain,
    at: Moment,
    /// What it came to, by the provider's count where that is known.
    tokens: Tokens,
}

/// What is to be expected of the provider's cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Expected {
    /// The first request: nothing is there yet.
    #[default]
    First,
    /// All that was sent before is found again.
    Warm,
    /// Not all of it, for this reason.
    Miss(Miss),
}

/// Why something that was cached is not found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Miss {
    /// Something else is said at some place.
    Changed { what: &'static str, message: Option<u32>, since: usize },
    /// We changed it ourselves, to make room.
    Compacted,
    /// It was kept for so long only.
    Lapsed { after: Duration },
    /// Shorter prefixes are not cached.
    TooShort { minimum: Tokens },
    /// All was as it should be, and the provider read less.
    Lost { read: Tokens, of: Tokens },
}

impl Miss {
    /// A word for it, out of a few.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Changed { .. } => "changed",
            Self::Compacted => "compacted",
            Self::Lapsed { .. } => "lapsed",
            Self::TooShort { .. } => "short",
            Self::Lost { .. } => "lost",
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { what, message: Some(message), since } => {
                write!(f, "changed: {what} of message {message} differs from request {since}")
            }
            Self::Changed { what, message: None, since } => {
                write!(f, "changed: {what} differs from request {since}")
            }
            Self::Compacted => {
                f.write_str("compacted: what was sent before was made smaller with this request")
            }
            Self::Lapsed { after } => write!(f, "lapsed: the last request was {} s ago", after.as_secs()),
            Self::TooShort { minimum } => write!(f, "short: prefixes are cached from {minimum} tokens on"),
            Self::Lost { read, of } => {
                write!(f, "lost: the provider read {read} of {of} tokens that it was sent before")
            }
        }
    }
}

impl Expected {
    /// The same of a request that was compacted: what differs is our own doing.
    pub(super) fn once_compacted(self) -> Self {
        match self {
            Self::Miss(Miss::Changed { .. }) => Self::Miss(Miss::Compacted),
            other => other,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::Warm => f.write_str("warm"),
            Self::Miss(miss) => write!(f, "miss: {miss}"),
        }
    }
}

/// What is about to be sent.
pub(super) struct Next<'c> {
    pub(super) chain: &'c Chain,
    /// For how long a prefix is kept; nothing where none is.
    pub(super) lives: Duration,
    /// The fewest tokens that are cached; nothing where the request has as many.
    pub(super) too_short: Option<Tokens>,
}

impl Memory {
    /// What the provider should have of a request that is about to be sent.
    pub(super) fn expect(&self, next: &Next<'_>, now: Moment) -> Expected {
        let Some(last) = &self.last else { return Expected::First };
        if let Some(minimum) = next.too_short {
            return Expected::Miss(Miss::TooShort { minimum });
        }
        if let Some(difference) = compare(&last.chain, next.chain) {
            let what = match (difference.change, difference.part) {
                (Change::Model, _) => "the model",
                (Change::ToolChoice, _) => "tool_choice",
                (Change::Thinking, _) => "thinking",
                (_, Part::Tools) => "a tool",
                (_, Part::System) => "the system prompt",
                (_, Part::Messages) => "the text",
            };
            let message = difference.message.filter(|_| difference.part == Part::Messages);
            return Expected::Miss(Miss::Changed { what, message, since: self.requests });
        }
        let pause = Duration::from_millis(now.0.saturating_sub(last.at.0).max(0).cast_unsigned());
        if pause > next.lives {
            return Expected::Miss(Miss::Lapsed { after: pause });
        }
        Expected::Warm
    }

    /// The newest request can be made again.
    pub(super) fn can_repeat(&mut self, warm: Warm) {
        self.warm = Some(warm);
    }

    /// The request that can be made again.
    pub(super) fn warm(&self) -> Option<&Warm> {
        self.warm.as_ref()
    }

    /// It was, unless another came meanwhile.
    pub(super) fn kept_warm(&mut self, repeated: &Warm, now: Moment) {
        if let Some(warm) = self.warm.as_mut().filter(|warm| warm.is(repeated)) {
            warm.at = now;
            if let Some(last) = &mut self.last {
                last.at = now;
            }
        }
    }

    /// A request was sent.
    pub(super) fn sent(&mut self, chain: Chain, tokens: Tokens, now: Moment) {
        self.requests += 1;
        self.last = Some(Last { chain, at: now, tokens });
    }

    /// What the provider had counted of the request before, for [`Memory::missed`].
    pub(super) fn counted(&self) -> Tokens {
        self.last.as_ref().map_or(Tokens::ZERO, |last| last.tokens)
    }

    /// The provider counted what was sent. Why it read less than it had, where it did.
    pub(super) fn missed(&mut self, expected: &Expected, before: Tokens, usage: &Usage) -> Option<Miss> {
        if let (Some(last), Some(input)) = (&mut self.last, usage.input) {
            last.tokens = input;
        }
        match expected {
            Expected::First => None,
            Expected::Miss(miss) => Some(miss.clone()),
            Expected::Warm => {
                let read = usage.read?;
                (read < before.share(ENOUGH)).then_some(Miss::Lost { read, of: before })
            }
        }
    }
}
