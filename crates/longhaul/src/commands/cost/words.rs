//! What a replay comes to, in sentences: before any table, and on top of the page.

use longhaul_engine::Tokens;
use longhaul_engine::cost::Course;
use longhaul_server::pages;

use super::{Answer, Recorded, Row};
use crate::paid::{Answered, By, Paid};

/// The share of another sum below which two sums are the same to a reader.
const SAME: f64 = 0.005;

/// The answer: what the session costs on three courses, what makes the difference, and what to mind.
pub(super) fn summary(answer: &Answer) -> Vec<String> {
    let row = |course: Course| answer.policies.iter().find(|row| row.course == course);
    let (Some(nothing), Some(marks), Some(scheduler)) =
        (row(Course::Nothing), row(Course::Marks), row(Course::Scheduler))
    else {
        return Vec::new();
    };
    let mut sentences = Vec::new();
    let paid = answer.recorded.as_ref().and_then(|recorded| Some((recorded, recorded.paid.as_ref()?)));
    if let Some((recorded, paid)) = paid {
        sentences.push(really(answer, paid, [nothing, marks, scheduler]));
        sentences.push(rests_on(answer, recorded, paid));
    } else {
        sentences.push(sums(answer, nothing, marks, scheduler));
        sentences.extend(breakpoints(nothing, marks));
        sentences.push(compaction(marks, scheduler));
    }
    if let Some(recorded) = &answer.recorded {
        sentences.push(replayed(answer, recorded));
    }
    sentences.extend(forgotten(scheduler));
    if marks.over_window > 0 {
        let (over, window) = (counted(marks.over_window, "request"), answer.window);
        sentences.push(format!(
            "Without compaction {over} would have been larger than the window of {window} tokens, and refused."
        ));
    }
    let cheapest = answer.policies.iter().min_by(|a, b| a.usd.0.total_cmp(&b.usd.0));
    if let Some(best) = cheapest.filter(|best| less(best, scheduler) >= SAME) {
        sentences.push(format!("Cheapest of all that were tried is {} with {}.", best.name, best.usd));
    }
    sentences
}

fn sums(answer: &Answer, nothing: &Row, marks: &Row, scheduler: &Row) -> String {
    let requests = counted(answer.requests, "request");
    let (none, alone, when) = (nothing.usd, marks.usd, scheduler.usd);
    let opening = format!("These {requests} to {}", answer.model);
    if less(marks, nothing).abs() < SAME {
        return format!(
            "{opening} would have cost {alone} with what the provider caches by itself, and {when} with compaction when it pays."
        );
    }
    format!(
        "{opening} would have cost {none} with nothing, {alone} with cache breakpoints alone, and {when} with compaction when it pays."
    )
}

/// What was paid for an agent's session, what it would have cost, and what makes the difference.
fn really(answer: &Answer, paid: &Paid, [nothing, marks, scheduler]: [&Row; 3]) -> String {
    let with = if less(marks, nothing).abs() < SAME {
        "what the provider caches by itself"
    } else {
        "cache breakpoints alone"
    };
    let (cost, alone, when) = (paid.usd, marks.usd, scheduler.usd);
    let why = if scheduler.compactions == 0 {
        "a compaction would not have paid".to_owned()
    } else {
        let (times, sent, instead) =
            (counted(scheduler.compactions, "compaction"), sent(scheduler), sent(marks));
        format!("with {times}, {sent} tokens would have been sent in all instead of {instead}")
    };
    let to = if paid.models.len() > 1 { format!(" and all to {}", answer.model) } else { String::new() };
    format!(
        "This session cost {cost}; sent whole{to} it would have cost {alone} with {with}, and {when} with compaction when it pays: {why}."
    )
}

/// What the first sum is made of.
fn rests_on(answer: &Answer, recorded: &Recorded, paid: &Paid) -> String {
    let requests = counted(paid.requests, "request");
    let models = match paid.models.as_slice() {
        [] | [_] => String::new(),
        several => {
            let each = |answered: &Answered| format!("{} {}", answered.model, answered.requests);
            format!(" ({})", several.iter().map(each).collect::<Vec<_>>().join(", "))
        }
    };
    let whose = match paid.by {
        By::Agent => format!("what {} wrote down", recorded.agent),
        By::Prices => format!("the usage that was recorded, at prices of {}", answer.prices.date),
        By::Both => format!("what {} wrote down, and else the recorded usage at our prices", recorded.agent),
    };
    let cached = paid
        .usage
        .hit_rate()
        .map_or(String::new(), |rate| format!("; {} of the input was cached", percent(rate)));
    let compacted = match recorded.compactions {
        0 => String::new(),
        times => format!("; {} compacted it {}", recorded.agent, times_in_words(times)),
    };
    let unpriced = match paid.unpriced {
        0 => String::new(),
        some => format!("; {} to models without a known price not counted", counted(some, "request")),
    };
    format!("What it cost is {whose}, of {requests}{models}{cached}{compacted}{unpriced}.")
}

