//! Models that reach back: their calls are answered here, and no client sees anything of them.

use longhaul_engine::ApiFormat;
use longhaul_server::gateway::RecallMode;
use serde_json::{Value, json};

use crate::agent::{Agent, Form, every_form};
use crate::ground::{Ground, answer, header, settings, with_window};
use crate::simulator::{Delivery, Next, Pieces, Say, Settings, Simulator, says};

const WINDOW: u64 = 16_000;
const QUESTION: &str = "What was wrong in step 1? Look it up.";

/// The newest thing that a request says, as text.
fn newest(request: &Value) -> String {
    let list = request["messages"].as_array().or_else(|| request["input"].as_array());
    list.and_then(|list| list.last()).map(Value::to_string).unwrap_or_default()
}

fn offers_recall(request: &Value) -> bool {
    request["tools"].to_string().contains("recall_search")
}

/// The handle of the first hit of a search.
fn handle(text: &str) -> &str {
    text.split("1. ").nth(1).and_then(|hit| hit.split(':').next()).unwrap_or_default()
}

/// A model that looks something up when it is asked to, in two calls, and then goes on.
fn curious() -> Settings {
    let speaker = says(|request, number| {
        let newest = newest(request);
        if newest.contains(QUESTION) && offers_recall(request) {
            Say::text("Let me look.")
                .thinking("I do not have it.")
                .and_calls("recall_search", json!({"query": "mismatched types in step 1"}))
        } else if newest.contains("recall_open reads") {
            Say::call("recall_open", json!({"recall_id": handle(&newest)})).thinking("There it is.")
        } else if newest.contains("mismatched types in step 1") {
            Say::text("The types were mismatched.").thinking("Now I know.")
        } else {
            Say::text(format!("ok {number}"))
        }
    });
    Settings { speaker, ..Settings::window(WINDOW) }
}

fn gateway_settings(
    simulator: &Simulator,
    agent: &Agent,
    recall: RecallMode,
) -> longhaul_server::gateway::GatewaySettings {
    let mut settings = settings(&simulator.origin());
    settings.recall = recall;
    with_window(settings, agent.model(), WINDOW)
}

