//! Takes secrets out of text, before it is stored, sent to a summarizer or a plug-in, or exported.
//!
//! ```text
//! text ──▶ two keyword automata ──▶ the rule a hit calls for ──▶ findings, apart ──▶ marks
//! ```
//!
//! What must hold: the time is linear in any input; redacting twice changes nothing; the same secret gets the same mark;
//! a mark does not reveal its secret; JSON stays JSON, and fields that may not be edited keep their bytes. What is looked
//! for is data (`rules.toml`); a secret is told by its own shape (`shape`), by the name before it (`named`), or by the
//! text around it (`url`, `command`, `setting`, `blocks`, `contact`), and `value` tells it from what only stands in its place.
//!
//! It may use `config`, `known` and what is below them.

mod blocks;
mod command;
mod contact;
mod disguised;
mod form;
mod forms;
mod json;
mod judged;
mod kubernetes;
mod label;
mod mark;
mod name;
mod named;
mod placeholders;
mod rewritten;
mod rules;
mod scan;
mod separator;
mod setting;
mod shape;
mod stream;
#[cfg(test)]
mod tests;
mod url;
mod value;

use std::fmt;
use std::ops::Range;

use serde::Serialize;

pub use json::{JsonRedaction, NotJson};
pub use rules::{RuleError, RuleSummary, Rules};
pub use stream::{Piece, Stream};

use crate::clip::{clip, on_one_line};
use crate::known::{ByContent, Clean, ContentKey};
use mark::Marks;

/// Text with secrets taken out. The store and the summarizer accept nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Redacted(String);

impl Redacted {
    /// Text that was redacted before it was stored.
    #[must_use]
    pub fn from_store(text: String) -> Self {
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Words of our own.
    #[must_use]
    pub fn own(words: &'static str) -> Self {
        Self(words.to_owned())
    }

    /// The same with words of our own behind it.
    #[must_use]
    pub fn and_own(mut self, words: &'static str) -> Self {
        self.0.push_str(words);
        self
    }

    /// The same with a number behind it.
    #[must_use]
    pub fn and_number(mut self, number: usize) -> Self {
        self.0.push_str(&number.to_string());
        self
    }

    /// The same with what fetches the original behind it; a handle has letters and digits alone.
    #[must_use]
    pub fn and_handle(self, handle: Option<&str>) -> Self {
        match handle.filter(|handle| handle.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            Some(handle) => Self(format!("{} (recall {handle})", self.0)),
            None => self,
        }
    }

    /// The same with another redacted text behind it.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0.push_str(&other.0);
        self
    }

    /// The same with other words of ours in the place of some.
    #[must_use]
    pub fn with(&self, words: &str, instead: &'static str) -> Self {
        Self(self.0.replace(words, instead))
    }

    /// Parts of it, with a sign of ours between them, and behind them.
    #[must_use]
    pub fn parts(&self, ranges: &[Range<usize>], between: &'static str, behind: &'static str) -> Self {
        let parts: Vec<&str> = ranges.iter().map(|range| &self.0[range.clone()]).collect();
        Self(parts.join(between) + behind)
    }

    /// Its lines.
    pub fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.lines().map(|line| Self(line.to_owned()))
    }

    /// The same without lines that have nothing in them.
    #[must_use]
    pub fn without_blank_lines(&self) -> Self {
        let lines: Vec<&str> = self.0.lines().filter(|line| !line.trim().is_empty()).collect();
        Self(lines.join("\n"))
    }

    /// The same with no more than one blank line in a row, and none around it.
    #[must_use]
    pub fn without_blank_runs(&self) -> Self {
        let mut kept = String::with_capacity(self.0.len());
        let mut blank = true;
        for line in self.0.lines() {
            let is_blank = line.trim().is_empty();
            if !(is_blank && blank) {
                kept.push_str(line);
                kept.push('\n');
            }
            blank = is_blank;
        }
        Self(kept.trim().to_owned())
    }

    /// The same without blanks around it.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        Self(self.0.trim().to_owned())
    }

    /// About so many characters of it, with a count of what was left out.
    #[must_use]
    pub fn clipped(&self, most: usize) -> Self {
        Self(mark::whole(clip(&self.0, most).into_owned()))
    }

    /// Its words on one line of so many characters.
    #[must_use]
    pub fn on_one_line(&self, most: usize) -> Self {
        Self(mark::whole(on_one_line(&self.0, most)))
    }

    /// The text, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Given by the host for one session: keys handles and marks, since the engine has no randomness.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 32]);

