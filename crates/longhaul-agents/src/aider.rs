//! aider: one Markdown file for all sessions of a project; each session begins with `# aider chat started at
//! …`.
//!
//! A line of the user begins with `#### `, a line of the program with `> `, and all other lines are the
//! model's. So lines of a reply that begin like that are misread, by aider too. A running session sends its
//! own messages; `--restore-chat-history` reads the whole file back, which is what [`Extent::FullHistory`]
//! returns if no session is named. aider does not store its summaries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};

use super::session_format::{FileProbe, SessionFormat, SessionLocation, UserEnvironment};
use super::{
    Agent, AgentSession, Extent, MessagePart, Origin, ReadOptions, RecordedMessage, RequestUsage, Role,
    SessionReadError, Timestamp, file_reader, folder,
};

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Aider, recognizes, default_paths, list, read };

const HISTORY_FILE: &str = ".aider.chat.history.md";
const SESSION_HEADING: &str = "# aider chat started at ";

fn recognizes(probe: &FileProbe<'_>) -> bool {
    String::from_utf8_lossy(probe.head).trim_start().starts_with(SESSION_HEADING)
}

/// Returns the history file that the environment names, else those of the current folder and its parents up
/// to the root of the repository.
fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    if let Some(named) = environment.path_variable("AIDER_CHAT_HISTORY_FILE") {
        return vec![environment.current_dir.join(named)];
    }
    let parents: Vec<&Path> = environment.current_dir.ancestors().collect();
    // Outside of a repository only the current folder is used.
    let root = parents.iter().position(|folder| folder.join(".git").exists()).unwrap_or(0);
    parents.iter().take(root + 1).map(|folder| folder.join(HISTORY_FILE)).collect()
}

/// Lists the sessions in which a model replied. Only the newest has the file's modification time; for the
/// others the only known time is their beginning.
fn list(default_path: &Path) -> Vec<SessionLocation> {
    let Ok(text) = read_text(default_path) else { return Vec::new() };
    let sections = split_sections(&text);
    let newest = sections.len().saturating_sub(1);
    let location_of = |(at, section): (usize, &Section<'_>)| {
        let mut location = SessionLocation::from_path(Agent::Aider, default_path, Some(section.id.to_owned()));
        if at != newest {
            location.modified = Timestamp::parse(section.id);
        }
        location
    };
    sections.iter().enumerate().filter(|(_, section)| section.has_reply()).map(location_of).collect()
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let text = read_text(&location.path)?;
    let sections = split_sections(&text);
    let newest = sections.last().map(|section| section.id);
    let wanted: Vec<&Section<'_>> = match (&location.id, options.extent) {
        (Some(id), _) => sections.iter().rev().find(|section| section.id == id).into_iter().collect(),
        (None, Extent::FullHistory) => sections.iter().collect(),
        (None, Extent::NextRequest) => {
            let talk = sections.iter().rev().find(|section| section.has_reply());
            talk.or(sections.last()).into_iter().collect()
        }
    };
    let Some(last) = wanted.last() else {
        let which = location.id.as_ref().map_or_else(String::new, |id| format!(" that began at {id}"));
        return Err(SessionReadError::Invalid(format!("{} has no session of aider{which}", location.path.display())));
    };
    let mut log = HistoryParser::default();
    for section in &wanted {
        log.parse_section(section);
    }
    let started = wanted.first().and_then(|section| Timestamp::parse(section.id));
    let touched = SessionLocation::from_path(Agent::Aider, &location.path, None).modified;
    let folder = location.path.parent().filter(|_| folder::file_name(&location.path) == HISTORY_FILE);
    Ok(AgentSession {
        agent: Agent::Aider,
        id: last.id.to_owned(),
        project: folder.map(|folder| folder.display().to_string()),
        title: None,
        model: options.model.clone().or(log.model),
        api_format: options.api_format.unwrap_or(ApiFormat::Chat),
        system_prompt: None,
        tools: None,
        messages: log.messages,
        compactions: 0,
        started,
        updated: if newest == Some(last.id) { touched } else { Timestamp::parse(last.id) },
        requests: log.requests,
        unknown_records: BTreeMap::new(),
        warnings: Vec::new(),
    })
}

fn read_text(path: &Path) -> Result<String, SessionReadError> {
    Ok(String::from_utf8_lossy(&file_reader::read_all(path)?).into_owned())
}

/// One session of the history file.
struct Section<'t> {
    /// The time at which the session began, in the user's local time without a time zone. It serves as the
    /// ID.
    id: &'t str,
    /// The lines with their line ends.
    lines: Vec<&'t str>,
    /// The line number of the first of them.
    first_line: usize,
}

