//! Finds the claims in a clause that can be verified: paths, identifiers, numbers, commands and URLs.

use core::net::{IpAddr, SocketAddr};

use crate::evidence::has_inner_capital;

use super::phrases::{TABLE, contains_any, lowercase_prose};

/// Part of a clause that the session must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim<'t> {
    pub(super) kind: ClaimKind,
    pub(super) text: &'t str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimKind {
    /// A path or a file name.
    Path,
    /// A URL or an IP address.
    Url,
    /// An identifier, such as only code contains.
    Identifier,
    /// A number above [`MAX_UNCHECKED_NUMBER`].
    Number,
    /// The whole text between backticks.
    Code,
}

/// The largest number that is not verified, because the author of a summary may have counted something.
/// Chosen by hand.
const MAX_UNCHECKED_NUMBER: u64 = 20;

/// Returns the texts between backticks.
pub(super) fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).map(str::trim).filter(|code| !code.is_empty())
}

/// Returns whether code is a shell command with arguments.
pub(super) fn is_shell_command(code: &str) -> bool {
    let first = code.split_whitespace().next().unwrap_or_default();
    code.contains(' ') && TABLE.commands.iter().any(|command| command == first)
}

/// Returns the claims of a clause in their order.
pub(super) fn find_claims(clause: &str) -> Vec<Claim<'_>> {
    let mut claims = Vec::new();
    let is_absent = contains_any(&lowercase_prose(clause), &TABLE.absent);
    for (index, part) in clause.split('`').enumerate() {
        let is_code = index % 2 == 1;
        if is_code {
            // An ellipsis marks omitted code, which is not claimed.
            let pieces = part.split('…').flat_map(|piece| piece.split("...")).map(str::trim);
            claims.extend(pieces.filter(|piece| !piece.is_empty()).map(|text| Claim { kind: ClaimKind::Code, text }));
        }
        let mut before = "";
        for word in split_words(part) {
            let roughly = before.starts_with('~') || TABLE.roughly.iter().any(|listed| listed == before);
            let is_claim = |claim: &Claim<'_>| match claim.kind {
                ClaimKind::Number => !roughly,
                // Outside code, an inner capital also makes the name of a product or a company.
                ClaimKind::Identifier => is_code || !is_proper_name(claim.text),
                _ => true,
            };
            claims.extend(classify_word(word).filter(is_claim));
            before = word;
        }
    }
    // What is said to be absent cannot be found in the session.
    claims
        .retain(|claim| !is_absent || !matches!(claim.kind, ClaimKind::Code | ClaimKind::Identifier | ClaimKind::Path));
    claims
}

fn classify_word(word: &str) -> Option<Claim<'_>> {
    let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
    let kind = if word.contains("://") || is_ip_address(word) {
        ClaimKind::Url
    } else if is_path(word) {
        ClaimKind::Path
    } else if parse_number(word).is_some_and(|number| number > MAX_UNCHECKED_NUMBER) {
        ClaimKind::Number
    } else if is_identifier(word) {
        ClaimKind::Identifier
    } else {
        return None;
    };
    Some(Claim { kind, text: word })
}

/// Returns whether a word is an IP address, with or without a port.
fn is_ip_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok() || word.parse::<SocketAddr>().is_ok()
}

/// Returns whether a word is a path: absolute, several folders deep, or with a file extension.
fn is_path(word: &str) -> bool {
    let path = strip_line_number(word);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rooted = ["/", "~/", "./", "../"].iter().any(|root| path.starts_with(root)) && !parts.is_empty();
    let file = parts.last().is_some_and(|last| if parts.len() > 1 { has_extension(last) } else { is_file_name(last) });
    path.is_ascii() && (rooted && parts.len() > 1 || file || parts.len() > 2 && parts.iter().all(|part| part.len() > 1))
}

/// Returns whether a word without a folder is a file name. Only known extensions count, because `a.b` could
/// also be a field.
fn is_file_name(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, ending)| has_extension(name) && TABLE.extensions.iter().any(|listed| listed == ending))
}

