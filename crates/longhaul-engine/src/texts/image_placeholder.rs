//! The placeholder for an image or document: `[image left out: PNG, 640×480, 12,345 bytes; recall
//! 4k2m9x3p7q]`.

use std::fmt;
use std::str::FromStr;

use super::cut_placeholder::UnrecognizedText;

const OMITTED_SUFFIX: &str = " left out";
const RECALL_PREFIX: &str = "; recall ";

/// The placeholder for an image, a document or another block that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePlaceholder {
    /// The word for the removed block, such as `image`.
    pub kind: String,
    /// The known details: the address, or the format, the dimensions and the size in bytes.
    pub details: Vec<String>,
    /// The recall ID of the block, if originals are stored.
    pub recall_id: Option<String>,
}

impl fmt::Display for ImagePlaceholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}{OMITTED_SUFFIX}", self.kind)?;
        if !self.details.is_empty() {
            write!(f, ": {}", self.details.join(", "))?;
        }
        if let Some(recall_id) = &self.recall_id {
            write!(f, "{RECALL_PREFIX}{recall_id}")?;
        }
        f.write_str("]")
    }
}

impl FromStr for ImagePlaceholder {
    type Err = UnrecognizedText;

    fn from_str(text: &str) -> Result<Self, UnrecognizedText> {
        let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or(UnrecognizedText)?;
        let (what, rest) = inside.split_once(OMITTED_SUFFIX).ok_or(UnrecognizedText)?;
        let (rest, recall_id) = match rest.rsplit_once(RECALL_PREFIX) {
            Some((rest, recall_id)) => (rest, Some(recall_id.to_owned())),
            None => (rest, None),
        };
        let says = match rest.strip_prefix(": ") {
            Some(says) => says.split(", ").map(str::to_owned).collect(),
            None if rest.is_empty() => Vec::new(),
            None => return Err(UnrecognizedText),
        };
        Ok(Self { kind: what.to_owned(), details: says, recall_id })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_rendering_parses_back(
            what in "image|document|block",
            says in proptest::collection::vec("[A-Z]{3,4}|[0-9]{1,4}×[0-9]{1,4}|[0-9]{1,3}(,[0-9]{3})? bytes", 0..4),
            recall_id in proptest::option::of("[a-z0-9]{10}"),
        ) {
            let mark = ImagePlaceholder { kind: what, details: says, recall_id };
            prop_assert_eq!(mark.to_string().parse(), Ok(mark));
        }
    }
}
