//! A digest of one output, with a sentence, the call, the output and what is made of it. `<kind>.txt` is what the page for users shows;
//! `<kind>.<case>.txt` are further cases of a kind.

use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use longhaul_engine::digest::{Focus, OutputKind, ToolOutput, digest, one_line_digest};
use longhaul_engine::tokens::Tokens;

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

pub fn trial(path: PathBuf) -> Trial {
    let text = std::fs::read_to_string(&path).unwrap();
    let idea = parts(&text).head.lines().next().unwrap().trim_start_matches("# ");
    let name = format!("digests/{}: {idea}", crate::stem(&path));
    Trial::test(name, move || judge(&path, &parts(&text)))
}

fn judge(path: &Path, case: &Case<'_>) -> Result<(), Failed> {
    let focus = Focus::from_texts(field(case.head, "focus"));
    let source = ToolOutput {
        text: case.output,
        original_bytes: None,
        tool: field(case.head, "tool"),
        arguments: field(case.head, "arguments"),
        kind: None,
        failed: None,
        focus: &focus,
        recall_id: field(case.head, "handle"),
    };
    let tokens = field(case.head, "tokens").unwrap().parse().unwrap();
    let made = digest(&source, Tokens(tokens));
    assert_eq!(made.kind.name(), kind(path), "{}", made.text);
    let made = format!("{}\n== one line\n{}\n", made.text, one_line_digest(&source).text);
    if crate::is_update() {
        std::fs::write(path, format!("{}== output\n{}== digest\n{made}", case.head, case.output)).unwrap();
    } else if made != case.digest {
        return Err(made.into());
    }
    Ok(())
}

/// The kind that a file is about.
fn kind(path: &Path) -> &str {
    let stem = crate::stem(path);
    stem.split_once('.').map_or(stem, |(kind, _)| kind)
}

/// There is a digest of each kind, and the page for users shows them all, so that it cannot promise what is not made.
pub fn the_page_for_users_shows_them() {
    let page = std::fs::read_to_string(crate::folder("../../../docs/digests.md")).unwrap();
    let mut paths = crate::files("digests");
    paths.retain(|path| kind(path) == crate::stem(path));
    assert_eq!(paths.len(), OutputKind::all().count(), "one a kind");
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let (digest, line) = parts(&text).digest.split_once("== one line\n").unwrap();
        assert!(page.contains(digest), "{} has another digest:\n{digest}", path.display());
        assert!(page.contains(line), "{} has another line:\n{line}", path.display());
    }
}
