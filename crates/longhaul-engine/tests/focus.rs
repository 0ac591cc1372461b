//! What a topic gets of a whole compaction: 60 to 70 % of the checkpoint's tokens, and the rest one line each.

#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

use longhaul_engine::checkpoint::{Checkpoint, Section, Topic};
use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::{Compressor, Engine, Plan, Wish};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::texts::{Closing, Marker};
use longhaul_engine::transcript::UnitKind;
use longhaul_engine::{Dialect, Tokens, wire};
use serde_json::{Value, json};

/// A session on a shop: one step in so many is about the database, the others about its pages and its mail.
fn session(steps: usize, one_in: usize) -> String {
    let mut messages = vec![
        json!({"role": "user", "content": "Build the shop: pages, mail and the database. Never push to main."}),
    ];
    for n in 0..steps {
        let (words, command, output) = match n % 4 {
            _ if n % one_in == 0 => (
                format!("Next I look at the schema of table t{n}."),
                format!("cat db/schema_{n}.sql"),
                lines(12, |row| {
                    format!(
                        "CREATE TABLE t{n}_{row} (id BIGINT, total_{n}_{row} NUMERIC({}, 2) NOT NULL);",
                        8 + row
                    )
                }),
            ),
            1 => (
                format!("The page {n} shows the cells of a row."),
                format!("cat web/page_{n}.ts"),
                lines(12, |row| {
                    format!("const cell_{n}_{row} = render(row.cells[{row}], theme.colour_{n}_{row});")
                }),
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
                lines(12, |row| {
                    format!("ok {row} - cell_{n}_{row} is shown in colour_{n}_{row} within {row} ms")
                }),
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
    let (transcript, _) = wire::parse(Some(Dialect::Chat), &body).unwrap();
    let wish = Wish {
        force: true,
        to_tokens: case.to_tokens.map(Tokens),
        focus: Some(case.topic.to_owned()),
        ..Wish::default()
    };
    let plan = Compressor.compact(policy, &wish, &mut Known::default(), &transcript).unwrap();
    let Plan::Ready(outcome) = plan else { panic!("nothing was done") };
    let (after, _) = wire::parse(Some(Dialect::Chat), &outcome.body).unwrap();
    let text = after.units.iter().find_map(|unit| match &unit.kind {
        UnitKind::Checkpoint(block) => Some(block.text().into_owned()),
        _ => None,
    });
    let text = text.unwrap();
    (Checkpoint::parse(&text).unwrap(), text)
}

#[test]
fn a_topic_gets_sixty_to_seventy_per_cent_of_a_compaction() {
    for case in [
        Case { steps: 120, one_in: 4, window: 16_000, to_tokens: None, topic: "database schema" },
        Case { steps: 480, one_in: 4, window: 40_000, to_tokens: None, topic: "the schema" },
        Case { steps: 480, one_in: 4, window: 100_000, to_tokens: None, topic: "database schema" },
        Case { steps: 480, one_in: 12, window: 40_000, to_tokens: None, topic: "database schema" },
        Case { steps: 480, one_in: 2, window: 40_000, to_tokens: None, topic: "database schema" },
        Case { steps: 240, one_in: 12, window: 400_000, to_tokens: Some(10_000), topic: "schema" },
        Case { steps: 240, one_in: 2, window: 400_000, to_tokens: Some(10_000), topic: "schema" },
        Case { steps: 240, one_in: 4, window: 400_000, to_tokens: Some(20_000), topic: "database schema" },
        Case { steps: 240, one_in: 4, window: 400_000, to_tokens: Some(10_000), topic: "SQL" },
        Case { steps: 240, one_in: 4, window: 400_000, to_tokens: Some(5_000), topic: "schema" },
        Case { steps: 120, one_in: 4, window: 40_000, to_tokens: Some(2_500), topic: "schema" },
    ] {
        let Case { steps, one_in, window, to_tokens, topic } = case;
        let stated: Value = json!({"window": window, "input_limit": null});
        let model: Model = models::find("gpt-5").with(stated.as_object().unwrap()).unwrap();
        let policy = Policy::new(&Config::default(), &model).unwrap().0;
        let (checkpoint, text) = compacted(&case, &policy);
        let counter = Meter::of(&policy.model).counter;
        let ways = [Closing::RequestFollows, Closing::RequestAbove];
        let mut markers = ways.map(|closing| Marker { closing, memory: Vec::new() }).into_iter();
        let marker = markers.find(|marker| checkpoint.render(marker) == text).unwrap();
        let topic_of = Topic::on(topic).unwrap();
        let share = checkpoint.share_on(&topic_of, counter, &marker);
        let shown = format!(
            "{steps} steps, one in {one_in}, in {window}, to {to_tokens:?}, on {topic}: {share:.3}\n{text}"
        );
        assert!((0.6..=0.7).contains(&share), "{shown}");
        // Whatever else is said is said on one line.
        let verbatim = [Section::ActiveTask, Section::Constraints, Section::PendingUserAsks, Section::Goal];
        for section in Section::ALL.into_iter().filter(|section| !verbatim.contains(section)) {
            let mut others = checkpoint.list(section).iter().filter(|item| !topic_of.is_in(item.as_str()));
            assert!(others.all(|item| !item.as_str().contains('\n')), "{shown}");
        }
    }
}
