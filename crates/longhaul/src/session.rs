//! Sessions as coding agents keep them, in the place of a body: by file, or by name.
//!
//! ```text
//! FILE ──recognised──┐
//! claude:latest ─────┴▶ Place ──▶ Session ──▶ the body of its next request, and what is to be said about it
//! ```

use std::env;
use std::path::{Path, PathBuf};

use longhaul_server::agents::{
    self, Asked, Extent, Machine, Origin, Piece, Place, Role, Session, Turn, Unread,
};

use crate::cli::Told;
use crate::failure::Failure;
use crate::{output, store};

/// A session that was named, with how it was named.
pub(crate) struct Read {
    pub(crate) session: Session,
    /// The name or the path that was typed.
    pub(crate) shown: String,
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Wrong(text) => Self::Wrong(text),
            Unread::World(text) => Self::World(text),
        }
    }
}

/// The machine that this runs on.
pub(crate) fn machine() -> Machine {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment: std::collections::BTreeMap<String, String> =
        env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let home = ["HOME", "USERPROFILE"].iter().find_map(|name| environment.get(*name)).map(PathBuf::from);
    let folder = env::current_dir().unwrap_or_default();
    Machine { home: home.unwrap_or_default(), folder, environment }
}

/// Where the session is that was named, by a name or by its file; nothing where it is no session.
pub(crate) fn place(path: &Path) -> Result<Option<Place>, Failure> {
    if path == Path::new("-") || store::named(path).is_some() {
        return Ok(None);
    }
    if path.exists() {
        // A pipe gives its bytes only once, and whoever reads the body has to have them.
        let is_pipe = !path.is_file() && !path.is_dir();
        return if is_pipe { Ok(None) } else { Ok(agents::recognise(path)?) };
    }
    match path.to_str() {
        Some(name) if agents::is_name(name) => Ok(Some(agents::named(&machine(), name)?)),
        Some(name) if name.parse::<agents::Agent>().is_ok() => Err(Failure::Wrong(format!(
            "{name} is an agent and no file here; {name}:latest is its newest session"
        ))),
        _ => Ok(None),
    }
}

/// The session that was named; nothing where it is none.
pub(crate) fn read(path: &Path, told: &Told, extent: Extent) -> Result<Option<Read>, Failure> {
    let Some(place) = place(path)? else { return Ok(None) };
    let asked = Asked { extent, model: told.model.clone(), dialect: told.dialect };
    let session = agents::read(&place, &asked)?;
    if let Some(told) = told.dialect.filter(|told| *told != session.dialect) {
        let (shown, own) = (path.display(), session.dialect);
        return Err(Failure::Wrong(format!(
            "{shown} is a session in {own}, and cannot be written in {told}; leave --dialect out"
        )));
    }
    Ok(Some(Read { session, shown: path.display().to_string() }))
}

impl Read {
    /// What a reader should know: which session it is, what its file does not hold, what was wrong with it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let session = &self.session;
        let project = session.project.as_ref().map_or(String::new(), |project| format!(" in {project}"));
        let updated = session.updated.map_or(String::new(), |updated| format!(", last written {updated}"));
        let which = format!("session {} of {}{project}{updated}", session.id, session.agent);
        let mut notes = vec![which];
        let absent = [(session.system.is_none(), "system prompt"), (session.tools.is_none(), "tools")];
        let absent: Vec<&str> = absent.iter().filter(|(absent, _)| *absent).map(|(_, name)| *name).collect();
        if !absent.is_empty() {
            notes.push(format!("its file does not hold the {}", absent.join(" and the ")));
        }
        if !session.unknown.is_empty() {
            let kinds: Vec<String> =
                session.unknown.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            notes.push(format!("records of unknown kinds are left out: {}", kinds.join(", ")));
        }
        notes.extend(session.damage.iter().cloned());
        notes
    }

    /// The body with a prompt at its end, as it would be sent: a session mostly ends with a reply, from which no request goes on.
    pub(crate) fn prompted(&self) -> String {
        let mut session = self.session.clone();
        if self.ends_with_a_reply() {
            let prompt = (Piece::Text("Go on.".to_owned()), Origin::Client);
            session.turns.push(Turn { role: Role::User, pieces: vec![prompt], at: None });
        }
        agents::body(&session)
    }

    /// Whether the agent spoke last, so that the next request has a message of the user's behind all that is there.
    pub(crate) fn ends_with_a_reply(&self) -> bool {
        self.session.turns.last().is_some_and(|turn| turn.role == Role::Assistant)
    }

    pub(crate) fn say_notes(&self) {
        for note in self.notes() {
            output::say(&format!("{}: {note}", self.shown));
        }
    }
}

/// Refuses a session that comes through a pipe: it is read more than once.
pub(crate) fn refuse_piped(shown: &str, head: &[u8]) -> Result<(), Failure> {
    match agents::begins(head) {
        Some(agent) => Err(Failure::Wrong(format!(
            "{shown} is a session of {agent}; give its file, or its name as {agent}:latest"
        ))),
        None => Ok(()),
    }
}

/// Refuses to write where an agent keeps its sessions: what lies there is the agent's.
pub(crate) fn refuse_home(path: &Path) -> Result<(), Failure> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = whole.parent().and_then(|parent| parent.canonicalize().ok());
    let real = real.and_then(|parent| Some(parent.join(whole.file_name()?))).unwrap_or(whole);
    let is_session = |path: &Path| path.is_file().then(|| agents::recognise(path).ok().flatten()).flatten();
    if let Some(place) = is_session(&real) {
        let (shown, agent) = (path.display(), place.agent);
        return Err(Failure::Wrong(format!("{shown} is a session of {agent}; give another file")));
    }
    match agents::keeper(&machine(), &real) {
        Some(agent) => {
            let shown = path.display();
            Err(Failure::Wrong(format!("{shown} is where {agent} keeps its sessions; give another file")))
        }
        None => Ok(()),
    }
}
