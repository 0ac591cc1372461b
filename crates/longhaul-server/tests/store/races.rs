//! Two at once: one wins, the other is told so, and no message is lost, doubled or out of order.

use longhaul_engine::ApiFormat;
use longhaul_engine::plan::{CompactedRequest, SessionRestart};
use longhaul_server::store::{
    CommitOutcome, HistoryPoint, SessionMatch, SessionOrigin, SessionStatus, Store, StoreError, Tenant,
};

use super::ground::Ground;
use super::speech::{NOON, Turn, around, bash, body, keep, outcome, record, recorded, reply, said, user};

tests! {
    Both: [
        of_two_compactions_one_wins,
        a_compaction_and_an_append_both_win,
        of_two_equal_histories_one_session_is_made,
        of_two_endings_of_one_history_one_forks,
        an_append_beside_a_new_beginning_loses_nothing,
        an_append_beside_a_deletion_leaves_nothing_half,
        a_deletion_takes_nothing_from_a_session_beside_it,
    ],
}

const RACES: usize = 1_000;

/// A small session with something to compact.
fn small(name: &str) -> Vec<Turn> {
    vec![
        user(&format!("Race {name}.")),
        bash("make", &"compiling a unit of the project\n".repeat(60)),
        reply("Done."),
        user("On."),
    ]
}

/// Two programs on one store, and a tenant of both.
async fn two(ground: &Ground) -> (Store, Store, Tenant) {
    let (one, tenant) = ground.opened().await;
    (one, ground.open().await, tenant)
}

/// A session, its body, and a compaction of it that serves for all races.
async fn begun(store: &Store, tenant: &Tenant, name: &str) -> (String, SessionMatch, CompactedRequest) {
    let sent = body(ApiFormat::Messages, &small(name));
    let recorded = record(store, tenant, &sent).await;
    let outcome = outcome(&recorded, &sent, 200);
    (sent, recorded, outcome)
}

async fn of_two_compactions_one_wins(ground: Ground) {
    let (one, two, tenant) = two(&ground).await;
    let (sent, mut recorded, outcome) = begun(&one, &tenant, "of compactions").await;
    for race in 0..RACES {
        let (first, second) = tokio::join!(
            spawned(&one, &tenant, &recorded, &sent, &outcome),
            spawned(&two, &tenant, &recorded, &sent, &outcome),
        );
        let (won, lost) = match (&first, &second) {
            (CommitOutcome::Done { .. }, _) => (first, second),
            _ => (second, first),
        };
        let CommitOutcome::Done { session, number } = won else { panic!("race {race}: nobody won") };
        assert_eq!(number, race + 1);
        assert!(matches!(lost, CommitOutcome::Conflict), "race {race}: {lost:?}");
        recorded.view.base = session.head;
    }
    let session = record(&two, &tenant, &sent).await.session;
    assert_eq!(session.head, recorded.view.base);
    assert_eq!(one.compactions(&tenant, &session).await.unwrap().len(), RACES);
    assert_eq!(one.body_at(&tenant, &session, HistoryPoint::Original).await.unwrap(), sent);
    assert!(one.check_integrity().await.unwrap().is_empty());
}

/// Keeps on a task of its own, so that both really run at once.
async fn spawned(
    store: &Store,
    tenant: &Tenant,
    recorded: &SessionMatch,
    sent: &str,
    outcome: &CompactedRequest,
) -> CommitOutcome {
    let (store, tenant, recorded) = (store.clone(), tenant.clone(), recorded.clone());
    let (sent, outcome) = (sent.to_owned(), outcome.clone());
    let kept = tokio::spawn(async move { keep(&store, &tenant, &recorded, &sent, &outcome).await });
    kept.await.unwrap().unwrap()
}

/// Records on a task of its own.
async fn sending(store: &Store, tenant: &Tenant, sent: &str) -> SessionMatch {
    let (store, tenant, sent) = (store.clone(), tenant.clone(), sent.to_owned());
    tokio::spawn(async move { record(&store, &tenant, &sent).await }).await.unwrap()
}

