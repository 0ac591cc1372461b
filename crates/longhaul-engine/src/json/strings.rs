//! The strings of a document, without a tree and without a claim that all of it is JSON.

use std::ops::Range;

/// A string that is a value: the bytes between its quotes, and those of the name of the field that it stands in.
pub(crate) struct StringValue {
    pub(crate) name: Range<usize>,
    pub(crate) text: Range<usize>,
    /// Whether it is itself the name of a field.
    pub(crate) is_name: bool,
}

/// Walks over the strings of a document that are values.
pub(crate) struct Strings<'j> {
    bytes: &'j [u8],
    at: usize,
    /// The name in force in each open object or array; an array goes by the name it has itself.
    names: Vec<Range<usize>>,
    gives_names: bool,
}

impl<'j> Strings<'j> {
    pub(crate) fn of(document: &'j str) -> Self {
        Self { bytes: document.as_bytes(), at: 0, names: Vec::new(), gives_names: false }
    }

    /// The same with the names of fields among them.
    pub(crate) fn and_names(document: &'j str) -> Self {
        Self { gives_names: true, ..Self::of(document) }
    }
}

impl Iterator for Strings<'_> {
    type Item = StringValue;

    fn next(&mut self) -> Option<StringValue> {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' | b'[' => self.names.push(self.names.last().cloned().unwrap_or(0..0)),
                b'}' | b']' => drop(self.names.pop()),
                b'"' => {
                    let text = self.at..string_end(self.bytes, self.at).unwrap_or(self.bytes.len());
                    self.at = (text.end + 1).min(self.bytes.len());
                    let after = self.bytes[self.at..].iter().find(|byte| !byte.is_ascii_whitespace());
                    if after == Some(&b':') {
                        if let Some(name) = self.names.last_mut() {
                            *name = text.clone();
                        }
                        if self.gives_names {
                            return Some(StringValue { name: text.clone(), text, is_name: true });
                        }
                        continue;
                    }
                    let name = self.names.last().cloned().unwrap_or(0..0);
                    return Some(StringValue { name, text, is_name: false });
                }
                _ => {}
            }
        }
        None
    }
}

/// Where the quote is that ends the string whose inside begins at `from`; none where the document ends before it.
pub(crate) fn string_end(document: &[u8], from: usize) -> Option<usize> {
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

    fn shown(document: &str) -> Vec<(&str, &str)> {
        Strings::of(document).map(|found| (&document[found.name], &document[found.text])).collect()
    }

    #[test]
    fn strings_that_are_values_go_by_the_name_of_their_field() {
        let document = r#"{"a" : "x\"y", "b":[1,"z",{"c":"é"},["w"]], "d":{}}"#;
        assert_eq!(shown(document), [("a", r#"x\"y"#), ("b", "z"), ("c", "é"), ("b", "w")]);
        assert_eq!(shown(r#""alone""#), [("", "alone")]);
    }

    #[test]
    fn what_is_cut_off_or_no_json_is_read_as_far_as_it_goes() {
        assert_eq!(shown(r#"{"a":"x\"#), [("a", r"x\")]);
        assert_eq!(shown(r#"]}"a"#), [("", "a")]);
        assert_eq!(shown(""), []);
    }
}
