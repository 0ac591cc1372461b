//! Where the store is, who makes it, and what is said where something is wrong with it or with a call.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::store::Machine;
use crate::support::longhaul;

#[test]
fn a_preview_writes_nothing_and_who_only_reads_makes_no_store() {
    let machine = Machine::new("nothing");
    let preview = ["compress", "a.json", "--store", "--context-length", "20k", "--preview", "--json", "--quiet"];
    let report = machine.run(&preview).json("compress.json");
    assert_eq!((&report["session"], &report["epoch"]), (&Value::Null, &Value::Null));
    assert_eq!(report["changed"], true);
    let said = machine.run(&["tokens", "store:latest"]);
    assert!(said.failed(1).contains("there is no store yet"), "{}", said.err);
    let reads: [&[&str]; 9] = [
        &["show", "latest"],
        &["recall", "7k2m9x4qhd"],
        &["recall", "--search", "anything"],
        &["export", "store:latest"],
        &["undo", "latest"],
        &["redo", "latest"],
        &["delete", "latest", "--yes"],
        &["vacuum"],
        &["check", "store:latest"],
    ];
    for call in reads {
        let said = machine.run(call);
        assert!(said.failed(1).contains("there is no store yet"), "{call:?}: {}", said.err);
    }
    assert_eq!(machine.run(&["export", "7k2m9x4qhd"]).refused(), "7k2m9x4qhd does not exist; check the path");
    assert_eq!(machine.run(&["sessions", "--json"]).json("sessions.json")["sessions"], json!([]));
    assert!(!machine.data().exists(), "nothing of it was made");

    machine.compress("a.json", &[]);
    // SQLite may leave its log beside the file on a busy machine; who opens the store next merges it.
    machine.run(&["vacuum", "--check"]);
    let bytes = || fs::read(machine.usual()).unwrap();
    let before = bytes();
    let again = ["compress", "b.json", "--store", "--preview", "--json", "--quiet", "--force", "--to-tokens", "3k"];
    let report = machine.run(&again).json("compress.json");
    assert_eq!((report["session"].is_string(), &report["epoch"]), (true, &Value::Null));
    machine.run(&["compress", "b.json", "--store", "--to-tokens", "3k", "--show", "checkpoint"]);
    assert!(bytes() == before, "the store is the same byte for byte");
    let shown = machine.run(&["show", "latest", "--json"]).json("show.json");
    assert_eq!((&shown["messages"], shown["epochs"].as_array().unwrap().len()), (&json!(62), 1));
}

#[cfg(unix)]
#[test]
fn the_usual_store_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new("mode");
    machine.compress("a.json", &[]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(machine.usual()), 0o600);
    assert_eq!(mode(machine.usual().parent().unwrap().to_owned()), 0o700);
}

