//! What the admin has set in the cluster: policies, stores and the labels of namespaces. The capability can do without stores
//! and labels: a kind that is not served, or that we may not see, counts as empty. Policies that cannot be seen deny.

use std::sync::Arc;

use futures::future::BoxFuture;
use trustplane_api::sync::{POLICY, STORE};
use trustplane_kit::controller::{Controller, Runner, feed};
use trustplane_kit::manager::Workbench;
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::watch::{Change, Metadata, Subscription, WatchSpec};
use trustplane_plan::kinds::NAMESPACE;
use trustplane_plan::{Keep, ObjectRef};
use trustplane_sync_core::policy::Policy;
use trustplane_sync_providers::Exchange;

use crate::args::PolicyMode;
use crate::asks::PodRequests;
use crate::authority::{Authority, Policies, PolicyStore};
use crate::stores::{Configured, StoreObjects};

/// What the admin has set, as it is watched.
pub(crate) struct World {
    policies: Option<Subscription<Arc<Policy>>>,
    policy: PolicyMode,
    must_be_seen: bool,
    pub stores: Subscription<Option<Arc<Configured>>>,
    namespaces: Subscription<()>,
}

impl World {
    /// `everywhere` tells whether all namespaces are served: then we have the right to see policies, and must.
    pub fn watch(bench: &Workbench, policy: PolicyMode, everywhere: bool) -> Self {
        let watches = &bench.watches;
        Self {
            policies: (policy != PolicyMode::Off)
                .then(|| watches.subscribe(WatchSpec::new(POLICY, Policies))),
            policy,
            must_be_seen: everywhere,
            stores: watches.subscribe(WatchSpec::new(STORE, StoreObjects)),
            namespaces: watches.subscribe(WatchSpec::new(NAMESPACE, Metadata(Keep::default()))),
        }
    }

    pub fn authority(&self) -> Authority {
        Authority {
            policies: self.policy_store(),
            stores: self.stores.store(),
            namespaces: self.namespaces.store(),
        }
    }

    fn policy_store(&self) -> Option<PolicyStore> {
        self.policies.as_ref().map(|policies| PolicyStore {
            store: policies.store(),
            is_trial: self.policy == PolicyMode::Audit,
            must_be_seen: self.must_be_seen,
        })
    }

    /// Nothing is judged before it is known what there is to judge by.
    pub fn awaited_by<C: Controller>(&self, runner: Runner<C>) -> Runner<C> {
        let runner = runner
            .after_store_if_any(&self.stores.store())
            .after_store_if_any(&self.namespaces.store());
        match &self.policies {
            Some(policies) => runner.after_store_if_any(&policies.store()),
            None => runner,
        }
    }

    /// Whatever changes, the Secrets that it may matter to are looked at again.
    pub fn feeds(
        self,
        queue: &Queue<ObjectRef>,
        requests: &Arc<PodRequests>,
        exchange: &Exchange,
    ) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let (of_stores, of_namespaces) = (requests.clone(), requests.clone());
        let exchange = exchange.clone();
        let stores = move |change: &Change<Option<Arc<Configured>>>| {
            if let Change::Deleted { object, .. } = change {
                exchange.close(object.name());
            }
            of_stores.secrets(None)
        };
        let namespaces = move |change: &Change<()>| of_namespaces.secrets(Some(change.object().name()));
        let policy_store = self.policy_store();
        let mut feeds: Vec<(&'static str, BoxFuture<'static, ()>)> = vec![
            (
                "sync-stores",
                Box::pin(feed(self.stores, queue.clone(), |_| Lane::Bulk, stores)),
            ),
            (
                "sync-namespaces",
                Box::pin(feed(self.namespaces, queue.clone(), |_| Lane::Bulk, namespaces)),
            ),
        ];
        if let Some(store) = policy_store {
            let sight = follow_sight(store, queue.clone(), requests.clone());
            feeds.push(("sync-policies-seen", Box::pin(sight)));
        }
        if let Some(policies) = self.policies {
            let requests = requests.clone();
            let all = move |_: &Change<Arc<Policy>>| requests.secrets(None);
            feeds.push((
                "sync-policies",
                Box::pin(feed(policies, queue.clone(), |_| Lane::Bulk, all)),
            ));
        }
        feeds
    }
}

/// Whether policies can be seen changes what is allowed, also if none of them changes: all Secrets are looked at again.
async fn follow_sight(policies: PolicyStore, queue: Queue<ObjectRef>, requests: Arc<PodRequests>) {
    let mut standing = policies.store.standing();
    let mut known = true;
    loop {
        let now = policies.is_known();
        if now != known {
            let health = policies.store.health().as_str();
            match now {
                true => tracing::info!("policies can be read again"),
                false => tracing::error!(
                    health,
                    "SecretSyncPolicies cannot be read, so every request is denied: install the definition, grant list and \
                     watch, or run with --sync-policy=off"
                ),
            }
            known = now;
            for secret in requests.secrets(None) {
                queue.add(secret, Lane::Bulk);
            }
        }
        if standing.changed().await.is_err() {
            return;
        }
    }
}
