//! What a model says is what is read, in every dialect, whole and as events.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::upstream::{
    ApiRequest, FinishReason, ModelClient as _, ModelReply, RetryPolicy, Streaming, SummaryRequest, SummaryRequestBody,
    Timeouts, prompt_request_body,
};

use super::scripted::{Act, Ending, Line, Script, Server, Speech};
use super::{client, once, outcome, question, small, upstream, ways};

const USED: Usage = Usage {
    input: Some(Tokens(120)),
    read: Some(Tokens(100)),
    written: None,
    written_1h: None,
    output: Some(Tokens(7)),
};

fn finish(ending: Ending) -> FinishReason {
    match ending {
        Ending::Done => FinishReason::Complete,
        Ending::Length => FinishReason::Truncated,
        Ending::Refusal => FinishReason::Refused,
        Ending::ToolCall => FinishReason::ToolCall,
    }
}

#[tokio::test]
async fn every_ending_is_told_with_the_text_the_usage_and_the_model() {
    for way in ways() {
        for ending in Ending::ALL {
            let reply = outcome(Act::speaks(Speech::new("All is well.").ending(ending)), way, once()).await.unwrap();
            // One dialect tells that nothing was written to the cache; the others do not say.
            let usage = reply.usage.map(|usage| Usage { written: None, ..usage });
            assert_eq!(usage, Some(USED), "{way:?} {ending:?}");
            let wanted = ModelReply {
                text: "All is well.".into(),
                usage: reply.usage,
                finish: finish(ending),
                model: Some("scripted-1".into()),
            };
            assert_eq!(reply, wanted, "{way:?} {ending:?}");
        }
    }
}

#[tokio::test]
async fn an_empty_text_is_an_answer_for_the_reader_to_judge() {
    for way in ways() {
        let reply = outcome(Act::says(""), way, once()).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("", FinishReason::Complete), "{way:?}");
    }
}

#[tokio::test]
async fn what_the_head_says_about_the_body_does_not_matter() {
    for way in ways() {
        for kind in ["text/plain", "text/html", "application/octet-stream"] {
            let reply = outcome(Act::says("hello").typed(kind), way, once()).await.unwrap();
            assert_eq!((reply.text.as_str(), reply.finish), ("hello", FinishReason::Complete), "{way:?} {kind}");
        }
    }
}

#[tokio::test]
async fn pieces_of_three_bytes_give_the_same_text() {
    for way in ways() {
        let reply = outcome(Act::says("Grüße aus 東京 🎉").paced(3, Duration::ZERO), way, once()).await.unwrap();
        assert_eq!(reply.text, "Grüße aus 東京 🎉", "{way:?}");
    }
}

#[tokio::test]
async fn a_small_question_goes_to_the_providers_path_in_its_dialect() {
    for (provider, path, header) in [
        ("anthropic", "/v1/messages", "x-api-key"),
        ("openai", "/v1/responses", "authorization"),
        ("openrouter", "/v1/chat/completions", "authorization"),
    ] {
        let server = Server::start([Act::says("hello")]).await;
        let upstream = Arc::new(upstream(provider, &server.base_url()));
        let question =
            SummaryRequest::new(Arc::clone(&upstream), SummaryRequestBody::FromPrompt(small(Streaming::On)), once());
        assert_eq!(client().ask(question).await.unwrap().text, "hello", "{provider}");
        let asked = &server.asked()[0];
        assert_eq!(asked.path, path);
        assert!(asked.header(header).is_some_and(|value| value.ends_with(super::KEY)), "{provider}");
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert_eq!(
            asked.body,
            prompt_request_body(upstream.provider(), upstream.provider().default_api_format(), &small(Streaming::On))
        );
    }
}

#[tokio::test]
async fn a_body_is_sent_byte_for_byte() {
    let body = "{ \"model\" : \"m\",\n \"messages\":[{\"role\":\"user\",\"content\":\"\\u00e4 ä\"}] }";
    let server = Server::start([Act::says("hello")]).await;
    let upstream = Arc::new(upstream("compatible", &server.base_url()));
    let asked = SummaryRequestBody::Raw { api_format: ApiFormat::Chat, body: body.to_owned() };
    client().ask(SummaryRequest::new(upstream, asked, once())).await.unwrap();
    assert_eq!(server.asked()[0].body, body);
}

#[tokio::test]
async fn what_is_handed_through_is_what_came_an_error_too() {
    let error = r#"{"error":{"message":"no"}}"#;
    let acts = [Act::says("hello").paced(10, Duration::ZERO), Act::answers(400, error).header("x-request-id", "7")];
    let server = Server::start(acts).await;
    let upstream = upstream("compatible", &server.base_url());
    let body = prompt_request_body(upstream.provider(), ApiFormat::Chat, &small(Streaming::On));
    let call = ApiRequest { api_format: ApiFormat::Chat, body: body.into() };
    let client = client();

    let mut good = client.send(&upstream, &call, &once()).await.unwrap();
    assert_eq!((good.status, &good.error), (200, &None));
    let mut bytes = Vec::new();
    while let Some(piece) = good.body.next().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), Speech::new("hello").events(ApiFormat::Chat));

    let mut bad = client.send(&upstream, &call, &once()).await.unwrap();
    assert_eq!((bad.status, bad.headers["x-request-id"].to_str().unwrap()), (400, "7"));
    assert_eq!(bad.error.unwrap().to_string(), "the provider rejected the request: no");
    assert_eq!(bad.body.next().await.unwrap().as_deref(), Some(error.as_bytes()));
    assert_eq!(bad.body.next().await.unwrap(), None);
}

/// With a stopped clock an hour takes no time, and nothing is waited for beyond the patience.
#[tokio::test(start_paused = true)]
async fn the_script_without_a_socket_keeps_to_the_clock() {
    let hour = Duration::from_hours(1);
    let script = Script::new([Line::says("late").after(hour), Line::says("never").after(hour)]);
    let ask = |whole| {
        let timeouts = Timeouts { retry_policy: RetryPolicy::NONE, ..Timeouts::with_total(whole) };
        script.ask(question("http://127.0.0.1:1", ApiFormat::Chat, Streaming::Off, timeouts))
    };
    let started = tokio::time::Instant::now();
    assert_eq!(ask(2 * hour).await.unwrap().text, "late");
    assert_eq!(started.elapsed(), hour);
    assert_eq!(ask(hour / 2).await.unwrap_err().to_string(), "the reply took longer than the total time limit");
    assert_eq!(started.elapsed(), hour + hour / 2);
    assert_eq!(ask(hour).await.unwrap_err().to_string(), "the provider denied access: the script is over");
    assert_eq!(script.asked().len(), 3);
}
