//! Which configuration is read: the first that is there.
//!
//! ```text
//! --config ▶ LONGHAUL_CONFIG ▶ longhaul.yaml here ▶ … in a folder above ▶ the user's
//! ```

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::input;

/// What a configuration is called in a folder.
pub(crate) const FILE: &str = "longhaul.yaml";

/// The variable that names one.
const VARIABLE: &str = "LONGHAUL_CONFIG";

/// A configuration file.
#[derive(Debug)]
pub(crate) struct File {
    /// How messages name it.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) found: Found,
}

/// Who said that it is to be read.
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

impl File {
    /// The one that is in force, if there is any. One that is named must be there.
    pub(crate) fn read(
        named: Option<&Path>,
        environment: &[(String, String)],
    ) -> Result<Option<Self>, Failure> {
        let here = std::env::current_dir().ok();
        let place = place(named, environment, here.as_deref(), &|path| path.is_file());
        let read = |(path, found): (PathBuf, Found)| {
            Ok(Self { name: input::shown(&path), text: input::read_text(&path)?, found })
        };
        place.map(read).transpose()
    }
}

/// The user's own configuration, whether or not it is there.
pub(crate) fn users(environment: &[(String, String)]) -> Option<PathBuf> {
    // The standard says that a relative path there is to be ignored.
    let folder =
        variable(environment, "XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(variable(environment, "HOME")?).join(".config"));
    Some(folder.or_else(home)?.join("longhaul").join(FILE))
}

fn variable<'e>(environment: &'e [(String, String)], name: &str) -> Option<&'e str> {
    let is_it = |(there, value): &&(String, String)| there == name && !value.is_empty();
    environment.iter().find(is_it).map(|(_, value)| value.as_str())
}

fn place(
    named: Option<&Path>,
    environment: &[(String, String)],
    here: Option<&Path>,
    is_there: &dyn Fn(&Path) -> bool,
) -> Option<(PathBuf, Found)> {
    if let Some(named) = named {
        return Some((named.to_owned(), Found::Option));
    }
    if let Some(named) = variable(environment, VARIABLE) {
        return Some((named.into(), Found::Variable));
    }
    if is_there(Path::new(FILE)) {
        return Some((FILE.into(), Found::Folder));
    }
    let above = here.into_iter().flat_map(Path::ancestors).skip(1).map(|folder| folder.join(FILE));
    let above = above.map(|path| (path, Found::Above));
    let users = users(environment).map(|path| (path, Found::User));
    above.chain(users).find(|(path, _)| is_there(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_configuration_wins() {
        let environment = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let found = |named: Option<&str>, pairs: &[(&str, &str)], there: &[&str]| {
            let is_there = |path: &Path| there.iter().any(|file| Path::new(file) == path);
            place(named.map(Path::new), &environment(pairs), Some(Path::new("/a/b")), &is_there)
                .map(|(path, found)| (path.to_string_lossy().into_owned(), found))
        };
        let all = ["longhaul.yaml", "/a/longhaul.yaml", "/longhaul.yaml", "/x/longhaul/longhaul.yaml"];
        let user = [("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")];
        let is = |path: &str, found: Found| Some((path.to_owned(), found));
        let variable = [("LONGHAUL_CONFIG", "v.yaml")];
        assert_eq!(found(Some("c.yaml"), &variable, &all), is("c.yaml", Found::Option));
        assert_eq!(found(None, &variable, &all), is("v.yaml", Found::Variable));
        assert_eq!(found(None, &[("LONGHAUL_CONFIG", "")], &all), is("longhaul.yaml", Found::Folder));
        assert_eq!(found(None, &user, &all[1..]), is("/a/longhaul.yaml", Found::Above));
        assert_eq!(found(None, &user, &all[2..]), is("/longhaul.yaml", Found::Above));
        assert_eq!(found(None, &user, &all[3..]), is("/x/longhaul/longhaul.yaml", Found::User));
        assert_eq!(found(None, &[], &all[3..]), None);
        let home = ["/h/.config/longhaul/longhaul.yaml"];
        for relative in ["", "x"] {
            let user = [("XDG_CONFIG_HOME", relative), ("HOME", "/h")];
            assert_eq!(found(None, &user, &home), is(home[0], Found::User));
        }
    }
}
