//! Whatever goes wrong with us, the client's own request goes through; whatever the provider says, the client hears it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_server::gateway::{GatewayLimits, GatewaySettings as Gateway};
use longhaul_server::session::{DefaultHost, Host};
use longhaul_server::store::{Durability, Store, StoreLocation};
use serde_json::json;

use crate::ground::{Agent, Folder, Ground, header, settings, with_window};
use crate::raw::{path, short};
use crate::simulator::{Delivery, Next, Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";

/// Sends a body that must go through as it came, and be said to, with a count.
async fn goes_through(simulator: &Simulator, ground: &Ground, api_format: ApiFormat, body: Vec<u8>, reason: &str) {
    let before = counted(ground, reason).await;
    let response = ground.post(path(api_format), body.clone()).await;
    assert_eq!(header(&response, "x-longhaul-action"), format!("bypassed:{reason}"));
    let status = response.status().as_u16();
    let reply = response.bytes().await.unwrap();
    let seen = simulator.last().unwrap();
    assert_eq!((status, &reply), (seen.status, &seen.reply), "{reason}");
    assert_eq!(seen.body, body, "{reason}");
    for _ in 0..200 {
        if counted(ground, reason).await > before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{reason} is not counted");
}

/// How many requests went through as they came, for this reason.
async fn counted(ground: &Ground, reason: &str) -> u64 {
    let page = ground.http.get(format!("{}/metrics", ground.url)).send().await.unwrap();
    let page = page.text().await.unwrap();
    let line = format!("longhaul_bypassed_total{{reason=\"{reason}\"}} ");
    page.lines().find_map(|row| row.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
}

/// A body that is due to be compacted, with a window for its model.
fn due() -> (Agent, impl Fn(&Simulator) -> Gateway) {
    let mut agent = Agent::new(MODEL);
    (0..20).for_each(|_| agent.step(60));
    (agent, |simulator: &Simulator| with_window(settings(&simulator.origin()), MODEL, 16_000))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_goes_through() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    for api_format in ApiFormat::ALL {
        let good = short(api_format, "hi").to_string();
        for body in [
            b"\xff\xfe".to_vec(),
            format!("{:4096}", "").into_bytes(),
            format!("{:4096}", "{ not json").into_bytes(),
            format!("{:4096}", "[]").into_bytes(),
            format!("{:4096}", "null").into_bytes(),
            good.as_bytes()[..good.len() - 1].to_vec(),
            "[".repeat(200_000).into_bytes(),
            format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)).into_bytes(),
        ] {
            goes_through(&simulator, &ground, api_format, body, "unreadable").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_has_passed_lets_it_through() {
    let simulator = Simulator::start(Settings::default()).await;
    let (agent, settings) = due();
    let limits = GatewayLimits { deadline: Duration::ZERO, ..GatewayLimits::default() };
    let ground = Ground::start(Gateway { limits, ..settings(&simulator) }, &simulator).await;
    let body = agent.body().to_string().into_bytes();
    goes_through(&simulator, &ground, ApiFormat::Messages, body, "deadline").await;
}

/// A host that fails in the worst way, for as long as it is told to.
struct Panics(AtomicBool);

impl Host for Panics {
    fn random_tag(&self) -> Option<String> {
        DefaultHost.random_tag()
    }

    fn report(&self, _line: &str) {
        assert!(!self.0.load(Ordering::SeqCst), "a panic, as the test wants it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_lets_it_through_and_the_session_goes_on_after_it() {
    let simulator = Simulator::start(Settings::default()).await;
    let (mut agent, settings) = due();
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let host = Arc::new(Panics(AtomicBool::new(true)));
    let ground = Ground::with_host(settings(&simulator), store, simulator.clock(), host.clone()).await;
    for _ in 0..3 {
        let body = agent.body().to_string().into_bytes();
        goes_through(&simulator, &ground, ApiFormat::Messages, body, "engine").await;
        agent.step(1);
    }
    host.0.store(false, Ordering::SeqCst);
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!(header(&response, "x-longhaul-action"), "compacted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_breaks_does_not_stop_a_session() {
    let simulator = Simulator::start(Settings::default()).await;
    let folder = Folder::new();
    let (mut agent, settings) = due();
    let place = StoreLocation::File(folder.path().join("store.db"));
    let store = Store::open(&place, Durability::Normal).await.unwrap();
    let ground = Ground::with_store(settings(&simulator), store, simulator.clock()).await;
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!(header(&response, "x-longhaul-action"), "compacted");
    response.bytes().await.unwrap();
    folder.break_store();
    agent.step(1);
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!((response.status().as_u16(), header(&response, "x-longhaul-action").as_str()), (200, "replayed"));
    assert!(header(&response, "x-longhaul-store").starts_with("unavailable: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_broken_from_the_start_does_not_stop_a_session() {
    let simulator = Simulator::start(Settings::default()).await;
    let folder = Folder::new();
    let place = StoreLocation::File(folder.path().join("store.db"));
    let store = Store::open(&place, Durability::Normal).await.unwrap();
    folder.break_store();
    let (agent, settings) = due();
    let ground = Ground::with_store(settings(&simulator), store, simulator.clock()).await;
    for api_format in ApiFormat::ALL {
        let response = ground.post(path(api_format), short(api_format, "hi").to_string()).await;
        assert_eq!((response.status().as_u16(), header(&response, "x-longhaul-action").as_str()), (200, "none"));
    }
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    let said = (header(&response, "x-longhaul-action"), header(&response, "x-longhaul-store"));
    assert_eq!((said.0.as_str(), said.1.starts_with("unavailable: ")), ("compacted", true), "{said:?}");
    let response = ground.post_json("/v1/messages/count_tokens", &json!({"model": MODEL, "messages": []})).await;
    assert_ne!(response.status(), 503, "{}", response.text().await.unwrap());
    let health = ground.http.get(format!("{}/healthz", ground.url)).send().await.unwrap();
    assert_eq!(health.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_rewrite_is_sent_as_it_came_and_not_tried_again() {
    let simulator = Simulator::start(Settings::default()).await;
    let (agent, _) = due();
    // Below the safety threshold, from which on another compaction is made whatever became of the last one.
    let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 24_000), &simulator).await;
    // With our tools, without them, without our breakpoints.
    (0..3).for_each(|_| simulator.next(Next::fails(400)));
    let original = agent.body().to_string();
    let response = ground.post("/v1/messages", original.clone()).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "x-longhaul-action")),
        (200, "bypassed:refused".to_owned())
    );
    response.bytes().await.unwrap();
    let seen = simulator.take();
    assert_eq!(seen.len(), 4);
    assert!(seen[..3].iter().all(|seen| seen.body.len() < original.len() / 2));
    assert_eq!(seen[3].text(), original);
    let response = ground.post("/v1/messages", original.clone()).await;
    assert_eq!(response.status(), 200);
    response.bytes().await.unwrap();
    let seen = simulator.take();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].body.len() >= original.len(), "the rewrite is not tried again");
}

/// How large the newest request was that the provider was sent, beside what the client sent.
async fn sent(simulator: &Simulator, ground: &Ground, agent: &Agent) -> (u16, String, usize) {
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    let (status, action) = (response.status().as_u16(), header(&response, "x-longhaul-action"));
    response.bytes().await.unwrap();
    (status, action, simulator.last().unwrap().body.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_of_the_client_takes_no_compaction_back() {
    let simulator = Simulator::start(Settings::default()).await;
    let (mut agent, settings) = due();
    let ground = Ground::start(settings(&simulator), &simulator).await;
    let mut compactions = 0;
    while compactions < 4 {
        let (status, action, _) = sent(&simulator, &ground, &agent).await;
        assert_eq!(status, 200);
        compactions += u32::from(action == "compacted");
        agent.step(60);
    }
    let (_, _, small) = sent(&simulator, &ground, &agent).await;
    let whole = agent.body().to_string().len();
    assert!(small < whole / 2, "{small} of {whole}");
    // A request that no provider takes, whatever is done with it: one that is compacted already, and one that is compacted now.
    for steps in [1, 60] {
        (0..steps).for_each(|_| agent.step(6));
        let right = agent.messages.clone();
        agent.messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_unknown", "content": "?"}]}));
        simulator.take();
        let (status, _, _) = sent(&simulator, &ground, &agent).await;
        assert_eq!(status, 400);
        let seen = simulator.take();
        let originals = seen.iter().filter(|seen| seen.body.len() > whole * 9 / 10).count();
        assert!(originals <= 1 && seen.len() <= 5, "{originals} originals of {} tries", seen.len());
        agent.messages = right;
        let (status, action, sent) = sent(&simulator, &ground, &agent).await;
        assert_eq!(status, 200);
        assert!(["replayed", "compacted"].contains(&action.as_str()), "{action}");
        assert!(sent < whole / 2, "a compaction was taken back: {sent} of {whole}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_is_accepted_once_the_status_says_so() {
    let simulator = Simulator::start(Settings::default()).await;
    let (mut agent, settings) = due();
    let ground = Ground::start(settings(&simulator), &simulator).await;
    // The reply to the compacted request breaks off, so that nobody reads its end.
    simulator.next(Next::Delivers(Delivery { cut: Some(40), ..Delivery::default() }));
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!(header(&response, "x-longhaul-action"), "compacted");
    let _ = response.bytes().await;
    agent.step(1);
    let whole = agent.body().to_string().len();
    simulator.take();
    (0..5).for_each(|_| simulator.next(Next::fails(400)));
    let (status, _, _) = sent(&simulator, &ground, &agent).await;
    assert_eq!(status, 400);
    assert!(simulator.take().iter().all(|seen| seen.body.len() < whole / 2), "the original is not tried");
    // What was left of the refusals is not used up.
    while sent(&simulator, &ground, &agent).await.0 == 400 {}
    assert!(simulator.last().unwrap().body.len() < whole / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_that_are_refused_are_taken_off_and_not_set_again() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..5).for_each(|_| agent.step(60));
    simulator.next(Next::fails(400));
    let original = agent.body().to_string();
    let response = ground.post("/v1/messages", original.clone()).await;
    assert_eq!(response.status(), 200);
    response.bytes().await.unwrap();
    let seen = simulator.take();
    assert!(seen[0].text().contains("cache_control"));
    assert_eq!(seen[1].text(), original);
    agent.step(1);
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!(response.status(), 200);
    response.bytes().await.unwrap();
    let seen = simulator.take();
    assert_eq!((seen.len(), seen[0].text().contains("cache_control")), (1, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_wrong_anyway_gets_the_providers_own_error() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..5).for_each(|_| agent.step(60));
    let mut wrong = agent.body();
    wrong["messages"].as_array_mut().unwrap().remove(1);
    let response = ground.post_json("/v1/messages", &wrong).await;
    assert_eq!(response.status(), 400);
    let said = response.bytes().await.unwrap();
    assert_eq!(said, simulator.last().unwrap().reply);
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!(response.status(), 200);
    assert!(simulator.last().unwrap().text().contains("cache_control"), "the marks were not what was wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_for_the_provider_is_compacted_and_sent_again() {
    for api_format in ApiFormat::ALL {
        let simulator = Simulator::start(Settings::window(16_000)).await;
        let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
        let body = match api_format {
            ApiFormat::Messages => {
                let mut agent = Agent::new(MODEL);
                (0..30).for_each(|_| agent.step(60));
                agent.body()
            }
            ApiFormat::Chat | ApiFormat::Responses => talk(api_format),
        };
        let response = ground.post_json(path(api_format), &body).await;
        let action = header(&response, "x-longhaul-action");
        let status = response.status().as_u16();
        let reply = response.bytes().await.unwrap();
        assert_eq!((status, action.as_str()), (200, "compacted"), "{}", String::from_utf8_lossy(&reply));
        let seen = simulator.seen();
        assert_eq!((seen.len(), seen[0].status, seen[1].status), (2, 400, 200), "{api_format}");
        assert_eq!(reply, seen[1].shown());
    }
}

/// A long talk with many outputs, in one of the other two dialects.
fn talk(api_format: ApiFormat) -> serde_json::Value {
    let mut list = vec![json!({"role": "user", "content": "Make the build green."})];
    for n in 0..20 {
        let output: String = (0..90).map(|line| format!("compiling unit {n}_{line} of the project\n")).collect();
        let (id, arguments) = (format!("call_{n}"), json!({"command": format!("make target{n}")}).to_string());
        if api_format == ApiFormat::Chat {
            let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}});
            list.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            list.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
        } else {
            list.push(json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": arguments}));
            list.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
        }
    }
    json!({"model": "gpt-5", api_format.messages_field(): list})
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_helps_the_client_hears_the_provider() {
    let simulator = Simulator::start(Settings::window(16_000)).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    for api_format in ApiFormat::ALL {
        let words = short(api_format, &" word".repeat(40_000));
        let response = ground.post_json(path(api_format), &words).await;
        assert_eq!(response.status(), 400);
        assert_eq!(response.bytes().await.unwrap(), simulator.last().unwrap().reply, "{api_format}");
        for status in [401, 403, 404, 413, 429, 500, 503, 529] {
            simulator.next(Next::Fails { status, headers: vec![("retry-after", "7".to_owned())] });
            let response = ground.post_json(path(api_format), &short(api_format, "hi")).await;
            assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (status, "7".to_owned()));
            assert!(header(&response, "request-id").starts_with("req_"));
            assert_eq!(response.bytes().await.unwrap(), simulator.last().unwrap().reply, "{api_format} {status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_is_not_there_is_an_error_of_the_dialect() {
    let simulator = Simulator::start(Settings::default()).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ground = Ground::start(settings(&format!("http://{nobody}")), &simulator).await;
    for api_format in ApiFormat::ALL {
        let response = ground.post_json(path(api_format), &short(api_format, "hi")).await;
        assert_eq!(response.status(), 502);
        let said = crate::ground::answer(response).await;
        assert!(said["error"]["message"].as_str().unwrap().contains("longhaul:"), "{said}");
    }
}
