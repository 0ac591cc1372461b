//! `GET /`: all sessions at a glance.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};

use super::fields::Fields;
use super::frame::{Look, Problem};
use super::layout::{
    Page, Refresh, address, clipped, count, filled, maybe_tokens, saved, share, short, since, spent, theirs,
    tile, tokens, unknown, value,
};
use super::model::{Overview, Range, Row, Span, Threshold};
use crate::agents::Moment;
use crate::gateway::Gateway;
use crate::pages::chart::{Along, Chart, Dot, Limit, Line, Point, key};
use crate::pages::{dollars, grouped, lasted, stamp};
use crate::store::Whose;

/// A threshold that lies higher than so many times the largest request is said, and not drawn.
const IN_SIGHT: f64 = 4.0;
/// So many thresholds are drawn.
const DRAWN: usize = 3;

pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    Extension(whose): Extension<Whose>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let range = Range::of(Fields::of(&query.unwrap_or_default()).get("range").unwrap_or_default());
    let overview = gateway.overview(&whose, range).await?;
    let title = overview
        .tenant
        .as_deref()
        .map_or_else(|| "Overview".to_owned(), |name| format!("Overview of {name}"));
    let body = html! {
        header.head {
            h1 { (theirs(&title)) }
            nav.ranges aria-label="Time" {
                @for range in Range::ALL {
                    a href={ "/?range=" (range.name()) } aria-current=[(range == overview.range).then_some("true")] { (range.label()) }
                }
            }
        }
        div id="cards" data-live="" { (cards(&overview)) }
        div id="warnings" data-live="" { (warnings(&overview)) }
        div id="tokens" data-live="" { (tokens_over_time(&overview)) }
        div id="money" data-live="" { (money_over_time(&overview.course)) }
        div id="sessions" data-live="" { (sessions(&overview.sessions, overview.sessions_all, overview.at)) }
    };
    Ok(Page { title: &title, look: &look, refresh: Refresh::Live, body }.respond())
}

fn cards(overview: &Overview) -> Markup {
    let totals = &overview.totals;
    let (before, after) = (totals.tokens_before.number(), totals.tokens_after.number());
    let fewer = if before > 0 { 100.0 * (1.0 - after as f64 / before as f64) } else { 0.0 };
    let held_up = |field: &str, millis: Option<f64>| {
        millis.map_or_else(unknown, |millis| value(field, &millis, &lasted(millis)))
    };
    let breaker = match overview.paused {
        0 => html! { "closed" },
        paused => html! { (count("paused", paused)) " paused" },
    };
    html! {
        ul.tiles.five {
            (tile("Sessions live", &count("sessions_live", overview.sessions_live), &html! { "of " (count("sessions_all", overview.sessions_all)) }))
            (tile("Requests", &count("totals.requests", totals.requests),
                &html! { (count("totals.compacted", totals.compacted)) " compacted, " (count("totals.bypassed", totals.bypassed)) " bypassed" }))
            (tile("Tokens as they came", &tokens("totals.tokens_before", totals.tokens_before), &"all requests together"))
            (tile("Tokens as sent", &tokens("totals.tokens_after", totals.tokens_after), &format!("{fewer:.1} % fewer")))
            (tile("Read from cache", &share("totals.read_share", totals.read_share), &html! { "of " (maybe_tokens(totals.input)) " prompt tokens" }))
            (tile("Spent", &spent("totals.usd_spent", totals.usd_spent), &"where prices are known"))
            (tile("Saved", &saved("totals.usd_saved", totals.usd_saved),
                &if totals.usd_saved.is_some_and(|saved| saved.0 < 0.0) { "a loss so far, compared with no compaction" } else { "compared with no compaction" }))
            (tile("Latency added", &held_up("added_ms.median", overview.added_ms.median),
                &html! { "median; P95 " (held_up("added_ms.p95", overview.added_ms.p95)) }))
            (tile("Breaker", &breaker, &"automatic compaction"))
            (tile("Warnings", &html! { a href="#warnings" { (count("warnings", overview.warnings.len())) } }, &"in the sessions below"))
        }
    }
}

