//! Runs the gateway on a socket, from the first connection until the last reply is settled.

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::Gateway;
use super::cache_keep_alive::CHECK_INTERVAL;
use crate::listen::{self, ConnectionLimits};

impl Gateway {
    /// Serves requests until `stop` completes. Open replies then have `drain_timeout` to end.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let limits = self.settings.limits;
        let refresh_task = self.settings.keep_alive.map(|_| {
            let gateway = Arc::clone(&self);
            tokio::spawn(async move {
                loop {
                    sleep(CHECK_INTERVAL).await;
                    gateway.refresh_expiring_caches().await;
                }
            })
        });
        let starting = Arc::clone(&self);
        tokio::spawn(async move { starting.load_summary_spending().await });
        let (routes, connections) = (Arc::clone(&self).routes(), limits.connection_limits());
        listen::serve(listener, routes, connections, stop, || {
            self.begin_shutdown();
            if let Some(refresh_task) = refresh_task {
                refresh_task.abort();
            }
        })
        .await;
        self.background_work.close();
        if timeout(limits.deadline, self.background_work.wait()).await.is_err() {
            tracing::warn!("some records were not written within {} s", limits.deadline.as_secs());
        }
        Ok(())
    }
}

impl super::GatewayLimits {
    /// Returns the limits that apply to connections.
    pub(crate) fn connection_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            max_connections: self.max_connections,
            head_timeout: self.head_timeout,
            drain_timeout: self.drain_timeout,
        }
    }
}
