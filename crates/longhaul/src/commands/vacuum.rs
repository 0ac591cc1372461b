//! `longhaul vacuum`: deletes sessions that are too old or over the size limit, and frees their disk space.

use std::process::ExitCode;

use longhaul_engine::Timestamp;
use longhaul_server::store::{RetentionLimits, SweepReport};
use serde::Serialize;

use crate::cli::VacuumArgs;
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::output::{self, ERROR_STYLE, Page, StyledLine};
use crate::store::{ConfiguredStore, OpenStore, now};

/// The length of a day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

#[derive(Serialize)]
struct VacuumOutput {
    deleted: Vec<String>,
    bytes: VacuumBytes,
    /// The damage found. Only `--check` looks for it.
    faults: Vec<String>,
}

#[derive(Serialize)]
struct VacuumBytes {
    before: u64,
    after: u64,
}

pub(crate) fn run(args: &VacuumArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let settings = Settings::load(args.store_flags.config.as_deref(), environment, Vec::new())?;
    let store = &settings.app.store;
    let open_store = ConfiguredStore::new(args.store_flags.store.as_deref(), store, environment)?.open_existing()?;
    let output = if args.check {
        check_store(&open_store)?
    } else {
        let older = args.older_than.map(|since| since.earliest(now()));
        let days = store.keep_days.map(|days| Timestamp(now().0 - i64::from(days) * DAY_MS));
        let expiry = RetentionLimits { updated_before: older.or(days), max_bytes: args.max_size.or(store.max_bytes) };
        let SweepReport { deleted_sessions: sessions, bytes_before: before, bytes_after: after } =
            open_store.run(open_store.store.enforce_retention(&open_store.tenants()?, expiry))?;
        VacuumOutput { deleted: sessions, bytes: VacuumBytes { before, after }, faults: Vec::new() }
    };
    if args.output.json {
        output::write_json(args.output.file(), &output)?;
    } else {
        output::write_page(args.output.file(), &page(args, &open_store, &output))?;
    }
    Ok(ExitCode::from(u8::from(!output.faults.is_empty())))
}

fn check_store(store: &OpenStore) -> Result<VacuumOutput, Failure> {
    let faults = store.run(store.store.check_integrity())?;
    let size = store.run(store.store.size_bytes())?;
    Ok(VacuumOutput { deleted: Vec::new(), bytes: VacuumBytes { before: size, after: size }, faults })
}

fn page(args: &VacuumArgs, store: &OpenStore, output: &VacuumOutput) -> Page {
    let (mut page, shown) = (Page::default(), store.label());
    let VacuumOutput { deleted, bytes, faults } = output;
    let (before, after) = (output::group_digits(bytes.before), output::group_digits(bytes.after));
    for fault in faults {
        page.add_line(StyledLine::default().styled(ERROR_STYLE, fault));
    }
    if args.check {
        if faults.is_empty() {
            page.add_line(format!("{shown} is undamaged: {after} bytes"));
        }
        return page;
    }
    for name in deleted {
        page.add_line(format!("session {name} is deleted"));
    }
    page.add_line(format!("{shown}: {before} → {after} bytes"));
    page
}
