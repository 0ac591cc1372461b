//! The report of a compaction for a terminal.

use longhaul_engine::plan::{CheckpointReport, CompactionReport, EscalationAction, WrittenBy};
use longhaul_engine::prices::Dollars;
use longhaul_engine::summary::{AuditAction, AuditFinding};
use longhaul_engine::{Tokens, tokens};

use super::compact_request::{CompressResult, CompressRun};
use crate::output::{
    EMPHASIS_STYLE, ERROR_STYLE, Page, RECALLABLE_STYLE, SECONDARY_STYLE, SUCCESS_STYLE, StyledLine, WARNING_STYLE,
    pluralize,
};
use crate::store;

/// The width of the token bar, in characters.
const BAR_CELLS: u64 = 30;

/// Returns two lines for those who read no further: the size before with the reason, and the result.
pub(super) fn headlines(result: &CompressResult) -> [String; 2] {
    let report = &result.output.report;
    let share = 100.0 * report.tokens.before.number() as f64 / result.window.number().max(1) as f64;
    let (window, engine, reason) = (result.window, report.engine.name(), &report.reason);
    let start = format!("{} tokens, {share:.0} % of the window of {window}; {engine}: {reason}", report.tokens.before);
    [start, size_summary(report)]
}

/// Describes the sizes before and after in one line.
pub(super) fn size_summary(report: &CompactionReport) -> String {
    if !report.changed {
        return "nothing changed".to_owned();
    }
    let (tokens, messages, saved) = (&report.tokens, &report.messages, 100.0 * report.ratio);
    format!(
        "{} → {} tokens ({saved:.0} % smaller), {} → {} messages",
        tokens.before, tokens.after, messages.before, messages.after
    )
}

/// Renders the details below the headlines.
pub(super) fn page(run: &CompressRun<'_>, result: &CompressResult) -> Page {
    let report = &result.output.report;
    let mut page = Page::default();
    let mut row = |label: &str, fill: &dyn Fn(StyledLine) -> StyledLine| {
        page.add_line(fill(StyledLine::from("  ").styled(EMPHASIS_STYLE, format!("{label:<11}")).plain(" ")));
    };
    if report.changed {
        row("tokens", &|line| token_bar(line, report));
        row("turns", &|line| turn_counts(line, report));
        row("evidence", &|line| evidence_line(line, report));
        row("checkpoint", &|line| match &report.checkpoint {
            Some(checkpoint) => checkpoint_line(line, checkpoint, &report.findings),
            None => line.plain("none: nothing was summarized"),
        });
    }
    let minimum_size = report.tokens.floor;
    row("minimum", &|line| line.plain(format!("{minimum_size} tokens that no compaction can remove")));
    if let (Some(once), Some(saved)) = (report.cost.usd, report.cost.usd_saved_per_turn) {
        let (once, saved) = (Dollars(once), Dollars(saved));
        row("cost", &|line| line.plain(format!("{once} once, for cache writes; {saved} less for each later request")));
    }
    if let Some(topic) = &report.focus {
        row("focus", &|line| line.plain(topic));
    }
    for rung in &report.ladder {
        let text = format!("{}, {} → {} tokens", escalation_text(rung.step), rung.tokens[0], rung.tokens[1]);
        row("too large", &|line| line.plain(&text));
    }
    for note in &report.notes {
        row("note", &|line| line.styled(WARNING_STYLE, note));
    }
    if let Some(reference) = compaction_ref_text(run, result) {
        row("kept", &|line| line.plain(&reference));
    }
    for advice in next_steps(run, result) {
        row("next", &|line| line.plain(&advice));
    }
    page
}

/// Draws the old request as one bar: the part that stays cached, the part that is written to the cache again,
/// and the removed part.
fn token_bar(line: StyledLine, report: &CompactionReport) -> StyledLine {
    let (before, after) = (report.tokens.before, report.tokens.after);
    let (cached, uncached) = (report.tokens.warm.min(after), report.cost.cold_tokens);
    let removed = before - after;
    let cells = |part: Tokens| (part.number() * BAR_CELLS + before.number() / 2) / before.number().max(1);
    let (cached_cells, kept_cells) = (cells(cached), cells(after).max(cells(cached)));
    let drawn = |cell: &str, cells: u64| cell.repeat(cells as usize);
    line.styled(SUCCESS_STYLE, drawn("█", cached_cells))
        .styled(WARNING_STYLE, drawn("▓", kept_cells - cached_cells))
        .styled(SECONDARY_STYLE, drawn("░", BAR_CELLS.saturating_sub(kept_cells)))
        .styled(SUCCESS_STYLE, "  █")
        .plain(format!(" {cached} stay cached"))
        .styled(WARNING_STYLE, "  ▓")
        .plain(format!(" {uncached} written to the cache again"))
        .styled(SECONDARY_STYLE, "  ░")
        .plain(format!(" {removed} removed"))
}

fn turn_counts(mut line: StyledLine, report: &CompactionReport) -> StyledLine {
    let turns = &report.units;
    let parts = [
        (turns.kept, "kept", SUCCESS_STYLE),
        (turns.digested, "shortened", WARNING_STYLE),
        (turns.summarized, "summarized into the checkpoint", WARNING_STYLE),
        (turns.dropped, "removed", ERROR_STYLE),
    ];
    for (at, (count, what, style)) in parts.iter().filter(|(count, ..)| *count > 0).enumerate() {
        line = line.plain(if at > 0 { ", " } else { "" }).styled(*style, format!("{count} {what}"));
    }
    line
}

