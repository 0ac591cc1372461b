//! Finds the configuration files to read, and decides which of them may set every key.
//!
//! ```text
//! --config, or LONGHAUL_CONFIG       only that file
//! otherwise: the user's own file ◀─ longhaul.yaml in this folder, or in the nearest folder above
//!            trusted                untrusted until `longhaul trust`: it may belong to somebody else's repository
//! ```
//!
//! The file on the right overrides the one on the left.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::trust::TrustRecords;
use crate::failure::Failure;
use crate::input;

/// The name of a configuration file in a folder.
pub(crate) const CONFIG_FILE_NAME: &str = "longhaul.yaml";

/// The environment variable that names a configuration file.
const CONFIG_VARIABLE: &str = "LONGHAUL_CONFIG";

/// The maximum size of a configuration file. The commented example with every key has 6 KB.
const MAX_FILE_BYTES: usize = 256 * 1024;

/// The configuration files of one call, lowest layer first.
#[derive(Debug, Default)]
pub(crate) struct ConfigFiles {
    pub(crate) layers: Vec<ConfigFile>,
    /// Lines for the user about files that were found but not read, with the reason.
    pub(crate) notes: Vec<String>,
}

/// A configuration file.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    /// The name of the file in messages.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) origin: FileOrigin,
    pub(crate) trust: Trust,
}

/// The reason why a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileOrigin {
    Option,
    Variable,
    Folder,
    Above,
    User,
}

impl FileOrigin {
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Option => "named by --config",
            Self::Variable => "named by LONGHAUL_CONFIG",
            Self::Folder => "found in this folder",
            Self::Above => "found in a folder above",
            Self::User => "found in your configuration folder",
        }
    }
}

/// The permission of a file to set keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The file may set every key.
    Trusted,
    /// The file may set only the keys that [`key_permissions`](super::key_permissions) allows for a project.
    Untrusted,
}

impl ConfigFiles {
    /// Reads the files that apply. A file that is named by the user must exist.
    pub(crate) fn read(named: Option<&Path>, environment: &[(String, String)]) -> Result<Self, Failure> {
        if let Some((path, origin)) = explicit_file(named, environment) {
            let file = ConfigFile::read(&path, origin, Trust::Trusted)?;
            return Ok(Self { layers: vec![file], notes: Vec::new() });
        }
        let mut files = Self::default();
        let user_file = user_config_path(environment).filter(|path| path.is_file());
        if let Some(path) = &user_file {
            files.layers.push(ConfigFile::read(path, FileOrigin::User, Trust::Trusted)?);
        }
        let here = std::env::current_dir().ok();
        if let Some((path, origin)) = project_file(here.as_deref(), &|path| path.is_file())
            && !user_file.is_some_and(|user_file| is_same_file(&user_file, &path))
        {
            files.add_project(&path, origin, environment)?;
        }
        Ok(files)
    }

    fn add_project(
        &mut self,
        path: &Path,
        origin: FileOrigin,
        environment: &[(String, String)],
    ) -> Result<(), Failure> {
        let mut file = ConfigFile::read(path, origin, Trust::Untrusted)?;
        if TrustRecords::open(environment).is_some_and(|records| records.contains(path, &file.text)) {
            file.trust = Trust::Trusted;
        } else if !belongs_to_user(path) {
            self.notes.push(format!(
                "{}: not read, because it belongs to another user; to allow it: {}",
                file.name,
                super::trust::trust_command(&file.name)
            ));
            return Ok(());
        }
        self.layers.push(file);
        Ok(())
    }
}

impl ConfigFile {
    fn read(path: &Path, origin: FileOrigin, trust: Trust) -> Result<Self, Failure> {
        Ok(Self { name: input::label(path), text: read_text(path)?, origin, trust })
    }
}

/// Reads a configuration file, and refuses one that is too large.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX) + 1;
    let read = input::open(path)?.take(limit).read_to_end(&mut bytes);
    read.map_err(|error| input::read_failure(path, &error))?;
    let shown = input::label(path);
    if bytes.len() > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES / 1024;
        return Err(Failure::InvalidInput(format!(
            "{shown} has more than {limit} KB; a configuration is a few KB, check the path"
        )));
    }
    input::decode_text(&shown, bytes)
}

/// Returns the path of the user's own configuration file, which need not exist.
pub(crate) fn user_config_path(environment: &[(String, String)]) -> Option<PathBuf> {
    Some(user_folder(environment, "XDG_CONFIG_HOME", &[".config"])?.join("longhaul").join(CONFIG_FILE_NAME))
}

/// Returns the folder in which programs store data of the user.
pub(crate) fn data_folder(environment: &[(String, String)]) -> Option<PathBuf> {
    user_folder(environment, "XDG_DATA_HOME", &[".local", "share"])
}

