//! Walks over a request body and collects its pieces and cache breakpoints.

use super::content_hash::{ContentHasher, TEXT_TYPES, hash_pair, hash_sequence, hash_text};
use super::{
    BreakpointTarget, CACHE_CONTROL_FIELD, CacheLifetime, ClientBreakpoint, ContentHash, PromptOrder, PromptPart,
    PromptPiece,
};
use crate::ApiFormat;
use crate::json::{JsonError, Scanner, Span, ValueKind, unescape, unescape_start};
use crate::transcript::{Role, TextEncoding, TextSpan, Transcript};
use crate::wire::write::parse_role;

/// The state of one walk over a body.
pub(super) struct PromptWalk<'b> {
    body: &'b str,
    hasher: ContentHasher<'b>,
    api_format: ApiFormat,
    tool_pieces: Vec<FoundPiece>,
    system_pieces: Vec<FoundPiece>,
    pub(super) message_pieces: Vec<FoundPiece>,
    automatic_breakpoint: Option<(Span, CacheLifetime)>,
    pub(super) prompt_order: PromptOrder,
}

/// A piece with the cache breakpoints on it and inside it.
pub(super) struct FoundPiece {
    piece: PromptPiece,
    breakpoints: Breakpoints,
}

/// Cache breakpoints: the object that has each one, and its lifetime.
type Breakpoints = Vec<(Span, CacheLifetime)>;

/// A value in a list of tools or content blocks: its hash, and the fields that decide about breakpoints.
struct WalkedValue<'b> {
    at: Span,
    content_hash: u128,
    is_object: bool,
    kind: &'b str,
    text: Option<TextSpan>,
    breakpoints: Breakpoints,
    is_deferred: bool,
}

impl<'b> PromptWalk<'b> {
    pub(super) fn new(transcript: &Transcript<'b>) -> Self {
        Self {
            body: transcript.body,
            hasher: ContentHasher::new(transcript),
            api_format: transcript.api_format,
            tool_pieces: Vec::new(),
            system_pieces: Vec::new(),
            message_pieces: Vec::new(),
            automatic_breakpoint: None,
            prompt_order: PromptOrder::default(),
        }
    }

    pub(super) fn walk_root(&mut self, scanner: &mut Scanner<'b>) -> Result<Span, JsonError> {
        let mut automatic = None;
        let at = scanner.for_each_member(|scanner, key, _| {
            match &self.body[key.range()] {
                "tools" | "functions" if scanner.peek() == b'[' => {
                    self.tool_pieces = self.walk_tools(scanner)?;
                }
                "messages" | "input" if scanner.peek() == b'[' => {
                    self.message_pieces = self.walk_messages(scanner)?;
                }
                "input" => self.message_pieces = self.walk_content(scanner, PromptPart::Messages)?,
                "system" | "instructions" => {
                    self.system_pieces = self.walk_content(scanner, PromptPart::System)?;
                }
                "model" => {
                    self.prompt_order.cache_settings.model = Some(ContentHash(self.hasher.hash_value(scanner, 0)?));
                }
                "tool_choice" => {
                    self.prompt_order.cache_settings.tool_choice =
                        Some(ContentHash(self.hasher.hash_value(scanner, 0)?));
                }
                "thinking" => {
                    self.prompt_order.cache_settings.thinking = Some(ContentHash(self.hasher.hash_value(scanner, 0)?));
                }
                "prompt_cache_key" => {
                    self.prompt_order.has_cache_key = !is_null(self.body, scanner.skip_value()?.0);
                }
                CACHE_CONTROL_FIELD => automatic = self.read_breakpoint(scanner)?,
                _ => drop(scanner.skip_value()?),
            }
            Ok(())
        })?;
        self.automatic_breakpoint = automatic.map(|lifetime| (at, lifetime));
        Ok(at)
    }

    fn walk_tools(&self, scanner: &mut Scanner<'b>) -> Result<Vec<FoundPiece>, JsonError> {
        let mut tools = Vec::new();
        scanner.for_each_element(|scanner| {
            let tool = self.walk_value(scanner, 0)?;
            let carries = self.api_format == ApiFormat::Messages && tool.is_object && !tool.is_deferred;
            let seat = if carries { BreakpointTarget::Block(tool.at) } else { BreakpointTarget::None };
            tools.push(new_piece(PromptPart::Tools, tool, seat));
            Ok(())
        })?;
        Ok(tools)
    }

