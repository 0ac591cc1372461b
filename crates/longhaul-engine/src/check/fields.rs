//! Checks the JSON types of the known fields (G12), by one table for each API format.
//!
//! A null field counts as absent. A field without a row may have any type, because many hosts have fields of
//! their own.

use serde_json::Value;

use super::rules::G12;
use super::{CheckedRequest, Findings, JsonPath, Severity, type_of};
use crate::ApiFormat;

/// The JSON type of a field.
enum JsonType {
    Text,
    Number,
    Integer,
    Boolean,
    /// An object whose known fields are checked too.
    Object(&'static [FieldRow]),
    /// A list whose elements all have this type.
    List(&'static JsonType),
}

use JsonType::{Boolean, Integer, List, Number, Object, Text};

/// A row of the tables: the `type` of the object that has the field (empty for any object), the name of the
/// field, and the types that it accepts.
type FieldRow = (&'static str, &'static str, &'static [JsonType]);

const ANY_OBJECT: JsonType = Object(&[]);

const CHAT_BODY: &[FieldRow] = &[
    ("", "model", &[Text]),
    ("", "tools", &[List(&Object(CHAT_TOOL))]),
    ("", "functions", &[List(&Object(CHAT_FUNCTION))]),
    ("", "tool_choice", &[Text, ANY_OBJECT]),
    ("", "function_call", &[Text, ANY_OBJECT]),
    ("", "max_tokens", &[Integer]),
    ("", "max_completion_tokens", &[Integer]),
    ("", "temperature", &[Number]),
    ("", "top_p", &[Number]),
    ("", "top_k", &[Integer]),
    ("", "n", &[Integer]),
    ("", "seed", &[Integer]),
    ("", "presence_penalty", &[Number]),
    ("", "frequency_penalty", &[Number]),
    ("", "logit_bias", &[ANY_OBJECT]),
    ("", "top_logprobs", &[Integer]),
    ("", "stop", &[Text, List(&Text)]),
    ("", "stream", &[Boolean]),
    ("", "stream_options", &[ANY_OBJECT]),
    ("", "parallel_tool_calls", &[Boolean]),
    ("", "response_format", &[ANY_OBJECT]),
    ("", "reasoning_effort", &[Text]),
    ("", "metadata", &[ANY_OBJECT]),
    ("", "store", &[Boolean]),
    ("", "user", &[Text]),
    ("", "prompt_cache_key", &[Text]),
];

const CHAT_TOOL: &[FieldRow] = &[("", "type", &[Text]), ("", "function", &[Object(CHAT_FUNCTION)])];

const CHAT_FUNCTION: &[FieldRow] =
    &[("", "description", &[Text]), ("", "parameters", &[ANY_OBJECT]), ("", "strict", &[Boolean])];

const CHAT_MESSAGE: &[FieldRow] = &[
    ("", "content", &[Text, List(&Object(CHAT_PART))]),
    ("", "name", &[Text]),
    ("", "tool_calls", &[List(&Object(CHAT_CALL))]),
    ("", "function_call", &[ANY_OBJECT]),
    ("", "refusal", &[Text]),
    ("", "reasoning_content", &[Text]),
];

const CHAT_CALL: &[FieldRow] = &[("", "id", &[Text]), ("", "type", &[Text]), ("", "function", &[ANY_OBJECT])];

const CHAT_PART: &[FieldRow] =
    &[("", "type", &[Text]), ("text", "text", &[Text]), ("image_url", "image_url", &[Text, ANY_OBJECT])];

const MESSAGES_BODY: &[FieldRow] = &[
    ("", "model", &[Text]),
    ("", "system", &[Text, List(&Object(MESSAGES_BLOCK))]),
    ("", "tools", &[List(&Object(MESSAGES_TOOL))]),
    ("", "tool_choice", &[ANY_OBJECT]),
    ("", "max_tokens", &[Integer]),
    ("", "temperature", &[Number]),
    ("", "top_p", &[Number]),
    ("", "top_k", &[Integer]),
    ("", "stop_sequences", &[List(&Text)]),
    ("", "stream", &[Boolean]),
    ("", "thinking", &[Object(&[("", "type", &[Text]), ("", "budget_tokens", &[Integer])])]),
    ("", "metadata", &[ANY_OBJECT]),
    ("", "cache_control", &[ANY_OBJECT]),
    ("", "service_tier", &[Text]),
    ("", "mcp_servers", &[List(&ANY_OBJECT)]),
];

const MESSAGES_TOOL: &[FieldRow] = &[
    ("", "type", &[Text]),
    ("", "name", &[Text]),
    ("", "description", &[Text]),
    ("", "input_schema", &[ANY_OBJECT]),
    ("", "cache_control", &[ANY_OBJECT]),
];

const MESSAGES_MESSAGE: &[FieldRow] = &[("", "content", &[Text, List(&Object(MESSAGES_BLOCK))])];

const MESSAGES_BLOCK: &[FieldRow] = &[
    ("", "type", &[Text]),
    ("", "cache_control", &[ANY_OBJECT]),
    ("text", "text", &[Text]),
    ("thinking", "thinking", &[Text]),
    ("redacted_thinking", "data", &[Text]),
    ("image", "source", &[Object(MESSAGES_SOURCE)]),
    ("document", "source", &[Object(MESSAGES_SOURCE)]),
    ("tool_use", "name", &[Text]),
    ("tool_result", "is_error", &[Boolean]),
    ("tool_result", "content", &[Text, List(&Object(MESSAGES_RESULT_BLOCK))]),
];

/// Blocks inside a tool result, which cannot contain further results.
const MESSAGES_RESULT_BLOCK: &[FieldRow] = &[
    ("", "type", &[Text]),
    ("text", "text", &[Text]),
    ("image", "source", &[Object(MESSAGES_SOURCE)]),
    ("document", "source", &[Object(MESSAGES_SOURCE)]),
];

const MESSAGES_SOURCE: &[FieldRow] =
    &[("", "type", &[Text]), ("", "media_type", &[Text]), ("", "data", &[Text]), ("", "url", &[Text])];

const RESPONSES_BODY: &[FieldRow] = &[
    ("", "model", &[Text]),
    ("", "instructions", &[Text, List(&ANY_OBJECT)]),
    ("", "tools", &[List(&Object(RESPONSES_TOOL))]),
    ("", "tool_choice", &[Text, ANY_OBJECT]),
    ("", "max_output_tokens", &[Integer]),
    ("", "max_tool_calls", &[Integer]),
    ("", "temperature", &[Number]),
    ("", "top_p", &[Number]),
    ("", "stream", &[Boolean]),
    ("", "store", &[Boolean]),
    ("", "background", &[Boolean]),
    ("", "parallel_tool_calls", &[Boolean]),
    ("", "previous_response_id", &[Text]),
    ("", "conversation", &[Text, ANY_OBJECT]),
    ("", "include", &[List(&Text)]),
    ("", "metadata", &[ANY_OBJECT]),
    ("", "reasoning", &[ANY_OBJECT]),
    ("", "text", &[ANY_OBJECT]),
    ("", "truncation", &[Text]),
    ("", "user", &[Text]),
    ("", "prompt_cache_key", &[Text]),
];

const RESPONSES_TOOL: &[FieldRow] = &[
    ("", "type", &[Text]),
    ("function", "name", &[Text]),
    ("function", "description", &[Text]),
    ("function", "parameters", &[ANY_OBJECT]),
    ("function", "strict", &[Boolean]),
];

const RESPONSES_ITEM: &[FieldRow] = &[
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

const RESPONSES_PART: &[FieldRow] = &[
    ("", "type", &[Text]),
    ("input_text", "text", &[Text]),
    ("output_text", "text", &[Text]),
    ("refusal", "refusal", &[Text]),
    ("input_image", "image_url", &[Text]),
];

/// Checks G12 in the whole body. Messages that are not objects are reported elsewhere.
pub(super) fn check(request: &CheckedRequest, api_format: ApiFormat, findings: &mut Findings) {
    let (body, message) = match api_format {
        ApiFormat::Chat => (CHAT_BODY, CHAT_MESSAGE),
        ApiFormat::Messages => (MESSAGES_BODY, MESSAGES_MESSAGE),
        ApiFormat::Responses => (RESPONSES_BODY, RESPONSES_ITEM),
    };
    check_fields(request.body, body, JsonPath::ROOT, findings);
    for (i, value) in request.messages.iter().enumerate() {
        check_fields(value, message, request.message_path(i), findings);
    }
}

fn check_fields(object: &Value, rows: &'static [FieldRow], at: JsonPath, findings: &mut Findings) {
    for (of, name, takes) in rows {
        if !(of.is_empty() || *of == type_of(object)) {
            continue;
        }
        if let Some(value) = object.get(*name).filter(|value| !value.is_null()) {
            check_value_type(value, name, takes, at / *name, findings);
        }
    }
}

fn check_value_type(value: &Value, name: &str, takes: &'static [JsonType], at: JsonPath, findings: &mut Findings) {
    match takes.iter().find(|wanted| wanted.accepts(value)) {
        Some(Object(rows)) => check_fields(value, rows, at, findings),
        Some(List(element)) => {
            for (i, value) in super::indexed(value) {
                check_value_type(value, name, std::slice::from_ref(element), at / i, findings);
            }
        }
        Some(_) => {}
        None => {
            let wanted: Vec<&str> = takes.iter().map(JsonType::description).collect();
            let message = format!("{} stands in `{name}`: send {}", describe_value(value), wanted.join(" or "));
            // Some hosts parse a number or a boolean from a string.
            let may_be_read = takes.iter().any(|wanted| wanted.accepts_text_of(value));
            let severity = if may_be_read { Severity::Warning } else { G12.severity };
            findings.report_with_severity(severity, &G12, at, message);
        }
    }
}

impl JsonType {
    fn accepts(&self, value: &Value) -> bool {
        match self {
            Text => value.is_string(),
            Number => value.is_number(),
            Integer => value.is_u64() || value.is_i64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
            Boolean => value.is_boolean(),
            Object(_) => value.is_object(),
            List(_) => value.is_array(),
        }
    }

    /// Returns whether the value is a string that spells a value of this type.
    fn accepts_text_of(&self, value: &Value) -> bool {
        let Some(text) = value.as_str() else { return false };
        match self {
            Number => text.parse::<f64>().is_ok_and(f64::is_finite),
            Integer => text.parse::<i64>().is_ok(),
            Boolean => text.parse::<bool>().is_ok(),
            Text | Object(_) | List(_) => false,
        }
    }

    fn description(&self) -> &'static str {
        match self {
            Text => "a string",
            Number => "a number",
            Integer => "a whole number",
            Boolean => "true or false",
            Object(_) => "an object",
            List(Text) => "a list of strings",
            List(_) => "a list of objects",
        }
    }
}

fn describe_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
