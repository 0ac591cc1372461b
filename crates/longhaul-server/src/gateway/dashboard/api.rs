//! `/api`: the data of the pages as JSON.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::actions;
use super::form_fields::FormFields;
use super::middleware::{DashboardError, json_response};
use super::model::{DiffBase, TimeRange};
use super::session_data::UndoRedo;
use crate::gateway::Gateway;
use crate::store::TenantScope;

type ApiResult = Result<Response, DashboardError>;

fn ok_json(value: &impl serde::Serialize) -> Response {
    json_response(StatusCode::OK, value)
}

/// `GET /api/overview?range=`.
pub(super) async fn overview(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    RawQuery(query): RawQuery,
) -> ApiResult {
    let range = TimeRange::from_name(FormFields::parse(&query.unwrap_or_default()).get("range").unwrap_or_default());
    Ok(ok_json(&gateway.load_overview(&scope, range).await?))
}

/// `GET /api/sessions`.
pub(super) async fn sessions(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
) -> ApiResult {
    Ok(ok_json(&json!({"sessions": gateway.list_sessions(&scope).await?})))
}

/// `GET /api/sessions/{name}?page=`.
pub(super) async fn session(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult {
    let fields = FormFields::parse(&query.unwrap_or_default());
    let page = fields.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    Ok(ok_json(&gateway.load_session(&scope, &name, page).await?))
}

/// `GET /api/sessions/{name}/epochs/{number}?against=`.
pub(super) async fn compaction(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path((name, number)): Path<(String, usize)>,
    RawQuery(query): RawQuery,
) -> ApiResult {
    let against = DiffBase::from_name(FormFields::parse(&query.unwrap_or_default()).get("against").unwrap_or_default());
    Ok(ok_json(&gateway.load_compaction(&scope, (&name, number), against).await?))
}

/// `GET /api/sessions/{name}/search?q=`.
pub(super) async fn search(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult {
    let fields = FormFields::parse(&query.unwrap_or_default());
    Ok(ok_json(&gateway.search_session(&scope, &name, fields.get("q").unwrap_or_default()).await?))
}

/// `GET /api/recall/{handle}`.
pub(super) async fn recall(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(recall_id): Path<String>,
) -> ApiResult {
    Ok(ok_json(&gateway.open_recall_id(&scope, None, &recall_id).await?))
}

/// `POST /api/sessions/{name}/undo`.
pub(super) async fn undo(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
) -> ApiResult {
    Ok(ok_json(&gateway.move_head(&scope, &name, UndoRedo::Undo).await?))
}

/// `POST /api/sessions/{name}/redo`.
pub(super) async fn redo(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
) -> ApiResult {
    Ok(ok_json(&gateway.move_head(&scope, &name, UndoRedo::Redo).await?))
}

/// `POST /api/sessions/{name}/compress`, with optional fields `focus`, `here` and `preview`.
pub(super) async fn compress(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
    Path(name): Path<String>,
    request: Request,
) -> ApiResult {
    let request = actions::parse_compress(&gateway.read_fields(request).await?);
    Ok(ok_json(&gateway.compress_session(&scope, &name, request).await?))
}
