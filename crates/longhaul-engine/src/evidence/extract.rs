//! Reads text blocks and tool calls of a transcript into [`EvidenceContent`], through the cache: the result
//! depends only on the content of the block or call.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::action;
use crate::block_cache::{BlockCache, Cacheable, ContentKey};
use crate::host_text;
use crate::transcript::{
    Block, BlockKind, BlockPosition, BlockRole, Speaker, TextEncoding, TextSpan, ToolCall, Transcript, Turn, TurnBlock,
    TurnKind,
};
use crate::wire;

use super::assistant_text::AssistantText;
use super::tool_use::{ActionWithChanges, ToolUse};
use super::user_message::UserMessage;
use super::weights::RELAY_EDGE_BYTES;

/// The evidence in one block or tool call, which depends only on its content.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most of a long session is tool uses, the largest variant")]
pub(crate) enum EvidenceContent {
    UserMessage(UserMessage),
    AssistantText(AssistantText),
    ToolUse(ToolUse),
}

impl Cacheable for EvidenceContent {
    /// Returns the approximate memory of the content, in bytes.
    fn size_bytes(&self) -> usize {
        match self {
            Self::UserMessage(spoken) => spoken.text.len() + 64,
            Self::AssistantText(told) => told.size(),
            Self::ToolUse(tool_use) => tool_use.size(),
        }
    }
}

/// How a block or a tool call is read. It is part of the cache key, because the same text means something
/// else from another speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    UserPrompt,
    AssistantReply,
    /// A reply that ends with a tool call written as text.
    ReplyWithTextCall,
    /// A tool result to which the host program added a message of a person or another agent.
    RelayedMessage,
    /// A tool call, of which only the action is read.
    Action,
    /// A tool call, read in full.
    ToolUse,
}

/// A text block to be read, with its position.
struct TextSource<'u, 'b> {
    at: BlockPosition,
    key: ContentKey,
    mode: ReadMode,
    block: &'u Block<'b>,
}

/// A tool call to be read. Its position is that of its first result, or of the call if there is no result.
pub(super) struct CallSource<'u, 'b> {
    pub(super) at: BlockPosition,
    key: ContentKey,
    tool_call: &'u ToolCall<'b>,
    reply: &'u [Block<'b>],
}

/// Reads the texts of people and of the agent in the turns from `first` on, in order, each with its position.
pub(super) fn read_texts(
    cache: &mut BlockCache,
    transcript: &Transcript<'_>,
    first: usize,
) -> Vec<(BlockPosition, Arc<EvidenceContent>)> {
    let parts = (first..transcript.turns.len()).flat_map(|turn| transcript.blocks_of_turn(turn));
    let sources: Vec<TextSource<'_, '_>> =
        parts.filter_map(|part| TextSource::from_turn_block(&transcript.turns[part.position.unit], part)).collect();
    let contents = cache.get_or_compute_all(&sources, |source| (source.key, source.mode as u8), TextSource::read);
    sources.iter().zip(contents).map(|(source, content)| (source.at, content)).collect()
}

impl<'u, 'b> TextSource<'u, 'b> {
    /// Returns the block of a turn as a source, or `None` if its kind has no text to read.
    fn from_turn_block(turn: &Turn<'b>, part: TurnBlock<'u, 'b>) -> Option<Self> {
        let source = part.block;
        let reader = match (&turn.kind, source.kind) {
            _ if !matches!(part.role, BlockRole::Content) => {
                let is_result = matches!(part.role, BlockRole::Result { .. }) && source.kind == BlockKind::Text;
                (is_result && may_contain_relayed_text(source)).then_some(ReadMode::RelayedMessage)?
            }
            (TurnKind::Prompt { speaker: Speaker::User | Speaker::Unsure, .. }, BlockKind::Text) => {
                ReadMode::UserPrompt
            }
            (TurnKind::Assistant { tool_calls, .. }, BlockKind::Text) if source.text.is_some() => {
                let has_text_call = tool_calls.iter().any(|tool_call| tool_call.call.is_none());
                if has_text_call || wire::ends_with_text_call(source) {
                    ReadMode::ReplyWithTextCall
                } else {
                    ReadMode::AssistantReply
                }
            }
            (TurnKind::Assistant { .. }, BlockKind::Reasoning(_)) if source.text.is_some() => ReadMode::AssistantReply,
            _ => return None,
        };
        let form = source.text.map_or(0, |text| text.encoding as u8);
        Some(Self {
            at: part.position,
            key: ContentKey::new(form, source.raw().as_bytes()),
            mode: reader,
            block: source,
        })
    }

