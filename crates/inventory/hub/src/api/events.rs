//! Events of Kubernetes, the latest first.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::objects::{cluster_row, clusters_by_row, given, limit, next};
use super::types::{EventList, Involved, KubernetesEvent, some, ts};
use super::{cursor, tagged};
use crate::app::App;
use crate::error::{ApiError, ErrorBody};
use crate::status::{number, word};
use crate::store::objects::{Filter, ObjectRow, Page, Sort, list as rows};
use crate::time;

/// Which Events are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventParameters {
    /// The id of a cluster.
    cluster: Option<String>,
    /// A namespace.
    namespace: Option<String>,
    /// The uid of the object that they are about.
    involved: Option<String>,
    /// Normal or Warning.
    #[serde(rename = "type")]
    type_: Option<String>,
    /// How many rows a page has: 1 to 500.
    limit: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// One page of Events, the latest first.
#[utoipa::path(get, operation_id = "list_events", path = "/api/v1/events", tag = "objects", params(EventParameters), responses(
    (status = 200, body = EventList), (status = 304, description = "As the request knows it"),
    (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn list(
    State(app): State<Arc<App>>,
    Query(parameters): Query<EventParameters>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let filter = Filter {
        cluster: cluster_row(&app, parameters.cluster).await?,
        kind: Some("Event".to_owned()),
        namespace: given("namespace", parameters.namespace)?,
        link: given("involved", parameters.involved)?,
        word: given("type", parameters.type_)?,
        ..Filter::default()
    };
    let query = cursor::Query::new(&filter, Sort::Occurred, true);
    let cursor = parameters.cursor.filter(|cursor| !cursor.is_empty());
    let after = cursor
        .map(|cursor| query.read(&cursor, Sort::Occurred))
        .transpose()?;
    let page = Page {
        sort: Sort::Occurred,
        descending: true,
        after,
        limit: limit(parameters.limit)?,
    };
    let mut found = rows(&app.readers, &filter, &page).await?;
    let next = next(&query, &page, &mut found);
    let clusters = clusters_by_row(&app).await?;
    let items = found
        .iter()
        .filter_map(|row| Some(event(row, &clusters.get(&row.cluster)?.id)))
        .collect();
    Ok(tagged::json(&headers, &EventList { items, next }))
}

fn event(row: &ObjectRow, cluster: &str) -> KubernetesEvent {
    let object: Value = serde_json::from_str(&row.object).unwrap_or_default();
    let (involved, source) = (&object["involved_object"], &object["source"]);
    let at = |field: &str| time::read(word(&object, field));
    let last = row.occurred.filter(|at| *at > 0);
    KubernetesEvent {
        cluster: cluster.to_owned(),
        uid: row.uid.clone(),
        namespace: some(&row.namespace),
        type_: word(&object, "type").to_owned(),
        reason: word(&object, "reason").to_owned(),
        message: word(&object, "message").to_owned(),
        count: number(&object, "count"),
        first: ts(at("first_timestamp").or(last)),
        last: ts(last),
        involved: Involved {
            kind: word(involved, "kind").to_owned(),
            name: word(involved, "name").to_owned(),
            namespace: some(word(involved, "namespace")),
            uid: some(word(involved, "uid")),
        },
        source: some(word(source, "component")),
    }
}
