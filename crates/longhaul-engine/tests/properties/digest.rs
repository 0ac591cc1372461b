//! What holds for every digest, over outputs of every kind: generated ones always, real ones where `LONGHAUL_SHARED` is set.

use crate::outputs;
use longhaul_engine::digest::{Digest, Focus, OutputKind, ToolOutput, digest, one_line_digest};
use longhaul_engine::facts::{FactKind, Facts};
use longhaul_engine::tokens::{Tokens, estimate};
use proptest::prelude::*;
use std::collections::BTreeMap;

tests! {
    always: [
        generated_outputs_of_every_kind,
        a_failure_stays_a_failure,
        what_the_task_is_about_is_kept,
        a_handle_is_carried,
        facts_come_first,
        a_total_is_never_of_a_line_of_a_log,
        any_text_is_digested,
        any_kind_is_forced_on_any_text,
    ],
    real: [
        real_outputs,
    ],
}

const BUDGETS: [u64; 3] = [40, 150, 600];

fn of<'a>(text: &'a str, focus: &'a Focus) -> ToolOutput<'a> {
    ToolOutput {
        text,
        original_bytes: None,
        tool: None,
        arguments: None,
        kind: None,
        failed: None,
        focus,
        recall_id: None,
    }
}

/// The lines of a digest that are quotes, without the marks behind them.
fn quotes(digest: &str) -> impl Iterator<Item = &str> {
    let ours = |line: &&str| !(line.starts_with('[') && line.ends_with(']')) && *line != "…";
    digest.lines().filter(ours).map(|line| {
        let line = line.rsplit_once(" [×").filter(|(_, times)| times.ends_with(']')).map_or(line, |(line, _)| line);
        line.strip_suffix('…').unwrap_or(line)
    })
}

/// The number before a word in the first line of a digest.
fn told(digest: &str, word: &str) -> Option<usize> {
    let head = digest.lines().next()?;
    let before = head[..head.find(word)?].trim_end();
    before.rsplit([' ', '[']).next()?.replace(',', "").parse().ok()
}

fn holds(text: &str, budget: Tokens, focus: &Focus) -> Digest {
    let source = of(text, focus);
    let made = digest(&source, budget);
    assert_eq!(made, digest(&source, budget), "the same input gives the same bytes");
    assert!(made.text.len() <= text.len(), "longer than its source:\n{}", made.text);
    if made.text == text {
        assert_eq!(made.left_out, 0);
        return made;
    }
    assert!(
        estimate(&made.text) <= budget.max(Tokens(32)) || made.text.lines().count() == 1,
        "over {budget} tokens:\n{}",
        made.text
    );
    for quote in quotes(&made.text) {
        assert!(text.contains(quote), "not in the source: {quote:?}\n{}", made.text);
    }
    counts_are_exact(text, &made);
    made
}

fn counts_are_exact(text: &str, made: &Digest) {
    if made.text.contains("inside JSON with") {
        return; // Its lines are those of a string, which the source does not have.
    }
    let full = text.lines().filter(|line| !line.trim().is_empty()).count();
    let word = if full == 1 { " line" } else { " lines" };
    assert_eq!(told(&made.text, word), Some(full), "{}", made.text);
    assert_eq!(told(&made.text, " left out").unwrap_or(0), made.left_out, "{}", made.text);
    let gaps: Vec<usize> = made.text.lines().filter_map(gap).collect();
    if !gaps.is_empty() {
        assert_eq!(gaps.iter().sum::<usize>(), made.left_out, "gaps do not add up:\n{}", made.text);
    }
    let errors = Facts::scan(text).error_lines;
    if errors > 0 {
        assert_eq!(told(&made.text, " error line"), Some(errors), "{}", made.text);
    }
}

fn gap(line: &str) -> Option<usize> {
    let count = line.strip_prefix("[… ")?.strip_suffix(']')?;
    count.strip_suffix(" lines").or_else(|| count.strip_suffix(" line"))?.replace(',', "").parse().ok()
}

fn generated_outputs_of_every_kind() {
    let focus = Focus::from_texts(["why does the parser cache time out in src/cache.rs"]);
    let mut seen: BTreeMap<OutputKind, usize> = BTreeMap::new();
    let mut mistaken = Vec::new();
    for (kind, text) in outputs::all() {
        for budget in BUDGETS {
            let made = holds(&text, Tokens(budget), &Focus::none());
            if made.kind != kind {
                mistaken.push(format!(
                    "{kind:?} taken for {:?}: {}",
                    made.kind,
                    text.lines().take(3).collect::<Vec<_>>().join(" / ")
                ));
            }
            holds(&text, Tokens(budget), &focus);
        }
        *seen.entry(kind).or_default() += 1;
    }
    mistaken.dedup();
    assert!(mistaken.is_empty(), "{}", mistaken.join("\n"));
    for kind in OutputKind::all() {
        assert!(seen.get(&kind).copied().unwrap_or(0) >= 20, "too few of {kind:?}");
    }
}

fn real_outputs() {
    let texts = outputs::real();
    assert!(texts.len() > 100, "only {} outputs", texts.len());
    for text in &texts {
        for budget in BUDGETS {
            holds(text, Tokens(budget), &Focus::none());
        }
    }
}

fn a_failure_stays_a_failure() {
    let focus = Focus::none();
    for (name, text) in outputs::failures() {
        for budget in BUDGETS {
            let made = digest(&of(&text, &focus), Tokens(budget)).text.to_lowercase();
            assert!(made.contains("fail") || made.contains("error"), "{name} at {budget}:\n{made}");
        }
        let line = one_line_digest(&ToolOutput { tool: Some("bash"), ..of(&text, &focus) }).text.to_lowercase();
        assert!(line.contains("fail") || line.contains("error") || line.contains("exit 1"), "{name}:\n{line}");
    }
}

