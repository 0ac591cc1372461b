//! The tools of common agents: what each tool does, and what a call asked for. This is the only table of
//! tools and the only place that interprets their arguments.

use crate::shell::{self, Command};
use crate::truncate::to_one_line;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The kind of work that a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolFamily {
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
    families: BTreeMap<ToolFamily, Vec<String>>,
    deletes: DeletingTools,
    looking: ReadOnlyCommands,
    changing: EnvironmentCommands,
}

#[derive(Deserialize)]
struct DeletingTools {
    tools: Vec<String>,
}

/// Commands that neither change nor try anything.
#[derive(Deserialize)]
struct ReadOnlyCommands {
    commands: Vec<String>,
    prefixes: Vec<String>,
    /// The subcommands, by command, that neither change nor try anything, such as those of `git`.
    below: BTreeMap<String, Vec<String>>,
}

/// Commands that change the environment of the work.
#[derive(Deserialize)]
struct EnvironmentCommands {
    commands: Vec<String>,
}

table! {
    static TABLES: Tables = "tools.toml";
}

/// A tool call with its parsed arguments.
#[derive(Debug, Default)]
pub(crate) struct ParsedCall {
    /// The name of the tool as the agent writes it.
    pub(crate) tool: Option<String>,
    pub(crate) family: Option<ToolFamily>,
    pub(crate) arguments: Map<String, Value>,
}

impl ParsedCall {
    pub(crate) fn parse(tool: Option<&str>, arguments: Option<&str>) -> Self {
        let arguments = match arguments.map(serde_json::from_str::<Value>) {
            Some(Ok(Value::Object(map))) => map,
            _ => Map::new(),
        };
        let family = tool.and_then(find_family).map(|family| refine_family(family, &arguments));
        Self { tool: tool.map(str::to_owned), family, arguments }
    }

    /// Returns the first of these arguments that exists, as text.
    pub(crate) fn argument(&self, names: &[&str]) -> Option<String> {
        values_named(&self.arguments, names).next().and_then(argument_text)
    }

    /// Returns the command line, if the call ran something.
    pub(crate) fn command(&self) -> Option<String> {
        self.argument(&["command", "cmd", "commands", "script", "code", "source", "input"])
    }

    /// Returns the file or folder of the call. Several are joined into one text.
    pub(crate) fn path(&self) -> Option<String> {
        self.argument(&PATH_ARGUMENTS)
    }

