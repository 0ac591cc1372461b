//! Who is let in, by which key, whose key pays, and whose sessions are whose.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::Tokens;
use longhaul_server::gateway::{ClientAccess, GatewaySettings};
use longhaul_server::store::{GatewayKey, KeyLimits, Store};
use reqwest::Method;
use serde_json::Value;

use crate::ground::{Agent, Ground, answer, header, settings, with_window};
use crate::simulator::{Settings, Simulator};
use crate::street::{MODELS, closed, eventually, holding, post, raw, send, status};

const MODEL: &str = "claude-sonnet-4-5";
/// The key of the gateway's own for the provider.
const HELD: &str = "sk-of-the-gateway-itself";

async fn key(store: &Store, name: &str, limits: KeyLimits) -> String {
    store.add_key(name, name, limits, Timestamp(0)).await.unwrap().reveal().to_owned()
}

/// Which credentials the newest request had when it reached the provider.
fn paid(simulator: &Simulator) -> Vec<(String, String)> {
    let seen = simulator.last().unwrap();
    let is_key = |name: &str| ["x-api-key", "authorization", "api-key", "x-longhaul-key"].contains(&name);
    seen.headers.into_iter().filter(|(name, _)| is_key(name)).collect()
}

fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn where_keys_are_wanted_nobody_comes_in_without_one() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(settings(&simulator.origin())), &simulator).await;
    let right = key(&ground.store, "somebody", KeyLimits::default()).await;
    let unknown = format!("lh-{}", "A".repeat(43));
    let wrong = ["", "lh-", "x", &right[..right.len() - 1], &right.to_uppercase(), &unknown];
    for (path, body) in MODELS {
        let response = post(&ground, path, &[("x-api-key", "sk-a-providers-own")], body).await;
        assert_eq!(response.status(), 401, "{path}");
        let said = answer(response).await;
        assert_eq!(said["error"]["type"], "authentication_error", "{path}: {said}");
        for wrong in wrong {
            assert_eq!(post(&ground, path, &[("x-longhaul-key", wrong)], body).await.status(), 401, "{wrong}");
        }
    }
    for path in ["/v1/messages/count_tokens", "/v1/files", "/anything"] {
        assert_eq!(post(&ground, path, &[], "{}").await.status(), 401, "{path}");
    }
    for path in ["/healthz", "/metrics", "/v1/models", "/"] {
        for shown in [vec![], vec![("x-longhaul-key", unknown.as_str())]] {
            assert_eq!(send(&ground, (Method::GET, path), &shown, "").await.status(), 401, "{path}");
        }
    }
    for path in ["/healthz", "/metrics"] {
        let bearer = format!("Bearer {right}");
        for header in [("x-longhaul-key", right.as_str()), ("authorization", &bearer)] {
            assert_eq!(send(&ground, (Method::GET, path), &[header], "").await.status(), 200, "{path}");
        }
    }
    assert_eq!(simulator.seen().len(), 0, "nothing of it went on");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_body_is_waited_for_before_the_key() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(settings(&simulator.origin())), &simulator).await;
    for path in ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/messages/count_tokens", "/other"] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n{{");
        let said = raw(&ground, head.as_bytes()).await;
        assert_eq!(status(&said), 401, "{path}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_ours_lets_in_and_is_shown_to_nobody() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(settings(&simulator.origin())), &simulator).await;
    let ours = key(&ground.store, "somebody", KeyLimits::default()).await;
    let bearer = format!("Bearer {ours}");
    for (path, body) in MODELS {
        for own in [("x-api-key", "sk-own"), ("authorization", "Bearer sk-ant-oat01-own")] {
            let response = post(&ground, path, &[("x-longhaul-key", &ours), own], body).await;
            assert_eq!(response.status(), 200, "{path}");
            assert_eq!(paid(&simulator), pairs(&[own]), "{path}");
        }
        // It stands in the provider's place as well, where the gateway has nothing to put there.
        let twice = [("x-longhaul-key", ours.as_str()), ("authorization", &bearer), ("x-api-key", &ours)];
        let with_more = [twice.as_slice(), &[("x-goog-api-key", ours.as_str())]].concat();
        assert_eq!(post(&ground, path, &with_more, body).await.status(), 401, "the provider's own word");
        let seen = simulator.last().unwrap();
        assert!(seen.headers.iter().all(|(_, value)| !value.contains(&ours)), "{:?}", seen.headers);
        let before = simulator.seen().len();
        assert_eq!(post(&ground, path, &[("authorization", &bearer)], body).await.status(), 401);
        assert_eq!(simulator.seen().len(), before, "it is refused here, not there");
    }
    let models = (Method::GET, "/v1/models");
    send(&ground, models, &[("x-longhaul-key", &ours), ("x-api-key", "sk-own")], "").await;
    assert_eq!(paid(&simulator), pairs(&[("x-api-key", "sk-own")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_key_stands_where_ours_stood() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let ours = key(&ground.store, "somebody", KeyLimits::default()).await;
    let (bearer, lower) = (format!("Bearer {ours}"), format!("bearer  {ours} "));
    for (path, body) in MODELS {
        let held = format!("Bearer {HELD}");
        let held = if path == "/v1/messages" { ("x-api-key", HELD) } else { ("authorization", held.as_str()) };
        for shown in [
            vec![("x-longhaul-key", ours.as_str())],
            vec![("x-api-key", &ours)],
            vec![("authorization", &bearer)],
            vec![("authorization", &lower)],
            vec![("api-key", &ours)],
            vec![("x-api-key", &ours), ("authorization", &bearer)],
        ] {
            assert_eq!(post(&ground, path, &shown, body).await.status(), 200, "{path} {shown:?}");
            assert_eq!(paid(&simulator), pairs(&[held]), "{path} {shown:?}");
        }
        let own = [("x-longhaul-key", ours.as_str()), ("authorization", "Bearer sk-own")];
        assert_eq!(post(&ground, path, &own, body).await.status(), 200);
        assert_eq!(paid(&simulator), pairs(&[("authorization", "Bearer sk-own")]), "a client's own pays first");
        assert_eq!(post(&ground, path, &[("authorization", "Bearer sk-own")], body).await.status(), 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_gateway_replaces_no_key() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(holding(&simulator.origin(), HELD), &simulator).await;
    let (path, body) = MODELS[0];
    for own in [("x-api-key", "sk-own"), ("authorization", "Bearer sk-ant-oat01-own")] {
        assert_eq!(post(&ground, path, &[own], body).await.status(), 200);
        assert_eq!(paid(&simulator), pairs(&[own]));
    }
    assert_eq!(post(&ground, path, &[], body).await.status(), 200);
    assert_eq!(paid(&simulator), pairs(&[("x-api-key", HELD)]));
    let unknown = format!("lh-{}", "A".repeat(43));
    for shown in [("x-api-key", unknown.as_str()), ("x-longhaul-key", &unknown)] {
        assert_eq!(post(&ground, path, &[shown], body).await.status(), 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_gateway_is_closed_once_its_store_has_a_key() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(holding(&simulator.origin(), HELD), &simulator).await;
    let (path, body) = MODELS[0];
    let seen = ["/healthz", "/metrics", "/api/sessions", "/"];
    assert_eq!(post(&ground, path, &[], body).await.status(), 200);
    for path in seen {
        assert_eq!(send(&ground, (Method::GET, path), &[], "").await.status(), 200, "{path}");
    }
    let ours = key(&ground.store, "somebody", KeyLimits::default()).await;
    simulator.pass(Duration::from_secs(5));
    for (path, body) in MODELS {
        assert_eq!(post(&ground, path, &[("x-api-key", "sk-own")], body).await.status(), 401, "{path}");
    }
    let shown = [("x-longhaul-key", ours.as_str())];
    for path in seen {
        assert_eq!(send(&ground, (Method::GET, path), &[], "").await.status(), 401, "{path}");
        assert_eq!(send(&ground, (Method::GET, path), &shown, "").await.status(), 200, "{path}");
    }
    assert_eq!(post(&ground, path, &shown, body).await.status(), 200);
    let by_path = format!("/{ours}{path}");
    assert_eq!(post(&ground, &by_path, &[], body).await.status(), 200, "a key may stand in the address");
    // A revoked key opens nothing, the gateway least of all.
    ground.store.revoke_key("somebody", Timestamp(1)).await.unwrap();
    simulator.pass(Duration::from_secs(5));
    for shown in [&shown[..], &[]] {
        assert_eq!(post(&ground, path, shown, body).await.status(), 401);
    }
    let again = Ground::with_store(holding(&simulator.origin(), HELD), ground.store.clone(), simulator.clock()).await;
    assert_eq!(post(&again, path, &[], body).await.status(), 401, "from the first request on");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_of_a_run_takes_its_own_key_and_shows_it_to_nobody() {
    let simulator = Simulator::start(Settings::default()).await;
    let secret = Arc::new(GatewayKey::random().unwrap());
    let access = ClientAccess::RunKey(Arc::clone(&secret));
    let settings = GatewaySettings { access, ..holding(&simulator.origin(), HELD) };
    let ground = Ground::start(settings, &simulator).await;
    let stored = key(&ground.store, "somebody", KeyLimits::default()).await;
    let own = secret.reveal();
    for (path, body) in MODELS {
        for wrong in [vec![], vec![("x-longhaul-key", stored.as_str())], vec![("openai-project", stored.as_str())]] {
            assert_eq!(post(&ground, path, &wrong, body).await.status(), 401, "{path} {wrong:?}");
        }
        assert_eq!(post(&ground, &format!("/{stored}{path}"), &[], body).await.status(), 401);
        let credential = ("authorization", "Bearer sk-ant-oat01-own");
        for (path, shown) in [
            (format!("/{own}{path}"), vec![credential]),
            (path.to_owned(), vec![credential, ("x-longhaul-key", own)]),
            (path.to_owned(), vec![credential, ("openai-project", own)]),
            (path.to_owned(), vec![credential, ("openai-organization", own)]),
        ] {
            assert_eq!(post(&ground, &path, &shown, body).await.status(), 200, "{path} {shown:?}");
            assert_eq!(paid(&simulator), pairs(&[credential]), "the provider's credential passes beside it");
            let seen = simulator.last().unwrap();
            assert!(seen.headers.iter().all(|(_, value)| !value.contains(own)), "{:?}", seen.headers);
            assert!(!seen.path.contains(own), "{}", seen.path);
        }
        let organization = [credential, ("openai-organization", "org-mine")];
        assert_eq!(post(&ground, &format!("/{own}{path}"), &organization, body).await.status(), 200);
        let seen = simulator.last().unwrap();
        assert!(seen.headers.iter().any(|(_, value)| value == "org-mine"), "{:?}", seen.headers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_back_works_five_seconds_longer_at_most() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let ours = key(&ground.store, "somebody", KeyLimits::default()).await;
    let ((path, body), shown) = (MODELS[0], [("x-longhaul-key", ours.as_str())]);
    assert_eq!(post(&ground, path, &shown, body).await.status(), 200);
    ground.store.revoke_key("somebody", Timestamp(1)).await.unwrap();
    simulator.pass(Duration::from_secs(5));
    assert_eq!(post(&ground, path, &shown, body).await.status(), 401);
    assert_eq!(send(&ground, (Method::GET, "/metrics"), &shown, "").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_requests_is_told_in_the_dialect_with_the_time_it_lasts() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let limits = KeyLimits { requests_per_minute: Some(3), ..KeyLimits::default() };
    let ours = key(&ground.store, "somebody", limits).await;
    let shown = [("x-longhaul-key", ours.as_str())];
    for (path, body) in MODELS {
        assert_eq!(post(&ground, path, &shown, body).await.status(), 200, "{path}");
    }
    simulator.pass(Duration::from_secs(18));
    for (path, body) in MODELS.into_iter().chain([("/v1/messages/count_tokens", "{}"), ("/v1/files", "{}")]) {
        let response = post(&ground, path, &shown, body).await;
        assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, "42".to_owned()));
        assert_eq!(answer(response).await["error"]["type"], "rate_limit_error", "{path}");
    }
    assert_eq!(send(&ground, (Method::GET, "/healthz"), &shown, "").await.status(), 200, "it costs nothing");
    simulator.pass(Duration::from_secs(42));
    let (path, body) = MODELS[0];
    assert_eq!(post(&ground, path, &shown, body).await.status(), 200);
    // A count of tokens is one request.
    assert_eq!(post(&ground, "/v1/messages/count_tokens", &shown, body).await.status(), 200);
    assert_eq!(post(&ground, path, &shown, body).await.status(), 200);
    assert_eq!(post(&ground, path, &shown, body).await.status(), 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_day_are_counted_however_a_request_goes_through() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let bypass = ("x-longhaul-bypass", "1");
    let mut agent = Agent::new(MODEL);
    agent.step(200);
    let (path, body) = ("/v1/messages", agent.body().to_string());
    for (number, more) in [None, Some(bypass)].into_iter().enumerate() {
        let limits = KeyLimits { tokens_per_day: Some(Tokens(1)), ..KeyLimits::default() };
        let name = format!("somebody{number}");
        let ours = key(&ground.store, &name, limits).await;
        let shown: Vec<(&str, &str)> = [("x-longhaul-key", ours.as_str())].into_iter().chain(more).collect();
        assert_eq!(post(&ground, path, &shown, body.clone()).await.status(), 200);
        eventually("what the key used is counted", async || {
            let keys = ground.store.keys().await.unwrap();
            keys.iter().any(|key| key.name == name && key.last_usage.is_some_and(|used| used.tokens > Tokens(1)))
        })
        .await;
        for path in [path, "/v1/messages/count_tokens", "/v1/embeddings"] {
            let response = post(&ground, path, &shown, body.clone()).await;
            let after: u64 = header(&response, "retry-after").parse().unwrap();
            assert_eq!(response.status(), 429, "{path}");
            assert!((1..=86_400).contains(&after), "{after}");
            assert_eq!(answer(response).await["error"]["type"], "rate_limit_error");
        }
        simulator.pass(Duration::from_hours(24));
        assert_eq!(post(&ground, path, &shown, body.clone()).await.status(), 200, "another day");
    }
}

/// What the gateway itself says to a command.
async fn told(ground: &Ground, credential: (&str, &str), agent: &Agent, command: &str) -> String {
    let mut agent = agent.clone();
    agent.says(command);
    let response = post(ground, "/v1/messages", &[credential], agent.body().to_string()).await;
    let reply: Value = answer(response).await;
    reply["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// A session that was compacted is gone on with, whichever of these credentials a request shows.
async fn one_session(ground: &Ground, before: &str, credentials: &[&[(&str, &str)]]) {
    let mut agent = Agent::new(MODEL);
    (0..12).for_each(|_| agent.step(80));
    let path = format!("{before}/v1/messages");
    let mut sessions = Vec::new();
    for (number, credential) in credentials.iter().enumerate() {
        let response = post(ground, &path, credential, agent.body().to_string()).await;
        assert_eq!(response.status(), 200, "{credential:?}");
        sessions.push(header(&response, "x-longhaul-session"));
        let action = header(&response, "x-longhaul-action");
        answer(response).await;
        if number > 0 {
            assert_eq!(action, "replayed", "{credential:?}: what was compacted stays compacted");
            continue;
        }
        let mut command = agent.clone();
        command.says("/compress");
        let said = answer(post(ground, &path, credential, command.body().to_string()).await).await;
        assert!(said["content"][0]["text"].as_str().unwrap().contains("compacted"), "{said}");
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_renewed_keeps_its_session() {
    let simulator = Simulator::start(Settings::default()).await;
    let renewed: [&[(&str, &str)]; 4] = [
        &[("authorization", "Bearer sk-ant-oat01-first")],
        &[("authorization", "Bearer sk-ant-oat01-renewed")],
        &[("x-api-key", "sk-ant-another")],
        &[("authorization", "Bearer sk-ant-oat01-third"), ("chatgpt-account-id", "anybody's")],
    ];
    let open = with_window(settings(&simulator.origin()), MODEL, 32_000);
    one_session(&Ground::start(open.clone(), &simulator).await, "", &renewed).await;
    let secret = Arc::new(GatewayKey::random().unwrap());
    let run = GatewaySettings { access: ClientAccess::RunKey(Arc::clone(&secret)), ..open.clone() };
    let before = format!("/{}", secret.reveal());
    one_session(&Ground::start(run, &simulator).await, &before, &renewed).await;
    let shared = Ground::start(closed(open), &simulator).await;
    let before = format!("/{}", key(&shared.store, "somebody", KeyLimits::default()).await);
    one_session(&shared, &before, &renewed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_with_the_same_history_and_credential_share_nothing() {
    let simulator = Simulator::start(Settings::default()).await;
    let settings = with_window(holding(&simulator.origin(), HELD), MODEL, 32_000);
    let ground = Ground::start(closed(settings), &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..12).for_each(|_| agent.step(80));
    let keys = [
        key(&ground.store, "one", KeyLimits::default()).await,
        key(&ground.store, "second", KeyLimits::default()).await,
        key(&ground.store, "third", KeyLimits::default()).await,
    ];
    let [one, others @ ..] = keys.each_ref().map(|key| ("x-longhaul-key", key.as_str()));
    // What a client says of its account is no proof of it.
    let claims = [("chatgpt-account-id", "the same"), ("authorization", "Bearer sk-ant-oat01-same")];
    let send = async |key: (&str, &str), agent: &Agent| {
        let headers = [&claims[..], &[key]].concat();
        let response = post(&ground, "/v1/messages", &headers, agent.body().to_string()).await;
        (header(&response, "x-longhaul-session"), header(&response, "x-longhaul-action"))
    };
    let (session, _) = send(one, &agent).await;
    assert!(told(&ground, one, &agent, "/compress").await.contains("compacted"));
    let (again, action) = send(one, &agent).await;
    assert_eq!((&again, action.as_str()), (&session, "replayed"));
    let found = told(&ground, one, &agent, "/recall mismatched types").await;
    let recall_id = found.trim_start_matches("[longhaul] ").split(':').next().unwrap().to_owned();
    let own = told(&ground, one, &agent, &format!("/recall {recall_id}")).await;
    assert!(own.contains("compiling unit"), "{own}");
    for other in others {
        let before = told(&ground, other, &agent, "/recall mismatched types").await;
        assert!(before.contains("the store has nothing of this session"), "{before}");
        let (theirs, action) = send(other, &agent).await;
        assert!(theirs != session && action == "none", "{theirs} {action}");
        let recalled = told(&ground, other, &agent, &format!("/recall {recall_id}")).await;
        assert!(recalled.contains("no results"), "{recalled}");
        let undone = told(&ground, other, &agent, "/undo").await;
        assert!(undone.contains("this session has no active compaction"), "{undone}");
        let mut fork = agent.clone();
        fork.says("Another way.");
        let (forked, action) = send(other, &fork).await;
        assert!(forked == theirs && action == "none", "{forked} {action}");
    }
    let (still, action) = send(one, &agent).await;
    assert_eq!((still, action.as_str()), (session, "replayed"), "nobody undid it");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_two_tenants_share_nothing_and_those_of_one_share_all() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), HELD)), &simulator).await;
    let make = async |tenant: &str, name: &str| {
        let made = ground.store.add_key(tenant, name, KeyLimits::default(), Timestamp(0)).await.unwrap();
        made.reveal().to_owned()
    };
    let (laptop, desktop) = (make("team", "laptop").await, make("team", "desktop").await);
    let stranger = make("stranger", "stranger").await;
    let mut agent = Agent::new(MODEL);
    (0..3).for_each(|_| agent.step(60));
    let mut sessions = Vec::new();
    for key in [&laptop, &desktop, &stranger] {
        let body = agent.body().to_string();
        let response = post(&ground, "/v1/messages", &[("x-longhaul-key", key)], body).await;
        sessions.push(header(&response, "x-longhaul-session"));
        answer(response).await;
    }
    assert_eq!(sessions[0], sessions[1]);
    assert_ne!(sessions[0], sessions[2]);
}
