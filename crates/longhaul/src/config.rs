//! The configuration in force: defaults, then the files, then the environment, then flags, each value with its origin.
//!
//! ```text
//! defaults ◀─ the user's longhaul.yaml ◀─ a project's ◀─ LONGHAUL_COMPRESSION__THRESHOLD ◀─ --threshold
//!             every layer is a list of leaves: path, value, origin; of an untrusted file only what `sides` allows
//! ```
//!
//! Nothing here reads the environment: it is passed in.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path as FilePath;

use longhaul_engine::models::{self, ModelFacts};
use longhaul_engine::policy::{self, Invalid, Policy, Warning};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::output;
pub(crate) use find::{FILE, Files, Found, Trust, data_folder, read_text, users};
pub(crate) use gateway::{Gateway as GatewaySettings, Listen, LogForm, LogLevel, Recall};
pub(crate) use keys::has_effect;
use keys::{Keys, Path};
use shell::Shell;
pub(crate) use shell::{
    AUTO, AuxiliaryModel, Store as StoreSettings, Sync as StoreSync, Upstream as UpstreamSettings,
    Upstreams as UpstreamsSettings,
};

mod find;
mod gateway;
mod keys;
mod shell;
mod sides;
#[cfg(test)]
mod tests;
pub(crate) mod trust;
mod yaml;

const PREFIX: &str = "LONGHAUL_";

/// The environment, as pairs of name and value.
pub(crate) type Environment = Vec<(String, String)>;

/// The configuration in force and where each value came from.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The files that were read, the lowest layer first.
    pub(crate) files: Vec<FileRead>,
    /// What the engine goes by, all layers together.
    pub(crate) engine: policy::Config,
    /// What it never reads.
    pub(crate) shell: Shell,
    /// Each value in force; in each section those of the engine first.
    pub(crate) values: Vec<Leaf>,
    /// Older spellings that were used.
    pub(crate) notes: Vec<String>,
    /// Values that may not be what was meant.
    pub(crate) warnings: Vec<Warning>,
}

/// A file that was read.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileRead {
    #[serde(rename = "file")]
    pub(crate) name: String,
    pub(crate) found: Found,
    /// Whether it may set every key.
    pub(crate) trusted: bool,
}

/// One value and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) path: Path,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Origin {
    /// Nobody typed it.
    Default,
    /// A place in a file, counted from 1.
    File { file: String, line: usize, column: usize },
    /// A variable.
    Environment { name: String },
    /// An option of the command line.
    Flag { name: String },
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Origin::Environment { name } | Origin::Flag { name } => f.write_str(name),
        }
    }
}

/// A value typed as an option of the command line.
pub(crate) struct Flag {
    /// The option, as it is typed.
    pub(crate) name: &'static str,
    /// The key that it sets.
    pub(crate) path: Path,
    /// To what.
    pub(crate) value: Value,
}

impl Settings {
    /// Reads all layers and checks every value. `file` is the one that `--config` named.
    pub(crate) fn load(
        file: Option<&FilePath>,
        environment: &[(String, String)],
        flags: Vec<Flag>,
    ) -> Result<Settings, Failure> {
        Settings::from_layers(&Files::read(file, environment)?, environment, flags)
    }

    /// The same from files that were read before.
    pub(crate) fn from_layers(
        files: &Files,
        environment: &[(String, String)],
        flags: Vec<Flag>,
    ) -> Result<Settings, Failure> {
        let keys = Keys::new();
        let mut layers = Layers::new(&keys);
        layers.notes.clone_from(&files.notes);
        for file in &files.layers {
            let leaves = yaml::leaves(&file.name, &file.text, &keys)?;
            if file.trust == Trust::Untrusted {
                sides::check(&file.name, &leaves)?;
            }
            layers.add(leaves)?;
        }
        layers.add(from_environment(environment, &keys)?)?;
        layers.add_flags(flags)?;
        let read = |file: &find::File| FileRead {
            name: file.name.clone(),
            found: file.found,
            trusted: file.trust == Trust::Trusted,
        };
        Ok(Settings { files: files.layers.iter().map(read).collect(), ..layers.settle()? })
    }

