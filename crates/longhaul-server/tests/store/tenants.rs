//! Two tenants of one store who say the same: neither ever sees, finds or changes anything of the other's.

use std::fmt::Write as _;

use longhaul_engine::ApiFormat;
use longhaul_engine::Timestamp;
use longhaul_server::store::{
    CommitOutcome, CompactionId, ExampleContent, HistoryPoint, Result, RetentionLimits, SearchScope, Store, StoreError,
    StoredSession, Tenant,
};

use super::ground::{Dice, Ground};
use super::speech::{DIALECTS, NOON, Turn, body, keep, long_session, outcome, parsed, record, recorded, reply, user};

tests! {
    Both: [
        neither_tenant_sees_anything_of_the_other,
        no_identity_is_the_same_for_two_tenants,
        who_owns_the_store_finds_everybody_in_it,
    ],
}

/// So many times somebody does something.
const DEEDS: usize = 60;

/// What a tenant has, as far as the test knows.
struct Party {
    tenant: Tenant,
    sessions: Vec<StoredSession>,
    handles: Vec<String>,
    epochs: Vec<CompactionId>,
}

/// Histories that both tenants have, in whatever state.
fn histories() -> Vec<(ApiFormat, Vec<Turn>)> {
    let mut all = Vec::new();
    for api_format in DIALECTS {
        for ending in ["quince", "medlar"] {
            all.push((api_format, [long_session(), vec![reply(ending), user("Go on.")]].concat()));
        }
    }
    all
}

async fn neither_tenant_sees_anything_of_the_other(ground: Ground) {
    let store = ground.open().await;
    let mut parties = Vec::new();
    for name in ["one", "two"] {
        let tenant = store.get_or_create_tenant(name).await.unwrap();
        parties.push(Party { tenant, sessions: vec![], handles: vec![], epochs: vec![] });
    }
    let mut dice = Dice::new(7);
    let mut kinds = [0; 5];
    for deed in 0..DEEDS {
        let who = dice.below(2);
        let [mine, theirs] = if who == 0 { [0, 1] } else { [1, 0] };
        let before = account(&store, &parties[theirs]).await;
        let kind = dice.below(7).min(4);
        kinds[kind] += 1;
        act(&store, &mut parties[mine], kind, &mut dice).await;
        assert_eq!(account(&store, &parties[theirs]).await, before, "deed {deed}, of kind {kind}, changed the other's");
        if deed % 4 == 3 {
            for [mine, theirs] in [[0, 1], [1, 0]] {
                pry(&store, &parties[mine].tenant, &parties[theirs]).await;
            }
            assert_eq!(account(&store, &parties[theirs]).await, before, "prying changed something");
        }
    }
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    assert!(parties.iter().all(|party| !party.handles.is_empty() && !party.epochs.is_empty()));
    assert!(store.check_integrity().await.unwrap().is_empty());
}

/// Something that a tenant does with its own.
async fn act(store: &Store, party: &mut Party, kind: usize, dice: &mut Dice) {
    let tenant = party.tenant.clone();
    let session = (!party.sessions.is_empty()).then(|| dice.below(party.sessions.len()));
    match (kind, session) {
        (0, Some(at)) => drop(store.undo(&tenant, party.sessions[at].id).await),
        (1, Some(at)) => drop(store.redo(&tenant, party.sessions[at].id).await),
        (2, Some(at)) => {
            let session = party.sessions.swap_remove(at);
            drop(store.delete_session(&tenant, session.id).await);
        }
        (3, Some(_)) => {
            let expiry = RetentionLimits { updated_before: Some(Timestamp(NOON.0 - 1)), max_bytes: None };
            drop(store.enforce_retention(&[tenant.clone()], expiry).await.unwrap());
        }
        _ => {
            let all = histories();
            let (api_format, turns) = &all[dice.below(all.len())];
            let sent = body(*api_format, &turns[..turns.len() - dice.below(3)]);
            let at = Timestamp(NOON.0 + dice.below(1_000) as i64);
            let recorded = recorded(store, &tenant, &sent, at).await.unwrap();
            if dice.below(2) == 0 {
                let outcome = outcome(&recorded, &sent, 1_500 + 100 * dice.below(10) as u64);
                party.handles.extend(outcome.originals.iter().map(|original| original.recall_id.clone()));
                if let CommitOutcome::Done { session, .. } =
                    keep(store, &tenant, &recorded, &sent, &outcome).await.unwrap()
                {
                    party.epochs.extend(session.head);
                }
            }
            party.sessions.retain(|session| session.id != recorded.session.id);
            party.sessions.push(recorded.session);
        }
    }
}

/// All that a tenant is told about its own, as text.
async fn account(store: &Store, party: &Party) -> String {
    let (tenant, mut told) = (&party.tenant, String::new());
    for session in store.sessions(tenant, 100).await.unwrap() {
        writeln!(told, "{session:?}").unwrap();
        writeln!(told, "{:?}", store.session_by_name(tenant, &session.name).await).unwrap();
        writeln!(told, "{:?}", store.lineage(tenant, &session).await).unwrap();
        writeln!(told, "{:?}", store.requests(tenant, &session).await).unwrap();
        for compaction in store.compactions(tenant, &session).await.unwrap() {
            writeln!(told, "{:?} {}", compaction.id, compaction.report).unwrap();
        }
        writeln!(told, "{:?}", store.body_at(tenant, &session, HistoryPoint::Now).await).unwrap();
        writeln!(told, "{:?}", store.search(tenant, &session, SearchScope::Family, "quince step 7", 3).await).unwrap();
    }
    for recall_id in party.handles.iter().rev().take(5) {
        writeln!(told, "{:?}", store.recall(tenant, None, recall_id).await).unwrap();
    }
    told
}

