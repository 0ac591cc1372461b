//! `GET /sessions/{name}`: one session, its course, its compactions, and what can be done with it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};

use super::fields::Fields;
use super::forms::{compress_form, search_form};
use super::frame::{Look, Problem};
use super::layout::{
    Page, Refresh, address, clipped, clock, count, filled, maybe_tokens, saved, share, short, since, spent,
    theirs, tile, tokens, value,
};
use super::model::{EpochRow, Request, Requests, SessionView};
use crate::agents::Moment;
use crate::gateway::Gateway;
use crate::pages::chart::{Along, Chart, Dot, Limit, Line, key};
use crate::pages::{dollars, grouped, lasted};
use crate::session::UNDO_HOLDS;
use crate::store::Whose;

/// A threshold that lies higher than so many times the largest request is said, and not drawn.
const IN_SIGHT: f64 = 4.0;

/// What was done, as an address says it: nobody else's words.
const DONE: [(&str, &str); 4] = [
    ("undone", "The newest compaction was taken back."),
    ("redone", "The compaction is in force again."),
    ("nowhere", "There is nothing on that side."),
    ("compressed", "The session was compacted; its next request goes out smaller."),
];

pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let fields = Fields::of(&query.unwrap_or_default());
    let page = fields.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    let view = gateway.view(&whose, &name, page).await?;
    let done = DONE.iter().find(|(word, _)| fields.get("done") == Some(word));
    let (row, now) = (&view.row, gateway.now());
    let body = html! {
        p.crumbs { a href="/" { "Overview" } }
        h1 { "Session " (theirs(&row.name)) @if row.live { " " span.badge.live { "live" } } }
        @if let Some(title) = &row.title { p.soft.title { (theirs(&clipped(title, 300))) } }
        @if let Some((_, said)) = done { p.notice role="status" { (said) } }
        div id="cards" data-live="" { (cards(&view, now)) }
        div id="warnings" data-live="" { (warnings(&view)) }
        div id="timeline" data-live="" { (timeline(&view)) }
        div.pair {
            (compress_form(&row.name, None))
            (search_form(&row.name, "", &html! { h2 { "Search" } }))
        }
        div id="epochs" data-live="" { (epochs(&view)) }
        div id="requests" data-live="" { (requests(&row.name, &view.requests, row.totals.requests)) }
    };
    let title = format!("Session {}", row.name);
    Ok(Page { title: &title, look: &look, refresh: Refresh::Live, body }.respond())
}

fn cards(view: &SessionView, now: Moment) -> Markup {
    let (row, totals) = (&view.row, &view.row.totals);
    let session = |name: &String| html! { a href=(address(name, "")) { (theirs(name)) } };
    html! {
        ul.tiles.four {
            (tile("In the window", &html! { @match row.tokens { Some(size) => (tokens("tokens", size)), None => "–" } },
                &html! { "of " (maybe_tokens(row.window)) (filled(row.tokens, row.window)) }))
            (tile("Messages", &count("messages", row.messages), &html! { (count("totals.requests", totals.requests)) " requests" }))
            (tile("Compactions", &count("compactions", row.compactions),
                &html! { @match row.epoch { Some(epoch) => { "number " (count("epoch", epoch)) " in force" }, None => "none in force" } }))
            (tile("Tokens, all requests", &tokens("totals.tokens_after", totals.tokens_after),
                &html! { "as sent, of " (tokens("totals.tokens_before", totals.tokens_before)) " as they came" }))
            (tile("Read from cache", &share("totals.read_share", totals.read_share), &html! { "of " (maybe_tokens(totals.input)) " prompt tokens" }))
            (tile("Spent", &spent("totals.usd_spent", totals.usd_spent), &"where prices are known"))
            (tile("Saved", &saved("totals.usd_saved", totals.usd_saved),
                &if totals.usd_saved.is_some_and(|saved| saved.0 < 0.0) { "a loss so far, compared with no compaction" } else { "compared with no compaction" }))
            (tile("Latency added", &html! { @match view.added_ms.median { Some(ms) => (value("added_ms.median", &ms, &lasted(ms))), None => "–" } },
                &html! { "median" @if let Some(ms) = view.added_ms.p95 { "; P95 " (value("added_ms.p95", &ms, &lasted(ms))) } }))
        }
        dl.facts {
            dt { "Model" } dd { @match &row.model { Some(model) => (theirs(model)), None => "not named" } }
            dt { "Written as" } dd { (row.dialect) }
            dt { "Whose" } dd { (theirs(&row.tenant)) }
            dt { "Began" } dd { (clock(row.created)) ", " (view.reason) @if let Some(parent) = &view.parent { ", from " (session(parent)) } }
            dt { "Last seen" } dd { (since(row.updated, now)) }
            @if !view.children.is_empty() {
                dt { "Goes on in" } dd { @for child in &view.children { (session(child)) " " } }
            }
        }
    }
}

