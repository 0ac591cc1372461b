//! The active configuration: the defaults, then the files, the environment and the flags, with the origin of
//! each value.
//!
//! ```text
//! defaults ◀─ the user's longhaul.yaml ◀─ a project's ◀─ LONGHAUL_COMPRESSION__THRESHOLD ◀─ --threshold
//!             each layer is a list of values with path and origin; `key_permissions` limits an untrusted file
//! ```
//!
//! Each layer overrides those to its left.
//!
//! Nothing here reads the environment of the process: callers pass it in.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path as FilePath;

use longhaul_engine::models::{self, ModelFacts};
use longhaul_engine::policy::{self, ConfigWarning, InvalidValue, Policy};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::output;
use app::AppConfig;
pub(crate) use app::{
    AUTO_PROVIDER, AuxiliaryModelConfig, FirstModel, MAIN_PROVIDER, NO_PROVIDER, StoreConfig, StoreSync,
    UpstreamConfig, UpstreamsConfig,
};
pub(crate) use files::{CONFIG_FILE_NAME, ConfigFiles, FileOrigin, Trust, data_folder, read_text, user_config_path};
pub(crate) use gateway::{GatewayConfig, ListenAddress, LogFormat, LogLevel, RecallSetting};
pub(crate) use keys::has_effect;
use keys::{KeyPath, KeyTree};

mod app;
mod files;
mod gateway;
mod key_permissions;
mod keys;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
pub(crate) mod trust;
mod yaml;

const VARIABLE_PREFIX: &str = "LONGHAUL_";

/// The environment variables, as pairs of name and value.
pub(crate) type Environment = Vec<(String, String)>;

/// The active configuration, with the origin of each value.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The files that were read, lowest layer first.
    pub(crate) files: Vec<LoadedFile>,
    /// The configuration of the engine, merged from all layers.
    pub(crate) engine: policy::Config,
    /// The configuration that the engine never reads, merged from all layers.
    pub(crate) app: AppConfig,
    /// All active values. Within a section, the engine's values are first.
    pub(crate) values: Vec<ConfigValue>,
    /// Lines for the user about old key names that were used and files that were not read.
    pub(crate) notes: Vec<String>,
    /// Warnings about values that are legal but unusual.
    pub(crate) warnings: Vec<ConfigWarning>,
}

/// A file that was read, as `longhaul config --json` lists it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LoadedFile {
    #[serde(rename = "file")]
    pub(crate) name: String,
    #[serde(rename = "found")]
    pub(crate) origin: FileOrigin,
    /// Whether the file may set every key.
    pub(crate) trusted: bool,
}

/// One configuration value with its origin.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigValue {
    pub(crate) path: KeyPath,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The built-in default.
    Default,
    /// A position in a file. Line and column count from 1.
    File { file: String, line: usize, column: usize },
    /// An environment variable.
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

/// A configuration value that was given as an option of the command line.
pub(crate) struct Flag {
    /// The option, with its dashes.
    pub(crate) name: &'static str,
    /// The configuration key that the option sets.
    pub(crate) path: KeyPath,
    /// The new value of that key.
    pub(crate) value: Value,
}

impl Settings {
    /// Reads all layers and checks every value. `file` is the file that `--config` names.
    pub(crate) fn load(
        file: Option<&FilePath>,
        environment: &[(String, String)],
        flags: Vec<Flag>,
    ) -> Result<Settings, Failure> {
        Settings::from_layers(&ConfigFiles::read(file, environment)?, environment, flags)
    }

    /// Merges and checks all layers, with configuration files that were read already.
    pub(crate) fn from_layers(
        files: &ConfigFiles,
        environment: &[(String, String)],
        flags: Vec<Flag>,
    ) -> Result<Settings, Failure> {
        let keys = KeyTree::new();
        let mut layers = Layers::new(&keys);
        layers.notes.clone_from(&files.notes);
        for file in &files.layers {
            let leaves = yaml::parse_file(&file.name, &file.text, &keys)?;
            if file.trust == Trust::Untrusted {
                key_permissions::check_untrusted(&file.name, &leaves)?;
            }
            layers.add(leaves)?;
        }
        layers.add(values_from_environment(environment, &keys)?)?;
        layers.add_flags(flags)?;
        let read = |file: &files::ConfigFile| LoadedFile {
            name: file.name.clone(),
            origin: file.origin,
            trusted: file.trust == Trust::Trusted,
        };
        Ok(Settings { files: files.layers.iter().map(read).collect(), ..layers.into_settings()? })
    }

