//! The table of words (`words.toml`), and which of its lists a sentence has words of.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;

/// What the words of a list say of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cue {
    Rule,
    Wish,
    Intention,
    Finding,
    Cause,
    Result,
    Choice,
    Success,
    Hedge,
    Denial,
    Open,
    Leaning,
    Correcting,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) host_tags: Vec<String>,
    pub(super) own_tags: Vec<String>,
    pub(super) abbreviations: Vec<String>,
    pub(super) common: Vec<String>,
    pub(super) limits: Vec<String>,
    pub(super) refusals: Vec<String>,
    pub(super) undone: Vec<String>,
    pub(super) complaints: Vec<String>,
    pub(super) around: Vec<String>,
    pub(super) asides: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) reassurances: Vec<String>,
    pub(super) fillers: Vec<String>,
    pub(super) finishing_tools: Vec<String>,
    pub(super) asking_tools: Vec<String>,
    pub(super) memory_files: Vec<String>,
    pub(super) telling_fields: Vec<String>,
    cues: BTreeMap<Cue, Vec<String>>,
}

table! {
    pub(super) static TABLE: Table = "words.toml";
}

/// Whether one of these stands in a text.
pub(super) fn has_any(text: &str, words: &[String]) -> bool {
    words.iter().any(|words| text.contains(words.as_str()))
}

/// The cues of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cues {
    has: u16,
    begins: u16,
    opens: u16,
}

impl Cues {
    /// Whether a word of the list is anywhere in it.
    pub(super) fn has(self, cue: Cue) -> bool {
        self.has & (1 << cue as u8) != 0
    }

    /// Whether it opens with one, a short word or two before it apart.
    pub(super) fn begins(self, cue: Cue) -> bool {
        self.begins & (1 << cue as u8) != 0
    }

    /// Whether its very first word is one.
    pub(super) fn opens(self, cue: Cue) -> bool {
        self.opens & (1 << cue as u8) != 0
    }

    pub(super) fn of(text: &str) -> Self {
        const OPENING: usize = 24;
        let (finder, cues) = &*FINDER;
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
                if hit.start() <= OPENING {
                    found.begins |= cue;
                }
                if hit.start() == 0 {
                    found.opens |= cue;
                }
            }
        }
        found
    }
}

/// One automaton for all lists, and the list of each of its phrases as a bit.
static FINDER: LazyLock<(AhoCorasick, Vec<u16>)> = LazyLock::new(|| {
    let phrases = || TABLE.cues.iter().flat_map(|(cue, list)| list.iter().map(move |phrase| (*cue, phrase)));
    let curly =
        phrases().filter(|(_, phrase)| phrase.contains('\'')).map(|(cue, p)| (cue, p.replace('\'', "’")));
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
        let cues = Cues::of("I’ll never use `musty`; le test échoue parce que le port manque");
        assert!(cues.has(Cue::Rule) && cues.begins(Cue::Intention) && cues.has(Cue::Finding));
        assert!(!Cues::of("the musty forever letters").has(Cue::Rule));
        assert!(Cues::of("今后不要修改这个文件").has(Cue::Rule));
    }
}
