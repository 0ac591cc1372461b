//! A key is shown to nobody but the upstream that it is for.

use longhaul_engine::ApiFormat;
use longhaul_server::upstream::{ModelClient as _, Streaming};

use super::scripted::{Act, Server};
use super::{KEY, client, once, outcome, question, ways};

#[tokio::test]
async fn no_redirect_carries_a_key_elsewhere() {
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = Server::start([Act::says("stolen")]).await;
        let target = format!("{}/chat/completions", elsewhere.base_url());
        let server = Server::start([Act::answers(status, "").header("location", target.clone())]).await;
        let asked = question(&server.base_url(), ApiFormat::Chat, Streaming::Off, once());
        let trouble = client().ask(asked).await.unwrap_err();
        let said = "the provider redirects to another address, and the key is not sent there; set base_url: ";
        assert_eq!(trouble.to_string(), format!("{said}{target}"));
        assert!(server.asked()[0].header("authorization").is_some_and(|value| value.contains(KEY)));
        assert!(elsewhere.asked().is_empty(), "{status}");
    }
}

#[tokio::test]
async fn no_error_quotes_it() {
    for way in ways() {
        for act in [
            Act::error(way.0, 401, "authentication_error", &format!("Incorrect API key provided: {KEY}.")),
            Act::error(way.0, 400, "invalid_request_error", &format!("header x-api-key: {KEY}")),
            Act::error(way.0, 413, "request_too_large", KEY),
            Act::answers(404, format!("<html>{KEY}</html>")),
            Act::answers(200, format!("{KEY} is no answer")),
            Act::answers(200, format!("{{\"error\":{{\"code\":401,\"message\":\"no such key: {KEY}\"}}}}")),
            Act::answers(307, "").header("location", format!("http://127.0.0.1:1/?key={KEY}")),
        ] {
            let trouble = outcome(act, way, once()).await.unwrap_err();
            assert!(!format!("{trouble} {trouble:?}").contains(KEY), "{trouble:?}");
        }
    }
}

#[tokio::test]
async fn other_secrets_and_long_texts_are_kept_out_of_errors() {
    let secret = "AKIAQ7RZ2MTX5PWN3KVB";
    let long = format!("your request was {} {secret} {}", "very ".repeat(30), "long ".repeat(10_000));
    for way in ways() {
        let act = Act::error(way.0, 400, "invalid_request_error", &long);
        let shown = outcome(act, way, once()).await.unwrap_err().to_string();
        assert!(!shown.contains(secret) && shown.chars().count() < 400, "{shown}");
    }
}

#[test]
fn what_holds_it_can_be_printed() {
    let question = question("http://127.0.0.1:1", ApiFormat::Chat, Streaming::Off, once());
    let shown = format!("{question:?} {:?} {:?}", client(), question.upstream);
    assert!(!shown.contains(KEY), "{shown}");
}
