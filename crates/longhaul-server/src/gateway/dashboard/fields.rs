//! What a form, a query or a program says: names and values, in the little room that they may take.

use std::collections::HashMap;

use axum::body::Body;
use axum::extract::Request;
use http::header::CONTENT_TYPE;
use serde_json::Value as Json;

use super::frame::Problem;
use crate::gateway::Gateway;
use crate::gateway::body::{self, Pace};

/// More is in no form.
const MOST: usize = 64 * 1024;

/// Names and values.
#[derive(Debug, Default)]
pub(super) struct Fields(HashMap<String, String>);

impl Fields {
    /// Of a query or a form.
    pub(super) fn of(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Of an object of words, numbers and the like.
    fn of_json(text: &[u8]) -> Option<Self> {
        let object: serde_json::Map<String, Json> = serde_json::from_slice(text).ok()?;
        let word = |value: Json| match value {
            Json::String(word) => Some(word),
            Json::Bool(_) | Json::Number(_) => Some(value.to_string()),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        };
        Some(Self(object.into_iter().filter_map(|(name, value)| Some((name, word(value)?))).collect()))
    }

    /// A value, without what stands around it; nothing where that is all.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

impl Gateway {
    /// What a request says in its body: a form, or a JSON object.
    pub(super) async fn fields(&self, request: Request<Body>) -> Result<Fields, Problem> {
        let (parts, incoming) = request.into_parts();
        let pace = Pace { most: MOST, ..Pace::of(&self.settings.limits) };
        let read = body::read(incoming, pace, &self.room).await;
        let read = read.map_err(|refused| Problem::new(refused.status(), refused.said()))?;
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let wrong = |said: &str| Problem::new(http::StatusCode::BAD_REQUEST, said);
        if kind.starts_with("application/json") && !read.is_empty() {
            return Fields::of_json(&read).ok_or_else(|| wrong("the body is no JSON object"));
        }
        std::str::from_utf8(&read).map(Fields::of).map_err(|_| wrong("the body is no text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_objects_say_the_same() {
        let form = Fields::of("focus=the+port+%26+host&preview=true&empty=+");
        let object = Fields::of_json(br#"{"focus":"the port & host","preview":true,"empty":null}"#).unwrap();
        for fields in [form, object] {
            assert_eq!(fields.get("focus"), Some("the port & host"));
            assert_eq!((fields.get("preview"), fields.get("empty")), (Some("true"), None));
        }
        assert!(Fields::of_json(b"[]").is_none());
    }
}
