//! Whether a compaction that is not due would pay.

use longhaul_engine::cost::{Band, Outlook, Prospect, decide};
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::Report;
use longhaul_engine::prices::Dollars;
use longhaul_engine::{Tokens, Transcript};

use super::Session;
use super::cached::lifetime;
use super::request::{Request, Size};
use crate::agents::Moment;

/// Where no prices are known, a compaction that costs nothing has to save so much.
const WORTH_IT: f64 = 0.10;

impl Session {
    /// Whether it could, by what a compaction is expected to leave: what must stay, the tail and a checkpoint.
    pub(super) fn could_pay(
        &mut self,
        request: &Request<'_>,
        seen: &Transcript<'_>,
        size: Size,
        now: Moment,
    ) -> bool {
        let policy = &request.policy;
        let parts = Meter::of(&policy.model).parts(&mut self.known, seen);
        let head = parts.system + parts.tools;
        let rest = size.count.tokens - head;
        let tail = policy.early(size.count.tokens).tail.min(rest);
        let tokens = head + tail + policy.checkpoint.tokens(rest - tail);
        self.worth(request, Prospect { tokens, warm: self.still_warm(head, now) }, size, now)
    }

    /// Whether this one does.
    pub(super) fn pays(&self, request: &Request<'_>, report: &Report, size: Size, now: Moment) -> bool {
        let warm = self.still_warm(report.tokens.warm, now);
        self.worth(request, Prospect { tokens: report.tokens.after, warm }, size, now)
    }

    /// It is not tried again until the request has grown by a twentieth of the window.
    pub(super) fn waits(&mut self, request: &Request<'_>, size: Size, why: &str) -> String {
        let tokens = size.measured.tokens;
        self.not_before = tokens + request.policy.window / 20;
        format!("{why} at {tokens} tokens")
    }

    fn still_warm(&self, tokens: Tokens, now: Moment) -> Tokens {
        tokens.min(self.state.cached.warm(now))
    }

    fn worth(&self, request: &Request<'_>, compact: Prospect, size: Size, now: Moment) -> bool {
        let tokens = size.count.tokens;
        let Some(prices) = &request.policy.prices else {
            return compact.tokens <= tokens.share(1.0 - WORTH_IT);
        };
        let cached = &self.state.cached;
        let pauses = cached.pauses(now);
        let outlook = Outlook {
            leave: Prospect { tokens, warm: self.still_warm(tokens, now) },
            compact,
            turns: cached.turns(),
            growth: cached.growth(),
            pauses: &pauses,
            lifetime: lifetime(&request.policy),
            summary: Dollars::ZERO,
        };
        let band =
            Band { comfortable: request.policy.goal, necessary: request.engine.starts_at(&request.policy) };
        decide(&band, &outlook, &prices.price).decision.compacts()
    }
}
