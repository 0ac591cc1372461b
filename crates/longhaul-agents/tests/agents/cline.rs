//! What is read of Cline's sessions, a rule each: those of 2026 first, then tasks of the classic extension.

use longhaul_agents::{
    Agent, AgentSession, Extent, ReadOptions, Timestamp, UserEnvironment, find_session, list_sessions, request_body,
};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

use crate::support::{self, Folder, shown};

tests! {
    always: [
        a_session_is_read_from_its_files,
        a_compaction_stands_for_the_first_turns,
        a_compaction_of_other_turns_is_not_used,
        a_compaction_that_counts_nothing_reaches_to_what_it_kept,
        results_and_files_are_written_as_the_dialect_takes_them,
        a_call_without_a_result_gets_a_stub_and_a_result_without_a_call_goes,
        sessions_are_found_where_variables_say,
        a_classic_task_is_its_history_with_usage_from_the_screen,
        turns_of_a_deleted_range_are_not_sent,
        a_damaged_history_is_one_clear_line,
        tasks_are_found_in_the_editors_folders,
    ],
    real: [],
}

fn said(id: &str, role: &str, content: Value) -> Value {
    json!({"id": id, "role": role, "content": content, "ts": 1_770_000_000_000_i64})
}

fn reply(id: &str, words: &str) -> Value {
    let mut reply = said(id, "assistant", json!([{"type": "text", "text": words}]));
    reply["modelInfo"] = json!({"id": "anthropic/claude-opus-4.5", "provider": "cline"});
    reply["metrics"] =
        json!({"inputTokens": 500, "outputTokens": 7, "cacheReadTokens": 400, "cacheWriteTokens": 50, "cost": 0.5});
    reply
}

fn turns() -> Vec<Value> {
    vec![
        said("u1", "user", json!("sow")),
        reply("a1", "Sown."),
        said("u2", "user", json!("water")),
        reply("a2", "Watered."),
    ]
}

fn write(folder: &Folder, messages: &[Value], compaction: Option<Value>) {
    let about = json!({
        "version": 1, "session_id": "77_ab", "cwd": "/home/ada/garden", "model": "other", "messages_path": "x",
        "started_at": "2026-02-02T02:00:00Z", "metadata": {"title": "Spring"},
    });
    let log = json!({"version": 1, "sessionId": "77_ab", "system_prompt": "You are careful.", "messages": messages});
    folder.file("data/77_ab/77_ab.json", about.to_string());
    folder.file("data/77_ab/77_ab.messages.json", log.to_string());
    if let Some(compaction) = compaction {
        folder.file("data/77_ab/77_ab.compaction.json", compaction.to_string());
    }
}

fn read(folder: &Folder, path: &str, extent: Extent) -> AgentSession {
    let asked = ReadOptions { extent, ..ReadOptions::default() };
    support::read(&folder.0.join(path), &asked).unwrap_or_else(|unread| panic!("{unread}"))
}

fn a_session_is_read_from_its_files() {
    let folder = Folder::new();
    write(&folder, &turns(), None);
    for path in ["data/77_ab", "data/77_ab/77_ab.json", "data/77_ab/77_ab.messages.json"] {
        let session = read(&folder, path, Extent::NextRequest);
        assert_eq!(shown(&session), "user: u1 text | assistant: a1 text | user: u2 text | assistant: a2 text");
        assert_eq!((session.id.as_str(), session.title.as_deref()), ("77_ab", Some("Spring")));
        assert_eq!((session.agent, session.api_format), (Agent::Cline, ApiFormat::Messages));
        assert_eq!(session.project.as_deref(), Some("/home/ada/garden"));
        assert_eq!(session.system_prompt.as_deref(), Some("You are careful."));
        assert_eq!(session.model.as_deref(), Some("anthropic/claude-opus-4.5"));
        let last = &session.requests[1];
        assert_eq!((last.usage.input, last.usage.read), (Some(Tokens(500)), Some(Tokens(400))));
        assert_eq!((last.reply_index, last.dollars), (Some(3), Some(0.5)));
    }
}

fn compaction(more: Value) -> Value {
    let kept = json!([said("s", "user", json!("so far: sown")), turns()[1].clone()]);
    let mut compaction = json!({"version": 1, "updated_at": "2026-02-02T03:00:00Z", "messages": kept});
    compaction.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    compaction
}

