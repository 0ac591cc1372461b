//! Coming in and leaving by a form, choosing light or dark, and what is said where nothing can be shown.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use maud::html;

use super::fields::Fields;
use super::frame::{self, Look, Problem, on_this_site, to};
use super::layout::{Page, Refresh};
use super::passes::{self, Wrong};
use crate::gateway::{Access, Gateway};
use crate::pages::{Theme, shown};

/// Where to come in, and go on to a page from there.
pub(super) fn address(page: &str) -> String {
    let page: String = form_urlencoded::byte_serialize(page.as_bytes()).collect();
    format!("/login?to={page}")
}

/// `GET /login`.
pub(super) async fn form(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::of(&query.unwrap_or_default());
    let page = on_this_site(fields.get("to").unwrap_or("/"));
    match gateway.door.access(&gateway.store, &gateway.settings.access, gateway.now()).await {
        Access::Open => to(page),
        Access::Keys | Access::Run(_) => asking(&look, page, None, StatusCode::OK),
    }
}

fn asking(look: &Look, page: &str, said: Option<&str>, status: StatusCode) -> Response {
    let body = html! {
        h1 { "Longhaul" }
        @if let Some(said) = said { p.notice.bad role="alert" { (said) } }
        form.card.login method="post" action="/login" {
            p {
                label for="key" { "A key of this gateway" }
                input id="key" name="key" type="password" required autocomplete="current-password" spellcheck="false" autofocus;
            }
            input type="hidden" name="to" value=(page);
            p { button.strong type="submit" { "Show the dashboard" } }
            p.soft.small { "Whoever runs the gateway makes one with " code { "longhaul keys add NAME" } ". The gateway of " code { "longhaul run" } " is opened by the address that it printed." }
        }
    };
    let look = Look { path: "/login".to_owned(), ..look.clone() };
    let mut response = Page { title: "Come in", look: &look, refresh: Refresh::Never, body }.respond();
    *response.status_mut() = status;
    response
}

/// `POST /login`.
pub(super) async fn enter(
    State(gateway): State<Arc<Gateway>>,
    Extension(look): Extension<Look>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let fields = gateway.fields(request).await?;
    let page = on_this_site(fields.get("to").unwrap_or("/"));
    let (passes, now) = (&gateway.dashboard.passes, gateway.now());
    let access = gateway.door.access(&gateway.store, &gateway.settings.access, now).await;
    if access == Access::Open {
        return Ok(to(page));
    }
    let secret = fields.get("key").unwrap_or_default();
    match gateway.door.opens(&gateway.store, secret, &access, now).await {
        Ok(_) => {}
        Err(closed) if closed.status == StatusCode::UNAUTHORIZED => {
            if passes.was_wrong(now) == Wrong::Often {
                let said = "There were many wrong keys in this minute, and there is no such key.";
                let mut response = asking(&look, page, Some(said), StatusCode::TOO_MANY_REQUESTS);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
                return Ok(response);
            }
            return Ok(asking(&look, page, Some("There is no such key."), closed.status));
        }
        Err(closed) => return Err(closed.into()),
    }
    let pass = passes.give(secret, now).ok_or_else(Problem::ours)?;
    Ok(with_cookie(to(page), passes::set_pass(&headers, &pass)))
}

/// `POST /logout`.
pub(super) async fn leave(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    gateway.dashboard.passes.end(&headers);
    with_cookie(to("/"), passes::set_pass(&headers, ""))
}

/// `POST /theme`.
pub(super) async fn theme(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let fields = gateway.fields(request).await?;
    let theme = Theme::of(fields.get("theme").unwrap_or_default());
    let page = on_this_site(fields.get("to").unwrap_or("/"));
    Ok(with_cookie(to(page), frame::set_theme(&headers, theme)))
}

/// Who follows a form's address by hand is led to the first page.
pub(super) async fn home() -> Response {
    to("/")
}

fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// A page that says why another is not shown.
pub(super) fn sorry(look: &Look, problem: &Problem) -> Response {
    let title = match problem.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        _ => "That did not work",
    };
    let body = html! {
        h1 { (title) }
        p.notice.bad role="alert" { bdi { (shown(&problem.said)) } }
        p { a href="/" { "To the overview" } }
    };
    let mut response = Page { title, look, refresh: Refresh::Never, body }.respond().into_response();
    *response.status_mut() = problem.status;
    response
}
