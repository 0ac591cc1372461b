//! The dashboard over HTTP: its pages show the numbers of `/api`, which are the store's; what is done there, sessions notice.

use std::time::Duration;

use futures_util::StreamExt as _;
use longhaul_engine::Timestamp;
use longhaul_server::store::TenantScope;
use reqwest::{Response, redirect};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::echo::Echo;
use crate::ground::{Agent, Ground, answer, header, settings, with_window};
use crate::simulator::{Settings, Simulator};
use crate::street::eventually;

const MODEL: &str = "claude-sonnet-4-5";
/// Text that would be something else, were it not escaped.
const HOSTILE: &str =
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'</title></main>{{7*7}}${7*7}\u{202e}\u{0}";

/// A gateway, a client that follows nothing, and a session that was compacted at least once.
pub(crate) struct Seen {
    pub(crate) simulator: Simulator,
    pub(crate) ground: Ground,
    pub(crate) agent: Agent,
    pub(crate) session: String,
    http: reqwest::Client,
}

impl Seen {
    async fn start(task: &str) -> Self {
        let simulator = Simulator::start(Settings::window(16_000)).await;
        let ground = Ground::start(with_window(settings(&simulator.origin()), MODEL, 16_000), &simulator).await;
        let mut agent = Agent::new(MODEL);
        agent.messages[0]["content"] = json!(task);
        let http = reqwest::Client::builder().no_proxy().redirect(redirect::Policy::none()).build().unwrap();
        let mut seen = Self { simulator, ground, agent, session: String::new(), http };
        for _ in 0..14 {
            seen.turn().await;
        }
        seen
    }

    /// One request of the agent; what was done with it, once that is written down.
    async fn turn(&mut self) -> String {
        self.agent.step(60);
        let before = self.requests().await;
        let response = self.ground.post_json("/v1/messages", &self.agent.body()).await;
        let action = header(&response, "x-longhaul-action");
        let session = header(&response, "x-longhaul-session");
        response.bytes().await.unwrap();
        if !session.is_empty() {
            self.session = session;
            eventually("the request is noted", async || self.requests().await > before).await;
        }
        action
    }

    async fn requests(&self) -> usize {
        let whose = TenantScope::All;
        let seen = self.ground.store.overview(&whose, Timestamp(i64::MIN), Timestamp(0), 1, 1).await.unwrap();
        seen.totals.requests
    }

    async fn get(&self, path: &str) -> Response {
        self.http.get(format!("{}{path}", self.ground.url)).send().await.unwrap()
    }

    async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        assert!(header(&response, "content-type").starts_with("text/html"), "{path}");
        response.text().await.unwrap()
    }

    async fn api(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(
            (response.status().as_u16(), header(&response, "content-type")),
            (200, "application/json".to_owned()),
            "{path}"
        );
        answer(response).await
    }

    async fn post(&self, path: &str, form: &str) -> Response {
        let request = self.http.post(format!("{}{path}", self.ground.url)).body(form.to_owned());
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        request.header("origin", &self.ground.url).send().await.unwrap()
    }

    fn own(&self, below: &str) -> String {
        format!("/sessions/{}{below}", self.session)
    }
}

/// What stands in a page for a value of `/api`, from a place on.
fn shown(page: &str, from: &str, field: &str) -> String {
    let part = &page[page.find(from).unwrap_or_else(|| panic!("{from} is not on the page"))..];
    let c = format!("data-field=\"{field}\" value=\"");
    let at = part.find(&c).unwrap_or_else(|| panic!("{field} is not on the page")) + c.len();
    part[at..].split('"').next().unwrap().to_owned()
}

