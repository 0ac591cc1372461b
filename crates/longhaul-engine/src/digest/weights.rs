//! Every weight of the digests, in one table: what a candidate is worth, and how many there are.
//!
//! Units, by the end of the name:
//!
//! - `VALUE`: the worth of a line or of a list item. Candidates are selected by value per token, so only the ratios matter.
//! - `DECAY`: how fast the worth falls with the rank of a candidate: value / (1 + rank × decay).
//! - `FACTOR`: multiplies a value. `SHARE`: a part of the sampled lines, from 0 to 1.
//! - `LINES`, `ITEMS`, `CHARS`, `BYTES`, `TOKENS`: counts.
//!
//! All were chosen by hand, and the digests as a whole were checked with `bench/digest`. Only the default budget was
//! measured: 150 tokens keep 0.79 of the facts of short results, 220 keep 0.90.

use crate::tokens::Tokens;

/// The smallest budget of a digest; a shorter text could say nothing.
pub(super) const MIN_DIGEST_TOKENS: Tokens = Tokens(32);
/// The smallest budget if the caller has none; measured, see above.
pub(super) const DEFAULT_TOKENS: Tokens = Tokens(220);
/// The default budget of a large output is the output's tokens divided by this.
pub(super) const DEFAULT_DIVISOR: u64 = 20;
/// The start of a large text from which its tokens per byte are estimated.
pub(super) const ESTIMATED_CHARS: usize = 100_000;
/// A text with more bytes for each token of the budget never fits, so it needs no estimate.
pub(super) const MAX_BYTES_PER_TOKEN: u64 = 32;

/// The sampled lines at the start of an output.
pub(super) const SAMPLE_HEAD_LINES: usize = 120;
/// The sampled lines at the end of an output.
pub(super) const SAMPLE_TAIL_LINES: usize = 40;
/// The start of a sampled line that is read.
pub(super) const SAMPLE_LINE_CHARS: usize = 300;

/// The first error lines, which are quoted further than other lines.
pub(super) const MAX_ERROR_LINES: usize = 3;
/// The width of such an error line.
pub(super) const MAX_ERROR_LINE_CHARS: usize = 160;
/// The command, query or path in a one-line digest.
pub(super) const MAX_TARGET_CHARS: usize = 120;
/// Any line of a one-line digest: the longest have a tool, two targets and a few words of ours.
pub(super) const MAX_LINE_BYTES: usize = 2_000;

/// Added to the cost of each candidate, so that a line is not selected only because it is short, like a bare `}`.
pub(super) const OVERHEAD_TOKENS: f64 = 4.0;
/// The comma after a list item.
pub(super) const ITEM_TOKENS: u64 = 1;
/// The line break of a quote, and its share of the line that marks a gap.
pub(super) const QUOTE_TOKENS: u64 = 3;
/// The brackets of a list, and its count of further items.
pub(super) const LIST_TOKENS: u64 = 6;
/// The usual width of a quote for each token of the budget, as a fraction.
pub(super) const WIDTH_PER_TOKEN: (usize, usize) = (2, 5);
/// The bounds of that width, in characters.
pub(super) const WIDTH_CHARS: (usize, usize) = (64, 240);
/// A quote beyond its usual width is a longer form of its own, worth this much of its start.
pub(super) const QUOTE_REST_FACTOR: f64 = 0.6;
/// If the digest is too long, a sixteenth of the candidates is dropped at a time.
pub(super) const DROP_DIVISOR: usize = 16;

/// The values of the facts that every kind has.
#[derive(Clone, Copy)]
pub(super) struct FactValues {
    pub(super) error: f64,
    pub(super) warning: f64,
    pub(super) total: f64,
    pub(super) frame: f64,
}

/// Facts in the output of a run, in which errors matter most.
pub(super) const RUN_FACTS: FactValues = FactValues { error: 10.0, warning: 5.0, total: 12.0, frame: 6.0 };
/// Facts in content that was read, in which a line about an error is often, but not always, the one searched for.
pub(super) const READ_FACTS: FactValues = FactValues { error: 9.0, warning: 6.0, total: 8.0, frame: 3.0 };
/// An error line that says only that something failed.
pub(super) const UNSPECIFIC_FACTOR: f64 = 0.5;
/// The last lines of an output, compared with the first ones.
pub(super) const LAST_LINES_FACTOR: f64 = 1.2;
/// Candidates without a decay of their own.
pub(super) const DECAY: f64 = 0.04;
/// A line with one word of the focus, and each further word up to the maximum.
pub(super) const FOCUS_VALUE: f64 = 14.0;
pub(super) const FURTHER_FOCUS_WORD_VALUE: f64 = 4.0;
pub(super) const MAX_FOCUS_WORDS: usize = 4;
/// The candidates of one kind that are proposed, where a kind has no limit of its own.
pub(super) const MAX_CANDIDATES: usize = 400;
/// The same for texts that consist of quotes: prose and web pages.
pub(super) const MAX_TEXT_LINES: usize = 600;
/// The decay of such quotes.
pub(super) const TEXT_DECAY: f64 = 0.02;

