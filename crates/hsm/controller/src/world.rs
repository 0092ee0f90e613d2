//! What is watched, and how it hangs together.

mod hearing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trustplane_api::hsm::names::{DEVICE_LABEL, SERIAL_LABEL};
use trustplane_api::hsm::record::Record;
use trustplane_api::hsm::{DEVICE, POOL, TokenPlace};
use trustplane_hsm_core::agents::agents as agents_of;
use trustplane_hsm_core::consent::{self, Consent};
use trustplane_hsm_core::decide::{DeviceView, PoolView};
use trustplane_hsm_core::device::{Faults, read};
use trustplane_hsm_core::objects::{AGENT, APP_LABEL, DEVICE_NAMESPACE_LABEL, is_for, label_value, mark};
use trustplane_hsm_core::pool::{Claim, Hearing, awaited, concerns, device_names, grace_period};
use trustplane_hsm_core::rules::Rules;
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::manager::Workbench;
use trustplane_kit::watch::{Metadata, Slim, Store, Subscription, WatchSpec, Watched};
use trustplane_plan::kinds::{
    CONFIG_MAP, DAEMON_SET, DEPLOYMENT, POD, ROLE, ROLE_BINDING, SECRET, SERVICE_ACCOUNT,
};
use trustplane_plan::{Keep, Kind, Meta, ObjectRef};

use crate::delivery::KnownToken;
use crate::error::HsmError;
use crate::seen::{Pods, SeenDaemonSet, SeenDevice, SeenPod, SeenPool, SeenRecord, agent_pod};
use crate::{agents, devices};

/// So many characters of an agent's name tell its HSMDevice; those behind may be cut.
const COMMON: usize = 48;

/// Everything that the controllers look at. A cheap clone.
#[derive(Clone)]
pub(crate) struct World {
    pub rules: Arc<Rules>,
    pub devices: Store<SeenDevice>,
    pub pools: Store<SeenPool>,
    pub daemon_sets: Store<SeenDaemonSet>,
    pub pods: Store<SeenPod>,
    pub records: Store<SeenRecord>,
    /// What agents consist of besides: metadata alone. No value of a Secret gets here.
    pub parts: Vec<Store<()>>,
    /// When the reports of each pool were seen to change.
    hearings: Arc<Mutex<BTreeMap<ObjectRef, Hearing>>>,
    /// Asks for what is not watched.
    reader: Writer,
}

/// What tells of changes, to be made into keys.
pub(crate) struct News {
    pub devices: [Subscription<SeenDevice>; 4],
    pub pools: [Subscription<SeenPool>; 3],
    pub daemon_sets: [Subscription<SeenDaemonSet>; 2],
    pub pods: [Subscription<SeenPod>; 2],
    pub records: [Subscription<SeenRecord>; 2],
    pub parts: Vec<Subscription<()>>,
}

impl World {
    /// Watches the namespaces that are served, and nothing else.
    pub fn watch(bench: &Workbench, rules: Arc<Rules>) -> (Self, News) {
        let watches = &bench.watches;
        let here = |kind| Within(kind, rules.clone());
        let annotated = Keep {
            annotations: true,
            manager: None,
        };
        let devices = || watches.subscribe(here(DEVICE).all(Slim::new(annotated.clone())));
        let pools = || watches.subscribe(here(POOL).all(Slim::new(Keep::owned_by(devices::MANAGER))));
        // Those of the original have no mark of ours, and have to be seen so that they can make room.
        let daemon_sets = || {
            let all = here(DAEMON_SET).all(Slim::new(Keep::owned_by(devices::MANAGER)));
            watches.subscribe(all.labels(DEVICE_LABEL))
        };
        let pods = || watches.subscribe(here(POD).all(Pods).labels(DEVICE_LABEL));
        let owned = || Keep::owned_by(agents::MANAGER);
        let records = || watches.subscribe(here(CONFIG_MAP).ours(Slim::new(owned())));
        let parts = [DEPLOYMENT, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET];
        let parts = parts.map(|kind| watches.subscribe(here(kind).ours(Metadata(owned()))));
        let news = News {
            devices: [devices(), devices(), devices(), devices()],
            pools: [pools(), pools(), pools()],
            daemon_sets: [daemon_sets(), daemon_sets()],
            pods: [pods(), pods()],
            records: [records(), records()],
            parts: parts.into(),
        };
        let world = Self {
            devices: news.devices[0].store(),
            pools: news.pools[0].store(),
            daemon_sets: news.daemon_sets[0].store(),
            pods: news.pods[0].store(),
            records: news.records[0].store(),
            parts: news.parts.iter().map(Subscription::store).collect(),
            hearings: Arc::default(),
            reader: bench.writer(agents::MANAGER),
            rules,
        };
        (world, news)
    }

