//! The trait of all engines: an engine decides when to compact, and compacts.

use super::report::{CompactionReport, Fate, Trigger};
use super::{CompactOptions, CompactedRequest, Plan};
use crate::block_cache::BlockCache;
use crate::config::EngineName;
use crate::ledger::Ledger;
use crate::meter::Meter;
use crate::passes::ByteLimits;
use crate::policy::Policy;
use crate::prices::Usage;
use crate::summary::SummaryJob;
use crate::transcript::Transcript;
use crate::{Rewrite, RewriteError, Tokens, wire};

/// What an engine plans with: the request and the settings that apply to it.
#[derive(Debug)]
pub struct PlanInput<'p, 'b> {
    /// The limits and budgets for the model of the request.
    pub policy: &'p Policy,
    /// The options of this compaction.
    pub options: &'p CompactOptions,
    /// The results of counting and reading blocks, which later plans of the session find again.
    pub cache: &'p mut BlockCache,
    /// The request.
    pub transcript: &'p Transcript<'b>,
}

/// A method of making a transcript smaller.
pub trait Engine: Send + Sync {
    /// Returns the name that the configuration uses.
    fn name(&self) -> EngineName;

    /// Returns a description of one line.
    fn description(&self) -> &str;

    /// Returns where the engine comes from.
    fn source(&self) -> EngineSource {
        EngineSource::Host
    }

    /// Returns the size in tokens at which a compaction starts by itself.
    fn base_threshold(&self, policy: &Policy) -> Tokens {
        policy.threshold
    }

    /// Decides whether to compact a request of this size now.
    fn check_trigger(&self, policy: &Policy, options: &CompactOptions, size: &RequestSize) -> TriggerDecision {
        size.check_trigger_at(size.threshold(self.base_threshold(policy), policy), policy, options)
    }

    /// Whether only the engine's own trigger and a full window start a compaction; the host's triggers for
    /// cost and an expired cache do not.
    fn has_own_trigger(&self) -> bool {
        false
    }

    /// Receives the token usage of a reply, as the provider counted it.
    fn observe_usage(&self, _model: &str, _usage: &Usage) {}

    /// Reads a request that is not compacted, so that a later compaction finds its blocks in the cache, and
    /// returns its tokens. It costs time only for what is new since the last call. Call it for each request
    /// that is not compacted: [`compact`](Self::compact) counts the tokens too, but does not read ahead.
    fn observe(&self, policy: &Policy, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Tokens {
        Meter::for_model(&policy.model).breakdown(cache, transcript).total()
    }

    /// Returns the summary job for the turns that a compaction of this transcript would summarize. Returns
    /// `None` if there are none, and for engines that never summarize.
    fn summary_job(&self, _input: PlanInput<'_, '_>) -> Option<SummaryJob> {
        None
    }

    /// Compacts a transcript, if the trigger applies.
    ///
    /// # Errors
    /// The edits contradict each other, which would be an internal error, or the plan was cancelled.
    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError>;

    /// Plans for a client that sends its original history again: replays the earlier decisions byte for byte,
    /// then compacts the rest if that is still too large. The report compares sizes with the original, but
    /// its turns and blocks are those of the replayed request.
    ///
    /// # Errors
    /// The edits contradict each other, which would be an internal error, or the plan was cancelled.
    fn plan(&self, ledger: &Ledger, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        let PlanInput { policy, options, cache, transcript } = input;
        let Some(replay) = ledger.replay(transcript)? else {
            return self.compact(PlanInput { policy, options, cache, transcript });
        };
        let body = replay.apply(transcript.body);
        let (view, _) = wire::parse(transcript.api_format, &body)?;
        let compacted = match self.compact(PlanInput {
            policy,
            options: &options.after_replay(ledger, transcript),
            cache,
            transcript: &view,
        })? {
            Plan::Unchanged(report) => {
                let ledger = ledger.clone();
                CompactedRequest { rewrite: replay, body: body.clone(), ledger, report, originals: Vec::new() }
            }
            Plan::Ready(compacted) => {
                let Some(ledger) = ledger.followed_by(&compacted.ledger, &view, transcript) else {
                    return self.compact(PlanInput { policy, options, cache, transcript });
                };
                let rewrite = Rewrite::new(transcript, ledger.edits(transcript))?;
                let body = rewrite.apply(transcript.body);
                CompactedRequest { rewrite, body, ledger, ..compacted }
            }
        };
        let before = Meter::for_model(&policy.model).breakdown(cache, transcript).total();
        let report = compacted.report.compared_with_original(before, transcript, &compacted.body);
        Ok(Plan::Ready(CompactedRequest { report, ..compacted }))
    }

    /// Returns the summary job after replaying the earlier decisions.
    ///
    /// # Errors
    /// The edits contradict each other, which would be an internal error.
    fn summary_job_after_replay(
        &self,
        ledger: &Ledger,
        input: PlanInput<'_, '_>,
    ) -> Result<Option<SummaryJob>, RewriteError> {
        let transcript = input.transcript;
        let Some(replay) = ledger.replay(transcript)? else {
            return Ok(self.summary_job(input));
        };
        let body = replay.apply(transcript.body);
        let (view, _) = wire::parse(transcript.api_format, &body)?;
        let options = input.options.after_replay(ledger, transcript);
        Ok(self.summary_job(PlanInput { options: &options, transcript: &view, ..input }))
    }

    /// Returns the summary job for the turns that a compaction with this report summarized, so that it can be
    /// repeated with a model's summary.
    ///
    /// # Errors
    /// The edits contradict each other, which would be an internal error.
    fn summary_job_after_compaction(
        &self,
        ledger: &Ledger,
        input: PlanInput<'_, '_>,
        report: &CompactionReport,
    ) -> Result<Option<SummaryJob>, RewriteError> {
        // `to_tokens` removes more than the policy would. The kept part starts after the last removed message.
        let removed = report.blocks.iter().filter(|block| block.fate != Fate::Digested);
        let keep_from = input.options.keep_from.or(removed.map(|block| block.at + 1).max());
        let options = CompactOptions { keep_from, ..input.options.clone() };
        let mut job = self.summary_job_after_replay(ledger, PlanInput { options: &options, ..input })?;
        if let (Some(job), Some(wanted), Some(made)) = (&mut job, options.to_tokens, report.checkpoint) {
            // The summary must fit into the requested size, together with everything beside the checkpoint.
            let beside = report.tokens.after - made.tokens;
            job.budget = job.budget.min((wanted - beside).max(made.tokens));
        }
        Ok(job)
    }
}

/// Where an engine comes from. If several engines have the same name, the first of these sources wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineSource {
    /// A plug-in program at this path.
    Plugin(String),
    /// An engine that the host program registered.
    Host,
    /// An engine of this crate.
    BuiltIn,
}

