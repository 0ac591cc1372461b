//! The keys of a gateway: who comes in by which, and what is not let in.

use longhaul_engine::Timestamp;
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::store::{DailyKeyUsage, KeyLimits, StoreError, UtcDay};

use super::ground::Ground;
use super::speech::{NOON, body, record, user};

tests! {
    Both: [
        a_key_leads_to_its_tenant_with_its_limits,
        a_key_is_nowhere_in_the_store,
        a_revoked_key_lets_nobody_in_and_its_name_is_free,
        what_is_no_key_is_no_key_whatever_it_says,
        what_a_key_uses_is_counted_by_the_day_whoever_counts,
        names_that_are_none_are_refused,
        one_name_is_given_once_however_many_ask,
    ],
}

const NO_LIMITS: KeyLimits = KeyLimits { requests_per_minute: None, tokens_per_day: None };

async fn a_key_leads_to_its_tenant_with_its_limits(ground: Ground) {
    let store = ground.open().await;
    assert!(!store.has_keys().await.unwrap());
    let limits = KeyLimits { requests_per_minute: Some(60), tokens_per_day: Some(Tokens(2_000_000)) };
    let first = store.add_key("team", "laptop", limits, NOON).await.unwrap();
    let second = store.add_key("team", "build server", NO_LIMITS, NOON).await.unwrap();
    let other = store.add_key("others", "others", NO_LIMITS, NOON).await.unwrap();
    assert!(store.has_keys().await.unwrap());
    assert_eq!(first.reveal().len(), 46);
    assert_ne!(first.reveal(), second.reveal());

    let granted = store.find_key(first.reveal()).await.unwrap().unwrap();
    assert_eq!((granted.name.as_str(), granted.tenant.name(), granted.limits), ("laptop", "team", limits));
    let said = body(ApiFormat::Chat, &[user("Hello.")]);
    record(&store, &granted.tenant, &said).await;

    // Who comes in by another key of the same tenant goes on with the same sessions; another tenant begins its own.
    let same = store.find_key(second.reveal()).await.unwrap().unwrap();
    assert_eq!((same.limits, same.tenant.name()), (NO_LIMITS, "team"));
    assert_ne!(same.id, granted.id);
    assert_eq!(record(&store, &same.tenant, &said).await.new_messages, 0);
    let apart = store.find_key(other.reveal()).await.unwrap().unwrap();
    assert_eq!(record(&store, &apart.tenant, &said).await.new_messages, 1);

    let listed = store.keys().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["laptop", "build server", "others"]);
    assert_eq!((listed[0].created, listed[0].revoked, listed[0].last_usage), (NOON, None, None));
    assert_eq!((listed[0].tenant.as_str(), listed[0].limits), ("team", limits));
    assert!(first.reveal().starts_with(&listed[0].prefix) && listed[0].prefix.len() == 7);
}

async fn a_key_is_nowhere_in_the_store(ground: Ground) {
    let store = ground.open().await;
    let secret = store.add_key("team", "laptop", NO_LIMITS, NOON).await.unwrap();
    store.find_key(secret.reveal()).await.unwrap().unwrap();
    let bytes = ground.bytes().await;
    let letters = secret.reveal().as_bytes();
    assert!(bytes.windows(7).any(|window| window == &letters[..7]), "its beginning is");
    for at in 0..=letters.len() - 12 {
        assert!(!bytes.windows(12).any(|window| window == &letters[at..at + 12]), "from {at} on");
    }
}

async fn a_revoked_key_lets_nobody_in_and_its_name_is_free(ground: Ground) {
    let store = ground.open().await;
    let lost = store.add_key("team", "laptop", NO_LIMITS, NOON).await.unwrap();
    let taken = store.add_key("team", "laptop", NO_LIMITS, NOON).await.unwrap_err();
    assert!(matches!(taken, StoreError::InvalidInput(_)) && taken.message().contains("laptop"), "{taken}");
    let later = Timestamp(NOON.0 + 1);
    store.revoke_key("laptop", later).await.unwrap();
    assert!(store.find_key(lost.reveal()).await.unwrap().is_none());
    for unknown in ["laptop", "", "lap%", "' OR 1=1 --"] {
        let error = store.revoke_key(unknown, later).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error}");
    }
    assert!(store.has_keys().await.unwrap(), "a gateway without its last key is not open to all");
    let new = store.add_key("team", "laptop", NO_LIMITS, later).await.unwrap();
    assert!(store.find_key(new.reveal()).await.unwrap().is_some());
    assert!(store.find_key(lost.reveal()).await.unwrap().is_none(), "the old one stays revoked");
    let revoked: Vec<_> = store.keys().await.unwrap().into_iter().map(|key| key.revoked).collect();
    assert_eq!(revoked, [Some(later), None]);
}

