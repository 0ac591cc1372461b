//! How answers come: in which pieces, how late, how far, or not at all.

use std::io::Write;
use std::time::{Duration, Instant};

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{ask, open, path};
use crate::simulator::{Delivery, Ended, Next, Pieces, Settings, Simulator};

fn body(api_format: ApiFormat) -> Value {
    json!({ "model": "m", "stream": true, api_format.messages_field(): [{ "role": "user", "content": "hi" }] })
}

#[tokio::test]
async fn events_come_whole_or_in_pieces_and_say_the_same() {
    for api_format in ApiFormat::ALL {
        let simulator = Simulator::start(Settings::default()).await;
        let events = ask(&simulator, api_format, &body(api_format)).await;
        assert!(events.chunks.iter().all(|chunk| chunk.ends_with("\n\n") && chunk.matches("\n\n").count() == 1));
        simulator.deliver(Delivery { pieces: Pieces::Bytes(7), ..Delivery::default() });
        let pieces = ask(&simulator, api_format, &body(api_format)).await;
        let (last, before) = pieces.chunks.split_last().unwrap();
        assert!(before.iter().all(|chunk| chunk.len() == 7) && last.len() <= 7);
        assert_eq!(simulator.last().unwrap().reply, pieces.body());
        simulator.next(Next::Delivers(Delivery { pieces: Pieces::SplitAt(31), ..Delivery::default() }));
        let two = ask(&simulator, api_format, &body(api_format)).await;
        assert_eq!((two.chunks.len(), two.chunks[0].len(), two.whole), (2, 31, true));
    }
}

#[tokio::test]
async fn a_cut_stream_ends_without_its_end() {
    for api_format in ApiFormat::ALL {
        let simulator = Simulator::start(Settings::default()).await;
        for cut in [0, 1, 50, 200] {
            simulator.next(Next::Delivers(Delivery { cut: Some(cut), ..Delivery::default() }));
            let came = ask(&simulator, api_format, &body(api_format)).await;
            assert_eq!((came.body().len(), came.whole), (cut, false), "{api_format} at {cut}");
            let seen = simulator.last().unwrap();
            assert!(seen.reply.starts_with(came.body().as_bytes()) && seen.ended == Ended::Sent);
        }
    }
}

#[tokio::test]
async fn failures_come_as_they_are_told_to() {
    let simulator = Simulator::start(Settings::default()).await;
    for (status, kind) in
        [(429, "rate_limit_error"), (529, "overloaded_error"), (500, "api_error"), (413, "request_too_large")]
    {
        simulator.next(Next::Fails { status, headers: vec![("retry-after", "7".into())] });
        let came = ask(&simulator, ApiFormat::Messages, &body(ApiFormat::Messages)).await;
        assert_eq!((came.status, &came.json()["error"]["type"]), (status, &json!(kind)));
        assert!(came.head.contains("retry-after: 7"));
    }
    simulator.next(Next::fails(429));
    let came = ask(&simulator, ApiFormat::Chat, &body(ApiFormat::Chat)).await;
    assert_eq!(came.json()["error"]["code"], "rate_limit_exceeded");
    assert_eq!(ask(&simulator, ApiFormat::Chat, &body(ApiFormat::Chat)).await.status, 200, "and then it goes on");
    assert_eq!(simulator.refused().len(), 5);
}

#[tokio::test]
async fn an_answer_can_be_late() {
    let simulator = Simulator::start(Settings::default()).await;
    let late = Duration::from_millis(120);
    simulator.next(Next::Delivers(Delivery { after: late, ..Delivery::default() }));
    let start = Instant::now();
    ask(&simulator, ApiFormat::Chat, &body(ApiFormat::Chat)).await;
    assert!(start.elapsed() >= late);
}

#[tokio::test]
async fn who_leaves_before_the_end_is_noticed() {
    let simulator = Simulator::start(Settings::default()).await;
    let slow = Duration::from_mins(10);
    let before = Delivery { after: slow, ..Delivery::default() };
    let within = Delivery { pace: slow, ..Delivery::default() };
    for delivery in [before, within] {
        simulator.next(Next::Delivers(delivery));
        let text = body(ApiFormat::Chat).to_string();
        let mut socket = open(&simulator, path(ApiFormat::Chat), "x-api-key: a\r\n", &text).await;
        if delivery == within {
            socket.read_u8().await.unwrap();
        }
        let arrived = || simulator.last().is_some_and(|seen| seen.ended == Ended::Not);
        while !arrived() {
            tokio::task::yield_now().await;
        }
        drop(socket);
        while simulator.last().unwrap().ended != Ended::ClientLeft {
            tokio::task::yield_now().await;
        }
        simulator.take();
    }
}

#[tokio::test]
async fn packed_bodies_are_unpacked() {
    let simulator = Simulator::start(Settings::default()).await;
    let plain = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(plain.as_bytes()).unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(plain.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    for (name, packed) in [("gzip", gzip.finish().unwrap()), ("zstd", zstd)] {
        let lines = format!("x-api-key: a\r\ncontent-encoding: {name}\r\ncontent-length: {}\r\n", packed.len());
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{lines}\r\n");
        let origin = simulator.origin();
        let mut socket = tokio::net::TcpStream::connect(origin.trim_start_matches("http://")).await.unwrap();
        socket.write_all(&[head.as_bytes(), &packed].concat()).await.unwrap();
        let mut came = String::new();
        socket.read_to_string(&mut came).await.unwrap();
        let seen = simulator.last().unwrap();
        assert_eq!((seen.status, seen.text(), seen.header("content-encoding")), (200, plain.as_str(), Some(name)));
    }
}
