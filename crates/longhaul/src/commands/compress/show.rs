//! A compaction as people read it: what it did at a glance, and what each number means.

use longhaul_engine::plan::{CheckpointReport, Report, Step, WrittenBy};
use longhaul_engine::prices::Dollars;
use longhaul_engine::summary::{Finding, Mended};
use longhaul_engine::{Tokens, tokens};

use super::job::{Call, Done};
use crate::output::{AWAY, BAD, FAINT, FAIR, GOOD, Line, Page, STRONG};
use crate::store;

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
pub(super) fn page(call: &Call<'_>, done: &Done) -> Page {
    let report = &done.answer.report;
    let mut page = Page::default();
    let mut row = |label: &str, fill: &dyn Fn(Line) -> Line| {
        page.line(fill(Line::from("  ").styled(STRONG, format!("{label:<11}")).plain(" ")));
    };
    if report.changed {
        row("tokens", &|line| bar(line, report));
        row("steps", &|line| steps(line, report));
        row("evidence", &|line| evidence(line, report));
        row("checkpoint", &|line| match &report.checkpoint {
            Some(made) => checkpoint(line, made, &report.findings),
            None => line.plain("none: nothing was folded"),
        });
    }
    let floor = report.tokens.floor;
    row("floor", &|line| line.plain(format!("{floor} tokens that no compaction can take away")));
    if let (Some(once), Some(saved)) = (report.cost.usd, report.cost.usd_saved_per_turn) {
        let (once, saved) = (Dollars(once), Dollars(saved));
        row("cost", &|line| {
            line.plain(format!("{once} once, for what is re-billed; {saved} less for each request after it"))
        });
    }
    if let Some(topic) = &report.focus {
        row("focus", &|line| line.plain(topic));
    }
    for rung in &report.ladder {
        let text = format!("{}, {} → {} tokens", step(rung.step), rung.tokens[0], rung.tokens[1]);
        row("too large", &|line| line.plain(&text));
    }
    for note in &report.notes {
        row("note", &|line| line.styled(FAIR, note));
    }
    if let Some(kept) = kept(done) {
        row("kept", &|line| line.plain(&kept));
    }
    for advice in next(call, done) {
        row("next", &|line| line.plain(&advice));
    }
    page
}

/// Before as one bar: what stays cached, what is re-billed, what went.
fn bar(line: Line, report: &Report) -> Line {
    let (before, after) = (report.tokens.before, report.tokens.after);
    let (warm, cold) = (report.tokens.warm.min(after), report.cost.cold_tokens);
    let gone = before - after;
    let cells = |part: Tokens| (part.number() * BAR + before.number() / 2) / before.number().max(1);
    let (warm_cells, kept_cells) = (cells(warm), cells(after).max(cells(warm)));
    let drawn = |sign: &str, cells: u64| sign.repeat(cells as usize);
    line.styled(GOOD, drawn("█", warm_cells))
        .styled(FAIR, drawn("▓", kept_cells - warm_cells))
        .styled(FAINT, drawn("░", BAR.saturating_sub(kept_cells)))
        .styled(GOOD, "  █")
        .plain(format!(" {warm} stay cached"))
        .styled(FAIR, "  ▓")
        .plain(format!(" {cold} re-billed once"))
        .styled(FAINT, "  ░")
        .plain(format!(" {gone} gone"))
}

/// `1 section`, `3 sections`.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

fn steps(mut line: Line, report: &Report) -> Line {
    let units = &report.units;
    let parts = [
        (units.kept, "kept", GOOD),
        (units.digested, "digested", FAIR),
        (units.summarized, "folded into the checkpoint", FAIR),
        (units.dropped, "removed", BAD),
    ];
    for (at, (count, what, style)) in parts.iter().filter(|(count, ..)| *count > 0).enumerate() {
        line = line.plain(if at > 0 { ", " } else { "" }).styled(*style, format!("{count} {what}"));
    }
    line.plain(" (steps and messages)")
}