/// Returns the folder that a variable names, or else one below the home folder. A relative path is ignored,
/// as the XDG standard says: it would be relative to the current folder, which may belong to anybody.
fn user_folder(environment: &[(String, String)], name: &str, below_home: &[&str]) -> Option<PathBuf> {
    let folder = |name: &str| {
        let named = env_var(environment, name).map(PathBuf::from);
        named.filter(|path| path.is_absolute())
    };
    let home = || folder("HOME").or_else(|| folder("USERPROFILE"));
    folder(name).or_else(|| Some(home()?.join(below_home.iter().collect::<PathBuf>())))
}

fn env_var<'e>(environment: &'e [(String, String)], name: &str) -> Option<&'e str> {
    let is_it = |(variable, value): &&(String, String)| variable == name && !value.is_empty();
    environment.iter().find(is_it).map(|(_, value)| value.as_str())
}

fn explicit_file(named: Option<&Path>, environment: &[(String, String)]) -> Option<(PathBuf, FileOrigin)> {
    let by_option = named.map(|path| (path.to_owned(), FileOrigin::Option));
    by_option.or_else(|| Some((env_var(environment, CONFIG_VARIABLE)?.into(), FileOrigin::Variable)))
}

/// Finds the nearest configuration file, in this folder or above it.
fn project_file(here: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> Option<(PathBuf, FileOrigin)> {
    if exists(Path::new(CONFIG_FILE_NAME)) {
        return Some((CONFIG_FILE_NAME.into(), FileOrigin::Folder));
    }
    let mut above = here.into_iter().flat_map(Path::ancestors).skip(1).map(|folder| folder.join(CONFIG_FILE_NAME));
    above.find(|path| exists(path)).map(|path| (path, FileOrigin::Above))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether a file, and a link to it, belong to the user or to root. In a folder such as `/tmp`, anybody can
/// put a file above the user's folders.
#[cfg(unix)]
fn belongs_to_user(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    let owners = [fs::metadata(path), fs::symlink_metadata(path)];
    owners.into_iter().flatten().all(|owner| [0, user].contains(&owner.uid()))
}

#[cfg(not(unix))]
fn belongs_to_user(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_named_file_is_the_only_one_and_an_option_wins_over_the_variable() {
        let found = |named: Option<&str>, pairs: &[(&str, &str)]| {
            explicit_file(named.map(Path::new), &environment(pairs))
                .map(|(path, origin)| (path.to_string_lossy().into_owned(), origin))
        };
        let variable = [("LONGHAUL_CONFIG", "v.yaml")];
        assert_eq!(found(Some("c.yaml"), &variable), Some(("c.yaml".to_owned(), FileOrigin::Option)));
        assert_eq!(found(None, &variable), Some(("v.yaml".to_owned(), FileOrigin::Variable)));
        assert_eq!(found(None, &[("LONGHAUL_CONFIG", "")]), None);
    }

    #[test]
    fn the_nearest_project_file_is_found() {
        let found = |existing: &[&str]| {
            let exists = |path: &Path| existing.iter().any(|file| Path::new(file) == path);
            project_file(Some(Path::new("/a/b")), &exists)
                .map(|(path, found)| (path.to_string_lossy().into_owned(), found))
        };
        let all = ["longhaul.yaml", "/a/longhaul.yaml", "/longhaul.yaml"];
        assert_eq!(found(&all), Some((all[0].to_owned(), FileOrigin::Folder)));
        assert_eq!(found(&all[1..]), Some((all[1].to_owned(), FileOrigin::Above)));
        assert_eq!(found(&all[2..]), Some((all[2].to_owned(), FileOrigin::Above)));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_users_folders_follow_the_standard() {
        let config_path = |pairs: &[(&str, &str)]| user_config_path(&environment(pairs));
        let data = |pairs: &[(&str, &str)]| data_folder(&environment(pairs));
        let both = [("XDG_CONFIG_HOME", "/x"), ("XDG_DATA_HOME", "/d"), ("HOME", "/h")];
        assert_eq!(config_path(&both), Some("/x/longhaul/longhaul.yaml".into()));
        assert_eq!(data(&both), Some("/d".into()));
        for relative in ["", "x"] {
            let user = [("XDG_CONFIG_HOME", relative), ("XDG_DATA_HOME", relative), ("HOME", "/h")];
            assert_eq!(config_path(&user), Some("/h/.config/longhaul/longhaul.yaml".into()));
            assert_eq!(data(&user), Some("/h/.local/share".into()));
        }
        assert_eq!((config_path(&[]), data(&[])), (None, None));
        assert_eq!(config_path(&[("HOME", ".")]), None, "the current folder is nobody's home");
    }
}
