//! How to connect each agent to a gateway, from the rows of `agents.toml`: for `serve`, which prints it, and
//! for `run`, which does it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use longhaul_engine::ApiFormat;
use serde::Deserialize;

use crate::config::Environment;

/// The placeholder for the gateway's address.
const URL_PLACEHOLDER: &str = "{url}";

/// The placeholder for the path of our private folder.
const FOLDER_PLACEHOLDER: &str = "{folder}";

/// The command that works in every agent's terminal, because no agent takes plain words for one of its own
/// commands.
const PLAIN_COMMAND: &str = "longhaul compress";

/// The separator in a variable that lists several folders.
const LIST_SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentTable {
    agent: Vec<AgentSetup>,
    base: Vec<BaseUrlVariable>,
}

/// The settings with which an agent uses a gateway.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentSetup {
    pub(crate) name: String,
    #[serde(default)]
    programs: Vec<String>,
    /// The variables that contain the gateway's address, with a template of the value.
    #[serde(default, rename = "set")]
    address_variables: BTreeMap<String, String>,
    #[serde(default)]
    arguments: Vec<String>,
    /// Variables that can contain the key of a run, so that the address does not.
    #[serde(default)]
    key_variables: Vec<String>,
    /// The variables that switch off the agent's own compaction, with their values.
    #[serde(default, rename = "off")]
    compaction_off_variables: BTreeMap<String, String>,
    #[serde(default, rename = "off_arguments")]
    compaction_off_arguments: Vec<String>,
    /// The content of files in a private folder, by their path in it.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// A sentence about the agent's own compaction, if it cannot be switched off.
    pub(crate) own_compaction: Option<String>,
    /// The context windows that the agent assumes, by model, in tokens.
    #[serde(default)]
    windows: BTreeMap<String, u64>,
    /// The command in the agent's own menu that compacts by hand.
    command: Option<String>,
    /// Variables that list the folders in which the agent looks for commands.
    #[serde(default)]
    command_folders: Vec<String>,
    pub(crate) note: Option<String>,
    #[serde(rename = "source")]
    _source: String,
}

/// A variable that contains the base URL of a provider.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BaseUrlVariable {
    pub(crate) variable: String,
    pub(crate) dialects: Vec<ApiFormat>,
}

/// The variables and arguments that one run of an agent is given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LaunchSettings {
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Arguments to put before the user's own.
    pub(crate) arguments: Vec<String>,
}

/// The facts about one run of an agent.
pub(crate) struct LaunchContext<'a> {
    /// The gateway's address, from [`AgentSetup::gateway_url`].
    pub(crate) url: &'a str,
    /// The key for the gateway.
    pub(crate) key: &'a str,
    /// The private folder with our files, if the agent needs any.
    pub(crate) folder: Option<&'a Path>,
    /// Whether the gateway answers commands.
    pub(crate) has_commands: bool,
    pub(crate) environment: &'a Environment,
}

impl AgentSetup {
    /// Returns the row of a program, or the last row, which is for all other programs.
    pub(crate) fn for_program(program: &OsStr) -> Option<&'static Self> {
        let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
        let name = [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let is_it = |agent: &&Self| agent.programs.iter().any(|program| program == name);
        TABLE.agent.iter().find(is_it).or_else(|| TABLE.agent.last())
    }

    /// Returns the variables that tell the agent where the gateway is.
    pub(crate) fn address_variable_names(&self) -> impl Iterator<Item = &str> {
        self.address_variables.keys().map(String::as_str)
    }

    /// Whether the row is for a known program.
    pub(crate) fn is_known(&self) -> bool {
        !self.programs.is_empty()
    }

    /// Returns the variables and arguments that switch off the agent's own compaction, as text. Returns
    /// `None` if there are none.
    pub(crate) fn compaction_off_text(&self) -> Option<String> {
        let variables = self.compaction_off_variables.iter().map(|(name, value)| format!("{name}={value}"));
        let all: Vec<String> = variables.chain(self.compaction_off_arguments.iter().cloned()).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }

    /// Returns the address of a run's gateway for this agent. It contains the key, unless one of the agent's
    /// key variables is free and can contain it: an agent that gets the address as an argument has such
    /// variables, because other users of the machine can read arguments in the list of processes. If the user
    /// has set all of them, the address contains the key even in an argument.
    pub(crate) fn gateway_url(&self, url: &str, key: &str, environment: &Environment) -> String {
        match self.key_variable(environment) {
            Some(_) => url.to_owned(),
            None => format!("{url}/{key}"),
        }
    }

