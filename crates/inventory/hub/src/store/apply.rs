//! Carries out what [`merge`](super::merge) decides: one query for a batch, and one statement for each 128 rows that change.

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::StoreError;
use super::merge::{Deletion, Known, ObjectName, Op, Presence, Writes, merge};
use super::writer::WriteTransaction;
use crate::record::Record;
use crate::time::Millis;

/// Rows that one statement writes. SQLite permits 32,766 values in a statement, and a row has 17.
const ROWS: usize = 128;

/// What a cluster may have in the database, objects that are gone included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterLimits {
    /// Its objects.
    pub rows: i64,
    /// The bytes of their projections.
    pub bytes: i64,
}

/// How many objects a cluster may have in the database: twice as many as a snapshot may have, because objects that are gone count too.
const MAX_CLUSTER_ROWS: i64 = 4_000_000;
/// How many bytes the projections of a cluster may have in the database.
const MAX_CLUSTER_BYTES: i64 = 16 * 1024 * 1024 * 1024;
/// How many gone objects at least are forgotten together when a cluster is at its limits.
const FORGOTTEN_FOR_ROOM: i64 = 1_000;

impl Default for ClusterLimits {
    fn default() -> Self {
        Self {
            rows: MAX_CLUSTER_ROWS,
            bytes: MAX_CLUSTER_BYTES,
        }
    }
}

/// What a batch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Objects that changed.
    pub changed: usize,
    /// Records that were ignored: see [`merge`](super::merge).
    pub ignored: usize,
}

/// Applies records to a cluster, in their order.
///
/// **Errors.** [`StoreError::ClusterFull`] if the records add to a cluster that is at its limits. Changes that add nothing are always
/// applied.
pub async fn apply(
    transaction: &mut WriteTransaction,
    cluster: i64,
    ops: Vec<Op>,
) -> Result<Applied, StoreError> {
    transaction.snapshots.mention(cluster, ops.iter().map(Op::uid));
    let known = known(transaction, cluster, &ops).await?;
    let writes = merge(known, ops);
    for kind in &writes.changed {
        transaction.changed(cluster, kind);
    }
    let applied = Applied {
        changed: writes.changed.len(),
        ignored: writes.ignored,
    };
    let before = stored(transaction, cluster).await?;
    write(transaction, cluster, writes).await?;
    make_room(transaction, cluster, before).await?;
    Ok(applied)
}

/// What a cluster has in the database.
async fn stored(transaction: &mut WriteTransaction, cluster: i64) -> Result<ClusterLimits, StoreError> {
    let row = sqlx::query("SELECT stored_rows, stored_bytes FROM clusters WHERE id = ?1")
        .bind(cluster)
        .fetch_one(&mut transaction.connection)
        .await?;
    Ok(ClusterLimits {
        rows: row.try_get(0)?,
        bytes: row.try_get(1)?,
    })
}

/// Forgets the objects of a cluster that are gone for longest, if the cluster has grown beyond its limits. A tombstone that is forgotten
/// early no longer keeps late news of its object away; an object that is refused is missing.
async fn make_room(
    transaction: &mut WriteTransaction,
    cluster: i64,
    before: ClusterLimits,
) -> Result<(), StoreError> {
    let limits = transaction.limits;
    loop {
        let now = stored(transaction, cluster).await?;
        let too_many = now.rows > limits.rows && now.rows > before.rows;
        let too_large = now.bytes > limits.bytes && now.bytes > before.bytes;
        if !too_many && !too_large {
            return Ok(());
        }
        let surplus = (now.rows - limits.rows)
            .max(FORGOTTEN_FOR_ROOM.min(limits.rows / 10))
            .max(1);
        let forgotten = sqlx::query(
            "DELETE FROM objects WHERE id IN (SELECT id FROM objects INDEXED BY objects_gone_of_cluster \
             WHERE cluster = ?1 AND deleted_at IS NOT NULL AND soft <> 2 ORDER BY deleted_at LIMIT ?2)",
        )
        .bind(cluster)
        .bind(surplus)
        .execute(&mut transaction.connection)
        .await?;
        if forgotten.rows_affected() == 0 {
            return Err(StoreError::ClusterFull(limits));
        }
    }
}

