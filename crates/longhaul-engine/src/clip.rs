//! Long texts made shorter, with a sign where something is left out.
//!
//! It uses nothing of the engine.

use std::borrow::Cow;

/// Between what is kept of the beginning and of the end.
const OPEN: &str = " [… ";
const LEFT_OUT: &str = " characters left out …] ";
/// After the beginning, where there is no room to say more.
const MORE: char = '…';
/// Under so many characters there is none.
const TINY: usize = 80;

/// The text, or its beginning and end with the number of characters between them: about `most` characters.
#[must_use]
pub fn clip(text: &str, most: usize) -> Cow<'_, str> {
    // No text has more characters than bytes.
    let mark = if most < TINY { 1 } else { OPEN.len() + LEFT_OUT.len() + 6 };
    if text.len() <= most.saturating_add(mark) {
        return Cow::Borrowed(text);
    }
    let count = text.chars().count();
    if count <= most.saturating_add(mark) {
        return Cow::Borrowed(text);
    }
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    if most < TINY {
        return Cow::Owned(format!("{}{MORE}", text[..at(most)].trim_end()));
    }
    let last = most / 4;
    let (head, tail) = (&text[..at(most - last)], &text[at(count - last)..]);
    Cow::Owned(format!("{head}{OPEN}{}{LEFT_OUT}{tail}", count - most))
}

/// The words of a text on one line, cut where there are more than `most` characters.
#[must_use]
pub fn on_one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    // What is behind the cut is not looked at.
    let mut room = most.saturating_add(1);
    for word in text.split_whitespace() {
        if room == 0 {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
            room -= 1;
        }
        let word = start(word, room);
        room -= if word.is_ascii() { word.len() } else { word.chars().count() };
        line.push_str(word);
    }
    match start(&line, most) {
        whole if whole.len() == line.len() => line,
        start => format!("{}{MORE}", start.trim_end()),
    }
}

/// The first characters of a text, `most` of them, with a sign where there are more.
#[must_use]
pub fn signed(text: &str, most: usize) -> Cow<'_, str> {
    match start(text, most) {
        whole if whole.len() == text.len() => Cow::Borrowed(text),
        start => Cow::Owned(format!("{start}{MORE}")),
    }
}

/// The first characters of a text, `most` of them.
#[must_use]
pub fn start(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// The first characters of a text that take no more than so many bytes, in time that does not depend on them.
#[must_use]
pub fn start_within(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The last characters of a text that take no more than so many bytes.
#[must_use]
pub fn end_within(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so_and_what_fits_is_left_alone() {
        assert_eq!(clip("short", 10), "short");
        let long = "abcdefghij".repeat(40);
        let clipped = clip(&long, 100);
        assert!(clipped.starts_with("abcdefghij") && clipped.ends_with("efghij"), "{clipped}");
        assert!(clipped.contains("[… 300 characters left out …]"), "{clipped}");
        assert_eq!(clip(&long, 5), "abcde…");
        assert_eq!(on_one_line("a  b\n c", 10), "a b c");
        assert_eq!(on_one_line("über alles", 4), "über…");
        assert_eq!((signed("żółw", 2), signed("żółw", 4)), ("żó…".into(), "żółw".into()));
    }

    #[test]
    fn a_cut_never_goes_through_a_character() {
        assert_eq!((start("żółw", 2), start("żółw", 9)), ("żó", "żółw"));
        assert_eq!((start_within("żółw", 3), start_within("żółw", 9)), ("ż", "żółw"));
        assert_eq!((end_within("żółw", 2), end_within("żółw", 9)), ("w", "żółw"));
    }
}
