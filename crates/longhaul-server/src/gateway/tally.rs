//! What a gateway counts: for the page of Prometheus, and for the line at the end of a run. Labels are words out of short lists.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_engine::prices::Dollars;
use longhaul_engine::{Dialect, Tokens};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::store::{Action as TrafficAction, Traffic};

/// Every metric, with what it says.
const NAMES: [(&str, &str); 11] = [
    (
        "longhaul_requests_total",
        "Requests to a model, by dialect, by what was done with them, and by the class of the answer's status.",
    ),
    ("longhaul_passed_total", "Requests of other kinds, which pass as they came."),
    (
        "longhaul_tokens_total",
        "Tokens of prompts: before and after, as we count; read, written, fresh and output, as the provider does.",
    ),
    (
        "longhaul_bypassed_total",
        "Requests that went through as they came although more was meant to be done, by reason.",
    ),
    (
        "longhaul_cache_misses_total",
        "Requests of which the provider read less than it had been sent before, by reason.",
    ),
    ("longhaul_retries_total", "Requests that were sent again after a refusal, by reason."),
    ("longhaul_dollars_total", "What requests cost, and what they would have cost as they came."),
    ("longhaul_added_seconds", "Time that a request took for having gone through the gateway."),
    ("longhaul_answer_seconds", "Time from the request to the last byte of its answer."),
    ("longhaul_open_answers", "Answers that are on their way back."),
    ("longhaul_live_sessions", "Sessions that are held in memory."),
];
const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0];

/// The counts of one gateway.
pub(super) struct Tally {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    open: Arc<AtomicU64>,
    sums: Mutex<Sums>,
}

/// What a gateway did since it began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    /// Requests to models that were answered.
    pub requests: u64,
    /// Compactions.
    pub compactions: u64,
    /// Requests that went through as they came although more was meant to be done.
    pub bypassed: u64,
    /// Their tokens as they came,
    pub before: Tokens,
    /// and as they went on.
    pub after: Tokens,
    /// What providers counted of prompts,
    pub input: Tokens,
    /// and what of that they had in their caches.
    pub read: Tokens,
    /// What it cost, where prices are known,
    pub spent: Dollars,
    /// and what it would have cost.
    pub without: Dollars,
}

/// An answer that is on its way, as long as this is held.
pub(super) struct Open(Arc<AtomicU64>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tally {
    pub(super) fn new() -> Self {
        let buckets = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = buckets.build_recorder();
        for (name, says) in NAMES {
            recorder.describe_counter(name.into(), None, says.into());
        }
        let handle = recorder.handle();
        Self { recorder, handle, open: Arc::default(), sums: Mutex::default() }
    }

    /// The page.
    pub(super) fn page(&self, live: usize) -> String {
        self.gauge("longhaul_open_answers").set(self.open.load(Ordering::Relaxed) as f64);
        self.gauge("longhaul_live_sessions").set(live as f64);
        self.handle.run_upkeep();
        self.handle.render()
    }

    /// What was done so far.
    pub(super) fn sums(&self) -> Sums {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer begins.
    pub(super) fn open(&self) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(&self.open))
    }

    /// Something that passes as it came.
    pub(super) fn passed(&self) {
        self.counter("longhaul_passed_total", Vec::new()).increment(1);
    }

    /// A request was sent again.
    pub(super) fn again(&self, reason: &'static str) {
        self.counter("longhaul_retries_total", vec![Label::from_static_parts("reason", reason)]).increment(1);
    }

    /// A request was answered.
    pub(super) fn answered(
        &self,
        dialect: Dialect,
        status: u16,
        traffic: &Traffic,
        miss: Option<&'static str>,
    ) {
        let class = match status {
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        let action = match &traffic.action {
            TrafficAction::None => "none",
            TrafficAction::Replayed => "replayed",
            TrafficAction::Compacted => "compacted",
            TrafficAction::Bypassed(reason) => {
                let reason = Label::new("reason", reason.clone());
                self.counter("longhaul_bypassed_total", vec![reason]).increment(1);
                "bypassed"
            }
        };
        let label = Label::from_static_parts;
        let labels = vec![label("dialect", dialect.name()), label("action", action), label("status", class)];
        self.counter("longhaul_requests_total", labels).increment(1);
        if let Some(miss) = miss {
            self.counter("longhaul_cache_misses_total", vec![label("reason", miss)]).increment(1);
        }
        let usage = &traffic.usage;
        let fresh = usage.input.map(|_| usage.fresh());
        for (kind, tokens) in [
            ("before", Some(traffic.before)),
            ("after", Some(traffic.after)),
            ("read", usage.read),
            ("written", usage.written),
            ("fresh", fresh),
            ("output", usage.output),
        ] {
            let tokens = tokens.unwrap_or_default().number();
            self.counter("longhaul_tokens_total", vec![label("kind", kind)]).increment(tokens);
        }
        self.seconds("longhaul_added_seconds", traffic.added);
        self.seconds("longhaul_answer_seconds", traffic.took);
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.requests += 1;
        sums.compactions += u64::from(traffic.action == TrafficAction::Compacted);
        sums.bypassed += u64::from(matches!(traffic.action, TrafficAction::Bypassed(_)));
        (sums.before, sums.after) = (sums.before + traffic.before, sums.after + traffic.after);
        sums.input = sums.input + usage.input.unwrap_or_default();
        sums.read = sums.read + usage.read.unwrap_or_default();
        if let (Some(spent), Some(without)) = (traffic.usd, traffic.usd_without) {
            (sums.spent, sums.without) =
                (Dollars(sums.spent.0 + spent.0), Dollars(sums.without.0 + without.0));
            for (kind, dollars) in [("spent", sums.spent), ("without", sums.without)] {
                let key = Key::from_parts("longhaul_dollars_total", vec![label("kind", kind)]);
                self.recorder.register_gauge(&key, &META).set(dollars.0);
            }
        }
    }

    fn counter(&self, name: &'static str, labels: Vec<Label>) -> Counter {
        self.recorder.register_counter(&Key::from_parts(name, labels), &META)
    }

    fn gauge(&self, name: &'static str) -> Gauge {
        self.recorder.register_gauge(&Key::from_static_name(name), &META)
    }

    fn histogram(&self, name: &'static str) -> Histogram {
        self.recorder.register_histogram(&Key::from_static_name(name), &META)
    }

    fn seconds(&self, name: &'static str, time: Duration) {
        self.histogram(name).record(time.as_secs_f64());
    }
}

static META: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);
