//! Whether what a clause says of an outcome is what happened.

use super::claims::{Kind, claims, code, is_command, number};
use super::clauses::opening;
use super::source::{Deed, Source};
use super::words::{TABLE, has_any, prose, without};
use crate::checkpoint::{Bag, words};
use crate::transcript::BlockAt;

/// How something ended, by the words of somebody who tells it.
#[derive(Debug, Default)]
struct Ended {
    how: Option<How>,
    /// The exit status that is named,
    exit: Option<i64>,
    /// and the errors that are.
    errors: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Well,
    Badly,
}

/// What a clause is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Run,
    /// What was run behind a change.
    RunAfterEdit,
    Edit,
    Anything,
}

/// What is found among this share of the best is as good.
const AS_GOOD: f32 = 0.9;
/// A deed that shares less than this with a clause is another one; where the clause does not say what sort of deed, less than that.
const LEAST: f32 = 0.45;
const LEAST_OF_ANYTHING: f32 = 0.6;
/// So much of a text has a deed that shows the very errors which it names.
const NAMED: f32 = 0.25;

/// The deeds that a clause contradicts: it is about them and none of them ended as it says. Nothing where that cannot be told.
pub(super) fn contradicted(statement: &str, clause: &str, source: &Source) -> Vec<BlockAt> {
    let at = statement.find(clause).unwrap_or(0);
    let told = Told { opening: opening(statement), before: &statement[..at], clause };
    parts(clause).into_iter().flat_map(|part| by_part(&told, part, source)).collect()
}

/// A clause may tell of several outcomes, one after the other.
fn parts(clause: &str) -> Vec<&str> {
    let parts =
        [" but ", " (", ") ", " although "].iter().fold(vec![clause], |parts, between| split(parts, between));
    // What tells of both is parted further.
    parts
        .into_iter()
        .flat_map(|part| if is_mixed(part) { split(vec![part], ", ") } else { vec![part] })
        .collect()
}

fn split<'t>(parts: Vec<&'t str>, between: &str) -> Vec<&'t str> {
    parts.into_iter().flat_map(|part| part.split(between).collect::<Vec<_>>()).collect()
}

fn is_mixed(part: &str) -> bool {
    let plain = without(&prose(part), &TABLE.neither);
    has_any(&plain, &TABLE.well) && has_any(&plain, &TABLE.badly)
}

/// What a part of a clause stands in.
struct Told<'t> {
    /// What the statement opens with,
    opening: &'t str,
    /// all that stands before the clause,
    before: &'t str,
    /// and the clause.
    clause: &'t str,
}

fn by_part(told: &Told<'_>, part: &str, source: &Source) -> Vec<BlockAt> {
    let ended = Ended::told(part);
    if ended.how.is_none() && ended.exit.is_none() {
        return Vec::new();
    }
    let wanted = Wanted::of(told, part, source);
    let deeds = meant(source, &wanted, about(told.opening, part));
    let is_so = |deed: &&Deed| ended.is_borne_out_by(deed);
    let is_named = |deed: &Deed| ended.is_named_by(deed) && wanted.worth(deed) >= NAMED;
    if deeds.iter().any(is_so) || !deeds.is_empty() && source.deeds.iter().any(is_named) {
        return Vec::new();
    }
    deeds.iter().map(|deed| deed.at).collect()
}

impl Ended {
    /// What a text says of an outcome; nothing where it says none, or both.
    fn told(text: &str) -> Self {
        let prose = prose(text);
        let plain = without(&prose, &TABLE.neither);
        let badly = has_any(&plain, &TABLE.badly);
        let well = has_any(&plain, &TABLE.well) || plain != prose && has_any(&prose, &TABLE.well);
        let how = match (well, badly) {
            (true, false) => Some(How::Well),
            (false, true) => Some(How::Badly),
            _ => None,
        };
        let errors = words(text).map(str::to_lowercase).filter(|word| is_error(word));
        Self { how, exit: exit(&prose), errors: errors.collect() }
    }

    fn is_borne_out_by(&self, deed: &Deed) -> bool {
        if let (Some(told), Some(was)) = (self.exit, deed.exit)
            && told != was
            && !has_any(&deed.shown, &[told.to_string()])
        {
            return false;
        }
        match self.how {
            Some(How::Well) => went_well(deed),
            Some(How::Badly) => {
                let named = self.errors.iter().all(|error| deed.shown.contains(error));
                named && (deed.failed || shows_trouble(&deed.shown))
            }
            None => true,
        }
    }

    /// Whether a deed shows the very errors that are named.
    fn is_named_by(&self, deed: &Deed) -> bool {
        !self.errors.is_empty() && self.errors.iter().all(|error| deed.shown.contains(error))
    }
}

/// The exit status that is named.
fn exit(prose: &str) -> Option<i64> {
    let behind = ["exit code ", "exit status ", "exit "].iter().find_map(|words| prose.split_once(words))?.1;
    let end = behind.find(|sign: char| !sign.is_ascii_digit() && sign != '-').unwrap_or(behind.len());
    behind[..end].parse().ok()
}

/// Whether a clause reports an output that no result shows.
pub(super) fn is_misreported(clause: &str, source: &Source) -> bool {
    let reports = |claim: &str| {
        let before = clause.split_once(claim).map_or("", |(before, _)| before);
        has_any(&prose(before), &TABLE.reported)
    };
    let is_output = |text: &str| text.contains(' ') && !source.is_asked(text) && !source.is_shown(text);
    claims(clause)
        .iter()
        .any(|claim| claim.kind == Kind::Code && is_output(claim.text) && reports(claim.text))
}

