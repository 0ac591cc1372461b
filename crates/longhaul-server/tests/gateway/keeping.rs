//! What is about to lapse is read again where that is switched on and pays, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::prices::Dollars;
use longhaul_server::gateway::{self, CacheKeepAlive, Upstreams};
use longhaul_server::upstream::{ApiKey, Provider, Upstream};

use crate::ground::{Agent, Ground, settings};
use crate::simulator::{Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";

/// Settings of a gateway that pays, and may spend so much a day.
fn paying(origin: &str, a_day: f64) -> gateway::GatewaySettings {
    let key = ApiKey::new("sk-of-the-gateway");
    let messages = Upstream::new(Provider::named("anthropic").unwrap(), Some(origin), key).unwrap();
    let settings = settings(origin);
    let upstreams = Upstreams { messages: Arc::new(messages), ..settings.upstreams.clone() };
    gateway::GatewaySettings { upstreams, keep_alive: Some(CacheKeepAlive { max_per_day: Dollars(a_day) }), ..settings }
}

/// A request of a client that leaves the paying to the gateway.
async fn ask(ground: &Ground, agent: &Agent) -> u16 {
    let request = ground.http.post(format!("{}/v1/messages", ground.url)).header("anthropic-version", "2023-06-01");
    let response = request.body(agent.body().to_string()).send().await.unwrap();
    let status = response.status().as_u16();
    response.bytes().await.unwrap();
    status
}

/// A session whose requests come six minutes apart, which is a minute too late for the cache.
async fn rests(ground: &Ground, simulator: &Simulator) -> Agent {
    let mut agent = Agent::new(MODEL);
    (0..20).for_each(|_| agent.step(40));
    for _ in 0..6 {
        agent.step(4);
        assert_eq!(ask(ground, &agent).await, 200);
        simulator.pass(Duration::from_mins(6));
    }
    agent.step(4);
    assert_eq!(ask(ground, &agent).await, 200);
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_comes_back_too_late_is_kept_warm() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(paying(&simulator.origin(), 1.0), &simulator).await;
    let mut agent = rests(&ground, &simulator).await;
    assert_eq!(ground.gateway.refresh_expiring_caches().await, 0, "it is warm yet");
    simulator.pass(Duration::from_secs(270));
    // What the last request came to may still be on its way into the store.
    let mut kept = 0;
    for _ in 0..100 {
        kept += ground.gateway.refresh_expiring_caches().await;
        if kept > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(kept, 1);
    let own = simulator.last().unwrap();
    assert_eq!((own.value()["max_tokens"].as_u64(), own.status), (Some(1), 200), "{}", own.text());
    assert!(own.tokens.unwrap().read > 1_000, "{:?}", own.tokens);
    assert_eq!(ground.gateway.refresh_expiring_caches().await, 0, "once is enough");
    simulator.pass(Duration::from_secs(90));
    agent.step(4);
    assert_eq!(ask(&ground, &agent).await, 200);
    let tokens = simulator.last().unwrap().tokens.unwrap();
    assert!(tokens.read > tokens.total * 9 / 10, "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_has_its_limit_and_nothing_is_done_unasked() {
    let simulator = Simulator::start(Settings::default()).await;
    let off = gateway::GatewaySettings { keep_alive: None, ..paying(&simulator.origin(), 1.0) };
    for settings in [paying(&simulator.origin(), 0.0), off] {
        let ground = Ground::start(settings, &simulator).await;
        rests(&ground, &simulator).await;
        simulator.pass(Duration::from_secs(270));
        assert_eq!(ground.gateway.refresh_expiring_caches().await, 0);
    }
}
