//! Hermes: which rows are sent, what a compaction repeats, and files beside the database.

use std::path::Path;

use longhaul_agents::{Agent, AgentSession, ReadOptions, Timestamp};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

use crate::databases::{body, found, machine, made, named, session, whole};
use crate::support::{self, Folder, shown};

tests! {
    always: [
        rows_are_sent_by_id_and_only_active_ones,
        what_was_sent_counts_and_not_what_was_typed,
        a_compaction_in_place_comes_back_in_the_whole_once,
        two_compactions_come_back_once_each,
        a_compaction_into_a_child_is_followed_back,
        calls_without_a_result_get_one_and_results_without_a_call_go,
        contents_of_several_parts_are_read,
        thoughts_and_arguments_stay_as_they_were,
        the_prompt_is_found_by_its_hash,
        usage_is_a_sum_for_each_model_without_a_reply,
        usage_of_older_schemas_is_a_sum_of_the_session,
        delegated_work_and_what_goes_on_elsewhere_is_not_listed,
        the_gateways_lines_are_read,
        snapshots_are_read_with_prompt_and_tools,
        homes_are_found_and_copies_beside_the_database_are_listed_once,
        older_schemas_lack_columns,
        a_request_in_messages_form_is_valid,
    ],
    real: [every_file_is_read],
}

const TABLES: &str = "
    CREATE TABLE sessions (id TEXT, model TEXT, system_prompt TEXT, system_prompt_hash TEXT, parent_session_id TEXT,
      started_at REAL, ended_at REAL, end_reason TEXT, input_tokens INTEGER, output_tokens INTEGER,
      cache_read_tokens INTEGER, cache_write_tokens INTEGER, cwd TEXT, estimated_cost_usd REAL, title TEXT);
    CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, api_content TEXT,
      tool_call_id TEXT, tool_calls TEXT, timestamp REAL, reasoning TEXT, active INTEGER, compacted INTEGER);";

fn started(id: &str, parent: Option<&str>, ended: Option<&str>) -> String {
    let quoted = |text: Option<&str>| text.map_or("NULL".to_owned(), |text| format!("'{text}'"));
    format!(
        "INSERT INTO sessions VALUES ('{id}', 'GLM-5', 'Be kind.', NULL, {}, 100.5, NULL, {}, 70, 9, 20, 10, '/garden', 0.5, 'Beans');",
        quoted(parent),
        quoted(ended)
    )
}

/// A row: its session, who speaks, what, and whether it is active or was compacted.
fn row(id: i64, session: &str, role: &str, content: &str, active: i64, compacted: i64) -> String {
    format!(
        "INSERT INTO messages VALUES ({id}, '{session}', '{role}', '{}', NULL, NULL, NULL, {id}.25, NULL, {active}, {compacted});",
        content.replace('\'', "''")
    )
}

fn of(statements: &str, asked: &ReadOptions) -> AgentSession {
    let folder = Folder::new();
    session(&made(&folder, "state.db", &format!("{TABLES} {statements}")), asked)
}

const SUMMARY: &str = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns: beans were planted.";

fn rows_are_sent_by_id_and_only_active_ones() {
    let list = [
        started("s", None, None),
        row(1, "s", "user", "Hello.", 1, 0),
        "UPDATE messages SET timestamp = 999.0 WHERE id = 1;".to_owned(),
        row(2, "s", "assistant", "Hi.", 1, 0),
        row(3, "s", "user", "Taken back.", 0, 0),
        row(4, "s", "session_meta", "{}", 1, 0),
        row(5, "s", "gardener", "?", 1, 0),
    ];
    let session = of(&list.concat(), &ReadOptions::default());
    assert_eq!(shown(&session), "user: row 1 text | assistant: row 2 text");
    assert_eq!(session.unknown_records.get("role gardener"), Some(&1));
    assert_eq!((session.model.as_deref(), session.project.as_deref()), (Some("GLM-5"), Some("/garden")));
    assert_eq!((session.title.as_deref(), session.system_prompt.as_deref()), (Some("Beans"), Some("Be kind.")));
    assert_eq!((session.started, session.updated), (Some(Timestamp(100_500)), Some(Timestamp(999_000))));
    assert_eq!(shown(&of(&list.concat(), &whole())), "user: row 1 text | assistant: row 2 text");
}

