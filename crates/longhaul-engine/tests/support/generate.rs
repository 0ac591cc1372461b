//! Generated bodies in all three dialects, with the quirks that real ones have, each counted by name.

pub mod shrink;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use super::Numbers;

/// A generated body, and the quirks that are in it.
pub struct Generated {
    pub dialect: ApiFormat,
    pub seed: u64,
    length: Length,
    pub body: String,
    pub quirks: Vec<&'static str>,
    /// Secrets that somebody said or printed.
    pub secrets: Vec<String>,
    /// What can be left out of it.
    parts: Vec<Part>,
}

/// A part that a body can do without: a unit, or all of a text but its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Unit(usize),
    Text(usize),
}

/// Every quirk that each dialect's generator can produce: the classes that tests count.
fn quirk_classes(api_format: ApiFormat) -> impl Iterator<Item = &'static str> {
    const ALL: &[&str] = &[
        "string content",
        "list content",
        "system in the middle",
        "image",
        "parallel calls",
        "two-message step",
        "reused id",
        "aborted call",
        "open call",
        "orphan result",
        "duplicate result",
        "unknown block",
        "unknown field",
        "unknown role",
        "half a surrogate",
        "repeated key",
        "bare array",
        "list result",
        "checkpoint",
        "not an object",
        "no tools",
        "empty text",
        "host note",
    ];
    const CHAT: &[&str] = &[
        "system first",
        "audio",
        "file",
        "refusal",
        "reasoning",
        "null content",
        "legacy call",
        "empty result",
        "cache mark",
        "spoken observation",
        "custom call",
    ];
    const MESSAGES: &[&str] = &[
        "system string",
        "system list",
        "image address",
        "document",
        "text document",
        "thinking",
        "redacted thinking",
        "server tool",
        "empty result",
        "image in result",
        "failed result",
        "result and prompt",
        "cache mark",
        "spoken observation",
    ];
    const RESPONSES: &[&str] = &[
        "instructions",
        "system first",
        "string input",
        "file",
        "reasoning",
        "encrypted reasoning",
        "custom call",
        "web search",
        "mcp call",
        "approval",
        "compaction",
        "item reference",
        "refusal",
    ];
    let own = match api_format {
        ApiFormat::Chat => CHAT,
        ApiFormat::Messages => MESSAGES,
        ApiFormat::Responses => RESPONSES,
    };
    ALL.iter().chain(own).copied()
}

/// Counts quirks, and says which came up less often than wanted.
#[derive(Default)]
pub struct Tally(BTreeMap<(&'static str, &'static str), usize>);

impl Tally {
    pub fn add(&mut self, generated: &Generated) {
        for quirk in &generated.quirks {
            *self.0.entry((generated.dialect.name(), quirk)).or_default() += 1;
        }
    }

    pub fn assert_each_at_least(&self, wanted: usize) {
        for api_format in ApiFormat::ALL {
            for quirk in quirk_classes(api_format) {
                let count = self.0.get(&(api_format.name(), quirk)).copied().unwrap_or(0);
                assert!(count >= wanted, "{api_format}: {quirk} came up {count} times, wanted {wanted}");
            }
        }
    }
}

/// A body, the same for the same seed.
pub fn body(api_format: ApiFormat, seed: u64) -> Generated {
    write(api_format, seed, Length::Short, &BTreeSet::new())
}

/// A body that is worth compacting: more units, some of them long, some with secrets in them.
pub fn long_body(api_format: ApiFormat, seed: u64) -> Generated {
    write(api_format, seed, Length::Long, &BTreeSet::new())
}

/// So many bodies with their names, of one dialect after the other.
pub fn some(count: u64) -> impl Iterator<Item = (String, Generated)> {
    (0..count).map(|seed| (format!("generated {seed}"), body(ApiFormat::ALL[seed as usize % 3], seed)))
}

