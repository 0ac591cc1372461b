//! A session never compacts more often than it has to, and stops where it is in vain.

use longhaul_engine::Tokens;
use longhaul_server::session::{LiveSession, RequestAction, SessionCommand, SessionLimits, SessionSettings};

use super::world::{Agent, NOON, at, compacted, fixed, request, says, settings, usage};

#[tokio::test]
async fn two_hundred_turns_at_the_edge_compact_no_more_often_than_growth_requires() {
    const WINDOW: u64 = 20_000;
    let mut session = LiveSession::new(SessionSettings {
        limits: SessionLimits { max_compactions_per_hour: 1_000, ..SessionLimits::default() },
        ..settings(WINDOW)
    });
    let mut agent = Agent::new();
    agent.fill(9_000);
    let (mut grown, mut last, mut largest, mut count) = (0, None::<u64>, 0, 0_u64);
    for turn in 0..200 {
        agent.step(4);
        let body = agent.body();
        let turn = request(&mut session, &body, at(turn * 20)).await;
        let before = turn.measured.unwrap().tokens.number();
        grown += last.map_or(0, |last| before.saturating_sub(last));
        last = Some(before);
        if turn.action == RequestAction::Compacted {
            let after = turn.report.as_ref().unwrap().tokens.after.number();
            assert!(before >= WINDOW / 2, "not before the threshold: {before}");
            (last, largest, count) = (Some(after), largest.max(after), count + 1);
        }
        session.record_reply(&usage(&turn.body)).await;
    }
    assert!(largest < WINDOW / 2 * 3 / 4, "a compaction leaves room: {largest}");
    let required = grown / (WINDOW / 2 - largest) + 1;
    println!(
        "{count} compactions of {required} that {grown} tokens of growth require at most; the largest left {largest}"
    );
    assert!(count >= 2 && count <= required, "{count} of {required}");
}

/// An agent whose system prompt alone passes the threshold.
fn heavy() -> Agent {
    let mut agent = Agent::new();
    let rules: String = (0..900).map(|n| format!("Rule {n}: module{n} has an owner of its own. ")).collect();
    agent.messages[0]["content"] = rules.into();
    agent
}

#[tokio::test]
async fn what_cannot_shrink_is_tried_twice_and_the_floor_is_stated() {
    let mut session = LiveSession::new(fixed(settings(24_000), 12_000));
    let mut agent = heavy();
    let (mut tries, mut pauses) = (0, Vec::new());
    for turn in 0..12 {
        agent.says("assistant", "Yes.");
        agent.says("user", &format!("And {turn}?"));
        let body = agent.body();
        let turn = request(&mut session, &body, at(turn * 10)).await;
        tries += turn.notices.iter().filter(|line| line.starts_with("compacting at")).count();
        pauses.extend(turn.notices.into_iter().filter(|line| line.contains("compaction is paused: two")));
    }
    assert_eq!((tries, pauses.len()), (2, 1), "{pauses:?}");
    let pause = session.state().breaker.paused().copied().unwrap();
    assert!(pause.minimum_size > Tokens(9_000), "{pause:?}");
    assert!(pauses[0].contains(&pause.minimum_size.to_string()) && pauses[0].contains("larger window"), "{pauses:?}");

    let body = agent.body();
    let asked = session.run_command(SessionCommand::parse("/compress").unwrap(), &body, at(130)).await;
    assert!(says(&asked, "compacting at"), "by hand it works while it pauses: {:?}", asked.notices);
    let probe = request(&mut session, &body, at(500)).await;
    assert!(says(&probe, "compacting at"), "it is tried again after 300 s: {:?}", probe.notices);
    let body = agent.body();
    let quiet = request(&mut session, &body, at(510)).await;
    assert!(!says(&quiet, "compacting at"), "and pauses again: {:?}", quiet.notices);
    agent.fill(16_000);
    let body = agent.body();
    let regrown = request(&mut session, &body, at(520)).await;
    compacted(&regrown);
    assert_eq!(session.state().breaker.paused(), None, "what has regrown can be folded");
}

#[tokio::test]
async fn too_many_in_an_hour_pause_it() {
    let limits = SessionLimits { max_compactions_per_hour: 2, ..SessionLimits::default() };
    let mut session = LiveSession::new(SessionSettings { limits, ..settings(12_000) });
    let mut agent = Agent::new();
    let mut compactions = 0;
    for turn in 0..120 {
        agent.step(12);
        let body = agent.body();
        let turn = request(&mut session, &body, at(turn)).await;
        compactions += usize::from(turn.action == RequestAction::Compacted);
        if says(&turn, "too many compactions in an hour") {
            break;
        }
    }
    assert_eq!(compactions, 3);
    let body = agent.body();
    assert_ne!(request(&mut session, &body, NOON).await.action, RequestAction::Compacted);
}
