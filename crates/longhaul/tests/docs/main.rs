//! The pages for users are true: every command line in the README and in `docs/` runs, prints what the page shows, and every link leads
//! somewhere.
//!
//! A page writes commands in one of two blocks:
//!
//! - `sh`: every line is a command; its output is not shown.
//! - `console`: a line that begins with `$ ` is a command, the lines below it are what it prints. `…` alone on a line stands for any
//!   number of lines, and inside a line for any text. A command with no lines below it may print anything.
//!
//! Each page runs from top to bottom in one shell, in a fresh home ([`place`]), and every command has to end with exit code 0. A page
//! that shows a failure writes `|| echo "exit code $?"` behind the command. `LONGHAUL_BLESS=1` writes what was printed into the pages.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

mod links;
mod output;
mod page;
mod pictures;
mod place;
mod sessions;
mod shell;
mod upstream;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use page::Page;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The Markdown files of a folder of the repository, in order of their names.
fn markdown(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    files
}

/// The README and the pages of `docs/`.
fn user_pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    pages.extend(markdown("docs"));
    pages
}

#[test]
fn every_command_line_runs_and_prints_what_its_page_shows() {
    // The command reference is generated: its lines are synopses, and a unit test of the binary keeps it current.
    let paths = user_pages().into_iter().filter(|path| !path.ends_with("cli-reference.md"));
    let pages: Vec<Page> = paths.map(|path| Page::read(&path)).collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = check(page);
            problems.lock().unwrap().extend(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4) {
            scope.spawn(work);
        }
    });
    let mut problems = problems.into_inner().unwrap();
    problems.sort();
    assert!(
        problems.is_empty(),
        "{}\n\nIf the pages should show what is printed now: LONGHAUL_BLESS=1 cargo test -p longhaul --test docs",
        problems.join("\n\n")
    );
}

/// Runs one page. Gives what is wrong with it; with `LONGHAUL_BLESS` a different output is written into the page instead.
fn check(page: &Page) -> Vec<String> {
    let mut problems: Vec<String> = page
        .stray
        .iter()
        .map(|line| format!("{}:{line}: write this command in a `sh` or `console` block", page.name))
        .collect();
    if page.commands.is_empty() {
        return problems;
    }
    let place = place::Place::new(&page.name);
    let (mut shown, mut differs) = (Vec::new(), Vec::new());
    for (command, ran) in page.commands.iter().zip(shell::run(&place, &page.commands)) {
        let at = format!("{}:{}: {}", page.name, command.line, command.text);
        match ran {
            shell::Ran::Not => {}
            shell::Ran::Ended { code, printed } if code != 0 => {
                problems.push(format!("{at}\nended with {code}:\n{printed}"));
            }
            shell::Ran::Ended { .. } if command.shown.is_empty() => {}
            shell::Ran::Ended { printed, .. } => {
                let lines = output::bless(&command.shown, &printed);
                if !output::same(&command.shown, &printed) {
                    let page_shows = command.shown.join("\n");
                    differs.push((
                        lines.is_some(),
                        format!("{at}\nthe page shows\n{page_shows}\nbut it printed\n{printed}"),
                    ));
                }
                shown.extend(lines.map(|lines| (command, lines)));
            }
        }
    }
    // All outputs of a page are written together, so that one session has one ID in all of them.
    if std::env::var_os("LONGHAUL_BLESS").is_some() && differs.iter().any(|(is_blessed, _)| *is_blessed) {
        page.write(&shown);
        differs.retain(|(is_blessed, _)| !is_blessed);
    }
    problems.extend(differs.into_iter().map(|(_, problem)| problem));
    problems
}
