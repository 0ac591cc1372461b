//! `longhaul mcp`: serves the store as tools for agents that speak the Model Context Protocol.

use std::process::ExitCode;
use std::sync::Arc;

use longhaul_server::mcp::{self, McpAccess, McpServer};
use longhaul_server::session;
use longhaul_server::store::Store;
use tokio::net::TcpListener;

use crate::cli::McpArgs;
use crate::commands::{redact, serve};
use crate::config::{Environment, GatewayConfig, ListenAddress, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::gateway_plan;
use crate::output;
use crate::signals::ShutdownSignals;
use crate::store::{self, ConfiguredStore};
use crate::telemetry::{LogDestination, Telemetry};

pub(crate) fn run(args: &McpArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let settings = Settings::load(args.store_flags.config.as_deref(), environment, Vec::new())?;
    let rules = redact::load_rules(&settings)?;
    let whereabouts = ConfiguredStore::new(args.store_flags.store.as_deref(), &settings.app.store, environment)?;
    let telemetry = Telemetry::start(&settings, &rules, environment, &LogDestination::StandardError)?;
    let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
    available.notes.iter().for_each(|line| output::print_message(line));
    let compaction = session::SessionSettings {
        config: settings.engine.clone(),
        engines: available.engines.clone(),
        rules,
        ..session::SessionSettings::default()
    };
    let mcp_settings = mcp::McpSettings {
        default_session: args.session.clone(),
        session_settings: compaction,
        clock: Arc::new(store::now),
    };
    let runtime = gateway_plan::new_runtime()?;
    let served = runtime.block_on(async {
        let store = whereabouts.open_async().await?;
        match args.listen {
            None => serve_stdio(store, mcp_settings).await,
            Some(listen) => serve_http(store, mcp_settings, listen, &settings.app.gateway).await,
        }
    });
    // A blocked read of standard input cannot be cancelled, so do not wait for background work.
    runtime.shutdown_background();
    telemetry.shut_down();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve_stdio(store: Store, mcp_settings: mcp::McpSettings) -> Result<(), Failure> {
    let mut interrupts = ShutdownSignals::new()?;
    // The user who started the server also owns the store's file.
    let server = McpServer::new(store, mcp_settings, McpAccess::All);
    tokio::select! {
        ended = server.serve_stdio() => ended.map_err(Failure::System),
        () = interrupts.next() => Ok(()),
    }
}

async fn serve_http(
    store: Store,
    mcp_settings: mcp::McpSettings,
    listen: ListenAddress,
    gateway: &GatewayConfig,
) -> Result<(), Failure> {
    let mut interrupts = ShutdownSignals::new()?;
    let access = match serve::client_access(gateway, &store, listen).await? {
        longhaul_server::gateway::ClientAccess::Open => McpAccess::All,
        longhaul_server::gateway::ClientAccess::Keys | longhaul_server::gateway::ClientAccess::RunKey(_) => {
            McpAccess::Keys
        }
    };
    let listener = TcpListener::bind(listen.0).await.map_err(|error| serve::bind_failure(listen, &error))?;
    let local = listener.local_addr().map_err(|error| serve::bind_failure(listen, &error))?;
    output::print_message(&format!("listening on http://{local}/mcp"));
    let interrupted = async move { interrupts.next().await };
    mcp::serve(McpServer::new(store, mcp_settings, access), listener, interrupted)
        .await
        .map_err(|error| Failure::System(format!("the server ended: {error}")))
}
