//! Which session a history belongs to, what of it is written, and what is given back of it.

use longhaul_engine::Dialect;
use longhaul_engine::redact::Rules;
use longhaul_server::store::{At, Committed, Keeping, Reason, State, StoreError, Words};
use serde_json::{Value, json};

use super::ground::Ground;
use super::speech::{
    DIALECTS, NOON, Turn, bash, body, compact, keep, long_session, outcome, parsed, record, reply, steps,
    user,
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
    for dialect in DIALECTS {
        let sent = body(dialect, &talk());
        let first = record(&store, &tenant, &sent).await;
        assert_eq!((first.session.reason, first.session.state), (Reason::New, State::Live));
        assert_eq!(first.new, first.session.length);
        assert_eq!(first.session.dialect, dialect);
        assert_eq!(first.session.title.as_deref(), Some("Fix the parser."));
        let before = (ground.rows().await, first.session.length);
        let again = record(&store, &tenant, &sent).await;
        assert_eq!((again.session.id, again.new), (first.session.id, 0));
        assert_eq!((ground.rows().await, again.session.length), before);
    }
    assert_eq!(store.sessions(&tenant, 10).await.unwrap().len(), 3);
    assert!(store.faults().await.unwrap().is_empty());
}

async fn what_grew_writes_only_what_is_new(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for dialect in DIALECTS {
        let mut id = None;
        let mut length = 0;
        for turns in 1..=talk().len() {
            let recorded = record(&store, &tenant, &body(dialect, &talk()[..turns])).await;
            assert_eq!(recorded.session.length, length + recorded.new, "{dialect:?}");
            assert!((1..=2).contains(&recorded.new), "{dialect:?}");
            assert_eq!(*id.get_or_insert(recorded.session.id), recorded.session.id);
            length = recorded.session.length;
        }
        let session = &store.sessions(&tenant, 1).await.unwrap()[0];
        let requests = store.requests(&tenant, session).await.unwrap();
        assert_eq!(requests.len(), talk().len());
        assert!(
            requests
                .windows(2)
                .all(|pair| pair[0].length < pair[1].length && pair[0].number < pair[1].number)
        );
    }
}

async fn a_history_that_is_written_in_parts_is_one_session_and_one_request(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let turns = steps(0, 1_600, 1);
    let text = body(Dialect::Chat, &turns);
    let whole = record(&store, &tenant, &text).await;
    assert!(whole.new > 3_000, "{} messages", whole.new);
    assert_eq!(whole.session.length, whole.new);
    assert_eq!(store.requests(&tenant, &whole.session).await.unwrap().len(), 1);
    assert_eq!(store.sessions(&tenant, 9).await.unwrap().len(), 1);
    let given = store.body(&tenant, &whole.session, At::Original).await.unwrap();
    assert_eq!(given, text);
    let again = record(&store, &tenant, &text).await;
    assert_eq!((again.session.id, again.new), (whole.session.id, 0));
    assert_eq!(store.faults().await.unwrap(), Vec::<String>::new());
}

async fn a_shorter_history_is_the_same_session(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let whole = record(&store, &tenant, &body(Dialect::Chat, &talk())).await;
    let rows = ground.rows().await;
    for turns in 1..talk().len() {
        let back = record(&store, &tenant, &body(Dialect::Chat, &talk()[..turns])).await;
        assert_eq!((back.session.id, back.new), (whole.session.id, 0));
    }
    assert_eq!(ground.rows().await, rows);
}

