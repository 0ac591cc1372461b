//! How sessions stand and what was learned of models, across restarts.

use longhaul_engine::ApiFormat;
use longhaul_engine::redact::Redacted;
use longhaul_server::store::HiddenTurn;

use super::ground::Ground;
use super::speech::{body, parsed, record, reply, user};

tests! {
    Both: [
        what_is_kept_of_a_session_is_found_again_and_goes_with_it,
        hidden_turns_are_found_by_the_history_and_go_with_their_session,
        what_is_learned_of_a_model_is_each_tenants_own,
    ],
}

fn kept(json: &'static str) -> Redacted {
    Redacted::literal(json)
}

async fn what_is_kept_of_a_session_is_found_again_and_goes_with_it(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.get_or_create_tenant("other").await.unwrap();
    let session = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await.session;
    assert_eq!(store.session_state(&tenant, session.id).await.unwrap(), None);
    for state in [r#"{"in_vain":1}"#, r#"{"in_vain":2}"#] {
        assert!(store.save_session_state(&tenant, session.id, kept(state)).await.unwrap());
        assert_eq!(store.session_state(&tenant, session.id).await.unwrap().as_deref(), Some(state));
    }
    assert!(!store.save_session_state(&other, session.id, kept("{}")).await.unwrap(), "it is not theirs");
    assert_eq!(store.session_state(&other, session.id).await.unwrap(), None);

    // One that only lives on as the beginning of another keeps no state either.
    let longer = body(ApiFormat::Chat, &[user("Hello."), reply("Yes?"), user("Go on.")]);
    let parent = record(&store, &tenant, &longer).await.session;
    store.save_session_state(&tenant, parent.id, kept("{}")).await.unwrap();
    let fork = body(ApiFormat::Chat, &[user("Hello."), reply("Yes?"), user("Stop.")]);
    let fork = record(&store, &tenant, &fork).await.session;
    store.save_session_state(&tenant, fork.id, kept("{}")).await.unwrap();
    for gone in [parent.id, fork.id] {
        store.delete_session(&tenant, gone).await.unwrap();
        assert!(!store.save_session_state(&tenant, gone, kept("{}")).await.unwrap(), "nothing is kept of what is gone");
    }
    assert_eq!(ground.number("SELECT count(*) FROM states").await, 0);
}

async fn hidden_turns_are_found_by_the_history_and_go_with_their_session(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.get_or_create_tenant("other").await.unwrap();
    let said = body(ApiFormat::Chat, &[user("Hello."), reply("Yes?"), user("Go on.")]);
    let chain = tenant.hasher().hash_chain(&parsed(&said));
    assert_eq!(store.hidden_turns(&tenant, &chain).await.unwrap(), None);
    let session = record(&store, &tenant, &said).await.session;
    let turn = |at: usize, json| HiddenTurn { after: chain[at], json: Some(kept(json)) };
    let stays = |at: usize| HiddenTurn { after: chain[at], json: None };
    for (written, found) in [
        (vec![turn(0, "[1]"), turn(1, "[2]")], vec![turn(0, "[1]"), turn(1, "[2]")]),
        (vec![stays(0), turn(1, "[3]"), turn(2, "[4]")], vec![turn(0, "[1]"), turn(1, "[3]"), turn(2, "[4]")]),
        (vec![stays(2)], vec![turn(2, "[4]")]),
    ] {
        store.replace_hidden_turns(&tenant, session.id, written).await.unwrap();
        assert_eq!(store.hidden_turns(&tenant, &chain).await.unwrap(), Some((session.id, found)));
    }
    store.replace_hidden_turns(&other, session.id, vec![turn(0, "[5]")]).await.unwrap();
    assert_eq!(store.hidden_turns(&other, &chain).await.unwrap(), None, "it is not theirs");
    store.delete_session(&tenant, session.id).await.unwrap();
    store.replace_hidden_turns(&tenant, session.id, vec![turn(0, "[6]")]).await.unwrap();
    assert_eq!(ground.number("SELECT count(*) FROM hidden_turns").await, 0);
}

async fn what_is_learned_of_a_model_is_each_tenants_own(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.get_or_create_tenant("other").await.unwrap();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    for model in ["house-model", &format!("house-model {secret}")] {
        assert_eq!(store.learned_model(&tenant, model).await.unwrap(), None);
        for learned in [r#"{"window":null}"#, r#"{"window":1}"#] {
            store.save_learned_model(&tenant, model, kept(learned)).await.unwrap();
            assert_eq!(store.learned_model(&tenant, model).await.unwrap().as_deref(), Some(learned));
        }
        assert_eq!(store.learned_model(&other, model).await.unwrap(), None);
    }
    let bytes = ground.bytes().await;
    assert!(!String::from_utf8_lossy(&bytes).contains(secret), "a client can write anything there");
}
