//! The result of `longhaul cost` in sentences, for the text output and the HTML page.

use longhaul_engine::Tokens;
use longhaul_engine::cost::CostStrategy;
use longhaul_server::pages;

use super::{AgentSessionInfo, CostOutput, CostRow};
use crate::output::pluralize;
use crate::recorded_cost::{CostSource, ModelRequests, RecordedCost};

/// The smallest difference between two costs that is worth mentioning, as a share. Chosen by hand.
const MIN_NOTABLE_SHARE: f64 = 0.005;

/// Writes the summary: the costs of the three main strategies, the reason for the difference, and what to
/// keep in mind.
pub(super) fn summary_sentences(output: &CostOutput) -> Vec<String> {
    let row = |strategy: CostStrategy| output.policies.iter().find(|row| row.cost_strategy == strategy);
    let (Some(passthrough), Some(breakpoints_only), Some(scheduler)) =
        (row(CostStrategy::Passthrough), row(CostStrategy::BreakpointsOnly), row(CostStrategy::Scheduler))
    else {
        return Vec::new();
    };
    let mut sentences = Vec::new();
    let paid = output.recorded.as_ref().and_then(|recorded| Some((recorded, recorded.paid.as_ref()?)));
    if let Some((recorded, paid)) = paid {
        sentences.push(paid_sentence(output, paid, [passthrough, breakpoints_only, scheduler]));
        sentences.push(paid_basis_sentence(output, recorded, paid));
    } else {
        sentences.push(costs_sentence(output, passthrough, breakpoints_only, scheduler));
        sentences.extend(breakpoints_sentence(passthrough, breakpoints_only));
        sentences.push(compaction_sentence(breakpoints_only, scheduler));
    }
    if let Some(recorded) = &output.recorded {
        sentences.push(replay_basis_sentence(output, recorded));
    }
    sentences.extend(refetched_sentence(scheduler));
    if breakpoints_only.over_window > 0 {
        let (over, window) = (pluralize(breakpoints_only.over_window, "request"), output.window);
        sentences.push(format!(
            "Without compaction {over} would have been larger than the window of {window} tokens, and refused."
        ));
    }
    let cheapest = output.policies.iter().min_by(|a, b| a.usd.0.total_cmp(&b.usd.0));
    if let Some(best) = cheapest.filter(|best| relative_saving(best, scheduler) >= MIN_NOTABLE_SHARE) {
        sentences.push(format!("Cheapest of all that were tried is {} with {}.", best.name, best.usd));
    }
    sentences
}

fn costs_sentence(
    output: &CostOutput,
    passthrough: &CostRow,
    breakpoints_only: &CostRow,
    scheduler: &CostRow,
) -> String {
    let requests = pluralize(output.requests, "request");
    let (none, alone, when) = (passthrough.usd, breakpoints_only.usd, scheduler.usd);
    let opening = format!("These {requests} to {}", output.model);
    if relative_saving(breakpoints_only, passthrough).abs() < MIN_NOTABLE_SHARE {
        return format!(
            "{opening} would have cost {alone} with what the provider caches by itself, and {when} with compaction when it pays."
        );
    }
    format!(
        "{opening} would have cost {none} unchanged, {alone} with cache breakpoints alone, and {when} with compaction when it pays."
    )
}

/// Compares what was paid for an agent's session with what it would have cost, and gives the reason.
fn paid_sentence(
    output: &CostOutput,
    paid: &RecordedCost,
    [passthrough, breakpoints_only, scheduler]: [&CostRow; 3],
) -> String {
    let with = if relative_saving(breakpoints_only, passthrough).abs() < MIN_NOTABLE_SHARE {
        "what the provider caches by itself"
    } else {
        "cache breakpoints alone"
    };
    let (cost, alone, when) = (paid.usd, breakpoints_only.usd, scheduler.usd);
    let why = if scheduler.compactions == 0 {
        "a compaction would not have paid".to_owned()
    } else {
        let (times, sent, instead) =
            (pluralize(scheduler.compactions, "compaction"), sent_tokens(scheduler), sent_tokens(breakpoints_only));
        format!("with {times}, {sent} tokens would have been sent in all instead of {instead}")
    };
    let to = if paid.models.len() > 1 { format!(" and all to {}", output.model) } else { String::new() };
    format!(
        "This session cost {cost}; sent whole{to} it would have cost {alone} with {with}, and {when} with compaction when it pays: {why}."
    )
}

/// Explains where the amount that was paid comes from.
fn paid_basis_sentence(output: &CostOutput, recorded: &AgentSessionInfo, paid: &RecordedCost) -> String {
    let requests = pluralize(paid.requests, "request");
    let models = match paid.models.as_slice() {
        [] | [_] => String::new(),
        several => {
            let each = |answered: &ModelRequests| format!("{} {}", answered.model, answered.requests);
            format!(" ({})", several.iter().map(each).collect::<Vec<_>>().join(", "))
        }
    };
    let source = match paid.by {
        CostSource::Agent => format!("what {} wrote down", recorded.agent),
        CostSource::Prices => format!("the usage that was recorded, at prices of {}", output.prices.date),
        CostSource::Both => {
            format!("the figure of {}, else the recorded usage at our prices", recorded.agent)
        }
    };
    let cached = paid
        .usage
        .hit_rate()
        .map_or(String::new(), |rate| format!("; {} of the input was cached", format_percent(rate)));
    let compacted = match recorded.compactions {
        0 => String::new(),
        times => format!("; {} compacted it {}", recorded.agent, times_in_words(times)),
    };
    let unpriced = match paid.unpriced {
        0 => String::new(),
        count => format!("; {} to models without a known price not counted", pluralize(count, "request")),
    };
    format!("What it cost is {source}, of {requests}{models}{cached}{compacted}{unpriced}.")
}

