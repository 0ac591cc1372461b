//! An index of the session's texts, in which the claims of a summary are looked up.

use std::collections::HashSet;

use super::claims::{Claim, ClaimKind, parse_number, split_words, strip_line_number};
use super::phrases::on_one_line;
use crate::action::{Outcome, Verb};
use crate::evidence::{Evidence, WordBag};
use crate::summary::render_turns::json_strings;
use crate::transcript::{Block, BlockKind, BlockPosition, BlockRole, Transcript, TurnBlock};
use crate::truncate;

/// The number of bytes at each end of a tool output that are searched for an outcome. Chosen by hand.
const OUTPUT_END_BYTES: usize = 6_000;

/// The maximum length of a path in bytes. A longer one counts as absent. Chosen by hand.
const MAX_PATH_BYTES: usize = 300;

/// The texts of a session: the conversation, and the tool outputs.
pub(super) struct SessionIndex {
    /// The texts of people, the agent and the system prompt, with the tool calls; in lower case, one line for
    /// each.
    conversation: IndexedText,
    /// The tool outputs.
    tool_outputs: IndexedText,
    /// The test counts in all texts, such as `41` and `passed`.
    test_counts: HashSet<(String, String)>,
    /// The words of people, the agent and the system prompt.
    pub(super) conversation_words: WordBag,
    /// The tool uses, oldest first.
    pub(super) tool_uses: Vec<ToolUseRecord>,
}

/// A tool use, prepared for searching.
pub(super) struct ToolUseRecord {
    pub(super) at: BlockPosition,
    /// The name of the tool and its arguments, in lower case on one line.
    pub(super) request: String,
    /// The start and the end of the output, in lower case on one line.
    pub(super) output: String,
    /// Whether the call ran a command.
    pub(super) is_run: bool,
    /// Whether the call changed a file.
    pub(super) is_edit: bool,
    pub(super) result: ToolUseResult,
    pub(super) exit_status: Option<i64>,
}

/// The result of a tool use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolUseResult {
    /// Nothing shows a failure.
    NotFailed,
    /// The call failed.
    Failed,
    /// The editor reported that it did not apply the edit.
    Refused,
}

#[derive(Default)]
struct IndexedText {
    all: String,
    words: HashSet<String>,
    numbers: HashSet<String>,
}

impl SessionIndex {
    pub(super) fn build(transcript: &Transcript<'_>, evidence: &Evidence) -> Self {
        let (mut said, mut shown) = (IndexedText::default(), IndexedText::default());
        let mut topics = WordBag::default();
        for block in &transcript.preamble {
            if block.kind == BlockKind::System {
                said.add(&block.text());
                topics.merge(&WordBag::new(&block.text()));
            }
        }
        for part in (0..transcript.turns.len()).flat_map(|turn| transcript.blocks_of_turn(turn)) {
            let text = block_text(part.block);
            match part.role {
                BlockRole::Result { .. } => shown.add(&text),
                BlockRole::Call(tool_call) => {
                    said.add(&tool_call.tool);
                    said.add(&text);
                    said.add(&json_strings(&text));
                }
                BlockRole::Content => {
                    said.add(&text);
                    topics.merge(&WordBag::new(&text));
                }
            }
        }
        let numbered = |text: &IndexedText| {
            find_test_counts(&text.all).map(|(count, what)| (count.to_owned(), what.to_owned())).collect()
        };
        let mut counts: HashSet<(String, String)> = numbered(&said);
        counts.extend::<HashSet<_>>(numbered(&shown));
        Self {
            test_counts: counts,
            conversation: said,
            tool_outputs: shown,
            conversation_words: topics,
            tool_uses: record_tool_uses(transcript, evidence),
        }
    }

