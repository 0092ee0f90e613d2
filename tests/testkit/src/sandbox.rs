//! A namespace of its own for every test.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Config};

use crate::{Account, ControlPlane, DEADLINE, Instance, Rules, until};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A fresh namespace on a control plane. It goes with the value, unless the test failed: then it stays to be looked at.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// use trustplane_testkit::{Rules, Sandbox};
///
/// let sandbox = Sandbox::new("mirror").await?;
/// let rules = Rules::default().allow("", "configmaps", &["get", "list", "watch"]);
/// let account = sandbox.apply_rbac("manager", &rules).await?;
/// let client = account.instance("a").await?.client()?;
/// # Ok(())
/// # }
/// ```
pub struct Sandbox {
    plane: Arc<ControlPlane>,
    namespace: String,
    client: Client,
}

impl Sandbox {
    /// A namespace on the control plane of this test run.
    pub async fn new(name: &str) -> Result<Self> {
        Self::on(ControlPlane::shared().await?, name).await
    }

    /// A namespace on a control plane of the caller's choice.
    pub async fn on(plane: Arc<ControlPlane>, name: &str) -> Result<Self> {
        let namespace = format!("{name}-{:08x}", rand::random::<u32>());
        let client = plane.client()?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let wish = Namespace {
            metadata: named(&namespace),
            ..Namespace::default()
        };
        namespaces
            .create(&PostParams::default(), &wish)
            .await
            .with_context(|| format!("create the namespace {namespace}"))?;
        Ok(Self {
            plane,
            namespace,
            client,
        })
    }

    /// The control plane it is on.
    pub fn plane(&self) -> &Arc<ControlPlane> {
        &self.plane
    }

    /// Its name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A client that may do anything: the hand of the test, never of a controller.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The objects of a kind in this namespace, for the hand of the test.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// A client with a fresh token of an account, as an instance of the account's name.
    pub async fn client_as(&self, account: &Account) -> Result<Client> {
        account.instance(&account.name).await?.client()
    }

    /// Makes a service account with exactly these rights, and waits until the API server grants them.
    pub async fn apply_rbac(&self, account: &str, rules: &Rules) -> Result<Account> {
        let accounts: Api<ServiceAccount> = self.api();
        let wish = ServiceAccount {
            metadata: named(account),
            ..ServiceAccount::default()
        };
        accounts
            .create(&PostParams::default(), &wish)
            .await
            .with_context(|| format!("create the service account {account}"))?;
        let account = Account {
            admin: self.plane.config().clone(),
            namespace: self.namespace.clone(),
            name: account.to_owned(),
            rules: rules.clone(),
        };
        self.make_kept_secrets(rules).await?;
        if !rules.namespaced.is_empty() {
            self.bind_in_namespace(&account).await?;
        }
        if !rules.cluster.is_empty() {
            self.bind_in_cluster(&account).await?;
        }
        for rule in &rules.namespaced {
            self.wait_until_granted(&account, rule, Some(&self.namespace))
                .await?;
        }
        for rule in &rules.cluster {
            self.wait_until_granted(&account, rule, None).await?;
        }
        Ok(account)
    }

    /// Gives an account rights in another namespace too, and waits until the API server grants them. They are no part of
    /// [`Account::rules`], and do not go with the sandbox: only on a control plane of one's own, or a borrowed one.
    pub async fn grant_in(&self, namespace: &str, account: &Account, rules: &[PolicyRule]) -> Result<()> {
        let metadata = self.cluster_scoped(&account.name);
        let name = metadata.name.clone().unwrap_or_default();
        let role = Role {
            metadata: metadata.clone(),
            rules: Some(rules.to_vec()),
        };
        let binding = RoleBinding {
            metadata,
            role_ref: role_ref("Role", &name),
            subjects: Some(vec![subject(account)]),
        };
        let roles: Api<Role> = Api::namespaced(self.client(), namespace);
        let bindings: Api<RoleBinding> = Api::namespaced(self.client(), namespace);
        let made = roles.create(&PostParams::default(), &role).await;
        made.with_context(|| format!("create a role in {namespace}"))?;
        let made = bindings.create(&PostParams::default(), &binding).await;
        made.with_context(|| format!("bind a role in {namespace}"))?;
        for rule in rules {
            self.wait_until_granted(account, rule, Some(namespace)).await?;
        }
        Ok(())
    }

    /// An account and one instance of it: what most tests want.
    pub async fn instance(&self, account: &str, rules: &Rules) -> Result<Instance> {
        self.apply_rbac(account, rules).await?.instance(account).await
    }

