//! How agents are pointed at a gateway: the rows of `agents.toml`, for those who are told how, and for those who are run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use longhaul_engine::Dialect;
use serde::Deserialize;

use crate::config::Environment;

/// Where the gateway's address goes.
const URL: &str = "{url}";

/// Where the path of our private folder goes.
const FOLDER: &str = "{folder}";

/// The command that works in every agent's terminal: none takes a plain word for a command of its own.
const PLAIN_COMMAND: &str = "longhaul compress";

/// What separates the folders in a variable that lists several.
const LIST_SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    agent: Vec<Agent>,
    base: Vec<Base>,
}

/// An agent, and what it needs to find a gateway.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Agent {
    pub(crate) name: String,
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    arguments: Vec<String>,
    /// Variables that hold the key of a run in place of the address.
    #[serde(default)]
    key_variables: Vec<String>,
    #[serde(default)]
    off: BTreeMap<String, String>,
    #[serde(default)]
    off_arguments: Vec<String>,
    /// Files in a private folder, by their path in it.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// A sentence about the agent's own compaction where nothing switches it off.
    pub(crate) own_compaction: Option<String>,
    /// The context windows that the agent works with, by model, in tokens.
    #[serde(default)]
    windows: BTreeMap<String, u64>,
    /// The command of its own menu that compacts by hand.
    command: Option<String>,
    /// Variables that list folders in which the agent looks for commands.
    #[serde(default)]
    command_folders: Vec<String>,
    pub(crate) note: Option<String>,
    #[serde(rename = "source")]
    _source: String,
}

/// A variable that says where a provider is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Base {
    pub(crate) variable: String,
    pub(crate) dialects: Vec<Dialect>,
}

/// What one run of an agent is given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outfit {
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Before its own.
    pub(crate) arguments: Vec<String>,
}

/// What an outfit is made for.
pub(crate) struct Run<'a> {
    /// The gateway's address, as [`Agent::address`] has it.
    pub(crate) url: &'a str,
    /// The key that opens the gateway.
    pub(crate) key: &'a str,
    /// The folder with our files, for an agent that has some.
    pub(crate) folder: Option<&'a Path>,
    /// Whether the gateway answers commands.
    pub(crate) commands: bool,
    pub(crate) environment: &'a Environment,
}

impl Agent {
    /// The row of a program; the one for everybody where it has none.
    pub(crate) fn of(program: &OsStr) -> Option<&'static Self> {
        let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
        let name = [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let is_it = |agent: &&Self| agent.programs.iter().any(|known| known == name);
        TABLE.agent.iter().find(is_it).or_else(|| TABLE.agent.last())
    }

