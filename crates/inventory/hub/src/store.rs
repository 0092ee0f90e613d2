//! The database: SQLite with one writer and two pools of readers.
//!
//! - [`writer`]: one task that has the only connection that writes. It takes queued work, does it in one transaction, and answers after the
//!   commit.
//! - [`identity`]: clients, their keys and tokens, sign-in tokens and sessions.
//! - [`contact`]: what a request of an agent says of its cluster; the pinned uid; alerts.
//! - [`merge`]: how a record changes what is known, as a pure function; [`apply`] carries it out.
//! - [`sweep`]: snapshots under way, and the removal of what they did not name.
//! - [`clusters`], [`objects`]: what the API reads.
//!
//! **Guarantees.** What was answered is on disk (`synchronous=FULL`). Commands of the same user may work on the same file while the hub
//! runs: SQLite is the shared medium.

pub mod apply;
pub mod clusters;
pub mod contact;
pub mod identity;
pub mod merge;
pub mod objects;
pub mod sweep;
pub mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection, SqlitePool};

/// How long a connection waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that read what the API shows.
const READERS: u32 = 4;
/// Connections that read who an agent or a person is.
const IDENTITY_READERS: u32 = 2;
/// How long a request waits for a connection that reads.
const READER_WAIT: Duration = Duration::from_secs(10);
/// The name of the file in the data directory.
const FILE: &str = "hub.db";

/// What the database cannot do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened.
    #[error("cannot open the database {}", .file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: sqlx::Error,
    },
    /// The tables cannot be brought to this version.
    #[error("cannot migrate the database {}", .file.display())]
    Migrate {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: sqlx::migrate::MigrateError,
    },
    /// A query failed.
    #[error("the database failed")]
    Query(#[from] sqlx::Error),
    /// The transaction of several pieces of work failed.
    #[error("the database did not commit")]
    NotCommitted,
    /// The writer has ended.
    #[error("the hub is shutting down")]
    Closed,
    /// The cluster has as much in the database as it may have.
    #[error("cluster: may have at most {} objects and {} bytes at the hub, objects that are gone included", .0.rows, .0.bytes)]
    ClusterFull(apply::ClusterLimits),
    /// A stored value is not what the hub writes.
    #[error("the database holds an unreadable {0}")]
    Unreadable(&'static str),
}

/// The file of the database in a data directory.
pub fn file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Opens the connection that writes, and brings the tables to this version.
pub async fn open(folder: &Path) -> Result<SqliteConnection, StoreError> {
    let file = file(folder);
    let options = options(&file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let opened = options.connect().await;
    let mut connection = opened.map_err(|source| StoreError::Open {
        file: file.clone(),
        source,
    })?;
    let migrated = sqlx::migrate!("./migrations").run(&mut connection).await;
    migrated.map_err(|source| StoreError::Migrate { file, source })?;
    Ok(connection)
}

/// Opens the connections that read. The file must be there: see [`open`].
pub async fn readers(folder: &Path) -> Result<SqlitePool, StoreError> {
    pool(folder, READERS).await
}

/// Connections for queries that say who an agent or a person is.
///
/// **Guarantees.** Only these queries can use them, so that an agent gets its answer while long searches have all other connections.
#[derive(Debug, Clone)]
pub struct IdentityReaders(SqlitePool);

impl IdentityReaders {
    /// Opens the connections. The file must be there: see [`open`].
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self(pool(folder, IDENTITY_READERS).await?))
    }

    fn pool(&self) -> &SqlitePool {
        &self.0
    }
}

async fn pool(folder: &Path, connections: u32) -> Result<SqlitePool, StoreError> {
    let file = file(folder);
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(READER_WAIT);
    let opened = pool.connect_with(options(&file).read_only(true)).await;
    opened.map_err(|source| StoreError::Open { file, source })
}

fn options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        // Statements that write many rows are long, and one line for each would hide the log.
        .disable_statement_logging()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_database_keeps_what_it_was_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = open(folder.path()).await.unwrap();
        let pragma = async |connection: &mut SqliteConnection, query: &'static str| -> String {
            let value: String = sqlx::query_scalar(query).fetch_one(connection).await.unwrap();
            value
        };
        assert_eq!(
            pragma(&mut connection, "SELECT journal_mode FROM pragma_journal_mode").await,
            "wal"
        );
        let synchronous = "SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous";
        assert_eq!(pragma(&mut connection, synchronous).await, "2", "FULL");
        let foreign_keys = "SELECT CAST(foreign_keys AS TEXT) FROM pragma_foreign_keys";
        assert_eq!(pragma(&mut connection, foreign_keys).await, "1");
        let loose = "SELECT CAST(count(*) AS TEXT) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
                     AND strict = 0 AND name NOT GLOB 'sqlite*' AND name NOT GLOB '_sqlx*'";
        assert_eq!(pragma(&mut connection, loose).await, "0", "all tables are STRICT");
    }

    #[tokio::test]
    async fn identities_are_read_while_searches_hold_all_other_connections() {
        let folder = tempfile::tempdir().unwrap();
        let _writer = open(folder.path()).await.unwrap();
        let readers = readers(folder.path()).await.unwrap();
        let identities = IdentityReaders::open(folder.path()).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..READERS {
            held.push(readers.acquire().await.unwrap());
        }
        assert!(readers.try_acquire().is_none());
        let session = crate::secret::Hash::of(b"x");
        assert!(!identity::has_session(&identities, session, 0).await.unwrap());
        assert!(identity::keys(&identities, "c").await.unwrap().is_empty());
        assert_eq!(identity::agent(&identities, session, 0).await.unwrap(), None);
    }

    #[tokio::test]
    async fn readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let _writer = open(folder.path()).await.unwrap();
        let readers = readers(folder.path()).await.unwrap();
        assert!(
            sqlx::query("DELETE FROM clients")
                .execute(&readers)
                .await
                .is_err()
        );
    }
}
