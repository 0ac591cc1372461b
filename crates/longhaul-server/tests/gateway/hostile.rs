//! Requests that nobody should send, by the thousand: none of them makes the gateway panic, and a good one beside them is answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use longhaul_engine::ApiFormat;
use longhaul_server::gateway::{GatewayLimits, GatewaySettings as Gateway};
use longhaul_server::store::{Durability, Store, StoreLocation};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::echo::Echo;
use crate::ground::{Agent, Ground, settings, with_window};
use crate::raw::{connect, path, request, short};

const LONG: Duration = Duration::from_secs(20);
static PANICS: AtomicUsize = AtomicUsize::new(0);
static WATCH: Once = Once::new();

/// Counts the panics of this program from now on, but for those of the tests themselves.
fn watch_panics() {
    WATCH.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.location().is_none_or(|place| !place.file().contains("tests/")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            usual(panic);
        }));
    });
}

async fn ground(echo: &Echo) -> Ground {
    watch_panics();
    let limits = GatewayLimits {
        head_timeout: Duration::from_millis(500),
        piece_timeout: Duration::from_millis(500),
        max_body_bytes: 1 << 20,
        ..GatewayLimits::default()
    };
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let settings = with_window(settings(&echo.origin), "claude-sonnet-4-5", 16_000);
    let mut ground = Ground::with_store(Gateway { limits, ..settings }, store, Arc::default()).await;
    // Connections that nobody uses are closed soon here, and a good client should not be about to use one.
    ground.http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    ground
}

/// The same cases each time.
fn runner() -> TestRunner {
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
}

