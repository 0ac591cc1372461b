//! Evidence in the agent's text: the text itself, its key sentences, and task lists.

use super::sentence_fingerprint::{self, SentenceFingerprint};
use super::sentences::{Sentence, SentencePlace, is_question, split_sentences};
use super::tasks::{self, Task};
use super::weights::{self, MAX_KEY_SENTENCES};
use super::words::{Cue, Cues, EVIDENCE_WORDS};

/// The evidence in one text of the agent.
#[derive(Debug, Default)]
pub(crate) struct AssistantText {
    /// The text, without the text call that it may end with.
    pub(crate) text: String,
    /// Whether the agent submits its finished work with that text call.
    pub(crate) submits_work: bool,
    /// The sentences that state causes, results and decisions.
    pub(crate) key_sentences: Vec<KeySentence>,
    pub(super) tasks: Vec<Task>,
}

/// A sentence that states a cause, a result or a decision.
#[derive(Debug)]
pub(crate) struct KeySentence {
    pub(crate) text: String,
    /// The index of the sentence among those of the reply.
    pub(crate) index: usize,
    pub(crate) score: f32,
    pub(crate) fingerprint: SentenceFingerprint,
    /// Whether the sentence states a cause or a finding, and not only a guess.
    pub(crate) states_finding: bool,
    /// Whether the sentence names the root of a problem.
    pub(crate) names_root: bool,
    /// Whether the sentence claims success. Such claims are ignored, because the results of runs are better
    /// evidence.
    pub(crate) claims_success: bool,
}

impl AssistantText {
    /// Parses a reply. The text call that it ends with starts at byte `call`.
    pub(super) fn parse(whole: &str, call: usize) -> Self {
        let (text, call) = whole.split_at(call);
        let tool = |tool: &String| call.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == tool);
        let hands_in = EVIDENCE_WORDS.finishing_tools.iter().any(tool);
        let said = split_sentences(text);
        let mut notes: Vec<KeySentence> = (0..said.len()).filter_map(|at| key_sentence(&said, at)).collect();
        if notes.len() > MAX_KEY_SENTENCES {
            let mut weights: Vec<f32> = notes.iter().map(|note| note.score).collect();
            weights.sort_by(|a, b| b.total_cmp(a));
            let least = weights[MAX_KEY_SENTENCES - 1];
            notes.retain(|note| note.score >= least);
            notes.truncate(MAX_KEY_SENTENCES);
        }
        Self {
            text: text.trim().to_owned(),
            submits_work: hands_in,
            key_sentences: notes,
            tasks: tasks::parse_check_boxes(text),
        }
    }

    /// Returns the approximate memory of the evidence, in bytes.
    pub(super) fn size(&self) -> usize {
        let notes: usize = self.key_sentences.iter().map(|note| note.text.len() + size_of::<KeySentence>()).sum();
        self.text.len() + notes + self.tasks.iter().map(|item| item.text.len()).sum::<usize>()
    }
}

/// Returns a sentence if its score is high enough, together with the next one if that starts by correcting it
/// ("however", "but").
fn key_sentence(said: &[Sentence<'_>], at: usize) -> Option<KeySentence> {
    let sentence = said[at];
    if sentence.place == SentencePlace::Heading || sentence.ends_with_colon() || is_question(sentence.text) {
        return None;
    }
    let text = sentence.on_one_line();
    // A sentence that is only a command adds nothing to the tool call that runs it.
    let is_code = text.starts_with('`') && text.ends_with('`') && text.matches('`').count() == 2;
    if is_code {
        return None;
    }
    let (weight, claims_success) = score_sentence(&text);
    if weight < weights::MIN_SENTENCE_SCORE {
        return None;
    }
    // "But wait, let me check:" corrects nothing yet.
    let corrects = |next: &&Sentence<'_>| {
        let cues = Cues::scan(next.text);
        next.place == sentence.place
            && !is_question(next.text)
            && !next.ends_with_colon()
            && !cues.has_near_start(Cue::Intention)
            && cues.starts_with(Cue::Correction)
    };
    let text = match said.get(at + 1).filter(corrects) {
        Some(next) => format!("{text} {}", next.on_one_line()),
        None => text.into_owned(),
    };
    let cues = Cues::scan(&text);
    let states_finding = cues.has(Cue::Finding) && !cues.has(Cue::Hedge);
    let fingerprint = SentenceFingerprint::new(&text);
    let names_root = states_finding && cues.has(Cue::Root);
    Some(KeySentence { index: at, score: weight, states_finding, names_root, claims_success, fingerprint, text })
}

/// Scores how useful a sentence is to somebody who continues the work, and returns whether it claims success.
pub(crate) fn score_sentence(text: &str) -> (f32, bool) {
    let cues = Cues::scan(text);
    let mut weight = 0.0;
    for (cue, worth) in weights::CUE_SCORES {
        weight += if cues.has(cue) { worth } else { 0.0 };
    }
    let quoted = text.matches('`').count() / 2;
    weight += sentence_fingerprint::count_identifiers(text).max(quoted).min(weights::MAX_SCORED_IDENTIFIERS) as f32
        * weights::IDENTIFIER_SCORE;
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).count();
    weight += numbers.min(weights::MAX_SCORED_NUMBERS) as f32 * weights::NUMBER_SCORE;
    weight += match (cues.has_near_start(Cue::Intention), cues.has(Cue::Intention), cues.has(Cue::Finding)) {
        (true, _, false) => weights::INTENTION_SCORE,
        (true, _, true) => weights::INTENTION_WITH_FINDING_SCORE,
        (false, true, false) => weights::LATER_INTENTION_SCORE,
        (false, ..) => 0.0,
    };
    weight += if cues.starts_with(Cue::Dependent) { weights::DEPENDENT_SCORE } else { 0.0 };
    let claims_success = cues.has(Cue::Success);
    weight += if claims_success { weights::SUCCESS_SCORE } else { 0.0 };
    weight += if is_question(text) { weights::QUESTION_SCORE } else { 0.0 };
    weight += if text.trim_end().ends_with([':', '：']) { weights::COLON_SCORE } else { 0.0 };
    weight += if text.chars().count() < weights::MIN_SENTENCE_CHARS { weights::SHORT_SCORE } else { 0.0 };
    (weight, claims_success)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_sentences(text: &str) -> Vec<String> {
        AssistantText::parse(text, text.len()).key_sentences.into_iter().map(|note| note.text).collect()
    }

    #[test]
    fn causes_and_choices_tell_and_intentions_do_not() {
        let text = "Let me look at the file. I see the issue: `parse` uses `__name__` instead of `__qualname__`. \
                    Great! I'll now run the tests. I replaced the call in src/a.rs because the old one dropped the port.";
        assert_eq!(
            key_sentences(text),
            [
                "I see the issue: `parse` uses `__name__` instead of `__qualname__`.",
                "I replaced the call in src/a.rs because the old one dropped the port."
            ]
        );
    }

    #[test]
    fn other_languages_are_heard_too() {
        assert_eq!(
            key_sentences("Ich schaue mir das an. Der Fehler liegt in `port()`, weil die Null fehlt."),
            ["Der Fehler liegt in `port()`, weil die Null fehlt."]
        );
    }
}
