//! The accounts of a request: whatever spelling it comes under and however it ends, what it spends is charged, logged and counted.

use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::store::{Durability, KeyLimits, Store, StoreLocation};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::echo::Echo;
use crate::ground::{Agent, Folder, Ground, settings, with_window};
use crate::raw::{connect, path, read_until, short};
use crate::simulator::{Delivery, Ended, Next, Pieces, Say, Settings, Simulator, says};
use crate::street::{closed, eventually, holding, post};

const MODEL: &str = "claude-sonnet-4-5";
const HELD: &str = "sk-of-the-gateway-itself";
const AGES: Duration = Duration::from_mins(10);

/// A key with a limit of so many tokens a day.
async fn limited(ground: &Ground, name: &str, tokens: u64) -> String {
    let limits = KeyLimits { tokens_per_day: Some(Tokens(tokens)), ..KeyLimits::default() };
    ground.store.add_key(name, name, limits, Timestamp(0)).await.unwrap().reveal().to_owned()
}

/// The tokens that a key used today.
async fn used(ground: &Ground, name: &str) -> u64 {
    let keys = ground.store.keys().await.unwrap();
    let key = keys.iter().find(|key| key.name == name).unwrap();
    key.last_usage.map_or(0, |used| used.tokens.number())
}

/// A request on a connection of its own, with a key.
async fn sent(ground: &Ground, path: &str, key: &str, body: &str) -> tokio::net::TcpStream {
    let mut socket = connect(ground).await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nx-longhaul-key: {key}\r\nanthropic-version: 2023-06-01\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    socket
}

