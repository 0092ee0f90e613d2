//! The one task that writes.
//!
//! Requests queue work and wait; the task takes what has queued up, does it in one transaction, commits, and only then answers. A piece
//! of work that fails is undone alone, by a savepoint.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use trustplane_process::clock::Clock;

use super::StoreError;
use super::apply::ClusterLimits;
use super::sweep::OpenSnapshots;
use crate::time::Millis;

/// How much work may wait. Beyond it requests wait for room.
pub const QUEUE: usize = 256;
/// How many pieces of work share a transaction.
const TOGETHER: usize = 64;

/// What a piece of work changes: the connection in its transaction, and what the writer remembers between transactions.
pub struct WriteTransaction {
    /// The connection, within a transaction.
    pub connection: SqliteConnection,
    /// The time of the transaction.
    pub now: Millis,
    /// Snapshots that are under way.
    pub snapshots: OpenSnapshots,
    /// What a cluster may have in the database.
    pub limits: ClusterLimits,
    /// What this transaction did, by cluster.
    pub touched: BTreeMap<i64, Touched>,
}

/// What a transaction did to a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// How many objects changed.
    pub changes: u32,
    /// Of which kinds.
    pub kinds: BTreeSet<String>,
    /// The cluster itself changed: its state, its name, an alert.
    pub itself: bool,
}

impl WriteTransaction {
    /// Notes that an object of the cluster changed.
    pub fn changed(&mut self, cluster: i64, kind: &str) {
        let touched = self.touched.entry(cluster).or_default();
        touched.changes = touched.changes.saturating_add(1);
        if !touched.kinds.contains(kind) {
            touched.kinds.insert(kind.to_owned());
        }
    }

    /// Notes that the cluster itself changed.
    pub fn cluster_changed(&mut self, cluster: i64) {
        self.touched.entry(cluster).or_default().itself = true;
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), StoreError> {
        sqlx::query(statement).execute(&mut self.connection).await?;
        Ok(())
    }
}

/// Tells the one who waits how the transaction ended.
type Answer = Box<dyn FnOnce(bool) + Send>;
type Job = Box<dyn for<'a> FnOnce(&'a mut WriteTransaction) -> BoxFuture<'a, Result<Answer, Failed>> + Send>;

/// The work failed; whoever waits for it was told why.
struct Failed;

/// How a piece of work ended.
enum Attempt {
    /// The work is part of the transaction.
    Done(Answer),
    /// It failed and left no trace in the transaction.
    Undone,
    /// The transaction cannot be committed.
    Spoiled,
}

/// Hears what a committed transaction did.
pub trait Observer: Send + Sync {
    /// The transaction is on disk.
    fn committed(&self, touched: &BTreeMap<i64, Touched>, at: Millis);
}

/// A handle by which requests queue work; a cheap clone.
#[derive(Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// Queues work and waits until it is committed.
    pub async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut WriteTransaction) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    {
        let (job, answered) = job(work);
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

/// Work for the queue, and where its result arrives after the commit.
fn job<T, F>(work: F) -> (Job, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: for<'a> FnOnce(&'a mut WriteTransaction) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let job: Job = Box::new(move |transaction| {
        Box::pin(async move {
            match work(transaction).await {
                Ok(result) => Ok(Box::new(move |committed| {
                    let outcome = if committed {
                        Ok(result)
                    } else {
                        Err(StoreError::NotCommitted)
                    };
                    // The request that waited may have ended.
                    let _ = answer.send(outcome);
                }) as Answer),
                Err(error) => {
                    let _ = answer.send(Err(error));
                    Err(Failed)
                }
            }
        })
    });
    (job, answered)
}

/// The task itself.
pub struct WriterTask {
    transaction: WriteTransaction,
    jobs: mpsc::Receiver<Job>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
}

impl std::fmt::Debug for WriterTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterTask").finish_non_exhaustive()
    }
}

