//! A second try is made only where it can mend something, only before anything came, and as late as was asked for.

use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_server::upstream::{ModelClient as _, ModelReply, RetryPolicy, Streaming, Timeouts, UpstreamError};
use tokio::net::TcpListener;

use super::scripted::{Act, Asked, Server};
use super::{client, once, question, ways};

const QUICK: RetryPolicy =
    RetryPolicy { max_retries: 2, first_delay: Duration::from_millis(20), max_delay: Duration::from_millis(30) };

fn quick() -> Timeouts {
    Timeouts { retry_policy: QUICK, ..once() }
}

async fn run(acts: Vec<Act>, timeouts: Timeouts) -> (Result<ModelReply, UpstreamError>, Vec<Asked>) {
    let server = Server::start(acts).await;
    let question = question(&server.base_url(), ApiFormat::Messages, Streaming::On, timeouts);
    (client().ask(question).await, server.asked())
}

fn pauses(asked: &[Asked]) -> Vec<Duration> {
    asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
}

#[tokio::test]
async fn what_passes_is_tried_again_in_every_way() {
    for (api_format, streaming) in ways() {
        for status in [429, 500, 502, 503, 529] {
            let server = Server::start([Act::answers(status, "{}"), Act::says("hello")]).await;
            let question = question(&server.base_url(), api_format, streaming, quick());
            assert_eq!(client().ask(question).await.unwrap().text, "hello", "{status} {api_format}");
            let asked = server.asked();
            assert_eq!(asked.len(), 2);
            assert_eq!(asked[0].body, asked[1].body, "the same is sent");
        }
    }
}

#[tokio::test]
async fn tries_are_counted() {
    let acts = (0..5).map(|_| Act::answers(529, "{}")).collect();
    let (given, asked) = run(acts, quick()).await;
    assert_eq!((given, asked.len()), (Err(UpstreamError::Overloaded { delay: None }), 3));
    // Half of 20 ms and half of 30 ms at least, where chance is least.
    let pauses = pauses(&asked);
    assert!(pauses[0] >= Duration::from_millis(10) && pauses[1] >= Duration::from_millis(15), "{pauses:?}");
}

#[tokio::test]
async fn the_providers_delay_is_kept() {
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    let limited = || Act::answers(429, "{}");
    let words =
        r#"{"error":{"message":"Rate limit reached for x. Please try again in 0.15s.","code":"rate_limit_exceeded"}}"#;
    let cases = [
        limited().header("retry-after-ms", "150"),
        limited().header("retry-after", "0.15"),
        limited().header("date", date).header("retry-after", "Wed, 21 Oct 2026 07:28:01 GMT"),
        limited()
            .header("date", date)
            .header("anthropic-ratelimit-tokens-remaining", "0")
            .header("anthropic-ratelimit-tokens-reset", "2026-10-21T07:28:00.150Z"),
        limited().header("x-ratelimit-remaining-requests", "0").header("x-ratelimit-reset-requests", "150ms"),
        Act::answers(429, words),
        Act::answers(529, "{}").header("retry-after-ms", "150"),
    ];
    for act in cases {
        let shown = format!("{act:?}");
        let (given, asked) = run(vec![act, Act::says("hello")], quick()).await;
        assert_eq!(given.unwrap().text, "hello", "{shown}");
        assert!(pauses(&asked)[0] >= Duration::from_millis(150), "{:?} {shown}", pauses(&asked));
    }
}

#[tokio::test]
async fn nobody_waits_longer_than_they_have() {
    let started = std::time::Instant::now();
    let act = Act::answers(429, "{}").header("retry-after", "3600");
    let (given, asked) = run(vec![act, Act::says("hello")], quick()).await;
    assert_eq!(given, Err(UpstreamError::RateLimited { delay: Some(Duration::from_hours(1)) }));
    assert_eq!(asked.len(), 1);
    assert!(started.elapsed() < Duration::from_secs(10), "it is told at once, so that others can be asked");
}

#[tokio::test]
async fn what_a_second_try_cannot_mend_gets_none() {
    let quota = r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    let minute = r#"{"error":{"message":"Request too large for gpt-4o in organization x on tokens per min (TPM): Limit 30000, Requested 34150.","code":"rate_limit_exceeded"}}"#;
    let long = r#"{"error":{"message":"prompt is too long: 3 tokens > 2 maximum"}}"#;
    for act in [
        Act::hangs_up(),
        Act::says("hello").cut_at(0),
        Act::says("hello").cut_at(200),
        Act::answers(200, "nonsense"),
        Act::answers(400, "{}"),
        Act::answers(401, "{}"),
        Act::answers(404, "{}"),
        Act::answers(413, "{}"),
        Act::answers(307, "").header("location", "/elsewhere"),
        Act::answers(429, quota),
        Act::answers(429, minute),
        Act::answers(500, long),
        Act::answers(200, "data: {\"error\":{\"type\":\"overloaded_error\"}}\n\n"),
    ] {
        let shown = format!("{act:?}");
        let (given, asked) = run(vec![act, Act::says("hello")], quick()).await;
        assert!(given.is_err(), "{shown}");
        assert_eq!(asked.len(), 1, "{shown}: {given:?}");
    }
}

#[tokio::test]
async fn a_server_that_comes_up_meanwhile_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let retries =
        RetryPolicy { max_retries: 200, first_delay: Duration::from_millis(20), max_delay: Duration::from_millis(20) };
    let timeouts = Timeouts { retry_policy: retries, ..once() };
    let question = question(&format!("http://{address}/v1"), ApiFormat::Chat, Streaming::Off, timeouts);
    let asked = tokio::spawn(async move { client().ask(question).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let server = Server::start_at(address, [Act::says("hello")]).await;
    assert_eq!(asked.await.unwrap().unwrap().text, "hello");
    assert_eq!(server.asked().len(), 1);
}
