//! The data of the dashboard: the pages render these values, and `/api` serializes the same values as JSON.

mod action_results;
mod recall;
mod session;

use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Dollars;
use serde::Serialize;

pub(in crate::gateway::dashboard) use action_results::{CompressResult, MoveResult};
pub(in crate::gateway::dashboard) use recall::{AdjacentExcerpt, OpenedBlock, SearchResult, SearchResults};
pub(in crate::gateway::dashboard) use session::{
    CompactionDetails, CompactionRow, DiffBase, RequestPage, RequestRow, SessionDetails, TimelinePoint,
};

use crate::store::{TimeBucket, TrafficRecord, TrafficTotals};
use longhaul_engine::Timestamp;

/// The time range of an overview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::gateway::dashboard) enum TimeRange {
    /// The last 24 hours.
    Day,
    /// The last seven days.
    Week,
    /// Everything that the store has.
    #[default]
    All,
}

impl TimeRange {
    pub(in crate::gateway::dashboard) const ALL: [Self; 3] = [Self::Day, Self::Week, Self::All];

    pub(in crate::gateway::dashboard) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::All => "all",
        }
    }

    /// Returns the label of the range on the page.
    pub(in crate::gateway::dashboard) fn label(self) -> &'static str {
        match self {
            Self::Day => "last 24 hours",
            Self::Week => "last 7 days",
            Self::All => "all time",
        }
    }

    /// Returns the range with this name; [`TimeRange::All`] for any other text.
    pub(in crate::gateway::dashboard) fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|range| range.name() == name).unwrap_or_default()
    }

    /// Returns the start of the range.
    pub(in crate::gateway::dashboard) fn start(self, now: Timestamp) -> Timestamp {
        const DAY: i64 = 86_400_000;
        match self {
            Self::Day => Timestamp(now.0 - DAY),
            Self::Week => Timestamp(now.0 - 7 * DAY),
            Self::All => Timestamp(i64::MIN),
        }
    }
}

/// Serializes a time as text in RFC 3339.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "that is how it is called")]
fn serialize_timestamp<S: serde::Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

/// The totals of several requests. A field is `None` if no request reported it.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct RequestTotals {
    pub(in crate::gateway::dashboard) requests: usize,
    /// The number of summaries that models wrote in the background.
    pub(in crate::gateway::dashboard) summaries: usize,
    /// The number of requests with which a new compaction was made.
    pub(in crate::gateway::dashboard) compacted: usize,
    /// The number of requests that were passed through unchanged although they should have been processed.
    pub(in crate::gateway::dashboard) bypassed: usize,
    pub(in crate::gateway::dashboard) tokens_before: Tokens,
    pub(in crate::gateway::dashboard) tokens_after: Tokens,
    /// The input tokens as the provider counted them.
    pub(in crate::gateway::dashboard) input: Option<Tokens>,
    /// The tokens read from the cache as the provider counted them.
    pub(in crate::gateway::dashboard) cache_read: Option<Tokens>,
    /// The tokens written to the cache as the provider counted them.
    pub(in crate::gateway::dashboard) cache_written: Option<Tokens>,
    /// The output tokens as the provider counted them.
    pub(in crate::gateway::dashboard) output: Option<Tokens>,
    /// The share of the input tokens that the provider read from its cache, from 0 to 1.
    pub(in crate::gateway::dashboard) read_share: Option<f64>,
    pub(in crate::gateway::dashboard) usd_spent: Option<Dollars>,
    /// The dollars saved by compactions; a negative amount is a loss.
    pub(in crate::gateway::dashboard) usd_saved: Option<Dollars>,
    /// The dollars spent on summaries, which are part of `usd_spent`.
    pub(in crate::gateway::dashboard) usd_on_summaries: Option<Dollars>,
}

impl RequestTotals {
    /// Returns what the money was spent on, in words for a tile.
    pub(in crate::gateway::dashboard) fn spending_note(&self) -> String {
        let cost = self.usd_on_summaries.map_or_else(String::new, |usd| format!(" for {usd}"));
        match self.summaries {
            0 => "where prices are known".to_owned(),
            1 => format!("with 1 summary{cost}"),
            count => format!("with {count} summaries{cost}"),
        }
    }
}

impl From<&TrafficTotals> for RequestTotals {
    fn from(totals: &TrafficTotals) -> Self {
        Self {
            requests: totals.requests,
            summaries: totals.summaries,
            compacted: totals.compacted,
            bypassed: totals.bypassed,
            tokens_before: totals.tokens_before,
            tokens_after: totals.tokens_after,
            input: totals.usage.input,
            cache_read: totals.usage.read,
            cache_written: totals.usage.written,
            output: totals.usage.output,
            read_share: totals.cache_read_share(),
            usd_spent: totals.usd,
            usd_saved: totals.usd_saved,
            usd_on_summaries: totals.usd_on_summaries,
        }
    }
}

/// The time that the gateway added to requests, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(in crate::gateway::dashboard) struct AddedLatency {
    pub(in crate::gateway::dashboard) median: Option<f64>,
    pub(in crate::gateway::dashboard) p95: Option<f64>,
}

