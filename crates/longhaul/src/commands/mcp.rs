//! `longhaul mcp`: the store as tools for agents that speak the Model Context Protocol.

use std::process::ExitCode;
use std::sync::Arc;

use longhaul_server::mcp::{self, Access, Server};
use longhaul_server::session;
use longhaul_server::store::Store;
use tokio::net::TcpListener;

use crate::cli::McpArgs;
use crate::commands::{redact, serve};
use crate::config::{Environment, Listen, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::output;
use crate::serving;
use crate::signals::Interrupts;
use crate::store::{self, Whereabouts};
use crate::telemetry::{LogTo, Telemetry};

pub(crate) fn run(args: &McpArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let settings = Settings::load(args.place.config.as_deref(), environment, Vec::new())?;
    let rules = redact::rules(&settings)?;
    let whereabouts = Whereabouts::new(args.place.store.as_deref(), &settings.shell.store, environment)?;
    let telemetry = Telemetry::start(&settings, &rules, environment, &LogTo::StandardError)?;
    let available = Available::new(&settings, environment, Waiting::User)?;
    available.notes.iter().for_each(|line| output::say(line));
    let compaction = session::Settings {
        config: settings.engine.clone(),
        engines: available.engines.clone(),
        rules,
        ..session::Settings::default()
    };
    let offered = mcp::Settings { session: args.session.clone(), compaction, clock: Arc::new(store::now) };
    let runtime = serving::runtime()?;
    let served = runtime.block_on(async {
        let store = whereabouts.store().await?;
        match args.listen {
            None => stdio(store, offered).await,
            Some(listen) => http(store, offered, listen, settings.shell.gateway.require_keys).await,
        }
    });
    // Standard input cannot be waited for any more, nor work that nobody asks about.
    runtime.shutdown_background();
    telemetry.end();
    served.map(|()| ExitCode::SUCCESS)
}

async fn stdio(store: Store, offered: mcp::Settings) -> Result<(), Failure> {
    let mut interrupts = Interrupts::new()?;
    // Whoever started it owns the store's file as well.
    let server = Server::new(store, offered, Access::All);
    tokio::select! {
        ended = server.serve_stdio() => ended.map_err(Failure::World),
        () = interrupts.next() => Ok(()),
    }
}

async fn http(
    store: Store,
    offered: mcp::Settings,
    listen: Listen,
    keys_wanted: bool,
) -> Result<(), Failure> {
    let mut interrupts = Interrupts::new()?;
    let access = match serve::access(keys_wanted, &store, listen).await? {
        longhaul_server::gateway::Access::Open => Access::All,
        longhaul_server::gateway::Access::Keys | longhaul_server::gateway::Access::Run(_) => Access::Keys,
    };
    let listener = TcpListener::bind(listen.0).await.map_err(|error| serve::unbound(listen, &error))?;
    let local = listener.local_addr().map_err(|error| serve::unbound(listen, &error))?;
    output::say(&format!("listening on http://{local}/mcp"));
    let stop = async move { interrupts.next().await };
    mcp::serve(Server::new(store, offered, access), listener, stop)
        .await
        .map_err(|error| Failure::World(format!("the server ended: {error}")))
}
