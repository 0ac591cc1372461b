//! Removes secrets from text before it is stored, exported, or sent to a summarizer or a plug-in.
//!
//! ```text
//! text ──▶ two keyword searches ──▶ the rule of each keyword ──▶ matches without overlap ──▶ redaction tags
//! ```
//!
//! A redaction tag such as `[REDACTED:password:1]` replaces each secret. The invariants: the time is linear
//! in the size of any input; redacting a redacted text changes nothing; the same secret gets the same tag; a
//! tag does not reveal its secret; JSON stays JSON, and fields that may not be edited keep their bytes.
//!
//! The rules are data (`rules.toml`). A secret is recognized by its own shape (`key_shape`), by the name
//! before it (`named_value`), or by the text around it (`url`, `command_rule`, `keyword_password`,
//! `layout_search`, `private_key`, `kubernetes`, `contact`). The module `value` distinguishes a secret from a
//! placeholder.
//!
//! This module may use `config`, `block_cache` and the modules below them.

mod command_rule;
mod contact;
mod encodings;
mod examined;
mod json;
mod key_shape;
mod keyword_password;
mod kubernetes;
mod label;
mod layout;
mod layout_search;
mod mapped_text;
mod named_value;
mod placeholders;
mod private_key;
mod rules;
mod scan;
mod secret_name;
mod separator;
mod stream;
mod tag;
#[cfg(test)]
mod tests;
mod url;
mod value;

use std::fmt;
use std::ops::Range;

use serde::Serialize;

pub use json::{InvalidJson, JsonRedaction};
pub use rules::{RuleError, RuleSummary, Rules};
pub use stream::{RedactedChunk, StreamRedactor};

use crate::block_cache::{CleanTexts, ContentKey, ContentMap};
use crate::truncate::{to_one_line, truncate_middle};
use tag::TagWriter;

/// Text without secrets. The store and the summarizer accept no other type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Redacted(String);

impl Redacted {
    /// Wraps text that was redacted earlier, for example text from the store. The caller must know that it
    /// has no secrets; nothing is checked here.
    #[must_use]
    pub fn assume_redacted(text: String) -> Self {
        Self(text)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a string literal of Longhaul's own code.
    #[must_use]
    pub fn literal(words: &'static str) -> Self {
        Self(words.to_owned())
    }

    /// Returns this text with a string literal appended.
    #[must_use]
    pub fn append_literal(mut self, words: &'static str) -> Self {
        self.0.push_str(words);
        self
    }

    /// Returns this text with a number appended, in decimal digits.
    #[must_use]
    pub fn append_number(mut self, number: usize) -> Self {
        self.0.push_str(&number.to_string());
        self
    }

    /// Returns this text with ` (recall ID)` appended, if there is a recall ID. An ID with other characters
    /// than ASCII letters and digits is ignored, because it could contain a secret.
    #[must_use]
    pub fn append_recall_id(self, recall_id: Option<&str>) -> Self {
        match recall_id.filter(|recall_id| recall_id.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            Some(recall_id) => Self(format!("{} (recall {recall_id})", self.0)),
            None => self,
        }
    }

    /// Returns this text with another redacted text appended.
    #[must_use]
    pub fn append(mut self, other: &Self) -> Self {
        self.0.push_str(&other.0);
        self
    }

    /// Returns this text with every occurrence of `words` replaced by a string literal.
    #[must_use]
    pub fn replace_with_literal(&self, words: &str, instead: &'static str) -> Self {
        Self(self.0.replace(words, instead))
    }

    /// Joins parts of this text with the literal `between`, and appends the literal `behind`. The ranges are
    /// byte ranges.
    #[must_use]
    pub fn join_ranges(&self, ranges: &[Range<usize>], between: &'static str, behind: &'static str) -> Self {
        let parts: Vec<&str> = ranges.iter().map(|range| &self.0[range.clone()]).collect();
        Self(parts.join(between) + behind)
    }

    /// Returns each line as a redacted text of its own.
    pub fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.lines().map(|line| Self(line.to_owned()))
    }

    /// Returns this text without the lines that are empty or only white space.
    #[must_use]
    pub fn without_blank_lines(&self) -> Self {
        let lines: Vec<&str> = self.0.lines().filter(|line| !line.trim().is_empty()).collect();
        Self(lines.join("\n"))
    }

    /// Returns this text with each run of blank lines reduced to one, and without white space at both ends.
    #[must_use]
    pub fn collapse_blank_lines(&self) -> Self {
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

    /// Returns this text without white space at both ends.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        Self(self.0.trim().to_owned())
    }

    /// Returns the beginning and the end of a longer text, about `most` characters in all, with the number of
    /// omitted characters between them.
    #[must_use]
    pub fn truncated(&self, most: usize) -> Self {
        Self(tag::drop_cut_tag(truncate_middle(&self.0, most).into_owned()))
    }

    /// Returns the words of this text on one line, cut after `most` characters.
    #[must_use]
    pub fn one_line(&self, most: usize) -> Self {
        Self(tag::drop_cut_tag(to_one_line(&self.0, most)))
    }

