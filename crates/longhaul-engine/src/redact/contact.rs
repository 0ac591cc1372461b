//! Finds contact data of people: phone numbers (E.164) and Discord mentions.

/// Country codes with one or two digits, separated by spaces.
const SHORT_CODES: &[u8] = b"1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86 90 91 92 93 94 95 98";
/// The first two digits of most country codes with three digits. [`has_country_code`] has the others.
const LONG_CODE_STARTS: [&[u8]; 14] =
    [b"21", b"22", b"23", b"24", b"25", b"26", b"29", b"35", b"37", b"38", b"42", b"50", b"59", b"67"];

/// Finds the phone number whose plus sign is at `plus`.
pub(super) fn find_phone_number(text: &[u8], plus: usize) -> Option<(usize, usize)> {
    let start = plus + 1;
    let length = text[start..].iter().take(17).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = &text[start..start + length];
    let north_american = digits.first() == Some(&b'1');
    // The area code 555 belongs to nobody.
    let fits = if north_american {
        length == 11 && digits[1] >= b'2' && &digits[1..4] != b"555"
    } else {
        (10..=15).contains(&length)
    };
    if !fits
        || !has_country_code(digits)
        || is_part_of_longer_text(text, plus, start + length)
        || is_diff_line(text, plus)
    {
        return None;
    }
    Some((plus, start + length))
}

fn has_country_code(digits: &[u8]) -> bool {
    SHORT_CODES.split(|&byte| byte == b' ').any(|code| digits.starts_with(code))
        || LONG_CODE_STARTS.iter().any(|code| digits.starts_with(code))
        || [&b"68"[..], b"69", b"80", b"85", b"87", b"88", b"96", b"97", b"99"]
            .iter()
            .any(|code| digits.starts_with(code))
}

/// Whether the plus sign and the digits are part of longer text: a sum, a version or base64.
fn is_part_of_longer_text(text: &[u8], plus: usize, end: usize) -> bool {
    let before = plus.checked_sub(1).map(|at| text[at]);
    let after = text.get(end).copied();
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80 || b"+/=_-.@".contains(&byte);
    let ends_sentence = after == Some(b'.') && !text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
    before.is_some_and(|byte| part(byte) && !follows_escape(text, plus)) || (after.is_some_and(part) && !ends_sentence)
}

fn follows_escape(text: &[u8], at: usize) -> bool {
    at >= 2 && text[at - 2] == b'\\' && matches!(text[at - 1], b'n' | b't' | b'r')
}

/// Whether the plus sign marks an added line of a diff.
fn is_diff_line(text: &[u8], plus: usize) -> bool {
    if plus > 0 && text[plus - 1] != b'\n' && !follows_escape(text, plus) {
        return false;
    }
    let before = &text[plus.saturating_sub(4097)..plus.saturating_sub(1)];
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| plus - 1 - before.len() + at + 1);
    let neighbour_before = plus > 0 && matches!(text.get(start), Some(b'+' | b'-' | b'@' | b' '));
    let next = memchr::memchr(b'\n', &text[plus..text.len().min(plus + 64)]).map(|at| plus + at + 1);
    neighbour_before || next.is_some_and(|next| matches!(text.get(next), Some(b'+' | b'-' | b' ')))
}

/// Finds the ID of the Discord mention whose `<@` is at `at`.
pub(super) fn find_mention(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let start = at + 2 + usize::from(matches!(text.get(at + 2), Some(b'!' | b'&')));
    let length = text[start..].iter().take(21).take_while(|byte| byte.is_ascii_digit()).count();
    ((17..=20).contains(&length) && text.get(start + length) == Some(&b'>')).then_some((start, start + length))
}
