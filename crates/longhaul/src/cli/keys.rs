//! What can be typed about the keys that the gateway hands out.

use clap::{Args, Subcommand};

use super::{Answer, StorePlace};
use crate::numbers;

pub(super) const HELP: &str = "\
Example:
  longhaul keys add laptop
  longhaul keys add build-server --tenant team --requests-per-minute 60 --tokens-per-day 5M
  longhaul keys list
  longhaul keys revoke laptop

A gateway whose store has keys lets nobody in without one, also on 127.0.0.1, and also once all of them are revoked; one that is running \
is closed within five seconds of the first key. Each key leads to the sessions of one tenant only. A client sends its key as \
x-longhaul-key, as the first part of the path (http://127.0.0.1:8484/KEY/v1), or in the provider's header where the gateway holds that \
provider's key. The store keeps a hash of it: a key that is lost is revoked, and another made. The gateway of longhaul run has a key of \
its own, which only the agent gets, and takes no other.";

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) deed: KeysDeed,
}

/// What is done with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysDeed {
    /// Make a key, and print it this once
    #[command(
        after_help = "Example:\n  longhaul keys add laptop > key.txt\n  longhaul keys add ci --tenant team --tokens-per-day 5M\n\n\
        The key stands alone on standard output. Limits that are left out are none."
    )]
    Add(AddKeyArgs),
    /// List the keys, the revoked ones too
    #[command(after_help = "Example:\n  longhaul keys list\n  longhaul keys list --json")]
    List(ListKeysArgs),
    /// Let nobody in any more by a key
    #[command(
        after_help = "Example:\n  longhaul keys revoke laptop\n\nIts tenant's sessions stay, and the name is free for a new key. \
        No key in force of that name is exit code 1."
    )]
    Revoke(RevokeKeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddKeyArgs {
    /// What you call it by; no two keys in force have the same name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Whose sessions it leads to; keys of one tenant share them [default: NAME]
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// At most so many requests in a minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests_per_minute: Option<u32>,
    /// At most so many tokens in a day, UTC (500000, 500k, 5M)
    #[arg(long, value_name = "N", value_parser = numbers::tokens)]
    pub(crate) tokens_per_day: Option<u64>,
    #[command(flatten)]
    pub(crate) place: StorePlace,
}

#[derive(Debug, Args)]
pub(crate) struct ListKeysArgs {
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeKeyArgs {
    /// The name of the key
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: StorePlace,
}