    /// Returns the origins of the keys that a sentence names, without those that have their default.
    pub(crate) fn origins_of_named_keys(&self, sentence: &str) -> Vec<String> {
        let names = |key: &str| {
            let after = sentence.find(key).map(|at| &sentence[at + key.len()..]);
            after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        let typed = self.values.iter().filter(|leaf| leaf.origin != Origin::Default && names(&leaf.path.join(".")));
        typed.map(|leaf| leaf.origin.to_string()).collect()
    }

    /// Returns the origin of a key's value, or `None` if the key has no value.
    pub(crate) fn origin(&self, path: &[&str]) -> Option<&Origin> {
        self.values.iter().find(|leaf| leaf.path == path).map(|leaf| &leaf.origin)
    }

    /// Turns an invalid value into a failure that names the origin of the value, or of the value that it
    /// contradicts.
    pub(crate) fn invalid_value_failure(&self, invalid: &InvalidValue) -> Failure {
        Failure::InvalidInput(match self.find_typed_origin(&invalid.key, &invalid.problem) {
            Some(option) if option.starts_with("--") => format!("{option}: {}", invalid.problem),
            Some(place) => format!("{place}: {invalid}"),
            None => invalid.to_string(),
        })
    }

    /// Prints the notes and these warnings on standard error.
    pub(crate) fn print_notes(&self, warnings: &[ConfigWarning]) {
        self.note_lines(warnings).iter().for_each(|line| output::print_message(line));
    }

    /// Returns the notes and these warnings as lines, with the origin of each value.
    pub(crate) fn note_lines(&self, warnings: &[ConfigWarning]) -> Vec<String> {
        let line = |warning: &ConfigWarning| match self.find_typed_origin(&warning.key, &warning.message) {
            Some(place) => format!("{place}: warning: {warning}"),
            None => format!("warning: {warning}"),
        };
        self.notes.iter().cloned().chain(warnings.iter().map(line)).collect()
    }

    /// Returns where a key was set: the key itself, or the first key set below it. If neither was set, it is the
    /// first set key that `sentence` names.
    fn find_typed_origin(&self, key: &str, sentence: &str) -> Option<String> {
        let below = format!("{key}.");
        let typed = self.values.iter().filter(|leaf| leaf.origin != Origin::Default);
        let mut places = typed.filter(|leaf| {
            let path = leaf.path.join(".");
            path == key || path.starts_with(&below)
        });
        places
            .next()
            .map(|leaf| leaf.origin.to_string())
            .or_else(|| self.origins_of_named_keys(sentence).into_iter().next())
    }
}

/// The layers that were merged so far. A later layer replaces values of an earlier one.
struct Layers<'k> {
    keys: &'k KeyTree,
    order: Vec<KeyPath>,
    values: BTreeMap<KeyPath, (Value, Origin)>,
    notes: Vec<String>,
}

impl<'k> Layers<'k> {
    fn new(keys: &'k KeyTree) -> Self {
        let mut layers = Layers { keys, order: Vec::new(), values: BTreeMap::new(), notes: Vec::new() };
        for (path, value) in keys.defaults() {
            layers.set(ConfigValue { path, value, origin: Origin::Default });
        }
        layers
    }

    /// Merges one layer. Old key names are applied first, so that current names win within a layer.
    fn add(&mut self, leaves: Vec<ConfigValue>) -> Result<(), Failure> {
        let (old, current): (Vec<ConfigValue>, Vec<ConfigValue>) =
            leaves.into_iter().partition(|leaf| keys::current_name(&leaf.path).is_some());
        for mut leaf in old {
            if let Some(path) = keys::current_name(&leaf.path) {
                let (was, is) = (leaf.path.join("."), path.join("."));
                self.notes.push(format!("{}: '{was}' is the old name, use '{is}'", leaf.origin));
                leaf.path = path;
            }
            self.check_and_set(leaf)?;
        }
        current.into_iter().try_for_each(|leaf| self.check_and_set(leaf))
    }

    /// Merges the flags. They are meant for one run, so a flag for all models also replaces what files set
    /// for single models.
    fn add_flags(&mut self, flags: Vec<Flag>) -> Result<(), Failure> {
        for Flag { name, path, value } in flags {
            if let [section, key] = path.as_slice()
                && section == "compression"
            {
                self.values.retain(|path, _| !matches!(path.as_slice(), [m, _, k] if m == "models" && k == key));
            }
            self.check_and_set(ConfigValue { path, value, origin: Origin::Flag { name: name.to_owned() } })?;
        }
        Ok(())
    }

    fn check_and_set(&mut self, leaf: ConfigValue) -> Result<(), Failure> {
        if let Err(expected) = check_type(&leaf.path, &leaf.value, self.keys) {
            let (origin, key, value) = (&leaf.origin, leaf.path.join("."), &leaf.value);
            return Err(Failure::InvalidInput(format!("{origin}: {key} is {value}, expected {expected}")));
        }
        self.set(leaf);
        Ok(())
    }

    fn set(&mut self, leaf: ConfigValue) {
        if self.values.insert(leaf.path.clone(), (leaf.value, leaf.origin)).is_none() {
            self.order.push(leaf.path);
        }
    }

