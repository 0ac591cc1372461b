//! Which session a history belongs to, what of it is written, and what is given back of it.

use longhaul_engine::ApiFormat;
use longhaul_engine::redact::Rules;
use longhaul_server::store::{
    CommitOptions, CommitOutcome, ExampleContent, HistoryPoint, SessionOrigin, SessionStatus, StoreError,
};
use serde_json::{Value, json};

use super::ground::Ground;
use super::speech::{
    DIALECTS, NOON, Turn, bash, body, compact, keep, long_session, outcome, parsed, record, reply, steps, user,
};

tests! {
    Both: [
        what_is_sent_again_writes_nothing,
        what_grew_writes_only_what_is_new,
        a_shorter_history_is_the_same_session,
        a_history_that_is_written_in_parts_is_one_session_and_one_request,
        an_edited_message_forks_and_what_is_shared_is_stored_once,
        a_fork_takes_over_the_newest_view_of_what_it_shares,
        a_fork_can_undo_and_redo_the_view_that_it_took_over,
        who_goes_on_from_a_compacted_body_is_a_child_of_its_session,
        how_a_body_is_written_does_not_matter,
        no_two_dialects_are_one_session,
        a_body_is_given_back_as_it_was_sent,
        a_body_is_given_back_as_it_was_at_any_moment,
        examples_say_what_is_ours,
        sessions_are_found_by_name_and_by_the_beginning_of_it,
        strange_bodies_are_recorded_or_refused_in_one_line,
        sessions_that_share_only_a_system_prompt_are_strangers,
        a_request_is_given_back_without_what_was_taken_back,
        a_rule_of_the_users_changes_no_decision,
    ],
}

fn talk() -> Vec<Turn> {
    vec![
        user("Fix the parser."),
        bash("cargo test", "1 failed"),
        reply("It is the lexer."),
        user("Then fix the lexer."),
        bash("cargo test", "ok"),
        reply("Done."),
    ]
}

async fn what_is_sent_again_writes_nothing(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let sent = body(api_format, &talk());
        let first = record(&store, &tenant, &sent).await;
        assert_eq!((first.session.origin, first.session.status), (SessionOrigin::New, SessionStatus::Live));
        assert_eq!(first.new_messages, first.session.path_length);
        assert_eq!(first.session.api_format, api_format);
        assert_eq!(first.session.title.as_deref(), Some("Fix the parser."));
        let before = (ground.rows().await, first.session.path_length);
        let again = record(&store, &tenant, &sent).await;
        assert_eq!((again.session.id, again.new_messages), (first.session.id, 0));
        assert_eq!((ground.rows().await, again.session.path_length), before);
    }
    assert_eq!(store.sessions(&tenant, 10).await.unwrap().len(), 3);
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn what_grew_writes_only_what_is_new(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let mut id = None;
        let mut length = 0;
        for turns in 1..=talk().len() {
            let recorded = record(&store, &tenant, &body(api_format, &talk()[..turns])).await;
            assert_eq!(recorded.session.path_length, length + recorded.new_messages, "{api_format:?}");
            assert!((1..=2).contains(&recorded.new_messages), "{api_format:?}");
            assert_eq!(*id.get_or_insert(recorded.session.id), recorded.session.id);
            length = recorded.session.path_length;
        }
        let session = &store.sessions(&tenant, 1).await.unwrap()[0];
        let requests = store.requests(&tenant, session).await.unwrap();
        assert_eq!(requests.len(), talk().len());
        assert!(
            requests
                .windows(2)
                .all(|pair| pair[0].path_length < pair[1].path_length && pair[0].number < pair[1].number)
        );
    }
}

