//! What the session says, so that what a summary claims can be looked up.

use std::collections::HashSet;

use super::claims::{Claim, Kind, number, without_line, words};
use super::words::on_one_line;
use crate::action::{Outcome, Verb};
use crate::clip;
use crate::evidence::{Bag, Evidence};
use crate::summary::turns::strings_of;
use crate::transcript::{Block, BlockAt, BlockKind, Part, PartKind, Transcript};

/// How much of a result is looked at for what it said of an outcome, at each end.
const ENDS: usize = 6_000;

/// A longer path is nobody's.
const LONGEST_PATH: usize = 300;

/// What a session says: by people and the agent, and in results.
pub(super) struct Source {
    /// What people and the agent wrote, with calls; in lower case, on one line.
    said: Text,
    /// What tools gave back.
    shown: Text,
    /// What was counted: so many passed, so many failed.
    counts: HashSet<(String, String)>,
    /// What people and the agent are about.
    pub(super) topics: Bag,
    /// What was done, oldest first.
    pub(super) deeds: Vec<Deed>,
}

/// Something that was done.
pub(super) struct Deed {
    pub(super) at: BlockAt,
    /// What was asked for, in lower case on one line.
    pub(super) asked: String,
    /// How its result begins and ends, likewise.
    pub(super) shown: String,
    /// Whether something was run,
    pub(super) ran: bool,
    /// and whether something was changed.
    pub(super) edited: bool,
    pub(super) end: End,
    pub(super) exit: Option<i64>,
}

/// How a deed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing says that it did not work.
    Done,
    /// It failed.
    Failed,
    /// An editor says that it did not do it.
    Refused,
}

#[derive(Default)]
struct Text {
    all: String,
    words: HashSet<String>,
    numbers: HashSet<String>,
}

impl Source {
    pub(super) fn of(transcript: &Transcript<'_>, evidence: &Evidence) -> Self {
        let (mut said, mut shown) = (Text::default(), Text::default());
        let mut topics = Bag::default();
        for block in &transcript.preamble {
            if block.kind == BlockKind::System {
                said.add(&block.text());
                topics.join(&Bag::of(&block.text()));
            }
        }
        for part in (0..transcript.units.len()).flat_map(|unit| transcript.parts_of(unit)) {
            let text = said_in(part.block);
            match part.kind {
                PartKind::Result { .. } => shown.add(&text),
                PartKind::Call(exchange) => {
                    said.add(&exchange.tool);
                    said.add(&text);
                    said.add(&strings_of(&text));
                }
                PartKind::Said => {
                    said.add(&text);
                    topics.join(&Bag::of(&text));
                }
            }
        }
        let numbered = |text: &Text| {
            counted(&text.all).map(|(count, what)| (count.to_owned(), what.to_owned())).collect()
        };
        let mut counts: HashSet<(String, String)> = numbered(&said);
        counts.extend::<HashSet<_>>(numbered(&shown));
        Self { counts, said, shown, topics, deeds: deeds(transcript, evidence) }
    }

    /// Whether the session has what is claimed.
    pub(super) fn has(&self, claim: &Claim<'_>) -> bool {
        let texts = [&self.said, &self.shown];
        let text = claim.text.to_lowercase();
        match claim.kind {
            Kind::Url => texts.iter().any(|source| source.all.contains(&text)),
            Kind::Number => self.has_number(&text),
            Kind::Name => texts.iter().any(|source| source.has_word(&text)) || self.has_parts(&text),
            Kind::Path => self.has_path(&text),
            Kind::Code => {
                texts.iter().any(|source| source.all.contains(&on_one_line(&text))) || self.has_words(&text)
            }
        }
    }

    /// Whether people or the agent said it: what is to be done is not a tool's to say.
    pub(super) fn is_said(&self, claim: &Claim<'_>) -> bool {
        let text = on_one_line(&claim.text.to_lowercase());
        self.said.all.contains(&text) || words(&text).all(|word| self.said.has_word(word))
    }

    /// Whether outputs count something under a word: `41 passed`.
    pub(super) fn counts(&self, what: &str) -> bool {
        self.counts.iter().any(|(_, counted)| counted == what)
    }

    /// Whether anybody counts so many of it.
    pub(super) fn counts_so(&self, count: &str, what: &str) -> bool {
        self.counts.contains(&(count.to_owned(), what.to_owned()))
    }

    /// Whether it is what was asked for somewhere.
    pub(super) fn is_asked(&self, text: &str) -> bool {
        let text = on_one_line(&text.to_lowercase());
        self.deeds.iter().any(|deed| deed.asked.contains(&text))
    }

    /// Whether a tool's result shows it.
    pub(super) fn is_shown(&self, text: &str) -> bool {
        self.shown.all.contains(&on_one_line(&text.to_lowercase()))
    }

    fn has_number(&self, word: &str) -> bool {
        let plain = word.replace(',', "");
        let mut digits = plain.split(|sign: char| !sign.is_ascii_digit()).filter(|digits| !digits.is_empty());
        digits.all(|digits| [&self.said, &self.shown].iter().any(|source| source.numbers.contains(digits)))
    }

    fn has_words(&self, text: &str) -> bool {
        words(text).filter(|word| word.len() > 2).all(|word| {
            number(word).is_some()
                || self.has_parts(word)
                || [&self.said, &self.shown].iter().any(|source| source.has_word(word))
        })
    }

