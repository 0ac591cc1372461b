//! How long a provider asks to wait, wherever it says it: the rows of `delays.toml`.

use std::sync::LazyLock;
use std::time::Duration;

use longhaul_engine::table;
use regex::Regex;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use crate::agents::Moment;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(deserialize_with = "pattern")]
    words: Regex,
    said: Vec<Said>,
    limits: Vec<Limit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    header: String,
    form: Form,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    header: String,
    remaining: String,
    form: Form,
}

/// How a delay is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    Milliseconds,
    Seconds,
    Span,
    Moment,
    Epoch,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table::load("delays.toml", include_str!("delays.toml"), Ok));

fn pattern<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(from)?;
    Regex::new(&format!("(?i){text}")).map_err(serde::de::Error::custom)
}

/// The delay that the head or the words of an error ask for.
pub(super) fn asked(headers: &HeaderMap, words: &str) -> Option<Duration> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let now = value("date").and_then(date);
    let said = TABLE.said.iter().find_map(|row| row.form.read(value(&row.header)?, now));
    let exhausted = || {
        let empty = |row: &&Limit| value(&row.remaining).is_some_and(|left| left.parse() == Ok(0.0));
        let resets = TABLE.limits.iter().filter(empty);
        resets.filter_map(|row| row.form.read(value(&row.header)?, now)).max()
    };
    said.or_else(|| span(TABLE.words.captures(words)?.name("span")?.as_str())).or_else(exhausted)
}

impl Form {
    fn read(self, text: &str, now: Option<Moment>) -> Option<Duration> {
        match self {
            Self::Milliseconds => seconds(text.parse::<f64>().ok()? / 1000.0),
            Self::Seconds => text.parse().ok().and_then(seconds).or_else(|| until(date(text)?, now)),
            Self::Span => span(text),
            Self::Moment => until(Moment::parse(text)?, now),
            // No count of seconds has so many digits for some millennia.
            Self::Epoch => {
                let count = text.parse::<f64>().ok()?;
                until(Moment::of_seconds(if count > 1e11 { count / 1000.0 } else { count }), now)
            }
        }
    }
}

fn until(moment: Moment, now: Option<Moment>) -> Option<Duration> {
    seconds(moment.seconds_since(now?))
}

fn seconds(count: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(count).ok()
}

/// Reads `6m0.5s`, `120ms`, `1 minute 30 seconds`; a number without a unit is seconds.
fn span(text: &str) -> Option<Duration> {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?<count>\d+(?:\.\d+)?)\s*(?<unit>[a-z]*)").ok());
    let text = text.to_ascii_lowercase();
    let parts = PART.as_ref()?.captures_iter(&text).map(|part| {
        let unit = match &part["unit"] {
            unit if unit == "ms" || unit.starts_with("milli") => 0.001,
            unit if unit.is_empty() || unit.starts_with('s') => 1.0,
            unit if unit.starts_with('m') => 60.0,
            unit if unit.starts_with('h') => 3600.0,
            unit if unit.starts_with('d') => 86_400.0,
            _ => return None,
        };
        Some(part["count"].parse::<f64>().ok()? * unit)
    });
    let total = parts.collect::<Option<Vec<f64>>>()?;
    if total.is_empty() { None } else { seconds(total.iter().sum()) }
}

/// Reads a date of HTTP, `Wed, 21 Oct 2026 07:28:00 GMT`.
fn date(text: &str) -> Option<Moment> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let parts: Vec<&str> = rest.split_whitespace().collect();
    let [day, month, year, clock, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Moment::parse(&format!("{year}-{month:02}-{day:0>2}T{clock}Z"))
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
        for (headers, wanted) in cases {
            assert_eq!(asked(&head(headers), "").map(|delay| delay.as_secs_f64()), wanted, "{headers:?}");
        }
    }

    #[test]
    fn words_say_it_too() {
        let cases = [
            (
                "Limit 10000, Used 8554, Requested 3082. Please try again in 9.816s. Visit https://",
                Some(9.816),
            ),
            ("Please try again in 6m0s.", Some(360.0)),
            ("Please try again in 20ms.", Some(0.02)),
            ("Please retry after 86400 seconds.", Some(86_400.0)),
            ("Please retry in 23.5s.", Some(23.5)),
            ("try again in 1 minute 30 seconds", Some(90.0)),
            ("please wait before trying again", None),
            ("we retry 3 things", None),
        ];
        for (words, wanted) in cases {
            assert_eq!(asked(&HeaderMap::new(), words).map(|delay| delay.as_secs_f64()), wanted, "{words}");
        }
        let both = head(&[("retry-after", "2")]);
        assert_eq!(
            asked(&both, "try again in 9s"),
            Some(Duration::from_secs(2)),
            "the head is meant for machines"
        );
    }
}