/// A writer on a connection that [`open`](super::open) made.
pub fn writer(
    connection: SqliteConnection,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    limits: ClusterLimits,
) -> (Writer, WriterTask) {
    let (jobs, received) = mpsc::channel(QUEUE);
    let transaction = WriteTransaction {
        connection,
        now: 0,
        snapshots: OpenSnapshots::default(),
        limits,
        touched: BTreeMap::new(),
    };
    let task = WriterTask {
        transaction,
        jobs: received,
        clock,
        observer,
    };
    (Writer { jobs }, task)
}

impl WriterTask {
    /// Works until `stop`, and then does what has queued up until all who could queue more are gone.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                biased;
                job = self.jobs.recv() => job,
                () = stop.cancelled() => {
                    self.jobs.close();
                    self.jobs.recv().await
                }
            };
            let Some(first) = first else { break };
            let mut together = vec![first];
            while together.len() < TOGETHER
                && let Ok(job) = self.jobs.try_recv()
            {
                together.push(job);
            }
            self.transact(together).await;
        }
        // The last connection to close folds the log into the file.
        let closed = sqlx::Connection::close(self.transaction.connection).await;
        if let Err(error) = closed {
            tracing::warn!(%error, "the database was not closed in order");
        }
    }

    async fn transact(&mut self, jobs: Vec<Job>) {
        self.transaction.now = self.clock.now().as_millisecond();
        self.transaction.touched.clear();
        if let Err(error) = self.transaction.execute("BEGIN IMMEDIATE").await {
            tracing::error!(error = cause(&error), "cannot begin a transaction");
            // Dropped work tells its waiters that there is no answer.
            return;
        }
        let alone = jobs.len() == 1;
        let mut answers = Vec::with_capacity(jobs.len());
        let mut whole = true;
        for job in jobs {
            match self.attempt(job, alone).await {
                Attempt::Done(answer) => answers.push(answer),
                Attempt::Undone => {}
                Attempt::Spoiled => {
                    whole = false;
                    break;
                }
            }
        }
        let committed = if whole {
            self.commit().await
        } else {
            self.roll_back().await;
            false
        };
        if committed {
            self.observer
                .committed(&self.transaction.touched, self.transaction.now);
        }
        for answer in answers {
            answer(committed);
        }
    }

    /// Does one piece of work. Work that has the transaction for itself needs no savepoint.
    async fn attempt(&mut self, job: Job, alone: bool) -> Attempt {
        if alone {
            let outcome = job(&mut self.transaction).await;
            return outcome.map_or(Attempt::Spoiled, Attempt::Done);
        }
        let undone = match self.attempt_with_savepoint(job).await {
            Ok(attempt) => return attempt,
            Err(error) => error,
        };
        tracing::error!(error = cause(&undone), "cannot undo a piece of work");
        Attempt::Spoiled
    }

    async fn attempt_with_savepoint(&mut self, job: Job) -> Result<Attempt, StoreError> {
        self.transaction.execute("SAVEPOINT work").await?;
        let touched = self.transaction.touched.clone();
        let outcome = job(&mut self.transaction).await;
        if outcome.is_err() {
            self.transaction.execute("ROLLBACK TO work").await?;
            self.transaction.touched = touched;
        }
        self.transaction.execute("RELEASE work").await?;
        Ok(outcome.map_or(Attempt::Undone, Attempt::Done))
    }

    async fn commit(&mut self) -> bool {
        let written = match super::contact::note_activity(&mut self.transaction).await {
            Ok(()) => self.transaction.execute("COMMIT").await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(error = cause(&error), "cannot commit a transaction");
                self.roll_back().await;
                false
            }
        }
    }

    async fn roll_back(&mut self) {
        if let Err(error) = self.transaction.execute("ROLLBACK").await {
            tracing::error!(error = cause(&error), "cannot roll a transaction back");
        }
    }
}

/// What SQLite says.
pub(crate) fn cause(error: &StoreError) -> String {
    use std::error::Error;
    error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
