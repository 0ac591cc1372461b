//! What anybody may take: time, bytes, connections. Who takes too much is told so in the dialect, and nobody else waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhaul_engine::ApiFormat;
use longhaul_server::gateway::{GatewayLimits, GatewaySettings as Gateway};
use longhaul_server::store::{Durability, Store, StoreLocation};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::echo::Echo;
use crate::ground::{Ground, answer, header, settings};
use crate::raw::{connect, events, path, read_until, request, sent, short, status, streamed};
use crate::simulator::{Delivery, Ended, Next, Pieces, Settings, Simulator};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

async fn ground(origin: &str, limits: GatewayLimits) -> Ground {
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    Ground::with_store(Gateway { limits, ..settings(origin) }, store, Arc::default()).await
}

/// An upstream that never stops talking. How many bytes of its answer it could get rid of.
async fn talker() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_until(&mut socket, b"\r\n\r\n").await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        socket.write_all(head).await.unwrap();
        let event = format!(": {}\n\n", "x".repeat(16_000));
        while socket.write_all(event.as_bytes()).await.is_ok() {
            count.fetch_add(event.len(), Ordering::SeqCst);
        }
    });
    (origin, written)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_slowly_slows_the_upstream_down() {
    let (origin, written) = talker().await;
    let ground = ground(&origin, GatewayLimits::default()).await;
    let mut socket = sent(&ground, path(ApiFormat::Chat), &streamed(ApiFormat::Chat).to_string()).await;
    read_until(&mut socket, b"\r\n\r\n").await;
    let mut before = usize::MAX;
    // What the system's own buffers take is taken soon; then nothing moves.
    while written.load(Ordering::SeqCst) != before {
        before = written.load(Ordering::SeqCst);
        sleep(SHORT).await;
        socket.read_u8().await.unwrap();
    }
    assert!(before < 24_000_000, "{before} bytes were taken from the upstream for a client that read a few");
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < before {
        read += timeout(LONG, socket.read(&mut buffer)).await.expect("it goes on").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_slowly_is_let_go() {
    let echo = Echo::start().await;
    let limits = GatewayLimits { head_timeout: SHORT, piece_timeout: SHORT, ..GatewayLimits::default() };
    let ground = ground(&echo.origin, limits).await;
    let whole = request(path(ApiFormat::Messages), &short(ApiFormat::Messages, "hi").to_string());
    // Nothing at all, what could become HTTP/2, a part of a head: the connection ends.
    for begun in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &whole[..40]] {
        let mut socket = connect(&ground).await;
        socket.write_all(begun.as_bytes()).await.unwrap();
        let mut came = Vec::new();
        let ended = timeout(LONG, socket.read_to_end(&mut came)).await;
        assert!(ended.is_ok(), "{begun:?} may stay for ever");
    }
    // A part of a body: that is said.
    let mut socket = connect(&ground).await;
    socket.write_all(&whole.as_bytes()[..whole.len() - 5]).await.unwrap();
    assert_eq!(timeout(LONG, status(&mut socket)).await.unwrap(), 408);
    assert_eq!(echo.count(), 0);
    // And a connection that was used, and is not any more.
    let mut socket = connect(&ground).await;
    socket.write_all(whole.as_bytes()).await.unwrap();
    assert_eq!(status(&mut socket).await, 200);
    let mut came = Vec::new();
    timeout(LONG, socket.read_to_end(&mut came)).await.expect("it may stay for ever").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_stands_still_is_left() {
    let simulator = Simulator::start(Settings::default()).await;
    let limits = GatewayLimits { idle_timeout: SHORT, ..GatewayLimits::default() };
    let ground = ground(&simulator.origin(), limits).await;
    let still = Delivery { pieces: Pieces::SplitAt(60), pace: 100 * LONG, ..Delivery::default() };
    for api_format in ApiFormat::ALL {
        simulator.next(Next::Delivers(still));
        let response = ground.post_json(path(api_format), &streamed(api_format)).await;
        let came = timeout(LONG, response.bytes()).await.unwrap().unwrap();
        assert!(events(&came).last().unwrap().is_error(api_format), "{}", String::from_utf8_lossy(&came));
        while simulator.last().unwrap().ended != Ended::ClientLeft {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_late_is_not_cut_off_for_it() {
    let (origin, _) = talker().await;
    let limits = GatewayLimits { idle_timeout: Duration::from_millis(1500), ..GatewayLimits::default() };
    let ground = ground(&origin, limits).await;
    let mut socket = sent(&ground, path(ApiFormat::Chat), &streamed(ApiFormat::Chat).to_string()).await;
    read_until(&mut socket, b"\r\n\r\n").await;
    sleep(2 * limits.idle_timeout).await;
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < 50_000_000 {
        let more = timeout(LONG, socket.read(&mut buffer)).await.unwrap().unwrap();
        assert!(more > 0, "it was cut off after {read} bytes");
        read += more;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_connections_are_in_nobodys_way() {
    let echo = Echo::start().await;
    let ground = ground(&echo.origin, GatewayLimits::default()).await;
    let mut idle = Vec::new();
    for n in 0..1_000 {
        let mut socket = connect(&ground).await;
        // Some said nothing yet, some a part of a head, some have had an answer.
        match n % 3 {
            0 => {}
            1 => socket.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: lo").await.unwrap(),
            _ => {
                socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
                assert_eq!(status(&mut socket).await, 200);
            }
        }
        idle.push(socket);
    }
    let start = Instant::now();
    for _ in 0..20 {
        let response = ground.post_json(path(ApiFormat::Chat), &short(ApiFormat::Chat, "hi")).await;
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap();
    }
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_over_the_limit_wait_for_their_turn() {
    let echo = Echo::start().await;
    let ground = ground(&echo.origin, GatewayLimits { max_connections: 2, ..GatewayLimits::default() }).await;
    let held = [connect(&ground).await, connect(&ground).await];
    let mut third = sent(&ground, path(ApiFormat::Chat), &short(ApiFormat::Chat, "hi").to_string()).await;
    assert!(timeout(SHORT, third.read_u8()).await.is_err(), "it has to wait");
    drop(held);
    assert_eq!(timeout(LONG, status(&mut third)).await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_may_be_large_but_not_larger_than_that() {
    let echo = Echo::start().await;
    let limits =
        GatewayLimits { max_body_bytes: 33_000_000, deadline: Duration::from_mins(1), ..GatewayLimits::default() };
    let ground = ground(&echo.origin, limits).await;
    for api_format in ApiFormat::ALL {
        let mut body = short(api_format, &"word ".repeat(6_400_000));
        if api_format != ApiFormat::Messages {
            body["prompt_cache_key"] = "mine".into();
        }
        let body = body.to_string();
        assert!(body.len() > 32_000_000);
        let response = ground.post(path(api_format), body.clone()).await;
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        assert!(echo.last().body.len() >= body.len(), "{}", header(&response, "x-longhaul-action"));
        response.bytes().await.unwrap();
        let before = echo.count();
        let response = ground.post(path(api_format), format!("{body}{}", " ".repeat(1_000_000))).await;
        assert_eq!((response.status().as_u16(), echo.count()), (413, before));
        let said = answer(response).await;
        assert_eq!(said["error"]["type"], "request_too_large");
        assert_eq!(said["type"] == "error", api_format == ApiFormat::Messages);
    }
}