fn warnings(overview: &Overview) -> Markup {
    html! {
        @if let Some(trouble) = &overview.store {
            p.notice.warn { "The store is unavailable, so sessions are compacted from memory, without recall IDs: " (theirs(trouble)) }
        }
        @if !overview.warnings.is_empty() {
            details.notice.warn id="all-warnings" {
                summary { (grouped(overview.warnings.len() as u64)) @if overview.warnings.len() == 1 { " warning" } @else { " warnings" } }
                ul { @for warning in &overview.warnings {
                    li { a href=(address(&warning.session, "")) { (theirs(&warning.session)) } ": " (theirs(&warning.said)) }
                } }
            }
        }
    }
}

fn tokens_over_time(overview: &Overview) -> Markup {
    let course = &overview.course;
    let line = |color: usize, of: &dyn Fn(&Span) -> f64| Line {
        color,
        points: course.iter().map(|span| Point { x: seconds(span.at), y: of(span) }).collect(),
        dots: Vec::new(),
    };
    let mut sent = line(1, &|span| span.tokens_after.number() as f64);
    let compacted = course.iter().enumerate().filter(|(_, span)| span.compacted > 0);
    sent.dots = compacted
        .map(|(at, span)| Dot {
            at,
            number: span.compacted.to_string(),
            says: format!("{} compacted around {}", span.compacted, stamp(span.at.0.div_euclid(1000))),
            link: None,
        })
        .collect();
    let lines = [line(0, &|span| span.tokens_before.number() as f64), sent];
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let names = thresholds(&overview.thresholds);
    let (mut near, far): (Vec<_>, Vec<_>) = names.iter().partition(|(at, _)| *at <= most * IN_SIGHT);
    near.truncate(DRAWN);
    // Several names would stand on one another: they are told below.
    let limits: Vec<Limit<'_>> = match near.as_slice() {
        [(at, name)] => vec![Limit { at: *at, name }],
        several => several.iter().map(|(at, _)| Limit { at: *at, name: "" }).collect(),
    };
    let told = if near.len() > 1 { near.as_slice() } else { &[] };
    let chart = Chart {
        title: "Tokens over time",
        says: "The largest request of each stretch of time, as it came and as it was sent, with the thresholds at which compactions are due.",
        unit: "tokens",
        lines: &lines,
        top: limits.iter().map(|limit| limit.at).fold(most, f64::max) * 1.08,
        limits: &limits,
        label: &short,
        along: Along::Time,
    };
    html! {
        figure {
            h2 { "Tokens over time" }
            @if course.is_empty() { p.soft { "Nothing went through yet." } } @else {
                (chart.draw())
                figcaption {
                    ul.legend {
                        li { (key(0)) "largest request as it came" }
                        li { (key(1)) "largest request as sent; dots: compactions" }
                        @for (at, name) in told { li { "┄ " (theirs(name)) ": " (grouped(*at as u64)) " tokens" } }
                    }
                    @for (at, name) in far { p.small { (theirs(name)) " at " (grouped(*at as u64)) " tokens is far above this." } }
                    (spans(course))
                }
            }
        }
    }
}

/// Each threshold once, with the model that it holds for, or how many they are.
fn thresholds(all: &[Threshold]) -> Vec<(f64, String)> {
    let mut sizes: Vec<_> = all.iter().map(|threshold| threshold.tokens).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let name = |size| {
        let mut models = all.iter().filter(|threshold| threshold.tokens == size);
        match (models.next(), models.count()) {
            (Some(only), 0) => format!("threshold, {}", clipped(&only.model, 40)),
            (_, others) => format!("threshold of {} models", others + 1),
        }
    };
    sizes.into_iter().map(|size| (size.number() as f64, name(size))).collect()
}

/// What is drawn, for who would rather read it.
fn spans(course: &[Span]) -> Markup {
    html! {
        details id="spans" {
            summary { "As a table" }
            div.inner tabindex="0" role="region" aria-label="Requests over time" {
                table.plain.ruled {
                    thead { tr {
                        th scope="col" { "From" } th scope="col" { "Requests" } th scope="col" { "Largest as it came" }
                        th scope="col" { "Largest as sent" } th scope="col" { "Compacted" } th scope="col" { "Spent" } th scope="col" { "Without" }
                    } }
                    tbody { @for span in course { tr {
                        td { (stamp(span.at.0.div_euclid(1000))) }
                        td { (grouped(span.requests as u64)) }
                        td { (grouped(span.tokens_before.number())) }
                        td { (grouped(span.tokens_after.number())) }
                        td { (span.compacted) }
                        td { (spent("", span.usd_spent)) }
                        td.right { (spent("", span.usd_without)) }
                    } } }
                }
            }
        }
    }
}

