//! What the API reads of objects.

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, SqlitePool};

use super::StoreError;
use super::apply::{fold, json};
use crate::status::{Status, StatusClass};
use crate::time::Millis;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRow {
    /// The row of its cluster.
    pub cluster: i64,
    /// Its uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The form of its name that lists are sorted by.
    pub folded: String,
    /// Its projection.
    pub object: String,
    /// Its status.
    pub status: Status,
    /// When it was made.
    pub created: Option<Millis>,
    /// When the hub first heard of it.
    pub first_seen: Millis,
    /// When it last changed.
    pub changed: Millis,
    /// Since when it is gone.
    pub deleted: Option<Millis>,
    /// When an Event happened last.
    pub occurred: Option<Millis>,
}

const COLUMNS: &str = "cluster, uid, kind, namespace, name, folded, object, class, word, created, first_seen, changed, deleted_at, occurred";

impl ObjectRow {
    fn read(row: &SqliteRow) -> Result<Self, StoreError> {
        let class: String = row.try_get(7)?;
        Ok(Self {
            cluster: row.try_get(0)?,
            uid: row.try_get(1)?,
            kind: row.try_get(2)?,
            namespace: row.try_get(3)?,
            name: row.try_get(4)?,
            folded: row.try_get(5)?,
            object: row.try_get(6)?,
            status: Status {
                class: class.parse().unwrap_or(StatusClass::None),
                word: row.try_get(8)?,
            },
            created: row.try_get(9)?,
            first_seen: row.try_get(10)?,
            changed: row.try_get(11)?,
            deleted: row.try_get(12)?,
            occurred: row.try_get(13)?,
        })
    }
}

fn read_all(rows: &[SqliteRow]) -> Result<Vec<ObjectRow>, StoreError> {
    rows.iter().map(ObjectRow::read).collect()
}

/// Which objects a list has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The row of a cluster.
    pub cluster: Option<i64>,
    /// A kind.
    pub kind: Option<String>,
    /// A namespace.
    pub namespace: Option<String>,
    /// A part of the name, in any case.
    pub q: Option<String>,
    /// The class of the status.
    pub class: Option<StatusClass>,
    /// The word of the status.
    pub word: Option<String>,
    /// What the object links to: see the table `objects`.
    pub link: Option<String>,
}

/// By what a list is sorted.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Sort {
    /// The folded name.
    #[default]
    Name,
    /// When it last changed.
    Changed,
    /// When it was made.
    Created,
    /// When an Event happened last.
    Occurred,
}

impl Sort {
    /// The expression that is sorted by. Times that are unknown come before all others.
    fn expression(self) -> &'static str {
        match self {
            Self::Name => "folded",
            Self::Changed => "changed",
            Self::Created => "coalesce(created, 0)",
            // Every Event has one.
            Self::Occurred => "occurred",
        }
    }
}

/// The value of a row that a list is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum SortKey {
    /// A time.
    Time(Millis),
    /// A name.
    Text(String),
}

/// Where a page of a list begins: after the row that has this.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// What it is sorted by.
    pub key: SortKey,
    /// The row of its cluster.
    pub cluster: i64,
    /// Its uid.
    pub uid: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// By what the list is sorted.
    pub sort: Sort,
    /// From the greatest to the least.
    pub descending: bool,
    /// Where it begins; at the start without.
    pub after: Option<Position>,
    /// How many rows it has at most.
    pub limit: usize,
}

impl Page {
    /// Where the page after this row begins.
    pub fn position(&self, row: &ObjectRow) -> Position {
        let key = match self.sort {
            Sort::Name => SortKey::Text(row.folded.clone()),
            Sort::Changed => SortKey::Time(row.changed),
            Sort::Created => SortKey::Time(row.created.unwrap_or_default()),
            Sort::Occurred => SortKey::Time(row.occurred.unwrap_or_default()),
        };
        Position {
            key,
            cluster: row.cluster,
            uid: row.uid.clone(),
        }
    }
}

/// One page of live objects. It may have one row more than its limit, which tells that there is a next page.
pub async fn list(readers: &SqlitePool, filter: &Filter, page: &Page) -> Result<Vec<ObjectRow>, StoreError> {
    let from = from(filter, page);
    let mut query: QueryBuilder<Sqlite> =
        QueryBuilder::new(format!("SELECT {COLUMNS} FROM {from} WHERE deleted_at IS NULL"));
    push_filter(&mut query, filter);
    if page.sort == Sort::Occurred {
        // As a constant, so that SQLite sees that its index of Events may be used.
        query.push(" AND kind = 'Event'");
    }
    let expression = page.sort.expression();
    if let Some(after) = &page.after {
        let than = if page.descending { "<" } else { ">" };
        query.push(format_args!(" AND ({expression}, cluster, uid) {than} ("));
        match &after.key {
            SortKey::Time(at) => query.push_bind(*at),
            SortKey::Text(text) => query.push_bind(text.clone()),
        };
        query.push(", ").push_bind(after.cluster);
        query.push(", ").push_bind(after.uid.clone()).push(")");
    }
    let order = if page.descending { "DESC" } else { "ASC" };
    query.push(format_args!(
        " ORDER BY {expression} {order}, cluster {order}, uid {order} LIMIT "
    ));
    query.push_bind(i64::try_from(page.limit.saturating_add(1)).unwrap_or(i64::MAX));
    read_all(&query.build().fetch_all(readers).await?)
}

