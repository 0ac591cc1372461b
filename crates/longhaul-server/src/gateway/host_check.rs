//! Refuses requests by host name, origin, method and path: those that a web page could make a browser send,
//! and those that could lead outside of the upstream's address.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderName, Method, StatusCode};

use super::auth::Denied;
use super::paths;
use super::settings::{ClientAccess, GatewaySettings};

/// The header in which browsers say whether a foreign page caused a request. Images and links send no
/// `Origin`.
pub(super) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request under a foreign host name, from a foreign web page, or with a method or path that is not
/// allowed.
pub(super) fn check_request(parts: &Parts, settings: &GatewaySettings) -> Result<(), Denied> {
    check_method_and_path(parts)?;
    // A request can name its host several times, and each name must be ours.
    let host_headers = parts.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let mut hosts = host_headers.chain(parts.uri.authority().map(Authority::as_str)).peekable();
    // If every client needs a key, a foreign page gains nothing by a foreign host name, because it has no key.
    let allows_any_host = settings.access == ClientAccess::Keys && settings.hosts.is_empty();
    if !allows_any_host && (hosts.peek().is_none() || !hosts.all(|host| is_own_host(host, settings, |_| true))) {
        let message = "this gateway does not serve that host name; add it to gateway.hosts";
        return Err(Denied::new(StatusCode::FORBIDDEN, message));
    }
    let is_own_page = |page: &str| {
        let host = page.split_once("://").map_or("", |(_, host)| host);
        // Anybody can serve a page from an IP address, but only this machine from a loopback address.
        is_own_host(host, settings, |address| address.is_loopback())
            || parts.headers.get(HOST).is_some_and(|own| own == host)
    };
    let mut pages = parts.headers.get_all(ORIGIN).iter().map(|page| page.to_str().unwrap_or_default());
    let is_foreign = parts.headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site");
    if is_foreign || !pages.all(is_own_page) {
        return Err(Denied::new(StatusCode::FORBIDDEN, "requests from other web pages are refused"));
    }
    Ok(())
}

/// Returns whether a host is one of ours: by name, or by an address that `accepts_address` accepts.
fn is_own_host(host: &str, settings: &GatewaySettings, accepts_address: impl Fn(IpAddr) -> bool) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    // Only a port may follow the name.
    let is_port = |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    if !authority.as_str().strip_prefix(name).is_some_and(|rest| rest.is_empty() || is_port(rest)) {
        return false;
    }
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(accepts_address)
        || settings.hosts.iter().any(|host| host.eq_ignore_ascii_case(bare))
}