async fn a_compaction_and_an_append_both_win(ground: Ground) {
    const APPENDS: usize = 25;
    let (one, two, tenant) = two(&ground).await;
    for round in 0..RACES / APPENDS {
        let name = format!("beside appends {round}");
        let (sent, mut recorded, outcome) = begun(&one, &tenant, &name).await;
        let mut turns = small(&name);
        for race in 0..APPENDS {
            turns.push(if race % 2 == 0 { reply(&format!("So {race}.")) } else { user(&format!("And {race}?")) });
            let longer = body(ApiFormat::Messages, &turns);
            let (committed, appended) =
                tokio::join!(spawned(&one, &tenant, &recorded, &sent, &outcome), sending(&two, &tenant, &longer));
            let CommitOutcome::Done { session, number } = committed else { panic!("{round}, {race}: {committed:?}") };
            assert_eq!(
                (appended.session.id, appended.new_messages, number),
                (session.id, 1, race + 1),
                "{round}, {race}"
            );
            recorded.view.base = session.head;
        }
        let sent = body(ApiFormat::Messages, &turns);
        let session = record(&one, &tenant, &sent).await.session;
        assert_eq!(two.body_at(&tenant, &session, HistoryPoint::Original).await.unwrap(), sent);
        assert_eq!(session.head, recorded.view.base);
    }
    assert_eq!(one.sessions(&tenant, RACES).await.unwrap().len(), RACES / APPENDS, "nothing was forked");
    assert!(one.check_integrity().await.unwrap().is_empty());
}

async fn of_two_equal_histories_one_session_is_made(ground: Ground) {
    let (one, two, tenant) = two(&ground).await;
    for race in 0..200 {
        let sent = body(ApiFormat::Messages, &small(&format!("of equals {race}")));
        let (first, second) = tokio::join!(sending(&one, &tenant, &sent), sending(&two, &tenant, &sent));
        assert_eq!(first.session.id, second.session.id);
        assert_eq!(first.session.key, second.session.key);
        assert_eq!(first.new_messages + second.new_messages, first.session.path_length, "written once");
        assert_eq!(one.body_at(&tenant, &first.session, HistoryPoint::Original).await.unwrap(), sent);
    }
    assert!(one.check_integrity().await.unwrap().is_empty());
}

async fn of_two_endings_of_one_history_one_forks(ground: Ground) {
    let (one, two, tenant) = two(&ground).await;
    for race in 0..200 {
        let turns = small(&format!("of endings {race}"));
        record(&one, &tenant, &body(ApiFormat::Messages, &turns)).await;
        let ending = |words: &str| body(ApiFormat::Messages, &[turns.clone(), vec![reply(words)]].concat());
        let (left, right) = (ending("left"), ending("right"));
        let (first, second) = tokio::join!(sending(&one, &tenant, &left), sending(&two, &tenant, &right));
        assert_ne!(first.session.id, second.session.id);
        let forks = [&first, &second].iter().filter(|recorded| recorded.session.origin == SessionOrigin::Fork).count();
        assert_eq!((forks, first.new_messages, second.new_messages), (1, 1, 1));
        assert_eq!(one.body_at(&tenant, &first.session, HistoryPoint::Original).await.unwrap(), left);
        assert_eq!(one.body_at(&tenant, &second.session, HistoryPoint::Original).await.unwrap(), right);
    }
    assert!(one.check_integrity().await.unwrap().is_empty());
}