async fn an_edited_message_forks_and_what_is_shared_is_stored_once(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for dialect in DIALECTS {
        let first = record(&store, &tenant, &body(dialect, &talk())).await;
        let before = ground.number("SELECT count(*) FROM messages").await;
        let mut edited = talk();
        edited[3] = user("Then rewrite the lexer.");
        let fork = record(&store, &tenant, &body(dialect, &edited)).await;
        assert_eq!(fork.session.reason, Reason::Fork);
        assert_eq!(fork.session.parent, Some(first.session.id));
        assert_eq!(fork.session.key, first.session.key);
        assert_eq!(fork.new, fork.session.length - fork.session.begins);
        assert!(fork.new < fork.session.length && fork.session.length == first.session.length);
        let stored = ground.number("SELECT count(*) FROM messages").await - before;
        assert_eq!(stored, fork.new);
        let up = store.lineage(&tenant, &fork.session).await.unwrap();
        assert_eq!(up.ancestors.iter().map(|s| s.id).collect::<Vec<_>>(), [first.session.id]);
        let down = store.lineage(&tenant, &first.session).await.unwrap();
        assert_eq!(down.children.iter().map(|s| s.id).collect::<Vec<_>>(), [fork.session.id]);
        for (session, turns) in [(&first.session, talk()), (&fork.session, edited.clone())] {
            assert_eq!(store.body(&tenant, session, At::Original).await.unwrap(), body(dialect, &turns));
        }
        // A fork of the fork goes back to the first through both.
        edited[5] = reply("Rewritten.");
        let second = record(&store, &tenant, &body(dialect, &edited)).await;
        let up = store.lineage(&tenant, &second.session).await.unwrap();
        let up: Vec<_> = up.ancestors.iter().map(|s| s.id).collect();
        assert_eq!(up, [fork.session.id, first.session.id]);
        assert_eq!(store.body(&tenant, &second.session, At::Original).await.unwrap(), body(dialect, &edited));
    }
    assert!(store.faults().await.unwrap().is_empty());
}

async fn a_fork_takes_over_the_newest_view_of_what_it_shares(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let (first, one) = compact(&store, &tenant, &body(Dialect::Chat, &turns), 2_000).await;
    let parting = turns.len();
    turns.extend(steps(20, 12, 40));
    turns.push(user("And on."));
    let (second, _) = compact(&store, &tenant, &body(Dialect::Chat, &turns), 2_000).await;
    assert_eq!(first.id, second.id);
    // Behind the first view, before the second.
    let mut later = turns[..=parting].to_vec();
    later.push(user("Something else now."));
    let fork = record(&store, &tenant, &body(Dialect::Chat, &later)).await;
    assert_eq!((fork.session.reason, fork.session.head), (Reason::Fork, first.head));
    assert_eq!(fork.view.number, Some(1));
    let now = store.body(&tenant, &fork.session, At::Now).await.unwrap();
    let shared = one.body.trim_end_matches("]}");
    assert!(now.starts_with(shared), "what was sent before the fork is sent again, byte for byte");
    // Before the first view.
    let mut earlier = long_session()[..4].to_vec();
    earlier.push(user("Stop."));
    let fork = record(&store, &tenant, &body(Dialect::Chat, &earlier)).await;
    assert_eq!((fork.session.reason, fork.session.head, fork.view.number), (Reason::Fork, None, None));
}

async fn a_fork_can_undo_and_redo_the_view_that_it_took_over(ground: Ground) {
    use longhaul_server::store::Moved;
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let sent = body(Dialect::Chat, &turns);
    let (first, _) = compact(&store, &tenant, &sent, 2_000).await;
    turns.push(reply("One way."));
    record(&store, &tenant, &body(Dialect::Chat, &turns)).await;
    *turns.last_mut().unwrap() = reply("Another way.");
    let fork = record(&store, &tenant, &body(Dialect::Chat, &turns)).await.session;
    assert_eq!(fork.head, first.head);
    let undone = store.undo(&tenant, fork.id).await.unwrap();
    assert!(matches!(undone, Moved::To(None)), "{undone:?}");
    let redone = store.redo(&tenant, fork.id).await.unwrap();
    assert!(matches!(&redone, Moved::To(Some(epoch)) if Some(epoch.id) == first.head), "{redone:?}");
    assert_eq!(
        store.session(&tenant, &first.name).await.unwrap().head,
        first.head,
        "the parent is not touched"
    );
}

