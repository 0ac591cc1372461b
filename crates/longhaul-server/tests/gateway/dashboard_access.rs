//! Who sees the dashboard: whoever reaches an open gateway, and else who has a key, in a header or behind a cookie; and from which page.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_server::gateway::{ClientAccess, GatewaySettings};
use longhaul_server::store::{GatewayKey, KeyLimits, Store};
use reqwest::{Method, Response, redirect};
use serde_json::Value;

use crate::ground::{Agent, Ground, answer, header, settings};
use crate::simulator::{Settings, Simulator};
use crate::street::{closed, eventually, holding, post};

const PAGES: [&str; 5] =
    ["/", "/sessions/x", "/sessions/x/epochs/1", "/sessions/x/search?q=a", "/sessions/x/recall/abc1"];
/// What a browser wants to be shown.
const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
const DATA: [&str; 6] =
    ["/api/overview", "/api/sessions", "/api/sessions/x", "/api/sessions/x/search?q=a", "/api/recall/abc1", "/events"];

async fn key(store: &Store, name: &str) -> String {
    store.add_key(name, name, KeyLimits::default(), Timestamp(0)).await.unwrap().reveal().to_owned()
}

/// Sends with these headers, and follows nothing.
async fn send(ground: &Ground, method: Method, path: &str, headers: &[(&str, &str)], body: String) -> Response {
    let http = reqwest::Client::builder().no_proxy().redirect(redirect::Policy::none()).build().unwrap();
    let request = http.request(method, format!("{}{path}", ground.url));
    headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value))
        .body(body)
        .send()
        .await
        .unwrap()
}

async fn get(ground: &Ground, path: &str, headers: &[(&str, &str)]) -> Response {
    send(ground, Method::GET, path, headers, String::new()).await
}

/// Comes in by the form, and gives the cookie.
async fn login(ground: &Ground, key: &str) -> Response {
    let form = format!("key={key}&to=%2Fsessions%2Fx");
    send(ground, Method::POST, "/login", &[("origin", &ground.url)], form).await
}