    /// Returns the first of the key variables that the user has not set.
    fn key_variable(&self, environment: &Environment) -> Option<&str> {
        let is_set = |name: &str| environment.iter().any(|(variable, value)| variable == name && !value.is_empty());
        self.key_variables.iter().map(String::as_str).find(|name| !is_set(name))
    }

    /// Returns the files that a run needs, by their path in our private folder.
    pub(crate) fn files(&self, url: &str) -> Vec<(&str, String)> {
        let text = |text: &String| text.trim_start_matches('\n').replace(URL_PLACEHOLDER, url);
        self.files.iter().map(|(path, content)| (path.as_str(), text(content))).collect()
    }

    /// Returns the models whose context window is smaller in this agent than at the provider, with that
    /// window in tokens.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&str, u64)> {
        self.windows.iter().map(|(model, tokens)| (model.as_str(), *tokens))
    }

    /// Returns a sentence that tells how to compact by hand in this agent's terminal.
    pub(crate) fn manual_compaction_hint(&self) -> String {
        match &self.command {
            Some(command) => format!("to compact by hand, type {command}, or {PLAIN_COMMAND}"),
            None => format!("to compact by hand, type {PLAIN_COMMAND}"),
        }
    }

    /// Returns the variables and arguments for a run behind a gateway.
    pub(crate) fn launch_settings(&'static self, run: &LaunchContext<'_>) -> LaunchSettings {
        let folder = run.folder.map(|folder| folder.display().to_string()).unwrap_or_default();
        let fill = |text: &String| text.replace(URL_PLACEHOLDER, run.url).replace(FOLDER_PLACEHOLDER, &folder);
        let mut variables: Vec<(&'static str, String)> = self
            .address_variables
            .iter()
            .chain(&self.compaction_off_variables)
            .map(|(name, value)| (name.as_str(), fill(value)))
            .collect();
        if run.has_commands && run.folder.is_some() {
            let listed = |name: &'static String| (name.as_str(), prepend_folder(&folder, name, run.environment));
            variables.extend(self.command_folders.iter().map(listed));
        }
        variables.extend(self.key_variable(run.environment).map(|name| (name, run.key.to_owned())));
        LaunchSettings {
            variables,
            arguments: self.arguments.iter().chain(&self.compaction_off_arguments).map(fill).collect(),
        }
    }

    /// Whether a variable lists folders, so that our folder is added to those of the user.
    pub(crate) fn lists_folders(&self, variable: &str) -> bool {
        self.command_folders.iter().any(|name| name == variable)
    }

    /// Returns the shell command that starts the agent with a running gateway. For an agent that needs a file
    /// of ours, it is `longhaul run`.
    pub(crate) fn shell_command(&self, url: &str) -> String {
        if self.arguments.iter().any(|argument| argument.contains(FOLDER_PLACEHOLDER)) {
            return format!("longhaul run -- {}", self.name);
        }
        let address_variables = self
            .address_variables
            .iter()
            .map(|(name, value)| format!("{name}={}", shell_quote(&value.replace(URL_PLACEHOLDER, url))));
        let arguments = self.arguments.iter().map(|argument| shell_quote(&argument.replace(URL_PLACEHOLDER, url)));
        let parts: Vec<String> = address_variables.chain(self.programs.first().cloned()).chain(arguments).collect();
        parts.join(" ")
    }
}

/// Returns all rows. The last is for all other programs.
pub(crate) fn all() -> impl Iterator<Item = &'static AgentSetup> {
    TABLE.agent.iter()
}

/// Whether a variable contains the base URL of a provider.
pub(crate) fn is_base_url_variable(name: &str) -> bool {
    TABLE.base.iter().any(|base| base.variable == name)
}

