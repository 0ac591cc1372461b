//! What can be typed. Definitions only: what a command does is in `commands/`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use longhaul_engine::Dialect;
use longhaul_engine::cache::Provider;
use longhaul_engine::digest::Kind;
use longhaul_engine::policy::{CacheStrategy, CacheTtl};
use longhaul_server::agents::Extent;
use serde_json::Value;

use crate::config::{self, Flag};
use crate::failure::Failure;
use crate::{numbers, output};
pub(crate) use compress::{CompressArgs, Shown, Summarizer};
pub(crate) use keys::{AddKeyArgs, KeysArgs, KeysDeed, ListKeysArgs, RevokeKeyArgs};
pub(crate) use mcp::McpArgs;
pub(crate) use report::ReportArgs;
pub(crate) use serve::{RunArgs, ServeArgs, upstream_flag};
pub(crate) use store::{
    DeleteArgs, ExportArgs, ImportArgs, RecallArgs, ShowArgs, StorePlace, UndoArgs, VacuumArgs, Whose,
};

pub(crate) use summarize::SummarizeArgs;
pub(crate) use trust::TrustArgs;
pub(crate) use wanted::Wanted;

mod compress;
mod keys;
mod mcp;
mod report;
mod serve;
mod store;
mod summarize;
mod trust;
mod wanted;

