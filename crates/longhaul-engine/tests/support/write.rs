//! A session as a request body, in each dialect.

use longhaul_engine::ApiFormat;
use serde_json::{Map, Value, json};

use super::notation::{Answer, By, Part, Seal, Session, Unit};

/// The body of a session whose tool definitions are those of `all`, of which it is the beginning.
pub fn body(api_format: ApiFormat, model: &str, session: &Session, all: &Session) -> String {
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    let sealed = |part: &Part| matches!(part, Part::Thought { seal: Seal::Sealed, .. });
    let mut messages = Vec::new();
    match (api_format, &session.system) {
        (ApiFormat::Chat, Some(system)) => messages.push(json!({"role": "system", "content": system})),
        (ApiFormat::Messages, Some(system)) => drop(body.insert("system".into(), json!(system))),
        (ApiFormat::Responses, Some(system)) => drop(body.insert("instructions".into(), json!(system))),
        (_, None) => {}
    }
    if api_format == ApiFormat::Messages {
        body.insert("max_tokens".into(), 8192.into());
        if all.units.iter().flat_map(|turn| &turn.parts).any(sealed) {
            body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2048}));
        }
    }
    let tools = tools(api_format, all);
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    append(api_format, &mut messages, &session.units, 0);
    body.insert(key(api_format).into(), messages.into());
    Value::Object(body).to_string()
}

/// The body with further units at its end, the first of which has this number.
pub fn grown(api_format: ApiFormat, body: &str, turns: &[Unit], first: usize) -> String {
    let mut body: Value = serde_json::from_str(body).unwrap();
    let messages = body[key(api_format)].as_array_mut().unwrap();
    append(api_format, messages, turns, first);
    body.to_string()
}

fn key(api_format: ApiFormat) -> &'static str {
    if api_format == ApiFormat::Responses { "input" } else { "messages" }
}

fn append(api_format: ApiFormat, messages: &mut Vec<Value>, turns: &[Unit], first: usize) {
    for (number, turn) in (first..).zip(turns) {
        match api_format {
            ApiFormat::Chat => chat(messages, turn, number),
            ApiFormat::Messages => anthropic(messages, turn, number),
            ApiFormat::Responses => responses(messages, turn, number),
        }
    }
}

fn tools(api_format: ApiFormat, session: &Session) -> Vec<Value> {
    let further = (1..=session.further_tools).map(|n| format!("further_tool_{n}"));
    let names = session.tools().into_iter().map(str::to_owned).chain(further);
    let definition = |name: String| {
        let about = format!("{name}: does what its name says, for the arguments that it is given");
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        match api_format {
            ApiFormat::Chat => {
                json!({"type": "function", "function": {"name": name, "description": about, "parameters": schema}})
            }
            ApiFormat::Messages => json!({"name": name, "description": about, "input_schema": schema}),
            ApiFormat::Responses => {
                json!({"type": "function", "name": name, "description": about, "parameters": schema})
            }
        }
    };
    names.map(definition).collect()
}

/// The id of a call: the unit's number and which part of it.
fn id(number: usize, part: usize) -> String {
    format!("call_{number}_{part}")
}

/// Content as a string where it is one text, else as a list.
fn content(parts: &[Part], block: impl Fn(&Part) -> Value) -> Value {
    match parts {
        [Part::Text(text)] => json!(text),
        parts => parts.iter().map(block).collect(),
    }
}

fn answered(answer: &Answer, block: impl Fn(&Part) -> Value) -> Value {
    content(&answer.blocks, block)
}

/// The smallest thing that says it is a picture of that size: the header of a PNG, in base64.
fn picture(width: u32, height: u32) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 2, 0, 0, 0, 0]);
    let of_three = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift & 63) as usize] as char)
    };
    bytes.chunks_exact(3).flat_map(of_three).collect()
}