/// A page of metrics.
async fn metrics(ground: &Ground, key: &str) -> String {
    let page = ground.http.get(format!("{}/metrics", ground.url)).header("x-longhaul-key", key);
    page.send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_route_goes_around_a_limit_of_tokens() {
    let echo = Echo::start().await;
    let store = longhaul_server::store::Store::open(
        &longhaul_server::store::StoreLocation::Memory,
        longhaul_server::store::Durability::Normal,
    );
    let settings = closed(holding(&echo.origin, HELD));
    let ground = Ground::with_store(settings, store.await.unwrap(), std::sync::Arc::default()).await;
    let body = short(ApiFormat::Chat, &"word ".repeat(4_000)).to_string();
    for (number, target) in [
        "/v1/chat/completions",
        "/v1/%63hat/completions",
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1/./chat/completions",
        "/v1/Chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/images/generations",
        "/v1/messages/batches",
        "/v1/batches",
        "/v1/responses/compact",
        "/anything/else",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("key{number}");
        let key = limited(&ground, &name, 3_000).await;
        let before = echo.count();
        let mut socket = sent(&ground, target, &key, &body).await;
        let status = crate::raw::status(&mut socket).await;
        drop(socket);
        if status == 400 {
            assert_eq!(echo.count(), before, "{target} was refused, and sent all the same");
            continue;
        }
        assert_eq!(status, 200, "{target}");
        eventually(target, async || used(&ground, &name).await >= 4_000).await;
        let response = post(&ground, "/v1/models", &[("x-longhaul-key", &key)], "{}").await;
        assert_eq!(response.status(), 429, "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_made_at_once_count_against_each_other() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let key = limited(&ground, "somebody", 3_000).await;
    let mut agent = Agent::new(MODEL);
    agent.step(2_000);
    let body = agent.body().to_string();
    simulator.deliver(Delivery { after: Duration::from_millis(200), ..Delivery::default() });
    let shown = [("x-longhaul-key", key.as_str())];
    let asked = (0..30).map(|_| post(&ground, "/v1/messages", &shown, body.clone()));
    let answers = futures_util::future::join_all(asked).await;
    let accepted = answers.iter().filter(|response| response.status() == 200).count();
    let refused = answers.iter().filter(|response| response.status() == 429).count();
    assert_eq!((accepted, refused), (1, 29), "one of them reaches the limit");
    for response in answers {
        response.bytes().await.unwrap();
    }
    let spent = simulator.seen()[0].tokens.unwrap().total as u64;
    eventually("the estimate is replaced by what was reported", async || {
        (spent..spent + 500).contains(&used(&ground, "somebody").await)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_that_requests_ask_for_is_reserved_too() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let key = limited(&ground, "somebody", 100_000).await;
    let mut body = short(ApiFormat::Messages, "hi");
    body["max_tokens"] = 25_000.into();
    simulator.deliver(Delivery { after: Duration::from_millis(500), ..Delivery::default() });
    let shown = [("x-longhaul-key", key.as_str())];
    let asked = (0..30).map(|_| post(&ground, "/v1/messages", &shown, body.to_string()));
    let answers = futures_util::future::join_all(asked).await;
    let accepted = answers.iter().filter(|response| response.status() == 200).count();
    assert_eq!(accepted, 4, "four replies of 25,000 tokens are the limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_while_the_store_does_not_answer() {
    let simulator = Simulator::start(Settings::default()).await;
    let folder = Folder::new();
    let store = Store::open(&StoreLocation::File(folder.path().join("store.db")), Durability::Normal).await.unwrap();
    let settings = closed(holding(&simulator.origin(), HELD));
    let ground = Ground::with_store(settings, store, simulator.clock()).await;
    let key = limited(&ground, "somebody", 3_000).await;
    let shown = [("x-longhaul-key", key.as_str())];
    let mut agent = Agent::new(MODEL);
    agent.step(2_000);
    let status = async || {
        let response = post(&ground, "/v1/messages", &shown, agent.body().to_string()).await;
        let status = response.status().as_u16();
        response.bytes().await.unwrap();
        status
    };
    assert_eq!(status().await, 200);
    eventually("the limit is reached", async || used(&ground, "somebody").await >= 3_000).await;
    assert_eq!(status().await, 429);
    std::fs::remove_file(folder.path().join("store.db")).unwrap();
    for _ in 0..5 {
        assert_eq!(status().await, 429);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_given_back_when_nothing_was_spent() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let key = limited(&ground, "somebody", 1_000_000).await;
    let shown = [("x-longhaul-key", key.as_str())];
    let body = short(ApiFormat::Messages, "hi").to_string();
    for status in [400, 429, 500] {
        simulator.next(Next::fails(status));
        let response = post(&ground, "/v1/messages", &shown, body.clone()).await;
        assert_eq!(response.status(), status);
        response.bytes().await.unwrap();
        eventually("nothing is charged", async || used(&ground, "somebody").await == 0).await;
    }
    let mut agent = Agent::new(MODEL);
    agent.step(60);
    agent.says("/context");
    let response = post(&ground, "/v1/messages", &shown, agent.body().to_string()).await;
    assert!(response.text().await.unwrap().contains("[longhaul]"));
    eventually("a command costs nothing", async || used(&ground, "somebody").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_is_charged_at_every_stage() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..4).for_each(|_| agent.step(200));
    let mut long = agent.body();
    long["stream"] = json!(true);
    // A request of a session, and one that is too short for one.
    let mut short = short(ApiFormat::Chat, &"word ".repeat(700));
    short["stream"] = json!(true);
    let bodies = [(ApiFormat::Messages, long), (ApiFormat::Chat, short)];
    let stages = [
        Delivery { after: AGES, ..Delivery::default() },
        Delivery { pieces: Pieces::SplitAt(60), pace: AGES, ..Delivery::default() },
    ];
    let mut settled = 0;
    for (number, delivery) in stages.into_iter().enumerate() {
        for (api_format, body) in &bodies {
            let name = format!("{api_format}{number}");
            let key = limited(&ground, &name, 1_000_000).await;
            let before = simulator.seen().len();
            simulator.next(Next::Delivers(delivery));
            let mut socket = sent(&ground, path(*api_format), &key, &body.to_string()).await;
            eventually("it is sent", async || simulator.seen().len() > before).await;
            if delivery.after.is_zero() {
                read_until(&mut socket, b"\r\n\r\n").await;
            }
            drop(socket);
            eventually("the upstream is left", async || simulator.last().unwrap().ended == Ended::ClientLeft).await;
            settled += 1;
            eventually("it is counted", async || ground.gateway.totals().requests == settled).await;
            // The reservation is gone, and what was sent is charged.
            let most = simulator.last().unwrap().tokens.unwrap().total as u64;
            eventually(&name, async || (most / 2..most * 2).contains(&used(&ground, &name).await)).await;
        }
    }
    let page = metrics(&ground, &limited(&ground, "reader", 1).await).await;
    let counted = page.lines().filter(|line| is_counted(line)).filter_map(|line| line.split(' ').next_back());
    assert_eq!(counted.map(|count| count.parse::<u64>().unwrap()).sum::<u64>(), 4, "{page}");
}

fn is_counted(line: &str) -> bool {
    line.starts_with("longhaul_requests_total")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_hidden_recall_round_leaves_what_was_spent_before_it_charged() {
    let question = "What was wrong in step 1? Look it up.";
    let speaker = says(move |request, _| {
        let list = request["messages"].as_array().unwrap();
        if list.last().unwrap().to_string().contains(question) {
            Say::call("recall_search", json!({"query": "mismatched types in step 1"}))
        } else {
            Say::text("ok")
        }
    });
    for is_stream in [false, true] {
        let simulator = Simulator::start(Settings { speaker: speaker.clone(), ..Settings::window(16_000) }).await;
        let settings = with_window(closed(holding(&simulator.origin(), HELD)), MODEL, 16_000);
        let ground = Ground::start(settings, &simulator).await;
        let key = limited(&ground, "somebody", 10_000_000).await;
        let shown = [("x-longhaul-key", key.as_str())];
        let mut agent = Agent::new(MODEL);
        (0..20).for_each(|_| agent.step(60));
        post(&ground, "/v1/messages", &shown, agent.body().to_string()).await.bytes().await.unwrap();
        eventually("the first is settled", async || ground.gateway.totals().requests == 1).await;
        let before = used(&ground, "somebody").await;
        agent.says(question);
        let mut body = agent.body();
        body["stream"] = json!(is_stream);
        simulator.next(Next::Delivers(Delivery::default()));
        simulator.next(Next::fails(503));
        post(&ground, "/v1/messages", &shown, body.to_string()).await.bytes().await.unwrap();
        eventually("the second is settled", async || ground.gateway.totals().requests == 2).await;
        let seen = simulator.seen();
        let round = seen[seen.len() - 2].tokens.unwrap().total as u64;
        eventually("the round that was answered is charged", async || {
            let now = used(&ground, "somebody").await;
            now >= before + round && now < before + round + 1_000
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_a_client_takes_to_send_is_not_the_gateways() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let body = short(ApiFormat::Messages, "hi").to_string();
    let whole = crate::raw::request("/v1/messages", &body);
    let mut socket = connect(&ground).await;
    let (first, rest) = whole.split_at(whole.len() - 100);
    socket.write_all(first.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    socket.write_all(rest.as_bytes()).await.unwrap();
    assert_eq!(crate::raw::status(&mut socket).await, 200);
    eventually("it is counted", async || {
        let page = metrics(&ground, "none").await;
        page.lines().any(|line| line.starts_with("longhaul_added_seconds_count") && line.ends_with(" 1"))
    })
    .await;
    let page = metrics(&ground, "none").await;
    let sum = page.lines().find_map(|line| line.strip_prefix("longhaul_added_seconds_sum ")).unwrap();
    assert!(sum.parse::<f64>().unwrap() < 2.5, "{sum}");
}
