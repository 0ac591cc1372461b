//! Loads the tables that are compiled into the program: TOML files beside the code that reads them.
//!
//! A table that does not parse is an internal error, not bad input. The loader panics and names the file and
//! the line, because an empty table would silently give wrong results. Each table has a test that loads it,
//! so the error is found before a release.
//!
//! This module uses no other module of the engine.

use serde::de::DeserializeOwned;

/// Defines a static for the table of a TOML file, which is parsed at first use, and a test that parses it.
/// The optional expression after the file name converts the parsed rows into the type of the static.
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

/// Parses the text of a table and converts it with `make`. Errors are reported under the name `file`.
///
/// # Panics
/// Panics if the text does not parse or `make` fails. Each table needs a test that loads it; `table!` defines
/// one.
#[expect(clippy::panic, reason = "internal error: the tests load every table")]
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
