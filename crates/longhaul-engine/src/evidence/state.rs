//! Where the work stands: folder, branch, tests, what runs in the background, the surroundings; the newest sign wins.

use std::borrow::Cow;

use crate::action::{Action, Outcome, TestCounts, Verb};
use crate::lines::clip;
use crate::transcript::{Block, BlockKind, Exchange};

/// Where the work stands, as far as the transcript shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The working directory.
    pub directory: Option<String>,
    /// The branch in version control.
    pub branch: Option<String>,
    /// The counts of the newest test run.
    pub tests: Option<TestCounts>,
    /// The unit of that run.
    pub tested: Option<usize>,
    /// What was started in the background and not stopped again, as it was started.
    pub processes: Vec<String>,
    /// Versions, environments that were entered, variables that were set (those with secret names without their value).
    pub environment: Vec<String>,
}

/// One thing that an exchange tells about the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    Directory(String),
    Branch(String),
    Starts(String),
    /// Something was stopped, by a word that its command has; all of it where none is known.
    Stops(Option<String>),
    Environment(String),
}

/// How much of an output is looked at for signs.
const GLANCE: usize = 600;

/// More than this in the background is not worth telling.
const MOST: usize = 12;

impl State {
    pub(super) fn take(&mut self, sign: &Sign) {
        match sign {
            Sign::Directory(path) => self.directory = Some(below(self.directory.as_deref(), path)),
            Sign::Branch(name) => self.branch = Some(name.clone()),
            Sign::Starts(command) => {
                self.processes.retain(|other| other != command);
                self.processes.push(command.clone());
                let over = self.processes.len().saturating_sub(MOST);
                self.processes.drain(..over);
            }
            Sign::Stops(Some(word)) => {
                let before = self.processes.len();
                self.processes.retain(|command| !command.contains(word.as_str()));
                // A process id names nothing that was seen: the newest is the likeliest.
                if before == self.processes.len()
                    && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'%')
                {
                    self.processes.pop();
                }
            }
            Sign::Stops(None) => self.processes.clear(),
            Sign::Environment(fact) => {
                let subject = |fact: &str| fact.split(['=', ' ']).next().unwrap_or_default().to_owned();
                self.environment.retain(|other| subject(other) != subject(fact));
                self.environment.push(fact.clone());
                let over = self.environment.len().saturating_sub(MOST);
                self.environment.drain(..over);
            }
        }
    }
}

/// A path, seen from a folder.
pub(super) fn below(folder: Option<&str>, path: &str) -> String {
    let Some(folder) = folder.filter(|_| !is_absolute(path)) else { return path.to_owned() };
    let mut parts: Vec<&str> = folder.trim_end_matches('/').split('/').collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.len() > 1 => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn is_absolute(path: &str) -> bool {
    let drive = path.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/");
    path.starts_with(['/', '~', '$']) || drive
}

/// What an exchange tells about the state.
pub(super) fn signs(exchange: &Exchange<'_>, action: &Action) -> Vec<Sign> {
    if action.verb != Verb::Run {
        return Vec::new();
    }
    let mut signs = Vec::new();
    let call = exchange.call.as_ref().map(Block::text).unwrap_or_default();
    let arguments: serde_json::Value = serde_json::from_str(&call).unwrap_or_default();
    for key in ["workdir", "cwd", "working_directory", "workingDirectory"] {
        if let Some(path) = arguments[key].as_str().filter(|path| !path.is_empty()) {
            signs.push(Sign::Directory(path.to_owned()));
        }
    }
    let worked = action.outcome != Outcome::Failed;
    let command = arguments["command"].as_str().or(action.target.as_deref()).unwrap_or_default();
    if worked {
        let in_background =
            ["run_in_background", "background", "is_background"].iter().any(|key| arguments[*key] == true);
        of_command(command, in_background, &mut signs);
    }
    let words = || exchange.results.iter().filter(|block| block.kind == BlockKind::Text);
    if let (Some(first), Some(last)) = (words().next(), words().next_back()) {
        of_output(command, &first.opening(GLANCE), &last.ending(GLANCE), &mut signs);
    }
    signs
}

fn of_command(command: &str, in_background: bool, signs: &mut Vec<Sign>) {
    let script = without_documents(command);
    let start = || Sign::Starts(clip(command.trim_end(), 200).to_owned());
    let mut own = Vec::new();
    let mut is_detached = in_background;
    for (part, separator) in parts(&script) {
        // What it waits for is over when it is.
        if part == "wait" || part.starts_with("wait ") {
            own.retain(|sign| !matches!(sign, Sign::Starts(_)));
        }
        of_part(part, &script, &mut own);
        let words: Vec<&str> = part.split_whitespace().take(4).collect();
        is_detached |= match words.as_slice() {
            ["nohup" | "setsid", ..]
            | ["pm2" | "systemctl", "start", ..]
            | ["sudo", "systemctl", "start", ..] => true,
            ["docker" | "podman" | "docker-compose", ..] => {
                part.contains(" up -d") || part.contains(" run -d")
            }
            _ => false,
        };
        if separator == "&" {
            own.push(start());
        }
    }
    if is_detached && !own.iter().any(|sign| matches!(sign, Sign::Starts(_))) {
        own.push(start());
    }
    signs.append(&mut own);
}

/// A script without the documents that it feeds to its commands.
fn without_documents(script: &str) -> Cow<'_, str> {
    if !script.contains("<<") {
        return script.into();
    }
    let mut kept = String::with_capacity(script.len());
    let mut end: Option<&str> = None;
    for line in script.split_inclusive('\n') {
        match end {
            Some(mark) if line.trim() == mark => end = None,
            Some(_) => {}
            None => {
                kept.push_str(line);
                let behind = line.split_once("<<").map(|(_, behind)| behind.trim_start_matches(['-', ' ']));
                let mark =
                    behind.and_then(|behind| behind.split([' ', ';', '|', '>', '&', ')', '\n']).next());
                end = mark
                    .map(|mark| mark.trim_matches(['\'', '"']))
                    .filter(|mark| !mark.is_empty() && *mark != "<");
            }
        }
    }
    kept.into()
}