    fn read(&self) -> EvidenceContent {
        let text = match self.block.text {
            Some(TextSpan { encoding: TextEncoding::Json, .. }) => join_texts(&self.block.text()).into(),
            _ => self.block.text(),
        };
        match self.mode {
            ReadMode::UserPrompt => EvidenceContent::UserMessage(UserMessage::parse(&text)),
            ReadMode::RelayedMessage => EvidenceContent::UserMessage(UserMessage::from_tool_result(&text)),
            ReadMode::ReplyWithTextCall => {
                EvidenceContent::AssistantText(AssistantText::parse(&text, text_call_start(&text)))
            }
            _ => EvidenceContent::AssistantText(AssistantText::parse(&text, text.len())),
        }
    }
}

/// Returns whether a tool result may contain a message that the host program passed on. Looks only at both
/// ends of the result.
fn may_contain_relayed_text(result: &Block<'_>) -> bool {
    host_text::may_end_with_relayed(&result.ending(RELAY_EDGE_BYTES))
        || host_text::may_be_rejection(&result.opening(RELAY_EDGE_BYTES))
}

/// Returns the tool calls of the turns from `first` on, in order.
pub(super) fn collect_calls<'u, 'b>(transcript: &'u Transcript<'b>, first: usize) -> Vec<CallSource<'u, 'b>> {
    let mut all = Vec::new();
    for (turn, content) in transcript.turns.iter().enumerate().skip(first) {
        let TurnKind::Assistant { reply, .. } = &content.kind else { continue };
        let to_source = |(block, tool_call)| {
            let at = BlockPosition { unit: turn, block };
            CallSource { at, key: call_key(tool_call, reply), tool_call, reply }
        };
        all.extend(content.tool_calls_with_block_index().map(to_source));
    }
    all
}

/// Reads the action of each tool call.
pub(super) fn read_actions(cache: &mut BlockCache, tool_calls: &[CallSource<'_, '_>]) -> Vec<Arc<ActionWithChanges>> {
    let key = |call: &CallSource<'_, '_>| (call.key, ReadMode::Action as u8);
    cache
        .get_or_compute_all(tool_calls, key, |call| ActionWithChanges::new(call.tool_call, call.arguments().as_deref()))
}

/// Reads each tool call in full.
pub(super) fn read_tool_uses(cache: &mut BlockCache, tool_calls: &[CallSource<'_, '_>]) -> Vec<Arc<EvidenceContent>> {
    let actions = read_actions(cache, tool_calls);
    let both: Vec<(&CallSource<'_, '_>, Arc<ActionWithChanges>)> = tool_calls.iter().zip(actions).collect();
    cache.get_or_compute_all(
        &both,
        |(call, _)| (call.key, ReadMode::ToolUse as u8),
        |(call, action)| EvidenceContent::ToolUse(ToolUse::new(call.tool_call, call.arguments().as_deref(), action)),
    )
}

impl<'b> CallSource<'_, 'b> {
    fn arguments(&self) -> Option<Cow<'b, str>> {
        action::call_arguments(self.tool_call, self.reply)
    }
}

/// Returns the byte offset at which the text call at the end of a reply starts, or the length of the text if
/// there is none.
fn text_call_start(text: &str) -> usize {
    action::text_call::parse_call("", text).map_or(text.len(), |(start, _)| start)
}

/// Joins the texts of a JSON list such as `[{"text": "…"}]`, which is how some models show their reasoning.
fn join_texts(list: &str) -> String {
    let list: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
    let texts: Vec<&str> = list.iter().filter_map(|item| item.get("text")?.as_str()).collect();
    texts.join("\n\n")
}

/// Returns the cache key of a tool call: its tool, how it ended, its call and its results.
fn call_key(tool_call: &ToolCall<'_>, reply: &[Block<'_>]) -> ContentKey {
    let text_with_call = reply.iter().rfind(|block| tool_call.call.is_none() && block.kind == BlockKind::Text);
    let blocks =
        text_with_call.into_iter().chain(&tool_call.call).chain(&tool_call.results).map(|block| block.raw().as_bytes());
    let ended =
        [tool_call.status as u8, tool_call.failed.map_or(2, u8::from), u8::from(tool_call.result_elements.is_empty())];
    ContentKey::from_parts([tool_call.tool.as_bytes(), &ended].into_iter().chain(blocks))
}
