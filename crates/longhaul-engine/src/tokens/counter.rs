//! How a model's tokens are counted: a vocabulary, and a factor where the model has another one that is not public.

use std::fmt;

use super::{Tokens, Vocabulary};

/// How many times more tokens than the vocabulary says, in thousandths, so that equal factors are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Factor(u32);

impl Factor {
    /// The vocabulary is the model's own.
    pub const ONE: Self = Self(1_000);

    /// A factor from thousandths: 1150 is 1.15.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// So many tokens times this factor, rounded up: an estimate at a boundary leans high.
    #[must_use]
    pub fn times(self, tokens: Tokens) -> Tokens {
        Tokens(tokens.0.saturating_mul(u64::from(self.0)).div_ceil(1_000))
    }
}

impl TryFrom<f64> for Factor {
    type Error = String;

    fn try_from(factor: f64) -> Result<Self, String> {
        if (0.1..=10.0).contains(&factor) {
            Ok(Self((factor * 1_000.0).round() as u32))
        } else {
            Err(format!("a token factor of {factor} is not between 0.1 and 10"))
        }
    }
}

impl From<Factor> for f64 {
    fn from(factor: Factor) -> Self {
        Self::from(factor.0) / 1_000.0
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(*self))
    }
}

/// Counts the tokens of a text for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Counter {
    /// The model's vocabulary, or the nearest public one.
    pub vocabulary: Vocabulary,
    /// What makes up for the difference between the two.
    pub factor: Factor,
}

impl Counter {
    /// A counter for a model whose vocabulary is public.
    #[must_use]
    pub const fn exact(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, factor: Factor::ONE }
    }

    /// The tokens of a text. Text that looks like a special token is ordinary text.
    #[must_use]
    pub fn count(self, text: &str) -> Tokens {
        self.factor.times(self.vocabulary.count(text))
    }

    /// Whether the model's own vocabulary does the counting.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.factor == Factor::ONE
    }

    /// What a report calls it: `o200k_base`, or `o200k_base × 1.15`.
    #[must_use]
    pub fn name(self) -> String {
        if self.is_exact() {
            self.vocabulary.name().to_owned()
        } else {
            format!("{} × {}", self.vocabulary, self.factor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, Factor, Tokens, Vocabulary};

    #[test]
    fn a_factor_rounds_up_and_shows_in_the_name() {
        let near = Counter { vocabulary: Vocabulary::O200kBase, factor: Factor::from_thousandths(1_150) };
        assert_eq!(near.vocabulary.count("hello world"), Tokens(2));
        assert_eq!(near.count("hello world"), Tokens(3));
        assert_eq!(near.count(""), Tokens::ZERO);
        assert_eq!(near.name(), "o200k_base × 1.15");
        assert!(!near.is_exact());

        let own = Counter::exact(Vocabulary::Cl100kBase);
        assert_eq!(own.count("hello world"), Tokens(2));
        assert_eq!(own.name(), "cl100k_base");
        assert!(own.is_exact());
    }

    #[test]
    fn a_factor_reads_as_a_plain_number_and_refuses_nonsense() {
        assert_eq!(serde_json::from_str::<Factor>("1.15").unwrap(), Factor::from_thousandths(1_150));
        assert_eq!(serde_json::to_string(&Factor::ONE).unwrap(), "1.0");
        for nonsense in ["0", "-1", "1e9"] {
            assert!(serde_json::from_str::<Factor>(nonsense).is_err(), "{nonsense}");
        }
    }
}
