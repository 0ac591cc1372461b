//! The plainest client: one connection a request, and every chunk as it came.

use longhaul_engine::ApiFormat;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::simulator::Simulator;

/// What came back.
pub(crate) struct Came {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) chunks: Vec<String>,
    /// Whether the end was announced.
    pub(crate) whole: bool,
}

impl Came {
    pub(crate) fn body(&self) -> String {
        self.chunks.concat()
    }

    pub(crate) fn json(&self) -> Value {
        self.body().parse().unwrap()
    }

    /// What the error says.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The data of every event that has some.
    pub(crate) fn events(&self) -> Vec<Value> {
        let body = self.body();
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| data.parse().unwrap()).collect()
    }
}

pub(crate) fn path(api_format: ApiFormat) -> &'static str {
    match api_format {
        ApiFormat::Messages => "/v1/messages",
        ApiFormat::Chat => "/v1/chat/completions",
        ApiFormat::Responses => "/v1/responses",
    }
}

/// Sends a request of a dialect as somebody.
pub(crate) async fn ask(simulator: &Simulator, api_format: ApiFormat, body: &Value) -> Came {
    send(simulator, path(api_format), "x-api-key: somebody\r\nanthropic-version: 2023-06-01\r\n", &body.to_string())
        .await
}

/// Sends any request, with those lines in its head.
pub(crate) async fn send(simulator: &Simulator, path: &str, lines: &str, body: &str) -> Came {
    let mut socket = open(simulator, path, lines, body).await;
    let mut all = Vec::new();
    socket.read_to_end(&mut all).await.unwrap();
    let all = String::from_utf8(all).unwrap();
    let (head, mut rest) = all.split_once("\r\n\r\n").unwrap();
    let mut came = Came {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        chunks: Vec::new(),
        whole: false,
    };
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        came.whole = size == 0;
        if came.whole {
            break;
        }
        came.chunks.push(after[..size].to_owned());
        rest = &after[size + 2..];
    }
    came
}

/// A connection on which a request was sent and nothing was read yet.
pub(crate) async fn open(simulator: &Simulator, path: &str, lines: &str, body: &str) -> TcpStream {
    let origin = simulator.origin();
    let mut socket = TcpStream::connect(origin.trim_start_matches("http://")).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: simulator\r\nconnection: close\r\n{lines}content-length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(body.as_bytes()).await.unwrap();
    socket
}

/// A text of so many tokens.
pub(crate) fn words(count: usize) -> String {
    " word".repeat(count)
}
