//! Long texts made shorter, so that a reader sees it.

/// Between what is kept of the beginning and of the end.
const LEFT_OUT: &str = " characters left out …] ";
const OPEN: &str = " [… ";
/// After the beginning, where there is no room to say more.
const MORE: &str = " […]";
/// Under so many characters there is none.
const TINY: usize = 60;

/// The text, or its beginning and end with the number of characters between them: about `most` characters.
pub(super) fn clip(text: &str, most: usize) -> String {
    let count = text.chars().count();
    let mark = if most < TINY { MORE.len() } else { OPEN.len() + LEFT_OUT.len() + 6 };
    if count <= most.saturating_add(mark) {
        return text.to_owned();
    }
    let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    if most < TINY {
        return format!("{}{MORE}", text[..at(most)].trim_end());
    }
    let last = most / 4;
    let (head, tail) = (&text[..at(most - last)], &text[at(count - last)..]);
    format!("{head}{OPEN}{}{LEFT_OUT}{tail}", count - most)
}

/// Whether clipping left anything of a text.
pub(super) fn says_anything(clipped: &str) -> bool {
    clipped.trim() != MORE.trim()
}

/// Whether this is the other text, or was clipped from it.
pub(super) fn is_clipped_form_of(text: &str, whole: &str) -> bool {
    let (text, whole) = (text.trim(), whole.trim());
    let clipped = || {
        let (head, rest) = text.split_once(OPEN)?;
        let (_, tail) = rest.split_once(LEFT_OUT)?;
        Some(whole.starts_with(head) && whole.ends_with(tail))
    };
    let cut = || text.strip_suffix(MORE).is_some_and(|head| whole.starts_with(head));
    !text.is_empty() && (text == whole || clipped() == Some(true) || cut())
}
