//! `longhaul man`: renders the manual pages, one for the program and one for each command, from the texts of
//! `--help`.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    // Leave out `help`, which repeats every command. Build first, so that each command has the global
    // options.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let pages: Vec<Command> = std::iter::once(program.clone()).chain(subcommand_pages("longhaul", &program)).collect();
    if let Some(folder) = &args.out_dir {
        output::create_directory(folder)?;
        return pages.iter().try_for_each(|page| write_page(Some(folder), page));
    }
    let title = args.command.as_ref().map_or("longhaul".to_owned(), |name| format!("longhaul-{name}"));
    let Some(page) = pages.iter().find(|page| page_title(page) == title) else {
        let name = title.trim_start_matches("longhaul-");
        let names: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        return Err(Failure::InvalidInput(format!("unknown command {name}; the commands are {}", names.join(", "))));
    };
    write_page(None, page)
}

/// Returns each subcommand as a program of its own, named `longhaul-COMMAND` as manuals do, each followed by
/// its own subcommands.
fn subcommand_pages(typed: &str, above: &Command) -> Vec<Command> {
    let pages = |command: &Command| {
        let typed = format!("{typed} {}", command.get_name());
        let page = command.clone().display_name(typed.replace(' ', "-")).bin_name(&typed);
        let page = page.version(env!("CARGO_PKG_VERSION"));
        std::iter::once(page).chain(subcommand_pages(&typed, command)).collect::<Vec<_>>()
    };
    above.get_subcommands().flat_map(pages).collect()
}

/// Returns the title of a manual page.
fn page_title(page: &Command) -> &str {
    page.get_display_name().unwrap_or(page.get_name())
}

fn write_page(folder: Option<&Path>, page: &Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    let name = page_title(page).to_owned();
    Man::new(page.clone())
        .title(&name)
        .render(&mut text)
        .map_err(|error| Failure::System(format!("cannot create the manual: {error}")))?;
    output::write(folder.map(|folder| folder.join(format!("{name}.1"))).as_deref(), &text)
}
