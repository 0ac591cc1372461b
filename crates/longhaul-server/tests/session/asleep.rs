//! A session that lies in the store is compacted without a request of it, and its client's next one finds that done.

use longhaul_server::session::{
    CompressRequest, LiveSession, Preview, RequestAction, StoredCompaction, StoredOutcome, compact_stored,
};
use longhaul_server::store::{self, Durability, Store, StoreLocation, Tenant};

use super::world::{Agent, NOON, at, checkpoints, request, settings, valid};

const WINDOW: u64 = 100_000;

struct Kept {
    store: Store,
    tenant: Tenant,
}

impl Kept {
    async fn new() -> Self {
        let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
        let tenant = store.get_or_create_tenant("local").await.unwrap();
        Self { store, tenant }
    }

    fn session(&self) -> LiveSession {
        LiveSession::new(settings(WINDOW)).with_store(self.store.clone(), self.tenant.clone())
    }

    async fn latest(&self) -> store::StoredSession {
        self.store.session_by_name(&self.tenant, "latest").await.unwrap()
    }

    async fn compact(&self, compress: CompressRequest) -> Result<StoredCompaction, String> {
        let session = self.latest().await;
        compact_stored(&self.store, &self.tenant, &session, &settings(WINDOW), &compress, at(60)).await
    }
}

fn long() -> Agent {
    let mut agent = Agent::new();
    agent.fill(20_000);
    agent.says("user", "Now the parser of module4, please.");
    agent
}

#[tokio::test]
async fn the_next_request_is_sent_as_the_compaction_left_it() {
    let kept = Kept::new().await;
    let mut agent = long();
    let mut live = kept.session();
    assert_eq!(request(&mut live, &agent.body(), NOON).await.action, RequestAction::Unchanged);
    let done = kept.compact(CompressRequest::default()).await.unwrap();
    assert_eq!(done.outcome, StoredOutcome::Committed(1));
    assert!(done.is_committed() && done.obstacle.is_none());
    assert_eq!(done.before, agent.body());
    assert!(done.after.len() < done.before.len(), "{} of {}", done.after.len(), done.before.len());
    assert_eq!(done.report["trigger"], "manual");
    valid(&done.after);
    // For the session that is in memory, and for one after a restart.
    let body = agent.body();
    for session in [&mut live, &mut kept.session()] {
        let turn = request(session, &body, at(61)).await;
        assert_eq!(
            (turn.action, turn.body.as_ref()),
            (RequestAction::Replayed, done.after.as_str()),
            "{}",
            turn.reason
        );
    }
    // And again, when it has grown.
    agent.fill(36_000);
    agent.says("user", "And now the next one.");
    let body = agent.body();
    request(&mut live, &body, at(62)).await;
    let again = kept.compact(CompressRequest { keep_newest: Some(1), ..CompressRequest::default() }).await.unwrap();
    assert_eq!(again.outcome, StoredOutcome::Committed(2));
    assert_eq!(checkpoints(&again.after), 1);
    assert_eq!(request(&mut live, &body, at(63)).await.body, again.after);
}

#[tokio::test]
async fn a_preview_shows_both_sides_and_keeps_nothing() {
    let kept = Kept::new().await;
    let agent = long();
    request(&mut kept.session(), &agent.body(), NOON).await;
    let focus = Some("module4".to_owned());
    let shown =
        kept.compact(CompressRequest { focus, preview: Preview::Yes, ..CompressRequest::default() }).await.unwrap();
    assert_eq!(shown.outcome, StoredOutcome::Previewed);
    assert!(shown.after.len() < shown.before.len());
    assert_eq!(shown.report["focus"], "module4");
    let session = kept.latest().await;
    assert!(kept.store.compactions(&kept.tenant, &session).await.unwrap().is_empty());
}

#[tokio::test]
async fn nothing_to_do_is_said_and_changes_nothing() {
    let kept = Kept::new().await;
    request(&mut kept.session(), &long().body(), NOON).await;
    kept.compact(CompressRequest::default()).await.unwrap();
    let again = kept.compact(CompressRequest::default()).await.unwrap();
    assert_eq!(
        (again.outcome, again.before == again.after),
        (StoredOutcome::Unchanged, true),
        "{}",
        again.report["reason"]
    );
    assert!(!again.report["reason"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn what_held_secrets_cannot_be_compacted_from_here_and_that_is_said() {
    let kept = Kept::new().await;
    let mut agent = Agent::new();
    agent.says(
        "user",
        "The key is AKIAIOSFODNN7EXAMPLA, and AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzabcd01",
    );
    agent.says("assistant", "Noted.");
    agent.fill(20_000);
    agent.says("user", "Go on.");
    request(&mut kept.session(), &agent.body(), NOON).await;
    let refused = kept.compact(CompressRequest::default()).await.unwrap_err();
    assert!(refused.starts_with("message 2 of session ") && refused.contains("contained secrets"), "{refused}");
    assert!(!refused.contains('\n'), "{refused}");
    let preview = CompressRequest { preview: Preview::Yes, ..CompressRequest::default() };
    let shown = kept.compact(preview).await.unwrap();
    assert_eq!(shown.obstacle, Some(refused));
    assert!(!shown.before.contains("AKIAIOSFODNN7EXAMPLA"));
}

#[tokio::test]
async fn secrets_behind_what_is_compacted_are_in_nobodys_way() {
    let kept = Kept::new().await;
    let mut agent = long();
    agent.says("user", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzabcd01 is the key. Now go on.");
    let mut live = kept.session();
    let body = agent.body();
    request(&mut live, &body, NOON).await;
    kept.compact(CompressRequest::default()).await.unwrap();
    let turn = request(&mut live, &body, at(61)).await;
    assert_eq!(turn.action, RequestAction::Replayed, "{}", turn.reason);
    assert!(turn.body.contains("wJalrXUtnFEMIK7MDENGbPxRfiCYzzabcd01"), "the client's own words are sent");
}