    /// Returns the text as an owned string.
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

/// A random key of one session. It keys the recall IDs, the redaction tags and the signatures of checkpoints.
/// The host program provides it, because the engine has no randomness.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 32]);

impl SessionKey {
    /// Makes a key from random bytes of the host program.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, as the key for keyed hashes.
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

/// The kind of a text. It decides which rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedactionMode {
    /// Prose, logs and configuration, for which every rule applies.
    Text,
    /// Source code, in which assignments and fields are common: a value is not redacted only because of the
    /// name that it is assigned to.
    Code,
}

impl RedactionMode {
    /// Returns `Code` if the extension of the file name is one of a programming language, otherwise `Text`.
    #[must_use]
    pub fn from_path(path: &str) -> Self {
        const CODE: &str = "rs py pyi js jsx mjs cjs ts tsx go java kt scala c h cc cpp hpp cs rb php swift m mm lua pl pm r jl \
                            ex exs erl hs ml clj dart zig nim vue svelte sql css scss html";
        let ending = path.rsplit(['/', '\\']).next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
        if ending.is_some_and(|ending| CODE.split_whitespace().any(|listed| listed.eq_ignore_ascii_case(ending))) {
            Self::Code
        } else {
            Self::Text
        }
    }
}

/// A secret that was found in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSecret {
    /// The kind of the secret, as in its redaction tag: `password`, `github-token`.
    pub kind: String,
    /// The offset of its first byte in the input.
    pub start: usize,
    /// The offset of the byte after its last one.
    pub end: usize,
}

/// The result of redacting a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRedaction {
    /// The text with a redaction tag in place of each secret.
    pub text: Redacted,
    /// The secrets that were replaced, in the order of the input.
    pub found: Vec<FoundSecret>,
}

/// Turns text into [`Redacted`]. A clone is independent of its original; if tags are numbered, both continue
/// from the same number.
#[derive(Clone)]
pub struct Redactor {
    rules: Rules,
    tags: TagWriter,
    clean_texts: Option<CleanTexts>,
}

impl Redactor {
    /// Makes a redactor for one document. Each tag ends in a number: the first secret gets 1, the next new
    /// one gets 2.
    #[must_use]
    pub fn numbered(rules: Rules) -> Self {
        Self { rules, tags: TagWriter::Numbered(ContentMap::default()), clean_texts: None }
    }

    /// Makes a redactor for a session. Each tag ends in a hash keyed by the session, so the same secret gets
    /// the same tag in every document of the session.
    #[must_use]
    pub fn keyed(rules: Rules, key: SessionKey) -> Self {
        Self { rules, tags: TagWriter::Keyed(key), clean_texts: None }
    }

    /// Makes a redactor that skips texts in which the standard rules found no secret earlier. With rules of
    /// the user nothing is skipped, because the cache knows the standard rules only.
    pub(crate) fn with_clean_texts(rules: Rules, tag_key: Option<&SessionKey>, clean: CleanTexts) -> Self {
        let tags = tag_key.map_or(TagWriter::Numbered(ContentMap::default()), |key| TagWriter::Keyed(key.clone()));
        let clean = rules.is_standard().then_some(clean);
        Self { rules, tags, clean_texts: clean }
    }

    /// Replaces the secrets of a text.
    pub fn redact(&mut self, text: &str, mode: RedactionMode) -> TextRedaction {
        let key = self.clean_texts.as_ref().map(|clean| (clean, ContentKey::new(mode as u8, text.as_bytes())));
        if key.is_some_and(|(clean, key)| clean.contains(key)) {
            return TextRedaction { text: Redacted(text.to_owned()), found: Vec::new() };
        }
        let findings = scan::find_secrets(text.as_bytes(), mode, &self.rules);
        if let Some((clean, key)) = key.filter(|_| findings.is_empty()) {
            clean.insert(key);
        }
        let mut clean = String::with_capacity(text.len());
        let mut copied = 0;
        let mut found = Vec::with_capacity(findings.len());
        for finding in findings {
            clean.push_str(&text[copied..finding.start]);
            self.tags.write_tag(finding.kind, &text.as_bytes()[finding.start..finding.end], &mut clean);
            copied = finding.end;
            found.push(FoundSecret { kind: finding.kind.to_owned(), start: finding.start, end: finding.end });
        }
        clean.push_str(&text[copied..]);
        TextRedaction { text: Redacted(clean), found }
    }

    /// Replaces the secrets in the strings of a JSON document. Every other byte stays as it is. Secrets in
    /// fields that may not be edited are reported, not replaced.
    pub fn redact_json(&mut self, body: &str) -> Result<JsonRedaction, InvalidJson> {
        json::redact_document(body, &self.rules, &mut self.tags, json::SealedPolicy::Report)
    }

    /// Replaces the secrets of a JSON document that is stored and never sent to a provider again. It also
    /// redacts thinking blocks, which makes their signatures invalid.
    pub fn redact_json_for_storage(&mut self, body: &str) -> Result<JsonRedaction, InvalidJson> {
        json::redact_document(body, &self.rules, &mut self.tags, json::SealedPolicy::Redact)
    }

    /// Makes a redactor for text that arrives in chunks.
    #[must_use]
    pub fn into_stream(self, mode: RedactionMode) -> StreamRedactor {
        StreamRedactor::new(self, mode)
    }
}
