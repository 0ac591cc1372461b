//! One connection of a client: it is kept alive, and carries one request at a time. It knows as much of HTTP/1.1 as the servers here
//! speak, so that it costs less than what it measures.

use std::net::SocketAddr;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Outcome;
use crate::story::{Body, Wanted};

/// What the gateway says it did with a request; nothing where there is none.
const ACTION: &str = "x-longhaul-action";
/// What ends a reply that comes in chunks.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

pub(crate) struct Connection {
    socket: TcpStream,
    address: SocketAddr,
    /// What has arrived of a reply.
    arrived: Vec<u8>,
}

/// The head of a reply.
struct Head {
    /// Where it ends.
    end: usize,
    /// The bytes that follow; not known where they come in chunks.
    length: Option<usize>,
    action: Option<String>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, address, arrived: Vec::with_capacity(4096) })
    }

    /// Sends a request, reads the whole reply, and says what the gateway did.
    pub(crate) async fn exchange(&mut self, body: &Body) -> Outcome<Option<String>> {
        let head = self.ask(body).await?;
        while !match head.length {
            Some(length) => self.arrived.len() >= head.end + length,
            None => self.arrived.ends_with(LAST_CHUNK),
        } {
            self.more().await?;
        }
        Ok(head.action)
    }

    /// Sends a request whose reply is a stream, and waits for its head.
    pub(crate) async fn subscribe(&mut self, body: &Body) -> Outcome<()> {
        let head = self.ask(body).await?;
        if head.length.is_some() {
            return Err(format!("{} answered with no stream", self.address).into());
        }
        Ok(())
    }

    /// Waits for the next bytes of a stream.
    pub(crate) async fn next(&mut self) -> Outcome<()> {
        self.arrived.clear();
        self.more().await
    }

    async fn ask(&mut self, body: &Body) -> Outcome<Head> {
        let accept = match body.wanted {
            Wanted::Whole => "application/json",
            Wanted::Streamed => "text/event-stream",
        };
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: {accept}\r\n\
             anthropic-version: 2023-06-01\r\nx-api-key: a-key-of-the-benchmark\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let [start, end] = body.pieces.clone();
        self.socket.write_all_buf(&mut Bytes::from(head).chain(start).chain(end)).await?;
        self.arrived.clear();
        loop {
            self.more().await?;
            if let Some(end) = self.arrived.windows(4).position(|four| four == b"\r\n\r\n") {
                return self.head(end + 4);
            }
        }
    }

    /// Reads the head, which must be that of a success.
    fn head(&self, end: usize) -> Outcome<Head> {
        let text = std::str::from_utf8(&self.arrived[..end])?;
        let mut lines = text.lines();
        let status = lines.next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            let said = String::from_utf8_lossy(&self.arrived[end..]);
            return Err(format!("{} answered {status}: {said}", self.address).into());
        }
        let mut head = Head { end, length: None, action: None };
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            if name.eq_ignore_ascii_case("content-length") {
                head.length = Some(value.parse()?);
            } else if name.eq_ignore_ascii_case(ACTION) {
                head.action = Some(value.to_owned());
            }
        }
        Ok(head)
    }

    async fn more(&mut self) -> Outcome<()> {
        match self.socket.read_buf(&mut self.arrived).await? {
            0 => Err(format!("{} closed the connection", self.address).into()),
            _ => Ok(()),
        }
    }
}
