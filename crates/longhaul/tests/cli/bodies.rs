//! `check` and `tokens`, and what every command that reads a body does with bad input.

use std::path::Path;

use serde_json::json;

use crate::support::{Folder, longhaul, longhaul_reading};

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).to_string_lossy().into_owned()
}

#[test]
fn the_examples_are_accepted_and_the_refused_one_is_not() {
    let folder = Folder::new("check-examples");
    for name in ["chat.json", "messages.json", "responses.json"] {
        let run = longhaul(&folder, &["check", &example(name)], &[]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        assert!(run.out.contains("accepted"), "{}", run.out);
    }
    let run = longhaul(&folder, &["check", &example("refused.json"), "--json"], &[]);
    assert_eq!(run.code, 1);
    let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let rules: Vec<_> = answer["violations"].as_array().unwrap().iter().map(|v| v["rule"].clone()).collect();
    assert_eq!(rules, ["O2", "O1"]);
    assert_eq!(answer["violations"][0]["at"], "/messages/1/tool_calls/0");
}

#[test]
fn answers_for_programs_keep_to_their_schemas() {
    let folder = Folder::new("body-schemas");
    for name in ["chat.json", "messages.json", "responses.json"] {
        longhaul(&folder, &["check", &example(name), "--json"], &[]).json("check.json");
        let tokens = longhaul(&folder, &["tokens", &example(name), "--json"], &[]).json("tokens.json");
        let parts = tokens["parts"].as_object().unwrap().values().map(|v| v.as_u64().unwrap());
        assert_eq!(parts.sum::<u64>(), tokens["total"].as_u64().unwrap());
    }
}

#[test]
fn a_rewrite_is_held_against_what_it_came_from() {
    let folder = Folder::new("check-before");
    let before = example("chat.json");
    let text = std::fs::read_to_string(&before).unwrap();
    let good = folder.file("good.json", text.replace("1 replacement in server.toml", "edited"));
    let bad = folder.file("bad.json", text.replace("Now add a health check", "Now remove the health check"));
    let check = |after: &Path| {
        let run = longhaul(&folder, &["check", after.to_str().unwrap(), "--before", &before, "--json"], &[]);
        (run.code, run.out)
    };
    assert_eq!(check(&good).0, 0, "{}", check(&good).1);
    let (code, out) = check(&bad);
    assert_eq!(code, 1);
    assert!(out.contains("\"V1\""), "the newest user message was changed: {out}");
}

#[test]
fn a_body_comes_from_standard_input_and_the_dialect_can_be_told() {
    let folder = Folder::new("body-stdin");
    let body = br#"[{"role":"user","content":"hi"}]"#;
    let run = longhaul_reading(&folder, &["tokens", "-", "--json", "--model", "gpt-5"], &[], body);
    let answer = run.json("tokens.json");
    assert_eq!((&answer["dialect"], &answer["dialect_sure"]), (&json!("chat"), &json!(false)));
    assert_eq!(answer["exact"], true);
    let run = longhaul_reading(&folder, &["check", "-", "--json", "--model", "claude-opus-4-5"], &[], body);
    let answer = run.json("check.json");
    assert_eq!((&answer["dialect"], &answer["dialect_sure"]), (&json!("messages"), &json!(false)));
    let run = longhaul_reading(&folder, &["tokens", "-", "--json", "--dialect", "messages"], &[], body);
    let answer = run.json("tokens.json");
    assert_eq!((&answer["dialect"], &answer["dialect_sure"]), (&json!("messages"), &json!(true)));
    assert_eq!(answer["window_assumed"], true);
}

#[test]
fn bad_input_gets_one_clear_line_and_exit_code_2() {
    let folder = Folder::new("bad-input");
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty", b"", "is empty"),
        ("blank", b" \n\t", "is empty"),
        ("mark", "\u{feff}".as_bytes(), "is empty"),
        ("words", b"hello there", "is not JSON at line 1, column 1"),
        ("cut", br#"{"messages":[{"role":"user","content":"hi"#, "expected `\"` to end a string"),
        ("number", b"42", "has no `messages` or `input`"),
        ("other", br#"{"name":"package","version":"1.0.0"}"#, "has no `messages` or `input`"),
        ("latin", b"{\"messages\":[\"caf\xe9\"]}", "is not UTF-8"),
        ("gzip", &[0x1f, 0x8b, 8, 0, 0, 0], "is gzip-compressed"),
        ("control", b"{\"input\":\"a\nb\"}", "in place of the control character"),
    ];
    for (name, bytes, said) in cases {
        let path = folder.file(name, bytes);
        for command in ["check", "tokens"] {
            let run = longhaul(&folder, &[command, path.to_str().unwrap()], &[]);
            assert!(run.refused().contains(said), "{command} {name}: {}", run.err);
        }
    }
    for path in [folder.0.to_str().unwrap(), "no-such-file"] {
        longhaul(&folder, &["check", path], &[]).refused();
    }
}

#[test]
fn strange_but_readable_input_just_works() {
    let folder = Folder::new("strange-input");
    let deep = format!(r#"{{"messages":[{{"role":"user","content":{}1{}}}]}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let cases = [
        ("mark", "\u{feff}{\"input\":\"hi\"}".to_owned()),
        ("half", r#"{"input":"half \ud83d pair"}"#.to_owned()),
        ("twice", r#"{"input":"a","input":"b"}"#.to_owned()),
        ("deep", deep),
    ];
    for (name, body) in cases {
        let path = folder.file(name, body);
        let tokens = longhaul(&folder, &["tokens", path.to_str().unwrap()], &[]);
        assert_eq!(tokens.code, 0, "{name}: {}", tokens.err);
        let check = longhaul(&folder, &["check", path.to_str().unwrap()], &[]);
        assert!(check.code <= 1 && check.err.is_empty(), "{name}: {} {}", check.code, check.err);
    }
    let half = longhaul(&folder, &["check", folder.0.join("half").to_str().unwrap()], &[]);
    assert!(half.code == 1 && half.out.contains("G1"), "{}", half.out);
}

#[test]
fn two_hundred_megabytes_are_read() {
    let folder = Folder::new("large-input");
    let message = format!(r#"{{"role":"user","content":"{}"}},"#, "line of a log file\\n".repeat(50_000));
    let mut body = String::from("[");
    while body.len() < 200 << 20 {
        body.push_str(&message);
    }
    body.push_str(r#"{"role":"user","content":"done"}]"#);
    let path = folder.file("large.json", body);
    let run = longhaul(&folder, &["check", path.to_str().unwrap()], &[]);
    assert!(run.code <= 1, "{}", run.err);
}

#[test]
fn every_rule_is_listed() {
    let folder = Folder::new("list-rules");
    let run = longhaul(&folder, &["check", "--list-rules"], &[]);
    assert_eq!(run.code, 0);
    for rule in ["G1", "A1", "O2", "R3", "M6", "X6", "V1"] {
        assert!(run.out.lines().any(|line| line.starts_with(&format!("{rule} "))), "{rule} is missing");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = Folder::new("closed-pipe");
    let script = format!("{} check --list-rules | head -1", env!("CARGO_BIN_EXE_longhaul"));
    let run = std::process::Command::new("sh").args(["-c", &script]).current_dir(&folder.0).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
}
