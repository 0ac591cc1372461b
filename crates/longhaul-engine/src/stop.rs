//! A way to end work that nobody waits for any more.
//!
//! It uses nothing of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a plan between two of its phases, once whoever asked for it has no more use for it. The default never does. Clones are of the
/// same one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Option<Arc<AtomicBool>>);

impl Stop {
    /// One that can be set.
    #[must_use]
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Ends whatever looks at it.
    pub fn set(&self) {
        if let Some(is_set) = &self.0 {
            is_set.store(true, Ordering::Release);
        }
    }

    /// Whether it was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|is_set| is_set.load(Ordering::Acquire))
    }
}