    fn into_settings(mut self) -> Result<Settings, Failure> {
        let mut tree = Value::Null;
        let mut values = Vec::new();
        for path in self.order {
            let Some((value, origin)) = self.values.remove(&path) else { continue };
            keys::insert(&mut tree, &path, value.clone());
            values.push(ConfigValue { path, value, origin });
        }
        let (engine, app) = deserialize_configs(tree, self.keys)
            .map_err(|error| Failure::InvalidInput(format!("configuration: {error}")))?;
        let mut settings = Settings { files: Vec::new(), engine, app, values, notes: self.notes, warnings: Vec::new() };
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    /// Refuses thresholds that do not work in the gateway. The safety threshold applies when the normal
    /// threshold did not compact, so it must be above every other threshold.
    pub(crate) fn check_for_gateway(&self) -> Result<(), Failure> {
        let hygiene = self.app.compression.hygiene_threshold;
        let of_models = self
            .engine
            .models
            .iter()
            .filter_map(|(name, stated)| Some((format!("models.{name}.threshold"), stated.threshold?)));
        let general = ("compression.threshold".to_owned(), self.engine.compression.threshold);
        match std::iter::once(general).chain(of_models).find(|(_, threshold)| *threshold >= hygiene) {
            Some((key, threshold)) => {
                let problem = format!(
                    "{threshold} must be under the safety threshold, compression.hygiene_threshold ({hygiene}), for the gateway"
                );
                Err(self.invalid_value_failure(&InvalidValue { key, problem }))
            }
            None => Ok(()),
        }
    }

    /// Checks the ranges of all values: for an unknown model, and for each model that the configuration
    /// names.
    fn check(&mut self) -> Result<(), Failure> {
        self.app.check().map_err(|invalid| self.invalid_value_failure(&invalid))?;
        for name in std::iter::once("").chain(self.engine.models.keys().map(String::as_str)) {
            let (_, warnings) = Policy::new(&self.engine, &models::find(name))
                .map_err(|invalid| self.invalid_value_failure(&invalid))?;
            for warning in warnings {
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
        }
        Ok(())
    }
}

/// Returns the values that environment variables set. The variable of a key always contains `__`, because
/// every key is in a section. Other variables with our prefix are ignored, unless one is a key with a single
/// underscore in place of two.
fn values_from_environment(environment: &[(String, String)], keys: &KeyTree) -> Result<Vec<ConfigValue>, Failure> {
    let mut variables: Vec<&(String, String)> =
        environment.iter().filter(|(name, _)| name.starts_with(VARIABLE_PREFIX)).collect();
    variables.sort();
    let mut leaves = Vec::new();
    for (name, text) in variables {
        let key = name[VARIABLE_PREFIX.len()..].to_lowercase();
        if !key.contains("__") {
            if let Some((path, _)) = keys.defaults().iter().find(|(path, _)| path.join("_") == key) {
                let meant = path.join("__").to_uppercase();
                return Err(Failure::InvalidInput(format!(
                    "{name}: unknown variable, did you mean '{VARIABLE_PREFIX}{meant}'?"
                )));
            }
            continue;
        }
        let path: KeyPath = key.split("__").map(str::to_owned).collect();
        match keys.default_at(&path) {
            Some(Value::Object(_)) => {
                return Err(Failure::InvalidInput(format!(
                    "{name}: '{}' is a section; set one of its keys",
                    path.join(".")
                )));
            }
            None => {
                let suggestion = nearest_suggestion(&path, keys);
                return Err(Failure::InvalidInput(format!("{name}: unknown key '{}'{suggestion}", path.join("."))));
            }
            Some(_) => {}
        }
        let mut value = yaml::parse_value(text);
        if check_type(&path, &value, keys).is_err() && check_type(&path, &text.as_str().into(), keys).is_ok() {
            value = text.as_str().into();
        }
        leaves.push(ConfigValue { path, value, origin: Origin::Environment { name: name.clone() } });
    }
    Ok(leaves)
}

/// Returns the keys of a configuration file that only a trusted file may set.
pub(crate) fn keys_requiring_trust(name: &str, text: &str) -> Result<Vec<String>, Failure> {
    Ok(key_permissions::keys_beyond_project(&yaml::parse_file(name, text, &KeyTree::new())?))
}

/// Returns the suggestion for the first name in `path` that does not exist.
fn nearest_suggestion(path: &[String], keys: &KeyTree) -> String {
    let wrong = (1..=path.len()).find(|&n| keys.default_at(&path[..n]).is_none()).unwrap_or(path.len());
    keys.suggestion(&path[..wrong])
}

/// Splits a tree of values into the engine's configuration and the rest, and deserializes both.
fn deserialize_configs(mut tree: Value, keys: &KeyTree) -> serde_json::Result<(policy::Config, AppConfig)> {
    let app = serde_json::from_value(keys.split_off_app(&mut tree))?;
    Ok((serde_json::from_value(tree)?, app))
}

/// Checks that a key accepts a value of this type. The error says what the key accepts.
fn check_type(path: &[String], value: &Value, keys: &KeyTree) -> Result<(), String> {
    let mut tree = Value::Null;
    let read = match path {
        [models, _, capabilities, fact] if models == "models" && capabilities == "capabilities" => {
            keys::insert(&mut tree, &[fact], value.clone());
            serde_json::from_value::<ModelFacts>(tree).map(drop)
        }
        _ => {
            keys::insert(&mut tree, path, value.clone());
            deserialize_configs(tree, keys).map(drop)
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
