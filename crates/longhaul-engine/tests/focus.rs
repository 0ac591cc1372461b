//! What a topic gets of a whole compaction: 60 to 70 % of the checkpoint's tokens, and the rest one line each.

#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::checkpoint::{Checkpoint, Section, Topic};
use longhaul_engine::meter::Meter;
use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::{CompactOptions, Compressor, Engine, Plan, PlanInput};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::texts::{CheckpointMarker, RequestPosition};
use longhaul_engine::tokens::TokenCounter;
use longhaul_engine::transcript::TurnKind;
use longhaul_engine::{ApiFormat, Tokens, wire};
use serde_json::{Value, json};

/// A session on a shop: one step in so many is about the database, the others about its pages and its mail.
fn session(steps: usize, one_in: usize) -> String {
    let mut messages =
        vec![json!({"role": "user", "content": "Build the shop: pages, mail and the database. Never push to main."})];
    for n in 0..steps {
        let (words, command, output) = match n % 4 {
            _ if n % one_in == 0 => (
                format!("Next I look at the schema of table t{n}."),
                format!("cat db/schema_{n}.sql"),
                lines(12, |row| {
                    format!("CREATE TABLE t{n}_{row} (id BIGINT, total_{n}_{row} NUMERIC({}, 2) NOT NULL);", 8 + row)
                }),
            ),
            1 => (
                format!("The page {n} shows the cells of a row."),
                format!("cat web/page_{n}.ts"),
                lines(12, |row| format!("const cell_{n}_{row} = render(row.cells[{row}], theme.colour_{n}_{row});")),
            ),
            2 => (
                format!("I decided to send mail {n} at night, because fewer people read it then."),
                format!("cat mail/letter_{n}.html"),
                lines(12, |row| {
                    format!("<p class=\"letter-{n}-{row}\">Your order number {row} is on its way to you.</p>")
                }),
            ),
            _ => (
                format!("Now the tests of page {n} run."),
                format!("npm test web/page_{n}.test.ts"),
                lines(12, |row| format!("ok {row} - cell_{n}_{row} is shown in colour_{n}_{row} within {row} ms")),
            ),
        };
        let arguments = json!({"command": command}).to_string();
        let call = json!({"id": format!("call_{n}"), "type": "function", "function": {"name": "bash", "arguments": arguments}});
        messages.push(json!({"role": "assistant", "content": words, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{n}"), "content": output}));
    }
    messages.push(json!({"role": "user", "content": "What is left to do?"}));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

struct Case {
    steps: usize,
    /// How often the database comes up; the other three steps of four are about something else.
    one_in: usize,
    window: u64,
    to_tokens: Option<u64>,
    topic: &'static str,
}

/// The checkpoint that comes of it, with its text.
fn compacted(case: &Case, policy: &Policy) -> (Checkpoint, String) {
    let body = session(case.steps, case.one_in);
    let (transcript, _) = wire::parse(Some(ApiFormat::Chat), &body).unwrap();
    let options = CompactOptions {
        force: true,
        to_tokens: case.to_tokens.map(Tokens),
        focus: Some(case.topic.to_owned()),
        ..CompactOptions::default()
    };
    let plan = Compressor
        .compact(PlanInput { policy, options: &options, cache: &mut BlockCache::default(), transcript: &transcript })
        .unwrap();
    let Plan::Ready(outcome) = plan else { panic!("nothing was done") };
    let (after, _) = wire::parse(Some(ApiFormat::Chat), &outcome.body).unwrap();
    let text = after.turns.iter().find_map(|turn| match &turn.kind {
        TurnKind::Checkpoint(block) => Some(block.text().into_owned()),
        _ => None,
    });
    let text = text.unwrap_or_else(|| panic!("no checkpoint: {} {} {:?}", case.steps, case.one_in, case.to_tokens));
    (Checkpoint::parse(&text).unwrap(), text)
}

/// The share of a checkpoint's tokens that is about a topic: items with one of its words, and quoted lines that contain one
/// or whose source does. The marker and the headings never count.
fn topic_share(checkpoint: &Checkpoint, text: &str, topic: &Topic, counter: TokenCounter) -> f64 {
    let lists = Section::ALL.into_iter().flat_map(|section| checkpoint.list(section));
    let listed = lists.map(|item| format!("- {}\n", item.as_str().replace('\n', "\n  ")));
    let numbered = checkpoint.completed().iter().map(|done| format!("{}. {}\n", done.number, done.entry));
    let mut on_topic: String = listed.chain(numbered).filter(|item| topic.matches(item)).collect();
    for quoted in checkpoint.quoted() {
        let source = topic.matches(quoted.source());
        if source {
            on_topic.extend(["### ", quoted.source(), "\n"]);
        }
        for line in quoted.lines().filter(|line| source || topic.matches(line)) {
            on_topic.extend([line, "\n"]);
        }
    }
    counter.count(&on_topic).number() as f64 / counter.count(text).number() as f64
}

#[test]
fn a_topic_gets_sixty_to_seventy_per_cent_of_a_compaction() {
    // With more room than this there is nothing left to tell but the topic.
    for case in [
        Case { steps: 120, one_in: 4, window: 16_000, to_tokens: None, topic: "database schema" },
        Case { steps: 480, one_in: 4, window: 40_000, to_tokens: None, topic: "the schema" },
        Case { steps: 480, one_in: 4, window: 100_000, to_tokens: None, topic: "database schema" },
        Case { steps: 480, one_in: 12, window: 40_000, to_tokens: None, topic: "database schema" },
        Case { steps: 480, one_in: 2, window: 40_000, to_tokens: None, topic: "database schema" },
        Case { steps: 240, one_in: 12, window: 400_000, to_tokens: Some(10_000), topic: "schema" },
        Case { steps: 240, one_in: 2, window: 400_000, to_tokens: Some(10_000), topic: "schema" },
        Case { steps: 240, one_in: 4, window: 400_000, to_tokens: Some(12_000), topic: "database schema" },
        Case { steps: 240, one_in: 4, window: 400_000, to_tokens: Some(10_000), topic: "SQL" },
        Case { steps: 240, one_in: 4, window: 400_000, to_tokens: Some(5_000), topic: "schema" },
        Case { steps: 120, one_in: 4, window: 40_000, to_tokens: Some(2_500), topic: "schema" },
    ] {
        let Case { steps, one_in, window, to_tokens, topic } = case;
        let stated: Value = json!({"window": window, "input_limit": null});
        let model: Model = models::find("gpt-5").with_stated_facts(stated.as_object().unwrap()).unwrap();
        let policy = Policy::new(&Config::default(), &model).unwrap().0;
        let (checkpoint, text) = compacted(&case, &policy);
        let counter = Meter::for_model(&policy.model).counter;
        let ways = [RequestPosition::Below, RequestPosition::Above];
        let mut markers =
            ways.map(|closing| CheckpointMarker { request_position: closing, memory_files: Vec::new() }).into_iter();
        assert!(markers.any(|marker| checkpoint.render(&marker) == text));
        let topic_of = Topic::parse(topic).unwrap();
        let share = topic_share(&checkpoint, &text, &topic_of, counter);
        let shown =
            format!("{steps} steps, one in {one_in}, in {window}, to {to_tokens:?}, on {topic}: {share:.3}\n{text}");
        assert!((0.6..=0.7).contains(&share), "{shown}");
        // Whatever else is said is said on one line.
        let verbatim = [Section::ActiveTask, Section::Constraints, Section::PendingUserAsks, Section::Goal];
        for section in Section::ALL.into_iter().filter(|section| !verbatim.contains(section)) {
            let mut others = checkpoint.list(section).iter().filter(|item| !topic_of.matches(item.as_str()));
            assert!(others.all(|item| !item.as_str().contains('\n')), "{shown}");
        }
    }
}
