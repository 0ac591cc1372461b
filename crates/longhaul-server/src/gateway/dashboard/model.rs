//! What the pages show and what `/api` gives: the same values, rendered here and serialised there.

use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Dollars;
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::agents::Moment;
use crate::store::{Epoch, Hit, Neighbour, Recalled, StepBlock, Stretch, Totals, Traffic};

/// Which time an overview is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Range {
    /// The last day,
    Day,
    /// the last week,
    Week,
    /// or all that the store has.
    #[default]
    All,
}

impl Range {
    pub(super) const ALL: [Self; 3] = [Self::Day, Self::Week, Self::All];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::All => "all",
        }
    }

    /// As people read it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Day => "last 24 hours",
            Self::Week => "last 7 days",
            Self::All => "all time",
        }
    }

    /// What is no range is all of it.
    pub(super) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|range| range.name() == name).unwrap_or_default()
    }

    /// When it begins.
    pub(super) fn since(self, now: Moment) -> Moment {
        const DAY: i64 = 86_400_000;
        match self {
            Self::Day => Moment(now.0 - DAY),
            Self::Week => Moment(now.0 - 7 * DAY),
            Self::All => Moment(i64::MIN),
        }
    }
}

/// A moment, as it is serialised.
fn moment<S: serde::Serializer>(at: &Moment, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

/// The sums over requests. What is nothing was said of none of them.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sums {
    pub(super) requests: usize,
    /// How many of them were compacted anew,
    pub(super) compacted: usize,
    /// and how many went as they came, though more was meant to be done.
    pub(super) bypassed: usize,
    pub(super) tokens_before: Tokens,
    pub(super) tokens_after: Tokens,
    /// What the provider counted.
    pub(super) input: Option<Tokens>,
    pub(super) cache_read: Option<Tokens>,
    pub(super) cache_written: Option<Tokens>,
    pub(super) output: Option<Tokens>,
    /// The share of the prompts that was read from the provider's cache, from 0 to 1.
    pub(super) read_share: Option<f64>,
    pub(super) usd_spent: Option<Dollars>,
    /// Less than nothing is a loss.
    pub(super) usd_saved: Option<Dollars>,
}

impl From<&Totals> for Sums {
    fn from(totals: &Totals) -> Self {
        Self {
            requests: totals.requests,
            compacted: totals.compacted,
            bypassed: totals.bypassed,
            tokens_before: totals.before,
            tokens_after: totals.after,
            input: totals.usage.input,
            cache_read: totals.usage.read,
            cache_written: totals.usage.written,
            output: totals.usage.output,
            read_share: totals.read_share(),
            usd_spent: totals.usd,
            usd_saved: totals.saved,
        }
    }
}

/// By how much requests were held up, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Added {
    pub(super) median: Option<f64>,
    pub(super) p95: Option<f64>,
}

impl Added {
    pub(super) fn of(median: Option<Duration>, p95: Option<Duration>) -> Self {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self { median: median.map(millis), p95: p95.map(millis) }
    }

    /// Of several requests.
    pub(super) fn over(traffic: &[Traffic]) -> Self {
        let mut added: Vec<Duration> = traffic.iter().map(|one| one.added).collect();
        added.sort_unstable();
        let at = |share: f64| {
            let last = added.len().checked_sub(1)?;
            added.get((last as f64 * share).round() as usize).copied()
        };
        Self::of(at(0.5), at(0.95))
    }
}

/// Something to look at.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Warning {
    pub(super) session: String,
    pub(super) said: String,
}

/// The size at which compactions are due for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Threshold {
    pub(super) model: String,
    pub(super) tokens: Tokens,
}

/// What went through in a stretch of time.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Span {
    #[serde(serialize_with = "moment")]
    pub(super) at: Moment,
    pub(super) requests: usize,
    /// The largest request as it came,
    pub(super) tokens_before: Tokens,
    /// and the largest as it was sent.
    pub(super) tokens_after: Tokens,
    pub(super) compacted: usize,
    pub(super) usd_spent: Option<Dollars>,
    /// What it would have cost as it came.
    pub(super) usd_without: Option<Dollars>,
}

