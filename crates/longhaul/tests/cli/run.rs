//! `longhaul run` as a process, with agents that are shell scripts.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::gateway::KEY;
use crate::scripted::Act;
use crate::support::{Folder, Run, Upstream, longhaul};

/// A script that is called like an agent.
fn agent(folder: &Folder, name: &str, script: &str) -> PathBuf {
    let path = folder.file(name, format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What a script calls to ask a model: this test program, as the one test below.
fn asker() -> String {
    let program = std::env::current_exe().unwrap();
    format!("'{}' --exact run::ask_a_model --ignored --nocapture >/dev/null", program.display())
}

/// Asks a model at the address that the agent was given. It is no test: scripts call it.
#[test]
#[ignore = "the agents of the other tests call it"]
fn ask_a_model() {
    let url = std::env::var("ANTHROPIC_BASE_URL").unwrap();
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
    let (status, reply) = crate::http::post(&url, "/v1/messages", &[("x-api-key", KEY)], &body.to_string());
    assert_eq!(status, 200, "{reply}");
}

/// Asks at the address of a run without its key, as any other user of the machine could. It is no test: a script calls it.
#[test]
#[ignore = "the agent of another test calls it"]
fn ask_as_a_stranger() {
    let url = std::env::var("ANTHROPIC_BASE_URL").unwrap();
    let (open, key) = url.rsplit_once('/').unwrap();
    assert!(key.starts_with("lh-") && key.len() == 46, "{url}");
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
    let guess = format!("/lh-{}", "A".repeat(43));
    for before in ["", guess.as_str()] {
        for path in ["/v1/messages", "/v1/messages/count_tokens", "/v1/files", "/anything"] {
            let headers = [("x-api-key", KEY)];
            let (status, _) = crate::http::post(open, &format!("{before}{path}"), &headers, &body.to_string());
            assert_eq!(status, 401, "POST {before}{path}");
        }
        for path in ["/", "/api/sessions", "/api/overview", "/events", "/metrics", "/healthz", "/v1/models"] {
            assert_eq!(crate::http::get(open, &format!("{before}{path}")), 401, "GET {before}{path}");
        }
    }
    for path in ["/", "/api/sessions", "/metrics", "/healthz"] {
        assert_eq!(crate::http::get(&url, path), 200, "{path}");
    }
}

fn run(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    let always = [("PATH", "/usr/bin:/bin")];
    longhaul(folder, &[&["run", "--store", "store.db"], arguments].concat(), &[&always, environment].concat())
}

#[test]
fn an_agent_runs_behind_a_gateway_and_what_it_came_to_is_said() {
    let (folder, upstream) = (Folder::new("run"), Upstream::that([Act::says("good day")]));
    let script = format!("echo \"$ANTHROPIC_BASE_URL $DISABLE_COMPACT $*\"\n{} || exit 9\nexit 7", asker());
    agent(&folder, "claude", &script);
    let done = run(&folder, &["--upstream", &upstream.server.base_url(), "--", "./claude", "-p", "a b"], &[]);
    assert_eq!(done.code, 7, "{}", done.err);
    let words: Vec<&str> = done.out.split_whitespace().collect();
    assert!(words[0].starts_with("http://127.0.0.1:"), "{}", done.out);
    let dashboard = format!("longhaul: the dashboard, for you alone, is at {}/", words[0]);
    assert!(done.err.lines().any(|line| line == dashboard), "{}", done.err);
    assert_eq!(words[1..], ["1", "-p", "a", "b"]);
    let asked = upstream.server.asked();
    assert_eq!((asked.len(), asked[0].header("x-api-key")), (1, Some(KEY)));
    let last = done.err.lines().last().unwrap();
    assert!(last.starts_with("longhaul: 1 request, 0 compactions, "), "{}", done.err);
    assert!(done.err.contains("its own compaction is off for this run"), "{}", done.err);
    assert!(!done.err.contains(KEY), "{}", done.err);
}

#[test]
fn the_gateway_of_a_run_is_for_its_agent_alone() {
    let (folder, upstream) = (Folder::new("run-stranger"), Upstream::that([]));
    agent(&folder, "claude", &asker().replace("ask_a_model", "ask_as_a_stranger"));
    for keys in ["false", "true"] {
        let environment = [("LONGHAUL_GATEWAY__REQUIRE_KEYS", keys)];
        let call = ["--quiet", "--upstream", &upstream.server.base_url(), "--", "./claude"];
        let done = run(&folder, &call, &environment);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.out);
    }
    assert!(upstream.server.asked().is_empty());
}

#[test]
fn each_agent_is_given_what_it_needs_before_its_own_arguments() {
    let folder = Folder::new("run-agents");
    agent(&folder, "codex", "for a in \"$@\"; do echo \"$a\"; done");
    let codex = run(&folder, &["--quiet", "--", "./codex", "exec", "x y"], &[]);
    let lines: Vec<&str> = codex.out.lines().collect();
    assert_eq!((codex.code, codex.err.as_str(), lines[0]), (0, "", "-c"));
    assert!(lines[1].starts_with("openai_base_url=\"http://127.0.0.1:"), "{}", codex.out);
    assert!(!codex.out.contains("lh-"), "every user of the machine can read arguments: {}", codex.out);
    assert_eq!(lines[lines.len() - 2..], ["exec", "x y"]);

    agent(&folder, "pi", "echo \"$2\"\ncat \"$2\"");
    let pi = run(&folder, &["--quiet", "--", "./pi"], &[]);
    let (file, text) = pi.out.split_once('\n').unwrap();
    assert!(text.contains("registerProvider(\"anthropic\", { baseUrl: \"http://127.0.0.1:"), "{}", pi.out);
    assert!(!std::path::Path::new(file).exists(), "what was written for one run is gone: {file}");

    agent(&folder, "mine", "echo \"$OPENAI_BASE_URL $OPENAI_API_BASE\"");
    let other = run(&folder, &["--", "./mine"], &[]);
    assert!(other.out.starts_with("http://127.0.0.1:") && other.out.trim_end().ends_with("/v1"), "{}", other.out);
    assert!(other.err.contains("not a known agent; it gets the variables ANTHROPIC_BASE_URL"), "{}", other.err);
    assert!(other.err.lines().last().unwrap().contains("no request of ./mine was answered"), "{}", other.err);

    agent(&folder, "opencode", "echo \"$OPENCODE_CONFIG_CONTENT\"");
    let replaced = run(&folder, &["--", "./opencode"], &[("OPENCODE_CONFIG_CONTENT", "{}")]);
    assert!(replaced.err.contains("OPENCODE_CONFIG_CONTENT has another value for this run"), "{}", replaced.err);
}

#[test]
fn a_run_says_the_truth_about_compaction_and_how_to_compact_by_hand() {
    let folder = Folder::new("run-truth");
    agent(&folder, "codex", "for a in \"$@\"; do echo \"$a\"; done");
    let codex = run(&folder, &["--", "./codex"], &[]);
    assert!(codex.err.contains("Codex' own compaction cannot be switched off"), "{}", codex.err);
    assert!(!codex.err.contains("is off for this run") && !codex.out.contains("model_context_window"));
    assert!(codex.err.contains("to compact by hand, type longhaul compress\n"), "{}", codex.err);

    agent(
        &folder,
        "claude",
        "echo \"$CLAUDE_CODE_PLUGIN_DIRS\"\ncat \"${CLAUDE_CODE_PLUGIN_DIRS%%:*}\"/commands/undo.md",
    );
    let claude = run(&folder, &["--", "./claude"], &[("CLAUDE_CODE_PLUGIN_DIRS", "/home/a/plugins")]);
    let (folders, text) = claude.out.split_once('\n').unwrap();
    let (ours, users) = folders.split_once(':').unwrap();
    assert_eq!((users, text.lines().last()), ("/home/a/plugins", Some("/undo")), "{}", claude.err);
    assert!(!std::path::Path::new(ours).exists(), "what was written for one run is gone: {ours}");
    assert!(claude.err.contains("type /longhaul:compress, or longhaul compress"), "{}", claude.err);
    assert!(!claude.err.contains("has another value for this run"), "{}", claude.err);

    let off = run(&folder, &["--", "./claude"], &[("LONGHAUL_GATEWAY__COMMANDS", "false")]);
    assert!(off.out.starts_with('\n') && !off.err.contains("by hand"), "{}\n{}", off.out, off.err);
}

#[test]
fn a_proxy_of_the_users_is_where_requests_go_unless_the_configuration_says_otherwise() {
    let folder = Folder::new("run-proxy");
    let (proxy, configured) = (Upstream::that([Act::says("one")]), Upstream::that([Act::says("two")]));
    agent(&folder, "claude", &asker());
    let base = proxy.server.base_url();
    let environment = [("ANTHROPIC_BASE_URL", base.trim_end_matches("/v1"))];
    let first = run(&folder, &["--", "./claude"], &environment);
    assert_eq!((first.code, proxy.server.asked().len()), (0, 1), "{}", first.err);
    assert!(
        first.err.contains("ANTHROPIC_BASE_URL is set, so requests are forwarded to that address"),
        "{}",
        first.err
    );
    let yaml = format!("upstreams: {{ messages: {{ base_url: '{}' }} }}\n", configured.server.base_url());
    folder.file("own.yaml", yaml);
    let second = run(&folder, &["--", "./claude"], &environment);
    assert_eq!((second.code, proxy.server.asked().len()), (0, 1), "{}", second.err);
    assert_eq!(configured.server.asked().len(), 1);
}

#[test]
fn signals_reach_the_agent_and_its_end_is_ours() {
    let folder = Folder::new("run-signals");
    let path = agent(&folder, "claude", "trap 'exit 5' TERM HUP\ntouch ready\nwhile :; do sleep 0.05; done");
    for name in ["-TERM", "-HUP"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["run", "--quiet", "--store", "memory", "--"])
            .arg(&path)
            .current_dir(&folder.0)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !folder.0.join("ready").exists() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the agent never began");
            std::thread::sleep(Duration::from_millis(20));
        }
        Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(5), "{name}");
        std::fs::remove_file(folder.0.join("ready")).unwrap();
    }
    agent(&folder, "claude", "kill -9 $$");
    assert_eq!(run(&folder, &["--quiet", "--", "./claude"], &[]).code, 137);
}

