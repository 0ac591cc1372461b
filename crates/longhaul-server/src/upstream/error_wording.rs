//! Classifies errors by their text, codes and status: first by the rows of `wordings.toml`, then by a table
//! of statuses.

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use longhaul_engine::{Tokens, table};
use regex::{Captures, Regex};
use serde::Deserialize;

use super::error_body::ErrorBody;
use super::{Upstream, UpstreamError};

/// The meaning of an error, as the table names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ErrorMeaning {
    TooLong,
    TooLarge,
    RateLimited,
    Overloaded,
    Refused,
    BadRequest,
    Redirected,
}

/// The meaning of a status if no wording matches. The first range that contains the status applies.
const STATUS_MEANINGS: &[(RangeInclusive<u16>, ErrorMeaning)] = &[
    (300..=399, ErrorMeaning::Redirected),
    (401..=407, ErrorMeaning::Refused),
    (408..=408, ErrorMeaning::Overloaded),
    (410..=410, ErrorMeaning::Refused),
    (413..=413, ErrorMeaning::TooLarge),
    (425..=425, ErrorMeaning::Overloaded),
    (429..=429, ErrorMeaning::RateLimited),
    (501..=501, ErrorMeaning::Refused),
    (505..=505, ErrorMeaning::Refused),
    (500..=599, ErrorMeaning::Overloaded),
];

