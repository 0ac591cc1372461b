//! Every relative link of the repository's pages leads to a file that is there, and to a heading that is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

#[test]
fn every_relative_link_and_anchor_resolves() {
    let root = super::root();
    let mut pages: Vec<PathBuf> = super::markdown(".");
    pages.extend(super::markdown("docs"));
    for folder in fs::read_dir(root.join("bench")).unwrap() {
        let page = folder.unwrap().path().join("README.md");
        pages.extend(page.exists().then_some(page));
    }
    let link = Regex::new(r#"\]\(([^)\s]+)\)|(?:src|href|srcset)="([^"]+)""#).unwrap();
    let mut anchors = BTreeMap::new();
    let mut broken = Vec::new();
    for page in &pages {
        for (number, line) in prose(page) {
            for found in link.captures_iter(&line) {
                let target = found.get(1).or(found.get(2)).unwrap().as_str();
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
                let resolves = file.exists()
                    && (anchor.is_empty()
                        || anchors.entry(file.clone()).or_insert_with(|| headings(&file)).contains(&anchor.to_owned()));
                if !resolves {
                    broken.push(format!("{}:{number}: {target}", page.strip_prefix(&root).unwrap().display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// The lines of a page outside fenced blocks, with code spans left out, each with its number.
pub(crate) fn prose(page: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(page).unwrap();
    let mut fenced = false;
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
            lines.push((i + 1, outside));
        }
    }
    lines
}

/// The anchors of a page's headings, as GitHub makes them.
fn headings(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut fenced = false;
    let mut anchors = Vec::<String>::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let Some(title) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let anchor: String = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        // A heading that stands there twice gets a number from the second on.
        let before = anchors
            .iter()
            .filter(|other| other.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-') == anchor)
            .count();
        anchors.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    anchors
}
