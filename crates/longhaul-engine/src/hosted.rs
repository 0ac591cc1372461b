//! Words that a host puts inside other blocks: what a person typed while a tool ran, what another agent reported (`hosted.toml`).
//!
//! A block that is nothing but such words was written by the host. Words at the end of a tool's result may have been written by
//! the tool as well: a page or a file can end with the very same text. So they are kept like a person's, but carry no authority.
//!
//! It may use `table`.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    wrappers: Vec<Wrapper>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapper {
    #[expect(dead_code, reason = "it tells readers of the table who writes so")]
    host: String,
    by: By,
    tag: Option<String>,
    starts: Option<String>,
    #[serde(default)]
    opens: String,
    #[serde(default)]
    closes: Vec<String>,
    within: Option<String>,
}

table! {
    static TABLE: Table = "hosted.toml";
}

/// Whose words a host passes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// What a person typed.
    Person,
    /// What another agent reported.
    Agent,
}

/// Words inside a text of a host or a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relayed {
    /// Whose they are.
    pub by: By,
    /// The section that the host wrote around them.
    pub section: Range<usize>,
    /// The words.
    pub words: Range<usize>,
}

/// The characters of a person's words that stay where the result around them is shortened.
const MAX_KEPT_OF_PERSON: usize = 4_000;
/// The same of another agent's report.
const MAX_KEPT_OF_AGENT: usize = 1_500;

/// The words that a text consists of, where a host wrote nothing else into it.
#[must_use]
pub fn whole(text: &str) -> Option<Relayed> {
    let trimmed = text.trim_end();
    let at = trimmed.len() - trimmed.trim_start().len();
    let inner = &trimmed[at..];
    let wrapped = TABLE.wrappers.iter().filter(|wrapper| wrapper.starts.is_none()).find_map(|wrapper| {
        let tagged = wrapper.tag.as_deref().and_then(|tag| inside(inner, tag));
        // In a message of its own the wording alone is enough.
        let bare = || (!wrapper.opens.is_empty()).then_some(0..inner.len());
        let within = tagged.or_else(bare)?;
        let words = wrapper.words(&inner[within.clone()])?;
        let (start, end) = (at + within.start + words.start, at + within.start + words.end);
        Some(Relayed { by: wrapper.by, section: at..trimmed.len(), words: start..end })
    });
    wrapped.or_else(|| {
        let Relayed { by, words, .. } = report_inside(inner)?;
        Some(Relayed { by, section: at..trimmed.len(), words: at + words.start..at + words.end })
    })
}

/// The report of another agent at the end of a section that opens with words of the host's own, whatever they are.
fn report_inside(text: &str) -> Option<Relayed> {
    let within = tags().find_map(|tag| inside(text, tag))?;
    let section = text[within.clone()].trim_end();
    let start = section_before(section).filter(|start| *start > 0)?;
    let nested = whole(&section[start..]).filter(|nested| nested.by == By::Agent)?;
    let moved = |place: usize| within.start + start + place;
    Some(Relayed { words: moved(nested.words.start)..moved(nested.words.end), ..nested })
}

/// The words that a host put behind a tool's output, oldest first, and where its sections begin.
#[must_use]
pub fn behind(text: &str) -> Option<(usize, Vec<Relayed>)> {
    if let Some(rejected) = rejected(text) {
        return Some((0, vec![rejected]));
    }
    let mut end = text.trim_end().len();
    let mut found = Vec::new();
    let mut begins = end;
    while let Some(start) = section_before(&text[..end]) {
        if let Some(words) = whole(&text[start..end]) {
            let moved = |range: Range<usize>| start + range.start..start + range.end;
            found.push(Relayed { by: words.by, section: moved(words.section), words: moved(words.words) });
            begins = start;
        }
        end = text[..start].trim_end().len();
    }
    found.reverse();
    (!found.is_empty()).then_some((begins, found))
}

/// Whether words may stand behind an output that ends like this: cheap, for all those that have none.
#[must_use]
pub fn may_end(ending: &str) -> bool {
    let ending = ending.trim_end();
    ending.strip_suffix('>').is_some_and(|rest| tags().any(|tag| rest.ends_with(tag)))
}

/// Whether a message that begins like this may be nothing but words.
#[must_use]
pub fn may_open(opening: &str) -> bool {
    let mut bare =
        TABLE.wrappers.iter().filter(|wrapper| wrapper.starts.is_none() && !wrapper.opens.is_empty());
    bare.any(|wrapper| opening.starts_with(wrapper.opens.as_str()))
}