async fn one_session(ground: &Ground, key: &str) -> String {
    let mut agent = Agent::new("claude-sonnet-4-5");
    (0..3).for_each(|_| agent.step(60));
    let response = post(ground, "/v1/messages", &[("x-longhaul-key", key)], agent.body().to_string()).await;
    let session = header(&response, "x-longhaul-session");
    response.bytes().await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn where_keys_are_wanted_nothing_is_shown_without_one_and_nobody_sees_anothers() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(holding(&simulator.origin(), "sk-of-the-gateway")), &simulator).await;
    let (own, others) = (key(&ground.store, "own").await, key(&ground.store, "others").await);
    let session = one_session(&ground, &own).await;
    for path in PAGES {
        assert_eq!(get(&ground, path, &[]).await.status(), 401, "{path}, for a program");
        let response = get(&ground, path, &[BROWSER]).await;
        assert_eq!(response.status(), 303, "{path}");
        assert!(header(&response, "location").starts_with("/login?to=%2F"), "{path}");
    }
    for path in DATA {
        let response = get(&ground, path, &[]).await;
        assert_eq!(response.status(), 401, "{path}");
        assert!(answer(response).await["error"].is_string(), "{path}");
    }
    let listed = async |key: &str| -> Value {
        answer(get(&ground, "/api/sessions", &[("x-longhaul-key", key)]).await).await["sessions"].clone()
    };
    assert_eq!(listed(&own).await[0]["name"], session.as_str());
    assert_eq!(listed(&others).await, Value::Array(Vec::new()));
    for below in ["", "/search?q=mismatched"] {
        for start in ["/sessions", "/api/sessions"] {
            let path = format!("{start}/{session}{below}");
            assert_eq!(get(&ground, &path, &[("x-longhaul-key", &own)]).await.status(), 200, "{path}");
            assert_eq!(get(&ground, &path, &[("x-longhaul-key", &others)]).await.status(), 404, "{path}");
        }
    }
    for act in ["undo", "redo", "compress"] {
        let path = format!("/api/sessions/{session}/{act}");
        let response = send(&ground, Method::POST, &path, &[("x-longhaul-key", &others)], String::new()).await;
        assert_eq!(response.status(), 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_comes_in_by_a_form_and_leaves_by_another() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(settings(&simulator.origin())), &simulator).await;
    let own = key(&ground.store, "own").await;
    assert_eq!(login(&ground, &format!("lh-{}", "A".repeat(43))).await.status(), 401);
    let entered = login(&ground, &own).await;
    assert_eq!((entered.status().as_u16(), header(&entered, "location")), (303, "/sessions/x".to_owned()));
    let cookie = header(&entered, "set-cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("Secure"),
        "{cookie}"
    );
    assert!(!cookie.contains(&own[3..]), "the key is not in it");
    let pass = cookie.split(';').next().unwrap().to_owned();
    let with = [("cookie", pass.as_str())];
    assert_eq!(get(&ground, "/", &with).await.status(), 200);
    assert_eq!(get(&ground, "/api/overview", &with).await.status(), 200);
    assert_eq!(get(&ground, "/v1/models", &with).await.status(), 401, "it is for pages only");

    // Whatever changes something has to come from a page of ours.
    let foreign = [
        ("origin", "null"),
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:3000"),
        ("sec-fetch-site", "same-site"),
    ];
    for header in foreign.map(Some).into_iter().chain([None]) {
        let headers: Vec<(&str, &str)> = with.into_iter().chain(header).collect();
        for path in ["/logout", "/theme", "/sessions/x/undo", "/api/sessions/x/compress"] {
            let response = send(&ground, Method::POST, path, &headers, String::new()).await;
            assert_eq!(response.status(), 403, "{header:?} {path}");
        }
    }
    let ours = [with[0], ("origin", ground.url.as_str())];
    assert_eq!(send(&ground, Method::POST, "/sessions/x/undo", &ours, String::new()).await.status(), 404);
    let left = send(&ground, Method::POST, "/logout", &ours, String::new()).await;
    assert!(header(&left, "set-cookie").contains("Max-Age=0"));
    assert_eq!(get(&ground, "/", &[with[0], BROWSER]).await.status(), 303, "the pass is good no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_ends_with_its_key_and_after_half_a_day() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(settings(&simulator.origin())), &simulator).await;
    let (lapses, goes) = (key(&ground.store, "lapses").await, key(&ground.store, "goes").await);
    let pass = async |key: &str| header(&login(&ground, key).await, "set-cookie").split(';').next().unwrap().to_owned();
    let (lapses, goes) = (pass(&lapses).await, pass(&goes).await);
    let status = async |pass: &str| get(&ground, "/", &[("cookie", pass), BROWSER]).await.status().as_u16();
    ground.store.revoke_key("goes", Timestamp(1)).await.unwrap();
    simulator.pass(Duration::from_secs(6));
    assert_eq!((status(&goes).await, status(&lapses).await), (303, 200));
    simulator.pass(Duration::from_hours(12));
    assert_eq!(status(&lapses).await, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_of_some_keep_nobody_else_out() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(closed(settings(&simulator.origin())), &simulator).await;
    let right = key(&ground.store, "own").await;
    let mut tries = 0;
    eventually("it is enough", async || {
        tries += 1;
        login(&ground, "guess").await.status() == 429
    })
    .await;
    assert!((10..60).contains(&tries), "{tries}");
    assert_eq!(login(&ground, &right).await.status(), 303, "a right key always opens");
    assert_eq!(login(&ground, "guess").await.status(), 429);
    simulator.pass(Duration::from_mins(1));
    assert_eq!(login(&ground, "guess").await.status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_address_signs_a_browser_in_and_leaves_the_address() {
    let simulator = Simulator::start(Settings::default()).await;
    let secret = Arc::new(GatewayKey::random().unwrap());
    let run = ClientAccess::RunKey(Arc::clone(&secret));
    for is_run in [true, false] {
        let settings = settings(&simulator.origin());
        let settings = if is_run { GatewaySettings { access: run.clone(), ..settings } } else { closed(settings) };
        let ground = Ground::start(settings, &simulator).await;
        let key = if is_run { secret.reveal().to_owned() } else { key(&ground.store, "own").await };
        for path in PAGES.iter().chain(&DATA) {
            assert_eq!(get(&ground, path, &[]).await.status(), 401, "{path}");
        }
        let first = get(&ground, &format!("/{key}/?page=1"), &[BROWSER]).await;
        assert_eq!((first.status().as_u16(), header(&first, "location")), (303, "/?page=1".to_owned()));
        let cookie = header(&first, "set-cookie");
        assert!(cookie.contains("HttpOnly; SameSite=Strict") && !cookie.contains(&key), "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        let page = get(&ground, "/", &[BROWSER, ("cookie", cookie)]).await;
        assert_eq!(page.status(), 200);
        assert!(!page.text().await.unwrap().contains(&key));
        assert_eq!(get(&ground, &format!("/{key}/api/sessions"), &[]).await.status(), 200, "a program needs no pass");
        let wrong = format!("/lh-{}/", "A".repeat(43));
        assert_eq!(get(&ground, &wrong, &[]).await.status(), 401);
        let wrong = get(&ground, &wrong, &[BROWSER]).await;
        assert!(wrong.status() == 303 && header(&wrong, "set-cookie").is_empty());
        assert_eq!(login(&ground, &key).await.status(), 303, "the form takes it too");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_ours_is_kept_from_being_anything_else() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    for path in PAGES.iter().chain(&DATA).chain(&["/login", "/assets/style.css", "/assets/live.js", "/assets/icon.svg"])
    {
        let response = get(&ground, path, &[]).await;
        let policy = header(&response, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header(&response, "cache-control"), "no-store", "{path}");
        assert!(response.headers().keys().all(|name| !name.as_str().starts_with("access-control")), "{path}");
    }
    for path in PAGES.iter().chain(&DATA) {
        let foreign = get(&ground, path, &[("host", "evil.example")]).await;
        assert_eq!(foreign.status(), 403, "{path}");
        assert_eq!(get(&ground, path, &[("sec-fetch-site", "cross-site")]).await.status(), 403, "{path}");
    }
    assert_eq!(simulator.seen().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_theme_is_chosen_and_leads_back_to_this_site() {
    let simulator = Simulator::start(Settings::default()).await;
    let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
    let choose =
        async |form: &str| send(&ground, Method::POST, "/theme", &[("origin", &ground.url)], form.to_owned()).await;
    let chosen = choose("theme=dark&to=%2F%3Frange%3Dday").await;
    assert_eq!(header(&chosen, "location"), "/?range=day");
    let cookie = header(&chosen, "set-cookie").split(';').next().unwrap().to_owned();
    let page = get(&ground, "/", &[("cookie", &cookie)]).await.text().await.unwrap();
    assert!(page.contains("<html lang=\"en\" data-theme=\"dark\">"), "{page}");
    assert_eq!(header(&choose("theme=dark&to=%2F%2Fevil.example").await, "location"), "/");
    assert!(header(&choose("theme=system").await, "set-cookie").contains("Max-Age=0"));
    let forged = get(&ground, "/", &[("cookie", "longhaul_theme=\"><script>")]).await.text().await.unwrap();
    assert!(forged.contains("<html lang=\"en\">"), "{forged}");
}
