//! Many sessions at a glance: the sums are those of their sessions, time is divided evenly, and nobody sees another's.

use std::time::Duration;

use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::{Dialect, Tokens};
use longhaul_server::agents::Moment;
use longhaul_server::store::{Action, Traffic, Whose};

use super::ground::Ground;
use super::speech::{NOON, body, record, user};

tests! {
    Both: [
        sums_and_stretches_add_up,
        everybody_has_their_own_and_who_owns_the_store_has_all,
        an_empty_store_says_nothing,
    ],
}

/// The so-and-so-many-th request, a second after the one before.
fn request(number: i64) -> Traffic {
    let tokens = Tokens(1_000 * number.unsigned_abs());
    Traffic {
        at: Moment(NOON.0 + 1_000 * number),
        model: Some("house-model".to_owned()),
        action: if number % 5 == 0 { Action::Compacted } else { Action::Replayed },
        before: tokens,
        after: tokens / 2,
        usage: Usage { input: Some(tokens / 2), read: Some(tokens / 4), ..Usage::default() },
        broke: None,
        added: Duration::from_millis(number.unsigned_abs()),
        took: Duration::from_secs(1),
        usd: Some(Dollars(0.5)),
        usd_without: (number > 1).then_some(Dollars(0.25)),
    }
}

async fn sums_and_stretches_add_up(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(Dialect::Chat, &[user("Hello.")])).await.session;
    for number in 1..=20 {
        store.note_traffic(&tenant, session.id, &request(number)).await.unwrap();
    }
    let whose = Whose::One(tenant.clone());
    let seen = store.overview(&whose, Moment(i64::MIN), Moment(0), 4, 10).await.unwrap();
    assert_eq!(seen.totals, store.tenant_totals(&tenant).await.unwrap());
    assert_eq!((seen.sessions, seen.live), (1, 1));
    assert_eq!((seen.median, seen.p95), (Some(Duration::from_millis(11)), Some(Duration::from_millis(19))));
    let requests: Vec<usize> = seen.course.iter().map(|stretch| stretch.requests).collect();
    assert_eq!((requests.len(), requests.iter().sum::<usize>()), (4, 20), "{requests:?}");
    assert_eq!(seen.course.iter().map(|stretch| stretch.compacted).sum::<usize>(), 4);
    let last = seen.course.last().unwrap();
    assert_eq!((last.before, last.after), (Tokens(20_000), Tokens(10_000)), "the largest");
    // What would have been is not known of the first request, so what it cost is left out, too.
    let spent: f64 = seen.course.iter().filter_map(|stretch| stretch.usd).map(|usd| usd.0).sum();
    assert!((spent - 9.5).abs() < 1e-9, "{spent}");

    let standing = &seen.standings[0];
    assert_eq!(standing.totals, seen.totals);
    assert_eq!(standing.newest, Some(request(20)));
    assert_eq!((standing.compactions, standing.epoch, standing.state.clone()), (0, None, None));
    let late = store.overview(&whose, request(16).at, Moment(i64::MAX), 4, 10).await.unwrap();
    assert_eq!((late.totals.requests, late.live), (5, 0));
    assert_eq!(late.standings[0].totals.requests, 20, "a session's sums are over all of it");
}

async fn everybody_has_their_own_and_who_owns_the_store_has_all(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.tenant("another").await.unwrap();
    let said = body(Dialect::Chat, &[user("Hello.")]);
    let own = record(&store, &tenant, &said).await.session;
    let theirs = record(&store, &other, &said).await.session;
    store.note_traffic(&tenant, own.id, &request(1)).await.unwrap();
    store.note_traffic(&other, theirs.id, &request(2)).await.unwrap();
    let names = async |whose: &Whose| -> Vec<String> {
        let standings = store.standings(whose, 10).await.unwrap();
        let mut names: Vec<String> = standings.into_iter().map(|one| one.owned.session.name).collect();
        names.sort();
        names
    };
    let requests = async |whose: &Whose| {
        store.overview(whose, Moment(i64::MIN), Moment(0), 4, 10).await.unwrap().totals.requests
    };
    let (mine, all) = (Whose::One(tenant), Whose::Everybody);
    assert_eq!((names(&mine).await, requests(&mine).await), (vec![own.name.clone()], 1));
    let mut both = vec![own.name.clone(), theirs.name.clone()];
    both.sort();
    assert_eq!((names(&all).await, requests(&all).await), (both, 2));
    assert!(store.standing(&mine, &theirs.name).await.unwrap().is_none());
    let found = store.standing(&all, &theirs.name).await.unwrap().unwrap();
    assert_eq!((found.owned.tenant.name(), found.totals.requests), ("another", 1));
    for wrong in ["", "latest", "%", &own.name[..5], "' OR 1 = 1 --"] {
        assert!(store.standing(&all, wrong).await.unwrap().is_none(), "{wrong}");
    }
}

async fn an_empty_store_says_nothing(ground: Ground) {
    let (store, _) = ground.opened().await;
    let seen = store.overview(&Whose::Everybody, Moment(i64::MIN), Moment(0), 4, 10).await.unwrap();
    assert_eq!((seen.totals.requests, seen.sessions, seen.live), (0, 0, 0));
    assert!(seen.course.is_empty() && seen.standings.is_empty() && seen.median.is_none());
}
