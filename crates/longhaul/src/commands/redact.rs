//! `longhaul redact`: prints a text without its secrets, and on standard error how many of each kind there
//! were.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use longhaul_engine::policy::InvalidValue;
use longhaul_engine::redact::{FoundSecret, RedactionMode, Redactor, RuleSummary, Rules};
use longhaul_server::store::HistoryPoint;
use serde::Serialize;

use crate::cli::{InputFlags, RedactArgs, StoreFlags, TextKind};
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Page};
use crate::request_body::RequestBody;
use crate::{agent_session, store};

/// The number of bytes that are read at a time. Chosen by hand.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Serialize)]
struct RedactOutput<'a> {
    text: &'a str,
    found: Vec<RedactRow<'a>>,
}

#[derive(Serialize)]
struct RedactRow<'a> {
    kind: &'a str,
    start: usize,
    end: usize,
}

#[derive(Serialize)]
struct RedactRuleRow<'a> {
    kind: &'a str,
    group: &'a str,
    looks_for: &'a str,
}

pub(crate) fn run(args: &RedactArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let rules = load_rules(&settings)?;
    let Some(path) = args.text.as_deref() else { return list_rules(args, &rules.summary()) };
    let inputs = [Some(path), args.config.config.as_deref()];
    output::refuse_overwriting_inputs(args.output.file(), inputs.into_iter().flatten())?;
    let redactor = Redactor::numbered(rules);
    let store_flags = StoreFlags { store: None, config: args.config.config.clone() };
    let flags = InputFlags { dialect: None, model: None, whole: args.whole, store_flags };
    if args.kind.is_none()
        && let Some(id) = store::session_name_in(path)
    {
        return redact_json(args, &RequestBody::from_store(id, &flags, HistoryPoint::Now)?, redactor);
    }
    if args.kind.is_none()
        && let Some(loaded) = agent_session::load(path, &flags, flags.extent())?
    {
        let body = RequestBody::from_agent_session(loaded);
        body.print_session_notes(&args.output);
        return redact_json(args, &body, redactor);
    }
    let mode = match args.kind {
        Some(TextKind::Json) => {
            return redact_json(args, &RequestBody::from_text(input::label(path), input::read_text(path)?), redactor);
        }
        Some(TextKind::Text) => RedactionMode::Text,
        Some(TextKind::Code) => RedactionMode::Code,
        None => RedactionMode::from_path(&path.to_string_lossy()),
    };
    if args.output.json { redact_text(args, path, redactor, mode) } else { redact_stream(args, path, redactor, mode) }
}

/// Loads the built-in redaction rules and those of the configuration.
pub(crate) fn load_rules(settings: &Settings) -> Result<Rules, Failure> {
    Rules::with_user_rules(&settings.engine.redaction).map_err(|error| {
        let problem = format!("entry {}, byte {}: {}", error.index, error.byte, error.message);
        settings.invalid_value_failure(&InvalidValue { key: error.list.to_owned(), problem })
    })
}

fn list_rules(args: &RedactArgs, rules: &[RuleSummary]) -> Result<(), Failure> {
    let to = args.output.file();
    if args.output.json {
        let listed = rules.iter().map(|RuleSummary { kind, group, pattern: looks_for }| RedactRuleRow {
            kind,
            group,
            looks_for,
        });
        return output::write_json(to, &listed.collect::<Vec<_>>());
    }
    let mut page = Page::default();
    page.add_table(rules.iter().map(|rule| [&*rule.kind, &*rule.group, &*rule.pattern]));
    output::write_page(to, &page)
}

fn redact_json(args: &RedactArgs, body: &RequestBody, mut redactor: Redactor) -> Result<(), Failure> {
    let done = redactor
        .redact_json(&body.text)
        .map_err(|error| Failure::InvalidInput(format!("{}: {error}; use --kind text", body.label)))?;
    for sealed in &done.sealed {
        let FoundSecret { kind, start, .. } = sealed;
        output::print_message(&format!(
            "byte {start}: a {kind} in a signed field that cannot be edited; remove the block before you send it"
        ));
    }
    write_output(args, done.text.as_str(), &done.found)
}

fn redact_text(args: &RedactArgs, path: &Path, mut redactor: Redactor, mode: RedactionMode) -> Result<(), Failure> {
    let done = redactor.redact(&input::read_text(path)?, mode);
    write_output(args, done.text.as_str(), &done.found)
}

fn write_output(args: &RedactArgs, text: &str, found: &[FoundSecret]) -> Result<(), Failure> {
    let to = args.output.file();
    if args.output.json {
        let found = found.iter().map(|found| RedactRow { kind: &found.kind, start: found.start, end: found.end });
        return output::write_json(to, &RedactOutput { text, found: found.collect() });
    }
    output::write(to, text.as_bytes())?;
    let mut counts = BTreeMap::new();
    count_kinds(&mut counts, found);
    print_counts(&counts);
    Ok(())
}

/// Redacts an input of any size, chunk by chunk. The engine bounds the memory.
fn redact_stream(args: &RedactArgs, path: &Path, redactor: Redactor, mode: RedactionMode) -> Result<(), Failure> {
    let mut from = input::open(path)?;
    let mut to = output::OutputWriter::open(args.output.file())?;
    let mut stream = redactor.into_stream(mode);
    let mut counts = BTreeMap::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).map_err(|error| input::read_failure(path, &error))?;
        if read == 0 {
            break;
        }
        let piece = stream.push(&chunk[..read]);
        count_kinds(&mut counts, &piece.found);
        to.write(&piece.bytes)?;
    }
    let piece = stream.finish();
    count_kinds(&mut counts, &piece.found);
    to.write(&piece.bytes)?;
    to.close()?;
    print_counts(&counts);
    Ok(())
}

fn count_kinds(counts: &mut BTreeMap<String, usize>, found: &[FoundSecret]) {
    for found in found {
        *counts.entry(found.kind.clone()).or_default() += 1;
    }
}

fn print_counts(counts: &BTreeMap<String, usize>) {
    let parts: Vec<String> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let found = if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") };
    output::print_message(&format!("redacted: {found}"));
}
