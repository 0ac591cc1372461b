//! Every rule, by example: one body that breaks it and one that keeps it, in the text files of `tests/check/`.
//!
//! ```text
//! == O2 a call without its result        the rule the case is about, and a title
//! on mistral prefill=false               host and facts about the model (left out: the dialect's own host, nothing known)
//! with {"tools":[]}                      fields beside the messages, for what follows
//! breaks O2 error                        everything that must be found in the messages below, one a line
//! {"role":"user","content":"hi"}
//! keeps                                  as `breaks`, for a body that keeps the rule; usually nothing is found
//! {"role":"user","content":"hi"}
//! ```
//!
//! `body` is followed by a whole body instead of messages. In `compare-*.txt`, `before` gives the original that the
//! following cases are compared with.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use longhaul_engine::ApiFormat;
use longhaul_engine::check::{Host, NOT_CHECKED, RULES, Severity, Target, Violation, check, check_rerun, compare};
use serde_json::{Map, Value, json};

const FILES: [(ApiFormat, &str); 7] = [
    (ApiFormat::Chat, include_str!("check/chat.txt")),
    (ApiFormat::Chat, include_str!("check/hosts.txt")),
    (ApiFormat::Messages, include_str!("check/messages.txt")),
    (ApiFormat::Responses, include_str!("check/responses.txt")),
    (ApiFormat::Chat, include_str!("check/compare-chat.txt")),
    (ApiFormat::Messages, include_str!("check/compare-messages.txt")),
    (ApiFormat::Responses, include_str!("check/compare-responses.txt")),
];

/// What a case expects of a body, and which rule it is an example of.
struct Example {
    rule: String,
    title: String,
    dialect: ApiFormat,
    target: Target,
    before: Option<String>,
    body: String,
    expected: BTreeSet<String>,
    breaks: bool,
}

fn examples() -> Vec<Example> {
    FILES
        .iter()
        .flat_map(|(api_format, text)| text.split("\n== ").skip(1).flat_map(|case| parse(*api_format, case)))
        .collect()
}

fn parse(api_format: ApiFormat, case: &str) -> Vec<Example> {
    let (heading, rest) = case.split_once('\n').unwrap();
    let (rule, title) = heading.split_once(' ').unwrap();
    let mut target = Target::default_for(api_format);
    let mut api_format = api_format;
    let mut envelope = Map::new();
    let mut before = None;
    let mut examples = Vec::new();
    let mut lines = rest.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "in" => api_format = rest.parse().unwrap(),
            "on" => target = parse_target(rest),
            "with" => envelope = serde_json::from_str(rest).unwrap(),
            "before" | "breaks" | "keeps" => {
                let body = lines.next_if(|line| line.starts_with("body"));
                let body = body.map(|line| line["body".len()..].trim_start_matches(' ').replace('␊', "\n"));
                let mut messages: Vec<Value> = Vec::new();
                while let Some(line) = lines.next_if(|line| line.starts_with(['{', '"', '['])) {
                    messages.push(serde_json::from_str(line).unwrap_or_else(|e| panic!("{heading}: {e} in {line}")));
                }
                let body = body.unwrap_or_else(|| render(api_format, &envelope, messages));
                if word == "before" {
                    before = Some(body);
                    continue;
                }
                let expected = rest.split(", ").filter(|rule| !rule.is_empty()).map(str::to_owned).collect();
                let (rule, title, target) = (rule.to_owned(), title.to_owned(), target.clone());
                let breaks = word == "breaks";
                examples.push(Example {
                    rule,
                    title,
                    dialect: api_format,
                    target,
                    before: before.clone(),
                    body,
                    expected,
                    breaks,
                });
            }
            _ => panic!("{heading}: what is `{line}`?"),
        }
    }
    examples
}

fn parse_target(text: &str) -> Target {
    let mut words = text.split(' ');
    let mut target = Target::on_host(Host::named(words.next().unwrap()).unwrap_or_else(Host::unknown));
    for fact in words {
        let (name, value) = fact.split_once('=').unwrap();
        let value = Some(value.parse().unwrap());
        match name {
            "prefill" => target.supports_prefill = value,
            "mid_system" => target.accepts_mid_system = value,
            "binds_thinking" => target.binds_thinking = value,
            "wants_reasoning" => target.requires_reasoning = value,
            "forced_choice" => target.accepts_forced_choice = value,
            "thinking_budget" => target.accepts_thinking_budget = value,
            "alternates" => target.requires_alternation = value,
            "system_role" => target.accepts_system_role = value,
            _ => panic!("no fact `{name}`"),
        }
    }
    target
}

fn render(api_format: ApiFormat, envelope: &Map<String, Value>, messages: Vec<Value>) -> String {
    let mut body = envelope.clone();
    let key = if api_format == ApiFormat::Responses { "input" } else { "messages" };
    body.insert(key.into(), messages.into());
    Value::Object(body).to_string()
}

fn found(violations: &[Violation]) -> BTreeSet<String> {
    let severity = |s| serde_json::to_value(s).unwrap().as_str().unwrap().to_owned();
    violations.iter().map(|v| format!("{} {}", v.rule, severity(v.severity))).collect()
}

