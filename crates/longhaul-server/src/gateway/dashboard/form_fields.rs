//! Parses the named values of a form, a query string or a JSON object, up to a limit of bytes.

use std::collections::HashMap;

use axum::body::Body;
use axum::extract::Request;
use http::header::CONTENT_TYPE;
use serde_json::Value as Json;

use super::middleware::DashboardError;
use crate::gateway::Gateway;
use crate::gateway::body::{self, BodyLimits};

/// The largest body of a form, in bytes. Chosen by hand.
const MAX_FORM_BYTES: usize = 64 * 1024;

/// The fields of a form, a query string or a JSON object, by name.
#[derive(Debug, Default)]
pub(super) struct FormFields(HashMap<String, String>);

impl FormFields {
    /// Parses a query string, or a form body, which has the same syntax.
    pub(super) fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Parses a JSON object. Numbers and booleans become text; null, lists and objects are skipped. Returns
    /// nothing for other JSON.
    fn parse_json(text: &[u8]) -> Option<Self> {
        let object: serde_json::Map<String, Json> = serde_json::from_slice(text).ok()?;
        let word = |value: Json| match value {
            Json::String(word) => Some(word),
            Json::Bool(_) | Json::Number(_) => Some(value.to_string()),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        };
        Some(Self(object.into_iter().filter_map(|(name, value)| Some((name, word(value)?))).collect()))
    }

    /// Returns a field without surrounding white space; nothing if it is missing or blank.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

impl Gateway {
    /// Reads the body of a request as a form or, by its content type, as a JSON object.
    pub(super) async fn read_fields(&self, request: Request<Body>) -> Result<FormFields, DashboardError> {
        let (parts, incoming) = request.into_parts();
        let limits = BodyLimits { max_bytes: MAX_FORM_BYTES, ..BodyLimits::new(&self.settings.limits) };
        let body_bytes = body::read(incoming, limits, &self.body_memory).await;
        let body_bytes = body_bytes.map_err(|error| DashboardError::new(error.status(), error.message()))?;
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let bad_request = |message: &str| DashboardError::new(http::StatusCode::BAD_REQUEST, message);
        if kind.starts_with("application/json") && !body_bytes.is_empty() {
            return FormFields::parse_json(&body_bytes)
                .ok_or_else(|| bad_request("the request body is not a JSON object"));
        }
        std::str::from_utf8(&body_bytes)
            .map(FormFields::parse)
            .map_err(|_| bad_request("the request body is not UTF-8 text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_objects_parse_alike() {
        let form = FormFields::parse("focus=the+port+%26+host&preview=true&empty=+");
        let object = FormFields::parse_json(br#"{"focus":"the port & host","preview":true,"empty":null}"#).unwrap();
        for fields in [form, object] {
            assert_eq!(fields.get("focus"), Some("the port & host"));
            assert_eq!((fields.get("preview"), fields.get("empty")), (Some("true"), None));
        }
        assert!(FormFields::parse_json(b"[]").is_none());
    }
}
