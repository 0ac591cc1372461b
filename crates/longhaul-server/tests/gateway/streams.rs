//! Streams in every cut and every piece: what arrived is handed on, and nobody but the provider says that an answer has ended.

use longhaul_engine::ApiFormat;
use serde_json::json;

use crate::ground::{Ground, settings};
use crate::raw::{Event, events, path, short, streamed};
use crate::simulator::{Delivery, Ended, Next, Pieces, Say, Settings, Simulator, says};

async fn ground() -> (Simulator, Ground) {
    let says = says(|_, _| Say::text("fä🦀").and_calls("bash", json!({"command": "ls"})));
    let simulator = Simulator::start(Settings { speaker: says, ..Settings::default() }).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    (simulator, ground)
}

/// Sends one request whose answer is delivered like this. What came, whether it ended as it should, and what was sent.
async fn one(
    (simulator, ground): &(Simulator, Ground),
    api_format: ApiFormat,
    delivery: Delivery,
) -> (Vec<u8>, bool, Vec<u8>) {
    simulator.take();
    simulator.next(Next::Delivers(delivery));
    let mut response = ground.post_json(path(api_format), &streamed(api_format)).await;
    assert_eq!(response.status(), 200);
    let mut came = Vec::new();
    let whole = loop {
        match response.chunk().await {
            Ok(Some(piece)) => came.extend_from_slice(&piece),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    (came, whole, simulator.last().unwrap().reply.to_vec())
}

async fn comes_through_in_any_pieces(api_format: ApiFormat) {
    let ground = ground().await;
    let deliver = |pieces| Delivery { pieces, ..Delivery::default() };
    let (_, _, reply) = one(&ground, api_format, Delivery::default()).await;
    let splits = (0..=reply.len()).map(Pieces::SplitAt);
    for pieces in splits.chain((1..20).map(Pieces::Bytes)) {
        let (came, whole, reply) = one(&ground, api_format, deliver(pieces)).await;
        assert!(whole && came == reply, "{pieces:?}: {}", String::from_utf8_lossy(&came));
        assert!(events(&came).last().unwrap().is_end(api_format));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_comes_through_in_any_pieces() {
    comes_through_in_any_pieces(ApiFormat::Chat).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_come_through_in_any_pieces() {
    comes_through_in_any_pieces(ApiFormat::Messages).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_come_through_in_any_pieces() {
    comes_through_in_any_pieces(ApiFormat::Responses).await;
}

/// How an answer breaks off.
#[derive(Clone, Copy)]
enum Break {
    /// Its connection does.
    Cut,
    /// It ends as if that were all.
    Ends,
}

async fn is_never_ended_for_the_provider(api_format: ApiFormat, how: Break) {
    let ground = ground().await;
    let (_, _, reply) = one(&ground, api_format, Delivery::default()).await;
    for at in 0..=reply.len() {
        let delivery = match how {
            Break::Cut => Delivery { cut: Some(at), ..Delivery::default() },
            Break::Ends => Delivery { ends: Some(at), ..Delivery::default() },
        };
        let (came, whole, reply) = one(&ground, api_format, delivery).await;
        let shown = || format!("{api_format} at {at}: {}", String::from_utf8_lossy(&came));
        assert!(whole, "the error is an event, and then the stream ends: {}", shown());
        assert!(came.starts_with(&reply[..at.min(reply.len())]), "{}", shown());
        let (arrived, seen) = (events(&reply[..at.min(reply.len())]), events(&came));
        assert!(seen.starts_with(&arrived), "{}", shown());
        let ended = arrived.last().is_some_and(|event| event.is_end(api_format));
        let ends = seen.iter().filter(|event| event.is_end(api_format)).count();
        assert_eq!(ends, usize::from(ended), "{}", shown());
        if ended {
            assert_eq!(came, reply[..at], "what has ended is left alone");
        } else if !(matches!(how, Break::Ends) && is_finished(&arrived)) {
            assert!(seen.last().is_some_and(|event| event.is_error(api_format)), "{}", shown());
        }
    }
}

/// Whether a model has said why it stopped: not every provider says more than that.
fn is_finished(events: &[Event]) -> bool {
    let reasons = ["\"finish_reason\":\"", "\"stop_reason\":\""];
    events.iter().any(|event| reasons.iter().any(|reason| event.data.contains(reason)))
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_that_is_cut_is_never_ended_for_the_provider() {
    is_never_ended_for_the_provider(ApiFormat::Chat, Break::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_cut_are_never_ended_for_the_provider() {
    is_never_ended_for_the_provider(ApiFormat::Messages, Break::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_are_cut_are_never_ended_for_the_provider() {
    is_never_ended_for_the_provider(ApiFormat::Responses, Break::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_too_early_is_told_as_an_error() {
    for api_format in ApiFormat::ALL {
        is_never_ended_for_the_provider(api_format, Break::Ends).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_are_cut_break_off_here_too() {
    let ground = ground().await;
    for api_format in ApiFormat::ALL {
        let good = short(api_format, "hi").to_string();
        let bad = good.replace("\"model\"", "\"modell\"");
        for body in [&good, &bad] {
            ground.0.next(Next::Delivers(Delivery::default()));
            let response = ground.1.post(path(api_format), body.clone()).await;
            let length = response.bytes().await.unwrap().len();
            for cut in (0..length).step_by(7) {
                ground.0.next(Next::Delivers(Delivery { cut: Some(cut), ..Delivery::default() }));
                // It may break before the head came, too.
                let came = match ground.1.request(path(api_format), body.clone()).send().await {
                    Ok(response) => response.bytes().await,
                    Err(error) => Err(error),
                };
                assert!(came.is_err(), "{api_format}, cut at {cut}: {came:?}");
                assert_eq!(ground.0.last().unwrap().ended, Ended::Sent);
            }
        }
    }
}
