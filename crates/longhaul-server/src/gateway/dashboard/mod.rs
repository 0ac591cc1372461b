//! The dashboard: what people see of a gateway, and what they can do about a session, at `GET /` and below; the same as JSON at `/api`.
//!
//! ```text
//! request ──▶ frame.rs: names, who sent it, whose sessions (passes.rs: cookies) ──▶ gather.rs, history.rs: store → model/ ──▶ a page, or api.rs: JSON
//! answered elsewhere ──▶ pulse.rs ──/events──▶ live.js asks for the page again
//! ```
//!
//! - `layout` is what pages look alike in; `overview`, `session`, `epoch` and `reach` are one page each; `act` and `login` are forms.
//! - Everything works without a script. The only one is `live.js`, which loads what the server rendered.
//!
//! What must hold: only what the store has is shown, and only to whom it belongs. Text out of a session is never markup. Nothing is
//! loaded from elsewhere. Routes are exact: whatever is not one of them goes to the upstream, as it always did.

mod act;
mod api;
mod compaction;
mod epoch;
mod fields;
mod forms;
mod frame;
mod gather;
mod history;
mod layout;
mod login;
mod model;
mod overview;
mod passes;
mod pulse;
mod reach;
mod session;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use http::header::CONTENT_TYPE;

use super::Gateway;
use crate::pages;
use passes::Passes;
use pulse::Pulse;

/// What the dashboard remembers while a gateway runs.
#[derive(Default)]
pub(super) struct Dashboard {
    passes: Passes,
    pub(super) pulse: Pulse,
}

/// A file that every page has.
fn asset(kind: &'static str, content: &'static [&'static str]) -> MethodRouter<Arc<Gateway>> {
    get(move || async move { ([(CONTENT_TYPE, kind)], content.concat()).into_response() })
}

/// Its routes.
pub(super) fn routes(gateway: &Arc<Gateway>) -> Router<Arc<Gateway>> {
    let closed = Router::new()
        .route("/", get(overview::show))
        .route("/sessions/{name}", get(session::show))
        .route("/sessions/{name}/epochs/{number}", get(epoch::show))
        .route("/sessions/{name}/search", get(reach::search))
        .route("/sessions/{name}/recall/{handle}", get(reach::open))
        .route("/sessions/{name}/undo", get(act::back).post(act::undo))
        .route("/sessions/{name}/redo", get(act::back).post(act::redo))
        .route("/sessions/{name}/compress", get(act::back).post(act::compress))
        .route("/events", get(pulse::events))
        .route("/api/overview", get(api::overview))
        .route("/api/sessions", get(api::sessions))
        .route("/api/sessions/{name}", get(api::session))
        .route("/api/sessions/{name}/epochs/{number}", get(api::epoch))
        .route("/api/sessions/{name}/search", get(api::search))
        .route("/api/sessions/{name}/undo", post(api::undo))
        .route("/api/sessions/{name}/redo", post(api::redo))
        .route("/api/sessions/{name}/compress", post(api::compress))
        .route("/api/recall/{handle}", get(api::recall))
        .route_layer(from_fn_with_state(Arc::clone(gateway), frame::guard));
    let open = Router::new()
        .route("/login", get(login::form).post(login::enter))
        .route("/logout", get(login::home).post(login::leave))
        .route("/theme", get(login::home).post(login::theme))
        .route(
            "/assets/style.css",
            asset("text/css; charset=utf-8", &[pages::STYLE, include_str!("style.css")]),
        )
        .route("/assets/live.js", asset("text/javascript; charset=utf-8", &[include_str!("live.js")]))
        .route("/assets/icon.svg", asset("image/svg+xml", &[include_str!("icon.svg")]));
    closed.merge(open).route_layer(from_fn_with_state(Arc::clone(gateway), frame::around))
}
