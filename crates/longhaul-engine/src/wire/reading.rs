//! A body in the order in which a provider reads it: tools, system prompt, messages, each as pieces with what they say.
//!
//! A provider's cache compares the prompt that it makes of a body, not the body's bytes. So what a piece says is hashed
//! without white space, without the order of keys, without the way in which characters are escaped, without cache marks, and
//! alike for a string and for a list of one text. A piece also knows its seat: where a cache mark on it would be written.

use std::cell::Cell;
use std::sync::LazyLock;

use aho_corasick::packed::Searcher;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::write::Role;
use crate::Dialect;
use crate::json::{Kind, NotJson, Scanner, Span, escape, unescape, unescape_start};
use crate::transcript::{Form, TextSpan, Transcript};

/// The field that marks a piece.
pub(crate) const MARK: &str = "cache_control";

/// A part of the prompt, in the order of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Tool definitions.
    Tools,
    /// The system prompt.
    System,
    /// What was said and done.
    Messages,
}

/// What a piece says, however it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Says(pub(crate) u128);

/// A tool, a content block, a call: the least that a cache tells apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where in the prompt it belongs.
    pub part: Part,
    /// The message or item that it stands in.
    pub message: Option<u32>,
    /// Under whose name.
    pub role: Option<Role>,
    /// Its bytes in the body.
    pub at: Span,
    /// Its words, if it is text.
    pub text: Option<TextSpan>,
    /// What it says, and that it begins a message if it does.
    pub says: Says,
    /// Where a mark would go.
    pub seat: Seat,
}

/// Where a mark on a piece is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// In this object, beside the content.
    Block(Span),
    /// In the block that this string becomes.
    String(Span),
    /// In this message, for hosts that look there.
    Message(Span),
    /// Nowhere: thinking, empty text, or a kind that takes none.
    None,
}

/// How long a marked prefix lives after its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum Lifetime {
    /// Five minutes, which is what a mark without a lifetime says.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour.
    #[serde(rename = "1h")]
    OneHour,
}

/// A mark that the client set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientMark {
    /// The piece that it stands on or in; none for the one beside the messages, which moves along with their end.
    pub piece: Option<usize>,
    /// The object that has it.
    pub holder: Span,
    /// How long it is to live.
    pub lifetime: Lifetime,
}

/// What else voids a cached prefix when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// The model: voids everything.
    pub model: Option<Says>,
    /// How tools are to be chosen: voids the messages.
    pub tool_choice: Option<Says>,
    /// How the model is to think: voids the messages.
    pub thinking: Option<Says>,
}

/// A body in the order of reading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Tools, then the system prompt, then messages.
    pub pieces: Vec<Piece>,
    /// The client's marks, in the same order.
    pub marks: Vec<ClientMark>,
    /// What is not part of the prompt and matters all the same.
    pub settings: Settings,
    /// Whether the client chose a `prompt_cache_key`.
    pub has_cache_key: bool,
    /// The outermost value, if it is an object that fields can be set in.
    pub root: Option<Span>,
}

/// Reads a body in the provider's order.
#[must_use]
pub fn reading(transcript: &Transcript<'_>) -> Reading {
    let mut walk = Walk::new(transcript);
    let mut scanner = Scanner::within(transcript.body, transcript.root());
    // A transcript is of a body that was scanned to its end, so nothing here can fail.
    let _ = match scanner.peek() {
        b'{' => walk.root(&mut scanner).map(|at| walk.reading.root = Some(at)),
        b'[' => walk.messages(&mut scanner).map(|list| walk.list = list),
        _ => Ok(()),
    };
    walk.finish()
}

/// Values nested deeper than this are hashed as they stand, so that hostile input costs no stack.
const DEEPEST: u32 = 64;

/// The names that plain words go by; which one stands there follows from the dialect and the role.
const TEXTS: [&str; 3] = ["text", "input_text", "output_text"];

struct Walk<'b> {
    body: &'b str,
    /// The texts of the body by place, and the first that was not passed yet: where they end is known, and most of a body
    /// is in them.
    texts: Vec<TextSpan>,
    passed: Cell<usize>,
    dialect: Dialect,
    tools: Vec<Found>,
    system: Vec<Found>,
    list: Vec<Found>,
    automatic: Option<(Span, Lifetime)>,
    reading: Reading,
}

