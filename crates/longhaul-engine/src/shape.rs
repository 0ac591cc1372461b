//! The shape of a JSON document: which keys, how many items, which values, merged over all records of a list.
//!
//! Reading never fails. A document that is cut off in the middle gives the shape of what is there and says so, because tool
//! outputs are often cut by the agent that ran the tool; that, and line breaks inside of strings, the scanner of bodies refuses.
//!
//! It may use `json` and `lines`.

use crate::json::string_end;
use crate::lines::{Breaks, Lines};

/// An object with more keys than this is a map from ids to values, and its values are merged like the items of a list.
const MOST_FIELDS: usize = 48;
/// So many different values of one field are told apart and counted.
const MOST_VALUES: usize = 8;
/// Deeper nesting than this is skipped over, so that hostile input costs no stack.
const MOST_DEPTH: usize = 48;

/// What was read of a document.
#[derive(Debug, Default)]
pub struct Document<'a> {
    /// The shape of the root.
    pub root: Node<'a>,
    /// Whether it ends before it is closed.
    pub cut: bool,
    /// The texts of the root's items or, if it is a map, of its values.
    pub records: Vec<&'a str>,
}

/// What is known of all the values that stand at one place.
#[derive(Debug, Default, Clone)]
pub struct Node<'a> {
    /// How many values stood here.
    pub seen: usize,
    /// Fields of the objects here, in order of first sight.
    pub fields: Vec<(&'a str, Node<'a>)>,
    /// The items of the lists here, or the values of the maps here, as one.
    pub items: Option<Box<Node<'a>>>,
    /// How many items or, if this is a map, keys there are in all.
    pub count: usize,
    /// Which kinds of values were seen.
    pub kinds: Kinds,
    /// Scalars in order of first sight, with how often each was seen.
    pub values: Vec<(&'a str, usize)>,
    /// Scalars beyond those told apart.
    pub further: usize,
}

/// The kinds of values seen at a place.
#[derive(Debug, Default, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "one flag a kind of JSON value is what the set is")]
pub struct Kinds {
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
    /// Reads one document. Nothing, if the text is not JSON from its first character on.
    #[must_use]
    pub fn read(text: &'a str) -> Option<Self> {
        let mut reader = Reader { text, at: 0, records: Some(Vec::new()) };
        reader.space();
        if !matches!(reader.peek(), Some(b'{' | b'[')) {
            return None;
        }
        let mut root = Node::default();
        let cut = match reader.value(&mut root, 0) {
            Ok(()) => {
                reader.space();
                if reader.at < text.len() {
                    return None;
                }
                false
            }
            Err(Stop::End) => true,
            Err(Stop::NotJson) => return None,
        };
        let records = reader.records.unwrap_or_default();
        let read_something = root.count > 0 || !root.fields.is_empty() || !cut;
        read_something.then_some(Self { root, cut, records })
    }

    /// Reads one document a line. Nothing, if a line among them is none.
    #[must_use]
    pub fn read_lines(text: &'a str) -> Option<Self> {
        let mut item = Node::default();
        let (mut records, mut cut) = (Vec::new(), false);
        for line in
            Lines::new(text, Breaks::Newline).map(|line| line.text.trim()).filter(|line| !line.is_empty())
        {
            if cut {
                return None;
            }
            let mut reader = Reader { text: line, at: 0, records: None };
            match reader.value(&mut item, 1) {
                Ok(()) if reader.at == line.len() => {}
                Err(Stop::End) => cut = true,
                _ => return None,
            }
            records.push(line);
        }
        let root = Node { seen: 1, count: records.len(), items: Some(Box::new(item)), ..Node::default() };
        (records.len() > 1).then_some(Self { root, cut, records })
    }
}

