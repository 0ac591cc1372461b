//! opencode: the same session in three places, which messages are sent, and what parts become.

use std::path::Path;

use longhaul_agents::{Agent, AgentSession, ReadOptions, Timestamp};
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Value, json};

use crate::databases::{body, found, machine, made, named, session, whole};
use crate::support::{self, Folder, shown};

tests! {
    always: [
        the_three_places_of_a_session_say_the_same,
        messages_are_in_order_of_time_and_parts_of_their_ids,
        a_compaction_leaves_the_question_the_summary_the_tail_and_what_follows,
        a_compaction_that_was_not_finished_hides_nothing,
        what_was_taken_back_is_left_out,
        a_part_of_a_message_that_was_taken_back_is_left_out,
        a_reply_with_an_error_is_left_out_unless_it_was_stopped,
        parts_become_what_opencode_sends,
        calls_without_a_result_are_sent_as_failed,
        a_cleared_output_is_one_line_and_whole_in_the_whole,
        steps_of_a_reply_are_messages,
        thoughts_go_with_their_signature_to_the_same_model_only,
        pictures_of_results_follow_them_in_chat_and_stay_in_messages,
        anthropic_is_spoken_to_in_messages,
        usage_counts_the_cache_as_part_of_the_prompt,
        subagents_are_not_listed_but_can_be_named,
        homes_are_found_and_what_a_database_took_over_is_listed_once,
        unknown_parts_are_counted,
        a_damaged_export_is_one_clear_line,
    ],
    real: [every_file_is_read, the_order_agrees],
}

fn user(id: &str, at: i64, parts: Value) -> Value {
    let model = json!({"providerID": "openai", "modelID": "gpt-5"});
    json!({"info": {"id": id, "role": "user", "time": {"created": at}, "model": model}, "parts": parts})
}

fn reply(id: &str, at: i64, parts: Value) -> Value {
    let mut message = json!({
        "info": {
            "id": id, "role": "assistant", "time": {"created": at, "completed": at + 1},
            "providerID": "openai", "modelID": "gpt-5", "path": {"cwd": "/garden"}
        }
    });
    message["parts"] = parts;
    message
}

fn text(id: &str, said: &str) -> Value {
    json!({"id": id, "type": "text", "text": said})
}

fn tool(id: &str, state: Value) -> Value {
    json!({"id": id, "type": "tool", "callID": format!("call.{id}"), "tool": "bash", "state": state})
}

fn exported(info: Value, messages: &[Value]) -> Value {
    let mut whole =
        json!({"id": "ses_1", "title": "Beans", "directory": "/garden", "time": {"created": 1, "updated": 99}});
    whole.as_object_mut().unwrap().extend(info.as_object().unwrap().clone());
    json!({"info": whole, "messages": messages})
}

fn of(export: &Value, asked: &ReadOptions) -> AgentSession {
    let folder = Folder::new();
    session(&folder.file("export.json", export.to_string()), asked)
}

fn next(messages: &[Value]) -> AgentSession {
    of(&exported(json!({}), messages), &ReadOptions::default())
}

/// An export as rows of the database.
fn statements(export: &Value) -> String {
    let quoted = |value: &Value| value.to_string().replace('\'', "''");
    let info = &export["info"];
    let parent = info["parentID"].as_str().map_or("NULL".to_owned(), |id| format!("'{id}'"));
    let id = info["id"].as_str().unwrap();
    let mut all = format!(
        "INSERT INTO session VALUES ('{id}', {parent}, '{}', '{}', '{}', {}, {});",
        info["directory"].as_str().unwrap(),
        info["title"].as_str().unwrap(),
        quoted(&info["revert"]),
        info["time"]["created"],
        info["time"]["updated"],
    );
    for message in export["messages"].as_array().unwrap() {
        let message_id = message["info"]["id"].as_str().unwrap();
        let created = &message["info"]["time"]["created"];
        all.extend([format!(
            "INSERT INTO message VALUES ('{message_id}', '{id}', {created}, '{}');",
            quoted(&message["info"])
        )]);
        for part in message["parts"].as_array().unwrap() {
            let part_id = part["id"].as_str().unwrap();
            all.extend([format!("INSERT INTO part VALUES ('{part_id}', '{message_id}', '{id}', '{}');", quoted(part))]);
        }
    }
    all
}

