//! `GET /`: the overview of all sessions, with totals, warnings and charts.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};

use super::form_fields::FormFields;
use super::layout::{
    Page, Refresh, api_value, axis_tokens, count, dash, saved, session_url, share, spent, tile, time_since, tokens,
    tokens_or_dash, truncate_chars, untrusted, window_bar,
};
use super::middleware::{DashboardError, PageContext};
use super::model::{ChartBucket, ModelThreshold, Overview, SessionRow, TimeRange};
use crate::gateway::Gateway;
use crate::pages::chart::{Chart, ChartLine, Dot, LimitLine, Point, XAxis, legend_key};
use crate::pages::{dollars, format_duration, group_digits, pluralize, utc_timestamp};
use crate::store::TenantScope;
use longhaul_engine::Timestamp;

/// The largest ratio of a threshold to the largest request at which the chart draws the threshold. A higher
/// one would flatten the lines, so the caption gives it instead. Chosen by hand.
const MAX_THRESHOLD_RATIO: f64 = 4.0;
/// The most thresholds that the chart draws. Chosen by hand.
const MAX_DRAWN_THRESHOLDS: usize = 3;

pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    Extension(scope): Extension<TenantScope>,
    RawQuery(query): RawQuery,
) -> Result<Response, DashboardError> {
    let range = TimeRange::from_name(FormFields::parse(&query.unwrap_or_default()).get("range").unwrap_or_default());
    let overview = gateway.load_overview(&scope, range).await?;
    let title = overview.tenant.as_deref().map_or_else(|| "Overview".to_owned(), |name| format!("Overview of {name}"));
    let body = html! {
        header.head {
            h1 { (untrusted(&title)) }
            nav.ranges aria-label="Time" {
                @for range in TimeRange::ALL {
                    a href={ "/?range=" (range.name()) } aria-current=[(range == overview.range).then_some("true")] { (range.label()) }
                }
            }
        }
        div id="cards" data-live="" { (cards(&overview)) }
        div id="warnings" data-live="" { (warnings(&overview)) }
        div id="tokens" data-live="" { (tokens_over_time(&overview)) }
        div id="money" data-live="" { (money_over_time(&overview.chart_buckets)) }
        div id="sessions" data-live="" { (session_table(&overview.sessions, overview.sessions_all, overview.at)) }
    };
    Ok(Page { title: &title, context: &context, refresh: Refresh::Live, body }.respond())
}

fn cards(overview: &Overview) -> Markup {
    let totals = &overview.totals;
    let (before, after) = (totals.tokens_before.number(), totals.tokens_after.number());
    let fewer = if before > 0 { 100.0 * (1.0 - after as f64 / before as f64) } else { 0.0 };
    let latency = |field: &str, millis: Option<f64>| {
        millis.map_or_else(dash, |millis| api_value(field, &millis, &format_duration(millis)))
    };
    let breaker = match overview.paused {
        0 => html! { "closed" },
        paused => html! { (count("paused", paused)) " paused" },
    };
    html! {
        ul.tiles.five {
            (tile("Live sessions", &count("sessions_live", overview.sessions_live), &html! { "of " (count("sessions_all", overview.sessions_all)) }))
            (tile("Requests", &count("totals.requests", totals.requests),
                &html! { (count("totals.compacted", totals.compacted)) " compacted, " (count("totals.bypassed", totals.bypassed)) " bypassed" }))
            (tile("Tokens received", &tokens("totals.tokens_before", totals.tokens_before), &"all requests together"))
            (tile("Tokens sent", &tokens("totals.tokens_after", totals.tokens_after), &format!("{fewer:.1} % fewer")))
            (tile("Read from cache", &share("totals.read_share", totals.read_share), &html! { "of " (tokens_or_dash(totals.input)) " input tokens" }))
            (tile("Spent", &spent("totals.usd_spent", totals.usd_spent), &totals.spending_note()))
            (tile("Saved", &saved("totals.usd_saved", totals.usd_saved),
                &if totals.usd_saved.is_some_and(|saved| saved.0 < 0.0) { "a loss so far, compared with no compaction" } else { "compared with no compaction" }))
            (tile("Added latency", &latency("added_ms.median", overview.added_ms.median),
                &html! { "median; P95 " (latency("added_ms.p95", overview.added_ms.p95)) }))
            (tile("Breaker", &breaker, &"automatic compaction"))
            (tile("Warnings", &html! { a href="#warnings" { (count("warnings", overview.warnings.len())) } }, &"in the sessions below"))
        }
    }
}

