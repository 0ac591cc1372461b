//! The usage that a provider reports for one request, in one shape.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::table::{Dollars, TokenPrices, cost_of};
use crate::Tokens;

/// The tokens that a request used. `None` means that the provider did not report a value, which is not the
/// same as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// All input tokens, cached or not.
    pub input: Option<Tokens>,
    /// The input tokens that were read from the cache.
    pub read: Option<Tokens>,
    /// The input tokens that were written to the cache.
    pub written: Option<Tokens>,
    /// The part of `written` that is cached for one hour.
    pub written_1h: Option<Tokens>,
    /// The output tokens.
    pub output: Option<Tokens>,
}

/// The cost of a request, for each kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Bill {
    /// The cost of uncached input: tokens that were neither read from the cache nor written to it.
    pub fresh: Dollars,
    /// The cost of the tokens that were written to the cache.
    pub written: Dollars,
    /// The cost of the tokens that were read from the cache.
    pub read: Dollars,
    /// The cost of the output.
    pub output: Dollars,
}

impl Bill {
    /// Returns the total cost.
    #[must_use]
    pub fn total(&self) -> Dollars {
        self.input() + self.output
    }

    /// Returns the cost of all input.
    #[must_use]
    pub fn input(&self) -> Dollars {
        self.fresh + self.written + self.read
    }
}

impl Usage {
    /// Parses a `usage` object of any provider. Returns `None` if its shape is not known.
    #[must_use]
    pub fn parse(usage: &Value) -> Option<Self> {
        let field = |path: &str| {
            let value = path.split('.').try_fold(usage, |value, name| value.get(name))?;
            // Some gateways count in floats.
            let float = || value.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64);
            value.as_u64().or_else(float).map(Tokens)
        };
        let has = |path: &str| path.split('.').try_fold(usage, |value, name| value.get(name)).is_some();
        let shape = SHAPES.iter().find(|shape| shape.has.iter().all(|path| has(path)))?;
        let optional = |path: &Option<String>| path.as_deref().and_then(field);
        let (read, written) = (optional(&shape.read), optional(&shape.written));
        let input = field(&shape.input.field).map(|input| match shape.input.counts {
            Counts::Whole => input,
            Counts::Fresh => input + read.unwrap_or_default() + written.unwrap_or_default(),
        });
        let output = match (optional(&shape.output), optional(&shape.also_output)) {
            (Some(said), Some(thought)) => Some(said + thought),
            (said, thought) => said.or(thought),
        };
        Some(Self { input, read, written, written_1h: optional(&shape.written_1h), output })
    }

    /// Returns the uncached input tokens: those that were neither read from the cache nor written to it, as
    /// far as the provider reported it.
    #[must_use]
    pub fn uncached(&self) -> Tokens {
        self.input.unwrap_or_default() - self.read.unwrap_or_default() - self.written.unwrap_or_default()
    }

    /// Returns the cost at these prices.
    #[must_use]
    pub fn bill(&self, price: &TokenPrices) -> Bill {
        let price = price.for_request(self.input.unwrap_or_default());
        let written = self.written.unwrap_or_default();
        let for_an_hour = self.written_1h.unwrap_or_default();
        Bill {
            fresh: cost_of(self.uncached(), price.input),
            written: cost_of(written - for_an_hour, price.write_5m) + cost_of(for_an_hour, price.write_1h),
            read: cost_of(self.read.unwrap_or_default(), price.read),
            output: cost_of(self.output.unwrap_or_default(), price.output),
        }
    }

    /// Returns the cost that the request would have without a cache.
    #[must_use]
    pub fn bill_without_cache(&self, price: &TokenPrices) -> Bill {
        Self { read: None, written: None, written_1h: None, ..*self }.bill(price)
    }

    /// Returns the share of the input that was read from the cache, or `None` if the provider did not report
    /// it or there was no input.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        hit_rate(self.read?, self.written.unwrap_or_default(), self.uncached())
    }
}

/// Adds the usage of two requests. A value that only one of them reported is taken from that one.
impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = |a: Option<Tokens>, b: Option<Tokens>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        Self {
            input: sum(self.input, other.input),
            read: sum(self.read, other.read),
            written: sum(self.written, other.written),
            written_1h: sum(self.written_1h, other.written_1h),
            output: sum(self.output, other.output),
        }
    }
}

/// Returns read / (read + written + uncached), or `None` if the sum is zero.
#[must_use]
pub fn hit_rate(read: Tokens, written: Tokens, fresh: Tokens) -> Option<f64> {
    let all = (read + written + fresh).number();
    (all > 0).then(|| read.number() as f64 / all as f64)
}

