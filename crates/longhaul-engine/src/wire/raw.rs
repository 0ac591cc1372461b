//! The syntax of a body, before anybody knows its dialect: which known fields stand where.
//!
//! All three dialects are objects in lists in objects, so one scan serves them all. It keeps a few words for each known
//! field and nothing for the rest, which makes the memory of a parse a small share of the body.

use std::borrow::Cow;

use crate::json::{Kind, NotJson, Scanner, Span, unescape};
use crate::transcript::{ArrayId, Arrays, ElementId};

/// Declares the known keys, and which of them are looked into.
macro_rules! keys {
    ($($name:ident = $text:literal $look:ident,)*) => {
        /// A field that some dialect gives a meaning to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Key { $($name),* }

        impl Key {
            fn of(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }

            pub(super) fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            fn look(self) -> Look {
                match self { $(Self::$name => Look::$look),* }
            }
        }
    };
}

/// How a field's value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Only where it is.
    At,
    /// Lists and objects in it are read too.
    Into,
    /// The same, but only at the top of the body; deeper down the name means something else.
    IntoAtTop,
}

keys! {
    ApprovalRequestId = "approval_request_id" At,
    Arguments = "arguments" At,
    Audio = "audio" At,
    CallId = "call_id" At,
    Code = "code" At,
    Content = "content" Into,
    Custom = "custom" Into,
    Data = "data" At,
    EncryptedContent = "encrypted_content" At,
    File = "file" Into,
    FileData = "file_data" At,
    Function = "function" Into,
    FunctionCall = "function_call" Into,
    Functions = "functions" Into,
    Id = "id" At,
    ImageUrl = "image_url" Into,
    Input = "input" IntoAtTop,
    InputSchema = "input_schema" At,
    Instructions = "instructions" Into,
    IsError = "is_error" At,
    MaxCompletionTokens = "max_completion_tokens" At,
    MaxOutputTokens = "max_output_tokens" At,
    MaxTokens = "max_tokens" At,
    Messages = "messages" IntoAtTop,
    Model = "model" At,
    Name = "name" At,
    Output = "output" Into,
    Reasoning = "reasoning" At,
    ReasoningContent = "reasoning_content" At,
    ReasoningDetails = "reasoning_details" At,
    Refusal = "refusal" At,
    Role = "role" At,
    Signature = "signature" At,
    Source = "source" Into,
    Status = "status" At,
    Summary = "summary" Into,
    System = "system" Into,
    Text = "text" At,
    Thinking = "thinking" At,
    ToolCallId = "tool_call_id" At,
    ToolCalls = "tool_calls" Into,
    ToolUseId = "tool_use_id" At,
    Tools = "tools" IntoAtTop,
    Type = "type" At,
    Url = "url" At,
}

/// No dialect nests content deeper than a block inside a result inside a message.
const DEEPEST: u32 = 6;

/// A field that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) key: Key,
    pub(super) kind: Kind,
    pub(super) at: Span,
    /// The object or array that was read inside, if one was.
    inside: Option<u32>,
}

/// An object that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) at: Span,
    first: u32,
    count: u32,
}

/// An element of a list: an object that was read, or anything else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element {
    pub(super) id: ElementId,
    pub(super) at: Span,
    pub(super) kind: Kind,
    /// The object, if it is one.
    pub(super) item: Option<Item>,
}

/// A body, scanned.
pub(super) struct Raw<'b> {
    pub(super) body: &'b str,
    pub(super) root: Element,
    pub(super) arrays: Arrays,
    /// The kind of each element of each array, and its object if it is one; in step with the spans of `arrays`.
    elements: Vec<(Kind, Option<u32>)>,
    items: Vec<Item>,
    fields: Vec<Field>,
    /// The fields of the objects, and the elements of the arrays, that are still being read.
    open_fields: Vec<Field>,
    open_elements: Vec<(Span, Kind, Option<u32>)>,
    pub(super) repeated_keys: Vec<Span>,
    pub(super) damaged: Vec<Span>,
    pub(super) byte_order_mark: bool,
}

impl<'b> Raw<'b> {
    pub(super) fn scan(body: &'b str) -> Result<Self, NotJson> {
        let nowhere = Span::new(0, 0);
        let root = Element {
            id: ElementId { array: ArrayId::MAX, index: 0 },
            at: nowhere,
            kind: Kind::Scalar,
            item: None,
        };
        let mut raw = Self {
            body,
            root,
            arrays: Arrays::default(),
            elements: Vec::new(),
            items: Vec::new(),
            fields: Vec::new(),
            open_fields: Vec::new(),
            open_elements: Vec::new(),
            repeated_keys: Vec::new(),
            damaged: Vec::new(),
            byte_order_mark: false,
        };
        if u32::try_from(body.len()).is_err() {
            return Err(NotJson { at: 0, line: 1, column: 1, expected: "a body of less than 4 GiB" });
        }
        let mut scanner = Scanner::new(body);
        raw.byte_order_mark = scanner.skip_byte_order_mark();
        match scanner.peek() {
            b'{' => {
                let item = raw.item(&mut scanner, 0)?;
                raw.root.item = Some(raw.items[item as usize]);
                (raw.root.at, raw.root.kind) = (raw.items[item as usize].at, Kind::Object);
            }
            b'[' => {
                let array = raw.array(&mut scanner, 1)?;
                (raw.root.at, raw.root.kind) = (raw.arrays.array(array).at, Kind::Array);
            }
            _ => (raw.root.at, raw.root.kind) = scanner.value()?,
        }
        scanner.end()?;
        Ok(raw)
    }

