//! Changes a request body by splices. They are sorted and do not overlap, and all other bytes are copied.
//!
//! Code that changes a body, such as the ledger and the cache breakpoints, describes the changes as
//! [`Edit`]s. [`Rewrite::new`] turns them into splices, so commas, escapes and overlaps are handled in one
//! place. Every rewrite has an inverse that restores the original bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::json::{JsonError, Scanner, Span, escape};
use crate::transcript::{ArrayId, ElementId, TextEncoding, TextSpan, Transcript};

/// One change to a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replaces the text of a block. The new text is encoded like the old one.
    Text {
        /// The text to replace.
        text: TextSpan,
        /// The new text. For [`TextEncoding::Json`] it must be a JSON value.
        with: String,
    },
    /// Removes an element from its array. Removing the last block of a message removes the message too.
    Remove(ElementId),
    /// Inserts a JSON value into an array.
    Insert {
        /// The element before which the value is inserted. The index is the length of the array to insert at
        /// its end.
        before: ElementId,
        /// The value to insert.
        json: String,
    },
    /// Replaces an element of an array by another JSON value.
    Replace {
        /// The element to replace.
        element: ElementId,
        /// The new value.
        json: String,
    },
    /// Sets a field of an object: replaces its value, or adds the field at the end of the object.
    Set {
        /// The span of the object.
        object: Span,
        /// The name of the field.
        key: &'static str,
        /// The new value of the field.
        json: String,
    },
    /// Removes a field from an object. Does nothing if there is no such field.
    Unset {
        /// The span of the object.
        object: Span,
        /// The name of the field.
        key: &'static str,
    },
}

/// The reason why edits cannot become a rewrite. Apart from `Cancelled`, each is an error of the caller,
/// never of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewriteError {
    /// Two edits change the same bytes.
    Conflict(Span, Span),
    /// The text contains an unpaired surrogate, and such a text is never edited.
    Damaged(Span),
    /// A new value is not JSON.
    NotJson(JsonError),
    /// The work was cancelled because its result is no longer needed.
    Cancelled,
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(a, b) => {
                write!(f, "two edits change the same bytes: {:?} and {:?}", a.range(), b.range())
            }
            Self::Damaged(at) => write!(f, "the text at {:?} is damaged and is never edited", at.range()),
            Self::NotJson(error) => write!(f, "a new value is {error}"),
            Self::Cancelled => f.write_str("it took too long and was cancelled"),
        }
    }
}

impl std::error::Error for RewriteError {}

impl From<JsonError> for RewriteError {
    fn from(error: JsonError) -> Self {
        Self::NotJson(error)
    }
}

/// A list of splices for one body, sorted and without overlaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewrite {
    splices: Vec<Splice>,
}

/// A replacement of some bytes of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The bytes that are replaced.
    pub at: Span,
    /// The new bytes.
    pub with: String,
}

impl Rewrite {
    /// Turns edits into splices. An edit inside an element that another edit removes has no effect.
    pub fn new(transcript: &Transcript<'_>, edits: Vec<Edit>) -> Result<Self, RewriteError> {
        let mut planned = GroupedEdits::default();
        for edit in edits {
            planned.add(transcript, edit)?;
        }
        planned.remove_emptied_messages(transcript);
        let gone = outermost(planned.removed_spans(transcript));
        let goes = |at: Span| {
            let before = gone.partition_point(|g| g.start <= at.start);
            before > 0 && gone[before - 1].contains(at)
        };
        let mut splices = planned.splices;
        splices.retain(|splice| !goes(splice.at));
        for (id, change) in &planned.arrays {
            let array = transcript.arrays.array(*id);
            if !goes(array.at) {
                splices.extend(change.splices(transcript.body, array.at, transcript.arrays.elements(*id)));
            }
        }
        for (object, change) in planned.objects.into_iter().filter(|(object, _)| !goes(*object)) {
            splices.extend(change.splices(transcript.body, object)?);
        }
        splices.sort_by_key(|s| (s.at.start, s.at.end));
        match splices.windows(2).find(|pair| pair[0].at.end > pair[1].at.start) {
            Some(pair) => Err(RewriteError::Conflict(pair[0].at, pair[1].at)),
            None => Ok(Self { splices }),
        }
    }

