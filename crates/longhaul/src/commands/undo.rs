//! `longhaul undo` and `longhaul redo`: change which compaction of a session is active.

use longhaul_server::session::UNDO_PROMISE;
use longhaul_server::store::HeadMove;
use serde::Serialize;
use serde_json::Value;

use crate::cli::UndoArgs;
use crate::commands::show;
use crate::failure::Failure;
use crate::output::{self, Page};
use crate::store::{self, ConfiguredStore, OwnedSession};

#[derive(Serialize)]
struct UndoOutput<'a> {
    session: &'a str,
    /// The number of the active compaction. If it is empty, the client's history is sent unchanged.
    #[serde(rename = "epoch")]
    compaction: Option<usize>,
    /// Whether automatic compaction waits for the safety threshold, because the user undid a compaction.
    #[serde(rename = "held")]
    is_undone: bool,
    tokens: Option<UndoTokens>,
}

#[derive(Serialize)]
struct UndoTokens {
    before: Value,
    after: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UndoDirection {
    Undo,
    Redo,
}

pub(crate) fn undo(args: &UndoArgs) -> Result<(), Failure> {
    change_active_compaction(args, UndoDirection::Undo)
}

pub(crate) fn redo(args: &UndoArgs) -> Result<(), Failure> {
    change_active_compaction(args, UndoDirection::Redo)
}

fn change_active_compaction(args: &UndoArgs, direction: UndoDirection) -> Result<(), Failure> {
    let store = ConfiguredStore::from_flags(&args.store_flags)?.open_existing()?;
    let OwnedSession { tenant, session } = store.find_session(&args.id)?;
    let name = &session.name;
    let moved = match direction {
        UndoDirection::Undo => store.run(store.store.undo(&tenant, session.id))?,
        UndoDirection::Redo => store.run(store.store.redo(&tenant, session.id))?,
    };
    let compaction = match (moved, direction) {
        (HeadMove::To(compaction), _) => compaction,
        (HeadMove::NoTarget, UndoDirection::Undo) => {
            return Err(Failure::Negative(format!("session {name} has no active compaction; nothing to undo")));
        }
        (HeadMove::NoTarget, UndoDirection::Redo) => {
            return Err(Failure::Negative(format!("session {name} has no later compaction; nothing to redo")));
        }
    };
    if args.output.json {
        let tokens = compaction.as_ref().map(|compaction| UndoTokens {
            before: compaction.report["tokens"]["before"].clone(),
            after: compaction.report["tokens"]["after"].clone(),
        });
        let number = compaction.as_ref().map(|compaction| compaction.number);
        let output =
            UndoOutput { session: name, compaction: number, is_undone: direction == UndoDirection::Undo, tokens };
        return output::write_json(args.output.file(), &output);
    }
    let mut page = Page::default();
    let store_option = store::store_option(args.store_flags.store.as_deref());
    page.add_line(match &compaction {
        Some(compaction) => {
            format!(
                "session {name}: compaction {} is active, {}",
                compaction.number,
                show::token_sizes(&compaction.report)
            )
        }
        None => format!("session {name}: no compaction is active; the history is sent unchanged"),
    });
    page.add_line(match direction {
        UndoDirection::Undo => format!("{UNDO_PROMISE}; longhaul redo {name}{store_option} restores it"),
        UndoDirection::Redo => format!("longhaul undo {name}{store_option} undoes it"),
    });
    output::write_page(args.output.file(), &page)
}
