//! What a person said, without what the program around the model put beside it.

use std::borrow::Cow;

use super::prose::sentences;
use super::words::{Cue, Cues, TABLE};
use crate::hosted::{self, By};

/// What a text under a person's name says.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    /// The person's words, all of them.
    pub(crate) text: String,
    /// Whether a host passed them on inside another block, or they are another agent's report.
    pub(crate) relayed: bool,
}

impl Spoken {
    pub(super) fn of(text: &str) -> Self {
        let relayed = hosted::whole(text).is_some_and(|words| words.by == By::Agent);
        let text = hosted::unwrapped(text);
        Self { text: without_own_tags(&without_comments(&without_host(&text))).trim().to_owned(), relayed }
    }

    /// The words that a host put behind the output of a tool.
    pub(super) fn behind(result: &str) -> Self {
        let found = hosted::behind(result).map(|(_, found)| found).unwrap_or_default();
        let words: Vec<&str> = found.into_iter().map(|relayed| result[relayed.words].trim()).collect();
        Self { text: words.join("\n\n"), relayed: true }
    }

    /// The sentences that are meant to hold, as far as their words show it.
    pub(super) fn rules(&self) -> impl Iterator<Item = String> {
        let rules = sentences(&self.text).into_iter().filter(|said| Cues::of(said.text).has(Cue::Rule));
        rules.map(|said| said.on_one_line().into_owned())
    }
}

/// A text without the sections in which the program around the model speaks, or shows a file.
fn without_host(text: &str) -> Cow<'_, str> {
    let mut kept = Cow::Borrowed(text);
    for tag in &TABLE.host_tags {
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
            // What stood apart does not become one sentence.
            own.push_str(if length.is_some() { rest[..start].trim_end() } else { &rest[..end] });
            own.push_str(if length.is_some() { "\n\n" } else { "" });
            rest = if length.is_some() { rest[end..].trim_start() } else { &rest[end..] };
        }
        own.push_str(rest);
        kept = own.into();
    }
    kept
}

/// A text without the comments of a form, which nobody wrote: `<!-- … -->` on lines of its own, outside of code.
fn without_comments(text: &str) -> Cow<'_, str> {
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

/// A text without the tags that wrap a person's own words.
fn without_own_tags(text: &str) -> Cow<'_, str> {
    let mut kept = Cow::Borrowed(text);
    for tag in &TABLE.own_tags {
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
            (
                "<task>\nFix it.\n</task>\n<environment_details>\n# Tabs\na.rs\n</environment_details>",
                "Fix it.",
            ),
            (
                "Look.\n<file_content path=\"a.rs\">\nfn always() {}\n</file_content>\nUse it.",
                "Look.\n\nUse it.",
            ),
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
            assert_eq!(Spoken::of(text).text, said);
        }
    }

    #[test]
    fn rules_are_the_users_sentences_and_not_what_is_pasted() {
        let spoken = Spoken::of("Never push to main. It is late.\n```\nalways()\n```\nBitte immer testen.");
        assert_eq!(spoken.rules().collect::<Vec<_>>(), ["Never push to main.", "Bitte immer testen."]);
    }
}
