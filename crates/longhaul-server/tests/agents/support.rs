//! Files to read, and sessions as short texts to compare.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul_engine::Dialect;
use longhaul_server::agents::{self, Asked, Origin, Piece, Role, Session, Turn, Unread};
use serde_json::Value;

/// The folder with real sessions.
pub(crate) fn real() -> PathBuf {
    Path::new(&std::env::var_os("LONGHAUL_SHARED").unwrap()).join("sessions")
}

/// A folder of its own, which goes when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("longhaul-agents-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// A file in it, with the folders that lead to it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A session by the path of its file.
pub(crate) fn read(path: &Path, asked: &Asked) -> Result<Session, Unread> {
    let place = agents::recognise(path)?;
    agents::read(&place.unwrap_or_else(|| panic!("{} is not recognised", path.display())), asked)
}

/// A session of these lines.
pub(crate) fn of_lines(lines: &[Value], asked: &Asked) -> Session {
    let folder = Folder::new();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read(&folder.file("session.jsonl", text), asked).unwrap_or_else(|unread| panic!("{unread}"))
}

/// Turns as text: `user: L1 text, L2 result | assistant: …`.
pub(crate) fn shown(session: &Session) -> String {
    let turn = |turn: &Turn| format!("{}: {}", role(turn), pieces(session, turn).join(", "));
    session.turns.iter().map(turn).collect::<Vec<_>>().join(" | ")
}

pub(crate) fn role(turn: &Turn) -> &'static str {
    match turn.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Where the pieces of a turn come from, and what they are; what the client adds itself is left out.
pub(crate) fn pieces(session: &Session, turn: &Turn) -> Vec<String> {
    let piece = |(piece, origin): &(Piece, Origin)| {
        let from = match origin {
            Origin::Line(line) => format!("L{line}"),
            Origin::Item(line, item) => format!("L{line}[{item}]"),
            Origin::Row(row) => format!("row {row}"),
            Origin::Id(id) => id.clone(),
            Origin::Client => return None,
        };
        Some(format!("{from} {}", kind(session.dialect, turn, piece)))
    };
    turn.pieces.iter().filter_map(piece).collect()
}

fn kind(dialect: Dialect, turn: &Turn, piece: &Piece) -> String {
    match piece {
        Piece::Wire(raw) => {
            let value: Value = serde_json::from_str(raw.get()).unwrap();
            let kind = value["type"].as_str().unwrap_or("?");
            match value["role"].as_str() {
                Some(role) => format!("{kind} {role}"),
                None => plain(kind).to_owned(),
            }
        }
        Piece::Text(_) if dialect == Dialect::Responses => format!("message {}", role(turn)),
        Piece::Text(_) => "text".to_owned(),
        Piece::Thinking { .. } => "thinking".to_owned(),
        Piece::Call { .. } => "call".to_owned(),
        Piece::Result { .. } => "result".to_owned(),
        Piece::Image { .. } => "image".to_owned(),
    }
}

/// One word for what dialects name differently.
pub(crate) fn plain(kind: &str) -> &str {
    match kind {
        "tool_use" | "function_call" => "call",
        "tool_result" | "function_call_output" => "result",
        "input_text" | "output_text" => "text",
        other => other,
    }
}