const TABLES: &str = "
    CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, title TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
    CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
    CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);";

/// An export as a tree of files.
fn tree(folder: &Folder, root: &str, export: &Value) {
    let id = export["info"]["id"].as_str().unwrap();
    folder.file(&format!("{root}/session/project/{id}.json"), export["info"].to_string());
    for message in export["messages"].as_array().unwrap() {
        let message_id = message["info"]["id"].as_str().unwrap();
        folder.file(&format!("{root}/message/{id}/{message_id}.json"), message["info"].to_string());
        for part in message["parts"].as_array().unwrap() {
            let part_id = part["id"].as_str().unwrap();
            folder.file(&format!("{root}/part/{message_id}/{part_id}.json"), part.to_string());
        }
    }
}

fn the_three_places_of_a_session_say_the_same() {
    let done = json!({"status": "completed", "input": {"command": "ls"}, "output": "beds.md"});
    let mut answer = reply("m2", 20, json!([text("p2", "I look."), tool("p3", done)]));
    answer["info"]["tokens"] = json!({"input": 10, "output": 3, "cache": {"read": 5, "write": 0}});
    let export = exported(json!({}), &[user("m1", 10, json!([text("p1", "Look.")])), answer]);
    let folder = Folder::new();
    let database = made(&folder, "opencode.db", &format!("{TABLES} {}", statements(&export)));
    tree(&folder, "storage", &export);
    let file = folder.file("export.json", export.to_string());
    for path in [database, folder.0.join("storage"), folder.0.join("storage/session/project/ses_1.json"), file] {
        let session = session(&path, &ReadOptions::default());
        assert_eq!(
            shown(&session),
            "user: p1 text | assistant: p2 text, p3 call | tool: p3 result",
            "{}",
            path.display()
        );
        assert_eq!((session.id.as_str(), session.title.as_deref()), ("ses_1", Some("Beans")));
        assert_eq!((session.project.as_deref(), session.model.as_deref()), (Some("/garden"), Some("gpt-5")));
        assert_eq!((session.started, session.updated), (Some(Timestamp(1)), Some(Timestamp(99))));
        assert_eq!(session.requests[0].reply_index, Some(1));
        assert_eq!(session.requests[0].time, Some(Timestamp(21)));
        body(&session);
    }
}

fn messages_are_in_order_of_time_and_parts_of_their_ids() {
    let session = next(&[
        reply("a", 20, json!([text("p4", "4"), text("p3", "3")])),
        user("z", 10, json!([text("p2", "2"), text("p1", "1")])),
    ]);
    assert_eq!(shown(&session), "user: p1 text, p2 text | assistant: p3 text, p4 text");
}

fn compacted(finish: Value) -> Vec<Value> {
    let mut summary = reply("m6", 60, json!([text("p6", "Beans are planted.")]));
    summary["info"]["summary"] = json!(true);
    summary["info"]["parentID"] = json!("m5");
    summary["info"]["finish"] = finish;
    vec![
        user("m1", 10, json!([text("p1", "Plant beans.")])),
        reply("m2", 20, json!([text("p2", "Planted.")])),
        user("m3", 30, json!([text("p3", "And peas.")])),
        reply("m4", 40, json!([text("p4", "Peas, too.")])),
        user("m5", 50, json!([{"id": "p5", "type": "compaction", "auto": true}])),
        summary,
        user("m7", 70, json!([text("p7", "Water them.")])),
    ]
}

