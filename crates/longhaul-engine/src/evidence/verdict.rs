//! The lines of a result that decided how it ended: the error's own line, the totals of a test run, else what it printed last.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::data;
use super::words::{TABLE, has_any};
use crate::action::{Action, Outcome, Verb};
use crate::clip;
use crate::digest::WORDS;
use crate::facts::{FactKind, Facts};
use crate::known::ContentKey;
use crate::tools::named;
use crate::transcript::{BlockKind, Exchange};

/// Lines that are quoted, and how much of each is kept; less of it is shown.
const MOST: usize = 3;
const WIDTH: usize = 600;
/// What is printed in no more than this is quoted whole.
const SHORT: usize = 300;
const FEW: usize = 5;
/// How much of a long output says how it ended, and how much of it is searched for what went wrong.
const ENDING: usize = 3_000;
const SEARCHED: usize = 400_000;

/// What decided how an exchange ended.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The lines as they stand in its results, or the fields of the object that it gave back.
    pub(crate) lines: Vec<String>,
    /// Whether they are fields.
    pub(crate) is_data: bool,
    /// What tells all that came back from anything else.
    pub(crate) whole: ContentKey,
}

impl Verdict {
    /// The verdict of an exchange that was asked for with these arguments.
    pub(super) fn of(
        exchange: &Exchange<'_>,
        arguments: &Map<String, Value>,
        action: &Action,
        is_refused: bool,
    ) -> Self {
        let mut lines = Vec::new();
        let whole = ContentKey::of_parts(exchange.results.iter().map(|block| block.raw().as_bytes()));
        let failed = action.outcome == Outcome::Failed || is_refused;
        for block in exchange.results.iter().filter(|block| block.kind == BlockKind::Text) {
            let size = block.text.map_or(0, |text| text.at.len());
            let is_object = matches!(&*block.opening(2), "{\"" | "[{");
            let is_read = size <= ENDING || size <= SEARCHED && (failed || is_object);
            let text = if is_read { block.text() } else { block.ending(ENDING) };
            let (text, is_all) = match unwrapped(&text) {
                Unwrapped::Words(words, is_all) => (words, is_all),
                Unwrapped::Data(_) if failed => (text.clone(), true),
                Unwrapped::Data(value) => {
                    return Self { lines: data::fields(&value, arguments), is_data: true, whole };
                }
            };
            if failed {
                errors(&text, &mut lines);
            }
            // What only looked at something says nothing by its last line.
            if lines.is_empty() && (failed || !action.looks) {
                let ending = clip::end_within(&text, ENDING);
                let is_cut = !is_read || ending.len() < text.len();
                // What a cut left of a line says something else than the line.
                let rest = ending.split_once('\n').map(|(_, rest)| rest).filter(|_| is_cut);
                printed(rest.unwrap_or(ending), action, is_all && !is_cut, &mut lines);
            }
        }
        lines.truncate(MOST);
        Self { lines, is_data: false, whole }
    }

    /// All of it on one line.
    pub(crate) fn joined(&self) -> String {
        self.lines.join(if self.is_data { ", " } else { " … " })
    }

    pub(super) fn size(&self) -> usize {
        self.lines.iter().map(String::len).sum()
    }
}

/// What is inside the JSON that an agent puts around a result.
enum Unwrapped<'t> {
    /// Words, and whether they are all of it.
    Words(Cow<'t, str>, bool),
    /// An object that has no words, or a list of objects.
    Data(Value),
}

