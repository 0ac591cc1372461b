//! Extracts a person's words from a message, without the text that the host program added.

use std::borrow::Cow;

use super::sentences::split_sentences;
use super::words::EVIDENCE_WORDS;
use crate::host_text::{self, RelayAuthor};

/// The words of a person in a text that has the user's role.
#[derive(Debug, Default)]
pub(crate) struct UserMessage {
    /// The person's words, in full.
    pub(crate) text: String,
    /// Whether the host program passed the words on inside another block, or another agent reported them.
    pub(crate) is_relayed: bool,
}

impl UserMessage {
    pub(super) fn parse(text: &str) -> Self {
        let relayed = host_text::parse_whole(text).is_some_and(|words| words.author == RelayAuthor::Agent);
        let text = host_text::without_wrappers(text);
        Self {
            text: strip_wrapper_tags(&strip_html_comments(&strip_host_sections(&text))).trim().to_owned(),
            is_relayed: relayed,
        }
    }

    /// Extracts the messages that the host program added at the end of a tool result.
    pub(super) fn from_tool_result(result: &str) -> Self {
        let found = host_text::find_trailing(result).map(|(_, found)| found).unwrap_or_default();
        let words: Vec<&str> = found.into_iter().map(|relayed| result[relayed.text].trim()).collect();
        Self { text: words.join("\n\n"), is_relayed: true }
    }

    /// Returns the sentences that state a lasting rule, recognized by their words.
    pub(super) fn rules(&self) -> impl Iterator<Item = String> {
        let rules = split_sentences(&self.text).into_iter().filter(|said| super::has_rule(said.text));
        rules.map(|said| said.on_one_line().into_owned())
    }
}

/// Removes the tagged sections in which the host program speaks or shows a file.
fn strip_host_sections(text: &str) -> Cow<'_, str> {
    let mut kept = Cow::Borrowed(text);
    for tag in &EVIDENCE_WORDS.host_tags {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        if !kept.contains(&open) {
            continue;
        }
        let mut rest: &str = &kept;
        let mut own = String::with_capacity(rest.len());
        while let Some(start) = rest.find(&open) {
            let after = &rest[start + open.len()..];
            let length = after.find(&close).filter(|_| after.starts_with(['>', ' ']));
            let end = length.map_or(start + open.len(), |length| start + open.len() + length + close.len());
            // A blank line keeps the texts before and after the section from becoming one sentence.
            own.push_str(if length.is_some() { rest[..start].trim_end() } else { &rest[..end] });
            own.push_str(if length.is_some() { "\n\n" } else { "" });
            rest = if length.is_some() { rest[end..].trim_start() } else { &rest[end..] };
        }
        own.push_str(rest);
        kept = own.into();
    }
    kept
}

/// Removes the comments of a form template, which the person did not write: `<!-- … -->` at the start of a
/// line, outside of code.
fn strip_html_comments(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<!--";
    const CLOSE: &str = "-->";
    if !text.contains(OPEN) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let (mut fenced, mut at) = (false, 0);
    while let Some(line) = text[at..].split_inclusive('\n').next() {
        fenced ^= line.trim_start().starts_with("```");
        let comment = text[at..].find(CLOSE).filter(|_| !fenced && line.trim_start().starts_with(OPEN));
        let end = at + comment.map_or(line.len(), |end| end + CLOSE.len());
        if comment.is_none() {
            kept.push_str(line);
        }
        at = end;
    }
    kept.into()
}

/// Removes the tags that wrap a person's own words, and keeps the words.
fn strip_wrapper_tags(text: &str) -> Cow<'_, str> {
    let mut kept = Cow::Borrowed(text);
    for tag in &EVIDENCE_WORDS.own_tags {
        for mark in [format!("<{tag}>"), format!("</{tag}>")] {
            if kept.contains(&mark) {
                kept = kept.replace(&mark, "").into();
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_says_goes_and_what_a_person_says_stays() {
        for (text, said) in [
            ("<task>\nFix it.\n</task>\n<environment_details>\n# Tabs\na.rs\n</environment_details>", "Fix it."),
            ("Look.\n<file_content path=\"a.rs\">\nfn always() {}\n</file_content>\nUse it.", "Look.\n\nUse it."),
            ("a <context switch is dear", "a <context switch is dear"),
            ("<system-reminder>Never say.</system-reminder>", ""),
            (
                "<system-reminder>\nThe user sent the following message:\nUse tabs.\n\nPlease address this message and \
                 continue with your tasks.\n</system-reminder>",
                "Use tabs.",
            ),
            ("### What\n<!-- Describe it,\nplease. -->\nIt is slow.", "### What\n\nIt is slow."),
            ("```\n<!-- kept -->\n```\na <!-- b --> c", "```\n<!-- kept -->\n```\na <!-- b --> c"),
        ] {
            assert_eq!(UserMessage::parse(text).text, said);
        }
    }

    #[test]
    fn rules_are_the_users_sentences_and_not_what_is_pasted() {
        let spoken = UserMessage::parse("Never push to main. It is late.\n```\nalways()\n```\nBitte immer testen.");
        assert_eq!(spoken.rules().collect::<Vec<_>>(), ["Never push to main.", "Bitte immer testen."]);
        let told = "I've always had a love for horses! That must have been awesome. It isn't always easy. I never want to see it.";
        assert_eq!(UserMessage::parse(told).rules().collect::<Vec<_>>(), ["I never want to see it."]);
    }
}
