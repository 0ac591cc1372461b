//! What an engine from outside is shown of a transcript, to propose what goes: messages with their words, secrets taken out.
//!
//! Messages of one unit stay or go together: a call is in the unit of its results, and what shares a message shares a unit.

use std::collections::BTreeSet;

use serde::Serialize;

use super::report::{Trigger, What};
use super::survey::Survey;
use crate::redact::{Content, Redacted, Redactor};
use crate::transcript::{Block, BlockKind, Form, Part, PartKind, Role, Transcript, UnitKind};
use crate::{Dialect, Tokens};

/// A request that is to become smaller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// How its body is written.
    pub dialect: Dialect,
    /// The model that it is for.
    pub model: String,
    /// What the model takes.
    pub window: Tokens,
    /// From how many tokens on a compaction is due.
    pub threshold: Tokens,
    /// What the request holds.
    pub tokens: Tokens,
    /// What it should come to.
    pub target: Tokens,
    /// What set the compaction off.
    pub trigger: Trigger,
    /// A topic that is to be kept before all else.
    pub focus: Option<Redacted>,
    /// What it holds, oldest first.
    pub messages: Vec<Message>,
}

/// A message of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    /// Its place in the body's list.
    pub index: usize,
    /// Under whose name it stands, where that is understood.
    pub role: Option<&'static str>,
    /// Messages with one number stay or go together.
    pub unit: usize,
    /// What its words cost.
    pub tokens: Tokens,
    /// Whether it stays as it is whatever is proposed.
    pub protected: bool,
    /// What it holds.
    pub blocks: Vec<ShownBlock>,
}

/// A block of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShownBlock {
    /// Its place in the message.
    pub index: usize,
    /// What it is: `prompt`, `reply`, `reasoning`, `call`, `result`, `checkpoint`, `image`, `document`, `audio`, `system`, `opaque`.
    pub kind: &'static str,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// What it costs.
    pub tokens: Tokens,
    /// Whether a shorter text may stand in its place.
    pub editable: bool,
    /// Its words.
    pub text: Redacted,
}

impl Shown {
    pub(super) fn of(survey: &Survey<'_, '_>, target: Tokens, redactor: &mut Redactor) -> Self {
        let Survey { transcript, policy, .. } = *survey;
        let stays = survey.must_stay();
        let focus = survey.focus().map(|focus| redactor.redact(&focus, Content::Text).text);
        let units = bundles(transcript);
        let parts = transcript.parts_by_message(0..transcript.message_count());
        let messages = parts.iter().enumerate().map(|(index, parts)| {
            let system = transcript.preamble.iter().filter(|block| is_in(transcript, block, index));
            let system = system.map(|block| (survey.meter.counter.count(&block.text()), block));
            let system: Vec<ShownBlock> = system
                .enumerate()
                .map(|(index, (tokens, block))| ShownBlock {
                    index,
                    kind: "system",
                    tool: None,
                    tokens,
                    editable: false,
                    text: redactor.redact(&block.text(), Content::Text).text,
                })
                .collect();
            let protected = parts.is_empty() || parts.iter().any(|part| stays.contains(&part.at.unit));
            let said = parts.iter().enumerate().map(|(index, part)| ShownBlock {
                index,
                kind: kind(transcript, *part),
                tool: part.kind.exchange().map(|exchange| exchange.tool.clone().into_owned()),
                tokens: survey.tokens(part.at),
                editable: is_editable(survey, &stays, *part),
                text: redactor.redact(&part.block.text(), Content::Text).text,
            });
            let blocks: Vec<ShownBlock> = if parts.is_empty() { system } else { said.collect() };
            Message {
                index,
                role: transcript.role(index).map(role),
                unit: units[index],
                tokens: blocks.iter().map(|block| block.tokens).sum(),
                protected,
                blocks,
            }
        });
        let messages = messages.collect();
        Self {
            dialect: transcript.dialect,
            model: policy.model.name.clone(),
            window: policy.window,
            threshold: policy.threshold,
            tokens: survey.total,
            target,
            trigger: survey.wish.trigger,
            focus,
            messages,
        }
    }
}

fn is_in(transcript: &Transcript<'_>, block: &Block<'_>, message: usize) -> bool {
    transcript.message_at(block.at) == Some(message)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn kind(transcript: &Transcript<'_>, part: Part<'_, '_>) -> &'static str {
    match part.block.kind {
        BlockKind::Image(_) => "image",
        BlockKind::Document(_) => "document",
        BlockKind::Audio => "audio",
        _ => What::of(&transcript.units[part.at.unit], part).name(),
    }
}

/// Whether a shorter text may stand in the place of a block: words of the model or of a tool. What a person said can go, but is not
/// put into other words.
pub(super) fn is_editable(survey: &Survey<'_, '_>, stays: &BTreeSet<usize>, part: Part<'_, '_>) -> bool {
    let of_step = matches!(survey.transcript.units[part.at.unit].kind, UnitKind::Step { .. });
    let is_kept = part.kind.exchange().is_some_and(|exchange| survey.policy.keep.tool(&exchange.tool));
    let has_words = !matches!(part.kind, PartKind::Call(_))
        && part.block.kind == BlockKind::Text
        && part.block.text.is_some_and(|text| text.form == Form::String);
    of_step && has_words && !is_kept && !stays.contains(&part.at.unit)
}

/// For each message, the number of those that it stays or goes with.
pub(super) fn bundles(transcript: &Transcript<'_>) -> Vec<usize> {
    let mut first: Vec<usize> = (0..transcript.message_count()).collect();
    for unit in &transcript.units {
        let messages = unit.owns.iter().filter_map(|id| transcript.message_of(*id));
        let roots: BTreeSet<usize> = messages.map(|message| root(&first, message)).collect();
        let Some(least) = roots.first().copied() else { continue };
        for other in roots {
            first[other] = least;
        }
    }
    (0..first.len()).map(|message| root(&first, message)).collect()
}

/// The first of the messages that one stays or goes with, as far as is known by now.
fn root(first: &[usize], mut message: usize) -> usize {
    while first[message] != message {
        message = first[message];
    }
    message
}
