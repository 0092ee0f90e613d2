//! Sends the requests of a follower and reads the answers.

use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::{FutureExt, future::join_all};
use http::{Response, header::RETRY_AFTER};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

use super::{
    Reason, Tuning,
    destination::Destination,
    failure::Failure,
    follower::Follower,
    hub::Hub,
    lines::Lines,
    machine::{Ask, Step},
};

/// An answer that is no success is read up to here.
const MAX_ERROR_BODY: usize = 64 << 10;

/// What a watch needs to run.
pub(super) struct Drive<D: Destination> {
    pub(super) client: kube::Client,
    pub(super) tuning: Arc<Tuning>,
    pub(super) hub: Arc<Hub<D::Kept>>,
    /// Makes the destination of a collection.
    pub(super) destination: Box<dyn Fn(Arc<str>) -> D + Send + Sync>,
}

impl<D: Destination> Drive<D> {
    /// Runs until the watch is stopped. Whatever ends it, those who listen are told.
    pub(super) async fn run(self) {
        let closing = Closing(self.hub.clone());
        let names: Vec<_> = self.hub.lock().collections.keys().cloned().collect();
        let all = join_all(names.into_iter().map(|name| self.guard(name)));
        self.hub.stop.run_until_cancelled(all).await;
        drop(closing);
    }

    /// Follows one collection, and begins again where a fault of ours stopped it.
    async fn guard(&self, collection: Arc<str>) -> Infallible {
        let mut panics = 0;
        loop {
            let follower = Follower::new(
                self.hub.clone(),
                collection.clone(),
                (self.destination)(collection.clone()),
                self.tuning.clone(),
            );
            let Err(_panic) = AssertUnwindSafe(self.follow(follower)).catch_unwind().await;
            let failure = Failure::new(Reason::Panicked, "the watch panicked and begins again");
            tracing::error!(kind = %self.hub.selection.kind, "{}", failure.detail);
            self.hub.note_failure(&collection, failure);
            sleep(self.tuning.backoff.jittered(panics)).await;
            panics += 1;
        }
    }

    async fn follow(&self, mut follower: Follower<D>) -> Infallible {
        let mut relists = self.hub.relists();
        loop {
            let now = Instant::now();
            match follower.step(now.into_std()) {
                Step::Wait(until) => {
                    tokio::select! {
                        () = sleep_until(until.into()) => {}
                        // Amid a list by pages the wish is for the next one.
                        _ = relists.changed(), if !follower.is_amid_list() => follower.relist(Instant::now().into_std()),
                    }
                }
                Step::Send(ask @ Ask::Page { .. }) => {
                    let page = timeout(self.tuning.request_timeout, self.page(&follower, &ask)).await;
                    let now = Instant::now().into_std();
                    match page.unwrap_or_else(|_| Err(timed_out("a page did not come in time"))) {
                        Ok(body) => follower.page(&body, now),
                        Err(failure) => follower.failed(failure, now),
                    }
                }
                Step::Send(ask) => self.watch(&mut follower, &ask, &mut relists).await,
            }
        }
    }

    async fn page(&self, follower: &Follower<D>, ask: &Ask) -> Result<Bytes, Failure> {
        let mut answer = self.send(follower, ask, Duration::ZERO).await?;
        read(&mut answer, self.tuning.max_page).await
    }

    /// One watch request from its beginning to its end.
    async fn watch(&self, follower: &mut Follower<D>, ask: &Ask, relists: &mut watch::Receiver<u64>) {
        // Spread, so that the watches of a process do not all end at the same moment.
        let lasts = self
            .tuning
            .watch_timeout
            .mul_f64(0.8 + 0.2 * rand::random::<f64>());
        let deadline = Instant::now() + lasts.max(Duration::from_secs(1)) + self.tuning.idle_grace;
        let answer = timeout(self.tuning.request_timeout, self.send(follower, ask, lasts)).await;
        let mut answer = match answer.unwrap_or_else(|_| Err(timed_out("the server did not answer"))) {
            Ok(answer) => answer,
            Err(failure) => return follower.failed(failure, Instant::now().into_std()),
        };
        follower.accepted(Instant::now().into_std());
        let mut lines = Lines::new(self.tuning.max_line);
        while follower.is_open() {
            let patience = if follower.is_listing() {
                deadline.min(Instant::now() + self.tuning.request_timeout)
            } else {
                deadline
            };
            let chunk = tokio::select! {
                chunk = timeout_at(patience, next_chunk(&mut answer)) => {
                    chunk.unwrap_or_else(|_| Err(timed_out("the watch fell silent")))
                }
                // A wish for a fresh list that comes during a list is for the next one.
                _ = relists.changed(), if !follower.is_listing() => {
                    follower.relist(Instant::now().into_std());
                    continue;
                }
            };
            let now = Instant::now().into_std();
            match chunk {
                Err(failure) => follower.failed(failure, now),
                Ok(None) => follower.failed(Failure::new(Reason::Ended, "the server ended the watch"), now),
                Ok(Some(chunk)) => {
                    lines.push(&chunk);
                    while follower.is_open()
                        && let Some(line) = lines.next()
                    {
                        follower.line(&line, now);
                    }
                }
            }
        }
    }

    /// Sends a request; an answer that is no success is a failure.
    async fn send(
        &self,
        follower: &Follower<D>,
        ask: &Ask,
        lasts: Duration,
    ) -> Result<Response<Body>, Failure> {
        let request = self.hub.selection.request(&follower.collection, ask, lasts);
        let request = request.map_err(|error| Failure::new(Reason::Rejected, error))?;
        let answer = self.client.send(request).await;
        let mut answer = answer.map_err(|error| Failure::new(Reason::Connection, error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let body = read(&mut answer, MAX_ERROR_BODY).await.unwrap_or_default();
        let retry_after = answer
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        Err(Failure::from_answer(
            answer.status(),
            retry_after,
            &String::from_utf8_lossy(&body),
        ))
    }
}

/// Tells those who listen that the watch is over, also when its task is dropped or panics.
struct Closing<T>(Arc<Hub<T>>);

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn timed_out(what: &str) -> Failure {
    Failure::new(Reason::TimedOut, what)
}

async fn next_chunk(answer: &mut Response<Body>) -> Result<Option<Bytes>, Failure> {
    loop {
        match answer.body_mut().frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(Failure::new(Reason::Connection, error)),
            Some(Ok(frame)) => {
                if let Ok(chunk) = frame.into_data() {
                    return Ok(Some(chunk));
                }
            }
        }
    }
}

async fn read(answer: &mut Response<Body>, max: usize) -> Result<Bytes, Failure> {
    let mut body = BytesMut::new();
    while let Some(chunk) = next_chunk(answer).await? {
        if body.len() + chunk.len() > max {
            return Err(Failure::new(
                Reason::TooLarge,
                format!("an answer has more than {max} bytes"),
            ));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}