fn warnings(view: &SessionView) -> Markup {
    html! {
        @if view.held { p.notice { "A compaction was taken back by hand; " (UNDO_HOLDS) "." } }
        @for said in view.row.paused.iter().chain(&view.row.warnings) { p.notice.warn { (theirs(said)) } }
    }
}

fn timeline(view: &SessionView) -> Markup {
    let course = &view.course;
    let mut sent = Line::of_requests(1, course.iter().map(|point| point.tokens_after.number() as f64));
    sent.dots = view.epochs.iter().filter_map(|epoch| dot(&view.row.name, epoch)).collect();
    let read = course.iter().map(|point| point.cache_read.unwrap_or_default().number() as f64);
    let lines = [
        Line::of_requests(0, course.iter().map(|point| point.tokens_before.number() as f64)),
        Line::of_requests(5, read),
        sent,
    ];
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let threshold = view.row.threshold.map(|threshold| threshold.number() as f64);
    let limits: Vec<Limit<'_>> = threshold
        .filter(|threshold| *threshold <= most * IN_SIGHT)
        .map(|at| Limit { at, name: "threshold" })
        .into_iter()
        .collect();
    let first = course.first().map_or(Moment(0), |point| point.at);
    let after = |at: usize| match course.get(at) {
        _ if at == 0 => "0 s".to_owned(),
        Some(point) => lasted(point.at.seconds_since(first) * 1000.0),
        None => String::new(),
    };
    let chart = Chart {
        title: "Tokens of each request",
        says: "The tokens of each request as it came and as it was sent, what of it the provider read from its cache, the threshold, and the compactions by their numbers.",
        unit: "tokens",
        lines: &lines,
        top: limits.iter().map(|limit| limit.at).fold(most, f64::max) * 1.08,
        limits: &limits,
        label: &short,
        along: Along::Requests(&after),
    };
    html! {
        figure {
            h2 { "Tokens of each request" }
            @if course.is_empty() { p.soft { "Nothing of this session went through this gateway." } } @else {
                (chart.draw())
                figcaption {
                    ul.legend {
                        li { (key(0)) "as it came" }
                        li { (key(1)) "as sent; dots: compactions" }
                        li { (key(5)) "read from the provider's cache" }
                    }
                    @if let Some(far) = threshold.filter(|_| limits.is_empty()) {
                        p.small { "The threshold of " (grouped(far as u64)) " tokens is far above this." }
                    }
                    p.small { a href="#requests" { "As a table" } }
                }
            }
        }
    }
}

fn dot(session: &str, epoch: &EpochRow) -> Option<Dot> {
    let number = epoch.number;
    Some(Dot {
        at: epoch.request?.checked_sub(1)?,
        number: number.to_string(),
        says: format!(
            "compaction {number}: {} → {} tokens",
            maybe_tokens(epoch.tokens_before),
            maybe_tokens(epoch.tokens_after)
        ),
        link: Some(address(session, &format!("/epochs/{number}"))),
    })
}

