//! Finds the delay that a provider asks for, in headers or in the error's text: the rows of `delays.toml`.

use std::sync::LazyLock;
use std::time::Duration;

use longhaul_engine::table;
use regex::Regex;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use longhaul_engine::Timestamp;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DelayTable {
    #[serde(deserialize_with = "pattern")]
    words: Regex,
    headers: Vec<DelayHeader>,
    limits: Vec<RateLimitHeader>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DelayHeader {
    header: String,
    form: DelayFormat,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateLimitHeader {
    header: String,
    remaining: String,
    form: DelayFormat,
}

/// The notation of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DelayFormat {
    Milliseconds,
    /// Seconds, or an HTTP date.
    Seconds,
    /// Numbers with units, such as `6m0.5s`.
    Span,
    /// A date and time.
    Timestamp,
    /// Seconds or milliseconds since 1970.
    Epoch,
}

static TABLE: LazyLock<DelayTable> = LazyLock::new(|| table::load("delays.toml", include_str!("delays.toml"), Ok));

fn pattern<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(from)?;
    Regex::new(&format!("(?i){text}")).map_err(serde::de::Error::custom)
}

/// Returns the delay that the headers or the text of an error ask for. Headers that give a delay come first,
/// then the text, then the reset times of exhausted limits.
pub(super) fn requested_delay(headers: &HeaderMap, text: &str) -> Option<Duration> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let now = value("date").and_then(parse_http_date);
    let from_header = TABLE.headers.iter().find_map(|row| row.form.parse(value(&row.header)?, now));
    let exhausted = || {
        let empty =
            |row: &&RateLimitHeader| value(&row.remaining).is_some_and(|remaining| remaining.parse() == Ok(0.0));
        let resets = TABLE.limits.iter().filter(empty);
        resets.filter_map(|row| row.form.parse(value(&row.header)?, now)).max()
    };
    from_header.or_else(|| parse_span(TABLE.words.captures(text)?.name("span")?.as_str())).or_else(exhausted)
}

impl DelayFormat {
    fn parse(self, text: &str, now: Option<Timestamp>) -> Option<Duration> {
        match self {
            Self::Milliseconds => duration_from_seconds(text.parse::<f64>().ok()? / 1000.0),
            Self::Seconds => {
                text.parse().ok().and_then(duration_from_seconds).or_else(|| time_until(parse_http_date(text)?, now))
            }
            Self::Span => parse_span(text),
            Self::Timestamp => time_until(Timestamp::parse(text)?, now),
            // A number above 1e11 is in milliseconds: as seconds it would be thousands of years away.
            Self::Epoch => {
                let count = text.parse::<f64>().ok()?;
                time_until(Timestamp::from_seconds(if count > 1e11 { count / 1000.0 } else { count }), now)
            }
        }
    }
}

fn time_until(time: Timestamp, now: Option<Timestamp>) -> Option<Duration> {
    duration_from_seconds(time.seconds_since(now?))
}

fn duration_from_seconds(count: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(count).ok()
}

/// Parses `6m0.5s`, `120ms`, `1 minute 30 seconds`; a number without a unit is in seconds.
fn parse_span(text: &str) -> Option<Duration> {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?<count>\d+(?:\.\d+)?)\s*(?<unit>[a-z]*)").ok());
    let text = text.to_ascii_lowercase();
    let parts = PART.as_ref()?.captures_iter(&text).map(|part| {
        let seconds_per_unit = match &part["unit"] {
            unit if unit == "ms" || unit.starts_with("milli") => 0.001,
            unit if unit.is_empty() || unit.starts_with('s') => 1.0,
            unit if unit.starts_with('m') => 60.0,
            unit if unit.starts_with('h') => 3600.0,
            unit if unit.starts_with('d') => 86_400.0,
            _ => return None,
        };
        Some(part["count"].parse::<f64>().ok()? * seconds_per_unit)
    });
    let total = parts.collect::<Option<Vec<f64>>>()?;
    if total.is_empty() { None } else { duration_from_seconds(total.iter().sum()) }
}

/// Parses an HTTP date, such as `Wed, 21 Oct 2026 07:28:00 GMT`.
fn parse_http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let parts: Vec<&str> = rest.split_whitespace().collect();
    let [day, month, year, clock, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Timestamp::parse(&format!("{year}-{month:02}-{day:0>2}T{clock}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs = &'static [(&'static str, &'static str)];

    fn head(headers: Pairs) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            ((*name).parse::<reqwest::header::HeaderName>().unwrap(), value.parse().unwrap())
        };
        headers.iter().map(pair).collect()
    }

    #[test]
    fn every_header_is_understood() {
        const DATE: (&str, &str) = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
        let cases: [(Pairs, Option<f64>); 13] = [
            (&[("retry-after", "12")], Some(12.0)),
            (&[("retry-after", "1.5")], Some(1.5)),
            (&[("retry-after-ms", "250"), ("retry-after", "1")], Some(0.25)),
            (&[DATE, ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], Some(30.0)),
            (&[DATE, ("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT")], Some(0.0)),
            (&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], None),
            (&[("retry-after", "-3")], None),
            (&[("retry-after", "soon")], None),
            (
                &[
                    DATE,
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-10-21T07:28:07Z"),
                    ("anthropic-ratelimit-requests-remaining", "49"),
                    ("anthropic-ratelimit-requests-reset", "2026-10-21T07:29:00Z"),
                ],
                Some(7.0),
            ),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0.5s")], Some(360.5)),
            (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "120ms")], Some(0.12)),
            (&[DATE, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1792567690000")], Some(10.0)),
            (&[("x-ratelimit-remaining-tokens", "7"), ("x-ratelimit-reset-tokens", "1s")], None),
        ];
        for (headers, expected) in cases {
            assert_eq!(requested_delay(&head(headers), "").map(|delay| delay.as_secs_f64()), expected, "{headers:?}");
        }
    }

    #[test]
    fn words_say_it_too() {
        let cases = [
            ("Limit 10000, Used 8554, Requested 3082. Please try again in 9.816s. Visit https://", Some(9.816)),
            ("Please try again in 6m0s.", Some(360.0)),
            ("Please try again in 20ms.", Some(0.02)),
            ("Please retry after 86400 seconds.", Some(86_400.0)),
            ("Please retry in 23.5s.", Some(23.5)),
            ("try again in 1 minute 30 seconds", Some(90.0)),
            ("please wait before trying again", None),
            ("we retry 3 things", None),
        ];
        for (text, expected) in cases {
            assert_eq!(requested_delay(&HeaderMap::new(), text).map(|delay| delay.as_secs_f64()), expected, "{text}");
        }
        let both = head(&[("retry-after", "2")]);
        assert_eq!(
            requested_delay(&both, "try again in 9s"),
            Some(Duration::from_secs(2)),
            "the head is meant for machines"
        );
    }
}
