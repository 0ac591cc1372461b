//! The checker against real request bodies: it finds what is known to be odd about them, and whatever it calls an error
//! is explained.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{shared, written_differently};
use longhaul_engine::ApiFormat;
use longhaul_engine::check::{NOT_CHECKED, RULES, Severity, Target, check, compare};
use longhaul_engine::models;
use serde_json::Value;

tests! {
    always: [],
    real: [
        the_known_quirks_of_real_bodies_are_found_and_no_others,
        every_error_on_a_real_body_is_explained,
        a_body_is_a_rewrite_of_itself,
        a_body_that_is_written_differently_is_a_rewrite_of_the_original,
        a_simple_compaction_of_a_real_body_breaks_nothing_and_a_careless_one_is_caught,
        every_rule_of_the_page_is_checked_or_said_not_to_be,
        real_bodies_with_a_piece_cut_out_are_judged_without_a_panic,
    ],
}

struct Sample {
    file: String,
    body: String,
    dialect: ApiFormat,
    target: Target,
    quirks: Vec<String>,
}

/// Every error that may be reported on the corpus: which files (by how their names begin), which rule, and why it is right.
///
/// *Reply appended*: the body is a request that was sent, with the reply put behind it. Sent again as it stands it would be
/// refused; the next request would have put the results behind the calls, or the user's next message behind the reply.
const EXPLAINED: &[(&str, &str, &str)] = &[
    ("mini-swe-agent_", "O2", "reply appended: the last reply submits by a call that nobody answers"),
    ("mini-swe-agent_deepseek_reasoner", "X7", "reply appended: the model wants the user's message last"),
    ("mini-swe-django-303k", "O2", "as the runs it was joined from"),
    ("openhands_", "O2", "reply appended: the last reply finishes by a call that nobody answers"),
    ("openhands-swebench-202k", "O2", "as the runs it was joined from"),
    ("pydantic-ai_test_tool_choice_matrix", "O2", "reply appended: it ends with calls"),
    ("pydantic-ai_test_tool_choice_matrix", "R2", "reply appended: it ends with calls"),
    ("pydantic-ai_test_openai_tool_availability_delta", "R2", "reply appended: it ends with a call"),
    ("derived-responses_", "R2", "never sent: the run ended while a call was open"),
    ("moatless_", "A1", "reply appended: the last reply finishes by a call that nobody answers"),
    ("moatless_", "A10", "recorded without the tools of its envelope"),
    ("cline_session", "A10", "recorded without the tools of its envelope"),
    ("pi-mono_", "A1", "never sent as one: calls that the user aborted have no results"),
    ("pi-mono_", "A10", "recorded without the tools of its envelope"),
    ("pi-mono_before-compaction", "A23", "never sent as one: thinking of aborted replies has no signature"),
    ("pydantic-ai_test_anthropic__test_anthropic_deferred", "A12", "reply appended, and the model takes no prefill"),
    ("pydantic-ai_test_anthropic_mid_conversation", "A12", "reply appended, and the model takes no prefill"),
    ("pydantic-ai_test_tool_availability_portability__test_tool_av-2f71", "A12", "reply appended, no prefill"),
];

/// Who receives such a model's requests, as the model table has it.
fn target(model: &str, api_format: ApiFormat) -> Target {
    models::find(model).target(api_format)
}

