//! Whether what a clause says of an outcome is what happened.

use super::claims::{Kind, claims, code, is_command, words};
use super::clauses::opening;
use super::source::{Deed, End, Source, counted};
use super::words::{TABLE, has_any, prose, without};
use crate::evidence::is_anchor;
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
    /// Something that was only looked at.
    Nothing,
}

/// What is found among this share of the best is as good.
const AS_GOOD: f32 = 0.8;
/// A deed that shares less than this with a clause is another one; where the clause does not say what sort of deed, less than that.
const LEAST: f32 = 0.7;
const LEAST_OF_ANYTHING: f32 = 2.0;
/// So few deeds are told by one name.
const FEW: usize = 2;

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
    let further = |part| if is_mixed(part) { split(vec![part], ", ") } else { vec![part] };
    parts.into_iter().flat_map(further).collect()
}

fn split<'t>(parts: Vec<&'t str>, between: &str) -> Vec<&'t str> {
    parts.into_iter().flat_map(|part| part.split(between).collect::<Vec<_>>()).collect()
}

fn is_mixed(part: &str) -> bool {
    let plain = without(&prose(part), &TABLE.neither);
    has_any(&plain, &TABLE.well) && has_any(&plain, &TABLE.badly)
}

/// Whether a statement tells of something that did not work: in words, or by the name of an error.
pub(super) fn tells_of_trouble(text: &str) -> bool {
    let plain = prose(text);
    let is_error = |word: &str| word.ends_with("Error") || word.ends_with("Exception");
    has_any(&without(&plain, &TABLE.neither), &TABLE.badly)
        || [&TABLE.absent, &TABLE.amiss].iter().any(|phrases| has_any(&plain, phrases))
        || words(text).flat_map(|word| word.split(':')).any(is_error)
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
    let (own, opening) = (names(part), names(told.opening));
    // A later part with names of its own may be about something else than what the statement opens with.
    let by_opening = own.is_empty() || opening.iter().all(|name| own.contains(name));
    let telling = if by_opening { opening.clone() } else { Vec::new() };
    let own = if own.is_empty() { names(told.clause) } else { own };
    let names = Names { own, telling, opening, before: names(told.before) };
    let deeds = meant(source, &names, about(told.opening, part));
    let is_so = |deed: &&Deed| ended.is_borne_out_by(deed);
    if deeds.iter().any(is_so)
        || !deeds.is_empty() && source.deeds.iter().any(|deed| ended.is_named_by(deed, &names))
    {
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
        let is_error = |word: &&str| {
            ["Error", "Exception"].iter().any(|end| word.ends_with(end) && word.len() > end.len())
        };
        Self {
            how,
            exit: exit(&prose),
            errors: words(text).filter(is_error).map(str::to_lowercase).collect(),
        }
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
                let shown = self.errors.iter().all(|error| deed.shown.contains(error));
                shown && (deed.end != End::Done || shows_trouble(&deed.shown))
            }
            None => true,
        }
    }

    /// Whether a deed that shares a name with a text shows the very errors that it names.
    fn is_named_by(&self, deed: &Deed, names: &Names) -> bool {
        let about = names.own.iter().chain(&names.opening).any(|name| deed.asked.contains(name.as_str()));
        about && !self.errors.is_empty() && self.errors.iter().all(|error| deed.shown.contains(error))
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
    let in_doubt = deed.end == End::Failed || has_any(&deed.shown, &TABLE.trouble);
    deed.end != End::Refused && (!in_doubt || has_any(&without(&deed.shown, &TABLE.badly), &TABLE.well))
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
        () if opens_with(&TABLE.looking) => About::Nothing,
        () if code(part).any(is_command) || opens_with(&TABLE.running) => About::Run,
        () if opens_with(&TABLE.editing) && tells_of_a_run => About::RunAfterEdit,
        () if opens_with(&TABLE.editing) => About::Edit,
        () if tells_of_a_run => About::Run,
        () => About::Anything,
    }
}

/// The names in a text by which a deed can be told, and those around it.
struct Names {
    own: Vec<String>,
    opening: Vec<String>,
    before: Vec<String>,
    /// Those that name the deed, where it is the one that the statement opens with.
    telling: Vec<String>,
}

impl Names {
    /// How much of them a deed has.
    fn worth(&self, deed: &Deed) -> f32 {
        let one = |name: &String| match () {
            () if deed.asked.contains(name.as_str()) => 1.0,
            () if deed.shown.contains(name.as_str()) => 0.4,
            () => 0.0,
        };
        let sum =
            |names: &[String]| names.iter().filter(|name| !self.own.contains(name)).map(one).sum::<f32>();
        self.own.iter().map(one).sum::<f32>() + 0.7 * sum(&self.opening) + 0.1 * sum(&self.before)
    }
}

/// The deeds that a text is about: those that share most of its names.
fn meant<'s>(source: &'s Source, names: &Names, about: About) -> Vec<&'s Deed> {
    let best = |fits: &dyn Fn(&Deed) -> bool, least: f32, as_good: f32| -> (Vec<usize>, f32) {
        // What a statement opens with names the deed.
        let has =
            |deed: &Deed| names.telling.iter().filter(|name| deed.asked.contains(name.as_str())).count();
        let most = source.deeds.iter().filter(|deed| fits(deed)).map(has).max().unwrap_or(0);
        let fitting = source.deeds.iter().enumerate().filter(|(_, deed)| fits(deed) && has(deed) == most);
        let rated: Vec<(usize, f32)> = fitting.map(|(at, deed)| (at, names.worth(deed))).collect();
        let best = rated.iter().map(|(_, worth)| *worth).fold(0.0, f32::max);
        let good = rated.into_iter().filter(|(_, worth)| best >= least && *worth >= best * as_good);
        (good.map(|(at, _)| at).collect(), best)
    };
    let found = match about {
        About::Run => best(&|deed| deed.ran, LEAST, AS_GOOD).0,
        About::Edit => best(&|deed| deed.edited, LEAST, AS_GOOD).0,
        About::Nothing => Vec::new(),
        About::Anything => {
            let (found, shared) = best(&|_| true, 1.0, AS_GOOD);
            // One name is enough where hardly anything has it.
            if shared >= LEAST_OF_ANYTHING || found.len() <= FEW { found } else { Vec::new() }
        }
        About::RunAfterEdit => {
            let (runs, of_runs) = best(&|deed| deed.ran && !deed.edited, LEAST, AS_GOOD);
            // Of several changes to one file it is the one that shares most.
            let (edits, of_edits) = best(&|deed| deed.edited, LEAST, 1.0);
            // What was run behind a change is what the change came to.
            let next = |at: &usize| (at + 1..source.deeds.len()).find(|at| source.deeds[*at].ran);
            if of_runs > of_edits { runs } else { edits.iter().filter_map(next).collect() }
        }
    };
    found.into_iter().map(|at| &source.deeds[at]).collect()
}

/// The names in a text by which a deed can be told, and the code in it as a whole.
fn names(text: &str) -> Vec<String> {
    let whole = code(text).filter(|code| code.contains(' ')).map(str::to_lowercase);
    words(text).filter(|word| is_anchor(word)).map(str::to_lowercase).chain(whole).collect()
}

/// Whether a clause counts tests as no output does, where outputs count them.
pub(super) fn is_miscounted(clause: &str, source: &Source) -> bool {
    counted(&prose(clause)).any(|(count, what)| source.counts(what) && !source.counts_so(count, what))
}
