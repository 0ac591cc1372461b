//! Files to read, and sessions as short texts to compare.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul_agents::{AgentSession, MessagePart, Origin, ReadOptions, RecordedMessage, Role, SessionReadError};
use longhaul_engine::ApiFormat;
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
pub(crate) fn read(path: &Path, asked: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let place = longhaul_agents::recognize_path(path)?;
    longhaul_agents::read(&place.unwrap_or_else(|| panic!("{} is not recognised", path.display())), asked)
}

/// A session of these lines.
pub(crate) fn of_lines(lines: &[Value], asked: &ReadOptions) -> AgentSession {
    let folder = Folder::new();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read(&folder.file("session.jsonl", text), asked).unwrap_or_else(|unread| panic!("{unread}"))
}

/// Turns as text: `user: L1 text, L2 result | assistant: …`.
pub(crate) fn shown(session: &AgentSession) -> String {
    let turn = |turn: &RecordedMessage| format!("{}: {}", role(turn), pieces(session, turn).join(", "));
    session.messages.iter().map(turn).collect::<Vec<_>>().join(" | ")
}

pub(crate) fn role(turn: &RecordedMessage) -> &'static str {
    match turn.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Where the pieces of a turn come from, and what they are; what the client adds itself is left out.
pub(crate) fn pieces(session: &AgentSession, turn: &RecordedMessage) -> Vec<String> {
    let piece = |(piece, origin): &(MessagePart, Origin)| {
        let from = match origin {
            Origin::Line(line) => format!("L{line}"),
            Origin::ListItem(line, item) => format!("L{line}[{item}]"),
            Origin::Row(row) => format!("row {row}"),
            Origin::Id(id) => id.clone(),
            Origin::Synthetic => return None,
        };
        Some(format!("{from} {}", kind(session.api_format, turn, piece)))
    };
    turn.parts.iter().filter_map(piece).collect()
}

fn kind(api_format: ApiFormat, turn: &RecordedMessage, piece: &MessagePart) -> String {
    match piece {
        MessagePart::Raw(raw) => {
            let value: Value = serde_json::from_str(raw.get()).unwrap();
            let kind = value["type"].as_str().unwrap_or("?");
            match value["role"].as_str() {
                Some(role) => format!("{kind} {role}"),
                None => plain(kind).to_owned(),
            }
        }
        MessagePart::Text(_) if api_format == ApiFormat::Responses => format!("message {}", role(turn)),
        MessagePart::Text(_) => "text".to_owned(),
        MessagePart::Thinking { .. } => "thinking".to_owned(),
        MessagePart::ToolCall { .. } => "call".to_owned(),
        MessagePart::ToolResult { .. } => "result".to_owned(),
        MessagePart::Image { .. } => "image".to_owned(),
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