/// The first and last lines of an output that are proposed, and the value of the first one.
pub(super) struct Edges {
    pub(super) first_lines: usize,
    pub(super) last_lines: usize,
    pub(super) value: f64,
}

/// Outputs of which nothing is known but their lines.
pub(super) const PLAIN_EDGES: Edges = Edges { first_lines: 20, last_lines: 10, value: 3.0 };

pub(super) mod binary {
    /// The start of the output that is examined.
    pub(crate) const EXAMINED_CHARS: usize = 2_000;
    /// An output is binary if more than one character in ten does not occur in text.
    pub(crate) const STRANGE_DIVISOR: usize = 10;
    pub(crate) const MIN_BASE64_BYTES: usize = 400;
    pub(crate) const MIN_BASE64_LINE_BYTES: usize = 60;
    pub(crate) const QUOTE_CHARS: usize = 40;
    pub(crate) const QUOTE_VALUE: f64 = 1.0;
}

pub(super) mod build {
    use super::{Edges, FactValues, RUN_FACTS};
    pub(crate) const MIN_DIAGNOSTIC_SHARE: f64 = 0.15;
    pub(crate) const MIN_BUILD_TOOL_SHARE: f64 = 0.3;
    /// Lines that give only a location: at least this many, and this share.
    pub(crate) const MIN_LOCATION_LINES: usize = 2;
    pub(crate) const MIN_LOCATION_SHARE: f64 = 0.04;
    pub(crate) const BY_CODE_VALUE: f64 = 3.5;
    pub(crate) const BY_FILE_VALUE: f64 = 2.8;
    /// The first diagnostic of each code, which says more than many of the same code.
    pub(crate) const NEW_CODE_VALUE: f64 = 12.0;
    /// The location of an error, and of anything else.
    pub(crate) const ERROR_LOCATION_VALUE: f64 = 11.0;
    pub(crate) const OTHER_LOCATION_VALUE: f64 = 2.0;
    pub(crate) const FACTS: FactValues = FactValues { error: 8.0, ..RUN_FACTS };
    pub(crate) const EDGES: Edges = Edges { first_lines: 5, last_lines: 8, value: 3.0 };
}

pub(super) mod diff {
    /// The first lines in which a patch must begin.
    pub(crate) const OPENING_LINES: usize = 12;
    pub(crate) const CHANGED_LINE_VALUE: f64 = 3.0;
    /// Shorter changed lines, such as a bracket, are not proposed.
    pub(crate) const MIN_CHANGED_LINE_BYTES: usize = 5;
    pub(crate) const FILE_VALUE: f64 = 8.0;
    pub(crate) const FILE_DECAY: f64 = 0.3;
    pub(crate) const COMMIT_VALUE: f64 = 3.0;
    pub(crate) const COMMIT_SUBJECT_VALUE: f64 = 6.0;
}

pub(super) mod html {
    /// The start of the output that is examined for tags.
    pub(crate) const EXAMINED_CHARS: usize = 400;
    pub(crate) const MIN_TAG_SHARE: f64 = 0.6;
    /// An accessibility tree has at least this many lines, and this share of them has a role.
    pub(crate) const MIN_ROLE_LINES: usize = 4;
    pub(crate) const MIN_ROLE_SHARE: f64 = 0.6;
    pub(crate) const COUNTS_VALUE: f64 = 6.0;
    /// Text outside of the elements below.
    pub(crate) const TEXT_VALUE: f64 = 1.5;
    /// Shorter texts are not proposed.
    pub(crate) const MIN_TEXT_BYTES: usize = 3;
    /// The roles of accessibility trees, by the value of a line of that role.
    pub(crate) const ROLE_VALUES: [(f64, &str); 10] = [
        (7.0, "alert rootwebarea"),
        (6.0, "heading"),
        (5.0, "textbox searchbox combobox dialog document"),
        (4.5, "button checkbox radio"),
        (4.0, "link tab menuitem status"),
        (3.0, "option form"),
        (2.0, "paragraph navigation main article table"),
        (1.5, "text statictext banner row"),
        (1.0, "list listitem img image contentinfo cell strong"),
        (0.5, "generic"),
    ];
    /// The elements that are counted, by the value of the text directly inside them.
    pub(crate) const ELEMENT_VALUES: [(f64, &str); 8] = [
        (9.0, "title"),
        (7.0, "h1"),
        (5.0, "h2"),
        (4.0, "h3 button p"),
        (3.0, "label"),
        (1.5, "li"),
        (1.0, "a"),
        (0.0, "input form select table img"),
    ];
}

