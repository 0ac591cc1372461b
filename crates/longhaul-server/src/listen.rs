//! Connections: how many at a time, how long each may stand idle, and how they end. The gateway and the MCP server share it.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long to wait where the system has no more connections to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A connection of HTTP/2 carries so many requests at once.
const MAX_STREAMS: u32 = 200;
/// A connection of HTTP/2 may stand idle for so many times as long as a head may take. One of HTTP/1 is looked after by hyper, which
/// knows when the last byte of an answer was taken.
const HTTP2_IDLE_HEADS: u32 = 10;
/// Descriptors beside those of connections: the store's files, sockets to a database, the log.
const SPARE_DESCRIPTORS: u64 = 256;
/// Descriptors for each connection: its own, and one to the upstream.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// The time until the head of a request is there, and that a connection may stand idle between two requests.
    pub(crate) head: Duration,
    /// The time that open answers have to end in when the server is told to stop.
    pub(crate) drain: Duration,
}

/// Answers until it is told to stop; then what is open may end, in the time there is for that. `stopping` is called in between.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()> + Send,
    stopping: impl FnOnce() + Send,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(Some(limits.head));
    let routes = TowerToHyperService::new(routes);
    let places = Arc::new(Semaphore::new(raise_descriptor_limit(limits.connections)));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut stop => break,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (activity, routes) = (Arc::new(Activity::default()), routes.clone());
        let counted = Arc::clone(&activity);
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let open = counted.begin(request.version() == http::Version::HTTP_2);
            let answer = routes.call(request);
            async move {
                let answer = answer.await?;
                Ok::<_, std::convert::Infallible>(answer.map(|body| CountedBody { body, _open: open }))
            }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let ended = tokio::select! {
                ended = connection => ended,
                () = activity.idles(limits.head) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!("a connection ended: {error}");
            }
            drop(place);
        });
    }
    drop(listener);
    stopping();
    if timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("answers were still open after {} s, and are cut", limits.drain.as_secs());
    }
    connections.shutdown().await;
}

/// The next connection, when there is room for one.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Requests of one connection that are open.
#[derive(Default)]
struct Activity {
    open: AtomicUsize,
    is_http2: AtomicBool,
    changed: Notify,
}

/// A request that is open until this is dropped.
struct Open(Arc<Activity>);

impl Activity {
    fn begin(self: &Arc<Self>, is_http2: bool) -> Open {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.is_http2.store(is_http2, Ordering::Release);
        self.changed.notify_one();
        Open(Arc::clone(self))
    }

    /// Waits until a connection has been idle for too long: before its first request, when it is not known yet what is spoken, and
    /// between two of HTTP/2.
    async fn idles(&self, head: Duration) {
        if timeout(head, self.changed.notified()).await.is_err() {
            return;
        }
        loop {
            let is_quiet = timeout(head * HTTP2_IDLE_HEADS, self.changed.notified()).await.is_err();
            let is_idle = self.open.load(Ordering::Acquire) == 0 && self.is_http2.load(Ordering::Acquire);
            if is_quiet && is_idle {
                return;
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}

/// A body whose request is open as long as it is not read to its end.
struct CountedBody {
    body: Body,
    _open: Open,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Raises this process's limit of open files to what so many connections need, as far as the system allows. The connections that
/// there is room for.
#[cfg(unix)]
fn raise_descriptor_limit(connections: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = (connections as u64).saturating_mul(DESCRIPTORS_PER_CONNECTION) + SPARE_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(now) = current.filter(|now| *now < needed) else { return connections };
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    let got = if raised.is_ok() { wanted } else { now };
    let room = connections_within(got).min(connections);
    if room < connections {
        tracing::warn!(
            "{room} connections at a time instead of {connections}: the system allows this process {got} open files; raise \
             the hard limit (ulimit -Hn) to {needed}"
        );
    }
    room
}

/// Elsewhere there is no such limit.
#[cfg(not(unix))]
fn raise_descriptor_limit(connections: usize) -> usize {
    connections
}

/// The connections that so many descriptors are enough for. Where they are very few, half of them are for connections.
#[cfg(unix)]
fn connections_within(descriptors: u64) -> usize {
    let spare = SPARE_DESCRIPTORS.min(descriptors / 2);
    usize::try_from((descriptors - spare) / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const HEAD: Duration = Duration::from_millis(200);
    const NEVER: Duration = Duration::from_mins(1);
    /// What a client of HTTP/2 says first: the preface, and settings that change nothing.
    const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    /// `GET /` on the first stream: method, scheme, path, and an authority of one letter.
    const HTTP2_GET: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a";

    #[cfg(unix)]
    #[test]
    fn connections_never_take_all_descriptors() {
        for (descriptors, connections) in [(1_024, 384), (20_000, 9_872), (256, 64), (3, 1), (0, 1)] {
            assert_eq!(connections_within(descriptors), connections);
        }
    }

    /// What comes of a connection that says this and then nothing more, until it is ended.
    async fn ends_after(said: &[u8]) -> Vec<u8> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", get(|| async { "hello" }));
        let limits = ConnectionLimits { connections: 10, head: HEAD, drain: HEAD };
        let serving = tokio::spawn(serve(listener, routes, limits, std::future::pending(), || ()));
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(said).await.unwrap();
        let mut came = Vec::new();
        let ended = timeout(NEVER, socket.read_to_end(&mut came)).await;
        assert!(ended.is_ok(), "{:?} may stay for ever", String::from_utf8_lossy(said));
        serving.abort();
        came
    }

    #[tokio::test]
    async fn a_connection_that_stands_idle_ends_before_and_after_its_first_request() {
        assert_eq!(ends_after(b"").await, b"");
        assert_eq!(ends_after(b"GET / HTTP/1.1\r\nho").await, b"");
        let came = ends_after(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(came.starts_with(b"HTTP/1.1 200 OK") && came.ends_with(b"hello"));
        assert!(!ends_after(HTTP2).await.is_empty(), "settings");
        let came = ends_after(&[HTTP2, HTTP2_GET].concat()).await;
        assert!(came.windows(5).any(|part| part == b"hello"), "{came:?}");
    }
}
