//! `longhaul redact` through the real binary.

use serde_json::{Value, json};

use crate::support::{Folder, longhaul, longhaul_reading};

#[test]
fn text_comes_out_without_its_secrets_and_the_counts_are_said() {
    let folder = Folder::new("redact-text");
    let run = longhaul_reading(&folder, &["redact", "-"], &[], b"PASSWORD=hunter2 +14155552671\nPASSWORD=hunter2\n");
    assert_eq!(run.code, 0);
    assert_eq!(run.out, "PASSWORD=[REDACTED:password:1] [REDACTED:phone-number:2]\nPASSWORD=[REDACTED:password:1]\n");
    assert_eq!(run.err, "longhaul: redacted: password 2, phone-number 1\n");

    let clean = longhaul_reading(&folder, &["redact", "-"], &[], b"caf\xc3\xa9\n");
    assert_eq!((clean.out.as_str(), clean.err.as_str()), ("caf\u{e9}\n", "longhaul: redacted: nothing found\n"));
}

#[test]
fn programs_get_the_text_and_byte_ranges_of_the_input() {
    let folder = Folder::new("redact-json");
    let text = "\u{e9} password=hunter2";
    let answer = longhaul_reading(&folder, &["redact", "--json", "-"], &[], text.as_bytes()).json("redact.json");
    assert_eq!(answer["found"], json!([{"kind": "password", "start": 12, "end": 19}]));
    assert_eq!(&text[12..19], "hunter2");
}

