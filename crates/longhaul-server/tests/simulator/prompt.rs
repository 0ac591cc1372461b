//! A request as its provider reads it: tools, then system, then messages, in blocks.

use longhaul_engine::ApiFormat;
use serde_json::Value;

use super::content::{Content, print, print_text, then};
use super::tokens::Meter;

/// What the frame of a message costs.
const FRAME: u64 = 4;

/// All of a prompt.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    pub(super) blocks: Vec<Block>,
    /// What is no part of the prompt and voids the kept messages all the same.
    pub(super) settings: u64,
}

/// One block of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) part: Part,
    /// All that was said before this block, and with it.
    pub(super) before: u64,
    pub(super) prefix: u64,
    /// The tokens of the prompt up to the end of this block.
    pub(super) end: u64,
    pub(super) mark: Option<Lifetime>,
    /// The message and the block in it, for blocks of messages.
    pub(super) place: (usize, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Tools,
    System,
    Messages,
}

/// How long a mark asks to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    FiveMinutes,
    OneHour,
}

impl Prompt {
    /// Reads a request. Whatever is not as it should be is left to the rules.
    pub(super) fn of(api_format: ApiFormat, request: &Value, meter: &mut Meter) -> Self {
        let mut reader = Reader { prompt: Self::default(), meter, frame: 0 };
        for (t, tool) in list(&request["tools"]) {
            reader.block(Part::Tools, 0, Content::Object(tool), (0, t));
        }
        match api_format {
            ApiFormat::Messages => reader.messages(request),
            ApiFormat::Chat => reader.chat(request),
            ApiFormat::Responses => reader.responses(request),
        }
        reader.prompt
    }

    pub(super) fn tokens(&self) -> u64 {
        self.blocks.last().map_or(0, |block| block.end)
    }

    /// All that is said.
    pub(super) fn prefix(&self) -> u64 {
        self.blocks.last().map_or(0, |block| block.prefix)
    }
}

/// The elements of an array, numbered; nothing of any other value.
pub(super) fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate()
}

/// The mark on a block, or on the last block inside it that has one.
fn mark(block: &Value) -> Option<Lifetime> {
    let inside = list(&block["content"]).filter_map(|(_, inner)| mark(inner)).last();
    lifetime(&block["cache_control"]).or(inside)
}

fn lifetime(control: &Value) -> Option<Lifetime> {
    match control {
        Value::Null => None,
        control if control["ttl"] == "1h" => Some(Lifetime::OneHour),
        _ => Some(Lifetime::FiveMinutes),
    }
}

struct Reader<'m> {
    prompt: Prompt,
    meter: &'m mut Meter,
    /// What the next block costs beside what it says.
    frame: u64,
}

impl Reader<'_> {
    fn block(&mut self, part: Part, said_by: u64, content: Content<'_>, place: (usize, usize)) {
        let says = content.print();
        let before = self.prompt.prefix();
        let tokens = self.meter.block(says, content) + std::mem::take(&mut self.frame);
        self.prompt.blocks.push(Block {
            part,
            before,
            prefix: then(before, then(said_by, says)),
            end: self.prompt.tokens() + tokens,
            mark: match content {
                Content::Text(_) => None,
                Content::Object(block) => mark(block),
            },
            place,
        });
    }

    /// Text or a list of blocks.
    fn content(&mut self, part: Part, said_by: u64, content: &Value, message: usize) {
        if let Some(text) = content.as_str() {
            self.block(part, said_by, Content::Text(text), (message, 0));
        }
        for (b, block) in list(content) {
            self.block(part, said_by, Content::Object(block), (message, b));
        }
    }

    /// A mark that stands beside the blocks goes to the last of them.
    fn mark_last(&mut self, control: &Value) {
        if let (Some(lifetime), Some(last)) = (lifetime(control), self.prompt.blocks.last_mut()) {
            last.mark = Some(lifetime);
        }
    }

    fn messages(&mut self, request: &Value) {
        self.prompt.settings = then(print(&request["tool_choice"]), print(&request["thinking"]));
        self.content(Part::System, 0, &request["system"], 0);
        for (m, message) in list(&request["messages"]) {
            self.frame = FRAME;
            self.content(Part::Messages, print(&message["role"]), &message["content"], m);
        }
        self.mark_last(&request["cache_control"]);
    }

    fn chat(&mut self, request: &Value) {
        const HEAD: [&str; 3] = ["role", "name", "tool_call_id"];
        const REST: [&str; 3] = ["content", "tool_calls", "cache_control"];
        for (m, message) in list(&request["messages"]) {
            self.frame = FRAME;
            let by = HEAD.iter().fold(0, |by, field| then(by, print(&message[field])));
            for (name, field) in message.as_object().into_iter().flatten() {
                if !HEAD.contains(&name.as_str()) && !REST.contains(&name.as_str()) && !field.is_null() {
                    self.block(Part::Messages, then(by, print_text(name)), Content::Object(field), (m, 0));
                }
            }
            self.content(Part::Messages, by, &message["content"], m);
            for (_, call) in list(&message["tool_calls"]) {
                self.block(Part::Messages, by, Content::Object(call), (m, 0));
            }
            self.mark_last(&message["cache_control"]);
        }
    }

    fn responses(&mut self, request: &Value) {
        self.content(Part::System, 0, &request["instructions"], 0);
        if request["input"].is_string() {
            self.frame = FRAME;
            self.content(Part::Messages, print(&Value::from("user")), &request["input"], 0);
        }
        for (i, item) in list(&request["input"]) {
            self.frame = FRAME;
            match item.get("role") {
                Some(role) => self.content(Part::Messages, print(role), &item["content"], i),
                None => self.block(Part::Messages, 0, Content::Object(item), (i, 0)),
            }
        }
    }
}
