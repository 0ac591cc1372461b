//! `longhaul init`: writes an example configuration that lists every key with its default and an explanation.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use crate::cli::InitArgs;
use crate::config::trust::{self, TrustRecords};
use crate::config::{self, Environment};
use crate::failure::Failure;
use crate::output;

/// The example configuration of the repository. A test keeps it complete.
const EXAMPLE_CONFIG: &str = include_str!("../../../../examples/longhaul.yaml");

pub(crate) fn run(args: &InitArgs, environment: &Environment) -> Result<(), Failure> {
    let file = target_file(args, environment)?;
    crate::agent_session::refuse_agent_files(&file)?;
    if let Some(folder) = file.parent().filter(|_| args.user) {
        output::create_directory(folder)?;
    }
    let shown = file.display();
    let opened = OpenOptions::new().write(true).create_new(true).open(&file);
    let written = opened.and_then(|mut to| to.write_all(EXAMPLE_CONFIG.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::InvalidInput(format!("{shown} already exists and was not changed; name another file"))
        }
        _ => output::write_failure(&file, &error),
    })?;
    output::print_message(&format!(
        "wrote {shown}: every key with its default; longhaul config shows the active values"
    ));
    if !args.user && file.file_name().is_some_and(|name| name == config::CONFIG_FILE_NAME) {
        let remedy = trust::trust_command(&shown.to_string());
        if let Some(records) = TrustRecords::open(environment) {
            records.add(&file, EXAMPLE_CONFIG)?;
            output::print_message(&format!("it is trusted with this content; after an edit: {remedy}"));
        } else {
            output::print_message(&format!("until you trust it, it may set only numbers: {remedy}"));
        }
    }
    Ok(())
}

fn target_file(args: &InitArgs, environment: &Environment) -> Result<PathBuf, Failure> {
    if !args.user {
        return Ok(args.file.clone());
    }
    config::user_config_path(environment).ok_or_else(|| {
        Failure::InvalidInput("neither XDG_CONFIG_HOME nor HOME is set; name a file instead of --user".to_owned())
    })
}
