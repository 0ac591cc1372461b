//! `OpenHands`: which events are sent, and what stands for those that were forgotten.

use std::path::{Path, PathBuf};

use longhaul_agents::{Agent, AgentSession, ReadOptions, Timestamp};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

use crate::databases::{body, found, machine, session, whole};
use crate::support::{self, Folder, shown};

tests! {
    always: [
        events_are_sent_by_their_numbers,
        calls_of_one_reply_are_one_message,
        what_came_back_is_said_as_openhands_says_it,
        forgotten_events_go_and_the_summary_stands_where_it_says,
        a_second_condensation_may_forget_the_first_summary,
        siblings_are_branches,
        calls_without_a_result_are_left_out,
        unknown_events_are_counted_and_half_written_ones_named,
        usage_is_found_by_the_reply,
        prompt_and_tools_are_found,
        the_older_servers_events_are_read,
        the_older_servers_condensation_is_applied,
        a_reply_of_the_older_server_stands_in_several_events_and_is_sent_once,
        the_cache_is_counted_as_the_library_beneath_did,
        homes_are_found,
        a_request_in_messages_form_is_valid,
    ],
    real: [every_file_is_read],
}

fn said(id: &str, source: &str, text: &str) -> Value {
    let role = if source == "user" { "user" } else { "assistant" };
    json!({
        "id": id, "kind": "MessageEvent", "source": source, "timestamp": "2026-02-18T19:10:19.5",
        "llm_message": {"role": role, "content": [{"type": "text", "text": text}]}, "extended_content": []
    })
}

fn action(id: &str, response: &str, thought: &str) -> Value {
    let thought = if thought.is_empty() { json!([]) } else { json!([{"type": "text", "text": thought}]) };
    let call = json!({"id": format!("call_{id}"), "name": "terminal", "arguments": "{\"command\": \"ls\"}"});
    json!({
        "id": id, "kind": "ActionEvent", "source": "agent", "timestamp": "2026-02-18T19:10:20", "thought": thought,
        "thinking_blocks": [], "tool_name": "terminal", "tool_call_id": format!("call_{id}"), "tool_call": call,
        "llm_response_id": response, "action": {"command": "ls"}
    })
}

fn observed(id: &str, action: &str, observation: Value) -> Value {
    json!({
        "id": id, "kind": "ObservationEvent", "source": "environment", "timestamp": "2026-02-18T19:10:21",
        "tool_call_id": format!("call_{action}"), "action_id": action, "observation": observation
    })
}

fn output(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "is_error": false})
}

/// A folder with these events.
fn conversation(folder: &Folder, events: &[Value]) -> PathBuf {
    for (number, event) in events.iter().enumerate() {
        let id = event["id"].as_str().unwrap();
        folder.file(&format!("talk/events/event-{number:05}-{id}.json"), event.to_string());
    }
    folder.0.join("talk")
}

fn of(events: &[Value], asked: &ReadOptions) -> AgentSession {
    let folder = Folder::new();
    session(&conversation(&folder, events), asked)
}

fn next(events: &[Value]) -> AgentSession {
    of(events, &ReadOptions::default())
}

fn events_are_sent_by_their_numbers() {
    let folder = Folder::new();
    for (number, id) in [(2, "a"), (10, "c"), (9, "b")] {
        folder.file(&format!("talk/events/event-{number}-{id}.json"), said(id, "user", id).to_string());
    }
    folder.file("talk/events/.lock", "");
    for path in ["talk", "talk/events"] {
        let session = session(&folder.0.join(path), &ReadOptions::default());
        assert_eq!(shown(&session), "user: a text | user: b text | user: c text");
        assert_eq!((session.id.as_str(), session.api_format), ("talk", ApiFormat::Chat));
        assert_eq!(session.started, Timestamp::parse("2026-02-18T19:10:19.500Z"));
    }
}

