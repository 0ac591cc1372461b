//! What an error means, by its words, its code and its status: the rows of `wordings.toml`, then a table of statuses.

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use longhaul_engine::{Tokens, table};
use regex::{Captures, Regex};
use serde::Deserialize;

use super::said::Said;
use super::{Trouble, Upstream};

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Means {
    TooLong,
    TooLarge,
    RateLimited,
    Overloaded,
    Refused,
    BadRequest,
    Redirected,
}

/// What a status means where the words do not say more; the first that holds it.
const STATUSES: &[(RangeInclusive<u16>, Means)] = &[
    (300..=399, Means::Redirected),
    (401..=407, Means::Refused),
    (408..=408, Means::Overloaded),
    (410..=410, Means::Refused),
    (413..=413, Means::TooLarge),
    (425..=425, Means::Overloaded),
    (429..=429, Means::RateLimited),
    (501..=501, Means::Refused),
    (505..=505, Means::Refused),
    (500..=599, Means::Overloaded),
];

#[derive(Deserialize)]
struct Table {
    wording: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    means: Means,
    from: Option<u16>,
    #[serde(default)]
    codes: Vec<String>,
    #[serde(default, deserialize_with = "pattern")]
    pattern: Option<Regex>,
    maximum: Option<String>,
    sent: Option<String>,
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests hold the row against it"))]
    by: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests hold the row against it"))]
    example: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests hold the row against it"))]
    unlike: String,
}

fn pattern<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Regex>, D::Error> {
    let text = String::deserialize(from)?;
    Regex::new(&format!("(?is){text}")).map(Some).map_err(serde::de::Error::custom)
}

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    table::load("wordings.toml", include_str!("wordings.toml"), |table: Table| Ok(table.wording))
});

/// The trouble that an error stands for. `status` is the one that it came with, and `delay` what else was said about waiting.
pub(super) fn judge(
    upstream: &Upstream,
    status: Option<u16>,
    said: &Said,
    delay: Option<Duration>,
) -> Trouble {
    let status = status.or(said.status());
    let hit = TABLE.iter().find_map(|row| row.hit(status, said));
    let Hit { means, maximum, sent } =
        hit.unwrap_or_else(|| Hit { means: by_status(status), maximum: None, sent: None });
    match means {
        Means::TooLong => Trouble::TooLong { maximum, sent },
        Means::TooLarge => Trouble::TooLarge(said.shown(upstream)),
        Means::RateLimited => Trouble::RateLimited { delay },
        Means::Overloaded => Trouble::Overloaded { delay },
        Means::Refused => Trouble::Refused(said.shown(upstream)),
        Means::BadRequest => Trouble::BadRequest(said.shown(upstream)),
        Means::Redirected => Trouble::Redirected(said.shown(upstream)),
    }
}

/// An error of no status and no known words came in the place of an answer: nothing tells that the request was at fault.
fn by_status(status: Option<u16>) -> Means {
    status.map_or(Means::Overloaded, |status| {
        STATUSES
            .iter()
            .find(|(range, _)| range.contains(&status))
            .map_or(Means::BadRequest, |(_, means)| *means)
    })
}

struct Hit {
    means: Means,
    maximum: Option<Tokens>,
    sent: Option<Tokens>,
}

impl Row {
    fn hit(&self, status: Option<u16>, said: &Said) -> Option<Hit> {
        if status.zip(self.from).is_some_and(|(status, from)| status < from) {
            return None;
        }
        let found = self.pattern.as_ref().and_then(|pattern| pattern.captures(said.opening()));
        let coded = said.codes.iter().any(|code| self.codes.contains(code));
        (found.is_some() || coded).then(|| {
            let tokens = |name: &str, field: &Option<String>| {
                let told = found.as_ref().and_then(|found| number(found, name));
                told.or_else(|| said.number(field.as_deref()?)).filter(|count| *count > 0).map(Tokens)
            };
            Hit {
                means: self.means,
                maximum: tokens("maximum", &self.maximum),
                sent: tokens("sent", &self.sent),
            }
        })
    }
}

