//! The rules of Codex's files, one small session each.

use longhaul_agents::{AgentSession, Extent, ReadOptions, request_body};
use longhaul_engine::Tokens;
use serde_json::{Value, json};

use crate::support::{of_lines, shown};

tests! {
    always: [
        items_are_sent_in_their_order_and_events_are_not,
        a_list_that_replaces_the_history_is_the_base,
        without_a_list_what_the_user_said_and_the_summary_are,
        turns_that_were_rolled_back_are_gone_with_their_compactions,
        what_the_client_says_begins_no_turn,
        a_call_without_an_output_gets_one_and_an_output_without_a_call_goes,
        usage_is_taken_once_from_behind_or_before_its_reply,
        the_old_format_is_read,
        snapshots_are_not_sent,
        instructions_model_and_names_are_read,
    ],
    real: [],
}

fn line(kind: &str, payload: Value) -> Value {
    json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": kind, "payload": payload})
}

fn meta() -> Value {
    line("session_meta", json!({"id": "0199-kiln", "cwd": "/home/ada/kiln", "cli_version": "0.142.0"}))
}

fn said(role: &str, words: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    line("response_item", message(role, kind, words))
}

fn message(role: &str, kind: &str, words: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": words}]})
}

fn call(id: &str) -> Value {
    line("response_item", json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": "{}"}))
}

fn output(id: &str) -> Value {
    line("response_item", json!({"type": "function_call_output", "call_id": id, "output": "fired"}))
}

fn event(payload: Value) -> Value {
    line("event_msg", payload)
}

fn used(total: u64, last: u64) -> Value {
    let counts = |tokens: u64| json!({"input_tokens": tokens, "cached_input_tokens": 8, "output_tokens": 2, "total_tokens": tokens + 2});
    event(
        json!({"type": "token_count", "info": {"total_token_usage": counts(total), "last_token_usage": counts(last)}}),
    )
}

fn next(lines: &[Value]) -> AgentSession {
    of_lines(lines, &ReadOptions::default())
}

fn items_are_sent_in_their_order_and_events_are_not() {
    let session = next(&[
        meta(),
        said("developer", "Rules"),
        said("user", "Make a bowl"),
        event(json!({"type": "user_message", "message": "Make a bowl"})),
        line("response_item", json!({"type": "reasoning", "summary": [], "encrypted_content": "x"})),
        call("c1"),
        output("c1"),
        said("assistant", "A bowl."),
        line("world_state", json!({"full": true})),
        line("hologram", json!({})),
    ]);
    assert_eq!(
        shown(&session),
        "developer: L2 message developer | user: L3 message user | assistant: L5 reasoning | assistant: L6 call | tool: L7 result | \
         assistant: L8 message assistant"
    );
    assert_eq!(session.unknown_records.get("hologram"), Some(&1));
    assert_eq!(session.unknown_records.len(), 1);
}

fn replaced() -> Vec<Value> {
    let history =
        json!([message("user", "input_text", "Make a bowl"), {"type": "compaction", "encrypted_content": "x"}]);
    vec![
        meta(),
        said("user", "Make a bowl"),
        said("assistant", "A bowl."),
        line("compacted", json!({"message": "", "replacement_history": history})),
        said("user", "Now a lid"),
        said("assistant", "A lid."),
    ]
}

fn a_list_that_replaces_the_history_is_the_base() {
    let session = next(&replaced());
    assert_eq!(
        shown(&session),
        "user: L4[0] message user | assistant: L4[1] compaction | user: L5 message user | assistant: L6 message assistant"
    );
    assert_eq!(session.compactions, 1);
    let whole = of_lines(&replaced(), &ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() });
    assert_eq!(whole.messages.len(), 4);
    assert!(!shown(&whole).contains("L4"));
}

fn without_a_list_what_the_user_said_and_the_summary_are() {
    let session = next(&[
        meta(),
        said("user", "<environment_context>here</environment_context>"),
        said("user", "Make a bowl"),
        said("assistant", "A bowl."),
        line("compacted", json!({"message": "A bowl was made."})),
        said("assistant", "Go on."),
    ]);
    assert_eq!(shown(&session), "user: L3 message user | user: L5 message user | assistant: L6 message assistant");
    assert!(request_body(&session).contains("A bowl was made."));
}

