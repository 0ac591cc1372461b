//! The page of one stretch: a handover of what a compaction folds, roomier than the one that stands in the request, and what fetches
//! every block of it. The host keeps it, and what is left of it in later checkpoints leads to it.

use std::collections::{BTreeSet, HashMap};

use super::work::Work;
use crate::Tokens;
use crate::checkpoint::{self, Brief};
use crate::evidence::{Read, title, weigh_said};
use crate::redact::{Content, Redacted};
use crate::texts::{Act, Entry};
use crate::transcript::{Block, BlockAt, Part, PartKind, UnitKind};

/// What the handover of a page may cost: nobody pays for it who does not open it.
const ROOMY: Tokens = Tokens(4_000);
/// Over the list of all blocks.
const BLOCKS: &str = "## Blocks";
/// Characters by which a block is named,
const NAME: usize = 120;
/// and a request.
const TITLE: usize = 140;
/// So many requests name a stretch; shorter ones that want nothing name none.
const TITLES: usize = 3;
const SMALL_TALK: usize = 40;

/// A stretch that is folded.
pub(super) struct Leaf {
    /// The number of its last action.
    pub(super) last: u32,
    /// What it is known by: what people asked for in it.
    pub(super) titles: Vec<Entry>,
    pub(super) page: String,
}

/// The stretch of what goes, the checkpoint before it apart.
pub(super) fn leaf(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>, brief: &Brief<'_>) -> Leaf {
    let page = Brief { previous: None, earlier: &[], kept: None, budget: ROOMY.max(brief.budget), ..*brief };
    let written = checkpoint::write(&page, work.redactor);
    let titles = titles(work, brief);
    let page = format!("{}\n{BLOCKS}\n{}", written.checkpoint.page(), blocks(work, gone, brief));
    Leaf { last: written.last, titles, page: page.trim_start().to_owned() }
}

/// The newest of what people asked for.
fn titles(work: &mut Work<'_, '_, '_>, brief: &Brief<'_>) -> Vec<Entry> {
    let wants = |words: &str| words.chars().count() >= SMALL_TALK || weigh_said(words) >= 2.0;
    let said = brief.evidence.said.iter().filter(|said| said.by_user && (brief.folded)(said.at.unit));
    let mut titles: Vec<&str> = said.map(Read::words).filter(|words| wants(words)).map(title).collect();
    titles.dedup();
    let titles = &titles[titles.len().saturating_sub(TITLES)..];
    let mut entry = |words: &&str| {
        let words = work.redactor.redact(words, Content::Text).text.on_one_line(TITLE);
        Entry::new(Act::Asked, &Redacted::own(""), &words)
    };
    titles.iter().map(&mut entry).collect()
}

/// Every block that goes, a line each: how it is named, how it begins where that was words, and what fetches it.
fn blocks(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>, brief: &Brief<'_>) -> String {
    let survey = work.survey;
    let words = brief.evidence.said.iter().chain(&brief.evidence.told);
    let words: HashMap<BlockAt, &str> = words.map(|read| (read.at, title(read.words()))).collect();
    let mut list = String::new();
    for unit in gone.iter().filter(|unit| Some(**unit) != survey.checkpoint()) {
        for part in survey.transcript.parts_of(*unit) {
            let mut name = source(&survey.transcript.units[*unit].kind, part);
            if let Some(words) = words.get(&part.at) {
                name = format!("{name}: {words}");
            }
            let name = work.redactor.redact(&name, Content::Text).text.on_one_line(NAME);
            let line = name.and_handle((brief.handle)(part.at).as_deref());
            list.extend(["- ", line.as_str(), "\n"]);
        }
    }
    list
}

/// How a block of a unit is named to a reader.
pub(super) fn source(unit: &UnitKind<'_>, part: Part<'_, '_>) -> String {
    match (part.kind, unit) {
        (PartKind::Call(exchange), _) => format!("call of {}", exchange.tool),
        (PartKind::Result { exchange, .. }, _) => {
            let asked = exchange.call.as_ref().map(Block::text).unwrap_or_default();
            format!("{} {asked}", exchange.tool)
        }
        (PartKind::Said, UnitKind::Prompt { .. }) => "the user".to_owned(),
        (PartKind::Said, UnitKind::Step { .. }) => "the assistant".to_owned(),
        (PartKind::Said, UnitKind::Checkpoint(_) | UnitKind::Opaque(_)) => "an earlier summary".to_owned(),
    }
}
