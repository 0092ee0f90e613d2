//! Snapshots under way: which objects they named, and what is removed at their end.
//!
//! A snapshot is applied batch by batch while it arrives, since each of its objects is true by itself. What it did not name is swept only
//! after its whole body was read, and later news bring it back: the original's snapshots can lack objects. Objects that events name in the
//! meantime are not swept either. A displaced object that the snapshot named becomes live if the object that had its name was swept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};

use futures::TryStreamExt;
use sqlx::Row;

use super::StoreError;
use super::apply::{close, json, revive};
use super::merge::Presence;
use super::writer::WriteTransaction;
use crate::secret::Hash;
use crate::time::{DAY, Millis};

/// How many removals one statement writes.
const ROWS: usize = 1_000;

/// A snapshot under way. It ends when its last ticket is dropped, however that happens, and when a newer one of the same cluster begins.
#[derive(Debug, Clone)]
pub struct Ticket {
    cluster: i64,
    number: u64,
    _alive: Arc<()>,
}

/// The uid of an object, in 16 bytes: SHA-256 cut short, because an agent chooses the texts.
type Mark = [u8; 16];

#[derive(Debug)]
struct OpenSnapshot {
    number: u64,
    alive: Weak<()>,
    named: HashSet<Mark>,
}

/// The snapshots that are under way, by cluster.
#[derive(Debug, Default)]
pub struct OpenSnapshots {
    last: u64,
    open: HashMap<i64, OpenSnapshot>,
}

impl OpenSnapshots {
    /// Begins a snapshot. Another one of the same cluster ends: its agent has given it up.
    pub fn begin(&mut self, cluster: i64) -> Ticket {
        self.last += 1;
        let (number, alive) = (self.last, Arc::new(()));
        let snapshot = OpenSnapshot {
            number,
            alive: Arc::downgrade(&alive),
            named: HashSet::new(),
        };
        self.open.insert(cluster, snapshot);
        Ticket {
            cluster,
            number,
            _alive: alive,
        }
    }

    /// Whether the snapshot is still the newest of its cluster.
    pub fn is_open(&self, ticket: &Ticket) -> bool {
        self.open
            .get(&ticket.cluster)
            .is_some_and(|open| open.number == ticket.number)
    }

    /// Notes that these objects are there.
    pub fn mention<'a>(&mut self, cluster: i64, uids: impl Iterator<Item = &'a str>) {
        let Some(open) = self.open.get_mut(&cluster) else {
            return;
        };
        if open.alive.strong_count() == 0 {
            self.open.remove(&cluster);
            return;
        }
        open.named.extend(uids.map(mark));
    }

    /// Forgets snapshots that were cut off, with the uids that they named.
    pub fn forget_cut_off(&mut self) {
        self.open.retain(|_, open| open.alive.strong_count() > 0);
    }

    fn end(&mut self, ticket: &Ticket) {
        if self.is_open(ticket) {
            self.open.remove(&ticket.cluster);
        }
    }
}

fn mark(uid: &str) -> Mark {
    let mut mark = Mark::default();
    for (to, from) in mark.iter_mut().zip(Hash::of(uid.as_bytes()).as_bytes()) {
        *to = from;
    }
    mark
}

/// Ends a complete snapshot: sweeps the objects of these kinds that it did not name. Gives how many objects changed; `None` if a newer
/// snapshot has begun.
pub async fn sweep(
    transaction: &mut WriteTransaction,
    ticket: &Ticket,
    kinds: &BTreeSet<String>,
) -> Result<Option<usize>, StoreError> {
    if !transaction.snapshots.is_open(ticket) {
        return Ok(None);
    }
    let cluster = ticket.cluster;
    let kinds: Vec<&String> = kinds.iter().collect();
    let kinds = json(&kinds);
    let unnamed = unnamed(transaction, cluster, &kinds).await?;
    for some in unnamed.chunks(ROWS) {
        let uids: Vec<&str> = some.iter().map(|(uid, _)| uid.as_str()).collect();
        close(transaction, cluster, &json(&uids), Presence::Swept).await?;
    }
    let revived = settle_displaced(transaction, cluster, &kinds).await?;
    for kind in unnamed.iter().map(|(_, kind)| kind).chain(&revived) {
        transaction.changed(cluster, kind);
    }
    transaction.snapshots.end(ticket);
    sqlx::query("UPDATE clusters SET last_snapshot = ?2 WHERE id = ?1")
        .bind(cluster)
        .bind(transaction.now)
        .execute(&mut transaction.connection)
        .await?;
    transaction.cluster_changed(cluster);
    Ok(Some(unnamed.len() + revived.len()))
}