impl Section<'_> {
    /// Returns whether a model was asked and replied. Many sessions contain only a command or two.
    fn has_reply(&self) -> bool {
        let mut rest = self.lines.iter().skip_while(|line| !line.starts_with("#### "));
        rest.any(|line| !line.trim().is_empty() && !["#### ", "> ", "# "].iter().any(|start| line.starts_with(start)))
    }
}

fn split_sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if let Some(id) = line.strip_prefix(SESSION_HEADING) {
            sections.push(Section { id: id.trim(), lines: Vec::new(), first_line: at + 2 });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        }
    }
    sections
}

/// Parses the lines of a history into messages.
#[derive(Default)]
struct HistoryParser {
    messages: Vec<RecordedMessage>,
    requests: Vec<RequestUsage>,
    model: Option<String>,
    /// The message that is being collected: its role, its text, and its first line.
    pending: Option<(Role, String, usize)>,
}

impl HistoryParser {
    fn parse_section(&mut self, section: &Section<'_>) {
        let began = Timestamp::parse(section.id);
        for (at, line) in section.lines.iter().enumerate() {
            let number = section.first_line + at;
            // A heading belongs to no message, even within a reply; aider reads it in the same way.
            if line.starts_with("# ") {
                continue;
            }
            if let Some(line_text) = line.strip_prefix("> ") {
                self.flush_pending();
                self.parse_program_line(line_text.trim(), began);
            } else if let Some(said) = line.strip_prefix("#### ") {
                // aider adds two spaces, a Markdown line break, to what the user typed.
                let said = said.trim_end_matches(['\r', '\n']);
                self.append_text(Role::User, said.strip_suffix("  ").unwrap_or(said), number);
                self.append_text(Role::User, "\n", number);
            } else {
                self.append_text(Role::Assistant, line, number);
            }
        }
        self.flush_pending();
    }

    fn append_text(&mut self, role: Role, words: &str, line: usize) {
        match &mut self.pending {
            Some((speaker, said, _)) if *speaker == role => said.push_str(words),
            _ => {
                self.flush_pending();
                self.pending = Some((role, words.to_owned(), line));
            }
        }
    }

    fn flush_pending(&mut self) {
        let Some((role, words, line)) = self.pending.take() else { return };
        let words = words.trim_matches(['\r', '\n']);
        if !words.trim().is_empty() {
            let pieces = vec![(MessagePart::Text(words.to_owned()), Origin::Line(line))];
            self.messages.push(RecordedMessage { role, parts: pieces, time: None });
        }
    }

    /// Parses a line of the program: the model that is used, or the usage of a request.
    fn parse_program_line(&mut self, line: &str, began: Option<Timestamp>) {
        if let Some(model) = ["Model: ", "Models: ", "Main model: "].iter().find_map(|start| line.strip_prefix(start)) {
            self.model = model.split(" with ").next().map(str::to_owned);
        } else if let Some(usage) = parse_usage(line) {
            let reply = self.messages.iter().rposition(|turn| turn.role == Role::Assistant);
            let is_new = |reply: &usize| self.requests.last().is_none_or(|last| last.reply_index < Some(*reply));
            let (reply, model) = (reply.filter(is_new), self.model.clone());
            self.requests.push(RequestUsage {
                time: began,
                model,
                usage,
                reply_index: reply,
                dollars: parse_cost(line),
            });
        }
    }
}

/// Parses `Tokens: 12k sent, 3.4k cache write, 2k cache hit, 604 received.` Figures with a `k` are rounded to
/// three digits or fewer. aider does not say whether the sent tokens include the cached ones; this function
/// assumes that they do.
fn parse_usage(line: &str) -> Option<Usage> {
    let report = line.strip_prefix("Tokens: ")?;
    let report = report.split(". ").next()?;
    let count = |name: &str| {
        let part = report.split(", ").find_map(|part| part.trim_end_matches('.').strip_suffix(name))?;
        parse_token_count(part.trim())
    };
    Some(Usage {
        input: Some(count("sent")?),
        read: count("cache hit"),
        written: count("cache write"),
        written_1h: None,
        output: count("received"),
    })
}

fn parse_token_count(text: &str) -> Option<Tokens> {
    let text = text.replace(',', "");
    let (digits, times) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000.0),
        None => (text.as_str(), 1.0),
    };
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    Some(Tokens((number * times).round() as u64))
}

/// Parses the cost of a request, the first figure of `Cost: $0.02 message, $0.31 session.`
fn parse_cost(line: &str) -> Option<f64> {
    let (_, cost) = line.split_once("Cost: $")?;
    cost.split([' ', ',']).next()?.parse().ok()
}
