//! The same client without Longhaul: what its own requests would have been billed.
//!
//! ```text
//! the client's own body ──OwnRequest──▶ its own breakpoints, a cache of its own ──▶ the usage that its provider would have reported
//! ```
//!
//! As long as requests go out unchanged, this is what the provider reports. From the first compaction, breakpoint or tool of ours on it is
//! modelled: the client sends its whole history, and finds in the cache what it sent before. A miss that our compaction caused is none
//! there. Once a request would have been refused for its length, the client could not have continued, and nothing is compared any more.

use std::time::Duration;

use longhaul_engine::cache::{Cache, Chain, Mark, Request, Rules, Traffic, Weights};
use longhaul_engine::known::Known;
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Usage;
use longhaul_engine::{Tokens, Transcript, wire};

use crate::agents::Moment;
use crate::session::Sizes;

/// A client's own request, as a cache sees it.
#[derive(Debug, Clone)]
pub(super) struct OwnRequest {
    chain: Chain,
    /// The tokens up to and with each piece.
    sizes: Vec<Tokens>,
    marks: Vec<Mark>,
    rules: Rules,
    /// The largest input that the provider takes, with room for the reply.
    limit: Tokens,
}

/// How a request was sent, and what its provider reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported {
    pub(super) usage: Usage,
    pub(super) sizes: Sizes,
    /// Whether it was sent as the client sent it.
    pub(super) is_unchanged: bool,
    /// Whether the provider lost what it should have had in its cache.
    pub(super) is_lost: bool,
    pub(super) at: Moment,
}

/// The requests of one session as its client would have sent them.
#[derive(Default)]
pub(super) struct Baseline {
    /// What was counted of their blocks.
    known: Known,
    cache: Option<(Rules, Cache, Moment)>,
    /// Whether anything was sent otherwise than the client sent it.
    has_diverged: bool,
    /// Whether a request would have been refused for its length.
    is_refused: bool,
}

impl Baseline {
    /// Reads a client's own request. What was counted before is not counted again.
    pub(super) fn read(&mut self, transcript: &Transcript<'_>, policy: &Policy) -> OwnRequest {
        let reading = wire::reading(transcript);
        let sizes = Weights::new(transcript, &reading, &policy.model).prefixes(&mut self.known);
        let marks = reading.marks.iter().map(Mark::from).collect();
        let limit = match policy.model.facts.input_limit {
            Some(limit) => limit,
            None => policy.provider_window - Tokens(transcript.longest_reply.unwrap_or_default()),
        };
        OwnRequest { chain: Chain::of(&reading), sizes, marks, rules: Rules::of(&policy.model), limit }
    }

    /// The usage that the provider would have reported of a client's own request; nothing from where it would have refused one.
    pub(super) fn usage(&mut self, own: &OwnRequest, reported: &Reported) -> Option<Usage> {
        let Reported { usage, sizes, is_unchanged, is_lost, at } = *reported;
        let input = usage.input?;
        self.has_diverged |= !is_unchanged;
        if is_lost {
            // What the provider loses by itself it would have lost without us, too.
            self.cache = None;
        }
        let traffic = self.send(own, at);
        if !self.has_diverged {
            return Some(usage);
        }
        let whole = sizes.whole.share(input.number() as f64 / sizes.sent.number().max(1) as f64);
        self.is_refused |= sizes.whole > sizes.sent && whole > own.limit;
        if self.is_refused {
            return None;
        }
        let total = own.sizes.last().copied().unwrap_or_default().number().max(1) as f64;
        Some(scaled(&traffic, whole.number() as f64 / total, &usage))
    }

    fn send(&mut self, own: &OwnRequest, at: Moment) -> Traffic {
        let (_, cache, since) = match self.cache.take().filter(|(rules, ..)| *rules == own.rules) {
            Some(same) => self.cache.insert(same),
            None => self.cache.insert((own.rules, Cache::new(own.rules), at)),
        };
        let now = Duration::from_millis(at.0.saturating_sub(since.0).max(0).cast_unsigned());
        let Chain { links, settings } = &own.chain;
        cache.send(now, &Request { links, settings: *settings, sizes: &own.sizes, marks: &own.marks })
    }
}

