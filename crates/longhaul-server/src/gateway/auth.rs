//! Authentication: which clients may use the gateway, and which tenant's sessions they get.
//!
//! Any web page can make a browser send requests to this machine. So [`host_check`] first refuses requests
//! under a foreign host name or from a foreign page. A client's key is only looked up or hashed. It is never
//! stored and never becomes part of an SQL statement.
//!
//! ```text
//! /lh-…/v1/messages ────────────────────────────┐
//! x-longhaul-key ───────────────────────────────┤ gateway key: looked up, and never forwarded
//! x-api-key, authorization, api-key ──which?────┤
//!                                   └─provider's┴─▶ forwarded to the upstream unchanged
//! ```
//!
//! A client may send a gateway key in a provider's key header only if the gateway has a key of its own for that
//! provider. If the gateway requires keys, its own pages (`/healthz`, `/metrics`) require one too: any key, in
//! x-longhaul-key or in a provider's key header.
//!
//! Only a gateway key identifies a tenant. A provider's credential proves nothing that we could verify, and
//! those of a subscription are renewed within the hour. So without keys there is one tenant: the user of this
//! machine.
//!
//! [`host_check`]: super::host_check

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use axum::response::Response;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use longhaul_engine::{ApiFormat, Tokens};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::own_replies;
use super::settings::ClientAccess;
use crate::store::{GatewayKey, KeyGrant, KeyId, LOCAL_TENANT, Result, Store, Tenant, TenantScope};
use crate::upstream::{Upstream, UpstreamError};
use longhaul_engine::Timestamp;

/// The header for a gateway key.
pub(super) const KEY_HEADER: HeaderName = HeaderName::from_static("x-longhaul-key");
/// Headers that an agent fills from its environment, and that may contain a gateway key if the agent can send
/// no other header. Codex sends these two.
static ENVIRONMENT_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("openai-organization"), HeaderName::from_static("openai-project")];
/// The headers in which clients send a provider's key.
static PROVIDER_KEY_HEADERS: [HeaderName; 3] =
    [HeaderName::from_static("x-api-key"), AUTHORIZATION, HeaderName::from_static("api-key")];
/// The prefix, in lower case, before a key in some of these headers.
const BEARER_PREFIX: &str = "bearer ";
/// The shortest value, in bytes, that is hidden in error messages. Shorter ones are ordinary words, not keys.
const MIN_HIDDEN_KEY_BYTES: usize = 8;
/// The time for which a key that was found is not looked up again. A revoked key works no longer than this,
/// unless the store does not answer.
const KEY_CACHE_TTL: Duration = Duration::from_secs(5);
/// The time for which a key that was found stays valid while the store does not answer, because nobody could
/// use the gateway otherwise. A key that was revoked after it was last looked up works on until then.
const KEY_CACHE_TTL_WITHOUT_STORE: Duration = Duration::from_hours(12);
const MINUTE: Duration = Duration::from_mins(1);
/// The longest time that a request waits for the store to say whether it has keys.
const HAS_KEYS_TIMEOUT: Duration = Duration::from_secs(1);
/// The time between two such questions. A key that is added closes an open gateway within this time.
const HAS_KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// The delay that clients are told to wait while the store does not answer. Chosen by hand.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// An authenticated client.
#[derive(Clone)]
pub(super) struct Principal {
    /// The tenant whose sessions the client gets; none if neither the store nor the system's random source
    /// answers.
    pub(super) tenant: Option<Tenant>,
    /// The gateway key that the client sent.
    pub(super) key_grant: Option<KeyGrant>,
}

impl Principal {
    /// Returns the client's key and its daily limit; none if no limit applies.
    pub(super) fn daily_limit(&self) -> Option<(KeyId, Tokens)> {
        self.key_grant.as_ref().and_then(|key_grant| Some((key_grant.id, key_grant.limits.tokens_per_day?)))
    }
}

/// The reason why a client was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// The delay after which another try makes sense.
    retry_after: Option<Duration>,
}

