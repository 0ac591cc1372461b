//! Redaction of text that comes in chunks, in bounded memory.
//!
//! ```text
//! …given out │ context │ may still change │ newest chunk
//!                      └ WINDOW ──────────────────────┘
//! ```
//!
//! Text is given out once [`WINDOW`] more bytes have come behind it, up to a line end, and never through the middle of a
//! finding. So a secret is found however it is split, as long as it is shorter than the window. A longer one is waited
//! for until [`MOST`] bytes are held; what of it comes after that is text of its own.

use super::{Content, Found, Redactor, scan};

/// How far ahead the stream looks before it gives text out: the longest private key block.
const WINDOW: usize = super::blocks::BLOCK + (4 << 10);
/// How much text is held at most, the newest chunk aside.
const MOST: usize = 1 << 20;
/// How much of what was given out is looked at again, for the names that stand before values.
const CONTEXT: usize = 2 << 10;

/// A redactor in the middle of a text.
pub struct Stream {
    redactor: Redactor,
    content: Content,
    window: usize,
    held: Vec<u8>,
    /// How much of `held` was given out before.
    given: usize,
    /// Where `held` begins in the input.
    offset: usize,
}

/// What the stream gives out: redacted bytes, and what was found in the input that they stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// The next bytes of the redacted text. Bytes that are no text are the input's.
    pub bytes: Vec<u8>,
    /// The secrets they had, by their place in the whole input.
    pub found: Vec<Found>,
}

impl Stream {
    pub(super) fn new(redactor: Redactor, content: Content) -> Self {
        Self::with_window(redactor, content, WINDOW)
    }

    /// A stream that finds secrets shorter than `window`.
    pub(super) fn with_window(redactor: Redactor, content: Content, window: usize) -> Self {
        Self { redactor, content, window, held: Vec::new(), given: 0, offset: 0 }
    }

    /// Takes the next chunk and gives out what can no longer change.
    pub fn push(&mut self, chunk: &[u8]) -> Piece {
        self.held.extend_from_slice(chunk);
        if self.held.len() < self.given + 2 * self.window {
            return Piece::default();
        }
        self.give_out(End::Open)
    }

    /// Gives out the rest.
    #[must_use]
    pub fn finish(mut self) -> Piece {
        self.give_out(End::Closed)
    }

    fn give_out(&mut self, end: End) -> Piece {
        let findings = scan::secrets(&self.held, self.content, &self.redactor.rules);
        let ranges: Vec<_> = findings.iter().map(|finding| (finding.start, finding.end)).collect();
        let cut = match end {
            End::Closed => self.held.len(),
            End::Open => self.cut(&ranges),
        };
        let mut piece = Piece::default();
        let mut copied = self.given;
        let mut mark = String::new();
        for finding in findings.iter().filter(|finding| finding.start >= self.given && finding.end <= cut) {
            piece.bytes.extend_from_slice(&self.held[copied..finding.start]);
            let secret = &self.held[finding.start..finding.end];
            mark.clear();
            self.redactor.marks.write(finding.kind, secret, &mut mark);
            piece.bytes.extend_from_slice(mark.as_bytes());
            piece.found.push(Found {
                kind: finding.kind.to_owned(),
                start: self.offset + finding.start,
                end: self.offset + finding.end,
            });
            copied = finding.end;
        }
        piece.bytes.extend_from_slice(&self.held[copied.min(cut)..cut]);
        let dropped = cut.saturating_sub(CONTEXT);
        self.held.drain(..dropped);
        self.offset += dropped;
        self.given = cut - dropped;
        piece
    }

    /// The last place before the window where text can be given out: behind a line or at least a word, in no finding.
    fn cut(&self, findings: &[(usize, usize)]) -> usize {
        let limit = self.held.len().saturating_sub(self.window).max(self.given);
        let open = &self.held[self.given..limit];
        let line = memchr::memrchr(b'\n', open);
        let word = || open.iter().rposition(u8::is_ascii_whitespace);
        let cut = line.or_else(word).map_or(limit, |at| self.given + at + 1);
        let Some(&(start, end)) = findings.iter().find(|&&(start, end)| start < cut && cut < end) else {
            return cut;
        };
        if start >= self.given && (end == self.held.len() || start > self.given) && self.held.len() < MOST {
            start
        } else {
            end
        }
    }
}

#[derive(Clone, Copy)]
enum End {
    Open,
    Closed,
}