/// A piece with the marks on it and in it.
struct Found {
    piece: Piece,
    marks: Marks,
}

/// Marks with the objects that have them.
type Marks = Vec<(Span, Lifetime)>;

/// A value in a list of tools or content: what it says, and what its fields tell about it.
struct Element<'b> {
    at: Span,
    says: u128,
    is_object: bool,
    kind: &'b str,
    text: Option<TextSpan>,
    marks: Marks,
    is_deferred: bool,
}

impl<'b> Walk<'b> {
    fn new(transcript: &Transcript<'b>) -> Self {
        let mut texts: Vec<TextSpan> = transcript.blocks().filter_map(|block| block.text).collect();
        texts.retain(|text| text.form != Form::Json);
        texts.sort_unstable_by_key(|text| text.at.start);
        Self {
            body: transcript.body,
            texts,
            passed: Cell::new(0),
            dialect: transcript.dialect,
            tools: Vec::new(),
            system: Vec::new(),
            list: Vec::new(),
            automatic: None,
            reading: Reading::default(),
        }
    }

    fn root(&mut self, scanner: &mut Scanner<'b>) -> Result<Span, NotJson> {
        let mut automatic = None;
        let at = scanner.members(|scanner, key, _| {
            match &self.body[key.range()] {
                "tools" | "functions" if scanner.peek() == b'[' => self.tools = self.tools(scanner)?,
                "messages" | "input" if scanner.peek() == b'[' => self.list = self.messages(scanner)?,
                "input" => self.list = self.content(scanner, Part::Messages)?,
                "system" | "instructions" => self.system = self.content(scanner, Part::System)?,
                "model" => self.reading.settings.model = Some(Says(self.value(scanner, 0)?)),
                "tool_choice" => self.reading.settings.tool_choice = Some(Says(self.value(scanner, 0)?)),
                "thinking" => self.reading.settings.thinking = Some(Says(self.value(scanner, 0)?)),
                "prompt_cache_key" => self.reading.has_cache_key = !is_null(self.body, scanner.value()?.0),
                MARK => automatic = self.mark(scanner)?,
                _ => drop(scanner.value()?),
            }
            Ok(())
        })?;
        self.automatic = automatic.map(|lifetime| (at, lifetime));
        Ok(at)
    }

    fn tools(&self, scanner: &mut Scanner<'b>) -> Result<Vec<Found>, NotJson> {
        let mut tools = Vec::new();
        scanner.elements(|scanner| {
            let tool = self.element(scanner, 0)?;
            let carries = self.dialect == Dialect::Messages && tool.is_object && !tool.is_deferred;
            let seat = if carries { Seat::Block(tool.at) } else { Seat::None };
            tools.push(found(Part::Tools, tool, seat));
            Ok(())
        })?;
        Ok(tools)
    }

    fn messages(&self, scanner: &mut Scanner<'b>) -> Result<Vec<Found>, NotJson> {
        let (mut pieces, mut index, mut part) = (Vec::new(), 0, Part::System);
        scanner.elements(|scanner| {
            let mut message = self.message(scanner)?;
            if message.first().is_none_or(|first| first.piece.role != Some(Role::System)) {
                part = Part::Messages;
            }
            for Found { piece, .. } in &mut message {
                (piece.part, piece.message) = (part, Some(index));
            }
            index += 1;
            pieces.append(&mut message);
            Ok(())
        })?;
        Ok(pieces)
    }

