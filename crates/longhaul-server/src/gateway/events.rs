//! A stream of events as it is written, one after the other: what is not changed is handed on to the last byte.

use crate::upstream::Events;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Its bytes, with the blank line that ends it.
    pub(super) raw: Vec<u8>,
    /// What it says; nothing of a comment.
    pub(super) data: Option<Vec<u8>>,
}

/// Cuts a stream between its events.
#[derive(Default)]
pub(super) struct Split {
    raw: Vec<u8>,
    events: Events,
    /// Whether the line that is not ended has anything in it.
    in_line: bool,
    after_return: bool,
    /// Whether a blank line has ended an event, whose line break may have a second half.
    is_ended: bool,
}

impl Split {
    /// The events that end in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut found = Vec::new();
        for &byte in bytes {
            let second_half = byte == b'\n' && self.after_return;
            if self.is_ended && !second_half {
                found.push(self.cut());
            }
            self.raw.push(byte);
            self.after_return = byte == b'\r';
            match byte {
                _ if second_half => {}
                b'\n' | b'\r' => self.is_ended = !std::mem::replace(&mut self.in_line, false),
                _ => self.in_line = true,
            }
            // Nobody waits for a second half that may not come, but behind `\r` it may.
            if self.is_ended && byte == b'\n' {
                found.push(self.cut());
            }
        }
        found
    }

    fn cut(&mut self) -> Event {
        self.is_ended = false;
        let raw = std::mem::take(&mut self.raw);
        let mut data = self.events.feed(&raw);
        Event { data: data.pop(), raw }
    }

    /// What has come of an event that is not ended.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_ends_lines_and_wherever_pieces_end_no_byte_is_lost() {
        let text = "event: a\ndata: 1\n\n: ping\n\ndata: 2\ndata: 3\n\n";
        for ending in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', ending);
            for cut in 0..=text.len() {
                let mut split = Split::default();
                let mut found = split.feed(&text.as_bytes()[..cut]);
                found.extend(split.feed(&text.as_bytes()[cut..]));
                let mut bytes: Vec<u8> = found.iter().flat_map(|event| event.raw.clone()).collect();
                bytes.extend(split.rest());
                assert_eq!(bytes, text.as_bytes(), "{ending:?} cut at {cut}");
                let data: Vec<Vec<u8>> = found.into_iter().filter_map(|event| event.data).collect();
                let expected: &[&[u8]] = if ending == "\r" { &[b"1"] } else { &[b"1", b"2\n3"] };
                assert_eq!(data, expected, "{ending:?} cut at {cut}");
            }
        }
    }
}