fn a_compaction_leaves_the_question_the_summary_the_tail_and_what_follows() {
    let mut messages = compacted(json!("stop"));
    let without = next(&messages);
    assert_eq!(shown(&without), "user: p5 text | assistant: p6 text | user: p7 text");
    assert_eq!(body(&without)["messages"][0]["content"], "What did we do so far?");
    assert_eq!(without.compactions, 1);
    messages[4]["parts"][0]["tail_start_id"] = json!("m3");
    let with = next(&messages);
    assert_eq!(shown(&with), "user: p5 text | assistant: p6 text | user: p3 text | assistant: p4 text | user: p7 text");
    let whole = of(&exported(json!({}), &messages), &whole());
    assert_eq!(
        shown(&whole),
        "user: p1 text | assistant: p2 text | user: p3 text | assistant: p4 text | user: p7 text"
    );
    assert_eq!(whole.compactions, 1);
}

fn a_compaction_that_was_not_finished_hides_nothing() {
    let session = next(&compacted(Value::Null)[..5]);
    assert_eq!(
        shown(&session),
        "user: p1 text | assistant: p2 text | user: p3 text | assistant: p4 text | user: p5 text"
    );
    assert_eq!(session.compactions, 0);
}

fn what_was_taken_back_is_left_out() {
    let export = exported(json!({"revert": {"messageID": "m3"}}), &compacted(json!("stop"))[..4]);
    assert_eq!(shown(&of(&export, &ReadOptions::default())), "user: p1 text | assistant: p2 text");
    let folder = Folder::new();
    let path = made(&folder, "opencode.db", &format!("{TABLES} {}", statements(&export)));
    assert_eq!(shown(&session(&path, &whole())), "user: p1 text | assistant: p2 text");
}

fn a_part_of_a_message_that_was_taken_back_is_left_out() {
    let messages = [
        user("m1", 10, json!([text("p1", "Plant beans.")])),
        reply("m2", 20, json!([text("p2", "First"), text("p3", "second")])),
        user("m3", 30, json!([text("p4", "Go on.")])),
    ];
    let export = exported(json!({"revert": {"messageID": "m2", "partID": "p3"}}), &messages);
    assert_eq!(shown(&of(&export, &ReadOptions::default())), "user: p1 text | assistant: p2 text");
}

fn a_reply_with_an_error_is_left_out_unless_it_was_stopped() {
    let failed = |name: &str, parts: Value| {
        let mut message = reply("m2", 20, parts);
        message["info"]["error"] = json!({"name": name, "data": {}});
        shown(&next(&[user("m1", 10, json!([text("p1", "Go.")])), message]))
    };
    let said = json!([text("p2", "I went")]);
    assert_eq!(failed("APIError", said.clone()), "user: p1 text");
    assert_eq!(failed("MessageAbortedError", said), "user: p1 text | assistant: p2 text");
    let thought = json!([{"id": "p2", "type": "reasoning", "text": "Hm."}]);
    assert_eq!(failed("MessageAbortedError", thought), "user: p1 text");
}

fn parts_become_what_opencode_sends() {
    let session = next(&[user(
        "m1",
        10,
        json!([
            text("p1", "Look at this."),
            {"id": "p2", "type": "text", "text": "for the screen", "ignored": true},
            {"id": "p3", "type": "text", "text": "<file>beds</file>", "synthetic": true},
            {"id": "p4", "type": "file", "mime": "text/plain", "url": "file:///beds.md"},
            {"id": "p5", "type": "file", "mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="},
            {"id": "p6", "type": "subtask", "prompt": "dig"},
            {"id": "p7", "type": "agent", "name": "explore"},
            {"id": "p8", "type": "file", "mime": "application/pdf", "filename": "plan.pdf", "url": "data:application/pdf;base64,JVBERg=="}
        ]),
    )]);
    assert_eq!(shown(&session), "user: p1 text, p3 text, p5 image, p6 text, p8 file");
    let body = body(&session);
    assert_eq!(body["messages"][0]["content"][3]["text"], "The following tool was executed by the user");
    assert!(session.unknown_records.is_empty());
}

