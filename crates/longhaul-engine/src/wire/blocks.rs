//! What the three dialects have in common: a content block's type says what it is, wherever it stands.

use super::assemble::{Answer, Assembler};
use super::raw::{Element, Field, Item, Key, Raw};
use super::{NoteKind, recognise};
use crate::json::{Kind, Span};
use crate::transcript::{ArrayId, Block, BlockKind, Form, Place, Seal, TextSpan};

/// Walks a scanned body for a dialect.
pub(super) struct Reader<'r, 'b> {
    pub(super) raw: &'r Raw<'b>,
    pub(super) assembler: Assembler<'b>,
    pub(super) preamble: Vec<Block<'b>>,
    /// Whether something other than the system prompt was read, after which system messages are the host's remarks.
    pub(super) begun: bool,
    /// The arrays that are the content of a message.
    pub(super) content_lists: Vec<ArrayId>,
}

impl<'r, 'b> Reader<'r, 'b> {
    pub(super) fn new(raw: &'r Raw<'b>) -> Self {
        Self {
            raw,
            assembler: Assembler::new(recognise::channel(raw)),
            preamble: Vec::new(),
            begun: false,
            content_lists: Vec::new(),
        }
    }

    pub(super) fn block(&self, kind: BlockKind, place: Place, at: Span, text: Option<TextSpan>) -> Block<'b> {
        Block { kind, place, at, text, body: self.raw.body }
    }

    /// The text of a field that holds a string.
    pub(super) fn text_of(&self, item: Item, key: Key) -> Option<TextSpan> {
        self.raw.field_of(item, key).and_then(string_span)
    }

    /// A field as a block of its own, if it holds something.
    pub(super) fn field_block(&self, item: Item, key: Key, kind: BlockKind) -> Option<Block<'b>> {
        let field = self.raw.field_of(item, key).filter(|_| self.raw.holds(item, key))?;
        let place = Place::Field { of: item.at, key: key.text() };
        Some(self.block(kind, place, field.at, string_span(field)))
    }

    /// A block that stands for all of an element.
    pub(super) fn whole(&self, element: Element, kind: BlockKind) -> Block<'b> {
        self.block(kind, Place::Element(element.id), element.at, None)
    }

    /// The tool definitions.
    pub(super) fn tools(&mut self, root: Item, key: Key) {
        let Some(id) = self.raw.list(root, key) else { return };
        for element in self.raw.elements(id) {
            let block = self.whole(element, BlockKind::Tool);
            self.preamble.push(block);
        }
    }

    /// Content as blocks: one for a string, one for each element of a list, each given to `each` with its type.
    pub(super) fn content(&mut self, item: Item, key: Key, mut each: impl FnMut(&mut Self, Content<'b>)) {
        let Some(field) = self.raw.field_of(item, key) else { return };
        if let Some(text) = string_span(field) {
            let place = Place::Field { of: item.at, key: key.text() };
            let block = self.block(BlockKind::Text, place, field.at, Some(text));
            return each(self, Content::Block(block));
        }
        let Some(list) = self.raw.list(item, key) else { return };
        for element in self.raw.elements(list) {
            let content = self.element(element);
            each(self, content);
        }
    }

    /// The content of a message; its array goes when its last block goes.
    pub(super) fn message_content(&mut self, item: Item, each: impl FnMut(&mut Self, Content<'b>)) {
        self.content_lists.extend(self.raw.list(item, Key::Content));
        self.content(item, Key::Content, each);
    }

    fn element(&mut self, element: Element) -> Content<'b> {
        let Some(item) = element.item else {
            let text = string_in(element);
            let kind = if text.is_some() { BlockKind::Text } else { BlockKind::Unknown };
            return Content::Block(self.block(kind, Place::Element(element.id), element.at, text));
        };
        let name = self.raw.string(item, Key::Type).unwrap_or_default();
        let (kind, text) = match &*name {
            "tool_use" => return Content::Call(element, item),
            "tool_result" => return Content::Answer(element, item),
            "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" => {
                (BlockKind::Text, self.text_of(item, Key::Text))
            }
            "" if self.raw.field_of(item, Key::Text).is_some() => {
                (BlockKind::Text, self.text_of(item, Key::Text))
            }
            "refusal" => (BlockKind::Refusal, self.text_of(item, Key::Refusal)),
            "thinking" => (self.reasoning_kind(item), self.text_of(item, Key::Thinking)),
            "redacted_thinking" => (BlockKind::Reasoning(Seal::Sealed), None),
            "image" | "image_url" | "input_image" => (BlockKind::Image(self.media(item)), None),
            "document" | "file" | "input_file" => {
                (BlockKind::Document(self.media(item)), self.document_text(item))
            }
            "input_audio" | "audio" => (BlockKind::Audio, None),
            name if is_server_tool(name) => (BlockKind::ServerTool, None),
            _ => {
                self.assembler.note(element.at, NoteKind::UnknownBlock);
                (BlockKind::Unknown, None)
            }
        };
        Content::Block(self.block(kind, Place::Element(element.id), element.at, text))
    }

    fn reasoning_kind(&self, item: Item) -> BlockKind {
        let sealed = self.raw.holds(item, Key::Signature);
        BlockKind::Reasoning(if sealed { Seal::Sealed } else { Seal::Unsealed })
    }

    /// Where the bytes or the address of a picture or document are, in any of the shapes that clients send.
    fn media(&self, item: Item) -> Option<Span> {
        const HOLDERS: [Key; 3] = [Key::Source, Key::ImageUrl, Key::File];
        const FIELDS: [Key; 4] = [Key::Data, Key::Url, Key::FileData, Key::ImageUrl];
        let objects = HOLDERS.iter().filter_map(|key| self.raw.object(item, *key)).chain([item]);
        let spans = objects.flat_map(|o| FIELDS.iter().filter_map(move |key| self.text_of(o, *key)));
        spans.map(|text| text.at).next()
    }

    /// The text of a document that is sent as text: the only kind whose words can be read here.
    fn document_text(&self, item: Item) -> Option<TextSpan> {
        let source = self.raw.object(item, Key::Source)?;
        let is_text = self.raw.string(source, Key::Type).as_deref() == Some("text");
        if is_text { self.text_of(source, Key::Data) } else { None }
    }

    /// Arguments, which are JSON in the body or JSON in a string.
    pub(super) fn arguments(&self, item: Item, key: Key) -> Option<TextSpan> {
        let field = self.raw.field_of(item, key)?;
        Some(match string_span(field) {
            Some(TextSpan { at, form: Form::String }) => TextSpan { at, form: Form::JsonInString },
            Some(damaged) => damaged,
            None => TextSpan { at: field.at, form: Form::Json },
        })
    }

    /// A result: what it holds, whether it says that it failed.
    pub(super) fn result(&mut self, element: Element, item: Item, content: Key) -> Answer<'b> {
        let mut blocks = Vec::with_capacity(1);
        self.content(item, content, |reader, part| match part {
            Content::Block(block) => blocks.push(block),
            Content::Call(element, _) | Content::Answer(element, _) => {
                blocks.push(reader.whole(element, BlockKind::Unknown));
            }
        });
        let failed = self.raw.field_of(item, Key::IsError).and_then(|f| match &self.raw.body[f.at.range()] {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        });
        let (place, element_id) = (Place::Element(element.id), Some(element.id));
        Answer {
            at: element.at,
            place,
            element: element_id,
            tool: self.raw.string(item, Key::Name),
            blocks,
            failed,
        }
    }

    /// Part of the system prompt if nothing else came before, else a remark of the host.
    pub(super) fn system(&mut self, element: Element, item: Item) {
        self.assembler.begin(Some(element.id));
        let begun = self.begun;
        let mut any = false;
        self.message_content(item, |reader, part| {
            any = true;
            let block = match part {
                Content::Block(block) => block,
                Content::Call(element, _) | Content::Answer(element, _) => {
                    reader.whole(element, BlockKind::Unknown)
                }
            };
            if begun {
                reader.assembler.host(block);
            } else {
                reader.preamble.push(Block { kind: BlockKind::System, ..block });
            }
        });
        if !any && begun {
            let block = self.whole(element, BlockKind::Unknown);
            self.assembler.host(block);
        }
        self.assembler.end();
    }

    /// A message that is all of one unit and not understood.
    pub(super) fn opaque(&mut self, element: Element, kind: NoteKind) {
        self.begun = true;
        self.assembler.begin(Some(element.id));
        let block = self.whole(element, BlockKind::Unknown);
        self.assembler.opaque(block, kind);
        self.assembler.end();
    }
}