fn unwrapped(text: &str) -> Unwrapped<'_> {
    const NAMES: [&str; 8] = ["output", "stdout", "stderr", "error", "message", "result", "content", "text"];
    let value = match text.trim_start().as_bytes() {
        [b'{', b'"', ..] | [b'[', b'{', ..] => serde_json::from_str(text),
        _ => return Unwrapped::Words(Cow::Borrowed(text), text.len() < ENDING),
    };
    match value {
        Ok(Value::Object(map)) => {
            let words = named(&map, &NAMES).filter_map(Value::as_str).collect::<Vec<_>>();
            match words.iter().find(|words| !words.trim().is_empty()).or(words.first()) {
                Some(words) => Unwrapped::Words(Cow::Owned((*words).to_owned()), true),
                None => Unwrapped::Data(Value::Object(map)),
            }
        }
        Ok(value) => Unwrapped::Data(value),
        Err(_) => Unwrapped::Words(Cow::Borrowed(text), false),
    }
}

/// A line without what an agent put behind it.
fn bare(line: &str) -> &str {
    let in_brackets = wrappers().filter(|wrapper| wrapper.starts_with('['));
    let wrapped = in_brackets.filter_map(|wrapper| line.find(wrapper)).min();
    line[..wrapped.unwrap_or(line.len())].trim()
}

fn push(line: &str, lines: &mut Vec<String>) {
    let line = clip::start_within(bare(line), WIDTH);
    if !line.is_empty() && lines.len() < MOST && !lines.iter().any(|other| other == line) {
        lines.push(line.to_owned());
    }
}

/// What went wrong, in the words of the output: where a stack trace ends, or where errors begin.
fn errors(text: &str, lines: &mut Vec<String>) {
    let facts = Facts::of(text);
    let is_echo = |line: &str| line.starts_with("cd ") || line.starts_with("$ ");
    let says =
        |line: &str| !is_wrapper(line) && !is_opening(line) && !says_all_is_well(line) && !is_echo(line);
    if let Some(tally) = tally(text) {
        push(tally, lines);
    }
    // An editor that says why it did nothing, perhaps behind all that it was given.
    if let Some(line) = text.lines().rev().find(|line| has_any(line, &TABLE.refusals)) {
        return push(line, lines);
    }
    // An editor that checks what it is given lists what is wrong under a heading.
    let listed =
        text.split_once("ERRORS:\n").map(|(_, list)| list.lines().take_while(|line| line.starts_with("- ")));
    if let Some(listed) = listed {
        return listed.take(2).for_each(|line| push(line.trim_start_matches("- "), lines));
    }
    let specific: Vec<&str> = facts
        .of_kind(FactKind::Error)
        .filter(|fact| fact.is_specific())
        .map(|fact| fact.text.trim())
        .filter(|line| says(line))
        .filter_map(|line| text.get(text.find(line)?..).and_then(|rest| rest.lines().next()))
        .collect();
    let trace = text.contains(TRACE);
    let chosen: Vec<&str> = match (trace, specific.as_slice()) {
        (_, []) => {
            text.lines().map(str::trim).filter(|line| is_telling(line) && says(line)).take(1).collect()
        }
        (true, all) => all.iter().rev().take(1).copied().collect(),
        (false, all) => all.iter().take(2).copied().collect(),
    };
    for line in chosen {
        push(line, lines);
    }
    facts.of_kind(FactKind::Failing).take(2).for_each(|fact| push(&fact.text, lines));
}

/// What opens a stack trace.
const TRACE: &str = "Traceback (most recent call last)";

/// The line with the totals of a test run.
fn tally(text: &str) -> Option<&str> {
    let counts = |line: &str, noun: &str| {
        let before = line.find(noun).map(|at| line[..at].trim_end());
        before.is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()))
    };
    let is_tally = |line: &&str| {
        line.len() < SHORT
            && (counts(line, "passed") || counts(line, "failed"))
            && !line.contains("0 passed; 0 failed")
    };
    text.lines().rev().take(200).find(is_tally)
}

