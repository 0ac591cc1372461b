//! Reaching back: `GET /sessions/{name}/search` finds what was said, and `GET /sessions/{name}/recall/{handle}` shows it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};

use super::fields::Fields;
use super::forms::search_form;
use super::frame::{Look, Problem};
use super::layout::{Page, Refresh, address, clipped, handle, lines, theirs};
use super::model::{Beside, FoundHit};
use crate::gateway::Gateway;
use crate::store::Whose;

/// So much of a text is shown on a page, in bytes; `/api` has all of it.
const SHOWN: usize = 1 << 20;

pub(super) async fn search(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let fields = Fields::of(&query.unwrap_or_default());
    let found = gateway.search(&whose, &name, fields.get("q").unwrap_or_default()).await?;
    let name = &found.session;
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(address(name, "")) { "Session " (theirs(name)) } }
        h1 { "Search session " (theirs(name)) }
        (search_form(name, &found.query, &html! {}))
        @if found.hits.is_empty() { p.card role="status" { "Nothing was found." } } @else {
            ol.hits { @for hit in &found.hits { (shown_hit(name, hit)) } }
        }
    };
    Ok(Page { title: "Search", look: &look, refresh: Refresh::Never, body }.respond())
}

fn shown_hit(session: &str, hit: &FoundHit) -> Markup {
    let others: Vec<_> = hit.step.iter().filter(|block| block.handle != hit.handle).collect();
    html! {
        li.card {
            p {
                a href=(handle(session, &hit.handle)) { code { (theirs(&hit.handle)) } }
                " " (kind(&hit.what, hit.tool.as_deref()))
                span.soft { ", message " (hit.message) @if hit.session != session { ", session " (theirs(&hit.session)) } }
                @if hit.shown { " " span.badge { "still in view" } }
            }
            div.text { (lines(&hit.excerpt)) }
            @if !others.is_empty() {
                p.small.soft { "The same step: " @for block in others {
                    a href=(handle(session, &block.handle)) { (kind(&block.what, block.tool.as_deref())) } " "
                } }
            }
        }
    }
}

/// What a block is, with its tool.
fn kind(what: &str, tool: Option<&str>) -> Markup {
    html! { (theirs(what)) @if let Some(tool) = tool { " (" (theirs(&clipped(tool, 60))) ")" } }
}

pub(super) async fn open(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    Extension(whose): Extension<Whose>,
    Path((name, wanted)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let opened = gateway.open(&whose, Some(&name), &wanted).await?;
    let end = opened.text.floor_char_boundary(SHOWN);
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(address(&name, "")) { "Session " (theirs(&name)) } }
        h1 { code { (theirs(&opened.handle)) } " " (kind(&opened.what, opened.tool.as_deref())) }
        p.soft {
            @match opened.message { Some(message) => { "Message " (message) " of session " }, None => "Written by a compaction of session " }
            (theirs(&opened.session))
            @if opened.redacted { ". Secrets were taken out of it." }
        }
        nav.beside aria-label="Beside it" {
            (beside(&name, "Before it", opened.before.as_ref()))
            (beside(&name, "Behind it", opened.behind.as_ref()))
        }
        div.card { div.text id="text" { (lines(&opened.text[..end])) } }
        @if end < opened.text.len() {
            p.soft { "This is the beginning; " a href={ "/api/recall/" (opened.handle) } { "all of it" } " comes as JSON." }
        }
        (search_form(&name, "", &html! { h2 { "Search" } }))
    };
    Ok(Page { title: &opened.handle, look: &look, refresh: Refresh::Never, body }.respond())
}

fn beside(session: &str, where_it_is: &str, neighbour: Option<&Beside>) -> Markup {
    html! {
        @if let Some(block) = neighbour {
            a.card href=(handle(session, &block.handle)) {
                span.soft { (where_it_is) ": " (kind(&block.what, block.tool.as_deref())) }
                span { (theirs(&clipped(&block.excerpt, 120))) }
            }
        }
    }
}