async fn a_history_that_is_written_in_parts_is_one_session_and_one_request(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let turns = steps(0, 1_600, 1);
    let text = body(ApiFormat::Chat, &turns);
    let whole = record(&store, &tenant, &text).await;
    assert!(whole.new_messages > 3_000, "{} messages", whole.new_messages);
    assert_eq!(whole.session.path_length, whole.new_messages);
    assert_eq!(store.requests(&tenant, &whole.session).await.unwrap().len(), 1);
    assert_eq!(store.sessions(&tenant, 9).await.unwrap().len(), 1);
    let given = store.body_at(&tenant, &whole.session, HistoryPoint::Original).await.unwrap();
    assert_eq!(given, text);
    let again = record(&store, &tenant, &text).await;
    assert_eq!((again.session.id, again.new_messages), (whole.session.id, 0));
    assert_eq!(store.check_integrity().await.unwrap(), Vec::<String>::new());
}

async fn a_shorter_history_is_the_same_session(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let whole = record(&store, &tenant, &body(ApiFormat::Chat, &talk())).await;
    let rows = ground.rows().await;
    for turns in 1..talk().len() {
        let back = record(&store, &tenant, &body(ApiFormat::Chat, &talk()[..turns])).await;
        assert_eq!((back.session.id, back.new_messages), (whole.session.id, 0));
    }
    assert_eq!(ground.rows().await, rows);
}

async fn an_edited_message_forks_and_what_is_shared_is_stored_once(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let first = record(&store, &tenant, &body(api_format, &talk())).await;
        let before = ground.number("SELECT count(*) FROM messages").await;
        let mut edited = talk();
        edited[3] = user("Then rewrite the lexer.");
        let fork = record(&store, &tenant, &body(api_format, &edited)).await;
        assert_eq!(fork.session.origin, SessionOrigin::Fork);
        assert_eq!(fork.session.parent, Some(first.session.id));
        assert_eq!(fork.session.key, first.session.key);
        assert_eq!(fork.new_messages, fork.session.path_length - fork.session.first_own_message);
        assert!(fork.new_messages < fork.session.path_length && fork.session.path_length == first.session.path_length);
        let stored = ground.number("SELECT count(*) FROM messages").await - before;
        assert_eq!(stored, fork.new_messages);
        let up = store.lineage(&tenant, &fork.session).await.unwrap();
        assert_eq!(up.ancestors.iter().map(|s| s.id).collect::<Vec<_>>(), [first.session.id]);
        let down = store.lineage(&tenant, &first.session).await.unwrap();
        assert_eq!(down.children.iter().map(|s| s.id).collect::<Vec<_>>(), [fork.session.id]);
        for (session, turns) in [(&first.session, talk()), (&fork.session, edited.clone())] {
            assert_eq!(
                store.body_at(&tenant, session, HistoryPoint::Original).await.unwrap(),
                body(api_format, &turns)
            );
        }
        // A fork of the fork goes back to the first through both.
        edited[5] = reply("Rewritten.");
        let second = record(&store, &tenant, &body(api_format, &edited)).await;
        let up = store.lineage(&tenant, &second.session).await.unwrap();
        let up: Vec<_> = up.ancestors.iter().map(|s| s.id).collect();
        assert_eq!(up, [fork.session.id, first.session.id]);
        assert_eq!(
            store.body_at(&tenant, &second.session, HistoryPoint::Original).await.unwrap(),
            body(api_format, &edited)
        );
    }
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn a_fork_takes_over_the_newest_view_of_what_it_shares(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let (first, one) = compact(&store, &tenant, &body(ApiFormat::Chat, &turns), 2_000).await;
    let parting = turns.len();
    turns.extend(steps(20, 12, 40));
    turns.push(user("And on."));
    let (second, _) = compact(&store, &tenant, &body(ApiFormat::Chat, &turns), 2_000).await;
    assert_eq!(first.id, second.id);
    // Behind the first view, before the second.
    let mut later = turns[..=parting].to_vec();
    later.push(user("Something else now."));
    let fork = record(&store, &tenant, &body(ApiFormat::Chat, &later)).await;
    assert_eq!((fork.session.origin, fork.session.head), (SessionOrigin::Fork, first.head));
    assert_eq!(fork.view.compaction_number, Some(1));
    let now = store.body_at(&tenant, &fork.session, HistoryPoint::Now).await.unwrap();
    let shared = one.body.trim_end_matches("]}");
    assert!(now.starts_with(shared), "what was sent before the fork is sent again, byte for byte");
    // Before the first view.
    let mut earlier = long_session()[..4].to_vec();
    earlier.push(user("Stop."));
    let fork = record(&store, &tenant, &body(ApiFormat::Chat, &earlier)).await;
    assert_eq!(
        (fork.session.origin, fork.session.head, fork.view.compaction_number),
        (SessionOrigin::Fork, None, None)
    );
}

