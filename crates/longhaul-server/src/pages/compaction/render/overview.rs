//! The figures of a compaction: the sizes, the cache, the cost, and the reasons in words.

use longhaul_engine::meter::TokenBreakdown;
use longhaul_engine::tokens::percent;
use maud::{Markup, html};

use crate::pages::compaction::model::CompactionView;
use crate::pages::compaction::{BreakpointRow, ParsedReport};
use crate::pages::{BarPart, Fate, badge, bar, dollars, group_digits, sanitize_line};

/// Renders the figures of a compaction.
#[must_use]
pub fn overview(compaction: &CompactionView) -> Markup {
    let account = &compaction.report;
    html! {
        p.lead { (size_line(account)) }
        p { (reason_line(account)) }
        @if !account.reached {
            p.notice.bad { "The result is larger than the context window or the requested size." }
        }
        ul.tiles { (figure_tiles(account)) }
        div.columns.top {
            section.card { h2 { "Tokens by part" } (parts_table(&compaction.token_breakdowns)) }
            section.card { h2 { "The provider's cache" } (cache_section(compaction)) }
        }
        @if !account.notes.is_empty() {
            section.card {
                h2 { "Notes" }
                ul { @for note in &account.notes { li { (sanitize_line(note)) } } }
            }
        }
    }
}

/// Formats `118,640 → 31,002 tokens (74 % smaller), 301 → 44 messages`.
fn size_line(account: &ParsedReport) -> String {
    let (tokens, messages) = (&account.tokens, account.messages);
    if !account.changed {
        return format!(
            "Nothing changed: {} tokens in {} messages.",
            group_digits(tokens.before),
            group_digits(messages.before)
        );
    }
    format!(
        "{} → {} tokens ({:.0} % smaller), {} → {} messages.",
        group_digits(tokens.before),
        group_digits(tokens.after),
        100.0 * account.ratio,
        group_digits(messages.before),
        group_digits(messages.after),
    )
}

fn reason_line(account: &ParsedReport) -> Markup {
    html! {
        "Engine " b { (sanitize_line(&account.engine)) } ": " (sanitize_line(&account.reason)) ". "
        @if account.changed { "Trigger: " (account.trigger_text()) ". " }
        @if let Some(focus) = &account.focus { "Topic to keep: " b { bdi { (sanitize_line(focus)) } } ". " }
        span.soft { "Tokens are counted by " (sanitize_line(&account.tokens.counted_by)) "." }
    }
}

fn figure_tiles(account: &ParsedReport) -> Markup {
    let (turns, evidence, cost) = (account.units, account.evidence, account.cost);
    let tile = |value: String, label: String| html! { li.tile { b { (value) } span { (label) } } };
    html! {
        (tile(group_digits(account.tokens.before.saturating_sub(account.tokens.after)), "fewer tokens in each request".to_owned()))
        (tile(
            format!("{} kept", group_digits(turns.kept)),
            format!("turns; {} shortened, {} summarized, {} removed", group_digits(turns.shortened), group_digits(turns.summarized), group_digits(turns.removed)),
        ))
        // The gateway does not count facts, to save time.
        @if evidence.found > 0 {
            (tile(
                format!("{} of {}", group_digits(evidence.kept), group_digits(evidence.found)),
                format!("facts are kept; {} can be recalled, {} are lost", group_digits(evidence.recallable), group_digits(evidence.lost)),
            ))
        }
        @if let Some(usd) = cost.usd {
            (tile(dollars(usd), format!("once, for {} uncached tokens", group_digits(cost.uncached_tokens))))
        } @else {
            (tile(group_digits(cost.uncached_tokens), "uncached tokens once; the price is not known".to_owned()))
        }
        @if let Some(usd) = cost.usd_saved_per_turn { (tile(dollars(usd), "less for each later request".to_owned())) }
        (tile(group_digits(account.tokens.minimum_size), "tokens that no compaction can remove (minimum size)".to_owned()))
    }
}