fn write(api_format: ApiFormat, seed: u64, length: Length, without: &BTreeSet<Part>) -> Generated {
    let mut writer = Writer {
        numbers: Numbers(seed),
        dialect: api_format,
        length,
        items: Vec::new(),
        quirks: Vec::new(),
        secrets: Vec::new(),
        next_id: 0,
        texts: 0,
        parts: Vec::new(),
        without,
        gone: BTreeSet::new(),
    };
    writer.units();
    writer.finish(seed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Short,
    Long,
}

const WORDS: &[&str] = &[
    "fix the port in config.toml",
    "line one\nline two\ttabbed",
    "an emoji 😀 and “quotes”",
    "path C:\\temp\\x",
    "日本語のテキスト",
    "مرحبا بالعالم",
    "say \"hi\" to {\"a\": 1}",
    "exit code 1: error[E0308]: mismatched types",
    "ok",
    "  leading space",
    "never push to main",
    "\u{1}control",
    "a/b/c.rs:17: warning: unused",
    "naïve café",
    "</div>",
];

struct Writer<'w> {
    numbers: Numbers,
    dialect: ApiFormat,
    length: Length,
    items: Vec<Value>,
    quirks: Vec<&'static str>,
    secrets: Vec<String>,
    next_id: usize,
    texts: usize,
    parts: Vec<Part>,
    without: &'w BTreeSet<Part>,
    /// The items of units that are left out.
    gone: BTreeSet<usize>,
}

/// Stands for half a surrogate pair, which no `Value` can hold, until the body is text.
const HALF_PAIR: &str = "@half-pair@";
/// Stands for a second key of the same name.
const SECOND_ROLE: &str = "@second-role@";

