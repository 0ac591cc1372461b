//! `longhaul serve`: a gateway until it is told to stop.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use longhaul_server::gateway::Access;
use longhaul_server::store::Store;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::cli::ServeArgs;
use crate::config::{Environment, Listen};
use crate::failure::Failure;
use crate::output::{self, Layout};
use crate::serving::{self, Plan};
use crate::signals::Interrupts;
use crate::telemetry::{LogTo, Telemetry};
use shown::Shown;

mod shown;

pub(crate) fn run(args: &ServeArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let plan = Plan::new(&args.place, args.flags(), environment)?;
    let telemetry = Telemetry::start(&plan.settings, &plan.rules, environment, &LogTo::StandardError)?;
    let runtime = serving::runtime()?;
    let served = runtime.block_on(serve(args, &plan));
    // Work that nobody waits for is not waited for either.
    runtime.shutdown_background();
    telemetry.end();
    served
}

async fn serve(args: &ServeArgs, plan: &Plan) -> Result<ExitCode, Failure> {
    let mut interrupts = Interrupts::new()?;
    let listen = plan.settings.shell.gateway.listen;
    let store = plan.open().await?;
    let access = access(plan.settings.shell.gateway.require_keys, &store, listen).await?;
    let listener = TcpListener::bind(listen.0).await.map_err(|error| unbound(listen, &error))?;
    let local = listener.local_addr().map_err(|error| unbound(listen, &error))?;
    let shown = Shown::new(plan, Listen(local), &access);
    let gateway = plan.gateway(store, access)?;
    if args.json {
        output::write(None, output::json(&shown, Layout::Line)?.as_bytes())?;
    } else {
        output::give(None, &shown.page())?;
    }
    let (stop, stopped) = oneshot::channel();
    let at_once = async move {
        interrupts.next().await;
        output::say("replies that are under way come to their end; once more to stop at once");
        let _ = stop.send(());
        interrupts.next().await;
    };
    let stopped = async {
        let _ = stopped.await;
    };
    tokio::select! {
        served = gateway.clone().serve(listener, stopped) => {
            serving::settled(&gateway).await;
            served.map_err(|error| Failure::World(format!("the gateway ended: {error}")))?;
            Ok(ExitCode::SUCCESS)
        }
        () = at_once => Err(Failure::World("stopped at once, with replies under way".to_owned())),
    }
}

/// The clients that are let in: with a key of the store wherever the store has keys, the configuration wants them, or others can reach
/// the address.
pub(super) async fn access(is_asked_for: bool, store: &Store, listen: Listen) -> Result<Access, Failure> {
    if is_asked_for || store.has_keys().await? {
        return Ok(Access::Keys);
    }
    if !listen.is_local() {
        return Err(Failure::Wrong(format!(
            "others can reach {listen}, and there is no key to tell them apart; make one with longhaul keys add NAME, or listen on \
             127.0.0.1"
        )));
    }
    Ok(Access::Open)
}

pub(super) fn unbound(listen: Listen, error: &io::Error) -> Failure {
    Failure::World(match error.kind() {
        ErrorKind::AddrInUse => format!("{listen} is taken by another program; give another with --listen"),
        ErrorKind::AddrNotAvailable => {
            format!("{listen} is no address of this machine; give another with --listen")
        }
        ErrorKind::PermissionDenied => {
            format!("{listen} may not be listened on; give a port from 1024 on with --listen")
        }
        _ => format!("cannot listen on {listen}: {error}"),
    })
}
