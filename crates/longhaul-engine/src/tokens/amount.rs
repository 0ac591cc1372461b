//! The type for a number of tokens, and helpers to print numbers.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Sub};

/// A number of tokens. Sums saturate, so that no input can make them wrap, and differences stop at zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// Zero tokens.
    pub const ZERO: Self = Self(0);

    /// Returns the bare number, for ratios and for reports that format it themselves.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns a fraction of the tokens, rounded to the nearest token: `share` is 0.25 for a quarter.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        Self((self.0 as f64 * share).round() as u64)
    }
}

impl Add for Tokens {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Tokens {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Div<u64> for Tokens {
    type Output = Self;

    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

/// Formats the number with commas between groups of three digits: `12,345`. Width and alignment apply to the
/// whole text.
impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&group_digits(self.0))
    }
}

/// Returns `part` in percent of `whole`, or `None` if `whole` is not positive or the result is not finite.
#[must_use]
pub fn percent(part: f64, whole: f64) -> Option<f64> {
    let percent = 100.0 * part / whole;
    (whole > 0.0 && percent.is_finite()).then_some(percent)
}

/// Formats a number with commas between groups of three digits: 1234567 becomes `1,234,567`.
#[must_use]
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::Tokens;

    #[test]
    fn digits_come_in_groups_of_three() {
        for (number, shown) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (123_456, "123,456"), (1_234_567, "1,234,567")]
        {
            assert_eq!(Tokens(number).to_string(), shown);
        }
        assert_eq!(format!("{:>7}|", Tokens(1_000)), "  1,000|");
    }

    #[test]
    fn neither_sums_nor_differences_wrap() {
        assert_eq!(Tokens(u64::MAX) + Tokens(1), Tokens(u64::MAX));
        assert_eq!(Tokens(1) - Tokens(2), Tokens::ZERO);
        assert_eq!([1, 2, 3].map(Tokens).into_iter().sum::<Tokens>(), Tokens(6));
    }
}
