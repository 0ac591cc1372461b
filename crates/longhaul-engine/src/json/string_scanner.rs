//! Iterates over the strings of a JSON document without a tree. The document may be cut off or invalid.

use std::ops::Range;

/// A string of the document: the bytes between its quotes, and the key of the field that contains it.
pub(crate) struct ScannedString {
    pub(crate) key: Range<usize>,
    pub(crate) text: Range<usize>,
    /// Whether the string is itself a key.
    pub(crate) is_key: bool,
}

/// An iterator over the strings of a document.
pub(crate) struct StringScanner<'j> {
    bytes: &'j [u8],
    at: usize,
    /// The current key of each open object or array. An array inherits the key of the field that contains it.
    open_keys: Vec<Range<usize>>,
    yields_keys: bool,
}

impl<'j> StringScanner<'j> {
    pub(crate) fn values(document: &'j str) -> Self {
        Self { bytes: document.as_bytes(), at: 0, open_keys: Vec::new(), yields_keys: false }
    }

    /// Iterates over the keys as well as the values.
    pub(crate) fn keys_and_values(document: &'j str) -> Self {
        Self { yields_keys: true, ..Self::values(document) }
    }
}

impl Iterator for StringScanner<'_> {
    type Item = ScannedString;

    fn next(&mut self) -> Option<ScannedString> {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' | b'[' => self.open_keys.push(self.open_keys.last().cloned().unwrap_or(0..0)),
                b'}' | b']' => drop(self.open_keys.pop()),
                b'"' => {
                    let text = self.at..find_string_end(self.bytes, self.at).unwrap_or(self.bytes.len());
                    self.at = (text.end + 1).min(self.bytes.len());
                    let after = self.bytes[self.at..].iter().find(|byte| !byte.is_ascii_whitespace());
                    if after == Some(&b':') {
                        if let Some(name) = self.open_keys.last_mut() {
                            *name = text.clone();
                        }
                        if self.yields_keys {
                            return Some(ScannedString { key: text.clone(), text, is_key: true });
                        }
                        continue;
                    }
                    let name = self.open_keys.last().cloned().unwrap_or(0..0);
                    return Some(ScannedString { key: name, text, is_key: false });
                }
                _ => {}
            }
        }
        None
    }
}

/// Returns the position of the closing quote of the string whose text begins at `from`, or `None` if the
/// document ends first.
pub(crate) fn find_string_end(document: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', document.get(at..)?)?;
        if document[found] == b'"' {
            return Some(found);
        }
        at = found + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_and_texts(document: &str) -> Vec<(&str, &str)> {
        StringScanner::values(document).map(|found| (&document[found.key], &document[found.text])).collect()
    }

    #[test]
    fn strings_that_are_values_go_by_the_name_of_their_field() {
        let document = r#"{"a" : "x\"y", "b":[1,"z",{"c":"é"},["w"]], "d":{}}"#;
        assert_eq!(keys_and_texts(document), [("a", r#"x\"y"#), ("b", "z"), ("c", "é"), ("b", "w")]);
        assert_eq!(keys_and_texts(r#""alone""#), [("", "alone")]);
    }

    #[test]
    fn what_is_cut_off_or_no_json_is_read_as_far_as_it_goes() {
        assert_eq!(keys_and_texts(r#"{"a":"x\"#), [("a", r"x\")]);
        assert_eq!(keys_and_texts(r#"]}"a"#), [("", "a")]);
        assert_eq!(keys_and_texts(""), []);
    }
}
