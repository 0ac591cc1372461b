//! Forms of what was run and called.

use super::{COMMAND, OUTCOME, Piece, Writer};
use crate::action::{Outcome, Verb};
use crate::clip::start_within;
use crate::evidence::{Did, Read, Verdict};
use crate::redact::Redacted;
use crate::texts::{Act, Entry};

/// Characters of what came back as data, in a short form.
const DATA: usize = 240;
/// A field of no more characters is told wherever it stands.
const SHORT_FIELD: usize = 24;

impl Writer<'_, '_> {
    pub(super) fn run(&mut self, read: &Read, times: usize) -> Vec<Piece> {
        let Some(did) = read.did() else { return Vec::new() };
        let verdict = did.verdict.joined();
        let (command, verdict) = (self.redact(without_message(&did.same, &verdict)), self.redact(&verdict));
        let form = |(command_most, most): (usize, usize)| {
            let mut outcome = ended(did, &verdict.on_one_line(most));
            if times > 1 && !outcome.as_str().is_empty() {
                outcome = outcome.and_own(" (").and_number(times).and_own(" times the same)");
            }
            let entry = Entry::new(Act::Run, &command.on_one_line(command_most), &outcome);
            Piece::Entry(None, entry.kept_as(self.handle(read)))
        };
        [(COMMAND[0], OUTCOME[0]), (COMMAND[1], OUTCOME[0]), (COMMAND[1], OUTCOME[1])].map(form).into()
    }

    pub(super) fn call(&mut self, reads: &[&Read]) -> Vec<Piece> {
        let Some((read, did)) = reads.last().and_then(|read| Some((read, read.did()?))) else {
            return Vec::new();
        };
        let act = match did.action.verb {
            Verb::Fetch | Verb::Browse => Act::Fetch,
            Verb::Delegate => Act::Delegate,
            _ => Act::Call,
        };
        let asked: Vec<&str> = reads.iter().filter_map(|read| Some(read.did()?.asked.as_str())).collect();
        // A call is known by its tool; pages and tasks speak for themselves.
        let tool = if act == Act::Call { did.action.tool.as_str() } else { "" };
        let asked = format!("{tool} {}", asked.join("; "));
        let (asked, verdict) = (self.redact(&asked), self.new_first(&did.verdict));
        let form = |(asked_most, most): (usize, usize)| {
            let entry =
                Entry::new(act, &asked.on_one_line(asked_most), &ended(did, &verdict.on_one_line(most)));
            Piece::Entry(None, entry.kept_as(self.handle(read)))
        };
        let least = if did.verdict.is_data { DATA } else { OUTCOME[0] };
        [(COMMAND[0], least), (COMMAND[1], OUTCOME[1]), (COMMAND[1] * 3, OUTCOME[1] * 2)].map(form).into()
    }

    /// The outcome of a call; of fields, those first that no call before gave back.
    fn new_first(&mut self, verdict: &Verdict) -> Redacted {
        if !verdict.is_data {
            return self.redact(&verdict.joined());
        }
        let is_new = |field: &&str| field.len() <= SHORT_FIELD || !self.fields.contains(*field);
        let rows = |field: &'_ String| self.named.rows(field).unwrap_or_else(|| field.clone());
        let told: Vec<String> = verdict.lines.iter().map(rows).collect();
        let (mut new, old): (Vec<&str>, Vec<&str>) = told.iter().map(String::as_str).partition(is_new);
        self.fields.extend(new.iter().map(|field| (*field).to_owned()));
        new.extend(old);
        self.redact(&new.join(", "))
    }

    pub(super) fn tests(&mut self, read: &Read, since: bool) -> Vec<Piece> {
        let Some(did) = read.did() else { return Vec::new() };
        let command = self.line(&did.same, COMMAND[0]);
        let outcome = ended(did, &Redacted::own(""));
        let since = if since { " (files were changed since)" } else { "" };
        vec![Piece::Item(
            Redacted::own("newest test run: ").and(&command).and_own(" — ").and(&outcome).and_own(since),
        )]
    }
}

/// A commit without the message, where what it printed has it.
fn without_message<'c>(command: &'c str, printed: &str) -> &'c str {
    let message = command.find("git commit").and_then(|at| Some(at + command[at..].find(" -m ")?));
    match message.map(|at| (at, command[at + 4..].trim_start_matches(['"', '\'']))) {
        Some((at, words)) if printed.contains(start_within(words, 16)) => &command[..at],
        _ => command,
    }
}

/// How something ended, with the lines that decided it.
pub(super) fn ended(did: &Did, verdict: &Redacted) -> Redacted {
    let action = &did.action;
    let failed = action.outcome == Outcome::Failed;
    let mut words = Redacted::own("");
    if let Some(tests) = action.tests.filter(|_| !verdict.as_str().contains(" passed")) {
        words =
            words.and_number(tests.passed).and_own(" passed, ").and_number(tests.failed).and_own(" failed");
    } else if let Some(status) = action.exit.filter(|status| *status != 0) {
        let exit = if status < 0 { "exit -" } else { "exit " };
        words = Redacted::own(exit).and_number(status.unsigned_abs() as usize);
    } else if failed {
        words = Redacted::own("failed");
    } else if action.outcome == Outcome::Unanswered {
        words = Redacted::own("no result");
    }
    match (words.as_str().is_empty(), verdict.as_str().is_empty()) {
        (true, true) if action.exit == Some(0) => Redacted::own("exit 0"),
        (true, true) => Redacted::own(""),
        (true, false) => verdict.clone(),
        (false, true) => words,
        (false, false) => words.and_own(": ").and(verdict),
    }
}
