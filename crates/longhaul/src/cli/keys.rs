//! The arguments of `longhaul keys`, for the keys with which clients use a gateway.

use clap::{Args, Subcommand};

use super::{OutputFlags, StoreFlags};
use crate::typed_numbers;

pub(super) const HELP: &str = "\
Example:
  longhaul keys add laptop
  longhaul keys add build-server --tenant team --requests-per-minute 60 --tokens-per-day 5M
  longhaul keys list
  longhaul keys revoke laptop

A gateway whose store has keys requires one from every client, also on 127.0.0.1 and also after all keys are revoked. A \
running gateway requires keys within five seconds of the first one. Each key gives access to the sessions of one tenant. A \
client sends its key as x-longhaul-key, as the first part of the path (http://127.0.0.1:8484/KEY/v1), or in the provider's \
header if the gateway has that provider's key. The store has only a hash of each key: if you lose a key, revoke it and add \
another. The gateway of longhaul run has its own key, which only the agent gets, and accepts no other.";

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

/// The subcommands of `longhaul keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key, and print it once
    #[command(
        after_help = "Example:\n  longhaul keys add laptop > key.txt\n  longhaul keys add ci --tenant team --tokens-per-day 5M\n\n\
        The key is printed alone on standard output. Without an option there is no limit."
    )]
    Add(AddKeyArgs),
    /// List all keys, including the revoked ones
    #[command(after_help = "Example:\n  longhaul keys list\n  longhaul keys list --json")]
    List(ListKeysArgs),
    /// Revoke a key
    #[command(
        after_help = "Example:\n  longhaul keys revoke laptop\n\nThe sessions of its tenant stay, and the name can be used again. \
        The exit code is 1 if no active key has that name."
    )]
    Revoke(RevokeKeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddKeyArgs {
    /// The name of the key; no two active keys have the same name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The tenant whose sessions the key can use; keys of one tenant share them [default: NAME]
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// The maximum number of requests per minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests_per_minute: Option<u32>,
    /// The maximum number of tokens per day, UTC (500000, 500k, 5M)
    #[arg(long, value_name = "N", value_parser = typed_numbers::parse_tokens)]
    pub(crate) tokens_per_day: Option<u64>,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ListKeysArgs {
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeKeyArgs {
    /// The name of the key
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
}
