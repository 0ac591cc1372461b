//! Goose: rows that are hidden by turns, contents that are for the screen, and where usage is found.

use std::path::Path;

use longhaul_agents::{Agent, AgentSession, ReadOptions, Timestamp};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

use crate::databases::{body, found, machine, made, named, session, whole};
use crate::support::{self, Folder, shown};

tests! {
    always: [
        what_a_compaction_hid_is_not_sent_and_comes_back_in_the_whole,
        rows_are_sent_in_the_order_of_their_times,
        calls_at_the_same_time_stay_one_after_the_other,
        neighbours_become_one_message_and_the_first_is_the_users,
        calls_and_results_without_each_other_are_left_out,
        what_is_for_the_screen_is_skipped_and_what_is_unknown_is_counted,
        a_picture_in_a_result_follows_it,
        a_failed_call_says_so,
        usage_is_the_ledgers_with_the_reply_of_each_request,
        usage_without_a_ledger_is_the_messages_own,
        usage_of_older_schemas_is_one_sum,
        subagents_are_not_listed_but_can_be_named,
        homes_are_found_on_every_system,
        files_before_the_database_are_read,
        a_request_in_messages_form_puts_results_into_the_users_turn,
    ],
    real: [every_file_is_read, the_order_agrees, recorded_growth_agrees],
}

const TABLES: &str = "
    CREATE TABLE sessions (id TEXT, name TEXT, description TEXT, session_type TEXT, working_dir TEXT, created_at TEXT,
      updated_at TEXT, model_config_json TEXT, parent_session_id TEXT, accumulated_input_tokens INTEGER,
      accumulated_output_tokens INTEGER, accumulated_cost REAL);
    CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
      created_timestamp INTEGER, metadata_json TEXT);
    CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, created_timestamp INTEGER, model TEXT,
      input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER, cost REAL, is_compaction INTEGER);
    INSERT INTO sessions VALUES ('s1', 'Beans', '', 'user', '/garden', '2026-05-01 08:00:00', '2026-05-01 09:00:00',
      '{\"model_name\":\"gpt-4o\"}', NULL, 900, 90, 0.25);";