    /// Returns every file or folder of the call separately.
    pub(crate) fn paths(&self) -> Vec<String> {
        match values_named(&self.arguments, &PATH_ARGUMENTS).next() {
            Some(Value::Array(items)) => items.iter().filter_map(argument_text).collect(),
            Some(one) => argument_text(one).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Returns the pattern of a search in files.
    pub(crate) fn pattern(&self) -> Option<String> {
        const NAMES: [&str; 8] =
            ["pattern", "query", "regex", "queries", "search_term", "glob_pattern", "class_name", "function_name"];
        self.argument(&NAMES)
    }

    /// Returns the query of a web search.
    pub(crate) fn web_query(&self) -> Option<String> {
        self.argument(&["query", "q", "search_query", "queries"])
    }

    /// Returns the URL of a page, or what the call did on the page.
    pub(crate) fn web_target(&self) -> Option<String> {
        const NAMES: [&str; 9] = ["url", "urls", "uri", "action", "ref", "element", "selector", "key", "direction"];
        self.argument(&NAMES)
    }

    /// Returns the task that the call delegated to another agent.
    pub(crate) fn task(&self) -> Option<String> {
        self.argument(&["description", "goal", "task", "prompt", "message"])
    }

    /// Returns the action and the target of a call to a memory tool.
    pub(crate) fn memory_note(&self) -> Option<String> {
        let action = self.argument(&["action", "command", "operation"]).unwrap_or_default();
        let target = self.argument(&["target", "path", "key", "query", "content", "fact"]).unwrap_or_default();
        Some(format!("{action} {target}").trim().to_owned()).filter(|note| !note.is_empty())
    }

    /// Returns the arguments with their names: `id=7, city=Graz`.
    pub(crate) fn named_arguments(&self) -> String {
        let named = |name: &String| Some(format!("{name}={}", to_one_line(&self.argument(&[name])?, 40)));
        self.arguments.keys().filter_map(named).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether the tool deletes files.
    pub(crate) fn deletes_files(&self) -> bool {
        self.tool.as_deref().is_some_and(|tool| TABLES.deletes.tools.contains(&normalize_name(tool)))
    }

    /// Returns the first and last line, counted from 1, that a read asked for, or `None` if it asked for the
    /// whole file.
    pub(crate) fn line_range(&self) -> Option<(usize, usize)> {
        const TO_THE_END: usize = usize::MAX;
        let within = match self.arguments.get("files") {
            Some(Value::Array(files)) => files.first().and_then(Value::as_object),
            _ => None,
        };
        let number = |names: &[&str]| {
            let found = |map: &Map<String, Value>| values_named(map, names).find_map(Value::as_i64);
            found(&self.arguments).or_else(|| found(within?))
        };
        let line = |number: i64| usize::try_from(number).ok().filter(|line| *line > 0);
        if let Some([from, to]) = self.arguments.get("view_range").and_then(Value::as_array).map(Vec::as_slice) {
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

/// Returns the values of the fields with these names, in the order of the names.
pub(crate) fn values_named<'v>(fields: &'v Map<String, Value>, names: &[&str]) -> impl Iterator<Item = &'v Value> {
    names.iter().filter_map(|name| fields.get(*name))
}

/// The names that agents use for an argument that contains a path.
const PATH_ARGUMENTS: [&str; 12] = [
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

/// Returns the name of a tool as it is written in the tables.
fn normalize_name(tool: &str) -> String {
    tool.rsplit("__").next().unwrap_or(tool).to_lowercase().replace('-', "_")
}

fn find_family(tool: &str) -> Option<ToolFamily> {
    let name = normalize_name(tool);
    TABLES.families.iter().find(|(_, tools)| tools.contains(&name)).map(|(family, _)| *family)
}

/// Corrects the family of editors that have one name for reading, writing and editing, and choose by an
/// argument.
fn refine_family(family: ToolFamily, arguments: &Map<String, Value>) -> ToolFamily {
    match (family, arguments.get("command").and_then(Value::as_str)) {
        (ToolFamily::Edit, Some("view")) => ToolFamily::Read,
        (ToolFamily::Edit, Some("create")) => ToolFamily::Write,
        (family, _) => family,
    }
}

/// Converts an argument to text. A list of commands or files is joined; from `sh -c SCRIPT` only the script
/// is taken.
fn argument_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().filter_map(argument_text).collect();
            match texts.as_slice() {
                [] => None,
                [shell, flag, script] if shell.ends_with("sh") && flag.starts_with('-') => Some(script.clone()),
                texts => Some(texts.join(" ")),
            }
        }
        Value::Object(map) => {
            let names = ["path", "file_path", "command", "url", "uri", "href", "content", "text", "query"];
            values_named(map, &names).next().and_then(argument_text)
        }
        Value::Null => None,
    }
}

/// Returns whether a tool without a family only looks something up, judged by its name.
pub(crate) fn is_lookup_tool(tool: &str) -> bool {
    let name = normalize_name(tool);
    TABLES
        .looking
        .prefixes
        .iter()
        .any(|prefix| name.strip_prefix(prefix.as_str()).is_some_and(|rest| !rest.starts_with(char::is_alphabetic)))
}

/// Returns whether a command changes the environment of the work: it installs, commits or starts something.
pub(crate) fn changes_environment(command: &str) -> bool {
    let is_known = |part: &Command| TABLES.changing.commands.iter().any(|listed| part.starts_with(command, listed));
    shell::parse_commands(command).iter().any(is_known)
}

/// Returns whether a command installs packages.
pub(crate) fn installs_something(command: &str) -> bool {
    let is_known = |part: &Command| {
        let rows = TABLES.changing.commands.iter();
        rows.filter(|listed| listed.contains("install") || listed.ends_with(" add"))
            .any(|listed| part.starts_with(command, listed))
    };
    shell::parse_commands(command).iter().any(is_known)
}

/// Returns whether a command with this first operand neither changes nor tries anything.
pub(crate) fn is_read_only_command(command: &str, operand: &str) -> bool {
    let ReadOnlyCommands { commands, below, .. } = &TABLES.looking;
    match below.get(command) {
        Some(commands) => commands.iter().any(|listed| listed == operand),
        None => commands.iter().any(|listed| listed == command),
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
            assert_eq!(ParsedCall::parse(Some("read"), Some(arguments)).line_range(), lines, "{arguments}");
        }
    }
}
