//! Work past its deadline ends, wherever it stands, and the session goes on with its next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhaul_engine::RewriteError;
use longhaul_engine::config::EngineName;
use longhaul_engine::plan::{Engine, EngineRegistry, Plan, PlanInput};
use longhaul_server::gateway::GatewayLimits;
use tokio::time::timeout;

use crate::ground::{Agent, Ground, header, settings, with_window};
use crate::simulator::{Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";
const NEVER: Duration = Duration::from_mins(1);

/// An engine that would plan for ever.
#[derive(Default)]
struct Endless {
    begun: AtomicUsize,
    stopped: AtomicUsize,
}

impl Engine for Endless {
    fn name(&self) -> EngineName {
        EngineName::from("endless".to_owned())
    }

    fn description(&self) -> &'static str {
        "plans for ever"
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while !input.options.cancel.is_cancelled() {
            assert!(start.elapsed() < NEVER, "nobody stops it");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.stopped.fetch_add(1, Ordering::SeqCst);
        Err(RewriteError::Cancelled)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_ends_with_the_deadline_or_with_its_client_and_frees_its_thread() {
    let simulator = Simulator::start(Settings::default()).await;
    let endless = Arc::new(Endless::default());
    let mut settings = with_window(settings(&simulator.origin()), MODEL, 16_000);
    settings.limits = GatewayLimits { deadline: Duration::from_millis(500), ..GatewayLimits::default() };
    settings.session.config.context.engine = endless.name();
    settings.session.engines = EngineRegistry::default().with(Arc::clone(&endless) as Arc<dyn Engine>);
    let ground = Ground::start(settings, &simulator).await;
    let mut agent = Agent::new(MODEL);
    (0..40).for_each(|_| agent.step(40));
    let stopped = |wanted: usize| {
        let endless = &endless;
        async move {
            while endless.stopped.load(Ordering::SeqCst) < wanted {
                tokio::task::yield_now().await;
            }
        }
    };
    // More often than there are threads: each is free again.
    for n in 1..=10 {
        agent.step(2);
        let response = ground.post_json("/v1/messages", &agent.body()).await;
        assert_eq!(header(&response, "x-longhaul-action"), "bypassed:deadline");
        timeout(NEVER, stopped(n)).await.expect("it is stopped");
    }
    // A client that leaves is not worked for either.
    agent.step(2);
    let begun = endless.begun.load(Ordering::SeqCst);
    let body = agent.body();
    let mut leaving = Box::pin(ground.post_json("/v1/messages", &body));
    while endless.begun.load(Ordering::SeqCst) == begun {
        let _ = timeout(Duration::from_millis(5), &mut leaving).await;
    }
    drop(leaving);
    timeout(NEVER, stopped(begun + 1)).await.expect("it is stopped");
}
