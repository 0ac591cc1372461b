//! `longhaul compress --live`: compacts a session that an agent is using, from another terminal.
//!
//! The session is in the store that the gateway writes. This command commits the compaction there, and the
//! gateway applies it to the agent's next request, as it does for the dashboard and for MCP.

use std::process::ExitCode;
use std::time::Instant;

use longhaul_engine::Tokens;
use longhaul_server::session::{self, CompressRequest, Preview, StoredCompaction, StoredOutcome, compact_stored};
use serde_json::{Value, json};

use crate::cli::CompressArgs;
use crate::commands::{redact, show};
use crate::config::{Environment, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::output;
use crate::store::{self, ConfiguredStore, OwnedSession};

pub(super) fn run(args: &CompressArgs, id: &str, environment: &Environment) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let store_flags = &args.input.store_flags;
    let settings = Settings::load(store_flags.config.as_deref(), environment, args.policy.config_flags("unknown"))?;
    let store =
        ConfiguredStore::new(store_flags.store.as_deref(), &settings.app.store, environment)?.open_existing()?;
    let OwnedSession { tenant, session } = store.find_session(id)?;
    let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
    available.notes.iter().for_each(|line| output::print_message(line));
    let session_settings = session::SessionSettings {
        config: settings.engine.clone(),
        engines: available.engines.clone(),
        rules: redact::load_rules(&settings)?,
        ..session::SessionSettings::default()
    };
    let request = CompressRequest {
        focus: args.compaction.focus.clone(),
        preview: if args.preview { Preview::Yes } else { Preview::No },
        to_tokens: args.compaction.to_tokens.map(Tokens),
        ..CompressRequest::default()
    };
    let compaction = compact_stored(&store.store, &tenant, &session, &session_settings, &request, store::now());
    let compaction = store
        .block_on(compaction)
        .map_err(|problem| Failure::Negative(format!("session {}: {problem}", session.name)))?;
    if args.output.json {
        output::write_json(args.output.file(), &json_report(&compaction, start.elapsed().as_secs_f64() * 1_000.0))?;
    }
    if !args.quiet {
        for line in notice_lines(&compaction) {
            output::print_message(&line);
        }
    }
    Ok(ExitCode::from(u8::from(compaction.outcome == StoredOutcome::Unchanged)))
}

/// Returns the report in the same form as for any other compaction.
fn json_report(compaction: &StoredCompaction, elapsed_ms: f64) -> Value {
    let mut report = compaction.report.clone();
    report["body"] = json!(format!("store:{}", compaction.session.name));
    report["session"] = json!(compaction.session.name);
    report["epoch"] = match compaction.outcome {
        StoredOutcome::Committed(number) => json!(number),
        StoredOutcome::Previewed | StoredOutcome::Unchanged => Value::Null,
    };
    report["elapsed_ms"] = json!(elapsed_ms);
    report
}

fn notice_lines(compaction: &StoredCompaction) -> Vec<String> {
    let (name, sizes) = (&compaction.session.name, show::token_sizes(&compaction.report));
    let mut lines = match compaction.outcome {
        StoredOutcome::Committed(number) => vec![
            format!("session {name}: compaction {number}, {sizes}"),
            format!("the agent's next request is sent compacted; longhaul undo {name} undoes it"),
        ],
        StoredOutcome::Previewed => {
            vec![format!("session {name}: a compaction would make {sizes}; nothing was changed")]
        }
        StoredOutcome::Unchanged => {
            let reason = compaction.report["reason"].as_str().unwrap_or_default();
            vec![format!("session {name}: nothing changed: {reason}")]
        }
    };
    lines.extend(compaction.obstacle.iter().map(|obstacle| format!("this command could not do it: {obstacle}")));
    lines
}
