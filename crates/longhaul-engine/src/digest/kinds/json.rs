//! JSON: keeps the structure, the counts, and the records that differ from the others.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, count_with_noun, decay, format_count};
use super::super::weights::{self as all, json as weights};
use crate::facts::FactKind;
use crate::lines::{Line, LineBreak};
use crate::shape::{Document, ShapeNode, parse_fields};
use crate::truncate;
use std::borrow::Cow;

pub(in super::super) fn recognizes(output: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    if output.breaks == LineBreak::EscapedNewline {
        return false;
    }
    // The facts were collected before. Only those of a JSON document have keys or a length.
    let document = output.facts.all.iter().any(|fact| matches!(fact.kind, FactKind::Key | FactKind::ListLength));
    let opens = output.text.trim_start().starts_with(['{', '[']);
    let one_a_line = || sample.head.len() >= 2 && sample.head.iter().all(|line| line.trim_start().starts_with('{'));
    (opens && document) || (one_a_line() && Document::parse_lines(output.text).is_some())
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let Some(document) = Document::parse(output.text).or_else(|| Document::parse_lines(output.text)) else {
        proposal.add_edges(output, &all::PLAIN_EDGES);
        proposal.add_facts(output, all::READ_FACTS);
        return;
    };
    let root = &document.root;
    proposal.head_facts.push(match (root.kinds.map, root.items.is_some()) {
        (true, _) => format!("map of {}", count_with_noun(root.item_count, "key")),
        (false, true) => format!("list of {}", count_with_noun(root.item_count, "item")),
        (false, false) => format!("object of {}", count_with_noun(root.fields.len(), "key")),
    });
    if document.is_truncated {
        proposal.head_facts.push("cut off before its end".to_owned());
    }
    if root.kinds.map {
        proposal.add_list(
            "first keys",
            weights::FIRST_KEYS_VALUE,
            root.values.iter().map(|(key, _)| Cow::Borrowed(*key)),
        );
    }
    propose_records(output, "", &document, proposal);
    if let Some((key, inner)) = longest_record_list(output.text, root) {
        propose_records(output, key, &inner, proposal);
    }
    proposal.add_facts(output, all::READ_FACTS);
    proposal.add_edges(output, &weights::EDGES);
}

/// Returns the longest list of records in a field of the root, because services wrap the requested list in an
/// object.
fn longest_record_list<'a>(text: &'a str, root: &ShapeNode<'a>) -> Option<(&'a str, Document<'a>)> {
    let is_records = |node: &ShapeNode<'_>| {
        node.item_count >= weights::MIN_RECORDS && node.items.as_ref().is_some_and(|items| !items.fields.is_empty())
    };
    let lists = root.fields.iter().filter(|(_, node)| is_records(node));
    let (name, _) = lists.max_by_key(|(_, node)| node.item_count)?;
    let (key, value) = find_field(text.trim_start(), name)?;
    Some((key, Document::parse(value)?))
}

/// Returns a field of a document with its text. If the document is cut off inside the field, returns the rest
/// of the text.
fn find_field<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let fields = parse_fields(text);
    if let Some(field) = fields.iter().find(|(key, _)| *key == name) {
        return Some(*field);
    }
    let at = text.find(&format!("\"{name}\""))? + 1;
    let rest = text[at + name.len() + 1..].trim_start().strip_prefix(':')?.trim_start();
    Some((&text[at..at + name.len()], rest))
}

/// Proposes the keys and values of a list's records, or of the object itself. `of` is the name of the field
/// with the list, or empty.
fn propose_records<'a>(
    output: &ParsedOutput<'a>,
    of: &str,
    document: &Document<'a>,
    proposal: &mut DigestProposal<'a>,
) {
    let record = document.root.items.as_deref().unwrap_or(&document.root);
    let label = |what: &str| if of.is_empty() { what.to_owned() } else { format!("{what} of {of}") };
    proposal.add_list(label("keys"), weights::KEYS_VALUE, record.fields.iter().map(|(key, _)| Cow::Borrowed(*key)));
    proposal.add_list(
        label("values"),
        weights::FIELDS_VALUE,
        record
            .fields
            .iter()
            .filter_map(|(key, node)| Some(Cow::Owned::<str>(format!("{key} {}", describe_values(node)?)))),
    );
    proposal.add_list(
        label("inside"),
        weights::FIELDS_VALUE,
        record
            .fields
            .iter()
            .filter_map(|(key, node)| Some(Cow::Owned::<str>(format!("{key}: {}", describe_contents(node)?)))),
    );
    propose_unusual_records(output, document, record, proposal);
}

