//! What decides about requests: the policies, and what they ask about a pod.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::try_join_all;
use jiff::Timestamp;
use serde::Deserialize;
use trustplane_api::sync::{PolicySpec, Quota};
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::watch::{Health, Payload, Project, ProjectError, Standing, Store, Watched};
use trustplane_plan::kinds::POD;
use trustplane_plan::{Meta, ObjectRef};
use trustplane_sync_core::fetch::FetchError;
use trustplane_sync_core::namespace::chooses;
use trustplane_sync_core::pod::Pod;
use trustplane_sync_core::policy::{Policy, Rules};
use trustplane_sync_core::quota::Bucket;
use trustplane_sync_core::situation::Stores;

use crate::stores::Configured;

/// Policies, ready to judge. One that cannot be read is kept as one that denies everything.
pub(crate) struct Policies;

#[derive(Deserialize)]
struct Object {
    spec: PolicySpec,
}

impl Project for Policies {
    type Out = Arc<Policy>;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn project(&self, meta: &Meta, json: &str) -> Result<Self::Out, ProjectError> {
        let policy = match serde_json::from_str::<Object>(json) {
            Ok(object) => Policy::new(&object.spec),
            Err(error) => {
                let column = error.column();
                tracing::error!(policy = %meta.object, column, "a policy cannot be read, so it denies everything");
                Policy::unreadable()
            }
        };
        Ok(Arc::new(policy))
    }
}

/// All policies of the cluster, and whether it is known which there are.
#[derive(Clone)]
pub(crate) struct PolicyStore {
    pub store: Store<Arc<Policy>>,
    /// Whether they deny nothing, and only what they would deny is told.
    pub is_trial: bool,
    /// Whether we must be able to see them: a process that is kept to some namespaces has no right to what is cluster-wide.
    pub must_be_seen: bool,
}

impl PolicyStore {
    /// Whether it is known which policies there are. What cannot be read is not absent: it may be meant to deny.
    pub fn is_known(&self) -> bool {
        let standing = *self.store.standing().borrow();
        are_known(standing, self.must_be_seen) && self.store.unreadable().is_empty()
    }
}

/// Who was never let see policies, and does not have to, goes by the built-in rule. Who has seen them, and may not any more, does
/// not know what they say now.
fn are_known(standing: Standing, must_be_seen: bool) -> bool {
    let is_refused = matches!(standing.health, Health::NotServed | Health::Forbidden);
    !is_refused || !(must_be_seen || standing.ready)
}

/// What decides about requests.
pub(crate) struct Authority {
    /// The policies. Without them, nothing is judged.
    pub policies: Option<PolicyStore>,
    /// All stores; none if the kind is not served, or not for us to see.
    pub stores: Store<Option<Arc<Configured>>>,
    /// All namespaces by their metadata; none if they are not for us to see.
    pub namespaces: Store<()>,
}

impl Authority {
    /// What decides in a namespace.
    pub fn rules(&self, namespace: &str) -> Rules {
        let Some(policies) = &self.policies else {
            return Rules::off();
        };
        match (policies.is_known(), policies.is_trial) {
            (false, true) => return Rules::off(),
            (false, false) => return Rules::unreadable(),
            (true, _) => {}
        }
        let all: Vec<Arc<Policy>> = policies
            .store
            .list()
            .iter()
            .map(|policy| policy.value.clone())
            .collect();
        let known = self.namespace(namespace);
        let labels = known.as_ref().map(|known| &known.meta.labels);
        match policies.is_trial {
            true => Rules::tried(&all, namespace, labels),
            false => Rules::of(&all, namespace, labels),
        }
    }

    /// The stores that these pods name and their namespace may use.
    pub fn stores(&self, namespace: &str, pods: &[Pod]) -> Stores {
        let mut stores = Stores::new();
        for name in pods.iter().flat_map(|pod| pod.asks.stores()) {
            let Some(store) = self.store(name) else {
                continue;
            };
            let known = self.namespace(namespace);
            let labels = known.as_ref().map(|known| &known.meta.labels);
            if chooses(store.spec.namespace_selector.as_ref(), namespace, labels) == Some(true) {
                stores.insert(name.to_owned(), store.view());
            }
        }
        stores
    }

    fn store(&self, name: &str) -> Option<Arc<Configured>> {
        self.stores.get(&ObjectRef::new(None, name))?.value.clone()
    }

    fn namespace(&self, name: &str) -> Option<Arc<Watched<()>>> {
        self.namespaces.get(&ObjectRef::new(None, name))
    }
}

/// As whom pods run: asked only where a policy wants to know, and remembered, because it never changes.
#[derive(Default)]
pub(crate) struct Accounts(Mutex<HashMap<ObjectRef, Known>>);

/// As whom the pod of this uid runs.
struct Known {
    uid: Arc<str>,
    account: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Running {
    metadata: Identity,
    spec: Spec,
}

#[derive(Deserialize)]
struct Identity {
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    service_account_name: String,
}

impl Accounts {
    /// Fills in as whom these pods run. Of a pod that is gone it stays unknown.
    pub async fn fill(&self, pods: &mut [Pod], writer: &Writer) -> Result<(), WriteError> {
        let found = pods.iter().map(|pod| self.of(pod, writer));
        let found = try_join_all(found).await?;
        for (pod, account) in pods.iter_mut().zip(found) {
            pod.service_account = account;
        }
        Ok(())
    }

