//! Clients that leave: the provider is told at once, whatever the request was waiting for, and the session goes on with the next one.

use std::time::{Duration, Instant};

use longhaul_engine::ApiFormat;
use tokio::io::AsyncWriteExt;

use crate::ground::{Agent, Ground, header, settings, with_window};
use crate::raw::{connect, path, read_until, request, sent, streamed};
use crate::simulator::{Delivery, Ended, Next, Pieces, Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";
const AGES: Duration = Duration::from_mins(10);
/// Within this time an upstream is left.
const SOON: Duration = Duration::from_secs(1);

/// Waits until something holds, for as long as may be.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "{what}: not within {SOON:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What a request can be waiting for when its client leaves.
const STAGES: [(&str, Delivery); 3] = [
    ("the head", Delivery { after: AGES, ..NOW }),
    ("the first token", Delivery { pieces: Pieces::SplitAt(0), pace: AGES, ..NOW }),
    ("the next token", Delivery { pieces: Pieces::SplitAt(60), pace: AGES, ..NOW }),
];
const NOW: Delivery =
    Delivery { after: Duration::ZERO, pieces: Pieces::Events, pace: Duration::ZERO, cut: None, ends: None };

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_takes_the_upstream_along_at_every_stage() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    for api_format in ApiFormat::ALL {
        for (stage, delivery) in STAGES {
            simulator.next(Next::Delivers(delivery));
            let before = simulator.seen().len();
            let mut socket = sent(&ground, path(api_format), &streamed(api_format).to_string()).await;
            while simulator.seen().len() == before {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            // In the Responses dialect nothing is handed on before the answer says more than that it began.
            if delivery.after.is_zero() && api_format != ApiFormat::Responses {
                read_until(&mut socket, b"\r\n\r\n").await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(simulator.last().unwrap().ended, Ended::Not);
            drop(socket);
            let left = || simulator.last().unwrap().ended == Ended::ClientLeft;
            until(&format!("{api_format}, waiting for {stage}"), left).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_a_connection_of_http_2_does_too() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    for (stage, delivery) in STAGES {
        simulator.next(Next::Delivers(delivery));
        let before = simulator.seen().len();
        let request = http.post(format!("{}/v1/chat/completions", ground.url)).header("x-api-key", "k");
        let request = request.body(streamed(ApiFormat::Chat).to_string()).send();
        let asking = tokio::spawn(async move { request.await.unwrap().bytes().await });
        while simulator.seen().len() == before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        asking.abort();
        until(stage, || simulator.last().unwrap().ended == Ended::ClientLeft).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_left_goes_on_at_once() {
    let simulator = Simulator::start(Settings::window(16_000)).await;
    let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 16_000), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..20).for_each(|_| agent.step(60));
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    let session = header(&response, "x-longhaul-session");
    assert_eq!(header(&response, "x-longhaul-action"), "compacted");
    response.bytes().await.unwrap();
    for (stage, delivery) in STAGES {
        agent.step(1);
        let mut body = agent.body();
        body["stream"] = true.into();
        simulator.next(Next::Delivers(delivery));
        let before = simulator.seen().len();
        let socket = sent(&ground, "/v1/messages", &body.to_string()).await;
        while simulator.seen().len() == before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(socket);
        until(stage, || simulator.last().unwrap().ended == Ended::ClientLeft).await;
        // The simulator is the first to notice; the gateway may still be on its way out.
        tokio::time::sleep(Duration::from_millis(500)).await;
        agent.step(1);
        let start = Instant::now();
        let response = ground.post_json("/v1/messages", &agent.body()).await;
        assert!(start.elapsed() < SOON, "{stage}: {:?}", start.elapsed());
        assert_eq!(response.status(), 200);
        assert_eq!(header(&response, "x-longhaul-action"), "replayed", "{stage}");
        assert_eq!(header(&response, "x-longhaul-session"), session, "{stage}");
        response.bytes().await.unwrap();
        let page = ground.http.get(format!("{}/metrics", ground.url)).send().await.unwrap();
        let page = page.text().await.unwrap();
        assert!(page.contains("longhaul_live_sessions 1\n"), "it is the same one that is held: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_in_the_midst_of_the_request_is_not_forwarded() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let whole = request("/v1/chat/completions", &streamed(ApiFormat::Chat).to_string());
    for end in (1..whole.len()).step_by(11) {
        let mut socket = connect(&ground).await;
        socket.write_all(&whole.as_bytes()[..end]).await.unwrap();
        drop(socket);
    }
    let response = ground.post("/v1/chat/completions", streamed(ApiFormat::Chat).to_string()).await;
    assert_eq!((response.status().as_u16(), simulator.seen().len()), (200, 1));
}
