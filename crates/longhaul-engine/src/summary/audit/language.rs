//! In which languages a session is, and whether a summary is in one of them.

use whatlang::{Info, Lang, detect};

use crate::transcript::{Block, BlockKind, PartKind, Transcript};

/// A text of fewer characters shows no language.
const LEAST: usize = 200;
/// How much of a text is looked at.
const MOST: usize = 20_000;

/// The name of the language of a summary, where nobody in the session writes in it.
pub(super) fn strange(summary: &str, transcript: &Transcript<'_>) -> Option<&'static str> {
    let own = language(summary)?;
    let system = transcript.preamble.iter().filter(|block| block.kind == BlockKind::System).map(Block::text);
    let parts = (0..transcript.units.len()).flat_map(|unit| transcript.parts_of(unit));
    let said = parts.filter(|part| matches!(part.kind, PartKind::Said)).map(|part| part.block.text());
    let mut spoken: Vec<Lang> = Vec::new();
    let mut all = String::new();
    for text in system.chain(said) {
        match language(&text) {
            Some(lang) => spoken.push(lang),
            None => all.push_str(&prose(&text)),
        }
        if spoken.last() == Some(&own) {
            return None;
        }
    }
    spoken.extend(language(&all));
    (!spoken.is_empty() && !spoken.contains(&own)).then(|| own.eng_name())
}

fn language(text: &str) -> Option<Lang> {
    let prose = prose(text);
    if prose.chars().count() < LEAST {
        return None;
    }
    detect(&prose).filter(Info::is_reliable).map(|info| info.lang())
}

/// The words of a text that are no code: without what stands between backticks, and without what has other signs than letters in it.
fn prose(text: &str) -> String {
    let start = crate::clip::start_within(text, MOST);
    let outside = start.split('`').step_by(2).flat_map(str::split_whitespace);
    let mut prose = String::new();
    for word in outside {
        let word = word.trim_matches(|sign: char| !sign.is_alphanumeric());
        let is_code =
            word.is_ascii() && !word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'\'');
        // Scripts without blanks between their words have signs inside what looks like one.
        let words = word.split(|sign: char| !sign.is_alphabetic() && sign != '\'' && sign != '’');
        for word in words.filter(|word| !is_code && !word.is_empty()) {
            prose.push_str(word);
            prose.push(' ');
        }
    }
    prose
}
