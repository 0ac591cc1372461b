//! Writes `docs/cli-reference.md` from the definitions of the arguments. The test fails if the page is not
//! current; `LONGHAUL_BLESS=1` rewrites it.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// Compares a generated page with the file in `docs/`, or writes it if `LONGHAUL_BLESS` is set.
pub(crate) fn check_page(name: &str, page: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        std::fs::write(&file, page).unwrap();
    }
    let current = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        current == page,
        "docs/{name} is not current; LONGHAUL_BLESS=1 cargo test -p longhaul --bin longhaul reference rewrites it"
    );
}

/// Makes a text safe for a cell of a Markdown table.
pub(crate) fn table_cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn the_page_about_the_commands_is_current() {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut page = "# Command reference\n\n\
        Generated from the program's own help texts. [commands.md](commands.md) lists the commands by task.\n\n\
        | exit code | meaning |\n| --- | --- |\n| 0 | done |\n\
        | 1 | negative result: a check failed, nothing found, target not reached |\n\
        | 2 | wrong arguments or input |\n| 3 | the environment failed: network, disk |\n\n\
        `longhaul run` ends with the exit code of the agent.\n\n\
        Every command has `-h` and `--help`, which print its help, and `--color auto|always|never`.\n"
        .to_owned();
    for command in program.get_subcommands() {
        add_command(&mut page, "longhaul", command);
    }
    check_page("cli-reference.md", &page);
}

fn add_command(page: &mut String, parent: &str, command: &Command) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(page, "\n## {name}\n\n{about}.\n\n```text\n{usage}\n```\n");
    let shown = |arg: &&Arg| !arg.is_hide_set() && !["help", "color", "version"].contains(&arg.get_id().as_str());
    let rows: Vec<String> = command.get_arguments().filter(shown).map(argument_row).collect();
    if !rows.is_empty() {
        let _ = write!(page, "\n| argument | meaning |\n| --- | --- |\n{}\n", rows.join("\n"));
    }
    let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes) = below.split_once("\n\n").unwrap_or((&below, ""));
    if let Some(examples) = examples.strip_prefix("Example:\n") {
        let lines: Vec<&str> = examples.lines().map(str::trim).collect();
        let _ = write!(page, "\n```text\n{}\n```\n", lines.join("\n"));
    }
    if !notes.is_empty() {
        let _ = write!(page, "\n{}\n", as_prose(notes));
    }
    for below in command.get_subcommands() {
        add_command(page, &name, below);
    }
}

/// Formats options in a help text as code.
fn as_prose(text: &str) -> String {
    let word = |word: &str| {
        let name = word.trim_end_matches([',', '.', ';', ':', ')']);
        if name.starts_with("--") { word.replacen(name, &format!("`{name}`"), 1) } else { word.replace('<', "&lt;") }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Describes one argument: how it is written, its meaning, its values and its default.
fn argument_row(arg: &Arg) -> String {
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values()).map(|names| names.join(" "));
    let value = value.unwrap_or_default();
    let is_optional = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    let mut written = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (_, Some(long)) => format!("--{long}"),
        _ => String::new(),
    };
    match (written.is_empty(), value.is_empty()) {
        (true, _) => written.push_str(&value),
        (false, false) if is_optional => {
            let _ = write!(written, " [{value}]");
        }
        (false, false) => {
            let _ = write!(written, " {value}");
        }
        (false, true) => {}
    }
    let mut meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|_| arg.get_action().takes_values())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        let _ = write!(meaning, ". Values: {}", values.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !arg.is_hide_default_value_set() && !defaults.is_empty() && arg.get_action().takes_values() {
        let _ = write!(meaning, " [default: {}]", defaults.join(", "));
    }
    format!("| `{}` | {} |", table_cell(&written), table_cell(&meaning))
}
