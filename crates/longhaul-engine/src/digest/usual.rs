//! What a call usually gives, by its tool and its command: the second source of a kind, after the content.

use super::kind::Kind;
use super::words::WORDS;
use crate::shell;
use crate::tools::{Call, Family};
use std::collections::BTreeMap;

table! {
    /// How commands begin, by what they print.
    static COMMANDS: BTreeMap<Kind, Vec<String>> = "commands.toml";
}

/// What such calls usually give.
pub(super) fn usual_kind(call: &Call) -> Option<Kind> {
    match call.family? {
        Family::Run => call.command().as_deref().and_then(kind_of_command),
        Family::Read => Some(call.path().as_deref().map_or(Kind::Source, kind_of_path)),
        Family::Search | Family::WebSearch => Some(Kind::Search),
        Family::List => Some(Kind::Listing),
        Family::Fetch | Family::Delegate | Family::Memory => Some(Kind::Prose),
        _ => None,
    }
}

/// What the last command of a line prints: `cd a && grep x b | head` is a search.
fn kind_of_command(command: &str) -> Option<Kind> {
    let commands = shell::commands(command);
    let first = commands.split_inclusive(|part| !part.piped).next_back()?.first()?;
    let begins = |start: &String| first.begins(command, start);
    let kind = COMMANDS.iter().find(|(_, starts)| starts.iter().any(begins)).map(|(kind, _)| *kind)?;
    match kind {
        Kind::Source => Some(first.words.last().map_or(Kind::Source, |word| kind_of_path(&word.text))),
        kind => Some(kind),
    }
}

/// Whether a call only shows what is there: failures that stand in it are somebody else's.
pub(super) fn only_reads(call: &Call) -> bool {
    let Some(script) = call.command() else { return false };
    let commands = shell::commands(&script);
    let mut pipelines = commands.split_inclusive(|part| !part.piped);
    !commands.is_empty()
        && pipelines.all(|pipeline| pipeline.first().is_some_and(|first| reads(first, &script)))
}

fn reads(command: &shell::Command, script: &str) -> bool {
    let begins = |start: &String| command.begins(script, start);
    let prints = |kind: Kind| COMMANDS.get(&kind).is_some_and(|starts| starts.iter().any(begins));
    command.writes.is_empty()
        && ([Kind::Source, Kind::Search, Kind::Listing, Kind::Diff, Kind::Log].into_iter().any(prints)
            || WORDS.readers.iter().any(begins))
}

/// Whether a status of 1 is an answer of this call's: a search that found nothing, a comparison of two that differ. Only where
/// no other command can have left the status.
pub(super) fn answers_no(call: &Call) -> bool {
    let Some(script) = call.command() else { return false };
    let commands = shell::commands(&script);
    let alone = commands.iter().filter(|command| !command.piped).count() == 1;
    let asks = |last: &shell::Command| WORDS.askers.iter().any(|start| last.begins(&script, start));
    alone && commands.last().is_some_and(asks)
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(usual_kind(&Call::of(Some(tool), Some(arguments))), kind, "{tool} {arguments}");
        }
    }
}
