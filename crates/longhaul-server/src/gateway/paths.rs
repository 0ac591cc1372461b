//! Normalizes request paths, so that no other spelling of a route can avoid what the gateway does on it.

use http::uri::PathAndQuery;
use http::{Method, Request, Uri};

// The routes that the gateway reads or answers. Their requests pass through unread only if the client or the
// settings ask for that, or if something fails.
pub(super) const MESSAGES: &str = "/v1/messages";
pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const RESPONSES: &str = "/v1/responses";
pub(super) const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
pub(super) const COMPACT: &str = "/v1/responses/compact";
const ROUTES: [&str; 5] = [MESSAGES, CHAT, RESPONSES, COUNT_TOKENS, COMPACT];

/// Escapes of a separator or of another escape. Servers do not agree on when to decode them.
const AMBIGUOUS_ESCAPES: [&str; 4] = ["%2f", "%5c", "%25", "%00"];

/// Normalizes the path of a request: characters that need no escape are unescaped, and a route has no slash
/// at its end.
pub(super) fn normalize_path<B>(mut request: Request<B>) -> Request<B> {
    if let Some(uri) = normalize_uri(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

/// Returns the normalized address; none if it is already normalized.
fn normalize_uri(uri: &Uri) -> Option<Uri> {
    let decoded = decode_unreserved(uri.path());
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

/// Decodes the escapes that are never needed: those of letters, digits and `-._~`.
fn decode_unreserved(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let character = rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()).map(char::from);
        let character = character.filter(|character| character.is_ascii_alphanumeric() || "-._~".contains(*character));
        decoded.push(character.unwrap_or('%'));
        rest = &rest[at + if character.is_some() { 3 } else { 1 }..];
    }
    decoded + rest
}

/// Returns why a path is refused; none if it has only one possible reading.
pub(super) fn find_path_problem(method: &Method, path: &str) -> Option<&'static str> {
    let path = path.to_ascii_lowercase();
    // Only a request that reads something may have an escaped slash in a name, as some lists of models do.
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let plain = path.replace('\\', "/").replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    if plain.split('/').any(|name| name == "." || name == "..") {
        Some("the path must not contain . or .. segments")
    } else if path.contains("//") || path.contains('\\') {
        Some("the path must not contain empty segments or backslashes")
    } else if !is_read && (AMBIGUOUS_ESCAPES.iter().any(|escape| path.contains(escape)) || path.contains(';')) {
        Some("the path must not contain escaped separators or parameters")
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
            assert_eq!(normalize_path(request).uri().to_string(), path, "{spelling}");
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
            assert!(find_path_problem(&Method::POST, path).is_some(), "{path}");
        }
        for path in ["/v1/messages", "/v1/files/a..b", "/v1/...", "/v1/models/a:b@c", "/"] {
            assert_eq!(find_path_problem(&Method::POST, path), None, "{path}");
        }
        assert_eq!(find_path_problem(&Method::GET, "/v1/models/openai%2Fgpt-5"), None);
        assert!(find_path_problem(&Method::GET, "/v1//models").is_some());
    }
}
