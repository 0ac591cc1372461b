//! `longhaul compress --live`: a session behind a gateway is compacted from another terminal.

use serde_json::{Value, json};

use crate::gateway::Served;
use crate::http::post;
use crate::scripted::Act;
use crate::support::{Folder, Upstream, against, longhaul};

/// A session of so many steps with long outputs.
fn body(steps: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": "Make the build green. Never touch the tests."})];
    for step in 0..steps {
        let id = format!("call{step}");
        let arguments = json!({"command": format!("make t{step}")}).to_string();
        let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}});
        let output = format!("compiling a unit of target {step}\n").repeat(60);
        messages.push(json!({"role": "assistant", "content": format!("Now {step}."), "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    json!({"model": "gpt-4o", "messages": messages}).to_string()
}

#[test]
fn a_session_is_compacted_from_another_terminal_with_its_next_request() {
    let folder = Folder::new("live");
    let upstream = Upstream::that((0..3).map(|_| Act::says("good")));
    let served = Served::start_in(&folder, &["--upstream", &upstream.server.base_url()], &[]);
    let send = |steps: usize| post(served.url(), "/v1/chat/completions", &[], &body(steps)).1;
    let first = send(60);
    assert!(first.contains("x-longhaul-action: none"), "{first}");

    let preview = longhaul(&folder, &["compress", "--live", "--preview", "--store", "store.db"], &[]);
    assert_eq!(preview.code, 0, "{}", preview.err);
    assert!(preview.out.is_empty() && preview.err.contains("nothing was changed"), "{}", preview.err);

    let arguments = ["compress", "--live", "--store", "store.db", "--json"];
    let done = longhaul(&folder, &arguments, &[]);
    assert!(done.err.contains("the agent's next request is sent compacted"), "{}", done.err);
    let report = against("compress.json", &done.out);
    assert_eq!((&report["epoch"], &report["changed"]), (&json!(1), &json!(true)), "{report}");
    let session = report["session"].as_str().unwrap();
    assert!(first.contains(&format!("x-longhaul-session: {session}")), "{first}");

    let second = send(61);
    assert!(second.contains("x-longhaul-action: replayed"), "{second}");
    let messages = |at: usize| upstream.asked()[at]["messages"].as_array().unwrap().clone();
    let bytes = |messages: &[Value]| json!(messages).to_string().len();
    assert!(3 * bytes(&messages(1)) < 2 * bytes(&messages(0)), "{} and {}", bytes(&messages(1)), bytes(&messages(0)));

    let undone = longhaul(&folder, &["undo", session, "--store", "store.db"], &[]);
    assert_eq!(undone.code, 0, "{}", undone.err);
    send(62);
    assert!(bytes(&messages(2)) > bytes(&messages(0)), "all of it is sent again");
}

#[test]
fn what_cannot_be_compacted_live_is_one_line() {
    let folder = Folder::new("live-wrong");
    folder.file("session.json", body(2));
    let nothing = longhaul(&folder, &["compress", "--live", "--store", "store.db"], &[]);
    assert!(nothing.refused().contains("does not exist"), "{}", nothing.err);
    for more in [&["session.json"][..], &["--in-place"], &["--originals", "o.jsonl"], &["-o", "x.json"]] {
        let call: Vec<&str> = ["compress", "--live=latest"].iter().chain(more).copied().collect();
        assert_eq!(longhaul(&folder, &call, &[]).code, 2, "{more:?}");
    }
}
