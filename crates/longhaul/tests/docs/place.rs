//! A fresh home for one page, with everything that the pages assume: the examples, sessions of agents, and programs on the `PATH`.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{sessions, upstream};

/// Agents that the pages run. In their place stands a program that fails unless it was told an address on this machine, and sends
/// requests there.
const AGENTS: [&str; 8] = ["claude", "codex", "opencode", "pi", "aider", "hermes", "mini", "gemini"];

/// Programs that would change this machine. In their place stands one that does nothing and succeeds.
const NOTHING: [&str; 9] =
    ["docker", "systemctl", "journalctl", "useradd", "sudo", "createuser", "createdb", "pg_dump", "pg_restore"];

/// A `cargo` that builds nothing: `cargo run -- …` runs the program that is tested, `cargo test` prints a short run of tests.
const CARGO: &str = r#"#!/bin/sh
if [ "$1" = run ]; then while [ "$1" != -- ]; do shift; done; shift; exec longhaul "$@"; fi
if [ "$1" = test ]; then echo 'running 2 tests'; echo 'test a::one ... ok'; echo 'test a::two ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed'; fi
"#;

/// The part of `sqlite3` that a backup needs, without that program.
const SQLITE: &str = "#!/usr/bin/env python3\nimport sqlite3, sys\nsqlite3.connect(sys.argv[1]).execute(sys.argv[2])\n";

/// Addresses in the pages that answer.
const PROVIDERS: [&str; 5] = [
    "https://api.anthropic.com",
    "https://api.openai.com",
    "https://chatgpt.com",
    "http://127.0.0.1:8080",
    "http://127.0.0.1:11434",
];

/// Addresses in the pages on which Longhaul itself listens.
const LISTENED: [&str; 2] = ["127.0.0.1:8484", "127.0.0.1:8485"];

pub(crate) struct Place {
    folder: PathBuf,
    /// Addresses as the pages write them, and those that stand for them in this run.
    addresses: Vec<(&'static str, String)>,
}

impl Place {
    pub(crate) fn new(page: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("longhaul-docs-{}-{}", std::process::id(), page.replace('/', "-")));
        for part in ["home", "project", "programs", "record"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut addresses: Vec<_> = PROVIDERS.map(|shown| (shown, format!("http://{}", upstream::start()))).into();
        addresses.extend(LISTENED.map(|shown| (shown, free())));
        let place = Self { folder: folder.canonicalize().unwrap(), addresses };
        place.programs();
        place.files();
        place.sessions();
        place
    }

    /// The folder in which the commands run.
    pub(crate) fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    /// The stem of the files about one command.
    pub(crate) fn record(&self, command: usize) -> PathBuf {
        self.folder.join(format!("record/{command}"))
    }

    /// The variables of the page's shell. A page that runs a gateway has the made-up providers as its upstreams.
    pub(crate) fn environment(&self, has_gateway: bool) -> BTreeMap<&'static str, String> {
        let longhaul = Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap().display().to_string();
        let path = format!("{}:{longhaul}:{}", self.folder.join("programs").display(), std::env::var("PATH").unwrap());
        let provider = |shown| self.addresses.iter().find(|(name, _)| *name == shown).unwrap().1.clone();
        let mut environment = BTreeMap::from([
            ("PATH", path),
            ("HOME", self.folder.join("home").display().to_string()),
            ("LANG", "C.UTF-8".to_owned()),
        ]);
        if has_gateway {
            environment.extend([
                ("LONGHAUL_GATEWAY__LISTEN", provider("127.0.0.1:8484")),
                ("LONGHAUL_UPSTREAMS__MESSAGES__BASE_URL", provider("https://api.anthropic.com")),
                ("LONGHAUL_UPSTREAMS__CHAT__BASE_URL", provider("https://api.openai.com") + "/v1"),
                ("LONGHAUL_UPSTREAMS__RESPONSES__BASE_URL", provider("https://api.openai.com") + "/v1"),
            ]);
        }
        environment
    }

    /// A command with the addresses of this run.
    pub(crate) fn addressed(&self, command: &str) -> String {
        self.addresses.iter().fold(command.to_owned(), |text, (shown, here)| text.replace(shown, here))
    }

    /// An output as a page shows it: with the addresses of the pages, another home, and keys shortened.
    pub(crate) fn as_shown(&self, printed: &str) -> String {
        let text = self.addresses.iter().fold(printed.to_owned(), |text, (shown, here)| text.replace(here, shown));
        let text = text.replace(&self.folder.join("home").display().to_string(), "/home/me");
        let text = text.replace(&self.project().display().to_string(), "/home/me/project");
        regex::Regex::new("lh-[A-Za-z0-9_-]{20,}|lh-[A-Za-z0-9_-]{4}…").unwrap().replace_all(&text, "lh-…").into_owned()
    }

    fn programs(&self) {
        let folder = self.folder.join("programs");
        let put = |name: &str, text: &str| {
            fs::write(folder.join(name), text).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        let agent = self.project().join("my_agent.py");
        fs::write(&agent, include_str!("agent.py")).unwrap();
        for name in AGENTS {
            put(name, &format!("#!/bin/sh\nexec python3 {} {name} \"$@\"\n", agent.display()));
        }
        for name in NOTHING {
            put(name, "#!/bin/sh\n");
        }
        put("cargo", CARGO);
        put("sqlite3", SQLITE);
    }

    fn files(&self) {
        let (examples, project) = (super::root().join("examples"), self.project());
        copy(&examples, &project.join("examples"));
        let body = fs::read_to_string(examples.join("session.json")).unwrap();
        let mut later: Value = serde_json::from_str(&body).unwrap();
        let one_line = later.to_string();
        let more = [
            json!({"role": "assistant", "content": "I changed src/config.rs and src/server.rs. No test in `lexer` failed."}),
            json!({"role": "user", "content": "Then write a line for the changelog."}),
        ];
        later["messages"].as_array_mut().unwrap().extend(more);
        let results: Vec<&str> = later["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        let files = [
            ("session.json", body.clone()),
            ("later.json", later.to_string()),
            ("requests.jsonl", format!("{one_line}\n{one_line}\n")),
            ("out.txt", results[0].to_owned()),
        ];
        for (name, text) in files {
            fs::write(project.join(name), text).unwrap();
        }
    }

    /// Sessions as Claude Code and Codex keep them.
    fn sessions(&self) {
        let put = |path: &str, lines: Vec<Value>| {
            let path = self.folder.join("home").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
            fs::write(path, lines.join("\n") + "\n").unwrap();
        };
        put(".codex/sessions/2026/11/16/rollout-2026-11-16T09-00-00-0199a2c4.jsonl", sessions::codex());
        put(".claude/projects/-home-me-app/8c1f2f0a.jsonl", sessions::claude());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}
