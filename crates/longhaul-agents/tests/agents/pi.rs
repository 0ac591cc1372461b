//! What is read of pi's sessions, a rule each.

use longhaul_agents::{
    Agent, AgentSession, Extent, MessagePart, ReadOptions, Timestamp, UserEnvironment, find_session, list_sessions,
    request_body,
};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

use crate::support::{self, Folder, of_lines, shown};

tests! {
    always: [
        the_last_entry_is_the_leaf_and_other_branches_are_not_sent,
        a_compaction_is_sent_as_its_summary_what_it_kept_and_what_follows,
        the_first_version_is_a_list_and_counts_what_was_kept,
        all_of_a_session_is_as_if_it_had_not_been_compacted,
        broken_replies_are_left_out_and_open_calls_get_a_stub,
        results_of_one_reply_share_a_message,
        a_command_of_the_user_is_told_unless_it_is_excluded,
        other_entries_say_something_or_nothing,
        another_model_is_told_thoughts_as_words,
        the_dialect_follows_the_newest_reply_or_the_model_that_is_asked,
        items_of_a_responses_model_come_back_as_they_were,
        ids_are_made_plain_for_a_provider_that_refuses_them,
        pictures_of_results_follow_them_where_a_result_is_words,
        what_was_reported_is_kept_of_every_branch,
        unknown_entries_and_a_cut_line_are_counted,
        a_file_without_a_header_is_refused,
        sessions_are_found_by_name,
    ],
    real: [],
}

fn header() -> Value {
    json!({"type": "session", "version": 3, "id": "5e55-10", "timestamp": "2026-02-01T08:00:00.000Z", "cwd": "/home/ada/garden"})
}

fn entry(id: &str, parent: Option<&str>, message: Value) -> Value {
    let at = "2026-02-01T08:00:05.000Z";
    json!({"type": "message", "id": id, "parentId": parent, "timestamp": at, "message": message})
}

fn user(words: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": words}]})
}

fn reply(content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "stopReason": "stop",
        "api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-5",
        "usage": {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 20, "cost": {"total": 0.25}},
    })
}

fn words(words: &str) -> Value {
    json!([{"type": "text", "text": words}])
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "dig", "arguments": {"depth": 2}})
}

fn result(id: &str, words: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "dig", "isError": false, "content": [{"type": "text", "text": words}]})
}

fn read(lines: &[Value]) -> AgentSession {
    of_lines(lines, &ReadOptions::default())
}

fn body_of(session: &AgentSession) -> Value {
    serde_json::from_str(&request_body(session)).unwrap()
}

fn the_last_entry_is_the_leaf_and_other_branches_are_not_sent() {
    let session = read(&[
        header(),
        entry("a", None, user("plant beans")),
        entry("b", Some("a"), reply(words("Planted."))),
        entry("c", Some("b"), user("no, peas")),
        entry("d", Some("b"), user("no, lentils")),
        entry("e", Some("d"), reply(words("Lentils it is."))),
    ]);
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 text | user: L5 text | assistant: L6 text");
    assert_eq!((session.agent, session.id.as_str()), (Agent::Pi, "5e55-10"));
    assert_eq!(session.project.as_deref(), Some("/home/ada/garden"));
    assert_eq!(session.started, Timestamp::parse("2026-02-01T08:00:00Z"));
    assert_eq!(session.updated, Timestamp::parse("2026-02-01T08:00:05Z"));
}

fn compacted() -> Vec<Value> {
    vec![
        header(),
        entry("a", None, user("first")),
        entry("b", Some("a"), reply(words("one"))),
        entry("c", Some("b"), user("second")),
        json!({"type": "compaction", "id": "x", "parentId": "c", "summary": "an older one", "firstKeptEntryId": "a"}),
        entry("d", Some("x"), reply(words("two"))),
        json!({"type": "compaction", "id": "y", "parentId": "d", "summary": "beans were planted", "firstKeptEntryId": "c"}),
        entry("e", Some("y"), user("third")),
    ]
}

