//! PostgreSQL stops and starts again under gateways: requests go through meanwhile, and sessions go on after it.

use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_server::store::KeyLimits;
use reqwest::Method;

use crate::ground::{Agent, Ground, answer, header};
use crate::postgres;
use crate::shared::{becomes_written, gateway, is_whole, sessions};
use crate::simulator::{Settings, Simulator};
use crate::street::{MODELS, closed, eventually, holding, post, send};
use crate::worker::{MODEL, WINDOW};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_outlive_a_database_that_starts_again() {
    let Some((server, url)) = postgres::start().await else { return };
    let simulator = Simulator::start(Settings::window(WINDOW)).await;
    let grounds = [gateway(&url, &simulator).await, gateway(&url, &simulator).await];
    let mut agent = Agent::new(MODEL);
    (0..3).for_each(|_| agent.step(60));
    let mut turn = 0;
    let mut go_on = async |agent: &mut Agent| {
        agent.step(20);
        turn += 1;
        let response = grounds[turn % 2].post_json("/v1/messages", &agent.body()).await;
        assert_eq!(response.status(), 200);
        let said = (header(&response, "x-longhaul-session"), header(&response, "x-longhaul-action"));
        assert_eq!(answer(response).await["type"], "message");
        said
    };
    let (session, _) = go_on(&mut agent).await;
    for _ in 0..6 {
        assert_eq!(go_on(&mut agent).await.0, session);
    }
    is_whole(&url, &grounds[0].store, &agent).await;
    server.stop();
    for _ in 0..4 {
        go_on(&mut agent).await;
    }
    // Somebody who was never seen before is served as well, from memory.
    let stranger = [("x-api-key", "sk-of-a-stranger")];
    let response = post(&grounds[0], "/v1/messages", &stranger, agent.body().to_string()).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "x-longhaul-store").as_str()),
        (200, "unavailable: not answering")
    );
    assert!(!header(&response, "x-longhaul-action").starts_with("bypassed"));
    let health = send(&grounds[0], (Method::GET, "/healthz"), &[], "").await;
    assert_eq!(health.status(), 200);
    assert!(health.text().await.unwrap().contains("the store is unavailable"));
    server.start_again();
    let mut actions = Vec::new();
    for _ in 0..30 {
        let (after, action) = go_on(&mut agent).await;
        assert!(after == session || actions.len() < 2, "{after} is another session than {session}");
        actions.push(action);
    }
    assert!(actions.iter().any(|action| action == "compacted"), "{actions:?}");
    // Each gateway finds by a probe of its own that the store is back, and its next request writes all that was missed.
    // On a busy machine the store may time out once more, so the agent may have to go on more than once.
    for _ in 0..10 {
        for ground in &grounds {
            eventually("the store is found again", async || ground.store.health_error().is_none()).await;
        }
        go_on(&mut agent).await;
        if becomes_written(&grounds[0].store, &agent, Duration::from_secs(10)).await {
            break;
        }
    }
    assert_eq!(simulator.refused().len(), 0);
    is_whole(&url, &grounds[0].store, &agent).await;
    assert_eq!(sessions(&grounds[1].store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_store_a_closed_gateway_lets_in_whom_it_knows_and_nobody_else() {
    let Some((server, url)) = postgres::start().await else { return };
    let simulator = Simulator::start(Settings::default()).await;
    let settings = closed(holding(&simulator.origin(), "sk-held"));
    let ground = Ground::with_store(settings, postgres::store(&url).await, simulator.clock()).await;
    let add = async |name: &str| {
        let made = ground.store.add_key(name, name, KeyLimits::default(), Timestamp(0)).await.unwrap();
        made.reveal().to_owned()
    };
    let (cache, unseen, revoked) = (add("known").await, add("unseen").await, add("revoked").await);
    let (path, body) = MODELS[0];
    let status = async |key: &str| post(&ground, path, &[("x-longhaul-key", key)], body).await.status().as_u16();
    assert_eq!((status(&cache).await, status(&revoked).await), (200, 200));
    ground.store.revoke_key("revoked", Timestamp(1)).await.unwrap();
    simulator.pass(Duration::from_secs(6));
    assert_eq!(status(&revoked).await, 401);
    server.stop();
    simulator.pass(Duration::from_mins(1));
    assert_eq!(status(&cache).await, 200);
    for key in [&unseen, &revoked] {
        let response = post(&ground, path, &[("x-longhaul-key", key)], body).await;
        assert_eq!((response.status().as_u16(), header(&response, "retry-after").as_str()), (503, "5"));
        let said = response.text().await.unwrap();
        assert!(!said.contains("postgres") && !said.contains("127.0.0.1"), "{said}");
    }
    // What has not the shape of a key is none: the store is not asked, or it would be missed.
    for hostile in ["' OR '1'='1", "lh-' OR 1=1 --", "x", "lh-"] {
        assert_eq!(status(hostile).await, 401, "{hostile}");
    }
    simulator.pass(Duration::from_hours(12));
    assert_eq!(status(&cache).await, 503, "nobody is believed for ever");
    server.start_again();
    eventually("the store is asked again", async || status(&cache).await == 200).await;
}
