//! `longhaul trust`: allows a project's configuration file to set every key, lists such files, or revokes the
//! trust.

use std::path::Path;

use serde::Serialize;

use crate::cli::TrustArgs;
use crate::config::trust::{self, TrustRecord, TrustRecords};
use crate::config::{self, CONFIG_FILE_NAME, Environment};
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Page, SECONDARY_STYLE, StyledLine};

#[derive(Serialize)]
struct TrustOutput {
    files: Vec<TrustRow>,
}

#[derive(Serialize)]
struct TrustRow {
    file: String,
    /// The hash of the content that is trusted.
    hash: String,
    state: TrustState,
    /// The keys in the file that need trust.
    keys: Vec<String>,
}

/// The state of the trust in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TrustState {
    /// The file is trusted.
    Trusted,
    /// The file was edited after it was trusted, so it is no longer trusted.
    Changed,
    /// The file no longer exists.
    Missing,
    /// This call revoked the trust.
    Revoked,
}

impl TrustState {
    fn description(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Changed => "edited since, no longer trusted",
            Self::Missing => "gone",
            Self::Revoked => "no longer trusted",
        }
    }
}

pub(crate) fn run(args: &TrustArgs, environment: &Environment) -> Result<(), Failure> {
    let records = TrustRecords::open(environment).ok_or_else(|| {
        Failure::InvalidInput("no folder for the records of trust; set HOME or XDG_DATA_HOME".to_owned())
    })?;
    let rows = match &args.file {
        None => records.list().into_iter().map(check_record).collect(),
        Some(file) if args.revoke => vec![revoke_file(&records, file)?],
        Some(file) => vec![trust_file(&records, file)?],
    };
    let to = args.output.file();
    if args.output.json {
        return output::write_json(to, &TrustOutput { files: rows });
    }
    if rows.is_empty() {
        output::print_message("no configuration is trusted; longhaul trust FILE trusts one");
    }
    let mut page = Page::default();
    for TrustRow { file, state, keys, .. } in &rows {
        page.add_line(format!("{file}: {}", state.description()));
        if !keys.is_empty() {
            page.add_line(StyledLine::default().styled(SECONDARY_STYLE, format!("  it sets {}", keys.join(", "))));
        }
    }
    output::write_page(to, &page)
}

fn trust_file(records: &TrustRecords, file: &Path) -> Result<TrustRow, Failure> {
    if file.file_name().is_none_or(|name| name != CONFIG_FILE_NAME) {
        let shown = file.display();
        return Err(Failure::InvalidInput(format!(
            "{shown}: only a {CONFIG_FILE_NAME} is found in folders and needs trust; name another file with --config"
        )));
    }
    let text = config::read_text(file)?;
    let keys = config::keys_requiring_trust(&input::label(file), &text)?;
    Ok(trust_row(records.add(file, &text)?, TrustState::Trusted, keys))
}

fn revoke_file(records: &TrustRecords, file: &Path) -> Result<TrustRow, Failure> {
    let record = records.revoke(file)?;
    let record = record.ok_or_else(|| Failure::Negative(format!("{} was not trusted", file.display())))?;
    Ok(trust_row(record, TrustState::Revoked, Vec::new()))
}

fn check_record(record: TrustRecord) -> TrustRow {
    let text = config::read_text(&record.file);
    let (state, keys) = match &text {
        Ok(text) if trust::content_hash(text.as_bytes()) == record.hash => {
            let name = record.file.display().to_string();
            (TrustState::Trusted, config::keys_requiring_trust(&name, text).unwrap_or_default())
        }
        Ok(_) => (TrustState::Changed, Vec::new()),
        Err(_) if record.file.exists() => (TrustState::Changed, Vec::new()),
        Err(_) => (TrustState::Missing, Vec::new()),
    };
    trust_row(record, state, keys)
}

fn trust_row(record: TrustRecord, state: TrustState, keys: Vec<String>) -> TrustRow {
    TrustRow { file: record.file.display().to_string(), hash: record.hash, state, keys }
}
