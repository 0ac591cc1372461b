//! A model's summary is begun early, used when it is ready, ended when nobody wants it, and never paid twice.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::plan::WrittenBy;
use longhaul_engine::prices::{Dollars, TokenPrices};
use longhaul_server::DailyBudget;
use longhaul_server::session::{
    FirstWriter, LiveSession, OwnModel, RequestAction, SessionLimits, SessionSettings, Summarizer, SummaryModels,
    UnpricedModels,
};
use longhaul_server::upstream::{SummaryRequestBody, UpstreamError};
use tokio::time::Instant;

use super::script::{AUXILIARY, Script, asking, bad, both, good, upstream, writer};
use super::world::{Agent, MODEL, at, compacted_by, request, says, settings, usage};

pub(crate) const WINDOW: u64 = 20_000;

/// Goes on turn by turn, a second of the runtime's clock each, until a turn is as it is waited for; the seconds that it took.
pub(crate) async fn until(
    session: &mut LiveSession,
    agent: &mut Agent,
    from: i64,
    wanted: impl Fn(&longhaul_server::session::PreparedRequest<'_>) -> bool,
) -> (i64, Vec<String>, Option<WrittenBy>) {
    for turn in from..from + 400 {
        agent.step(8);
        let body = agent.body();
        let done = request(session, &body, at(turn)).await;
        session.record_reply(&usage(&done.body)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        if wanted(&done) {
            let by = done.report.as_ref().and_then(|report| report.checkpoint.as_ref()).map(|made| made.by);
            return (turn + 1, done.notices, by);
        }
    }
    panic!("it never happened");
}

pub(crate) fn is_compacted(turn: &longhaul_server::session::PreparedRequest<'_>) -> bool {
    turn.action == RequestAction::Compacted
}

#[tokio::test(start_paused = true)]
async fn it_begins_at_80_percent_and_is_used_at_the_threshold_without_waiting() {
    let script = Script::new([good(3)]);
    let mut session = LiveSession::new(asking(settings(WINDOW))).with_models(script.clone());
    let mut agent = Agent::new();
    let begun = |turn: &longhaul_server::session::PreparedRequest<'_>| says(turn, "is writing a summary");
    let (now, ..) = until(&mut session, &mut agent, 0, begun).await;
    let body = agent.body();
    let tokens = session.prepare_request(&body, at(now)).await.measured.unwrap().tokens.number();
    assert!((8_000..9_000).contains(&tokens), "80 % of the threshold of 10,000: {tokens}");
    let began = Instant::now();
    let (now, said, by) = until(&mut session, &mut agent, now, is_compacted).await;
    assert!(began.elapsed() > Duration::from_secs(4), "there was time for it");
    assert!(!said.is_empty());
    assert_eq!(by, Some(WrittenBy::Model));
    assert_eq!((script.models(), script.answered()), (vec![AUXILIARY.to_owned()], 1));
    until(&mut session, &mut agent, now, is_compacted).await;
    assert_eq!(script.asked().len(), 2, "one for each compaction");
}

#[tokio::test(start_paused = true)]
async fn who_may_wait_waits_just_so_long() {
    let patient = SessionSettings { max_summary_wait: Duration::from_secs(20), ..asking(settings(WINDOW)) };
    let script = Script::new([good(12)]);
    let mut session = LiveSession::new(patient).with_models(script);
    let mut agent = Agent::new();
    agent.fill(14_000);
    let (body, began) = (agent.body(), Instant::now());
    let turn = request(&mut session, &body, at(0)).await;
    assert_eq!(began.elapsed(), Duration::from_secs(12));
    assert_eq!(compacted_by(&turn), WrittenBy::Model);
}

#[tokio::test(start_paused = true)]
async fn it_is_ended_with_the_session_by_a_reset_and_when_its_units_change() {
    for end in ["dropped", "reset", "changed"] {
        let script = Script::new([good(30)]);
        let mut session = LiveSession::new(asking(settings(WINDOW))).with_models(script.clone());
        let mut agent = Agent::new();
        agent.fill(7_400);
        let body = agent.body();
        let turn = request(&mut session, &body, at(0)).await;
        assert!(says(&turn, "is writing a summary"), "{:?}: {}", turn.notices, turn.reason);
        tokio::time::sleep(Duration::from_secs(1)).await;
        match end {
            "dropped" => drop(session),
            "reset" => session.reset(),
            _ => {
                agent.messages[1]["content"] = "Something else. Never touch the tests.".into();
                agent.messages.truncate(20);
                let body = agent.body();
                request(&mut session, &body, at(2)).await;
            }
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!((script.asked().len(), script.answered()), (1, 0), "{end}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_units_are_never_asked_for_twice() {
    let script = Script::new([bad(0, UpstreamError::CutShort)]);
    let mut session = LiveSession::new(asking(settings(WINDOW))).with_models(script.clone());
    let mut agent = Agent::new();
    agent.fill(7_400);
    let body = agent.body();
    for turn in 0..20 {
        request(&mut session, &body, at(turn * 100)).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
    }
    assert_eq!(script.models(), [AUXILIARY, "house-model"]);
}

/// Dollars for a million tokens.
fn price(input: f64) -> TokenPrices {
    TokenPrices { input, write_5m: input, write_1h: input, read: input / 10.0, output: input * 5.0, long: None }
}

fn paying(a_day: Dollars) -> SessionSettings {
    let mut auxiliary = writer(AUXILIARY);
    auxiliary.price = Some(price(1.0));
    let daily_budget = Some(Arc::new(DailyBudget::new(a_day)));
    SessionSettings {
        summarizer: Summarizer::Model(SummaryModels::auxiliary(auxiliary)),
        limits: SessionLimits { daily_budget, ..SessionLimits::default() },
        ..settings(WINDOW)
    }
}

#[tokio::test(start_paused = true)]
async fn a_price_is_counted_once_and_a_days_limit_ends_the_asking() {
    let script = Script::new([good(0)]);
    let settings = paying(Dollars(0.10));
    let budget = settings.limits.daily_budget.clone().unwrap();
    let mut session = LiveSession::new(settings).with_models(script.clone());
    let mut agent = Agent::new();
    agent.fill(7_400);
    let body = agent.body();
    request(&mut session, &body, at(0)).await;
    let estimated = budget.spent(at(0));
    assert!(estimated > Dollars(0.005), "the price is estimated beforehand: {estimated:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    request(&mut session, &body, at(1)).await;
    let paid = budget.spent(at(1));
    assert!((paid.0 - 0.0015).abs() < 1e-9, "then it is what was reported, once: {paid:?}");

    let script = Script::new([good(0)]);
    let mut poor = LiveSession::new(paying(Dollars(0.001))).with_models(script.clone());
    let turn = request(&mut poor, &body, at(0)).await;
    assert!(says(&turn, "the daily limit of"), "{:?}", turn.notices);
    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_skips_unpriced_models_asks_nobody_whose_price_is_not_known_and_a_reset_spends_nothing_back() {
    let mut settings = paying(Dollars(0.10));
    let Summarizer::Model(models) = &mut settings.summarizer else { panic!("a model is asked") };
    (models.own, models.unpriced) = (Some(OwnModel::At(upstream())), UnpricedModels::Skip);
    let budget = settings.limits.daily_budget.clone().unwrap();
    let script = Script::new([bad(0, UpstreamError::CutShort)]);
    let mut session = LiveSession::new(settings).with_models(script.clone());
    let mut agent = Agent::new();
    agent.fill(7_400);
    let body = agent.body();
    request(&mut session, &body, at(0)).await;
    let spent = budget.spent(at(0));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(script.models(), [AUXILIARY], "what the session's own model costs is not known");
    session.reset();
    assert!(spent > Dollars::ZERO);
    assert_eq!(budget.spent(at(1)), spent);
}

#[tokio::test(start_paused = true)]
async fn where_that_is_cheaper_the_sessions_own_request_is_extended() {
    let mut settings = settings(WINDOW);
    let row = settings.config.models.get_mut(MODEL).unwrap();
    row.capabilities.insert("caching".to_owned(), "automatic".into());
    row.capabilities.insert("cache_minimum".to_owned(), 1_000.into());
    // So dear to write and so cheap to read that nothing is compacted before the threshold.
    row.prices.input = Some(10.0);
    row.prices.output = Some(0.1);
    row.prices.cache_read = Some(0.001);
    row.prices.cache_write = Some(10.0);
    row.prices.cache_write_1h = Some(10.0);
    let mut auxiliary = writer(AUXILIARY);
    auxiliary.price = Some(price(10.0));
    let summarizer = both(auxiliary, FirstWriter::Auxiliary);
    let script = Script::new([good(0)]);
    let mut session = LiveSession::new(SessionSettings { summarizer, ..settings }).with_models(script.clone());
    let mut agent = Agent::new();
    agent.fill(4_000);
    let mut sent = String::new();
    for turn in 0..60 {
        let body = agent.body();
        let done = request(&mut session, &body, at(turn)).await;
        session.record_reply(&usage(&done.body)).await;
        sent = done.body.into_owned();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !script.asked().is_empty() {
            break;
        }
        agent.step(8);
    }
    let asked = script.asked();
    let SummaryRequestBody::Raw { body, .. } = &asked[0].body else { panic!("{:?}", script.models()) };
    assert!(body.starts_with(sent.trim_end_matches("]}")), "the same bytes, and the question behind them");
}

#[tokio::test(start_paused = true)]
async fn a_small_auxiliary_window_is_named_at_the_start() {
    let mut small = writer(AUXILIARY);
    small.model.facts.window = longhaul_engine::Tokens(6_000);
    let summarizer = Summarizer::Model(SummaryModels::auxiliary(small));
    let script = Script::new([good(0)]);
    let mut session = LiveSession::new(SessionSettings { summarizer, ..settings(WINDOW) }).with_models(script);
    let body = Agent::new().body();
    let turn = request(&mut session, &body, at(0)).await;
    assert!(says(&turn, "it is asked in parts"), "{:?}", turn.notices);
    let again = request(&mut session, &body, at(1)).await;
    assert!(again.notices.is_empty(), "once: {:?}", again.notices);
}

#[tokio::test(start_paused = true)]
async fn by_default_no_model_is_asked() {
    let script = Script::new([good(0)]);
    let mut session = LiveSession::new(settings(WINDOW)).with_models(Arc::clone(&script) as Arc<_>);
    let mut agent = Agent::new();
    until(&mut session, &mut agent, 0, is_compacted).await;
    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_the_evidence_is_dense_auto_asks_the_sessions_own_model_and_says_so() {
    for (first, wanted) in [(FirstWriter::Auto, MODEL), (FirstWriter::Auxiliary, AUXILIARY)] {
        let summarizer = both(writer(AUXILIARY), first);
        let script = Script::new([good(0)]);
        let max_wait = Duration::from_secs(1);
        let mut session =
            LiveSession::new(SessionSettings { summarizer, max_summary_wait: max_wait, ..settings(10_000) })
                .with_models(script.clone());
        let mut agent = Agent::new();
        agent.fill(30_000);
        let body = agent.body();
        let turn = request(&mut session, &body, at(0)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(script.models()[0], wanted, "{:?}", turn.report.unwrap().evidence);
        assert_eq!(
            turn.notices.iter().any(|line| line.contains("the session has many details")),
            first == FirstWriter::Auto
        );
    }
}

/// A gateway runs sessions on threads of its own.
#[test]
fn a_session_can_be_sent_to_another_thread() {
    fn can_be_sent(_: impl Send) {}
    let (mut session, body) = (LiveSession::new(settings(WINDOW)), String::new());
    can_be_sent(session.prepare_request(&body, at(0)));
    can_be_sent(session);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_would_wait_for_or_use_is_not_begun() {
    let script = Script::new([good(0)]);
    let mut session = LiveSession::new(asking(settings(WINDOW))).with_models(script.clone());
    let mut agent = Agent::new();
    agent.fill(14_000);
    let body = agent.body();
    let turn = request(&mut session, &body, at(0)).await;
    assert_eq!(compacted_by(&turn), WrittenBy::Code);
    assert!(script.asked().is_empty(), "it is not known yet that the client sends its units again");
    agent.fill(agent.body().len() / 4 + 9_000);
    let body = agent.body();
    compacted_by(&request(&mut session, &body, at(1)).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(script.models(), [AUXILIARY], "it does");
    agent.fill(agent.body().len() / 4 + 9_000);
    let body = agent.body();
    let turn = request(&mut session, &body, at(2)).await;
    assert_eq!(compacted_by(&turn), WrittenBy::Model, "{:?}", turn.notices);
}