/// What something printed last, or all of it where that is little.
fn printed(text: &str, action: &Action, whole: bool, lines: &mut Vec<String>) {
    let failed = action.outcome == Outcome::Failed;
    // Rules say nothing, runners of scripts repeat what they run, and what worked may have been warned of.
    let says = |line: &&str| {
        line.contains(char::is_alphanumeric)
            && !is_wrapper(line)
            && !line.starts_with("> ")
            && (failed || !is_aside(&line.to_lowercase()))
    };
    let mut said: Vec<&str> = text.lines().map(bare).filter(says).collect();
    // Of a stack trace that nobody minded, its last line is what was printed.
    if let Some(trace) = said.iter().rposition(|line| line.starts_with(TRACE)) {
        let above = said.len() - 1;
        said.drain(trace..above);
    }
    let short = whole && said.len() <= FEW && said.iter().map(|line| line.len()).sum::<usize>() <= SHORT;
    if short {
        return push(&said.join(" | "), lines);
    }
    if matches!(action.verb, Verb::Write | Verb::Edit) {
        return tally(text).or(said.first().copied()).into_iter().for_each(|line| push(line, lines));
    }
    let rate = |line: &&str| {
        let verdict =
            ["pass", "fail", "error", "result", "total", "ok", "expected", "success", "✓", "✗", "="];
        let lower = line.to_lowercase();
        let hits = verdict.iter().filter(|word| lower.contains(**word)).count().min(2);
        let says = hits
            + usize::from(line.bytes().any(|byte| byte.is_ascii_digit()))
            + usize::from(is_telling(line));
        // What went wrong says more than that a script came to its end.
        let complains = ["error", "exception", "fail", "not found"].iter().any(|word| lower.contains(word))
            && !says_all_is_well(line);
        let commits = line.starts_with('[')
            && line.contains("] ")
            && line.split(']').next().is_some_and(|head| head.contains(' '));
        if is_aside(&lower) { 0 } else { says + 2 * usize::from(complains) + 3 * usize::from(commits) }
    };
    let last = said.iter().rev().take(12).copied().collect::<Vec<_>>();
    // Of equals the newest.
    let best = last.iter().rev().max_by_key(|line| rate(line)).copied();
    let end = last.iter().copied().find(|line| rate(line) > 0);
    let best = best.filter(|line| rate(line) > 0);
    let mut chosen: Vec<&str> =
        tally(text).map_or_else(|| best.into_iter().chain(end).collect(), |tally| vec![tally]);
    chosen.dedup();
    chosen
        .into_iter()
        .filter(|line| is_telling(line) || line.len() <= SHORT)
        .for_each(|line| push(line, lines));
}

/// Warnings and hints that stand beside any outcome.
fn is_aside(lower: &str) -> bool {
    has_any(lower, &TABLE.warnings)
}

/// Whether a line has enough in it to tell something: two words, or as much in a script that puts no spaces between them.
fn is_telling(line: &str) -> bool {
    const LETTERS: usize = 4;
    line.split_whitespace().nth(1).is_some()
        || line.chars().filter(|c| super::names::is_unspaced(*c)).nth(LETTERS).is_some()
}

/// What opens a stack trace or a list says nothing of what is below.
fn is_opening(line: &str) -> bool {
    let is_heading = line.ends_with(':') && line.split_whitespace().nth(2).is_none();
    is_heading || line.starts_with(TRACE)
}

/// A line that reports no error, whatever words it has.
fn says_all_is_well(line: &str) -> bool {
    has_any(&line.to_lowercase(), &TABLE.reassurances)
}

fn wrappers() -> impl Iterator<Item = &'static str> {
    WORDS.wrappers.iter().chain(&TABLE.around).map(String::as_str)
}

fn is_wrapper(line: &str) -> bool {
    let line = line.trim();
    let is_shell_prompt = line.ends_with(['$', '#']) && (line == "bash-$" || line.contains('@'));
    is_shell_prompt
        || wrappers().any(|opener| line.starts_with(opener))
        || line.starts_with('[') && line.ends_with("Result:")
        || TABLE.asides.iter().any(|words| line.starts_with(words.as_str()))
}
