//! What is watched.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use trustplane_api::identity::names::{self, MANAGED_BY, SINGLETON};
use trustplane_api::identity::{CLUSTER_SPIFFE_ID, OperandKind, ZTWIM};
use trustplane_identity_core::Settings;
use trustplane_identity_core::children::operand_of;
use trustplane_identity_core::decide::Seen;
use trustplane_identity_core::health::Workload;
use trustplane_kit::controller::{Controller, Runner, feed};
use trustplane_kit::manager::Workbench;
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::watch::{Change, Metadata, Slim, Store, Subscription, WatchSpec, Watched};
use trustplane_plan::kinds::{
    CLUSTER_ROLE_BINDING, CONFIG_MAP, CSI_DRIVER, DAEMON_SET, DEPLOYMENT, POD_DISRUPTION_BUDGET, ROLE,
    ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET, VALIDATING_WEBHOOKS,
};
use trustplane_plan::{Keep, Kind, Meta, ObjectRef, Scope};

use crate::seen::{SeenConfigMap, SeenObject, SeenWorkload};
use crate::{config, operands};

/// The kinds of children of which the stores keep only metadata.
const PARTS: [Kind; 10] = [
    SERVICE_ACCOUNT,
    SERVICE,
    ROLE,
    ROLE_BINDING,
    POD_DISRUPTION_BUDGET,
    SECRET,
    CLUSTER_ROLE_BINDING,
    VALIDATING_WEBHOOKS,
    CSI_DRIVER,
    CLUSTER_SPIFFE_ID,
];
const WORKLOADS: [Kind; 3] = [STATEFUL_SET, DAEMON_SET, DEPLOYMENT];

/// A task with its name.
pub(crate) type Feed = (&'static str, BoxFuture<'static, ()>);

/// Everything that the controllers look at. A cheap clone.
#[derive(Clone)]
pub(crate) struct World {
    pub settings: Arc<Settings>,
    managers: Store<SeenObject>,
    operands: Vec<(OperandKind, Store<SeenObject>)>,
    workloads: Vec<(Kind, Store<SeenWorkload>)>,
    /// All ConfigMaps in the namespaces of SPIRE: the one with the bundle need not be ours.
    config_maps: Store<SeenConfigMap>,
    parts: Vec<(Kind, Store<()>)>,
}

/// The key of the controller of ZTWIM: there is one.
pub(crate) fn singleton() -> ObjectRef {
    ObjectRef::new(None, SINGLETON)
}

/// The key of an operand: the name of its kind.
pub(crate) fn key_of(operand: OperandKind) -> ObjectRef {
    ObjectRef::new(None, operand.as_str())
}

/// The operand of a key.
pub(crate) fn operand_at(key: &ObjectRef) -> Option<OperandKind> {
    OperandKind::ALL
        .into_iter()
        .find(|operand| operand.as_str() == key.name())
}

