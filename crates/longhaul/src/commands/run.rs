//! `longhaul run -- AGENT …`: runs an agent with a gateway of its own, which ends with the agent.

use std::env;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use longhaul_engine::{ApiFormat, models};
use longhaul_server::gateway::ClientAccess;
use longhaul_server::store::{Durability, GatewayKey, Store, StoreLocation};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::agent_setup::{self, AgentSetup, LaunchContext, LaunchSettings};
use crate::cli::{RunArgs, upstream_config_flag};
use crate::config::{Environment, Flag, Settings};
use crate::failure::Failure;
use crate::gateway_plan::{self, GatewayPlan};
use crate::output;
use crate::telemetry::{LogDestination, Telemetry};
use agent_process::AgentProcess;
use temporary_files::TemporaryFolder;

mod agent_process;
mod temporary_files;
mod totals_line;

pub(crate) fn run(args: &RunArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let [program, ..] = args.agent.as_slice() else {
        return Err(Failure::InvalidInput("no agent to run; longhaul run -- AGENT".to_owned()));
    };
    let agent =
        AgentSetup::for_program(program).ok_or_else(|| Failure::System("the table of agents is empty".to_owned()))?;
    let (flags, notices) = config_flags(args, agent, environment)?;
    let plan = GatewayPlan::new(&args.store_flags, flags, environment)?;
    let to = args.log.clone().map_or(LogDestination::Nowhere, LogDestination::File);
    let telemetry = Telemetry::start(&plan.settings, &plan.rules, environment, &to)?;
    let runtime = gateway_plan::new_runtime()?;
    let result = runtime.block_on(run_with_gateway(args, &plan, agent, environment, &notices));
    runtime.shutdown_background();
    telemetry.shut_down();
    result
}

/// Returns the options as configuration keys, together with the upstreams from the user's environment and the
/// agent's context windows, and notices about those upstreams. An upstream in our own configuration takes
/// precedence over the environment, which is meant for any program.
fn config_flags(
    args: &RunArgs,
    agent: &'static AgentSetup,
    environment: &Environment,
) -> Result<(Vec<Flag>, Vec<String>), Failure> {
    let mut flags = args.upstream.config_flags();
    let mut notices: Vec<String> = Vec::new();
    let has_upstream_flag = !flags.is_empty();
    flags.extend(args.plugins.config_flag());
    let settings = Settings::load(args.store_flags.config.as_deref(), environment, Vec::new())?;
    flags.extend(window_flags(agent, &settings));
    if has_upstream_flag {
        return Ok((flags, notices));
    }
    for (base, api_format, url) in agent_setup::base_urls(environment) {
        if settings.app.upstreams.for_api_format(api_format).base_url.is_some() {
            continue;
        }
        flags.push(upstream_config_flag(&base.variable, &api_format.to_string(), &url));
        let line = format!("{} is set, so requests are forwarded to that address", base.variable);
        if !notices.contains(&line) {
            notices.push(line);
        }
    }
    Ok((flags, notices))
}

/// Returns the agent's context windows as configuration keys, for models without a configured window.
fn window_flags(agent: &'static AgentSetup, settings: &Settings) -> Vec<Flag> {
    let rows = settings.engine.models.iter().filter(|(_, row)| row.context_length.is_some());
    let patterns: Vec<&str> = rows.map(|(pattern, _)| pattern.as_str()).collect();
    let is_unset = |(model, _): &(&str, u64)| models::matching_patterns(patterns.iter().copied(), model).is_empty();
    let flag = |(model, tokens): (&str, u64)| {
        let path = ["models", model, "context_length"].map(str::to_owned).to_vec();
        Flag { name: &agent.name, path, value: Value::from(tokens) }
    };
    agent.windows().filter(is_unset).map(flag).collect()
}

