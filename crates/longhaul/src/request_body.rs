//! The request body that a command works on: read, recognized and matched to a model.

use std::path::Path;

use longhaul_engine::models::{self, Model};
use longhaul_engine::wire::{self, ParseNote, ParseNoteKind};
use longhaul_engine::{ApiFormat, Transcript};
use longhaul_server::store::{HistoryPoint, Tenant};

use crate::agent_session::{self, LoadedSession};
use crate::cli::{InputFlags, OutputFlags};
use crate::failure::Failure;
use crate::input;
use crate::store::{self, ConfiguredStore, OwnedSession};

/// The text of a request body, and its name in messages.
pub(crate) struct RequestBody {
    pub(crate) label: String,
    pub(crate) text: String,
    /// The agent's session of which this is the next request, if it was read from one.
    pub(crate) agent_session: Option<Box<LoadedSession>>,
    /// The session of the store from which the body was read.
    pub(crate) stored_session: Option<Box<OwnedSession>>,
}

impl RequestBody {
    /// Reads a body from a file. If the path names a session or its file, the body is the next request of
    /// that session.
    pub(crate) fn read(path: &Path, flags: &InputFlags) -> Result<Self, Failure> {
        if let Some(id) = store::session_name_in(path) {
            return Self::from_store(id, flags, HistoryPoint::Now);
        }
        if let Some(loaded) = agent_session::load(path, flags, flags.extent())? {
            return Ok(Self::from_agent_session(loaded));
        }
        let (shown, text) = (input::label(path), input::read_text(path)?);
        agent_session::refuse_piped_session(&shown, text.as_bytes())?;
        Ok(Self::from_text(shown, text))
    }

    pub(crate) fn from_text(shown: String, text: String) -> Self {
        Self { label: shown, text, agent_session: None, stored_session: None }
    }

    /// Reads the body of a session of the store, which must exist.
    pub(crate) fn from_store(id: &str, flags: &InputFlags, at: HistoryPoint) -> Result<Self, Failure> {
        let store = ConfiguredStore::from_flags(&flags.store_flags)?.open_existing()?;
        let owned = store.find_session(id)?;
        let session = &owned.session;
        let shown = store::qualified_name(&session.name);
        if let Some(requested_format) = flags.dialect.filter(|requested_format| *requested_format != session.api_format)
        {
            let session_format = session.api_format;
            return Err(Failure::InvalidInput(format!(
                "{shown} is a session in the API format {session_format} and cannot be converted to {requested_format}; leave out --dialect"
            )));
        }
        let text = store.session_body(&owned, at)?;
        Ok(Self { label: shown, text, agent_session: None, stored_session: Some(Box::new(owned)) })
    }

    /// Returns the tenant of the store's session, if the body is from one.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.stored_session.as_ref().map(|owned| &owned.tenant)
    }

    pub(crate) fn from_agent_session(loaded: LoadedSession) -> Self {
        let text = longhaul_agents::request_body(&loaded.session);
        Self { label: loaded.label.clone(), text, agent_session: Some(Box::new(loaded)), stored_session: None }
    }

    /// Returns notes about the agent's session, for the reader of a result.
    pub(crate) fn session_notes(&self) -> Vec<String> {
        self.agent_session.as_ref().map(|loaded| loaded.notes()).unwrap_or_default()
    }

    /// Prints the notes about the agent's session for people, unless the output is JSON.
    pub(crate) fn print_session_notes(&self, output_flags: &OutputFlags) {
        if let Some(loaded) = self.agent_session.as_ref().filter(|_| !output_flags.json) {
            loaded.print_notes();
        }
    }

    /// Returns the API format if it is known: that of the session, or else the one that the user gave.
    fn known_api_format(&self, flags: &InputFlags) -> Option<ApiFormat> {
        let agent_format = self.agent_session.as_ref().map(|loaded| loaded.session.api_format);
        agent_format.or(self.stored_session.as_ref().map(|owned| owned.session.api_format)).or(flags.dialect)
    }

    /// Parses the body. JSON without a transcript is invalid input.
    pub(crate) fn parse(&self, flags: &InputFlags) -> Result<(Transcript<'_>, Vec<ParseNote>), Failure> {
        let shown = &self.label;
        if self.text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Err(Failure::InvalidInput(format!("{shown} is empty; give a request")));
        }
        let (transcript, notes) = wire::parse_for(self.known_api_format(flags), flags.model.as_deref(), &self.text)
            .map_err(|error| Failure::InvalidInput(format!("{shown} is {error}")))?;
        if notes.iter().any(|note| note.kind == ParseNoteKind::NoMessages) {
            return Err(Failure::InvalidInput(format!("{shown} has no `messages` or `input`; is it a request?")));
        }
        Ok((transcript, notes))
    }
}

/// Returns the model that the user gave, or else the one that the body names.
pub(crate) fn stated_model(flags: &InputFlags, transcript: &Transcript<'_>) -> Model {
    let name = flags.model.as_deref().or(transcript.model.as_deref());
    models::find(name.unwrap_or("unknown"))
}

/// Returns one line for each kind of note, with the number of notes and the line of the first.
pub(crate) fn parse_note_lines(transcript: &Transcript<'_>, notes: &[ParseNote]) -> Vec<String> {
    let mut kinds: Vec<ParseNoteKind> = notes.iter().map(|note| note.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let line = |kind: &ParseNoteKind| {
        let mut of_kind = notes.iter().filter(|note| note.kind == *kind);
        let first = of_kind.next().map_or(0, |note| note.at.start as usize);
        let line = transcript.body[..first].matches('\n').count() + 1;
        match of_kind.count() {
            0 => format!("line {line}: {kind}"),
            more => format!("line {line}, and {more} more: {kind}"),
        }
    };
    kinds.iter().map(line).collect()
}
