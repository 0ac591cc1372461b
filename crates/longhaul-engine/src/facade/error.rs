//! The one error type of the library.

use std::fmt;

use crate::json::JsonError;
use crate::policy::InvalidValue;
use crate::redact::RuleError;
use crate::rewrite::RewriteError;

/// The reason why a call of this library failed. The request that you passed is unchanged and can be sent
/// as it is.
///
/// ```
/// use longhaul_engine::{Error, Session};
///
/// let error = Session::new("gpt-5").compact("{").unwrap_err();
/// assert!(matches!(error, Error::InvalidBody(_)));
/// assert!(error.to_string().starts_with("the request body is not JSON at line 1"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The request body is not JSON. The text says where and what was expected.
    InvalidBody(String),
    /// An option of the session is out of range or is not a regular expression. The text names it.
    InvalidOption(String),
    /// The text passed to [`Session::load_ledger`](crate::Session::load_ledger) is not a ledger.
    InvalidLedger(String),
    /// A bug in this library. The text describes it.
    Internal(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidBody(problem) => write!(f, "the request body is {problem}"),
            Self::InvalidOption(problem) => write!(f, "invalid option {problem}"),
            Self::InvalidLedger(problem) => write!(f, "not a ledger: {problem}"),
            Self::Internal(problem) => write!(f, "internal error of longhaul-engine: {problem}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        Self::InvalidBody(error.to_string())
    }
}

impl From<InvalidValue> for Error {
    fn from(error: InvalidValue) -> Self {
        Self::InvalidOption(error.to_string())
    }
}

impl From<RuleError> for Error {
    fn from(error: RuleError) -> Self {
        Self::InvalidOption(error.to_string())
    }
}

impl From<RewriteError> for Error {
    fn from(error: RewriteError) -> Self {
        Self::Internal(error.to_string())
    }
}
