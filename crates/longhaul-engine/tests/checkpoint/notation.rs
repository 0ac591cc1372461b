//! Evidence in a few words, one piece a line:
//!
//! ```text
//! 02 ask open: build a login page            ask done, ask cancelled
//! 02 rule: never touch the migrations
//! 02 once: you may push this time             reversal: …, closing: the report that ended all that was asked
//! 03 question: which port? => 8080            without `=> …`: no answer
//! 04 read src/a.rs [read_file]                write, edit, search, list, run, fetch, …
//! 05 run cargo test -> failed 101, 3/4 tests [bash]
//! 05 problem bash: error: no such table       problem bash, resolved 09: …
//! 06 decision: use SQLite => one file
//! 07 next: wire the router                    doing, done, blocked; todo: an open task of a list
//! 08 quote 5.0 read src/a.rs: let port = 8080;
//! state branch: main                          directory, tests, running, environment
//! ```
//!
//! `\n` in a text is a line end. Files are those that deeds with a path touch.

use std::sync::Arc;

use longhaul_engine::action::{Action, Outcome, TestCounts, Touch, Touched, Verb};
use longhaul_engine::checkpoint::Quote;
use longhaul_engine::evidence::{
    Ask, Asker, Decision, Deed, Evidence, FileFact, OnceOnly, Problem, Question, Request, RequestState,
    Reversal, Rule, Said, SaidIn, SaidKind, Uses,
};

/// Evidence and quotes of a notation.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) evidence: Evidence,
    pub(crate) quotes: Vec<Quote>,
}

pub(crate) fn read(text: &str) -> Told {
    let mut told = Told::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (unit, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        let rest = rest.trim().replace("\\n", "\n");
        if unit == "state" {
            state(&mut told.evidence, &rest);
        } else {
            piece(&mut told, unit.parse().unwrap_or_else(|_| panic!("{line}")), &rest);
        }
    }
    told
}

fn piece(told: &mut Told, unit: usize, rest: &str) {
    let uses = Uses::default();
    let evidence = &mut told.evidence;
    let (word, after) = rest.split_once([' ', ':']).unwrap();
    let text = rest.split_once(": ").map_or("", |(_, text)| text).to_owned();
    match word {
        "ask" => {
            let state = match after.split(':').next().unwrap() {
                "open" => RequestState::Open,
                "done" => RequestState::Done,
                _ => RequestState::Cancelled,
            };
            if state == RequestState::Done {
                evidence.closings.push(unit);
            }
            let (gist, ask) = (text.clone(), Ask::Task);
            evidence.requests.push(Request { unit, text, gist, ask, state, settled: None, uses });
        }
        "rule" => evidence.rules.push(Rule { unit, text, uses }),
        "once" => evidence.once_only.push(OnceOnly { unit, text, uses }),
        "reversal" => evidence.reversals.push(Reversal { unit, text, cancels: None }),
        "closing" => evidence.closings.push(unit),
        "question" => {
            let (text, answer) = pair(&text);
            let by = Asker::Assistant;
            evidence.questions.push(Question { unit, by, text, answer, uses });
        }
        "problem" => {
            let head = rest.split(": ").next().unwrap();
            let resolved = head.split_once(", resolved ").map(|(_, unit)| unit.parse().unwrap());
            let tool = head["problem ".len()..].split(',').next().unwrap().to_owned();
            let target =
                evidence.deeds.iter().rfind(|deed| deed.unit == unit).and_then(|d| d.action.target.clone());
            evidence.problems.push(Problem { unit, tool, target, text, resolved, uses });
        }
        "decision" => {
            let (text, reason) = pair(&text);
            evidence.decisions.push(Decision { unit, text, reason, uses });
        }
        "next" => evidence.said.push(Said { unit, text, kind: SaidKind::Next, source: SaidIn::Text, uses }),
        "doing" => evidence.said.push(Said { unit, text, kind: SaidKind::Doing, source: SaidIn::Text, uses }),
        "done" => evidence.said.push(Said { unit, text, kind: SaidKind::Done, source: SaidIn::Text, uses }),
        "blocked" => {
            evidence.said.push(Said { unit, text, kind: SaidKind::Blocked, source: SaidIn::Text, uses })
        }
        "todo" => {
            evidence.said.push(Said { unit, text, kind: SaidKind::Next, source: SaidIn::TaskList, uses })
        }
        "quote" => {
            let (weight, source) = after.split(": ").next().unwrap().split_once(' ').unwrap();
            let lines = text.split('\n').map(str::to_owned).collect();
            told.quotes.push(Quote {
                unit,
                source: source.to_owned(),
                lines,
                weight: weight.parse().unwrap(),
            });
        }
        verb => deed(evidence, unit, verb, after),
    }
}

