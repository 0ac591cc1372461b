//! A client that hides nothing: one connection, and every byte as it came. What it makes of events is its own, and not the gateway's.

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ground::Ground;

/// Where requests of a dialect go.
pub(crate) fn path(api_format: ApiFormat) -> &'static str {
    match api_format {
        ApiFormat::Messages => "/v1/messages",
        ApiFormat::Chat => "/v1/chat/completions",
        ApiFormat::Responses => "/v1/responses",
    }
}

/// A short request that asks for a stream.
pub(crate) fn streamed(api_format: ApiFormat) -> Value {
    let mut body = short(api_format, "hi");
    body["stream"] = json!(true);
    body
}

/// A request with one message, long enough to be looked at.
pub(crate) fn short(api_format: ApiFormat, text: &str) -> Value {
    let messages = json!([{ "role": "user", "content": format!("{text}{:4096}", "") }]);
    match api_format {
        ApiFormat::Messages => {
            json!({ "model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages })
        }
        ApiFormat::Chat => json!({ "model": "gpt-5", "messages": messages }),
        ApiFormat::Responses => json!({ "model": "gpt-5", "input": messages }),
    }
}

/// A connection to a gateway.
pub(crate) async fn connect(ground: &Ground) -> TcpStream {
    TcpStream::connect(ground.url.trim_start_matches("http://")).await.unwrap()
}

/// A connection on which a request was sent, and nothing was read yet.
pub(crate) async fn sent(ground: &Ground, path: &str, body: &str) -> TcpStream {
    let mut socket = connect(ground).await;
    socket.write_all(request(path, body).as_bytes()).await.unwrap();
    socket
}

/// A request, as it is written.
pub(crate) fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: sk-client-of-the-test\r\nanthropic-version: 2023-06-01\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads until these bytes have come, and says what came before them.
pub(crate) async fn read_until(socket: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        match socket.read_u8().await {
            Ok(byte) => read.push(byte),
            Err(_) => break,
        }
    }
    read
}

/// The status of an answer whose head is next on a connection; 0 where there is none.
pub(crate) async fn status(socket: &mut TcpStream) -> u16 {
    let head = read_until(socket, b"\r\n\r\n").await;
    let head = String::from_utf8_lossy(&head).into_owned();
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// The events of a stream, as the standard has it: what is not ended by a blank line is none, and what has no data neither.
pub(crate) fn events(bytes: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    for part in text.split_inclusive("\n\n").filter(|part| part.ends_with("\n\n")) {
        let field = |name: &str| {
            let values = part.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'));
            values.map(|value| value.strip_prefix(' ').unwrap_or(value).to_owned()).collect::<Vec<_>>()
        };
        let data = field("data");
        if !data.is_empty() {
            let name = field("event").pop().unwrap_or_default();
            events.push(Event { name, data: data.join("\n") });
        }
    }
    events
}

impl Event {
    fn value(&self) -> Value {
        self.data.parse().unwrap_or_default()
    }

    /// Whether a client would take it for the end of the answer.
    pub(crate) fn is_end(&self, api_format: ApiFormat) -> bool {
        let kind = self.value()["type"].as_str().unwrap_or_default().to_owned();
        match api_format {
            ApiFormat::Chat => self.data == "[DONE]",
            ApiFormat::Messages => kind == "message_stop",
            ApiFormat::Responses => {
                ["response.completed", "response.incomplete", "response.failed"].contains(&kind.as_str())
            }
        }
    }

    /// Whether a client would take it for an error.
    pub(crate) fn is_error(&self, api_format: ApiFormat) -> bool {
        let value = self.value();
        match api_format {
            ApiFormat::Chat => value["error"]["message"].is_string(),
            ApiFormat::Messages => {
                self.name == "error" && value["type"] == "error" && value["error"]["message"].is_string()
            }
            ApiFormat::Responses => self.name == "error" && value["type"] == "error" && value["message"].is_string(),
        }
    }
}

/// As many descriptors as the system allows: both ends of every connection of a test are in this one process.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
