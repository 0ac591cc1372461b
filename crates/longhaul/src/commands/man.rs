//! `longhaul man`: the manual, one page for the whole and one a command, made from the same words as `--help`.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    // Without `help`, whose copy of every command is no page; built, so that each has the options that hold for all.
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    let pages: Vec<Command> = std::iter::once(whole.clone()).chain(commands("longhaul", &whole)).collect();
    if let Some(folder) = &args.out_dir {
        output::make_directory(folder)?;
        return pages.iter().try_for_each(|page| write(Some(folder), page));
    }
    let title = args.command.as_ref().map_or("longhaul".to_owned(), |name| format!("longhaul-{name}"));
    let Some(page) = pages.iter().find(|page| titled(page) == title) else {
        let name = title.trim_start_matches("longhaul-");
        let names: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
        return Err(Failure::Wrong(format!("no command is called {name}; there are {}", names.join(", "))));
    };
    write(None, page)
}

/// Each command as a program of its own name, as manuals call them, and behind it the commands that it has itself.
fn commands(typed: &str, above: &Command) -> Vec<Command> {
    let pages = |command: &Command| {
        let typed = format!("{typed} {}", command.get_name());
        let page = command.clone().display_name(typed.replace(' ', "-")).bin_name(&typed);
        let page = page.version(env!("CARGO_PKG_VERSION"));
        std::iter::once(page).chain(commands(&typed, command)).collect::<Vec<_>>()
    };
    above.get_subcommands().flat_map(pages).collect()
}

/// What a manual calls it.
fn titled(page: &Command) -> &str {
    page.get_display_name().unwrap_or(page.get_name())
}

fn write(folder: Option<&Path>, page: &Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    let name = titled(page).to_owned();
    Man::new(page.clone())
        .title(&name)
        .render(&mut text)
        .map_err(|error| Failure::World(format!("cannot make the manual: {error}")))?;
    output::write(folder.map(|folder| folder.join(format!("{name}.1"))).as_deref(), &text)
}
