//! Every number of a checkpoint in two tables: `weights.toml` has what each kind of candidate is worth, and the constants
//! below have how long its texts may be, and from when on something counts.
//!
//! Units, by the end of the name: `FACTOR` multiplies a value, and `DIVISOR` divides. `SHARE` is a part from 0 to 1.
//! `BYTES`, `CHARS`, `TOKENS` and `LINES` are counts. The values are fitted; the constants were chosen by hand, and the
//! checkpoints were checked with the questions and the readers in `bench/handover`.

use serde::Deserialize;

use crate::texts::EntryKind;

/// What each kind of candidate is worth.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    pub(super) state: StateWeights,
    pub(super) log: LogWeights,
    pub(super) carried: CarriedWeights,
    pub(super) summary: SummaryWeights,
    pub(super) age: AgeWeights,
    pub(super) form: FormWeights,
    pub(crate) room: RoomShares,
}

table! {
    static WEIGHTS: Weights = "weights.toml";
}

impl Weights {
    /// Returns the weights of `weights.toml`.
    #[must_use]
    pub fn fitted() -> &'static Self {
        &WEIGHTS
    }
}

/// The lines of the state. The table has the meaning of each field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateWeights {
    pub(super) request: f64,
    pub(super) checks: f64,
    pub(super) tasks: f64,
    pub(super) file: f64,
    pub(super) called: f64,
    pub(super) refused_edit: f64,
    pub(super) values: f64,
    pub(super) finding: f64,
    pub(super) repetition: f64,
    pub(super) last_words: f64,
    pub(super) helper_files: f64,
    pub(super) installed: f64,
    pub(super) carried: f64,
}

/// The entries of the log, and the files. The table has the meaning of each field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogWeights {
    pub(super) request: f64,
    pub(super) settled_request: f64,
    pub(super) answer: f64,
    pub(super) rejected_answer: f64,
    pub(super) replied_answer: f64,
    pub(super) plain_exchange_share: f64,
    pub(super) rule: f64,
    pub(super) task_rule: f64,
    pub(super) unknown_author: f64,
    pub(super) note: f64,
    pub(super) file_change: f64,
    pub(super) scratch_file_created: f64,
    pub(super) undone_change: f64,
    pub(super) told_change: f64,
    pub(super) refused_edit: f64,
    pub(super) refused_then_edited_factor: f64,
    pub(super) failed_command: f64,
    pub(super) command: f64,
    pub(super) earlier_run: f64,
    pub(super) earlier_failure_factor: f64,
    pub(super) earlier_success_factor: f64,
    pub(super) lookup: f64,
    pub(super) question: f64,
    pub(super) changed_file: f64,
    pub(super) scratch_file: f64,
    pub(super) read_file: f64,
    pub(super) found_line: f64,
    pub(super) quoted_line: f64,
}

/// What the previous checkpoint has. The table has the meaning of each field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CarriedWeights {
    pub(super) item: f64,
    pub(super) factor: f64,
    pub(super) paged_message: f64,
}

/// The parts of a model's summary. The table has the meaning of each field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SummaryWeights {
    pub(super) request: f64,
    pub(super) rules: f64,
    pub(super) state: f64,
    pub(super) ongoing: f64,
    pub(super) blocked: f64,
    pub(super) remaining: f64,
    pub(super) values: f64,
    pub(super) decisions: f64,
    pub(super) findings: f64,
    pub(super) unknown: f64,
    pub(super) actions: f64,
    pub(super) questions: f64,
    pub(super) files: f64,
    pub(super) child_factor: f64,
    pub(super) plain_part_share: f64,
}

/// The factors by age. The table has the meaning of each field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgeWeights {
    pub(super) turn: (f64, f64),
    pub(super) exchange: (f64, f64),
    pub(super) carried_action: (f64, f64),
    pub(super) summary_action: (f64, f64),
}

/// The factors by length. The table has the meaning of each field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FormWeights {
    pub(super) entry: [f64; 5],
    pub(super) request: [f64; 5],
}

/// How the room in a requested size is divided. The table has the meaning of each field.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoomShares {
    pub(crate) checkpoint: f64,
    pub(crate) model_summary: f64,
    pub(crate) pruned_tail: f64,
    pub(crate) first_prompt: f64,
    pub(crate) newest_answer: f64,
    pub(crate) unread_results: f64,
}

/// The largest score of a sentence that counts.
pub(super) const MAX_NOTE_SCORE: f32 = 3.0;
/// Quoted lines of a later source are worth more: the factor is 1 plus the index of the source divided by this.
pub(super) const SOURCE_ORDER_DIVISOR: f64 = 100.0;
/// The factor of the oldest node of Earlier Work, and what is added to it for the newest.
pub(super) const NODE_AGE_FACTORS: (f64, f64) = (0.7, 0.3);

