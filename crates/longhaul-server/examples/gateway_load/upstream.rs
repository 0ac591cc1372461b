//! An upstream that only reads and answers: it reads the whole body, looks at nothing of it, and says what so many bytes come to. Where an
//! event stream is asked for, it opens one that ticks once a second and never ends by itself.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::{Interval, interval};

use crate::Outcome;
use crate::story::{BYTES_A_TOKEN, MODEL};

const TICK: &str = concat!(
    "event: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"tick "}}"#,
    "\n\n"
);
/// What is new in each request; the rest is said to have been read from the cache, as for any session that goes on.
const FRESH: u64 = 100;

/// Prints the port it listens on, and answers until it is ended.
pub(crate) async fn serve() -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let connection = hyper::server::conn::http1::Builder::new();
        let served = connection.serve_connection(TokioIo::new(socket), service_fn(answer));
        // A connection that ends early is the client's business: nobody is left to be told.
        tokio::spawn(async move { drop(served.await) });
    }
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Reply>, hyper::Error> {
    let mut bytes = 0;
    while let Some(frame) = next_frame(request.body_mut()).await? {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    let tokens = ((bytes as f64 / BYTES_A_TOKEN) as u64).max(FRESH);
    let usage = format!(
        r#"{{"input_tokens":{FRESH},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},"output_tokens":8}}"#,
        tokens - FRESH
    );
    let streamed = request.headers().get(ACCEPT).is_some_and(|value| value == "text/event-stream");
    let (reply, kind) = if streamed {
        (Reply::ticking(&usage), "text/event-stream")
    } else {
        (Reply::whole(&usage), "application/json")
    };
    let mut response = Response::new(reply);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

async fn next_frame(body: &mut Incoming) -> Result<Option<Frame<Bytes>>, hyper::Error> {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.transpose()
}

enum Reply {
    Whole(Option<Bytes>),
    Ticking { opening: Option<Bytes>, clock: Interval },
}

impl Reply {
    fn whole(usage: &str) -> Self {
        let text = format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"{MODEL}","content":[{{"type":"text","text":"Done, all of it."}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{usage}}}"#
        );
        Self::Whole(Some(text.into()))
    }

    fn ticking(usage: &str) -> Self {
        let message = format!(
            r#"{{"type":"message_start","message":{{"id":"msg_1","type":"message","role":"assistant","model":"{MODEL}","content":[],"stop_reason":null,"stop_sequence":null,"usage":{usage}}}}}"#
        );
        let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        let opening = format!("event: message_start\ndata: {message}\n\nevent: content_block_start\ndata: {block}\n\n");
        Self::Ticking { opening: Some(opening.into()), clock: interval(Duration::from_secs(1)) }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Ticking { opening, clock } => match opening.take() {
                Some(opening) => Poll::Ready(Some(Ok(Frame::data(opening)))),
                None => clock.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(TICK.as_bytes()))))),
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Ticking { .. } => SizeHint::default(),
        }
    }
}
