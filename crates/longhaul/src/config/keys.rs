//! The tree of all configuration keys, and the suggestion for a misspelled one.

use longhaul_engine::policy;
use serde_json::{Map, Value, json};

use super::app::AppConfig;

/// A key as the list of names that lead to it. Model names contain dots, so a joined key cannot be split
/// again.
pub(crate) type KeyPath = Vec<String>;

/// Old names of keys, with their current names.
const RENAMED_KEYS: &[(&str, &str)] =
    &[("compression.summary_model", "auxiliary.compression.model"), ("model.cache_ttl", "prompt_caching.cache_ttl")];

/// Keys that are accepted but have no effect yet.
const KEYS_WITHOUT_EFFECT: &[&str] = &["compression.system_note"];

/// The minimum Jaro-Winkler similarity for a name to be suggested. Chosen by hand: it accepts a missing or
/// doubled letter.
const MIN_SIMILARITY: f64 = 0.8;

/// The tree of keys with their defaults.
pub(crate) struct KeyTree {
    /// All keys under their current names. In each section, the engine's keys are first.
    current: Value,
    app: Value,
    with_old_names: Value,
}

impl KeyTree {
    pub(crate) fn new() -> Self {
        let (mut current, app) = (policy::Config::key_tree(), json!(AppConfig::default()));
        merge(&mut current, &app);
        let mut all = current.clone();
        for (old, _) in RENAMED_KEYS {
            let path: Vec<&str> = old.split('.').collect();
            insert(&mut all, &path, Value::Null);
        }
        KeyTree { current, app, with_old_names: all }
    }

    /// Returns the default of a key, an object for a section, or `None` if there is no such key. Old names
    /// count as keys.
    pub(crate) fn default_at(&self, path: &[String]) -> Option<&Value> {
        lookup(&self.with_old_names, path)
    }

    /// Removes the values that the engine does not read from a tree, and returns them.
    pub(crate) fn split_off_app(&self, tree: &mut Value) -> Value {
        split_off(tree, &self.app)
    }

    /// Returns the end of the message about an unknown key: the most similar key of its section, else the
    /// same name in another section, else all keys of the section.
    pub(crate) fn suggestion(&self, path: &[String]) -> String {
        let Some((name, section)) = path.split_last() else { return String::new() };
        let keys_here: Vec<&String> = match lookup(&self.current, section) {
            Some(Value::Object(section)) => section.keys().collect(),
            _ => Vec::new(),
        };
        let near = keys_here
            .iter()
            .map(|key| (strsim::jaro_winkler(key, name), *key))
            .filter(|(likeness, _)| *likeness >= MIN_SIMILARITY)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, near)) = near {
            return format!(", did you mean '{near}'?");
        }
        let mut elsewhere = Vec::new();
        collect_named(&self.current, name, &mut Vec::new(), &mut elsewhere);
        if let Some(elsewhere) = elsewhere.first() {
            return format!(", did you mean '{}'?", elsewhere.join("."));
        }
        let names: Vec<&str> = keys_here.iter().map(|key| key.as_str()).collect();
        format!("; known here: {}", names.join(", "))
    }

    /// Returns every key that is not a section, including old names and the keys below `*`.
    #[cfg(test)]
    pub(crate) fn all_paths(&self) -> Vec<KeyPath> {
        fn walk(tree: &Value, path: &mut KeyPath, found: &mut Vec<KeyPath>) {
            match tree {
                Value::Object(section) if !section.is_empty() => {
                    for (key, below) in section {
                        path.push(key.clone());
                        walk(below, path, found);
                        path.pop();
                    }
                }
                _ => found.push(path.clone()),
            }
        }
        let mut found = Vec::new();
        walk(&self.with_old_names, &mut Vec::new(), &mut found);
        found
    }

    /// Returns the keys that are not sections, each with its default.
    pub(crate) fn defaults(&self) -> Vec<(KeyPath, Value)> {
        let mut leaves = Vec::new();
        collect_defaults(&self.current, &mut Vec::new(), &mut leaves);
        leaves
    }
}

/// Whether a key has an effect.
pub(crate) fn has_effect(path: &[String]) -> bool {
    !KEYS_WITHOUT_EFFECT.contains(&path.join(".").as_str())
}

/// Returns the current name of a key that is given by its old name.
pub(crate) fn current_name(path: &[String]) -> Option<KeyPath> {
    let joined = path.join(".");
    let (_, current) = RENAMED_KEYS.iter().find(|(old, _)| *old == joined)?;
    Some(current.split('.').map(str::to_owned).collect())
}

