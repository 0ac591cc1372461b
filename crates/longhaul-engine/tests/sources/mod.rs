//! The engine's production code: every source file without what is only compiled for tests.

#![allow(dead_code, reason = "each test that reads the sources uses a part of this")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A source file.
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// Its module path below the crate; `a/b.rs` and `a/b/mod.rs` are both `a`, `b`.
    pub(crate) path: Vec<String>,
    /// Its code without comments and test modules.
    pub(crate) code: String,
}

/// All of the engine.
pub(crate) fn engine() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    gather(&root, &mut files);
    let tests: BTreeSet<PathBuf> = files.iter().flat_map(|(file, text)| test_modules(file, text)).collect();
    let is_test = |file: &Path| file.ancestors().any(|part| tests.contains(&part.with_extension("")));
    let production = files.into_iter().filter(|(file, _)| !is_test(file) && !file.ends_with("lib.rs"));
    production.map(|(file, text)| Source { path: module(&root, &file), code: production_code(&text), file }).collect()
}

fn gather(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            files.push((path, text));
        }
    }
    files.sort();
}

/// The files of a kind in the folder of another.
pub(crate) fn files_beside(file: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|of| of == extension)).collect()
}

/// The modules in other files that a file has for tests only, as paths without an extension.
fn test_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let is_folder = file.ends_with("mod.rs") || file.ends_with("lib.rs");
    let folder = if is_folder { file.parent().unwrap().to_owned() } else { file.with_extension("") };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    declared
        .filter_map(|pair| pair[1].strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| folder.join(name)))
        .collect()
}

fn module(root: &Path, file: &Path) -> Vec<String> {
    let below = file.strip_prefix(root).unwrap().with_extension("");
    let parts = below.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| part != "mod").collect()
}

/// A file's code without comments and without what is compiled for tests only.
fn production_code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = &line[..line.len() - line.trim_start().len()];
            let item = lines.by_ref().find(|line| !line.trim_start().starts_with("#[")).unwrap_or_default();
            if !item.ends_with([';', '}']) {
                let _ = lines.by_ref().find(|line| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}')));
            }
            continue;
        }
        if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

impl Source {
    /// The names that it uses of a module of the crate, given by its path: `crate::a::b` and, from below, `super::b`.
    pub(crate) fn uses(&self, folder: &[String]) -> BTreeSet<String> {
        let mut whole = "crate::".to_owned();
        for part in folder {
            whole.extend([part.as_str(), "::"]);
        }
        let steps = self.path.len().checked_sub(folder.len()).filter(|steps| *steps > 0);
        let steps = steps.filter(|_| self.path.starts_with(folder));
        let above = steps.filter(|_| !folder.is_empty()).map(|steps| "super::".repeat(steps));
        let flat = self.code.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut found = BTreeSet::new();
        for prefix in above.iter().chain([&whole]) {
            for (at, _) in flat.match_indices(prefix.as_str()) {
                let before = flat[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':')) {
                    continue;
                }
                found.extend(first_names(&flat[at + prefix.len()..]));
            }
        }
        found
    }
}

/// The first name of a path, or of each path of a group.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        text[..end].to_owned()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, sign) in group.char_indices() {
        match sign {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(name(group[start..at].trim_start()));
                start = at + 1;
                if sign == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}
