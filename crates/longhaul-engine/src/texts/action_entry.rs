//! A line of the section Completed Actions: ``EDIT src/a.rs — −`x = 1` +`x = 2` (recall 4k2m9x3p7q)``.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::redact::Redacted;

const OUTCOME_SEPARATOR: &str = " — ";
pub(super) const RECALL_PREFIX: &str = " (recall ";

/// The kind of an [`ActionEntry`], which decides the keyword that its line starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A statement that the assistant made while it worked.
    Note,
    /// The assistant's final answer to a request.
    Answer,
    /// A command or code that was run.
    Run,
    /// A file that was created.
    Create,
    /// A file that was edited.
    Edit,
    /// A file that was deleted.
    Delete,
    /// A file that was restored to an earlier content.
    Restore,
    /// A web page that was fetched, or a browser action.
    Fetch,
    /// A task that was given to another agent.
    Delegate,
    /// A call of any other tool.
    ToolCall,
    /// A message that may be from a person or from a program.
    Message,
    /// A request of the user.
    UserRequest,
    /// Text without one of the keywords, written by a model or by another version of Longhaul.
    Other,
}

const KEYWORDS: [(EntryKind, &str); 12] = [
    (EntryKind::Note, "NOTED"),
    (EntryKind::Answer, "ANSWER"),
    (EntryKind::Run, "RUN"),
    (EntryKind::Create, "CREATE"),
    (EntryKind::Edit, "EDIT"),
    (EntryKind::Delete, "DELETE"),
    (EntryKind::Restore, "RESTORE"),
    (EntryKind::Fetch, "FETCH"),
    (EntryKind::Delegate, "DELEGATE"),
    (EntryKind::ToolCall, "CALL"),
    (EntryKind::Message, "MESSAGE"),
    (EntryKind::UserRequest, "ASKED"),
];

/// One action or statement with its outcome. It renders as one list item and parses back into the same value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionEntry {
    kind: EntryKind,
    target: Redacted,
    outcome: Redacted,
    recall_id: Option<String>,
}

impl ActionEntry {
    /// Builds an entry. If the target or the outcome contains the separator or ` (recall `, those characters
    /// are replaced by similar ones, so that the rendered line parses back.
    #[must_use]
    pub fn new(kind: EntryKind, target: &Redacted, outcome: &Redacted) -> Self {
        let plain = |text: &Redacted| text.replace_with_literal(RECALL_PREFIX, " (recall: ").trimmed();
        let target = plain(&target.one_line(usize::MAX).replace_with_literal("—", "–"));
        Self { kind, target, outcome: plain(outcome), recall_id: None }
    }

    /// Parses a text that somebody else wrote. Text without a known keyword becomes [`EntryKind::Other`].
    #[must_use]
    pub fn parse_redacted(words: &Redacted) -> Self {
        let Ok(entry) = words.one_line(usize::MAX).as_str().parse();
        entry
    }

    /// Returns the entry with another target.
    #[must_use]
    pub fn with_target(&self, target: &Redacted) -> Self {
        Self { recall_id: self.recall_id.clone(), ..Self::new(self.kind, target, &self.outcome) }
    }

    /// Returns the entry with the recall ID of its original.
    #[must_use]
    pub fn with_recall_id(self, recall_id: Option<String>) -> Self {
        Self { recall_id, ..self }
    }

    /// Returns the kind of the entry.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// Returns the target: a path, a command or the arguments of a tool. It is empty for statements.
    #[must_use]
    pub fn target(&self) -> &str {
        self.target.as_str()
    }

    /// Returns the outcome, or the text of a statement.
    #[must_use]
    pub fn outcome(&self) -> &Redacted {
        &self.outcome
    }

    /// Returns the entry with its outcome clipped to about `most` characters.
    #[must_use]
    pub fn with_clipped_outcome(&self, most: usize) -> Self {
        Self { outcome: self.outcome.truncated(most), ..self.clone() }
    }

