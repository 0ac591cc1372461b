//! What is read of Roo Code's tasks, a rule each.

use longhaul_agents::{Agent, AgentSession, Extent, ReadOptions, UserEnvironment, find_session};
use longhaul_engine::Tokens;
use serde_json::{Value, json};

use crate::support::{self, Folder, shown};

tests! {
    always: [
        a_summary_of_the_user_stands_for_all_before_it,
        a_summary_of_the_assistant_is_sent_where_it_stands,
        hidden_turns_are_hidden_while_their_marker_is_there,
        all_of_a_task_is_without_summaries_and_markers,
        neighbouring_turns_of_the_user_are_one,
        usage_is_the_screens_and_counts_as_the_provider_does,
        the_oldest_name_is_read_too,
        tasks_are_found_by_name,
    ],
    real: [],
}

fn said(role: &str, words: &str) -> Value {
    json!({"role": role, "content": [{"type": "text", "text": words}], "ts": 1_758_000_000_000_i64})
}

fn with(mut message: Value, fields: Value) -> Value {
    message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    message
}

const TASK: &str = "rooveterinaryinc.roo-cline/tasks/e7-3a";

fn read(history: &[Value], extent: Extent) -> AgentSession {
    let folder = Folder::new();
    let path = folder.file(&format!("{TASK}/api_conversation_history.json"), Value::from(history).to_string());
    support::read(path.parent().unwrap(), &ReadOptions { extent, ..ReadOptions::default() }).unwrap()
}

fn condensed() -> Vec<Value> {
    vec![
        with(said("user", "sow"), json!({"condenseParent": "s1"})),
        with(said("assistant", "sown"), json!({"condenseParent": "s1"})),
        with(said("user", "so far: sown"), json!({"isSummary": true, "condenseId": "s1"})),
        said("assistant", "going on"),
        said("user", "water"),
    ]
}

fn a_summary_of_the_user_stands_for_all_before_it() {
    let session = read(&condensed(), Extent::NextRequest);
    assert_eq!(shown(&session), "user: 2 text | assistant: 3 text | user: 4 text");
    assert_eq!((session.agent, session.id.as_str(), session.compactions), (Agent::Roo, "e7-3a", 1));
}

fn a_summary_of_the_assistant_is_sent_where_it_stands() {
    let gone =
        [said("user", "sow"), with(said("assistant", "so far"), json!({"isSummary": true})), said("user", "water")];
    assert_eq!(shown(&read(&gone, Extent::NextRequest)), "user: 0 text | assistant: 1 text | user: 2 text");
    let tagged = [
        said("user", "sow"),
        with(said("assistant", "sown"), json!({"condenseParent": "s1"})),
        with(said("user", "rake"), json!({"condenseParent": "s1"})),
        with(said("assistant", "so far"), json!({"isSummary": true, "condenseId": "s1"})),
        said("user", "water"),
    ];
    assert_eq!(shown(&read(&tagged, Extent::NextRequest)), "user: 0 text | assistant: 3 text | user: 4 text");
}

fn hidden_turns_are_hidden_while_their_marker_is_there() {
    let marker =
        with(said("user", "earlier turns are hidden"), json!({"isTruncationMarker": true, "truncationId": "t1"}));
    let mut history = vec![
        said("user", "sow"),
        with(said("assistant", "sown"), json!({"truncationParent": "t1"})),
        with(said("user", "rake"), json!({"truncationParent": "t1"})),
        marker,
        said("assistant", "going on"),
    ];
    assert_eq!(shown(&read(&history, Extent::NextRequest)), "user: 0 text, 3 text | assistant: 4 text");
    history.remove(3);
    assert_eq!(
        shown(&read(&history, Extent::NextRequest)),
        "user: 0 text | assistant: 1 text | user: 2 text | assistant: 3 text"
    );
}

fn all_of_a_task_is_without_summaries_and_markers() {
    let session = read(&condensed(), Extent::FullHistory);
    assert_eq!(shown(&session), "user: 0 text | assistant: 1 text | assistant: 3 text | user: 4 text");
}

fn neighbouring_turns_of_the_user_are_one() {
    let session =
        read(&[said("user", "sow"), said("user", "and water"), said("assistant", "done")], Extent::NextRequest);
    assert_eq!(shown(&session), "user: 0 text, 1 text | assistant: 2 text");
}

fn usage_is_the_screens_and_counts_as_the_provider_does() {
    let details = "<environment_details>\n<model>gpt-5</model>\n# Current Workspace Directory (d:/garden) Files\n</environment_details>";
    let mut history =
        vec![said("user", "sow"), said("assistant", "sown"), said("user", "rake"), said("assistant", "raked")];
    history[2]["content"] = json!([{"type": "text", "text": "rake"}, {"type": "text", "text": details}]);
    history[1]["ts"] = 1_758_000_002_000_i64.into();
    history[3]["ts"] = 1_758_000_009_000_i64.into();
    let took = |ts: i64, protocol: &str| {
        let text = json!({"tokensIn": 100, "tokensOut": 9, "cacheReads": 60, "cacheWrites": 0, "cost": 0.25, "apiProtocol": protocol});
        json!({"ts": ts, "type": "say", "say": "api_req_started", "text": text.to_string()})
    };
    let condense = json!({"ts": 1, "type": "say", "say": "condense_context", "contextCondense": {"summary": "x"}});
    let screen = json!([took(1_758_000_001_000, "openai"), condense, took(1_758_000_008_000, "anthropic")]);
    // Nothing in the path says whose it is: what is on the screen does.
    let folder = Folder::new();
    folder.file("task/ui_messages.json", screen.to_string());
    let path = folder.file("task/api_conversation_history.json", Value::from(history).to_string());
    let session = support::read(&path, &ReadOptions::default()).unwrap();
    assert_eq!((session.agent, session.compactions), (Agent::Roo, 1));
    assert_eq!((session.model.as_deref(), session.project.as_deref()), (Some("gpt-5"), Some("d:/garden")));
    let reported: Vec<_> = session.requests.iter().map(|r| (r.usage.input, r.reply_index, r.dollars)).collect();
    assert_eq!(reported, [(Some(Tokens(100)), Some(1), Some(0.25)), (Some(Tokens(160)), Some(3), Some(0.25))]);
}

fn the_oldest_name_is_read_too() {
    let folder = Folder::new();
    let history = json!([{"role": "user", "content": "sow"}, {"role": "assistant", "content": "sown"}]);
    let path = folder.file(&format!("{TASK}/claude_messages.json"), history.to_string());
    let session = support::read(&path, &ReadOptions::default()).unwrap();
    assert_eq!(shown(&session), "user: 0 text | assistant: 1 text");
}

fn tasks_are_found_by_name() {
    let folder = Folder::new();
    let path = folder.file(
        &format!(".config/VSCodium/User/globalStorage/{TASK}/api_conversation_history.json"),
        Value::from(condensed()).to_string(),
    );
    let machine = UserEnvironment { home: folder.0.clone(), ..UserEnvironment::default() };
    let place = find_session(&machine, "roo:latest").unwrap();
    assert_eq!((place.path.as_path(), place.id.as_deref()), (path.parent().unwrap(), Some("e7-3a")));
}
