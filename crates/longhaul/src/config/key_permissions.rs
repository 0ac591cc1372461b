//! The keys that a project's configuration file may set, as a table of all keys.
//!
//! A `longhaul.yaml` that was found in a folder may belong to a repository that somebody else wrote. It may
//! change numbers. Only the user may set where requests, keys, transcripts or logs are sent, which programs
//! run, what is redacted, what a model reads and what is paid for. A key without a row can be set only by the
//! user, and a test fails until the key has a row.

use serde_json::Value;

use super::keys::{self, KeyPath};
use super::{ConfigValue, trust};
use crate::failure::Failure;

/// The files that may set a key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum KeyPermission {
    /// Only the user may set it: in their own file, a trusted file, the environment or a flag.
    User,
    /// A project's untrusted file may also set it, to a number from the first to the second.
    Project(f64, f64),
}

use KeyPermission::{Project, User};

/// The shares of the window that a project may set as a threshold: a lower one would compact on every turn, a
/// higher one almost never. Chosen by hand.
const PROJECT_SHARE: KeyPermission = Project(0.3, 0.8);
/// Any number that the key accepts.
const PROJECT_NUMBER: KeyPermission = Project(0.0, f64::MAX);
/// The maximum number of refused keys that one message names.
const MAX_NAMED_KEYS: usize = 5;

/// The permission of every key; `*` matches any one name.
const KEY_PERMISSIONS: &[(&str, KeyPermission)] = &[
    ("auxiliary.compression.api_key_env", User),
    ("auxiliary.compression.base_url", User),
    ("auxiliary.compression.first", User),
    ("auxiliary.compression.max_share_of_saving", User),
    ("auxiliary.compression.max_usd_per_day", User),
    ("auxiliary.compression.model", User),
    ("auxiliary.compression.provider", User),
    ("auxiliary.compression.timeout_seconds", User),
    ("compression.enabled", User),
    ("compression.hygiene_threshold", PROJECT_SHARE),
    ("compression.instructions", User),
    ("compression.keep_last_users", PROJECT_NUMBER),
    ("compression.keep_tools", User),
    ("compression.max_wait_seconds", PROJECT_NUMBER),
    ("compression.protect_first_n", PROJECT_NUMBER),
    ("compression.protect_last_n", PROJECT_NUMBER),
    ("compression.system_note", User),
    ("compression.target_ratio", PROJECT_NUMBER),
    ("compression.threshold", PROJECT_SHARE),
    ("compression.threshold_floor", PROJECT_NUMBER),
    ("compression.threshold_tokens", PROJECT_NUMBER),
    ("context.engine", User),
    ("context.plugins", User),
    ("gateway.commands", User),
    ("gateway.drain_seconds", User),
    ("gateway.hosts", User),
    ("gateway.keep_alive.enabled", User),
    ("gateway.keep_alive.usd_per_day", User),
    ("gateway.listen", User),
    ("gateway.log", User),
    ("gateway.log_level", User),
    ("gateway.max_bodies_bytes", User),
    ("gateway.max_body_bytes", User),
    ("gateway.max_connections", User),
    ("gateway.otlp_endpoint", User),
    ("gateway.recall", User),
    ("gateway.require_keys", User),
    ("models.*.capabilities.*", User),
    ("models.*.context_length", PROJECT_NUMBER),
    ("models.*.prices.*", User),
    ("models.*.threshold", PROJECT_SHARE),
    ("models.*.threshold_tokens", PROJECT_NUMBER),
    ("prompt_caching.cache_ttl", User),
    ("prompt_caching.enabled", User),
    ("prompt_caching.strategy", User),
    ("redaction.allow", User),
    ("redaction.logs", User),
    ("redaction.rules", User),
    ("sacred_zone.adaptive", User),
    ("sacred_zone.digest_tokens", User),
    ("sacred_zone.min_tokens", User),
    ("sacred_zone.recent_tokens", User),
    ("sacred_zone.target", User),
    ("sacred_zone.trigger", User),
    ("store.keep_days", User),
    ("store.max_bytes", User),
    ("store.path", User),
    ("store.sync", User),
    ("store.url", User),
    ("upstreams.*.api_key_env", User),
    ("upstreams.*.base_url", User),
    ("upstreams.*.native", User),
];

