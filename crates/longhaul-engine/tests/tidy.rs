//! What must be absent.

#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

mod sources;

use std::path::Path;
use std::process::Command;

/// The engine is pure: nothing in what it is built from waits, talks to a network or keeps a database.
#[test]
fn the_engine_depends_on_no_runtime_no_http_and_no_database() {
    const FORBIDDEN: &[&str] = &[
        "tokio",
        "async-std",
        "smol",
        "futures",
        "mio",
        "hyper",
        "reqwest",
        "axum",
        "ureq",
        "h2",
        "rustls",
        "openssl",
        "native-tls",
        "rusqlite",
        "sqlx",
        "tokio-postgres",
        "postgres",
        "redis",
        "diesel",
        "sled",
        "rocksdb",
        "rand",
        "getrandom",
        "chrono",
        "time",
    ];
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let tree = Command::new(cargo)
        .args([
            "tree",
            "--offline",
            "-p",
            "longhaul-engine",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"serde_json"), "the tree was read: {crates:?}");
    for name in FORBIDDEN {
        assert!(!crates.contains(name), "longhaul-engine depends on {name}");
    }
}

/// Input, output, clocks and the environment are the business of the crates around the engine.
#[test]
fn the_engine_reads_no_file_clock_or_environment() {
    const FORBIDDEN: &[&str] =
        &["std::fs", "std::env", "std::net", "std::process", "std::thread::sleep", "SystemTime::now", "Instant::now"];
    for source in sources::engine() {
        for name in FORBIDDEN {
            assert!(!source.code.contains(name), "{} uses {name}", source.file.display());
        }
    }
}

/// A table read in any other way could be broken without anybody noticing.
#[test]
fn every_table_is_read_by_the_one_loader() {
    let sources = sources::engine();
    for source in sources.iter().filter(|source| source.path != ["table"]) {
        assert!(!source.code.contains("toml::"), "{} reads a table its own way", source.file.display());
        for table in sources::files_beside(&source.file, "toml") {
            let is_read = |source: &sources::Source| {
                source.file.parent() == table.parent()
                    && source.code.contains(&format!("= \"{}\"", table.file_name().unwrap().display()))
            };
            assert!(sources.iter().any(is_read), "nothing reads {}", table.display());
        }
    }
}

/// The checker judges the parser and the passes, so a mistake of theirs must not reach it through shared code.
#[test]
fn the_rules_share_nothing_with_what_they_judge() {
    for source in sources::engine().iter().filter(|source| source.path[0] == "check") {
        for line in source.code.lines().filter(|line| line.contains("crate::")) {
            assert_eq!(line.trim(), "use crate::ApiFormat;", "{}", source.file.display());
        }
    }
}

/// A guide that names a file which was renamed leads a newcomer astray.
#[test]
fn every_file_and_test_that_the_guides_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    let mut folders =
        vec![root.join("crates"), root.join("bench"), root.join("tests"), root.join("schemas"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let code: String = files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "rs"))
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for guide in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root.join(guide)).unwrap();
        for named in text.split('`').skip(1).step_by(2).filter(|named| !named.contains(['<', ' ', '\n', '*'])) {
            let named = named.trim_start_matches("../");
            if Path::new(named).extension().is_some_and(|end| end == "rs" || end == "toml") {
                let is_there = files.iter().any(|file| file.ends_with(named)) || root.join(named).exists();
                assert!(is_there, "{guide} names {named}, which does not exist");
            } else if named.matches('_').count() >= 3 && named.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
                assert!(code.contains(&format!("fn {named}(")), "{guide} names the test {named}, which does not exist");
            }
        }
    }
}
