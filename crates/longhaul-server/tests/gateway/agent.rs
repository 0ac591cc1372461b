//! An agent in any dialect, streaming or not, which keeps what it was told as its provider wrote it, and sends it again.

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

/// What it speaks, and how it wants to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) dialect: ApiFormat,
    pub(crate) is_stream: bool,
}

pub(crate) fn every_form() -> impl Iterator<Item = Form> {
    let api_formats = [ApiFormat::Messages, ApiFormat::Chat, ApiFormat::Responses];
    api_formats
        .into_iter()
        .flat_map(|api_format| [false, true].map(|is_stream| Form { dialect: api_format, is_stream }))
}

/// What a reply said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) calls: usize,
    pub(crate) input: Option<u64>,
}

pub(crate) struct Agent {
    form: Form,
    /// Messages or items.
    pub(crate) history: Vec<Value>,
    steps: usize,
    /// The calls that wait for an answer.
    open: Vec<Value>,
    model: &'static str,
}

impl Agent {
    pub(crate) fn new(form: Form) -> Self {
        let is_messages = form.dialect == ApiFormat::Messages;
        Self::with_model(form, if is_messages { "claude-sonnet-4-5" } else { "gpt-5" })
    }

    pub(crate) fn with_model(form: Form, model: &'static str) -> Self {
        let mut agent = Self { form, history: Vec::new(), steps: 0, open: Vec::new(), model };
        agent.prompt("Make the build green. Never touch the tests.");
        agent
    }

    pub(crate) fn path(&self) -> &'static str {
        match self.form.dialect {
            ApiFormat::Messages => "/v1/messages",
            ApiFormat::Chat => "/v1/chat/completions",
            ApiFormat::Responses => "/v1/responses",
        }
    }

    pub(crate) fn model(&self) -> &'static str {
        self.model
    }

    fn prompt(&mut self, text: &str) {
        self.history.push(match self.form.dialect {
            ApiFormat::Responses => {
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
            }
            ApiFormat::Messages | ApiFormat::Chat => json!({"role": "user", "content": text}),
        });
    }

    /// Somebody says something.
    pub(crate) fn says(&mut self, text: &str) {
        let last = self.history.last().and_then(|last| last["role"].as_str()).unwrap_or_default();
        if last != "assistant" {
            self.history.push(match self.form.dialect {
                ApiFormat::Responses => json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done so far."}]}),
                ApiFormat::Messages | ApiFormat::Chat => json!({"role": "assistant", "content": "Done so far."}),
            });
        }
        self.prompt(text);
    }

    /// One call of its own with an output of so many lines.
    pub(crate) fn step(&mut self, lines: usize) {
        let n = self.steps;
        self.steps += 1;
        let noise: String = (0..lines).map(|line| format!("compiling unit {n}_{line} of the project\n")).collect();
        let output = format!("{noise}src/file{n}.rs:17: error: mismatched types in step {n}\n");
        let (id, arguments) = (format!("call_{n}"), json!({"command": format!("make target{n}")}));
        let text = format!("Target {n} does not build yet.");
        match self.form.dialect {
            ApiFormat::Messages => {
                let call = json!({"type": "tool_use", "id": id, "name": "bash", "input": arguments});
                self.history.push(json!({"role": "assistant", "content": [{"type": "text", "text": text}, call]}));
                self.history.push(
                    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]}),
                );
            }
            ApiFormat::Chat => {
                let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments.to_string()}});
                self.history.push(json!({"role": "assistant", "content": text, "tool_calls": [call]}));
                self.history.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
            }
            ApiFormat::Responses => {
                self.history.push(
                    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
                );
                self.history.push(
                    json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": arguments.to_string()}),
                );
                self.history.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            }
        }
    }

    pub(crate) fn body(&self) -> Value {
        let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
        let (model, stream) = (self.model(), self.form.is_stream);
        match self.form.dialect {
            ApiFormat::Messages => json!({
                "model": model, "max_tokens": 2000, "system": "You are careful.", "stream": stream,
                "tools": [{"name": "bash", "description": "Runs a command.", "input_schema": schema}], "messages": self.history,
            }),
            ApiFormat::Chat => {
                let function = json!({"name": "bash", "description": "Runs a command.", "parameters": schema});
                let mut messages = vec![json!({"role": "system", "content": "You are careful."})];
                messages.extend(self.history.iter().cloned());
                let mut body = json!({
                    "model": model, "stream": stream, "tools": [{"type": "function", "function": function}], "messages": messages,
                });
                if stream {
                    body["stream_options"] = json!({"include_usage": true});
                }
                body
            }
            ApiFormat::Responses => json!({
                "model": model, "instructions": "You are careful.", "stream": stream, "store": false, "include": ["reasoning.encrypted_content"],
                "tools": [{"type": "function", "name": "bash", "description": "Runs a command.", "parameters": schema, "strict": false}],
                "input": self.history,
            }),
        }
    }

    /// Takes in a reply, whole or as events, and keeps it.
    pub(crate) fn hears(&mut self, reply: &[u8]) -> Said {
        let text = std::str::from_utf8(reply).unwrap();
        let (elements, usage) = if self.form.is_stream {
            let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
            let events: Vec<Value> = data.map(|data| data.parse().unwrap()).collect();
            match self.form.dialect {
                ApiFormat::Messages => message(&events),
                ApiFormat::Chat => completion(&events),
                ApiFormat::Responses => response(&events),
            }
        } else {
            let whole: Value = text.parse().unwrap();
            let elements = match self.form.dialect {
                ApiFormat::Messages => vec![json!({"role": "assistant", "content": whole["content"]})],
                ApiFormat::Chat => vec![whole["choices"][0]["message"].clone()],
                ApiFormat::Responses => whole["output"].as_array().unwrap().clone(),
            };
            (elements, whole["usage"].clone())
        };
        let mut said = Said { text: String::new(), calls: 0, input: input(&usage) };
        self.open.clear();
        for element in &elements {
            self.read(element, &mut said);
        }
        self.history.extend(elements);
        said
    }

    fn read(&mut self, element: &Value, said: &mut Said) {
        match &element["content"] {
            Value::String(text) => said.text.push_str(text),
            Value::Array(blocks) => {
                for block in blocks {
                    said.text.push_str(block["text"].as_str().unwrap_or_default());
                    if block["type"] == "tool_use" {
                        self.open.push(block["id"].clone());
                    }
                }
            }
            _ => {}
        }
        if element["type"] == "function_call" {
            self.open.push(element["call_id"].clone());
        }
        self.open.extend(element["tool_calls"].as_array().into_iter().flatten().map(|call| call["id"].clone()));
        said.calls = self.open.len();
    }

    /// Answers the calls of the newest reply.
    pub(crate) fn answers_calls(&mut self, text: &str) {
        let open = std::mem::take(&mut self.open);
        match self.form.dialect {
            ApiFormat::Messages => {
                let results: Vec<Value> =
                    open.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": text})).collect();
                self.history.push(json!({"role": "user", "content": results}));
            }
            ApiFormat::Chat => {
                self.history.extend(open.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": text})));
            }
            ApiFormat::Responses => self
                .history
                .extend(open.iter().map(|id| json!({"type": "function_call_output", "call_id": id, "output": text}))),
        }
    }
}

