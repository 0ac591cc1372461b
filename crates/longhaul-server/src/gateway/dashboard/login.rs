//! Signs people in and out by a form, stores their choice of light or dark, and renders the error page.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use maud::html;

use super::browser_logins::{self, WrongKeyRate};
use super::form_fields::FormFields;
use super::layout::{Page, Refresh};
use super::middleware::{self, DashboardError, PageContext, local_path, redirect_to};
use crate::gateway::{ClientAccess, Gateway};
use crate::pages::{Theme, sanitize_line};

/// Returns the path of the login form, which leads to `page` afterwards.
pub(super) fn login_url(page: &str) -> String {
    let page: String = form_urlencoded::byte_serialize(page.as_bytes()).collect();
    format!("/login?to={page}")
}

/// `GET /login`: shows the login form, or redirects if no key is required.
pub(super) async fn show_form(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = FormFields::parse(&query.unwrap_or_default());
    let page = local_path(fields.get("to").unwrap_or("/"));
    match gateway.auth.effective_access(&gateway.store, &gateway.settings.access, gateway.now()).await {
        ClientAccess::Open => redirect_to(page),
        ClientAccess::Keys | ClientAccess::RunKey(_) => login_page(&context, page, None, StatusCode::OK),
    }
}

fn login_page(context: &PageContext, page: &str, message: Option<&str>, status: StatusCode) -> Response {
    let body = html! {
        h1 { "Longhaul" }
        @if let Some(message) = message { p.notice.bad role="alert" { (message) } }
        form.card.login method="post" action="/login" {
            p {
                label for="key" { "Gateway key" }
                input id="key" name="key" type="password" required autocomplete="current-password" spellcheck="false" autofocus;
            }
            input type="hidden" name="to" value=(page);
            p { button.strong type="submit" { "Sign in" } }
            p.soft.small { "The operator of the gateway creates one with " code { "longhaul keys add NAME" } ". The gateway of " code { "longhaul run" } " opens at the address that it printed." }
        }
    };
    let context = PageContext { path: "/login".to_owned(), ..context.clone() };
    let mut response = Page { title: "Sign in", context: &context, refresh: Refresh::Never, body }.respond();
    *response.status_mut() = status;
    response
}

/// `POST /login`: checks the key and sets the login cookie.
pub(super) async fn sign_in(
    State(gateway): State<Arc<Gateway>>,
    Extension(context): Extension<PageContext>,
    request: Request,
) -> Result<Response, DashboardError> {
    let headers = request.headers().clone();
    let fields = gateway.read_fields(request).await?;
    let page = local_path(fields.get("to").unwrap_or("/"));
    let (logins, now) = (&gateway.dashboard.logins, gateway.now());
    let access = gateway.auth.effective_access(&gateway.store, &gateway.settings.access, now).await;
    if access == ClientAccess::Open {
        return Ok(redirect_to(page));
    }
    let secret = fields.get("key").unwrap_or_default();
    match gateway.auth.authorize_key(&gateway.store, secret, &access, now).await {
        Ok(_) => {}
        Err(denied) if denied.status == StatusCode::UNAUTHORIZED => {
            if logins.record_wrong_key(now) == WrongKeyRate::Excessive {
                let message = "Unknown key. There were too many wrong keys; try again in a minute.";
                let mut response = login_page(&context, page, Some(message), StatusCode::TOO_MANY_REQUESTS);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
                return Ok(response);
            }
            return Ok(login_page(&context, page, Some("Unknown key."), denied.status));
        }
        Err(denied) => return Err(denied.into()),
    }
    let login_token = logins.create(secret, now).ok_or_else(DashboardError::internal)?;
    Ok(with_cookie(redirect_to(page), browser_logins::login_cookie(&headers, &login_token)))
}

/// `POST /logout`: removes the login and its cookie.
pub(super) async fn sign_out(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    gateway.dashboard.logins.remove(&headers);
    with_cookie(redirect_to("/"), browser_logins::login_cookie(&headers, ""))
}

/// `POST /theme`: stores the choice of light or dark in a cookie.
pub(super) async fn choose_theme(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
) -> Result<Response, DashboardError> {
    let headers = request.headers().clone();
    let fields = gateway.read_fields(request).await?;
    let theme = Theme::from_name(fields.get("theme").unwrap_or_default());
    let page = local_path(fields.get("to").unwrap_or("/"));
    Ok(with_cookie(redirect_to(page), middleware::theme_cookie(&headers, theme)))
}

/// `GET` of a form's address: redirects a person who typed it to the overview.
pub(super) async fn redirect_home() -> Response {
    redirect_to("/")
}

fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Renders the page that explains why another one is not shown.
pub(super) fn error_page(context: &PageContext, problem: &DashboardError) -> Response {
    let title = match problem.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        _ => "Error",
    };
    let body = html! {
        h1 { (title) }
        p.notice.bad role="alert" { bdi { (sanitize_line(&problem.message)) } }
        p { a href="/" { "To the overview" } }
    };
    let mut response = Page { title, context, refresh: Refresh::Never, body }.respond().into_response();
    *response.status_mut() = problem.status;
    response
}
