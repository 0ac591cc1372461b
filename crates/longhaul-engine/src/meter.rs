//! Counts the tokens of a transcript for one model, by part.
//!
//! Text is counted with the model's tokenizer or the nearest one. Blocks without readable text (images,
//! documents, sealed reasoning) are estimated by their size, and then the count is not exact. Every message
//! adds a few tokens for its framing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::block_cache::{BlockCache, ContentKey};
use crate::json::Span;
use crate::models::Model;
use crate::tokens::images::{self, ImageCost};
use crate::tokens::{TokenCounter, Tokens};
use crate::transcript::{Block, BlockKind, Seal, TextEncoding, ToolCall, Transcript, Turn, TurnKind};

/// The tokens that a message adds to its content, for its role and separators. Three to four are documented
/// for Chat Completions, and no provider reports more than a few.
pub const MESSAGE_FRAMING_TOKENS: Tokens = Tokens(4);

/// The base64 bytes of a document that count as one page. A page of a PDF has 30 to 100 kB of base64.
const BASE64_BYTES_PER_PAGE: usize = 64 * 1024;
/// The tokens that are counted for one page of a document. Chosen by hand.
const TOKENS_PER_PAGE: u64 = 1_600;

/// The bytes of sealed reasoning that count as one token. It is base64 of encrypted text: four characters for
/// three bytes, and about four bytes for a token.
const SEALED_BYTES_PER_TOKEN: usize = 5;

/// Counts the tokens of blocks for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meter {
    /// The counter for text.
    pub counter: TokenCounter,
    /// The rule for images.
    pub images: ImageCost,
}

/// The tokens of a request by part. The sum is the size of the whole request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TokenBreakdown {
    /// The system prompt.
    pub system: Tokens,
    /// Tool definitions.
    pub tools: Tokens,
    /// Prompts, checkpoints and opaque turns.
    pub user: Tokens,
    /// The text of replies.
    pub assistant: Tokens,
    /// The reasoning of the model.
    pub reasoning: Tokens,
    /// Tool calls.
    pub calls: Tokens,
    /// The results of tool calls.
    pub results: Tokens,
    /// Images, documents and audio in any part of the request.
    pub images: Tokens,
}

impl TokenBreakdown {
    /// Returns the size of the whole request.
    #[must_use]
    pub fn total(&self) -> Tokens {
        let Self { system, tools, user, assistant, reasoning, calls, results, images } = *self;
        [system, tools, user, assistant, reasoning, calls, results, images].into_iter().sum()
    }
}

/// The part that a block counts towards, unless its kind determines the part.
#[derive(Clone, Copy)]
enum DefaultPart {
    System,
    User,
    Assistant,
    Results,
}

impl Meter {
    /// Returns the meter for a model.
    #[must_use]
    pub fn for_model(model: &Model) -> Self {
        Self { counter: model.counter(), images: model.facts.image_rule.cost() }
    }

    /// Counts the tokens of one block, without framing.
    pub fn count_block(&self, cache: &mut BlockCache, block: &Block<'_>) -> Tokens {
        match block.kind {
            BlockKind::Image(data) => {
                let data = data.map(|span| &block.body[span.range()]);
                self.images.tokens(data.and_then(images::read_size))
            }
            BlockKind::Document(data) if block.text.is_none() => document_tokens(data.map_or(0, Span::len)),
            BlockKind::Audio => document_tokens(block.at.len()),
            BlockKind::Reasoning(Seal::Sealed) if block.text.is_none() => {
                Tokens((block.at.len() / SEALED_BYTES_PER_TOKEN) as u64)
            }
            _ => self.count_text(cache, block),
        }
    }

