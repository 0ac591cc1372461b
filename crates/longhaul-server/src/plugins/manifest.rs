//! The manifest of a plug-in, `plugin.toml`, and the search for such files.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_engine::policy::EngineName;
use serde::Deserialize;

use super::protocol::PROTOCOL_VERSION;

/// The folder of engines inside a folder of plug-ins.
pub const ENGINE_FOLDER: &str = "context_engine";
/// The file name of a manifest.
pub const MANIFEST_FILE: &str = "plugin.toml";

/// The maximum size of a manifest, in bytes. Chosen by hand, like the limits below.
const MAX_MANIFEST_BYTES: u64 = 64 * 1024;
/// The maximum time limit that a manifest may ask for, in milliseconds.
const MAX_TIME_LIMIT_MS: u64 = 600_000;
/// The minimum memory limit, in megabytes: with less, a program does not even start.
const MIN_MEMORY_MB: u64 = 16;

/// The description of a plug-in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The name that `context.engine` refers to. It must be the name of the plug-in's folder.
    pub name: String,
    /// The description of the plug-in in one line.
    pub about: String,
    /// The version of the protocol that the program supports.
    pub protocol: u64,
    /// The program and its arguments. A program with a `/` in its name is relative to the plug-in's folder;
    /// others are found by `PATH`.
    pub command: Vec<String>,
    /// The maximum time of a call, including the start of the program.
    #[serde(default = "time_limit")]
    time_limit_ms: u64,
    /// The maximum address space of the program.
    #[serde(default = "memory_limit")]
    memory_limit_mb: u64,
    /// The environment variables that the program gets in addition to those that every program gets.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The plug-in's folder.
    #[serde(skip)]
    pub folder: PathBuf,
}

fn time_limit() -> u64 {
    1_500
}

fn memory_limit() -> u64 {
    2_048
}

impl Manifest {
    /// Reads and checks the manifest in a folder. The error is one line.
    ///
    /// # Errors
    /// The file is missing or is no manifest, or has values that cannot be used.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let file = folder.join(MANIFEST_FILE);
        let mut text = String::new();
        let read = File::open(&file).and_then(|file| file.take(MAX_MANIFEST_BYTES + 1).read_to_string(&mut text));
        read.map_err(|error| format!("{MANIFEST_FILE} cannot be read: {error}"))?;
        if text.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(format!("{MANIFEST_FILE} has more than {MAX_MANIFEST_BYTES} bytes"));
        }
        let manifest: Self = toml::from_str(&text).map_err(|error| {
            let parts: Vec<&str> = error.message().split_whitespace().collect();
            format!("{MANIFEST_FILE}: {}", parts.join(" "))
        })?;
        let manifest = Self { folder: folder.to_owned(), ..manifest };
        manifest.check().map_err(|problem| format!("{MANIFEST_FILE}: {problem}"))?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        let Self { name, protocol, time_limit_ms, memory_limit_mb, .. } = self;
        let folder = self.folder.file_name().unwrap_or_default().to_string_lossy();
        if *name != folder {
            return Err(format!("name is '{name}', but the folder is '{folder}'; they must be the same"));
        }
        if name == EngineName::COMPRESSOR.name() {
            return Err(format!("name is '{name}', which is a built-in engine; choose another"));
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err("name may contain letters, digits, - and _".to_owned());
        }
        if *protocol != PROTOCOL_VERSION {
            return Err(format!("protocol is {protocol}, but Longhaul supports {PROTOCOL_VERSION}"));
        }
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command is empty; give the program and its arguments".to_owned());
        }
        if !(1..=MAX_TIME_LIMIT_MS).contains(time_limit_ms) {
            return Err(format!("time_limit_ms is {time_limit_ms}, expected 1 to {MAX_TIME_LIMIT_MS}"));
        }
        if *memory_limit_mb < MIN_MEMORY_MB {
            return Err(format!("memory_limit_mb is {memory_limit_mb}, expected {MIN_MEMORY_MB} or more"));
        }
        Ok(())
    }

    /// Returns the maximum time of a call.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        Duration::from_millis(self.time_limit_ms)
    }

    /// Returns the maximum address space, in bytes.
    #[must_use]
    pub fn memory_limit_bytes(&self) -> u64 {
        self.memory_limit_mb.saturating_mul(1024 * 1024)
    }
}

/// A plug-in that was found in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPlugin {
    /// The name of its folder.
    pub name: String,
    /// The absolute path of its folder.
    pub folder: PathBuf,
    /// The manifest, or one line about what is wrong with it.
    pub manifest: Result<Manifest, String>,
}

/// Finds the engines in a folder of plug-ins, sorted by name. It starts none of them. A missing folder has
/// none.
#[must_use]
pub fn find_plugins(plugins: &Path) -> Vec<FoundPlugin> {
    let entries = std::fs::read_dir(plugins.join(ENGINE_FOLDER)).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    let read_plugin = |folder: PathBuf| {
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        FoundPlugin { name, manifest: Manifest::read(&folder), folder }
    };
    let mut all: Vec<FoundPlugin> = folders.map(read_plugin).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}