pub(super) mod json {
    use super::Edges;
    pub(crate) const FIRST_KEYS_VALUE: f64 = 3.0;
    pub(crate) const KEYS_VALUE: f64 = 12.0;
    /// The list of values, and the list of the contents of objects and lists.
    pub(crate) const FIELDS_VALUE: f64 = 5.0;
    pub(crate) const UNUSUAL_RECORD_VALUE: f64 = 10.0;
    pub(crate) const UNUSUAL_RECORD_DECAY: f64 = 0.1;
    pub(crate) const MAX_UNUSUAL_RECORDS: usize = 40;
    /// A list of fewer records is not described.
    pub(crate) const MIN_RECORDS: usize = 3;
    pub(crate) const MAX_VALUE_CHARS: usize = 40;
    /// The values of a field are listed with their counts if there are at most so many.
    pub(crate) const MAX_LISTED_VALUES: usize = 4;
    /// A value is an example if it occurs at most so often.
    pub(crate) const MAX_EXAMPLE_TIMES: usize = 2;
    pub(crate) const MAX_INNER_KEYS: usize = 12;
    pub(crate) const EDGES: Edges = Edges { first_lines: 1, last_lines: 0, value: 1.5 };
}

pub(super) mod listing {
    pub(crate) const MIN_LINES: usize = 3;
    /// Lines of `ls -l`, lines of a drawn tree, and bare paths.
    pub(crate) const MIN_LONG_SHARE: f64 = 0.6;
    pub(crate) const MIN_DRAWN_SHARE: f64 = 0.6;
    pub(crate) const MIN_PATH_SHARE: f64 = 0.8;
    pub(crate) const MAX_NAME_BYTES: usize = 200;
    /// The heading of a folder's entries.
    pub(crate) const FOLDER_VALUE: f64 = 2.0;
    /// Lines that are no entries, but describe them.
    pub(crate) const OTHER_VALUE: f64 = 5.0;
    pub(crate) const MAX_OTHER_LINES: usize = 40;
    pub(crate) const ENTRY_VALUE: f64 = 2.5;
    pub(crate) const MAX_ENTRY_LINES: usize = 60;
    pub(crate) const LINE_DECAY: f64 = 0.05;
    pub(crate) const LARGEST_VALUE: f64 = 4.0;
    /// A folder or extension in the counts, if it has several entries, or one.
    pub(crate) const COUNT_VALUE: f64 = 6.0;
    pub(crate) const SINGLE_COUNT_VALUE: f64 = 2.0;
}

pub(super) mod log {
    use super::Edges;
    /// Lines with a time or a level: either of them alone, or both.
    pub(crate) const MIN_SHARE: f64 = 0.5;
    pub(crate) const MIN_BOTH_SHARE: f64 = 0.25;
    pub(crate) const FATAL_VALUE: f64 = 12.0;
    pub(crate) const MAX_FATAL_LINES: usize = 40;
    /// The last lines that are searched for a time.
    pub(crate) const LAST_TIME_LINES: usize = 20;
    pub(crate) const TIMES_VALUE: f64 = 7.0;
    pub(crate) const LEVELS_VALUE: f64 = 12.0;
    pub(crate) const REPEATED_VALUE: f64 = 3.0;
    pub(crate) const REPEATED_DECAY: f64 = 0.1;
    pub(crate) const MAX_REPEATED_LINES: usize = 12;
    /// A message counts as repeated from this count on.
    pub(crate) const MIN_REPEATED_TIMES: usize = 3;
    /// The start of a line by which messages are compared.
    pub(crate) const MESSAGE_BYTES: usize = 100;
    /// Later messages are ignored, which bounds the memory.
    pub(crate) const MAX_DISTINCT_MESSAGES: usize = 4096;
    pub(crate) const EDGES: Edges = Edges { first_lines: 3, last_lines: 5, value: 3.0 };
}

pub(super) mod prose {
    use super::Edges;
    pub(crate) const MIN_SHARE: f64 = 0.5;
    pub(crate) const MIN_SENTENCE_WORDS: usize = 5;
    pub(crate) const HEADING_VALUE: f64 = 6.0;
    pub(crate) const PARAGRAPH_VALUE: f64 = 3.5;
    pub(crate) const LIST_ITEM_VALUE: f64 = 2.5;
    pub(crate) const OTHER_VALUE: f64 = 1.0;
    pub(crate) const EDGES: Edges = Edges { first_lines: 1, last_lines: 2, value: 4.0 };
}

