//! Summaries that a session's own model writes in the background: who is asked with which bytes, what it costs, and that no request of
//! the client waits or fails for it.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::prices::Dollars;
use longhaul_server::DailyBudget;
use longhaul_server::gateway::GatewaySettings;
use longhaul_server::session::{
    FirstWriter, OwnModel, SessionLimits, Summarizer, SummaryModels, SummaryStart, UnpricedModels,
};
use longhaul_server::upstream::Timeouts;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::agent::{Agent, Form, every_form};
use crate::ground::{Ground, header, settings, with_window};
use crate::simulator::{Next, Say, Seen, Settings, Simulator, says};

const WINDOW: u64 = 64_000;
/// What every request for a summary ends with.
const INSTRUCTION: &str = "Begin with the first heading.";
/// A sentence of the model's summary, which code would not write.
const SENTENCE: &str = "Every target that was tried stops in its own source file.";

fn is_summary_request(request: &Value) -> bool {
    request.to_string().contains(INSTRUCTION)
}

fn good_summary() -> Say {
    Say::text(format!(
        "## Active Task\n- Make the build green. Never touch the tests.\n\n## Active State\n- {SENTENCE}\n\n\
         ## Remaining Work\n- The build is not green yet.\n"
    ))
}

/// A model that answers requests for a summary in this way, and everything else with a few words.
fn model_that(writes: impl Fn() -> Say + Send + Sync + 'static) -> Settings {
    let speaker = says(
        move |request, number| {
            if is_summary_request(request) { writes() } else { Say::text(format!("ok {number}")) }
        },
    );
    Settings { speaker, ..Settings::window(WINDOW) }
}

/// Settings in which the session's own model is asked as the client.
fn asking(simulator: &Simulator, model: &str, share: f64, a_day: f64) -> GatewaySettings {
    let mut settings = with_window(settings(&simulator.origin()), model, WINDOW);
    settings.session.summarizer = Summarizer::Model(SummaryModels {
        auxiliary: None,
        own: Some(OwnModel::AsClient(settings.upstreams.clone())),
        first: FirstWriter::Auxiliary,
        timeouts: Timeouts::with_total(Duration::from_secs(20)),
        unpriced: UnpricedModels::Skip,
    });
    settings.session.summary_start = SummaryStart::AfterReply;
    settings.session.limits = SessionLimits {
        daily_budget: Some(Arc::new(DailyBudget::new(Dollars(a_day)))),
        max_summary_cost_share: Some(share),
        ..SessionLimits::default()
    };
    settings
}

/// What a session came to.
struct Course {
    /// All requests that the provider saw.
    seen: Vec<Seen>,
    /// The body that the provider got for the first compacted request.
    compacted: String,
}

impl Course {
    fn summary_requests(&self) -> Vec<&Seen> {
        self.seen.iter().filter(|seen| is_summary_request(&seen.value())).collect()
    }

    fn is_by_model(&self) -> bool {
        self.compacted.contains(SENTENCE)
    }
}

/// Lets an agent work until its session is compacted. Each request must be answered, and soon.
async fn work(ground: &Ground, simulator: &Simulator, agent: &mut Agent) -> Course {
    for _ in 0..200 {
        agent.step(60);
        let began = Instant::now();
        let response = ground.post_json(agent.path(), &agent.body()).await;
        let (status, action) = (response.status(), header(&response, "x-longhaul-action"));
        agent.hears(&response.bytes().await.unwrap());
        assert_eq!(status, 200);
        assert!(began.elapsed() < Duration::from_secs(5), "no request waits for a summary");
        agent.says("Go on.");
        let seen = simulator.seen();
        if action == "compacted" {
            let compacted = seen.iter().rfind(|seen| !is_summary_request(&seen.value())).unwrap().text().to_owned();
            return Course { seen, compacted };
        }
        // The next request of an agent comes when its tools have run.
        sleep(Duration::from_millis(30)).await;
    }
    panic!("nothing was compacted");
}

