//! What Anthropic keeps: where marks say so, for as long as they say, where the look-back finds it.

use std::time::Duration;

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use crate::client::{ask, send, words};
use crate::simulator::{Keeping, Limits, Settings, Simulator, Traffic};

const MINUTE: Duration = Duration::from_mins(1);

/// A text block of so many tokens.
fn text(name: &str, tokens: usize) -> Value {
    json!({ "type": "text", "text": format!("{name}{}", words(tokens)) })
}

fn marked(mut block: Value, control: Value) -> Value {
    block["cache_control"] = control;
    block
}

fn five(block: Value) -> Value {
    marked(block, json!({ "type": "ephemeral" }))
}

fn hour(block: Value) -> Value {
    marked(block, json!({ "type": "ephemeral", "ttl": "1h" }))
}

fn body(system: &[Value], user: &[Value]) -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 100, "system": system, "messages": [{ "role": "user", "content": user }] })
}

async fn tokens(simulator: &Simulator, body: &Value) -> Traffic {
    let came = ask(simulator, ApiFormat::Messages, body).await;
    assert_eq!(came.status, 200, "{}", came.body());
    let tokens = simulator.last().unwrap().tokens.unwrap();
    assert_eq!(tokens.total, tokens.read + tokens.written + tokens.fresh);
    tokens
}

async fn simulator() -> Simulator {
    Simulator::start(Settings::default()).await
}

#[tokio::test]
async fn what_a_mark_wrote_is_read_by_what_goes_on_from_it() {
    let simulator = simulator().await;
    let first = tokens(&simulator, &body(&[five(text("s", 2_000))], &[text("a", 50)])).await;
    assert_eq!((first.read, first.unlimited), (0, 0));
    assert!((2_000..2_010).contains(&first.written) && (50..60).contains(&first.fresh), "{first:?}");

    let second = tokens(&simulator, &body(&[five(text("s", 2_000))], &[text("a", 50), five(text("b", 70))])).await;
    assert_eq!(second.read, first.written, "the system prompt");
    assert_eq!(second.unlimited, first.total, "all that was sent before");
    assert_eq!((second.written, second.fresh), (second.total - first.written, 0));

    let third =
        tokens(&simulator, &body(&[text("s", 2_000)], &[text("a", 50), text("b", 70), five(text("c", 9))])).await;
    assert_eq!(third.read, second.total, "an extension reads all of what it extends, whatever is marked now");
}

#[tokio::test]
async fn without_a_mark_nothing_is_kept() {
    let simulator = simulator().await;
    let plain = body(&[text("s", 2_000)], &[text("a", 50)]);
    tokens(&simulator, &plain).await;
    let again = tokens(&simulator, &plain).await;
    assert_eq!((again.read, again.written, again.unlimited), (0, 0, again.total));
}

#[tokio::test]
async fn a_prefix_below_the_minimum_is_not_kept() {
    let small = Limits { window: 200_000, minimum: 512 };
    let models = [("claude-small-minimum".to_owned(), small)].into();
    let simulator = Simulator::start(Settings { models, ..Settings::default() }).await;
    let short = body(&[five(text("s", 900))], &[text("a", 10)]);
    assert_eq!(tokens(&simulator, &short).await.written, 0);
    let mut other = short;
    other["model"] = json!("claude-small-minimum");
    assert!(tokens(&simulator, &other).await.written > 900, "another model has another minimum");
}

#[tokio::test]
async fn a_mark_looks_at_twenty_blocks_its_own_first() {
    for (added, reads) in [(1, true), (19, true), (20, false), (25, false)] {
        let simulator = simulator().await;
        let first = tokens(&simulator, &body(&[], &[five(text("a", 2_000))])).await;
        let mut blocks = vec![text("a", 2_000)];
        blocks.extend((1..added).map(|n| text(&format!("b{n}"), 5)));
        blocks.push(five(text("end", 5)));
        let second = tokens(&simulator, &body(&[], &blocks)).await;
        assert_eq!(second.read, if reads { first.total } else { 0 }, "{added} blocks were added");
        assert_eq!(second.unlimited, first.total);
    }
}

#[tokio::test]
async fn a_mark_in_between_reaches_further_back() {
    let simulator = simulator().await;
    let first = tokens(&simulator, &body(&[], &[five(text("a", 2_000))])).await;
    let mut blocks = vec![text("a", 2_000)];
    blocks.extend((1..30).map(|n| if n == 15 { five(text("m", 5)) } else { text(&format!("b{n}"), 5) }));
    blocks.push(five(text("end", 5)));
    assert_eq!(tokens(&simulator, &body(&[], &blocks)).await.read, first.total);
}

#[tokio::test]
async fn what_is_not_read_lapses_and_what_is_read_lives_on() {
    let simulator = simulator().await;
    let same = body(&[five(text("s", 2_000))], &[text("a", 5)]);
    let written = tokens(&simulator, &same).await.written;
    for _ in 0..3 {
        simulator.pass(4 * MINUTE);
        assert_eq!(tokens(&simulator, &same).await.read, written, "each read gives it five minutes more");
    }
    simulator.pass(5 * MINUTE);
    let late = tokens(&simulator, &same).await;
    assert_eq!((late.read, late.written), (0, written));
    assert_eq!(late.unlimited, late.total, "an unlimited cache has no lifetimes");
}

