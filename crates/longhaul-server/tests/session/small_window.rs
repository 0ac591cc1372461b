//! Windows that are small beside what always stays, and compactions that are made early for money.

use longhaul_engine::Tokens;
use longhaul_engine::config::ModelOverride;
use longhaul_server::session::{LiveSession, RequestAction, SessionSettings};
use serde_json::{Value, json};

use super::world::{MODEL, at, settings, usage, valid};

/// What came of an agent's work.
#[derive(Debug, Default)]
struct Course {
    /// The sizes at which the session was compacted, and what was left.
    compactions: Vec<(Tokens, Tokens)>,
    results: usize,
    /// Results that were made shorter before the model could read them.
    cut_unread: usize,
    said: Vec<String>,
}

/// An agent with a large system prompt, which calls one or two tools with each request.
struct Work {
    model: &'static str,
    settings: SessionSettings,
    /// The tokens of the system prompt, about.
    system: usize,
    /// The length of the reply that it asks for.
    reply: Option<u64>,
    requests: usize,
    /// The lines of a result, of about ten tokens each.
    lines: fn(usize) -> usize,
}

impl Work {
    async fn run(self) -> Course {
        let rules: String = (0..self.system / 10).map(|n| format!("Rule {n} of the house is to be kept.\n")).collect();
        let mut messages = vec![
            json!({"role": "system", "content": rules}),
            json!({"role": "user", "content": "Make the build green. Never touch the tests."}),
        ];
        let mut session = LiveSession::new(self.settings);
        let mut course = Course::default();
        for n in 0..self.requests {
            let calls = 1 + n % 2;
            let ids: Vec<String> = (0..calls).map(|call| format!("call_{n}_{call}")).collect();
            let made: Vec<Value> = ids
                .iter()
                .map(|id| {
                    let arguments = json!({"command": format!("make {id}")}).to_string();
                    json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}})
                })
                .collect();
            let thoughts = format!("Target {n} does not build yet; I look at module{n}.rs and its {} callers.", n % 7);
            messages.push(json!({"role": "assistant", "content": thoughts, "tool_calls": made}));
            let mut unread = Vec::new();
            for id in &ids {
                let output: String = (0..(self.lines)(n) / calls)
                    .map(|line| format!("src/part{n}.rs:{line}: note: unit {id}_{line} was rebuilt\n"))
                    .collect();
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
                unread.push(json!(output).to_string());
            }
            let mut body = json!({"model": self.model, "messages": messages});
            if let Some(reply) = self.reply {
                body["max_tokens"] = reply.into();
            }
            let body = body.to_string();
            let turn = session.prepare_request(&body, at(20 * i64::try_from(n).unwrap())).await;
            valid(&turn.body);
            course.results += unread.len();
            course.cut_unread += unread.iter().filter(|text| !turn.body.contains(text.as_str())).count();
            if turn.action == RequestAction::Compacted {
                course.compactions.push((turn.measured.unwrap().tokens, turn.sizes.unwrap().sent));
            }
            course.said.extend(turn.notices.clone());
            session.record_reply(&usage(&turn.body)).await;
        }
        course
    }

    fn small_window() -> Self {
        let settings = settings(60_000);
        Self { model: MODEL, settings, system: 20_000, reply: None, requests: 48, lines: |n| 60 + 45 * (n % 5) }
    }
}

fn nearly_every_request(course: &Course) -> usize {
    course.said.iter().filter(|line| line.contains("nearly every request of this session is compacted")).count()
}

#[tokio::test]
async fn a_large_fixed_part_in_a_small_window_is_not_compacted_on_every_turn() {
    let course = Box::pin(Work::small_window().run()).await;
    println!(
        "no reply stated: {} compactions, {} of {} results cut unread",
        course.compactions.len(),
        course.cut_unread,
        course.results
    );
    assert!(course.compactions.len() <= 12, "{:?}", course.compactions);
    assert_eq!((course.cut_unread, course.results), (0, 72));
    // The minimum size plus a third of the rest of the window.
    for (tokens, _) in &course.compactions {
        assert!(*tokens >= Tokens(33_000), "{:?}", course.compactions);
    }
}

