//! The errors of a call to an upstream, sorted by what can be done about them.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::redact::Redacted;

/// The reason why a call has no reply. The upstream's words in it are redacted and on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamError {
    /// The input is longer than the model's context window.
    TooLong {
        /// The maximum that the model accepts, if it was reported.
        maximum: Option<Tokens>,
        /// The size of the input by the provider's count, if it was reported.
        sent: Option<Tokens>,
    },
    /// The request is larger than the provider accepts, in bytes or for this account. It says nothing about
    /// the window.
    TooLarge(Redacted),
    /// There were too many requests or tokens in some time.
    RateLimited {
        /// The delay that the provider asks for, if it gives one.
        delay: Option<Duration>,
    },
    /// The provider cannot answer now.
    Overloaded {
        /// The delay that the provider asks for, if it gives one.
        delay: Option<Duration>,
    },
    /// The key, the account, the model or the address is not accepted. A retry does not help.
    Refused(Redacted),
    /// The request is malformed.
    BadRequest(Redacted),
    /// A timeout passed.
    TimedOut(TimeoutStage),
    /// No connection could be made.
    Unreachable(Redacted),
    /// The reply broke off.
    CutShort,
    /// The response is no reply in the expected API format.
    Garbled(Redacted),
    /// The upstream redirects to another address. The client does not follow, because the key is for this
    /// one.
    Redirected(Redacted),
}

/// The part of a call that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeoutStage {
    /// Making the connection.
    Connect,
    /// Waiting for the first byte of the reply.
    FirstByte,
    /// Waiting for the next piece of the reply.
    Idle,
    /// The whole call.
    Total,
}

/// The action that an error suggests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecommendedAction {
    /// Send less.
    Compress,
    /// Send the same later.
    Wait,
    /// Send the same to another model or upstream.
    AnotherModel,
    /// Do nothing more, because nothing helps.
    GiveUp,
}

impl UpstreamError {
    /// Returns the action that the error suggests.
    #[must_use]
    pub fn recommended_action(&self) -> RecommendedAction {
        match self {
            Self::TooLong { .. } | Self::TooLarge(_) => RecommendedAction::Compress,
            Self::RateLimited { .. } | Self::Overloaded { .. } => RecommendedAction::Wait,
            Self::Refused(_)
            | Self::TimedOut(_)
            | Self::Unreachable(_)
            | Self::CutShort
            | Self::Garbled(_)
            | Self::Redirected(_) => RecommendedAction::AnotherModel,
            Self::BadRequest(_) => RecommendedAction::GiveUp,
        }
    }

    /// Replaces a secret in the upstream's words by `[key]`, because an upstream may quote what it was sent.
    #[must_use]
    pub fn redacting(self, secret: &str) -> Self {
        let hide = |detail: Redacted| detail.replace_with_literal(secret, "[key]");
        match self {
            Self::TooLarge(detail) => Self::TooLarge(hide(detail)),
            Self::Refused(detail) => Self::Refused(hide(detail)),
            Self::BadRequest(detail) => Self::BadRequest(hide(detail)),
            Self::Unreachable(detail) => Self::Unreachable(hide(detail)),
            Self::Garbled(detail) => Self::Garbled(hide(detail)),
            Self::Redirected(detail) => Self::Redirected(hide(detail)),
            Self::TooLong { .. }
            | Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::TimedOut(_)
            | Self::CutShort => self,
        }
    }

    /// Returns the delay that the provider asks for.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { delay } | Self::Overloaded { delay } => *delay,
            _ => None,
        }
    }
}

impl TimeoutStage {
    fn description(self) -> &'static str {
        match self {
            Self::Connect => "no connection in time",
            Self::FirstByte => "no answer in time",
            Self::Idle => "the reply paused for too long",
            Self::Total => "the reply took longer than the total time limit",
        }
    }
}

/// Formats the error as one line for people.
impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { maximum: Some(maximum), sent: Some(sent) } => {
                write!(f, "the input is too long for the model: {sent} tokens, {maximum} at most")
            }
            Self::TooLong { maximum: Some(maximum), sent: None } => {
                write!(f, "the input is too long for the model: {maximum} tokens at most")
            }
            Self::TooLong { maximum: None, sent: Some(sent) } => {
                write!(f, "the input is too long for the model: {sent} tokens")
            }
            Self::TooLong { maximum: None, sent: None } => f.write_str("the input is too long for the model"),
            Self::TooLarge(detail) => write_with_detail(f, "the request is too large", detail),
            Self::RateLimited { delay } => write_with_delay(f, "the rate limit is reached", *delay),
            Self::Overloaded { delay } => write_with_delay(f, "the provider is overloaded", *delay),
            Self::Refused(detail) => write_with_detail(f, "the provider denied access", detail),
            Self::BadRequest(detail) => write_with_detail(f, "the provider rejected the request", detail),
            Self::TimedOut(stage) => f.write_str(stage.description()),
            Self::Unreachable(detail) => write_with_detail(f, "the provider cannot be reached", detail),
            Self::CutShort => f.write_str("the reply broke off"),
            Self::Garbled(detail) => write_with_detail(f, "the response is not a valid reply", detail),
            Self::Redirected(detail) => write_with_detail(
                f,
                "the provider redirects to another address, and the key is not sent there; set base_url",
                detail,
            ),
        }
    }
}

fn write_with_detail(f: &mut fmt::Formatter<'_>, text: &str, detail: &Redacted) -> fmt::Result {
    f.write_str(text)?;
    if detail.as_str().is_empty() { Ok(()) } else { write!(f, ": {detail}") }
}

fn write_with_delay(f: &mut fmt::Formatter<'_>, text: &str, delay: Option<Duration>) -> fmt::Result {
    f.write_str(text)?;
    delay.map_or(Ok(()), |delay| write!(f, "; retry after {:.1} s", delay.as_secs_f64()))
}

impl std::error::Error for UpstreamError {}