/// Explains what the replay assumes.
fn replay_basis_sentence(output: &CostOutput, recorded: &AgentSessionInfo) -> String {
    let requests = pluralize(output.requests, "request");
    let unseen = match recorded.unseen {
        Tokens::ZERO => String::new(),
        tokens => format!(
            "; {tokens} tokens of each, which the file does not contain (system prompt, tools, missing turns), are included as the provider counted them"
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

/// States what breakpoints save, if it is worth mentioning.
fn breakpoints_sentence(passthrough: &CostRow, breakpoints_only: &CostRow) -> Option<String> {
    let (saved, rate) = (relative_saving(breakpoints_only, passthrough), breakpoints_only.hit_rate?);
    (saved >= MIN_NOTABLE_SHARE).then(|| {
        format!(
            "Breakpoints save {} of the cost of unchanged requests: {} of the input is read from the cache instead of billed in full.",
            format_percent(saved),
            format_percent(rate)
        )
    })
}

/// States what compaction saves in addition to breakpoints.
fn compaction_sentence(breakpoints_only: &CostRow, scheduler: &CostRow) -> String {
    if scheduler.compactions == 0 {
        return "Compaction never pays here: every request is small enough, or too little follows it.".to_owned();
    }
    let times = pluralize(scheduler.compactions, "compaction");
    let saved = relative_saving(scheduler, breakpoints_only);
    if saved.abs() < MIN_NOTABLE_SHARE {
        return format!("{times} cost about what they save.");
    }
    let [(sent, anew), (sent_alone, anew_alone)] = [scheduler, breakpoints_only]
        .map(|row| (short_number(sent_tokens(row)), short_number(row.written + row.uncached)));
    let because = format!(
        "{sent} input tokens are sent in all instead of {sent_alone}, of which {anew} instead of {anew_alone} are not read from the cache"
    );
    if saved < 0.0 {
        return format!("{times} cost {} more than breakpoints alone: {because}.", format_percent(-saved));
    }
    format!("{times} save another {}: {because}.", format_percent(saved))
}

/// States how many turns the agent had to repeat because of compaction.
fn refetched_sentence(scheduler: &CostRow) -> Option<String> {
    let (turns, usd) = (pluralize(scheduler.forgotten, "turn"), scheduler.forgotten_usd);
    (scheduler.forgotten > 0).then(|| {
        format!("With it {turns} would have been repeated because their results were forgotten: {usd} of its cost, besides carrying their results.")
    })
}

/// Formats tokens briefly, for a sentence: `46.2M`, `886k`.
pub(super) fn short_number(tokens: Tokens) -> String {
    pages::short_count(tokens.number() as f64)
}

/// Sums the input tokens of all requests.
fn sent_tokens(row: &CostRow) -> Tokens {
    row.cached + row.written + row.uncached
}

/// Returns how much less a row costs than another one, as a share of the other one's cost.
pub(super) fn relative_saving(row: &CostRow, than: &CostRow) -> f64 {
    if than.usd.0 > 0.0 { 1.0 - row.usd.0 / than.usd.0 } else { 0.0 }
}

pub(super) fn format_percent(share: f64) -> String {
    let share = 100.0 * share;
    if share.abs() < 10.0 { format!("{share:.1} %") } else { format!("{share:.0} %") }
}

/// The words in the table and on the page, with their meanings.
pub(super) const GLOSSARY: [(&str, &str); 12] = [
    ("nothing", "requests are sent unchanged; the provider still caches what it caches by itself"),
    ("marks", "cache breakpoints alone, nothing is compacted; the savings of the others are measured against it"),
    ("compressor@0.50", "breakpoints, and a compaction whenever a request reaches half of the window"),
    ("sacred-zone", "breakpoints, and old tool outputs shortened, largest first"),
    ("scheduler", "breakpoints, and a compaction when it costs less in the end, at the threshold in any case"),
    (
        "forgotten",
        "turns that the agent had to repeat, because a compaction removed a result that a later reply uses; their price is in the cost",
    ),
    ("cached", "input tokens read from the provider's cache, at the price of a cache read"),
    (
        "written",
        "input tokens written to the cache, at the price of a cache write; after a change they are written again",
    ),
    ("uncached", "input tokens neither read from the cache nor written to it, billed in full"),
    ("hit rate", "cached / (cached + written + uncached)"),
    ("largest", "tokens of the largest request; one over the window would be refused, but is priced anyway"),
    ("saved", "how much less it costs than marks; below zero it costs more"),
];
