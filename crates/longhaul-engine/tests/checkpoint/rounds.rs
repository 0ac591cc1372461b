//! Compactions in a row: each replaces the checkpoint before, and what must not be lost is not.

use std::fmt::Write as _;

use longhaul_engine::checkpoint::{Checkpoint, Draft, Section};
use longhaul_engine::redact::Redacted;

use crate::budget::{COUNTER, draft, redactor, render};
use crate::notation;

const RULES: [&str; 3] = [
    "Immer auf Deutsch antworten, Bezeichner bleiben englisch.",
    "Never push to main; open a pull request from `feature/*`.",
    "請保留 README.zh.md 的語氣。",
];

/// What happens between two compactions.
fn round(n: usize) -> String {
    let mut text = String::new();
    if n == 0 {
        text.push_str("0 ask open: Replace the queue by a log and prove that nothing is lost.\n");
    }
    if let Some(rule) = RULES.get(n) {
        writeln!(text, "0 rule: {rule}").unwrap();
    }
    for step in 1..60 {
        let line = match step % 6 {
            0 => format!("run make check-{n}-{step} -> failed 2 [bash]"),
            1 => format!("edit src/round{n}/file_{}.rs [edit_file]", step % 12),
            2 | 3 => format!("read src/round{n}/file_{step}.rs [read_file]"),
            4 => format!("run cargo test round_{n}_{step} -> succeeded 0 [bash]"),
            _ => format!(
                "quote 2.0 read src/round{n}/file_{step}.rs: const LIMIT_{n}_{step}: usize = {};",
                step * 37
            ),
        };
        writeln!(text, "{step} {line}").unwrap();
    }
    writeln!(
        text,
        "60 doing: Working on part {n}.\n60 decision: Part {n} keeps its own log => it restarts alone"
    )
    .unwrap();
    text + &format!("state directory: /srv/log\nstate branch: part-{n}\nstate tests: {n}/9\n")
}

#[test]
fn six_compactions_lose_no_rule_no_task_and_no_changed_file() {
    let budget = 3_000;
    let mut before: Option<Checkpoint> = None;
    let mut numbers = 0;
    for n in 0..6 {
        let told = notation::read(&round(n));
        let draft = Draft { previous: before.as_ref(), ..draft(&told, budget) };
        let checkpoint = Checkpoint::build(&draft, &mut redactor());
        let text = render(&checkpoint, &draft);
        assert!(COUNTER.count(&text).number() <= budget, "round {n}");
        for rule in &RULES[..RULES.len().min(n + 1)] {
            assert!(text.contains(&format!("\n- {rule}\n")), "round {n}: {rule}\n{text}");
        }
        let tasks: Vec<&str> = checkpoint.list(Section::ActiveTask).iter().map(Redacted::as_str).collect();
        assert_eq!(tasks, ["Replace the queue by a log and prove that nothing is lost."], "round {n}");
        for round in 0..=n {
            for file in [1, 7] {
                assert!(
                    text.contains(&format!("- src/round{round}/file_{file}.rs — edited")),
                    "round {n}\n{text}"
                );
            }
            assert!(text.contains(&format!("Part {round} keeps its own log")), "round {n}\n{text}");
        }
        assert!(
            text.contains(&format!("Branch: part-{n}\n"))
                && !text.contains(&format!("Branch: part-{}\n", n.wrapping_sub(1)))
        );
        assert!(text.contains(&format!("## In Progress\n- Working on part {n}.\n")), "{text}");
        let last = checkpoint.completed().last().unwrap().number;
        assert!(last > numbers, "numbers go on: {last} after {numbers}\n{text}");
        assert!(checkpoint.completed().is_sorted_by_key(|line| line.number), "{text}");
        numbers = last;
        before = Checkpoint::parse(&text);
        assert!(before.is_some());
    }
}

