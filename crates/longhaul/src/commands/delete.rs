//! `longhaul delete`: sessions out of the store, for good.

use std::io::{IsTerminal, stdin};

use serde::Serialize;

use crate::cli::DeleteArgs;
use crate::failure::Failure;
use crate::output::{self, Page};
use crate::store::{Owned, Whereabouts};

#[derive(Serialize)]
struct Answer {
    deleted: Vec<String>,
}

pub(crate) fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let kept = Whereabouts::of(&args.place)?.existing()?;
    // All are found before the first one goes, so that a slip deletes nothing.
    let mut sessions = Vec::<Owned>::new();
    for id in &args.ids {
        let found = kept.session(id)?;
        if sessions.iter().all(|other| other.session.id != found.session.id) {
            sessions.push(found);
        }
    }
    if !args.yes {
        confirm(&sessions)?;
    }
    for Owned { tenant, session } in &sessions {
        kept.run(kept.store.delete(tenant, session.id))?;
    }
    kept.run(kept.store.vacuum())?;
    let deleted: Vec<String> = sessions.into_iter().map(|owned| owned.session.name).collect();
    if args.answer.json {
        return output::write_json(args.answer.to(), &Answer { deleted });
    }
    let mut page = Page::default();
    for name in deleted {
        page.line(format!("session {name} is deleted"));
    }
    output::give(args.answer.to(), &page)
}

/// Asks the person at the terminal.
fn confirm(sessions: &[Owned]) -> Result<(), Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::Wrong("what is deleted is gone for good; say so with --yes".to_owned()));
    }
    for Owned { session, .. } in sessions {
        let (name, length, title) = (&session.name, session.length, session.title.as_deref().unwrap_or("-"));
        output::say(&format!("session {name}: {title} ({length} messages)"));
    }
    output::say("type yes to delete for good:");
    let mut typed = String::new();
    let read = stdin().read_line(&mut typed);
    read.map_err(|error| Failure::World(format!("cannot read standard input: {error}")))?;
    match typed.trim() {
        "yes" | "y" => Ok(()),
        _ => Err(Failure::No("nothing was deleted".to_owned())),
    }
}
