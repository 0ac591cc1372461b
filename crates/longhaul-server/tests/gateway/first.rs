//! What every request goes through: found, forwarded, answered; compacted where it is due, and replayed after that.

use serde_json::json;

use crate::ground::{Agent, Ground, answer, header, settings, with_window};
use crate::simulator::{Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";

#[tokio::test(flavor = "multi_thread")]
async fn a_session_grows_past_its_window_and_is_compacted_and_replayed() {
    let simulator = Simulator::start(Settings::window(16_000)).await;
    let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 16_000), &simulator).await;
    let mut agent = Agent::new(MODEL);
    // A shorter request belongs to no session yet.
    agent.step(60);
    let mut actions = Vec::new();
    for _ in 0..30 {
        agent.step(60);
        let response = ground.post_json("/v1/messages", &agent.body()).await;
        assert_eq!(response.status(), 200);
        actions.push(header(&response, "x-longhaul-action"));
        assert!(!header(&response, "x-longhaul-session").is_empty());
        let reply = answer(response).await;
        assert_eq!(reply["type"], "message");
    }
    let compactions = actions.iter().filter(|action| *action == "compacted").count();
    assert!((1..=6).contains(&compactions), "{actions:?}");
    assert!(actions.iter().any(|action| action == "replayed"), "{actions:?}");
    assert_eq!(simulator.refused().len(), 0);
    let tokens = simulator.tokens();
    assert!(tokens.share_of_unlimited() > 0.95, "{tokens:?} {actions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_compression_off_every_byte_passes() {
    let simulator = Simulator::start(Settings::default()).await;
    let off = longhaul_server::gateway::Switch::Off;
    let ground = Ground::start(
        longhaul_server::gateway::GatewaySettings { compression: off, ..settings(&simulator.origin()) },
        &simulator,
    )
    .await;
    let body = "{ \"model\" : \"gpt-5\",\n\"messages\": [ {\"role\":\"user\",\"content\":\"h\\u0069\"} ] }";
    let response = ground.post("/v1/chat/completions", body).await;
    assert_eq!((response.status().as_u16(), header(&response, "x-longhaul-action")), (200, "none".to_owned()));
    let reply = response.bytes().await.unwrap();
    let seen = simulator.last().unwrap();
    assert_eq!((seen.text(), &reply), (body, &seen.reply));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_answered_here_and_leave_no_trace() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 32_000), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..12).for_each(|_| agent.step(80));
    assert_eq!(ground.post_json("/v1/messages", &agent.body()).await.status(), 200);
    for (command, said) in [
        ("/context", "tokens"),
        ("/compress", "compacted:"),
        ("/undo", "undone: "),
        ("/recall mismatched types", "mismatched"),
    ] {
        agent.says(command);
        let reply = answer(ground.post_json("/v1/messages", &agent.body()).await).await;
        let text = reply["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with("[longhaul] ") && text.contains(said), "{command}: {text}");
        agent.messages.push(json!({"role": "assistant", "content": text}));
        agent.messages.push(json!({"role": "user", "content": "go on"}));
    }
    assert_eq!(simulator.seen().len(), 1, "none of them was billed");
    assert_eq!(ground.post_json("/v1/messages", &agent.body()).await.status(), 200);
    let seen = simulator.last().unwrap();
    assert!(!seen.text().contains("[longhaul]") && !seen.text().contains("/compress"), "{}", seen.text());
}
