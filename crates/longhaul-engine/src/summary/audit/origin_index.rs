//! Finds the origin of a clause: people, the agent, or only a tool output.
//!
//! A clause is compared with windows of neighbouring words, not with all words of a source at once: the
//! vocabulary of a long session contains the words of nearly any sentence.

use std::collections::HashMap;

use super::claims::{Claim, ClaimKind, is_shell_command};
use super::phrases::{TABLE, contains_any, gives_permission, on_one_line};
use crate::checkpoint::{Checkpoint, Section};
use crate::evidence::{Evidence, WordBag, is_identifier_like};
use crate::transcript::{BlockKind, BlockRole, Transcript, TurnKind};

/// The share of a clause's words that one window of a source must contain to support the clause.
const MIN_SUPPORT_SHARE: f32 = 0.6;
/// The share of a clause's words that a window of people's words must contain if the clause paraphrases it.
const MIN_PARAPHRASE_SHARE: f32 = 0.35;
/// The share of a clause's words below which no source has the clause in any form.
const MIN_TRACE_SHARE: f32 = 0.2;
/// The share of a clause's words that one narrow window of a tool's output must contain if the clause is copied from it.
const MIN_COPY_SHARE: f32 = 0.75;
/// The number of words, without names and numbers, from which a clause that people did not say can be attributed. A
/// shorter one stands in any long output.
const MIN_ATTRIBUTED_WORDS: usize = 3;
/// The lead of a tool's best window over that of people from which the clause is attributed to the tool.
const TOOL_LEAD_SHARE: f32 = 0.2;
/// The number of words that a window has for each word of the clause, and in addition: a paraphrase spreads over a
/// passage, but a copy keeps its words together, whatever else a long output contains.
const PASSAGE_WINDOW: (usize, usize) = (4, 16);
const COPY_WINDOW: (usize, usize) = (1, 3);
/// The maximum number of words of a source that are indexed, as a bound on memory. Chosen by hand.
const MAX_WORDS: usize = 4_000_000;

/// The origin of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClauseOrigin {
    /// A user or the system prompt said it.
    People,
    /// The agent said it, and no tool output contains it.
    Agent,
    /// A tool output contains these words next to each other, and no person said it.
    Tool,
    /// No source contains these words, but people or the agent said some of them.
    Unclear,
    /// No source contains even a part of it.
    Nobody,
}

impl ClauseOrigin {
    const ALL: [Self; 5] = [Self::People, Self::Agent, Self::Tool, Self::Unclear, Self::Nobody];

    /// Returns the words before a quote with this origin.
    pub(super) fn quote_opening(self) -> &'static str {
        match self {
            Self::Tool => "A tool's output said: \u{201c}",
            Self::Agent => "The agent said, not the user: \u{201c}",
            Self::People | Self::Unclear | Self::Nobody => "The summary says, in no person's words: \u{201c}",
        }
    }
}

/// Returns whether an item of a checkpoint quotes words that are nobody's wish.
fn is_quote(item: &str) -> bool {
    ClauseOrigin::ALL.iter().any(|origin| item.starts_with(origin.quote_opening()))
}

/// The words of a session by their origin, limited to the words of the summary.
pub(super) struct OriginIndex {
    word_ids: HashMap<String, u32>,
    people: WordPositions,
    agent: WordPositions,
    tools: WordPositions,
    /// The texts of people, in lower case, one line for each.
    people_text: String,
}

/// The positions of indexed words in a source, as pairs of position and word ID.
#[derive(Default)]
struct WordPositions {
    words: Vec<(u32, u32)>,
    length: u32,
}

