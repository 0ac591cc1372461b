//! Writes the page about the turns that one compaction removes: a longer summary than the one in the
//! checkpoint, and the recall ID of every block. The host stores the page, and entries in later checkpoints
//! lead to it.

use std::collections::{BTreeSet, HashMap};

use super::workspace::Workspace;
use crate::Tokens;
use crate::checkpoint::{self, CheckpointInput};
use crate::evidence::{EvidenceItem, score_user_text, title_line};
use crate::redact::{Redacted, RedactionMode};
use crate::texts::{ActionEntry, EntryKind};
use crate::transcript::{Block, BlockPosition, BlockRole, TurnBlock, TurnKind};

/// The largest summary on a page. It is generous, because a page costs tokens only when somebody opens it.
/// Chosen by hand.
const PAGE_SUMMARY_TOKENS: Tokens = Tokens(4_000);
/// The heading above the list of all blocks.
const BLOCKS_HEADING: &str = "## Blocks";
/// The largest name of a block in the list, in characters.
const MAX_BLOCK_NAME_CHARS: usize = 120;
/// The largest title of a request, in characters.
const MAX_TITLE_CHARS: usize = 140;
/// The largest number of requests that serve as titles of a page.
const MAX_TITLES: usize = 3;
/// The length in characters below which a message is no title, unless it contains a rule, a request or a
/// question. Chosen by hand.
const MIN_TITLE_CHARS: usize = 40;

/// A page that was written.
pub(super) struct WrittenPage {
    /// The number of the last action on it.
    pub(super) last_action: u32,
    /// The newest requests of people in it, which name the page in later checkpoints.
    pub(super) titles: Vec<ActionEntry>,
    pub(super) text: String,
}

/// Writes the page of the removed turns, without the previous checkpoint.
pub(super) fn write_page(
    work: &mut Workspace<'_, '_, '_>,
    gone: &BTreeSet<usize>,
    input: &CheckpointInput<'_>,
) -> WrittenPage {
    let page = CheckpointInput {
        previous: None,
        earlier_work: &[],
        host_note: None,
        budget: PAGE_SUMMARY_TOKENS.max(input.budget),
        ..*input
    };
    let written = checkpoint::write(&page, &mut work.redactor);
    let titles = request_titles(work, input);
    let page = format!("{}\n{BLOCKS_HEADING}\n{}", written.checkpoint.render_page(), list_blocks(work, gone, input));
    WrittenPage { last_action: written.last_action, titles, text: page.trim_start().to_owned() }
}

/// Returns the newest requests of people as titles.
fn request_titles(work: &mut Workspace<'_, '_, '_>, input: &CheckpointInput<'_>) -> Vec<ActionEntry> {
    let wants = |words: &str| words.chars().count() >= MIN_TITLE_CHARS || score_user_text(words) >= 2.0;
    let said = input.evidence.user_messages.iter().filter(|said| said.by_user && (input.is_summarized)(said.at.unit));
    let mut titles: Vec<&str> = said.map(EvidenceItem::text).filter(|words| wants(words)).map(title_line).collect();
    titles.dedup();
    let titles = &titles[titles.len().saturating_sub(MAX_TITLES)..];
    let mut entry = |words: &&str| {
        let words = work.redactor.redact(words, RedactionMode::Text).text.one_line(MAX_TITLE_CHARS);
        ActionEntry::new(EntryKind::UserRequest, &Redacted::literal(""), &words)
    };
    titles.iter().map(&mut entry).collect()
}

/// Lists every removed block on a line of its own: its label, the beginning of its text if it is a message,
/// and its recall ID.
fn list_blocks(work: &mut Workspace<'_, '_, '_>, gone: &BTreeSet<usize>, input: &CheckpointInput<'_>) -> String {
    let survey = work.survey;
    let words = input.evidence.user_messages.iter().chain(&input.evidence.assistant_texts);
    let words: HashMap<BlockPosition, &str> = words.map(|read| (read.at, title_line(read.text()))).collect();
    let mut list = String::new();
    for turn in gone.iter().filter(|turn| Some(**turn) != survey.newest_checkpoint) {
        for part in survey.transcript.blocks_of_turn(*turn) {
            let mut name = block_label(&survey.transcript.turns[*turn].kind, part);
            if let Some(words) = words.get(&part.position) {
                name = format!("{name}: {words}");
            }
            let name = work.redactor.redact(&name, RedactionMode::Text).text.one_line(MAX_BLOCK_NAME_CHARS);
            let line = name.append_recall_id((input.recall_id)(part.position).as_deref());
            list.extend(["- ", line.as_str(), "\n"]);
        }
    }
    list
}

/// Returns a label that tells a reader what a block is.
pub(super) fn block_label(turn: &TurnKind<'_>, part: TurnBlock<'_, '_>) -> String {
    match (part.role, turn) {
        (BlockRole::Call(tool_call), _) => format!("call of {}", tool_call.tool),
        (BlockRole::Result { tool_call, .. }, _) => {
            let asked = tool_call.call.as_ref().map(Block::text).unwrap_or_default();
            format!("{} {asked}", tool_call.tool)
        }
        (BlockRole::Content, TurnKind::Prompt { .. }) => "the user".to_owned(),
        (BlockRole::Content, TurnKind::Assistant { .. }) => "the assistant".to_owned(),
        (BlockRole::Content, TurnKind::Checkpoint(_) | TurnKind::Opaque(_)) => "an earlier summary".to_owned(),
    }
}
