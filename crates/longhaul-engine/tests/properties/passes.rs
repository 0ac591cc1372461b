//! The passes: cases that a person can read, one file a pass under `passes/`, and what must hold over generated sessions.
//!
//! A case has a sentence, how many of the newest units are kept (`keep`), a session in the notation of `support/session.rs`, and
//! the changes as `unit.block pass: text`, the same in every dialect. `UPDATE_GOLDEN=1 cargo test` writes them anew; read the
//! difference before keeping it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use crate::support::session::{self, Call, Turn};
use crate::support::{Numbers, corpus, generate};
use longhaul_engine::action::Actions;
use longhaul_engine::check::{Severity, Target, check};
use longhaul_engine::passes::{ByteLimits, Change, NewText, PASSES, Scope, byte_budget, run_all};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::{Block, BlockKind, Form, Transcript};
use longhaul_engine::{Dialect, Rewrite, models, wire};
use serde_json::Value;

tests! {
    always: [
        each_pass_does_as_written_down,
        whatever_comes_in_it_gets_shorter_stays_valid_and_comes_to_rest,
        each_pass_alone_comes_to_rest_too,
        a_failure_never_reads_as_a_success,
        a_body_that_is_too_large_loses_images_first_then_the_largest_results,
        looking_is_linear_and_fast,
        forms_of_arguments_stay_what_they_are,
    ],
    real: [
        real_sessions_too,
    ],
}

fn policy(prune_characters: usize) -> Policy {
    let (mut policy, _) = Policy::new(&Config::default(), &models::find("gpt-5")).unwrap();
    policy.prune_characters = prune_characters;
    policy
}

/// The changes of `run`, with all but the newest `keep` units allowed.
fn changes(
    policy: &Policy,
    transcript: &Transcript<'_>,
    keep: usize,
    run: impl Fn(&Scope<'_, '_>) -> Vec<Change>,
) -> Vec<Change> {
    let actions = Actions::of(transcript);
    let allowed = transcript.units.len().saturating_sub(keep);
    let scope = Scope {
        policy,
        transcript,
        actions: &actions,
        may_change: &|unit| unit < allowed,
        handle: &|_| None,
    };
    run(&scope)
}

fn applied(transcript: &Transcript<'_>, changes: &[Change]) -> String {
    let edits = changes.iter().map(|change| change.to.edit(transcript, change.at).unwrap()).collect();
    Rewrite::new(transcript, edits).unwrap().apply(transcript.body)
}

fn shown(change: &Change) -> String {
    let (NewText::Text(text) | NewText::Mark(text)) = &change.to;
    format!("{}.{} {}: {}\n", change.at.unit, change.at.block, change.pass, text.replace('\n', "\\n"))
}

