//! Finds the files that a shell script reads, writes, moves or deletes with common commands.
//!
//! Only certain effects count. A path with a variable, a pattern or a substitution is ignored, and so is a
//! command that is not listed here.

use std::collections::HashSet;

use super::file_change::{FileChange, parse_editor_edit, program_changes};
use super::{FileOperation, TouchedFile, patch};
use crate::shell::{self, Command, Word, WriteMode};
use crate::tools;

/// The effects of a shell script on files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptEffects {
    pub(super) touched: Vec<TouchedFile>,
    /// The changes to the files, as far as the script shows them.
    pub(super) changes: Vec<FileChange>,
    /// Whether every command only reads something.
    pub(super) is_read_only: bool,
    /// The commands that do more than read or write a file, as a person would type them.
    pub(super) main_commands: String,
    /// The file whose text the script prints, with the range of its lines, if the script prints nothing else.
    pub(super) shown_file: Option<(String, Option<(usize, usize)>)>,
}

/// The first and last line that a command prints, counted from 1; `None` for all lines.
type LineRange = Option<(usize, usize)>;

/// Finds the effects of a script.
pub(super) fn analyze_script(script: &str) -> ScriptEffects {
    // The editor commands of some agents look like a script and are none.
    if let Some((head, _)) = parse_editor_edit(script) {
        return ScriptEffects { main_commands: head.to_owned(), ..ScriptEffects::default() };
    }
    let mut directory = String::new();
    let mut found = ScriptEffects::default();
    let mut shown = Vec::new();
    let mut seen = HashSet::new();
    let commands = shell::parse_commands(script);
    found.is_read_only = commands.iter().all(Command::is_read_only);
    found.main_commands = main_commands(script, &commands);
    let mut from_pipe = false;
    for command in &commands {
        let name = command.name();
        if name == "cd" {
            let folder = command.operands().next().map(|word| word.text.clone()).unwrap_or_default();
            directory = join_path(&directory, &folder);
            continue;
        }
        let touches = command.touched_files();
        for change in command.file_changes(&touches) {
            found.changes.push(FileChange { path: join_path(&directory, &change.path), ..change });
        }
        for touch in touches {
            let path = join_path(&directory, &touch.path);
            let touch = TouchedFile { path, ..touch };
            if seen.insert(touch.clone()) {
                found.touched.push(touch);
            }
        }
        shown.push(
            command
                .printed_lines(from_pipe)
                .map(|(path, lines)| (path.map(|path| join_path(&directory, &path)), lines)),
        );
        from_pipe = command.is_piped;
    }
    found.shown_file = match shown.as_slice() {
        [Some((Some(path), lines))] => Some((path.clone(), *lines)),
        [Some((Some(path), None)), Some((None, lines))] if commands.iter().filter(|c| c.is_piped).count() == 1 => {
            Some((path.clone(), *lines))
        }
        _ => None,
    };
    found
}

