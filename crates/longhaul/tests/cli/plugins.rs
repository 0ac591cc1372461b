//! The worked example of docs/plugins.md, from an install: listed, named, in a gateway; and what is not started.

use std::path::Path;

use serde_json::{Value, json};

use crate::gateway::Served;
use crate::http::post;
use crate::scripted::Act;
use crate::support::{Folder, Upstream, longhaul};

const EXAMPLE: [&str; 2] = ["plugin.toml", "engine.py"];

/// Puts the example where a user's plug-ins lie.
fn install(folder: &Folder, to: &str) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/context_engine/newest");
    let there = folder.0.join(to).join("context_engine/newest");
    std::fs::create_dir_all(&there).unwrap();
    for file in EXAMPLE {
        std::fs::copy(example.join(file), there.join(file)).unwrap();
    }
}

/// A session of so many steps with long outputs.
fn session(steps: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": "Make the build green. Never touch the tests."})];
    for step in 0..steps {
        let id = format!("call{step}");
        let function = json!({"name": "bash", "arguments": json!({"command": format!("make t{step}")}).to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        let output = format!("compiling a unit of target {step}\n").repeat(60);
        messages.push(json!({"role": "assistant", "content": format!("Now {step}."), "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "assistant", "content": "All targets are built."}));
    messages.push(json!({"role": "user", "content": "And the docs?"}));
    messages
}

fn body(messages: &[Value]) -> String {
    json!({"model": "gpt-4o", "messages": messages}).to_string()
}

#[test]
fn the_example_is_listed_and_compacts_when_it_is_named() {
    let folder = Folder::new("plugin-example");
    install(&folder, "config/longhaul/plugins");
    folder.file("session.json", body(&session(20)));
    let (config, path) = (folder.0.join("config"), std::env::var("PATH").unwrap());
    let environment = [("XDG_CONFIG_HOME", config.to_str().unwrap()), ("PATH", path.as_str())];
    let rows = longhaul(&folder, &["engines", "--json"], &environment).json("engines.json");
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "newest").unwrap();
    assert_eq!((&row["from"], &row["in_force"], &row["problem"]), (&json!("plug-in"), &json!(false), &Value::Null));
    assert!(row["path"].as_str().unwrap().ends_with("plugins/context_engine/newest"), "{row}");
    let people = longhaul(&folder, &["engines"], &environment).out;
    assert!(people.contains("newest") && people.contains("which tools ran"), "{people}");
    let call =
        ["compress", "session.json", "--engine", "newest", "--context-length", "12k", "-o", "small.json", "--json"];
    let report = longhaul(&folder, &call, &environment);
    let report = report.out.lines().next().map(|_| crate::support::against("compress.json", &report.out)).unwrap();
    assert_eq!((&report["engine"], &report["checkpoint"]["by"]), (&json!("newest"), &json!("plugin")), "{report}");
    let small = std::fs::read_to_string(folder.0.join("small.json")).unwrap();
    assert!(small.contains("- asked: Make the build green.") && small.contains("And the docs?"), "{small}");
    let check = longhaul(&folder, &["check", "small.json", "--before", "session.json"], &[]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    let elsewhere = longhaul(&folder, &call[..6], &[("PATH", path.as_str())]);
    assert!(elsewhere.refused().starts_with("--engine: no engine is called newest; there are compressor"));
}

#[test]
fn the_example_compacts_behind_a_gateway_and_can_be_taken_back() {
    let folder = Folder::new("plugin-gateway");
    install(&folder, "own/plugins");
    let upstream = Upstream::that((0..4).map(|_| Act::says("good")));
    let config = "context: { engine: newest }\nmodels: { gpt-4o: { context_length: 20000 } }\n";
    std::fs::write(folder.0.join("own/longhaul.yaml"), config).unwrap();
    let path = std::env::var("PATH").unwrap();
    let base = upstream.server.base_url();
    let served =
        Served::start_in(&folder, &["--config", "own/longhaul.yaml", "--upstream", &base], &[("PATH", path.as_str())]);
    assert_eq!((&served.said["engine"], &served.said["warnings"]), (&json!("newest"), &json!([])), "{}", served.said);
    assert!(served.said["engine_from"].as_str().unwrap().ends_with("own/plugins/context_engine/newest"));
    let mut messages = session(24);
    let mut ask = |says: &str| {
        if !says.is_empty() {
            messages.push(json!({"role": "assistant", "content": "good"}));
            messages.push(json!({"role": "user", "content": says}));
        }
        let answered = post(served.url(), "/v1/chat/completions", &[], &body(&messages));
        if says.starts_with('/') {
            messages.truncate(messages.len() - 2);
        }
        answered
    };
    let (status, first) = ask("");
    assert!(status == 200 && first.contains("x-longhaul-action: compacted"), "{first}");
    let (_, second) = ask("Go on.");
    assert!(second.contains("x-longhaul-action: replayed"), "{second}");
    let sent = upstream.asked();
    assert!(sent[0].to_string().contains("Summary by newest"), "{}", sent[0]);
    let list = |body: &Value| body["messages"].as_array().unwrap().clone();
    let (one, other) = (list(&sent[0]), list(&sent[1]));
    assert_eq!(one, other[..one.len()], "what was decided is decided again");
    let (_, undone) = ask("/undo");
    assert!(undone.contains("undone: "), "{undone}");
    // Nobody has said anything since, so it stays taken back.
    let (_, whole) = ask("");
    assert!(whole.contains("x-longhaul-action: none"), "{whole}");
    assert!(upstream.asked()[2].to_string().contains("compiling a unit of target 0"), "all of it is sent again");
    served.signal("-TERM");
    assert_eq!(served.end().0, 0);
}

#[test]
fn what_came_with_a_folder_is_not_started_and_broken_manifests_are_said() {
    let folder = Folder::new("plugin-stranger");
    install(&folder, "plugins");
    folder.file("session.json", body(&session(20)));
    folder.file("longhaul.yaml", "context: { engine: newest, plugins: ./plugins }\n");
    let path = std::env::var("PATH").unwrap();
    let environment = [("PATH", path.as_str())];
    let run = longhaul(&folder, &["compress", "session.json", "--context-length", "12k", "--preview"], &environment);
    assert!(run.refused().contains("may not set context.engine, context.plugins"), "{}", run.err);
    folder.file("longhaul.yaml", "compression: { threshold: 0.4 }\n");
    let engine = [environment[0], ("LONGHAUL_CONTEXT__ENGINE", "newest")];
    let listed = longhaul(&folder, &["engines"], &engine);
    assert!(
        listed.err.contains("no engine is called newest") && !listed.out.contains("newest"),
        "plugins/ beside a file that was only found is not looked at: {}",
        listed.err
    );
    folder.file("longhaul.yaml", "context: { engine: newest, plugins: ./plugins }\n");
    // Whoever names it, wants it.
    let compress = ["compress", "session.json", "--context-length", "12k", "--preview"];
    let named = longhaul(&folder, &[&compress[..], &["--config", "longhaul.yaml"]].concat(), &environment);
    assert!(named.err.contains("newest: "), "{}", named.err);
    std::fs::remove_file(folder.0.join("longhaul.yaml")).unwrap();
    let typed = [&compress[..], &["--plugins", "plugins", "--engine", "newest"]].concat();
    let typed = longhaul(&folder, &typed, &environment);
    assert!(typed.err.contains("newest: "), "{}", typed.err);
    let manifest = folder.0.join("plugins/context_engine/newest/plugin.toml");
    for (wrong, said) in [
        ("name = \"newest\"\nabout = \"x\"\nprotocol = 1\ncommand = [\"a\"]\ncolour = 1\n", "unknown field `colour`"),
        ("name = \"other\"\nabout = \"x\"\nprotocol = 1\ncommand = [\"a\"]\n", "but the folder is 'newest'"),
        ("name = \"newest\"\nabout = \"x\"\nprotocol = 7\ncommand = [\"a\"]\n", "protocol is 7"),
        ("name = ", "plugin.toml: "),
    ] {
        std::fs::write(&manifest, wrong).unwrap();
        let rows = longhaul(&folder, &["engines", "--plugins", "plugins", "--json"], &environment);
        let rows = rows.json("engines.json");
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "newest").unwrap();
        assert!(row["problem"].as_str().unwrap().contains(said), "{row}");
        let call = ["compress", "session.json", "--engine", "newest", "--plugins", "plugins", "--preview"];
        assert!(longhaul(&folder, &call, &environment).refused().contains(said));
    }
}
