//! The engines that a call can use: the built-in ones, and the plug-in that the configuration or `--engine`
//! names.
//!
//! ```text
//! --plugins or context.plugins ▶ plugins/ beside the configuration ▶ plugins/ in the user's configuration folder
//! ```
//!
//! A plug-in is a program. It is started only if it was named, and only from a folder that the user chose. A
//! `plugins/` folder beside a configuration file that was merely found is ignored, because both may belong to
//! somebody else's repository. Such a file can name a folder only if the user trusts it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::plan::{Engine, EngineRegistry};
use longhaul_engine::policy::EngineName;
use longhaul_server::gateway::GatewayLimits;
use longhaul_server::plugins::{self, FoundPlugin, Plugin, PluginContext};

use crate::commands::redact;
use crate::config::{self, Environment, FileOrigin, Origin, Settings};
use crate::failure::Failure;
use crate::store;

/// The folder of plug-ins beside a configuration.
const PLUGINS_FOLDER: &str = "plugins";
/// The maximum time for one call of a plug-in from the command line, where only the user waits. Chosen by
/// hand.
const MAX_INTERACTIVE_CALL: Duration = Duration::from_mins(15);
/// The maximum time for one call of a plug-in in the gateway, as a share of the request's deadline. One
/// request may need two calls, and then the compressor.
const MAX_DEADLINE_SHARE: f64 = 0.4;

/// The caller that waits for a plug-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PluginCaller {
    /// A user at a terminal.
    User,
    /// A request in the gateway.
    Gateway,
}

/// The engines that a call can use. Dropping it stops the plug-in.
pub(crate) struct AvailableEngines {
    pub(crate) engines: EngineRegistry,
    /// All plug-ins in the plug-in folders, in search order.
    pub(crate) found_plugins: Vec<FoundPlugin>,
    /// Lines for the user about problems with the named engine.
    pub(crate) notes: Vec<String>,
    plugin: Option<Arc<Plugin>>,
}

impl AvailableEngines {
    /// Looks for engines, without starting a plug-in.
    pub(crate) fn new(settings: &Settings, environment: &Environment, caller: PluginCaller) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let folders = plugin_folders(settings, environment)?;
        let found: Vec<FoundPlugin> = folders.iter().flat_map(|folder| plugins::find_plugins(folder)).collect();
        let (name, origin) = (&settings.engine.context.engine, settings.origin(&["context", "engine"]));
        let named = found.iter().find(|plugin| plugin.name == name.name() && *name != EngineName::COMPRESSOR);
        let manifest = named.and_then(|plugin| plugin.manifest.as_ref().ok());
        let context = PluginContext {
            clock: Arc::new(store::now),
            environment: environment.clone(),
            rules: redact::load_rules(settings)?,
            max_call_time: match caller {
                PluginCaller::User => MAX_INTERACTIVE_CALL,
                PluginCaller::Gateway => GatewayLimits::default().deadline.mul_f64(MAX_DEADLINE_SHARE),
            },
        };
        let plugin = manifest.map(|manifest| Arc::new(Plugin::new(manifest.clone(), context)));
        let built_in = EngineRegistry::default();
        let engines = plugin.iter().fold(built_in, |engines, plugin| engines.with(plugin.clone()));
        let problem = match named {
            Some(FoundPlugin { folder, manifest: Err(problem), .. }) => {
                Some(format!("the plug-in {name} in {} cannot be used: {problem}", folder.display()))
            }
            _ => engines.missing_message(name).map(|missing| with_plugin_names(missing, &found)),
        };
        match (problem, origin) {
            (Some(problem), Some(Origin::Flag { name: flag })) => {
                return Err(Failure::InvalidInput(format!("{flag}: {problem}")));
            }
            (Some(problem), Some(origin)) => {
                notes.push(format!("{origin}: {problem}; the compressor is used instead"));
            }
            (Some(_), None) | (None, _) => {}
        }
        Ok(Self { engines, found_plugins: found, notes, plugin })
    }

    /// Starts the named plug-in, so that a problem is reported before a request needs the plug-in.
    pub(crate) fn start_plugin(mut self) -> Self {
        if let Some(plugin) = &self.plugin
            && let Err(problem) = plugin.start()
        {
            let name = plugin.name();
            self.notes.push(format!("plug-in {name}: {problem}; the compressor is used until the plug-in works"));
        }
        self
    }
}

impl Drop for AvailableEngines {
    fn drop(&mut self) {
        if let Some(plugin) = &self.plugin {
            plugin.stop();
        }
    }
}

fn with_plugin_names(missing: String, found: &[FoundPlugin]) -> String {
    let names: Vec<&str> = found.iter().map(|plugin| plugin.name.as_str()).collect();
    if names.is_empty() { missing } else { format!("{missing}, and the plug-ins {}", names.join(", ")) }
}

/// Returns the folders to search for plug-ins, without duplicates.
fn plugin_folders(settings: &Settings, environment: &Environment) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = Vec::new();
    let beside = |name: &str| Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
    if let Some(typed) = &settings.app.context.plugins {
        let typed = Path::new(typed);
        match settings.origin(&["context", "plugins"]) {
            Some(Origin::File { file, .. }) => folders.push(beside(file).join(typed)),
            Some(origin @ Origin::Environment { .. }) if typed.is_relative() => {
                return Err(Failure::InvalidInput(format!("{origin}: {} must be an absolute path", typed.display())));
            }
            _ => folders.push(typed.to_owned()),
        }
    }
    let is_named = |file: &&config::LoadedFile| matches!(file.origin, FileOrigin::Option | FileOrigin::Variable);
    folders.extend(settings.files.iter().filter(is_named).map(|file| beside(&file.name).join(PLUGINS_FOLDER)));
    let users = config::user_config_path(environment);
    folders.extend(users.and_then(|file| Some(file.parent()?.join(PLUGINS_FOLDER))));
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        if !all.contains(&folder) {
            all.push(folder);
        }
    }
    Ok(all)
}
