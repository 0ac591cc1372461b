//! A gateway that is told to stop: nobody new is let in, what is open may end, and what was to be written is.

use std::time::{Duration, Instant};

use longhaul_engine::ApiFormat;
use longhaul_server::gateway::{GatewayLimits, GatewaySettings as Gateway};
use longhaul_server::store::{Durability, Store, StoreLocation};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::ground::{Agent, Folder, Ground, settings};
use crate::raw::{connect, events, path, read_until, sent, status, streamed};
use crate::simulator::{Delivery, Next, Pieces, Settings, Simulator};

const LONG: Duration = Duration::from_secs(20);

async fn ground(simulator: &Simulator, drain: Duration) -> Ground {
    let limits = GatewayLimits { drain_timeout: drain, ..GatewayLimits::default() };
    Ground::start(Gateway { limits, ..settings(&simulator.origin()) }, simulator).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_ends_and_nobody_new_comes() {
    let simulator = Simulator::start(Settings::default()).await;
    let mut ground = ground(&simulator, LONG).await;
    let slow = Delivery { pieces: Pieces::Bytes(100), pace: Duration::from_millis(150), ..Delivery::default() };
    simulator.next(Next::Delivers(slow));
    let api_format = ApiFormat::Messages;
    let mut open = sent(&ground, path(api_format), &streamed(api_format).to_string()).await;
    read_until(&mut open, b"\r\n\r\n").await;
    let mut asks = connect(&ground).await;
    asks.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    let mut idle = connect(&ground).await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(status(&mut idle).await, 200);
    let address = ground.url.trim_start_matches("http://").to_owned();
    let stopping = tokio::spawn(async move { ground.stop().await });
    let start = Instant::now();
    while TcpStream::connect(&address).await.is_ok() {
        assert!(start.elapsed() < LONG, "new connections are still taken");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    asks.write_all(b"\r\n").await.unwrap();
    assert_eq!(status(&mut asks).await, 503, "who still asks is told that it stops");
    let mut came = Vec::new();
    timeout(LONG, open.read_to_end(&mut came)).await.unwrap().unwrap();
    let came = String::from_utf8_lossy(&came);
    assert!(came.ends_with("0\r\n\r\n"), "the stream came to its own end: {came}");
    timeout(LONG, stopping).await.expect("it ends when the last stream has").unwrap();
    assert!(start.elapsed() < LONG, "nobody waited for the time to be over");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_in_time_is_cut() {
    let simulator = Simulator::start(Settings::default()).await;
    let mut ground = ground(&simulator, Duration::from_millis(300)).await;
    let endless = Delivery { pieces: Pieces::SplitAt(60), pace: Duration::from_mins(10), ..Delivery::default() };
    simulator.next(Next::Delivers(endless));
    let api_format = ApiFormat::Messages;
    let mut open = sent(&ground, path(api_format), &streamed(api_format).to_string()).await;
    read_until(&mut open, b"\r\n\r\n").await;
    timeout(LONG, ground.stop()).await.expect("it stops all the same");
    let mut came = Vec::new();
    let _ = timeout(LONG, open.read_to_end(&mut came)).await.expect("the stream is cut");
    assert!(!came.ends_with(b"0\r\n\r\n"), "it is not ended as if that were all");
    assert!(events(&came).iter().all(|event| !event.is_end(api_format)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_written_before_it_ends() {
    let simulator = Simulator::start(Settings::default()).await;
    let folder = Folder::new();
    let place = StoreLocation::File(folder.path().join("store.db"));
    let mut agent = Agent::new("claude-sonnet-4-5");
    for n in 1..4 {
        let store = Store::open(&place, Durability::Normal).await.unwrap();
        let mut ground = Ground::with_store(settings(&simulator.origin()), store, simulator.clock()).await;
        for _ in 0..2 {
            agent.step(5);
            let response = ground.post_json("/v1/messages", &agent.body()).await;
            response.bytes().await.unwrap();
        }
        ground.stop().await;
        let (sums, asked) = (ground.gateway.totals(), 2);
        assert_eq!(sums.requests, asked, "all of them are counted, in run {n}");
        assert_eq!(ground.store.check_integrity().await.unwrap(), [""; 0], "and nothing is missing in the store");
    }
}
