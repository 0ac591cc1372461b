//! `/api`: what the pages show, as JSON.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::act;
use super::fields::Fields;
use super::frame::{Problem, json};
use super::history::Way;
use super::model::{Against, Range};
use crate::gateway::Gateway;
use crate::store::Whose;

type Answer = Result<Response, Problem>;

fn given(value: &impl serde::Serialize) -> Response {
    json(StatusCode::OK, value)
}

/// `GET /api/overview?range=`.
pub(super) async fn overview(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    RawQuery(query): RawQuery,
) -> Answer {
    let range = Range::of(Fields::of(&query.unwrap_or_default()).get("range").unwrap_or_default());
    Ok(given(&gateway.overview(&whose, range).await?))
}

/// `GET /api/sessions`.
pub(super) async fn sessions(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
) -> Answer {
    Ok(given(&json!({"sessions": gateway.listed(&whose).await?})))
}

/// `GET /api/sessions/{name}?page=`.
pub(super) async fn session(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let fields = Fields::of(&query.unwrap_or_default());
    let page = fields.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    Ok(given(&gateway.view(&whose, &name, page).await?))
}

/// `GET /api/sessions/{name}/epochs/{number}?against=`.
pub(super) async fn epoch(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path((name, number)): Path<(String, usize)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let against = Against::of(Fields::of(&query.unwrap_or_default()).get("against").unwrap_or_default());
    Ok(given(&gateway.epoch(&whose, (&name, number), against).await?))
}

/// `GET /api/sessions/{name}/search?q=`.
pub(super) async fn search(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let fields = Fields::of(&query.unwrap_or_default());
    Ok(given(&gateway.search(&whose, &name, fields.get("q").unwrap_or_default()).await?))
}

/// `GET /api/recall/{handle}`.
pub(super) async fn recall(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(handle): Path<String>,
) -> Answer {
    Ok(given(&gateway.open(&whose, None, &handle).await?))
}

/// `POST /api/sessions/{name}/undo`.
pub(super) async fn undo(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
) -> Answer {
    Ok(given(&gateway.shift(&whose, &name, Way::Undo).await?))
}

/// `POST /api/sessions/{name}/redo`.
pub(super) async fn redo(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
) -> Answer {
    Ok(given(&gateway.shift(&whose, &name, Way::Redo).await?))
}

/// `POST /api/sessions/{name}/compress`, with a focus, or a preview only.
pub(super) async fn compress(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
    Path(name): Path<String>,
    request: Request,
) -> Answer {
    let wanted = act::wanted(&gateway.fields(request).await?);
    Ok(given(&gateway.squeeze(&whose, &name, wanted).await?))
}