    /// The variables that tell it where the gateway is.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.set.keys().map(String::as_str)
    }

    /// Whether it is known by name.
    pub(crate) fn is_known(&self) -> bool {
        !self.programs.is_empty()
    }

    /// What switches its own compaction off, in words; nothing where nothing does.
    pub(crate) fn off(&self) -> Option<String> {
        let variables = self.off.iter().map(|(name, value)| format!("{name}={value}"));
        let all: Vec<String> = variables.chain(self.off_arguments.iter().cloned()).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }

    /// The address of a gateway that only this key opens, as a run is given it. The key is part of it, except where the address is an
    /// argument: other users of the machine can read those in the list of processes. There a variable holds the key.
    pub(crate) fn address(&self, url: &str, key: &str, environment: &Environment) -> String {
        match self.key_variable(environment) {
            Some(_) => url.to_owned(),
            None => format!("{url}/{key}"),
        }
    }

    /// The first of the variables for a key that the user has no use for.
    fn key_variable(&self, environment: &Environment) -> Option<&str> {
        let is_set = |name: &str| environment.iter().any(|(known, value)| known == name && !value.is_empty());
        self.key_variables.iter().map(String::as_str).find(|name| !is_set(name))
    }

    /// The files that a run needs, by their path in a folder of ours.
    pub(crate) fn files(&self, url: &str) -> Vec<(&str, String)> {
        let text = |text: &String| text.trim_start_matches('\n').replace(URL, url);
        self.files.iter().map(|(path, content)| (path.as_str(), text(content))).collect()
    }

    /// The models whose context window is smaller in this agent than at the provider, with that window in tokens.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&str, u64)> {
        self.windows.iter().map(|(model, tokens)| (model.as_str(), *tokens))
    }

    /// A sentence about the ways to compact by hand in this agent's terminal.
    pub(crate) fn by_hand(&self) -> String {
        match &self.command {
            Some(command) => format!("to compact by hand, type {command}, or {PLAIN_COMMAND}"),
            None => format!("to compact by hand, type {PLAIN_COMMAND}"),
        }
    }

    /// What a run behind a gateway is given.
    pub(crate) fn outfit(&'static self, run: &Run<'_>) -> Outfit {
        let folder = run.folder.map(|folder| folder.display().to_string()).unwrap_or_default();
        let fill = |text: &String| text.replace(URL, run.url).replace(FOLDER, &folder);
        let mut variables: Vec<(&'static str, String)> =
            self.set.iter().chain(&self.off).map(|(name, value)| (name.as_str(), fill(value))).collect();
        if run.commands && run.folder.is_some() {
            let listed = |name: &'static String| (name.as_str(), with_listed(&folder, name, run.environment));
            variables.extend(self.command_folders.iter().map(listed));
        }
        variables.extend(self.key_variable(run.environment).map(|name| (name, run.key.to_owned())));
        Outfit { variables, arguments: self.arguments.iter().chain(&self.off_arguments).map(fill).collect() }
    }

    /// Whether a variable lists folders, so that ours stands beside what the user has in it.
    pub(crate) fn lists_folders(&self, variable: &str) -> bool {
        self.command_folders.iter().any(|name| name == variable)
    }

    /// What to type to use it with a gateway that is there; one that wants a file is run by us.
    pub(crate) fn line(&self, url: &str) -> String {
        if self.arguments.iter().any(|argument| argument.contains(FOLDER)) {
            return format!("longhaul run -- {}", self.name);
        }
        let set = self.set.iter().map(|(name, value)| format!("{name}={}", quoted(&value.replace(URL, url))));
        let arguments = self.arguments.iter().map(|argument| quoted(&argument.replace(URL, url)));
        let words: Vec<String> = set.chain(self.programs.first().cloned()).chain(arguments).collect();
        words.join(" ")
    }
}

/// The agents that there is a row for, and what others are given.
pub(crate) fn all() -> impl Iterator<Item = &'static Agent> {
    TABLE.agent.iter()
}

/// Whether a variable says where a provider is, and nothing else.
pub(crate) fn is_base(name: &str) -> bool {
    TABLE.base.iter().any(|base| base.variable == name)
}

