//! A request body as every command gets it: read, recognised, and matched to a model.

use std::path::Path;

use longhaul_engine::models::{self, Model};
use longhaul_engine::wire::{self, Note, NoteKind};
use longhaul_engine::{Dialect, Transcript};
use longhaul_server::agents;
use longhaul_server::store::{At, Tenant};

use crate::cli::{Answer, Told};
use crate::failure::Failure;
use crate::input;
use crate::session::{self, Read};
use crate::store::{self, Owned, Whereabouts};

/// The text of a body, and how messages name it.
pub(crate) struct Body {
    pub(crate) shown: String,
    pub(crate) text: String,
    /// The session whose next request it is, where it was made of one.
    pub(crate) session: Option<Box<Read>>,
    /// The session of the store that it is of.
    pub(crate) stored: Option<Box<Owned>>,
}

impl Body {
    /// The body of a file, or what the session would send next that a file or a name stands for.
    pub(crate) fn read(path: &Path, told: &Told) -> Result<Self, Failure> {
        if let Some(id) = store::named(path) {
            return Self::of_store(id, told, At::Now);
        }
        if let Some(read) = session::read(path, told, told.extent())? {
            return Ok(Self::of_session(read));
        }
        let (shown, text) = (input::shown(path), input::read_text(path)?);
        session::refuse_piped(&shown, text.as_bytes())?;
        Ok(Self::of_text(shown, text))
    }

    pub(crate) fn of_text(shown: String, text: String) -> Self {
        Self { shown, text, session: None, stored: None }
    }

    /// The body of a session of the store, which is there.
    pub(crate) fn of_store(id: &str, told: &Told, at: At) -> Result<Self, Failure> {
        let kept = Whereabouts::of(&told.place)?.existing()?;
        let owned = kept.session(id)?;
        let session = &owned.session;
        let shown = store::name(&session.name);
        if let Some(told) = told.dialect.filter(|told| *told != session.dialect) {
            let own = session.dialect;
            return Err(Failure::Wrong(format!(
                "{shown} is a session in {own}, and cannot be written in {told}; leave --dialect out"
            )));
        }
        let text = kept.body(&owned, at)?;
        Ok(Self { shown, text, session: None, stored: Some(Box::new(owned)) })
    }

    /// Whose session of the store it is of.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.stored.as_ref().map(|owned| &owned.tenant)
    }

    pub(crate) fn of_session(read: Read) -> Self {
        let text = agents::body(&read.session);
        Self { shown: read.shown.clone(), text, session: Some(Box::new(read)), stored: None }
    }

    /// What a reader of an answer should know of the session that it is about.
    pub(crate) fn session_notes(&self) -> Vec<String> {
        self.session.as_ref().map(|read| read.notes()).unwrap_or_default()
    }

    /// Says to people which session it is, and what of it is not here.
    pub(crate) fn say_session(&self, answer: &Answer) {
        if let Some(read) = self.session.as_ref().filter(|_| !answer.json) {
            read.say_notes();
        }
    }

    /// The dialect, where it is known: what a session becomes is what its agent speaks.
    fn dialect(&self, told: &Told) -> Option<Dialect> {
        let agents = self.session.as_ref().map(|read| read.session.dialect);
        agents.or(self.stored.as_ref().map(|owned| owned.session.dialect)).or(told.dialect)
    }

    /// What it says. JSON that holds no transcript is a wrong call.
    pub(crate) fn parse(&self, told: &Told) -> Result<(Transcript<'_>, Vec<Note>), Failure> {
        let shown = &self.shown;
        if self.text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Err(Failure::Wrong(format!("{shown} is empty; give a request body")));
        }
        let (transcript, notes) = wire::parse_for(self.dialect(told), told.model.as_deref(), &self.text)
            .map_err(|error| Failure::Wrong(format!("{shown} is {error}")))?;
        if notes.iter().any(|note| note.kind == NoteKind::NoMessages) {
            return Err(Failure::Wrong(format!(
                "{shown} has no `messages` or `input`; is it a request body?"
            )));
        }
        Ok((transcript, notes))
    }
}

/// The model that was told, else the one that the body names.
pub(crate) fn model(told: &Told, transcript: &Transcript<'_>) -> Model {
    let name = told.model.as_deref().or(transcript.model.as_deref());
    models::find(name.unwrap_or("unknown"))
}

/// Notes as lines, one for each kind, with how often it came up and where first.
pub(crate) fn note_lines(transcript: &Transcript<'_>, notes: &[Note]) -> Vec<String> {
    let mut kinds: Vec<NoteKind> = notes.iter().map(|note| note.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let line = |kind: &NoteKind| {
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