#[test]
fn the_place_is_typed_or_configured() {
    let machine = Machine::new("place");
    let compress = ["compress", "a.json", "--context-length", "20k", "--quiet", "-o", "out.json", "--store"];
    assert_eq!(machine.run(&[&compress[..], &["typed.db"]].concat()).code, 0);
    let there = |name: &str| machine.0.0.join(name).exists();
    assert!(there("typed.db") && !machine.data().exists());
    assert_eq!(machine.run(&["show", "latest", "--store", "typed.db"]).code, 0);
    machine.0.file("own.yaml", "store: { path: configured.db, sync: full }\n");
    assert_eq!(machine.run(&compress).code, 0);
    assert!(there("configured.db") && !machine.data().exists());
    assert_eq!(machine.run(&["tokens", "store:latest"]).code, 0);
    let said = machine.run_with(&["show", "latest"], &[("LONGHAUL_STORE__URL", "postgres://u@h/db")]);
    assert!(said.refused().contains("store.path is also set (configured.db)"), "{}", said.err);
    fs::remove_file(machine.0.0.join("own.yaml")).unwrap();
    let said = machine.run_with(&["show", "latest"], &[("LONGHAUL_STORE__URL", "here.db")]);
    assert!(said.refused().contains("a file is store.path"), "{}", said.err);
    let said = machine.run_with(&["show", "latest"], &[("LONGHAUL_STORE__SYNC", "never")]);
    assert!(said.refused().starts_with("LONGHAUL_STORE__SYNC"), "{}", said.err);
    let said = longhaul(&machine.0, &["import", "a.json"], &[]);
    assert!(said.refused().contains("give --store FILE"), "{}", said.err);
    let said = machine.run(&["show", "latest", "--store", "postgres://u:hidden@127.0.0.1:1/db"]);
    assert!(said.failed(3).contains("cannot be reached") && !said.err.contains("hidden"), "{}", said.err);
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let machine = Machine::new("wrong");
    machine.compress("a.json", &[]);
    machine.0.file("text.db", "this is no database at all, but a text that somebody wrote\n".repeat(20));
    fs::copy(machine.usual(), machine.0.0.join("newer.db")).unwrap();
    // Where SQLite keeps the version of the tables, in the header of the file.
    let mut newer = fs::read(machine.0.0.join("newer.db")).unwrap();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    machine.0.file("newer.db", newer);
    let cases: [(&[&str], i32, &str); 16] = [
        (&["show", "zzzzzz"], 1, "the store has no session zzzzzz"),
        (&["show", "two words"], 1, "the store has no session two words"),
        (&["show", "store:zzzzzz"], 1, "the store has no session zzzzzz"),
        (&["show", ""], 1, "the store has no session"),
        (&["undo", "zzzzzz"], 1, "the store has no session"),
        (&["recall", "zzzzzzzzzz"], 1, "the store has no recall ID zzzzzzzzzz"),
        (&["recall", "two words"], 1, "the store has no recall ID two words"),
        (&["recall", "--session", "zzz", "zzzzzzzzzz"], 1, "the store has no session zzz"),
        (&["export", "zzzzzz"], 1, "neither a file nor a session of the store"),
        (&["delete", "latest"], 2, "--yes"),
        (&["delete", "latest", "zzzzzz", "--yes"], 1, "the store has no session zzzzzz"),
        (&["show", "latest", "--store", "absent.db"], 2, "absent.db does not exist"),
        (&["show", "latest", "--store", "."], 2, ". is a directory"),
        (&["show", "latest", "--store", "text.db"], 3, "text.db is not a store"),
        (&["show", "latest", "--store", "newer.db"], 3, "written by a newer longhaul"),
        (&["import", "a.json", "--store", "a.json/store.db"], 3, "cannot create the store"),
    ];
    for (call, code, said) in cases {
        let run = machine.run(call);
        assert!(run.failed(code).contains(said), "{call:?}: {}", run.err);
        machine.run(&[call, &["--json"][usize::from(call[0] == "export")..]].concat()).failed(code);
    }
    let calls: [(&[&str], &str); 5] = [
        (&["compress", "a.json", "--store", "s.db", "--originals", "x.jsonl"], "cannot be used with"),
        (&["recall"], "RECALL_ID"),
        (&["recall", "--family", "7k2m9x4qhd"], "--family"),
        (&["vacuum", "--max-size", "two parrots"], "expected a size"),
        (&["vacuum", "--older-than", "ages"], "expected 30m"),
    ];
    for (call, said) in calls {
        assert!(machine.run(call).refused().contains(said), "{call:?}: {}", machine.run(call).err);
    }
    assert_eq!(machine.run(&["show", "latest"]).code, 0, "a slip deletes nothing");
    // A store that cannot be read hides no agent's sessions.
    machine.0.file("own.yaml", "store: { path: text.db }\n");
    let rows = machine.run(&["sessions", "--json"]).json("sessions.json");
    assert_eq!(rows["failed"][0]["path"], "text.db");
    assert!(machine.run(&["sessions", "--agent", "store"]).failed(3).contains("text.db"));
}

#[test]
fn what_a_session_says_never_reaches_the_terminal_raw() {
    let machine = Machine::new("terminal");
    let evil = "x\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{2066}\nlonghaul: accepted\r";
    let function = json!({"name": evil, "arguments": "{}"});
    let mut all = vec![json!({"role": "user", "content": evil})];
    for step in 0..12 {
        let call = json!({"id": format!("{evil}{step}"), "type": "function", "function": function});
        all.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let output = format!("{evil} error: frobnicate {evil}\n").repeat(120);
        all.push(json!({"role": "tool", "tool_call_id": format!("{evil}{step}"), "content": output}));
    }
    all.push(json!({"role": "user", "content": "and now?"}));
    let hostile = json!({"model": format!("gpt-5{evil}"), "messages": all}).to_string();
    machine.0.file("hostile.json", hostile);
    let calls: [&[&str]; 7] = [
        &["compress", "hostile.json", "--store", "--context-length", "8k", "-o", "out.json"],
        &["sessions"],
        &["show", "latest"],
        &["show", "latest", "--epoch", "1"],
        &["recall", "--search", "frobnicate"],
        &["undo", "latest"],
        &["show", evil],
    ];
    for call in calls {
        let run = machine.run(call);
        for text in [&run.out, &run.err] {
            let obeyed =
                |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!text.contains(obeyed), "{call:?}: {text:?}");
            assert!(!text.lines().any(|line| line == "longhaul: accepted"), "{call:?} forges a line: {text}");
        }
    }
}
