//! `GET /sessions/{name}`: one session with its totals, a timeline, its compactions and requests, and the
//! forms that act on it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};

use super::form_fields::FormFields;
use super::forms::{compress_form, search_form};
use super::layout::{
    Page, Refresh, api_value, axis_tokens, count, saved, session_url, share, spent, tile, time_since, timestamp,
    tokens, tokens_or_dash, truncate_chars, untrusted, window_bar,
};
use super::middleware::{DashboardError, PageContext};
use super::model::{CompactionRow, RequestPage, RequestRow, SessionDetails};
use crate::gateway::Gateway;
use crate::pages::chart::{Chart, ChartLine, Dot, LimitLine, XAxis, legend_key};
use crate::pages::{dollars, format_duration, group_digits};
use crate::session::UNDO_PROMISE;
use crate::store::TenantScope;
use longhaul_engine::Timestamp;

/// The largest ratio of the threshold to the largest request at which the chart draws the threshold. A higher
/// one would flatten the lines, so the caption gives it instead. Chosen by hand.
const MAX_THRESHOLD_RATIO: f64 = 4.0;

/// The notices by their word in the address (`?done=`), so that an address cannot put its own text on the
/// page.
const ACTION_NOTICES: [(&str, &str); 4] = [
    ("undone", "The newest compaction was undone."),
    ("redone", "The compaction is active again."),
    ("nothing", "There is nothing to undo or redo."),
    ("compressed", "The session was compacted; its next request will be smaller."),
];

pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, DashboardError> {
    let fields = FormFields::parse(&query.unwrap_or_default());
    let page = fields.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    let view = gateway.load_session(&scope, &name, page).await?;
    let done = ACTION_NOTICES.iter().find(|(word, _)| fields.get("done") == Some(word));
    let (row, now) = (&view.row, gateway.now());
    let body = html! {
        p.crumbs { a href="/" { "Overview" } }
        h1 { "Session " (untrusted(&row.name)) @if row.live { " " span.badge.live { "live" } } }
        @if let Some(title) = &row.title { p.soft.title { (untrusted(&truncate_chars(title, 300))) } }
        @if let Some((_, notice)) = done { p.notice role="status" { (notice) } }
        div id="cards" data-live="" { (cards(&view, now)) }
        div id="warnings" data-live="" { (warnings(&view)) }
        div id="timeline" data-live="" { (timeline(&view)) }
        div.pair {
            (compress_form(&row.name, None))
            (search_form(&row.name, "", &html! { h2 { "Search" } }))
        }
        div id="epochs" data-live="" { (compaction_table(&view)) }
        div id="requests" data-live="" { (request_table(&row.name, &view.requests, row.totals.requests)) }
    };
    let title = format!("Session {}", row.name);
    Ok(Page { title: &title, context: &context, refresh: Refresh::Live, body }.respond())
}

fn cards(view: &SessionDetails, now: Timestamp) -> Markup {
    let (row, totals) = (&view.row, &view.row.totals);
    let session = |name: &String| html! { a href=(session_url(name, "")) { (untrusted(name)) } };
    html! {
        ul.tiles.four {
            (tile("Window used", &html! { @match row.tokens { Some(size) => (tokens("tokens", size)), None => "–" } },
                &html! { "of " (tokens_or_dash(row.window)) (window_bar(row.tokens, row.window)) }))
            (tile("Messages", &count("messages", row.messages), &html! { (count("totals.requests", totals.requests)) " requests" }))
            (tile("Compactions", &count("compactions", row.compactions),
                &html! { @match row.active_compaction { Some(number) => { "number " (count("epoch", number)) " active" }, None => "none active" } }))
            (tile("Tokens, all requests", &tokens("totals.tokens_after", totals.tokens_after),
                &html! { "sent, of " (tokens("totals.tokens_before", totals.tokens_before)) " received" }))
            (tile("Read from cache", &share("totals.read_share", totals.read_share), &html! { "of " (tokens_or_dash(totals.input)) " input tokens" }))
            (tile("Spent", &spent("totals.usd_spent", totals.usd_spent), &totals.spending_note()))
            (tile("Saved", &saved("totals.usd_saved", totals.usd_saved),
                &if totals.usd_saved.is_some_and(|saved| saved.0 < 0.0) { "a loss so far, compared with no compaction" } else { "compared with no compaction" }))
            (tile("Added latency", &html! { @match view.added_ms.median { Some(ms) => (api_value("added_ms.median", &ms, &format_duration(ms))), None => "–" } },
                &html! { "median" @if let Some(ms) = view.added_ms.p95 { "; P95 " (api_value("added_ms.p95", &ms, &format_duration(ms))) } }))
        }
        dl.facts {
            dt { "Model" } dd { @match &row.model { Some(model) => (untrusted(model)), None => "not named" } }
            dt { "API format" } dd { (row.dialect) }
            dt { "Tenant" } dd { (untrusted(&row.tenant)) }
            dt { "Started" } dd { (timestamp(row.created)) ", " (view.reason) @if let Some(parent) = &view.parent { ", from " (session(parent)) } }
            dt { "Last seen" } dd { (time_since(row.updated, now)) }
            @if !view.children.is_empty() {
                dt { "Continued in" } dd { @for child in &view.children { (session(child)) " " } }
            }
        }
    }
}