fn money_over_time(course: &[Span]) -> Markup {
    let known: Vec<(f64, f64, f64)> = course
        .iter()
        .filter_map(|span| Some((seconds(span.at), span.usd_spent?.0, span.usd_without?.0)))
        .collect();
    let running = |color: usize, of: fn(&(f64, f64, f64)) -> f64| {
        let mut sum = 0.0;
        let points = known.iter().map(|span| {
            sum += of(span);
            Point { x: span.0, y: sum }
        });
        Line { color, points: points.collect(), dots: Vec::new() }
    };
    let lines = [running(0, |span| span.2), running(2, |span| span.1)];
    let last = |line: &Line| line.points.last().map_or(0.0, |point| point.y);
    let [without, with] = [last(&lines[0]), last(&lines[1])];
    let chart = Chart {
        title: "Money over time",
        says: "What requests cost, added up, and what they would have cost as they came.",
        unit: "US dollars, added up",
        lines: &lines,
        top: without.max(with) * 1.08,
        limits: &[],
        label: &dollars,
        along: Along::Time,
    };
    html! {
        figure {
            h2 { "Money over time" }
            @if known.is_empty() { p.soft { "Nothing is known of what requests cost." } } @else {
                (chart.draw())
                figcaption {
                    ul.legend {
                        li { (key(2)) "spent: " b { (dollars(with)) } }
                        li { (key(0)) "without compactions: " b { (dollars(without)) } }
                        li { "saved: " (saved("", Some(longhaul_engine::prices::Dollars(without - with)))) }
                    }
                }
            }
        }
    }
}

fn sessions(rows: &[Row], all: usize, now: Moment) -> Markup {
    html! {
        h2 { "Sessions" }
        @if rows.is_empty() {
            p.card { "There is no session yet. Requests of some length that go through this gateway make one." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Sessions" {
                table.full.ruled.stack {
                    thead { tr {
                        th scope="col" { "Session" } th.left scope="col" { "Model" } th scope="col" { "Messages" } th scope="col" { "In the window" }
                        th scope="col" { "Compactions" } th scope="col" { "Read" } th scope="col" { "Spent" } th scope="col" { "Saved" }
                        th scope="col" { "Last seen" } th scope="col" { "Warnings" }
                    } }
                    tbody { @for row in rows { (session(row, now)) } }
                }
            }
            @if all > rows.len() { p.soft { "The newest " (rows.len()) " of " (grouped(all as u64)) " sessions." } }
        }
    }
}

fn session(row: &Row, now: Moment) -> Markup {
    html! {
        tr id={ "session-" (row.name) } {
            th.left.wrap scope="row" {
                a href=(address(&row.name, "")) { (theirs(&row.name)) }
                @if row.live { " " span.badge.live { "live" } }
                @if let Some(title) = &row.title { span.soft.title { (theirs(&clipped(title, 90))) } }
            }
            td.left data-label="Model" { @match &row.model { Some(model) => (theirs(&clipped(model, 60))), None => span.soft { "–" } } }
            td data-label="Messages" { (count("messages", row.messages)) }
            td data-label="In the window" {
                @match row.tokens { Some(size) => (tokens("tokens", size)), None => span.soft { "–" } }
                (filled(row.tokens, row.window))
            }
            td data-label="Compactions" { (count("compactions", row.compactions)) }
            td data-label="Read" { (share("totals.read_share", row.totals.read_share)) }
            td data-label="Spent" { (spent("totals.usd_spent", row.totals.usd_spent)) }
            td data-label="Saved" { (saved("totals.usd_saved", row.totals.usd_saved)) }
            td data-label="Last seen" { (since(row.updated, now)) }
            td data-label="Warnings" {
                @match row.warnings.len() + usize::from(row.paused.is_some()) {
                    0 => span.soft { "none" },
                    number => a href=(address(&row.name, "#warnings")) { (number) },
                }
            }
        }
    }
}

fn seconds(at: Moment) -> f64 {
    at.0 as f64 / 1000.0
}
