//! The middleware of every dashboard route: it checks who may see it, adds security headers, and renders
//! errors as a page or as JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use super::{browser_logins, login};
use crate::gateway::auth::{Denied, KeyInPath, find_gateway_key};
use crate::gateway::host_check::SEC_FETCH_SITE;
use crate::gateway::{Gateway, host_check};
use crate::pages::Theme;
use crate::pool::{JobError, Owner};
use crate::store::{StoreError, TenantScope};

/// The name of the cookie that stores whether the reader chose light or dark colours.
pub(super) const THEME_COOKIE: &str = "longhaul_theme";
/// The time that a browser keeps the theme cookie: one year.
const THEME_LIFETIME: Duration = Duration::from_hours(365 * 24);

/// The security headers of every response: a page loads only files from this site, runs no inline script or
/// style, and cannot be framed. The referrer is `same-origin` because with a stricter policy browsers send no
/// usable `Origin` with a form, which `check_origin` needs.
const SECURITY_HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The facts about a request that every page needs to render itself.
#[derive(Debug, Clone)]
pub(super) struct PageContext {
    pub(super) theme: Theme,
    /// The path and query of the page, so that a form can lead back to it.
    pub(super) path: String,
    /// Whether the reader signed in with the form and can sign out again.
    pub(super) is_signed_in: bool,
}

impl PageContext {
    fn from_request(parts: &Parts) -> Self {
        let theme = browser_logins::find_cookie(&parts.headers, THEME_COOKIE).map(Theme::from_name).unwrap_or_default();
        let path = match parts.method {
            Method::POST => parts.uri.path().to_owned(),
            _ => parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        };
        Self {
            theme,
            path,
            is_signed_in: browser_logins::find_cookie(&parts.headers, browser_logins::LOGIN_COOKIE).is_some(),
        }
    }
}

/// The reason why a request is refused or failed, with the HTTP status for it.
#[derive(Debug, Clone)]
pub(super) struct DashboardError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl DashboardError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn shutting_down() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway is shutting down")
    }

    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    }
}

impl From<Denied> for DashboardError {
    fn from(denied: Denied) -> Self {
        Self::new(denied.status, denied.message)
    }
}

impl From<StoreError> for DashboardError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(message) => Self::new(StatusCode::NOT_FOUND, message),
            StoreError::InvalidInput(message) => Self::new(StatusCode::BAD_REQUEST, message),
            error => {
                tracing::warn!("the dashboard cannot read the store: {error}");
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("the store is unavailable, so sessions are in memory only: {error}"),
                )
            }
        }
    }
}