fn a_compaction_stands_for_the_first_turns() {
    let folder = Folder::new();
    let counted = json!({"source_message_count": 2, "source_last_message_key": "id:a1"});
    write(&folder, &turns(), Some(compaction(counted)));
    let session = read(&folder, "data/77_ab", Extent::NextRequest);
    assert_eq!(shown(&session), "user: s text | assistant: a1 text | user: u2 text | assistant: a2 text");
    assert_eq!((session.compactions, session.requests.len()), (1, 2));
    let whole = read(&folder, "data/77_ab", Extent::FullHistory);
    assert_eq!(shown(&whole), "user: u1 text | assistant: a1 text | user: u2 text | assistant: a2 text");
}

fn a_compaction_of_other_turns_is_not_used() {
    for other in [
        json!({"source_message_count": 9, "source_prefix_hash": "sha256:00"}),
        json!({"source_message_count": 2, "source_last_message_key": "id:somebody"}),
    ] {
        let folder = Folder::new();
        write(&folder, &turns(), Some(compaction(other)));
        let session = read(&folder, "data/77_ab", Extent::NextRequest);
        assert_eq!((session.messages.len(), session.warnings.len()), (4, 1));
        assert!(shown(&session).starts_with("user: u1 text"));
    }
}

fn a_compaction_that_counts_nothing_reaches_to_what_it_kept() {
    let folder = Folder::new();
    write(&folder, &turns(), Some(compaction(json!({}))));
    let session = read(&folder, "data/77_ab", Extent::NextRequest);
    assert_eq!(shown(&session), "user: s text | assistant: a1 text | user: u2 text | assistant: a2 text");
}

fn results_and_files_are_written_as_the_dialect_takes_them() {
    let folder = Folder::new();
    let file = json!({"type": "file", "path": "bed.txt", "content": "beans"});
    let own = json!([{"query": "bed.txt", "result": "beans", "success": true}]);
    let result = json!({"type": "tool_result", "tool_use_id": "c1", "name": "read", "content": own});
    let call = json!({"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "bed.txt"}});
    write(
        &folder,
        &[said("u", "user", json!([file])), said("a", "assistant", json!([call])), said("r", "user", json!([result]))],
        None,
    );
    let body: Value = serde_json::from_str(&request_body(&read(&folder, "data/77_ab", Extent::NextRequest))).unwrap();
    let first = body["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(first.contains("bed.txt") && first.contains("beans"), "{first}");
    let result = &body["messages"][2]["content"][0];
    assert_eq!((result["content"].as_str(), result.get("name")), (Some(own.to_string().as_str()), None));
}

fn a_call_without_a_result_gets_a_stub_and_a_result_without_a_call_goes() {
    let folder = Folder::new();
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "dig", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "dug"});
    let messages = [
        said("u", "user", json!([result("gone"), {"type": "text", "text": "dig"}])),
        said("a", "assistant", json!([call("c1"), call("c2")])),
        said("r", "user", json!([result("c2")])),
        said("b", "assistant", json!([call("c3")])),
    ];
    write(&folder, &messages, None);
    let session = read(&folder, "data/77_ab", Extent::NextRequest);
    assert_eq!(
        shown(&session),
        "user: u text | assistant: a call, a call | user: r result | assistant: b call | user: "
    );
    let body: Value = serde_json::from_str(&request_body(&session)).unwrap();
    let results = |message: usize| body["messages"][message]["content"].as_array().unwrap().len();
    assert_eq!((results(2), results(4)), (2, 1));
}

fn sessions_are_found_where_variables_say() {
    let folder = Folder::new();
    write(&folder, &turns(), None);
    folder.file("data/77_ab/helper.messages.json", json!({"version": 1, "messages": []}).to_string());
    let mut machine = UserEnvironment { home: folder.0.join("nobody"), ..UserEnvironment::default() };
    let data = folder.0.join("data").display().to_string();
    machine.variables.insert("CLINE_SESSION_DATA_DIR".to_owned(), data);
    let found = list_sessions(&machine, Some(Agent::Cline));
    assert_eq!(found.iter().map(|place| place.id.as_deref()).collect::<Vec<_>>(), [Some("77_ab")]);
    let home = folder.file(
        "home/.cline/data/sessions/1_x/1_x.messages.json",
        json!({"version": 1, "messages": turns()}).to_string(),
    );
    let machine = UserEnvironment { home: folder.0.join("home"), ..UserEnvironment::default() };
    assert_eq!(find_session(&machine, "cline:1_").unwrap().path, home.parent().unwrap());
}

fn task(folder: &Folder, history: &Value, rows: Value) {
    let at = "u/saoudrizwan.claude-dev";
    folder.file(&format!("{at}/tasks/42/api_conversation_history.json"), history.to_string());
    folder.file(&format!("{at}/state/taskHistory.json"), rows.to_string());
    let took =
        json!({"request": "…", "tokensIn": 30, "tokensOut": 4, "cacheReads": 200, "cacheWrites": 10, "cost": 0.125});
    let screen = json!([
        {"ts": 1_770_000_000_500_i64, "type": "say", "say": "text", "text": "sow"},
        {"ts": 1_770_000_001_000_i64, "type": "say", "say": "api_req_started", "text": took.to_string(),
         "modelInfo": {"modelId": "claude-sonnet-4-5"}},
    ]);
    folder.file(&format!("{at}/tasks/42/ui_messages.json"), screen.to_string());
}

fn history() -> Value {
    let details =
        "<environment_details>\n# Current Working Directory (/home/ada/yard) Files\na.txt\n</environment_details>";
    let at = |ts: i64, role: &str, words: &str| json!({"role": role, "content": [{"type": "text", "text": words}], "ts": ts});
    json!([
        {"role": "user", "content": [{"type": "text", "text": "sow"}, {"type": "text", "text": details}], "ts": 1_770_000_000_000_i64},
        at(1_770_000_002_000, "assistant", "one"),
        at(1_770_000_003_000, "user", "two"),
        at(1_770_000_004_000, "assistant", "three"),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "x"}, {"type": "text", "text": "four"}]},
        at(1_770_000_006_000, "assistant", "five"),
    ])
}

