//! A fast estimate of a text's tokens, in one pass over its bytes.
//!
//! Tokenizers cut text into words, numbers, punctuation and white space before they merge anything, and what such a run
//! costs depends little on which letters it has. So runs are counted by class, and each class has a weight. The estimates
//! of two parts add up to that of the whole but for the run that the cut goes through.

mod scan;

use super::Tokens;

/// What a text's runs are counted by. A run can count in several: a word of twelve letters is a `Word`, has seven letters
/// past the fifth and two past the tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A word as prose has it: white space before, white space or a stop after, the first letter at most a capital.
    Prose,
    /// Its letters past the eighth.
    ProsePast8,
    /// Its letters past the thirteenth.
    ProsePast13,
    /// Any other letters, as in identifiers; `camelCase` is two.
    Word,
    /// Its letters past the fifth.
    WordPast5,
    /// Its letters past the tenth.
    WordPast10,
    /// A word directly after another: the `Case` of `camelCase`.
    WordAfterLetter,
    /// A word directly after a digit.
    WordAfterDigit,
    /// A word directly after punctuation.
    WordAfterMark,
    /// Two or more capitals, and the small letters that follow.
    Capitals,
    /// Its letters past the second.
    CapitalsPast2,
    /// Letters of a long run with digits in it and one case: hexadecimal.
    Hex,
    /// Characters of a long run with digits and both cases in it: base64.
    Base64,
    /// Groups of up to three digits.
    Digits,
    /// White space within a line, more than the one space before a word.
    Spaces,
    /// White space directly before a digit.
    SpaceBeforeDigit,
    /// White space with line ends.
    Newlines,
    /// The same, where its line ends follow punctuation.
    NewlinesAfterMark,
    /// A run of punctuation.
    Marks,
    /// A single mark directly before a letter.
    MarkBeforeLetter,
    /// Marks of a run past the first.
    MarksPast1,
    /// Marks of a run past the third.
    MarksPast3,
    /// A mark or symbol four times or more: a ruler.
    Ruler,
    /// Its length in sixteens.
    RulerSixteens,
    /// A letter of the Latin script outside ASCII.
    Latin,
    /// A word of Greek, Cyrillic or Armenian.
    CyrillicWord,
    /// A letter of these.
    Cyrillic,
    /// A word of Hebrew, Arabic or their neighbours.
    ArabicWord,
    /// A letter of these.
    Arabic,
    /// A character of the scripts of India and South-East Asia.
    Indic,
    /// A kana.
    Kana,
    /// A Chinese character.
    Han,
    /// A Korean syllable.
    Hangul,
    /// A symbol, or punctuation outside ASCII.
    Symbol,
    /// Any other character of three bytes.
    ThreeBytes,
    /// A character of four bytes, such as an emoji.
    FourBytes,
    /// A control character.
    Control,
}

/// How many classes there are.
const N: usize = 37;

/// The tokens that one of each class costs, in the order of [`Class`].
///
/// Fitted by `bench/tokens/fit.py` against `o200k_base`; `bench/tokens/README.md` has the data, the split and the errors.
pub const WEIGHTS: [(Class, f32); N] = [
    (Class::Prose, 0.979),
    (Class::ProsePast8, 0.314),
    (Class::ProsePast13, 0.305),
    (Class::Word, 0.592),
    (Class::WordPast5, 0.209),
    (Class::WordPast10, 0.000),
    (Class::WordAfterLetter, 0.036),
    (Class::WordAfterDigit, 0.223),
    (Class::WordAfterMark, 0.248),
    (Class::Capitals, 0.926),
    (Class::CapitalsPast2, 0.163),
    (Class::Hex, 0.571),
    (Class::Base64, 0.753),
    (Class::Digits, 1.121),
    (Class::Spaces, 0.976),
    (Class::SpaceBeforeDigit, 1.011),
    (Class::Newlines, 0.902),
    (Class::NewlinesAfterMark, 0.000),
    (Class::Marks, 0.938),
    (Class::MarkBeforeLetter, 0.600),
    (Class::MarksPast1, 0.219),
    (Class::MarksPast3, 0.293),
    (Class::Ruler, 0.858),
    (Class::RulerSixteens, 0.673),
    (Class::Latin, 0.777),
    (Class::CyrillicWord, 0.471),
    (Class::Cyrillic, 0.242),
    (Class::ArabicWord, 0.445),
    (Class::Arabic, 0.274),
    (Class::Indic, 0.400),
    (Class::Kana, 0.575),
    (Class::Han, 0.721),
    (Class::Hangul, 0.617),
    (Class::Symbol, 1.080),
    (Class::ThreeBytes, 1.518),
    (Class::FourBytes, 2.044),
    (Class::Control, 1.000),
];