    fn item(&mut self, scanner: &mut Scanner<'b>, depth: u32) -> Result<u32, NotJson> {
        let base = self.open_fields.len();
        let at = scanner.members(|scanner, key, key_kind| {
            let text = &self.body[key.range()];
            let known = if key_kind == Kind::Plain { Key::of(text) } else { Key::of(&unescape(text)) };
            let Some(key) = known else {
                let (at, kind) = scanner.value()?;
                self.note_damage(at, kind);
                return Ok(());
            };
            let field = self.field(scanner, key, depth)?;
            match self.open_fields[base..].iter_mut().find(|f| f.key == key) {
                Some(earlier) => {
                    *earlier = field;
                    self.repeated_keys.push(field.at);
                }
                None => self.open_fields.push(field),
            }
            Ok(())
        })?;
        let first = self.fields.len() as u32;
        self.fields.extend(self.open_fields.drain(base..));
        self.items.push(Item { at, first, count: self.fields.len() as u32 - first });
        Ok(self.items.len() as u32 - 1)
    }

    fn field(&mut self, scanner: &mut Scanner<'b>, key: Key, depth: u32) -> Result<Field, NotJson> {
        let look = match key.look() {
            Look::At => false,
            Look::Into => depth < DEEPEST,
            Look::IntoAtTop => depth == 0,
        };
        match scanner.peek() {
            b'{' if look => {
                let item = self.item(scanner, depth + 1)?;
                Ok(Field { key, kind: Kind::Object, at: self.items[item as usize].at, inside: Some(item) })
            }
            b'[' if look => {
                let array = self.array(scanner, depth + 1)?;
                Ok(Field { key, kind: Kind::Array, at: self.arrays.array(array).at, inside: Some(array) })
            }
            _ => {
                let (at, kind) = scanner.value()?;
                self.note_damage(at, kind);
                Ok(Field { key, kind, at, inside: None })
            }
        }
    }

    fn array(&mut self, scanner: &mut Scanner<'b>, depth: u32) -> Result<ArrayId, NotJson> {
        let id = self.arrays.open();
        let base = self.open_elements.len();
        let at = scanner.elements(|scanner| {
            if scanner.peek() == b'{' && depth < DEEPEST {
                let inner = self.arrays.count();
                let item = self.item(scanner, depth + 1)?;
                let index = (self.open_elements.len() - base) as u32;
                self.arrays.own_since(inner, ElementId { array: id, index });
                self.open_elements.push((self.items[item as usize].at, Kind::Object, Some(item)));
            } else {
                let (at, kind) = scanner.value()?;
                self.note_damage(at, kind);
                self.open_elements.push((at, kind, None));
            }
            Ok(())
        })?;
        self.elements.extend(self.open_elements[base..].iter().map(|(_, kind, item)| (*kind, *item)));
        self.arrays.close(id, at, self.open_elements.drain(base..).map(|(span, ..)| span));
        Ok(id)
    }

    fn note_damage(&mut self, at: Span, kind: Kind) {
        if kind == Kind::Damaged {
            self.damaged.push(at);
        }
    }

    pub(super) fn field_of(&self, item: Item, key: Key) -> Option<Field> {
        let fields = &self.fields[item.first as usize..(item.first + item.count) as usize];
        fields.iter().find(|f| f.key == key).copied()
    }

    /// A field that holds a string, unescaped.
    pub(super) fn string(&self, item: Item, key: Key) -> Option<Cow<'b, str>> {
        let field = self.field_of(item, key).filter(|f| f.kind.is_string())?;
        Some(unescape(&self.body[field.at.unquoted().range()]))
    }

    /// Whether a field is there with a value that is neither `null` nor empty.
    pub(super) fn holds(&self, item: Item, key: Key) -> bool {
        self.field_of(item, key)
            .is_some_and(|f| !matches!(&self.body[f.at.range()], "null" | "\"\"" | "[]" | "{}"))
    }

    /// The object in a field.
    pub(super) fn object(&self, item: Item, key: Key) -> Option<Item> {
        let field = self.field_of(item, key).filter(|f| f.kind == Kind::Object)?;
        Some(self.items[field.inside? as usize])
    }

    /// The array in a field.
    pub(super) fn list(&self, item: Item, key: Key) -> Option<ArrayId> {
        self.field_of(item, key).filter(|f| f.kind == Kind::Array)?.inside
    }

    pub(super) fn elements(&self, array: ArrayId) -> impl Iterator<Item = Element> + use<'_, 'b> {
        let spans = self.arrays.elements(array);
        let kinds = &self.elements[self.arrays.array(array).range()];
        spans.iter().zip(kinds).enumerate().map(move |(index, (&at, &(kind, item)))| {
            let item = item.map(|i| self.items[i as usize]);
            Element { id: ElementId { array, index: index as u32 }, at, kind, item }
        })
    }
}
