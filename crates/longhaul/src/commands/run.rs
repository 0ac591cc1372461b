//! `longhaul run -- AGENT …`: a gateway for one run of an agent, which ends with it.

use std::env;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use longhaul_engine::{Dialect, models};
use longhaul_server::gateway::Access;
use longhaul_server::store::{Place, Secret, Store, Sync};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::agents::{self, Agent, Outfit, Run};
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
    let (flags, found) = flags(args, agent, environment)?;
    let plan = Plan::new(&args.place, flags, environment)?;
    let to = args.log.clone().map_or(LogTo::Nowhere, LogTo::File);
    let telemetry = Telemetry::start(&plan.settings, &plan.rules, environment, &to)?;
    let runtime = serving::runtime()?;
    let ran = runtime.block_on(run_behind(args, &plan, agent, environment, &found));
    runtime.shutdown_background();
    telemetry.end();
    ran
}

/// The options as the keys that they set, with the proxies that the user has in the environment and the context windows of the agent, and
/// what is to be said of those. The configuration is ours alone, so it wins over what is meant for any program.
fn flags(
    args: &RunArgs,
    agent: &'static Agent,
    environment: &Environment,
) -> Result<(Vec<Flag>, Vec<String>), Failure> {
    let mut flags = args.upstream.flags();
    let mut found: Vec<String> = Vec::new();
    let is_told = !flags.is_empty();
    flags.extend(args.plugins.flag());
    let settings = Settings::load(args.place.config.as_deref(), environment, Vec::new())?;
    flags.extend(windows(agent, &settings));
    if is_told {
        return Ok((flags, found));
    }
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

/// The context windows that the agent works with, as keys, for models of which the configuration states none.
fn windows(agent: &'static Agent, settings: &Settings) -> Vec<Flag> {
    let rows = settings.engine.models.iter().filter(|(_, row)| row.context_length.is_some());
    let stated: Vec<&str> = rows.map(|(pattern, _)| pattern.as_str()).collect();
    let free = |(model, _): &(&str, u64)| models::matching(stated.iter().copied(), model).is_empty();
    let flag = |(model, tokens): (&str, u64)| {
        let path = ["models", model, "context_length"].map(str::to_owned).to_vec();
        Flag { name: &agent.name, path, value: Value::from(tokens) }
    };
    agent.windows().filter(free).map(flag).collect()
}

async fn run_behind(
    args: &RunArgs,
    plan: &Plan,
    agent: &'static Agent,
    environment: &Environment,
    found: &[String],
) -> Result<ExitCode, Failure> {
    let store = match plan.open().await {
        // A store that cannot be used now is no reason not to work.
        Err(Failure::World(problem)) => {
            output::say(&format!("this run keeps its sessions in memory, and they end with it: {problem}"));
            Store::open(&Place::Memory, Sync::Normal).await?
        }
        opened => opened?,
    };
    let key = Arc::new(Secret::random()?);
    let gateway = plan.gateway(store, Access::Run(Arc::clone(&key)))?;
    let unbound = |error| Failure::World(format!("cannot listen on this machine: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(unbound)?;
    let url = format!("http://{}", listener.local_addr().map_err(unbound)?);
    let address = agent.address(&url, key.reveal(), environment);
    let files = agent.files(&address);
    let extra = (!files.is_empty()).then(|| Extra::write(&env::temp_dir(), &files)).transpose()?;
    let commands = plan.settings.shell.gateway.commands;
    let folder = extra.as_ref().map(Extra::folder);
    let outfit = agent.outfit(&Run { url: &address, key: key.reveal(), folder, commands, environment });
    if !args.quiet {
        tell(plan, agent, &url);
        output::say(&format!("what it does is shown at {url}/{}/, for you alone", key.reveal()));
        let lines = found.iter().cloned().chain(replaced(agent, &outfit, environment));
        lines.for_each(|line| output::say(&line));
    }
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(gateway.clone().serve(listener, async {
        let _ = stopped.await;
    }));
    let ended = Child::start(&args.agent, &outfit)?.wait().await;
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
    [&agent.own_compaction, &agent.note].into_iter().flatten().for_each(|line| output::say(line));
    if plan.settings.shell.gateway.commands {
        output::say(&agent.by_hand());
    }
    for line in plan.settings.note_lines(&plan.settings.warnings) {
        output::say(&line);
    }
}

/// Variables of the user's that this run does without, where they do not only say where a provider is.
fn replaced(agent: &Agent, outfit: &Outfit, environment: &Environment) -> Vec<String> {
    let is_set = |name: &str| environment.iter().any(|(known, value)| known == name && !value.is_empty());
    let names = outfit.variables.iter().map(|(name, _)| *name);
    let other = names.filter(|name| is_set(name) && !agents::is_base(name) && !agent.lists_folders(name));
    other.map(|name| format!("{name} has another value for this run than in your environment")).collect()
}

/// How a program is called in messages.
fn name(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use longhaul_engine::Tokens;
    use longhaul_engine::policy::Policy;

    use super::*;
    use crate::config::Files;

    /// The context window of a model in a run of Codex, with these variables set.
    fn window(environment: &Environment, model: &str) -> Tokens {
        let codex = Agent::of(OsStr::new("codex")).unwrap();
        let stated = Settings::from_layers(&Files::default(), environment, Vec::new()).unwrap();
        let settings =
            Settings::from_layers(&Files::default(), environment, windows(codex, &stated)).unwrap();
        Policy::new(&settings.engine, &models::find(model)).unwrap().0.window
    }

    #[test]
    fn a_model_has_the_window_that_the_agent_gives_it_unless_the_user_states_one() {
        assert_eq!(window(&Vec::new(), "gpt-5.5"), Tokens(272_000));
        assert_eq!(window(&Vec::new(), "gpt-6.1-sol"), Tokens(272_000));
        assert_eq!(window(&Vec::new(), "gpt-6.1-terra"), Tokens(500_000));
        let stated = vec![("LONGHAUL_MODELS__GPT__CONTEXT_LENGTH".to_owned(), "600000".to_owned())];
        assert_eq!(window(&stated, "gpt-5.5"), Tokens(600_000));
    }
}
