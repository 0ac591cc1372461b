//! Reads what the three API formats have in common. The type of a content block has the same meaning in all
//! of them.

use super::assemble::{Assembler, ToolResult};
use super::scan::{Key, ScannedBody, ScannedElement, ScannedField, ScannedObject};
use super::{ParseNoteKind, detect};
use crate::json::{Span, ValueKind};
use crate::transcript::{ArrayId, Block, BlockKind, JsonSlot, Seal, TextEncoding, TextSpan};

/// Reads a scanned body and passes its blocks to the assembler. Each API format drives it with its own rules.
pub(super) struct BodyReader<'r, 'b> {
    pub(super) raw: &'r ScannedBody<'b>,
    pub(super) assembler: Assembler<'b>,
    pub(super) preamble: Vec<Block<'b>>,
    /// Whether anything other than the system prompt was read. System messages after that are prompts of the
    /// host.
    pub(super) has_conversation_begun: bool,
    /// The arrays that are the content of a message.
    pub(super) content_arrays: Vec<ArrayId>,
}

impl<'r, 'b> BodyReader<'r, 'b> {
    pub(super) fn new(raw: &'r ScannedBody<'b>) -> Self {
        Self {
            raw,
            assembler: Assembler::new(detect::call_channel(raw)),
            preamble: Vec::new(),
            has_conversation_begun: false,
            content_arrays: Vec::new(),
        }
    }

