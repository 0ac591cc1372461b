//! The views of a session: commits, undo and redo, and sessions that begin anew.

use longhaul_engine::ApiFormat;
use longhaul_engine::Timestamp;
use longhaul_engine::redact::Rules;
use longhaul_server::store::{
    CommitOptions, CommitOutcome, HeadMove, HistoryPoint, SessionOrigin, SessionStatus, Store, StoreError,
    StoredSession, Tenant,
};

use super::ground::Ground;
use super::speech::{
    DIALECTS, NOON, body, compact, keep, long_session, outcome, parsed, record, recorded, replayed, reply, restarting,
    steps, too_much, user,
};

tests! {
    Both: [
        undo_goes_back_and_redo_goes_to_the_newest,
        a_commit_on_a_stale_view_is_overtaken_and_leaves_nothing,
        no_outcome_depends_on_a_clock,
        a_view_of_more_than_the_log_has_is_refused,
        a_session_that_began_anew_goes_on_in_its_child,
        a_child_goes_on_after_its_archived_parent_was_deleted,
    ],
}

#[track_caller]
fn done(committed: CommitOutcome) -> (StoredSession, usize) {
    match committed {
        CommitOutcome::Done { session, number } => (session, number),
        other => panic!("{other:?}"),
    }
}

/// Which view a head was moved to.
#[track_caller]
fn number(moved: HeadMove) -> Option<usize> {
    match moved {
        HeadMove::To(compaction) => compaction.map(|compaction| compaction.number),
        HeadMove::NoTarget => panic!("there is nothing on that side"),
    }
}

async fn head(store: &Store, tenant: &Tenant, session: &StoredSession) -> StoredSession {
    store.session_by_name(tenant, &session.name).await.unwrap()
}

async fn undo_goes_back_and_redo_goes_to_the_newest(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let mut bodies = Vec::new();
    for more in 1..=3 {
        let sent = body(ApiFormat::Chat, &turns);
        let (session, outcome) = compact(&store, &tenant, &sent, 2_000).await;
        assert!(!session.is_undone);
        bodies.push(outcome.body);
        turns.extend(steps(20 * more, 12, 40));
        turns.push(user("And on."));
    }
    let sent = body(ApiFormat::Chat, &turns[..long_session().len() + 26]);
    let session = record(&store, &tenant, &sent).await.session;
    let id = session.id;
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(2));
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    assert!(head(&store, &tenant, &session).await.is_undone, "nothing is compacted that need not be");
    let now = store.body_at(&tenant, &head(&store, &tenant, &session).await, HistoryPoint::Now).await.unwrap();
    let begins = bodies[0].trim_end_matches("]}");
    assert!(now.starts_with(begins), "the first view, with all that came later");
    assert_eq!(number(store.redo(&tenant, id).await.unwrap()), Some(2));
    assert!(!head(&store, &tenant, &session).await.is_undone);
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    // A new compaction from there: redo goes to it from now on, and the old ones are still known by number.
    let recorded = record(&store, &tenant, &sent).await;
    assert_eq!((recorded.view.compaction_number, recorded.view.base), (Some(1), recorded.session.head));
    let fresh = outcome(&recorded, &sent, 3_000);
    let (session, made) = done(keep(&store, &tenant, &recorded, &sent, &fresh).await.unwrap());
    assert_eq!(made, 4);
    assert!(matches!(store.redo(&tenant, id).await.unwrap(), HeadMove::NoTarget));
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    assert_eq!(number(store.redo(&tenant, id).await.unwrap()), Some(4));
    assert_eq!(store.body_at(&tenant, &session, HistoryPoint::Compaction(3)).await.unwrap(), bodies[2]);
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), None);
    let session = head(&store, &tenant, &session).await;
    assert_eq!(
        store.body_at(&tenant, &session, HistoryPoint::Now).await.unwrap(),
        sent,
        "the client's own words again"
    );
    assert!(matches!(store.undo(&tenant, id).await.unwrap(), HeadMove::NoTarget));
}

async fn a_commit_on_a_stale_view_is_overtaken_and_leaves_nothing(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let sent = body(api_format, &long_session());
        let first = record(&store, &tenant, &sent).await;
        let second = record(&store, &tenant, &sent).await;
        let outcome = outcome(&first, &sent, 2_000);
        let (session, _) = done(keep(&store, &tenant, &first, &sent, &outcome).await.unwrap());
        let rows = ground.rows().await;
        let late = keep(&store, &tenant, &second, &sent, &outcome).await.unwrap();
        assert!(matches!(late, CommitOutcome::Conflict), "{late:?}");
        // To undo is to move the head, too.
        let third = record(&store, &tenant, &sent).await;
        store.undo(&tenant, session.id).await.unwrap();
        let late = keep(&store, &tenant, &third, &sent, &outcome).await.unwrap();
        assert!(matches!(late, CommitOutcome::Conflict), "{late:?}");
        assert_eq!(ground.rows().await, rows);
        // What was appended meanwhile does not overtake a compaction.
        let fourth = record(&store, &tenant, &sent).await;
        let mut turns = long_session();
        turns.push(reply("Meanwhile."));
        let longer = body(api_format, &turns);
        record(&store, &tenant, &longer).await;
        let (session, _) = done(keep(&store, &tenant, &fourth, &sent, &outcome).await.unwrap());
        let after = record(&store, &tenant, &longer).await;
        assert_eq!(after.session.head, session.head);
        assert_eq!(store.body_at(&tenant, &after.session, HistoryPoint::Now).await.unwrap(), replayed(&after, &longer));
    }
}