    /// Counts the tokens of several blocks, without framing. The counts have the order of the blocks.
    pub(crate) fn count_blocks<'t, 'b: 't>(
        &self,
        cache: &mut BlockCache,
        blocks: impl Iterator<Item = &'t Block<'b>>,
    ) -> Vec<Tokens> {
        let blocks: Vec<&Block<'_>> = blocks.collect();
        let counted: Vec<_> =
            blocks.iter().filter(|block| is_counted_by_text(block)).map(|block| (content_key(block), *block)).collect();
        let mut counts = cache.count_all_tokens(self.counter, &counted, |block| countable_text(block)).into_iter();
        let tokens = |block: &&Block<'_>| {
            if is_counted_by_text(block) { counts.next().unwrap_or_default() } else { self.count_block(cache, block) }
        };
        blocks.iter().map(tokens).collect()
    }

    fn count_text(&self, cache: &mut BlockCache, block: &Block<'_>) -> Tokens {
        cache.count_tokens(self.counter, content_key(block), || countable_text(block))
    }

    /// Returns whether every block is counted exactly as the model's own tokenizer would count it.
    #[must_use]
    pub fn is_exact(&self, transcript: &Transcript<'_>) -> bool {
        self.counter.is_exact() && transcript.blocks().all(is_counted_by_text)
    }

    /// Counts the tokens of these turns that are not in their blocks: names of tools, and the framing of
    /// `messages` messages.
    pub(crate) fn turns_overhead(&self, cache: &mut BlockCache, turns: &[Turn<'_>], messages: usize) -> Tokens {
        let names: Tokens = turns.iter().map(|turn| self.count_tool_names(cache, turn)).sum();
        names + Tokens(MESSAGE_FRAMING_TOKENS.0 * messages as u64)
    }

    /// Counts the tokens of a turn, including the names of its tools and the framing of its messages.
    pub fn count_turn(&self, cache: &mut BlockCache, turn: &Turn<'_>) -> Tokens {
        let blocks: Tokens = turn.blocks().map(|block| self.count_block(cache, block)).sum();
        blocks + self.turn_overhead(cache, turn)
    }

    /// Counts the tokens of a turn that are not in its blocks.
    pub(crate) fn turn_overhead(&self, cache: &mut BlockCache, turn: &Turn<'_>) -> Tokens {
        self.count_tool_names(cache, turn) + Tokens(MESSAGE_FRAMING_TOKENS.0 * turn.owned_elements.len() as u64)
    }

    /// Counts the tokens of the names of the tools that a turn calls.
    fn count_tool_names(&self, cache: &mut BlockCache, turn: &Turn<'_>) -> Tokens {
        match &turn.kind {
            TurnKind::Assistant { tool_calls, .. } => {
                tool_calls.iter().map(|tool_call| self.count_tool_name(cache, tool_call)).sum()
            }
            _ => Tokens::ZERO,
        }
    }

    /// Counts the tokens that belong to no turn. Turns can share a message, whose framing is then counted in
    /// each of them. So the whole request can be smaller than the sum of this and all turns.
    pub fn count_outside_turns(&self, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Tokens {
        let owned = transcript.turns.iter().flat_map(|turn| &turn.owned_elements);
        let owned: BTreeSet<usize> = owned.filter_map(|id| transcript.message_of(*id)).collect();
        let framed = transcript.message_count().saturating_sub(owned.len()) as u64;
        let blocks: Tokens = transcript.preamble.iter().map(|block| self.count_block(cache, block)).sum();
        blocks + Tokens(MESSAGE_FRAMING_TOKENS.0 * framed)
    }

    /// Counts the tokens of the tool's name in a structured call.
    pub(crate) fn count_tool_name(&self, cache: &mut BlockCache, tool_call: &ToolCall<'_>) -> Tokens {
        let Some(tool) = structured_tool_name(tool_call) else { return Tokens::ZERO };
        cache.count_tokens(self.counter, ContentKey::new(TextEncoding::String as u8, tool.as_bytes()), || tool)
    }

    /// Counts the whole request by part.
    pub fn breakdown(&self, cache: &mut BlockCache, transcript: &Transcript<'_>) -> TokenBreakdown {
        let mut counts = self.count_blocks(cache, transcript.blocks()).into_iter();
        let mut parts = TokenBreakdown::default();
        let mut names = Vec::new();
        let mut add = |part: DefaultPart, block: &Block<'_>, parts: &mut TokenBreakdown| {
            *part_mut(parts, part, block.kind) += counts.next().unwrap_or_default();
        };
        for block in &transcript.preamble {
            add(DefaultPart::System, block, &mut parts);
        }
        for turn in &transcript.turns {
            match &turn.kind {
                TurnKind::Prompt { blocks, .. } => {
                    for b in blocks {
                        add(DefaultPart::User, b, &mut parts);
                    }
                }
                TurnKind::Checkpoint(block) | TurnKind::Opaque(block) => {
                    add(DefaultPart::User, block, &mut parts);
                }
                TurnKind::Assistant { reply, tool_calls } => {
                    for block in reply {
                        add(DefaultPart::Assistant, block, &mut parts);
                    }
                    names.extend(tool_calls);
                    for call in tool_calls.iter().filter_map(|tool_call| tool_call.call.as_ref()) {
                        add(DefaultPart::Assistant, call, &mut parts);
                    }
                    for result in tool_calls.iter().flat_map(|tool_call| &tool_call.results) {
                        add(DefaultPart::Results, result, &mut parts);
                    }
                }
            }
        }
        for name in names {
            parts.calls += self.count_tool_name(cache, name);
        }
        Self::add_framing(transcript, &mut parts);
        parts
    }

    /// Adds the framing of each message to its part.
    fn add_framing(transcript: &Transcript<'_>, parts: &mut TokenBreakdown) {
        let mut left = transcript.message_count() as u64;
        let mut add = |part: &mut Tokens, messages: usize| {
            let messages = (messages as u64).min(left);
            left -= messages;
            *part += Tokens(MESSAGE_FRAMING_TOKENS.0 * messages);
        };
        // Turns can share messages, so they may own more elements than there are messages. The leading system
        // messages are counted first.
        add(&mut parts.system, transcript.system_message_count());
        for turn in &transcript.turns {
            match &turn.kind {
                TurnKind::Assistant { tool_calls, .. } => {
                    let results = tool_calls
                        .iter()
                        .map(|e| e.result_elements.len())
                        .sum::<usize>()
                        .min(turn.owned_elements.len());
                    add(&mut parts.results, results);
                    add(&mut parts.assistant, turn.owned_elements.len() - results);
                }
                _ => add(&mut parts.user, turn.owned_elements.len()),
            }
        }
        add(&mut parts.system, usize::MAX);
    }
}