/// Returns the commands that do more than read or write files, joined by `; `. If the script has a loop or
/// condition, returns all of it.
fn main_commands(script: &str, commands: &[Command]) -> String {
    // The first lines of an inline program, such as imports, seldom show its purpose.
    let telling = |text: &str| {
        const OPENERS: [&str; 4] = ["import ", "from ", "sys.path", "#"];
        let is_telling = |line: &&str| !OPENERS.iter().any(|opener| line.trim_start().starts_with(opener));
        text.lines().filter(is_telling).collect::<Vec<_>>().join("\n").trim().to_owned()
    };
    let typed = |command: &Command| {
        let document = Some(&command.heredoc).filter(|document| !document.is_empty());
        let words = command
            .words
            .iter()
            .map(|word| if word.text.contains('\n') { telling(&word.text) } else { word.text.clone() });
        words.chain(document.map(|document| format!("<< {}", telling(document)))).collect::<Vec<_>>().join(" ")
    };
    // A `cd` to a relative path is kept. An absolute path is most likely the project itself.
    let goes_below =
        |c: &Command| c.name() == "cd" && c.operands().next().is_some_and(|to| !to.text.starts_with(['/', '~']));
    let tried: Vec<&Command> =
        commands.iter().filter(|c| !c.only_edits_files() && (!c.is_read_only() || goes_below(c))).collect();
    if tried.iter().all(|c| c.name() == "cd") {
        return String::new();
    }
    // A loop or condition is returned unchanged.
    let opens = |c: &Command| c.words.first().is_some_and(|word| ["for", "while", "if", "case"].contains(&&*word.text));
    if commands.iter().any(opens) {
        return script.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    tried.into_iter().map(typed).collect::<Vec<_>>().join("; ")
}

/// Returns a path relative to the folder in which the script started.
fn join_path(directory: &str, path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    if directory.is_empty() || path.starts_with(['/', '~']) {
        return path.to_owned();
    }
    format!("{}/{path}", directory.trim_end_matches('/'))
}

impl Command {
    fn touched_files(&self) -> Vec<TouchedFile> {
        let operands: Vec<&Word> = self.operands().collect();
        let each = |words: &[&Word], how: FileOperation| {
            words.iter().filter_map(|word| word.as_touched_file(how)).collect::<Vec<_>>()
        };
        let mut touches = match (self.name(), operands.as_slice()) {
            ("cat" | "nl" | "bat" | "less" | "more" | "head" | "tail" | "wc", _) => {
                each(&self.input_files(), FileOperation::Read)
            }
            ("sed", _)
                if self.arguments().iter().any(|word| word.text.starts_with("-i") || word.text == "--in-place") =>
            {
                each(&self.input_files(), FileOperation::Edited)
            }
            ("sed", _) => each(&self.input_files(), FileOperation::Read),
            ("tee", files) if self.has_option("-a") => each(files, FileOperation::Edited),
            ("tee" | "touch", files) => each(files, FileOperation::Created),
            ("rm" | "unlink", files) => each(files, FileOperation::Deleted),
            ("mv", [from, to]) => moved_file(from, to, FileOperation::Deleted),
            ("cp", [from, to]) => moved_file(from, to, FileOperation::Read),
            ("git", [what, rest @ ..]) => match what.text.as_str() {
                "checkout" => {
                    let after = self.arguments().iter().skip_while(|word| word.text != "--").skip(1);
                    each(&after.collect::<Vec<_>>(), FileOperation::Restored)
                }
                "restore" => each(rest, FileOperation::Restored),
                "rm" => each(rest, FileOperation::Deleted),
                "mv" => match rest {
                    [from, to] => moved_file(from, to, FileOperation::Deleted),
                    _ => Vec::new(),
                },
                "apply" => patch::touched_files(&self.heredoc),
                _ => Vec::new(),
            },
            ("apply_patch", [patch]) => patch::touched_files(&patch.text),
            ("apply_patch" | "applypatch" | "patch", _) => patch::touched_files(&self.heredoc),
            _ => Vec::new(),
        };
        let how = |write: &WriteMode| match write {
            WriteMode::Truncate => FileOperation::Created,
            WriteMode::Append => FileOperation::Edited,
        };
        touches.extend(self.writes.iter().filter_map(|(word, write)| word.as_touched_file(how(write))));
        touches
    }

    /// Returns the changes to the lines of the files that the command touches.
    fn file_changes(&self, touches: &[TouchedFile]) -> Vec<FileChange> {
        let patched = match self.name() {
            "apply_patch" | "applypatch" => {
                patch::file_changes(self.operands().next().map_or(&self.heredoc, |word| &word.text))
            }
            "patch" | "git" => patch::file_changes(&self.heredoc),
            _ => Vec::new(),
        };
        if !patched.is_empty() {
            return patched;
        }
        if self.writes.is_empty() && self.name().starts_with("python") {
            let inline = self.arguments().iter().skip_while(|word| word.text != "-c").nth(1);
            return program_changes(inline.map_or(&self.heredoc, |word| &word.text));
        }
        let changed = touches.iter().filter(|touch| touch.operation != FileOperation::Read);
        changed.flat_map(|touch| self.changes_of_file(touch)).collect()
    }

    fn changes_of_file(&self, touch: &TouchedFile) -> Vec<FileChange> {
        let path = || touch.path.clone();
        match (self.name(), touch.operation) {
            ("sed", FileOperation::Edited) => {
                let replaced: Vec<(&str, &str)> = self
                    .arguments()
                    .iter()
                    .filter_map(|word| parse_sed_substitution(&word.text))
                    .filter(|(old, new)| old != new)
                    .collect();
                let put_in: Vec<&str> = self
                    .arguments()
                    .iter()
                    .filter_map(|word| parse_sed_insertion(&word.text))
                    .flat_map(str::lines)
                    .collect();
                if !put_in.is_empty() {
                    return vec![FileChange::edited(path(), &[], &put_in)];
                }
                if replaced.is_empty() {
                    let is_idle = self.arguments().iter().any(|word| parse_sed_substitution(&word.text).is_some());
                    return if is_idle {
                        Vec::new()
                    } else {
                        vec![FileChange { path: path(), ..FileChange::default() }]
                    };
                }
                let plain = |text: &str| text.replace("\\.", ".").replace("\\/", "/");
                replaced.iter().map(|(old, new)| FileChange::edited(path(), &[&plain(old)], &[&plain(new)])).collect()
            }
            (_, FileOperation::Created) if !self.heredoc.is_empty() => {
                vec![FileChange::created(path(), &self.heredoc)]
            }
            (_, FileOperation::Edited) if !self.heredoc.is_empty() => {
                vec![FileChange::edited(path(), &[], &self.heredoc.lines().collect::<Vec<_>>())]
            }
            ("echo" | "printf", how) => {
                let words: Vec<&str> = self.operands().map(|word| word.text.as_str()).collect();
                let how = Some(how).filter(|how| *how == FileOperation::Created);
                vec![FileChange {
                    operation: how,
                    ..FileChange::edited(path(), &[], &words.join(" ").lines().collect::<Vec<_>>())
                }]
            }
            (_, FileOperation::Edited) => vec![FileChange { path: path(), ..FileChange::default() }],
            ("cp" | "mv", FileOperation::Created) => {
                let from = self.operands().next().map(|word| word.text.clone());
                vec![FileChange { copied_from: from, ..FileChange::without_lines(path(), FileOperation::Created) }]
            }
            (_, how) => vec![FileChange::without_lines(path(), how)],
        }
    }

    /// Returns whether the command only changes files, so that its changes describe it completely.
    fn only_edits_files(&self) -> bool {
        let edits = matches!(self.name(), "git" | "sed" | "rm" | "mv" | "cp" | "touch" | "tee" | "mkdir" | "unlink");
        !self.writes.is_empty()
            || edits && self.touched_files().iter().any(|touch| touch.operation != FileOperation::Read)
    }

    /// Returns whether the command only reads something.
    fn is_read_only(&self) -> bool {
        let first = self.operands().next().map_or("", |word| word.text.as_str());
        let in_place = self.arguments().iter().any(|word| word.text.starts_with("-i") || word.text == "--in-place");
        self.writes.is_empty() && !(self.name() == "sed" && in_place) && tools::is_read_only_command(self.name(), first)
    }

    /// Returns the files that a command such as `cat`, `head` or `sed` reads: its operands, without the `sed`
    /// script and the values of options.
    fn input_files(&self) -> Vec<&Word> {
        let arguments = self.arguments();
        let mut files = Vec::new();
        let mut scripts = usize::from(self.name() == "sed");
        let mut at = 0;
        while at < arguments.len() {
            let word = &arguments[at];
            match (self.name(), word.text.as_str()) {
                ("head" | "tail", "-n" | "-c" | "--lines" | "--bytes") | ("nl", "-w" | "-s" | "-v") => {
                    at += 1;
                }
                ("sed", "-e" | "-f" | "--expression") => {
                    at += 1;
                    scripts = 0;
                }
                (_, option) if option.starts_with('-') && option.len() > 1 => {}
                // `sed -i ''`: the empty suffix means that no backup copy is made.
                ("sed", "") => {}
                _ if scripts > 0 => scripts -= 1,
                _ => files.push(word),
            }
            at += 1;
        }
        files
    }

    /// Returns the file and the lines that the command prints, if it prints one file. The path is `None` if
    /// the command prints its piped input.
    fn printed_lines(&self, from_pipe: bool) -> Option<(Option<String>, LineRange)> {
        if !self.writes.is_empty() || !self.heredoc.is_empty() {
            return None;
        }
        let files = self.input_files();
        let path = match files.as_slice() {
            [] if from_pipe => None,
            [file] if !from_pipe => Some(file.as_touched_file(FileOperation::Read)?.path),
            _ => return None,
        };
        let arguments = self.arguments();
        let lines = match self.name() {
            "cat" | "nl" | "bat" | "less" | "more" => None,
            "head" => Some((1, parse_head_count(arguments)?)),
            "sed" if self.has_option("-n") => Some(parse_sed_range(arguments)?),
            _ => return None,
        };
        Some((path, lines))
    }
}

impl Word {
    fn as_touched_file(&self, how: FileOperation) -> Option<TouchedFile> {
        let is_no_path =
            |text: &str| text.contains(['\n', '"', '|', ';', '<', '>', '$']) || parse_sed_substitution(text).is_some();
        let nowhere = self.has_expansion
            || self.text.is_empty()
            || self.text.starts_with("/dev/")
            || self.text == "-"
            || is_no_path(&self.text);
        (!nowhere).then(|| TouchedFile {
            path: self.text.strip_prefix("./").unwrap_or(&self.text).to_owned(),
            operation: how,
        })
    }
}

/// Returns the two sides of `s/old/new/g`, with any of the usual separators.
fn parse_sed_substitution(script: &str) -> Option<(&str, &str)> {
    let script = script.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | ' '));
    let rest = script.strip_prefix('s')?;
    let sign = rest.chars().next().filter(|sign| matches!(sign, '/' | '|' | '#' | ',' | '@' | '!'))?;
    let (old, rest) = rest[1..].split_once(sign)?;
    let (new, flags) = rest.split_once(sign)?;
    flags.chars().all(|c| c.is_ascii_alphanumeric() || c.is_whitespace() || c == ';').then_some((old, new))
}

