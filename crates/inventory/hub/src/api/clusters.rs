//! Clusters, their counts and namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;

use super::tagged;
use super::types::{
    AgentInfo, AgentList, Alert, Cluster, ClusterList, KindCount, KindCountList, Namespace, NamespaceList, ts,
};
use crate::app::App;
use crate::error::{ApiError, ErrorBody};
use crate::status::word;
use crate::store::clusters::{self, ClusterRow, Count};
use crate::store::contact::ACTIVITY_MINUTES;
use crate::store::objects::all_of;
use crate::time;

/// The kind of Events: they are news about objects, not objects in a good or bad state.
const EVENT: &str = "Event";
/// The most namespaces of a cluster that are listed.
const MAX_NAMESPACES: i64 = 20_000;

/// Finds the cluster of a request.
pub(super) async fn find(app: &App, id: &str) -> Result<ClusterRow, ApiError> {
    let found = clusters::cluster(&app.readers, id).await?;
    found.ok_or_else(|| ApiError::not_found("cluster"))
}

/// All clusters.
#[utoipa::path(get, operation_id = "list_clusters", path = "/api/v1/clusters", tag = "clusters", responses(
    (status = 200, body = ClusterList), (status = 304, description = "As the request knows it"),
    (status = 401, body = ErrorBody)))]
pub async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let rows = clusters::clusters(&app.readers).await?;
    let items = detailed(&app, &rows, None).await?;
    Ok(tagged::json(&headers, &ClusterList { items }))
}

/// One cluster.
#[utoipa::path(get, operation_id = "get_cluster", path = "/api/v1/clusters/{cluster}", tag = "clusters",
    params(("cluster" = String, Path, description = "The id of the cluster")), responses(
    (status = 200, body = Cluster), (status = 304, description = "As the request knows it"),
    (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn one(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = find(&app, &id).await?;
    let cluster = row.row;
    let items = detailed(&app, &[row], Some(cluster)).await?;
    let cluster = items
        .into_iter()
        .next()
        .ok_or_else(|| ApiError::not_found("cluster"))?;
    Ok(tagged::json(&headers, &cluster))
}

/// Clusters with their counts, alerts and activity.
async fn detailed(app: &App, rows: &[ClusterRow], only: Option<i64>) -> Result<Vec<Cluster>, ApiError> {
    let now = app.now();
    let mut totals: BTreeMap<i64, Vec<Count>> = BTreeMap::new();
    for count in clusters::totals(&app.readers, only).await? {
        totals.entry(count.cluster).or_default().push(count);
    }
    let mut activity = clusters::activity(&app.readers, now).await?;
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let mut cluster = Cluster::new(row, now);
        for count in totals.remove(&row.row).unwrap_or_default() {
            cluster.objects += count.n;
            if count.is_problem() {
                *cluster.problems.entry(count.kind.clone()).or_default() += count.n;
            }
            *cluster.counts.entry(count.kind).or_default() += count.n;
        }
        let alerts = clusters::alerts(&app.readers, row.row).await?;
        cluster.alerts = alerts
            .into_iter()
            .map(|(at, text)| Alert {
                at: time::text(at),
                text,
            })
            .collect();
        cluster.activity = activity
            .remove(&row.row)
            .unwrap_or_else(|| vec![0; ACTIVITY_MINUTES]);
        items.push(cluster);
    }
    Ok(items)
}

/// What counts are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CountParameters {
    /// Only objects of this namespace.
    namespace: Option<String>,
}

/// How many objects of each kind a cluster has.
#[utoipa::path(get, path = "/api/v1/clusters/{cluster}/counts", tag = "clusters",
    params(("cluster" = String, Path, description = "The id of the cluster"), CountParameters), responses(
    (status = 200, body = KindCountList), (status = 304, description = "As the request knows it"),
    (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn counts(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(parameters): Query<CountParameters>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = find(&app, &id).await?;
    let wanted = parameters.namespace.filter(|namespace| !namespace.is_empty());
    let mut kinds: BTreeMap<String, KindCount> = BTreeMap::new();
    for count in clusters::counts(&app.readers, Some(row.row)).await? {
        if wanted.as_ref().is_some_and(|wanted| *wanted != count.namespace) {
            continue;
        }
        let kind = kinds.entry(count.kind.clone()).or_insert_with(|| KindCount {
            kind: count.kind.clone(),
            count: 0,
            problems: 0,
        });
        kind.count += count.n;
        if count.is_problem() {
            kind.problems += count.n;
        }
    }
    let items = kinds.into_values().collect();
    Ok(tagged::json(&headers, &KindCountList { items }))
}

/// The namespaces of a cluster: those that the agent reported, and those that objects are in.
#[utoipa::path(get, path = "/api/v1/clusters/{cluster}/namespaces", tag = "clusters",
    params(("cluster" = String, Path, description = "The id of the cluster")), responses(
    (status = 200, body = NamespaceList), (status = 304, description = "As the request knows it"),
    (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn namespaces(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = find(&app, &id).await?;
    let mut namespaces: BTreeMap<String, Namespace> = BTreeMap::new();
    for reported in all_of(&app.readers, row.row, "Namespace", "", MAX_NAMESPACES).await? {
        let object: serde_json::Value = serde_json::from_str(&reported.object).unwrap_or_default();
        let mut namespace = empty(&reported.name);
        namespace.phase = super::types::some(word(&object, "phase"));
        namespace.uid = Some(reported.uid);
        namespaces.insert(reported.name, namespace);
    }
    for count in clusters::counts(&app.readers, Some(row.row)).await? {
        if count.namespace.is_empty() {
            continue;
        }
        let namespace = namespaces
            .entry(count.namespace.clone())
            .or_insert_with(|| empty(&count.namespace));
        namespace.objects += count.n;
        if count.kind != EVENT && count.is_problem() {
            namespace.problems += count.n;
        }
        *namespace.counts.entry(count.kind).or_default() += count.n;
    }
    let items = namespaces.into_values().collect();
    Ok(tagged::json(&headers, &NamespaceList { items }))
}

fn empty(name: &str) -> Namespace {
    Namespace {
        name: name.to_owned(),
        phase: None,
        uid: None,
        objects: 0,
        problems: 0,
        counts: BTreeMap::new(),
    }
}

/// The agents of a cluster.
#[utoipa::path(get, path = "/api/v1/clusters/{cluster}/agents", tag = "clusters",
    params(("cluster" = String, Path, description = "The id of the cluster")), responses(
    (status = 200, body = AgentList), (status = 304, description = "As the request knows it"),
    (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn agents(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = find(&app, &id).await?;
    let agent = AgentInfo {
        id: row.id.clone(),
        agent_version: row.agent_version.clone(),
        last_contact: ts(row.contact.last),
        state: row.state(app.now()).0,
    };
    Ok(tagged::json(&headers, &AgentList { items: vec![agent] }))
}
