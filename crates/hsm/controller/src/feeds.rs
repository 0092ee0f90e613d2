//! From what happens to who has to look.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::watch;
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_hsm_core::objects::label_value;
use trustplane_kit::controller::feed;
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::watch::{Change, Subscription, Watched};
use trustplane_plan::{Meta, ObjectRef};
use trustplane_process::ca::Authority;

use crate::seen::{SeenDevice, SeenPool};
use crate::world::{News, World, devices_of_pool};

/// A task with its name.
pub(crate) type Feed = (&'static str, BoxFuture<'static, ()>);
type Keys = BTreeSet<ObjectRef>;

/// The queues of the controllers.
pub(crate) struct Queues {
    pub devices: Queue<ObjectRef>,
    pub pools: Queue<ObjectRef>,
    pub agents: Queue<ObjectRef>,
}

/// The feeds of the controllers of tokens, and the subscription to HSMDevices for the controller of HSMSecrets.
pub(crate) fn feeds(
    world: &World,
    news: News,
    queues: &Queues,
    authority: watch::Receiver<Arc<Authority>>,
) -> (Vec<Feed>, Subscription<SeenDevice>) {
    let Queues {
        devices,
        pools,
        agents,
    } = queues;
    let [of_devices, of_pools, of_agents, of_secrets] = news.devices;
    let [pools_for_devices, pools_for_pools, pools_for_agents] = news.pools;
    let [sets_for_devices, sets_for_pools] = news.daemon_sets;
    let [pods_for_pools, pods_for_agents] = news.pods;
    let [records_for_pools, records_for_agents] = news.records;
    // A token that one HSMDevice lets go of may be what another waits for.
    let beside = {
        let world = world.clone();
        move |pool: &Watched<SeenPool>| world.pools_beside(pool)
    };
    let mut feeds = vec![
        on("hsm-device-devices", of_devices, devices, itself),
        on("hsm-device-agents", of_agents, agents, itself),
        on("hsm-device-pools", of_pools, pools, pools_of(itself, world)),
        on_all("hsm-pool-devices", pools_for_devices, devices, devices_of_pool),
        on_all("hsm-pool-agents", pools_for_agents, agents, devices_of_pool),
        on_all("hsm-pool-pools", pools_for_pools, pools, beside),
        on("hsm-set-devices", sets_for_devices, devices, devices_of(world)),
        on(
            "hsm-set-pools",
            sets_for_pools,
            pools,
            pools_of(devices_of(world), world),
        ),
        on("hsm-pod-pools", pods_for_pools, pools, pools_of_pod(world)),
        on("hsm-pod-agents", pods_for_agents, agents, devices_of_pod(world)),
        on(
            "hsm-record-pools",
            records_for_pools,
            pools,
            pools_of(devices_of(world), world),
        ),
        on("hsm-record-agents", records_for_agents, agents, devices_of(world)),
    ];
    let parts = news.parts.into_iter();
    feeds.extend(parts.map(|part| on("hsm-part-agents", part, agents, devices_of(world))));
    let rotated = rotated(authority, world.clone(), agents.clone());
    feeds.push(("hsm-authority", Box::pin(rotated)));
    (feeds, of_secrets)
}

fn itself(meta: &Meta) -> Keys {
    [meta.object.clone()].into()
}

/// The HSMDevices that an object of ours is for.
fn devices_of(world: &World) -> impl Fn(&Meta) -> Keys + Send + 'static {
    let world = world.clone();
    move |meta| world.devices_of(meta)
}

/// The HSMDevices that a pod is for: it has no mark of ours, and no owner that we know.
fn devices_of_pod(world: &World) -> impl Fn(&Meta) -> Keys + Send + 'static {
    let world = world.clone();
    move |pod| {
        let (namespace, label) = (pod.object.namespace(), pod.labels.get(DEVICE_LABEL));
        let all = world.all_devices().into_iter();
        all.filter(|device| device.namespace() == namespace && Some(&label_value(device.name())) == label)
            .collect()
    }
}

/// The pools that a pod is for, and those that wait until it has ended.
fn pools_of_pod(world: &World) -> impl Fn(&Meta) -> Keys + Send + 'static {
    let (its_own, world) = (pools_of(devices_of_pod(world), world), world.clone());
    move |pod| {
        let mut keys = its_own(pod);
        keys.extend(world.pools_awaiting(pod));
        keys
    }
}

/// The pools for HSMDevices.
fn pools_of(
    devices: impl Fn(&Meta) -> Keys + Send + 'static,
    world: &World,
) -> impl Fn(&Meta) -> Keys + Send + 'static {
    let world = world.clone();
    move |meta| world.pools_of(&devices(meta))
}

fn on<T: Send + Sync + 'static>(
    name: &'static str,
    subscription: Subscription<T>,
    queue: &Queue<ObjectRef>,
    keys: impl Fn(&Meta) -> Keys + Send + 'static,
) -> Feed {
    on_all(name, subscription, queue, move |object: &Watched<T>| {
        keys(&object.meta)
    })
}

fn on_all<T: Send + Sync + 'static>(
    name: &'static str,
    subscription: Subscription<T>,
    queue: &Queue<ObjectRef>,
    keys: impl Fn(&Watched<T>) -> Keys + Send + 'static,
) -> Feed {
    let keys = move |change: &Change<T>| match change {
        Change::Applied { object, .. } => keys(object),
        Change::Deleted { last, .. } => last.as_deref().map(&keys).unwrap_or_default(),
    };
    (
        name,
        Box::pin(feed(subscription, queue.clone(), |_| Lane::Normal, keys)),
    )
}

/// A CA that changes concerns all agents.
async fn rotated(mut authority: watch::Receiver<Arc<Authority>>, world: World, agents: Queue<ObjectRef>) {
    while authority.changed().await.is_ok() {
        for device in world.all_devices() {
            agents.add(device, Lane::Normal);
        }
    }
    // Without a sender it stays as it is.
    std::future::pending::<()>().await;
}
