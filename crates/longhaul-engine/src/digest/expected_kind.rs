//! Guesses the kind of an output from the tool and the command, for outputs whose content does not show it.

use super::output_kind::OutputKind;
use super::words::OUTPUT_WORDS;
use crate::shell;
use crate::tools::{ParsedCall, ToolFamily};
use std::collections::BTreeMap;

table! {
    /// The first words of commands, by the kind of output that the commands print.
    static COMMANDS_BY_KIND: BTreeMap<OutputKind, Vec<String>> = "commands.toml";
}

/// Returns the kind of output that such a call usually gives.
pub(crate) fn expected_kind(call: &ParsedCall) -> Option<OutputKind> {
    match call.family? {
        ToolFamily::Run => call.command().as_deref().and_then(kind_of_command),
        ToolFamily::Read => Some(call.path().as_deref().map_or(OutputKind::Source, kind_of_path)),
        ToolFamily::Search | ToolFamily::WebSearch => Some(OutputKind::Search),
        ToolFamily::List => Some(OutputKind::Listing),
        ToolFamily::Fetch | ToolFamily::Delegate | ToolFamily::Memory => Some(OutputKind::Prose),
        _ => None,
    }
}

/// Returns the kind of output of a command line, by the first command of its last pipeline: `cd a && grep x b
/// | head` is a search.
fn kind_of_command(command: &str) -> Option<OutputKind> {
    let commands = shell::parse_commands(command);
    let first = commands.split_inclusive(|part| !part.is_piped).next_back()?.first()?;
    let begins = |start: &String| first.starts_with(command, start);
    let kind = COMMANDS_BY_KIND.iter().find(|(_, starts)| starts.iter().any(begins)).map(|(kind, _)| *kind)?;
    match kind {
        OutputKind::Source => Some(first.words.last().map_or(OutputKind::Source, |word| kind_of_path(&word.text))),
        kind => Some(kind),
    }
}

/// Returns whether a call only shows existing content, so that failures in its output are not its own.
pub(super) fn only_reads(call: &ParsedCall) -> bool {
    let Some(script) = call.command() else { return false };
    let commands = shell::parse_commands(&script);
    let mut pipelines = commands.split_inclusive(|part| !part.is_piped);
    !commands.is_empty()
        && pipelines.all(|pipeline| pipeline.first().is_some_and(|first| is_reading_command(first, &script)))
}

fn is_reading_command(command: &shell::Command, script: &str) -> bool {
    let begins = |start: &String| command.starts_with(script, start);
    let prints = |kind: OutputKind| COMMANDS_BY_KIND.get(&kind).is_some_and(|starts| starts.iter().any(begins));
    command.writes.is_empty()
        && ([OutputKind::Source, OutputKind::Search, OutputKind::Listing, OutputKind::Diff, OutputKind::Log]
            .into_iter()
            .any(prints)
            || OUTPUT_WORDS.readers.iter().any(begins))
}

/// Returns whether exit status 1 is a negative result of this call and no failure: a search that found
/// nothing, or a comparison of two files that differ. It is true only if no other command can have set the
/// status.
pub(super) fn exit_1_is_negative_result(call: &ParsedCall) -> bool {
    let Some(script) = call.command() else { return false };
    let commands = shell::parse_commands(&script);
    let alone = commands.iter().filter(|command| !command.is_piped).count() == 1;
    let asks = |last: &shell::Command| OUTPUT_WORDS.askers.iter().any(|start| last.starts_with(&script, start));
    alone && commands.last().is_some_and(asks)
}

fn kind_of_path(path: &str) -> OutputKind {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("md" | "txt" | "rst" | "adoc") => OutputKind::Prose,
        Some("csv" | "tsv") => OutputKind::Table,
        Some("log") => OutputKind::Log,
        Some("diff" | "patch") => OutputKind::Diff,
        _ => OutputKind::Source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_understood_by_tool_and_command() {
        for (tool, arguments, kind) in [
            ("Bash", r#"{"command":"cd /app && grep -rn foo src | head"}"#, Some(OutputKind::Search)),
            ("shell", r#"{"command":["bash","-lc","ls -la"]}"#, Some(OutputKind::Listing)),
            ("mcp__fs__read_file", r#"{"path":"notes.md"}"#, Some(OutputKind::Prose)),
            ("str_replace_editor", r#"{"command":"view","path":"a.py"}"#, Some(OutputKind::Source)),
            ("execute_bash", r#"{"command":"python run.py"}"#, None),
            ("get_weather", r#"{"city":"Graz"}"#, None),
        ] {
            assert_eq!(expected_kind(&ParsedCall::parse(Some(tool), Some(arguments))), kind, "{tool} {arguments}");
        }
    }
}