    /// Where the keys that a sentence names were typed, if anywhere.
    pub(crate) fn typed_in(&self, sentence: &str) -> Vec<String> {
        let names = |key: &str| {
            let after = sentence.find(key).map(|at| &sentence[at + key.len()..]);
            after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        let typed =
            self.values.iter().filter(|leaf| leaf.origin != Origin::Default && names(&leaf.path.join(".")));
        typed.map(|leaf| leaf.origin.to_string()).collect()
    }

    /// Where the value of a key came from.
    pub(crate) fn origin(&self, path: &[&str]) -> Option<&Origin> {
        self.values.iter().find(|leaf| leaf.path == path).map(|leaf| &leaf.origin)
    }

    /// A refused value, with the place where it, or what it disagrees with, was typed.
    pub(crate) fn refused(&self, invalid: &Invalid) -> Failure {
        Failure::Wrong(match self.typed_place(&invalid.key, &invalid.problem) {
            Some(place) => format!("{place}: {invalid}"),
            None => invalid.to_string(),
        })
    }

    /// Tells the person at the terminal what was read otherwise than it was typed, and what may not be what was meant.
    pub(crate) fn say_notes(&self, warnings: &[Warning]) {
        self.note_lines(warnings).iter().for_each(|line| output::say(line));
    }

    /// The same as lines.
    pub(crate) fn note_lines(&self, warnings: &[Warning]) -> Vec<String> {
        let line = |warning: &Warning| match self.typed_place(&warning.key, &warning.message) {
            Some(place) => format!("{place}: warning: {warning}"),
            None => format!("warning: {warning}"),
        };
        self.notes.iter().cloned().chain(warnings.iter().map(line)).collect()
    }

    /// Where a key was typed; for a section, the first value below it; for a default, the keys it is compared with.
    fn typed_place(&self, key: &str, sentence: &str) -> Option<String> {
        let below = format!("{key}.");
        let typed = self.values.iter().filter(|leaf| leaf.origin != Origin::Default);
        let mut places = typed.filter(|leaf| {
            let path = leaf.path.join(".");
            path == key || path.starts_with(&below)
        });
        places
            .next()
            .map(|leaf| leaf.origin.to_string())
            .or_else(|| self.typed_in(sentence).into_iter().next())
    }
}

/// The layers so far, one over the other.
struct Layers<'k> {
    keys: &'k Keys,
    order: Vec<Path>,
    values: BTreeMap<Path, (Value, Origin)>,
    notes: Vec<String>,
}

impl<'k> Layers<'k> {
    fn new(keys: &'k Keys) -> Self {
        let mut layers = Layers { keys, order: Vec::new(), values: BTreeMap::new(), notes: Vec::new() };
        for (path, value) in keys.leaves() {
            layers.set(Leaf { path, value, origin: Origin::Default });
        }
        layers
    }

    /// Lays one layer over the others. Older spellings go first, so that today's win within a layer.
    fn add(&mut self, leaves: Vec<Leaf>) -> Result<(), Failure> {
        let (old, today): (Vec<Leaf>, Vec<Leaf>) =
            leaves.into_iter().partition(|leaf| keys::renamed(&leaf.path).is_some());
        for mut leaf in old {
            if let Some(path) = keys::renamed(&leaf.path) {
                let (was, is) = (leaf.path.join("."), path.join("."));
                self.notes.push(format!("{}: '{was}' is an older spelling, write '{is}'", leaf.origin));
                leaf.path = path;
            }
            self.check_and_set(leaf)?;
        }
        today.into_iter().try_for_each(|leaf| self.check_and_set(leaf))
    }

    /// Flags are typed for one run: a general one also wins over what files say of single models.
    fn add_flags(&mut self, flags: Vec<Flag>) -> Result<(), Failure> {
        for Flag { name, path, value } in flags {
            if let [section, key] = path.as_slice()
                && section == "compression"
            {
                self.values
                    .retain(|path, _| !matches!(path.as_slice(), [m, _, k] if m == "models" && k == key));
            }
            self.check_and_set(Leaf { path, value, origin: Origin::Flag { name: name.to_owned() } })?;
        }
        Ok(())
    }

    fn check_and_set(&mut self, leaf: Leaf) -> Result<(), Failure> {
        if let Err(expected) = fits(&leaf.path, &leaf.value, self.keys) {
            let (origin, key, value) = (&leaf.origin, leaf.path.join("."), &leaf.value);
            return Err(Failure::Wrong(format!("{origin}: {key} is {value}, expected {expected}")));
        }
        self.set(leaf);
        Ok(())
    }

    fn set(&mut self, leaf: Leaf) {
        if self.values.insert(leaf.path.clone(), (leaf.value, leaf.origin)).is_none() {
            self.order.push(leaf.path);
        }
    }