fn what_was_sent_counts_and_not_what_was_typed() {
    let list = [
        started("s", None, None),
        row(1, "s", "user", "Hello.", 1, 0),
        "UPDATE messages SET api_content = 'It is noon. Hello.' WHERE id = 1;".to_owned(),
    ];
    assert_eq!(body(&of(&list.concat(), &ReadOptions::default()))["messages"][1]["content"], "It is noon. Hello.");
}

fn a_compaction_in_place_comes_back_in_the_whole_once() {
    let list = [
        started("s", None, None),
        row(1, "s", "user", "Plant beans.", 0, 1),
        row(2, "s", "assistant", "Planted.", 0, 1),
        row(3, "s", "user", "And peas.", 0, 1),
        row(4, "s", "assistant", "Peas, too.", 0, 1),
        row(5, "s", "user", "Plant beans.", 1, 0),
        row(6, "s", "user", SUMMARY, 1, 0),
        row(7, "s", "assistant", "Peas, too.", 1, 0),
        row(8, "s", "user", "Water them.", 1, 0),
    ];
    let next = of(&list.concat(), &ReadOptions::default());
    assert_eq!(shown(&next), "user: row 5 text | user: row 6 text | assistant: row 7 text | user: row 8 text");
    let whole = of(&list.concat(), &whole());
    assert_eq!(
        shown(&whole),
        "user: row 1 text | assistant: row 2 text | user: row 3 text | assistant: row 4 text | user: row 8 text"
    );
    assert_eq!((next.compactions, whole.compactions), (1, 1));
}

fn two_compactions_come_back_once_each() {
    let second = format!("{SUMMARY} Peas, too.");
    let list = [
        started("s", None, None),
        row(1, "s", "user", "One.", 0, 1),
        row(2, "s", "assistant", "1", 0, 1),
        row(3, "s", "user", "One.", 0, 1),
        row(4, "s", "user", SUMMARY, 0, 1),
        row(5, "s", "user", "Two.", 0, 1),
        row(6, "s", "assistant", "2", 0, 1),
        row(7, "s", "user", "One.", 1, 0),
        row(8, "s", "assistant", &second, 1, 0),
        row(9, "s", "user", "Two.", 1, 0),
        row(10, "s", "assistant", "2", 1, 0),
        row(11, "s", "user", "Three.", 1, 0),
    ];
    let whole = of(&list.concat(), &whole());
    assert_eq!(
        shown(&whole),
        "user: row 1 text | assistant: row 2 text | user: row 5 text | assistant: row 6 text | user: row 11 text"
    );
    assert_eq!(whole.compactions, 2);
}

fn a_compaction_into_a_child_is_followed_back() {
    let list = [
        started("old", None, Some("compression")),
        started("new", Some("old"), None),
        row(1, "old", "user", "Plant beans.", 1, 0),
        row(2, "old", "assistant", "Planted.", 1, 0),
        row(3, "old", "user", "And peas.", 1, 0),
        row(4, "new", "user", "Plant beans.", 1, 0),
        row(5, "new", "assistant", SUMMARY, 1, 0),
        row(6, "new", "user", "And peas.", 1, 0),
        row(7, "new", "assistant", "Peas, too.", 1, 0),
    ];
    let next = of(&list.concat(), &ReadOptions::default());
    assert_eq!(next.id, "new");
    assert_eq!(shown(&next), "user: row 4 text | assistant: row 5 text | user: row 6 text | assistant: row 7 text");
    let whole = of(&list.concat(), &whole());
    assert_eq!(shown(&whole), "user: row 1 text | assistant: row 2 text | user: row 3 text | assistant: row 7 text");
    assert_eq!((next.compactions, whole.compactions), (1, 1));
    assert_eq!(whole.requests.len(), 2);
}

