//! Several bodies: files into a directory, or lines into lines. All cores work, and the results come in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use longhaul_engine::Tokens;
use longhaul_engine::tokens::percent;

use super::job::{Call, Done, Memory};
use super::outputs::Outputs;
use super::{backup, places, show};
use crate::body::Body;
use crate::failure::Failure;
use crate::input::{self, Line, Lines};
use crate::output::{self, Layout, Sink};
use crate::parallel;
use crate::progress::Progress;

/// Why the work ends early: the world failed, or nobody reads the lines any more.
type Stop = Result<(), Failure>;

/// Each file goes to the directory under its name. A file that cannot be used is said, and the others still come out.
pub(super) fn files(call: &Call<'_>) -> Result<ExitCode, Failure> {
    let args = call.args;
    if let Some(directory) = args.out_dir.as_deref().filter(|_| !args.preview) {
        output::make_directory(directory)?;
    }
    let mut outputs = Outputs::open(call, Layout::Line)?;
    let mut tally = Tally::new(call, Some(args.bodies.len()));
    let work = |memory: &mut Memory, path: &PathBuf| {
        let body = call.read(path)?;
        let done = call.compress(memory, &body)?;
        Ok((target(call, path, &body)?, body, done))
    };
    let give = |worked: Result<(Option<PathBuf>, Body, Done), Failure>| {
        let given = match &worked {
            Err(failure) => tally.fail(failure, &mut outputs),
            Ok((target, body, done)) => outputs.keep(done).and_then(|()| {
                if let Some(file) = target {
                    let text = done.text.as_deref().unwrap_or(&body.text);
                    super::write(args, file, text, done.text.is_some())?;
                }
                tally.count(done, &mut outputs)
            }),
        };
        flow(given)
    };
    let stopped = all(call, args.bodies.iter(), work, give);
    finish(stopped, tally, outputs)
}

fn target(call: &Call<'_>, path: &Path, body: &Body) -> Result<Option<PathBuf>, Failure> {
    if call.args.in_place {
        super::refuse_session(body)?;
        return Ok(Some(path.to_owned()));
    }
    let directory = call.args.out_dir.as_deref().filter(|_| !call.args.preview);
    if let (Some(directory), Some(owned)) = (directory, &body.stored) {
        return Ok(Some(directory.join(format!("store-{}.json", owned.session.name))));
    }
    match (directory, &body.session) {
        // The request is no session file, and is not to be taken for one.
        (Some(directory), Some(read)) => {
            let (agent, id) = (read.session.agent, &read.session.id);
            Ok(Some(directory.join(format!("{agent}-{}.json", id.replace(['/', '\\', ':'], "-")))))
        }
        (directory, _) => directory.map(|directory| places::target(directory, path)).transpose(),
    }
}

/// What a line becomes, and how it went; nothing where the line is blank.
struct Passed {
    bytes: Vec<u8>,
    how: Option<Result<Done, Failure>>,
}

/// Each line that is a body becomes a line. One that is not passes as it is, so that nothing is lost.
pub(super) fn lines(call: &Call<'_>, lines: Lines) -> Result<ExitCode, Failure> {
    let args = call.args;
    let mut outputs = Outputs::open(call, Layout::Line)?;
    let to = args.answer.to().or(args.bodies.first().map(PathBuf::as_path).filter(|_| args.in_place));
    let result = (!args.preview).then(|| Sink::open(to));
    let mut bodies = result.transpose()?;
    let mut tally = Tally::new(call, None);
    let work = |memory: &mut Memory, line: Result<Line, Failure>| line.map(|line| pass(call, memory, line));
    let give = |passed: Result<Passed, Failure>| {
        let given = passed.and_then(|Passed { bytes, how }| {
            if let Some(Ok(done)) = &how {
                outputs.keep(done)?;
            }
            if let Some(sink) = &mut bodies {
                sink.write(&bytes)?;
            }
            match &how {
                None => Ok(()),
                Some(Ok(done)) => tally.count(done, &mut outputs),
                Some(Err(failure)) => tally.fail(failure, &mut outputs),
            }
        });
        if given.is_ok() && bodies.as_ref().is_some_and(Sink::is_deserted) {
            return ControlFlow::Break(Ok(()));
        }
        flow(given)
    };
    let stopped = all(call, lines, work, give);
    if !matches!(stopped, ControlFlow::Break(Err(_)))
        && let Some(sink) = bodies
    {
        if let Some(file) = to.filter(|_| args.in_place) {
            backup::keep(file)?;
        }
        sink.close()?;
    }
    finish(stopped, tally, outputs)
}

fn pass(call: &Call<'_>, memory: &mut Memory, line: Line) -> Passed {
    if line.is_blank() {
        return Passed { bytes: line.bytes, how: None };
    }
    let shown = format!("line {} of {}", line.number, input::shown(&call.args.bodies[0]));
    let body = input::text(&shown, line.bytes.clone()).map(|text| Body::of_text(shown, text));
    match body.and_then(|body| call.compress(memory, &body)) {
        Ok(mut done) => {
            let bytes = done.text.take().map_or(line.bytes, String::into_bytes);
            Passed { bytes, how: Some(Ok(done)) }
        }
        Err(failure) => Passed { bytes: line.bytes, how: Some(Err(failure)) },
    }
}