    /// Returns whether the session contains a claim.
    pub(super) fn contains_claim(&self, claim: &Claim<'_>) -> bool {
        let texts = [&self.conversation, &self.tool_outputs];
        let text = claim.text.to_lowercase();
        match claim.kind {
            ClaimKind::Url => texts.iter().any(|source| source.all.contains(&text)),
            ClaimKind::Number => self.has_number(&text),
            ClaimKind::Identifier => texts.iter().any(|source| source.has_word(&text)) || self.has_parts(&text),
            ClaimKind::Path => self.has_path(&text),
            ClaimKind::Code => {
                texts.iter().any(|source| source.all.contains(&on_one_line(&text))) || self.has_words(&text)
            }
        }
    }

    /// Returns whether any text has a test count with this word: `41 passed`.
    pub(super) fn has_counts_of(&self, what: &str) -> bool {
        self.test_counts.iter().any(|(_, counted)| counted == what)
    }

    /// Returns whether any text has this very count with this word.
    pub(super) fn has_count(&self, count: &str, what: &str) -> bool {
        self.test_counts.contains(&(count.to_owned(), what.to_owned()))
    }

    /// Returns whether the request of a tool use contains a text.
    pub(super) fn is_in_tool_request(&self, text: &str) -> bool {
        let text = on_one_line(&text.to_lowercase());
        self.tool_uses.iter().any(|tool_use| tool_use.request.contains(&text))
    }

    /// Returns whether a tool output contains a text.
    pub(super) fn is_in_tool_output(&self, text: &str) -> bool {
        self.tool_outputs.all.contains(&on_one_line(&text.to_lowercase()))
    }

    fn has_number(&self, word: &str) -> bool {
        let plain = word.replace(',', "");
        let mut digits = plain.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        digits
            .all(|digits| [&self.conversation, &self.tool_outputs].iter().any(|source| source.numbers.contains(digits)))
    }

    fn has_words(&self, text: &str) -> bool {
        split_words(text).filter(|word| word.len() > 2).all(|word| {
            parse_number(word).is_some()
                || self.has_parts(word)
                || [&self.conversation, &self.tool_outputs].iter().any(|source| source.has_word(word))
        })
    }

    /// Returns whether the session contains every part of a name. A class and its method need not be
    /// adjacent.
    fn has_parts(&self, name: &str) -> bool {
        let mut parts = name.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|part| part.len() > 1).peekable();
        let several = name.contains(['.', ':', '-', '/', '@']);
        several
            && parts.peek().is_some()
            && parts.all(|part| {
                [&self.conversation, &self.tool_outputs]
                    .iter()
                    .any(|source| source.words.contains(part) || source.numbers.contains(part))
            })
    }

    /// Returns whether the session contains a path: as a whole, or as a folder and a path below it.
    fn has_path(&self, path: &str) -> bool {
        let file = path.split("::").next().unwrap_or(path);
        let path = strip_line_number(file).trim_start_matches("./").trim_end_matches('/');
        let texts = [&self.conversation, &self.tool_outputs];
        let has = |path: &str| texts.iter().any(|source| source.all.contains(path));
        if has(path) || path.len() > MAX_PATH_BYTES {
            return path.len() <= MAX_PATH_BYTES;
        }
        let joints = path.match_indices('/').map(|(at, _)| path.split_at(at));
        joints.filter(|(folder, _)| folder.len() > 1).any(|(folder, rest)| {
            let rest = rest.trim_start_matches('/');
            has(folder) && texts.iter().any(|source| source.has_standalone(rest))
        })
    }
}