impl AddedLatency {
    pub(in crate::gateway::dashboard) fn new(median: Option<Duration>, p95: Option<Duration>) -> Self {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self { median: median.map(millis), p95: p95.map(millis) }
    }

    /// Computes the percentiles of a list of requests.
    pub(in crate::gateway::dashboard) fn from_traffic(traffic: &[TrafficRecord]) -> Self {
        let mut added: Vec<Duration> = traffic.iter().map(|one| one.added_time).collect();
        added.sort_unstable();
        let at = |share: f64| {
            let last = added.len().checked_sub(1)?;
            added.get((last as f64 * share).round() as usize).copied()
        };
        Self::new(at(0.5), at(0.95))
    }
}

/// A warning about one session.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct SessionWarning {
    pub(in crate::gateway::dashboard) session: String,
    #[serde(rename = "said")]
    pub(in crate::gateway::dashboard) text: String,
}

/// The size, in tokens, at which a compaction is triggered for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::gateway::dashboard) struct ModelThreshold {
    pub(in crate::gateway::dashboard) model: String,
    pub(in crate::gateway::dashboard) tokens: Tokens,
}

/// The requests of one interval of time.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct ChartBucket {
    #[serde(serialize_with = "serialize_timestamp")]
    pub(in crate::gateway::dashboard) at: Timestamp,
    pub(in crate::gateway::dashboard) requests: usize,
    /// The tokens of the largest request as the client sent it.
    pub(in crate::gateway::dashboard) tokens_before: Tokens,
    /// The tokens of the largest request as the gateway forwarded it.
    pub(in crate::gateway::dashboard) tokens_after: Tokens,
    pub(in crate::gateway::dashboard) compacted: usize,
    pub(in crate::gateway::dashboard) usd_spent: Option<Dollars>,
    /// The cost that the requests would have had without compaction.
    pub(in crate::gateway::dashboard) usd_without: Option<Dollars>,
}

impl From<&TimeBucket> for ChartBucket {
    fn from(bucket: &TimeBucket) -> Self {
        Self {
            at: bucket.start,
            requests: bucket.requests,
            tokens_before: bucket.max_tokens_before,
            tokens_after: bucket.max_tokens_after,
            compacted: bucket.compacted,
            usd_spent: bucket.usd,
            usd_without: bucket.usd_without_longhaul,
        }
    }
}

/// The data of the overview page and of `/api/overview`.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct Overview {
    #[serde(serialize_with = "serialize_timestamp")]
    pub(in crate::gateway::dashboard) at: Timestamp,
    pub(in crate::gateway::dashboard) range: TimeRange,
    /// The tenant whose sessions are listed; none if the viewer sees all tenants.
    pub(in crate::gateway::dashboard) tenant: Option<String>,
    pub(in crate::gateway::dashboard) sessions_live: usize,
    pub(in crate::gateway::dashboard) sessions_all: usize,
    pub(in crate::gateway::dashboard) totals: RequestTotals,
    pub(in crate::gateway::dashboard) added_ms: AddedLatency,
    /// The number of listed sessions whose automatic compaction is paused.
    pub(in crate::gateway::dashboard) paused: usize,
    pub(in crate::gateway::dashboard) warnings: Vec<SessionWarning>,
    /// The error of the store if it is unavailable. Sessions are then compacted from memory.
    pub(in crate::gateway::dashboard) store: Option<String>,
    pub(in crate::gateway::dashboard) thresholds: Vec<ModelThreshold>,
    /// The requests over time.
    #[serde(rename = "course")]
    pub(in crate::gateway::dashboard) chart_buckets: Vec<ChartBucket>,
    pub(in crate::gateway::dashboard) sessions: Vec<SessionRow>,
}

/// One session in a list.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct SessionRow {
    pub(in crate::gateway::dashboard) name: String,
    pub(in crate::gateway::dashboard) tenant: String,
    pub(in crate::gateway::dashboard) title: Option<String>,
    pub(in crate::gateway::dashboard) model: Option<String>,
    pub(in crate::gateway::dashboard) dialect: &'static str,
    /// Whether the session is in the state `live` and was written in the last ten minutes.
    pub(in crate::gateway::dashboard) live: bool,
    pub(in crate::gateway::dashboard) state: &'static str,
    pub(in crate::gateway::dashboard) messages: usize,
    /// The tokens of the newest request as the gateway forwarded it.
    pub(in crate::gateway::dashboard) tokens: Option<Tokens>,
    pub(in crate::gateway::dashboard) window: Option<Tokens>,
    pub(in crate::gateway::dashboard) threshold: Option<Tokens>,
    pub(in crate::gateway::dashboard) compactions: usize,
    /// The number of the active compaction.
    #[serde(rename = "epoch")]
    pub(in crate::gateway::dashboard) active_compaction: Option<usize>,
    pub(in crate::gateway::dashboard) totals: RequestTotals,
    #[serde(serialize_with = "serialize_timestamp")]
    pub(in crate::gateway::dashboard) created: Timestamp,
    #[serde(serialize_with = "serialize_timestamp")]
    pub(in crate::gateway::dashboard) updated: Timestamp,
    /// The reason why automatic compaction is paused.
    pub(in crate::gateway::dashboard) paused: Option<String>,
    pub(in crate::gateway::dashboard) warnings: Vec<String>,
}
