//! Dollars per million tokens, by model.

use std::collections::BTreeSet;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

use crate::Tokens;
use crate::config;
use crate::models;
use crate::wire::CacheLifetime;

/// An amount in US dollars. A negative saving is a loss.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize)]
#[serde(transparent)]
pub struct Dollars(pub f64);

impl Dollars {
    /// The amount of zero dollars.
    pub const ZERO: Self = Self(0.0);
}

impl Add for Dollars {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Dollars {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Dollars {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Dollars {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

/// Formats an amount with cents, or with four digits if it is under ten cents: `$1.87`, `$0.0042`,
/// `-$0.0310`. An amount that is not finite is `unknown`.
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() {
            return f.pad("unknown");
        }
        let sign = if self.0 < 0.0 { "-" } else { "" };
        let amount = self.0.abs();
        let digits = if amount >= 0.1 || amount == 0.0 { 2 } else { 4 };
        f.pad(&format!("{sign}${amount:.digits$}"))
    }
}

/// The prices of a million tokens, in dollars, for each kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TokenPrices {
    /// Input tokens that are not cached.
    pub input: f64,
    /// Input tokens that are written to the cache for five minutes, or for the time that a cache without
    /// breakpoints keeps them.
    pub write_5m: f64,
    /// Input tokens that are written to the cache for one hour.
    pub write_1h: f64,
    /// Input tokens that are read from the cache.
    pub read: f64,
    /// Output tokens.
    pub output: f64,
    /// The higher prices for large requests, if there are any.
    pub long: Option<LongTariff>,
}

/// Factors for the prices of large requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongTariff {
    /// The number of input tokens above which a request is large.
    pub above: u64,
    /// The factor for the prices of all kinds of input.
    pub input: f64,
    /// The factor for the price of output.
    pub output: f64,
}

impl TokenPrices {
    /// Returns the price of writing tokens to the cache with this lifetime.
    #[must_use]
    pub fn cache_write(&self, lifetime: CacheLifetime) -> f64 {
        match lifetime {
            CacheLifetime::FiveMinutes => self.write_5m,
            CacheLifetime::OneHour => self.write_1h,
        }
    }

    /// Returns the prices that apply to a request of this size.
    #[must_use]
    pub fn for_request(&self, request: Tokens) -> Self {
        match self.long {
            Some(long) if request.number() > long.above => Self {
                input: self.input * long.input,
                write_5m: self.write_5m * long.input,
                write_1h: self.write_1h * long.input,
                read: self.read * long.input,
                output: self.output * long.output,
                long: None,
            },
            _ => Self { long: None, ..*self },
        }
    }
}

/// Returns the cost of some tokens at a price per million tokens.
pub(crate) fn cost_of(tokens: Tokens, price: f64) -> Dollars {
    Dollars(tokens.number() as f64 * price / 1e6)
}

/// The prices of one model, with their source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelPrices {
    /// The prices.
    pub price: TokenPrices,
    /// The pattern of the row with these prices, or `None` if the configuration states all of them.
    pub row: Option<String>,
    /// Whether the row is for another model, because the table has no row for this one.
    pub nearest: bool,
    /// The names of the prices that the source does not state.
    pub assumed: BTreeSet<String>,
    /// The source of the prices.
    pub source: String,
    /// The month in which the prices were valid.
    pub date: String,
}

impl ModelPrices {
    /// Returns the prices with those that the user states. Stated prices are never assumed.
    #[must_use]
    pub fn with_stated(mut self, stated: &config::StatedPrices) -> Self {
        let price = &mut self.price;
        let places: [(&str, Option<f64>, &mut f64); 5] = [
            ("input", stated.input, &mut price.input),
            ("output", stated.output, &mut price.output),
            ("read", stated.cache_read, &mut price.read),
            ("write_5m", stated.cache_write, &mut price.write_5m),
            ("write_1h", stated.cache_write_1h, &mut price.write_1h),
        ];
        for (name, value, place) in places {
            if let Some(value) = value {
                *place = value;
                self.assumed.remove(name);
            }
        }
        self
    }
}

/// Returns the prices of the model with this name, or `None` if no row describes it; that does not mean that
/// it is free. If the row is for another version of the model, all prices are assumed.
#[must_use]
pub fn find(name: &str) -> Option<ModelPrices> {
    let pattern = *models::matching_patterns(TABLE.iter().map(|row| row.pattern.as_str()), name).first()?;
    let row = TABLE.iter().find(|row| row.pattern == pattern)?;
    let price = TokenPrices {
        input: row.input,
        write_5m: row.write_5m.unwrap_or(row.input),
        write_1h: row.write_1h.unwrap_or(row.input),
        read: row.read,
        output: row.output,
        long: row.long,
    };
    let nearest = row.family || models::is_name_of_another_version(pattern, name);
    let all = || ["input", "write_5m", "write_1h", "read", "output"].map(str::to_owned).into_iter().collect();
    let assumed = if nearest { all() } else { row.assumed.clone() };
    let (source, date) = (row.source.clone(), row.date.clone());
    Some(ModelPrices { price, row: Some(pattern.to_owned()), nearest, assumed, source, date })
}

