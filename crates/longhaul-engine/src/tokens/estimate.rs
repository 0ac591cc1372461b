//! Estimates the tokens of a text quickly, in one pass over its bytes.
//!
//! Tokenizers cut text into words, numbers, punctuation and white space before they merge bytes. The cost of
//! such a run depends little on its letters. So the runs are counted by class, and each class has a weight.
//!
//! The estimates of two parts add up to the estimate of the whole, except for a run that the cut splits.

mod runs;

use super::Tokens;

/// The classes by which the runs of a text are counted. A run can count in several: a word of twelve letters
/// counts once as `Word`, seven times as `WordPast5` and twice as `WordPast10`. In these names, a mark is an
/// ASCII punctuation character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunClass {
    /// A word of prose: after white space, before white space or a punctuation mark that ends a phrase, and
    /// with at most the first letter a capital.
    Prose,
    /// Each letter of a prose word after the eighth.
    ProsePast8,
    /// Each letter of a prose word after the thirteenth.
    ProsePast13,
    /// Any other word, such as a part of an identifier; `camelCase` is two.
    Word,
    /// Each letter of such a word after the fifth.
    WordPast5,
    /// Each letter of such a word after the tenth.
    WordPast10,
    /// A word directly after another: the `Case` of `camelCase`.
    WordAfterLetter,
    /// A word directly after a digit.
    WordAfterDigit,
    /// A word directly after punctuation.
    WordAfterMark,
    /// Two or more capitals, with the small letters that follow.
    Capitals,
    /// Each letter of such a word after the second.
    CapitalsPast2,
    /// Each character of a long run that has digits and letters of one case: hexadecimal.
    Hex,
    /// Each character of a long run that has digits and letters of both cases: base64.
    Base64,
    /// A group of up to three digits.
    Digits,
    /// White space within a line, beyond the one space before a word.
    Spaces,
    /// White space directly before a digit.
    SpaceBeforeDigit,
    /// White space with line ends.
    Newlines,
    /// White space whose line ends directly follow punctuation.
    NewlinesAfterMark,
    /// A run of punctuation.
    Marks,
    /// A single punctuation mark directly before a letter.
    MarkBeforeLetter,
    /// Each mark of a run of punctuation after the first.
    MarksPast1,
    /// Each mark of a run of punctuation after the third.
    MarksPast3,
    /// A ruler: the same punctuation mark or symbol four times or more.
    Ruler,
    /// Each sixteen characters of a ruler.
    RulerSixteens,
    /// A Latin letter outside ASCII.
    Latin,
    /// A word of Greek, Cyrillic or Armenian.
    CyrillicWord,
    /// A letter of Greek, Cyrillic or Armenian.
    Cyrillic,
    /// A word of Hebrew, Arabic or a neighbouring script.
    ArabicWord,
    /// A letter of Hebrew, Arabic or a neighbouring script.
    Arabic,
    /// A character of a script of India or South-East Asia.
    Indic,
    /// A Japanese kana.
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

/// The number of classes.
const CLASS_COUNT: usize = 37;

/// The tokens that one item of each class costs, in the order of [`RunClass`].
///
/// `bench/tokens/fit.py` fitted the weights against `o200k_base`. `bench/tokens/README.md` describes the
/// data, the split and the errors.
pub const RUN_WEIGHTS: [(RunClass, f32); CLASS_COUNT] = [
    (RunClass::Prose, 0.979),
    (RunClass::ProsePast8, 0.314),
    (RunClass::ProsePast13, 0.305),
    (RunClass::Word, 0.592),
    (RunClass::WordPast5, 0.209),
    (RunClass::WordPast10, 0.000),
    (RunClass::WordAfterLetter, 0.036),
    (RunClass::WordAfterDigit, 0.223),
    (RunClass::WordAfterMark, 0.248),
    (RunClass::Capitals, 0.926),
    (RunClass::CapitalsPast2, 0.163),
    (RunClass::Hex, 0.571),
    (RunClass::Base64, 0.753),
    (RunClass::Digits, 1.121),
    (RunClass::Spaces, 0.976),
    (RunClass::SpaceBeforeDigit, 1.011),
    (RunClass::Newlines, 0.902),
    (RunClass::NewlinesAfterMark, 0.000),
    (RunClass::Marks, 0.938),
    (RunClass::MarkBeforeLetter, 0.600),
    (RunClass::MarksPast1, 0.219),
    (RunClass::MarksPast3, 0.293),
    (RunClass::Ruler, 0.858),
    (RunClass::RulerSixteens, 0.673),
    (RunClass::Latin, 0.777),
    (RunClass::CyrillicWord, 0.471),
    (RunClass::Cyrillic, 0.242),
    (RunClass::ArabicWord, 0.445),
    (RunClass::Arabic, 0.274),
    (RunClass::Indic, 0.400),
    (RunClass::Kana, 0.575),
    (RunClass::Han, 0.721),
    (RunClass::Hangul, 0.617),
    (RunClass::Symbol, 1.080),
    (RunClass::ThreeBytes, 1.518),
    (RunClass::FourBytes, 2.044),
    (RunClass::Control, 1.000),
];