    /// An HSMDevice, if it exists.
    pub fn device(&self, key: &ObjectRef) -> Option<DeviceView> {
        self.devices.get(key).map(|device| self.view(&device))
    }

    fn view(&self, device: &Watched<SeenDevice>) -> DeviceView {
        let object = &device.meta.object;
        let namespace = object.namespace().unwrap_or_default();
        let spec = device.value.spec.as_ref();
        let unreadable = || Err(Faults::unreadable());
        DeviceView {
            read: spec.map_or_else(unreadable, |spec| {
                read(namespace, object.name(), spec, &self.rules)
            }),
            meta: device.meta.clone(),
        }
    }

    /// Whether the agents of an HSMDevice may read their PIN. The Secret bears no label of ours by which it could be watched, and
    /// only its metadata is asked for.
    pub async fn consent(&self, device: &DeviceView) -> Result<Consent, HsmError> {
        let Some(secret) = consent::asked(device) else {
            return Ok(Consent::Needless);
        };
        let keep = Keep {
            annotations: true,
            manager: None,
        };
        let here = device.meta.object.namespace().unwrap_or_default();
        match self.reader.get_meta(&SECRET, &secret, &keep).await {
            Ok(meta) => Ok(Consent::of(meta.as_ref(), here)),
            // The namespace is no longer ours to read, so nothing in it is.
            Err(WriteError::Forbidden { .. }) => Ok(Consent::Denied),
            Err(error) => Err(HsmError::Consent(error)),
        }
    }

    /// The tokens that have or had an agent, whether or not they are there.
    pub fn tokens(&self) -> Vec<KnownToken> {
        let mut tokens = BTreeMap::new();
        for key in self.all_devices() {
            let Some(Ok(device)) = self.device(&key).map(|view| view.read) else {
                continue;
            };
            let pools = self.pools_for(&key);
            for agent in agents_of(&device, &pools).into_values() {
                let name = ObjectRef::new(key.namespace(), &agent.name);
                tokens.insert(name.clone(), self.known(&key, &agent.serial, name));
            }
        }
        // The record of an agent outlives it.
        self.records.for_each(|record| {
            let (agent, labels) = (&record.meta.object, &record.meta.labels);
            let owner = record.meta.owners.iter().find(|owner| owner.kind == DEVICE.kind);
            if let (Some(owner), Some(serial)) = (owner, labels.get(SERIAL_LABEL)) {
                let device = ObjectRef::new(agent.namespace(), &owner.name);
                let known = || self.known(&device, serial, agent.clone());
                tokens.entry(agent.clone()).or_insert_with(known);
            }
        });
        tokens.into_values().collect()
    }

    /// A token, by the names of its HSMDevice and its own.
    fn known(&self, device: &ObjectRef, serial: &str, agent: ObjectRef) -> KnownToken {
        let namespace = device.namespace().filter(|_| self.rules.namespaces.len() > 1);
        let parts = namespace.into_iter().chain([device.name(), serial]);
        KnownToken {
            name: parts.collect::<Vec<_>>().join("/"),
            device: device.clone(),
            agent,
        }
    }

    /// What HSMDevices say of locations on the tokens.
    pub fn places(&self) -> Vec<TokenPlace> {
        let mut places = Vec::new();
        self.devices.for_each(|device| {
            let spec = device.value.spec.as_ref();
            places.extend(spec.into_iter().flat_map(|spec| spec.places.iter().cloned()));
        });
        places
    }