impl<'b> Reader<'_, 'b> {
    /// A user's message, in chat and in messages bodies alike: results answer their calls, the rest is said.
    pub(super) fn user_message(&mut self, element: Element, item: Item) {
        self.begun = true;
        self.assembler.begin(Some(element.id));
        let mut any = false;
        self.message_content(item, |reader, part| {
            any = true;
            match part {
                Content::Block(block) => reader.assembler.user(block),
                Content::Call(element, _) => {
                    let block = reader.whole(element, BlockKind::Unknown);
                    reader.assembler.note(element.at, NoteKind::UnknownBlock);
                    reader.assembler.user(block);
                }
                Content::Answer(element, item) => {
                    let answer = reader.result(element, item, Key::Content);
                    let id = reader.raw.string(item, Key::ToolUseId);
                    reader.assembler.answer(id.as_deref(), answer);
                }
            }
        });
        if !any {
            let block = self.whole(element, BlockKind::Text);
            self.assembler.user(block);
        }
        self.assembler.end();
    }

    /// A reply that is all content, as in messages and responses bodies.
    pub(super) fn reply_message(&mut self, element: Element, item: Item) {
        self.begun = true;
        self.assembler.begin(Some(element.id));
        let mut any = false;
        self.message_content(item, |reader, part| {
            any = true;
            reader.reply_part(part);
        });
        if !any {
            let block = self.whole(element, BlockKind::Text);
            self.assembler.reply(block);
        }
        self.assembler.end();
    }

    /// A part of a reply's content.
    pub(super) fn reply_part(&mut self, part: Content<'b>) {
        match part {
            Content::Block(block) => self.assembler.reply(block),
            Content::Call(element, item) => {
                let text = self.arguments(item, Key::Input);
                let block = self.block(BlockKind::Call, Place::Element(element.id), element.at, text);
                let tool = self.raw.string(item, Key::Name).unwrap_or_default();
                let id = self.raw.string(item, Key::Id);
                self.assembler.call(id, tool, block);
            }
            Content::Answer(element, _) => {
                self.assembler.note(element.at, NoteKind::UnknownBlock);
                let block = self.whole(element, BlockKind::Unknown);
                self.assembler.reply(block);
            }
        }
    }

    /// A field of a reply, if it holds something.
    pub(super) fn reply_field(&mut self, item: Item, key: Key, kind: BlockKind) -> bool {
        let Some(block) = self.field_block(item, key, kind) else { return false };
        self.assembler.reply(block);
        true
    }
}

/// A part of some content.
pub(super) enum Content<'b> {
    Block(Block<'b>),
    /// A `tool_use` block.
    Call(Element, Item),
    /// A `tool_result` block.
    Answer(Element, Item),
}

/// Tools that run on the provider's side, and what came of them: `server_tool_use`, `web_search_tool_result`, …
fn is_server_tool(name: &str) -> bool {
    name.ends_with("_tool_use") || name.ends_with("_tool_result")
}

fn string_span(field: Field) -> Option<TextSpan> {
    text_span(field.kind, field.at)
}

fn string_in(element: Element) -> Option<TextSpan> {
    text_span(element.kind, element.at)
}

fn text_span(kind: Kind, at: Span) -> Option<TextSpan> {
    let form = match kind {
        Kind::Plain | Kind::Escaped => Form::String,
        Kind::Damaged => Form::Damaged,
        Kind::Object | Kind::Array | Kind::Scalar => return None,
    };
    Some(TextSpan { at: at.unquoted(), form })
}
