//! What the pages show and what `/api` gives: the same values, rendered here and serialised there.

mod done;
mod reach;
mod session;

use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Dollars;
use serde::Serialize;

pub(in crate::gateway::dashboard) use done::{Shifted, Squeezed};
pub(in crate::gateway::dashboard) use reach::{Beside, Found, FoundHit, Opened};
pub(in crate::gateway::dashboard) use session::{
    Against, EpochRow, EpochView, Point, Request, Requests, SessionView,
};

use crate::agents::Moment;
use crate::store::{Stretch, Totals, Traffic};

/// Which time an overview is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::gateway::dashboard) enum Range {
    /// The last day,
    Day,
    /// the last week,
    Week,
    /// or all that the store has.
    #[default]
    All,
}

impl Range {
    pub(in crate::gateway::dashboard) const ALL: [Self; 3] = [Self::Day, Self::Week, Self::All];

    pub(in crate::gateway::dashboard) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::All => "all",
        }
    }

    /// As people read it.
    pub(in crate::gateway::dashboard) fn label(self) -> &'static str {
        match self {
            Self::Day => "last 24 hours",
            Self::Week => "last 7 days",
            Self::All => "all time",
        }
    }

    /// What is no range is all of it.
    pub(in crate::gateway::dashboard) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|range| range.name() == name).unwrap_or_default()
    }

    /// When it begins.
    pub(in crate::gateway::dashboard) fn since(self, now: Moment) -> Moment {
        const DAY: i64 = 86_400_000;
        match self {
            Self::Day => Moment(now.0 - DAY),
            Self::Week => Moment(now.0 - 7 * DAY),
            Self::All => Moment(i64::MIN),
        }
    }
}

/// A moment, as it is serialised.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "that is how it is called")]
fn moment<S: serde::Serializer>(at: &Moment, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

/// The sums over requests. What is nothing was said of none of them.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct Sums {
    pub(in crate::gateway::dashboard) requests: usize,
    /// How many of them were compacted anew,
    pub(in crate::gateway::dashboard) compacted: usize,
    /// and how many went as they came, though more was meant to be done.
    pub(in crate::gateway::dashboard) bypassed: usize,
    pub(in crate::gateway::dashboard) tokens_before: Tokens,
    pub(in crate::gateway::dashboard) tokens_after: Tokens,
    /// What the provider counted.
    pub(in crate::gateway::dashboard) input: Option<Tokens>,
    pub(in crate::gateway::dashboard) cache_read: Option<Tokens>,
    pub(in crate::gateway::dashboard) cache_written: Option<Tokens>,
    pub(in crate::gateway::dashboard) output: Option<Tokens>,
    /// The share of the prompts that was read from the provider's cache, from 0 to 1.
    pub(in crate::gateway::dashboard) read_share: Option<f64>,
    pub(in crate::gateway::dashboard) usd_spent: Option<Dollars>,
    /// Less than nothing is a loss.
    pub(in crate::gateway::dashboard) usd_saved: Option<Dollars>,
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
pub(in crate::gateway::dashboard) struct Added {
    pub(in crate::gateway::dashboard) median: Option<f64>,
    pub(in crate::gateway::dashboard) p95: Option<f64>,
}

impl Added {
    pub(in crate::gateway::dashboard) fn of(median: Option<Duration>, p95: Option<Duration>) -> Self {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self { median: median.map(millis), p95: p95.map(millis) }
    }

    /// Of several requests.
    pub(in crate::gateway::dashboard) fn over(traffic: &[Traffic]) -> Self {
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
pub(in crate::gateway::dashboard) struct Warning {
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) said: String,
}

/// The size at which compactions are due for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::gateway::dashboard) struct Threshold {
    pub(in crate::gateway::dashboard) model: String,
    pub(in crate::gateway::dashboard) tokens: Tokens,
}

/// What went through in a stretch of time.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct Span {
    #[serde(serialize_with = "moment")]
    pub(in crate::gateway::dashboard) at: Moment,
    pub(in crate::gateway::dashboard) requests: usize,
    /// The largest request as it came,
    pub(in crate::gateway::dashboard) tokens_before: Tokens,
    /// and the largest as it was sent.
    pub(in crate::gateway::dashboard) tokens_after: Tokens,
    pub(in crate::gateway::dashboard) compacted: usize,
    pub(in crate::gateway::dashboard) usd_spent: Option<Dollars>,
    /// What it would have cost as it came.
    pub(in crate::gateway::dashboard) usd_without: Option<Dollars>,
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
pub(in crate::gateway::dashboard) struct Overview {
    #[serde(serialize_with = "moment")]
    pub(in crate::gateway::dashboard) at: Moment,
    pub(in crate::gateway::dashboard) range: Range,
    /// Whose sessions these are; nothing means everybody's.
    pub(in crate::gateway::dashboard) tenant: Option<String>,
    pub(in crate::gateway::dashboard) sessions_live: usize,
    pub(in crate::gateway::dashboard) sessions_all: usize,
    pub(in crate::gateway::dashboard) totals: Sums,
    pub(in crate::gateway::dashboard) added_ms: Added,
    /// How many of the sessions below have stopped compacting by themselves for a while.
    pub(in crate::gateway::dashboard) paused: usize,
    pub(in crate::gateway::dashboard) warnings: Vec<Warning>,
    /// Why the store is unavailable, so that sessions are compacted from memory.
    pub(in crate::gateway::dashboard) store: Option<String>,
    pub(in crate::gateway::dashboard) thresholds: Vec<Threshold>,
    pub(in crate::gateway::dashboard) course: Vec<Span>,
    pub(in crate::gateway::dashboard) sessions: Vec<Row>,
}

/// One session in a list.
#[derive(Debug, Clone, Serialize)]
pub(in crate::gateway::dashboard) struct Row {
    pub(in crate::gateway::dashboard) name: String,
    pub(in crate::gateway::dashboard) tenant: String,
    pub(in crate::gateway::dashboard) title: Option<String>,
    pub(in crate::gateway::dashboard) model: Option<String>,
    pub(in crate::gateway::dashboard) dialect: &'static str,
    /// Whether it was written lately.
    pub(in crate::gateway::dashboard) live: bool,
    pub(in crate::gateway::dashboard) state: &'static str,
    pub(in crate::gateway::dashboard) messages: usize,
    /// What the newest request came to as it was sent.
    pub(in crate::gateway::dashboard) tokens: Option<Tokens>,
    pub(in crate::gateway::dashboard) window: Option<Tokens>,
    pub(in crate::gateway::dashboard) threshold: Option<Tokens>,
    pub(in crate::gateway::dashboard) compactions: usize,
    /// The compaction in force.
    pub(in crate::gateway::dashboard) epoch: Option<usize>,
    pub(in crate::gateway::dashboard) totals: Sums,
    #[serde(serialize_with = "moment")]
    pub(in crate::gateway::dashboard) created: Moment,
    #[serde(serialize_with = "moment")]
    pub(in crate::gateway::dashboard) updated: Moment,
    /// Why it does not compact by itself at the moment.
    pub(in crate::gateway::dashboard) paused: Option<String>,
    pub(in crate::gateway::dashboard) warnings: Vec<String>,
}
