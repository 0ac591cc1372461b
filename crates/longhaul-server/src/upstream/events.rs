//! Server-sent events out of bytes that come in pieces of any size.

/// One event: its data, which in all dialects is JSON or `[DONE]`. Its name says nothing that the data does not.
pub(crate) type Event = Vec<u8>;

/// Reads events as the standard says: lines end with `\n`, `\r\n` or `\r`, a blank one ends the event, and what is not ended is none.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_return: bool,
}

impl Events {
    /// The events that end in these bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for &byte in bytes {
            let second_half = byte == b'\n' && self.after_return;
            self.after_return = byte == b'\r';
            match byte {
                _ if second_half => {}
                b'\n' | b'\r' => events.extend(self.line_ends()),
                _ => self.line.push(byte),
            }
        }
        events
    }

    fn line_ends(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return std::mem::take(&mut self.has_data).then_some(data);
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.has_data = true;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        Events::default()
            .feed(text.as_bytes())
            .into_iter()
            .map(|data| String::from_utf8(data).unwrap())
            .collect()
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
    fn lines_end_in_three_ways_and_pieces_anywhere() {
        let text = "event: a\ndata: ä\n\ndata: b\ndata: c\n\n";
        for ending in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', ending);
            for cut in 0..=text.len() {
                let mut events = Events::default();
                let mut read = events.feed(&text.as_bytes()[..cut]);
                read.extend(events.feed(&text.as_bytes()[cut..]));
                assert_eq!(read, ["ä".as_bytes(), b"b\nc"], "{ending:?} cut at {cut}");
            }
        }
    }
}
