//! A small question as a request body: one system prompt and one message. It is a whole new request of our own, so it is written
//! from scratch; nothing of it has to be found in a cache.

use longhaul_engine::Dialect;
use serde_json::{Value, json};

use super::provider::{Limit, StreamUsage};
use super::{Provider, Small, Streaming};

/// The body that asks this in a dialect, as the provider wants it.
#[must_use]
pub fn ask(provider: Provider, dialect: Dialect, small: &Small) -> String {
    let (system, user) = (small.system.as_str(), small.user.as_str());
    let most = small.max_tokens.number();
    let mut body = match dialect {
        Dialect::Chat => json!({ "model": small.model, "messages": [], provider.limit().field(): most }),
        Dialect::Messages => json!({ "model": small.model, Limit::MaxTokens.field(): most, "messages": [] }),
        // Kept by the provider it would be a second copy of what we were trusted with.
        Dialect::Responses => {
            json!({ "model": small.model, "max_output_tokens": most, "store": false, "input": [] })
        }
    };
    let mut messages = Vec::new();
    if !system.is_empty() {
        match dialect {
            Dialect::Chat => messages.push(json!({ "role": "system", "content": system })),
            Dialect::Messages => body["system"] = Value::from(system),
            Dialect::Responses => body["instructions"] = Value::from(system),
        }
    }
    messages.push(json!({ "role": "user", "content": user }));
    body[dialect.list()] = Value::from(messages);
    if small.streaming == Streaming::Events {
        body["stream"] = Value::from(true);
        if dialect == Dialect::Chat && provider.stream_usage() == StreamUsage::Asked {
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

    fn asked(provider: &str, dialect: Dialect, system: &'static str, streaming: Streaming) -> String {
        let small = Small {
            model: "m".into(),
            system: Redacted::own(system),
            user: Redacted::own("say \"hi\""),
            max_tokens: Tokens(100),
            streaming,
        };
        ask(Provider::named(provider).unwrap(), dialect, &small)
    }

    #[test]
    fn each_dialect_asks_in_its_own_way() {
        use Dialect::{Chat, Messages, Responses};
        use Streaming::{Events, Whole};
        let cases = [
            (
                asked("openai", Chat, "be brief", Whole),
                r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"say \"hi\""}],"max_completion_tokens":100}"#,
            ),
            (
                asked("compatible", Chat, "", Events),
                r#"{"model":"m","messages":[{"role":"user","content":"say \"hi\""}],"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                asked("mistral", Chat, "", Events),
                r#"{"model":"m","messages":[{"role":"user","content":"say \"hi\""}],"max_tokens":100,"stream":true}"#,
            ),
            (
                asked("anthropic", Messages, "be brief", Events),
                r#"{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"say \"hi\""}],"system":"be brief","stream":true}"#,
            ),
            (
                asked("openai", Responses, "be brief", Whole),
                r#"{"model":"m","max_output_tokens":100,"store":false,"input":[{"role":"user","content":"say \"hi\""}],"instructions":"be brief"}"#,
            ),
        ];
        for (body, wanted) in cases {
            assert_eq!(body, wanted);
        }
    }

    #[test]
    fn what_is_asked_keeps_to_the_rules_of_its_dialect() {
        for dialect in Dialect::ALL {
            for streaming in [Streaming::Whole, Streaming::Events] {
                let body = asked("compatible", dialect, "be brief", streaming);
                let target = longhaul_engine::check::Target::of(dialect);
                let found = longhaul_engine::check::check(&body, dialect, &target);
                assert!(found.is_empty(), "{body}: {found:?}");
            }
        }
    }
}
