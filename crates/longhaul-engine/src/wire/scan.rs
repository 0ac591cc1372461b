//! Scans the known fields of a body before its API format is known.
//!
//! All three API formats are objects in lists in objects, so one scan serves them all. It stores a few words
//! for each known field and nothing for other fields, so a parse needs little memory compared to the body.

use std::borrow::Cow;

use crate::json::{JsonError, Scanner, Span, ValueKind, unescape};
use crate::transcript::{ArrayId, ElementId, JsonArrays};

/// Declares the known keys, and how the value of each is scanned.
macro_rules! keys {
    ($($name:ident = $text:literal $look:ident,)*) => {
        /// A field that has a meaning in at least one API format.
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

/// How the value of a field is scanned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Only its span is stored.
    At,
    /// Lists and objects inside it are scanned too.
    Into,
    /// Like `Into`, but only at the top level of the body; the name means something else further down.
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

/// The depth from which values are not scanned further. No API format nests content deeper than a block in a
/// result in a message.
const MAX_DEPTH: u32 = 6;

/// A known field of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScannedField {
    pub(super) key: Key,
    pub(super) kind: ValueKind,
    pub(super) at: Span,
    /// The index of the scanned object or array that is the value, if it was scanned.
    contents: Option<u32>,
}

/// A scanned object. `first` and `count` give its fields in the shared list.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScannedObject {
    pub(super) at: Span,
    first: u32,
    count: u32,
}

/// An element of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScannedElement {
    pub(super) id: ElementId,
    pub(super) at: Span,
    pub(super) kind: ValueKind,
    /// The scanned object, if the element is an object.
    pub(super) object: Option<ScannedObject>,
}

/// A scanned body.
pub(super) struct ScannedBody<'b> {
    pub(super) body: &'b str,
    pub(super) root: ScannedElement,
    pub(super) arrays: JsonArrays,
    /// The kind of each array element, and the index of its object if it is one; parallel to the spans in
    /// `arrays`.
    elements: Vec<(ValueKind, Option<u32>)>,
    objects: Vec<ScannedObject>,
    fields: Vec<ScannedField>,
    /// The fields of objects that are still being scanned.
    unfinished_fields: Vec<ScannedField>,
    /// The elements of arrays that are still being scanned.
    unfinished_elements: Vec<(Span, ValueKind, Option<u32>)>,
    pub(super) repeated_keys: Vec<Span>,
    pub(super) damaged: Vec<Span>,
    pub(super) has_byte_order_mark: bool,
}

impl<'b> ScannedBody<'b> {
    pub(super) fn scan(body: &'b str) -> Result<Self, JsonError> {
        let nowhere = Span::new(0, 0);
        let root = ScannedElement {
            id: ElementId { array: ArrayId::MAX, index: 0 },
            at: nowhere,
            kind: ValueKind::Scalar,
            object: None,
        };
        let mut raw = Self {
            body,
            root,
            arrays: JsonArrays::default(),
            elements: Vec::new(),
            objects: Vec::new(),
            fields: Vec::new(),
            unfinished_fields: Vec::new(),
            unfinished_elements: Vec::new(),
            repeated_keys: Vec::new(),
            damaged: Vec::new(),
            has_byte_order_mark: false,
        };
        if u32::try_from(body.len()).is_err() {
            return Err(JsonError { offset: 0, line: 1, column: 1, expected: "a body of less than 4 GiB" });
        }
        let mut scanner = Scanner::new(body);
        raw.has_byte_order_mark = scanner.skip_byte_order_mark();
        match scanner.peek() {
            b'{' => {
                let item = raw.scan_object(&mut scanner, 0)?;
                raw.root.object = Some(raw.objects[item as usize]);
                (raw.root.at, raw.root.kind) = (raw.objects[item as usize].at, ValueKind::Object);
            }
            b'[' => {
                let array = raw.scan_array(&mut scanner, 1)?;
                (raw.root.at, raw.root.kind) = (raw.arrays.array(array).at, ValueKind::Array);
            }
            _ => (raw.root.at, raw.root.kind) = scanner.skip_value()?,
        }
        scanner.expect_end()?;
        Ok(raw)
    }

    fn scan_object(&mut self, scanner: &mut Scanner<'b>, depth: u32) -> Result<u32, JsonError> {
        let base = self.unfinished_fields.len();
        let at = scanner.for_each_member(|scanner, key, key_kind| {
            let text = &self.body[key.range()];
            let known_key = if key_kind == ValueKind::PlainString { Key::of(text) } else { Key::of(&unescape(text)) };
            let Some(key) = known_key else {
                let (at, kind) = scanner.skip_value()?;
                self.note_damage(at, kind);
                return Ok(());
            };
            let field = self.scan_field(scanner, key, depth)?;
            match self.unfinished_fields[base..].iter_mut().find(|f| f.key == key) {
                Some(earlier) => {
                    *earlier = field;
                    self.repeated_keys.push(field.at);
                }
                None => self.unfinished_fields.push(field),
            }
            Ok(())
        })?;
        let first = self.fields.len() as u32;
        self.fields.extend(self.unfinished_fields.drain(base..));
        self.objects.push(ScannedObject { at, first, count: self.fields.len() as u32 - first });
        Ok(self.objects.len() as u32 - 1)
    }