/// Returns the name of a structured call's tool. If the call is written as text, the name is counted with the
/// text.
fn structured_tool_name<'e>(tool_call: &'e ToolCall<'_>) -> Option<&'e str> {
    tool_call.call.as_ref().map(|_| &*tool_call.tool)
}

/// Returns whether a block is counted by its text and not estimated by its size.
fn is_counted_by_text(block: &Block<'_>) -> bool {
    match block.kind {
        BlockKind::Image(_) | BlockKind::Audio => false,
        BlockKind::Document(_) | BlockKind::Reasoning(_) => block.text.is_some(),
        _ => true,
    }
}

/// Returns the text of a block that is counted: its JSON if the block has no text.
fn countable_text<'b>(block: &Block<'b>) -> Cow<'b, str> {
    if block.text.is_some() { block.text() } else { Cow::Borrowed(block.raw()) }
}

/// Returns the cache key of a block's text.
fn content_key(block: &Block<'_>) -> ContentKey {
    let (at, form) = block.text.map_or((block.at, TextEncoding::Json), |text| (text.at, text.encoding));
    ContentKey::new(form as u8, block.body[at.range()].as_bytes())
}

fn part_mut(parts: &mut TokenBreakdown, part: DefaultPart, kind: BlockKind) -> &mut Tokens {
    match (kind, part) {
        (BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio, _) => &mut parts.images,
        (BlockKind::Tool, _) => &mut parts.tools,
        (BlockKind::Reasoning(_), _) => &mut parts.reasoning,
        (BlockKind::Call, _) => &mut parts.calls,
        (_, DefaultPart::System) => &mut parts.system,
        (_, DefaultPart::User) => &mut parts.user,
        (_, DefaultPart::Assistant) => &mut parts.assistant,
        (_, DefaultPart::Results) => &mut parts.results,
    }
}

fn document_tokens(base64: usize) -> Tokens {
    Tokens(TOKENS_PER_PAGE * base64.div_ceil(BASE64_BYTES_PER_PAGE).max(1) as u64)
}