fn calls_of_one_reply_are_one_message() {
    let mut first = action("a", "r1", "I look.");
    first["thinking_blocks"] = json!([{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]);
    first["reasoning_content"] = json!("Hm.");
    let session = next(&[
        said("u", "user", "Look."),
        first,
        action("b", "r1", ""),
        observed("x", "a", output("1")),
        observed("y", "b", output("2")),
        action("c", "r2", ""),
        action("d", "r3", ""),
        observed("z", "c", output("3")),
        observed("w", "d", output("4")),
    ]);
    assert_eq!(
        shown(&session),
        "user: u text | assistant: a thinking, a text, a call, b call | tool: x result | tool: y result \
         | assistant: c call | assistant: d call | tool: z result | tool: w result"
    );
    let message = &serde_json::from_str::<Value>(&longhaul_agents::request_body(&session)).unwrap()["messages"][1];
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"command\": \"ls\"}");
}

fn what_came_back_is_said_as_openhands_says_it() {
    let metadata = json!({
        "exit_code": 2, "working_dir": "/garden", "py_interpreter_path": "/py", "prefix": "", "suffix": "\n[over]"
    });
    let failed = json!({"content": [{"type": "text", "text": "no bed"}], "is_error": true, "metadata": metadata});
    let mut rejected = observed("y", "b", Value::Null);
    rejected["kind"] = json!("UserRejectObservation");
    rejected["rejection_reason"] = json!("not now");
    let mut broken = observed("z", "c", Value::Null);
    broken["kind"] = json!("AgentErrorEvent");
    broken["error"] = json!("unknown tool");
    let mut extended = observed("w", "d", output("fine"));
    extended["extended_content"] = json!([{"type": "text", "text": "a rule"}]);
    let mut prompt = said("u", "user", "Dig.");
    prompt["extended_content"] = json!([{"type": "text", "text": "a skill"}]);
    let session = next(&[
        prompt,
        action("a", "r1", ""),
        action("b", "r1", ""),
        action("c", "r1", ""),
        action("d", "r1", ""),
        observed("x", "a", failed),
        rejected,
        broken,
        extended,
    ]);
    let body = body(&session);
    assert_eq!(body["messages"][0]["content"][1]["text"], "a skill");
    assert_eq!(
        body["messages"][2]["content"],
        "[An error occurred during execution.]\nno bed\n[over]\n[Current working directory: /garden]\n\
         [Python interpreter: /py]\n[Command finished with exit code 2]"
    );
    assert_eq!(body["messages"][3]["content"], "Action rejected: not now");
    assert_eq!(body["messages"][4]["content"], "unknown tool");
    assert_eq!(body["messages"][5]["content"][1]["text"], "a rule");
}

fn condensation(id: &str, forgotten: &[&str], summary: &str, offset: usize) -> Value {
    json!({
        "id": id, "kind": "Condensation", "source": "environment", "timestamp": "2026-02-18T19:11:00",
        "forgotten_event_ids": forgotten, "summary": summary, "summary_offset": offset, "llm_response_id": "r9"
    })
}

fn long_talk() -> Vec<Value> {
    vec![
        said("a", "user", "Plant beans."),
        said("b", "agent", "Planted."),
        said("c", "user", "And peas."),
        said("d", "agent", "Peas, too."),
        condensation("s", &["b", "c"], "Beans were planted.", 1),
        said("e", "user", "Water them."),
    ]
}

fn forgotten_events_go_and_the_summary_stands_where_it_says() {
    let session = next(&long_talk());
    assert_eq!(shown(&session), "user: a text | user: s-summary text | assistant: d text | user: e text");
    assert_eq!(session.compactions, 1);
    let whole = of(&long_talk(), &whole());
    assert_eq!(shown(&whole), "user: a text | assistant: b text | user: c text | assistant: d text | user: e text");
    assert_eq!(whole.compactions, 1);
}

fn a_second_condensation_may_forget_the_first_summary() {
    let mut events = long_talk();
    events.push(condensation("t", &["s-summary", "d"], "Beans and peas.", 1));
    let session = next(&events);
    assert_eq!(shown(&session), "user: a text | user: t-summary text | user: e text");
    assert_eq!(session.compactions, 2);
}

fn siblings_are_branches() {
    let child = |id: &str, parent: Value, text: &str| {
        let mut event = said(id, "user", text);
        event["parent_id"] = parent;
        event
    };
    let session = next(&[
        child("a", Value::Null, "1"),
        child("b", json!("a"), "not this"),
        child("c", json!("a"), "but this"),
        child("d", json!("c"), "2"),
    ]);
    assert_eq!(shown(&session), "user: a text | user: c text | user: d text");
}

