//! Why there is no answer, by what can be done about it.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::redact::Redacted;

/// Each variant calls for another reaction, or for other words. What the upstream said is without secrets and on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The input is longer than the model's window.
    TooLong {
        /// The most that the model takes, if it was said.
        maximum: Option<Tokens>,
        /// What was sent by the provider's count, if it was said.
        sent: Option<Tokens>,
    },
    /// The request is larger than the provider takes, in bytes or for its account; this says nothing about the window.
    TooLarge(Redacted),
    /// Too many requests or tokens in a while.
    RateLimited {
        /// How long to wait, if it was said.
        delay: Option<Duration>,
    },
    /// The provider cannot answer now.
    Overloaded {
        /// How long to wait, if it was said.
        delay: Option<Duration>,
    },
    /// The key, the account, the model or the address is not accepted, and will not be the next time.
    Refused(Redacted),
    /// The request is not accepted as it is written.
    BadRequest(Redacted),
    /// It took too long.
    TimedOut(Stage),
    /// There is no connection.
    Unreachable(Redacted),
    /// The answer broke off.
    CutShort,
    /// What came is no answer.
    Garbled(Redacted),
    /// The upstream is somewhere else; nobody followed, because the key is for this one.
    Redirected(Redacted),
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The connection.
    Connect,
    /// The head of the answer.
    FirstByte,
    /// The next piece of the answer.
    Idle,
    /// All of it.
    Whole,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reaction {
    /// Send less.
    Compress,
    /// The same later.
    Wait,
    /// The same to another model or upstream.
    AnotherModel,
    /// Nothing helps.
    GiveUp,
}

impl Trouble {
    /// What to do about it.
    #[must_use]
    pub fn reaction(&self) -> Reaction {
        match self {
            Self::TooLong { .. } | Self::TooLarge(_) => Reaction::Compress,
            Self::RateLimited { .. } | Self::Overloaded { .. } => Reaction::Wait,
            Self::Refused(_)
            | Self::TimedOut(_)
            | Self::Unreachable(_)
            | Self::CutShort
            | Self::Garbled(_)
            | Self::Redirected(_) => Reaction::AnotherModel,
            Self::BadRequest(_) => Reaction::GiveUp,
        }
    }

    /// The same, with a mark where a secret stands in what was said: an upstream may quote what it was sent.
    #[must_use]
    pub fn hiding(self, secret: &str) -> Self {
        let hide = |said: Redacted| said.with(secret, "[key]");
        match self {
            Self::TooLarge(said) => Self::TooLarge(hide(said)),
            Self::Refused(said) => Self::Refused(hide(said)),
            Self::BadRequest(said) => Self::BadRequest(hide(said)),
            Self::Unreachable(said) => Self::Unreachable(hide(said)),
            Self::Garbled(said) => Self::Garbled(hide(said)),
            Self::Redirected(said) => Self::Redirected(hide(said)),
            Self::TooLong { .. }
            | Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::TimedOut(_)
            | Self::CutShort => self,
        }
    }

    /// How long to wait by the provider's word.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { delay } | Self::Overloaded { delay } => *delay,
            _ => None,
        }
    }
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Connect => "no connection in time",
            Self::FirstByte => "no answer in time",
            Self::Idle => "the answer stood still for too long",
            Self::Whole => "the time for the whole answer is over",
        }
    }
}

/// One line for people.
impl fmt::Display for Trouble {
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
            Self::TooLarge(said) => said_behind(f, "the request is too large", said),
            Self::RateLimited { delay } => until(f, "the rate limit is reached", *delay),
            Self::Overloaded { delay } => until(f, "the provider is overloaded", *delay),
            Self::Refused(said) => said_behind(f, "the provider refuses", said),
            Self::BadRequest(said) => said_behind(f, "the provider does not take the request", said),
            Self::TimedOut(stage) => f.write_str(stage.name()),
            Self::Unreachable(said) => said_behind(f, "the provider cannot be reached", said),
            Self::CutShort => f.write_str("the answer broke off"),
            Self::Garbled(said) => said_behind(f, "what came is no answer", said),
            Self::Redirected(said) => {
                said_behind(f, "the provider sends us elsewhere, where no key is sent; set base_url", said)
            }
        }
    }
}

fn said_behind(f: &mut fmt::Formatter<'_>, words: &str, said: &Redacted) -> fmt::Result {
    f.write_str(words)?;
    if said.as_str().is_empty() { Ok(()) } else { write!(f, ": {said}") }
}

fn until(f: &mut fmt::Formatter<'_>, words: &str, delay: Option<Duration>) -> fmt::Result {
    f.write_str(words)?;
    delay.map_or(Ok(()), |delay| write!(f, "; it asks for {:.1} s", delay.as_secs_f64()))
}

impl std::error::Error for Trouble {}
