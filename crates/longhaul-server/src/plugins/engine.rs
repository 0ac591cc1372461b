//! A plug-in program as an engine.

use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_engine::plan::{
    CompactOptions, Engine, EngineSource, Plan, PlanInput, Proposal, ProposalInput, RequestSize, TriggerDecision,
    compact_by_proposal,
};
use longhaul_engine::policy::{EngineName, Policy};
use longhaul_engine::prices::Usage;
use longhaul_engine::{RewriteError, Tokens};
use serde_json::{Value, json};

use super::manifest::Manifest;
use super::protocol::{Method, ShouldCompressReply};
use super::supervisor::{PluginContext, Supervisor};

/// An engine that asks an external program. The program is started at the first call, and ends when this is
/// dropped.
pub struct Plugin {
    name: EngineName,
    about: String,
    source: EngineSource,
    program: Supervisor,
    /// Whether the program answered the last question about when to compact.
    has_decided: AtomicBool,
}

impl Plugin {
    /// Creates the engine that a manifest describes.
    #[must_use]
    pub fn new(manifest: Manifest, context: PluginContext) -> Self {
        Self {
            name: EngineName::from(manifest.name.clone()),
            about: manifest.about.clone(),
            source: EngineSource::Plugin(manifest.folder.display().to_string()),
            program: Supervisor::new(manifest, context),
            has_decided: AtomicBool::new(false),
        }
    }

    /// Starts the program ahead of its first call.
    ///
    /// # Errors
    /// The program could not be started; the reason can follow a colon.
    pub fn start(&self) -> Result<(), String> {
        self.program.call(Method::Hello, &Value::Null).map(drop)
    }

    /// Stops the program, even if others still use this engine: from now on the compressor takes its place.
    pub fn stop(&self) {
        self.program.stop();
    }

    fn propose(&self, input: &ProposalInput) -> Result<Proposal, String> {
        let Some(answer) = self.program.call(Method::Compress, input)? else {
            return Err("does not support compress".to_owned());
        };
        serde_json::from_value(answer).map_err(|error| format!("its reply is not a valid proposal: {error}"))
    }

    /// Asks the program whether to compact now; returns `None` if it does not decide that, or fails.
    fn ask_should_compress(&self, policy: &Policy, size: &RequestSize) -> Option<ShouldCompressReply> {
        let params = json!({
            "model": policy.model.name,
            "window": policy.window,
            "threshold": size.threshold(policy.threshold, policy),
            "tokens": size.tokens,
            "reply": size.reply_reserve,
            "bytes": size.bytes,
        });
        let answer = self.program.call(Method::ShouldCompress, &params).ok().flatten();
        let reply = answer.and_then(|answer| serde_json::from_value(answer).ok());
        self.has_decided.store(reply.is_some(), Ordering::Relaxed);
        reply
    }
}

impl Engine for Plugin {
    fn name(&self) -> EngineName {
        self.name.clone()
    }

    fn description(&self) -> &str {
        &self.about
    }

    fn source(&self) -> EngineSource {
        self.source.clone()
    }

    /// Compacts on request, and if the request would not fit otherwise, whatever the program answers.
    fn check_trigger(&self, policy: &Policy, options: &CompactOptions, size: &RequestSize) -> TriggerDecision {
        let forced = size.check_trigger_at(Tokens(u64::MAX), policy, options);
        if matches!(forced, TriggerDecision::Compact(_)) || options.is_requested() {
            return forced;
        }
        let decision_text = |reason: &str| format!("{} decided: {reason}", self.name);
        match self.ask_should_compress(policy, size) {
            None => size.check_trigger_at(size.threshold(self.base_threshold(policy), policy), policy, options),
            Some(ShouldCompressReply { due: false, reason }) => TriggerDecision::Wait(decision_text(&reason)),
            Some(ShouldCompressReply { due: true, reason }) => {
                match size.check_trigger_at(Tokens::ZERO, policy, options) {
                    TriggerDecision::Compact(_) => TriggerDecision::Compact(decision_text(&reason)),
                    waiting @ TriggerDecision::Wait(_) => waiting,
                }
            }
        }
    }

    fn has_own_trigger(&self) -> bool {
        self.has_decided.load(Ordering::Relaxed)
    }

    fn observe_usage(&self, model: &str, usage: &Usage) {
        let Usage { input, output, read, written, .. } = usage;
        let params = json!({"model": model, "input": input, "output": output, "read": read, "written": written});
        self.program.notify(Method::Usage, params);
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        compact_by_proposal(self, input, &|input| self.propose(input))
    }
}