fn calls_without_a_result_are_left_out() {
    let session = next(&[
        said("u", "user", "Look."),
        action("a", "r1", ""),
        action("b", "r1", ""),
        observed("x", "a", output("1")),
        observed("y", "nobody", output("2")),
        action("c", "r2", ""),
    ]);
    assert_eq!(shown(&session), "user: u text | assistant: a call | tool: x result");
    body(&session);
}

fn unknown_events_are_counted_and_half_written_ones_named() {
    let folder = Folder::new();
    let path = conversation(
        &folder,
        &[
            said("u", "user", "Look."),
            json!({"id": "p", "kind": "PauseEvent"}),
            json!({"id": "h", "kind": "HologramEvent"}),
        ],
    );
    folder.file("talk/events/event-00009-z.json", "{\"id\": \"z\", \"ki");
    let session = session(&path, &ReadOptions::default());
    assert_eq!(shown(&session), "user: u text");
    assert_eq!(session.unknown_records.into_iter().collect::<Vec<_>>(), [("HologramEvent".to_owned(), 1)]);
    assert_eq!(session.warnings, ["skipped event-00009-z.json, which is not a valid event"]);
    let empty = Folder::new();
    empty.file("talk/events/event-00000-z.json", "{");
    let unread = support::read(&empty.0.join("talk"), &ReadOptions::default()).err().unwrap().to_string();
    assert!(unread.contains("has no readable event"), "{unread}");
}

fn usage_is_found_by_the_reply() {
    let folder = Folder::new();
    let path =
        conversation(&folder, &[said("u", "user", "Look."), action("a", "r1", ""), observed("x", "a", output("1"))]);
    let used = |response: &str, prompt: u64| json!({"model": "claude-x", "prompt_tokens": prompt, "completion_tokens": 5, "cache_read_tokens": 60, "cache_write_tokens": 0, "response_id": response});
    let cost = |cost: f64, timestamp: f64| json!({"model": "claude-x", "cost": cost, "timestamp": timestamp});
    let state = json!({
        "id": "one", "workspace": {"working_dir": "/garden"}, "agent": {"llm": {"model": "claude-y"}},
        "stats": {"usage_to_metrics": {
            "agent": {"token_usages": [used("r1", 100)], "costs": [cost(0.5, 9.0)]},
            "condenser": {"model_name": "small", "token_usages": [], "accumulated_cost": 0.1,
                "accumulated_token_usage": {"prompt_tokens": 30, "completion_tokens": 3}}
        }}
    });
    folder.file("talk/base_state.json", state.to_string());
    let session = session(&path, &ReadOptions::default());
    let told: Vec<_> = session.requests.iter().map(|r| (r.usage.input.unwrap().0, r.reply_index, r.dollars)).collect();
    assert_eq!(told, [(30, None, Some(0.1)), (100, Some(1), Some(0.5))]);
    assert_eq!(session.requests[1].time, Timestamp::parse("2026-02-18T19:10:20Z"));
    assert_eq!((session.id.as_str(), session.model.as_deref()), ("one", Some("claude-y")));
    assert_eq!(session.project.as_deref(), Some("/garden"));
}

fn prompt_and_tools_are_found() {
    let tool = json!({"type": "function", "function": {"name": "terminal", "parameters": {"type": "object"}}});
    let system = json!({
        "id": "s", "kind": "SystemPromptEvent", "source": "agent", "timestamp": "2026-02-18T19:10:00",
        "system_prompt": {"type": "text", "text": "Be kind."}, "dynamic_context": {"type": "text", "text": "It is noon."},
        "tools": [tool, {"kind": "TerminalTool", "title": "terminal"}]
    });
    let session = next(&[system, said("u", "user", "Look.")]);
    assert_eq!(session.system_prompt.as_deref(), Some("Be kind.\n\nIt is noon."));
    assert_eq!(session.tools, Some(json!([tool])));
    assert_eq!(shown(&session), "user: u text");
}

