//! What the assistant's text says: its words, the sentences of it that tell something, and lists of tasks.

use super::names::{self, Sense};
use super::prose::{Place, Sentence, is_question, sentences};
use super::todo::{self, Item};
use super::words::{Cue, Cues, TABLE};

/// No reply tells more in the middle of its work.
const MOST: usize = 8;

/// A sentence of less weight than this says nothing that a reader would miss.
const TELLING: f32 = 1.2;

/// What a reply says.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// All of its words, without the call that it may end with.
    pub(crate) text: String,
    /// Whether that call hands in the work.
    pub(crate) hands_in: bool,
    /// The sentences that state causes, results and choices.
    pub(crate) notes: Vec<Note>,
    pub(super) todo: Vec<Item>,
}

/// A sentence that tells something.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) text: String,
    /// Its place among the sentences of the reply.
    pub(crate) at: usize,
    pub(crate) weight: f32,
    pub(crate) sense: Sense,
    /// Whether it says that all is well: runs say that better.
    pub(crate) claims_success: bool,
}

impl Told {
    /// Reads a reply; `call` is where the call begins that it ends with.
    pub(super) fn of(whole: &str, call: usize) -> Self {
        let (text, call) = whole.split_at(call);
        let tool =
            |tool: &String| call.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == tool);
        let hands_in = TABLE.finishing_tools.iter().any(tool);
        let said = sentences(text);
        let mut notes: Vec<Note> = (0..said.len()).filter_map(|at| note(&said, at)).collect();
        if notes.len() > MOST {
            let mut weights: Vec<f32> = notes.iter().map(|note| note.weight).collect();
            weights.sort_by(|a, b| b.total_cmp(a));
            let least = weights[MOST - 1];
            notes.retain(|note| note.weight >= least);
            notes.truncate(MOST);
        }
        Self { text: text.trim().to_owned(), hands_in, notes, todo: todo::checklist(text) }
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        let notes: usize = self.notes.iter().map(|note| note.text.len() + size_of::<Note>()).sum();
        self.text.len() + notes + self.todo.iter().map(|item| item.text.len()).sum::<usize>()
    }
}

/// A sentence of a reply, if it tells something; with the one behind it, if that corrects it.
fn note(said: &[Sentence<'_>], at: usize) -> Option<Note> {
    let sentence = said[at];
    if sentence.place == Place::Heading || sentence.leads() || is_question(sentence.text) {
        return None;
    }
    let text = sentence.on_one_line();
    // A command in a sentence of its own is told by its run.
    let is_code = text.starts_with('`') && text.ends_with('`') && text.matches('`').count() == 2;
    if is_code {
        return None;
    }
    let (weight, claims_success) = weigh(&text);
    if weight < TELLING {
        return None;
    }
    let corrects = |next: &&Sentence<'_>| {
        next.place == sentence.place && !is_question(next.text) && Cues::of(next.text).opens(Cue::Correcting)
    };
    let text = match said.get(at + 1).filter(corrects) {
        Some(next) => format!("{text} {}", next.on_one_line()),
        None => text.into_owned(),
    };
    Some(Note { at, weight, claims_success, sense: Sense::of(&text), text })
}

/// What a sentence is worth to somebody who goes on from it, and whether it claims that all is well. Causes, results and choices
/// count, and names and numbers make them exact; what is about to be done counts little, for it was done or it was not.
pub(crate) fn weigh(text: &str) -> (f32, bool) {
    const WORTH: [(Cue, f32); 6] = [
        (Cue::Finding, 1.5),
        (Cue::Choice, 1.0),
        (Cue::Cause, 0.6),
        (Cue::Result, 0.4),
        (Cue::Open, 1.0),
        (Cue::Hedge, -1.0),
    ];
    let cues = Cues::of(text);
    let mut weight = 0.0;
    for (cue, worth) in WORTH {
        weight += if cues.has(cue) { worth } else { 0.0 };
    }
    let quoted = text.matches('`').count() / 2;
    weight += names::count(text).max(quoted).min(3) as f32 * 0.6;
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).count();
    weight += numbers.min(2) as f32 * 0.3;
    weight -= match (cues.begins(Cue::Intention), cues.has(Cue::Intention), cues.has(Cue::Finding)) {
        (true, _, false) => 3.0,
        (true, _, true) => 1.2,
        (false, true, false) => 0.9,
        (false, ..) => 0.0,
    };
    weight -= if cues.opens(Cue::Leaning) { 0.8 } else { 0.0 };
    let claims_success = cues.has(Cue::Success);
    weight -= if claims_success { 0.8 } else { 0.0 };
    weight -= if is_question(text) { 1.0 } else { 0.0 };
    // What leads to something below it says nothing without it.
    weight -= if text.trim_end().ends_with([':', '：']) { 1.5 } else { 0.0 };
    weight -= if text.chars().count() < 25 { 0.8 } else { 0.0 };
    (weight, claims_success)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(text: &str) -> Vec<String> {
        Told::of(text, text.len()).notes.into_iter().map(|note| note.text).collect()
    }

    #[test]
    fn causes_and_choices_tell_and_intentions_do_not() {
        let text = "Let me look at the file. I see the issue: `parse` uses `__name__` instead of `__qualname__`. \
                    Great! I'll now run the tests. I replaced the call in src/a.rs because the old one dropped the port.";
        assert_eq!(
            notes(text),
            [
                "I see the issue: `parse` uses `__name__` instead of `__qualname__`.",
                "I replaced the call in src/a.rs because the old one dropped the port."
            ]
        );
    }

    #[test]
    fn other_languages_are_heard_too() {
        assert_eq!(
            notes("Ich schaue mir das an. Der Fehler liegt in `port()`, weil die Null fehlt."),
            ["Der Fehler liegt in `port()`, weil die Null fehlt."]
        );
    }
}
