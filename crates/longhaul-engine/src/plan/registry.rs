//! The registry of engines, which finds an engine by its name.
//!
//! ```text
//! plug-ins ▶ engines of the host ▶ built-in engines ▶ unknown name: the compressor, with a note
//! ```

use std::fmt;
use std::sync::Arc;

use super::compressor::Compressor;
use super::engine::{Engine, EngineSource};
use super::lossless::Lossless;
use super::sacred_zone::SacredZone;
use super::{Plan, PlanInput};
use crate::block_cache::BlockCache;
use crate::config::EngineName;
use crate::policy::Policy;
use crate::summary::SummaryJob;
use crate::transcript::Transcript;
use crate::{RewriteError, Tokens};

/// The available engines in search order. It is passed as a value; there is no global registry.
#[derive(Clone)]
pub struct EngineRegistry(Vec<Arc<dyn Engine>>);

impl Default for EngineRegistry {
    fn default() -> Self {
        Self(vec![Arc::new(Compressor), Arc::new(SacredZone), Arc::new(Lossless)])
    }
}

impl fmt::Debug for EngineRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|engine| engine.name())).finish()
    }
}

impl EngineRegistry {
    /// Adds an engine, behind those of the same source.
    #[must_use]
    pub fn with(mut self, engine: Arc<dyn Engine>) -> Self {
        let source = engine.source();
        let place = self.0.partition_point(|there| there.source() <= source);
        self.0.insert(place, engine);
        self
    }

    /// Returns all engines in search order.
    pub fn all(&self) -> impl Iterator<Item = &dyn Engine> {
        self.0.iter().map(|engine| &**engine)
    }

    /// Finds an engine by name. The name `compressor` always means the built-in one.
    #[must_use]
    pub fn find(&self, name: &EngineName) -> Option<Arc<dyn Engine>> {
        if *name == EngineName::COMPRESSOR {
            return Some(Arc::new(Compressor));
        }
        self.0.iter().find(|engine| engine.name() == *name).cloned()
    }

    /// Finds an engine by name, or falls back to the compressor, so that a wrong name leaves no session
    /// without an engine.
    #[must_use]
    pub fn find_or_compressor(&self, name: &EngineName) -> Arc<dyn Engine> {
        self.find(name).unwrap_or_else(|| Arc::new(CompressorFallback(name.clone())))
    }

    /// Returns a message with the available names, if no engine has this name.
    #[must_use]
    pub fn missing_message(&self, name: &EngineName) -> Option<String> {
        let names: Vec<String> = self.all().map(|engine| engine.name().to_string()).collect();
        let there = names.join(", ");
        self.find(name).is_none().then(|| format!("no engine is called {name}; there are {there}"))
    }
}

/// The compressor in place of an engine that does not exist; each of its reports has a note about that.
struct CompressorFallback(EngineName);

impl Engine for CompressorFallback {
    fn name(&self) -> EngineName {
        Compressor.name()
    }

    fn description(&self) -> &'static str {
        Compressor.description()
    }

    fn source(&self) -> EngineSource {
        EngineSource::BuiltIn
    }

    fn observe(&self, policy: &Policy, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Tokens {
        Compressor.observe(policy, cache, transcript)
    }

    fn summary_job(&self, input: PlanInput<'_, '_>) -> Option<SummaryJob> {
        Compressor.summary_job(input)
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        let mut plan = Compressor.compact(input)?;
        plan.report_mut().notes.push(format!("no engine is called {}, compressor took its place", self.0));
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that exists only to be found.
    struct TestEngine(&'static str, EngineSource);

    impl Engine for TestEngine {
        fn name(&self) -> EngineName {
            self.0.to_owned().into()
        }

        fn description(&self) -> &'static str {
            "stands there"
        }

        fn source(&self) -> EngineSource {
            self.1.clone()
        }

        fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
            Compressor.compact(input)
        }
    }

    #[test]
    fn plug_ins_come_before_the_hosts_engines_and_those_before_the_built_in_ones() {
        let plugin = || EngineSource::Plugin("/there".to_owned());
        let engines = EngineRegistry::default()
            .with(Arc::new(TestEngine("sacred-zone", EngineSource::Host)))
            .with(Arc::new(TestEngine("own", EngineSource::Host)))
            .with(Arc::new(TestEngine("own", plugin())))
            .with(Arc::new(TestEngine("compressor", plugin())));
        let found = |name: &str| engines.find_or_compressor(&name.to_owned().into()).source();
        assert_eq!(found("own"), plugin());
        assert_eq!(found("sacred-zone"), EngineSource::Host);
        assert_eq!(found("compressor"), EngineSource::BuiltIn, "it is always the built-in one");
        assert_eq!(
            EngineRegistry::default().find_or_compressor(&EngineName::SACRED_ZONE).source(),
            EngineSource::BuiltIn
        );
    }

    #[test]
    fn an_unknown_name_means_the_compressor_and_is_reported() {
        let (engines, name) = (EngineRegistry::default(), EngineName::from("lossles".to_owned()));
        assert!(engines.find(&name).is_none());
        assert_eq!(engines.find_or_compressor(&name).name(), EngineName::COMPRESSOR);
        assert!(engines.missing_message(&name).is_some_and(|said| said.contains("no engine is called lossles")));
        assert_eq!(engines.missing_message(&EngineName::SACRED_ZONE), None);
    }
}
