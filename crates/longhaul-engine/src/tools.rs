//! The tools of the common agents: what each does, and what a call of it asked for. There is one table of them, and one
//! reading of arguments, for digests and for whatever else names a call.
//!
//! It may use `clip`, `shell` and the loader of tables.

use crate::clip::on_one_line;
use crate::shell::{self, Command};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Family {
    Run,
    Read,
    Write,
    Edit,
    Search,
    List,
    WebSearch,
    Fetch,
    Browser,
    Delegate,
    Code,
    Todo,
    Memory,
}

#[derive(Deserialize)]
struct Tables {
    families: BTreeMap<Family, Vec<String>>,
    deletes: Deletes,
    looking: Looking,
    changing: Changing,
}

#[derive(Deserialize)]
struct Deletes {
    tools: Vec<String>,
}

/// Commands that change nothing and try nothing.
#[derive(Deserialize)]
struct Looking {
    commands: Vec<String>,
    prefixes: Vec<String>,
    /// The same of commands with commands of their own.
    below: BTreeMap<String, Vec<String>>,
}

/// Commands that change the surroundings of the work.
#[derive(Deserialize)]
struct Changing {
    commands: Vec<String>,
}

table! {
    static TABLES: Tables = "tools.toml";
}

/// A tool call, as far as a reader needs it.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The tool's name as the agent writes it.
    pub(crate) tool: Option<String>,
    pub(crate) family: Option<Family>,
    pub(crate) arguments: Map<String, Value>,
}

impl Call {
    pub(crate) fn of(tool: Option<&str>, arguments: Option<&str>) -> Self {
        let arguments = match arguments.map(serde_json::from_str::<Value>) {
            Some(Ok(Value::Object(map))) => map,
            _ => Map::new(),
        };
        let family = tool.and_then(family_of).map(|family| refined(family, &arguments));
        Self { tool: tool.map(str::to_owned), family, arguments }
    }

    /// The first of these arguments that is there, as text.
    pub(crate) fn argument(&self, names: &[&str]) -> Option<String> {
        named(&self.arguments, names).next().and_then(as_text)
    }

    /// The command line, if something was run.
    pub(crate) fn command(&self) -> Option<String> {
        self.argument(&["command", "cmd", "commands", "script", "code", "source", "input"])
    }

    /// The file or folder it is about.
    pub(crate) fn path(&self) -> Option<String> {
        self.argument(&PATHS)
    }

    /// Every file or folder it is about, each on its own.
    pub(crate) fn paths(&self) -> Vec<String> {
        match named(&self.arguments, &PATHS).next() {
            Some(Value::Array(items)) => items.iter().filter_map(as_text).collect(),
            Some(one) => as_text(one).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// What was searched for, in files.
    pub(crate) fn pattern(&self) -> Option<String> {
        const NAMES: [&str; 8] = [
            "pattern",
            "query",
            "regex",
            "queries",
            "search_term",
            "glob_pattern",
            "class_name",
            "function_name",
        ];
        self.argument(&NAMES)
    }

    /// What was searched for, on the web.
    pub(crate) fn web_query(&self) -> Option<String> {
        self.argument(&["query", "q", "search_query", "queries"])
    }

    /// The page, or what was done on it.
    pub(crate) fn address(&self) -> Option<String> {
        const NAMES: [&str; 9] =
            ["url", "urls", "uri", "action", "ref", "element", "selector", "key", "direction"];
        self.argument(&NAMES)
    }

    /// What somebody else was asked to do.
    pub(crate) fn task(&self) -> Option<String> {
        self.argument(&["description", "goal", "task", "prompt", "message"])
    }

    /// What was noted or looked up, and how.
    pub(crate) fn note(&self) -> Option<String> {
        let action = self.argument(&["action", "command", "operation"]).unwrap_or_default();
        let target =
            self.argument(&["target", "path", "key", "query", "content", "fact"]).unwrap_or_default();
        Some(format!("{action} {target}").trim().to_owned()).filter(|note| !note.is_empty())
    }

    /// Its arguments, by name: `id=7, city=Graz`.
    pub(crate) fn named_arguments(&self) -> String {
        let named = |name: &String| Some(format!("{name}={}", on_one_line(&self.argument(&[name])?, 40)));
        self.arguments.keys().filter_map(named).collect::<Vec<_>>().join(", ")
    }

    /// Whether it takes files away.
    pub(crate) fn deletes(&self) -> bool {
        self.tool.as_deref().is_some_and(|tool| TABLES.deletes.tools.contains(&plain_name(tool)))
    }

    /// The lines that a read asked for, from 1; none: all of them.
    pub(crate) fn lines(&self) -> Option<(usize, usize)> {
        const TO_THE_END: usize = usize::MAX;
        let within = match self.arguments.get("files") {
            Some(Value::Array(files)) => files.first().and_then(Value::as_object),
            _ => None,
        };
        let number = |names: &[&str]| {
            let found = |map: &Map<String, Value>| named(map, names).find_map(Value::as_i64);
            found(&self.arguments).or_else(|| found(within?))
        };
        let line = |number: i64| usize::try_from(number).ok().filter(|line| *line > 0);
        if let Some([from, to]) =
            self.arguments.get("view_range").and_then(Value::as_array).map(Vec::as_slice)
        {
            let to = to.as_i64().and_then(line).unwrap_or(TO_THE_END);
            return Some((from.as_i64().and_then(line).unwrap_or(1), to));
        }
        let start = number(&["start_line", "line_start", "startLine", "offset", "start"]).map(|n| n.max(1));
        let end = number(&["end_line", "line_end", "endLine", "end"]).and_then(line);
        let limit = number(&["limit", "line_count", "num_lines"]).and_then(line);
        let from = start.and_then(line).unwrap_or(1);
        let to = end.or_else(|| limit.map(|limit| from.saturating_add(limit - 1)));
        match (start, to) {
            (None, None) => None,
            (_, to) => Some((from, to.unwrap_or(TO_THE_END))),
        }
    }
}

/// The values that stand under these names, in the order of the names.
pub(crate) fn named<'v>(fields: &'v Map<String, Value>, names: &[&str]) -> impl Iterator<Item = &'v Value> {
    names.iter().filter_map(|name| fields.get(*name))
}