/// A number as an answer of `/api` gives it. Reading JSON rounds in the last digit, so both sides of a comparison have to be read.
fn read_back(written: &str) -> Value {
    serde_json::from_str(written).unwrap_or_else(|_| panic!("{written} is no JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_the_numbers_of_the_api_and_these_are_the_stores() {
    let seen = Seen::start("Make the build green.").await;
    let (overview, page) = (seen.api("/api/overview").await, seen.page("/").await);
    let stored = seen.ground.store.overview(&TenantScope::All, Timestamp(i64::MIN), Timestamp(0), 1, 10).await.unwrap();
    assert_eq!(overview["totals"]["requests"], stored.totals.requests);
    assert_eq!(overview["totals"]["tokens_before"], stored.totals.tokens_before.number());
    assert_eq!(overview["totals"]["usd_saved"], read_back(&json!(stored.totals.usd_saved.unwrap().0).to_string()));
    assert!(overview["totals"]["compacted"].as_u64().unwrap() >= 1, "{overview}");
    for field in
        ["requests", "compacted", "bypassed", "tokens_before", "tokens_after", "read_share", "usd_spent", "usd_saved"]
    {
        let on_page = read_back(&shown(&page, "id=\"cards\"", &format!("totals.{field}")));
        assert_eq!(on_page, overview["totals"][field], "{field}");
    }
    for field in ["median", "p95"] {
        let on_page = read_back(&shown(&page, "id=\"cards\"", &format!("added_ms.{field}")));
        assert_eq!(on_page, overview["added_ms"][field]);
    }
    let row = &overview["sessions"][0];
    let in_row = format!("id=\"session-{}\"", seen.session);
    for field in ["messages", "tokens", "compactions"] {
        assert_eq!(shown(&page, &in_row, field), row[field].to_string(), "{field}");
    }
    assert_eq!((row["live"].clone(), row["threshold"].clone()), (json!(true), json!(8_000)));
    assert_eq!(seen.api("/api/sessions").await["sessions"][0]["name"], json!(seen.session));

    let (session, page) = (seen.api(&format!("/api{}", seen.own(""))).await, seen.page(&seen.own("")).await);
    assert_eq!(session["totals"], row["totals"]);
    let on_page = read_back(&shown(&page, "id=\"cards\"", "totals.usd_saved"));
    assert_eq!(on_page, session["totals"]["usd_saved"]);
    assert_eq!(session["course"].as_array().unwrap().len(), stored.totals.requests);
    let epochs = session["epochs"].as_array().unwrap();
    assert_eq!(json!(epochs.len()), row["compactions"]);
    for compaction in epochs {
        let number = &compaction["number"];
        assert!(
            page.contains(&format!("<a href=\"{}\">", seen.own(&format!("/epochs/{number}")))),
            "{number} is drawn and linked"
        );
        assert!(compaction["tokens_before"].as_u64() > compaction["tokens_after"].as_u64(), "{compaction}");
    }
    assert!(page.contains(">threshold</text>"), "the threshold is drawn");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_compaction_is_shown_before_and_after() {
    let seen = Seen::start("Make the build green.").await;
    let compaction = seen.api(&format!("/api{}", seen.own("/epochs/1"))).await;
    let messages = |side: &str| compaction[side]["messages"].as_array().unwrap().len();
    assert!(messages("before") >= messages("after"));
    assert_eq!(compaction["report"]["tokens"]["after"], compaction["epoch"]["tokens_after"]);
    let page = seen.page(&seen.own("/epochs/1")).await;
    assert!(page.contains("Compaction 1") && page.contains("badge"), "{page}");
    assert!(!page.contains(" style="), "the policy would not have it");
    assert_eq!(seen.get(&seen.own("/epochs/99")).await.status(), 404);
    assert_eq!(seen.get("/sessions/nobody").await.status(), 404);
    let missing = seen.get("/api/sessions/nobody").await;
    assert_eq!(missing.status(), 404);
    assert!(answer(missing).await["error"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_undone_done_again_or_asked_for_here_holds_for_the_next_request() {
    let mut seen = Seen::start("Make the build green.").await;
    seen.simulator.pass(Duration::from_secs(1));
    let head = async |seen: &Seen| seen.api(&format!("/api{}", seen.own(""))).await["epoch"].clone();
    let first = head(&seen).await;
    let undone = seen.post(&seen.own("/undo"), "").await;
    assert_eq!((undone.status().as_u16(), header(&undone, "location")), (303, seen.own("?done=undone")));
    assert!(seen.page(&seen.own("?done=undone")).await.contains("was undone"));
    assert_ne!(head(&seen).await, first);
    assert_eq!(seen.post(&seen.own("/redo"), "").await.status(), 303);
    assert_eq!(head(&seen).await, first);

    let preview = seen.post(&seen.own("/compress"), "focus=src%2Ffile3.rs&preview=true").await;
    assert_eq!(preview.status(), 200);
    let preview = preview.text().await.unwrap();
    assert!(preview.contains(">Compress<") && preview.contains("value=\"src/file3.rs\""), "{preview}");
    assert_eq!(head(&seen).await, first, "it was only looked at");
    let path = format!("{}/api{}", seen.ground.url, seen.own("/compress"));
    let asked = seen.http.post(path).header("content-type", "application/json");
    let done = answer(asked.body(r#"{"focus":"src/file3.rs"}"#).send().await.unwrap()).await;
    assert_eq!((done["preview"].clone(), done["changed"].clone()), (json!(false), json!(true)), "{}", done["reason"]);
    assert_eq!(done["report"]["focus"], "src/file3.rs");
    assert_eq!(head(&seen).await, done["epoch"]);
    assert_eq!(seen.turn().await, "replayed", "the session in memory has noticed");
    let sent = seen.simulator.last().unwrap();
    let after = done["report"]["messages"]["after"].as_u64().unwrap() as usize;
    assert_eq!(sent.value()["messages"].as_array().unwrap().len(), after + 2, "one step more than the compaction left");
    assert_eq!(seen.post(&seen.own("/compress"), "preview=false").await.status().as_u16() / 100, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_removed_is_found_and_opened() {
    let seen = Seen::start("Make the build green.").await;
    let found = seen.api(&format!("/api{}", seen.own("/search?q=mismatched+types+in+step+2"))).await;
    let recall_id = found["hits"][0]["handle"].as_str().unwrap().to_owned();
    let page = seen.page(&seen.own("/search?q=mismatched+types+in+step+2")).await;
    assert!(page.contains(&seen.own(&format!("/recall/{recall_id}"))), "{page}");
    let opened = seen.api(&format!("/api/recall/{recall_id}")).await;
    let text = opened["text"].as_str().unwrap();
    assert!(text.contains("mismatched types in step 2"), "{opened}");
    let page = seen.page(&seen.own(&format!("/recall/{recall_id}"))).await;
    assert!(page.contains("mismatched types in step 2"));
    assert_eq!(seen.get(&seen.own("/recall/zzzzzzzz9")).await.status(), 404);
    assert_eq!(seen.get("/api/recall/zzzzzzzz9").await.status(), 404);
    assert!(seen.page(&seen.own("/search?q=")).await.contains("No results"));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_session_is_text_wherever_it_stands() {
    let mut seen = Seen::start(HOSTILE).await;
    let call = json!({"type": "tool_use", "id": "toolu_x", "name": "<b onclick=x>", "input": {"command": HOSTILE}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_x", "content": format!("{HOSTILE} findable")});
    seen.agent.messages.push(json!({"role": "assistant", "content": [call]}));
    seen.agent.messages.push(json!({"role": "user", "content": [result]}));
    seen.turn().await;
    let form = format!("focus={}&preview=true", "%3Cscript%3Ealert(3)%3C/script%3E");
    let preview = seen.post(&seen.own("/compress"), &form).await.text().await.unwrap();
    let found = seen.api(&format!("/api{}", seen.own("/search?q=findable"))).await;
    let recall_id = found["hits"][0]["handle"].as_str().unwrap();
    let mut pages = vec![preview];
    let query = "/search?q=%3Cscript%3Ealert(4)%3C/script%3E";
    for path in ["", "/epochs/1", "/search?q=findable", query, &format!("/recall/{recall_id}")] {
        pages.push(seen.page(&seen.own(path)).await);
    }
    pages.push(seen.page("/").await);
    for page in pages {
        let scripts = page.matches("<script").count();
        assert_eq!(scripts, page.matches("<script src=\"/assets/live.js\"").count(), "{page}");
        for live in ["<img", "onerror=alert(2)>\"'<", "<b onclick", "\u{202e}", "\u{0}"] {
            assert!(!page.contains(live), "{live:?}: {page}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_hears_that_there_is_news_and_no_more_when_the_gateway_stops() {
    let mut seen = Seen::start("Make the build green.").await;
    let response = seen.get("/events").await;
    assert!(header(&response, "content-type").starts_with("text/event-stream"));
    let mut pieces = response.bytes_stream();
    let first = timeout(Duration::from_secs(20), pieces.next()).await.unwrap().unwrap().unwrap();
    assert!(first.starts_with(b"retry:"), "{first:?}");
    seen.turn().await;
    let news = timeout(Duration::from_secs(20), pieces.next()).await.unwrap().unwrap().unwrap();
    assert!(news.starts_with(b"event: change\n"), "{news:?}");
    timeout(Duration::from_secs(20), seen.ground.stop()).await.expect("nobody waits for a page");
    assert!(timeout(Duration::from_secs(20), pieces.next()).await.unwrap().is_none_or(|piece| piece.is_err()));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_no_page_of_ours_still_goes_to_the_upstream() {
    let echo = Echo::start().await;
    let store = longhaul_server::store::Store::open(
        &longhaul_server::store::StoreLocation::Memory,
        longhaul_server::store::Durability::Normal,
    );
    let ground = Ground::with_store(settings(&echo.origin), store.await.unwrap(), std::sync::Arc::default()).await;
    for (method, target) in [
        ("POST", "/"),
        ("GET", "/api/tags"),
        ("POST", "/api/chat"),
        ("POST", "/api/overview"),
        ("GET", "/sessions"),
        ("GET", "/sessions/a/b"),
        ("DELETE", "/sessions/a"),
        ("GET", "/assets/other.js"),
        ("PUT", "/login"),
    ] {
        let request = ground.http.request(method.parse().unwrap(), format!("{}{target}", ground.url));
        let response = request.send().await.unwrap();
        assert_eq!(header(&response, "x-of-theirs"), "1", "{method} {target}");
        let took = echo.last();
        assert!(took.method.as_str() == method && took.target.ends_with(target), "{method} {target}");
    }
}
