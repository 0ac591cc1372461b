//! How each number of a policy came about.

use serde::Serialize;
use serde_json::Value;

use crate::Tokens;
use crate::models::Model;

/// One number of a policy and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Derived {
    /// What it is called.
    pub name: &'static str,
    /// What it is: a number, a word, or true or false.
    pub value: Value,
    /// How it came about, in one sentence.
    pub why: String,
    /// Whether it rests on a fact that nobody confirmed.
    pub assumed: bool,
}

/// The numbers so far, for one model.
pub(super) struct Reasons<'m> {
    pub(super) model: &'m Model,
    pub(super) rows: Vec<Derived>,
}

impl Reasons<'_> {
    /// Notes a number of tokens and gives it back.
    pub(super) fn tokens(
        &mut self,
        name: &'static str,
        value: Tokens,
        rests_on: &[&str],
        why: impl Into<String>,
    ) -> Tokens {
        self.note(name, value.number().into(), rests_on, why);
        value
    }

    /// Notes anything else.
    pub(super) fn note(
        &mut self,
        name: &'static str,
        value: Value,
        rests_on: &[&str],
        why: impl Into<String>,
    ) {
        let assumed = rests_on.iter().any(|fact| self.model.is_assumed(fact));
        self.rows.push(Derived { name, value, why: why.into(), assumed });
    }
}
