//! The tables of this folder: TOML files beside the code that reads them.
//!
//! As in the engine, a table that does not parse is a mistake in the program: it stops with the place, and the tests read every
//! table.

use serde::de::DeserializeOwned;

#[expect(clippy::panic, reason = "it is a mistake of ours, and the tests read every table")]
pub(super) fn load<T: DeserializeOwned>(file: &str, text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| {
        let line = error.span().map_or(0, |at| text[..at.start].matches('\n').count()) + 1;
        panic!("{file}: line {line}: {}", error.message())
    })
}
