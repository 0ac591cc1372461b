//! Judges a request body by the rules its provider enforces, and a rewritten body against its original.
//!
//! [`check`] looks at one body, [`compare`] at a pair, [`repeated`] at two runs over the same input. They read plain JSON
//! values and share nothing with the parser or the passes but [`Dialect`], so that they can judge them.
//!
//! ```text
//! place.rs       where in the body
//! json.rs        text → value, and what is wrong with the text itself (G1)
//! rules.rs       every rule: number, severity, scope, meaning; and the numbers that cannot be seen in a body
//! target.rs      who receives the body; hosts.toml says which host enforces what
//! fields.rs      which JSON types the known fields take (G12), one table a dialect
//! chat.rs        O rules            messages.rs, pairing.rs, thinking.rs, marks.rs   A rules
//! responses.rs   R rules            media.rs    sizes and shapes of images and documents
//! hosts.rs, mistral.rs              rules of one host only: M, X, B, Ge
//! pieces.rs, align.rs, compare.rs   V rules: a body as blocks in units, which of them a rewrite kept, what must hold
//! ```
//!
//! # Severity
//!
//! An **error** is what the provider answers with a 4xx, as far as published evidence goes. A **warning** is a rule that is
//! not confirmed, that holds for other hosts but is not known to hold for this one, or that depends on a fact about the
//! model that the caller did not give. **Silent** is accepted, but loses something. The three come about like this:
//!
//! - a rule of the dialect has the severity of the table;
//! - a *suspected* rule (a limit of one host, likely elsewhere) has it where `hosts.toml` lists it, and is a warning on
//!   other hosts;
//! - a rule of a *host* holds only where `hosts.toml` lists it;
//! - a rule that depends on the model is an error when [`Target`] says that it holds, absent when it says that it does
//!   not, and a warning when nothing is known and the body would be refused by some models of the host.
//!
//! ```
//! use longhaul_engine::{Dialect, check::{check, Target}};
//! let body = r#"{"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"c1","content":"ok"}]}"#;
//! let found = check(body, Dialect::Chat, &Target::of(Dialect::Chat));
//! assert_eq!((found[0].rule, found[0].at.as_str()), ("O1", "/messages/1"));
//! ```

mod align;
mod block;
mod chat;
mod compare;
mod fields;
mod hosts;
mod json;
mod marks;
mod media;
mod messages;
mod mistral;
mod pairing;
mod pieces;
mod place;
mod responses;
mod rules;
mod target;
mod thinking;

use serde_json::Value;

use crate::Dialect;

use place::At;

pub use compare::{compare, repeated};
pub use rules::{NOT_CHECKED, RULES, Rule, Scope};
pub use target::{Host, Target};

/// How bad a violation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The provider refuses the body.
    Error,
    /// Not confirmed for this provider, or dependent on something the body does not say.
    Warning,
    /// Accepted, but data or cache is lost.
    Silent,
}

/// One rule broken at one place.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The rule's number, as in [`RULES`].
    pub rule: &'static str,
    /// How bad it is for this target.
    pub severity: Severity,
    /// Where: a JSON pointer into the body (the rewritten one, for a pair); empty for the body as a whole.
    pub at: String,
    /// What is wrong and what to do, in one sentence.
    pub message: String,
}

/// What the receiver of `body` would refuse, in the order of the rules' discovery. Empty: accepted, as far as is known.
///
/// A bare array is taken as the messages (or input items) of a body whose other fields are not known.
#[must_use]
pub fn check(body: &str, dialect: Dialect, target: &Target) -> Vec<Violation> {
    let mut findings = Findings::new(target);
    if let Some(value) = json::read(body, &mut findings) {
        check_value(&value, body.len(), dialect, &mut findings);
    }
    findings.list
}

fn check_value(value: &Value, bytes: usize, dialect: Dialect, findings: &mut Findings) {
    let Some(request) = Request::of(value, bytes, dialect) else {
        let wanted = if dialect == Dialect::Responses { "`input`" } else { "a `messages` array" };
        findings.report(
            &rules::G1,
            "",
            format!("this is no {dialect} request: send an object with {wanted}, or a bare array"),
        );
        return;
    };
    fields::check(&request, dialect, findings);
    match dialect {
        Dialect::Chat => chat::check(&request, findings),
        Dialect::Messages => messages::check(&request, findings),
        Dialect::Responses => responses::check(&request, findings),
    }
}

/// A body taken apart only as far as every dialect allows.
struct Request<'v> {
    /// The whole object; `Null` for a bare array, so that every field reads as absent.
    envelope: &'v Value,
    /// Whether the fields beside the messages are known.
    bare: bool,
    messages: &'v [Value],
    /// Where the list of messages is.
    root: At,
    bytes: usize,
}

impl<'v> Request<'v> {
    fn of(value: &'v Value, bytes: usize, dialect: Dialect) -> Option<Self> {
        let key = dialect.list();
        if let Some(messages) = value.as_array() {
            return Some(Self { envelope: &Value::Null, bare: true, messages, root: At::BODY, bytes });
        }
        let messages = match value.get(key)? {
            Value::Array(messages) => messages.as_slice(),
            Value::String(_) if dialect == Dialect::Responses => &[],
            _ => return None,
        };
        Some(Self { envelope: value, bare: false, messages, root: At::BODY / key, bytes })
    }

    fn at(&self, message: usize) -> At {
        self.root / message
    }

    fn last(&self) -> Option<(usize, &'v Value)> {
        self.messages.len().checked_sub(1).map(|i| (i, &self.messages[i]))
    }

    /// The definitions in `tools`, numbered.
    fn tools(&self) -> impl Iterator<Item = (usize, &'v Value)> + use<'v> {
        list(&self.envelope["tools"])
    }
}

/// The elements of a JSON array, numbered; nothing for any other value.
fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> + use<'_> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate()
}

/// The role of a message; empty where there is none.
fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

/// The kind of a block or item; empty where there is none.
fn kind(block: &Value) -> &str {
    block["type"].as_str().unwrap_or_default()
}

/// Whether a text has between `min` and `max` characters, all ASCII letters, digits or one of `extra`.
fn is_word(text: &str, extra: &str, min: usize, max: usize) -> bool {
    (min..=max).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
}

/// A text short enough to be quoted in a message.
fn quoted(text: &str) -> String {
    const MOST: usize = 48;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Collects violations and gives each the severity it has for the target.
struct Findings<'t> {
    target: &'t Target,
    list: Vec<Violation>,
}

impl<'t> Findings<'t> {
    fn new(target: &'t Target) -> Self {
        Self { target, list: Vec::new() }
    }

    /// Reports a broken rule, unless it does not hold for the target.
    fn report(&mut self, rule: &'static Rule, at: impl Into<String>, message: impl Into<String>) {
        if let Some(severity) = rule.severity_on(&self.target.host) {
            self.report_as(severity, rule, at, message);
        }
    }

    /// Reports a broken rule that depends on a fact about the model: not at all where the fact is known to be otherwise.
    fn report_if(
        &mut self,
        fact: Option<bool>,
        rule: &'static Rule,
        at: impl Into<String>,
        message: impl Into<String>,
    ) {
        match fact {
            Some(true) => self.report_as(rule.severity, rule, at, message),
            None => self.report_as(Severity::Warning, rule, at, message),
            Some(false) => {}
        }
    }

    fn report_as(
        &mut self,
        severity: Severity,
        rule: &'static Rule,
        at: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.list.push(Violation { rule: rule.number, severity, at: at.into(), message: message.into() });
    }
}