    /// Returns the changed body. All bytes outside the splices are copied.
    #[must_use]
    pub fn apply(&self, body: &str) -> String {
        let grown: usize = self.splices.iter().map(|s| s.with.len()).sum();
        let shrunk: usize = self.splices.iter().map(|s| s.at.len()).sum();
        let mut out = String::with_capacity((body.len() + grown).saturating_sub(shrunk));
        let mut copied = 0;
        for Splice { at, with } in &self.splices {
            out.push_str(&body[copied..at.range().start]);
            out.push_str(with);
            copied = at.range().end;
        }
        out.push_str(&body[copied..]);
        out
    }

    /// Returns the rewrite that turns the changed body back into `body`.
    #[must_use]
    pub fn inverse(&self, body: &str) -> Self {
        let mut shift = 0isize;
        let splices = self.splices.iter().map(|Splice { at, with }| {
            let start = at.range().start.wrapping_add_signed(shift);
            shift += with.len().cast_signed() - at.len().cast_signed();
            Splice { at: Span::new(start, start + with.len()), with: body[at.range()].to_owned() }
        });
        Self { splices: splices.collect() }
    }

    /// Returns the splices, in the order of the body.
    #[must_use]
    pub fn splices(&self) -> &[Splice] {
        &self.splices
    }

    /// Returns whether the rewrite changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }
}

/// Edits, grouped by the array or object that they change.
#[derive(Default)]
struct GroupedEdits {
    splices: Vec<Splice>,
    arrays: BTreeMap<ArrayId, ListChange>,
    objects: BTreeMap<Span, FieldChanges>,
}

impl GroupedEdits {
    fn add(&mut self, transcript: &Transcript<'_>, edit: Edit) -> Result<(), RewriteError> {
        match edit {
            Edit::Text { text, with } => {
                let with = match text.encoding {
                    TextEncoding::String | TextEncoding::JsonInString => escape(&with),
                    TextEncoding::Json => validate_json(with)?,
                    TextEncoding::Damaged => return Err(RewriteError::Damaged(text.at)),
                };
                self.splices.push(Splice { at: text.at, with });
            }
            Edit::Replace { element, json } => {
                self.splices.push(Splice { at: transcript.span_of(element), with: validate_json(json)? });
            }
            Edit::Remove(ElementId { array, index }) => {
                self.arrays.entry(array).or_default().removed.insert(index);
            }
            Edit::Insert { before: ElementId { array, index }, json } => {
                self.arrays.entry(array).or_default().inserted.entry(index).or_default().push(validate_json(json)?);
            }
            Edit::Set { object, key, json } => {
                let value = Some(validate_json(json)?);
                self.objects.entry(object).or_default().changes.push((key, value));
            }
            Edit::Unset { object, key } => self.objects.entry(object).or_default().changes.push((key, None)),
        }
        Ok(())
    }

    /// Removes the messages whose blocks are all removed.
    fn remove_emptied_messages(&mut self, transcript: &Transcript<'_>) {
        let emptied = |id: ArrayId, change: &ListChange| {
            let array = transcript.arrays.array(id);
            let all_gone = change.removed.len() == array.range().len() && change.inserted.is_empty();
            array.owner.filter(|_| all_gone && array.is_message_content)
        };
        let owners: Vec<ElementId> = self.arrays.iter().filter_map(|(id, change)| emptied(*id, change)).collect();
        for ElementId { array, index } in owners {
            self.arrays.entry(array).or_default().removed.insert(index);
        }
    }

    /// Returns the spans of all removed elements.
    fn removed_spans(&self, transcript: &Transcript<'_>) -> Vec<Span> {
        let ids =
            self.arrays.iter().flat_map(|(&array, change)| change.removed.iter().map(move |&index| (array, index)));
        ids.map(|(array, index)| transcript.span_of(ElementId { array, index })).collect()
    }
}

fn validate_json(json: String) -> Result<String, JsonError> {
    let mut scanner = Scanner::new(&json);
    scanner.skip_value()?;
    scanner.expect_end()?;
    Ok(json)
}