/// Describes the values of a field: with counts if they repeat, otherwise with an example.
fn describe_values(node: &ShapeNode<'_>) -> Option<String> {
    if node.kinds.map {
        return None;
    }
    let (first, times) = node.values.first()?;
    let shown = |value: &str| truncate::truncate_with_ellipsis(value, weights::MAX_VALUE_CHARS).into_owned();
    if node.occurrences == 1 {
        return Some(shown(first));
    }
    let repeats = node.other_scalars == 0
        && node.values.len() <= weights::MAX_LISTED_VALUES
        && node.occurrences > node.values.len();
    if repeats {
        let values: Vec<_> =
            node.values.iter().map(|(value, times)| format!("{} ×{}", shown(value), format_count(*times))).collect();
        return Some(values.join(" | "));
    }
    if let Some(usual) = node.usual_value() {
        let times = node.values.iter().find(|(value, _)| *value == usual).map_or(0, |(_, times)| *times);
        return Some(format!("mostly {} ×{}", shown(usual), format_count(times)));
    }
    (*times <= weights::MAX_EXAMPLE_TIMES).then(|| format!("e.g. {}", shown(first)))
}

/// Describes the objects or lists in a field.
fn describe_contents(node: &ShapeNode<'_>) -> Option<String> {
    let names = |node: &ShapeNode<'_>| {
        node.fields.iter().take(weights::MAX_INNER_KEYS).map(|(key, _)| *key).collect::<Vec<_>>().join("/")
    };
    let inner = node.items.as_deref();
    match (inner, node.kinds.map) {
        (Some(items), true) => Some(format!("{} with {}", count_with_noun(node.item_count, "key"), names(items))),
        (Some(items), false) if items.fields.is_empty() => Some(count_with_noun(node.item_count, "item")),
        (Some(items), false) => Some(format!("{} with {}", count_with_noun(node.item_count, "item"), names(items))),
        (None, _) if !node.fields.is_empty() => Some(names(node)),
        _ => None,
    }
}

/// Proposes the records in which a field differs from the value that at least four of five records have.
fn propose_unusual_records<'a>(
    output: &ParsedOutput<'a>,
    document: &Document<'a>,
    record: &ShapeNode<'a>,
    proposal: &mut DigestProposal<'a>,
) {
    let usual: Vec<(&str, &str)> =
        record.fields.iter().filter_map(|(key, node)| Some((*key, node.usual_value()?))).collect();
    if usual.is_empty() {
        return;
    }
    let mut found = 0;
    for text in &document.records {
        let fields = parse_fields(text);
        let odd = fields.iter().find(|(key, value)| usual.iter().any(|(name, usual)| name == key && value != usual));
        let Some((key, value)) = odd else { continue };
        let worth = decay(weights::UNUSUAL_RECORD_VALUE, found, weights::UNUSUAL_RECORD_DECAY);
        if text.contains('\n') {
            // A record over several lines is quoted by its first field, which identifies it, and by the
            // unusual one.
            if let Some((name, value)) = fields.first() {
                proposal.add_quote(field_line(output, name, value), worth);
            }
            proposal.add_quote(field_line(output, key, value), worth);
        } else {
            proposal.add_quote(Line { offset: output.offset_of(text), text }, worth);
        }
        found += 1;
        if found == weights::MAX_UNUSUAL_RECORDS {
            return;
        }
    }
}

/// Returns the first line of a field, as it is in the source.
fn field_line<'a>(output: &ParsedOutput<'a>, key: &'a str, value: &'a str) -> Line<'a> {
    let at = output.offset_of(key).saturating_sub(1);
    let end = output.offset_of(value) + value.len();
    let text = output.text.get(at..end).unwrap_or_default();
    Line { offset: at, text: text.lines().next().unwrap_or_default() }
}