    /// Returns the entry on one line of about `most` characters, without its recall ID.
    #[must_use]
    pub fn shortened(&self, most: usize) -> Self {
        if self.kind == EntryKind::Other {
            return Self::parse_redacted(&self.outcome.one_line(most)).with_recall_id(None);
        }
        let target = self.target.one_line(most / 2);
        let left = most.saturating_sub(target.as_str().len()).max(most / 2);
        Self::new(self.kind, &target, &self.outcome.one_line(left))
    }
}

impl fmt::Display for ActionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = KEYWORDS.iter().find(|(act, _)| *act == self.kind).map_or("", |(_, word)| word);
        f.write_str(word)?;
        if !self.target.as_str().is_empty() {
            write!(f, " {}", self.target)?;
        }
        if !self.outcome.as_str().is_empty() {
            let dash = if word.is_empty() { "" } else { OUTCOME_SEPARATOR };
            write!(f, "{dash}{}", self.outcome)?;
        }
        self.recall_id.as_ref().map_or(Ok(()), |recall_id| write!(f, "{RECALL_PREFIX}{recall_id})"))
    }
}

/// Parses what `Display` writes. The text was redacted when it was written.
impl FromStr for ActionEntry {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let stored = |text: &str| Redacted::assume_redacted(text.to_owned());
        let (text, recall_id) = split_bracketed_end(text, RECALL_PREFIX, ')');
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let kind = KEYWORDS.iter().find(|(_, keyword)| *keyword == word).map(|(kind, _)| *kind);
        let (target, outcome) = match kind {
            None => ("", text),
            Some(_) if rest.is_empty() => ("", ""),
            Some(_) => match rest.strip_prefix("— ") {
                Some(outcome) => ("", outcome),
                None => rest.split_once(OUTCOME_SEPARATOR).unwrap_or((rest, "")),
            },
        };
        Ok(Self {
            kind: kind.unwrap_or(EntryKind::Other),
            target: stored(target),
            outcome: stored(outcome),
            recall_id: recall_id.map(str::to_owned),
        })
    }
}

/// Splits a text that ends with `open…close` into the text before it and the content between the two.
pub(super) fn split_bracketed_end<'a>(text: &'a str, open: &str, close: char) -> (&'a str, Option<&'a str>) {
    let inside = text.strip_suffix(close).and_then(|text| text.rsplit_once(open));
    match inside {
        Some((rest, inside)) if !inside.is_empty() && !inside.contains([close, '\n']) => (rest, Some(inside)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Redacted {
        Redacted::assume_redacted(text.to_owned())
    }

    #[test]
    fn renders_as_documented_and_parses_unknown_keywords_as_other() {
        let entry = ActionEntry::new(EntryKind::Run, &text("npm test"), &text("3 failed"));
        let entry = entry.with_recall_id(Some("4k2m".to_owned()));
        assert_eq!(entry.to_string(), "RUN npm test — 3 failed (recall 4k2m)");
        let noted = ActionEntry::new(EntryKind::Note, &text(""), &text("The port is 80."));
        assert_eq!(noted.to_string(), "NOTED — The port is 80.");
        let other: ActionEntry = "READ a.rs — 3 lines [tool: read]".parse().unwrap();
        assert_eq!((other.kind(), other.to_string().as_str()), (EntryKind::Other, "READ a.rs — 3 lines [tool: read]"));
    }

    proptest! {
        #[test]
        fn every_rendering_parses_back(
            act in 0..KEYWORDS.len(),
            target in "[a-z —()\\[\\]:]{0,30}|.{0,20} (recall x)",
            outcome in "[a-z —()\\[\\]:\n]{0,30}|.{0,20} (recall x)",
            recall_id in proptest::option::of("[a-z0-9]{10}"),
        ) {
            let entry = ActionEntry::new(KEYWORDS[act].0, &text(&target), &text(&outcome)).with_recall_id(recall_id);
            let again: ActionEntry = entry.to_string().parse().unwrap();
            prop_assert_eq!(again, entry);
        }
    }
}