async fn a_fork_can_undo_and_redo_the_view_that_it_took_over(ground: Ground) {
    use longhaul_server::store::HeadMove;
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let sent = body(ApiFormat::Chat, &turns);
    let (first, _) = compact(&store, &tenant, &sent, 2_000).await;
    turns.push(reply("One way."));
    record(&store, &tenant, &body(ApiFormat::Chat, &turns)).await;
    *turns.last_mut().unwrap() = reply("Another way.");
    let fork = record(&store, &tenant, &body(ApiFormat::Chat, &turns)).await.session;
    assert_eq!(fork.head, first.head);
    let undone = store.undo(&tenant, fork.id).await.unwrap();
    assert!(matches!(undone, HeadMove::To(None)), "{undone:?}");
    let redone = store.redo(&tenant, fork.id).await.unwrap();
    assert!(matches!(&redone, HeadMove::To(Some(compaction)) if Some(compaction.id) == first.head), "{redone:?}");
    assert_eq!(
        store.session_by_name(&tenant, &first.name).await.unwrap().head,
        first.head,
        "the parent is not touched"
    );
}

async fn who_goes_on_from_a_compacted_body_is_a_child_of_its_session(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let turns = [long_session(), steps(20, 40, 30), vec![user("And on.")]].concat();
    for api_format in DIALECTS {
        let (parent, outcome) = compact(&store, &tenant, &body(api_format, &turns), 1_500).await;
        assert!(outcome.ledger.checkpoint().is_some(), "{api_format:?}: nothing was folded");
        let mut sent: Value = serde_json::from_str(&outcome.body).unwrap();
        let (list, said) = match api_format {
            ApiFormat::Responses => {
                ("input", json!({"role": "assistant", "content": [{"type": "output_text", "text": "Going on."}]}))
            }
            _ => ("messages", json!({"role": "assistant", "content": "Going on."})),
        };
        sent[list].as_array_mut().unwrap().push(said);
        let child = record(&store, &tenant, &sent.to_string()).await;
        assert_eq!(child.session.origin, SessionOrigin::Continued, "{api_format:?}");
        assert_eq!(child.session.parent, Some(parent.id));
        assert_eq!(child.session.key, parent.key);
        let again = record(&store, &tenant, &sent.to_string()).await;
        assert_eq!((again.session.id, again.new_messages), (child.session.id, 0));
        // What the compaction removed is recalled from there, too.
        for original in &outcome.originals {
            let found = store.recall(&tenant, Some(&child.session), &original.recall_id).await.unwrap();
            assert_eq!(found.text.as_str(), original.text);
        }
        // Of what we wrote the checkpoint is left out; digests that the client sends as results of its own cannot be told.
        let examples = store.examples(&tenant, &child.session, ExampleContent::Original).await.unwrap();
        let start = serde_json::to_string(&outcome.ledger.checkpoint().unwrap()[..60]).unwrap();
        let examples = serde_json::to_string(&examples).unwrap();
        assert!(!examples.contains(start.trim_matches('"')), "{api_format:?}: none of our words");
    }
}

/// The same JSON with blanks around everything and the keys of each object the other way round.
fn rewritten(value: &Value, out: &mut String) {
    match value {
        Value::Array(values) => {
            out.push_str("[ ");
            for (at, value) in values.iter().enumerate() {
                out.push_str(if at > 0 { " ,\n " } else { "" });
                rewritten(value, out);
            }
            out.push_str(" ]");
        }
        Value::Object(members) => {
            out.push_str("{\n");
            for (at, (name, value)) in members.iter().rev().enumerate() {
                out.push_str(if at > 0 { " , " } else { "" });
                out.push_str(&format!("{} : ", Value::from(name.as_str())));
                rewritten(value, out);
            }
            out.push_str(" }");
        }
        other => out.push_str(&other.to_string()),
    }
}

