//! Reads the file changes of a call from its arguments, for all the argument names that agents use.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::file_change::{FileChange, program_changes};
use super::{FileOperation, patch};
use crate::tools::{ParsedCall, ToolFamily, values_named};

/// The argument names of the text that an edit replaces.
const OLD_TEXT_KEYS: [&str; 8] = ["old_string", "old_str", "oldText", "old_text", "old", "search", "find", "original"];
/// The argument names of the text that an edit inserts.
const NEW_TEXT_KEYS: [&str; 8] =
    ["new_string", "new_str", "newText", "new_text", "new", "replace", "replacement", "updated"];
/// The argument names of the whole text of a file.
const CONTENT_KEYS: [&str; 6] = ["content", "file_text", "contents", "text", "code", "body"];
/// The argument names of a patch.
const PATCH_KEYS: [&str; 6] = ["patch", "diff", "input", "patch_text", "changes", "command"];
/// The argument names of a list of edits.
const EDIT_LIST_KEYS: [&str; 4] = ["edits", "replacements", "changes", "diffs"];

/// Returns the changes of a call, with all edits of one file merged into one. `by_script` contains the
/// changes of its shell script.
pub(crate) fn file_changes(call: &ParsedCall, arguments: &str, by_script: Vec<FileChange>) -> Vec<FileChange> {
    let mut found: Vec<FileChange> = Vec::new();
    let mut edited: HashMap<String, usize> = HashMap::new();
    for change in unmerged_changes(call, arguments, by_script) {
        if change.operation.is_some() {
            found.push(change);
        } else if let Some(before) = edited.get(&change.path) {
            found[*before].merge(change);
        } else {
            edited.insert(change.path.clone(), found.len());
            found.push(change);
        }
    }
    found
}

fn unmerged_changes(call: &ParsedCall, arguments: &str, by_script: Vec<FileChange>) -> Vec<FileChange> {
    let path = || call.paths().into_iter().next().unwrap_or_default();
    match call.family {
        Some(ToolFamily::Run) => by_script,
        Some(ToolFamily::Code) => program_changes(&call.command().unwrap_or_default()),
        Some(ToolFamily::Write) => {
            vec![FileChange::created(path(), &call.argument(&CONTENT_KEYS).unwrap_or_default())]
        }
        Some(ToolFamily::Edit) => {
            let mut changes = edits_in_arguments(&path(), &call.arguments);
            if changes.is_empty() {
                let text = values_named(&call.arguments, &PATCH_KEYS).find_map(Value::as_str);
                let text = text.unwrap_or(arguments);
                changes = search_replace_blocks(&path(), text);
                changes.extend(patch::file_changes(text));
            }
            changes
        }
        None if call.deletes_files() => vec![FileChange::without_lines(path(), FileOperation::Deleted)],
        _ => Vec::new(),
    }
}

/// Returns the edits in an object: one from its own fields, or several from a list of such objects.
fn edits_in_arguments(path: &str, arguments: &Map<String, Value>) -> Vec<FileChange> {
    let text = |names: &[&str]| values_named(arguments, names).find_map(Value::as_str);
    if let Some(Value::Object(by_path)) = arguments.get("changes") {
        return by_path.iter().filter_map(|(path, change)| change_of_path(path, change.as_object()?)).collect();
    }
    if let Some(new) = text(&NEW_TEXT_KEYS).or_else(|| text(&CONTENT_KEYS).filter(|_| text(&OLD_TEXT_KEYS).is_some())) {
        let old: Vec<&str> = text(&OLD_TEXT_KEYS).unwrap_or_default().lines().collect();
        return vec![FileChange::edited(path.to_owned(), &old, &new.lines().collect::<Vec<_>>())];
    }
    let list = values_named(arguments, &EDIT_LIST_KEYS).find_map(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object).flat_map(|edit| edits_in_arguments(path, edit)).collect()
}

