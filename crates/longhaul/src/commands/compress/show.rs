//! A compaction as people read it: what it did at a glance, and what went, message by message.
//!
//! Lines are styled here and lose their styles where nobody could see them: see `output::show`.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use longhaul_engine::plan::{BlockReport, CheckpointReport, Fate, Report, Step, What, WrittenBy};
use longhaul_engine::prices::Dollars;
use longhaul_engine::{Tokens, tokens};

use super::job::{Call, Done};
use crate::output;

const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const FAIR: Style = AnsiColor::Yellow.on_default();
const AWAY: Style = AnsiColor::Cyan.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// How wide the bar of tokens is.
const BAR: u64 = 30;

/// One line when it starts and one when it is done: what happened, for those who read no further.
pub(super) fn headlines(done: &Done) -> [String; 2] {
    let report = &done.answer.report;
    let share = 100.0 * report.tokens.before.number() as f64 / done.window.number().max(1) as f64;
    let (window, engine, reason) = (done.window, report.engine.name(), &report.reason);
    let start = format!(
        "{} tokens, {share:.0} % of the window of {window}; {engine}: {reason}",
        report.tokens.before
    );
    [start, verdict(report)]
}

/// What became of the whole, in one line.
pub(super) fn verdict(report: &Report) -> String {
    if !report.changed {
        return "nothing changed".to_owned();
    }
    let (tokens, messages, saved) = (&report.tokens, &report.messages, 100.0 * report.ratio);
    format!(
        "{} → {} tokens ({saved:.0} % smaller), {} → {} messages",
        tokens.before, tokens.after, messages.before, messages.after
    )
}

/// The account below the headlines.
pub(super) fn page(call: &Call<'_>, done: &Done) -> String {
    let report = &done.answer.report;
    let mut page = String::new();
    let mut row = |label: &str, text: String| {
        let _ = writeln!(page, "  {STRONG}{label:<11}{STRONG:#} {text}");
    };
    if report.changed {
        row("tokens", bar(report));
        row("units", units(report));
        row("evidence", evidence(report));
        row("checkpoint", checkpoint(report.checkpoint.as_ref()));
    }
    row("floor", format!("{} tokens that no compaction can take away", report.tokens.floor));
    if let (Some(once), Some(saved)) = (report.cost.usd, report.cost.usd_saved_per_turn) {
        row("cost", format!("{} once, {} less each turn", Dollars(once), Dollars(saved)));
    }
    if let Some(topic) = &report.focus {
        row("focus", output::printable(topic));
    }
    for rung in &report.ladder {
        row("too large", format!("{}, {} → {} tokens", step(rung.step), rung.tokens[0], rung.tokens[1]));
    }
    for note in &report.notes {
        row("note", format!("{FAIR}{}{FAIR:#}", output::printable(note)));
    }
    for advice in next(call, report) {
        row("next", advice);
    }
    page
}

/// Before as one bar: what stays warm, what is read anew, what went.
fn bar(report: &Report) -> String {
    let (before, after) = (report.tokens.before, report.tokens.after);
    let (warm, cold) = (report.tokens.warm.min(after), report.cost.cold_tokens);
    let gone = before - after;
    let cells = |part: Tokens| (part.number() * BAR + before.number() / 2) / before.number().max(1);
    let (warm_cells, kept_cells) = (cells(warm), cells(after).max(cells(warm)));
    let drawn = |sign: &str, cells: u64| sign.repeat(cells as usize);
    format!(
        "{GOOD}{}{GOOD:#}{FAIR}{}{FAIR:#}{FAINT}{}{FAINT:#}  {GOOD}█{GOOD:#} {warm} warm  {FAIR}▓{FAIR:#} {cold} read anew  {FAINT}░{FAINT:#} {gone} gone",
        drawn("█", warm_cells),
        drawn("▓", kept_cells - warm_cells),
        drawn("░", BAR.saturating_sub(kept_cells)),
    )
}

/// `1 section`, `3 sections`.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

fn units(report: &Report) -> String {
    let units = &report.units;
    let parts = [
        (units.kept, "kept", GOOD),
        (units.digested, "digested", FAIR),
        (units.summarized, "folded into the checkpoint", FAIR),
        (units.dropped, "dropped", BAD),
    ];
    let said = parts.iter().filter(|(count, ..)| *count > 0);
    said.map(|(count, what, style)| format!("{style}{count} {what}{style:#}")).collect::<Vec<_>>().join(", ")
}