#[test]
fn what_cannot_be_run_is_one_line_and_no_agent_is_none() {
    let folder = Folder::new("run-refused");
    let unknown = run(&folder, &["--quiet", "--", "no-such-agent"], &[]);
    assert_eq!(unknown.refused(), "program no-such-agent not found; check the name, or give its path");
    folder.file("plain", "no program");
    let plain = run(&folder, &["--quiet", "--", "./plain"], &[]);
    assert_eq!(plain.refused(), "no permission to run ./plain");
    assert!(run(&folder, &[], &[]).refused().contains("AGENT"));
    assert!(run(&folder, &["claude"], &[]).refused().ends_with("put -- before the agent: longhaul run -- AGENT"));
}

#[test]
fn the_log_goes_to_a_file_and_nowhere_else() {
    let (folder, upstream) = (Folder::new("run-log"), Upstream::that([Act::says("good day")]));
    agent(&folder, "claude", &format!("echo \"$ANTHROPIC_BASE_URL\"\n{}", asker()));
    let call = ["--quiet", "--log", "log.jsonl", "--upstream", &upstream.server.base_url(), "--", "./claude"];
    let done = run(&folder, &call, &[("LONGHAUL_GATEWAY__LOG", "json"), ("LONGHAUL_LOG", "trace")]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    let log = std::fs::read_to_string(folder.0.join("log.jsonl")).unwrap();
    let (_, own_key) = done.out.trim().rsplit_once('/').unwrap();
    assert!(!log.is_empty() && !log.contains(KEY) && !log.contains(own_key), "{log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}
