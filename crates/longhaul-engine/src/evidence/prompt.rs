//! What a person's text says, sentence by sentence, read from the text alone.

use super::names;
use super::phrases::{List, TABLE};
use super::prose::{Sentence, sentences};

/// So much of a request is quoted: its opening and its end.
const QUOTED: (usize, usize) = (3_000, 1_000);

/// So much says what a request is about.
const GIST: usize = 400;

/// What a text under a person's name says.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    /// The text, cut in its middle where it is very long.
    pub(super) text: String,
    pub(super) sentences: Vec<Utterance>,
    pub(super) names: Vec<u64>,
}

/// A sentence and what it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Utterance {
    pub(super) text: String,
    pub(super) kind: Speech,
}

/// What a sentence of a person is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    /// Goes on holding.
    Rule,
    /// Holds for once.
    OnceOnly,
    /// Takes something back.
    Reversal,
    /// Wants to know something.
    Question,
    /// Wants something done in place of what is being done.
    Replacement,
    /// Says that what was reported is not so.
    Denial,
    /// Wants something done, in words that say so.
    Demand,
    /// Anything else: a report, a wish without a word for it.
    Statement,
    /// All is well.
    Thanks,
    /// Yes.
    Yes,
    /// Go on with what was begun.
    Resume,
}

impl Spoken {
    pub(super) fn of(text: &str) -> Self {
        let text = without_host(text);
        let mut spoken = Vec::new();
        for sentence in sentences(&text) {
            hear(sentence, &mut spoken);
        }
        Self { text: quote(text.trim()), sentences: spoken, names: names::names(&text) }
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        let words: usize = self.sentences.iter().map(|said| said.text.len() + size_of::<Utterance>()).sum();
        self.text.len() + words + self.names.len() * 8
    }
}

/// What this person wants, in a few words.
pub(super) fn gist<'a>(said: impl Iterator<Item = &'a Utterance>) -> String {
    let mut gist = String::new();
    let wants = |kind| {
        matches!(
            kind,
            Speech::Demand | Speech::Statement | Speech::Question | Speech::Denial | Speech::Replacement
        )
    };
    for said in said.filter(|said| wants(said.kind)) {
        if !gist.is_empty() && gist.len() + said.text.len() > GIST {
            break;
        }
        if !gist.is_empty() {
            gist.push(' ');
        }
        gist.push_str(&said.text);
    }
    gist
}

fn hear(sentence: Sentence<'_>, spoken: &mut Vec<Utterance>) {
    let marks = TABLE.marks(sentence.text);
    let takes_back =
        (marks.begins(List::Reversal) || marks.has(List::ReversalAnywhere) || marks.is(List::ReversalWhole))
            && !sentence.is_question();
    if takes_back && !marks.acknowledges {
        let text = sentence.on_one_line().into_owned();
        spoken.push(Utterance { text, kind: Speech::Reversal });
        // "Never mind, add the tests": what comes behind the comma is a sentence of its own.
        let rest = &sentence.text[marks.reversal_end..];
        let behind = rest.trim_start_matches([',', ';', ':', '.', '-', '–', '—', '，', '、', ' ']);
        if marks.reversal_end > 0
            && rest.starts_with([',', ';', ':', '-', '–', '—', '，', '、'])
            && behind.contains([' ', '，'])
        {
            hear(Sentence { text: behind, ..sentence }, spoken);
        }
        return;
    }
    let replaces = marks.has(List::Instead)
        && !marks.has(List::InsteadOf)
        && (marks.begins(List::Instead) || marks.begins(List::ReplaceVerb));
    let demands = marks.begins(List::Imperative) || marks.has(List::Wish) || marks.has(List::AsksForDeed);
    let kind = if marks.acknowledges {
        match (marks.has(List::Resume), marks.has(List::Closing)) {
            (true, _) => Speech::Resume,
            (false, true) => Speech::Thanks,
            (false, false) => Speech::Yes,
        }
    } else if marks.begins(List::Resume) {
        Speech::Resume
    } else if marks.stands && !sentence.is_question() {
        if marks.has(List::Once) { Speech::OnceOnly } else { Speech::Rule }
    } else if marks.has(List::Once) && marks.has(List::Permission) && !sentence.is_question() {
        Speech::OnceOnly
    } else if sentence.is_question() && !marks.has(List::AsksForDeed) {
        Speech::Question
    } else if replaces {
        Speech::Replacement
    } else if marks.begins(List::NotDone) {
        Speech::Denial
    } else if demands {
        Speech::Demand
    } else {
        Speech::Statement
    };
    spoken.push(Utterance { text: sentence.on_one_line().into_owned(), kind });
}

/// A text without the sections in which the program around the model speaks.
fn without_host(text: &str) -> std::borrow::Cow<'_, str> {
    let mut kept = std::borrow::Cow::Borrowed(text);
    for tag in &TABLE.host_tags {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        if !kept.contains(&open) {
            continue;
        }
        let mut rest: &str = &kept;
        let mut own = String::with_capacity(rest.len());
        while let Some(start) = rest.find(&open) {
            let Some(length) = rest[start..].find(&close) else { break };
            own.push_str(&rest[..start]);
            rest = &rest[start + length + close.len()..];
        }
        own.push_str(rest);
        kept = own.into();
    }
    kept
}

/// A text, cut in its middle at the ends of lines where it is very long.
fn quote(text: &str) -> String {
    if text.len() <= QUOTED.0 + QUOTED.1 {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(QUOTED.0)];
    let end = &text[text.ceil_char_boundary(text.len() - QUOTED.1)..];
    let start = start.rfind('\n').filter(|at| *at > QUOTED.0 / 2).map_or(start, |at| &start[..at]);
    let end = end.find('\n').filter(|at| *at < QUOTED.1 / 2).map_or(end, |at| &end[at + 1..]);
    format!("{start}\n…\n{end}")
}
