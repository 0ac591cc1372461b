//! The placeholder at the end of a string that was cut: `… [1,234 more characters; recall 4k2m9x3p7q]`.

use std::fmt;
use std::str::FromStr;

const PLACEHOLDER_OPENING: &str = "… [";
const MORE_CHARACTERS: &str = " more characters";
const RECALL_PREFIX: &str = "; recall ";

/// The placeholder for the end of a string that was cut: how much is missing, and the recall ID of the whole
/// string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutPlaceholder {
    /// The number of missing characters, formatted for a reader (`1,234`).
    pub omitted_chars: String,
    /// The recall ID of the whole string, if originals are stored.
    pub recall_id: Option<String>,
}

impl fmt::Display for CutPlaceholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PLACEHOLDER_OPENING}{}{MORE_CHARACTERS}", self.omitted_chars)?;
        if let Some(recall_id) = &self.recall_id {
            write!(f, "{RECALL_PREFIX}{recall_id}")?;
        }
        f.write_str("]")
    }
}

/// The error for a text that is not in the expected form. [`CutPlaceholder`], [`DigestHead`](super::DigestHead)
/// and [`ImagePlaceholder`](super::ImagePlaceholder) share this error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnrecognizedText;

impl FromStr for CutPlaceholder {
    type Err = UnrecognizedText;

    fn from_str(text: &str) -> Result<Self, UnrecognizedText> {
        let inside =
            text.strip_prefix(PLACEHOLDER_OPENING).and_then(|text| text.strip_suffix(']')).ok_or(UnrecognizedText)?;
        let (characters, behind) = inside.split_once(MORE_CHARACTERS).ok_or(UnrecognizedText)?;
        let recall_id = behind.strip_prefix(RECALL_PREFIX).map(str::to_owned);
        let is_number = characters.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
        let is_whole = is_number && (behind.is_empty() || recall_id.is_some());
        is_whole.then(|| Self { omitted_chars: characters.to_owned(), recall_id }).ok_or(UnrecognizedText)
    }
}

/// Returns whether a string ends with a [`CutPlaceholder`], so that a second pass does not cut it again.
pub(crate) fn ends_with_cut_placeholder(text: &str) -> bool {
    text.ends_with(']')
        && text.rfind(PLACEHOLDER_OPENING).is_some_and(|at| text[at..].parse::<CutPlaceholder>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_its_own_rendering_and_no_other_brackets() {
        for recall_id in [None, Some("4k2m9x3p7q".to_owned())] {
            let mark = CutPlaceholder { omitted_chars: "1,234".to_owned(), recall_id };
            assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
            assert!(ends_with_cut_placeholder(&format!("let x{mark}")));
        }
        for text in ["… [see below]", "… [3 more characters of him]", "x"] {
            assert!(!ends_with_cut_placeholder(text), "{text}");
        }
    }
}