/// The size of a request, with the facts that decide whether it may be compacted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSize {
    /// The tokens of the request.
    pub tokens: Tokens,
    /// The tokens to reserve for the reply, if request and reply share the window.
    pub reply_reserve: Tokens,
    /// The tokens that no compaction can remove, from [`minimum_size`](super::minimum_size).
    pub minimum_size: Tokens,
    /// The length of the request body in bytes.
    pub bytes: usize,
    /// Whether the request ends in a tool loop whose reasoning is bound to the messages before it.
    pub is_in_bound_loop: bool,
}

/// Whether to compact now, with the reason for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriggerDecision {
    /// Compact now.
    Compact(String),
    /// Do not compact yet.
    Wait(String),
}

impl RequestSize {
    /// Returns the threshold for this request, from the base threshold of an engine.
    #[must_use]
    pub fn threshold(&self, base_threshold: Tokens, policy: &Policy) -> Tokens {
        policy.threshold_for(base_threshold, self.minimum_size, self.reply_reserve)
    }

    /// Decides whether to compact, given a threshold: from the threshold on, on request, and if the provider
    /// would refuse the request as it is. A tool loop with bound reasoning delays this while it is open, unless
    /// the request is about to overflow or has too many bytes.
    #[must_use]
    pub fn check_trigger_at(&self, threshold: Tokens, policy: &Policy, options: &CompactOptions) -> TriggerDecision {
        let now = self.describe_share(policy.window);
        if let Some(wanted) = options.to_tokens.filter(|wanted| self.tokens <= *wanted) {
            return TriggerDecision::Wait(format!("already at or under the {wanted} tokens asked for: {now}"));
        }
        let (bytes, most) = (self.bytes, ByteLimits::default().body);
        if bytes > most {
            return TriggerDecision::Compact(format!("{bytes} bytes are more than the {most} that a provider takes"));
        }
        let overflows = self.overflow_reason(policy);
        if self.tokens < threshold && !options.is_requested() && overflows.is_none() {
            return TriggerDecision::Wait(format!("below the threshold of {threshold}: {now}"));
        }
        if let Some(later) = self.wait_for_loop(policy) {
            return later;
        }
        if let Some(reason) = overflows {
            return TriggerDecision::Compact(reason);
        }
        if self.tokens >= threshold {
            return TriggerDecision::Compact(format!("{now} reach the threshold of {threshold}"));
        }
        TriggerDecision::Compact(match options.trigger {
            Trigger::Manual => format!("asked for at {now}"),
            Trigger::Error => format!("the provider refused {now} as too long"),
            Trigger::Hygiene => format!("{now} reach the safety threshold"),
            Trigger::Idle => format!("the cache has expired, at {now}"),
            Trigger::Preflight | Trigger::Reply => format!("the caller chose this moment, at {now}"),
        })
    }

    /// Describes the tokens and their share of the window.
    pub(super) fn describe_share(&self, window: Tokens) -> String {
        let share = 100.0 * self.tokens.number() as f64 / window.number().max(1) as f64;
        format!("{} tokens ({share:.0} % of the window)", self.tokens)
    }

    /// Returns the reason why the request and its reply do not fit into the window together, if they do not.
    pub(super) fn overflow_reason(&self, policy: &Policy) -> Option<String> {
        let (tokens, reply, window) = (self.tokens, self.reply_reserve, policy.window);
        (reply > Tokens::ZERO && tokens + reply > window)
            .then(|| format!("{tokens} tokens and up to {reply} for the reply exceed the window of {window}"))
    }

    /// Returns the decision to wait if a tool loop with bound reasoning is open, unless the request is about
    /// to overflow.
    pub(super) fn wait_for_loop(&self, policy: &Policy) -> Option<TriggerDecision> {
        let reason = "a tool loop with reasoning bound to its prefix is open; it is compacted when the loop ends";
        let overflows = self.tokens > policy.drop_oldest_above || self.overflow_reason(policy).is_some();
        (self.is_in_bound_loop && !overflows).then(|| TriggerDecision::Wait(reason.to_owned()))
    }
}
