//! What whoever runs a command asks of it by signals.

use tokio::signal;

use crate::failure::Failure;

/// From now on a limit on the size of files makes a write fail, with a message and an exit code, instead of ending the process.
pub(crate) fn survive_file_size_limit() {
    // The listener outlives the runtime that it was made in.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        let _entered = runtime.enter();
        longhaul_server::store::survive_file_size_limit();
    }
}

/// Requests to come to an end: Ctrl-C, and what service managers send.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    terminate: signal::unix::Signal,
}

impl Interrupts {
    /// From now on those are not the end of the process. It must be called from within a runtime.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            #[cfg(unix)]
            terminate: signal::unix::signal(signal::unix::SignalKind::terminate())
                .map_err(|error| Failure::World(format!("cannot listen to signals: {error}")))?,
        })
    }

    /// The next one.
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