/// Estimates the tokens of a text, without a bias to either side. Only the empty text has none.
#[must_use]
pub fn estimate(text: &str) -> Tokens {
    let sum: f64 =
        count_runs(text).iter().zip(RUN_WEIGHTS).map(|(&n, (_, weight))| f64::from(n) * f64::from(weight)).sum();
    Tokens((sum.round() as u64).max(u64::from(!text.is_empty())))
}

/// Counts the items of each class in a text, in the order of [`RUN_WEIGHTS`]. The weights are fitted to these
/// counts.
#[must_use]
pub fn count_runs(text: &str) -> [u32; CLASS_COUNT] {
    runs::count_runs(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CLASS_COUNT, RUN_WEIGHTS, RunClass, Tokens, count_runs, estimate};

    #[test]
    fn the_weights_stand_in_the_order_of_the_classes() {
        for (at, (class, weight)) in RUN_WEIGHTS.into_iter().enumerate() {
            assert_eq!(class as usize, at, "{class:?}");
            assert!(weight >= 0.0, "{class:?}");
        }
    }

    #[test]
    fn runs_are_counted_by_class() {
        let cases: [(&str, &[(RunClass, u32)]); 17] = [
            ("two words.", &[(RunClass::Prose, 2), (RunClass::Marks, 1)]),
            ("telephones=", &[(RunClass::Word, 1), (RunClass::WordPast5, 5), (RunClass::Marks, 1)]),
            ("internationally", &[(RunClass::Prose, 1), (RunClass::ProsePast8, 7), (RunClass::ProsePast13, 2)]),
            ("camelCase", &[(RunClass::Word, 2), (RunClass::WordAfterLetter, 1)]),
            ("HTTP", &[(RunClass::Capitals, 1), (RunClass::CapitalsPast2, 2)]),
            ("1234567", &[(RunClass::Digits, 3)]),
            ("a 1", &[(RunClass::Prose, 1), (RunClass::SpaceBeforeDigit, 1), (RunClass::Digits, 1)]),
            ("a\n    b", &[(RunClass::Prose, 2), (RunClass::Newlines, 1), (RunClass::Spaces, 1)]),
            (
                "(a)\n",
                &[
                    (RunClass::Word, 1),
                    (RunClass::WordAfterMark, 1),
                    (RunClass::MarkBeforeLetter, 1),
                    (RunClass::Marks, 1),
                    (RunClass::NewlinesAfterMark, 1),
                ],
            ),
            ("====================", &[(RunClass::Ruler, 1), (RunClass::RulerSixteens, 1)]),
            ("────────────────────", &[(RunClass::Ruler, 1), (RunClass::RulerSixteens, 1)]),
            ("d41d8cd98f00b204e9800998ecf8427e", &[(RunClass::Hex, 32)]),
            ("R0lGODlhAQABAIAAAAAAAP", &[(RunClass::Base64, 22)]),
            ("привет мир", &[(RunClass::CyrillicWord, 2), (RunClass::Cyrillic, 9)]),
            ("漢字とかな", &[(RunClass::Han, 2), (RunClass::Kana, 3)]),
            ("한국어 né", &[(RunClass::Hangul, 3), (RunClass::Word, 1), (RunClass::Latin, 1)]),
            ("🎉—", &[(RunClass::FourBytes, 1), (RunClass::Symbol, 1)]),
        ];
        for (text, expected) in cases {
            let mut counts = [0; CLASS_COUNT];
            for &(class, n) in expected {
                counts[class as usize] = n;
            }
            assert_eq!(count_runs(text), counts, "{text}");
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
