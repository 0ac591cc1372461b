//! The views of a session: commits, undo and redo, leases, and sessions that begin anew.

use longhaul_engine::Dialect;
use longhaul_engine::redact::Rules;
use longhaul_server::agents::Moment;
use longhaul_server::store::{
    At, Committed, Keeping, Lease, Leased, Moved, Reason, Recorded, Session, State, Store, StoreError, Tenant,
};

use super::ground::Ground;
use super::speech::{
    DIALECTS, NOON, body, compact, keep, long_session, outcome, parsed, record, recorded, replayed, reply,
    restarting, steps, too_much, user,
};

tests! {
    Both: [
        undo_goes_back_and_redo_goes_to_the_newest,
        a_commit_on_a_stale_view_is_overtaken_and_leaves_nothing,
        a_lease_is_one_holders_and_whoever_stood_still_is_fenced,
        a_lease_of_another_session_is_none,
        no_outcome_depends_on_a_clock,
        a_view_of_more_than_the_log_has_is_refused,
        a_session_that_began_anew_goes_on_in_its_child,
        a_child_goes_on_after_its_archived_parent_was_deleted,
    ],
}

#[track_caller]
fn done(committed: Committed) -> (Session, usize) {
    match committed {
        Committed::Done { session, number } => (session, number),
        other => panic!("{other:?}"),
    }
}

/// Which view a head was moved to.
#[track_caller]
fn number(moved: Moved) -> Option<usize> {
    match moved {
        Moved::To(epoch) => epoch.map(|epoch| epoch.number),
        Moved::Nowhere => panic!("there is nothing on that side"),
    }
}

async fn head(store: &Store, tenant: &Tenant, session: &Session) -> Session {
    store.session(tenant, &session.name).await.unwrap()
}

async fn undo_goes_back_and_redo_goes_to_the_newest(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let mut bodies = Vec::new();
    for more in 1..=3 {
        let sent = body(Dialect::Chat, &turns);
        let (session, outcome) = compact(&store, &tenant, &sent, 2_000).await;
        assert!(!session.held);
        bodies.push(outcome.body);
        turns.extend(steps(20 * more, 12, 40));
        turns.push(user("And on."));
    }
    let sent = body(Dialect::Chat, &turns[..long_session().len() + 26]);
    let session = record(&store, &tenant, &sent).await.session;
    let id = session.id;
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(2));
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    assert!(head(&store, &tenant, &session).await.held, "nothing is compacted that need not be");
    let now = store.body(&tenant, &head(&store, &tenant, &session).await, At::Now).await.unwrap();
    let begins = bodies[0].trim_end_matches("]}");
    assert!(now.starts_with(begins), "the first view, with all that came later");
    assert_eq!(number(store.redo(&tenant, id).await.unwrap()), Some(2));
    assert!(!head(&store, &tenant, &session).await.held);
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    // A new compaction from there: redo goes to it from now on, and the old ones are still known by number.
    let recorded = record(&store, &tenant, &sent).await;
    assert_eq!((recorded.view.number, recorded.view.base), (Some(1), recorded.session.head));
    let fresh = outcome(&recorded, &sent, 3_000);
    let (session, made) = done(keep(&store, &tenant, &recorded, &sent, &fresh).await.unwrap());
    assert_eq!(made, 4);
    assert!(matches!(store.redo(&tenant, id).await.unwrap(), Moved::Nowhere));
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    assert_eq!(number(store.redo(&tenant, id).await.unwrap()), Some(4));
    assert_eq!(store.body(&tenant, &session, At::Epoch(3)).await.unwrap(), bodies[2]);
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), Some(1));
    assert_eq!(number(store.undo(&tenant, id).await.unwrap()), None);
    let session = head(&store, &tenant, &session).await;
    assert_eq!(store.body(&tenant, &session, At::Now).await.unwrap(), sent, "the client's own words again");
    assert!(matches!(store.undo(&tenant, id).await.unwrap(), Moved::Nowhere));
}

async fn a_commit_on_a_stale_view_is_overtaken_and_leaves_nothing(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for dialect in DIALECTS {
        let sent = body(dialect, &long_session());
        let first = record(&store, &tenant, &sent).await;
        let second = record(&store, &tenant, &sent).await;
        let outcome = outcome(&first, &sent, 2_000);
        let (session, _) = done(keep(&store, &tenant, &first, &sent, &outcome).await.unwrap());
        let rows = ground.rows().await;
        let late = keep(&store, &tenant, &second, &sent, &outcome).await.unwrap();
        assert!(matches!(late, Committed::Overtaken), "{late:?}");
        // To undo is to move the head, too.
        let third = record(&store, &tenant, &sent).await;
        store.undo(&tenant, session.id).await.unwrap();
        let late = keep(&store, &tenant, &third, &sent, &outcome).await.unwrap();
        assert!(matches!(late, Committed::Overtaken), "{late:?}");
        assert_eq!(ground.rows().await, rows);
        // What was appended meanwhile does not overtake a compaction.
        let fourth = record(&store, &tenant, &sent).await;
        let mut turns = long_session();
        turns.push(reply("Meanwhile."));
        let longer = body(dialect, &turns);
        record(&store, &tenant, &longer).await;
        let (session, _) = done(keep(&store, &tenant, &fourth, &sent, &outcome).await.unwrap());
        let after = record(&store, &tenant, &longer).await;
        assert_eq!(after.session.head, session.head);
        assert_eq!(store.body(&tenant, &after.session, At::Now).await.unwrap(), replayed(&after, &longer));
    }
}

