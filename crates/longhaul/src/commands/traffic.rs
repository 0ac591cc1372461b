//! What passed through the gateway of a session, as `show` tells it.

use longhaul_engine::Tokens;
use longhaul_engine::prices::{Dollars, Usage};
use longhaul_server::store::{Totals, Traffic};
use serde::Serialize;

use crate::output::{self, BAD, GOOD, Line, Page, STRONG};

/// So many of the newest misses are told.
const MISSES: usize = 5;

#[derive(Serialize)]
pub(super) struct Passed<'t> {
    requests: usize,
    compacted: usize,
    /// How many went through as they came, though more was meant to be done.
    bypassed: usize,
    tokens: Sizes,
    /// What the provider counted; nothing, where it said nothing.
    usage: Usage,
    /// What share of the prompts it read from its cache.
    read_share: Option<f64>,
    usd: Option<Dollars>,
    /// What was saved where that is known; less than nothing is a loss.
    usd_saved: Option<Dollars>,
    /// How much longer a request took for having gone through the gateway, on average.
    added_ms: f64,
    /// The newest first.
    misses: Vec<Miss<'t>>,
}

#[derive(Serialize)]
struct Sizes {
    before: Tokens,
    after: Tokens,
}

/// A request that did not find in the provider's cache what it could have found.
#[derive(Serialize)]
struct Miss<'t> {
    at: String,
    model: Option<&'t str>,
    why: &'t str,
}

impl<'t> Passed<'t> {
    /// Nothing, where nothing went through.
    pub(super) fn of(totals: &Totals, traffic: &'t [Traffic]) -> Option<Self> {
        let miss = |one: &'t Traffic| {
            let why = one.broke.as_deref()?;
            Some(Miss { at: one.at.to_string(), model: one.model.as_deref(), why })
        };
        (totals.requests > 0).then(|| Self {
            requests: totals.requests,
            compacted: totals.compacted,
            bypassed: totals.bypassed,
            tokens: Sizes { before: totals.before, after: totals.after },
            usage: totals.usage,
            read_share: totals.read_share(),
            usd: totals.usd,
            usd_saved: totals.saved,
            added_ms: totals.added.as_secs_f64() * 1e3 / totals.requests as f64,
            misses: traffic.iter().rev().filter_map(miss).take(MISSES).collect(),
        })
    }

    /// The same for people, a label before each line.
    pub(super) fn tell(&self, page: &mut Page) {
        let label = |name: &str| Line::default().styled(STRONG, format!("{name:<10}")).plain(" ");
        let requests = if self.requests == 1 { "request" } else { "requests" };
        let bypassed = match self.bypassed {
            0 => String::new(),
            bypassed => format!(", {bypassed} bypassed"),
        };
        page.line(label("gateway").plain(format!(
            "{} {requests}, {} compacted{bypassed}; {:.1} ms added to each",
            self.requests, self.compacted, self.added_ms
        )));
        let Sizes { before, after } = self.tokens;
        page.line(label("sent").plain(format!("{before} → {after} tokens in all")));
        if let (Some(share), Some(input)) = (self.read_share, self.usage.input) {
            let (share, input) = (100.0 * share, output::grouped(input.number()));
            page.line(
                label("cache").plain(format!("{share:.1} % of {input} prompt tokens were read from it")),
            );
        }
        if let Some(usd) = self.usd {
            page.line(match self.usd_saved {
                Some(saved) if saved.0 < 0.0 => label("money")
                    .plain(format!("{usd} spent, "))
                    .styled(BAD, format!("{saved} saved: a loss")),
                Some(saved) => {
                    label("money").plain(format!("{usd} spent, ")).styled(GOOD, format!("{saved} saved"))
                }
                None => label("money").plain(format!("{usd} spent; what was saved is not known")),
            });
        }
        for Miss { at, model, why } in &self.misses {
            let model = model.map(|model| format!(", {model}")).unwrap_or_default();
            page.line(label("miss").plain(format!("{at}{model}: {why}")));
        }
    }
}