/// How agents call the argument that holds a path.
const PATHS: [&str; 12] = [
    "path",
    "file_path",
    "filePath",
    "file",
    "filename",
    "target_file",
    "relative_workspace_path",
    "notebook_path",
    "files",
    "paths",
    "directory",
    "dir",
];

/// A tool's name as the tables have it.
fn plain_name(tool: &str) -> String {
    tool.rsplit("__").next().unwrap_or(tool).to_lowercase().replace('-', "_")
}

fn family_of(tool: &str) -> Option<Family> {
    let name = plain_name(tool);
    TABLES.families.iter().find(|(_, tools)| tools.contains(&name)).map(|(family, _)| *family)
}

/// Some editors have one name for reading, writing and editing, and say which in an argument.
fn refined(family: Family, arguments: &Map<String, Value>) -> Family {
    match (family, arguments.get("command").and_then(Value::as_str)) {
        (Family::Edit, Some("view")) => Family::Read,
        (Family::Edit, Some("create")) => Family::Write,
        (family, _) => family,
    }
}

/// An argument in words: a list of commands or files is joined, a shell's own flags are left out.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().filter_map(as_text).collect();
            match texts.as_slice() {
                [] => None,
                [shell, flag, script] if shell.ends_with("sh") && flag.starts_with('-') => {
                    Some(script.clone())
                }
                texts => Some(texts.join(" ")),
            }
        }
        Value::Object(map) => {
            let names = ["path", "file_path", "command", "url", "uri", "href", "content", "text", "query"];
            named(map, &names).next().and_then(as_text)
        }
        Value::Null => None,
    }
}

/// Whether a tool of no family looks something up, by its name.
pub(crate) fn looks_up(tool: &str) -> bool {
    let name = plain_name(tool);
    TABLES.looking.prefixes.iter().any(|prefix| {
        name.strip_prefix(prefix.as_str()).is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
    })
}

/// Whether a command changes the surroundings of the work: what is installed, committed, started.
pub(crate) fn changes_surroundings(command: &str) -> bool {
    let is_known = |part: &Command| TABLES.changing.commands.iter().any(|known| part.begins(command, known));
    shell::commands(command).iter().any(is_known)
}

/// Whether a command, given its first operand, changes nothing and tries nothing.
pub(crate) fn only_looks(command: &str, operand: &str) -> bool {
    let Looking { commands, below, .. } = &TABLES.looking;
    match below.get(command) {
        Some(commands) => commands.iter().any(|known| known == operand),
        None => commands.iter().any(|known| known == command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_named_once() {
        let mut names: Vec<_> = TABLES.families.values().flatten().chain(&TABLES.deletes.tools).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((TABLES.families.len(), names.len()), (13, all));
    }

    #[test]
    fn the_lines_of_a_read_are_found_under_any_name() {
        for (arguments, lines) in [
            (r#"{"path":"a"}"#, None),
            (r#"{"path":"a","offset":120}"#, Some((120, usize::MAX))),
            (r#"{"path":"a","offset":120,"limit":10}"#, Some((120, 129))),
            (r#"{"path":"a","limit":10}"#, Some((1, 10))),
            (r#"{"path":"a","view_range":[5,-1]}"#, Some((5, usize::MAX))),
            (r#"{"path":"a","view_range":[5,9]}"#, Some((5, 9))),
            (r#"{"files":[{"path":"a","start_line":3,"end_line":4}]}"#, Some((3, 4))),
            (r#"{"path":"a","view_range":null}"#, None),
        ] {
            assert_eq!(Call::of(Some("read"), Some(arguments)).lines(), lines, "{arguments}");
        }
    }
}
