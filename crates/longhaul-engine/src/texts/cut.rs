//! The mark behind a string that was cut: `… [1,234 more characters; recall 4k2m9x3p7q]`.

use std::fmt;
use std::str::FromStr;

const OPENING: &str = "… [";
const SAYS: &str = " more characters";
const RECALL: &str = "; recall ";

/// How much of a string was cut, and what fetches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutMark {
    /// How many characters, as a reader is told.
    pub characters: String,
    /// What fetches them, where originals are kept.
    pub handle: Option<String>,
}

impl fmt::Display for CutMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPENING}{}{SAYS}", self.characters)?;
        if let Some(handle) = &self.handle {
            write!(f, "{RECALL}{handle}")?;
        }
        f.write_str("]")
    }
}

/// A text that is no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMark;

impl FromStr for CutMark {
    type Err = NoMark;

    fn from_str(text: &str) -> Result<Self, NoMark> {
        let inside = text.strip_prefix(OPENING).and_then(|text| text.strip_suffix(']')).ok_or(NoMark)?;
        let (characters, behind) = inside.split_once(SAYS).ok_or(NoMark)?;
        let handle = behind.strip_prefix(RECALL).map(str::to_owned);
        let is_number = characters.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
        let is_whole = is_number && (behind.is_empty() || handle.is_some());
        is_whole.then(|| Self { characters: characters.to_owned(), handle }).ok_or(NoMark)
    }
}

/// Whether a string was cut.
pub(crate) fn is_cut(text: &str) -> bool {
    text.ends_with(']') && text.rfind(OPENING).is_some_and(|at| text[at..].parse::<CutMark>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_and_other_brackets_are_none() {
        for handle in [None, Some("4k2m9x3p7q".to_owned())] {
            let mark = CutMark { characters: "1,234".to_owned(), handle };
            assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
            assert!(is_cut(&format!("let x{mark}")));
        }
        for text in ["… [see below]", "… [3 more characters of him]", "x"] {
            assert!(!is_cut(text), "{text}");
        }
    }
}
