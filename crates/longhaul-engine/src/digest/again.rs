//! Digests that come by again, in a transcript that was compacted before: recognised by their first line, and made shorter
//! still where one line is all there is room for.

use super::Kind;
use super::excerpt::is_excerpt;
use super::one_line::{LONGEST_LINE, UNNAMED};
use super::outcome::FAILED;
use super::proposal::ERROR_LINES;
use super::proposal::number;
use crate::texts::DigestHead;

/// Whether a result is a digest already: a whole one names its kind and what it left out, a line begins with the tool and has
/// at most the error lines of a failure behind it. Tool output that looks like one only misses being shortened.
#[must_use]
pub fn is_digest(text: &str, tool: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let tool = if tool.is_empty() { UNNAMED } else { tool };
    is_line(text, first, tool) || is_whole(first) || is_excerpt(first, tool)
}

fn is_line(text: &str, first: &str, tool: &str) -> bool {
    let said = first.strip_prefix('[').and_then(|line| line.strip_prefix(tool)?.strip_prefix("] "));
    let says_size =
        |said: &str| said.contains(" → ") || said.contains(" chars") || said.starts_with("wrote ");
    let room = |line: &str| line.len() <= LONGEST_LINE;
    said.is_some_and(says_size)
        && room(first)
        && text.lines().skip(1).all(room)
        && text.lines().count() <= 1 + ERROR_LINES
}

fn is_whole(first: &str) -> bool {
    whole(first).is_some()
}

/// The head of a whole digest.
fn whole(first: &str) -> Option<DigestHead> {
    let head: DigestHead = first.parse().ok()?;
    Kind::all().any(|kind| kind.name() == head.kind).then_some(head)
}

/// The first line of a whole digest, which then leaves out every line of its source and says so. Nothing for the digest of a
/// failure, whose error lines are what it is for.
#[must_use]
pub fn first_line(text: &str) -> Option<String> {
    let (first, _) = text.split_once('\n')?;
    let head = whole(first).filter(|head| head.left_out.is_some())?;
    if head.says.iter().any(|said| said == FAILED) {
        return None;
    }
    let (size, _) = head.says.first()?.split_once(" line")?;
    let lines: usize = size.replace(',', "").parse().ok()?;
    Some(DigestHead { left_out: Some(number(lines)), ..head }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokens;
    use crate::digest::{Focus, Source, digest, one_line};

    fn source<'a>(text: &'a str, focus: &'a Focus) -> Source<'a> {
        Source {
            text,
            bytes: None,
            tool: Some("bash"),
            arguments: None,
            kind: None,
            failed: None,
            focus,
            handle: Some("h4nd1e"),
        }
    }

    #[test]
    fn a_digest_is_known_again_and_its_first_line_leaves_out_everything() {
        let focus = Focus::none();
        let text: String =
            (0..400).fold(String::new(), |text, n| text + &format!("warning: odd value in unit {}\n", n * 7));
        let whole = digest(&source(&text, &focus), Tokens(80)).text;
        assert!(is_digest(&whole, "bash"), "{whole}");
        assert!(is_digest(&one_line(&source(&text, &focus)).text, "bash"));
        let line = first_line(&whole).unwrap();
        assert!(line.contains("400 lines") && line.contains("; 400 left out; recall h4nd1e]"), "{line}");
        assert!(!line.contains('\n') && is_digest(&line, "bash"));
        assert_eq!(first_line(&line), None, "one line cannot be made shorter");
    }

    #[test]
    fn a_failure_keeps_its_lines_and_other_text_is_left_alone() {
        let failure =
            "[build: 55 lines; exit 101; failed; 2 error lines; 54 left out]\nerror: could not compile";
        assert!(is_digest(failure, "bash"));
        assert_eq!(first_line(failure), None);
        for text in
            ["", "[note: 3 lines; 2 left out]\nx", "plain\ntext", "[build: many lines; 4 left out]\nx"]
        {
            assert_eq!(first_line(text), None, "{text}");
        }
    }
}
