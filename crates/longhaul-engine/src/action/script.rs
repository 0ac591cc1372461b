//! The files that a shell script plainly names: read, written, moved or taken away by the everyday commands.
//!
//! Only what is certain from the words counts. A path with a variable, a pattern or a substitution in it names no file, and a
//! command that is not in the list touches none.

use std::collections::HashSet;

use super::change::{Change, by_program, open_file_edit};
use super::{Touch, Touched, patch};
use crate::shell::{self, Command, Word, Write};
use crate::tools;

/// What a script does to files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) files: Vec<Touch>,
    /// What it does to their lines, as far as it shows it.
    pub(super) changes: Vec<Change>,
    /// Whether it only looks: nothing that it runs changes or tries anything.
    pub(super) looks: bool,
    /// The commands that do more than look or write a file, as they would be typed by themselves.
    pub(super) tries: String,
    /// The one file whose text the script prints, and which lines of it, where it prints nothing else.
    pub(super) shows: Option<(String, Option<(usize, usize)>)>,
}

/// The lines that a command prints of what it reads.
type Lines = Option<(usize, usize)>;

/// Reads a script.
pub(super) fn read(script: &str) -> Script {
    // What is typed into the editor of some agents is no script.
    if let Some((head, _)) = open_file_edit(script) {
        return Script { tries: head.to_owned(), ..Script::default() };
    }
    let mut directory = String::new();
    let mut found = Script::default();
    let mut shown = Vec::new();
    let mut known = HashSet::new();
    let commands = shell::commands(script);
    found.looks = commands.iter().all(Command::looks);
    found.tries = tries(script, &commands);
    let mut from_pipe = false;
    for command in &commands {
        let name = command.name();
        if name == "cd" {
            let folder = command.operands().next().map(|word| word.text.clone()).unwrap_or_default();
            directory = joined(&directory, &folder);
            continue;
        }
        let touches = command.touches();
        for change in command.changes(&touches) {
            found.changes.push(Change { path: joined(&directory, &change.path), ..change });
        }
        for touch in touches {
            let path = joined(&directory, &touch.path);
            let touch = Touch { path, ..touch };
            if known.insert(touch.clone()) {
                found.files.push(touch);
            }
        }
        shown.push(
            command
                .prints(from_pipe)
                .map(|(path, lines)| (path.map(|path| joined(&directory, &path)), lines)),
        );
        from_pipe = command.piped;
    }
    found.shows = match shown.as_slice() {
        [Some((Some(path), lines))] => Some((path.clone(), *lines)),
        [Some((Some(path), None)), Some((None, lines))]
            if commands.iter().filter(|c| c.piped).count() == 1 =>
        {
            Some((path.clone(), *lines))
        }
        _ => None,
    };
    found
}

