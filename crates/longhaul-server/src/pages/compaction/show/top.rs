//! What a compaction came to: the sizes, the cache, the money, and the reasons in words.

use longhaul_engine::meter::Parts;
use longhaul_engine::tokens::percent;
use maud::{Markup, html};

use crate::pages::compaction::model::Compaction;
use crate::pages::compaction::{Account, Breakpoint};
use crate::pages::{Fate, Part, badge, bar, dollars, grouped, shown};

/// What the compaction came to.
#[must_use]
pub fn top(compaction: &Compaction) -> Markup {
    let account = &compaction.account;
    html! {
        p.lead { (verdict(account)) }
        p { (because(account)) }
        @if !account.reached {
            p.notice.bad { "What came out is larger than the window, or than the size that was asked for." }
        }
        ul.tiles { (tiles(account)) }
        div.columns.top {
            section.card { h2 { "Tokens by part" } (parts(&compaction.parts)) }
            section.card { h2 { "What the provider's cache keeps" } (cache(compaction)) }
        }
        @if !account.notes.is_empty() {
            section.card {
                h2 { "Notes" }
                ul { @for note in &account.notes { li { (shown(note)) } } }
            }
        }
    }
}

/// `118,640 → 31,002 tokens (74 % smaller), 301 → 44 messages`.
fn verdict(account: &Account) -> String {
    let (tokens, messages) = (&account.tokens, account.messages);
    if !account.changed {
        return format!(
            "Nothing changed: {} tokens in {} messages.",
            grouped(tokens.before),
            grouped(messages.before)
        );
    }
    format!(
        "{} → {} tokens ({:.0} % smaller), {} → {} messages.",
        grouped(tokens.before),
        grouped(tokens.after),
        100.0 * account.ratio,
        grouped(messages.before),
        grouped(messages.after),
    )
}

fn because(account: &Account) -> Markup {
    html! {
        "Engine " b { (shown(&account.engine)) } ": " (shown(&account.reason)) ". "
        @if account.changed { "What set it off: " (account.occasion()) ". " }
        @if let Some(focus) = &account.focus { "What was to be kept first: " b { bdi { (shown(focus)) } } ". " }
        span.soft { "Tokens are counted by " (shown(&account.tokens.counted_by)) "." }
    }
}

fn tiles(account: &Account) -> Markup {
    let (units, evidence, cost) = (account.units, account.evidence, account.cost);
    let tile = |value: String, says: String| html! { li.tile { b { (value) } span { (says) } } };
    html! {
        (tile(grouped(account.tokens.before.saturating_sub(account.tokens.after)), "tokens less in each request".to_owned()))
        (tile(
            format!("{} kept", grouped(units.kept)),
            format!("of the steps and messages; {} digested, {} folded, {} dropped", grouped(units.digested), grouped(units.summarized), grouped(units.dropped)),
        ))
        // A gateway has no time to count them.
        @if evidence.found > 0 {
            (tile(
                format!("{} of {}", grouped(evidence.kept), grouped(evidence.found)),
                format!("facts are still said; {} can be recalled, {} are lost", grouped(evidence.recallable), grouped(evidence.lost)),
            ))
        }
        @if let Some(usd) = cost.usd {
            (tile(dollars(usd), format!("once, for {} tokens that are read anew", grouped(cost.cold_tokens))))
        } @else {
            (tile(grouped(cost.cold_tokens), "tokens are read anew once; what that costs is not known".to_owned()))
        }
        @if let Some(usd) = cost.usd_saved_per_turn { (tile(dollars(usd), "less for each later request".to_owned())) }
        (tile(grouped(account.tokens.floor), "tokens that no compaction can take away".to_owned()))
    }
}

