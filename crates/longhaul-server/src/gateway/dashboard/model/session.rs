//! The data of one session and of one compaction.

use longhaul_engine::models::Model;
use longhaul_engine::prices::Dollars;
use longhaul_engine::{ApiFormat, Tokens};
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::{AddedLatency, SessionRow, serialize_timestamp};
use crate::store::{Compaction, StoredSession, TrafficRecord};
use longhaul_engine::Timestamp;

/// The request that a compaction is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::gateway::dashboard) enum DiffBase {
    /// The request as the client sent it.
    #[default]
    Original,
    /// The request that was sent until then, with the previous compaction.
    Shown,
}

impl DiffBase {
    /// Parses the query parameter `against`; any other word means [`DiffBase::Original`].
    pub(in crate::gateway::dashboard) fn from_name(word: &str) -> Self {
        if word == "shown" { Self::Shown } else { Self::Original }
    }
}

/// One request in the timeline of a session.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct TimelinePoint {
    #[serde(serialize_with = "serialize_timestamp")]
    pub(in crate::gateway::dashboard) at: Timestamp,
    pub(in crate::gateway::dashboard) tokens_before: Tokens,
    pub(in crate::gateway::dashboard) tokens_after: Tokens,
    pub(in crate::gateway::dashboard) cache_read: Option<Tokens>,
}

/// One request in the table of a session.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct RequestRow {
    /// The number of the request in its session, from 1.
    pub(in crate::gateway::dashboard) number: usize,
    #[serde(serialize_with = "serialize_timestamp")]
    pub(in crate::gateway::dashboard) at: Timestamp,
    pub(in crate::gateway::dashboard) model: Option<String>,
    pub(in crate::gateway::dashboard) action: String,
    pub(in crate::gateway::dashboard) tokens_before: Tokens,
    pub(in crate::gateway::dashboard) tokens_after: Tokens,
    pub(in crate::gateway::dashboard) input: Option<Tokens>,
    pub(in crate::gateway::dashboard) cache_read: Option<Tokens>,
    pub(in crate::gateway::dashboard) output: Option<Tokens>,
    pub(in crate::gateway::dashboard) added_ms: f64,
    pub(in crate::gateway::dashboard) took_ms: f64,
    pub(in crate::gateway::dashboard) usd: Option<Dollars>,
    pub(in crate::gateway::dashboard) usd_without: Option<Dollars>,
    /// The reason why the provider's cache missed, or was expected to.
    #[serde(rename = "broke")]
    pub(in crate::gateway::dashboard) cache_miss_reason: Option<String>,
}

impl RequestRow {
    pub(in crate::gateway::dashboard) fn new(at: usize, traffic: &TrafficRecord) -> Self {
        Self {
            number: at + 1,
            at: traffic.at,
            model: traffic.model.clone(),
            action: traffic.action.to_string(),
            tokens_before: traffic.tokens_before,
            tokens_after: traffic.tokens_after,
            input: traffic.usage.input,
            cache_read: traffic.usage.read,
            output: traffic.usage.output,
            added_ms: traffic.added_time.as_secs_f64() * 1e3,
            took_ms: traffic.total_time.as_secs_f64() * 1e3,
            usd: traffic.usd,
            usd_without: traffic.usd_without_longhaul,
            cache_miss_reason: traffic.cache_miss_reason.clone(),
        }
    }
}

/// One page of the table of requests, newest first.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct RequestPage {
    pub(in crate::gateway::dashboard) page: usize,
    pub(in crate::gateway::dashboard) pages: usize,
    pub(in crate::gateway::dashboard) rows: Vec<RequestRow>,
}

