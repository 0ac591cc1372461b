//! Who receives a body: the host's row of `hosts.toml`, and what is known about the model.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Dialect;

/// A provider, or a program that serves models, as a row of `hosts.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    name: &'static str,
    row: &'static Row,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Rules of a host, and suspected rules, that are known to hold here.
    #[serde(default)]
    rules: Vec<String>,
    /// The call ids that the host takes, where it is particular about them (M6).
    call_id: Option<IdShape>,
}

/// A pattern for ids: ASCII letters and digits, `extra` characters, so many of them.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdShape {
    #[serde(default)]
    pub(super) extra: String,
    pub(super) min: usize,
    pub(super) max: usize,
}

table! {
    static HOSTS: BTreeMap<String, Row> = "hosts.toml";
}

static NOWHERE: Row = Row { rules: Vec::new(), call_id: None };

impl Host {
    /// The host of that name, if there is a row for it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        HOSTS.get_key_value(name).map(|(name, row)| Self { name, row })
    }

    /// A host that nothing is known about: suspected rules are warnings, rules of single hosts are not applied.
    #[must_use]
    pub fn unknown() -> Self {
        Self { name: "unknown", row: &NOWHERE }
    }

    /// Every host there is a row for, by name.
    pub fn all() -> impl Iterator<Item = Self> {
        HOSTS.iter().map(|(name, row)| Self { name, row })
    }

    /// The name in `hosts.toml`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the row lists a rule, by number.
    #[must_use]
    pub fn lists(&self, rule: &str) -> bool {
        self.row.rules.iter().any(|listed| listed == rule)
    }

    /// The numbers of the rules that the row lists.
    pub fn rules(&self) -> impl Iterator<Item = &'static str> {
        self.row.rules.iter().map(String::as_str)
    }

    pub(super) fn call_id(&self) -> Option<&'static IdShape> {
        self.row.call_id.as_ref()
    }
}

/// What receives a body. Facts about the model are `None` when nobody knows: then a rule that depends on one is a warning
/// where breaking it is likely to matter, and otherwise is not applied (each field says which).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host that reads the body.
    pub host: Host,
    /// The model goes on from a last assistant message (A12, G7). Unknown or yes: such an end is a warning all the same,
    /// because a transcript that ends with a reply has nothing to answer.
    pub prefill: Option<bool>,
    /// The model takes `role: "system"` inside `messages` (A17). Unknown: a warning.
    pub mid_system: Option<bool>,
    /// Thinking is bound to everything before it (A25). Unknown: a warning when thinking is kept behind a change.
    pub binds_thinking: Option<bool>,
    /// The model refuses a tool loop whose replies come back without their reasoning (X6, X8, Ge12). Unknown: not applied.
    pub wants_reasoning: Option<bool>,
    /// The model takes a `tool_choice` that forces a call (A24). Unknown: taken as yes, unless thinking is on.
    pub forced_choice: Option<bool>,
    /// The model takes `thinking: {type: "enabled", budget_tokens}` (A26). Unknown: taken as yes.
    pub thinking_budget: Option<bool>,
    /// Neighbouring messages must not have the same role (X7, X10). Unknown: not applied.
    pub alternates: Option<bool>,
    /// The model takes a system message (X10). Unknown: taken as yes.
    pub system_role: Option<bool>,
}

impl Target {
    /// A model of which nothing is known, on the given host.
    #[must_use]
    pub fn on(host: Host) -> Self {
        Self {
            host,
            prefill: None,
            mid_system: None,
            binds_thinking: None,
            wants_reasoning: None,
            forced_choice: None,
            thinking_budget: None,
            alternates: None,
            system_role: None,
        }
    }

    /// An unknown model on the host that defined the dialect.
    #[must_use]
    pub fn of(dialect: Dialect) -> Self {
        let name = match dialect {
            Dialect::Chat | Dialect::Responses => "openai",
            Dialect::Messages => "anthropic",
        };
        Self::on(Host::named(name).unwrap_or_else(Host::unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{RULES, Scope};

    #[test]
    fn the_table_of_hosts_names_rules_that_need_naming() {
        for (host, row) in HOSTS.iter() {
            for number in &row.rules {
                let rule = RULES.iter().find(|r| r.number == number.as_str());
                assert!(
                    rule.is_some_and(|r| r.scope != Scope::Dialect),
                    "{host}: {number} need not be listed"
                );
            }
        }
        for rule in RULES.iter().filter(|r| r.scope != Scope::Dialect) {
            assert!(HOSTS.values().any(|row| row.rules.iter().any(|n| n == rule.number)), "{}", rule.number);
        }
    }

    #[test]
    fn every_dialect_has_a_host_by_default() {
        let names = Dialect::ALL.map(|dialect| Target::of(dialect).host.name());
        assert_eq!(names, ["openai", "anthropic", "openai"]);
    }
}
