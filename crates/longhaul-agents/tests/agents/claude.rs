//! The rules of Claude Code's files, one small session each.

use longhaul_agents::{AgentSession, Extent, ReadOptions, Timestamp, request_body};
use longhaul_engine::Tokens;
use serde_json::{Value, json};

use crate::support::{of_lines, shown};

tests! {
    always: [
        a_reply_in_several_records_is_one_message,
        results_beside_the_chain_come_back_behind_their_calls,
        a_record_of_a_reply_beside_the_chain_is_sent_too,
        only_the_branch_of_the_newest_leaf_is_sent,
        a_chain_passes_through_records_that_are_not_sent,
        neighbouring_records_of_the_user_are_one_message_without_blank_texts,
        a_request_begins_with_the_summary_of_the_last_compaction,
        turns_that_a_compaction_kept_follow_its_summary,
        a_kept_segment_is_known_by_its_ends,
        all_of_a_session_is_without_summaries,
        thinking_goes_to_its_own_model_only,
        sidechains_are_not_sent_and_a_subagents_file_is_a_session,
        calls_without_results_and_results_without_calls_are_not_sent,
        errors_of_the_provider_are_not_sent,
        usage_is_counted_once_a_reply_and_the_last_counts,
        attachments_are_sent_at_their_place,
        unknown_records_are_counted,
        a_circle_of_parents_ends,
        blocks_are_copied_byte_for_byte,
    ],
    real: [],
}

fn record(kind: &str, id: &str, parent: Option<&str>, more: Value) -> Value {
    let mut record = json!({
        "type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s-1", "isSidechain": false,
        "cwd": "/home/ada/kiln", "timestamp": "2026-03-01T10:00:00.000Z",
    });
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    record
}

fn user(id: &str, parent: Option<&str>, content: Value) -> Value {
    record("user", id, parent, json!({"message": {"role": "user", "content": content}}))
}

fn reply(id: &str, parent: &str, message: &str, block: Value) -> Value {
    let message = json!({
        "id": message, "role": "assistant", "model": "claude-opus-4-6", "content": [block],
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 5},
    });
    record("assistant", id, Some(parent), json!({"message": message}))
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "a.txt"}})
}

fn result(id: &str) -> Value {
    json!([{"type": "tool_result", "tool_use_id": id, "content": "fired at cone 6"}])
}

fn next(lines: &[Value]) -> AgentSession {
    of_lines(lines, &ReadOptions::default())
}

fn a_reply_in_several_records_is_one_message() {
    let session = next(&[
        user("a", None, json!("Glaze the bowl")),
        reply("b", "a", "m1", json!({"type": "thinking", "thinking": "which glaze", "signature": "sig"})),
        reply("c", "b", "m1", text("Celadon.")),
    ]);
    assert_eq!(shown(&session), "user: L1 text | assistant: L2 thinking, L3 text");
    assert_eq!(session.id, "s-1");
    assert_eq!(session.project.as_deref(), Some("/home/ada/kiln"));
    assert_eq!(session.model.as_deref(), Some("claude-opus-4-6"));
    assert_eq!(session.started, Timestamp::parse("2026-03-01T10:00:00Z"));
}

fn results_beside_the_chain_come_back_behind_their_calls() {
    let session = next(&[
        user("a", None, json!("Read both")),
        reply("b", "a", "m1", call("t1")),
        reply("c", "b", "m1", call("t2")),
        user("d", Some("c"), result("t2")),
        user("e", Some("b"), result("t1")),
        reply("f", "d", "m2", text("Done.")),
    ]);
    assert_eq!(
        shown(&session),
        "user: L1 text | assistant: L2 call, L3 call | user: L4 result, L5 result | assistant: L6 text"
    );
}

fn a_record_of_a_reply_beside_the_chain_is_sent_too() {
    let session = next(&[
        user("a", None, json!("Read both")),
        reply("b", "a", "m1", call("t1")),
        reply("c", "b", "m1", call("t2")),
        user("d", Some("b"), result("t1")),
        user("e", Some("c"), result("t2")),
        reply("f", "d", "m2", text("Done.")),
    ]);
    assert_eq!(
        shown(&session),
        "user: L1 text | assistant: L2 call, L3 call | user: L4 result, L5 result | assistant: L6 text"
    );
}

fn only_the_branch_of_the_newest_leaf_is_sent() {
    let session = next(&[
        user("a", None, json!("Hello")),
        reply("b", "a", "m1", text("Hello.")),
        user("c", Some("b"), json!("Make a vase")),
        reply("d", "c", "m2", text("A vase.")),
        user("e", Some("b"), json!("No: a plate")),
        reply("f", "e", "m3", text("A plate.")),
    ]);
    assert_eq!(shown(&session), "user: L1 text | assistant: L2 text | user: L5 text | assistant: L6 text");
    assert_eq!(session.requests.len(), 3, "what was rewound was paid for all the same");
    assert_eq!(session.requests[1].reply_index, None);
}

