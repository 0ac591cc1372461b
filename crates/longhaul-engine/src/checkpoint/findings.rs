//! The lines of what was read that the work points at: those with the names in the request, in the agent's own searches
//! and in its findings. Without them, a session that only reads would leave nothing.
//!
//! ```text
//! request, searches, findings ──▶ names with weights ──▶ lines of the results that have them ──▶ the best of each source
//! ```

use std::collections::{HashMap, HashSet};

use aho_corasick::{AhoCorasick, MatchKind};

use super::input::CheckpointInput;
use super::paths::short_path;
use super::weights::{
    DEFINITION_BONUS, FINDING_NAME_WEIGHT, MAX_FINDING_LINE_BYTES, MAX_FINDING_NAMES, MAX_LINES_PER_SOURCE,
    MAX_READ_BYTES, MIN_FINDING_NAME_BYTES, MIN_LINE_SCORE, REQUEST_NAME_WEIGHT, SEARCH_NAME_WEIGHT,
};
use crate::action::Verb;
use crate::evidence::{EvidenceItem, ToolUse, is_identifier, printed_text, split_words};
use crate::truncate::first_bytes;

/// The best lines of one source.
pub(super) struct FoundLines {
    /// The file, the search or the command that printed the lines.
    pub(super) source: String,
    /// The turn of the result.
    pub(super) turn: usize,
    /// The lines in the order of the result, with their scores.
    pub(super) lines: Vec<(FoundLine, f64)>,
}

/// One line of a result.
pub(super) struct FoundLine {
    /// The line number, if the tool printed one.
    number: Option<usize>,
    /// The line with its number as the tool printed it, without the path of a search in several files.
    pub(super) text: String,
}

/// The names that the work is about, each with a weight.
struct NamesOfInterest {
    finder: AhoCorasick,
    names: Vec<(String, f64)>,
}

/// Finds the lines in the results of summarized reads and searches from turn `first_open` on, the newest source first. A
/// line is listed only where it was read last.
pub(super) fn find_lines(input: &CheckpointInput<'_>, first_open: usize) -> Vec<FoundLines> {
    let Some(names) = NamesOfInterest::collect(input) else { return Vec::new() };
    let reads: Vec<(&EvidenceItem, &ToolUse)> = input
        .evidence
        .tool_uses
        .iter()
        .filter(|item| (input.is_summarized)(item.at.unit))
        .filter_map(|item| Some((item, item.tool_use()?)))
        .filter(|(item, tool_use)| tool_use.action.is_read_only && item.at.unit >= first_open)
        .collect();
    let texts: Vec<String> =
        reads.iter().map(|(item, _)| printed_text(&(input.result_text)(item.at)).into_owned()).collect();
    let mut sources: Vec<Vec<MatchedLine<'_>>> =
        texts.iter().map(|text| names.match_lines(first_bytes(text, MAX_READ_BYTES))).collect();
    let mut counts = vec![0_usize; names.names.len()];
    for line in sources.iter().flatten() {
        line.names.iter().for_each(|name| counts[*name] += 1);
    }
    let mut seen: HashSet<String> = HashSet::new();
    let mut found = Vec::new();
    for ((item, tool_use), matched) in reads.iter().zip(&mut sources).rev() {
        let mut scored: Vec<(usize, f64)> = Vec::new();
        for (at, line) in matched.iter().enumerate() {
            let score = names.score(line, &counts);
            if score >= MIN_LINE_SCORE
                && !is_remark_of_tool(line.text, &tool_use.request)
                && seen.insert(line.text.split_whitespace().collect())
            {
                scored.push((at, score));
            }
        }
        scored.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        scored.truncate(MAX_LINES_PER_SOURCE);
        scored.sort_by_key(|(at, _)| *at);
        let lines: Vec<(FoundLine, f64)> = scored
            .into_iter()
            .map(|(at, score)| (FoundLine { number: matched[at].number, text: matched[at].numbered.to_owned() }, score))
            .collect();
        let source = source_name(tool_use);
        match found.iter_mut().find(|known: &&mut FoundLines| known.source == source) {
            _ if lines.is_empty() => {}
            Some(known) => known.lines.extend(lines),
            None => found.push(FoundLines { source, turn: item.at.unit, lines }),
        }
    }
    // The lines of one file in its order.
    for source in &mut found {
        source.lines.sort_by_key(|(line, _)| line.number);
    }
    found
}