#[tokio::test]
async fn a_reply_that_fits_the_models_own_window_takes_no_room_in_a_smaller_one() {
    let mut work = Work::small_window();
    let stated = ModelOverride { context_length: Some(Tokens(60_000)), ..ModelOverride::default() };
    work.settings.config.models.insert("claude-sonnet-4-5".to_owned(), stated);
    (work.model, work.reply) = ("claude-sonnet-4-5", Some(32_000));
    let course = Box::pin(work.run()).await;
    println!(
        "32,000 of reply: {} compactions, {} of {} results cut unread",
        course.compactions.len(),
        course.cut_unread,
        course.results
    );
    assert!(course.compactions.len() <= 12, "{:?}", course.compactions);
    assert_eq!((course.cut_unread, nearly_every_request(&course)), (0, 0));
}

#[tokio::test]
async fn what_cannot_be_helped_is_said_once_and_unread_results_stay_while_they_fit() {
    let mut work = Work::small_window();
    work.reply = Some(30_000);
    let course = Box::pin(work.run()).await;
    println!(
        "a real window: {} compactions, {} of {} results cut unread",
        course.compactions.len(),
        course.cut_unread,
        course.results
    );
    assert_eq!(nearly_every_request(&course), 1, "{:?}", course.said);
    assert_eq!(course.cut_unread, 0);
}

#[tokio::test]
async fn a_threshold_in_tokens_wins_with_a_warning() {
    let mut work = Work::small_window();
    work.settings.config.compression.threshold_tokens = Some(Tokens(25_000));
    work.requests = 12;
    let course = Box::pin(work.run()).await;
    assert!(course.compactions[0].0 < Tokens(33_000), "{:?}", course.compactions);
    let warned = course.said.iter().filter(|line| line.contains("threshold_tokens of 25,000")).count();
    assert_eq!(warned, 1, "{:?}", course.said);
}

#[tokio::test]
async fn nothing_is_compacted_for_money_below_two_fifths_of_the_window_or_before_it_has_regrown() {
    let config = settings(128_000);
    let mut work = Work { model: "gpt-4o", settings: config, system: 6_000, ..Work::small_window() };
    (work.requests, work.lines) = (46, |n| 150 + 90 * (n % 5));
    let course = Box::pin(work.run()).await;
    println!("gpt-4o: {} compactions: {:?}", course.compactions.len(), course.compactions);
    assert!(!course.compactions.is_empty(), "it grows past the threshold");
    for (tokens, _) in &course.compactions {
        assert!(*tokens >= Tokens(51_200), "{:?}", course.compactions);
    }
    for pair in course.compactions.windows(2) {
        let [(before, left), (next, _)] = pair else { continue };
        let removed = before.number().saturating_sub(left.number());
        assert!(next.number() >= left.number() + removed / 3, "{pair:?}");
    }
}

#[tokio::test]
async fn an_expired_cache_may_be_compacted_earlier() {
    let mut session = LiveSession::new(settings(128_000));
    let mut agent = super::world::Agent::new();
    agent.model = "gpt-4o";
    agent.fill(40_000);
    for second in 0..8 {
        agent.step(30);
        let body = agent.body();
        let turn = session.prepare_request(&body, at(second)).await;
        assert_eq!(turn.action, RequestAction::Unchanged, "the cache is kept: {}", turn.reason);
        session.record_reply(&usage(&turn.body)).await;
    }
    let body = agent.body();
    let turn = session.prepare_request(&body, at(4_000)).await;
    assert!(turn.measured.unwrap().tokens < Tokens(51_200), "{:?}", turn.measured);
    assert_eq!(turn.action, RequestAction::Compacted, "{}", turn.reason);
}
