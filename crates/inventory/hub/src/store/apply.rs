//! Carries out what [`merge`](super::merge) decides: one query for a batch, and one statement for each 128 rows that change.

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::StoreError;
use super::merge::{Gone, Known, Op, Place, Presence, Writes, merge};
use super::writer::Ledger;
use crate::record::Record;
use crate::time::Millis;

/// Rows that one statement writes. SQLite permits 32,766 values in a statement, and a row has 17.
const ROWS: usize = 128;

/// What a batch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Objects that changed.
    pub changed: usize,
    /// Records that were ignored: see [`merge`](super::merge).
    pub ignored: usize,
}

/// Applies records to a cluster, in their order.
pub async fn apply(ledger: &mut Ledger, cluster: i64, ops: Vec<Op>) -> Result<Applied, StoreError> {
    ledger.snapshots.mention(cluster, ops.iter().map(Op::uid));
    let known = known(ledger, cluster, &ops).await?;
    let writes = merge(known, ops);
    for kind in &writes.changed {
        ledger.changed(cluster, kind);
    }
    let applied = Applied {
        changed: writes.changed.len(),
        ignored: writes.ignored,
    };
    write(ledger, cluster, writes).await?;
    Ok(applied)
}

/// What the database has of the uids and of the places that records name.
async fn known(ledger: &mut Ledger, cluster: i64, ops: &[Op]) -> Result<Vec<Known>, StoreError> {
    let uids = json(&ops.iter().map(Op::uid).collect::<Vec<_>>());
    let places: Vec<[&str; 3]> = ops
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
         AND o.namespace = p.value ->> 1 AND o.name = p.value ->> 2 AND o.deleted_at IS NULL",
    )
    .bind(cluster)
    .bind(uids)
    .bind(json(&places))
    .fetch_all(&mut ledger.connection)
    .await?;
    rows.iter().map(known_row).collect()
}

fn known_row(row: &SqliteRow) -> Result<Known, StoreError> {
    let deleted: Option<Millis> = row.try_get(6)?;
    let soft: i64 = row.try_get(7)?;
    let presence = match (deleted, soft) {
        (None, _) => Presence::Live,
        (Some(_), 0) => Presence::Tombstone,
        (Some(_), _) => Presence::Soft,
    };
    Ok(Known {
        uid: row.try_get(0)?,
        place: Place {
            kind: row.try_get(1)?,
            namespace: row.try_get(2)?,
            name: row.try_get(3)?,
        },
        digest: row.try_get(4)?,
        created: row.try_get(5)?,
        presence,
    })
}

async fn write(ledger: &mut Ledger, cluster: i64, writes: Writes) -> Result<(), StoreError> {
    for presence in [Presence::Soft, Presence::Tombstone] {
        let uids: Vec<&str> = writes
            .close
            .iter()
            .filter(|(_, closed)| *closed == presence)
            .map(|(uid, _)| uid.as_str())
            .collect();
        if !uids.is_empty() {
            close(ledger, cluster, &json(&uids), presence).await?;
        }
    }
    let mut rows: Vec<NewRow> = Vec::with_capacity(writes.put.len() + writes.bury.len());
    rows.extend(writes.bury.into_iter().map(NewRow::tombstone));
    rows.extend(
        writes
            .put
            .into_iter()
            .map(|(record, presence)| NewRow { record, presence }),
    );
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        put(ledger, cluster, rows.by_ref().take(ROWS).collect()).await?;
    }
    Ok(())
}

/// Marks live rows as gone. A softly removed row may become a tombstone; a tombstone stays one.
pub(super) async fn close(
    ledger: &mut Ledger,
    cluster: i64,
    uids: &str,
    presence: Presence,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE objects SET deleted_at = ?3, soft = ?4 \
         WHERE cluster = ?1 AND uid IN (SELECT value FROM json_each(?2)) AND (deleted_at IS NULL OR soft = 1)",
    )
    .bind(cluster)
    .bind(uids)
    .bind(ledger.now)
    .bind(i64::from(presence == Presence::Soft))
    .execute(&mut ledger.connection)
    .await?;
    Ok(())
}

struct NewRow {
    record: Record,
    presence: Presence,
}

impl NewRow {
    /// A tombstone of an object that was never seen has no content.
    fn tombstone(gone: Gone) -> Self {
        let record = Record {
            kind: gone.kind,
            uid: gone.uid,
            namespace: gone.namespace,
            name: gone.name,
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

async fn put(ledger: &mut Ledger, cluster: i64, rows: Vec<NewRow>) -> Result<(), StoreError> {
    // Statements of a usual length are kept by the connection; others would only fill its cache.
    let usual = rows.len() == 1 || rows.len() == ROWS;
    let now = ledger.now;
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
            .push_bind(i64::from(presence == Presence::Soft));
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
        .execute(&mut ledger.connection)
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
