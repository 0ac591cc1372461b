//! One connection of a client: it is kept alive, and carries one request at a time.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Outcome;
use crate::story::{Body, Wanted};

/// What the gateway says it did with a request; nothing where there is none.
pub(crate) const ACTION: &str = "x-longhaul-action";

pub(crate) struct Connection {
    sender: SendRequest<Pieces>,
    host: String,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        // How a connection ends is seen by the request that was on it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, host: address.to_string() })
    }

    /// Sends a request and waits for the head of the reply, which must be a success.
    pub(crate) async fn ask(&mut self, body: &Body) -> Outcome<Response<Incoming>> {
        let accepted = match body.wanted {
            Wanted::Whole => "application/json",
            Wanted::Streamed => "text/event-stream",
        };
        let request = Request::post("/v1/messages")
            .header(HOST, self.host.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accepted)
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", "a-key-of-the-benchmark")
            .body(Pieces { body: body.clone(), sent: 0 })?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("{} answered {status}", self.host).into());
        }
        Ok(response)
    }

    /// Sends a request, reads the whole reply, and says what the gateway did.
    pub(crate) async fn exchange(&mut self, body: &Body) -> Outcome<Option<String>> {
        let mut response = self.ask(body).await?;
        while next_frame(response.body_mut()).await?.is_some() {}
        Ok(action(&response))
    }
}

pub(crate) fn action(response: &Response<Incoming>) -> Option<String> {
    response.headers().get(ACTION).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

pub(crate) async fn next_frame(body: &mut Incoming) -> Result<Option<Frame<Bytes>>, hyper::Error> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.transpose()
}

/// A request body on its way.
struct Pieces {
    body: Body,
    sent: usize,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.body.pieces.get(self.sent).cloned();
        self.sent += 1;
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent == self.body.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.body.pieces.iter().skip(self.sent).map(Bytes::len).sum::<usize>();
        SizeHint::with_exact(left as u64)
    }
}
