//! Every handle leads to what was removed, however often a session is compacted.

use std::collections::BTreeMap;

use longhaul_engine::ApiFormat;
use longhaul_server::store::{CommitOutcome, StoreError};

use super::ground::Ground;
use super::speech::{
    DIALECTS, body, compact, handles_in, keep, long_session, outcome, parsed, record, reply, restarting, steps,
    too_much, user,
};

tests! {
    Both: [
        every_handle_leads_to_its_block_after_every_compaction,
        a_block_has_its_place_its_tool_and_its_neighbours,
        a_handle_of_nothing_is_unknown,
        what_two_sessions_say_alike_is_recalled_when_one_is_gone,
        what_a_compaction_wrote_itself_is_recalled_when_it_is_gone_in_turn,
        a_history_that_is_written_otherwise_is_recalled_as_well,
    ],
}

async fn every_handle_leads_to_its_block_after_every_compaction(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let mut turns = long_session();
        let mut removed: BTreeMap<String, String> = BTreeMap::new();
        let mut standing = Vec::new();
        for round in 1..=4 {
            let sent = body(api_format, &turns);
            let recorded = record(&store, &tenant, &sent).await;
            let outcome = outcome(&recorded, &sent, 1_500 + 250 * round as u64);
            let committed = keep(&store, &tenant, &recorded, &sent, &outcome).await.unwrap();
            let CommitOutcome::Done { session, number } = committed else { panic!("{committed:?}") };
            assert_eq!(number, round);
            for original in &outcome.originals {
                removed.entry(original.recall_id.clone()).or_insert_with(|| original.text.clone());
            }
            let shown: String = parsed(&outcome.body).blocks().map(|block| block.text().into_owned() + "\n").collect();
            standing.extend(handles_in(&shown));
            assert!(!outcome.originals.is_empty(), "{api_format:?} {round}");
            // Those of earlier rounds, too.
            for (recall_id, text) in &removed {
                let found = store.recall(&tenant, Some(&session), recall_id).await.unwrap();
                assert_eq!(found.text.as_str(), text, "{api_format:?} {round}");
                let anywhere = store.recall(&tenant, None, recall_id).await.unwrap();
                assert_eq!(anywhere.text, found.text);
            }
            for recall_id in &standing {
                store
                    .recall(&tenant, Some(&session), recall_id)
                    .await
                    .unwrap_or_else(|error| panic!("{api_format:?} {round}: {error}"));
            }
            turns.extend(steps(20 * round, 8, 40));
            turns.extend([reply("So far."), user("And on.")]);
        }
        assert!(standing.len() > 4, "{api_format:?}: {standing:?}");
    }
}

async fn a_block_has_its_place_its_tool_and_its_neighbours(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let (session, outcome) = compact(&store, &tenant, &body(api_format, &long_session()), 2_000).await;
        let result = outcome
            .originals
            .iter()
            .find(|original| original.text.contains("error: mismatched types in step 3"))
            .unwrap();
        let found = store.recall(&tenant, Some(&session), &result.recall_id).await.unwrap();
        assert_eq!((found.kind.as_str(), found.tool.as_deref()), ("result", Some("bash")), "{api_format:?}");
        assert_eq!(found.session_name, session.name);
        assert!(!found.is_redacted && found.message.is_some());
        let (before, behind) = (found.previous.unwrap(), found.next.unwrap());
        assert_eq!((before.kind.as_str(), behind.kind.as_str()), ("call", "call"), "{api_format:?}");
        assert!(before.excerpt.as_str().contains("target3") && behind.excerpt.as_str().contains("target4"));
        let next = store.recall(&tenant, Some(&session), &behind.recall_id).await.unwrap();
        assert!(next.text.as_str().contains("target4"));
    }
}

async fn a_handle_of_nothing_is_unknown(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let (session, outcome) = compact(&store, &tenant, &body(ApiFormat::Messages, &long_session()), 2_000).await;
    let other = record(&store, &tenant, &body(ApiFormat::Messages, &[user("Another one.")])).await.session;
    for recall_id in ["", "zzzzzzzzzz", "' OR 1=1 --", "%", "a b", "日本語"] {
        for within in [Some(&session), None] {
            let error = store.recall(&tenant, within, recall_id).await.unwrap_err();
            assert!(matches!(error, StoreError::NotFound(_)) && !error.message().contains('\n'), "{error}");
        }
    }
    let recall_id = &outcome.originals[0].recall_id;
    assert!(matches!(store.recall(&tenant, Some(&other), recall_id).await, Err(StoreError::NotFound(_))));
}