fn turns_that_were_rolled_back_are_gone_with_their_compactions() {
    let back = |turns: usize| event(json!({"type": "thread_rolled_back", "num_turns": turns}));
    let mut lines = replaced();
    lines.push(back(1));
    assert!(shown(&next(&lines)).ends_with("L4[1] compaction"));
    // The compaction belonged to the turn before.
    lines.push(back(1));
    lines.push(said("user", "Make a cup"));
    assert_eq!(shown(&next(&lines)), "user: L9 message user");
}

fn what_the_client_says_begins_no_turn() {
    let session = next(&[
        meta(),
        said("user", "Make a bowl"),
        said("assistant", "A bowl."),
        said("user", "Now a lid"),
        said("user", "<turn_aborted>stopped</turn_aborted>"),
        event(json!({"type": "thread_rolled_back", "num_turns": 1})),
    ]);
    assert_eq!(shown(&session), "user: L2 message user | assistant: L3 message assistant");
}

fn a_call_without_an_output_gets_one_and_an_output_without_a_call_goes() {
    let custom = line(
        "response_item",
        json!({"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "x"}),
    );
    let session = next(&[meta(), said("user", "Go"), output("c0"), call("c1"), custom]);
    let sent: Value = serde_json::from_str(&request_body(&session)).unwrap();
    let kinds: Vec<&str> =
        sent["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"]
    );
    assert_eq!(sent["input"][2]["output"], "aborted");
    assert_eq!(session.warnings.len(), 2);
}

fn usage_is_taken_once_from_behind_or_before_its_reply() {
    let empty = event(json!({"type": "token_count", "info": null}));
    let behind = [
        meta(),
        said("user", "Go"),
        call("c1"),
        used(20, 20),
        used(20, 20),
        empty,
        output("c1"),
        said("assistant", "Done."),
        used(50, 30),
    ];
    let before =
        [meta(), said("user", "Go"), used(20, 20), call("c1"), output("c1"), used(50, 30), said("assistant", "Done.")];
    for lines in [behind.as_slice(), before.as_slice()] {
        let session = next(lines);
        let inputs: Vec<_> =
            session.requests.iter().map(|request| (request.usage.input, request.reply_index)).collect();
        assert_eq!(inputs, [(Some(Tokens(20)), Some(1)), (Some(Tokens(30)), Some(3))]);
        assert_eq!(session.requests[0].usage.read, Some(Tokens(8)));
    }
}

fn the_old_format_is_read() {
    let session = next(&[
        json!({"id": "0500-kiln", "timestamp": "2025-08-06T18:02:11.653Z", "instructions": "Be brief."}),
        json!({"record_type": "state"}),
        json!({"type": "message", "id": null, "role": "user", "content": [{"type": "input_text", "text": "Go"}]}),
        json!({"type": "function_call", "id": "f", "name": "shell", "arguments": "{}", "call_id": "c1"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "gone"}),
    ]);
    assert_eq!(shown(&session), "user: L1 message user | user: L3 message user | assistant: L4 call | tool: L5 result");
    assert_eq!(session.id, "0500-kiln");
    assert!(request_body(&session).contains("<user_instructions>"));
}

fn snapshots_are_not_sent() {
    let snapshot = json!({"type": "ghost_snapshot", "ghost_commit": {"id": "x"}});
    let history = json!([message("user", "input_text", "Go"), snapshot]);
    let session =
        next(&[meta(), line("compacted", json!({"replacement_history": history})), line("response_item", snapshot)]);
    assert_eq!(shown(&session), "user: L2[0] message user");
}

fn instructions_model_and_names_are_read() {
    let mut first = meta();
    first["payload"]["base_instructions"] = json!({"text": "You are a potter."});
    let session = next(&[
        first,
        line("turn_context", json!({"model": "gpt-5.1-codex", "cwd": "/elsewhere"})),
        said("user", "Go"),
        line("turn_context", json!({"model": "gpt-5.2-codex"})),
        event(json!({"type": "thread_name_updated", "thread_name": "Pots"})),
    ]);
    assert_eq!(session.system_prompt.as_deref(), Some("You are a potter."));
    assert_eq!(session.model.as_deref(), Some("gpt-5.2-codex"));
    assert_eq!(session.title.as_deref(), Some("Pots"));
    assert_eq!((session.id.as_str(), session.project.as_deref()), ("0199-kiln", Some("/home/ada/kiln")));
    assert!(
        request_body(&session).starts_with(r#"{"model":"gpt-5.2-codex","instructions":"You are a potter.","input":["#)
    );
}
