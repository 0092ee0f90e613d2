//! The world under its lock, and who is woken when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use trustplane_inventory_core::InventoryKind;
use trustplane_inventory_core::sender::{Report, Settings};
use trustplane_inventory_core::world::{SenderId, Step, World};

/// What sinks, platforms and the controller share. A cheap clone.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Kinds have to be listed again, or may be read no longer.
    readers: Notify,
}

struct State {
    world: World,
    peers: BTreeMap<SenderId, Arc<Notify>>,
    last: u64,
    relist: BTreeSet<InventoryKind>,
}

/// What the controller wants to know.
#[derive(Debug)]
pub(crate) struct Facts {
    pub report: Option<Report>,
    pub cluster_uid: Option<String>,
    pub counts: BTreeMap<InventoryKind, usize>,
    pub unreadable: BTreeMap<InventoryKind, String>,
}

impl Shared {
    /// A world of these kinds.
    pub fn new(kinds: impl IntoIterator<Item = InventoryKind>) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                world: World::new(kinds),
                peers: BTreeMap::new(),
                last: 0,
                relist: BTreeSet::new(),
            }),
            readers: Notify::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the world; `change` answers whether platforms may have something to do now.
    pub fn change(&self, change: impl FnOnce(&mut World) -> bool) {
        let mut state = self.lock();
        if change(&mut state.world) {
            state.peers.values().for_each(|peer| peer.notify_one());
        }
    }

    /// Serves a platform; what wakes its task comes with it.
    pub fn add(&self, settings: Settings) -> (SenderId, Arc<Notify>) {
        let mut state = self.lock();
        state.last += 1;
        let (id, wake) = (SenderId(state.last), Arc::new(Notify::new()));
        state.world.add(id, settings, Instant::now().into_std());
        state.peers.insert(id, wake.clone());
        self.0.readers.notify_one();
        (id, wake)
    }

    /// Changes how a platform is served.
    pub fn configure(&self, id: SenderId, settings: Settings) {
        let mut state = self.lock();
        state.world.configure(id, settings, Instant::now().into_std());
        if let Some(wake) = state.peers.get(&id) {
            wake.notify_one();
        }
    }

    /// Serves a platform no longer.
    pub fn remove(&self, id: SenderId) {
        let mut state = self.lock();
        state.world.remove(id);
        state.peers.remove(&id);
        self.0.readers.notify_one();
    }

    /// Forgets what was read, unless a platform is served: nothing is watched any more.
    pub fn forget(&self) {
        let mut state = self.lock();
        if state.peers.is_empty() {
            state.world = World::new(state.world.kinds());
            state.relist.clear();
        }
    }

    /// Whether a platform is served.
    pub fn is_wanted(&self) -> bool {
        !self.lock().peers.is_empty()
    }

    /// What a platform's task is to do.
    pub fn step(&self, id: SenderId) -> Step {
        let mut state = self.lock();
        let step = state.world.step(id, Instant::now().into_std());
        if !step.relist.is_empty() {
            state.relist.extend(&step.relist);
            self.0.readers.notify_one();
        }
        step
    }

    /// Reads the world.
    pub fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.lock().world)
    }

    /// What the controller wants to know of a platform.
    pub fn facts(&self, id: Option<SenderId>) -> Facts {
        self.look(|world| Facts {
            report: id.and_then(|id| world.report(id)),
            cluster_uid: world.cluster_uid(),
            counts: world.counts(),
            unreadable: world.unreadable(),
        })
    }

    /// Wants a kind to be listed again.
    pub fn relist(&self, kind: InventoryKind) {
        self.lock().relist.insert(kind);
        self.0.readers.notify_one();
    }

    /// The kinds that have to be listed again.
    pub fn take_relists(&self) -> BTreeSet<InventoryKind> {
        std::mem::take(&mut self.lock().relist)
    }

    /// Waits until readers have something to do.
    pub async fn readers_woken(&self) {
        self.0.readers.notified().await;
    }
}
