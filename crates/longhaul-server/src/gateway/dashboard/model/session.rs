//! One session, and one compaction of it.

use longhaul_engine::models::Model;
use longhaul_engine::prices::Dollars;
use longhaul_engine::{Dialect, Tokens};
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::{Added, Row, moment};
use crate::agents::Moment;
use crate::store::{Epoch, Traffic};

/// What a compaction is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::gateway::dashboard) enum Against {
    /// What the client sent.
    #[default]
    Original,
    /// What was sent on until then, with the compaction before it.
    Shown,
}

impl Against {
    /// What is neither is the first.
    pub(in crate::gateway::dashboard) fn of(word: &str) -> Self {
        if word == "shown" { Self::Shown } else { Self::Original }
    }
}

/// One request of a session, as the drawing has it.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct Point {
    #[serde(serialize_with = "moment")]
    pub(in crate::gateway::dashboard) at: Moment,
    pub(in crate::gateway::dashboard) tokens_before: Tokens,
    pub(in crate::gateway::dashboard) tokens_after: Tokens,
    pub(in crate::gateway::dashboard) cache_read: Option<Tokens>,
}

/// One request of a session, as the table has it.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct Request {
    /// Its number, from 1.
    pub(in crate::gateway::dashboard) number: usize,
    #[serde(serialize_with = "moment")]
    pub(in crate::gateway::dashboard) at: Moment,
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
    /// Why the provider's cache had less than it could have had.
    pub(in crate::gateway::dashboard) broke: Option<String>,
}

impl Request {
    pub(in crate::gateway::dashboard) fn of(at: usize, traffic: &Traffic) -> Self {
        Self {
            number: at + 1,
            at: traffic.at,
            model: traffic.model.clone(),
            action: traffic.action.to_string(),
            tokens_before: traffic.before,
            tokens_after: traffic.after,
            input: traffic.usage.input,
            cache_read: traffic.usage.read,
            output: traffic.usage.output,
            added_ms: traffic.added.as_secs_f64() * 1e3,
            took_ms: traffic.took.as_secs_f64() * 1e3,
            usd: traffic.usd,
            usd_without: traffic.usd_without,
            broke: traffic.broke.clone(),
        }
    }
}

/// Requests of a session, a page at a time, the newest first.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct Requests {
    pub(in crate::gateway::dashboard) page: usize,
    pub(in crate::gateway::dashboard) pages: usize,
    pub(in crate::gateway::dashboard) rows: Vec<Request>,
}

/// One compaction in a list.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct EpochRow {
    pub(in crate::gateway::dashboard) number: usize,
    #[serde(serialize_with = "moment")]
    pub(in crate::gateway::dashboard) at: Moment,
    /// Whether it is the newest one in force.
    pub(in crate::gateway::dashboard) head: bool,
    /// The request that went through with it first, from 1; nothing where none has yet.
    pub(in crate::gateway::dashboard) request: Option<usize>,
    pub(in crate::gateway::dashboard) trigger: Option<String>,
    pub(in crate::gateway::dashboard) reason: Option<String>,
    pub(in crate::gateway::dashboard) focus: Option<String>,
    pub(in crate::gateway::dashboard) written_by: Option<String>,
    pub(in crate::gateway::dashboard) messages_before: Option<u64>,
    pub(in crate::gateway::dashboard) messages_after: Option<u64>,
    pub(in crate::gateway::dashboard) tokens_before: Option<Tokens>,
    pub(in crate::gateway::dashboard) tokens_after: Option<Tokens>,
    /// What the provider had to read anew, and what that cost.
    pub(in crate::gateway::dashboard) cold_tokens: Option<Tokens>,
    pub(in crate::gateway::dashboard) usd_once: Option<f64>,
    pub(in crate::gateway::dashboard) usd_saved_per_turn: Option<f64>,
    pub(in crate::gateway::dashboard) notes: Vec<String>,
}

impl EpochRow {
    pub(in crate::gateway::dashboard) fn of(epoch: &Epoch, is_head: bool, traffic: &[Traffic]) -> Self {
        let at = |pointer: &str| epoch.report.pointer(pointer);
        let word = |pointer: &str| at(pointer).and_then(Json::as_str).map(ToOwned::to_owned);
        let count = |pointer: &str| at(pointer).and_then(Json::as_u64);
        let notes = at("/notes").and_then(Json::as_array).into_iter().flatten();
        Self {
            number: epoch.number,
            at: epoch.at,
            head: is_head,
            request: traffic.iter().position(|one| one.at >= epoch.at).map(|at| at + 1),
            trigger: word("/trigger"),
            reason: word("/reason"),
            focus: word("/focus"),
            written_by: word("/checkpoint/by"),
            messages_before: count("/messages/before"),
            messages_after: count("/messages/after"),
            tokens_before: count("/tokens/before").map(Tokens),
            tokens_after: count("/tokens/after").map(Tokens),
            cold_tokens: count("/cost/cold_tokens").map(Tokens),
            usd_once: at("/cost/usd").and_then(Json::as_f64),
            usd_saved_per_turn: at("/cost/usd_saved_per_turn").and_then(Json::as_f64),
            notes: notes.filter_map(Json::as_str).map(ToOwned::to_owned).collect(),
        }
    }
}

/// One session.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct SessionView {
    #[serde(flatten)]
    pub(in crate::gateway::dashboard) row: Row,
    pub(in crate::gateway::dashboard) added_ms: Added,
    /// Whether somebody took a compaction back, so that nothing is compacted that need not be.
    pub(in crate::gateway::dashboard) held: bool,
    pub(in crate::gateway::dashboard) reason: &'static str,
    pub(in crate::gateway::dashboard) parent: Option<String>,
    pub(in crate::gateway::dashboard) children: Vec<String>,
    /// Every request, for the drawing.
    pub(in crate::gateway::dashboard) course: Vec<Point>,
    /// Oldest first.
    pub(in crate::gateway::dashboard) epochs: Vec<EpochRow>,
    pub(in crate::gateway::dashboard) requests: Requests,
}

/// One compaction, with what it was made of.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct EpochView {
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) epoch: EpochRow,
    pub(in crate::gateway::dashboard) dialect: Dialect,
    pub(in crate::gateway::dashboard) model: Option<String>,
    /// The same, as its tokens are counted.
    #[serde(skip)]
    pub(in crate::gateway::dashboard) counted: Option<Model>,
    /// Whether there was a compaction before it.
    pub(in crate::gateway::dashboard) has_before: bool,
    pub(in crate::gateway::dashboard) report: Json,
    pub(in crate::gateway::dashboard) against: Against,
    /// The body before,
    pub(in crate::gateway::dashboard) before: Box<RawValue>,
    /// and what is sent with this compaction.
    pub(in crate::gateway::dashboard) after: Box<RawValue>,
}
