//! What a format has to say for itself: one row a format, so that adding an agent is one file and one row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Agent, Asked, Session, Unread};

/// One way in which an agent keeps its sessions.
pub(super) struct Format {
    /// Whose it is.
    pub(super) agent: Agent,
    /// Whether a file or folder is of this format.
    pub(super) shows: fn(&Glimpse<'_>) -> bool,
    /// Where the agent keeps its sessions on a machine: folders, or databases.
    pub(super) homes: fn(&Machine) -> Vec<PathBuf>,
    /// The sessions in such a place; what cannot be read is left out.
    pub(super) list: fn(&Path) -> Vec<Place>,
    /// One session.
    pub(super) read: fn(&Place, &Asked) -> Result<Session, Unread>,
}

/// Every format, in the order in which a file is tried.
pub(super) const FORMATS: &[Format] = &[];

/// What is known of a file before it is read.
#[derive(Debug, Clone, Copy)]
pub struct Glimpse<'g> {
    /// Its path; a folder where the agent keeps a session in several files.
    pub path: &'g Path,
    /// Its first bytes, unpacked, up to 64 KiB; none of a folder.
    pub head: &'g [u8],
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Whose it is.
    pub agent: Agent,
    /// The file, the folder or the database.
    pub path: PathBuf,
    /// Which one of those in a database or in a file of several; the newest, where none is named.
    pub id: Option<String>,
}

/// What of a machine says where agents keep their sessions.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The user's folder.
    pub home: PathBuf,
    /// The folder that the command was called in, whose parents may hold a session too.
    pub folder: PathBuf,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}