impl<'a> Node<'a> {
    /// The value that stands here four times in five or more, if there is one and there are others.
    #[must_use]
    pub fn usual(&self) -> Option<&'a str> {
        let (value, times) = self.values.iter().max_by_key(|(_, times)| *times)?;
        let others = self.values.len() > 1 || self.further > 0;
        (others && *times >= 5 && times * 5 >= self.seen * 4).then_some(value)
    }

    /// Counts a value that stands here.
    pub(crate) fn count(&mut self, value: &'a str) {
        self.seen += 1;
        self.scalar(value, 1);
    }

    fn scalar(&mut self, text: &'a str, times: usize) {
        if let Some(value) = self.values.iter_mut().find(|(value, _)| *value == text) {
            value.1 += times;
        } else if self.values.len() < MOST_VALUES {
            self.values.push((text, times));
        } else {
            self.further += times;
        }
    }

    fn field(&mut self, key: &'a str) -> &mut Node<'a> {
        if self.kinds.map {
            self.count += 1;
            return self.items.get_or_insert_default();
        }
        if let Some(at) = self.fields.iter().position(|(name, _)| *name == key) {
            return &mut self.fields[at].1;
        }
        self.fields.push((key, Node::default()));
        if self.fields.len() > MOST_FIELDS {
            self.kinds.map = true;
            self.count = self.fields.len();
            for (name, node) in &mut self.fields {
                // The keys of a map are told by example only.
                if self.values.len() < MOST_VALUES {
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
        self.seen += other.seen;
        self.count += other.count;
        self.further += other.further;
        self.kinds.object |= other.kinds.object;
        self.kinds.list |= other.kinds.list;
        self.kinds.text |= other.kinds.text;
        self.kinds.other |= other.kinds.other;
        for (key, node) in other.fields {
            self.field(key).merge(node);
        }
        if let Some(items) = other.items {
            self.items.get_or_insert_default().merge(*items);
        }
        for (value, times) in other.values {
            self.scalar(value, times);
        }
    }
}

/// The fields of one record's top level with their texts; what follows a fault is left out.
#[must_use]
pub fn fields_of(record: &str) -> Vec<(&str, &str)> {
    let mut reader = Reader { text: record, at: 0, records: None };
    let mut fields = Vec::new();
    if reader.peek() != Some(b'{') {
        return fields;
    }
    reader.at += 1;
    loop {
        reader.space();
        let Ok(key) = reader.string() else { return fields };
        reader.space();
        if reader.peek() != Some(b':') {
            return fields;
        }
        reader.at += 1;
        reader.space();
        let start = reader.at;
        if reader.skip().is_err() {
            return fields;
        }
        fields.push((key, &record[start..reader.at]));
        reader.space();
        if reader.peek() != Some(b',') {
            return fields;
        }
        reader.at += 1;
    }
}

enum Stop {
    End,
    NotJson,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The texts of the root's items, where they are wanted.
    records: Option<Vec<&'a str>>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn value(&mut self, node: &mut Node<'a>, depth: usize) -> Result<(), Stop> {
        node.seen += 1;
        match self.peek().ok_or(Stop::End)? {
            b'{' | b'[' if depth >= MOST_DEPTH => self.skip(),
            b'{' => self.object(node, depth),
            b'[' => self.list(node, depth),
            b'"' => {
                let start = self.at;
                self.string()?;
                node.kinds.text = true;
                node.scalar(&self.text[start..self.at], 1);
                Ok(())
            }
            _ => {
                let word = self.word()?;
                node.kinds.other = true;
                node.scalar(word, 1);
                Ok(())
            }
        }
    }

    fn object(&mut self, node: &mut Node<'a>, depth: usize) -> Result<(), Stop> {
        node.kinds.object = true;
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.expect(b':')?;
            self.space();
            let start = self.at;
            let child = node.field(key);
            self.value(child, depth + 1)?;
            self.record(depth, start);
            self.space();
            match self.next_or(b'}')? {
                b',' => {}
                _ => return Ok(()),
            }
        }
    }

    fn list(&mut self, node: &mut Node<'a>, depth: usize) -> Result<(), Stop> {
        node.kinds.list = true;
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            let start = self.at;
            let items: &mut Node<'a> = node.items.get_or_insert_default();
            self.value(items, depth + 1)?;
            node.count += 1;
            self.record(depth, start);
            self.space();
            match self.next_or(b']')? {
                b',' => {}
                _ => return Ok(()),
            }
        }
    }

    fn record(&mut self, depth: usize, start: usize) {
        if depth == 0
            && let Some(records) = &mut self.records
        {
            records.push(&self.text[start..self.at]);
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        match self.peek() {
            None => Err(Stop::End),
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Stop::NotJson),
        }
    }

    fn next_or(&mut self, close: u8) -> Result<u8, Stop> {
        match self.peek() {
            None => Err(Stop::End),
            Some(byte) if byte == b',' || byte == close => {
                self.at += 1;
                Ok(byte)
            }
            Some(_) => Err(Stop::NotJson),
        }
    }

    /// The inside of a string, as it stands.
    fn string(&mut self) -> Result<&'a str, Stop> {
        self.expect(b'"')?;
        let start = self.at;
        let end = string_end(self.text.as_bytes(), start);
        self.at = end.map_or(self.text.len(), |end| end + 1);
        end.map(|end| &self.text[start..end]).ok_or(Stop::End)
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<&'a str, Stop> {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        let known = matches!(word, "true" | "false" | "null")
            || word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match (known, length == rest.len()) {
            (true, _) => Ok(word),
            (false, true) if !word.is_empty() => Err(Stop::End),
            _ => Err(Stop::NotJson),
        }
    }

    /// Past one value of any depth, by counting brackets.
    fn skip(&mut self) -> Result<(), Stop> {
        let mut open = 0usize;
        loop {
            match self.peek().ok_or(Stop::End)? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    open = open.checked_sub(1).ok_or(Stop::NotJson)?;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                _ => {
                    self.word()?;
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
        let document =
            Document::read(r#"[{"id":1,"ok":true},{"id":2,"ok":true},{"id":3,"ok":false}]"#).unwrap();
        let item = document.root.items.unwrap();
        assert_eq!((document.root.count, document.cut, document.records.len()), (3, false, 3));
        assert_eq!(item.fields.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["id", "ok"]);
        assert_eq!(item.fields[1].1.values, [("true", 2), ("false", 1)]);
    }

    #[test]
    fn a_document_cut_anywhere_is_read_as_far_as_it_goes() {
        let whole = r#"{"name":"żółw","list":[1,2,{"a":null}],"more":{"x":"\"q\""}}"#;
        for (end, _) in whole.char_indices().skip(9) {
            let document = Document::read(&whole[..end]).unwrap();
            assert!(document.cut, "{}", &whole[..end]);
        }
        assert!(!Document::read(whole).unwrap().cut);
    }

    #[test]
    fn what_is_not_json_has_no_shape() {
        for text in
            ["", "hello", "{not json}", "[ERROR] it broke", "{\"a\":1} trailing", "[12:30:01] started"]
        {
            assert!(Document::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn many_keys_make_a_map() {
        let text = format!(
            "{{{}}}",
            (0..100).map(|i| format!("\"k{i}\":{{\"v\":{i}}}")).collect::<Vec<_>>().join(",")
        );
        let document = Document::read(&text).unwrap();
        assert_eq!((document.root.kinds.map, document.root.count, document.records.len()), (true, 100, 100));
    }

    #[test]
    fn one_document_a_line() {
        let document = Document::read_lines("{\"a\":1}\n{\"a\":2}\n{\"a\":3").unwrap();
        assert_eq!((document.root.count, document.cut), (3, true));
        assert!(Document::read_lines("{\"a\":1}\nnot json\n").is_none());
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        let text = "[".repeat(200_000);
        assert!(Document::read(&text).is_none_or(|document| document.cut));
    }
}
