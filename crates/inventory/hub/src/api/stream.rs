//! News for open pages, as server-sent events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::guard::is_signed_in;
use crate::app::App;
use crate::error::{ApiError, ErrorBody};
use crate::live::Notice;
use crate::store::clusters::clusters;
use crate::time;

/// How often a page without news gets a sign of life, and its session is looked at.
pub const PING: Duration = Duration::from_secs(15);
/// How long a stream lives. Browsers open another by themselves.
pub const LIFE: Duration = Duration::from_secs(3600);

/// News of changes, until the page goes away.
#[utoipa::path(get, path = "/api/v1/live", tag = "hub", responses(
    (status = 200, description = "Server-sent events: `change` {cluster, kinds, at} and `cluster` {cluster}, which says that anything of the cluster may have changed",
     content_type = "text/event-stream", body = String),
    (status = 401, body = ErrorBody)))]
pub async fn live(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let page = Page {
        notices: app.live.subscribe(),
        app,
        headers,
        ids: BTreeMap::new(),
        until: Instant::now() + LIFE,
        greeted: false,
    };
    let texts = stream::unfold(page, async |mut page| {
        let text = page.next().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), page))
    });
    let mut response = Response::new(Body::from_stream(texts));
    let answer = response.headers_mut();
    answer.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// An open page.
struct Page {
    app: Arc<App>,
    headers: HeaderMap,
    notices: Receiver<Notice>,
    /// The ids of clusters by their rows.
    ids: BTreeMap<i64, String>,
    until: Instant,
    greeted: bool,
}

impl Page {
    /// The next text; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if !self.greeted {
            self.greeted = true;
            return Some("retry: 2000\n\n".to_owned());
        }
        loop {
            let stop = self.app.stop.clone();
            let ping = self.until.min(Instant::now() + PING);
            let notice = tokio::select! {
                notice = timeout_at(ping, self.notices.recv()) => notice,
                () = stop.cancelled() => return None,
            };
            match notice {
                Ok(Ok(notice)) => {
                    if let Some(text) = self.text(&notice).await {
                        return Some(text);
                    }
                }
                Ok(Err(RecvError::Lagged(_))) => return self.everything().await,
                Ok(Err(RecvError::Closed)) => return None,
                Err(_) => {
                    let lives = Instant::now() < self.until
                        && matches!(is_signed_in(&self.app, &self.headers).await, Ok(true));
                    return lives.then(|| ": still here\n\n".to_owned());
                }
            }
        }
    }

    async fn text(&mut self, notice: &Notice) -> Option<String> {
        match notice {
            Notice::Change { cluster, kinds, at } => {
                let id = self.id(*cluster).await?;
                let data = json!({"cluster": id, "kinds": kinds, "at": time::text(*at)});
                Some(format!("event: change\ndata: {data}\n\n"))
            }
            Notice::Cluster { cluster } => {
                let id = self.id(*cluster).await?;
                let data = json!({"cluster": id});
                Some(format!("event: cluster\ndata: {data}\n\n"))
            }
        }
    }

    /// A page that is too far behind is told that anything may have changed.
    async fn everything(&mut self) -> Option<String> {
        let rows = clusters(&self.app.readers).await.ok()?;
        let texts = rows.iter().map(|row| {
            let data = json!({"cluster": row.id});
            format!("event: cluster\ndata: {data}\n\n")
        });
        Some(texts.collect())
    }

    async fn id(&mut self, row: i64) -> Option<String> {
        if !self.ids.contains_key(&row) {
            let rows = clusters(&self.app.readers).await.ok()?;
            self.ids = rows
                .into_iter()
                .map(|cluster| (cluster.row, cluster.id))
                .collect();
        }
        self.ids.get(&row).cloned()
    }
}