fn calling(id: i64, calls: &[&str]) -> String {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"ls\"}"}});
    let calls: Vec<Value> = calls.iter().map(call).collect();
    format!(
        "{} UPDATE messages SET tool_calls = '{}', reasoning = 'I look.' WHERE id = {id};",
        row(id, "s", "assistant", "", 1, 0),
        json!(calls)
    )
}

fn result(id: i64, call: &str) -> String {
    format!("{} UPDATE messages SET tool_call_id = '{call}' WHERE id = {id};", row(id, "s", "tool", "beds.md", 1, 0))
}

fn calls_without_a_result_get_one_and_results_without_a_call_go() {
    let list = [
        started("s", None, None),
        row(1, "s", "user", "Look.", 1, 0),
        calling(2, &["a", "b"]),
        result(3, "b"),
        result(4, "c"),
    ];
    let session = of(&list.concat(), &ReadOptions::default());
    let body = body(&session);
    assert_eq!(body["messages"][3]["tool_call_id"], "a");
    assert_eq!(body["messages"][3]["content"], "[Result unavailable — see context summary above]");
    assert_eq!(body["messages"][4]["content"], "beds.md");
    assert_eq!(session.messages.len(), 4);
}

fn contents_of_several_parts_are_read() {
    let parts = json!([
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "https://garden.example/bean.png"}}
    ]);
    let folder = Folder::new();
    let path = made(&folder, "state.db", &format!("{TABLES} {}", started("s", None, None)));
    let stored = format!("\0json:{parts}");
    let add =
        "INSERT INTO messages (id, session_id, role, content, timestamp, active) VALUES (1, 's', 'user', ?1, 1.0, 1)";
    rusqlite::Connection::open(&path).unwrap().execute(add, [stored]).unwrap();
    let session = session(&path, &ReadOptions::default());
    assert_eq!(shown(&session), "user: row 1 text, row 1 image, row 1 image_url");
    body(&session);
}

fn thoughts_and_arguments_stay_as_they_were() {
    let list = [started("s", None, None), row(1, "s", "user", "Look.", 1, 0), calling(2, &["a"]), result(3, "a")];
    let session = of(&list.concat(), &ReadOptions::default());
    assert_eq!(shown(&session), "user: row 1 text | assistant: row 2 thinking, row 2 call | tool: row 3 result");
    let body = body(&session);
    assert_eq!(body["messages"][2]["reasoning_content"], "I look.");
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"command\": \"ls\"}");
}

fn the_prompt_is_found_by_its_hash() {
    let list = [
        started("s", None, None),
        row(1, "s", "user", "Hello.", 1, 0),
        "UPDATE sessions SET system_prompt = NULL, system_prompt_hash = 'h';
         CREATE TABLE system_prompts (hash TEXT, prompt TEXT); INSERT INTO system_prompts VALUES ('h', 'Be brief.');"
            .to_owned(),
    ];
    assert_eq!(of(&list.concat(), &ReadOptions::default()).system_prompt.as_deref(), Some("Be brief."));
}

fn usage_is_a_sum_for_each_model_without_a_reply() {
    let list = [
        started("s", None, None),
        row(1, "s", "user", "Hello.", 1, 0),
        "CREATE TABLE session_model_usage (session_id TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER,
           cache_read_tokens INTEGER, cache_write_tokens INTEGER, estimated_cost_usd REAL, actual_cost_usd REAL, last_seen REAL);
         INSERT INTO session_model_usage VALUES ('s', 'GLM-5', 50, 5, 30, 0, 0.2, 0.1, 9.0);
         INSERT INTO session_model_usage VALUES ('s', 'GLM-4', 20, 4, 0, 0, 0.2, 0.0, 5.0);"
            .to_owned(),
    ];
    let session = of(&list.concat(), &ReadOptions::default());
    let told: Vec<_> = session
        .requests
        .iter()
        .map(|r| (r.model.as_deref().unwrap(), r.usage.input.unwrap().0, r.reply_index, r.dollars))
        .collect();
    assert_eq!(told, [("GLM-4", 20, None, Some(0.2)), ("GLM-5", 80, None, Some(0.1))]);
}

