//! A gateway as the configuration wants it: what one that stays and one for a single run share.
//!
//! ```text
//! configuration ──▶ Plan: upstreams, who writes summaries, who is let in ──open──▶ store, client, Gateway
//! ```

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Dialect;
use longhaul_engine::prices::Dollars;
use longhaul_engine::redact::Rules;
use longhaul_server::gateway::{
    Access, Gateway, KeepAlive, Limits, Recall, Settings as Gated, Switch, Upstreams, World,
};
use longhaul_server::session::{Automatic, Quiet, Settings as SessionSettings};
use longhaul_server::store::Store;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::cli::StorePlace;
use crate::commands::redact;
use crate::config::{self, Environment, Flag, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::store::{self, Whereabouts};
use crate::summarizer;
use crate::upstreams::{self, Destination};

/// How long a gateway that has stopped may go on to write down what was.
const LAST: Duration = Duration::from_secs(5);

/// How long to wait before looking again whether it has.
const BREATH: Duration = Duration::from_millis(10);

/// What a gateway is to be, before anything of the world was touched.
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) rules: Rules,
    pub(crate) store: Whereabouts,
    pub(crate) destinations: Vec<Destination>,
    /// Who writes summaries, in words.
    pub(crate) summaries: String,
    /// The engines there are; a plug-in that is named has been started.
    pub(crate) available: Available,
    session: SessionSettings,
}

impl Plan {
    /// What the configuration and the options of a call come to.
    pub(crate) fn new(
        place: &StorePlace,
        flags: Vec<Flag>,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let settings = Settings::load(place.config.as_deref(), environment, flags)?;
        settings.check_for_gateway()?;
        let rules = redact::rules(&settings)?;
        let store = Whereabouts::new(place.store.as_deref(), &settings.shell.store, environment)?;
        let to = |dialect| {
            let configured = settings.shell.upstreams.of(dialect);
            Destination::new(dialect, configured, environment).map_err(Failure::Wrong)
        };
        let dialects = [Dialect::Messages, Dialect::Chat, Dialect::Responses];
        let destinations = dialects.into_iter().map(to).collect::<Result<Vec<_>, _>>()?;
        let (summarizer, summaries) = summarizer::of_sessions(&settings, environment)?;
        let available = Available::new(&settings, environment, Waiting::Gateway)?.begin();
        let compression = &settings.shell.compression;
        let session = SessionSettings {
            config: settings.engine.clone(),
            engines: available.engines.clone(),
            automatic: if compression.enabled { Automatic::On } else { Automatic::Off },
            hygiene: compression.hygiene_threshold,
            max_wait: Duration::from_secs(compression.max_wait_seconds),
            summarizer,
            rules: rules.clone(),
            ..SessionSettings::default()
        };
        Ok(Self { settings, rules, store, destinations, summaries, available, session })
    }

    /// Where requests of a dialect go.
    pub(crate) fn to(&self, dialect: Dialect) -> Option<&Destination> {
        self.destinations.iter().find(|there| there.dialect == dialect)
    }

    /// Opens the store; it is made if it is not there.
    pub(crate) async fn open(&self) -> Result<Store, Failure> {
        self.store.store().await
    }

    /// The gateway over a store that is open.
    pub(crate) fn gateway(&self, store: Store, access: Access) -> Result<Arc<Gateway>, Failure> {
        let shell = &self.settings.shell.gateway;
        let upstream = |dialect| {
            let there = self.to(dialect).map(|there| Arc::clone(&there.upstream));
            there.ok_or_else(|| Failure::World(format!("there is no upstream for {dialect}")))
        };
        let addresses: Vec<String> = self.destinations.iter().map(Destination::address).collect();
        let client = upstreams::client(addresses.iter().map(String::as_str))?;
        let keep_alive =
            shell.keep_alive.enabled.then_some(KeepAlive { a_day: Dollars(shell.keep_alive.usd_per_day) });
        let settings = Gated {
            session: self.session.clone(),
            compression: switch(self.settings.shell.compression.enabled),
            commands: switch(shell.commands),
            recall: match shell.recall {
                config::Recall::Off => Recall::Off,
                config::Recall::Auto => Recall::Auto,
                config::Recall::On => Recall::On,
            },
            upstreams: Upstreams {
                chat: upstream(Dialect::Chat)?,
                messages: upstream(Dialect::Messages)?,
                responses: upstream(Dialect::Responses)?,
            },
            access,
            hosts: shell.hosts.clone(),
            limits: Limits {
                body: usize::try_from(shell.max_body_bytes).unwrap_or(usize::MAX),
                bodies: usize::try_from(shell.max_bodies_bytes).unwrap_or(usize::MAX),
                connections: shell.max_connections as usize,
                drain: Duration::from_secs(shell.drain_seconds),
                ..Limits::default()
            },
            keep_alive,
        };
        let world = World { clock: Arc::new(store::now), host: Arc::new(Quiet) };
        Ok(Gateway::new(settings, store, client, world))
    }
}

/// What a gateway works on.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::World(format!("cannot begin to serve: {error}")))
}

/// Waits until nobody works for a gateway any more: what a request came to is written down after its reply.
pub(crate) async fn settled(gateway: &Arc<Gateway>) {
    let others = async {
        while Arc::strong_count(gateway) > 1 {
            sleep(BREATH).await;
        }
    };
    let _ = timeout(LAST, others).await;
}

fn switch(is_on: bool) -> Switch {
    if is_on { Switch::On } else { Switch::Off }
}
