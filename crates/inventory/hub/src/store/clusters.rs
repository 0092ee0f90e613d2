//! What the API reads of clusters.

use std::collections::BTreeMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqlitePool};

use super::StoreError;
use super::contact::ACTIVITY_MINUTES;
use crate::state::{ClusterState, Contact, heartbeat_interval, judge};
use crate::time::{MINUTE, Millis};

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRow {
    /// Its row.
    pub row: i64,
    /// Its id for people and the API: the client that it is bound to.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The uid of its namespace `kube-system`, once it is known.
    pub uid: Option<String>,
    /// The version of its API server.
    pub kubernetes_version: Option<String>,
    /// The version of its agent.
    pub agent_version: Option<String>,
    /// When a snapshot was last complete.
    pub last_snapshot: Option<Millis>,
    /// What its state is judged by.
    pub contact: Contact,
}

impl ClusterRow {
    fn read(row: &SqliteRow) -> Result<Self, StoreError> {
        let heartbeats: Vec<Millis> = serde_json::from_str(row.try_get(10)?).unwrap_or_default();
        Ok(Self {
            row: row.try_get(0)?,
            id: row.try_get(1)?,
            name: row.try_get(2)?,
            uid: row.try_get(3)?,
            kubernetes_version: row.try_get(4)?,
            agent_version: row.try_get(5)?,
            last_snapshot: row.try_get(7)?,
            contact: Contact {
                registered: row.try_get(6)?,
                last: row.try_get(8)?,
                connected_since: row.try_get(9)?,
                heartbeat: heartbeat_interval(&heartbeats),
            },
        })
    }

    /// Its state, and since when.
    pub fn state(&self, now: Millis) -> (ClusterState, Millis) {
        judge(self.contact, now)
    }
}

const COLUMNS: &str = "id, client, name, uid, kubernetes_version, agent_version, created, last_snapshot, last_contact, connected_since, heartbeats";

/// All clusters, by name.
pub async fn clusters(readers: &SqlitePool) -> Result<Vec<ClusterRow>, StoreError> {
    let query = sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM clusters ORDER BY name, id"));
    let rows = sqlx::query(query).fetch_all(readers).await?;
    rows.iter().map(ClusterRow::read).collect()
}

/// One cluster by the id of the API.
pub async fn cluster(readers: &SqlitePool, id: &str) -> Result<Option<ClusterRow>, StoreError> {
    let query = sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM clusters WHERE client = ?1"));
    let row = sqlx::query(query)
        .bind(id.to_owned())
        .fetch_optional(readers)
        .await?;
    row.as_ref().map(ClusterRow::read).transpose()
}

/// How many live objects there are of a kind, and in what state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The row of the cluster.
    pub cluster: i64,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for kinds without one.
    pub namespace: String,
    /// The class of their status.
    pub class: String,
    /// How many.
    pub n: i64,
}

impl Count {
    /// Whether someone should look at these objects.
    pub fn is_problem(&self) -> bool {
        matches!(self.class.as_str(), "warning" | "error")
    }
}

/// The counts of one cluster, or of all.
pub async fn counts(readers: &SqlitePool, cluster: Option<i64>) -> Result<Vec<Count>, StoreError> {
    let rows =
        sqlx::query("SELECT cluster, kind, namespace, class, n FROM counts WHERE ?1 IS NULL OR cluster = ?1")
            .bind(cluster)
            .fetch_all(readers)
            .await?;
    rows.iter()
        .map(|row| {
            Ok(Count {
                cluster: row.try_get(0)?,
                kind: row.try_get(1)?,
                namespace: row.try_get(2)?,
                class: row.try_get(3)?,
                n: row.try_get(4)?,
            })
        })
        .collect()
}

/// The counts of all namespaces of each cluster together.
pub async fn totals(readers: &SqlitePool, cluster: Option<i64>) -> Result<Vec<Count>, StoreError> {
    let rows = sqlx::query(
        "SELECT cluster, kind, class, sum(n) FROM counts WHERE ?1 IS NULL OR cluster = ?1 GROUP BY cluster, kind, class",
    )
    .bind(cluster)
    .fetch_all(readers)
    .await?;
    rows.iter()
        .map(|row| {
            Ok(Count {
                cluster: row.try_get(0)?,
                kind: row.try_get(1)?,
                namespace: String::new(),
                class: row.try_get(2)?,
                n: row.try_get(3)?,
            })
        })
        .collect()
}

/// The alerts of a cluster, newest first: when and what.
pub async fn alerts(readers: &SqlitePool, cluster: i64) -> Result<Vec<(Millis, String)>, StoreError> {
    let rows = sqlx::query("SELECT at, text FROM alerts WHERE cluster = ?1 ORDER BY at DESC, text")
        .bind(cluster)
        .fetch_all(readers)
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

/// The changes of each of the last minutes, oldest first, by cluster.
pub async fn activity(readers: &SqlitePool, now: Millis) -> Result<BTreeMap<i64, Vec<i64>>, StoreError> {
    let minutes = i64::try_from(ACTIVITY_MINUTES).unwrap_or(i64::MAX);
    let first = now / MINUTE - minutes + 1;
    let rows = sqlx::query("SELECT cluster, minute, changes FROM activity WHERE minute >= ?1")
        .bind(first)
        .fetch_all(readers)
        .await?;
    let mut activity: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in rows {
        let minutes = activity
            .entry(row.try_get(0)?)
            .or_insert_with(|| vec![0; ACTIVITY_MINUTES]);
        let minute: i64 = row.try_get(1)?;
        if let Some(changes) = usize::try_from(minute - first)
            .ok()
            .and_then(|at| minutes.get_mut(at))
        {
            *changes = row.try_get(2)?;
        }
    }
    Ok(activity)
}