/// A session that was compacted.
async fn compacted(simulator: &Simulator, form: Form, recall: RecallMode) -> (Ground, Agent) {
    let mut agent = Agent::new(form);
    let ground = Ground::start(gateway_settings(simulator, &agent, recall), simulator).await;
    for _ in 0..40 {
        agent.step(60);
        let response = ground.post_json(agent.path(), &agent.body()).await;
        let action = header(&response, "x-longhaul-action");
        let (status, reply) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, 200, "{reply}");
        if action == "compacted" {
            return (ground, agent);
        }
    }
    panic!("nothing was compacted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_reaches_back_and_the_client_sees_only_what_it_says() {
    for form in every_form() {
        let simulator = Simulator::start(curious()).await;
        let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        simulator.take();
        let response = ground.post_json(agent.path(), &agent.body()).await;
        assert_eq!(response.status(), 200, "{form:?}");
        let bytes = response.bytes().await.unwrap();
        let reply = String::from_utf8_lossy(&bytes);
        assert!(!reply.contains("recall_"), "{form:?}: {reply}");
        let said = agent.hears(&bytes);
        assert_eq!(said.calls, 0, "{form:?}: {reply}");
        let parted = match form.dialect {
            // Each item is a message of its own.
            ApiFormat::Responses => "Let me look.The types were mismatched.",
            ApiFormat::Chat | ApiFormat::Messages => "Let me look.\n\nThe types were mismatched.",
        };
        assert_eq!(said.text, parted, "{form:?}: {reply}");
        let seen = simulator.take();
        assert_eq!(seen.len(), 3, "{form:?}: {:?}", seen.iter().map(|seen| newest(&seen.value())).collect::<Vec<_>>());
        let first = seen[0].tokens.unwrap();
        assert_eq!(said.input, Some(first.total), "{form:?}: what the client is told is its own request");
        // What was fetched is still there when the session goes on, and the provider still has it.
        agent.says("And now go on.");
        let response = ground.post_json(agent.path(), &agent.body()).await;
        assert!(!agent.hears(&response.bytes().await.unwrap()).text.contains("recall_"), "{form:?}");
        let next = simulator.last().unwrap();
        assert!(next.text().contains("recall_open") && next.text().contains("mismatched types in step 1"), "{form:?}");
        let (before, now) = (seen[2].tokens.unwrap(), next.tokens.unwrap());
        assert!(now.unlimited + 200 > before.total, "{form:?}: {before:?} {now:?}");
        assert_eq!(simulator.refused().len(), 0, "{form:?}");
        assert!(agent.history.iter().all(|message| !message.to_string().contains("recall_")), "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_recalled_is_sent_again_by_a_gateway_that_was_restarted() {
    for form in every_form() {
        let simulator = Simulator::start(curious()).await;
        let (mut ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        simulator.take();
        let response = ground.post_json(agent.path(), &agent.body()).await;
        agent.hears(&response.bytes().await.unwrap());
        let before = simulator.last().unwrap();
        ground.stop().await;
        let settings = gateway_settings(&simulator, &agent, RecallMode::Auto);
        let ground = Ground::with_store(settings, ground.store.clone(), simulator.clock()).await;
        for turn in ["And now go on.", "And on."] {
            agent.says(turn);
            let response = ground.post_json(agent.path(), &agent.body()).await;
            agent.hears(&response.bytes().await.unwrap());
            let next = simulator.last().unwrap();
            assert!(
                next.text().contains("recall_open") && next.text().contains("mismatched types in step 1"),
                "{form:?}: {}",
                next.text()
            );
            // The provider still has all of it but for what is new.
            let (before, now) = (before.tokens.unwrap(), next.tokens.unwrap());
            assert!(now.unlimited + 200 > before.total, "{form:?}: {before:?} {now:?}");
        }
        assert_eq!(simulator.refused().len(), 0, "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_recalled_is_not_written_with_a_secret_in_it() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    for (thought, rows) in [("Nothing new.".to_owned(), 1), (format!("The key is {secret}."), 0)] {
        let speaker = says(move |request, number| {
            let newest = newest(request);
            if newest.contains(QUESTION) && offers_recall(request) {
                Say::call("recall_outline", json!({})).thinking(thought.clone())
            } else {
                Say::text(format!("ok {number}"))
            }
        });
        let simulator = Simulator::start(Settings { speaker, ..Settings::window(WINDOW) }).await;
        let form = every_form().find(|form| form.dialect == ApiFormat::Messages).unwrap();
        let (mut ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        let response = ground.post_json(agent.path(), &agent.body()).await;
        agent.hears(&response.bytes().await.unwrap());
        ground.stop().await;
        agent.says("And now go on.");
        let settings = gateway_settings(&simulator, &agent, RecallMode::Auto);
        let ground = Ground::with_store(settings, ground.store.clone(), simulator.clock()).await;
        assert_eq!(ground.post_json(agent.path(), &agent.body()).await.status(), 200);
        let sent = simulator.last().unwrap();
        assert_eq!(sent.text().matches("\"recall_outline\",\"input\"").count(), rows, "{}", sent.text());
        assert_eq!(simulator.refused().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_pieces_end_the_same_is_seen() {
    for form in every_form().filter(|form| form.is_stream) {
        let mut replies = Vec::new();
        for pieces in [Pieces::Events, Pieces::Bytes(1), Pieces::Bytes(7), Pieces::Bytes(4_096)] {
            let simulator = Simulator::start(curious()).await;
            let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
            simulator.deliver(Delivery { pieces, ..Delivery::default() });
            agent.says(QUESTION);
            replies.push(ground.post_json(agent.path(), &agent.body()).await.text().await.unwrap());
        }
        // Signatures are of their simulator alone.
        let said = |reply: &String| {
            let mut agent = Agent::new(form);
            (agent.hears(reply.as_bytes()).text, reply.lines().count())
        };
        assert!(replies.iter().all(|reply| said(reply) == said(&replies[0])), "{form:?}: {replies:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_ours_beside_the_clients_are_answered_with_its_results() {
    for form in every_form() {
        let speaker = says(|request, number| {
            let newest = newest(request);
            if newest.contains(QUESTION) && offers_recall(request) {
                Say::text("Both.")
                    .thinking("Two things.")
                    .and_calls("recall_outline", json!({}))
                    .and_calls("bash", json!({"command": "make"}))
                    .and_calls("recall_search", json!({"query": "step 1"}))
            } else {
                Say::text(format!("ok {number}"))
            }
        });
        let simulator = Simulator::start(Settings { speaker, ..Settings::window(WINDOW) }).await;
        let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        let bytes = ground.post_json(agent.path(), &agent.body()).await.bytes().await.unwrap();
        let reply = String::from_utf8_lossy(&bytes);
        assert!(!reply.contains("recall_"), "{form:?}: {reply}");
        let said = agent.hears(&bytes);
        assert_eq!((said.calls, said.text.as_str()), (1, "Both."), "{form:?}: {reply}");
        agent.answers_calls("it is built");
        let response = ground.post_json(agent.path(), &agent.body()).await;
        assert_eq!(response.status(), 200, "{form:?}");
        agent.hears(&response.bytes().await.unwrap());
        let seen = simulator.last().unwrap();
        for there in ["recall_outline", "recall_search", "it is built"] {
            assert!(seen.text().contains(there), "{form:?}: {there}");
        }
        assert_eq!(seen.text().matches("\"recall_outline\"").count(), 2, "{form:?}: the definition, and the call");
        assert_eq!(simulator.refused().len(), 0, "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_never_has_enough_is_told_so_and_has_to_go_on() {
    for form in every_form() {
        let speaker = says(|request, number| match request["tool_choice"].to_string() {
            choice if choice.contains("none") => Say::text("Well then."),
            _ if offers_recall(request) && request.to_string().contains(QUESTION) => {
                Say::call("recall_search", json!({"query": format!("step {number}"), "limit": 1}))
            }
            _ => Say::text("ok"),
        });
        let simulator = Simulator::start(Settings { speaker, ..Settings::window(WINDOW) }).await;
        let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        simulator.take();
        let said = agent.hears(&ground.post_json(agent.path(), &agent.body()).await.bytes().await.unwrap());
        assert_eq!((said.calls, said.text.as_str()), (0, "Well then."), "{form:?}");
        assert_eq!(simulator.seen().len(), 11, "{form:?}");
        assert_eq!(simulator.refused().len(), 0, "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_offered_only_when_they_are_wanted_and_lead_somewhere() {
    let form = Form { dialect: ApiFormat::Messages, is_stream: false };
    for (recall, before, after) in
        [(RecallMode::Off, false, false), (RecallMode::Auto, false, true), (RecallMode::On, true, true)]
    {
        let simulator = Simulator::start(Settings::window(WINDOW)).await;
        let (ground, mut agent) = compacted(&simulator, form, recall).await;
        let seen = simulator.take();
        let long = seen.iter().find(|seen| seen.text().len() > 8_000).unwrap();
        assert_eq!(offers_recall(&long.value()), before, "{recall:?}");
        assert_eq!(offers_recall(&seen.last().unwrap().value()), after, "{recall:?}");
        // They stand behind the client's own, so that those stay as they were; and not where a client has one of that name.
        let mut body = agent.body();
        body["tools"][0]["name"] = json!("recall_open");
        ground.post_json(agent.path(), &body).await.bytes().await.unwrap();
        assert_eq!(simulator.last().unwrap().value()["tools"].as_array().unwrap().len(), 1, "{recall:?}");
        agent.says("go on");
        ground.post_json(agent.path(), &agent.body()).await.bytes().await.unwrap();
        assert_eq!(simulator.last().unwrap().value()["tools"][0]["name"], "bash", "{recall:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_takes_no_tools_gets_none() {
    let form = Form { dialect: ApiFormat::Chat, is_stream: false };
    let simulator = Simulator::start(Settings::window(WINDOW)).await;
    let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
    agent.says("go on");
    simulator.take();
    simulator.next(Next::Fails { status: 400, headers: Vec::new() });
    let response = ground.post_json(agent.path(), &agent.body()).await;
    assert_eq!((response.status().as_u16(), header(&response, "x-longhaul-action")), (200, "replayed".to_owned()));
    answer(response).await;
    let seen = simulator.take();
    assert_eq!(seen.iter().map(|seen| offers_recall(&seen.value())).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_fails_in_between_is_an_error_and_no_trace() {
    for form in every_form() {
        let simulator = Simulator::start(curious()).await;
        let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        simulator.next(Next::Delivers(Delivery::default()));
        simulator.next(Next::Fails { status: 503, headers: Vec::new() });
        let response = ground.post_json(agent.path(), &agent.body()).await;
        assert_eq!(response.status().is_success(), form.is_stream, "{form:?}");
        let text = response.text().await.unwrap();
        assert!(text.contains("error") && !text.contains("recall_"), "{form:?}: {text}");
        // The same request, made again, is answered.
        let said = agent.hears(&ground.post_json(agent.path(), &agent.body()).await.bytes().await.unwrap());
        assert!(said.text.contains("The types were mismatched."), "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_calls_whatever_it_is_told_comes_to_an_end_without_a_trace() {
    for form in every_form() {
        let speaker = says(|request, _| {
            if offers_recall(request) && request.to_string().contains(QUESTION) {
                Say::text("Again.").and_calls("recall_outline", json!({}))
            } else {
                Say::text("ok")
            }
        });
        let simulator = Simulator::start(Settings { speaker, ..Settings::window(WINDOW) }).await;
        let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        simulator.take();
        let bytes = ground.post_json(agent.path(), &agent.body()).await.bytes().await.unwrap();
        let reply = String::from_utf8_lossy(&bytes);
        assert!(!reply.contains("recall_"), "{form:?}: {reply}");
        assert_eq!(agent.hears(&bytes).calls, 0, "{form:?}: {reply}");
        assert_eq!(simulator.seen().len(), 12, "{form:?}");
        agent.says("Enough.");
        simulator.take();
        let response = ground.post_json(agent.path(), &agent.body()).await;
        assert_eq!(response.status(), 200, "{form:?}: nothing is left that nobody answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_calls_in_one_go_are_bounded_like_sixty_one_after_the_other() {
    for form in every_form() {
        let speaker = says(|request, _| {
            let newest = newest(request);
            if newest.contains(QUESTION) && offers_recall(request) {
                (0..60).fold(Say::text("All at once."), |say, number| {
                    say.and_calls("recall_search", json!({"query": format!("step {number}")}))
                })
            } else {
                Say::text("ok")
            }
        });
        let simulator = Simulator::start(Settings { speaker, ..Settings::window(WINDOW) }).await;
        let (ground, mut agent) = compacted(&simulator, form, RecallMode::Auto).await;
        agent.says(QUESTION);
        simulator.take();
        let bytes = ground.post_json(agent.path(), &agent.body()).await.bytes().await.unwrap();
        assert_eq!(agent.hears(&bytes).calls, 0, "{form:?}");
        let page = ground.http.get(format!("{}/metrics", ground.url)).send().await.unwrap();
        let page = page.text().await.unwrap();
        assert!(page.contains("longhaul_recalls_total{tool=\"recall_search\"} 8\n"), "{form:?}: {page}");
        let seen = simulator.take();
        assert_eq!(seen.len(), 2, "{form:?}");
        // The answers take the room of the window too, and so do the refusals.
        let refusals = ["Nothing more can be recalled", "There is no room left"];
        let refused: usize = refusals.iter().map(|refusal| seen[1].text().matches(refusal).count()).sum();
        assert!(refused >= 52, "{form:?}: {refused} of 60");
        assert_eq!(simulator.refused().len(), 0, "{form:?}");
    }
}
