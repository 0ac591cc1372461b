//! The dashboard: web pages at `GET /` that show a gateway's sessions and let people compact or undo, and the
//! same data as JSON at `/api`.
//!
//! ```text
//! request ──▶ middleware.rs: host name, origin, tenant (browser_logins.rs: cookies)
//!         ──▶ overview_data.rs, session_data.rs: store → model/ ──▶ a page, or api.rs: JSON
//! request to a model ──▶ change_feed.rs ──/events──▶ live.js loads the page again
//! ```
//!
//! `layout` has the parts that all pages share. `overview_page`, `session_page`, `compaction_page` and
//! `recall_pages` have the pages. `actions` and `login` handle the forms. Everything works without
//! JavaScript: the only script, `live.js`, loads again what the server rendered.
//!
//! Invariants: the pages show only data of the store, and only to its tenant. Text from a session never
//! becomes markup. No page loads anything from another host. Routes are exact: the gateway passes every other
//! path to the upstream.

mod actions;
mod api;
mod browser_logins;
mod change_feed;
mod compaction_diff;
mod compaction_page;
mod form_fields;
mod forms;
mod layout;
mod login;
mod middleware;
mod model;
mod overview_data;
mod overview_page;
mod recall_pages;
mod session_data;
mod session_page;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use http::header::CONTENT_TYPE;

use super::Gateway;
use crate::pages;
use browser_logins::BrowserLogins;
use change_feed::ChangeFeed;

/// The state that the dashboard keeps in memory while the gateway runs.
#[derive(Default)]
pub(super) struct Dashboard {
    logins: BrowserLogins,
    pub(super) change_feed: ChangeFeed,
}

/// Returns a route that serves a file which is compiled into the program.
fn asset_route(kind: &'static str, content: &'static [&'static str]) -> MethodRouter<Arc<Gateway>> {
    get(move || async move { ([(CONTENT_TYPE, kind)], content.concat()).into_response() })
}

/// Returns all routes of the dashboard. The pages and `/api` require a signed-in viewer; the login form and
/// the assets do not.
pub(super) fn routes(gateway: &Arc<Gateway>) -> Router<Arc<Gateway>> {
    let closed = Router::new()
        .route("/", get(overview_page::show))
        .route("/sessions/{name}", get(session_page::show))
        .route("/sessions/{name}/epochs/{number}", get(compaction_page::show))
        .route("/sessions/{name}/search", get(recall_pages::search))
        .route("/sessions/{name}/recall/{handle}", get(recall_pages::open))
        .route("/sessions/{name}/undo", get(actions::redirect_to_session).post(actions::undo))
        .route("/sessions/{name}/redo", get(actions::redirect_to_session).post(actions::redo))
        .route("/sessions/{name}/compress", get(actions::redirect_to_session).post(actions::compress))
        .route("/events", get(change_feed::stream_events))
        .route("/api/overview", get(api::overview))
        .route("/api/sessions", get(api::sessions))
        .route("/api/sessions/{name}", get(api::session))
        .route("/api/sessions/{name}/epochs/{number}", get(api::compaction))
        .route("/api/sessions/{name}/search", get(api::search))
        .route("/api/sessions/{name}/undo", post(api::undo))
        .route("/api/sessions/{name}/redo", post(api::redo))
        .route("/api/sessions/{name}/compress", post(api::compress))
        .route("/api/recall/{handle}", get(api::recall))
        .route_layer(from_fn_with_state(Arc::clone(gateway), middleware::authenticate_viewer));
    let open = Router::new()
        .route("/login", get(login::show_form).post(login::sign_in))
        .route("/logout", get(login::redirect_home).post(login::sign_out))
        .route("/theme", get(login::redirect_home).post(login::choose_theme))
        .route(
            "/assets/style.css",
            asset_route("text/css; charset=utf-8", &[pages::STYLE_SHEET, include_str!("style.css")]),
        )
        .route("/assets/live.js", asset_route("text/javascript; charset=utf-8", &[include_str!("live.js")]))
        .route("/assets/icon.svg", asset_route("image/svg+xml", &[include_str!("icon.svg")]));
    closed.merge(open).route_layer(from_fn_with_state(Arc::clone(gateway), middleware::finish_response))
}
