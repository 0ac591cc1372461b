//! `longhaul undo` and `redo`: which compaction of a session is in force.

use longhaul_server::session::UNDO_HOLDS;
use longhaul_server::store::Moved;
use serde::Serialize;
use serde_json::Value;

use crate::cli::UndoArgs;
use crate::commands::show;
use crate::failure::Failure;
use crate::output::{self, Page};
use crate::store::{self, Owned, Whereabouts};

#[derive(Serialize)]
struct Answer<'a> {
    session: &'a str,
    /// What is in force now; nothing means the history as the client sent it.
    epoch: Option<usize>,
    /// Whether nothing is compacted by itself while it fits the window.
    held: bool,
    tokens: Option<Tokens>,
}

#[derive(Serialize)]
struct Tokens {
    before: Value,
    after: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Undo,
    Redo,
}

pub(crate) fn undo(args: &UndoArgs) -> Result<(), Failure> {
    shift(args, Way::Undo)
}

pub(crate) fn redo(args: &UndoArgs) -> Result<(), Failure> {
    shift(args, Way::Redo)
}

fn shift(args: &UndoArgs, way: Way) -> Result<(), Failure> {
    let kept = Whereabouts::of(&args.place)?.existing()?;
    let Owned { tenant, session } = kept.session(&args.id)?;
    let name = &session.name;
    let moved = match way {
        Way::Undo => kept.run(kept.store.undo(&tenant, session.id))?,
        Way::Redo => kept.run(kept.store.redo(&tenant, session.id))?,
    };
    let epoch = match (moved, way) {
        (Moved::To(epoch), _) => epoch,
        (Moved::Nowhere, Way::Undo) => {
            return Err(Failure::No(format!("session {name} has no compaction in force; nothing to undo")));
        }
        (Moved::Nowhere, Way::Redo) => {
            return Err(Failure::No(format!(
                "session {name} has no compaction behind the one in force; nothing to redo"
            )));
        }
    };
    if args.answer.json {
        let tokens = epoch.as_ref().map(|epoch| Tokens {
            before: epoch.report["tokens"]["before"].clone(),
            after: epoch.report["tokens"]["after"].clone(),
        });
        let number = epoch.as_ref().map(|epoch| epoch.number);
        let answer = Answer { session: name, epoch: number, held: way == Way::Undo, tokens };
        return output::write_json(args.answer.to(), &answer);
    }
    let mut page = Page::default();
    let place = store::option(args.place.store.as_deref());
    page.line(match &epoch {
        Some(epoch) => {
            format!("session {name}: epoch {} is in force, {}", epoch.number, show::sizes(&epoch.report))
        }
        None => format!("session {name}: its history is in force as the client sent it"),
    });
    page.line(match way {
        Way::Undo => format!("{UNDO_HOLDS}; longhaul redo {name}{place} goes forth again"),
        Way::Redo => format!("longhaul undo {name}{place} takes it back"),
    });
    output::give(args.answer.to(), &page)
}
