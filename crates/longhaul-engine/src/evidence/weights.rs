//! Every weight of the evidence, in one table: what makes a sentence or a line worth citing, and how much is stored.
//!
//! Units, by the end of the name: `SCORE` is added to the score of a sentence (negative scores are subtracted), `RATE`
//! to that of an output line; both are compared only with scores of the same kind. `BYTES`, `CHARS`, `WORDS`, `LINES`
//! are counts. All were chosen by hand, and the checkpoints made from them were checked with the questions in
//! `bench/handover`.

use super::words::Cue;

/// The key sentences of one reply that are stored.
pub(super) const MAX_KEY_SENTENCES: usize = 8;
/// The score from which a sentence is a key sentence.
pub(super) const MIN_SENTENCE_SCORE: f32 = 1.2;
/// The phrases in a sentence of the agent. Causes, results and decisions help somebody who continues the work.
pub(super) const CUE_SCORES: [(Cue, f32); 6] = [
    (Cue::Finding, 1.5),
    (Cue::Choice, 1.0),
    (Cue::Cause, 0.6),
    (Cue::Result, 0.4),
    (Cue::Open, 1.0),
    (Cue::Hedge, -1.0),
];
/// Each identifier or quoted name, up to the maximum.
pub(super) const IDENTIFIER_SCORE: f32 = 0.6;
pub(super) const MAX_SCORED_IDENTIFIERS: usize = 3;
/// Each number, up to the maximum.
pub(super) const NUMBER_SCORE: f32 = 0.3;
pub(super) const MAX_SCORED_NUMBERS: usize = 2;
/// A sentence that begins with an intention. The tool calls show better what was done.
pub(super) const INTENTION_SCORE: f32 = -3.0;
/// A sentence that begins with an intention and states a finding.
pub(super) const INTENTION_WITH_FINDING_SCORE: f32 = -1.2;
/// A sentence with an intention later in the sentence.
pub(super) const LATER_INTENTION_SCORE: f32 = -0.9;
/// A sentence that depends on the one before it.
pub(super) const DEPENDENT_SCORE: f32 = -0.8;
/// A claim of success, because the results of runs are better evidence.
pub(super) const SUCCESS_SCORE: f32 = -0.8;
pub(super) const QUESTION_SCORE: f32 = -1.0;
/// A sentence that introduces the text below it, without which it is useless.
pub(super) const COLON_SCORE: f32 = -1.5;
/// A sentence below the minimum length.
pub(super) const SHORT_SCORE: f32 = -0.8;
pub(super) const MIN_SENTENCE_CHARS: usize = 25;

/// A piece of a person's message: a rule, a wish, anything else; and in addition a question.
pub(super) const USER_RULE_SCORE: f32 = 3.5;
pub(super) const USER_WISH_SCORE: f32 = 2.5;
pub(super) const USER_TEXT_SCORE: f32 = 1.0;
pub(super) const USER_QUESTION_SCORE: f32 = 1.0;
/// A message of at least this length has content of its own.
pub(super) const MIN_MESSAGE_CHARS: usize = 40;
/// The start of a message in which it may reject the previous answer.
pub(super) const REJECTION_BYTES: usize = 200;

/// A line of at least this length that does not end a sentence was wrapped by an editor, and continues on the next line.
pub(super) const MIN_WRAPPED_LINE_BYTES: usize = 60;
/// Longer pieces are no sentences.
pub(super) const MAX_SENTENCE_BYTES: usize = 1_000;
/// A line is code if more than one in so many bytes is punctuation of code.
pub(super) const CODE_BYTES_PER_SYMBOL: usize = 6;

/// The words of a word bag: identifiers, and other words from the minimum length on.
pub(super) const IDENTIFIER_WEIGHT: f32 = 2.0;
pub(super) const WORD_WEIGHT: f32 = 1.0;
pub(super) const MIN_BAG_WORD_CHARS: usize = 3;
/// The shortest word of a fingerprint, and the shortest identifier that is counted.
pub(super) const MIN_WORD_BYTES: usize = 4;
/// The words of a fingerprint; the rest of the sentence is not read.
pub(super) const MAX_FINGERPRINT_WORDS: usize = 64;
/// A sentence is covered by another one that has this share of its words, in percent.
pub(super) const COVERED_PERCENT: usize = 70;

/// The lines of a result that are quoted, and the length of each; a checkpoint shows less.
pub(super) const MAX_KEY_LINES: usize = 3;
pub(super) const MAX_KEY_LINE_BYTES: usize = 600;
/// An output of at most this size in both units is quoted in full.
pub(super) const SHORT_OUTPUT_BYTES: usize = 300;
pub(super) const SHORT_OUTPUT_LINES: usize = 5;
/// The end of a long output that is read if the call did not fail.
pub(super) const TAIL_BYTES: usize = 3_000;
/// The size up to which the whole output of a failed call is searched for errors.
pub(super) const MAX_SEARCHED_BYTES: usize = 400_000;
/// The last lines that are searched for the totals of a test run.
pub(super) const TOTALS_LINES: usize = 200;
/// The last printed lines from which the most informative one is chosen.
pub(super) const RATED_LINES: usize = 12;
/// The words for an outcome in a line count 1 each, up to this.
pub(super) const MAX_OUTCOME_RATE: usize = 2;
/// An error, which says more than the message that a script ended.
pub(super) const ERROR_RATE: usize = 2;
/// The line that `git commit` prints.
pub(super) const COMMIT_RATE: usize = 3;
/// The errors and the failing tests that are quoted.
pub(super) const MAX_QUOTED_ERRORS: usize = 2;

/// The fields of a JSON result that are stored, and the length of each; a checkpoint shows less.
pub(super) const MAX_FIELDS: usize = 24;
pub(super) const MAX_FIELD_BYTES: usize = 2_000;
/// The named values of one call or result, and the length of each.
pub(super) const MAX_NAMED_VALUES: usize = 40;
pub(super) const MIN_VALUE_BYTES: usize = 2;
pub(super) const MAX_VALUE_BYTES: usize = 80;
/// The stored part of a command; a checkpoint shows less.
pub(super) const MAX_COMMAND_BYTES: usize = 2_000;
/// Both ends of a result, which are searched for a refusal and for the name of the open file.
pub(super) const RESULT_EDGE_BYTES: usize = 600;
/// Both ends of a result, which are searched for a message that the host program passed on.
pub(super) const RELAY_EDGE_BYTES: usize = 64;
/// The tasks of one list, and the stored part of each. A longer list is taken for a document.
pub(super) const MAX_TASKS: usize = 100;
pub(super) const MAX_TASK_CHARS: usize = 2_000;