fn warnings(view: &SessionDetails) -> Markup {
    html! {
        @if view.is_undone { p.notice { "A compaction was undone; " (UNDO_PROMISE) "." } }
        @for warning in view.row.paused.iter().chain(&view.row.warnings) { p.notice.warn { (untrusted(warning)) } }
    }
}

fn timeline(view: &SessionDetails) -> Markup {
    let points = &view.timeline;
    let mut sent = ChartLine::from_values(1, points.iter().map(|point| point.tokens_after.number() as f64));
    sent.dots =
        view.compaction_rows.iter().filter_map(|compaction| compaction_dot(&view.row.name, compaction)).collect();
    let read = points.iter().map(|point| point.cache_read.unwrap_or_default().number() as f64);
    let lines = [
        ChartLine::from_values(0, points.iter().map(|point| point.tokens_before.number() as f64)),
        ChartLine::from_values(5, read),
        sent,
    ];
    let max_tokens = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let threshold = view.row.threshold.map(|threshold| threshold.number() as f64);
    let limits: Vec<LimitLine<'_>> = threshold
        .filter(|threshold| *threshold <= max_tokens * MAX_THRESHOLD_RATIO)
        .map(|at| LimitLine { value: at, name: "threshold" })
        .into_iter()
        .collect();
    let first = points.first().map_or(Timestamp(0), |point| point.at);
    let after = |at: usize| match points.get(at) {
        _ if at == 0 => "0 s".to_owned(),
        Some(point) => format_duration(point.at.seconds_since(first) * 1000.0),
        None => String::new(),
    };
    let chart = Chart {
        title: "Tokens of each request",
        description: "The tokens of each request as received, as sent and as read from the provider's cache, with the threshold and the numbered compactions.",
        unit: "tokens",
        lines: &lines,
        max_value: limits.iter().map(|limit| limit.value).fold(max_tokens, f64::max) * 1.08,
        limits: &limits,
        format_value: &axis_tokens,
        x_axis: XAxis::Requests(&after),
    };
    html! {
        figure {
            h2 { "Tokens of each request" }
            @if points.is_empty() { p.soft { "No request of this session went through this gateway." } } @else {
                (chart.draw())
                figcaption {
                    ul.legend {
                        li { (legend_key(0)) "received" }
                        li { (legend_key(1)) "sent; dots: compactions" }
                        li { (legend_key(5)) "read from the provider's cache" }
                    }
                    @if let Some(high_threshold) = threshold.filter(|_| limits.is_empty()) {
                        p.small { "The threshold of " (group_digits(high_threshold as u64)) " tokens is far above this." }
                    }
                    p.small { a href="#requests" { "As a table" } }
                }
            }
        }
    }
}

fn compaction_dot(session: &str, compaction: &CompactionRow) -> Option<Dot> {
    let number = compaction.number;
    Some(Dot {
        point_index: compaction.request?.checked_sub(1)?,
        label: number.to_string(),
        tooltip: format!(
            "compaction {number}: {} → {} tokens",
            tokens_or_dash(compaction.tokens_before),
            tokens_or_dash(compaction.tokens_after)
        ),
        link: Some(session_url(session, &format!("/epochs/{number}"))),
    })
}

