//! Figures that are true: one size of a request wherever it is shown, and money against the same client without us.

use std::time::Duration;

use longhaul_engine::prices::{self, Dollars, Usage};
use longhaul_server::session::UNDO_PROMISE;
use serde_json::{Value, json};

use crate::ground::{Agent, Ground, answer, header, settings, with_window};
use crate::simulator::{Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";

/// The provider's own count of a request.
fn counted(reply: &Value) -> Usage {
    Usage::parse(&reply["usage"]).unwrap()
}

/// The numbers of a text, in their order.
fn numbers(text: &str) -> Vec<u64> {
    let plain = text.replace(',', "");
    plain.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// What is said in answer to a command, which leaves no trace in the history.
async fn ask(ground: &Ground, agent: &Agent, command: &str) -> String {
    let mut asks = agent.clone();
    asks.says(command);
    let reply = answer(ground.post_json("/v1/messages", &asks.body()).await).await;
    reply["content"][0]["text"].as_str().unwrap().to_owned()
}

#[track_caller]
fn agree(what: &str, shown: u64, provider: u64) {
    let off = shown.abs_diff(provider) as f64 / provider.max(1) as f64;
    assert!(off < 0.03, "{what} says {shown}, the provider {provider}");
}

#[tokio::test(flavor = "multi_thread")]
async fn context_preview_header_and_provider_agree_on_the_size_of_a_request() {
    let simulator = Simulator::start(Settings::window(64_000)).await;
    let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 64_000), &simulator).await;
    let mut agent = Agent::new(MODEL);
    for n in 0..60 {
        agent.step(60);
        let response = ground.post_json("/v1/messages", &agent.body()).await;
        let (tokens, action) = (header(&response, "x-longhaul-tokens"), header(&response, "x-longhaul-action"));
        let provider = counted(&answer(response).await).input.unwrap().number();
        simulator.pass(Duration::from_secs(5));
        // By then the provider has reported a few requests; the one that compacts is counted before it reports.
        if n < 3 || action == "compacted" {
            continue;
        }
        let [_, sent] = numbers(&tokens)[..] else { panic!("{tokens}") };
        agree("the header", sent, provider);
        if n % 7 == 0 {
            let said = ask(&ground, &agent, "/context").await;
            // The command stands behind a short reply, which is part of the history.
            agree("/context", numbers(&said)[0], provider);
            let said = ask(&ground, &agent, "/compress --preview").await;
            if let Some((_, sizes)) = said.split_once("compacted: ") {
                agree("the preview", numbers(sizes)[0], provider);
            }
        }
    }
    assert_eq!(simulator.refused().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_says_how_long_it_holds_and_keeps_its_word() {
    let simulator = Simulator::start(Settings::window(32_000)).await;
    let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 32_000), &simulator).await;
    let mut agent = Agent::new(MODEL);
    let mut action = String::new();
    while action != "compacted" {
        agent.step(60);
        let response = ground.post_json("/v1/messages", &agent.body()).await;
        action = header(&response, "x-longhaul-action");
        answer(response).await;
    }
    let said = ask(&ground, &agent, "/undo").await;
    assert!(said.contains(UNDO_PROMISE), "{said}");
    for n in 0..4 {
        agent.says(&format!("Go on with part {n}."));
        let response = ground.post_json("/v1/messages", &agent.body()).await;
        assert_eq!(header(&response, "x-longhaul-action"), "none", "somebody speaks, and it is still undone");
        answer(response).await;
    }
    let before = ground.gateway.totals().compactions;
    let said = ask(&ground, &agent, "/compress").await;
    assert!(said.contains("compacted:"), "{said}");
    assert_eq!(ground.gateway.totals().compactions, before + 1, "one that somebody typed counts, too");
}

/// The body of an agent that sets a breakpoint of its own at the end.
fn marked(agent: &Agent) -> Value {
    let mut body = agent.body();
    let last = body["messages"].as_array_mut().unwrap().last_mut().unwrap();
    last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_is_measured_against_the_same_client_without_us() {
    let price = prices::find(MODEL).unwrap().price;
    let bill = |usage: &Usage| usage.bill(&price).total();
    for has_marks in [true, false] {
        let (with, alone) = (Simulator::start(Settings::default()).await, Simulator::start(Settings::default()).await);
        let mut ground = Ground::start(with_window(settings(&with.origin()), MODEL, 24_000), &with).await;
        let mut agent = Agent::new(MODEL);
        (0..6).for_each(|_| agent.step(60));
        let (mut spent, mut without) = (Dollars::ZERO, Dollars::ZERO);
        let mut compactions = 0;
        for n in 0..40 {
            agent.step(60);
            let body = if has_marks { marked(&agent) } else { agent.body() };
            let response = ground.post_json("/v1/messages", &body).await;
            compactions += usize::from(header(&response, "x-longhaul-action") == "compacted");
            spent += bill(&counted(&answer(response).await));
            let direct = ground.http.post(format!("{}/v1/messages", alone.origin())).body(body.to_string());
            let direct = direct.header("content-type", "application/json").header("anthropic-version", "2023-06-01");
            without += bill(&counted(&answer(direct.header("x-api-key", "sk-direct").send().await.unwrap()).await));
            // There is a pause that outlasts the cache, for both.
            let pause = Duration::from_secs(if n == 20 { 900 } else { 20 });
            with.pass(pause);
            alone.pass(pause);
        }
        ground.stop().await;
        let sums = ground.gateway.totals();
        let (claimed, measured) = (sums.saved.unwrap(), without - spent);
        println!(
            "breakpoints of its own: {has_marks}; {compactions} compactions, claimed {claimed}, measured {measured}, spent {spent}"
        );
        assert!(compactions > 0);
        assert!((sums.spent.0 - spent.0).abs() < 0.01 * spent.0, "{} and {spent}", sums.spent);
        assert!(
            (claimed.0 - measured.0).abs() < 0.05 * without.0,
            "claimed {claimed}, measured {measured} of {without}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_which_only_another_version_has_a_price_is_not_billed() {
    let simulator = Simulator::start(Settings::default()).await;
    let long = "a line of the build that went well\n".repeat(300);
    for model in ["gpt-6.1-sol", "gpt-4o"] {
        let mut ground = Ground::start(settings(&simulator.origin()), &simulator).await;
        let body = json!({"model": model, "messages": [{"role": "user", "content": long}]});
        answer(ground.post_json("/v1/chat/completions", &body).await).await;
        ground.stop().await;
        let spent = ground.gateway.totals().spent;
        assert_eq!(spent == Dollars::ZERO, model == "gpt-6.1-sol", "{model}: {spent}");
    }
}