/// What the database has of the uids and of the names that records name, and the objects that are displaced under the names of these.
async fn known(
    transaction: &mut WriteTransaction,
    cluster: i64,
    ops: &[Op],
) -> Result<Vec<Known>, StoreError> {
    let uids = json(&ops.iter().map(Op::uid).collect::<Vec<_>>());
    let names: Vec<[&str; 3]> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Upsert(record) => Some([
                record.kind.as_str(),
                record.namespace.as_str(),
                record.name.as_str(),
            ]),
            Op::Delete(_) => None,
        })
        .collect();
    let rows = sqlx::query(
        "SELECT o.uid, o.kind, o.namespace, o.name, o.digest, o.created, o.deleted_at, o.soft \
         FROM json_each(?2) u CROSS JOIN objects o ON o.cluster = ?1 AND o.uid = u.value \
         UNION \
         SELECT o.uid, o.kind, o.namespace, o.name, o.digest, o.created, o.deleted_at, o.soft \
         FROM json_each(?3) p CROSS JOIN objects o ON o.cluster = ?1 AND o.kind = p.value ->> 0 \
         AND o.namespace = p.value ->> 1 AND o.name = p.value ->> 2 AND o.deleted_at IS NULL \
         UNION \
         SELECT d.uid, d.kind, d.namespace, d.name, d.digest, d.created, d.deleted_at, d.soft \
         FROM json_each(?2) u CROSS JOIN objects o ON o.cluster = ?1 AND o.uid = u.value \
         CROSS JOIN objects d ON d.cluster = ?1 AND d.kind = o.kind AND d.namespace = o.namespace AND d.name = o.name \
         AND d.soft = 2 \
         UNION \
         SELECT d.uid, d.kind, d.namespace, d.name, d.digest, d.created, d.deleted_at, d.soft \
         FROM json_each(?3) p CROSS JOIN objects d ON d.cluster = ?1 AND d.kind = p.value ->> 0 \
         AND d.namespace = p.value ->> 1 AND d.name = p.value ->> 2 AND d.soft = 2",
    )
    .bind(cluster)
    .bind(uids)
    .bind(json(&names))
    .fetch_all(&mut transaction.connection)
    .await?;
    rows.iter().map(known_row).collect()
}

fn known_row(row: &SqliteRow) -> Result<Known, StoreError> {
    let deleted: Option<Millis> = row.try_get(6)?;
    let soft: i64 = row.try_get(7)?;
    let presence = match (deleted, soft) {
        (None, _) => Presence::Live,
        (Some(_), 0) => Presence::Tombstone,
        (Some(_), DISPLACED) => Presence::Displaced,
        (Some(_), _) => Presence::Swept,
    };
    Ok(Known {
        uid: row.try_get(0)?,
        object_name: ObjectName {
            kind: row.try_get(1)?,
            namespace: row.try_get(2)?,
            name: row.try_get(3)?,
        },
        digest: row.try_get(4)?,
        created: row.try_get(5)?,
        presence,
    })
}

async fn write(transaction: &mut WriteTransaction, cluster: i64, writes: Writes) -> Result<(), StoreError> {
    for presence in [Presence::Swept, Presence::Displaced, Presence::Tombstone] {
        let uids: Vec<&str> = writes
            .close
            .iter()
            .filter(|(_, closed)| *closed == presence)
            .map(|(uid, _)| uid.as_str())
            .collect();
        if !uids.is_empty() {
            close(transaction, cluster, &json(&uids), presence).await?;
        }
    }
    let mut rows: Vec<NewRow> = Vec::with_capacity(writes.put.len() + writes.tombstones.len());
    rows.extend(writes.tombstones.into_iter().map(NewRow::tombstone));
    rows.extend(
        writes
            .put
            .into_iter()
            .map(|(record, presence)| NewRow { record, presence }),
    );
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        put(transaction, cluster, rows.by_ref().take(ROWS).collect()).await?;
    }
    if !writes.revive.is_empty() {
        revive(transaction, cluster, &json(&writes.revive)).await?;
    }
    Ok(())
}

