//! What happens to the files of a person: none is written over, none changes its mode, and a damaged one loses nothing more.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Folder, Run, against, longhaul, longhaul_reading};

/// A session whose outputs outgrow a context window of 8,000 tokens.
fn session(steps: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": "Look after the greenhouse."})];
    for step in 0..steps {
        let id = format!("c{step}");
        let function = json!({"name": "bash", "arguments": format!("{{\"command\":\"make bed{step}\"}}")});
        let call = json!({"id": id, "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let output = format!("watered one more row of bed {step}\n").repeat(90) + "exit code: 0\n";
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

fn compress(folder: &Folder, more: &[&str]) -> Run {
    let call = ["compress", "session.json", "--engine", "sacred-zone", "--context-length", "8k", "--quiet"];
    longhaul(folder, &[&call[..], more].concat(), &[])
}

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn handle(row: &str) -> String {
    serde_json::from_str::<Value>(row).unwrap()["handle"].as_str().unwrap().to_owned()
}

fn recall(folder: &Folder, file: &str, recall_id: &str, more: &[&str]) -> Run {
    longhaul(folder, &[&["recall", "--originals", file, recall_id], more].concat(), &[])
}

#[test]
fn a_half_written_last_line_costs_no_other_row() {
    let folder = Folder::new("files-cut");
    folder.file("session.json", session(20));
    let damaged = "{\"handle\":\"cut";
    for (option, file) in [("--originals", "removed.jsonl"), ("--log", "log.jsonl")] {
        folder.file(file, damaged);
        let first = compress(&folder, &[option, file, "-o", "after.json"]);
        let said: Vec<&str> = first.err.lines().collect();
        assert_eq!((first.code, said.len()), (0, 1), "the damage is named once: {}", first.err);
        assert!(said[0].contains(file) && said[0].contains("incomplete"), "{}", first.err);
        assert!(read(&folder, file).starts_with(&format!("{damaged}\n{{")), "a new line is begun");
        assert_eq!(compress(&folder, &[option, file, "-o", "after.json"]).err, "", "and not again");
    }
    let row = read(&folder, "removed.jsonl").lines().nth(1).unwrap().to_owned();
    let recalled = recall(&folder, "removed.jsonl", &handle(&row), &[]);
    assert_eq!(recalled.code, 0, "the printed handle is found: {}", recalled.err);
    assert!(recalled.out.contains("watered one more row"));
    let stats = longhaul(&folder, &["stats", "log.jsonl", "--json"], &[]);
    assert_eq!(against("stats.json", &stats.out)["total_compactions"], 2);
    assert!(stats.err.contains("log.jsonl, line 1: not a row of compress --log"), "{}", stats.err);
    folder.file("none.jsonl", damaged);
    assert!(longhaul(&folder, &["stats", "none.jsonl"], &[]).refused().contains("not a row"));
}

#[test]
fn recall_says_if_a_text_is_not_the_one_that_was_kept() {
    let folder = Folder::new("files-hash");
    folder.file("session.json", session(20));
    assert_eq!(compress(&folder, &["--originals", "kept.jsonl", "-o", "after.json"]).code, 0);
    let kept = read(&folder, "kept.jsonl");
    let row = kept.lines().next().unwrap();
    let changed = row.replace("watered one more row", "poured out one more row");
    folder.file("changed.jsonl", format!("{changed}\n"));
    let run = recall(&folder, "changed.jsonl", &handle(row), &[]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("does not match its hash"), "{}", run.err);
    let run = recall(&folder, "changed.jsonl", &handle(row), &["--json"]);
    assert_eq!((run.code, &against("recall.json", &run.out)["intact"]), (1, &json!(false)));
    folder.file("both.jsonl", format!("{row}\n{changed}\n"));
    let run = recall(&folder, "both.jsonl", &handle(row), &["--json"]);
    assert_eq!((run.code, &against("recall.json", &run.out)["intact"]), (0, &json!(true)));
    let mut older: Value = serde_json::from_str(row).unwrap();
    older.as_object_mut().unwrap().remove("text_hash");
    folder.file("older.jsonl", format!("{older}\n"));
    let run = recall(&folder, "older.jsonl", &handle(row), &["--json"]);
    assert_eq!(against("recall.json", &run.out)["intact"], true, "what cannot be told is not accused");
}

#[cfg(unix)]
#[test]
fn no_input_is_written_over_by_whatever_name() {
    let folder = Folder::new("files-over");
    let body = session(20);
    folder.file("session.json", &body);
    folder.file("other.json", session(2));
    folder.file("pauses.txt", "1\n".repeat(40));
    folder.file("kept.jsonl", "");
    folder.file("longhaul.yaml", "compression: { threshold: 0.5 }\n");
    std::os::unix::fs::symlink("session.json", folder.0.join("link.json")).unwrap();
    fs::hard_link(folder.0.join("session.json"), folder.0.join("second-name.json")).unwrap();
    let names = ["session.json", "./session.json", "link.json", "second-name.json"];
    for name in names {
        for command in ["compress", "check", "tokens", "cache", "digest", "redact", "stats"] {
            let run = longhaul(&folder, &[command, "session.json", "-o", name], &[]);
            assert!(
                run.refused().contains("would overwrite the input session.json"),
                "{command} -o {name}: {}",
                run.err
            );
        }
        let run = longhaul(&folder, &["check", "other.json", "--before", "session.json", "-o", name], &[]);
        assert!(run.refused().contains("would overwrite"), "{}", run.err);
        let run = longhaul(&folder, &["cache", "other.json", "--compare", "session.json", "-o", name], &[]);
        assert!(run.refused().contains("would overwrite"), "{}", run.err);
        let run = longhaul(&folder, &["cost", "session.json", "-o", name], &[]);
        assert!(run.refused().contains("would overwrite"), "{}", run.err);
        let run = longhaul(&folder, &["compress", name, "-o", "session.json"], &[]);
        assert!(run.refused().contains("would overwrite"), "{}", run.err);
    }
    let others: [&[&str]; 5] = [
        &["compress", "session.json", "--originals", "kept.jsonl", "-o", "./kept.jsonl"],
        &["compress", "session.json", "--config", "longhaul.yaml", "-o", "longhaul.yaml"],
        &["cost", "session.json", "--pauses", "pauses.txt", "-o", "pauses.txt"],
        &["recall", "--originals", "kept.jsonl", "x", "-o", "kept.jsonl"],
        &["config", "--config", "longhaul.yaml", "-o", "longhaul.yaml"],
    ];
    for call in others {
        longhaul(&folder, call, &[]).refused();
    }
    assert_eq!(read(&folder, "session.json"), body);
    let run = longhaul(&folder, &["tokens", "session.json", "-o", "/dev/null"], &[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "a device is nobody's input");
    let run = longhaul(&folder, &["tokens", "session.json", "-o", "/dev/stdout"], &[]);
    assert!(run.code == 0 && run.out.contains("total"), "a pipe behind links is written: {}", run.err);
    let run = longhaul(&folder, &["tokens", "session.json", "-o", "-"], &[]);
    assert!(run.out.contains("total") && !folder.0.join("-").exists(), "- is standard output");
}

#[test]
fn in_place_keeps_a_backup_and_never_one_backup_over_another() {
    let folder = Folder::new("files-in-place");
    let body = session(20);
    folder.file("session.json", &body);
    folder.file("session.json.bak", "an older one");
    let run = compress(&folder, &["--in-place", "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let after = read(&folder, "session.json");
    assert_eq!(against("compress.json", &run.out)["bytes"]["after"], after.len());
    assert!(after.len() < body.len());
    assert_eq!(read(&folder, "session.json.bak"), "an older one");
    assert_eq!(read(&folder, "session.json.bak.1"), body);
    assert_eq!(compress(&folder, &["--in-place"]).code, 0);
    assert!(!folder.0.join("session.json.bak.2").exists(), "what changes nothing keeps nothing");
    for more in [&["-o", "x"][..], &["--out-dir", "x"], &["--preview"]] {
        compress(&folder, &[&["--in-place"], more].concat()).refused();
    }
    let run = longhaul_reading(&folder, &["compress", "-", "--in-place"], &[], body.as_bytes());
    assert!(run.refused().contains("standard input"), "{}", run.err);
    for name in ["a.json", "b.json"] {
        folder.file(name, &body);
    }
    let call = ["compress", "a.json", "b.json", "--in-place", "--context-length", "8k", "--quiet"];
    assert_eq!(longhaul(&folder, &call, &[]).code, 0);
    for name in ["a.json", "b.json"] {
        assert!(read(&folder, name).len() < body.len());
        assert_eq!(read(&folder, &format!("{name}.bak")), body);
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_keeps_its_mode_and_its_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("files-mode");
    folder.file("session.json", session(20));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let private = folder.file("private.json", "");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(compress(&folder, &["-o", "private.json"]).code, 0);
    assert_eq!(mode(&private), 0o600);
    assert!(read(&folder, "private.json").starts_with('{'));

    fs::create_dir(folder.0.join("real")).unwrap();
    let real = folder.file("real/body.json", "");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.0.join("link.json");
    symlink("real/body.json", &link).unwrap();
    symlink("real/new.json", folder.0.join("dangling.json")).unwrap();
    for name in ["link.json", "dangling.json"] {
        assert_eq!(compress(&folder, &["-o", name]).code, 0);
        assert!(fs::symlink_metadata(folder.0.join(name)).unwrap().is_symlink(), "{name}");
    }
    assert_eq!(mode(&real), 0o640);
    assert_eq!(read(&folder, "real/body.json"), read(&folder, "real/new.json"));

    let body = folder.file("own.json", session(20));
    fs::set_permissions(&body, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("own.json", folder.0.join("own-link.json")).unwrap();
    let call = ["compress", "own-link.json", "--in-place", "--context-length", "8k", "--quiet"];
    assert_eq!(longhaul(&folder, &call, &[]).code, 0);
    assert!(fs::symlink_metadata(folder.0.join("own-link.json")).unwrap().is_symlink());
    assert_eq!((mode(&body), mode(&folder.0.join("own-link.json.bak"))), (0o600, 0o600));

    symlink("circle.json", folder.0.join("circle.json")).unwrap();
    assert_eq!(compress(&folder, &["-o", "circle.json"]).failed(3).lines().count(), 1);
    let left = fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert!(left.into_iter().all(|name| !name.contains(".part")), "nothing half-written is left");
}
