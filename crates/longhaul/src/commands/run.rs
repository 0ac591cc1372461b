//! `longhaul run -- AGENT …`: a gateway for one run of an agent, which ends with it.

use std::env;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use longhaul_engine::Dialect;
use longhaul_server::gateway::Access;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::agents::{self, Agent, Outfit};
use crate::cli::{RunArgs, upstream_flag};
use crate::config::{Environment, Flag, Settings};
use crate::failure::Failure;
use crate::output;
use crate::serving::{self, Plan};
use crate::telemetry::{LogTo, Telemetry};
use child::Child;
use extra::Extra;

mod child;
mod extra;
mod saved;

pub(crate) fn run(args: &RunArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let [program, ..] = args.agent.as_slice() else {
        return Err(Failure::Wrong("no agent to run; longhaul run -- AGENT".to_owned()));
    };
    let agent = Agent::of(program).ok_or_else(|| Failure::World("there is no table of agents".to_owned()))?;
    let (flags, found) = flags(args, environment)?;
    let plan = Plan::new(&args.place, flags, environment)?;
    let to = args.log.clone().map_or(LogTo::Nowhere, LogTo::File);
    let telemetry = Telemetry::start(&plan.settings, &plan.rules, environment, &to)?;
    let runtime = serving::runtime()?;
    let ran = runtime.block_on(run_behind(args, &plan, agent, environment, &found));
    runtime.shutdown_background();
    telemetry.end();
    ran
}

/// The options as the keys that they set, with the proxies that the user has in the environment, and what is to be said of those. The
/// configuration is ours alone, so it wins over what is meant for any program.
fn flags(args: &RunArgs, environment: &Environment) -> Result<(Vec<Flag>, Vec<String>), Failure> {
    let mut flags = args.upstream.flags();
    let mut found: Vec<String> = Vec::new();
    let is_told = !flags.is_empty();
    flags.extend(args.plugins.flag());
    if is_told {
        return Ok((flags, found));
    }
    let settings = Settings::load(args.place.config.as_deref(), environment, Vec::new())?;
    for (base, dialect, url) in agents::bases(environment) {
        if settings.shell.upstreams.of(dialect).base_url.is_some() {
            continue;
        }
        flags.push(upstream_flag(&base.variable, &dialect.to_string(), &url));
        let line = format!("{} is set, so requests go on to what it names", base.variable);
        if !found.contains(&line) {
            found.push(line);
        }
    }
    Ok((flags, found))
}

async fn run_behind(
    args: &RunArgs,
    plan: &Plan,
    agent: &'static Agent,
    environment: &Environment,
    found: &[String],
) -> Result<ExitCode, Failure> {
    let store = plan.open().await?;
    let gateway = plan.gateway(store, Access::Open)?;
    let unbound = |error| Failure::World(format!("cannot listen on this machine: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(unbound)?;
    let url = format!("http://{}", listener.local_addr().map_err(unbound)?);
    let outfit = agent.outfit(&url);
    if !args.quiet {
        tell(plan, agent, &url);
        let lines = found.iter().cloned().chain(replaced(&outfit, environment));
        lines.for_each(|line| output::say(&line));
    }
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(gateway.clone().serve(listener, async {
        let _ = stopped.await;
    }));
    let extra = outfit.file.as_ref().map(|text| Extra::write(&env::temp_dir(), text)).transpose()?;
    let ended = Child::start(&args.agent, &outfit, extra.as_ref().map(Extra::path))?.wait().await;
    drop(stop);
    serving::settled(&gateway).await;
    if !args.quiet {
        output::say(&saved::line(&gateway.sums(), &name(&args.agent[0])));
    }
    ended
}

/// Says where the agent's requests go, and what else is different for this run.
fn tell(plan: &Plan, agent: &Agent, url: &str) {
    let dialects = [Dialect::Messages, Dialect::Chat, Dialect::Responses];
    let mut places: Vec<String> = Vec::new();
    for there in dialects.into_iter().filter_map(|dialect| plan.to(dialect)) {
        let place = format!("{} ({} pays)", there.origin(), there.payer());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    output::say(&format!("{url} sends on to {}", places.join(", ")));
    if !agent.is_known() {
        let variables: Vec<&str> = agent.variables().collect();
        output::say(&format!("this program is not known; it is given {}", variables.join(", ")));
    }
    if let Some(off) = agent.off() {
        output::say(&format!("its own compaction is off for this run ({off})"));
    }
    if let Some(note) = &agent.note {
        output::say(note);
    }
    for line in plan.settings.note_lines(&plan.settings.warnings) {
        output::say(&line);
    }
}

/// Variables of the user's that this run does without, where they do not only say where a provider is.
fn replaced(outfit: &Outfit, environment: &Environment) -> Vec<String> {
    let is_set = |name: &str| environment.iter().any(|(known, value)| known == name && !value.is_empty());
    let names = outfit.variables.iter().map(|(name, _)| *name);
    let other = names.filter(|name| is_set(name) && !agents::is_base(name));
    other.map(|name| format!("{name} has another value for this run than in your environment")).collect()
}

/// How a program is called in messages.
fn name(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}
