//! The redacted form of a transcript that an engine from outside receives for its proposal.
//!
//! The messages of one turn stay or go together: a call and its results belong to one turn, and turns that
//! share a message form one group.

use std::collections::BTreeSet;

use serde::Serialize;

use super::report::{ContentKind, Trigger};
use super::survey::Survey;
use crate::redact::{Redacted, RedactionMode, Redactor};
use crate::transcript::{Block, BlockKind, BlockRole, Role, TextEncoding, Transcript, TurnBlock, TurnKind};
use crate::{ApiFormat, Tokens};

/// A request that an engine from outside should make smaller. Its field names are part of the plug-in
/// protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProposalInput {
    /// The API format of the request.
    pub dialect: ApiFormat,
    /// The model of the request.
    pub model: String,
    /// The context window of the model in tokens.
    pub window: Tokens,
    /// The number of tokens from which on a compaction starts.
    pub threshold: Tokens,
    /// The tokens of the request.
    pub tokens: Tokens,
    /// The tokens that it should have after the compaction.
    pub target: Tokens,
    /// The event that started the compaction.
    pub trigger: Trigger,
    /// A topic that should be kept before everything else.
    pub focus: Option<Redacted>,
    /// The messages, oldest first.
    pub messages: Vec<InputMessage>,
}

/// A message of the request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputMessage {
    /// The index of the message in the request.
    pub index: usize,
    /// The role of the message, if it is known.
    pub role: Option<&'static str>,
    /// The number of the group; messages with the same number stay or go together.
    pub unit: usize,
    /// The tokens of its blocks.
    pub tokens: Tokens,
    /// Whether the message has to stay as it is.
    pub protected: bool,
    /// The blocks of the message.
    pub blocks: Vec<InputBlock>,
}

/// A block of a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputBlock {
    /// The index of the block in its message.
    pub index: usize,
    /// The kind of content: `prompt`, `reply`, `reasoning`, `call`, `result`, `checkpoint`, `image`,
    /// `document`, `audio`, `system` or `opaque`.
    pub kind: &'static str,
    /// The tool that was called or that returned it, for calls and results.
    pub tool: Option<String>,
    /// The tokens of the block.
    pub tokens: Tokens,
    /// Whether a proposal may shorten the block.
    pub editable: bool,
    /// The text of the block, with secrets removed.
    pub text: Redacted,
}

impl ProposalInput {
    pub(super) fn new(survey: &Survey<'_, '_>, target: Tokens, redactor: &mut Redactor) -> Self {
        let Survey { transcript, policy, .. } = *survey;
        let stays = survey.required_turns();
        let focus = survey.focus().map(|focus| redactor.redact(&focus, RedactionMode::Text).text);
        let turns = message_groups(transcript);
        let parts = transcript.blocks_by_message(0..transcript.message_count());
        let messages = parts.iter().enumerate().map(|(index, parts)| {
            let system = transcript.preamble.iter().filter(|block| is_block_in_message(transcript, block, index));
            let system = system.map(|block| (survey.meter.counter.count(&block.text()), block));
            let system: Vec<InputBlock> = system
                .enumerate()
                .map(|(index, (tokens, block))| InputBlock {
                    index,
                    kind: "system",
                    tool: None,
                    tokens,
                    editable: false,
                    text: redactor.redact(&block.text(), RedactionMode::Text).text,
                })
                .collect();
            let protected = parts.is_empty() || parts.iter().any(|part| stays.contains(&part.position.unit));
            let said = parts.iter().enumerate().map(|(index, part)| InputBlock {
                index,
                kind: kind_name(transcript, *part),
                tool: part.role.tool_call().map(|tool_call| tool_call.tool.clone().into_owned()),
                tokens: survey.tokens_of_block(part.position),
                editable: is_editable(survey, &stays, *part),
                text: redactor.redact(&part.block.text(), RedactionMode::Text).text,
            });
            let blocks: Vec<InputBlock> = if parts.is_empty() { system } else { said.collect() };
            InputMessage {
                index,
                role: transcript.role(index).map(role_name),
                unit: turns[index],
                tokens: blocks.iter().map(|block| block.tokens).sum(),
                protected,
                blocks,
            }
        });
        let messages = messages.collect();
        Self {
            dialect: transcript.api_format,
            model: policy.model.name.clone(),
            window: policy.window,
            threshold: policy.threshold,
            tokens: survey.total,
            target,
            trigger: survey.options.trigger,
            focus,
            messages,
        }
    }
}

fn is_block_in_message(transcript: &Transcript<'_>, block: &Block<'_>, message: usize) -> bool {
    transcript.message_at(block.at) == Some(message)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn kind_name(transcript: &Transcript<'_>, part: TurnBlock<'_, '_>) -> &'static str {
    match part.block.kind {
        BlockKind::Image(_) => "image",
        BlockKind::Document(_) => "document",
        BlockKind::Audio => "audio",
        _ => ContentKind::classify(&transcript.turns[part.position.unit], part).name(),
    }
}

/// Whether a proposal may shorten a block: only text of the model or of a tool. A person's message can be
/// removed, but not reworded.
pub(super) fn is_editable(survey: &Survey<'_, '_>, stays: &BTreeSet<usize>, part: TurnBlock<'_, '_>) -> bool {
    let of_step = matches!(survey.transcript.turns[part.position.unit].kind, TurnKind::Assistant { .. });
    let is_kept =
        part.role.tool_call().is_some_and(|tool_call| survey.policy.user_protections.protects_tool(&tool_call.tool));
    let has_words = !matches!(part.role, BlockRole::Call(_))
        && part.block.kind == BlockKind::Text
        && part.block.text.is_some_and(|text| text.encoding == TextEncoding::String);
    of_step && has_words && !is_kept && !stays.contains(&part.position.unit)
}

/// Returns for each message the number of its group, which stays or goes as a whole.
pub(super) fn message_groups(transcript: &Transcript<'_>) -> Vec<usize> {
    let mut first: Vec<usize> = (0..transcript.message_count()).collect();
    for turn in &transcript.turns {
        let messages = turn.owned_elements.iter().filter_map(|id| transcript.message_of(*id));
        let roots: BTreeSet<usize> = messages.map(|message| group_root(&first, message)).collect();
        let Some(least) = roots.first().copied() else { continue };
        for other in roots {
            first[other] = least;
        }
    }
    (0..first.len()).map(|message| group_root(&first, message)).collect()
}

/// Returns the first message of a group, as far as groups are joined by now.
fn group_root(first: &[usize], mut message: usize) -> usize {
    while first[message] != message {
        message = first[message];
    }
    message
}