fn granted(leased: Leased) -> Lease {
    match leased {
        Leased::Granted(lease) => lease,
        Leased::Held(seen) => panic!("{seen:?} has it"),
    }
}

async fn under(store: &Store, tenant: &Tenant, recorded: &Recorded, sent: &str, lease: &Lease) -> Committed {
    let outcome = outcome(recorded, sent, 2_000);
    let lease = Some(lease.clone());
    let how = Keeping { rules: &Rules::default(), lease, at: NOON };
    store.keep(tenant, recorded, &parsed(sent), &outcome, how).await.unwrap()
}

async fn a_lease_is_one_holders_and_whoever_stood_still_is_fenced(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(Dialect::Chat, &long_session());
    let recorded = record(&store, &tenant, &sent).await;
    let id = recorded.session.id;
    let first = granted(store.lease(&tenant, id, "first").await.unwrap());
    let Leased::Held(seen) = store.lease(&tenant, id, "second").await.unwrap() else { panic!("two have it") };
    assert_eq!(seen.holder, "first");
    // The holder lives: what was watched is no longer so.
    assert!(store.beat(&tenant, &first).await.unwrap());
    let Leased::Held(seen) = store.take_over(&tenant, id, "second", seen).await.unwrap() else {
        panic!("taken from one that lives")
    };
    // Now it stands still.
    let second = granted(store.take_over(&tenant, id, "second", seen.clone()).await.unwrap());
    assert!(!store.beat(&tenant, &first).await.unwrap());
    assert!(!store.release(&tenant, &first).await.unwrap());
    assert!(matches!(store.take_over(&tenant, id, "first", seen).await.unwrap(), Leased::Held(_)));
    let rows = ground.rows().await;
    let late = under(&store, &tenant, &recorded, &sent, &first).await;
    assert!(matches!(late, Committed::Fenced), "{late:?}");
    assert_eq!(ground.rows().await, rows);
    done(under(&store, &tenant, &recorded, &sent, &second).await);
    assert!(store.release(&tenant, &second).await.unwrap());
    assert!(!store.release(&tenant, &second).await.unwrap());
    let third = granted(store.lease(&tenant, id, "third").await.unwrap());
    assert_ne!(second, third);
    store.undo(&tenant, id).await.unwrap();
    let again = record(&store, &tenant, &sent).await;
    let late = under(&store, &tenant, &again, &sent, &second).await;
    assert!(
        matches!(late, Committed::Fenced),
        "a lease that was given back is passed by the next one: {late:?}"
    );
}

async fn a_lease_of_another_session_is_none(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(Dialect::Chat, &long_session());
    let recorded = record(&store, &tenant, &sent).await;
    let other = record(&store, &tenant, &body(Dialect::Chat, &[user("Another one.")])).await;
    granted(store.lease(&tenant, recorded.session.id, "first").await.unwrap());
    let stranger = granted(store.lease(&tenant, other.session.id, "second").await.unwrap());
    let committed = under(&store, &tenant, &recorded, &sent, &stranger).await;
    assert!(matches!(committed, Committed::Fenced), "{committed:?}");
}