fn usage_of_older_schemas_is_a_sum_of_the_session() {
    let list = [started("s", None, None), row(1, "s", "user", "Hello.", 1, 0)];
    let session = of(&list.concat(), &ReadOptions::default());
    let [request] = session.requests.as_slice() else { panic!("{:?}", session.requests) };
    assert_eq!((request.usage.input, request.usage.output), (Some(Tokens(100)), Some(Tokens(9))));
    assert_eq!((request.reply_index, request.dollars), (None, Some(0.5)));
}

fn delegated_work_and_what_goes_on_elsewhere_is_not_listed() {
    let folder = Folder::new();
    let list = [
        started("old", None, Some("compression")),
        started("new", Some("old"), None),
        started("delegated", Some("new"), Some("done")),
        row(1, "old", "user", "1", 1, 0),
        row(2, "new", "user", "2", 1, 0),
        row(3, "delegated", "user", "3", 1, 0),
    ];
    let path = made(&folder, ".hermes/state.db", &format!("{TABLES} {}", list.concat()));
    assert_eq!(found(&machine(&folder.0, &[]), Agent::Hermes), ["new"]);
    assert_eq!(session(&path, &ReadOptions::default()).id, "new");
    assert_eq!(shown(&named(Agent::Hermes, &path, "delegated")), "user: row 3 text");
}

