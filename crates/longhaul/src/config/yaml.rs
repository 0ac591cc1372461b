//! Parses a configuration file into values that know their line and column.

use saphyr::{LoadableYamlNode, MarkedYaml, Marker, Scalar, YamlData};
use saphyr_parser::{Event, Parser};
use serde_json::Value;

use super::keys::{KeyPath, KeyTree};
use super::{ConfigValue, Origin};
use crate::failure::Failure;

/// The maximum nesting of a file. Keys are at most five levels deep, and the YAML loader overflows its stack
/// at some thousands.
const MAX_DEPTH: usize = 50;

/// Returns every value that the file sets. `file` is its name in messages.
pub(crate) fn parse_file(file: &str, text: &str, keys: &KeyTree) -> Result<Vec<ConfigValue>, Failure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check_depth(file, text)?;
    let documents = MarkedYaml::load_from_str(text).map_err(|error| {
        failure_at(&origin_at(file, *error.marker()), &format!("{}; see yaml.org for the rules", error.info()))
    })?;
    let mut reader = ValueCollector { file, keys, values: Vec::new() };
    match documents.as_slice() {
        [] => {}
        [document] => reader.visit(document, &mut Vec::new())?,
        [_, second, ..] => {
            return Err(failure_at(
                &origin_at(file, second.span.start),
                "a second YAML document; a configuration has only one",
            ));
        }
    }
    Ok(reader.values)
}

/// Refuses a file that is nested too deeply for the loader, which is recursive. The events are read one by
/// one without recursion. A syntax error is left to the loader to report.
fn check_depth(file: &str, text: &str) -> Result<(), Failure> {
    let mut depth = 0_usize;
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(failure_at(&origin_at(file, span.start), &format!("nested more than {MAX_DEPTH} levels deep")));
        }
    }
    Ok(())
}

/// Parses a single value from outside a file, such as the value of a variable. Text that is not YAML is a
/// string.
pub(crate) fn parse_value(text: &str) -> Value {
    match MarkedYaml::load_from_str(text).ok().as_deref() {
        Some([document]) => to_json(document).unwrap_or_else(|_| text.into()),
        _ => text.into(),
    }
}

struct ValueCollector<'a> {
    file: &'a str,
    keys: &'a KeyTree,
    values: Vec<ConfigValue>,
}

impl ValueCollector<'_> {
    fn visit(&mut self, node: &MarkedYaml, path: &mut KeyPath) -> Result<(), Failure> {
        match (self.keys.default_at(path), &node.data) {
            (Some(Value::Object(_)), YamlData::Mapping(section)) => {
                for (key, below) in section {
                    self.visit_key(key, below, path)?;
                }
                Ok(())
            }
            (Some(Value::Object(_)), YamlData::Value(Scalar::Null)) => Ok(()),
            (Some(Value::Object(_)), _) => {
                let what = if path.is_empty() { "a configuration".to_owned() } else { format!("'{}'", path.join(".")) };
                Err(failure_at(
                    &origin_at(self.file, node.span.start),
                    &format!("{what} must contain keys, one per line"),
                ))
            }
            _ => {
                let origin = origin_at(self.file, node.span.start);
                let key = path.join(".");
                let value = to_json(node).map_err(|problem| failure_at(&origin, &format!("{key} is {problem}")))?;
                self.values.push(ConfigValue { path: path.clone(), value, origin });
                Ok(())
            }
        }
    }

    fn visit_key(&mut self, key: &MarkedYaml, below: &MarkedYaml, path: &mut KeyPath) -> Result<(), Failure> {
        let origin = origin_at(self.file, key.span.start);
        let name = match to_json(key) {
            Ok(Value::String(name)) => name,
            Ok(other) => other.to_string(),
            Err(problem) => return Err(failure_at(&origin, problem)),
        };
        path.push(name);
        if self.keys.default_at(path).is_none() {
            let name = path.last().map_or("", String::as_str);
            return Err(failure_at(&origin, &format!("unknown key '{name}'{}", self.keys.suggestion(path))));
        }
        self.visit(below, path)?;
        path.pop();
        Ok(())
    }
}

fn origin_at(file: &str, marker: Marker) -> Origin {
    Origin::File { file: file.to_owned(), line: marker.line(), column: marker.col() + 1 }
}

fn failure_at(origin: &Origin, problem: &str) -> Failure {
    Failure::InvalidInput(format!("{origin}: {problem}"))
}

/// Converts a YAML value to JSON, without its positions.
fn to_json(node: &MarkedYaml) -> Result<Value, &'static str> {
    Ok(match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(value)) => (*value).into(),
        YamlData::Value(Scalar::Integer(value)) => (*value).into(),
        YamlData::Value(Scalar::FloatingPoint(value)) if !value.is_finite() => {
            return Err("not a finite number; use digits");
        }
        YamlData::Value(Scalar::FloatingPoint(value)) => value.into_inner().into(),
        YamlData::Value(Scalar::String(value)) => value.as_ref().into(),
        YamlData::Sequence(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        YamlData::Mapping(entries) => {
            let entry = |(key, value)| match to_json(key)? {
                Value::String(key) => Ok((key, to_json(value)?)),
                _ => Err("a key must be text; put it in quotes"),
            };
            Value::Object(entries.iter().map(entry).collect::<Result<_, _>>()?)
        }
        _ => return Err("a value that YAML cannot resolve; write it out without tags"),
    })
}