/// Returns the factor of item `at` of `of` items, the oldest first.
pub(super) fn age_factor((oldest, newest_bonus): (f64, f64), at: usize, of: usize) -> f64 {
    oldest + newest_bonus * at as f64 / of as f64
}

/// The part of the budget for the topic, and the least part for people's messages beside it.
pub(super) const TOPIC_SHARE: f64 = 0.66;
pub(super) const MIN_PEOPLE_SHARE: f64 = 0.4;
/// The number of candidates that are put into words: `MIN_CANDIDATES`, plus one for every
/// `MIN_TOKENS_PER_CANDIDATE` tokens of the budget. The budget could not pay for more.
pub(super) const MIN_CANDIDATES: usize = 16;
pub(super) const MIN_TOKENS_PER_CANDIDATE: u64 = 14;
/// A word of the topic is found inside longer words from this length on; `db` is not part of `feedback`.
pub(super) const MIN_SUBSTRING_CHARS: usize = 4;

/// A model's summary counts as containing a rule, which depends on its exact words, if one part has at least this share of
/// the rule's words.
pub(super) const MIN_COVERED_RULE_SHARE: f32 = 0.9;
/// The part of the budget for what happened after a model's summary, and for the facts that it lacks. The summary gets
/// the rest.
pub(super) const BEHIND_SUMMARY_SHARE: f64 = 0.3;
/// The rules of people are selected first, in at most this part of the budget.
pub(super) const RULES_SHARE: f64 = 0.5;
/// The facts that a model's summary lacks take at most this part of its own size.
pub(super) const LACKING_SHARE: f64 = 0.15;
/// A model's summary that a later checkpoint by code repeats takes at most this part of the budget.
pub(super) const EARLIER_SUMMARY_SHARE: f64 = 0.6;

/// A message by an unknown author with a lower score from [`crate::evidence::score_user_text`] has no request.
pub(super) const MIN_MESSAGE_SCORE: f32 = 2.0;
/// The files, the checks of one kind, the names of values, and the values of one name that the state lists.
pub(super) const MAX_STATE_FILES: usize = 5;
pub(super) const MAX_CHECKS: usize = 4;
/// The calls with an effect outside the files that the state lists.
pub(super) const MAX_STATE_CALLS: usize = 6;
pub(super) const MAX_VALUE_NAMES: usize = 12;
pub(super) const MAX_VALUES_PER_NAME: usize = 8;
/// The lines of the state.
pub(super) const MAX_STATE_LINES: usize = 15;
/// What was done so often with the same result went round in circles.
pub(super) const MIN_REPEATS: usize = 3;
/// The score from which a sentence of the agent is a finding.
pub(super) const MIN_SENTENCE_FINDING_SCORE: f32 = 1.5;

/// The share of a sentence's words that people used from which it restates their request, and finds nothing. Chosen by
/// hand.
pub(super) const RESTATED_SHARE: f32 = 0.7;

/// What a finding gains if it names the root of a problem.
pub(super) const ROOT_SCORE: f32 = 1.5;
/// What the score of the oldest finding loses against the newest.
pub(super) const FINDING_AGE_LOSS: f32 = 0.4;

/// The names that the lines of read results are searched for: the weight of a name in a request, in a search of the
/// agent and in one of its findings; the number of names, and the shortest one.
pub(super) const REQUEST_NAME_WEIGHT: f64 = 3.0;
pub(super) const SEARCH_NAME_WEIGHT: f64 = 2.0;
pub(super) const FINDING_NAME_WEIGHT: f64 = 1.5;
pub(super) const MAX_FINDING_NAMES: usize = 64;
pub(super) const MIN_FINDING_NAME_BYTES: usize = 4;
/// A line that defines something, the least score of a line, the lines of one source, the longest line, and the part of a
/// result that is searched.
pub(super) const DEFINITION_BONUS: f64 = 1.0;
pub(super) const MIN_LINE_SCORE: f64 = 1.2;
pub(super) const MAX_LINES_PER_SOURCE: usize = 16;
pub(super) const MAX_FINDING_LINE_BYTES: usize = 240;
pub(super) const MAX_READ_BYTES: usize = 200_000;
/// A word tells what a text is about if at most this share of the texts have it, or so many. A later request that has so
/// many of these words of an exchange is about the same.
pub(super) const MAX_TELLING_SHARE: f32 = 0.2;
pub(super) const MIN_TELLING_TEXTS: f32 = 3.0;
pub(super) const MIN_REVISITED_WORDS: usize = 3;
/// The number of later requests that a request is compared with. It bounds the time.
pub(super) const MAX_LATER_REQUESTS: usize = 64;