/// Where the environment says that providers are: the first variable of a dialect wins.
pub(crate) fn bases(environment: &Environment) -> Vec<(&'static Base, Dialect, String)> {
    let mut found: Vec<(&'static Base, Dialect, String)> = Vec::new();
    for base in &TABLE.base {
        let is_set = |(name, value): &&(String, String)| *name == base.variable && !value.trim().is_empty();
        let Some((_, url)) = environment.iter().find(is_set) else { continue };
        for dialect in &base.dialects {
            if found.iter().all(|(_, known, _)| known != dialect) {
                found.push((base, *dialect, url.trim().to_owned()));
            }
        }
    }
    found
}

/// A list of folders that begins with ours and goes on with the user's.
fn with_listed(folder: &str, variable: &str, environment: &Environment) -> String {
    match environment.iter().find(|(name, value)| name == variable && !value.trim().is_empty()) {
        Some((_, others)) => format!("{folder}{LIST_SEPARATOR}{others}"),
        None => folder.to_owned(),
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:/.,+@[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[expect(clippy::panic, reason = "it is a mistake of ours, and the tests read the table")]
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("agents.toml")).unwrap_or_else(|error| panic!("agents.toml: {error}"))
});

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "http://127.0.0.1:8484";
    const KEY: &str = "lh-key";

    fn in_folder(environment: &Environment) -> Run<'_> {
        Run { url: HERE, key: KEY, folder: Some(Path::new("/tmp/x")), commands: true, environment }
    }

    fn outfit(program: &str, environment: &Environment) -> Outfit {
        Agent::of(OsStr::new(program)).unwrap().outfit(&in_folder(environment))
    }

    #[test]
    fn an_agent_is_known_by_its_program_wherever_that_is() {
        for (program, name) in [
            ("claude", "claude"),
            ("/opt/bin/codex", "codex"),
            ("aider.exe", "aider"),
            ("my-agent", "any other"),
            ("", "any other"),
        ] {
            assert_eq!(Agent::of(OsStr::new(program)).unwrap().name, name);
        }
    }

    #[test]
    fn a_run_is_given_the_address_and_nothing_of_the_agent_compacts() {
        let claude = outfit("claude", &Vec::new());
        assert!(claude.variables.contains(&("ANTHROPIC_BASE_URL", HERE.to_owned())));
        assert!(claude.variables.contains(&("DISABLE_COMPACT", "1".to_owned())));
        for agent in all() {
            let outfit = agent.outfit(&in_folder(&Vec::new()));
            let texts = outfit.variables.into_iter().map(|(_, value)| value);
            let files = agent.files(HERE).into_iter().map(|(_, text)| text);
            let all: Vec<String> = texts.chain(outfit.arguments).chain(files).collect();
            assert!(all.iter().any(|text| text.contains(HERE)), "{}", agent.name);
            assert!(!all.iter().any(|text| text.contains(URL) || text.contains(FOLDER)), "{}", agent.name);
        }
    }

    #[test]
    fn every_agent_is_one_line_that_a_shell_takes() {
        let line = |program: &str| Agent::of(OsStr::new(program)).unwrap().line(HERE);
        assert_eq!(line("claude"), "ANTHROPIC_BASE_URL=http://127.0.0.1:8484 claude");
        for agent in all() {
            let line = agent.line(HERE);
            assert!(line.contains(HERE) != line.contains("longhaul run") && !line.contains('\n'), "{line}");
            assert_eq!(line.matches('\'').count() % 2, 0, "{line}");
        }
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn files_of_ours_are_named_by_where_they_lie() {
        let pi = Agent::of(OsStr::new("pi")).unwrap();
        assert_eq!(outfit("pi", &Vec::new()).arguments, ["-e", "/tmp/x/longhaul.js"]);
        assert!(pi.files(HERE)[0].1.contains("baseUrl: \"http://127.0.0.1:8484/v1\""));
    }

    #[test]
    fn commands_of_ours_stand_beside_the_users_and_are_left_out_where_commands_are_off() {
        let folders = |environment: &Environment, commands| {
            let run = Run { commands, ..in_folder(environment) };
            let variables = Agent::of(OsStr::new("claude")).unwrap().outfit(&run).variables;
            variables.into_iter().find(|(name, _)| *name == "CLAUDE_CODE_PLUGIN_DIRS").map(|(_, value)| value)
        };
        let users = vec![("CLAUDE_CODE_PLUGIN_DIRS".to_owned(), "/home/a/plugins".to_owned())];
        assert_eq!(folders(&Vec::new(), true).unwrap(), "/tmp/x");
        assert_eq!(folders(&users, true).unwrap(), format!("/tmp/x{LIST_SEPARATOR}/home/a/plugins"));
        assert_eq!(folders(&users, false), None);
    }

    #[test]
    fn every_command_of_a_menu_says_what_the_gateway_answers() {
        let claude = Agent::of(OsStr::new("claude")).unwrap().files(HERE);
        for (path, text) in claude.iter().filter(|(path, _)| path.starts_with("commands/")) {
            assert!(text.starts_with("---\n") && text.contains("disable-model-invocation: true"), "{path}");
            let name = path.trim_start_matches("commands/").trim_end_matches(".md");
            assert!(text.lines().last().unwrap().starts_with(&format!("/{name}")), "{path}");
        }
        for name in ["claude", "opencode", "pi"] {
            assert!(Agent::of(OsStr::new(name)).unwrap().by_hand().contains("/longhaul:compress"), "{name}");
        }
        for name in ["codex", "aider", "my-agent"] {
            let said = Agent::of(OsStr::new(name)).unwrap().by_hand();
            assert_eq!(said, "to compact by hand, type longhaul compress", "{name}");
        }
    }

    #[test]
    fn an_agent_either_does_not_compact_or_is_said_to() {
        let codex = Agent::of(OsStr::new("codex")).unwrap();
        assert!(codex.off().is_none() && codex.own_compaction.as_ref().unwrap().contains("90 %"));
        assert!(codex.windows().any(|row| row == ("gpt-5.5", 272_000)));
        for agent in all() {
            assert!(agent.off().is_none() || agent.own_compaction.is_none(), "{}", agent.name);
        }
    }

    #[test]
    fn every_agent_gets_the_key_of_a_run_and_none_in_an_argument() {
        let environment = Vec::new();
        for agent in all() {
            let address = agent.address(HERE, KEY, &environment);
            let outfit = agent.outfit(&Run { url: &address, ..in_folder(&environment) });
            let files = agent.files(&address).into_iter().map(|(_, text)| text);
            let hidden: Vec<String> =
                outfit.variables.into_iter().map(|(_, value)| value).chain(files).collect();
            assert!(hidden.iter().any(|text| text.contains(KEY)), "{}", agent.name);
            let seen = outfit.arguments.iter().any(|text| text.contains(KEY));
            assert!(!seen, "{}: every user of the machine reads it", agent.name);
        }
    }

    #[test]
    fn a_variable_that_the_user_has_set_keeps_its_value() {
        let codex = Agent::of(OsStr::new("codex")).unwrap();
        let set = |names: &[&str]| -> Environment {
            names.iter().map(|name| ((*name).to_owned(), "mine".to_owned())).collect()
        };
        let both = set(&["OPENAI_PROJECT", "OPENAI_ORGANIZATION"]);
        assert_eq!(codex.key_variable(&set(&[])), Some("OPENAI_PROJECT"));
        assert_eq!(codex.key_variable(&set(&["OPENAI_PROJECT"])), Some("OPENAI_ORGANIZATION"));
        assert_eq!(codex.key_variable(&both), None);
        assert_eq!(codex.address(HERE, KEY, &both), format!("{HERE}/{KEY}"));
    }

    #[test]
    fn what_json_is_given_is_json() {
        for (name, value) in all().flat_map(|agent| agent.outfit(&in_folder(&Vec::new())).variables) {
            if value.starts_with('{') {
                assert!(serde_json::from_str::<serde_json::Value>(&value).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn a_proxy_of_the_users_is_found_once_for_each_dialect() {
        let environment: Environment = [
            ("ANTHROPIC_BASE_URL", "http://proxy:1"),
            ("OPENAI_API_BASE", "http://old:2/v1"),
            ("OPENAI_BASE_URL", " http://new:3/v1 "),
            ("ANTHROPIC_API_BASE", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let found: Vec<(&str, Dialect, String)> =
            bases(&environment).into_iter().map(|(base, d, url)| (base.variable.as_str(), d, url)).collect();
        assert_eq!(
            found,
            [
                ("ANTHROPIC_BASE_URL", Dialect::Messages, "http://proxy:1".to_owned()),
                ("OPENAI_BASE_URL", Dialect::Chat, "http://new:3/v1".to_owned()),
                ("OPENAI_BASE_URL", Dialect::Responses, "http://new:3/v1".to_owned()),
            ]
        );
    }
}
