//! The first line of a digest: `[tests: 213 lines; exit 1; failed; 4 error lines; 201 left out; recall 4k2m9x3p7q]`.

use std::fmt;
use std::str::FromStr;

use super::cut_placeholder::UnrecognizedText;

const SEPARATOR: &str = "; ";
const OMITTED_SUFFIX: &str = " left out";
const RECALL_PREFIX: &str = "recall ";

/// The first line of a digest: what was shortened, and how much of it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestHead {
    /// The name of the digest kind, such as `tests`.
    pub kind: String,
    /// The facts about the output: its size first, then its outcome, then those that the kind adds.
    pub facts: Vec<String>,
    /// The number of lines that the digest does not quote, formatted for a reader; `None` if it quotes all.
    pub omitted_lines: Option<String>,
    /// The recall ID of the original, if originals are stored.
    pub recall_id: Option<String>,
}

impl fmt::Display for DigestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}: {}", self.kind, self.facts.join(SEPARATOR))?;
        if let Some(lines) = &self.omitted_lines {
            write!(f, "{SEPARATOR}{lines}{OMITTED_SUFFIX}")?;
        }
        if let Some(recall_id) = &self.recall_id {
            write!(f, "{SEPARATOR}{RECALL_PREFIX}{recall_id}")?;
        }
        f.write_str("]")
    }
}

/// Parses what `Display` writes. A line that has neither a count of omitted lines nor a recall ID is
/// rejected: a tool may print such a line itself.
impl FromStr for DigestHead {
    type Err = UnrecognizedText;

    fn from_str(line: &str) -> Result<Self, UnrecognizedText> {
        let inside = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).ok_or(UnrecognizedText)?;
        let is_name = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        let (kind, says) = inside.split_once(": ").filter(|(kind, _)| is_name(kind)).ok_or(UnrecognizedText)?;
        let mut says: Vec<&str> = says.split(SEPARATOR).collect();
        let recall_id =
            says.pop_if(|last| last.starts_with(RECALL_PREFIX)).map(|last| last[RECALL_PREFIX.len()..].to_owned());
        let left_out = says.pop_if(|last| last.ends_with(OMITTED_SUFFIX));
        let left_out = left_out.and_then(|last| last.strip_suffix(OMITTED_SUFFIX)).map(str::to_owned);
        if says.is_empty() || left_out.is_none() && recall_id.is_none() {
            return Err(UnrecognizedText);
        }
        let says = says.into_iter().map(str::to_owned).collect();
        Ok(Self { kind: kind.to_owned(), facts: says, omitted_lines: left_out, recall_id })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rejects_other_bracketed_lines() {
        for line in ["", "[note]", "[note: 3 lines]", "[note: 4 left out]", "[note: 3 lines; 2 left out] x"] {
            assert_eq!(line.parse::<DigestHead>(), Err(UnrecognizedText), "{line}");
        }
    }

    proptest! {
        #[test]
        fn every_rendering_parses_back(
            kind in "[a-z-]{1,12}",
            says in proptest::collection::vec("[0-9]{1,4} [a-k,:\\[\\]]{1,9}", 1..5),
            left_out in proptest::option::of("[1-9](,[0-9]{3}){0,2}"),
            recall_id in "[a-z0-9]{10}",
            is_kept in any::<bool>(),
        ) {
            let recall_id = Some(recall_id).filter(|_| is_kept || left_out.is_none());
            let head = DigestHead { kind, facts: says, omitted_lines: left_out, recall_id };
            prop_assert_eq!(head.to_string().parse(), Ok(head));
        }
    }
}