    pub(super) fn walk_messages(&self, scanner: &mut Scanner<'b>) -> Result<Vec<FoundPiece>, JsonError> {
        let (mut pieces, mut index, mut part) = (Vec::new(), 0, PromptPart::System);
        scanner.for_each_element(|scanner| {
            let mut message = self.walk_message(scanner)?;
            if message.first().is_none_or(|first| first.piece.role != Some(Role::System)) {
                part = PromptPart::Messages;
            }
            for FoundPiece { piece, .. } in &mut message {
                (piece.part, piece.message) = (part, Some(index));
            }
            index += 1;
            pieces.append(&mut message);
            Ok(())
        })?;
        Ok(pieces)
    }

    /// Collects the pieces of one message: its content, then its tool calls.
    fn walk_message(&self, scanner: &mut Scanner<'b>) -> Result<Vec<FoundPiece>, JsonError> {
        if scanner.peek() != b'{' {
            let whole = self.walk_value(scanner, 0)?;
            return Ok(vec![new_piece(PromptPart::Messages, whole, BreakpointTarget::None)]);
        }
        let (mut content, mut calls, mut mark) = (Vec::new(), Vec::new(), None);
        let (mut role, mut kind, mut frame) = (None, None, 0u128);
        let at = scanner.for_each_member(|scanner, key, _| {
            let name = &self.body[key.range()];
            match name {
                "role" => role = Some(self.read_protocol_name(scanner)?),
                "type" if scanner.peek() == b'"' => kind = Some(self.read_protocol_name(scanner)?),
                "content" => content = self.walk_content(scanner, PromptPart::Messages)?,
                "tool_calls" if scanner.peek() == b'[' => calls = self.walk_calls(scanner)?,
                CACHE_CONTROL_FIELD => mark = self.read_breakpoint(scanner)?,
                _ => frame = self.hasher.add_field(scanner, frame, name, 0)?,
            }
            Ok(())
        })?;
        let has_calls = !calls.is_empty();
        content.append(&mut calls);
        if content.is_empty() || role.is_none() {
            content = vec![whole_message_piece(at, content)];
        }
        let by = parse_role(role, kind);
        let is_seat = self.api_format == ApiFormat::Chat && (has_calls || by == Some(Role::Tool));
        assign_role(&mut content, by, is_seat.then_some(at));
        // In the Responses format the type `message` is optional, so it must not change the hash.
        let kind = kind.filter(|kind| *kind != "message").unwrap_or_default();
        if let [first, ..] = content.as_mut_slice() {
            let name = hash_pair(hash_text(role.unwrap_or_default()), hash_text(kind));
            first.piece.content_hash = ContentHash(hash_pair(hash_pair(name, frame), first.piece.content_hash.0));
        }
        if let Some(last) = content.last_mut() {
            last.breakpoints.extend(mark.map(|lifetime| (at, lifetime)));
        }
        Ok(content)
    }

    fn walk_calls(&self, scanner: &mut Scanner<'b>) -> Result<Vec<FoundPiece>, JsonError> {
        let mut calls = Vec::new();
        scanner.for_each_element(|scanner| {
            calls.push(new_piece(PromptPart::Messages, self.walk_value(scanner, 0)?, BreakpointTarget::None));
            Ok(())
        })?;
        Ok(calls)
    }

    /// Collects the pieces of a content field, which is a string or a list of blocks. An empty string or null
    /// has none.
    fn walk_content(&self, scanner: &mut Scanner<'b>, part: PromptPart) -> Result<Vec<FoundPiece>, JsonError> {
        let mut pieces = Vec::new();
        if scanner.peek() != b'[' {
            let element = self.walk_value(scanner, 0)?;
            let raw = &self.body[element.at.range()];
            if !matches!(raw, "null" | "\"\"") {
                let is_seat =
                    element.text.is_some_and(|text| !self.is_blank(text)) && self.api_format != ApiFormat::Responses;
                let seat = if is_seat { BreakpointTarget::String(element.at) } else { BreakpointTarget::None };
                pieces.push(new_piece(part, element, seat));
            }
            return Ok(pieces);
        }
        scanner.for_each_element(|scanner| {
            let element = self.walk_value(scanner, 0)?;
            let seat = if self.takes_breakpoint(&element) {
                BreakpointTarget::Block(element.at)
            } else {
                BreakpointTarget::None
            };
            pieces.push(new_piece(part, element, seat));
            Ok(())
        })?;
        Ok(pieces)
    }

