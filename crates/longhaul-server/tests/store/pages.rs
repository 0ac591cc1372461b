//! What stands of a long session's past in its checkpoint leads, page by page, to all of it.

use std::collections::BTreeSet;

use longhaul_engine::ApiFormat;
use longhaul_engine::checkpoint::Checkpoint;
use longhaul_engine::transcript::TurnKind;
use longhaul_server::recall::{RecallScope, RecallTool};
use longhaul_server::store::{HistoryPoint, Store, StoredSession, Tenant};
use serde_json::json;

use super::ground::Ground;
use super::speech::{DIALECTS, Turn, body, handles_in, page, parsed, record, reply, steps, user};

tests! {
    Both: [
        the_oldest_node_is_opened_page_by_page_down_to_the_first_message,
        of_a_deleted_session_no_page_is_left,
        pages_that_a_fork_leads_to_stay_when_its_parent_goes,
    ],
}

/// What the first step called; the request before it stays where it stands.
const FIRST: &str = "make target0\"";

/// A session of so many compactions, and what it says.
async fn long(
    store: &Store,
    tenant: &Tenant,
    api_format: ApiFormat,
    rounds: usize,
) -> (StoredSession, Vec<Turn>, String) {
    let mut turns = vec![user("Make the build green, and keep the wombat module as it is.")];
    let mut last = None;
    for round in 0..rounds {
        turns.extend(steps(10 * round, 8, 30));
        turns.extend([
            reply(&format!("Part {round} is built.")),
            user(&format!("Now see to part {} of the build.", round + 1)),
        ]);
        last = Some(page(store, tenant, &body(api_format, &turns), 2_600).await);
    }
    let (session, outcome) = last.unwrap();
    (session, turns, outcome.body)
}

fn checkpoint(body: &str) -> String {
    let transcript = parsed(body);
    let text = transcript.turns.iter().find_map(|turn| match &turn.kind {
        TurnKind::Checkpoint(block) => Some(block.text().into_owned()),
        _ => None,
    });
    text.unwrap()
}

async fn open(reach: &RecallScope, recall_id: &str) -> String {
    let mut text = String::new();
    loop {
        let answer = reach.call(RecallTool::Open, &json!({"recall_id": recall_id, "from": text.chars().count()})).await;
        assert!(!answer.is_error, "{}", answer.text);
        let (head, quoted) = answer.text.split_once("All that follows is the quotation:\n\n").unwrap();
        text.push_str(quoted);
        if !head.contains("open again with") {
            return text;
        }
    }
}

async fn the_oldest_node_is_opened_page_by_page_down_to_the_first_message(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    for api_format in DIALECTS {
        let (session, _, sent) = long(&store, &tenant, api_format, 14).await;
        let reach = RecallScope { store: store.clone(), tenant: tenant.clone(), session };
        let nodes = Checkpoint::parse(&checkpoint(&sent)).unwrap().earlier_work().to_vec();
        assert!(nodes[0].spans() > 1 && nodes.len() < 14, "{api_format:?}: {nodes:?}");
        let mut way = vec![nodes[0].recall_id().unwrap().to_owned()];
        // The first that each page names is the oldest below it.
        loop {
            let text = open(&reach, way.last().unwrap()).await;
            if text.contains(FIRST) && !text.contains("recall ") {
                break;
            }
            let next = match text.split_once("## Blocks\n") {
                Some((_, blocks)) => handles_in(blocks),
                None => handles_in(&text),
            };
            way.push(next.first().unwrap_or_else(|| panic!("{api_format:?}: {text}")).clone());
        }
        assert!(way.len() >= 3, "a group, a stretch, a block: {way:?}");
        assert_eq!(store.recall(&tenant, None, way.last().unwrap()).await.unwrap().kind, "call");
    }
}

async fn of_a_deleted_session_no_page_is_left(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let (session, ..) = long(&store, &tenant, ApiFormat::Chat, 8).await;
    assert!(ground.number("SELECT count(*) FROM remains WHERE what = 'page'").await > 4);
    store.delete_session(&tenant, session.id).await.unwrap();
    assert_eq!(ground.rows().await, empty);
}

async fn pages_that_a_fork_leads_to_stay_when_its_parent_goes(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let (parent, mut turns, _) = long(&store, &tenant, ApiFormat::Messages, 14).await;
    turns.push(reply("The parent's way."));
    record(&store, &tenant, &body(ApiFormat::Messages, &turns)).await;
    *turns.last_mut().unwrap() = reply("The fork's way.");
    let fork = record(&store, &tenant, &body(ApiFormat::Messages, &turns)).await.session;
    assert_eq!(fork.parent, Some(parent.id));
    store.delete_session(&tenant, parent.id).await.unwrap();
    let mut unread = handles_in(&store.body_at(&tenant, &fork, HistoryPoint::Now).await.unwrap());
    let mut read = BTreeSet::new();
    while let Some(recall_id) = unread.pop() {
        if read.insert(recall_id.clone()) {
            let found = store.recall(&tenant, Some(&fork), &recall_id).await;
            unread.extend(handles_in(found.unwrap_or_else(|error| panic!("{recall_id}: {error}")).text.as_str()));
        }
    }
    assert!(read.len() > 14 * 8, "{} were led to", read.len());
    store.delete_session(&tenant, fork.id).await.unwrap();
    assert_eq!(ground.rows().await, empty);
}