fn pair(text: &str) -> (String, Option<String>) {
    match text.split_once(" => ") {
        Some((text, more)) => (text.to_owned(), Some(more.to_owned())),
        None => (text.to_owned(), None),
    }
}

fn deed(evidence: &mut Evidence, unit: usize, verb: &str, rest: &str) {
    let (rest, tool) = rest.rsplit_once(" [").unwrap_or((rest, "tool]"));
    let (target, outcome) = rest.split_once(" -> ").unwrap_or((rest, "succeeded"));
    let tests = outcome.split(' ').find_map(|word| word.split_once('/')).map(|(passed, all)| {
        let passed = passed.parse().unwrap();
        TestCounts { passed, failed: all.parse::<usize>().unwrap() - passed }
    });
    let (verb, how) = match verb {
        "read" => (Verb::Read, Some(Touched::Read)),
        "write" => (Verb::Write, Some(Touched::Created)),
        "edit" => (Verb::Edit, Some(Touched::Edited)),
        "search" => (Verb::Search, None),
        "list" => (Verb::List, None),
        "run" => (Verb::Run, None),
        "fetch" => (Verb::Fetch, None),
        _ => (Verb::Other, None),
    };
    let word = outcome.split([' ', ',']).next().unwrap();
    let touches = how.map(|how| Touch { path: target.to_owned(), how });
    if let Some(touch) = &touches {
        match evidence.files.iter_mut().find(|file| file.path == touch.path) {
            Some(file) => file.touched.push((unit, touch.how)),
            None => evidence.files.push(FileFact {
                path: touch.path.clone(),
                touched: vec![(unit, touch.how)],
                uses: Uses::default(),
            }),
        }
    }
    let action = Action {
        tool: tool.trim_end_matches(']').to_owned(),
        verb,
        target: Some(target.to_owned()),
        files: touches.into_iter().collect(),
        shows: None,
        lines: None,
        outcome: match word {
            "succeeded" => Outcome::Succeeded,
            "failed" => Outcome::Failed,
            "unanswered" => Outcome::Unanswered,
            _ => Outcome::Unknown,
        },
        exit: outcome.split([' ', ',']).find_map(|word| word.parse().ok()),
        tests,
    };
    evidence.deeds.push(Deed { unit, exchange: 0, action: Arc::new(action), uses: Uses::default() });
}

fn state(evidence: &mut Evidence, rest: &str) {
    let (name, value) = rest.split_once(": ").unwrap();
    let state = &mut evidence.state;
    match name {
        "directory" => state.directory = Some(value.to_owned()),
        "branch" => state.branch = Some(value.to_owned()),
        "running" => state.processes.push(value.to_owned()),
        "environment" => state.environment.push(value.to_owned()),
        "tests" => {
            let (passed, all) = value.split_once('/').unwrap();
            let passed = passed.parse().unwrap();
            state.tests = Some(TestCounts { passed, failed: all.parse::<usize>().unwrap() - passed });
        }
        _ => panic!("no state {name}"),
    }
}
