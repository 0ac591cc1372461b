//! Very many requests at once: all are answered, and nobody else waits for them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use longhaul_engine::ApiFormat;
use longhaul_server::gateway::{GatewayLimits, GatewaySettings};
use longhaul_server::store::{Durability, Store, StoreLocation};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::echo::Echo;
use crate::ground::{Agent, Folder, Ground, header, settings};
use crate::raw::{connect, read_until, short, status};

const MODEL: &str = "claude-sonnet-4-5";
/// A run that gets stuck never ends; one that does not takes seconds, on a machine that is busy a few times that.
const NEVER: Duration = Duration::from_mins(2);
const AT_ONCE: usize = 800;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_hundred_counts_at_once_end_and_the_health_check_answers_meanwhile() {
    crate::raw::raise_descriptor_limit();
    let (echo, folder) = (Echo::start().await, Folder::new());
    let store = Store::open(&StoreLocation::File(folder.path().join("store.db")), Durability::Normal).await.unwrap();
    let ground = Ground::with_store(settings(&echo.origin), store, Arc::default()).await;
    let mut agent = Agent::new(MODEL);
    (0..20).for_each(|_| agent.step(40));
    let body = agent.body().to_string();
    let counts = join_all((0..AT_ONCE).map(|_| ground.post("/v1/messages/count_tokens", body.clone())));
    let counts = timeout(NEVER, counts);
    let health = async {
        for _ in 0..5 {
            let healthy = timeout(NEVER, ground.http.get(format!("{}/healthz", ground.url)).send()).await;
            assert_eq!(healthy.expect("the health check hangs").unwrap().status(), 200);
        }
    };
    let (counts, ()) = tokio::join!(counts, health);
    let counts = counts.expect("the gateway is stuck");
    assert!(counts.iter().all(|count| count.status() == 200));
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    assert!(threads < 200, "{threads} threads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_share_the_room_there_is_and_who_finds_none_is_told_to_try_again() {
    let echo = Echo::start().await;
    let limits = GatewayLimits { max_body_bytes: 1 << 20, max_total_body_bytes: 2 << 20, ..GatewayLimits::default() };
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let ground = Ground::with_store(GatewaySettings { limits, ..settings(&echo.origin) }, store, Arc::default()).await;
    // Two who announce a body each that fills the room, and send most of it.
    let head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048576\r\n\r\n";
    let mut senders = Vec::new();
    for _ in 0..2 {
        let mut socket = connect(&ground).await;
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&vec![b' '; 1 << 19]).await.unwrap();
        senders.push(socket);
    }
    let body = short(ApiFormat::Messages, "hi").to_string();
    let refused = loop {
        let response = ground.post("/v1/messages", body.clone()).await;
        // Until both are heard there is room.
        if response.status() != 200 {
            break response;
        }
    };
    assert_eq!(refused.status(), 503);
    assert_eq!(header(&refused, "retry-after"), "1");
    assert!(refused.text().await.unwrap().contains("try again"));
    drop(senders);
    let room = async { while ground.post("/v1/messages", body.clone()).await.status() != 200 {} };
    timeout(NEVER, room).await.expect("the room is never free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_packed_very_tightly_takes_no_more_room_than_there_is() {
    use std::io::Write as _;
    let echo = Echo::start().await;
    let limits = GatewayLimits { max_body_bytes: 8 << 20, max_total_body_bytes: 40 << 20, ..GatewayLimits::default() };
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let ground = Ground::with_store(GatewaySettings { limits, ..settings(&echo.origin) }, store, Arc::default()).await;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(short(ApiFormat::Messages, &" ".repeat(7 << 20)).to_string().as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let sent = (0..40).map(|_| {
        let request = ground.request("/v1/messages", gzip.clone());
        request.header("content-encoding", "gzip").send()
    });
    let responses = timeout(NEVER, join_all(sent)).await.expect("the gateway is stuck");
    let mut busy = 0;
    for response in responses {
        let response = response.unwrap();
        assert_eq!(response.status(), 200, "they go through as they came, or smaller");
        busy += usize::from(header(&response, "x-longhaul-action") == "bypassed:busy");
    }
    assert!((1..40).contains(&busy), "{busy} of 40 found no room");
    let socket = &mut connect(&ground).await;
    socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(status(socket).await, 200);
    read_until(socket, b"ok").await;
}
