//! The command-line arguments. This module has definitions only; `commands/` has the code of each command.
//!
//! A struct `…Args` has all arguments of one command. A struct `…Flags` or `…Flag` has options that several
//! commands share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use longhaul_agents::Extent;
use longhaul_engine::ApiFormat;
use longhaul_engine::cache::CacheProvider;
use longhaul_engine::digest::OutputKind;
use longhaul_engine::policy::{CacheStrategy, CacheTtl};
use serde_json::Value;

use crate::config::{self, Flag};
use crate::failure::Failure;
use crate::{output, typed_numbers};
pub(crate) use compress::{CompressArgs, ResultPart, SummarizerChoice};
pub(crate) use keys::{AddKeyArgs, KeysArgs, KeysCommand, ListKeysArgs, RevokeKeyArgs};
pub(crate) use mcp::McpArgs;
pub(crate) use report::ReportArgs;
pub(crate) use serve::{RunArgs, ServeArgs, upstream_config_flag};
pub(crate) use store::{
    DeleteArgs, ExportArgs, ImportArgs, RecallArgs, SessionSource, ShowArgs, StoreFlags, UndoArgs, VacuumArgs,
};

pub(crate) use compaction::CompactionFlags;
pub(crate) use summarize::SummarizeArgs;
pub(crate) use trust::TrustArgs;

mod compaction;
mod compress;
mod keys;
mod mcp;
#[cfg(test)]
pub(crate) mod reference;
mod report;
mod serve;
mod store;
mod summarize;
mod trust;

