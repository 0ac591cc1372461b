//! The engines there are, and which one a name means.
//!
//! ```text
//! plug-ins ▶ engines of the host ▶ built-in ones ▶ found nowhere: the compressor, which says so in each report
//! ```

use std::fmt;
use std::sync::Arc;

use super::compressor::Compressor;
use super::engine::{Engine, Source};
use super::lossless::Lossless;
use super::sacred_zone::SacredZone;
use super::{Outcome, Plan, Wish};
use crate::config::EngineName;
use crate::known::Known;
use crate::policy::Policy;
use crate::summary::Ask;
use crate::transcript::Transcript;
use crate::{Refused, Tokens};

/// The engines there are, in the order in which they are looked through. A value that is handed on, never a global one.
#[derive(Clone)]
pub struct Engines(Vec<Arc<dyn Engine>>);

impl Default for Engines {
    fn default() -> Self {
        Self(vec![Arc::new(Compressor), Arc::new(SacredZone), Arc::new(Lossless)])
    }
}

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|engine| engine.name())).finish()
    }
}

impl Engines {
    /// The same with one more.
    #[must_use]
    pub fn with(mut self, engine: Arc<dyn Engine>) -> Self {
        let source = engine.source();
        let place = self.0.partition_point(|there| there.source() <= source);
        self.0.insert(place, engine);
        self
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &dyn Engine> {
        self.0.iter().map(|engine| &**engine)
    }

    /// The engine of that name, if there is one. The compressor is always the built-in one.
    #[must_use]
    pub fn find(&self, name: &EngineName) -> Option<Arc<dyn Engine>> {
        if *name == EngineName::COMPRESSOR {
            return Some(Arc::new(Compressor));
        }
        self.0.iter().find(|engine| engine.name() == *name).cloned()
    }

    /// The engine that compacts where this one is named: a name that is found nowhere is no reason to leave a session without.
    #[must_use]
    pub fn of(&self, name: &EngineName) -> Arc<dyn Engine> {
        self.find(name).unwrap_or_else(|| Arc::new(InPlaceOf(name.clone())))
    }

    /// What is to be known where a name is found nowhere.
    #[must_use]
    pub fn missing(&self, name: &EngineName) -> Option<String> {
        let names: Vec<String> = self.all().map(|engine| engine.name().to_string()).collect();
        let there = names.join(", ");
        self.find(name).is_none().then(|| format!("no engine is called {name}; there are {there}"))
    }
}

/// The compressor in the place of an engine that is found nowhere: each of its reports says so.
struct InPlaceOf(EngineName);

impl Engine for InPlaceOf {
    fn name(&self) -> EngineName {
        Compressor.name()
    }

    fn about(&self) -> &'static str {
        Compressor.about()
    }

    fn source(&self) -> Source {
        Source::BuiltIn
    }

    fn look(&self, policy: &Policy, known: &mut Known, transcript: &Transcript<'_>) -> Tokens {
        Compressor.look(policy, known, transcript)
    }

    fn would_ask(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Option<Ask> {
        Compressor.would_ask(policy, wish, known, transcript)
    }

    fn compact(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Plan, Refused> {
        let mut plan = Compressor.compact(policy, wish, known, transcript)?;
        let (Plan::Leave(report) | Plan::Ready(Outcome { report, .. })) = &mut plan;
        report.notes.push(format!("no engine is called {}, compressor took its place", self.0));
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that is only there to be found.
    struct Named(&'static str, Source);

    impl Engine for Named {
        fn name(&self) -> EngineName {
            self.0.to_owned().into()
        }

        fn about(&self) -> &'static str {
            "stands there"
        }

        fn source(&self) -> Source {
            self.1.clone()
        }

        fn compact(
            &self,
            policy: &Policy,
            wish: &Wish,
            known: &mut Known,
            transcript: &Transcript<'_>,
        ) -> Result<Plan, Refused> {
            Compressor.compact(policy, wish, known, transcript)
        }
    }

    #[test]
    fn plug_ins_come_before_the_hosts_engines_and_those_before_the_built_in_ones() {
        let plugin = || Source::Plugin("/there".to_owned());
        let engines = Engines::default()
            .with(Arc::new(Named("sacred-zone", Source::Host)))
            .with(Arc::new(Named("own", Source::Host)))
            .with(Arc::new(Named("own", plugin())))
            .with(Arc::new(Named("compressor", plugin())));
        let found = |name: &str| engines.of(&name.to_owned().into()).source();
        assert_eq!(found("own"), plugin());
        assert_eq!(found("sacred-zone"), Source::Host);
        assert_eq!(found("compressor"), Source::BuiltIn, "it is always the built-in one");
        assert_eq!(Engines::default().of(&EngineName::SACRED_ZONE).source(), Source::BuiltIn);
    }

    #[test]
    fn a_name_that_is_found_nowhere_means_the_compressor_and_is_said() {
        let (engines, name) = (Engines::default(), EngineName::from("lossles".to_owned()));
        assert!(engines.find(&name).is_none());
        assert_eq!(engines.of(&name).name(), EngineName::COMPRESSOR);
        assert!(engines.missing(&name).is_some_and(|said| said.contains("no engine is called lossles")));
        assert_eq!(engines.missing(&EngineName::SACRED_ZONE), None);
    }
}
