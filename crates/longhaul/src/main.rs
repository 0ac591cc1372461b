//! The `longhaul` command line: arguments go to one function, and what it gives becomes the exit code.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::Parser;

mod agents;
mod body;
mod cli;
mod commands;
mod config;
mod engines;
mod failure;
mod folding;
mod input;
mod numbers;
mod originals;
mod output;
mod paid;
mod parallel;
mod progress;
mod route;
mod serving;
mod session;
mod signals;
mod store;
mod summarizer;
mod telemetry;
mod upstreams;

use cli::{Cli, Command};
use config::Environment;
use failure::Failure;
use output::Layout;

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let done = Cli::try_parse().map_or_else(
        |refused| cli::answer(&refused),
        |cli| {
            ColorChoice::from(cli.color).write_global();
            run(&cli.command)
        },
    );
    done.unwrap_or_else(|failure| fail(&failure))
}

/// Says what went wrong to people, and where JSON was asked for, to programs as well: a call may be wrong in so many ways that
/// the word itself has to tell.
fn fail(failure: &Failure) -> ExitCode {
    output::say_failure(&failure.to_string());
    let is_json = |word: &OsString| word == "--json";
    if env::args_os().skip(1).take_while(|word| word != "--").any(|word| is_json(&word)) {
        // On one line, because reports a line may stand before it.
        let _ =
            output::json(&failure.json(), Layout::Line).and_then(|line| output::write(None, line.as_bytes()));
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