fn a_classic_task_is_its_history_with_usage_from_the_screen() {
    let folder = Folder::new();
    task(&folder, &history(), json!([{"id": "42", "task": "Sow the beds"}]));
    for path in ["tasks/42", "tasks/42/api_conversation_history.json", "tasks/42/ui_messages.json"] {
        let session = read(&folder, &format!("u/saoudrizwan.claude-dev/{path}"), Extent::NextRequest);
        assert_eq!((session.agent, session.id.as_str(), session.messages.len()), (Agent::Cline, "42", 6));
        assert_eq!(
            (session.project.as_deref(), session.title.as_deref()),
            (Some("/home/ada/yard"), Some("Sow the beds"))
        );
        assert_eq!(session.model.as_deref(), Some("claude-sonnet-4-5"));
        let request = &session.requests[0];
        assert_eq!((request.usage.input, request.usage.written), (Some(Tokens(240)), Some(Tokens(10))));
        assert_eq!(
            (request.reply_index, request.dollars, request.time),
            (Some(1), Some(0.125), Some(Timestamp(1_770_000_002_000)))
        );
    }
}

fn turns_of_a_deleted_range_are_not_sent() {
    let folder = Folder::new();
    task(&folder, &history(), json!([{"id": "7"}, {"id": "42", "conversationHistoryDeletedRange": [2, 3]}]));
    let session = read(&folder, "u/saoudrizwan.claude-dev/tasks/42", Extent::NextRequest);
    assert_eq!(shown(&session), "user: 0 text, 0 text | assistant: 1 text | user: 4 text | assistant: 5 text");
    assert_eq!(session.compactions, 1);
    assert_eq!(read(&folder, "u/saoudrizwan.claude-dev/tasks/42", Extent::FullHistory).messages.len(), 6);
}

fn a_damaged_history_is_one_clear_line() {
    let folder = Folder::new();
    let path = folder.file("u/saoudrizwan.claude-dev/tasks/42/api_conversation_history.json", "[{\"role\":\"us");
    let unread = support::read(&path, &ReadOptions::default()).unwrap_err().to_string();
    assert!(unread.contains("api_conversation_history.json") && unread.lines().count() == 1, "{unread}");
}

fn tasks_are_found_in_the_editors_folders() {
    let places = [
        (".config/Code", None),
        ("Library/Application Support/Cursor", None),
        (".vscode-server/data", None),
        ("roaming/Code", Some("APPDATA")),
    ];
    for (place, variable) in places {
        let folder = Folder::new();
        let path = folder.file(
            &format!("{place}/User/globalStorage/saoudrizwan.claude-dev/tasks/42/api_conversation_history.json"),
            history().to_string(),
        );
        let mut machine = UserEnvironment { home: folder.0.clone(), ..UserEnvironment::default() };
        if let Some(variable) = variable {
            let base = folder.0.join("roaming").display().to_string();
            machine.variables.insert(variable.to_owned(), base);
        }
        assert_eq!(find_session(&machine, "cline:42").unwrap().path, path.parent().unwrap(), "{place}");
    }
}
