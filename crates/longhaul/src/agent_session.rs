//! Sessions of coding agents in place of a request body, by file or by name.
//!
//! ```text
//! FILE ──recognized──┐
//! claude:latest ─────┴▶ location ──▶ LoadedSession ──▶ the body of its next request, and notes about it
//! ```

use std::env;
use std::path::{Path, PathBuf};

use longhaul_agents::{
    AgentSession, Extent, MessagePart, Origin, ReadOptions, RecordedMessage, Role, SessionLocation, SessionReadError,
    UserEnvironment,
};

use crate::cli::InputFlags;
use crate::failure::Failure;
use crate::{output, store};

/// An agent's session, and the name by which the user gave it.
pub(crate) struct LoadedSession {
    pub(crate) session: AgentSession,
    /// The name or path that the user typed.
    pub(crate) label: String,
}

impl From<SessionReadError> for Failure {
    fn from(error: SessionReadError) -> Self {
        match error {
            SessionReadError::Invalid(text) => Self::InvalidInput(text),
            SessionReadError::Io(text) => Self::System(text),
        }
    }
}

/// Returns the machine that this process runs on: its environment, home folder and current folder.
pub(crate) fn current_machine() -> UserEnvironment {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment: std::collections::BTreeMap<String, String> =
        env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let home = ["HOME", "USERPROFILE"].iter().find_map(|name| environment.get(*name)).map(PathBuf::from);
    let folder = env::current_dir().unwrap_or_default();
    UserEnvironment { home: home.unwrap_or_default(), current_dir: folder, variables: environment }
}

/// Finds the session that a path or a name such as `claude:latest` means. Returns `None` if it is not a
/// session.
pub(crate) fn locate(path: &Path) -> Result<Option<SessionLocation>, Failure> {
    if path == Path::new("-") || store::session_name_in(path).is_some() {
        return Ok(None);
    }
    if path.exists() {
        // A pipe can be read only once, and the reader of the body needs its bytes.
        let is_pipe = !path.is_file() && !path.is_dir();
        return if is_pipe { Ok(None) } else { Ok(longhaul_agents::recognize_path(path)?) };
    }
    match path.to_str() {
        Some(name) if longhaul_agents::is_session_name(name) => {
            Ok(Some(longhaul_agents::find_session(&current_machine(), name)?))
        }
        Some(name) if name.parse::<longhaul_agents::Agent>().is_ok() => {
            Err(Failure::InvalidInput(format!("{name} is an agent, not a file; {name}:latest is its newest session")))
        }
        _ => Ok(None),
    }
}

/// Reads the session that a path or a name means. Returns `None` if it is not a session.
pub(crate) fn load(path: &Path, flags: &InputFlags, extent: Extent) -> Result<Option<LoadedSession>, Failure> {
    let Some(location) = locate(path)? else { return Ok(None) };
    let options = ReadOptions { extent, model: flags.model.clone(), api_format: flags.dialect };
    let session = longhaul_agents::read(&location, &options)?;
    if let Some(requested_format) = flags.dialect.filter(|requested_format| *requested_format != session.api_format) {
        let (shown, session_format) = (path.display(), session.api_format);
        return Err(Failure::InvalidInput(format!(
            "{shown} is a session in the API format {session_format} and cannot be converted to {requested_format}; leave out --dialect"
        )));
    }
    Ok(Some(LoadedSession { session, label: path.display().to_string() }))
}

impl LoadedSession {
    /// Returns notes for the reader: which session it is, what its file lacks, and what was damaged in it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let session = &self.session;
        let project = session.project.as_ref().map_or(String::new(), |project| format!(" in {project}"));
        let updated = session.updated.map_or(String::new(), |updated| format!(", last written {updated}"));
        let which = format!("session {} of {}{project}{updated}", session.id, session.agent);
        let mut notes = vec![which];
        let absent = [(session.system_prompt.is_none(), "system prompt"), (session.tools.is_none(), "tools")];
        let absent: Vec<&str> = absent.iter().filter(|(absent, _)| *absent).map(|(_, name)| *name).collect();
        if !absent.is_empty() {
            notes.push(format!("its file does not contain the {}", absent.join(" and the ")));
        }
        if !session.unknown_records.is_empty() {
            let kinds: Vec<String> =
                session.unknown_records.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            notes.push(format!("skipped records of unknown types: {}", kinds.join(", ")));
        }
        notes.extend(session.warnings.iter().cloned());
        notes
    }

    /// Returns the body with a user message at its end, as it could be sent. Most sessions end with a reply,
    /// which a request cannot end with.
    pub(crate) fn body_with_prompt(&self) -> String {
        let mut session = self.session.clone();
        if self.ends_with_reply() {
            let prompt = (MessagePart::Text("Go on.".to_owned()), Origin::Synthetic);
            session.messages.push(RecordedMessage { role: Role::User, parts: vec![prompt], time: None });
        }
        longhaul_agents::request_body(&session)
    }

    /// Whether the last message is the agent's, so that the next request will add a user message.
    pub(crate) fn ends_with_reply(&self) -> bool {
        self.session.messages.last().is_some_and(|turn| turn.role == Role::Assistant)
    }

    pub(crate) fn print_notes(&self) {
        for note in self.notes() {
            output::print_message(&format!("{}: {note}", self.label));
        }
    }
}

/// Refuses a session that is read from a pipe, because a session is read more than once.
pub(crate) fn refuse_piped_session(shown: &str, head: &[u8]) -> Result<(), Failure> {
    match longhaul_agents::recognize_bytes(head) {
        Some(agent) => Err(Failure::InvalidInput(format!(
            "{shown} is a session of {agent}; give its file, or its name as {agent}:latest"
        ))),
        None => Ok(()),
    }
}

/// Refuses to write to a session file or into a folder where an agent stores its sessions.
pub(crate) fn refuse_agent_files(path: &Path) -> Result<(), Failure> {
    let absolute_path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let resolved_path = absolute_path.parent().and_then(|parent| parent.canonicalize().ok());
    let resolved_path =
        resolved_path.and_then(|parent| Some(parent.join(absolute_path.file_name()?))).unwrap_or(absolute_path);
    let is_session =
        |path: &Path| path.is_file().then(|| longhaul_agents::recognize_path(path).ok().flatten()).flatten();
    if let Some(location) = is_session(&resolved_path) {
        let (shown, agent) = (path.display(), location.agent);
        return Err(Failure::InvalidInput(format!("{shown} is a session of {agent}; give another file")));
    }
    match longhaul_agents::agent_storing_at(&current_machine(), &resolved_path) {
        Some(agent) => {
            let shown = path.display();
            Err(Failure::InvalidInput(format!("{shown} is where {agent} keeps its sessions; give another file")))
        }
        None => Ok(()),
    }
}
