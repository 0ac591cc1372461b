//! Serves connections for the gateway and the MCP server: limits their number and their idle time, and ends
//! them on shutdown.

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

/// The pause after a connection could not be accepted, for example because the system has no descriptors
/// left. Chosen by hand.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of concurrent requests on one HTTP/2 connection. Chosen by hand.
const MAX_STREAMS: u32 = 200;
/// An HTTP/2 connection may be idle for this many times the head timeout. Chosen by hand. HTTP/1 connections
/// need no such limit here: hyper closes them, because it knows when the last byte of a reply was taken.
const HTTP2_IDLE_FACTOR: u32 = 10;
/// The descriptors that are not for connections: the store's files, sockets to a database, the log. Chosen by
/// hand.
const RESERVED_DESCRIPTORS: u64 = 256;
/// The descriptors for each connection: its own, and one to the upstream.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// The limits on connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// The maximum number of connections at a time.
    pub(crate) max_connections: usize,
    /// The time until the head of a request must have arrived. An HTTP/1 connection may be idle for as long
    /// between two requests, an HTTP/2 connection for [`HTTP2_IDLE_FACTOR`] times as long.
    pub(crate) head_timeout: Duration,
    /// The time in which open replies must end after the server is told to stop.
    pub(crate) drain_timeout: Duration,
}

/// Serves connections until `stop` completes, then calls `stopping` and waits for open replies, at most for
/// the drain timeout.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()> + Send,
    stopping: impl FnOnce() + Send,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(Some(limits.head_timeout));
    let routes = TowerToHyperService::new(routes);
    let permits = Arc::new(Semaphore::new(raise_descriptor_limit(limits.max_connections)));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            () = &mut stop => break,
        };
        let (stream, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (activity, routes) = (Arc::new(Activity::default()), routes.clone());
        let request_activity = Arc::clone(&activity);
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let open = request_activity.begin(request.version());
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
                () = activity.wait_until_idle(limits.head_timeout) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!("a connection ended: {error}");
            }
            drop(permit);
        });
    }
    drop(listener);
    stopping();
    if timeout(limits.drain_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("replies still open after {} s were cut off", limits.drain_timeout.as_secs());
    }
    connections.shutdown().await;
}

/// Accepts the next connection as soon as there is room for one.
async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// The open requests of one connection.
#[derive(Default)]
struct Activity {
    open: AtomicUsize,
    is_http2: AtomicBool,
    changed: Notify,
}

/// An open request; dropping it ends the request.
struct OpenRequest(Arc<Activity>);

impl Activity {
    fn begin(self: &Arc<Self>, version: http::Version) -> OpenRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.is_http2.store(version == http::Version::HTTP_2, Ordering::Release);
        self.changed.notify_one();
        OpenRequest(Arc::clone(self))
    }

    /// Waits until the connection has been idle for too long: before its first request, when the protocol is
    /// not known yet, and between two requests of HTTP/2.
    async fn wait_until_idle(&self, head: Duration) {
        if timeout(head, self.changed.notified()).await.is_err() {
            return;
        }
        loop {
            let is_quiet = timeout(head * HTTP2_IDLE_FACTOR, self.changed.notified()).await.is_err();
            let is_idle = self.open.load(Ordering::Acquire) == 0 && self.is_http2.load(Ordering::Acquire);
            if is_quiet && is_idle {
                return;
            }
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}

/// A reply body that keeps its request open until it is read to its end or dropped.
struct CountedBody {
    body: Body,
    _open: OpenRequest,
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

/// Raises this process's limit of open files to what these connections need, as far as the system allows.
/// Returns the number of connections that there is room for.
#[cfg(unix)]
fn raise_descriptor_limit(connections: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = (connections as u64).saturating_mul(DESCRIPTORS_PER_CONNECTION) + RESERVED_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current_limit) = current.filter(|current_limit| *current_limit < needed) else { return connections };
    let new_limit = maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(new_limit), maximum });
    let granted = if raised.is_ok() { new_limit } else { current_limit };
    let allowed = connections_within(granted).min(connections);
    if allowed < connections {
        tracing::warn!(
            "{allowed} connections at a time instead of {connections}: the system allows this process {granted} open files; raise \
             the hard limit (ulimit -Hn) to {needed}"
        );
    }
    allowed
}

/// Returns the number unchanged: other systems have no such limit.
#[cfg(not(unix))]
fn raise_descriptor_limit(connections: usize) -> usize {
    connections
}

/// Returns the number of connections for which these descriptors are enough. If there are very few, half of
/// them are for connections.
#[cfg(unix)]
fn connections_within(descriptors: u64) -> usize {
    let reserved = RESERVED_DESCRIPTORS.min(descriptors / 2);
    usize::try_from((descriptors - reserved) / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const HEAD: Duration = Duration::from_millis(200);
    const NEVER: Duration = Duration::from_mins(1);
    /// The first bytes of an HTTP/2 client: the preface, and settings that change nothing.
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

    /// Sends these bytes and then nothing more, and returns what arrives until the server ends the
    /// connection.
    async fn ends_after(sent: &[u8]) -> Vec<u8> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", get(|| async { "hello" }));
        let limits = ConnectionLimits { max_connections: 10, head_timeout: HEAD, drain_timeout: HEAD };
        let serving = tokio::spawn(serve(listener, routes, limits, std::future::pending(), || ()));
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(sent).await.unwrap();
        let mut received = Vec::new();
        let ended = timeout(NEVER, socket.read_to_end(&mut received)).await;
        assert!(ended.is_ok(), "{:?} may stay for ever", String::from_utf8_lossy(sent));
        serving.abort();
        received
    }

    #[tokio::test]
    async fn a_connection_that_stands_idle_ends_before_and_after_its_first_request() {
        assert_eq!(ends_after(b"").await, b"");
        assert_eq!(ends_after(b"GET / HTTP/1.1\r\nho").await, b"");
        let received = ends_after(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(received.starts_with(b"HTTP/1.1 200 OK") && received.ends_with(b"hello"));
        assert!(!ends_after(HTTP2).await.is_empty(), "settings");
        let received = ends_after(&[HTTP2, HTTP2_GET].concat()).await;
        assert!(received.windows(5).any(|part| part == b"hello"), "{received:?}");
    }
}