#[test]
fn a_document_stays_a_document_and_code_is_spared() {
    let folder = Folder::new("redact-kinds");
    let body = folder.file("body.json", r#"{"password": "hun\u0074er2", "n": 1.0}"#);
    let run = longhaul(&folder, &["redact", "--kind", "json", body.to_str().unwrap()], &[]);
    assert_eq!(run.out, r#"{"password": "[REDACTED:password:1]", "n": 1.0}"#);
    let code = folder.file("main.py", "password = 'hunter2'\n");
    assert_eq!(longhaul(&folder, &["redact", code.to_str().unwrap()], &[]).out, "password = 'hunter2'\n");
    let text = longhaul(&folder, &["redact", "--kind", "text", code.to_str().unwrap()], &[]);
    assert_eq!(text.out, "password = '[REDACTED:password:1]'\n");
    let broken = folder.file("broken.json", "{");
    let line = longhaul(&folder, &["redact", "--kind", "json", broken.to_str().unwrap()], &[]);
    assert!(line.refused().contains("not JSON at line 1"), "{}", line.err);
}

#[test]
fn the_configuration_adds_rules_and_a_bad_one_is_refused_with_its_place() {
    let folder = Folder::new("redact-rules");
    folder.file("own.yaml", "redaction:\n  rules: [{ name: badge, pattern: 'B-[0-9]{6}' }]\n  allow: ['hunter2']\n");
    let run = longhaul_reading(&folder, &["redact", "-"], &[], b"B-123456 password=hunter2");
    assert_eq!(run.out, "[REDACTED:badge:1] password=hunter2");
    folder.file("own.yaml", "redaction:\n  rules: [{ name: badge, pattern: 'B-(' }]\n");
    let refused = longhaul_reading(&folder, &["redact", "-"], &[], b"x");
    assert!(refused.refused().contains("redaction.rules: entry 0, byte 2: unclosed group"), "{}", refused.err);
    assert!(refused.refused().starts_with("own.yaml:2"), "{}", refused.err);
}

#[test]
fn rules_can_be_listed() {
    let folder = Folder::new("redact-list");
    let people = longhaul(&folder, &["redact", "--list-rules"], &[]);
    assert!(people.out.lines().any(|line| line.starts_with("github-token ")), "{}", people.out);
    let programs = longhaul(&folder, &["redact", "--list-rules", "--json"], &[]);
    let rules: Vec<Value> = serde_json::from_str(&programs.out).unwrap();
    assert!(rules.iter().any(|rule| rule["kind"] == "phone-number"));
    assert!(longhaul(&folder, &["redact"], &[]).refused().contains("TEXT"));
}

#[test]
fn a_long_stream_is_read_in_pieces() {
    let folder = Folder::new("redact-stream");
    let line = "2026-01-01 an ordinary line of a log that goes on and on\n".repeat(60_000);
    let long = folder.file("long.log", format!("{line}password=hunter2\n{line}"));
    let run = longhaul(&folder, &["redact", long.to_str().unwrap()], &[]);
    assert_eq!(run.out, format!("{line}password=[REDACTED:password:1]\n{line}"));
}

/// A session that outgrows a context window of 20,000 tokens, with these words in a call that is folded and in its output.
fn session(words: &str) -> String {
    let mut messages = vec![json!({"role": "user", "content": "Make the build green."})];
    for step in 0..30 {
        let id = format!("c{step}");
        let said = if step == 1 { words } else { "nothing" };
        let arguments = json!({"command": format!("make t{step} # {said}")}).to_string();
        let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let noise = format!("compiling one more unit of step {step}\n").repeat(90);
        let output = format!("{noise}main.c:{step}: error: {said}\nexit code: 2\n");
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

const COMPRESS: [&str; 7] = ["compress", "session.json", "--context-length", "20000", "--to-tokens", "1200", "--force"];

#[test]
fn the_users_rules_hold_in_checkpoints_and_originals() {
    let folder = Folder::new("redact-compress");
    folder.file("own.yaml", "redaction:\n  rules: [{ name: badge, pattern: 'B-([0-9]{6})' }]\n");
    folder.file("session.json", session("badge B-123456 is not known"));
    let more = ["--originals", "removed.jsonl", "--report", "report.json", "-o", "after.json"];
    let run = longhaul(&folder, &[&COMPRESS[..], &more].concat(), &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    let kept = std::fs::read_to_string(folder.0.join("removed.jsonl")).unwrap();
    assert!(kept.contains("B-[REDACTED:badge:"), "the original is there, without the badge");
    for file in ["removed.jsonl", "report.json"] {
        let text = std::fs::read_to_string(folder.0.join(file)).unwrap();
        assert!(!text.contains("123456"), "{file}");
    }
    let shown = longhaul(&folder, &[&COMPRESS[..], &["--show", "checkpoint"]].concat(), &[]);
    assert!(shown.out.contains("badge B-[REDACTED:badge:"), "{}", shown.out);
    assert!(!shown.out.contains("123456"), "{}", shown.out);
}

#[test]
fn rules_that_cannot_be_used_are_refused_before_anything_is_written() {
    let folder = Folder::new("redact-refused");
    folder.file("session.json", session("nothing"));
    let call = [&COMPRESS[..], &["--originals", "removed.jsonl", "-o", "after.json"]].concat();
    for (rules, said) in [
        ("rules: [{ name: badge, pattern: 'B-(' }]", "unclosed group"),
        ("rules: [{ name: badge, pattern: 'B*' }]", "matches the empty text"),
        ("allow: ['.*']", "no secret would be redacted"),
        ("allow: ['(?s).+']", "no secret would be redacted"),
        ("allow: ['[^ ].*']", "no secret would be redacted"),
    ] {
        folder.file("own.yaml", format!("redaction:\n  {rules}\n"));
        let run = longhaul(&folder, &call, &[]);
        assert!(run.refused().contains(said), "{rules}: {}", run.err);
        assert!(longhaul_reading(&folder, &["redact", "-"], &[], b"x").refused().contains(said), "{rules}");
        assert!(!folder.0.join("removed.jsonl").exists() && !folder.0.join("after.json").exists());
    }
}

#[test]
fn a_secret_in_the_focus_is_shown_nowhere() {
    let folder = Folder::new("redact-focus");
    folder.file("session.json", session("nothing"));
    let focus = ["--focus", "the login with DB_PASSWORD=marmalade-kettle-9"];
    let more = ["--originals", "removed.jsonl", "--report", "report.json", "--log", "log.jsonl", "-o", "after.json"];
    let run = longhaul(&folder, &[&COMPRESS[..], &focus, &more].concat(), &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    for file in ["removed.jsonl", "report.json", "log.jsonl", "after.json"] {
        let text = std::fs::read_to_string(folder.0.join(file)).unwrap();
        assert!(!text.contains("marmalade-kettle-9"), "{file}");
    }
    for show in [&["--show", "checkpoint"][..], &["--diff"], &["--json"], &[]] {
        let run = longhaul(&folder, &[&COMPRESS[..], &focus, show].concat(), &[]);
        assert!(!format!("{}{}", run.out, run.err).contains("marmalade-kettle-9"), "{show:?}");
    }
}