    /// Whether each part of a name is a word of the session: a class and its method need not stand together.
    fn has_parts(&self, name: &str) -> bool {
        let mut parts = name
            .split(|sign: char| !sign.is_alphanumeric() && sign != '_')
            .filter(|part| part.len() > 1)
            .peekable();
        let several = name.contains(['.', ':', '-', '/', '@']);
        several
            && parts.peek().is_some()
            && parts.all(|part| {
                [&self.said, &self.shown]
                    .iter()
                    .any(|source| source.words.contains(part) || source.numbers.contains(part))
            })
    }

    /// Whether the session has a path: whole, or a folder of it and the rest of it below that folder.
    fn has_path(&self, path: &str) -> bool {
        let path = without_line(path).trim_start_matches("./").trim_end_matches('/');
        let texts = [&self.said, &self.shown];
        let has = |path: &str| texts.iter().any(|source| source.all.contains(path));
        if has(path) || path.len() > LONGEST_PATH {
            return path.len() <= LONGEST_PATH;
        }
        let joints = path.match_indices('/').map(|(at, _)| path.split_at(at));
        joints.filter(|(folder, _)| folder.len() > 1).any(|(folder, rest)| {
            let rest = rest.trim_start_matches('/');
            has(folder) && texts.iter().any(|source| source.has_free(rest))
        })
    }
}

impl Text {
    fn add(&mut self, text: &str) {
        let text = on_one_line(&text.to_lowercase());
        for word in words(&text) {
            for part in word.split(['/', '\\', '.', ':', '-', '@', '+']).filter(|part| part.len() > 1) {
                if !self.words.contains(part) {
                    self.words.insert(part.to_owned());
                }
            }
            if !self.words.contains(word) {
                self.words.insert(word.to_owned());
            }
        }
        for digits in text.split(|sign: char| !sign.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
            if !self.numbers.contains(digits) {
                self.numbers.insert(digits.to_owned());
            }
        }
        // Numbers in groups of three are one number.
        for word in words(&text.replace(',', "")).filter(|word| number(word).is_some()) {
            self.numbers.insert(word.trim_matches(|sign: char| !sign.is_ascii_digit()).to_owned());
        }
        self.all.push_str(&text);
        self.all.push('\n');
    }

    fn has_word(&self, word: &str) -> bool {
        self.words.contains(word) || self.all.contains(word)
    }

    /// Whether a name stands somewhere by itself, not as the end of another path.
    fn has_free(&self, name: &str) -> bool {
        let is_free = |(at, _): &(usize, &str)| {
            let before = self.all[..*at].chars().next_back();
            !before.is_some_and(|sign| sign == '/' || sign.is_alphanumeric() || sign == '_')
        };
        !name.is_empty() && self.all.match_indices(name).any(|found| is_free(&found))
    }
}

/// What is counted in a text in lower case: `41 passed`, `3 failed`.
pub(super) fn counted(text: &str) -> impl Iterator<Item = (&str, &str)> {
    const WORDS: [&str; 6] = ["passed", "failed", "errors", "skipped", "passing", "failing"];
    let mut before = "";
    words(text).filter_map(move |word| {
        let count = std::mem::replace(&mut before, word);
        let is_count = WORDS.contains(&word) && number(count).is_some_and(|number| number > 0);
        is_count.then_some((count, word))
    })
}

/// What a block says; of a kind that is not known, all its strings.
fn said_in(block: &Block<'_>) -> String {
    match (block.text, block.kind) {
        (Some(_), _) => block.text().into_owned(),
        (None, BlockKind::Image(_) | BlockKind::Audio) => String::new(),
        (None, _) => strings_of(block.raw()),
    }
}

fn deeds(transcript: &Transcript<'_>, evidence: &Evidence) -> Vec<Deed> {
    let done = evidence.deeds.iter().filter_map(|read| Some((read, read.did()?)));
    done.map(|(read, did)| {
        let (mut asked, mut shown) = (format!("{} {} ", did.action.tool, did.asked), String::new());
        let own = exchange_parts(transcript, read.at);
        for part in own {
            match part.kind {
                PartKind::Call(_) => asked.push_str(&strings_of(&part.block.text())),
                _ => shown.push_str(&ends(part.block)),
            }
        }
        let end = match did.action.outcome {
            _ if did.is_refused => End::Refused,
            Outcome::Failed => End::Failed,
            _ => End::Done,
        };
        let plain = |text: &str| on_one_line(&text.to_lowercase());
        let (asked, shown) = (plain(&asked), plain(&shown));
        Deed {
            at: read.at,
            asked,
            shown,
            ran: did.action.verb == Verb::Run,
            edited: did.is_edit || !did.changes.is_empty(),
            end,
            exit: did.action.exit,
        }
    })
    .collect()
}

/// The call and the results of the exchange that stands there.
fn exchange_parts<'t, 'b>(transcript: &'t Transcript<'b>, at: BlockAt) -> Vec<Part<'t, 'b>> {
    let parts: Vec<Part<'t, 'b>> = transcript.parts_of(at.unit).collect();
    let own = parts.iter().find(|part| part.at == at).and_then(|part| part.kind.exchange());
    let Some(own) = own else { return Vec::new() };
    parts
        .into_iter()
        .filter(|part| part.kind.exchange().is_some_and(|exchange| std::ptr::eq(exchange, own)))
        .collect()
}

fn ends(block: &Block<'_>) -> String {
    let text = block.text();
    if text.len() <= 2 * ENDS {
        return text.into_owned();
    }
    format!("{}\n{}", clip::start_within(&text, ENDS), clip::end_within(&text, ENDS))
}