fn messages_form() -> Form {
    every_form().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_asked_as_the_client_with_the_bytes_that_were_just_sent() {
    for form in every_form() {
        let simulator = Simulator::start(model_that(good_summary)).await;
        let mut agent = Agent::new(form);
        let ground = Ground::start(asking(&simulator, agent.model(), 0.9, 2.0), &simulator).await;
        let course = work(&ground, &simulator, &mut agent).await;
        let [asked] = course.summary_requests()[..] else {
            panic!("{form:?}: one summary for one compaction, not {}", course.summary_requests().len())
        };
        assert_eq!((asked.path.as_str(), asked.status), (agent.path(), 200), "{form:?}");
        assert_eq!(asked.header("x-api-key"), Some("sk-client-of-the-test"), "{form:?}");
        // All that was sent before stands in front of the instruction, byte for byte but for the end of the list.
        let before = course.seen.iter().rfind(|seen| seen.number < asked.number).unwrap();
        let common = asked.text().bytes().zip(before.text().bytes()).take_while(|(a, b)| a == b).count();
        let list_end = before.text().rfind(']').unwrap();
        assert!(common >= before.text()[..list_end].rfind("Go on.").unwrap(), "{form:?}: {common} of {list_end}");
        let tokens = asked.tokens.unwrap();
        assert!(tokens.read * 10 >= (tokens.read + tokens.written + tokens.fresh) * 8, "{form:?}: {tokens:?}");
        assert!(course.is_by_model(), "{form:?}: {}", course.compacted);
        // It is billed to the session, and counts as no request of the client's.
        let totals = ground.gateway.totals();
        assert_eq!(totals.summaries, 1, "{form:?}");
        assert!(totals.spent_on_summaries > Dollars::ZERO && totals.spent > totals.spent_on_summaries, "{form:?}");
        let tenant = ground.store.get_or_create_tenant("local").await.unwrap();
        let stored = ground.store.tenant_totals(&tenant).await.unwrap();
        assert_eq!(stored.summaries, 1, "{form:?}");
        assert!(stored.usd_on_summaries.unwrap() < stored.usd.unwrap(), "{form:?}: it is a part of all that was spent");
        assert!(stored.requests as u64 <= totals.requests, "{form:?}: it counts as no request of the client");
        let day = longhaul_server::store::UtcDay::containing(longhaul_engine::Timestamp(1_780_000_000_000));
        let spent = ground.store.summary_spending(day).await.unwrap();
        assert!((spent.0 - totals.spent_on_summaries.0).abs() < 1e-8, "{form:?}: {spent:?}");
        assert!(simulator.refused().is_empty(), "{form:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_writes_nothing_useful_costs_the_client_nothing_but_its_price() {
    let calls = Say::call("bash", json!({"command": "rm -rf target"}));
    let cases =
        [("calls a tool", calls), ("says little", Say::text("Sure!")), ("refuses", Say::text("I cannot help."))];
    for (name, reply) in cases {
        let simulator = Simulator::start(model_that(move || reply.clone())).await;
        let mut agent = Agent::new(messages_form());
        let ground = Ground::start(asking(&simulator, agent.model(), 0.9, 2.0), &simulator).await;
        let course = work(&ground, &simulator, &mut agent).await;
        assert_eq!(course.summary_requests().len(), 1, "{name}: it is not asked again and again");
        assert!(!course.is_by_model(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_summary_replaces_the_text_by_code_once_the_cache_has_expired() {
    let simulator = Simulator::start(model_that(good_summary)).await;
    let mut agent = Agent::new(messages_form());
    let ground = Ground::start(asking(&simulator, agent.model(), 0.9, 2.0), &simulator).await;
    // Each request for a summary takes a while: the requests of the client come faster.
    simulator.delay(|body| body.contains(INSTRUCTION).then_some(Duration::from_secs(3)));
    let course = work(&ground, &simulator, &mut agent).await;
    assert!(!course.is_by_model(), "code wrote first");
    let begun = Instant::now();
    while ground.gateway.totals().summaries == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the summary is written");
        sleep(Duration::from_millis(50)).await;
    }
    let response = ground.post_json(agent.path(), &agent.body()).await;
    assert_eq!(header(&response, "x-longhaul-action"), "replayed", "a cached prefix is not changed for it");
    agent.hears(&response.bytes().await.unwrap());
    agent.says("Go on.");
    sleep(Duration::from_millis(100)).await;
    simulator.pass(Duration::from_mins(6));
    let response = ground.post_json(agent.path(), &agent.body()).await;
    assert_eq!(header(&response, "x-longhaul-action"), "compacted");
    response.bytes().await.unwrap();
    assert!(simulator.last().unwrap().text().contains(SENTENCE), "the model's text is in the checkpoint");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_model_is_asked_that_costs_too_much_or_whose_price_is_not_known() {
    let cases = [
        ("a share of nothing", 0.0, 2.0, None),
        ("no money left", 0.9, 0.0001, None),
        ("no price", 0.9, 2.0, Some("house-model")),
    ];
    for (name, share, a_day, model) in cases {
        let simulator = Simulator::start(model_that(good_summary)).await;
        let form = messages_form();
        let mut agent = model.map_or_else(|| Agent::new(form), |model| Agent::with_model(form, model));
        let ground = Ground::start(asking(&simulator, agent.model(), share, a_day), &simulator).await;
        let course = work(&ground, &simulator, &mut agent).await;
        assert!(course.summary_requests().is_empty(), "{name}");
        assert_eq!(ground.gateway.totals().summaries, 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_while_the_provider_limits_the_clients_rate() {
    let simulator = Simulator::start(model_that(good_summary)).await;
    let mut agent = Agent::new(messages_form());
    let ground = Ground::start(asking(&simulator, agent.model(), 0.9, 2.0), &simulator).await;
    for _ in 0..200 {
        agent.step(60);
        // Each request is refused once, and accepted when the client tries again.
        simulator.next(Next::Fails { status: 429, headers: vec![("retry-after", "1".to_owned())] });
        let refused = ground.post_json(agent.path(), &agent.body()).await;
        assert_eq!(refused.status(), 429);
        drop(refused.bytes().await);
        let response = ground.post_json(agent.path(), &agent.body()).await;
        let (status, action) = (response.status(), header(&response, "x-longhaul-action"));
        agent.hears(&response.bytes().await.unwrap());
        assert_eq!(status, 200);
        agent.says("Go on.");
        if action == "compacted" {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let asked = simulator.seen().iter().filter(|seen| is_summary_request(&seen.value())).count();
    assert_eq!(asked, 0);
}
