//! The word lists in `words.toml`, and the search for their phrases in a sentence.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;

/// A meaning that the phrases of one list give to a sentence. The names are keys of `words.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cue {
    /// A person states a lasting rule.
    Rule,
    /// A rule says that it lasts.
    Lasting,
    /// Somebody tells about people or guesses, though with a word of a rule.
    Statement,
    /// A person states a wish or a correction.
    Wish,
    /// An agent states an intention.
    Intention,
    /// A cause or a finding.
    Finding,
    /// The root of a problem.
    Root,
    /// How something is or works.
    Cause,
    /// An observation or a result.
    Result,
    /// A decision or a change.
    Choice,
    /// A claim of success.
    Success,
    /// A finding is only a guess.
    Hedge,
    /// A person rejects an answer.
    Rejection,
    /// A person accepts an answer.
    Acceptance,
    /// A person wants something else instead.
    Supersession,
    /// How far the work is.
    Open,
    /// The sentence depends on the one before it.
    Dependent,
    /// The sentence corrects the one before it.
    Correction,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvidenceWords {
    /// Tags that are removed with their content, because the host program speaks in them.
    pub(super) host_tags: Vec<String>,
    /// Tags that wrap the speaker's own words.
    pub(super) own_tags: Vec<String>,
    pub(super) abbreviations: Vec<String>,
    /// Words that do not show what a sentence is about, in alphabetical order.
    pub(super) common: Vec<String>,
    /// Words that allow, forbid, limit or postpone something.
    pub(super) limits: Vec<String>,
    /// Starts of lines by which a command says that its main step went through, whatever failed after it.
    pub(super) finished_steps: Vec<String>,
    /// Phrases of editors that changed nothing, in the line with the reason.
    pub(super) refusals: Vec<String>,
    /// Phrases of editors that changed nothing, in other lines.
    pub(super) undone: Vec<String>,
    /// Phrases in the first two lines of a failed edit.
    pub(super) complaints: Vec<String>,
    /// First words of lines that do not show an outcome.
    pub(super) around: Vec<String>,
    /// First words of remarks that agents add to any output.
    pub(super) asides: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Phrases in a line that reports no error, even if it contains the word.
    pub(super) reassurances: Vec<String>,
    /// Words that say nothing about the topic of a request.
    pub(super) fillers: Vec<String>,
    /// Words of messages without content of their own.
    pub(super) go_on: Vec<String>,
    /// Words before the verb of a polite or connected request.
    pub(super) polite_openings: Vec<String>,
    /// Tools with which an agent submits its finished work.
    pub(super) finishing_tools: Vec<String>,
    pub(super) asking_tools: Vec<String>,
    /// Programs that run a script.
    pub(super) interpreters: Vec<String>,
    pub(super) memory_files: Vec<String>,
    /// Last words of JSON field names that report a state, most important first.
    pub(super) telling_fields: Vec<String>,
    /// Last words of JSON field names that identify something.
    pub(super) identity_fields: Vec<String>,
    pub(super) output_starts: Vec<String>,
    pub(super) code_starts: Vec<String>,
    cues: BTreeMap<Cue, Vec<String>>,
}

table! {
    pub(super) static EVIDENCE_WORDS: EvidenceWords = "words.toml";
}

/// Returns whether a text contains one of these phrases. The comparison is exact.
pub(super) fn contains_any(text: &str, words: &[String]) -> bool {
    words.iter().any(|words| text.contains(words.as_str()))
}

/// The cues that a sentence has, as one bit for each [`Cue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cues {
    has: u32,
    has_near_start: u32,
    starts_with: u32,
}

impl Cues {
    /// Returns whether a phrase of the list occurs anywhere in the sentence.
    pub(super) fn has(self, cue: Cue) -> bool {
        self.has & (1 << cue as u8) != 0
    }

    /// Returns whether a phrase of the list starts within the first 24 bytes, so that a short word or two may
    /// precede it.
    pub(super) fn has_near_start(self, cue: Cue) -> bool {
        self.has_near_start & (1 << cue as u8) != 0
    }

    /// Returns whether the sentence starts with a phrase of the list.
    pub(super) fn starts_with(self, cue: Cue) -> bool {
        self.starts_with & (1 << cue as u8) != 0
    }

    pub(super) fn scan(text: &str) -> Self {
        const NEAR_START_BYTES: usize = 24;
        let (finder, cues) = &*CUE_FINDER;
        let mut found = Self::default();
        let joined = |c: char| c.is_alphanumeric() && c < '\u{2E80}';
        for hit in finder.find_overlapping_iter(text) {
            let inside = text[..hit.start()].chars().next_back().is_some_and(joined)
                && text[hit.start()..].chars().next().is_some_and(joined)
                || text[hit.end()..].chars().next().is_some_and(joined)
                    && text[..hit.end()].chars().next_back().is_some_and(joined);
            if !inside {
                let cue = cues[hit.pattern().as_usize()];
                found.has |= cue;
                if hit.start() <= NEAR_START_BYTES {
                    found.has_near_start |= cue;
                }
                if hit.start() == 0 {
                    found.starts_with |= cue;
                }
            }
        }
        found
    }
}

/// One automaton for the phrases of all lists, and for each phrase the bit of its cue.
static CUE_FINDER: LazyLock<(AhoCorasick, Vec<u32>)> = LazyLock::new(|| {
    let phrases = || EVIDENCE_WORDS.cues.iter().flat_map(|(cue, list)| list.iter().map(move |phrase| (*cue, phrase)));
    let curly = phrases().filter(|(_, phrase)| phrase.contains('\'')).map(|(cue, p)| (cue, p.replace('\'', "’")));
    let all: Vec<(Cue, String)> = phrases().map(|(cue, p)| (cue, p.clone())).chain(curly).collect();
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).match_kind(MatchKind::Standard);
    let bits = all.iter().map(|(cue, _)| 1 << *cue as u8).collect();
    let finder = builder.build(all.iter().map(|(_, phrase)| phrase));
    #[expect(clippy::expect_used, reason = "some hundred short phrases are never too many for an automaton")]
    (finder.expect("the phrases make an automaton"), bits)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_the_cues_of_its_whole_words() {
        let cues = Cues::scan("I’ll never use `musty`; le test échoue parce que le port manque");
        assert!(cues.has(Cue::Rule) && cues.has_near_start(Cue::Intention) && cues.has(Cue::Finding));
        assert!(!Cues::scan("the musty forever letters").has(Cue::Rule));
        assert!(Cues::scan("今后不要修改这个文件").has(Cue::Rule));
    }
}