/// Works on all of them. What a session is recorded from comes in order, so that a longer body goes on with a shorter one.
fn all<I: Send, O: Send>(
    call: &Call<'_>,
    items: impl Iterator<Item = I> + Send,
    work: impl Fn(&mut Memory, I) -> O + std::marker::Sync,
    give: impl FnMut(O) -> ControlFlow<Stop>,
) -> ControlFlow<Stop> {
    if call.recording.is_none() {
        return parallel::in_order(items, work, give);
    }
    let mut memory = Memory::for_one_body();
    items.map(|item| work(&mut memory, item)).try_for_each(give)
}

fn flow(given: Result<(), Failure>) -> ControlFlow<Stop> {
    match given {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => ControlFlow::Break(Err(failure)),
    }
}

fn finish(stopped: ControlFlow<Stop>, tally: Tally<'_>, outputs: Outputs<'_>) -> Result<ExitCode, Failure> {
    if let ControlFlow::Break(stop) = stopped {
        stop?;
    }
    outputs.close()?;
    Ok(tally.close())
}

/// So many different notes are remembered, so that one that holds for many bodies is said once.
const MOST_NOTES: usize = 1_000;

/// The sums over all bodies, and what is said about each as it comes.
struct Tally<'a> {
    call: &'a Call<'a>,
    progress: Progress,
    bodies: usize,
    changed: usize,
    failed: usize,
    exit_code: u8,
    before: Tokens,
    after: Tokens,
    notes: BTreeMap<String, usize>,
}

impl<'a> Tally<'a> {
    fn new(call: &'a Call<'a>, bodies: Option<usize>) -> Self {
        let progress = if call.args.quiet { Progress::hidden() } else { Progress::of(bodies, "bodies") };
        let (before, after, notes) = (Tokens::ZERO, Tokens::ZERO, BTreeMap::new());
        Self { call, progress, bodies: 0, changed: 0, failed: 0, exit_code: 0, before, after, notes }
    }

    fn count(&mut self, done: &Done, outputs: &mut Outputs<'_>) -> Result<(), Failure> {
        let report = &done.answer.report;
        self.bodies += 1;
        self.changed += usize::from(report.changed);
        self.before += report.tokens.before;
        self.after += report.tokens.after;
        let shortfall = done.shortfall();
        self.exit_code = self.exit_code.max(u8::from(shortfall.is_some()));
        let new_notes: Vec<&String> = report.notes.iter().filter(|note| self.is_new(note)).collect();
        let mut told = Ok(());
        self.progress.aside(|| {
            if !self.call.args.quiet {
                let (body, verdict) = (&done.answer.body, show::verdict(report));
                let told = report.changed && !done.is_replay;
                let why = if told { String::new() } else { format!(": {}", report.reason) };
                let kept = show::kept(done).map_or_else(String::new, |kept| format!("; {kept}"));
                output::say(&format!("{body}: {verdict}{why}{kept}"));
                for note in new_notes {
                    output::say(&format!("{body}: {note}"));
                }
            }
            if let Some(line) = shortfall {
                output::say_failure(&line);
            }
            told = outputs.tell(done);
        });
        self.progress.step();
        told
    }

    /// Counts a note. One that came before is said at the end, with how often.
    fn is_new(&mut self, note: &str) -> bool {
        if let Some(times) = self.notes.get_mut(note) {
            *times += 1;
            return false;
        }
        if self.notes.len() < MOST_NOTES {
            self.notes.insert(note.to_owned(), 1);
        }
        true
    }

    fn fail(&mut self, failure: &Failure, outputs: &mut Outputs<'_>) -> Result<(), Failure> {
        self.bodies += 1;
        self.failed += 1;
        self.exit_code = self.exit_code.max(failure.exit_code());
        self.progress.aside(|| output::say_failure(&failure.to_string()));
        self.progress.step();
        outputs.tell_failure(failure)
    }

    /// Says the sums.
    fn close(self) -> ExitCode {
        let Self { call, progress, bodies, changed, failed, exit_code, before, after, notes } = self;
        drop(progress);
        if !call.args.quiet {
            let (whole, left) = (before.number() as f64, after.number() as f64);
            let smaller = |saved: f64| format!(": {before} → {after} tokens ({saved:.0} % smaller)");
            let sums = percent(whole - left, whole).map_or_else(String::new, smaller);
            let bodies = if bodies == 1 { "1 body".to_owned() } else { format!("{bodies} bodies") };
            output::say(&format!("{bodies}, {changed} compacted, {failed} failed{sums}"));
            for (note, times) in notes.iter().filter(|(_, times)| **times > 1) {
                output::say(&format!("{times} of them: {note}"));
            }
        }
        ExitCode::from(exit_code)
    }
}