/// What a cache did, by the provider's measure. Where the provider says nothing of a cache, none is taken to be there.
fn scaled(traffic: &Traffic, measure: f64, usage: &Usage) -> Usage {
    let by_measure = |tokens: Tokens| tokens.share(measure);
    let modelled = traffic.usage(Tokens::ZERO);
    let has_cache = usage.read.is_some();
    Usage {
        input: modelled.input.map(by_measure),
        read: has_cache.then(|| modelled.read.map(by_measure)).flatten(),
        written: usage.written.and(modelled.written).map(by_measure),
        written_1h: usage.written_1h.and(modelled.written_1h).map(by_measure),
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

    fn minutes(n: usize) -> Moment {
        Moment(60_000 * i64::try_from(n).unwrap())
    }

    fn policy(model: &str) -> Policy {
        Policy::new(&Config::default(), &models::find(model)).unwrap().0
    }

    /// The bodies of an agent that works on, each going on from the one before. With `marked`, it sets breakpoints of its own.
    fn bodies(model: &str, requests: usize, marked: bool) -> Vec<String> {
        let rules = "Each module has an owner of its own who is asked first. ".repeat(400);
        let mut messages: Vec<Value> = vec![json!({"role": "user", "content": "Make the build green."})];
        let mut bodies = Vec::new();
        for n in 0..requests {
            let output = format!("src/part{n}.rs: unit was rebuilt in step {n}\n").repeat(120);
            messages.push(json!({"role": "assistant", "content": format!("Step {n} is next.")}));
            messages.push(json!({"role": "user", "content": [{"type": "text", "text": output}]}));
            let mut sent = messages.clone();
            if marked {
                let last = sent.last_mut().unwrap();
                last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            }
            bodies.push(
                json!({"model": model, "max_tokens": 4_000, "system": rules, "messages": sent}).to_string(),
            );
        }
        bodies
    }

    struct Run {
        baseline: Baseline,
        policy: Policy,
        /// A cache that the client's own bodies are sent through, apart from all else.
        replay: Option<(Cache, Moment)>,
    }

    impl Run {
        fn new(model: &str) -> Self {
            Self { baseline: Baseline::default(), policy: policy(model), replay: None }
        }

        /// One request: the usage of the baseline, and that of a replay of the client's own body.
        fn request(
            &mut self,
            body: &str,
            sent: impl Fn(Tokens) -> (Tokens, Usage),
            at: Moment,
        ) -> (Option<Usage>, Usage) {
            let (transcript, _) = wire::parse(None, body).unwrap();
            let own = self.baseline.read(&transcript, &self.policy);
            let whole = *own.sizes.last().unwrap();
            let (cache, since) = self.replay.get_or_insert_with(|| (Cache::new(own.rules), at));
            let now = Duration::from_millis((at.0 - since.0).cast_unsigned());
            let Chain { links, settings } = &own.chain;
            let request = Request { links, settings: *settings, sizes: &own.sizes, marks: &own.marks };
            let replayed = cache.send(now, &request).usage(Tokens(300));
            let (counted, usage) = sent(whole);
            let reported = Reported {
                usage,
                sizes: Sizes { whole, sent: counted },
                is_unchanged: counted == whole,
                is_lost: false,
                at,
            };
            (self.baseline.usage(&own, &reported), replayed)
        }
    }

    fn dollars(usage: &Usage, model: &str) -> Dollars {
        usage.bill(&longhaul_engine::prices::find(model).unwrap().price).total()
    }

    #[test]
    fn without_a_compaction_it_is_what_the_provider_reports() {
        for model in ["claude-sonnet-4-5", "gpt-4o"] {
            let mut run = Run::new(model);
            for (n, body) in bodies(model, 12, true).iter().enumerate() {
                let odd = Usage {
                    input: Some(Tokens(9_000 + 7 * n as u64)),
                    read: Some(Tokens(1_234 * n as u64 % 5_000)),
                    written: Some(Tokens(777)),
                    written_1h: None,
                    output: Some(Tokens(300)),
                };
                let (without, _) = run.request(body, |whole| (whole, odd), minutes(n));
                assert_eq!(without, Some(odd));
            }
        }
    }

    #[test]
    fn with_a_compaction_it_is_a_replay_of_the_clients_own_bodies() {
        for (model, marked) in [("claude-sonnet-4-5", true), ("claude-sonnet-4-5", false), ("gpt-4o", false)]
        {
            let mut run = Run::new(model);
            for (n, body) in bodies(model, 20, marked).iter().enumerate() {
                // From the sixth request on a third of it is sent, all of it uncached; there is a long pause before the tenth.
                let sent = |whole: Tokens| {
                    let sent = if n < 5 { whole } else { whole / 3 };
                    let (read, written) = (Some(Tokens::ZERO), Some(sent).filter(|_| model != "gpt-4o"));
                    (
                        sent,
                        Usage {
                            input: Some(sent),
                            read,
                            written,
                            written_1h: None,
                            output: Some(Tokens(300)),
                        },
                    )
                };
                let at = minutes(if n >= 9 { n + 30 } else { n });
                let (without, replayed) = run.request(body, sent, at);
                let without = without.unwrap();
                if n < 5 {
                    continue;
                }
                let (ours, theirs) = (dollars(&without, model), dollars(&replayed, model));
                assert!(
                    (ours.0 - theirs.0).abs() < 0.01 * theirs.0.max(0.01),
                    "{model} {n}: {ours} and {theirs}"
                );
                assert_eq!(without.output, Some(Tokens(300)));
            }
        }
    }

    #[test]
    fn a_client_without_breakpoints_would_have_read_nothing_from_a_cache_that_needs_them() {
        let mut run = Run::new("claude-sonnet-4-5");
        for (n, body) in bodies("claude-sonnet-4-5", 6, false).iter().enumerate() {
            let sent = |whole: Tokens| {
                let usage = Usage {
                    input: Some(whole),
                    read: Some(whole / 2),
                    written: Some(whole / 2),
                    ..Usage::default()
                };
                (whole / 2, usage)
            };
            let (without, _) = run.request(body, sent, minutes(n));
            assert_eq!(without.unwrap().read, Some(Tokens::ZERO));
        }
    }

    #[test]
    fn nothing_is_compared_from_where_the_provider_would_have_refused() {
        let mut run = Run::new("claude-sonnet-4-5");
        run.policy.provider_window = Tokens(40_000);
        let compared: Vec<bool> = bodies("claude-sonnet-4-5", 40, true)
            .iter()
            .enumerate()
            .map(|(n, body)| {
                let sent = |whole: Tokens| {
                    let sent = whole.min(Tokens(12_000));
                    (sent, Usage { input: Some(sent), read: Some(Tokens::ZERO), ..Usage::default() })
                };
                run.request(body, sent, minutes(n)).0.is_some()
            })
            .collect();
        assert!(compared[0] && !compared[39], "{compared:?}");
        assert!(compared.is_sorted_by(|one, next| one >= next), "{compared:?}");
    }
}
