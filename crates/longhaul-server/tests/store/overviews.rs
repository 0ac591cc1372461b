//! Many sessions at a glance: the sums are those of their sessions, time is divided evenly, and nobody sees another's.

use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::store::{TenantScope, TrafficAction, TrafficRecord};

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
fn request(number: i64) -> TrafficRecord {
    let tokens = Tokens(1_000 * number.unsigned_abs());
    TrafficRecord {
        at: Timestamp(NOON.0 + 1_000 * number),
        model: Some("house-model".to_owned()),
        action: if number % 5 == 0 { TrafficAction::Compacted } else { TrafficAction::Replayed },
        tokens_before: tokens,
        tokens_after: tokens / 2,
        usage: Usage { input: Some(tokens / 2), read: Some(tokens / 4), ..Usage::default() },
        cache_miss_reason: None,
        added_time: Duration::from_millis(number.unsigned_abs()),
        total_time: Duration::from_secs(1),
        usd: Some(Dollars(0.5)),
        usd_without_longhaul: (number > 1).then_some(Dollars(0.25)),
    }
}

async fn sums_and_stretches_add_up(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await.session;
    for number in 1..=20 {
        store.record_traffic(&tenant, session.id, &request(number)).await.unwrap();
    }
    let whose = TenantScope::One(tenant.clone());
    let seen = store.overview(&whose, Timestamp(i64::MIN), Timestamp(0), 4, 10).await.unwrap();
    assert_eq!(seen.totals, store.tenant_totals(&tenant).await.unwrap());
    assert_eq!((seen.session_count, seen.active_sessions), (1, 1));
    assert_eq!(
        (seen.median_added_time, seen.p95_added_time),
        (Some(Duration::from_millis(11)), Some(Duration::from_millis(19)))
    );
    let requests: Vec<usize> = seen.buckets.iter().map(|stretch| stretch.requests).collect();
    assert_eq!((requests.len(), requests.iter().sum::<usize>()), (4, 20), "{requests:?}");
    assert_eq!(seen.buckets.iter().map(|stretch| stretch.compacted).sum::<usize>(), 4);
    let last = seen.buckets.last().unwrap();
    assert_eq!((last.max_tokens_before, last.max_tokens_after), (Tokens(20_000), Tokens(10_000)), "the largest");
    // What would have been is not known of the first request, so what it cost is left out, too.
    let spent: f64 = seen.buckets.iter().filter_map(|stretch| stretch.usd).map(|usd| usd.0).sum();
    assert!((spent - 9.5).abs() < 1e-9, "{spent}");

    let standing = &seen.recent_sessions[0];
    assert_eq!(standing.totals, seen.totals);
    assert_eq!(standing.newest_request, Some(request(20)));
    assert_eq!((standing.compaction_count, standing.active_compaction, standing.state.clone()), (0, None, None));
    let late = store.overview(&whose, request(16).at, Timestamp(i64::MAX), 4, 10).await.unwrap();
    assert_eq!((late.totals.requests, late.active_sessions), (5, 0));
    assert_eq!(late.recent_sessions[0].totals.requests, 20, "a session's sums are over all of it");
}

async fn everybody_has_their_own_and_who_owns_the_store_has_all(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.get_or_create_tenant("another").await.unwrap();
    let said = body(ApiFormat::Chat, &[user("Hello.")]);
    let own = record(&store, &tenant, &said).await.session;
    let theirs = record(&store, &other, &said).await.session;
    store.record_traffic(&tenant, own.id, &request(1)).await.unwrap();
    store.record_traffic(&other, theirs.id, &request(2)).await.unwrap();
    let names = async |whose: &TenantScope| -> Vec<String> {
        let standings = store.session_overviews(whose, 10).await.unwrap();
        let mut names: Vec<String> = standings.into_iter().map(|one| one.tenant_session.session.name).collect();
        names.sort();
        names
    };
    let requests = async |whose: &TenantScope| {
        store.overview(whose, Timestamp(i64::MIN), Timestamp(0), 4, 10).await.unwrap().totals.requests
    };
    let (mine, all) = (TenantScope::One(tenant), TenantScope::All);
    assert_eq!((names(&mine).await, requests(&mine).await), (vec![own.name.clone()], 1));
    let mut both = vec![own.name.clone(), theirs.name.clone()];
    both.sort();
    assert_eq!((names(&all).await, requests(&all).await), (both, 2));
    assert!(store.session_overview(&mine, &theirs.name).await.unwrap().is_none());
    let found = store.session_overview(&all, &theirs.name).await.unwrap().unwrap();
    assert_eq!((found.tenant_session.tenant.name(), found.totals.requests), ("another", 1));
    for wrong in ["", "latest", "%", &own.name[..5], "' OR 1 = 1 --"] {
        assert!(store.session_overview(&all, wrong).await.unwrap().is_none(), "{wrong}");
    }
}

async fn an_empty_store_says_nothing(ground: Ground) {
    let (store, _) = ground.opened().await;
    let seen = store.overview(&TenantScope::All, Timestamp(i64::MIN), Timestamp(0), 4, 10).await.unwrap();
    assert_eq!((seen.totals.requests, seen.session_count, seen.active_sessions), (0, 0, 0));
    assert!(seen.buckets.is_empty() && seen.recent_sessions.is_empty() && seen.median_added_time.is_none());
}
