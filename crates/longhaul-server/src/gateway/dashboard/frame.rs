//! What stands around every page and every answer of the dashboard: who may see it, the headers that keep a browser from doing
//! anything else with it, and what is said where it cannot be shown.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use super::{login, passes};
use crate::gateway::door::{Closed, KeyInPath, key_of};
use crate::gateway::names::SITE;
use crate::gateway::{Gateway, names};
use crate::pages::Theme;
use crate::pool::{NotDone, Owner};
use crate::store::{StoreError, Whose};

/// The cookie that a reader's choice of light or dark is in,
pub(super) const THEME: &str = "longhaul_theme";
/// which is remembered for a year.
const REMEMBERED: Duration = Duration::from_hours(365 * 24);

/// Nothing but what comes from here is loaded, no text becomes a script or a style, and no page of others shows ours. The referrer is
/// told to ourselves: without it a browser does not say where a form was sent from.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
         form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// How somebody looks at a page.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) theme: Theme,
    /// The page, so that a form can lead back to it.
    pub(super) path: String,
    /// Whether they came in by a form, and can leave again.
    pub(super) has_pass: bool,
}

impl Look {
    fn of(parts: &Parts) -> Self {
        let theme = passes::cookie(&parts.headers, THEME).map(Theme::of).unwrap_or_default();
        let path = match parts.method {
            Method::POST => parts.uri.path().to_owned(),
            _ => parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        };
        Self { theme, path, has_pass: passes::cookie(&parts.headers, passes::PASS).is_some() }
    }
}

/// Why something is not shown.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) said: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, said: impl Into<String>) -> Self {
        Self { status, said: said.into() }
    }

    pub(super) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway stops")
    }

    pub(super) fn ours() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "an error of ours")
    }
}

impl From<Closed> for Problem {
    fn from(closed: Closed) -> Self {
        Self::new(closed.status, closed.said)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unknown(said) => Self::new(StatusCode::NOT_FOUND, said),
            StoreError::Wrong(said) => Self::new(StatusCode::BAD_REQUEST, said),
            error => {
                tracing::warn!("the dashboard has nothing from the store: {error}");
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("the store is unavailable, so sessions are compacted from memory: {error}"),
                )
            }
        }
    }
}

/// It is put into words around it, where it is known how it was asked for.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Around all of it.
pub(super) async fn around(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let look = Look::of(&parts);
    // Who wants no page is told in a way that programs read.
    let wants_page = parts.headers.get(ACCEPT).is_some_and(|kinds| contains(kinds, "text/html"));
    let is_program = !wants_page || parts.uri.path().starts_with("/api/") || parts.uri.path() == "/events";
    let mut response = match names::check(&parts, &gateway.settings).and_then(|()| check_sender(&parts)) {
        Ok(()) => {
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(look.clone());
            next.run(request).await
        }
        Err(closed) => Problem::from(closed).into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = match problem.status {
            _ if is_program => json(problem.status, &json!({"error": problem.said})),
            StatusCode::UNAUTHORIZED => to(&login::address(&look.path)),
            _ => login::sorry(&look, &problem),
        };
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Around what belongs to somebody: finds out whose it is.
pub(super) async fn guard(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (now, access) = (gateway.now(), &gateway.settings.access);
    let pass = gateway.dashboard.passes.key(request.headers(), now);
    let whose = gateway.door.looks(&gateway.store, request.headers(), pass.as_deref(), access, now).await?;
    if let Some(signed_in) = sign_in_by_path(&gateway, &request) {
        return Ok(signed_in);
    }
    let owner = match &whose {
        Whose::Everybody => Owner::EVERYBODY,
        Whose::One(tenant) => tenant.owner(),
    };
    request.extensions_mut().insert(whose);
    // A page can take long to put together.
    gateway.pool.run(owner, next.run(request)).await.map_err(|reason| match reason {
        NotDone::Busy => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway is busy; try again"),
        NotDone::Failed => Problem::ours(),
    })
}

/// Whatever changes something has to come from a page of ours, not only from one of this machine; or from no page at all, and then not
/// by what a browser adds by itself.
fn check_sender(parts: &Parts) -> Result<(), Closed> {
    if parts.method != Method::POST {
        return Ok(());
    }
    let headers = &parts.headers;
    let own = headers.get(HOST).and_then(|host| host.to_str().ok());
    let own = own.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
    let page = headers.get(ORIGIN).map(|page| page.to_str().unwrap_or_default());
    let is_ours = match (headers.get(SITE), page) {
        (Some(site), _) => site == "same-origin",
        (None, Some(page)) => page.split_once("://").map(|(_, host)| host) == own,
        (None, None) => passes::cookie(headers, passes::PASS).is_none(),
    };
    if is_ours {
        return Ok(());
    }
    Err(Closed::new(StatusCode::FORBIDDEN, "only the dashboard's own pages may ask for this"))
}

/// Gives a browser that came with a key in the path a pass, and leads it to the same page without the key: no link on a page has one.
fn sign_in_by_path(gateway: &Gateway, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let wants_page = headers.get(ACCEPT).is_some_and(|kinds| contains(kinds, "text/html"));
    request.extensions().get::<KeyInPath>().filter(|_| wants_page && request.method() == Method::GET)?;
    let pass = gateway.dashboard.passes.give(key_of(headers)?, gateway.now())?;
    let page = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut response = to(on_this_site(page));
    response.headers_mut().insert(SET_COOKIE, passes::set_pass(headers, &pass)?);
    Some(response)
}

fn contains(value: &HeaderValue, word: &str) -> bool {
    value.to_str().is_ok_and(|value| value.contains(word))
}

/// JSON.
pub(super) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let kind = [(http::header::CONTENT_TYPE, "application/json")];
    match serde_json::to_string(value) {
        Ok(text) => (status, kind, text).into_response(),
        Err(_) => Problem::ours().into_response(),
    }
}

/// Leads somewhere else on this site.
pub(super) fn to(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// A path of this site, as a form says where to go back to; what leads elsewhere leads to the first page.
pub(super) fn on_this_site(path: &str) -> &str {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_plain && path.starts_with('/') && !path.starts_with("//") { path } else { "/" }
}

/// The cookie for a theme.
pub(super) fn set_theme(headers: &HeaderMap, theme: Theme) -> Option<HeaderValue> {
    passes::set(headers, THEME, theme.name().unwrap_or_default(), REMEMBERED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_lead_back_to_this_site_only() {
        for own in ["/", "/sessions/ab?page=2", "/login?to=%2F"] {
            assert_eq!(on_this_site(own), own);
        }
        for other in
            ["", "x", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nx: y", "/\tb"]
        {
            assert_eq!(on_this_site(other), "/", "{other}");
        }
    }

    #[test]
    fn only_our_own_pages_change_something() {
        let passes = |headers: &[(&str, &str)]| {
            let request =
                http::Request::builder().method("POST").uri("/theme").header("host", "localhost:8484");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            check_sender(&request.body(()).unwrap().into_parts().0).is_ok()
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