impl From<&Stretch> for Span {
    fn from(stretch: &Stretch) -> Self {
        Self {
            at: stretch.at,
            requests: stretch.requests,
            tokens_before: stretch.before,
            tokens_after: stretch.after,
            compacted: stretch.compacted,
            usd_spent: stretch.usd,
            usd_without: stretch.usd_without,
        }
    }
}

/// Everything at a glance.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    #[serde(serialize_with = "moment")]
    pub(super) at: Moment,
    pub(super) range: Range,
    /// Whose sessions these are; nothing means everybody's.
    pub(super) tenant: Option<String>,
    pub(super) sessions_live: usize,
    pub(super) sessions_all: usize,
    pub(super) totals: Sums,
    pub(super) added_ms: Added,
    /// How many of the sessions below have stopped compacting by themselves for a while.
    pub(super) paused: usize,
    pub(super) warnings: Vec<Warning>,
    pub(super) thresholds: Vec<Threshold>,
    pub(super) course: Vec<Span>,
    pub(super) sessions: Vec<Row>,
}

/// One session in a list.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) tenant: String,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) dialect: &'static str,
    /// Whether it was written lately.
    pub(super) live: bool,
    pub(super) state: &'static str,
    pub(super) messages: usize,
    /// What the newest request came to as it was sent.
    pub(super) tokens: Option<Tokens>,
    pub(super) window: Option<Tokens>,
    pub(super) threshold: Option<Tokens>,
    pub(super) compactions: usize,
    /// The compaction in force.
    pub(super) epoch: Option<usize>,
    pub(super) totals: Sums,
    #[serde(serialize_with = "moment")]
    pub(super) created: Moment,
    #[serde(serialize_with = "moment")]
    pub(super) updated: Moment,
    /// Why it does not compact by itself at the moment.
    pub(super) paused: Option<String>,
    pub(super) warnings: Vec<String>,
}

/// One request of a session, as the drawing has it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Point {
    #[serde(serialize_with = "moment")]
    pub(super) at: Moment,
    pub(super) tokens_before: Tokens,
    pub(super) tokens_after: Tokens,
    pub(super) cache_read: Option<Tokens>,
}

/// One request of a session, as the table has it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Request {
    /// Its number, from 1.
    pub(super) number: usize,
    #[serde(serialize_with = "moment")]
    pub(super) at: Moment,
    pub(super) model: Option<String>,
    pub(super) action: String,
    pub(super) tokens_before: Tokens,
    pub(super) tokens_after: Tokens,
    pub(super) input: Option<Tokens>,
    pub(super) cache_read: Option<Tokens>,
    pub(super) output: Option<Tokens>,
    pub(super) added_ms: f64,
    pub(super) took_ms: f64,
    pub(super) usd: Option<Dollars>,
    pub(super) usd_without: Option<Dollars>,
    /// Why the provider's cache had less than it could have had.
    pub(super) broke: Option<String>,
}

