//! Sessions by their names, on a machine that is made up.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use longhaul_agents::{Agent, UserEnvironment};

use crate::support::Folder;

tests! {
    always: [
        sessions_are_found_where_agents_keep_them_the_newest_first,
        a_name_is_latest_an_id_or_the_beginning_of_one,
        what_no_name_means_is_said,
        variables_move_the_folders,
        a_name_looks_like_one,
        homes_of_agents_are_known,
        no_example_is_taken_for_a_session,
    ],
    real: [no_real_body_is_taken_for_a_session],
}

fn machine(folder: &Folder) -> UserEnvironment {
    UserEnvironment { home: folder.0.clone(), current_dir: folder.0.clone(), variables: BTreeMap::new() }
}

/// A home with two sessions of Claude Code, one of a subagent, and two of Codex.
fn home() -> Folder {
    let folder = Folder::new();
    let files = [
        (".claude/projects/-kiln/1f0c-aa.jsonl", 10),
        (".claude/projects/-kiln/agent-9.jsonl", 90),
        (".claude/projects/-kiln/1f0c-aa/subagents/agent-8.jsonl", 90),
        (".claude/projects/-wheel/1f0d-bb.jsonl", 30),
        (".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-0199-cc.jsonl", 20),
        (".codex/archived_sessions/rollout-2026-02-01T10-00-00-0198-dd.jsonl.zst", 5),
        (".codex/history.jsonl", 95),
    ];
    for (name, seconds) in files {
        let path = folder.file(name, "{}\n");
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
    }
    folder
}

fn sessions_are_found_where_agents_keep_them_the_newest_first() {
    let folder = home();
    let found = longhaul_agents::list_sessions(&machine(&folder), None);
    let names: Vec<String> =
        found.iter().map(|place| format!("{}:{}", place.agent, place.id.as_deref().unwrap())).collect();
    assert_eq!(names, ["claude:1f0d-bb", "codex:0199-cc", "claude:1f0c-aa", "codex:0198-dd"]);
    assert_eq!(longhaul_agents::list_sessions(&machine(&folder), Some(Agent::Codex)).len(), 2);
}

fn a_name_is_latest_an_id_or_the_beginning_of_one() {
    let folder = home();
    let id = |name: &str| longhaul_agents::find_session(&machine(&folder), name).unwrap().id.unwrap();
    assert_eq!(id("claude:latest"), "1f0d-bb");
    assert_eq!(id("claude:"), "1f0d-bb");
    assert_eq!(id("claude:1f0c"), "1f0c-aa");
    assert_eq!(id("codex:0198-dd"), "0198-dd");
}

fn what_no_name_means_is_said() {
    let folder = home();
    let said = |name: &str| longhaul_agents::find_session(&machine(&folder), name).unwrap_err().to_string();
    assert!(said("clade:latest").starts_with("unknown agent `clade`; known agents: claude, codex, pi, opencode"));
    assert_eq!(said("claude:1f0"), "`1f0` matches 2 sessions of claude: 1f0d-bb, 1f0c-aa; give more of the ID");
    assert!(said("claude:zz").starts_with("no session ID of claude starts with `zz`; "));
    let none = said("pi:latest");
    assert!(none.starts_with("no sessions of pi found in ") && none.contains(".pi"), "{none}");
}

fn variables_move_the_folders() {
    let folder = home();
    let mut machine = machine(&folder);
    let other = folder.0.join("other");
    std::fs::create_dir_all(other.join("projects/-p")).unwrap();
    std::fs::write(other.join("projects/-p/77.jsonl"), "{}").unwrap();
    machine.variables.insert("CLAUDE_CONFIG_DIR".to_owned(), other.display().to_string());
    machine.variables.insert("CODEX_HOME".to_owned(), other.display().to_string());
    let found = longhaul_agents::list_sessions(&machine, None);
    assert_eq!(found.iter().map(|place| place.id.as_deref().unwrap()).collect::<Vec<_>>(), ["77"]);
}

fn a_name_looks_like_one() {
    for name in ["claude:latest", "codex:0199", "clade:x", "pi:"] {
        assert!(longhaul_agents::is_session_name(name), "{name}");
    }
    for path in ["session.json", "C:\\a.json", "./claude:latest", "https://a.example/b", "a/b:c", ":x"] {
        assert!(!longhaul_agents::is_session_name(path), "{path}");
    }
}

fn homes_of_agents_are_known() {
    let folder = home();
    let machine = machine(&folder);
    assert_eq!(
        longhaul_agents::agent_storing_at(&machine, &folder.0.join(".claude/projects/-kiln/new.json")),
        Some(Agent::Claude)
    );
    assert_eq!(longhaul_agents::agent_storing_at(&machine, &folder.0.join("out.json")), None);
}

fn none_is_a_session(folder: &Path) {
    let mut seen = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_file() {
            seen += 1;
            assert_eq!(
                longhaul_agents::recognize_path(&path).unwrap().map(|place| place.agent),
                None,
                "{}",
                path.display()
            );
        }
    }
    assert!(seen > 3);
}

fn no_example_is_taken_for_a_session() {
    none_is_a_session(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"));
}

fn no_real_body_is_taken_for_a_session() {
    none_is_a_session(&crate::support::real().join("../corpus"));
    none_is_a_session(&crate::support::real().join("../tool-outputs"));
}
