//! `longhaul delete`: deletes sessions from the store permanently.

use std::io::{IsTerminal, stdin};

use serde::Serialize;

use crate::cli::DeleteArgs;
use crate::failure::Failure;
use crate::output::{self, Page};
use crate::store::{ConfiguredStore, OwnedSession};

#[derive(Serialize)]
struct DeleteOutput {
    deleted: Vec<String>,
}

pub(crate) fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let store = ConfiguredStore::from_flags(&args.store_flags)?.open_existing()?;
    // Look up all sessions before you delete any, so that a mistyped ID deletes nothing.
    let mut sessions = Vec::<OwnedSession>::new();
    for id in &args.ids {
        let found = store.find_session(id)?;
        if sessions.iter().all(|other| other.session.id != found.session.id) {
            sessions.push(found);
        }
    }
    if !args.yes {
        confirm(&sessions)?;
    }
    for OwnedSession { tenant, session } in &sessions {
        store.run(store.store.delete_session(tenant, session.id))?;
    }
    store.run(store.store.vacuum())?;
    let deleted: Vec<String> = sessions.into_iter().map(|owned| owned.session.name).collect();
    if args.output.json {
        return output::write_json(args.output.file(), &DeleteOutput { deleted });
    }
    let mut page = Page::default();
    for name in deleted {
        page.add_line(format!("session {name} is deleted"));
    }
    output::write_page(args.output.file(), &page)
}

/// Asks the person at the terminal for confirmation.
fn confirm(sessions: &[OwnedSession]) -> Result<(), Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::InvalidInput("a deletion cannot be undone; confirm it with --yes".to_owned()));
    }
    for OwnedSession { session, .. } in sessions {
        let (name, length, title) = (&session.name, session.path_length, session.title.as_deref().unwrap_or("-"));
        output::print_message(&format!("session {name}: {title} ({})", output::pluralize(length, "message")));
    }
    output::print_message("type yes to delete permanently:");
    let mut typed = String::new();
    let read = stdin().read_line(&mut typed);
    read.map_err(|error| Failure::System(format!("cannot read standard input: {error}")))?;
    match typed.trim() {
        "yes" | "y" => Ok(()),
        _ => Err(Failure::Negative("nothing was deleted".to_owned())),
    }
}
