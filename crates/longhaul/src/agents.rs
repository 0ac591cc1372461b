//! How agents are pointed at a gateway: the rows of `agents.toml`, for those who are told how, and for those who are run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::LazyLock;

use longhaul_engine::Dialect;
use serde::Deserialize;

use crate::config::Environment;

/// Where the gateway's address goes.
const URL: &str = "{url}";

/// Where the path of a file of ours goes.
const FILE: &str = "{file}";

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
    #[serde(default)]
    off: BTreeMap<String, String>,
    #[serde(default)]
    off_arguments: Vec<String>,
    file: Option<String>,
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
    /// The text of a file that is there as long as the run.
    pub(crate) file: Option<String>,
}

impl Outfit {
    /// The arguments, where the file is at this path.
    pub(crate) fn arguments(&self, file: Option<&Path>) -> impl Iterator<Item = OsString> {
        let path = file.map(|file| file.display().to_string());
        self.arguments.iter().map(move |argument| match &path {
            Some(path) => argument.replace(FILE, path).into(),
            None => argument.into(),
        })
    }
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

    /// What a run behind a gateway at this address is given.
    pub(crate) fn outfit(&'static self, url: &str) -> Outfit {
        let variables = self.set.iter().chain(&self.off);
        let arguments = self.arguments.iter().chain(&self.off_arguments);
        Outfit {
            variables: variables.map(|(name, value)| (name.as_str(), value.replace(URL, url))).collect(),
            arguments: arguments.map(|argument| argument.replace(URL, url)).collect(),
            file: self.file.as_ref().map(|text| text.replace(URL, url)),
        }
    }

    /// What to type to use it with a gateway that is there; one that wants a file is run by us.
    pub(crate) fn line(&self, url: &str) -> String {
        if self.file.is_some() {
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

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
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
        let claude = Agent::of(OsStr::new("claude")).unwrap().outfit(HERE);
        assert!(claude.variables.contains(&("ANTHROPIC_BASE_URL", HERE.to_owned())));
        assert!(claude.variables.contains(&("DISABLE_COMPACT", "1".to_owned())));
        for agent in all() {
            let outfit = agent.outfit(HERE);
            let texts = outfit.variables.iter().map(|(_, value)| value.as_str());
            let all: Vec<&str> = texts
                .chain(outfit.arguments.iter().map(String::as_str))
                .chain(outfit.file.as_deref())
                .collect();
            assert!(all.iter().any(|text| text.contains(HERE)), "{}", agent.name);
            assert!(!all.iter().any(|text| text.contains(URL)), "{}", agent.name);
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
    fn a_file_of_ours_is_named_where_it_is() {
        let pi = Agent::of(OsStr::new("pi")).unwrap().outfit(HERE);
        let arguments: Vec<OsString> = pi.arguments(Some(Path::new("/tmp/x.js"))).collect();
        assert_eq!(arguments, ["-e", "/tmp/x.js"]);
        assert!(pi.file.unwrap().contains("baseUrl: \"http://127.0.0.1:8484/v1\""));
    }

    #[test]
    fn what_json_is_given_is_json() {
        for (name, value) in all().flat_map(|agent| agent.outfit(HERE).variables) {
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