impl Denied {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None }
    }

    /// Denies a request because a limit is reached until so much time has passed.
    pub(super) fn too_many_requests(after: Duration, message: String) -> Self {
        Self { retry_after: Some(after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    /// Denies a request because the key's tokens of the day are spent, or reserved by requests in flight.
    pub(super) fn daily_limit(limit: Tokens, retry_after: Duration) -> Self {
        Self::too_many_requests(retry_after, format!("the key has used its limit of {limit} tokens a day"))
    }

    fn store_unavailable() -> Self {
        let message = "the store of the keys does not answer; try again";
        Self { retry_after: Some(STORE_RETRY_DELAY), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// Returns the denial as a response in an API format.
    pub(super) fn to_response(&self, api_format: ApiFormat) -> Response {
        let mut response = own_replies::error_response(api_format, self.status, &self.message);
        if let Some(after) = self.retry_after {
            let seconds = after.as_millis().div_ceil(1000).max(1) as u64;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Authenticates clients, and caches the store's answers about keys.
#[derive(Default)]
pub(super) struct Auth {
    /// The tenant of all clients that need no key.
    local_tenant: Mutex<Option<Tenant>>,
    /// The time of the last question to the store whether it has keys, and the newest answer.
    has_keys_checked: Mutex<Option<(Timestamp, bool)>>,
    key_grants: Mutex<HashMap<String, (Timestamp, KeyGrant)>>,
    requests_in_minute: Mutex<HashMap<KeyId, (Timestamp, u32)>>,
    /// The temporary hash key of the local tenant while the store is unavailable. Sessions that began then are
    /// still found by it.
    interim_key: OnceLock<Option<[u8; 32]>>,
}

impl Auth {
    /// Returns the access that applies now. An open gateway requires keys as soon as its store has one.
    pub(super) async fn effective_access(
        &self,
        store: &Store,
        configured: &ClientAccess,
        now: Timestamp,
    ) -> ClientAccess {
        match configured {
            ClientAccess::Open if self.store_has_keys(store, now).await => ClientAccess::Keys,
            configured => configured.clone(),
        }
    }

    /// Asks the store from time to time whether it has keys, and never again once it has. If the store does
    /// not answer, the last answer stays valid.
    async fn store_has_keys(&self, store: &Store, now: Timestamp) -> bool {
        let lock = || self.has_keys_checked.lock();
        let last_answer = match *lock() {
            Some((_, true)) => return true,
            Some((checked_at, false)) if is_within(HAS_KEYS_INTERVAL, checked_at, now) => return false,
            last_answer => last_answer.is_some_and(|(_, has_keys)| has_keys),
        };
        *lock() = Some((now, last_answer));
        let answer = timeout(HAS_KEYS_TIMEOUT, store.has_keys()).await;
        let has_keys = answer.ok().and_then(Result::ok).unwrap_or(last_answer);
        *lock() = Some((now, has_keys));
        has_keys
    }

    /// Authenticates a client that sends a request for an upstream.
    pub(super) async fn authenticate(
        &self,
        store: &Store,
        headers: &HeaderMap,
        upstream: &Upstream,
        access: &ClientAccess,
        now: Timestamp,
    ) -> std::result::Result<Principal, Denied> {
        let access = self.effective_access(store, access, now).await;
        if let ClientAccess::RunKey(key) = &access {
            find_gateway_key(headers).filter(|sent_key| key.matches(sent_key)).ok_or_else(run_key_required)?;
            return Ok(self.local_principal(store).await);
        }
        let gateway_key_in_provider_header = find_key_in_provider_header(headers);
        let dedicated_key = find_dedicated_key(headers);
        if dedicated_key.is_none() && gateway_key_in_provider_header.is_some() && upstream.key_header().is_none() {
            let message = "the provider's key header contains a gateway key; send the gateway key as x-longhaul-key";
            return Err(Denied::new(StatusCode::UNAUTHORIZED, message));
        }
        if let Some(secret) = dedicated_key.or(gateway_key_in_provider_header) {
            let key_grant = self.require_key(store, secret, now).await?;
            self.count_in_minute(&key_grant, now)?;
            return Ok(Principal { tenant: Some(key_grant.tenant.clone()), key_grant: Some(key_grant) });
        }
        if access == ClientAccess::Keys {
            return Err(key_required());
        }
        Ok(self.local_principal(store).await)
    }

    /// Checks whether a client may see a page about the gateway itself. This counts against no limit.
    pub(super) async fn check_page_access(
        &self,
        store: &Store,
        headers: &HeaderMap,
        access: &ClientAccess,
        now: Timestamp,
    ) -> std::result::Result<(), Denied> {
        self.authorize_viewer(store, headers, None, access, now).await.map(drop)
    }

    /// Returns whose sessions a viewer may see, by the key in the headers or else by the key of the
    /// browser's login cookie.
    pub(super) async fn authorize_viewer(
        &self,
        store: &Store,
        headers: &HeaderMap,
        login_key: Option<&str>,
        access: &ClientAccess,
        now: Timestamp,
    ) -> std::result::Result<TenantScope, Denied> {
        let access = self.effective_access(store, access, now).await;
        if access == ClientAccess::Open {
            return Ok(TenantScope::All);
        }
        let missing = || if access == ClientAccess::Keys { key_required() } else { run_key_required() };
        self.authorize_key(store, find_gateway_key(headers).or(login_key).ok_or_else(missing)?, &access, now).await
    }

    /// Returns whose sessions a key gives access to, at a gateway that requires a key.
    pub(super) async fn authorize_key(
        &self,
        store: &Store,
        secret: &str,
        access: &ClientAccess,
        now: Timestamp,
    ) -> std::result::Result<TenantScope, Denied> {
        match access {
            ClientAccess::RunKey(key) if key.matches(secret) => Ok(TenantScope::All),
            ClientAccess::RunKey(_) => Err(run_key_required()),
            ClientAccess::Open | ClientAccess::Keys => {
                Ok(TenantScope::One(self.require_key(store, secret, now).await?.tenant))
            }
        }
    }

    /// Returns the grant of a key, or denies the request if the key is unknown.
    pub(super) async fn require_key(
        &self,
        store: &Store,
        secret: &str,
        now: Timestamp,
    ) -> std::result::Result<KeyGrant, Denied> {
        let key_grant = self.find_key(store, secret, now).await.map_err(|error| {
            tracing::warn!("cannot look up a key in the store: {error}");
            Denied::store_unavailable()
        })?;
        key_grant.ok_or_else(|| {
            Denied::new(StatusCode::UNAUTHORIZED, "unknown gateway key; run longhaul keys list to see the keys")
        })
    }

    async fn find_key(&self, store: &Store, secret: &str, now: Timestamp) -> Result<Option<KeyGrant>> {
        if !GatewayKey::has_key_format(secret) {
            return Ok(None);
        }
        let cached = self.key_grants.lock().get(secret).cloned();
        if let Some((_, key_grant)) = cached.as_ref().filter(|(at, _)| is_within(KEY_CACHE_TTL, *at, now)) {
            return Ok(Some(key_grant.clone()));
        }
        let key_grant = match store.find_key(secret).await {
            Ok(key_grant) => key_grant,
            Err(error) => {
                let cached = cached.filter(|(at, _)| is_within(KEY_CACHE_TTL_WITHOUT_STORE, *at, now));
                return cached.map(|(_, key_grant)| Some(key_grant)).ok_or(error);
            }
        };
        let mut cache = self.key_grants.lock();
        cache.retain(|cached_key, (at, _)| cached_key != secret && is_within(KEY_CACHE_TTL_WITHOUT_STORE, *at, now));
        if let Some(key_grant) = &key_grant {
            cache.insert(secret.to_owned(), (now, key_grant.clone()));
        }
        Ok(key_grant)
    }

    /// Counts one request against the key's limit per minute. Each gateway process counts for itself.
    fn count_in_minute(&self, key_grant: &KeyGrant, now: Timestamp) -> std::result::Result<(), Denied> {
        let Some(max_requests) = key_grant.limits.requests_per_minute else { return Ok(()) };
        let mut minutes = self.requests_in_minute.lock();
        let (since, used) = minutes.entry(key_grant.id).or_insert((now, 0));
        if !is_within(MINUTE, *since, now) {
            (*since, *used) = (now, 0);
        }
        if *used >= max_requests {
            let retry_after = MINUTE.saturating_sub(elapsed(*since, now).unwrap_or_default());
            return Err(Denied::too_many_requests(
                retry_after,
                format!("the key has reached its limit of {max_requests} requests a minute"),
            ));
        }
        *used += 1;
        Ok(())
    }

    /// Returns the principal of a client that needs no key of the store.
    async fn local_principal(&self, store: &Store) -> Principal {
        let known_tenant = self.local_tenant.lock().clone();
        let found = match known_tenant {
            Some(tenant) => Ok(tenant),
            None => store.get_or_create_tenant(LOCAL_TENANT).await,
        };
        let tenant = match found {
            Ok(tenant) => {
                *self.local_tenant.lock() = Some(tenant.clone());
                Some(match self.interim_key.get() {
                    Some(Some(key)) => tenant.with_interim_key(*key),
                    _ => tenant,
                })
            }
            Err(_) => self.interim_key.get_or_init(random_tenant_key).map(Tenant::new_interim),
        };
        Principal { tenant, key_grant: None }
    }
}

/// Returns a random key; none if the system gives no random bytes.
fn random_tenant_key() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

/// Returns whether the gateway's own provider key pays for a request with these headers.
pub(super) fn does_gateway_pay(headers: &HeaderMap, upstream: &Upstream) -> bool {
    let has_no_provider_key = |name| !headers.contains_key(name) || headers.get_all(name).iter().any(is_gateway_key);
    upstream.key_header().is_some() && PROVIDER_KEY_HEADERS.iter().all(has_no_provider_key)
}

/// Sets the provider key of an outgoing request. The client's own key stays; without one, the gateway's is
/// used. Gateway keys are removed from all headers.
pub(super) fn set_provider_key(headers: &mut HeaderMap, upstream: &Upstream) {
    remove_gateway_keys(headers);
    for name in &PROVIDER_KEY_HEADERS {
        if let Some(value) = headers.get_mut(name) {
            value.set_sensitive(true);
        }
    }
    if PROVIDER_KEY_HEADERS.iter().all(|name| !headers.contains_key(name)) {
        headers.extend(upstream.key_header());
    }
}

/// Removes gateway keys and provider keys from the headers.
pub(super) fn remove_all_keys(headers: &mut HeaderMap) {
    remove_gateway_keys(headers);
    for name in &PROVIDER_KEY_HEADERS {
        headers.remove(name);
    }
}

fn remove_gateway_keys(headers: &mut HeaderMap) {
    let key_headers = headers.iter().filter(|(_, value)| is_gateway_key(value)).map(|(name, _)| name.clone());
    let key_headers: Vec<HeaderName> = key_headers.chain([KEY_HEADER]).collect();
    for name in &key_headers {
        headers.remove(name);
    }
}

fn is_gateway_key(value: &HeaderValue) -> bool {
    strip_bearer(value).is_some_and(GatewayKey::has_key_format)
}

/// Returns the error without any key that the request's headers contain.
pub(super) fn hide_keys(headers: &HeaderMap, error: UpstreamError) -> UpstreamError {
    let keys = provider_keys(headers).chain(headers.get(KEY_HEADER).and_then(strip_bearer));
    keys.filter(|secret| secret.len() >= MIN_HIDDEN_KEY_BYTES).fold(error, UpstreamError::redacting)
}

/// Returns the gateway key in the headers, from its own header or from a provider's.
pub(crate) fn find_gateway_key(headers: &HeaderMap) -> Option<&str> {
    find_dedicated_key(headers).or_else(|| find_key_in_provider_header(headers))
}

/// Returns the gateway key from a header for a provider's key.
fn find_key_in_provider_header(headers: &HeaderMap) -> Option<&str> {
    provider_keys(headers).find(|secret| GatewayKey::has_key_format(secret))
}

/// Returns the gateway key from a header that is not for a provider's key.
fn find_dedicated_key(headers: &HeaderMap) -> Option<&str> {
    let sent_key = headers.get(KEY_HEADER).map(|value| strip_bearer(value).unwrap_or_default());
    let mut others = ENVIRONMENT_HEADERS.iter().filter_map(|name| headers.get(name)).filter_map(strip_bearer);
    sent_key.or_else(|| others.find(|secret| GatewayKey::has_key_format(secret)))
}

/// A request extension: the gateway key was in the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyInPath;

/// Moves a gateway key from the first segment of the path into its header. Every agent accepts an address
/// with a path, but few accept a header.
pub(super) fn move_key_from_path<B>(mut request: http::Request<B>) -> http::Request<B> {
    let path = request.uri().path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let Some((first, rest)) =
        path.strip_prefix('/').map(|path| path.split_at(path.find(['/', '?']).unwrap_or(path.len())))
    else {
        return request;
    };
    if !GatewayKey::has_key_format(first) {
        return request;
    }
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    let key = HeaderValue::from_str(first);
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    if let (Ok(mut key), Ok(uri)) = (key, http::Uri::from_parts(parts)) {
        key.set_sensitive(true);
        *request.uri_mut() = uri;
        request.headers_mut().insert(KEY_HEADER, key);
        request.extensions_mut().insert(KeyInPath);
    }
    request
}

/// Returns the values of the headers for a provider's key.
fn provider_keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    PROVIDER_KEY_HEADERS.iter().flat_map(|name| headers.get_all(name)).filter_map(strip_bearer)
}

/// Returns the key in a header value, without a bearer prefix.
fn strip_bearer(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?.trim();
    let named = text.get(..BEARER_PREFIX.len()).filter(|start| start.eq_ignore_ascii_case(BEARER_PREFIX));
    Some(named.map_or(text, |start| text[start.len()..].trim()))
}

fn key_required() -> Denied {
    Denied::new(StatusCode::UNAUTHORIZED, "this gateway requires a key; send it as x-longhaul-key")
}

fn run_key_required() -> Denied {
    let message = "this gateway belongs to one run of an agent; open the address that longhaul run printed";
    Denied::new(StatusCode::UNAUTHORIZED, message)
}

/// Returns the time between two moments; none if the clock was set back.
fn elapsed(since: Timestamp, now: Timestamp) -> Option<Duration> {
    u64::try_from(now.0.saturating_sub(since.0)).ok().map(Duration::from_millis)
}

fn is_within(time: Duration, since: Timestamp, now: Timestamp) -> bool {
    elapsed(since, now).is_some_and(|passed| passed < time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_path_is_taken_out_and_nothing_else_is() {
        let key = format!("lh-{}", "A".repeat(43));
        let taken = |target: &str| {
            let request = http::Request::builder().uri(target).body(()).unwrap();
            let request = move_key_from_path(request);
            let key = request.headers().get(KEY_HEADER).map(|key| key.to_str().unwrap().to_owned());
            assert_eq!(key.is_some(), request.extensions().get::<KeyInPath>().is_some());
            (request.uri().to_string(), key)
        };
        for (rest, left) in [
            ("/v1/messages?beta=true", "/v1/messages?beta=true"),
            ("/", "/"),
            ("", "/"),
            ("?page=2", "/?page=2"),
            ("//v1/messages", "//v1/messages"),
        ] {
            assert_eq!(taken(&format!("/{key}{rest}")), (left.to_owned(), Some(key.clone())), "{rest}");
        }
        let absolute = format!("http://127.0.0.1:1/{key}/v1/models");
        assert_eq!(taken(&absolute), ("http://127.0.0.1:1/v1/models".to_owned(), Some(key.clone())));
        for other in [
            "/".to_owned(),
            "/v1/messages".to_owned(),
            format!("/v1/{key}"),
            format!("//{key}/v1"),
            format!("/{key}x/v1"),
            format!("/?{key}"),
        ] {
            assert_eq!(taken(&other), (other.clone(), None));
        }
    }
}