    pub(super) fn new_block(&self, kind: BlockKind, place: JsonSlot, at: Span, text: Option<TextSpan>) -> Block<'b> {
        Block { kind, slot: place, at, text, body: self.raw.body }
    }

    /// Returns the text of a field that contains a string.
    pub(super) fn text_field(&self, item: ScannedObject, key: Key) -> Option<TextSpan> {
        self.raw.field_of(item, key).and_then(field_text)
    }

    /// Returns a field as a separate block, if it has a value.
    pub(super) fn field_block(&self, item: ScannedObject, key: Key, kind: BlockKind) -> Option<Block<'b>> {
        let field = self.raw.field_of(item, key).filter(|_| self.raw.has_value(item, key))?;
        let place = JsonSlot::Field { object: item.at, key: key.text() };
        Some(self.new_block(kind, place, field.at, field_text(field)))
    }

    /// Returns a block that covers a whole element.
    pub(super) fn whole_element_block(&self, element: ScannedElement, kind: BlockKind) -> Block<'b> {
        self.new_block(kind, JsonSlot::Element(element.id), element.at, None)
    }

    /// Reads the tool definitions into the preamble.
    pub(super) fn read_tools(&mut self, root: ScannedObject, key: Key) {
        let Some(id) = self.raw.list(root, key) else { return };
        for element in self.raw.elements(id) {
            let block = self.whole_element_block(element, BlockKind::Tool);
            self.preamble.push(block);
        }
    }

    /// Calls `each` for every part of a content field: once for a string, or once for each element of a list.
    pub(super) fn for_each_part(
        &mut self,
        item: ScannedObject,
        key: Key,
        mut each: impl FnMut(&mut Self, ContentPart<'b>),
    ) {
        let Some(field) = self.raw.field_of(item, key) else { return };
        if let Some(text) = field_text(field) {
            let place = JsonSlot::Field { object: item.at, key: key.text() };
            let block = self.new_block(BlockKind::Text, place, field.at, Some(text));
            return each(self, ContentPart::Block(block));
        }
        let Some(list) = self.raw.list(item, key) else { return };
        for element in self.raw.elements(list) {
            let content = self.read_part(element);
            each(self, content);
        }
    }

    /// Calls `each` for every part of a message's content, and records the content array: the message is
    /// removed with its last block.
    pub(super) fn for_each_message_part(&mut self, item: ScannedObject, each: impl FnMut(&mut Self, ContentPart<'b>)) {
        self.content_arrays.extend(self.raw.list(item, Key::Content));
        self.for_each_part(item, Key::Content, each);
    }

    fn read_part(&mut self, element: ScannedElement) -> ContentPart<'b> {
        let Some(item) = element.object else {
            let text = element_text(element);
            let kind = if text.is_some() { BlockKind::Text } else { BlockKind::Unknown };
            return ContentPart::Block(self.new_block(kind, JsonSlot::Element(element.id), element.at, text));
        };
        let name = self.raw.string(item, Key::Type).unwrap_or_default();
        let (kind, text) = match &*name {
            "tool_use" => return ContentPart::Call(element, item),
            "tool_result" => return ContentPart::Result(element, item),
            "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" => {
                (BlockKind::Text, self.text_field(item, Key::Text))
            }
            "" if self.raw.field_of(item, Key::Text).is_some() => (BlockKind::Text, self.text_field(item, Key::Text)),
            "refusal" => (BlockKind::Refusal, self.text_field(item, Key::Refusal)),
            "thinking" => (self.reasoning_kind(item), self.text_field(item, Key::Thinking)),
            "redacted_thinking" => (BlockKind::Reasoning(Seal::Sealed), None),
            "image" | "image_url" | "input_image" => (BlockKind::Image(self.media_span(item)), None),
            "document" | "file" | "input_file" => {
                (BlockKind::Document(self.media_span(item)), self.document_text(item))
            }
            "input_audio" | "audio" => (BlockKind::Audio, None),
            name if is_server_tool(name) => (BlockKind::ServerTool, None),
            _ => {
                self.assembler.add_note(element.at, ParseNoteKind::UnknownBlock);
                (BlockKind::Unknown, None)
            }
        };
        ContentPart::Block(self.new_block(kind, JsonSlot::Element(element.id), element.at, text))
    }

    fn reasoning_kind(&self, item: ScannedObject) -> BlockKind {
        let sealed = self.raw.has_value(item, Key::Signature);
        BlockKind::Reasoning(if sealed { Seal::Sealed } else { Seal::Unsealed })
    }

    /// Returns the span of the data or URL of an image or document, in any shape that clients send.
    fn media_span(&self, item: ScannedObject) -> Option<Span> {
        const HOLDERS: [Key; 3] = [Key::Source, Key::ImageUrl, Key::File];
        const FIELDS: [Key; 4] = [Key::Data, Key::Url, Key::FileData, Key::ImageUrl];
        let objects = HOLDERS.iter().filter_map(|key| self.raw.object(item, *key)).chain([item]);
        let spans = objects.flat_map(|o| FIELDS.iter().filter_map(move |key| self.text_field(o, *key)));
        spans.map(|text| text.at).next()
    }

    /// Returns the text of a document that was sent as text. Other documents cannot be read here.
    fn document_text(&self, item: ScannedObject) -> Option<TextSpan> {
        let source = self.raw.object(item, Key::Source)?;
        let is_text = self.raw.string(source, Key::Type).as_deref() == Some("text");
        if is_text { self.text_field(source, Key::Data) } else { None }
    }

    /// Returns the arguments of a call, which are a JSON value or a string that contains JSON.
    pub(super) fn arguments_span(&self, item: ScannedObject, key: Key) -> Option<TextSpan> {
        let field = self.raw.field_of(item, key)?;
        Some(match field_text(field) {
            Some(TextSpan { at, encoding: TextEncoding::String }) => {
                TextSpan { at, encoding: TextEncoding::JsonInString }
            }
            Some(damaged) => damaged,
            None => TextSpan { at: field.at, encoding: TextEncoding::Json },
        })
    }

    /// Reads a tool result: its blocks, and whether it is marked as an error.
    pub(super) fn read_tool_result(
        &mut self,
        element: ScannedElement,
        item: ScannedObject,
        content: Key,
    ) -> ToolResult<'b> {
        let mut blocks = Vec::with_capacity(1);
        self.for_each_part(item, content, |reader, part| match part {
            ContentPart::Block(block) => blocks.push(block),
            ContentPart::Call(element, _) | ContentPart::Result(element, _) => {
                blocks.push(reader.whole_element_block(element, BlockKind::Unknown));
            }
        });
        let failed = self.raw.field_of(item, Key::IsError).and_then(|f| match &self.raw.body[f.at.range()] {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        });
        let (place, element_id) = (JsonSlot::Element(element.id), Some(element.id));
        ToolResult {
            at: element.at,
            slot: place,
            element: element_id,
            tool: self.raw.string(item, Key::Name),
            blocks,
            failed,
        }
    }

    /// Reads a system message: a part of the system prompt if nothing else came before it, otherwise a prompt
    /// of the host.
    pub(super) fn read_system_message(&mut self, element: ScannedElement, item: ScannedObject) {
        self.assembler.begin_message(Some(element.id));
        let begun = self.has_conversation_begun;
        let mut any = false;
        self.for_each_message_part(item, |reader, part| {
            any = true;
            let block = match part {
                ContentPart::Block(block) => block,
                ContentPart::Call(element, _) | ContentPart::Result(element, _) => {
                    reader.whole_element_block(element, BlockKind::Unknown)
                }
            };
            if begun {
                reader.assembler.add_host_block(block);
            } else {
                reader.preamble.push(Block { kind: BlockKind::System, ..block });
            }
        });
        if !any && begun {
            let block = self.whole_element_block(element, BlockKind::Unknown);
            self.assembler.add_host_block(block);
        }
        self.assembler.end_message();
    }

    /// Reads a message that is not understood as an opaque turn.
    pub(super) fn read_opaque(&mut self, element: ScannedElement, kind: ParseNoteKind) {
        self.has_conversation_begun = true;
        self.assembler.begin_message(Some(element.id));
        let block = self.whole_element_block(element, BlockKind::Unknown);
        self.assembler.add_opaque(block, kind);
        self.assembler.end_message();
    }
}