    /// The content of one message, then its calls. A message that is neither is a piece all the same.
    fn message(&self, scanner: &mut Scanner<'b>) -> Result<Vec<Found>, NotJson> {
        if scanner.peek() != b'{' {
            let whole = self.element(scanner, 0)?;
            return Ok(vec![found(Part::Messages, whole, Seat::None)]);
        }
        let (mut content, mut calls, mut mark) = (Vec::new(), Vec::new(), None);
        let (mut role, mut frame) = (None, 0u128);
        let at = scanner.members(|scanner, key, _| {
            let name = &self.body[key.range()];
            match name {
                "role" => role = Some(self.plain(scanner)?),
                "content" => content = self.content(scanner, Part::Messages)?,
                "tool_calls" if scanner.peek() == b'[' => calls = self.calls(scanner)?,
                MARK => mark = self.mark(scanner)?,
                _ => frame = self.field(scanner, frame, name, 0)?,
            }
            Ok(())
        })?;
        let has_calls = !calls.is_empty();
        content.append(&mut calls);
        if content.is_empty() || role.is_none() {
            let says = fold(content.iter().map(|found: &Found| found.piece.says.0));
            let marks = content.into_iter().flat_map(|found| found.marks).collect();
            let piece = Piece {
                part: Part::Messages,
                message: None,
                role: None,
                at,
                text: None,
                says: Says(says),
                seat: Seat::None,
            };
            content = vec![Found { piece, marks }];
        }
        let role = role.unwrap_or_default();
        let named = super::write::role_named(role);
        let answers = matches!(named, Some(Role::Tool));
        for Found { piece, .. } in &mut content {
            piece.role = named;
            if answers {
                piece.seat = Seat::None;
            }
        }
        let seated = content.iter().any(|found| found.piece.seat != Seat::None);
        if let Some(last) = content.last_mut() {
            last.marks.extend(mark.map(|lifetime| (at, lifetime)));
            if self.dialect == Dialect::Chat && !seated && (answers || has_calls) {
                last.piece.seat = Seat::Message(at);
            }
        }
        let Says(first) = &mut content[0].piece.says;
        *first = pair(pair(key_of(role), frame), *first);
        Ok(content)
    }

    fn calls(&self, scanner: &mut Scanner<'b>) -> Result<Vec<Found>, NotJson> {
        let mut calls = Vec::new();
        scanner.elements(|scanner| {
            calls.push(found(Part::Messages, self.element(scanner, 0)?, Seat::None));
            Ok(())
        })?;
        Ok(calls)
    }

    /// Content: a string, or a list of blocks. What is empty says nothing.
    fn content(&self, scanner: &mut Scanner<'b>, part: Part) -> Result<Vec<Found>, NotJson> {
        let mut pieces = Vec::new();
        if scanner.peek() != b'[' {
            let element = self.element(scanner, 0)?;
            let raw = &self.body[element.at.range()];
            if !matches!(raw, "null" | "\"\"") {
                let is_seat = element.text.is_some_and(|text| !self.is_blank(text))
                    && self.dialect != Dialect::Responses;
                let seat = if is_seat { Seat::String(element.at) } else { Seat::None };
                pieces.push(found(part, element, seat));
            }
            return Ok(pieces);
        }
        scanner.elements(|scanner| {
            let element = self.element(scanner, 0)?;
            let seat = if self.carries(&element) { Seat::Block(element.at) } else { Seat::None };
            pieces.push(found(part, element, seat));
            Ok(())
        })?;
        Ok(pieces)
    }

    /// Whether a content block takes a mark. What is not known to take one does not.
    fn carries(&self, block: &Element<'b>) -> bool {
        let has_words = || block.text.is_some_and(|text| !self.is_blank(text));
        block.is_object
            && match (self.dialect, block.kind) {
                (Dialect::Responses, _) => false,
                (_, "text") => has_words(),
                (Dialect::Chat, _) => false,
                (Dialect::Messages, "image" | "document" | "search_result" | "tool_use" | "tool_result") => {
                    true
                }
                (Dialect::Messages, kind) => kind.ends_with("_tool_use") || kind.ends_with("_tool_result"),
            }
    }

    fn is_blank(&self, text: TextSpan) -> bool {
        const ENOUGH: usize = 64;
        let raw = &self.body[text.at.range()];
        unescape_start(raw, ENOUGH).trim().is_empty() && unescape(raw).trim().is_empty()
    }