fn evidence(report: &Report) -> String {
    let evidence = &report.evidence;
    let number = |count: usize| tokens::grouped(count as u64);
    let lost = if evidence.lost > 0 { BAD } else { Style::new() };
    format!(
        "{} facts: {GOOD}{} kept{GOOD:#}, {AWAY}{} recallable{AWAY:#}, {lost}{} lost{lost:#}",
        number(evidence.found),
        number(evidence.kept),
        number(evidence.recallable),
        number(evidence.lost)
    )
}

fn checkpoint(checkpoint: Option<&CheckpointReport>) -> String {
    let Some(CheckpointReport { by, tokens, sections }) = checkpoint else { return "none".to_owned() };
    match by {
        WrittenBy::Code => format!("{tokens} tokens in {}, written by code", counted(*sections, "section")),
        WrittenBy::Model => {
            format!("{tokens} tokens in {}, written by a model", counted(*sections, "section"))
        }
        WrittenBy::Fallback => {
            format!("{BAD}degraded: only a count of what is missing{BAD:#}, {tokens} tokens")
        }
    }
}

fn step(step: Step) -> &'static str {
    match step {
        Step::DigestAll => "every output outside the protected zone became a line",
        Step::DropOldest => "the oldest units were dropped",
        Step::Restart => "a new session begins with what was said first and last",
    }
}

/// What a person may want to do now.
fn next(call: &Call<'_>, report: &Report) -> Vec<String> {
    let args = call.args;
    let mut next = Vec::new();
    if !report.changed {
        if !args.force && args.to_tokens.is_none() {
            next.push("--to-tokens N asks for a size, --force compacts all the same".to_owned());
        }
        return next;
    }
    let handle = report.blocks.iter().find_map(|block| block.handle.as_deref());
    match (call.originals, handle) {
        (Some((file, _)), Some(handle)) if !args.preview => {
            next.push(format!(
                "longhaul recall --originals {} {handle} prints a removed block",
                file.display()
            ));
        }
        (None, _) => next.push("what was removed is not kept; --originals FILE keeps it".to_owned()),
        _ => {}
    }
    if report.state.ineffective_in_a_row > 0 {
        next.push("this saved under a tenth: most of it is protected, or short already".to_owned());
    }
    if args.preview {
        next.push("this was a preview; without --preview the body is written".to_owned());
    } else if !args.diff {
        next.push("--diff shows by message what went and why".to_owned());
    }
    next
}

/// What went, message by message, and why.
pub(super) fn differences(done: &Done) -> String {
    let report = &done.answer.report;
    let mut page = String::new();
    let body = output::printable(&done.answer.body);
    let _ = writeln!(page, "{STRONG}{body}{STRONG:#}: {}", verdict(report));
    let rows: Vec<[String; 4]> = report.blocks.iter().map(cells).collect();
    let widths: [usize; 4] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    for (block, [at, what, before, after]) in report.blocks.iter().zip(&rows) {
        let (fate, style) = fate(block.fate);
        let _ = writeln!(
            page,
            "  {at:>0$} {what:<1$}   {before:>2$} → {after:>3$} tokens   {style}{fate}{style:#}: {why}",
            widths[0],
            widths[1],
            widths[2],
            widths[3],
            why = output::printable(block.why)
        );
    }
    if let Some(made) = &report.checkpoint {
        let _ = writeln!(page, "  {GOOD}+ checkpoint{GOOD:#} {}", checkpoint(Some(made)));
    }
    page
}

/// A name longer than this is cut; the report for programs has it whole.
const LONGEST_NAME: usize = 40;

fn cells(block: &BlockReport) -> [String; 4] {
    let what = match block.what {
        What::Prompt => "prompt",
        What::Reply => "reply",
        What::Reasoning => "reasoning",
        What::Call => "call",
        What::Result => "result",
        What::Checkpoint => "checkpoint",
        What::Opaque => "opaque",
    };
    let tool: String =
        output::printable(block.tool.as_deref().unwrap_or("")).chars().take(LONGEST_NAME).collect();
    let [before, after] = block.tokens.map(|tokens| tokens.to_string());
    [block.at.to_string(), format!("{what:<9} {tool}").trim_end().to_owned(), before, after]
}

fn fate(fate: Fate) -> (&'static str, Style) {
    match fate {
        Fate::Kept => ("kept", GOOD),
        Fate::Digested => ("digested", FAIR),
        Fate::Recallable => ("recallable", AWAY),
        Fate::Lost => ("lost", BAD),
    }
}
