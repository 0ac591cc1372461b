//! The shape of a JSON document: its keys, the number of items and the values, merged over all records of a
//! list.
//!
//! A truncated document gives the shape of the part that is there, and is reported as truncated, because
//! agents often truncate tool outputs. It may also have line breaks inside strings. The scanner for request
//! bodies (`json`) refuses both, so this module has its own reader.

use crate::json::find_string_end;
use crate::lines::{LineBreak, Lines};

/// The number of keys from which an object is treated as a map from IDs to values. The values of a map are
/// merged like the items of a list. Chosen by hand.
const MAX_FIELDS: usize = 48;
/// The number of different values of one field that are counted separately. Chosen by hand.
const MAX_VALUES: usize = 8;
/// The depth from which nested values are skipped, so that hostile input cannot overflow the stack. Chosen by
/// hand.
const MAX_DEPTH: usize = 48;

/// The shape of a document and its records.
#[derive(Debug, Default)]
pub struct Document<'a> {
    /// The shape of the root.
    pub root: ShapeNode<'a>,
    /// Whether the document ends before its last bracket is closed.
    pub is_truncated: bool,
    /// The JSON of each item of the root or, if the root is an object, of each of its values.
    pub records: Vec<&'a str>,
}

/// The merged shape of all values at the same place of a document.
#[derive(Debug, Default, Clone)]
pub struct ShapeNode<'a> {
    /// The number of values at this place.
    pub occurrences: usize,
    /// The fields of the objects at this place, in the order of their first occurrence.
    pub fields: Vec<(&'a str, ShapeNode<'a>)>,
    /// The merged shape of all items of the lists, or of all values of the maps, at this place.
    pub items: Option<Box<ShapeNode<'a>>>,
    /// The total number of items or, for maps, of keys.
    pub item_count: usize,
    /// The kinds of values at this place.
    pub kinds: SeenKinds,
    /// The scalars at this place in the order of their first occurrence, with the number of occurrences. For
    /// a map these are examples of its keys.
    pub values: Vec<(&'a str, usize)>,
    /// The number of scalars that are not in `values`, because it is limited.
    pub other_scalars: usize,
}

/// The kinds of values that occur at a place.
#[derive(Debug, Default, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "one flag a kind of JSON value is what the set is")]
pub struct SeenKinds {
    /// Objects with few keys.
    pub object: bool,
    /// Objects that map ids to values.
    pub map: bool,
    /// Lists.
    pub list: bool,
    /// Strings.
    pub text: bool,
    /// Numbers, booleans and nulls.
    pub other: bool,
}

impl<'a> Document<'a> {
    /// Parses one document. Returns `None` if the text is not JSON from its first character on.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut reader = ShapeReader { text, at: 0, records: Some(Vec::new()) };
        reader.skip_space();
        if !matches!(reader.peek(), Some(b'{' | b'[')) {
            return None;
        }
        let mut root = ShapeNode::default();
        let cut = match reader.read_value(&mut root, 0) {
            Ok(()) => {
                reader.skip_space();
                if reader.at < text.len() {
                    return None;
                }
                false
            }
            Err(ReadError::Truncated) => true,
            Err(ReadError::NotJson) => return None,
        };
        let records = reader.records.unwrap_or_default();
        let read_something = root.item_count > 0 || !root.fields.is_empty() || !cut;
        read_something.then_some(Self { root, is_truncated: cut, records })
    }

    /// Parses a text with one document on each line. Returns `None` if a line is not JSON or there are fewer
    /// than two.
    #[must_use]
    pub fn parse_lines(text: &'a str) -> Option<Self> {
        let mut item = ShapeNode::default();
        let (mut records, mut cut) = (Vec::new(), false);
        for line in Lines::new(text, LineBreak::Newline).map(|line| line.text.trim()).filter(|line| !line.is_empty()) {
            if cut {
                return None;
            }
            let mut reader = ShapeReader { text: line, at: 0, records: None };
            match reader.read_value(&mut item, 1) {
                Ok(()) if reader.at == line.len() => {}
                Err(ReadError::Truncated) => cut = true,
                _ => return None,
            }
            records.push(line);
        }
        let root = ShapeNode {
            occurrences: 1,
            item_count: records.len(),
            items: Some(Box::new(item)),
            ..ShapeNode::default()
        };
        (records.len() > 1).then_some(Self { root, is_truncated: cut, records })
    }
}