fn compaction_table(view: &SessionDetails) -> Markup {
    let name = &view.row.name;
    html! {
        div.head {
            h2 { "Compactions" }
            form.row method="post" action=(session_url(name, "/undo")) { button type="submit" disabled[view.row.active_compaction.is_none()] { "Undo" } }
            form.row method="post" action=(session_url(name, "/redo")) { button type="submit" { "Redo" } }
        }
        @if view.compaction_rows.is_empty() { p.card.soft { "This session has no compactions." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Compactions" {
                table.full.ruled.stack {
                    thead { tr {
                        th scope="col" { "Number" } th.left scope="col" { "When" } th.left scope="col" { "Trigger" } th scope="col" { "Tokens" }
                        th scope="col" { "Messages" } th scope="col" { "Uncached" } th scope="col" { "One-time cost" } th scope="col" { "Saved per request" } th scope="col" { "Reason" }
                    } }
                    tbody { @for compaction in view.compaction_rows.iter().rev() { (compaction_row(name, compaction)) } }
                }
            }
        }
    }
}

/// Formats `12 → 3`, or a dash if one of the numbers is unknown.
fn before_after(before: Option<u64>, after: Option<u64>) -> String {
    match before.zip(after) {
        Some((before, after)) => format!("{} → {}", group_digits(before), group_digits(after)),
        None => "–".to_owned(),
    }
}

fn compaction_row(session: &str, compaction: &CompactionRow) -> Markup {
    let number = |tokens: Option<longhaul_engine::Tokens>| tokens.map(longhaul_engine::Tokens::number);
    let money = |amount: Option<f64>| amount.map_or_else(|| "–".to_owned(), dollars);
    html! {
        tr {
            th.left scope="row" {
                a href=(session_url(session, &format!("/epochs/{}", compaction.number))) { "Compaction " (compaction.number) }
                @if compaction.is_active { " " span.badge.summarized { "active" } }
            }
            td.left data-label="When" { (timestamp(compaction.at)) }
            td.left data-label="Trigger" { (untrusted(compaction.trigger.as_deref().unwrap_or("–"))) }
            td data-label="Tokens" { (before_after(number(compaction.tokens_before), number(compaction.tokens_after))) }
            td data-label="Messages" { (before_after(compaction.messages_before, compaction.messages_after)) }
            td data-label="Uncached" { (tokens_or_dash(compaction.uncached_tokens)) }
            td data-label="One-time cost" { (money(compaction.usd_once)) }
            td data-label="Saved per request" { (money(compaction.usd_saved_per_turn)) }
            td.wrap data-label="Reason" {
                (untrusted(&truncate_chars(compaction.reason.as_deref().unwrap_or("–"), 300)))
                @if let Some(focus) = &compaction.focus { " Focus: " (untrusted(&truncate_chars(focus, 200))) }
            }
        }
    }
}

fn request_table(name: &str, page: &RequestPage, all: usize) -> Markup {
    let to = |number: usize| session_url(name, &format!("?page={number}#requests"));
    html! {
        h2 { "Requests" }
        @if page.rows.is_empty() { p.card.soft { "No request went through this gateway." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Requests" {
                table.full.ruled {
                    thead { tr {
                        th scope="col" { "Number" } th.left scope="col" { "When" } th.left scope="col" { "Action" } th scope="col" { "Received" } th scope="col" { "Sent" }
                        th scope="col" { "Input" } th scope="col" { "Cached" } th scope="col" { "Output" } th scope="col" { "Cost" } th scope="col" { "Cost without" }
                        th scope="col" { "Added latency" } th scope="col" { "Duration" } th scope="col" { "Cache miss" }
                    } }
                    tbody { @for request in &page.rows { (request_row(request)) } }
                }
            }
            nav.pages aria-label="Pages of requests" {
                @if page.page > 1 { a href=(to(page.page - 1)) rel="prev" { "Newer" } }
                span { "Page " (page.page) " of " (page.pages) ", " (group_digits(all as u64)) " requests" }
                @if page.page < page.pages { a href=(to(page.page + 1)) rel="next" { "Older" } }
            }
        }
    }
}

fn request_row(request: &RequestRow) -> Markup {
    html! {
        tr {
            td { (request.number) }
            td.left { (timestamp(request.at)) }
            td.left { (untrusted(&truncate_chars(&request.action, 60))) }
            td { (group_digits(request.tokens_before.number())) }
            td { (group_digits(request.tokens_after.number())) }
            td { (tokens_or_dash(request.input)) }
            td { (tokens_or_dash(request.cache_read)) }
            td { (tokens_or_dash(request.output)) }
            td { (spent("", request.usd)) }
            td { (spent("", request.usd_without)) }
            td { (format_duration(request.added_ms)) }
            td { (format_duration(request.took_ms)) }
            td.wrap { (untrusted(request.cache_miss_reason.as_deref().unwrap_or(""))) }
        }
    }
}
