//! The cost baseline: the usage that a client's own requests would have had without Longhaul.
//!
//! ```text
//! the client's own body ──ClientRequest──▶ its own breakpoints, a modelled cache ──▶ the usage that the provider would have reported
//! ```
//!
//! While requests are sent unchanged, the baseline is what the provider reports. After the first compaction,
//! breakpoint or tool of ours, it is modelled: the client sends its whole history and finds in the cache what
//! it sent before, so a miss that our compaction caused does not count. Once a request would have been
//! refused as too long, the client could not have continued, and nothing is compared any more.

use std::time::Duration;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    Breakpoint, CacheRequest, CacheRules, CacheUsage, PieceTokens, PrefixChain, SimulatedCache,
};
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Usage;
use longhaul_engine::{Tokens, Transcript, wire};

use crate::session::RequestSizes;
use longhaul_engine::Timestamp;

/// A client's own request, as a provider's cache sees it.
#[derive(Debug, Clone)]
pub(super) struct ClientRequest {
    chain: PrefixChain,
    /// The tokens from the start of the request to the end of each piece.
    prefix_tokens: Vec<Tokens>,
    breakpoints: Vec<Breakpoint>,
    rules: CacheRules,
    /// The largest input that the provider accepts: the model's input limit or, if it has none, the window without
    /// the reply that the request allows.
    max_input_tokens: Tokens,
}

/// A request as it was sent, with the usage that its provider reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportedRequest {
    pub(super) usage: Usage,
    pub(super) sizes: RequestSizes,
    /// Whether the request was sent exactly as the client sent it.
    pub(super) is_unchanged: bool,
    /// Whether the provider lost content that its cache should have had.
    pub(super) has_provider_lost_cache: bool,
    pub(super) at: Timestamp,
}

/// The requests of one session as its client would have sent them without Longhaul.
#[derive(Default)]
pub(super) struct Baseline {
    /// The token counts of the blocks, so that a growing session is not counted again.
    block_cache: BlockCache,
    cache: Option<(CacheRules, SimulatedCache, Timestamp)>,
    /// Whether any request was sent differently from how the client sent it.
    has_diverged: bool,
    /// Whether a request would have been refused as too long.
    has_exceeded_limit: bool,
}

impl Baseline {
    /// Reads a client's own request. Blocks that were counted before are not counted again.
    pub(super) fn read(&mut self, transcript: &Transcript<'_>, policy: &Policy) -> ClientRequest {
        let prompt_order = wire::prompt_order(transcript);
        let prefix_tokens =
            PieceTokens::new(transcript, &prompt_order, &policy.model).prefix_sums(&mut self.block_cache);
        let breakpoints = prompt_order.breakpoints.iter().map(Breakpoint::from).collect();
        let max_input_tokens = match policy.model.facts.input_limit {
            Some(max_input_tokens) => max_input_tokens,
            None => policy.provider_window - Tokens(transcript.max_reply_tokens.unwrap_or_default()),
        };
        ClientRequest {
            chain: PrefixChain::new(&prompt_order),
            prefix_tokens,
            breakpoints,
            rules: CacheRules::for_model(&policy.model),
            max_input_tokens,
        }
    }

    /// Returns the usage that the provider would have reported for a client's own request; none once it would
    /// have refused one.
    pub(super) fn estimate_usage(
        &mut self,
        client_request: &ClientRequest,
        reported: &ReportedRequest,
    ) -> Option<Usage> {
        let ReportedRequest { usage, sizes, is_unchanged, has_provider_lost_cache: is_lost, at } = *reported;
        let input = usage.input?;
        self.has_diverged |= !is_unchanged;
        if is_lost {
            // The provider would have lost it without us as well.
            self.cache = None;
        }
        let simulated = self.simulate_send(client_request, at);
        if !self.has_diverged {
            return Some(usage);
        }
        let original_tokens = sizes.original.share(input.number() as f64 / sizes.sent.number().max(1) as f64);
        self.has_exceeded_limit |= sizes.original > sizes.sent && original_tokens > client_request.max_input_tokens;
        if self.has_exceeded_limit {
            return None;
        }
        let total = client_request.prefix_tokens.last().copied().unwrap_or_default().number().max(1) as f64;
        Some(scale_usage(&simulated, original_tokens.number() as f64 / total, &usage))
    }

