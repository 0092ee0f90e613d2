//! The Secrets that agents name: watched by name, read when they change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::ByteString;
use serde::Deserialize;
use tokio::sync::mpsc;
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
    /// They can; with the uid and the version of the Secret.
    Good(Arc<Credentials>, String),
}

/// The fields of a Secret that are needed.
#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

struct Kept {
    version: String,
    credentials: Result<Arc<Credentials>, String>,
}

/// Reads the Secrets that agents name.
pub(crate) struct Secrets {
    watches: Watches,
    client: kube::Client,
    home: Arc<str>,
    queue: Queue<ObjectRef>,
    agents: Store<Seen>,
    stores: Mutex<BTreeMap<String, Store<()>>>,
    kept: Mutex<BTreeMap<String, Kept>>,
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
            stores: Mutex::default(),
            kept: Mutex::default(),
            feeds,
        };
        (secrets, follow(received))
    }

    /// The credentials in the Secret of this name.
    pub async fn credentials(&self, name: &str) -> Result<Found, WriteError> {
        let object = ObjectRef::new(Some(&self.home), name);
        let store = self.store(name).await;
        let Some(seen) = store.get(&object) else {
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
        let kept = Kept {
            version: version.clone(),
            credentials: credentials.clone(),
        };
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), kept);
        Ok(found(credentials, version))
    }

    /// Forgets the credentials that no agent names any more.
    pub fn forget_unused(&self) {
        let is_used = |name: &String| !users(&self.agents, &self.home, name).is_empty();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|name, _| is_used(name));
    }

    fn kept(&self, name: &str, version: &str) -> Option<Found> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get(name).filter(|kept| kept.version == version)?;
        Some(found(kept.credentials.clone(), version.to_owned()))
    }

    /// The store of one Secret, whose watch begins with the first who asks.
    async fn store(&self, name: &str) -> Store<()> {
        let known = |stores: &Mutex<BTreeMap<String, Store<()>>>| {
            let stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
            stores.get(name).cloned()
        };
        if let Some(store) = known(&self.stores) {
            return store;
        }
        let spec = WatchSpec::new(SECRET, Metadata(Keep::default()))
            .namespaces([self.home.to_string()])
            .fields(format!("metadata.name={name}"));
        let subscription = self.watches.subscribe(spec);
        let store = subscription.store();
        let stood = store.clone();
        self.stores
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), store.clone());
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
            let mut standing = stood.standing();
            while standing.changed().await.is_ok() {
                for agent in of_health() {
                    queue.add(agent, Lane::Normal);
                }
            }
        };
        let both = async move {
            tokio::join!(changes, healths);
        };
        // The task that receives feeds runs for as long as the process does.
        let _ = self.feeds.send(both.boxed()).await;
        store
    }
}

fn found(credentials: Result<Arc<Credentials>, String>, version: String) -> Found {
    match credentials {
        Ok(credentials) => Found::Good(credentials, version),
        Err(why) => Found::Bad(why),
    }
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
