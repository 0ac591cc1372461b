//! What passed through the gateway: noted, summed, and gone with its session.

use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::store::{TrafficAction, TrafficRecord, TrafficTotals};

use super::ground::Ground;
use super::speech::{NOON, body, record, reply, user};

tests! {
    Both: [
        what_is_noted_is_read_back_in_order,
        sums_tell_what_is_not_known_from_nothing,
        what_a_client_writes_is_kept_without_secrets_and_in_bounds,
        it_goes_with_its_session_and_is_each_tenants_own,
    ],
}

/// A request of which only we know something.
fn quiet() -> TrafficRecord {
    TrafficRecord {
        at: NOON,
        model: None,
        action: TrafficAction::Unchanged,
        tokens_before: Tokens(1_000),
        tokens_after: Tokens(1_000),
        usage: Usage::default(),
        cache_miss_reason: None,
        added_time: Duration::from_micros(700),
        total_time: Duration::from_millis(900),
        usd: None,
        usd_without_longhaul: None,
    }
}

/// One of which everything is known.
fn told() -> TrafficRecord {
    TrafficRecord {
        at: Timestamp(NOON.0 + 5),
        model: Some("house-model".to_owned()),
        action: TrafficAction::Compacted,
        tokens_before: Tokens(9_000),
        tokens_after: Tokens(4_000),
        usage: Usage {
            input: Some(Tokens(4_100)),
            read: Some(Tokens(1_025)),
            written: Some(Tokens(3_000)),
            written_1h: Some(Tokens(0)),
            output: Some(Tokens(50)),
        },
        cache_miss_reason: Some("the tools changed since request 3".to_owned()),
        added_time: Duration::from_micros(1_300),
        total_time: Duration::from_secs(2),
        usd: Some(Dollars(0.012_345_678)),
        usd_without_longhaul: Some(Dollars(0.002)),
    }
}

async fn what_is_noted_is_read_back_in_order(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await.session;
    let bypassed = TrafficAction::Bypassed("too late: 5 s".to_owned());
    let sent: Vec<TrafficRecord> =
        [TrafficAction::Unchanged, TrafficAction::Replayed, TrafficAction::Compacted, bypassed]
            .into_iter()
            .flat_map(|action| {
                [TrafficRecord { action: action.clone(), ..quiet() }, TrafficRecord { action, ..told() }]
            })
            .collect();
    for traffic in &sent {
        assert!(store.record_traffic(&tenant, session.id, traffic).await.unwrap());
    }
    assert_eq!(store.traffic(&tenant, session.id).await.unwrap(), sent);
    let words: Vec<String> = sent.iter().step_by(2).map(|traffic| traffic.action.to_string()).collect();
    assert_eq!(words, ["none", "replayed", "compacted", "bypassed:too late: 5 s"]);
}

async fn sums_tell_what_is_not_known_from_nothing(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await.session;
    assert_eq!(store.session_totals(&tenant, session.id).await.unwrap(), TrafficTotals::default());
    store.record_traffic(&tenant, session.id, &quiet()).await.unwrap();
    let totals = store.session_totals(&tenant, session.id).await.unwrap();
    assert_eq!((totals.requests, totals.usage, totals.usd, totals.usd_saved), (1, Usage::default(), None, None));
    assert_eq!(totals.cache_read_share(), None);

    store.record_traffic(&tenant, session.id, &told()).await.unwrap();
    // Its price is known, and not what it would have been; its prompt, and not how much of it was cached.
    let half = TrafficRecord {
        usage: Usage { input: Some(Tokens(500)), ..Usage::default() },
        action: TrafficAction::Bypassed("store".to_owned()),
        usd_without_longhaul: None,
        ..told()
    };
    store.record_traffic(&tenant, session.id, &half).await.unwrap();
    let totals = store.session_totals(&tenant, session.id).await.unwrap();
    assert_eq!((totals.requests, totals.compacted, totals.bypassed), (3, 1, 1));
    assert_eq!((totals.tokens_before, totals.tokens_after), (Tokens(19_000), Tokens(9_000)));
    assert_eq!(totals.usage, Usage { input: Some(Tokens(4_600)), ..told().usage });
    assert_eq!(totals.cache_read_share(), Some(0.25));
    assert_eq!(totals.usd, Some(Dollars(0.024_691_356)));
    assert_eq!(totals.usd_saved, Some(Dollars(-0.010_345_678)), "a loss is one");
    assert_eq!(totals.added_time, Duration::from_micros(3_300));

    let other = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Other.")])).await.session;
    store.record_traffic(&tenant, other.id, &told()).await.unwrap();
    assert_eq!(store.tenant_totals(&tenant).await.unwrap().requests, 4);
    assert_eq!(store.session_totals(&tenant, other.id).await.unwrap().requests, 1);
}

