//! The `longhaul` command line: arguments go to one function, and what it gives becomes the exit code.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

mod body;
mod cli;
mod commands;
mod config;
mod failure;
mod input;
mod originals;
mod output;
mod parallel;
mod progress;
mod route;

use cli::{Cli, Command};
use config::Environment;
use failure::Failure;

fn main() -> ExitCode {
    let done = Cli::try_parse().map_or_else(|refused| cli::answer(&refused), |cli| run(&cli.command));
    match done {
        Ok(code) => code,
        Err(failure) => {
            output::say(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let environment: Environment = env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    match command {
        Command::Check(args) => return commands::check::run(args),
        Command::Tokens(args) => commands::tokens::run(args)?,
        Command::Digest(args) => commands::digest::run(args)?,
        Command::Compress(args) => return commands::compress::run(args, &environment),
        Command::Cache(args) => return commands::cache::run(args, &environment),
        Command::Cost(args) => commands::cost::run(args, &environment)?,
        Command::Stats(args) => commands::stats::run(args)?,
        Command::Recall(args) => return commands::recall::run(args),
        Command::Config(args) => commands::config::run(args, &environment)?,
        Command::Explain(args) => commands::explain::run(args, &environment)?,
        Command::Redact(args) => commands::redact::run(args, &environment)?,
        Command::Completions(args) => commands::completions::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
