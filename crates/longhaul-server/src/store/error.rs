//! Why a store could not do what it was asked, by what the caller can do about it.

use std::fmt;

/// Each variant calls for another reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// Somebody else holds it: try again later.
    Busy(String),
    /// There is no room: make some, or go on without the store.
    Full(String),
    /// It may be read and not written, or not even that: mend the permissions, or name another place.
    Forbidden(String),
    /// What is there is damaged, or is no store: look at it, restore a copy.
    Damaged(String),
    /// A newer program wrote it: update this one.
    Newer(String),
    /// The database cannot be reached: look at the network and the server.
    Unreachable(String),
    /// No session, epoch or block of that name.
    Unknown(String),
    /// What was asked for makes no sense.
    Wrong(String),
    /// A mistake of ours, or a failure that is none of the above.
    Failed(String),
}

impl StoreError {
    /// The words.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Busy(text)
            | Self::Full(text)
            | Self::Forbidden(text)
            | Self::Damaged(text)
            | Self::Newer(text)
            | Self::Unreachable(text)
            | Self::Unknown(text)
            | Self::Wrong(text)
            | Self::Failed(text) => text,
        }
    }
}

impl StoreError {
    /// One word or two for the kind of failure, without the place of the store: any client may read it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Busy(_) => "locked",
            Self::Full(_) => "full",
            Self::Forbidden(_) => "not writable",
            Self::Damaged(_) => "damaged",
            Self::Newer(_) => "too new",
            Self::Unreachable(_) => "not answering",
            Self::Unknown(_) | Self::Wrong(_) | Self::Failed(_) => "failing",
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for StoreError {}

/// What a store gives.
pub type Result<T> = std::result::Result<T, StoreError>;
