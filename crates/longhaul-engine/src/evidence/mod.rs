//! What a handover could cite, gathered from whole blocks before anything is pruned: what people said, what the agent told, what
//! it did and how that ended, in order of time.
//!
//! ```text
//! prompts ──▶ said          the person's own words, without those of the program around the model
//! replies ──▶ told          closing words of turns, and sentences that state causes, results and choices
//! exchanges ──▶ deeds       commands with the line that decided them, files with their lines out and in, questions, to-do lists
//! ```
//!
//! It claims nothing: whether something is done, open or refuted is for whoever reads the words to say. What is read from one
//! block is kept in [`Known`] by content, so a body that grew costs what it grew by. It may use `action` and what is below it.

mod bag;
mod data;
mod exchange;
mod names;
mod prompt;
mod prose;
mod reading;
mod reply;
mod todo;
mod verdict;
mod words;

use std::sync::Arc;

use crate::action::Actions;
use crate::clip::start_within;
use crate::known::Known;
use crate::transcript::{Block, BlockAt, BlockKind, Speaker, Transcript, UnitKind};

pub(crate) use bag::{Bag, is_anchor};
pub(crate) use exchange::Did;
pub(crate) use names::Sense;
pub(crate) use prose::is_abbreviation;
use prose::is_question;
use reading::Called;
pub(crate) use reading::Reading;
pub(crate) use reply::{Told, weigh};
pub(crate) use todo::Item;
pub(crate) use verdict::Verdict;
use words::{Cue, Cues, TABLE};

/// What a handover could cite. Every list is oldest first.
#[derive(Debug, Default)]
pub struct Evidence {
    /// What people said.
    pub(crate) said: Vec<Read>,
    /// What the agent told.
    pub(crate) told: Vec<Read>,
    /// What it did: every exchange.
    pub(crate) deeds: Vec<Read>,
    /// Files of standing memory that the system prompt names.
    pub(crate) memory: Vec<String>,
}

/// Something that was read, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// The block by which it is fetched again.
    pub(crate) at: BlockAt,
    /// Whether it ends a turn: nothing is called in it.
    pub(crate) closes: bool,
    /// Whether people could see it: no reasoning.
    pub(crate) visible: bool,
    /// Whether a person said it for sure.
    pub(crate) by_user: bool,
    reading: Arc<Reading>,
}

/// How a task of a list stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// To be done.
    Open,
    /// Being done.
    Doing,
    /// Done.
    Done,
}

impl Read {
    pub(crate) fn words(&self) -> &str {
        match &*self.reading {
            Reading::Spoken(spoken) => &spoken.text,
            Reading::Told(told) => &told.text,
            Reading::Did(did) => &did.asked,
        }
    }