/// Returns the base URLs of providers in the environment. For each API format, the first variable in the
/// table wins.
pub(crate) fn base_urls(environment: &Environment) -> Vec<(&'static BaseUrlVariable, ApiFormat, String)> {
    let mut found: Vec<(&'static BaseUrlVariable, ApiFormat, String)> = Vec::new();
    for base in &TABLE.base {
        let is_set = |(name, value): &&(String, String)| *name == base.variable && !value.trim().is_empty();
        let Some((_, url)) = environment.iter().find(is_set) else { continue };
        for api_format in &base.dialects {
            if found.iter().all(|(_, set, _)| set != api_format) {
                found.push((base, *api_format, url.trim().to_owned()));
            }
        }
    }
    found
}

/// Returns a list of folders with ours first, then those that the user's variable lists.
fn prepend_folder(folder: &str, variable: &str, environment: &Environment) -> String {
    match environment.iter().find(|(name, value)| name == variable && !value.trim().is_empty()) {
        Some((_, others)) => format!("{folder}{LIST_SEPARATOR}{others}"),
        None => folder.to_owned(),
    }
}

/// Quotes a word for a shell, if it needs quotes.
pub(crate) fn shell_quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:/.,+@[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[expect(clippy::panic, reason = "internal error: the tests load the table")]
static TABLE: LazyLock<AgentTable> = LazyLock::new(|| {
    toml::from_str(include_str!("agents.toml")).unwrap_or_else(|error| panic!("agents.toml: {error}"))
});

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "http://127.0.0.1:8484";
    const KEY: &str = "lh-key";

    fn context_in_folder(environment: &Environment) -> LaunchContext<'_> {
        LaunchContext { url: HERE, key: KEY, folder: Some(Path::new("/tmp/x")), has_commands: true, environment }
    }

    fn launch_settings(program: &str, environment: &Environment) -> LaunchSettings {
        AgentSetup::for_program(OsStr::new(program)).unwrap().launch_settings(&context_in_folder(environment))
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
            assert_eq!(AgentSetup::for_program(OsStr::new(program)).unwrap().name, name);
        }
    }

    #[test]
    fn a_run_is_given_the_address_and_nothing_of_the_agent_compacts() {
        let claude = launch_settings("claude", &Vec::new());
        assert!(claude.variables.contains(&("ANTHROPIC_BASE_URL", HERE.to_owned())));
        assert!(claude.variables.contains(&("DISABLE_COMPACT", "1".to_owned())));
        for agent in all() {
            let launch_settings = agent.launch_settings(&context_in_folder(&Vec::new()));
            let texts = launch_settings.variables.into_iter().map(|(_, value)| value);
            let files = agent.files(HERE).into_iter().map(|(_, text)| text);
            let all: Vec<String> = texts.chain(launch_settings.arguments).chain(files).collect();
            assert!(all.iter().any(|text| text.contains(HERE)), "{}", agent.name);
            assert!(
                !all.iter().any(|text| text.contains(URL_PLACEHOLDER) || text.contains(FOLDER_PLACEHOLDER)),
                "{}",
                agent.name
            );
        }
    }

    #[test]
    fn every_agent_is_one_line_that_a_shell_takes() {
        let line = |program: &str| AgentSetup::for_program(OsStr::new(program)).unwrap().shell_command(HERE);
        assert_eq!(line("claude"), "ANTHROPIC_BASE_URL=http://127.0.0.1:8484 claude");
        for agent in all() {
            let line = agent.shell_command(HERE);
            assert!(line.contains(HERE) != line.contains("longhaul run") && !line.contains('\n'), "{line}");
            assert_eq!(line.matches('\'').count() % 2, 0, "{line}");
        }
        assert_eq!(shell_quote("it's"), r"'it'\''s'");
    }

    #[test]
    fn files_of_ours_are_named_by_where_they_lie() {
        let pi = AgentSetup::for_program(OsStr::new("pi")).unwrap();
        assert_eq!(launch_settings("pi", &Vec::new()).arguments, ["-e", "/tmp/x/longhaul.js"]);
        assert!(pi.files(HERE)[0].1.contains("baseUrl: \"http://127.0.0.1:8484/v1\""));
    }

    #[test]
    fn commands_of_ours_stand_beside_the_users_and_are_left_out_where_commands_are_off() {
        let folders = |environment: &Environment, commands| {
            let run = LaunchContext { has_commands: commands, ..context_in_folder(environment) };
            let variables = AgentSetup::for_program(OsStr::new("claude")).unwrap().launch_settings(&run).variables;
            variables.into_iter().find(|(name, _)| *name == "CLAUDE_CODE_PLUGIN_DIRS").map(|(_, value)| value)
        };
        let users = vec![("CLAUDE_CODE_PLUGIN_DIRS".to_owned(), "/home/a/plugins".to_owned())];
        assert_eq!(folders(&Vec::new(), true).unwrap(), "/tmp/x");
        assert_eq!(folders(&users, true).unwrap(), format!("/tmp/x{LIST_SEPARATOR}/home/a/plugins"));
        assert_eq!(folders(&users, false), None);
    }

    #[test]
    fn every_command_of_a_menu_says_what_the_gateway_answers() {
        let claude = AgentSetup::for_program(OsStr::new("claude")).unwrap().files(HERE);
        for (path, text) in claude.iter().filter(|(path, _)| path.starts_with("commands/")) {
            assert!(text.starts_with("---\n") && text.contains("disable-model-invocation: true"), "{path}");
            let name = path.trim_start_matches("commands/").trim_end_matches(".md");
            assert!(text.lines().last().unwrap().starts_with(&format!("/{name}")), "{path}");
        }
        for name in ["claude", "opencode", "pi"] {
            assert!(
                AgentSetup::for_program(OsStr::new(name))
                    .unwrap()
                    .manual_compaction_hint()
                    .contains("/longhaul:compress"),
                "{name}"
            );
        }
        for name in ["codex", "aider", "my-agent"] {
            let hint = AgentSetup::for_program(OsStr::new(name)).unwrap().manual_compaction_hint();
            assert_eq!(hint, "to compact by hand, type longhaul compress", "{name}");
        }
    }

    #[test]
    fn an_agent_either_does_not_compact_or_is_said_to() {
        let codex = AgentSetup::for_program(OsStr::new("codex")).unwrap();
        assert!(codex.compaction_off_text().is_none() && codex.own_compaction.as_ref().unwrap().contains("90 %"));
        assert!(codex.windows().any(|row| row == ("gpt-5.5", 272_000)));
        for agent in all() {
            assert!(agent.compaction_off_text().is_none() || agent.own_compaction.is_none(), "{}", agent.name);
        }
    }

    #[test]
    fn every_agent_gets_the_key_of_a_run_and_none_in_an_argument() {
        let environment = Vec::new();
        for agent in all() {
            let address = agent.gateway_url(HERE, KEY, &environment);
            let launch_settings =
                agent.launch_settings(&LaunchContext { url: &address, ..context_in_folder(&environment) });
            let files = agent.files(&address).into_iter().map(|(_, text)| text);
            let hidden: Vec<String> =
                launch_settings.variables.into_iter().map(|(_, value)| value).chain(files).collect();
            assert!(hidden.iter().any(|text| text.contains(KEY)), "{}", agent.name);
            let seen = launch_settings.arguments.iter().any(|text| text.contains(KEY));
            assert!(!seen, "{}: every user of the machine reads it", agent.name);
        }
    }

    #[test]
    fn a_variable_that_the_user_has_set_keeps_its_value() {
        let codex = AgentSetup::for_program(OsStr::new("codex")).unwrap();
        let set = |names: &[&str]| -> Environment {
            names.iter().map(|name| ((*name).to_owned(), "mine".to_owned())).collect()
        };
        let both = set(&["OPENAI_PROJECT", "OPENAI_ORGANIZATION"]);
        assert_eq!(codex.key_variable(&set(&[])), Some("OPENAI_PROJECT"));
        assert_eq!(codex.key_variable(&set(&["OPENAI_PROJECT"])), Some("OPENAI_ORGANIZATION"));
        assert_eq!(codex.key_variable(&both), None);
        assert_eq!(codex.gateway_url(HERE, KEY, &both), format!("{HERE}/{KEY}"));
    }

    #[test]
    fn what_json_is_given_is_json() {
        for (name, value) in all().flat_map(|agent| agent.launch_settings(&context_in_folder(&Vec::new())).variables) {
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
        let found: Vec<(&str, ApiFormat, String)> =
            base_urls(&environment).into_iter().map(|(base, d, url)| (base.variable.as_str(), d, url)).collect();
        assert_eq!(
            found,
            [
                ("ANTHROPIC_BASE_URL", ApiFormat::Messages, "http://proxy:1".to_owned()),
                ("OPENAI_BASE_URL", ApiFormat::Chat, "http://new:3/v1".to_owned()),
                ("OPENAI_BASE_URL", ApiFormat::Responses, "http://new:3/v1".to_owned()),
            ]
        );
    }
}