/// What a script does besides writing files and looking at things; all of it where it does nothing else.
fn tries(script: &str, commands: &[Command]) -> String {
    // Of a program that is part of the command, what it begins with is seldom what it is about.
    let telling = |text: &str| {
        const OPENERS: [&str; 4] = ["import ", "from ", "sys.path", "#"];
        let is_telling = |line: &&str| !OPENERS.iter().any(|opener| line.trim_start().starts_with(opener));
        text.lines().filter(is_telling).collect::<Vec<_>>().join("\n").trim().to_owned()
    };
    let typed = |command: &Command| {
        let document = Some(&command.document).filter(|document| !document.is_empty());
        let words = command
            .words
            .iter()
            .map(|word| if word.text.contains('\n') { telling(&word.text) } else { word.text.clone() });
        words
            .chain(document.map(|document| format!("<< {}", telling(document))))
            .collect::<Vec<_>>()
            .join(" ")
    };
    // Where a command runs matters, unless it is a whole path: then it is most likely the project itself.
    let goes_below = |c: &Command| {
        c.name() == "cd" && c.operands().next().is_some_and(|to| !to.text.starts_with(['/', '~']))
    };
    let tried: Vec<&Command> =
        commands.iter().filter(|c| !c.only_edits() && (!c.looks() || goes_below(c))).collect();
    if tried.iter().all(|c| c.name() == "cd") {
        return String::new();
    }
    // A loop or a condition is told as it stands.
    let opens = |c: &Command| {
        c.words.first().is_some_and(|word| ["for", "while", "if", "case"].contains(&&*word.text))
    };
    if commands.iter().any(opens) {
        return script.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    tried.into_iter().map(typed).collect::<Vec<_>>().join("; ")
}

/// A path as seen from where the script started.
fn joined(directory: &str, path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    if directory.is_empty() || path.starts_with(['/', '~']) {
        return path.to_owned();
    }
    format!("{}/{path}", directory.trim_end_matches('/'))
}

impl Command {
    fn touches(&self) -> Vec<Touch> {
        let operands: Vec<&Word> = self.operands().collect();
        let each = |words: &[&Word], how: Touched| {
            words.iter().filter_map(|word| word.touch(how)).collect::<Vec<_>>()
        };
        let mut touches = match (self.name(), operands.as_slice()) {
            ("cat" | "nl" | "bat" | "less" | "more" | "head" | "tail" | "wc", _) => {
                each(&self.read_files(), Touched::Read)
            }
            ("sed", _)
                if self
                    .arguments()
                    .iter()
                    .any(|word| word.text.starts_with("-i") || word.text == "--in-place") =>
            {
                each(&self.read_files(), Touched::Edited)
            }
            ("sed", _) => each(&self.read_files(), Touched::Read),
            ("tee", files) if self.option("-a") => each(files, Touched::Edited),
            ("tee" | "touch", files) => each(files, Touched::Created),
            ("rm" | "unlink", files) => each(files, Touched::Deleted),
            ("mv", [from, to]) => moved(from, to, Touched::Deleted),
            ("cp", [from, to]) => moved(from, to, Touched::Read),
            ("git", [what, rest @ ..]) => match what.text.as_str() {
                "checkout" => {
                    let after = self.arguments().iter().skip_while(|word| word.text != "--").skip(1);
                    each(&after.collect::<Vec<_>>(), Touched::Restored)
                }
                "restore" => each(rest, Touched::Restored),
                "rm" => each(rest, Touched::Deleted),
                "mv" => match rest {
                    [from, to] => moved(from, to, Touched::Deleted),
                    _ => Vec::new(),
                },
                "apply" => patch::touches(&self.document),
                _ => Vec::new(),
            },
            ("apply_patch", [patch]) => patch::touches(&patch.text),
            ("apply_patch" | "applypatch" | "patch", _) => patch::touches(&self.document),
            _ => Vec::new(),
        };
        let how = |write: &Write| match write {
            Write::Anew => Touched::Created,
            Write::Behind => Touched::Edited,
        };
        touches.extend(self.writes.iter().filter_map(|(word, write)| word.touch(how(write))));
        touches
    }

    /// What it does to the lines of the files that it touches.
    fn changes(&self, touches: &[Touch]) -> Vec<Change> {
        let patched = match self.name() {
            "apply_patch" | "applypatch" => {
                patch::changes(self.operands().next().map_or(&self.document, |word| &word.text))
            }
            "patch" | "git" => patch::changes(&self.document),
            _ => Vec::new(),
        };
        if !patched.is_empty() {
            return patched;
        }
        if self.writes.is_empty() && self.name().starts_with("python") {
            let inline = self.arguments().iter().skip_while(|word| word.text != "-c").nth(1);
            return by_program(inline.map_or(&self.document, |word| &word.text));
        }
        let changed = touches.iter().filter(|touch| touch.how != Touched::Read);
        changed.flat_map(|touch| self.change(touch)).collect()
    }

    fn change(&self, touch: &Touch) -> Vec<Change> {
        let path = || touch.path.clone();
        match (self.name(), touch.how) {
            ("sed", Touched::Edited) => {
                let replaced: Vec<(&str, &str)> = self
                    .arguments()
                    .iter()
                    .filter_map(|word| substitution(&word.text))
                    .filter(|(old, new)| old != new)
                    .collect();
                let put_in: Vec<&str> = self
                    .arguments()
                    .iter()
                    .filter_map(|word| put_in(&word.text))
                    .flat_map(str::lines)
                    .collect();
                if !put_in.is_empty() {
                    return vec![Change::edited(path(), &[], &put_in)];
                }
                if replaced.is_empty() {
                    let is_idle = self.arguments().iter().any(|word| substitution(&word.text).is_some());
                    return if is_idle {
                        Vec::new()
                    } else {
                        vec![Change { path: path(), ..Change::default() }]
                    };
                }
                let plain = |text: &str| text.replace("\\.", ".").replace("\\/", "/");
                replaced
                    .iter()
                    .map(|(old, new)| Change::edited(path(), &[&plain(old)], &[&plain(new)]))
                    .collect()
            }
            (_, Touched::Created) if !self.document.is_empty() => {
                vec![Change::created(path(), &self.document)]
            }
            (_, Touched::Edited) if !self.document.is_empty() => {
                vec![Change::edited(path(), &[], &self.document.lines().collect::<Vec<_>>())]
            }
            ("echo" | "printf", how) => {
                let words: Vec<&str> = self.operands().map(|word| word.text.as_str()).collect();
                let how = Some(how).filter(|how| *how == Touched::Created);
                vec![Change {
                    how,
                    ..Change::edited(path(), &[], &words.join(" ").lines().collect::<Vec<_>>())
                }]
            }
            (_, Touched::Edited) => vec![Change { path: path(), ..Change::default() }],
            ("cp" | "mv", Touched::Created) => {
                let from = self.operands().next().map(|word| word.text.clone());
                vec![Change { from, ..Change::whole(path(), Touched::Created) }]
            }
            (_, how) => vec![Change::whole(path(), how)],
        }
    }

    /// Whether all that it does is a change of files, which is told as one.
    fn only_edits(&self) -> bool {
        let edits =
            matches!(self.name(), "git" | "sed" | "rm" | "mv" | "cp" | "touch" | "tee" | "mkdir" | "unlink");
        !self.writes.is_empty() || edits && self.touches().iter().any(|touch| touch.how != Touched::Read)
    }

    /// Whether it changes nothing and tries nothing.
    fn looks(&self) -> bool {
        let first = self.operands().next().map_or("", |word| word.text.as_str());
        let in_place =
            self.arguments().iter().any(|word| word.text.starts_with("-i") || word.text == "--in-place");
        self.writes.is_empty() && !(self.name() == "sed" && in_place) && tools::only_looks(self.name(), first)
    }

    /// The files that a command of this kind reads: its operands, without the script or number that comes first.
    fn read_files(&self) -> Vec<&Word> {
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
                // `sed -i ''`: the ending of a copy that is not to be made.
                ("sed", "") => {}
                _ if scripts > 0 => scripts -= 1,
                _ => files.push(word),
            }
            at += 1;
        }
        files
    }

    /// What it prints, where that is lines of one file, or of what is piped in (no path).
    fn prints(&self, from_pipe: bool) -> Option<(Option<String>, Lines)> {
        if !self.writes.is_empty() || !self.document.is_empty() {
            return None;
        }
        let files = self.read_files();
        let path = match files.as_slice() {
            [] if from_pipe => None,
            [file] if !from_pipe => Some(file.touch(Touched::Read)?.path),
            _ => return None,
        };
        let arguments = self.arguments();
        let lines = match self.name() {
            "cat" | "nl" | "bat" | "less" | "more" => None,
            "head" => Some((1, head_count(arguments)?)),
            "sed" if self.option("-n") => Some(sed_range(arguments)?),
            _ => return None,
        };
        Some((path, lines))
    }
}