/// How much a sentence tells: the scale of the result, the largest one, the words that are added to the length of each
/// sentence, so that short ones do not always win, and the factors of names and of words that stay in the request.
pub(super) const RARITY_SCALE: f32 = 6.0;
pub(super) const MAX_RARITY: f32 = 6.0;
pub(super) const RARITY_EXTRA_WORDS: f32 = 4.0;
pub(super) const NAME_FACTOR: f32 = 1.5;
pub(super) const VISIBLE_WORD_FACTOR: f32 = 0.25;
pub(super) const MIN_RARITY_WORD_CHARS: usize = 3;
/// The newer sentences that a sentence is compared with to find repetitions.
pub(super) const RECENT_SENTENCES: usize = 40;
/// An older finding is left out if a newer one has at least this share of its names.
pub(super) const MIN_SAME_NAMES_SHARE: f32 = 0.6;
/// The changes in one call above which they become one candidate.
pub(super) const MAX_SEPARATE_CHANGES: usize = 3;
/// A new file with at most so many changes counts as scratch.
pub(super) const MAX_SCRATCH_CHANGES: usize = 2;
/// The files that are listed though they were only read.
pub(super) const MAX_READ_FILES: usize = 8;
/// The look-ups that one candidate groups, if they have the same answer of at most this length.
pub(super) const MAX_GROUPED_LOOKUPS: usize = 40;
pub(super) const MAX_SHORT_ANSWER_BYTES: usize = 60;
/// The removed and the added lines that are kept for each file.
pub(super) const MAX_NET_LINES: usize = 24;
/// The files with the same name that a path is compared with.
pub(super) const MAX_NAMESAKES: usize = 8;
/// The scripts whose later runs are followed.
pub(super) const MAX_SCRIPTS: usize = 64;
/// A list of at most so many rows keeps its order.
pub(super) const MAX_UNSORTED_ROWS: usize = 3;
/// The shortest name by which the rows of a list are recognized in other calls.
pub(super) const MIN_NAME_BYTES: usize = 4;
/// A folder that is written once for all its files has at least this length, and so many files.
pub(super) const MIN_FOLDER_BYTES: usize = 10;
pub(super) const MIN_FOLDER_FILES: usize = 3;

