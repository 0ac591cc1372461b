//! What a person's text says, sentence by sentence, read from the text alone.

use super::names;
use super::phrases::{List, Marks, TABLE};
use super::prose::{Place, Sentence, sentences};

/// So much of a request is quoted: its opening and its end.
const QUOTED: (usize, usize) = (3_000, 1_000);

/// So much says what a request is about.
const GIST: usize = 400;

/// A rule has no more items below it.
const MOST_ITEMS: usize = 20;

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
    /// Whether it puts one thing in the place of another.
    pub(super) replaces: bool,
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
    /// Says that something is otherwise than it should be.
    Complaint,
    /// Wants what was done undone.
    Undo,
    /// Anything else: a report, a wish without a word for it.
    Statement,
    /// Wants nothing: a title, a command whose output stands below it, what the user is going to do.
    Remark,
    /// All is well.
    Thanks,
    /// Yes.
    Yes,
    /// Go on with what was begun.
    Resume,
}

impl Spoken {
    pub(super) fn of(text: &str) -> Self {
        if TABLE.relayed.iter().any(|opening| text.trim_start().starts_with(opening.as_str())) {
            return Self { names: names::names(text), ..Self::default() };
        }
        let text = without_host(text);
        let mut spoken = Vec::new();
        let sentences = sentences(&text);
        for (at, sentence) in sentences.iter().enumerate() {
            let below = sentences[at + 1..].iter().take_while(|below| below.place == Place::Item);
            let items = if sentence.leads() && sentence.place != Place::Item {
                below.take(MOST_ITEMS).collect()
            } else {
                Vec::new()
            };
            hear(*sentence, &items, &mut spoken);
        }
        Self { text: quote(text.trim()), sentences: spoken, names: names::names(&text) }
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        let words: usize = self.sentences.iter().map(|said| said.text.len() + size_of::<Utterance>()).sum();
        self.text.len() + words + self.names.len() * 8
    }
}

impl Speech {
    /// Whether it wants something of the assistant.
    pub(super) fn wants(self) -> bool {
        matches!(self, Self::Statement) || self.wants_plainly()
    }

    /// Whether it does so without a doubt.
    pub(super) fn wants_plainly(self) -> bool {
        matches!(
            self,
            Self::Demand | Self::Question | Self::Denial | Self::Replacement | Self::Complaint | Self::Undo
        )
    }
}

/// What this person wants, in a few words.
pub(super) fn gist<'a>(said: impl Iterator<Item = &'a Utterance>) -> String {
    let mut gist = String::new();
    for said in said.filter(|said| said.kind.wants()) {
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

/// Takes in a sentence with the items of the list that it leads to.
fn hear(sentence: Sentence<'_>, items: &[&Sentence<'_>], spoken: &mut Vec<Utterance>) {
    let marks = TABLE.marks(sentence.text);
    let replaces = marks.has(List::InPlaceOf) || marks.has(List::RatherThanBefore);
    let takes_back = (marks.begins(List::Reversal)
        || marks.has(List::ReversalAnywhere)
        || marks.is(List::ReversalWhole) && sentence.text.starts_with(char::is_alphanumeric))
        && !sentence.is_question();
    if takes_back && !marks.acknowledges {
        // "Never mind, add the tests": what comes behind the comma is a sentence of its own.
        let (before, rest) = sentence.text.split_at(marks.reversal_end);
        let behind = rest.trim_start_matches([',', ';', ':', '.', '-', '–', '—', '，', '、', ' ']);
        let goes_on = !before.is_empty()
            && rest.starts_with([',', ';', ':', '-', '–', '—', '，', '、'])
            && behind.contains([' ', '，']);
        let own = if goes_on { Sentence { text: before, ..sentence } } else { sentence };
        spoken.push(Utterance { text: own.on_one_line().into_owned(), kind: Speech::Reversal, replaces });
        if goes_on {
            hear(Sentence { text: behind, ..sentence }, items, spoken);
        }
        return;
    }
    let kind = kind(sentence, marks);
    let mut text = sentence.on_one_line().into_owned();
    if matches!(kind, Speech::Rule) && sentence.leads() {
        // Half a rule is none.
        if items.is_empty() {
            return;
        }
        for item in items {
            text.push_str("\n- ");
            text.push_str(&item.on_one_line());
        }
    }
    spoken.push(Utterance { text, kind, replaces });
}

fn kind(sentence: Sentence<'_>, marks: Marks) -> Speech {
    let asks = sentence.is_question();
    let replaces = marks.has(List::Instead)
        && !marks.has(List::InsteadOf)
        && (marks.begins(List::Instead) || marks.begins(List::ReplaceVerb));
    let demands = marks.begins(List::Imperative) || marks.has(List::Wish) || marks.has(List::AsksForDeed);
    if marks.acknowledges {
        return match (marks.has(List::Resume), marks.has(List::Closing)) {
            (true, _) => Speech::Resume,
            (false, true) => Speech::Thanks,
            (false, false) => Speech::Yes,
        };
    }
    let once = marks.has(List::Once) && !asks;
    match () {
        () if sentence.place == Place::Heading
            || shows_a_run(sentence.text)
            || marks.begins(List::OwnPlan) =>
        {
            Speech::Remark
        }
        () if marks.begins(List::Undo) => Speech::Undo,
        () if marks.begins(List::Resume) => Speech::Resume,
        () if once && (marks.stands || marks.has(List::Permission)) => Speech::OnceOnly,
        () if marks.stands
            && !asks
            && (!sentence.leads() || marks.begins(List::Standing) || marks.has(List::StandingAnywhere)) =>
        {
            Speech::Rule
        }
        () if asks && !marks.has(List::AsksForDeed) => Speech::Question,
        () if replaces => Speech::Replacement,
        () if marks.begins(List::NotDone) => Speech::Denial,
        () if marks.begins(List::Thanking) && !marks.has(List::Contrast) && !marks.has(List::AsksForDeed) => {
            Speech::Thanks
        }
        () if marks.begins(List::Conditional) => Speech::Statement,
        () if demands => Speech::Demand,
        () if marks.has(List::Contrast) => Speech::Complaint,
        () => Speech::Statement,
    }
}

/// Whether it only names a command that the user ran, whose output stands below it.
fn shows_a_run(text: &str) -> bool {
    text.starts_with("Ran `") && text.ends_with('`')
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
            // What stood apart does not become one sentence.
            own.push_str("\n\n");
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