impl Word {
    fn touch(&self, how: Touched) -> Option<Touch> {
        let is_no_path =
            |text: &str| text.contains(['\n', '"', '|', ';', '<', '>', '$']) || substitution(text).is_some();
        let nowhere = self.expands
            || self.text.is_empty()
            || self.text.starts_with("/dev/")
            || self.text == "-"
            || is_no_path(&self.text);
        (!nowhere).then(|| Touch { path: self.text.strip_prefix("./").unwrap_or(&self.text).to_owned(), how })
    }
}

/// The two sides of `s/old/new/g`, whatever sign is between them.
fn substitution(script: &str) -> Option<(&str, &str)> {
    let script = script.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | ' '));
    let rest = script.strip_prefix('s')?;
    let sign = rest.chars().next().filter(|sign| matches!(sign, '/' | '|' | '#' | ',' | '@' | '!'))?;
    let (old, rest) = rest[1..].split_once(sign)?;
    let (new, flags) = rest.split_once(sign)?;
    flags.chars().all(|c| c.is_ascii_alphanumeric() || c.is_whitespace() || c == ';').then_some((old, new))
}

/// The lines of `28a\\text`, `3i text`, `7c\\text`.
fn put_in(script: &str) -> Option<&str> {
    let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$'));
    let rest = command.strip_prefix(['a', 'i', 'c']).filter(|_| command.len() < script.len())?;
    let text = rest.trim_start_matches(['\\', '\n']);
    (text.len() < rest.len() || rest.starts_with(' ')).then_some(text).filter(|text| !text.trim().is_empty())
}

/// A file that got another name; into a folder it keeps its own.
fn moved(from: &Word, to: &Word, how: Touched) -> Vec<Touch> {
    let name = from.text.rsplit('/').next().unwrap_or_default();
    let folder = to.text.ends_with('/') || to.text == ".";
    let target = if folder { format!("{}/{name}", to.text.trim_end_matches('/')) } else { to.text.clone() };
    let target = Word { text: target, expands: to.expands || folder && from.expands };
    from.touch(how).into_iter().chain(target.touch(Touched::Created)).collect()
}

/// `head`, `head -20`, `head -n 20`, `head -n20`; nothing for counts of bytes.
fn head_count(arguments: &[Word]) -> Option<usize> {
    let mut options = arguments.iter().map(|word| word.text.as_str());
    let Some(option) = options.find(|word| word.starts_with('-') && word.len() > 1) else { return Some(10) };
    let number = match option {
        "-n" | "--lines" => options.next()?,
        _ => option.trim_start_matches("--lines=").trim_start_matches('-').trim_start_matches('n'),
    };
    number.parse().ok()
}

/// `10,20p`, `7p`, `10,$p`.
fn sed_range(arguments: &[Word]) -> Option<(usize, usize)> {
    let script = arguments.iter().map(|word| word.text.as_str()).find(|word| !word.starts_with('-'))?;
    let range = script.trim().strip_suffix('p')?;
    let (from, to) = range.split_once(',').unwrap_or((range, range));
    let from = from.trim().parse().ok()?;
    let to = if to.trim() == "$" { usize::MAX } else { to.trim().parse().ok()? };
    Some((from, to))
}
