//! Sessions of agents, in a home that is made up: listed, named, counted, compacted, priced, and never written to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::support::{Folder, Run, longhaul, longhaul_reading};

/// A session of Claude Code: files are read one after the other, with usage and times.
fn claude(session: &str, day: usize, steps: usize) -> String {
    let record = |kind: &str, number: usize, second: usize, message: Value| {
        json!({
            "type": kind, "uuid": format!("{session}-{number}"), "sessionId": session, "isSidechain": false,
            "parentUuid": (number > 0).then(|| format!("{session}-{}", number - 1)), "cwd": "/home/ada/kiln",
            "timestamp": format!("2026-03-{day:02}T10:{:02}:{:02}.000Z", second / 60, second % 60), "message": message,
        })
    };
    let mut lines = vec![record("user", 0, 0, json!({"role": "user", "content": "find out why the kiln is cold"}))];
    for step in 0..steps {
        let (id, second) = (format!("toolu_{session}_{step}"), step * 20);
        let (read, written) = (if step == 0 { 0 } else { 20_000 + 900 * step }, if step == 0 { 20_900 } else { 900 });
        let usage = json!({
            "input_tokens": 3, "cache_read_input_tokens": read, "cache_creation_input_tokens": written, "output_tokens": 60,
        });
        let call = json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": format!("src/part_{step}.py")}});
        let reply = json!({
            "id": format!("msg_{step}"), "role": "assistant", "model": "claude-sonnet-4-5", "content": [call], "usage": usage,
        });
        lines.push(record("assistant", 2 * step + 1, second + 5, reply));
        let text: Vec<String> =
            (0..50).map(|line| format!("def step_{step}_{line}(rows): return rows[{line}:]")).collect();
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": text.join("\n")}]);
        lines.push(record("user", 2 * step + 2, second + 10, json!({"role": "user", "content": result})));
    }
    lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

fn codex(session: &str) -> String {
    let line =
        |kind: &str, payload: Value| json!({"timestamp": "2026-03-05T10:00:00Z", "type": kind, "payload": payload});
    let said = |role: &str, kind: &str, words: &str| {
        line("response_item", json!({"type": "message", "role": role, "content": [{"type": kind, "text": words}]}))
    };
    let lines = [
        line(
            "session_meta",
            json!({"id": session, "cwd": "/home/ada/wheel", "base_instructions": {"text": "You throw pots."}}),
        ),
        line("turn_context", json!({"model": "gpt-5.1-codex"})),
        said("user", "input_text", "Make a bowl"),
        said("assistant", "output_text", "A bowl."),
    ];
    lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

/// A home with three sessions of two agents, and a file that is none.
fn home(name: &str) -> Folder {
    let folder = Folder::new(name);
    let put = |path: &str, text: String| {
        let path = folder.0.join("home").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(".claude/projects/-work-kiln/1f0c-old.jsonl", claude("1f0c-old", 1, 3));
    std::thread::sleep(std::time::Duration::from_millis(20));
    put(".claude/projects/-work-kiln/1f0d-new.jsonl", claude("1f0d-new", 4, 40));
    put(".claude/projects/-work-kiln/broken.jsonl", "{\"type\":\"summ".to_owned());
    put(".codex/sessions/2026/03/05/rollout-2026-03-05T10-00-00-0199-bowl.jsonl", codex("0199-bowl"));
    std::thread::sleep(std::time::Duration::from_millis(20));
    let newest = folder.0.join("home/.claude/projects/-work-kiln/1f0d-new.jsonl");
    fs::File::options().append(true).open(newest).unwrap().set_modified(SystemTime::now()).unwrap();
    folder
}

fn run(folder: &Folder, arguments: &[&str]) -> Run {
    let home = folder.0.join("home");
    longhaul(folder, arguments, &[("HOME", home.to_str().unwrap())])
}

/// Every file below a folder, with its bytes and when it was changed.
fn state(folder: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let changed = path.metadata().unwrap().modified().unwrap();
            if path.is_dir() {
                files.insert(path.display().to_string(), (Vec::new(), changed));
                folders.push(path);
            } else {
                files.insert(path.display().to_string(), (fs::read(&path).unwrap(), changed));
            }
        }
    }
    files
}

#[test]
fn sessions_are_listed_the_newest_first_with_what_was_recorded() {
    let folder = home("sessions-list");
    let answer = run(&folder, &["sessions", "--json"]).json("sessions.json");
    let names: Vec<&str> =
        answer["sessions"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["codex:0199-bowl", "claude:1f0d-new", "claude:1f0c-old"]);
    let newest = &answer["sessions"][1];
    assert_eq!((&newest["project"], &newest["messages"]), (&json!("/home/ada/kiln"), &json!(81)));
    // 20,000 + 39 × 900 were cached, 900 written, 3 fresh, and 60 came back.
    assert_eq!((&newest["tokens"], &newest["tokens_by"]), (&json!(56_063), &json!("provider")));
    assert_eq!(newest["requests"], 40);
    assert!(newest["usd"].as_f64().unwrap() > 0.3 && newest["usd_by"] == "prices");
    assert_eq!(answer["sessions"][0]["tokens_by"], "longhaul");
    assert_eq!(answer["failed"].as_array().unwrap().len(), 1, "a file that is no session is said once");
    let page = run(&folder, &["sessions", "--agent", "claude", "--limit", "1"]);
    assert!(page.out.contains("claude:1f0d-new  /home/ada/kiln"), "{}", page.out);
    assert!(page.out.contains("not shown; --limit 0 shows all"), "{}", page.out);
    let none = run(&folder, &["sessions", "--agent", "goose"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("no sessions of goose found"));
    assert!(run(&folder, &["sessions", "--since", "soon"]).refused().contains("expected 30m, 12h, 7d"));
    assert_eq!(
        run(&folder, &["sessions", "--since", "2099-01-01", "--json"]).json("sessions.json")["sessions"],
        json!([])
    );
}

#[test]
fn a_session_is_exported_as_the_body_of_its_next_request() {
    let folder = home("sessions-export");
    let done = run(&folder, &["export", "claude:latest"]);
    let body: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(body["model"], "claude-sonnet-4-5");
    assert_eq!(body["messages"].as_array().unwrap().len(), 81);
    assert!(
        done.err
            .contains("claude:latest: session 1f0d-new of claude in /home/ada/kiln, last written 2026-03-04T10:13:10Z")
    );
    assert!(done.err.contains("its file does not contain the system prompt and the tools"), "{}", done.err);
    let done = run(&folder, &["export", "codex:0199", "-o", "next.json"]);
    assert_eq!((done.code, done.out.as_str()), (0, ""));
    let body: Value = serde_json::from_str(&fs::read_to_string(folder.0.join("next.json")).unwrap()).unwrap();
    assert_eq!((&body["instructions"], &body["input"][1]["role"]), (&json!("You throw pots."), &json!("assistant")));
    assert!(run(&folder, &["export", "next.json"]).refused().contains("next.json is not a session of a known agent"));
    assert!(run(&folder, &["export", "missing.jsonl"]).refused().contains("does not exist"));
    assert!(
        run(&folder, &["export", "clade:latest"])
            .refused()
            .contains("unknown agent `clade`; known agents: claude, codex")
    );
    assert!(run(&folder, &["export", "claude:1f0"]).refused().contains("matches 2 sessions of claude"));
}

#[test]
fn every_command_that_reads_a_body_reads_a_session() {
    let folder = home("sessions-all");
    let file = "home/.claude/projects/-work-kiln/1f0d-new.jsonl";
    for session in ["claude:latest", file] {
        let tokens = run(&folder, &["tokens", session, "--json"]).json("tokens.json");
        assert_eq!((&tokens["dialect"], &tokens["messages"]), (&json!("messages"), &json!(81)));
        assert!(tokens["notes"].to_string().contains("does not contain the system prompt"));
        let check = run(&folder, &["check", session, "--json"]);
        assert_eq!(check.code, 0, "{}{}", check.out, check.err);
        assert_eq!(run(&folder, &["cache", session, "-o", "marked.json"]).code, 0);
        assert!(fs::read_to_string(folder.0.join("marked.json")).unwrap().contains("cache_control"));
        let redacted = run(&folder, &["redact", session]);
        assert_eq!(redacted.code, 0, "{}", redacted.err);
        assert!(redacted.out.starts_with("{\"model\":"), "{}", &redacted.out[..60]);
        let done = run(&folder, &["compress", session, "--to-tokens", "9k", "-o", "small.json", "--quiet"]);
        assert_eq!((done.code, done.err.as_str()), (0, ""));
        let small = fs::read_to_string(folder.0.join("small.json")).unwrap();
        let exported = run(&folder, &["export", session]).out;
        assert!(small.starts_with("{\"model\":") && small.len() < exported.len() / 2, "one body, and a smaller one");
    }
    let last = json!({"id": "msg_9", "role": "assistant", "model": "claude-opus-4-6", "content": [{"type": "text", "text": "It is lit."}]});
    let last = json!({"type": "assistant", "uuid": "z", "parentUuid": "1f0f-4", "sessionId": "1f0f", "message": last});
    folder.file("ended.jsonl", claude("1f0f", 3, 2) + &last.to_string());
    let ended = run(&folder, &["check", "ended.jsonl"]);
    assert_eq!(ended.code, 0, "a session that ends with a reply goes on with a prompt: {}", ended.out);
    for command in ["compress", "tokens", "cost"] {
        let piped = longhaul_reading(&folder, &[command, "-"], &[], claude("1f0e", 2, 2).as_bytes());
        assert!(
            piped
                .refused()
                .contains("standard input is a session of claude; give its file, or its name as claude:latest")
        );
    }
    let done = run(&folder, &["compress", "claude:latest", "codex:latest", "--out-dir", "small", "--force", "--quiet"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(
        folder.0.join("small/claude-1f0d-new.json").exists() && folder.0.join("small/codex-0199-bowl.json").exists()
    );
}

#[test]
fn what_a_session_cost_comes_first_and_its_pauses_are_its_own() {
    let folder = home("sessions-cost");
    let answer = run(&folder, &["cost", "claude:latest", "--json"]).json("cost.json");
    let first = answer["summary"][0].as_str().unwrap();
    let paid = answer["recorded"]["paid"]["usd"].as_f64().unwrap();
    assert!(first.starts_with(&format!("This session cost ${paid:.2}; sent whole it would have cost $")), "{first}");
    assert_eq!(answer["recorded"]["paid"]["requests"], 40);
    assert_eq!((&answer["pauses"]["by"], &answer["requests"]), (&json!("recorded"), &json!(40)));
    // From the first prompt to the last result that was answered.
    assert!((answer["minutes"].as_f64().unwrap() - 770.0 / 60.0).abs() < 0.1, "{}", answer["minutes"]);
    // The first request was 20,903 tokens, of which the file holds a sentence.
    let unseen = answer["recorded"]["unseen"].as_u64().unwrap();
    assert!((20_800..20_903).contains(&unseen), "{unseen}");
    let marks = answer["policies"].as_array().unwrap().iter().find(|row| row["name"] == "marks").unwrap();
    let ratio = marks["usd"].as_f64().unwrap() / paid;
    assert!((0.8..1.3).contains(&ratio), "the replay with breakpoints is near what was paid: {ratio}");
}

#[test]
fn nothing_is_written_where_agents_keep_their_sessions() {
    let folder = home("sessions-untouched");
    let before = state(&folder.0.join("home"));
    let file = "home/.claude/projects/-work-kiln/1f0d-new.jsonl";
    let calls: &[&[&str]] = &[
        &["sessions"],
        &["export", "claude:latest", "--whole"],
        &["cost", "claude:latest"],
        &["tokens", file],
        &["compress", "claude:latest", "--preview", "--diff"],
        &["compress", file, "--in-place", "--force"],
        &["compress", "claude:latest", "codex:latest", "--in-place", "--force"],
        &["compress", "claude:latest", "-o", file, "--force"],
        &["export", "codex:latest", "-o", "home/.codex/sessions/next.json"],
        &[
            "compress",
            "claude:latest",
            "--originals",
            "home/.codex/sessions/kept.jsonl",
            "--to-tokens",
            "9k",
            "-o",
            "x.json",
        ],
    ];
    for (at, call) in calls.iter().enumerate() {
        let done = run(&folder, call);
        assert_eq!(done.code, if at < 5 { 0 } else { 2 }, "{call:?}: {}", done.err);
    }
    assert!(state(&folder.0.join("home")) == before, "a file was changed, added or removed");
    assert!(run(&folder, calls[5]).refused().contains("is a session of claude and cannot be replaced"));
    assert!(run(&folder, calls[8]).err.contains("is where codex keeps its sessions"));
}

#[test]
fn a_session_anywhere_is_not_written_over_and_a_new_file_is_none_of_an_agents() {
    let folder = home("sessions-elsewhere");
    folder.file("copy.jsonl", claude("1f0e-copy", 2, 2));
    for there in ["copy.jsonl", "home/.claude/projects/-work-kiln/longhaul.yaml"] {
        let call: &[&str] =
            if there.ends_with("yaml") { &["init", there] } else { &["export", "codex:latest", "-o", there] };
        let done = run(&folder, call);
        assert!(done.code == 2 && done.err.contains("give another file"), "{there}: {}", done.err);
    }
    assert!(fs::read_to_string(folder.0.join("copy.jsonl")).unwrap().contains("1f0e-copy"));
    assert!(!folder.0.join("home/.claude/projects/-work-kiln/longhaul.yaml").exists());
}

#[test]
fn what_cannot_be_meant_is_said() {
    let folder = home("sessions-meant");
    assert!(run(&folder, &["tokens", "claude"]).refused().contains("claude:latest is its newest session"));
    let other = run(&folder, &["export", "claude:latest", "--dialect", "chat"]);
    assert!(other.refused().contains("is a session in the API format messages"));
    let behind = run(&folder, &["compress", "claude:latest", "--keep-from", "81", "--preview"]);
    assert!(behind.code == 2 && behind.err.contains("its messages are 0 to 80"), "{}", behind.err);
    assert_eq!(run(&folder, &["compress", "claude:latest", "--keep-from", "80", "--preview"]).code, 0);
    assert!(run(&folder, &["export", "codex:latest"]).err.contains("append your next message"));
}

/// Whoever opens a pipe waits for somebody who writes.
#[cfg(unix)]
#[test]
fn a_pipe_where_sessions_are_kept_is_passed_by() {
    let folder = home("sessions-pipe");
    let pipe = folder.0.join("home/.claude/projects/-work-kiln/pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    assert!(run(&folder, &["sessions"]).out.contains("claude:1f0d"));
}