async fn an_append_beside_a_new_beginning_loses_nothing(ground: Ground) {
    let (one, two, tenant) = two(&ground).await;
    for race in 0..200 {
        let name = format!("beside beginnings {race}");
        let (sent, recorded, mut outcome) = begun(&one, &tenant, &name).await;
        outcome.report.restart = Some(SessionRestart { parent: None, archived_messages: 1 });
        let mut turns = small(&name);
        turns.push(reply("Meanwhile."));
        let longer = body(ApiFormat::Messages, &turns);
        let (committed, appended) =
            tokio::join!(spawned(&one, &tenant, &recorded, &sent, &outcome), sending(&two, &tenant, &longer));
        let CommitOutcome::Done { session: child, .. } = committed else { panic!("{race}: {committed:?}") };
        assert_eq!(child.origin, SessionOrigin::Restart);
        assert_eq!(appended.new_messages, 1);
        // Whoever was first, what comes next goes to the child and finds everything.
        turns.push(user("And then?"));
        let next = body(ApiFormat::Messages, &turns);
        let later = record(&two, &tenant, &next).await;
        assert_eq!((later.session.id, later.new_messages), (child.id, 1), "race {race}");
        assert_eq!(one.body_at(&tenant, &later.session, HistoryPoint::Original).await.unwrap(), next, "race {race}");
    }
    let faults = one.check_integrity().await.unwrap();
    assert!(faults.is_empty(), "{faults:?}");
}

async fn an_append_beside_a_deletion_leaves_nothing_half(ground: Ground) {
    let (one, two, tenant) = two(&ground).await;
    for race in 0..200 {
        let name = format!("beside deletions {race}");
        let mut turns = small(&name);
        let session = record(&one, &tenant, &body(ApiFormat::Messages, &turns)).await.session;
        turns.push(reply("Meanwhile."));
        let longer = body(ApiFormat::Messages, &turns);
        let (deleting, deleted) = ((one.clone(), tenant.clone()), session.id);
        let deletion = tokio::spawn(async move { deleting.0.delete_session(&deleting.1, deleted).await });
        let (_, appended) = tokio::join!(deletion, async {
            let (store, tenant, longer) = (two.clone(), tenant.clone(), longer.clone());
            tokio::spawn(async move { recorded(&store, &tenant, &longer, NOON).await }).await.unwrap()
        });
        // Either it was appended and went with the rest, or it began anew; it is there whole or not at all.
        let appended = appended.unwrap_or_else(|error| panic!("race {race}: {error}"));
        match two.session_by_name(&tenant, &appended.session.name).await {
            Ok(there) => {
                assert_eq!(there.status, SessionStatus::Live);
                assert_eq!(two.body_at(&tenant, &there, HistoryPoint::Original).await.unwrap(), longer, "race {race}");
                two.delete_session(&tenant, there.id).await.unwrap();
            }
            Err(error) => assert!(matches!(error, StoreError::NotFound(_)), "race {race}: {error}"),
        }
        assert_eq!(said(&longer), appended.session.path_length);
        assert_eq!(ground.number("SELECT count(*) FROM messages").await, 0, "race {race}");
    }
    assert!(one.check_integrity().await.unwrap().is_empty());
}

async fn a_deletion_takes_nothing_from_a_session_beside_it(ground: Ground) {
    let (one, two, tenant) = two(&ground).await;
    // What stands around the messages is kept once for both.
    let wrapped = |name: &str, race: usize| {
        let long = format!("Be careful {race}. ").repeat(40);
        around(ApiFormat::Messages, &long, &long, &small(name)).to_string()
    };
    for race in 0..200 {
        let goes = record(&one, &tenant, &wrapped("goes", race)).await.session.id;
        let sent = wrapped(&format!("stays {race}"), race);
        let deleting = (one.clone(), tenant.clone());
        let deletion = tokio::spawn(async move { deleting.0.delete_session(&deleting.1, goes).await });
        let (deleted, stays) = tokio::join!(deletion, sending(&two, &tenant, &sent));
        deleted.unwrap().unwrap();
        let given = one.body_at(&tenant, &stays.session, HistoryPoint::Original).await;
        assert_eq!(given.unwrap_or_else(|error| panic!("race {race}: {error}")), sent);
    }
}