    fn settle(mut self) -> Result<Settings, Failure> {
        let mut tree = Value::Null;
        let mut values = Vec::new();
        for path in self.order {
            let Some((value, origin)) = self.values.remove(&path) else { continue };
            keys::insert(&mut tree, &path, value.clone());
            values.push(Leaf { path, value, origin });
        }
        let (engine, shell) =
            read(tree, self.keys).map_err(|error| Failure::Wrong(format!("configuration: {error}")))?;
        let mut settings =
            Settings { files: Vec::new(), engine, shell, values, notes: self.notes, warnings: Vec::new() };
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    /// Refuses what only the gateway minds: hygiene steps in where the threshold did not, so that it must be the higher of the two.
    pub(crate) fn check_for_gateway(&self) -> Result<(), Failure> {
        let hygiene = self.shell.compression.hygiene_threshold;
        let of_models = self
            .engine
            .models
            .iter()
            .filter_map(|(name, stated)| Some((format!("models.{name}.threshold"), stated.threshold?)));
        let general = ("compression.threshold".to_owned(), self.engine.compression.threshold);
        match std::iter::once(general).chain(of_models).find(|(_, threshold)| *threshold >= hygiene) {
            Some((key, threshold)) => {
                let problem = format!(
                    "{threshold} must be under compression.hygiene_threshold ({hygiene}) for the gateway"
                );
                Err(self.refused(&Invalid { key, problem }))
            }
            None => Ok(()),
        }
    }

    /// Checks the ranges for any model and for each model that is named.
    fn check(&mut self) -> Result<(), Failure> {
        self.shell.check().map_err(|invalid| self.refused(&invalid))?;
        for name in std::iter::once("").chain(self.engine.models.keys().map(String::as_str)) {
            let (_, warnings) =
                Policy::new(&self.engine, &models::find(name)).map_err(|invalid| self.refused(&invalid))?;
            for warning in warnings {
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
        }
        Ok(())
    }
}

/// The values that variables set. A key's variable always holds `__`, because every key is in a section; other names
/// belong to others, unless one is a key with the second underscore forgotten.
fn from_environment(environment: &[(String, String)], keys: &Keys) -> Result<Vec<Leaf>, Failure> {
    let mut variables: Vec<&(String, String)> =
        environment.iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    let mut leaves = Vec::new();
    for (name, text) in variables {
        let key = name[PREFIX.len()..].to_lowercase();
        if !key.contains("__") {
            if let Some((path, _)) = keys.leaves().iter().find(|(path, _)| path.join("_") == key) {
                let meant = path.join("__").to_uppercase();
                return Err(Failure::Wrong(format!(
                    "{name}: unknown variable, did you mean '{PREFIX}{meant}'?"
                )));
            }
            continue;
        }
        let path: Path = key.split("__").map(str::to_owned).collect();
        match keys.at(&path) {
            Some(Value::Object(_)) => {
                return Err(Failure::Wrong(format!(
                    "{name}: '{}' holds keys; set one of them",
                    path.join(".")
                )));
            }
            None => {
                let suggestion = nearest_suggestion(&path, keys);
                return Err(Failure::Wrong(format!("{name}: unknown key '{}'{suggestion}", path.join("."))));
            }
            Some(_) => {}
        }
        let mut value = yaml::value(text);
        if fits(&path, &value, keys).is_err() && fits(&path, &text.as_str().into(), keys).is_ok() {
            value = text.as_str().into();
        }
        leaves.push(Leaf { path, value, origin: Origin::Environment { name: name.clone() } });
    }
    Ok(leaves)
}

/// The keys of a configuration file that only a trusted one may set.
pub(crate) fn keys_that_need_trust(name: &str, text: &str) -> Result<Vec<String>, Failure> {
    Ok(sides::beyond_a_project(&yaml::leaves(name, text, &Keys::new())?))
}

/// The suggestion for the first name on the way that does not exist.
fn nearest_suggestion(path: &[String], keys: &Keys) -> String {
    let wrong = (1..=path.len()).find(|&n| keys.at(&path[..n]).is_none()).unwrap_or(path.len());
    keys.suggestion(&path[..wrong])
}

/// What the engine goes by, and what it never reads.
fn read(mut tree: Value, keys: &Keys) -> serde_json::Result<(policy::Config, Shell)> {
    let shell = serde_json::from_value(keys.split_off_shell(&mut tree))?;
    Ok((serde_json::from_value(tree)?, shell))
}

/// Whether a key can hold a value; else what it can hold, in words.
fn fits(path: &[String], value: &Value, keys: &Keys) -> Result<(), String> {
    let mut tree = Value::Null;
    let read = match path {
        [models, _, capabilities, fact] if models == "models" && capabilities == "capabilities" => {
            keys::insert(&mut tree, &[fact], value.clone());
            serde_json::from_value::<ModelFacts>(tree).map(drop)
        }
        _ => {
            keys::insert(&mut tree, path, value.clone());
            read(tree, keys).map(drop)
        }
    };
    read.map_err(|error| {
        let text = error.to_string();
        let expected = text.rsplit_once("expected ").map_or(text.as_str(), |(_, expected)| expected);
        match expected {
            "f32" | "f64" => "a number".to_owned(),
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "a string" | "string or map" => "text".to_owned(),
            "a sequence" => "a list".to_owned(),
            "struct RedactionRule" => "a list of rules, each with a name and a pattern".to_owned(),
            other => other.to_owned(),
        }
    })
}