fn a_chain_passes_through_records_that_are_not_sent() {
    let session = next(&[
        user("a", Some("not in this file"), json!("Hello")),
        record("progress", "p", Some("a"), json!({"data": {"hook": "x"}})),
        record("system", "s", Some("p"), json!({"subtype": "turn_duration"})),
        reply("b", "s", "m1", text("Hello.")),
    ]);
    assert_eq!(shown(&session), "user: L1 text | assistant: L4 text");
    assert!(session.unknown_records.is_empty(), "{:?}", session.unknown_records);
}

fn neighbouring_records_of_the_user_are_one_message_without_blank_texts() {
    let session = next(&[
        record("user", "a", None, json!({"isMeta": true, "message": {"role": "user", "content": "Caveat"}})),
        user("b", Some("a"), json!([text("<command-name>/model</command-name>"), text(" \n")])),
        user("c", Some("b"), json!("Go")),
        reply("d", "c", "m1", text("\n\n")),
        reply("e", "d", "m1", text("Gone.")),
    ]);
    assert_eq!(shown(&session), "user: L1 text, L2 text, L3 text | assistant: L5 text");
}

fn boundary(id: &str, before: &str, metadata: Value) -> Value {
    record(
        "system",
        id,
        None,
        json!({"subtype": "compact_boundary", "logicalParentUuid": before, "compactMetadata": metadata}),
    )
}

fn summary(id: &str, parent: &str) -> Value {
    record(
        "user",
        id,
        Some(parent),
        json!({"isCompactSummary": true, "message": {"role": "user", "content": "So far a bowl was made."}}),
    )
}

fn compacted() -> Vec<Value> {
    vec![
        user("a", None, json!("Make a bowl")),
        reply("b", "a", "m1", text("A bowl.")),
        boundary("c", "b", json!({"trigger": "auto", "preTokens": 9})),
        summary("d", "c"),
        user("e", Some("d"), json!("Now a lid")),
        reply("f", "e", "m2", text("A lid.")),
    ]
}

fn a_request_begins_with_the_summary_of_the_last_compaction() {
    let session = next(&compacted());
    assert_eq!(shown(&session), "user: L4 text, L5 text | assistant: L6 text");
    assert_eq!(session.compactions, 1);
}

fn turns_that_a_compaction_kept_follow_its_summary() {
    let kept = json!({"preservedMessages": {"anchorUuid": "d", "uuids": ["b", "x"]}});
    let lines = [
        user("a", None, json!("Make a bowl")),
        reply("b", "a", "m1", text("A bowl.")),
        record("system", "x", Some("b"), json!({"subtype": "stop_hook_summary"})),
        boundary("c", "x", kept),
        summary("d", "c"),
        user("e", Some("x"), json!("Now a lid")),
        reply("f", "e", "m2", text("A lid.")),
    ];
    assert_eq!(shown(&next(&lines)), "user: L5 text | assistant: L2 text | user: L6 text | assistant: L7 text");
    assert_eq!(shown(&next(&lines[..5])), "user: L5 text | assistant: L2 text");
    let whole = of_lines(&lines, &ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() });
    assert_eq!(shown(&whole), "user: L1 text | assistant: L2 text | user: L6 text | assistant: L7 text");
}

fn a_kept_segment_is_known_by_its_ends() {
    let session = next(&[
        user("a", None, json!("Make a bowl")),
        reply("b", "a", "m1", text("A bowl.")),
        user("x", Some("b"), json!("Thanks")),
        boundary("c", "x", json!({"preservedSegment": {"headUuid": "b", "anchorUuid": "d", "tailUuid": "x"}})),
        summary("d", "c"),
        user("e", Some("x"), json!("Now a lid")),
    ]);
    assert_eq!(shown(&session), "user: L5 text | assistant: L2 text | user: L3 text, L6 text");
}

fn all_of_a_session_is_without_summaries() {
    let whole = of_lines(&compacted(), &ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() });
    assert_eq!(shown(&whole), "user: L1 text | assistant: L2 text | user: L5 text | assistant: L6 text");
}

fn thinking_goes_to_its_own_model_only() {
    let lines = [
        user("a", None, json!("Hello")),
        reply("b", "a", "m1", json!({"type": "thinking", "thinking": "hm", "signature": "sig"})),
        reply("c", "b", "m1", text("Hello.")),
        user("d", Some("c"), json!("More")),
        reply("e", "d", "m2", json!({"type": "redacted_thinking", "data": "xx"})),
    ];
    // A thought that nothing came of is not sent at all.
    assert_eq!(shown(&next(&lines)), "user: L1 text | assistant: L2 thinking, L3 text | user: L4 text");
    let other = of_lines(&lines, &ReadOptions { model: Some("claude-haiku-4-5".to_owned()), ..ReadOptions::default() });
    assert_eq!(shown(&other), "user: L1 text | assistant: L3 text | user: L4 text");
    assert_eq!(other.model.as_deref(), Some("claude-haiku-4-5"));
}

