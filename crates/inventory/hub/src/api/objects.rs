//! Objects: lists with filters and pages, and one object.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;

use super::clusters::find;
use super::types::{ObjectDetail, ObjectList, ObjectSummary, ts};
use super::{cursor, tagged};
use crate::app::App;
use crate::error::{ApiError, ErrorBody};
use crate::store::clusters::{ClusterRow, clusters};
use crate::store::objects::{Filter, ObjectRow, Page, Sort, list as rows, object, total};
use crate::time;

/// How many rows a page has that names no number.
pub const DEFAULT_LIMIT: usize = 100;
/// How many rows a page may have.
pub const MAX_LIMIT: usize = 500;
/// The longest text of a filter, in bytes.
const MAX_TEXT: usize = 253;

/// Which objects are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ObjectParameters {
    /// The id of a cluster.
    cluster: Option<String>,
    /// A kind, such as `Pod`.
    kind: Option<String>,
    /// A namespace.
    namespace: Option<String>,
    /// A part of the name, in any case.
    q: Option<String>,
    /// The class of the status: ok, progress, warning, error or none.
    status: Option<String>,
    /// By what to sort: name, changed or created.
    sort: Option<String>,
    /// asc or desc.
    order: Option<String>,
    /// How many rows a page has: 1 to 500.
    limit: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// A parameter that is there and not empty.
pub(super) fn given(name: &str, value: Option<String>) -> Result<Option<String>, ApiError> {
    match value.filter(|value| !value.is_empty()) {
        Some(value) if value.len() > MAX_TEXT => Err(ApiError::bad_parameter(
            name,
            &format!("must have at most {MAX_TEXT} bytes"),
        )),
        value => Ok(value),
    }
}

/// The number of rows of a page.
pub(super) fn limit(value: Option<String>) -> Result<usize, ApiError> {
    let Some(text) = value.filter(|text| !text.is_empty()) else {
        return Ok(DEFAULT_LIMIT);
    };
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| ApiError::bad_parameter("limit", &format!("must be between 1 and {MAX_LIMIT}")))
}

/// The row of the cluster that is asked for, if any.
pub(super) async fn cluster_row(app: &App, id: Option<String>) -> Result<Option<i64>, ApiError> {
    match given("cluster", id)? {
        Some(id) => Ok(Some(find(app, &id).await?.row)),
        None => Ok(None),
    }
}

async fn filter(app: &App, parameters: &mut ObjectParameters) -> Result<Filter, ApiError> {
    let class = match given("status", parameters.status.take())? {
        Some(class) => Some(class.parse().map_err(|_| {
            ApiError::bad_parameter("status", "must be ok, progress, warning, error or none")
        })?),
        None => None,
    };
    Ok(Filter {
        cluster: cluster_row(app, parameters.cluster.take()).await?,
        kind: given("kind", parameters.kind.take())?,
        namespace: given("namespace", parameters.namespace.take())?,
        q: given("q", parameters.q.take())?,
        class,
        ..Filter::default()
    })
}

fn sort(text: Option<String>) -> Result<Sort, ApiError> {
    match text.as_deref() {
        None | Some("" | "name") => Ok(Sort::Name),
        Some("changed") => Ok(Sort::Changed),
        Some("created") => Ok(Sort::Created),
        Some(_) => Err(ApiError::bad_parameter(
            "sort",
            "must be name, changed or created",
        )),
    }
}

fn descending(text: Option<String>) -> Result<bool, ApiError> {
    match text.as_deref() {
        None | Some("" | "asc") => Ok(false),
        Some("desc") => Ok(true),
        Some(_) => Err(ApiError::bad_parameter("order", "must be asc or desc")),
    }
}

/// One page of live objects.
#[utoipa::path(get, operation_id = "list_objects", path = "/api/v1/objects", tag = "objects", params(ObjectParameters), responses(
    (status = 200, body = ObjectList), (status = 304, description = "As the request knows it"),
    (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn list(
    State(app): State<Arc<App>>,
    Query(mut parameters): Query<ObjectParameters>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let filter = filter(&app, &mut parameters).await?;
    let (sort, descending) = (sort(parameters.sort)?, descending(parameters.order)?);
    let query = cursor::Query::new(&filter, sort, descending);
    let cursor = parameters.cursor.filter(|cursor| !cursor.is_empty());
    let after = cursor.map(|cursor| query.read(&cursor, sort)).transpose()?;
    let page = Page {
        sort,
        descending,
        after,
        limit: limit(parameters.limit)?,
    };
    let mut found = rows(&app.readers, &filter, &page).await?;
    let next = next(&query, &page, &mut found);
    let items = summaries(&app, &found).await?;
    let total = total(&app.readers, &filter).await?;
    Ok(tagged::json(&headers, &ObjectList { items, next, total }))
}

/// The cursor of the next page, if there is one. Takes the row beyond the page away.
pub(super) fn next(query: &cursor::Query, page: &Page, rows: &mut Vec<ObjectRow>) -> Option<String> {
    if rows.len() <= page.limit {
        return None;
    }
    rows.truncate(page.limit);
    rows.last().map(|last| query.cursor(page.position(last)))
}

/// Clusters by their row.
pub(super) async fn clusters_by_row(app: &App) -> Result<BTreeMap<i64, ClusterRow>, ApiError> {
    let rows = clusters(&app.readers).await?;
    Ok(rows.into_iter().map(|row| (row.row, row)).collect())
}

/// Rows as lists show them.
pub(super) async fn summaries(app: &App, rows: &[ObjectRow]) -> Result<Vec<ObjectSummary>, ApiError> {
    let (clusters, now) = (clusters_by_row(app).await?, app.now());
    Ok(rows
        .iter()
        .filter_map(|row| Some(ObjectSummary::new(row, clusters.get(&row.cluster)?, now).0))
        .collect())
}

/// An object, also if it is gone, and its cluster.
pub(super) async fn locate(app: &App, cluster: &str, uid: &str) -> Result<(ClusterRow, ObjectRow), ApiError> {
    let cluster = find(app, cluster).await?;
    let row = object(&app.readers, cluster.row, uid).await?;
    Ok((cluster, row.ok_or_else(|| ApiError::not_found("object"))?))
}

/// One object, also if it is gone.
#[utoipa::path(get, operation_id = "get_object", path = "/api/v1/clusters/{cluster}/objects/{uid}", tag = "objects",
    params(("cluster" = String, Path, description = "The id of the cluster"),
        ("uid" = String, Path, description = "The uid of the object")), responses(
    (status = 200, body = ObjectDetail), (status = 304, description = "As the request knows it"),
    (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn one(
    State(app): State<Arc<App>>,
    Path((cluster, uid)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (cluster, row) = locate(&app, &cluster, &uid).await?;
    let (summary, object) = ObjectSummary::new(&row, &cluster, app.now());
    let detail = ObjectDetail {
        summary,
        object,
        first_seen: time::text(row.first_seen),
        deleted: ts(row.deleted),
    };
    Ok(tagged::json(&headers, &detail))
}