/// One compaction in a list.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct CompactionRow {
    pub(in crate::gateway::dashboard) number: usize,
    #[serde(serialize_with = "serialize_timestamp")]
    pub(in crate::gateway::dashboard) at: Timestamp,
    /// Whether it is the active compaction.
    #[serde(rename = "head")]
    pub(in crate::gateway::dashboard) is_active: bool,
    /// The number of the first request sent with it, from 1; none if there is none yet.
    pub(in crate::gateway::dashboard) request: Option<usize>,
    pub(in crate::gateway::dashboard) trigger: Option<String>,
    pub(in crate::gateway::dashboard) reason: Option<String>,
    pub(in crate::gateway::dashboard) focus: Option<String>,
    pub(in crate::gateway::dashboard) written_by: Option<String>,
    pub(in crate::gateway::dashboard) messages_before: Option<u64>,
    pub(in crate::gateway::dashboard) messages_after: Option<u64>,
    pub(in crate::gateway::dashboard) tokens_before: Option<Tokens>,
    pub(in crate::gateway::dashboard) tokens_after: Option<Tokens>,
    /// The tokens that the provider had to read uncached because of it.
    #[serde(rename = "cold_tokens")]
    pub(in crate::gateway::dashboard) uncached_tokens: Option<Tokens>,
    pub(in crate::gateway::dashboard) usd_once: Option<f64>,
    pub(in crate::gateway::dashboard) usd_saved_per_turn: Option<f64>,
    pub(in crate::gateway::dashboard) notes: Vec<String>,
}

impl CompactionRow {
    pub(in crate::gateway::dashboard) fn new(
        compaction: &Compaction,
        session: &StoredSession,
        traffic: &[TrafficRecord],
    ) -> Self {
        let at = |pointer: &str| compaction.report.pointer(pointer);
        let word = |pointer: &str| at(pointer).and_then(Json::as_str).map(ToOwned::to_owned);
        let count = |pointer: &str| at(pointer).and_then(Json::as_u64);
        let notes = at("/notes").and_then(Json::as_array).into_iter().flatten();
        Self {
            number: compaction.number,
            at: compaction.at,
            is_active: session.head == Some(compaction.id),
            request: traffic.iter().position(|one| one.at >= compaction.at).map(|at| at + 1),
            trigger: word("/trigger"),
            reason: word("/reason"),
            focus: word("/focus"),
            written_by: word("/checkpoint/by"),
            messages_before: count("/messages/before"),
            messages_after: count("/messages/after"),
            tokens_before: count("/tokens/before").map(Tokens),
            tokens_after: count("/tokens/after").map(Tokens),
            uncached_tokens: count("/cost/cold_tokens").map(Tokens),
            usd_once: at("/cost/usd").and_then(Json::as_f64),
            usd_saved_per_turn: at("/cost/usd_saved_per_turn").and_then(Json::as_f64),
            notes: notes.filter_map(Json::as_str).map(ToOwned::to_owned).collect(),
        }
    }
}

/// The data of the page of one session.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct SessionDetails {
    #[serde(flatten)]
    pub(in crate::gateway::dashboard) row: SessionRow,
    pub(in crate::gateway::dashboard) added_ms: AddedLatency,
    /// Whether a person undid a compaction, so that only necessary compactions are made.
    #[serde(rename = "held")]
    pub(in crate::gateway::dashboard) is_undone: bool,
    pub(in crate::gateway::dashboard) reason: &'static str,
    pub(in crate::gateway::dashboard) parent: Option<String>,
    pub(in crate::gateway::dashboard) children: Vec<String>,
    /// The sizes of every request, for the chart.
    #[serde(rename = "course")]
    pub(in crate::gateway::dashboard) timeline: Vec<TimelinePoint>,
    /// The compactions, oldest first.
    #[serde(rename = "epochs")]
    pub(in crate::gateway::dashboard) compaction_rows: Vec<CompactionRow>,
    pub(in crate::gateway::dashboard) requests: RequestPage,
}

/// One compaction with the requests before and after it.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct CompactionDetails {
    pub(in crate::gateway::dashboard) session: String,
    #[serde(rename = "epoch")]
    pub(in crate::gateway::dashboard) compaction: CompactionRow,
    pub(in crate::gateway::dashboard) dialect: ApiFormat,
    pub(in crate::gateway::dashboard) model: Option<String>,
    /// The model whose tokens are counted, with the corrections learned for it.
    #[serde(skip)]
    pub(in crate::gateway::dashboard) token_model: Option<Model>,
    /// Whether there was an earlier compaction.
    pub(in crate::gateway::dashboard) has_before: bool,
    pub(in crate::gateway::dashboard) report: Json,
    pub(in crate::gateway::dashboard) against: DiffBase,
    /// The request body before the compaction.
    pub(in crate::gateway::dashboard) before: Box<RawValue>,
    /// The request body after the compaction.
    pub(in crate::gateway::dashboard) after: Box<RawValue>,
}
