//! How much of a value is looked at.

/// A value is judged by its first bytes, so that judging is cheap however long the value is: text can name a secret every few
/// bytes, with a value that reaches to its end each time.
pub(super) const MAX_JUDGED_BYTES: usize = 256;

/// Returns the part of a value that is judged, in whole characters.
pub(super) fn judged(value: &[u8]) -> &[u8] {
    if value.len() <= MAX_JUDGED_BYTES {
        return value;
    }
    let begins_character = |at: &usize| value[*at] & 0xc0 != 0x80;
    &value
        [..(MAX_JUDGED_BYTES - 3..=MAX_JUDGED_BYTES).rev().find(begins_character).unwrap_or(MAX_JUDGED_BYTES)]
}
