//! Which configuration files are read, and which of them may set every key.
//!
//! ```text
//! --config, or LONGHAUL_CONFIG            that file alone
//! else: the user's own ◀─ longhaul.yaml in this folder, or the nearest above; laid over the user's own
//!       trusted           untrusted until `longhaul trust`: it may come with a repository that somebody else wrote
//! ```

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::trust::Records;
use crate::failure::Failure;
use crate::input;

/// The name of a configuration file in a folder.
pub(crate) const FILE: &str = "longhaul.yaml";

/// The variable that names one.
const VARIABLE: &str = "LONGHAUL_CONFIG";

/// The largest configuration that is read. The commented example with every key has 6 KB.
const MAX_FILE_BYTES: usize = 256 * 1024;

/// The files of a call, the lowest layer first.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) layers: Vec<File>,
    /// Files that were found and left out, with the reason.
    pub(crate) notes: Vec<String>,
}

/// A configuration file.
#[derive(Debug)]
pub(crate) struct File {
    /// How messages name it.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) found: Found,
    pub(crate) trust: Trust,
}

/// The reason why a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Found {
    Option,
    Variable,
    Folder,
    Above,
    User,
}

impl Found {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Option => "named by --config",
            Self::Variable => "named by LONGHAUL_CONFIG",
            Self::Folder => "found in this folder",
            Self::Above => "found in a folder above",
            Self::User => "found in your configuration folder",
        }
    }
}

/// The keys that a file may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Every key.
    Trusted,
    /// Only keys of [`sides`](super::sides) that a project may set.
    Untrusted,
}

impl Files {
    /// Reads the files that apply. A file that is named must exist.
    pub(crate) fn read(named: Option<&Path>, environment: &[(String, String)]) -> Result<Self, Failure> {
        if let Some((path, found)) = named_file(named, environment) {
            let file = File::read(&path, found, Trust::Trusted)?;
            return Ok(Self { layers: vec![file], notes: Vec::new() });
        }
        let mut files = Self::default();
        let own = users(environment).filter(|path| path.is_file());
        if let Some(path) = &own {
            files.layers.push(File::read(path, Found::User, Trust::Trusted)?);
        }
        let here = std::env::current_dir().ok();
        if let Some((path, found)) = project_file(here.as_deref(), &|path| path.is_file())
            && !own.is_some_and(|own| is_same_file(&own, &path))
        {
            files.add_project(&path, found, environment)?;
        }
        Ok(files)
    }

    fn add_project(
        &mut self,
        path: &Path,
        found: Found,
        environment: &[(String, String)],
    ) -> Result<(), Failure> {
        let mut file = File::read(path, found, Trust::Untrusted)?;
        if Records::open(environment).is_some_and(|records| records.contain(path, &file.text)) {
            file.trust = Trust::Trusted;
        } else if !belongs_to_user(path) {
            self.notes.push(format!(
                "{}: not read, because it belongs to another user; {} makes an exception",
                file.name,
                super::trust::remedy(&file.name)
            ));
            return Ok(());
        }
        self.layers.push(file);
        Ok(())
    }
}

impl File {
    fn read(path: &Path, found: Found, trust: Trust) -> Result<Self, Failure> {
        Ok(Self { name: input::shown(path), text: read_text(path)?, found, trust })
    }
}

/// The text of a configuration file, of bounded size.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX) + 1;
    let read = input::open(path)?.take(limit).read_to_end(&mut bytes);
    read.map_err(|error| input::unreadable(path, &error))?;
    let shown = input::shown(path);
    if bytes.len() > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES / 1024;
        return Err(Failure::Wrong(format!(
            "{shown} has more than {limit} KB; a configuration is a few KB, check the path"
        )));
    }
    input::text(&shown, bytes)
}

/// The path of the user's own configuration, which need not exist.
pub(crate) fn users(environment: &[(String, String)]) -> Option<PathBuf> {
    Some(user_folder(environment, "XDG_CONFIG_HOME", &[".config"])?.join("longhaul").join(FILE))
}