/// Returns the parts of a request with name, colour, and tokens before and after.
fn named_parts([before, after]: &[TokenBreakdown; 2]) -> [(&'static str, usize, [u64; 2]); 8] {
    let row = |name, color, part: fn(&TokenBreakdown) -> u64| (name, color, [part(before), part(after)]);
    [
        row("system prompt", 0, |parts| parts.system.number()),
        row("tool definitions", 7, |parts| parts.tools.number()),
        row("user", 5, |parts| parts.user.number()),
        row("assistant", 1, |parts| parts.assistant.number()),
        row("reasoning", 3, |parts| parts.reasoning.number()),
        row("tool calls", 2, |parts| parts.calls.number()),
        row("tool results", 4, |parts| parts.results.number()),
        row("images, files", 6, |parts| parts.images.number()),
    ]
}

fn parts_table(parts: &[TokenBreakdown; 2]) -> Markup {
    let totals = [0, 1].map(|side| parts[side].total().number());
    let larger_total = totals[0].max(totals[1]) as f64;
    let rows = named_parts(parts);
    let bar_parts = |side: usize| -> Vec<BarPart> {
        rows.iter().map(|(_, color, tokens)| BarPart { color: *color, amount: tokens[side] as f64 }).collect()
    };
    html! {
        @for (side, name) in ["before", "after"].into_iter().enumerate() {
            p.bar.small { span { (name) } (bar(&bar_parts(side), larger_total, &format!("tokens by part, {name}"))) }
        }
        table.plain.full {
            thead { tr { th { "part" } th { "before" } th { "after" } th.right { "change" } } }
            tbody {
                @for (name, color, tokens) in rows.iter().filter(|(_, _, tokens)| tokens[0] + tokens[1] > 0) {
                    tr {
                        td { (swatch(*color)) (name) }
                        @for tokens in tokens { td { (group_digits(*tokens)) } }
                        td.right { (change(*tokens)) }
                    }
                }
                tr.sum { td { "all" } @for total in totals { td { (group_digits(total)) } } td.right { (change(totals)) } }
            }
        }
    }
}

fn swatch(color: usize) -> Markup {
    html! { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect class={ "fill c" (color) } width="10" height="10" rx="2" {} } }
}

/// Formats a change as `−74 %`, or `·` if there is none.
fn change([before, after]: [u64; 2]) -> String {
    match percent(after as f64 - before as f64, before as f64) {
        _ if before == after => "·".to_owned(),
        Some(change) if change < 0.0 => format!("−{:.0} %", -change),
        Some(change) => format!("+{change:.0} %"),
        None => "new".to_owned(),
    }
}

fn cache_section(compaction: &CompactionView) -> Markup {
    let (account, caching) = (&compaction.report, &compaction.caching);
    let tokens = &account.tokens;
    let (cached, uncached) = (tokens.cached.min(tokens.after), tokens.after.saturating_sub(tokens.cached));
    let bar_parts = [BarPart { color: 1, amount: cached as f64 }, BarPart { color: 2, amount: uncached as f64 }];
    html! {
        @if !caching.status.is_empty() { p.small { (sanitize_line(&caching.status)) } }
        p.bar.small { span { "after" } (bar(&bar_parts, tokens.after as f64, "cached and uncached tokens after")) }
        p.small {
            (swatch(1)) b { (group_digits(cached)) } " tokens before the first change stay cached. "
            (swatch(2)) b { (group_digits(uncached)) } " after it are uncached once."
        }
        @if caching.before.is_empty() && caching.after.is_empty() {
            p.small.soft { "No cache breakpoints: the provider decides what it caches." }
        } @else {
            (breakpoint_table("Cache breakpoints before", &caching.before))
            (breakpoint_table("Cache breakpoints after", &caching.after))
        }
    }
}

fn breakpoint_table(title: &str, breakpoints: &[BreakpointRow]) -> Markup {
    html! {
        h3 { (title) }
        @if breakpoints.is_empty() { p.small.soft { "none" } } @else {
            div.wide-table { table.plain.full {
                thead { tr { th { "after" } th { "tokens before it" } th { "lifetime" } th.right { "set by" } } }
                tbody {
                    @for breakpoint in breakpoints {
                        tr {
                            td { (breakpoint.location) }
                            td { (group_digits(breakpoint.tokens.number())) }
                            td { (breakpoint.lifetime) }
                            td.right { (if breakpoint.is_set_by_client { "client" } else { "gateway" }) }
                        }
                    }
                }
            } }
        }
    }
}

/// Renders the legend of the badges, with the number of blocks for each.
pub(super) fn fate_legend(compaction: &CompactionView) -> Markup {
    let meaning = |fate: Fate| match fate {
        Fate::Kept => "unchanged",
        Fate::Shortened => "replaced by a shorter text; open it for the original",
        Fate::Summarized => "removed; the checkpoint summarizes it",
        Fate::Removed => "removed; nothing replaces it",
    };
    html! {
        ul.legend {
            @for fate in Fate::ALL {
                li { (badge(fate)) " " (meaning(fate)) span.soft { " (" (group_digits(compaction.count_blocks(fate) as u64)) " blocks)" } }
            }
        }
    }
}
