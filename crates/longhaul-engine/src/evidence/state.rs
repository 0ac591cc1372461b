//! Where the work stands: folder, branch, tests, what runs in the background, the surroundings; the newest sign wins.

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
    let is_absolute = path.starts_with(['/', '~', '$'])
        || path.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/");
    let Some(folder) = folder.filter(|_| !is_absolute) else { return path.to_owned() };
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
    let mut rest = command;
    while let Some((part, after)) = next_part(rest) {
        of_part(part, signs);
        rest = after;
    }
    let trimmed = command.trim_end();
    let ends_in_background = trimmed.ends_with('&') && !trimmed.ends_with("&&");
    let started = [" up -d", "pm2 start", "docker run -d", "nohup ", "systemctl start"]
        .iter()
        .any(|word| command.contains(word));
    let backgrounded = trimmed.contains(" & ") || trimmed.contains("& sleep") || trimmed.contains("&\n");
    if in_background || ends_in_background || started || backgrounded {
        signs.push(Sign::Starts(clip(trimmed, 200).to_owned()));
    }
}

/// The next simple command of a line, and what is behind it.
fn next_part(command: &str) -> Option<(&str, &str)> {
    let command = command.trim_start_matches([' ', ';', '&', '|', '\n']);
    if command.is_empty() {
        return None;
    }
    let end = command.find(['\n', ';', '&', '|']).unwrap_or(command.len());
    Some((command[..end].trim(), &command[end..]))
}

fn of_part(part: &str, signs: &mut Vec<Sign>) {
    let words: Vec<&str> =
        part.split_whitespace().map(|word| word.trim_matches(['"', '\''])).take(6).collect();
    match words.as_slice() {
        ["cd", path] if !path.starts_with('-') => signs.push(Sign::Directory((*path).to_owned())),
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
            signs.push(Sign::Environment(format!("venv {path}")))
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
    let first = opening.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
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
    let asks_version = command.contains("--version")
        || command.ends_with(" -v")
        || command.ends_with(" -V")
        || command.ends_with(" version");
    if asks_version
        && first.len() <= 80
        && first.bytes().any(|byte| byte.is_ascii_digit())
        && !first.is_empty()
    {
        let program = command.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
        let named = first.to_ascii_lowercase().contains(&program.to_ascii_lowercase()) || first.contains(' ');
        signs.push(Sign::Environment(if named { first.to_owned() } else { format!("{program} {first}") }));
    }
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
