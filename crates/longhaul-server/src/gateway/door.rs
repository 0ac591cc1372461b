//! Who is let in, and whose sessions are theirs.
//!
//! A browser can be made to send requests to this machine by any page that it shows; [`names`] turns away what comes under a name that
//! is not ours and what pages of others send, before anything else is looked at. What a client shows as its key is a word to be looked
//! up or hashed, and nothing more: it is never stored, and never part of a statement.
//!
//! ```text
//! /lh-…/v1/messages ────────────────────────┐
//! x-longhaul-key ───────────────────────────┤ ours: looked up, and shown to nobody else
//! x-api-key, authorization, api-key ──ours?─┤
//!                                   └─theirs┴─▶ goes to the upstream as it came
//! ```
//!
//! A key of ours stands in the provider's place only where the gateway has a key of its own for that provider to put there. Where keys
//! are wanted, pages about the gateway itself (`/healthz`, `/metrics`) want one too: any of them, in either place.
//!
//! A tenant is known by a key of the gateway alone. A provider's credential says nothing that we could verify, and those of a
//! subscription are renewed within the hour; so where there are no keys, there is one tenant, who is this machine's user.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::response::Response;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use longhaul_engine::{Dialect, Tokens};
use tokio::time::timeout;

use super::settings::Access;
use super::speech;
use crate::agents::Moment;
use crate::store::{Granted, KeyId, LOCAL_TENANT, Result, Secret, Store, Tenant, Whose};
use crate::upstream::{Trouble, Upstream};

/// The header that carries a key of ours.
pub(super) const KEY: HeaderName = HeaderName::from_static("x-longhaul-key");
/// Headers that an agent fills from its environment, and that a key of ours may stand in where the agent can send no other: Codex sends
/// these two.
static FROM_ENVIRONMENT: [HeaderName; 2] =
    [HeaderName::from_static("openai-organization"), HeaderName::from_static("openai-project")];
/// Where clients put a provider's key.
static CREDENTIALS: [HeaderName; 3] =
    [HeaderName::from_static("x-api-key"), AUTHORIZATION, HeaderName::from_static("api-key")];
/// What stands before a key in some of these places.
const BEARER: &str = "bearer ";
/// Shorter ones are words that stand for no key; texts are full of them.
const SHORTEST: usize = 8;
/// A key that was found is believed for so long: one that is taken back works no longer than that.
const BELIEVED: Duration = Duration::from_secs(5);
/// While the store does not answer nobody can take a key back either, and one that was found is believed for so long.
const BELIEVED_ALONE: Duration = Duration::from_hours(12);
const MINUTE: Duration = Duration::from_mins(1);
/// How long a request waits to hear whether the store has keys, and how often that is asked. A key that is added closes an open gateway
/// within so much time.
const HAS_KEYS_TIMEOUT: Duration = Duration::from_secs(1);
const HAS_KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// When to come back, where it is the store that has to.
const SOON: Duration = Duration::from_secs(5);

/// Somebody who was let in.
#[derive(Clone)]
pub(super) struct Guest {
    /// Whose sessions are theirs. Nobody's, where neither the store nor the system's random source says.
    pub(super) tenant: Option<Tenant>,
    /// The key of ours that it came with.
    pub(super) granted: Option<Granted>,
}

/// Why somebody is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) status: StatusCode,
    pub(super) said: String,
    /// When it is worth another try.
    after: Option<Duration>,
}

impl Closed {
    pub(super) fn new(status: StatusCode, said: impl Into<String>) -> Self {
        Self { status, said: said.into(), after: None }
    }

    /// A limit that is reached, until so much time has passed.
    pub(super) fn until(after: Duration, said: String) -> Self {
        Self { after: Some(after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, said) }
    }

    /// The key's tokens of the day are used up, or reserved by requests that are still being answered.
    pub(super) fn daily_limit(most: Tokens, left: Duration) -> Self {
        Self::until(left, format!("the key's limit of {most} tokens a day is reached"))
    }

