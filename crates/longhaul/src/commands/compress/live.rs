//! `longhaul compress --live`: compacts a session that an agent is using, from another terminal.
//!
//! The session is in the store that the gateway writes. The decision is committed there, and the gateway applies it to the agent's
//! next request, as it does for the dashboard and for MCP.

use std::process::ExitCode;
use std::time::Instant;

use longhaul_engine::Tokens;
use longhaul_server::session::{self, Became, Compress, Preview, StoredCompaction, compact_stored};
use serde_json::{Value, json};

use crate::cli::CompressArgs;
use crate::commands::{redact, show};
use crate::config::{Environment, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::output;
use crate::store::{self, Owned, Whereabouts};

pub(super) fn run(args: &CompressArgs, id: &str, environment: &Environment) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let place = &args.told.place;
    let settings = Settings::load(place.config.as_deref(), environment, args.policy.flags("unknown"))?;
    let kept = Whereabouts::new(place.store.as_deref(), &settings.shell.store, environment)?.existing()?;
    let Owned { tenant, session } = kept.session(id)?;
    let available = Available::new(&settings, environment, Waiting::User)?;
    available.notes.iter().for_each(|line| output::say(line));
    let compaction = session::Settings {
        config: settings.engine.clone(),
        engines: available.engines.clone(),
        rules: redact::rules(&settings)?,
        ..session::Settings::default()
    };
    let asked = Compress {
        focus: args.wanted.focus.clone(),
        preview: if args.preview { Preview::Yes } else { Preview::No },
        to_tokens: args.wanted.to_tokens.map(Tokens),
        ..Compress::default()
    };
    let done = compact_stored(&kept.store, &tenant, &session, &compaction, &asked, store::now());
    let done =
        kept.wait(done).map_err(|problem| Failure::No(format!("session {}: {problem}", session.name)))?;
    if args.answer.json {
        output::write_json(args.answer.to(), &report(&done, start.elapsed().as_secs_f64() * 1_000.0))?;
    }
    if !args.quiet {
        for line in told(&done) {
            output::say(&line);
        }
    }
    Ok(ExitCode::from(u8::from(done.became == Became::Nothing)))
}

/// The report of the session, in the form of every other compaction.
fn report(done: &StoredCompaction, elapsed_ms: f64) -> Value {
    let mut report = done.report.clone();
    report["body"] = json!(format!("store:{}", done.session.name));
    report["session"] = json!(done.session.name);
    report["epoch"] = match done.became {
        Became::Epoch(number) => json!(number),
        Became::Preview | Became::Nothing => Value::Null,
    };
    report["elapsed_ms"] = json!(elapsed_ms);
    report
}

fn told(done: &StoredCompaction) -> Vec<String> {
    let (name, sizes) = (&done.session.name, show::sizes(&done.report));
    let mut lines = match done.became {
        Became::Epoch(number) => vec![
            format!("session {name}: compaction {number}, {sizes}"),
            format!("the agent's next request is sent compacted; longhaul undo {name} takes it back"),
        ],
        Became::Preview => {
            vec![format!("session {name}: a compaction would make {sizes}; nothing was changed")]
        }
        Became::Nothing => {
            let reason = done.report["reason"].as_str().unwrap_or_default();
            vec![format!("session {name}: nothing changed: {reason}")]
        }
    };
    lines.extend(done.obstacle.iter().map(|obstacle| format!("it could not be made from here: {obstacle}")));
    lines
}
