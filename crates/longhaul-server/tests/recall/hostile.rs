//! What a model may write as arguments, by mistake or because something it read told it to.

use longhaul_engine::ApiFormat;
use longhaul_server::recall::{RecallScope, RecallTool};
use serde_json::{Value, json};

use super::speech::{body, compact, long_session, user};
use super::{ask, compacted};

#[tokio::test]
async fn wrong_arguments_are_one_clear_line() {
    let (reach, outcome) = compacted(ApiFormat::Chat, &long_session(), 2_000).await;
    let recall_id = &outcome.originals[0].recall_id;
    let megabyte = "x".repeat(1 << 20);
    let cases = [
        (RecallTool::Search, json!(null)),
        (RecallTool::Search, json!([])),
        (RecallTool::Search, json!("build")),
        (RecallTool::Search, json!({})),
        (RecallTool::Search, json!({"query": ""})),
        (RecallTool::Search, json!({"query": "  "})),
        (RecallTool::Search, json!({"query": 7})),
        (RecallTool::Search, json!({"query": ["build"]})),
        (RecallTool::Search, json!({"query": {"$ne": null}})),
        (RecallTool::Search, json!({"query": "build", "limit": -1})),
        (RecallTool::Search, json!({"query": "build", "limit": "many"})),
        (RecallTool::Search, json!({"query": "build", "limit": 2.5})),
        (RecallTool::Search, json!({"query": "build", "tenant": "other"})),
        (RecallTool::Open, json!({})),
        (RecallTool::Open, json!({"recall_id": 12})),
        (RecallTool::Open, json!({"recall_id": "' OR 1=1 --"})),
        (RecallTool::Open, json!({"recall_id": "../../etc/passwd"})),
        (RecallTool::Open, json!({"recall_id": "zzzzzzzzzz"})),
        (RecallTool::Open, json!({"recall_id": "\u{0}"})),
        (RecallTool::Open, json!({"recall_id": format!("{recall_id}\u{0}")})),
        (RecallTool::Open, json!({"recall_id": format!("{recall_id}%")})),
        (RecallTool::Open, json!({"recall_id": megabyte})),
        (RecallTool::Open, json!({"recall_id": recall_id, "from": -1})),
        (RecallTool::Open, json!({"recall_id": recall_id, "from": u64::MAX})),
        (RecallTool::Open, json!({"recall_id": recall_id, "from": 1e30})),
        (RecallTool::Open, json!({"recall_id": recall_id, "path": "/etc/passwd"})),
        (RecallTool::Outline, json!({"from": -3})),
        (RecallTool::Outline, json!({"from": 1_000_000})),
        (RecallTool::Outline, json!({"from": "\u{202e}1"})),
        (RecallTool::Outline, json!({megabyte.clone(): 1})),
    ];
    for (tool, arguments) in cases {
        let answer = reach.call(tool, &arguments).await;
        let shown = arguments.to_string().chars().take(80).collect::<String>();
        assert!(answer.is_error, "{tool:?} {shown}: {}", answer.text);
        assert!(answer.text.chars().count() < 250, "{tool:?} {shown}: {}", answer.text);
        assert!(!answer.text.contains(char::is_control), "{tool:?} {shown}: {:?}", answer.text);
    }
}

#[tokio::test]
async fn strange_queries_are_searched_for_and_nothing_else() {
    let (reach, _) = compacted(ApiFormat::Chat, &long_session(), 2_000).await;
    let megabyte = "compiling unit ' \" * ".repeat(50_000);
    for query in ["'; DROP TABLE messages; --", "a\u{0}b", "%", "\u{202e}", "held:parse OR *", megabyte.as_str()] {
        let found = ask(&reach, RecallTool::Search, json!({"query": query, "limit": 1_000_000})).await;
        assert!(found.chars().count() < 20_000);
    }
    let found = ask(&reach, RecallTool::Search, json!({"query": "compiling unit", "limit": 0})).await;
    assert!(found.contains("\n1. ") && !found.contains("\n2. "), "{found}");
    ask(&reach, RecallTool::Outline, json!({})).await;
}

#[tokio::test]
async fn a_handle_of_another_tenant_or_another_family_is_unknown() {
    let (reach, outcome) = compacted(ApiFormat::Chat, &long_session(), 2_000).await;
    let recall_id = &outcome.originals[0].recall_id;
    let stranger = reach.store.get_or_create_tenant("stranger").await.unwrap();
    let (own, _) = compact(&reach.store, &stranger, &body(ApiFormat::Chat, &long_session()), 2_000).await;
    let elsewhere = super::speech::record(&reach.store, &reach.tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await;
    let foreign = RecallScope { tenant: stranger.clone(), session: own, ..reach.clone() };
    let mixed = RecallScope { tenant: stranger, ..reach.clone() };
    let relative = RecallScope { session: elsewhere.session, ..reach.clone() };
    for other in [&foreign, &mixed, &relative] {
        let answer = other.call(RecallTool::Open, &json!({"recall_id": recall_id})).await;
        assert!(answer.is_error && answer.text.contains("has no recall ID"), "{}", answer.text);
    }
    for tool in [RecallTool::Search, RecallTool::Outline] {
        let arguments = if tool == RecallTool::Search { json!({"query": "make target3"}) } else { Value::Null };
        let answer = mixed.call(tool, &arguments).await;
        assert!(!answer.text.contains("target3\""), "{}", answer.text);
    }
    ask(&reach, RecallTool::Open, json!({"recall_id": recall_id})).await;
}