/// The elements that are removed from or inserted into one array, or the same for the members of one object.
#[derive(Default)]
struct ListChange {
    removed: BTreeSet<u32>,
    /// The inserted values, by the index of the element before which they are inserted.
    inserted: BTreeMap<u32, Vec<String>>,
}

impl ListChange {
    /// Returns the splices for this list. The bytes between two neighbors that both stay are not changed, and
    /// a new element is separated like the existing ones.
    fn splices(&self, body: &str, inside: Span, elements: &[Span]) -> Vec<Splice> {
        let separator = match elements {
            [first, second, ..] => &body[first.range().end..second.range().start],
            _ => ",",
        };
        let count = elements.len() as u32;
        let stays: Vec<u32> = (0..count).filter(|i| !self.removed.contains(i)).collect();
        let mut splices = Vec::new();
        let mut previous: Option<u32> = None;
        for next in stays.iter().copied().map(Some).chain([None]) {
            let first = previous.map_or(0, |p| p + 1);
            let new: Vec<&str> = self
                .inserted
                .range(first..=next.unwrap_or(count))
                .flat_map(|(_, new)| new)
                .map(String::as_str)
                .collect();
            let removed = next.unwrap_or(count) - first;
            if removed > 0 || !new.is_empty() {
                splices.push(replace_gap(inside, elements, separator, (previous, next), &new.join(separator)));
            }
            previous = next;
        }
        splices
    }
}

/// Replaces everything between two elements that stay, or between one and an end of the list, by `new`.
fn replace_gap(
    inside: Span,
    elements: &[Span],
    separator: &str,
    between: (Option<u32>, Option<u32>),
    new: &str,
) -> Splice {
    let at = |i: u32| elements[i as usize];
    let last = elements.len() as u32;
    match between {
        (None, None) => {
            let all =
                elements.first().zip(elements.last()).map(|(first, last)| Span { start: first.start, end: last.end });
            let at = all.unwrap_or(Span { start: inside.start + 1, end: inside.start + 1 });
            Splice { at, with: new.to_owned() }
        }
        (None, Some(next)) => {
            let with = if new.is_empty() { String::new() } else { format!("{new}{separator}") };
            Splice { at: Span { start: at(0).start, end: at(next).start }, with }
        }
        (Some(previous), None) => {
            let with = if new.is_empty() { String::new() } else { format!("{separator}{new}") };
            Splice { at: Span { start: at(previous).end, end: at(last - 1).end }, with }
        }
        (Some(previous), Some(next)) => {
            let with = if new.is_empty() { String::new() } else { format!("{separator}{new}") };
            Splice { at: Span { start: at(previous).end, end: at(next - 1).end }, with }
        }
    }
}

/// The fields that are set or removed in one object; `None` removes a field.
#[derive(Default)]
struct FieldChanges {
    changes: Vec<(&'static str, Option<String>)>,
}

impl FieldChanges {
    fn splices(self, body: &str, object: Span) -> Result<Vec<Splice>, RewriteError> {
        let (mut names, mut members, mut values) = (Vec::new(), Vec::new(), Vec::new());
        Scanner::within(body, object).for_each_member(|scanner, key, _| {
            let (value, _) = scanner.skip_value()?;
            names.push(&body[key.range()]);
            members.push(Span { start: key.start - 1, end: value.end });
            values.push(value);
            Ok(())
        })?;
        let mut splices = Vec::new();
        let mut change = ListChange::default();
        for (key, value) in self.changes {
            // If a key occurs twice, the last value counts, so that one is changed. Removing the field
            // removes all of them.
            let mut places = names.iter().enumerate().filter(|(_, name)| **name == key).map(|(index, _)| index);
            match value {
                None => change.removed.extend(places.map(|index| index as u32)),
                Some(json) => {
                    if let Some(index) = places.next_back() {
                        splices.push(Splice { at: values[index], with: json });
                    } else {
                        let end = change.inserted.entry(members.len() as u32).or_default();
                        end.push(format!("\"{key}\":{json}"));
                    }
                }
            }
        }
        splices.extend(change.splices(body, object, &members));
        Ok(splices)
    }
}

/// Returns the spans that are inside no other span, sorted. Elements are nested or separate; they never
/// overlap.
fn outermost(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
    spans.dedup_by(|inner, outer| outer.contains(*inner));
    spans
}