impl SessionKey {
    /// A key from the host's random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for keyed hashes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

/// What sort of text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Prose, logs, configuration: every rule applies.
    Text,
    /// Source code: values behind names are left alone where they are assignments or fields, which code is full of.
    Code,
}

impl Content {
    /// Source code by the ending of a file's name, else text.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        const CODE: &str = "rs py pyi js jsx mjs cjs ts tsx go java kt scala c h cc cpp hpp cs rb php swift m mm lua pl pm r jl \
                            ex exs erl hs ml clj dart zig nim vue svelte sql css scss html";
        let ending =
            path.rsplit(['/', '\\']).next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
        if ending
            .is_some_and(|ending| CODE.split_whitespace().any(|known| known.eq_ignore_ascii_case(ending)))
        {
            Self::Code
        } else {
            Self::Text
        }
    }
}

/// A secret that was found: its kind and its bytes in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What the mark says it is.
    pub kind: String,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// Text without its secrets, and where they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redaction {
    /// The text with marks in place of secrets.
    pub text: Redacted,
    /// What was found, in order.
    pub found: Vec<Found>,
}

/// Turns text into [`Redacted`]. Clones are independent; a numbered clone counts on from where the original was.
#[derive(Clone)]
pub struct Redactor {
    rules: Rules,
    marks: Marks,
    clean: Option<Clean>,
}

impl Redactor {
    /// Marks end in a number by first sight: for one document.
    #[must_use]
    pub fn numbered(rules: Rules) -> Self {
        Self { rules, marks: Marks::Numbered(ByContent::default()), clean: None }
    }

    /// Marks end in a hash keyed by the session: the same secret gets the same mark in every document of the session.
    #[must_use]
    pub fn keyed(rules: Rules, key: SessionKey) -> Self {
        Self { rules, marks: Marks::Keyed(key), clean: None }
    }

    /// With a memory of texts that hold no secrets by the standard rules; the user's own are not remembered.
    pub(crate) fn with_memory(rules: Rules, marks_by: Option<&SessionKey>, clean: Clean) -> Self {
        let marks = marks_by.map_or(Marks::Numbered(ByContent::default()), |key| Marks::Keyed(key.clone()));
        let clean = rules.is_standard().then_some(clean);
        Self { rules, marks, clean }
    }

    /// The text with its secrets replaced.
    pub fn redact(&mut self, text: &str, content: Content) -> Redaction {
        let key = self.clean.as_ref().map(|clean| (clean, ContentKey::of(content as u8, text.as_bytes())));
        if key.is_some_and(|(clean, key)| clean.holds(key)) {
            return Redaction { text: Redacted(text.to_owned()), found: Vec::new() };
        }
        let findings = scan::secrets(text.as_bytes(), content, &self.rules);
        if let Some((clean, key)) = key.filter(|_| findings.is_empty()) {
            clean.note(key);
        }
        let mut clean = String::with_capacity(text.len());
        let mut copied = 0;
        let mut found = Vec::with_capacity(findings.len());
        for finding in findings {
            clean.push_str(&text[copied..finding.start]);
            self.marks.write(finding.kind, &text.as_bytes()[finding.start..finding.end], &mut clean);
            copied = finding.end;
            found.push(Found { kind: finding.kind.to_owned(), start: finding.start, end: finding.end });
        }
        clean.push_str(&text[copied..]);
        Redaction { text: Redacted(clean), found }
    }

    /// The JSON document with the secrets in its strings replaced; every other byte is the input's.
    pub fn redact_json(&mut self, body: &str) -> Result<JsonRedaction, NotJson> {
        json::redact(body, &self.rules, &mut self.marks, json::Sealed::Report)
    }

    /// The same for a document that is kept and never sent again: thinking loses its secrets, too, and with them its seal.
    pub fn redact_json_to_keep(&mut self, body: &str) -> Result<JsonRedaction, NotJson> {
        json::redact(body, &self.rules, &mut self.marks, json::Sealed::Redact)
    }

    /// Redacts text that comes in chunks.
    #[must_use]
    pub fn stream(self, content: Content) -> Stream {
        Stream::new(self, content)
    }
}
