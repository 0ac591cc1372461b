//! Recall pages: `GET /sessions/{name}/search` searches a session, and `GET /sessions/{name}/recall/{handle}`
//! shows the original of a recall ID.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};

use super::form_fields::FormFields;
use super::forms::search_form;
use super::layout::{Page, Refresh, recall_url, session_url, truncate_chars, untrusted, untrusted_lines};
use super::middleware::{DashboardError, PageContext};
use super::model::{AdjacentExcerpt, SearchResult};
use crate::gateway::Gateway;
use crate::store::TenantScope;

/// The most bytes of a text that a page shows; `/api` returns all of it. Chosen by hand: 1 MiB.
const MAX_SHOWN_BYTES: usize = 1 << 20;

pub(super) async fn search(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, DashboardError> {
    let fields = FormFields::parse(&query.unwrap_or_default());
    let found = gateway.search_session(&scope, &name, fields.get("q").unwrap_or_default()).await?;
    let name = &found.session;
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(session_url(name, "")) { "Session " (untrusted(name)) } }
        h1 { "Search session " (untrusted(name)) }
        (search_form(name, &found.query, &html! {}))
        @if found.hits.is_empty() { p.card role="status" { "No results." } } @else {
            ol.hits { @for hit in &found.hits { (render_hit(name, hit)) } }
        }
    };
    Ok(Page { title: "Search", context: &context, refresh: Refresh::Never, body }.respond())
}

fn render_hit(session: &str, hit: &SearchResult) -> Markup {
    let other_blocks: Vec<_> = hit.turn_blocks.iter().filter(|block| block.recall_id != hit.recall_id).collect();
    html! {
        li.card {
            p {
                a href=(recall_url(session, &hit.recall_id)) { code { (untrusted(&hit.recall_id)) } }
                " " (block_kind(&hit.kind, hit.tool.as_deref()))
                span.soft { ", message " (hit.message) @if hit.session != session { ", session " (untrusted(&hit.session)) } }
                @if hit.is_visible { " " span.badge { "still sent" } }
            }
            div.text { (untrusted_lines(&hit.excerpt)) }
            @if !other_blocks.is_empty() {
                p.small.soft { "Same turn: " @for block in other_blocks {
                    a href=(recall_url(session, &block.recall_id)) { (block_kind(&block.kind, block.tool.as_deref())) } " "
                } }
            }
        }
    }
}

/// Renders the kind of a block and its tool: `result (read_file)`.
fn block_kind(kind: &str, tool: Option<&str>) -> Markup {
    html! { (untrusted(kind)) @if let Some(tool) = tool { " (" (untrusted(&truncate_chars(tool, 60))) ")" } }
}

pub(super) async fn open(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    Extension(scope): Extension<TenantScope>,
    Path((name, recall_id)): Path<(String, String)>,
) -> Result<Response, DashboardError> {
    let opened = gateway.open_recall_id(&scope, Some(&name), &recall_id).await?;
    let end = opened.text.floor_char_boundary(MAX_SHOWN_BYTES);
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(session_url(&name, "")) { "Session " (untrusted(&name)) } }
        h1 { code { (untrusted(&opened.recall_id)) } " " (block_kind(&opened.kind, opened.tool.as_deref())) }
        p.soft {
            @match opened.message { Some(message) => { "Message " (message) " of session " }, None => "Written by a compaction of session " }
            (untrusted(&opened.session))
            @if opened.is_redacted { ". Secrets were redacted." }
        }
        nav.beside aria-label="Neighbours" {
            (adjacent_link(&name, "Before it", opened.previous.as_ref()))
            (adjacent_link(&name, "After it", opened.next.as_ref()))
        }
        div.card { div.text id="text" { (untrusted_lines(&opened.text[..end])) } }
        @if end < opened.text.len() {
            p.soft { "This is the beginning; " a href={ "/api/recall/" (opened.recall_id) } { "all of it" } " is available as JSON." }
        }
        (search_form(&name, "", &html! { h2 { "Search" } }))
    };
    Ok(Page { title: &opened.recall_id, context: &context, refresh: Refresh::Never, body }.respond())
}

fn adjacent_link(session: &str, label: &str, neighbour: Option<&AdjacentExcerpt>) -> Markup {
    html! {
        @if let Some(block) = neighbour {
            a.card href=(recall_url(session, &block.recall_id)) {
                span.soft { (label) ": " (block_kind(&block.kind, block.tool.as_deref())) }
                span { (untrusted(&truncate_chars(&block.excerpt, 120))) }
            }
        }
    }
}
