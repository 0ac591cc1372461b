//! A plug-in as an engine.

use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_engine::known::Known;
use longhaul_engine::plan::{Due, Engine, Load, Plan, Proposal, Shown, Source, Wish, by_proposal};
use longhaul_engine::policy::{EngineName, Policy};
use longhaul_engine::prices::Usage;
use longhaul_engine::{Refused, Tokens, Transcript};
use serde_json::{Value, json};

use super::manifest::Manifest;
use super::program::{Program, World};
use super::protocol::{Method, Verdict};

/// A program that compacts. It is started when it is first asked, and ends with this.
pub struct Plugin {
    name: EngineName,
    about: String,
    source: Source,
    program: Program,
    /// Whether it was heard to say when a compaction is due.
    decides: AtomicBool,
}

impl Plugin {
    /// The one that a manifest describes.
    #[must_use]
    pub fn new(manifest: Manifest, world: World) -> Self {
        Self {
            name: EngineName::from(manifest.name.clone()),
            about: manifest.about.clone(),
            source: Source::Plugin(manifest.folder.display().to_string()),
            program: Program::new(manifest, world),
            decides: AtomicBool::new(false),
        }
    }

    /// Starts it ahead of time.
    ///
    /// # Errors
    /// What went wrong, in words that can follow a colon.
    pub fn begin(&self) -> Result<(), String> {
        self.program.call(Method::Hello, &Value::Null).map(drop)
    }

    /// Ends it, whoever still holds it: from now on the compressor takes its place.
    pub fn end(&self) {
        self.program.end();
    }

    fn propose(&self, shown: &Shown) -> Result<Proposal, String> {
        let Some(answer) = self.program.call(Method::Compress, shown)? else {
            return Err("does not offer compress".to_owned());
        };
        serde_json::from_value(answer).map_err(|error| format!("its answer is no proposal: {error}"))
    }

    /// Whether it says that a compaction is due; nothing where it does not decide that, or cannot be asked.
    fn verdict(&self, policy: &Policy, load: &Load) -> Option<Verdict> {
        let asked = json!({
            "model": policy.model.name,
            "window": policy.window,
            "threshold": load.threshold(policy.threshold, policy),
            "tokens": load.tokens,
            "reply": load.reply,
            "bytes": load.bytes,
        });
        let answer = self.program.call(Method::ShouldCompress, &asked).ok().flatten();
        let verdict = answer.and_then(|answer| serde_json::from_value(answer).ok());
        self.decides.store(verdict.is_some(), Ordering::Relaxed);
        verdict
    }
}

impl Engine for Plugin {
    fn name(&self) -> EngineName {
        self.name.clone()
    }

    fn about(&self) -> &str {
        &self.about
    }

    fn source(&self) -> Source {
        self.source.clone()
    }

    /// What somebody asks for, and what would not fit otherwise, is due whatever the program says.
    fn due(&self, policy: &Policy, wish: &Wish, load: &Load) -> Due {
        let must = load.due_at(Tokens(u64::MAX), policy, wish);
        if matches!(must, Due::Now(_)) || wish.is_asked() {
            return must;
        }
        let said = |reason: &str| format!("{} says so: {reason}", self.name);
        match self.verdict(policy, load) {
            None => load.due_at(load.threshold(self.starts_at(policy), policy), policy, wish),
            Some(Verdict { due: false, reason }) => Due::NotYet(said(&reason)),
            Some(Verdict { due: true, reason }) => match load.due_at(Tokens::ZERO, policy, wish) {
                Due::Now(_) => Due::Now(said(&reason)),
                later @ Due::NotYet(_) => later,
            },
        }
    }

    fn decides_when(&self) -> bool {
        self.decides.load(Ordering::Relaxed)
    }

    fn told_usage(&self, model: &str, usage: &Usage) {
        let Usage { input, output, read, written, .. } = usage;
        let params =
            json!({"model": model, "input": input, "output": output, "read": read, "written": written});
        self.program.tell(Method::Usage, params);
    }

    fn compact(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Plan, Refused> {
        by_proposal(self, policy, wish, known, transcript, &|shown| self.propose(shown))
    }
}
