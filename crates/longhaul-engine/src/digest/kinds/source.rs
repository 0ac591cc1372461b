//! Source code: keeps an outline of names and signatures, and the first lines of other code.

use super::super::parsed_output::{ParsedOutput, Sample, strip_line_number};
use super::super::proposal::{DigestProposal, count_with_noun, decay};
use super::super::weights::{self as all, source as weights};
use super::super::words::OUTPUT_WORDS;

#[derive(PartialEq, Eq)]
enum LineRole<'a> {
    /// The definition of this name.
    Definition(&'a str),
    Import,
    Other,
}

fn line_role(code: &str) -> LineRole<'_> {
    let mut words = code.split([' ', '\t']).filter(|word| !word.is_empty());
    let Some(mut word) = words.next() else { return LineRole::Other };
    let is_one_of = |list: &[String], word: &str| list.iter().any(|known| known == word);
    if is_one_of(&OUTPUT_WORDS.imports, word) {
        return LineRole::Import;
    }
    let mut modified = false;
    while is_one_of(&OUTPUT_WORDS.modifiers, word) {
        modified = true;
        match words.next() {
            Some(next) => word = next,
            None => return LineRole::Other,
        }
    }
    if is_one_of(&OUTPUT_WORDS.definitions, word) {
        let begins = |name: &&str| {
            name.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '<' | '(' | '*' | '$' | '`'))
        };
        // `type` and `object` are also ordinary words; a definition does not end with a full stop.
        return match words.next().filter(begins) {
            Some(name) if !code.ends_with('.') => LineRole::Definition(leading_identifier(name)),
            _ => LineRole::Other,
        };
    }
    // Methods in languages like C and constants with a function have no keyword.
    let opens = code.ends_with('{') && code.contains('(') && !is_control_keyword(word);
    let arrow = modified && code.contains("=>") && code.contains('=');
    if opens && (modified || code.contains(") {") && word.contains('(')) || arrow {
        let before = code.split(['(', '=']).next().unwrap_or(code).trim_end();
        LineRole::Definition(leading_identifier(before.rsplit([' ', '*', '&']).next().unwrap_or(before)))
    } else {
        LineRole::Other
    }
}

/// Returns the identifier at the start of a word, without parameters or types.
fn leading_identifier(word: &str) -> &str {
    let end =
        word.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '!' | '-'))).unwrap_or(word.len());
    word[..end].trim_end_matches(['.', '-'])
}

fn is_control_keyword(word: &str) -> bool {
    let word = word.trim_start_matches('}');
    ["if", "for", "while", "switch", "match", "else", "return", "catch", "try", "do", "with", "let", "const", "var"]
        .iter()
        .any(|control| word == *control || word.strip_prefix(control).is_some_and(|rest| rest.starts_with('(')))
}

/// Returns whether a name is directly followed by a parenthesis, as in a call; prose has a space there.
fn has_call(line: &str) -> bool {
    line.find('(').is_some_and(|at| line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ')'))
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    line_role(line) != LineRole::Other
        || line.ends_with(['{', '}', ';', '(', ','])
        || (line.ends_with([')', ':']) && has_call(line))
        || [
            "//", "/*", "* ", "self.", "return ", "if ", "for ", "elif ", "else:", "raise ", "try:", "except",
            "const ", "let ", "var ", "assert ", "@", "# ",
        ]
        .iter()
        .any(|start| line.starts_with(start))
        || (line.contains(" = ") && !line.ends_with('.'))
}

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    let definitions = sample.lines().filter(|line| line_role(line.trim()) != LineRole::Other).count();
    let code = sample.share(is_code);
    // A stack trace contains lines of code, but is no source file.
    let traced = |line: &str| {
        let line = line.trim_start();
        line.starts_with("Traceback (most recent call last)") || line.starts_with("Exception in thread ")
    };
    if sample.any(traced) {
        return false;
    }
    code >= weights::MIN_CODE_SHARE || (definitions >= weights::MIN_DEFINITIONS && code >= weights::MIN_DEFINING_SHARE)
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let (mut definitions, mut imports, mut first) = (0usize, 0usize, 0u8);
    let mut names: Vec<&'a str> = Vec::new();
    for line in output.lines() {
        let code = strip_line_number(line.text);
        let trimmed = code.trim();
        if trimmed.is_empty() {
            continue;
        }
        match line_role(trimmed) {
            LineRole::Definition(name) => {
                definitions += 1;
                if !name.is_empty() && names.len() < all::MAX_CANDIDATES && !names.contains(&name) {
                    names.push(name);
                }
                let indent = code.len() - code.trim_start().len();
                let value = if indent == 0 { weights::OUTER_VALUE } else { weights::INNER_VALUE };
                // The line keeps its indentation, because the outline needs it.
                if definitions <= all::MAX_CANDIDATES {
                    proposal.add_quote(line, decay(value, definitions, all::TEXT_DECAY));
                }
            }
            LineRole::Import => imports += 1,
            LineRole::Other if first < weights::MAX_FIRST_LINES => {
                first += 1;
                let value = weights::FIRST_LINE_VALUE - f64::from(first) * weights::FIRST_LINE_STEP_VALUE;
                proposal.add_quote(line.trimmed(), value);
            }
            LineRole::Other => {}
        }
    }
    if definitions > 0 {
        proposal.head_facts.push(count_with_noun(definitions, "definition"));
    }
    if imports > 0 {
        proposal.head_facts.push(count_with_noun(imports, "import"));
    }
    proposal.add_list("defines", weights::NAMES_VALUE, names);
    proposal.add_facts(output, all::READ_FACTS);
    proposal.add_edges(output, &weights::EDGES);
}