impl Request {
    pub(super) fn of(at: usize, traffic: &Traffic) -> Self {
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
pub(super) struct Requests {
    pub(super) page: usize,
    pub(super) pages: usize,
    pub(super) rows: Vec<Request>,
}

/// One compaction in a list.
#[derive(Debug, Clone, Serialize)]
pub(super) struct EpochRow {
    pub(super) number: usize,
    #[serde(serialize_with = "moment")]
    pub(super) at: Moment,
    /// Whether it is the newest one in force.
    pub(super) head: bool,
    /// The request that went through with it first, from 1; nothing where none has yet.
    pub(super) request: Option<usize>,
    pub(super) trigger: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) focus: Option<String>,
    pub(super) written_by: Option<String>,
    pub(super) messages_before: Option<u64>,
    pub(super) messages_after: Option<u64>,
    pub(super) tokens_before: Option<Tokens>,
    pub(super) tokens_after: Option<Tokens>,
    /// What the provider had to read anew, and what that cost.
    pub(super) cold_tokens: Option<Tokens>,
    pub(super) usd_once: Option<f64>,
    pub(super) usd_saved_per_turn: Option<f64>,
    pub(super) notes: Vec<String>,
}

impl EpochRow {
    pub(super) fn of(epoch: &Epoch, is_head: bool, traffic: &[Traffic]) -> Self {
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
pub(super) struct SessionView {
    #[serde(flatten)]
    pub(super) row: Row,
    pub(super) added_ms: Added,
    /// Whether somebody took a compaction back, so that nothing is compacted that need not be.
    pub(super) held: bool,
    pub(super) reason: &'static str,
    pub(super) parent: Option<String>,
    pub(super) children: Vec<String>,
    /// Every request, for the drawing.
    pub(super) course: Vec<Point>,
    /// Oldest first.
    pub(super) epochs: Vec<EpochRow>,
    pub(super) requests: Requests,
}

/// One compaction, with what it was made of.
#[derive(Debug, Serialize)]
pub(super) struct EpochView {
    pub(super) session: String,
    pub(super) epoch: EpochRow,
    pub(super) report: Json,
    /// The body as the client sent it,
    pub(super) before: Box<RawValue>,
    /// and what this compaction made of it.
    pub(super) after: Box<RawValue>,
}

/// What a search found.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) session: String,
    pub(super) query: String,
    pub(super) hits: Vec<FoundHit>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub(super) struct FoundHit {
    pub(super) handle: String,
    pub(super) session: String,
    pub(super) message: usize,
    pub(super) what: String,
    pub(super) tool: Option<String>,
    pub(super) excerpt: String,
    /// Whether it still stands in what is sent.
    pub(super) shown: bool,
    pub(super) step: Vec<StepBlock>,
}

impl From<Hit> for FoundHit {
    fn from(hit: Hit) -> Self {
        Self {
            handle: hit.handle,
            session: hit.session,
            message: hit.at,
            what: hit.what,
            tool: hit.tool,
            excerpt: hit.excerpt.to_string(),
            shown: hit.shown,
            step: hit.step,
        }
    }
}

/// What a handle leads to.
#[derive(Debug, Serialize)]
pub(super) struct Opened {
    pub(super) handle: String,
    pub(super) session: String,
    pub(super) message: Option<usize>,
    pub(super) what: String,
    pub(super) tool: Option<String>,
    /// Word for word, but for secrets.
    pub(super) text: String,
    pub(super) redacted: bool,
    pub(super) before: Option<Beside>,
    pub(super) behind: Option<Beside>,
}

/// What stands beside it.
#[derive(Debug, Serialize)]
pub(super) struct Beside {
    pub(super) handle: String,
    pub(super) what: String,
    pub(super) tool: Option<String>,
    pub(super) excerpt: String,
}

impl From<Neighbour> for Beside {
    fn from(neighbour: Neighbour) -> Self {
        let Neighbour { handle, what, tool, excerpt } = neighbour;
        Self { handle, what, tool, excerpt: excerpt.to_string() }
    }
}

impl From<Recalled> for Opened {
    fn from(recalled: Recalled) -> Self {
        Self {
            handle: recalled.handle,
            session: recalled.session,
            message: recalled.at,
            what: recalled.what,
            tool: recalled.tool,
            text: recalled.text.to_string(),
            redacted: recalled.redacted,
            before: recalled.before.map(Into::into),
            behind: recalled.behind.map(Into::into),
        }
    }
}

/// Where the head of a session is now.
#[derive(Debug, Serialize)]
pub(super) struct Shifted {
    pub(super) session: String,
    /// Whether it was moved at all.
    pub(super) moved: bool,
    /// The compaction in force; nothing means the history as the client sent it.
    pub(super) epoch: Option<usize>,
}

/// What came of asking for a compaction.
#[derive(Debug, Serialize)]
pub(super) struct Squeezed {
    /// The session that goes on: a new one, where the old one was archived for it.
    pub(super) session: String,
    /// The compaction, where it is in force now.
    pub(super) epoch: Option<usize>,
    /// Whether it was only looked at.
    pub(super) preview: bool,
    /// Whether anything changes at all.
    pub(super) changed: bool,
    /// Why, or why not.
    pub(super) reason: Option<String>,
    /// Why it could not be kept, where a preview finds that out.
    pub(super) obstacle: Option<String>,
    pub(super) report: Json,
    pub(super) before: Box<RawValue>,
    pub(super) after: Box<RawValue>,
}