pub(super) mod search {
    use super::Edges;
    pub(crate) const MIN_MATCH_SHARE: f64 = 0.6;
    /// A web search has at least this many addresses, and this share of its lines has one.
    pub(crate) const MIN_ADDRESSES: usize = 3;
    pub(crate) const MIN_ADDRESS_SHARE: f64 = 0.12;
    /// The start of a line in which the path and the line number of a match are searched for.
    pub(crate) const MATCH_HEAD_BYTES: usize = 240;
    pub(crate) const LATER_NUMBER_BYTES: usize = 200;
    pub(crate) const ADDRESS_VALUE: f64 = 6.0;
    pub(crate) const ADDRESS_DECAY: f64 = 0.2;
    /// The first match in a file, and further ones.
    pub(crate) const FIRST_MATCH_VALUE: f64 = 4.0;
    pub(crate) const MATCH_VALUE: f64 = 1.5;
    pub(crate) const FILE_VALUE: f64 = 6.0;
    pub(crate) const FILE_DECAY: f64 = 0.15;
    pub(crate) const EDGES: Edges = Edges { first_lines: 20, last_lines: 3, value: 3.0 };
}

pub(super) mod source {
    use super::Edges;
    pub(crate) const MIN_CODE_SHARE: f64 = 0.65;
    /// This smaller share of code is enough if there are `MIN_DEFINITIONS` definitions.
    pub(crate) const MIN_DEFINING_SHARE: f64 = 0.4;
    pub(crate) const MIN_DEFINITIONS: usize = 2;
    pub(crate) const OUTER_VALUE: f64 = 4.0;
    pub(crate) const INNER_VALUE: f64 = 2.5;
    pub(crate) const NAMES_VALUE: f64 = 2.6;
    /// The first lines that define nothing; each is worth a step less.
    pub(crate) const FIRST_LINE_VALUE: f64 = 1.5;
    pub(crate) const FIRST_LINE_STEP_VALUE: f64 = 0.2;
    pub(crate) const MAX_FIRST_LINES: u8 = 6;
    pub(crate) const EDGES: Edges = Edges { first_lines: 0, last_lines: 2, value: 1.2 };
}

pub(super) mod table {
    use super::Edges;
    /// The columns whose values are read.
    pub(crate) const MAX_COLUMNS: usize = 40;
    pub(crate) const MIN_ROWS: usize = 5;
    pub(crate) const MIN_COLUMNS: usize = 3;
    pub(crate) const MAX_COLUMN_NAME_BYTES: usize = 60;
    pub(crate) const MAX_COLUMN_NAME_WORDS: usize = 5;
    pub(crate) const COLUMNS_VALUE: f64 = 12.0;
    pub(crate) const RANGES_VALUE: f64 = 5.0;
    pub(crate) const HEAD_VALUE: f64 = 5.0;
    /// The first rows; each is worth a step less.
    pub(crate) const FIRST_ROW_VALUE: f64 = 4.0;
    pub(crate) const FIRST_ROW_STEP_VALUE: f64 = 0.3;
    pub(crate) const MAX_FIRST_ROWS: usize = 5;
    pub(crate) const LAST_ROW_VALUE: f64 = 2.8;
    pub(crate) const MAX_LAST_ROWS: usize = 3;
    pub(crate) const UNUSUAL_ROW_VALUE: f64 = 10.0;
    pub(crate) const UNUSUAL_ROW_DECAY: f64 = 0.1;
    pub(crate) const MAX_UNUSUAL_ROWS: usize = 40;
    /// If more than one of so many rows is unusual, none is.
    pub(crate) const UNUSUAL_DIVISOR: usize = 5;
    pub(crate) const RECORD_EDGES: Edges = Edges { first_lines: 12, last_lines: 6, value: 4.0 };
}

pub(super) mod test_run {
    use super::{Edges, FactValues, RUN_FACTS};
    /// The lines that report the result of one test.
    pub(crate) const MIN_RESULT_SHARE: f64 = 0.3;
    pub(crate) const FAILING_VALUE: f64 = 14.0;
    pub(crate) const FACTS: FactValues = FactValues { frame: 7.0, ..RUN_FACTS };
    /// The last lines that are searched for a summary.
    pub(crate) const SUMMARY_LINES: usize = 30;
    pub(crate) const SUMMARY_VALUE: f64 = 8.0;
    /// The result of one package out of many.
    pub(crate) const PACKAGE_VALUE: f64 = 1.5;
    /// Lines with an expected or actual value.
    pub(crate) const COMPLAINT_VALUE: f64 = 8.0;
    pub(crate) const COMPLAINT_DECAY: f64 = 0.1;
    pub(crate) const MAX_COMPLAINT_LINES: usize = 60;
    pub(crate) const EDGES: Edges = Edges { first_lines: 1, last_lines: 3, value: 2.0 };
}
