//! Counts tokens for one model: by a vocabulary, and a factor if the model's own vocabulary is not public.

use std::fmt;

use super::{Tokens, Vocabulary};

/// The ratio of a model's tokens to those of the vocabulary. It is stored in thousandths, so that equal
/// factors are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct TokenFactor(u32);

impl TokenFactor {
    /// The factor for a model whose own vocabulary is used.
    pub const ONE: Self = Self(1_000);

    /// Creates a factor from thousandths: 1150 is 1.15.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// Multiplies a number of tokens by this factor and rounds up, so that an estimate is rather too high.
    #[must_use]
    pub fn apply(self, tokens: Tokens) -> Tokens {
        Tokens(tokens.0.saturating_mul(u64::from(self.0)).div_ceil(1_000))
    }
}

impl TryFrom<f64> for TokenFactor {
    type Error = String;

    fn try_from(factor: f64) -> Result<Self, String> {
        if (0.1..=10.0).contains(&factor) {
            Ok(Self((factor * 1_000.0).round() as u32))
        } else {
            Err(format!("a token factor of {factor} is not between 0.1 and 10"))
        }
    }
}

impl From<TokenFactor> for f64 {
    fn from(factor: TokenFactor) -> Self {
        Self::from(factor.0) / 1_000.0
    }
}

impl fmt::Display for TokenFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(*self))
    }
}

/// Counts the tokens of a text for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenCounter {
    /// The model's vocabulary, or the nearest public one.
    pub vocabulary: Vocabulary,
    /// The factor that corrects the count of a vocabulary that is not the model's own.
    pub factor: TokenFactor,
}

impl TokenCounter {
    /// Creates a counter for a model whose vocabulary is public.
    #[must_use]
    pub const fn exact(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, factor: TokenFactor::ONE }
    }

    /// Counts the tokens of a text. Text that looks like a special token counts as ordinary text.
    #[must_use]
    pub fn count(self, text: &str) -> Tokens {
        self.factor.apply(self.vocabulary.count(text))
    }

    /// Returns whether the count uses the model's own vocabulary.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.factor == TokenFactor::ONE
    }

    /// Returns the name for reports: `o200k_base`, or `o200k_base × 1.15`.
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
    use super::{TokenCounter, TokenFactor, Tokens, Vocabulary};

    #[test]
    fn a_factor_rounds_up_and_shows_in_the_name() {
        let near = TokenCounter { vocabulary: Vocabulary::O200kBase, factor: TokenFactor::from_thousandths(1_150) };
        assert_eq!(near.vocabulary.count("hello world"), Tokens(2));
        assert_eq!(near.count("hello world"), Tokens(3));
        assert_eq!(near.count(""), Tokens::ZERO);
        assert_eq!(near.name(), "o200k_base × 1.15");
        assert!(!near.is_exact());

        let own = TokenCounter::exact(Vocabulary::Cl100kBase);
        assert_eq!(own.count("hello world"), Tokens(2));
        assert_eq!(own.name(), "cl100k_base");
        assert!(own.is_exact());
    }

    #[test]
    fn a_factor_reads_as_a_plain_number_and_refuses_nonsense() {
        assert_eq!(serde_json::from_str::<TokenFactor>("1.15").unwrap(), TokenFactor::from_thousandths(1_150));
        assert_eq!(serde_json::to_string(&TokenFactor::ONE).unwrap(), "1.0");
        for nonsense in ["0", "-1", "1e9"] {
            assert!(serde_json::from_str::<TokenFactor>(nonsense).is_err(), "{nonsense}");
        }
    }
}
