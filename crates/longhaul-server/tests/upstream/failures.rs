//! Every failure ends in the trouble that tells what can be done about it.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::upstream::{
    ModelClient as _, RecommendedAction, Streaming, SummaryRequest, SummaryRequestBody, TimeoutStage, Timeouts,
    UpstreamError,
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::scripted::{Act, Server, Speech, TOO_LONG};
use super::{client, client_that_connects_in, once, outcome, question, upstream, ways};

/// The trouble by the name of its variant.
fn name(error: &UpstreamError) -> String {
    let shown = format!("{error:?}");
    shown.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn each_provider_words_too_long_in_its_own_way() {
    for way in ways() {
        for row in TOO_LONG {
            let trouble = outcome(Act::answers(row.status, row.body), way, once()).await.unwrap_err();
            let wanted = UpstreamError::TooLong { maximum: row.maximum.map(Tokens), sent: row.sent.map(Tokens) };
            assert_eq!(trouble, wanted, "{} {way:?}", row.by);
            assert_eq!(trouble.recommended_action(), RecommendedAction::Compress);
        }
    }
}

#[tokio::test]
async fn every_status_has_its_reaction() {
    for way in ways() {
        let error = |status, kind, message| Act::error(way.0, status, kind, message);
        let cases = [
            (error(429, "rate_limit_error", "slow down").header("retry-after", "7"), "RateLimited"),
            (error(529, "overloaded_error", "Overloaded"), "Overloaded"),
            (Act::answers(529, ""), "Overloaded"),
            (Act::answers(503, "{}"), "Overloaded"),
            (Act::answers(502, "<html><body>Bad Gateway</body></html>").typed("text/html"), "Overloaded"),
            (error(500, "api_error", "Internal server error"), "Overloaded"),
            (error(413, "request_too_large", "Request exceeds the maximum size"), "TooLarge"),
            (Act::answers(413, "<html>Request Entity Too Large</html>").typed("text/html"), "TooLarge"),
            (error(401, "authentication_error", "invalid x-api-key"), "Refused"),
            (error(403, "permission_error", "not yours"), "Refused"),
            (error(404, "not_found_error", "model: nobody"), "Refused"),
            (Act::answers(404, "<html>404</html>").typed("text/html"), "Refused"),
            (error(400, "invalid_request_error", "messages.0: use text"), "BadRequest"),
            (error(422, "invalid_request_error", "extra fields are not permitted"), "BadRequest"),
            (error(402, "billing_error", "no money"), "Refused"),
            (Act::answers(307, "").header("location", "http://127.0.0.1:1/elsewhere"), "Redirected"),
        ];
        for (act, wanted) in cases {
            let shown = format!("{way:?} {act:?}");
            let trouble = outcome(act, way, once()).await.unwrap_err();
            assert_eq!(name(&trouble), wanted, "{shown}");
            assert!(!trouble.to_string().contains('\n'), "{trouble}");
        }
    }
}

#[tokio::test]
async fn what_breaks_off_is_never_an_answer() {
    for way in ways() {
        let whole = if way.1 == Streaming::Off {
            Speech::new("hello").whole(way.0)
        } else {
            Speech::new("hello").events(way.0)
        };
        let cases = [
            ("hangs up", Act::hangs_up()),
            ("hangs up after the head", Act::says("hello").cut_at(0)),
            ("cut in the midst", Act::says("hello").cut_at(whole.len() / 2)),
            ("ends in the midst, as if it were all", Act::answers(200, &whole.as_bytes()[..whole.len() / 2])),
            ("nothing, as if it were all", Act::answers(200, "")),
        ];
        for (what, act) in cases {
            assert_eq!(outcome(act, way, once()).await, Err(UpstreamError::CutShort), "{what} {way:?}");
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_is_said_to_be_none() {
    for way in ways() {
        let cases = [
            (Act::answers(200, [0x1f, 0x8b, 0x08, 0xff, 0xfe, 0x00]), "the response is not a valid reply: "),
            (Act::answers(200, "<html>Log in</html>"), "the response is not a valid reply: <html>Log in</html>"),
            (Act::answers(200, "{\"broken\": nul}"), "the response is not a valid reply: {\"broken\": nul}"),
            (Act::answers(200, "[1, 2]"), "the response is not a valid reply: [1,2]"),
            (Act::answers(200, "data: {oops\n\n"), "the response is not a valid reply: {oops"),
        ];
        for (act, said) in cases {
            let trouble = outcome(act, way, once()).await.unwrap_err();
            assert!(trouble.to_string().starts_with(said), "{way:?}: {trouble}");
            assert_eq!(trouble.recommended_action(), RecommendedAction::AnotherModel);
        }
    }
}

#[tokio::test]
async fn an_error_in_the_place_of_an_answer_is_one() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let router = r#"{"error":{"message":"Provider returned error","code":502}}"#;
    let too_long = r#"{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}"#;
    for way in ways() {
        for (error, wanted) in [(overloaded, "Overloaded"), (router, "Overloaded"), (too_long, "TooLong")] {
            let trouble = outcome(Act::answers(200, error), way, once()).await.unwrap_err();
            assert_eq!(name(&trouble), wanted, "{way:?} {error}");
            // The same in the midst of a stream.
            let all = Speech::new("hello").events(way.0);
            let half = all[..all.len() / 2].rfind("\n\n").unwrap() + 2;
            let stream = format!("{}event: error\ndata: {error}\n\n", &all[..half]);
            let trouble = outcome(Act::answers(200, stream), way, once()).await.unwrap_err();
            assert_eq!(name(&trouble), wanted, "{way:?} {error} in a stream");
        }
    }
    let failed = r#"{"type":"response.failed","response":{"status":"failed","output":[],"error":{"code":"rate_limit_exceeded","message":"Please try again in 3s."}}}"#;
    let way = (ApiFormat::Responses, Streaming::On);
    let trouble = outcome(Act::answers(200, format!("data: {failed}\n\n")), way, once()).await;
    assert_eq!(trouble, Err(UpstreamError::RateLimited { delay: Some(Duration::from_secs(3)) }));
}

#[tokio::test]
async fn each_stage_has_its_own_time() {
    let (short, long) = (Duration::from_millis(80), Duration::from_secs(20));
    for way in ways() {
        let late = outcome(Act::says("hello").after(long), way, Timeouts { first_byte: short, ..once() }).await;
        assert_eq!(late, Err(UpstreamError::TimedOut(TimeoutStage::FirstByte)), "{way:?}");
        let slow = Act::says("hello").paced(40, long);
        let idle = outcome(slow.clone(), way, Timeouts { idle: short, ..once() }).await;
        assert_eq!(idle, Err(UpstreamError::TimedOut(TimeoutStage::Idle)), "{way:?}");
        let whole = outcome(slow, way, Timeouts { total: short, ..once() }).await;
        assert_eq!(whole, Err(UpstreamError::TimedOut(TimeoutStage::Total)), "{way:?}");
        // Slow, but never silent for too long.
        let steady = Act::says("hello").paced(100, Duration::from_millis(5));
        assert_eq!(outcome(steady, way, Timeouts { idle: 10 * short, ..once() }).await.unwrap().text, "hello");
    }
}

#[tokio::test]
async fn nobody_there_is_said_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    for (api_format, streaming) in ways() {
        let trouble = client().ask(question(&base_url, api_format, streaming, once())).await.unwrap_err();
        let shown = trouble.to_string();
        assert!(shown.starts_with("the provider cannot be reached: Connection refused"), "{shown}");
        assert_eq!(trouble.recommended_action(), RecommendedAction::AnotherModel);
    }
}

/// A server that takes no more connections lets the next one wait.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_has_its_time_too() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connection) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        waiting.push(connection);
    }
    let client = client_that_connects_in(Duration::from_millis(50));
    let asked = question(&format!("http://{address}/v1"), ApiFormat::Chat, Streaming::Off, once());
    assert_eq!(client.ask(asked).await, Err(UpstreamError::TimedOut(TimeoutStage::Connect)));
}

