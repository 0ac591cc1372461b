//! Whether a compaction that is not due would pay.

use longhaul_engine::Tokens;
use longhaul_engine::cost::{Band, Outlook, Prospect, decide};
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::Report;
use longhaul_engine::prices::Dollars;

use super::Session;
use super::cached::lifetime;
use super::scene::Scene;
use crate::agents::Moment;

/// Where no prices are known, a compaction that costs nothing has to save so much.
const WORTH_IT: f64 = 0.10;

impl Session {
    /// Whether it could, by what a compaction is expected to leave: what must stay, the tail and a checkpoint.
    pub(super) fn could_pay(&mut self, scene: Scene<'_, '_>) -> bool {
        let (policy, tokens) = (&scene.request.policy, scene.size.count.tokens);
        let parts = Meter::of(&policy.model).parts(&mut self.known, scene.seen);
        let head = parts.system + parts.tools;
        let rest = tokens - head;
        let tail = policy.early(tokens).tail.min(rest);
        let left = head + tail + policy.checkpoint.tokens(rest - tail);
        self.worth(scene, Prospect { tokens: left, warm: self.still_warm(head, scene.now) })
    }

    /// Whether this one does.
    pub(super) fn pays(&self, scene: Scene<'_, '_>, report: &Report) -> bool {
        let warm = self.still_warm(report.tokens.warm, scene.now);
        self.worth(scene, Prospect { tokens: report.tokens.after, warm })
    }

    /// It does not, and is not weighed again until the request has grown by a twentieth of the window.
    pub(super) fn waits(&mut self, scene: Scene<'_, '_>) -> String {
        let tokens = scene.size.measured.tokens;
        self.not_before = tokens + scene.request.policy.window / 20;
        format!("it would not pay at {tokens} tokens")
    }

    fn still_warm(&self, tokens: Tokens, now: Moment) -> Tokens {
        tokens.min(self.state.cached.warm(now))
    }

    fn worth(&self, scene: Scene<'_, '_>, compact: Prospect) -> bool {
        let Scene { request, size, now, .. } = scene;
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
        let band = Band::new(&request.policy, scene.threshold, cached.state(now), self.state.last);
        decide(&band, &outlook, &prices.price).decision.compacts()
    }
}
