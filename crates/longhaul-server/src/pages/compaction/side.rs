//! One side of a compaction: a body, message by message, with what tells a message from the others.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use longhaul_engine::plan::What;
use longhaul_engine::transcript::{BlockKind, Part};
use longhaul_engine::wire::{self, Reading, Role};
use longhaul_engine::{Dialect, Transcript};
use serde_json::Value;

/// A body, understood.
pub(super) struct Side<'b> {
    pub(super) transcript: Transcript<'b>,
    pub(super) reading: Reading,
}

/// A body with its messages.
pub(super) struct Messages<'t, 'b> {
    pub(super) transcript: &'t Transcript<'b>,
    /// The blocks of each message, in their order.
    pub(super) parts: Vec<Vec<Part<'t, 'b>>>,
    /// What each says, white space and cache marks apart.
    says: Vec<u64>,
}

impl<'b> Side<'b> {
    pub(super) fn read(dialect: Option<Dialect>, body: &'b str) -> Option<Self> {
        let (transcript, _) = wire::parse(dialect, body).ok()?;
        let reading = wire::reading(&transcript);
        Some(Self { transcript, reading })
    }

    pub(super) fn messages(&self) -> Messages<'_, 'b> {
        let transcript = &self.transcript;
        let count = transcript.message_count();
        let mut hashers = vec![DefaultHasher::new(); count];
        for piece in &self.reading.pieces {
            if let Some(hasher) = piece.message.and_then(|message| hashers.get_mut(message as usize)) {
                piece.says.hash(hasher);
            }
        }
        let says = hashers.into_iter().map(|hasher| hasher.finish()).collect();
        Messages { transcript, parts: transcript.parts_by_message(0..count), says }
    }
}

impl<'t, 'b> Messages<'t, 'b> {
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn says(&self, message: usize) -> u64 {
        self.says[message]
    }

    pub(super) fn role(&self, message: usize) -> Option<Role> {
        self.transcript.role(message)
    }

    /// What the provider knows a message's calls and results by, where it has any.
    pub(super) fn ids(&self, message: usize) -> Option<u64> {
        let value: Value = serde_json::from_str(self.transcript.message(message)?).ok()?;
        let mut hasher = DefaultHasher::new();
        let lists = ["tool_calls", "content"].into_iter().filter_map(|key| value[key].as_array()).flatten();
        let mut found = false;
        for value in std::iter::once(&value).chain(lists) {
            for key in ["tool_call_id", "tool_use_id", "call_id", "id"] {
                if let Some(id) = value[key].as_str() {
                    (value["type"].as_str(), key, id).hash(&mut hasher);
                    found = true;
                }
            }
        }
        found.then(|| hasher.finish())
    }

    /// What each block of a message is and says.
    pub(super) fn blocks(&self, message: usize) -> Vec<Piece<'b>> {
        let units = &self.transcript.units;
        let piece = |part: &Part<'t, 'b>| {
            let tool = part.kind.exchange().map(|exchange| exchange.tool.to_string());
            let block = part.block;
            let text = if block.text.is_some() { block.text() } else { Cow::Borrowed(block.raw()) };
            Piece { what: What::of(&units[part.at.unit], *part), tool, kind: block.kind, text }
        };
        self.parts[message].iter().map(piece).collect()
    }
}

/// A block as it is compared.
pub(super) struct Piece<'b> {
    pub(super) what: What,
    pub(super) tool: Option<String>,
    kind: BlockKind,
    text: Cow<'b, str>,
}

impl Piece<'_> {
    /// Whether both are the same block.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.what == other.what && self.is_text() == other.is_text() && self.text == other.text
    }

    /// Whether one can stand in the place of the other.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.what == other.what && self.tool == other.tool
    }

    fn is_text(&self) -> bool {
        self.kind == BlockKind::Text
    }
}