/// Decides about the displaced objects of the kinds: one that the snapshot did not name is swept, and of those that it named the newest of
/// each name that is free becomes live. Gives the kinds of these.
async fn settle_displaced(
    transaction: &mut WriteTransaction,
    cluster: i64,
    kinds: &str,
) -> Result<Vec<String>, StoreError> {
    let Some(open) = transaction.snapshots.open.get(&cluster) else {
        return Ok(Vec::new());
    };
    let rows = sqlx::query(
        "SELECT d.uid, d.kind, d.namespace, d.name, EXISTS (SELECT 1 FROM objects o WHERE o.cluster = d.cluster \
         AND o.kind = d.kind AND o.namespace = d.namespace AND o.name = d.name AND o.deleted_at IS NULL) \
         FROM objects d INDEXED BY objects_displaced WHERE d.cluster = ?1 AND d.soft = 2 \
         AND d.kind IN (SELECT value FROM json_each(?2)) \
         ORDER BY d.created DESC NULLS LAST, d.uid DESC",
    )
    .bind(cluster)
    .bind(kinds.to_owned())
    .fetch_all(&mut transaction.connection)
    .await?;
    let (mut swept, mut revived, mut taken) = (Vec::new(), Vec::new(), HashSet::new());
    let mut kinds = Vec::new();
    for row in &rows {
        let uid: String = row.try_get(0)?;
        let object_name: [String; 3] = [row.try_get(1)?, row.try_get(2)?, row.try_get(3)?];
        let is_held: i64 = row.try_get(4)?;
        if !open.named.contains(&mark(&uid)) {
            swept.push(uid);
        } else if is_held == 0 && taken.insert(object_name.clone()) {
            let [kind, ..] = object_name;
            kinds.push(kind);
            revived.push(uid);
        }
    }
    close(transaction, cluster, &json(&swept), Presence::Swept).await?;
    revive(transaction, cluster, &json(&revived)).await?;
    Ok(kinds)
}

/// Live objects of the kinds that the open snapshot of the cluster has not named, each with its kind.
async fn unnamed(
    transaction: &mut WriteTransaction,
    cluster: i64,
    kinds: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    let Some(open) = transaction.snapshots.open.get(&cluster) else {
        return Ok(Vec::new());
    };
    let mut rows = sqlx::query(
        "SELECT uid, kind FROM objects WHERE cluster = ?1 AND deleted_at IS NULL \
         AND kind IN (SELECT value FROM json_each(?2))",
    )
    .bind(cluster)
    .bind(kinds.to_owned())
    .fetch(&mut transaction.connection);
    let mut gone = Vec::new();
    while let Some(row) = rows.try_next().await? {
        let uid: String = row.try_get(0)?;
        if !open.named.contains(&mark(&uid)) {
            gone.push((uid, row.try_get(1)?));
        }
    }
    Ok(gone)
}

/// How long tombstones, swept and displaced objects are kept.
pub const TOMBSTONE_LIFE: Millis = 30 * DAY;
/// How long those of Events are kept: there are many of them, and no agent speaks of one for a day after it is gone.
pub const EVENT_TOMBSTONE_LIFE: Millis = DAY;
/// How many of them are removed at a time, so that other work is not held up.
const FORGOTTEN_AT_ONCE: i64 = 2_000;

/// Removes objects that are gone for long enough; whether there may be more.
pub async fn forget_gone(transaction: &mut WriteTransaction) -> Result<bool, StoreError> {
    let mut more = false;
    for (statement, life) in [
        (
            "DELETE FROM objects WHERE id IN (SELECT id FROM objects INDEXED BY objects_gone \
             WHERE deleted_at < ?1 LIMIT ?2)",
            TOMBSTONE_LIFE,
        ),
        (
            "DELETE FROM objects WHERE id IN (SELECT id FROM objects INDEXED BY events_gone \
             WHERE kind = 'Event' AND deleted_at < ?1 LIMIT ?2)",
            EVENT_TOMBSTONE_LIFE,
        ),
    ] {
        let removed = sqlx::query(statement)
            .bind(transaction.now - life)
            .bind(FORGOTTEN_AT_ONCE)
            .execute(&mut transaction.connection)
            .await?;
        more |= i64::try_from(removed.rows_affected()).is_ok_and(|removed| removed >= FORGOTTEN_AT_ONCE);
    }
    Ok(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_snapshot_ends_the_older_one() {
        let mut snapshots = OpenSnapshots::default();
        let first = snapshots.begin(1);
        let second = snapshots.begin(1);
        assert!(!snapshots.is_open(&first));
        assert!(snapshots.is_open(&second));
        snapshots.end(&first);
        assert!(snapshots.is_open(&second), "an old ticket ends nothing");
        snapshots.end(&second);
        assert!(!snapshots.is_open(&second));
    }

    #[test]
    fn snapshots_of_other_clusters_are_apart() {
        let mut snapshots = OpenSnapshots::default();
        let (one, other) = (snapshots.begin(1), snapshots.begin(2));
        assert!(snapshots.is_open(&one) && snapshots.is_open(&other));
        snapshots.mention(2, ["a"].into_iter());
        assert!(snapshots.open[&1].named.is_empty());
    }

    #[test]
    fn cut_off_snapshots_are_forgotten_when_the_hub_cleans() {
        let mut snapshots = OpenSnapshots::default();
        let kept = snapshots.begin(1);
        let cut_off = snapshots.begin(2);
        snapshots.mention(2, ["a"].into_iter());
        drop(cut_off);
        snapshots.forget_cut_off();
        assert!(snapshots.is_open(&kept));
        assert_eq!(snapshots.open.len(), 1);
    }

    #[test]
    fn a_snapshot_without_a_ticket_is_forgotten() {
        let mut snapshots = OpenSnapshots::default();
        drop(snapshots.begin(1));
        snapshots.mention(1, ["a"].into_iter());
        assert!(snapshots.open.is_empty());
    }
}
