//! Which keys a project's file may set: the table of every key, with its side.
//!
//! A `longhaul.yaml` that was found in a folder may have come with a repository that somebody else wrote. It may tune numbers. Whatever
//! says where requests, keys, transcripts or logs go, which programs run, what is redacted, what a model reads or what is paid for is
//! the user's alone. A key without a row is the user's, and a test fails until it has one.

use serde_json::Value;

use super::keys::{self, Path};
use super::{Leaf, trust};
use crate::failure::Failure;

/// The ones who may set a key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    /// Only the user: in their own file, a trusted file, the environment or a flag.
    User,
    /// Also a project's untrusted file, to a number from the first to the second.
    Project(f64, f64),
}

use Side::{Project, User};

/// A share of the window that neither compacts on every turn nor disables compaction.
const SHARE: Side = Project(0.3, 0.8);
/// Any number that the key accepts.
const NUMBER: Side = Project(0.0, f64::MAX);
/// So many refused keys are named in one line.
const MAX_NAMED: usize = 5;

/// Every key; `*` stands for any one name.
const SIDES: &[(&str, Side)] = &[
    ("auxiliary.compression.api_key_env", User),
    ("auxiliary.compression.base_url", User),
    ("auxiliary.compression.model", User),
    ("auxiliary.compression.provider", User),
    ("auxiliary.compression.timeout_seconds", User),
    ("compression.enabled", User),
    ("compression.hygiene_threshold", SHARE),
    ("compression.instructions", User),
    ("compression.keep_last_users", NUMBER),
    ("compression.keep_tools", User),
    ("compression.max_wait_seconds", NUMBER),
    ("compression.protect_first_n", NUMBER),
    ("compression.protect_last_n", NUMBER),
    ("compression.system_note", User),
    ("compression.target_ratio", NUMBER),
    ("compression.threshold", SHARE),
    ("compression.threshold_floor", NUMBER),
    ("compression.threshold_tokens", NUMBER),
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
    ("models.*.context_length", NUMBER),
    ("models.*.prices.*", User),
    ("models.*.threshold", SHARE),
    ("models.*.threshold_tokens", NUMBER),
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

/// Refuses an untrusted file that sets more than a project may.
pub(super) fn check(file: &str, leaves: &[Leaf]) -> Result<(), Failure> {
    let refused: Vec<&Leaf> = leaves.iter().filter(|leaf| !is_allowed(leaf)).collect();
    let [first, ..] = refused.as_slice() else { return Ok(()) };
    let (origin, remedy) = (&first.origin, trust::remedy(file));
    if let Project(least, most) = side(&first.path) {
        let (key, value) = (first.path.join("."), &first.value);
        let allowed = if (least, most) == (0.3, 0.8) { "a number from 0.3 to 0.8" } else { "a number" };
        return Err(Failure::Wrong(format!(
            "{origin}: {key} is {value}, and a file that was found in a project may set only {allowed}; read the file, then allow it: \
             {remedy}"
        )));
    }
    let mut names: Vec<String> = refused.iter().take(MAX_NAMED).map(|leaf| leaf.path.join(".")).collect();
    if let Some(more) = refused.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    let names = names.join(", ");
    Err(Failure::Wrong(format!(
        "{origin}: a file that was found in a project may not set {names}; read the file, then allow it: {remedy}"
    )))
}

/// The keys of a file that only a trusted one may set so.
pub(super) fn beyond_a_project(leaves: &[Leaf]) -> Vec<String> {
    leaves.iter().filter(|leaf| !is_allowed(leaf)).map(|leaf| leaf.path.join(".")).collect()
}

fn is_allowed(leaf: &Leaf) -> bool {
    match (side(&leaf.path), &leaf.value) {
        (Project(least, most), Value::Number(number)) => {
            number.as_f64().is_some_and(|number| (least..=most).contains(&number))
        }
        _ => false,
    }
}

/// The side of a key, also in an older spelling.
fn side(path: &[String]) -> Side {
    let today = keys::renamed(path);
    let path = today.as_ref().map_or(path, Path::as_slice);
    SIDES.iter().find(|(pattern, _)| fits(pattern, path)).map_or(User, |(_, side)| *side)
}

fn fits(pattern: &str, path: &[String]) -> bool {
    let names: Vec<&str> = pattern.split('.').collect();
    names.len() == path.len() && names.iter().zip(path).all(|(name, there)| *name == "*" || name == there)
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::*;

    #[test]
    fn every_key_has_one_side_and_every_row_is_about_a_key() {
        let keys = Keys::new().every();
        assert!(keys.len() > 60, "{}", keys.len());
        for key in &keys {
            let today = keys::renamed(key).unwrap_or_else(|| key.clone());
            let rows = SIDES.iter().filter(|(pattern, _)| fits(pattern, &today)).count();
            assert_eq!(rows, 1, "{}: give it a row in SIDES that says who may set it", key.join("."));
        }
        for (pattern, _) in SIDES {
            assert!(keys.iter().any(|key| fits(pattern, key)), "{pattern} is no key");
        }
    }

    #[test]
    fn a_project_sets_only_numbers_of_compression_and_of_models() {
        let project = SIDES.iter().filter(|(_, side)| *side != User).map(|(pattern, _)| *pattern);
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
