//! Which JSON types the known fields take (G12): one table for each dialect, walked over the body.
//!
//! A field that is null counts as left out, and one that no row names may hold anything: hosts have many of their own.

use serde_json::Value;

use super::rules::G12;
use super::{At, Findings, Request, Severity, kind};
use crate::Dialect;

/// What a field may hold.
enum Type {
    Text,
    Number,
    Whole,
    Truth,
    /// An object whose known fields are looked into.
    Object(&'static [Field]),
    /// A list whose elements are all of this type.
    List(&'static Type),
}

use Type::{List, Number, Object, Text, Truth, Whole};

/// A row: the `type` of the object that has the field (empty: of any object), the field, and the types it takes.
type Field = (&'static str, &'static str, &'static [Type]);

const ANY: Type = Object(&[]);

const CHAT: &[Field] = &[
    ("", "model", &[Text]),
    ("", "tools", &[List(&Object(CHAT_TOOL))]),
    ("", "functions", &[List(&Object(FUNCTION))]),
    ("", "tool_choice", &[Text, ANY]),
    ("", "function_call", &[Text, ANY]),
    ("", "max_tokens", &[Whole]),
    ("", "max_completion_tokens", &[Whole]),
    ("", "temperature", &[Number]),
    ("", "top_p", &[Number]),
    ("", "top_k", &[Whole]),
    ("", "n", &[Whole]),
    ("", "seed", &[Whole]),
    ("", "presence_penalty", &[Number]),
    ("", "frequency_penalty", &[Number]),
    ("", "logit_bias", &[ANY]),
    ("", "top_logprobs", &[Whole]),
    ("", "stop", &[Text, List(&Text)]),
    ("", "stream", &[Truth]),
    ("", "stream_options", &[ANY]),
    ("", "parallel_tool_calls", &[Truth]),
    ("", "response_format", &[ANY]),
    ("", "reasoning_effort", &[Text]),
    ("", "metadata", &[ANY]),
    ("", "store", &[Truth]),
    ("", "user", &[Text]),
    ("", "prompt_cache_key", &[Text]),
];

const CHAT_TOOL: &[Field] = &[("", "type", &[Text]), ("", "function", &[Object(FUNCTION)])];

const FUNCTION: &[Field] =
    &[("", "description", &[Text]), ("", "parameters", &[ANY]), ("", "strict", &[Truth])];

const CHAT_MESSAGE: &[Field] = &[
    ("", "content", &[Text, List(&Object(CHAT_PART))]),
    ("", "name", &[Text]),
    ("", "tool_calls", &[List(&Object(CHAT_CALL))]),
    ("", "function_call", &[ANY]),
    ("", "refusal", &[Text]),
    ("", "reasoning_content", &[Text]),
];

const CHAT_CALL: &[Field] = &[("", "id", &[Text]), ("", "type", &[Text]), ("", "function", &[ANY])];

const CHAT_PART: &[Field] =
    &[("", "type", &[Text]), ("text", "text", &[Text]), ("image_url", "image_url", &[Text, ANY])];

const MESSAGES: &[Field] = &[
    ("", "model", &[Text]),
    ("", "system", &[Text, List(&Object(BLOCK))]),
    ("", "tools", &[List(&Object(TOOL))]),
    ("", "tool_choice", &[ANY]),
    ("", "max_tokens", &[Whole]),
    ("", "temperature", &[Number]),
    ("", "top_p", &[Number]),
    ("", "top_k", &[Whole]),
    ("", "stop_sequences", &[List(&Text)]),
    ("", "stream", &[Truth]),
    ("", "thinking", &[Object(&[("", "type", &[Text]), ("", "budget_tokens", &[Whole])])]),
    ("", "metadata", &[ANY]),
    ("", "cache_control", &[ANY]),
    ("", "service_tier", &[Text]),
    ("", "mcp_servers", &[List(&ANY)]),
];

const TOOL: &[Field] = &[
    ("", "type", &[Text]),
    ("", "name", &[Text]),
    ("", "description", &[Text]),
    ("", "input_schema", &[ANY]),
    ("", "cache_control", &[ANY]),
];

const MESSAGE: &[Field] = &[("", "content", &[Text, List(&Object(BLOCK))])];

const BLOCK: &[Field] = &[
    ("", "type", &[Text]),
    ("", "cache_control", &[ANY]),
    ("text", "text", &[Text]),
    ("thinking", "thinking", &[Text]),
    ("redacted_thinking", "data", &[Text]),
    ("image", "source", &[Object(SOURCE)]),
    ("document", "source", &[Object(SOURCE)]),
    ("tool_use", "name", &[Text]),
    ("tool_result", "is_error", &[Truth]),
    ("tool_result", "content", &[Text, List(&Object(INNER))]),
];

/// Blocks inside a result, where no further results are.
const INNER: &[Field] = &[
    ("", "type", &[Text]),
    ("text", "text", &[Text]),
    ("image", "source", &[Object(SOURCE)]),
    ("document", "source", &[Object(SOURCE)]),
];

const SOURCE: &[Field] =
    &[("", "type", &[Text]), ("", "media_type", &[Text]), ("", "data", &[Text]), ("", "url", &[Text])];

const RESPONSES: &[Field] = &[
    ("", "model", &[Text]),
    ("", "instructions", &[Text, List(&ANY)]),
    ("", "tools", &[List(&Object(RESPONSES_TOOL))]),
    ("", "tool_choice", &[Text, ANY]),
    ("", "max_output_tokens", &[Whole]),
    ("", "max_tool_calls", &[Whole]),
    ("", "temperature", &[Number]),
    ("", "top_p", &[Number]),
    ("", "stream", &[Truth]),
    ("", "store", &[Truth]),
    ("", "background", &[Truth]),
    ("", "parallel_tool_calls", &[Truth]),
    ("", "previous_response_id", &[Text]),
    ("", "conversation", &[Text, ANY]),
    ("", "include", &[List(&Text)]),
    ("", "metadata", &[ANY]),
    ("", "reasoning", &[ANY]),
    ("", "text", &[ANY]),
    ("", "truncation", &[Text]),
    ("", "user", &[Text]),
    ("", "prompt_cache_key", &[Text]),
];

const RESPONSES_TOOL: &[Field] = &[
    ("", "type", &[Text]),
    ("function", "name", &[Text]),
    ("function", "description", &[Text]),
    ("function", "parameters", &[ANY]),
    ("function", "strict", &[Truth]),
];

const ITEM: &[Field] = &[
    ("", "type", &[Text]),
    ("", "id", &[Text]),
    ("", "call_id", &[Text]),
    ("", "status", &[Text]),
    ("", "content", &[Text, List(&Object(RESPONSES_PART))]),
    ("function_call", "name", &[Text]),
    ("custom_tool_call", "input", &[Text]),
    ("function_call_output", "output", &[Text, List(&Object(RESPONSES_PART))]),
    ("custom_tool_call_output", "output", &[Text, List(&Object(RESPONSES_PART))]),
    ("reasoning", "encrypted_content", &[Text]),
];

const RESPONSES_PART: &[Field] = &[
    ("", "type", &[Text]),
    ("input_text", "text", &[Text]),
    ("output_text", "text", &[Text]),
    ("refusal", "refusal", &[Text]),
    ("input_image", "image_url", &[Text]),
];

/// G12, over the whole body. A message that is none is not this rule's business.
pub(super) fn check(request: &Request, dialect: Dialect, findings: &mut Findings) {
    let (body, message) = match dialect {
        Dialect::Chat => (CHAT, CHAT_MESSAGE),
        Dialect::Messages => (MESSAGES, MESSAGE),
        Dialect::Responses => (RESPONSES, ITEM),
    };
    fields(request.envelope, body, At::BODY, findings);
    for (i, value) in request.messages.iter().enumerate() {
        fields(value, message, request.at(i), findings);
    }
}

fn fields(object: &Value, known: &'static [Field], at: At, findings: &mut Findings) {
    for (of, name, takes) in known {
        if !(of.is_empty() || *of == kind(object)) {
            continue;
        }
        if let Some(value) = object.get(*name).filter(|value| !value.is_null()) {
            value_of(value, name, takes, at / *name, findings);
        }
    }
}

fn value_of(value: &Value, name: &str, takes: &'static [Type], at: At, findings: &mut Findings) {
    match takes.iter().find(|wanted| wanted.holds(value)) {
        Some(Object(known)) => fields(value, known, at, findings),
        Some(List(element)) => {
            for (i, value) in super::list(value) {
                value_of(value, name, std::slice::from_ref(element), at / i, findings);
            }
        }
        Some(_) => {}
        None => {
            let wanted: Vec<&str> = takes.iter().map(Type::words).collect();
            let message = format!("{} stands in `{name}`: send {}", words(value), wanted.join(" or "));
            // Some hosts read a number or a truth value out of a text.
            let may_be_read = takes.iter().any(|wanted| wanted.reads(value));
            let severity = if may_be_read { Severity::Warning } else { G12.severity };
            findings.report_as(severity, &G12, at, message);
        }
    }
}

impl Type {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Text => value.is_string(),
            Number => value.is_number(),
            Whole => value.is_u64() || value.is_i64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
            Truth => value.is_boolean(),
            Object(_) => value.is_object(),
            List(_) => value.is_array(),
        }
    }

    /// Whether a text spells a value of this type.
    fn reads(&self, value: &Value) -> bool {
        let Some(text) = value.as_str() else { return false };
        match self {
            Number => text.parse::<f64>().is_ok_and(f64::is_finite),
            Whole => text.parse::<i64>().is_ok(),
            Truth => text.parse::<bool>().is_ok(),
            Text | Object(_) | List(_) => false,
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Text => "a string",
            Number => "a number",
            Whole => "a whole number",
            Truth => "true or false",
            Object(_) => "an object",
            List(Text) => "a list of strings",
            List(_) => "a list of objects",
        }
    }
}

fn words(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
