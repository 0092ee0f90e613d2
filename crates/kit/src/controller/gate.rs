//! What must be true before a controller works, and while it does.

use futures::future::{BoxFuture, pending, try_join_all};
use tokio::sync::watch;

use crate::watch::Stopped;

/// Stores that must be ready, and the leadership of the process.
pub(super) struct Gate {
    pub(super) stores: Vec<BoxFuture<'static, Result<(), Stopped>>>,
    pub(super) leading: watch::Receiver<bool>,
}

impl Gate {
    /// A gate for a process that has no rival, with no store to wait for.
    pub(super) fn open() -> Self {
        Self {
            stores: Vec::new(),
            leading: watch::Sender::new(true).subscribe(),
        }
    }

    /// Waits for the stores. A decision on half of the world would be wrong.
    pub(super) async fn stores(&mut self) -> Result<(), Stopped> {
        try_join_all(std::mem::take(&mut self.stores)).await.map(drop)
    }

    /// Waits until this process leads.
    pub(super) async fn leads(&mut self) {
        self.until(true).await;
    }

    /// Waits until this process leads no more.
    pub(super) async fn lost(&mut self) {
        self.until(false).await;
    }

    /// Nobody left to change the answer means that it stays as it is.
    async fn until(&mut self, leads: bool) {
        if self.leading.wait_for(|now| *now == leads).await.is_err() {
            pending::<()>().await;
        }
    }
}