impl<'a> ShapeNode<'a> {
    /// Returns the value that makes up at least four fifths of the occurrences, if it occurs at least five
    /// times and there are other values.
    #[must_use]
    pub fn usual_value(&self) -> Option<&'a str> {
        let (value, times) = self.values.iter().max_by_key(|(_, times)| *times)?;
        let others = self.values.len() > 1 || self.other_scalars > 0;
        (others && *times >= 5 && times * 5 >= self.occurrences * 4).then_some(value)
    }

    /// Counts one more value at this place.
    pub(crate) fn add_value(&mut self, value: &'a str) {
        self.occurrences += 1;
        self.add_scalar(value, 1);
    }

    fn add_scalar(&mut self, text: &'a str, times: usize) {
        if let Some(value) = self.values.iter_mut().find(|(value, _)| *value == text) {
            value.1 += times;
        } else if self.values.len() < MAX_VALUES {
            self.values.push((text, times));
        } else {
            self.other_scalars += times;
        }
    }

    fn field_mut(&mut self, key: &'a str) -> &mut ShapeNode<'a> {
        if self.kinds.map {
            self.item_count += 1;
            return self.items.get_or_insert_default();
        }
        if let Some(at) = self.fields.iter().position(|(name, _)| *name == key) {
            return &mut self.fields[at].1;
        }
        self.fields.push((key, ShapeNode::default()));
        if self.fields.len() > MAX_FIELDS {
            self.kinds.map = true;
            self.item_count = self.fields.len();
            for (name, node) in &mut self.fields {
                // Only examples of a map's keys are kept.
                if self.values.len() < MAX_VALUES {
                    self.values.push((name, 1));
                }
                self.items.get_or_insert_default().merge(std::mem::take(node));
            }
            self.fields.clear();
            return self.items.get_or_insert_default();
        }
        let last = self.fields.len() - 1;
        &mut self.fields[last].1
    }

    fn merge(&mut self, other: Self) {
        self.occurrences += other.occurrences;
        self.item_count += other.item_count;
        self.other_scalars += other.other_scalars;
        self.kinds.object |= other.kinds.object;
        self.kinds.list |= other.kinds.list;
        self.kinds.text |= other.kinds.text;
        self.kinds.other |= other.kinds.other;
        for (key, node) in other.fields {
            self.field_mut(key).merge(node);
        }
        if let Some(items) = other.items {
            self.items.get_or_insert_default().merge(*items);
        }
        for (value, times) in other.values {
            self.add_scalar(value, times);
        }
    }
}

/// Parses the top-level fields of a record into names and JSON values. Fields after a syntax error are left
/// out.
#[must_use]
pub fn parse_fields(record: &str) -> Vec<(&str, &str)> {
    let mut reader = ShapeReader { text: record, at: 0, records: None };
    let mut fields = Vec::new();
    if reader.peek() != Some(b'{') {
        return fields;
    }
    reader.at += 1;
    loop {
        reader.skip_space();
        let Ok(key) = reader.read_string() else { return fields };
        reader.skip_space();
        if reader.peek() != Some(b':') {
            return fields;
        }
        reader.at += 1;
        reader.skip_space();
        let start = reader.at;
        if reader.skip_value().is_err() {
            return fields;
        }
        fields.push((key, &record[start..reader.at]));
        reader.skip_space();
        if reader.peek() != Some(b',') {
            return fields;
        }
        reader.at += 1;
    }
}

enum ReadError {
    Truncated,
    NotJson,
}

struct ShapeReader<'a> {
    text: &'a str,
    at: usize,
    /// The JSON of the root's items so far, if the caller wants them.
    records: Option<Vec<&'a str>>,
}

