//! Collects the evidence that a checkpoint may cite: messages of people, texts of the agent, and tool uses
//! with their outcomes. It is read from whole blocks before anything is removed, and every list is in order
//! of time.
//!
//! ```text
//! user turns       ──▶ user_messages      messages of people, of other agents and of unknown authors, without the host's text
//! assistant turns  ──▶ assistant_texts    all texts and readable reasoning, each with its key sentences
//! tool calls       ──▶ tool_uses          commands with their key lines, file changes, questions, task lists
//! ```
//!
//! Evidence makes no claims: this module does not decide whether something is done, open or disproved. The
//! result for each block is stored in [`BlockCache`] by content, so a session that grew costs only its new
//! blocks. This module may use `action` and the layers below it.

mod assistant_text;
mod extract;
mod json_fields;
mod key_lines;
mod named_values;
mod reception;
mod sentence_fingerprint;
mod sentences;
mod tasks;
mod tool_use;
mod user_message;
mod weights;
mod word_bag;
mod words;

use std::sync::Arc;

use crate::action::Actions;
use crate::block_cache::BlockCache;
use crate::transcript::{Block, BlockKind, BlockPosition, Speaker, Transcript, TurnKind};

pub(crate) use assistant_text::{AssistantText, KeySentence, score_sentence};
use extract::CallSource;
pub(crate) use extract::EvidenceContent;
pub(crate) use key_lines::{KeyLines, printed_text};
pub(crate) use named_values::NamedValue;
pub(crate) use reception::{Reception, is_small_talk, reception};
pub(crate) use sentence_fingerprint::{SentenceFingerprint, has_inner_capital, is_identifier, split_words};
use sentences::is_question;
pub(crate) use sentences::{depends_on_sentence_before, ends_in_abbreviation, sentence_ends};
pub(crate) use tasks::Task;
pub(crate) use tool_use::ToolUse;
pub(crate) use word_bag::{WordBag, is_identifier_like};
use words::{Cue, Cues, EVIDENCE_WORDS};

/// Everything in a transcript that a checkpoint may cite. Every list has its oldest item first.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The messages of people, and text that may be a person's.
    pub(crate) user_messages: Vec<EvidenceItem>,
    /// The texts and the readable reasoning of the agent.
    pub(crate) assistant_texts: Vec<EvidenceItem>,
    /// One item for each tool call.
    pub(crate) tool_uses: Vec<EvidenceItem>,
    /// The names of memory files (such as `AGENTS.md`) that the system prompt mentions.
    pub(crate) memory_files: Vec<String>,
}

/// One piece of evidence, with its position in the transcript.
#[derive(Debug, Clone)]
pub(crate) struct EvidenceItem {
    /// The block whose recall ID leads back to the original text.
    pub(crate) at: BlockPosition,
    /// Whether the assistant turn has no tool calls, so that its text is a closing reply.
    pub(crate) is_closing: bool,
    /// Whether people could see the text; false for reasoning.
    pub(crate) visible: bool,
    /// Whether it is certain that a person wrote it.
    pub(crate) by_user: bool,
    content: Arc<EvidenceContent>,
}

/// The state of a task in a task list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// The task has not been started.
    Open,
    /// The agent is working on the task.
    InProgress,
    /// The task is finished.
    Done,
}

impl EvidenceItem {
    pub(crate) fn text(&self) -> &str {
        match &*self.content {
            EvidenceContent::UserMessage(message) => &message.text,
            EvidenceContent::AssistantText(assistant_text) => &assistant_text.text,
            EvidenceContent::ToolUse(tool_use) => &tool_use.request,
        }
    }

