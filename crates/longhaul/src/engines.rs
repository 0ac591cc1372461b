//! The engines that a call can use: the built-in ones, and of the plug-ins the one that is named.
//!
//! ```text
//! --plugins or context.plugins ▶ plugins/ beside the configuration ▶ plugins/ in the user's configuration folder
//! ```
//!
//! A program is started only if somebody named it, from a folder that the user chose: what lies beside a configuration that was merely
//! found in a folder came with that folder, and may be anybody's. Such a configuration names a folder only if the user trusts it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::plan::{Engine, Engines};
use longhaul_engine::policy::EngineName;
use longhaul_server::gateway::Limits;
use longhaul_server::plugins::{self, Lying, Plugin, World};

use crate::commands::redact;
use crate::config::{self, Environment, Found, Origin, Settings};
use crate::failure::Failure;
use crate::store;

/// The folder of plug-ins beside a configuration.
const FOLDER: &str = "plugins";
/// Where nobody waits but the user, a plug-in may take its time.
const PATIENT: Duration = Duration::from_mins(15);
/// The share of a gateway's own deadline that one call may take: a request may need two, and the compressor behind them.
const SHARE: f64 = 0.4;

/// Who waits for a plug-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Somebody at a terminal.
    User,
    /// A request on its way.
    Gateway,
}

/// The engines that a call can use.
pub(crate) struct Available {
    pub(crate) engines: Engines,
    /// The plug-ins that lie in the folders, in the order in which they are looked through.
    pub(crate) lying: Vec<Lying>,
    /// What is to be known of the one that is named.
    pub(crate) notes: Vec<String>,
    plugin: Option<Arc<Plugin>>,
}

impl Available {
    /// Looks for them. Nothing is started yet.
    pub(crate) fn new(
        settings: &Settings,
        environment: &Environment,
        waiting: Waiting,
    ) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let places = places(settings, environment)?;
        let lying: Vec<Lying> = places.iter().flat_map(|place| plugins::look(place)).collect();
        let (name, origin) = (&settings.engine.context.engine, settings.origin(&["context", "engine"]));
        let named = lying.iter().find(|there| there.name == name.name() && *name != EngineName::COMPRESSOR);
        let manifest = named.and_then(|there| there.manifest.as_ref().ok());
        let world = World {
            clock: Arc::new(store::now),
            environment: environment.clone(),
            rules: redact::rules(settings)?,
            longest: match waiting {
                Waiting::User => PATIENT,
                Waiting::Gateway => Limits::default().deadline.mul_f64(SHARE),
            },
        };
        let plugin = manifest.map(|manifest| Arc::new(Plugin::new(manifest.clone(), world)));
        let built_in = Engines::default();
        let engines = plugin.iter().fold(built_in, |engines, plugin| engines.with(plugin.clone()));
        let problem = match named {
            Some(Lying { folder, manifest: Err(problem), .. }) => {
                Some(format!("the plug-in {name} in {} cannot be used: {problem}", folder.display()))
            }
            _ => engines.missing(name).map(|missing| with_plugins(missing, &lying)),
        };
        match (problem, origin) {
            (Some(problem), Some(Origin::Flag { name: flag })) => {
                return Err(Failure::Wrong(format!("{flag}: {problem}")));
            }
            (Some(problem), Some(origin)) => {
                notes.push(format!("{origin}: {problem}; compressor takes its place"));
            }
            (Some(_), None) | (None, _) => {}
        }
        Ok(Self { engines, lying, notes, plugin })
    }

    /// Starts the plug-in that is named, so that what is wrong with it is said before anybody needs it.
    pub(crate) fn begin(mut self) -> Self {
        if let Some(plugin) = &self.plugin
            && let Err(problem) = plugin.begin()
        {
            let name = plugin.name();
            self.notes.push(format!("plug-in {name}: {problem}; compressor takes its place until it works"));
        }
        self
    }
}

impl Drop for Available {
    fn drop(&mut self) {
        if let Some(plugin) = &self.plugin {
            plugin.end();
        }
    }
}

fn with_plugins(missing: String, lying: &[Lying]) -> String {
    let names: Vec<&str> = lying.iter().map(|there| there.name.as_str()).collect();
    if names.is_empty() { missing } else { format!("{missing}, and the plug-ins {}", names.join(", ")) }
}

/// The folders in which plug-ins are looked for.
fn places(settings: &Settings, environment: &Environment) -> Result<Vec<PathBuf>, Failure> {
    let mut places = Vec::new();
    let beside = |name: &str| Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
    if let Some(typed) = &settings.shell.context.plugins {
        let typed = Path::new(typed);
        match settings.origin(&["context", "plugins"]) {
            Some(Origin::File { file, .. }) => places.push(beside(file).join(typed)),
            Some(origin @ Origin::Environment { .. }) if typed.is_relative() => {
                return Err(Failure::Wrong(format!(
                    "{origin}: {} must be an absolute path",
                    typed.display()
                )));
            }
            _ => places.push(typed.to_owned()),
        }
    }
    let is_named = |file: &&config::FileRead| matches!(file.found, Found::Option | Found::Variable);
    places.extend(settings.files.iter().filter(is_named).map(|file| beside(&file.name).join(FOLDER)));
    let users = config::users(environment);
    places.extend(users.and_then(|file| Some(file.parent()?.join(FOLDER))));
    let mut all: Vec<PathBuf> = Vec::new();
    for place in places {
        let place = std::path::absolute(&place).unwrap_or(place);
        if !all.contains(&place) {
            all.push(place);
        }
    }
    Ok(all)
}