fn evidence(line: Line, report: &Report) -> Line {
    let evidence = &report.evidence;
    let number = |count: usize| tokens::grouped(count as u64);
    // A checkpoint counts what there was to hand over, a digest the facts of its output.
    let (what, kept) = match report.checkpoint {
        Some(_) => ("things to hand over", "said"),
        None => ("facts in what changed", "kept"),
    };
    line.plain(format!("{} {what}: ", number(evidence.found)))
        .styled(GOOD, format!("{} {kept}", number(evidence.kept)))
        .plain(", ")
        .styled(AWAY, format!("{} recallable", number(evidence.recallable)))
        .plain(", ")
        .styled(if evidence.lost > 0 { BAD } else { FAINT }, format!("{} lost", number(evidence.lost)))
}

/// What is to be known of a checkpoint.
pub(super) fn checkpoint(line: Line, checkpoint: &CheckpointReport, findings: &[Finding]) -> Line {
    let CheckpointReport { by, tokens, sections } = checkpoint;
    let sections = counted(*sections, "section");
    match by {
        WrittenBy::Code => line.plain(format!("{tokens} tokens in {sections}, written by code")),
        WrittenBy::Model => {
            let count = |what: Mended| findings.iter().filter(|finding| finding.action == what).count();
            let (out, back) = (count(Mended::TakenOut), count(Mended::PutBack));
            line.plain(format!(
                "{tokens} tokens in {sections}, from a summary: {out} taken out, {back} put back"
            ))
        }
        WrittenBy::Plugin => line.plain(format!("{tokens} tokens in {sections}, in the engine's own words")),
        WrittenBy::Fallback => {
            line.styled(BAD, "degraded: only a count of what is missing").plain(format!(", {tokens} tokens"))
        }
    }
}

fn step(step: Step) -> &'static str {
    match step {
        Step::DigestAll => "every output outside the protected zone became a line",
        Step::DropOldest => "the oldest steps were removed",
        Step::Restart => "a new session begins with what was said first and last",
    }
}

/// Where the store has it.
pub(super) fn kept(done: &Done) -> Option<String> {
    let whose = done.answer.whose.as_ref()?;
    Some(match (&whose.session, whose.epoch) {
        (Some(session), Some(epoch)) => format!("session {session} of the store, epoch {epoch}"),
        (Some(session), None) => format!("session {session} of the store"),
        (None, _) => "a session of its own, if this was no preview".to_owned(),
    })
}

/// What a person may want to do now.
fn next(call: &Call<'_>, done: &Done) -> Vec<String> {
    let (args, report) = (call.args, &done.answer.report);
    let mut next = Vec::new();
    if !report.changed {
        if !args.wanted.force && args.wanted.to_tokens.is_none() {
            next.push("--to-tokens N asks for a size, --force compacts all the same".to_owned());
        }
        return next;
    }
    let handle = report.blocks.iter().find_map(|block| block.handle.as_deref());
    let session = done.answer.whose.as_ref().and_then(|whose| whose.session.as_ref());
    if let (Some(session), false) = (session, args.is_preview()) {
        let place = store::option(args.told.place.store.as_deref());
        next.extend(handle.map(|handle| format!("longhaul recall {handle}{place} prints a removed block")));
        next.push(format!("longhaul undo {session}{place} takes the newest compaction back"));
    }
    match (call.originals, handle) {
        _ if call.recording.is_some() => {}
        (Some((file, _)), Some(handle)) if !args.is_preview() => {
            next.push(format!(
                "longhaul recall --originals {} {handle} prints a removed block",
                file.display()
            ));
        }
        (None, _) => {
            next.push("what was removed is not kept; --store or --originals FILE keeps it".to_owned());
        }
        _ => {}
    }
    if report.state.ineffective_in_a_row > 0 {
        next.push("this saved under a tenth: most of it is protected, or short already".to_owned());
    }
    if args.preview {
        next.push("this was a preview; without --preview the body is written".to_owned());
    }
    if !args.diff {
        next.push("--diff shows step by step what went and why".to_owned());
    }
    if report.checkpoint.is_some() && args.show.is_none() {
        next.push("--show checkpoint prints the checkpoint".to_owned());
    }
    next
}