fn samples() -> Vec<Sample> {
    let index = fs::read_to_string(shared("corpus/INDEX.csv")).unwrap();
    let samples: Vec<Sample> = index
        .lines()
        .skip(1)
        .map(|line| {
            let row = fields(line);
            let api_format = match row[1].as_str() {
                "openai-chat" => ApiFormat::Chat,
                "anthropic" => ApiFormat::Messages,
                "openai-responses" => ApiFormat::Responses,
                other => panic!("what is {other}?"),
            };
            Sample {
                body: fs::read_to_string(shared("corpus").join(&row[0])).unwrap(),
                file: row[0].clone(),
                dialect: api_format,
                target: target(&row[2], api_format),
                quirks: row[11].split("; ").filter(|quirk| !quirk.is_empty()).map(str::to_owned).collect(),
            }
        })
        .collect();
    assert!(samples.len() >= 92);
    samples
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

fn the_known_quirks_of_real_bodies_are_found_and_no_others() {
    for sample in samples() {
        let open_call = match sample.dialect {
            ApiFormat::Chat => "O2",
            ApiFormat::Messages => "A1",
            ApiFormat::Responses => "R2",
        };
        let named: BTreeSet<&str> = sample
            .quirks
            .iter()
            .map(|quirk| if quirk.starts_with("open call") { open_call } else { quirk.split(' ').next().unwrap() })
            .collect();
        let violations = check(&sample.body, sample.dialect, &sample.target);
        let vocabulary = ["A1", "A10", "A16", "A23", "G7", "O2", "O3", "R2"];
        let found: BTreeSet<&str> = violations.iter().map(|v| v.rule).filter(|r| vocabulary.contains(r)).collect();
        assert_eq!(found, named, "{}", sample.file);
    }
}

fn every_error_on_a_real_body_is_explained() {
    let mut used = BTreeSet::new();
    let samples = samples();
    for sample in &samples {
        let violations = check(&sample.body, sample.dialect, &sample.target);
        for violation in violations.iter().filter(|v| v.severity == Severity::Error) {
            let reason =
                EXPLAINED.iter().position(|(file, rule, _)| sample.file.starts_with(file) && *rule == violation.rule);
            assert!(reason.is_some(), "{}: {violation:?} is not explained", sample.file);
            used.extend(reason);
        }
    }
    assert_eq!(used.len(), EXPLAINED.len(), "an explanation is not needed any more");
}

fn a_body_is_a_rewrite_of_itself() {
    for Sample { file, body, dialect, target, .. } in samples() {
        assert_eq!(compare(&body, &body, dialect, &target), [], "{file}");
    }
}

fn a_body_that_is_written_differently_is_a_rewrite_of_the_original() {
    for Sample { file, body, dialect, target, .. } in samples().into_iter().filter(|s| s.body.len() < 200_000) {
        let found = check(&body, dialect, &target).len();
        for (way, other) in written_differently(&body) {
            assert_eq!(compare(&body, &other, dialect, &target), [], "{file}, {way}");
            assert_eq!(check(&other, dialect, &target).len(), found, "{file}, {way}");
        }
    }
}

/// Where a body can be cut without cutting a step: before each message that neither answers nor goes on with another.
fn boundaries(messages: &[Value]) -> Vec<usize> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut places = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let answers = message["role"] == "tool"
            || message["type"] == "function_call_output"
            || blocks.iter().any(|b| b["type"] == "tool_result");
        let bound = i > 0 && messages[i - 1]["type"] == "reasoning";
        if open.is_empty() && !answers && !bound {
            places.push(i);
        }
        let of_blocks = blocks.iter().filter(|b| b["type"] == "tool_use").map(|b| &b["id"]);
        let of_item = (message["type"] == "function_call").then_some(&message["call_id"]);
        open.extend(calls.iter().map(|call| &call["id"]).chain(of_blocks).chain(of_item).filter_map(Value::as_str));
        let of_blocks = blocks.iter().map(|b| &b["tool_use_id"]);
        let of_output = (message["type"] != "function_call").then_some(&message["call_id"]);
        for id in of_blocks.chain(of_output).chain([&message["tool_call_id"]]).filter_map(Value::as_str) {
            open.remove(id);
        }
    }
    places
}

/// A compaction as simple as can be, written without a line of the checker's: some messages in the middle become one.
fn compacted(body: &Value, key: &str, cut: std::ops::Range<usize>) -> String {
    let mut after = body.clone();
    let summary = serde_json::json!({"role": "user", "content": "In short: work was done and more is to do."});
    after[key].as_array_mut().unwrap().splice(cut, [summary]);
    after.to_string()
}

