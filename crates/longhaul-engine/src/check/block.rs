//! A content block of a message, with its path.

use serde_json::Value;

use super::{JsonPath, indexed, type_of};

/// A content block with its path in the body.
pub(super) struct LocatedBlock<'v> {
    pub(super) path: JsonPath,
    pub(super) kind: &'v str,
    pub(super) value: &'v Value,
}

impl<'v> LocatedBlock<'v> {
    pub(super) fn new(at: JsonPath, value: &'v Value) -> Self {
        Self { path: at, kind: type_of(value), value }
    }

    /// Returns the blocks inside a tool result, or nothing for any other block.
    pub(super) fn inner_blocks(&self) -> impl Iterator<Item = LocatedBlock<'v>> + use<'v> {
        let (at, value) = (self.path / "content", self.value);
        let inner = (self.kind == "tool_result").then(|| indexed(&value["content"]));
        inner.into_iter().flatten().map(move |(p, part)| Self::new(at / p, part))
    }
}