/// Returns the inserted lines of `28a\\text`, `3i text` and `7c\\text`.
fn parse_sed_insertion(script: &str) -> Option<&str> {
    let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$'));
    let rest = command.strip_prefix(['a', 'i', 'c']).filter(|_| command.len() < script.len())?;
    let text = rest.trim_start_matches(['\\', '\n']);
    (text.len() < rest.len() || rest.starts_with(' ')).then_some(text).filter(|text| !text.trim().is_empty())
}

/// Returns the two files of a move or copy. In a target folder, the file keeps its name.
fn moved_file(from: &Word, to: &Word, how: FileOperation) -> Vec<TouchedFile> {
    let name = from.text.rsplit('/').next().unwrap_or_default();
    let folder = to.text.ends_with('/') || to.text == ".";
    let target = if folder { format!("{}/{name}", to.text.trim_end_matches('/')) } else { to.text.clone() };
    let target = Word { text: target, has_expansion: to.has_expansion || folder && from.has_expansion };
    from.as_touched_file(how).into_iter().chain(target.as_touched_file(FileOperation::Created)).collect()
}

/// Returns the number of lines of `head`, `head -20`, `head -n 20` and `head -n20`; `None` for a number of
/// bytes.
fn parse_head_count(arguments: &[Word]) -> Option<usize> {
    let mut options = arguments.iter().map(|word| word.text.as_str());
    let Some(option) = options.find(|word| word.starts_with('-') && word.len() > 1) else { return Some(10) };
    let number = match option {
        "-n" | "--lines" => options.next()?,
        _ => option.trim_start_matches("--lines=").trim_start_matches('-').trim_start_matches('n'),
    };
    number.parse().ok()
}

/// Returns the first and last line of `10,20p`, `7p` and `10,$p`.
fn parse_sed_range(arguments: &[Word]) -> Option<(usize, usize)> {
    let script = arguments.iter().map(|word| word.text.as_str()).find(|word| !word.starts_with('-'))?;
    let range = script.trim().strip_suffix('p')?;
    let (from, to) = range.split_once(',').unwrap_or((range, range));
    let from = from.trim().parse().ok()?;
    let to = if to.trim() == "$" { usize::MAX } else { to.trim().parse().ok()? };
    Some((from, to))
}
