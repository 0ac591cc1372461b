//! What a model says, written as each dialect writes it.

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

/// What a model says.
#[derive(Debug, Clone)]
pub(crate) struct Speech {
    pub(crate) text: String,
    pub(crate) ending: Ending,
    /// Tokens of the prompt, and how many of them were cached.
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
}

/// Why it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Length,
    Refusal,
    ToolCall,
}

impl Ending {
    pub(crate) const ALL: [Self; 4] = [Self::Done, Self::Length, Self::Refusal, Self::ToolCall];

    fn word(self, api_format: ApiFormat) -> &'static str {
        match (api_format, self) {
            (ApiFormat::Chat, Self::Done) => "stop",
            (ApiFormat::Chat, Self::Length) => "length",
            (ApiFormat::Chat, Self::Refusal) => "content_filter",
            (ApiFormat::Chat, Self::ToolCall) => "tool_calls",
            (ApiFormat::Messages, Self::Done) => "end_turn",
            (ApiFormat::Messages, Self::Length) => "max_tokens",
            (ApiFormat::Messages, Self::Refusal) => "refusal",
            (ApiFormat::Messages, Self::ToolCall) => "tool_use",
            (ApiFormat::Responses, Self::Done | Self::ToolCall) => "completed",
            (ApiFormat::Responses, Self::Length | Self::Refusal) => "incomplete",
        }
    }
}

impl Speech {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ending: Ending::Done, input: 120, cached: 100, output: 7 }
    }

    pub(crate) fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// All of it, as one document.
    pub(crate) fn whole(&self, api_format: ApiFormat) -> String {
        match api_format {
            ApiFormat::Chat => json!({
                "id": "chatcmpl-1", "object": "chat.completion", "model": "scripted-1",
                "choices": [{ "index": 0, "message": self.chat_message(), "finish_reason": self.ending.word(api_format) }],
                "usage": self.usage(api_format),
            }),
            ApiFormat::Messages => json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted-1",
                "content": self.blocks(), "stop_reason": self.ending.word(api_format), "stop_sequence": null,
                "usage": self.usage(api_format),
            }),
            ApiFormat::Responses => self.response(),
        }
        .to_string()
    }

    /// The same as a stream of events.
    pub(crate) fn events(&self, api_format: ApiFormat) -> String {
        match api_format {
            ApiFormat::Chat => self.chat_events(),
            ApiFormat::Messages => self.message_events(),
            ApiFormat::Responses => self.response_events(),
        }
    }

    pub(crate) fn usage(&self, api_format: ApiFormat) -> Value {
        let (input, cached, output) = (self.input, self.cached, self.output);
        match api_format {
            ApiFormat::Chat => json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                "prompt_tokens_details": { "cached_tokens": cached },
            }),
            ApiFormat::Messages => json!({
                "input_tokens": input - cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached,
                "output_tokens": output,
            }),
            ApiFormat::Responses => json!({
                "input_tokens": input, "input_tokens_details": { "cached_tokens": cached }, "output_tokens": output,
                "total_tokens": input + output,
            }),
        }
    }

    /// The text in pieces of a few characters each.
    fn pieces(&self) -> Vec<String> {
        let letters: Vec<char> = self.text.chars().collect();
        letters.chunks(4).map(|piece| piece.iter().collect()).collect()
    }

    fn chat_message(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.text });
        if self.ending == Ending::ToolCall {
            message["tool_calls"] = json!([call("function")]);
        }
        message
    }

    fn blocks(&self) -> Vec<Value> {
        let mut blocks = vec![json!({ "type": "text", "text": self.text })];
        if self.ending == Ending::ToolCall {
            blocks.push(json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": {} }));
        }
        blocks
    }

    fn response(&self) -> Value {
        let mut output = vec![json!({ "type": "reasoning", "id": "rs_1", "summary": [] })];
        output.push(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": self.text, "annotations": [] }],
        }));
        if self.ending == Ending::ToolCall {
            output.push(json!({
                "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}",
            }));
        }
        let reason = match self.ending {
            Ending::Length => json!({ "reason": "max_output_tokens" }),
            Ending::Refusal => json!({ "reason": "content_filter" }),
            Ending::Done | Ending::ToolCall => Value::Null,
        };
        json!({
            "id": "resp_1", "object": "response", "model": "scripted-1", "error": null, "output": output,
            "status": self.ending.word(ApiFormat::Responses), "incomplete_details": reason,
            "usage": self.usage(ApiFormat::Responses),
        })
    }

    fn chat_events(&self) -> String {
        let chunk =
            |choices: Value| json!({ "object": "chat.completion.chunk", "model": "scripted-1", "choices": choices });
        let delta = |delta: Value| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]));
        let mut events = vec![delta(json!({ "role": "assistant", "content": "" }))];
        events.extend(self.pieces().into_iter().map(|piece| delta(json!({ "content": piece }))));
        if self.ending == Ending::ToolCall {
            events.push(delta(json!({ "tool_calls": [call("function")] })));
        }
        let word = self.ending.word(ApiFormat::Chat);
        events.push(chunk(json!([{ "index": 0, "delta": {}, "finish_reason": word }])));
        let mut last = chunk(json!([]));
        last["usage"] = self.usage(ApiFormat::Chat);
        events.push(last);
        let mut lines = vec![": SCRIPTED PROCESSING\n\n".to_owned()];
        lines.extend(events.iter().map(|event| format!("data: {event}\n\n")));
        lines.push("data: [DONE]\n\n".to_owned());
        lines.concat()
    }

    fn message_events(&self) -> String {
        let mut opening = self.usage(ApiFormat::Messages);
        opening["output_tokens"] = json!(1);
        let message =
            json!({ "id": "msg_1", "type": "message", "model": "scripted-1", "content": [], "usage": opening });
        let mut events = vec![
            json!({ "type": "message_start", "message": message }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "ping" }),
        ];
        events.extend(self.pieces().into_iter().map(
            |piece| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": piece } }),
        ));
        events.push(json!({ "type": "content_block_stop", "index": 0 }));
        if self.ending == Ending::ToolCall {
            let block = json!({ "type": "tool_use", "id": "toolu_1", "name": "look", "input": {} });
            events.push(json!({ "type": "content_block_start", "index": 1, "content_block": block }));
            events.push(json!({ "type": "content_block_stop", "index": 1 }));
        }
        events.push(json!({
            "type": "message_delta", "delta": { "stop_reason": self.ending.word(ApiFormat::Messages) },
            "usage": { "output_tokens": self.output },
        }));
        events.push(json!({ "type": "message_stop" }));
        named(&events)
    }

    fn response_events(&self) -> String {
        let opening = json!({ "id": "resp_1", "object": "response", "model": "scripted-1", "output": [] });
        let mut events = vec![json!({ "type": "response.created", "response": opening })];
        events.extend(
            self.pieces().into_iter().map(|piece| json!({ "type": "response.output_text.delta", "delta": piece })),
        );
        let last = match self.ending {
            Ending::Done | Ending::ToolCall => "response.completed",
            Ending::Length | Ending::Refusal => "response.incomplete",
        };
        events.push(json!({ "type": last, "response": self.response() }));
        named(&events)
    }
}

fn call(kind: &str) -> Value {
    json!({ "index": 0, "id": "call_1", "type": kind, kind: { "name": "look", "arguments": "{}" } })
}

/// Events that say their type before their data, too.
fn named(events: &[Value]) -> String {
    let lines = events.iter().map(|event| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    });
    lines.collect::<Vec<_>>().concat()
}
