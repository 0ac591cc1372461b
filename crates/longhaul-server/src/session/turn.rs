//! What comes of a request: the body to send, what was done, and what there is to say.

use std::borrow::Cow;

use longhaul_engine::Tokens;
use longhaul_engine::plan::Report;

use super::gauge::{By, Measured};
use super::hooks::Host;

/// A request that can be sent.
#[derive(Debug, Clone)]
pub struct Turn<'b> {
    /// The body.
    pub body: Cow<'b, str>,
    /// What was done with it.
    pub action: Action,
    /// Why, in words.
    pub reason: String,
    /// The account of the compaction, where there was one or one was tried.
    pub report: Option<Report>,
    /// Its size before that; nothing for what cannot be read.
    pub measured: Option<Measured>,
    /// What the client sent, and what is sent in its place, by the provider's measure where that is known.
    pub sizes: Option<Sizes>,
    /// Lines for people, never for the model.
    pub said: Vec<String>,
}

impl<'b> Turn<'b> {
    /// A body of which nothing could be made.
    pub(super) fn as_it_came(body: &'b str, problem: &str, said: &mut Said<'_>) -> Self {
        let reason = format!("the request goes as it came: {problem}");
        said.say(reason.clone());
        let (body, said) = (Cow::Borrowed(body), std::mem::take(&mut said.lines));
        Self { body, action: Action::None, reason, report: None, measured: None, sizes: None, said }
    }

    pub(super) fn new(
        body: Cow<'b, str>,
        action: Action,
        reason: String,
        report: Option<Report>,
        measured: Measured,
    ) -> Self {
        Self { body, action, reason, report, measured: Some(measured), sizes: None, said: Vec::new() }
    }
}

/// How full the window of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The tokens of its newest request.
    pub sizes: Sizes,
    /// On whose word.
    pub by: By,
    /// The window.
    pub window: Tokens,
    /// The size at which a compaction is triggered.
    pub threshold: Tokens,
}

/// The tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// As the client sent it.
    pub whole: Tokens,
    /// As it is sent.
    pub sent: Tokens,
}

/// What was done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it goes as it came.
    None,
    /// What was decided before was decided again.
    Replayed,
    /// It was compacted.
    Compacted,
}

/// What is said in one turn: to the host at once, and in the turn.
pub(super) struct Said<'h> {
    host: &'h dyn Host,
    pub(super) lines: Vec<String>,
}

impl<'h> Said<'h> {
    pub(super) fn to(host: &'h dyn Host) -> Self {
        Self { host, lines: Vec::new() }
    }

    pub(super) fn say(&mut self, line: impl Into<String>) {
        let line = line.into();
        self.host.say(&line);
        self.lines.push(line);
    }
}