/// Keeps LLM agents working past their context window.
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done; 1 the answer is no; 2 the call or its input is wrong; 3 an I/O error.\n\
                  With --json a failure is JSON, too: {\"error\": {\"message\", \"exit\"}} on standard output.\n\
                  Every command has an example: longhaul COMMAND --help. The manual: longhaul man | man -l -"
)]
pub(crate) struct Cli {
    /// Whether words for people are coloured; auto: on a terminal, unless `NO_COLOR` is set
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

The body is the session's last one; its requests are the beginnings of it that end where a reply begins. They go through a \
model of the provider's cache, with pauses between them: drawn (people answer after a minute and a half, 27 in 100 after more \
than five), the same each time (--pause), or the real ones (--pauses).

The policies: nothing; marks, which are cache breakpoints alone; the compressor at fixed shares of the window; the sacred \
zone; and the scheduler, which compacts below the configured threshold when that costs less in the end. What is saved is \
measured against breakpoints alone. Steps that the agent takes again because a compaction removed what they brought are priced, in the \
column forgotten; other effects of forgetting are not.

-o FILE.html writes a page with the drawing beside the table; any other -o writes what would be printed.";

const SESSIONS_HELP: &str = "\
Example:
  longhaul sessions
  longhaul sessions --agent claude --since 7d
  longhaul sessions --agent store
  longhaul cost claude:latest
  longhaul compress codex:0199a213 --preview --diff

A session is named by its agent and its id, or the beginning of it: claude:1f0c; claude:latest is the newest. Every command that \
reads a BODY takes such a name, or the session's file. Nothing is ever written where agents keep their sessions. store:ID and \
store:latest are sessions of our own store; longhaul show ID says more about one.

Tokens are the provider's count of the last request where the session has one, else ours (~). The cost is what was recorded: \
the agent's own figure, or the usage of every request at today's prices.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a provider would refuse in a request body
    #[command(
        after_help = "Example:\n  longhaul check examples/chat.json\n  longhaul check after.json --before before.json --model claude-opus-4-5\n\nExit code 1 if there is an error. --list-rules prints every rule."
    )]
    Check(CheckArgs),
    /// Count the tokens of a request body, part by part
    #[command(after_help = "Example:\n  longhaul tokens --model claude-sonnet-4-5 examples/messages.json")]
    Tokens(TokensArgs),
    /// Digest one tool output: short, true, the facts first
    #[command(after_help = "Example:\n  cargo test 2>&1 | longhaul digest --tool bash --tokens 150 -")]
    Digest(DigestArgs),
    /// Make request bodies smaller: valid, truthful, by default without any model
    #[command(after_help = compress::HELP, mut_arg("store", store::recording))]
    Compress(CompressArgs),
    /// Be a gateway: agents that talk to it go on past their window
    #[command(after_help = serve::SERVE_HELP)]
    Serve(ServeArgs),
    /// Run an agent behind a gateway of its own
    #[command(after_help = serve::RUN_HELP)]
    Run(RunArgs),
    /// Offer the store to agents as tools, over the Model Context Protocol
    #[command(after_help = mcp::HELP)]
    Mcp(McpArgs),
    /// Show what a model is asked about what is folded, and what is mended of its answer
    #[command(after_help = summarize::HELP)]
    Summarize(SummarizeArgs),
    /// Put cache breakpoints into a request body, or say what broke the cache between two
    #[command(
        after_help = "Example:\n  longhaul cache session.json --ttl 1h -o marked.json\n  longhaul cache now.json --compare before.json\n\n\
        With --compare no body is written; exit code 1 if the cache is broken."
    )]
    Cache(CacheArgs),
    /// Replay a session request by request and say what each policy would have cost
    #[command(after_help = COST_HELP, mut_arg("engine", |engine| engine.hide(true)))]
    Cost(CostArgs),
    /// Write a page that shows one compaction, before and after side by side
    #[command(after_help = report::HELP)]
    Report(ReportArgs),
    /// List the sessions of the coding agents on this machine and of the store
    #[command(after_help = SESSIONS_HELP)]
    Sessions(SessionsArgs),
    /// Write the request body that an agent's or the store's session would send next
    #[command(after_help = store::EXPORT_HELP)]
    Export(ExportArgs),
    /// Sum a log of compactions
    #[command(after_help = "Example:\n  longhaul stats compactions.jsonl")]
    Stats(StatsArgs),
    /// Print a removed block again, or search what was removed
    #[command(after_help = store::RECALL_HELP)]
    Recall(RecallArgs),
    /// Show a session of the store: its requests, its compactions, what it comes from
    #[command(after_help = store::SHOW_HELP)]
    Show(ShowArgs),
    /// Take the newest compaction of a session back
    #[command(after_help = store::UNDO_HELP)]
    Undo(UndoArgs),
    /// Put a compaction that was taken back in force again
    #[command(after_help = store::UNDO_HELP)]
    Redo(UndoArgs),
    /// Put bodies and agents' sessions into the store
    #[command(after_help = store::IMPORT_HELP)]
    Import(ImportArgs),
    /// Delete sessions of the store
    #[command(after_help = store::DELETE_HELP)]
    Delete(DeleteArgs),
    /// Delete what is old or too much, give back the room, and look for damage
    #[command(after_help = store::VACUUM_HELP)]
    Vacuum(VacuumArgs),
    /// Make, list and revoke the keys that a gateway lets clients in by
    #[command(after_help = keys::HELP, disable_help_subcommand = true)]
    Keys(KeysArgs),
    /// Print the configuration in force and where each value came from
    #[command(
        after_help = "Example:\n  LONGHAUL_COMPRESSION__THRESHOLD=0.6 longhaul config --config longhaul.yaml"
    )]
    Config(ConfigArgs),
    /// Print every number that holds for a model, and why
    #[command(after_help = "Example:\n  longhaul explain --model anthropic/claude-opus-4.5 --threshold 0.6")]
    Explain(ExplainArgs),
    /// Take the secrets out of a text
    #[command(
        after_help = "Example:\n  kubectl get secret -o yaml | longhaul redact -\n  longhaul redact --json --kind code main.py"
    )]
    Redact(RedactArgs),
    /// List the engines that compact
    #[command(
        after_help = "Example:\n  longhaul engines\n  longhaul compress session.json --engine sacred-zone --preview"
    )]
    Engines(EnginesArgs),
    /// Write a commented configuration: every key with its default
    #[command(after_help = "Example:\n  longhaul init\n  longhaul init --user\n\n\
        A file that is there is left as it is. Which configuration is read: the file of --config, or the one that LONGHAUL_CONFIG \
        names, and no other; else your own, longhaul/longhaul.yaml in XDG_CONFIG_HOME or ~/.config, and over it longhaul.yaml in this \
        folder, or the nearest in a folder above. The latter may set numbers only until you trust it: longhaul trust --help. Single \
        keys: LONGHAUL_COMPRESSION__THRESHOLD=0.6. longhaul config says what is in force.")]
    Init(InitArgs),
    /// Trust a configuration that was found in a project, as it is now
    #[command(after_help = trust::HELP)]
    Trust(TrustArgs),
    /// Print the manual, for man
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
    /// The request body: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY", required_unless_present = "list_rules")]
    pub(crate) body: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) told: Told,
    /// The body before it was rewritten: what must hold between the two is checked as well
    #[arg(long, value_name = "OLD")]
    pub(crate) before: Option<PathBuf>,
    /// Print every rule instead
    #[arg(long)]
    pub(crate) list_rules: bool,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// The request body: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) told: Told,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Whether output for people is coloured.
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

/// Who caches, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Cached {
    /// How long the cache is asked to keep a prefix [default: 5m]
    #[arg(long, value_name = "TTL", value_parser = one_of(CacheTtl::ALL, CacheTtl::name))]
    pub(crate) ttl: Option<CacheTtl>,
    /// Who takes the request: anthropic, openrouter, litellm, …; without it the model's name tells
    #[arg(long, value_name = "NAME", value_parser = provider)]
    pub(crate) provider: Option<Provider>,
}

