//! A model's answer as statements under the sections of a handover.
//!
//! Models write headings in several ways, put a fence around all of it, or say something before and after. What stands before the
//! first known heading is theirs, not the handover's; a heading that is not known belongs to the section before it.

use crate::checkpoint::{Section, Statement, Tells};
use crate::redact::Redacted;

/// What models write where there is nothing to say.
const NOTHING: [&str; 8] = ["none", "n/a", "nothing", "not applicable", "empty", "no", "-", "(none)"];

/// The statements of an answer, in its order; none where it has no section.
pub(super) fn statements(answer: &Redacted) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    let mut section = None;
    let mut open = false;
    for line in answer.lines() {
        let bare = line.as_str().trim();
        if let Some(next) = heading(bare) {
            (section, open) = (Some(next), false);
            continue;
        }
        let Some(section) = section else { continue };
        if bare.is_empty() || bare.starts_with("```") || is_rule(bare) {
            open = false;
            continue;
        }
        let from = words_of(bare);
        let text = line.trimmed().parts(std::slice::from_ref(&(from..bare.len())), "", "").trimmed();
        let indented = line.as_str().starts_with([' ', '\t']);
        match statements.last_mut().filter(|_| open && (from == 0 || indented)) {
            // A line without a mark goes on with the item before it; one that is indented belongs to it.
            Some(last) => {
                let between = if from == 0 { " " } else { "; " };
                last.text = std::mem::replace(&mut last.text, Redacted::own("")).and_own(between).and(&text);
            }
            None => statements.push(Statement { section, text, tells: Tells::Other }),
        }
        open = true;
    }
    statements.retain(|statement| !says_nothing(statement.text.as_str()));
    statements
}

fn says_nothing(text: &str) -> bool {
    let bare = text.trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '/').to_lowercase();
    bare.is_empty() || NOTHING.contains(&bare.as_str())
}

/// The section that a line opens.
fn heading(line: &str) -> Option<Section> {
    let is_marked = line.starts_with('#') || line.starts_with("**") || line.ends_with(':');
    let words = line.trim_start_matches('#').trim().trim_matches(['*', '_', ':', ' ']);
    let words = words.trim_start_matches(|sign: char| sign.is_ascii_digit() || ". )".contains(sign));
    let is_titled = |section: &Section| {
        let title = section.title();
        words.eq_ignore_ascii_case(title) || words.eq_ignore_ascii_case(&title.replace('&', "and"))
    };
    // Which pages there are is not for a model to say.
    let mut sections = Section::ALL.into_iter().filter(|section| *section != Section::EarlierWork);
    sections.find(is_titled).filter(|section| is_marked || line == section.title())
}

/// Where the words of an item begin, behind its mark or its number.
fn words_of(line: &str) -> usize {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let behind = match digits {
        0 => line.strip_prefix(['-', '*', '•', '+']),
        _ => line[digits..].strip_prefix(['.', ')']),
    };
    behind.filter(|rest| rest.starts_with(' ')).map_or(0, |rest| line.len() - rest.trim_start().len())
}

/// Whether a line only parts others.
fn is_rule(line: &str) -> bool {
    line.len() >= 3 && line.chars().all(|sign| "-=*_".contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Section, String)> {
        let statements = statements(&Redacted::from_store(text.to_owned()));
        statements.into_iter().map(|s| (s.section, s.text.into_string())).collect()
    }

    #[test]
    fn headings_and_items_are_read_however_a_model_writes_them() {
        let text = "Sure! Here it is:\n```markdown\n## Goal\n- Build it\n  in a day.\n\n**Completed Actions:**\n1. RUN make — ok\n2) EDIT a.rs\n   - line 3\n\n### Constraints and Preferences\n* None.\n---\nRemaining Work:\nTest it.\n```\n";
        assert_eq!(
            read(text),
            [
                (Section::Goal, "Build it in a day.".to_owned()),
                (Section::CompletedActions, "RUN make — ok".to_owned()),
                (Section::CompletedActions, "EDIT a.rs; line 3".to_owned()),
                (Section::RemainingWork, "Test it.".to_owned()),
            ]
        );
        assert_eq!(read("I am sorry, but I cannot help with that."), []);
    }
}
