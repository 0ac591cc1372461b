//! Names and pages, over real sockets: what a browser can be made to send is not answered.

use reqwest::Method;

use crate::ground::{Ground, settings};
use crate::simulator::{Settings, Simulator};
use crate::street::{MODELS, raw, send, status};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_bent_to_this_machine_is_not_answered_to() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    for (path, body) in MODELS {
        for (host, wanted) in [
            ("evil.example", 403),
            ("localhost.evil.example:8484", 403),
            ("localhost", 200),
            ("[::1]:8484", 200),
            ("127.0.0.1:1", 200),
        ] {
            let length = body.len();
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: sk-own\r\nanthropic-version: 2023-06-01\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let said = raw(&ground, request.as_bytes()).await;
            assert_eq!(status(&said), wanted, "{host}: {said}");
        }
    }
    assert_eq!(simulator.seen().len(), 3 * 3);
    for path in ["/metrics", "/healthz", "/v1/models"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\n\r\n");
        assert_eq!(status(&raw(&ground, request.as_bytes()).await), 403, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_get_no_answer_and_nothing_that_lets_them_read_one() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let (path, body) = MODELS[0];
    for origin in ["https://evil.example", "null", "http://203.0.113.7", "http://localhost.evil.example"] {
        let shown = [("origin", origin), ("x-api-key", "sk-own")];
        for (method, path) in [(Method::POST, path), (Method::OPTIONS, path), (Method::GET, "/metrics")] {
            let response = send(&ground, (method, path), &shown, body).await;
            assert_eq!(response.status(), 403, "{origin} {path}");
            assert!(response.headers().keys().all(|name| !name.as_str().starts_with("access-control")));
        }
    }
    assert_eq!(simulator.seen().len(), 0);
    let own = [("origin", "http://localhost:3000"), ("x-api-key", "sk-own")];
    assert_eq!(send(&ground, (Method::POST, path), &own, body).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_2_the_authority_is_looked_at_and_a_host_beside_it_too() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let address = ground.url.strip_prefix("http://").unwrap().parse().unwrap();
    let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().resolve("evil.example", address);
    let http = http.build().unwrap();
    let (path, body) = MODELS[0];
    let port = address.port();
    for (authority, host, wanted) in [
        (format!("127.0.0.1:{port}"), None, 200),
        (format!("localhost:{port}"), Some("localhost"), 200),
        (format!("127.0.0.1:{port}"), Some("evil.example"), 403),
        (format!("evil.example:{port}"), None, 403),
        (format!("evil.example:{port}"), Some("localhost"), 403),
    ] {
        let request = http.post(format!("http://{authority}{path}")).body(body);
        let request = request.header("x-api-key", "sk-own").header("anthropic-version", "2023-06-01");
        let request = host.into_iter().fold(request, |request, host| request.header("host", host));
        assert_eq!(request.send().await.unwrap().status(), wanted, "{authority} {host:?}");
    }
}