/// Which strategies a session is replayed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategies {
    One(CacheStrategy),
    All,
}

impl Strategies {
    const ALL: [Self; 3] =
        [Self::One(CacheStrategy::SystemAndThree), Self::One(CacheStrategy::Prefix), Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::One(strategy) => strategy.name(),
            Self::All => "all",
        }
    }

    /// The one that was asked for.
    pub(crate) fn one(self) -> Option<CacheStrategy> {
        match self {
            Self::One(strategy) => Some(strategy),
            Self::All => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// The request body: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) told: Told,
    #[command(flatten)]
    pub(crate) cached: Cached,
    /// Where the breakpoints go [default: `system_and_3`]
    #[arg(long, value_name = "NAME", value_parser = one_of(CacheStrategy::ALL, CacheStrategy::name))]
    pub(crate) strategy: Option<CacheStrategy>,
    /// The body of the request before: say where this one parts from it, instead
    #[arg(long, value_name = "OLD")]
    pub(crate) compare: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// The session's last request body: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) told: Told,
    /// Replay only the first N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: Option<u32>,
    /// The pauses are drawn; another number draws others
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Seconds between any two requests, instead of drawn ones
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["seed", "pauses"])]
    pub(crate) pause: Option<f64>,
    /// The real pauses: a file with the seconds before each request but the first, a number a line
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    pub(crate) pauses: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cached: Cached,
    /// Where the breakpoints go; all shows both side by side [default: `system_and_3`]
    #[arg(long, value_name = "NAME", value_parser = one_of(Strategies::ALL, Strategies::name))]
    pub(crate) strategy: Option<Strategies>,
    #[command(flatten)]
    pub(crate) answer: Answer,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Only those of this agent; store: only those of the store
    #[arg(long, value_name = "NAME", value_parser = one_of(Whose::all(), Whose::name))]
    pub(crate) agent: Option<Whose>,
    /// Only those written to since: 7d, 12h, or a date (2026-05-01)
    #[arg(long, value_name = "WHEN", value_parser = numbers::since)]
    pub(crate) since: Option<numbers::Since>,
    /// At most so many, the newest; 0 is all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// The log that compress --log wrote: a file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// What a body does not say itself, or says wrongly.
#[derive(Debug, Args)]
pub(crate) struct Told {
    /// How the body is written: chat, messages or responses; without it its shape tells
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<Dialect>,
    /// The model, instead of the one that the body names
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Of an agent's session: every turn, as if the agent had never compacted it
    #[arg(long)]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) place: StorePlace,
}

