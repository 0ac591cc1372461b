//! Finds text that a host program put into a message on behalf of somebody else: input that a person typed
//! while a tool ran, and reports of other agents. `host_text.toml` lists the wrappers that hosts use.
//!
//! A block that consists only of such a wrapper was written by the host. A wrapper at the end of a tool
//! result is less certain, because a web page or a file can end with the same text. Such text is kept like a
//! person's text, but it has no authority.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTextTable {
    wrappers: Vec<Wrapper>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapper {
    #[expect(dead_code, reason = "it tells readers of the table who writes so")]
    host: String,
    by: RelayAuthor,
    tag: Option<String>,
    starts: Option<String>,
    #[serde(default)]
    opens: String,
    #[serde(default)]
    closes: Vec<String>,
    within: Option<String>,
}

table! {
    static TABLE: HostTextTable = "host_text.toml";
}

/// The author of a text that a host passes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelayAuthor {
    /// A person who typed the text.
    Person,
    /// Another agent that reported the text.
    Agent,
}

/// A text that a host passes on, inside a message or a tool result. The ranges are byte offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayedText {
    /// The author of the text.
    pub author: RelayAuthor,
    /// The whole section, including the wrapper that the host wrote.
    pub section: Range<usize>,
    /// The text inside the wrapper.
    pub text: Range<usize>,
}

/// The number of characters of a person's text that are kept when the tool result around it is shortened.
/// Chosen by hand.
const MAX_PERSON_CHARS: usize = 4_000;
/// The number of characters of another agent's report that are kept when the tool result around it is
/// shortened. Chosen by hand.
const MAX_AGENT_CHARS: usize = 1_500;

/// Parses a text that consists of one wrapper and nothing else.
#[must_use]
pub fn parse_whole(text: &str) -> Option<RelayedText> {
    let trimmed = text.trim_end();
    let at = trimmed.len() - trimmed.trim_start().len();
    let inner = &trimmed[at..];
    let wrapped = TABLE.wrappers.iter().filter(|wrapper| wrapper.starts.is_none()).find_map(|wrapper| {
        let tagged = wrapper.tag.as_deref().and_then(|tag| tag_content_if_whole(inner, tag));
        // In a separate message the introduction is enough; no tag is needed.
        let bare = || (!wrapper.opens.is_empty()).then_some(0..inner.len());
        let within = tagged.or_else(bare)?;
        let words = wrapper.find_text(&inner[within.clone()])?;
        let (start, end) = (at + within.start + words.start, at + within.start + words.end);
        Some(RelayedText { author: wrapper.by, section: at..trimmed.len(), text: start..end })
    });
    wrapped.or_else(|| {
        let RelayedText { author: by, text: words, .. } = find_nested_report(inner)?;
        Some(RelayedText { author: by, section: at..trimmed.len(), text: at + words.start..at + words.end })
    })
}

/// Finds another agent's report at the end of a section that starts with any text of the host.
fn find_nested_report(text: &str) -> Option<RelayedText> {
    let within = wrapper_tags().find_map(|tag| tag_content_if_whole(text, tag))?;
    let section = text[within.clone()].trim_end();
    let start = last_section_start(section).filter(|start| *start > 0)?;
    let nested = parse_whole(&section[start..]).filter(|nested| nested.author == RelayAuthor::Agent)?;
    let moved = |place: usize| within.start + start + place;
    Some(RelayedText { text: moved(nested.text.start)..moved(nested.text.end), ..nested })
}

/// Finds the wrapped texts at the end of a tool's output, oldest first, and the offset where they start.
#[must_use]
pub fn find_trailing(text: &str) -> Option<(usize, Vec<RelayedText>)> {
    if let Some(rejected) = find_rejection(text) {
        return Some((0, vec![rejected]));
    }
    let mut end = text.trim_end().len();
    let mut found = Vec::new();
    let mut begins = end;
    while let Some(start) = last_section_start(&text[..end]) {
        if let Some(words) = parse_whole(&text[start..end]) {
            let moved = |range: Range<usize>| start + range.start..start + range.end;
            found.push(RelayedText { author: words.author, section: moved(words.section), text: moved(words.text) });
            begins = start;
        }
        end = text[..start].trim_end().len();
    }
    found.reverse();
    (!found.is_empty()).then_some((begins, found))
}

/// Returns whether an output with this ending may end with a wrapped text. This is a cheap test for the many
/// outputs that do not.
#[must_use]
pub fn may_end_with_relayed(ending: &str) -> bool {
    let ending = ending.trim_end();
    ending.strip_suffix('>').is_some_and(|rest| wrapper_tags().any(|tag| rest.ends_with(tag)))
}

/// Returns whether a message with this start may consist only of a wrapped text.
#[must_use]
pub fn may_be_relayed_message(opening: &str) -> bool {
    let mut bare = TABLE.wrappers.iter().filter(|wrapper| wrapper.starts.is_none() && !wrapper.opens.is_empty());
    bare.any(|wrapper| opening.starts_with(wrapper.opens.as_str()))
}