impl<'b> BodyReader<'_, 'b> {
    /// Reads a user message. Tool results in it are added to their calls, the rest is input.
    pub(super) fn read_user_message(&mut self, element: ScannedElement, item: ScannedObject) {
        self.has_conversation_begun = true;
        self.assembler.begin_message(Some(element.id));
        let mut any = false;
        self.for_each_message_part(item, |reader, part| {
            any = true;
            match part {
                ContentPart::Block(block) => reader.assembler.add_user_block(block),
                ContentPart::Call(element, _) => {
                    let block = reader.whole_element_block(element, BlockKind::Unknown);
                    reader.assembler.add_note(element.at, ParseNoteKind::UnknownBlock);
                    reader.assembler.add_user_block(block);
                }
                ContentPart::Result(element, item) => {
                    let answer = reader.read_tool_result(element, item, Key::Content);
                    let id = reader.raw.string(item, Key::ToolUseId);
                    reader.assembler.add_result(id.as_deref(), answer);
                }
            }
        });
        if !any {
            let block = self.whole_element_block(element, BlockKind::Text);
            self.assembler.add_user_block(block);
        }
        self.assembler.end_message();
    }

    /// Reads an assistant message that consists of content only, as in the Messages and Responses formats.
    pub(super) fn read_reply_message(&mut self, element: ScannedElement, item: ScannedObject) {
        self.has_conversation_begun = true;
        self.assembler.begin_message(Some(element.id));
        let mut any = false;
        self.for_each_message_part(item, |reader, part| {
            any = true;
            reader.add_reply_part(part);
        });
        if !any {
            let block = self.whole_element_block(element, BlockKind::Text);
            self.assembler.add_reply(block);
        }
        self.assembler.end_message();
    }

    /// Adds one part of a reply's content.
    pub(super) fn add_reply_part(&mut self, part: ContentPart<'b>) {
        match part {
            ContentPart::Block(block) => self.assembler.add_reply(block),
            ContentPart::Call(element, item) => {
                let text = self.arguments_span(item, Key::Input);
                let block = self.new_block(BlockKind::Call, JsonSlot::Element(element.id), element.at, text);
                let tool = self.raw.string(item, Key::Name).unwrap_or_default();
                let id = self.raw.string(item, Key::Id);
                self.assembler.add_call(id, tool, block);
            }
            ContentPart::Result(element, _) => {
                self.assembler.add_note(element.at, ParseNoteKind::UnknownBlock);
                let block = self.whole_element_block(element, BlockKind::Unknown);
                self.assembler.add_reply(block);
            }
        }
    }

    /// Adds a field of a reply as a block, if it has a value. Returns whether it has one.
    pub(super) fn add_reply_field(&mut self, item: ScannedObject, key: Key, kind: BlockKind) -> bool {
        let Some(block) = self.field_block(item, key, kind) else { return false };
        self.assembler.add_reply(block);
        true
    }
}

/// One part of a content field.
pub(super) enum ContentPart<'b> {
    Block(Block<'b>),
    /// A `tool_use` block.
    Call(ScannedElement, ScannedObject),
    /// A `tool_result` block.
    Result(ScannedElement, ScannedObject),
}

/// Returns whether a block type is a call or a result of a tool that the provider ran: `server_tool_use`,
/// `web_search_tool_result`, …
fn is_server_tool(name: &str) -> bool {
    name.ends_with("_tool_use") || name.ends_with("_tool_result")
}

fn field_text(field: ScannedField) -> Option<TextSpan> {
    text_span(field.kind, field.at)
}

fn element_text(element: ScannedElement) -> Option<TextSpan> {
    text_span(element.kind, element.at)
}

fn text_span(kind: ValueKind, at: Span) -> Option<TextSpan> {
    let form = match kind {
        ValueKind::PlainString | ValueKind::EscapedString => TextEncoding::String,
        ValueKind::UnpairedSurrogate => TextEncoding::Damaged,
        ValueKind::Object | ValueKind::Array | ValueKind::Scalar => return None,
    };
    Some(TextSpan { at: at.unquoted(), encoding: form })
}