impl<'a> ShapeReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn read_value(&mut self, node: &mut ShapeNode<'a>, depth: usize) -> Result<(), ReadError> {
        node.occurrences += 1;
        match self.peek().ok_or(ReadError::Truncated)? {
            b'{' | b'[' if depth >= MAX_DEPTH => self.skip_value(),
            b'{' => self.read_object(node, depth),
            b'[' => self.read_list(node, depth),
            b'"' => {
                let start = self.at;
                self.read_string()?;
                node.kinds.text = true;
                node.add_scalar(&self.text[start..self.at], 1);
                Ok(())
            }
            _ => {
                let word = self.read_literal()?;
                node.kinds.other = true;
                node.add_scalar(word, 1);
                Ok(())
            }
        }
    }

    fn read_object(&mut self, node: &mut ShapeNode<'a>, depth: usize) -> Result<(), ReadError> {
        node.kinds.object = true;
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.skip_space();
            let key = self.read_string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let start = self.at;
            let child = node.field_mut(key);
            self.read_value(child, depth + 1)?;
            self.push_record(depth, start);
            self.skip_space();
            match self.expect_comma_or(b'}')? {
                b',' => {}
                _ => return Ok(()),
            }
        }
    }

    fn read_list(&mut self, node: &mut ShapeNode<'a>, depth: usize) -> Result<(), ReadError> {
        node.kinds.list = true;
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.skip_space();
            let start = self.at;
            let items: &mut ShapeNode<'a> = node.items.get_or_insert_default();
            self.read_value(items, depth + 1)?;
            node.item_count += 1;
            self.push_record(depth, start);
            self.skip_space();
            match self.expect_comma_or(b']')? {
                b',' => {}
                _ => return Ok(()),
            }
        }
    }

    fn push_record(&mut self, depth: usize, start: usize) {
        if depth == 0
            && let Some(records) = &mut self.records
        {
            records.push(&self.text[start..self.at]);
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), ReadError> {
        match self.peek() {
            None => Err(ReadError::Truncated),
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(ReadError::NotJson),
        }
    }

    fn expect_comma_or(&mut self, close: u8) -> Result<u8, ReadError> {
        match self.peek() {
            None => Err(ReadError::Truncated),
            Some(byte) if byte == b',' || byte == close => {
                self.at += 1;
                Ok(byte)
            }
            Some(_) => Err(ReadError::NotJson),
        }
    }

    /// Reads a string and returns its content without unescaping it.
    fn read_string(&mut self) -> Result<&'a str, ReadError> {
        self.expect(b'"')?;
        let start = self.at;
        let end = find_string_end(self.text.as_bytes(), start);
        self.at = end.map_or(self.text.len(), |end| end + 1);
        end.map(|end| &self.text[start..end]).ok_or(ReadError::Truncated)
    }

    /// Reads a number, `true`, `false` or `null`.
    fn read_literal(&mut self) -> Result<&'a str, ReadError> {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        let is_scalar =
            matches!(word, "true" | "false" | "null") || word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match (is_scalar, length == rest.len()) {
            (true, _) => Ok(word),
            (false, true) if !word.is_empty() => Err(ReadError::Truncated),
            _ => Err(ReadError::NotJson),
        }
    }

    /// Skips one value of any depth by counting brackets.
    fn skip_value(&mut self) -> Result<(), ReadError> {
        let mut open = 0usize;
        loop {
            match self.peek().ok_or(ReadError::Truncated)? {
                b'"' => {
                    self.read_string()?;
                }
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    open = open.checked_sub(1).ok_or(ReadError::NotJson)?;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                _ => {
                    self.read_literal()?;
                }
            }
            if open == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_list_are_merged() {
        let document = Document::parse(r#"[{"id":1,"ok":true},{"id":2,"ok":true},{"id":3,"ok":false}]"#).unwrap();
        let item = document.root.items.unwrap();
        assert_eq!((document.root.item_count, document.is_truncated, document.records.len()), (3, false, 3));
        assert_eq!(item.fields.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["id", "ok"]);
        assert_eq!(item.fields[1].1.values, [("true", 2), ("false", 1)]);
    }

    #[test]
    fn a_document_cut_anywhere_is_read_as_far_as_it_goes() {
        let whole = r#"{"name":"żółw","list":[1,2,{"a":null}],"more":{"x":"\"q\""}}"#;
        for (end, _) in whole.char_indices().skip(9) {
            let document = Document::parse(&whole[..end]).unwrap();
            assert!(document.is_truncated, "{}", &whole[..end]);
        }
        assert!(!Document::parse(whole).unwrap().is_truncated);
    }

    #[test]
    fn what_is_not_json_has_no_shape() {
        for text in ["", "hello", "{not json}", "[ERROR] it broke", "{\"a\":1} trailing", "[12:30:01] started"] {
            assert!(Document::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn many_keys_make_a_map() {
        let text = format!("{{{}}}", (0..100).map(|i| format!("\"k{i}\":{{\"v\":{i}}}")).collect::<Vec<_>>().join(","));
        let document = Document::parse(&text).unwrap();
        assert_eq!((document.root.kinds.map, document.root.item_count, document.records.len()), (true, 100, 100));
    }

    #[test]
    fn one_document_a_line() {
        let document = Document::parse_lines("{\"a\":1}\n{\"a\":2}\n{\"a\":3").unwrap();
        assert_eq!((document.root.item_count, document.is_truncated), (3, true));
        assert!(Document::parse_lines("{\"a\":1}\nnot json\n").is_none());
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        let text = "[".repeat(200_000);
        assert!(Document::parse(&text).is_none_or(|document| document.is_truncated));
    }
}
