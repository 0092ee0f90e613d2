//! What a request of an agent says of its cluster: that it lives, and which one it is.

use sqlx::Row;

use super::StoreError;
use super::writer::WriteTransaction;
use crate::state::{ClusterState, Contact, HEARTBEATS_KEPT, heartbeat_interval, judge};
use crate::time::{MINUTE, Millis};

/// How many alerts of a cluster are kept.
const ALERTS_KEPT: i64 = 20;
/// How many minutes of activity are kept.
pub const ACTIVITY_MINUTES: usize = 30;

/// Whether a request is about the cluster that its client is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// The request is about that cluster, or the first of its client.
    Same,
    /// The client is bound to another cluster; an alert was written.
    Other,
}

/// What a request says of its cluster besides its uid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterReport {
    /// Whether the request is a heartbeat.
    pub heartbeat: bool,
    /// The name of the cluster.
    pub cluster_name: Option<String>,
    /// The version of its API server.
    pub kubernetes_version: Option<String>,
    /// Who runs it.
    pub platform: Option<String>,
    /// Where it runs.
    pub region: Option<String>,
    /// The version of the agent.
    pub agent_version: Option<String>,
}

/// Notes a request of an agent: pins the uid at the first contact, and remembers when the cluster was heard of.
pub async fn record_contact(
    transaction: &mut WriteTransaction,
    cluster: i64,
    uid: &str,
    report: &ClusterReport,
) -> Result<Pin, StoreError> {
    let row = sqlx::query(
        "SELECT uid, created, last_contact, connected_since, heartbeats FROM clusters WHERE id = ?1",
    )
    .bind(cluster)
    .fetch_one(&mut transaction.connection)
    .await?;
    let pinned: Option<String> = row.try_get(0)?;
    if pinned.as_deref().is_some_and(|pinned| pinned != uid) {
        let text = format!(
            "refused: the agent reported another cluster ({uid}) than the one that its client is bound to"
        );
        alert(transaction, cluster, &text).await?;
        return Ok(Pin::Other);
    }
    if pinned.is_none() {
        warn_of_twins(transaction, cluster, uid).await?;
    }
    let mut heartbeats: Vec<Millis> = serde_json::from_str(row.try_get(4)?).unwrap_or_default();
    let contact = Contact {
        registered: row.try_get(1)?,
        last: row.try_get(2)?,
        connected_since: row.try_get(3)?,
        heartbeat: heartbeat_interval(&heartbeats),
    };
    let (before, since) = judge(contact, transaction.now);
    let since = if before == ClusterState::Connected {
        since
    } else {
        transaction.now
    };
    if before != ClusterState::Connected {
        transaction.cluster_changed(cluster);
    }
    if report.heartbeat {
        heartbeats.push(transaction.now);
        let surplus = heartbeats.len().saturating_sub(HEARTBEATS_KEPT);
        heartbeats.drain(..surplus);
    }
    write(transaction, cluster, uid, since, &heartbeats, report).await?;
    Ok(Pin::Same)
}

async fn write(
    transaction: &mut WriteTransaction,
    cluster: i64,
    uid: &str,
    since: Millis,
    heartbeats: &[Millis],
    report: &ClusterReport,
) -> Result<(), StoreError> {
    let heartbeats = serde_json::to_string(heartbeats).unwrap_or_default();
    sqlx::query(
        "UPDATE clusters SET uid = ?2, last_contact = ?3, connected_since = ?4, heartbeats = ?5, \
         name = coalesce(?6, name), kubernetes_version = coalesce(?7, kubernetes_version), \
         platform = coalesce(?8, platform), region = coalesce(?9, region), \
         agent_version = coalesce(?10, agent_version) WHERE id = ?1",
    )
    .bind(cluster)
    .bind(uid)
    .bind(transaction.now)
    .bind(since)
    .bind(heartbeats)
    .bind(&report.cluster_name)
    .bind(&report.kubernetes_version)
    .bind(&report.platform)
    .bind(&report.region)
    .bind(&report.agent_version)
    .execute(&mut transaction.connection)
    .await?;
    Ok(())
}

/// Two clients for one cluster are two entries with the same objects. That is permitted, and people should know.
async fn warn_of_twins(
    transaction: &mut WriteTransaction,
    cluster: i64,
    uid: &str,
) -> Result<(), StoreError> {
    let twin: Option<String> =
        sqlx::query_scalar("SELECT name FROM clusters WHERE uid = ?1 AND id <> ?2 LIMIT 1")
            .bind(uid)
            .bind(cluster)
            .fetch_optional(&mut transaction.connection)
            .await?;
    match twin {
        Some(twin) => {
            let text = format!("another client reports the same cluster under the name {twin}");
            alert(transaction, cluster, &text).await
        }
        None => Ok(()),
    }
}

/// Writes an alert, or renews the time of the same one.
pub async fn alert(transaction: &mut WriteTransaction, cluster: i64, text: &str) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO alerts (cluster, text, at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (cluster, text) DO UPDATE SET at = excluded.at",
    )
    .bind(cluster)
    .bind(text)
    .bind(transaction.now)
    .execute(&mut transaction.connection)
    .await?;
    sqlx::query(
        "DELETE FROM alerts WHERE cluster = ?1 AND text IN \
         (SELECT text FROM alerts WHERE cluster = ?1 ORDER BY at DESC LIMIT -1 OFFSET ?2)",
    )
    .bind(cluster)
    .bind(ALERTS_KEPT)
    .execute(&mut transaction.connection)
    .await?;
    transaction.cluster_changed(cluster);
    Ok(())
}

/// Adds the changes of a transaction to those of this minute.
pub async fn note_activity(transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    let minute = transaction.now / MINUTE;
    let changes: Vec<_> = transaction
        .touched
        .iter()
        .filter(|(_, touched)| touched.changes > 0)
        .map(|(cluster, touched)| (*cluster, i64::from(touched.changes)))
        .collect();
    for (cluster, changes) in changes {
        sqlx::query(
            "INSERT INTO activity (cluster, minute, changes) VALUES (?1, ?2, ?3) \
             ON CONFLICT (cluster, minute) DO UPDATE SET changes = changes + excluded.changes",
        )
        .bind(cluster)
        .bind(minute)
        .bind(changes)
        .execute(&mut transaction.connection)
        .await?;
    }
    Ok(())
}

/// Removes activity that is older than what the console shows.
pub async fn forget_activity(transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    let kept = i64::try_from(ACTIVITY_MINUTES).unwrap_or(i64::MAX);
    sqlx::query("DELETE FROM activity WHERE minute < ?1")
        .bind(transaction.now / MINUTE - kept)
        .execute(&mut transaction.connection)
        .await?;
    Ok(())
}
