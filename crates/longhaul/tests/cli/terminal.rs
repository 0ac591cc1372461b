//! What people and programs are told: nothing that a terminal would obey, colours by one switch, failures as JSON, exit codes.

use serde_json::{Value, json};

use crate::support::{Folder, against, longhaul};

/// A body whose every name tries to take over the terminal: to clear it, to forge a line, to turn the direction of writing.
fn hostile() -> String {
    let evil = "x\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{2066}\nlonghaul: accepted\r";
    let function = json!({"name": evil, "arguments": "{}"});
    let call = json!({"id": evil, "type": "function", "function": function});
    let mut messages = vec![json!({"role": "user", "content": evil})];
    for _ in 0..12 {
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(
            json!({"role": "tool", "tool_call_id": evil, "content": format!("{evil} error: {evil}\n").repeat(120)}),
        );
    }
    messages.push(json!({"role": evil, "content": "and now?"}));
    json!({"model": format!("claude-sonnet-4-5{evil}"), evil: 1, "messages": messages}).to_string()
}

#[test]
fn names_out_of_a_body_never_reach_the_terminal_raw() {
    let folder = Folder::new("terminal-escape");
    folder.file("hostile.json", hostile());
    folder.file("other.json", hostile().replace("and now?", "and then?"));
    let calls: [&[&str]; 12] = [
        &["check", "hostile.json"],
        &["check", "hostile.json", "--before", "other.json"],
        &["tokens", "hostile.json"],
        &["cost", "hostile.json", "--dialect", "messages"],
        &["compress", "hostile.json", "--preview", "--diff", "--context-length", "8k"],
        &["compress", "hostile.json", "--preview", "--diff", "--to-tokens", "500", "--context-length", "8k"],
        &["cache", "hostile.json", "--compare", "other.json"],
        &["cache", "hostile.json", "-o", "marked.json"],
        &["explain", "--model", "m\u{1b}[2J\n\u{202e}"],
        &["check", "no\u{1b}[2J\n\u{202e}such.json"],
        &["tokens", "hostile.json", "--dialect", "x\u{1b}[2J\u{202e}"],
        &["recall", "--originals", "hostile.json", "h\u{1b}[2J\n\u{202e}"],
    ];
    for call in calls {
        let run = longhaul(&folder, call, &[]);
        for text in [&run.out, &run.err] {
            let obeyed =
                |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!text.contains(obeyed), "{call:?}: {text:?}");
            assert!(!text.lines().any(|line| line == "longhaul: accepted"), "{call:?} forges a line: {text}");
        }
    }
    let run = longhaul(&folder, &["tokens", "hostile.json"], &[]);
    assert!(run.out.contains("\\u{1b}[2J"), "it is shown, not hidden: {}", run.out);
    let body = longhaul(&folder, &["compress", "hostile.json", "--quiet"], &[]);
    assert_eq!(body.out, hostile(), "data stays as it is");
}

#[test]
fn one_switch_colours_every_command() {
    let folder = Folder::new("terminal-colour");
    folder.file("body.json", json!({"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}).to_string());
    let row = r#"{"engine":"compressor","reason":"r","tokens_before":9,"tokens_after":3,"messages_before":2,"messages_after":1,"ratio":0.5}"#;
    folder.file("log.jsonl", row);
    let calls: [&[&str]; 8] = [
        &["check", "body.json"],
        &["tokens", "body.json"],
        &["cost", "body.json"],
        &["config"],
        &["explain"],
        &["engines"],
        &["stats", "log.jsonl"],
        &["compress", "body.json", "--preview", "--diff"],
    ];
    for call in calls {
        let run = |more: &[&str], environment: &[(&str, &str)]| {
            let run = longhaul(&folder, &[call, more].concat(), environment);
            assert_eq!(run.code, 0, "{call:?}: {}", run.err);
            run.out.contains('\u{1b}')
        };
        assert!(!run(&[], &[]), "{call:?}: no terminal");
        assert!(run(&["--color", "always"], &[]), "{call:?}");
        assert!(run(&[], &[("CLICOLOR_FORCE", "1")]), "{call:?}");
        assert!(!run(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "{call:?}");
        assert!(!run(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]), "{call:?}");
    }
}

#[test]
fn failures_under_json_are_json_with_the_exit_code() {
    let folder = Folder::new("terminal-json");
    folder.file("kept.jsonl", "");
    folder.file("broken.json", "{");
    let calls: [(&[&str], i32); 9] = [
        (&["tokens", "missing.json", "--json"], 2),
        (&["check", "--json", "broken.json"], 2),
        (&["compress", "broken.json", "--json"], 2),
        (&["cost", "broken.json", "--json"], 2),
        (&["recall", "--originals", "kept.jsonl", "nothing", "--json"], 1),
        (&["tokens", "--json"], 2),
        (&["nonsense", "--json"], 2),
        (&["config", "--config", "missing.yaml", "--json"], 2),
        (&["config", "--json", "-o", "/dev/full"], 3),
    ];
    for (call, code) in calls {
        if call.contains(&"/dev/full") && !std::path::Path::new("/dev/full").exists() {
            continue;
        }
        let run = longhaul(&folder, call, &[]);
        let error: Value = against("error.json", &run.out);
        assert_eq!((run.code, &error["error"]["exit"]), (code, &json!(code)), "{call:?}");
        assert_eq!(run.failed(code), error["error"]["message"].as_str().unwrap(), "people read the same");
        let plain: Vec<&str> = call.iter().copied().filter(|word| *word != "--json").collect();
        assert_eq!(longhaul(&folder, &plain, &[]).out, "", "{call:?}: without --json nothing is printed");
    }
    let run = longhaul(&folder, &["compress", "broken.json", "missing.json", "--out-dir", "out", "--json"], &[]);
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);
    assert!(run.out.lines().all(|line| against("error.json", line)["error"]["exit"] == 2));
}

#[test]
fn bodies_that_all_failed_are_not_smaller() {
    let folder = Folder::new("terminal-all-failed");
    folder.file("broken.json", "{");
    let run = longhaul(&folder, &["compress", "broken.json", "missing.json", "--out-dir", "out"], &[]);
    assert_eq!(run.code, 2);
    assert!(!run.err.contains('%') && run.err.contains("2 requests, 0 compacted, 2 failed\n"), "{}", run.err);
}