async fn who_goes_on_from_a_compacted_body_is_a_child_of_its_session(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let turns = [long_session(), steps(20, 40, 30), vec![user("And on.")]].concat();
    for dialect in DIALECTS {
        let (parent, outcome) = compact(&store, &tenant, &body(dialect, &turns), 1_500).await;
        assert!(outcome.ledger.checkpoint().is_some(), "{dialect:?}: nothing was folded");
        let mut sent: Value = serde_json::from_str(&outcome.body).unwrap();
        let (list, said) = match dialect {
            Dialect::Responses => (
                "input",
                json!({"role": "assistant", "content": [{"type": "output_text", "text": "Going on."}]}),
            ),
            _ => ("messages", json!({"role": "assistant", "content": "Going on."})),
        };
        sent[list].as_array_mut().unwrap().push(said);
        let child = record(&store, &tenant, &sent.to_string()).await;
        assert_eq!(child.session.reason, Reason::Continued, "{dialect:?}");
        assert_eq!(child.session.parent, Some(parent.id));
        assert_eq!(child.session.key, parent.key);
        let again = record(&store, &tenant, &sent.to_string()).await;
        assert_eq!((again.session.id, again.new), (child.session.id, 0));
        // What the compaction removed is recalled from there, too.
        for original in &outcome.originals {
            let found = store.recall(&tenant, Some(&child.session), &original.handle).await.unwrap();
            assert_eq!(found.text.as_str(), original.text);
        }
        // Of what we wrote the checkpoint is left out; digests that the client sends as results of its own cannot be told.
        let examples = store.examples(&tenant, &child.session, Words::Natural).await.unwrap();
        let start = serde_json::to_string(&outcome.ledger.checkpoint().unwrap()[..60]).unwrap();
        let examples = serde_json::to_string(&examples).unwrap();
        assert!(!examples.contains(start.trim_matches('"')), "{dialect:?}: none of our words");
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
    for dialect in DIALECTS {
        let sent = body(dialect, &talk());
        let first = record(&store, &tenant, &sent).await;
        let mut other = String::new();
        rewritten(&serde_json::from_str(&sent).unwrap(), &mut other);
        let again = record(&store, &tenant, &other).await;
        assert_eq!((again.session.id, again.new), (first.session.id, 0), "{dialect:?}");
        if dialect == Dialect::Messages {
            let mut marked: Value = serde_json::from_str(&sent).unwrap();
            marked["messages"][3]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            marked["messages"][0]["content"] =
                json!([{"type": "text", "text": "Fix the parser.", "cache_control": {"type": "ephemeral"}}]);
            let again = record(&store, &tenant, &marked.to_string()).await;
            assert_eq!((again.session.id, again.new), (first.session.id, 0), "cache marks");
        }
    }
}

async fn no_two_dialects_are_one_session(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let turns = [user("Hello there."), reply("Hello.")];
    let mut ids = Vec::new();
    for dialect in DIALECTS {
        ids.push(record(&store, &tenant, &body(dialect, &turns)).await.session.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

async fn a_body_is_given_back_as_it_was_sent(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for dialect in DIALECTS {
        let compactly = body(dialect, &talk());
        let value: Value = serde_json::from_str(&compactly).unwrap();
        let indented = serde_json::to_string_pretty(&value).unwrap();
        let mut odd = value.clone();
        let list = if dialect == Dialect::Responses { "input" } else { "messages" };
        odd["metadata"] = json!({"\u{1}\u{2}": "\u{1}7\u{1}\u{2},\u{2} 日本語 \u{10ffff} \\ \" \u{0}"});
        odd[list][0]["content"] = "\u{1}42\u{1} \u{2} 🦀 \u{7f}".into();
        for (at, sent) in [compactly, indented, odd.to_string()].iter().enumerate() {
            // Each has another first message, or it would be the same session as the one before.
            let sent = sent.replace("Fix the parser.", &format!("Fix parser {at}."));
            let sent = sent.replace("You are careful.", &format!("You are careful {at}."));
            let recorded = record(&store, &tenant, &sent).await;
            assert_eq!(recorded.session.reason, Reason::New);
            let given = store.body(&tenant, &recorded.session, At::Original).await.unwrap();
            assert_eq!(given, sent, "{dialect:?}");
            assert_eq!(store.body(&tenant, &recorded.session, At::Now).await.unwrap(), sent);
        }
    }
    // No more cache marks than a provider takes; those of this one are few enough.
    let mut marked: Value = serde_json::from_str(&body(Dialect::Messages, &talk())).unwrap();
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
    assert_eq!(store.body(&tenant, &recorded.session, At::Original).await.unwrap(), sent);
}

async fn a_body_is_given_back_as_it_was_at_any_moment(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for dialect in DIALECTS {
        let mut turns = long_session();
        let first = body(dialect, &turns);
        let (_, one) = compact(&store, &tenant, &first, 2_000).await;
        turns.extend(steps(20, 12, 40));
        turns.push(user("And on."));
        let second = body(dialect, &turns);
        let recorded = record(&store, &tenant, &second).await;
        assert_eq!(recorded.view.number, Some(1));
        let now = store.body(&tenant, &recorded.session, At::Now).await.unwrap();
        assert_eq!(now, super::speech::replayed(&recorded, &second), "{dialect:?}");
        let two = outcome(&recorded, &second, 2_500);
        let committed = keep(&store, &tenant, &recorded, &second, &two).await.unwrap();
        let Committed::Done { session, number: 2 } = committed else { panic!("{committed:?}") };
        for (moment, expected) in [
            (At::Original, &second),
            (At::Now, &two.body),
            (At::Epoch(2), &two.body),
            (At::Epoch(1), &one.body),
            (At::Request(1), &one.body),
            (At::Request(2), &two.body),
        ] {
            assert_eq!(
                &store.body(&tenant, &session, moment).await.unwrap(),
                expected,
                "{dialect:?} {moment:?}"
            );
        }
        for missing in [At::Epoch(0), At::Epoch(3), At::Request(0), At::Request(3)] {
            let error = store.body(&tenant, &session, missing).await.unwrap_err();
            assert!(matches!(error, StoreError::Unknown(_)), "{error}");
        }
        let epochs = store.epochs(&tenant, &session).await.unwrap();
        assert_eq!(epochs.iter().map(|epoch| epoch.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(epochs[1].report["tokens"]["after"], json!(two.report.tokens.after));
    }
}

async fn examples_say_what_is_ours(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for dialect in DIALECTS {
        let (session, _) = compact(&store, &tenant, &body(dialect, &long_session()), 2_000).await;
        let shown = store.examples(&tenant, &session, Words::AsShown).await.unwrap();
        assert_eq!(shown.iter().map(|example| example.epoch).collect::<Vec<_>>(), [None, Some(1)]);
        assert!(shown[0].ours.is_empty() && !shown[1].ours.is_empty());
        for (message, raw) in shown[1].messages.iter().enumerate() {
            let ours = shown[1].ours.iter().any(|trace| trace.message == message);
            assert!(ours || !raw.get().contains("recall "), "{dialect:?}: {raw}");
        }
        let natural = store.examples(&tenant, &session, Words::Natural).await.unwrap();
        assert_eq!(natural.len(), 1);
        assert_eq!(natural[0].messages.len(), session.lead + session.length);
    }
}

async fn sessions_are_found_by_name_and_by_the_beginning_of_it(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut names = Vec::new();
    for n in 0..40 {
        let recorded = record(&store, &tenant, &body(Dialect::Chat, &[user(&format!("Task {n}."))])).await;
        names.push(recorded.session.name);
    }
    for name in &names {
        assert_eq!(&store.session(&tenant, name).await.unwrap().name, name);
        assert_eq!(&store.session(&tenant, &name[..9]).await.unwrap().name, name);
    }
    assert_eq!(&store.session(&tenant, "latest").await.unwrap().name, names.last().unwrap());
    // Forty names, thirty-two letters: two begin alike.
    let ambiguous =
        names.iter().find(|name| names.iter().filter(|other| other[..1] == name[..1]).count() > 1);
    let error = store.session(&tenant, &ambiguous.unwrap()[..1]).await.unwrap_err();
    assert!(matches!(error, StoreError::Wrong(_)), "{error}");
    for name in ["", "%", "_", "nosuchname", "' OR 1=1 --", "a\nb"] {
        let error = store.session(&tenant, name).await.unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error}");
    }
}

async fn sessions_that_share_only_a_system_prompt_are_strangers(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for dialect in DIALECTS {
        let (one, outcome) = compact(&store, &tenant, &body(dialect, &long_session()), 2_000).await;
        let other = record(&store, &tenant, &body(dialect, &[user("Another task.")])).await.session;
        assert_eq!(
            (other.reason, other.title.as_deref()),
            (Reason::New, Some("Another task.")),
            "{dialect:?}"
        );
        assert_ne!(one.key, other.key, "{dialect:?}: what is marked in one is not known in the other");
        assert!(store.lineage(&tenant, &one).await.unwrap().children.is_empty());
        let handle = &outcome.originals[0].handle;
        let found = store.recall(&tenant, Some(&other), handle).await;
        assert!(matches!(found, Err(StoreError::Unknown(_))), "{dialect:?}: {found:?}");
        store.delete(&tenant, one.id).await.unwrap();
        let left = ground.number("SELECT count(*) FROM sessions WHERE state = 'deleted'").await;
        assert_eq!(left, 0, "{dialect:?}: a deleted session is gone");
        store.delete(&tenant, other.id).await.unwrap();
    }
}

async fn strange_bodies_are_recorded_or_refused_in_one_line(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for refused in ["{}", "[]", r#"{"messages":[]}"#, r#"{"model":"m","messages":{}}"#, "7", "null"] {
        let Ok((transcript, _)) = longhaul_engine::wire::parse(None, refused) else { continue };
        let error = store
            .record(&tenant, &transcript, &longhaul_engine::redact::Rules::default(), super::speech::NOON)
            .await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, StoreError::Wrong(_)) && !error.message().contains('\n'),
            "{refused}: {error}"
        );
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
        let given = store.body(&tenant, &recorded.session, At::Original).await.unwrap();
        assert_eq!(given, sent);
        assert_eq!(record(&store, &tenant, &sent).await.new, 0);
    }
    assert!(store.faults().await.unwrap().is_empty());
}

async fn a_request_is_given_back_without_what_was_taken_back(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let (session, _) = compact(&store, &tenant, &body(Dialect::Chat, &turns), 2_000).await;
    store.undo(&tenant, session.id).await.unwrap();
    turns.extend([reply("Well."), user("Go on.")]);
    let sent = body(Dialect::Chat, &turns);
    let session = record(&store, &tenant, &sent).await.session;
    assert_eq!(store.body(&tenant, &session, At::Request(2)).await.unwrap(), sent);
}

/// What a user calls a secret may look like what a view is made of: hashes, the names of triggers.
async fn a_rule_of_the_users_changes_no_decision(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let added =
        r#"{"rules":[{"name":"hash","pattern":"[0-9a-f]{32}"},{"name":"trigger","pattern":"manual"}]}"#;
    let rules = Rules::with_user(&serde_json::from_str(added).unwrap()).unwrap();
    let sent = body(Dialect::Chat, &long_session());
    let transcript = parsed(&sent);
    let recorded = store.record(&tenant, &transcript, &rules, NOON).await.unwrap();
    let outcome = outcome(&recorded, &sent, 2_000);
    let how = Keeping { rules: &rules, lease: None, at: NOON };
    store.keep(&tenant, &recorded, &transcript, &outcome, how).await.unwrap();
    let again = store.record(&tenant, &transcript, &rules, NOON).await.unwrap();
    assert_eq!(again.view.ledger, outcome.ledger);
}
