//! What a transcript costs in tokens, part by part, for one model.
//!
//! Words are counted by the model's tokenizer or the nearest one; what has no words (pictures, documents, sealed
//! reasoning) by its size, and then the count is not called exact. Every message adds the few tokens of its framing.
//!
//! It may use `models`, `known`, `transcript` and what is below them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::json::Span;
use crate::known::{ContentKey, Known};
use crate::models::Model;
use crate::tokens::images::{self, ImageCost};
use crate::tokens::{Counter, Tokens};
use crate::transcript::{Block, BlockKind, Exchange, Form, Seal, Transcript, Unit, UnitKind};

/// What a message adds to its content: role, separators. Three to four are documented for chat bodies; nobody reports more
/// than a few.
pub const MESSAGE_FRAMING: Tokens = Tokens(4);

/// Base64 of a document for which a page's worth of tokens is counted. A page of a PDF is 30 to 100 kB of it.
const BASE64_A_PAGE: usize = 64 * 1024;
const TOKENS_A_PAGE: u64 = 1_600;

/// Sealed reasoning is base64 of some cipher text: three bytes in four characters, and about four bytes a token.
const SEALED_BYTES_A_TOKEN: usize = 5;

/// Measures blocks for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meter {
    /// How words are counted.
    pub counter: Counter,
    /// How images are.
    pub images: ImageCost,
}

/// The tokens of a request by part. They add up to the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Parts {
    /// The system prompt.
    pub system: Tokens,
    /// Tool definitions.
    pub tools: Tokens,
    /// What was said to the model.
    pub user: Tokens,
    /// What the model said.
    pub assistant: Tokens,
    /// What it thought.
    pub reasoning: Tokens,
    /// Tool calls.
    pub calls: Tokens,
    /// What came of them.
    pub results: Tokens,
    /// Pictures, documents and sound, wherever they stand.
    pub images: Tokens,
}

impl Parts {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Tokens {
        let Self { system, tools, user, assistant, reasoning, calls, results, images } = *self;
        [system, tools, user, assistant, reasoning, calls, results, images].into_iter().sum()
    }
}

/// Which part a block counts towards, if it has no kind that says so itself.
#[derive(Clone, Copy)]
enum Part {
    System,
    User,
    Assistant,
    Results,
}

