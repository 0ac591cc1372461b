//! `longhaul keys` through the binary.

use serde_json::{Value, json};

use crate::store::Machine;

#[test]
fn a_key_is_made_listed_and_revoked() {
    let machine = Machine::new("keys");
    assert!(machine.run(&["keys", "list"]).failed(1).contains("there is no store yet"));
    let made = machine.run(&["keys", "add", "laptop"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let key = made.out.strip_suffix('\n').unwrap();
    assert!(key.starts_with("lh-") && key.len() == 46, "alone on standard output: {key:?}");
    assert!(made.err.contains("shown only once") && made.err.lines().count() == 1, "{}", made.err);
    assert!(!made.err.contains(key));
    let limits = ["--tenant", "team", "--requests-per-minute", "60", "--tokens-per-day", "5M"];
    let other = machine.run(&[&["keys", "add", "build server"], &limits[..]].concat());
    assert_ne!(other.out, made.out);

    let listed = machine.run(&["keys", "list", "--json"]).json("keys.json");
    let [first, second] = [&listed["keys"][0], &listed["keys"][1]];
    assert_eq!((&first["name"], &first["tenant"]), (&json!("laptop"), &json!("laptop")));
    assert_eq!(first["prefix"], json!(key[..7]));
    assert_eq!((&first["requests_per_minute"], &first["used"]), (&Value::Null, &Value::Null));
    assert_eq!((&second["name"], &second["tenant"]), (&json!("build server"), &json!("team")));
    assert_eq!((&second["requests_per_minute"], &second["tokens_per_day"]), (&json!(60), &json!(5_000_000)));
    let people = machine.prints(&["keys", "list"]);
    assert!(people.contains("build server") && people.contains("team") && !people.contains(key), "{people}");

    assert!(machine.run(&["keys", "add", "laptop"]).refused().contains("an active key is already named laptop"));
    assert_eq!(machine.prints(&["keys", "revoke", "laptop"]), "the key laptop is revoked\n");
    assert!(machine.run(&["keys", "revoke", "laptop"]).failed(1).contains("no active key is named laptop"));
    assert!(machine.prints(&["keys", "list"]).contains("revoked 20"));
    assert_eq!(machine.run(&["keys", "add", "laptop"]).code, 0, "its name is free again");
    let listed = machine.run(&["keys", "list", "--json"]).json("keys.json");
    assert_eq!(listed["keys"].as_array().unwrap().len(), 3);
    assert!(listed["keys"][0]["revoked"].is_string() && listed["keys"][2]["revoked"].is_null(), "{listed}");
}

#[test]
fn a_slip_is_one_line_and_makes_no_key() {
    let machine = Machine::new("keys-slips");
    assert!(machine.run(&["keys", "add", "", "--store", "s.db"]).refused().contains("the name of the key is empty"));
    machine.run(&["keys", "add", "a\u{1b}[2Jb", "--store", "s.db"]).refused();
    machine.run(&["keys", "add", "x", "--requests-per-minute", "0", "--store", "s.db"]).refused();
    machine.run(&["keys", "add", "x", "--tokens-per-day", "lots", "--store", "s.db"]).refused();
    machine.run(&["keys"]).refused();
    machine.run(&["keys", "list", "--store", "none.db"]).refused();
    machine.run(&["keys", "revoke", "x", "--store", "none.db"]).refused();
    let none = machine.run(&["keys", "list", "--store", "s.db"]);
    assert!(none.code == 0 && none.out.is_empty(), "{}", none.out);
    assert!(none.err.contains("longhaul keys add NAME --store s.db adds one"), "{}", none.err);
    assert_eq!(machine.run(&["keys", "list", "--store", "s.db", "--json"]).json("keys.json")["keys"], json!([]));
}
