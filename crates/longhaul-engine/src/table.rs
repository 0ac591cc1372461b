//! The tables that are part of the program: TOML files beside the code that reads them.
//!
//! A table that does not parse is a mistake in the program, not in its input. To go on with an empty one would give wrong answers
//! silently, so it stops with the place; the test that comes with each table finds it first.
//!
//! It uses nothing of the engine.

use serde::de::DeserializeOwned;

/// Defines a static that holds the table of a file, read when it is first asked for, and the test that reads it. A function
/// behind the file's name makes of what is written there what is held.
macro_rules! table {
    ($(#[$about:meta])* $visible:vis static $name:ident: $held:ty = $file:literal;) => {
        table! { $(#[$about])* $visible static $name: $held = $file, Ok; }
    };
    ($(#[$about:meta])* $visible:vis static $name:ident: $held:ty = $file:literal, $make:expr;) => {
        $(#[$about])*
        $visible static $name: ::std::sync::LazyLock<$held> =
            ::std::sync::LazyLock::new(|| $crate::table::load($file, include_str!($file), $make));

        #[cfg(test)]
        #[test]
        fn the_table_is_readable() {
            ::std::sync::LazyLock::force(&$name);
        }
    };
}

/// Reads the text of a table, and makes of what is written there what is held. `file` is what a mistake is reported under.
///
/// # Panics
/// If the table does not parse, or nothing can be made of it. Whoever has a table has a test that reads it.
#[expect(clippy::panic, reason = "it is a mistake of ours, and the tests read every table")]
pub fn load<W: DeserializeOwned, H>(file: &str, text: &str, make: impl FnOnce(W) -> Result<H, String>) -> H {
    let written = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |at| text[..at.start].matches('\n').count()) + 1;
        format!("line {line}: {}", error.message())
    });
    written.and_then(make).unwrap_or_else(|problem| panic!("{file}: {problem}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[test]
    #[should_panic(expected = "numbers.toml: line 2: invalid type: string \"two\", expected u32")]
    fn a_table_that_does_not_parse_says_where() {
        let _: BTreeMap<String, u32> = super::load("numbers.toml", "one = 1\ntwo = \"two\"\n", Ok);
    }
}