async fn no_outcome_depends_on_a_clock(ground: Ground) {
    const DAY: i64 = 86_400_000;
    let (store, tenant) = ground.opened().await;
    // One clock goes on, one goes back and forth by days, one stands still at nothing.
    let clocks: [fn(i64) -> i64; 3] =
        [|n| NOON.0 + n, |n| NOON.0 + if n % 2 == 0 { DAY * n } else { -DAY * n }, |_| 0];
    let mut told = Vec::new();
    for (which, clock) in clocks.into_iter().enumerate() {
        let mut ticks = 0;
        let mut tick = || {
            ticks += 1;
            Moment(clock(ticks))
        };
        let mut story = Vec::new();
        let mut turns = long_session();
        turns[0] = user(&format!("Make build {which} green."));
        for round in 1..=3 {
            let sent = body(Dialect::Messages, &turns);
            let first = recorded(&store, &tenant, &sent, tick()).await.unwrap();
            let second = recorded(&store, &tenant, &sent, tick()).await.unwrap();
            story.push(format!("{} {} {:?}", first.session.length, first.new, first.view.number));
            let id = first.session.id;
            let mine = granted(store.lease(&tenant, id, "mine").await.unwrap());
            let Leased::Held(seen) = store.lease(&tenant, id, "theirs").await.unwrap() else {
                panic!("two have it")
            };
            let theirs = granted(store.take_over(&tenant, id, "theirs", seen).await.unwrap());
            let outcome = outcome(&first, &sent, 2_000);
            for (recorded, lease) in [(&first, &mine), (&first, &theirs), (&second, &theirs)] {
                let (transcript, rules) = (parsed(&sent), Rules::default());
                let how = Keeping { rules: &rules, lease: Some(lease.clone()), at: tick() };
                let kept = store.keep(&tenant, recorded, &transcript, &outcome, how).await;
                story.push(match kept.unwrap() {
                    Committed::Done { number, .. } => format!("done {number}"),
                    Committed::Overtaken => "overtaken".to_owned(),
                    Committed::Fenced => "fenced".to_owned(),
                    Committed::Behind => "behind".to_owned(),
                });
            }
            assert!(store.release(&tenant, &theirs).await.unwrap());
            turns.extend(steps(20 * round, 12, 40));
            turns.push(user("And on."));
        }
        let session =
            recorded(&store, &tenant, &body(Dialect::Messages, &turns), tick()).await.unwrap().session;
        let order: Vec<usize> =
            store.requests(&tenant, &session).await.unwrap().iter().map(|r| r.length).collect();
        story.push(format!("{order:?} {:?}", number(store.undo(&tenant, session.id).await.unwrap())));
        told.push(story);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
    assert_eq!(told[0][1..4], ["fenced", "done 1", "overtaken"]);
}

async fn a_view_of_more_than_the_log_has_is_refused(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(Dialect::Chat, &long_session());
    let first = record(&store, &tenant, &sent).await;
    let outcome = outcome(&first, &sent, 2_000);
    let other = record(&store, &tenant, &body(Dialect::Chat, &[user("Another one.")])).await;
    let rows = ground.rows().await;
    let error = keep(&store, &tenant, &other, &sent, &outcome).await.unwrap_err();
    assert!(matches!(error, StoreError::Wrong(_)), "{error}");
    assert_eq!(ground.rows().await, rows);
}

async fn a_session_that_began_anew_goes_on_in_its_child(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(Dialect::Chat, &too_much(&[]));
    let first = record(&store, &tenant, &sent).await;
    let outcome = restarting(&first, &sent);
    assert!(outcome.report.restart.is_some(), "{:?}", outcome.report.ladder);
    let (child, _) = done(keep(&store, &tenant, &first, &sent, &outcome).await.unwrap());
    assert_ne!(child.id, first.session.id);
    assert_eq!((child.reason, child.parent), (Reason::Restart, Some(first.session.id)));
    assert_eq!((child.begins, child.length), (first.session.length, first.session.length));
    assert_eq!(child.key, first.session.key);
    assert_eq!(head(&store, &tenant, &first.session).await.state, State::Archived);
    assert_eq!(store.body(&tenant, &child, At::Now).await.unwrap(), outcome.body);
    assert_eq!(store.body(&tenant, &child, At::Original).await.unwrap(), sent);
    // Sent once more as it was, and longer: both are the child's.
    let again = record(&store, &tenant, &sent).await;
    assert_eq!((again.session.id, again.new, again.view.number), (child.id, 0, Some(1)));
    let mut turns = too_much(&[reply("Going on.")]);
    for more in 0..3 {
        let longer = body(Dialect::Chat, &turns);
        let next = record(&store, &tenant, &longer).await;
        assert_eq!((next.session.id, next.new), (child.id, 1));
        assert_eq!(store.body(&tenant, &next.session, At::Now).await.unwrap(), replayed(&next, &longer));
        turns.push(user(&format!("More {more}.")));
    }
    for original in &outcome.originals {
        let found = store.recall(&tenant, Some(&child), &original.handle).await.unwrap();
        assert_eq!(found.text.as_str(), original.text);
    }
    // Nobody commits to what was archived.
    let stale = keep(&store, &tenant, &first, &sent, &outcome).await.unwrap();
    assert!(matches!(stale, Committed::Overtaken), "{stale:?}");
    assert!(store.faults().await.unwrap().is_empty());
}

async fn a_child_goes_on_after_its_archived_parent_was_deleted(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(Dialect::Chat, &too_much(&[]));
    let first = record(&store, &tenant, &sent).await;
    let outcome = restarting(&first, &sent);
    let (child, _) = done(keep(&store, &tenant, &first, &sent, &outcome).await.unwrap());
    store.delete(&tenant, first.session.id).await.unwrap();
    let longer = body(Dialect::Chat, &too_much(&[reply("Going on.")]));
    let next = record(&store, &tenant, &longer).await;
    assert_eq!((next.session.id, next.new, next.view.number), (child.id, 1, Some(1)));
    assert_eq!(store.body(&tenant, &next.session, At::Original).await.unwrap(), longer);
    assert!(store.faults().await.unwrap().is_empty());
}
