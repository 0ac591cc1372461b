//! Snippets as in transcripts, in a table that people can read and extend.

use super::generate::generate_key;
use super::{redact, survives};

const TABLE: &str = include_str!("snippets.txt");

/// Returns the text of a row with its escapes resolved.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('e') => '\u{1b}',
                Some('z') => '\u{200b}',
                Some('s') => '\u{ad}',
                other => other.unwrap_or('\\'),
            },
            character => character,
        });
    }
    plain
}

/// Returns the row with each `«alphabet:length»` replaced by a generated key, so that the table contains no
/// long key.
fn fill_generated_keys(line: &str, seed: u64) -> String {
    let mut parts = line.split('«');
    let mut drawn = parts.next().unwrap().to_owned();
    for part in parts {
        let (run, rest) = part.split_once('»').unwrap();
        drawn += &generate_key(&format!("{{{run}}}"), seed);
        drawn += rest;
    }
    drawn
}

/// Returns the text without hidden characters.
fn strip_hidden(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap().to_owned();
    plain.extend(parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest)));
    plain.replace(['\u{200b}', '\u{ad}'], "")
}

#[test]
fn secrets_in_snippets_go_and_their_look_alikes_stay() {
    let (mut lost, mut kept, mut wrong) = (0, 0, Vec::new());
    for (at, line) in TABLE.lines().enumerate() {
        let line = &fill_generated_keys(line, at as u64);
        if let Some((secret, text)) = line.strip_prefix("+ ").and_then(|row| row.split_once(" | ")) {
            let clean = redact(&unescaped(text));
            lost += 1;
            if survives(secret, &strip_hidden(&clean)) || redact(&clean) != clean {
                wrong.push(format!("{line}\n    {clean:?}"));
            }
        } else if let Some(text) = line.strip_prefix("- ") {
            let text = unescaped(text);
            kept += 1;
            if redact(&text) != text {
                wrong.push(format!("{line}\n    {:?}", redact(&text)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lost + kept, wrong.join("\n"));
    assert!(lost >= 250 && kept >= 180, "{lost} and {kept} rows were read");
}