fn said(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn call(id: &str) -> Value {
    let value = json!({"name": "shell", "arguments": {"command": "ls"}});
    json!({"type": "toolRequest", "id": id, "toolCall": {"status": "success", "value": value}})
}

fn result(id: &str, content: Value) -> Value {
    let value = json!({"content": content, "isError": false});
    json!({"type": "toolResponse", "id": id, "toolResult": {"status": "success", "value": value}})
}

/// Rows of one session: who speaks, what, when, and what the row says of itself.
fn rows(rows: &[(&str, Value, i64, Value)]) -> String {
    let row = |(at, (role, content, when, metadata)): (usize, &(&str, Value, i64, Value))| {
        let quoted = |value: &Value| value.to_string().replace('\'', "''");
        let number = at + 1;
        format!(
            "INSERT INTO messages VALUES ({number}, 's1', '{role}', '{}', {when}, '{}');",
            quoted(content),
            quoted(metadata)
        )
    };
    rows.iter().enumerate().map(row).collect()
}

fn of(statements: &str, asked: &ReadOptions) -> AgentSession {
    let folder = Folder::new();
    session(&made(&folder, "sessions.db", &format!("{TABLES} {statements}")), asked)
}

fn next(list: &[(&str, Value, i64, Value)]) -> AgentSession {
    of(&rows(list), &ReadOptions::default())
}

fn what_a_compaction_hid_is_not_sent_and_comes_back_in_the_whole() {
    let hidden = json!({"userVisible": true, "agentVisible": false});
    let ours = json!({"userVisible": false, "agentVisible": true});
    let list = rows(&[
        ("user", said("Plant beans."), 1, hidden.clone()),
        ("assistant", said("Planted."), 2, hidden.clone()),
        ("user", said("And peas."), 3, hidden),
        ("user", said("Beans were planted."), 4, ours.clone()),
        ("assistant", said("Going on."), 4, ours.clone()),
        ("user", said("And peas."), 4, ours),
        ("assistant", said("Peas, too."), 5, json!({"userVisible": true, "agentVisible": true})),
    ]);
    let next = of(&list, &ReadOptions::default());
    let sent = "user: row 4 text | assistant: row 5 text | user: row 6 text | assistant: row 7 text";
    assert_eq!(shown(&next), sent);
    assert_eq!(next.compactions, 1);
    let whole = of(&list, &whole());
    let all = "user: row 1 text | assistant: row 2 text | user: row 3 text | assistant: row 7 text";
    assert_eq!(shown(&whole), all);
    assert_eq!(whole.compactions, 1);
    assert_eq!((next.title.as_deref(), next.project.as_deref()), (Some("Beans"), Some("/garden")));
    assert_eq!((next.model.as_deref(), next.api_format), (Some("gpt-4o"), ApiFormat::Chat));
    assert_eq!(next.started, Timestamp::parse("2026-05-01T08:00:00Z"));
    assert_eq!(next.updated, Timestamp::parse("2026-05-01T09:00:00Z"));
}

fn rows_are_sent_in_the_order_of_their_times() {
    let session =
        next(&[("assistant", said("Good."), 9, Value::Null), ("user", said("How are the beans?"), 3, Value::Null)]);
    assert_eq!(shown(&session), "user: row 2 text | assistant: row 1 text");
}

fn calls_at_the_same_time_stay_one_after_the_other() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let session = next(&[
        ("user", said("Look."), 1, Value::Null),
        ("assistant", json!([{"type": "text", "text": "I look."}, call("a")]), 1, Value::Null),
        ("user", json!([result("a", text("one"))]), 1, Value::Null),
        ("assistant", json!([call("b")]), 1, Value::Null),
        ("user", json!([result("b", text("two"))]), 1, Value::Null),
    ]);
    let sent = "user: row 1 text | assistant: row 2 text, row 2 call | tool: row 3 result | assistant: row 4 call \
                | tool: row 5 result";
    assert_eq!(shown(&session), sent);
    body(&session);
}

fn neighbours_become_one_message_and_the_first_is_the_users() {
    let session = next(&[
        ("assistant", said("Welcome."), 1, Value::Null),
        ("user", said("Hello."), 2, Value::Null),
        ("user", said("Are you there?"), 3, Value::Null),
        ("assistant", json!([{"type": "thinking", "thinking": "I am.", "signature": ""}]), 4, Value::Null),
        ("assistant", json!([{"type": "text", "text": "I "}, {"type": "text", "text": "am. \n"}]), 5, Value::Null),
    ]);
    assert_eq!(shown(&session), "user: row 2 text, row 3 text | assistant: row 4 thinking, row 5 text");
    let body = body(&session);
    assert_eq!(body["messages"][1]["content"], "I am.");
    assert_eq!(body["messages"][1]["reasoning_content"], "I am.");
}

fn calls_and_results_without_each_other_are_left_out() {
    let session = next(&[
        ("user", said("Look."), 1, Value::Null),
        ("assistant", json!([call("lost")]), 2, Value::Null),
        ("user", json!([result("nobody", json!([]))]), 3, Value::Null),
        ("assistant", said("Nothing there."), 4, Value::Null),
    ]);
    assert_eq!(shown(&session), "user: row 1 text | assistant: row 4 text");
}

