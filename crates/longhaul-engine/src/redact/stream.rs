//! Redacts text that arrives in chunks, in bounded memory.
//!
//! ```text
//! …emitted │ context │ may still change │ newest chunk
//!                    └ WINDOW_BYTES ─────────────────┘
//! ```
//!
//! Text is emitted once [`WINDOW_BYTES`] more bytes have arrived after it, up to the end of a line, and never
//! up to the middle of a match. So a secret that is shorter than the window is found however it is split. If
//! a match is longer, the stream waits for its end until it holds [`MAX_HELD_BYTES`]; the rest of the secret
//! is then scanned as separate text.

use super::{FoundSecret, RedactionMode, Redactor, scan};

/// The number of bytes that must follow a text before it is emitted: the longest private key block and a
/// margin.
const WINDOW_BYTES: usize = super::private_key::MAX_BLOCK_BYTES + (4 << 10);
/// The maximum number of bytes that are held, apart from the newest chunk. Chosen by hand.
const MAX_HELD_BYTES: usize = 1 << 20;
/// The number of emitted bytes that are scanned again, because the name of a value may be among them. Chosen
/// by hand.
const CONTEXT_BYTES: usize = 2 << 10;

/// Redacts a text that arrives in chunks. [`Redactor::into_stream`] makes one.
pub struct StreamRedactor {
    redactor: Redactor,
    mode: RedactionMode,
    window: usize,
    buffer: Vec<u8>,
    /// The number of bytes at the beginning of `buffer` that were emitted already.
    emitted: usize,
    /// The offset of `buffer` in the whole input.
    offset: usize,
}

/// A part of the redacted text, and the secrets of the input that it replaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedactedChunk {
    /// The next bytes of the redacted text. Bytes that are not valid text are passed through.
    pub bytes: Vec<u8>,
    /// The secrets that were replaced, with offsets in the whole input.
    pub found: Vec<FoundSecret>,
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor, mode: RedactionMode) -> Self {
        Self::with_window(redactor, mode, WINDOW_BYTES)
    }

    /// Makes a stream that finds all secrets shorter than `window` bytes.
    pub(super) fn with_window(redactor: Redactor, mode: RedactionMode, window: usize) -> Self {
        Self { redactor, mode, window, buffer: Vec::new(), emitted: 0, offset: 0 }
    }

    /// Takes the next chunk and returns the text that can no longer change.
    pub fn push(&mut self, chunk: &[u8]) -> RedactedChunk {
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() < self.emitted + 2 * self.window {
            return RedactedChunk::default();
        }
        self.emit(InputState::MoreExpected)
    }

    /// Returns the rest of the text.
    #[must_use]
    pub fn finish(mut self) -> RedactedChunk {
        self.emit(InputState::Finished)
    }

    fn emit(&mut self, end: InputState) -> RedactedChunk {
        let findings = scan::find_secrets(&self.buffer, self.mode, &self.redactor.rules);
        let ranges: Vec<_> = findings.iter().map(|finding| (finding.start, finding.end)).collect();
        let cut = match end {
            InputState::Finished => self.buffer.len(),
            InputState::MoreExpected => self.cut_point(&ranges),
        };
        let mut piece = RedactedChunk::default();
        let mut copied = self.emitted;
        let mut mark = String::new();
        for finding in findings.iter().filter(|finding| finding.start >= self.emitted && finding.end <= cut) {
            piece.bytes.extend_from_slice(&self.buffer[copied..finding.start]);
            let secret = &self.buffer[finding.start..finding.end];
            mark.clear();
            self.redactor.tags.write_tag(finding.kind, secret, &mut mark);
            piece.bytes.extend_from_slice(mark.as_bytes());
            piece.found.push(FoundSecret {
                kind: finding.kind.to_owned(),
                start: self.offset + finding.start,
                end: self.offset + finding.end,
            });
            copied = finding.end;
        }
        piece.bytes.extend_from_slice(&self.buffer[copied.min(cut)..cut]);
        let dropped = cut.saturating_sub(CONTEXT_BYTES);
        self.buffer.drain(..dropped);
        self.offset += dropped;
        self.emitted = cut - dropped;
        piece
    }

    /// Returns the last offset before the window up to which text can be emitted: after a line or at least a
    /// word, and inside no match.
    fn cut_point(&self, findings: &[(usize, usize)]) -> usize {
        let limit = self.buffer.len().saturating_sub(self.window).max(self.emitted);
        let open = &self.buffer[self.emitted..limit];
        let line = memchr::memrchr(b'\n', open);
        let word = || open.iter().rposition(u8::is_ascii_whitespace);
        let cut = line.or_else(word).map_or(limit, |at| self.emitted + at + 1);
        let Some(&(start, end)) = findings.iter().find(|&&(start, end)| start < cut && cut < end) else {
            return cut;
        };
        if start >= self.emitted
            && (end == self.buffer.len() || start > self.emitted)
            && self.buffer.len() < MAX_HELD_BYTES
        {
            start
        } else {
            end
        }
    }
}

#[derive(Clone, Copy)]
enum InputState {
    MoreExpected,
    Finished,
}
