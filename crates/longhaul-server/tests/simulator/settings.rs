//! What can be chosen about the simulated providers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::cache::Keeping;
use super::reply::Say;

/// What the model says to a request, which is the so-and-so-many-th that the simulator took, counted from 1.
pub(crate) type Speaker = Arc<dyn Fn(&Value, usize) -> Say + Send + Sync>;

/// A model that says what a closure makes of the request.
pub(crate) fn says(speaker: impl Fn(&Value, usize) -> Say + Send + Sync + 'static) -> Speaker {
    Arc::new(speaker)
}

/// What a simulator is like.
#[derive(Clone)]
pub(crate) struct Settings {
    /// What holds for every model that is not in `models`.
    pub(crate) limits: Limits,
    pub(crate) models: BTreeMap<String, Limits>,
    pub(crate) room: Room,
    pub(crate) binding: Binding,
    /// How Chat Completions keeps prompts. A route to Claude goes by the marks on the parts.
    pub(crate) chat: Keeping,
    /// How long a prompt that nobody marked is kept.
    pub(crate) unmarked: Duration,
    pub(crate) speaker: Speaker,
}

/// What is measured in tokens, for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) window: u64,
    /// Shorter prefixes are not kept where marks say what is.
    pub(crate) minimum: u64,
}

/// Whether the reply that a request asks for takes room in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// The prompt and `max_tokens` together must fit.
    Reserved,
    /// The prompt must fit; the reply ends where the window does.
    Free,
}

/// Where thinking that was signed here must stand behind the prefix that it was signed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// In an open tool loop.
    OpenLoop,
    /// Anywhere, as models with preserved thinking have it.
    Everywhere,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window: 200_000, minimum: 1_024 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            models: BTreeMap::new(),
            room: Room::Reserved,
            binding: Binding::OpenLoop,
            chat: Keeping::Automatic,
            unmarked: Duration::from_mins(10),
            speaker: says(|_, number| Say::text(format!("ok {number}"))),
        }
    }
}

impl Settings {
    /// The default in a window of so many tokens.
    pub(crate) fn window(window: u64) -> Self {
        Self { limits: Limits { window, ..Limits::default() }, ..Self::default() }
    }

    pub(super) fn limits(&self, model: &str) -> Limits {
        self.models.get(model).copied().unwrap_or(self.limits)
    }
}
