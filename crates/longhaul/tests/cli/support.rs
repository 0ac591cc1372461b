//! What tests through the real binary share: running it, and holding its JSON against the schemas.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::scripted::{Act, Server};

/// An upstream, and the runtime that it lives on.
pub(crate) struct Upstream {
    pub(crate) server: Server,
    _runtime: Runtime,
}

impl Upstream {
    pub(crate) fn that(acts: impl IntoIterator<Item = Act>) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(acts));
        Self { server, _runtime: runtime }
    }

    /// What was asked so far, as bodies.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let body = |asked: &crate::scripted::Asked| serde_json::from_str(&asked.body).unwrap();
        self.server.asked().iter().map(body).collect()
    }
}

/// A folder of its own for one test, removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The variable that makes `own.yaml` the configuration of a call, in a folder that has one: the user's own, which may set every key.
pub(crate) fn own_config(folder: &Folder) -> Option<(&'static str, &'static str)> {
    folder.0.join("own.yaml").exists().then_some(("LONGHAUL_CONFIG", "own.yaml"))
}

/// What the binary gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The answer as JSON, held against its schema.
    #[track_caller]
    pub(crate) fn json(&self, schema: &str) -> Value {
        assert_eq!((self.code, self.err.as_str()), (0, ""));
        against(schema, &self.out)
    }

    /// The one line that says what was wrong with the call.
    #[track_caller]
    pub(crate) fn refused(&self) -> &str {
        self.failed(2)
    }

    /// The one line that says why it ended with this code; under `--json` standard output says the same for programs.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{}", self.err);
        let line = self.err.strip_prefix("longhaul: ").and_then(|line| line.strip_suffix('\n')).unwrap();
        assert!(!line.contains('\n'), "{line}");
        if !self.out.is_empty() {
            let error = &against("error.json", &self.out)["error"];
            assert_eq!((&error["message"], &error["exit"]), (&line.into(), &code.into()));
        }
        line
    }
}

/// An answer as JSON, held against its schema.
#[track_caller]
pub(crate) fn against(schema: &str, answer: &str) -> Value {
    let value: Value = serde_json::from_str(answer).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(schema);
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    if let Err(problem) = validate(&schema, &value, "") {
        panic!("{problem}\n{answer}");
    }
    value
}

/// Runs the binary in a folder, with only these variables that begin with its name.
pub(crate) fn longhaul(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    longhaul_reading(folder, arguments, environment, b"")
}

/// The same with something on standard input.
pub(crate) fn longhaul_reading(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(arguments)
        .current_dir(&folder.0)
        .env_clear()
        .envs(own_config(folder))
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What works line by line writes before it has read all, so both ends have to be served at once.
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The part of JSON Schema that our schemas use. A keyword it does not know is a failure, so that none is ignored.
pub(crate) fn validate(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Value::Object(schema) = schema else { return Err(format!("{at}: a schema must be an object")) };
    for (keyword, rule) in schema {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is(kind, value)),
                kind => is(kind, value),
            },
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "exclusiveMinimum" => value.as_f64().is_none_or(|number| number > rule.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
            "oneOf" => {
                rule.as_array().unwrap().iter().filter(|option| validate(option, value, at).is_ok()).count() == 1
            }
            "required" => value.as_object().is_none_or(|object| {
                rule.as_array().unwrap().iter().all(|key| object.contains_key(key.as_str().unwrap()))
            }),
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                let properties = schema["properties"].as_object().unwrap();
                value.as_object().is_none_or(|object| object.keys().all(|key| properties.contains_key(key)))
            }
            "properties" => {
                for (key, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(key) {
                        validate(rule, value, &format!("{at}/{key}"))?;
                    }
                }
                true
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    validate(rule, item, &format!("{at}/{i}"))?;
                }
                true
            }
            other => return Err(format!("{at}: the schema says {other}, which the test does not know")),
        };
        if !holds {
            return Err(format!("{at}: {value} breaks {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}
