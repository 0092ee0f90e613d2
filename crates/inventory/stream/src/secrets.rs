//! The Secrets that agents name: watched by name, read when they change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::ByteString;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use trustplane_kit::apply::WriteError;
use trustplane_kit::controller::feed;
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::read::read_object;
use trustplane_kit::watch::{Change, Health, Metadata, Store, WatchSpec, Watches};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Keep, ObjectRef};

use crate::agents::Seen;
use crate::credentials::Credentials;

/// So many new names may wait for their watch.
const NAMES: usize = 16;

/// What is known of the credentials in a Secret.
pub(crate) enum Found {
    /// Nothing was read yet.
    Waiting,
    /// They cannot be used: why.
    Bad(String),
    /// They can; with a number that is another for other credentials.
    Good(Arc<Credentials>, u64),
}

/// The fields of a Secret that are needed.
#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

/// What was last read from a Secret.
struct Kept {
    /// The uid and the version of the Secret.
    version: String,
    credentials: Result<Arc<Credentials>, String>,
    number: u64,
}

/// The watch of one Secret.
struct Watching {
    store: Store<()>,
    /// Ends the watch.
    stop: CancellationToken,
}

/// Reads the Secrets that agents name.
pub(crate) struct Secrets {
    watches: Watches,
    client: kube::Client,
    home: Arc<str>,
    queue: Queue<ObjectRef>,
    agents: Store<Seen>,
    watching: Mutex<BTreeMap<String, Watching>>,
    kept: Mutex<BTreeMap<String, Kept>>,
    /// The number of the last credentials.
    last: AtomicU64,
    feeds: mpsc::Sender<BoxFuture<'static, ()>>,
}

impl Secrets {
    /// Reads Secrets of the namespace `home`. The future tells the queue of their changes, for as long as it runs.
    pub fn new(
        watches: Watches,
        client: kube::Client,
        home: Arc<str>,
        queue: Queue<ObjectRef>,
        agents: Store<Seen>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (feeds, received) = mpsc::channel(NAMES);
        let secrets = Self {
            watches,
            client,
            home,
            queue,
            agents,
            watching: Mutex::default(),
            kept: Mutex::default(),
            last: AtomicU64::new(0),
            feeds,
        };
        (secrets, follow(received))
    }

    /// The credentials in the Secret of this name.
    pub async fn credentials(&self, name: &str) -> Result<Found, WriteError> {
        let object = ObjectRef::new(Some(&self.home), name);
        let store = self.store(name).await;
        let Some(seen) = store.get(&object) else {
            lock(&self.kept).remove(name);
            return Ok(match (store.is_ready(), store.health()) {
                (true, _) => Found::Bad(format!("Secret {object} does not exist")),
                (false, Health::Forbidden) => Found::Bad(format!(
                    "not permitted to get, list and watch the Secret {object}: \
                     the chart permits the names in inventory.credentialsSecrets"
                )),
                (false, _) => Found::Waiting,
            });
        };
        let version = format!("{}/{}", seen.meta.uid, seen.meta.resource_version);
        if let Some(found) = self.kept(name, &version) {
            return Ok(found);
        }
        let content: Option<Content> = read_object(&self.client, &SECRET, &object).await?;
        let credentials = match content {
            None => Err(format!("Secret {object} does not exist")),
            Some(content) => Credentials::read(&content.data)
                .map(Arc::new)
                .map_err(|error| format!("Secret {object}: {error}")),
        };
        Ok(self.keep(name, version, credentials))
    }

    /// Forgets the credentials in Secrets that no agent names any more, and ends the watches of these Secrets.
    pub fn forget_unused(&self) {
        let is_used = |name: &String| !users(&self.agents, &self.home, name).is_empty();
        lock(&self.kept).retain(|name, _| is_used(name));
        lock(&self.watching).retain(|name, watching| {
            let is_used = is_used(name);
            if !is_used {
                watching.stop.cancel();
            }
            is_used
        });
    }

    fn kept(&self, name: &str, version: &str) -> Option<Found> {
        let kept = lock(&self.kept);
        let kept = kept.get(name).filter(|kept| kept.version == version)?;
        Some(kept.found())
    }

    /// Keeps what was read. A Secret that has changed otherwise, such as its labels, keeps the number of its credentials.
    fn keep(&self, name: &str, version: String, read: Result<Arc<Credentials>, String>) -> Found {
        let mut all = lock(&self.kept);
        let before = all.remove(name);
        let same = before.filter(|before| match (&before.credentials, &read) {
            (Ok(before), Ok(read)) => before.is_same(read),
            _ => false,
        });
        let kept = match same {
            Some(same) => Kept { version, ..same },
            None => Kept {
                version,
                credentials: read,
                number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            },
        };
        let found = kept.found();
        all.insert(name.to_owned(), kept);
        found
    }

    /// The store of one Secret, whose watch begins with the first who asks.
    async fn store(&self, name: &str) -> Store<()> {
        let (store, begun) = self.watch(name);
        if let Some(feed) = begun {
            // The task that receives feeds runs for as long as the process does.
            let _ = self.feeds.send(feed).await;
        }
        store
    }

    /// The store of one Secret, and what feeds the queue from its watch if the watch begins now.
    fn watch(&self, name: &str) -> (Store<()>, Option<BoxFuture<'static, ()>>) {
        let mut watching = lock(&self.watching);
        if let Some(known) = watching.get(name) {
            return (known.store.clone(), None);
        }
        let spec = WatchSpec::new(SECRET, Metadata(Keep::default()))
            .namespaces([self.home.to_string()])
            .fields(format!("metadata.name={name}"));
        let subscription = self.watches.subscribe(spec);
        let (store, stop) = (subscription.store(), CancellationToken::new());
        let (mut standing, ended) = (store.standing(), stop.clone());
        watching.insert(
            name.to_owned(),
            Watching {
                store: store.clone(),
                stop,
            },
        );
        let (agents, home, named) = (self.agents.clone(), self.home.clone(), name.to_owned());
        let keys = move || users(&agents, &home, &named);
        let (queue, of_change, of_health) = (self.queue.clone(), keys.clone(), keys);
        let changes = feed(
            subscription,
            self.queue.clone(),
            |_| Lane::Normal,
            move |_: &Change<()>| of_change(),
        );
        let healths = async move {
            while standing.changed().await.is_ok() {
                for agent in of_health() {
                    queue.add(agent, Lane::Normal);
                }
            }
        };
        let both = async move {
            tokio::join!(changes, healths);
        };
        // The subscription is dropped with the feed, and the watch ends with its last subscription.
        let feed = async move {
            ended.run_until_cancelled(both).await;
        };
        (store, Some(feed.boxed()))
    }
}

impl Kept {
    fn found(&self) -> Found {
        match &self.credentials {
            Ok(credentials) => Found::Good(credentials.clone(), self.number),
            Err(why) => Found::Bad(why.clone()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The agents that name a Secret.
fn users(agents: &Store<Seen>, home: &str, secret: &str) -> Vec<ObjectRef> {
    let mut keys = Vec::new();
    agents.for_each(|agent| {
        let object = &agent.meta.object;
        if object.namespace() == Some(home) && agent.value.spec.credentials_secret_ref.name == secret {
            keys.push(object.clone());
        }
    });
    keys
}

async fn follow(mut feeds: mpsc::Receiver<BoxFuture<'static, ()>>) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(()) = running.next() => {}
            Some(feed) = feeds.recv() => running.push(feed),
            else => return,
        }
    }
}

#[cfg(test)]
mod tests;
