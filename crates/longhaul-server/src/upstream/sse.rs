//! Decodes server-sent events from bytes that arrive in pieces of any size, without losing a byte.

use memchr::memchr2;

/// The start of a line with data.
const DATA_PREFIX: &[u8] = b"data:";

/// One server-sent event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The bytes of the event, including the blank line that ends it. If a piece ends between `\r` and `\n`, the
    /// `\n` belongs to the next event.
    pub(crate) raw: Vec<u8>,
    /// The data of the event, which is JSON or `[DONE]` in all API formats; none for a comment. The event's name
    /// is dropped, because the data repeats it.
    pub(crate) data: Option<Vec<u8>>,
}

/// Decodes events as the standard defines them: a line ends with `\n`, `\r\n` or `\r`, and an empty line ends
/// the event.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    /// The bytes of the current event.
    raw: Vec<u8>,
    /// The position in `raw` at which the current line begins.
    line_start: usize,
    data: Option<Vec<u8>>,
    is_after_return: bool,
}

impl SseDecoder {
    /// Decodes the next bytes, and returns the events that end in them.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        let mut rest = self.end_return(bytes);
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            self.raw.extend_from_slice(&rest[..end]);
            let is_blank = self.end_line();
            self.raw.push(rest[end]);
            self.is_after_return = rest[end] == b'\r';
            rest = self.end_return(&rest[end + 1..]);
            self.line_start = self.raw.len();
            if is_blank {
                self.line_start = 0;
                events.push(SseEvent { raw: std::mem::take(&mut self.raw), data: self.data.take() });
            }
        }
        self.raw.extend_from_slice(rest);
        events
    }

    /// Adds a `\n` that completes the line ending `\r\n`, and returns the other bytes.
    fn end_return<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        match bytes {
            [b'\n', rest @ ..] if self.is_after_return => {
                self.raw.push(b'\n');
                (self.line_start, self.is_after_return) = (self.raw.len(), false);
                rest
            }
            [] => bytes,
            _ => {
                self.is_after_return = false;
                bytes
            }
        }
    }

    /// Reads the current line, which is complete. Returns whether it is blank.
    fn end_line(&mut self) -> bool {
        let line = &self.raw[self.line_start..];
        if let Some(value) = line.strip_prefix(DATA_PREFIX) {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => data.extend([b"\n", value].concat()),
                None => self.data = Some(value.to_vec()),
            }
        }
        line.is_empty()
    }

    /// Whether the newest bytes are within a line.
    pub(crate) fn is_in_line(&self) -> bool {
        self.line_start < self.raw.len()
    }

    /// Whether the event that is not complete yet has data.
    pub(crate) fn has_data(&self) -> bool {
        self.data.is_some() || self.raw[self.line_start..].starts_with(DATA_PREFIX)
    }

    /// Forgets the text of the current event, so that an endless one takes no memory. What is left is enough to
    /// decide [`is_in_line`](Self::is_in_line) and [`has_data`](Self::has_data).
    pub(crate) fn forget_text(&mut self) {
        self.raw.drain(..std::mem::take(&mut self.line_start));
        self.raw.truncate(DATA_PREFIX.len());
        self.data = self.data.take().map(|_| Vec::new());
    }

    /// Takes the bytes of the last event, which is not complete.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(self).raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let events = SseDecoder::default().feed(text.as_bytes());
        events.into_iter().filter_map(|event| event.data).map(|data| String::from_utf8(data).unwrap()).collect()
    }

    #[test]
    fn data_of_an_event_is_what_its_lines_say() {
        assert_eq!(read("data: one\n\n"), ["one"]);
        assert_eq!(read("event: x\ndata:one\ndata:  two\nid: 3\n\n"), ["one\n two"]);
        assert_eq!(read(": a comment\n\nevent: ping\n\nretry: 10\n\n"), [""; 0]);
        assert_eq!(read("data:\n\n"), [""]);
        assert_eq!(read("data: one\n\ndata: not ended\n"), ["one"]);
    }

    #[test]
    fn lines_end_in_three_ways_and_pieces_anywhere_and_no_byte_is_lost() {
        let text = "event: a\ndata: ä\n\n: ping\n\ndata: b\ndata: c\n\ndata: open";
        for ending in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', ending);
            for cut in 0..=text.len() {
                let mut decoder = SseDecoder::default();
                let mut events = decoder.feed(&text.as_bytes()[..cut]);
                events.extend(decoder.feed(b""));
                events.extend(decoder.feed(&text.as_bytes()[cut..]));
                let mut bytes: Vec<u8> = events.iter().flat_map(|event| event.raw.clone()).collect();
                bytes.extend(decoder.take_rest());
                assert_eq!(bytes, text.as_bytes(), "{ending:?} cut at {cut}");
                let data: Vec<Option<Vec<u8>>> = events.into_iter().map(|event| event.data).collect();
                let expected = [Some("ä".as_bytes().to_vec()), None, Some(b"b\nc".to_vec())];
                assert_eq!(data, expected, "{ending:?} cut at {cut}");
            }
        }
    }
}
