//! What passed through the gateway: noted, summed, and gone with its session.

use std::time::Duration;

use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::{Dialect, Tokens};
use longhaul_server::agents::Moment;
use longhaul_server::store::{Action, Totals, Traffic};

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
fn quiet() -> Traffic {
    Traffic {
        at: NOON,
        model: None,
        action: Action::None,
        before: Tokens(1_000),
        after: Tokens(1_000),
        usage: Usage::default(),
        broke: None,
        added: Duration::from_micros(700),
        took: Duration::from_millis(900),
        usd: None,
        usd_without: None,
    }
}

/// One of which everything is known.
fn told() -> Traffic {
    Traffic {
        at: Moment(NOON.0 + 5),
        model: Some("house-model".to_owned()),
        action: Action::Compacted,
        before: Tokens(9_000),
        after: Tokens(4_000),
        usage: Usage {
            input: Some(Tokens(4_100)),
            read: Some(Tokens(1_025)),
            written: Some(Tokens(3_000)),
            written_1h: Some(Tokens(0)),
            output: Some(Tokens(50)),
        },
        broke: Some("the tools changed since request 3".to_owned()),
        added: Duration::from_micros(1_300),
        took: Duration::from_secs(2),
        usd: Some(Dollars(0.012_345_678)),
        usd_without: Some(Dollars(0.002)),
    }
}

async fn what_is_noted_is_read_back_in_order(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(Dialect::Chat, &[user("Hello.")])).await.session;
    let bypassed = Action::Bypassed("too late: 5 s".to_owned());
    let sent: Vec<Traffic> = [Action::None, Action::Replayed, Action::Compacted, bypassed]
        .into_iter()
        .flat_map(|action| [Traffic { action: action.clone(), ..quiet() }, Traffic { action, ..told() }])
        .collect();
    for traffic in &sent {
        assert!(store.note_traffic(&tenant, session.id, traffic).await.unwrap());
    }
    assert_eq!(store.traffic(&tenant, session.id).await.unwrap(), sent);
    let words: Vec<String> = sent.iter().step_by(2).map(|traffic| traffic.action.to_string()).collect();
    assert_eq!(words, ["none", "replayed", "compacted", "bypassed:too late: 5 s"]);
}

async fn sums_tell_what_is_not_known_from_nothing(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(Dialect::Chat, &[user("Hello.")])).await.session;
    assert_eq!(store.session_totals(&tenant, session.id).await.unwrap(), Totals::default());
    store.note_traffic(&tenant, session.id, &quiet()).await.unwrap();
    let totals = store.session_totals(&tenant, session.id).await.unwrap();
    assert_eq!((totals.requests, totals.usage, totals.usd, totals.saved), (1, Usage::default(), None, None));
    assert_eq!(totals.read_share(), None);

    store.note_traffic(&tenant, session.id, &told()).await.unwrap();
    // Its price is known, and not what it would have been; its prompt, and not how much of it was cached.
    let half = Traffic {
        usage: Usage { input: Some(Tokens(500)), ..Usage::default() },
        action: Action::Bypassed("store".to_owned()),
        usd_without: None,
        ..told()
    };
    store.note_traffic(&tenant, session.id, &half).await.unwrap();
    let totals = store.session_totals(&tenant, session.id).await.unwrap();
    assert_eq!((totals.requests, totals.compacted, totals.bypassed), (3, 1, 1));
    assert_eq!((totals.before, totals.after), (Tokens(19_000), Tokens(9_000)));
    assert_eq!(totals.usage, Usage { input: Some(Tokens(4_600)), ..told().usage });
    assert_eq!(totals.read_share(), Some(0.25));
    assert_eq!(totals.usd, Some(Dollars(0.024_691_356)));
    assert_eq!(totals.saved, Some(Dollars(-0.010_345_678)), "a loss is one");
    assert_eq!(totals.added, Duration::from_micros(3_300));

    let other = record(&store, &tenant, &body(Dialect::Chat, &[user("Other.")])).await.session;
    store.note_traffic(&tenant, other.id, &told()).await.unwrap();
    assert_eq!(store.tenant_totals(&tenant).await.unwrap().requests, 4);
    assert_eq!(store.session_totals(&tenant, other.id).await.unwrap().requests, 1);
}

async fn what_a_client_writes_is_kept_without_secrets_and_in_bounds(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let session = record(&store, &tenant, &body(Dialect::Chat, &[user("Hello.")])).await.session;
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let words = |before: &str| format!("{before} {secret}\0\n{}", "on and on ".repeat(1_000));
    let hostile = Traffic {
        model: Some(words("house-model")),
        action: Action::Bypassed(words("engine")),
        broke: Some(words("the system prompt changed:")),
        before: Tokens(u64::MAX),
        usage: Usage { input: Some(Tokens(u64::MAX)), ..Usage::default() },
        took: Duration::MAX,
        usd: Some(Dollars(f64::NAN)),
        usd_without: Some(Dollars(f64::INFINITY)),
        ..quiet()
    };
    for _ in 0..3 {
        assert!(store.note_traffic(&tenant, session.id, &hostile).await.unwrap());
    }
    assert!(!String::from_utf8_lossy(&ground.bytes().await).contains(secret));
    for kept in store.traffic(&tenant, session.id).await.unwrap() {
        for text in [kept.model.unwrap(), kept.action.to_string(), kept.broke.unwrap()] {
            assert!(text.chars().count() <= 520 && !text.contains('\n'), "{text}");
        }
        assert_eq!((kept.usd, kept.usd_without), (None, None), "what is no amount is not known");
    }
    let totals = store.tenant_totals(&tenant).await.unwrap();
    assert_eq!((totals.requests, totals.bypassed), (3, 3));
    assert!(totals.before > Tokens(1_000_000_000), "no number is too large to be summed");
}

async fn it_goes_with_its_session_and_is_each_tenants_own(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.tenant("other").await.unwrap();
    let longer = body(Dialect::Chat, &[user("Hello."), reply("Yes?"), user("Go on.")]);
    let parent = record(&store, &tenant, &longer).await.session;
    let fork = body(Dialect::Chat, &[user("Hello."), reply("Yes?"), user("Stop.")]);
    let fork = record(&store, &tenant, &fork).await.session;
    for session in [&parent, &fork] {
        assert!(!store.note_traffic(&other, session.id, &told()).await.unwrap(), "it is not theirs");
        assert!(store.note_traffic(&tenant, session.id, &told()).await.unwrap());
        assert!(store.traffic(&other, session.id).await.unwrap().is_empty());
        assert_eq!(store.session_totals(&other, session.id).await.unwrap(), Totals::default());
    }
    assert_eq!(store.tenant_totals(&other).await.unwrap(), Totals::default());

    // The first one lives on as the beginning of the other, and what went through of it is gone all the same.
    for (gone, left) in [(&parent, 1), (&fork, 0)] {
        store.delete(&tenant, gone.id).await.unwrap();
        assert!(
            !store.note_traffic(&tenant, gone.id, &told()).await.unwrap(),
            "nothing is kept of what is gone"
        );
        assert_eq!(ground.number("SELECT count(*) FROM traffic").await, left);
    }
}
