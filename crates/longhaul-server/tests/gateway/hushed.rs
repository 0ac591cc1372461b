//! A client's key is for the upstream alone: it is in nothing that is kept, logged, counted or said.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpListener;

use crate::ground::{Agent, Ground, settings, with_window};
use crate::heard;
use crate::postgres::ground::{Database, Ground as Place};
use crate::simulator::{Settings, Simulator};
use crate::street::{MODELS, closed, eventually, holding, post, send};

const MODEL: &str = "claude-sonnet-4-5";

/// Keys that no rule for secrets knows, so that nothing but care keeps them out.
const KEYS: [(&str, &str, &str); 4] = [
    ("x-api-key", "plainwordaskeyone", "plainwordaskeyone"),
    ("authorization", "Bearer plainwordaskeytwo", "plainwordaskeytwo"),
    ("api-key", "plainwordaskeythree", "plainwordaskeythree"),
    ("authorization", "Bearer sk-ant-oat01-plainwordaskeyfour", "plainwordaskeyfour"),
];

/// An upstream that quotes the keys that it was sent in what it says.
async fn quoting(status: StatusCode) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |request: Request| async move {
        let message = format!("messages: what is this? you sent {:?}", request.headers());
        let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        (status, [("content-type", "application/json")], body.to_string()).into_response()
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

fn has(bytes: &[u8], key: &str) -> bool {
    bytes.windows(key.len()).any(|window| window == key.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_key_reaches_the_upstream_and_is_found_nowhere_else() {
    heard::listen();
    let simulator = Simulator::start(Settings::window(16_000)).await;
    let place = Place::new(Database::Sqlite);
    let settings = with_window(settings(&simulator.origin()), MODEL, 16_000);
    let ground = Ground::with_store(settings, place.open().await, simulator.clock()).await;
    for (name, value, _) in KEYS {
        let mut agent = Agent::new(MODEL);
        (0..24).for_each(|_| agent.step(60));
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            let response = post(&ground, path, &[(name, value)], agent.body().to_string()).await;
            // The simulator knows two places for a key.
            assert_eq!(response.status().is_success(), name != "api-key", "{path} {name}");
            assert_eq!(simulator.last().unwrap().header(name), Some(value));
        }
        agent.says("/context");
        post(&ground, "/v1/messages", &[(name, value)], agent.body().to_string()).await;
        send(&ground, (Method::GET, "/v1/models"), &[(name, value)], "").await;
    }
    eventually("the answers are written down", async || place.number("SELECT count(*) FROM traffic").await >= 3).await;
    let metrics = send(&ground, (Method::GET, "/metrics"), &[], "").await.text().await.unwrap();
    let (stored, logged) = (place.bytes().await, heard::lines());
    assert!(has(&stored, "mismatched types") && logged.contains("answered") && metrics.contains("longhaul_"));
    for (_, _, key) in KEYS {
        assert!(!has(&stored, key), "{key} is in the store");
        assert!(!metrics.contains(key), "{key} is counted");
        let line = logged.lines().find(|line| line.contains(key));
        assert!(line.is_none(), "{key} is logged: {line:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upstream_quotes_of_a_key_goes_to_its_client_and_into_no_log() {
    heard::listen();
    let clock = std::sync::Arc::default();
    let place = Place::new(Database::Sqlite);
    for (number, status) in
        [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::PAYLOAD_TOO_LARGE].into_iter().enumerate()
    {
        let upstream = quoting(status).await;
        let store = place.open().await;
        let ground = Ground::with_store(settings(&upstream), store, std::sync::Arc::clone(&clock)).await;
        let key = format!("quotedplainword{number}");
        let mut agent = Agent::new(MODEL);
        agent.step(200);
        let long = agent.body().to_string();
        for (path, body) in MODELS.into_iter().chain([("/v1/messages", long.as_str())]) {
            let response = post(&ground, path, &[("x-api-key", &key)], body.to_owned()).await;
            assert_eq!(response.status(), status);
            assert!(response.text().await.unwrap().contains(&key), "the provider's own error, to the last byte");
        }
        assert!(!has(&place.bytes().await, &key), "{key} is in the store");
        let logged = heard::lines();
        let line = logged.lines().find(|line| line.contains(&key));
        assert!(line.is_none(), "{key} is logged: {line:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_ours_quote_no_key_and_name_no_store() {
    heard::listen();
    let simulator = Simulator::start(Settings::default()).await;
    let gone = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let ground = Ground::start(settings(&format!("http://{gone}")), &simulator).await;
    let key = "unreachedplainword";
    for (path, body) in MODELS.into_iter().chain([("/v1/files", "{}")]) {
        let response = post(&ground, path, &[("authorization", &format!("Bearer {key}"))], body).await;
        assert_eq!(response.status(), 502, "{path}");
        assert!(!response.text().await.unwrap().contains(key));
    }
    let ground = Ground::start(closed(holding(&simulator.origin(), "heldplainword")), &simulator).await;
    for shown in [("x-longhaul-key", key), ("x-api-key", key)] {
        let said = post(&ground, MODELS[0].0, &[shown], MODELS[0].1).await.text().await.unwrap();
        assert!(!said.contains(key) && !said.contains("heldplainword"), "{said}");
    }
    let logged = heard::lines();
    assert!(!logged.contains(key) && !logged.contains("heldplainword"));
}
