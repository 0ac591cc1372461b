//! What must hold of the passes, over generated sessions and real ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::notation::{Answer, By, Part, Session, Unit};
use crate::support::passes::{changes, policy};
use crate::support::{Numbers, assert_in_proportion, corpus, generate, write};
use longhaul_engine::action::Actions;
use longhaul_engine::check::{Severity, Target, check};
use longhaul_engine::passes::{ByteLimits, NewText, PASSES, ProposedChange, run_all, shrink_to_byte_limits};
use longhaul_engine::transcript::{Block, BlockKind, TextEncoding, Transcript};
use longhaul_engine::{ApiFormat, Rewrite, wire};
use serde_json::Value;

tests! {
    always: [
        whatever_comes_in_it_gets_shorter_stays_valid_and_comes_to_rest,
        each_pass_alone_comes_to_rest_too,
        a_failure_never_reads_as_a_success,
        a_body_that_is_too_large_loses_images_first_then_the_largest_results,
        looking_takes_time_in_proportion_to_the_bytes,
        forms_of_arguments_stay_what_they_are,
    ],
    real: [
        real_sessions_too,
    ],
}

fn applied(transcript: &Transcript<'_>, changes: &[ProposedChange]) -> String {
    let edits = changes.iter().map(|change| change.new_text.to_edit(transcript, change.at).unwrap()).collect();
    Rewrite::new(transcript, edits).unwrap().apply(transcript.body)
}

const PICTURE: Part = Part::Image { width: 1, height: 1 };

/// A reply with calls.
fn step(calls: Vec<Part>) -> Unit {
    let reply = Part::Text("I do.".to_owned());
    Unit { by: By::Assistant, parts: [reply].into_iter().chain(calls).collect() }
}

/// A step of one call.
fn call(tool: &str, arguments: String, result: String) -> Unit {
    let answer = Some(Answer { blocks: vec![Part::Text(result)], failed: false });
    step(vec![Part::Call { tool: tool.to_owned(), arguments, answer }])
}

fn body(api_format: ApiFormat, turns: Vec<Unit>) -> String {
    let session = Session { units: turns, ..Session::default() };
    write::body(api_format, "m", &session, &session)
}

