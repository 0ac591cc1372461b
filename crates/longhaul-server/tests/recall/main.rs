//! What holds of the recall tools: what they find, that every answer is framed and bounded, and that nothing a model writes breaks them.

#![allow(
    clippy::unwrap_used,
    clippy::similar_names,
    clippy::format_collect,
    reason = "all of it is test code, in functions too"
)]

mod answers;
mod hostile;
#[allow(dead_code, reason = "written for the store's tests, which use all of it")]
#[path = "../store/speech.rs"]
mod speech;

use longhaul_engine::ApiFormat;
use longhaul_engine::plan::CompactedRequest;
use longhaul_server::recall::{RecallScope, RecallTool, ToolAnswer};
use longhaul_server::store::{Durability, Store, StoreLocation};
use serde_json::Value;

use speech::{Turn, body, compact};

/// A session that was compacted to so many tokens.
async fn compacted(api_format: ApiFormat, turns: &[Turn], tokens: u64) -> (RecallScope, CompactedRequest) {
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    let (session, outcome) = compact(&store, &tenant, &body(api_format, turns), tokens).await;
    (RecallScope { store, tenant, session }, outcome)
}

/// An answer that is none of an error.
#[track_caller]
fn given(answer: ToolAnswer) -> String {
    assert!(!answer.is_error, "{}", answer.text);
    answer.text
}

/// A call that must work.
async fn ask(reach: &RecallScope, tool: RecallTool, arguments: Value) -> String {
    given(reach.call(tool, &arguments).await)
}
