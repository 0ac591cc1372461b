//! Handles the forms that act on a session: undo, redo and compress.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use maud::html;

use super::compaction_diff::{self, CompactionSource};
use super::form_fields::FormFields;
use super::forms::{MAX_FOCUS_CHARS, compress_form};
use super::layout::{Page, Refresh, session_url, untrusted};
use super::middleware::{DashboardError, PageContext, redirect_to};
use super::model::CompressResult;
use super::session_data::UndoRedo;
use crate::gateway::Gateway;
use crate::session::{CompressRequest, Preview};
use crate::store::TenantScope;

/// `POST /sessions/{name}/undo`.
pub(super) async fn undo(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
) -> Result<Response, DashboardError> {
    move_head(&gateway, &scope, &name, UndoRedo::Undo).await
}

/// `POST /sessions/{name}/redo`.
pub(super) async fn redo(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
) -> Result<Response, DashboardError> {
    move_head(&gateway, &scope, &name, UndoRedo::Redo).await
}

async fn move_head(
    gateway: &Gateway,
    scope: &TenantScope,
    name: &str,
    direction: UndoRedo,
) -> Result<Response, DashboardError> {
    let result = gateway.move_head(scope, name, direction).await?;
    let notice = match direction {
        _ if !result.moved => "nothing",
        UndoRedo::Undo => "undone",
        UndoRedo::Redo => "redone",
    };
    Ok(redirect_to(&session_url(name, &format!("?done={notice}"))))
}

/// Reads the options of a compaction from the fields of a form or of a JSON object.
pub(super) fn parse_compress(fields: &FormFields) -> CompressRequest {
    let focus = fields.get("focus").map(|focus| focus.chars().take(MAX_FOCUS_CHARS).collect());
    let here = fields.get("here").and_then(|here| here.parse().ok()).filter(|here| *here > 0);
    let preview = match fields.get("preview") {
        Some("true") => Preview::Yes,
        _ => Preview::No,
    };
    CompressRequest { focus, keep_newest: here, preview, ..CompressRequest::default() }
}

/// `POST /sessions/{name}/compress`: compacts the session, or shows a preview of the result.
pub(super) async fn compress(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, DashboardError> {
    let request = parse_compress(&gateway.read_fields(request).await?);
    let focus = request.focus.clone();
    let result = gateway.compress_session(&scope, &name, request).await?;
    if result.compaction.is_some() {
        return Ok(redirect_to(&session_url(&result.session, "?done=compressed")));
    }
    let diff = if result.changed {
        let CompressResult { dialect, model, token_model, report, before, after, .. } = result;
        Some(compaction_diff::render_diff(
            &gateway,
            &name,
            &CompactionSource { api_format: dialect, model, token_model, report, before, after },
        )?)
    } else {
        None
    };
    let body = html! {
        p.crumbs { a href="/" { "Overview" } " › " a href=(session_url(&name, "")) { "Session " (untrusted(&name)) } }
        h1 { "Preview of a compaction" }
        @if let Some(reason) = result.reason.as_ref().filter(|_| !result.changed) {
            p.notice role="status" { "Nothing would change: " (untrusted(reason)) }
        }
        @if let Some(obstacle) = &result.obstacle { p.notice.warn role="status" { "This compaction cannot be stored: " (untrusted(obstacle)) } }
        @if result.changed && result.obstacle.is_none() {
            form.card method="post" action=(session_url(&name, "/compress")) {
                input type="hidden" name="focus" value=(focus.as_deref().unwrap_or_default());
                p { "This is a preview of the next request. Nothing has changed yet." }
                p.buttons { button.strong name="preview" value="false" { "Compress" } a href=(session_url(&name, "")) { "Cancel" } }
            }
        }
        @if let Some(diff) = diff { (diff) }
        (compress_form(&name, focus.as_deref()))
    };
    Ok(Page { title: "Preview", context: &context, refresh: Refresh::Never, body }.respond())
}

/// `GET` of a form's address: redirects a person who typed it to the session.
pub(super) async fn redirect_to_session(Path(name): Path<String>) -> Response {
    redirect_to(&session_url(&name, ""))
}