fn each_pass_does_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), PASSES.len(), "one a pass");
    let mut wrong = String::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut anew = String::new();
        for case in text.split("\n# ").map(|case| case.trim_start_matches("# ")) {
            let (head, rest) = case.split_once("== before\n").unwrap();
            let (before, after) = rest.split_once("== after\n").unwrap();
            let field =
                |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let keep = field("keep").map_or(1, |keep| keep.parse().unwrap());
            let turns = session::read(before);
            // Only one dialect can say on the wire that a call failed.
            let flagged = turns
                .iter()
                .any(|turn| matches!(turn, Turn::Calls(calls) if calls.iter().any(|call| call.failed)));
            let dialects = if flagged { &[Dialect::Messages][..] } else { &Dialect::ALL[..] };
            let made: BTreeSet<String> = dialects
                .iter()
                .map(|dialect| {
                    let body = session::body(*dialect, &turns);
                    let (transcript, _) = wire::parse(*dialect, &body).unwrap();
                    changes(&policy(200), &transcript, keep, run_all).iter().map(shown).collect()
                })
                .collect();
            assert_eq!(made.len(), 1, "{name}: the dialects differ: {made:#?}");
            let made = made.into_iter().next().unwrap();
            assert!(
                made.is_empty() || made.contains(&format!(" {name}: ")) || head.contains("not "),
                "{name} is not in {made}"
            );
            if made.trim_end() != after.trim_end() {
                let _ = write!(wrong, "--- {name}: {head}{made}");
            }
            let _ = write!(anew, "# {head}== before\n{before}== after\n{made}\n");
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{}\n", anew.trim_end())).unwrap();
            wrong.clear();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A session of a few files and commands, so that things come again.
fn some_session(numbers: &mut Numbers) -> Vec<Turn> {
    const FILES: [&str; 3] = ["src/a.rs", "b.py", "żółw.txt"];
    const COMMANDS: [&str; 5] = ["make", "cargo test", "cat b.py", "sed -n '2,9p' src/a.rs", "echo x > b.py"];
    const PIECES: [&str; 9] = [
        "fn main() { println!(\"one\"); }\n",
        "日本語 текст 😀\n",
        "Downloading 12%\rDownloading 40%\rDownloading 80%\rDownloading 100%\n",
        "   Compiling a v1.0\n",
        "error: cannot find value `x` in this scope\n",
        "warning: unused variable\n",
        "Exit code: 1\n",
        "test result: ok. 5 passed; 0 failed; 0 ignored\n",
        "[bash] ran `make` → exit 0, 3 lines\n",
    ];
    let output = |numbers: &mut Numbers| -> String {
        let count = numbers.below(8);
        let pieces =
            (0..count).map(|_| numbers.pick(&PIECES).repeat(1 + numbers.0 as usize % 5)).collect::<String>();
        if numbers.one_in(3) { format!("{pieces}Exit code: 0") } else { pieces }
    };
    let outputs: Vec<String> = (0..6).map(|_| output(numbers)).collect();
    (0..4 + numbers.below(14))
        .map(|_| {
            if numbers.one_in(5) {
                let image = if numbers.one_in(2) { " [image]" } else { "" };
                return Turn::User(format!("please {}{image}", numbers.below(9)));
            }
            let count = 1 + usize::from(numbers.one_in(4));
            let calls = (0..count).map(|_| {
                let path = numbers.pick(&FILES);
                let (tool, arguments) = match numbers.below(5) {
                    0 => ("Read", format!(r#"{{"file_path":"{path}"}}"#)),
                    1 => (
                        "Read",
                        format!(r#"{{"file_path":"{path}","offset":{},"limit":9}}"#, 1 + numbers.below(3)),
                    ),
                    2 => (
                        "Edit",
                        format!(
                            r#"{{"file_path":"{path}","old":"{}","list":[1.50,{{"k":"\ud83d\ude00é"}}]}}"#,
                            "ab\\n".repeat(numbers.below(90))
                        ),
                    ),
                    3 => ("custom", "no json".repeat(40)),
                    _ => ("bash", format!(r#"{{"command":"{}"}}"#, numbers.pick(&COMMANDS))),
                };
                let image = if numbers.one_in(9) { "[image]" } else { "" };
                let result = format!("{}{image}", numbers.pick(&outputs));
                Call { tool: tool.into(), arguments, result, failed: numbers.one_in(7) }
            });
            Turn::Calls(calls.collect())
        })
        .collect()
}

/// A generated body with longer texts: the passes leave short ones alone.
fn lengthened(body: String) -> String {
    fn longer(value: &mut Value) {
        match value {
            Value::String(text) if text.ends_with(')') => *text = format!("{text}\n").repeat(5),
            Value::String(arguments) => {
                if let Ok(mut inside @ Value::Object(_)) = serde_json::from_str(arguments) {
                    longer(&mut inside);
                    *arguments = inside.to_string();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(longer),
            Value::Object(fields) => fields.values_mut().for_each(longer),
            _ => {}
        }
    }
    // A body with half a surrogate pair in it is no `Value`.
    let Ok(mut value) = serde_json::from_str(&body) else { return body };
    longer(&mut value);
    value.to_string()
}

/// Bodies with what real ones have, and bodies in which things come again.
fn bodies(each: u64) -> impl Iterator<Item = (Dialect, String)> {
    Dialect::ALL.into_iter().flat_map(move |dialect| {
        let odd = (0..each).map(move |seed| (dialect, lengthened(generate::body(dialect, seed).body)));
        let again =
            (0..each).map(move |seed| (dialect, session::body(dialect, &some_session(&mut Numbers(seed)))));
        odd.chain(again)
    })
}

/// A JSON value without its strings: what cutting strings must not change.
fn skeleton(value: Value) -> Value {
    match value {
        Value::String(_) => Value::Null,
        Value::Array(items) => items.into_iter().map(skeleton).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, skeleton(value))).collect(),
        other => other,
    }
}

fn errors(body: &str, dialect: Dialect) -> usize {
    let violations = check(body, dialect, &Target::of(dialect));
    violations.iter().filter(|violation| violation.severity == Severity::Error).count()
}

/// What must hold of any changes to a body; the body that they make.
fn holds(transcript: &Transcript<'_>, allowed: usize, changes: &[Change]) -> String {
    let places: BTreeSet<_> = changes.iter().map(|change| change.at).collect();
    assert_eq!(places.len(), changes.len(), "at most one change for a block");
    for change in changes {
        assert!(change.at.unit < allowed, "only where it is allowed: {change:?}");
        let block = transcript.units[change.at.unit].blocks().nth(change.at.block).unwrap();
        match &change.to {
            NewText::Text(text) => {
                assert!(text.len() < block.text().len(), "never longer: {change:?}");
                let is_json = serde_json::from_str::<Value>(&block.text());
                if let (BlockKind::Call, Ok(before)) = (block.kind, is_json) {
                    let after: Value = serde_json::from_str(text).unwrap();
                    assert_eq!(skeleton(after), skeleton(before));
                }
            }
            NewText::Mark(_) => assert!(matches!(block.kind, BlockKind::Image(_)), "{change:?}"),
        }
    }
    let after = applied(transcript, changes);
    assert!(errors(&after, transcript.dialect) <= errors(transcript.body, transcript.dialect), "{after}");
    after
}

fn whatever_comes_in_it_gets_shorter_stays_valid_and_comes_to_rest() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let policies = [(policy(150), 1), (policy(200), 0)];
    for (dialect, body) in bodies(200) {
        for (policy, keep) in &policies {
            let keep = *keep;
            let (transcript, _) = wire::parse(dialect, &body).unwrap();
            let made = changes(policy, &transcript, keep, run_all);
            for change in &made {
                *seen.entry(change.pass).or_default() += 1;
            }
            let allowed = transcript.units.len().saturating_sub(keep);
            let after = holds(&transcript, allowed, &made);
            let (again, _) = wire::parse(dialect, &after).unwrap();
            assert_eq!(again.units.len(), transcript.units.len());
            let more = changes(policy, &again, keep, run_all);
            assert_eq!(more, [], "a second run changes nothing\n{body}\n{after}");
        }
    }
    for pass in PASSES {
        assert!(seen.get(pass.name).copied().unwrap_or(0) >= 15, "{} was hardly tried: {seen:?}", pass.name);
    }
}

fn each_pass_alone_comes_to_rest_too() {
    for (dialect, body) in bodies(60) {
        let policy = policy(150);
        for pass in PASSES {
            let (transcript, _) = wire::parse(dialect, &body).unwrap();
            let made = changes(&policy, &transcript, 1, pass.run);
            let after = holds(&transcript, transcript.units.len().saturating_sub(1), &made);
            let (again, _) = wire::parse(dialect, &after).unwrap();
            assert_eq!(changes(&policy, &again, 1, pass.run), [], "{}", pass.name);
        }
    }
}

fn real_sessions_too() {
    for (name, body) in corpus() {
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let policy = policy(200);
        let made = changes(&policy, &transcript, 3, run_all);
        let after = holds(&transcript, transcript.units.len().saturating_sub(3), &made);
        let (again, _) = wire::parse(transcript.dialect, &after).unwrap();
        assert_eq!(changes(&policy, &again, 3, run_all), [], "{name}");
        let mut by_pass: BTreeMap<&str, usize> = BTreeMap::new();
        for change in &made {
            *by_pass.entry(change.pass).or_default() += 1;
        }
        say!("{name}: {} → {} bytes, {by_pass:?}", body.len(), after.len());
    }
}

fn a_failure_never_reads_as_a_success() {
    for (dialect, body) in bodies(150) {
        let (transcript, _) = wire::parse(dialect, &body).unwrap();
        let made = changes(&policy(150), &transcript, 0, run_all);
        let after = applied(&transcript, &made);
        let (again, _) = wire::parse(dialect, &after).unwrap();
        let (before, after) = (Actions::of(&transcript), Actions::of(&again));
        for ((unit, _, was), (.., is)) in before.all().zip(after.all()) {
            let failed = longhaul_engine::action::Outcome::Failed;
            let now = again.units[unit].blocks().map(Block::text).collect::<Vec<_>>();
            assert_eq!(was.outcome == failed, is.outcome == failed, "unit {unit}: {was:?} {is:?}\n{now:#?}");
        }
    }
}

fn a_body_that_is_too_large_loses_images_first_then_the_largest_results() {
    let line = "some line of output\n";
    for dialect in Dialect::ALL {
        let call = |result: String| {
            Turn::Calls(vec![Call {
                tool: "bash".into(),
                arguments: r#"{"command":"make"}"#.into(),
                result,
                failed: false,
            }])
        };
        let picture = Turn::User("look [image]".into());
        let small = call(line.repeat(100));
        let large = call(line.repeat(400));
        let turns = [picture.clone(), small, large, picture, call("ok".into())];
        let body = session::body(dialect, &turns);
        let (transcript, _) = wire::parse(dialect, &body).unwrap();
        let of = |body: usize, string: usize| {
            let limits = ByteLimits { body, string };
            let made = changes(&policy(200), &transcript, 2, |scope| byte_budget(scope, limits));
            made.iter().map(|change| change.at.unit).collect::<Vec<_>>()
        };
        assert!(of(body.len(), usize::MAX).is_empty(), "nothing is too large");
        assert_eq!(of(body.len() - 10, usize::MAX), [0], "the old picture is enough");
        assert_eq!(of(body.len() - 3_000, usize::MAX), [0, 2], "and the largest result");
        assert_eq!(of(1, usize::MAX), [0, 1, 2], "what was said last and what is short stays");
        assert_eq!(of(usize::MAX, 4_000), [2], "one string is too long");
        let limits = ByteLimits { body: 6_000, string: usize::MAX };
        let made = changes(&policy(200), &transcript, 2, |scope| byte_budget(scope, limits));
        assert!(applied(&transcript, &made).len() <= 6_000);
    }
    assert!(ByteLimits::default().body <= 32 << 20 && ByteLimits::default().string <= 1 << 20);
}

/// Where nothing matches the passes only look: the time is that of a few looks at each byte.
fn looking_is_linear_and_fast() {
    let text = |seed: usize| -> String {
        (0..60)
            .map(|line| {
                format!("value {} of the {}th kind is {:x}\n", line * seed, line % 7, seed * 7919 + line)
            })
            .collect()
    };
    let time = |steps: usize| {
        let call = |seed: usize| Call {
            tool: "bash".into(),
            arguments: format!(r#"{{"command":"run {seed}"}}"#),
            result: text(seed),
            failed: false,
        };
        let turns: Vec<Turn> = (1..=steps).map(|seed| Turn::Calls(vec![call(seed)])).collect();
        let body = session::body(Dialect::Chat, &turns);
        let (transcript, _) = wire::parse(Dialect::Chat, &body).unwrap();
        let start = Instant::now();
        assert_eq!(
            changes(&policy(200), &transcript, steps, |scope| {
                let start = Instant::now();
                let made = run_all(scope);
                say!("{} bytes: run_all {:?}", body.len(), start.elapsed());
                made
            }),
            []
        );
        say!("with actions {:?}", start.elapsed());
        (body.len(), start.elapsed().as_secs_f64())
    };
    let (small, large) = (time(250), time(2_500));
    assert!(large.0 > 5_000_000, "{large:?}");
    assert!(large.1 < 40.0 * small.1 + 0.5, "ten times the bytes took {} instead of {}", large.1, small.1);
}

fn forms_of_arguments_stay_what_they_are() {
    let long = "x".repeat(300);
    for (dialect, form) in [(Dialect::Chat, Form::JsonInString), (Dialect::Messages, Form::Json)] {
        let arguments = format!(r#"{{"n":1.50,"path":"{long}","deep":[{{"é\u00e9":"{long}"}}]}}"#);
        let call = Call { tool: "write".into(), arguments, result: "ok".into(), failed: false };
        let body = session::body(dialect, &[Turn::Calls(vec![call])]);
        let (transcript, _) = wire::parse(dialect, &body).unwrap();
        let made = changes(&policy(200), &transcript, 0, run_all);
        let block = transcript.units[0].blocks().nth(made[0].at.block).unwrap();
        assert_eq!(block.text.unwrap().form, form);
        let after: Value = serde_json::from_str(&applied(&transcript, &made)).unwrap();
        let cut = format!("{}… [100 more characters]", "x".repeat(200));
        let input = match dialect {
            Dialect::Chat => serde_json::from_str(
                after["messages"][0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap(),
            )
            .unwrap(),
            _ => after["messages"][0]["content"][1]["input"].clone(),
        };
        assert_eq!(
            (&input["path"], &input["deep"][0]["éé"], &input["n"]),
            (&cut.clone().into(), &cut.into(), &1.5.into())
        );
    }
}