    fn simulate_send(&mut self, client_request: &ClientRequest, at: Timestamp) -> CacheUsage {
        let (_, cache, since) = match self.cache.take().filter(|(rules, ..)| *rules == client_request.rules) {
            Some(same) => self.cache.insert(same),
            None => self.cache.insert((client_request.rules, SimulatedCache::new(client_request.rules), at)),
        };
        let now = Duration::from_millis(at.0.saturating_sub(since.0).max(0).cast_unsigned());
        let PrefixChain { links, settings } = &client_request.chain;
        cache.send(
            now,
            &CacheRequest {
                links,
                settings: *settings,
                prefix_tokens: &client_request.prefix_tokens,
                breakpoints: &client_request.breakpoints,
            },
        )
    }
}

/// Scales the modelled usage to the provider's token counts. If the provider reports no cache, none is
/// assumed.
fn scale_usage(simulated: &CacheUsage, scale: f64, usage: &Usage) -> Usage {
    let scaled = |tokens: Tokens| tokens.share(scale);
    let modelled = simulated.usage(Tokens::ZERO);
    let has_cache = usage.read.is_some();
    Usage {
        input: modelled.input.map(scaled),
        read: has_cache.then(|| modelled.read.map(scaled)).flatten(),
        written: usage.written.and(modelled.written).map(scaled),
        written_1h: usage.written_1h.and(modelled.written_1h).map(scaled),
        output: usage.output,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_engine::models;
    use longhaul_engine::policy::Config;
    use longhaul_engine::prices::Dollars;
    use serde_json::{Value, json};

    use super::*;

    fn minutes(n: usize) -> Timestamp {
        Timestamp(60_000 * i64::try_from(n).unwrap())
    }

    fn policy(model: &str) -> Policy {
        Policy::new(&Config::default(), &models::find(model)).unwrap().0
    }

    /// Whether the client sets a cache breakpoint in its last message.
    #[derive(Clone, Copy, PartialEq)]
    enum ClientBreakpoint {
        Set,
        Unset,
    }

    /// Returns the bodies of an agent's session, each continuing the one before.
    fn bodies(model: &str, requests: usize, breakpoint: ClientBreakpoint) -> Vec<String> {
        let rules = "Each module has an owner of its own who is asked first. ".repeat(400);
        let mut messages: Vec<Value> = vec![json!({"role": "user", "content": "Make the build green."})];
        let mut bodies = Vec::new();
        for n in 0..requests {
            let output = format!("src/part{n}.rs: unit was rebuilt in step {n}\n").repeat(120);
            messages.push(json!({"role": "assistant", "content": format!("Step {n} is next.")}));
            messages.push(json!({"role": "user", "content": [{"type": "text", "text": output}]}));
            let mut sent = messages.clone();
            if breakpoint == ClientBreakpoint::Set {
                let last = sent.last_mut().unwrap();
                last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            }
            bodies.push(json!({"model": model, "max_tokens": 4_000, "system": rules, "messages": sent}).to_string());
        }
        bodies
    }

    struct Run {
        baseline: Baseline,
        policy: Policy,
        /// A separate cache that only the client's own bodies are sent through.
        replay: Option<(SimulatedCache, Timestamp)>,
    }

    impl Run {
        fn new(model: &str) -> Self {
            Self { baseline: Baseline::default(), policy: policy(model), replay: None }
        }

        /// Sends one request. Returns the usage of the baseline and that of a replay of the client's own
        /// body.
        fn request(
            &mut self,
            body: &str,
            sent: impl Fn(Tokens) -> (Tokens, Usage),
            at: Timestamp,
        ) -> (Option<Usage>, Usage) {
            let (transcript, _) = wire::parse(None, body).unwrap();
            let own = self.baseline.read(&transcript, &self.policy);
            let prefix_tokens = *own.prefix_tokens.last().unwrap();
            let (cache, since) = self.replay.get_or_insert_with(|| (SimulatedCache::new(own.rules), at));
            let now = Duration::from_millis((at.0 - since.0).cast_unsigned());
            let PrefixChain { links, settings } = &own.chain;
            let request = CacheRequest {
                links,
                settings: *settings,
                prefix_tokens: &own.prefix_tokens,
                breakpoints: &own.breakpoints,
            };
            let replayed = cache.send(now, &request).usage(Tokens(300));
            let (counted, usage) = sent(prefix_tokens);
            let reported = ReportedRequest {
                usage,
                sizes: RequestSizes { original: prefix_tokens, sent: counted },
                is_unchanged: counted == prefix_tokens,
                has_provider_lost_cache: false,
                at,
            };
            (self.baseline.estimate_usage(&own, &reported), replayed)
        }
    }

    fn dollars(usage: &Usage, model: &str) -> Dollars {
        usage.bill(&longhaul_engine::prices::find(model).unwrap().price).total()
    }

    #[test]
    fn without_a_compaction_it_is_what_the_provider_reports() {
        for model in ["claude-sonnet-4-5", "gpt-4o"] {
            let mut run = Run::new(model);
            for (n, body) in bodies(model, 12, ClientBreakpoint::Set).iter().enumerate() {
                let odd = Usage {
                    input: Some(Tokens(9_000 + 7 * n as u64)),
                    read: Some(Tokens(1_234 * n as u64 % 5_000)),
                    written: Some(Tokens(777)),
                    written_1h: None,
                    output: Some(Tokens(300)),
                };
                let (without, _) = run.request(body, |original| (original, odd), minutes(n));
                assert_eq!(without, Some(odd));
            }
        }
    }

    #[test]
    fn with_a_compaction_it_is_a_replay_of_the_clients_own_bodies() {
        for (model, breakpoint) in [
            ("claude-sonnet-4-5", ClientBreakpoint::Set),
            ("claude-sonnet-4-5", ClientBreakpoint::Unset),
            ("gpt-4o", ClientBreakpoint::Unset),
        ] {
            let mut run = Run::new(model);
            for (n, body) in bodies(model, 20, breakpoint).iter().enumerate() {
                // From the sixth request on, a third is sent and all of it is uncached. A long pause precedes
                // the tenth.
                let sent = |original: Tokens| {
                    let sent = if n < 5 { original } else { original / 3 };
                    let (read, written) = (Some(Tokens::ZERO), Some(sent).filter(|_| model != "gpt-4o"));
                    (sent, Usage { input: Some(sent), read, written, written_1h: None, output: Some(Tokens(300)) })
                };
                let at = minutes(if n >= 9 { n + 30 } else { n });
                let (without, replayed) = run.request(body, sent, at);
                let without = without.unwrap();
                if n < 5 {
                    continue;
                }
                let (ours, theirs) = (dollars(&without, model), dollars(&replayed, model));
                assert!((ours.0 - theirs.0).abs() < 0.01 * theirs.0.max(0.01), "{model} {n}: {ours} and {theirs}");
                assert_eq!(without.output, Some(Tokens(300)));
            }
        }
    }

    #[test]
    fn a_client_without_breakpoints_would_have_read_nothing_from_a_cache_that_needs_them() {
        let mut run = Run::new("claude-sonnet-4-5");
        for (n, body) in bodies("claude-sonnet-4-5", 6, ClientBreakpoint::Unset).iter().enumerate() {
            let sent = |original: Tokens| {
                let usage = Usage {
                    input: Some(original),
                    read: Some(original / 2),
                    written: Some(original / 2),
                    ..Usage::default()
                };
                (original / 2, usage)
            };
            let (without, _) = run.request(body, sent, minutes(n));
            assert_eq!(without.unwrap().read, Some(Tokens::ZERO));
        }
    }

    #[test]
    fn nothing_is_compared_from_where_the_provider_would_have_refused() {
        let mut run = Run::new("claude-sonnet-4-5");
        run.policy.provider_window = Tokens(40_000);
        let compared: Vec<bool> = bodies("claude-sonnet-4-5", 40, ClientBreakpoint::Set)
            .iter()
            .enumerate()
            .map(|(n, body)| {
                let sent = |original: Tokens| {
                    let sent = original.min(Tokens(12_000));
                    (sent, Usage { input: Some(sent), read: Some(Tokens::ZERO), ..Usage::default() })
                };
                run.request(body, sent, minutes(n)).0.is_some()
            })
            .collect();
        assert!(compared[0] && !compared[39], "{compared:?}");
        assert!(compared.is_sorted_by(|one, next| one >= next), "{compared:?}");
    }
}