/// Keep LLM agents working past their context window
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done; 1 negative result (a check failed, nothing found, target not reached);\n\
                  2 wrong arguments or input; 3 the environment failed (network, disk).\n\
                  With --json, a failure is JSON too: {\"error\": {\"message\", \"exit\"}} on standard output.\n\
                  Every command has an example: longhaul COMMAND --help. The manual: longhaul man | man -l -"
)]
pub(crate) struct Cli {
    /// Color the output for people; auto does so on a terminal, unless `NO_COLOR` is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto, global = true, display_order = 999)]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const COST_HELP: &str = "\
Example:
  longhaul cost session.json --model claude-sonnet-4-5 --context-length 100000
  longhaul cost session.json -o cost.html
  longhaul cost session.json --json --seed 7 | jq '.policies[] | {name, usd}'

BODY is the last request of the session. The earlier requests are the parts of it that end before a reply. They are replayed \
against a model of the provider's cache, with pauses between them: simulated (people answer after a minute and a half, 27 in \
100 after more than five minutes), always the same (--pause), or the real ones (--pauses).

The policies: `nothing`; `marks`, which sets only cache breakpoints; the compressor at fixed shares of the window; the sacred \
zone; and the scheduler, which compacts below the configured threshold if that costs less in the end. Savings are measured \
against cache breakpoints alone. Forgetting has a price: the column forgotten has the cost of turns that the agent repeats \
because a compaction removed their results. Other effects of forgetting are not priced.

-o FILE.html writes a page with a chart beside the table; any other -o writes what would be printed.";

const SESSIONS_HELP: &str = "\
Example:
  longhaul sessions
  longhaul sessions --agent claude --since 7d
  longhaul sessions --agent store
  longhaul cost claude:latest
  longhaul compress codex:0199a213 --preview --diff

A session is named by its agent and its ID, or the start of the ID: claude:1f0c; claude:latest is the newest. Every command \
that reads a BODY accepts such a name, or the session's file. Longhaul never writes into the folders of agents. store:ID and \
store:latest are sessions of the store; longhaul show ID describes one.

Tokens are the provider's count for the last request if the session has one, else our own count (~). The cost is the recorded \
one: the agent's own figure, or the usage of every request at today's prices.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a request for what a provider would refuse
    #[command(
        after_help = "Example:\n  longhaul check examples/chat.json\n  longhaul check after.json --before before.json --model claude-opus-4-5\n\nExit code 1 if there is an error. --list-rules prints every rule."
    )]
    Check(CheckArgs),
    /// Count the tokens of a request, part by part
    #[command(after_help = "Example:\n  longhaul tokens --model claude-sonnet-4-5 examples/messages.json")]
    Tokens(TokensArgs),
    /// Shorten one tool output to its most important facts
    #[command(after_help = "Example:\n  cargo test 2>&1 | longhaul digest --tool bash --tokens 150 -")]
    Digest(DigestArgs),
    /// Compact requests, by default without calling a model
    #[command(after_help = compress::HELP, mut_arg("store", store::as_recording_flag))]
    Compress(CompressArgs),
    /// Run the gateway, so that agents keep working past their context window
    #[command(after_help = serve::SERVE_HELP)]
    Serve(ServeArgs),
    /// Run an agent behind its own gateway
    #[command(after_help = serve::RUN_HELP)]
    Run(RunArgs),
    /// Run an MCP server that offers the store to agents as tools
    #[command(after_help = mcp::HELP)]
    Mcp(McpArgs),
    /// Show the prompt for a model's summary, and the corrections to its reply
    #[command(after_help = summarize::HELP)]
    Summarize(SummarizeArgs),
    /// Add cache breakpoints to a request, or show what broke the cache between two
    #[command(
        after_help = "Example:\n  longhaul cache session.json --ttl 1h -o marked.json\n  longhaul cache now.json --compare before.json\n\n\
        With --compare, no request is written, and the exit code is 1 if the cache is broken."
    )]
    Cache(CacheArgs),
    /// Replay a session request by request, and show what each policy would have cost
    #[command(after_help = COST_HELP, mut_arg("engine", |engine| engine.hide(true)))]
    Cost(CostArgs),
    /// Write a page that shows one compaction, before and after side by side
    #[command(after_help = report::HELP)]
    Report(ReportArgs),
    /// List the sessions of the coding agents on this machine and of the store
    #[command(after_help = SESSIONS_HELP)]
    Sessions(SessionsArgs),
    /// Write the request that a session would send next
    #[command(after_help = store::EXPORT_HELP)]
    Export(ExportArgs),
    /// Add up a log of compactions
    #[command(after_help = "Example:\n  longhaul stats compactions.jsonl")]
    Stats(StatsArgs),
    /// Print a removed block, or search all blocks of a session
    #[command(after_help = store::RECALL_HELP)]
    Recall(RecallArgs),
    /// Show a session of the store: its requests, its compactions and its origin
    #[command(after_help = store::SHOW_HELP)]
    Show(ShowArgs),
    /// Undo the newest compaction of a session
    #[command(after_help = store::undo_help())]
    Undo(UndoArgs),
    /// Redo a compaction that was undone
    #[command(after_help = store::undo_help())]
    Redo(UndoArgs),
    /// Import requests and agents' sessions into the store
    #[command(after_help = store::IMPORT_HELP)]
    Import(ImportArgs),
    /// Delete sessions of the store
    #[command(after_help = store::DELETE_HELP)]
    Delete(DeleteArgs),
    /// Delete old sessions, free disk space, and check the store for damage
    #[command(after_help = store::VACUUM_HELP)]
    Vacuum(VacuumArgs),
    /// Add, list and revoke the keys for clients of a gateway
    #[command(after_help = keys::HELP, disable_help_subcommand = true)]
    Keys(KeysArgs),
    /// Print the active configuration and the origin of each value
    #[command(after_help = "Example:\n  LONGHAUL_COMPRESSION__THRESHOLD=0.6 longhaul config --config longhaul.yaml")]
    Config(ConfigArgs),
    /// Print every number that applies to a model, with the reason
    #[command(after_help = "Example:\n  longhaul explain --model anthropic/claude-opus-4.5 --threshold 0.6")]
    Explain(ExplainArgs),
    /// Redact the secrets in a text
    #[command(
        after_help = "Example:\n  kubectl get secret -o yaml | longhaul redact -\n  longhaul redact --json --kind code main.py"
    )]
    Redact(RedactArgs),
    /// List the compaction engines
    #[command(
        after_help = "Example:\n  longhaul engines\n  longhaul compress session.json --engine sacred-zone --preview"
    )]
    Engines(EnginesArgs),
    /// Write a commented configuration file with every key and its default
    #[command(after_help = "Example:\n  longhaul init\n  longhaul init --user\n\n\
        An existing file is not changed. Longhaul reads only the file of --config, or the one that LONGHAUL_CONFIG names. Without them \
        it reads your own file, longhaul/longhaul.yaml in XDG_CONFIG_HOME or ~/.config, and then longhaul.yaml in this folder or in \
        the nearest folder above, which overrides yours. Until you trust that file, it may set only numbers: longhaul trust --help. A \
        variable sets a single key: LONGHAUL_COMPRESSION__THRESHOLD=0.6. longhaul config prints the active configuration.")]
    Init(InitArgs),
    /// Trust a configuration file of a project, with its current content
    #[command(after_help = trust::HELP)]
    Trust(TrustArgs),
    /// Print the manual page, for man
    #[command(
        after_help = "Example:\n  longhaul man | man -l -\n  longhaul man compress | man -l -\n  longhaul man --out-dir ~/.local/share/man/man1"
    )]
    Man(ManArgs),
    /// Print a script that completes commands and options in a shell
    #[command(
        after_help = "Example:\n  longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul"
    )]
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The request: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY", required_unless_present = "list_rules")]
    pub(crate) body: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    /// The request before it was rewritten; the rules between the two are checked as well
    #[arg(long, value_name = "OLD")]
    pub(crate) before: Option<PathBuf>,
    /// Print all rules instead of checking a request
    #[arg(long)]
    pub(crate) list_rules: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// The request: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// When the output for people is colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::AlwaysAnsi,
            Color::Never => Self::Never,
        }
    }
}

