//! The door to the street: connections, and how they end.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Gateway;
use super::keep_alive::BEAT;

/// How long to wait where the system has no more connections to give.
const BREATH: Duration = Duration::from_millis(100);
/// A connection of HTTP/2 carries so many requests at once.
const STREAMS: u32 = 200;

impl Gateway {
    /// Answers until it is told to stop; then what is open may end, in the time there is for that.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let limits = self.settings.limits;
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .keep_alive_interval(Some(limits.head));
        let routes = TowerToHyperService::new(Arc::clone(&self).routes());
        let (places, graceful) = (Arc::new(Semaphore::new(limits.connections)), GracefulShutdown::new());
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        let warmer = self.settings.keep_alive.map(|_| {
            let gateway = Arc::clone(&self);
            tokio::spawn(async move {
                loop {
                    sleep(BEAT).await;
                    gateway.keep_warm().await;
                }
            })
        });
        loop {
            let accepted = tokio::select! {
                accepted = accept(&listener, &places) => accepted,
                () = &mut stop => break,
            };
            let (stream, room) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    sleep(BREATH).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (asked, routes) = (Arc::new(Notify::new()), routes.clone());
            let asks = Arc::clone(&asked);
            let service = service_fn(move |request| {
                asks.notify_one();
                routes.call(request)
            });
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            let connection = graceful.watch(connection);
            while connections.try_join_next().is_some() {}
            connections.spawn(async move {
                let mut connection = pin!(connection);
                // Until it is known what is spoken, nobody else looks at the time.
                let ended = tokio::select! {
                    ended = &mut connection => ended,
                    asked = timeout(limits.head, asked.notified()) => match asked {
                        Ok(()) => connection.await,
                        Err(_) => Ok(()),
                    },
                };
                if let Err(error) = ended {
                    tracing::debug!("a connection ended: {error}");
                }
                drop(room);
            });
        }
        drop(listener);
        self.stops();
        if let Some(warmer) = warmer {
            warmer.abort();
        }
        if timeout(limits.drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("answers were still open after {} s, and are cut", limits.drain.as_secs());
        }
        connections.shutdown().await;
        if timeout(limits.deadline, self.pending.done()).await.is_err() {
            tracing::warn!("not all was written down in {} s", limits.deadline.as_secs());
        }
        Ok(())
    }
}

/// The next connection, when there is room for one.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let room = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, room))
}
