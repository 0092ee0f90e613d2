//! The end of a process: asked for by a signal, drained until a deadline, at once on the second signal.
//!
//! ```
//! # tokio_test(async {
//! use std::time::Duration;
//! use trustplane_process::shutdown::Shutdown;
//!
//! let shutdown = Shutdown::new(Duration::from_secs(25));
//! let stop = shutdown.token(); // goes to a task
//! shutdown.request();
//! assert!(stop.is_cancelled());
//! shutdown.drain(async { /* finish running work */ }).await?;
//! # Ok::<(), trustplane_process::shutdown::DrainError>(()) });
//! # fn tokio_test<F: Future>(f: F) { tokio::runtime::Runtime::new().unwrap().block_on(f); }
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A handle on the end of the process; a cheap clone.
#[derive(Debug, Clone)]
pub struct Shutdown(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requested: CancellationToken,
    forced: CancellationToken,
    deadline: Duration,
    since: OnceLock<Instant>,
}

/// Why running work was not waited for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DrainError {
    /// It took too long.
    #[error("running work did not end within {0:?} of the shutdown")]
    Deadline(Duration),
    /// A second signal, or [`Shutdown::force`].
    #[error("the shutdown was forced before running work ended")]
    Forced,
}

impl Shutdown {
    /// A shutdown that only [`Shutdown::request`] starts.
    pub fn new(deadline: Duration) -> Self {
        let (requested, forced) = (CancellationToken::new(), CancellationToken::new());
        Self(Arc::new(Inner {
            requested,
            forced,
            deadline,
            since: OnceLock::new(),
        }))
    }

    /// A shutdown that SIGTERM or SIGINT starts, and a second one of them forces.
    ///
    /// Needs a tokio runtime. From here on the signals no longer end the process by themselves.
    pub fn on_signals(deadline: Duration) -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let shutdown = Self::new(deadline);
        tokio::spawn(follow_signals(shutdown.clone(), terminate, interrupt));
        Ok(shutdown)
    }

    /// Starts the shutdown. The deadline counts from the first call.
    pub fn request(&self) {
        self.0.since.get_or_init(Instant::now);
        self.0.requested.cancel();
    }

    /// Gives up waiting for running work.
    pub fn force(&self) {
        self.request();
        self.0.forced.cancel();
    }

    /// A token that is cancelled when the shutdown starts. Cancelling it reaches only its own children.
    pub fn token(&self) -> CancellationToken {
        self.0.requested.child_token()
    }

    /// Whether the shutdown has started.
    pub fn is_requested(&self) -> bool {
        self.0.requested.is_cancelled()
    }

    /// Waits for the start of the shutdown.
    pub async fn requested(&self) {
        self.0.requested.cancelled().await;
    }

    /// How long running work may take in all.
    pub fn deadline(&self) -> Duration {
        self.0.deadline
    }

    /// Waits for running work until the deadline, which counts from the start of the shutdown and is thus shared by
    /// everything that drains.
    pub async fn drain<F: Future>(&self, work: F) -> Result<F::Output, DrainError> {
        self.requested().await;
        let since = *self.0.since.get_or_init(Instant::now);
        tokio::select! {
            biased;
            output = work => Ok(output),
            () = self.0.forced.cancelled() => Err(DrainError::Forced),
            () = tokio::time::sleep_until(since + self.0.deadline) => Err(DrainError::Deadline(self.0.deadline)),
        }
    }
}

async fn follow_signals(shutdown: Shutdown, mut terminate: Signal, mut interrupt: Signal) {
    loop {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        if shutdown.is_requested() {
            tracing::warn!(signal = name, "second signal: ending at once");
            return shutdown.force();
        }
        tracing::info!(signal = name, deadline = ?shutdown.deadline(), "shutting down");
        shutdown.request();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use rustix::process::{Signal as Number, getpid, kill_process};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(25);

    #[tokio::test(start_paused = true)]
    async fn the_deadline_counts_from_the_request_and_is_shared() {
        let shutdown = Shutdown::new(DEADLINE);
        shutdown.request();
        let start = Instant::now();
        tokio::time::advance(Duration::from_secs(10)).await;
        let (one, other) = tokio::join!(shutdown.drain(pending::<()>()), shutdown.drain(pending::<()>()));
        assert_eq!(
            (one, other),
            (
                Err(DrainError::Deadline(DEADLINE)),
                Err(DrainError::Deadline(DEADLINE))
            )
        );
        assert_eq!(start.elapsed().as_secs(), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_in_time_is_kept() {
        let shutdown = Shutdown::new(DEADLINE);
        shutdown.request();
        let work = async {
            tokio::time::sleep(Duration::from_secs(24)).await;
            7
        };
        assert_eq!(shutdown.drain(work).await, Ok(7));
    }

    #[tokio::test]
    async fn a_child_token_does_not_end_the_process() {
        let shutdown = Shutdown::new(DEADLINE);
        shutdown.token().cancel();
        assert!(!shutdown.is_requested());
    }

    #[tokio::test]
    async fn the_first_signal_asks_and_the_second_forces() {
        let shutdown = Shutdown::on_signals(Duration::from_secs(3600)).unwrap();
        let send = |number| kill_process(getpid(), number).unwrap();
        send(Number::TERM);
        shutdown.requested().await;
        send(Number::INT);
        assert_eq!(shutdown.drain(pending::<()>()).await, Err(DrainError::Forced));
    }
}
