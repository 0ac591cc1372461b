//! What a call does to files, read from its arguments, however an agent names the two sides of an edit.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::change::{Change, by_program};
use super::{Touched, patch};
use crate::tools::{Call, Family, named};

/// How agents call the two sides of an edit, a whole text, a patch, and a list of edits.
const OLD: [&str; 8] = ["old_string", "old_str", "oldText", "old_text", "old", "search", "find", "original"];
const NEW: [&str; 8] =
    ["new_string", "new_str", "newText", "new_text", "new", "replace", "replacement", "updated"];
const WHOLE: [&str; 6] = ["content", "file_text", "contents", "text", "code", "body"];
const PATCH: [&str; 6] = ["patch", "diff", "input", "patch_text", "changes", "command"];
const LISTS: [&str; 4] = ["edits", "replacements", "changes", "diffs"];

/// What a call does to files, one change for each; what changes nothing is none. `by_script` is what its command does.
pub(crate) fn changes(call: &Call, arguments: &str, by_script: Vec<Change>) -> Vec<Change> {
    let mut found: Vec<Change> = Vec::new();
    let mut edited: HashMap<String, usize> = HashMap::new();
    for change in every_change(call, arguments, by_script) {
        if change.how.is_some() {
            found.push(change);
        } else if let Some(before) = edited.get(&change.path) {
            found[*before].and(change);
        } else {
            edited.insert(change.path.clone(), found.len());
            found.push(change);
        }
    }
    found
}

fn every_change(call: &Call, arguments: &str, by_script: Vec<Change>) -> Vec<Change> {
    let path = || call.paths().into_iter().next().unwrap_or_default();
    match call.family {
        Some(Family::Run) => by_script,
        Some(Family::Code) => by_program(&call.command().unwrap_or_default()),
        Some(Family::Write) => {
            vec![Change::created(path(), &call.argument(&WHOLE).unwrap_or_default())]
        }
        Some(Family::Edit) => {
            let mut changes = edits(&path(), &call.arguments);
            if changes.is_empty() {
                let text = named(&call.arguments, &PATCH).find_map(Value::as_str);
                let text = text.unwrap_or(arguments);
                changes = blocks(&path(), text);
                changes.extend(patch::changes(text));
            }
            changes
        }
        None if call.deletes() => vec![Change::whole(path(), Touched::Deleted)],
        _ => Vec::new(),
    }
}

/// The edits that an object names by its fields, or by a list of such objects.
fn edits(path: &str, arguments: &Map<String, Value>) -> Vec<Change> {
    let text = |names: &[&str]| named(arguments, names).find_map(Value::as_str);
    if let Some(Value::Object(by_path)) = arguments.get("changes") {
        return by_path.iter().filter_map(|(path, change)| of_path(path, change.as_object()?)).collect();
    }
    if let Some(new) = text(&NEW).or_else(|| text(&WHOLE).filter(|_| text(&OLD).is_some())) {
        let old: Vec<&str> = text(&OLD).unwrap_or_default().lines().collect();
        return vec![Change::edited(path.to_owned(), &old, &new.lines().collect::<Vec<_>>())];
    }
    let list = named(arguments, &LISTS).find_map(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object).flat_map(|edit| edits(path, edit)).collect()
}

/// A change that an object names by its path: `{"update": {"unified_diff": "…"}}`.
fn of_path(path: &str, change: &Map<String, Value>) -> Option<Change> {
    let (kind, what) = change.iter().next()?;
    let texts = ["unified_diff", "content", "diff"];
    let text = what.as_object().and_then(|what| named(what, &texts).find_map(Value::as_str));
    let text = text.unwrap_or_default();
    Some(match kind.as_str() {
        "add" => Change::created(path.to_owned(), text),
        "delete" => Change::whole(path.to_owned(), Touched::Deleted),
        _ => {
            let side =
                |sign: char| text.lines().filter_map(|line| line.strip_prefix(sign)).collect::<Vec<_>>();
            Change::edited(path.to_owned(), &side('-'), &side('+'))
        }
    })
}

/// Blocks that name what is looked for and what takes its place, between lines of signs.
fn blocks(path: &str, text: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut rest = text;
    while let Some((_, block)) = rest.split_once("<<<<<<< SEARCH") {
        let Some((old, block)) = block.split_once("\n=======") else { break };
        let Some((new, behind)) = block.split_once(">>>>>>>") else { break };
        let old = old.split_once("\n-------\n").map_or(old, |(_, old)| old).trim_start_matches('\n');
        let old: Vec<&str> = old.lines().filter(|line| !line.starts_with(":start_line:")).collect();
        let new: Vec<&str> = new.trim_start_matches('\n').lines().collect();
        changes.push(Change::edited(path.to_owned(), &old, &new));
        rest = behind;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Side;

    fn shown(tool: &str, arguments: &str) -> Vec<String> {
        let call = Call::of(Some(tool), Some(arguments));
        let of = |change: Change| {
            let how = change.how.map_or("Edited".to_owned(), |how| format!("{how:?}"));
            let lines = |side: &Side| side.telling.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>();
            format!("{} {how} -{:?} +{:?}", change.path, lines(&change.out), lines(&change.into))
        };
        let by_script = call.command().map(|command| crate::action::script::read(&command).changes);
        changes(&call, arguments, by_script.unwrap_or_default()).into_iter().map(of).collect()
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
            (
                "bash",
                r#"{"command":"cat > d.txt <<'E'\nsome words\nE"}"#,
                r#"d.txt Created -[] +["some words"]"#,
            ),
            (
                "bash",
                r#"{"command":"sed -i 's/old name/new name/g' e.c"}"#,
                r#"e.c Edited -["old name"] +["new name"]"#,
            ),
            (
                "bash",
                r#"{"command":"sed -i '28a\\import a_module' e.py"}"#,
                r#"e.py Edited -[] +["import a_module"]"#,
            ),
            ("bash", r#"{"command":"git checkout -- f.c"}"#, "f.c Restored -[] +[]"),
        ] {
            assert_eq!(shown(tool, arguments), [expected], "{tool} {arguments}");
        }
    }
}
