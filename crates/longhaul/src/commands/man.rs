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
    let pages: Vec<Command> = std::iter::once(whole.clone()).chain(commands(&whole)).collect();
    if let Some(folder) = &args.out_dir {
        output::make_directory(folder)?;
        return pages.iter().try_for_each(|page| write(Some(folder), page));
    }
    let name = args.command.as_deref().unwrap_or("longhaul");
    let Some(page) = pages.iter().find(|page| page.get_name() == name) else {
        let names: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
        return Err(Failure::Wrong(format!("no command is called {name}; there are {}", names.join(", "))));
    };
    write(None, page)
}

/// Each command as a program of its own name, as manuals call them.
fn commands(whole: &Command) -> Vec<Command> {
    let page = |command: &Command| {
        let name = command.get_name();
        let (title, typed) = (format!("longhaul-{name}"), format!("longhaul {name}"));
        command.clone().display_name(title).bin_name(typed).version(env!("CARGO_PKG_VERSION"))
    };
    whole.get_subcommands().map(page).collect()
}

fn write(folder: Option<&Path>, page: &Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    let name = page.get_display_name().unwrap_or(page.get_name()).to_owned();
    Man::new(page.clone())
        .title(&name)
        .render(&mut text)
        .map_err(|error| Failure::World(format!("cannot make the manual: {error}")))?;
    output::write(folder.map(|folder| folder.join(format!("{name}.1"))).as_deref(), &text)
}
