//! A content block of a message, with its place.

use serde_json::Value;

use super::{At, kind, list};

/// A content block with its place; those inside a result are `inner`.
pub(super) struct Block<'v> {
    pub(super) at: At,
    pub(super) kind: &'v str,
    pub(super) value: &'v Value,
}

impl<'v> Block<'v> {
    pub(super) fn new(at: At, value: &'v Value) -> Self {
        Self { at, kind: kind(value), value }
    }

    /// The blocks inside a result.
    pub(super) fn inner(&self) -> impl Iterator<Item = Block<'v>> + use<'v> {
        let (at, value) = (self.at / "content", self.value);
        let inner = (self.kind == "tool_result").then(|| list(&value["content"]));
        inner.into_iter().flatten().map(move |(p, part)| Self::new(at / p, part))
    }
}
