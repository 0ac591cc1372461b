//! What a model may write as arguments, by mistake or because something it read told it to.

use longhaul_engine::Dialect;
use longhaul_server::recall::{Reach, Tool};
use serde_json::{Value, json};

use super::speech::{body, compact, long_session, user};
use super::{ask, compacted};

#[tokio::test]
async fn wrong_arguments_are_one_clear_line() {
    let (reach, outcome) = compacted(Dialect::Chat, &long_session(), 2_000).await;
    let handle = &outcome.originals[0].handle;
    let megabyte = "x".repeat(1 << 20);
    let cases = [
        (Tool::Search, json!(null)),
        (Tool::Search, json!([])),
        (Tool::Search, json!("build")),
        (Tool::Search, json!({})),
        (Tool::Search, json!({"query": ""})),
        (Tool::Search, json!({"query": "  "})),
        (Tool::Search, json!({"query": 7})),
        (Tool::Search, json!({"query": ["build"]})),
        (Tool::Search, json!({"query": {"$ne": null}})),
        (Tool::Search, json!({"query": "build", "limit": -1})),
        (Tool::Search, json!({"query": "build", "limit": "many"})),
        (Tool::Search, json!({"query": "build", "limit": 2.5})),
        (Tool::Search, json!({"query": "build", "tenant": "other"})),
        (Tool::Open, json!({})),
        (Tool::Open, json!({"handle": 12})),
        (Tool::Open, json!({"handle": "' OR 1=1 --"})),
        (Tool::Open, json!({"handle": "../../etc/passwd"})),
        (Tool::Open, json!({"handle": "zzzzzzzzzz"})),
        (Tool::Open, json!({"handle": "\u{0}"})),
        (Tool::Open, json!({"handle": format!("{handle}\u{0}")})),
        (Tool::Open, json!({"handle": format!("{handle}%")})),
        (Tool::Open, json!({"handle": megabyte})),
        (Tool::Open, json!({"handle": handle, "from": -1})),
        (Tool::Open, json!({"handle": handle, "from": u64::MAX})),
        (Tool::Open, json!({"handle": handle, "from": 1e30})),
        (Tool::Open, json!({"handle": handle, "path": "/etc/passwd"})),
        (Tool::Outline, json!({"from": -3})),
        (Tool::Outline, json!({"from": 1_000_000})),
        (Tool::Outline, json!({"from": "\u{202e}1"})),
        (Tool::Outline, json!({megabyte.clone(): 1})),
    ];
    for (tool, arguments) in cases {
        let answer = reach.answer(tool, &arguments).await;
        let shown = arguments.to_string().chars().take(80).collect::<String>();
        assert!(answer.is_error, "{tool:?} {shown}: {}", answer.text);
        assert!(answer.text.chars().count() < 250, "{tool:?} {shown}: {}", answer.text);
        assert!(!answer.text.contains(char::is_control), "{tool:?} {shown}: {:?}", answer.text);
    }
}

#[tokio::test]
async fn strange_queries_are_searched_for_and_nothing_else() {
    let (reach, _) = compacted(Dialect::Chat, &long_session(), 2_000).await;
    let megabyte = "compiling unit ' \" * ".repeat(50_000);
    for query in
        ["'; DROP TABLE messages; --", "a\u{0}b", "%", "\u{202e}", "held:parse OR *", megabyte.as_str()]
    {
        let found = ask(&reach, Tool::Search, json!({"query": query, "limit": 1_000_000})).await;
        assert!(found.chars().count() < 20_000);
    }
    let found = ask(&reach, Tool::Search, json!({"query": "compiling unit", "limit": 0})).await;
    assert!(found.contains("\n1. ") && !found.contains("\n2. "), "{found}");
    ask(&reach, Tool::Outline, json!({})).await;
}

#[tokio::test]
async fn a_handle_of_another_tenant_or_another_family_is_unknown() {
    let (reach, outcome) = compacted(Dialect::Chat, &long_session(), 2_000).await;
    let handle = &outcome.originals[0].handle;
    let stranger = reach.store.tenant("stranger").await.unwrap();
    let (own, _) = compact(&reach.store, &stranger, &body(Dialect::Chat, &long_session()), 2_000).await;
    let elsewhere =
        super::speech::record(&reach.store, &reach.tenant, &body(Dialect::Chat, &[user("Hello.")])).await;
    let foreign = Reach { tenant: stranger.clone(), session: own, ..reach.clone() };
    let mixed = Reach { tenant: stranger, ..reach.clone() };
    let relative = Reach { session: elsewhere.session, ..reach.clone() };
    for other in [&foreign, &mixed, &relative] {
        let answer = other.answer(Tool::Open, &json!({"handle": handle})).await;
        assert!(answer.is_error && answer.text.contains("has no block"), "{}", answer.text);
    }
    for tool in [Tool::Search, Tool::Outline] {
        let arguments = if tool == Tool::Search { json!({"query": "make target3"}) } else { Value::Null };
        let answer = mixed.answer(tool, &arguments).await;
        assert!(!answer.text.contains("target3\""), "{}", answer.text);
    }
    ask(&reach, Tool::Open, json!({"handle": handle})).await;
}