/// Returns whether a tool result with this start may report that a person rejected the call.
#[must_use]
pub fn may_be_rejection(opening: &str) -> bool {
    TABLE.wrappers.iter().filter_map(|wrapper| wrapper.starts.as_deref()).any(|starts| opening.starts_with(starts))
}

/// Returns a tool's output without the wrapped texts at its end.
#[must_use]
pub fn without_trailing(text: &str) -> &str {
    find_trailing(text).map_or(text, |(begins, _)| text[..begins].trim_end())
}

/// Appends the wrapped texts at the end of `text` to its shorter version `short`. Long texts are cut, and
/// `cut` is written where one was cut.
#[must_use]
pub fn append_relayed(text: &str, short: &str, cut: &str) -> String {
    let Some((_, relayed)) = find_trailing(text) else { return short.to_owned() };
    let mut kept = short.trim_end().to_owned();
    for RelayedText { author: by, section, text: words } in relayed {
        let most = match by {
            RelayAuthor::Person => MAX_PERSON_CHARS,
            RelayAuthor::Agent => MAX_AGENT_CHARS,
        };
        let all = &text[words.clone()];
        let head = all.char_indices().nth(most).map_or(all, |(end, _)| &all[..end]);
        kept.push_str("\n\n");
        kept.push_str(&text[section.start..words.start]);
        kept.push_str(head);
        if head.len() < all.len() {
            kept.push_str(cut);
        }
        kept.push_str(&text[words.end..section.end]);
    }
    kept
}

/// Returns a text with each wrapper replaced by the text inside it.
#[must_use]
pub fn without_wrappers(text: &str) -> Cow<'_, str> {
    if let Some(RelayedText { text: words, .. }) = parse_whole(text) {
        return Cow::Borrowed(&text[words]);
    }
    let Some((begins, relayed)) = find_trailing(text) else { return Cow::Borrowed(text) };
    let mut own = text[..begins].trim_end().to_owned();
    for RelayedText { text: words, .. } in relayed {
        own.push_str("\n\n");
        own.push_str(&text[words]);
    }
    Cow::Owned(own)
}

impl Wrapper {
    /// Finds the wrapped text inside the content of the tag, or inside the whole text if there is no tag.
    fn find_text(&self, text: &str) -> Option<Range<usize>> {
        let lead = text.len() - text.trim_start().len();
        let rest = text[lead..].strip_prefix(self.opens.as_str())?;
        let start = text.len() - rest.trim_start().len();
        let words = text[start..].trim_end();
        // The person's text may contain the closing words too, so the last occurrence ends it.
        let end = self.closes.iter().filter_map(|close| words.rfind(close.as_str())).max().unwrap_or(words.len());
        let words = words[..end].trim_end();
        let inner = self.within.as_deref().and_then(|tag| find_tag_content(words, tag));
        let inner = inner.unwrap_or(0..words.len());
        (!inner.is_empty()).then_some(start + inner.start..start + inner.end)
    }
}

/// Finds the content between the first start tag and the last end tag, without surrounding white space.
fn find_tag_content(text: &str, tag: &str) -> Option<Range<usize>> {
    let start = text.find(&format!("<{tag}>"))? + tag.len() + 2;
    let end = text.rfind(&format!("</{tag}>")).filter(|end| *end >= start)?;
    let inner = text[start..end].trim_end();
    Some(end - text[start..end].trim_start().len()..start + inner.len()).filter(|inner| inner.start < inner.end)
}

/// Parses a tool result that reports that a person rejected the call, with the person's reason.
fn find_rejection(text: &str) -> Option<RelayedText> {
    let refusals = TABLE.wrappers.iter().filter_map(|wrapper| Some((wrapper, wrapper.starts.as_deref()?)));
    let (wrapper, _) = refusals.into_iter().find(|(_, starts)| text.starts_with(starts))?;
    let at = text.find(wrapper.opens.as_str())?;
    let words = wrapper.find_text(&text[at..])?;
    Some(RelayedText { author: wrapper.by, section: 0..text.trim_end().len(), text: at + words.start..at + words.end })
}

fn wrapper_tags() -> impl Iterator<Item = &'static str> {
    TABLE.wrappers.iter().filter_map(|wrapper| wrapper.tag.as_deref())
}

/// Finds the start of the host's section at the end of a text. Its tag must be at the start of a line.
fn last_section_start(text: &str) -> Option<usize> {
    let inner = text.strip_suffix('>')?;
    let tag = wrapper_tags().find(|tag| inner.strip_suffix(tag).is_some_and(|rest| rest.ends_with("</")))?;
    let (open, mut end) = (format!("<{tag}>"), text.len());
    loop {
        let start = text[..end].rfind(&open)?;
        if start == 0 || text[..start].ends_with('\n') {
            return Some(start);
        }
        end = start;
    }
}