    /// The sentences of a person that are meant to hold, as far as their words show it.
    pub(crate) fn rules(&self) -> Vec<String> {
        match &*self.reading {
            Reading::Spoken(spoken) if self.by_user => spoken.rules().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a host passed it on inside another block, or it is another agent's report.
    pub(crate) fn is_relayed(&self) -> bool {
        matches!(&*self.reading, Reading::Spoken(spoken) if spoken.relayed)
    }

    pub(crate) fn told(&self) -> Option<&Told> {
        match &*self.reading {
            Reading::Told(told) => Some(told),
            _ => None,
        }
    }

    pub(crate) fn did(&self) -> Option<&Did> {
        match &*self.reading {
            Reading::Did(did) => Some(did),
            _ => None,
        }
    }

    /// The list of tasks in it.
    pub(crate) fn tasks(&self) -> &[Item] {
        match &*self.reading {
            Reading::Told(told) => &told.todo,
            Reading::Did(did) => &did.todo,
            Reading::Spoken(_) => &[],
        }
    }
}

impl Evidence {
    /// Gathers the evidence of all units.
    #[must_use]
    pub fn of(known: &mut Known, transcript: &Transcript<'_>) -> Self {
        let mut evidence = Self { memory: memory(transcript), ..Self::default() };
        let words = reading::words(known, transcript, 0);
        for words in words.chunk_by(|(one, _), (next, _)| one.unit == next.unit) {
            let kind = &transcript.units[words[0].0.unit].kind;
            let by_user = matches!(kind, UnitKind::Prompt { by: Speaker::User, .. });
            let closes = matches!(kind, UnitKind::Step { exchanges, .. } if exchanges.is_empty());
            let reply: &[Block<'_>] = match kind {
                UnitKind::Step { reply, .. } => reply,
                _ => &[],
            };
            let is_prompt = matches!(kind, UnitKind::Prompt { .. });
            for (at, reading) in if is_prompt { one_message(words) } else { words.to_vec() } {
                let visible = reply.get(at.block).is_none_or(|block| block.kind == BlockKind::Text);
                let list = match &*reading {
                    Reading::Spoken(spoken) if !is_prompt && spoken.text.is_empty() => continue,
                    Reading::Spoken(_) => &mut evidence.said,
                    _ => &mut evidence.told,
                };
                list.push(Read { at, closes, visible, by_user, reading });
            }
        }
        let exchanges = reading::exchanges(transcript, 0);
        let shown = reading::shown(known, &exchanges).into_iter().zip(&exchanges);
        evidence.deeds = shown
            .map(|(reading, &Called { at, .. })| Read {
                at,
                closes: false,
                visible: true,
                by_user: false,
                reading,
            })
            .collect();
        evidence
    }

    /// The reply or the call with the agent's list of tasks as it stood last.
    pub(crate) fn newest_tasks(&self) -> Option<&Read> {
        let lists = self.told.iter().chain(&self.deeds).filter(|read| !read.tasks().is_empty());
        lists.max_by_key(|read| read.at.unit)
    }

    /// Reads what stands from a unit on for later, if it was not read before.
    pub(crate) fn look(known: &mut Known, transcript: &Transcript<'_>, first: usize) {
        reading::words(known, transcript, first);
        reading::shown(known, &reading::exchanges(transcript, first));
    }

    /// What every exchange did, by unit: all that is needed where nothing is folded.
    pub(crate) fn actions(known: &mut Known, transcript: &Transcript<'_>) -> Actions {
        let exchanges = reading::exchanges(transcript, 0);
        let acted = reading::acted(known, &exchanges);
        let actions = exchanges.iter().zip(&acted);
        Actions::read_before(actions.map(|(called, acted)| (called.at.unit, Arc::clone(&acted.action))))
    }

    /// The sentences of people that are meant to hold, as far as their words show it, with their units.
    pub fn rules(&self) -> impl Iterator<Item = (usize, String)> {
        self.said.iter().flat_map(|said| said.rules().into_iter().map(move |rule| (said.at.unit, rule)))
    }
}

/// The words of one message, whatever blocks they came in, as one.
fn one_message(readings: &[(BlockAt, Arc<Reading>)]) -> Vec<(BlockAt, Arc<Reading>)> {
    let words = |reading: &Arc<Reading>| match &**reading {
        Reading::Spoken(spoken) if !spoken.text.is_empty() => Some(spoken.text.clone()),
        _ => None,
    };
    let spoken: Vec<String> = readings.iter().filter_map(|(_, reading)| words(reading)).collect();
    match readings.first() {
        Some((at, _)) if spoken.len() > 1 => {
            let (text, relayed) = (spoken.join("\n\n"), false);
            vec![(*at, Arc::new(Reading::Spoken(prompt::Spoken { text, relayed })))]
        }
        _ => readings.to_vec(),
    }
}

/// Whether a line is an item of a list, or a heading.
pub(crate) fn begins_item(line: &str) -> bool {
    prose::without_bullet(line).len() < line.len()
}

/// The line by which a request is told from others: the first that is neither a tag nor a path and leads to nothing.
pub(crate) fn title(text: &str) -> &str {
    let is_title = |line: &&str| {
        line.split_whitespace().nth(2).is_some() && !line.ends_with(':') && !line.starts_with(['<', '/', '['])
    };
    text.lines().map(str::trim).find(is_title).unwrap_or(text)
}

/// Whether a word of a request says nothing about its topic.
pub(crate) fn is_filler(word: &str) -> bool {
    TABLE.fillers.iter().any(|filler| filler == word)
}

/// Whether a person asks something.
pub(crate) fn asks(text: &str) -> bool {
    text.lines().any(is_question) || prose::sentences(text).iter().any(|sentence| is_question(sentence.text))
}

/// Whether a person says that what was answered is not so.
pub(crate) fn denies(text: &str) -> bool {
    Cues::of(start_within(text, 200)).has(Cue::Denial)
}

/// Whether a text has words by which something is meant to hold.
pub(crate) fn has_rule(text: &str) -> bool {
    Cues::of(text).has(Cue::Rule)
}

/// How much a piece of a person's text is worth beside its other pieces: rules, wishes and questions before the rest.
pub(crate) fn weigh_said(text: &str) -> f32 {
    let cues = Cues::of(text);
    let worth = match (cues.has(Cue::Rule), cues.has(Cue::Wish)) {
        (true, _) => 3.5,
        (false, true) => 2.5,
        (false, false) => 1.0,
    };
    worth + if is_question(text) { 1.0 } else { 0.0 }
}

/// The files of standing memory that the system prompt names.
fn memory(transcript: &Transcript<'_>) -> Vec<String> {
    let system = || transcript.preamble.iter().filter(|block| block.kind == BlockKind::System);
    let is_named = |file: &&String| system().any(|block| block.raw().contains(file.as_str()));
    TABLE.memory_files.iter().filter(is_named).cloned().collect()
}
