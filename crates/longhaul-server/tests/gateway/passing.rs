//! What is no request to a model passes as it came, and can lead nowhere but to the upstream.

use std::io::Write as _;

use longhaul_engine::ApiFormat;
use serde_json::json;

use crate::echo::{Echo, SAID};
use crate::ground::{Agent, Ground, answer, header, settings, with_window};
use crate::raw::short;
use crate::simulator::{Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";

async fn ground() -> (Echo, Ground) {
    let echo = Echo::start().await;
    let store = longhaul_server::store::Store::open(
        &longhaul_server::store::StoreLocation::Memory,
        longhaul_server::store::Durability::Normal,
    );
    // The addresses of one provider have the version in them, and those of the other do not.
    let mut settings = settings(&echo.origin);
    settings.upstreams = crate::ground::settings(&format!("{}/v1", echo.origin)).upstreams;
    let ground = Ground::with_store(settings, store.await.unwrap(), std::sync::Arc::default()).await;
    (echo, ground)
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_methods_queries_and_headers_pass() {
    let (echo, ground) = ground().await;
    for (method, target, body) in [
        ("GET", "/v1/models", ""),
        ("GET", "/v1/models?limit=3&after=%2Fx%20y", ""),
        ("HEAD", "/v1/files/a%2Fb", ""),
        ("PUT", "/v1/things/1", "{ \"as\" : \"it came\" }"),
        ("DELETE", "/v1/responses/resp_1", ""),
        ("POST", "/v1/embeddings", "not json \u{0}"),
        ("GET", "/v1/messages", ""),
        ("PROPFIND", "/v1/odd", "x"),
        ("POST", "/v1/messages/batches?beta=true", "{}"),
    ] {
        let request = ground.http.request(method.parse().unwrap(), format!("{}{target}", ground.url));
        let request = request.header("anthropic-beta", "new-2027-01-01").header("x-unknown", "ü");
        let request = if body.is_empty() { request } else { request.body(body) };
        let response = request.send().await.unwrap();
        assert_eq!((response.status().as_u16(), header(&response, "x-of-theirs")), (200, "1".to_owned()));
        assert_eq!(response.text().await.unwrap(), if method == "HEAD" { "" } else { SAID });
        let took = echo.last();
        assert_eq!((took.method.as_str(), took.target.as_str()), (method, target));
        assert_eq!(took.body, body);
        assert_eq!(took.headers["anthropic-beta"], "new-2027-01-01");
        assert_eq!(took.headers["x-unknown"].as_bytes(), "ü".as_bytes());
        assert!(!took.headers.contains_key("transfer-encoding"), "{method} {target}: {:?}", took.headers);
        let length = took.headers.get("content-length").map(|length| length.to_str().unwrap());
        let said = body.len().to_string();
        assert!(length == Some(&said) || body.is_empty(), "{method} {target}: {:?}", took.headers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_upstream_is_shown_the_dashboards_cookie() {
    let (echo, ground) = ground().await;
    for (sent, shown) in [
        ("longhaul_pass=secret", None),
        ("a=1; longhaul_pass=secret; b=2", Some("a=1; b=2")),
        ("Longhaul_Pass=secret;a=1", Some("a=1")),
        ("a=1; b=2", Some("a=1; b=2")),
    ] {
        let request = ground.http.get(format!("{}/v1/models", ground.url)).header("cookie", sent);
        assert_eq!(request.send().await.unwrap().status(), 200);
        let took = echo.last();
        assert_eq!(took.headers.get("cookie").map(|cookie| cookie.to_str().unwrap()), shown, "{sent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_elsewhere() {
    let (echo, ground) = ground().await;
    for (target, host) in [
        ("/v1/../../../etc/passwd", "localhost"),
        ("//evil.example/v1/models", "localhost"),
        ("/\\evil.example/x", "localhost"),
        ("/v1/%2e%2e/%2F%2Fevil.example", "localhost"),
        ("/@evil.example/", "localhost"),
        ("/:80@evil.example/?x=http://evil.example", "localhost"),
        ("http://evil.example/v1/models", "localhost"),
        ("http://user:password@evil.example/v1/models", "localhost"),
    ] {
        let before = echo.count();
        let mut socket = crate::raw::connect(&ground).await;
        let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut socket, request.as_bytes()).await.unwrap();
        let status = crate::raw::status(&mut socket).await;
        if status == 200 {
            assert_eq!(echo.count(), before + 1, "{target} went elsewhere");
            let took = echo.last();
            assert_eq!(took.headers["host"], echo.origin.trim_start_matches("http://"));
            assert!(took.target.starts_with("/v1/"), "{target} leaves what the address names: {}", took.target);
        } else {
            assert!((400..500).contains(&status), "{target}: {status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_connected_through() {
    let (echo, ground) = ground().await;
    let mut socket = crate::raw::connect(&ground).await;
    let request = "CONNECT evil.example:443 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut socket, request.as_bytes()).await.unwrap();
    let status = crate::raw::status(&mut socket).await;
    assert!((400..500).contains(&status) && echo.count() == 0, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn count_tokens_counts_what_would_be_sent() {
    let simulator = Simulator::start(Settings::window(16_000)).await;
    let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 16_000), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..20).for_each(|_| agent.step(60));
    let count = async |agent: &Agent| {
        let mut body = agent.body();
        body.as_object_mut().unwrap().remove("max_tokens");
        let response = ground.post_json("/v1/messages/count_tokens", &body).await;
        answer(response).await["input_tokens"].as_u64().unwrap()
    };
    let whole = count(&agent).await;
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!(header(&response, "x-longhaul-action"), "compacted");
    response.bytes().await.unwrap();
    let compacted = count(&agent).await;
    assert!(compacted < whole / 2, "{compacted} of {whole}");
    agent.says("/context");
    agent.messages.push(json!({"role": "assistant", "content": "[longhaul] 1 of 2 tokens"}));
    agent.messages.push(json!({"role": "user", "content": "go on"}));
    let later = count(&agent).await;
    assert!(later < whole / 2, "what was typed for us is not counted, and hides nothing: {later} of {whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn packed_bodies_go_on_packed_or_plain() {
    let (echo, ground) = ground().await;
    let mut plain = short(ApiFormat::Chat, "hi");
    plain["prompt_cache_key"] = json!("mine");
    let plain = plain.to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(plain.as_bytes()).unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(plain.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    for (encoding, packed) in [("gzip", gzip.finish().unwrap()), ("zstd", zstd)] {
        let post = async |packed: Vec<u8>| {
            let request = ground.http.post(format!("{}/v1/chat/completions", ground.url));
            request.header("content-encoding", encoding).body(packed).send().await.unwrap()
        };
        let response = post(packed.clone()).await;
        assert_eq!((response.status().as_u16(), header(&response, "x-longhaul-action")), (200, "none".into()));
        response.bytes().await.unwrap();
        let took = echo.last();
        assert_eq!(took.headers["content-encoding"], encoding);
        assert_eq!(took.body, packed, "what is left alone goes on as it came");
        let response = post(packed[..packed.len() - 9].to_vec()).await;
        assert_eq!(header(&response, "x-longhaul-action"), "bypassed:unreadable");
        assert_eq!(echo.last().body, packed[..packed.len() - 9]);
    }
    let without = short(ApiFormat::Chat, "hi").to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(without.as_bytes()).unwrap();
    let request = ground.http.post(format!("{}/v1/chat/completions", ground.url));
    let request = request.header("content-encoding", "gzip").body(gzip.finish().unwrap());
    assert_eq!(request.send().await.unwrap().status(), 200);
    let took = echo.last();
    let key = took.headers.get("content-encoding");
    let value: serde_json::Value = serde_json::from_slice(&took.body).expect("it is plain");
    assert!(key.is_none() && value["prompt_cache_key"].is_string(), "{value}");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_is_spoken() {
    let (echo, ground) = ground().await;
    let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let body = json!({"model": "gpt-5", "prompt_cache_key": "mine", "messages": [{"role": "user", "content": "hi"}]});
    let asked = (0..50).map(|_| {
        let request = http.post(format!("{}/v1/chat/completions", ground.url)).body(body.to_string()).send();
        tokio::spawn(async move { request.await.unwrap() })
    });
    for asked in asked.collect::<Vec<_>>() {
        let response = asked.await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, reqwest::Version::HTTP_2));
        assert_eq!(response.text().await.unwrap(), SAID);
    }
    assert_eq!(echo.count(), 50);
    assert_eq!(echo.last().body, body.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_an_upstream_does_nothing_on_the_dashboards_origin() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let hostile = async || {
        axum::http::Response::builder()
            .header("content-type", "text/html")
            .header("set-cookie", "longhaul_pass=stolen; Path=/")
            .header("set-cookie", "=longhaul_pass=stolen")
            .header("set-cookie", "LONGHAUL_theme=x")
            .header("set-cookie", "__cf_bm=theirs; Path=/")
            .header("content-security-policy", "default-src *")
            .header("clear-site-data", "\"*\"")
            .header("service-worker-allowed", "/")
            .header("strict-transport-security", "max-age=1")
            .header("alt-svc", "h2=\"evil.example:443\"")
            .header("refresh", "0; url=https://evil.example")
            .header("x-of-theirs", "1")
            .body("<script>fetch('/api/sessions')</script>".to_owned())
            .unwrap()
    };
    let router = axum::Router::new().fallback(hostile);
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&origin), &simulator).await;
    for (method, path) in [("GET", "/anything.html"), ("POST", "/v1/chat/completions"), ("POST", "/v1/other")] {
        let request = ground.http.request(method.parse().unwrap(), format!("{}{path}", ground.url));
        let response = request.body("{}").send().await.unwrap();
        assert_eq!(header(&response, "content-security-policy"), "sandbox; default-src 'none'", "{path}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header(&response, "x-of-theirs"), "1", "{path}");
        let cookies: Vec<_> = response.headers().get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["__cf_bm=theirs; Path=/"], "{path}");
        for gone in ["clear-site-data", "service-worker-allowed", "strict-transport-security", "alt-svc", "refresh"] {
            assert_eq!(header(&response, gone), "", "{path}: {gone}");
        }
    }
    serving.abort();
}