/// The parts of a request, each with its name and its colour.
fn each([before, after]: &[Parts; 2]) -> [(&'static str, usize, [u64; 2]); 8] {
    let row = |name, color, part: fn(&Parts) -> u64| (name, color, [part(before), part(after)]);
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

fn parts(parts: &[Parts; 2]) -> Markup {
    let totals = [0, 1].map(|side| parts[side].total().number());
    let whole = totals[0].max(totals[1]) as f64;
    let rows = each(parts);
    let drawn = |side: usize| -> Vec<Part> {
        rows.iter().map(|(_, color, tokens)| Part { color: *color, amount: tokens[side] as f64 }).collect()
    };
    html! {
        @for (side, name) in ["before", "after"].into_iter().enumerate() {
            p.bar.small { span { (name) } (bar(&drawn(side), whole, &format!("tokens by part, {name}"))) }
        }
        table.plain.full {
            thead { tr { th { "part" } th { "before" } th { "after" } th.right { "change" } } }
            tbody {
                @for (name, color, tokens) in rows.iter().filter(|(_, _, tokens)| tokens[0] + tokens[1] > 0) {
                    tr {
                        td { (swatch(*color)) (name) }
                        @for tokens in tokens { td { (grouped(*tokens)) } }
                        td.right { (change(*tokens)) }
                    }
                }
                tr.sum { td { "all" } @for total in totals { td { (grouped(total)) } } td.right { (change(totals)) } }
            }
        }
    }
}

fn swatch(color: usize) -> Markup {
    html! { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect class={ "fill c" (color) } width="10" height="10" rx="2" {} } }
}

/// `−74 %`, or `·` where nothing changed.
fn change([before, after]: [u64; 2]) -> String {
    match percent(after as f64 - before as f64, before as f64) {
        _ if before == after => "·".to_owned(),
        Some(change) if change < 0.0 => format!("−{:.0} %", -change),
        Some(change) => format!("+{change:.0} %"),
        None => "new".to_owned(),
    }
}

fn cache(compaction: &Compaction) -> Markup {
    let (account, caching) = (&compaction.account, &compaction.caching);
    let tokens = &account.tokens;
    let (warm, cold) = (tokens.warm.min(tokens.after), tokens.after.saturating_sub(tokens.warm));
    let drawn = [Part { color: 1, amount: warm as f64 }, Part { color: 2, amount: cold as f64 }];
    html! {
        @if !caching.status.is_empty() { p.small { (shown(&caching.status)) } }
        p.bar.small { span { "after" } (bar(&drawn, tokens.after as f64, "cached and uncached tokens after")) }
        p.small {
            (swatch(1)) b { (grouped(warm)) } " tokens before the first change stay cached. "
            (swatch(2)) b { (grouped(cold)) } " behind it are uncached, and read anew once."
        }
        @if caching.before.is_empty() && caching.after.is_empty() {
            p.small.soft { "No breakpoints: what is cached ends where the provider chooses." }
        } @else {
            (breakpoints("Breakpoints before", &caching.before))
            (breakpoints("Breakpoints after", &caching.after))
        }
    }
}

fn breakpoints(title: &str, marks: &[Breakpoint]) -> Markup {
    html! {
        h3 { (title) }
        @if marks.is_empty() { p.small.soft { "none" } } @else {
            div.wide-table { table.plain.full {
                thead { tr { th { "behind" } th { "after tokens" } th { "lives" } th.right { "set by" } } }
                tbody {
                    @for mark in marks {
                        tr {
                            td { (mark.place) }
                            td { (grouped(mark.tokens.number())) }
                            td { (mark.lifetime) }
                            td.right { (if mark.by_client { "client" } else { "gateway" }) }
                        }
                    }
                }
            } }
        }
    }
}

/// What the marks of the list mean.
pub(super) fn legend(compaction: &Compaction) -> Markup {
    let says = |fate: Fate| match fate {
        Fate::Kept => "stands as it stood",
        Fate::Digested => "a shorter text stands in its place; open it for the original",
        Fate::Folded => "taken out; the checkpoint speaks for it",
        Fate::Removed => "taken out; nothing speaks for it",
    };
    html! {
        ul.legend {
            @for fate in Fate::ALL {
                li { (badge(fate)) " " (says(fate)) span.soft { " (" (grouped(compaction.blocks(fate) as u64)) " blocks)" } }
            }
        }
    }
}