/// Refuses `CONNECT`, `TRACE`, and paths that could lead above the upstream's own.
fn check_method_and_path(parts: &Parts) -> Result<(), Denied> {
    if [Method::CONNECT, Method::TRACE].contains(&parts.method) {
        return Err(Denied::new(StatusCode::METHOD_NOT_ALLOWED, "this gateway does not support CONNECT and TRACE"));
    }
    if let Some(message) = paths::find_path_problem(&parts.method, parts.uri.path()) {
        return Err(Denied::new(StatusCode::BAD_REQUEST, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::Request;
    use longhaul_engine::ApiFormat;

    use super::*;
    use crate::gateway::{GatewayLimits, RecallMode, Switch, Upstreams};
    use crate::upstream::{Provider, Upstream};

    fn settings(access: ClientAccess, hosts: &[&str]) -> GatewaySettings {
        let upstream = |api_format: ApiFormat| {
            let provider = Provider::all().find(|provider| provider.supports(api_format)).unwrap();
            Upstream::new(provider, Some("http://127.0.0.1:1"), None).unwrap().into()
        };
        GatewaySettings {
            session: crate::session::SessionSettings::default(),
            compression: Switch::On,
            commands: Switch::On,
            recall: RecallMode::Auto,
            upstreams: Upstreams {
                chat: upstream(ApiFormat::Chat),
                messages: upstream(ApiFormat::Messages),
                responses: upstream(ApiFormat::Responses),
            },
            access,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            limits: GatewayLimits::default(),
            keep_alive: None,
        }
    }

    /// Returns whether a request to a target with these headers is accepted.
    fn passes(settings: &GatewaySettings, target: &str, headers: &[(&str, &str)]) -> bool {
        let request = headers.iter().fold(Request::builder().method("POST").uri(target), |request, (name, value)| {
            request.header(*name, *value)
        });
        check_request(&request.body(()).unwrap().into_parts().0, settings).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_and_of_the_settings_are_answered_to() {
        let open = settings(ClientAccess::Open, &["gateway.example"]);
        let ours = [
            "localhost",
            "LOCALHOST:8484",
            "localhost.",
            "127.0.0.1:8484",
            "[::1]:8484",
            "[::1]",
            "192.168.1.7:8484",
            "gateway.example:443",
            "Gateway.Example",
        ];
        for host in ours {
            assert!(passes(&open, "/v1/messages", &[("host", host)]), "{host}");
        }
        let foreign = [
            "evil.example",
            "localhost.evil.example",
            "evil.example:8484",
            "127.0.0.1.evil.example",
            "",
            "[::1]evil.example",
            "localhost:@evil.example",
            "localhost:80@evil.example",
            "localhost@evil.example",
            "127.0.0.1:evil",
            "gateway.example.evil",
            "evil.example@localhost:80",
            "[::1]x:80",
            "localhost, evil.example",
            "evil.example#localhost",
            "localhost/evil",
        ];
        for host in foreign {
            assert!(!passes(&open, "/v1/messages", &[("host", host)]), "{host}");
        }
        assert!(!passes(&open, "/v1/messages", &[]), "a request that names no host");
    }

    #[test]
    fn every_host_that_a_request_names_has_to_be_ours() {
        let open = settings(ClientAccess::Open, &[]);
        assert!(passes(&open, "http://localhost:8484/v1/messages", &[]), "as HTTP/2 has it");
        assert!(passes(&open, "http://localhost/v1/messages", &[("host", "127.0.0.1")]));
        assert!(!passes(&open, "http://evil.example/v1/messages", &[("host", "localhost")]));
        assert!(!passes(&open, "http://localhost/v1/messages", &[("host", "evil.example")]));
        assert!(!passes(&open, "/v1/messages", &[("host", "localhost"), ("host", "evil.example")]));
    }

    #[test]
    fn pages_of_others_are_turned_away() {
        let open = settings(ClientAccess::Open, &["gateway.example"]);
        let from = |origin: &str| passes(&open, "/v1/messages", &[("host", "127.0.0.1:8484"), ("origin", origin)]);
        for ours in ["http://localhost:3000", "http://127.0.0.1:8484", "http://[::1]:8484", "https://gateway.example"] {
            assert!(from(ours), "{ours}");
        }
        for foreign in [
            "null",
            "",
            "https://evil.example",
            "http://203.0.113.7",
            "http://192.168.1.9",
            "http://localhost.evil.example",
            "http://[2001:db8::1]",
            "file://",
            "localhost",
        ] {
            assert!(!from(foreign), "{foreign}");
        }
        let lan = [("host", "192.168.1.7:8484"), ("origin", "http://192.168.1.7:8484")];
        assert!(passes(&open, "/", &lan), "a page of its own");
        let picture = [("host", "127.0.0.1:8484"), ("sec-fetch-site", "cross-site")];
        assert!(!passes(&open, "/v1/models", &picture));
        let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")];
        assert!(!passes(&open, "/v1/messages", &two));
    }

    #[test]
    fn who_needs_a_key_may_come_under_any_name_but_from_no_foreign_page() {
        let keys = settings(ClientAccess::Keys, &[]);
        assert!(passes(&keys, "/v1/messages", &[("host", "llm.internal")]));
        assert!(!passes(&keys, "/v1/messages", &[("host", "llm.internal"), ("origin", "https://evil.example")]));
        assert!(passes(&keys, "/v1/messages", &[("host", "llm.internal"), ("origin", "https://llm.internal")]));
        let named = settings(ClientAccess::Keys, &["llm.internal"]);
        assert!(passes(&named, "/v1/messages", &[("host", "llm.internal:8484")]));
        assert!(!passes(&named, "/v1/messages", &[("host", "evil.example")]));
    }

    #[test]
    fn no_path_leads_upwards() {
        let open = settings(ClientAccess::Open, &[]);
        let at = |path: &str| passes(&open, path, &[("host", "localhost")]);
        for path in ["/v1/models", "/", "/v1/files/a..b", "/v1/...", "/v1/@evil.example", "/v1/x?to=../y"] {
            assert!(at(path), "{path}");
        }
        for path in [
            "/v1/../admin",
            "/..",
            "/v1/%2e%2e/admin",
            "/v1/%2E./admin",
            "/v1/.%2e",
            "/v1/./x",
            "/v1/..%2fadmin",
            "/v1/%2e%2e%5cadmin",
            "//evil.example/v1",
        ] {
            assert!(!at(path), "{path}");
        }
    }
}
