//! The metrics of a gateway, for Prometheus and for the summary line at the end of a run. All label values
//! come from short fixed lists, so the number of time series is bounded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_engine::prices::Dollars;
use longhaul_engine::{ApiFormat, Tokens};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use parking_lot::Mutex;

use crate::recall::RecallTool;
use crate::store::{TrafficAction, TrafficRecord};

/// Every metric with its description.
const METRIC_DESCRIPTIONS: [(&str, &str); 15] = [
    ("longhaul_recalls_total", "Recall calls that the gateway answered, by tool."),
    ("longhaul_cache_refreshes_total", "Requests that the gateway sent to keep a provider's cache from expiring."),
    ("longhaul_summaries_total", "Summaries that models were asked for in the background, by outcome."),
    (
        "longhaul_requests_total",
        "Requests to a model, by API format, by action, and by the class of the reply's status.",
    ),
    ("longhaul_passthrough_total", "Requests of other kinds, which pass through unchanged."),
    (
        "longhaul_tokens_total",
        "Tokens: before and after, as Longhaul counts; read, written, uncached and output, as the provider counts.",
    ),
    (
        "longhaul_bypassed_total",
        "Requests that passed through unchanged although they should have been processed, by reason.",
    ),
    (
        "longhaul_cache_misses_total",
        "Requests for which a cache miss was expected, or of which the provider read less than expected, by reason.",
    ),
    (
        "longhaul_without_store_total",
        "Requests whose session was in memory only, because the store was unavailable, by reason.",
    ),
    ("longhaul_retries_total", "Requests that were sent again after a refusal, by reason."),
    ("longhaul_dollars", "The cost of the requests, and how much less that is than without compaction."),
    ("longhaul_added_seconds", "Time that the gateway added to a request."),
    ("longhaul_answer_seconds", "Time from the request to the last byte of its reply."),
    ("longhaul_open_answers", "Replies that are being sent."),
    ("longhaul_live_sessions", "Sessions in memory."),
];
/// The reasons for passing a request through unchanged. Any other reason is counted as `other`.
const BYPASS_REASONS: [&str; 8] =
    ["busy", "deadline", "engine", "refused", "requested", "stateful", "store", "unreadable"];
const DURATION_BUCKETS_SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0];

/// The metrics of one gateway.
pub(super) struct Metrics {
    recorder: PrometheusRecorder,
    prometheus_handle: PrometheusHandle,
    open_replies: Arc<AtomicU64>,
    totals: Mutex<GatewayTotals>,
    /// The counters that were used before, by name and label values.
    counters: Mutex<HashMap<(&'static str, [&'static str; 3]), Counter>>,
    added_latency: Histogram,
    reply_duration: Histogram,
}

/// The totals of a gateway since it started.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GatewayTotals {
    /// The requests to models that were answered.
    pub requests: u64,
    /// The commands that were answered without a model.
    pub commands: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The requests for summaries that models answered.
    pub summaries: u64,
    /// The cost of the summaries whose prices are known. It is part of `spent`.
    pub spent_on_summaries: Dollars,
    /// The requests that passed through unchanged although they should have been processed.
    pub bypassed: u64,
    /// The requests whose session was in memory only, because the store was unavailable.
    pub requests_without_store: u64,
    /// The kind of store error that the newest of those requests had.
    pub store_error_kind: Option<&'static str>,
    /// The tokens of the requests as clients sent them.
    pub tokens_before: Tokens,
    /// The tokens of the requests as they were forwarded.
    pub tokens_after: Tokens,
    /// The prompt tokens that providers counted.
    pub input_tokens: Tokens,
    /// The prompt tokens that providers read from their caches.
    pub cache_read_tokens: Tokens,
    /// The cost of the requests whose prices are known.
    pub spent: Dollars,
    /// The cost without Longhaul minus the actual cost, for requests where both are known. A loss is
    /// negative.
    pub saved: Option<Dollars>,
}

/// A reply that is being sent, until this guard is dropped.
pub(super) struct OpenReply(Arc<AtomicU64>);

