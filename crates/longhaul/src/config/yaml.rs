//! A configuration file as values that know where they stand.

use saphyr::{LoadableYamlNode, MarkedYaml, Marker, Scalar, YamlData};
use saphyr_parser::{Event, Parser};
use serde_json::Value;

use super::keys::{Keys, Path};
use super::{Leaf, Origin};
use crate::failure::Failure;

/// The deepest nesting that is read: keys are at most five deep, and the loader's own stack ends at some thousands.
const MAX_DEPTH: usize = 50;

/// Every value that the file sets. `file` is how messages name it.
pub(crate) fn leaves(file: &str, text: &str, keys: &Keys) -> Result<Vec<Leaf>, Failure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check_depth(file, text)?;
    let documents = MarkedYaml::load_from_str(text).map_err(|error| {
        wrong(&at(file, *error.marker()), &format!("{}; see yaml.org for the rules", error.info()))
    })?;
    let mut reader = Reader { file, keys, leaves: Vec::new() };
    match documents.as_slice() {
        [] => {}
        [document] => reader.read(document, &mut Vec::new())?,
        [_, second, ..] => {
            return Err(wrong(
                &at(file, second.span.start),
                "a second document; a configuration is one document",
            ));
        }
    }
    Ok(reader.leaves)
}

/// Refuses a file that is nested too deeply to be loaded. Events come one by one, without recursion; an error in them is the loader's to
/// report.
fn check_depth(file: &str, text: &str) -> Result<(), Failure> {
    let mut depth = 0_usize;
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(wrong(&at(file, span.start), &format!("nested more than {MAX_DEPTH} levels deep")));
        }
    }
    Ok(())
}

/// What one value is, typed outside a file.
pub(crate) fn value(text: &str) -> Value {
    match MarkedYaml::load_from_str(text).ok().as_deref() {
        Some([document]) => plain(document).unwrap_or_else(|_| text.into()),
        _ => text.into(),
    }
}

struct Reader<'a> {
    file: &'a str,
    keys: &'a Keys,
    leaves: Vec<Leaf>,
}

impl Reader<'_> {
    fn read(&mut self, node: &MarkedYaml, path: &mut Path) -> Result<(), Failure> {
        match (self.keys.at(path), &node.data) {
            (Some(Value::Object(_)), YamlData::Mapping(section)) => {
                for (key, below) in section {
                    self.enter(key, below, path)?;
                }
                Ok(())
            }
            (Some(Value::Object(_)), YamlData::Value(Scalar::Null)) => Ok(()),
            (Some(Value::Object(_)), _) => {
                let what = if path.is_empty() {
                    "a configuration".to_owned()
                } else {
                    format!("'{}'", path.join("."))
                };
                Err(wrong(
                    &at(self.file, node.span.start),
                    &format!("{what} holds keys, each on a line of its own"),
                ))
            }
            _ => {
                let origin = at(self.file, node.span.start);
                let key = path.join(".");
                let value = plain(node).map_err(|problem| wrong(&origin, &format!("{key} is {problem}")))?;
                self.leaves.push(Leaf { path: path.clone(), value, origin });
                Ok(())
            }
        }
    }

    fn enter(&mut self, key: &MarkedYaml, below: &MarkedYaml, path: &mut Path) -> Result<(), Failure> {
        let origin = at(self.file, key.span.start);
        let name = match plain(key) {
            Ok(Value::String(name)) => name,
            Ok(other) => other.to_string(),
            Err(problem) => return Err(wrong(&origin, problem)),
        };
        path.push(name);
        if self.keys.at(path).is_none() {
            let name = path.last().map_or("", String::as_str);
            return Err(wrong(&origin, &format!("unknown key '{name}'{}", self.keys.suggestion(path))));
        }
        self.read(below, path)?;
        path.pop();
        Ok(())
    }
}

fn at(file: &str, marker: Marker) -> Origin {
    Origin::File { file: file.to_owned(), line: marker.line(), column: marker.col() + 1 }
}

fn wrong(origin: &Origin, problem: &str) -> Failure {
    Failure::Wrong(format!("{origin}: {problem}"))
}

/// The value without its positions.
fn plain(node: &MarkedYaml) -> Result<Value, &'static str> {
    Ok(match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(value)) => (*value).into(),
        YamlData::Value(Scalar::Integer(value)) => (*value).into(),
        YamlData::Value(Scalar::FloatingPoint(value)) if !value.is_finite() => {
            return Err("a number without end; write one in digits");
        }
        YamlData::Value(Scalar::FloatingPoint(value)) => value.into_inner().into(),
        YamlData::Value(Scalar::String(value)) => value.as_ref().into(),
        YamlData::Sequence(items) => Value::Array(items.iter().map(plain).collect::<Result<_, _>>()?),
        YamlData::Mapping(entries) => {
            let entry = |(key, value)| match plain(key)? {
                Value::String(key) => Ok((key, plain(value)?)),
                _ => Err("a key must be text; put it in quotes"),
            };
            Value::Object(entries.iter().map(entry).collect::<Result<_, _>>()?)
        }
        _ => return Err("a value that YAML cannot resolve; write it out without tags"),
    })
}
