//! Writes a request body with one system prompt and one message. It is a new request of our own, so it is
//! serialized from scratch; no cached prefix has to be preserved.

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use super::provider::{OutputLimitField, StreamUsage};
use super::{PromptRequest, Provider, Streaming};

/// Writes the request body in an API format, with the field names that the provider expects.
#[must_use]
pub fn prompt_request_body(provider: Provider, api_format: ApiFormat, small: &PromptRequest) -> String {
    let (system, user) = (small.system.as_str(), small.user.as_str());
    let max_tokens = small.max_tokens.number();
    let mut body = match api_format {
        ApiFormat::Chat => {
            json!({ "model": small.model, "messages": [], provider.output_limit_field().name(): max_tokens })
        }
        ApiFormat::Messages => {
            json!({ "model": small.model, OutputLimitField::MaxTokens.name(): max_tokens, "messages": [] })
        }
        // Without `store: false` the provider would keep a second copy of the user's data.
        ApiFormat::Responses => {
            json!({ "model": small.model, "max_output_tokens": max_tokens, "store": false, "input": [] })
        }
    };
    let mut messages = Vec::new();
    if !system.is_empty() {
        match api_format {
            ApiFormat::Chat => messages.push(json!({ "role": "system", "content": system })),
            ApiFormat::Messages => body["system"] = Value::from(system),
            ApiFormat::Responses => body["instructions"] = Value::from(system),
        }
    }
    messages.push(json!({ "role": "user", "content": user }));
    body[api_format.messages_field()] = Value::from(messages);
    if small.streaming == Streaming::On {
        body["stream"] = Value::from(true);
        if api_format == ApiFormat::Chat && provider.stream_usage() == StreamUsage::OnRequest {
            body["stream_options"] = json!({ "include_usage": true });
        }
    }
    body.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_engine::Tokens;
    use longhaul_engine::redact::Redacted;

    fn asked(provider: &str, api_format: ApiFormat, system: &'static str, streaming: Streaming) -> String {
        let small = PromptRequest {
            model: "m".into(),
            system: Redacted::literal(system),
            user: Redacted::literal("say \"hi\""),
            max_tokens: Tokens(100),
            streaming,
        };
        prompt_request_body(Provider::named(provider).unwrap(), api_format, &small)
    }

    #[test]
    fn each_dialect_asks_in_its_own_way() {
        use ApiFormat::{Chat, Messages, Responses};
        use Streaming::{Off, On};
        let cases = [
            (
                asked("openai", Chat, "be brief", Off),
                r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"say \"hi\""}],"max_completion_tokens":100}"#,
            ),
            (
                asked("compatible", Chat, "", On),
                r#"{"model":"m","messages":[{"role":"user","content":"say \"hi\""}],"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                asked("mistral", Chat, "", On),
                r#"{"model":"m","messages":[{"role":"user","content":"say \"hi\""}],"max_tokens":100,"stream":true}"#,
            ),
            (
                asked("anthropic", Messages, "be brief", On),
                r#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"say \"hi\""}],"system":"be brief","stream":true}"#,
            ),
            (
                asked("openai", Responses, "be brief", Off),
                r#"{"model":"m","max_output_tokens":100,"store":false,"input":[{"role":"user","content":"say \"hi\""}],"instructions":"be brief"}"#,
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn what_is_asked_keeps_to_the_rules_of_its_dialect() {
        for api_format in ApiFormat::ALL {
            for streaming in [Streaming::Off, Streaming::On] {
                let body = asked("compatible", api_format, "be brief", streaming);
                let target = longhaul_engine::check::Target::default_for(api_format);
                let found = longhaul_engine::check::check(&body, api_format, &target);
                assert!(found.is_empty(), "{body}: {found:?}");
            }
        }
    }
}