    /// Whether an HSMDevice exists of which we cannot tell what it wants, or whose name is told in another way by labels. Nothing
    /// of it may be taken for a rest of one that is gone.
    pub fn is_in_doubt(&self, key: &ObjectRef) -> bool {
        let unreadable = self.devices.unreadable();
        if unreadable.iter().any(|(object, _)| object == key) {
            return true;
        }
        let mut doubt = false;
        self.devices.for_each(|device| {
            let object = &device.meta.object;
            let same = object.namespace() == key.namespace() && label_value(object.name()) == key.name();
            doubt |= same && object != key;
        });
        doubt
    }

    /// The pools that are for an HSMDevice.
    pub fn pools_for(&self, device: &ObjectRef) -> Vec<PoolView> {
        let mut pools = Vec::new();
        self.pools.for_each(|pool| {
            if is_pool_for(pool, device) {
                pools.push(pool_view(pool));
            }
        });
        for pool in &mut pools {
            let grace = grace_period(&pool.spec);
            pool.watched = self.hearing(&pool.meta.object, |hearing, span, now| {
                hearing.watched(grace, span, now)
            });
        }
        // Stores have no order, and equal worlds have to make equal plans.
        pools.sort_by(|one, other| one.meta.object.cmp(&other.meta.object));
        pools
    }

    /// The records of the agents of HSMDevices, by the name of the agent.
    pub fn records_of<'a>(
        &self,
        devices: impl IntoIterator<Item = &'a ObjectRef>,
    ) -> BTreeMap<String, Record> {
        let devices: Vec<_> = devices.into_iter().collect();
        let mut records = BTreeMap::new();
        self.records.for_each(|record| {
            let of = |device: &&ObjectRef| {
                let here = device.namespace() == record.meta.object.namespace();
                here && is_for(
                    &record.meta,
                    device.namespace().unwrap_or_default(),
                    device.name(),
                )
            };
            if devices.iter().any(of)
                && let Some(read) = record.value.read()
            {
                records.insert(record.meta.object.name().to_owned(), read);
            }
        });
        records
    }

    /// Live objects of the agents of an HSMDevice, or that may have their names, in order.
    pub fn parts_of(&self, key: &ObjectRef) -> Vec<(Kind, Meta)> {
        let namespace = key.namespace().unwrap_or_default();
        let prefix = format!("{AGENT}-{}", key.name());
        let prefix = prefix.get(..COMMON).unwrap_or(&prefix);
        let near =
            |meta: &Meta| is_for(meta, namespace, key.name()) || meta.object.name().starts_with(prefix);
        let mut live = Vec::new();
        for store in &self.parts {
            store.for_each(|part| {
                if near(&part.meta) {
                    live.push((store.kind().clone(), part.meta.clone()));
                }
            });
        }
        self.records.for_each(|record| {
            if near(&record.meta) {
                live.push((CONFIG_MAP, record.meta.clone()));
            }
        });
        live.sort_by(|(one, a), (other, b)| (one, &a.object).cmp(&(other, &b.object)));
        live
    }

    /// Whether everything that agents consist of is known.
    pub fn is_complete(&self) -> bool {
        self.records.is_complete() && self.parts.iter().all(Store::is_complete)
    }

    /// The HSMDevices that an object of ours is for: by its labels and owners, whether or not they still exist.
    pub fn devices_of(&self, object: &Meta) -> BTreeSet<ObjectRef> {
        let mut keys = BTreeSet::new();
        self.devices.for_each(|device| {
            let key = &device.meta.object;
            if is_for(object, key.namespace().unwrap_or_default(), key.name()) {
                keys.insert(key.clone());
            }
        });
        let owners = object.owners.iter().filter(|owner| owner.kind == DEVICE.kind);
        keys.extend(owners.map(|owner| ObjectRef::new(object.object.namespace(), &owner.name)));
        if keys.is_empty()
            && let Some(name) = object.labels.get(DEVICE_LABEL)
        {
            let there = object.labels.get(DEVICE_NAMESPACE_LABEL).map(String::as_str);
            keys.insert(ObjectRef::new(there.or(object.object.namespace()), name));
        }
        keys
    }

    /// All HSMDevices.
    pub fn all_devices(&self) -> Vec<ObjectRef> {
        let mut all = Vec::new();
        self.devices
            .for_each(|device| all.push(device.meta.object.clone()));
        all
    }

    /// The pools that a change of this one may matter to, and itself.
    pub fn pools_beside(&self, changed: &Watched<SeenPool>) -> BTreeSet<ObjectRef> {
        let mut keys = BTreeSet::from([changed.meta.object.clone()]);
        let status = changed.value.known();
        self.pools.for_each(|pool| {
            if concerns(status, pool.value.known()) {
                keys.insert(pool.meta.object.clone());
            }
        });
        keys
    }

    /// What HSMDevices hold by the status of their pools, but for some of them, in order.
    pub fn claims(&self, but: &BTreeSet<ObjectRef>) -> Vec<Claim> {
        let mut claims = Vec::new();
        self.pools.for_each(|pool| {
            let status = pool.value.known();
            let devices = devices_of_pool(pool)
                .into_iter()
                .filter(|device| !but.contains(device));
            let devices = devices.filter_map(|device| self.devices.get(&device));
            claims.extend(devices.map(|device| Claim::of(&self.view(&device), status)));
        });
        claims.sort_by(|one, other| (&one.device, &one.tokens).cmp(&(&other.device, &other.tokens)));
        claims
    }

    /// Of the agents that a pool waits for, those of which a pod may run.
    pub fn running(&self, pool: &Watched<SeenPool>) -> BTreeSet<ObjectRef> {
        let mut agents = awaited(pool.value.known());
        agents.retain(|agent| {
            let pods = self.pods.under(agent);
            pods.iter().any(|pod| agent_pod(pod).may_run(agent))
        });
        agents
    }

    /// The pools that wait for the agent of a pod.
    pub fn pools_awaiting(&self, pod: &Meta) -> BTreeSet<ObjectRef> {
        let mut keys = BTreeSet::new();
        let Some(agent) = pod.labels.get(APP_LABEL) else {
            return keys;
        };
        let agent = ObjectRef::new(pod.object.namespace(), agent);
        self.pools.for_each(|pool| {
            if awaited(pool.value.known()).contains(&agent) {
                keys.insert(pool.meta.object.clone());
            }
        });
        keys
    }

    /// The names of pools that are for any of these HSMDevices.
    pub fn pools_of(&self, devices: &BTreeSet<ObjectRef>) -> BTreeSet<ObjectRef> {
        let mut keys = BTreeSet::new();
        self.pools.for_each(|pool| {
            if devices.iter().any(|device| is_pool_for(pool, device)) {
                keys.insert(pool.meta.object.clone());
            }
        });
        keys
    }
}