#[tokio::test]
async fn what_speaks_no_tls_is_not_reached_by_it() {
    let server = Server::start([]).await;
    let base_url = server.base_url().replace("http://", "https://");
    let asked = question(&base_url, ApiFormat::Chat, Streaming::Off, once());
    // The server waits for the end of a head that does not come.
    let impatient = Timeouts { first_byte: Duration::from_millis(300), ..asked.timeouts };
    let error = client().ask(SummaryRequest { timeouts: impatient, ..asked }).await.unwrap_err();
    assert!(
        matches!(error, UpstreamError::TimedOut(TimeoutStage::FirstByte) | UpstreamError::Unreachable(_)),
        "{error:?}"
    );
    assert!(server.asked().is_empty(), "nothing goes out in the clear");
}

#[tokio::test]
async fn a_dialect_that_the_provider_does_not_take_is_not_sent() {
    let server = Server::start([]).await;
    let upstream = Arc::new(upstream("anthropic", &server.base_url()));
    let asked = SummaryRequestBody::Raw { api_format: ApiFormat::Chat, body: "{}".into() };
    let question = SummaryRequest::new(upstream, asked, once());
    let error = client().ask(question).await.unwrap_err();
    assert_eq!(error.to_string(), "the provider denied access: provider `anthropic` does not accept chat requests");
    assert!(server.asked().is_empty());
}