/// Whether an output that begins like this may be nothing but words.
#[must_use]
pub fn may_begin(opening: &str) -> bool {
    TABLE
        .wrappers
        .iter()
        .filter_map(|wrapper| wrapper.starts.as_deref())
        .any(|starts| opening.starts_with(starts))
}

/// A tool's output without the words that a host put behind it.
#[must_use]
pub fn output(text: &str) -> &str {
    behind(text).map_or(text, |(begins, _)| text[..begins].trim_end())
}

/// A shorter text for an output, with the words that stood behind it. Long ones are cut, and `cut` says what stands there then.
#[must_use]
pub fn carried(text: &str, short: &str, cut: &str) -> String {
    let Some((_, relayed)) = behind(text) else { return short.to_owned() };
    let mut kept = short.trim_end().to_owned();
    for Relayed { by, section, words } in relayed {
        let most = match by {
            By::Person => MAX_KEPT_OF_PERSON,
            By::Agent => MAX_KEPT_OF_AGENT,
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

/// A text under a person's name with the words that a host wrapped in it in the place of their wrappers.
#[must_use]
pub fn unwrapped(text: &str) -> Cow<'_, str> {
    if let Some(Relayed { words, .. }) = whole(text) {
        return Cow::Borrowed(&text[words]);
    }
    let Some((begins, relayed)) = behind(text) else { return Cow::Borrowed(text) };
    let mut own = text[..begins].trim_end().to_owned();
    for Relayed { words, .. } in relayed {
        own.push_str("\n\n");
        own.push_str(&text[words]);
    }
    Cow::Owned(own)
}

impl Wrapper {
    /// The words in what stands inside the tag, or in all of the text where there is none.
    fn words(&self, text: &str) -> Option<Range<usize>> {
        let lead = text.len() - text.trim_start().len();
        let rest = text[lead..].strip_prefix(self.opens.as_str())?;
        let start = text.len() - rest.trim_start().len();
        let words = text[start..].trim_end();
        // The host's own words stand behind the last blank line that a person could have left.
        let end =
            self.closes.iter().filter_map(|close| words.rfind(close.as_str())).max().unwrap_or(words.len());
        let words = words[..end].trim_end();
        let inner = self.within.as_deref().and_then(|tag| between(words, tag));
        let inner = inner.unwrap_or(0..words.len());
        (!inner.is_empty()).then_some(start + inner.start..start + inner.end)
    }
}

/// What stands between a tag and the last end of it, without blanks around it.
fn between(text: &str, tag: &str) -> Option<Range<usize>> {
    let start = text.find(&format!("<{tag}>"))? + tag.len() + 2;
    let end = text.rfind(&format!("</{tag}>")).filter(|end| *end >= start)?;
    let inner = text[start..end].trim_end();
    Some(end - text[start..end].trim_start().len()..start + inner.len())
        .filter(|inner| inner.start < inner.end)
}

/// A result that says that a person refused the call, with what the person said.
fn rejected(text: &str) -> Option<Relayed> {
    let refusals = TABLE.wrappers.iter().filter_map(|wrapper| Some((wrapper, wrapper.starts.as_deref()?)));
    let (wrapper, _) = refusals.into_iter().find(|(_, starts)| text.starts_with(starts))?;
    let at = text.find(wrapper.opens.as_str())?;
    let words = wrapper.words(&text[at..])?;
    Some(Relayed {
        by: wrapper.by,
        section: 0..text.trim_end().len(),
        words: at + words.start..at + words.end,
    })
}

fn tags() -> impl Iterator<Item = &'static str> {
    TABLE.wrappers.iter().filter_map(|wrapper| wrapper.tag.as_deref())
}

/// Where the section of a host begins that a text ends with: its tag stands at the beginning of a line.
fn section_before(text: &str) -> Option<usize> {
    let inner = text.strip_suffix('>')?;
    let tag = tags().find(|tag| inner.strip_suffix(tag).is_some_and(|rest| rest.ends_with("</")))?;
    let (open, mut end) = (format!("<{tag}>"), text.len());
    loop {
        let start = text[..end].rfind(&open)?;
        if start == 0 || text[..start].ends_with('\n') {
            return Some(start);
        }
        end = start;
    }
}

/// What stands inside a tag that a text begins and ends with.
fn inside(text: &str, tag: &str) -> Option<Range<usize>> {
    let rest = text.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
    let inner = rest.strip_suffix('>')?.strip_suffix(tag)?.strip_suffix("</")?;
    let start = text.len() - rest.len();
    // Another section of the same host: the text is not one.
    (!inner.contains(&format!("</{tag}>"))).then_some(start..start + inner.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPED: &str = "<system-reminder>\nThe user sent a new message while you were working:\nAlso fix the docs.\nAnd push.\n\n\
        IMPORTANT: After completing your current task, you MUST address the user's message above. Do not ignore it.\n</system-reminder>";

    fn words(text: &str) -> Vec<(By, &str)> {
        let found = behind(text).map(|(_, found)| found).unwrap_or_default();
        found.into_iter().map(|relayed| (relayed.by, &text[relayed.words])).collect()
    }

    #[test]
    fn what_a_host_wraps_is_recognised_as_a_block_and_behind_an_output() {
        let said = "Also fix the docs.\nAnd push.";
        assert_eq!(whole(TYPED).map(|relayed| &TYPED[relayed.words]), Some(said));
        let result = format!("ok\n12 passed\n\n{TYPED}\n");
        assert_eq!(words(&result), [(By::Person, said)]);
        assert_eq!(output(&result), "ok\n12 passed");
        let nagged = format!(
            "{result}\n<system-reminder>\nThe TodoWrite tool hasn't been used.\n</system-reminder>\n"
        );
        assert_eq!(words(&nagged), [(By::Person, said)]);
        let report = "<task-notification>\n<task-id>a1</task-id>\n<result>All 7 are green.</result>\n</task-notification>";
        let both = format!("ok\n\n{TYPED}\n{report}");
        assert!(matches!(words(&both)[..], [(By::Person, _), (By::Agent, _)]), "{:?}", words(&both));
        assert!(whole(report).is_some_and(|relayed| relayed.by == By::Agent));
        let announced = format!(
            "<system-reminder>\nAn event of the program, no input of the user.\n\n{report}\n</system-reminder>"
        );
        let nagged =
            format!("ok\n\n{announced}\n\n<system-reminder>\nUse the task tools.\n</system-reminder>");
        assert_eq!(words(&nagged), [(By::Agent, "All 7 are green.")]);
        let order = TYPED.replace("<system-reminder>", "<system-reminder>\nLook:\n<feedback>x</feedback>\n");
        assert_eq!(words(&order), [], "only reports are looked for inside");
    }

    #[test]
    fn what_is_no_wrapper_or_stands_in_the_middle_is_left_alone() {
        for text in [
            "",
            "plain output",
            "<system-reminder>\nUse the right tool.\n</system-reminder>",
            &format!("{TYPED}\nand the page goes on"),
            "a line with <feedback>inline</feedback>",
            "<system-reminder>\nThe user sent a new message while you were working:\n\n</system-reminder>",
        ] {
            assert_eq!(words(text), [], "{text}");
            assert_eq!(unwrapped(text), text);
        }
        let two = format!("{TYPED}\n{TYPED}");
        assert_eq!(whole(&two), None, "two sections are not one");
        assert_eq!(words(&two).len(), 2);
    }

    #[test]
    fn words_stay_where_the_output_is_shortened_and_long_ones_are_cut() {
        let result = format!("{}\n{TYPED}", "line\n".repeat(500));
        assert_eq!(carried(&result, "[bash] ran `ls`", ""), format!("[bash] ran `ls`\n\n{TYPED}"));
        let long = TYPED.replace("Also", &"Also, ".repeat(2_000));
        let kept = carried(&long, "short", " […] (recall x1)");
        assert!(kept.len() < 5_000 && kept.contains(" […] (recall x1)\n\nIMPORTANT: "), "{kept}");
        assert_eq!(carried("plain", "short", "cut"), "short");
    }

    #[test]
    fn a_refused_call_has_the_words_of_the_person_who_refused_it() {
        let text = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the \
            new_string was NOT written to the file). To tell you how to proceed, the user said:\nUse tabs instead.";
        assert_eq!(words(text), [(By::Person, "Use tabs instead.")]);
        assert!(may_begin(text) && !may_begin("The user said"));
        assert!(may_end(TYPED) && !may_end("</html>"));
    }
}