/// A session of a few files and commands, so that things come again.
fn some_session(numbers: &mut Numbers) -> Vec<Unit> {
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
        let pieces = (0..count).map(|_| numbers.pick(&PIECES).repeat(1 + numbers.0 as usize % 5)).collect::<String>();
        if numbers.one_in(3) { format!("{pieces}Exit code: 0") } else { pieces }
    };
    let outputs: Vec<String> = (0..6).map(|_| output(numbers)).collect();
    (0..4 + numbers.below(14))
        .map(|_| {
            if numbers.one_in(5) {
                let image = numbers.one_in(2).then_some(PICTURE);
                let text = Part::Text(format!("please {}", numbers.below(9)));
                return Unit { by: By::User, parts: [text].into_iter().chain(image).collect() };
            }
            let count = 1 + usize::from(numbers.one_in(4));
            let calls = (0..count).map(|_| {
                let path = numbers.pick(&FILES);
                let (tool, arguments) = match numbers.below(5) {
                    0 => ("Read", format!(r#"{{"file_path":"{path}"}}"#)),
                    1 => ("Read", format!(r#"{{"file_path":"{path}","offset":{},"limit":9}}"#, 1 + numbers.below(3))),
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
                let image = numbers.one_in(9).then_some(PICTURE);
                let text = Part::Text(numbers.pick(&outputs).clone());
                let blocks = [text].into_iter().chain(image).collect();
                let answer = Some(Answer { blocks, failed: numbers.one_in(7) });
                Part::Call { tool: tool.into(), arguments, answer }
            });
            step(calls.collect())
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
fn bodies(each: u64) -> impl Iterator<Item = (ApiFormat, String)> {
    ApiFormat::ALL.into_iter().flat_map(move |api_format| {
        let odd = (0..each).map(move |seed| (api_format, lengthened(generate::body(api_format, seed).body)));
        let again = (0..each).map(move |seed| (api_format, body(api_format, some_session(&mut Numbers(seed)))));
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

fn errors(body: &str, api_format: ApiFormat) -> usize {
    let violations = check(body, api_format, &Target::default_for(api_format));
    violations.iter().filter(|violation| violation.severity == Severity::Error).count()
}

/// What must hold of any changes to a body; the body that they make.
fn holds(transcript: &Transcript<'_>, allowed: usize, changes: &[ProposedChange]) -> String {
    let places: BTreeSet<_> = changes.iter().map(|change| change.at).collect();
    assert_eq!(places.len(), changes.len(), "at most one change for a block");
    for change in changes {
        assert!(change.at.unit < allowed, "only where it is allowed: {change:?}");
        let block = transcript.turns[change.at.unit].blocks().nth(change.at.block).unwrap();
        match &change.new_text {
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
    assert!(errors(&after, transcript.api_format) <= errors(transcript.body, transcript.api_format), "{after}");
    after
}

fn whatever_comes_in_it_gets_shorter_stays_valid_and_comes_to_rest() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let policies = [(policy(150), 1), (policy(200), 0)];
    for (api_format, body) in bodies(240) {
        for (policy, originals) in &policies {
            let originals = *originals;
            let (transcript, _) = wire::parse(api_format, &body).unwrap();
            let made = changes(policy, &transcript, originals, run_all);
            for change in &made {
                *seen.entry(change.pass).or_default() += 1;
            }
            let allowed = transcript.turns.len().saturating_sub(originals);
            let after = holds(&transcript, allowed, &made);
            let (again, _) = wire::parse(api_format, &after).unwrap();
            assert_eq!(again.turns.len(), transcript.turns.len());
            let more = changes(policy, &again, originals, run_all);
            assert_eq!(more, [], "a second run changes nothing\n{body}\n{after}");
        }
    }
    for pass in PASSES {
        assert!(seen.get(pass.name).copied().unwrap_or(0) >= 15, "{} was hardly tried: {seen:?}", pass.name);
    }
}

fn each_pass_alone_comes_to_rest_too() {
    for (api_format, body) in bodies(60) {
        let policy = policy(150);
        for pass in PASSES {
            let (transcript, _) = wire::parse(api_format, &body).unwrap();
            let made = changes(&policy, &transcript, 1, pass.run);
            let after = holds(&transcript, transcript.turns.len().saturating_sub(1), &made);
            let (again, _) = wire::parse(api_format, &after).unwrap();
            assert_eq!(changes(&policy, &again, 1, pass.run), [], "{}", pass.name);
        }
    }
}

fn real_sessions_too() {
    for (name, body) in corpus() {
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let policy = policy(200);
        let made = changes(&policy, &transcript, 3, run_all);
        let after = holds(&transcript, transcript.turns.len().saturating_sub(3), &made);
        let (again, _) = wire::parse(transcript.api_format, &after).unwrap();
        assert_eq!(changes(&policy, &again, 3, run_all), [], "{name}");
        let mut by_pass: BTreeMap<&str, usize> = BTreeMap::new();
        for change in &made {
            *by_pass.entry(change.pass).or_default() += 1;
        }
        say!("{name}: {} → {} bytes, {by_pass:?}", body.len(), after.len());
    }
}

fn a_failure_never_reads_as_a_success() {
    for (api_format, body) in bodies(150) {
        let (transcript, _) = wire::parse(api_format, &body).unwrap();
        let made = changes(&policy(150), &transcript, 0, run_all);
        let after = applied(&transcript, &made);
        let (again, _) = wire::parse(api_format, &after).unwrap();
        let (before, after) = (Actions::from_transcript(&transcript), Actions::from_transcript(&again));
        for ((turn, _, was), (.., is)) in before.all().zip(after.all()) {
            let failed = longhaul_engine::action::Outcome::Failed;
            let now = again.turns[turn].blocks().map(Block::text).collect::<Vec<_>>();
            assert_eq!(was.outcome == failed, is.outcome == failed, "unit {turn}: {was:?} {is:?}\n{now:#?}");
        }
    }
}

fn a_body_that_is_too_large_loses_images_first_then_the_largest_results() {
    let line = "some line of output\n";
    for api_format in ApiFormat::ALL {
        let make = |result: String| call("bash", r#"{"command":"make"}"#.into(), result);
        let picture = Unit { by: By::User, parts: vec![Part::Text("look".into()), PICTURE] };
        let (small, large) = (make(line.repeat(100)), make(line.repeat(400)));
        // Without a reply in between the picture would stand in the message of the large result.
        let turns = vec![picture.clone(), small, large, step(Vec::new()), picture, make("ok".into())];
        let body = body(api_format, turns);
        let (transcript, _) = wire::parse(api_format, &body).unwrap();
        let of = |body: usize, string: usize| {
            let limits = ByteLimits { body, string };
            let made = changes(&policy(200), &transcript, 2, |scope| shrink_to_byte_limits(scope, limits));
            made.iter().map(|change| change.at.unit).collect::<Vec<_>>()
        };
        assert!(of(body.len(), usize::MAX).is_empty(), "nothing is too large");
        assert_eq!(of(body.len() - 10, usize::MAX), [0], "the old picture is enough");
        assert_eq!(of(body.len() - 3_000, usize::MAX), [0, 2], "and the largest result");
        assert_eq!(of(1, usize::MAX), [0, 1, 2], "what was said last and what is short stays");
        assert_eq!(of(usize::MAX, 4_000), [2], "one string is too long");
        let limits = ByteLimits { body: 6_000, string: usize::MAX };
        let made = changes(&policy(200), &transcript, 2, |scope| shrink_to_byte_limits(scope, limits));
        assert!(applied(&transcript, &made).len() <= 6_000);
    }
    assert!(ByteLimits::default().body <= 32 << 20 && ByteLimits::default().string <= 1 << 20);
}

/// Where nothing matches the passes only look: a few looks at each byte.
fn looking_takes_time_in_proportion_to_the_bytes() {
    let text = |seed: usize| -> String {
        (0..60)
            .map(|line| format!("value {} of the {}th kind is {:x}\n", line * seed, line % 7, seed * 7919 + line))
            .collect()
    };
    let make = |times: usize| {
        let run = |seed: usize| call("bash", format!(r#"{{"command":"run {seed}"}}"#), text(seed));
        body(ApiFormat::Chat, (1..=300 * times).map(run).collect())
    };
    assert_in_proportion("looking", make, |body| {
        let (transcript, _) = wire::parse(ApiFormat::Chat, body).unwrap();
        assert_eq!(changes(&policy(200), &transcript, transcript.turns.len(), run_all), []);
    });
}

fn forms_of_arguments_stay_what_they_are() {
    let long = "x".repeat(300);
    for (api_format, form) in [(ApiFormat::Chat, TextEncoding::JsonInString), (ApiFormat::Messages, TextEncoding::Json)]
    {
        let arguments = format!(r#"{{"n":1.50,"path":"{long}","deep":[{{"é\u00e9":"{long}"}}]}}"#);
        let body = body(api_format, vec![call("write", arguments, "ok".into())]);
        let (transcript, _) = wire::parse(api_format, &body).unwrap();
        let made = changes(&policy(200), &transcript, 0, run_all);
        let block = transcript.turns[0].blocks().nth(made[0].at.block).unwrap();
        assert_eq!(block.text.unwrap().encoding, form);
        let after: Value = serde_json::from_str(&applied(&transcript, &made)).unwrap();
        let cut = format!("{}… [100 more characters]", "x".repeat(200));
        let input = match api_format {
            ApiFormat::Chat => {
                serde_json::from_str(after["messages"][0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap())
                    .unwrap()
            }
            _ => after["messages"][0]["content"][1]["input"].clone(),
        };
        assert_eq!(
            (&input["path"], &input["deep"][0]["éé"], &input["n"]),
            (&cut.clone().into(), &cut.into(), &1.5.into())
        );
    }
}