fn a_simple_compaction_of_a_real_body_breaks_nothing_and_a_careless_one_is_caught() {
    let (mut fine, mut careless) = (0, 0);
    let samples = samples();
    for Sample { file, body, dialect, target, quirks } in &samples {
        if quirks.iter().any(|quirk| quirk.starts_with("A1 ")) {
            continue;
        }
        let value: Value = serde_json::from_str(body).unwrap();
        let key = if *dialect == ApiFormat::Responses { "input" } else { "messages" };
        let messages = value[key].as_array().unwrap();
        let is_prompt = |m: &Value| {
            let results = |list: &Vec<Value>| list.iter().all(|b| b["type"] == "tool_result");
            m["role"] == "user" && !m["content"].as_array().is_some_and(results)
        };
        let Some(newest) = messages.iter().rposition(is_prompt) else { continue };
        let first = messages.iter().position(|m| m["role"] != "system" && m["role"] != "developer").unwrap();
        let errors = |after: &str| {
            let mut found = compare(body, after, *dialect, target);
            found.retain(|violation| violation.severity == Severity::Error);
            found
        };
        let places = boundaries(messages);
        let ends: Vec<usize> = places.iter().copied().filter(|&p| p > first + 1 && p <= newest).collect();
        for &end in ends.iter().step_by(ends.len() / 4 + 1) {
            assert_eq!(errors(&compacted(&value, key, first..end)), [], "{file} {first}..{end}");
            fine += 1;
        }
        let behind: Vec<usize> = places.iter().copied().filter(|&p| p > newest + 2).collect();
        if let Some(&end) = behind.get(behind.len() / 2) {
            assert_eq!(errors(&compacted(&value, key, newest + 1..end)), [], "{file} {newest}+1..{end}");
            fine += 1;
            assert_ne!(errors(&compacted(&value, key, newest..end)), [], "{file}: the newest message went unnoticed");
        }
        // Reasoning may be dropped from the item behind it; R4 has its own example.
        let inside = |p: &usize| !places.contains(p) && messages[p - 1]["type"] != "reasoning";
        for within in (first + 2..newest).filter(inside).step_by(7).take(4) {
            assert_ne!(errors(&compacted(&value, key, first..within)), [], "{file}: cut inside a step at {within}");
            careless += 1;
        }
    }
    say!("{fine} compactions accepted, {careless} careless ones caught");
    assert!(fine > 100 && careless > 30, "{fine} {careless}");
}

fn every_rule_of_the_page_is_checked_or_said_not_to_be() {
    let numbers: Vec<&str> =
        RULES.iter().map(|rule| rule.number).chain(NOT_CHECKED.iter().map(|(number, _)| *number)).collect();
    let page = fs::read_to_string(shared("protocol-rules.md")).unwrap();
    let of_list = page.lines().filter_map(|line| line.strip_prefix("- **"));
    let of_table = page.lines().filter_map(|line| line.strip_prefix("| G").map(|_| &line[2..]));
    for line in of_list.chain(of_table) {
        let end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap();
        let number = &line[..end];
        assert!(numbers.contains(&number), "{number} is neither checked nor said not to be");
    }
}

fn real_bodies_with_a_piece_cut_out_are_judged_without_a_panic() {
    for Sample { body, dialect, target, .. } in samples().iter().filter(|sample| sample.body.len() < 40_000) {
        let places = body.char_indices().map(|(place, _)| place).step_by(body.len() / 12 + 1);
        for place in places {
            let without = body[..place].to_owned() + body[place..].trim_start_matches(|c: char| c != ',');
            for damaged in [&body[..place], &without] {
                let _ = check(damaged, *dialect, target);
                let _ = compare(body, damaged, *dialect, target);
            }
        }
        let value: Value = serde_json::from_str(body).unwrap();
        let key = if *dialect == ApiFormat::Responses { "input" } else { "messages" };
        for i in 0..value[key].as_array().map_or(0, Vec::len) {
            let mut without = value.clone();
            without[key].as_array_mut().unwrap().remove(i);
            for other in ApiFormat::ALL {
                let _ = check(&without.to_string(), other, target);
                let _ = compare(body, &without.to_string(), other, target);
            }
        }
    }
}
