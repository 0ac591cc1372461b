//! A line of Completed Actions: `EDIT src/a.rs — −"x = 1" +"x = 2" (recall 4k2m9x3p7q)`.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::redact::Redacted;

const DASH: &str = " — ";
pub(super) const RECALL: &str = " (recall ";

/// What was done, or said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// The assistant said so while it worked.
    Noted,
    /// The assistant's closing words to a request.
    Answer,
    /// A command or code was run.
    Run,
    /// A file was written.
    Create,
    /// A file was changed.
    Edit,
    /// A file was taken away.
    Delete,
    /// A file was put back as it was.
    Restore,
    /// A page was fetched or a browser used.
    Fetch,
    /// Somebody else was asked to do something.
    Delegate,
    /// Another tool was called.
    Call,
    /// A message that may be a person's or a program's.
    Message,
    /// A person asked for it.
    Asked,
    /// Words that are in no form of ours: those of a model, or of another version.
    Other,
}

const WORDS: [(Act, &str); 12] = [
    (Act::Noted, "NOTED"),
    (Act::Answer, "ANSWER"),
    (Act::Run, "RUN"),
    (Act::Create, "CREATE"),
    (Act::Edit, "EDIT"),
    (Act::Delete, "DELETE"),
    (Act::Restore, "RESTORE"),
    (Act::Fetch, "FETCH"),
    (Act::Delegate, "DELEGATE"),
    (Act::Call, "CALL"),
    (Act::Message, "MESSAGE"),
    (Act::Asked, "ASKED"),
];

/// One thing that was done or said, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    act: Act,
    target: Redacted,
    outcome: Redacted,
    handle: Option<String>,
}

impl Entry {
    /// An entry. Where the target or the outcome has words that would be read as another part of the line, they are changed by
    /// a sign.
    #[must_use]
    pub fn new(act: Act, target: &Redacted, outcome: &Redacted) -> Self {
        let plain = |text: &Redacted| text.with(RECALL, " (recall: ").trimmed();
        let target = plain(&target.on_one_line(usize::MAX).with("—", "–"));
        Self { act, target, outcome: plain(outcome), handle: None }
    }

    /// The entry that words of somebody else's are.
    #[must_use]
    pub fn read(words: &Redacted) -> Self {
        let Ok(entry) = words.on_one_line(usize::MAX).as_str().parse();
        entry
    }

    /// The same about another target.
    #[must_use]
    pub fn about(&self, target: &Redacted) -> Self {
        Self { handle: self.handle.clone(), ..Self::new(self.act, target, &self.outcome) }
    }

    /// The same with what fetches the original.
    #[must_use]
    pub fn kept_as(self, handle: Option<String>) -> Self {
        Self { handle, ..self }
    }

    /// What was done.
    #[must_use]
    pub fn act(&self) -> Act {
        self.act
    }

    /// To what.
    #[must_use]
    pub fn target(&self) -> &str {
        self.target.as_str()
    }

    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> &Redacted {
        &self.outcome
    }

    /// The same with less of its outcome.
    #[must_use]
    pub fn clipped(&self, most: usize) -> Self {
        Self { outcome: self.outcome.clipped(most), ..self.clone() }
    }

    /// The same on one line of about so many characters, without what fetches it.
    #[must_use]
    pub fn brief(&self, most: usize) -> Self {
        if self.act == Act::Other {
            return Self::read(&self.outcome.on_one_line(most)).kept_as(None);
        }
        let target = self.target.on_one_line(most / 2);
        let left = most.saturating_sub(target.as_str().len()).max(most / 2);
        Self::new(self.act, &target, &self.outcome.on_one_line(left))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(act, _)| *act == self.act).map_or("", |(_, word)| word);
        f.write_str(word)?;
        if !self.target.as_str().is_empty() {
            write!(f, " {}", self.target)?;
        }
        if !self.outcome.as_str().is_empty() {
            let dash = if word.is_empty() { "" } else { DASH };
            write!(f, "{dash}{}", self.outcome)?;
        }
        self.handle.as_ref().map_or(Ok(()), |handle| write!(f, "{RECALL}{handle})"))
    }
}

/// Reads back what was written, which was redacted then.
impl FromStr for Entry {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let stored = |text: &str| Redacted::from_store(text.to_owned());
        let (text, handle) = split_end(text, RECALL, ')');
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let act = WORDS.iter().find(|(_, known)| *known == word).map(|(act, _)| *act);
        let (target, outcome) = match act {
            None => ("", text),
            Some(_) if rest.is_empty() => ("", ""),
            Some(_) => match rest.strip_prefix("— ") {
                Some(outcome) => ("", outcome),
                None => rest.split_once(DASH).unwrap_or((rest, "")),
            },
        };
        Ok(Self {
            act: act.unwrap_or(Act::Other),
            target: stored(target),
            outcome: stored(outcome),
            handle: handle.map(str::to_owned),
        })
    }
}

/// What a line ends with between two signs, apart from the rest.
pub(super) fn split_end<'a>(text: &'a str, open: &str, close: char) -> (&'a str, Option<&'a str>) {
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
        Redacted::from_store(text.to_owned())
    }

    #[test]
    fn an_entry_reads_as_a_person_would_write_it() {
        let entry = Entry::new(Act::Run, &text("npm test"), &text("3 failed"));
        let entry = entry.kept_as(Some("4k2m".to_owned()));
        assert_eq!(entry.to_string(), "RUN npm test — 3 failed (recall 4k2m)");
        let noted = Entry::new(Act::Noted, &text(""), &text("The port is 80."));
        assert_eq!(noted.to_string(), "NOTED — The port is 80.");
        let other: Entry = "READ a.rs — 3 lines [tool: read]".parse().unwrap();
        assert_eq!(
            (other.act(), other.to_string().as_str()),
            (Act::Other, "READ a.rs — 3 lines [tool: read]")
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_the_same(
            act in 0..WORDS.len(),
            target in "[a-z —()\\[\\]:]{0,30}|.{0,20} (recall x)",
            outcome in "[a-z —()\\[\\]:\n]{0,30}|.{0,20} (recall x)",
            handle in proptest::option::of("[a-z0-9]{10}"),
        ) {
            let entry = Entry::new(WORDS[act].0, &text(&target), &text(&outcome)).kept_as(handle);
            let again: Entry = entry.to_string().parse().unwrap();
            prop_assert_eq!(again, entry);
        }
    }
}
