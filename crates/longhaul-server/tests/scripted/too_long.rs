//! How providers say that the input is too long.

/// One way to say it, with the numbers that are in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TooLong {
    pub(crate) by: &'static str,
    pub(crate) status: u16,
    pub(crate) body: &'static str,
    pub(crate) maximum: Option<u64>,
    pub(crate) sent: Option<u64>,
}

const fn row(by: &'static str, status: u16, maximum: Option<u64>, sent: Option<u64>, body: &'static str) -> TooLong {
    TooLong { by, status, body, maximum, sent }
}

pub(crate) const TOO_LONG: &[TooLong] = &[
    row(
        "anthropic",
        400,
        Some(200_000),
        Some(210_000),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"},"request_id":"req_1"}"#,
    ),
    row(
        "anthropic, with the reply",
        400,
        Some(200_000),
        Some(178_959),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
    ),
    row(
        "vertex",
        413,
        None,
        None,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Prompt is too long"}}"#,
    ),
    row("bedrock", 400, None, None, r#"{"message":"Input is too long for requested model."}"#),
    row(
        "openai chat",
        400,
        Some(128_000),
        Some(204_308),
        r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    row(
        "openai responses",
        400,
        None,
        None,
        r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
    ),
    row(
        "openrouter",
        400,
        Some(32_768),
        Some(42_832),
        r#"{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.","code":400}}"#,
    ),
    row(
        "openrouter, handing through",
        400,
        Some(200_000),
        Some(210_000),
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}","provider_name":"Anthropic"}}}"#,
    ),
    row(
        "gemini",
        400,
        Some(1_048_575),
        Some(1_196_265),
        r#"[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]"#,
    ),
    row(
        "deepseek",
        400,
        Some(65_536),
        Some(66_000),
        r#"{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
    ),
    row(
        "groq",
        400,
        None,
        None,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    row(
        "mistral",
        400,
        Some(32_768),
        Some(40_000),
        r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}"#,
    ),
    row(
        "together",
        422,
        Some(8193),
        Some(9474),
        r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9474 `inputs` tokens and 60 `max_new_tokens`","type":"invalid_request_error"}}"#,
    ),
    row(
        "xai",
        400,
        Some(131_072),
        Some(537_812),
        r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
    ),
    row(
        "vllm",
        400,
        Some(32_768),
        Some(40_000),
        r#"{"error":{"message":"This model's maximum context length is 32768 tokens. However, your request has 40000 input tokens. Please reduce the length of the input messages.","type":"BadRequestError","param":null,"code":400}}"#,
    ),
    row(
        "llama.cpp",
        400,
        Some(4096),
        Some(5000),
        r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
    ),
    row(
        "ollama",
        400,
        None,
        None,
        r#"{"error":{"message":"the input length exceeds the context length","type":"invalid_request_error","param":null,"code":null}}"#,
    ),
];