/// A number as it is written in a sentence, with commas or without.
fn number(found: &Captures<'_>, name: &str) -> Option<u64> {
    found.name(name)?.as_str().replace([',', '_'], "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Provider;

    fn upstream() -> Upstream {
        Upstream::new(Provider::named("openai").unwrap(), None, None).unwrap()
    }

    fn said(body: &str) -> Said {
        Said::read(body.as_bytes())
    }

    /// The rows are tried in order, so a row's own example must also get past those before it.
    #[test]
    fn every_row_is_hit_by_its_example_and_not_by_what_it_is_unlike() {
        for row in TABLE.iter() {
            let hit = TABLE.iter().find(|other| other.hit(None, &said(&row.example)).is_some());
            let own = hit.is_some_and(|hit| std::ptr::eq(hit, row));
            assert!(own, "{}: another row is hit first by {}", row.by, row.example);
            assert!(row.hit(None, &said(&row.unlike)).is_none(), "{}: {}", row.by, row.unlike);
            assert!(row.pattern.is_some() || !row.codes.is_empty(), "{}", row.by);
        }
    }

    #[test]
    fn only_what_is_too_long_has_numbers_of_tokens() {
        for row in TABLE.iter() {
            let hit = row.hit(None, &said(&row.example)).unwrap();
            assert!(row.means == Means::TooLong || (hit.maximum, hit.sent) == (None, None), "{}", row.by);
        }
    }

    #[test]
    fn each_way_to_say_too_long_gives_its_numbers() {
        let cases = [
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000), Some(210_000)),
            ("Prompt is too long", None, None),
            (
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or \
                 `max_tokens` and try again",
                Some(200_000),
                Some(178_959),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. Please \
                 reduce the length of the messages.",
                Some(8192),
                Some(8545),
            ),
            (
                "This model's maximum context length is 4097 tokens. However, you requested 4203 tokens (3703 in the \
                 messages, 500 in the completion). Please reduce the length of the messages or completion.",
                Some(4097),
                Some(3703),
            ),
            (
                "This model's maximum context length is 4097 tokens, however you requested 4322 tokens (4066 in your \
                 prompt; 256 for the completion). Please reduce your prompt; or completion length.",
                Some(4097),
                Some(4066),
            ),
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 \
                 of text input). Please reduce the length of either one, or use the \"middle-out\" transform to compress \
                 your prompt automatically.",
                Some(32_768),
                Some(42_832),
            ),
            (
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 42932 tokens (42832 \
                 of text input, 100 of tool input). Please reduce the length of either one.",
                Some(32_768),
                None,
            ),
            (
                "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your \
                 prompt contains at least 134145 input tokens, for a total of at least 262145 tokens.",
                Some(262_144),
                None,
            ),
            (
                "The input token count exceeds the maximum number of tokens allowed 1,048,576.",
                Some(1_048_576),
                None,
            ),
        ];
        for (words, maximum, sent) in cases {
            let wanted = Trouble::TooLong { maximum: maximum.map(Tokens), sent: sent.map(Tokens) };
            let error = Said::of(&serde_json::json!({ "error": { "message": words } }));
            assert_eq!(judge(&upstream(), Some(400), &error, None), wanted, "{words}");
        }
        let fields = said(
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it",
               "type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        );
        let wanted = Trouble::TooLong { maximum: Some(Tokens(4096)), sent: Some(Tokens(5000)) };
        assert_eq!(judge(&upstream(), Some(400), &fields, None), wanted);
    }

    #[test]
    fn other_errors_with_such_words_are_not_taken_for_it() {
        let cases = [
            (
                400,
                "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 52 instead.",
            ),
            (
                400,
                "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 132 instead.",
            ),
            (
                400,
                "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude",
            ),
            (400, "Invalid schema for function 'context_length': 'maximum' is not of type 'number'"),
            (400, "messages.3: tool_use ids were found without tool_result blocks immediately after"),
            (422, "temperature must be at most 2"),
        ];
        for (status, words) in cases {
            let error = Said::of(
                &serde_json::json!({ "error": { "message": words, "type": "invalid_request_error" } }),
            );
            let trouble = judge(&upstream(), Some(status), &error, None);
            assert!(matches!(trouble, Trouble::BadRequest(_)), "{words}: {trouble:?}");
        }
        let wrong =
            Said::of(&serde_json::json!({ "error": { "type": "api_error", "message": "no such user" } }));
        assert!(matches!(judge(&upstream(), Some(401), &wrong, None), Trouble::Refused(_)));
        assert!(matches!(judge(&upstream(), Some(500), &wrong, None), Trouble::Overloaded { .. }));
        let tpm = Said::of(&serde_json::json!({ "error": { "code": "rate_limit_exceeded", "message":
            "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Used 8554, Requested 3082. \
             Please try again in 9.816s." } }));
        assert_eq!(judge(&upstream(), Some(429), &tpm, None), Trouble::RateLimited { delay: None });
    }

    #[test]
    fn a_status_speaks_where_the_words_do_not() {
        for (status, reaction) in [
            (301, "AnotherModel"),
            (400, "GiveUp"),
            (401, "AnotherModel"),
            (404, "AnotherModel"),
            (413, "Compress"),
            (418, "GiveUp"),
            (422, "GiveUp"),
            (429, "Wait"),
            (500, "Wait"),
            (502, "Wait"),
            (503, "Wait"),
            (529, "Wait"),
        ] {
            let trouble = judge(&upstream(), Some(status), &Said::default(), None);
            assert_eq!(format!("{:?}", trouble.reaction()), reaction, "{status}: {trouble:?}");
        }
    }
}