impl World {
    /// Watches our kinds, and the children in the namespaces in which SPIRE may run; gives what feeds both queues.
    pub fn watch(
        bench: &Workbench,
        settings: Arc<Settings>,
        config: &Queue<ObjectRef>,
        operands: &Queue<ObjectRef>,
    ) -> (Self, Vec<Feed>) {
        let mut feeds: Vec<Feed> = Vec::new();
        let watches = &bench.watches;
        let annotated = || Slim::<SeenObject>::new(Keep::owned_by(config::MANAGER));
        let named = format!("metadata.name={SINGLETON}");
        let mut ours = |kind: &Kind, name: &'static str| {
            let spec = || WatchSpec::new(kind.clone(), annotated()).fields(&*named);
            let (first, second) = (watches.subscribe(spec()), watches.subscribe(spec()));
            let store = first.store();
            let to_config = |_: &Change<SeenObject>| [singleton()];
            let to_operands = |_: &Change<SeenObject>| OperandKind::ALL.map(key_of);
            feeds.push((name, Box::pin(feed(first, config.clone(), normal, to_config))));
            feeds.push((
                name,
                Box::pin(feed(second, operands.clone(), normal, to_operands)),
            ));
            store
        };
        let managers = ours(&ZTWIM, "identity-ztwim");
        let operand_stores = OperandKind::ALL
            .into_iter()
            .map(|operand| (operand, ours(operand.kind(), "identity-operand")))
            .collect();
        let mark = format!("app.kubernetes.io/managed-by={MANAGED_BY}");
        let owned = || Keep::owned_by(operands::MANAGER);
        let here = settings.namespaces.clone();
        let workloads = WORKLOADS.map(|kind| {
            let spec = WatchSpec::new(kind.clone(), Slim::<SeenWorkload>::new(owned()));
            let seen = watches.subscribe(spec.namespaces(here.clone()).labels(&*mark));
            let store = seen.store();
            feeds.push(("identity-workload", of_children(seen, operands)));
            (kind, store)
        });
        let parts = PARTS.map(|kind| {
            let spec = WatchSpec::new(kind.clone(), Metadata(owned())).labels(&*mark);
            let seen = watches.subscribe(match kind.scope {
                Scope::Namespaced => spec.namespaces(here.clone()),
                Scope::Cluster => spec,
            });
            let store = seen.store();
            feeds.push(("identity-part", of_children(seen, operands)));
            (kind, store)
        });
        let spec = WatchSpec::new(CONFIG_MAP, Slim::<SeenConfigMap>::new(owned()));
        let seen = watches.subscribe(spec.namespaces(here));
        let config_maps = seen.store();
        // All operands look when a ConfigMap changes: agents wait for the one with the bundle, which a person may have made.
        let keys = |_: &Change<SeenConfigMap>| OperandKind::ALL.map(key_of);
        feeds.push((
            "identity-config-map",
            Box::pin(feed(seen, operands.clone(), normal, keys)),
        ));
        let world = Self {
            settings,
            managers,
            operands: operand_stores,
            workloads: workloads.into(),
            config_maps,
            parts: parts.into(),
        };
        (world, feeds)
    }

    /// Has the runner of ZTWIM wait for what people write.
    pub fn gate_config<C: Controller>(&self, runner: Runner<C>) -> Runner<C> {
        let runner = runner.after_store(&self.managers);
        let operands = self.operands.iter();
        operands.fold(runner, |runner, (_, store)| runner.after_store(store))
    }

    /// Has a runner wait for everything that is known, and remove nothing while a part of it may be out of date.
    ///
    /// It does not wait for a namespace that we may not watch: an operand there has to say so, and the operands may have moved elsewhere. What
    /// a store lacks is looked up before it is made.
    pub fn gate<C: Controller>(&self, mut runner: Runner<C>) -> Runner<C> {
        runner = runner
            .after_store(&self.managers)
            .removals_rest_on(&self.managers);
        for (_, store) in &self.operands {
            runner = runner.after_store(store).removals_rest_on(store);
        }
        for (_, store) in &self.workloads {
            runner = runner.after_store_if_any(store).removals_rest_on(store);
        }
        for (kind, store) in &self.parts {
            runner = match kind.scope {
                Scope::Namespaced => runner.after_store_if_any(store),
                Scope::Cluster => runner.after_store(store),
            }
            .removals_rest_on(store);
        }
        runner
            .after_store_if_any(&self.config_maps)
            .removals_rest_on(&self.config_maps)
    }

    /// ZTWIM, if there is one.
    pub fn manager(&self) -> Option<Seen> {
        self.managers.get(&singleton()).map(|watched| seen(&watched))
    }

    /// The operands that there are.
    pub fn operands(&self) -> BTreeMap<OperandKind, Seen> {
        let operands = self.operands.iter();
        operands
            .filter_map(|(kind, store)| {
                let operand = store.get(&singleton())?;
                Some((*kind, seen(&operand)))
            })
            .collect()
    }

    /// The StatefulSet of the server, as far as it is ours.
    pub fn server(&self) -> Option<Meta> {
        let (_, store) = self.workloads.iter().find(|(kind, _)| *kind == STATEFUL_SET)?;
        let mut server = None;
        store.for_each(|set| {
            if set.meta.object.name() == names::SERVER {
                server = Some(set.meta.clone());
            }
        });
        server
    }

    /// Whether the Deployment of the OIDC discovery provider exists, as far as it is ours.
    pub fn has_discovery(&self) -> bool {
        self.workloads
            .iter()
            .any(|(kind, store)| *kind == DEPLOYMENT && !store.is_empty())
    }

    /// The children of an operand that bear our mark, whoever their operand was.
    pub fn children_of(&self, operand: OperandKind) -> Vec<(Kind, Meta)> {
        let mut children = Vec::new();
        let mut add = |kind: &Kind, meta: &Meta| {
            if operand_of(meta) == Some(operand) {
                children.push((kind.clone(), meta.clone()));
            }
        };
        for (kind, store) in &self.workloads {
            store.for_each(|workload| add(kind, &workload.meta));
        }
        for (kind, store) in &self.parts {
            store.for_each(|part| add(kind, &part.meta));
        }
        self.config_maps.for_each(|map| add(&CONFIG_MAP, &map.meta));
        children
    }

    /// Whether the lists of children have no hole.
    pub fn is_complete(&self) -> bool {
        self.config_maps.is_complete()
            && self.workloads.iter().all(|(_, store)| store.is_complete())
            && self.parts.iter().all(|(_, store)| store.is_complete())
    }

    /// A workload, as far as it is ours.
    pub fn workload(&self, kind: &Kind, object: &ObjectRef) -> Option<Workload> {
        let (_, store) = self.workloads.iter().find(|(known, _)| known == kind)?;
        Some(store.get(object)?.value.0.clone())
    }

    /// The metadata of a ConfigMap, and whether it has a bundle.
    pub fn config_map(&self, object: &ObjectRef) -> Option<(Meta, bool)> {
        let map = self.config_maps.get(object)?;
        Some((map.meta.clone(), map.value.has_bundle))
    }
}

fn seen(watched: &Watched<SeenObject>) -> Seen {
    Seen {
        meta: watched.meta.clone(),
        spec: watched.value.spec.clone(),
        status: watched.value.status.clone(),
    }
}

fn normal<T>(_: &Change<T>) -> Lane {
    Lane::Normal
}

/// The operands that a child of an operand concerns: the CSI driver goes after the pods of the OIDC discovery provider.
fn concerned(operand: Option<OperandKind>) -> impl Iterator<Item = OperandKind> {
    let driver =
        (operand == Some(OperandKind::SpireOidcDiscoveryProvider)).then_some(OperandKind::SpiffeCsiDriver);
    operand.into_iter().chain(driver)
}

/// Has the operand look whose child has changed.
fn of_children<T: Send + Sync + 'static>(
    seen: Subscription<T>,
    queue: &Queue<ObjectRef>,
) -> BoxFuture<'static, ()> {
    let keys = |change: &Change<T>| {
        let meta = match change {
            Change::Applied { object, .. } => Some(&object.meta),
            Change::Deleted { last, .. } => last.as_ref().map(|last| &last.meta),
        };
        match meta {
            Some(meta) => concerned(operand_of(meta)).map(key_of).collect::<Vec<_>>(),
            None => OperandKind::ALL.map(key_of).to_vec(),
        }
    };
    Box::pin(feed(seen, queue.clone(), normal, keys))
}
