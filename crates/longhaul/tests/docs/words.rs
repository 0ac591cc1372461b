//! The pages for users keep to one word for each idea, and name only commands and options that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use regex::Regex;

use crate::links::prose;

/// Words that the pages replaced, and the word that they use. Code spans and shown output may have them: names in the JSON, in metrics
/// and in the configuration stay.
const REPLACED: [(&str, &str); 8] = [
    (r"handles?", "recall ID"),
    (r"epochs?", "compaction"),
    (r"in force", "active"),
    (r"fold(s|ed|ing)?", "summarize"),
    (r"handovers?", "checkpoint"),
    (r"marks", "cache breakpoints"),
    (r"dialects?", "API format"),
    (r"digested", "shortened"),
];

#[test]
fn the_pages_use_one_word_for_each_idea() {
    let replaced = REPLACED.map(|(word, better)| (Regex::new(&format!(r"(?i)\b{word}\b")).unwrap(), better));
    // A link's address may have any word.
    let address = Regex::new(r"\]\([^)]*\)").unwrap();
    let mut found = Vec::new();
    for page in super::user_pages() {
        let name = page.strip_prefix(super::root()).unwrap().display().to_string();
        for (number, line) in prose(&page) {
            let line = address.replace_all(&line, "]");
            for (word, better) in &replaced {
                if word.is_match(&line) {
                    found.push(format!("{name}:{number}: {word}; write {better}: {line}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_pages_name_commands_and_options_that_exist() {
    let span = Regex::new(r"`(?:[A-Z_]+=\S+ )?longhaul ([a-z]+)([^`]*)`").unwrap();
    let option = Regex::new(r"(?:^|[\s\[|])(--[a-z][a-z-]*)").unwrap();
    let mut helps = BTreeMap::<String, String>::new();
    let mut unknown = BTreeSet::new();
    for page in super::user_pages() {
        let name = page.strip_prefix(super::root()).unwrap().display().to_string();
        for found in span.captures_iter(&std::fs::read_to_string(&page).unwrap()) {
            let (command, rest) = (&found[1], found[2].split(" -- ").next().unwrap());
            let help = helps.entry(command.to_owned()).or_insert_with(|| help(command));
            if help.is_empty() {
                unknown.insert(format!("{name}: there is no command `longhaul {command}`"));
                continue;
            }
            for option in option.captures_iter(rest) {
                let is_known =
                    help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == &option[1]);
                if !is_known {
                    unknown.insert(format!("{name}: `longhaul {command}` has no option `{}`", &option[1]));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.into_iter().collect::<Vec<_>>().join("\n"));
}

/// The help of a command and of the commands below it; empty if there is no such command. What people type to an agent is one, too.
fn help(command: &str) -> String {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(arguments).output().unwrap();
        if output.status.success() { String::from_utf8(output.stdout).unwrap() } else { String::new() }
    };
    if command == "context" {
        return command.to_owned();
    }
    let below = if command == "keys" {
        ["add", "list", "revoke"].map(|name| run(&["keys", name, "--help"])).concat()
    } else {
        String::new()
    };
    run(&[command, "--help"]) + &below
}