fn calls_without_a_result_are_sent_as_failed() {
    let states = json!([
        tool("p2", json!({"status": "running", "input": {"command": "sleep 9"}})),
        tool("p3", json!({"status": "pending", "input": {}})),
        tool("p4", json!({"status": "error", "input": {}, "error": "no such bed"})),
        tool(
            "p5",
            json!({"status": "error", "input": {}, "error": "x", "metadata": {"interrupted": true, "output": "half"}})
        )
    ]);
    let session = next(&[user("m1", 10, json!([text("p1", "Go.")])), reply("m2", 20, states)]);
    let body = body(&session);
    let said: Vec<&str> = (2..6).map(|at| body["messages"][at]["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["[Tool execution was interrupted]", "[Tool execution was interrupted]", "no such bed", "half"]);
}

fn a_cleared_output_is_one_line_and_whole_in_the_whole() {
    let state = json!({"status": "completed", "input": {}, "output": "a long list", "time": {"compacted": 5}});
    let export =
        exported(json!({}), &[user("m1", 10, json!([text("p1", "Go.")])), reply("m2", 20, json!([tool("p2", state)]))]);
    let output = |asked: &ReadOptions| body(&of(&export, asked))["messages"][2]["content"].clone();
    assert_eq!(output(&ReadOptions::default()), "[Old tool result content cleared]");
    assert_eq!(output(&whole()), "a long list");
}

fn steps_of_a_reply_are_messages() {
    let done = json!({"status": "completed", "input": {}, "output": "ok"});
    let finish = |id: &str, input: u64| json!({"id": id, "type": "step-finish", "tokens": {"input": input, "output": 1, "cache": {"read": 0, "write": 0}}, "cost": 0.5});
    let parts = json!([
        {"id": "p2", "type": "step-start"}, text("p3", "One."), tool("p4", done), finish("p5", 10),
        {"id": "p6", "type": "step-start"}, text("p7", "Two."), finish("p8", 20),
        {"id": "p9", "type": "patch"}
    ]);
    let session = next(&[user("m1", 10, json!([text("p1", "Go.")])), reply("m2", 20, parts)]);
    assert_eq!(shown(&session), "user: p1 text | assistant: p3 text, p4 call | tool: p4 result | assistant: p7 text");
    let told: Vec<_> = session.requests.iter().map(|r| (r.usage.input, r.reply_index, r.dollars)).collect();
    assert_eq!(told, [(Some(Tokens(10)), Some(1), Some(0.5)), (Some(Tokens(20)), Some(3), Some(0.5))]);
}

fn thinking(id: &str, metadata: Value) -> Value {
    json!({"id": id, "type": "reasoning", "text": "Hm.", "metadata": metadata})
}

fn claude(parts: Value) -> Vec<Value> {
    let mut answer = reply("m2", 20, parts);
    answer["info"]["providerID"] = json!("anthropic");
    answer["info"]["modelID"] = json!("claude-sonnet-4-5");
    vec![user("m1", 10, json!([text("p1", "Go.")])), answer]
}

fn thoughts_go_with_their_signature_to_the_same_model_only() {
    let messages = claude(json!([
        thinking("p2", json!({"anthropic": {"signature": "c2ln"}})),
        thinking("p3", json!({})),
        {"id": "p4", "type": "reasoning", "text": "", "metadata": {"anthropic": {"redactedData": "eA=="}}},
        text("p5", "Gone.")
    ]));
    let export = exported(json!({}), &messages);
    let same = of(&export, &ReadOptions::default());
    assert_eq!(shown(&same), "user: p1 text | assistant: p2 thinking, p4 redacted_thinking, p5 text");
    for model in ["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"] {
        let asked = ReadOptions { model: Some(model.to_owned()), ..ReadOptions::default() };
        assert_eq!(shown(&of(&export, &asked)), shown(&same), "{model}");
    }
    let asked = ReadOptions { model: Some("claude-opus-4-8".to_owned()), ..ReadOptions::default() };
    let other = of(&export, &asked);
    assert_eq!(shown(&other), "user: p1 text | assistant: p2 text, p3 text, p5 text");
    assert_eq!(other.model.as_deref(), Some("claude-opus-4-8"));
}

fn pictures_of_results_follow_them_in_chat_and_stay_in_messages() {
    let shot = json!([{"mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="}]);
    let done = json!({"status": "completed", "input": {}, "output": "Taken.", "attachments": shot});
    let messages = [user("m1", 10, json!([text("p1", "Show.")])), reply("m2", 20, json!([tool("p2", done.clone())]))];
    let chat = next(&messages);
    assert_eq!(shown(&chat), "user: p1 text | assistant: p2 call | tool: p2 result | user: p2 image");
    assert_eq!(body(&chat)["messages"][3]["content"][0]["text"], "Attached image(s) from tool result:");
    let messages = next(&claude(json!([tool("p2", done)])));
    assert_eq!(shown(&messages), "user: p1 text | assistant: p2 call | user: p2 result");
    assert_eq!(body(&messages)["messages"][2]["content"][0]["content"][1]["type"], "image");
}

fn anthropic_is_spoken_to_in_messages() {
    assert_eq!(next(&claude(json!([text("p2", "Hi.")]))).api_format, ApiFormat::Messages);
    assert_eq!(next(&[user("m1", 10, json!([text("p1", "Hi.")]))]).api_format, ApiFormat::Chat);
    let done = json!({"status": "completed", "input": {}, "output": "ok"});
    let session = next(&claude(json!([tool("p2", done)])));
    assert_eq!(body(&session)["messages"][1]["content"][0]["id"], "call_p2");
}

fn usage_counts_the_cache_as_part_of_the_prompt() {
    let mut answer = reply("m2", 20, json!([text("p2", "Hi.")]));
    answer["info"]["tokens"] =
        json!({"total": 160, "input": 10, "output": 20, "reasoning": 30, "cache": {"read": 70, "write": 30}});
    answer["info"]["cost"] = json!(0);
    let mut silent = reply("m3", 30, json!([]));
    silent["info"]["tokens"] = json!({"input": 0, "output": 0, "cache": {"read": 0, "write": 0}});
    let session = next(&[user("m1", 10, json!([text("p1", "Hi.")])), answer, silent]);
    let [request] = session.requests.as_slice() else { panic!("{:?}", session.requests) };
    let usage = request.usage;
    assert_eq!((usage.input, usage.read, usage.written), (Some(Tokens(110)), Some(Tokens(70)), Some(Tokens(30))));
    assert_eq!((usage.output, request.dollars), (Some(Tokens(50)), None));
}

fn subagents_are_not_listed_but_can_be_named() {
    let folder = Folder::new();
    let main = exported(json!({}), &[user("m1", 10, json!([text("p1", "Dig.")]))]);
    let child = exported(
        json!({"id": "ses_2", "parentID": "ses_1", "time": {"created": 2, "updated": 200}}),
        &[user("m2", 10, json!([text("p2", "Dig here.")]))],
    );
    let path = made(
        &folder,
        ".local/share/opencode/opencode.db",
        &format!("{TABLES} {} {}", statements(&main), statements(&child)),
    );
    assert_eq!(found(&machine(&folder.0, &[]), Agent::Opencode), ["ses_1"]);
    assert_eq!(session(&path, &ReadOptions::default()).id, "ses_1");
    assert_eq!(shown(&named(Agent::Opencode, &path, "ses_2")), "user: p2 text");
}

fn homes_are_found_and_what_a_database_took_over_is_listed_once() {
    let folder = Folder::new();
    let session = |id: &str, updated: i64| {
        exported(
            json!({"id": id, "time": {"created": 1, "updated": updated}}),
            &[user("m1", 10, json!([text("p1", "Dig.")]))],
        )
    };
    let (old, both, new) = (session("ses_old", 10), session("ses_both", 20), session("ses_new", 30));
    for home in [".local/share/opencode", "xdg/opencode"] {
        tree(&folder, &format!("{home}/storage"), &old);
        tree(&folder, &format!("{home}/storage"), &both);
        made(&folder, &format!("{home}/opencode.db"), &format!("{TABLES} {}", statements(&both)));
        made(&folder, &format!("{home}/opencode-dev.db"), &format!("{TABLES} {}", statements(&new)));
    }
    let all = ["ses_new", "ses_both", "ses_old"];
    assert_eq!(found(&machine(&folder.0, &[]), Agent::Opencode), all);
    let xdg = folder.0.join("xdg");
    assert_eq!(found(&machine(Path::new("/nowhere"), &[("XDG_DATA_HOME", &xdg)]), Agent::Opencode), all);
    let elsewhere = made(&folder, "mine.db", &format!("{TABLES} {}", statements(&new)));
    let named = machine(Path::new("/nowhere"), &[("OPENCODE_DB", &elsewhere)]);
    assert_eq!(found(&named, Agent::Opencode), ["ses_new"]);
}

fn unknown_parts_are_counted() {
    let session = next(&[
        user("m1", 10, json!([text("p1", "Hi."), {"id": "p2", "type": "hologram"}])),
        reply("m2", 20, json!([text("p3", "Hi."), {"id": "p4", "type": "hologram"}])),
        json!({"info": {"id": "m3", "role": "gardener", "time": {"created": 30}}, "parts": []}),
    ]);
    assert_eq!(shown(&session), "user: p1 text | assistant: p3 text");
    let unknown: Vec<(&str, usize)> =
        session.unknown_records.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(unknown, [("part hologram", 2), ("role gardener", 1)]);
}

fn a_damaged_export_is_one_clear_line() {
    let folder = Folder::new();
    let text = exported(json!({}), &[user("m1", 10, json!([text("p1", "Hi.")]))]).to_string();
    let path = folder.file("export.json", &text[..text.len() - 20]);
    let unread = support::read(&path, &ReadOptions::default()).err().unwrap().to_string();
    assert!(unread.contains("is damaged") && !unread.contains('\n'), "{unread}");
}

const FILES: [(&str, usize, usize, usize); 4] = [
    ("opencode_bridge-compaction.db.gz", 55, 1, 69),
    ("opencode_bridge-models.json", 28, 0, 10),
    ("opencode_bridge-child.json", 18, 0, 3),
    ("opencode_storage-v2", 2, 0, 1),
];

fn every_file_is_read() {
    for (name, turns, compactions, requests) in FILES {
        let path = support::real().join(name);
        let session = session(&path, &ReadOptions::default());
        body(&session);
        let found = (session.messages.len(), session.compactions, session.requests.len());
        assert_eq!(found, (turns, compactions, requests), "{name}");
        assert!(
            session.unknown_records.is_empty() && session.warnings.is_empty(),
            "{name}: {:?}",
            session.unknown_records
        );
        body(&self::session(&path, &whole()));
    }
}

/// Asked of another model over the Anthropic protocol; the last message is the prompt that came with it.
fn the_order_agrees() {
    let asked = ReadOptions {
        model: Some("another".to_owned()),
        api_format: Some(ApiFormat::Messages),
        ..ReadOptions::default()
    };
    let session = session(&support::real().join("opencode_bridge-compaction.db.gz"), &asked);
    let ours: Vec<(String, Vec<String>)> =
        session.messages.iter().map(|turn| (support::role(turn).to_owned(), support::pieces(&session, turn))).collect();
    let order = std::fs::read(support::real().join("orders/opencode_bridge-compaction.order.json")).unwrap();
    let order: Value = serde_json::from_slice(&order).unwrap();
    let block = |block: &Value| {
        let (from, kind) = block.as_str().unwrap().rsplit_once(' ').unwrap();
        format!("{from} {}", support::plain(kind))
    };
    let list = order["messages"].as_array().unwrap();
    let theirs: Vec<(String, Vec<String>)> = list[..list.len() - 1]
        .iter()
        .map(|message| {
            let blocks = message[1].as_array().unwrap().iter().map(block).collect();
            (message[0].as_str().unwrap().to_owned(), blocks)
        })
        .collect();
    assert_eq!(ours, theirs);
}
