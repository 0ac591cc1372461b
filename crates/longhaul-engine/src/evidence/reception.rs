//! What a person's message says of the answer before it: that it is right, that it is wrong, or that something else is
//! wanted now.

use super::sentences::is_question;
use super::weights::{MIN_MESSAGE_CHARS, REJECTION_BYTES};
use super::words::{Cue, Cues, EVIDENCE_WORDS};
use crate::truncate::first_bytes;

/// What a message says of the answer before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reception {
    Accepts,
    Rejects,
    Supersedes,
}

/// Returns what the beginning of a message says of the answer before it; `None` if it says nothing.
pub(crate) fn reception(message: &str) -> Option<Reception> {
    let opening = first_bytes(message.trim_start(), REJECTION_BYTES);
    let cues = Cues::scan(opening);
    match () {
        () if cues.has(Cue::Rejection) => Some(Reception::Rejects),
        () if cues.starts_with(Cue::Supersession) => Some(Reception::Supersedes),
        () if cues.starts_with(Cue::Acceptance) => Some(Reception::Accepts),
        () => None,
    }
}

/// Returns whether a message has no content of its own ("continue", "thanks!"), so that it belongs to the request before
/// it.
pub(crate) fn is_small_talk(message: &str) -> bool {
    let bare = message.trim();
    // A command that is typed to the host program, such as `/theme`.
    if bare.starts_with('/') && !bare.contains(char::is_whitespace) && !bare[1..].contains('/') {
        return true;
    }
    if bare.chars().count() >= MIN_MESSAGE_CHARS || is_question(bare) || bare.chars().any(|c| c.is_ascii_digit()) {
        return false;
    }
    let cues = Cues::scan(bare);
    let words = bare.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty());
    let is_filler = |word: &str| EVIDENCE_WORDS.go_on.iter().any(|listed| listed.eq_ignore_ascii_case(word));
    !cues.has(Cue::Rejection) && !cues.has(Cue::Rule) && words.into_iter().all(is_filler)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_of_a_message_tell_what_became_of_the_answer() {
        for (message, expected) in [
            ("thanks, that works. Now the tests", Some(Reception::Accepts)),
            ("Perfect! Next: the docs", Some(Reception::Accepts)),
            ("no, that's not it", Some(Reception::Rejects)),
            ("still fails with the same error", Some(Reception::Rejects)),
            ("forget it, use a queue instead", Some(Reception::Supersedes)),
            ("Add a test for the parser", None),
        ] {
            assert_eq!(reception(message), expected, "{message}");
        }
    }

    #[test]
    fn small_talk_has_no_content() {
        for message in ["continue", "ok, go on", "Yes please", "thanks!", "weiter", "/theme", ""] {
            assert!(is_small_talk(message), "{message}");
        }
        for message in ["use 80", "why?", "fix the tests", "no", "don't push", "the second one"] {
            assert!(!is_small_talk(message), "{message}");
        }
    }
}
