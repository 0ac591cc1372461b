//! Checks a request body against the rules that its provider enforces, and a rewritten body against its
//! original.
//!
//! The function [`check()`] checks one body, [`compare()`] a body and its rewrite, and [`check_rerun`] two
//! runs over the same input. They read plain JSON values and share nothing with the parser or the passes but
//! [`ApiFormat`], so that they can find mistakes there.
//!
//! ```text
//! json_path.rs   where a value is in the body
//! parse.rs       text → value, and faults of the text itself (G1)
//! rules.rs       every rule: number, severity, scope, meaning; and the rules that cannot be checked in a body
//! target.rs      the host and model that receive the body; hosts.toml lists which host enforces which rule
//! fields.rs      the JSON types of the known fields (G12), one table for each API format
//! chat.rs        O rules            messages.rs, pairing.rs, thinking.rs, breakpoints.rs   A rules
//! responses.rs   R rules            media.rs    sizes and formats of images and documents
//! host_rules.rs, mistral.rs         rules of single hosts: M, X, B, Ge
//! pieces.rs, turn_matching.rs       V rules: a body as pieces in turns, and which turns a rewrite kept
//! compare.rs                        V rules: what a rewrite may change
//! ```
//!
//! # Severity
//!
//! An **error** is a rule whose violation the provider answers with a 4xx status, according to published
//! evidence. A **warning** is a rule that is not confirmed, that other hosts enforce but perhaps not this
//! one, or that depends on a fact about the model that the caller did not give. A **silent** violation is
//! accepted, but loses something.
//!
//! - A rule of the API format has the severity of the table.
//! - A *suspected* rule (a limit of one host that others probably share) has the severity of the table on the
//!   hosts that `hosts.toml` lists for it, and is a warning on other hosts.
//! - A rule of a *host* applies only where `hosts.toml` lists it.
//! - A rule that depends on the model is an error if [`Target`] confirms the fact, and does not apply if
//!   [`Target`] denies it. If the fact is unknown, the field of [`Target`] says whether the rule is a warning
//!   or does not apply.
//!
//! ```
//! use longhaul_engine::{ApiFormat, check::{check, Target}};
//! let body = r#"{"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"c1","content":"ok"}]}"#;
//! let found = check(body, ApiFormat::Chat, &Target::default_for(ApiFormat::Chat));
//! assert_eq!((found[0].rule, found[0].at.as_str()), ("O1", "/messages/1"));
//! ```

mod block;
mod breakpoints;
mod chat;
mod compare;
mod fields;
mod host_rules;
mod json_path;
mod media;
mod messages;
mod mistral;
mod pairing;
mod parse;
mod pieces;
mod responses;
mod rules;
mod target;
mod thinking;
mod turn_matching;

use serde_json::Value;

use crate::ApiFormat;

use json_path::JsonPath;

pub use compare::{check_rerun, compare};
pub use rules::{NOT_CHECKED, RULES, Rule, Scope};
pub use target::{Host, Target};

/// The severity of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The provider refuses the request.
    Error,
    /// The rule is not confirmed for this provider, or depends on something that the body does not show.
    Warning,
    /// The provider accepts the request, but data or cache is lost.
    Silent,
}

/// A violation of one rule at one place.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The number of the rule, as in [`RULES`].
    pub rule: &'static str,
    /// The severity for this target.
    pub severity: Severity,
    /// The place, as a JSON pointer into the body (the rewritten one, when two are compared). It is empty for
    /// the body as a whole.
    pub at: String,
    /// One sentence that says what is wrong and what to do.
    pub message: String,
}

/// Returns all violations of `body`, of every severity, in the order in which they were found. A body without
/// a violation of severity [`Severity::Error`] is accepted, as far as is known.
///
/// A bare array is checked as the messages (or input items) of a body whose other fields are unknown.
#[must_use]
pub fn check(body: &str, api_format: ApiFormat, target: &Target) -> Vec<Violation> {
    let mut findings = Findings::new(target);
    if let Some(value) = parse::parse_body(body, &mut findings) {
        check_value(&value, body.len(), api_format, &mut findings);
    }
    findings.violations
}

