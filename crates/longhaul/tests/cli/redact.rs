//! `longhaul redact` through the real binary.

use serde_json::{Value, json};

use crate::support::{Folder, longhaul, longhaul_reading};

#[test]
fn text_comes_out_without_its_secrets_and_the_counts_are_said() {
    let folder = Folder::new("redact-text");
    let run = longhaul_reading(
        &folder,
        &["redact", "-"],
        &[],
        b"PASSWORD=hunter2 +14155552671\nPASSWORD=hunter2\n",
    );
    assert_eq!(run.code, 0);
    assert_eq!(
        run.out,
        "PASSWORD=[REDACTED:password:1] [REDACTED:phone-number:2]\nPASSWORD=[REDACTED:password:1]\n"
    );
    assert_eq!(run.err, "longhaul: redacted: password 2, phone-number 1\n");

    let clean = longhaul_reading(&folder, &["redact", "-"], &[], b"caf\xc3\xa9\n");
    assert_eq!(
        (clean.out.as_str(), clean.err.as_str()),
        ("caf\u{e9}\n", "longhaul: redacted: nothing found\n")
    );
}

#[test]
fn programs_get_the_text_and_byte_ranges_of_the_input() {
    let folder = Folder::new("redact-json");
    let text = "\u{e9} password=hunter2";
    let answer =
        longhaul_reading(&folder, &["redact", "--json", "-"], &[], text.as_bytes()).json("redact.json");
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
    folder.file(
        "longhaul.yaml",
        "redaction:\n  rules: [{ name: badge, pattern: 'B-[0-9]{6}' }]\n  allow: ['hunter2']\n",
    );
    let run = longhaul_reading(&folder, &["redact", "-"], &[], b"B-123456 password=hunter2");
    assert_eq!(run.out, "[REDACTED:badge:1] password=hunter2");
    folder.file("longhaul.yaml", "redaction:\n  rules: [{ name: badge, pattern: 'B-(' }]\n");
    let refused = longhaul_reading(&folder, &["redact", "-"], &[], b"x");
    assert!(
        refused.refused().contains("redaction.rules: entry 0, byte 2: unclosed group"),
        "{}",
        refused.err
    );
    assert!(refused.refused().starts_with("longhaul.yaml:2"), "{}", refused.err);
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