/// The error travels as an extension of an empty response. [`finish_response`] turns it into a page or JSON,
/// because it knows which the client wants.
impl IntoResponse for DashboardError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Wraps every dashboard route: checks the host name and the origin, renders a [`DashboardError`] as a page
/// or as JSON, and adds [`SECURITY_HEADERS`].
pub(super) async fn finish_response(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let context = PageContext::from_request(&parts);
    // A client that does not ask for HTML is a program and gets JSON.
    let wants_page = parts.headers.get(ACCEPT).is_some_and(|kinds| header_contains(kinds, "text/html"));
    let is_program = !wants_page || parts.uri.path().starts_with("/api/") || parts.uri.path() == "/events";
    let mut response = match host_check::check_request(&parts, &gateway.settings).and_then(|()| check_origin(&parts)) {
        Ok(()) => {
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(context.clone());
            next.run(request).await
        }
        Err(denied) => DashboardError::from(denied).into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<DashboardError>() {
        response = match problem.status {
            _ if is_program => json_response(problem.status, &json!({"error": problem.message})),
            StatusCode::UNAUTHORIZED => redirect_to(&login::login_url(&context.path)),
            _ => login::error_page(&context, &problem),
        };
    }
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Wraps the routes that show sessions: finds the tenant of the viewer, signs a browser in if its path
/// contains a key, and runs the route in the pool.
pub(super) async fn authenticate_viewer(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Result<Response, DashboardError> {
    let (now, access) = (gateway.now(), &gateway.settings.access);
    let login_key = gateway.dashboard.logins.find_key(request.headers(), now);
    let scope =
        gateway.auth.authorize_viewer(&gateway.store, request.headers(), login_key.as_deref(), access, now).await?;
    if let Some(signed_in) = sign_in_by_path(&gateway, &request) {
        return Ok(signed_in);
    }
    let owner = match &scope {
        TenantScope::All => Owner::NO_TENANT,
        TenantScope::One(tenant) => tenant.pool_owner(),
    };
    request.extensions_mut().insert(scope);
    // Rendering a page can take long, so the pool does it.
    gateway.pool.run(owner, next.run(request)).await.map_err(|reason| match reason {
        JobError::Busy => DashboardError::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway is busy; try again"),
        JobError::Panicked => DashboardError::internal(),
    })
}

/// Checks the sender of a `POST` against cross-site request forgery. A browser must send it from a page of
/// this host and port. A request without any origin header is accepted only without a login cookie, because
/// browsers add cookies by themselves.
fn check_origin(parts: &Parts) -> Result<(), Denied> {
    if parts.method != Method::POST {
        return Ok(());
    }
    let headers = &parts.headers;
    let own_host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let own_host = own_host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let is_ours = match (headers.get(SEC_FETCH_SITE), origin) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin.split_once("://").map(|(_, host)| host) == own_host,
        (None, None) => browser_logins::find_cookie(headers, browser_logins::LOGIN_COOKIE).is_none(),
    };
    if is_ours {
        return Ok(());
    }
    Err(Denied::new(StatusCode::FORBIDDEN, "only the dashboard's own pages may send this request"))
}

/// Signs in a browser whose path contains a gateway key, and redirects it to the same page without the key,
/// so that no link on a page contains one. Returns nothing for other requests.
fn sign_in_by_path(gateway: &Gateway, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let wants_page = headers.get(ACCEPT).is_some_and(|kinds| header_contains(kinds, "text/html"));
    request.extensions().get::<KeyInPath>().filter(|_| wants_page && request.method() == Method::GET)?;
    let login_token = gateway.dashboard.logins.create(find_gateway_key(headers)?, gateway.now())?;
    let page = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut response = redirect_to(local_path(page));
    response.headers_mut().insert(SET_COOKIE, browser_logins::login_cookie(headers, &login_token)?);
    Some(response)
}

fn header_contains(value: &HeaderValue, word: &str) -> bool {
    value.to_str().is_ok_and(|value| value.contains(word))
}

/// Serializes a value as a JSON response.
pub(super) fn json_response(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let kind = [(http::header::CONTENT_TYPE, "application/json")];
    match serde_json::to_string(value) {
        Ok(text) => (status, kind, text).into_response(),
        Err(_) => DashboardError::internal().into_response(),
    }
}

/// Returns a redirect (303) to another path of this site.
pub(super) fn redirect_to(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// Returns the path if it is a plain path of this site, and `/` otherwise. It prevents a form field from
/// redirecting to another host.
pub(super) fn local_path(path: &str) -> &str {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_plain && path.starts_with('/') && !path.starts_with("//") { path } else { "/" }
}

/// Returns the value of a `Set-Cookie` header that stores the theme.
pub(super) fn theme_cookie(headers: &HeaderMap, theme: Theme) -> Option<HeaderValue> {
    browser_logins::make_cookie(headers, THEME_COOKIE, theme.name().unwrap_or_default(), THEME_LIFETIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_this_site() {
        for own in ["/", "/sessions/ab?page=2", "/login?to=%2F"] {
            assert_eq!(local_path(own), own);
        }
        for other in ["", "x", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nx: y", "/\tb"] {
            assert_eq!(local_path(other), "/", "{other}");
        }
    }

    #[test]
    fn only_our_own_pages_change_something() {
        let passes = |headers: &[(&str, &str)]| {
            let request = http::Request::builder().method("POST").uri("/theme").header("host", "localhost:8484");
            let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            check_origin(&request.body(()).unwrap().into_parts().0).is_ok()
        };
        assert!(passes(&[]), "a program");
        assert!(passes(&[("sec-fetch-site", "same-origin")]));
        assert!(passes(&[("origin", "http://localhost:8484")]));
        for foreign in ["same-site", "cross-site", "none", ""] {
            assert!(!passes(&[("sec-fetch-site", foreign)]), "{foreign}");
        }
        for foreign in ["null", "http://localhost:3000", "http://127.0.0.1:8484", ""] {
            assert!(!passes(&[("origin", foreign)]), "{foreign}");
        }
        assert!(!passes(&[("cookie", "longhaul_pass=abc")]), "what a browser sends by itself is not enough");
    }
}