impl IndexedText {
    fn add(&mut self, text: &str) {
        let text = on_one_line(&text.to_lowercase());
        for word in split_words(&text) {
            for part in word.split(['/', '\\', '.', ':', '-', '@', '+']).filter(|part| part.len() > 1) {
                if !self.words.contains(part) {
                    self.words.insert(part.to_owned());
                }
            }
            if !self.words.contains(word) {
                self.words.insert(word.to_owned());
            }
        }
        for digits in text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
            if !self.numbers.contains(digits) {
                self.numbers.insert(digits.to_owned());
            }
        }
        // Digits in groups of three are one number, also where letters touch them, as in `1,297\nThen`.
        for digits in text.split(|c: char| !c.is_ascii_digit() && c != ',').map(|digits| digits.trim_matches(',')) {
            let mut groups = digits.split(',');
            let first = groups.next().unwrap_or_default();
            if digits.contains(',') && (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3) {
                self.numbers.insert(digits.replace(',', ""));
            }
        }
        self.all.push_str(&text);
        self.all.push('\n');
    }

    fn has_word(&self, word: &str) -> bool {
        self.words.contains(word) || self.all.contains(word)
    }

    /// Returns whether a name occurs by itself, not as the end of a longer path.
    fn has_standalone(&self, name: &str) -> bool {
        let is_free = |(at, _): &(usize, &str)| {
            let before = self.all[..*at].chars().next_back();
            !before.is_some_and(|c| c == '/' || c.is_alphanumeric() || c == '_')
        };
        !name.is_empty() && self.all.match_indices(name).any(|found| is_free(&found))
    }
}

/// Returns the test counts in a text in lower case: `41 passed`, `3 failed`.
pub(super) fn find_test_counts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    const WORDS: [&str; 6] = ["passed", "failed", "errors", "skipped", "passing", "failing"];
    let mut before = "";
    split_words(text).filter_map(move |word| {
        let count = std::mem::replace(&mut before, word);
        let is_count = WORDS.contains(&word) && parse_number(count).is_some_and(|number| number > 0);
        is_count.then_some((count, word))
    })
}

/// Returns the text of a block, or all its strings if the kind of block is unknown.
fn block_text(block: &Block<'_>) -> String {
    match (block.text, block.kind) {
        (Some(_), _) => block.text().into_owned(),
        (None, BlockKind::Image(_) | BlockKind::Audio) => String::new(),
        (None, _) => json_strings(block.raw()),
    }
}

fn record_tool_uses(transcript: &Transcript<'_>, evidence: &Evidence) -> Vec<ToolUseRecord> {
    let done = evidence.tool_uses.iter().filter_map(|read| Some((read, read.tool_use()?)));
    done.map(|(read, tool_use)| {
        let (mut asked, mut shown) = (format!("{} {} ", tool_use.action.tool, tool_use.request), String::new());
        let own = tool_call_parts(transcript, read.at);
        for part in own {
            match part.role {
                BlockRole::Call(_) => asked.push_str(&json_strings(&part.block.text())),
                _ => shown.push_str(&head_and_tail(part.block)),
            }
        }
        let end = match tool_use.action.outcome {
            _ if tool_use.is_refused => ToolUseResult::Refused,
            Outcome::Failed => ToolUseResult::Failed,
            _ => ToolUseResult::NotFailed,
        };
        let plain = |text: &str| on_one_line(&text.to_lowercase());
        let (asked, shown) = (plain(&asked), plain(&shown));
        ToolUseRecord {
            at: read.at,
            request: asked,
            output: shown,
            is_run: tool_use.action.verb == Verb::Run,
            is_edit: tool_use.is_edit || !tool_use.changes.is_empty(),
            result: end,
            exit_status: tool_use.action.exit_status,
        }
    })
    .collect()
}

/// Returns the call and the results of the tool call that contains this block.
fn tool_call_parts<'t, 'b>(transcript: &'t Transcript<'b>, at: BlockPosition) -> Vec<TurnBlock<'t, 'b>> {
    let parts: Vec<TurnBlock<'t, 'b>> = transcript.blocks_of_turn(at.unit).collect();
    let own = parts.iter().find(|part| part.position == at).and_then(|part| part.role.tool_call());
    let Some(own) = own else { return Vec::new() };
    parts
        .into_iter()
        .filter(|part| part.role.tool_call().is_some_and(|tool_call| std::ptr::eq(tool_call, own)))
        .collect()
}

fn head_and_tail(block: &Block<'_>) -> String {
    let text = block.text();
    if text.len() <= 2 * OUTPUT_END_BYTES {
        return text.into_owned();
    }
    format!("{}\n{}", truncate::first_bytes(&text, OUTPUT_END_BYTES), truncate::last_bytes(&text, OUTPUT_END_BYTES))
}