async fn run_with_gateway(
    args: &RunArgs,
    plan: &GatewayPlan,
    agent: &'static AgentSetup,
    environment: &Environment,
    notices: &[String],
) -> Result<ExitCode, Failure> {
    let store = match plan.open_store().await {
        // The agent can work without the store.
        Err(Failure::System(problem)) => {
            output::print_message(&format!("the sessions of this run are kept in memory only: {problem}"));
            Store::open(&StoreLocation::Memory, Durability::Normal).await?
        }
        opened => opened?,
    };
    let key = Arc::new(GatewayKey::random()?);
    let gateway = plan.build_gateway(store, ClientAccess::RunKey(Arc::clone(&key)))?;
    let unbound = |error| Failure::System(format!("cannot listen on this machine: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(unbound)?;
    let url = format!("http://{}", listener.local_addr().map_err(unbound)?);
    let url_with_key = agent.gateway_url(&url, key.reveal(), environment);
    let files = agent.files(&url_with_key);
    let private_folder = (!files.is_empty()).then(|| TemporaryFolder::write(&env::temp_dir(), &files)).transpose()?;
    let commands = plan.settings.app.gateway.commands;
    let folder = private_folder.as_ref().map(TemporaryFolder::folder);
    let launch_settings = agent.launch_settings(&LaunchContext {
        url: &url_with_key,
        key: key.reveal(),
        folder,
        has_commands: commands,
        environment,
    });
    if !args.quiet {
        print_setup(plan, agent, &url);
        output::print_message(&format!("the dashboard, for you alone, is at {url}/{}/", key.reveal()));
        let lines = notices.iter().cloned().chain(replaced_variables(agent, &launch_settings, environment));
        lines.for_each(|line| output::print_message(&line));
    }
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(gateway.clone().serve(listener, async {
        let _ = stopped.await;
    }));
    let ended = AgentProcess::start(&args.agent, &launch_settings)?.wait().await;
    drop(stop);
    gateway_plan::wait_until_idle(&gateway).await;
    if !args.quiet {
        output::print_message(&totals_line::totals_line(&gateway.totals(), &program_name(&args.agent[0])));
    }
    ended
}

/// Prints where the agent's requests are sent, and what else differs in this run.
fn print_setup(plan: &GatewayPlan, agent: &AgentSetup, url: &str) {
    let api_formats = [ApiFormat::Messages, ApiFormat::Chat, ApiFormat::Responses];
    let mut destinations: Vec<String> = Vec::new();
    for destination in api_formats.into_iter().filter_map(|api_format| plan.destination(api_format)) {
        let text = format!("{} ({} pays)", destination.origin(), destination.payer_text());
        if !destinations.contains(&text) {
            destinations.push(text);
        }
    }
    output::print_message(&format!("{url} forwards to {}", destinations.join(", ")));
    output::print_message(&format!("summaries are written {}", plan.summarizer_text));
    if !agent.is_known() {
        let variables: Vec<&str> = agent.address_variable_names().collect();
        output::print_message(&format!(
            "this program is not a known agent; it gets the variables {}",
            variables.join(", ")
        ));
    }
    if let Some(off_text) = agent.compaction_off_text() {
        output::print_message(&format!("its own compaction is off for this run ({off_text})"));
    }
    [&agent.own_compaction, &agent.note].into_iter().flatten().for_each(|line| output::print_message(line));
    if plan.settings.app.gateway.commands {
        output::print_message(&agent.manual_compaction_hint());
    }
    for line in plan.settings.note_lines(&plan.settings.warnings) {
        output::print_message(&line);
    }
}

/// Lists the user's environment variables that this run replaces, except those that only contain a provider's
/// URL or list folders.
fn replaced_variables(agent: &AgentSetup, launch_settings: &LaunchSettings, environment: &Environment) -> Vec<String> {
    let is_set = |name: &str| environment.iter().any(|(variable, value)| variable == name && !value.is_empty());
    let names = launch_settings.variables.iter().map(|(name, _)| *name);
    let other =
        names.filter(|name| is_set(name) && !agent_setup::is_base_url_variable(name) && !agent.lists_folders(name));
    other.map(|name| format!("{name} has another value for this run than in your environment")).collect()
}

/// Returns the name of a program for messages.
fn program_name(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use longhaul_engine::Tokens;
    use longhaul_engine::policy::Policy;

    use super::*;
    use crate::config::ConfigFiles;

    /// Returns the context window of a model in a run of Codex with these environment variables.
    fn window(environment: &Environment, model: &str) -> Tokens {
        let codex = AgentSetup::for_program(OsStr::new("codex")).unwrap();
        let patterns = Settings::from_layers(&ConfigFiles::default(), environment, Vec::new()).unwrap();
        let settings =
            Settings::from_layers(&ConfigFiles::default(), environment, window_flags(codex, &patterns)).unwrap();
        Policy::new(&settings.engine, &models::find(model)).unwrap().0.window
    }

    #[test]
    fn a_model_has_the_window_that_the_agent_gives_it_unless_the_user_states_one() {
        assert_eq!(window(&Vec::new(), "gpt-5.5"), Tokens(272_000));
        assert_eq!(window(&Vec::new(), "gpt-6.1-sol"), Tokens(272_000));
        assert_eq!(window(&Vec::new(), "gpt-6.1-terra"), Tokens(500_000));
        let patterns = vec![("LONGHAUL_MODELS__GPT__CONTEXT_LENGTH".to_owned(), "600000".to_owned())];
        assert_eq!(window(&patterns, "gpt-5.5"), Tokens(600_000));
    }
}
