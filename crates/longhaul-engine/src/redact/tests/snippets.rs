//! Snippets as they stand in transcripts: a table that people can read and add to.

use super::{redact, survives};

const TABLE: &str = include_str!("snippets.txt");

/// The text of a row, with its escapes undone.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
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

/// What of a text can be seen.
fn visible(text: &str) -> String {
    text.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "").replace(['\u{200b}', '\u{ad}'], "")
}

#[test]
fn secrets_in_snippets_go_and_their_look_alikes_stay() {
    let (mut lost, mut kept, mut wrong) = (0, 0, Vec::new());
    for line in TABLE.lines() {
        if let Some((secret, text)) = line.strip_prefix("+ ").and_then(|row| row.split_once(" | ")) {
            let clean = redact(&unescaped(text));
            lost += 1;
            if survives(secret, &visible(&clean)) || redact(&clean) != clean {
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
    assert!(lost >= 40 && kept >= 30, "{lost} and {kept} rows were read");
}