#[tokio::test]
async fn an_hour_is_an_hour_and_reported_apart() {
    let simulator = simulator().await;
    let both = body(&[hour(text("s", 2_000))], &[five(text("a", 1_500))]);
    let came = ask(&simulator, ApiFormat::Messages, &both).await.json();
    let first = simulator.last().unwrap().tokens.unwrap();
    assert!(first.written_1h > 2_000 && first.written - first.written_1h > 1_500, "{first:?}");
    let creation = &came["usage"]["cache_creation"];
    assert_eq!(creation["ephemeral_1h_input_tokens"], first.written_1h);
    assert_eq!(creation["ephemeral_5m_input_tokens"], first.written - first.written_1h);

    simulator.pass(30 * MINUTE);
    let later = tokens(&simulator, &both).await;
    assert_eq!((later.read, later.written_1h), (first.written_1h, 0), "the short one lapsed, the long one did not");
    simulator.pass(59 * MINUTE);
    assert_eq!(tokens(&simulator, &both).await.read, first.written_1h, "the read gave it a new hour");
    simulator.pass(60 * MINUTE);
    assert_eq!(tokens(&simulator, &both).await.read, 0);
}

#[tokio::test]
async fn a_changed_byte_in_the_middle_leaves_only_what_stands_before_it() {
    let simulator = simulator().await;
    let say = |middle: &str| {
        body(&[five(text("s", 2_000))], &[five(text("a", 300)), five(text(middle, 300)), five(text("c", 300))])
    };
    tokens(&simulator, &say("b")).await;
    let changed = tokens(&simulator, &say("B")).await;
    let before = 2_000 + 300;
    assert!((before..before + 20).contains(&changed.read), "{changed:?}");
    assert_eq!((changed.unlimited, changed.fresh), (changed.read, 0));
    let system = tokens(&simulator, &body(&[five(text("S", 2_000))], &[five(text("a", 300))])).await;
    assert_eq!(system.read, 0);
}

#[tokio::test]
async fn how_a_body_is_written_does_not_count() {
    let simulator = simulator().await;
    let first =
        tokens(&simulator, &body(&[five(text("s", 2_000))], &[five(json!({ "type": "text", "text": "hi" }))])).await;
    let words = words(2_000);
    let other = format!(
        r#"{{ "messages": [ {{"content": "hi", "role":"user"}} ],
          "cache_control": {{"type":"ephemeral"}}, "system": [{{"text":"s{words}", "type":"text"}}], "model":"claude-sonnet-4-5" }}"#
    );
    let head = "x-api-key: somebody\r\nanthropic-version: 2023-06-01\r\n";
    send(&simulator, "/v1/messages", head, &other).await;
    let again = simulator.last().unwrap().tokens.unwrap();
    assert_eq!((again.read, again.unlimited), (first.total, first.total));
}

#[tokio::test]
async fn settings_void_messages_and_nothing_before_them() {
    let simulator = simulator().await;
    let mut same = body(&[five(text("s", 2_000))], &[five(text("a", 1_500))]);
    same["tools"] = json!([{ "name": "look", "input_schema": { "type": "object" } }]);
    let first = tokens(&simulator, &same).await;
    same["tool_choice"] = json!({ "type": "none" });
    let second = tokens(&simulator, &same).await;
    assert!(second.read > 2_000 && second.read < first.total - 1_500, "{second:?}");
    same["tools"][0]["name"] = json!("see");
    assert_eq!(tokens(&simulator, &same).await.read, 0, "other tools void everything");
}

#[tokio::test]
async fn nobody_reads_what_another_wrote() {
    let simulator = simulator().await;
    let mut same = body(&[five(text("s", 2_000))], &[text("a", 5)]);
    tokens(&simulator, &same).await;
    let head = "x-api-key: another\r\nanthropic-version: 2023-06-01\r\n";
    send(&simulator, "/v1/messages", head, &same.to_string()).await;
    let another = simulator.last().unwrap().tokens.unwrap();
    assert_eq!((another.read, another.unlimited), (0, 0), "another credential");
    same["model"] = json!("claude-opus-4-1");
    let model = tokens(&simulator, &same).await;
    assert_eq!((model.read, model.unlimited), (0, 0), "another model");
}

#[tokio::test]
async fn a_chat_route_to_claude_goes_by_marks_where_it_is_told_to() {
    let simulator = Simulator::start(Settings { chat: Keeping::Marks, ..Settings::default() }).await;
    let chat = |control: Value| {
        json!({ "model": "anthropic/claude-sonnet-4.5", "messages": [
            { "role": "system", "content": [{ "type": "text", "text": words(2_000), "cache_control": control }] },
            { "role": "user", "content": "hi" },
        ] })
    };
    ask(&simulator, ApiFormat::Chat, &chat(Value::Null)).await;
    assert_eq!(simulator.last().unwrap().tokens.unwrap().written, 0);
    ask(&simulator, ApiFormat::Chat, &chat(json!({ "type": "ephemeral" }))).await;
    let came = ask(&simulator, ApiFormat::Chat, &chat(json!({ "type": "ephemeral" }))).await.json();
    assert!(came["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() > Some(2_000), "{came}");
}
