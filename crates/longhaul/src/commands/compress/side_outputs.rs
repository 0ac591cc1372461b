//! The files that a run writes in addition to the requests: originals, log, reports and diffs.

use std::path::Path;

use longhaul_engine::plan::CompactionReport;

use super::compact_request::{CompressResult, CompressRun};
use super::diff;
use crate::commands::stats::StatsRow;
use crate::failure::Failure;
use crate::originals;
use crate::output::{self, FileAccess, JsonLayout, OutputWriter};

pub(super) struct SideOutputs<'a> {
    run: &'a CompressRun<'a>,
    layout: JsonLayout,
    /// The file of `--report`.
    report_sink: Option<OutputWriter<'a>>,
    /// The output for the user: reports with `--json`, diffs with `--diff --preview`.
    output_sink: Option<OutputWriter<'a>>,
}

impl<'a> SideOutputs<'a> {
    pub(super) fn open(run: &'a CompressRun<'a>, layout: JsonLayout) -> Result<Self, Failure> {
        let args = run.args;
        let report_sink = args.report.as_deref().map(|file| OutputWriter::open(Some(file))).transpose()?;
        let writes_output = args.output.json || args.diff && args.preview && args.show.is_none();
        let output_sink = writes_output.then(|| OutputWriter::open(output_file(run))).transpose()?;
        Ok(Self { run, layout, report_sink, output_sink })
    }

    /// Appends the removed originals to their file. Call this before you write the shorter request, so that
    /// no text is ever lost.
    pub(super) fn save_originals(&self, result: &CompressResult) -> Result<(), Failure> {
        match self.run.originals_file {
            Some((file, secrets)) if !result.original_rows.is_empty() => {
                originals::append_to_file(file, &result.original_rows, secrets)
            }
            _ => Ok(()),
        }
    }

    /// Writes the log row, the JSON report and the diff of one compaction, as far as they are requested.
    pub(super) fn write_result(&mut self, result: &CompressResult) -> Result<(), Failure> {
        let (args, report) = (self.run.args, &result.output.report);
        if let Some(file) = args.log.as_deref().filter(|_| report.changed && !result.is_replay && !args.is_preview()) {
            append_log_row(file, report)?;
        }
        if let Some(sink) = &mut self.report_sink {
            sink.write(output::to_json(&result.output, self.layout)?.as_bytes())?;
        }
        if let Some(sink) = self.output_sink.as_mut().filter(|_| args.output.json) {
            sink.write(output::to_json(&result.output, self.layout)?.as_bytes())?;
        }
        if args.diff {
            let page = diff::page(&result.output.body, report, result.diff.as_ref());
            match self.output_sink.as_mut().filter(|_| !args.output.json) {
                Some(sink) => sink.write(output::render_page(output_file(self.run), &page).as_bytes())?,
                None => output::print_page(&page),
            }
        }
        Ok(())
    }

    /// Writes a failure as JSON in place of a report, so that there is one entry for each request.
    pub(super) fn write_failure(&mut self, failure: &Failure) -> Result<(), Failure> {
        let json = self.run.args.output.json;
        for sink in self.report_sink.iter_mut().chain(self.output_sink.as_mut().filter(|_| json)) {
            sink.write(output::to_json(&failure.to_json(), self.layout)?.as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        self.report_sink.into_iter().chain(self.output_sink).try_for_each(OutputWriter::close)
    }
}

/// Returns the file for reports and diffs. `-o` names the file for the request, except in a preview, which
/// writes no request.
fn output_file<'a>(run: &CompressRun<'a>) -> Option<&'a Path> {
    run.args.output.file().filter(|_| run.args.preview)
}

fn append_log_row(file: &Path, report: &CompactionReport) -> Result<(), Failure> {
    let row = StatsRow {
        engine: report.engine.name().to_owned(),
        reason: report.reason.clone(),
        tokens_before: report.tokens.before.number(),
        tokens_after: report.tokens.after.number(),
        messages_before: report.messages.before,
        messages_after: report.messages.after,
        ratio: report.ratio,
    };
    output::append_lines(file, &output::to_json(&row, JsonLayout::Compact)?, FileAccess::Default)
}
