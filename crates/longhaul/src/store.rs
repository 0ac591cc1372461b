//! The store of sessions behind a command: which one it is, opened, and asked as if there was nothing to wait for.
//!
//! ```text
//! --store S ─┐
//! store.path, store.url ─┤▶ Whereabouts ──▶ Kept ──run──▶ what was asked, or one line and an exit code
//! the data folder ─┘
//! ```
//!
//! Who can open a store owns all of it: a session is found whosever it is, and what is asked about it is asked as its tenant.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longhaul_server::agents::Moment;
use longhaul_server::store::{At, LOCAL_TENANT, Place, Session, Store, StoreError, Sync, Tenant};
use tokio::runtime::{Builder, Runtime};

use crate::cli::StorePlace;
use crate::config::{self, Environment, Settings, StoreSettings, StoreSync};
use crate::failure::Failure;
use crate::session;

/// What stands before the id of a session of the store, where a body could stand as well.
const PREFIX: &str = "store:";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let text = error.message().to_owned();
        match error {
            StoreError::Unknown(_) => Self::No(text),
            StoreError::Wrong(_) => Self::Wrong(text),
            StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::Forbidden(_)
            | StoreError::Damaged(_)
            | StoreError::Newer(_)
            | StoreError::Unreachable(_)
            | StoreError::Failed(_) => Self::World(text),
        }
    }
}

/// Who said where the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// `--store`.
    Typed,
    /// The configuration, or nobody.
    Settled,
}

/// Where the store is, and how it is opened.
pub(crate) struct Whereabouts {
    place: Place,
    said: Said,
    sync: Sync,
}

impl Whereabouts {
    /// Where a call's options and its configuration say that it is.
    pub(crate) fn of(place: &StorePlace) -> Result<Self, Failure> {
        let environment: Environment = session::machine().environment.into_iter().collect();
        let settings = Settings::load(place.config.as_deref(), &environment, Vec::new())?;
        Self::new(place.store.as_deref(), &settings.shell.store, &environment)
    }

    /// Where it is, for a configuration that was read.
    pub(crate) fn new(
        typed: Option<&str>,
        settings: &StoreSettings,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let sync = match settings.sync {
            StoreSync::Normal => Sync::Normal,
            StoreSync::Full => Sync::Full,
        };
        let parse = |text: &str| text.parse::<Place>().unwrap_or_else(|never| match never {});
        let (place, said) = match (typed.filter(|typed| !typed.is_empty()), &settings.path, &settings.url) {
            (Some(typed), ..) => (parse(typed), Said::Typed),
            (None, Some(path), _) => (Place::File(PathBuf::from(path)), Said::Settled),
            (None, None, Some(url)) => (database(url)?, Said::Settled),
            (None, None, None) => (Place::usual(&data_folder(environment)?), Said::Settled),
        };
        if let Place::File(path) = &place
            && path.is_dir()
        {
            let shown = path.display();
            return Err(Failure::Wrong(format!("{shown} is a directory; name a file in it for the store")));
        }
        Ok(Self { place, said, sync })
    }

    /// Opens it, and makes it if it is not there.
    pub(crate) fn open(&self) -> Result<Kept, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::World(format!("cannot begin to talk to a store: {error}")))?;
        let store = runtime.block_on(Store::open(&self.place, self.sync))?;
        let tenant = runtime.block_on(store.tenant(LOCAL_TENANT))?;
        Ok(Kept { runtime, store, tenant, place: self.place.clone() })
    }

    /// The same for who has a runtime of its own, and asks for no tenant.
    pub(crate) async fn store(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.place, self.sync).await?)
    }

    /// Opens it if it is there: who only reads makes nothing.
    pub(crate) fn look(&self) -> Result<Option<Kept>, Failure> {
        match &self.place {
            Place::File(path) if !path.exists() => Ok(None),
            _ => self.open().map(Some),
        }
    }

    /// Opens it, where it has to be there.
    pub(crate) fn existing(&self) -> Result<Kept, Failure> {
        let shown = &self.place;
        self.look()?.ok_or_else(|| match self.said {
            Said::Typed => Failure::Wrong(format!("the store {shown} does not exist; check the path")),
            Said::Settled => Failure::No(format!(
                "there is no store yet ({shown}); longhaul compress BODY --store and longhaul import make one"
            )),
        })
    }

    pub(crate) fn is_typed(&self) -> bool {
        self.said == Said::Typed
    }

    /// How it may be shown.
    pub(crate) fn shown(&self) -> String {
        self.place.to_string()
    }
}