/// A watch of one kind in the namespaces that are served.
struct Within(Kind, Arc<Rules>);

impl Within {
    fn all<P>(self, project: P) -> WatchSpec<P> {
        WatchSpec::new(self.0, project).namespaces(self.1.namespaces.iter().cloned())
    }

    /// Only what bears our mark and is for an HSMDevice.
    fn ours<P>(self, project: P) -> WatchSpec<P> {
        let mark = mark();
        self.all(project)
            .labels(format!("{}={},{DEVICE_LABEL}", mark.key, mark.value))
    }
}

/// The HSMDevices that a pool is for.
pub(crate) fn devices_of_pool(pool: &Watched<SeenPool>) -> BTreeSet<ObjectRef> {
    let namespace = pool.meta.object.namespace();
    let names = device_names(&pool.value.spec, &pool.meta.owners);
    names.iter().map(|name| ObjectRef::new(namespace, name)).collect()
}

fn is_pool_for(pool: &Watched<SeenPool>, device: &ObjectRef) -> bool {
    devices_of_pool(pool).contains(device)
}

pub(crate) fn pool_view(pool: &Watched<SeenPool>) -> PoolView {
    PoolView {
        meta: pool.meta.clone(),
        spec: pool.value.spec.clone(),
        status: pool.value.known().clone(),
        watched: Duration::ZERO,
    }
}