async fn what_is_no_key_is_no_key_whatever_it_says(ground: Ground) {
    let store = ground.open().await;
    let real = store.add_key("team", "laptop", NO_LIMITS, NOON).await.unwrap();
    let real = real.reveal();
    let before = ground.rows().await;
    let letters = "A".repeat(43);
    let flipped = if real.ends_with('A') { "E" } else { "A" };
    let hostile = [
        String::new(),
        "lh-".to_owned(),
        "' OR '1'='1".to_owned(),
        format!("lh-{}", "'".repeat(43)),
        format!("lh-{}", "\0".repeat(43)),
        format!("lh-{}'); DROP TABLE keys; --", &letters[..20]),
        format!("{real}\0"),
        format!("{real}' --"),
        format!(" {real}"),
        format!("{real}\n"),
        real.to_lowercase(),
        real.replace("lh-", "LH-"),
        real[3..].to_owned(),
        real[..45].to_owned(),
        format!("{}{flipped}", &real[..45]),
        format!("lh-{letters}"),
        format!("lh-{}", "é".repeat(21) + "x"),
        format!("lh-{}", "%".repeat(43)),
        "x".repeat(1 << 20),
        format!("lh-{}", "A".repeat(1 << 20)),
        real.repeat(20_000),
        "$1".repeat(23),
        "\u{202e}lh-".to_owned(),
    ];
    for typed in hostile {
        let shown: String = typed.chars().take(60).collect();
        assert!(store.find_key(&typed).await.unwrap().is_none(), "{shown:?} let somebody in");
    }
    assert_eq!(ground.rows().await, before);
    assert!(store.find_key(real).await.unwrap().is_some());
}

async fn what_a_key_uses_is_counted_by_the_day_whoever_counts(ground: Ground) {
    let store = ground.open().await;
    let secret = store.add_key("team", "laptop", NO_LIMITS, NOON).await.unwrap();
    let id = store.find_key(secret.reveal()).await.unwrap().unwrap().id;
    let today = UtcDay::containing(NOON);
    assert_eq!(store.add_key_usage(id, Tokens::ZERO, today).await.unwrap(), Tokens::ZERO);

    // Several gateways on one store, each with connections of its own.
    let mut gateways = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = ground.open().await;
        gateways.spawn(async move {
            for _ in 0..10 {
                store.add_key_usage(id, Tokens(100), today).await.unwrap();
            }
        });
    }
    gateways.join_all().await;
    assert_eq!(store.add_key_usage(id, Tokens(1), today).await.unwrap(), Tokens(4_001));
    let tomorrow = UtcDay(today.0 + 1);
    assert_eq!(store.add_key_usage(id, Tokens(7), tomorrow).await.unwrap(), Tokens(7), "a new day begins at nothing");
    let used = store.keys().await.unwrap()[0].last_usage;
    assert_eq!(used, Some(DailyKeyUsage { day: tomorrow, tokens: Tokens(7) }));
    for _ in 0..3 {
        let total = store.add_key_usage(id, Tokens(u64::MAX), tomorrow).await.unwrap();
        assert!(total > Tokens(7), "no number is too large to be counted");
    }
}

async fn names_that_are_none_are_refused(ground: Ground) {
    let store = ground.open().await;
    let long = "x".repeat(101);
    for name in ["", "  ", "a\0b", "a\nb", "\u{1b}[2J", &long] {
        for (tenant, key) in [("team", name), (name, "laptop")] {
            let error = store.add_key(tenant, key, NO_LIMITS, NOON).await.unwrap_err();
            assert!(matches!(error, StoreError::InvalidInput(_)) && !error.message().contains('\n'), "{error}");
        }
    }
    assert!(!store.has_keys().await.unwrap());
    assert_eq!(ground.number("SELECT count(*) FROM tenants").await, 0);
}

async fn one_name_is_given_once_however_many_ask(ground: Ground) {
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = ground.open().await;
        asking.spawn(async move { store.add_key("team", "laptop", NO_LIMITS, NOON).await.is_ok() });
    }
    let given = asking.join_all().await;
    assert_eq!(given.iter().filter(|given| **given).count(), 1, "{given:?}");
    assert_eq!(ground.number("SELECT count(*) FROM keys").await, 1);
}
