//! Control planes that tests borrow one after the other: a start takes seconds, a borrowing less than one.

use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::control_plane::{self, Options};
use trustplane_cluster::identity::Identity;

use super::{ControlPlane, Hold, VARIABLE, blocking, options, take_slot};
use crate::{DEADLINE, until};

/// How many there are: each takes half a gigabyte.
const LENT: usize = 2;

/// The controllers of workloads are off: see [`ControlPlane::borrowed`].
const CONTROLLERS: &str =
    "--controllers=*,-daemonset-controller,-deployment-controller,-statefulset-controller";

/// Where Services get their addresses: on loopback, so that a webhook behind a Service without pods is refused at once, as kube-proxy has it,
/// and not after the timeout of the webhook.
const SERVICES: &str = "127.96.0.0/16";

/// The selector of the ClusterRoles and ClusterRoleBindings that do not come with Kubernetes.
const NOT_OF_KUBERNETES: &str = "kubernetes.io/bootstrapping!=rbac-defaults";

/// Kinds without a namespace of which a borrower may leave objects on a control plane.
///
/// ```
/// use k8s_openapi::api::storage::v1::CSIDriver;
/// use trustplane_testkit::Leftovers;
///
/// let leftovers = Leftovers::default().of::<CSIDriver>();
/// # let _ = leftovers;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Leftovers(Vec<ApiResource>);

impl Leftovers {
    /// Adds all objects of a kind, which need not be installed.
    #[must_use]
    pub fn of<K>(mut self) -> Self
    where
        K: kube::Resource,
        K::DynamicType: Default,
    {
        self.0.push(ApiResource::erase::<K>(&K::DynamicType::default()));
        self
    }
}

impl ControlPlane {
    /// A control plane that one test after the other borrows: for kinds of which a cluster has one object, and for other objects
    /// without a namespace. It is given back with the value.
    ///
    /// **Guarantees.** No other test uses it meanwhile. What earlier borrowers left is gone: the objects of `leftovers`, also those
    /// with finalizers; all webhook configurations; all ClusterRoles and ClusterRoleBindings that do not come with Kubernetes; all
    /// Roles, RoleBindings and events in the namespace `default`. All namespaces but those of Kubernetes are being deleted. There are at
    /// most two such control planes for each run of tests, and at most two are lent at once, over all processes: a third borrower
    /// waits. They live for the process that runs the tests: `cargo xtask test` ends them, or else the next start of any cluster.
    ///
    /// **Caveats.** Kinds stay installed. The namespace of a failed test stays until the next borrower comes. The controllers of
    /// StatefulSets, DaemonSets and Deployments are off: no pod is made, and a test writes the status of a workload itself. Services have
    /// addresses on loopback. The garbage collector heeds a kind up to 30 seconds after it was installed for the first time.
    pub async fn borrowed(leftovers: &Leftovers) -> Result<Arc<Self>> {
        let (cluster, lock) = blocking(|| {
            let (number, lock) = take_slot(&Cache::locate()?, "lent", LENT)?;
            let runner = runner()?;
            let run = match std::env::var(VARIABLE) {
                Ok(name) if !name.is_empty() => name,
                _ => format!("test-{}", runner.pid()),
            };
            let options = Options {
                owner: Some(runner),
                service_range: SERVICES.to_owned(),
                controller_manager_flags: vec![CONTROLLERS.to_owned()],
                ..options()
            };
            // The name continues that of the run, whose end ends it.
            let name = format!("{run}-lent-{number}");
            Ok((control_plane::ControlPlane::up(&name, &options)?, lock))
        })
        .await
        .context("borrow a control plane")?;
        let plane = Self::reach(cluster, Hold::Lent(lock)).await?;
        plane.clear(leftovers).await?;
        Ok(Arc::new(plane))
    }

    /// Removes what a borrower may have left. Only on a control plane of one's own, or a borrowed one.
    pub async fn clear(&self, leftovers: &Leftovers) -> Result<()> {
        let client = self.client()?;
        let everything = ListParams::default();
        // First, as a webhook whose server is gone would refuse what comes next.
        remove(&all::<ValidatingWebhookConfiguration>(&client), &everything).await?;
        remove(&all::<MutatingWebhookConfiguration>(&client), &everything).await?;
        let not_of_kubernetes = everything.clone().labels(NOT_OF_KUBERNETES);
        remove(&all::<ClusterRoleBinding>(&client), &not_of_kubernetes).await?;
        remove(&all::<ClusterRole>(&client), &not_of_kubernetes).await?;
        for kind in &leftovers.0 {
            remove(&Api::all_with(client.clone(), kind), &everything).await?;
        }
        remove(&in_default::<RoleBinding>(&client), &everything).await?;
        remove(&in_default::<Role>(&client), &everything).await?;
        remove(&in_default::<Event>(&client), &everything).await?;
        let namespaces: Api<Namespace> = Api::all(client);
        for namespace in namespaces.list_metadata(&everything).await? {
            let name = namespace.metadata.name.unwrap_or_default();
            let is_of_kubernetes = name == "default" || name.starts_with("kube-");
            if !is_of_kubernetes && namespace.metadata.deletion_timestamp.is_none() {
                namespaces.delete(&name, &DeleteParams::background()).await?;
            }
        }
        Ok(())
    }
}

/// The process that runs this test and others.
fn runner() -> Result<Identity> {
    let parent = rustix::process::getppid().map(|pid| Identity::of(pid.as_raw_nonzero().get()));
    match parent.transpose()?.flatten() {
        Some(runner) => Ok(runner),
        None => Identity::own(),
    }
}

fn all<K: kube::Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

fn in_default<K: kube::Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "default", &ApiResource::erase::<K>(&()))
}

/// Removes the selected objects, and returns when they are gone.
async fn remove(api: &Api<DynamicObject>, selected: &ListParams) -> Result<()> {
    let what = format!("{} of an earlier test to go", api.resource_url());
    until(&what, DEADLINE, || async {
        let left = match api.list_metadata(selected).await {
            Ok(left) => left.items,
            // The kind is not installed.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            // It was installed a moment ago.
            Err(kube::Error::Api(status)) if status.code == 429 => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("list {}", api.resource_url())),
        };
        for object in &left {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            // A write is refused until the API server has noticed that a webhook is gone: the next round tries again.
            if object.metadata.deletion_timestamp.is_none() {
                let _ = api.delete(name, &DeleteParams::background()).await;
            } else {
                let release = json!({ "metadata": { "finalizers": null } });
                let _ = api
                    .patch_metadata(name, &PatchParams::default(), &Patch::Merge(release))
                    .await;
            }
        }
        Ok(left.is_empty().then_some(()))
    })
    .await
}
