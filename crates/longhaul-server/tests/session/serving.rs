//! Which compaction a model's summary serves: the one that it was begun for, a later one if it was late, and none with another focus.

use std::time::Duration;

use longhaul_engine::plan::WrittenBy;
use longhaul_server::session::{AutoCompaction, CompressRequest, LiveSession, SessionCommand, SessionSettings};

use super::script::{Script, asking, good};
use super::waiting::{WINDOW, is_compacted, until};
use super::world::{Agent, at, compacted_by, request, settings};

#[tokio::test(start_paused = true)]
async fn what_comes_too_late_comes_with_the_next_compaction_and_is_not_asked_for_again() {
    let script = Script::new([good(60)]);
    let mut session = LiveSession::new(asking(settings(WINDOW))).with_models(script.clone());
    let mut agent = Agent::new();
    let (now, said, by) = until(&mut session, &mut agent, 0, is_compacted).await;
    assert_eq!(by, Some(WrittenBy::Code));
    assert!(said.iter().any(|line| line.contains("the next compaction uses the summary")), "{said:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, said, by) = until(&mut session, &mut agent, now, is_compacted).await;
    assert!(said.iter().any(|line| line.starts_with("compacted: ")), "{said:?}");
    assert_eq!(by, Some(WrittenBy::Model));
    assert_eq!(script.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_summary_serves_only_the_focus_that_it_was_asked_with() {
    let focused = || {
        let focus = Some("the parser".to_owned());
        SessionCommand::Compress(CompressRequest { focus, ..CompressRequest::default() })
    };
    for (max_wait, asked, by) in [(0, 1, WrittenBy::Code), (9, 2, WrittenBy::Model)] {
        let script = Script::new([good(0)]);
        let max_wait = Duration::from_secs(max_wait);
        let settings = SessionSettings { max_summary_wait: max_wait, ..asking(settings(WINDOW)) };
        let mut session = LiveSession::new(settings).with_models(script.clone());
        let mut agent = Agent::new();
        agent.fill(7_400);
        let body = agent.body();
        request(&mut session, &body, at(0)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(script.asked().len(), 1, "one without a focus is ready");
        let turn = session.run_command(focused(), &body, at(1)).await;
        assert_eq!(compacted_by(&turn), by, "{:?}", turn.notices);
        assert_eq!(script.asked().len(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_summary_undoes_nothing_and_every_epoch_has_its_own_number() {
    let script = Script::new([good(60)]);
    let mut session = LiveSession::new(asking(settings(WINDOW))).with_models(script);
    let mut agent = Agent::new();
    let (now, ..) = until(&mut session, &mut agent, 0, is_compacted).await;
    assert_eq!(session.ledger().epoch, 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = session.ledger().covers();
    let here = SessionCommand::parse("/compress here 1").unwrap();
    agent.says("assistant", "It is green.");
    agent.says("user", "Go on.");
    let body = agent.body();
    session.run_command(here, &body, at(now)).await;
    assert!(session.ledger().covers() >= before);
    let compaction = session.ledger().epoch;
    until(&mut session, &mut agent, now, is_compacted).await;
    assert_eq!(session.ledger().epoch, compaction + 1);
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_compacted_of_its_own_accord_no_model_is_asked_early() {
    let script = Script::new([good(0)]);
    let off = SessionSettings { auto_compaction: AutoCompaction::Off, ..asking(settings(WINDOW)) };
    let mut session = LiveSession::new(off).with_models(script.clone());
    let mut agent = Agent::new();
    agent.fill(9_500);
    let body = agent.body();
    request(&mut session, &body, at(0)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(script.asked().is_empty());
}
