//! What a plug-in says of itself in its `plugin.toml`, and where such files are looked for.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_engine::policy::EngineName;
use serde::Deserialize;

use super::protocol::VERSION;

/// Where engines lie below a folder of plug-ins.
pub const FOLDER: &str = "context_engine";
/// What a manifest is called.
pub const MANIFEST: &str = "plugin.toml";

/// A longer file is no manifest.
const LONGEST: u64 = 64 * 1024;
/// The longest time limit that a manifest may ask for, in milliseconds.
const LONGEST_LIMIT: u64 = 600_000;
/// A program in less memory does not even start.
const SMALLEST_MEMORY: u64 = 16;

/// What a plug-in says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What `context.engine` calls it: the name of its folder.
    pub name: String,
    /// What it does, in a line.
    pub about: String,
    /// The version of the protocol that it speaks.
    pub protocol: u64,
    /// The program and its arguments. A program with a `/` in its name lies below the plug-in's folder; others are found by `PATH`.
    pub command: Vec<String>,
    /// How long a call may take, the start of the program included.
    #[serde(default = "time_limit")]
    time_limit_ms: u64,
    /// How much address space it may have.
    #[serde(default = "memory_limit")]
    memory_limit_mb: u64,
    /// Variables of the environment that it may see beside the few that all see.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Where it lies.
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
    /// Reads the manifest in a folder. The error is one line.
    ///
    /// # Errors
    /// A file that is not there or not a manifest, or values that cannot be used.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let file = folder.join(MANIFEST);
        let mut text = String::new();
        let read = File::open(&file).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
        read.map_err(|error| format!("{MANIFEST} cannot be read: {error}"))?;
        if text.len() as u64 > LONGEST {
            return Err(format!("{MANIFEST} has more than {LONGEST} bytes"));
        }
        let manifest: Self = toml::from_str(&text).map_err(|error| {
            let words: Vec<&str> = error.message().split_whitespace().collect();
            format!("{MANIFEST}: {}", words.join(" "))
        })?;
        let manifest = Self { folder: folder.to_owned(), ..manifest };
        manifest.check().map_err(|problem| format!("{MANIFEST}: {problem}"))?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        let Self { name, protocol, time_limit_ms, memory_limit_mb, .. } = self;
        let folder = self.folder.file_name().unwrap_or_default().to_string_lossy();
        if *name != folder {
            return Err(format!("name is '{name}', but the folder is '{folder}'; they must be the same"));
        }
        if name == EngineName::COMPRESSOR.name() {
            return Err(format!("name is '{name}', which is always the built-in engine; take another"));
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err("name may hold letters, digits, - and _".to_owned());
        }
        if *protocol != VERSION {
            return Err(format!("protocol is {protocol}, but this program speaks {VERSION}"));
        }
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command is empty; give the program and its arguments".to_owned());
        }
        if !(1..=LONGEST_LIMIT).contains(time_limit_ms) {
            return Err(format!("time_limit_ms is {time_limit_ms}, expected 1 to {LONGEST_LIMIT}"));
        }
        if *memory_limit_mb < SMALLEST_MEMORY {
            return Err(format!("memory_limit_mb is {memory_limit_mb}, expected {SMALLEST_MEMORY} or more"));
        }
        Ok(())
    }

    /// How long a call may take.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        Duration::from_millis(self.time_limit_ms)
    }

    /// How many bytes of address space it may have.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.memory_limit_mb.saturating_mul(1024 * 1024)
    }
}

/// A plug-in that lies somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lying {
    /// The name of its folder.
    pub name: String,
    /// Where.
    pub folder: PathBuf,
    /// What it says of itself, or what is wrong with that.
    pub manifest: Result<Manifest, String>,
}

/// The engines that lie below a folder of plug-ins, by name. Nothing is started, and a folder that is not there has none.
#[must_use]
pub fn look(plugins: &Path) -> Vec<Lying> {
    let entries = std::fs::read_dir(plugins.join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    let lying = |folder: PathBuf| {
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Lying { name, manifest: Manifest::read(&folder), folder }
    };
    let mut all: Vec<Lying> = folders.map(lying).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}