/// About how many tokens a text has, leaning neither way; one or more unless it is empty.
#[must_use]
pub fn estimate(text: &str) -> Tokens {
    let sum: f64 =
        classes(text).iter().zip(WEIGHTS).map(|(&n, (_, weight))| f64::from(n) * f64::from(weight)).sum();
    Tokens((sum.round() as u64).max(u64::from(!text.is_empty())))
}

/// How much of each class a text has, in the order of [`WEIGHTS`]: what the weights are fitted on.
#[must_use]
pub fn classes(text: &str) -> [u32; N] {
    scan::classes(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Class, N, Tokens, WEIGHTS, classes, estimate};

    #[test]
    fn the_weights_stand_in_the_order_of_the_classes() {
        for (at, (class, weight)) in WEIGHTS.into_iter().enumerate() {
            assert_eq!(class as usize, at, "{class:?}");
            assert!(weight >= 0.0, "{class:?}");
        }
    }

    #[test]
    fn runs_are_counted_by_class() {
        let cases: [(&str, &[(Class, u32)]); 17] = [
            ("two words.", &[(Class::Prose, 2), (Class::Marks, 1)]),
            ("telephones=", &[(Class::Word, 1), (Class::WordPast5, 5), (Class::Marks, 1)]),
            ("internationally", &[(Class::Prose, 1), (Class::ProsePast8, 7), (Class::ProsePast13, 2)]),
            ("camelCase", &[(Class::Word, 2), (Class::WordAfterLetter, 1)]),
            ("HTTP", &[(Class::Capitals, 1), (Class::CapitalsPast2, 2)]),
            ("1234567", &[(Class::Digits, 3)]),
            ("a 1", &[(Class::Prose, 1), (Class::SpaceBeforeDigit, 1), (Class::Digits, 1)]),
            ("a\n    b", &[(Class::Prose, 2), (Class::Newlines, 1), (Class::Spaces, 1)]),
            (
                "(a)\n",
                &[
                    (Class::Word, 1),
                    (Class::WordAfterMark, 1),
                    (Class::MarkBeforeLetter, 1),
                    (Class::Marks, 1),
                    (Class::NewlinesAfterMark, 1),
                ],
            ),
            ("====================", &[(Class::Ruler, 1), (Class::RulerSixteens, 1)]),
            ("────────────────────", &[(Class::Ruler, 1), (Class::RulerSixteens, 1)]),
            ("d41d8cd98f00b204e9800998ecf8427e", &[(Class::Hex, 32)]),
            ("R0lGODlhAQABAIAAAAAAAP", &[(Class::Base64, 22)]),
            ("привет мир", &[(Class::CyrillicWord, 2), (Class::Cyrillic, 9)]),
            ("漢字とかな", &[(Class::Han, 2), (Class::Kana, 3)]),
            ("한국어 né", &[(Class::Hangul, 3), (Class::Word, 1), (Class::Latin, 1)]),
            ("🎉—", &[(Class::FourBytes, 1), (Class::Symbol, 1)]),
        ];
        for (text, expected) in cases {
            let mut counts = [0; N];
            for &(class, n) in expected {
                counts[class as usize] = n;
            }
            assert_eq!(classes(text), counts, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_an_estimate_and_only_the_empty_one_has_none(text in any::<String>()) {
            prop_assert_eq!(estimate(&text) == Tokens::ZERO, text.is_empty());
        }

        #[test]
        fn a_cut_between_lines_changes_the_estimate_by_a_few_tokens(a in "[ -~\n]{0,300}\n", b in "[a-z(][ -~\n]{0,300}") {
            let (apart, whole) = (estimate(&a) + estimate(&b), estimate(&format!("{a}{b}")));
            prop_assert!(apart.number().abs_diff(whole.number()) <= 2, "{} for {}", apart, whole);
        }
    }
}
