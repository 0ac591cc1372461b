//! What changes in a body, as splices: sorted, disjoint, everything else copied.
//!
//! Whoever changes a body (the ledger, the cache marks) says it in [`Edit`]s; [`Rewrite::new`] turns them into splices once, so that commas, escapes and
//! overlaps are dealt with in one place. A rewrite has an inverse, which gives back the very bytes.
//!
//! It may use `transcript` and what is below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::json::{NotJson, Scanner, Span, escape};
use crate::transcript::{ArrayId, ElementId, Form, TextSpan, Transcript};

/// One change that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Other text in the place of a block's text, in the form that it has there.
    Text {
        /// What is replaced.
        text: TextSpan,
        /// The new text; for [`Form::Json`] a JSON value.
        with: String,
    },
    /// An element out of its array. The last block of a message takes the message with it.
    Remove(ElementId),
    /// A JSON value into an array, before the element with this index or, with the array's length, at its end.
    Insert {
        /// Where.
        before: ElementId,
        /// What.
        json: String,
    },
    /// Another JSON value in the place of an element.
    Replace {
        /// Which.
        element: ElementId,
        /// What.
        json: String,
    },
    /// A field of an object: its value is replaced, or the field is added at the end.
    Set {
        /// The object.
        object: Span,
        /// The field.
        key: &'static str,
        /// Its value.
        json: String,
    },
    /// A field out of an object; nothing where there is none.
    Unset {
        /// The object.
        object: Span,
        /// The field.
        key: &'static str,
    },
}

/// Why edits cannot become a rewrite. Each is a mistake of the caller's, never of the body's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Two edits want the same bytes.
    Conflict(Span, Span),
    /// The text has half a surrogate pair in it and is never edited.
    Damaged(Span),
    /// What is to be put into the body is not JSON.
    NotJson(NotJson),
    /// Whoever asked for it has no more use for it.
    Stopped,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(a, b) => {
                write!(f, "two edits want the same bytes: {:?} and {:?}", a.range(), b.range())
            }
            Self::Damaged(at) => write!(f, "the text at {:?} is damaged and is never edited", at.range()),
            Self::NotJson(error) => write!(f, "a new value is {error}"),
            Self::Stopped => f.write_str("it took too long and was stopped"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<NotJson> for Refused {
    fn from(error: NotJson) -> Self {
        Self::NotJson(error)
    }
}

/// Splices over one body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewrite {
    splices: Vec<Splice>,
}

/// Other bytes in the place of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// What goes.
    pub at: Span,
    /// What comes.
    pub with: String,
}

impl Rewrite {
    /// Turns edits into splices. An edit inside something that another edit removes goes with it.
    pub fn new(transcript: &Transcript<'_>, edits: Vec<Edit>) -> Result<Self, Refused> {
        let mut planned = Planned::default();
        for edit in edits {
            planned.add(transcript, edit)?;
        }
        planned.cascade(transcript);
        let gone = outermost(planned.gone(transcript));
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
            Some(pair) => Err(Refused::Conflict(pair[0].at, pair[1].at)),
            None => Ok(Self { splices }),
        }
    }

    /// The body with the changes made. All other bytes are copied.
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

    /// The rewrite of the result that gives back `body`.
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

    /// The splices, in the order of the body.
    #[must_use]
    pub fn splices(&self) -> &[Splice] {
        &self.splices
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }
}

/// Edits, sorted by what they touch.
#[derive(Default)]
struct Planned {
    splices: Vec<Splice>,
    arrays: BTreeMap<ArrayId, Change>,
    objects: BTreeMap<Span, Fields>,
}

impl Planned {
    fn add(&mut self, transcript: &Transcript<'_>, edit: Edit) -> Result<(), Refused> {
        match edit {
            Edit::Text { text, with } => {
                let with = match text.form {
                    Form::String | Form::JsonInString => escape(&with),
                    Form::Json => valid(with)?,
                    Form::Damaged => return Err(Refused::Damaged(text.at)),
                };
                self.splices.push(Splice { at: text.at, with });
            }
            Edit::Replace { element, json } => {
                self.splices.push(Splice { at: transcript.span_of(element), with: valid(json)? });
            }
            Edit::Remove(ElementId { array, index }) => {
                self.arrays.entry(array).or_default().gone.insert(index);
            }
            Edit::Insert { before: ElementId { array, index }, json } => {
                self.arrays.entry(array).or_default().new.entry(index).or_default().push(valid(json)?);
            }
            Edit::Set { object, key, json } => {
                let value = Some(valid(json)?);
                self.objects.entry(object).or_default().changes.push((key, value));
            }
            Edit::Unset { object, key } => self.objects.entry(object).or_default().changes.push((key, None)),
        }
        Ok(())
    }