async fn what_a_client_writes_is_kept_without_secrets_and_in_bounds(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await.session;
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let words = |before: &str| format!("{before} {secret}\0\n{}", "on and on ".repeat(1_000));
    let hostile = TrafficRecord {
        model: Some(words("house-model")),
        action: TrafficAction::Bypassed(words("engine")),
        cache_miss_reason: Some(words("the system prompt changed:")),
        tokens_before: Tokens(u64::MAX),
        usage: Usage { input: Some(Tokens(u64::MAX)), ..Usage::default() },
        total_time: Duration::MAX,
        usd: Some(Dollars(f64::NAN)),
        usd_without_longhaul: Some(Dollars(f64::INFINITY)),
        ..quiet()
    };
    for _ in 0..3 {
        assert!(store.record_traffic(&tenant, session.id, &hostile).await.unwrap());
    }
    assert!(!String::from_utf8_lossy(&ground.bytes().await).contains(secret));
    for kept in store.traffic(&tenant, session.id).await.unwrap() {
        for text in [kept.model.unwrap(), kept.action.to_string(), kept.cache_miss_reason.unwrap()] {
            assert!(text.chars().count() <= 520 && !text.contains('\n'), "{text}");
        }
        assert_eq!((kept.usd, kept.usd_without_longhaul), (None, None), "what is no amount is not known");
    }
    let totals = store.tenant_totals(&tenant).await.unwrap();
    assert_eq!((totals.requests, totals.bypassed), (3, 3));
    assert!(totals.tokens_before > Tokens(1_000_000_000), "no number is too large to be summed");
}

async fn it_goes_with_its_session_and_is_each_tenants_own(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.get_or_create_tenant("other").await.unwrap();
    let longer = body(ApiFormat::Chat, &[user("Hello."), reply("Yes?"), user("Go on.")]);
    let parent = record(&store, &tenant, &longer).await.session;
    let fork = body(ApiFormat::Chat, &[user("Hello."), reply("Yes?"), user("Stop.")]);
    let fork = record(&store, &tenant, &fork).await.session;
    for session in [&parent, &fork] {
        assert!(!store.record_traffic(&other, session.id, &told()).await.unwrap(), "it is not theirs");
        assert!(store.record_traffic(&tenant, session.id, &told()).await.unwrap());
        assert!(store.traffic(&other, session.id).await.unwrap().is_empty());
        assert_eq!(store.session_totals(&other, session.id).await.unwrap(), TrafficTotals::default());
    }
    assert_eq!(store.tenant_totals(&other).await.unwrap(), TrafficTotals::default());

    // The first one lives on as the beginning of the other, and what went through of it is gone all the same.
    for (gone, left) in [(&parent, 1), (&fork, 0)] {
        store.delete_session(&tenant, gone.id).await.unwrap();
        assert!(!store.record_traffic(&tenant, gone.id, &told()).await.unwrap(), "nothing is kept of what is gone");
        assert_eq!(ground.number("SELECT count(*) FROM traffic").await, left);
    }
}
