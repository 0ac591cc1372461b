//! What is learned from answers: what they cost, however they come, and a refusal that comes as an event.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::json;
use tokio::net::TcpListener;

use crate::ground::{Agent, Ground, header, settings, with_window};
use crate::simulator::{Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_read_whole_and_streamed() {
    let simulator = Simulator::start(Settings::default()).await;
    let mut ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..8).for_each(|_| agent.step(20));
    for stream in [false, true] {
        agent.step(3);
        let mut body = agent.body();
        body["stream"] = stream.into();
        let response = ground.post_json("/v1/messages", &body).await;
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap();
    }
    ground.stop().await;
    let sums = ground.gateway.totals();
    let total: u64 = simulator.seen().iter().filter_map(|seen| seen.tokens).map(|tokens| tokens.total).sum();
    assert_eq!((sums.requests, sums.input_tokens.number()), (2, total));
}

/// A provider of the Responses dialect that takes everything, and then says that it was too long.
async fn provider(most: usize) -> String {
    let events = |events: &[serde_json::Value]| {
        let lines = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
        ([(CONTENT_TYPE, "text/event-stream")], lines.collect::<Vec<_>>().concat()).into_response()
    };
    let answer = move |body: Bytes| async move {
        let created = json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}});
        if body.len() > most {
            let error = json!({"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."});
            let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
            return events(&[created, failed]);
        }
        let usage = json!({"input_tokens": 10, "output_tokens": 1});
        let response = json!({"id": "r", "status": "completed", "output": [], "usage": usage});
        events(&[created, json!({"type": "response.completed", "response": response})])
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    origin
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_comes_as_an_event_is_recovered_from() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(with_window(settings(&provider(30_000).await), "gpt-5", 200_000), &simulator).await;
    let mut input = vec![json!({"role": "user", "content": "Make the build green."})];
    for n in 0..40 {
        let (id, output) = (format!("call_{n}"), format!("compiling unit {n} of the project\n").repeat(60));
        input.push(
            json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": "{\"command\":\"make\"}"}),
        );
        input.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
    }
    let body = json!({"model": "gpt-5", "stream": true, "input": input});
    let response = ground.post_json("/v1/responses", &body).await;
    assert_eq!(header(&response, "x-longhaul-action"), "compacted");
    let events = String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap();
    assert!(events.contains("response.completed") && !events.contains("response.failed"), "{events}");
}
