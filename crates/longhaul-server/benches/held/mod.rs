//! Whether a value stands where a model could read it: in a body, or in a block of the store.

use longhaul_engine::Transcript;
use longhaul_server::store::{Store, StoredSession, Tenant};

/// All that a body says.
pub(crate) fn said(transcript: &Transcript<'_>) -> String {
    transcript.blocks().map(|block| block.text().into_owned() + "\n").collect()
}

/// Whether the block that a handle leads to holds a value.
pub(crate) async fn holds(
    store: &Store,
    tenant: &Tenant,
    session: &StoredSession,
    recall_id: &str,
    value: &str,
) -> bool {
    let recalled = store.recall(tenant, Some(session), recall_id).await.unwrap();
    recalled.text.as_str().contains(value) || recalled.tool.is_some_and(|tool| tool.contains(value))
}
