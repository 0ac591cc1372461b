//! Forms of what was said and told.

use super::{Piece, Writer};
use crate::checkpoint::pieces::Excerpts;
use crate::checkpoint::sketch::{ANSWERED, Stands};
use crate::evidence::{Read, Told, title, weigh, weigh_said};
use crate::redact::Redacted;
use crate::texts::{Act, Entry};

/// Characters of the forms of a person's words, and of an answer.
const SAID: [usize; 5] = [160, 500, 1_500, 5_000, 20_000];
/// Of a request that was answered since, no more.
const SAID_BEFORE: usize = 1_500;
/// Of words that a host passed on, no more.
const SAID_RELAYED: usize = 5_000;
/// Sentences that are quoted of one reply in the middle of its work.
const SENTENCES: usize = 3;
const ANSWER: [usize; 4] = [180, 500, 1_400, 4_000];

impl Writer<'_, '_> {
    /// Forms of a person's words, with what fetches them where they are cut.
    pub(super) fn said(&mut self, read: &Read, stands: Stands) -> Vec<Piece> {
        let handle = self.handle(read);
        // Of work that was handed in, its title is enough.
        if stands == Stands::HandedIn {
            let title = self.line(title(read.words()), SAID[0]);
            return vec![Piece::Item(title.and_own(" […] (submitted)").and_handle(handle.as_deref()))];
        }
        let whole = self.redact(read.words());
        let words = self.later.new_in(&whole, read.at.unit);
        let excerpts = Excerpts::of(&words, weigh_said);
        let form = |most: usize| {
            let short = excerpts.within(most).without_blank_runs();
            let cut = short != whole.without_blank_runs();
            let state = Redacted::own(if stands == Stands::Answered { ANSWERED } else { "" });
            Piece::Item(state.and(&short).and_handle(handle.as_deref().filter(|_| cut)))
        };
        let longest = if stands == Stands::Open { usize::MAX } else { SAID_BEFORE };
        SAID.into_iter().filter(|most| *most <= longest).map(form).collect()
    }

    pub(super) fn heard(&mut self, read: &Read) -> Vec<Piece> {
        let words = self.redact(read.words());
        let excerpts = Excerpts::of(&words, weigh_said);
        let entry = |most| Entry::new(Act::Message, &Redacted::own(""), &excerpts.within(most));
        [160, 500].map(|most| Piece::Entry(None, entry(most).kept_as(self.handle(read)))).into()
    }

    /// Forms of words that a host passed on, with where they stood.
    pub(super) fn relayed(&mut self, read: &Read) -> Vec<Piece> {
        let words = self.redact(read.words());
        let excerpts = Excerpts::of(&words, weigh_said);
        let entry =
            |most| Entry::new(Act::Message, &Redacted::own("passed on by the host"), &excerpts.within(most));
        let forms = SAID.into_iter().filter(|most| *most <= SAID_RELAYED);
        forms.map(|most| Piece::Entry(None, entry(most).kept_as(self.handle(read)))).collect()
    }

    pub(super) fn answer(&mut self, read: &Read, request: Option<&Read>) -> Vec<Piece> {
        let words = read.did().map_or_else(|| read.words().to_owned(), |did| did.verdict.lines.join("\n"));
        let words = self.redact(&words).with("**", "");
        let asked = request.map(|request| title(request.words())).filter(|asked| !asked.is_empty());
        let target = match asked {
            Some(asked) => Redacted::own("to “").and(&self.line(asked, 60)).and_own("”"),
            None => Redacted::own(""),
        };
        let excerpts = Excerpts::of(&words, |piece: &str| 1.0 + weigh(piece).0);
        let form = |most: usize| {
            let words = excerpts.within(most).without_blank_lines();
            let entry = Entry::new(Act::Answer, &target, &words);
            Piece::Entry(None, entry.kept_as(self.handle(read)))
        };
        ANSWER.map(form).into()
    }

    /// The best sentence, the two best, and so on, each time in their order.
    pub(super) fn notes(&mut self, read: &Read, places: &[usize]) -> Vec<Piece> {
        let Some(Told { notes, .. }) = read.told() else { return Vec::new() };
        let mut forms = Vec::new();
        for count in 1..=places.len().min(SENTENCES) {
            let mut chosen = places[..count].to_vec();
            chosen.sort_unstable();
            let mut words = Redacted::own("");
            let mut before = None;
            for place in chosen {
                // Sentences that did not stand together do not read as if they had.
                let gap = match before {
                    None => "",
                    Some(at) if at + 1 == notes[place].at => " ",
                    Some(_) => " […] ",
                };
                words = words.and_own(gap).and(&self.line(&notes[place].text, 420));
                before = Some(notes[place].at);
            }
            let entry = Entry::new(Act::Noted, &Redacted::own(""), &words).kept_as(self.handle(read));
            forms.push(Piece::Entry(None, entry));
        }
        forms
    }

    pub(super) fn question(&mut self, read: &Read) -> Vec<Piece> {
        let Some((question, answer)) = read.did().and_then(|did| did.question.as_ref()) else {
            return Vec::new();
        };
        let question = self.line(question, 300);
        let answer = match answer {
            Some(answer) => Redacted::own(" — Answer: ").and(&self.line(answer, 400)),
            None => Redacted::own(" — not answered yet"),
        };
        vec![Piece::Item(question.and(&answer).and_handle(self.handle(read).as_deref()))]
    }
}
