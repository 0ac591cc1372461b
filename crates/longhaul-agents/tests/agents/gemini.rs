//! What is read of Gemini CLI's sessions, a rule each.

use longhaul_agents::{
    Agent, AgentSession, Extent, ReadOptions, Timestamp, UserEnvironment, find_session, list_sessions, request_body,
};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

use crate::support::{self, Folder, of_lines, shown};

tests! {
    always: [
        a_document_and_lines_say_the_same,
        a_record_with_a_known_id_replaces_the_earlier_one,
        a_rewind_takes_back_a_message_and_all_after_it,
        the_header_is_changed_by_later_records,
        a_compression_replaces_all_messages_and_is_counted,
        notes_and_commands_are_not_sent,
        a_reply_has_thoughts_words_calls_and_then_their_results,
        content_with_calls_of_its_own_is_the_whole_reply,
        calls_without_ids_get_the_same_ones_every_time,
        a_call_without_a_result_gets_a_stub,
        results_share_a_message_where_the_dialect_wants_it,
        what_was_reported_counts_thoughts_and_the_cache,
        unknown_records_and_a_cut_line_are_counted,
        a_document_cut_short_is_one_clear_line,
        sessions_are_found_by_name_with_their_project,
    ],
    real: [],
}

fn header() -> Value {
    json!({
        "sessionId": "9e41-aa", "projectHash": "f00d", "startTime": "2026-03-01T09:00:00.000Z",
        "lastUpdated": "2026-03-01T09:00:01.000Z", "kind": "main",
    })
}

fn user(id: &str, words: &str) -> Value {
    json!({"id": id, "timestamp": "2026-03-01T09:00:02.000Z", "type": "user", "content": [{"text": words}]})
}

fn model(id: &str, words: &str) -> Value {
    json!({
        "id": id, "timestamp": "2026-03-01T09:00:03.000Z", "type": "gemini", "content": words, "model": "gemini-3-pro",
        "tokens": {"input": 900, "output": 20, "cached": 600, "thoughts": 30, "tool": 5, "total": 955},
    })
}

fn done(id: Option<&str>, output: &str) -> Value {
    let response = json!({"functionResponse": {"id": id, "name": "ls", "response": {"output": output}}});
    json!({"id": id, "name": "ls", "args": {"path": "."}, "result": [response], "status": "success"})
}

fn with(mut record: Value, field: &str, value: Value) -> Value {
    record[field] = value;
    record
}

fn read(lines: &[Value]) -> AgentSession {
    of_lines(lines, &ReadOptions::default())
}

fn body_of(session: &AgentSession) -> Value {
    serde_json::from_str(&request_body(session)).unwrap()
}

fn a_document_and_lines_say_the_same() {
    let messages = vec![user("u1", "list it"), model("m1", "Nothing there.")];
    let folder = Folder::new();
    let document = with(header(), "messages", messages.clone().into());
    let path = folder.file("session-1.json", serde_json::to_string_pretty(&document).unwrap());
    let document = support::read(&path, &ReadOptions::default()).unwrap();
    let lines = read(&[header(), messages[0].clone(), messages[1].clone()]);
    assert_eq!(request_body(&document), request_body(&lines));
    assert_eq!(shown(&document), "user: u1 text | assistant: m1 text");
    assert_eq!(shown(&lines), "user: L2 text | assistant: L3 text");
    assert_eq!((document.id.as_str(), document.model.as_deref()), ("9e41-aa", Some("gemini-3-pro")));
    assert_eq!((document.agent, document.api_format), (Agent::Gemini, ApiFormat::Chat));
}

fn a_record_with_a_known_id_replaces_the_earlier_one() {
    let session = read(&[header(), user("u1", "go"), model("m1", ""), user("u2", "and?"), model("m1", "Gone.")]);
    assert_eq!(shown(&session), "user: L2 text | assistant: L5 text | user: L4 text");
    assert_eq!(session.requests.len(), 1);
}

fn a_rewind_takes_back_a_message_and_all_after_it() {
    let session = read(&[
        header(),
        user("u1", "go"),
        model("m1", "Gone."),
        user("u2", "no"),
        model("m2", "Back."),
        json!({"$rewindTo": "u2"}),
        user("u3", "yes"),
    ]);
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 text | user: L7 text");
    // It was paid for all the same.
    assert_eq!(session.requests.iter().map(|r| r.reply_index).collect::<Vec<_>>(), [Some(1), None]);
    let session = read(&[header(), user("u1", "go"), json!({"$rewindTo": "nobody"}), user("u2", "again")]);
    assert_eq!(shown(&session), "user: L4 text");
}

