//! Who came in by a form: a browser cannot send a key with every request, so it gets a pass for it, in a cookie.
//!
//! A pass is random and says nothing; the key behind it stays here, in memory, and is asked about whenever the pass is shown. A key
//! that is taken back ends all passes for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use crate::agents::Moment;

/// The cookie that a pass is in.
pub(super) const PASS: &str = "longhaul_pass";
/// A pass is good for so long.
const GOOD: Duration = Duration::from_hours(12);
/// So many are there at a time; then the oldest goes.
const MOST: usize = 1000;
/// More wrong keys than this in a minute are no slips of the hand, and are told so.
const MAX_WRONG: u32 = 20;
const MINUTE: Duration = Duration::from_mins(1);

/// All passes of a gateway.
#[derive(Default)]
pub(super) struct Passes {
    held: Mutex<HashMap<String, Held>>,
    /// When wrong keys were counted first, and how many they are.
    wrong: Mutex<Option<(Moment, u32)>>,
}

/// How often keys were wrong of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    Seldom,
    Often,
}

struct Held {
    secret: String,
    since: Moment,
}

impl Passes {
    /// The key behind the pass that a request shows.
    pub(super) fn key(&self, headers: &HeaderMap, now: Moment) -> Option<String> {
        let held = self.held();
        let held = held.get(cookie(headers, PASS)?)?;
        is_within(GOOD, held.since, now).then(|| held.secret.clone())
    }

    /// A pass for a key that was looked up, as a cookie has it; nothing where the system gives no random bytes.
    pub(super) fn give(&self, secret: &str, now: Moment) -> Option<String> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).ok()?;
        let pass = bytes.iter().fold(String::new(), |pass, byte| pass + &format!("{byte:02x}"));
        let mut held = self.held();
        held.retain(|_, held| is_within(GOOD, held.since, now));
        if held.len() >= MOST {
            let oldest = held.iter().min_by_key(|(_, held)| held.since).map(|(pass, _)| pass.clone());
            oldest.map(|pass| held.remove(&pass));
        }
        held.insert(pass.clone(), Held { secret: secret.to_owned(), since: now });
        Some(pass)
    }

    /// The pass that a request shows is good no more.
    pub(super) fn end(&self, headers: &HeaderMap) {
        if let Some(pass) = cookie(headers, PASS) {
            self.held().remove(pass);
        }
    }

    /// Counts a wrong key. Right ones are not held up by it, however many wrong ones others try: a key has 256 bits, which nobody guesses.
    pub(super) fn was_wrong(&self, now: Moment) -> Wrong {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = match *wrong {
            Some((since, count)) if is_within(MINUTE, since, now) => (since, count.saturating_add(1)),
            _ => (now, 1),
        };
        *wrong = Some((since, count));
        if count > MAX_WRONG { Wrong::Often } else { Wrong::Seldom }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cookie of a request.
pub(super) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies =
        lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// A cookie for this site alone, which no script sees; an empty one is to be forgotten.
pub(super) fn set(headers: &HeaderMap, name: &str, value: &str, for_long: Duration) -> Option<HeaderValue> {
    let is_secure = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let secure = if is_secure { "; Secure" } else { "" };
    let age = if value.is_empty() { 0 } else { for_long.as_secs() };
    let line = format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&line).ok()
}

/// The cookie of a pass.
pub(super) fn set_pass(headers: &HeaderMap, pass: &str) -> Option<HeaderValue> {
    set(headers, PASS, pass, GOOD)
}

fn is_within(time: Duration, since: Moment, now: Moment) -> bool {
    now.0 >= since.0 && u128::from((now.0 - since.0).unsigned_abs()) < time.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn showing(pass: &str) -> HeaderMap {
        let line = format!("other=1; {PASS}={pass}; longhaul_theme=dark");
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(&line).unwrap())])
    }

    #[test]
    fn a_pass_leads_to_its_key_until_it_lapses_or_is_ended() {
        let passes = Passes::default();
        let pass = passes.give("lh-secret", Moment(0)).unwrap();
        assert!(!pass.contains("secret") && pass.len() == 64);
        let headers = showing(&pass);
        assert_eq!(passes.key(&headers, Moment(1000)).as_deref(), Some("lh-secret"));
        assert_eq!(passes.key(&showing("guess"), Moment(1000)), None);
        assert_eq!(passes.key(&headers, Moment(12 * 3_600_000)), None, "it has lapsed");
        passes.end(&headers);
        assert_eq!(passes.key(&headers, Moment(1000)), None);
    }

    #[test]
    fn many_wrong_keys_of_a_minute_are_known() {
        let passes = Passes::default();
        (0..MAX_WRONG).for_each(|_| assert_eq!(passes.was_wrong(Moment(0)), Wrong::Seldom));
        assert_eq!(passes.was_wrong(Moment(1)), Wrong::Often);
        assert_eq!(passes.was_wrong(Moment(60_000)), Wrong::Seldom);
    }

    #[test]
    fn cookies_are_ours_alone() {
        let plain = set_pass(&HeaderMap::new(), "p").unwrap();
        assert_eq!(plain, "longhaul_pass=p; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
        let behind =
            HeaderMap::from_iter([("x-forwarded-proto".parse().unwrap(), HeaderValue::from_static("https"))]);
        assert!(set_pass(&behind, "p").unwrap().to_str().unwrap().ends_with("; Secure"));
        assert!(set_pass(&behind, "").unwrap().to_str().unwrap().contains("Max-Age=0"));
    }
}
