//! The `longhaul` binary: parses the arguments, runs one command and turns its result into the exit code.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::Parser;

mod agent_session;
mod agent_setup;
mod body_planner;
mod cli;
mod commands;
mod config;
mod engines;
mod failure;
mod gateway_plan;
mod input;
mod originals;
mod output;
mod parallel;
mod progress;
mod provider_choice;
mod recorded_cost;
mod request_body;
mod signals;
mod store;
mod summarizer;
mod telemetry;
mod typed_numbers;
mod upstreams;

use cli::{Cli, Command};
use config::Environment;
use failure::Failure;
use output::JsonLayout;

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let done = Cli::try_parse().map_or_else(
        |refused| cli::handle_parse_error(&refused),
        |cli| {
            ColorChoice::from(cli.color).write_global();
            run(&cli.command)
        },
    );
    done.unwrap_or_else(|failure| report_failure(&failure))
}

/// Prints a failure for people and, if `--json` was given, for programs too. It looks for `--json` in the raw
/// arguments, because the parser may have rejected them.
fn report_failure(failure: &Failure) -> ExitCode {
    output::print_failure(&failure.to_string());
    let is_json = |word: &OsString| word == "--json";
    if env::args_os().skip(1).take_while(|word| word != "--").any(|word| is_json(&word)) {
        // On one line, because each line before it may be a report in JSON.
        let _ = output::to_json(&failure.to_json(), JsonLayout::Compact)
            .and_then(|line| output::write(None, line.as_bytes()));
    }
    ExitCode::from(failure.exit_code())
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let environment: Environment = env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    match command {
        Command::Check(args) => return commands::check::run(args),
        Command::Tokens(args) => commands::tokens::run(args)?,
        Command::Digest(args) => commands::digest::run(args)?,
        Command::Compress(args) => return commands::compress::run(args, &environment),
        Command::Serve(args) => return commands::serve::run(args, &environment),
        Command::Mcp(args) => return commands::mcp::run(args, &environment),
        Command::Run(args) => return commands::run::run(args, &environment),
        Command::Summarize(args) => commands::summarize::run(args, &environment)?,
        Command::Cache(args) => return commands::cache::run(args, &environment),
        Command::Cost(args) => commands::cost::run(args, &environment)?,
        Command::Report(args) => return commands::report::run(args, &environment),
        Command::Sessions(args) => commands::sessions::run(args, &environment)?,
        Command::Export(args) => commands::export::run(args)?,
        Command::Stats(args) => commands::stats::run(args)?,
        Command::Recall(args) => return commands::recall::run(args),
        Command::Show(args) => commands::show::run(args)?,
        Command::Undo(args) => commands::undo::undo(args)?,
        Command::Redo(args) => commands::undo::redo(args)?,
        Command::Import(args) => return commands::import::run(args, &environment),
        Command::Delete(args) => commands::delete::run(args)?,
        Command::Vacuum(args) => return commands::vacuum::run(args, &environment),
        Command::Keys(args) => commands::keys::run(args)?,
        Command::Config(args) => commands::config::run(args, &environment)?,
        Command::Explain(args) => commands::explain::run(args, &environment)?,
        Command::Redact(args) => commands::redact::run(args, &environment)?,
        Command::Engines(args) => commands::engines::run(args, &environment)?,
        Command::Init(args) => commands::init::run(args, &environment)?,
        Command::Trust(args) => commands::trust::run(args, &environment)?,
        Command::Man(args) => commands::man::run(args)?,
        Command::Completions(args) => commands::completions::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
