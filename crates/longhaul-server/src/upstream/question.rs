//! What a model is asked, and what it answers.

use std::sync::Arc;

use longhaul_engine::prices::Usage;
use longhaul_engine::redact::Redacted;
use longhaul_engine::{Dialect, Tokens};

use super::{Patience, Upstream};

/// One question, to one upstream, by somebody who waits only so long.
#[derive(Debug, Clone)]
pub struct Question {
    /// Who is asked.
    pub upstream: Arc<Upstream>,
    /// What is asked.
    pub asked: Asked,
    /// How long it may take.
    pub patience: Patience,
}

/// What is asked, and in whose words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A small request of our own.
    Small(Small),
    /// A whole request body that somebody made: a session's own prefix with an instruction behind it. It is sent as it is, so
    /// that what the provider has cached of it is found again; the model and whether it streams stand in it.
    Body {
        /// What the body is written in.
        dialect: Dialect,
        /// The body.
        body: String,
    },
}

/// A request of one system prompt and one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Small {
    /// The model, by the name that the upstream knows it by.
    pub model: String,
    /// What the model is told about its task; nothing is said where it is empty.
    pub system: Redacted,
    /// The task and its material.
    pub user: Redacted,
    /// The model writes no more than this.
    pub max_tokens: Tokens,
    /// How the answer comes.
    pub streaming: Streaming,
}

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// All at once, as one JSON document.
    Whole,
    /// As it is written, as server-sent events.
    Events,
}

/// What a model answered. The text can be empty, which is for the reader to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What it said, without its thinking.
    pub text: String,
    /// What the provider says that it used.
    pub usage: Option<Usage>,
    /// Why it stopped.
    pub finish: Finish,
    /// The model that answered, by the provider's word.
    pub model: Option<String>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finish {
    /// It had said all.
    Whole,
    /// It had no room left, or stopped for a reason that is not known: the text may end anywhere.
    Cut,
    /// It, or a filter before it, would not answer.
    Refused,
    /// It wants a tool to be called.
    ToolCall,
}