async fn no_outcome_depends_on_a_clock(ground: Ground) {
    const DAY: i64 = 86_400_000;
    let (store, tenant) = ground.opened().await;
    // One clock goes on, one goes back and forth by days, one stands still at nothing.
    let clocks: [fn(i64) -> i64; 3] = [|n| NOON.0 + n, |n| NOON.0 + if n % 2 == 0 { DAY * n } else { -DAY * n }, |_| 0];
    let mut told = Vec::new();
    for (which, clock) in clocks.into_iter().enumerate() {
        let mut ticks = 0;
        let mut tick = || {
            ticks += 1;
            Timestamp(clock(ticks))
        };
        let mut story = Vec::new();
        let mut turns = long_session();
        turns[0] = user(&format!("Make build {which} green."));
        for round in 1..=3 {
            let sent = body(ApiFormat::Messages, &turns);
            let first = recorded(&store, &tenant, &sent, tick()).await.unwrap();
            let second = recorded(&store, &tenant, &sent, tick()).await.unwrap();
            story.push(format!(
                "{} {} {:?}",
                first.session.path_length, first.new_messages, first.view.compaction_number
            ));
            let outcome = outcome(&first, &sent, 2_000);
            for recorded in [&first, &second] {
                let (transcript, rules) = (parsed(&sent), Rules::default());
                let how = CommitOptions { rules: &rules, at: tick() };
                let kept = store.commit_compaction(&tenant, recorded, &transcript, &outcome, how).await;
                story.push(match kept.unwrap() {
                    CommitOutcome::Done { number, .. } => format!("done {number}"),
                    CommitOutcome::Conflict => "overtaken".to_owned(),
                    CommitOutcome::Outdated => "behind".to_owned(),
                });
            }
            turns.extend(steps(20 * round, 12, 40));
            turns.push(user("And on."));
        }
        let session = recorded(&store, &tenant, &body(ApiFormat::Messages, &turns), tick()).await.unwrap().session;
        let order: Vec<usize> =
            store.requests(&tenant, &session).await.unwrap().iter().map(|r| r.path_length).collect();
        story.push(format!("{order:?} {:?}", number(store.undo(&tenant, session.id).await.unwrap())));
        told.push(story);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
    assert_eq!(told[0][1..3], ["done 1", "overtaken"]);
}

async fn a_view_of_more_than_the_log_has_is_refused(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(ApiFormat::Chat, &long_session());
    let first = record(&store, &tenant, &sent).await;
    let outcome = outcome(&first, &sent, 2_000);
    let other = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Another one.")])).await;
    let rows = ground.rows().await;
    let error = keep(&store, &tenant, &other, &sent, &outcome).await.unwrap_err();
    assert!(matches!(error, StoreError::InvalidInput(_)), "{error}");
    assert_eq!(ground.rows().await, rows);
}

async fn a_session_that_began_anew_goes_on_in_its_child(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(ApiFormat::Chat, &too_much(&[]));
    let first = record(&store, &tenant, &sent).await;
    let outcome = restarting(&first, &sent);
    assert!(outcome.report.restart.is_some(), "{:?}", outcome.report.ladder);
    let (child, _) = done(keep(&store, &tenant, &first, &sent, &outcome).await.unwrap());
    assert_ne!(child.id, first.session.id);
    assert_eq!((child.origin, child.parent), (SessionOrigin::Restart, Some(first.session.id)));
    assert_eq!((child.first_own_message, child.path_length), (first.session.path_length, first.session.path_length));
    assert_eq!(child.key, first.session.key);
    assert_eq!(head(&store, &tenant, &first.session).await.status, SessionStatus::Archived);
    assert_eq!(store.body_at(&tenant, &child, HistoryPoint::Now).await.unwrap(), outcome.body);
    assert_eq!(store.body_at(&tenant, &child, HistoryPoint::Original).await.unwrap(), sent);
    // Sent once more as it was, and longer: both are the child's.
    let again = record(&store, &tenant, &sent).await;
    assert_eq!((again.session.id, again.new_messages, again.view.compaction_number), (child.id, 0, Some(1)));
    let mut turns = too_much(&[reply("Going on.")]);
    for more in 0..3 {
        let longer = body(ApiFormat::Chat, &turns);
        let next = record(&store, &tenant, &longer).await;
        assert_eq!((next.session.id, next.new_messages), (child.id, 1));
        assert_eq!(store.body_at(&tenant, &next.session, HistoryPoint::Now).await.unwrap(), replayed(&next, &longer));
        turns.push(user(&format!("More {more}.")));
    }
    for original in &outcome.originals {
        let found = store.recall(&tenant, Some(&child), &original.recall_id).await.unwrap();
        assert_eq!(found.text.as_str(), original.text);
    }
    // Nobody commits to what was archived.
    let stale = keep(&store, &tenant, &first, &sent, &outcome).await.unwrap();
    assert!(matches!(stale, CommitOutcome::Conflict), "{stale:?}");
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn a_child_goes_on_after_its_archived_parent_was_deleted(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(ApiFormat::Chat, &too_much(&[]));
    let first = record(&store, &tenant, &sent).await;
    let outcome = restarting(&first, &sent);
    let (child, _) = done(keep(&store, &tenant, &first, &sent, &outcome).await.unwrap());
    store.delete_session(&tenant, first.session.id).await.unwrap();
    let longer = body(ApiFormat::Chat, &too_much(&[reply("Going on.")]));
    let next = record(&store, &tenant, &longer).await;
    assert_eq!((next.session.id, next.new_messages, next.view.compaction_number), (child.id, 1, Some(1)));
    assert_eq!(store.body_at(&tenant, &next.session, HistoryPoint::Original).await.unwrap(), longer);
    assert!(store.check_integrity().await.unwrap().is_empty());
}
