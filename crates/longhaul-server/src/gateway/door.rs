//! Who is let in, and whose sessions are theirs.
//!
//! A browser can be made to send requests to this machine by any page that it shows; [`names`] turns away what comes under a name that
//! is not ours and what pages of others send, before anything else is looked at. What a client shows as its key is a word to be looked
//! up or hashed, and nothing more: it is never stored, and never part of a statement.
//!
//! ```text
//! x-longhaul-key ───────────────────────────┐ ours: looked up, and shown to nobody else
//! x-api-key, authorization, api-key ──ours?─┤
//!                                   └─theirs┴─▶ goes to the upstream as it came; its hash says whose sessions are theirs
//! ```
//!
//! A key of ours stands in the provider's place only where the gateway has a key of its own for that provider to put there. Where keys
//! are wanted, pages about the gateway itself (`/healthz`, `/metrics`) want one too: any of them, in either place.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::response::Response;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use longhaul_engine::Dialect;

use super::settings::Access;
use super::speech;
use crate::agents::Moment;
use crate::store::{Granted, KeyId, Result, Secret, Store, Tenant};
use crate::upstream::{Trouble, Upstream};

/// The header that carries a key of ours.
pub(super) const KEY: HeaderName = HeaderName::from_static("x-longhaul-key");
/// Where clients put a provider's key.
static CREDENTIALS: [HeaderName; 3] =
    [HeaderName::from_static("x-api-key"), AUTHORIZATION, HeaderName::from_static("api-key")];
/// What stands before a key in some of these places.
const BEARER: &str = "bearer ";
/// Shorter ones are words that stand for no key; texts are full of them.
const SHORTEST: usize = 8;
/// So many tenants are remembered; then they are looked up again.
const MOST_TENANTS: usize = 10_000;
/// A key that was found is believed for so long: one that is taken back works no longer than that.
const BELIEVED: Duration = Duration::from_secs(5);
/// While the store does not answer nobody can take a key back either, and one that was found is believed for so long.
const BELIEVED_ALONE: Duration = Duration::from_mins(5);
const MINUTE: Duration = Duration::from_mins(1);
/// When to come back, where it is the store that has to.
const SOON: Duration = Duration::from_secs(5);

/// Somebody who was let in.
#[derive(Clone)]
pub(super) struct Guest {
    /// Whose sessions are theirs. Nobody's, where the store does not say: then the request goes through as it came.
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
    tenants: Mutex<HashMap<String, Tenant>>,
    granted: Mutex<HashMap<String, (Moment, Granted)>>,
    minutes: Mutex<HashMap<KeyId, (Moment, u32)>>,
}

impl Door {
    /// Finds out who it is that wants something of an upstream.
    pub(super) async fn admit(
        &self,
        store: &Store,
        headers: &HeaderMap,
        upstream: &Upstream,
        access: Access,
        now: Moment,
    ) -> std::result::Result<Guest, Closed> {
        let ours = theirs(headers).find(|secret| Secret::is_one(secret));
        let shown = headers.get(KEY).map(|value| secret_of(value).unwrap_or_default());
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
        let tenant = self.tenant_of(store, headers).await;
        let tenant = tenant.map_err(|error| tracing::warn!("the store does not say who it is: {error}")).ok();
        Ok(Guest { tenant, granted: None })
    }

    /// Lets somebody see a page about the gateway itself. It costs nothing, and counts for no limit.
    pub(super) async fn show(
        &self,
        store: &Store,
        headers: &HeaderMap,
        access: Access,
        now: Moment,
    ) -> std::result::Result<(), Closed> {
        if access == Access::Open {
            return Ok(());
        }
        self.looks(store, headers, None, now).await.map(drop)
    }

    /// Who it is that looks at something, by a key in the head, or else by the one behind the pass that a browser shows.
    pub(super) async fn looks(
        &self,
        store: &Store,
        headers: &HeaderMap,
        pass: Option<&str>,
        now: Moment,
    ) -> std::result::Result<Granted, Closed> {
        self.key(store, key_of(headers).or(pass).ok_or_else(no_key)?, now).await
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

    /// Whoever has these credentials, known by a keyed hash of all of them: one that says nothing must not make two clients one.
    async fn tenant_of(&self, store: &Store, headers: &HeaderMap) -> Result<Tenant> {
        let gateway = self.named(store, "gateway").await?;
        let shown = CREDENTIALS.iter().flat_map(|name| headers.get_all(name)).map(HeaderValue::as_bytes);
        let mut parts: Vec<&[u8]> = std::iter::once(b"credential".as_slice()).chain(shown).collect();
        if parts.len() == 1 {
            parts.push(b"");
        }
        let hash = gateway.identities().of(&parts);
        let number = hash.0.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        self.named(store, &format!("client-{number:016x}")).await
    }

    async fn named(&self, store: &Store, name: &str) -> Result<Tenant> {
        let seen = self.tenants.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(tenant) = seen {
            return Ok(tenant);
        }
        let tenant = store.tenant(name).await?;
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MOST_TENANTS {
            tenants.clear();
        }
        tenants.insert(name.to_owned(), tenant.clone());
        Ok(tenant)
    }
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
    let shown = headers.get(KEY).map(|value| secret_of(value).unwrap_or_default());
    shown.or_else(|| theirs(headers).find(|secret| Secret::is_one(secret)))
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

/// The time from one moment to another; none, where a clock was set back.
fn passed(since: Moment, now: Moment) -> Option<Duration> {
    u64::try_from(now.0.saturating_sub(since.0)).ok().map(Duration::from_millis)
}

fn is_within(time: Duration, since: Moment, now: Moment) -> bool {
    passed(since, now).is_some_and(|passed| passed < time)
}
