//! Compacts several requests: files into a directory, or lines into lines. All cores work, and the results
//! are written in input order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use longhaul_engine::Tokens;
use longhaul_engine::tokens::percent;

use super::compact_request::{CompressResult, CompressRun, WorkerCache};
use super::side_outputs::SideOutputs;
use super::{backup, output_paths, text_page};
use crate::failure::Failure;
use crate::input::{self, InputLine, InputLines};
use crate::output::{self, JsonLayout, OutputWriter};
use crate::parallel;
use crate::progress::Progress;
use crate::request_body::RequestBody;

/// The reason why the work ends early: a failure to write, or `Ok` if the reader of our output is gone.
type EarlyEnd = Result<(), Failure>;

/// Compacts each file into the output directory under its own name. A file that cannot be used is reported,
/// and the others are still written.
pub(super) fn compress_files(run: &CompressRun<'_>) -> Result<ExitCode, Failure> {
    let args = run.args;
    if let Some(directory) = args.out_dir.as_deref().filter(|_| !args.preview) {
        output::create_directory(directory)?;
    }
    let mut outputs = SideOutputs::open(run, JsonLayout::Compact)?;
    let mut metrics = BatchTotals::new(run, Some(args.bodies.len()));
    let work = |cache: &mut WorkerCache, path: &PathBuf| {
        let body = run.read_request(path)?;
        let result = run.compress(cache, &body)?;
        Ok((target_file(run, path, &body)?, body, result))
    };
    let give = |worked: Result<(Option<PathBuf>, RequestBody, CompressResult), Failure>| {
        let written = match &worked {
            Err(failure) => metrics.add_failure(failure, &mut outputs),
            Ok((target, body, result)) => outputs.save_originals(result).and_then(|()| {
                if let Some(file) = target {
                    super::write_request(args, file, body, result)?;
                }
                metrics.add_result(result, &mut outputs)
            }),
        };
        to_control_flow(written)
    };
    let stopped = process_all(run, args.bodies.iter(), work, give);
    finish(stopped, metrics, outputs)
}

fn target_file(run: &CompressRun<'_>, path: &Path, body: &RequestBody) -> Result<Option<PathBuf>, Failure> {
    if run.args.in_place {
        super::refuse_replacing_session(body)?;
        return Ok(Some(path.to_owned()));
    }
    let directory = run.args.out_dir.as_deref().filter(|_| !run.args.preview);
    if let (Some(directory), Some(owned)) = (directory, &body.stored_session) {
        return Ok(Some(directory.join(format!("store-{}.json", owned.session.name))));
    }
    match (directory, &body.agent_session) {
        // The result is a request and not a session file, so it gets a name of its own.
        (Some(directory), Some(loaded)) => {
            let (agent, id) = (loaded.session.agent, &loaded.session.id);
            Ok(Some(directory.join(format!("{agent}-{}.json", id.replace(['/', '\\', ':'], "-")))))
        }
        (directory, _) => directory.map(|directory| output_paths::path_in_directory(directory, path)).transpose(),
    }
}

/// The output for one input line. The outcome is empty for a blank line.
struct LineResult {
    bytes: Vec<u8>,
    outcome: Option<Result<CompressResult, Failure>>,
}

/// Compacts each line that is a request body. Any other line is copied unchanged, so that nothing is lost.
pub(super) fn compress_lines(run: &CompressRun<'_>, lines: InputLines) -> Result<ExitCode, Failure> {
    let args = run.args;
    let mut outputs = SideOutputs::open(run, JsonLayout::Compact)?;
    let to = args.output.file().or(args.bodies.first().map(PathBuf::as_path).filter(|_| args.in_place));
    let result = (!args.preview).then(|| OutputWriter::open(to));
    let mut bodies = result.transpose()?;
    let mut metrics = BatchTotals::new(run, None);
    let work =
        |cache: &mut WorkerCache, line: Result<InputLine, Failure>| line.map(|line| compress_line(run, cache, line));
    let give = |passed: Result<LineResult, Failure>| {
        let written = passed.and_then(|LineResult { bytes, outcome }| {
            if let Some(Ok(result)) = &outcome {
                outputs.save_originals(result)?;
            }
            if let Some(sink) = &mut bodies {
                sink.write(&bytes)?;
            }
            match &outcome {
                None => Ok(()),
                Some(Ok(result)) => metrics.add_result(result, &mut outputs),
                Some(Err(failure)) => metrics.add_failure(failure, &mut outputs),
            }
        });
        if written.is_ok() && bodies.as_ref().is_some_and(OutputWriter::is_reader_gone) {
            return ControlFlow::Break(Ok(()));
        }
        to_control_flow(written)
    };
    let stopped = process_all(run, lines, work, give);
    if !matches!(stopped, ControlFlow::Break(Err(_)))
        && let Some(sink) = bodies
    {
        if let Some(file) = to.filter(|_| args.in_place) {
            backup::create_backup(file)?;
        }
        sink.close()?;
    }
    finish(stopped, metrics, outputs)
}

fn compress_line(run: &CompressRun<'_>, cache: &mut WorkerCache, line: InputLine) -> LineResult {
    if line.is_blank() {
        return LineResult { bytes: line.bytes, outcome: None };
    }
    let shown = format!("line {} of {}", line.number, input::label(&run.args.bodies[0]));
    let body = input::decode_text(&shown, line.bytes.clone()).map(|text| RequestBody::from_text(shown, text));
    match body.and_then(|body| run.compress(cache, &body)) {
        Ok(mut result) => {
            let bytes = result.text.take().map_or(line.bytes, String::into_bytes);
            LineResult { bytes, outcome: Some(Ok(result)) }
        }
        Err(failure) => LineResult { bytes: line.bytes, outcome: Some(Err(failure)) },
    }
}

