//! The gateway on a socket, from its first connection until the last answer is written down.

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::Gateway;
use super::keep_alive::BEAT;
use crate::listen::{self, ConnectionLimits};

impl Gateway {
    /// Answers until it is told to stop; then what is open may end, in the time there is for that.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let limits = self.settings.limits;
        let warmer = self.settings.keep_alive.map(|_| {
            let gateway = Arc::clone(&self);
            tokio::spawn(async move {
                loop {
                    sleep(BEAT).await;
                    gateway.keep_warm().await;
                }
            })
        });
        let (routes, connections) = (Arc::clone(&self).routes(), limits.of_connections());
        listen::serve(listener, routes, connections, stop, || {
            self.stops();
            if let Some(warmer) = warmer {
                warmer.abort();
            }
        })
        .await;
        if timeout(limits.deadline, self.pending.done()).await.is_err() {
            tracing::warn!("not all was written down in {} s", limits.deadline.as_secs());
        }
        Ok(())
    }
}

impl super::Limits {
    /// Those of them that are about connections.
    pub(crate) fn of_connections(&self) -> ConnectionLimits {
        ConnectionLimits { connections: self.connections, head: self.head, drain: self.drain }
    }
}
