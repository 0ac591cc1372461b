//! What a gateway counts: for the page of Prometheus, and for the line at the end of a run. Labels are words out of short lists.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_engine::prices::Dollars;
use longhaul_engine::{Dialect, Tokens};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::recall::Tool;
use crate::store::{Action as TrafficAction, Traffic};

/// Every metric, with what it says.
const NAMES: [(&str, &str); 14] = [
    ("longhaul_recalls_total", "Calls of recall tools that were answered, by tool."),
    ("longhaul_kept_warm_total", "Requests of our own that keep what is cached from lapsing."),
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
    (
        "longhaul_without_store_total",
        "Requests whose session was in memory only, because the store was unavailable, by reason.",
    ),
    ("longhaul_retries_total", "Requests that were sent again after a refusal, by reason."),
    (
        "longhaul_dollars",
        "What requests cost, and how much less that is than the same requests without compaction.",
    ),
    ("longhaul_added_seconds", "Time that a request took for having gone through the gateway."),
    ("longhaul_answer_seconds", "Time from the request to the last byte of its answer."),
    ("longhaul_open_answers", "Answers that are on their way back."),
    ("longhaul_live_sessions", "Sessions that are held in memory."),
];
/// The reasons for which a request goes through as it came.
const BYPASSES: [&str; 8] =
    ["asked", "busy", "deadline", "engine", "refused", "stateful", "store", "unreadable"];
const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0];

/// The counts of one gateway.
pub(super) struct Tally {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    open: Arc<AtomicU64>,
    sums: Mutex<Sums>,
    /// Counters that were asked for before.
    counters: Mutex<HashMap<(&'static str, [&'static str; 3]), Counter>>,
    added: Histogram,
    took: Histogram,
}

/// What a gateway did since it began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    /// Requests to models that were answered.
    pub requests: u64,
    /// Commands that were answered without a model.
    pub commands: u64,
    /// Compactions.
    pub compactions: u64,
    /// Requests that went through as they came although more was meant to be done.
    pub bypassed: u64,
    /// Requests whose session was in memory only, because the store was unavailable,
    pub without_store: u64,
    /// and why, in a word or two, of the newest of them.
    pub store_trouble: Option<&'static str>,
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
    /// and how much less that is than the same requests without compaction, where both are known. A loss is negative.
    pub saved: Option<Dollars>,
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
        let histogram = |name| recorder.register_histogram(&Key::from_static_name(name), &META);
        let (added, took) = (histogram("longhaul_added_seconds"), histogram("longhaul_answer_seconds"));
        let counters = Mutex::default();
        Self { recorder, handle, open: Arc::default(), sums: Mutex::default(), counters, added, took }
    }

    /// The page.
    pub(super) fn page(&self, live: usize) -> String {
        self.gauge("longhaul_open_answers").set(self.open.load(Ordering::Relaxed) as f64);
        self.gauge("longhaul_live_sessions").set(live as f64);
        let sums = self.sums();
        for (kind, dollars) in [("spent", sums.spent), ("saved", sums.saved.unwrap_or(Dollars::ZERO))] {
            let key = Key::from_parts("longhaul_dollars", vec![Label::from_static_parts("kind", kind)]);
            self.recorder.register_gauge(&key, &META).set(dollars.0);
        }
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
        self.count("longhaul_passed_total", &[], 1);
    }

    /// What a session has cached was read again, so that it stays.
    pub(super) fn kept_warm(&self) {
        self.count("longhaul_kept_warm_total", &[], 1);
    }

    /// A command was answered.
    pub(super) fn commanded(&self) {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).commands += 1;
    }

    /// A session was compacted because somebody typed so.
    pub(super) fn compacted_by_hand(&self) {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).compactions += 1;
    }

    /// A model reached back.
    pub(super) fn recalled(&self, tool: Tool) {
        self.count("longhaul_recalls_total", &[("tool", tool.name())], 1);
    }

    /// A request was sent again.
    pub(super) fn again(&self, reason: &'static str) {
        self.count("longhaul_retries_total", &[("reason", reason)], 1);
    }

    /// A request was answered while the store was unavailable.
    pub(super) fn without_store(&self, kind: &'static str) {
        self.count("longhaul_without_store_total", &[("reason", kind)], 1);
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        (sums.without_store, sums.store_trouble) = (sums.without_store + 1, Some(kind));
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
                let known = BYPASSES.iter().find(|known| *known == reason).unwrap_or(&"other");
                self.count("longhaul_bypassed_total", &[("reason", known)], 1);
                "bypassed"
            }
        };
        let labels = [("dialect", dialect.name()), ("action", action), ("status", class)];
        self.count("longhaul_requests_total", &labels, 1);
        if let Some(miss) = miss {
            self.count("longhaul_cache_misses_total", &[("reason", miss)], 1);
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
            if let Some(tokens) = tokens.filter(|tokens| *tokens > Tokens::ZERO) {
                self.count("longhaul_tokens_total", &[("kind", kind)], tokens.number());
            }
        }
        self.added.record(traffic.added.as_secs_f64());
        self.took.record(traffic.took.as_secs_f64());
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.requests += 1;
        sums.compactions += u64::from(traffic.action == TrafficAction::Compacted);
        sums.bypassed += u64::from(matches!(traffic.action, TrafficAction::Bypassed(_)));
        (sums.before, sums.after) = (sums.before + traffic.before, sums.after + traffic.after);
        sums.input += usage.input.unwrap_or_default();
        sums.read += usage.read.unwrap_or_default();
        sums.spent += traffic.usd.unwrap_or(Dollars::ZERO);
        if let (Some(spent), Some(without)) = (traffic.usd, traffic.usd_without) {
            sums.saved = Some(sums.saved.unwrap_or(Dollars::ZERO) + (without - spent));
        }
    }

    fn count(&self, name: &'static str, labels: &[(&'static str, &'static str)], more: u64) {
        let mut values = [""; 3];
        values.iter_mut().zip(labels).for_each(|(value, (_, label))| *value = label);
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counters.entry((name, values)).or_insert_with(|| {
            let labels = labels.iter().map(|(name, value)| Label::from_static_parts(name, value));
            self.recorder.register_counter(&Key::from_parts(name, labels.collect::<Vec<_>>()), &META)
        });
        counter.increment(more);
    }

    fn gauge(&self, name: &'static str) -> Gauge {
        self.recorder.register_gauge(&Key::from_static_name(name), &META)
    }
}

static META: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);
