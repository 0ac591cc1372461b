//! The store of sessions for commands: finds it, opens it, and lets synchronous code use it.
//!
//! ```text
//! --store S ─────────────┐
//! store.path, store.url ─┼▶ ConfiguredStore ──▶ OpenStore ──run──▶ a result, or one line and an exit code
//! the data folder ───────┘
//! ```
//!
//! Whoever can open a store may read all of it. So a command finds a session of any tenant, and then acts as
//! that tenant.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longhaul_engine::Timestamp;
use longhaul_server::store::{
    Durability, HistoryPoint, LOCAL_TENANT, Store, StoreError, StoreLocation, StoredSession, Tenant,
};
use tokio::runtime::{Builder, Runtime};

use crate::agent_session;
use crate::cli::StoreFlags;
use crate::config::{self, Environment, Settings, StoreConfig, StoreSync};
use crate::failure::Failure;

/// The prefix of a session ID, where a path of a body is also allowed.
const SESSION_PREFIX: &str = "store:";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = error.message().to_owned();
        match error {
            StoreError::NotFound(_) => Self::Negative(text),
            StoreError::InvalidInput(_) => Self::InvalidInput(text),
            StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::Forbidden(_)
            | StoreError::Damaged(_)
            | StoreError::TooNew(_)
            | StoreError::Unreachable(_)
            | StoreError::Failed(_) => Self::System(text),
        }
    }
}

/// How the location of the store was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocationSource {
    /// By `--store`.
    Flag,
    /// By the configuration, or by default.
    ConfigOrDefault,
}

/// The store that the options and the configuration select. It is not open yet and may not exist.
pub(crate) struct ConfiguredStore {
    location: StoreLocation,
    source: LocationSource,
    sync: Durability,
}

impl ConfiguredStore {
    /// Finds the store for a call's options. Reads the configuration that applies to the call.
    pub(crate) fn from_flags(store_flags: &StoreFlags) -> Result<Self, Failure> {
        let environment: Environment = agent_session::current_machine().variables.into_iter().collect();
        let settings = Settings::load(store_flags.config.as_deref(), &environment, Vec::new())?;
        Self::new(store_flags.store.as_deref(), &settings.app.store, &environment)
    }

    /// Finds the store for a configuration that was read already. `typed` is the value of `--store`.
    pub(crate) fn new(typed: Option<&str>, settings: &StoreConfig, environment: &Environment) -> Result<Self, Failure> {
        let sync = match settings.sync {
            StoreSync::Normal => Durability::Normal,
            StoreSync::Full => Durability::Full,
        };
        let parse = |text: &str| text.parse::<StoreLocation>().unwrap_or_else(|never| match never {});
        let (location, source) = match (typed.filter(|typed| !typed.is_empty()), &settings.path, &settings.url) {
            (Some(typed), ..) => (parse(typed), LocationSource::Flag),
            (None, Some(path), _) => (StoreLocation::File(PathBuf::from(path)), LocationSource::ConfigOrDefault),
            (None, None, Some(url)) => (parse_database_url(url)?, LocationSource::ConfigOrDefault),
            (None, None, None) => {
                (StoreLocation::default_in(&require_data_folder(environment)?), LocationSource::ConfigOrDefault)
            }
        };
        if let StoreLocation::File(path) = &location
            && path.is_dir()
        {
            let shown = path.display();
            return Err(Failure::InvalidInput(format!("{shown} is a directory; name a file in it for the store")));
        }
        Ok(Self { location, source, sync })
    }

    /// Opens the store, and creates it if it does not exist.
    pub(crate) fn open_or_create(&self) -> Result<OpenStore, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::System(format!("cannot start a runtime for the store: {error}")))?;
        let store = runtime.block_on(Store::open(&self.location, self.sync))?;
        let tenant = runtime.block_on(store.get_or_create_tenant(LOCAL_TENANT))?;
        Ok(OpenStore { runtime, store, tenant, location: self.location.clone() })
    }

    /// Opens or creates the store within an async runtime, and without a tenant.
    pub(crate) async fn open_async(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.location, self.sync).await?)
    }

    /// Opens the store if it exists, for commands that only read.
    pub(crate) fn open_if_exists(&self) -> Result<Option<OpenStore>, Failure> {
        match &self.location {
            StoreLocation::File(path) if !path.exists() => Ok(None),
            _ => self.open_or_create().map(Some),
        }
    }

    /// Opens the store, and fails if it does not exist.
    pub(crate) fn open_existing(&self) -> Result<OpenStore, Failure> {
        let shown = &self.location;
        self.open_if_exists()?.ok_or_else(|| match self.source {
            LocationSource::Flag => Failure::InvalidInput(format!("the store {shown} does not exist; check the path")),
            LocationSource::ConfigOrDefault => Failure::Negative(format!(
                "there is no store yet ({shown}); longhaul compress BODY --store and longhaul import create one"
            )),
        })
    }

    pub(crate) fn is_from_flag(&self) -> bool {
        self.source == LocationSource::Flag
    }

    /// Returns the location for messages, without a password.
    pub(crate) fn label(&self) -> String {
        self.location.to_string()
    }
}