fn a_compaction_is_sent_as_its_summary_what_it_kept_and_what_follows() {
    let session = read(&compacted());
    assert_eq!(shown(&session), "user: L7 text | user: L4 text | assistant: L6 text | user: L8 text");
    let first = body_of(&session)["messages"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(first.contains("<summary>\nbeans were planted\n</summary>"), "{first}");
    assert_eq!(session.compactions, 2);
}

fn the_first_version_is_a_list_and_counts_what_was_kept() {
    let plain =
        |message: Value| json!({"type": "message", "timestamp": "2026-02-01T08:00:05.000Z", "message": message});
    let session = read(&[
        json!({"type": "session", "id": "old", "timestamp": "2026-02-01T08:00:00.000Z", "provider": "anthropic", "modelId": "claude-3"}),
        plain(user("first")),
        plain(reply(words("one"))),
        plain(user("second")),
        json!({"type": "compaction", "timestamp": "2026-02-01T08:00:06.000Z", "summary": "so far", "firstKeptEntryIndex": 3}),
        plain(user("third")),
    ]);
    assert_eq!(shown(&session), "user: L5 text | user: L4 text | user: L6 text");
}

fn all_of_a_session_is_as_if_it_had_not_been_compacted() {
    let session = of_lines(&compacted(), &ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() });
    let all = "user: L2 text | assistant: L3 text | user: L4 text | assistant: L6 text | user: L8 text";
    assert_eq!(shown(&session), all);
}

fn broken_replies_are_left_out_and_open_calls_get_a_stub() {
    let mut broken = reply(json!([{"type": "text", "text": "I will"}, call("z")]));
    broken["stopReason"] = "aborted".into();
    let session = read(&[
        header(),
        entry("a", None, user("dig")),
        entry("b", Some("a"), reply(json!([call("one"), call("two")]))),
        entry("c", Some("b"), result("one", "dug")),
        entry("d", Some("c"), broken),
        entry("e", Some("d"), user("go on")),
    ]);
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 call, L3 call | user: L4 result | user: L6 text");
    let body = body_of(&session);
    let stub = &body["messages"][2]["content"][1];
    assert_eq!((stub["tool_use_id"].as_str(), stub["is_error"].as_bool()), (Some("two"), Some(true)));
    assert_eq!(body["messages"].as_array().unwrap().len(), 4);
}

fn results_of_one_reply_share_a_message() {
    let lines = [
        header(),
        entry("a", None, user("dig")),
        entry("b", Some("a"), reply(json!([call("one"), call("two")]))),
        entry("c", Some("b"), result("two", "rock")),
        entry("d", Some("c"), result("one", "soil")),
    ];
    assert_eq!(shown(&read(&lines)), "user: L2 text | assistant: L3 call, L3 call | user: L4 result, L5 result");
    let chat = of_lines(&lines, &ReadOptions { api_format: Some(ApiFormat::Chat), ..ReadOptions::default() });
    assert_eq!(shown(&chat), "user: L2 text | assistant: L3 call, L3 call | tool: L4 result | tool: L5 result");
}

fn a_command_of_the_user_is_told_unless_it_is_excluded() {
    let run = |excluded: bool| json!({"role": "bashExecution", "command": "ls beds", "output": "north\n", "exitCode": 2, "excludeFromContext": excluded});
    let session = read(&[header(), entry("a", None, run(false)), entry("b", Some("a"), run(true))]);
    assert_eq!(shown(&session), "user: L2 text");
    let MessagePart::Text(told) = &session.messages[0].parts[0].0 else { panic!("words") };
    assert!(told.starts_with("Ran `ls beds`\n```\nnorth\n\n```") && told.ends_with("exited with code 2"), "{told}");
}

fn other_entries_say_something_or_nothing() {
    let next = |id: &str, parent: &str, mut entry: Value| {
        (entry["id"], entry["parentId"]) = (id.into(), parent.into());
        entry
    };
    let session = read(&[
        header(),
        entry("a", None, user("hello")),
        next("b", "a", json!({"type": "custom_message", "customType": "note", "content": "mind the frost"})),
        next("c", "b", json!({"type": "branch_summary", "fromId": "q", "summary": "tried the south bed"})),
        next("d", "c", json!({"type": "custom", "customType": "state", "data": {"text": "not for the model"}})),
        next("e", "d", json!({"type": "label", "targetId": "a", "label": "start"})),
        next("f", "e", json!({"type": "session_info", "name": "Spring beds"})),
        next("g", "f", json!({"type": "thinking_level_change", "thinkingLevel": "high"})),
        next("h", "g", json!({"type": "model_change", "provider": "openai", "modelId": "gpt-5.4"})),
        entry("i", Some("h"), json!({"role": "custom", "content": [{"type": "text", "text": "extension"}]})),
    ]);
    assert_eq!(
        shown(&session),
        "user: L2 message user | user: L3 message user | user: L4 message user | user: L10 message user"
    );
    assert_eq!(session.title.as_deref(), Some("Spring beds"));
    assert_eq!((session.model.as_deref(), session.api_format), (Some("gpt-5.4"), ApiFormat::Responses));
    assert_eq!(session.unknown_records.len(), 0);
}