#[test]
fn failures_are_still_counted_after_many_folds() {
    let mut before: Option<Checkpoint> = None;
    for n in 0..6 {
        let told = notation::read(&round(n));
        let draft = Draft { previous: before.as_ref(), ..draft(&told, 900) };
        let checkpoint = Checkpoint::build(&draft, &mut redactor());
        let told: Vec<&str> = checkpoint.completed().iter().map(|line| line.text.as_str()).collect();
        let failed: usize = told.iter().map(|line| count_before(line, " failed")).sum();
        // Nine runs of each round fail.
        assert_eq!(failed, 9 * (n + 1), "{told:#?}");
        before = Some(checkpoint);
    }
}

fn count_before(line: &str, word: &str) -> usize {
    let Some((head, _)) = line.split_once(word) else { return usize::from(line.contains("failed")) };
    head.rsplit([' ', ',']).next().and_then(|number| number.parse().ok()).unwrap_or_else(|| {
        // `all failed`: the number of times stands behind the target.
        let times =
            line.split(' ').find_map(|word| word.strip_suffix('×')).and_then(|times| times.parse().ok());
        times.unwrap_or(1)
    })
}

#[test]
fn a_finished_task_does_not_come_back_and_a_withdrawn_one_neither() {
    let first = notation::read("0 ask open: Rename the package to longbow.\n1 edit package.json [edit]\n");
    let before = Checkpoint::build(&draft(&first, 2_000), &mut redactor());
    assert_eq!(before.list(Section::ActiveTask).len(), 1);
    let later = [
        ("2 closing: reported\n3 ask open: Now fix the tests.\n", "Now fix the tests.", "reported as done"),
        ("2 reversal: Never mind.\n3 ask open: Fix the tests.\n", "Fix the tests.", "withdrawn by the user"),
    ];
    for (told, task, end) in later {
        let told = notation::read(told);
        let draft = Draft { previous: Some(&before), ..draft(&told, 2_000) };
        let after = Checkpoint::build(&draft, &mut redactor());
        let text = render(&after, &draft);
        assert_eq!(after.list(Section::ActiveTask)[0].as_str(), task, "{text}");
        assert!(after.is_empty(Section::PendingUserAsks), "{text}");
        assert!(
            text.contains(&format!("The first request, {end}: Rename the package to longbow.")),
            "{text}"
        );
        let nothing = notation::read("4 read a.rs [read]\n");
        let again = Draft { previous: Some(&after), ..crate::budget::draft(&nothing, 2_000) };
        let third = Checkpoint::build(&again, &mut redactor());
        assert_eq!(third.list(Section::ActiveTask)[0].as_str(), task);
        assert_eq!(third.list(Section::Goal), after.list(Section::Goal));
    }
}

#[test]
fn a_task_that_nobody_ended_waits_behind_the_newer_one() {
    let first = notation::read("0 ask open: Write the importer.\n");
    let before = Checkpoint::build(&draft(&first, 2_000), &mut redactor());
    let told = notation::read("2 ask open: But first fix the build.\n");
    let draft = Draft { previous: Some(&before), ..draft(&told, 2_000) };
    let after = Checkpoint::build(&draft, &mut redactor());
    assert_eq!(after.list(Section::ActiveTask)[0].as_str(), "But first fix the build.");
    assert_eq!(after.list(Section::PendingUserAsks)[0].as_str(), "Write the importer.");
}

#[test]
fn what_was_allowed_once_is_no_rule_and_goes_with_its_work() {
    let first = notation::read("0 ask open: Ship it.\n0 once: You may push to main this time.\n");
    let before = Checkpoint::build(&draft(&first, 2_000), &mut redactor());
    let item = before.list(Section::Constraints)[0].as_str();
    assert_eq!(item, "Once only, not a standing rule: You may push to main this time.");
    let told = notation::read("2 closing: shipped\n3 ask open: Next.\n");
    let after = Checkpoint::build(&Draft { previous: Some(&before), ..draft(&told, 2_000) }, &mut redactor());
    assert!(after.is_empty(Section::Constraints));
}

#[test]
fn nothing_new_changes_nothing() {
    let told = notation::read(&round(0));
    let first = Checkpoint::build(&draft(&told, 3_000), &mut redactor());
    let nothing = notation::read("");
    let again =
        Checkpoint::build(&Draft { previous: Some(&first), ..draft(&nothing, 3_000) }, &mut redactor());
    assert_eq!(again, first);
}