/// Returns the prices of a model with this configuration: those of the table, overridden by the user's
/// settings in every pattern that matches. For a model without a row, the user must state at least the prices
/// of input and output.
#[must_use]
pub fn find_with_config(config: &config::Config, name: &str) -> Option<ModelPrices> {
    let patterns = models::matching_patterns(config.models.keys().map(String::as_str), name);
    let rows: Vec<&config::StatedPrices> =
        patterns.into_iter().rev().filter_map(|pattern| Some(&config.models.get(pattern)?.prices)).collect();
    let from_scratch = || {
        let price_of = |field: fn(&config::StatedPrices) -> Option<f64>| rows.iter().rev().find_map(|row| field(row));
        let (input, output) = (price_of(|row| row.input)?, price_of(|row| row.output)?);
        let price = TokenPrices { input, write_5m: input, write_1h: input, read: input, output, long: None };
        let assumed = ["write_5m", "write_1h", "read"].map(str::to_owned).into_iter().collect();
        Some(ModelPrices {
            price,
            row: None,
            nearest: false,
            assumed,
            source: "the configuration".to_owned(),
            date: String::new(),
        })
    };
    let prices = find(name).or_else(from_scratch)?;
    Some(rows.into_iter().fold(prices, ModelPrices::with_stated))
}

#[derive(Deserialize)]
struct PriceTable {
    price: Vec<PriceRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    #[serde(rename = "match")]
    pattern: String,
    input: f64,
    write_5m: Option<f64>,
    write_1h: Option<f64>,
    read: f64,
    output: f64,
    long: Option<LongTariff>,
    #[serde(default)]
    assumed: BTreeSet<String>,
    /// Whether the row applies to every model of its family without a row of its own.
    #[serde(default)]
    family: bool,
    source: String,
    date: String,
}

table! {
    static TABLE: Vec<PriceRow> = "prices.toml", |table: PriceTable| Ok(table.price);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sensible() {
        for row in TABLE.iter() {
            let found = find(&row.pattern).unwrap();
            let TokenPrices { input, write_5m, write_1h, read, output, .. } = found.price;
            assert!(0.0 < read && read < input && input <= write_5m && write_5m <= write_1h, "{}", row.pattern);
            assert!(output > input, "{}", row.pattern);
            let fields = ["input", "write_5m", "write_1h", "read", "output", "long"];
            assert!(row.assumed.iter().all(|name| fields.contains(&name.as_str())), "{}", row.pattern);
        }
    }

    #[test]
    fn names_find_their_row() {
        for (name, input, output) in [
            ("claude-sonnet-4-20250514", 3.0, 15.0),
            ("anthropic/claude-opus-4.5", 5.0, 25.0),
            ("claude-opus-4-1-20250805", 15.0, 75.0),
            ("claude-opus-5-5", 4.0, 20.0),
            ("us.anthropic.claude-3-5-haiku-20241022-v1:0", 0.8, 4.0),
            ("gpt-5.6-luna", 0.2, 1.2),
        ] {
            let price = find(name).unwrap().price;
            assert_eq!((price.input, price.output), (input, output), "{name}");
        }
        assert_eq!(find("llama-3-70b"), None);
    }

    #[test]
    fn stated_prices_override_the_table() {
        let mut config = config::Config::default();
        let row = config.models.entry("llama-3".to_owned()).or_default();
        row.prices.input = Some(0.5);
        assert_eq!(find_with_config(&config, "llama-3-70b"), None, "half a price is none");
        config.models.entry("llama-3".to_owned()).or_default().prices.output = Some(0.8);
        let price = find_with_config(&config, "llama-3-70b").unwrap().price;
        assert_eq!((price.input, price.output, price.read), (0.5, 0.8, 0.5));
        config.models.entry("claude-sonnet-4-5".to_owned()).or_default().prices.cache_read = Some(0.1);
        let price = find_with_config(&config, "claude-sonnet-4-5").unwrap().price;
        assert_eq!((price.input, price.read), (3.0, 0.1));
    }

    #[test]
    fn large_requests_have_their_own_tariff() {
        let price = find("gpt-6-sol").unwrap().price;
        let short = TokenPrices { long: None, ..price };
        assert_eq!(price.for_request(Tokens(272_000)), short);
        let long = TokenPrices {
            input: 2.0 * short.input,
            write_5m: 2.0 * short.write_5m,
            write_1h: 2.0 * short.write_1h,
            read: 2.0 * short.read,
            output: 1.5 * short.output,
            long: None,
        };
        assert_eq!(price.for_request(Tokens(272_001)), long);
    }

    #[test]
    fn money_shows_its_sign() {
        let shown = [1.874, -0.031, 0.00421, 0.0].map(|amount| Dollars(amount).to_string());
        assert_eq!(shown, ["$1.87", "-$0.0310", "$0.0042", "$0.00"]);
    }

    #[test]
    fn an_amount_that_is_not_finite_is_unknown() {
        for amount in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(Dollars(amount).to_string(), "unknown");
        }
    }

    #[test]
    fn a_row_vouches_for_its_own_version_only() {
        for (name, row, is_assumed) in [
            ("gpt-5", "gpt-5", false),
            ("gpt-5-2025-08-07", "gpt-5", false),
            ("gpt-5-codex", "gpt-5", false),
            ("gpt-5.9", "gpt-5", true),
            ("claude-sonnet-4-6", "claude-sonnet-4-6", false),
            ("claude-opus-4-9", "claude-opus-4", true),
            ("claude-sonata-9", "claude", true),
        ] {
            let found = find(name).unwrap();
            assert_eq!((found.row.as_deref(), found.nearest), (Some(row), is_assumed), "{name}");
            assert!(!found.nearest || found.assumed.contains("input"), "{name}");
        }
    }
}