fn old_reply(id: u64, calls: &[&str], sum: f64) -> Value {
    let call =
        |id: &&str| json!({"id": id, "type": "function", "function": {"name": "execute_bash", "arguments": "{}"}});
    let calls: Vec<Value> = calls.iter().map(call).collect();
    let usage = json!({"prompt_tokens": 40, "completion_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 30});
    let message = json!({"role": "assistant", "content": "I look.", "tool_calls": calls});
    let response =
        json!({"id": format!("r{id}"), "model": "claude-x", "usage": usage, "choices": [{"message": message}]});
    json!({
        "id": id, "timestamp": "2025-07-09T13:41:14", "source": "agent", "action": "run", "args": {"command": "ls", "thought": ""},
        "tool_call_metadata": {"tool_call_id": calls[0]["id"], "model_response": response},
        "llm_metrics": {"accumulated_cost": sum}
    })
}

fn old_result(id: u64, call: &str, content: &str) -> Value {
    let metadata = json!({"exit_code": 0, "working_dir": "/garden"});
    json!({
        "id": id, "timestamp": "2025-07-09T13:41:15", "source": "agent", "observation": "run", "content": content,
        "extras": {"metadata": metadata}, "tool_call_metadata": {"tool_call_id": call}, "success": true
    })
}

fn old_prompt(id: u64, text: &str) -> Value {
    json!({"id": id, "timestamp": "2025-07-09T13:41:11", "source": "user", "action": "message", "args": {"content": text}})
}

fn old(events: &[Value], asked: &ReadOptions) -> AgentSession {
    let folder = Folder::new();
    for event in events {
        folder.file(&format!("talk/events/{}.json", event["id"]), event.to_string());
    }
    let metadata = json!({"title": "Coins", "llm_model": "anthropic/claude-y", "created_at": "2025-07-09T13:38:00Z"});
    folder.file("talk/metadata.json", metadata.to_string());
    session(&folder.0.join("talk"), asked)
}

fn the_older_servers_events_are_read() {
    let tools = json!([{"type": "function", "function": {"name": "execute_bash"}}]);
    let mut finish = old_reply(12, &["b"], 0.9);
    finish["action"] = json!("finish");
    let session = old(
        &[
            json!({"id": 0, "observation": "agent_state_changed", "content": ""}),
            json!({"id": 1, "action": "system", "args": {"content": "Be kind.", "tools": tools}}),
            old_prompt(4, "Look."),
            json!({"id": 5, "source": "user", "action": "recall", "args": {"query": "Look."}}),
            old_reply(8, &["a"], 0.5),
            old_result(9, "a", "beds.md"),
            finish,
        ],
        &ReadOptions::default(),
    );
    assert_eq!(shown(&session), "user: 4 text | assistant: 8 text, 8 call | tool: 9 result | assistant: 12 text");
    assert_eq!((session.system_prompt.as_deref(), session.tools.as_ref()), (Some("Be kind."), Some(&tools)));
    assert_eq!((session.title.as_deref(), session.model.as_deref()), (Some("Coins"), Some("claude-x")));
    let costs: Vec<_> = session.requests.iter().map(|r| (r.reply_index, (r.dollars.unwrap() * 10.0).round())).collect();
    assert_eq!(costs, [(Some(1), 5.0), (Some(3), 4.0)]);
    assert_eq!(
        body(&session)["messages"][3]["content"],
        "beds.md\n[Current working directory: /garden]\n[Command finished with exit code 0]"
    );
}

fn the_older_servers_condensation_is_applied() {
    let condensed = json!({
        "id": 4, "timestamp": "2025-07-09T13:41:20", "source": "agent", "action": "condensation",
        "args": {"forgotten_events_start_id": 2, "forgotten_events_end_id": 3, "summary": "Beans.", "summary_offset": 1}
    });
    let events = [old_prompt(1, "1"), old_prompt(2, "2"), old_prompt(3, "3"), condensed, old_prompt(5, "5")];
    let next = old(&events, &ReadOptions::default());
    assert_eq!(shown(&next), "user: 1 text | user: 4-summary text | user: 5 text");
    assert_eq!(next.compactions, 1);
    let whole = old(&events, &whole());
    assert_eq!(shown(&whole), "user: 1 text | user: 2 text | user: 3 text | user: 5 text");
}

fn a_reply_of_the_older_server_stands_in_several_events_and_is_sent_once() {
    let mut second = old_reply(3, &["a", "b"], 0.5);
    second["tool_call_metadata"]["model_response"]["id"] = json!("r2");
    let session = old(
        &[
            old_prompt(1, "Look."),
            old_reply(2, &["a", "b"], 0.5),
            second,
            old_result(4, "a", "1"),
            old_result(5, "b", "2"),
        ],
        &ReadOptions::default(),
    );
    assert_eq!(shown(&session), "user: 1 text | assistant: 2 text, 2 call, 2 call | tool: 4 result | tool: 5 result");
    assert_eq!(session.requests.len(), 1);
}

/// The prompt with what was read and written, with what was read, and with neither.
fn the_cache_is_counted_as_the_library_beneath_did() {
    for (prompt, read, written, input) in [(100, 60, 30, 100), (70, 60, 30, 100), (10, 60, 30, 100), (40, 0, 0, 40)] {
        let mut reply = old_reply(2, &["a"], 0.5);
        reply["tool_call_metadata"]["model_response"]["usage"] = json!({
            "prompt_tokens": prompt, "completion_tokens": 5,
            "cache_creation_input_tokens": written, "cache_read_input_tokens": read
        });
        let session = old(&[old_prompt(1, "Look."), reply, old_result(3, "a", "1")], &ReadOptions::default());
        assert_eq!(session.requests[0].usage.input, Some(Tokens(input)), "{prompt} {read} {written}");
    }
}

fn homes_are_found() {
    let folder = Folder::new();
    let event = said("u", "user", "Look.").to_string();
    let places = [".openhands/conversations/new", "kept/conversations/kept", "moved/moved"];
    for place in places {
        folder.file(&format!("{place}/events/event-00000-u.json"), &event);
    }
    folder.file(".openhands/sessions/old/events/0.json", old_prompt(0, "Look.").to_string());
    let ids = |variables: &[(&str, &Path)]| {
        let mut ids = found(&machine(&folder.0, variables), Agent::OpenHands);
        ids.sort();
        ids
    };
    let (kept, moved) = (folder.0.join("kept"), folder.0.join("moved"));
    assert_eq!(ids(&[]), ["new", "old"]);
    assert_eq!(ids(&[("OPENHANDS_PERSISTENCE_DIR", &kept)]), ["kept", "old"]);
    let both: [(&str, &Path); 2] = [("OPENHANDS_CONVERSATIONS_DIR", &moved), ("OPENHANDS_PERSISTENCE_DIR", &kept)];
    assert_eq!(ids(&both), ["moved", "old"]);
}

fn a_request_in_messages_form_is_valid() {
    let asked = ReadOptions {
        api_format: Some(ApiFormat::Messages),
        model: Some("claude-sonnet-4-5".to_owned()),
        ..ReadOptions::default()
    };
    let session = of(
        &[
            said("u", "user", "Look."),
            action("a", "r1", ""),
            action("b", "r1", ""),
            observed("x", "a", output("1")),
            observed("y", "b", output("2")),
            said("v", "user", "And?"),
        ],
        &asked,
    );
    assert_eq!(shown(&session), "user: u text | assistant: a call, b call | user: x result, y result, v text");
    body(&session);
}

fn every_file_is_read() {
    for (name, turns, requests) in [("openhands_followup-a", 13, 0), ("openhands_v0-63b4", 5, 3)] {
        let path = support::real().join(name);
        let session = session(&path, &ReadOptions::default());
        assert_eq!((session.messages.len(), session.requests.len()), (turns, requests), "{name}");
        assert!(session.unknown_records.is_empty() && session.warnings.is_empty(), "{name}");
        body(&session);
        body(&self::session(&path, &whole()));
    }
    let session = session(&support::real().join("openhands_v0-63b4"), &ReadOptions::default());
    let grew: Vec<u64> = session.requests.iter().map(|r| r.usage.input.unwrap().0).collect();
    assert_eq!(grew, [6557, 6769, 6978]);
}