/// The simple commands of a script with the sign behind each: `;`, `&`, `&&`, a pipe, a line end. What is quoted separates
/// nothing, nor does the `&` of a redirection.
fn parts(script: &str) -> Vec<(&str, &str)> {
    let mut parts = Vec::new();
    let (mut from, mut quote) = (0, None);
    let mut characters = script.char_indices().peekable();
    let mut before = ' ';
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map_or(' ', |(_, next)| *next);
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None | Some('"'), '\\') => {
                characters.next();
            }
            (None, '"' | '\'') => quote = Some(character),
            (None, '&') if next == '>' || matches!(before, '>' | '<') => {}
            (None, ';' | '&' | '|' | '\n') => {
                let end = if next == character { at + 2 } else { at + 1 };
                if end > at + 1 {
                    characters.next();
                }
                parts.push((script[from..at].trim(), &script[at..end]));
                from = end;
            }
            _ => {}
        }
        before = character;
    }
    parts.push((script[from..].trim(), ""));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

fn of_part(part: &str, command: &str, signs: &mut Vec<Sign>) {
    let words: Vec<&str> =
        part.split_whitespace().map(|word| word.trim_matches(['"', '\''])).take(6).collect();
    let is_alone = part.len() == command.trim().len();
    match words.as_slice() {
        // Some shells begin anew with each call: where a relative step leads is sure only if it is all that was done.
        ["cd", path] if is_absolute(path) || (is_alone && !path.starts_with('-')) => {
            signs.push(Sign::Directory((*path).to_owned()));
        }
        ["git", "checkout" | "switch", "-b" | "-c" | "-B" | "-C", name, ..] | ["git", "switch", name]
            if !name.starts_with('-') =>
        {
            signs.push(Sign::Branch((*name).to_owned()));
        }
        ["kill", .., id] => signs.push(Sign::Stops(Some(id.trim_start_matches('%').to_owned()))),
        ["pkill" | "killall", .., word] => signs.push(Sign::Stops(Some((*word).to_owned()))),
        ["docker", "compose", "down" | "stop", ..] | ["docker-compose", "down" | "stop", ..] => {
            signs.push(Sign::Stops(Some("docker".to_owned())));
        }
        ["docker", "stop" | "rm", .., name] => signs.push(Sign::Stops(Some((*name).to_owned()))),
        ["source" | ".", path] if path.ends_with("activate") => {
            signs.push(Sign::Environment(format!("venv {path}")));
        }
        ["conda" | "mamba", "activate", name] => signs.push(Sign::Environment(format!("conda {name}"))),
        ["nvm" | "pyenv" | "rbenv" | "asdf", "use" | "local" | "global" | "shell", rest @ ..]
            if !rest.is_empty() =>
        {
            signs.push(Sign::Environment(format!("{} {}", words[0], rest.join(" "))));
        }
        ["export", variable, ..] => signs.extend(variable_sign(variable)),
        _ => {}
    }
}