/// What the other sums are made of.
fn replayed(answer: &Answer, recorded: &Recorded) -> String {
    let requests = counted(answer.requests, "request");
    let unseen = match recorded.unseen {
        Tokens::ZERO => String::new(),
        tokens => format!(
            "; {tokens} tokens of each, which the file does not hold (system prompt, tools, turns that are gone), are put in as the \
             provider counted them"
        ),
    };
    format!(
        "The others replay {requests} of its active branch as if {} had never compacted it{unseen}.",
        recorded.agent
    )
}

fn times_in_words(times: usize) -> String {
    match times {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// What breakpoints do, where they do anything.
fn breakpoints(nothing: &Row, marks: &Row) -> Option<String> {
    let (saved, rate) = (less(marks, nothing), marks.hit_rate?);
    (saved >= SAME).then(|| {
        format!(
            "Breakpoints save {} of what nothing costs: {} of the input is read from the cache instead of billed in full.",
            percent(saved),
            percent(rate)
        )
    })
}

/// What compaction does beyond breakpoints.
fn compaction(marks: &Row, scheduler: &Row) -> String {
    if scheduler.compactions == 0 {
        return "Compaction never pays here: every request is small enough, or too little follows it."
            .to_owned();
    }
    let times = counted(scheduler.compactions, "compaction");
    let saved = less(scheduler, marks);
    if saved.abs() < SAME {
        return format!("{times} cost about what they save.");
    }
    let [(sent, anew), (sent_alone, anew_alone)] =
        [scheduler, marks].map(|row| (short(sent(row)), short(row.written + row.fresh)));
    let because = format!(
        "{sent} input tokens are sent in all instead of {sent_alone}, of which {anew} instead of {anew_alone} are not read from the cache"
    );
    if saved < 0.0 {
        return format!("{times} cost {} more than breakpoints alone: {because}.", percent(-saved));
    }
    format!("{times} save another {}: {because}.", percent(saved))
}

/// What compaction made the agent do twice.
fn forgotten(scheduler: &Row) -> Option<String> {
    let (steps, usd) = (counted(scheduler.forgotten, "step"), scheduler.forgotten_usd);
    (scheduler.forgotten > 0).then(|| {
        format!("With it {steps} would have been taken again for what was forgotten: {usd} of its cost, beside carrying what they bring.")
    })
}

/// `46.2M`, `886k`: enough for a sentence.
pub(super) fn short(tokens: Tokens) -> String {
    pages::short(tokens.number() as f64)
}

/// The tokens of all requests.
fn sent(row: &Row) -> Tokens {
    row.cached + row.written + row.fresh
}

/// How much less one costs than another, as a share of the other.
pub(super) fn less(row: &Row, than: &Row) -> f64 {
    if than.usd.0 > 0.0 { 1.0 - row.usd.0 / than.usd.0 } else { 0.0 }
}

pub(super) fn percent(share: f64) -> String {
    let share = 100.0 * share;
    if share.abs() < 10.0 { format!("{share:.1} %") } else { format!("{share:.0} %") }
}

/// `1 request`, `3 requests`.
pub(super) fn counted(count: usize, thing: &str) -> String {
    let number = crate::output::grouped(count as u64);
    if count == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// The words of the table and of the page, each in a line.
pub(super) const GLOSSARY: [(&str, &str); 12] = [
    ("nothing", "requests go as they are; what the provider caches by itself is still cached"),
    ("marks", "cache breakpoints alone, nothing is compacted; what the others save is measured against it"),
    ("compressor@0.50", "breakpoints, and a compaction whenever a request reaches half of the window"),
    ("sacred-zone", "breakpoints, and old tool outputs made shorter, largest first"),
    (
        "scheduler",
        "breakpoints, and a compaction when it costs less in the end, at the threshold in any case",
    ),
    (
        "forgotten",
        "steps that the agent had to take again, because a compaction took away what a later reply uses; their price is in the cost",
    ),
    ("cached", "input tokens read from the provider's cache, at the price of a cache read"),
    (
        "written",
        "input tokens put into the cache, at the price of a cache write; after a change they are re-billed",
    ),
    ("uncached", "input tokens neither read from the cache nor put there, billed in full"),
    ("hit rate", "cached / (cached + written + uncached)"),
    (
        "largest",
        "tokens of the largest request; one over the window would be refused, and is priced all the same",
    ),
    ("saved", "how much less it costs than marks; below zero it costs more"),
];
