//! `longhaul import`: bodies and agents' sessions into the store.

use std::path::Path;
use std::process::ExitCode;

use longhaul_engine::redact::Rules;
use longhaul_server::store::Recorded;
use serde::Serialize;

use crate::body::Body;
use crate::cli::ImportArgs;
use crate::commands::redact;
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::input::{self, Held, Line};
use crate::output::{self, Page};
use crate::progress::Progress;
use crate::session;
use crate::store::{self, Kept, Whereabouts, now};

#[derive(Serialize, Default)]
struct Answer {
    imported: Vec<Row>,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Row {
    /// The file or the name, and the line of it.
    from: String,
    session: String,
    /// How that session came to be.
    reason: &'static str,
    messages: usize,
    /// How many of them the store did not have.
    new: usize,
}

#[derive(Serialize)]
struct Failed {
    from: String,
    message: String,
}

pub(crate) fn run(args: &ImportArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    output::refuse_inputs(args.answer.to(), args.files.iter().map(std::path::PathBuf::as_path))?;
    let place = &args.told.place;
    let settings = Settings::load(place.config.as_deref(), environment, Vec::new())?;
    let rules = redact::rules(&settings)?;
    let kept = Whereabouts::new(place.store.as_deref(), &settings.shell.store, environment)?.open()?;
    let mut import = Import { args, kept, rules, answer: Answer::default(), exit_code: 0 };
    let mut progress = Progress::of(Some(args.files.len()), "files");
    for path in &args.files {
        if let Err(failure) = import.file(path) {
            progress.aside(|| output::say_failure(&failure.to_string()));
            import.fail(input::shown(path), &failure);
        }
        progress.step();
    }
    drop(progress);
    let Import { answer, exit_code, .. } = import;
    if args.answer.json {
        output::write_json(args.answer.to(), &answer)?;
    } else {
        output::give(args.answer.to(), &page(&answer))?;
    }
    Ok(ExitCode::from(exit_code))
}

struct Import<'a> {
    args: &'a ImportArgs,
    kept: Kept,
    rules: Rules,
    answer: Answer,
    exit_code: u8,
}

impl Import<'_> {
    fn fail(&mut self, from: String, failure: &Failure) {
        self.exit_code = self.exit_code.max(failure.exit_code());
        self.answer.failed.push(Failed { from, message: failure.to_string() });
    }

    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let told = &self.args.told;
        if let Some(id) = store::named(path) {
            return Err(Failure::Wrong(format!("{} is in the store already", store::name(id))));
        }
        if let Some(read) = session::read(path, told, told.extent())? {
            return self.body(&Body::of_session(read));
        }
        let shown = input::shown(path);
        match input::one_or_lines(path)? {
            Held::One(bytes) => {
                session::refuse_piped(&shown, &bytes)?;
                let text = input::text(&shown, bytes)?;
                self.body(&Body::of_text(shown, text))
            }
            Held::Lines(lines) => {
                for line in lines {
                    self.line(&shown, &line?);
                }
                Ok(())
            }
        }
    }

    /// A line that cannot be used keeps nobody from the others.
    fn line(&mut self, shown: &str, line: &Line) {
        if line.is_blank() {
            return;
        }
        let shown = format!("line {} of {shown}", line.number);
        // The end of a line is none of the body's.
        let text = input::text(&shown, line.bytes.trim_ascii_end().to_vec());
        if let Err(failure) = text.and_then(|text| self.body(&Body::of_text(shown.clone(), text))) {
            output::say_failure(&failure.to_string());
            self.fail(shown, &failure);
        }
    }

    fn body(&mut self, body: &Body) -> Result<(), Failure> {
        let (transcript, _) = body.parse(&self.args.told)?;
        let Kept { store, tenant, .. } = &self.kept;
        let Recorded { session, new, .. } =
            self.kept.run(store.record(tenant, &transcript, &self.rules, now()))?;
        self.answer.imported.push(Row {
            from: body.shown.clone(),
            reason: session.reason.name(),
            messages: transcript.message_count() - transcript.lead(),
            new,
            session: session.name,
        });
        Ok(())
    }
}

fn page(answer: &Answer) -> Page {
    let mut page = Page::default();
    for Row { from, session, reason, messages, new } in &answer.imported {
        let how = if *reason == "fork" && *new > 0 { ", a fork" } else { "" };
        let name = store::name(session);
        page.line(format!("{from}: {name}{how}, {new} new of {messages} messages"));
    }
    page
}
