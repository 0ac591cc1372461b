//! The first line of a digest: `[tests: 213 lines; exit 1; failed; 4 error lines; 201 left out; recall 4k2m9x3p7q]`.

use std::fmt;
use std::str::FromStr;

use super::cut::NoMark;

const BETWEEN: &str = "; ";
const LEFT_OUT: &str = " left out";
const RECALL: &str = "recall ";

/// What a digest is of, and what it left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestHead {
    /// The name of the kind.
    pub kind: String,
    /// The size, then the outcome, then what the kind adds.
    pub says: Vec<String>,
    /// How many lines are not quoted, as a reader is told; none where all are.
    pub left_out: Option<String>,
    /// What fetches the original, where originals are kept.
    pub handle: Option<String>,
}

impl fmt::Display for DigestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}: {}", self.kind, self.says.join(BETWEEN))?;
        if let Some(lines) = &self.left_out {
            write!(f, "{BETWEEN}{lines}{LEFT_OUT}")?;
        }
        if let Some(handle) = &self.handle {
            write!(f, "{BETWEEN}{RECALL}{handle}")?;
        }
        f.write_str("]")
    }
}

/// A line is a head only where something was left out or can be fetched.
impl FromStr for DigestHead {
    type Err = NoMark;

    fn from_str(line: &str) -> Result<Self, NoMark> {
        let inside = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).ok_or(NoMark)?;
        let is_name = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        let (kind, says) = inside.split_once(": ").filter(|(kind, _)| is_name(kind)).ok_or(NoMark)?;
        let mut says: Vec<&str> = says.split(BETWEEN).collect();
        let handle = says.pop_if(|last| last.starts_with(RECALL)).map(|last| last[RECALL.len()..].to_owned());
        let left_out = says.pop_if(|last| last.ends_with(LEFT_OUT));
        let left_out = left_out.and_then(|last| last.strip_suffix(LEFT_OUT)).map(str::to_owned);
        if says.is_empty() || left_out.is_none() && handle.is_none() {
            return Err(NoMark);
        }
        let says = says.into_iter().map(str::to_owned).collect();
        Ok(Self { kind: kind.to_owned(), says, left_out, handle })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_brackets_are_no_heads() {
        for line in ["", "[note]", "[note: 3 lines]", "[note: 4 left out]", "[note: 3 lines; 2 left out] x"] {
            assert_eq!(line.parse::<DigestHead>(), Err(NoMark), "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_the_same(
            kind in "[a-z-]{1,12}",
            says in proptest::collection::vec("[0-9]{1,4} [a-k,:\\[\\]]{1,9}", 1..5),
            left_out in proptest::option::of("[1-9](,[0-9]{3}){0,2}"),
            handle in "[a-z0-9]{10}",
            is_kept in any::<bool>(),
        ) {
            let handle = Some(handle).filter(|_| is_kept || left_out.is_none());
            let head = DigestHead { kind, says, left_out, handle };
            prop_assert_eq!(head.to_string().parse(), Ok(head));
        }
    }
}
