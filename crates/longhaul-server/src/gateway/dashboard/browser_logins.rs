//! Browsers that signed in with the form. A browser cannot send a gateway key with every request, so it gets
//! a login cookie for its key.
//!
//! The cookie is a random value without meaning. The key stays here, in memory, and is checked again with
//! every request, so that revoking a key ends all its logins.

use std::collections::HashMap;
use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use longhaul_engine::Timestamp;
use parking_lot::{Mutex, MutexGuard};

/// The name of the login cookie.
pub(super) const LOGIN_COOKIE: &str = "longhaul_pass";
/// The time after which a login expires. Chosen by hand.
const LOGIN_LIFETIME: Duration = Duration::from_hours(12);
/// The most logins at a time; another one replaces the oldest. Chosen by hand, to bound memory.
const MAX_LOGINS: usize = 1000;
/// The wrong keys per [`WRONG_KEY_WINDOW`] that are answered as plain mistakes; after more, the form answers
/// 429. Chosen by hand.
const MAX_WRONG_KEYS: u32 = 20;
const WRONG_KEY_WINDOW: Duration = Duration::from_mins(1);

/// All browser logins of a gateway.
#[derive(Default)]
pub(super) struct BrowserLogins {
    logins: Mutex<HashMap<String, BrowserLogin>>,
    /// The start of the current window for counting wrong keys, and their number since then.
    wrong_keys: Mutex<Option<(Timestamp, u32)>>,
}

/// The rate of wrong keys in the current window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrongKeyRate {
    Normal,
    Excessive,
}

struct BrowserLogin {
    gateway_key: String,
    created: Timestamp,
}

impl BrowserLogins {
    /// Returns the gateway key of the login whose cookie the request has; nothing if it is unknown or
    /// expired.
    pub(super) fn find_key(&self, headers: &HeaderMap, now: Timestamp) -> Option<String> {
        let logins = self.lock_logins();
        let login = logins.get(find_cookie(headers, LOGIN_COOKIE)?)?;
        is_within(LOGIN_LIFETIME, login.created, now).then(|| login.gateway_key.clone())
    }

    /// Creates a login for a key that was already checked, and returns the value of its cookie. Returns
    /// nothing if the system provides no random bytes.
    pub(super) fn create(&self, secret: &str, now: Timestamp) -> Option<String> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).ok()?;
        let token = bytes.iter().fold(String::new(), |token, byte| token + &format!("{byte:02x}"));
        let mut logins = self.lock_logins();
        logins.retain(|_, login| is_within(LOGIN_LIFETIME, login.created, now));
        if logins.len() >= MAX_LOGINS {
            let oldest = logins.iter().min_by_key(|(_, login)| login.created).map(|(token, _)| token.clone());
            oldest.map(|token| logins.remove(&token));
        }
        logins.insert(token.clone(), BrowserLogin { gateway_key: secret.to_owned(), created: now });
        Some(token)
    }

    /// Removes the login whose cookie the request has.
    pub(super) fn remove(&self, headers: &HeaderMap) {
        if let Some(token) = find_cookie(headers, LOGIN_COOKIE) {
            self.lock_logins().remove(token);
        }
    }

    /// Counts a wrong key. Right keys are never delayed, however many wrong ones others try: a key has 256
    /// bits, so nobody can guess one.
    pub(super) fn record_wrong_key(&self, now: Timestamp) -> WrongKeyRate {
        let mut wrong = self.wrong_keys.lock();
        let (since, count) = match *wrong {
            Some((since, count)) if is_within(WRONG_KEY_WINDOW, since, now) => (since, count.saturating_add(1)),
            _ => (now, 1),
        };
        *wrong = Some((since, count));
        if count > MAX_WRONG_KEYS { WrongKeyRate::Excessive } else { WrongKeyRate::Normal }
    }

    fn lock_logins(&self) -> MutexGuard<'_, HashMap<String, BrowserLogin>> {
        self.logins.lock()
    }
}

/// Finds a cookie of a request by its name.
pub(super) fn find_cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(cookie, _)| *cookie == name).map(|(_, value)| value)
}

/// Returns the value of a `Set-Cookie` header for this site only, which no script can read. An empty value
/// deletes the cookie. It is marked `Secure` if a proxy in front of the gateway reports HTTPS.
pub(super) fn make_cookie(headers: &HeaderMap, name: &str, value: &str, lifetime: Duration) -> Option<HeaderValue> {
    let is_secure = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let secure = if is_secure { "; Secure" } else { "" };
    let age = if value.is_empty() { 0 } else { lifetime.as_secs() };
    let line = format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&line).ok()
}

/// Returns the value of a `Set-Cookie` header for a login; an empty `token` deletes the cookie.
pub(super) fn login_cookie(headers: &HeaderMap, token: &str) -> Option<HeaderValue> {
    make_cookie(headers, LOGIN_COOKIE, token, LOGIN_LIFETIME)
}

fn is_within(time: Duration, since: Timestamp, now: Timestamp) -> bool {
    now.0 >= since.0 && u128::from((now.0 - since.0).unsigned_abs()) < time.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers_with_login(token: &str) -> HeaderMap {
        let line = format!("other=1; {LOGIN_COOKIE}={token}; longhaul_theme=dark");
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(&line).unwrap())])
    }

    #[test]
    fn a_login_finds_its_key_until_it_expires_or_is_removed() {
        let logins = BrowserLogins::default();
        let token = logins.create("lh-secret", Timestamp(0)).unwrap();
        assert!(!token.contains("secret") && token.len() == 64);
        let headers = headers_with_login(&token);
        assert_eq!(logins.find_key(&headers, Timestamp(1000)).as_deref(), Some("lh-secret"));
        assert_eq!(logins.find_key(&headers_with_login("guess"), Timestamp(1000)), None);
        assert_eq!(logins.find_key(&headers, Timestamp(12 * 3_600_000)), None, "it has expired");
        logins.remove(&headers);
        assert_eq!(logins.find_key(&headers, Timestamp(1000)), None);
    }

    #[test]
    fn many_wrong_keys_in_a_minute_are_excessive() {
        let logins = BrowserLogins::default();
        (0..MAX_WRONG_KEYS).for_each(|_| assert_eq!(logins.record_wrong_key(Timestamp(0)), WrongKeyRate::Normal));
        assert_eq!(logins.record_wrong_key(Timestamp(1)), WrongKeyRate::Excessive);
        assert_eq!(logins.record_wrong_key(Timestamp(60_000)), WrongKeyRate::Normal);
    }

    #[test]
    fn cookies_are_for_this_site_only() {
        let plain = login_cookie(&HeaderMap::new(), "p").unwrap();
        assert_eq!(plain, "longhaul_pass=p; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
        let behind_proxy =
            HeaderMap::from_iter([("x-forwarded-proto".parse().unwrap(), HeaderValue::from_static("https"))]);
        assert!(login_cookie(&behind_proxy, "p").unwrap().to_str().unwrap().ends_with("; Secure"));
        assert!(login_cookie(&behind_proxy, "").unwrap().to_str().unwrap().contains("Max-Age=0"));
    }
}