#[test]
fn every_example_gives_what_it_says() {
    let mut wrong = Vec::new();
    for example in examples() {
        let violations = match &example.before {
            Some(before) => compare(before, &example.body, example.dialect, &example.target),
            None => check(&example.body, example.dialect, &example.target),
        };
        if found(&violations) != example.expected {
            let verb = if example.breaks { "breaks" } else { "keeps" };
            wrong.push(format!(
                "{} {} ({verb}): expected {:?}, found {:#?}\n{}",
                example.rule, example.title, example.expected, violations, example.body
            ));
        }
        for violation in violations.iter().filter(|v| !v.at.is_empty() && v.rule != "A27" && v.rule != "V2") {
            let body: Value = serde_json::from_str(example.body.trim_start_matches('\u{feff}')).unwrap_or_default();
            let parent = violation.at.rsplit_once('/').map_or("", |(parent, _)| parent);
            let there = body.is_null() || body.pointer(&violation.at).or(body.pointer(parent)).is_some();
            assert!(there, "{} {}: nothing is at {}", example.rule, example.title, violation.at);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Rules whose examples are too large or too binary for a text file, and are made by the tests below.
const MADE: [&str; 6] = ["O9", "O10", "A34", "A36", "A37", "V5"];

#[test]
fn every_rule_has_an_example_that_breaks_it_and_one_that_keeps_it() {
    let examples = examples();
    let shown = |number: &str, breaks: bool| {
        let word = format!("{number} ");
        examples.iter().any(|e| {
            let found = e.expected.iter().any(|x| x.starts_with(&word));
            e.rule == number && e.breaks == breaks && found == breaks
        })
    };
    let missing: Vec<&str> = RULES
        .iter()
        .map(|rule| rule.number)
        .filter(|number| !(MADE.contains(number) || shown(number, true) && shown(number, false)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn only(violations: &[Violation]) -> Option<(&str, Severity)> {
    assert!(violations.len() <= 1, "{violations:#?}");
    violations.first().map(|v| (v.rule, v.severity))
}

#[test]
fn limits_hold_to_the_last_one() {
    let chat = |body: &Value| check(&body.to_string(), ApiFormat::Chat, &Target::default_for(ApiFormat::Chat));
    let tools = |n| vec![json!({"type":"function","function":{"name":"f"}}); n];
    let with_tools = |n| json!({"messages":[{"role":"user","content":"x"}],"tools":tools(n)});
    assert_eq!(only(&chat(&with_tools(128))), None);
    assert_eq!(only(&chat(&with_tools(129))), Some(("O9", Severity::Error)));

    let long = |n| json!([{"role":"user","content":"é".repeat(n)}]);
    assert_eq!(only(&chat(&long(1_048_576))), None);
    assert_eq!(only(&chat(&long(1_048_577))), Some(("O10", Severity::Error)));
}

#[test]
fn sizes_of_bodies_and_images_are_seen() {
    let messages =
        |body: &Value| check(&body.to_string(), ApiFormat::Messages, &Target::default_for(ApiFormat::Messages));
    let large = |n| json!([{"role":"user","content":"x".repeat(n)}]);
    assert_eq!(only(&messages(&large(33_000_000))), None);
    assert_eq!(only(&messages(&large(33_554_432))), Some(("A34", Severity::Error)));

    let image = |data: String| json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":data}});
    let images = |list: Vec<Value>| json!([{"role":"user","content":list}]);
    let bytes = |n: usize| "A".repeat(n / 3 * 4);
    assert_eq!(only(&messages(&images(vec![image(bytes(5_242_878))]))), None);
    assert_eq!(only(&messages(&images(vec![image(bytes(5_242_884))]))), Some(("A36", Severity::Error)));

    // A PNG header of 2400 by 16 pixels: fine alone, too wide among many, wherever they stand.
    let wide = || image("iVBORw0KGgoAAAANSUhEUgAACWAAAAAQ".into());
    let small = || image("iVBORw0KGgoAAAANSUhEUgAAABAAAAAQ".into());
    assert_eq!(only(&messages(&images(vec![wide()]))), None);
    let mut many: Vec<Value> = (0..20).map(|_| small()).collect();
    assert_eq!(only(&messages(&images(many.clone()))), None);
    many.push(wide());
    assert_eq!(only(&messages(&images(many))), Some(("A37", Severity::Error)));
    let huge = image("iVBORw0KGgoAAAANSUhEUgAAH0EAAAAQ".into());
    assert_eq!(only(&messages(&images(vec![huge]))), Some(("A37", Severity::Error)));
}

#[test]
fn a_second_run_returns_its_input_to_the_byte() {
    assert_eq!(check_rerun("[1]", "[1]"), None);
    assert_eq!(check_rerun("[1]", "[1] ").map(|v| v.rule), Some("V5"));
    assert_eq!(check_rerun("[1]", "[2]").map(|v| v.rule), Some("V5"));
}

#[test]
fn a_number_stands_once() {
    let mut numbers: Vec<&str> = RULES.iter().map(|r| r.number).chain(NOT_CHECKED.iter().map(|(n, _)| *n)).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "a number stands twice");
}