    /// Makes the Secrets that the rights name, empty, as the chart does: a process has no right to create them.
    async fn make_kept_secrets(&self, rules: &Rules) -> Result<()> {
        let about_secrets = |rule: &&PolicyRule| rule.resources.iter().flatten().any(|r| r == "secrets");
        let named_in = rules.namespaced.iter().filter(about_secrets);
        for name in named_in.flat_map(|rule| rule.resource_names.iter().flatten()) {
            let secret = Secret {
                metadata: named(name),
                ..Secret::default()
            };
            self.api::<Secret>()
                .create(&PostParams::default(), &secret)
                .await
                .with_context(|| format!("create the Secret {name}"))?;
        }
        Ok(())
    }

    async fn bind_in_namespace(&self, account: &Account) -> Result<()> {
        let role = Role {
            metadata: named(&account.name),
            rules: Some(account.rules.namespaced.clone()),
        };
        let binding = RoleBinding {
            metadata: named(&account.name),
            role_ref: role_ref("Role", &account.name),
            subjects: Some(vec![subject(account)]),
        };
        let (roles, bindings): (Api<Role>, Api<RoleBinding>) = (self.api(), self.api());
        roles
            .create(&PostParams::default(), &role)
            .await
            .context("create a role")?;
        bindings
            .create(&PostParams::default(), &binding)
            .await
            .context("bind a role")?;
        Ok(())
    }

    async fn bind_in_cluster(&self, account: &Account) -> Result<()> {
        let metadata = self.cluster_scoped(&account.name);
        let name = metadata.name.clone().unwrap_or_default();
        let role = ClusterRole {
            metadata: metadata.clone(),
            rules: Some(account.rules.cluster.clone()),
            ..ClusterRole::default()
        };
        let binding = ClusterRoleBinding {
            metadata,
            role_ref: role_ref("ClusterRole", &name),
            subjects: Some(vec![subject(account)]),
        };
        let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
            (Api::all(self.client()), Api::all(self.client()));
        roles
            .create(&PostParams::default(), &role)
            .await
            .context("create a cluster role")?;
        bindings
            .create(&PostParams::default(), &binding)
            .await
            .context("bind a cluster role")?;
        Ok(())
    }

    /// The metadata of a cluster-scoped object that goes with the sandbox.
    pub(crate) fn cluster_scoped(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            labels: Some([(SANDBOX_LABEL.to_owned(), self.namespace.clone())].into()),
            ..named(&format!("{}-{name}", self.namespace))
        }
    }

    /// The authorizer learns of roles by a watch of its own, a moment after they were written.
    async fn wait_until_granted(
        &self,
        account: &Account,
        rule: &PolicyRule,
        namespace: Option<&str>,
    ) -> Result<()> {
        let first = |list: &Option<Vec<String>>| list.iter().flatten().next().cloned();
        let Some(resource) = first(&rule.resources) else {
            return Ok(());
        };
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
            None => (resource, None),
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(account.user()),
                resource_attributes: Some(ResourceAttributes {
                    group: first(&rule.api_groups),
                    resource: Some(resource),
                    subresource,
                    verb: rule.verbs.first().cloned(),
                    name: first(&rule.resource_names),
                    namespace: namespace.map(str::to_owned),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client());
        until("the rights of an account", DEADLINE, || async {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            Ok(answer.status.is_some_and(|status| status.allowed).then_some(()))
        })
        .await
    }
}

/// Marks the cluster-scoped objects that belong to a sandbox.
pub(crate) const SANDBOX_LABEL: &str = "test.trustplane.io/sandbox";

impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let (config, namespace) = (self.plane.config().clone(), self.namespace.clone());
        // A thread of its own: the runtime of the test may be on its way out, and cannot be blocked on.
        let removal = std::thread::spawn(move || remove(config, &namespace));
        match removal.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(
                namespace = self.namespace,
                "could not remove a sandbox: {error:#}"
            ),
            Err(_) => tracing::warn!(
                namespace = self.namespace,
                "could not remove a sandbox: it panicked"
            ),
        }
    }
}

fn remove(config: Config, namespace: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let removal = async {
        let client = Client::try_from(config)?;
        let selector = kube::api::ListParams::default().labels(&format!("{SANDBOX_LABEL}={namespace}"));
        let background = DeleteParams::background();
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        webhooks.delete_collection(&background, &selector).await?;
        let webhooks: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        webhooks.delete_collection(&background, &selector).await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
        bindings.delete_collection(&background, &selector).await?;
        let roles: Api<ClusterRole> = Api::all(client.clone());
        roles.delete_collection(&background, &selector).await?;
        let namespaces: Api<Namespace> = Api::all(client);
        namespaces.delete(namespace, &background).await?;
        anyhow::Ok(())
    };
    runtime.block_on(async {
        match tokio::time::timeout(std::time::Duration::from_secs(5), removal).await {
            Ok(result) => result,
            Err(_) => bail!("the API server did not answer"),
        }
    })
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn subject(account: &Account) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.name.clone(),
        namespace: Some(account.namespace.clone()),
        ..Subject::default()
    }
}
