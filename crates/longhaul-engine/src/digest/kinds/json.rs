//! JSON: the shape, the counts, and the records that are not like the others.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, counted, number};
use crate::clip;
use crate::facts::FactKind;
use crate::lines::{Breaks, Line};
use crate::shape::{Document, Node, fields_of};
use std::borrow::Cow;

/// Records that are looked at for unusual values.
const MOST_UNUSUAL: usize = 40;

pub(in super::super) fn shows(page: &Page<'_>, sample: &Sample<'_>) -> bool {
    if page.breaks == Breaks::Escaped {
        return false;
    }
    // A document has been read for its facts already: it has keys or a length.
    let document = page.facts.found.iter().any(|fact| matches!(fact.kind, FactKind::Key | FactKind::Length));
    let opens = page.text.trim_start().starts_with(['{', '[']);
    let one_a_line =
        || sample.head.len() >= 2 && sample.head.iter().all(|line| line.trim_start().starts_with('{'));
    (opens && document) || (one_a_line() && Document::read_lines(page.text).is_some())
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let Some(document) = Document::read(page.text).or_else(|| Document::read_lines(page.text)) else {
        proposal.edges(page, 20, 10, 3.0);
        proposal.facts(page, Worth::READ);
        return;
    };
    let root = &document.root;
    proposal.lead.push(match (root.kinds.map, root.items.is_some()) {
        (true, _) => format!("map of {}", counted(root.count, "key")),
        (false, true) => format!("list of {}", counted(root.count, "item")),
        (false, false) => format!("object of {}", counted(root.fields.len(), "key")),
    });
    if document.cut {
        proposal.lead.push("cut off before its end".to_owned());
    }
    if root.kinds.map {
        proposal.note("first keys", 3.0, root.values.iter().map(|(key, _)| Cow::Borrowed(*key)));
    }
    records(page, "", &document, proposal);
    if let Some((key, inner)) = main_list(page.text, root) {
        records(page, key, &inner, proposal);
    }
    proposal.facts(page, Worth::READ);
    proposal.edges(page, 1, 0, 1.5);
}

/// The longest list of records in a field of the root: answers of services wrap what was asked for.
fn main_list<'a>(text: &'a str, root: &Node<'a>) -> Option<(&'a str, Document<'a>)> {
    let is_records = |node: &Node<'_>| {
        node.count >= 3 && node.items.as_ref().is_some_and(|items| !items.fields.is_empty())
    };
    let lists = root.fields.iter().filter(|(_, node)| is_records(node));
    let (name, _) = lists.max_by_key(|(_, node)| node.count)?;
    let (key, value) = fields_or_rest(text.trim_start(), name)?;
    Some((key, Document::read(value)?))
}

/// A field of a document and its text; where the document is cut off inside it, all that is left.
fn fields_or_rest<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let fields = fields_of(text);
    if let Some(field) = fields.iter().find(|(key, _)| *key == name) {
        return Some(*field);
    }
    let at = text.find(&format!("\"{name}\""))? + 1;
    let rest = text[at + name.len() + 1..].trim_start().strip_prefix(':')?.trim_start();
    Some((&text[at..at + name.len()], rest))
}

/// What the records of a list, or the object itself, are made of. `of` names the field that holds them.
fn records<'a>(page: &Page<'a>, of: &str, document: &Document<'a>, proposal: &mut Proposal<'a>) {
    let record = document.root.items.as_deref().unwrap_or(&document.root);
    let label = |what: &str| if of.is_empty() { what.to_owned() } else { format!("{what} of {of}") };
    proposal.note(label("keys"), 12.0, record.fields.iter().map(|(key, _)| Cow::Borrowed(*key)));
    proposal.note(
        label("values"),
        5.0,
        record
            .fields
            .iter()
            .filter_map(|(key, node)| Some(Cow::Owned::<str>(format!("{key} {}", told(node)?)))),
    );
    proposal.note(
        label("inside"),
        5.0,
        record
            .fields
            .iter()
            .filter_map(|(key, node)| Some(Cow::Owned::<str>(format!("{key}: {}", inside(node)?)))),
    );
    unusual(page, document, record, proposal);
}

/// The values of a field: counted where they repeat, by example where they do not.
fn told(node: &Node<'_>) -> Option<String> {
    if node.kinds.map {
        return None;
    }
    let (first, times) = node.values.first()?;
    let shown = |value: &str| clip::signed(value, 40).into_owned();
    if node.seen == 1 {
        return Some(shown(first));
    }
    let repeats = node.further == 0 && node.values.len() <= 4 && node.seen > node.values.len();
    if repeats {
        let values: Vec<_> = node
            .values
            .iter()
            .map(|(value, times)| format!("{} ×{}", shown(value), number(*times)))
            .collect();
        return Some(values.join(" | "));
    }
    if let Some(usual) = node.usual() {
        let times = node.values.iter().find(|(value, _)| *value == usual).map_or(0, |(_, times)| *times);
        return Some(format!("mostly {} ×{}", shown(usual), number(times)));
    }
    (*times <= 2).then(|| format!("e.g. {}", shown(first)))
}

/// What objects and lists in a field hold.
fn inside(node: &Node<'_>) -> Option<String> {
    let names =
        |node: &Node<'_>| node.fields.iter().take(12).map(|(key, _)| *key).collect::<Vec<_>>().join("/");
    let inner = node.items.as_deref();
    match (inner, node.kinds.map) {
        (Some(items), true) => Some(format!("{} with {}", counted(node.count, "key"), names(items))),
        (Some(items), false) if items.fields.is_empty() => Some(counted(node.count, "item")),
        (Some(items), false) => Some(format!("{} with {}", counted(node.count, "item"), names(items))),
        (None, _) if !node.fields.is_empty() => Some(names(node)),
        _ => None,
    }
}

/// Records in which a field does not have the value that it has in four of five others.
fn unusual<'a>(page: &Page<'a>, document: &Document<'a>, record: &Node<'a>, proposal: &mut Proposal<'a>) {
    let usual: Vec<(&str, &str)> =
        record.fields.iter().filter_map(|(key, node)| Some((*key, node.usual()?))).collect();
    if usual.is_empty() {
        return;
    }
    let mut found = 0;
    for text in &document.records {
        let fields = fields_of(text);
        let odd = fields
            .iter()
            .find(|(key, value)| usual.iter().any(|(name, usual)| name == key && value != usual));
        let Some((key, value)) = odd else { continue };
        let worth = 10.0 / (1.0 + f64::from(found) * 0.1);
        if text.contains('\n') {
            // A record over several lines: its first field, which tells which it is, and the odd one.
            if let Some((name, value)) = fields.first() {
                proposal.quote(pair(page, name, value), worth);
            }
            proposal.quote(pair(page, key, value), worth);
        } else {
            proposal.quote(Line { at: page.offset(text), text }, worth);
        }
        found += 1;
        if found as usize == MOST_UNUSUAL {
            return;
        }
    }
}

/// A field as it stands in the source, the first line of it.
fn pair<'a>(page: &Page<'a>, key: &'a str, value: &'a str) -> Line<'a> {
    let at = page.offset(key).saturating_sub(1);
    let end = page.offset(value) + value.len();
    let text = page.text.get(at..end).unwrap_or_default();
    Line { at, text: text.lines().next().unwrap_or_default() }
}
