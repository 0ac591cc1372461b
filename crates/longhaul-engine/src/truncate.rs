//! Shortens long texts and marks the places where characters are missing.
//!
//! This module uses no other module of the engine.

use std::borrow::Cow;

/// The text between the kept beginning and the count of missing characters.
const GAP_OPENING: &str = " [… ";
/// The text between the count of missing characters and the kept end.
const GAP_CLOSING: &str = " characters left out …] ";
/// Follows a beginning whose rest is missing, where there is no space for a count.
const ELLIPSIS: char = '…';
/// The smallest limit, in characters, at which a cut keeps both ends and gives the count. Chosen by hand; the
/// gap text with its count takes about 34 characters.
const MIN_CHARS_FOR_GAP: usize = 80;

/// Shortens a text to about `most` characters: three quarters from the beginning and one quarter from the
/// end, with the number of missing characters between them. A limit under 80 keeps only the beginning and
/// adds an ellipsis.
#[must_use]
pub fn truncate_middle(text: &str, most: usize) -> Cow<'_, str> {
    // A text never has more characters than bytes, so the byte length may decide.
    let mark = if most < MIN_CHARS_FOR_GAP { 1 } else { GAP_OPENING.len() + GAP_CLOSING.len() + 6 };
    if text.len() <= most.saturating_add(mark) {
        return Cow::Borrowed(text);
    }
    let count = text.chars().count();
    if count <= most.saturating_add(mark) {
        return Cow::Borrowed(text);
    }
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    if most < MIN_CHARS_FOR_GAP {
        return Cow::Owned(format!("{}{ELLIPSIS}", text[..at(most)].trim_end()));
    }
    let last = most / 4;
    let (head, tail) = (&text[..at(most - last)], &text[at(count - last)..]);
    Cow::Owned(format!("{head}{GAP_OPENING}{}{GAP_CLOSING}{tail}", count - most))
}

/// Joins the words of a text with single spaces, and cuts the result after `most` characters with an
/// ellipsis.
#[must_use]
pub fn to_one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    // Reads at most one character past the limit, so a long text costs no more than a short one.
    let mut room = most.saturating_add(1);
    for word in text.split_whitespace() {
        if room == 0 {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
            room -= 1;
        }
        let word = first_chars(word, room);
        room -= if word.is_ascii() { word.len() } else { word.chars().count() };
        line.push_str(word);
    }
    match first_chars(&line, most) {
        whole if whole.len() == line.len() => line,
        start => format!("{}{ELLIPSIS}", start.trim_end()),
    }
}

/// Returns the first `most` characters of a text, with an ellipsis if there are more.
#[must_use]
pub fn truncate_with_ellipsis(text: &str, most: usize) -> Cow<'_, str> {
    match first_chars(text, most) {
        whole if whole.len() == text.len() => Cow::Borrowed(text),
        start => Cow::Owned(format!("{start}{ELLIPSIS}")),
    }
}

/// Returns the first `most` characters of a text.
#[must_use]
pub fn first_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// Returns the longest beginning of a text that fits into `bytes` and ends between two characters. Takes
/// constant time.
#[must_use]
pub fn first_bytes(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the longest end of a text that fits into `bytes` and starts between two characters. Takes constant
/// time.
#[must_use]
pub fn last_bytes(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so_and_what_fits_is_left_alone() {
        assert_eq!(truncate_middle("short", 10), "short");
        let long = "abcdefghij".repeat(40);
        let clipped = truncate_middle(&long, 100);
        assert!(clipped.starts_with("abcdefghij") && clipped.ends_with("efghij"), "{clipped}");
        assert!(clipped.contains("[… 300 characters left out …]"), "{clipped}");
        assert_eq!(truncate_middle(&long, 5), "abcde…");
        assert_eq!(to_one_line("a  b\n c", 10), "a b c");
        assert_eq!(to_one_line("über alles", 4), "über…");
        assert_eq!(
            (truncate_with_ellipsis("żółw", 2), truncate_with_ellipsis("żółw", 4)),
            ("żó…".into(), "żółw".into())
        );
    }

    #[test]
    fn a_cut_never_goes_through_a_character() {
        assert_eq!((first_chars("żółw", 2), first_chars("żółw", 9)), ("żó", "żółw"));
        assert_eq!((first_bytes("żółw", 3), first_bytes("żółw", 9)), ("ż", "żółw"));
        assert_eq!((last_bytes("żółw", 2), last_bytes("żółw", 9)), ("w", "żółw"));
    }
}