fn is_unknown<T: std::fmt::Debug>(answer: Result<T>, what: &str) {
    let error = answer.expect_err(what);
    assert!(matches!(error, StoreError::NotFound(_)), "{what}: {error:?}");
}

/// Asks for everything of the other's by its own names and numbers.
async fn pry(store: &Store, tenant: &Tenant, other: &Party) {
    let own = store.sessions(tenant, 100).await.unwrap();
    let newest = own.iter().map(|session| session.name.clone()).next();
    let latest = store.session_by_name(tenant, "latest").await.ok().map(|session| session.name);
    assert_eq!(latest, newest);
    for theirs in &other.sessions {
        assert!(own.iter().all(|session| session.id != theirs.id && session.name != theirs.name));
        is_unknown(store.session_by_name(tenant, &theirs.name).await, "session");
        is_unknown(store.session_by_name(tenant, &theirs.name[..9]).await, "session by its beginning");
        let lineage = store.lineage(tenant, theirs).await.unwrap();
        assert!(lineage.ancestors.is_empty() && lineage.children.is_empty());
        assert!(store.requests(tenant, theirs).await.unwrap().is_empty());
        assert!(store.compactions(tenant, theirs).await.unwrap().is_empty());
        for scope in [SearchScope::Session, SearchScope::Family] {
            for query in ["quince", "error", "mismatched types", "ismatche", "make target3"] {
                let hits = store.search(tenant, theirs, scope, query, 5).await.unwrap();
                assert!(hits.is_empty(), "{query}: {hits:?}");
            }
        }
        for time in [HistoryPoint::Now, HistoryPoint::Original, HistoryPoint::Compaction(1), HistoryPoint::Request(1)] {
            is_unknown(store.body_at(tenant, theirs, time).await, "body");
        }
        for words in [ExampleContent::AsShown, ExampleContent::Original] {
            is_unknown(store.examples(tenant, theirs, words).await.map(|_| ()), "examples");
        }
        is_unknown(store.undo(tenant, theirs.id).await, "undo");
        is_unknown(store.redo(tenant, theirs.id).await, "redo");
        is_unknown(store.delete_session(tenant, theirs.id).await, "delete");
        for recall_id in other.handles.iter().rev().take(5) {
            is_unknown(store.recall(tenant, Some(theirs), recall_id).await, "recall in their session");
        }
    }
    for compaction in &other.epochs {
        assert!(store.compaction(tenant, *compaction).await.unwrap().is_none());
    }
    for recall_id in other.handles.iter().rev().take(10) {
        is_unknown(store.recall(tenant, None, recall_id).await, "recall");
        for own in own.iter().take(2) {
            is_unknown(store.recall(tenant, Some(own), recall_id).await, "recall in a session of one's own");
        }
    }
}

async fn no_identity_is_the_same_for_two_tenants(ground: Ground) {
    let store = ground.open().await;
    let (one, two) =
        (store.get_or_create_tenant("one").await.unwrap(), store.get_or_create_tenant("two").await.unwrap());
    for api_format in DIALECTS {
        let sent = body(api_format, &long_session());
        let transcript = parsed(&sent);
        let chains = [one.hasher().hash_chain(&transcript), two.hasher().hash_chain(&transcript)];
        assert!(chains[0].iter().all(|identity| !chains[1].contains(identity)));
        let again = store.get_or_create_tenant("one").await.unwrap().hasher().hash_chain(&transcript);
        assert_eq!(chains[0], again, "a tenant keeps its key");
        let (first, second) = (record(&store, &one, &sent).await, record(&store, &two, &sent).await);
        assert_eq!((first.new_messages, second.new_messages), (first.session.path_length, second.session.path_length));
        assert_ne!(first.session.key, second.session.key);
        assert_ne!(first.session.name, second.session.name);
        // Nothing is stored once for both, not even what stands around the messages.
        for table in ["messages", "envelopes", "chunks"] {
            let shared = format!(
                "SELECT count(*) FROM {table} a JOIN {table} b ON a.identity = b.identity WHERE a.tenant < b.tenant"
            );
            assert_eq!(ground.number(&shared).await, 0);
        }
    }
}

async fn who_owns_the_store_finds_everybody_in_it(ground: Ground) {
    let store = ground.open().await;
    assert!(store.tenants().await.unwrap().is_empty());
    let said = body(ApiFormat::Chat, &[user("Hello.")]);
    for name in ["one", "two", "it's \"three\""] {
        let tenant = store.get_or_create_tenant(name).await.unwrap();
        record(&store, &tenant, &said).await;
    }
    let tenants = store.tenants().await.unwrap();
    let names: Vec<&str> = tenants.iter().map(Tenant::name).collect();
    assert_eq!(names, ["one", "two", "it's \"three\""]);
    for tenant in &tenants {
        assert_eq!(store.sessions(tenant, 9).await.unwrap().len(), 1, "{}", tenant.name());
        assert_eq!(record(&store, tenant, &said).await.new_messages, 0, "each is who it was");
    }
}
