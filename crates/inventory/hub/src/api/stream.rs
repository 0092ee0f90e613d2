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
use tokio::time::{Instant, sleep_until};

use super::guard::is_signed_in;
use crate::app::App;
use crate::error::{ApiError, ErrorBody};
use crate::live::Notice;
use crate::store::StoreError;
use crate::store::clusters::clusters;
use crate::store::writer::cause;
use crate::time;

/// How often an open page gets a sign of life and its session is checked, however many changes it is told of.
pub const SESSION_CHECK: Duration = Duration::from_secs(15);
/// How long a stream lives. Browsers open another by themselves.
pub const LIFE: Duration = Duration::from_secs(3600);
/// What a page is told that missed some changes: anything may have changed.
const RELOAD: &str = "event: reload\ndata: {}\n\n";

/// News of changes, until the page goes away.
#[utoipa::path(get, path = "/api/v1/live", tag = "hub", responses(
    (status = 200, description = "Server-sent events: `change` {cluster, kinds, at}; `cluster` {cluster}, which says that anything of the cluster may have changed; `reload` {} for a page that missed some: anything may have changed",
     content_type = "text/event-stream", body = String),
    (status = 401, body = ErrorBody)))]
pub async fn live(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let page = Page::new(app, headers);
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
    /// When the session is checked next.
    check: Instant,
    greeted: bool,
}

impl Page {
    fn new(app: Arc<App>, headers: HeaderMap) -> Self {
        Self {
            notices: app.live.subscribe(),
            until: Instant::now() + LIFE,
            check: Instant::now() + app.session_check,
            app,
            headers,
            ids: BTreeMap::new(),
            greeted: false,
        }
    }

    /// The next text; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if !self.greeted {
            self.greeted = true;
            return Some("retry: 2000\n\n".to_owned());
        }
        loop {
            let stop = self.app.stop.clone();
            let notice = tokio::select! {
                // The order matters: a page with many changes is checked in time too.
                biased;
                () = stop.cancelled() => return None,
                () = sleep_until(self.until) => return None,
                () = sleep_until(self.check) => {
                    self.check = Instant::now() + self.app.session_check;
                    let lives = matches!(is_signed_in(&self.app, &self.headers).await, Ok(true));
                    return lives.then(|| ": still here\n\n".to_owned());
                }
                notice = self.notices.recv() => notice,
            };
            match notice {
                Ok(notice) => match self.text(&notice).await {
                    Ok(Some(text)) => return Some(text),
                    // The cluster was removed.
                    Ok(None) => {}
                    Err(error) => {
                        // A browser opens another stream and then reads everything again, so that no change is lost.
                        tracing::warn!(error = cause(&error), "cannot tell a page of a change");
                        return None;
                    }
                },
                Err(RecvError::Lagged(_)) => return Some(RELOAD.to_owned()),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// What a page is told; `None` if the cluster is not there any more.
    async fn text(&mut self, notice: &Notice) -> Result<Option<String>, StoreError> {
        let (row, event) = match notice {
            Notice::Change { cluster, .. } => (*cluster, "change"),
            Notice::Cluster { cluster } => (*cluster, "cluster"),
        };
        let Some(id) = self.id(row).await? else {
            return Ok(None);
        };
        let data = match notice {
            Notice::Change { kinds, at, .. } => json!({"cluster": id, "kinds": kinds, "at": time::text(*at)}),
            Notice::Cluster { .. } => json!({"cluster": id}),
        };
        Ok(Some(format!("event: {event}\ndata: {data}\n\n")))
    }

    async fn id(&mut self, row: i64) -> Result<Option<String>, StoreError> {
        if !self.ids.contains_key(&row) {
            let rows = clusters(&self.app.readers).await?;
            self.ids = rows
                .into_iter()
                .map(|cluster| (cluster.row, cluster.id))
                .collect();
        }
        Ok(self.ids.get(&row).cloned())
    }
}

#[cfg(test)]
mod tests {
    use http::header::COOKIE;

    use super::*;
    use crate::live::BEHIND;
    use crate::secret::Hash;
    use crate::store::writer::{Observer, Touched};

    async fn page() -> (Page, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let app = Arc::new(App::for_tests(folder.path()).await);
        let mut connection = crate::store::open(folder.path()).await.unwrap();
        sqlx::query("INSERT INTO sessions (hash, expires) VALUES (?1, ?2)")
            .bind(Hash::of(b"session").as_bytes())
            .bind(i64::MAX)
            .execute(&mut connection)
            .await
            .unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_static("trustplane_hub_80=session"));
        let mut page = Page::new(app, headers);
        assert_eq!(is_signed_in(&page.app, &page.headers).await, Ok(true));
        assert_eq!(page.next().await.as_deref(), Some("retry: 2000\n\n"));
        (page, folder)
    }

    /// Tells all pages of a change.
    fn change(page: &Page, cluster: i64) {
        let touched = Touched {
            itself: true,
            ..Touched::default()
        };
        page.app.live.committed(&BTreeMap::from([(cluster, touched)]), 1);
        page.app.live.tell();
    }

    #[tokio::test]
    async fn page_is_told_to_reload_when_it_missed_changes() {
        let (mut page, _folder) = page().await;
        for _ in 0..=BEHIND {
            change(&page, 1);
        }
        assert_eq!(page.next().await.as_deref(), Some("event: reload\ndata: {}\n\n"));
    }

    #[tokio::test]
    async fn stream_ends_when_a_change_cannot_be_told() {
        let (mut page, _folder) = page().await;
        page.app.readers.close().await;
        change(&page, 1);
        assert_eq!(page.next().await, None);
    }
}
