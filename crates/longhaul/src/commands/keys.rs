//! `longhaul keys`: adds, lists and revokes the keys of the gateway's clients.

use longhaul_engine::Tokens;
use longhaul_server::store::{DailyKeyUsage, KeyInfo, KeyLimits};
use serde::Serialize;

use crate::cli::{AddKeyArgs, KeysArgs, KeysCommand, ListKeysArgs, RevokeKeyArgs};
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, ERROR_STYLE, Page, StyledLine};
use crate::store::{self, ConfiguredStore, now};

#[derive(Serialize)]
struct KeysOutput<'k> {
    keys: Vec<KeysRow<'k>>,
}

#[derive(Serialize)]
struct KeysRow<'k> {
    name: &'k str,
    /// The first characters of the key.
    prefix: &'k str,
    tenant: &'k str,
    requests_per_minute: Option<u32>,
    tokens_per_day: Option<Tokens>,
    created: String,
    /// The last day on which the key was used.
    used: Option<KeyUsageDay>,
    revoked: Option<String>,
}

#[derive(Serialize)]
struct KeyUsageDay {
    day: String,
    tokens: Tokens,
}

pub(crate) fn run(args: &KeysArgs) -> Result<(), Failure> {
    match &args.command {
        KeysCommand::Add(args) => add_key(args),
        KeysCommand::List(args) => list_keys(args),
        KeysCommand::Revoke(args) => revoke_key(args),
    }
}

fn add_key(args: &AddKeyArgs) -> Result<(), Failure> {
    if args.name.trim().is_empty() {
        return Err(Failure::InvalidInput("the name of the key is empty; give a name, such as laptop".to_owned()));
    }
    let store = ConfiguredStore::from_flags(&args.store_flags)?.open_or_create()?;
    let (name, tenant) = (args.name.trim(), args.tenant.as_deref().unwrap_or(&args.name).trim());
    let limits =
        KeyLimits { requests_per_minute: args.requests_per_minute, tokens_per_day: args.tokens_per_day.map(Tokens) };
    let secret = store.run(store.store.add_key(tenant, name, limits, now()))?;
    output::write(None, format!("{}\n", secret.reveal()).as_bytes())?;
    output::print_message(&format!(
        "the key {name} gives access to the sessions of the tenant {tenant}; it is shown only once, and clients send it as x-longhaul-key"
    ));
    Ok(())
}

fn list_keys(args: &ListKeysArgs) -> Result<(), Failure> {
    let store = ConfiguredStore::from_flags(&args.store_flags)?.open_existing()?;
    let keys = store.run(store.store.keys())?;
    if args.output.json {
        return output::write_json(args.output.file(), &KeysOutput { keys: keys.iter().map(key_row).collect() });
    }
    if keys.is_empty() {
        let store_option = store::store_option(args.store_flags.store.as_deref());
        output::print_message(&format!("there are no keys; longhaul keys add NAME{store_option} adds one"));
        return Ok(());
    }
    output::write_page(args.output.file(), &page(&keys))
}

fn revoke_key(args: &RevokeKeyArgs) -> Result<(), Failure> {
    let store = ConfiguredStore::from_flags(&args.store_flags)?.open_existing()?;
    let name = args.name.trim();
    store.run(store.store.revoke_key(name, now()))?;
    let mut page = Page::default();
    page.add_line(format!("the key {name} is revoked"));
    output::write_page(None, &page)
}

fn key_row(key: &KeyInfo) -> KeysRow<'_> {
    let day = |DailyKeyUsage { day, tokens }| KeyUsageDay { day: day.to_string(), tokens };
    KeysRow {
        name: &key.name,
        prefix: &key.prefix,
        tenant: &key.tenant,
        requests_per_minute: key.limits.requests_per_minute,
        tokens_per_day: key.limits.tokens_per_day,
        created: key.created.to_string(),
        used: key.last_usage.map(day),
        revoked: key.revoked.map(|at| at.to_string()),
    }
}

fn page(keys: &[KeyInfo]) -> Page {
    let mut page = Page::default();
    let head = ["name", "key", "tenant", "requests/minute", "tokens/day", "created", "last used", ""];
    let mut rows = vec![head.map(|name| StyledLine::default().styled(EMPHASIS_STYLE, name))];
    let shown = |text: Option<String>| StyledLine::from(text.unwrap_or_else(|| "-".to_owned()));
    rows.extend(keys.iter().map(|key| {
        let used = |DailyKeyUsage { day, tokens }: DailyKeyUsage| format!("{day}, {tokens} tokens");
        let revoked = key.revoked.map(|at| format!("revoked {at}"));
        [
            StyledLine::from(key.name.as_str()),
            StyledLine::from(format!("{}…", key.prefix)),
            StyledLine::from(key.tenant.as_str()),
            shown(key.limits.requests_per_minute.map(|requests| requests.to_string())),
            shown(key.limits.tokens_per_day.map(|tokens| tokens.to_string())),
            StyledLine::from(key.created.to_string()),
            shown(key.last_usage.map(used)),
            StyledLine::default().styled(ERROR_STYLE, revoked.unwrap_or_default()),
        ]
    }));
    page.add_table(rows);
    page
}