/// Sets a value in a tree, and creates the sections on the way.
pub(crate) fn insert(tree: &mut Value, path: &[impl AsRef<str>], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *tree = value;
        return;
    };
    if !tree.is_object() {
        *tree = Value::Object(Map::new());
    }
    if let Value::Object(section) = tree {
        insert(section.entry(name.as_ref()).or_insert(Value::Null), rest, value);
    }
}

/// Adds the values of another tree to a tree.
fn merge(tree: &mut Value, added: &Value) {
    match (tree, added) {
        (Value::Object(section), Value::Object(added)) => {
            for (name, below) in added {
                merge(section.entry(name).or_insert(Value::Null), below);
            }
        }
        (tree, added) => *tree = added.clone(),
    }
}

/// Removes all values from a tree for which `keys` has a key, and returns them.
fn split_off(tree: &mut Value, keys: &Value) -> Value {
    match (tree, keys) {
        (Value::Object(section), Value::Object(keys)) => {
            let mut removed = Map::new();
            for (name, below) in keys {
                if let Some(mut value) = section.remove(name) {
                    removed.insert(name.clone(), split_off(&mut value, below));
                    if value.as_object().is_some_and(|rest| !rest.is_empty()) {
                        section.insert(name.clone(), value);
                    }
                }
            }
            Value::Object(removed)
        }
        (tree, _) => tree.take(),
    }
}

fn lookup<'t>(tree: &'t Value, path: &[String]) -> Option<&'t Value> {
    path.iter().try_fold(tree, |tree, name| {
        let section = tree.as_object()?;
        section.get(name).or_else(|| section.get("*"))
    })
}

fn collect_named(tree: &Value, name: &str, path: &mut KeyPath, found: &mut Vec<KeyPath>) {
    let Value::Object(section) = tree else { return };
    for (key, below) in section {
        path.push(key.clone());
        if key == name {
            found.push(path.clone());
        }
        collect_named(below, name, path, found);
        path.pop();
    }
}

fn collect_defaults(tree: &Value, path: &mut KeyPath, leaves: &mut Vec<(KeyPath, Value)>) {
    match tree {
        Value::Object(section) if path.last().is_none_or(|name| name != "*") => {
            for (key, below) in section {
                path.push(key.clone());
                collect_defaults(below, path, leaves);
                path.pop();
            }
        }
        Value::Object(_) => {}
        value => leaves.push((path.clone(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(joined: &str) -> KeyPath {
        joined.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_most_similar_key() {
        let cases = [
            ("compresion", ", did you mean 'compression'?"),
            ("compression.treshold", ", did you mean 'threshold'?"),
            ("compression.protect_last", ", did you mean 'protect_last_n'?"),
            ("threshold", ", did you mean 'compression.threshold'?"),
            ("compression.cache_ttl", ", did you mean 'prompt_caching.cache_ttl'?"),
            ("models.gpt-5.context_lenght", ", did you mean 'context_length'?"),
            ("models.gpt-5.capabilities.windoww", ", did you mean 'window'?"),
            ("store.zzz", "; known here: path, url, sync, keep_days, max_bytes"),
        ];
        for (key, message) in cases {
            assert_eq!(KeyTree::new().suggestion(&path(key)), message, "{key}");
        }
    }

    #[test]
    fn keys_older_spellings_and_names_of_models_are_found() {
        let keys = KeyTree::new();
        for key in ["compression.threshold", "model.cache_ttl", "models.any.threshold", "models.x.capabilities.window"]
        {
            assert!(keys.default_at(&path(key)).is_some(), "{key}");
        }
        for unknown in ["model.threshold", "compression.threshold.x", "models.x.y"] {
            assert!(keys.default_at(&path(unknown)).is_none(), "{unknown}");
        }
        assert_eq!(current_name(&path("model.cache_ttl")), Some(path("prompt_caching.cache_ttl")));
        for (_, current) in RENAMED_KEYS {
            assert!(keys.default_at(&path(current)).is_some(), "{current}");
        }
    }

    #[test]
    fn values_that_the_engine_does_not_read_are_split_off() {
        let keys = KeyTree::new();
        let mut tree = json!({"compression": {"enabled": false, "threshold": 0.4}, "store": {"url": "x"}});
        let app = keys.split_off_app(&mut tree);
        assert_eq!(app, json!({"compression": {"enabled": false}, "store": {"url": "x"}}));
        assert_eq!(tree, json!({"compression": {"threshold": 0.4}}));
        assert!(has_effect(&path("compression.threshold")) && has_effect(&path("models.m.threshold")));
        assert!(has_effect(&path("redaction.logs")) && !has_effect(&path("compression.system_note")));
        for key in KEYS_WITHOUT_EFFECT {
            assert!(keys.default_at(&path(key)).is_some(), "{key}");
        }
    }
}
