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

use longhaul_engine::Dialect;
use longhaul_engine::plan::Outcome;
use longhaul_server::recall::{Answer, Reach, Tool};
use longhaul_server::store::{Place, Store, Sync};
use serde_json::Value;

use speech::{Turn, body, compact};

/// A session that was compacted to so many tokens.
async fn compacted(dialect: Dialect, turns: &[Turn], tokens: u64) -> (Reach, Outcome) {
    let store = Store::open(&Place::Memory, Sync::Normal).await.unwrap();
    let tenant = store.tenant("local").await.unwrap();
    let (session, outcome) = compact(&store, &tenant, &body(dialect, turns), tokens).await;
    (Reach { store, tenant, session }, outcome)
}

/// An answer that is none of an error.
#[track_caller]
fn given(answer: Answer) -> String {
    assert!(!answer.is_error, "{}", answer.text);
    answer.text
}

/// A call that must work.
async fn ask(reach: &Reach, tool: Tool, arguments: Value) -> String {
    given(reach.answer(tool, &arguments).await)
}