fn the_header_is_changed_by_later_records() {
    let later = json!({"$set": {"lastUpdated": "2026-03-01T11:00:00.000Z", "summary": "Listing things"}});
    let session = read(&[header(), user("u1", "go"), later]);
    assert_eq!(session.updated, Timestamp::parse("2026-03-01T11:00:00Z"));
    assert_eq!(session.title.as_deref(), Some("Listing things"));
}

fn a_compression_replaces_all_messages_and_is_counted() {
    let lines = [
        header(),
        user("u1", "go"),
        model("m1", "Gone."),
        user("u2", "on"),
        json!({"$set": {"messages": [user("s1", "so far: gone"), user("u2", "on")]}}),
        model("m2", "On."),
    ];
    let session = read(&lines);
    assert_eq!(shown(&session), "user: L5 text | user: L4 text | assistant: L6 text");
    assert_eq!((session.compactions, session.requests.len()), (1, 2));
    let whole = of_lines(&lines, &ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() });
    assert_eq!(shown(&whole), "user: L2 text | assistant: L3 text | user: L4 text | assistant: L6 text");
    // The same messages written again are no compression.
    let again = read(&[header(), user("u1", "go"), json!({"$set": {"messages": [user("u1", "go")]}})]);
    assert_eq!((again.compactions, again.messages.len()), (0, 1));
}

fn notes_and_commands_are_not_sent() {
    let note = |kind: &str| json!({"id": kind, "type": kind, "content": "a note"});
    let session = read(&[
        header(),
        note("info"),
        note("error"),
        note("warning"),
        user("u1", "/help"),
        user("u2", " ?"),
        user("u3", "<session_context>today</session_context>"),
        user("u4", "<hook_context>x</hook_context>"),
        with(user("u5", "real"), "displayContent", json!([{"text": "/shown"}])),
    ]);
    assert_eq!(shown(&session), "user: L9 text");
    assert_eq!(session.unknown_records.len(), 0);
}

fn a_reply_has_thoughts_words_calls_and_then_their_results() {
    let reply =
        with(model("m1", "I look."), "toolCalls", json!([done(Some("c1"), "a.txt"), done(Some("c2"), "b.txt")]));
    let reply = with(reply, "thoughts", json!([{"subject": "Looking", "description": "where it is"}]));
    let session = read(&[header(), user("u1", "look"), reply]);
    assert_eq!(
        shown(&session),
        "user: L2 text | assistant: L3 thinking, L3 text, L3 call, L3 call | tool: L3 result | tool: L3 result"
    );
    let body = body_of(&session);
    assert_eq!(body["messages"][1]["reasoning_content"], "**Looking** where it is");
    assert_eq!(body["messages"][3]["tool_call_id"], "c2");
    assert_eq!(body["messages"][3]["content"], "b.txt");
}

fn content_with_calls_of_its_own_is_the_whole_reply() {
    let content = json!([
        {"text": "hm", "thought": true},
        {"text": "I look."},
        {"functionCall": {"id": "c1", "name": "ls", "args": {}}},
    ]);
    let reply = with(with(model("m1", ""), "content", content), "toolCalls", json!([done(Some("c1"), "a.txt")]));
    let reply = with(reply, "thoughts", json!([{"description": "not told twice"}]));
    let session = read(&[header(), user("u1", "look"), reply]);
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 thinking, L3 text, L3 call | tool: L3 result");
}

fn calls_without_ids_get_the_same_ones_every_time() {
    let lines =
        [header(), user("u1", "look"), with(model("m1", ""), "toolCalls", json!([done(None, "a"), done(None, "b")]))];
    let first = body_of(&read(&lines));
    assert_eq!(first, body_of(&read(&lines)));
    let ids =
        |call: usize| (&first["messages"][1]["tool_calls"][call]["id"], &first["messages"][2 + call]["tool_call_id"]);
    assert_eq!(ids(0).0, ids(0).1);
    assert_eq!(ids(1).0, ids(1).1);
    assert_ne!(ids(0).0, ids(1).0);
}