    /// As whom a pod runs that has a provider asked on behalf of its account.
    pub async fn asking(&self, pod: &Pod, writer: &Writer) -> Result<Arc<str>, FetchError> {
        let unavailable = |what: String| FetchError::Unavailable { what };
        let found = self.of(pod, writer).await;
        let found = found.map_err(|error| unavailable(format!("the pod cannot be read: {error}")))?;
        found.ok_or_else(|| unavailable("the pod is gone".to_owned()))
    }

    /// Drops what is known of a pod.
    pub fn forget(&self, pod: &ObjectRef) {
        self.lock().remove(pod);
    }

    async fn of(&self, pod: &Pod, writer: &Writer) -> Result<Option<Arc<str>>, WriteError> {
        if let Some(known) = self.lock().get(&pod.object)
            && known.uid == pod.uid
        {
            return Ok(Some(known.account.clone()));
        }
        let live: Option<Running> = writer.get_slim(&POD, &pod.object).await?;
        let Some(live) = live.filter(|live| *live.metadata.uid == *pod.uid) else {
            return Ok(None);
        };
        let account: Arc<str> = live.spec.service_account_name.into();
        let known = Known {
            uid: pod.uid.clone(),
            account: account.clone(),
        };
        self.lock().insert(pod.object.clone(), known);
        Ok(Some(account))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often each namespace has made us ask of late.
#[derive(Default)]
pub(crate) struct Quotas(Mutex<HashMap<String, Bucket>>);

impl Quotas {
    /// Takes one question out of the bucket of a namespace. If there is none, says when there is one again.
    pub fn take(&self, namespace: &str, quota: Quota, now: Timestamp) -> Result<(), Duration> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(namespace) {
            buckets.retain(|_, bucket| !bucket.is_full(quota, now));
        }
        let bucket = buckets
            .entry(namespace.to_owned())
            .or_insert_with(|| Bucket::full(quota, now));
        bucket.take(quota, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trustplane_api::sync::POLICY;
    use trustplane_kit::watch::{Tuning, WatchSpec, Watches};
    use trustplane_process::metrics::Metrics;

    use super::*;
    use crate::fake_api::with_object;

    #[tokio::test]
    async fn policy_with_malformed_metadata_is_not_absent() {
        for (labels, is_known) in [(json!({}), true), (json!(1), false)] {
            let metadata = json!({"name": "p", "uid": "u", "resourceVersion": "5", "labels": labels});
            let client = with_object(&POLICY, &json!({"metadata": metadata, "spec": {"rules": []}}));
            let watches = Watches::new(client, Tuning::default(), &Metrics::new());
            let watch = watches.subscribe(WatchSpec::new(POLICY, Policies));
            watch.store().ready().await.unwrap();
            let policies = PolicyStore {
                store: watch.store(),
                is_trial: false,
                must_be_seen: true,
            };
            assert_eq!(policies.is_known(), is_known, "{labels}");
        }
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_kept_as_one_that_denies() {
        let meta = Meta::decode(r#"{"metadata":{"name":"p","uid":"u"}}"#, &Policies.keep()).unwrap();
        let read = |text: &str| Policies.project(&meta, text).unwrap();
        assert_eq!(*read(r#"{"spec":{"rules":"x"}}"#), Policy::unreadable());
        assert_ne!(*read(r#"{"spec":{"rules":[]}}"#), Policy::unreadable());
    }

    #[test]
    fn policies_that_were_refused_are_not_absent() {
        let standing = |health, ready| Standing {
            health,
            ready,
            complete: ready,
        };
        for refused in [Health::Forbidden, Health::NotServed] {
            assert!(!are_known(standing(refused, false), true));
            assert!(!are_known(standing(refused, true), true));
            assert!(
                !are_known(standing(refused, true), false),
                "they were seen before"
            );
            assert!(
                are_known(standing(refused, false), false),
                "kept to some namespaces"
            );
        }
        assert!(are_known(standing(Health::Ready, true), true));
        let outage = Health::Failing {
            since: std::time::Instant::now(),
            reason: trustplane_kit::watch::Reason::Connection,
        };
        assert!(
            are_known(standing(outage, true), true),
            "the last policies that were seen count"
        );
    }

    #[test]
    fn namespaces_do_not_share_a_bucket_and_full_ones_are_forgotten() {
        let (quotas, now) = (Quotas::default(), Timestamp::UNIX_EPOCH);
        let quota = Quota {
            per_minute: 60,
            burst: 1,
        };
        assert_eq!(quotas.take("a", quota, now), Ok(()));
        assert!(quotas.take("a", quota, now).is_err());
        assert_eq!(quotas.take("b", quota, now), Ok(()));
        let later = Timestamp::from_second(60).unwrap();
        assert_eq!(quotas.take("c", quota, later), Ok(()));
        assert_eq!(quotas.0.lock().unwrap().len(), 1);
    }
}
