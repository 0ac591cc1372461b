//! Who is let in, and whose sessions are theirs.
//!
//! A browser can be made to send requests to this machine by any page that it shows; names that are not ours and pages of others are
//! turned away before anything else is looked at. What a client shows as its key is a word to be looked up or hashed, and nothing more:
//! it is never stored, and never part of a statement.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::settings::{Access, Settings};
use crate::store::{Granted, KeyId, Result, Store, Tenant};
use crate::upstream::Upstream;

/// The header that carries a key of ours.
pub(super) const KEY: HeaderName = HeaderName::from_static("x-longhaul-key");
/// Where clients put a provider's key.
const CREDENTIALS: [HeaderName; 3] =
    [HeaderName::from_static("x-api-key"), AUTHORIZATION, HeaderName::from_static("api-key")];
/// So many tenants are remembered; then they are looked up again.
const MOST_TENANTS: usize = 10_000;
/// A key that was found is believed for so long: one that is taken back works no longer than that.
const BELIEVED: Duration = Duration::from_secs(5);
/// No key is longer.
const LONGEST: usize = 4096;

/// Somebody who was let in.
#[derive(Clone)]
pub(super) struct Guest {
    pub(super) tenant: Tenant,
    /// The key of ours that it came with.
    pub(super) granted: Option<Granted>,
    /// The header that carried it, which nobody else is shown.
    spent: Option<HeaderName>,
}

/// Why somebody is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) status: StatusCode,
    pub(super) said: String,
}

impl Closed {
    fn new(status: StatusCode, said: impl Into<String>) -> Self {
        Self { status, said: said.into() }
    }
}

/// Whom it has seen.
#[derive(Default)]
pub(super) struct Door {
    tenants: Mutex<HashMap<String, Tenant>>,
    granted: Mutex<HashMap<String, (Instant, Granted)>>,
    minutes: Mutex<HashMap<KeyId, (Instant, u32)>>,
}

impl Door {
    /// Turns away what comes under a name that is not ours, or from a page of somebody else.
    pub(super) fn check_names(parts: &Parts, settings: &Settings) -> std::result::Result<(), Closed> {
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).or(authority);
        let is_ours = |name: &str| {
            let name = name.trim_start_matches('[').trim_end_matches(']');
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok()
                || settings.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
        };
        match host.map(without_port) {
            // Who has a key could not have been tricked into coming.
            _ if settings.access == Access::Keys && settings.hosts.is_empty() => {}
            Some(name) if is_ours(name) => {}
            _ => {
                let said = "this gateway does not answer to that host name; add it to gateway.hosts";
                return Err(Closed::new(StatusCode::FORBIDDEN, said));
            }
        }
        let Some(origin) = parts.headers.get(ORIGIN) else { return Ok(()) };
        let page = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        match page.map(|(_, host)| without_port(host)) {
            Some(name) if is_ours(name) => Ok(()),
            _ => Err(Closed::new(StatusCode::FORBIDDEN, "requests of other web pages are not answered")),
        }
    }

    /// Finds out who it is.
    pub(super) async fn admit(
        &self,
        store: &Store,
        headers: &HeaderMap,
        upstream: &Upstream,
        access: Access,
    ) -> std::result::Result<Guest, Closed> {
        let failed = |error: crate::store::StoreError| {
            Closed::new(StatusCode::SERVICE_UNAVAILABLE, format!("the store does not answer: {error}"))
        };
        let own = headers.get(KEY).map(|value| (KEY, value));
        let theirs = CREDENTIALS.iter().find_map(|name| Some((name.clone(), headers.get(name)?)));
        // Where the gateway pays the provider, a client's place for the provider's key holds ours.
        let shown = own.or_else(|| theirs.clone().filter(|_| upstream.own_key().is_some()));
        if let Some((name, value)) = shown {
            let secret = value.to_str().unwrap_or_default();
            let secret = secret.strip_prefix("Bearer ").unwrap_or(secret).trim();
            if let Some(granted) = self.granted(store, secret).await.map_err(failed)? {
                self.within_limits(&granted)?;
                return Ok(Guest {
                    tenant: granted.tenant.clone(),
                    granted: Some(granted),
                    spent: Some(name),
                });
            }
            if access == Access::Keys || name == KEY {
                return Err(Closed::new(StatusCode::UNAUTHORIZED, "no such key of this gateway"));
            }
        }
        if access == Access::Keys {
            let said = "this gateway wants a key of its own, in x-longhaul-key";
            return Err(Closed::new(StatusCode::UNAUTHORIZED, said));
        }
        let credential = theirs.map_or(b"".as_slice(), |(_, value)| value.as_bytes());
        let tenant = self.tenant_of(store, credential).await.map_err(failed)?;
        Ok(Guest { tenant, granted: None, spent: None })
    }

    async fn granted(&self, store: &Store, secret: &str) -> Result<Option<Granted>> {
        if secret.is_empty() || secret.len() > LONGEST {
            return Ok(None);
        }
        let seen = self.granted.lock().unwrap_or_else(PoisonError::into_inner).get(secret).cloned();
        if let Some((_, granted)) = seen.filter(|(at, _)| at.elapsed() < BELIEVED) {
            return Ok(Some(granted));
        }
        let granted = store.key(secret).await?;
        let mut seen = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, (at, _)| at.elapsed() < BELIEVED);
        if let Some(granted) = &granted {
            seen.insert(secret.to_owned(), (Instant::now(), granted.clone()));
        }
        Ok(granted)
    }

    /// Whether a key may be used once more in this minute.
    fn within_limits(&self, granted: &Granted) -> std::result::Result<(), Closed> {
        let Some(most) = granted.limits.requests_per_minute else { return Ok(()) };
        let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, used) = minutes.entry(granted.id).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= Duration::from_mins(1) {
            (*since, *used) = (Instant::now(), 0);
        }
        if *used >= most {
            let said = format!("the key's limit of {most} requests a minute is reached");
            return Err(Closed::new(StatusCode::TOO_MANY_REQUESTS, said));
        }
        *used += 1;
        Ok(())
    }

    /// Whoever has this credential, known by a keyed hash of it.
    async fn tenant_of(&self, store: &Store, credential: &[u8]) -> Result<Tenant> {
        let gateway = self.named(store, "gateway").await?;
        let hash = gateway.identities().of(&[b"credential", credential]);
        let name: String = hash.0.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.named(store, &format!("client-{name}")).await
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

impl Guest {
    /// Whether the gateway's own key pays for a request with this head.
    pub(super) fn is_paid_by(&self, headers: &HeaderMap, upstream: &Upstream) -> bool {
        let shows_one = CREDENTIALS.iter().any(|name| headers.contains_key(name));
        upstream.own_key().is_some() && (self.granted.is_some() || !shows_one)
    }

    /// Puts the key that pays into the head: the client's own stays, and where there is none, or it was one of ours, the gateway's.
    pub(super) fn pay(&self, headers: &mut HeaderMap, upstream: &Upstream) {
        headers.remove(KEY);
        if let Some(spent) = &self.spent {
            headers.remove(spent);
        }
        let shows_one = CREDENTIALS.iter().any(|name| headers.contains_key(name));
        if !shows_one || self.granted.is_some() {
            if let Some((name, value)) = upstream.own_key() {
                CREDENTIALS.iter().for_each(|name| drop(headers.remove(name)));
                headers.insert(name, value);
            }
        }
    }
}

/// Takes every key out of a head.
pub(super) fn without_keys(headers: &mut HeaderMap) {
    CREDENTIALS.iter().chain(&[KEY]).for_each(|name| drop(headers.remove(name)));
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    }
}
