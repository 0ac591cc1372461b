//! Handles the signals that the process receives.

use tokio::signal;

use crate::failure::Failure;

/// Makes a write fail with an error if it exceeds the limit on file sizes. By default, a signal would end the
/// process.
pub(crate) fn survive_file_size_limit() {
    // The signal handler stays installed after the runtime is dropped.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        let _entered = runtime.enter();
        longhaul_server::store::survive_file_size_limit();
    }
}

/// The signals that ask the process to end: Ctrl-C, and the one that service managers send.
pub(crate) struct ShutdownSignals {
    #[cfg(unix)]
    terminate: signal::unix::Signal,
}

impl ShutdownSignals {
    /// Starts to handle the signal of service managers, which no longer ends the process. Ctrl-C is handled
    /// from the first [`next`](Self::next) on. Must be called within an async runtime.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            #[cfg(unix)]
            terminate: signal::unix::signal(signal::unix::SignalKind::terminate())
                .map_err(|error| Failure::System(format!("cannot listen to signals: {error}")))?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = signal::ctrl_c() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = signal::ctrl_c().await;
    }
}