fn what_the_task_is_about_is_kept() {
    let mut lines: Vec<String> =
        (0..400).map(|i| format!("2024-05-01 10:00:{:02} INFO request {i} served", i % 60)).collect();
    lines[211] = String::from("2024-05-01 10:03:31 DEBUG timing of the parser: 812 ms");
    let text = lines.join("\n");
    let asked = Focus::from_texts(["look at the debug timing"]);
    assert!(digest(&of(&text, &asked), Tokens(80)).text.contains("812 ms"));
    assert!(!digest(&of(&text, &Focus::none()), Tokens(80)).text.contains("812 ms"));
}

fn a_handle_is_carried() {
    let focus = Focus::none();
    let text = "one line of output\n".repeat(200);
    let source = ToolOutput { recall_id: Some("lh_7f3a"), tool: Some("bash"), ..of(&text, &focus) };
    assert!(digest(&source, Tokens(60)).text.contains("lh_7f3a"));
    assert!(one_line_digest(&source).text.contains("lh_7f3a"));
}

fn facts_come_first() {
    for (kind, text) in outputs::all() {
        let facts = Facts::scan(&text);
        let telling = facts.of_kind(FactKind::FailingTest).count() + facts.of_kind(FactKind::Error).count();
        if (1..=4).contains(&telling) && kind != OutputKind::Binary {
            let made = digest(&of(&text, &Focus::none()), Tokens(400));
            for fact in facts.of_kind(FactKind::FailingTest).chain(facts.of_kind(FactKind::Error)) {
                // A whole document on one line fails in some of its rows: its beginning says nothing, they do.
                let is_document = kind == OutputKind::Json && fact.text.len() > 1_000;
                let start: String = fact.text.chars().take(60).collect();
                let told = if is_document { "\"failed\"" } else { &start };
                assert!(made.text.contains(told), "{told:?} is missing in\n{}", made.text);
            }
        }
    }
}

/// Logs of every shape: whatever number stands before whatever word, no line with a time and a level has a total in it.
fn a_total_is_never_of_a_line_of_a_log() {
    const TIMES: [&str; 5] = [
        "2026-03-01 10:00:{s}",
        "2026-03-01T10:00:{s}Z",
        "[10:00:{s}]",
        "10:00:{s},123",
        "Mar  1 10:00:{s} host app[77]:",
    ];
    const LEVELS: [&str; 6] = ["ERROR", "WARN", "INFO", "[error]", "WARNING", "DEBUG"];
    const SAYS: [&str; 6] = [
        "failed",
        "3 failed, 2 passed in 4s",
        "12 rows skipped",
        "errors: 7 errors so far",
        "snapshot 5 failed",
        "1700000049 errors",
    ];
    for time in TIMES {
        for level in LEVELS {
            for says in SAYS {
                let line = |n: usize| format!("{} {level} {says}", time.replace("{s}", &format!("{n:02}")));
                let text: String = (0..50).map(|n| line(n) + "\n").collect();
                let facts = Facts::scan(&text);
                let totals: Vec<_> = facts.of_kind(FactKind::Total).map(|fact| fact.text.clone()).collect();
                assert!(totals.is_empty(), "{totals:?} of {}", line(49));
                let made = digest(&of(&text, &Focus::none()), Tokens(150));
                assert_ne!(made.kind, OutputKind::Tests, "{}", made.text);
                assert!(!made.text.contains("[totals"), "{}", made.text);
            }
        }
    }
    // The seconds of a clock are none where no level says that it is a log, and a true total with a time before it is one.
    for (line, totals) in [
        ("10:00:49 failed", &[][..]),
        ("at 2026-03-01 10:00:49 errors were seen", &[]),
        ("took 0.12 failed", &[]),
        ("2026-03-01T10:00:49.1234567Z 3 failed, 12 passed in 0.31s", &["3 failed", "12 passed"]),
        ("3 failed, 1,204 passed", &["3 failed", "1,204 passed"]),
        ("(3 errors)", &["3 errors"]),
    ] {
        let facts = Facts::scan(line);
        let found: Vec<_> = facts.of_kind(FactKind::Total).map(|fact| fact.text.as_ref()).collect();
        assert_eq!(found, totals, "{line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    fn any_text_is_digested(text in "(\\PC|[\n\t \"\\\\{}\\[\\]:,|<>/#@+\u{1b}…-]|error|FAILED|\\\\n|żó|\u{fffd}|=== |exit code 1|12:30:01 ){0,400}", budget in 0u64..400) {
        holds(&text, Tokens(budget), &Focus::from_texts(["żółw error"]));
        let focus = Focus::none();
        let _ = one_line_digest(&ToolOutput { tool: Some("read_file"), arguments: Some("{\"path\":\"a\"}"), ..of(&text, &focus) });
    }

    fn any_kind_is_forced_on_any_text(text in "(\\PC|[\n\t \"{}\\[\\]:,|<>+-]|<p>|żó|@@ -1,3 \\+1 @@|a/b.c:12:|\\\\n){0,300}", index in 0usize..13) {
        let kind = OutputKind::all().nth(index);
        let focus = Focus::none();
        let source = ToolOutput { kind, ..of(&text, &focus) };
        let made = digest(&source, Tokens(48));
        prop_assert!(made.text.len() <= text.len());
        for quote in quotes(&made.text) {
            prop_assert!(text.contains(quote), "{quote:?}");
        }
    }
}
