//! Records how each value of a policy was derived.

use serde::Serialize;
use serde_json::Value;

use crate::Tokens;
use crate::models::Model;

/// One value of a policy, with the reason for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DerivedValue {
    /// The name of the value.
    pub name: &'static str,
    /// The value: a number, a word, or a boolean.
    pub value: Value,
    /// The reason for the value, in one sentence.
    pub why: String,
    /// Whether the value depends on a fact that nobody has confirmed.
    pub assumed: bool,
}

/// The values that were derived so far for one model.
pub(super) struct Derivation<'m> {
    pub(super) model: &'m Model,
    pub(super) rows: Vec<DerivedValue>,
}

impl Derivation<'_> {
    /// Records a number of tokens and returns it. `rests_on` lists the facts of the model that it depends on.
    pub(super) fn record_tokens(
        &mut self,
        name: &'static str,
        value: Tokens,
        rests_on: &[&str],
        why: impl Into<String>,
    ) -> Tokens {
        self.record(name, value.number().into(), rests_on, why);
        value
    }

    /// Records any other value.
    pub(super) fn record(&mut self, name: &'static str, value: Value, rests_on: &[&str], why: impl Into<String>) {
        let assumed = rests_on.iter().any(|fact| self.model.is_assumed(fact));
        self.rows.push(DerivedValue { name, value, why: why.into(), assumed });
    }
}