fn parse_database_url(url: &str) -> Result<StoreLocation, Failure> {
    match url.parse() {
        Ok(location @ StoreLocation::Postgres(_)) => Ok(location),
        _ => Err(Failure::InvalidInput(
            "store.url: expected postgres://user@host/database; a file is store.path".to_owned(),
        )),
    }
}

fn require_data_folder(environment: &Environment) -> Result<PathBuf, Failure> {
    config::data_folder(environment).ok_or_else(|| {
        Failure::InvalidInput(
            "no folder for the store, because neither HOME nor XDG_DATA_HOME is set; give --store FILE".to_owned(),
        )
    })
}

/// An open store, with a runtime to wait for it.
pub(crate) struct OpenStore {
    runtime: Runtime,
    pub(crate) store: Store,
    /// The tenant of the sessions that this command creates.
    pub(crate) tenant: Tenant,
    location: StoreLocation,
}

impl OpenStore {
    /// Waits for the result of a store call, and turns an error into a failure of the command.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
        Ok(self.block_on(work)?)
    }

    /// Waits for the result of a store call, and returns its own error to a caller that can handle it.
    pub(crate) fn block_on<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.runtime.block_on(work)
    }

    /// Returns all tenants of the store.
    pub(crate) fn tenants(&self) -> Result<Vec<Tenant>, Failure> {
        self.run(self.store.tenants())
    }

    /// Finds a session of any tenant by its ID, the start of its ID, or `latest`. The prefix `store:` is
    /// optional.
    pub(crate) fn find_session(&self, id: &str) -> Result<OwnedSession, Failure> {
        let id = id.strip_prefix(SESSION_PREFIX).unwrap_or(id);
        let mut found: Vec<OwnedSession> = self.for_each_tenant(|tenant| {
            let session = self.block_on(self.store.session_by_name(&tenant, id))?;
            Ok(OwnedSession { tenant, session })
        })?;
        if id == "latest" {
            found.sort_by_key(|OwnedSession { session, .. }| (session.updated, session.id));
        } else if let Some(exact) = found.iter().position(|owned| owned.session.name == id) {
            return Ok(found.swap_remove(exact));
        } else if found.len() > 1 {
            return Err(Failure::InvalidInput(format!("several sessions start with {id}; type more of the ID")));
        }
        found.pop().ok_or_else(empty_store_failure)
    }

    /// Calls `query` for each tenant and returns all results. Tenants without a result are skipped; it fails if
    /// there is no result at all.
    pub(crate) fn for_each_tenant<T>(
        &self,
        mut query: impl FnMut(Tenant) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, Failure> {
        let (mut results, mut not_found) = (Vec::new(), None);
        for tenant in self.tenants()? {
            match query(tenant) {
                Ok(result) => results.push(result),
                Err(StoreError::NotFound(message)) => not_found = Some(Failure::Negative(message)),
                Err(error) => return Err(error.into()),
            }
        }
        if results.is_empty() { Err(not_found.unwrap_or_else(empty_store_failure)) } else { Ok(results) }
    }

    /// Returns the body of a session at a point of its history.
    pub(crate) fn session_body(&self, owned: &OwnedSession, at: HistoryPoint) -> Result<String, Failure> {
        self.run(self.store.body_at(&owned.tenant, &owned.session, at))
    }

    /// Returns the location for messages, without a password.
    pub(crate) fn label(&self) -> String {
        self.location.to_string()
    }
}

fn empty_store_failure() -> Failure {
    Failure::Negative("the store is empty".to_owned())
}

/// A session of the store with its tenant.
#[derive(Debug, Clone)]
pub(crate) struct OwnedSession {
    pub(crate) tenant: Tenant,
    pub(crate) session: StoredSession,
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

/// Returns the name of a session of the store as commands accept it.
pub(crate) fn qualified_name(id: &str) -> String {
    format!("{SESSION_PREFIX}{id}")
}

/// Returns the `--store` option for a command that a message suggests, or an empty text if the user gave
/// none. It contains no password.
pub(crate) fn store_option(typed: Option<&str>) -> String {
    let Some(typed) = typed.filter(|typed| !typed.is_empty()) else { return String::new() };
    let shown = typed.parse::<StoreLocation>().map_or_else(|never| match never {}, |location| location.to_string());
    if shown.contains(char::is_whitespace) { format!(" --store '{shown}'") } else { format!(" --store {shown}") }
}

/// Returns the session ID if a path is a name such as `store:ID`. A file of that name wins.
pub(crate) fn session_name_in(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(SESSION_PREFIX).filter(|_| !path.exists())
}