fn cases<T>(count: usize, strategy: &impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = runner();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// A good request is answered in time.
async fn is_well(ground: &Ground) {
    let start = Instant::now();
    let response = ground.post_json("/v1/messages", &short(ApiFormat::Messages, "are you well?")).await;
    assert_eq!(response.status(), 200);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked");
}

/// A piece of a request that is almost one.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let cache = prop::sample::select(vec![
        "POST /v1/messages HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.0\r\n",
        "POST \u{7f}/v1/%zz?%00 HTTP/9.9\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "host: localhost\r\n",
        "Host: localhost:99999999\r\n",
        "content-length: 5\r\n",
        "content-length: -1\r\n",
        "content-length: 99999999999999999999\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, chunked, chunked\r\n",
        "content-encoding: gzip\r\n",
        "connection: upgrade, content-length\r\nupgrade: websocket\r\n",
        "expect: 100-continue\r\n",
        "x-longhaul-bypass: 1\r\n",
        "x-longhaul-session: ../../etc\r\n",
        "\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "{\"model\":\"m\",\"messages\":[]}",
        " folded\r\n",
        ": no name\r\n",
    ]);
    let cache = cache.prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![8 => cache, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_requests_hurt_nobody() {
    let echo = Echo::start().await;
    let ground = Arc::new(ground(&echo).await);
    let requests = cases(1_500, &prop::collection::vec(piece(), 1..12));
    let mut at_once = tokio::task::JoinSet::new();
    for (n, pieces) in requests.into_iter().enumerate() {
        let own = Arc::clone(&ground);
        at_once.spawn(async move {
            let mut socket = connect(&own).await;
            for piece in pieces {
                if socket.write_all(&piece).await.is_err() {
                    return;
                }
            }
            if n % 2 == 0 {
                let _ = socket.shutdown().await;
            }
            let mut came = Vec::new();
            let ended = timeout(LONG, socket.read_to_end(&mut came)).await;
            assert!(ended.is_ok(), "a connection is held open: {:?}", String::from_utf8_lossy(&came));
        });
        if at_once.len() >= 64 {
            at_once.join_next().await.unwrap().unwrap();
        }
        if n % 100 == 0 {
            is_well(&ground).await;
        }
    }
    while let Some(done) = at_once.join_next().await {
        done.unwrap();
    }
    is_well(&ground).await;
}

/// Values that no field expects.
fn odd() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(1e308)),
        Just(json!("")),
        Just(json!("\u{0}\u{1}\u{fffd}\u{10ffff}")),
        Just(json!("/compress")),
        Just(json!("/recall \u{0}'; DROP TABLE x; --")),
        Just(json!("[longhaul] ")),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let keys = prop::sample::select(vec![
            "role",
            "content",
            "type",
            "text",
            "tool_use_id",
            "tool_calls",
            "id",
            "model",
            "messages",
            "input",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..5).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

/// All places in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(n, value)| places(value, &format!("{at}/{n}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

/// A body of each dialect, with all that is usual in it.
fn bodies() -> [(ApiFormat, Value); 3] {
    let mut agent = Agent::new("claude-sonnet-4-5");
    (0..3).for_each(|_| agent.step(3));
    let call = json!({"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{\"a\":1}"}});
    let chat = json!({"model": "gpt-5", "tools": [{"type": "function", "function": {"name": "bash"}}], "messages": [
        {"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "t"}]},
        {"role": "assistant", "content": null, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "o"},
    ]});
    let responses = json!({"model": "gpt-5", "instructions": "i", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "t"}]}, {"type": "reasoning", "id": "r", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "o"},
    ]});
    [(ApiFormat::Messages, agent.body()), (ApiFormat::Chat, chat), (ApiFormat::Responses, responses)]
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_almost_right_hurt_nobody() {
    let echo = Echo::start().await;
    let ground = ground(&echo).await;
    let odds = cases(600, &(any::<prop::sample::Index>(), odd(), any::<prop::sample::Index>(), any::<u8>()));
    for (api_format, body) in bodies() {
        let mut found = Vec::new();
        places(&body, "", &mut found);
        for (n, (place, value, at, byte)) in odds.iter().enumerate() {
            let mut body = body.clone();
            if let Some(old) = body.pointer_mut(&found[place.index(found.len())]) {
                *old = value.clone();
            }
            let mut bytes = body.to_string().into_bytes();
            // Every third has a byte that is wrong, too, and every fifth breaks off.
            let at = at.index(bytes.len());
            if n % 3 == 0 {
                bytes[at] = *byte;
            }
            if n % 5 == 0 {
                bytes.truncate(at);
            }
            let response = ground.post(path(api_format), bytes.clone()).await;
            assert_eq!(response.status(), 200, "{}", String::from_utf8_lossy(&bytes));
            response.bytes().await.unwrap();
        }
        is_well(&ground).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deep_long_or_huge_hurts_nobody() {
    let echo = Echo::start().await;
    let ground = ground(&echo).await;
    let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    for (api_format, body) in bodies() {
        let body = body.to_string();
        let with = |field: &str| format!("{},{field}}}", &body[..body.len() - 1]);
        for body in [
            with(&format!("\"x\":{}", deep(127))),
            with(&format!("\"x\":{}", deep(200_000))),
            with(&format!("\"tools\":{}", deep(200_000))),
            with(&format!("\"messages\":{}", deep(200_000))),
            with(&format!("\"input\":{}", deep(200_000))),
            with(&format!("\"previous_response_id\":{}", deep(200_000))),
            with(&format!("\"max_tokens\":{}", "9".repeat(100_000))),
            with("\"max_tokens\":1e99999"),
            with("\"model\":-0.0"),
            with(&format!("\"model\":\"{}\"", "m".repeat(500_000))),
            with(&format!("\"messages\":[{}]", vec!["{}"; 50_000].join(","))),
            body.replace("\"role\"", "\"\\u0072ole\""),
            body.replace("\"content\"", "\"content\":[],\"content\""),
            body.replace("bash", "\\ud800"),
            body.replace("bash", "\\u0000"),
        ] {
            let response = ground.post(path(api_format), body).await;
            assert_eq!(response.status(), 200);
            response.bytes().await.unwrap();
            assert_eq!(PANICS.load(Ordering::SeqCst), 0);
        }
        is_well(&ground).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_is_not_two() {
    let echo = Echo::start().await;
    let ground = ground(&echo).await;
    // A length and chunks together are how requests are smuggled past a proxy.
    let body = short(ApiFormat::Chat, "hi").to_string();
    let smuggled =
        request("/v1/chat/completions", &body).replace("content-type", "transfer-encoding: chunked\r\ncontent-type");
    let mut socket = connect(&ground).await;
    socket.write_all(smuggled.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    let _ = timeout(LONG, socket.read_to_end(&mut came)).await.expect("it ends");
    assert!(String::from_utf8_lossy(&came).starts_with("HTTP/1.1 400"), "{}", String::from_utf8_lossy(&came));
    assert_eq!(echo.count(), 0);
}