/// Returns the change of one path in an object of changes: `{"update": {"unified_diff": "…"}}`.
fn change_of_path(path: &str, change: &Map<String, Value>) -> Option<FileChange> {
    let (kind, what) = change.iter().next()?;
    let texts = ["unified_diff", "content", "diff"];
    let text = what.as_object().and_then(|what| values_named(what, &texts).find_map(Value::as_str));
    let text = text.unwrap_or_default();
    Some(match kind.as_str() {
        "add" => FileChange::created(path.to_owned(), text),
        "delete" => FileChange::without_lines(path.to_owned(), FileOperation::Deleted),
        _ => {
            let side = |prefix: char| text.lines().filter_map(|line| line.strip_prefix(prefix)).collect::<Vec<_>>();
            FileChange::edited(path.to_owned(), &side('-'), &side('+'))
        }
    })
}

/// Returns the changes of search-and-replace blocks, which are separated by lines of `<`, `=` and `>`.
fn search_replace_blocks(path: &str, text: &str) -> Vec<FileChange> {
    let mut changes = Vec::new();
    let mut rest = text;
    while let Some((_, block)) = rest.split_once("<<<<<<< SEARCH") {
        let Some((old, block)) = block.split_once("\n=======") else { break };
        let Some((new, behind)) = block.split_once(">>>>>>>") else { break };
        let old = old.split_once("\n-------\n").map_or(old, |(_, old)| old).trim_start_matches('\n');
        let old: Vec<&str> = old.lines().filter(|line| !line.starts_with(":start_line:")).collect();
        let new: Vec<&str> = new.trim_start_matches('\n').lines().collect();
        changes.push(FileChange::edited(path.to_owned(), &old, &new));
        rest = behind;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ChangedLines;

    fn describe_changes(tool: &str, arguments: &str) -> Vec<String> {
        let call = ParsedCall::parse(Some(tool), Some(arguments));
        let of = |change: FileChange| {
            let how = change.operation.map_or("Edited".to_owned(), |how| format!("{how:?}"));
            let lines = |side: &ChangedLines| side.sampled.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>();
            format!("{} {how} -{:?} +{:?}", change.path, lines(&change.removed), lines(&change.added))
        };
        let by_script = call.command().map(|command| crate::action::shell_script::analyze_script(&command).changes);
        file_changes(&call, arguments, by_script.unwrap_or_default()).into_iter().map(of).collect()
    }

    #[test]
    fn lines_out_and_lines_in_are_read_from_every_form() {
        for (tool, arguments, expected) in [
            (
                "Edit",
                r#"{"file_path":"a.rs","old_string":"fn a() {\n  let x = 1;\n}","new_string":"fn a() {\n  let x = 2;\n}"}"#,
                r#"a.rs Edited -["let x = 1;"] +["let x = 2;"]"#,
            ),
            (
                "write_file",
                r#"{"path":"a.py","content":"import os\nport = 80\n"}"#,
                r#"a.py Created -[] +["port = 80", "import os"]"#,
            ),
            (
                "MultiEdit",
                r#"{"file_path":"a","edits":[{"old_string":"first one","new_string":"second one"}]}"#,
                r#"a Edited -["first one"] +["second one"]"#,
            ),
            (
                "apply_patch",
                r#"{"input":"*** Begin Patch\n*** Update File: b.rs\n@@\n-old line\n+new line\n*** End Patch"}"#,
                r#"b.rs Edited -["old line"] +["new line"]"#,
            ),
            (
                "apply_diff",
                r#"{"path":"c","diff":"<<<<<<< SEARCH\n:start_line:3\n-------\nold text\n=======\nnew text\n>>>>>>> REPLACE"}"#,
                r#"c Edited -["old text"] +["new text"]"#,
            ),
            ("bash", r#"{"command":"cat > d.txt <<'E'\nsome words\nE"}"#, r#"d.txt Created -[] +["some words"]"#),
            (
                "bash",
                r#"{"command":"sed -i 's/old name/new name/g' e.c"}"#,
                r#"e.c Edited -["old name"] +["new name"]"#,
            ),
            ("bash", r#"{"command":"sed -i '28a\\import a_module' e.py"}"#, r#"e.py Edited -[] +["import a_module"]"#),
            ("bash", r#"{"command":"git checkout -- f.c"}"#, "f.c Restored -[] +[]"),
        ] {
            assert_eq!(describe_changes(tool, arguments), [expected], "{tool} {arguments}");
        }
    }
}