impl Meter {
    /// The meter for a model.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        Self { counter: model.counter(), images: model.facts.image_rule.cost() }
    }

    /// The tokens of one block, framing apart.
    pub fn block(&self, known: &mut Known, block: &Block<'_>) -> Tokens {
        match block.kind {
            BlockKind::Image(data) => {
                let data = data.map(|span| &block.body[span.range()]);
                self.images.tokens(data.and_then(images::size))
            }
            BlockKind::Document(data) if block.text.is_none() => pages(data.map_or(0, Span::len)),
            BlockKind::Audio => pages(block.at.len()),
            BlockKind::Reasoning(Seal::Sealed) if block.text.is_none() => {
                Tokens((block.at.len() / SEALED_BYTES_A_TOKEN) as u64)
            }
            _ => self.words(known, block),
        }
    }

    /// The tokens of these blocks, in their order, framing apart.
    pub(crate) fn blocks<'t, 'b: 't>(
        &self,
        known: &mut Known,
        blocks: impl Iterator<Item = &'t Block<'b>>,
    ) -> Vec<Tokens> {
        let blocks: Vec<&Block<'_>> = blocks.collect();
        let counted: Vec<_> =
            blocks.iter().filter(|block| has_words(block)).map(|block| (key(block), *block)).collect();
        let mut counts = known.count_all(self.counter, &counted, |block| words(block)).into_iter();
        let tokens = |block: &&Block<'_>| {
            if has_words(block) { counts.next().unwrap_or_default() } else { self.block(known, block) }
        };
        blocks.iter().map(tokens).collect()
    }

    fn words(&self, known: &mut Known, block: &Block<'_>) -> Tokens {
        known.count(self.counter, key(block), || words(block))
    }

    /// Whether every block's count is what the model's own tokenizer says.
    #[must_use]
    pub fn is_exact(&self, transcript: &Transcript<'_>) -> bool {
        self.counter.is_exact() && transcript.blocks().all(has_words)
    }

    /// What these units and all messages cost besides their blocks.
    pub(crate) fn besides(&self, known: &mut Known, units: &[Unit<'_>], messages: usize) -> Tokens {
        let names: Tokens = units.iter().map(|unit| self.names(known, unit)).sum();
        names + Tokens(MESSAGE_FRAMING.0 * messages as u64)
    }

    /// The tokens of a unit, its tools' names and its messages' framing included.
    pub fn unit(&self, known: &mut Known, unit: &Unit<'_>) -> Tokens {
        let blocks: Tokens = unit.blocks().map(|block| self.block(known, block)).sum();
        blocks + self.around(known, unit)
    }

    /// What a unit costs besides its blocks.
    pub(crate) fn around(&self, known: &mut Known, unit: &Unit<'_>) -> Tokens {
        self.names(known, unit) + Tokens(MESSAGE_FRAMING.0 * unit.owns.len() as u64)
    }

    /// The names of the tools that a unit calls.
    fn names(&self, known: &mut Known, unit: &Unit<'_>) -> Tokens {
        match &unit.kind {
            UnitKind::Step { exchanges, .. } => {
                exchanges.iter().map(|exchange| self.name(known, exchange)).sum()
            }
            _ => Tokens::ZERO,
        }
    }

    /// The tokens of what belongs to no unit. Units can share a message, so that the whole is less than its units and this.
    pub fn outside(&self, known: &mut Known, transcript: &Transcript<'_>) -> Tokens {
        let owned = transcript.units.iter().flat_map(|unit| &unit.owns);
        let owned: BTreeSet<usize> = owned.filter_map(|id| transcript.message_of(*id)).collect();
        let framed = transcript.message_count().saturating_sub(owned.len()) as u64;
        let blocks: Tokens = transcript.preamble.iter().map(|block| self.block(known, block)).sum();
        blocks + Tokens(MESSAGE_FRAMING.0 * framed)
    }

    /// The name of the tool that a call in the tool channel names.
    pub(crate) fn name(&self, known: &mut Known, exchange: &Exchange<'_>) -> Tokens {
        let Some(tool) = written_name(exchange) else { return Tokens::ZERO };
        known.count(self.counter, ContentKey::of(Form::String as u8, tool.as_bytes()), || tool)
    }

    /// The whole request by part.
    pub fn parts(&self, known: &mut Known, transcript: &Transcript<'_>) -> Parts {
        let mut counts = self.blocks(known, transcript.blocks()).into_iter();
        let mut parts = Parts::default();
        let mut names = Vec::new();
        let mut add = |part: Part, block: &Block<'_>, parts: &mut Parts| {
            *slot(parts, part, block.kind) += counts.next().unwrap_or_default();
        };
        for block in &transcript.preamble {
            add(Part::System, block, &mut parts);
        }
        for unit in &transcript.units {
            match &unit.kind {
                UnitKind::Prompt { blocks, .. } => blocks.iter().for_each(|b| add(Part::User, b, &mut parts)),
                UnitKind::Checkpoint(block) | UnitKind::Opaque(block) => add(Part::User, block, &mut parts),
                UnitKind::Step { reply, exchanges } => {
                    for block in reply {
                        add(Part::Assistant, block, &mut parts);
                    }
                    names.extend(exchanges);
                    for call in exchanges.iter().filter_map(|exchange| exchange.call.as_ref()) {
                        add(Part::Assistant, call, &mut parts);
                    }
                    for result in exchanges.iter().flat_map(|exchange| &exchange.results) {
                        add(Part::Results, result, &mut parts);
                    }
                }
            }
        }
        for name in names {
            parts.calls += self.name(known, name);
        }
        Self::frame(transcript, &mut parts);
        parts
    }

    /// Adds each message's framing to the part that it belongs to.
    fn frame(transcript: &Transcript<'_>, parts: &mut Parts) {
        let mut left = transcript.message_count() as u64;
        let mut add = |part: &mut Tokens, messages: usize| {
            let messages = (messages as u64).min(left);
            left -= messages;
            *part += Tokens(MESSAGE_FRAMING.0 * messages);
        };
        // Several units can share a message, and then there are fewer messages than they own: what opens the list comes first.
        add(&mut parts.system, transcript.lead());
        for unit in &transcript.units {
            match &unit.kind {
                UnitKind::Step { exchanges, .. } => {
                    let results =
                        exchanges.iter().map(|e| e.answers.len()).sum::<usize>().min(unit.owns.len());
                    add(&mut parts.results, results);
                    add(&mut parts.assistant, unit.owns.len() - results);
                }
                _ => add(&mut parts.user, unit.owns.len()),
            }
        }
        add(&mut parts.system, usize::MAX);
    }
}

/// The name of a call's tool. A call in words has it in its words.
fn written_name<'e>(exchange: &'e Exchange<'_>) -> Option<&'e str> {
    exchange.call.as_ref().map(|_| &*exchange.tool)
}

/// Whether a block is counted by its words, and not by its size.
fn has_words(block: &Block<'_>) -> bool {
    match block.kind {
        BlockKind::Image(_) | BlockKind::Audio => false,
        BlockKind::Document(_) | BlockKind::Reasoning(_) => block.text.is_some(),
        _ => true,
    }
}

/// The words of a block; of one that is not understood, all of its JSON.
fn words<'b>(block: &Block<'b>) -> Cow<'b, str> {
    if block.text.is_some() { block.text() } else { Cow::Borrowed(block.raw()) }
}

/// The identity of a block's words.
fn key(block: &Block<'_>) -> ContentKey {
    let (at, form) = block.text.map_or((block.at, Form::Json), |text| (text.at, text.form));
    ContentKey::of(form as u8, block.body[at.range()].as_bytes())
}

fn slot(parts: &mut Parts, part: Part, kind: BlockKind) -> &mut Tokens {
    match (kind, part) {
        (BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio, _) => &mut parts.images,
        (BlockKind::Tool, _) => &mut parts.tools,
        (BlockKind::Reasoning(_), _) => &mut parts.reasoning,
        (BlockKind::Call, _) => &mut parts.calls,
        (_, Part::System) => &mut parts.system,
        (_, Part::User) => &mut parts.user,
        (_, Part::Assistant) => &mut parts.assistant,
        (_, Part::Results) => &mut parts.results,
    }
}

fn pages(base64: usize) -> Tokens {
    Tokens(TOKENS_A_PAGE * base64.div_ceil(BASE64_A_PAGE).max(1) as u64)
}
