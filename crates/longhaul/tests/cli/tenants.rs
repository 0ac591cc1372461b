//! A store that a gateway shares out among several tenants, through the binary: who holds it sees all of it.

use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::Tokens;
use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::redact::Rules;
use longhaul_server::store::{Durability, Store, StoreLocation, StoredSession, Tenant, TrafficAction, TrafficRecord};
use serde_json::{Value, json};

use crate::store::{Machine, body, messages};

/// What a gateway would write into the usual store of a machine.
fn gateway<T>(machine: &Machine, work: impl AsyncFnOnce(Store) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let place = StoreLocation::File(machine.usual());
    runtime.block_on(async { work(Store::open(&place, Durability::Normal).await.unwrap()).await })
}

/// A session of a tenant that says the same as all others, with something of its own at the end.
async fn recorded(store: &Store, name: &str, own: &str, at: i64) -> (Tenant, StoredSession) {
    let mut said = messages(3);
    said.push(json!({"role": "assistant", "content": format!("It was the {own}.")}));
    said.push(json!({"role": "user", "content": "Go on."}));
    let body = body(&said);
    let (transcript, _) = longhaul_engine::wire::parse(None, &body).unwrap();
    let tenant = store.get_or_create_tenant(name).await.unwrap();
    let recorded = store.record(&tenant, &transcript, &Rules::default(), Timestamp(at)).await.unwrap();
    (tenant, recorded.session)
}