    fn scan_field(&mut self, scanner: &mut Scanner<'b>, key: Key, depth: u32) -> Result<ScannedField, JsonError> {
        let look = match key.look() {
            Look::At => false,
            Look::Into => depth < MAX_DEPTH,
            Look::IntoAtTop => depth == 0,
        };
        match scanner.peek() {
            b'{' if look => {
                let item = self.scan_object(scanner, depth + 1)?;
                Ok(ScannedField {
                    key,
                    kind: ValueKind::Object,
                    at: self.objects[item as usize].at,
                    contents: Some(item),
                })
            }
            b'[' if look => {
                let array = self.scan_array(scanner, depth + 1)?;
                Ok(ScannedField { key, kind: ValueKind::Array, at: self.arrays.array(array).at, contents: Some(array) })
            }
            _ => {
                let (at, kind) = scanner.skip_value()?;
                self.note_damage(at, kind);
                Ok(ScannedField { key, kind, at, contents: None })
            }
        }
    }

    fn scan_array(&mut self, scanner: &mut Scanner<'b>, depth: u32) -> Result<ArrayId, JsonError> {
        let id = self.arrays.open();
        let base = self.unfinished_elements.len();
        let at = scanner.for_each_element(|scanner| {
            if scanner.peek() == b'{' && depth < MAX_DEPTH {
                let inner = self.arrays.count();
                let item = self.scan_object(scanner, depth + 1)?;
                let index = (self.unfinished_elements.len() - base) as u32;
                self.arrays.set_owner_since(inner, ElementId { array: id, index });
                self.unfinished_elements.push((self.objects[item as usize].at, ValueKind::Object, Some(item)));
            } else {
                let (at, kind) = scanner.skip_value()?;
                self.note_damage(at, kind);
                self.unfinished_elements.push((at, kind, None));
            }
            Ok(())
        })?;
        self.elements.extend(self.unfinished_elements[base..].iter().map(|(_, kind, item)| (*kind, *item)));
        self.arrays.close(id, at, self.unfinished_elements.drain(base..).map(|(span, ..)| span));
        Ok(id)
    }

    fn note_damage(&mut self, at: Span, kind: ValueKind) {
        if kind == ValueKind::UnpairedSurrogate {
            self.damaged.push(at);
        }
    }

    pub(super) fn field_of(&self, item: ScannedObject, key: Key) -> Option<ScannedField> {
        let fields = &self.fields[item.first as usize..(item.first + item.count) as usize];
        fields.iter().find(|f| f.key == key).copied()
    }

    /// Returns the unescaped value of a string field.
    pub(super) fn string(&self, item: ScannedObject, key: Key) -> Option<Cow<'b, str>> {
        let field = self.field_of(item, key).filter(|f| f.kind.is_string())?;
        Some(unescape(&self.body[field.at.unquoted().range()]))
    }

    /// Returns whether a field exists with a value that is neither `null` nor empty.
    pub(super) fn has_value(&self, item: ScannedObject, key: Key) -> bool {
        self.field_of(item, key).is_some_and(|f| !matches!(&self.body[f.at.range()], "null" | "\"\"" | "[]" | "{}"))
    }

    /// Returns the object in a field.
    pub(super) fn object(&self, item: ScannedObject, key: Key) -> Option<ScannedObject> {
        let field = self.field_of(item, key).filter(|f| f.kind == ValueKind::Object)?;
        Some(self.objects[field.contents? as usize])
    }

    /// Returns the array in a field.
    pub(super) fn list(&self, item: ScannedObject, key: Key) -> Option<ArrayId> {
        self.field_of(item, key).filter(|f| f.kind == ValueKind::Array)?.contents
    }

    pub(super) fn elements(&self, array: ArrayId) -> impl Iterator<Item = ScannedElement> + use<'_, 'b> {
        let spans = self.arrays.elements(array);
        let kinds = &self.elements[self.arrays.array(array).range()];
        spans.iter().zip(kinds).enumerate().map(move |(index, (&at, &(kind, item)))| {
            let item = item.map(|i| self.objects[i as usize]);
            ScannedElement { id: ElementId { array, index: index as u32 }, at, kind, object: item }
        })
    }
}