    /// Removes the messages whose content is all removed.
    fn cascade(&mut self, transcript: &Transcript<'_>) {
        let emptied = |id: ArrayId, change: &Change| {
            let array = transcript.arrays.array(id);
            let all_gone = change.gone.len() == array.range().len() && change.new.is_empty();
            array.owner.filter(|_| all_gone && array.is_message_content)
        };
        let owners: Vec<ElementId> =
            self.arrays.iter().filter_map(|(id, change)| emptied(*id, change)).collect();
        for ElementId { array, index } in owners {
            self.arrays.entry(array).or_default().gone.insert(index);
        }
    }

    /// Where the elements are that go.
    fn gone(&self, transcript: &Transcript<'_>) -> Vec<Span> {
        let ids = self
            .arrays
            .iter()
            .flat_map(|(&array, change)| change.gone.iter().map(move |&index| (array, index)));
        ids.map(|(array, index)| transcript.span_of(ElementId { array, index })).collect()
    }
}

fn valid(json: String) -> Result<String, NotJson> {
    let mut scanner = Scanner::new(&json);
    scanner.value()?;
    scanner.end()?;
    Ok(json)
}

/// What happens to the elements of one array, or to the members of one object.
#[derive(Default)]
struct Change {
    gone: BTreeSet<u32>,
    /// What comes, by the index before which it comes.
    new: BTreeMap<u32, Vec<String>>,
}

impl Change {
    /// The splices between the elements that stay. The bytes between two neighbours that both stay are not touched, and a
    /// new element is set off the way the others are.
    fn splices(&self, body: &str, inside: Span, elements: &[Span]) -> Vec<Splice> {
        let separator = match elements {
            [first, second, ..] => &body[first.range().end..second.range().start],
            _ => ",",
        };
        let count = elements.len() as u32;
        let stays: Vec<u32> = (0..count).filter(|i| !self.gone.contains(i)).collect();
        let mut splices = Vec::new();
        let mut previous: Option<u32> = None;
        for next in stays.iter().copied().map(Some).chain([None]) {
            let first = previous.map_or(0, |p| p + 1);
            let new: Vec<&str> = self
                .new
                .range(first..=next.unwrap_or(count))
                .flat_map(|(_, new)| new)
                .map(String::as_str)
                .collect();
            let removed = next.unwrap_or(count) - first;
            if removed > 0 || !new.is_empty() {
                splices.push(gap(inside, elements, separator, (previous, next), &new.join(separator)));
            }
            previous = next;
        }
        splices
    }
}

/// Replaces what stands between two elements that stay (or an end of the list) by `new`.
fn gap(
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
            let all = elements
                .first()
                .zip(elements.last())
                .map(|(first, last)| Span { start: first.start, end: last.end });
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

/// What happens to the fields of one object.
#[derive(Default)]
struct Fields {
    changes: Vec<(&'static str, Option<String>)>,
}

impl Fields {
    fn splices(self, body: &str, object: Span) -> Result<Vec<Splice>, Refused> {
        let (mut names, mut members, mut values) = (Vec::new(), Vec::new(), Vec::new());
        Scanner::within(body, object).members(|scanner, key, _| {
            let (value, _) = scanner.value()?;
            names.push(&body[key.range()]);
            members.push(Span { start: key.start - 1, end: value.end });
            values.push(value);
            Ok(())
        })?;
        let mut splices = Vec::new();
        let mut change = Change::default();
        for (key, value) in self.changes {
            // Of a key that stands twice the last one counts, so that is the one to change; to remove it is to remove all.
            let mut places =
                names.iter().enumerate().filter(|(_, name)| **name == key).map(|(index, _)| index);
            match value {
                None => change.gone.extend(places.map(|index| index as u32)),
                Some(json) => {
                    if let Some(index) = places.next_back() {
                        splices.push(Splice { at: values[index], with: json });
                    } else {
                        let end = change.new.entry(members.len() as u32).or_default();
                        end.push(format!("\"{key}\":{json}"));
                    }
                }
            }
        }
        splices.extend(change.splices(body, object, &members));
        Ok(splices)
    }
}

/// The spans that lie in no other, sorted. Elements nest or are apart; they never overlap.
fn outermost(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
    spans.dedup_by(|inner, outer| outer.contains(*inner));
    spans
}