fn database(url: &str) -> Result<Place, Failure> {
    match url.parse() {
        Ok(place @ Place::Postgres(_)) => Ok(place),
        _ => Err(Failure::Wrong(
            "store.url: expected postgres://user@host/database; a file is store.path".to_owned(),
        )),
    }
}

fn data_folder(environment: &Environment) -> Result<PathBuf, Failure> {
    config::data_folder(environment).ok_or_else(|| {
        Failure::Wrong(
            "there is no place for a store, as neither HOME nor XDG_DATA_HOME is set; give --store FILE"
                .to_owned(),
        )
    })
}

/// A store that is open.
pub(crate) struct Kept {
    runtime: Runtime,
    pub(crate) store: Store,
    /// Whose the sessions are that are made here.
    pub(crate) tenant: Tenant,
    place: Place,
}

impl Kept {
    /// Waits for an answer of the store.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
        Ok(self.wait(work)?)
    }

    /// The same for who can do something about what went wrong.
    pub(crate) fn wait<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.runtime.block_on(work)
    }

    /// Everybody who has sessions in it.
    pub(crate) fn tenants(&self) -> Result<Vec<Tenant>, Failure> {
        self.run(self.store.tenants())
    }

    /// The session of that id, with or without `store:` before it, whosever it is.
    pub(crate) fn session(&self, id: &str) -> Result<Owned, Failure> {
        let id = id.strip_prefix(PREFIX).unwrap_or(id);
        let mut found: Vec<Owned> = self.each(|tenant| {
            let session = self.wait(self.store.session(&tenant, id))?;
            Ok(Owned { tenant, session })
        })?;
        if id == "latest" {
            found.sort_by_key(|Owned { session, .. }| (session.updated, session.id));
        } else if let Some(exact) = found.iter().position(|owned| owned.session.name == id) {
            return Ok(found.swap_remove(exact));
        } else if found.len() > 1 {
            return Err(Failure::Wrong(format!("several sessions begin with {id}; type more of the name")));
        }
        found.pop().ok_or_else(nobody)
    }

    /// What each tenant has of something, one after the other: at least one answer, or why there is none.
    pub(crate) fn each<T>(
        &self,
        mut ask: impl FnMut(Tenant) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, Failure> {
        let (mut answers, mut unknown) = (Vec::new(), None);
        for tenant in self.tenants()? {
            match ask(tenant) {
                Ok(answer) => answers.push(answer),
                Err(StoreError::Unknown(why)) => unknown = Some(Failure::No(why)),
                Err(error) => return Err(error.into()),
            }
        }
        if answers.is_empty() { Err(unknown.unwrap_or_else(nobody)) } else { Ok(answers) }
    }

    /// The body of a session at a moment of its history.
    pub(crate) fn body(&self, owned: &Owned, at: At) -> Result<String, Failure> {
        self.run(self.store.body(&owned.tenant, &owned.session, at))
    }

    /// How its place may be shown.
    pub(crate) fn shown(&self) -> String {
        self.place.to_string()
    }
}

fn nobody() -> Failure {
    Failure::No("nobody has anything in the store".to_owned())
}

/// A session of the store, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    pub(crate) tenant: Tenant,
    pub(crate) session: Session,
}

/// The moment that it is.
pub(crate) fn now() -> Moment {
    Moment::of_system(SystemTime::now())
}

/// What commands call a session of the store by.
pub(crate) fn name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// The option that names the same store again, for advice; nothing where none was typed. The password of a URL is left out.
pub(crate) fn option(typed: Option<&str>) -> String {
    let Some(typed) = typed.filter(|typed| !typed.is_empty()) else { return String::new() };
    let shown = typed.parse::<Place>().map_or_else(|never| match never {}, |place| place.to_string());
    if shown.contains(char::is_whitespace) {
        format!(" --store '{shown}'")
    } else {
        format!(" --store {shown}")
    }
}

/// The id of a session of the store, where one was named in the place of a body. A file of that name wins.
pub(crate) fn named(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(PREFIX).filter(|_| !path.exists())
}