fn epochs(view: &SessionView) -> Markup {
    let name = &view.row.name;
    html! {
        div.head {
            h2 { "Compactions" }
            form.row method="post" action=(address(name, "/undo")) { button type="submit" disabled[view.row.epoch.is_none()] { "Undo" } }
            form.row method="post" action=(address(name, "/redo")) { button type="submit" { "Redo" } }
        }
        @if view.epochs.is_empty() { p.card.soft { "Nothing of this session was compacted." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Compactions" {
                table.full.ruled.stack {
                    thead { tr {
                        th scope="col" { "Number" } th.left scope="col" { "When" } th.left scope="col" { "Set off by" } th scope="col" { "Tokens" }
                        th scope="col" { "Messages" } th scope="col" { "Read anew" } th scope="col" { "Costs once" } th scope="col" { "Saves a turn" } th scope="col" { "Why" }
                    } }
                    tbody { @for epoch in view.epochs.iter().rev() { (epoch_row(name, epoch)) } }
                }
            }
        }
    }
}

/// `12 → 3`, where both are known.
fn change(before: Option<u64>, after: Option<u64>) -> String {
    match before.zip(after) {
        Some((before, after)) => format!("{} → {}", grouped(before), grouped(after)),
        None => "–".to_owned(),
    }
}

fn epoch_row(session: &str, epoch: &EpochRow) -> Markup {
    let number = |tokens: Option<longhaul_engine::Tokens>| tokens.map(longhaul_engine::Tokens::number);
    let money = |amount: Option<f64>| amount.map_or_else(|| "–".to_owned(), dollars);
    html! {
        tr {
            th.left scope="row" {
                a href=(address(session, &format!("/epochs/{}", epoch.number))) { "Compaction " (epoch.number) }
                @if epoch.head { " " span.badge.folded { "in force" } }
            }
            td.left data-label="When" { (clock(epoch.at)) }
            td.left data-label="Set off by" { (theirs(epoch.trigger.as_deref().unwrap_or("–"))) }
            td data-label="Tokens" { (change(number(epoch.tokens_before), number(epoch.tokens_after))) }
            td data-label="Messages" { (change(epoch.messages_before, epoch.messages_after)) }
            td data-label="Read anew" { (maybe_tokens(epoch.cold_tokens)) }
            td data-label="Costs once" { (money(epoch.usd_once)) }
            td data-label="Saves a turn" { (money(epoch.usd_saved_per_turn)) }
            td.wrap data-label="Why" {
                (theirs(&clipped(epoch.reason.as_deref().unwrap_or("–"), 300)))
                @if let Some(focus) = &epoch.focus { " Focus: " (theirs(&clipped(focus, 200))) }
            }
        }
    }
}

fn requests(name: &str, page: &Requests, all: usize) -> Markup {
    let to = |number: usize| address(name, &format!("?page={number}#requests"));
    html! {
        h2 { "Requests" }
        @if page.rows.is_empty() { p.card.soft { "None went through this gateway." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Requests" {
                table.full.ruled {
                    thead { tr {
                        th scope="col" { "Number" } th.left scope="col" { "When" } th.left scope="col" { "Done" } th scope="col" { "As it came" } th scope="col" { "As sent" }
                        th scope="col" { "Prompt" } th scope="col" { "Read" } th scope="col" { "Output" } th scope="col" { "Cost" } th scope="col" { "Without" }
                        th scope="col" { "Added" } th scope="col" { "Took" } th scope="col" { "Cache" }
                    } }
                    tbody { @for request in &page.rows { (request_row(request)) } }
                }
            }
            nav.pages aria-label="Pages of requests" {
                @if page.page > 1 { a href=(to(page.page - 1)) rel="prev" { "Newer" } }
                span { "Page " (page.page) " of " (page.pages) ", " (grouped(all as u64)) " requests" }
                @if page.page < page.pages { a href=(to(page.page + 1)) rel="next" { "Older" } }
            }
        }
    }
}

fn request_row(request: &Request) -> Markup {
    html! {
        tr {
            td { (request.number) }
            td.left { (clock(request.at)) }
            td.left { (theirs(&clipped(&request.action, 60))) }
            td { (grouped(request.tokens_before.number())) }
            td { (grouped(request.tokens_after.number())) }
            td { (maybe_tokens(request.input)) }
            td { (maybe_tokens(request.cache_read)) }
            td { (maybe_tokens(request.output)) }
            td { (spent("", request.usd)) }
            td { (spent("", request.usd_without)) }
            td { (lasted(request.added_ms)) }
            td { (lasted(request.took_ms)) }
            td.wrap { (theirs(request.broke.as_deref().unwrap_or(""))) }
        }
    }
}
