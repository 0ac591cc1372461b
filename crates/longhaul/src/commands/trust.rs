//! `longhaul trust`: allow a configuration that was found in a project to set every key, list such files, end it.

use std::path::Path;

use serde::Serialize;

use crate::cli::TrustArgs;
use crate::config::trust::{self, Record, Records};
use crate::config::{self, Environment, FILE};
use crate::failure::Failure;
use crate::input;
use crate::output::{self, FAINT, Line, Page};

#[derive(Serialize)]
struct Answer {
    files: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    file: String,
    /// The hash of the content that is trusted.
    hash: String,
    state: State,
    /// The keys that the file sets beyond those that any project may.
    keys: Vec<String>,
}

/// The state of the trust in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It applies.
    Trusted,
    /// The file was edited since.
    Changed,
    /// The file is gone.
    Missing,
    /// It was ended by this call.
    Revoked,
}

impl State {
    fn words(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Changed => "edited since, so not trusted any more",
            Self::Missing => "gone",
            Self::Revoked => "not trusted any more",
        }
    }
}

pub(crate) fn run(args: &TrustArgs, environment: &Environment) -> Result<(), Failure> {
    let records = Records::open(environment).ok_or_else(|| {
        Failure::Wrong("there is no folder for records of trust; set HOME or XDG_DATA_HOME".to_owned())
    })?;
    let rows = match &args.file {
        None => records.list().into_iter().map(listed).collect(),
        Some(file) if args.revoke => vec![revoke(&records, file)?],
        Some(file) => vec![add(&records, file)?],
    };
    let to = args.answer.to();
    if args.answer.json {
        return output::write_json(to, &Answer { files: rows });
    }
    if rows.is_empty() {
        output::say("no configuration is trusted; longhaul trust FILE trusts one");
    }
    let mut page = Page::default();
    for Row { file, state, keys, .. } in &rows {
        page.line(format!("{file}: {}", state.words()));
        if !keys.is_empty() {
            page.line(Line::default().styled(FAINT, format!("  it sets {}", keys.join(", "))));
        }
    }
    output::give(to, &page)
}

fn add(records: &Records, file: &Path) -> Result<Row, Failure> {
    if file.file_name().is_none_or(|name| name != FILE) {
        let shown = file.display();
        return Err(Failure::Wrong(format!(
            "{shown}: only a {FILE} is found in folders and needs trust; name another file with --config"
        )));
    }
    let text = config::read_text(file)?;
    let keys = config::keys_that_need_trust(&input::shown(file), &text)?;
    Ok(row(records.add(file, &text)?, State::Trusted, keys))
}

fn revoke(records: &Records, file: &Path) -> Result<Row, Failure> {
    let record = records.revoke(file)?;
    let record = record.ok_or_else(|| Failure::No(format!("{} was not trusted", file.display())))?;
    Ok(row(record, State::Revoked, Vec::new()))
}

fn listed(record: Record) -> Row {
    let text = config::read_text(&record.file);
    let (state, keys) = match &text {
        Ok(text) if trust::hash(text.as_bytes()) == record.hash => {
            let name = record.file.display().to_string();
            (State::Trusted, config::keys_that_need_trust(&name, text).unwrap_or_default())
        }
        Ok(_) => (State::Changed, Vec::new()),
        Err(_) if record.file.exists() => (State::Changed, Vec::new()),
        Err(_) => (State::Missing, Vec::new()),
    };
    row(record, state, keys)
}

fn row(record: Record, state: State, keys: Vec<String>) -> Row {
    Row { file: record.file.display().to_string(), hash: record.hash, state, keys }
}
