//! Objects that have to do with another one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::Value;

use super::objects::locate;
use super::tagged;
use super::types::{ObjectSummary, RelatedGroup, RelatedList};
use crate::app::App;
use crate::error::{ApiError, ErrorBody};
use crate::related::{Lookup, RelationQuery, finds};
use crate::store::StoreError;
use crate::store::objects::{Filter, ObjectRow, Page, Sort, all_of, list as rows, named, object};

/// How many objects of one relation are shown.
const SHOWN: usize = 200;
/// How many objects of a namespace are looked at for one relation.
const LOOKED_AT: i64 = 5_000;

/// What an object has to do with others.
#[utoipa::path(get, operation_id = "list_related", path = "/api/v1/clusters/{cluster}/objects/{uid}/related", tag = "objects",
    params(("cluster" = String, Path, description = "The id of the cluster"),
        ("uid" = String, Path, description = "The uid of the object")), responses(
    (status = 200, body = RelatedList), (status = 304, description = "As the request knows it"),
    (status = 401, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub async fn list(
    State(app): State<Arc<App>>,
    Path((cluster, uid)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (cluster, row) = locate(&app, &cluster, &uid).await?;
    let value: Value = serde_json::from_str(&row.object).unwrap_or_default();
    let mut groups: Vec<RelatedGroup> = Vec::new();
    for find in finds(&row.kind, &row.namespace, &row.name, &value) {
        let found = look(&app, cluster.row, &find).await?;
        let items = found
            .iter()
            .filter(|found| found.deleted.is_none() && found.uid != row.uid)
            .take(SHOWN)
            .map(|found| ObjectSummary::new(found, &cluster, app.now()).0);
        // Kinds of one relation belong together.
        match groups.iter_mut().find(|group| group.relation == find.relation) {
            Some(group) => group.items.extend(items),
            None => groups.push(RelatedGroup {
                relation: find.relation.to_owned(),
                items: items.collect(),
            }),
        }
    }
    groups.retain(|group| !group.items.is_empty());
    Ok(tagged::json(&headers, &RelatedList { groups }))
}

async fn look(app: &App, cluster: i64, find: &RelationQuery) -> Result<Vec<ObjectRow>, StoreError> {
    let (readers, kind) = (&app.readers, find.kind.name());
    match &find.by {
        Lookup::Names(names) if names.is_empty() => Ok(Vec::new()),
        Lookup::Names(names) => named(readers, cluster, kind, &find.namespace, names).await,
        Lookup::Uid(uid) => Ok(object(readers, cluster, uid).await?.into_iter().collect()),
        Lookup::Link(link) => {
            let filter = Filter {
                cluster: Some(cluster),
                kind: Some(kind.to_owned()),
                link: Some(link.clone()),
                ..Filter::default()
            };
            let page = Page {
                sort: Sort::Name,
                descending: false,
                after: None,
                limit: SHOWN,
            };
            rows(readers, &filter, &page).await
        }
        Lookup::Match(_) => {
            let mut candidates = all_of(readers, cluster, kind, &find.namespace, LOOKED_AT).await?;
            candidates.retain(|row| {
                let object: Value = serde_json::from_str(&row.object).unwrap_or_default();
                find.keeps(&object)
            });
            Ok(candidates)
        }
    }
}