fn evidence_line(line: StyledLine, report: &CompactionReport) -> StyledLine {
    let evidence = &report.evidence;
    let number = |count: usize| tokens::group_digits(count as u64);
    // With a checkpoint, the report counts the candidates for the checkpoint. Without one, it counts the
    // facts in shortened outputs.
    let (what, kept) = match report.checkpoint {
        Some(_) => ("candidates for the checkpoint", "included"),
        None => ("facts in changed texts", "kept"),
    };
    line.plain(format!("{} {what}: ", number(evidence.found)))
        .styled(SUCCESS_STYLE, format!("{} {kept}", number(evidence.kept)))
        .plain(", ")
        .styled(RECALLABLE_STYLE, format!("{} recallable", number(evidence.recallable)))
        .plain(", ")
        .styled(
            if evidence.lost > 0 { ERROR_STYLE } else { SECONDARY_STYLE },
            format!("{} lost", number(evidence.lost)),
        )
}

/// Describes the checkpoint: its size, its author, and the corrections of the audit.
pub(super) fn checkpoint_line(
    line: StyledLine,
    checkpoint: &CheckpointReport,
    findings: &[AuditFinding],
) -> StyledLine {
    let CheckpointReport { by, tokens, sections } = checkpoint;
    let sections = pluralize(*sections, "section");
    match by {
        WrittenBy::Code => line.plain(format!("{tokens} tokens in {sections}, written by our own code")),
        WrittenBy::Model => {
            let count = |what: AuditAction| findings.iter().filter(|finding| finding.action == what).count();
            let (out, back) = (count(AuditAction::Removed), count(AuditAction::Restored));
            line.plain(format!("{tokens} tokens in {sections}, from a model's summary: {out} removed, {back} restored"))
        }
        WrittenBy::Plugin => line.plain(format!("{tokens} tokens in {sections}, in the engine's own words")),
        WrittenBy::Fallback => {
            line.styled(ERROR_STYLE, "degraded: only a count of what is missing").plain(format!(", {tokens} tokens"))
        }
    }
}

fn escalation_text(step: EscalationAction) -> &'static str {
    match step {
        EscalationAction::DigestAll => "every output outside the protected zone was shortened to one line",
        EscalationAction::DropOldest => "the oldest turns were removed",
        EscalationAction::Restart => "a new session starts with the first and the last messages",
    }
}

/// Names the session in the store, and the number of the compaction. Returns `None` without a store, and for a
/// compaction that was not stored: a note explains why.
pub(super) fn compaction_ref_text(run: &CompressRun<'_>, result: &CompressResult) -> Option<String> {
    let compaction_ref = result.output.compaction_ref.as_ref()?;
    match (&compaction_ref.session, compaction_ref.number) {
        (Some(session), Some(compaction)) => Some(format!("session {session} of the store, compaction {compaction}")),
        (Some(session), None) => Some(format!("session {session} of the store")),
        (None, _) if run.args.is_preview() => Some("a new session (a preview creates none)".to_owned()),
        (None, _) => None,
    }
}

/// Suggests commands and options that may help the user now.
fn next_steps(run: &CompressRun<'_>, result: &CompressResult) -> Vec<String> {
    let (args, report) = (run.args, &result.output.report);
    let mut next = Vec::new();
    if !report.changed {
        if !args.compaction.force && args.compaction.to_tokens.is_none() {
            next.push("--to-tokens N requests a size, --force compacts anyway".to_owned());
        }
        return next;
    }
    let recall_id = report.blocks.iter().find_map(|block| block.handle.as_deref());
    let session = result.output.compaction_ref.as_ref().and_then(|compaction_ref| compaction_ref.session.as_ref());
    if let (Some(session), false) = (session, args.is_preview()) {
        let store_option = store::store_option(args.input.store_flags.store.as_deref());
        next.extend(
            recall_id.map(|recall_id| format!("longhaul recall {recall_id}{store_option} prints a removed block")),
        );
        next.push(format!("longhaul undo {session}{store_option} undoes the newest compaction"));
    }
    match (run.originals_file, recall_id) {
        _ if run.store_access.is_some() => {}
        (Some((file, _)), Some(recall_id)) if !args.is_preview() => {
            next.push(format!("longhaul recall --originals {} {recall_id} prints a removed block", file.display()));
        }
        (None, _) => {
            next.push("removed text is not kept; --store or --originals FILE keeps it".to_owned());
        }
        _ => {}
    }
    if report.state.ineffective_in_a_row > 0 {
        next.push("this saved less than a tenth: most of the request is protected or already short".to_owned());
    }
    if args.preview {
        next.push("this was a preview; without --preview the request is written".to_owned());
    }
    if !args.diff {
        next.push("--diff shows each change and its reason".to_owned());
    }
    if report.checkpoint.is_some() && args.show.is_none() {
        next.push("--show checkpoint prints the checkpoint".to_owned());
    }
    next
}