fn thoughtful() -> Vec<Value> {
    vec![
        header(),
        entry("a", None, user("think")),
        entry(
            "b",
            Some("a"),
            reply(json!([
                {"type": "thinking", "thinking": "Beans fix nitrogen.", "thinkingSignature": "sig"},
                {"type": "thinking", "thinking": "", "thinkingSignature": "sealed", "redacted": true},
                {"type": "thinking", "thinking": "Cut off.", "thinkingSignature": ""},
                {"type": "text", "text": "Beans."},
                {"type": "text", "text": "  "},
            ])),
        ),
    ]
}

fn another_model_is_told_thoughts_as_words() {
    let kinds = |asked: &ReadOptions| -> Vec<String> {
        let body = body_of(&of_lines(&thoughtful(), asked));
        let blocks = body["messages"][1]["content"].as_array().unwrap();
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&ReadOptions::default()), ["thinking", "redacted_thinking", "text", "text"]);
    let same = ReadOptions { model: Some("anthropic/claude-opus-4-5".to_owned()), ..ReadOptions::default() };
    assert_eq!(kinds(&same), ["thinking", "redacted_thinking", "text", "text"]);
    let other = ReadOptions { model: Some("claude-sonnet-4-5".to_owned()), ..ReadOptions::default() };
    assert_eq!(kinds(&other), ["text", "text", "text"]);
}

fn the_dialect_follows_the_newest_reply_or_the_model_that_is_asked() {
    let by = |api: &str| {
        let mut said = reply(words("hello"));
        (said["api"], said["model"]) = (api.into(), "m-1".into());
        vec![header(), entry("a", None, user("hi")), entry("b", Some("a"), said)]
    };
    let cases = [
        ("anthropic-messages", ApiFormat::Messages),
        ("openai-responses", ApiFormat::Responses),
        ("openai-completions", ApiFormat::Chat),
        ("google-generative-ai", ApiFormat::Chat),
    ];
    for (api, api_format) in cases {
        assert_eq!(read(&by(api)).api_format, api_format, "{api}");
    }
    let asked = |model: &str| ReadOptions { model: Some(model.to_owned()), ..ReadOptions::default() };
    assert_eq!(
        of_lines(&by("openai-completions"), &asked("anthropic/claude-opus-4-5")).api_format,
        ApiFormat::Messages
    );
    assert_eq!(of_lines(&by("openai-completions"), &asked("openai/gpt-5.4")).api_format, ApiFormat::Responses);
    assert_eq!(of_lines(&by("anthropic-messages"), &asked("kimi-k2")).api_format, ApiFormat::Chat);
    assert_eq!(of_lines(&by("openai-responses"), &asked("anthropic/m-1")).api_format, ApiFormat::Responses);
}

fn items_of_a_responses_model_come_back_as_they_were() {
    let item = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"c2VhbGVk"}"#;
    let mut said = reply(json!([
        {"type": "thinking", "thinking": "", "thinkingSignature": item},
        {"type": "text", "text": "Digging.", "textSignature": r#"{"v":1,"id":"msg_7","phase":"commentary"}"#},
        {"type": "toolCall", "id": "call_1|fc_1", "name": "dig", "arguments": {"depth": 2}},
    ]));
    (said["api"], said["provider"], said["model"]) = ("openai-responses".into(), "openai".into(), "gpt-5.4".into());
    let lines = [
        header(),
        entry("a", None, user("dig")),
        entry("b", Some("a"), said),
        entry("c", Some("b"), result("call_1|fc_1", "dug")),
    ];
    let own = body_of(&read(&lines));
    let input = own["input"].as_array().unwrap();
    assert_eq!(input[1], serde_json::from_str::<Value>(item).unwrap());
    assert_eq!((input[2]["id"].as_str(), input[2]["phase"].as_str()), (Some("msg_7"), Some("commentary")));
    assert_eq!((input[3]["id"].as_str(), input[3]["call_id"].as_str()), (Some("fc_1"), Some("call_1")));
    assert_eq!((input[4]["call_id"].as_str(), input[4]["output"].as_str()), (Some("call_1"), Some("dug")));
    let other =
        body_of(&of_lines(&lines, &ReadOptions { model: Some("openai/gpt-6".to_owned()), ..ReadOptions::default() }));
    let input = other["input"].as_array().unwrap();
    let kinds: Vec<&str> = input.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "function_call", "function_call_output"]);
    assert!(input[2]["id"].is_null() && input[1]["id"].is_null());
}