    fn no_store() -> Self {
        let said = "the store that knows the keys does not answer; try again";
        Self { after: Some(SOON), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, said) }
    }

    /// What is said to who stands outside, in the words of a dialect.
    pub(super) fn answer(&self, dialect: Dialect) -> Response {
        let mut response = speech::error(dialect, self.status, &self.said);
        if let Some(after) = self.after {
            let seconds = after.as_millis().div_ceil(1000).max(1) as u64;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Whom it has seen.
#[derive(Default)]
pub(super) struct Door {
    /// The tenant of all who need no key.
    local: Mutex<Option<Tenant>>,
    /// When the store was asked last whether it has keys, and its newest answer.
    has_keys: Mutex<Option<(Moment, bool)>>,
    granted: Mutex<HashMap<String, (Moment, Granted)>>,
    minutes: Mutex<HashMap<KeyId, (Moment, u32)>>,
    /// The key of the tenant of all who need none, for as long as the store has not said which it is, once that has happened. Sessions
    /// that began so are found by it later.
    interim_key: OnceLock<Option<[u8; 32]>>,
}

impl Door {
    /// The access that applies now: an open gateway is closed as soon as its store has a key.
    pub(super) async fn access(&self, store: &Store, settled: &Access, now: Moment) -> Access {
        match settled {
            Access::Open if self.store_has_keys(store, now).await => Access::Keys,
            settled => settled.clone(),
        }
    }

    /// Asks the store now and then, and never again once it has keys. A store that does not answer has what it had before.
    async fn store_has_keys(&self, store: &Store, now: Moment) -> bool {
        let lock = || self.has_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match *lock() {
            Some((_, true)) => return true,
            Some((asked, false)) if is_within(HAS_KEYS_INTERVAL, asked, now) => return false,
            known => known.is_some_and(|(_, has_keys)| has_keys),
        };
        *lock() = Some((now, known));
        let answer = timeout(HAS_KEYS_TIMEOUT, store.has_keys()).await;
        let has_keys = answer.ok().and_then(Result::ok).unwrap_or(known);
        *lock() = Some((now, has_keys));
        has_keys
    }

    /// Finds out who it is that wants something of an upstream.
    pub(super) async fn admit(
        &self,
        store: &Store,
        headers: &HeaderMap,
        upstream: &Upstream,
        access: &Access,
        now: Moment,
    ) -> std::result::Result<Guest, Closed> {
        let access = self.access(store, access, now).await;
        if let Access::Run(key) = &access {
            key_of(headers).filter(|typed| key.is(typed)).ok_or_else(no_run_key)?;
            return Ok(self.local(store).await);
        }
        let ours = theirs(headers).find(|secret| Secret::is_one(secret));
        let shown = shown(headers);
        if shown.is_none() && ours.is_some() && upstream.own_key().is_none() {
            let said = "a key of this gateway stands where the provider's belongs; send it as x-longhaul-key";
            return Err(Closed::new(StatusCode::UNAUTHORIZED, said));
        }
        if let Some(secret) = shown.or(ours) {
            let granted = self.key(store, secret, now).await?;
            self.within_minute(&granted, now)?;
            return Ok(Guest { tenant: Some(granted.tenant.clone()), granted: Some(granted) });
        }
        if access == Access::Keys {
            return Err(no_key());
        }
        Ok(self.local(store).await)
    }

    /// Lets somebody see a page about the gateway itself. It costs nothing, and counts for no limit.
    pub(super) async fn show(
        &self,
        store: &Store,
        headers: &HeaderMap,
        access: &Access,
        now: Moment,
    ) -> std::result::Result<(), Closed> {
        self.looks(store, headers, None, access, now).await.map(drop)
    }

    /// Whose sessions somebody may look at, by a key in the head, or else by the one behind the pass that a browser shows.
    pub(super) async fn looks(
        &self,
        store: &Store,
        headers: &HeaderMap,
        pass: Option<&str>,
        access: &Access,
        now: Moment,
    ) -> std::result::Result<Whose, Closed> {
        let access = self.access(store, access, now).await;
        if access == Access::Open {
            return Ok(Whose::Everybody);
        }
        let missing = || if access == Access::Keys { no_key() } else { no_run_key() };
        self.opens(store, key_of(headers).or(pass).ok_or_else(missing)?, &access, now).await
    }

    /// Whose sessions a key opens, at a gateway that wants one.
    pub(super) async fn opens(
        &self,
        store: &Store,
        secret: &str,
        access: &Access,
        now: Moment,
    ) -> std::result::Result<Whose, Closed> {
        match access {
            Access::Run(key) if key.is(secret) => Ok(Whose::Everybody),
            Access::Run(_) => Err(no_run_key()),
            Access::Open | Access::Keys => Ok(Whose::One(self.key(store, secret, now).await?.tenant)),
        }
    }

    /// Who a key lets in.
    pub(super) async fn key(
        &self,
        store: &Store,
        secret: &str,
        now: Moment,
    ) -> std::result::Result<Granted, Closed> {
        let granted = self.granted(store, secret, now).await.map_err(|error| {
            tracing::warn!("the store does not say whose a key is: {error}");
            Closed::no_store()
        })?;
        granted.ok_or_else(|| Closed::new(StatusCode::UNAUTHORIZED, "no such key of this gateway"))
    }

    async fn granted(&self, store: &Store, secret: &str, now: Moment) -> Result<Option<Granted>> {
        if !Secret::is_one(secret) {
            return Ok(None);
        }
        let seen = self.granted.lock().unwrap_or_else(PoisonError::into_inner).get(secret).cloned();
        if let Some((_, granted)) = seen.as_ref().filter(|(at, _)| is_within(BELIEVED, *at, now)) {
            return Ok(Some(granted.clone()));
        }
        let granted = match store.key(secret).await {
            Ok(granted) => granted,
            Err(error) => {
                let seen = seen.filter(|(at, _)| is_within(BELIEVED_ALONE, *at, now));
                return seen.map(|(_, granted)| Some(granted)).ok_or(error);
            }
        };
        let mut seen = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|known, (at, _)| known != secret && is_within(BELIEVED_ALONE, *at, now));
        if let Some(granted) = &granted {
            seen.insert(secret.to_owned(), (now, granted.clone()));
        }
        Ok(granted)
    }

    /// Whether a key may be used once more in this minute, of this gateway.
    fn within_minute(&self, granted: &Granted, now: Moment) -> std::result::Result<(), Closed> {
        let Some(most) = granted.limits.requests_per_minute else { return Ok(()) };
        let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, used) = minutes.entry(granted.id).or_insert((now, 0));
        if !is_within(MINUTE, *since, now) {
            (*since, *used) = (now, 0);
        }
        if *used >= most {
            let left = MINUTE.saturating_sub(passed(*since, now).unwrap_or_default());
            return Err(Closed::until(
                left,
                format!("the key's limit of {most} requests a minute is reached"),
            ));
        }
        *used += 1;
        Ok(())
    }

    /// Somebody who needs no key of the store.
    async fn local(&self, store: &Store) -> Guest {
        let known = self.local.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = match known {
            Some(tenant) => Ok(tenant),
            None => store.tenant(LOCAL_TENANT).await,
        };
        let tenant = match found {
            Ok(tenant) => {
                *self.local.lock().unwrap_or_else(PoisonError::into_inner) = Some(tenant.clone());
                Some(match self.interim_key.get() {
                    Some(Some(key)) => tenant.known_as(*key),
                    _ => tenant,
                })
            }
            Err(_) => self.interim_key.get_or_init(random_key).map(Tenant::interim),
        };
        Guest { tenant, granted: None }
    }
}