/// The options about the provider's prompt cache.
#[derive(Debug, Args)]
pub(crate) struct CachingFlags {
    /// How long the cache keeps a prefix [default: 5m]
    #[arg(long, value_name = "TTL", value_parser = name_parser(CacheTtl::ALL, CacheTtl::name))]
    pub(crate) ttl: Option<CacheTtl>,
    /// The provider of the request: anthropic, openrouter, litellm, …; without it, the model's name decides
    #[arg(long, value_name = "NAME", value_parser = parse_provider)]
    pub(crate) provider: Option<CacheProvider>,
}

/// The breakpoint strategies with which `cost` replays a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StrategyChoice {
    One(CacheStrategy),
    All,
}

impl StrategyChoice {
    const ALL: [Self; 3] = [Self::One(CacheStrategy::SystemAndThree), Self::One(CacheStrategy::Prefix), Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::One(strategy) => strategy.name(),
            Self::All => "all",
        }
    }

    /// Returns the strategy, if a single one was chosen.
    pub(crate) fn single(self) -> Option<CacheStrategy> {
        match self {
            Self::One(strategy) => Some(strategy),
            Self::All => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// The request: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) caching: CachingFlags,
    /// Where to place the breakpoints [default: `system_and_3`]
    #[arg(long, value_name = "NAME", value_parser = name_parser(CacheStrategy::ALL, CacheStrategy::name))]
    pub(crate) strategy: Option<CacheStrategy>,
    /// The previous request; show where the two differ first, instead of adding breakpoints
    #[arg(long, value_name = "OLD")]
    pub(crate) compare: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// The session's last request: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    /// Replay only the first N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: Option<u32>,
    /// The seed of the simulated pauses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Seconds between any two requests, instead of simulated pauses
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["seed", "pauses"])]
    pub(crate) pause: Option<f64>,
    /// The real pauses: a file with the seconds before each request but the first, one number per line
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    pub(crate) pauses: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) caching: CachingFlags,
    /// Where to place the breakpoints; all shows both strategies side by side [default: `system_and_3`]
    #[arg(long, value_name = "NAME", value_parser = name_parser(StrategyChoice::ALL, StrategyChoice::name))]
    pub(crate) strategy: Option<StrategyChoice>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Only sessions of this agent; store: only sessions of the store
    #[arg(long, value_name = "NAME", value_parser = name_parser(SessionSource::all(), SessionSource::name))]
    pub(crate) agent: Option<SessionSource>,
    /// Only sessions written since then: 7d, 12h, or a date (2026-05-01)
    #[arg(long, value_name = "WHEN", value_parser = typed_numbers::parse_since)]
    pub(crate) since: Option<typed_numbers::Since>,
    /// The maximum number of sessions, newest first; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// The log that compress --log wrote: a file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// The options for a body that does not state its API format or model, or states them wrongly.
#[derive(Debug, Args)]
pub(crate) struct InputFlags {
    /// The API format of the request: chat, messages or responses; without it, the shape of the request decides
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<ApiFormat>,
    /// The model, instead of the one in the request
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Read every turn of an agent's session, as if the agent had never compacted it
    #[arg(long)]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
}