#[derive(Deserialize)]
struct UsageTable {
    shape: Vec<Shape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    #[serde(rename = "name")]
    _name: String,
    has: Vec<String>,
    input: InputField,
    read: Option<String>,
    written: Option<String>,
    written_1h: Option<String>,
    output: Option<String>,
    also_output: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputField {
    field: String,
    counts: Counts,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Counts {
    Whole,
    Fresh,
}

table! {
    static SHAPES: Vec<Shape> = "usage.toml", |table: UsageTable| Ok(table.shape);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_providers_report_means_the_same() {
        let cases = [
            r#"{"input_tokens":4,"cache_creation_input_tokens":200,"cache_read_input_tokens":1000,"output_tokens":50}"#,
            r#"{"input_tokens":1204,"input_tokens_details":{"cached_tokens":1000,"cache_write_tokens":200},"output_tokens":50}"#,
            r#"{"prompt_tokens":1204,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":1000,"cache_write_tokens":200}}"#,
            r#"{"prompt_tokens":1204,"completion_tokens":50,"cache_read_input_tokens":1000,"cache_creation_input_tokens":200}"#,
            r#"{"inputTokens":4,"cacheReadInputTokens":1000,"cacheWriteInputTokens":200,"outputTokens":50}"#,
            r#"{"input":4,"output":50,"cacheRead":1000,"cacheWrite":200}"#,
        ];
        let wanted = Usage {
            input: Some(Tokens(1204)),
            read: Some(Tokens(1000)),
            written: Some(Tokens(200)),
            written_1h: None,
            output: Some(Tokens(50)),
        };
        for case in cases {
            assert_eq!(Usage::parse(&serde_json::from_str(case).unwrap()), Some(wanted), "{case}");
        }
        assert_eq!(wanted.uncached(), Tokens(4));
    }

    #[test]
    fn what_is_not_reported_is_not_zero() {
        let read = |usage: &str| Usage::parse(&serde_json::from_str(usage).unwrap()).unwrap();
        let silent = [
            r#"{"prompt_tokens":10,"completion_tokens":1}"#,
            r#"{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":null}"#,
            r#"{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":null}}"#,
            r#"{"input_tokens":10,"output_tokens":1}"#,
            r#"{"promptTokenCount":10,"candidatesTokenCount":1}"#,
        ];
        for usage in silent {
            assert_eq!((read(usage).read, read(usage).input, read(usage).hit_rate()), (None, Some(Tokens(10)), None));
        }
        let none = read(r#"{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}"#);
        assert_eq!((none.read, none.hit_rate()), (Some(Tokens(0)), Some(0.0)));
        let kimi = read(r#"{"prompt_tokens":10,"completion_tokens":1,"cached_tokens":8}"#);
        let deepseek = read(
            r#"{"prompt_tokens":10,"completion_tokens":1,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}"#,
        );
        assert_eq!((kimi.read, kimi), (Some(Tokens(8)), deepseek));
        let gemini = read(
            r#"{"promptTokenCount":10,"cachedContentTokenCount":8,"candidatesTokenCount":3,"thoughtsTokenCount":4}"#,
        );
        assert_eq!((gemini.read, gemini.output), (Some(Tokens(8)), Some(Tokens(7))));
        assert_eq!(Usage::parse(&serde_json::json!({"seconds": 3})), None);
    }

    #[test]
    fn a_bill_has_every_kind_of_token_at_its_price() {
        let price = crate::prices::find("claude-sonnet-4-5").unwrap().price;
        let usage = Usage::parse(&serde_json::json!({
            "input_tokens": 1_000_000, "cache_read_input_tokens": 1_000_000, "cache_creation_input_tokens": 2_000_000,
            "cache_creation": {"ephemeral_5m_input_tokens": 1_000_000, "ephemeral_1h_input_tokens": 1_000_000},
            "output_tokens": 1_000_000,
        }));
        let usage = usage.unwrap();
        let bill = usage.bill(&price);
        assert_eq!((bill.fresh.0, bill.written.0, bill.output.0), (3.0, 3.75 + 6.0, 15.0));
        assert!((bill.read.0 - 0.3).abs() < 1e-9);
        assert!((usage.bill_without_cache(&price).input().0 - 12.0).abs() < 1e-9);
        assert!(
            (bill.input() - usage.bill_without_cache(&price).input()).0 > 0.0,
            "writing twice what is read costs more"
        );
        assert_eq!(usage.hit_rate(), Some(0.25));
    }
}
