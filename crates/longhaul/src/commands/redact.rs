//! `longhaul redact`: the text without its secrets, and how many of each kind there were on standard error.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use longhaul_engine::policy::Invalid;
use longhaul_engine::redact::{Content, Found, Redactor, RuleSummary, Rules};
use longhaul_server::store::At;
use serde::Serialize;

use crate::body::Body;
use crate::cli::{RedactArgs, StorePlace, TextKind, Told};
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Page};
use crate::{session, store};

/// How much is read at a time.
const CHUNK: usize = 1 << 20;

#[derive(Serialize)]
struct Answer<'a> {
    text: &'a str,
    found: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    kind: &'a str,
    start: usize,
    end: usize,
}

#[derive(Serialize)]
struct Listed<'a> {
    kind: &'a str,
    group: &'a str,
    looks_for: &'a str,
}

pub(crate) fn run(args: &RedactArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let rules = rules(&settings)?;
    let Some(path) = args.text.as_deref() else { return list(args, &rules.summary()) };
    let inputs = [Some(path), args.config.config.as_deref()];
    output::refuse_inputs(args.answer.to(), inputs.into_iter().flatten())?;
    let redactor = Redactor::numbered(rules);
    let place = StorePlace { store: None, config: args.config.config.clone() };
    let told = Told { dialect: None, model: None, whole: args.whole, place };
    if args.kind.is_none()
        && let Some(id) = store::named(path)
    {
        return json(args, &Body::of_store(id, &told, At::Now)?, redactor);
    }
    if args.kind.is_none()
        && let Some(read) = session::read(path, &told, told.extent())?
    {
        let body = Body::of_session(read);
        body.say_session(&args.answer);
        return json(args, &body, redactor);
    }
    let content = match args.kind {
        Some(TextKind::Json) => {
            return json(args, &Body::of_text(input::shown(path), input::read_text(path)?), redactor);
        }
        Some(TextKind::Text) => Content::Text,
        Some(TextKind::Code) => Content::Code,
        None => Content::of_path(&path.to_string_lossy()),
    };
    if args.answer.json {
        whole(args, path, redactor, content)
    } else {
        stream(args, path, redactor, content)
    }
}

/// The standard rules and those of the configuration.
pub(crate) fn rules(settings: &Settings) -> Result<Rules, Failure> {
    Rules::with_user(&settings.engine.redaction).map_err(|error| {
        let problem = format!("entry {}, byte {}: {}", error.rule, error.at, error.message);
        settings.refused(&Invalid { key: error.list.to_owned(), problem })
    })
}

fn list(args: &RedactArgs, rules: &[RuleSummary]) -> Result<(), Failure> {
    let to = args.answer.to();
    if args.answer.json {
        let listed =
            rules.iter().map(|RuleSummary { kind, group, looks_for }| Listed { kind, group, looks_for });
        return output::write_json(to, &listed.collect::<Vec<_>>());
    }
    let mut page = Page::default();
    page.table(rules.iter().map(|rule| [&*rule.kind, &*rule.group, &*rule.looks_for]));
    output::give(to, &page)
}

fn json(args: &RedactArgs, body: &Body, mut redactor: Redactor) -> Result<(), Failure> {
    let done = redactor
        .redact_json(&body.text)
        .map_err(|error| Failure::Wrong(format!("{}: {error}; use --kind text", body.shown)))?;
    for sealed in &done.sealed {
        let Found { kind, start, .. } = sealed;
        output::say(&format!(
            "byte {start}: a {kind} in a field that may not be edited; drop the block before it is sent on"
        ));
    }
    give(args, done.text.as_str(), &done.found)
}

fn whole(args: &RedactArgs, path: &Path, mut redactor: Redactor, content: Content) -> Result<(), Failure> {
    let done = redactor.redact(&input::read_text(path)?, content);
    give(args, done.text.as_str(), &done.found)
}

fn give(args: &RedactArgs, text: &str, found: &[Found]) -> Result<(), Failure> {
    let to = args.answer.to();
    if args.answer.json {
        let found = found.iter().map(|found| Row { kind: &found.kind, start: found.start, end: found.end });
        return output::write_json(to, &Answer { text, found: found.collect() });
    }
    output::write(to, text.as_bytes())?;
    let mut counts = BTreeMap::new();
    count(&mut counts, found);
    say_counts(&counts);
    Ok(())
}

/// Any size, a chunk at a time: what is held is bounded by the engine, not by the input.
fn stream(args: &RedactArgs, path: &Path, redactor: Redactor, content: Content) -> Result<(), Failure> {
    let mut from = input::open(path)?;
    let mut to = output::Sink::open(args.answer.to())?;
    let mut stream = redactor.stream(content);
    let mut counts = BTreeMap::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk).map_err(|error| input::unreadable(path, &error))?;
        if read == 0 {
            break;
        }
        let piece = stream.push(&chunk[..read]);
        count(&mut counts, &piece.found);
        to.write(&piece.bytes)?;
    }
    let piece = stream.finish();
    count(&mut counts, &piece.found);
    to.write(&piece.bytes)?;
    to.close()?;
    say_counts(&counts);
    Ok(())
}

fn count(counts: &mut BTreeMap<String, usize>, found: &[Found]) {
    for found in found {
        *counts.entry(found.kind.clone()).or_default() += 1;
    }
}

fn say_counts(counts: &BTreeMap<String, usize>) {
    let parts: Vec<String> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let found = if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") };
    output::say(&format!("redacted: {found}"));
}