/// The lengths of texts in their forms, from short to long.
pub(super) const MESSAGE_BYTES: [usize; 5] = [160, 500, 1_500, 5_000, 20_000];
pub(super) const POSSIBLE_USER_MESSAGE_BYTES: [usize; 2] = [160, 500];
/// The number, the word and the quotation marks of an exchange.
pub(super) const EXCHANGE_FRAME_TOKENS: u64 = 6;
/// How much the words for a rule, a wish or a question in a person's text, and those for a cause or a decision in the
/// agent's, add to what it tells.
pub(super) const USER_CUE_FACTOR: f32 = 0.2;
pub(super) const AGENT_CUE_FACTOR: f32 = 0.2;
/// The factor of a sentence that only thanks or praises. Chosen by hand.
pub(super) const COURTESY_FACTOR: f32 = 0.3;
/// The pieces of an exchange that is dealt with or was taken up again later.
pub(super) const MAX_SETTLED_REQUEST_BYTES: usize = 600;
/// The question of the assistant that a request answers.
pub(super) const MAX_ASKED_BACK_CHARS: usize = 120;
pub(super) const MIN_ASKED_BACK_DENSITY: f32 = 0.8;
/// The request in the state.
pub(super) const STATE_REQUEST_BYTES: [usize; 5] = [160, 500, 1_500, 5_000, 20_000];
/// The added and the removed lines of a file in the state, and the length of each.
pub(super) const STATE_FILE_LINES: [(usize, usize); 2] = [(1, 0), (2, 1)];
pub(super) const STATE_CODE_CHARS: usize = 110;
/// The number of calls in the forms of their line; each has its arguments and its outcome in so many characters.
pub(super) const STATE_CALLS: [usize; 3] = [2, 4, 6];
pub(super) const STATE_CALL_CHARS: [usize; 2] = [160, 100];
/// The command of a check; its outcome has twice the length.
pub(super) const CHECK_CHARS: [usize; 2] = [80, 160];
/// The tasks of each kind, the names of values and the values of each, and a quoted sentence of the agent.
pub(super) const STATE_TASKS: [usize; 3] = [1, 4, 12];
pub(super) const STATE_TASK_CHARS: usize = 140;
pub(super) const STATE_VALUES: [(usize, usize); 3] = [(3, 3), (6, 6), (12, 8)];
pub(super) const STATE_WORDS_CHARS: usize = 320;
pub(super) const COMMAND_CHARS: [usize; 2] = [90, 260];
pub(super) const OUTCOME_CHARS: [usize; 2] = [150, 420];
/// The earlier runs of a command with another outcome, and the length of each outcome.
pub(super) const MAX_EARLIER_RUNS: usize = 3;
pub(super) const EARLIER_OUTCOME_CHARS: usize = 110;
pub(super) const FILE_NAMES_CHARS: [usize; 2] = [160, 400];
pub(super) const CARRIED_ITEM_CHARS: [usize; 2] = [160, 600];
/// The removed and the added lines of a change in its forms, and the length of each.
pub(super) const REMOVED_LINES: [usize; 3] = [1, 2, 4];
pub(super) const ADDED_LINES: [usize; 3] = [1, 3, 8];
/// More changed lines have a line of their own each.
pub(super) const MAX_INLINE_LINES: usize = 2;
pub(super) const CHANGED_LINE_CHARS: [usize; 3] = [90, 120, 150];
/// The longest form of a message that a host passed on.
pub(super) const MAX_RELAYED_MESSAGE_BYTES: usize = 5_000;
/// The sentences that are quoted from one text of the agent.
pub(super) const MAX_NOTE_SENTENCES: usize = 3;
/// The longest texts of one form.
pub(super) const MAX_PATH_CHARS: usize = 160;
pub(super) const MAX_COPY_SOURCE_CHARS: usize = 120;
pub(super) const MAX_SCRIPT_CHARS: usize = 80;
pub(super) const MAX_SOURCE_CHARS: usize = 120;
pub(super) const MAX_TITLE_CHARS: usize = 60;
pub(super) const MAX_RULE_CHARS: usize = 600;
pub(super) const MAX_REPORT_CHARS: usize = 300;
pub(super) const CARRIED_OUTCOME_CHARS: usize = 120;
/// Structured data in the short form.
pub(super) const DATA_CHARS: usize = 240;
/// A field up to this length is repeated, though an earlier call returned it too.
pub(super) const MAX_SHORT_FIELD_BYTES: usize = 24;
/// The start of a commit message by which it is found in the output.
pub(super) const COMMIT_MESSAGE_BYTES: usize = 16;
/// A shorter line is repeated, because a note about the omission would be longer.
pub(super) const MIN_REPEATED_BYTES: usize = 24;
/// The list marker and the line break of an item.
pub(super) const ITEM_MARKER_TOKENS: u64 = 3;

/// A line up to this length stays whole in an excerpt; a longer one is split into sentences.
pub(super) const MAX_WHOLE_LINE_BYTES: usize = 80;
/// A line of at least this length that does not end a sentence was wrapped by an editor, and continues on the next line.
pub(super) const MIN_WRAPPED_LINE_BYTES: usize = 60;
/// A smaller rest of the limit is not used for another passage.
pub(super) const MIN_REMAINING_BYTES: usize = 60;
/// Added to the weight of the last passage, because the last words often say what follows from the others.
pub(super) const LAST_PASSAGE_WEIGHT: f32 = 0.5;
/// The largest weight of code, and its factor.
pub(super) const MAX_CODE_WEIGHT: f32 = 1.0;
pub(super) const CODE_FACTOR: f32 = 0.3;

/// How many nodes of Earlier Work become one group, and how many adjacent nodes of one size are allowed before that.
pub(super) const GROUP_SIZE: usize = 6;
pub(super) const MAX_NODES_PER_LEVEL: usize = 9;
/// A line under a node, and its indentation and line break.
pub(super) const NODE_LINE_CHARS: usize = 150;
pub(super) const NODE_LINE_TOKENS: u64 = 2;
/// The lines of a group, which represent more actions than those of a single span.
pub(super) const GROUP_FACTOR: f64 = 1.3;
/// The value of further lines of one kind falls with this power of their number.
pub(super) const REPEATED_KIND_POWER: f64 = 0.75;

/// Returns the value of a line under a node: requests and conclusions are worth more than runs.
pub(super) fn node_line_value(kind: EntryKind) -> f64 {
    match kind {
        EntryKind::UserRequest => 6.0,
        EntryKind::Answer => 3.5,
        EntryKind::Other | EntryKind::Note => 3.0,
        EntryKind::Edit => 2.6,
        EntryKind::Delegate | EntryKind::Delete => 2.0,
        EntryKind::Create | EntryKind::Restore | EntryKind::Run | EntryKind::Message => 1.4,
        EntryKind::ToolCall | EntryKind::Fetch => 1.0,
    }
}
