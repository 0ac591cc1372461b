//! What stands in the place of a picture: `[image left out: PNG, 640×480, 12,345 bytes; recall 4k2m9x3p7q]`.

use std::fmt;
use std::str::FromStr;

use super::cut::NoMark;

const LEFT_OUT: &str = " left out";
const RECALL: &str = "; recall ";

/// A picture or document that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageMark {
    /// What it was.
    pub what: String,
    /// What is known of it: its address, or format, size and bytes.
    pub says: Vec<String>,
    /// What fetches it, where originals are kept.
    pub handle: Option<String>,
}

impl fmt::Display for ImageMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}{LEFT_OUT}", self.what)?;
        if !self.says.is_empty() {
            write!(f, ": {}", self.says.join(", "))?;
        }
        if let Some(handle) = &self.handle {
            write!(f, "{RECALL}{handle}")?;
        }
        f.write_str("]")
    }
}

impl FromStr for ImageMark {
    type Err = NoMark;

    fn from_str(text: &str) -> Result<Self, NoMark> {
        let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or(NoMark)?;
        let (what, rest) = inside.split_once(LEFT_OUT).ok_or(NoMark)?;
        let (rest, handle) = match rest.rsplit_once(RECALL) {
            Some((rest, handle)) => (rest, Some(handle.to_owned())),
            None => (rest, None),
        };
        let says = match rest.strip_prefix(": ") {
            Some(says) => says.split(", ").map(str::to_owned).collect(),
            None if rest.is_empty() => Vec::new(),
            None => return Err(NoMark),
        };
        Ok(Self { what: what.to_owned(), says, handle })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_the_same(
            what in "image|document|block",
            says in proptest::collection::vec("[A-Z]{3,4}|[0-9]{1,4}×[0-9]{1,4}|[0-9]{1,3}(,[0-9]{3})? bytes", 0..4),
            handle in proptest::option::of("[a-z0-9]{10}"),
        ) {
            let mark = ImageMark { what, says, handle };
            prop_assert_eq!(mark.to_string().parse(), Ok(mark));
        }
    }
}
