//! `longhaul vacuum`: what is old or too much goes, and its room is given back.

use std::process::ExitCode;

use longhaul_server::agents::Moment;
use longhaul_server::store::{Expiry, Swept};
use serde::Serialize;

use crate::cli::VacuumArgs;
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::output::{self, BAD, Line, Page};
use crate::store::{Kept, Whereabouts, now};

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

#[derive(Serialize)]
struct Answer {
    deleted: Vec<String>,
    bytes: Bytes,
    /// What is damaged; looked for with `--check` only.
    faults: Vec<String>,
}

#[derive(Serialize)]
struct Bytes {
    before: u64,
    after: u64,
}

pub(crate) fn run(args: &VacuumArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let settings = Settings::load(args.place.config.as_deref(), environment, Vec::new())?;
    let store = &settings.shell.store;
    let kept = Whereabouts::new(args.place.store.as_deref(), store, environment)?.existing()?;
    let answer = if args.check {
        check(&kept)?
    } else {
        let older = args.older_than.map(|since| since.moment(now()));
        let days = store.keep_days.map(|days| Moment(now().0 - i64::from(days) * DAY));
        let expiry = Expiry { before: older.or(days), most_bytes: args.max_size.or(store.max_bytes) };
        let Swept { sessions, before, after } = kept.run(kept.store.sweep(&kept.tenants()?, expiry))?;
        Answer { deleted: sessions, bytes: Bytes { before, after }, faults: Vec::new() }
    };
    if args.answer.json {
        output::write_json(args.answer.to(), &answer)?;
    } else {
        output::give(args.answer.to(), &page(args, &kept, &answer))?;
    }
    Ok(ExitCode::from(u8::from(!answer.faults.is_empty())))
}

fn check(kept: &Kept) -> Result<Answer, Failure> {
    let faults = kept.run(kept.store.faults())?;
    let size = kept.run(kept.store.size())?;
    Ok(Answer { deleted: Vec::new(), bytes: Bytes { before: size, after: size }, faults })
}

fn page(args: &VacuumArgs, kept: &Kept, answer: &Answer) -> Page {
    let (mut page, shown) = (Page::default(), kept.shown());
    let Answer { deleted, bytes, faults } = answer;
    let (before, after) = (output::grouped(bytes.before), output::grouped(bytes.after));
    for fault in faults {
        page.line(Line::default().styled(BAD, fault));
    }
    if args.check {
        if faults.is_empty() {
            page.line(format!("{shown} is sound: {after} bytes"));
        }
        return page;
    }
    for name in deleted {
        page.line(format!("session {name} is deleted"));
    }
    page.line(format!("{shown}: {before} → {after} bytes"));
    page
}