/// Refuses an untrusted file that sets a key or a value that a project may not set.
pub(super) fn check_untrusted(file: &str, leaves: &[ConfigValue]) -> Result<(), Failure> {
    let refused: Vec<&ConfigValue> = leaves.iter().filter(|leaf| !is_allowed(leaf)).collect();
    let [first, ..] = refused.as_slice() else { return Ok(()) };
    let (origin, remedy) = (&first.origin, trust::trust_command(file));
    if let Project(min, max) = permission(&first.path) {
        let (key, value) = (first.path.join("."), &first.value);
        let allowed = if (min, max) == (0.3, 0.8) { "a number from 0.3 to 0.8" } else { "a number" };
        return Err(Failure::InvalidInput(format!(
            "{origin}: {key} is {value}, but an untrusted file of a project may set only {allowed}; read the file, then trust it: {remedy}"
        )));
    }
    let mut names: Vec<String> = refused.iter().take(MAX_NAMED_KEYS).map(|leaf| leaf.path.join(".")).collect();
    if let Some(unlisted) = refused.len().checked_sub(MAX_NAMED_KEYS).filter(|unlisted| *unlisted > 0) {
        names.push(format!("{unlisted} more"));
    }
    let names = names.join(", ");
    Err(Failure::InvalidInput(format!(
        "{origin}: an untrusted file of a project may not set {names}; read the file, then trust it: {remedy}"
    )))
}

/// Returns the keys in a file that only a trusted file may set to these values.
pub(super) fn keys_beyond_project(leaves: &[ConfigValue]) -> Vec<String> {
    leaves.iter().filter(|leaf| !is_allowed(leaf)).map(|leaf| leaf.path.join(".")).collect()
}

fn is_allowed(leaf: &ConfigValue) -> bool {
    match (permission(&leaf.path), &leaf.value) {
        (Project(min, max), Value::Number(number)) => {
            number.as_f64().is_some_and(|number| (min..=max).contains(&number))
        }
        _ => false,
    }
}

/// Returns the permission of a key, which may be given by its old name.
fn permission(path: &[String]) -> KeyPermission {
    let current = keys::current_name(path);
    let path = current.as_ref().map_or(path, KeyPath::as_slice);
    KEY_PERMISSIONS
        .iter()
        .find(|(pattern, _)| matches_pattern(pattern, path))
        .map_or(User, |(_, permission)| *permission)
}

fn matches_pattern(pattern: &str, path: &[String]) -> bool {
    let names: Vec<&str> = pattern.split('.').collect();
    names.len() == path.len() && names.iter().zip(path).all(|(name, key)| *name == "*" || name == key)
}

#[cfg(test)]
mod tests {
    use super::super::keys::KeyTree;
    use super::*;

    #[test]
    fn every_key_has_one_permission_and_every_row_is_about_a_key() {
        let keys = KeyTree::new().all_paths();
        assert!(keys.len() > 60, "{}", keys.len());
        for key in &keys {
            let current = keys::current_name(key).unwrap_or_else(|| key.clone());
            let rows = KEY_PERMISSIONS.iter().filter(|(pattern, _)| matches_pattern(pattern, &current)).count();
            assert_eq!(rows, 1, "{}: add a row to KEY_PERMISSIONS that says who may set it", key.join("."));
        }
        for (pattern, _) in KEY_PERMISSIONS {
            assert!(keys.iter().any(|key| matches_pattern(pattern, key)), "{pattern} is no key");
        }
    }

    #[test]
    fn a_project_sets_only_numbers_of_compression_and_of_models() {
        let project = KEY_PERMISSIONS.iter().filter(|(_, permission)| *permission != User).map(|(pattern, _)| *pattern);
        let project: Vec<&str> = project.collect();
        assert_eq!(
            project,
            [
                "compression.hygiene_threshold",
                "compression.keep_last_users",
                "compression.max_wait_seconds",
                "compression.protect_first_n",
                "compression.protect_last_n",
                "compression.target_ratio",
                "compression.threshold",
                "compression.threshold_floor",
                "compression.threshold_tokens",
                "models.*.context_length",
                "models.*.threshold",
                "models.*.threshold_tokens",
            ]
        );
    }
}