    /// Returns whether a content block accepts a cache breakpoint. A block of an unknown kind does not.
    fn takes_breakpoint(&self, block: &WalkedValue<'b>) -> bool {
        let has_words = || block.text.is_some_and(|text| !self.is_blank(text));
        block.is_object
            && match (self.api_format, block.kind) {
                (ApiFormat::Responses, _) => false,
                (_, "text") => has_words(),
                (ApiFormat::Chat, _) => false,
                (ApiFormat::Messages, "image" | "document" | "search_result" | "tool_use" | "tool_result") => true,
                (ApiFormat::Messages, kind) => kind.ends_with("_tool_use") || kind.ends_with("_tool_result"),
            }
    }

    fn is_blank(&self, text: TextSpan) -> bool {
        const PROBE_BYTES: usize = 64;
        let raw = &self.body[text.at.range()];
        unescape_start(raw, PROBE_BYTES).trim().is_empty() && unescape(raw).trim().is_empty()
    }

    /// Reads one value of a list. A string gets the same hash as a text block with this text.
    fn walk_value(&self, scanner: &mut Scanner<'b>, depth: u32) -> Result<WalkedValue<'b>, JsonError> {
        let mut element = WalkedValue {
            at: Span::new(0, 0),
            content_hash: 0,
            is_object: false,
            kind: "",
            text: None,
            breakpoints: Vec::new(),
            is_deferred: false,
        };
        match scanner.peek() {
            b'{' => self.walk_object(scanner, &mut element, depth)?,
            b'"' => {
                let (at, kind) = self.hasher.skip_value(scanner)?;
                (element.at, element.text) = (at, Some(text_span(at, kind)));
                element.content_hash = self.hasher.hash_text_block(at, kind);
            }
            _ => {
                element.at = scanner.skip_value()?.0;
                element.content_hash = self.hasher.hash_value(&mut Scanner::within(self.body, element.at), depth)?;
            }
        }
        Ok(element)
    }

    fn walk_object(
        &self,
        scanner: &mut Scanner<'b>,
        element: &mut WalkedValue<'b>,
        depth: u32,
    ) -> Result<(), JsonError> {
        let mut mark = None;
        element.is_object = true;
        element.at = scanner.for_each_member(|scanner, key, _| {
            let name = &self.body[key.range()];
            match name {
                CACHE_CONTROL_FIELD => mark = self.read_breakpoint(scanner)?,
                "content" | "output" if depth == 0 && scanner.peek() != b'{' => {
                    let inner = self.hash_result_content(scanner, &mut element.breakpoints)?;
                    element.content_hash = element.content_hash.wrapping_add(hash_pair(hash_text(name), inner));
                }
                // Some hosts accept the breakpoint of a Chat Completions tool inside its `function` object.
                "function" if depth == 0 && scanner.peek() == b'{' => {
                    let mut function = self.walk_value(scanner, 1)?;
                    element.breakpoints.append(&mut function.breakpoints);
                    element.content_hash =
                        element.content_hash.wrapping_add(hash_pair(hash_text(name), function.content_hash));
                }
                "type" if scanner.peek() == b'"' => {
                    element.kind = self.read_protocol_name(scanner)?;
                    let kind = if TEXT_TYPES.contains(&element.kind) { TEXT_TYPES[0] } else { element.kind };
                    element.content_hash =
                        element.content_hash.wrapping_add(hash_pair(hash_text(name), hash_text(kind)));
                }
                "text" if scanner.peek() == b'"' => {
                    let (at, kind) = self.hasher.skip_value(scanner)?;
                    element.text = Some(text_span(at, kind));
                    element.content_hash = element
                        .content_hash
                        .wrapping_add(hash_pair(hash_text(name), self.hasher.hash_string(at, kind)));
                }
                "defer_loading" => {
                    element.is_deferred = &self.body[scanner.skip_value()?.0.range()] == "true";
                }
                _ => {
                    element.content_hash = self.hasher.add_field(scanner, element.content_hash, name, depth)?;
                }
            }
            Ok(())
        })?;
        element.breakpoints.extend(mark.map(|lifetime| (element.at, lifetime)));
        Ok(())
    }

    /// Hashes the content of a tool result and collects the breakpoints in it. A string gets the same hash as
    /// a list with one text block.
    fn hash_result_content(&self, scanner: &mut Scanner<'b>, marks: &mut Breakpoints) -> Result<u128, JsonError> {
        if scanner.peek() != b'[' {
            return Ok(hash_sequence([self.walk_value(scanner, 1)?.content_hash].into_iter()));
        }
        let mut says = Vec::new();
        scanner.for_each_element(|scanner| {
            let mut block = self.walk_value(scanner, 1)?;
            marks.append(&mut block.breakpoints);
            says.push(block.content_hash);
            Ok(())
        })?;
        Ok(hash_sequence(says.into_iter()))
    }

    /// Reads a string that is a name of the protocol, such as a role or a type, without unescaping it.
    fn read_protocol_name(&self, scanner: &mut Scanner<'b>) -> Result<&'b str, JsonError> {
        let (at, kind) = scanner.skip_value()?;
        Ok(if kind.is_string() { &self.body[at.unquoted().range()] } else { "" })
    }

    fn read_breakpoint(&self, scanner: &mut Scanner<'b>) -> Result<Option<CacheLifetime>, JsonError> {
        if scanner.peek() != b'{' {
            let (at, _) = scanner.skip_value()?;
            return Ok((!is_null(self.body, at)).then_some(CacheLifetime::FiveMinutes));
        }
        let mut lifetime = CacheLifetime::FiveMinutes;
        scanner.for_each_member(|scanner, key, _| {
            let (at, _) = scanner.skip_value()?;
            if &self.body[key.range()] == "ttl" && &self.body[at.range()] == "\"1h\"" {
                lifetime = CacheLifetime::OneHour;
            }
            Ok(())
        })?;
        Ok(Some(lifetime))
    }

    pub(super) fn finish(self) -> PromptOrder {
        let mut reading = self.prompt_order;
        for FoundPiece { piece, breakpoints: marks } in
            self.tool_pieces.into_iter().chain(self.system_pieces).chain(self.message_pieces)
        {
            let at = Some(reading.pieces.len());
            reading.breakpoints.extend(marks.into_iter().map(|(holder, lifetime)| ClientBreakpoint {
                piece: at,
                object: holder,
                lifetime,
            }));
            reading.push_piece(piece);
        }
        let automatic = self.automatic_breakpoint.map(|(holder, lifetime)| ClientBreakpoint {
            piece: None,
            object: holder,
            lifetime,
        });
        reading.breakpoints.extend(automatic);
        reading
    }
}

fn new_piece(part: PromptPart, element: WalkedValue<'_>, seat: BreakpointTarget) -> FoundPiece {
    let WalkedValue { at, content_hash: says, text, breakpoints: marks, .. } = element;
    FoundPiece {
        piece: PromptPiece {
            part,
            message: None,
            role: None,
            at,
            text,
            content_hash: ContentHash(says),
            breakpoint_target: seat,
        },
        breakpoints: marks,
    }
}

/// Sets the role of all pieces of a message. If no piece accepts a breakpoint, the last one may use the
/// message itself.
fn assign_role(content: &mut [FoundPiece], by: Option<Role>, message: Option<Span>) {
    for FoundPiece { piece, .. } in &mut *content {
        piece.role = by;
        if by == Some(Role::Tool) {
            piece.breakpoint_target = BreakpointTarget::None;
        }
    }
    let seated = content.iter().any(|found| found.piece.breakpoint_target != BreakpointTarget::None);
    if let (false, Some(at), Some(last)) = (seated, message, content.last_mut()) {
        last.piece.breakpoint_target = BreakpointTarget::Message(at);
    }
}

/// Makes one piece of a whole message or item.
fn whole_message_piece(at: Span, content: Vec<FoundPiece>) -> FoundPiece {
    let says = ContentHash(hash_sequence(content.iter().map(|found| found.piece.content_hash.0)));
    let piece = PromptPiece {
        part: PromptPart::Messages,
        message: None,
        role: None,
        at,
        text: None,
        content_hash: says,
        breakpoint_target: BreakpointTarget::None,
    };
    FoundPiece { piece, breakpoints: content.into_iter().flat_map(|found| found.breakpoints).collect() }
}

fn text_span(at: Span, kind: ValueKind) -> TextSpan {
    TextSpan {
        at: at.unquoted(),
        encoding: if kind == ValueKind::UnpairedSurrogate { TextEncoding::Damaged } else { TextEncoding::String },
    }
}

fn is_null(body: &str, at: Span) -> bool {
    &body[at.range()] == "null"
}
