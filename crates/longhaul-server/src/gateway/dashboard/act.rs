//! What can be done with a session: undo, redo, and compress, by forms of a page.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use maud::html;

use super::compaction::{self, Sides};
use super::fields::Fields;
use super::forms::{FOCUS, compress_form};
use super::frame::{Look, Problem, to};
use super::history::Way;
use super::layout::{Page, Refresh, address, theirs};
use super::model::Squeezed;
use crate::gateway::Gateway;
use crate::session::{Compress, Preview};
use crate::store::Whose;

/// `POST /sessions/{name}/undo`.
pub(super) async fn undo(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    shift(&gateway, &whose, &name, Way::Undo).await
}

/// `POST /sessions/{name}/redo`.
pub(super) async fn redo(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    shift(&gateway, &whose, &name, Way::Redo).await
}

async fn shift(gateway: &Gateway, whose: &Whose, name: &str, way: Way) -> Result<Response, Problem> {
    let shifted = gateway.shift(whose, name, way).await?;
    let done = match way {
        _ if !shifted.moved => "nowhere",
        Way::Undo => "undone",
        Way::Redo => "redone",
    };
    Ok(to(&address(name, &format!("?done={done}"))))
}

/// How a compaction is wanted, by a form or by a program.
pub(super) fn wanted(fields: &Fields) -> Compress {
    let focus = fields.get("focus").map(|focus| focus.chars().take(FOCUS).collect());
    let here = fields.get("here").and_then(|here| here.parse().ok()).filter(|here| *here > 0);
    let preview = match fields.get("preview") {
        Some("true") => Preview::Yes,
        _ => Preview::No,
    };
    Compress { focus, here, preview, ..Compress::default() }
}

/// `POST /sessions/{name}/compress`: does it, or shows what it would do.
pub(super) async fn compress(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let wanted = wanted(&gateway.fields(request).await?);
    let focus = wanted.focus.clone();
    let done = gateway.squeeze(&whose, &name, wanted).await?;
    if done.epoch.is_some() {
        return Ok(to(&address(&done.session, "?done=compressed")));
    }
    let beside = if done.changed {
        let Squeezed { dialect, model, counted, report, before, after, .. } = done;
        Some(compaction::beside(&gateway, &name, &Sides { dialect, model, counted, report, before, after })?)
    } else {
        None
    };
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(address(&name, "")) { "Session " (theirs(&name)) } }
        h1 { "Preview of a compaction" }
        @if let Some(reason) = done.reason.as_ref().filter(|_| !done.changed) {
            p.notice role="status" { "Nothing would change: " (theirs(reason)) }
        }
        @if let Some(obstacle) = &done.obstacle { p.notice.warn role="status" { "It cannot be made from here: " (theirs(obstacle)) } }
        @if done.changed && done.obstacle.is_none() {
            form.card method="post" action=(address(&name, "/compress")) {
                input type="hidden" name="focus" value=(focus.as_deref().unwrap_or_default());
                p { "This is what the next request would be. Nothing was changed yet." }
                p.buttons { button.strong name="preview" value="false" { "Compress for real" } a href=(address(&name, "")) { "Leave it" } }
            }
        }
        @if let Some(beside) = beside { (beside) }
        (compress_form(&name, focus.as_deref()))
    };
    Ok(Page { title: "Preview", look: &look, refresh: Refresh::Never, body }.respond())
}

/// Who follows the address of one of these forms by hand is led to the session.
pub(super) async fn back(Path(name): Path<String>) -> Response {
    to(&address(&name, ""))
}
