//! `longhaul serve`: runs the gateway until it is told to stop.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use longhaul_server::gateway::ClientAccess;
use longhaul_server::store::Store;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::cli::ServeArgs;
use crate::config::{Environment, GatewayConfig, ListenAddress};
use crate::failure::Failure;
use crate::gateway_plan::{self, GatewayPlan};
use crate::output::{self, JsonLayout};
use crate::signals::ShutdownSignals;
use crate::telemetry::{LogDestination, Telemetry};
use startup_page::ServeOutput;

mod startup_page;

pub(crate) fn run(args: &ServeArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let plan = GatewayPlan::new(&args.store_flags, args.config_flags(), environment)?;
    let telemetry = Telemetry::start(&plan.settings, &plan.rules, environment, &LogDestination::StandardError)?;
    let runtime = gateway_plan::new_runtime()?;
    let served = runtime.block_on(serve(args, &plan));
    // Do not wait for background work.
    runtime.shutdown_background();
    telemetry.shut_down();
    served
}

async fn serve(args: &ServeArgs, plan: &GatewayPlan) -> Result<ExitCode, Failure> {
    let mut interrupts = ShutdownSignals::new()?;
    let listen = plan.settings.app.gateway.listen;
    let store = plan.open_store().await?;
    let access = client_access(&plan.settings.app.gateway, &store, listen).await?;
    let listener = TcpListener::bind(listen.0).await.map_err(|error| bind_failure(listen, &error))?;
    let local = listener.local_addr().map_err(|error| bind_failure(listen, &error))?;
    let shown = ServeOutput::new(plan, ListenAddress(local), &access);
    let gateway = plan.build_gateway(store, access)?;
    if args.json {
        output::write(None, output::to_json(&shown, JsonLayout::Compact)?.as_bytes())?;
    } else {
        output::write_page(None, &shown.page())?;
    }
    let (stop, stopped) = oneshot::channel();
    let second_interrupt = async move {
        interrupts.next().await;
        output::print_message("finishing open replies; interrupt again to stop now");
        let _ = stop.send(());
        interrupts.next().await;
    };
    let stopped = async {
        let _ = stopped.await;
    };
    tokio::select! {
        served = gateway.clone().serve(listener, stopped) => {
            gateway_plan::wait_until_idle(&gateway).await;
            served.map_err(|error| Failure::System(format!("the gateway ended: {error}")))?;
            Ok(ExitCode::SUCCESS)
        }
        () = second_interrupt => Err(Failure::System("stopped before open replies were finished".to_owned())),
    }
}

/// Decides which clients may use the gateway. It requires a key if the store has keys, if the configuration
/// requires them, or if other machines can reach the address; the last case fails if the store has no key.
pub(super) async fn client_access(
    gateway: &GatewayConfig,
    store: &Store,
    listen: ListenAddress,
) -> Result<ClientAccess, Failure> {
    if gateway.require_keys || store.has_keys().await? {
        return Ok(ClientAccess::Keys);
    }
    if !listen.is_local() {
        return Err(Failure::InvalidInput(format!(
            "other machines can reach {listen}, and the store has no key; add one with longhaul keys add NAME, or listen on \
             127.0.0.1"
        )));
    }
    Ok(ClientAccess::Open)
}

pub(super) fn bind_failure(listen: ListenAddress, error: &io::Error) -> Failure {
    Failure::System(match error.kind() {
        ErrorKind::AddrInUse => format!("{listen} is already in use; choose another address with --listen"),
        ErrorKind::AddrNotAvailable => {
            format!("{listen} is not an address of this machine; choose another with --listen")
        }
        ErrorKind::PermissionDenied => {
            format!("no permission to listen on {listen}; choose a port from 1024 up with --listen")
        }
        _ => format!("cannot listen on {listen}: {error}"),
    })
}
