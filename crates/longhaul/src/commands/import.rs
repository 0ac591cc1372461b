//! `longhaul import`: records request bodies and agents' sessions in the store.

use std::path::Path;
use std::process::ExitCode;

use longhaul_engine::redact::Rules;
use longhaul_server::store::SessionMatch;
use serde::Serialize;

use crate::agent_session;
use crate::cli::ImportArgs;
use crate::commands::redact;
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::input::{self, InputContent, InputLine};
use crate::output::{self, Page};
use crate::progress::Progress;
use crate::request_body::RequestBody;
use crate::store::{self, ConfiguredStore, OpenStore, now};

#[derive(Serialize, Default)]
struct ImportOutput {
    imported: Vec<ImportRow>,
    failed: Vec<ImportFailure>,
}

#[derive(Serialize)]
struct ImportRow {
    /// The file or session name, with the line number if the file has a request on each line.
    from: String,
    session: String,
    /// The event that created the session, such as a fork.
    reason: &'static str,
    messages: usize,
    /// The number of messages that the store did not have yet.
    new: usize,
}

#[derive(Serialize)]
struct ImportFailure {
    from: String,
    message: String,
}

pub(crate) fn run(args: &ImportArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    output::refuse_overwriting_inputs(args.output.file(), args.files.iter().map(std::path::PathBuf::as_path))?;
    let store_flags = &args.input.store_flags;
    let settings = Settings::load(store_flags.config.as_deref(), environment, Vec::new())?;
    let rules = redact::load_rules(&settings)?;
    let store =
        ConfiguredStore::new(store_flags.store.as_deref(), &settings.app.store, environment)?.open_or_create()?;
    let mut import = Importer { args, store, rules, output: ImportOutput::default(), exit_code: 0 };
    let mut progress = Progress::new(Some(args.files.len()), "files");
    for path in &args.files {
        if let Err(failure) = import.import_file(path) {
            progress.suspend(|| output::print_failure(&failure.to_string()));
            import.add_failure(input::label(path), &failure);
        }
        progress.step();
    }
    drop(progress);
    let Importer { output, exit_code, .. } = import;
    if args.output.json {
        output::write_json(args.output.file(), &output)?;
    } else {
        output::write_page(args.output.file(), &page(&output))?;
    }
    Ok(ExitCode::from(exit_code))
}

struct Importer<'a> {
    args: &'a ImportArgs,
    store: OpenStore,
    rules: Rules,
    output: ImportOutput,
    exit_code: u8,
}

impl Importer<'_> {
    fn add_failure(&mut self, from: String, failure: &Failure) {
        self.exit_code = self.exit_code.max(failure.exit_code());
        self.output.failed.push(ImportFailure { from, message: failure.to_string() });
    }

    fn import_file(&mut self, path: &Path) -> Result<(), Failure> {
        let flags = &self.args.input;
        if let Some(id) = store::session_name_in(path) {
            return Err(Failure::InvalidInput(format!("{} is already in the store", store::qualified_name(id))));
        }
        if let Some(loaded) = agent_session::load(path, flags, flags.extent())? {
            return self.import_body(&RequestBody::from_agent_session(loaded));
        }
        let shown = input::label(path);
        match input::read_single_or_lines(path)? {
            InputContent::Single(bytes) => {
                agent_session::refuse_piped_session(&shown, &bytes)?;
                let text = input::decode_text(&shown, bytes)?;
                self.import_body(&RequestBody::from_text(shown, text))
            }
            InputContent::Lines(lines) => {
                for line in lines {
                    self.import_line(&shown, &line?);
                }
                Ok(())
            }
        }
    }

    /// Imports one line. A line that cannot be used is reported, and the others are still imported.
    fn import_line(&mut self, shown: &str, line: &InputLine) {
        if line.is_blank() {
            return;
        }
        let shown = format!("line {} of {shown}", line.number);
        // The line break is not part of the request body.
        let text = input::decode_text(&shown, line.bytes.trim_ascii_end().to_vec());
        if let Err(failure) = text.and_then(|text| self.import_body(&RequestBody::from_text(shown.clone(), text))) {
            output::print_failure(&failure.to_string());
            self.add_failure(shown, &failure);
        }
    }

    fn import_body(&mut self, body: &RequestBody) -> Result<(), Failure> {
        let (transcript, _) = body.parse(&self.args.input)?;
        let OpenStore { store, tenant, .. } = &self.store;
        let SessionMatch { session, new_messages: new, .. } =
            self.store.run(store.record(tenant, &transcript, &self.rules, now()))?;
        self.output.imported.push(ImportRow {
            from: body.label.clone(),
            reason: session.origin.name(),
            messages: transcript.message_count() - transcript.system_message_count(),
            new,
            session: session.name,
        });
        Ok(())
    }
}

fn page(output: &ImportOutput) -> Page {
    let mut page = Page::default();
    for ImportRow { from, session, reason, messages, new } in &output.imported {
        let how = if *reason == "fork" && *new > 0 { ", a fork" } else { "" };
        let name = store::qualified_name(session);
        page.add_line(format!("{from}: {name}{how}, {new} new of {}", output::pluralize(*messages, "message")));
    }
    page
}