impl Told {
    /// How much of a session is wanted.
    pub(crate) fn extent(&self) -> Extent {
        if self.whole { Extent::Whole } else { Extent::Next }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DigestArgs {
    /// The output: a file, or - for standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: PathBuf,
    /// What it is, where its content does not show it
    #[arg(long, value_name = "KIND", value_parser = one_of(Kind::all(), Kind::name))]
    pub(crate) kind: Option<Kind>,
    /// The tool that gave it
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The arguments that the tool was called with, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) arguments: Option<String>,
    /// What the task is about: lines with these words are kept first
    #[arg(long, value_name = "TOPIC")]
    pub(crate) focus: Option<String>,
    /// The most tokens it may take (150, 1k) [default: 220, or a twentieth of the output if that is more]
    #[arg(long, value_name = "N", value_parser = numbers::tokens)]
    pub(crate) tokens: Option<u64>,
    /// One line: the tool, its target, its outcome and its size
    #[arg(long, conflicts_with = "tokens")]
    pub(crate) one_line: bool,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The model, as requests name it; without one everything is assumed
    #[arg(long, value_name = "NAME", default_value = "unknown", hide_default_value = true)]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    #[command(flatten)]
    pub(crate) answer: Answer,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RedactArgs {
    /// The text; `-` is standard input. Of a session (its file, claude:latest, store:ID) it is the next request's body
    #[arg(value_name = "TEXT", required_unless_present = "list_rules")]
    pub(crate) text: Option<PathBuf>,
    /// Of an agent's session: every turn, as if the agent had never compacted it
    #[arg(long)]
    pub(crate) whole: bool,
    /// What the text is; without it, source code goes by the file's ending
    #[arg(long, value_enum)]
    pub(crate) kind: Option<TextKind>,
    /// Print what is looked for instead
    #[arg(long, conflicts_with_all = ["text", "kind"])]
    pub(crate) list_rules: bool,
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// What a text is, for redaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextKind {
    /// Prose, logs, configuration: every rule applies
    Text,
    /// Source code: assignments and fields are left alone
    Code,
    /// One JSON document: it stays valid, and protocol ids, images and sealed fields keep their bytes
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct EnginesArgs {
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write it
    #[arg(value_name = "FILE", default_value = config::FILE)]
    pub(crate) file: PathBuf,
    /// In your own configuration folder instead, for all projects
    #[arg(long, conflicts_with = "file")]
    pub(crate) user: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The page of this command; without it, the page of the whole
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Write every page to a directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Which configuration to read.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration to read; longhaul init --help says which is read without it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How to give the answer.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Print JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Answer {
    /// Where the answer goes; nothing is standard output, also where it is spelled `-`.
    pub(crate) fn to(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// Values of the configuration that are typed often enough to be options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy (defaults, where the configuration says nothing else)")]
pub(crate) struct PolicyFlags {
    /// The model's window, in tokens (200000, 200k, 1M) [default: the model's]
    #[arg(long, value_name = "N", value_parser = numbers::tokens)]
    pub(crate) context_length: Option<u64>,
    /// The share of the window at which compaction is due (0.5, 50%) [default: 0.5]
    #[arg(long, value_name = "F", allow_negative_numbers = true, value_parser = numbers::share)]
    pub(crate) threshold: Option<f64>,
    /// The protected tail, as a share of the threshold (0.2, 20%) [default: 0.2]
    #[arg(long, value_name = "F", allow_negative_numbers = true, value_parser = numbers::share)]
    pub(crate) target_ratio: Option<f64>,
    /// Messages kept at the head, beyond the system prompt [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) protect_first: Option<usize>,
    /// Recent messages kept, up to the tail's ceiling [default: 20]
    #[arg(long, value_name = "N")]
    pub(crate) protect_last: Option<usize>,
    /// The engine that compacts (compressor, sacred-zone, lossless, or a plug-in); longhaul engines says what each does [default: compressor]
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
}

/// Where plug-ins lie beside the usual places.
#[derive(Debug, Args)]
pub(crate) struct PluginsFlag {
    /// A folder of plug-ins: engines lie in its `context_engine/NAME/`
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,
}

impl PluginsFlag {
    /// What was typed, as the key it sets.
    pub(crate) fn flag(&self) -> Option<Flag> {
        let path = ["context", "plugins"].map(str::to_owned).to_vec();
        let value = self.plugins.as_ref()?.display().to_string().into();
        Some(Flag { name: "--plugins", path, value })
    }
}

impl PolicyFlags {
    /// The options that were typed, as the keys they set.
    pub(crate) fn flags(&self, model: &str) -> Vec<Flag> {
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
        flags.extend(self.plugins.flag());
        flags
    }
}

/// The options about the cache that were typed, as the keys they set.
pub(crate) fn caching_flags(ttl: Option<CacheTtl>, strategy: Option<CacheStrategy>) -> Vec<Flag> {
    let flag = |name, key: &str, value: &str| {
        let path = ["prompt_caching", key].map(str::to_owned).to_vec();
        Flag { name, path, value: value.into() }
    };
    let ttl = ttl.map(|ttl| flag("--ttl", "cache_ttl", ttl.name()));
    let strategy = strategy.map(|strategy| flag("--strategy", "strategy", strategy.name()));
    ttl.into_iter().chain(strategy).collect()
}

/// One of the values that there are, by its name.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: impl IntoIterator<Item = T>,
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let all: Vec<T> = all.into_iter().collect();
    let names = PossibleValuesParser::new(all.iter().map(|value| name(*value)));
    names.try_map(move |typed| all.iter().copied().find(|value| name(*value) == typed).ok_or("no such name"))
}

/// A provider by its name. The table of them is read only where one is named.
fn provider(name: &str) -> Result<Provider, String> {
    let names = || Provider::all().map(Provider::name).collect::<Vec<_>>().join(", ");
    Provider::named(name).ok_or_else(|| format!("there are {}", names()))
}

/// Help and version are answers; anything else that the parser gives up on is one line.
pub(crate) fn answer(refused: &clap::Error) -> Result<ExitCode, Failure> {
    let text = refused.render();
    match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::write(None, text.to_string().as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::Wrong("no command; longhaul --help lists them".to_owned()))
        }
        _ => {
            let text = text.to_string();
            let ends =
                ["\n\nUsage:", "\n\nFor more information"].map(|end| text.find(end).unwrap_or(text.len()));
            let what = text[..ends[0].min(ends[1])].trim_start_matches("error: ");
            let words: Vec<&str> = what.split_whitespace().collect();
            Err(Failure::Wrong(format!("{}; see --help", words.join(" ").replace(" tip:", "; tip:"))))
        }
    }
}