impl Drop for OpenReply {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(super) fn new() -> Self {
        let buckets = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &DURATION_BUCKETS_SECONDS)
            .unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = buckets.build_recorder();
        for (name, description) in METRIC_DESCRIPTIONS {
            recorder.describe_counter(name.into(), None, description.into());
        }
        let prometheus_handle = recorder.handle();
        let histogram = |name| recorder.register_histogram(&Key::from_static_name(name), &METADATA);
        let (added, took) = (histogram("longhaul_added_seconds"), histogram("longhaul_answer_seconds"));
        let counters = Mutex::default();
        Self {
            recorder,
            prometheus_handle,
            open_replies: Arc::default(),
            totals: Mutex::default(),
            counters,
            added_latency: added,
            reply_duration: took,
        }
    }

    /// Renders the page for Prometheus.
    pub(super) fn render(&self, live: usize) -> String {
        self.gauge("longhaul_open_answers").set(self.open_replies.load(Ordering::Relaxed) as f64);
        self.gauge("longhaul_live_sessions").set(live as f64);
        let totals = self.totals();
        for (kind, dollars) in [("spent", totals.spent), ("saved", totals.saved.unwrap_or(Dollars::ZERO))] {
            let key = Key::from_parts("longhaul_dollars", vec![Label::from_static_parts("kind", kind)]);
            self.recorder.register_gauge(&key, &METADATA).set(dollars.0);
        }
        self.prometheus_handle.run_upkeep();
        self.prometheus_handle.render()
    }

    /// Returns the totals so far.
    pub(super) fn totals(&self) -> GatewayTotals {
        *self.totals.lock()
    }

    /// Counts a reply as open until the guard is dropped.
    pub(super) fn begin_reply(&self) -> OpenReply {
        self.open_replies.fetch_add(1, Ordering::Relaxed);
        OpenReply(Arc::clone(&self.open_replies))
    }

    /// Counts a request that passes through because it is not to a model.
    pub(super) fn count_passthrough(&self) {
        self.increment("longhaul_passthrough_total", &[], 1);
    }

    /// Counts a request of ours that refreshed a provider's cache.
    pub(super) fn count_cache_refresh(&self) {
        self.increment("longhaul_cache_refreshes_total", &[], 1);
    }

    /// Counts a command that was answered.
    pub(super) fn count_command(&self) {
        self.totals.lock().commands += 1;
    }

    /// Counts a compaction that a person asked for.
    pub(super) fn count_manual_compaction(&self) {
        self.totals.lock().compactions += 1;
    }

    /// Counts a call of a recall tool.
    pub(super) fn count_recall(&self, tool: RecallTool) {
        self.increment("longhaul_recalls_total", &[("tool", tool.name())], 1);
    }

    /// Counts a request that was sent again after a refusal.
    pub(super) fn count_retry(&self, reason: &'static str) {
        self.increment("longhaul_retries_total", &[("reason", reason)], 1);
    }

    /// Counts a request that was answered while the store was unavailable.
    pub(super) fn count_without_store(&self, kind: &'static str) {
        self.increment("longhaul_without_store_total", &[("reason", kind)], 1);
        let mut totals = self.totals.lock();
        (totals.requests_without_store, totals.store_error_kind) = (totals.requests_without_store + 1, Some(kind));
    }

    /// Records a request to a model that was answered.
    pub(super) fn record_reply(
        &self,
        api_format: ApiFormat,
        status: u16,
        traffic: &TrafficRecord,
        miss: Option<&'static str>,
    ) {
        let class = match status {
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        let action = match &traffic.action {
            TrafficAction::Unchanged => "none",
            TrafficAction::Replayed => "replayed",
            TrafficAction::Compacted => "compacted",
            TrafficAction::Summary => "summary",
            TrafficAction::Bypassed(reason) => {
                let known_reason =
                    BYPASS_REASONS.iter().find(|known_reason| *known_reason == reason).unwrap_or(&"other");
                self.increment("longhaul_bypassed_total", &[("reason", known_reason)], 1);
                "bypassed"
            }
        };
        let labels = [("api_format", api_format.name()), ("action", action), ("status", class)];
        self.increment("longhaul_requests_total", &labels, 1);
        if let Some(miss) = miss {
            self.increment("longhaul_cache_misses_total", &[("reason", miss)], 1);
        }
        self.added_latency.record(traffic.added_time.as_secs_f64());
        self.reply_duration.record(traffic.total_time.as_secs_f64());
        {
            let mut totals = self.totals.lock();
            totals.requests += 1;
            totals.compactions += u64::from(traffic.action == TrafficAction::Compacted);
            totals.bypassed += u64::from(matches!(traffic.action, TrafficAction::Bypassed(_)));
        }
        self.add_usage(traffic);
    }

    /// Records a request of ours for a summary.
    pub(super) fn record_summary(&self, status: u16, traffic: &TrafficRecord) {
        let is_answered = (200..300).contains(&status);
        let outcome = if is_answered { "answered" } else { "failed" };
        self.increment("longhaul_summaries_total", &[("outcome", outcome)], 1);
        {
            let mut totals = self.totals.lock();
            totals.summaries += u64::from(is_answered);
            totals.spent_on_summaries += traffic.usd.unwrap_or(Dollars::ZERO);
        }
        self.add_usage(traffic);
    }

    /// Adds the tokens and the cost of a request to the totals.
    fn add_usage(&self, traffic: &TrafficRecord) {
        let usage = &traffic.usage;
        let uncached = usage.input.map(|_| usage.uncached());
        for (kind, tokens) in [
            ("before", Some(traffic.tokens_before)),
            ("after", Some(traffic.tokens_after)),
            ("read", usage.read),
            ("written", usage.written),
            ("uncached", uncached),
            ("output", usage.output),
        ] {
            if let Some(tokens) = tokens.filter(|tokens| *tokens > Tokens::ZERO) {
                self.increment("longhaul_tokens_total", &[("kind", kind)], tokens.number());
            }
        }
        let mut totals = self.totals.lock();
        (totals.tokens_before, totals.tokens_after) =
            (totals.tokens_before + traffic.tokens_before, totals.tokens_after + traffic.tokens_after);
        totals.input_tokens += usage.input.unwrap_or_default();
        totals.cache_read_tokens += usage.read.unwrap_or_default();
        totals.spent += traffic.usd.unwrap_or(Dollars::ZERO);
        if let (Some(spent), Some(without)) = (traffic.usd, traffic.usd_without_longhaul) {
            totals.saved = Some(totals.saved.unwrap_or(Dollars::ZERO) + (without - spent));
        }
    }

    fn increment(&self, name: &'static str, labels: &[(&'static str, &'static str)], more: u64) {
        let mut values = [""; 3];
        values.iter_mut().zip(labels).for_each(|(value, (_, label))| *value = label);
        let mut counters = self.counters.lock();
        let counter = counters.entry((name, values)).or_insert_with(|| {
            let labels = labels.iter().map(|(name, value)| Label::from_static_parts(name, value));
            self.recorder.register_counter(&Key::from_parts(name, labels.collect::<Vec<_>>()), &METADATA)
        });
        counter.increment(more);
    }

    fn gauge(&self, name: &'static str) -> Gauge {
        self.recorder.register_gauge(&Key::from_static_name(name), &METADATA)
    }
}

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);
