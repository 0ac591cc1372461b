//! What a clause claims that can be looked up: paths, names, numbers, commands, addresses.

use super::words::{TABLE, has_any, prose};

/// Something that a clause says and the source must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A path or the name of a file.
    Path,
    /// An address.
    Url,
    /// A name that only code has.
    Name,
    /// A number that nobody counts on the fingers.
    Number,
    /// Code between backticks, all of it.
    Code,
}

/// Numbers up to this one are counted by whoever sums up.
const COUNTED: u64 = 20;

/// What stands between backticks.
pub(super) fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).map(str::trim).filter(|code| !code.is_empty())
}

/// Whether code is what a shell would run.
pub(super) fn is_command(code: &str) -> bool {
    let first = code.split_whitespace().next().unwrap_or_default();
    code.contains(' ') && TABLE.commands.iter().any(|command| command == first)
}

/// The claims of a clause, in their order.
pub(super) fn claims(clause: &str) -> Vec<Claim<'_>> {
    let mut claims = Vec::new();
    let is_absent = has_any(&prose(clause), &TABLE.absent);
    for (index, part) in clause.split('`').enumerate() {
        let is_code = index % 2 == 1;
        if is_code {
            // What is left out of code is not claimed.
            let pieces = part.split('…').flat_map(|piece| piece.split("...")).map(str::trim);
            claims.extend(
                pieces.filter(|piece| !piece.is_empty()).map(|text| Claim { kind: Kind::Code, text }),
            );
        }
        let mut before = "";
        for word in words(part) {
            let roughly = before.starts_with('~') || TABLE.roughly.iter().any(|known| known == before);
            claims.extend(claim(word).filter(|claim| !(roughly && claim.kind == Kind::Number)));
            before = word;
        }
    }
    // What is said not to be there need not be anywhere.
    claims.retain(|claim| !is_absent || !matches!(claim.kind, Kind::Code | Kind::Name));
    claims
}

fn claim(word: &str) -> Option<Claim<'_>> {
    let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
    let kind = if word.contains("://") {
        Kind::Url
    } else if is_path(word) {
        Kind::Path
    } else if number(word).is_some_and(|number| number > COUNTED) {
        Kind::Number
    } else if is_name(word) {
        Kind::Name
    } else {
        return None;
    };
    Some(Claim { kind, text: word })
}

/// Whether a word is a path: rooted, several folders deep, or a file's name with its ending.
fn is_path(word: &str) -> bool {
    let path = without_line(word);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rooted = ["/", "~/", "./", "../"].iter().any(|root| path.starts_with(root)) && !parts.is_empty();
    let file =
        parts.last().is_some_and(|last| if parts.len() > 1 { has_ending(last) } else { is_file(last) });
    path.is_ascii()
        && (rooted && parts.len() > 1 || file || parts.len() > 2 && parts.iter().all(|part| part.len() > 1))
}

/// Whether a name is a file's: with nothing but a dot in it, it could be a field's.
fn is_file(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, ending)| has_ending(name) && TABLE.endings.iter().any(|known| known == ending))
}

/// Whether a name has an ending such as files have.
fn has_ending(name: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let letters = ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic());
    letters
        && (1..=5).contains(&ending.len())
        && ending.bytes().all(|byte| !byte.is_ascii_uppercase())
        && stem.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !stem.contains("..")
}

/// The number that a word is, if it is nothing else: `12,400`, `98.6%`, `$50`, `-1`.
pub(super) fn number(word: &str) -> Option<u64> {
    let digits = word.trim_matches(['$', '€', '%', '+', '-', '~', '#', '×', 'x']);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'.');
    let whole = digits.split('.').next().unwrap_or(digits).replace(',', "");
    if !is_number || whole.is_empty() {
        return None;
    }
    whole.parse().ok()
}

/// Whether a word is a name such as only code has: with an underscore, a colon, a dot or a capital inside, or called.
fn is_name(word: &str) -> bool {
    let letters = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    let inner = word.trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '_');
    let mixed =
        inner.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let digits = inner.bytes().any(|byte| byte.is_ascii_digit()) && inner.len() >= 5;
    let dotted = inner.split('.').filter(|part| part.len() > 1).count() > 1;
    // `10-minute` is a number and a word, `a/b` two words.
    let joined = inner.contains("..") || inner.contains(['-', '/']) && !inner.contains('_');
    letters
        && word.is_ascii()
        && inner.len() > 2
        && !joined
        && (inner.contains('_') || inner.contains("::") || mixed || digits || dotted)
}

/// The words of a text, without the signs around them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let between = |sign: char| sign.is_whitespace() || "`\"“”‘’«»;()[]{}<>|=→…*".contains(sign);
    let parts = text
        .split(between)
        .flat_map(|part| if is_grouped(part) { vec![part] } else { part.split(',').collect() });
    let signs = ['.', ':', '!', '?', '\'', '–', '—', '&', ','];
    parts.map(move |word| word.trim_matches(signs)).filter(|word| !word.is_empty())
}

/// Whether a word is a number in groups of three, which a comma does not part.
fn is_grouped(word: &str) -> bool {
    let digits = word.trim_matches(|sign: char| !sign.is_ascii_digit());
    let mut groups = digits.split(',');
    let first = groups.next().unwrap_or_default();
    let is_number = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.contains(',')
        && first.len() <= 3
        && is_number(first)
        && groups.all(|group| group.len() >= 3 && is_number(group))
}

/// A path without the line or range behind it: `a.rs:12-40`.
pub(super) fn without_line(word: &str) -> &str {
    let bare = word.trim_end_matches(|sign: char| sign.is_ascii_digit() || "-:–,L".contains(sign));
    if bare.len() < word.len() && word[bare.len()..].starts_with(':') { bare } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clause: &str) -> Vec<(Kind, &str)> {
        claims(clause).into_iter().map(|claim| (claim.kind, claim.text)).collect()
    }

    #[test]
    fn what_can_be_looked_up_is_told_from_what_is_only_said() {
        assert_eq!(of("The read/write path works, e.g. for 12 users and/or guests."), []);
        assert_eq!(
            of(
                "EDIT src/a.rs:12-40 and README.md — `npm test -- x` gave 1,204 in parseBody, see https://a.b/c."
            ),
            [
                (Kind::Path, "src/a.rs:12-40"),
                (Kind::Path, "README.md"),
                (Kind::Code, "npm test -- x"),
                (Kind::Number, "1,204"),
                (Kind::Name, "parseBody"),
                (Kind::Url, "https://a.b/c"),
            ]
        );
        assert_eq!(
            of("In snake_case and Class.method() of v2.9.0"),
            [(Kind::Name, "snake_case"), (Kind::Name, "Class.method"), (Kind::Name, "v2.9.0"),]
        );
    }
}
