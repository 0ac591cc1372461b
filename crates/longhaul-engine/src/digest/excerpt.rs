//! An output of which somebody else chose the lines: its one-line digest, then those lines in their order.

use std::fmt::Write as _;
use std::ops::Range;

use super::draft::{counted, number};
use super::{Source, one_line};
use crate::facts::{FactKind, Facts};

/// How the first line of an excerpt ends.
const ENDING: &str = " quoted below)";

/// A line that is longer than this is data and no verdict.
const LONGEST_VERDICT: usize = 160;

/// The one-line digest of an output with some of its lines, its totals and its last line below it; what lies between them is counted. A failed output keeps
/// its error lines too. `lines` are sorted ranges of the text, each within a line.
#[must_use]
pub fn excerpt(source: &Source<'_>, lines: &[Range<usize>]) -> String {
    let short = one_line(source).text;
    let (head, errors) = short.split_once('\n').unwrap_or((&short, ""));
    if short == source.text {
        return short;
    }
    let mut chosen: Vec<Range<usize>> = lines.to_vec();
    for error in errors.lines() {
        let error = error.strip_suffix('…').unwrap_or(error);
        if let Some(start) = source.text.find(error)
            && !chosen.iter().any(|line| line.start <= start && start < line.end)
        {
            chosen.push(start..start + error.len());
        }
    }
    if chosen.is_empty() {
        return short;
    }
    // Programs say last how it went, and count what came of it.
    let facts = Facts::of(source.text);
    let ends =
        [Some(source.text.trim_end().len()), facts.of_kind(FactKind::Total).last().map(|fact| fact.at)];
    for end in ends.into_iter().flatten() {
        let start = source.text[..end].rfind('\n').map_or(0, |at| at + 1);
        let line = start..source.text[start..].find('\n').map_or(source.text.len(), |at| start + at);
        if line.len() <= LONGEST_VERDICT && !chosen.iter().any(|l| l.start < line.end && line.start < l.end) {
            chosen.push(line);
        }
    }
    chosen.sort_by_key(|line| line.start);
    let mut text = format!("{head} ({}{ENDING}", number(chosen.len()));
    let mut from = 0;
    for line in chosen {
        gap(&mut text, source.text, from..line.start);
        text.push('\n');
        text.push_str(&source.text[line.clone()]);
        from = line.end;
    }
    gap(&mut text, source.text, from..source.text.len());
    text
}

/// Says how many lines with something in them are left out.
fn gap(out: &mut String, text: &str, between: Range<usize>) {
    let left_out = text[between].lines().filter(|line| !line.trim().is_empty()).count();
    if left_out > 0 {
        let _ = write!(out, "\n[… {}]", counted(left_out, "line"));
    }
}

/// Whether a text begins like an excerpt.
pub(super) fn is_excerpt(first: &str, tool: &str) -> bool {
    first.starts_with(&format!("[{tool}] ")) && first.ends_with(ENDING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{Focus, is_digest};

    fn source<'a>(text: &'a str, focus: &'a Focus) -> Source<'a> {
        let arguments = Some(r#"{"command":"make"}"#);
        Source { text, tool: Some("bash"), arguments, kind: None, failed: None, focus, handle: None }
    }

    #[test]
    fn chosen_lines_stand_in_their_order_with_what_is_left_out_counted() {
        let text = (0..30).fold(String::new(), |text, n| text + &format!("step {n} of the work is done\n"));
        let at = text.find("step 7 ").unwrap();
        let focus = Focus::none();
        let line = at..at + 26;
        let short = excerpt(&source(&text, &focus), std::slice::from_ref(&line));
        assert_eq!(
            short,
            "[bash] ran `make` → 30 lines (2 quoted below)\n[… 7 lines]\nstep 7 of the work is done\n[… 21 lines]\nstep 29 of the work is done"
        );
        assert!(is_digest(&short, "bash"));
    }

    #[test]
    fn a_failure_keeps_its_error_lines() {
        let lines = "compiling one unit after another\n".repeat(20);
        let text = format!("{lines}error: cannot find value `x` in this scope\n{lines}exit code: 101");
        let focus = Focus::none();
        let short = excerpt(&source(&text, &focus), &[]);
        assert!(short.contains("\nerror: cannot find value `x` in this scope\n"), "{short}");
    }
}