impl InputFlags {
    /// Returns how much of an agent's session to read.
    pub(crate) fn extent(&self) -> Extent {
        if self.whole { Extent::FullHistory } else { Extent::NextRequest }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DigestArgs {
    /// The tool output: a file, or - for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: PathBuf,
    /// The kind of the output, if its content does not show it
    #[arg(long, value_name = "KIND", value_parser = name_parser(OutputKind::all(), OutputKind::name))]
    pub(crate) kind: Option<OutputKind>,
    /// The tool that produced it
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The arguments of the tool call, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) arguments: Option<String>,
    /// The topic of the task; lines with these words are kept first
    #[arg(long, value_name = "TOPIC")]
    pub(crate) focus: Option<String>,
    /// The maximum size of the result, in tokens (150, 1k) [default: 220, or a twentieth of the output if
    /// that is more]
    #[arg(long, value_name = "N", value_parser = typed_numbers::parse_tokens)]
    pub(crate) tokens: Option<u64>,
    /// Write a single line: the tool, its target, its outcome and its size
    #[arg(long, conflicts_with = "tokens")]
    pub(crate) one_line: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The model, as requests name it; without one, the numbers for an unknown model are printed
    #[arg(long, value_name = "NAME", default_value = "unknown", hide_default_value = true)]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RedactArgs {
    /// The text: a file, `-` for standard input, or a session (its file, claude:latest, store:ID), of which
    /// the next request is redacted
    #[arg(value_name = "TEXT", required_unless_present = "list_rules")]
    pub(crate) text: Option<PathBuf>,
    /// Read every turn of an agent's session, as if the agent had never compacted it
    #[arg(long)]
    pub(crate) whole: bool,
    /// The kind of the text; without it, the file extension decides whether it is source code
    #[arg(long, value_enum)]
    pub(crate) kind: Option<TextKind>,
    /// Print the redaction rules instead
    #[arg(long, conflicts_with_all = ["text", "kind"])]
    pub(crate) list_rules: bool,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// The kind of a text, which decides how it is redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextKind {
    /// Prose, logs, configuration: every rule applies
    Text,
    /// Source code: assignments and fields stay unchanged
    Code,
    /// One JSON document: it stays valid, and protocol IDs, images and sealed fields keep their bytes
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct EnginesArgs {
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The file to write
    #[arg(value_name = "FILE", default_value = config::CONFIG_FILE_NAME)]
    pub(crate) file: PathBuf,
    /// Write to your own configuration folder instead, for all projects
    #[arg(long, conflicts_with = "file")]
    pub(crate) user: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command; without it, the manual page of longhaul itself
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Write all manual pages to a directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// The option that names the configuration file.
#[derive(Debug, Args)]
pub(crate) struct ConfigFlag {
    /// The configuration file; longhaul init --help lists the files that are read without it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The options that say where and how the result is written.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Print JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl OutputFlags {
    /// Returns the file to write to, or `None` for standard output, which can also be spelled `-`.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// The options for configuration keys that people set often.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy (the defaults apply if the configuration does not set the key)")]
pub(crate) struct PolicyFlags {
    /// The context window of the model, in tokens (200000, 200k, 1M) [default: the model's]
    #[arg(long, value_name = "N", value_parser = typed_numbers::parse_tokens)]
    pub(crate) context_length: Option<u64>,
    /// The share of the window that triggers a compaction (0.5, 50%) [default: 0.5]
    #[arg(long, value_name = "F", allow_negative_numbers = true, value_parser = typed_numbers::parse_share)]
    pub(crate) threshold: Option<f64>,
    /// The size of the protected tail, as a share of the threshold (0.2, 20%) [default: 0.2]
    #[arg(long, value_name = "F", allow_negative_numbers = true, value_parser = typed_numbers::parse_share)]
    pub(crate) target_ratio: Option<f64>,
    /// Messages to keep at the start, besides the system prompt [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) protect_first: Option<usize>,
    /// Recent messages to keep, up to the maximum size of the tail [default: 20]
    #[arg(long, value_name = "N")]
    pub(crate) protect_last: Option<usize>,
    /// The engine that compacts (compressor, sacred-zone, lossless, or a plug-in); longhaul engines describes
    /// each [default: compressor]
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
}

/// The option that names a folder of plug-ins, besides the default folders.
#[derive(Debug, Args)]
pub(crate) struct PluginsFlag {
    /// A folder of plug-ins, with engines in its `context_engine/NAME/`
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,
}

impl PluginsFlag {
    /// Returns the option, if it was given, as the configuration key that it sets.
    pub(crate) fn config_flag(&self) -> Option<Flag> {
        let path = ["context", "plugins"].map(str::to_owned).to_vec();
        let value = self.plugins.as_ref()?.display().to_string().into();
        Some(Flag { name: "--plugins", path, value })
    }
}

impl PolicyFlags {
    /// Returns the options that were given as the configuration keys that they set.
    pub(crate) fn config_flags(&self, model: &str) -> Vec<Flag> {
        let window = ["models", model, "context_length"];
        let typed: [(_, &[&str], Option<Value>); 6] = [
            ("--context-length", &window, self.context_length.map(Value::from)),
            ("--threshold", &["compression", "threshold"], self.threshold.map(Value::from)),
            ("--target-ratio", &["compression", "target_ratio"], self.target_ratio.map(Value::from)),
            ("--protect-first", &["compression", "protect_first_n"], self.protect_first.map(Value::from)),
            ("--protect-last", &["compression", "protect_last_n"], self.protect_last.map(Value::from)),
            ("--engine", &["context", "engine"], self.engine.as_deref().map(Value::from)),
        ];
        let mut flags = Vec::new();
        for (name, path, value) in typed {
            if let Some(value) = value {
                flags.push(Flag { name, path: path.iter().map(|&part| part.to_owned()).collect(), value });
            }
        }
        flags.extend(self.plugins.config_flag());
        flags
    }
}

/// Returns the cache options that were given as the configuration keys that they set.
pub(crate) fn caching_config_flags(ttl: Option<CacheTtl>, strategy: Option<CacheStrategy>) -> Vec<Flag> {
    let flag = |name, key: &str, value: &str| {
        let path = ["prompt_caching", key].map(str::to_owned).to_vec();
        Flag { name, path, value: value.into() }
    };
    let ttl = ttl.map(|ttl| flag("--ttl", "cache_ttl", ttl.name()));
    let strategy = strategy.map(|strategy| flag("--strategy", "strategy", strategy.name()));
    ttl.into_iter().chain(strategy).collect()
}

/// Builds a parser that accepts the name of one of these values.
fn name_parser<T: Copy + Send + Sync + 'static>(
    all: impl IntoIterator<Item = T>,
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let all: Vec<T> = all.into_iter().collect();
    let names = PossibleValuesParser::new(all.iter().map(|value| name(*value)));
    names.try_map(move |typed| all.iter().copied().find(|value| name(*value) == typed).ok_or("unknown name"))
}

/// Finds a provider by its name. The table of providers is loaded only if one is named.
fn parse_provider(name: &str) -> Result<CacheProvider, String> {
    let names = || CacheProvider::all().map(CacheProvider::name).collect::<Vec<_>>().join(", ");
    CacheProvider::find(name).ok_or_else(|| format!("unknown provider; use one of {}", names()))
}

/// Prints help and version texts as a success, and turns any other parser error into a failure of one line.
pub(crate) fn handle_parse_error(refused: &clap::Error) -> Result<ExitCode, Failure> {
    let text = refused.render();
    match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::write(None, text.to_string().as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::InvalidInput("no command; longhaul --help lists them".to_owned()))
        }
        _ => {
            let text = text.to_string();
            let ends = ["\n\nUsage:", "\n\nFor more information"].map(|end| text.find(end).unwrap_or(text.len()));
            let what = text[..ends[0].min(ends[1])].trim_start_matches("error: ");
            let words: Vec<&str> = what.split_whitespace().collect();
            let remedy = if is_run_without_dashes(refused) {
                "put -- before the agent: longhaul run -- AGENT"
            } else {
                "see --help"
            };
            Err(Failure::InvalidInput(format!("{}; {remedy}", words.join(" ").replace(" tip:", "; tip:"))))
        }
    }
}

/// Whether `longhaul run` got an agent without the `--` before it.
fn is_run_without_dashes(refused: &clap::Error) -> bool {
    let is_run = |usage: &ContextValue| usage.to_string().contains("longhaul run ");
    let is_word = |argument: &ContextValue| !argument.to_string().starts_with('-');
    refused.kind() == ErrorKind::UnknownArgument
        && refused.get(ContextKind::Usage).is_some_and(is_run)
        && refused.get(ContextKind::InvalidArg).is_some_and(is_word)
}
