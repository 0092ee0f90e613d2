use std::sync::Mutex;

use jiff::Timestamp;
use trustplane_process::clock::ManualClock;

use super::*;
use crate::store::identity::{CONSOLE_URL, get, set};
use crate::store::open;

/// Remembers what each commit did.
#[derive(Default)]
struct Commits(Mutex<Vec<BTreeMap<i64, Touched>>>);

impl Observer for Commits {
    fn committed(&self, touched: &BTreeMap<i64, Touched>, _at: Millis) {
        self.0.lock().unwrap().push(touched.clone());
    }
}

struct Fixture {
    task: WriterTask,
    commits: Arc<Commits>,
    folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let connection = open(folder.path()).await.unwrap();
        let commits = Arc::new(Commits::default());
        let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
        let (_, task) = writer(connection, clock, commits.clone(), ClusterLimits::default());
        Self {
            task,
            commits,
            folder,
        }
    }

    /// What another connection reads, which sees only what was committed.
    async fn setting(&self, name: &str) -> Option<String> {
        let mut connection = open(self.folder.path()).await.unwrap();
        get(&mut connection, name).await.unwrap()
    }
}

/// Writes a setting for a cluster.
fn writes(name: &'static str, cluster: i64) -> (Job, oneshot::Receiver<Result<(), StoreError>>) {
    job(move |transaction: &mut WriteTransaction| {
        Box::pin(async move {
            transaction.changed(cluster, "Pod");
            set(&mut transaction.connection, name, "x").await
        })
    })
}

/// Writes a setting and then fails.
fn fails(name: &'static str, cluster: i64) -> (Job, oneshot::Receiver<Result<(), StoreError>>) {
    job(move |transaction: &mut WriteTransaction| {
        Box::pin(async move {
            transaction.changed(cluster, "Node");
            set(&mut transaction.connection, name, "x").await?;
            Err(StoreError::Unreadable("test"))
        })
    })
}

/// Writes a row whose cluster does not exist, which SQLite refuses when the transaction commits.
fn breaks_the_commit() -> (Job, oneshot::Receiver<Result<(), StoreError>>) {
    job(|transaction: &mut WriteTransaction| {
        Box::pin(async move {
            transaction.execute("PRAGMA defer_foreign_keys = ON").await?;
            transaction
                .execute("INSERT INTO alerts (cluster, text, at) VALUES (77, 'x', 0)")
                .await
        })
    })
}

#[tokio::test]
async fn writer_commits_other_work_when_one_piece_fails() {
    let mut fixture = Fixture::new().await;
    // Activity is written for clusters that exist.
    let (first, first_answer) = job(|transaction: &mut WriteTransaction| {
        Box::pin(async move {
            transaction
                .execute("INSERT INTO clients (id, name, created) VALUES ('c', 'c', 0)")
                .await?;
            transaction
                .execute("INSERT INTO clusters (id, client, name, created) VALUES (1, 'c', 'c', 0)")
                .await?;
            transaction.changed(1, "Pod");
            Ok(())
        })
    });
    let (second, second_answer) = fails("failed", 2);
    let (third, third_answer) = writes(CONSOLE_URL, 1);
    fixture.task.transact(vec![first, second, third]).await;
    first_answer.await.unwrap().unwrap();
    assert!(matches!(
        second_answer.await.unwrap(),
        Err(StoreError::Unreadable("test"))
    ));
    third_answer.await.unwrap().unwrap();
    assert_eq!(fixture.setting(CONSOLE_URL).await.as_deref(), Some("x"));
    assert_eq!(fixture.setting("failed").await, None);
    let commits = fixture.commits.0.lock().unwrap();
    let touched = Touched {
        changes: 2,
        kinds: BTreeSet::from(["Pod".to_owned()]),
        itself: false,
    };
    assert_eq!(
        *commits,
        [BTreeMap::from([(1, touched)])],
        "pages hear nothing of the failed work"
    );
}

#[tokio::test]
async fn writer_acknowledges_nothing_when_the_commit_fails() {
    for others in [0, 2] {
        let mut fixture = Fixture::new().await;
        let (broken, broken_answer) = breaks_the_commit();
        let (mut jobs, mut answers) = (vec![broken], vec![broken_answer]);
        for _ in 0..others {
            let (job, answer) = job(|transaction: &mut WriteTransaction| {
                Box::pin(async move { set(&mut transaction.connection, CONSOLE_URL, "x").await })
            });
            jobs.push(job);
            answers.push(answer);
        }
        fixture.task.transact(jobs).await;
        for answer in answers {
            assert!(matches!(answer.await.unwrap(), Err(StoreError::NotCommitted)));
        }
        assert_eq!(fixture.setting(CONSOLE_URL).await, None);
        assert!(fixture.commits.0.lock().unwrap().is_empty());
        let (next, answer) = job(|transaction: &mut WriteTransaction| {
            Box::pin(async move { set(&mut transaction.connection, CONSOLE_URL, "y").await })
        });
        fixture.task.transact(vec![next]).await;
        answer.await.unwrap().unwrap();
        assert_eq!(
            fixture.setting(CONSOLE_URL).await.as_deref(),
            Some("y"),
            "the next transaction is not affected"
        );
    }
}