async fn how_a_body_is_written_does_not_matter(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let sent = body(api_format, &talk());
        let first = record(&store, &tenant, &sent).await;
        let mut other = String::new();
        rewritten(&serde_json::from_str(&sent).unwrap(), &mut other);
        let again = record(&store, &tenant, &other).await;
        assert_eq!((again.session.id, again.new_messages), (first.session.id, 0), "{api_format:?}");
        if api_format == ApiFormat::Messages {
            let mut marked: Value = serde_json::from_str(&sent).unwrap();
            marked["messages"][3]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            marked["messages"][0]["content"] =
                json!([{"type": "text", "text": "Fix the parser.", "cache_control": {"type": "ephemeral"}}]);
            let again = record(&store, &tenant, &marked.to_string()).await;
            assert_eq!((again.session.id, again.new_messages), (first.session.id, 0), "cache marks");
        }
    }
}

async fn no_two_dialects_are_one_session(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let turns = [user("Hello there."), reply("Hello.")];
    let mut ids = Vec::new();
    for api_format in DIALECTS {
        ids.push(record(&store, &tenant, &body(api_format, &turns)).await.session.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

async fn a_body_is_given_back_as_it_was_sent(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let compactly = body(api_format, &talk());
        let value: Value = serde_json::from_str(&compactly).unwrap();
        let indented = serde_json::to_string_pretty(&value).unwrap();
        let mut odd = value.clone();
        let list = if api_format == ApiFormat::Responses { "input" } else { "messages" };
        odd["metadata"] = json!({"\u{1}\u{2}": "\u{1}7\u{1}\u{2},\u{2} 日本語 \u{10ffff} \\ \" \u{0}"});
        odd[list][0]["content"] = "\u{1}42\u{1} \u{2} 🦀 \u{7f}".into();
        for (at, sent) in [compactly, indented, odd.to_string()].iter().enumerate() {
            // Each has another first message, or it would be the same session as the one before.
            let sent = sent.replace("Fix the parser.", &format!("Fix parser {at}."));
            let sent = sent.replace("You are careful.", &format!("You are careful {at}."));
            let recorded = record(&store, &tenant, &sent).await;
            assert_eq!(recorded.session.origin, SessionOrigin::New);
            let given = store.body_at(&tenant, &recorded.session, HistoryPoint::Original).await.unwrap();
            assert_eq!(given, sent, "{api_format:?}");
            assert_eq!(store.body_at(&tenant, &recorded.session, HistoryPoint::Now).await.unwrap(), sent);
        }
    }
    // No more cache marks than a provider takes; those of this one are few enough.
    let mut marked: Value = serde_json::from_str(&body(ApiFormat::Messages, &talk())).unwrap();
    marked["system"] = json!([{"type": "text", "text": "Marked.", "cache_control": {"type": "ephemeral"}}]);
    for at in [1, 2, 4] {
        let content = marked["messages"][at]["content"].clone();
        let blocks = if content.is_array() { content } else { json!([{"type": "text", "text": content}]) };
        marked["messages"][at]["content"] = blocks;
        marked["messages"][at]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    }
    marked["messages"][0]["content"] = "Another beginning.".into();
    let sent = marked.to_string();
    let recorded = record(&store, &tenant, &sent).await;
    assert_eq!(store.body_at(&tenant, &recorded.session, HistoryPoint::Original).await.unwrap(), sent);
}

async fn a_body_is_given_back_as_it_was_at_any_moment(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let mut turns = long_session();
        let first = body(api_format, &turns);
        let (_, one) = compact(&store, &tenant, &first, 2_000).await;
        turns.extend(steps(20, 12, 40));
        turns.push(user("And on."));
        let second = body(api_format, &turns);
        let recorded = record(&store, &tenant, &second).await;
        assert_eq!(recorded.view.compaction_number, Some(1));
        let now = store.body_at(&tenant, &recorded.session, HistoryPoint::Now).await.unwrap();
        assert_eq!(now, super::speech::replayed(&recorded, &second), "{api_format:?}");
        let two = outcome(&recorded, &second, 2_500);
        let committed = keep(&store, &tenant, &recorded, &second, &two).await.unwrap();
        let CommitOutcome::Done { session, number: 2 } = committed else { panic!("{committed:?}") };
        for (time, expected) in [
            (HistoryPoint::Original, &second),
            (HistoryPoint::Now, &two.body),
            (HistoryPoint::Compaction(2), &two.body),
            (HistoryPoint::Compaction(1), &one.body),
            (HistoryPoint::Request(1), &one.body),
            (HistoryPoint::Request(2), &two.body),
        ] {
            assert_eq!(&store.body_at(&tenant, &session, time).await.unwrap(), expected, "{api_format:?} {time:?}");
        }
        for missing in [
            HistoryPoint::Compaction(0),
            HistoryPoint::Compaction(3),
            HistoryPoint::Request(0),
            HistoryPoint::Request(3),
        ] {
            let error = store.body_at(&tenant, &session, missing).await.unwrap_err();
            assert!(matches!(error, StoreError::NotFound(_)), "{error}");
        }
        let compactions = store.compactions(&tenant, &session).await.unwrap();
        assert_eq!(compactions.iter().map(|compaction| compaction.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(compactions[1].report["tokens"]["after"], json!(two.report.tokens.after));
    }
}

async fn examples_say_what_is_ours(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let (session, _) = compact(&store, &tenant, &body(api_format, &long_session()), 2_000).await;
        let shown = store.examples(&tenant, &session, ExampleContent::AsShown).await.unwrap();
        assert_eq!(shown.iter().map(|example| example.compaction).collect::<Vec<_>>(), [None, Some(1)]);
        assert!(shown[0].own_blocks.is_empty() && !shown[1].own_blocks.is_empty());
        for (message, raw) in shown[1].messages.iter().enumerate() {
            let is_own = shown[1].own_blocks.iter().any(|trace| trace.message == message);
            assert!(is_own || !raw.get().contains("recall "), "{api_format:?}: {raw}");
        }
        let natural = store.examples(&tenant, &session, ExampleContent::Original).await.unwrap();
        assert_eq!(natural.len(), 1);
        assert_eq!(natural[0].messages.len(), session.system_message_count + session.path_length);
    }
}

async fn sessions_are_found_by_name_and_by_the_beginning_of_it(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut names = Vec::new();
    for n in 0..40 {
        let recorded = record(&store, &tenant, &body(ApiFormat::Chat, &[user(&format!("Task {n}."))])).await;
        names.push(recorded.session.name);
    }
    for name in &names {
        assert_eq!(&store.session_by_name(&tenant, name).await.unwrap().name, name);
        assert_eq!(&store.session_by_name(&tenant, &name[..9]).await.unwrap().name, name);
    }
    assert_eq!(&store.session_by_name(&tenant, "latest").await.unwrap().name, names.last().unwrap());
    // Forty names, thirty-two letters: two begin alike.
    let ambiguous = names.iter().find(|name| names.iter().filter(|other| other[..1] == name[..1]).count() > 1);
    let error = store.session_by_name(&tenant, &ambiguous.unwrap()[..1]).await.unwrap_err();
    assert!(matches!(error, StoreError::InvalidInput(_)), "{error}");
    for name in ["", "%", "_", "nosuchname", "' OR 1=1 --", "a\nb"] {
        let error = store.session_by_name(&tenant, name).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error}");
    }
}

async fn sessions_that_share_only_a_system_prompt_are_strangers(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let (one, outcome) = compact(&store, &tenant, &body(api_format, &long_session()), 2_000).await;
        let other = record(&store, &tenant, &body(api_format, &[user("Another task.")])).await.session;
        assert_eq!(
            (other.origin, other.title.as_deref()),
            (SessionOrigin::New, Some("Another task.")),
            "{api_format:?}"
        );
        assert_ne!(one.key, other.key, "{api_format:?}: what is marked in one is not known in the other");
        assert!(store.lineage(&tenant, &one).await.unwrap().children.is_empty());
        let recall_id = &outcome.originals[0].recall_id;
        let found = store.recall(&tenant, Some(&other), recall_id).await;
        assert!(matches!(found, Err(StoreError::NotFound(_))), "{api_format:?}: {found:?}");
        store.delete_session(&tenant, one.id).await.unwrap();
        let left = ground.number("SELECT count(*) FROM sessions WHERE state = 'deleted'").await;
        assert_eq!(left, 0, "{api_format:?}: a deleted session is gone");
        store.delete_session(&tenant, other.id).await.unwrap();
    }
}

