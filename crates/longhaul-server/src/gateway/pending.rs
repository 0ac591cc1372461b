//! Work that goes on behind an answer, and is to be done before the gateway ends.

use std::sync::Arc;

use tokio::sync::watch;

/// How much of it there is.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<watch::Sender<usize>>);

/// Some of it, as long as this is held.
pub(super) struct Begun(Pending);

impl Pending {
    pub(super) fn begin(&self) -> Begun {
        self.0.send_modify(|count| *count += 1);
        Begun(self.clone())
    }

    /// Waits until there is none.
    pub(super) async fn done(&self) {
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
