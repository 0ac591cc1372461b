//! How the providers say no.

use longhaul_engine::ApiFormat;
use serde_json::json;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
}

/// For each status: what it is called in Messages, what in the other two dialects, and what all say.
const STATUSES: [(u16, &str, &str, &str); 9] = [
    (400, "invalid_request_error", "invalid_request_error", "The request is not valid."),
    (401, "authentication_error", "invalid_request_error", "invalid x-api-key"),
    (403, "permission_error", "invalid_request_error", "This key may not use this model."),
    (404, "not_found_error", "invalid_request_error", "Not found"),
    (413, "request_too_large", "invalid_request_error", "Request exceeds the maximum size"),
    (429, "rate_limit_error", "requests", "This request would exceed your rate limit."),
    (500, "api_error", "server_error", "Internal server error"),
    (503, "api_error", "server_error", "The service is unavailable."),
    (529, "overloaded_error", "server_error", "Overloaded"),
];

impl Refusal {
    /// The plainest refusal of a status.
    pub(super) fn of(api_format: ApiFormat, status: u16) -> Self {
        let row = STATUSES.iter().find(|row| row.0 == status);
        let (_, ours, theirs, message) = *row.unwrap_or(&(status, "api_error", "server_error", "Failed"));
        let kind = if api_format == ApiFormat::Messages { ours } else { theirs };
        let code = match (api_format, status) {
            (ApiFormat::Messages, _) => None,
            (_, 401) => Some("invalid_api_key"),
            (_, 413) => Some("request_too_large"),
            (_, 429) => Some("rate_limit_exceeded"),
            _ => None,
        };
        Self { status, kind, code, param: None, message: message.to_owned() }
    }

    /// A request that breaks a rule.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status: 400, kind: "invalid_request_error", code: None, param: None, message }
    }

    pub(super) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(super) fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// The prompt, or the prompt with the reply that is asked for, passes the window.
    pub(super) fn too_long(api_format: ApiFormat, prompt: u64, reply: u64, window: u64) -> Self {
        let most = format!("This model's maximum context length is {window} tokens. However,");
        let message = match api_format {
            ApiFormat::Messages if prompt > window => {
                format!("prompt is too long: {prompt} tokens > {window} maximum")
            }
            ApiFormat::Messages => format!(
                "input length and `max_tokens` exceed context limit: {prompt} + {reply} > {window}, decrease input length or \
                 `max_tokens` and try again"
            ),
            ApiFormat::Chat if reply == 0 => {
                format!("{most} your messages resulted in {prompt} tokens. Please reduce the length of the messages.")
            }
            ApiFormat::Chat => format!(
                "{most} you requested {} tokens ({prompt} in the messages, {reply} in the completion). Please reduce the length \
                 of the messages or completion.",
                prompt + reply
            ),
            ApiFormat::Responses => {
                "Your input exceeds the context window of this model. Please adjust your input and try again."
                    .to_owned()
            }
        };
        match api_format {
            ApiFormat::Messages => Self::invalid(message),
            other => Self::invalid(message).code("context_length_exceeded").param(other.messages_field()),
        }
    }

    /// As it stands in the body of the answer.
    pub(super) fn body(&self, api_format: ApiFormat, number: usize) -> String {
        let Self { kind, code, param, message, .. } = self;
        match api_format {
            ApiFormat::Messages => json!({
                "type": "error", "error": { "type": kind, "message": message }, "request_id": format!("req_{number:08}"),
            }),
            ApiFormat::Chat | ApiFormat::Responses => {
                json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
            }
        }
        .to_string()
    }
}
