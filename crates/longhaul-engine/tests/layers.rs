//! The engine's modules form layers: each uses only modules that ARCHITECTURE.md lists before it, and no two use each other.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "all of it is test code, in functions too")]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sources::Source;

/// Types that the crate names at its root, with their modules.
const AT_ROOT: [(&str, &str); 8] = [
    ("ApiFormat", "api_format"),
    ("CancelFlag", "cancel"),
    ("Edit", "rewrite"),
    ("Rewrite", "rewrite"),
    ("RewriteError", "rewrite"),
    ("Timestamp", "timestamp"),
    ("Tokens", "tokens"),
    ("Transcript", "transcript"),
];

/// Modules by the line of the list that names them, from the bottom.
fn listed() -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, list) = text.split_once("    crates/longhaul-engine/src/\n").expect("the list of modules");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let modules = lines.enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix("      ")?)));
    let mut found = BTreeMap::new();
    for (at, line) in modules.filter(|(_, line)| !line.starts_with(' ')) {
        let names = line.split_whitespace().map_while(|word| word.strip_suffix(".rs").or(word.strip_suffix('/')));
        found.extend(names.map(|name| (name.to_owned(), at)));
    }
    found
}

#[test]
fn every_module_uses_only_what_is_listed_below_it() {
    let listed = listed();
    let sources = sources::engine();
    let modules: BTreeSet<&str> = sources.iter().filter_map(|source| source.path.first().map(String::as_str)).collect();
    let named: BTreeSet<&str> = listed.keys().map(String::as_str).collect();
    assert_eq!(modules, named, "ARCHITECTURE.md lists other modules than there are");
    for source in &sources {
        let module = &source.path[0];
        for used in source.uses(&[]) {
            let used = AT_ROOT.iter().find(|(name, _)| *name == used).map_or(used.as_str(), |(_, module)| module);
            let Some(below) = listed.get(used).filter(|_| used != module) else { continue };
            assert!(*below < listed[module], "{} uses {used}, which is not below {module}", source.file.display());
        }
    }
}

#[test]
fn no_two_files_of_a_folder_use_each_other() {
    let sources = sources::engine();
    let folders: BTreeSet<&[String]> =
        sources.iter().filter_map(|source| source.path.split_last()).map(|(_, folder)| folder).collect();
    for folder in folders.into_iter().filter(|folder| !folder.is_empty()) {
        let below = |source: &&Source| source.path.len() > folder.len() && source.path.starts_with(folder);
        let mut uses: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for source in sources.iter().filter(below) {
            uses.entry(&source.path[folder.len()]).or_default().extend(source.uses(folder));
        }
        let files: BTreeSet<String> = uses.keys().map(|name| (*name).to_owned()).collect();
        for (file, used) in &mut uses {
            used.retain(|name| name != file && files.contains(name));
        }
        // What uses nothing that is left is below all that is left.
        while let Some(lowest) = uses.iter().find(|(_, used)| used.is_empty()).map(|(file, _)| (*file).to_owned()) {
            uses.remove(lowest.as_str());
            for used in uses.values_mut() {
                used.remove(&lowest);
            }
        }
        assert!(uses.is_empty(), "{}: these use each other: {uses:?}", folder.join("/"));
    }
}