    /// Returns the sentences of a person that state a lasting rule ("never push to main"), recognized by
    /// their words. Returns nothing unless a person certainly wrote the text.
    pub(crate) fn rules(&self) -> Vec<String> {
        match &*self.content {
            EvidenceContent::UserMessage(message) if self.by_user => message.rules().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the host program passed the text on inside another block, or another agent reported
    /// it.
    pub(crate) fn is_relayed(&self) -> bool {
        matches!(&*self.content, EvidenceContent::UserMessage(message) if message.is_relayed)
    }

    pub(crate) fn assistant_text(&self) -> Option<&AssistantText> {
        match &*self.content {
            EvidenceContent::AssistantText(assistant_text) => Some(assistant_text),
            _ => None,
        }
    }

    pub(crate) fn tool_use(&self) -> Option<&ToolUse> {
        match &*self.content {
            EvidenceContent::ToolUse(tool_use) => Some(tool_use),
            _ => None,
        }
    }

    /// Returns the tasks that the text or the tool call lists.
    pub(crate) fn tasks(&self) -> &[Task] {
        match &*self.content {
            EvidenceContent::AssistantText(assistant_text) => &assistant_text.tasks,
            EvidenceContent::ToolUse(tool_use) => &tool_use.tasks,
            EvidenceContent::UserMessage(_) => &[],
        }
    }
}

impl Evidence {
    /// Collects the evidence of all turns.
    #[must_use]
    pub fn collect(cache: &mut BlockCache, transcript: &Transcript<'_>) -> Self {
        let mut evidence = Self { memory_files: named_memory_files(transcript), ..Self::default() };
        let texts = extract::read_texts(cache, transcript, 0);
        for texts in texts.chunk_by(|(one, _), (next, _)| one.unit == next.unit) {
            let kind = &transcript.turns[texts[0].0.unit].kind;
            let by_user = matches!(kind, TurnKind::Prompt { speaker: Speaker::User, .. });
            let is_closing = matches!(kind, TurnKind::Assistant { tool_calls, .. } if tool_calls.is_empty());
            let reply: &[Block<'_>] = match kind {
                TurnKind::Assistant { reply, .. } => reply,
                _ => &[],
            };
            let is_prompt = matches!(kind, TurnKind::Prompt { .. });
            for (at, content) in if is_prompt { join_message_blocks(texts) } else { texts.to_vec() } {
                let visible = reply.get(at.block).is_none_or(|block| block.kind == BlockKind::Text);
                let list = match &*content {
                    EvidenceContent::UserMessage(message) if !is_prompt && message.text.is_empty() => continue,
                    EvidenceContent::UserMessage(_) => &mut evidence.user_messages,
                    _ => &mut evidence.assistant_texts,
                };
                list.push(EvidenceItem { at, is_closing, visible, by_user, content });
            }
        }
        let tool_calls = extract::collect_calls(transcript, 0);
        let tool_uses = extract::read_tool_uses(cache, &tool_calls).into_iter().zip(&tool_calls);
        evidence.tool_uses = tool_uses
            .map(|(content, &CallSource { at, .. })| EvidenceItem {
                at,
                is_closing: false,
                visible: true,
                by_user: false,
                content,
            })
            .collect();
        evidence
    }

    /// Returns the newest assistant text or tool use that has a task list.
    pub(crate) fn newest_task_list(&self) -> Option<&EvidenceItem> {
        let lists = self.assistant_texts.iter().chain(&self.tool_uses).filter(|item| !item.tasks().is_empty());
        lists.max_by_key(|item| item.at.unit)
    }

    /// Reads the evidence of the turns from `first` on into the cache, so that a later compaction finds it
    /// there.
    pub(crate) fn observe(cache: &mut BlockCache, transcript: &Transcript<'_>, first: usize) {
        extract::read_texts(cache, transcript, first);
        extract::read_tool_uses(cache, &extract::collect_calls(transcript, first));
    }

    /// Reads only the actions of all tool calls, for plans that summarize nothing and need no other evidence.
    pub(crate) fn read_actions(cache: &mut BlockCache, transcript: &Transcript<'_>) -> Actions {
        let tool_calls = extract::collect_calls(transcript, 0);
        let actions = extract::read_actions(cache, &tool_calls);
        let pairs = tool_calls.iter().zip(&actions);
        Actions::from_cached(pairs.map(|(call, action)| (call.at.unit, Arc::clone(&action.action))))
    }

    /// Returns the sentences of people that state a lasting rule, each with the index of its turn.
    pub fn rules(&self) -> impl Iterator<Item = (usize, String)> {
        self.user_messages
            .iter()
            .flat_map(|message| message.rules().into_iter().map(move |rule| (message.at.unit, rule)))
    }
}

/// Joins the text blocks of one user message into a single item at the position of the first block.
fn join_message_blocks(
    contents: &[(BlockPosition, Arc<EvidenceContent>)],
) -> Vec<(BlockPosition, Arc<EvidenceContent>)> {
    let message_text = |content: &Arc<EvidenceContent>| match &**content {
        EvidenceContent::UserMessage(message) if !message.text.is_empty() => Some(message.text.clone()),
        _ => None,
    };
    let texts: Vec<String> = contents.iter().filter_map(|(_, content)| message_text(content)).collect();
    match contents.first() {
        Some((at, _)) if texts.len() > 1 => {
            let (text, is_relayed) = (texts.join("\n\n"), false);
            vec![(*at, Arc::new(EvidenceContent::UserMessage(user_message::UserMessage { text, is_relayed })))]
        }
        _ => contents.to_vec(),
    }
}

/// Returns whether a line is a list item or a heading.
pub(crate) fn is_list_item_or_heading(line: &str) -> bool {
    sentences::strip_bullet(line).len() < line.len()
}

/// Returns the line that identifies a request: the first one of at least three words that is no tag or path
/// and does not end with a colon. Without such a line, returns the whole text.
pub(crate) fn title_line(text: &str) -> &str {
    let is_title = |line: &&str| {
        line.split_whitespace().nth(2).is_some() && !line.ends_with(':') && !line.starts_with(['<', '/', '['])
    };
    text.lines().map(str::trim).find(is_title).unwrap_or(text)
}

/// Returns whether a word, in lower case, does not show what a text is about ("about", "really").
pub(crate) fn is_common_word(word: &str) -> bool {
    EVIDENCE_WORDS.common.binary_search_by(|listed| listed.as_str().cmp(word)).is_ok()
}

/// Returns the last sentence that the author of a text wrote, or its last line.
pub(crate) fn last_sentence(text: &str) -> &str {
    let sentences = sentences::split_sentences(text);
    sentences.last().map_or_else(|| text.trim_end().rsplit('\n').next().unwrap_or(text), |sentence| sentence.text)
}

/// Returns the last whole sentences that the author of a text wrote one after the other, of at most `most` bytes if there
/// is more than one.
pub(crate) fn last_sentences(text: &str, most: usize) -> &str {
    let sentences = sentences::split_sentences(text);
    let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let Some(last) = sentences.last() else { return last_sentence(text) };
    let end = offset(last.text) + last.text.len();
    let starts = sentences.iter().rev().map(|sentence| offset(sentence.text));
    let start = starts.take_while(|start| end - start <= most).last();
    text[start.unwrap_or_else(|| offset(last.text))..end].trim()
}

/// Returns whether a word of a request says nothing about its topic ("the", "about").
pub(crate) fn is_filler_word(word: &str) -> bool {
    EVIDENCE_WORDS.fillers.iter().any(|filler| filler == word)
}

/// Returns whether a text asks a question.
pub(crate) fn has_question(text: &str) -> bool {
    text.lines().any(is_question) || sentences::split_sentences(text).iter().any(|sentence| is_question(sentence.text))
}

/// Returns whether a text has words that state a lasting rule ("always", "must not"). "I have always loved horses" has such
/// a word, but it tells about somebody and wishes nothing; "it must have been hard" is a guess.
pub(crate) fn has_rule(text: &str) -> bool {
    let cues = Cues::scan(text);
    cues.has(Cue::Rule) && (cues.has(Cue::Wish) || !cues.has(Cue::Statement))
}

/// Returns whether a sentence of a person forbids, demands or limits something for longer than one task: it begins with
/// such a word ("don't push"), or says that it lasts ("always").
pub(crate) fn is_lasting_rule(sentence: &str) -> bool {
    let bare = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
    let opening = bare.split_once(' ').filter(|(first, _)| {
        EVIDENCE_WORDS.polite_openings.iter().any(|word| first.trim_end_matches(',').eq_ignore_ascii_case(word))
    });
    let imperative = opening.map_or(bare, |(_, rest)| rest);
    Cues::scan(imperative).starts_with(Cue::Rule) || Cues::scan(sentence).has(Cue::Lasting)
}

/// Scores a piece of a person's message for comparison with its other pieces: rules, requests and questions score higher
/// than the rest.
pub(crate) fn score_user_text(text: &str) -> f32 {
    let cues = Cues::scan(text);
    let worth = match (has_rule(text), cues.has(Cue::Wish)) {
        (true, _) => weights::USER_RULE_SCORE,
        (false, true) => weights::USER_WISH_SCORE,
        (false, false) => weights::USER_TEXT_SCORE,
    };
    worth + if is_question(text) { weights::USER_QUESTION_SCORE } else { 0.0 }
}

/// Returns the memory files that the system prompt mentions.
fn named_memory_files(transcript: &Transcript<'_>) -> Vec<String> {
    let system = || transcript.preamble.iter().filter(|block| block.kind == BlockKind::System);
    let is_named = |file: &&String| system().any(|block| block.raw().contains(file.as_str()));
    EVIDENCE_WORDS.memory_files.iter().filter(is_named).cloned().collect()
}
