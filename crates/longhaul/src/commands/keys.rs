//! `longhaul keys`: who may come in by the gateway.

use longhaul_engine::Tokens;
use longhaul_server::store::{KeyRow, Limits, Used};
use serde::Serialize;

use crate::cli::{AddKeyArgs, KeysArgs, KeysDeed, ListKeysArgs, RevokeKeyArgs};
use crate::failure::Failure;
use crate::output::{self, BAD, Line, Page, STRONG};
use crate::store::{self, Whereabouts, now};

#[derive(Serialize)]
struct Answer<'k> {
    keys: Vec<Row<'k>>,
}

#[derive(Serialize)]
struct Row<'k> {
    name: &'k str,
    /// How it begins.
    prefix: &'k str,
    tenant: &'k str,
    requests_per_minute: Option<u32>,
    tokens_per_day: Option<Tokens>,
    created: String,
    /// The day on which it was used last, and how much.
    used: Option<Day>,
    revoked: Option<String>,
}

#[derive(Serialize)]
struct Day {
    day: String,
    tokens: Tokens,
}

pub(crate) fn run(args: &KeysArgs) -> Result<(), Failure> {
    match &args.deed {
        KeysDeed::Add(args) => add(args),
        KeysDeed::List(args) => list(args),
        KeysDeed::Revoke(args) => revoke(args),
    }
}

fn add(args: &AddKeyArgs) -> Result<(), Failure> {
    let kept = Whereabouts::of(&args.place)?.open()?;
    let (name, tenant) = (args.name.trim(), args.tenant.as_deref().unwrap_or(&args.name).trim());
    let limits = Limits {
        requests_per_minute: args.requests_per_minute,
        tokens_per_day: args.tokens_per_day.map(Tokens),
    };
    let secret = kept.run(kept.store.add_key(tenant, name, limits, now()))?;
    output::write(None, format!("{}\n", secret.reveal()).as_bytes())?;
    output::say(&format!(
        "the key {name} leads to the sessions of the tenant {tenant}; it is shown this once, and a client sends it as x-longhaul-key"
    ));
    Ok(())
}

fn list(args: &ListKeysArgs) -> Result<(), Failure> {
    let kept = Whereabouts::of(&args.place)?.existing()?;
    let keys = kept.run(kept.store.keys())?;
    if args.answer.json {
        return output::write_json(args.answer.to(), &Answer { keys: keys.iter().map(row).collect() });
    }
    if keys.is_empty() {
        let place = store::option(args.place.store.as_deref());
        output::say(&format!("there are no keys; longhaul keys add NAME{place} makes one"));
        return Ok(());
    }
    output::give(args.answer.to(), &page(&keys))
}

fn revoke(args: &RevokeKeyArgs) -> Result<(), Failure> {
    let kept = Whereabouts::of(&args.place)?.existing()?;
    let name = args.name.trim();
    kept.run(kept.store.revoke_key(name, now()))?;
    let mut page = Page::default();
    page.line(format!("the key {name} is revoked"));
    output::give(None, &page)
}

fn row(key: &KeyRow) -> Row<'_> {
    let day = |Used { day, tokens }| Day { day: day.to_string(), tokens };
    Row {
        name: &key.name,
        prefix: &key.prefix,
        tenant: &key.tenant,
        requests_per_minute: key.limits.requests_per_minute,
        tokens_per_day: key.limits.tokens_per_day,
        created: key.created.to_string(),
        used: key.used.map(day),
        revoked: key.revoked.map(|at| at.to_string()),
    }
}

fn page(keys: &[KeyRow]) -> Page {
    let mut page = Page::default();
    let head = ["name", "key", "tenant", "a minute", "tokens a day", "made", "last used", ""];
    let mut rows = vec![head.map(|name| Line::default().styled(STRONG, name))];
    let shown = |text: Option<String>| Line::from(text.unwrap_or_else(|| "-".to_owned()));
    rows.extend(keys.iter().map(|key| {
        let used = |Used { day, tokens }: Used| format!("{day}, {tokens} tokens");
        let revoked = key.revoked.map(|at| format!("revoked {at}"));
        [
            Line::from(key.name.as_str()),
            Line::from(format!("{}…", key.prefix)),
            Line::from(key.tenant.as_str()),
            shown(key.limits.requests_per_minute.map(|requests| requests.to_string())),
            shown(key.limits.tokens_per_day.map(|tokens| tokens.to_string())),
            Line::from(key.created.to_string()),
            shown(key.used.map(used)),
            Line::default().styled(BAD, revoked.unwrap_or_default()),
        ]
    }));
    page.table(rows);
    page
}