/// None where the system gives no random bytes.
fn random_key() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

/// Whether the gateway's own key pays for a request with this head.
pub(super) fn is_ours_to_pay(headers: &HeaderMap, upstream: &Upstream) -> bool {
    let is_free = |name| !headers.contains_key(name) || headers.get_all(name).iter().any(is_ours);
    upstream.own_key().is_some() && CREDENTIALS.iter().all(is_free)
}

/// Puts the key that pays into a head on its way to an upstream: the client's own stays, and where there is none, the gateway's. What
/// is a key of ours is shown to nobody, wherever it stands.
pub(super) fn pay(headers: &mut HeaderMap, upstream: &Upstream) {
    without_ours(headers);
    for name in &CREDENTIALS {
        if let Some(value) = headers.get_mut(name) {
            value.set_sensitive(true);
        }
    }
    if CREDENTIALS.iter().all(|name| !headers.contains_key(name)) {
        headers.extend(upstream.own_key());
    }
}

/// Takes every key out of a head.
pub(super) fn without_keys(headers: &mut HeaderMap) {
    without_ours(headers);
    for name in &CREDENTIALS {
        headers.remove(name);
    }
}

fn without_ours(headers: &mut HeaderMap) {
    let ours = headers.iter().filter(|(_, value)| is_ours(value)).map(|(name, _)| name.clone());
    let ours: Vec<HeaderName> = ours.chain([KEY]).collect();
    for name in &ours {
        headers.remove(name);
    }
}

