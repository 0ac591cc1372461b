//! Source code: an outline of names and signatures, and the lines that say most.

use super::super::page::{Page, Sample, unnumbered};
use super::super::proposal::{Proposal, Worth, counted};

/// Words that a definition begins with, behind modifiers.
const DEFINES: [&str; 26] = [
    "def",
    "class",
    "fn",
    "struct",
    "enum",
    "trait",
    "impl",
    "mod",
    "function",
    "interface",
    "type",
    "func",
    "namespace",
    "module",
    "union",
    "macro_rules!",
    "object",
    "protocol",
    "extension",
    "record",
    "sub",
    "package",
    "CREATE",
    "create",
    "component",
    "service",
];
/// Words that may stand before them.
const MODIFIERS: [&str; 22] = [
    "pub",
    "pub(crate)",
    "pub(super)",
    "async",
    "unsafe",
    "const",
    "static",
    "export",
    "default",
    "public",
    "private",
    "protected",
    "internal",
    "abstract",
    "final",
    "override",
    "virtual",
    "inline",
    "declare",
    "extern",
    "data",
    "sealed",
];
/// Words that a line of imports begins with.
const IMPORTS: [&str; 6] = ["import", "from", "use", "#include", "require", "using"];

#[derive(PartialEq, Eq)]
enum Role<'a> {
    /// Of this name.
    Definition(&'a str),
    Import,
    Other,
}

fn role(code: &str) -> Role<'_> {
    let mut words = code.split([' ', '\t']).filter(|word| !word.is_empty());
    let Some(mut word) = words.next() else { return Role::Other };
    if IMPORTS.contains(&word) {
        return Role::Import;
    }
    let mut modified = false;
    while MODIFIERS.contains(&word) {
        modified = true;
        match words.next() {
            Some(next) => word = next,
            None => return Role::Other,
        }
    }
    if DEFINES.contains(&word) {
        let begins = |name: &&str| {
            name.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '<' | '(' | '*' | '$' | '`'))
        };
        // `type` and `object` are also words; a definition does not end like a sentence.
        return match words.next().filter(begins) {
            Some(name) if !code.ends_with('.') => Role::Definition(identifier(name)),
            _ => Role::Other,
        };
    }
    // Methods of the C family and constants that hold a function have no word of their own.
    let opens = code.ends_with('{') && code.contains('(') && !is_control(word);
    let arrow = modified && code.contains("=>") && code.contains('=');
    if opens && (modified || code.contains(") {") && word.contains('(')) || arrow {
        let before = code.split(['(', '=']).next().unwrap_or(code).trim_end();
        Role::Definition(identifier(before.rsplit([' ', '*', '&']).next().unwrap_or(before)))
    } else {
        Role::Other
    }
}

/// The name at the start of a word, without what is called or declared with it.
fn identifier(word: &str) -> &str {
    let end = word
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '!' | '-')))
        .unwrap_or(word.len());
    word[..end].trim_end_matches(['.', '-'])
}

fn is_control(word: &str) -> bool {
    let word = word.trim_start_matches('}');
    [
        "if", "for", "while", "switch", "match", "else", "return", "catch", "try", "do", "with", "let",
        "const", "var",
    ]
    .iter()
    .any(|control| word == *control || word.strip_prefix(control).is_some_and(|rest| rest.starts_with('(')))
}

/// Whether a name stands right before a parenthesis, as in a call; in a sentence there is a space.
fn is_called(line: &str) -> bool {
    line.find('(')
        .is_some_and(|at| line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ')'))
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    role(line) != Role::Other
        || line.ends_with(['{', '}', ';', '(', ','])
        || (line.ends_with([')', ':']) && is_called(line))
        || [
            "//", "/*", "* ", "self.", "return ", "if ", "for ", "elif ", "else:", "raise ", "try:",
            "except", "const ", "let ", "var ", "assert ", "@", "# ",
        ]
        .iter()
        .any(|start| line.starts_with(start))
        || (line.contains(" = ") && !line.ends_with('.'))
}

pub(in super::super) fn shows(_: &Page<'_>, sample: &Sample<'_>) -> bool {
    let definitions = sample.lines().filter(|line| role(line.trim()) != Role::Other).count();
    let code = sample.share(is_code);
    // The lines of code in a trace are no file.
    let traced = |line: &str| {
        let line = line.trim_start();
        line.starts_with("Traceback (most recent call last)") || line.starts_with("Exception in thread ")
    };
    if sample.any(traced) {
        return false;
    }
    code >= 0.65 || (definitions >= 2 && code >= 0.4)
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let (mut definitions, mut imports, mut first) = (0usize, 0usize, 0u8);
    let mut names: Vec<&'a str> = Vec::new();
    for line in page.lines() {
        let code = unnumbered(line.text);
        let trimmed = code.trim();
        if trimmed.is_empty() {
            continue;
        }
        match role(trimmed) {
            Role::Definition(name) => {
                definitions += 1;
                if !name.is_empty() && names.len() < 400 && !names.contains(&name) {
                    names.push(name);
                }
                let indent = code.len() - code.trim_start().len();
                let value = if indent == 0 { 4.0 } else { 2.5 };
                // The line keeps its indentation, which is part of an outline.
                if definitions <= 400 {
                    proposal.quote(line, value / (1.0 + definitions as f64 * 0.02));
                }
            }
            Role::Import => imports += 1,
            Role::Other if first < 6 => {
                first += 1;
                proposal.quote(line.trimmed(), 1.5 - f64::from(first) * 0.2);
            }
            Role::Other => {}
        }
    }
    if definitions > 0 {
        proposal.lead.push(counted(definitions, "definition"));
    }
    if imports > 0 {
        proposal.lead.push(counted(imports, "import"));
    }
    proposal.note("defines", 2.6, names);
    proposal.facts(page, Worth::READ);
    proposal.edges(page, 0, 2, 1.2);
}
