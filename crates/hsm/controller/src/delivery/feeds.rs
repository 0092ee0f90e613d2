//! Watches what HSMSecrets depend on, and requeues the HSMSecrets that a change concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use trustplane_api::hsm::HSM_SECRET;
use trustplane_api::hsm::delivery::reason;
use trustplane_api::hsm::names::{DELIVERED_LABEL, LOCATIONS, OPERATOR as ORIGINAL};
use trustplane_hsm_core::delivery::locations::Locations;
use trustplane_hsm_core::delivery::{SecretContent, controller_of};
use trustplane_kit::controller::feed;
use trustplane_kit::manager::Workbench;
use trustplane_kit::queue::{Lane, Queue};
use trustplane_kit::watch::{Change, Store, Subscription, WatchSpec, Watched};
use trustplane_plan::ObjectRef;
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};

use super::seen::{self, HsmSecrets, SeenHsmSecret, at_location};
use crate::assembly::DeliveryRules;
use crate::feeds::Feed;
use crate::seen::SeenDevice;

/// The watch stores for HSMSecrets.
pub(crate) struct Delivered {
    pub secrets: Store<SeenHsmSecret>,
    pub delivered: Store<SecretContent>,
    pub claims: Store<Locations>,
}

/// The subscriptions to changes.
pub(crate) struct DeliveryFeeds {
    secrets: Subscription<SeenHsmSecret>,
    delivered: Subscription<SecretContent>,
    claims: Subscription<Locations>,
}

/// Watches HSMSecrets and their Secrets in the namespaces that are served.
pub(crate) fn watch(bench: &Workbench, rules: &DeliveryRules) -> (Delivered, DeliveryFeeds) {
    let watches = &bench.watches;
    let project = HsmSecrets {
        operator: Arc::new(rules.operator.clone()),
        tenancy: rules.tenancy,
    };
    let feeds = DeliveryFeeds {
        secrets: watches.subscribe(within(WatchSpec::new(HSM_SECRET, project), rules)),
        delivered: watches.subscribe(
            within(WatchSpec::new(SECRET, seen::Delivered), rules)
                .labels(format!("{DELIVERED_LABEL}={ORIGINAL}")),
        ),
        claims: watches.subscribe(
            WatchSpec::new(CONFIG_MAP, seen::Claims)
                .namespaces([bench.namespace.to_string()])
                .fields(format!("metadata.name={LOCATIONS}")),
        ),
    };
    let stores = Delivered {
        secrets: feeds.secrets.store(),
        delivered: feeds.delivered.store(),
        claims: feeds.claims.store(),
    };
    (stores, feeds)
}

fn within<P>(spec: WatchSpec<P>, rules: &DeliveryRules) -> WatchSpec<P> {
    match rules.namespaces.is_empty() {
        true => spec,
        false => spec.namespaces(rules.namespaces.iter().cloned()),
    }
}

impl DeliveryFeeds {
    /// The feeds that requeue HSMSecrets.
    pub fn into_feeds(
        self,
        devices: Subscription<SeenDevice>,
        secrets: &Store<SeenHsmSecret>,
        queue: &Queue<ObjectRef>,
    ) -> Vec<Feed> {
        let (of_secrets, of_delivered) = (secrets.clone(), secrets.clone());
        let (of_claims, of_devices) = (secrets.clone(), secrets.clone());
        let itself = move |change: &Change<SeenHsmSecret>| beside(&of_secrets, change);
        let owner = move |change: &Change<SecretContent>| owners(&of_delivered, change);
        let tenants = move |_: &Change<Locations>| refused(&of_claims);
        let all = move |_: &Change<SeenDevice>| everyone(&of_devices);
        let lane = |_: &Change<SeenHsmSecret>| Lane::Normal;
        vec![
            (
                "hsm-secret-secrets",
                Box::pin(feed(self.secrets, queue.clone(), lane, itself)),
            ),
            (
                "hsm-delivered-secrets",
                Box::pin(feed(self.delivered, queue.clone(), |_| Lane::Normal, owner)),
            ),
            (
                "hsm-claim-secrets",
                Box::pin(feed(self.claims, queue.clone(), |_| Lane::Normal, tenants)),
            ),
            (
                "hsm-device-secrets",
                Box::pin(feed(devices, queue.clone(), |_| Lane::Bulk, all)),
            ),
        ]
    }
}

/// The changed HSMSecret, and the HSMSecrets in conflict that want the same Secret or location.
fn beside(secrets: &Store<SeenHsmSecret>, change: &Change<SeenHsmSecret>) -> BTreeSet<ObjectRef> {
    let mut keys = BTreeSet::from([change.object().clone()]);
    let seen = match change {
        Change::Applied { object, .. } => Some(object),
        Change::Deleted { last, .. } => last.as_ref(),
    };
    if let Some(placement) = seen.and_then(|seen| seen.value.placement.as_ref().ok()) {
        let names = [placement.secret.clone(), at_location(placement.path.as_str())];
        let others = names.iter().flat_map(|name| secrets.under(name));
        keys.extend(
            others
                .filter(is_in_conflict)
                .map(|other| other.meta.object.clone()),
        );
    }
    keys
}

fn is_in_conflict(secret: &Arc<Watched<SeenHsmSecret>>) -> bool {
    secret.value.conflict().is_some()
}

/// The HSMSecret that controls the changed Secret, and the HSMSecrets that want a Secret of its name.
fn owners(secrets: &Store<SeenHsmSecret>, change: &Change<SecretContent>) -> BTreeSet<ObjectRef> {
    let wanting = secrets.under(change.object()).into_iter();
    let mut keys: BTreeSet<ObjectRef> = wanting.map(|secret| secret.meta.object.clone()).collect();
    let meta = match change {
        Change::Applied { object, .. } => Some(&object.meta),
        Change::Deleted { last, .. } => last.as_ref().map(|last| &last.meta),
    };
    keys.extend(meta.and_then(controller_of));
    keys
}

/// The HSMSecrets that are refused because another namespace has their location.
fn refused(secrets: &Store<SeenHsmSecret>) -> Vec<ObjectRef> {
    let mut keys = Vec::new();
    secrets.for_each(|secret| {
        if secret.value.conflict() == Some(reason::LOCATION_TAKEN) {
            keys.push(secret.meta.object.clone());
        }
    });
    keys
}

fn everyone(secrets: &Store<SeenHsmSecret>) -> Vec<ObjectRef> {
    let mut keys = Vec::new();
    secrets.for_each(|secret| keys.push(secret.meta.object.clone()));
    keys
}