/// Returns whether a name ends like a file name with an extension.
fn has_extension(name: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let letters = ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic());
    letters
        && (1..=5).contains(&ending.len())
        && ending.bytes().all(|byte| !byte.is_ascii_uppercase())
        && stem.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !stem.contains("..")
}

/// Parses a word that is a number and nothing else, without its fraction: `12,400`, `98.6%`, `$50`, `-1`.
pub(super) fn parse_number(word: &str) -> Option<u64> {
    let digits = word.trim_matches(['$', '€', '%', '+', '-', '~', '#', '×', 'x']);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'.');
    let whole = digits.split('.').next().unwrap_or(digits).replace(',', "");
    if !is_number || whole.is_empty() {
        return None;
    }
    whole.parse().ok()
}

/// Returns whether a word is an identifier: with an underscore, `::`, an inner dot, an inner capital letter,
/// or a digit.
fn is_identifier(word: &str) -> bool {
    let letters = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    let inner = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let digits = inner.bytes().any(|byte| byte.is_ascii_digit()) && inner.len() >= 5;
    let dotted = inner.split('.').filter(|part| part.len() > 1).count() > 1;
    // `10-minute` is a number and a word, and `a/b` is two words.
    let joined = inner.contains("..") || inner.contains(['-', '/']) && !inner.contains('_');
    letters
        && word.is_ascii()
        && inner.len() > 2
        && !joined
        && (inner.contains('_') || inner.contains("::") || has_inner_capital(inner) || digits || dotted)
}

/// Returns whether a word consists of letters only, such as `macOS`.
fn is_proper_name(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Splits a text into words without the punctuation around them.
pub(super) fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let between = |c: char| c.is_whitespace() || "`\"“”‘’«»;()[]{}<>|=→…*".contains(c);
    let parts = text
        .split(between)
        .flat_map(|part| if is_grouped_number(part) { vec![part] } else { part.split(',').collect() });
    let chars = ['.', ':', '!', '?', '\'', '–', '—', '&', ','];
    parts.map(move |word| word.trim_matches(chars)).filter(|word| !word.is_empty())
}

/// Returns whether a word is a number in groups of three digits, whose commas do not separate words.
fn is_grouped_number(word: &str) -> bool {
    let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
    let mut groups = digits.split(',');
    let first = groups.next().unwrap_or_default();
    let is_number = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.contains(',')
        && first.len() <= 3
        && is_number(first)
        && groups.all(|group| group.len() >= 3 && is_number(group))
}

/// Removes a line number or a range from the end of a path: `a.rs:12-40`.
pub(super) fn strip_line_number(word: &str) -> &str {
    let bare = word.trim_end_matches(|c: char| c.is_ascii_digit() || "-:–,L".contains(c));
    if bare.len() < word.len() && word[bare.len()..].starts_with(':') { bare } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims_in(clause: &str) -> Vec<(ClaimKind, &str)> {
        find_claims(clause).into_iter().map(|claim| (claim.kind, claim.text)).collect()
    }

    #[test]
    fn finds_verifiable_claims_and_ignores_ordinary_words() {
        assert_eq!(claims_in("The read/write path works, e.g. for 12 users and/or guests."), []);
        assert_eq!(
            claims_in("EDIT src/a.rs:12-40 and README.md — `npm test -- x` gave 1,204 on macOS, see https://a.b/c."),
            [
                (ClaimKind::Path, "src/a.rs:12-40"),
                (ClaimKind::Path, "README.md"),
                (ClaimKind::Code, "npm test -- x"),
                (ClaimKind::Number, "1,204"),
                (ClaimKind::Url, "https://a.b/c"),
            ]
        );
        assert_eq!(
            claims_in("In snake_case and Class.method() of v2.9.0"),
            [
                (ClaimKind::Identifier, "snake_case"),
                (ClaimKind::Identifier, "Class.method"),
                (ClaimKind::Identifier, "v2.9.0"),
            ]
        );
    }
}