fn what_is_for_the_screen_is_skipped_and_what_is_unknown_is_counted() {
    let screen = json!([
        {"type": "systemNotification", "msg": "x"}, {"type": "toolConfirmationRequest", "id": "1"},
        {"type": "redactedThinking", "data": "x"}, {"type": "text", "text": "Good."},
        {"type": "hologram", "data": "x"}
    ]);
    let session = next(&[
        (
            "user",
            json!([{"type": "conversationCompacted", "msg": "x"}, {"type": "text", "text": "Hi."}]),
            1,
            Value::Null,
        ),
        ("assistant", screen, 2, Value::Null),
        ("gardener", said("?"), 3, Value::Null),
    ]);
    assert_eq!(shown(&session), "user: row 1 text | assistant: row 2 text");
    let unknown: Vec<(&str, usize)> =
        session.unknown_records.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(unknown, [("content hologram", 1), ("role gardener", 1)]);
}

fn a_picture_in_a_result_follows_it() {
    let shot =
        json!([{"type": "text", "text": "Taken."}, {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]);
    let session = next(&[
        ("user", said("Show me."), 1, Value::Null),
        ("assistant", json!([call("a")]), 2, Value::Null),
        ("user", json!([result("a", shot)]), 3, Value::Null),
    ]);
    let sent = "user: row 1 text | assistant: row 2 call | tool: row 3 result | user: row 3 image";
    assert_eq!(shown(&session), sent);
    let body = body(&session);
    assert!(body["messages"][2]["content"].as_str().unwrap().starts_with("Taken. This tool result included an image"));
}

fn a_failed_call_says_so() {
    let error = json!({"type": "toolResponse", "id": "a", "toolResult": {"status": "error", "error": "no such bed"}});
    let unread = json!({"type": "toolRequest", "id": "b", "toolCall": {"status": "error", "error": "no JSON"}});
    let session = next(&[
        ("user", said("Dig."), 1, Value::Null),
        ("assistant", json!([call("a"), unread]), 2, Value::Null),
        ("user", json!([error, result("b", json!([]))]), 3, Value::Null),
    ]);
    assert_eq!(shown(&session), "user: row 1 text | assistant: row 2 call | tool: row 3 result");
    let body = body(&session);
    let said = body["messages"][2]["content"].as_str().unwrap();
    assert_eq!(said, "The tool call returned the following error:\nno such bed");
}

fn usage_is_the_ledgers_with_the_reply_of_each_request() {
    let used = |input: u64| json!({"usage": {"inputTokens": input, "outputTokens": 5, "cost": 0.5}});
    let ledger = "
        INSERT INTO usage_ledger VALUES (1, 's1', 2, 'gpt-4o', 100, 5, 60, 0.01, 0);
        INSERT INTO usage_ledger VALUES (2, 's1', 3, 'gpt-4o', 90, 9, 0, 0.02, 1);
        INSERT INTO usage_ledger VALUES (3, 's1', 4, 'gpt-4o', 120, 5, 80, 0.03, 0);";
    let list = rows(&[
        ("user", said("One."), 1, Value::Null),
        ("assistant", said("1"), 2, used(100)),
        ("user", said("Two."), 3, Value::Null),
        ("assistant", said("2"), 4, used(120)),
    ]);
    let session = of(&format!("{list} {ledger}"), &ReadOptions::default());
    let told: Vec<_> = session.requests.iter().map(|r| (r.usage.input.unwrap().0, r.reply_index, r.dollars)).collect();
    assert_eq!(told, [(100, Some(1), Some(0.01)), (90, None, Some(0.02)), (120, Some(3), Some(0.03))]);
    assert_eq!(session.requests[0].usage.read, Some(Tokens(60)));
}

fn usage_without_a_ledger_is_the_messages_own() {
    let used = json!({
        "inference": {"requestedModel": "gpt-4.1"},
        "usage": {"inputTokens": 70, "outputTokens": 5, "cacheReadTokens": 10, "cost": 0.5}
    });
    let session = next(&[("user", said("One."), 1, Value::Null), ("assistant", said("1"), 2, used)]);
    let [request] = session.requests.as_slice() else { panic!("{:?}", session.requests) };
    assert_eq!((request.usage.input, request.usage.read), (Some(Tokens(70)), Some(Tokens(10))));
    assert_eq!((request.reply_index, request.model.as_deref()), (Some(1), Some("gpt-4.1")));
    assert_eq!(session.model.as_deref(), Some("gpt-4.1"));
}

fn usage_of_older_schemas_is_one_sum() {
    let session = next(&[("user", said("One."), 1, Value::Null), ("assistant", said("1"), 2, Value::Null)]);
    let [request] = session.requests.as_slice() else { panic!("{:?}", session.requests) };
    assert_eq!((request.usage.input, request.usage.output), (Some(Tokens(900)), Some(Tokens(90))));
    assert_eq!((request.reply_index, request.dollars), (None, Some(0.25)));
}

fn subagents_are_not_listed_but_can_be_named() {
    let folder = Folder::new();
    let more = "
        INSERT INTO sessions VALUES ('child', '', '', 'sub_agent', '/garden', '', '2026-06-01 09:00:00', NULL, 's1', NULL, NULL, NULL);
        INSERT INTO sessions VALUES ('s2', '', 'Peas', 'user', '/shed', '', '2026-05-02 09:00:00', NULL, NULL, NULL, NULL, NULL);
        INSERT INTO messages VALUES (9, 'child', 'user', '[{\"type\":\"text\",\"text\":\"Dig.\"}]', 1, NULL);";
    let path = made(&folder, ".local/share/goose/sessions/sessions.db", &format!("{TABLES} {more}"));
    assert_eq!(found(&machine(&folder.0, &[]), Agent::Goose), ["s2", "s1"]);
    assert_eq!(session(&path, &ReadOptions::default()).id, "s2");
    assert_eq!(shown(&named(Agent::Goose, &path, "child")), "user: row 9 text");
}

fn homes_are_found_on_every_system() {
    let cases: [(&str, &[(&str, &str)]); 4] = [
        (".local/share/goose/sessions", &[]),
        ("xdg/goose/sessions", &[("XDG_DATA_HOME", "xdg")]),
        ("roaming/Block/goose/data/sessions", &[("APPDATA", "roaming")]),
        ("root/data/sessions", &[("GOOSE_PATH_ROOT", "root"), ("APPDATA", "roaming")]),
    ];
    for (place, variables) in cases {
        let folder = Folder::new();
        made(&folder, &format!("{place}/sessions.db"), TABLES);
        folder.file(&format!("{place}/20250101_1.jsonl"), "{}\n");
        let paths: Vec<(&str, std::path::PathBuf)> =
            variables.iter().map(|(name, path)| (*name, folder.0.join(path))).collect();
        let variables: Vec<(&str, &Path)> = paths.iter().map(|(name, path)| (*name, path.as_path())).collect();
        let mut ids = found(&machine(&folder.0, &variables), Agent::Goose);
        ids.sort();
        assert_eq!(ids, ["20250101_1", "s1"], "{place}");
    }
}

fn files_before_the_database_are_read() {
    let folder = Folder::new();
    let header = json!({"working_dir": "/garden", "description": "Weather", "accumulated_input_tokens": 40, "accumulated_output_tokens": 4});
    let plain = json!({"type": "toolResponse", "id": "a", "toolResult": {"status": "success", "value": [{"type": "text", "text": "sunny"}]}});
    let lines = [
        header,
        json!({"role": "user", "created": 1_650_000_000, "content": said("Weather?")}),
        json!({"role": "assistant", "created": 1_650_000_010, "content": [call("a")]}),
        json!({"role": "user", "created": 1_650_000_020, "content": [plain]}),
        json!({"role": "assistant", "created": 1_650_000_030, "content": said("Sunny.")}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = folder.file("20220415_1.jsonl", format!("{text}{{\"role\":\"user\",\"crea"));
    let session = session(&path, &ReadOptions::default());
    assert_eq!(shown(&session), "user: L2 text | assistant: L3 call | tool: L4 result | assistant: L5 text");
    assert_eq!((session.id.as_str(), session.title.as_deref()), ("20220415_1", Some("Weather")));
    assert_eq!(session.started, Some(Timestamp(1_650_000_000_000)));
    assert_eq!(session.warnings, ["skipped the last line (6), which is incomplete"]);
    assert_eq!(session.requests[0].usage.input, Some(Tokens(40)));
    assert_eq!(body(&session)["messages"][2]["content"], "sunny");
}

fn a_request_in_messages_form_puts_results_into_the_users_turn() {
    let list = rows(&[
        ("user", said("Look."), 1, Value::Null),
        ("assistant", json!([call("a"), call("b")]), 2, Value::Null),
        ("user", json!([result("a", json!([])), result("b", json!([]))]), 3, Value::Null),
        ("user", said("And?"), 4, Value::Null),
    ]);
    let asked = ReadOptions {
        api_format: Some(ApiFormat::Messages),
        model: Some("claude-sonnet-4-5".to_owned()),
        ..ReadOptions::default()
    };
    let session = of(&list, &asked);
    let sent = "user: row 1 text | assistant: row 2 call, row 2 call | user: row 3 result, row 3 result, row 4 text";
    assert_eq!(shown(&session), sent);
    assert_eq!(body(&session)["messages"][2]["content"][0]["content"], "(empty result)");
}

fn every_file_is_read() {
    for (name, turns, compactions) in
        [("goose_native-a.db", 12, 1), ("goose_import-a.db", 27, 0), ("goose_legacy.jsonl", 4, 0)]
    {
        let session = session(&support::real().join(name), &ReadOptions::default());
        body(&session);
        assert_eq!((session.messages.len(), session.compactions), (turns, compactions), "{name}");
        assert!(session.unknown_records.is_empty() && session.warnings.is_empty(), "{name}");
        body(&self::session(&support::real().join(name), &whole()));
    }
}

/// The order is of the last request; the reply to it is the last row.
fn the_order_agrees() {
    let session = session(&support::real().join("goose_native-a.db"), &ReadOptions::default());
    let ours: Vec<Value> =
        session.messages.iter().map(|turn| json!([support::role(turn), support::pieces(&session, turn)])).collect();
    let order = std::fs::read(support::real().join("orders/goose_native-a.order.json")).unwrap();
    let order: Value = serde_json::from_slice(&order).unwrap();
    let theirs = &order["messages"].as_array().unwrap()[1..];
    assert_eq!(ours[..ours.len() - 1], *theirs);
    assert_eq!(ours[ours.len() - 1], json!(["assistant", ["row 46 text"]]));
}

/// The model of this file was a script, which reported a fourth of the body's bytes. So its growth says whether the body is the
/// one that Goose sent, but for what Goose put before it.
fn recorded_growth_agrees() {
    let path = support::real().join("goose_native-a.db");
    for asked in [ReadOptions::default(), whole()] {
        let mut session = session(&path, &asked);
        // In the whole, what was sent before the compaction: what was sent after it is not all that stands before.
        if asked.extent == whole().extent {
            session.requests.truncate(7);
        }
        let placed: Vec<(usize, u64)> =
            session.requests.iter().filter_map(|r| Some((r.reply_index?, r.usage.input?.0))).collect();
        let (first, last) = (placed[0], placed[placed.len() - 1]);
        let bytes = |turns: usize| {
            let cut = AgentSession { messages: session.messages[..turns].to_vec(), ..session.clone() };
            longhaul_agents::request_body(&cut).len() as f64
        };
        let (recorded, counted) = ((last.1 - first.1) as f64, (bytes(last.0) - bytes(first.0)) / 4.0);
        say!("goose_native-a {:?}: recorded {recorded}, counted {counted}", asked.extent);
        assert!((counted - recorded).abs() < 2.0, "recorded {recorded}, counted {counted}");
    }
}
