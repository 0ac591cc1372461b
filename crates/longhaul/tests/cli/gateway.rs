//! `longhaul serve` as a process: what it says, what it refuses, what passes, and how it ends.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::post;
use crate::scripted::Act;
use crate::support::{Folder, Upstream, against, longhaul, own_config};

/// Looks like a key and opens nothing.
pub(crate) const KEY: &str = "sk-ant-api03-q8Zr5Lm2Xw9Kd4Tn7Vb3Hc6Js1Pf0Gy5q8Zr5Lm2Xw9Kd4Tn7Vb3Hc6Js1Pf0Gy5";

/// A gateway that runs.
pub(crate) struct Served {
    child: Child,
    /// What it said at the start.
    pub(crate) said: Value,
}

impl Served {
    /// Starts one on a free port.
    fn start(folder: &Folder, more: &[&str]) -> Self {
        Self::start_in(folder, more, &[])
    }

    /// The same with these variables.
    pub(crate) fn start_in(folder: &Folder, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "store.db", "--json"])
            .args(more)
            .current_dir(&folder.0)
            .env_clear()
            .envs(own_config(folder))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{}", rest(&mut child));
        Self { child, said: against("serve.json", &line) }
    }

    pub(crate) fn url(&self) -> &str {
        self.said["url"].as_str().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Waits for its end: the exit code, and all that it wrote to standard error.
    pub(crate) fn end(mut self) -> (i32, String) {
        let log = rest(&mut self.child);
        (self.child.wait().unwrap().code().unwrap(), log)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rest(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn body() -> String {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hello"}]})
        .to_string()
}

#[test]
fn a_gateway_says_where_it_is_hands_requests_on_and_ends_when_told_to() {
    let (folder, upstream) = (Folder::new("serve"), Upstream::that([Act::says("good day")]));
    folder.file("own.yaml", "gateway: { log: json, log_level: debug }\n");
    let served = Served::start(&folder, &["--upstream", &upstream.server.base_url()]);
    assert_eq!((&served.said["engine"], &served.said["keys"]), (&json!("compressor"), &json!(false)));
    assert_eq!(served.said["store"], "store.db");
    for to in served.said["upstreams"].as_array().unwrap() {
        assert!(to["address"].as_str().unwrap().starts_with(&upstream.server.base_url()), "{to}");
        assert_eq!(to["key_env"], Value::Null);
    }
    let (status, reply) = post(served.url(), "/v1/messages", &[("x-api-key", KEY)], &body());
    assert_eq!(status, 200, "{reply}");
    assert!(reply.contains("good day"), "{reply}");
    let asked = &upstream.server.asked()[0];
    assert_eq!((asked.path.as_str(), asked.header("x-api-key")), ("/v1/messages", Some(KEY)));
    served.signal("-TERM");
    let (code, log) = served.end();
    assert_eq!(code, 0, "{log}");
    assert!(!log.contains(KEY), "{log}");
}

#[test]
fn people_are_told_how_to_point_their_agents_at_it() {
    let folder = Folder::new("serve-page");
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
        .current_dir(&folder.0)
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut page: Vec<String> = Vec::new();
    for line in lines {
        let is_last = line.contains("any other");
        page.push(line);
        if is_last {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let page = page.join("\n");
    let first = page.lines().next().unwrap();
    assert!(first.starts_with("longhaul listens on http://127.0.0.1:"), "{page}");
    let url = first.rsplit(' ').next().unwrap();
    for there in [
        "Prompt caching: on (Claude",
        "https://api.anthropic.com/v1/messages, the client's own key pays",
        "https://api.openai.com/v1/responses",
        "by the session's own model, in the background, paid like the session; at most 25 % of what a compaction saves and $2.00 a day",
        "auxiliary.compression.provider: none turns it off",
        "compressor, triggered at 50 % of the window",
        &format!("ANTHROPIC_BASE_URL={url} claude"),
        &format!("codex -c 'openai_base_url=\"{url}/v1\"'"),
        &format!("OPENAI_BASE_URL={url}/v1"),
    ] {
        assert!(page.contains(there), "{there}\n{page}");
    }
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let folder = Folder::new("serve-refused");
    let serve = |more: &[&str], yaml: &str| {
        folder.file("own.yaml", yaml);
        longhaul(&folder, &[&["serve", "--store", "memory"], more].concat(), &[])
    };
    let others = serve(&["--listen", "0.0.0.0:0"], "");
    assert!(others.refused().contains("longhaul keys add"), "{}", others.err);
    let hygiene = serve(&[], "compression:\n  hygiene_threshold: 0.4\n");
    assert!(hygiene.refused().starts_with("own.yaml:2:22: compression.threshold: 0.5 must be under"));
    let upstream = serve(&["--upstream", "localhost:9"], "");
    assert!(upstream.refused().contains("it must begin with https:// or http://"), "{}", upstream.err);
    let upstream = serve(&["--upstream", "127.0.0.1:9000"], "");
    assert!(upstream.refused().contains("it must begin with https:// or http://"), "{}", upstream.err);
    let key = serve(&[], "upstreams: { messages: { api_key_env: NOT_SET } }\n");
    assert!(key.refused().contains("NOT_SET has no key"), "{}", key.err);
    let listen = serve(&["--listen", "nowhere"], "");
    assert!(listen.refused().contains("expected an address and a port"), "{}", listen.err);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let taken = serve(&["--listen", &address, "--json"], "");
    assert_eq!(taken.failed(3), format!("{address} is already in use; choose another address with --listen"));
    let store = longhaul(&folder, &["serve", "--listen", "127.0.0.1:0", "--store", "/dev/null/store.db"], &[]);
    assert_eq!(store.code, 3, "{}", store.err);
    let filter = longhaul(&folder, &["serve", "--store", "memory"], &[("LONGHAUL_LOG", "longhaul=loud")]);
    assert!(filter.refused().starts_with("LONGHAUL_LOG: "), "{}", filter.err);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (folder, upstream) =
        (Folder::new("serve-at-once"), Upstream::that([Act::says("late").after(Duration::from_mins(1))]));
    let served = Served::start(&folder, &["--upstream", &upstream.server.base_url()]);
    let url = served.url().to_owned();
    let client = std::thread::spawn(move || crate::http::send(&url, "/v1/messages", &[], &body()));
    let begun = Instant::now();
    while upstream.server.asked().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the request never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    served.signal("-INT");
    std::thread::sleep(Duration::from_millis(300));
    served.signal("-INT");
    let (code, log) = served.end();
    assert_eq!(code, 3, "{log}");
    assert!(log.contains("interrupt again to stop now") && log.contains("stopped before open replies"), "{log}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(client.join().unwrap().is_none(), "the reply never came");
}