fn the_gateways_lines_are_read() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "terminal", "arguments": "{}"}});
    let lines = [
        json!({"role": "session_meta", "model": "GLM-5", "tools": [{"type": "function", "function": {"name": "terminal"}}]}),
        json!({"role": "user", "content": "Look.", "timestamp": "2026-05-04T23:21:27.5"}),
        json!({"role": "assistant", "content": "", "tool_calls": [call], "timestamp": "2026-05-04T23:21:27.5"}),
        json!({"role": "tool", "content": "beds.md", "tool_call_id": "a", "timestamp": "2026-05-04T23:21:27.5"}),
        json!({"role": "assistant", "content": SUMMARY, "timestamp": "2026-05-04T23:22:27"}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let folder = Folder::new();
    let path = folder.file("20260504_1.jsonl", format!("{text}{{\"role\":"));
    let next = session(&path, &ReadOptions::default());
    assert_eq!(shown(&next), "user: L2 text | assistant: L3 call | tool: L4 result | assistant: L5 text");
    assert_eq!((next.id.as_str(), next.model.as_deref()), ("20260504_1", Some("GLM-5")));
    assert_eq!(next.tools.as_ref().unwrap()[0]["function"]["name"], "terminal");
    assert_eq!((next.compactions, next.warnings.len()), (1, 1));
    assert_eq!(next.started, Timestamp::parse("2026-05-04T23:21:27.500Z"));
    let whole = session(&path, &whole());
    assert_eq!(shown(&whole), "user: L2 text | assistant: L3 call | tool: L4 result");
}

fn snapshots_are_read_with_prompt_and_tools() {
    let snapshot = json!({
        "session_id": "one", "model": "GLM-5", "base_url": "", "platform": "cli",
        "session_start": "2026-04-20T13:32:46", "last_updated": "2026-04-20T13:32:55", "system_prompt": "Be kind.",
        "tools": [{"type": "function", "function": {"name": "terminal"}}],
        "messages": [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    });
    let folder = Folder::new();
    let session = session(&folder.file("session_one.json", snapshot.to_string()), &ReadOptions::default());
    assert_eq!(shown(&session), "user: messages/0 text | assistant: messages/1 text");
    assert_eq!((session.id.as_str(), session.system_prompt.as_deref()), ("one", Some("Be kind.")));
    assert_eq!(session.updated, Timestamp::parse("2026-04-20T13:32:55Z"));
    assert_eq!(body(&session)["tools"][0]["function"]["name"], "terminal");
}

fn homes_are_found_and_copies_beside_the_database_are_listed_once() {
    let cases: [(&str, &[(&str, &str)]); 3] = [
        (".hermes", &[]),
        ("local/hermes", &[("LOCALAPPDATA", "local")]),
        ("mine", &[("HERMES_HOME", "mine"), ("LOCALAPPDATA", "local")]),
    ];
    for (home, variables) in cases {
        let folder = Folder::new();
        let list = [started("s", None, None), row(1, "s", "user", "Hello.", 1, 0)];
        made(&folder, &format!("{home}/state.db"), &format!("{TABLES} {}", list.concat()));
        for file in ["s.jsonl", "older.jsonl", "session_s.json", "session_first.json"] {
            folder.file(&format!("{home}/sessions/{file}"), "{}");
        }
        let paths: Vec<(&str, std::path::PathBuf)> =
            variables.iter().map(|(name, path)| (*name, folder.0.join(path))).collect();
        let variables: Vec<(&str, &Path)> = paths.iter().map(|(name, path)| (*name, path.as_path())).collect();
        let mut ids = found(&machine(&folder.0, &variables), Agent::Hermes);
        ids.sort();
        assert_eq!(ids, ["first", "older", "s"], "{home}");
    }
}

fn older_schemas_lack_columns() {
    let folder = Folder::new();
    let path = made(
        &folder,
        "state.db",
        "CREATE TABLE sessions (id TEXT, started_at REAL);
         CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT, tool_calls TEXT, timestamp REAL);
         INSERT INTO sessions VALUES ('s', 1.0);
         INSERT INTO messages VALUES (1, 's', 'user', 'Hello.', NULL, NULL, 1.0);",
    );
    let session = session(&path, &ReadOptions::default());
    assert_eq!(shown(&session), "user: row 1 text");
    assert!(session.requests.is_empty());
}

fn a_request_in_messages_form_is_valid() {
    let list = [
        started("s", None, None),
        row(1, "s", "user", "Look.", 1, 0),
        calling(2, &["a", "b"]),
        result(3, "a"),
        result(4, "b"),
        row(5, "s", "user", "And?", 1, 0),
    ];
    let asked = ReadOptions {
        api_format: Some(ApiFormat::Messages),
        model: Some("claude-sonnet-4-5".to_owned()),
        ..ReadOptions::default()
    };
    let session = of(&list.concat(), &asked);
    assert_eq!(
        shown(&session),
        "user: row 1 text | assistant: row 2 thinking, row 2 call, row 2 call | user: row 3 result, row 4 result, row 5 text"
    );
    body(&session);
}

/// One row of the database asks for something that nothing came back for: it gets a result. Its 27 first rows come back, and
/// what the compaction repeated does not.
fn every_file_is_read() {
    let files = [
        ("hermes_compacted-a.db", 22, 41, 1),
        ("hermes_gateway-a96c96.jsonl", 182, 181, 1),
        ("hermes_cli-91c4ce.json", 4, 4, 0),
    ];
    for (name, turns, all, compactions) in files {
        let path = support::real().join(name);
        let (next, whole) = (session(&path, &ReadOptions::default()), session(&path, &whole()));
        assert_eq!((next.messages.len(), whole.messages.len(), next.compactions), (turns, all, compactions), "{name}");
        assert!(next.unknown_records.is_empty() && next.warnings.is_empty(), "{name}");
        body(&next);
        body(&whole);
    }
    let sums = session(&support::real().join("hermes_compacted-a.db"), &ReadOptions::default()).requests;
    assert_eq!(sums[0].usage.input, Some(Tokens(1_473_386)));
}