/// Returns whether a line is the tool's own remark about its work and not a line that it read: it repeats the pattern of
/// the search in quotes, it names the whole path that was read, or it is in brackets as a whole, such as
/// `(Open file: src/a.py)`.
fn is_remark_of_tool(line: &str, request: &str) -> bool {
    let line = line.trim();
    let names_path = request.contains('/') && !request.contains(char::is_whitespace) && line.contains(request);
    let is_bracketed = (line.starts_with('(') && line.ends_with(')') || line.starts_with('[') && line.ends_with(']'))
        && line.contains([' ', ':']);
    let mut patterns = request.split('"').skip(1).step_by(2).filter(|pattern| !pattern.is_empty());
    is_bracketed || names_path || patterns.any(|pattern| line.contains(&format!("\"{pattern}\"")))
}

/// Returns the file that a result is from if there is only one, else the search or the command.
fn source_name(tool_use: &ToolUse) -> String {
    let mut files = tool_use.action.files.iter().map(|file| file.path.as_str());
    let only = files.next().filter(|_| files.next().is_none());
    match (tool_use.action.shown_file.as_deref().or(only).or(searched_file(&tool_use.request)), tool_use.action.verb) {
        (Some(path), _) => short_path(path).to_owned(),
        (None, Verb::Search) => format!("search for {}", tool_use.request),
        _ => tool_use.request.clone(),
    }
}

/// Returns the file that a command searches: its only operand with a file name's ending.
fn searched_file(command: &str) -> Option<&str> {
    let is_file = |word: &&str| {
        let (stem, ending) = word.rsplit_once('.').unwrap_or((word, ""));
        stem.ends_with(char::is_alphanumeric)
            && (1..=5).contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let outside_quotes = command.split(['"', '\'']).step_by(2).flat_map(str::split_whitespace);
    let mut files = outside_quotes.filter(is_file);
    files.next().filter(|_| files.next().is_none())
}

/// A line with a name of interest.
struct MatchedLine<'t> {
    number: Option<usize>,
    text: &'t str,
    /// The line with its number.
    numbered: &'t str,
    /// The indices of the names in it.
    names: Vec<usize>,
    is_definition: bool,
}

impl NamesOfInterest {
    /// Collects the names from the requests of people, the searches of the agent and its findings. `None` if there are
    /// none.
    fn collect(input: &CheckpointInput<'_>) -> Option<Self> {
        let evidence = input.evidence;
        let mut weights: HashMap<String, f64> = HashMap::new();
        let mut add = |text: &str, weight: f64| {
            for word in split_words(text).flat_map(|word| word.split(['/', ':'])) {
                let name = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
                if name.len() >= MIN_FINDING_NAME_BYTES && is_identifier(name) {
                    let known = weights.entry(name.to_owned()).or_default();
                    *known = known.max(weight);
                }
            }
        };
        for message in evidence.user_messages.iter().rev().take(8) {
            add(first_bytes(message.text(), 8_000), REQUEST_NAME_WEIGHT);
        }
        for tool_use in evidence.tool_uses.iter().filter_map(EvidenceItem::tool_use) {
            if matches!(tool_use.action.verb, Verb::Search) {
                add(&tool_use.request, SEARCH_NAME_WEIGHT);
            } else if tool_use.action.verb == Verb::Run && tool_use.action.is_read_only {
                // The quoted words of a command that only reads are mostly a pattern.
                tool_use
                    .request
                    .split(['"', '\''])
                    .skip(1)
                    .step_by(2)
                    .for_each(|pattern| add(pattern, SEARCH_NAME_WEIGHT));
            }
        }
        for text in evidence.assistant_texts.iter().filter_map(EvidenceItem::assistant_text) {
            text.key_sentences
                .iter()
                .filter(|note| note.states_finding)
                .for_each(|note| add(&note.text, FINDING_NAME_WEIGHT));
        }
        let mut names: Vec<(String, f64)> = weights.into_iter().collect();
        names.sort_by(|one, other| {
            other.1.total_cmp(&one.1).then_with(|| other.0.len().cmp(&one.0.len())).then_with(|| one.0.cmp(&other.0))
        });
        names.truncate(MAX_FINDING_NAMES);
        if names.is_empty() {
            return None;
        }
        let finder =
            AhoCorasick::builder().match_kind(MatchKind::Standard).build(names.iter().map(|(name, _)| name)).ok()?;
        Some(Self { finder, names })
    }