/// The column `soft` of a displaced row.
const DISPLACED: i64 = 2;

/// The column `soft` of a row.
fn soft(presence: Presence) -> i64 {
    match presence {
        Presence::Live | Presence::Tombstone => 0,
        Presence::Swept => 1,
        Presence::Displaced => DISPLACED,
    }
}

/// Makes displaced rows live again. Their names are free.
pub(super) async fn revive(
    transaction: &mut WriteTransaction,
    cluster: i64,
    uids: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE objects SET deleted_at = NULL, soft = 0, changed = ?3 \
         WHERE cluster = ?1 AND uid IN (SELECT value FROM json_each(?2)) AND soft = 2",
    )
    .bind(cluster)
    .bind(uids)
    .bind(transaction.now)
    .execute(&mut transaction.connection)
    .await?;
    Ok(())
}

/// Marks live rows as gone. A swept or displaced row may become a tombstone; a tombstone stays one.
pub(super) async fn close(
    transaction: &mut WriteTransaction,
    cluster: i64,
    uids: &str,
    presence: Presence,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE objects SET deleted_at = ?3, soft = ?4 \
         WHERE cluster = ?1 AND uid IN (SELECT value FROM json_each(?2)) AND (deleted_at IS NULL OR soft > 0)",
    )
    .bind(cluster)
    .bind(uids)
    .bind(transaction.now)
    .bind(soft(presence))
    .execute(&mut transaction.connection)
    .await?;
    Ok(())
}

struct NewRow {
    record: Record,
    presence: Presence,
}

impl NewRow {
    /// A tombstone of an object that was never seen has no content.
    fn tombstone(deletion: Deletion) -> Self {
        let record = Record {
            kind: deletion.kind,
            uid: deletion.uid,
            namespace: deletion.namespace,
            name: deletion.name,
            object: "{}".to_owned(),
            digest: 0,
            status: crate::status::Status::unknown(),
            link: None,
            occurred: None,
            created: None,
        };
        Self {
            record,
            presence: Presence::Tombstone,
        }
    }
}

async fn put(transaction: &mut WriteTransaction, cluster: i64, rows: Vec<NewRow>) -> Result<(), StoreError> {
    // Statements of a usual length are kept by the connection; others would only fill its cache.
    let usual = rows.len() == 1 || rows.len() == ROWS;
    let now = transaction.now;
    let mut query: QueryBuilder<Sqlite> = QueryBuilder::new(
        "INSERT INTO objects (cluster, uid, kind, namespace, name, folded, object, digest, class, word, link, occurred, created, \
         first_seen, changed, deleted_at, soft) ",
    );
    query.push_values(rows, |mut values, NewRow { record, presence }| {
        let deleted = (presence != Presence::Live).then_some(now);
        values
            .push_bind(cluster)
            .push_bind(record.uid)
            .push_bind(record.kind)
            .push_bind(record.namespace)
            .push_bind(record.name.clone())
            .push_bind(fold(&record.name))
            .push_bind(record.object)
            .push_bind(record.digest)
            .push_bind(record.status.class.name())
            .push_bind(record.status.word)
            .push_bind(record.link)
            .push_bind(record.occurred)
            .push_bind(record.created)
            .push_bind(now)
            .push_bind(now)
            .push_bind(deleted)
            .push_bind(soft(presence));
    });
    query.push(
        " ON CONFLICT (cluster, uid) DO UPDATE SET kind = excluded.kind, namespace = excluded.namespace, name = excluded.name, \
         folded = excluded.folded, object = excluded.object, digest = excluded.digest, class = excluded.class, \
         word = excluded.word, link = excluded.link, occurred = excluded.occurred, created = excluded.created, \
         changed = excluded.changed, deleted_at = excluded.deleted_at, soft = excluded.soft",
    );
    query
        .build()
        .persistent(usual)
        .execute(&mut transaction.connection)
        .await?;
    Ok(())
}

/// The form in which names are compared and searched.
pub fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// A list for `json_each`.
pub(super) fn json<T: serde::Serialize>(values: &[T]) -> String {
    // Lists of texts always serialise.
    serde_json::to_string(values).unwrap_or_default()
}