impl OriginIndex {
    /// Indexes a session for the words of these statements.
    pub(super) fn new<'s>(
        transcript: &Transcript<'_>,
        evidence: &Evidence,
        statements: impl Iterator<Item = &'s str>,
    ) -> Self {
        let mut ids = HashMap::new();
        for key in statements.flat_map(|text| word_keys(text).into_iter().map(|(key, _)| key)) {
            let next = ids.len() as u32;
            ids.entry(key).or_insert(next);
        }
        let mut support = Self {
            word_ids: ids,
            people: WordPositions::default(),
            agent: WordPositions::default(),
            tools: WordPositions::default(),
            people_text: String::new(),
        };
        support.add_session(transcript, evidence);
        support
    }

    fn add_session(&mut self, transcript: &Transcript<'_>, evidence: &Evidence) {
        for block in transcript.preamble.iter().filter(|block| block.kind == BlockKind::System) {
            self.add_people_text(&block.text());
        }
        let any_person = evidence.user_messages.iter().any(|said| said.by_user);
        for said in evidence.user_messages.iter().filter(|said| said.by_user || !any_person) {
            self.add_people_text(said.text());
        }
        for (at, turn) in transcript.turns.iter().enumerate() {
            if let TurnKind::Checkpoint(block) = &turn.kind {
                // In a checkpoint, these sections have people's words. The rest of a checkpoint
                // has no origin.
                let earlier = Checkpoint::parse(&block.text()).unwrap_or_default();
                for section in [Section::ActiveTask, Section::Goal, Section::Constraints, Section::NotInSummary] {
                    for item in earlier.list(section).iter().filter(|item| !is_quote(item.as_str())) {
                        self.add_people_text(item.as_str());
                    }
                }
                continue;
            }
            let is_prompt = matches!(turn.kind, TurnKind::Prompt { .. });
            for part in transcript.blocks_of_turn(at) {
                let text = part.block.text();
                match part.role {
                    BlockRole::Result { .. } => self.tools.add_text(&self.word_ids, &text),
                    BlockRole::Content if !is_prompt => self.agent.add_text(&self.word_ids, &text),
                    BlockRole::Content | BlockRole::Call(_) => {}
                }
            }
        }
    }

    fn add_people_text(&mut self, text: &str) {
        self.people.add_text(&self.word_ids, text);
        self.people_text.push_str(&on_one_line(&text.to_lowercase()));
        self.people_text.push('\n');
    }

    /// Returns the origin of a clause; `None` if it has no word that counts.
    pub(super) fn find_origin(&self, clause: &str, claims: &[Claim<'_>]) -> Option<ClauseOrigin> {
        let keys = word_keys(clause);
        if keys.is_empty() {
            return None;
        }
        let of = |passage: &WordPositions| passage.best_window_share(&self.word_ids, &keys, PASSAGE_WINDOW);
        let (people, agent) = (of(&self.people), of(&self.agent));
        let tools = self.tools.best_window_share(&self.word_ids, &keys, COPY_WINDOW);
        let is_spoken = self.is_said_by_people(clause);
        let has_unsaid_instruction =
            claims.iter().any(|claim| is_instruction(claim) && !self.is_said_by_people(claim.text));
        let gives_permission = gives_permission(clause);
        let is_permitted = !gives_permission || contains_any(&self.people_text, &TABLE.permits);
        let is_theirs = people >= MIN_SUPPORT_SHARE && tools < people + TOOL_LEAD_SHARE;
        // A paraphrase has some of people's words, and more of theirs than of any tool's.
        let is_paraphrase = people >= MIN_PARAPHRASE_SHARE && tools < people && !gives_permission;
        if is_spoken || ((is_theirs || is_paraphrase) && !has_unsaid_instruction && is_permitted) {
            return Some(ClauseOrigin::People);
        }
        let is_short = keys.iter().filter(|(word, _)| !is_identifier_like(word)).count() < MIN_ATTRIBUTED_WORDS;
        Some(if tools >= MIN_COPY_SHARE && !is_short {
            ClauseOrigin::Tool
        } else if agent >= MIN_SUPPORT_SHARE {
            ClauseOrigin::Agent
        } else if is_short || people.max(agent) >= MIN_TRACE_SHARE {
            ClauseOrigin::Unclear
        } else {
            ClauseOrigin::Nobody
        })
    }

    /// Returns whether people said this word for word.
    pub(super) fn is_said_by_people(&self, text: &str) -> bool {
        let text = on_one_line(&text.to_lowercase());
        let text = text.trim_end_matches(['.', ';', '!', '。']).trim();
        !text.is_empty() && self.people_text.contains(text)
    }
}

/// Returns whether an agent could follow a claim as an instruction: a URL, or a shell command.
pub(super) fn is_instruction(claim: &Claim<'_>) -> bool {
    claim.kind == ClaimKind::Url || claim.kind == ClaimKind::Code && is_shell_command(claim.text)
}

impl WordPositions {
    fn add_text(&mut self, ids: &HashMap<String, u32>, text: &str) {
        if self.length as usize > MAX_WORDS {
            return;
        }
        for (key, _) in word_keys(text) {
            self.length += 1;
            if let Some(id) = ids.get(&key) {
                self.words.push((self.length, *id));
            }
        }
        // A distance between two texts, so that no window contains words of both.
        self.length += 1_000;
    }

    /// Returns the largest share of these words, by weight, that one window contains.
    fn best_window_share(
        &self,
        ids: &HashMap<String, u32>,
        keys: &[(String, f32)],
        (words_each, more_words): (usize, usize),
    ) -> f32 {
        let wanted: HashMap<u32, f32> =
            keys.iter().filter_map(|(key, weight)| Some((*ids.get(key)?, *weight))).collect();
        let all: f32 = wanted.values().sum();
        let reach = (keys.len() * words_each + more_words) as u32;
        let found: Vec<(u32, u32)> = self.words.iter().filter(|(_, id)| wanted.contains_key(id)).copied().collect();
        let mut inside: HashMap<u32, usize> = HashMap::new();
        let (mut first, mut weight, mut best) = (0, 0.0_f32, 0.0_f32);
        for (at, id) in &found {
            let count = inside.entry(*id).or_default();
            *count += 1;
            if *count == 1 {
                weight += wanted[id];
            }
            while found[first].0 + reach < *at {
                let gone = found[first].1;
                first += 1;
                let count = inside.entry(gone).or_default();
                *count -= 1;
                if *count == 0 {
                    weight -= wanted[&gone];
                }
            }
            best = best.max(weight);
        }
        if all > 0.0 { best / all } else { 0.0 }
    }
}

/// Returns the meaningful words of a text in their order. For scripts without spaces, it returns pairs of
/// characters.
fn word_keys(text: &str) -> Vec<(String, f32)> {
    WordBag::weighted_words(text)
        .flat_map(|(word, weight)| {
            let characters: Vec<char> = word.chars().collect();
            let is_unspaced = characters.len() > 2 && characters.iter().any(|c| *c >= '\u{2E80}');
            if is_unspaced {
                characters.windows(2).map(|pair| (pair.iter().collect(), 1.0)).collect()
            } else {
                vec![(word, weight)]
            }
        })
        .collect()
}