fn a_call_without_a_result_gets_a_stub() {
    let open = json!({"id": "c1", "name": "ls", "args": {}, "status": "executing"});
    let failed = json!({"id": "c2", "name": "ls", "args": {}, "result": [{"functionResponse": {"response": {"error": "no such folder"}}}]});
    let session = read(&[header(), user("u1", "look"), with(model("m1", ""), "toolCalls", json!([open, failed]))]);
    let body = body_of(&session);
    assert_eq!(body["messages"][2]["tool_call_id"], "c1");
    assert_eq!(body["messages"][3]["content"], "no such folder");
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 call, L3 call | tool:  | tool: L3 result");
}

fn results_share_a_message_where_the_dialect_wants_it() {
    let lines = [
        header(),
        user("u1", "look"),
        with(model("m1", ""), "toolCalls", json!([done(Some("c1"), "a"), done(Some("c2"), "b")])),
    ];
    let session = of_lines(&lines, &ReadOptions { api_format: Some(ApiFormat::Messages), ..ReadOptions::default() });
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 call, L3 call | user: L3 result, L3 result");
}

fn what_was_reported_counts_thoughts_and_the_cache() {
    let session = read(&[header(), user("u1", "go"), model("m1", "Gone.")]);
    let reported = &session.requests[0];
    assert_eq!(reported.usage.input, Some(Tokens(905)));
    assert_eq!((reported.usage.read, reported.usage.output), (Some(Tokens(600)), Some(Tokens(50))));
    assert_eq!((reported.reply_index, reported.time), (Some(1), Timestamp::parse("2026-03-01T09:00:03Z")));
}

fn unknown_records_and_a_cut_line_are_counted() {
    let folder = Folder::new();
    let lines = [header(), user("u1", "go"), json!({"$merge": {}}), json!({"id": "x", "type": "hologram"})];
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text += "{\"id\":\"m1\",\"ty";
    let session = support::read(&folder.file("session-2.jsonl", text), &ReadOptions::default()).unwrap();
    let counted: Vec<(&str, usize)> =
        session.unknown_records.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(counted, [("$merge", 1), ("hologram", 1)]);
    assert_eq!((shown(&session).as_str(), session.warnings.len()), ("user: L2 text", 1));
}

fn a_document_cut_short_is_one_clear_line() {
    let folder = Folder::new();
    let whole = with(header(), "messages", json!([user("u1", "go"), model("m1", "Gone.")])).to_string();
    let path = folder.file("session-3.json", &whole[..whole.len() - 40]);
    let unread = support::read(&path, &ReadOptions::default()).unwrap_err().to_string();
    assert!(unread.contains("session-3.json") && unread.lines().count() == 1, "{unread}");
}

fn sessions_are_found_by_name_with_their_project() {
    let folder = Folder::new();
    let session = format!("{}\n{}\n", header(), user("u1", "go"));
    let path = folder.file("home/.gemini/tmp/garden/chats/session-2026-03-01T09-00-9e41.jsonl", &session);
    folder.file("home/.gemini/tmp/garden/chats/9e41-aa/child.jsonl", &session);
    folder.file(
        "home/.gemini/tmp/yard/chats/session-2026-03-02T09-00-77aa.json",
        with(header(), "messages", json!([])).to_string(),
    );
    folder.file("home/.gemini/projects.json", json!({"projects": {"/home/ada/garden": "garden"}}).to_string());
    folder.file("home/.gemini/tmp/yard/.project_root", "/home/ada/yard\n");
    let machine = UserEnvironment { home: folder.0.join("home"), ..UserEnvironment::default() };
    assert_eq!(list_sessions(&machine, Some(Agent::Gemini)).len(), 2);
    let place = find_session(&machine, "gemini:9e41").unwrap();
    assert_eq!(place.path, path);
    let read =
        |name: &str| longhaul_agents::read(&find_session(&machine, name).unwrap(), &ReadOptions::default()).unwrap();
    assert_eq!(read("gemini:9e41").project.as_deref(), Some("/home/ada/garden"));
    assert_eq!(read("gemini:77aa").project.as_deref(), Some("/home/ada/yard"));
    let mut elsewhere = UserEnvironment { home: folder.0.clone(), ..UserEnvironment::default() };
    let home = folder.0.join("home").display().to_string();
    elsewhere.variables.insert("GEMINI_CLI_HOME".to_owned(), home);
    assert_eq!(list_sessions(&elsewhere, Some(Agent::Gemini)).len(), 2);
}
