//! Digests that a person can read: one file a kind under `digests/`.
//!
//! Each has a sentence, the call, the output and the digest. `UPDATE_GOLDEN=1 cargo test` writes the digests anew; read the
//! difference before keeping it.

#![allow(clippy::unwrap_used, reason = "a test may stop where its data is not as it should be")]

use longhaul_engine::digest::{Focus, Source, digest, one_line};
use longhaul_engine::tokens::Tokens;
use std::path::Path;

struct Case<'a> {
    head: &'a str,
    output: &'a str,
    digest: &'a str,
}

fn parts(text: &str) -> Case<'_> {
    let (head, rest) = text.split_once("== output\n").unwrap();
    let (output, digest) = rest.split_once("== digest\n").unwrap();
    Case { head, output, digest }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn each_kind_reads_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 13, "one a kind");
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let case = parts(&text);
        let focus = Focus::on(field(case.head, "focus"));
        let source = Source {
            text: case.output,
            tool: field(case.head, "tool"),
            arguments: field(case.head, "arguments"),
            kind: None,
            failed: None,
            focus: &focus,
            handle: field(case.head, "handle"),
        };
        let tokens = field(case.head, "tokens").unwrap().parse().unwrap();
        let made = digest(&source, Tokens(tokens));
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert_eq!(made.kind.name(), name, "{}", made.text);
        let made = format!("{}\n== one line\n{}\n", made.text, one_line(&source).text);
        if made != case.digest {
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, format!("{}== output\n{}== digest\n{made}", case.head, case.output))
                    .unwrap();
            } else {
                wrong.push(format!("--- {name}\n{made}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The page for users shows the digests of these cases, so that it cannot promise what is not made.
#[test]
fn the_page_for_users_shows_these_digests() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(crate_folder.join("../../docs/digests.md")).unwrap();
    for entry in std::fs::read_dir(crate_folder.join("tests/digests")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (digest, line) = parts(&text).digest.split_once("== one line\n").unwrap();
        assert!(page.contains(digest), "{} has another digest:\n{digest}", path.display());
        assert!(page.contains(line), "{} has another line:\n{line}", path.display());
    }
}