async fn strange_bodies_are_recorded_or_refused_in_one_line(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for refused in ["{}", "[]", r#"{"messages":[]}"#, r#"{"model":"m","messages":{}}"#, "7", "null"] {
        let Ok((transcript, _)) = longhaul_engine::wire::parse(None, refused) else { continue };
        let error =
            store.record(&tenant, &transcript, &longhaul_engine::redact::Rules::default(), super::speech::NOON).await;
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::InvalidInput(_)) && !error.message().contains('\n'), "{refused}: {error}");
    }
    let deep = format!("{}{}", "[".repeat(3_000), "]".repeat(3_000));
    let strange = [
        r#"{"model":"a\u0000b","messages":[{"role":"user","content":"nul \u0000 in it"}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":"half a pair \ud800 in it"}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":"twice","content":"twice"}]}"#.to_owned(),
        r#"{"messages":[{"role":"nobody","content":7},null,3,"text"]}"#.to_owned(),
        format!(r#"{{"messages":[{{"role":"user","content":"deep","more":{deep}}}]}}"#),
        r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"a\u0000 b\nc","arguments":"{"}}]},{"role":"tool","tool_call_id":"1","content":"\u0000"}]}"#.to_owned(),
    ];
    for sent in strange {
        let recorded = record(&store, &tenant, &sent).await;
        let given = store.body_at(&tenant, &recorded.session, HistoryPoint::Original).await.unwrap();
        assert_eq!(given, sent);
        assert_eq!(record(&store, &tenant, &sent).await.new_messages, 0);
    }
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn a_request_is_given_back_without_what_was_taken_back(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let (session, _) = compact(&store, &tenant, &body(ApiFormat::Chat, &turns), 2_000).await;
    store.undo(&tenant, session.id).await.unwrap();
    turns.extend([reply("Well."), user("Go on.")]);
    let sent = body(ApiFormat::Chat, &turns);
    let session = record(&store, &tenant, &sent).await.session;
    assert_eq!(store.body_at(&tenant, &session, HistoryPoint::Request(2)).await.unwrap(), sent);
}

/// What a user calls a secret may look like what a view is made of: hashes, the names of triggers.
async fn a_rule_of_the_users_changes_no_decision(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let added = r#"{"rules":[{"name":"hash","pattern":"[0-9a-f]{32}"},{"name":"trigger","pattern":"manual"}]}"#;
    let rules = Rules::with_user_rules(&serde_json::from_str(added).unwrap()).unwrap();
    let sent = body(ApiFormat::Chat, &long_session());
    let transcript = parsed(&sent);
    let recorded = store.record(&tenant, &transcript, &rules, NOON).await.unwrap();
    let outcome = outcome(&recorded, &sent, 2_000);
    let how = CommitOptions { rules: &rules, at: NOON };
    store.commit_compaction(&tenant, &recorded, &transcript, &outcome, how).await.unwrap();
    let again = store.record(&tenant, &transcript, &rules, NOON).await.unwrap();
    assert_eq!(again.view.ledger, outcome.ledger);
}
