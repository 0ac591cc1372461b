//! The errors of a store, sorted by how the caller can react.

use std::fmt;

/// An error of the store. Each variant calls for a different reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// Another process or transaction has it locked: try again later.
    Busy(String),
    /// The disk or the server has no space left: free some, or continue without the store.
    Full(String),
    /// The store cannot be opened or written: correct the permissions, or use another location.
    Forbidden(String),
    /// The data is damaged or is not a store: inspect it, or restore a copy.
    Damaged(String),
    /// A newer version of Longhaul wrote the store: update this one.
    TooNew(String),
    /// The database cannot be reached: check the network and the server.
    Unreachable(String),
    /// No session, compaction, block or key has that name.
    NotFound(String),
    /// The caller's request is invalid.
    InvalidInput(String),
    /// An internal error, or a failure that fits none of the other variants.
    Failed(String),
}

impl StoreError {
    /// Returns the error message, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Busy(text)
            | Self::Full(text)
            | Self::Forbidden(text)
            | Self::Damaged(text)
            | Self::TooNew(text)
            | Self::Unreachable(text)
            | Self::NotFound(text)
            | Self::InvalidInput(text)
            | Self::Failed(text) => text,
        }
    }
}

impl StoreError {
    /// Returns one or two words for the kind of failure. They do not reveal the location of the store, so any
    /// client may read them.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Busy(_) => "locked",
            Self::Full(_) => "full",
            Self::Forbidden(_) => "not writable",
            Self::Damaged(_) => "damaged",
            Self::TooNew(_) => "too new",
            Self::Unreachable(_) => "not answering",
            Self::NotFound(_) | Self::InvalidInput(_) | Self::Failed(_) => "failing",
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for StoreError {}

/// The result of an operation on the store.
pub type Result<T> = std::result::Result<T, StoreError>;