impl Writer<'_> {
    /// Whether a part is left out. It has been drawn all the same, or all that follows would be another body's.
    fn leaves_out(&mut self, part: Part) -> bool {
        self.parts.push(part);
        self.without.contains(&part)
    }

    fn quirk(&mut self, name: &'static str) {
        debug_assert!(
            quirk_classes(self.dialect).any(|class| class == name),
            "{name} is not a class of {}",
            self.dialect
        );
        self.quirks.push(name);
    }

    /// Whether this rare thing happens now; if so it is counted.
    fn rarely(&mut self, n: usize, name: &'static str) -> bool {
        let possible = quirk_classes(self.dialect).any(|class| class == name);
        let now = self.numbers.one_in(n) && possible;
        if now {
            self.quirk(name);
        }
        now
    }

    fn words(&mut self) -> String {
        if self.rarely(60, "half a surrogate") {
            return format!("broken {HALF_PAIR} pair");
        }
        if self.rarely(60, "empty text") {
            return String::new();
        }
        // The number keeps texts apart, as real ones are: what is kept can be told from what went.
        self.texts += 1;
        let count = 1 + self.numbers.below(3);
        let words: Vec<&str> = (0..count).map(|_| *self.numbers.pick(WORDS)).collect();
        let mut words = format!("{} ({})", words.join(" "), self.texts);
        if self.length == Length::Long {
            words += &self.more_words();
        }
        if self.leaves_out(Part::Text(self.texts)) { format!("({})", self.texts) } else { words }
    }

    /// What makes a text long, and now and then a secret.
    fn more_words(&mut self) -> String {
        let mut more = String::new();
        if self.numbers.one_in(3) {
            for line in 0..5 + self.numbers.below(20) {
                let (word, value) = (*self.numbers.pick(WORDS), self.numbers.below(100_000));
                let _ = write!(more, "\n{line}: part_{value}.rs says {}", word.trim());
            }
        }
        if self.numbers.one_in(12) {
            const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
            let secret: String = (0..36).map(|_| *self.numbers.pick(LETTERS) as char).collect();
            let _ = write!(more, "\nGITHUB_TOKEN=ghp_{secret}");
            self.secrets.push(secret);
        }
        more
    }

    fn id(&mut self) -> String {
        if self.next_id > 0 && self.rarely(12, "reused id") {
            return format!("call_{}", self.numbers.below(self.next_id));
        }
        self.next_id += 1;
        format!("call_{}", self.next_id - 1)
    }

    fn text_block(&mut self, role: &str) -> Value {
        let text = self.words();
        let kind = match (self.dialect, role) {
            (ApiFormat::Responses, "assistant") => "output_text",
            (ApiFormat::Responses, _) => "input_text",
            _ => "text",
        };
        let mut block = json!({"type": kind, "text": text});
        if self.rarely(8, "cache mark") {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        block
    }

    fn content(&mut self, role: &str) -> Value {
        if self.numbers.one_in(2) {
            self.quirk("string content");
            return Value::String(self.words());
        }
        self.quirk("list content");
        let mut blocks = vec![self.text_block(role)];
        if role == "user" {
            blocks.extend(self.media());
        }
        if self.rarely(10, "unknown block") {
            blocks.push(json!({"type": "hologram", "depth": [1, {"x": null}]}));
        }
        if self.numbers.one_in(3) {
            blocks.push(self.text_block(role));
        }
        Value::Array(blocks)
    }

    fn media(&mut self) -> Option<Value> {
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
        let url = format!("data:image/png;base64,{png}");
        let (name, block) = match (self.dialect, self.numbers.below(8)) {
            (ApiFormat::Chat, 0) => ("image", json!({"type": "image_url", "image_url": {"url": url}})),
            (ApiFormat::Chat, 1) => {
                ("audio", json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}))
            }
            (ApiFormat::Chat, 2) => {
                ("file", json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}}))
            }
            (ApiFormat::Messages, 0) => (
                "image",
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}}),
            ),
            (ApiFormat::Messages, 1) => {
                ("image address", json!({"type": "image", "source": {"type": "url", "url": "https://x.test/1.png"}}))
            }
            (ApiFormat::Messages, 2) => (
                "document",
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}}),
            ),
            (ApiFormat::Messages, 3) => (
                "text document",
                json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a text"}}),
            ),
            (ApiFormat::Responses, 0) => ("image", json!({"type": "input_image", "image_url": url})),
            (ApiFormat::Responses, 1) => {
                ("file", json!({"type": "input_file", "file_data": "data:application/pdf;base64,JVBE"}))
            }
            _ => return None,
        };
        self.quirk(name);
        Some(block)
    }

    fn message(&mut self, role: &str, content: Value) -> Value {
        let mut message = json!({"role": role, "content": content});
        if self.dialect == ApiFormat::Responses && self.numbers.one_in(2) {
            message["type"] = json!("message");
        }
        if self.rarely(12, "unknown field") {
            message["x_vendor"] = json!({"messages": [{"role": "user"}], "n": 1.5e3});
        }
        if self.rarely(40, "repeated key") {
            message[SECOND_ROLE] = json!(role);
        }
        message
    }

    fn units(&mut self) {
        if self.rarely(3, "system first") {
            let content = self.content("system");
            self.items.push(json!({"role": "system", "content": content}));
        }
        let count = match self.length {
            Length::Short => 1 + self.numbers.below(7),
            Length::Long => 6 + self.numbers.below(14),
        };
        for turn in 0..=count {
            let before = self.items.len();
            if turn < count {
                match self.numbers.below(10) {
                    0..3 => self.prompt(),
                    3..8 => self.step(),
                    _ => self.oddity(),
                }
            } else if self.rarely(4, "open call") {
                self.reply(&[]);
                let id = format!("open_{}", self.next_id);
                self.calls(&[(id, false)]);
            }
            if self.leaves_out(Part::Unit(turn)) {
                self.gone.extend(before..self.items.len());
            }
        }
    }

    fn prompt(&mut self) {
        let content = if self.rarely(15, "host note") {
            json!(format!("<system-reminder>{}</system-reminder>", self.words()))
        } else {
            self.content("user")
        };
        let message = self.message("user", content);
        self.items.push(message);
    }

    fn step(&mut self) {
        if self.rarely(8, "spoken observation") {
            let reply = format!("{}\n<read_file>\n<path>a</path>\n</read_file>", self.words());
            let message = self.message("assistant", json!(reply));
            self.items.push(message);
            let output = format!("[read_file for 'a'] Result:\n{}", self.words());
            let message = self.message("user", json!(output));
            return self.items.push(message);
        }
        let two_messages = self.rarely(8, "two-message step");
        if two_messages {
            let content = self.content("assistant");
            let message = self.message("assistant", content);
            self.items.push(message);
        }
        let count = if self.rarely(4, "parallel calls") { 2 + self.numbers.below(2) } else { self.numbers.below(2) };
        let calls: Vec<(String, bool)> = (0..count).map(|_| (self.id(), self.numbers.one_in(6))).collect();
        self.reply(&calls);
        self.calls(&calls);
        self.results(&calls);
    }

    /// What a reply says and thinks. In chat and messages bodies the calls are added to the same message.
    fn reply(&mut self, calls: &[(String, bool)]) {
        match self.dialect {
            ApiFormat::Chat => {
                let mut message = if !calls.is_empty() && self.rarely(3, "null content") {
                    self.message("assistant", Value::Null)
                } else {
                    let content = self.content("assistant");
                    self.message("assistant", content)
                };
                if self.rarely(6, "reasoning") {
                    message["reasoning_content"] = json!(self.words());
                }
                if self.rarely(12, "refusal") {
                    message["refusal"] = json!("I would rather not");
                }
                self.items.push(message);
            }
            ApiFormat::Messages => {
                let mut blocks = Vec::new();
                if self.rarely(5, "thinking") {
                    blocks.push(json!({"type": "thinking", "thinking": self.words(), "signature": "c2ln"}));
                }
                if self.rarely(12, "redacted thinking") {
                    blocks.push(json!({"type": "redacted_thinking", "data": "b3BhcXVl"}));
                }
                if self.rarely(10, "server tool") {
                    blocks.push(json!({"type": "server_tool_use", "id": format!("srv_{}", self.items.len()), "name": "web_search", "input": {"q": "x"}}));
                    blocks.push(json!({"type": "web_search_tool_result", "tool_use_id": format!("srv_{}", self.items.len()), "content": [{"type": "web_search_result", "url": "u"}]}));
                }
                blocks.push(self.text_block("assistant"));
                let message = self.message("assistant", Value::Array(blocks));
                self.items.push(message);
            }
            ApiFormat::Responses => self.response_items(),
        }
    }

    fn response_items(&mut self) {
        if self.rarely(5, "reasoning") {
            let mut item = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": self.words()}]});
            if self.rarely(2, "encrypted reasoning") {
                item["id"] = json!(format!("rs_{}", self.items.len()));
                item["encrypted_content"] = json!("gAAAA");
            }
            self.items.push(item);
        }
        if self.rarely(10, "web search") {
            self.items.push(json!({"type": "web_search_call", "id": format!("ws_{}", self.items.len()), "status": "completed", "action": {"type": "search", "query": "x"}}));
        }
        if self.rarely(12, "mcp call") {
            self.items.push(json!({"type": "mcp_call", "id": format!("mcp_{}", self.items.len()), "name": "n", "server_label": "s", "arguments": "{}", "output": "done"}));
        }
        let content = if self.rarely(12, "refusal") {
            json!([{"type": "refusal", "refusal": "I would rather not"}])
        } else {
            self.content("assistant")
        };
        let message = self.message("assistant", content);
        self.items.push(message);
    }

    fn calls(&mut self, calls: &[(String, bool)]) {
        for (id, _) in calls {
            let arguments = json!({"path": self.words().replace(HALF_PAIR, ""), "n": 7}).to_string();
            let custom = self.dialect != ApiFormat::Messages && self.rarely(6, "custom call");
            match self.dialect {
                ApiFormat::Chat => {
                    let last = self.items.len() - 1;
                    if calls.len() == 1 && self.rarely(12, "legacy call") {
                        self.items[last]["function_call"] = json!({"name": id, "arguments": arguments});
                        continue;
                    }
                    let call = if custom {
                        json!({"id": id, "type": "custom", "custom": {"name": "patch", "input": "*** a patch"}})
                    } else {
                        json!({"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}})
                    };
                    match self.items[last]["tool_calls"].as_array_mut() {
                        Some(list) => list.push(call),
                        None => self.items[last]["tool_calls"] = json!([call]),
                    }
                }
                ApiFormat::Messages => {
                    let input: Value = serde_json::from_str(&arguments).unwrap();
                    let call = json!({"type": "tool_use", "id": id, "name": "read", "input": input});
                    if let Some(list) = self.items.last_mut().and_then(|m| m["content"].as_array_mut()) {
                        list.push(call);
                    }
                }
                ApiFormat::Responses if custom => {
                    self.items.push(
                        json!({"type": "custom_tool_call", "call_id": id, "name": "patch", "input": "*** a patch"}),
                    );
                }
                ApiFormat::Responses => {
                    self.items
                        .push(json!({"type": "function_call", "call_id": id, "name": "read", "arguments": arguments}));
                }
            }
        }
    }

    fn results(&mut self, calls: &[(String, bool)]) {
        let mut blocks = Vec::new();
        for (id, aborted) in calls {
            if *aborted {
                self.quirk("aborted call");
                continue;
            }
            let copies = if self.rarely(15, "duplicate result") { 2 } else { 1 };
            for _ in 0..copies {
                let result = self.result(id);
                match self.dialect {
                    ApiFormat::Messages => blocks.push(result),
                    ApiFormat::Chat | ApiFormat::Responses => self.items.push(result),
                }
            }
        }
        if blocks.is_empty() {
            return;
        }
        if self.rarely(5, "result and prompt") {
            blocks.push(self.text_block("user"));
        }
        let message = self.message("user", Value::Array(blocks));
        self.items.push(message);
    }

    fn result(&mut self, id: &str) -> Value {
        let mut output = Value::String(self.words());
        if self.rarely(12, "empty result") {
            output = json!("");
        } else if self.rarely(4, "list result") {
            let mut parts = vec![self.text_block("user")];
            if self.rarely(3, "image in result") {
                parts.push(json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}));
            }
            output = Value::Array(parts);
        }
        match self.dialect {
            ApiFormat::Chat => json!({"role": "tool", "tool_call_id": id, "content": output}),
            ApiFormat::Messages => {
                let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": output});
                if self.rarely(6, "failed result") {
                    block["is_error"] = json!(true);
                }
                block
            }
            ApiFormat::Responses => json!({"type": "function_call_output", "call_id": id, "output": output}),
        }
    }

    /// Something that stands alone.
    fn oddity(&mut self) {
        let item = match self.numbers.below(9) {
            0 if self.rarely(1, "orphan result") => {
                let result = self.result("nobody");
                if self.dialect == ApiFormat::Messages { json!({"role": "user", "content": [result]}) } else { result }
            }
            1 if self.rarely(1, "unknown role") => json!({"role": "exit", "content": "done"}),
            2 if self.rarely(1, "not an object") => json!(["stray", 1]),
            3 if self.rarely(1, "system in the middle") => {
                if self.items.is_empty() {
                    self.prompt();
                }
                let content = self.content("system");
                json!({"role": "system", "content": content})
            }
            4 if !self.quirks.contains(&"checkpoint") && self.rarely(1, "checkpoint") => {
                json!({"role": "user", "content": "[Longhaul checkpoint: for reference.]\n\n## Active Task\nNone.\n\n[End of the checkpoint.]"})
            }
            5 if self.rarely(1, "compaction") => json!({"type": "compaction", "encrypted_content": "gAAA"}),
            6 if self.rarely(1, "item reference") => {
                json!({"type": "item_reference", "id": format!("msg_{}", self.items.len())})
            }
            7 if self.rarely(1, "approval") => {
                self.items.push(
                    json!({"type": "mcp_approval_request", "id": format!("apr_{}", self.items.len()), "name": "n", "arguments": "{}"}),
                );
                json!({"type": "mcp_approval_response", "approval_request_id": format!("apr_{}", self.items.len() - 1), "approve": true})
            }
            _ => return self.prompt(),
        };
        self.items.push(item);
    }

    fn finish(mut self, seed: u64) -> Generated {
        let items = std::mem::take(&mut self.items).into_iter().enumerate();
        let items = items.filter(|(at, _)| !self.gone.contains(at)).map(|(_, item)| item).collect();
        let value = if self.rarely(12, "bare array") { Value::Array(items) } else { self.envelope(items) };
        let body = match self.numbers.below(3) {
            0 => serde_json::to_string_pretty(&value).unwrap(),
            1 => serde_json::to_string_pretty(&value).unwrap().replace('\n', "\r\n"),
            _ => serde_json::to_string(&value).unwrap(),
        };
        let body = body.replace(HALF_PAIR, "\\ud83d").replace(SECOND_ROLE, "role");
        self.quirks.sort_unstable();
        self.quirks.dedup();
        let Self { dialect, length, quirks, secrets, parts, .. } = self;
        Generated { dialect, seed, length, body, quirks, secrets, parts }
    }

    fn envelope(&mut self, items: Vec<Value>) -> Value {
        let mut root = json!({"model": "some-model"});
        if self.rarely(3, "no tools") {
            root["temperature"] = json!(0.5);
        } else {
            let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
            root["tools"] = match self.dialect {
                ApiFormat::Chat => {
                    json!([{"type": "function", "function": {"name": "read", "parameters": schema}}])
                }
                ApiFormat::Messages => json!([{"name": "read", "input_schema": schema}]),
                ApiFormat::Responses => json!([{"type": "function", "name": "read", "parameters": schema}]),
            };
        }
        match self.dialect {
            ApiFormat::Chat => root["messages"] = Value::Array(items),
            ApiFormat::Messages => {
                if self.rarely(3, "system string") {
                    root["system"] = json!("You are careful.");
                } else if self.rarely(3, "system list") {
                    root["system"] =
                        json!([{"type": "text", "text": "You are careful.", "cache_control": {"type": "ephemeral"}}]);
                }
                root["messages"] = Value::Array(items);
            }
            ApiFormat::Responses => {
                if self.rarely(3, "instructions") {
                    root["instructions"] = json!("You are careful.");
                }
                root["input"] = if self.rarely(12, "string input") { json!("just do it") } else { Value::Array(items) };
            }
        }
        root
    }
}
