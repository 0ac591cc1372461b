//! The part of `longhaul show` about the requests of a session that passed through the gateway.

use longhaul_engine::Tokens;
use longhaul_engine::prices::{Dollars, Usage};
use longhaul_server::store::{TrafficRecord, TrafficTotals};
use serde::Serialize;

use crate::output::{self, EMPHASIS_STYLE, ERROR_STYLE, Page, SUCCESS_STYLE, StyledLine};

/// The number of cache misses that are listed, newest first. Chosen by hand for a terminal.
const MAX_LISTED_MISSES: usize = 5;

#[derive(Serialize)]
pub(super) struct ShowTraffic<'t> {
    requests: usize,
    /// The summaries that models wrote in the background.
    summaries: usize,
    compacted: usize,
    /// The requests that were passed through unchanged although they should have been processed.
    bypassed: usize,
    tokens: TrafficTokens,
    /// The provider's token counts. A count that the provider never reported is empty.
    usage: Usage,
    /// The share of the prompt tokens that the provider read from its cache.
    read_share: Option<f64>,
    usd: Option<Dollars>,
    /// The money saved by Longhaul, if known. It is negative for a loss.
    usd_saved: Option<Dollars>,
    /// The time that the gateway added to a request on average, in milliseconds.
    added_ms: f64,
    /// The newest cache misses, newest first.
    misses: Vec<CacheMiss<'t>>,
}

#[derive(Serialize)]
struct TrafficTokens {
    before: Tokens,
    after: Tokens,
}

/// A request for which the provider's cache lacked a prefix that it could have had.
#[derive(Serialize)]
struct CacheMiss<'t> {
    at: String,
    model: Option<&'t str>,
    #[serde(rename = "why")]
    reason: &'t str,
}

impl<'t> ShowTraffic<'t> {
    /// Sums up the traffic, or returns nothing if no request passed through the gateway.
    pub(super) fn new(totals: &TrafficTotals, traffic: &'t [TrafficRecord]) -> Option<Self> {
        let miss = |record: &'t TrafficRecord| {
            let reason = record.cache_miss_reason.as_deref()?;
            Some(CacheMiss { at: record.at.to_string(), model: record.model.as_deref(), reason })
        };
        (totals.requests > 0).then(|| Self {
            requests: totals.requests,
            summaries: totals.summaries,
            compacted: totals.compacted,
            bypassed: totals.bypassed,
            tokens: TrafficTokens { before: totals.tokens_before, after: totals.tokens_after },
            usage: totals.usage,
            read_share: totals.cache_read_share(),
            usd: totals.usd,
            usd_saved: totals.usd_saved,
            added_ms: totals.added_time.as_secs_f64() * 1e3 / totals.requests as f64,
            misses: traffic.iter().rev().filter_map(miss).take(MAX_LISTED_MISSES).collect(),
        })
    }

    /// Adds the same facts to a page for people, each line with a label.
    pub(super) fn add_to_page(&self, page: &mut Page) {
        let label = |name: &str| StyledLine::default().styled(EMPHASIS_STYLE, format!("{name:<10}")).plain(" ");
        let bypassed = match self.bypassed {
            0 => String::new(),
            bypassed => format!(", {bypassed} bypassed"),
        };
        let summaries = match self.summaries {
            0 => String::new(),
            summaries => format!(", {}", output::pluralize(summaries, "summary")),
        };
        page.add_line(label("gateway").plain(format!(
            "{}, {} compacted{bypassed}{summaries}; {:.1} ms added to each",
            output::pluralize(self.requests, "request"),
            self.compacted,
            self.added_ms
        )));
        let TrafficTokens { before, after } = self.tokens;
        page.add_line(label("sent").plain(format!("{before} → {after} tokens in all")));
        if let (Some(share), Some(input)) = (self.read_share, self.usage.input) {
            let (share, input) = (100.0 * share, output::group_digits(input.number()));
            page.add_line(label("cache").plain(format!("{share:.1} % of {input} prompt tokens were read from it")));
        }
        if let Some(usd) = self.usd {
            page.add_line(match self.usd_saved {
                Some(saved) if saved.0 < 0.0 => {
                    label("money").plain(format!("{usd} spent, ")).styled(ERROR_STYLE, format!("{saved} saved: a loss"))
                }
                Some(saved) => {
                    label("money").plain(format!("{usd} spent, ")).styled(SUCCESS_STYLE, format!("{saved} saved"))
                }
                None => label("money").plain(format!("{usd} spent; savings unknown")),
            });
        }
        for CacheMiss { at, model, reason } in &self.misses {
            let model = model.map(|model| format!(", {model}")).unwrap_or_default();
            page.add_line(label("miss").plain(format!("{at}{model}: {reason}")));
        }
    }
}