fn warnings(overview: &Overview) -> Markup {
    html! {
        @if let Some(error) = &overview.store {
            p.notice.warn { "The store is unavailable, so sessions are in memory only, without recall IDs: " (untrusted(error)) }
        }
        @if !overview.warnings.is_empty() {
            details.notice.warn id="all-warnings" {
                summary { (pluralize(overview.warnings.len(), "warning")) }
                ul { @for warning in &overview.warnings {
                    li { a href=(session_url(&warning.session, "")) { (untrusted(&warning.session)) } ": " (untrusted(&warning.text)) }
                } }
            }
        }
    }
}

fn tokens_over_time(overview: &Overview) -> Markup {
    let buckets = &overview.chart_buckets;
    let line = |color: usize, of: &dyn Fn(&ChartBucket) -> f64| ChartLine {
        color,
        points: buckets.iter().map(|bucket| Point { x: unix_seconds(bucket.at), y: of(bucket) }).collect(),
        dots: Vec::new(),
    };
    let mut sent = line(1, &|bucket| bucket.tokens_after.number() as f64);
    let compacted = buckets.iter().enumerate().filter(|(_, bucket)| bucket.compacted > 0);
    sent.dots = compacted
        .map(|(at, bucket)| Dot {
            point_index: at,
            label: bucket.compacted.to_string(),
            tooltip: format!("{} compacted around {}", bucket.compacted, utc_timestamp(bucket.at.0.div_euclid(1000))),
            link: None,
        })
        .collect();
    let lines = [line(0, &|bucket| bucket.tokens_before.number() as f64), sent];
    let max_tokens = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let names = threshold_labels(&overview.thresholds);
    let (mut near, far): (Vec<_>, Vec<_>) = names.iter().partition(|(at, _)| *at <= max_tokens * MAX_THRESHOLD_RATIO);
    near.truncate(MAX_DRAWN_THRESHOLDS);
    // The names of several thresholds would overlap in the chart, so the legend lists them.
    let limits: Vec<LimitLine<'_>> = match near.as_slice() {
        [(at, name)] => vec![LimitLine { value: *at, name }],
        several => several.iter().map(|(at, _)| LimitLine { value: *at, name: "" }).collect(),
    };
    let legend_thresholds = if near.len() > 1 { near.as_slice() } else { &[] };
    let chart = Chart {
        title: "Tokens over time",
        description: "The largest request of each interval, as received and as sent, with the thresholds that trigger a compaction.",
        unit: "tokens",
        lines: &lines,
        max_value: limits.iter().map(|limit| limit.value).fold(max_tokens, f64::max) * 1.08,
        limits: &limits,
        format_value: &axis_tokens,
        x_axis: XAxis::Time,
    };
    html! {
        figure {
            h2 { "Tokens over time" }
            @if buckets.is_empty() { p.soft { "No requests yet." } } @else {
                (chart.draw())
                figcaption {
                    ul.legend {
                        li { (legend_key(0)) "largest request received" }
                        li { (legend_key(1)) "largest request sent; dots: compactions" }
                        @for (at, name) in legend_thresholds { li { "┄ " (untrusted(name)) ": " (group_digits(*at as u64)) " tokens" } }
                    }
                    @for (at, name) in far { p.small { (untrusted(name)) " at " (group_digits(*at as u64)) " tokens is far above this." } }
                    (bucket_table(buckets))
                }
            }
        }
    }
}

/// Returns each threshold once, with its label: the name of its model, or the number of models that share it.
fn threshold_labels(all: &[ModelThreshold]) -> Vec<(f64, String)> {
    let mut sizes: Vec<_> = all.iter().map(|threshold| threshold.tokens).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let name = |size| {
        let mut models = all.iter().filter(|threshold| threshold.tokens == size);
        match (models.next(), models.count()) {
            (Some(only), 0) => format!("threshold, {}", truncate_chars(&only.model, 40)),
            (_, others) => format!("threshold of {} models", others + 1),
        }
    };
    sizes.into_iter().map(|size| (size.number() as f64, name(size))).collect()
}

/// Renders the values of the charts as a table, for readers who cannot see the charts.
fn bucket_table(buckets: &[ChartBucket]) -> Markup {
    html! {
        details id="spans" {
            summary { "As a table" }
            div.inner tabindex="0" role="region" aria-label="Requests over time" {
                table.plain.ruled {
                    thead { tr {
                        th scope="col" { "From" } th scope="col" { "Requests" } th scope="col" { "Largest received" }
                        th scope="col" { "Largest sent" } th scope="col" { "Compacted" } th scope="col" { "Spent" } th scope="col" { "Without" }
                    } }
                    tbody { @for bucket in buckets { tr {
                        td { (utc_timestamp(bucket.at.0.div_euclid(1000))) }
                        td { (group_digits(bucket.requests as u64)) }
                        td { (group_digits(bucket.tokens_before.number())) }
                        td { (group_digits(bucket.tokens_after.number())) }
                        td { (bucket.compacted) }
                        td { (spent("", bucket.usd_spent)) }
                        td.right { (spent("", bucket.usd_without)) }
                    } } }
                }
            }
        }
    }
}