    /// One value of a list. A string says what a text block with it would say.
    fn element(&self, scanner: &mut Scanner<'b>, depth: u32) -> Result<Element<'b>, NotJson> {
        let mut element = Element {
            at: Span::new(0, 0),
            says: 0,
            is_object: false,
            kind: "",
            text: None,
            marks: Vec::new(),
            is_deferred: false,
        };
        match scanner.peek() {
            b'{' => self.object(scanner, &mut element, depth)?,
            b'"' => {
                let (at, kind) = self.scalar(scanner)?;
                (element.at, element.text) = (at, Some(text_span(at, kind)));
                element.says = self.text_block(at, kind);
            }
            _ => {
                element.at = scanner.value()?.0;
                element.says = self.value(&mut Scanner::within(self.body, element.at), depth)?;
            }
        }
        Ok(element)
    }

    fn object(
        &self,
        scanner: &mut Scanner<'b>,
        element: &mut Element<'b>,
        depth: u32,
    ) -> Result<(), NotJson> {
        let mut mark = None;
        element.is_object = true;
        element.at = scanner.members(|scanner, key, _| {
            let name = &self.body[key.range()];
            match name {
                MARK => mark = self.mark(scanner)?,
                "content" | "output" if depth == 0 && scanner.peek() != b'{' => {
                    let inner = self.inner(scanner, &mut element.marks)?;
                    element.says = element.says.wrapping_add(pair(key_of(name), inner));
                }
                "type" if scanner.peek() == b'"' => {
                    element.kind = self.plain(scanner)?;
                    let kind = if TEXTS.contains(&element.kind) { TEXTS[0] } else { element.kind };
                    element.says = element.says.wrapping_add(pair(key_of(name), key_of(kind)));
                }
                "text" if scanner.peek() == b'"' => {
                    let (at, kind) = self.scalar(scanner)?;
                    element.text = Some(text_span(at, kind));
                    element.says = element.says.wrapping_add(pair(key_of(name), self.string(at, kind)));
                }
                "defer_loading" => element.is_deferred = &self.body[scanner.value()?.0.range()] == "true",
                _ => element.says = self.field(scanner, element.says, name, depth)?,
            }
            Ok(())
        })?;
        element.marks.extend(mark.map(|lifetime| (element.at, lifetime)));
        Ok(())
    }

    /// What is inside a result: a string says what a list of one text says, and marks in there count.
    fn inner(&self, scanner: &mut Scanner<'b>, marks: &mut Marks) -> Result<u128, NotJson> {
        if scanner.peek() != b'[' {
            return Ok(fold([self.element(scanner, 1)?.says].into_iter()));
        }
        let mut says = Vec::new();
        scanner.elements(|scanner| {
            let mut block = self.element(scanner, 1)?;
            marks.append(&mut block.marks);
            says.push(block.says);
            Ok(())
        })?;
        Ok(fold(says.into_iter()))
    }

    /// Adds a field to what an object says; a field that is null says nothing.
    fn field(&self, scanner: &mut Scanner<'b>, says: u128, name: &str, depth: u32) -> Result<u128, NotJson> {
        if scanner.peek() == b'n' {
            scanner.value()?;
            return Ok(says);
        }
        Ok(says.wrapping_add(pair(key_of(name), self.value(scanner, depth + 1)?)))
    }

    /// What any value says: its members in whatever order, its strings however escaped.
    fn value(&self, scanner: &mut Scanner<'b>, depth: u32) -> Result<u128, NotJson> {
        match scanner.peek() {
            b'{' if depth < DEEPEST => {
                let mut says = xxh3_128_with_seed(b"{", 0);
                scanner.members(|scanner, key, kind| {
                    let key = self.string(Span { start: key.start - 1, end: key.end + 1 }, kind);
                    says = says.wrapping_add(pair(key, self.value(scanner, depth + 1)?));
                    Ok(())
                })?;
                Ok(says)
            }
            b'[' if depth < DEEPEST => {
                let mut says = xxh3_128_with_seed(b"[", 0);
                scanner.elements(|scanner| {
                    says = pair(says, self.value(scanner, depth + 1)?);
                    Ok(())
                })?;
                Ok(says)
            }
            _ => {
                let (at, kind) = self.scalar(scanner)?;
                Ok(if kind.is_string() {
                    self.string(at, kind)
                } else {
                    xxh3_128_with_seed(self.body[at.range()].as_bytes(), 1)
                })
            }
        }
    }

    /// Reads past one value. A text that is known is not scanned again; whether it has escapes is found out later.
    fn scalar(&self, scanner: &mut Scanner<'b>) -> Result<(Span, Kind), NotJson> {
        let inside = scanner.at() + 1;
        let rest = &self.texts[self.passed.get()..];
        let skipped = rest.iter().take_while(|text| text.at.start < inside).count();
        self.passed.set(self.passed.get() + skipped);
        match rest.get(skipped) {
            Some(text) if text.at.start == inside => {
                let kind = if text.form == Form::Damaged { Kind::Damaged } else { Kind::Escaped };
                Ok((scanner.known_string(text.at.end), kind))
            }
            _ => scanner.value(),
        }
    }

    fn text_block(&self, at: Span, kind: Kind) -> u128 {
        pair(key_of("type"), key_of(TEXTS[0])).wrapping_add(pair(key_of("text"), self.string(at, kind)))
    }

    /// What a string says, however it is escaped.
    fn string(&self, at: Span, kind: Kind) -> u128 {
        let raw = &self.body[at.unquoted().range()];
        if kind == Kind::Escaped && !is_escaped_as_we_do(raw) {
            return key_of(&escape(&unescape(raw)));
        }
        key_of(raw)
    }

    /// A string that is a name of the protocol, as it stands.
    fn plain(&self, scanner: &mut Scanner<'b>) -> Result<&'b str, NotJson> {
        let (at, kind) = scanner.value()?;
        Ok(if kind.is_string() { &self.body[at.unquoted().range()] } else { "" })
    }

    fn mark(&self, scanner: &mut Scanner<'b>) -> Result<Option<Lifetime>, NotJson> {
        if scanner.peek() != b'{' {
            let (at, _) = scanner.value()?;
            return Ok((!is_null(self.body, at)).then_some(Lifetime::FiveMinutes));
        }
        let mut lifetime = Lifetime::FiveMinutes;
        scanner.members(|scanner, key, _| {
            let (at, _) = scanner.value()?;
            if &self.body[key.range()] == "ttl" && &self.body[at.range()] == "\"1h\"" {
                lifetime = Lifetime::OneHour;
            }
            Ok(())
        })?;
        Ok(Some(lifetime))
    }

    fn finish(self) -> Reading {
        let mut reading = self.reading;
        for Found { piece, marks } in self.tools.into_iter().chain(self.system).chain(self.list) {
            let at = Some(reading.pieces.len());
            reading.marks.extend(marks.into_iter().map(|(holder, lifetime)| ClientMark {
                piece: at,
                holder,
                lifetime,
            }));
            reading.pieces.push(piece);
        }
        let automatic = self.automatic.map(|(holder, lifetime)| ClientMark { piece: None, holder, lifetime });
        reading.marks.extend(automatic);
        reading
    }
}

fn found(part: Part, element: Element<'_>, seat: Seat) -> Found {
    let Element { at, says, text, marks, .. } = element;
    Found { piece: Piece { part, message: None, role: None, at, text, says: Says(says), seat }, marks }
}

fn text_span(at: Span, kind: Kind) -> TextSpan {
    TextSpan { at: at.unquoted(), form: if kind == Kind::Damaged { Form::Damaged } else { Form::String } }
}

fn is_null(body: &str, at: Span) -> bool {
    &body[at.range()] == "null"
}

/// Finds escapes that [`escape`] never or seldom writes; so may a backslash of its own before such a letter be.
static UNUSUAL: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new([r"\u", r"\/", r"\b", r"\f"]));

/// Whether every escape is the one that [`escape`] writes: then equal texts have equal bytes already.
fn is_escaped_as_we_do(raw: &str) -> bool {
    if UNUSUAL.as_ref().is_some_and(|unusual| unusual.find(raw).is_none()) {
        return true;
    }
    let bytes = raw.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        if !matches!(bytes.get(at + found + 1), Some(b'n' | b'"' | b'\\' | b't' | b'r')) {
            return false;
        }
        at += found + 2;
    }
    true
}

fn key_of(text: &str) -> u128 {
    xxh3_128_with_seed(text.as_bytes(), 0)
}

/// One key of two, in this order.
pub(crate) fn pair(first: u128, second: u128) -> u128 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&first.to_le_bytes());
    bytes[16..].copy_from_slice(&second.to_le_bytes());
    xxh3_128_with_seed(&bytes, 2)
}

fn fold(keys: impl Iterator<Item = u128>) -> u128 {
    keys.fold(0, pair)
}