    /// Returns the lines of a text that have at least one name.
    fn match_lines<'t>(&self, text: &'t str) -> Vec<MatchedLine<'t>> {
        let mut lines: Vec<MatchedLine<'t>> = Vec::new();
        let mut open = 0..0;
        for hit in self.finder.find_overlapping_iter(text) {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let is_inside = text[..hit.start()].chars().next_back().is_some_and(is_part)
                || text[hit.end()..].chars().next().is_some_and(is_part);
            if is_inside {
                continue;
            }
            let name = hit.pattern().as_usize();
            if open.contains(&hit.start()) {
                if let Some(line) = lines.last_mut().filter(|line| !line.names.contains(&name)) {
                    line.names.push(name);
                }
                continue;
            }
            let start = text[..hit.start()].rfind('\n').map_or(0, |at| at + 1);
            let end = text[hit.end()..].find('\n').map_or(text.len(), |at| hit.end() + at);
            open = start..end;
            let (number, line, numbered) = split_line_number(&text[start..end]);
            if line.len() <= MAX_FINDING_LINE_BYTES && line.chars().any(char::is_alphabetic) {
                let defines = is_definition(line);
                lines.push(MatchedLine { number, text: line, numbered, names: vec![name], is_definition: defines });
            } else {
                open = 0..0;
            }
        }
        lines
    }

    /// Scores a line by its names: a name that many lines have tells little.
    fn score(&self, line: &MatchedLine<'_>, counts: &[usize]) -> f64 {
        let names: f64 = line.names.iter().map(|name| self.names[*name].1 / (1.0 + counts[*name] as f64).ln_1p()).sum();
        names + if line.is_definition { DEFINITION_BONUS } else { 0.0 }
    }
}

/// Splits the line number from the beginning of a line, as `cat -n`, `grep -n` and editors print it. Returns the number, the
/// line without it, and the line with it.
fn split_line_number(line: &str) -> (Option<usize>, &str, &str) {
    let bare = line.trim_start();
    // A search in several files prints the path first.
    let bare = match bare.split_once(':') {
        Some((path, rest))
            if path.contains(['/', '.']) && !path.contains(' ') && rest.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            rest
        }
        _ => bare,
    };
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    let behind = bare[digits..].strip_prefix([':', '|', '→', '\t', '-']).or_else(|| bare[digits..].strip_prefix(" |"));
    match (digits, behind) {
        (1..=7, Some(rest)) => (bare[..digits].parse().ok(), rest.trim(), bare.trim_end()),
        _ => (None, line.trim(), line.trim()),
    }
}

/// Returns whether a line of code defines something.
fn is_definition(line: &str) -> bool {
    const OPENINGS: [&str; 15] = [
        "def ",
        "async def ",
        "class ",
        "fn ",
        "pub fn ",
        "pub(crate) fn ",
        "pub struct ",
        "struct ",
        "enum ",
        "trait ",
        "func ",
        "function ",
        "export function ",
        "interface ",
        "type ",
    ];
    // A function that is bound to a name: `const load = async () => {`.
    let binds = ["const ", "let ", "export const "].iter().any(|opening| line.starts_with(opening));
    OPENINGS.iter().any(|opening| line.starts_with(opening)) || binds && line.ends_with(['(', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_of_a_tool_are_told_from_lines_that_it_read() {
        for (line, is_remark) in [
            ("(Open file: /app/src/a.py)", true),
            ("[File: /app/src/a.py (1997 lines total)]", true),
            ("Found 1 matches for \"class Port\" in /app/src:", true),
            ("End of matches for \"class Port\" in /app/src", true),
            ("Line 12:class Port(Base):", false),
            ("[port]", false),
        ] {
            assert_eq!(is_remark_of_tool(line, "search_dir \"class Port\" src"), is_remark, "{line}");
        }
    }

    #[test]
    fn line_numbers_are_split_in_all_common_forms() {
        for (line, number, text, numbered) in [
            ("   118\t    yield from queryset", Some(118), "yield from queryset", "118\t    yield from queryset"),
            ("42:def port(self):", Some(42), "def port(self):", "42:def port(self):"),
            ("src/a.rs:7:fn main() {", Some(7), "fn main() {", "7:fn main() {"),
            (" 12 | let x = 1;", Some(12), "let x = 1;", "12 | let x = 1;"),
            ("plain text", None, "plain text", "plain text"),
        ] {
            assert_eq!(split_line_number(line), (number, text, numbered));
        }
    }
}
