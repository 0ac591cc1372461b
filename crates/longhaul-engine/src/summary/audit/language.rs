//! Detects whether a summary is in a language that nobody in the session uses.

use whatlang::{Info, Lang, detect};

use crate::transcript::{Block, BlockKind, BlockRole, Transcript};

/// The minimum number of characters of prose for a reliable detection. Chosen by hand.
const MIN_DETECTABLE_CHARS: usize = 200;
/// The maximum number of bytes of a text that are examined. Chosen by hand.
const MAX_SAMPLE_BYTES: usize = 20_000;

/// Returns the English name of a summary's language, if nobody in the session uses it.
pub(super) fn find_foreign_language(summary: &str, transcript: &Transcript<'_>) -> Option<&'static str> {
    let own = detect_language(summary)?;
    let system = transcript.preamble.iter().filter(|block| block.kind == BlockKind::System).map(Block::text);
    let parts = (0..transcript.turns.len()).flat_map(|turn| transcript.blocks_of_turn(turn));
    let said = parts.filter(|part| matches!(part.role, BlockRole::Content)).map(|part| part.block.text());
    let mut spoken: Vec<Lang> = Vec::new();
    let mut all = String::new();
    for text in system.chain(said) {
        match detect_language(&text) {
            Some(lang) => spoken.push(lang),
            None => all.push_str(&extract_prose(&text)),
        }
        if spoken.last() == Some(&own) {
            return None;
        }
    }
    spoken.extend(detect_language(&all));
    (!spoken.is_empty() && !spoken.contains(&own)).then(|| own.eng_name())
}

fn detect_language(text: &str) -> Option<Lang> {
    let prose = extract_prose(text);
    if prose.chars().count() < MIN_DETECTABLE_CHARS {
        return None;
    }
    detect(&prose).filter(Info::is_reliable).map(|info| info.lang())
}

/// Returns the words of a text that are not code: without text between backticks, and without ASCII words
/// that contain digits or punctuation.
fn extract_prose(text: &str) -> String {
    let start = crate::truncate::first_bytes(text, MAX_SAMPLE_BYTES);
    let outside = start.split('`').step_by(2).flat_map(str::split_whitespace);
    let mut prose = String::new();
    for word in outside {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_code = word.is_ascii() && !word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'\'');
        // In scripts without spaces, punctuation can be inside what looks like one word.
        let words = word.split(|c: char| !c.is_alphabetic() && c != '\'' && c != '’');
        for word in words.filter(|word| !is_code && !word.is_empty()) {
            prose.push_str(word);
            prose.push(' ');
        }
    }
    prose
}