/// Processes all items. With a store it takes them one at a time in input order, so that a longer request
/// continues the session of a shorter one.
fn process_all<I: Send, O: Send>(
    run: &CompressRun<'_>,
    items: impl Iterator<Item = I> + Send,
    work: impl Fn(&mut WorkerCache, I) -> O + std::marker::Sync,
    give: impl FnMut(O) -> ControlFlow<EarlyEnd>,
) -> ControlFlow<EarlyEnd> {
    if run.store_access.is_none() {
        return parallel::map_in_order(items, work, give);
    }
    let mut cache = WorkerCache::with_all_cores();
    items.map(|item| work(&mut cache, item)).try_for_each(give)
}

fn to_control_flow(written: Result<(), Failure>) -> ControlFlow<EarlyEnd> {
    match written {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => ControlFlow::Break(Err(failure)),
    }
}

fn finish(
    stopped: ControlFlow<EarlyEnd>,
    metrics: BatchTotals<'_>,
    outputs: SideOutputs<'_>,
) -> Result<ExitCode, Failure> {
    if let ControlFlow::Break(end) = stopped {
        end?;
    }
    outputs.close()?;
    Ok(metrics.print_totals())
}

/// The number of different notes that are remembered, so that a note about many requests is printed once.
/// Chosen by hand to bound memory.
const MAX_REMEMBERED_NOTES: usize = 1_000;

/// The totals over all requests. It also prints the lines about each request.
struct BatchTotals<'a> {
    run: &'a CompressRun<'a>,
    progress: Progress,
    bodies: usize,
    changed: usize,
    failed: usize,
    exit_code: u8,
    tokens_before: Tokens,
    tokens_after: Tokens,
    note_counts: BTreeMap<String, usize>,
}

impl<'a> BatchTotals<'a> {
    fn new(run: &'a CompressRun<'a>, bodies: Option<usize>) -> Self {
        let progress = if run.args.quiet { Progress::hidden() } else { Progress::new(bodies, "bodies") };
        let (before, after, notes) = (Tokens::ZERO, Tokens::ZERO, BTreeMap::new());
        Self {
            run,
            progress,
            bodies: 0,
            changed: 0,
            failed: 0,
            exit_code: 0,
            tokens_before: before,
            tokens_after: after,
            note_counts: notes,
        }
    }

    fn add_result(&mut self, result: &CompressResult, outputs: &mut SideOutputs<'_>) -> Result<(), Failure> {
        let report = &result.output.report;
        self.bodies += 1;
        self.changed += usize::from(report.changed);
        self.tokens_before += report.tokens.before;
        self.tokens_after += report.tokens.after;
        let shortfall = result.shortfall_message();
        self.exit_code = self.exit_code.max(u8::from(shortfall.is_some()));
        let new_notes: Vec<&String> = report.notes.iter().filter(|note| self.count_note(note)).collect();
        let mut written = Ok(());
        self.progress.suspend(|| {
            if !self.run.args.quiet {
                let (body, sizes) = (&result.output.body, text_page::size_summary(report));
                let is_new_compaction = report.changed && !result.is_replay;
                let reason = if is_new_compaction { String::new() } else { format!(": {}", report.reason) };
                let reference = text_page::compaction_ref_text(self.run, result)
                    .map_or_else(String::new, |reference| format!("; {reference}"));
                output::print_message(&format!("{body}: {sizes}{reason}{reference}"));
                for note in new_notes {
                    output::print_message(&format!("{body}: {note}"));
                }
            }
            if let Some(line) = shortfall {
                output::print_failure(&line);
            }
            written = outputs.write_result(result);
        });
        self.progress.step();
        written
    }

    /// Counts a note and returns whether it is new. A repeated note is printed at the end, with its count.
    fn count_note(&mut self, note: &str) -> bool {
        if let Some(times) = self.note_counts.get_mut(note) {
            *times += 1;
            return false;
        }
        if self.note_counts.len() < MAX_REMEMBERED_NOTES {
            self.note_counts.insert(note.to_owned(), 1);
        }
        true
    }

    fn add_failure(&mut self, failure: &Failure, outputs: &mut SideOutputs<'_>) -> Result<(), Failure> {
        self.bodies += 1;
        self.failed += 1;
        self.exit_code = self.exit_code.max(failure.exit_code());
        self.progress.suspend(|| output::print_failure(&failure.to_string()));
        self.progress.step();
        outputs.write_failure(failure)
    }

    /// Prints the totals and returns the exit code.
    fn print_totals(self) -> ExitCode {
        let Self {
            run,
            progress,
            bodies,
            changed,
            failed,
            exit_code,
            tokens_before: before,
            tokens_after: after,
            note_counts: notes,
        } = self;
        drop(progress);
        if !run.args.quiet {
            let (tokens_before, tokens_after) = (before.number() as f64, after.number() as f64);
            let smaller = |saved: f64| format!(": {before} → {after} tokens ({saved:.0} % smaller)");
            let saving = percent(tokens_before - tokens_after, tokens_before).map_or_else(String::new, smaller);
            let requests = output::pluralize(bodies, "request");
            output::print_message(&format!("{requests}, {changed} compacted, {failed} failed{saving}"));
            for (note, times) in notes.iter().filter(|(_, times)| **times > 1) {
                output::print_message(&format!("{times} of them: {note}"));
            }
        }
        ExitCode::from(exit_code)
    }
}