fn ids_are_made_plain_for_a_provider_that_refuses_them() {
    let mut said = reply(json!([call("call_1|fc_1")]));
    (said["api"], said["model"]) = ("openai-responses".into(), "gpt-5.4".into());
    let lines = [
        header(),
        entry("a", None, user("dig")),
        entry("b", Some("a"), said),
        entry("c", Some("b"), result("call_1|fc_1", "dug")),
    ];
    let messages = body_of(&of_lines(
        &lines,
        &ReadOptions { model: Some("claude-opus-4-5".to_owned()), ..ReadOptions::default() },
    ));
    assert_eq!(messages["messages"][1]["content"][0]["id"], "call_1_fc_1");
    assert_eq!(messages["messages"][2]["content"][0]["tool_use_id"], "call_1_fc_1");
    let chat = body_of(&of_lines(&lines, &ReadOptions { model: Some("kimi-k2".to_owned()), ..ReadOptions::default() }));
    assert_eq!(chat["messages"][1]["tool_calls"][0]["id"], "call_1");
    assert_eq!(chat["messages"][2]["tool_call_id"], "call_1");
}

fn pictures_of_results_follow_them_where_a_result_is_words() {
    let mut seen = result("one", "");
    seen["content"] = json!([{"type": "image", "mimeType": "image/png", "data": "aGk="}]);
    let lines = [
        header(),
        entry("a", None, user("look")),
        entry("b", Some("a"), reply(json!([call("one"), call("two")]))),
        entry("c", Some("b"), seen),
        entry("d", Some("c"), result("two", "words")),
    ];
    assert_eq!(body_of(&read(&lines))["messages"][2]["content"][0]["content"][1]["type"], "image");
    let chat = body_of(&of_lines(&lines, &ReadOptions { api_format: Some(ApiFormat::Chat), ..ReadOptions::default() }));
    let roles: Vec<&str> =
        chat["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"]);
    assert_eq!(chat["messages"][4]["content"][1]["type"], "image_url");
}

fn what_was_reported_is_kept_of_every_branch() {
    let mut nothing = reply(json!([]));
    nothing["stopReason"] = "aborted".into();
    nothing["usage"] = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
    let session = read(&[
        header(),
        entry("a", None, user("hi")),
        entry("b", Some("a"), reply(words("one"))),
        entry("c", Some("a"), nothing),
        entry("d", Some("a"), reply(words("two"))),
    ]);
    let reported: Vec<_> =
        session.requests.iter().map(|r| (r.usage.input, r.usage.read, r.reply_index, r.dollars)).collect();
    let each = |reply| (Some(Tokens(130)), Some(Tokens(100)), reply, Some(0.25));
    assert_eq!(reported, [each(None), each(Some(1))]);
    assert_eq!(session.requests[0].model.as_deref(), Some("claude-opus-4-5"));
}

fn unknown_entries_and_a_cut_line_are_counted() {
    let folder = Folder::new();
    let lines = [
        header(),
        entry("a", None, user("hi")),
        json!({"type": "hologram", "id": "b", "parentId": "a", "later": {"field": 1}}),
        entry("c", Some("b"), json!({"role": "oracle", "content": "hm"})),
        entry("d", Some("c"), reply(json!([{"type": "smell", "of": "soil"}, {"type": "text", "text": "ok"}]))),
    ];
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text += "{\"type\":\"message\",\"id\":\"e\",\"par";
    let session = support::read(&folder.file("s.jsonl", text), &ReadOptions::default()).unwrap();
    assert_eq!(shown(&session), "user: L2 text | assistant: L5 text");
    let counted: Vec<(&str, usize)> =
        session.unknown_records.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(counted, [("block smell", 1), ("hologram", 1), ("message with role oracle", 1)]);
    assert!(session.warnings.len() == 1 && session.warnings[0].contains("incomplete"), "{:?}", session.warnings);
}

fn a_file_without_a_header_is_refused() {
    let folder = Folder::new();
    let path = folder.file("s.jsonl", format!("{}\n", entry("a", None, user("hi"))));
    assert!(longhaul_agents::recognize_path(&path).unwrap().is_none_or(|place| place.agent != Agent::Pi));
}

fn sessions_are_found_by_name() {
    let folder = Folder::new();
    let session = format!("{}\n{}\n", header(), entry("a", None, user("hi")));
    let path = folder.file("home/.pi/agent/sessions/--work-garden--/2026-02-01T08-00-00-000Z_5e55-10.jsonl", &session);
    folder.file("elsewhere/sessions/--work-yard--/2026-02-02T08-00-00-000Z_77.jsonl", &session);
    let mut machine = UserEnvironment { home: folder.0.join("home"), ..UserEnvironment::default() };
    assert_eq!(find_session(&machine, "pi:5e55").unwrap().path, path);
    let elsewhere = folder.0.join("elsewhere").display().to_string();
    machine.variables.insert("PI_CODING_AGENT_DIR".to_owned(), elsewhere);
    let found = list_sessions(&machine, Some(Agent::Pi));
    assert_eq!(found.iter().map(|place| place.id.as_deref()).collect::<Vec<_>>(), [Some("77")]);
}