fn chat(messages: &mut Vec<Value>, turn: &Unit, number: usize) {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { width, height } => {
            let url = format!("data:image/png;base64,{}", picture(*width, *height));
            json!({"type": "image_url", "image_url": {"url": url}})
        }
        other => panic!("{other:?} is no part of a chat message"),
    };
    if turn.by == By::User {
        return messages.push(json!({"role": "user", "content": content(&turn.parts, block)}));
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for (n, part) in turn.parts.iter().enumerate() {
        match part {
            Part::Text(text) => drop(message.insert("content".into(), json!(text))),
            Part::Thought { text, seal: Seal::Plain } => {
                message.insert("reasoning_content".into(), json!(text));
            }
            Part::Thought { text, seal: Seal::Sealed } => {
                let details = json!([{"type": "reasoning.encrypted", "data": text, "id": format!("rs_{number}"), "format": "openai-responses-v1", "index": 0}]);
                message.insert("reasoning_details".into(), details);
            }
            Part::Call { tool, arguments, answer } => {
                let id = id(number, n);
                calls.push(json!({"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}));
                results.extend(
                    answer.as_ref().map(|a| json!({"role": "tool", "tool_call_id": id, "content": answered(a, block)})),
                );
            }
            Part::Orphan(answer) => {
                return messages
                    .push(json!({"role": "tool", "tool_call_id": id(number, n), "content": answered(answer, block)}));
            }
            Part::Image { .. } => panic!("a reply has no pictures"),
        }
    }
    if !calls.is_empty() {
        message.entry("content").or_insert(Value::Null);
        message.insert("tool_calls".into(), calls.into());
    }
    messages.push(message.into());
    messages.extend(results);
}

fn anthropic(messages: &mut Vec<Value>, turn: &Unit, number: usize) {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { width, height } => {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture(*width, *height)}})
        }
        other => panic!("{other:?} is no part of a user message"),
    };
    if turn.by == By::User {
        // What is said right after results stands in their message, as most clients send it.
        if let Some(Value::Array(results)) = messages.last_mut().map(|last| &mut last["content"])
            && results.iter().all(|block| block["type"] == "tool_result")
        {
            return results.extend(turn.parts.iter().map(block));
        }
        return messages.push(json!({"role": "user", "content": content(&turn.parts, block)}));
    }
    let (mut said, mut results) = (Vec::new(), Vec::new());
    for (n, part) in turn.parts.iter().enumerate() {
        let id = id(number, n);
        let mut result = |answer: &Answer| {
            let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": answered(answer, block)});
            if answer.failed {
                result["is_error"] = true.into();
            }
            results.push(result);
        };
        match part {
            Part::Text(text) => said.push(json!({"type": "text", "text": text})),
            Part::Thought { text, seal: Seal::Sealed } => {
                said.push(json!({"type": "thinking", "thinking": text, "signature": format!("c2ln{number}")}));
            }
            Part::Thought { seal: Seal::Plain, .. } => {
                panic!("thinking without a signature is not valid in messages")
            }
            Part::Call { tool, arguments, answer } => {
                let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
                said.push(json!({"type": "tool_use", "id": id, "name": tool, "input": input}));
                answer.iter().for_each(&mut result);
            }
            Part::Orphan(answer) => result(answer),
            Part::Image { .. } => panic!("a reply has no pictures"),
        }
    }
    if !said.is_empty() {
        let only_text = said.len() == 1 && said[0]["type"] == "text";
        let said = if only_text { said[0]["text"].take() } else { said.into() };
        messages.push(json!({"role": "assistant", "content": said}));
    }
    if !results.is_empty() {
        messages.push(json!({"role": "user", "content": results}));
    }
}

fn responses(items: &mut Vec<Value>, turn: &Unit, number: usize) {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({"type": "input_text", "text": text}),
        Part::Image { width, height } => {
            json!({"type": "input_image", "image_url": format!("data:image/png;base64,{}", picture(*width, *height))})
        }
        other => panic!("{other:?} is no part of an input message"),
    };
    if turn.by == By::User {
        return items.push(json!({"type": "message", "role": "user", "content": content(&turn.parts, block)}));
    }
    let mut results = Vec::new();
    // What stands behind sealed reasoning is tied to it by its own id.
    let sealed = turn.parts.iter().any(|part| matches!(part, Part::Thought { seal: Seal::Sealed, .. }));
    for (n, part) in turn.parts.iter().enumerate() {
        let id = id(number, n);
        let result =
            |answer: &Answer| json!({"type": "function_call_output", "call_id": id, "output": answered(answer, block)});
        let mut item = match part {
            Part::Text(text) => {
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
            }
            Part::Thought { text, seal } => {
                let summary = json!([{"type": "summary_text", "text": text}]);
                match seal {
                    Seal::Plain => json!({"type": "reasoning", "summary": summary}),
                    Seal::Sealed => {
                        json!({"type": "reasoning", "id": format!("rs_{number}_{n}"), "summary": summary, "encrypted_content": "gAAAAA=="})
                    }
                }
            }
            Part::Call { tool, arguments, answer } => {
                results.extend(answer.as_ref().map(result));
                json!({"type": "function_call", "call_id": id, "name": tool, "arguments": arguments})
            }
            Part::Orphan(answer) => result(answer),
            Part::Image { .. } => panic!("a reply has no pictures"),
        };
        let prefix = match part {
            Part::Text(_) => "msg",
            Part::Call { .. } => "fc",
            _ => "",
        };
        if sealed && !prefix.is_empty() {
            item["id"] = format!("{prefix}_{number}_{n}").into();
        }
        items.push(item);
    }
    items.extend(results);
}
