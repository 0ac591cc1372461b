//! The paths of requests in one form, so that no other spelling of a route goes around what is done on it.

use http::uri::PathAndQuery;
use http::{Method, Request, Uri};

/// The routes that are read, or answered, and never only passed on.
pub(super) const MESSAGES: &str = "/v1/messages";
pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const RESPONSES: &str = "/v1/responses";
pub(super) const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
pub(super) const COMPACT: &str = "/v1/responses/compact";
const ROUTES: [&str; 5] = [MESSAGES, CHAT, RESPONSES, COUNT_TOKENS, COMPACT];

/// Escapes that stand for a separator, or for another escape: servers do not agree on when they are read.
const AMBIGUOUS: [&str; 4] = ["%2f", "%5c", "%25", "%00"];

/// Brings the path of a request into the form that routes are written in: letters that need no escape are not escaped, and a route has
/// no slash behind it.
pub(super) fn normalise<B>(mut request: Request<B>) -> Request<B> {
    if let Some(uri) = normalised(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

/// The same address in its normal form; none if it is in that form.
fn normalised(uri: &Uri) -> Option<Uri> {
    let decoded = decode(uri.path());
    let bare = decoded.strip_suffix('/').filter(|bare| ROUTES.contains(bare));
    let path = bare.unwrap_or(&decoded);
    if path == uri.path() {
        return None;
    }
    let target = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// A path without the escapes that nobody needs: those of letters, digits and `-._~`.
fn decode(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let letter =
            rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()).map(char::from);
        let letter = letter.filter(|letter| letter.is_ascii_alphanumeric() || "-._~".contains(*letter));
        decoded.push(letter.unwrap_or('%'));
        rest = &rest[at + if letter.is_some() { 3 } else { 1 }..];
    }
    decoded + rest
}

/// Why a path is refused; none if it can be read in one way only.
pub(super) fn refused(method: &Method, path: &str) -> Option<&'static str> {
    let path = path.to_ascii_lowercase();
    // Only a path that asks for something may name it with an escaped slash, as some lists of models do.
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let plain = path.replace('\\', "/").replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    if plain.split('/').any(|name| name == "." || name == "..") {
        Some("a path must not lead upwards")
    } else if path.contains("//") || path.contains('\\') {
        Some("a path must not have empty parts or backslashes")
    } else if !is_read && (AMBIGUOUS.iter().any(|escape| path.contains(escape)) || path.contains(';')) {
        Some("a path must not have escaped separators or parameters")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_route_is_that_route() {
        for (spelling, path) in [
            ("/v1/%63hat/completions", "/v1/chat/completions"),
            ("/v1/chat/completions/", "/v1/chat/completions"),
            ("/%76%31/messages/?beta=true", "/v1/messages?beta=true"),
            ("http://localhost/v1/m%65ssages", "http://localhost/v1/messages"),
            ("/v1/messages/count%5Ftokens", "/v1/messages/count_tokens"),
            ("/v1/models/a%2Fb/%zz%", "/v1/models/a%2Fb/%zz%"),
            ("/v1/files/", "/v1/files/"),
            ("/", "/"),
        ] {
            let request = Request::builder().uri(spelling).body(()).unwrap();
            assert_eq!(normalise(request).uri().to_string(), path, "{spelling}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for path in [
            "/v1//chat/completions",
            "//v1/messages",
            "/v1/messages//",
            "/v1/%2e%2e/x",
            "/v1/./messages",
            "/v1\\messages",
            "/v1%2Fmessages",
            "/v1%5cmessages",
            "/v1/%2563hat/completions",
            "/v1/messages;x=1",
            "/v1/messages%00",
        ] {
            assert!(refused(&Method::POST, path).is_some(), "{path}");
        }
        for path in ["/v1/messages", "/v1/files/a..b", "/v1/...", "/v1/models/a:b@c", "/"] {
            assert_eq!(refused(&Method::POST, path), None, "{path}");
        }
        assert_eq!(refused(&Method::GET, "/v1/models/openai%2Fgpt-5"), None);
        assert!(refused(&Method::GET, "/v1//models").is_some());
    }
}