fn sidechains_are_not_sent_and_a_subagents_file_is_a_session() {
    let aside = |mut line: Value| {
        line["isSidechain"] = json!(true);
        line
    };
    let main = [user("a", None, json!("Hello")), reply("b", "a", "m1", text("Hello."))];
    let side = [aside(user("x", None, json!("Look around"))), aside(reply("y", "x", "m9", text("Seen.")))];
    let both: Vec<Value> = main.iter().chain(&side).cloned().collect();
    assert_eq!(shown(&next(&both)), "user: L1 text | assistant: L2 text");
    assert_eq!(shown(&next(&side)), "user: L1 text | assistant: L2 text");
}

fn calls_without_results_and_results_without_calls_are_not_sent() {
    let session = next(&[
        user("a", None, result("t0")),
        user("b", Some("a"), json!("Hello")),
        reply("c", "b", "m1", text("I look.")),
        reply("d", "c", "m1", call("t1")),
    ]);
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 text");
    assert_eq!(session.warnings, ["left out 1 call without a result"]);
}

fn errors_of_the_provider_are_not_sent() {
    let mut failed = reply("b", "a", "m1", text("API Error: 529"));
    failed["isApiErrorMessage"] = json!(true);
    failed["message"]["model"] = json!("<synthetic>");
    let session = next(&[user("a", None, json!("Hello")), failed, user("c", Some("b"), json!("Again"))]);
    assert_eq!(shown(&session), "user: L1 text, L3 text");
    assert!(session.requests.is_empty());
}

fn usage_is_counted_once_a_reply_and_the_last_counts() {
    let mut last = reply("c", "b", "m1", text("Celadon."));
    last["message"]["usage"]["output_tokens"] = json!(60);
    last["message"]["usage"]["cache_creation"] =
        json!({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7});
    last["timestamp"] = json!("2026-03-01T10:01:30Z");
    let session = next(&[user("a", None, json!("Glaze")), reply("b", "a", "m1", text("Well.")), last]);
    let [request] = session.requests.as_slice() else { panic!("{:?}", session.requests) };
    assert_eq!(request.usage.input, Some(Tokens(110)));
    assert_eq!(request.usage.read, Some(Tokens(100)));
    assert_eq!(request.usage.written_1h, Some(Tokens(7)));
    assert_eq!(request.usage.output, Some(Tokens(60)));
    assert_eq!(request.reply_index, Some(1));
    assert_eq!(request.time, Timestamp::parse("2026-03-01T10:01:30Z"));
}

fn attachments_are_sent_at_their_place() {
    let attached = |id: &str, parent: &str, attachment: Value| {
        record("attachment", id, Some(parent), json!({"attachment": attachment}))
    };
    let session = next(&[
        user("a", None, json!("Hello")),
        attached("b", "a", json!({"type": "queued_command", "prompt": "and hurry"})),
        attached("c", "b", json!({"type": "task_reminder", "content": []})),
        attached("d", "c", json!({"type": "hook_additional_context", "content": ["be brief", "be kind"]})),
        reply("e", "d", "m1", text("Hello.")),
    ]);
    assert_eq!(shown(&session), "user: L1 text, L2 text, L4 text | assistant: L5 text");
    assert!(request_body(&session).contains(r"<system-reminder>\nbe brief\nbe kind\n</system-reminder>"));
}

fn unknown_records_are_counted() {
    let session = next(&[
        user("a", None, json!("Hello")),
        json!({"type": "hologram", "sessionId": "s-1"}),
        record("hologram", "h", Some("a"), json!({})),
        reply("b", "h", "m1", text("Hello.")),
        json!({"type": "custom-title", "customTitle": "The bowl", "sessionId": "s-1"}),
    ]);
    assert_eq!(session.unknown_records.get("hologram"), Some(&2));
    assert_eq!(session.title.as_deref(), Some("The bowl"));
    assert_eq!(session.messages.len(), 2);
}

fn a_circle_of_parents_ends() {
    let session = next(&[user("a", Some("b"), json!("Hello")), reply("b", "a", "m1", text("Hello."))]);
    assert_eq!(session.messages.len(), 2);
}

fn blocks_are_copied_byte_for_byte() {
    let folder = crate::support::Folder::new();
    let block = r#"{ "type":"text",  "text":"caf\u00e9 \/ 1.0e2", "n": 1.50 }"#;
    let line = |content: &str| {
        format!(
            r#"{{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","message":{{"role":"user","content":[{content}]}}}}"#
        )
    };
    let session = crate::support::read(&folder.file("s.jsonl", line(block)), &ReadOptions::default()).unwrap();
    assert_eq!(request_body(&session), format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#));
}