/// Where rows come in the right order already, the index is named: without statistics SQLite would rather sort.
fn from(filter: &Filter, page: &Page) -> &'static str {
    let in_one_index = filter.cluster.is_some() && filter.kind.is_some();
    match page.sort {
        Sort::Occurred if filter.link.is_none() => "objects INDEXED BY events_by_occurrence",
        Sort::Changed if in_one_index => "objects INDEXED BY objects_of_cluster_by_change",
        Sort::Changed if filter.q.is_none() && filter.link.is_none() => {
            "objects INDEXED BY objects_by_change"
        }
        _ => "objects",
    }
}

fn push_filter(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    if let Some(cluster) = filter.cluster {
        query.push(" AND cluster = ").push_bind(cluster);
    }
    let texts = [
        ("kind", &filter.kind),
        ("namespace", &filter.namespace),
        ("word", &filter.word),
        ("link", &filter.link),
    ];
    for (column, value) in texts {
        if let Some(value) = value {
            query
                .push(format_args!(" AND {column} = "))
                .push_bind(value.clone());
        }
    }
    if let Some(class) = filter.class {
        query.push(" AND class = ").push_bind(class.name());
    }
    if let Some(part) = &filter.q {
        query
            .push(" AND instr(folded, ")
            .push_bind(fold(part))
            .push(") > 0");
    }
}

/// How many live objects a filter lets through.
pub async fn total(readers: &SqlitePool, filter: &Filter) -> Result<i64, StoreError> {
    let counted = filter.q.is_none() && filter.word.is_none() && filter.link.is_none();
    let mut query: QueryBuilder<Sqlite> = if counted {
        QueryBuilder::new("SELECT coalesce(sum(n), 0) FROM counts WHERE true")
    } else {
        QueryBuilder::new("SELECT count(*) FROM objects WHERE deleted_at IS NULL")
    };
    push_filter(&mut query, filter);
    Ok(query.build_query_scalar().fetch_one(readers).await?)
}

/// One object, gone or not.
pub async fn object(readers: &SqlitePool, cluster: i64, uid: &str) -> Result<Option<ObjectRow>, StoreError> {
    let query = format!("SELECT {COLUMNS} FROM objects WHERE cluster = ?1 AND uid = ?2");
    let row = sqlx::query(sqlx::AssertSqlSafe(query))
        .bind(cluster)
        .bind(uid.to_owned())
        .fetch_optional(readers)
        .await?;
    row.as_ref().map(ObjectRow::read).transpose()
}

/// Live objects of a kind and namespace with one of these names.
pub async fn named(
    readers: &SqlitePool,
    cluster: i64,
    kind: &str,
    namespace: &str,
    names: &[String],
) -> Result<Vec<ObjectRow>, StoreError> {
    let query = format!(
        "SELECT {COLUMNS} FROM objects WHERE cluster = ?1 AND kind = ?2 AND namespace = ?3 \
         AND name IN (SELECT value FROM json_each(?4)) AND deleted_at IS NULL ORDER BY name"
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(query))
        .bind(cluster)
        .bind(kind.to_owned())
        .bind(namespace.to_owned())
        .bind(json(names))
        .fetch_all(readers)
        .await?;
    read_all(&rows)
}

/// The live objects of a kind in a namespace, as far as a limit.
pub async fn all_of(
    readers: &SqlitePool,
    cluster: i64,
    kind: &str,
    namespace: &str,
    limit: i64,
) -> Result<Vec<ObjectRow>, StoreError> {
    let query = format!(
        "SELECT {COLUMNS} FROM objects WHERE cluster = ?1 AND kind = ?2 AND namespace = ?3 \
         AND deleted_at IS NULL ORDER BY name LIMIT ?4"
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(query))
        .bind(cluster)
        .bind(kind.to_owned())
        .bind(namespace.to_owned())
        .bind(limit)
        .fetch_all(readers)
        .await?;
    read_all(&rows)
}

/// How many live objects the database has, in all clusters.
pub async fn count(readers: &SqlitePool) -> Result<i64, StoreError> {
    total(readers, &Filter::default()).await
}