/// The folder for what programs keep for their user.
pub(crate) fn data_folder(environment: &[(String, String)]) -> Option<PathBuf> {
    user_folder(environment, "XDG_DATA_HOME", &[".local", "share"])
}

/// The folder that a variable names, else one below the home folder. A relative path is ignored, as the XDG standard says: it would
/// lead to the current folder, which may be anybody's.
fn user_folder(environment: &[(String, String)], name: &str, below_home: &[&str]) -> Option<PathBuf> {
    let folder = |name: &str| {
        let named = variable(environment, name).map(PathBuf::from);
        named.filter(|path| path.is_absolute())
    };
    let home = || folder("HOME").or_else(|| folder("USERPROFILE"));
    folder(name).or_else(|| Some(home()?.join(below_home.iter().collect::<PathBuf>())))
}

fn variable<'e>(environment: &'e [(String, String)], name: &str) -> Option<&'e str> {
    let is_it = |(there, value): &&(String, String)| there == name && !value.is_empty();
    environment.iter().find(is_it).map(|(_, value)| value.as_str())
}

fn named_file(named: Option<&Path>, environment: &[(String, String)]) -> Option<(PathBuf, Found)> {
    let by_option = named.map(|path| (path.to_owned(), Found::Option));
    by_option.or_else(|| Some((variable(environment, VARIABLE)?.into(), Found::Variable)))
}

/// The nearest configuration in this folder or above it.
fn project_file(here: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> Option<(PathBuf, Found)> {
    if exists(Path::new(FILE)) {
        return Some((FILE.into(), Found::Folder));
    }
    let mut above = here.into_iter().flat_map(Path::ancestors).skip(1).map(|folder| folder.join(FILE));
    above.find(|path| exists(path)).map(|path| (path, Found::Above))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether a file, and a link that leads to it, are the user's or the system's: in `/tmp`, anybody can put a file above the user's.
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
            named_file(named.map(Path::new), &environment(pairs))
                .map(|(path, found)| (path.to_string_lossy().into_owned(), found))
        };
        let variable = [("LONGHAUL_CONFIG", "v.yaml")];
        assert_eq!(found(Some("c.yaml"), &variable), Some(("c.yaml".to_owned(), Found::Option)));
        assert_eq!(found(None, &variable), Some(("v.yaml".to_owned(), Found::Variable)));
        assert_eq!(found(None, &[("LONGHAUL_CONFIG", "")]), None);
    }

    #[test]
    fn the_nearest_project_file_is_found() {
        let found = |there: &[&str]| {
            let exists = |path: &Path| there.iter().any(|file| Path::new(file) == path);
            project_file(Some(Path::new("/a/b")), &exists)
                .map(|(path, found)| (path.to_string_lossy().into_owned(), found))
        };
        let all = ["longhaul.yaml", "/a/longhaul.yaml", "/longhaul.yaml"];
        assert_eq!(found(&all), Some((all[0].to_owned(), Found::Folder)));
        assert_eq!(found(&all[1..]), Some((all[1].to_owned(), Found::Above)));
        assert_eq!(found(&all[2..]), Some((all[2].to_owned(), Found::Above)));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_users_folders_follow_the_standard() {
        let own = |pairs: &[(&str, &str)]| users(&environment(pairs));
        let data = |pairs: &[(&str, &str)]| data_folder(&environment(pairs));
        let both = [("XDG_CONFIG_HOME", "/x"), ("XDG_DATA_HOME", "/d"), ("HOME", "/h")];
        assert_eq!(own(&both), Some("/x/longhaul/longhaul.yaml".into()));
        assert_eq!(data(&both), Some("/d".into()));
        for relative in ["", "x"] {
            let user = [("XDG_CONFIG_HOME", relative), ("XDG_DATA_HOME", relative), ("HOME", "/h")];
            assert_eq!(own(&user), Some("/h/.config/longhaul/longhaul.yaml".into()));
            assert_eq!(data(&user), Some("/h/.local/share".into()));
        }
        assert_eq!((own(&[]), data(&[])), (None, None));
        assert_eq!(own(&[("HOME", ".")]), None, "the current folder is nobody's home");
    }
}