/// Returns the content of a tag if the whole text is that one tag.
fn tag_content_if_whole(text: &str, tag: &str) -> Option<Range<usize>> {
    let rest = text.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
    let inner = rest.strip_suffix('>')?.strip_suffix(tag)?.strip_suffix("</")?;
    let start = text.len() - rest.len();
    // A second end tag means that the text has more than one section.
    (!inner.contains(&format!("</{tag}>"))).then_some(start..start + inner.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPED: &str = "<system-reminder>\nThe user sent a new message while you were working:\nAlso fix the docs.\nAnd push.\n\n\
        IMPORTANT: After completing your current task, you MUST address the user's message above. Do not ignore it.\n</system-reminder>";

    fn find_texts(text: &str) -> Vec<(RelayAuthor, &str)> {
        let found = find_trailing(text).map(|(_, found)| found).unwrap_or_default();
        found.into_iter().map(|relayed| (relayed.author, &text[relayed.text])).collect()
    }

    #[test]
    fn wrapped_text_is_recognized_as_a_block_and_after_an_output() {
        let said = "Also fix the docs.\nAnd push.";
        assert_eq!(parse_whole(TYPED).map(|relayed| &TYPED[relayed.text]), Some(said));
        let result = format!("ok\n12 passed\n\n{TYPED}\n");
        assert_eq!(find_texts(&result), [(RelayAuthor::Person, said)]);
        assert_eq!(without_trailing(&result), "ok\n12 passed");
        let nagged = format!("{result}\n<system-reminder>\nThe TodoWrite tool hasn't been used.\n</system-reminder>\n");
        assert_eq!(find_texts(&nagged), [(RelayAuthor::Person, said)]);
        let report =
            "<task-notification>\n<task-id>a1</task-id>\n<result>All 7 are green.</result>\n</task-notification>";
        let both = format!("ok\n\n{TYPED}\n{report}");
        assert!(
            matches!(find_texts(&both)[..], [(RelayAuthor::Person, _), (RelayAuthor::Agent, _)]),
            "{:?}",
            find_texts(&both)
        );
        assert!(parse_whole(report).is_some_and(|relayed| relayed.author == RelayAuthor::Agent));
        let announced = format!(
            "<system-reminder>\nAn event of the program, no input of the user.\n\n{report}\n</system-reminder>"
        );
        let nagged = format!("ok\n\n{announced}\n\n<system-reminder>\nUse the task tools.\n</system-reminder>");
        assert_eq!(find_texts(&nagged), [(RelayAuthor::Agent, "All 7 are green.")]);
        let continued = "This session is being continued from a previous conversation that ran out of context. The parser is fixed.\n\
            Please continue the conversation from where we left it off.";
        let summary = parse_whole(continued).map(|relayed| (relayed.author, &continued[relayed.text]));
        assert_eq!(summary, Some((RelayAuthor::Agent, "The parser is fixed.")));
        let order = TYPED.replace("<system-reminder>", "<system-reminder>\nLook:\n<feedback>x</feedback>\n");
        assert_eq!(find_texts(&order), [], "only reports are looked for inside");
    }

    #[test]
    fn other_text_and_wrappers_in_the_middle_are_left_alone() {
        for text in [
            "",
            "plain output",
            "<system-reminder>\nUse the right tool.\n</system-reminder>",
            &format!("{TYPED}\nand the page goes on"),
            "a line with <feedback>inline</feedback>",
            "<system-reminder>\nThe user sent a new message while you were working:\n\n</system-reminder>",
        ] {
            assert_eq!(find_texts(text), [], "{text}");
            assert_eq!(without_wrappers(text), text);
        }
        let two = format!("{TYPED}\n{TYPED}");
        assert_eq!(parse_whole(&two), None, "two sections are not one");
        assert_eq!(find_texts(&two).len(), 2);
    }

    #[test]
    fn relayed_text_survives_a_shortened_output_and_long_text_is_cut() {
        let result = format!("{}\n{TYPED}", "line\n".repeat(500));
        assert_eq!(append_relayed(&result, "[bash] ran `ls`", ""), format!("[bash] ran `ls`\n\n{TYPED}"));
        let long = TYPED.replace("Also", &"Also, ".repeat(2_000));
        let kept = append_relayed(&long, "short", " […] (recall x1)");
        assert!(kept.len() < 5_000 && kept.contains(" […] (recall x1)\n\nIMPORTANT: "), "{kept}");
        assert_eq!(append_relayed("plain", "short", "cut"), "short");
    }

    #[test]
    fn a_rejected_call_has_the_text_of_the_person_who_rejected_it() {
        let text = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the \
            new_string was NOT written to the file). To tell you how to proceed, the user said:\nUse tabs instead.";
        assert_eq!(find_texts(text), [(RelayAuthor::Person, "Use tabs instead.")]);
        assert!(may_be_rejection(text) && !may_be_rejection("The user said"));
        assert!(may_end_with_relayed(TYPED) && !may_end_with_relayed("</html>"));
    }
}
