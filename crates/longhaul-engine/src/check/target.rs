//! The receiver of a body: the host's row of `hosts.toml`, and the known facts about the model.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ApiFormat;

/// A provider, or a program that serves models. Each is a row of `hosts.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    name: &'static str,
    row: &'static HostRulesRow,
}

/// A row of `hosts.toml`.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostRulesRow {
    /// The numbers of the host rules and suspected rules that the host is known to enforce.
    #[serde(default)]
    rules: Vec<String>,
    /// The pattern of the call IDs that the host accepts, if it restricts them (M6).
    call_id: Option<IdPattern>,
}

/// A pattern for IDs: `min` to `max` characters, which are ASCII letters, digits or in `extra`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdPattern {
    #[serde(default)]
    pub(super) extra: String,
    pub(super) min: usize,
    pub(super) max: usize,
}

table! {
    static HOSTS: BTreeMap<String, HostRulesRow> = "hosts.toml";
}

static UNKNOWN_HOST_ROW: HostRulesRow = HostRulesRow { rules: Vec::new(), call_id: None };

impl Host {
    /// Returns the host with this name, or `None` if `hosts.toml` has no row for it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        HOSTS.get_key_value(name).map(|(name, row)| Self { name, row })
    }

    /// Returns a host about which nothing is known: suspected rules are warnings, and rules of single hosts
    /// do not apply.
    #[must_use]
    pub fn unknown() -> Self {
        Self { name: "unknown", row: &UNKNOWN_HOST_ROW }
    }

    /// Returns all hosts of `hosts.toml`, sorted by name.
    pub fn all() -> impl Iterator<Item = Self> {
        HOSTS.iter().map(|(name, row)| Self { name, row })
    }

    /// Returns the name in `hosts.toml`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether the row of the host lists the rule with this number.
    #[must_use]
    pub fn lists_rule(&self, rule: &str) -> bool {
        self.row.rules.iter().any(|listed| listed == rule)
    }

    /// Returns the numbers of the rules that the row of the host lists.
    pub fn rules(&self) -> impl Iterator<Item = &'static str> {
        self.row.rules.iter().map(String::as_str)
    }

    pub(super) fn call_id_pattern(&self) -> Option<&'static IdPattern> {
        self.row.call_id.as_ref()
    }
}

/// The host and model that receive a body. A fact about the model is `None` if it is unknown. A rule that
/// depends on an unknown fact is a warning if breaking it is likely to matter, and otherwise does not apply;
/// each field says which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host that receives the body.
    pub host: Host,
    /// Whether the model continues from a last assistant message (A12, G7). If unknown or true, such an end
    /// is still a warning, because a conversation that ends with a reply leaves nothing to answer.
    pub supports_prefill: Option<bool>,
    /// Whether the model accepts `role: "system"` inside `messages` (A17). If unknown, this is a warning.
    pub accepts_mid_system: Option<bool>,
    /// Whether the model binds thinking to everything before it (A25). If unknown, thinking that is kept
    /// behind a change is a warning.
    pub binds_thinking: Option<bool>,
    /// Whether the model refuses a tool loop whose replies are sent back without their reasoning (X6, X8,
    /// Ge12). If unknown, these rules do not apply.
    pub requires_reasoning: Option<bool>,
    /// Whether the model accepts a `tool_choice` that forces a call (A24). If unknown, it is assumed to,
    /// unless thinking is on.
    pub accepts_forced_choice: Option<bool>,
    /// Whether the model accepts `thinking: {type: "enabled", budget_tokens}` (A26). If unknown, it is
    /// assumed to.
    pub accepts_thinking_budget: Option<bool>,
    /// Whether the model refuses two messages of the same role in a row (X7, X10). If unknown, these rules do
    /// not apply.
    pub requires_alternation: Option<bool>,
    /// Whether the model accepts a system message (X10). If unknown, it is assumed to.
    pub accepts_system_role: Option<bool>,
}

impl Target {
    /// Creates a target for a model on this host, without any facts about the model.
    #[must_use]
    pub fn on_host(host: Host) -> Self {
        Self {
            host,
            supports_prefill: None,
            accepts_mid_system: None,
            binds_thinking: None,
            requires_reasoning: None,
            accepts_forced_choice: None,
            accepts_thinking_budget: None,
            requires_alternation: None,
            accepts_system_role: None,
        }
    }

    /// Creates a target for an unknown model on the host that defined the API format.
    #[must_use]
    pub fn default_for(api_format: ApiFormat) -> Self {
        let name = match api_format {
            ApiFormat::Chat | ApiFormat::Responses => "openai",
            ApiFormat::Messages => "anthropic",
        };
        Self::on_host(Host::named(name).unwrap_or_else(Host::unknown))
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
                assert!(rule.is_some_and(|r| r.scope != Scope::ApiFormat), "{host}: {number} need not be listed");
            }
        }
        for rule in RULES.iter().filter(|r| r.scope != Scope::ApiFormat) {
            assert!(HOSTS.values().any(|row| row.rules.iter().any(|n| n == rule.number)), "{}", rule.number);
        }
    }

    #[test]
    fn every_api_format_has_a_host_by_default() {
        let names = ApiFormat::ALL.map(|api_format| Target::default_for(api_format).host.name());
        assert_eq!(names, ["openai", "anthropic", "openai"]);
    }
}
