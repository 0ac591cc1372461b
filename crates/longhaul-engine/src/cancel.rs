//! A flag that cancels work whose result nobody needs any more.
//!
//! This module uses no other module of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends a plan between two of its phases. Clones share the flag. The default value can never be
/// cancelled.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Option<Arc<AtomicBool>>);

impl CancelFlag {
    /// Creates a flag that can be cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Cancels the work that watches this flag.
    pub fn cancel(&self) {
        if let Some(is_set) = &self.0 {
            is_set.store(true, Ordering::Release);
        }
    }

    /// Returns whether the work was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|is_set| is_set.load(Ordering::Acquire))
    }
}
