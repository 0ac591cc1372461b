//! The scripted upstream on a socket. The HTTP is written by hand, because a server that is made well cannot fail badly.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use longhaul_engine::ApiFormat;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::act::{Act, Done};

/// A server that does one act a request, and ends with its owner.
pub(crate) struct Server {
    address: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    acts: VecDeque<Act>,
    asked: Vec<Asked>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) at: std::time::Instant,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(cache, _)| cache.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn dialect(&self) -> ApiFormat {
        match self.path.as_str() {
            path if path.ends_with("/messages") => ApiFormat::Messages,
            path if path.ends_with("/responses") => ApiFormat::Responses,
            _ => ApiFormat::Chat,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), acts).await
    }

    pub(crate) async fn start_at(address: SocketAddr, acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State { acts: acts.into_iter().collect(), asked: Vec::new() }));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&shared)));
            }
        });
        Self { address, state, task }
    }

    /// What a `base_url` is set to.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// One more act at the end of the script.
    pub(crate) fn then(&self, act: Act) {
        self.state.lock().unwrap().acts.push_back(act);
    }

    /// All that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }
}

async fn serve(socket: TcpStream, state: Arc<Mutex<State>>) {
    let mut socket = BufReader::new(socket);
    let Some(asked) = read(&mut socket).await else { return };
    let act = {
        let mut state = state.lock().unwrap();
        state.asked.push(asked.clone());
        state.acts.pop_front().unwrap_or_else(|| Act::answers(501, "the script is over"))
    };
    // A caller who has gone does not hear the end, which is no fault of the script's.
    let _ = answer(socket.get_mut(), &asked, act).await;
}

async fn read(socket: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(pair).collect();
    let mut asked = Asked { path, headers, body: String::new(), at: std::time::Instant::now() };
    let mut body = vec![0; asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
    socket.read_exact(&mut body).await.ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}

async fn answer(socket: &mut TcpStream, asked: &Asked, act: Act) -> std::io::Result<()> {
    tokio::time::sleep(act.after).await;
    let api_format = asked.dialect();
    let streams = asked.body.contains("\"stream\":true");
    let (status, headers, body, kind) = match act.done {
        Done::HangsUp => return Ok(()),
        Done::Answers { status, headers, body } => (status, headers, body, "application/json"),
        Done::Says(speech) if streams => {
            (200, Vec::new(), speech.events(api_format).into_bytes(), "text/event-stream; charset=utf-8")
        }
        Done::Says(speech) => (200, Vec::new(), speech.whole(api_format).into_bytes(), "application/json"),
    };
    let kind = act.kind.unwrap_or(kind);
    let length = format!("content-length: {}", body.len());
    let mut head =
        vec![format!("HTTP/1.1 {status} Scripted"), format!("content-type: {kind}"), "connection: close".into()];
    head.extend(headers.into_iter().map(|(name, value)| format!("{name}: {value}")));
    head.push(if streams { "transfer-encoding: chunked".into() } else { length });
    let head = head.join("\r\n") + "\r\n\r\n";
    socket.write_all(head.as_bytes()).await?;
    let sent = &body[..act.cut.unwrap_or(body.len()).min(body.len())];
    for piece in sent.chunks(act.piece) {
        if streams {
            socket.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        }
        socket.write_all(piece).await?;
        if streams {
            socket.write_all(b"\r\n").await?;
        }
        socket.flush().await?;
        tokio::time::sleep(act.pace).await;
    }
    if act.cut.is_none() && streams {
        socket.write_all(b"0\r\n\r\n").await?;
    }
    socket.shutdown().await
}
