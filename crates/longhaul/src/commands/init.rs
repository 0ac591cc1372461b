//! `longhaul init`: a configuration to begin with, every key with its default and what it does.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use crate::cli::InitArgs;
use crate::config::trust::{self, Records};
use crate::config::{self, Environment};
use crate::failure::Failure;
use crate::output;

/// The one that the repository shows, so that there is one to keep true.
const TEXT: &str = include_str!("../../../../examples/longhaul.yaml");

pub(crate) fn run(args: &InitArgs, environment: &Environment) -> Result<(), Failure> {
    let file = place(args, environment)?;
    crate::session::refuse_home(&file)?;
    if let Some(folder) = file.parent().filter(|_| args.user) {
        output::make_directory(folder)?;
    }
    let shown = file.display();
    let made = OpenOptions::new().write(true).create_new(true).open(&file);
    let written = made.and_then(|mut to| to.write_all(TEXT.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::Wrong(format!("{shown} is there already and is left as it is; name another file"))
        }
        _ => output::unwritable(&file, &error),
    })?;
    output::say(&format!(
        "wrote {shown}: every key with its default; longhaul config shows what is in force"
    ));
    if !args.user && file.file_name().is_some_and(|name| name == config::FILE) {
        let remedy = trust::remedy(&shown.to_string());
        if let Some(records) = Records::open(environment) {
            records.add(&file, TEXT)?;
            output::say(&format!("it is trusted as it is; after an edit: {remedy}"));
        } else {
            output::say(&format!("it may set numbers only until you trust it: {remedy}"));
        }
    }
    Ok(())
}

fn place(args: &InitArgs, environment: &Environment) -> Result<PathBuf, Failure> {
    if !args.user {
        return Ok(args.file.clone());
    }
    config::users(environment).ok_or_else(|| {
        Failure::Wrong("neither XDG_CONFIG_HOME nor HOME is set; name a file instead of --user".to_owned())
    })
}
