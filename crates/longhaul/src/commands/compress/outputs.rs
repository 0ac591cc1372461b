//! What a call writes beside the bodies: originals, log, reports, differences.

use std::path::Path;

use longhaul_engine::plan::Report;

use super::diff;
use super::job::{Call, Done};
use crate::commands::stats::Row;
use crate::failure::Failure;
use crate::originals;
use crate::output::{self, Layout, Readers, Sink};

pub(super) struct Outputs<'a> {
    call: &'a Call<'a>,
    layout: Layout,
    /// The file of `--report`.
    report: Option<Sink<'a>>,
    /// What the call answers: reports for `--json`, differences for a preview.
    answer: Option<Sink<'a>>,
}

impl<'a> Outputs<'a> {
    pub(super) fn open(call: &'a Call<'a>, layout: Layout) -> Result<Self, Failure> {
        let args = call.args;
        let report = args.report.as_deref().map(|file| Sink::open(Some(file))).transpose()?;
        let answers = args.answer.json || args.diff && args.preview && args.show.is_none();
        let answer = answers.then(|| Sink::open(place(call))).transpose()?;
        Ok(Self { call, layout, report, answer })
    }

    /// Keeps what was removed. This comes before the body that lacks it is written: what goes is safe before it is gone.
    pub(super) fn keep(&self, done: &Done) -> Result<(), Failure> {
        match self.call.originals {
            Some((file, secrets)) if !done.originals.is_empty() => {
                originals::append(file, &done.originals, secrets)
            }
            _ => Ok(()),
        }
    }

    /// Writes what is said about a compaction, for programs and for those who asked for the differences.
    pub(super) fn tell(&mut self, done: &Done) -> Result<(), Failure> {
        let (args, report) = (self.call.args, &done.answer.report);
        if let Some(file) =
            args.log.as_deref().filter(|_| report.changed && !done.is_replay && !args.is_preview())
        {
            log(file, report)?;
        }
        if let Some(sink) = &mut self.report {
            sink.write(output::json(&done.answer, self.layout)?.as_bytes())?;
        }
        if let Some(sink) = self.answer.as_mut().filter(|_| args.answer.json) {
            sink.write(output::json(&done.answer, self.layout)?.as_bytes())?;
        }
        if args.diff {
            let page = diff::page(&done.answer.body, report, done.difference.as_ref());
            match self.answer.as_mut().filter(|_| !args.answer.json) {
                Some(sink) => sink.write(output::painted(place(self.call), &page).as_bytes())?,
                None => output::show(&page),
            }
        }
        Ok(())
    }

    /// Writes what is said of a body that could not be used, for programs: one line a body.
    pub(super) fn tell_failure(&mut self, failure: &Failure) -> Result<(), Failure> {
        let json = self.call.args.answer.json;
        for sink in self.report.iter_mut().chain(self.answer.as_mut().filter(|_| json)) {
            sink.write(output::json(&failure.json(), self.layout)?.as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        self.report.into_iter().chain(self.answer).try_for_each(Sink::close)
    }
}

/// Where the answer goes: `-o` takes the body, unless there is none.
fn place<'a>(call: &Call<'a>) -> Option<&'a Path> {
    call.args.answer.to().filter(|_| call.args.preview)
}

fn log(file: &Path, report: &Report) -> Result<(), Failure> {
    let row = Row {
        engine: report.engine.name().to_owned(),
        reason: report.reason.clone(),
        tokens_before: report.tokens.before.number(),
        tokens_after: report.tokens.after.number(),
        messages_before: report.messages.before,
        messages_after: report.messages.after,
        ratio: report.ratio,
    };
    output::append(file, &output::json(&row, Layout::Line)?, Readers::Usual)
}
