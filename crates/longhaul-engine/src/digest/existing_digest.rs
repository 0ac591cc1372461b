//! Recognizes digests in a transcript that was compacted before, by their first line, and shortens them to
//! that line.

use super::OutputKind;
use super::one_line::UNNAMED_TOOL;
use super::outcome::FAILED_WORD;
use super::proposal::format_count;
use super::weights::{MAX_ERROR_LINES, MAX_LINE_BYTES};
use crate::texts::DigestHead;

/// Returns whether a result is a digest already. A full digest starts with its kind and the number of lines
/// left out; a one-line digest starts with the tool, and error lines may follow. If a tool output merely
/// looks like a digest, the only harm is that it is not shortened.
#[must_use]
pub fn is_digest(text: &str, tool: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let tool = if tool.is_empty() { UNNAMED_TOOL } else { tool };
    is_one_line_digest(text, first, tool) || parse_full_head(first).is_some()
}

fn is_one_line_digest(text: &str, first: &str, tool: &str) -> bool {
    let said = first.strip_prefix('[').and_then(|line| line.strip_prefix(tool)?.strip_prefix("] "));
    let says_size = |said: &str| said.contains(" → ") || said.contains(" chars") || said.starts_with("wrote ");
    let room = |line: &str| line.len() <= MAX_LINE_BYTES;
    said.is_some_and(says_size)
        && room(first)
        && text.lines().skip(1).all(room)
        && text.lines().count() <= 1 + MAX_ERROR_LINES
}

/// Parses the head of a full digest.
fn parse_full_head(first: &str) -> Option<DigestHead> {
    let head: DigestHead = first.parse().ok()?;
    OutputKind::all().any(|kind| kind.name() == head.kind).then_some(head)
}

/// Shortens a full digest to its first line, which then counts every line of the source as left out. Returns
/// `None` for the digest of a failure, because its error lines must stay.
#[must_use]
pub fn shorten_to_first_line(text: &str) -> Option<String> {
    let (first, _) = text.split_once('\n')?;
    let head = parse_full_head(first).filter(|head| head.omitted_lines.is_some())?;
    if head.facts.iter().any(|said| said == FAILED_WORD) {
        return None;
    }
    let (size, _) = head.facts.first()?.split_once(" line")?;
    let lines: usize = size.replace(',', "").parse().ok()?;
    Some(DigestHead { omitted_lines: Some(format_count(lines)), ..head }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokens;
    use crate::digest::{Focus, ToolOutput, digest, one_line_digest};

    fn output<'a>(text: &'a str, focus: &'a Focus) -> ToolOutput<'a> {
        ToolOutput {
            text,
            original_bytes: None,
            tool: Some("bash"),
            arguments: None,
            kind: None,
            failed: None,
            focus,
            recall_id: Some("h4nd1e"),
        }
    }

    #[test]
    fn a_digest_is_known_again_and_its_first_line_leaves_out_everything() {
        let focus = Focus::none();
        let text: String =
            (0..400).fold(String::new(), |text, n| text + &format!("warning: odd value in unit {}\n", n * 7));
        let whole = digest(&output(&text, &focus), Tokens(80)).text;
        assert!(is_digest(&whole, "bash"), "{whole}");
        assert!(is_digest(&one_line_digest(&output(&text, &focus)).text, "bash"));
        let line = shorten_to_first_line(&whole).unwrap();
        assert!(line.contains("400 lines") && line.contains("; 400 left out; recall h4nd1e]"), "{line}");
        assert!(!line.contains('\n') && is_digest(&line, "bash"));
        assert_eq!(shorten_to_first_line(&line), None, "one line cannot be made shorter");
    }

    #[test]
    fn a_failure_keeps_its_lines_and_other_text_is_left_alone() {
        let failure = "[build: 55 lines; exit 101; failed; 2 error lines; 54 left out]\nerror: could not compile";
        assert!(is_digest(failure, "bash"));
        assert_eq!(shorten_to_first_line(failure), None);
        for text in ["", "[note: 3 lines; 2 left out]\nx", "plain\ntext", "[build: many lines; 4 left out]\nx"] {
            assert_eq!(shorten_to_first_line(text), None, "{text}");
        }
    }
}