fn names(rows: &Value, key: &str) -> Vec<String> {
    let rows = rows["sessions"].as_array().unwrap();
    rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn who_holds_the_store_sees_every_tenants_sessions() {
    let machine = Machine::new("tenants");
    let [first, second] = gateway(&machine, async |store| {
        let (_, first) = recorded(&store, "team", "quince", 1_000).await;
        let (_, second) = recorded(&store, "others", "medlar", 2_000).await;
        [first.name, second.name]
    });
    let rows = machine.run(&["sessions", "--json"]).json("sessions.json");
    assert_eq!(names(&rows, "id"), [second.clone(), first.clone()], "the newest first, whosever it is");
    assert_eq!(names(&rows, "tenant"), ["others", "team"]);
    let people = machine.prints(&["sessions"]);
    let head = people.lines().next().unwrap();
    assert!(head.ends_with("tenant"), "{people}");
    assert!(people.lines().any(|line| line.starts_with(&format!("store:{first}")) && line.ends_with("team")));

    // Each is found by its name, or the beginning of it; latest is the newest of all.
    for (id, tenant, own) in [(&first, "team", "quince"), (&second, "others", "medlar")] {
        let shown = machine.run(&["show", &id[..8], "--json"]).json("show.json");
        assert_eq!((&shown["session"], &shown["tenant"]), (&json!(id), &json!(tenant)));
        assert!(machine.prints(&["show", id]).contains(&format!("tenant     {tenant}\n")));
        assert!(machine.prints(&["export", id]).contains(own));
        assert!(machine.prints(&["export", &format!("store:{id}"), "--original"]).contains(own));
        assert_eq!(machine.run(&["tokens", &format!("store:{id}")]).code, 0);
    }
    assert_eq!(machine.run(&["show", "latest", "--json"]).json("show.json")["session"], json!(second));
    assert!(machine.run(&["show", "zzzz"]).failed(1).contains("no session zzzz"));

    // A search is over the newest session of each; what it finds is fetched by its handle alone.
    for (own, id) in [("quince", &first), ("medlar", &second)] {
        let found = machine.run(&["recall", "--search", own, "--json"]).json("recall.json");
        assert_eq!(found["results"][0]["session"], json!(id), "{found}");
        let recall_id = found["results"][0]["handle"].as_str().unwrap();
        assert_eq!(machine.prints(&["recall", recall_id]), format!("It was the {own}."));
        assert_eq!(machine.prints(&["recall", recall_id, "--session", id]), format!("It was the {own}."));
        let elsewhere = if *id == first { &second } else { &first };
        machine.run(&["recall", recall_id, "--session", elsewhere]).failed(1);
    }
    let both = machine.run(&["recall", "--search", "frobnicate_2", "--json"]).json("recall.json");
    let whose: Vec<&Value> = both["results"].as_array().unwrap().iter().map(|row| &row["session"]).collect();
    assert!(whose.contains(&&json!(first)) && whose.contains(&&json!(second)), "{both}");
    machine.run(&["recall", "zzzzzzzzzz"]).failed(1);

    // A compaction of somebody's session is an epoch of it, and can be taken back.
    let report = machine.compress(&format!("store:{first}"), &["--force", "--to-tokens", "1k"]);
    assert_eq!((&report["session"], &report["epoch"]), (&json!(first), &json!(1)), "it stays theirs");
    assert_eq!(machine.run(&["undo", &first, "--json"]).json("undo.json")["epoch"], Value::Null);
    assert_eq!(machine.run(&["redo", &first, "--json"]).json("undo.json")["epoch"], json!(1));

    let gone = machine.run(&["delete", &first, "--yes", "--json"]).json("delete.json");
    assert_eq!(gone["deleted"], json!([first]));
    let rows = machine.run(&["sessions", "--json"]).json("sessions.json");
    assert_eq!(names(&rows, "tenant"), ["others"]);
    let people = machine.prints(&["sessions"]);
    assert!(!people.contains("tenant"), "where there is one, nobody has to be told whose: {people}");
    let swept = machine.run(&["vacuum", "--older-than", "1d", "--json"]).json("vacuum.json");
    assert_eq!(swept["deleted"], json!([second]), "what is old goes, whosever it is");
}

#[test]
fn a_session_shows_what_went_through_the_gateway() {
    let machine = Machine::new("traffic");
    let quiet = |at: i64| TrafficRecord {
        at: Timestamp(at),
        model: Some("gpt-5".to_owned()),
        action: TrafficAction::Unchanged,
        tokens_before: Tokens(10_000),
        tokens_after: Tokens(10_000),
        usage: Usage::default(),
        cache_miss_reason: None,
        added_time: Duration::from_millis(1),
        total_time: Duration::from_secs(1),
        usd: None,
        usd_without_longhaul: None,
    };
    let note = |traffic: Vec<TrafficRecord>| {
        gateway(&machine, async |store| {
            let (tenant, session) = recorded(&store, "team", "quince", 1_000).await;
            for one in &traffic {
                assert!(store.record_traffic(&tenant, session.id, one).await.unwrap());
            }
            session.name
        })
    };
    let id = note(Vec::new());
    let nothing = machine.run(&["show", &id, "--json"]).json("show.json");
    assert_eq!(nothing["traffic"], Value::Null);
    assert!(!machine.prints(&["show", &id]).contains("gateway"));

    // What is not known is left out.
    note(vec![quiet(0)]);
    let shown = machine.run(&["show", &id, "--json"]).json("show.json");
    assert_eq!((&shown["traffic"]["read_share"], &shown["traffic"]["usd"]), (&Value::Null, &Value::Null));
    let people = machine.prints(&["show", &id]);
    assert!(people.contains("gateway    1 request, 0 compacted; 1.0 ms added to each\n"), "{people}");
    assert!(!people.contains("cache ") && !people.contains("money"), "{people}");

    let usage = Usage { input: Some(Tokens(4_000)), read: Some(Tokens(3_000)), ..Usage::default() };
    let miss = |n: i64| TrafficRecord {
        action: TrafficAction::Compacted,
        tokens_after: Tokens(4_000),
        usage,
        cache_miss_reason: Some(format!("reason {n}")),
        usd: Some(Dollars(0.25)),
        usd_without_longhaul: Some(Dollars(0.125)),
        ..quiet(n * 1_000)
    };
    note((1..=6).map(miss).collect());
    note(vec![TrafficRecord { action: TrafficAction::Bypassed("deadline".to_owned()), ..quiet(9_000) }]);
    let shown = machine.run(&["show", &id, "--json"]).json("show.json");
    let traffic = &shown["traffic"];
    assert_eq!((&traffic["requests"], &traffic["compacted"], &traffic["bypassed"]), (&json!(8), &json!(6), &json!(1)));
    assert_eq!(traffic["tokens"], json!({"before": 80_000, "after": 44_000}));
    assert_eq!((&traffic["read_share"], &traffic["usd"]), (&json!(0.75), &json!(1.5)));
    assert_eq!(traffic["usd_saved"], json!(-0.75));
    let reasons: Vec<&Value> = traffic["misses"].as_array().unwrap().iter().map(|miss| &miss["why"]).collect();
    assert_eq!(reasons, ["reason 6", "reason 5", "reason 4", "reason 3", "reason 2"]);
    let people = machine.prints(&["show", &id]);
    for line in [
        "gateway    8 requests, 6 compacted, 1 bypassed; 1.0 ms added to each",
        "cache      75.0 % of 24,000 prompt tokens were read from it",
        "money      $1.50 spent, -$0.75 saved: a loss",
        "miss       1970-01-01T00:00:06Z, gpt-5: reason 6",
    ] {
        assert!(people.lines().any(|shown| shown == line), "{line}\n{people}");
    }
}