fn is_ours(value: &HeaderValue) -> bool {
    secret_of(value).is_some_and(Secret::is_one)
}

/// What went wrong, without any of the keys that a head shows.
pub(super) fn hushed(headers: &HeaderMap, trouble: Trouble) -> Trouble {
    let keys = theirs(headers).chain(headers.get(KEY).and_then(secret_of));
    keys.filter(|secret| secret.len() >= SHORTEST).fold(trouble, Trouble::hiding)
}

/// The key of ours that a head shows, in its own place or in a provider's.
pub(crate) fn key_of(headers: &HeaderMap) -> Option<&str> {
    shown(headers).or_else(|| theirs(headers).find(|secret| Secret::is_one(secret)))
}

/// The key of ours that stands where no provider's key belongs.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let own = headers.get(KEY).map(|value| secret_of(value).unwrap_or_default());
    let mut more = FROM_ENVIRONMENT.iter().filter_map(|name| headers.get(name)).filter_map(secret_of);
    own.or_else(|| more.find(|secret| Secret::is_one(secret)))
}

/// Marks a request whose key stood in its path.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyInPath;

/// Takes a key of ours out of the path, where it is the first name, and puts it where keys belong. Every agent can be given an address
/// with a path, and few can be given a header.
pub(super) fn take_key_from_path<B>(mut request: http::Request<B>) -> http::Request<B> {
    let path = request.uri().path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let Some((first, rest)) =
        path.strip_prefix('/').map(|path| path.split_at(path.find(['/', '?']).unwrap_or(path.len())))
    else {
        return request;
    };
    if !Secret::is_one(first) {
        return request;
    }
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    let key = HeaderValue::from_str(first);
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    if let (Ok(mut key), Ok(uri)) = (key, http::Uri::from_parts(parts)) {
        key.set_sensitive(true);
        *request.uri_mut() = uri;
        request.headers_mut().insert(KEY, key);
        request.extensions_mut().insert(KeyInPath);
    }
    request
}

/// What stands where clients put a provider's key.
fn theirs(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    CREDENTIALS.iter().flat_map(|name| headers.get_all(name)).filter_map(secret_of)
}

/// The key in a header, without what stands before it.
fn secret_of(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?.trim();
    let named = text.get(..BEARER.len()).filter(|start| start.eq_ignore_ascii_case(BEARER));
    Some(named.map_or(text, |start| text[start.len()..].trim()))
}

fn no_key() -> Closed {
    Closed::new(StatusCode::UNAUTHORIZED, "this gateway wants a key of its own, in x-longhaul-key")
}

fn no_run_key() -> Closed {
    let said = "this gateway belongs to one run of an agent; open the address that longhaul run printed";
    Closed::new(StatusCode::UNAUTHORIZED, said)
}

/// The time from one moment to another; none, where a clock was set back.
fn passed(since: Moment, now: Moment) -> Option<Duration> {
    u64::try_from(now.0.saturating_sub(since.0)).ok().map(Duration::from_millis)
}

fn is_within(time: Duration, since: Moment, now: Moment) -> bool {
    passed(since, now).is_some_and(|passed| passed < time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_path_is_taken_out_and_nothing_else_is() {
        let key = format!("lh-{}", "A".repeat(43));
        let taken = |target: &str| {
            let request = http::Request::builder().uri(target).body(()).unwrap();
            let request = take_key_from_path(request);
            let key = request.headers().get(KEY).map(|key| key.to_str().unwrap().to_owned());
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