fn input(usage: &Value) -> Option<u64> {
    if let Some(prompt) = usage["prompt_tokens"].as_u64() {
        return Some(prompt);
    }
    let cached = ["cache_read_input_tokens", "cache_creation_input_tokens"];
    let cached: u64 = cached.iter().filter_map(|name| usage[*name].as_u64()).sum();
    usage["input_tokens"].as_u64().map(|fresh| fresh + cached)
}

fn message(events: &[Value]) -> (Vec<Value>, Value) {
    let (mut blocks, mut usage): (Vec<Value>, Value) = (Vec::new(), Value::Null);
    let mut json = String::new();
    for event in events {
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        match event["type"].as_str().unwrap() {
            "message_start" => usage = event["message"]["usage"].clone(),
            "content_block_start" => {
                assert_eq!(index, blocks.len(), "{event}");
                blocks.push(event["content_block"].clone());
                json.clear();
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                json.push_str(delta["partial_json"].as_str().unwrap_or_default());
                for field in ["text", "thinking", "signature"] {
                    if let Some(more) = delta[field].as_str() {
                        let before = blocks[index][field].as_str().unwrap_or_default().to_owned();
                        blocks[index][field] = json!(before + more);
                    }
                }
            }
            "content_block_stop" if blocks[index]["type"] == "tool_use" => {
                blocks[index]["input"] = json.parse().unwrap();
            }
            "message_delta" => {
                let is_call = blocks.iter().any(|block| block["type"] == "tool_use");
                assert_eq!(event["delta"]["stop_reason"] == "tool_use", is_call, "{event}");
            }
            _ => {}
        }
    }
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    (vec![json!({"role": "assistant", "content": blocks})], usage)
}

fn completion(events: &[Value]) -> (Vec<Value>, Value) {
    let (mut text, mut calls, mut usage): (String, Vec<Value>, Value) = (String::new(), Vec::new(), Value::Null);
    for chunk in events {
        assert_eq!(chunk["id"], events[0]["id"]);
        let delta = &chunk["choices"][0]["delta"];
        text.push_str(delta["content"].as_str().unwrap_or_default());
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = piece["index"].as_u64().unwrap() as usize;
            if index == calls.len() {
                calls.push(piece.clone());
            } else {
                let before = calls[index]["function"]["arguments"].as_str().unwrap().to_owned();
                let more = piece["function"]["arguments"].as_str().unwrap_or_default();
                calls[index]["function"]["arguments"] = json!(before + more);
            }
        }
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        for call in &mut calls {
            call.as_object_mut().unwrap().remove("index");
        }
        message["tool_calls"] = calls.into();
    }
    (vec![message], usage)
}

fn response(events: &[Value]) -> (Vec<Value>, Value) {
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number as u64, "{event}");
    }
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let items: Vec<Value> = done.map(|event| event["item"].clone()).collect();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"].as_array().unwrap(), &items);
    assert_eq!(last["response"]["id"], events[0]["response"]["id"]);
    (items, last["response"]["usage"].clone())
}