fn money_over_time(buckets: &[ChartBucket]) -> Markup {
    let priced: Vec<(f64, f64, f64)> = buckets
        .iter()
        .filter_map(|bucket| Some((unix_seconds(bucket.at), bucket.usd_spent?.0, bucket.usd_without?.0)))
        .collect();
    let running = |color: usize, of: fn(&(f64, f64, f64)) -> f64| {
        let mut sum = 0.0;
        let points = priced.iter().map(|bucket| {
            sum += of(bucket);
            Point { x: bucket.0, y: sum }
        });
        ChartLine { color, points: points.collect(), dots: Vec::new() }
    };
    let lines = [running(0, |bucket| bucket.2), running(2, |bucket| bucket.1)];
    let last = |line: &ChartLine| line.points.last().map_or(0.0, |point| point.y);
    let [without, with] = [last(&lines[0]), last(&lines[1])];
    let chart = Chart {
        title: "Money over time",
        description: "The running cost of the requests, and what they would have cost without compaction.",
        unit: "US dollars, added up",
        lines: &lines,
        max_value: without.max(with) * 1.08,
        limits: &[],
        format_value: &dollars,
        x_axis: XAxis::Time,
    };
    html! {
        figure {
            h2 { "Money over time" }
            @if priced.is_empty() { p.soft { "No prices are known for these models." } } @else {
                (chart.draw())
                figcaption {
                    ul.legend {
                        li { (legend_key(2)) "spent: " b { (dollars(with)) } }
                        li { (legend_key(0)) "without compactions: " b { (dollars(without)) } }
                        li { "saved: " (saved("", Some(longhaul_engine::prices::Dollars(without - with)))) }
                    }
                }
            }
        }
    }
}

fn session_table(rows: &[SessionRow], all: usize, now: Timestamp) -> Markup {
    html! {
        h2 { "Sessions" }
        @if rows.is_empty() {
            p.card { "There is no session yet. A longer request through this gateway creates one." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Sessions" {
                table.full.ruled.stack {
                    thead { tr {
                        th scope="col" { "Session" } th.left scope="col" { "Model" } th scope="col" { "Messages" } th scope="col" { "Window used" }
                        th scope="col" { "Compactions" } th scope="col" { "Read" } th scope="col" { "Spent" } th scope="col" { "Saved" }
                        th scope="col" { "Last seen" } th scope="col" { "Warnings" }
                    } }
                    tbody { @for row in rows { (session_table_row(row, now)) } }
                }
            }
            @if all > rows.len() { p.soft { "The newest " (rows.len()) " of " (group_digits(all as u64)) " sessions." } }
        }
    }
}

fn session_table_row(row: &SessionRow, now: Timestamp) -> Markup {
    html! {
        tr id={ "session-" (row.name) } {
            th.left.wrap scope="row" {
                a href=(session_url(&row.name, "")) { (untrusted(&row.name)) }
                @if row.live { " " span.badge.live { "live" } }
                @if let Some(title) = &row.title { span.soft.title { (untrusted(&truncate_chars(title, 90))) } }
            }
            td.left data-label="Model" { @match &row.model { Some(model) => (untrusted(&truncate_chars(model, 60))), None => span.soft { "–" } } }
            td data-label="Messages" { (count("messages", row.messages)) }
            td data-label="Window used" {
                @match row.tokens { Some(size) => (tokens("tokens", size)), None => span.soft { "–" } }
                (window_bar(row.tokens, row.window))
            }
            td data-label="Compactions" { (count("compactions", row.compactions)) }
            td data-label="Cached" { (share("totals.read_share", row.totals.read_share)) }
            td data-label="Spent" { (spent("totals.usd_spent", row.totals.usd_spent)) }
            td data-label="Saved" { (saved("totals.usd_saved", row.totals.usd_saved)) }
            td data-label="Last seen" { (time_since(row.updated, now)) }
            td data-label="Warnings" {
                @match row.warnings.len() + usize::from(row.paused.is_some()) {
                    0 => span.soft { "none" },
                    number => a href=(session_url(&row.name, "#warnings")) { (number) },
                }
            }
        }
    }
}

fn unix_seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1000.0
}