async fn what_two_sessions_say_alike_is_recalled_when_one_is_gone(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let parent = record(&store, &tenant, &body(api_format, &long_session())).await.session;
        // The same words behind another beginning: the same handles, in other messages.
        let mut turns = long_session();
        turns[1] = super::speech::bash("make other", "nothing to do");
        let (fork, outcome) = compact(&store, &tenant, &body(api_format, &turns), 2_000).await;
        assert_eq!(fork.parent, Some(parent.id));
        store.delete_session(&tenant, parent.id).await.unwrap();
        for original in &outcome.originals {
            let found = store.recall(&tenant, Some(&fork), &original.recall_id).await;
            let found = found.unwrap_or_else(|error| panic!("{api_format:?}: {error}"));
            assert_eq!(found.text.as_str(), original.text);
        }
        // And the other way round.
        store.delete_session(&tenant, fork.id).await.unwrap();
        let first = record(&store, &tenant, &body(api_format, &turns)).await.session;
        let (second, outcome) = compact(&store, &tenant, &body(api_format, &long_session()), 2_000).await;
        assert_eq!(second.parent, Some(first.id));
        store.delete_session(&tenant, second.id).await.unwrap();
        for original in outcome
            .originals
            .iter()
            .filter(|original| !original.text.contains("target0") && !original.text.contains("unit 0_"))
        {
            let found = store.recall(&tenant, Some(&first), &original.recall_id).await;
            found.unwrap_or_else(|error| panic!("{api_format:?}: {error}"));
        }
        store.delete_session(&tenant, first.id).await.unwrap();
        assert!(store.check_integrity().await.unwrap().is_empty());
    }
}

async fn what_a_compaction_wrote_itself_is_recalled_when_it_is_gone_in_turn(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    // What stands for a session that began anew is our own text, of which the log has nothing; the next compaction removes that.
    let sent = body(ApiFormat::Chat, &too_much(&[]));
    let first = record(&store, &tenant, &sent).await;
    let begun = restarting(&first, &sent);
    let committed = keep(&store, &tenant, &first, &sent, &begun).await.unwrap();
    let CommitOutcome::Done { session: child, .. } = committed else { panic!("{committed:?}") };
    let mut turns = too_much(&[reply("Going on.")]);
    turns.extend(steps(0, 12, 40));
    turns.push(user("And on."));
    let longer = body(ApiFormat::Chat, &turns);
    let recorded = record(&store, &tenant, &longer).await;
    assert_eq!(recorded.session.id, child.id);
    let next = outcome(&recorded, &longer, 2_500);
    let committed = keep(&store, &tenant, &recorded, &longer, &next).await.unwrap();
    let CommitOutcome::Done { session, .. } = committed else { panic!("{committed:?}") };
    assert!(ground.number("SELECT count(*) FROM remains").await > 0, "nothing of ours was removed");
    for original in begun.originals.iter().chain(&next.originals) {
        let found = store.recall(&tenant, Some(&session), &original.recall_id).await.unwrap();
        assert_eq!(found.text.as_str(), original.text, "{:?}", original.kind);
    }
}

/// The same messages with other white space and other orders of keys are the same session, but a call's arguments are other bytes.
async fn a_history_that_is_written_otherwise_is_recalled_as_well(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let sent = body(api_format, &long_session());
        let first = record(&store, &tenant, &sent).await.session;
        let value: serde_json::Value = serde_json::from_str(&sent).unwrap();
        let otherwise = serde_json::to_string_pretty(&value).unwrap();
        let recorded = record(&store, &tenant, &otherwise).await;
        assert_eq!((recorded.session.id, recorded.new_messages), (first.id, 0));
        let outcome = outcome(&recorded, &otherwise, 2_000);
        keep(&store, &tenant, &recorded, &otherwise, &outcome).await.unwrap();
        for original in &outcome.originals {
            let found = store.recall(&tenant, Some(&first), &original.recall_id).await.unwrap();
            assert_eq!(found.text.as_str(), original.text, "{api_format:?}");
        }
    }
}
