//! Which keys there are, and which one was probably meant.

use longhaul_engine::policy;
use serde_json::{Map, Value, json};

use super::shell::Shell;

/// A key as the names on the way to it. Names of models hold dots, so that a joined key cannot be split again.
pub(crate) type Path = Vec<String>;

/// Older spellings of keys, and what they are called now.
const RENAMED: &[(&str, &str)] = &[
    ("compression.summary_model", "auxiliary.compression.model"),
    ("model.cache_ttl", "prompt_caching.cache_ttl"),
];

/// What nothing goes by yet.
const NOT_YET: &[&str] = &["compression.system_note"];

/// How alike two names must be to pass for a slip of the fingers.
const LIKE: f64 = 0.8;

/// The tree of keys, with the older spellings beside today's.
pub(crate) struct Keys {
    /// The engine's, and behind them in each section those that it never reads.
    today: Value,
    shell: Value,
    all: Value,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let (mut today, shell) = (policy::Config::keys(), json!(Shell::default()));
        merge(&mut today, &shell);
        let mut all = today.clone();
        for (old, _) in RENAMED {
            let path: Vec<&str> = old.split('.').collect();
            insert(&mut all, &path, Value::Null);
        }
        Keys { today, shell, all }
    }

    /// What the key holds by default; an object for a section of keys; nothing for a key that does not exist.
    pub(crate) fn at(&self, path: &[String]) -> Option<&Value> {
        descend(&self.all, path)
    }

    /// Takes what the engine does not read out of a tree of values.
    pub(crate) fn split_off_shell(&self, tree: &mut Value) -> Value {
        split_off(tree, &self.shell)
    }

    /// What to say of a key that does not exist: the nearest in its section, else the same name elsewhere, else all
    /// there is.
    pub(crate) fn suggestion(&self, path: &[String]) -> String {
        let Some((name, section)) = path.split_last() else { return String::new() };
        let known: Vec<&String> = match descend(&self.today, section) {
            Some(Value::Object(known)) => known.keys().collect(),
            _ => Vec::new(),
        };
        let near = known
            .iter()
            .map(|known| (strsim::jaro_winkler(known, name), *known))
            .filter(|(likeness, _)| *likeness >= LIKE)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, near)) = near {
            return format!(", did you mean '{near}'?");
        }
        let mut elsewhere = Vec::new();
        named(&self.today, name, &mut Vec::new(), &mut elsewhere);
        if let Some(elsewhere) = elsewhere.first() {
            return format!(", did you mean '{}'?", elsewhere.join("."));
        }
        let known: Vec<&str> = known.iter().map(|known| known.as_str()).collect();
        format!("; known here: {}", known.join(", "))
    }

    /// Every key that is no section, also the older spellings and those below `*`.
    #[cfg(test)]
    pub(crate) fn every(&self) -> Vec<Path> {
        fn walk(tree: &Value, path: &mut Path, found: &mut Vec<Path>) {
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
        walk(&self.all, &mut Vec::new(), &mut found);
        found
    }

    /// The keys that are no sections, each with its default.
    pub(crate) fn leaves(&self) -> Vec<(Path, Value)> {
        let mut leaves = Vec::new();
        collect(&self.today, &mut Vec::new(), &mut leaves);
        leaves
    }
}

/// Whether anything goes by a key yet.
pub(crate) fn has_effect(path: &[String]) -> bool {
    !NOT_YET.contains(&path.join(".").as_str())
}

/// The name that an older spelling has today.
pub(crate) fn renamed(path: &[String]) -> Option<Path> {
    let joined = path.join(".");
    let (_, today) = RENAMED.iter().find(|(old, _)| *old == joined)?;
    Some(today.split('.').map(str::to_owned).collect())
}

/// Puts a value into a tree, making sections on the way.
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

/// Puts what one tree has beside what another has.
fn merge(tree: &mut Value, more: &Value) {
    match (tree, more) {
        (Value::Object(section), Value::Object(more)) => {
            for (name, below) in more {
                merge(section.entry(name).or_insert(Value::Null), below);
            }
        }
        (tree, more) => *tree = more.clone(),
    }
}

/// Takes what another tree has keys for out of a tree.
fn split_off(tree: &mut Value, keys: &Value) -> Value {
    match (tree, keys) {
        (Value::Object(section), Value::Object(keys)) => {
            let mut taken = Map::new();
            for (name, below) in keys {
                if let Some(mut held) = section.remove(name) {
                    taken.insert(name.clone(), split_off(&mut held, below));
                    if held.as_object().is_some_and(|rest| !rest.is_empty()) {
                        section.insert(name.clone(), held);
                    }
                }
            }
            Value::Object(taken)
        }
        (tree, _) => tree.take(),
    }
}

fn descend<'t>(tree: &'t Value, path: &[String]) -> Option<&'t Value> {
    path.iter().try_fold(tree, |tree, name| {
        let section = tree.as_object()?;
        section.get(name).or_else(|| section.get("*"))
    })
}

fn named(tree: &Value, name: &str, path: &mut Path, found: &mut Vec<Path>) {
    let Value::Object(section) = tree else { return };
    for (key, below) in section {
        path.push(key.clone());
        if key == name {
            found.push(path.clone());
        }
        named(below, name, path, found);
        path.pop();
    }
}

fn collect(tree: &Value, path: &mut Path, leaves: &mut Vec<(Path, Value)>) {
    match tree {
        Value::Object(section) if path.last().is_none_or(|name| name != "*") => {
            for (key, below) in section {
                path.push(key.clone());
                collect(below, path, leaves);
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

    fn path(joined: &str) -> Path {
        joined.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_slip_is_answered_with_what_was_meant() {
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
        for (key, said) in cases {
            assert_eq!(Keys::new().suggestion(&path(key)), said, "{key}");
        }
    }

    #[test]
    fn keys_older_spellings_and_names_of_models_are_found() {
        let keys = Keys::new();
        for known in [
            "compression.threshold",
            "model.cache_ttl",
            "models.any.threshold",
            "models.x.capabilities.window",
        ] {
            assert!(keys.at(&path(known)).is_some(), "{known}");
        }
        for unknown in ["model.threshold", "compression.threshold.x", "models.x.y"] {
            assert!(keys.at(&path(unknown)).is_none(), "{unknown}");
        }
        assert_eq!(renamed(&path("model.cache_ttl")), Some(path("prompt_caching.cache_ttl")));
        for (_, today) in RENAMED {
            assert!(keys.at(&path(today)).is_some(), "{today}");
        }
    }

    #[test]
    fn what_the_engine_does_not_read_is_told_apart() {
        let keys = Keys::new();
        let mut tree = json!({"compression": {"enabled": false, "threshold": 0.4}, "store": {"url": "x"}});
        let shell = keys.split_off_shell(&mut tree);
        assert_eq!(shell, json!({"compression": {"enabled": false}, "store": {"url": "x"}}));
        assert_eq!(tree, json!({"compression": {"threshold": 0.4}}));
        assert!(has_effect(&path("compression.threshold")) && has_effect(&path("models.m.threshold")));
        assert!(has_effect(&path("redaction.logs")) && !has_effect(&path("compression.system_note")));
        for key in NOT_YET {
            assert!(keys.at(&path(key)).is_some(), "{key}");
        }
    }
}
