//! The walk over a body: which pieces it has, and which marks.

use super::says::{TEXTS, Words, fold, key_of, pair};
use super::{ClientMark, Lifetime, MARK, Part, Piece, Reading, Says, Seat};
use crate::Dialect;
use crate::json::{Kind, NotJson, Scanner, Span, unescape, unescape_start};
use crate::transcript::{Form, Role, TextSpan, Transcript};
use crate::wire::write::role_of;

/// A walk over a body.
pub(super) struct Walk<'b> {
    body: &'b str,
    words: Words<'b>,
    dialect: Dialect,
    tools: Vec<Found>,
    system: Vec<Found>,
    pub(super) list: Vec<Found>,
    automatic: Option<(Span, Lifetime)>,
    pub(super) reading: Reading,
}

/// A piece with the marks on it and in it.
pub(super) struct Found {
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
    pub(super) fn new(transcript: &Transcript<'b>) -> Self {
        Self {
            body: transcript.body,
            words: Words::new(transcript),
            dialect: transcript.dialect,
            tools: Vec::new(),
            system: Vec::new(),
            list: Vec::new(),
            automatic: None,
            reading: Reading::default(),
        }
    }

    pub(super) fn root(&mut self, scanner: &mut Scanner<'b>) -> Result<Span, NotJson> {
        let mut automatic = None;
        let at = scanner.members(|scanner, key, _| {
            match &self.body[key.range()] {
                "tools" | "functions" if scanner.peek() == b'[' => self.tools = self.tools(scanner)?,
                "messages" | "input" if scanner.peek() == b'[' => self.list = self.messages(scanner)?,
                "input" => self.list = self.content(scanner, Part::Messages)?,
                "system" | "instructions" => self.system = self.content(scanner, Part::System)?,
                "model" => self.reading.settings.model = Some(Says(self.words.value(scanner, 0)?)),
                "tool_choice" => {
                    self.reading.settings.tool_choice = Some(Says(self.words.value(scanner, 0)?));
                }
                "thinking" => self.reading.settings.thinking = Some(Says(self.words.value(scanner, 0)?)),
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

    pub(super) fn messages(&self, scanner: &mut Scanner<'b>) -> Result<Vec<Found>, NotJson> {
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

    /// The content of one message, then its calls.
    fn message(&self, scanner: &mut Scanner<'b>) -> Result<Vec<Found>, NotJson> {
        if scanner.peek() != b'{' {
            let whole = self.element(scanner, 0)?;
            return Ok(vec![found(Part::Messages, whole, Seat::None)]);
        }
        let (mut content, mut calls, mut mark) = (Vec::new(), Vec::new(), None);
        let (mut role, mut kind, mut frame) = (None, None, 0u128);
        let at = scanner.members(|scanner, key, _| {
            let name = &self.body[key.range()];
            match name {
                "role" => role = Some(self.plain(scanner)?),
                "type" if scanner.peek() == b'"' => kind = Some(self.plain(scanner)?),
                "content" => content = self.content(scanner, Part::Messages)?,
                "tool_calls" if scanner.peek() == b'[' => calls = self.calls(scanner)?,
                MARK => mark = self.mark(scanner)?,
                _ => frame = self.words.field(scanner, frame, name, 0)?,
            }
            Ok(())
        })?;
        let has_calls = !calls.is_empty();
        content.append(&mut calls);
        if content.is_empty() || role.is_none() {
            content = vec![whole(at, content)];
        }
        let by = role_of(role, kind);
        let is_seat = self.dialect == Dialect::Chat && (has_calls || by == Some(Role::Tool));
        settle(&mut content, by, is_seat.then_some(at));
        // An item that is a message need not say so.
        let kind = kind.filter(|kind| *kind != "message").unwrap_or_default();
        if let [first, ..] = content.as_mut_slice() {
            let name = pair(key_of(role.unwrap_or_default()), key_of(kind));
            first.piece.says = Says(pair(pair(name, frame), first.piece.says.0));
        }
        if let Some(last) = content.last_mut() {
            last.marks.extend(mark.map(|lifetime| (at, lifetime)));
        }
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
                let (at, kind) = self.words.scalar(scanner)?;
                (element.at, element.text) = (at, Some(text_span(at, kind)));
                element.says = self.words.text_block(at, kind);
            }
            _ => {
                element.at = scanner.value()?.0;
                element.says = self.words.value(&mut Scanner::within(self.body, element.at), depth)?;
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
                // Some hosts take a Chat tool's mark inside its function.
                "function" if depth == 0 && scanner.peek() == b'{' => {
                    let mut function = self.element(scanner, 1)?;
                    element.marks.append(&mut function.marks);
                    element.says = element.says.wrapping_add(pair(key_of(name), function.says));
                }
                "type" if scanner.peek() == b'"' => {
                    element.kind = self.plain(scanner)?;
                    let kind = if TEXTS.contains(&element.kind) { TEXTS[0] } else { element.kind };
                    element.says = element.says.wrapping_add(pair(key_of(name), key_of(kind)));
                }
                "text" if scanner.peek() == b'"' => {
                    let (at, kind) = self.words.scalar(scanner)?;
                    element.text = Some(text_span(at, kind));
                    element.says = element.says.wrapping_add(pair(key_of(name), self.words.string(at, kind)));
                }
                "defer_loading" => element.is_deferred = &self.body[scanner.value()?.0.range()] == "true",
                _ => element.says = self.words.field(scanner, element.says, name, depth)?,
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

    pub(super) fn finish(self) -> Reading {
        let mut reading = self.reading;
        for Found { piece, marks } in self.tools.into_iter().chain(self.system).chain(self.list) {
            let at = Some(reading.pieces.len());
            reading.marks.extend(marks.into_iter().map(|(holder, lifetime)| ClientMark {
                piece: at,
                holder,
                lifetime,
            }));
            reading.push(piece);
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

/// Says of each piece whose it is. Where nothing in the content of a message takes a mark, the message itself may.
fn settle(content: &mut [Found], by: Option<Role>, message: Option<Span>) {
    for Found { piece, .. } in &mut *content {
        piece.role = by;
        if by == Some(Role::Tool) {
            piece.seat = Seat::None;
        }
    }
    let seated = content.iter().any(|found| found.piece.seat != Seat::None);
    if let (false, Some(at), Some(last)) = (seated, message, content.last_mut()) {
        last.piece.seat = Seat::Message(at);
    }
}

/// A message or item as one piece.
fn whole(at: Span, content: Vec<Found>) -> Found {
    let says = Says(fold(content.iter().map(|found| found.piece.says.0)));
    let piece =
        Piece { part: Part::Messages, message: None, role: None, at, text: None, says, seat: Seat::None };
    Found { piece, marks: content.into_iter().flat_map(|found| found.marks).collect() }
}

fn text_span(at: Span, kind: Kind) -> TextSpan {
    TextSpan { at: at.unquoted(), form: if kind == Kind::Damaged { Form::Damaged } else { Form::String } }
}

fn is_null(body: &str, at: Span) -> bool {
    &body[at.range()] == "null"
}