/// A variable that was set; of one with a secret's name only the name.
fn variable_sign(assignment: &str) -> Option<Sign> {
    let (name, value) = assignment.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let secret = [
        "KEY", "TOKEN", "SECRET", "PASS", "PWD", "AUTH", "CRED", "COOKIE", "SESSION", "PRIVATE", "DSN",
        "URL", "URI",
    ];
    let is_secret = secret.iter().any(|word| name.to_ascii_uppercase().contains(word)) || value.len() > 60;
    let shown = if is_secret { "(set)" } else { value };
    (is_name && name != "PATH").then(|| Sign::Environment(format!("{name}={shown}")))
}

fn of_output(command: &str, opening: &str, ending: &str, signs: &mut Vec<Sign>) {
    // Some shells wrap what they show in tags.
    let first = opening.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('<'));
    let first = first.unwrap_or_default();
    let is_command = |words: &str| {
        command == words
            || command.ends_with(&format!("&& {words}"))
            || command.ends_with(&format!("; {words}"))
    };
    if is_command("pwd") && first.starts_with('/') {
        signs.push(Sign::Directory(first.to_owned()));
    }
    if command.contains("git ") {
        let branch = opening.lines().find_map(|line| {
            let on = line
                .strip_prefix("On branch ")
                .or_else(|| line.strip_prefix("## "))
                .or_else(|| line.strip_prefix("Switched to branch '"));
            let on = on
                .or_else(|| line.strip_prefix("Switched to a new branch '"))
                .or_else(|| line.strip_prefix("* ").filter(|_| command.contains("git branch")));
            let name = on?.split("...").next()?.trim().trim_end_matches('\'');
            (!name.is_empty() && !name.contains(' ')).then(|| name.to_owned())
        });
        let shown = is_command("git branch --show-current") || command.contains("--abbrev-ref HEAD");
        let branch =
            branch.or_else(|| (shown && !first.contains(' ') && !first.is_empty()).then(|| first.to_owned()));
        signs.extend(branch.map(Sign::Branch));
    }
    signs.extend(version(command, first).map(Sign::Environment));
    // Shells of some agents say after each command where they are.
    for mark in ["(Current directory: ", "[Current working directory: ", "Current working directory: "] {
        if let Some(at) = ending.rfind(mark) {
            let path =
                ending[at + mark.len()..].lines().next().unwrap_or_default().trim_end_matches([')', ']']);
            if path.starts_with('/') {
                signs.push(Sign::Directory(path.to_owned()));
            }
            break;
        }
    }
}

/// The version that a command shows, if it was asked for one before all else.
fn version(command: &str, shown: &str) -> Option<String> {
    let script = without_documents(command);
    let prepares = |part: &str| ["cd ", "source ", ". ", "export "].iter().any(|word| part.starts_with(word));
    let (asked, _) = parts(&script).into_iter().find(|(part, _)| !prepares(part))?;
    let asks =
        ["--version", "-v", "-V", "version"].iter().any(|flag| asked.split_whitespace().nth(1) == Some(flag));
    let has_number = shown
        .as_bytes()
        .windows(3)
        .any(|three| three[0].is_ascii_digit() && three[1] == b'.' && three[2].is_ascii_digit());
    if !asks || !has_number || shown.len() > 80 {
        return None;
    }
    let program = asked.split_whitespace().next().unwrap_or_default();
    let is_named = shown.contains(' ') || shown.to_ascii_lowercase().contains(&program.to_ascii_lowercase());
    Some(if is_named { shown.to_owned() } else { format!("{program} {shown}") })
}

/// The folder that a note of the program around the model names.
pub(super) fn of_note(opening: &str) -> Option<Sign> {
    const MARKS: [(&str, &str); 4] = [
        ("<cwd>", "</cwd>"),
        ("Working directory: ", "\n"),
        ("Current Working Directory (", ")"),
        ("Current working directory: ", "\n"),
    ];
    MARKS.iter().find_map(|(mark, end)| {
        let rest = &opening[opening.find(mark)? + mark.len()..];
        let path = rest[..rest.find(end).unwrap_or(rest.len())].trim();
        (path.starts_with(['/', '~']) && !path.contains('\n')).then(|| Sign::Directory(path.to_owned()))
    })
}
