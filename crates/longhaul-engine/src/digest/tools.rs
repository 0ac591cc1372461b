//! The call that gave an output: what its tool does and what it was asked for.

use super::kind::Kind;
use crate::lines::clip;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Family {
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

#[derive(Deserialize, Default)]
struct Tables {
    families: BTreeMap<Family, Vec<String>>,
    commands: BTreeMap<Kind, Vec<String>>,
}

/// The tables of `tools.toml`; a test holds that they are readable.
static TABLES: LazyLock<Tables> =
    LazyLock::new(|| toml::from_str(include_str!("tools.toml")).unwrap_or_default());

/// A tool call, as far as a digest needs it.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// The tool's name as the agent writes it.
    pub(super) tool: Option<String>,
    pub(super) family: Option<Family>,
    pub(super) arguments: Map<String, Value>,
}

impl Call {
    pub(super) fn of(tool: Option<&str>, arguments: Option<&str>) -> Self {
        let arguments = match arguments.map(serde_json::from_str::<Value>) {
            Some(Ok(Value::Object(map))) => map,
            _ => Map::new(),
        };
        let family = tool.and_then(family_of).map(|family| refined(family, &arguments));
        Self { tool: tool.map(str::to_owned), family, arguments }
    }

    /// The first of these arguments that is there, as text.
    pub(super) fn argument(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.arguments.get(*name)).and_then(as_text)
    }

    /// The command line, if something was run.
    pub(super) fn command(&self) -> Option<String> {
        self.argument(&["command", "cmd", "commands", "script", "code", "source", "input"])
    }

    /// The file or folder it is about.
    pub(super) fn path(&self) -> Option<String> {
        const NAMES: [&str; 12] = [
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
        self.argument(&NAMES)
    }

    /// What such calls usually give.
    pub(super) fn usual_kind(&self) -> Option<Kind> {
        match self.family? {
            Family::Run => self.command().as_deref().and_then(kind_of_command),
            Family::Read => Some(self.path().as_deref().map_or(Kind::Source, kind_of_path)),
            Family::Search | Family::WebSearch => Some(Kind::Search),
            Family::List => Some(Kind::Listing),
            Family::Fetch | Family::Delegate | Family::Memory => Some(Kind::Prose),
            _ => None,
        }
    }
}

fn family_of(tool: &str) -> Option<Family> {
    let name = tool.rsplit("__").next().unwrap_or(tool).to_lowercase().replace('-', "_");
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

/// What the last command of a line prints: `cd a && grep x b | head` is a search.
fn kind_of_command(command: &str) -> Option<Kind> {
    let last = command.rsplit(['\n', ';']).map(str::trim).find(|part| !part.is_empty())?;
    let last = last.rsplit("&&").next().unwrap_or(last);
    let first = last.split('|').next().unwrap_or(last).trim();
    let begins = |start: &String| {
        first.strip_prefix(start.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let kind = TABLES.commands.iter().find(|(_, starts)| starts.iter().any(begins)).map(|(kind, _)| *kind)?;
    match kind {
        Kind::Source => Some(first.split_whitespace().next_back().map_or(Kind::Source, kind_of_path)),
        kind => Some(kind),
    }
}

fn kind_of_path(path: &str) -> Kind {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("md" | "txt" | "rst" | "adoc") => Kind::Prose,
        Some("csv" | "tsv") => Kind::Table,
        Some("log") => Kind::Log,
        Some("diff" | "patch") => Kind::Diff,
        _ => Kind::Source,
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
        Value::Object(map) => ["path", "file_path", "command", "content", "text", "query"]
            .iter()
            .find_map(|name| map.get(*name))
            .and_then(as_text),
        Value::Null => None,
    }
}

/// A piece of an argument on one line, cut where it is long.
pub(super) fn on_one_line(text: &str, most: usize) -> String {
    let text = text.trim();
    let line = text.split_whitespace().take(most).collect::<Vec<_>>().join(" ");
    let shown = clip(&line, most);
    if shown.len() < line.len() { format!("{shown}…") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_readable_and_name_a_tool_once() {
        let tables: Tables = toml::from_str(include_str!("tools.toml")).unwrap();
        let mut names: Vec<_> = tables.families.values().flatten().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((tables.families.len(), names.len()), (13, all));
    }

    #[test]
    fn calls_are_understood_by_tool_and_command() {
        for (tool, arguments, kind) in [
            ("Bash", r#"{"command":"cd /app && grep -rn foo src | head"}"#, Some(Kind::Search)),
            ("shell", r#"{"command":["bash","-lc","ls -la"]}"#, Some(Kind::Listing)),
            ("mcp__fs__read_file", r#"{"path":"notes.md"}"#, Some(Kind::Prose)),
            ("str_replace_editor", r#"{"command":"view","path":"a.py"}"#, Some(Kind::Source)),
            ("execute_bash", r#"{"command":"python run.py"}"#, None),
            ("get_weather", r#"{"city":"Graz"}"#, None),
        ] {
            assert_eq!(Call::of(Some(tool), Some(arguments)).usual_kind(), kind, "{tool} {arguments}");
        }
    }
}