#[derive(Deserialize)]
struct WordingTable {
    wording: Vec<WordingRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WordingRow {
    means: ErrorMeaning,
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

static TABLE: LazyLock<Vec<WordingRow>> = LazyLock::new(|| {
    table::load("wordings.toml", include_str!("wordings.toml"), |table: WordingTable| Ok(table.wording))
});

/// Classifies an error. `status` is the HTTP status, if there is one, and `delay` the delay that the provider
/// asks for.
pub(super) fn classify_error(
    upstream: &Upstream,
    status: Option<u16>,
    error_body: &ErrorBody,
    delay: Option<Duration>,
) -> UpstreamError {
    let status = status.or(error_body.status());
    let hit = TABLE.iter().find_map(|row| row.match_error(status, error_body));
    let WordingMatch { meaning: means, maximum, sent } =
        hit.unwrap_or_else(|| WordingMatch { meaning: meaning_of_status(status), maximum: None, sent: None });
    match means {
        ErrorMeaning::TooLong => UpstreamError::TooLong { maximum, sent },
        ErrorMeaning::TooLarge => UpstreamError::TooLarge(error_body.redacted_text(upstream)),
        ErrorMeaning::RateLimited => UpstreamError::RateLimited { delay },
        ErrorMeaning::Overloaded => UpstreamError::Overloaded { delay },
        ErrorMeaning::Refused => UpstreamError::Refused(error_body.redacted_text(upstream)),
        ErrorMeaning::BadRequest => UpstreamError::BadRequest(error_body.redacted_text(upstream)),
        ErrorMeaning::Redirected => UpstreamError::Redirected(error_body.redacted_text(upstream)),
    }
}

/// Returns the meaning of a status. An error without a status arrived in place of a reply; nothing shows that
/// the request was at fault, so it counts as overload.
fn meaning_of_status(status: Option<u16>) -> ErrorMeaning {
    status.map_or(ErrorMeaning::Overloaded, |status| {
        STATUS_MEANINGS
            .iter()
            .find(|(range, _)| range.contains(&status))
            .map_or(ErrorMeaning::BadRequest, |(_, means)| *means)
    })
}

struct WordingMatch {
    meaning: ErrorMeaning,
    maximum: Option<Tokens>,
    sent: Option<Tokens>,
}

impl WordingRow {
    fn match_error(&self, status: Option<u16>, error_body: &ErrorBody) -> Option<WordingMatch> {
        if status.zip(self.from).is_some_and(|(status, from)| status < from) {
            return None;
        }
        let found = self.pattern.as_ref().and_then(|pattern| pattern.captures(error_body.opening()));
        let coded = error_body.codes.iter().any(|code| self.codes.contains(code));
        (found.is_some() || coded).then(|| {
            let tokens = |name: &str, field: &Option<String>| {
                let captured = found.as_ref().and_then(|found| captured_number(found, name));
                captured.or_else(|| error_body.numeric_field(field.as_deref()?)).filter(|count| *count > 0).map(Tokens)
            };
            WordingMatch {
                meaning: self.means,
                maximum: tokens("maximum", &self.maximum),
                sent: tokens("sent", &self.sent),
            }
        })
    }
}

/// Parses a captured number, with or without separators.
fn captured_number(found: &Captures<'_>, name: &str) -> Option<u64> {
    found.name(name)?.as_str().replace([',', '_'], "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Provider;

    fn upstream() -> Upstream {
        Upstream::new(Provider::named("openai").unwrap(), None, None).unwrap()
    }

    fn parse_error(body: &str) -> ErrorBody {
        ErrorBody::parse(body.as_bytes())
    }

    /// The rows are tried in order, so a row's own example must not match any row before it.
    #[test]
    fn every_row_is_hit_by_its_example_and_not_by_what_it_is_unlike() {
        for row in TABLE.iter() {
            let hit = TABLE.iter().find(|other| other.match_error(None, &parse_error(&row.example)).is_some());
            let is_first_match = hit.is_some_and(|hit| std::ptr::eq(hit, row));
            assert!(is_first_match, "{}: another row is hit first by {}", row.by, row.example);
            assert!(row.match_error(None, &parse_error(&row.unlike)).is_none(), "{}: {}", row.by, row.unlike);
            assert!(row.pattern.is_some() || !row.codes.is_empty(), "{}", row.by);
        }
    }

    #[test]
    fn only_what_is_too_long_has_numbers_of_tokens() {
        for row in TABLE.iter() {
            let hit = row.match_error(None, &parse_error(&row.example)).unwrap();
            assert!(row.means == ErrorMeaning::TooLong || (hit.maximum, hit.sent) == (None, None), "{}", row.by);
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
            ("The input token count exceeds the maximum number of tokens allowed 1,048,576.", Some(1_048_576), None),
        ];
        for (message, maximum, sent) in cases {
            let expected = UpstreamError::TooLong { maximum: maximum.map(Tokens), sent: sent.map(Tokens) };
            let error = ErrorBody::from_json(&serde_json::json!({ "error": { "message": message } }));
            assert_eq!(classify_error(&upstream(), Some(400), &error, None), expected, "{message}");
        }
        let fields = parse_error(
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it",
               "type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        );
        let expected = UpstreamError::TooLong { maximum: Some(Tokens(4096)), sent: Some(Tokens(5000)) };
        assert_eq!(classify_error(&upstream(), Some(400), &fields, None), expected);
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
            (400, "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude"),
            (400, "Invalid schema for function 'context_length': 'maximum' is not of type 'number'"),
            (400, "messages.3: tool_use ids were found without tool_result blocks immediately after"),
            (422, "temperature must be at most 2"),
        ];
        for (status, message) in cases {
            let error = ErrorBody::from_json(
                &serde_json::json!({ "error": { "message": message, "type": "invalid_request_error" } }),
            );
            let trouble = classify_error(&upstream(), Some(status), &error, None);
            assert!(matches!(trouble, UpstreamError::BadRequest(_)), "{message}: {trouble:?}");
        }
        let wrong =
            ErrorBody::from_json(&serde_json::json!({ "error": { "type": "api_error", "message": "no such user" } }));
        assert!(matches!(classify_error(&upstream(), Some(401), &wrong, None), UpstreamError::Refused(_)));
        assert!(matches!(classify_error(&upstream(), Some(500), &wrong, None), UpstreamError::Overloaded { .. }));
        let tpm = ErrorBody::from_json(&serde_json::json!({ "error": { "code": "rate_limit_exceeded", "message":
            "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Used 8554, Requested 3082. \
             Please try again in 9.816s." } }));
        assert_eq!(classify_error(&upstream(), Some(429), &tpm, None), UpstreamError::RateLimited { delay: None });
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
            let error = classify_error(&upstream(), Some(status), &ErrorBody::default(), None);
            assert_eq!(format!("{:?}", error.recommended_action()), reaction, "{status}: {error:?}");
        }
    }
}