/// Whether anything shows that something went well. A pipe hides how a command ended, so an output that shows trouble has to show
/// success, too.
fn went_well(deed: &Deed) -> bool {
    let in_doubt = deed.failed || has_any(&deed.shown, &TABLE.trouble);
    !deed.refused && (!in_doubt || has_any(&without(&deed.shown, &TABLE.badly), &TABLE.well))
}

/// Whether an output tells of anything that went wrong, also inside a longer word such as the name of an exception.
fn shows_trouble(shown: &str) -> bool {
    const SIGNS: [&str; 3] = ["error", "exception", "fail"];
    let shown = without(shown, &TABLE.neither);
    SIGNS.iter().any(|sign| shown.contains(sign))
        || has_any(&shown, &TABLE.badly)
        || has_any(&shown, &TABLE.trouble)
}

fn about(opening: &str, part: &str) -> About {
    let opening = opening.to_lowercase();
    let first = opening.split_whitespace().next().unwrap_or_default();
    let first = first.trim_matches(|sign: char| !sign.is_alphanumeric());
    let opens_with = |list: &[String]| list.iter().any(|known| known == first);
    let tells_of_a_run = has_any(&prose(part), &TABLE.running);
    match () {
        () if code(part).any(is_command) || opens_with(&TABLE.running) => About::Run,
        () if opens_with(&TABLE.editing) && tells_of_a_run => About::RunAfterEdit,
        () if opens_with(&TABLE.editing) => About::Edit,
        () if tells_of_a_run => About::Run,
        () => About::Anything,
    }
}

/// What a text is about, each word with what it tells.
struct Wanted {
    words: Vec<(String, f32)>,
    all: f32,
}

/// What a word of the text itself tells, one that the statement opens with, and any other before it.
const OWN: f32 = 1.0;
const OPENING: f32 = 0.8;
const BEFORE: f32 = 0.15;
/// What a result has of a text beside what was asked for.
const SHOWN: f32 = 0.4;

impl Wanted {
    fn of(told: &Told<'_>, part: &str, source: &Source) -> Self {
        let own = Bag::of(part);
        let own = if own.parts().any(|(_, weight)| weight > 1.0) { own } else { Bag::of(told.clause) };
        let mut words: Vec<(String, f32)> = Vec::new();
        for (bag, worth) in [(own, OWN), (Bag::of(told.opening), OPENING), (Bag::of(told.before), BEFORE)] {
            for (word, weight) in bag.parts().filter(|(word, _)| !is_error(word)) {
                if !words.iter().any(|(known, _)| known == word) {
                    words.push((word.to_owned(), worth * weight * source.rarity(word)));
                }
            }
        }
        let all = words.iter().map(|(_, worth)| worth).sum();
        Self { words, all }
    }

    /// The share of it that a deed has.
    fn worth(&self, deed: &Deed) -> f32 {
        let [asked, shown] = &deed.topics;
        let one = |word: &str| match () {
            () if asked.has(word) => 1.0,
            () if shown.has(word) => SHOWN,
            () => 0.0,
        };
        let both: f32 = self.words.iter().map(|(word, worth)| worth * one(word)).sum();
        if self.all > 0.0 { both / self.all } else { 0.0 }
    }
}

/// The deeds that a text is about: those that share most of it.
fn meant<'s>(source: &'s Source, wanted: &Wanted, about: About) -> Vec<&'s Deed> {
    let best = |fits: &dyn Fn(&Deed) -> bool, least: f32, as_good: f32| -> (Vec<usize>, f32) {
        let fitting = source.deeds.iter().enumerate().filter(|(_, deed)| fits(deed));
        let rated: Vec<(usize, f32)> = fitting.map(|(at, deed)| (at, wanted.worth(deed))).collect();
        let best = rated.iter().map(|(_, worth)| *worth).fold(0.0, f32::max);
        let good = rated.into_iter().filter(|(_, worth)| best >= least && *worth >= best * as_good);
        (good.map(|(at, _)| at).collect(), best)
    };
    let found = match about {
        About::Run => best(&|deed| deed.ran || !deed.edited, LEAST, AS_GOOD).0,
        About::Edit => best(&|deed| deed.edited, LEAST, AS_GOOD).0,
        About::Anything => best(&|_| true, LEAST_OF_ANYTHING, AS_GOOD).0,
        About::RunAfterEdit => {
            let (runs, of_runs) = best(&|deed| deed.ran && !deed.edited, LEAST, AS_GOOD);
            // Of several changes to one file it is the one that shares most.
            let (edits, of_edits) = best(&|deed| deed.edited, LEAST, 0.97);
            // What was run behind a change is what the change came to, and a change may run what it wrote.
            let next = |at: &usize| {
                let ran = |at: &usize| source.deeds[*at].ran;
                if ran(at) { Some(*at) } else { (at + 1..source.deeds.len()).find(ran) }
            };
            if of_runs > of_edits { runs } else { edits.iter().filter_map(next).collect() }
        }
    };
    found.into_iter().map(|at| &source.deeds[at]).collect()
}

/// Whether a clause counts tests otherwise than any output does.
pub(super) fn is_miscounted(clause: &str, source: &Source) -> bool {
    const COUNTED: [&str; 6] = ["passed", "failed", "errors", "skipped", "passing", "failing"];
    let prose = prose(clause);
    let words: Vec<&str> = words(&prose).collect();
    words.windows(2).any(|pair| {
        let is_count = COUNTED.contains(&pair[1]) && number(pair[0]).is_some_and(|number| number > 0);
        let counted = |count: &str| source.says(&format!("{count} {}", pair[1]));
        is_count && !counted(pair[0]) && (1..2_000_u32).any(|count| counted(&count.to_string()))
    })
}

fn is_error(word: &str) -> bool {
    ["error", "exception"].iter().any(|end| word.ends_with(end) && word.len() > end.len())
}