fn check_value(value: &Value, bytes: usize, api_format: ApiFormat, findings: &mut Findings) {
    let Some(request) = CheckedRequest::from_value(value, bytes, api_format) else {
        let wanted = if api_format == ApiFormat::Responses { "`input`" } else { "a `messages` array" };
        findings.report(
            &rules::G1,
            "",
            format!("this is not a {api_format} request: send an object with {wanted}, or a bare array"),
        );
        return;
    };
    fields::check(&request, api_format, findings);
    match api_format {
        ApiFormat::Chat => chat::check(&request, findings),
        ApiFormat::Messages => messages::check(&request, findings),
        ApiFormat::Responses => responses::check(&request, findings),
    }
}

/// A request body, split only as far as all API formats allow.
struct CheckedRequest<'v> {
    /// The whole object, or `Null` for a bare array, so that every field reads as absent.
    body: &'v Value,
    /// Whether the body is a bare array, so that nothing is known about the other fields.
    is_bare_list: bool,
    messages: &'v [Value],
    /// The path of the list of messages.
    messages_path: JsonPath,
    body_bytes: usize,
}

impl<'v> CheckedRequest<'v> {
    fn from_value(value: &'v Value, bytes: usize, api_format: ApiFormat) -> Option<Self> {
        let key = api_format.messages_field();
        if let Some(messages) = value.as_array() {
            return Some(Self {
                body: &Value::Null,
                is_bare_list: true,
                messages,
                messages_path: JsonPath::ROOT,
                body_bytes: bytes,
            });
        }
        let messages = match value.get(key)? {
            Value::Array(messages) => messages.as_slice(),
            Value::String(_) if api_format == ApiFormat::Responses => &[],
            _ => return None,
        };
        Some(Self {
            body: value,
            is_bare_list: false,
            messages,
            messages_path: JsonPath::ROOT / key,
            body_bytes: bytes,
        })
    }

    fn message_path(&self, message: usize) -> JsonPath {
        self.messages_path / message
    }

    fn last_message(&self) -> Option<(usize, &'v Value)> {
        self.messages.len().checked_sub(1).map(|i| (i, &self.messages[i]))
    }

    /// Returns the definitions in `tools` with their indices.
    fn tools(&self) -> impl Iterator<Item = (usize, &'v Value)> + use<'v> {
        indexed(&self.body["tools"])
    }
}

/// Returns the elements of a JSON array with their indices, or nothing for any other value.
fn indexed(value: &Value) -> impl Iterator<Item = (usize, &Value)> + use<'_> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate()
}

/// Returns the role of a message, or an empty string if it has none.
fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

/// Returns the `type` of a block or item, or an empty string if it has none.
fn type_of(block: &Value) -> &str {
    block["type"].as_str().unwrap_or_default()
}

/// Returns whether a text has `min` to `max` characters, all of them ASCII letters, digits or in `extra`.
fn is_identifier(text: &str, extra: &str, min: usize, max: usize) -> bool {
    (min..=max).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
}

/// Quotes a text in backticks, cut to a length that fits into a message.
fn quote(text: &str) -> String {
    const MAX_QUOTED_CHARS: usize = 48;
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Collects violations with the severity that they have for the target.
struct Findings<'t> {
    target: &'t Target,
    violations: Vec<Violation>,
}

impl<'t> Findings<'t> {
    fn new(target: &'t Target) -> Self {
        Self { target, violations: Vec::new() }
    }

    /// Reports a broken rule if it applies to the host.
    fn report(&mut self, rule: &'static Rule, at: impl Into<String>, message: impl Into<String>) {
        if let Some(severity) = rule.severity_on(&self.target.host) {
            self.report_with_severity(severity, rule, at, message);
        }
    }

    /// Reports a broken rule that depends on a fact about the model: as a warning if the fact is unknown, and
    /// not at all if the fact is false.
    fn report_if_model(
        &mut self,
        fact: Option<bool>,
        rule: &'static Rule,
        at: impl Into<String>,
        message: impl Into<String>,
    ) {
        match fact {
            Some(true) => self.report_with_severity(rule.severity, rule, at, message),
            None => self.report_with_severity(Severity::Warning, rule, at, message),
            Some(false) => {}
        }
    }

    fn report_with_severity(
        &mut self,
        severity: Severity,
        rule: &'static Rule,
        at: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.violations.push(Violation { rule: rule.number, severity, at: at.into(), message: message.into() });
    }
}
