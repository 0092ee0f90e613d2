//! The one task in which the tasks of all platforms run.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The task of a platform, and what becomes of the platform if the task panics.
pub(super) struct Job {
    pub work: BoxFuture<'static, ()>,
    pub panicked: Box<dyn FnOnce() + Send>,
}

/// Runs the tasks of all platforms. A task that panics ends no other.
pub(super) async fn pool(mut jobs: mpsc::Receiver<Job>, stop: CancellationToken) {
    let mut running = FuturesUnordered::new();
    let mut is_open = true;
    while is_open || !running.is_empty() {
        tokio::select! {
            () = stop.cancelled(), if running.is_empty() => return,
            Some(()) = running.next() => {}
            job = jobs.recv(), if is_open => match job {
                Some(job) => running.push(guarded(job)),
                None => is_open = false,
            },
        }
    }
}

async fn guarded(job: Job) {
    if AssertUnwindSafe(job.work).catch_unwind().await.is_err() {
        (job.panicked)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use tokio::sync::oneshot;

    use super::*;

    fn job(work: impl Future<Output = ()> + Send + 'static, panics: &Arc<AtomicUsize>) -> Job {
        let panics = panics.clone();
        Job {
            work: work.boxed(),
            panicked: Box::new(move || {
                panics.fetch_add(1, Ordering::SeqCst);
            }),
        }
    }

    #[tokio::test]
    async fn a_panic_of_one_task_ends_no_other() {
        let (jobs, received) = mpsc::channel(4);
        let (panics, (done, finished)) = (Arc::default(), oneshot::channel());
        let (go, gone) = oneshot::channel::<()>();
        let lasting = async move {
            gone.await.unwrap();
            done.send("done").unwrap();
        };
        let pool = tokio::spawn(pool(received, CancellationToken::new()));
        jobs.send(job(lasting, &panics)).await.ok().unwrap();
        let crashing = async { panic!("a platform sent what nobody expects") };
        jobs.send(job(crashing, &panics)).await.ok().unwrap();
        drop(jobs);
        while panics.load(Ordering::SeqCst) == 0 {
            assert!(!pool.is_finished(), "the pool ended with the task");
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
        assert_eq!(finished.await.unwrap(), "done");
        pool.await.unwrap();
        assert_eq!(
            panics.load(Ordering::SeqCst),
            1,
            "only the task that panicked is told"
        );
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn the_pool_sleeps_when_no_task_can_come_any_more() {
        let (jobs, received) = mpsc::channel(1);
        jobs.send(job(std::future::pending(), &Arc::default()))
            .await
            .ok()
            .unwrap();
        drop(jobs);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut pool = Box::pin(pool(received, CancellationToken::new()));
        let mut wakes_of_a_look = async || {
            let before = wakes.0.load(Ordering::SeqCst);
            assert_eq!(
                pool.as_mut().poll(&mut Context::from_waker(&waker)),
                Poll::Pending
            );
            // The runtime wakes a task that takes too much of its time only after others had their turn.
            tokio::task::yield_now().await;
            wakes.0.load(Ordering::SeqCst) - before
        };
        // These looks take the task and see that the channel is closed.
        for _ in 0..3 {
            wakes_of_a_look().await;
        }
        assert_eq!(wakes_of_a_look().await, 0);
    }
}
